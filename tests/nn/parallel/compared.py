"""The functions that the processes run in the tests of ``--ranks``."""

import time
from contextlib import nullcontext, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import nbgrad
from nbgrad import nn
from nbgrad.core.graph import rank_recorder
from nbgrad.core.graph.rank_part import LEFT, GroupStore
from nbgrad.core.graph.ranks import Ranks
from nbgrad.nn.parallel import DistributedDataParallel
from nbgrad.widgets.describe import describe

CAP = 1e-5
"""The size of a bucket in MiB: about 10 bytes, so that there are several buckets."""


OURS, TORCHS = nn, torch.nn
"""The two libraries whose modules are compared."""


def net(library: Any = OURS, **settings: Any) -> Any:
    torch.manual_seed(0)
    layers = [library.Linear(4, 8), library.Tanh(), library.Linear(8, 1)]
    return library.parallel.DistributedDataParallel(library.Sequential(*layers), bucket_cap_mb=CAP, **settings)


def batch(rank: int) -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4).cos() * (rank + 1)


def local_gradients(rank: int) -> dict[str, torch.Tensor]:
    """The gradients of one process alone, without averaging."""
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    alone(nbgrad.tensor(batch(rank))).square().mean().backward()
    return {name: one.grad.data for name, one in alone.named_parameters()}


def compared(
    rank: int, late: int | None, settings: dict[str, Any], torchs: bool
) -> tuple[Ranks, list[str], dict[str, Any]]:
    """One backward in a graph of each process. The process ``late`` begins its backward later."""
    wrapped = net(TORCHS if torchs else OURS, **settings)
    if torchs:  # torch makes its buckets after the first backward
        wrapped(batch(rank)).mean().backward()
        wrapped.zero_grad()
    with nbgrad.record(view="none", ranks=True) as graph:
        loss = wrapped(batch(rank) if torchs else nbgrad.tensor(batch(rank))).square().mean()
        dist.barrier()
        if rank == late:
            time.sleep(0.3)
        loss.backward()
    found = graph.ranks()
    description = describe(graph)
    assert graph.ranks() is found
    nodes = {node["id"]: node for node in description["nodes"] if node["kind"] == "parameter"}
    overlays = {one["key"]: one for one in description["overlays"]}
    details = {name: [one["text"] for one in node["details"] if one["term"] == "ranks"] for name, node in nodes.items()}
    levels = {name: node["levels"] for name, node in nodes.items()}
    return found, description["notes"], {"overlays": overlays, "details": details, "levels": levels}


def shown(rank: int, folder: str) -> list[str]:
    """Both processes draw and save the same graphs. Each returns its output, and the files that it then finds."""
    wrapped, found = net(), []
    for name in ("compared", "stopped", "alone"):
        out = StringIO()
        graph = nbgrad.record(name, view="text", ranks=name != "alone", save=f"{folder}/{name}{rank}.txt")
        with redirect_stdout(out), suppress(ZeroDivisionError), graph:
            wrapped(nbgrad.tensor(batch(rank))).square().mean().backward()
            if name == "stopped" and rank == 1:
                raise ZeroDivisionError
        found.append(out.getvalue().partition(":")[0])
    return [*found, *sorted(path.stem for path in Path(folder).glob(f"*{rank}.txt"))]


def equal(rank: int) -> tuple[Ranks, list[str]]:
    """All processes have the same batch."""
    wrapped = net()
    with nbgrad.record(view="none", ranks=True) as graph:
        wrapped(nbgrad.tensor(batch(0))).square().mean().backward()
    return graph.ranks(), describe(graph)["notes"]


def asked(rank: int) -> tuple[list[str], int]:
    """The terms that the boxes of hidden gradients have, and the number of these boxes."""
    wrapped = net()
    with nbgrad.record(view="none", ranks=True, ask=True) as graph:
        wrapped(nbgrad.tensor(batch(rank))).square().mean().backward()
    hidden = [node for node in describe(graph)["nodes"] if node["rule"] == "∇ ?"]
    return [one["term"] for node in hidden for one in node["details"]], len(hidden)


def cancelled(rank: int) -> Ranks:
    """The gradients of two processes add up to zero."""
    torch.manual_seed(0)
    wrapped = DistributedDataParallel(nn.Linear(4, 1, bias=False))
    with nbgrad.record(view="none", ranks=True) as graph:
        (wrapped(nbgrad.tensor(torch.ones(1, 4))) * (1 - 2 * rank)).sum().backward()
    return graph.ranks()


def one_asks(rank: int) -> str:
    """Only rank 0 compares: nothing hangs, and training goes on."""
    rank_recorder.PATIENCE = 0.5
    wrapped = net()
    with nbgrad.record(view="none", ranks=rank == 0) as graph:
        wrapped(nbgrad.tensor(batch(rank))).square().mean().backward()
    wrapped(nbgrad.tensor(batch(rank))).square().mean().backward()
    described = describe(graph)["notes"] if rank == 0 else []
    return refused(graph) + "|" + " ".join(described)


def refused(graph: Any) -> str:
    try:
        graph.ranks()
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


def not_wrapped(rank: int) -> tuple[str, list[str]]:
    plain = nn.Linear(4, 1)
    with nbgrad.record(view="none", ranks=True) as graph:
        plain(nbgrad.tensor(batch(rank))).sum().backward()
    return refused(graph), describe(graph)["notes"]


def accumulated(rank: int, torchs: bool) -> tuple[Ranks, dict[str, torch.Tensor]]:
    """The backward that averages also sends the gradients that were accumulated in ``no_sync``."""
    wrapped = net(TORCHS if torchs else OURS)
    x = batch(rank) if torchs else nbgrad.tensor(batch(rank))
    with nbgrad.record(view="none", ranks=True) as graph:
        with wrapped.no_sync():
            wrapped(x).square().mean().backward()
        wrapped(x).square().mean().backward()
    return graph.ranks(), local_gradients(rank)


def many_graphs(rank: int) -> list[float]:
    """A graph for each of twenty steps; the processes do not wait for one another between them."""
    wrapped, found = net(), []
    for number in range(20):
        with nbgrad.record(view="none", ranks=True) as graph:
            (wrapped(nbgrad.tensor(batch(rank))) * (number + 1)).mean().backward()
        found.append(graph.ranks().parameter("2.bias").average)
        wrapped.zero_grad()
    return found


class Two(torch.nn.Module):
    """Rank 1 does not use ``right``."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        used: torch.Tensor = self.left(x)
        return used if dist.get_rank() else used + self.right(x)


def faulty(rank: int) -> dict[str, list[str]]:
    """The sentences about faults of torch programs, by fault."""
    found = dict[str, list[str]]()

    def told(fault: str, wrapped: Any, *batches: torch.Tensor) -> None:
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1 * (rank + 1) if fault == "rate" else 0.1)
        with nbgrad.record("faulty", view="none", ranks=True) as graph, wrapped.join(enable=fault == "fewer"):
            for x in batches:
                optimizer.zero_grad()
                wrapped(x).square().mean().backward()
                optimizer.step()
        found[fault] = describe(graph)["notes"][1:]

    x = batch(0)
    told("none", net(TORCHS), batch(rank))
    told("not finite", net(TORCHS), x / (1 - rank))
    told("unused", torch.nn.parallel.DistributedDataParallel(Two(), find_unused_parameters=True), x)
    told("far", torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1)), x * 50**rank)
    told("rate", net(TORCHS), x, x)
    rank_recorder.PATIENCE = 0.5
    told("fewer", net(TORCHS), *[x] * (3 - rank))
    return found


def unchanged(rank: int) -> tuple[bool, bool]:
    """Whether a training has the same bits where the ranks are compared; and whether nothing of ours is left."""
    bits = list[Any]()
    for recorded in (False, True):
        wrapped = net(TORCHS, static_graph=True)
        hooked = list[int]()
        wrapped.register_comm_hook(hooked, _noted)
        optimizer = torch.optim.Adam(wrapped.parameters())
        with nbgrad.record(view="none", ranks=True) if recorded else nullcontext():
            for _ in range(3):
                optimizer.zero_grad()
                wrapped(batch(rank)).square().mean().backward()
                optimizer.step()
        bits.append([[*map(torch.Tensor.tolist, (one.detach(), one.grad))] for one in wrapped.parameters()] + [hooked])
    own = torch.nn.parallel.DistributedDataParallel._pre_forward.__module__ == "torch.nn.parallel.distributed"
    left = [one for one in wrapped.parameters() if one._post_accumulate_grad_hooks is not None]
    return bits[0] == bits[1], own and not left


def _noted(hooked: list[int], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of the user's."""
    hooked.append(bucket.index())
    return default_hooks.allreduce_hook(dist.group.WORLD, bucket)


def compiled(rank: int) -> tuple[Ranks, Ranks]:
    """The comparison of a module that torch compiles, and of the same one as it is."""
    found = []
    for wrap in (lambda one: torch.compile(one, backend="aot_eager"), lambda one: one):
        torch.manual_seed(0)
        wrapped = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        called = wrap(wrapped)
        with nbgrad.record(view="none", ranks=True) as graph:
            called(batch(rank)).square().mean().backward()
        found.append(graph.ranks())
    return found[0], found[1]


def kept(rank: int) -> list[str | None]:  # each process gets its rank
    """The first and the last of more texts than the store keeps."""
    store = GroupStore(dist.group.WORLD)
    for number in range(LEFT + 2):
        store.leave(str(number), "text")
    return [store.read(str(number)) for number in (0, 1, 2, LEFT + 1)]


def sharded_net() -> torch.nn.Module:
    """A network that FSDP2 divides, in two groups of parameters."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for one in (made[0], made[2], made):
        fully_shard(one)
    return made


def sharded(rank: int) -> tuple[Ranks, list[str]]:
    """As ``compared``, of a network that is divided. An earlier backward has left gradients."""
    made = sharded_net()
    made(batch(rank)).mean().backward()
    with nbgrad.record(view="none", ranks=True) as graph:
        made(batch(rank)).square().mean().backward()
    return graph.ranks(), describe(graph)["notes"]


def sharded_training(rank: int, recorded: bool, broken: bool) -> tuple[list[Any], int, int, str]:
    """Return the parameters after three steps, the number of collectives and of measured backwards, and the comparison.

    The last loss of rank 1 is ``broken``.
    """
    made = sharded_net()
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    graph = nbgrad.record(view="none", ranks=True)
    with graph if recorded else nullcontext():
        for step in range(3):
            optimizer.zero_grad()
            loss = made(batch(rank)).square().mean()
            (loss * float("nan") if broken and rank == 1 and step == 2 else loss).backward()
            optimizer.step()
    told = str(graph.graph.ranks()) if recorded else ""
    learned = [one.to_local().detach().tolist() for one in made.parameters()]  # type: ignore[attr-defined]
    calls = dist.group.WORLD._get_sequence_number_for_group()  # type: ignore[union-attr]
    return learned, calls, len(graph.graph.rank_recorder._measured), told  # type: ignore[union-attr]


def sharded_alone(rank: int) -> str:
    """Only rank 0 compares. Rank 1 goes on, and nothing waits for it long."""
    made = sharded_net()
    rank_recorder.PATIENCE = 0.2
    with nbgrad.record(view="none", ranks=True) if rank == 0 else nullcontext() as graph:
        made(batch(rank)).mean().backward()
    try:
        return "" if graph is None else str(graph.ranks())
    except RuntimeError as error:
        return str(error)


def sharded_misnumbered(rank: int) -> str:
    """Rank 1 counts more collectives than rank 0, so that parts of different backwards have one name."""
    made = sharded_net()
    if rank == 1:
        real = dist.ProcessGroup._get_sequence_number_for_group
        calls = dist.group.WORLD._get_sequence_number_for_group  # type: ignore[union-attr]
        made(batch(rank)).mean().backward()
        before = calls()
        made(batch(rank)).mean().backward()
        each = calls() - before
        dist.ProcessGroup._get_sequence_number_for_group = lambda group: real(group) + each  # type: ignore[method-assign]
    else:
        for _ in range(2):
            made(batch(rank)).mean().backward()
    with nbgrad.record(view="none", ranks=True) as graph:
        for step in (1, 2, 3):
            made(batch(rank) * step).square().mean().backward()
    try:
        return str(graph.ranks())
    except RuntimeError as error:
        return str(error)

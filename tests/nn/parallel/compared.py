"""The functions that the processes run in the tests of ``--ranks``."""

import time
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import nbgrad
from nbgrad import nn
from nbgrad.core.graph import ranks
from nbgrad.core.graph.ranks import Ranks
from nbgrad.nn.parallel import DistributedDataParallel
from nbgrad.widgets.describe import describe

CAP = 1e-5
"""The size of a bucket in MiB: about 10 bytes, so that there are several buckets."""


def net(**settings: Any) -> DistributedDataParallel:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)]
    return DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=CAP, **settings)


def batch(rank: int) -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4).cos() * (rank + 1)


def local_gradients(rank: int) -> dict[str, torch.Tensor]:
    """The gradients of one process alone, without averaging."""
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    alone(nbgrad.tensor(batch(rank))).square().mean().backward()
    return {name: one.grad.data for name, one in alone.named_parameters()}


def compared(rank: int, late: int | None, settings: dict[str, Any]) -> tuple[Ranks, list[str], dict[str, Any]]:
    """One backward in a graph of each process. The process ``late`` begins its backward later."""
    wrapped = net(**settings)
    with nbgrad.record(view="none", ranks=True) as graph:
        loss = wrapped(nbgrad.tensor(batch(rank))).square().mean()
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
    ranks.PATIENCE = 0.5
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


def accumulated(rank: int) -> tuple[Ranks, dict[str, torch.Tensor]]:
    """The backward that averages also sends the gradients that were accumulated in ``no_sync``."""
    wrapped, x = net(), nbgrad.tensor(batch(rank))
    with wrapped.no_sync():
        wrapped(x).square().mean().backward()
    with nbgrad.record(view="none", ranks=True) as graph:
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

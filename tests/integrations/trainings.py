"""Small trainings for the tests of ``nbgrad.integrations``, with numbers that are the same each time."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


def batches(many: int = 6) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of four rows with four features, and labels of three classes."""
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(4, 4, generator=generator), torch.arange(4) % 3) for _ in range(many)]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def train(model: nn.Module, loops: Iterable[Iterable[Any]], rate: float = 0.1, accumulate: int = 1) -> list[Any]:
    """Train, and return the parameters. Each of ``loops`` is an epoch; a validation follows it."""
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for loop in loops:
        for number, (x, y) in enumerate(loop, 1):
            (nn.functional.cross_entropy(model(x), y) / accumulate).backward()
            if number % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        with torch.no_grad():
            model.eval()(batches(1)[0][0])
            model.train()
    return [one.detach().clone() for one in model.parameters()]


def sharded(rank: int, recorded: bool, folder: str) -> Any:
    """Train a network that FSDP2 shards over the processes; the first one is recorded."""
    from torch.distributed.fsdp import fully_shard

    import nbgrad

    model, told = net(), list[Any]()
    for one in (model[0], model[2], model):  # type: ignore[index]
        fully_shard(one)
    loop: Any = batches()
    if recorded:
        loop = nbgrad.watched(loop, model, save=folder, every=1, writers=[lambda *given: told.append(given)])
    train(model, [loop])
    learned = [one.to_local().detach().tolist() for one in model.parameters()]  # type: ignore[attr-defined]
    graph = loop.graph if recorded else None
    return (
        learned,
        None if graph is None else (graph.backwards, graph.fault, [one.kind for one in graph.findings()]),
        told,
    )

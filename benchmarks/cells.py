"""A cell with a single training step of plain torch: recorded, closed and outlined, against the step alone.

A graph is closed and its findings and its outline are made when the cell ends. So this is what a cell of one step costs
until its picture is drawn.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from benchmarks.case import Case
from benchmarks.memory import allocations
from benchmarks.networks import Size, gpt2
from benchmarks.timing import Contender
from benchmarks.watching import WITHOUT, resnet18
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import outline

TITLE = "peak memory of a cell with one step"
RECORDED = "as in a %%autograd cell, with its outline"


class Program:
    """A model, its optimizer and its loss.

    Args:
        model: the model.
        optimizer: of its parameters.
        loss: computes the loss.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]
    ) -> None:
        self._model, self._optimizer, self._loss = model, optimizer, loss

    def step(self) -> torch.Tensor:
        """One step of training, and its loss."""
        torch.manual_seed(0)
        self._optimizer.zero_grad()
        loss = self._loss()
        torch.autograd.backward(loss)
        self._optimizer.step()
        return loss.detach()

    def cell(self) -> torch.Tensor:
        """The same in a graph, which is closed and outlined."""
        with AutogradGraph("cell") as graph:
            loss = self.step()
        outline(graph)
        return loss

    def clear(self) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad()

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors that stay from step to step: parameters, buffers, and what the optimizer keeps of them."""
        yield from self._model.parameters()
        yield from self._model.buffers()
        for kept in self._optimizer.state.values():
            yield from (one for one in kept.values() if isinstance(one, torch.Tensor))


def encoder(batch: int = 8, length: int = 64) -> Program:
    """Six encoder layers of 256 features, with AdamW."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    x = torch.randn(batch, length, 256)
    return Program(model, torch.optim.AdamW(model.parameters(), lr=1e-4), lambda: model(x).square().mean())


def residual(count: int = 32, side: int = 64) -> Program:
    """A ResNet-18 on ``count`` images of ``side`` x ``side``, with SGD."""
    torch.manual_seed(0)
    model = resnet18()
    x, y = torch.randn(count, 3, side, side), torch.randint(0, 10, (count,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return Program(model, optimizer, lambda: torch.nn.functional.cross_entropy(model(x), y))


def gpt(context: int = 256) -> Program:
    """A GPT of 124 million parameters on one sequence, with AdamW."""
    step = gpt2(torch, Size(layers=12, heads=12, width=768, words=50257, batch=1, context=context))
    optimizer = torch.optim.AdamW(step.model.parameters(), lr=1e-4)
    return Program(step.model, optimizer, step.forward)


PROGRAMS: dict[str, tuple[Callable[[], Program], str]] = {
    "cell-transformer": (encoder, "a 6-layer transformer encoder, d 256, 8 sequences of 64, AdamW"),
    "cell-resnet": (residual, "a ResNet-18, 32 images of 64 x 64, SGD"),
    "cell-gpt": (gpt, "a GPT of 124 million parameters, 256 tokens, products in bfloat16, AdamW"),
}


def contender(make: Callable[[], Program], *, recorded: bool) -> Contender:
    """A contender that takes a step each time."""
    program = make()
    return Contender(lambda _: program.cell() if recorded else program.step())


for name, (make, what) in PROGRAMS.items():
    case = Case(name, f"a cell with one step of {what}", reference=WITHOUT, tolerance=1e-3)
    case.contenders = {
        WITHOUT: partial(contender, make, recorded=False),
        RECORDED: partial(contender, make, recorded=True),
    }


class CellPeak(NamedTuple):
    """The largest number of bytes of all tensors at a time, those that stay between the steps included."""

    plain: int
    recorded: int


def peaks() -> dict[str, CellPeak]:
    """The peaks of all programs."""
    return {name: peak(make()) for name, (make, _) in PROGRAMS.items()}


def peak(program: Program) -> CellPeak:
    """The peak of a step, and of a cell with a step. Earlier ones make the tensors that stay."""
    program.step()
    program.cell()
    stay = sum(one.nbytes for one in program.tensors())
    found = []
    for run in (program.step, program.cell):
        program.clear()  # the profiler counts a release only if it saw the allocation
        found.append(stay + max(allocations(run)))
    return CellPeak(*found)


def markdown(found: dict[str, CellPeak]) -> str:
    """A table of them."""
    lines = [f"## {TITLE.capitalize()}", "", "| | plain torch | recorded | times plain |", "|---" * 4 + "|"]
    for name, (plain, recorded) in found.items():
        sizes = [f"{one / 2**20:.0f} MiB" for one in (plain, recorded)]
        lines.append(f"| {' | '.join([name, *sizes, f'**{recorded / plain:.2f}**'])} |")
    return "\n".join(lines)

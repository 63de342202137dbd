"""Rows of the op table as programs, and what is found out about a row by tracing its samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import Op
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.core.tensor.tensor import Tensor
from tests.core.rows import describe, samples

SAMPLES = 3
"""How many samples of a row are traced, spread over all that it has."""
WHOLE = frozenset(("getitem", "getitem_backward", "scatter_reduce", "index_reduce"))
"""Rows of which all samples are traced."""
ORDERS = (1, 2)


def spread(row: Op) -> Iterator[Sample]:
    """Some samples of a row; all samples if only a few of them depend on values."""
    every = list(samples(row))
    if row.name in WHOLE:
        yield from every
    else:
        yield from every[:: max(1, len(every) // SAMPLES)][: SAMPLES + 1]


def differentiated(row: Op, settings: dict[str, Any], order: int, run: Any = None) -> Callable[..., list[Any]]:
    """A function that returns the results of a row and its gradients up to ``order``. ``run`` may be its twin."""

    def function(*args: Any) -> list[Any]:
        found = [one for one in leaves((run or row)(*args, **settings)) if isinstance(one, Tensor)]
        wrt = [one for one in leaves(args) if isinstance(one, Tensor) and one.requires_grad and one.is_leaf]
        live = [one for one in found if one.requires_grad]
        for step in range(order):
            if not live or not wrt:
                break
            total = sum(
                ((one.abs() if one.is_complex() else one * one).sum() for one in live), start=Tensor(torch.zeros(()))
            )
            gradients = nbgrad.grad(total, wrt, allow_unused=True, create_graph=step + 1 < order)
            found += [one for one in gradients if one is not None]
            live = [one for one in gradients if one is not None and one.requires_grad]
        return found

    return function


def closeness(row: Op) -> float:
    """The largest difference between two runs of a row: 0, except for rows of linear algebra.

    The last digits of LAPACK's results depend on the addresses of the matrices. So two runs of one program can differ.
    """
    return 1e-9 if row.module.startswith("linalg") else 0.0


def arguments(row: Op, sample: Sample) -> list[Any]:
    """The arguments of a sample as nbgrad tensors. They require a gradient if the row has a rule for them."""
    names = [*row.inputs, *[row.listed] * len(sample.args)]
    return [
        mapped(lambda one, name=name: _leaf(one, row, name), given)
        for name, given in zip(names, sample.args, strict=False)
    ]


def _leaf(given: Any, row: Op, name: str | None) -> Any:
    if not isinstance(given, torch.Tensor):
        return given
    has_rule = name in row.rules
    real = given.is_floating_point() or given.is_complex()
    return nbgrad.tensor(given.clone(), requires_grad=real and has_rule and row.differentiable)


@dataclass
class Traced:
    """The facts about a row that tracing has found out.

    Attributes:
        opaque: the functions in its steps that depend on values, each with the orders in which it occurs. Order 0 is
            the forward.
        refused: the samples that are refused, each with the reason.
        count: how many samples were traced or refused.
        random: whether a step draws random numbers.
        mutates: the inputs that a step changes.
    """

    opaque: dict[str, set[int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    count: int = 0
    random: bool = False
    mutates: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        """The class of the row: the worst that was found."""
        return "refused" if self.refused else "opaque" if self.opaque else "traced"

    def add(self, row: Op, program: Program, order: int) -> None:
        """Record what the steps of a program do."""
        for step in program.steps:
            self.random |= step.random
            if step.opaque:
                self.opaque.setdefault(step.name, set()).add(0 if step.phase == "forward" else order)
        self.mutates |= _written(row, program)

    def refuse(self, sample: Sample, error: TraceError) -> None:
        """Take a refused sample into account."""
        self.refused[describe(sample)] = error.reason


def _written(row: Op, program: Listing) -> set[str]:
    """The names of the inputs that a program changes."""
    written = {value.storage for step in program.steps for value in step.writes}
    names = [*row.inputs, *[row.listed or ""] * len(program.arguments)]
    return {
        name
        for name, given in zip(names, program.arguments, strict=False)
        if any(getattr(one, "storage", None) in written for one in leaves(given))
    }


def found_by_tracing(row: Op) -> Traced:
    """Trace the samples of a row."""
    found = Traced()
    for sample in spread(row):
        for order in ORDERS:
            try:
                found.add(row, trace(differentiated(row, sample.settings, order), *arguments(row, sample)), order)
            except TraceError as error:
                found.refuse(sample, error)
        found.count += 1
    return found

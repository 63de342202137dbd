"""Compare a call in torch and in nbgrad up to the second order: numbers, element types, and which gradients exist."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from tests.core import closeness
from tests.core.opdb import NBGRAD, TORCH, Library, drawn, one_line, resolved

ERRORS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)
"""The errors of torch for a call that it does not accept."""


@dataclass
class Outcome:
    """The outcome of a call: results or an error.

    Attributes:
        parts: for each order ("value", "gradient", "second order") the results: tensors, each with whether it needs a
            gradient, and None.
        error: the order that raised, and the error; None if no order raised.
    """

    parts: dict[str, list[Any]] = field(default_factory=dict)
    error: tuple[str, Exception] | None = None


def run(
    library: Library,
    function: Callable[..., Any],
    args: Sequence[Any],
    settings: dict[str, Any],
    *,
    constant_seeds: bool = False,
) -> Outcome:
    """Call ``function`` and differentiate twice. Tensors that require a gradient say so themselves.

    Args:
        library: whose tensors the arguments become.
        function: torch's, or one that takes both libraries' tensors.
        args: its positional arguments.
        settings: its keyword arguments.
        constant_seeds: whether the gradients that the backward starts from are constants, as in a user's backward. If
            not, the second order also has the gradients with respect to these.
    """
    outcome, order = Outcome(), "value"
    made: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        return made.setdefault(id(value), library.make(value)) if isinstance(value, torch.Tensor) else value

    try:
        given, named = tree_map(convert, (list(args), dict(settings)))
        inputs = [one for one in made.values() if one.requires_grad]
        torch.manual_seed(0)
        results = tree_leaves(library.bound(function)(*given, **named))
        outcome.parts[order] = kept(library, results)
        ends = [one for one in results if isinstance(one, library.kind) and one.requires_grad]
        if not ends or not inputs:
            return outcome
        order = "gradient"
        raw = library.raw
        starts = [library.make(drawn(raw(end), 2 + place)) for place, end in enumerate(ends)]
        for start in () if constant_seeds else starts:
            start.requires_grad_()
        firsts = library.grad(ends, inputs, starts, retain_graph=True, create_graph=True, allow_unused=True)
        outcome.parts[order] = kept(library, firsts)
        order = "second order"
        recorded = [one for one in firsts if one is not None and one.requires_grad]
        if recorded:
            weights = [library.make(drawn(raw(one), 1)) for one in recorded]
            wanted = inputs if constant_seeds else [*inputs, *starts]
            outcome.parts[order] = kept(library, library.grad(recorded, wanted, weights, allow_unused=True))
    except ERRORS as error:
        outcome.error = order, error
    return outcome


def kept(library: Library, values: Sequence[Any]) -> list[Any]:
    """The values, with each tensor as a raw tensor and whether it needs a gradient."""
    return [(resolved(library.raw(one)), one.requires_grad) if isinstance(one, library.kind) else one for one in values]


def difference(
    function: Callable[..., Any],
    *args: Any,
    of: Callable[..., Any] | None = None,
    constant_seeds: bool = False,
    tolerance: float | None = None,
    exact: bool = True,
    **settings: Any,
) -> str:
    """The difference between the two libraries; empty if there is none, or if torch does not accept the call.

    Args:
        function: torch's function, which works on nbgrad's tensors too.
        args: tensors of torch's, and anything else.
        of: nbgrad's function, where it is another.
        constant_seeds: as for ``run``.
        tolerance: how close numbers are, absolutely and relatively; default: torch's own for the element type.
        exact: whether nbgrad must have a gradient wherever torch has one. If not, None counts as zeros.
        settings: keyword arguments.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a call may be unwise, and both libraries say so
        theirs = run(TORCH, function, args, settings, constant_seeds=constant_seeds)
        if theirs.error is not None and theirs.error[0] == "value":
            return ""
        ours = run(NBGRAD, of or function, args, settings, constant_seeds=constant_seeds)
    for order, expected in theirs.parts.items():
        if order not in ours.parts:
            if ours.error is not None:
                return (
                    f"{order}: torch has one, nbgrad raises {type(ours.error[1]).__name__}: {one_line(ours.error[1])}"
                )
            if exact or any(one is not None and one[0].any() for one in expected):
                return f"{order}: torch has one, nbgrad's gradients are constants"
            return ""
        if found := _apart(ours.parts[order], expected, tolerance, exact):
            return f"{order}: {found}"
    return ""


def _apart(ours: list[Any], theirs: list[Any], tolerance: float | None, exact: bool) -> str:
    """The difference of the first results that differ."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, but torch has {len(theirs)}"
    for place, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        if (mine is None) != (yours is None):
            there, lacking = (mine, "torch") if yours is None else (yours, "nbgrad")
            if exact or there[0].any():
                return f"number {place}: {lacking} has None"
        elif isinstance(mine, tuple) and isinstance(yours, tuple):
            if exact and mine[1] != yours[1]:
                return f"number {place}: requires_grad is {mine[1]}, torch has {yours[1]}"
            try:
                closeness.close(mine[0], yours[0], f"number {place}", tolerance)
            except AssertionError as error:
                return one_line(error)
        elif mine != yours and repr(mine) != repr(yours):  # two NaN are not equal, but their reprs are
            return f"number {place}: {mine!r}, but torch has {yours!r}"
    return ""

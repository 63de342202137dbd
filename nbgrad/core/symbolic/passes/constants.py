"""Constants: steps that compute the same numbers in each run."""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.backend.below_autograd import unrecorded
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.ir import ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import form_of
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, Replacement, note, storages

LARGEST = 1 << 16
"""The bytes of the largest constant that is kept."""

_LIKE = frozenset(("ones_like", "zeros_like", "full_like", "new_zeros", "new_ones", "new_full"))
"""Functions that read no number of their first argument."""

_FRESH = frozenset(
    ("scalar_tensor", "tensor", "as_tensor", "full", "zeros", "ones", "arange", "linspace", "logspace", "eye")
) | {"tril_indices", "triu_indices"}
"""Functions that make numbers from plain arguments."""


def fold_constants(listing: L) -> Passed[L]:
    """Compute once what depends on no number of an argument or of a captured tensor, and keep it in the program.

    Only results of up to 64 KiB that do not leave the program and that nothing writes. No digit changes: the same torch
    functions compute them.
    """
    memory = Memory(listing)
    fixed = memory.written | storages(listing.kept())
    editor, stands = Editor(listing), Replacement()
    kept, notes = list[ProgramStep](), list[Note]()
    folded: list[Value] = []
    for given in listing.steps:
        step = stands.step(given)
        made = _numbers(step) if _foldable(step, fixed) else None
        if made is None:
            kept.append(step)
            continue
        constant = editor.constant(made, given.result.name or "constant")
        stands.add(given.result, constant)
        folded.append(constant)
        notes.append(note("constant", given, [constant]))
    return Passed.of(listing, kept, notes, stands, folded)


def _foldable(step: ProgramStep, fixed: set[int]) -> bool:
    result = step.result
    if not isinstance(result, Value) or step.random or step.writes or result.storage in fixed:
        return False
    if result.stride is None or result.nbytes > LARGEST or step.results() != [result]:
        return False
    inputs = step.inputs()
    if step.name in _LIKE:
        inputs = inputs[1:]
    if not all(one.constant for one in inputs) or (not step.inputs() and step.name not in _FRESH):
        return False
    return not any(isinstance(one, Number | torch.Tensor) for one in leaves((step.args, step.kwargs)))


def _numbers(step: ProgramStep) -> torch.Tensor | None:
    """The numbers of a result; None if torch gives another form than the traced one."""
    function: Callable[..., Any] = step.function
    try:
        made = unrecorded(function, *mapped(_data, step.args), **mapped(_data, step.kwargs))
    except (RuntimeError, TypeError, ValueError):
        return None
    result = step.result
    same = isinstance(made, torch.Tensor) and made.layout is torch.strided and made.device == result.device
    if not same or (tuple(made.shape), tuple(made.stride()), made.dtype) != tuple(form_of(result)):
        return None
    found: torch.Tensor = made
    return found


def _data(given: Any) -> Any:
    if not isinstance(given, Value):
        return given
    if given.constant:
        return given.data
    # Functions that read no numbers come here.
    return torch.empty_strided(given.shape, given.stride or (), dtype=given.dtype, device=given.device)


def number_of(value: Any) -> float | None:
    """The number that all elements of a constant are; None for other values."""
    if type(value) in (int, float):
        return float(value)
    if not isinstance(value, Value) or not value.constant or value.data is None or not value.numel:
        return None
    data = value.data
    if data.dtype.is_complex or data.dtype is torch.bool:
        return None
    first = data[(0,) * data.dim()]
    if any(data.stride(place) for place in range(data.dim()) if data.shape[place] > 1) and not bool(
        (data == first).all()
    ):
        return None
    return float(first)

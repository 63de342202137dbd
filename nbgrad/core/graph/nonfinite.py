"""The origin of a NaN or an Inf, in words: the op that made it, and the numbers that the op was given."""

from collections.abc import Callable, Container, Iterable, Sequence
from math import isfinite, isinf, isnan
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.backend.below_autograd import unrecorded
from nbgrad.core.backend.chunks import PIECE, pieces
from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.tensor_data import dtype_name, without_numbers
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate


class BadOperand(NamedTuple):
    """A number that went into the bad one: ``x[2] = -1.0``."""

    name: str
    at: tuple[int, ...]
    value: Any

    def __str__(self) -> str:
        return f"{spot(self.name, self.at)} = {shown(self.value)}"


def spot(name: str, index: tuple[int, ...]) -> str:
    """An element as Python writes it; the name alone for a number."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def shown(value: Any) -> str:
    """A number, with the digits that a reader needs."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.6g}"
    return text if any(letter in text for letter in ".en") else f"{text}.0"


def finite(value: Any) -> bool:
    """Whether ``value`` holds neither NaN nor Inf; integers, settings, None and tensors without numbers never do."""
    if isinstance(value, torch.Tensor):
        return (
            not _inexact(value)
            or without_numbers(value)
            or all(bool(piece.isfinite().all()) for piece in pieces(value))
        )
    return not isinstance(value, float) or isfinite(value)


def holds(kind: str, value: Any) -> bool:
    """Whether ``value``, a tensor, the statistics of one, or a number, holds a "nan" or an "inf"."""
    if isinstance(value, Stats):
        return bool(value.nan if kind == "nan" else value.inf)
    if isinstance(value, torch.Tensor):
        known = _inexact(value) and not without_numbers(value)
        return known and any(bool(_mask(kind, piece).any()) for piece in pieces(value))
    return isinstance(value, float) and (isnan(value) if kind == "nan" else isinf(value))


def passed_on(kind: str, values: Iterable[Any], settings: dict[str, Any]) -> bool:
    """Whether an op that made a "nan" or an "inf" was given one, in an input, such as a mask, or as a setting."""
    return any(holds(kind, value) for value in (*values, *settings.values()))


def unmeant(value: torch.Tensor) -> bool:
    """Whether a parameter has an Inf that is no part of a mask: all other numbers of a mask are 0."""
    return holds("inf", value) and any(bool((piece.isfinite() & (piece != 0)).any()) for piece in pieces(value))


def first(kind: str, value: torch.Tensor) -> tuple[int, ...]:
    """The index of the first element that is a "nan" or an "inf"."""
    before = 0
    for piece in pieces(value):
        found = _mask(kind, piece)
        if found.any():
            at = before + int(found.reshape(-1).nonzero()[0])
            return tuple(int(one) for one in np.unravel_index(at, tuple(value.shape)))
        before += piece.numel()
    raise ValueError(f"no element is {kind}")


def count(kind: str, value: torch.Tensor) -> int:
    """How many elements of ``value`` are a "nan" or an "inf", as ``kind`` says."""
    return sum(int(_mask(kind, piece).sum()) for piece in pieces(value))


def _mask(kind: str, value: torch.Tensor) -> torch.Tensor:
    return value.isnan() if kind == "nan" else value.isinf()


def _inexact(value: torch.Tensor) -> bool:
    return value.dtype.is_floating_point or value.dtype.is_complex


# The operands at an index of the output.


class OpInput(NamedTuple):
    """An argument of an op: the name of the input, the user's name of it, and the raw tensor or number."""

    input: str
    name: str
    value: Any


def again(op: OpInfo, settings: dict[str, Any], position: int = 0) -> Callable[[list[Any]], Any]:
    """A function that gives the result of ``op`` at ``position`` among its results, for other values."""

    def run(values: list[Any]) -> Any:
        made = drawing_from(random_state(cuda_devices(values)), unrecorded, op.forward, *values, **settings)
        return made[position] if isinstance(made, tuple) else made

    return run


def operands(
    run: Callable[[list[Any]], Any],
    stretched: Container[str],
    given: Sequence[OpInput],
    kind: str,
    result: torch.Tensor,
) -> list[BadOperand]:
    """The numbers that meet in the first "nan" or "inf" of ``result``, where they alone make it.

    The list is empty if other numbers take part, as all numbers of a row do in a softmax. To see that, the op runs
    again. With these numbers and ordinary ones everywhere else, the result must be bad again. With 1 in their place,
    two runs with different ordinary numbers everywhere else must give the same.

    Args:
        run: gives the result again, of other values in the place of those ``given``.
        stretched: the inputs that the op broadcasts.
        given: all that the result was computed from.
        kind: "nan" or "inf".
        result: which holds one.
    """
    index, shape = first(kind, result), tuple(result.shape)
    spots = spots_of(stretched, given, index, shape)
    found: list[BadOperand] = []
    for (_, name, value), own in zip(given, spots, strict=True):
        if own is not None:
            found.append(BadOperand(name, own, value[own].item()))
        elif isinstance(value, int | float | complex) and not isinstance(value, bool):
            found.append(BadOperand(name, (), value))
    around = window([value for *_, value in given], spots, index, shape) if found else None
    if around is None:
        return []
    values, spots, index = around
    try:
        bad, one, other = [
            run(_ordinary(values, spots, seed, keep))[index] for seed, keep in ((0, True), (0, False), (1, False))
        ]
    except Exception:  # a kernel that refuses them, a Function of the user's: nothing is known then
        return []
    return found if holds(kind, bad) and torch.equal(one.nan_to_num(), other.nan_to_num()) else []


Spots = list[tuple[int, ...] | None]
"""For each value that an op was given, the index of the element that meets those of the others.

None if it is not a single element.
"""


def spots_of(
    stretched: Container[str], given: Sequence[OpInput], index: tuple[int, ...], shape: tuple[int, ...]
) -> Spots:
    """The ``Spots`` of the values ``given`` that meet in the element ``index`` of a result of ``shape``."""
    return [
        _own_index(tuple(value.shape), index, shape)
        if isinstance(value, torch.Tensor) and (tuple(value.shape) == shape or input in stretched)
        else None
        for input, _, value in given
    ]


def window(
    values: list[Any], spots: Spots, index: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[list[Any], Spots, tuple[int, ...]] | None:
    """Small parts of the values around the element ``index`` of a large result and its ``spots``, to run the op again.

    Returns:
        Parts of the ``values``, without a copy, their spots and the index in the result of them; None where a large
        tensor would have to be taken as it is.
    """
    if all(not isinstance(value, torch.Tensor) or value.numel() <= PIECE for value in values):
        return values, spots, index
    side = max(2, int(PIECE ** (1 / len(shape)))) if shape else 1
    begins = [max(0, min(at - side // 2, size - side)) for at, size in zip(index, shape, strict=True)]
    found: list[Any] = []
    places: Spots = []
    for value, spot in zip(values, spots, strict=True):
        own, place = value, spot
        if spot is None:
            if isinstance(value, torch.Tensor) and value.numel() > PIECE:
                return None
        else:
            lead = len(shape) - len(spot)
            starts = [0 if size == 1 else begins[lead + dim] for dim, size in enumerate(value.shape)]
            for dim, start in enumerate(starts):
                own = own.narrow(dim, start, min(side, value.shape[dim]))
            place = tuple(at - start for at, start in zip(spot, starts, strict=True))
        found.append(own)
        places.append(place)
    return found, places, tuple(at - start for at, start in zip(index, begins, strict=True))


def _ordinary(values: list[Any], spots: Spots, seed: int, keep: bool) -> list[Any]:
    """The values with random numbers about 1 in tensors. At the ``spots`` there is 1, or the old number with ``keep``.

    Integers, which count or choose, and values that are no tensor stay as they are.
    """
    generator = torch.Generator().manual_seed(seed)
    found = list(values)
    for position, (value, spot) in enumerate(zip(values, spots, strict=True)):
        if isinstance(value, torch.Tensor) and _inexact(value):
            drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64) + 0.5
            found[position] = drawn.to(value.device, value.dtype)
            if spot is not None:
                found[position][spot] = value[spot] if keep else 1
    return found


def _own_index(own: tuple[int, ...], index: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    lead = len(shape) - len(own)
    if lead < 0 or any(size not in {1, full} for size, full in zip(own, shape[lead:], strict=True)):
        return None
    return tuple(0 if size == 1 else at for size, at in zip(own, index[lead:], strict=True))


def summary(name: str, value: Any) -> str:
    """An operand as a whole, where no single element can be named."""
    if isinstance(value, Stats):
        bad = "".join(
            translate(", {found} of them {kind}", found=found, kind=kind)
            for kind, found in (("nan", value.nan), ("inf", value.inf))
            if found
        )
        return translate("{name} of shape {shape}{bad}", name=name, shape=value.shape, bad=bad)
    if not isinstance(value, torch.Tensor):
        return f"{name} = {value}"
    if value.dtype is torch.bool or value.dtype.is_complex:
        return translate("{name} of shape {shape}", name=name, shape=tuple(value.shape))
    sound = (piece[piece.isfinite()] if _inexact(piece) else piece for piece in pieces(value.detach()))
    ends = [(one.min().item(), one.max().item()) for one in sound if one.numel()]
    if not ends:
        return translate("{name} of shape {shape}", name=name, shape=tuple(value.shape))
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return translate(
        "{name} of shape {shape}, from {shown} to {shown2}",
        name=name,
        shape=tuple(value.shape),
        shown=shown(low),
        shown2=shown(high),
    )


# The cause.


def cause(
    op: OpInfo, kind: str, found: list[BadOperand], values: list[Any], settings: dict[str, Any], dtype: Any
) -> str | None:
    """Why ``op`` made a "nan" or "inf" of ``dtype`` from ``values``; the numbers ``found`` met there. None: unknown."""
    numbers = [operand.value for operand in found if isinstance(operand.value, int | float)]
    places = ", ".join(map(str, found))
    undefined = getattr(op, "undefined", ()) if len(numbers) == op.arity else ()
    words = next((text for applies, text in undefined if applies(*numbers)), None)
    if words is None:
        words = _of_many(op, kind, values, settings)
    if words is not None:
        return f"{words}: {places}" if places else words
    if kind == "nan" and any(map(isinf, numbers)):
        return translate("inf among the operands: {places}", places=places)
    if kind == "nan" and places:
        return translate("not defined for {places}", places=places)
    if not places and not _overflows(values, dtype):
        return None
    if kind == "nan":
        return translate("inf - inf, after an overflow on the way to the result")
    call = f"{op.name}({', '.join(shown(number) for number in numbers)})" if numbers else op.name
    largest = f"{torch.finfo(dtype).max:.3g}"
    return translate(
        "overflow: {call} in {dtype}, whose largest number is {largest}",
        call=call,
        dtype=dtype_name(dtype),
        largest=largest,
    )


def _overflows(values: list[Any], dtype: Any) -> bool:
    """Whether a sum of products of the values may be larger than any number of ``dtype``."""
    tensors = [value for value in values if isinstance(value, torch.Tensor) and _inexact(value) and value.numel()]
    parts = (piece for value in tensors for piece in pieces(value))
    largest = max((float(piece.abs().nan_to_num(0.0, 0.0).max()) for piece in parts), default=0.0)
    return largest * largest * max((value.numel() for value in tensors), default=0) > torch.finfo(dtype).max


_EXPONENTIALS = r"\sum_j e^{x_j}"
"""The denominator of a softmax, in formulas."""


def _of_many(op: OpInfo, kind: str, values: list[Any], settings: dict[str, Any]) -> str | None:
    """Why a reduction or a loss of whole tensors has no finite result."""
    if kind == "inf":
        return None
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    name = op.name.removesuffix("_")
    if any(value.numel() == 0 for value in tensors):
        return translate("{name} of no elements", name=name)
    if "correction" in op.defaults:
        return translate("{name} of too few elements: their number minus the correction is 0", name=name)
    if "ignore_index" in op.defaults and len(tensors) > 1:
        ignored = settings.get("ignore_index", -100)
        targets = tensors[1]
        if not targets.dtype.is_floating_point and all(bool((piece == ignored).all()) for piece in pieces(targets)):
            return translate("0 / 0: every target is {ignored}, which is ignored", ignored=ignored)
    if _EXPONENTIALS in op.formula and any(holds("inf", value) for value in tensors):
        return translate("inf - inf: a row that holds inf, or -inf everywhere")
    return None


# The backward.


def backward_cause(op: OpInfo, incoming: Any, slope: Any, dtype: Any) -> str:
    """Why a rule made a gradient that is not finite, from the incoming gradient and the local derivative there."""
    if slope is None or incoming is None:
        return translate("the rule of {name} makes it from these values", name=op.name)
    if isnan(slope):
        return translate("the local derivative is not a number here")
    if isinf(slope) and incoming == 0:
        return translate(
            "0 * inf: incoming gradient 0, local derivative {slope}. where() gives a gradient of 0 "
            "to the branch that it did not choose, but this does not help: keep the operand away "
            "from this value before {name}",
            slope=slope,
            name=op.name,
        )
    if isinf(slope):
        return translate(
            "local derivative {slope}: {getattr}",
            slope=slope,
            getattr=getattr(op, "slope", None) or translate("the slope of {name} is infinite here", name=op.name),
        )
    name = dtype_name(dtype)
    return translate(
        "overflow: incoming gradient {shown} * local derivative {shown2} in {name}",
        shown=shown(incoming),
        shown2=shown(slope),
        name=name,
    )

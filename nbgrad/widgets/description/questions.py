"""Questions that can be judged without a kernel, and whose answers do not stand in the page."""

from math import copysign, isfinite, log1p

from nbgrad.core.graph.record import Record
from nbgrad.core.tensor.comparison import ATOL, RTOL
from nbgrad.widgets.description.schema import Question

TYPED = 64
"""A reader is asked for at most this many numbers, because the reader types each."""

WIDTH = 2.0
"""How wide a cell is, on the scale of :func:`scaled`."""


def question(node: str, record: Record) -> Question | None:
    """The facts for a page about the gradient of ``record``; None if it has too many numbers, or some are not finite.

    All numbers are put on a scale on which an answer may be off by 1, and the scale is cut into cells of width 2. For
    each number the cells are placed so that the right answer is in the middle of its cell. So an answer is right
    exactly if it is in this cell. The page gets the offset of the cells, which says nothing about the size of the
    answer, and a checksum of the right cell.

    A reader who tries all numbers finds the right answer, but the page does not show it.
    """
    array = None if record.gradient is None else record.gradient.array
    if array is None or array.size > TYPED or array.dtype.kind not in "iuf":
        return None
    numbers = [float(one) for one in array.ravel()]
    if not all(map(isfinite, numbers)):
        return None
    offsets, seals = [], []
    for place, number in enumerate(numbers):
        at = scaled(number)
        offset = round(at % WIDTH, 3)
        offsets.append(offset)
        seals.append(sealed(place, round((at - offset) / WIDTH)))
    return Question(
        node=node, name=record.name or "", shape=list(array.shape), rtol=RTOL, atol=ATOL, offsets=offsets, seals=seals
    )


def scaled(number: float) -> float:
    """A number on the scale on which two numbers x and y are about 1 apart if they differ by ATOL + RTOL * abs(x)."""
    return copysign(log1p(RTOL * abs(number) / ATOL) / RTOL, number)


def sealed(place: int, cell: int) -> int:
    """A checksum of 32 bits of a cell; ``answers.ts`` has the same one."""
    state = 0x9E3779B1
    for one in (place, cell):
        state = ((state ^ (one & 0xFFFFFFFF)) * 0x85EBCA6B) & 0xFFFFFFFF
        state ^= state >> 13
        state = (state * 0xC2B2AE35) & 0xFFFFFFFF
        state ^= state >> 16
    return state

"""The traits of an op: what it does to numbers and gradients, as far as findings, messages and programs ask."""

from dataclasses import dataclass
from math import inf
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The traits of an op. By default it has none.

    Attributes:
        moves: whether the result has the numbers of the first input, in other places or in another shape.
        multiplies: whether the gradient of an input is a product with another input, as for a matrix product.
        units: the dimension of the result along which the units of a layer lie; None if it is no layer.
        flat: whether the function has a slope of exactly 0 on a part of the line.
        steepest: for a function that is nearly flat on both sides, its slope in the middle.
        jumps: whether the slope is 0 everywhere except at the jumps, on real numbers.
        interval: the interval of all results.
        takes: for a loss, the meaning of the numbers that it takes.
        laid: whether the result depends on how the input lies in memory, or on whether it is only marked as conjugated.
        commutes: whether the order of its two inputs does not matter, to the last digit.
        neutral: the number that as the second input leaves each number of the first as it is, also a 0 with its sign.
        sign: the sign that stands between its two inputs.
    """

    moves: bool = False
    multiplies: bool = False
    units: int | None = None
    flat: bool = False
    steepest: float | None = None
    jumps: bool = False
    interval: tuple[float, float] = (-inf, inf)
    takes: Literal["scores", "log-probabilities", "probabilities", "values"] | None = None
    laid: bool = False
    commutes: bool = False
    neutral: float | None = None
    sign: str | None = None


NONE = Traits()


def traits_of(op: Any) -> Traits:
    """The traits of an op. An op that is no row of the table, and None for no op, have none."""
    found: Traits = getattr(op, "traits", NONE)
    return found

"""``Part``: one object of somebody else's engine, in plain words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

_NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Part:
    """One object of an engine: a leaf, or the result of an op.

    Attributes:
        source: the object itself.
        op: the name that its engine gives to the op, such as "+" or "matmul"; None for a leaf.
        parents: the objects that it was computed from, in the order of the arguments. A plain number among them stands
            for itself, and has no part of its own.
        value: a number, an array of numpy, a tensor of torch, a list of numbers, or an ``AbstractValue``, where only
            the shape is known.
        gradient: the same kinds; None where there is none.
        name: the name that its engine gives to it, such as the label of a leaf.
        settings: the arguments of the op that are no parents, such as an exponent or an axis. A leaf that needs no
            gradient has ``requires_grad`` False.
    """

    source: object
    op: str | None
    parents: tuple[object, ...]
    value: Any
    gradient: Any | None = None
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: _NO_SETTINGS)


@dataclass(frozen=True)
class AbstractValue:
    """The shape and the element type of a value whose numbers are not known, as in a traced program.

    Attributes:
        shape: the sizes of its dimensions.
        dtype: the name of its element type, such as "float32".
    """

    shape: tuple[int, ...]
    dtype: str


class UnreadableError(TypeError):
    """An object from which no graph can be read. The message says why, and how to make it readable."""


class GraphCycleError(ValueError):
    """An object was computed from itself. The message names it."""


NUMBERS = (bool, int, float, complex, np.generic)
"""The types of numbers. A number among parents stands for itself."""


def shown(thing: object) -> str:
    """A short name of an object for messages. Its ``repr`` is the user's code, so it may fail."""
    kind = type(thing).__name__
    try:
        text = " ".join(repr(thing).split())
    except Exception:  # the object is broken, and this is for the message that says so
        return f"a {kind}"
    return text if len(text) <= 60 else f"{text[:57]}..."

"""The expressions of a file over the settings of optimizers, such as ``-(SGD.param_groups[0]['lr'] * 2)``.

``Number`` writes them. They are read here by their own small grammar: no code is compiled, and literals are numbers.
"""

import operator
import re
from collections.abc import Callable
from typing import Any

from nbgrad.core.symbolic.numbers import Number

SETTING = re.compile(r"\w+\.param_groups\[\d+\]\['\w+'\](\[\d+\])?")
"""A setting as ``Number`` names it."""

_TOKEN = re.compile(rf"({SETTING.pattern})|(\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)|(\*\*|[-+*/()])|(\s+)|(.)", re.DOTALL)
_LONGEST = 10_000
_DEPTH = 100
_DIGITS = 30
_SIGNS: dict[str, tuple[int, Callable[[float, float], float]]] = {
    "+": (1, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
    "/": (2, operator.truediv),
    "**": (3, operator.pow),
}
"""How strongly each sign binds, and what it computes. ``Number`` puts brackets around all parts that have signs."""


def read_number(text: Any, settings: dict[str, float]) -> Number:
    """The number that an expression stands for; it reads the settings anew each time.

    Args:
        text: the expression.
        settings: the values of the settings that it may name.

    Raises:
        ValueError: it is no such expression, too long, or nested too deep; or it computes with literals alone, of which
            a file has the result.
        LookupError: it names a setting that is not there.
        ArithmeticError: it has no value.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError("an expression is a text of at most ten thousand characters")
    reader = _Reader(text, settings)
    made = reader.sum(0, 0)
    if reader.rest or not isinstance(made, Number):
        raise ValueError(f"{text!r} is no expression over settings")
    return made


class _Reader:
    """An expression on its way into a number."""

    def __init__(self, text: str, settings: dict[str, float]) -> None:
        found = [one for one in _TOKEN.finditer(text) if not one[5]]
        self._text, self._settings = text, settings
        self.rest = [(one.lastindex, one[0]) for one in reversed(found)]
        """The tokens that are left, the next one last. The first number says what it is."""

    def sum(self, least: int, depth: int) -> "Number | float":
        """A part whose signs bind more strongly than ``least``."""
        made = self._operand(depth)
        while self.rest and self.rest[-1][1] in _SIGNS and _SIGNS[self.rest[-1][1]][0] > least:
            strength, compute = _SIGNS[self.rest.pop()[1]]
            other = self.sum(strength, depth + 1)
            if not isinstance(made, Number) and not isinstance(other, Number):
                raise self._wrong("computes with literals alone")
            made = compute(made, other)
        return made

    def _operand(self, depth: int) -> "Number | float":
        if depth > _DEPTH or not self.rest:
            raise self._wrong("is cut off" if not self.rest else "is nested too deep")
        kind, token = self.rest.pop()
        if kind == 1:
            return self._setting(token)
        if kind == 3 and len(token) <= _DIGITS:
            return float(token) if not token.isdigit() else int(token)
        if token == "-":
            return -self.sum(2, depth + 1)
        if token == "(":
            made = self.sum(0, depth + 1)
            if not self.rest or self.rest.pop()[1] != ")":
                raise self._wrong("has a bracket that is not closed")
            return made
        raise self._wrong(f"has {token[:40]!r} where a number is expected")

    def _setting(self, name: str) -> Number:
        settings = self._settings
        return Number(settings[name], name, lambda: settings[name], [])

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"the expression {self._text[:200]!r} {what}")

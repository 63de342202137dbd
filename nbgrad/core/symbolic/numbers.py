"""``Number``: a setting of an optimizer, such as a learning rate, that a program reads anew in each run."""

import operator
from collections.abc import Callable
from typing import Any

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}


class Number(float):
    """A float with the expression that made it.

    Arithmetic gives another ``Number``. A comparison is remembered as a guard: a program holds as long as each has the
    same outcome.

    Attributes:
        text: the expression, over the names of ``places``.
        read: computes the number anew.
        guards: the comparisons of a trace, each with a function that repeats it and the outcome.
        parts: the settings in the expression by their names, each with the function that reads it.
    """

    text: str
    read: Callable[[], float]
    guards: list[tuple[str, Callable[[], Any], Any]]
    parts: dict[str, Callable[[], float]]

    def __new__(
        cls,
        value: float,
        text: str,
        read: Callable[[], float],
        guards: list[tuple[str, Callable[[], Any], Any]],
        parts: dict[str, Callable[[], float]] | None = None,
    ) -> "Number":
        made = super().__new__(cls, value)
        made.text, made.read, made.guards = text, read, guards
        made.parts = {text: read} if parts is None else parts
        return made

    @property
    def settings(self) -> dict[str, float]:
        """The settings in the expression, each with its value now."""
        return {name: read() for name, read in self.parts.items()}

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return super().__hash__()

    def __neg__(self) -> "Number":
        return Number(-float(self), f"-{_bracketed(self.text)}", lambda: -self.read(), self.guards, self.parts)

    def _compared(self, sign: str, compare: Callable[[Any, Any], bool], other: Any) -> bool:
        outcome = compare(float(self), other)
        self.guards.append((f"{self.text} {sign} {other!r}", lambda: compare(self.read(), other), outcome))
        return outcome

    def __eq__(self, other: object) -> bool:
        return self._compared("==", operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return self._compared("!=", operator.ne, other)

    def __lt__(self, other: float) -> bool:
        return self._compared("<", operator.lt, other)

    def __le__(self, other: float) -> bool:
        return self._compared("<=", operator.le, other)

    def __gt__(self, other: float) -> bool:
        return self._compared(">", operator.gt, other)

    def __ge__(self, other: float) -> bool:
        return self._compared(">=", operator.ge, other)

    def __bool__(self) -> bool:
        return self._compared("!=", operator.ne, 0)


def _bracketed(text: str) -> str:
    return text if text.isidentifier() or text.endswith("]") else f"({text})"


def _arithmetic(name: str, swapped: bool) -> Callable[[Number, Any], Any]:
    compute, sign = getattr(operator, name), _SIGNS[name]

    def method(self: Number, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        known: Callable[[], Any] = other.read if isinstance(other, Number) else lambda: other
        text = other.text if isinstance(other, Number) else repr(other)
        reads = (known, self.read) if swapped else (self.read, known)
        texts = (text, self.text) if swapped else (self.text, text)
        values = (float(other), float(self)) if swapped else (float(self), float(other))
        parts = self.parts | other.parts if isinstance(other, Number) else self.parts
        expression = f"{_bracketed(texts[0])} {sign} {_bracketed(texts[1])}"
        return Number(compute(*values), expression, lambda: compute(reads[0](), reads[1]()), self.guards, parts)

    return method


for _name in _SIGNS:
    setattr(Number, f"__{_name}__", _arithmetic(_name, swapped=False))
    setattr(Number, f"__r{_name}__", _arithmetic(_name, swapped=True))

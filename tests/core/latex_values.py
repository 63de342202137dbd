"""The value of a formula in LaTeX, read as a reader does: products without a sign, functions without brackets."""

import math
import re
from collections.abc import Callable, Mapping

TOKEN = re.compile(r"\\(?:operatorname|mathrm|boldsymbol)\{(?:[^{}\\]|\\.)*\}|\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\S")

FUNCTIONS: dict[str, Callable[[float], float]] = {
    r"\ln": math.log,
    r"\sin": math.sin,
    r"\cos": math.cos,
    r"\tan": math.tan,
    r"\sinh": math.sinh,
    r"\cosh": math.cosh,
    r"\tanh": math.tanh,
    r"\arctan": math.atan,
    r"\operatorname{sign}": lambda x: math.copysign(1.0, x),
    r"\operatorname{arsinh}": math.asinh,
    r"\operatorname{sgn}": lambda x: math.copysign(1.0, x),
    r"\sigma": lambda x: 1 / (1 + math.exp(-x)),
}
CONSTANTS = {"e": math.e, r"\pi": math.pi}
ENDS = {"", "+", "-", ")", "}", "|", r"\odot", r"\cdot", r"\right"}


class UnknownError(ValueError):
    """The formula has a part without a value here, such as words or a sum over an index."""


class Reader:
    """Reads one formula from left to right."""

    def __init__(self, latex: str, values: Mapping[str, float]) -> None:
        self.tokens = [one for one in TOKEN.findall(latex) if one != r"\,"]
        self.values = {"".join(TOKEN.findall(name)): value for name, value in values.items()}
        self.place = 0

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.next
        if not token or (wanted and token not in wanted):
            raise UnknownError(f"{token!r} in {' '.join(self.tokens)}, and not {' or '.join(wanted)}")
        self.place += 1
        return token

    def sum(self) -> float:
        total = -self.term() if self.next == "-" and self.take() else self.term()
        while self.next in {"+", "-"}:
            total += self.term() if self.take() == "+" else -self.term()
        return total

    def term(self) -> float:
        result = self.product()
        while self.next in {r"\odot", r"\cdot"}:
            self.take()
            result *= self.product()
        return result

    def product(self) -> float:
        result = self.factor()
        while self.next not in ENDS:
            result *= self.factor()
        return result

    def factor(self) -> float:
        token = self.next
        if token in FUNCTIONS:
            self.take()
            bracket = self.next == "("
            return FUNCTIONS[token](self.factor() if bracket else self.product())  # without a bracket: of the product
        return self.scripted(self.base())

    def scripted(self, base: float) -> float:
        if self.next != "^":
            return base
        self.take()
        return base ** (self.group() if self.next == "{" else self.single())

    def single(self) -> float:
        token = self.take()
        return float(token) if token[0].isdigit() else self.named(token)

    def group(self) -> float:
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def base(self) -> float:
        token = self.take()
        if token == "(":
            value = self.sum()
            self.take(")")
            return value
        if token == r"\left":
            self.take("(")
            value = self.sum()
            self.take(r"\right")
            self.take(")")
            return value
        if token == "|":
            value = self.sum()
            self.take("|")
            return abs(value)
        if token == r"\frac":
            above = self.group()
            return above / self.group()
        if token == r"\sqrt":
            return math.sqrt(self.group())
        return float(token) if token[0].isdigit() else self.named(token)

    def named(self, token: str) -> float:
        if token in {r"\bar", r"\overline"} or self.next == "_":
            token += "" if token in {r"\bar", r"\overline"} else self.take("_")
            token += self.take("{")
            while not token.endswith("}"):
                token += self.take()
        if token not in self.values and token not in CONSTANTS:
            raise UnknownError(f"{token} in {' '.join(self.tokens)}")
        return self.values[token] if token in self.values else CONSTANTS[token]


def value(latex: str, values: Mapping[str, float]) -> float:
    """The value of a formula. ``values`` are the values of its names.

    Raises:
        UnknownError: the formula has something other than arithmetic, or a name without a value.
    """
    reader = Reader(latex, values)
    result = reader.sum()
    if reader.next:
        raise UnknownError(f"{reader.next!r} in {latex}")
    return result

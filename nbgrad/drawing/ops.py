"""The rows of the op table that belong to the ops of other engines, by the names that they have there."""

import re
from typing import Any

from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import OpInfo, Rule
from nbgrad.drawing.part import Part

_ALIASES = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "^": "pow", "@": "matmul",
    "plus": "add", "minus": "sub", "subtract": "sub", "multiply": "mul", "times": "mul", "divide": "div",
    "truediv": "div", "true_divide": "div", "power": "pow", "integer_pow": "pow", "negate": "neg", "negative": "neg",
    "dot": "matmul", "inv": "reciprocal", "inverse": "reciprocal", "logistic": "sigmoid", "add_any": "add",
    "ewiseadd": "add", "ewisemul": "mul", "ewisediv": "div", "ewisepow": "pow", "addscalar": "add",
    "mulscalar": "mul", "divscalar": "div", "powerscalar": "pow", "summation": "sum", "reduce_sum": "sum",
    "broadcastto": "expand", "broadcast_to": "expand", "less": "lt", "greater": "gt", "equal": "eq",
    "absolute": "abs",
}  # fmt: skip
"""The names of ops in other engines, in lower case, and torch's."""

_SCALARS = ("exponent", "scalar", "y", "power")
"""The settings in which engines keep a number that is the second operand of an op."""


def row_of(part: Part) -> Op | None:
    """The row of the table that does what the op of a part does, as far as its name and its operands tell.

    A "-" of one operand is a negation. "**2" is a power whose second operand is a number.
    """
    if part.op is None:
        return None
    name = re.sub(r"^(\*\*|\^|pow).+", "**", part.op.strip().lower()) if scalar_of(part) is not None else part.op
    name = name.strip().lower().strip("_")
    given = len(operands(part))
    if given == 1 and name == "-":
        name = "neg"
    row: Op | None = OPS.get(_ALIASES.get(name, name))
    return row if row is not None and row.listed is None and row.arity == given else None


def scalar_of(part: Part) -> Any | None:
    """The number that is the second operand of an op with one parent; None if there is none."""
    if len(part.parents) != 1:
        return None
    found = [part.settings[name] for name in _SCALARS if name in part.settings]
    return found[0] if found and isinstance(found[0], int | float) else None


def operands(part: Part) -> tuple[object, ...]:
    """The parents of a part, and the number that is its second operand, if there is one."""
    scalar = scalar_of(part)
    return part.parents if scalar is None else (*part.parents, scalar)


def named_operands(part: Part) -> tuple[object, ...]:
    """The same, without a number that the name of the op has, as in "**2"."""
    scalar = scalar_of(part)
    return part.parents if scalar is None or str(scalar) in str(part.op) else (*part.parents, scalar)


class EngineOp(OpInfo):
    """An op of another engine: its name, and the formulas of the row of the table that does the same. It does not run.

    Args:
        name: the name that the engine gives to it.
        count: how many operands it has.
        row: the row of the table; None if there is none.
    """

    def __init__(self, name: str, count: int, row: Op | None) -> None:
        self.name, self.arity, self.optional = name, count, 0
        self.doc = f"An op of this engine, of which nbgrad knows only the name {name}." if row is None else row.doc
        self.formula = "" if row is None else row.formula
        self.inputs = tuple([f"operand {at + 1}" for at in range(count)]) if row is None else row.inputs
        self.rules: dict[str, Rule] = {} if row is None else row.rules
        self.broadcasts = frozenset[int]() if row is None else row.broadcasts
        self.stretched = frozenset([one for at, one in enumerate(self.inputs) if at in self.broadcasts])
        self.several, self.many, self.view, self.sums = False, False, False, {}
        self.defaults, self.required, self.variadic = {}, frozenset(), None
        self.results, self.shown, self.live, self.listed = ("out",), 1, (0,), None
        self.differentiable, self.no_gradient = True, ()

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Refuse to run.

        Raises:
            NotImplementedError: the code of the op is in its engine.
        """
        raise NotImplementedError(f"{self.name} is an op of another engine, so nbgrad cannot run it")

"""``EngineOp``: the ops of other engines, with the formulas of the rows of the op table that do the same."""

from dataclasses import replace
from typing import Any

from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import OpInfo, Rule
from nbgrad.core.engine.traits import NONE
from nbgrad.drawing.calls import named
from nbgrad.drawing.part import Part

_SCALARS = ("exponent", "scalar", "y", "power")
"""The settings in which engines keep a number that is the second operand of an op."""


def row_of(part: Part) -> Op | None:
    """The row of the table that does what the op of a part does, as far as its name and its operands tell.

    A "-" of one operand is a negation. "**2" is a power whose second operand is a number.
    """
    known = None if part.op is None else named(part.op)
    if known is None:
        return None
    count = len(part.parents) + (scalar_of(part) is not None)
    row: Op | None = OPS.get("neg" if count == 1 and known.row == "sub" else known.row)
    return row if row is not None and row.listed is None and row.arity == count else None


def scalar_of(part: Part) -> Any | None:
    """The number that is the second operand of an op with one parent; None if there is none."""
    if part.op is None or len(part.parents) != 1:
        return None
    found = [part.settings[name] for name in _SCALARS if name in part.settings]
    return found[0] if found and isinstance(found[0], int | float) else None


def operands(part: Part) -> tuple[object, ...]:
    """The parents of a part, and a number that is its second operand, unless the name of the op has it, as in "**2"."""
    scalar = scalar_of(part)
    return part.parents if scalar is None or str(scalar) in str(part.op) else (*part.parents, scalar)


def settings_of(part: Part) -> dict[str, Any]:
    """The settings of a part with torch's names, without a number that is an operand."""
    left = {} if scalar_of(part) is not None else dict(part.settings)
    left.pop("requires_grad", None)
    return {_TORCHS.get(name, name): one for name, one in left.items()}


_TORCHS = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "order": "dims", "permutation": "dims"}
"""Settings that torch calls by another name."""


class EngineOp(OpInfo):
    """An op of another engine: its name, and the facts of the row of the table that does the same. It does not run.

    Args:
        part: a result of it.

    Attributes:
        traits: those of the row. A sign is not written again behind an op that is called by it.
    """

    def __init__(self, part: Part) -> None:
        row, count = row_of(part), len(operands(part))
        name = "neg" if part.op == "-" and count == 1 else str(part.op)  # a picture has one formula for each name
        self.name, self.arity, self.optional = name, count, 0
        self.traits = NONE if row is None else row.traits
        if self.traits.sign is not None and not name[:1].isalpha():
            self.traits = replace(self.traits, sign="")
        self.doc = f"An op of this engine, of which nbgrad knows only the name {name}." if row is None else row.doc
        self.formula = "" if row is None else row.formula
        self.inputs = tuple([f"operand {at + 1}" for at in range(count)]) if row is None else row.inputs
        self.rules: dict[str, Rule] = {} if row is None else row.rules
        self.broadcasts = frozenset[int]() if row is None else row.broadcasts
        self.stretched = frozenset([one for at, one in enumerate(self.inputs) if at in self.broadcasts])
        self.several, self.many, self.view, self.sums = False, False, False, {}
        self.defaults, self.required, self.variadic = {} if row is None else row.defaults, frozenset(), None
        self.results, self.shown, self.live, self.listed = ("out",), 1, (0,), None
        self.differentiable, self.no_gradient = True, ()

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Refuse to run.

        Raises:
            NotImplementedError: the code of the op is in its engine.
        """
        raise NotImplementedError(f"{self.name} is an op of another engine, so nbgrad cannot run it")

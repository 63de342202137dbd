"""``SavedOp``: the facts of an op of a graph that was read from a file, if the table does not have its row."""

from typing import Any, NamedTuple, Self

from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.tensor_data import text_of


class OpRow(NamedTuple):
    """The facts of an op in a file.

    Attributes:
        listed: whether it is a row of the op table, and not a ``Function`` or an op of torch's that has no row.
        name, doc, formula, inputs, arity, several, many: as those of ``OpInfo``.
        broadcasts: the positions of the inputs that it broadcasts.
        view: whether its result looks into the memory of its first input.
    """

    listed: bool
    name: str
    doc: str
    formula: str
    inputs: tuple[str, ...]
    arity: int
    several: bool
    many: bool
    broadcasts: frozenset[int]
    view: bool

    @classmethod
    def of(cls, op: OpInfo) -> Self:
        """The facts of ``op``; the formula of a user's op may be anything."""
        doc, formula, view = text_of(op.doc), text_of(op.formula), bool(getattr(op, "view", False))
        facts = op.inputs, op.arity, op.several, op.many, op.broadcasts
        return cls(isinstance(op, Op), op.name, doc, formula, *facts, view)

    def op(self) -> OpInfo:
        """The row of the table, if it is still the one that ran; else an op with these facts, which cannot run."""
        row: Op | None = OPS.get(self.name) if self.listed else None
        if row is not None and row.arity == -1 and self.arity == len(self.inputs) >= len(row.inputs):
            row = row.of(self.arity - len(row.inputs))
        return row if row is not None and OpRow.of(row) == self else SavedOp(self)


class SavedOp(OpInfo):
    """An op of which only the facts in a file are known. It does not run."""

    def __init__(self, facts: OpRow) -> None:
        self.name, self.doc, self.formula = facts.name, facts.doc, facts.formula
        self.inputs, self.arity, self.optional = facts.inputs, facts.arity, 0
        self.several, self.many, self.view = facts.several, facts.many, facts.view
        self.broadcasts, self.sums = facts.broadcasts, {}
        self.stretched = frozenset(name for at, name in enumerate(facts.inputs) if at in facts.broadcasts)
        self.defaults, self.required, self.variadic = {}, frozenset(), None
        self.results, self.shown, self.live, self.listed = ("out",), 1, (0,), None
        self.differentiable, self.no_gradient, self.rules = True, (), {}

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Refuse to run.

        Raises:
            NotImplementedError: a file holds the name of an op, and not its code.
        """
        raise NotImplementedError(f"{self.name} was read from a file, which holds no code, so it cannot run")

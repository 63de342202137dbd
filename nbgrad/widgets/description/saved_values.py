"""The values that an op saved for its backward, derived from its rules: nothing is counted while the op runs."""

from math import prod
from typing import NamedTuple

from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.format import byte_text


class Saved(NamedTuple):
    """The values that one op keeps between its forward and its backward.

    Attributes:
        names: of the inputs, results and settings that its rules name.
        size: bytes of the tensors among them whose shapes are in the record.
        whole: whether ``names`` and ``size`` cover all that the op keeps.
        tensors: whether a tensor is among them; else they are shapes and numbers, which take no memory worth a word.
    """

    names: tuple[str, ...]
    size: int
    whole: bool
    tensors: bool

    def __str__(self) -> str:
        if not self.names:
            return "nothing" if self.whole else "the values that its forward saved"
        if self.whole and not self.tensors:
            return f"no tensor, only {', '.join(self.names)}"
        if not self.whole and not self.size:
            return f"{', '.join(self.names)}, of a size that the picture does not know"
        return f"{', '.join(self.names)}: {'' if self.whole else 'at least '}{byte_text(self.size)}"


def saved_by(records: list[Record]) -> dict[int, Saved]:
    """The values that each op among ``records`` keeps, by its id."""
    use_of = {record.id: (needs_gradient(record), record.op is not None and record.op.several) for record in records}
    size_of = {record.id: prod(record.shape) * record.dtype.itemsize for record in records}
    plans: dict[object, _Plan] = {}
    found: dict[int, Saved] = {}
    for record in records:
        if record.op is None or record.kind != "op":
            continue
        sources = [taken.source or 0 for taken in record.inputs]
        uses = tuple([use_of.get(source) for source in sources])
        plan = plans.get((record.op, uses))
        if plan is None:
            plan = plans[record.op, uses] = _plan(record.op, uses)
        size = sum([size_of[source] for source in {sources[at] for at in plan.inputs}])  # x in x * x is kept once
        size += size_of[record.id] if plan.result else 0
        found[record.id] = Saved(plan.names, size, plan.whole, bool(plan.inputs) or plan.result)
    return found


class _Plan(NamedTuple):
    """The values that an op saves. Calls of one op share a plan if the same ones of their inputs need gradients.

    So there are few plans.

    Attributes:
        names, whole: as those of ``Saved``.
        inputs: the positions of the inputs that are saved.
        result: whether the result is.
    """

    names: tuple[str, ...]
    whole: bool
    inputs: tuple[int, ...] = ()
    result: bool = False


def _plan(op: OpInfo, uses: tuple[tuple[bool, bool] | None, ...]) -> _Plan:
    """The plan of ``op``. ``uses`` says of each input: does it need a gradient, and is it one of several results?"""
    taken = list(zip(op.inputs, uses, strict=False))
    wanted = [name for name, use in taken if name in op.rules and use is not None and use[0]]
    if not wanted or not op.differentiable:
        return _Plan((), whole=True)
    if not isinstance(op, Op):
        return _Plan((), whole=False)  # what a function of the user's saves is not known
    plan = op.plan(op, [op.inputs.index(name) for name in wanted])
    # The path to an input, which a rule may name, is no value that takes memory.
    names = tuple(name for slot, name in enumerate(plan.saved_names) if slot not in plan.paths)
    known = {name: at for at, (name, use) in enumerate(taken) if use is not None and not use[1]}
    given = {name for name, use in taken if use is None} | set(op.defaults)
    unknown = [name for name in names if name not in known and name not in op.results[:1] and name not in given]
    return _Plan(
        names,
        all(name.endswith(("_shape", "_device")) for name in unknown),
        tuple([known[name] for name in names if name in known and name not in op.results[:1]]),
        any(name in op.results[:1] for name in names),
    )


def needs_gradient(record: Record) -> bool:
    """Whether the tensor of a record gets a gradient if a backward reaches it."""
    return record.kind != "constant"

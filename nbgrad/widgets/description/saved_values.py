"""The values that an op saved for its backward, derived from its rules: nothing is counted while the op runs."""

from math import prod
from typing import NamedTuple

from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.node import OpInfo
from nbgrad.widgets.description.format import byte_text
from nbgrad.widgets.description.snapshot import Fact


class Saved(NamedTuple):
    """What one op keeps between its forward and its backward.

    Attributes:
        names: of the inputs, results and settings that its rules name.
        size: bytes of the tensors among them whose shapes are in the fact.
        whole: whether that is all of it.
        tensors: whether a tensor is among them; else they are shapes and numbers, which take no memory worth a word.
    """

    names: tuple[str, ...]
    size: int
    whole: bool
    tensors: bool

    def __str__(self) -> str:
        if not self.names:
            return "nothing" if self.whole else "what its forward asked for"
        if self.whole and not self.tensors:
            return f"no tensor, only {', '.join(self.names)}"
        if not self.whole and not self.size:
            return f"{', '.join(self.names)}, of a size that the picture does not know"
        return f"{', '.join(self.names)}: {'' if self.whole else 'at least '}{byte_text(self.size)}"


def saved_by(facts: list[Fact]) -> dict[int, Saved]:
    """What each op among ``facts`` keeps, by its id."""
    use_of = {fact.id: (needs_gradient(fact), fact.op is not None and fact.op.several) for fact in facts}
    size_of = {fact.id: prod(fact.shape) * fact.dtype.itemsize for fact in facts}
    plans: dict[object, _Plan] = {}
    found: dict[int, Saved] = {}
    for fact in facts:
        if fact.op is None or fact.kind != "op":
            continue
        sources = [taken.source or 0 for taken in fact.inputs]
        uses = tuple([use_of.get(source) for source in sources])
        plan = plans.get((fact.op, uses))
        if plan is None:
            plan = plans[fact.op, uses] = _plan(fact.op, uses)
        size = sum([size_of[source] for source in {sources[at] for at in plan.inputs}])  # x in x * x is kept once
        size += size_of[fact.id] if plan.result else 0
        found[fact.id] = Saved(plan.names, size, plan.whole, bool(plan.inputs) or plan.result)
    return found


class _Plan(NamedTuple):
    """What an op saves, the same for all calls whose inputs need gradients alike: most graphs have a few dozen.

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
    """The plan of ``op``; ``uses`` says of each input whether it needs a gradient, and is one of several results."""
    taken = list(zip(op.inputs, uses, strict=False))
    wanted = [name for name, use in taken if name in op.rules and use is not None and use[0]]
    if not wanted or not op.differentiable:
        return _Plan((), whole=True)
    if not isinstance(op, Op):
        return _Plan((), whole=False)  # what a function of the user's saves is its own affair
    plan = op.plan(op, [op.inputs.index(name) for name in wanted])
    names = tuple(name for slot, name in enumerate(plan.saved_names) if slot not in plan.paths)  # a path keeps nothing
    known = {name: at for at, (name, use) in enumerate(taken) if use is not None and not use[1]}
    given = {name for name, use in taken if use is None} | set(op.defaults)
    unknown = [name for name in names if name not in known and name not in op.results[:1] and name not in given]
    return _Plan(
        names,
        all(name.endswith(("_shape", "_device")) for name in unknown),
        tuple([known[name] for name in names if name in known and name not in op.results[:1]]),
        any(name in op.results[:1] for name in names),
    )


def needs_gradient(fact: Fact) -> bool:
    """Whether a backward gives what a fact stands for a gradient, if one reaches it."""
    return fact.kind != "constant"

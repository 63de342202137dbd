"""The text of a broadcast that the engine undid: the words, the first sums, and whether it was probably meant."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.engine.broadcast import Reduction as Undone, reduction as undoing
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.tensor.broadcast_check import unpaired
from nbgrad.widgets.description.format import counted, number, shape_text
from nbgrad.widgets.description.schema import Reduction

_SUMS, _TERMS = 4, 4


class ReductionRest(NamedTuple):
    """The data from which the words, the sums and the looks of a reduction are written.

    Attributes:
        name: the name of the input that was broadcast.
        undone: the sum that undid it.
        incoming, reduced: the gradient before and after it.
    """

    name: str
    undone: Undone
    incoming: Stats | None
    reduced: Stats | None

    def told(self) -> dict[str, Any]:
        """The text of the reduction."""
        dims = ", ".join(map(str, self.undone.dims))
        dim = f"dim{'s' if len(self.undone.dims) > 1 else ''} {dims}"
        return {
            "words": (
                f"In the forward, {self.name} of shape {shape_text(self.undone.target)} was repeated along {dim} to "
                f"fit {shape_text(self.undone.source)}. In the backward each of its numbers gets the sum of the "
                f"gradients of all its repeats: the sum over {dim} adds {counted(self.undone.terms, 'number')} for "
                "each one that is kept."
            ),
            "sums": [] if self.incoming is None else _sums(self.undone, self.incoming),
            "incoming": self.incoming,
            "reduced": self.reduced,
        }


class Suspicion(NamedTuple):
    """Why a broadcast was probably not meant, and what to do."""

    text: str
    remedy: str


def reduction(undone: Undone, warning: str | None) -> Reduction:
    """The sum that undid a broadcast, without what its ``ReductionRest`` says."""
    return Reduction(
        text=str(undone),
        dims=list(undone.dims),
        terms=undone.terms,
        words="",
        sums=[],
        incoming=None,
        reduced=None,
        warning=warning,
    )


def reduction_rest(undone: Undone, taken: Input, source: Record, record: Record) -> ReductionRest:
    """The data for the texts of a reduction: ``source``, the input ``taken`` of ``record``, was broadcast."""
    return ReductionRest(_called(taken, source, record), undone, taken.unreduced, taken.gradient)


def _called(taken: Input, source: Record, record: Record) -> str:
    """The user's name for an input, and the op's name for it: the user may have another tensor of that name."""
    whose = whose_name(taken.name, source)
    return f"{whose}, the {taken.name} of {record.op.name}," if whose and record.op is not None else taken.name


def whose_name(input: str, source: Record) -> str:
    """The name of ``source``, if it differs from that of the ``input``; else empty."""
    whose = source.name or ("" if source.op is None else f"the result of {source.op.name}")
    if source.several:
        whose = f"a result of {source.kind_or_op}"  # the record does not say which one
    return "" if whose == input else whose


def undone_sum(record: Record, at: int, made: dict[int, Record]) -> Undone | None:
    """The sum that undid the broadcast of an input of ``record``; None if there was none.

    Torch's loss functions broadcast inside, and their result is one number. It does not tell to which shape they
    stretched an input, but the shapes of all inputs do.

    Args:
        record: the op.
        at: the position of the input.
        made: the records of the graph, by id.
    """
    taken, op = record.inputs[at], record.op
    if taken.reduction is not None or op is None or at not in op.broadcasts or not is_loss(record):
        return taken.reduction
    source = made.get(taken.source or 0)
    if source is None or source.kind == "constant" or (taken.gradient is None and not record.root):
        return None  # it got no gradient
    shapes = [made[one.source].shape for one in record.inputs if one.source in made]
    full = np.broadcast_shapes(*shapes)
    return None if full == source.shape else undoing(full, source.shape)


def suspicions(records: list[Record]) -> dict[tuple[int, int], Suspicion]:
    """The broadcasts that were probably not meant, by the id of the op and the position of its input."""
    made = {record.id: record for record in records}
    found: dict[tuple[int, int], Suspicion] = {}
    for record in records:
        for at, taken in enumerate(record.inputs):
            if taken.source not in made or (stretched := undone_sum(record, at, made)) is None:
                continue
            given = [made[one.source] for one in record.inputs if one.source in made]
            if (one := _suspicion(record, given, taken, stretched)) is not None:
                found[record.id, at] = one
    return found


def _suspicion(record: Record, given: list[Record], taken: Input, undone: Undone) -> Suspicion | None:
    """Why the broadcast of ``taken``, an input of ``record`` among those ``given``, was probably not meant."""
    if record.op is None:
        return None
    stretched, shapes = shape_text(undone.target), [one.shape for one in given]
    if len(shapes) == 2 and unpaired(_Shaped(shapes[0]), _Shaped(shapes[1])):
        if not is_loss(record) and any(map(_gives_an_axis, given)):
            return None
        a, b = map(shape_text, shapes)
        made = np.broadcast_shapes(*shapes)  # a loss makes one number of it
        remedy = "To pair them one by one, give both one shape, with squeeze(-1) or unsqueeze(-1)."
        text = f"{a} against {b} makes {shape_text(made)}: each number of one meets every number of the other. {remedy}"
        return Suspicion(text, remedy)
    if is_loss(record) and undone.terms > 1:
        remedy = "give both one shape if they are to be compared one by one."
        text = (
            f"A loss that stretches {taken.name} of shape {stretched} compares each of its numbers with "
            f"{counted(undone.terms, 'target')}: {remedy}"
        )
        return Suspicion(text, remedy)
    return None


def _gives_an_axis(record: Record) -> bool:
    """Whether the user gave the result an axis of length 1, as ``x[:, None]`` does: then a broadcast is meant."""
    if record.op is None or record.op.name not in ("getitem", "unsqueeze"):
        return False
    index = record.settings.get("index")
    return record.op.name == "unsqueeze" or (isinstance(index, tuple) and any(one is None for one in index))


def is_loss(record: Record) -> bool:
    """Whether the op of a record is a loss."""
    return record.op is not None and record.op.name.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits"))


class _Shaped:
    """An object with a shape, which stands for a tensor in a call of ``unpaired``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _sums(undone: Undone, unreduced: Stats) -> list[str]:
    """The first few kept numbers, each with the numbers that were added for it."""
    values = unreduced.array
    if values is None or values.size == 0 or values.dtype.kind not in "fc" or values.shape != undone.source:
        return []
    values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    kept = [dim for dim in range(values.ndim) if dim not in undone.dims]
    terms = values.transpose([*kept, *undone.dims]).reshape(-1, undone.terms)
    names = _indices(undone.target)
    rows = [f"grad{name} = {_sum(row)}" for name, row in zip(names, terms[:_SUMS], strict=False)]
    left = prod(undone.target) - len(rows)
    return [*rows, f"and {left:,} more"] if left > 0 else rows


def _indices(shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [""]
    indices = list(zip(*np.unravel_index(range(min(_SUMS, prod(shape))), shape), strict=True))
    return [f"[{', '.join(str(int(at)) for at in index)}]" for index in indices]


def _sum(terms: Any) -> str:
    shown = [number(term) for term in terms[:_TERMS].tolist()]
    closed = [f"({term})" if term.endswith("j") or (at and term[0] == "-") else term for at, term in enumerate(shown)]
    text = " + ".join(closed)
    more = f" + … ({len(terms) - _TERMS:,} more)" if len(terms) > _TERMS else ""
    total = sum(terms.tolist())  # Python's sum: numpy's would warn about inf - inf, but the picture shows the NaN
    return f"{text}{more} = {number(total)}"

"""The text of a broadcast that the engine undid: the words, the first sums, and whether it was probably meant."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.engine.broadcast import Reduction as Undone
from nbgrad.core.graph.record import Input, Record
from nbgrad.core.graph.stats import Stats
from nbgrad.core.tensor.broadcast_check import unpaired
from nbgrad.core.translation import translate
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
        dim = translate("dim{plural} {dims}", plural="s" if len(self.undone.dims) > 1 else "", dims=dims)
        return {
            "words": (
                translate(
                    "In the forward, {name} of shape {target} was repeated along {dim} to fit {source}. "
                    "In the backward each of its numbers gets the sum of the gradients of all its "
                    "repeats: the sum over {dim} adds {numbers} for each one that is kept.",
                    name=self.name,
                    target=shape_text(self.undone.target),
                    dim=dim,
                    source=shape_text(self.undone.source),
                    numbers=counted(self.undone.terms, "number"),
                )
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
        expansion=f"{shape_text(undone.target)} → {shape_text(undone.source)}",
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
    return (
        translate("{whose}, the {name} of {name2},", whose=whose, name=taken.name, name2=record.op.name)
        if whose and record.op is not None
        else taken.name
    )


def whose_name(input: str, source: Record) -> str:
    """The name of ``source``, if the user's differs from that of the ``input``; else empty."""
    if source.several:
        return translate("a result of {kind_or_op}", kind_or_op=source.kind_or_op)  # the record does not say which one
    whose = source.full_name or ("" if source.op is None else translate("the result of {name}", name=source.op.name))
    return "" if source.name == input else whose


def suspicions(records: list[Record]) -> dict[tuple[int, int], Suspicion]:
    """The broadcasts that were probably not meant, by the id of the op and the position of its input."""
    made = {record.id: record for record in records}
    found: dict[tuple[int, int], Suspicion] = {}
    for record in records:
        for at, taken in enumerate(record.inputs):
            if record.op is None or taken.source not in made or taken.reduction is None:
                continue
            # Not all inputs broadcast: the weight of a layer does not meet its bias.
            fits = [one for at, one in enumerate(record.inputs) if at in record.op.broadcasts]
            given = [made[one.source] for one in fits if one.source in made]
            if (one := _suspicion(record, given, taken, taken.reduction, made)) is not None:
                found[record.id, at] = one
    return found


def _suspicion(
    record: Record, given: list[Record], taken: Input, undone: Undone, made: dict[int, Record]
) -> Suspicion | None:
    """Why the broadcast of ``taken``, an input of ``record`` among those ``given``, was probably not meant."""
    if record.op is None:
        return None
    stretched, shapes = shape_text(undone.target), [one.shape for one in given]
    if len(shapes) == 2 and unpaired(_Shaped(shapes[0]), _Shaped(shapes[1])):
        if not is_loss(record) and any(_gives_an_axis(one, made) for one in given):
            return None
        a, b = map(shape_text, shapes)
        full = np.broadcast_shapes(*shapes)  # a loss makes one number of it
        remedy = translate("To pair them one by one, give both one shape, with squeeze(-1) or unsqueeze(-1).")
        text = translate(
            "{a} against {b} makes {full}: each number of one meets every number of the other. {remedy}",
            a=a,
            b=b,
            full=shape_text(full),
            remedy=remedy,
        )
        return Suspicion(text, remedy)
    if is_loss(record) and undone.terms > 1:
        remedy = translate("give both one shape if they are to be compared one by one.")
        text = translate(
            "A loss that stretches {name} of shape {stretched} compares each of its numbers with {targets}: {remedy}",
            name=taken.name,
            stretched=stretched,
            targets=counted(undone.terms, "target"),
            remedy=remedy,
        )
        return Suspicion(text, remedy)
    return None


def _gives_an_axis(record: Record, made: dict[int, Record]) -> bool:
    """Whether the user gave the result an axis of length 1, as ``x[:, None]`` does: then a broadcast is meant.

    A constant may have got its axis long before, as a column of targets does. So the axis of a constant counts only if
    the constant has no name.
    """
    op, index = record.op, record.settings.get("index")
    if op is None:
        return record.given_axis and record.name is None
    if op.name == "getitem":
        return isinstance(index, tuple) and any(one is None for one in index)
    if "in shape" in op.formula or op.name == "unflatten":
        before = made.get(record.inputs[0].source or 0) if record.inputs else None
        return before is not None and before.shape[-1:] != (1,)
    return op.name == "unsqueeze" or record.settings.get("keepdim") is True


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
    rows = [
        translate("grad{name} = {sum}", name=name, sum=_sum(row))
        for name, row in zip(names, terms[:_SUMS], strict=False)
    ]
    left = prod(undone.target) - len(rows)
    return [*rows, translate("and {left:,} more", left=left)] if left > 0 else rows


def _indices(shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [""]
    indices = list(zip(*np.unravel_index(range(min(_SUMS, prod(shape))), shape), strict=True))
    return [f"[{', '.join(str(int(at)) for at in index)}]" for index in indices]


def _sum(terms: Any) -> str:
    shown = [number(term) for term in terms[:_TERMS].tolist()]
    closed = [f"({term})" if term.endswith("j") or (at and term[0] == "-") else term for at, term in enumerate(shown)]
    text = " + ".join(closed)
    more = translate(" + … ({count:,} more)", count=len(terms) - _TERMS) if len(terms) > _TERMS else ""
    total = sum(terms.tolist())  # Python's sum: numpy's would warn about inf - inf, but the picture shows the NaN
    return f"{text}{more} = {number(total)}"

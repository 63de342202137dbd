"""``Comparison``: two graphs side by side: the first op that differs, and which of their records belong together."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple, Protocol, runtime_checkable

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.counterparts import Counterparts, Side
from nbgrad.core.graph.discrepancy import Discrepancy, DiscrepancySearch, types_apart
from nbgrad.core.graph.discrepancy_text import NAMED, at_line, called, details, headline, told
from nbgrad.core.graph.distance import Distance
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.renderer import registered_renderer
from nbgrad.core.suggestions import kind_of
from nbgrad.core.translation import translate

_GROWTH = 1.5
"""A result is named among those where the difference grows, if it is so much farther apart than the inputs."""

_GROWN = 5
"""At most so many results where the difference grows are named."""


@runtime_checkable
class Recorded(Protocol):
    """A graph that can be compared: one of this process, or one that was read from a file."""

    name: str

    @property
    def backwards(self) -> int:
        """As ``AutogradGraph.backwards``."""

    @property
    def answers(self) -> Mapping[str, Any]:
        """For each tensor whose gradient its reader is asked for the answer; None if there is none yet."""

    def snapshot(self) -> list[Record]:
        """Every op and tensor with its statistics, sources first."""


class Pair(NamedTuple):
    """Two records that belong together.

    Attributes:
        left, right: the records.
        settings: by name, the arguments of the op that differ: the left value and the right one.
        value, gradient: how far the numbers are apart; None where they cannot be compared.
        other: their differences besides the numbers, in words; empty if there are none.
    """

    left: Record
    right: Record
    settings: dict[str, tuple[Any, Any]]
    value: Distance | None
    gradient: Distance | None
    other: str

    @property
    def differs(self) -> bool:
        """Whether anything differs by more than rounding, or one side has no gradient."""
        return bool(self.other) or any(one is not None and not one.agrees for one in (self.value, self.gradient))

    @property
    def words(self) -> str:
        """How they differ, in a few words; an empty text if they do not."""
        parts = [self.other] if self.other else []
        parts += [f"{name} {told(a)} | {told(b)}" for name, (a, b) in self.settings.items()]
        for what, one in (("value", self.value), ("gradient", self.gradient)):
            if one is not None and not one.agrees:
                parts.append(translate("{what} by {words}", what=translate(what), words=one.words))
        return ", ".join(parts)


class Comparison:
    """Two graphs side by side, as ``nbgrad.compare`` makes them; the last line of a cell draws it.

    Attributes:
        left, right: the graphs.
        names: their names in the picture.
        rtol: the relative distance up to which results agree; None for the limits of their element types.
        records: the records of both, sources first.
        pairs: the records that belong together, in the order of the left graph.
        alone: the records of the left graph, and of the right one, that have no counterpart: also the ops inside of
            what is one op on the other side.
        lacking: the ops among them that make a difference.
        discrepancies: the places of the forward where the runs part, in the order of the left run.
        gradients: the same of the backward, in its order.
        types: the pairs at which the element types part.
    """

    def __init__(
        self,
        left: Recorded,
        right: Recorded,
        names: tuple[str, str] | None = None,
        *,
        rtol: float | None = None,
    ) -> None:
        for graph in (left, right):
            _check(graph)
        if rtol is not None and not _is_part(rtol):
            raise ValueError(f"rtol={rtol!r}: compare() takes a relative distance, such as 1e-3, from 0 to below 1")
        self.left, self.right = left, right
        self.names = _names(left, right, names)
        self.rtol = rtol
        self.records = left.snapshot(), right.snapshot()
        for graph, some in zip((left, right), self.records, strict=True):
            if not any(record.kind == "op" for record in some):
                raise ValueError(f"nothing was recorded in {graph.name!r}, so that there is nothing to compare")
        found = Counterparts(Side(self.records[0]), Side(self.records[1]))
        walk = DiscrepancySearch(found, rtol)
        walk.heal()
        self.discrepancies = list(walk.forward())
        self.gradients = list(walk.backward())
        self._places = list(found.pairs())
        self.pairs = [_pair(walk, *places) for places in self._places]
        self.lacking = walk.lacking()
        self.types = [self._records_at(*places) for places in types_apart(found)]
        self.alone = tuple(
            [one for at, one in enumerate(records) if known[at] < 0]
            for records, known in zip(self.records, (found.of_left, found.of_right), strict=True)
        )
        self._sources = found.left.sources

    def _records_at(self, left: int, right: int) -> tuple[Record, Record]:
        return self.records[0][left], self.records[1][right]

    @property
    def first(self) -> Discrepancy | None:
        """The first op, in the order of the left run, whose inputs agree and whose result does not; None if all agree.

        It may also be a parameter, an input or a constant whose numbers differ, or an op that is only on one side.
        """
        return self.discrepancies[0] if self.discrepancies else None

    @property
    def first_gradient(self) -> Discrepancy | None:
        """The first op, in the order of the backward, that gets the same gradient and passes on another one.

        Its values agree, so that the forward does not explain it. None if there is none.
        """
        return self.gradients[0] if self.gradients else None

    @property
    def equal(self) -> bool:
        """Whether all numbers that both have agree up to rounding, and nothing is missing that changes them."""
        return self.first is None and self.first_gradient is None and not any(pair.differs for pair in self.pairs)

    @cached_property
    def growth(self) -> list[Pair]:
        """The results at which the difference grows most, and the last result, in the order of the left run."""
        known = {left: pair for (left, _), pair in zip(self._places, self.pairs, strict=True)}
        found: list[tuple[float, int]] = []
        for left, pair in known.items():
            if pair.left.kind != "op" or pair.value is None or pair.value.agrees:
                continue
            before = [known[at].value for at in self._sources[left] if at in known]
            known_before = [one.relative for one in before if one is not None and not one.agrees]
            if known_before and max(known_before) > 0:
                found.append((pair.value.relative / max(known_before), left))
        grown = sorted([one for one in found if one[0] >= _GROWTH], reverse=True)[:_GROWN]
        ends = {left for left, pair in known.items() if pair.left.root and any(left == at for _, at in found)}
        return [known[left] for left in sorted(ends | {left for _, left in grown})]

    @property
    def summary(self) -> str:
        """In a sentence, how many ops agree."""
        return _summary(self)

    def save(self, path: str | PathLike[str], **options: Any) -> None:
        """Write both graphs side by side to one file, as ``AutogradGraph.save`` does with one.

        Raises:
            ValueError, ModuleNotFoundError, RuntimeError, OSError: as there.
        """
        registered_renderer().save_comparison(self, path, **options)

    def _ipython_display_(self) -> None:
        """Draw both graphs where this is the last expression of a notebook cell."""
        registered_renderer().show_comparison(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__


def _is_part(rtol: Any) -> bool:
    return isinstance(rtol, int | float) and 0 <= rtol < 1


def _check(graph: Any) -> None:
    """Raise unless ``graph`` can be compared."""
    if isinstance(graph, type) or not isinstance(graph, Recorded):
        raise TypeError(
            f"compare() takes two graphs, as of nbgrad.record or nbgrad.load, and got {kind_of(graph)}. For a graph of "
            "another process, save it there, as graph.save('step.nbgrad'), and load it here. To compare the processes "
            "of a training, open a graph in each, with nbgrad.record(ranks=True)"
        )
    if asked := [name for name, one in graph.answers.items() if not one]:
        raise ValueError(
            f"{graph.name!r} still asks for the gradients of {', '.join(asked)}; a comparison would show them"
        )


def _names(left: Recorded, right: Recorded, names: Any) -> tuple[str, str]:
    """The names of the sides, which must be different."""
    found = (left.name, right.name) if names is None else tuple(names) if not isinstance(names, str) else ()
    if len(found) != 2 or not all(isinstance(name, str) and name.strip() for name in found):
        raise ValueError(f"names={names!r}: compare() takes two names, such as ('before', 'after')")
    if found[0] == found[1]:
        return translate("{found}, left", found=found[0]), translate("{found}, right", found=found[1])
    return found[0], found[1]


def _pair(walk: DiscrepancySearch, left: int, right: int) -> Pair:
    """Compare two records."""
    one, other = walk.left.records[left], walk.right.records[right]
    said = []
    if walk.left.name(left) != walk.right.name(right) and not walk.agree(left, right):
        said.append(
            translate("{kind_or_op} against {kind_or_op2}", kind_or_op=one.kind_or_op, kind_or_op2=other.kind_or_op)
        )
    if one.shape != other.shape:
        said.append(translate("shape {shape} against {shape2}", shape=one.shape, shape2=other.shape))
    if (one.gradient is None) != (other.gradient is None) and "constant" not in (one.kind, other.kind):
        said.append(
            translate(
                "a gradient on the {side} side alone", side=translate("right" if one.gradient is None else "left")
            )
        )
    values = walk.value(left, right), walk.gradient(left, right)
    return Pair(one, other, walk.settings(left, right), *values, ", ".join(said))


# --- the text --------------------------------------------------------------------------------------------------------


def _lines(comparison: Comparison) -> Iterator[str]:
    left, right = comparison.names
    yield f"{left} | {right}: {_summary(comparison)}"
    if comparison.first is not None:
        yield translate("first difference: {headline}", headline=headline(comparison.first, comparison.names))
        yield from details(comparison.first, comparison.names)
        yield from _later(comparison)
        if comparison.growth:
            yield translate("  grows: {names}", names="; ".join(map(_grown, comparison.growth)))
        more = comparison.discrepancies[1 : 1 + NAMED]
        if more:
            yield translate(
                "  other differences: {names}", names="; ".join(headline(one, comparison.names) for one in more)
            )
    if comparison.first_gradient is not None:
        yield translate(
            "first difference of the backward: {headline}",
            headline=headline(comparison.first_gradient, comparison.names),
        )
        yield from details(comparison.first_gradient, comparison.names)
    yield from _rest(comparison)


def _later(comparison: Comparison) -> Iterator[str]:
    """A line if a parameter is the first difference, and steps before the compared backward may have parted it."""
    first = comparison.first
    one = None if first is None or first.kind != "tensor" else first.left
    left, right = comparison.left.backwards, comparison.right.backwards
    if one is not None and one.kind in ("parameter", "leaf") and max(left, right) > 1:
        yield translate(
            "  the last of {left} and of {right} backwards are compared: if steps have parted the parameters, "
            "compare the first backward of each",
            left=left,
            right=right,
        )


def _summary(comparison: Comparison) -> str:
    """In a sentence, how much agrees."""
    ops = [pair for pair in comparison.pairs if pair.left.kind == "op"]
    alike = sum(not pair.differs for pair in ops)
    if comparison.equal:
        text = translate("all {count} ops agree", count=len(ops)) if len(ops) != 1 else translate("the op agrees")
    else:
        results = sum(pair.value is None or pair.value.agrees for pair in ops)
        text = translate(
            "{results} of {count} results agree, {alike} with their gradients",
            results=results,
            count=len(ops),
            alike=alike,
        )
    inner = [sum(one.kind == "op" for one in some) for some in comparison.alone]
    if any(inner):
        text += translate(", {inner} and {inner2} have no counterpart", inner=inner[0], inner2=inner[1])
    return text


def _rest(comparison: Comparison) -> Iterator[str]:
    """The lines about types, settings, and what could not be compared."""
    if not comparison.equal and comparison.first is None and comparison.first_gradient is None:
        sides = [", ".join(called(one) for one in some if one.kind == "op") for some in comparison.alone]
        if any(sides):
            yield translate(
                "ops that are only on one side, and what comes behind them agrees up to rounding: {left} | {right}",
                left=sides[0] or "-",
                right=sides[1] or "-",
            )
        else:
            yield translate("no op parts them: each passes on what it gets, and rounding grows on the way")
    if comparison.types:
        one, other = comparison.types[0]
        more = len(comparison.types) - 1
        kinds = f"{dtype_name(one.dtype)} | {dtype_name(other.dtype)}"
        if one.dtype == other.dtype:
            kinds = translate(
                "{dtype}, but rounded to a shorter type before it on one side", dtype=dtype_name(one.dtype)
            )
        yield translate(
            "types part at {one}{at_line}: {kinds}{more}",
            one=called(one),
            at_line=at_line(one),
            kinds=kinds,
            more=translate(", and at {more} more", more=more) if more else "",
        )
    others = [pair for pair in comparison.pairs if pair.settings and not pair.differs]
    if others:
        yield translate(
            "other settings, the same numbers: {names}", names="; ".join(_set(pair) for pair in others[:NAMED])
        )
    norms = sum(_by_norms(pair) for pair in comparison.pairs)
    if norms:
        yield translate("compared by norms and extremes alone: {norms} large tensors", norms=norms)
    unknown = sum(pair.value is None and pair.left.kind == "op" and not pair.other for pair in comparison.pairs)
    if unknown:
        yield translate("without known values, judged by inputs and settings: {unknown} of the ops", unknown=unknown)


def _by_norms(pair: Pair) -> bool:
    return any(one is not None and one.basis == "norms" for one in (pair.value, pair.gradient))


def _set(pair: Pair) -> str:
    said = ", ".join(f"{name} {told(a)} | {told(b)}" for name, (a, b) in pair.settings.items())
    return f"{called(pair.left)}, {said}"


def _grown(pair: Pair) -> str:
    return f"{called(pair.left)} {'' if pair.value is None else pair.value.words}"

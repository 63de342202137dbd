"""``Comparison``: two graphs side by side: which of their records belong together, and how these differ."""

from collections import defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from math import isfinite
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.custom_overlay import path_of
from nbgrad.core.graph.names import path_in
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.renderer import registered_renderer
from nbgrad.core.graph.saved_graph import AnyGraph
from nbgrad.core.graph.stats import Stats
from nbgrad.core.suggestions import kind_of

_SEARCHED = 1 << 18
"""With more pairs of records than this, those of one module are paired in their order, without a search."""

_ROUNDING = 64
"""Rounding may explain a difference up to this many times the precision of the element type."""


class Pair(NamedTuple):
    """Two records that belong together.

    Attributes:
        left, right: the records.
        other: their differences besides the numbers, in words; empty if there are none.
        value, gradient: how far the numbers differ, as a part of the larger norm: 0 for equal ones, and None where they
            cannot be compared. For tensors whose numbers were not kept it is the difference of the norms.
        exact: whether all numbers were compared, and not just norms.
    """

    left: Record
    right: Record
    other: str
    value: float | None
    gradient: float | None
    exact: bool

    @property
    def differs(self) -> bool:
        """Whether anything differs by more than rounding."""
        return bool(self.other) or any(_beyond(part, self.left) for part in (self.value, self.gradient))

    @property
    def words(self) -> str:
        """How they differ, in a few words; an empty text if they do not."""
        parts = [self.other] if self.other else []
        for what, part in (("value", self.value), ("gradient", self.gradient)):
            if part is not None and _beyond(part, self.left):
                parts.append(f"{what} by {_share(part)}")
        return ", ".join(parts)


def _beyond(part: float | None, record: Record) -> bool:
    """Whether a difference is more than that of rounding."""
    if part is None or part == 0:
        return False
    eps = torch.finfo(record.dtype).eps if record.dtype.is_floating_point or record.dtype.is_complex else 0.0
    return not part <= _ROUNDING * eps


def _share(part: float) -> str:
    """The text for a difference that is the fraction ``part`` of a norm."""
    if not isfinite(part):
        return "NaN or Inf on one side"
    return f"{100 * part:.3g}%"


class Comparison:
    """Two graphs side by side, as ``nbgrad.compare`` makes them; the last line of a cell draws it.

    Attributes:
        left, right: the graphs.
        names: their names in the picture.
        pairs: the records that belong together, in the order of the left graph.
        alone: the records of the left graph, and of the right one, that have no counterpart.
    """

    def __init__(self, left: AnyGraph, right: AnyGraph, names: tuple[str, str] | None = None) -> None:
        for graph in (left, right):
            if not isinstance(graph, AnyGraph):
                raise TypeError(
                    f"compare() takes two graphs, as of nbgrad.AutogradGraph or nbgrad.load, and got {kind_of(graph)}. "
                    "For a graph of another process, save it there, as graph.save('step.nbgrad'), and load it here. To "
                    "compare the processes of a training, open a graph in each, with nbgrad.record(ranks=True)"
                )
            if asked := [name for name, answer in graph.answers.items() if not answer]:
                raise ValueError(
                    f"{graph.name!r} still asks for the gradients of {', '.join(asked)}; a comparison would show them"
                )
        self.left, self.right = left, right
        self.names = _names(left, right, names)
        self.records = left.snapshot(), right.snapshot()
        matched = _matched(*self.records)
        self.pairs = [_pair(*self._records_at(*places)) for places in matched]
        seen = [{places[side] for places in matched} for side in (0, 1)]
        self.alone = tuple(
            [one for at, one in enumerate(records) if at not in known]
            for records, known in zip(self.records, seen, strict=True)
        )

    def _records_at(self, left: int, right: int) -> tuple[Record, Record]:
        return self.records[0][left], self.records[1][right]

    @property
    def differences(self) -> list[str]:
        """A line for each difference: first the records on one side alone, then the pairs, the largest first."""
        lines = [
            f"{record.what} {record.shape}: only in {name}"
            for name, records in zip(self.names, self.alone, strict=True)
            for record in records
        ]
        found = sorted((pair for pair in self.pairs if pair.differs), key=_size, reverse=True)
        return lines + [f"{_told(pair.left)}: {pair.words}" for pair in found]

    @property
    def summary(self) -> str:
        """How many boxes are on both sides and how many of them differ, in a sentence."""
        values = sum(_beyond(one.value, one.left) for one in self.pairs)
        gradients = sum(_beyond(one.gradient, one.left) for one in self.pairs)
        changed = sum(bool(pair.other) for pair in self.pairs)
        parts = [f"{_many(len(self.pairs), 'box', 'boxes')} on both sides"]
        parts += [f"{len(some)} only in {name}" for name, some in zip(self.names, self.alone, strict=True) if some]
        if changed:
            parts.append(f"{changed} of another op or shape")
        if values or gradients:
            parts.append(f"{_many(values, 'value')} and {_many(gradients, 'gradient')} differ")
        else:
            parts.append("all numbers that both have are the same, up to rounding")
        return ", ".join(parts)

    def save(self, path: str | PathLike[str], **options: Any) -> None:
        """Write both graphs side by side to one file, as ``AutogradGraph.save`` does with one.

        Raises:
            ValueError, ModuleNotFoundError, RuntimeError, OSError: as there.
        """
        registered_renderer().save_comparison(self, path, **options)

    def _ipython_display_(self) -> None:
        """Draw both graphs where this is the last expression of a notebook cell."""
        registered_renderer().show_comparison(self)

    def __repr__(self) -> str:
        return f"<Comparison of {self.names[0]!r} with {self.names[1]!r}: {self.summary}>"


def _many(count: int, noun: str, several: str = "") -> str:
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def _names(left: AnyGraph, right: AnyGraph, names: Any) -> tuple[str, str]:
    """The names of the sides, which must be different."""
    found = (left.name, right.name) if names is None else tuple(names) if not isinstance(names, str) else ()
    if len(found) != 2 or not all(isinstance(name, str) and name.strip() for name in found):
        raise ValueError(f"names={names!r}: compare() takes two names, such as ('before', 'after')")
    if found[0] == found[1]:
        return f"{found[0]}, left", f"{found[1]}, right"
    return found[0], found[1]


def _size(pair: Pair) -> float:
    """How much a pair differs; pairs of different ops differ most."""
    parts = [part for part in (pair.value, pair.gradient) if part is not None]
    return 10.0 * bool(pair.other) + max([part if isfinite(part) else 5.0 for part in parts], default=0.0)


def _told(record: Record) -> str:
    path = path_of(record.scope)
    return f"{path} {record._replace(full=None).what}" if path else record.what


def _pair(left: Record, right: Record) -> Pair:
    """Compare two records."""
    other = []
    if left.kind_or_op != right.kind_or_op:
        other.append(f"{left.kind_or_op} against {right.kind_or_op}")
    if left.shape != right.shape:
        other.append(f"shape {left.shape} against {right.shape}")
    if (left.gradient is None) != (right.gradient is None) and "constant" not in (left.kind, right.kind):
        other.append(f"a gradient on the {'right' if left.gradient is None else 'left'} side alone")
    value, whole = _distance(left.value, right.value)
    gradient, all_of_it = _distance(left.gradient, right.gradient)
    return Pair(left, right, ", ".join(other), value, gradient, whole and all_of_it)


def _distance(left: Stats | None, right: Stats | None) -> tuple[float | None, bool]:
    """How far the numbers of two tensors are apart, as a part of the larger norm, and whether all were compared."""
    if left is None or right is None or left.shape != right.shape:
        return None, True
    a, b = left.array, right.array
    if a is None or b is None or a.dtype.kind not in "fiubc" or b.dtype.kind not in "fiubc":
        return _part(abs(left.norm - right.norm), max(left.norm, right.norm)), False
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0, True
    with np.errstate(all="ignore"):
        apart = float(np.linalg.norm(np.where(same, 0, a - b).ravel()))
        return _part(apart, max(float(np.linalg.norm(a.ravel())), float(np.linalg.norm(b.ravel())))), True


def _part(apart: float, whole: float) -> float:
    if apart == 0:
        return 0.0
    return apart / whole if isfinite(apart) and isfinite(whole) else float("inf")


# --- pairing ---------------------------------------------------------------------------------------------------------


def _matched(left: list[Record], right: list[Record]) -> list[tuple[int, int]]:
    """The places of the records that belong together: in the same module by its path, of the same op, in order.

    A record between two pairs that has no counterpart of the same op is paired with one of the same kind. So a sigmoid
    stands beside the ReLU in its place.
    """
    groups: dict[tuple[str, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, records in enumerate((left, right)):
        for at, record in enumerate(records):
            groups[_home(record)][side].append(at)
    found: list[tuple[int, int]] = []
    for mine, theirs in groups.values():
        keys = [[_key(records[at]) for at in places] for records, places in ((left, mine), (right, theirs))]
        found += [(mine[a], theirs[b]) for a, b in _aligned(*keys)]
    return sorted(found)


def _home(record: Record) -> tuple[str, ...]:
    """The group in which a counterpart is searched: the ops or the tensors of one module, by its path."""
    path = [path_in(scope) or scope.label for scope in outwards(record.scope) if scope.parent is not None]
    return ("op" if record.op is not None else "tensor", *path)


def _key(record: Record) -> tuple[str, str]:
    """The property that it must share with its counterpart: the op, or the name of a tensor."""
    return ("op", record.op.name) if record.op is not None else ("tensor", record.name or record.kind)


def _aligned(left: list[Any], right: list[Any]) -> Iterator[tuple[int, int]]:
    """The places of the items that belong together."""
    begin = 0
    while begin < min(len(left), len(right)) and left[begin] == right[begin]:
        yield begin, begin
        begin += 1
    end = 0
    while end < min(len(left), len(right)) - begin and left[-1 - end] == right[-1 - end]:
        yield len(left) - 1 - end, len(right) - 1 - end
        end += 1
    mine, theirs = left[begin : len(left) - end], right[begin : len(right) - end]
    if len(mine) * len(theirs) > _SEARCHED:
        blocks = [("replace", 0, len(mine), 0, len(theirs))]
    else:
        blocks = list(SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes())
    for tag, a, a_end, b, b_end in blocks:
        if tag == "equal" or (tag == "replace" and (mine[a][0] == "op" or a_end - a == b_end - b == 1)):
            yield from ((begin + a + at, begin + b + at) for at in range(min(a_end - a, b_end - b)))

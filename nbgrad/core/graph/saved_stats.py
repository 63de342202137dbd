"""The statistics of a graph in a file, as columns of numbers: each object once, so that shared ones stay shared."""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Literal

import numpy as np

from nbgrad.core.graph.stats import Stats
from nbgrad.core.typed_json import MismatchError

Columns = Mapping[str, "np.ndarray[Any, Any]"]

_OPTIONAL = ("low", "high", "mean")
_MAGNITUDES, _RAW, _COUNTS, _SAMPLE = 8, 16, 32, 64
"""The bits of the facts that are there: the first three are those of ``_OPTIONAL``."""

_NUMBERS = frozenset("fiubc")
"""The kinds of numpy's element types that numbers are kept in."""


def column(columns: Columns, name: str, kind: Literal["f", "i", "u"]) -> list[Any]:
    """The numbers of a column, whose element type in numpy is of that kind.

    Raises:
        MismatchError: there is no such column.
    """
    found = columns.get(name)
    if found is None or found.ndim != 1 or found.dtype.kind != kind:
        raise MismatchError(f"a file with the column {name}", "numbers")
    numbers: list[Any] = found.tolist()
    return numbers


class StatsColumns:
    """Collects statistics, and makes columns of them."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._all: list[Stats] = []

    def place(self, stats: Stats) -> int:
        """The row of ``stats``; the object that is known already has its row."""
        found = self._places.setdefault(id(stats), len(self._all))
        if found == len(self._all):
            self._all.append(stats)
        return found

    def columns(self) -> tuple[list[list[int]], list[str], Columns]:
        """The different shapes, the different element types of numpy's, and the columns."""
        shapes: dict[tuple[int, ...], int] = {}
        dtypes: dict[str, int] = {}
        for one in self._all:
            shapes.setdefault(tuple(one.shape), len(shapes))
            dtypes.setdefault(one.dtype, len(dtypes))
        counted = [one.counts for one in self._all if one.counts is not None]
        columns = {
            "shape": [shapes[tuple(one.shape)] for one in self._all],
            "dtype": [dtypes[one.dtype] for one in self._all],
            "facts": [_facts(one) for one in self._all],
            "sample": [one.sample for one in self._all if one.sample is not None],
            "nan": [one.nan for one in self._all],
            "inf": [one.inf for one in self._all],
            "bins": [len(counts) for counts in counted],
            "counts": [count for counts in counted for count in counts],
        }
        found = {name: np.array(column, "<u1" if name == "facts" else "<i8") for name, column in columns.items()}
        for name in ("norm", *_OPTIONAL):
            numbers = [getattr(one, name) for one in self._all]
            found[name] = np.array([0.0 if number is None else number for number in numbers], "<f8")
        found["raw"] = np.frombuffer(b"".join([one.raw for one in self._all if one.raw is not None]), np.uint8)
        return [list(shape) for shape in shapes], list(dtypes), found


def _facts(stats: Stats) -> int:
    found = sum([1 << at for at, name in enumerate(_OPTIONAL) if getattr(stats, name) is not None])
    found |= _MAGNITUDES if stats.magnitudes else 0
    found |= 0 if stats.raw is None else _RAW
    found |= 0 if stats.counts is None else _COUNTS
    return found | (0 if stats.sample is None else _SAMPLE)


def stats_of(shapes: list[tuple[int, ...]], dtypes: list[str], columns: Columns) -> list[Stats]:
    """The statistics in columns that ``StatsColumns`` made.

    Raises:
        MismatchError: a column is missing, too short, or does not fit the others.
    """
    try:
        return _stats_of(shapes, dtypes, columns)
    except (IndexError, TypeError, ValueError, OverflowError, StopIteration):
        raise MismatchError("columns of statistics that fit each other", "numbers") from None


def _stats_of(shapes: list[tuple[int, ...]], dtypes: list[str], columns: Columns) -> list[Stats]:
    for dtype in dtypes:
        if dtype and (np.dtype(dtype).kind not in _NUMBERS or np.dtype(dtype).str != dtype):
            raise ValueError(dtype)
    if any(size < 0 for shape in shapes for size in shape):
        raise ValueError(shapes)
    kinds: list[tuple[Literal["f", "i", "u"], tuple[str, ...]]] = [
        ("i", ("shape", "dtype")), ("u", ("facts",)), ("f", ("norm", *_OPTIONAL)), ("i", ("nan", "inf")),
    ]  # fmt: skip
    table = list(zip(*[column(columns, name, kind) for kind, names in kinds for name in names], strict=True))
    raws = _raws(table, shapes, dtypes, bytes(column(columns, "raw", "u")))
    counts, samples = _counts(columns), iter(column(columns, "sample", "i"))
    found: list[Stats] = []
    for (shape, dtype, facts, norm, *optional, nan, inf), raw in zip(table, raws, strict=True):
        low, high, mean = [number if facts >> at & 1 else None for at, number in enumerate(optional)]
        bins = next(counts) if facts & _COUNTS else None
        told = bool(facts & _MAGNITUDES), next(samples) if facts & _SAMPLE else None
        found.append(Stats(shapes[shape], norm, low, high, mean, nan, inf, raw, dtypes[dtype], bins, *told))
    if next(counts, None) is not None or next(samples, None) is not None:
        raise ValueError(columns)
    return found


def _raws(table: list[Any], shapes: list[tuple[int, ...]], dtypes: list[str], held: bytes) -> list[bytes | None]:
    """The numbers of each small tensor: their bytes stand one after another."""
    sizes = [
        prod(shapes[shape]) * np.dtype(dtypes[dtype] or None).itemsize if facts & _RAW else 0
        for shape, dtype, facts, *_ in table
    ]
    ends = list(accumulate(sizes, initial=0))
    if ends[-1] != len(held) or any(row[2] & _RAW and not dtypes[row[1]] for row in table):
        raise ValueError(ends)
    return [held[start:end] if row[2] & _RAW else None for row, (start, end) in zip(table, pairwise(ends), strict=True)]


def _counts(columns: Columns) -> Any:
    """The histogram of each large tensor."""
    bins, held = column(columns, "bins", "i"), column(columns, "counts", "i")
    ends = list(accumulate(bins, initial=0))
    if min(bins, default=1) < 1 or ends[-1] != len(held) or min(held, default=0) < 0:
        raise ValueError(bins)
    return iter([tuple(held[start:end]) for start, end in pairwise(ends)])

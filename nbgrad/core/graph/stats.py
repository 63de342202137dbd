"""``Stats``: the statistics of a tensor that a picture shows, and its size in bytes by its shape."""

import math
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from nbgrad.core.backend.chunks import piece_of, pieces
from nbgrad.core.compilation import compiled
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.tensor_data import OWN_DISPATCH
from nbgrad.core.engine.torch_reads import FEW

T = TypeVar("T")

SMALL = FEW
"""Tensors with at most this many elements are kept to be shown; of larger ones only the statistics are kept."""

SAMPLE = 1 << 16
"""The size of the sample on which the update of a larger tensor is measured: to read all takes longer than a norm."""

BINNED = SAMPLE // 4
"""The size of the sample for the histogram of a tensor above ``SAMPLE``: a share of 25 % is then right to 0.7 %."""

_RUN = 16
"""The numbers of a sample lie in runs of this length: 16 numbers in float32 are a line of the processor's cache."""

_BINNED_RUN = 8
"""Those of a histogram lie in shorter runs: neighbours may be alike, and it has fewer of them."""

_GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio, modulo 1, lie evenly between 0 and 1, and so do those of every n-th."""

_ROW = 1024
"""A norm is first taken of so many numbers: torch adds the squares of a row in its own precision, so that the norm of a
million equal numbers in float32 would be wrong in the third digit."""

_SHORT = 1 << 14
"""The norms of tensors with at most so many numbers are taken together, and not row by row."""

_BINS = 20

_PIECES = 2
"""The statistics of about this many pieces of numbers on a GPU are computed at a time, and read together."""

_MANY = 4096
"""The number of tensors whose norms are computed at a time."""

_AT_ONCE = 1 << 16
"""On a CPU the bins of this many numbers are found at a time: the temporary tensors fit into its second cache."""


@dataclass(frozen=True, slots=True, repr=False)
class Stats:
    """The statistics of the values of a tensor.

    ``norm`` is the Euclidean norm. ``low``, ``high`` and ``mean`` are None for an empty tensor and where only the norm
    was kept. ``raw`` are the numbers of a small tensor as they lie in memory, of numpy's ``dtype``: a graph of
    thousands of ops has a million of them, and few are ever looked at. For a larger tensor ``counts`` is a histogram of
    the finite values, in equal steps from ``low`` to ``high``. If that is of a sample, ``sample`` is how many numbers
    the sample has; everything else is of all numbers. For complex numbers all fields but ``raw`` are those of the
    ``magnitudes``.
    """

    shape: tuple[int, ...]
    norm: float
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    nan: int = 0
    inf: int = 0
    raw: bytes | None = None
    dtype: str = ""
    counts: tuple[int, ...] | None = None
    magnitudes: bool = False
    sample: int | None = None

    @property
    def array(self) -> "np.ndarray[Any, Any] | None":
        """The numbers themselves, which cannot be written to; None for all but small tensors."""
        return None if self.raw is None else np.ndarray(self.shape, self.dtype, self.raw)

    @property
    def values(self) -> Any:
        """The same as nested lists."""
        return None if (array := self.array) is None else array.tolist()

    def __repr__(self) -> str:
        shown = ("shape", "norm", "low", "high", "mean", "nan", "inf", "values", "counts", "sample", "magnitudes")
        return f"Stats({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def summarise(data: torch.Tensor, *, exact: bool = False) -> Stats:
    """The statistics of a tensor; NaN and Inf are counted and left out of ``low``, ``high`` and ``mean``.

    For complex numbers they are those of the magnitudes.

    Args:
        data: the tensor.
        exact: whether the histogram is one of all numbers, and not of ``BINNED`` of them.
    """
    return summarise_all({0: data}, exact=exact)[0]


def summarise_all(tensors: dict[int, torch.Tensor], *, exact: bool = False) -> dict[int, Stats]:
    """The statistics of ``tensors`` by the same keys.

    When a graph of thousands of ops closes, there are twice as many tensors. Small ones of one shape and element type
    are worked out together, in a tenth of the time. Views of the same numbers, such as a gradient in several shapes,
    share their statistics. Numbers on the CPU are read in one pass, if the core is compiled; any other large tensor is
    read in pieces. To read a number from a GPU is to wait, so the numbers of many tensors are read at a time.
    """
    alike: dict[Any, list[int]] = {}
    same: dict[Any, list[int]] = {}
    found: dict[int, Stats] = {}
    tensors = {key: with_memory(data) for key, data in tensors.items()}
    for key, data in tensors.items():
        if data.numel() <= (SMALL if data.is_cpu and data.dtype in _KINDS else SAMPLE):
            alike.setdefault((data.shape, data.dtype, data.device), []).append(key)
            continue
        keys = same.setdefault(numbers_of(data), [])
        keys.append(key)
        if len(keys) == 1 and (stats := _in_one_pass(data, exact)) is not None:
            found[key] = stats
    waiting: list[tuple[list[int], _Reading[list[Stats]]]] = []
    numbers = 0
    left = [keys[0] for keys in same.values() if keys[0] not in found]
    for keys, size, work in (*_in_rows(tensors, alike), *_one_by_one(tensors, left, exact)):
        waiting.append((keys, work))
        numbers += size
        data = tensors[keys[0]]
        if data.is_cpu or numbers >= _PIECES * piece_of(data):
            found.update(_read_all(waiting))
            waiting, numbers = [], 0
    found.update(_read_all(waiting))
    for keys in same.values():
        for key in keys[1:]:
            found[key] = replace(found[keys[0]], shape=tuple(tensors[key].shape))
    return found


_Works = Iterator[tuple[list[int], int, "_Reading[list[Stats]]"]]
"""Computations of the statistics of the tensors with these keys, and how many numbers each reads."""


def _in_rows(tensors: dict[int, torch.Tensor], alike: dict[Any, list[int]]) -> _Works:
    """Those of tensors that are ``alike``, many at a time."""
    for (shape, *_), keys in alike.items():
        size = shape.numel()
        many = max(1, piece_of(tensors[keys[0]]) // max(1, size))
        for start in range(0, len(keys), many):
            some = keys[start : start + many]
            yield some, size * len(some), _summarise([tensors[key] for key in some])


def _one_by_one(tensors: dict[int, torch.Tensor], large: list[int], exact: bool) -> _Works:
    """Those of ``large`` tensors."""
    for key in large:
        data = tensors[key].detach()
        yield [key], data.numel(), _summarise_large(data, exact or data.numel() <= SAMPLE)


_one_pass: Any = import_module("nbgrad.core.graph.one_pass") if compiled() else None

_KINDS = {torch.float32: "f", torch.float64: "d", torch.bfloat16: "b"} if compiled() else {}
"""The element types that are read in one pass."""


def _in_one_pass(data: torch.Tensor, exact: bool) -> Stats | None:
    """The statistics of a tensor on the CPU; None if torch's kernels have to find them.

    Those are for other element types, for numbers that do not lie one after another, and for numbers whose squares are
    too large or too small for float64.
    """
    if not _is_read_in_one_pass(data):
        return None
    size = data.numel()
    exact = exact or size <= SAMPLE
    starts = None if exact else _runs(BINNED // _BINNED_RUN, size // _BINNED_RUN, data.device)
    picked = (0, 0, 0) if starts is None else (starts.data_ptr(), len(starts), _BINNED_RUN)
    told = _one_pass.statistics(data.data_ptr(), size, _KINDS[data.dtype], _BINS, *picked)
    if told is None:
        return None
    norm, *spread, counts = told
    stats = _stats(tuple(data.shape), norm, _Spread(*spread), None, counts, magnitudes=False)
    return stats if exact else replace(stats, sample=BINNED)


def _is_read_in_one_pass(data: torch.Tensor) -> bool:
    return data.is_cpu and data.dtype in _KINDS and not data.is_neg() and _is_dense(data)


def numbers_of(data: torch.Tensor) -> Any:
    """A key that two tensors share if their numbers are the same ones, perhaps in another order."""
    if not _is_dense(data):
        return id(data)
    return data.data_ptr(), data.numel(), data.dtype, data.device, data.is_conj(), data.is_neg()


def _is_dense(data: torch.Tensor) -> bool:
    """Whether its numbers are all that lie between the first and the last one, in any order."""
    return data.is_contiguous() or _in_order(data).is_contiguous()


def _in_order(data: torch.Tensor) -> torch.Tensor:
    """The same numbers in the order of their addresses, if there is one."""
    strides = data.stride()
    return data.permute(sorted(range(data.ndim), key=strides.__getitem__, reverse=True))


_Reading = Generator[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...], T]
"""A computation that yields tensors, and is sent the same tensors on the CPU."""


def _read_all(waiting: "list[tuple[list[int], _Reading[list[Stats]]]]") -> Iterator[tuple[int, Stats]]:
    """Run computations of the statistics of the tensors with these keys."""
    for (keys, _), made in zip(waiting, _finished([work for _, work in waiting]), strict=True):
        yield from zip(keys, made, strict=True)


def _finished(works: "list[_Reading[T]]") -> list[T]:
    """The results of computations. Those that wait for a GPU wait together: each transfer is for all of them."""
    found: dict[int, T] = {}
    sent: dict[int, Any] = dict.fromkeys(range(len(works)))
    while sent:
        asked = {}
        for place, read in sent.items():
            try:
                asked[place] = works[place].send(read)
            except StopIteration as end:
                found[place] = end.value
        there = iter(_on_cpu([one for some in asked.values() for one in some]))
        sent = {place: tuple(islice(there, len(some))) for place, some in asked.items()}
    return [found[place] for place in range(len(works))]


def _on_cpu(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors on the CPU, with one transfer for each element type from each GPU."""
    found, far = list(tensors), dict[Any, list[int]]()
    for place, one in enumerate(tensors):
        if not one.is_cpu:
            far.setdefault((one.device, one.dtype), []).append(place)
    for places in far.values():
        sizes = [tensors[place].numel() for place in places]
        joined = torch.cat([tensors[place].reshape(-1) for place in places]).cpu()
        for place, part in zip(places, torch.split(joined, sizes), strict=True):
            found[place] = part.view(tensors[place].shape)
    return found


def _summarise(alike: list[torch.Tensor]) -> "_Reading[list[Stats]]":
    """The statistics of tensors of one shape and element type, a row each."""
    shape, size = tuple(alike[0].shape), alike[0].numel()
    rows = (alike[0][None] if len(alike) == 1 else torch.stack(alike)).detach()
    real = _real(rows).reshape(len(alike), size)
    numbers = real.to(torch.float64)
    shown = (_as_in_numpy(rows),) if size <= SMALL else ()
    norms, *raws = yield torch.linalg.vector_norm(numbers, dim=1), *shown
    lengths = norms.tolist()
    spreads = (yield from _spread(real, numbers, lengths)) if size else [_NO_NUMBERS] * len(alike)
    counts: Any = (
        (yield from _histograms([numbers], size, spreads, rows.device)) if size > SMALL else [None] * len(alike)
    )
    tables = [table for raw in raws for table in raw.numpy()] or [None] * len(alike)
    return [
        _stats(shape, *parts, rows.dtype.is_complex) for parts in zip(lengths, spreads, tables, counts, strict=True)
    ]


def _summarise_large(data: torch.Tensor, exact: bool) -> "_Reading[list[Stats]]":
    """The statistics of one tensor, of which no copy is made: it is read once, a piece at a time."""
    lengths, lows, highs, totals = (
        list[torch.Tensor](),
        list[torch.Tensor](),
        list[torch.Tensor](),
        list[torch.Tensor](),
    )
    for piece in _in_room(data, _own_precision(data.dtype)):
        lengths += _lengths(piece)
        lows.append(piece.amin())  # torch.aminmax takes longer than both
        highs.append(piece.amax())
        totals.append(piece.sum())
    parts = (lows, highs, totals) if len(lows) == 1 else [[torch.stack(part)] for part in (lows, highs, totals)]
    told = yield (*[part for (part,) in parts], _joined(lengths))
    least, most = told[0].amin().item(), told[1].amax().item()
    total, length = told[2].sum(dtype=torch.float64).item(), told[3].item()
    if math.isfinite(least) and math.isfinite(most):
        if not (_is_exact(length, data.numel()) or least == most == 0.0) or not math.isfinite(total):
            length, total = yield from _wide_sums(data)
        spread = _Spread(least, most, total, data.numel(), 0, 0)
    else:
        spread = yield from _spread_in_room(data)
    if exact:
        (counts,) = yield from _histograms(_rows_of(data), data.numel(), [spread], data.device)
    else:
        counts = yield from _sampled_histogram(data, spread)
    stats = _stats(tuple(data.shape), length, spread, None, counts, data.dtype.is_complex)
    return [stats if exact else replace(stats, sample=BINNED)]


def _spread_in_room(data: torch.Tensor) -> "_Reading[_Spread]":
    """The spread of a large tensor with numbers that are not finite: all pieces share the memory of the results."""
    found = _NO_NUMBERS
    room = torch.empty(min(data.numel(), piece_of(data)), dtype=torch.float64, device=data.device)
    mask = torch.empty_like(room, dtype=torch.bool)
    for piece in _in_room(data, torch.float64):
        there, marks = room[: piece.numel()], mask[: piece.numel()]
        nan = torch.ne(piece, piece, out=marks).sum()
        low = torch.nan_to_num(piece, torch.inf, torch.inf, torch.inf, out=there).amin()
        bad = torch.eq(there, torch.inf, out=marks).sum()
        high = torch.nan_to_num(piece, -torch.inf, -torch.inf, -torch.inf, out=there).amax()
        total = torch.nan_to_num(piece, 0.0, 0.0, 0.0, out=there).sum()
        told = yield nan, bad, low, high, total
        nans, bads = int(told[0].item()), int(told[1].item())
        least, most, added = [one.item() for one in told[2:]]
        finite = piece.numel() - bads
        ends = (least, most) if finite else (None, None)
        found = found.with_more(_Spread(ends[0], ends[1], added, finite, nans, bads - nans))
    return found


def _own_precision(dtype: torch.dtype) -> torch.dtype:
    """The type in which numbers of ``dtype`` are added: at least float32, and float64 for whole numbers."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.float64
    return torch.promote_types(dtype.to_real(), torch.float32)


def _in_room(data: torch.Tensor, dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """The numbers of the statistics of a large tensor, a piece at a time, each as one row of this type.

    Numbers of another type are converted in the same memory again and again: new memory takes longer than the rest.
    """
    room = torch.empty(0, dtype=dtype, device=data.device)
    for piece in pieces(_in_order(data) if _is_dense(data) else data):
        real = _real(piece)
        if real.dtype == dtype and real.is_contiguous() and not real.is_neg():
            yield real.view(-1)
            continue
        if room.numel() < real.numel():
            many = max(real.numel(), min(data.numel(), piece_of(data)))
            room = torch.empty(many, dtype=dtype, device=data.device)
        yield room[: real.numel()].view(real.shape).copy_(real).view(-1)


def _lengths(row: torch.Tensor) -> list[torch.Tensor]:
    """The norms of the parts of a row; ``_joined`` makes one of them."""
    whole = row.numel() // _ROW * _ROW
    parts = [torch.linalg.vector_norm(row[:whole].view(-1, _ROW), dim=1)] if whole else []
    return parts if whole == row.numel() else [*parts, torch.linalg.vector_norm(row[whole:])[None]]


def _joined(lengths: list[torch.Tensor]) -> torch.Tensor:
    """The norm of a tensor from those of its parts."""
    norm: torch.Tensor = torch.linalg.vector_norm(torch.cat(lengths), dtype=torch.float64)
    return norm


def _is_exact(length: float, numbers: int) -> bool:
    """Whether ``length`` is the norm of so many numbers, although float32 has few digits of the smallest squares."""
    return math.sqrt(numbers) * _LEAST <= length < math.inf


_LEAST = 1e-18
"""The square of a smaller number has fewer digits in float32 than others, or none."""


def _wide_sums(data: torch.Tensor) -> "_Reading[tuple[float, float]]":
    """The norm and the sum of a large tensor in float64."""
    sums = [(torch.linalg.vector_norm(piece), piece.sum()) for piece in _in_room(data, torch.float64)]
    (told,) = yield (torch.stack([torch.stack(column) for column in zip(*sums, strict=True)]),)
    return torch.linalg.vector_norm(told[0]).item(), told[1].sum().item()


def _rows_of(data: torch.Tensor) -> Iterator[torch.Tensor]:
    """The numbers of a large tensor, a piece at a time, each as one row."""
    return (_real(piece).reshape(1, -1) for piece in pieces(data))


def sample(data: torch.Tensor, many: int = SAMPLE, run: int = _RUN) -> torch.Tensor:
    """``many`` of the numbers of a large tensor, or of complex numbers their conjugates.

    They are always the same ones: runs of ``run`` numbers, one from each part of the tensor, each at another place in
    its part. So they are no multiples of the length of a row, which would all lie in one column.
    """
    negative = data.is_neg()
    if data.is_conj():  # to pick numbers of such a view torch would first make all of them
        data = data.conj()
    if negative:
        data = torch._neg_view(data)
    runs = _runs(many // run, data.numel() // run, data.device)
    if _is_dense(data) and data.is_cpu and _one_pass is not None:
        picked = torch.empty(many, dtype=data.dtype, device="cpu")  # the user may have set another default
        _one_pass.gather(data.data_ptr(), runs.data_ptr(), len(runs), run * data.itemsize, picked.data_ptr())
    elif _is_dense(data):
        picked = _in_order(data).view(-1)[: data.numel() // run * run].view(-1, run).index_select(0, runs)
    else:
        left = (runs[:, None] * run + torch.arange(run, device=data.device)).view(-1)
        places, extent = torch.zeros_like(left), 1
        for size, stride in zip(reversed(data.shape), reversed(data.stride()), strict=True):
            places += left % size * stride
            left //= size
            extent += (size - 1) * stride
        picked = data.as_strided((extent,), (1,)).index_select(0, places)
    return picked.view(-1).neg() if negative else picked.view(-1)


@lru_cache(maxsize=64)
def _runs(picked: int, count: int, device: torch.device) -> torch.Tensor:
    """The numbers of the runs of a sample, out of ``count``, no two alike."""
    with torch.inference_mode(False):
        part = torch.arange(picked, device=device)
        first, end = part * count // picked, (part + 1) * count // picked
        return first + ((part.double() * _GOLDEN).frac() * (end - first)).long()


def _real(data: torch.Tensor) -> torch.Tensor:
    """The numbers of the statistics: those of the tensor, or the magnitudes of complex ones."""
    return data.abs() if data.dtype.is_complex else data


def _stats(
    shape: tuple[int, ...],
    norm: float,
    spread: "_Spread",
    table: "np.ndarray[Any, Any] | None",
    counts: tuple[int, ...] | None,
    magnitudes: bool,
) -> Stats:
    mean = spread.total / spread.finite if spread.finite else None
    raw, dtype = (None, "") if table is None else (table.tobytes(), table.dtype.str)
    return Stats(shape, norm, spread.low, spread.high, mean, spread.nan, spread.inf, raw, dtype, counts, magnitudes)


def _as_in_numpy(rows: torch.Tensor) -> torch.Tensor:
    """The same numbers in an element type of numpy's, which has no short types as torch does."""
    if rows.dtype.is_floating_point and rows.dtype.itemsize < 4:
        rows = rows.float()
    elif rows.dtype.is_complex and rows.dtype.itemsize < 8:
        rows = rows.to(torch.complex64)
    return rows.resolve_conj().resolve_neg()


class _Spread(NamedTuple):
    """The lowest and the highest finite number, if there is one, their sum, and how many are finite, NaN and Inf."""

    low: float | None
    high: float | None
    total: float
    finite: int
    nan: int
    inf: int

    def with_more(self, other: "_Spread") -> "_Spread":
        """The spread of these numbers and the others together."""
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        counts = [mine + its for mine, its in zip(self[2:], other[2:], strict=True)]
        return _Spread(min(lows, default=None), max(highs, default=None), *counts)  # type: ignore[arg-type]


_NO_NUMBERS = _Spread(None, None, 0.0, 0, 0, 0)


def _spread(real: torch.Tensor, numbers: torch.Tensor, lengths: list[float]) -> "_Reading[list[_Spread]]":
    """The spread of each row of ``numbers``, which are the numbers of ``real`` in float64."""
    if all(map(math.isfinite, lengths)):  # to look at every number takes longer than all the rest
        ends = real if real.is_floating_point() else numbers  # torch.aminmax takes three times as long
        low, high, total = yield ends.amin(1), ends.amax(1), numbers.sum(1)
        ends_and_sums = zip(low.tolist(), high.tolist(), total.tolist(), strict=True)
        return [_Spread(*row, ends.shape[1], 0, 0) for row in ends_and_sums]
    finite = numbers.isfinite()
    low, high = numbers.where(finite, torch.inf).amin(1), numbers.where(finite, -torch.inf).amax(1)
    counts = (finite.sum(1), numbers.isnan().sum(1), numbers.isinf().sum(1))
    columns = yield low, high, numbers.where(finite, 0.0).sum(1), *counts
    found = zip(*(column.tolist() for column in columns), strict=True)
    return [_Spread(*row) if row[3] else _Spread(None, None, *row[2:]) for row in found]


def _histograms(
    tables: Iterable[torch.Tensor], size: int, spreads: list[_Spread], device: torch.device
) -> "_Reading[list[tuple[int, ...] | None]]":
    """A histogram of the finite numbers of each row, as of ``torch.histc``: all rows at once, a few columns at a time.

    The ``tables`` follow each other: each has some of the ``size`` numbers of every row. They are of any real type.
    """
    rows = len(spreads)
    ends = torch.tensor([(one.low or 0.0, one.high or 0.0) for one in spreads], dtype=torch.float64)
    scale = 1.0 if bool((_BINS * ends.diff()).isfinite().all()) else 0.5 / _BINS
    low, width = scale * ends[:, :1], (scale * ends).diff()
    below = (width == 0) * (low.abs() / 256).clamp(1.0)  # equal numbers are put in the middle, however large they are
    low, width = low - below, width + below * (_BINS / (_BINS / 2 + 0.5))
    factor = torch.full_like(width, _BINS) / width  # torch takes a number over a tensor as a reciprocal, rounded twice
    low, factor = torch.stack((low, factor)).to(device, non_blocking=True)  # else it would wait
    # Each row has two bins more: for the highest number, which belongs in the last bin, and for the numbers that are
    # not finite.
    first = torch.arange(0, rows * (_BINS + 2), _BINS + 2, dtype=torch.int32, device=device)[:, None]
    sound = not any(one.nan or one.inf for one in spreads)
    found = torch.zeros(rows * (_BINS + 2), dtype=torch.int64, device=device)
    _count(found, tables, size, (low, factor, scale, first), sound)
    (counted,) = yield (found.view(rows, _BINS + 2),)
    return [
        None if spread.low is None else _without_ends(counts)
        for counts, spread in zip(counted.tolist(), spreads, strict=True)
    ]


def _sampled_histogram(data: torch.Tensor, spread: _Spread) -> "_Reading[tuple[int, ...] | None]":
    """A histogram of the sample of a large tensor."""
    low, high = spread.low, spread.high
    if low is None or high is None:
        return None
    row = _real(sample(data, BINNED, _BINNED_RUN)).to(torch.float64)
    most = torch.finfo(torch.float64).max / _BINS
    if not (high == low or 1 / most < high - low < most):
        (counts,) = yield from _histograms([row[None]], BINNED, [spread], data.device)
        return counts
    unsound = ~row.isfinite() if spread.nan or spread.inf else None
    row.sub_(low)
    if high == low:
        row.add_(_BINS // 2)  # equal numbers are put in the middle
    else:
        row.mul_(_BINS / (high - low))
    if unsound is not None:
        row.masked_fill_(unsound, _BINS + 1)
    (counted,) = yield (_frequencies(row.int(), _BINS + 2),)
    return _without_ends(counted.tolist())


def _without_ends(counts: list[int]) -> tuple[int, ...]:
    """The counts without two bins: the one of the highest number, which belongs to the last, and the one of NaN."""
    return (*counts[: _BINS - 1], counts[_BINS - 1] + counts[_BINS])


def _frequencies(places: torch.Tensor, bins: int) -> torch.Tensor:
    """How often each number below ``bins`` is there; on a GPU without waiting for it, if torch allows that."""
    # There bincount waits for the lowest and the highest number, and torch may refuse histc.
    if places.is_cpu or torch.are_deterministic_algorithms_enabled():
        return torch.bincount(places, minlength=bins)
    return torch.histc(places, bins, 0, bins)


def _count(found: torch.Tensor, tables: Iterable[torch.Tensor], size: int, scales: Any, sound: bool) -> None:
    """Add to ``found`` the counts of all bins. The memory that this takes is free afterwards, before a GPU is read.

    Args:
        found: as many zeros as there are bins.
        tables: some of the numbers of every row each.
        size: how many numbers a row has.
        scales: the lowest number of each row, the factor from its numbers to bins, the scale of both, its first bin.
        sound: whether all numbers are finite.
    """
    low, factor, scale, first = scales
    many = min(size, max(1, (_AT_ONCE if found.is_cpu else piece_of(found)) // len(first)))
    room = torch.empty(len(first), many, dtype=torch.float64, device=found.device)
    places = torch.empty_like(room, dtype=torch.int32)
    for numbers in tables:
        for part in torch.split(numbers, many, dim=1):
            scaled = room[:, : part.shape[1]].copy_(part)
            if scale != 1.0:
                scaled.mul_(scale)
            scaled.sub_(low).mul_(factor)
            if not sound:
                scaled.masked_fill_(~part.isfinite(), _BINS + 1)
            place = places[:, : part.shape[1]].copy_(scaled).add_(first).reshape(-1)
            found += _frequencies(place, len(found))


_dispatch_mode: Any = torch._C._get_dispatch_mode
_FAKE = torch._C._TorchDispatchModeKey.FAKE


def countable(data: torch.Tensor) -> bool:
    """Whether each of the elements is there as a number.

    Those of a sparse tensor and on the meta device are not. Nor are those whose memory was freed: torch's FSDP gathers
    a parameter for one use, and to read it later ends the process. A class with a ``__torch_dispatch__`` may compute
    something else, or in other processes too. A nested tensor has rows of several lengths. Inside of ``FakeTensorMode``
    none can be read: what is computed there has no numbers.
    """
    if _dispatch_mode(_FAKE) is not None:
        return False
    if data.layout is not torch.strided or data.is_meta or data.is_nested:
        return False
    if type(data) is not torch.Tensor and type(data).__torch_dispatch__ is not OWN_DISPATCH:
        return False
    try:
        return data.data_ptr() != 0 or not data.numel() or data._is_zerotensor()
    except RuntimeError:  # of a class without memory of its own
        return False


def data_of(tensor: Any) -> torch.Tensor | None:
    """The data of a tensor, without history; None where the elements are not there. No code of a subclass runs."""
    return with_memory(tensor.data) if countable(raw_of(tensor)) else None


def with_memory(data: torch.Tensor) -> torch.Tensor:
    """``data``, which are countable, in memory: torch gives some zeros none, such as the gradient of ``sgn``."""
    return data if data.data_ptr() or not data.numel() else data.clone()


Norm = float | torch.Tensor
"""A number; where it was computed on a GPU, a 0-d tensor there: to read it is to wait."""


def norms(tensors: dict[Any, torch.Tensor]) -> dict[Any, Norm]:
    """The Euclidean norms of ``tensors`` by the same keys, many at once and without waiting for a GPU.

    Norms of tensors of half precision are taken in float32. If the squares are too large or too small, a norm on the
    CPU is taken once more in float64. On a GPU it is not: to look at it would be to wait. Empty tensors have
    none, and neither have tensors that are not ``countable``.
    """
    found: dict[Any, Norm] = {}
    counted = [key for key, data in tensors.items() if data.numel() and countable(data)]
    for start in range(0, len(counted), _MANY):
        found.update(_norms({key: with_memory(tensors[key]) for key in counted[start : start + _MANY]}))
    return found


def _norms(tensors: dict[Any, torch.Tensor]) -> Iterator[tuple[Any, Norm]]:
    """Those of a batch of tensors with numbers."""
    wide: dict[Any, torch.Tensor] = {}
    narrow: dict[Any, torch.Tensor] = {}
    found: dict[Any, Norm] = {}
    same: dict[Any, Norm] = {}
    for key, data in tensors.items():
        if data.numel() > (_SHORT if data.is_cpu else piece_of(data)) and (data.is_cpu or _is_copied(data)):
            numbers = numbers_of(data)
            if numbers not in same:
                same[numbers] = _norm_of_many(data)
            found[key] = same[numbers]
        else:
            (narrow if data.dtype.itemsize < 4 else wide)[key] = data
    for group, dtype in ((wide, None), (narrow, torch.float32)):
        if group:
            found.update(zip(group, torch._foreach_norm(list(group.values()), 2, dtype=dtype), strict=True))
    for key, norm in found.items():
        if isinstance(norm, float) or not norm.is_cpu:
            yield key, norm
            continue
        number, data = norm.item(), tensors[key]
        if not _is_exact(number, data.numel()):
            number = _norm(data, torch.float64).item()
        yield key, number


def read(numbers: dict[int, Norm]) -> dict[int, float]:
    """The same as numbers, with one transfer from each GPU."""
    found: dict[int, float] = {}
    far: dict[torch.device, list[int]] = {}
    for key, number in numbers.items():
        if isinstance(number, float):
            found[key] = number
        elif number.is_cpu:
            found[key] = number.item()
        else:
            far.setdefault(number.device, []).append(key)
    for keys in far.values():
        held: list[Any] = [numbers[key] for key in keys]
        found.update(zip(keys, torch.stack(held).tolist(), strict=True))
    return found


def _is_copied(data: torch.Tensor) -> bool:
    """Whether torch makes other numbers of all of ``data`` before it takes the norm."""
    return data.dtype.itemsize < 4 or data.is_conj() or data.is_neg()


def _norm_of_many(data: torch.Tensor) -> Norm:
    """The norm of a large tensor, in one pass where that can be."""
    number = None
    if _is_read_in_one_pass(data):
        number = _one_pass.norm(data.data_ptr(), data.numel(), _KINDS[data.dtype])
    return _norm(data, _own_precision(data.dtype)) if number is None else number


def _norm(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The norm of a large tensor in another element type, to which torch would convert all of it at once."""
    return _joined([length for piece in _in_room(data.detach(), dtype) for length in _lengths(piece)])


_COMPILED = compiled()

_FEW = SMALL  # compiled to a number of C's


def count_of(shape: tuple[int, ...]) -> int:
    """How many elements a tensor of ``shape`` has."""
    lengths: Any = shape  # the same object: compiled code knows the type of this name, so it needs no look-up
    return lengths.product if _COMPILED else math.prod(shape)


def few(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of ``shape`` is small, so that its elements are shown."""
    return count_of(shape) <= _FEW


def nbytes_of(shape: tuple[int, ...], dtype: "torch.dtype") -> int:
    """The bytes of a tensor of ``shape`` and ``dtype``."""
    global _shape, _dtype, _size  # fields of C's: a list of them takes longer than the product
    if _COMPILED and shape is _shape and dtype is _dtype:  # most often the next one is like the last
        return _size
    known = _SIZES.get(dtype)
    if known is None:
        known = _SIZES[dtype] = dtype.itemsize
    size: int = known * count_of(shape)
    _shape, _dtype, _size = shape, dtype, size
    return size


_SIZES: "dict[torch.dtype, int]" = {}
"""The bytes of an element."""

_shape: Any = None
_dtype: Any = None
_size = 0
"""The last answer, in bytes; only in compiled code, which no other thread interrupts."""


def held_by(data: "torch.Tensor", size: int) -> int:
    """How much memory ``data``, of so many bytes, keeps: a window into larger memory keeps all of it."""
    return size if data._base is None else int(data.untyped_storage().nbytes())

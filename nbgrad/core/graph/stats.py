"""``Stats``: the statistics of a tensor that a picture shows, and its size in bytes by its shape."""

import math
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
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

_BINS = 20

_PIECES = 2
"""The statistics of about this many pieces of numbers on a GPU are computed at a time, and read together."""

_MANY = 4096
"""The number of tensors whose norms are computed at a time."""

_AT_ONCE = 1 << 15
"""On a CPU the bins of this many numbers are found at a time: the temporary tensors fit into its second cache."""


@dataclass(frozen=True, slots=True, repr=False)
class Stats:
    """The statistics of the values of a tensor.

    ``norm`` is the Euclidean norm. ``low``, ``high`` and ``mean`` are None for an empty tensor and where only the norm
    was kept. ``raw`` are the numbers of a small tensor as they lie in memory, of numpy's ``dtype``: a graph of
    thousands of ops has a million of them, and few are ever looked at. For a larger tensor ``counts`` is a histogram of
    the finite values, in equal steps from ``low`` to ``high``. For complex numbers all fields but ``raw`` are those of
    the ``magnitudes``.
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

    @property
    def array(self) -> "np.ndarray[Any, Any] | None":
        """The numbers themselves, which cannot be written to; None for all but small tensors."""
        return None if self.raw is None else np.ndarray(self.shape, self.dtype, self.raw)

    @property
    def values(self) -> Any:
        """The same as nested lists."""
        return None if (array := self.array) is None else array.tolist()

    def __repr__(self) -> str:
        shown = ("shape", "norm", "low", "high", "mean", "nan", "inf", "values", "counts", "magnitudes")
        return f"Stats({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def summarise(data: torch.Tensor) -> Stats:
    """The statistics of a tensor; NaN and Inf are counted and left out of ``low``, ``high`` and ``mean``.

    For complex numbers they are those of the magnitudes.
    """
    return summarise_all({0: data})[0]


def summarise_all(tensors: dict[int, torch.Tensor]) -> dict[int, Stats]:
    """The statistics of ``tensors`` by the same keys.

    When a graph of thousands of ops closes, there are twice as many tensors. Those of one shape and element type are
    worked out together, in a tenth of the time. A large tensor is read in pieces. To read a number from a GPU is to
    wait, so the numbers of many tensors are read at a time.
    """
    alike: dict[Any, list[int]] = {}
    for key, data in tensors.items():
        alike.setdefault((data.shape, data.dtype, data.device), []).append(key)
    found: dict[int, Stats] = {}
    waiting: list[tuple[list[int], _Reading[list[Stats]]]] = []
    numbers = 0
    for (shape, _, device), keys in alike.items():
        size, piece = shape.numel(), piece_of(tensors[keys[0]])
        many = max(1, piece // max(1, size))
        for start in range(0, len(keys), many):
            some = keys[start : start + many]
            given = [tensors[key] for key in some]
            waiting.append((some, _summarise_large(given[0].detach()) if size > piece else _summarise(given)))
            numbers += size * len(some)
            if device.type == "cpu" or numbers >= _PIECES * piece:
                found.update(_read_all(waiting))
                waiting, numbers = [], 0
    found.update(_read_all(waiting))
    return found


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


def _summarise_large(data: torch.Tensor) -> "_Reading[list[Stats]]":
    """The statistics of one tensor, of which no copy is made: it is read twice, a piece at a time."""
    lengths: list[float] = []
    total = _NO_NUMBERS
    room = torch.empty(piece_of(data), dtype=torch.float64, device=data.device)  # new memory takes longer than the rest
    for real in _rows_of(data):
        numbers = room[: real.numel()].view(real.shape).copy_(real)
        (norms,) = yield (torch.linalg.vector_norm(numbers, dim=1),)
        lengths += norms.tolist()
        (spread,) = yield from _spread(real, numbers, lengths[-1:])
        total = total.with_more(spread)
    length = torch.linalg.vector_norm(torch.tensor(lengths, dtype=torch.float64)).item()
    (counts,) = yield from _histograms(_rows_of(data), data.numel(), [total], data.device)
    return [_stats(tuple(data.shape), length, total, None, counts, data.dtype.is_complex)]


def _rows_of(data: torch.Tensor) -> Iterator[torch.Tensor]:
    """The numbers of a large tensor, a piece at a time, each as one row."""
    return (_real(piece).reshape(1, -1) for piece in pieces(data))


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
    alike = (width == 0).to(width)  # equal numbers are put in the middle
    low, width = torch.stack((low - alike, width + 2 * alike)).to(device, non_blocking=True)  # else it would wait
    # Each row has two bins more: for the highest number, which belongs in the last bin, and for the numbers that are
    # not finite.
    first = torch.arange(0, rows * (_BINS + 2), _BINS + 2, dtype=torch.int32, device=device)[:, None]
    sound = not any(one.nan or one.inf for one in spreads)
    found = torch.zeros(rows * (_BINS + 2), dtype=torch.int64, device=device)
    _count(found, tables, size, (low, width, scale, first), sound)
    (counted,) = yield (found.view(rows, _BINS + 2),)
    return [
        None if spread.low is None else (*counts[: _BINS - 1], counts[_BINS - 1] + counts[_BINS])
        for counts, spread in zip(counted.tolist(), spreads, strict=True)
    ]


def _count(found: torch.Tensor, tables: Iterable[torch.Tensor], size: int, scales: Any, sound: bool) -> None:
    """Add to ``found`` the counts of all bins. The memory that this takes is free afterwards, before a GPU is read.

    Args:
        found: as many zeros as there are bins.
        tables: some of the numbers of every row each.
        size: how many numbers a row has.
        scales: the lowest number of each row, its width, the factor of both, and the first bin of each row.
        sound: whether all numbers are finite.
    """
    low, width, scale, first = scales
    many = min(size, max(1, (_AT_ONCE if found.is_cpu else piece_of(found)) // len(first)))
    room = torch.empty(len(first), many, dtype=torch.float64, device=found.device)
    places = torch.empty_like(room, dtype=torch.int32)
    # On a GPU bincount waits for the lowest and the highest number, and torch may refuse histc.
    waits = found.is_cpu or torch.are_deterministic_algorithms_enabled()
    for numbers in tables:
        for part in torch.split(numbers, many, dim=1):
            scaled = room[:, : part.shape[1]].copy_(part)
            if scale != 1.0:
                scaled.mul_(scale)
            scaled.sub_(low).mul_(_BINS).div_(width)
            if not sound:
                scaled.masked_fill_(~part.isfinite(), _BINS + 1)
            place = places[:, : part.shape[1]].copy_(scaled).add_(first).reshape(-1)
            if waits:
                found += torch.bincount(place, minlength=len(found))
            else:
                found += torch.histc(place, len(found), 0, len(found))


def countable(data: torch.Tensor) -> bool:
    """Whether each of the elements is there as a number.

    Those of a sparse tensor and on the meta device are not. Nor are those whose memory was freed: torch's FSDP gathers
    a parameter for one use, and to read it later ends the process. A class with a ``__torch_dispatch__`` may compute
    something else, or in other processes too. A nested tensor has rows of several lengths.
    """
    if data.layout is not torch.strided or data.is_meta or data.is_nested:
        return False
    if type(data) is not torch.Tensor and type(data).__torch_dispatch__ is not OWN_DISPATCH:
        return False
    try:
        return data.data_ptr() != 0 or not data.numel()
    except RuntimeError:  # of a class without memory of its own
        return False


def data_of(tensor: Any) -> torch.Tensor | None:
    """The data of a tensor, without history; None where the elements are not there. No code of a subclass runs."""
    data: torch.Tensor | None = tensor.data if countable(raw_of(tensor)) else None
    return data


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
        found.update(_norms({key: tensors[key] for key in counted[start : start + _MANY]}))
    return found


def _norms(tensors: dict[Any, torch.Tensor]) -> Iterator[tuple[Any, Norm]]:
    """Those of a batch of tensors with numbers."""
    wide: dict[Any, torch.Tensor] = {}
    narrow: dict[Any, torch.Tensor] = {}
    found: dict[Any, torch.Tensor] = {}
    for key, data in tensors.items():
        if data.numel() > piece_of(data) and _is_copied(data):
            found[key] = _norm(data, torch.promote_types(data.dtype, torch.float32))
        else:
            (narrow if data.dtype.itemsize < 4 else wide)[key] = data
    for group, dtype in ((wide, None), (narrow, torch.float32)):
        if group:
            found.update(zip(group, torch._foreach_norm(list(group.values()), 2, dtype=dtype), strict=True))
    for key, norm in found.items():
        if not norm.is_cpu:
            yield key, norm
            continue
        number = norm.item()
        if not 0.0 < number < math.inf:
            data = tensors[key]
            number = _norm(data, torch.promote_types(data.dtype, torch.float64)).item()
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


def _norm(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The norm in another element type, to which torch would convert all of the tensor at once."""
    if data.is_cpu and data.is_contiguous() and data.numel() > piece_of(data):
        return _norm_in_room(data, dtype)
    lengths = [torch.linalg.vector_norm(piece, dtype=dtype) for piece in pieces(data)]
    norm: torch.Tensor = lengths[0] if len(lengths) == 1 else torch.linalg.vector_norm(torch.stack(lengths))
    return norm


def _norm_in_room(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same of a large tensor on the CPU, with one piece of memory for all its pieces.

    If torch takes new memory for each piece, the result of each piece lies between two of them, and the memory of the
    process grows by all of the tensor.
    """
    room = torch.empty(piece_of(data), dtype=dtype)
    lengths = torch.empty(-(-data.numel() // len(room)), dtype=dtype.to_real())
    for at, piece in enumerate(pieces(data)):
        torch.linalg.vector_norm(room[: len(piece)].copy_(piece), out=lengths[at])
    norm: torch.Tensor = torch.linalg.vector_norm(lengths)
    return norm


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

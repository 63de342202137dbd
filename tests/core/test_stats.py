"""The statistics of tensors, of one and of many at once."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from nbgrad.core.backend import chunks
from nbgrad.core.compilation import compiled
from nbgrad.core.graph import stats as stats_module
from nbgrad.core.graph.stats import BINNED, SAMPLE, SMALL, Stats, norms, summarise, summarise_all
from tests.core.whole import check_finite, check_statistics


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_statistics_of_numbers(dtype: torch.dtype) -> None:
    stats = summarise(torch.tensor([[3, -4], [0, 1]], dtype=dtype))
    assert (stats.shape, stats.low, stats.high, stats.mean) == ((2, 2), -4.0, 3.0, 0.0)
    assert stats.norm == pytest.approx(math.sqrt(26))
    assert (stats.nan, stats.inf, stats.values) == (0, 0, [[3, -4], [0, 1]])


def test_statistics_of_truth_values_and_of_nothing() -> None:
    assert summarise(torch.tensor([True, False])).mean == 0.5
    nothing = summarise(torch.zeros(0, 3))
    assert (nothing.norm, nothing.low, nothing.high, nothing.mean, nothing.values) == (0.0, None, None, None, [])


def test_nan_and_inf_are_counted_and_left_out() -> None:
    stats = summarise(torch.tensor([1.0, math.nan, math.inf, -math.inf, 3.0]))
    assert (stats.nan, stats.inf) == (1, 2)
    assert (stats.low, stats.high, stats.mean) == (1.0, 3.0, 2.0)
    assert summarise(torch.tensor([math.nan])).low is None


def test_the_numbers_of_many_tensors_are_kept_as_they_lie_in_memory() -> None:
    one, other = summarise_all({1: torch.tensor([1.0, 2.0]), 2: torch.tensor([3.0, 4.0])}).values()
    assert (one.raw, other.raw) == tuple(np.float32([[1, 2], [3, 4]])[row].tobytes() for row in range(2))
    assert one == summarise(torch.tensor([1.0, 2.0]))
    assert one != replace(other, norm=one.norm, low=one.low, high=one.high, mean=one.mean)
    assert eval(repr(one), {"Stats": lambda **shown: shown})["values"] == [1.0, 2.0]
    array = other.array
    assert array is not None
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5


def test_values_are_kept_of_small_tensors_only() -> None:
    assert summarise(torch.zeros(SMALL)).values == [0.0] * SMALL
    assert summarise(torch.zeros(SMALL + 1)).values is None


MANY = [
    torch.tensor([3.0, -4.0]),
    torch.tensor([math.nan, 1.0]),
    torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    torch.tensor([math.inf, -math.inf]),
    torch.tensor([[3.0, -4.0]]),
    torch.tensor([3 + 4j, 0j]),
    torch.tensor([5, -7]),
    torch.tensor([complex(0, math.nan), 2j]),
    torch.tensor(2.5),
    torch.tensor(math.nan),
    torch.tensor([1e200, -1e200], dtype=torch.float64),  # these are finite, but their norm is not
    torch.zeros(2, 0),
    torch.zeros(2, 0, dtype=torch.complex64),
    torch.arange(2.0 * SMALL).sin(),
    torch.arange(2.0 * SMALL).cos(),
    torch.arange(2.0 * SMALL).log(),  # begins with -inf
    torch.arange(2.0 * SMALL),
    torch.full((2 * SMALL,), 7.0),
    torch.full((2 * SMALL,), math.nan),
    torch.ones(4).expand(3, 4).t(),
    torch.ones(4, 3),
]


DTYPES = (torch.float64, torch.float32, torch.int64)


def summaries(tensors: list[torch.Tensor]) -> list[Stats]:
    found = summarise_all(dict(enumerate(tensors)))
    assert found.keys() == set(range(len(tensors)))
    return [found[place] for place in range(len(tensors))]


def test_the_statistics_of_many_are_those_of_each_and_in_order() -> None:
    found = summaries([*MANY, *reversed(MANY)])
    for data, stats, again in zip(MANY, found[: len(MANY)], found[: -len(MANY) - 1 : -1], strict=True):
        assert repr(stats) == repr(again) == repr(summarise(data))  # repr, because NaN != NaN
        numbers = (data.abs() if data.is_complex() else data).double().flatten()
        sound = numbers[numbers.isfinite()]
        assert stats.shape == data.shape
        assert stats.norm == pytest.approx(float(numbers.norm()), nan_ok=True)
        expected = (sound.min(), sound.max(), sound.mean()) if len(sound) else (None, None, None)
        assert [stats.low, stats.high, stats.mean] == [
            one if one is None else pytest.approx(float(one)) for one in expected
        ]
        assert (stats.nan, stats.inf) == (int(numbers.isnan().sum()), int(numbers.isinf().sum()))
        assert stats.magnitudes == data.is_complex()
        small = data.numel() <= SMALL
        assert repr(stats.values) == repr(data.tolist() if small else None)
        shown = not small and len(sound)
        assert stats.counts == (tuple(torch.histc(sound, 20).int().tolist()) if shown else None)


@pytest.mark.cuda
def test_the_statistics_on_a_gpu_are_those_on_the_cpu() -> None:
    """Sums are added in another order there."""
    for data, stats in zip(MANY, summaries([data.cuda() for data in MANY]), strict=True):
        expected = summarise(data)
        assert stats.norm == pytest.approx(expected.norm, nan_ok=True)
        assert stats.mean == (None if expected.mean is None else pytest.approx(expected.mean))
        assert repr(replace(stats, norm=0.0, mean=0.0)) == repr(replace(expected, norm=0.0, mean=0.0))


@pytest.mark.cuda
def test_the_statistics_of_many_tensors_on_a_gpu_are_read_together() -> None:
    tensors = [torch.ones(size, dtype=dtype, device="cuda") for size in range(1020, 1060) for dtype in DTYPES]
    summaries(tensors)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            summaries(tensors)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [one for one in caught if "called a synchronizing CUDA operation" in str(one.message)]
    assert 0 < len(waits) <= 3 * len(DTYPES), "one for norms, one for lowest and highest, one for counts, of each type"


def test_a_histogram_of_the_largest_numbers_that_there_are() -> None:
    most = torch.finfo(torch.float64).max
    stats = summarise(torch.linspace(-1, 1, 2000, dtype=torch.float64) * most)
    assert (stats.low, stats.high) == (-most, most)
    assert stats.counts == (100,) * 20


def test_a_histogram_of_many_numbers_is_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "_AT_ONCE", 1000)
    data = torch.sin(torch.arange(10_500.0)).reshape(3, 3500)
    data[1, 3] = torch.inf
    for one, stats in zip(data, summaries(list(data)), strict=True):
        assert stats.counts == tuple(torch.histc(one[one.isfinite()].double(), 20).int().tolist())


def test_the_statistics_of_many_large_tensors_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PIECE", 5000)
    tensors = [torch.full((2000,), float(value)) for value in range(7)]
    assert [stats.mean for stats in summaries(tensors)] == list(range(7))
    assert [stats.mean for stats in summaries([torch.ones(6000), torch.zeros(6000)])] == [1.0, 0.0]
    assert summaries([]) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("size", [1e-30, 1e-25, 1.0, 1e25, math.inf, 0.0])
def test_the_norm_of_numbers_whose_squares_single_precision_does_not_have(size: float, dtype: torch.dtype) -> None:
    data = torch.full((10_000,), size, dtype=dtype)
    found = norms({1: data, 2: data[:1], 3: torch.full((2,), math.nan, dtype=dtype)})
    assert float(found[1]) == pytest.approx(100 * float(data[0].real), rel=1e-5, abs=0)
    assert float(found[2]) == pytest.approx(float(data[0].real), rel=1e-5, abs=0)
    assert math.isnan(found[3])
    assert all(type(norm) is float for norm in found.values()), "where it is at hand"


# Large tensors, whose histogram is one of a sample.

MOST = (600, 350)
assert MOST[0] * MOST[1] > SAMPLE

LARGE = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int8, torch.bool),
)

WINDOWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda data: data,
    "transposed": lambda data: data.t(),
    "channels last": lambda data: data.view(6, 100, 25, 14).to(memory_format=torch.channels_last),
    "every second": lambda data: data[:, ::2],
    "a window": lambda data: data[7:590, 3:341],
    "expanded": lambda data: data[:300, :1, None].expand(-1, 4, 100),
    "turned and expanded": lambda data: data.t()[None].expand(2, -1, -1),
}


def large(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return (3 * torch.randn(*MOST, dtype=wide)).to(dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", LARGE, ids=str)
def test_the_statistics_of_a_large_tensor(dtype: torch.dtype, window: str) -> None:
    data = WINDOWS[window](large(dtype))
    check_statistics(data)
    if dtype.is_floating_point or dtype.is_complex:
        check_finite(data)


@pytest.mark.parametrize("dtype", [one for one in LARGE if one.is_floating_point or one.is_complex], ids=str)
@pytest.mark.parametrize("bad", [[math.nan], [math.inf], [-math.inf, math.nan, math.inf]], ids=str)
def test_nan_and_inf_in_a_large_tensor(dtype: torch.dtype, bad: list[float]) -> None:
    data = large(dtype)
    data[3, 5 : 5 + len(bad)] = torch.tensor(bad).to(dtype)
    check_statistics(data)
    check_statistics(torch.full_like(data, bad[0]))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *[(value, torch.float32) for value in (0.0, 1e38, 1e25, 1e-25, 1e-38, 1e-44, 1 / 3)],
        *[(value, torch.float64) for value in (0.0, 1e300, 1e-300, 1e150, 1 / 3)],
        *[(value, torch.bfloat16) for value in (0.0, 1e38, 1e-38)],
        (1e30, torch.complex64),
    ],
    ids=str,
)
@pytest.mark.parametrize("spread", [0, 1])
def test_huge_and_tiny_numbers_in_a_large_tensor(value: float, dtype: torch.dtype, spread: int) -> None:
    data = torch.full(MOST, value, dtype=dtype)
    if spread:
        data[::2] = -data[::2]
    check_statistics(data)


@pytest.mark.sampled(4)
@pytest.mark.skipif(not compiled(), reason="there is one pass only in the compiled core")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [SMALL + 1, SMALL + 15, 40_000, SAMPLE, SAMPLE + 1, 300_001])
@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, -math.inf], [math.nan, math.inf]], ids=str)
def test_one_pass_finds_what_torch_finds(
    dtype: torch.dtype, count: int, bad: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(count)
    data = (torch.randn(count, dtype=torch.float64) * 3 + 0.1).to(dtype)
    constant = torch.full_like(data, -0.7)
    for tensor in (data, constant):
        tensor[count // 2 : count // 2 + len(bad)] = torch.tensor(bad, dtype=dtype)
    tensors = [data, constant, torch.zeros_like(data), torch.full_like(data, math.nan)]
    found = [stats_module._in_one_pass(one, exact) for one in tensors for exact in (False, True)]
    monkeypatch.setattr(stats_module, "_KINDS", {})
    expected = [summarise(one, exact=exact) for one in tensors for exact in (False, True)]
    for mine, its in zip(found, expected, strict=True):
        assert mine is not None
        assert mine.norm == pytest.approx(its.norm, rel=1e-6, nan_ok=True)
        assert mine.mean is its.mean is None or mine.mean == pytest.approx(its.mean, rel=1e-4, abs=1e-6)
        assert replace(mine, norm=0.0, mean=None) == replace(its, norm=0.0, mean=None)


@pytest.mark.skipif(not compiled(), reason="there is one pass only in the compiled core")
def test_one_pass_leaves_to_torch_what_it_cannot_read() -> None:
    large = torch.full((5000,), 1e200, dtype=torch.float64)
    for data in (large, 1 / large, torch.ones(5000).half(), torch.ones(5000, 2)[:, 0], torch.ones(5000, dtype=int)):
        assert stats_module._in_one_pass(data, exact=False) is None
        check_statistics(data)


def test_the_norm_of_many_equal_numbers_in_single_precision() -> None:
    """Where torch adds all of their squares in float32, the third digit is wrong."""
    data = torch.full((1 << 22,), 1 / 3)
    whole = 2048 * float(data[0])
    assert abs(float(torch.linalg.vector_norm(data)) / whole - 1) > 1e-4
    assert summarise(data).norm == pytest.approx(whole, rel=1e-6)
    assert norms({0: data})[0] == pytest.approx(whole, rel=1e-6)


def test_a_histogram_of_a_sample_says_so() -> None:
    assert summarise(torch.arange(float(SAMPLE))).sample is None
    stats = summarise(torch.arange(SAMPLE + 1.0))
    assert stats.sample == BINNED
    assert stats.counts is not None
    assert sum(stats.counts) == BINNED
    exact = summarise(torch.arange(SAMPLE + 1.0), exact=True)
    assert exact == replace(stats, sample=None, counts=exact.counts)
    assert exact.counts is not None
    assert sum(exact.counts) == SAMPLE + 1


@pytest.mark.parametrize("wide", [3, 16, 64, 255, 256, 257, 768, 1024, 4096, 50257])
@pytest.mark.parametrize("turned", [False, True])
def test_a_sample_takes_from_all_columns_and_rows_alike(wide: int, turned: bool) -> None:
    """The numbers of each column differ from those of every other one."""
    high = -(-(1 << 21) // wide)
    columns = torch.arange(float(wide)).expand(high, wide).contiguous()
    rows = torch.arange(float(high))[:, None].expand(high, wide).contiguous()
    for data in (columns, rows):
        found, exact = (summarise(data.t() if turned else data, exact=exact).counts for exact in (False, True))
        assert found is not None
        assert exact is not None
        shares = np.array(found) / sum(found) - np.array(exact) / sum(exact)
        assert abs(shares).max() < 0.005


@pytest.mark.parametrize("count", [SAMPLE // 16, SAMPLE // 16 + 1, 3 * SAMPLE // 32, SAMPLE, 10**6, 10**9])
def test_no_number_is_twice_in_a_sample(count: int) -> None:
    picked = stats_module._runs(SAMPLE // 16, count, torch.device("cpu"))
    assert len(set(picked.tolist())) == SAMPLE // 16
    assert int(picked.min()) >= 0
    assert int(picked.max()) < count


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64, torch.int8, torch.bool]
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_sample_is_the_same_from_c_and_from_torch(
    dtype: torch.dtype, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    data = (8 * torch.randn(300, 1000)).to(dtype)
    views = [data.t() if turned else data] + ([data.mH, data.conj().imag] if dtype.is_complex else [])
    with torch.device("meta"):  # another default
        found = [stats_module.sample(one) for one in views]
    monkeypatch.setattr(stats_module, "_one_pass", None)
    for one, view in zip(found, views, strict=True):
        assert one.equal(stats_module.sample(view))
        assert one.device.type == "cpu"


def test_a_sample_follows_a_known_distribution() -> None:
    torch.manual_seed(0)
    data = torch.rand(3, 1 << 19)
    counts = summarise(data).counts
    assert counts is not None
    assert max(counts) - min(counts) < 6 * math.sqrt(BINNED / 20), "each has a twentieth, but for chance"


@pytest.mark.parametrize("shape", [(2,), (300,), (1 << 17,)])
def test_zeros_that_torch_gives_no_memory_are_counted(shape: tuple[int, ...]) -> None:
    data = torch._efficientzerotensor(shape)
    assert data._is_zerotensor()
    assert stats_module.countable(data)
    zeros = torch.zeros(shape)
    assert summarise(data) == summarise(zeros)
    assert stats_module.norms({0: data})[0] == 0
    kept = stats_module.data_of(data)
    assert kept is not None
    assert kept.equal(zeros)
    assert kept.data_ptr()


def test_the_sign_of_a_negative_view_is_in_its_histogram() -> None:
    data = torch.view_as_complex(torch.rand(1 << 17, 2)).conj().imag
    assert data.is_neg()
    check_statistics(data)
    assert summarise(data).high == float(data.max())


def test_views_of_the_same_numbers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[torch.Tensor] = []
    reader = "_in_one_pass" if compiled() else "_summarise_large"
    real = getattr(stats_module, reader)
    monkeypatch.setattr(stats_module, reader, lambda data, exact: (read.append(data), real(data, exact))[1])
    data = torch.randn(64, 4096)
    views = [data, data.t(), data.view(-1), data.view(8, 8, 4096).transpose(0, 2), data[:, ::2], data.clone()]
    found = summaries(views)
    assert len(read) == 3, "the numbers, every second one, and a copy"
    for view, stats in zip(views, found, strict=True):
        assert stats == replace(summarise(view), shape=tuple(view.shape))
    conjugate = torch.randn(1 << 17, dtype=torch.complex64)
    assert summaries([conjugate, conjugate.conj()])[1].norm == pytest.approx(float(conjugate.norm()))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", LARGE, ids=str)
def test_the_statistics_of_a_large_tensor_on_a_gpu(dtype: torch.dtype) -> None:
    data = large(dtype)
    expected, found = summarise(data), summarise(data.cuda())
    assert found.norm == pytest.approx(expected.norm)
    assert found.mean == pytest.approx(expected.mean, abs=1e-6)
    assert replace(found, norm=0.0, mean=0.0, counts=()) == replace(expected, norm=0.0, mean=0.0, counts=())
    assert found.counts is not None
    assert expected.counts is not None
    assert abs(np.array(found.counts) - np.array(expected.counts)).max() <= 2, "a number at the end of a bin"
    assert summarise(data.cuda(), exact=True).counts == summarise(data, exact=True).counts

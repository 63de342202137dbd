"""The statistics of tensors, and the budget for keeping them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from nbgrad.core import stats as stats_module
from nbgrad.core.broadcast import Reduction
from nbgrad.core.frame import GRADIENT, UNREDUCED, FrameRecorder, Kept
from nbgrad.core.stats import SMALL, Stats, norms, summarise, summarise_all
from nbgrad.core.tensor import tensor


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
    torch.tensor([1e200, -1e200], dtype=torch.float64),  # finite, and their norm is not
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


def summaries(tensors: list[torch.Tensor]) -> list[Stats]:
    found = summarise_all(dict(enumerate(tensors)))
    assert found.keys() == set(range(len(tensors)))
    return [found[place] for place in range(len(tensors))]


def test_the_statistics_of_many_are_those_of_each_and_in_order() -> None:
    found = summaries([*MANY, *reversed(MANY)])
    for data, stats, again in zip(MANY, found[: len(MANY)], found[: -len(MANY) - 1 : -1], strict=True):
        assert repr(stats) == repr(again) == repr(summarise(data))  # repr: a NaN is no NaN
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
    monkeypatch.setattr(stats_module, "_TOGETHER", 5000)
    tensors = [torch.full((2000,), float(value)) for value in range(7)]
    assert [stats.mean for stats in summaries(tensors)] == list(range(7))
    assert [stats.mean for stats in summaries([torch.ones(6000), torch.zeros(6000)])] == [1.0, 0.0]
    assert summaries([]) == []


def test_beyond_the_budget_only_the_norm_is_kept() -> None:
    kept = Kept(budget=100)
    for op, count in enumerate((20, 20, 5)):
        kept.keep(op, GRADIENT, torch.ones(count))
    found = kept.summarise()
    assert found[0].values == [1.0] * 20
    assert found[1] == Stats((20,), pytest.approx(math.sqrt(20)))
    assert found[2].values == [1.0] * 5, "what still fits is kept"


def test_what_is_kept_is_told_apart_by_the_op_the_input_and_what_it_is_of() -> None:
    kept = Kept(budget=1000)
    for count, position in enumerate((GRADIENT, 0, 3, UNREDUCED, UNREDUCED - 3), 1):
        kept.keep(7, position, torch.ones(count))
    sizes = {key: stats.shape for key, stats in kept.summarise().items()}
    assert sizes == {7: (1,), (7, 0): (2,), (7, 3): (3,), (7, 0, "unreduced"): (4,), (7, 3, "unreduced"): (5,)}


def test_the_same_tensor_is_paid_for_once() -> None:
    kept, one, other = Kept(budget=190), torch.ones(20), torch.ones(25)
    for op, data in enumerate([one, other, one, other, one, one, torch.ones(3)]):
        kept.keep(op, GRADIENT, data)
    found = kept.summarise()
    assert {key for key, stats in found.items() if stats.values is not None} == set(range(6))
    assert found[6].norm == pytest.approx(math.sqrt(3)), "what does not fit has its norm"


def test_a_window_is_paid_for_with_all_that_it_keeps() -> None:
    kept = Kept(budget=100)
    window, stretched = 1, 2
    kept.keep(window, GRADIENT, torch.ones(100)[:2])
    kept.keep(stretched, GRADIENT, torch.ones(1).expand(1000))
    found = kept.summarise()
    assert (found[window].values, found[stretched].values) == (None, [1.0] * 1000)


def test_a_tensor_changed_in_place_since_is_left_out() -> None:
    kept, changed = Kept(budget=1000), torch.ones(2)
    kept.keep(1, GRADIENT, changed)
    kept.keep(2, GRADIENT, torch.ones(3))
    changed.add_(1)
    assert set(kept.summarise()) == {2}
    assert not kept.changed(), "neither is the gradient of a leaf"


def test_a_leafs_gradient_that_was_changed_in_place_is_noticed() -> None:
    kept, gradient = Kept(budget=1000), torch.ones(2)
    kept.keep(1, GRADIENT, torch.ones(3), leaf=True)
    kept.keep(2, 0, gradient, 3, leaf=True)
    assert not kept.changed()
    gradient.add_(1)
    assert kept.changed()


def test_what_the_one_rule_gave_is_the_gradient_and_is_kept_once() -> None:
    kept, data = Kept(budget=100), torch.ones(20)
    kept.keep(7, 0, data, 1, leaf=True)
    kept.keep(7, 1, torch.ones(30), 2)  # for which there is no room
    kept.keep(7, 2, torch.ones(2), 3)
    assert kept.norms({}) == {}, "that no other rule leads there is known when the walk comes by"
    kept.lone(1)
    kept.lone(2)
    kept.keep(3, GRADIENT, torch.full((2,), 3.0))  # another rule gave something too
    found = kept.summarise()
    assert found == {key: kept.get(key) for key in found}
    assert (found[1].values, found[2], found[3].values) == ([1.0] * 20, found[7, 1], [3.0, 3.0])
    assert found[7, 1] == Stats((30,), pytest.approx(math.sqrt(30)))
    found_norms = {whose: float(norm) for whose, norm in kept.norms({}).items()}
    assert found_norms == pytest.approx({1: math.sqrt(20), 2: math.sqrt(30), 3: math.sqrt(18)})
    assert not kept.changed()
    data.add_(1)
    assert kept.changed()
    assert (kept.get(1), kept.raw(1)) == (None, None)


def arrive(recorder: FrameRecorder, leaf: int, gradient: torch.Tensor, *, lone: bool) -> None:
    """``gradient`` becomes that of a leaf: the sum of several, or what the one rule gave that leads there."""
    if lone:
        recorder.contribution(9, 0, gradient, leaf, leaf=True)
        recorder.lone(leaf)
    else:
        recorder.gradient(leaf, gradient, leaf=True)
    recorder.leaf(leaf, gradient)


@pytest.mark.parametrize("lone", [True, False])
def test_of_a_leafs_gradient_the_norm_survives_a_change_in_place(lone: bool) -> None:
    recorder, gradient = FrameRecorder((), budget=1000), torch.tensor([3.0, 4.0])
    arrive(recorder, 5, gradient, lone=lone)
    recorder.end(1, None)
    gradient.mul_(0.1)
    assert recorder.frame().gradients == {5: Stats((2,), 5.0)}


@pytest.mark.parametrize("lone", [True, False])
def test_norms_are_taken_again_once_a_leafs_gradient_was_changed_in_place(lone: bool) -> None:
    recorders: list[FrameRecorder] = []
    for number, change in enumerate([False, False, True, False, False], 1):
        if recorders:
            recorders[-1].give_way()
        recorder, gradient = FrameRecorder((), budget=1000), torch.tensor([3.0, 4.0])
        arrive(recorder, 5, gradient, lone=lone)
        recorder.end(number, recorders[-1] if recorders else None)
        recorders.append(recorder)
        if change:
            gradient.mul_(2)
    assert [recorder.careful for recorder in recorders] == [False, False, True, True, True], "seen by the next one"
    norms = [recorder.frame().gradients.get(5) for recorder in recorders]
    assert norms[2] is None, "the change came as a surprise: the values are gone, and nothing else is shown for them"
    assert all(norms[k] is not None for k in (0, 1, 3, 4))


def test_a_frame_is_the_recorder_as_data() -> None:
    recorder, step = FrameRecorder((7,), budget=1000), Reduction((2, 3), (3,), (0,), 2)
    recorder.reductions[7, 0] = step
    recorder.gradient(7, torch.ones(1))
    recorder.gradient(8, tensor([2.0]))
    recorder.contribution(7, 0, torch.ones(3), 6)
    recorder.end(3, None)
    frame = recorder.frame()
    assert (frame.number, frame.roots) == (3, (7,))
    assert {seq: stats.values for seq, stats in frame.gradients.items()} == {7: [1.0], 8: [2.0]}
    assert {key: stats.shape for key, stats in frame.contributions.items()} == {(7, 0): (3,)}
    assert frame.reductions == {(7, 0): step}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("size", [1e-30, 1e-25, 1.0, 1e25, math.inf, 0.0])
def test_the_norm_of_numbers_whose_squares_single_precision_does_not_have(size: float, dtype: torch.dtype) -> None:
    data = torch.full((10_000,), size, dtype=dtype)
    found = norms({1: data, 2: data[:1], 3: torch.full((2,), math.nan, dtype=dtype)})
    assert float(found[1]) == pytest.approx(100 * float(data[0].real), rel=1e-5, abs=0)
    assert float(found[2]) == pytest.approx(float(data[0].real), rel=1e-5, abs=0)
    assert math.isnan(found[3])
    assert all(norm.ndim == 0 for norm in found.values())

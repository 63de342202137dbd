"""DistributedDataParallel does what torch's does. Where torch's does something else, nbgrad's says so."""

import re

import pytest
import torch

from benchmarks import distributed
from tests.nn.parallel import workers
from tests.nn.parallel.processes import errors, values

pytestmark = [pytest.mark.once, pytest.mark.rotated(6)]


@pytest.mark.parametrize(
    "settings",
    [
        {"find_unused_parameters": True},
        {"find_unused_parameters": True, "bucket_cap_mb": 0.0001, "gradient_as_bucket_view": True},
        {"static_graph": True},
    ],
)
def test_unused_parameters(settings):
    values(workers.unused, 2, settings)


@pytest.mark.parametrize("settings", [{}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001}])
def test_gradients_that_add_up(settings):
    values(workers.added_up, 2, settings)


def test_every_backward_averages():
    first, second = values(workers.twice, 2)
    for mine, other in zip(first, second, strict=True):
        assert torch.equal(mine, other)
    once, added, both = first
    torch.testing.assert_close(added, 2 * once)
    torch.testing.assert_close(both, 2 * once)


def test_a_gradient_that_is_held_keeps_its_numbers():
    """A new ``.grad`` is a part of its bucket. If somebody still holds that ``.grad``, the bucket gets new memory."""
    for found in values(workers.held_gradients, 2):
        assert len(found) == 6
        assert all(found.values()), found


def test_hooks_on_a_parameter():
    first, second = values(workers.seen_by_hooks, 2)
    mean = (first["before"] + second["before"]) / 2
    for rank, seen in enumerate((first, second)):
        torch.testing.assert_close(seen["before"], workers.X.sum(0, keepdim=True) * (rank + 1))
        torch.testing.assert_close(seen["after"], mean)
        torch.testing.assert_close(seen["doubled"], 2 * mean)
        torch.testing.assert_close(seen["alone"], 2 * seen["before"])


def test_a_wrapper_that_is_gone():
    (first, average), (second, same) = values(workers.wrapped_again, 2)
    torch.testing.assert_close(second, 2 * first)
    torch.testing.assert_close(average, 1.5 * first)
    assert torch.equal(average, same)


REFUSED = [
    r"NotImplementedError: .*rank \d: backward\(create_graph=True\) cannot .* inside no_sync\(\)",
    r"RuntimeError: .* it is a DistributedDataParallel already",
    r"RuntimeError: .* its part '0' is a DistributedDataParallel already",
    r"RuntimeError: .* parameter '0.weight' belongs to another DistributedDataParallel",
    r"RuntimeError: .* doesn't have any parameter that requires a gradient",
    r"RuntimeError: .* doesn't have any parameter that requires a gradient",
    r"RuntimeError: .* 'weight' has no shape yet: call the module once",
    r"TypeError: nbgrad.nn.parallel.Dist.* got torch.nn.modules.linear.Linear: wrap nbgrad.from_torch\(net\)",
    r"TypeError: DistributedDataParallel takes an nbgrad.nn.Module, got str",
    r"ValueError: .* several devices, '0.weight' on cpu, '1.weight' on meta: move the module to one",
    r"ValueError: .* device_ids and output_device are for GPUs",
    r"NotImplementedError: DistributedDataParallel has no mixed_precision: use nbgrad.autocast",
    r"TypeError: a communication hook must be callable, got int",
    r"TypeError: torch.nn.parallel.Dist.* for nbgrad's use nbgrad.nn.parallel.DistributedDataParallel",
    r"TypeError: torch.nn.SyncBatchNorm .* for nbgrad's use nbgrad.nn.SyncBatchNorm",
]


def test_bad_input():
    for found in values(workers.refused, 2):
        for message, wanted in zip(found, REFUSED, strict=True):
            assert re.match(wanted, message), message


def test_no_process_group():
    with pytest.raises(RuntimeError, match=r"needs a process group: call torch\.distributed\.init_process_group"):
        workers.Parallel(workers.nn.Linear(2, 2))


def test_communication_hooks_of_torch():
    for far in values(workers.comm_hooks, 2):
        assert far["average"] < 1e-6
        assert 0 < far["fp16"] < 2e-3
        assert 0 < far["wrapped"] < 2e-3
        assert 0 < far["bf16"] < 1e-2
        assert far["power"] < 1


def test_what_a_communication_hook_gets():
    for seen in values(workers.own_hook, 2):
        assert seen == [
            (0, False, ["1.weight", "1.bias"], [(1,), (1, 2)]),
            (1, True, ["0.weight", "0.bias"], [(2,), (2, 4)]),
        ]


def test_clipping_scaling_averages_and_checkpoints():
    first, second = values(workers.tools, 2)
    assert first["norms"][1:] == second["norms"][1:]
    assert first["scales"] == second["scales"]
    assert first["scales"][0] == 2.0**39  # one process has an infinity, and the scale is halved in both
    for mine, other in zip(first["state"] + first["copy"], second["state"] + second["copy"], strict=True):
        assert torch.equal(mine, other)


def test_modules_of_torch():
    first, second = values(workers.converted, 2)
    for mine, other in zip(first, second, strict=True):
        assert torch.equal(mine, other)


def test_buffers():
    first, second = values(workers.buffers, 2)
    mean = workers.X.float().mean(0)
    torch.testing.assert_close(second[1] - 0.9 * first[0], 0.1 * (2 * mean + 1))  # its batch moves rank 0's values
    assert torch.equal(first[2], second[2])
    assert not torch.equal(first[5], second[5])
    assert [float(first[6]), float(second[6])] == [0, 1]  # an ignored bias is not synchronized
    assert not torch.equal(first[7], second[7])
    assert torch.equal(first[8], second[8])


def test_the_sampler_of_torch():
    first, second = values(workers.sampled, 2)
    assert sorted(first + second) == list(range(10))


def test_buckets_travel_while_the_backward_computes():
    for count, on_their_way in values(workers.overlapping, 2):
        assert count == 6
        assert on_their_way == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", distributed.STEPS)
def test_the_contenders_of_the_benchmark(name):
    for (theirs, ours), trace in values(workers.measured, 2, name):
        assert ours == pytest.approx(theirs, rel=1e-3)
        assert 0 < trace.computed < trace.ended
        assert all(0 < one.sent < one.arrived for one in trace.journeys)
        assert 0 < trace.hidden <= 1


def test_the_share_that_a_backward_hides():
    trace = distributed.Trace(2.0, 4.0, [distributed.Journey(1.0, 3.0), distributed.Journey(2.5, 4.0)])
    assert trace.hidden == pytest.approx(1 / 3)
    lines = distributed.drawn_trace(trace).splitlines()
    assert [line.index(sign) - lines[0].index("|") - 1 for line, sign in zip(lines, "=--", strict=True)] == [0, 15, 38]
    times = {"torch": [1.0, 1.0], "nbgrad": [1.5, 1.5], "recorded": [1.25, 1.25], "compared": [2.0, 2.0]}
    found = {"wide": distributed.Measured(times, trace)}
    assert "| wide | 1 s | 1.5 s | **1.50** | 1.50 to 1.50 | 33% | 1.25 | 2.00 |" in distributed.markdown(found)


def test_buckets_follow_the_order_of_the_backward():
    first, second = values(workers.rebuilt, 2)
    assert first == second
    before, after, totals = first
    assert before[0] == (7, 6)
    assert 0 in after[0]
    assert totals[0] == pytest.approx(totals[2], rel=1e-12)


@pytest.mark.parametrize("divide_by_all", [True, False])
@pytest.mark.parametrize("settings", [{}, {"bucket_cap_mb": 0.0001}])
def test_uneven_inputs(settings, divide_by_all):
    values(workers.joined, 2, settings, divide_by_all)


def test_uneven_inputs_with_buffers():
    first, second, third = values(workers.joined_with_buffers, 3)
    for one, two, three in zip(first, second, third, strict=True):
        assert torch.equal(one, three)
        assert torch.equal(two, three)


def test_inputs_that_end_early_in_one_process():
    for message in errors(workers.thrown, 2):
        assert "at least one rank has exhausted inputs" in message.lower() or "exhausted" in message

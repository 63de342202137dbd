"""SyncBatchNorm in several processes is batch normalization of the whole batch in one."""

import pytest
import torch

from nbgrad import nn
from tests.nn.parallel import workers
from tests.nn.parallel.processes import errors, values


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "dims", "empty"), [(2, 0, False), (2, 1, True), (2, 3, False), (4, 2, False)])
def test_several_processes_are_as_one(size, dims, empty):
    values(workers.normalized, size, dims, empty)


def test_half_precision_and_channels_last():
    assert values(workers.half, 2) == [(torch.bfloat16, torch.bfloat16)] * 2


@pytest.mark.rotated(3)
def test_one_value():
    for message in errors(workers.lone_value, 2):
        assert message.startswith("ValueError: SyncBatchNorm needs more than one value per channel to train"), message


def test_one_process_is_batch_normalization():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 5)
    ours, theirs = nn.SyncBatchNorm(3), torch.nn.SyncBatchNorm(3)
    torch.testing.assert_close(ours(nn.Buffer(x)).data, theirs(x).data)
    with pytest.raises(ValueError, match=r"expected at least 2D input \(got 1D input\)"):
        ours(nn.Buffer(x[0, 0]))
    with pytest.raises(ValueError, match="at least one channel"):
        nn.SyncBatchNorm(0)(nn.Buffer(x[:, :0]))


def test_conversion_keeps_parameters_and_settings():
    inner = nn.BatchNorm2d(3, eps=0.1, momentum=None, bias=False).eval()
    net = nn.Sequential(inner, nn.Sequential(nn.BatchNorm1d(2, affine=False, track_running_stats=False)))
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert made is net
    assert isinstance(made[0], nn.SyncBatchNorm)
    assert made[0].weight is inner.weight
    assert made[0].running_mean is inner.running_mean
    assert (made[0].eps, made[0].momentum, made[0].bias, made[0].training) == (0.1, None, None, False)
    assert (made[1][0].affine, made[1][0].running_mean) == (False, None)

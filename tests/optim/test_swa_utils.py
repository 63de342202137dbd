"""Averages of models are torch's."""

import copy

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.optim import swa_utils

MODES = {
    "alike": {},
    "ema": {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)},
    "swa, all at once": {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
    "ema, one by one": {"avg_fn": swa_utils.get_ema_avg_fn(0.8)},
    "swa, one by one": {"avg_fn": swa_utils.get_swa_avg_fn()},
    "buffers": {"use_buffers": True},
    "buffers, ema": {"use_buffers": True, "multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)},
}


def models():
    """A model of ours and torch's with the same numbers. Each has a buffer of floats and one of whole numbers."""
    ours = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(torch.float64)
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    theirs.load_state_dict(ours.state_dict())
    for model in (ours, theirs):
        model.register_buffer("mean", torch.zeros(2, dtype=torch.float64))
        model.register_buffer("count", torch.tensor([3, 40]))
    return ours, theirs


def change(model, number):
    for position, param in enumerate(model.parameters()):
        param.data.add_(0.1 * number - position)
    model.mean.data.add_(number)
    model.count.data.add_(7 * number)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_averages_are_torchs(mode):
    ours, theirs = models()
    averaged, expected = swa_utils.AveragedModel(ours, **mode), torch.optim.swa_utils.AveragedModel(theirs, **mode)
    for number in range(6):
        change(ours, number)
        change(theirs, number)
        averaged.update_parameters(ours)
        expected.update_parameters(theirs)
        mine, yours = averaged.state_dict(), expected.state_dict()
        assert sorted(mine) == sorted(yours)
        torch.testing.assert_close({key: mine[key] for key in yours}, dict(yours), rtol=1e-12, atol=1e-12)
    x = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(averaged(nbgrad.tensor(x)).data, expected(x).detach())
    assert averaged.n_averaged.item() == 6


def test_the_average_is_a_module_of_its_own():
    model = nn.Linear(2, 2)
    averaged = swa_utils.AveragedModel(model)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        averaged.module.weight.data.zero_()
    torch.testing.assert_close(model.state_dict(), before)
    loaded = swa_utils.AveragedModel(nn.Linear(2, 2))
    loaded.load_state_dict(averaged.state_dict())
    assert loaded.module.weight.data.eq(0).all()


def test_one_formula_at_a_time():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)


def test_another_model_does_not_fit():
    with pytest.raises(ValueError, match="shorter"):
        swa_utils.AveragedModel(nn.Linear(2, 2)).update_parameters(nn.Linear(2, 2, bias=False))


def test_the_swa_schedule_is_torchs():
    ours, theirs = (
        optim.SGD([nn.Parameter([1.0])], lr=0.4),
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4),
    )
    mine, yours = swa_utils.SWALR(ours, 0.05, 7), torch.optim.swa_utils.SWALR(theirs, 0.05, 7)
    for _ in range(10):
        for optimizer, scheduler in ((ours, mine), (theirs, yours)):
            optimizer.step()
            scheduler.step()
        assert mine.get_last_lr() == yours.get_last_lr()
    assert mine.get_last_lr() == [0.05]


def normalized(module):
    return module.Sequential(module.Linear(3, 4), module.BatchNorm1d(4, momentum=0.3), module.Linear(4, 2)).eval()


@pytest.mark.parametrize("listed", [False, True], ids=["tensors", "with targets"])
def test_statistics_are_measured_anew_as_torchs(listed):
    ours, theirs = normalized(nn), normalized(torch.nn)
    theirs.load_state_dict(ours.state_dict())
    batches = [torch.randn(5, 3) + number for number in range(4)]
    given = [(batch, torch.ones(5)) for batch in batches] if listed else batches
    for _ in range(2):  # the second time nothing is left of the first
        swa_utils.update_bn(given, ours, device="cpu")
        torch.optim.swa_utils.update_bn(given, theirs)
    torch.testing.assert_close(ours.state_dict(), dict(theirs.state_dict()))
    assert ours[1].num_batches_tracked.item() == 4
    assert (ours[1].momentum, ours.training, ours[1].training) == (0.3, False, False)


def test_no_batches_are_read_where_there_is_nothing_to_measure():
    """The batches are None: to read them would raise an error."""
    swa_utils.update_bn(None, nn.Linear(2, 2))


def test_settings_come_back_after_an_error():
    model = normalized(nn)
    with pytest.raises(RuntimeError):
        swa_utils.update_bn([torch.ones(2, 7)], model)
    assert (model[1].momentum, model.training) == (0.3, False)

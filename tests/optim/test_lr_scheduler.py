"""Torch's schedulers drive our optimizers as they drive torch's."""

import pytest
import torch

from nbgrad import nn, optim
from nbgrad.optim import lr_scheduler

TABLE = {
    "LambdaLR": {"lr_lambda": [lambda epoch: 0.95**epoch, lambda epoch: 1 / (1 + epoch)]},
    "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9 + 0.001 * epoch},
    "StepLR": {"step_size": 7, "gamma": 0.5},
    "MultiStepLR": {"milestones": [3, 20, 30], "gamma": 0.3},
    "ConstantLR": {"factor": 0.2, "total_iters": 9},
    "LinearLR": {"start_factor": 0.1, "total_iters": 20},
    "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingLR": {"T_max": 15, "eta_min": 0.001},
    "CosineAnnealingWarmRestarts": {"T_0": 5, "T_mult": 2},
    "PolynomialLR": {"total_iters": 30, "power": 2.0},
    "CyclicLR": {"base_lr": 0.01, "max_lr": [0.2, 0.3], "step_size_up": 6, "mode": "exp_range", "gamma": 0.9},
    "OneCycleLR": {"max_lr": 0.4, "total_steps": 60},
    "ReduceLROnPlateau": {"patience": 2, "factor": 0.5, "cooldown": 1},
}


def chained(kind):
    return lambda optimizer: kind.ChainedScheduler(
        [kind.ConstantLR(optimizer, 0.1, 5), kind.ExponentialLR(optimizer, 0.9)], optimizer
    )


def sequential(kind):
    def make(optimizer):
        schedulers = [kind.LinearLR(optimizer, 0.1, total_iters=10), kind.CosineAnnealingLR(optimizer, 30)]
        return kind.SequentialLR(optimizer, schedulers, milestones=[10])

    return make


def plain(name):
    return lambda kind: lambda optimizer: getattr(kind, name)(optimizer, **TABLE[name])


MAKERS = {**{name: plain(name) for name in TABLE}, "ChainedScheduler": chained, "SequentialLR": sequential}


class Schedule:
    """A scheduler on an optimizer of ours or of torch's, with two groups, one of which has a rate of its own."""

    def __init__(self, kind, parameter, make, adam):
        groups = [{"params": [parameter(torch.ones(2))]}, {"params": [parameter(torch.ones(3))], "lr": 0.05}]
        self.optimizer = kind.Adam(groups, lr=0.1) if adam else kind.SGD(groups, lr=0.1, momentum=0.9)
        self.scheduler = make(kind.lr_scheduler)(self.optimizer)

    def epoch(self, number):
        for group in self.optimizer.param_groups:
            for param in group["params"]:
                param.grad = torch.ones_like(param.data)
        self.optimizer.step()
        metric = [(10 - number if number < 10 else 1.0)] if isinstance(self.scheduler, PLATEAU) else []
        self.scheduler.step(*metric)
        keys = ("lr", "initial_lr", "momentum", "betas", "max_lr", "min_lr")
        settings = [{key: group[key] for key in keys if key in group} for group in self.optimizer.param_groups]
        values = [param.data.tolist() for group in self.optimizer.param_groups for param in group["params"]]
        return settings, values, self.scheduler.get_last_lr()

    def saved(self):
        return self.optimizer.state_dict(), self.scheduler.state_dict()

    def load(self, saved):
        self.optimizer.load_state_dict(saved[0])
        self.scheduler.load_state_dict(saved[1])


PLATEAU = torch.optim.lr_scheduler.ReduceLROnPlateau


def ours(name, adam=False):
    return Schedule(optim, nn.Parameter, MAKERS[name], adam)


def torchs(name, adam=False):
    return Schedule(torch.optim, torch.nn.Parameter, MAKERS[name], adam)


@pytest.mark.parametrize("adam", [False, True], ids=["momentum", "betas"])
@pytest.mark.parametrize("name", MAKERS)
def test_fifty_epochs_are_torchs(name, adam):
    mine, yours = ours(name, adam), torchs(name, adam)
    rates = set()
    for number in range(50):
        got, expected = mine.epoch(number), yours.epoch(number)
        assert got[0] == expected[0]
        assert got[2] == expected[2]
        torch.testing.assert_close(got[1], expected[1])
        rates.add(got[2][0])
    assert len(rates) > 1


@pytest.mark.parametrize("there", ["ours to torch's", "torch's to ours"])
@pytest.mark.parametrize("name", MAKERS)
def test_state_moves_in_midwalk(name, there):
    first, second = (ours(name), torchs(name)) if there.startswith("ours") else (torchs(name), ours(name))
    whole = torchs(name)
    for number in range(25):
        whole.epoch(number)
        first.epoch(number)
    second.load(first.saved())
    for number in range(25, 50):
        assert second.epoch(number)[::2] == whole.epoch(number)[::2]


def test_every_scheduler_of_torch_is_here():
    torchs = {
        name
        for name, kind in vars(torch.optim.lr_scheduler).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.lr_scheduler.LRScheduler) and name[0] != "_"
    }
    assert torchs <= set(lr_scheduler.__all__) == {*MAKERS, "LRScheduler"}


def test_a_schedule_of_ones_own():
    class Halved(lr_scheduler.LRScheduler):
        def get_lr(self):
            return [rate / 2**self.last_epoch for rate in self.base_lrs]

    sgd = optim.SGD([nn.Parameter([1.0])], lr=0.8)
    halved = Halved(sgd)
    for _ in range(3):
        sgd.step()
        halved.step()
    assert halved.get_last_lr() == [0.1]


def test_a_plateau_is_seen_in_our_losses():
    sgd = optim.SGD([weight := nn.Parameter([1.0])], lr=1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd, patience=0)
    for _ in range(2):
        scheduler.step((weight * 3).sum())
    assert scheduler.get_last_lr() == [0.1]


@pytest.mark.parametrize("optimizer", [None, torch.nn.Linear(1, 1)], ids=["None", "a module"])
def test_what_is_no_optimizer(optimizer):
    with pytest.raises(TypeError, match="is not an Optimizer"):
        lr_scheduler.StepLR(optimizer, 3)

"""Random networks of images in channels last: a compiled step has the numbers and the strides of the eager step."""

from copy import deepcopy
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.core.structure import leaves
from tests.core.symbolic.image_networks import drawn, step_of

CASES = 25


def check(random: Random) -> None:
    """Compare two steps of one network, compiled and eager."""
    network, x, images_too = drawn(random)
    other = deepcopy(network)
    torch.manual_seed(0)
    eager = [made(step_of(network, images_too), network, x) for _ in range(2)]
    torch.manual_seed(0)
    run = nbgrad.compile(step_of(other, images_too), backend="replay", level="reassociate")
    for right in eager:
        found = made(run, other, x)
        assert len(found) == len(right)
        largest = max(1.0, *(float(one.double().norm()) for one in right))  # a bias before a batch norm gets noise
        for one, wanted in zip(found, right, strict=True):
            error = float((one.double() - wanted.double()).norm())  # a batch norm of few numbers enlarges the error
            assert error <= 1e-3 * float(wanted.double().norm()) + 1e-4 * largest, (error, one.shape)
            assert strides(one) == strides(wanted)
    run.program.check()
    if any(map(_moves, run.program.notes)):
        assert not any(map(_moves, run.program.optimize("reassociate").notes[len(run.program.notes) :]))


def strides(data: torch.Tensor) -> list[int]:
    """The strides of the dimensions that have more than one element: those of others mean nothing."""
    return [stride for size, stride in zip(data.shape, data.stride(), strict=True) if size > 1]


def made(step: Any, network: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The result of a step, and the changed tensors of the network."""
    found = [one.data for one in leaves(step(nbgrad.tensor(x)))]
    found += [one.grad.data for one in network.parameters()]
    return found + [one.data.clone() for one in network.state_dict().values()]


def _moves(one: Any) -> bool:
    return bool(one.rule == "channels last")

"""A listing that was split into two parts computes the same as the whole listing."""

from typing import Any

import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.cuda_graph import _recordable
from nbgrad.core.symbolic.division import divided
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.replay import replay


def step_of(seed: int) -> tuple[nbgrad.symbolic.Program, list[torch.Tensor]]:
    """A training step with dropout, momentum and two learning rates; and what it changes."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.4), nn.Linear(4, 2))
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    x = nbgrad.tensor(torch.randn(5, 3))

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    step(x)
    program = nbgrad.trace(step, x).optimize()
    return program, [x._data, *program.captured_data()]


def run(listing: Listing, parts: bool, data: list[torch.Tensor]) -> list[torch.Tensor]:
    inputs, captured = data[:1], data[1:]
    torch.manual_seed(1)
    if not parts:
        return replay(listing)(inputs, captured)
    both = divided(listing, _recordable)
    made = replay(both.first)(inputs, captured)
    return made if both.second is None else replay(both.second)([*inputs, *made], captured)


def test_a_step_in_two_parts_is_the_whole_step() -> None:
    (program, data), (_, others) = step_of(0), step_of(0)
    for one, other in zip(run(program, True, data), run(program, False, others), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(data, others, strict=True):
        assert torch.equal(one, other)


def test_only_what_waits_for_a_setting_comes_second() -> None:
    program, _ = step_of(0)
    parts = divided(program, _recordable)
    assert parts.second is not None
    assert all(step.phase == "update" for step in parts.second.steps)
    assert not any(step.phase == "backward" for step in parts.second.steps)
    assert any(step.phase == "backward" for step in parts.first.steps)
    assert all(_recordable(step) for step in parts.first.steps)
    assert len(parts.first.steps) + len(parts.second.steps) == len(program.steps)

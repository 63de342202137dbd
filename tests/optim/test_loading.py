"""An optimizer or a scaler loads a state whole or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbgrad import amp, nn, optim
from nbgrad.core.tensor.tensor import tensor


def trained(kind: Any = optim.Adam) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    groups = [{"params": net[0].parameters(), "lr": 0.1}, {"params": net[1].parameters(), "lr": 0.2}]
    optimizer = kind(groups)
    for _ in range(2):
        optimizer.zero_grad()
        net(tensor(torch.ones(4, 2))).sum().backward()
        optimizer.step()
    return optimizer


def told(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def another_setting(state: Any) -> None:
    state["param_groups"][1]["differentiable"] = True


def no_number(state: Any) -> None:
    state["param_groups"][1]["betas"] = "none"


def another_size(state: Any) -> None:
    del state["param_groups"][1]["params"][0]


def no_groups(state: Any) -> None:
    del state["param_groups"]


def no_state(state: Any) -> None:
    state["state"][3] = 5


@pytest.mark.parametrize("kind", [optim.Adam, optim.SGD, optim.RMSprop])
@pytest.mark.parametrize("spoil", [another_setting, another_size, no_groups, no_state])
def test_a_state_that_does_not_fit_changes_nothing(kind: Any, spoil: Callable[[Any], None]) -> None:
    optimizer, other = trained(kind), trained(kind)
    before = told(optimizer.state_dict())
    state = other.state_dict()
    state["param_groups"][0]["lr"] = 5.0
    spoil(state)
    with pytest.raises((NotImplementedError, TypeError, ValueError, KeyError, AttributeError)):
        optimizer.load_state_dict(state)
    assert told(optimizer.state_dict()) == before


def test_a_setting_of_another_kind_changes_nothing() -> None:
    optimizer, state = trained(), trained().state_dict()
    before = told(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 5.0
    no_number(state)
    with pytest.raises(TypeError, match="betas"):
        optimizer.load_state_dict(state)
    assert told(optimizer.state_dict()) == before


def test_a_hook_that_raises_after_loading_undoes_it() -> None:
    optimizer, state = trained(), trained().state_dict()
    state["param_groups"][0]["lr"] = 5.0
    before, groups = told(optimizer.state_dict()), list(optimizer.param_groups)

    def fail(_: Any) -> None:
        raise KeyError("no")

    with optimizer.register_load_state_dict_post_hook(fail), pytest.raises(KeyError):
        optimizer.load_state_dict(state)
    assert told(optimizer.state_dict()) == before
    optimizer.load_state_dict(state)
    assert all(one is two for one, two in zip(optimizer.param_groups, groups, strict=True))
    assert groups[0]["lr"] == 5.0


def scaler() -> Any:
    made = amp.GradScaler("cpu", init_scale=64.0)
    made.scale(tensor(1.0))
    return made


@pytest.mark.parametrize("name", ["scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"])
def test_a_scaler_loads_all_or_nothing(name: str) -> None:
    made, theirs = scaler(), torch.amp.GradScaler("cpu", init_scale=16.0)
    before = made.state_dict()
    for state in ({**theirs.state_dict(), name: "much"}, {k: v for k, v in theirs.state_dict().items() if k != name}):
        with pytest.raises((RuntimeError, TypeError), match=name):
            made.load_state_dict(state)
        assert made.state_dict() == before
    made.load_state_dict(theirs.state_dict())
    assert made.state_dict() == theirs.state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        made.load_state_dict({})

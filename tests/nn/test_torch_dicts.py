"""torch's private dicts of a module, which programs read and change, and its pruning, which works on them."""

from copy import copy
from typing import Any

import pytest
import torch
from torch.nn.utils import prune

from nbgrad import nn
from tests.lacking import LACKING, case, lacks
from tests.nn.alike import check, matched


def model(lib: Any) -> Any:
    return lib.Sequential(lib.Linear(4, 6), lib.BatchNorm1d(6), lib.Linear(6, 2))


def test_the_dicts_are_read_as_torchs() -> None:
    ours, theirs = matched(model)
    for kind in ("_parameters", "_buffers", "_modules"):
        for mine, yours in zip(ours.modules(), theirs.modules(), strict=True):
            assert [*getattr(mine, kind)] == [*getattr(yours, kind)]
            assert len(getattr(mine, kind)) == len(getattr(yours, kind))
    assert ours[0]._parameters["weight"] is ours[0].weight
    assert "bias" in ours[0]._parameters
    assert ours[0]._parameters.get("running_mean") is None
    assert repr(nn.ReLU()._parameters) == "{}"
    with pytest.raises(KeyError):
        ours[1]._parameters["running_mean"]


def test_the_dicts_are_copied_and_joined_as_torchs() -> None:
    for lib in (nn, torch.nn):
        made = model(lib)
        others = made._modules.copy()
        del others["1"]
        copy(made._modules).clear()
        assert type(others) is dict
        assert [*others] == ["0", "2"]
        assert len(made) == 3
        assert [*reversed(made._modules)] == ["2", "1", "0"]
        assert [*(made._modules | {"more": None})] == ["0", "1", "2", "more"]
        assert [*({"more": None} | made._modules)] == ["more", "0", "1", "2"]


def changed(lib: Any) -> Any:
    made = model(lib)
    for name, child in list(made._modules.items()):
        if isinstance(child, lib.BatchNorm1d):
            made._modules[name] = lib.LayerNorm(6)
    made[0]._parameters["bias"] = None
    del made[2]._parameters["bias"]
    made[2].bias = lib.Parameter(torch.ones(2))
    made[1]._buffers["seen"] = torch.zeros(1)
    return made


def test_what_is_put_in_and_taken_out_is_so_for_the_module() -> None:
    ours, theirs = matched(changed)
    check(ours, theirs, torch.randn(3, 4, dtype=torch.float64))
    with pytest.raises(TypeError, match="cannot assign"):
        ours._modules["0"] = 3
    with pytest.raises(KeyError):
        del ours._modules["9"]


def test_hooks_are_taken_out_of_their_dict() -> None:
    layer, ran = nn.Linear(2, 2), []
    assert not layer._forward_hooks
    layer.register_forward_hook(lambda *_: ran.append("after"))
    layer.register_forward_pre_hook(lambda *_: ran.append("before"))
    layer(nn.Parameter(torch.ones(2)))
    (number,) = layer._forward_pre_hooks
    del layer._forward_pre_hooks[number]
    layer._forward_hooks.clear()
    layer(nn.Parameter(torch.ones(2)))
    assert ran == ["before", "after"]
    with pytest.raises(TypeError, match="register_forward_hook"):
        layer._forward_hooks[0] = print


PRUNINGS = {
    "l1_unstructured": lambda net: prune.l1_unstructured(net[0], "weight", 0.5),
    "random_unstructured": lambda net: prune.random_unstructured(net[0], "weight", 7),
    "ln_structured": lambda net: prune.ln_structured(net[0], "weight", 0.5, 2, 0),
    "twice": lambda net: [prune.l1_unstructured(net[0], "weight", amount) for amount in (0.2, 0.5)],
    "global": lambda net: prune.global_unstructured(
        [(net[0], "weight"), (net[2], "weight")], pruning_method=prune.L1Unstructured, amount=0.4
    ),
}


CASES = [case(name, reason=lacks(name)) if name in LACKING else name for name in PRUNINGS]


@pytest.mark.parametrize("name", CASES)
def test_torchs_pruning_works_on_our_modules(name: str) -> None:
    ours, theirs = matched(model)
    for net in (ours, theirs):
        torch.manual_seed(4)
        PRUNINGS[name](net)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert prune.is_pruned(ours[0])
    for _ in range(2):
        check(ours, theirs, torch.randn(3, 4, dtype=torch.float64))
    for net in (ours, theirs):
        prune.remove(net[0], "weight")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    check(ours, theirs, torch.randn(3, 4, dtype=torch.float64))

"""The sweep over torch's overridable functions finds faults that are put in on purpose."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.interop import torch_functions
from nbgrad.core.tensor.tensor import Tensor
from tests.sweeps.overrides import compared

X = torch.tensor([0.5, 1.5], dtype=torch.float64)


def run(function: Callable[..., Any] = torch.exp) -> bool:
    """Whether some of the calls of a function were compared."""
    return sum(compared(Random(seed), "exp", function, (X,), {}) for seed in range(8)) > 0


def test_the_right_function_passes() -> None:
    assert run()


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_functions, "_ours", lambda *_: lambda x: OPS["exp"](x) + 0.001 * (x - x.detach()))
    with pytest.raises(AssertionError, match="gradient"):
        run()


def test_a_lost_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_functions, "_ours", lambda *_: lambda x: OPS["exp"](x.detach()))
    with pytest.raises(AssertionError, match="needs no gradient"):
        run()


def test_another_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_functions, "_ours", lambda *_: lambda x: OPS["exp"](x) * 1.001)
    with pytest.raises(AssertionError, match="value"):
        run()


def test_a_result_of_torchs_kind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_functions, "_ours", lambda *_: lambda x: x.data.exp().requires_grad_())
    with pytest.raises(AssertionError, match="for a tensor"):
        run()


def test_an_error_that_is_not_nbgrads_is_found() -> None:
    def function(x: Any) -> Any:
        if isinstance(x, Tensor):
            raise RuntimeError("no")
        return x.exp()

    with pytest.raises(AssertionError, match="RuntimeError: no"):
        run(function)

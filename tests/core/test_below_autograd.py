"""nbgrad's own rules run without torch's autograd. The user's code in a rule runs with it, as everywhere else."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import Function, Tensor, tensor
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch


def slope(x: Tensor) -> float:
    """The gradient of a number."""
    assert x.grad is not None
    return x.grad.item()


def torchs_slope(at: float = 3.0) -> float:
    """The derivative of a square, by torch's autograd."""
    x = torch.tensor(at, requires_grad=True)
    return torch.autograd.grad(x * x, x)[0].item()


class Square(Function):
    """A Function whose backward uses torch's autograd, as for a torch model inside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x.data
        return tensor(x.data * x.data)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x = ctx.x.clone().requires_grad_()
        return tensor(torch.autograd.grad(x * x, x, g.data)[0])


def in_a_function(x: Tensor) -> None:
    Square.apply(x).backward()
    assert slope(x) == 6


def in_a_hook(x: Tensor) -> None:
    y = x * 1
    y.register_hook(lambda g: g * torchs_slope())
    y.backward()
    assert slope(x) == 6


def in_a_hook_of_a_node(x: Tensor) -> None:
    y = x * 1
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda grads, _: (grads[0] * torchs_slope(), *grads[1:]))
    y.backward()
    assert slope(x) == 6


def in_a_hook_after_accumulation(x: Tensor) -> None:
    found: list[float] = []
    x.register_post_accumulate_grad_hook(lambda _: found.append(torchs_slope()))
    (x * 1).backward()
    assert found == [6]


def in_a_checkpoint(x: Tensor) -> None:
    found: list[float] = []

    def run(x: Tensor) -> Tensor:
        found.append(torchs_slope())
        return x * x

    nbgrad.checkpoint(run, x).backward()
    assert found == [6, 6], "in the forward, and again in the backward"


def in_a_rule_of_the_users(x: Tensor) -> None:
    def samples(make: Make) -> Iterator[Sample]:
        yield Sample.of(make(3))

    @op(formula="x", samples=samples)
    def from_a_test(x):  # type: ignore[no-untyped-def]  # as rows are
        return x.clone()

    try:
        from_a_test.rule("x", "g")(lambda g: g * torchs_slope())
        from_a_test(x).backward()
    finally:
        del OPS["from_a_test"]
    assert slope(x) == 6


@pytest.mark.parametrize(
    "where",
    [
        in_a_function,
        in_a_hook,
        in_a_hook_of_a_node,
        in_a_hook_after_accumulation,
        in_a_checkpoint,
        in_a_rule_of_the_users,
    ],
)
def test_torchs_autograd_works(where: Callable[[Tensor], None]) -> None:
    where(tensor(3.0, requires_grad=True))
    assert torchs_slope() == 6, "and afterwards"


def test_a_backward_inside_a_hook() -> None:
    x, w = tensor(3.0, requires_grad=True), tensor(2.0, requires_grad=True)

    def hook(g: Tensor) -> Tensor:
        with nbgrad.enable_grad():
            inner = w * w
        inner.register_hook(lambda g: g * torchs_slope())
        inner.backward()
        return g * torchs_slope()

    y = x * 1
    y.register_hook(hook)
    y.backward()
    assert slope(x) == 6
    assert slope(w) == 24


class Sees(Observer):
    """Records whether torch's autograd was off while rules ran."""

    def __init__(self) -> None:
        self.off: list[bool] = []

    def on_rule(self, *_: Any) -> None:
        with torch.enable_grad():
            self.off.append(not (torch.ones(1, requires_grad=True) * 2).requires_grad)


def test_rules_run_without_it_and_an_error_brings_it_back() -> None:
    x, sees = tensor(3.0, requires_grad=True), Sees()
    y = x * 2

    def fails(_: Tensor) -> None:
        raise ValueError("on purpose")

    y.register_hook(fails)
    with Switch(observers=(sees,)), pytest.raises(ValueError, match="on purpose"):
        (y * 3).backward()
    assert sees.off == [True]
    assert torchs_slope() == 6

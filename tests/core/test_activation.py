"""Activations, beyond the tests of their rows: composites, random slopes, in-place twins, and torch's own calls."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import nbgrad
from nbgrad.core.ops import swish
from nbgrad.core.tensor.tensor import tensor
from nbgrad.nn import functional
from tests.core.rows import close

X = torch.tensor([[-4.0, -3.0, -1.0, -0.2], [0.0, 0.3, 3.0, 5.0]], dtype=torch.float64)


def both(ours: Callable[[Any], Any], theirs: Callable[[Any], Any], data: torch.Tensor = X) -> None:
    """The same call has the same value, gradient and random numbers in both libraries."""
    x, y = tensor(data.clone(), requires_grad=True), data.clone().requires_grad_()
    torch.manual_seed(0)
    got = ours(x)
    torch.manual_seed(0)
    expected = theirs(y)
    seed = torch.linspace(1, 2, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    close(got.data, expected.detach(), "value")
    got.backward(seed)
    expected.backward(seed)
    assert x.grad is not None
    close(x.grad.data, y.grad, "gradient")


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda f, x: f.relu(x),
    "relu6": lambda f, x: f.relu6(x),
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.1),
    "prelu": lambda f, x: f.prelu(x, torch.tensor([0.1], dtype=torch.float64)),
    "rrelu": lambda f, x: f.rrelu(x),
    "rrelu in training": lambda f, x: f.rrelu(x, 0.1, 0.4, training=True),
    "elu": lambda f, x: f.elu(x, 0.7),
    "celu": lambda f, x: f.celu(x, 0.7),
    "selu": lambda f, x: f.selu(x),
    "gelu": lambda f, x: f.gelu(x),
    "gelu by tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "mish": lambda f, x: f.mish(x),
    "softplus": lambda f, x: f.softplus(x, 2, 3),
    "softsign": lambda f, x: f.softsign(x),
    "softmax": lambda f, x: f.softmax(x, 1, dtype=torch.float32),
    "log_softmax": lambda f, x: f.log_softmax(x, dim=0),
    "softmin": lambda f, x: f.softmin(x, dim=1),
    "hardtanh": lambda f, x: f.hardtanh(x, -0.5, 2.0),
    "hardswish": lambda f, x: f.hardswish(x),
    "hardsigmoid": lambda f, x: f.hardsigmoid(x),
    "hardshrink": lambda f, x: f.hardshrink(x, 0.25),
    "softshrink": lambda f, x: f.softshrink(x, 0.25),
    "tanhshrink": lambda f, x: f.tanhshrink(x),
    "logsigmoid": lambda f, x: f.logsigmoid(x),
    "glu": lambda f, x: f.glu(x, 1),
    "gumbel_softmax": lambda f, x: f.gumbel_softmax(x, 0.7),
    "hard gumbel_softmax": lambda f, x: f.gumbel_softmax(x, 0.7, hard=True, dim=0),
    "threshold": lambda f, x: f.threshold(x, 0.1, -2.0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functional_is_torchs(call: Callable[[Any, Any], Any]) -> None:
    both(lambda x: call(functional, x), lambda x: call(F, x))


@pytest.mark.parametrize("name", CALLS)
def test_torchs_own_function_records_our_op(name: str) -> None:
    both(lambda x: CALLS[name](F, x), lambda x: CALLS[name](F, x))


INPLACE = ["relu", "relu6", "elu", "celu", "selu", "leaky_relu", "rrelu", "silu", "mish", "hardtanh", "hardswish"]


@pytest.mark.parametrize("name", [*INPLACE, "hardsigmoid"])
def test_inplace_changes_the_input_and_has_the_gradient_of_the_row(name: str) -> None:
    def call(f: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            y = x * 1
            z = getattr(f, name)(y, inplace=True)
            assert z is y
            return z

        return run

    both(call(functional), call(F))


def test_inplace_is_the_last_argument_by_position_too() -> None:
    both(lambda x: functional.threshold(x * 1, 0.1, 2.0, True), lambda x: F.threshold(x * 1, 0.1, 2.0, True))
    both(lambda x: functional.elu(x * 1, 0.5, True), lambda x: F.elu(x * 1, 0.5, True))


@pytest.mark.parametrize("name", ["relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_", "rrelu_"])
def test_in_place_twins_are_torchs(name: str) -> None:
    both(lambda x: getattr(functional, name)(x * 1), lambda x: getattr(F, name)(x * 1))
    both(lambda x: getattr(F, name)(x * 1), lambda x: getattr(F, name)(x * 1))


def test_rrelu_in_place_draws_its_slopes_as_torch_does() -> None:
    def call(f: Any) -> Callable[[Any], Any]:
        return lambda x: f.rrelu(x * 1, 0.1, 0.4, training=True, inplace=True)

    both(call(functional), call(F))


@pytest.mark.parametrize("beta", [1.0, 2.5])
def test_swish_of_a_learned_beta(beta: float) -> None:
    x, b = tensor(X, requires_grad=True), tensor(torch.tensor(beta, dtype=torch.float64), requires_grad=True)
    y, c = X.clone().requires_grad_(), torch.tensor(beta, dtype=torch.float64, requires_grad=True)
    swish(x, b).sum().backward()
    (y * torch.sigmoid(c * y)).sum().backward()
    assert x.grad is not None
    assert b.grad is not None
    close(x.grad.data, y.grad, "input")
    close(b.grad.data, c.grad, "beta")


def test_gumbel_softmax_warns_of_eps_as_torch_does() -> None:
    with pytest.warns(UserWarning, match="eps"):
        functional.gumbel_softmax(tensor(X), eps=1e-3)


def test_prelu_learns_one_slope_for_each_channel() -> None:
    data = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    w, v = tensor(data, requires_grad=True), data.clone().requires_grad_()
    functional.prelu(tensor(X), w).sum().backward()
    F.prelu(X, v).sum().backward()
    assert w.grad is not None
    close(w.grad.data, v.grad, "slopes")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: functional.hardtanh(x, 1.0, -1.0), ValueError),
        (lambda x: functional.glu(x[0, 0]), RuntimeError),
        (lambda x: functional.glu(x[:, :3]), RuntimeError),
        (lambda x: functional.prelu(x, torch.ones(3, dtype=torch.float64)), RuntimeError),
        (lambda x: functional.softshrink(x, -1.0), RuntimeError),
        (lambda x: functional.gelu(x, approximate="erf"), RuntimeError),
    ],
)
def test_what_torch_refuses_is_refused(call: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(tensor(X))


def test_the_third_derivative_of_a_smooth_activation_is_torchs() -> None:
    for name in ("silu", "mish", "softplus", "gelu"):
        x, y = tensor(X, requires_grad=True), X.clone().requires_grad_()
        got, expected = getattr(functional, name)(x), getattr(F, name)(y)
        for _ in range(3):
            (got,) = nbgrad.grad(got.sum(), x, create_graph=True)
            (expected,) = torch.autograd.grad(expected.sum(), y, create_graph=True)
        close(got.data, expected.detach(), name)

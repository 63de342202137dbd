"""Arithmetic beyond its rows: operators, other names, functions made of rows, and what has no gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core import ops
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.lacking import case, lacks

VALUES = torch.tensor([[0.5, -1.5, 2.5], [3.0, 0.25, -2.0]], dtype=torch.float64)
OTHER = torch.tensor([[1.5, 2.0, -0.5]], dtype=torch.float64)
WHOLE = torch.tensor([[0, 1, 2], [5, 6, 7]])
Call = Callable[..., Any]


def both(call: Call, *data: torch.Tensor) -> tuple[Any, Any, list[Tensor], list[torch.Tensor]]:
    """The results of the same call in both libraries, and the arguments in both."""
    wanted = [d.is_floating_point() for d in data]
    ours = [tensor(d.clone(), requires_grad=w) for d, w in zip(data, wanted, strict=True)]
    theirs = [d.clone().requires_grad_(w) for d, w in zip(data, wanted, strict=True)]
    return call(*ours), call(*theirs), ours, theirs


def check(call: Call, *data: torch.Tensor) -> None:
    """Value, gradients and second-order gradients are torch's."""
    found, expected, ours, theirs = both(call, *data)
    assert isinstance(found, Tensor)
    rows.close(found.data, expected.detach(), "value")
    assert found.requires_grad == expected.requires_grad
    if not expected.requires_grad:
        return
    firsts = nbgrad.grad((found * found).sum(), ours, create_graph=True)
    wanted = torch.autograd.grad((expected * expected).sum(), theirs, create_graph=True)
    for mine, yours in zip(firsts, wanted, strict=True):
        rows.close(mine.data, yours.detach(), "gradient")
    if not any(first.requires_grad for first in firsts):
        return
    seconds = nbgrad.grad(sum((first * first).sum() for first in firsts), ours, allow_unused=True)
    wanted = torch.autograd.grad(sum((w * w).sum() for w in wanted), theirs, allow_unused=True)
    for mine, yours, x in zip(seconds, wanted, theirs, strict=True):
        zeros = torch.zeros_like(x)
        rows.close(zeros if mine is None else mine.data, zeros if yours is None else yours, "second-order gradient")


# Operators.


@pytest.mark.parametrize("other", [2, 1.5, np.float64(1.5), OTHER, OTHER.numpy()], ids=lambda o: type(o).__name__)
def test_remainders_and_floors_work_on_either_side(other: Any) -> None:
    same = torch.from_numpy(other) if isinstance(other, np.ndarray) else other
    same = same.item() if isinstance(same, np.generic) else same
    for call in (lambda x, o: x % o, lambda x, o: x // o, lambda x, o: o % x, lambda x, o: o // x):
        found = call(tensor(VALUES), other)
        assert type(found) is Tensor
        rows.close(found.data, call(VALUES, same), "value")


@pytest.mark.parametrize("other", [3, True, np.int64(3), WHOLE[1], WHOLE[1].numpy()], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("symbol", ["&", "|", "^", "<<", ">>"])
def test_bits_work_on_either_side(symbol: str, other: Any) -> None:
    same = torch.from_numpy(other) if isinstance(other, np.ndarray) else other
    same = same.item() if isinstance(same, np.generic) else same
    numpys = same is not other and symbol in {"<<", ">>"}  # numpy knows these under another name, and does not ask us
    for text in (f"x {symbol} other",) if numpys else (f"x {symbol} other", f"other {symbol} x"):
        found = eval(text, {"x": tensor(WHOLE), "other": other})
        assert type(found) is Tensor, text
        rows.close(found.data, eval(text, {"x": WHOLE, "other": same}), text)


def test_masks_are_joined_and_turned_round() -> None:
    x = tensor(VALUES)
    positive, small = x > 0, x.abs() < 1
    assert (positive & small).tolist() == [[True, False, False], [False, True, False]]
    assert (~positive | small).tolist() == [[True, True, False], [False, True, True]]
    assert (positive ^ small).tolist() == [[False, False, True], [True, False, False]]


@pytest.mark.parametrize("call", [lambda x: +x, lambda x: -x, abs], ids=["pos", "neg", "abs"])
def test_operators_of_one_operand(call: Call) -> None:
    check(call, VALUES)


def test_plus_of_a_bool_tensor_raises_as_torchs() -> None:
    for mask in (VALUES > 0, tensor(VALUES) > 0):
        with pytest.raises(RuntimeError, match="bool"):
            _ = +mask


@pytest.mark.parametrize(
    "statement",
    [
        *("x += y", "x -= y", "x *= y", "x /= y", "x **= 2", "x //= 2", "x %= y", "w &= 3", "w |= 8", "w ^= 5"),
        *("w <<= 1", "w >>= 1", "w //= 2", "w %= 3"),
    ],
)
def test_operators_that_change_their_left_side(statement: str) -> None:
    results = []
    for wrap in (tensor, torch.Tensor.clone):
        names: dict[str, Any] = {"x": wrap(VALUES.clone()), "y": wrap(OTHER), "w": wrap(WHOLE.clone())}
        before = names["x"], names["w"]
        exec(statement, names)
        assert names["x"] is before[0]
        assert names["w"] is before[1]
        results.append((names["x"].data, names["w"].data))
    rows.close(results[0][0], results[1][0], statement)
    rows.close(results[0][1], results[1][1], statement)


# Settings.


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha_scales_the_second_and_its_gradient(name: str) -> None:
    check(lambda x, y: getattr(x, name)(y, alpha=-2.5), VALUES, OTHER)
    check(lambda x, y: getattr(torch, name)(x, y, alpha=3), VALUES, OTHER)


def test_a_sum_with_a_constant_saves_nothing() -> None:
    x = tensor(VALUES, requires_grad=True)
    for y in (x + 1, x - 1, x + tensor(OTHER), nbgrad.add(x, tensor(OTHER), alpha=2)):
        assert y.grad_fn is not None
        assert y.grad_fn.saved == ()


def test_a_twin_keeps_the_settings_of_its_row() -> None:
    def change(x: Any, y: Any) -> Any:
        return (x * 1).add_(y, alpha=3).sub_(y, alpha=0.5).div_(2, rounding_mode=None).clamp_(-1, 2)

    check(change, VALUES, OTHER)


def test_a_quotient_with_an_unknown_mode_raises() -> None:
    with pytest.raises(RuntimeError, match=r"div.*rounding_mode"):
        nbgrad.div(tensor(VALUES), 2, rounding_mode="up")


def test_bounds_of_two_kinds_or_none_raise_as_torchs() -> None:
    x = tensor(VALUES)
    with pytest.raises(TypeError, match="clamp"):
        x.clamp(0, tensor(OTHER))
    with pytest.raises(RuntimeError, match="At least one of"):
        x.clamp()


# Functions made of rows.


@pytest.mark.parametrize(
    "call",
    [
        torch.square,
        lambda x: x.square(),
        lambda x: torch.rsub(x, 2, alpha=3),
        torch.special.ndtr,
        torch.positive,
        lambda x: torch.polygamma(1, x.abs() + 1),
        lambda x: (x.abs() + 1).polygamma(2),
        lambda x: torch.special.polygamma(n=0, input=x.abs() + 1),
        lambda x: (x * 1).square_(),
        lambda x: (x * 1).float_power_(2),
        lambda x: torch.float_power(x, 3),
        lambda x: torch.ldexp(x, WHOLE),
        lambda x: x.ldexp(x),
        case(lambda x: (x * 1).ldexp_(WHOLE), reason=lacks("ldexp_")),
    ],
)
def test_a_function_made_of_rows_is_torchs(call: Call) -> None:
    check(call, VALUES)


def test_float_power_computes_in_double() -> None:
    x = tensor(VALUES.float(), requires_grad=True)
    y = x.float_power(2)
    assert y.dtype is torch.float64
    y.sum().backward()
    assert x.grad is not None
    rows.close(x.grad.data, 2 * VALUES.float(), "gradient")
    with pytest.raises(RuntimeError, match="float32"):
        x.detach().float_power_(2)


SPECIAL = sorted(
    name for name in dir(torch.special) if getattr(ops, f"special_{name}", OPS.get(f"special_{name}")) is not None
)


@pytest.mark.parametrize("name", SPECIAL)
def test_torch_special_records_our_ops(name: str) -> None:
    values = torch.tensor([0.2, 0.5, 0.8], dtype=torch.float64)
    function = getattr(torch.special, name)
    if name in {"polygamma", "multigammaln"}:
        check({"polygamma": lambda x: function(1, x), "multigammaln": lambda x: function(x + 2, 2)}[name], values)
    elif name in {"gammainc", "gammaincc", "zeta"}:
        check(lambda x: function(values + 2, x), values)
    elif name in {"softmax", "log_softmax", "logsumexp"}:
        check(lambda x: function(x, 0), values)
    elif name in {"xlogy", "xlog1py"}:
        check(function, values, values.flip(0))
    else:
        check(function, values)


def test_no_special_function_with_a_gradient_is_missing() -> None:
    missing = set()
    for name in dir(torch.special):
        if name in SPECIAL or not getattr(getattr(torch.special, name), "__name__", "").startswith("special_"):
            continue
        x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
        try:
            getattr(torch.special, name)(x).sum().backward()
        except (TypeError, RuntimeError, IndexError):  # it takes two inputs, or has no gradient
            continue
        missing.add(name)
    assert not missing


# Other names.


def aliases() -> list[str]:
    """The names in the op table's package that are another name of a row."""
    return [name for name, value in vars(ops).items() if isinstance(value, Op) and value.name != name]


def test_another_name_is_the_same_row_and_the_same_methods() -> None:
    assert {"absolute", "arctan2", "clip", "divide", "fix", "special_gammaln"} <= set(aliases())
    x = tensor(VALUES.abs() / 4)
    rows.close(x.arcsin().data, x.asin().data, "arcsin")
    rows.close(x.clone().negative_().data, -VALUES.abs() / 4, "negative_")
    for name in aliases():
        for method in (name, f"{name}_"):
            assert hasattr(Tensor, method) or not hasattr(torch.Tensor, method), method


@pytest.mark.parametrize("name", ["arccos", "arctan", "absolute", "fix"])
def test_torchs_other_names_record_our_rows(name: str) -> None:
    x = tensor(VALUES / 4, requires_grad=True)
    for found in (getattr(torch, name)(x), getattr(x, name)()):
        assert found.grad_fn is not None
        rows.close(found.data, getattr(torch, name)(VALUES / 4), name)


# Ops without a gradient.


@pytest.mark.parametrize(
    "change",
    [lambda y: y.gt_(0), lambda y: y.eq_(2.5), lambda y: y.logical_not_(), lambda y: y.round_(), lambda y: y.sign_()],
)
def test_what_was_overwritten_by_a_step_gets_the_gradient_0(change: Call) -> None:
    check(lambda x: change(x * 2) * x, VALUES)


def test_steps_have_a_gradient_of_0_and_comparisons_none() -> None:
    x = tensor(VALUES, requires_grad=True)
    (gradient,) = nbgrad.grad(x.floor().sum(), x)
    assert gradient.tolist() == [[0.0] * 3] * 2
    for made in (x > 0, x.isnan(), x.logical_not(), x // 2, x.heaviside(tensor(OTHER)), x.isclose(x)):
        assert not made.requires_grad


def test_the_order_of_zeta_and_the_shape_of_the_incomplete_gamma_functions_have_no_gradient() -> None:
    x = tensor([2.5], requires_grad=True)
    for call in (torch.special.zeta, torch.igamma, torch.igammac):
        with pytest.raises(NotImplementedError, match="no gradient rule for 'input'"):
            call(x, 2.0 if call is torch.special.zeta else torch.tensor([2.0]))


def test_questions_about_two_tensors_are_answered_with_a_bool() -> None:
    x, y = tensor(VALUES), tensor(VALUES + 1e-9)
    for lib in (nbgrad, torch):
        assert lib.allclose(x, y) is True
        assert lib.allclose(x, y, rtol=0, atol=1e-12) is False
        assert lib.equal(x, y) is False
        assert lib.equal(x, tensor(VALUES)) is True
    assert x.allclose(y) is True
    assert x.equal(y) is False
    nan = tensor([float("nan")])
    assert nan.allclose(nan, equal_nan=True) is True
    assert nan.equal(nan) is False

"""A forward that only calls a function of torch is that function, a rule that only multiplies the operator."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbgrad.core.backend.aten import Kernels
from nbgrad.core.backend.autocast import may_cast
from nbgrad.core.backend.direct import direct, direct_rule
from nbgrad.core.dispatch.table import OPS, Op
from tests.core import rows


def plain(a, b):  # type: ignore[no-untyped-def]  # as the forwards of rows are
    """With a docstring, as a row has."""
    return torch.mul(a, b)


def with_a_setting(a, b, *, alpha=1):  # type: ignore[no-untyped-def]
    return torch.add(a, b, alpha=alpha)


def dotted(A):  # type: ignore[no-untyped-def]  # noqa: N803
    return torch.linalg.inv(A)


def by_position(x, *, dim=None, keepdim=False, dtype=None):  # type: ignore[no-untyped-def]
    return torch.sum(x, dim, keepdim, dtype=dtype)


@pytest.mark.parametrize(
    ("forward", "function"),
    [(plain, torch.mul), (with_a_setting, torch.add), (dotted, torch.linalg.inv), (by_position, torch.sum)],
)
def test_the_function_of_torch_is_found(forward: Callable[..., Any], function: Callable[..., Any]) -> None:
    assert direct(forward) is function


def swapped(a, b):  # type: ignore[no-untyped-def]
    return torch.sub(b, a)


def more(a, b):  # type: ignore[no-untyped-def]
    return torch.mul(a, b) * 2


def constant(a):  # type: ignore[no-untyped-def]
    return torch.mul(a, 2)


def another_setting(a, b, *, alpha=1):  # type: ignore[no-untyped-def]
    return torch.add(a, b, alpha=2)


def unused(a, b):  # type: ignore[no-untyped-def]
    return torch.exp(a)


def checked(a):  # type: ignore[no-untyped-def]
    if a.ndim == 0:
        raise ValueError
    return torch.exp(a)


def required(x, *, dim):  # type: ignore[no-untyped-def]
    return torch.unsqueeze(x, dim)


def reordered(x, *, dim=None, keepdim=False):  # type: ignore[no-untyped-def]
    return torch.sum(x, keepdim, dim)


def variadic(*tensors):  # type: ignore[no-untyped-def]
    return torch.cat(tensors)


@pytest.mark.parametrize(
    "forward",
    [swapped, more, constant, another_setting, unused, checked, required, reordered, variadic, len],
)
def test_a_forward_that_does_anything_else_stays_itself(forward: Callable[..., Any]) -> None:
    assert direct(forward) is forward


FOUND = [row for row in OPS.values() if direct(row.forward) is not row.forward]


def test_it_is_found_for_many_rows() -> None:
    assert len(FOUND) > 100


@pytest.mark.parametrize("row", FOUND, ids=[row.name for row in FOUND])
def test_it_does_what_the_forward_does_without_settings(row: Op) -> None:
    kernel = direct(row.forward)
    given = [sample.args for sample in rows.samples(row) if not sample.settings]
    for args in given or [next(rows.samples(row)).args]:
        torch.testing.assert_close(kernel(*args), row.forward(*args), rtol=0, atol=0, equal_nan=True)


def test_autocast_is_not_asked_about_for_kernels_without_a_policy_alone() -> None:
    assert [may_cast(kernel) for kernel in (torch.mul, torch.add, torch.tanh, torch.special.erfcx)] == [False] * 4
    # A policy on some device, a function made of others, one of the user's, and a part of torch that is no kernel.
    others = (torch.mm, torch.exp, torch.nn.functional.linear, torch.square, lambda x: x, torch.nn.Linear(1, 1))
    assert all(map(may_cast, others))


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        (lambda g: g, None),
        (lambda gradient: gradient, None),
        (lambda g: -g, operator.neg),
        (lambda g, b: g * b, operator.mul),
        (lambda g, b: g / b, operator.truediv),
    ],
)
def test_the_operator_of_a_rule_is_found(rule: Callable[..., Any], function: Callable[..., Any] | None) -> None:
    assert direct_rule(rule) is function


@pytest.mark.parametrize(
    "rule", [lambda g, b: b, lambda g, b: b * g, lambda g, b: g * g, lambda g, b: -(g * b), lambda g: g * 2, len]
)
def test_any_other_rule_stays_itself(rule: Callable[..., Any]) -> None:
    assert direct_rule(rule) is rule


def test_a_kernel_is_torchs_own_function_where_there_is_one() -> None:
    kernels = Kernels()
    assert kernels.max_pool2d_with_indices is torch._C._nn.max_pool2d_with_indices
    assert kernels.constant_pad_nd is torch.constant_pad_nd
    assert kernels.index_put is not torch.index_put, "which takes no None among the indices"
    assert not hasattr(torch, "threshold_backward")
    g, x = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 1.0])
    assert kernels.threshold_backward(g, x, 0).tolist() == [0.0, 2.0]
    assert "threshold_backward" in vars(kernels), "it is looked up once"

"""A forward that only calls a function of torch is that function, a rule that only multiplies the operator."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nbgrad.core.direct import direct, direct_rule
from nbgrad.core.op import OPS


def plain(a, b):  # type: ignore[no-untyped-def]  # as the forwards of rows are
    """With a docstring, as a row has."""
    return torch.mul(a, b)


def with_a_setting(a, b, *, alpha=1):  # type: ignore[no-untyped-def]
    return torch.add(a, b, alpha=alpha)


def dotted(A):  # type: ignore[no-untyped-def]  # noqa: N803
    return torch.linalg.inv(A)


@pytest.mark.parametrize(
    ("forward", "function"), [(plain, torch.mul), (with_a_setting, torch.add), (dotted, torch.linalg.inv)]
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


def variadic(*tensors):  # type: ignore[no-untyped-def]
    return torch.cat(tensors)


@pytest.mark.parametrize("forward", [swapped, more, constant, another_setting, unused, checked, variadic, len])
def test_a_forward_that_does_anything_else_stays_itself(forward: Callable[..., Any]) -> None:
    assert direct(forward) is forward


def test_it_is_found_for_rows_and_only_where_calls_without_settings_are_the_same() -> None:
    found = [row for row in OPS.values() if direct(row.forward) is not row.forward]
    assert len(found) > 100
    for row in found:
        assert not row.required, f"{row.name} cannot be called without settings"


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

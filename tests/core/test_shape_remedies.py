"""Shapes that do not fit: the error suggests what to write, and the suggestion runs."""

import re
from typing import Any

import pytest

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.shape_remedies import _rule, shape_remedy

NAMES: dict[str, Any] = {
    "nbgrad": nbgrad,
    "a": nbgrad.ones(3, 4),
    "b": nbgrad.ones(3, 4),
    "turned": nbgrad.ones(4, 3),
    "v": nbgrad.ones(3),
    "u": nbgrad.ones(2),
    "batch": nbgrad.ones(5, 3, 4),
    "flat": nbgrad.ones(12),
    "number": nbgrad.tensor(2.0),
}

CASES = [
    ("v + u", "here 3 and 2 meet in dimension -1", ["v.unsqueeze(1) + u"]),
    ("a + v", "here 4 and 3 meet in dimension -1. Write v.unsqueeze(1), of shape (3, 1)", ["a + v.unsqueeze(1)"]),
    ("a * turned", "Write turned.T, of shape (3, 4)", ["a * turned.T"]),
    ("a - flat", "Write flat.reshape(3, 4), of shape (3, 4)", ["a - flat.reshape(3, 4)"]),
    ("v > u", "here 3 and 2 meet", ["v.unsqueeze(1) > u"]),
    (
        "a @ b",
        "The number of columns of the first, 4, has to be the number of rows of the second, 3: a @ b.T gives shape "
        "(3, 3), or a.T @ b gives shape (4, 4), or a * b multiplies element by element",
        ["a @ b.T", "a.T @ b", "a * b"],
    ),
    ("nbgrad.mm(a, b)", "a @ b.T gives shape (3, 3)", ["a @ b.T"]),
    ("a @ v", "has to be the size of the second, 3: a.T @ v gives shape (4,), or v @ a gives shape (4,)", ["v @ a"]),
    ("a @ u", "The number of columns of the first, 4, has to be the size of the second, 2", []),
    ("batch @ batch", "batch @ batch.mT gives shape (5, 3, 3)", ["batch @ batch.mT"]),
    ("a @ number", "A tensor without dimensions is a factor: write a * number", ["a * number"]),
    ("nbgrad.dot(v, u)", "The size of the first, 3, has to be the size of the second, 2", []),
    (
        "nbgrad.nn.functional.linear(v, a)",
        "in_features, 4, has to be the last size of the input, 3: write a.T",
        ["nbgrad.nn.functional.linear(v, a.T)"],
    ),
    ("a.view(5, 2)", "The tensor has 12 elements, and this shape 10", []),
    ("a.view(5, -1)", "12 elements are not divisible by 5", []),
    ("nbgrad.cat([a, a[:, :2]])", "write dim=1", ["nbgrad.cat([a, a[:, :2]], dim=1)"]),
    ("a.add_(turned)", "Write turned.T, of shape (3, 4)", ["a.add_(turned.T)"]),
]


@pytest.mark.parametrize(("code", "expected", "remedies"), CASES, ids=[code for code, *_ in CASES])
def test_the_message_says_what_to_write_and_that_runs(code: str, expected: str, remedies: list[str]) -> None:
    with pytest.raises(RuntimeError, match=re.escape(expected)):
        eval(code, NAMES, dict(NAMES))
    for remedy in remedies:
        eval(remedy, NAMES)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("op", ["addcmul", "addcdiv", "lerp", "where", "clamp"])
def test_the_two_operands_of_three_that_do_not_fit_are_named(op: str, position: int) -> None:
    operands = [nbgrad.ones(3), nbgrad.ones(3), nbgrad.ones(3)]
    operands[position] = nbgrad.ones(2)
    if op == "where":
        operands[0] = operands[0] > 0
    with pytest.raises(RuntimeError, match=r"here (2 and 3|3 and 2) meet in dimension -1") as raised:
        getattr(nbgrad, op)(*operands)
    assert "every pair" not in str(raised.value), "the third operand would not fit"


def test_an_in_place_op_is_given_no_remedy_that_would_change_its_shape() -> None:
    v = nbgrad.ones(3)
    with pytest.raises(RuntimeError) as raised:
        v += nbgrad.ones(3, 2)
    assert "Write" not in str(raised.value)


def test_the_rule_names_the_first_dimension_from_the_end_that_does_not_fit() -> None:
    assert _rule((2, 3, 4), (5, 3, 4)).endswith("here 2 and 5 meet in dimension -3")
    assert _rule((7, 1, 4), (3, 2)).endswith("here 4 and 2 meet in dimension -1")


def test_another_message_has_no_remedy_about_shapes() -> None:
    assert shape_remedy(OPS["add"], "something else", []) == ""
    assert shape_remedy(OPS["matmul"], "expected both to be of one dtype", [("a", nbgrad.ones(2).data)] * 2) == ""

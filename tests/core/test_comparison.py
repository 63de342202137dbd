"""How numbers differ: each usual wrong answer gets its reason, and the message never shows the right number."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.tensor.comparison import NoNumbers, difference, numbers_of
from nbgrad.lab import lesson_04
from nbgrad.testing import assert_close

RIGHT = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
SQUARE = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.5]])


def _yields() -> Iterator[float]:
    yield 1.0


FORMS = {
    "a tensor": lambda: nbgrad.tensor(RIGHT),
    "one that learns": lambda: nbgrad.tensor(RIGHT, requires_grad=True),
    "a result": lambda: nbgrad.tensor(RIGHT, requires_grad=True) * 1,
    "torch's": lambda: RIGHT,
    "of float64": RIGHT.double,
    "of float16": RIGHT.half,
    "an array": RIGHT.numpy,
    "a list": RIGHT.tolist,
    "a tuple of lists": lambda: tuple(RIGHT.tolist()),
    "a list of tensors": lambda: [nbgrad.tensor(row) for row in RIGHT],
    "three digits": (RIGHT + 5e-4).tolist,
}

WRONG: list[tuple[Any, Any, str, str]] = [
    (-RIGHT, RIGHT, "sign", "the sign of every element is wrong"),
    (RIGHT * torch.tensor([1, -1, 1]), RIGHT, "sign", "the sign of 2 of 6 elements is wrong"),
    (2 * RIGHT, RIGHT, "factor", "a factor 2 is too many"),
    (RIGHT / 2, RIGHT, "factor", "a factor 2 is missing"),
    (-2 * RIGHT, RIGHT, "factor", "the sign is wrong, and a factor 2 is too many"),
    (6 * RIGHT, RIGHT, "factor", "every element is n = 6 times too large, as if a mean were a sum"),
    (RIGHT / 3, RIGHT, "factor", "every element is n = 3 times too small, as if a sum were a mean"),
    (0.7 * RIGHT, RIGHT, "factor", "every element is 0.7 times what it has to be"),
    (RIGHT.T, RIGHT, "transposed", "it is transposed: it has shape (3, 2), and (2, 3) is expected"),
    (SQUARE.T, SQUARE, "transposed", "rows and columns have changed places"),
    (RIGHT[0], RIGHT, "row", "this is only row 0"),
    (2.0, RIGHT[0], "row", "this is only element 1"),
    (SQUARE[1:], SQUARE, "shape", "the first element is missing, all others are right"),
    (RIGHT[:, :2], RIGHT, "shape", "the last element is missing, all others are right"),
    (RIGHT.flatten(), RIGHT, "shape", "the numbers are right, but it has shape (6,)"),
    (RIGHT.sum(0), RIGHT, "shape", "a sum over a dimension is too many"),
    (RIGHT, RIGHT.sum(0), "shape", "a sum over a dimension is missing"),
    (RIGHT, RIGHT.mean(1, keepdim=True), "shape", "a mean over a dimension is missing"),
    (RIGHT, RIGHT.sum(), "shape", "a sum over dimensions is missing"),
    (3.0, RIGHT, "shape", "it is one number, and one for each element is expected"),
    (torch.ones(4, 4), RIGHT, "shape", "it has shape (4, 4), and (2, 3) is expected"),
    (torch.ones(2, 4), RIGHT, "shape", "it has shape (2, 4), and (2, 3) is expected"),
    (RIGHT.roll(1, 1), RIGHT, "shifted", "one place off"),
    (RIGHT.flip(0), RIGHT, "order", "the right numbers in another order"),
    (RIGHT + 1, RIGHT, "offset", "too large by the same amount"),
    (RIGHT + torch.tensor([[0.0], [3.0]]) * RIGHT, RIGHT, "row", "row 1 is wrong, all others are right"),
    (RIGHT * torch.tensor([1.0, 1.0, 9.0]), RIGHT, "row", "column 2 is wrong, all others are right"),
    (SQUARE * torch.tensor([[1.0], [3.0], [4.0]]), SQUARE, "row", "row 0 alone is right"),
    (
        RIGHT.where(RIGHT < 6, torch.tensor(9.0)),
        RIGHT,
        "element",
        "the element at [1, 2] is wrong, all others are right",
    ),
    (RIGHT.int(), RIGHT, "dtype", "these are whole numbers: what comes after the point is lost"),
    (RIGHT > 2, RIGHT, "dtype", "it is of type bool, where numbers are expected"),
    (1.0, torch.tensor(True), "dtype", "where True or False is expected"),
    (RIGHT + 1j, RIGHT, "dtype", "it is complex"),
    (RIGHT / 0 * 0, RIGHT, "not finite", "NaN, where a finite number is expected"),
    (float("inf"), 2.0, "not finite", "it is Inf"),
    (0 * RIGHT, RIGHT, "zero", "every element is 0"),
    (RIGHT * 1.01, RIGHT, "rounding", "nearly right: write more digits, or look for a small slip"),
    (RIGHT * RIGHT, RIGHT, "numbers", "1 of 6 elements is right. At [0, 1] its size is too large, by a factor between"),
    (
        RIGHT - torch.tensor([[5.0, 9.0, 0.0], [0.0, 9.0, 9.0]]),
        RIGHT,
        "numbers",
        "At [0, 0] the sign is wrong, and its size is too large, by a factor between 2 and 10",
    ),
    (RIGHT * torch.tensor([[-1.0, 2.0, 1.0], [1.0, 0.0, 5.0]]), RIGHT, "numbers", "right. At [0, 0] the sign is wrong"),
    (RIGHT * torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), RIGHT, "numbers", "2 of 6 elements are right"),
    (RIGHT.add(1j) * RIGHT, RIGHT + 1j, "numbers", "1 of 6 elements is right"),
    ([[1.0, 2.0], [3.0]], RIGHT, "type", "its parts have different shapes: (2,), (1,)"),
    (None, RIGHT, "type", "it is None, where numbers are expected: a function, or a cell, that ends without a value"),
    ("b * f", RIGHT, "type", "it is the text 'b * f', where numbers are expected: write them without quotes"),
    (["1.5", "2"], RIGHT[0, :2], "type", "it is the text '1.5', where numbers are expected"),
    ([2.0], 2.0, "shape", "the number is right, but it stands in a list: give it alone"),
    ((1.0, 2.1), 2.0, "shape", "it is a tuple of 2, where one number is expected"),
    (
        (one for one in RIGHT),
        RIGHT,
        "type",
        "it is a generator, where numbers are expected: write it in square brackets",
    ),
    (_yields(), RIGHT, "type", "it is a generator, where numbers are expected: write return in the place of yield"),
    (7, 7.389, "dtype", "it is a whole number: what comes after the point is lost, as by rounding or //"),
    (0, 0.7, "zero", "it is 0, which is not right"),
    (len, RIGHT, "type", "it is a builtin_function_or_method, where numbers are expected"),
    (Fraction(1, 2), 0.25, "factor", "a factor 2 is too many"),
    (Decimal(-2), 2.0, "sign", "the sign is wrong"),
    ((0.0, 2.0), 2.0, "shape", "the right number is among these, but one number is expected"),
    ((1e-30, 2.0), (3.0, 2.0), "element", "the element at [0] is wrong"),
    ([1e-30, 1e-29, 5.0], [3.0, 2.0, 4.0], "numbers", "too small, by a factor of 1,000,000 or more"),
    (Fraction(1, 2), 1.5, "factor", "its size is too small, by a factor between 2 and 10"),
    (-2.0, 2.0, "sign", "the sign is wrong"),
    (3.0, 0.0, "numbers", "it is wrong by more than its sign or a factor 2"),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_right_answer_is_right_in_every_form(form: str) -> None:
    assert difference(FORMS[form](), RIGHT) is None


@pytest.mark.parametrize(
    "right", [3, 3.0, np.float32(3), np.array(3), nbgrad.tensor(3.0), True + 2, Fraction(3), Decimal(3)]
)
def test_a_number_is_right_in_every_form(right: Any) -> None:
    assert difference(right, 3.0) is None


@pytest.mark.parametrize(("answer", "right", "kind", "text"), WRONG)
def test_a_wrong_answer_is_told_how_it_is_wrong(answer: Any, right: Any, kind: str, text: str) -> None:
    found = difference(answer, right)
    assert found is not None
    assert found.kind == kind
    assert text in str(found)


RANGES = [
    ("its size is too large, by less than a tenth", (1.03, 1.05, 1.09)),
    ("its size is too large, by a factor below 2", (1.2, 1.5, 1.9)),
    ("its size is too small, by a factor between 2 and 10", (0.4, 1 / 3, 0.11)),
    ("its size is too large, by a factor of 10 or more", (11.0, 99.0)),
    ("its size is too small, by a factor of 1,000 or more", (1 / 1001, 1 / 9000)),
]


@pytest.mark.parametrize("right", [8.0, -8.0])
@pytest.mark.parametrize(("text", "factors"), RANGES)
def test_of_a_single_number_no_factor_is_told_but_about_how_large_it_is(
    text: str, factors: tuple[float, ...], right: float
) -> None:
    for factor in factors:
        assert str(difference(factor * right, right)) == text
        assert str(difference(-factor * right, right)) == f"the sign is wrong, and {text}"


def test_an_array_of_texts_and_an_empty_list() -> None:
    with pytest.raises(NoNumbers, match="holds no numbers"):
        numbers_of(np.array(["a"]))
    assert difference([], torch.zeros(0)) is None
    assert difference([], RIGHT) is not None


@pytest.mark.parametrize("actual", [RIGHT, RIGHT.numpy(), RIGHT.tolist(), RIGHT.double(), nbgrad.tensor(RIGHT)])
@pytest.mark.parametrize("expected", [RIGHT, RIGHT.numpy(), RIGHT.tolist(), RIGHT.half(), nbgrad.tensor(RIGHT)])
def test_assert_close_and_allclose_take_what_holds_numbers(actual: Any, expected: Any) -> None:
    assert_close(actual, expected)
    assert nbgrad.allclose(actual, expected)
    assert not nbgrad.allclose(actual, nbgrad.tensor(RIGHT) + 1)


def test_assert_close_says_by_how_much() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_close(nbgrad.tensor([1.0, 2.0]), [1.0, 2.5])
    assert str(raised.value).splitlines() == [
        "assert_close: 1 of 2 elements differ",
        "  worst at          [1]",
        "  actual            2",
        "  expected          2.5",
        "  difference        0.5 (0.2 of the expected)",
        "  allowed           1e-05 + 1.3e-06 * |expected|",
        "  probable cause    the element at [1] is wrong, all others are right",
    ]


def test_assert_close_has_the_limits_of_torch() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        for gap in (1e-8, 1e-6, 5e-6, 2e-5, 1e-3, 5e-3, 2e-2):
            a, b = torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype) + gap
            try:
                torch.testing.assert_close(a, b)
            except AssertionError:
                with pytest.raises(AssertionError, match="elements differ"):
                    assert_close(nbgrad.tensor(a), b)
            else:
                assert_close(nbgrad.tensor(a), b)


def test_assert_close_of_dicts_shapes_types_and_messages() -> None:
    assert_close({"w": nbgrad.ones(2)}, {"w": [1, 1]})
    with pytest.raises(AssertionError, match="at key            'w'"):
        assert_close({"w": 1.0}, {"w": 2.0})
    with pytest.raises(AssertionError, match=r"the keys differ: \['b'\] are missing, \['a'\] are too many"):
        assert_close({"a": 1.0}, {"b": 1.0})
    with pytest.raises(AssertionError, match="the numbers are right, but it has shape"):
        assert_close(nbgrad.ones(2), nbgrad.ones(2, 1))
    with pytest.raises(AssertionError, match="actual is of type float32, expected of float64"):
        assert_close(nbgrad.ones(2), torch.ones(2).double(), check_dtype=True)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1.0, 2.0, msg="mine")
    with pytest.raises(TypeError, match="assert_close: expected: it is None"):
        assert_close(1.0, None)
    with pytest.raises(ValueError, match="give both rtol and atol, or neither"):
        assert_close(1.0, 1.0, rtol=0.1)
    assert_close([float("nan"), 1.0], [float("nan"), 1.0], equal_nan=True)
    with pytest.raises(AssertionError, match="NaN"):
        assert_close([float("nan"), 1.0], [2.0, 1.0])


def test_allclose_broadcasts_as_torch_does_and_refuses_what_holds_no_numbers() -> None:
    assert nbgrad.allclose(nbgrad.ones(2, 3), nbgrad.ones(3))
    assert nbgrad.ones(2).allclose([1, 1])
    with pytest.raises(TypeError, match="it is None"):
        nbgrad.allclose(nbgrad.ones(2), None)


@pytest.mark.parametrize("answer", ["[" * 100_000, "[" * 150 + "]" * 150, "-" * 100_000 + "1", "9" * 5_000, "{[]: 1}"])
def test_a_text_that_cannot_be_read_is_no_answer(answer: str) -> None:
    with pytest.raises(NoNumbers, match=r"it is the text "):
        numbers_of(answer)
    assert lesson_04._dims(answer) is None


def test_lists_without_an_end_are_no_answer() -> None:
    answer: list[Any] = []
    answer.append(answer)
    with pytest.raises(NoNumbers, match="its lists are nested more than 30 deep"):
        numbers_of(answer)

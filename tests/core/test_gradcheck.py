"""gradcheck and gradgradcheck: what passes, what fails, and whether the message names the cause."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.diagnose.gradcheck import GradcheckError, gradcheck, gradgradcheck
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library

MakeRow = Callable[..., Op]


@pytest.fixture
def row() -> Iterator[MakeRow]:
    """Makes rows with the given forward and rules, and removes them from the table afterwards."""
    made: list[str] = []

    def make(name: str, forward: Callable[..., Any], *, broadcasts: bool = False, **rules: Callable[..., Any]) -> Op:
        new = op(formula="", name=name, samples=unary, broadcasts=broadcasts, method=False)(forward)
        made.append(name)
        for name_of_input, rule in rules.items():
            new.rule(name_of_input, "")(rule)
        return new

    yield make
    for name in made:
        OPS.pop(name)


def leaf(*values: Any) -> Tensor:
    return OURS.leaf(*values)


def x3() -> Tensor:
    return leaf(0.5, 1.2, -2.0)


def cubed(x: Any) -> Any:
    return x**3


def failure(check: Callable[..., bool], func: Callable[..., Any], inputs: Any, **settings: Any) -> str:
    """The message of the check's error, on one line. With raise_exception=False it must return False."""
    assert check(func, inputs, raise_exception=False, **settings) is False
    with pytest.raises(GradcheckError) as caught:
        check(func, inputs, **settings)
    return " ".join(str(caught.value).split())


# Right gradients pass.


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    ("func", "inputs"),
    [
        (lambda x: x.exp().sum(), [leaf(0.5, -1.0)]),
        (lambda x, y: x @ y, [leaf([[1.0, 2.0], [3.0, 4.0], [0.5, 1.0]]), leaf([[0.5], [2.0]])]),
        (lambda x, y: (x * y, (x + y).tanh()), [leaf([[1.0, 2.0]]), leaf([[0.5], [2.0]])]),
        (lambda x, y: [x.exp(), y * 2], [leaf(1.0), leaf(2.0)]),
        (lambda x, i: x[i] ** 3, [leaf(1.0, 2.0, 3.0), tensor([0, 2, 2])]),
        (lambda x, y: x * y, [leaf(1.0, 2.0), OURS.constant(3.0, 4.0)]),
        (lambda x, power: x**power, [leaf(1.0, 2.0), 3]),
        (lambda x: x * 2, [leaf(1.0, 2.0)]),
        (lambda x: x.T.clone() if hasattr(x, "T") else x.transpose(0, 1) * 1, [leaf([[1.0, 2.0]])]),
        (lambda x: nbgrad.max(x, 1), [leaf([[1.0, 2.0], [5.0, 3.0]])]),
        (lambda x: x.exp(), [leaf(1.0).reshape(1, 1)]),
        (nbgrad.exp, [leaf(1.0, 2.0)]),
        (lambda x: x.sum(), [tensor(torch.zeros(0, 3, dtype=torch.float64), requires_grad=True)]),
    ],
)
def test_what_is_right_passes(check: Callable[..., bool], func: Callable[..., Any], inputs: list[Any]) -> None:
    before = [part.data.clone() if isinstance(part, Tensor) else part for part in inputs]
    assert check(func, tuple(inputs)) is True
    for part, value in zip(inputs, before, strict=True):
        if isinstance(part, Tensor):
            assert torch.equal(part.data, value), "an input was not put back"
            assert part.is_leaf is False or part.grad is None


def test_a_single_input_needs_no_tuple() -> None:
    assert gradcheck(cubed, x3())
    assert gradgradcheck(cubed, x3(), OURS.leaf(1.0, -1.0, 0.5))


CONSTRAINED = {
    "affine_grid_backward": "its samples are too large for differences",
    "linalg_cholesky": "it reads half of a symmetric matrix, of which differences move one element alone",
    "linalg_cholesky_ex": "it reads half of a symmetric matrix, of which differences move one element alone",
    "cholesky_inverse": "it reads half of a matrix",
    "cholesky_solve": "it reads half of a matrix",
    "linalg_eigh": "it reads half of a symmetric matrix, of which differences move one element alone",
    "logit_backward": "its first sample is at a bound",
    "bernoulli": "it draws: differences see other numbers, and no probability may leave 0 to 1",
    "normal": "it draws: differences see other numbers, and no width may be negative",
}
"""Rows that gradcheck's finite differences do not fit, and why. Other tests compare these rows with torch."""


def checkable(row: Op) -> Sample | None:
    """The first sample whose inputs and outputs are real, small, and can change freely."""
    if row.name in CONSTRAINED or not row.differentiable or row.arity < 0:
        return None
    for sample in rows.samples(row):
        small = all(
            isinstance(arg, torch.Tensor) and 1 <= arg.numel() < 20 and arg.is_floating_point() for arg in sample.args
        )
        if small and len(rows.differentiable(row, sample)) == len(row.inputs) == len(sample.args):
            results = rows.parts(row.forward(*sample.args, **{**row.defaults, **sample.settings}))
            return None if any(out.is_complex() for out in results) else sample
    return None


SAMPLES = {name: sample for name, row in OPS.items() if (sample := checkable(row)) is not None}


def test_most_rows_are_checked_so() -> None:
    assert len(SAMPLES) > 150


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_row_passes_on_torch_tensors_without_a_wrapper(name: str) -> None:
    row, sample = OPS[name], SAMPLES[name]
    if sample.settings:
        args = tuple(arg.clone().requires_grad_() for arg in sample.args)
        assert gradcheck(lambda *args: row(*args, **sample.settings), args, rtol=1e-4)
        return
    assert gradcheck(row, sample.args, rtol=1e-4)
    assert gradgradcheck(row, sample.args, rtol=1e-4)


def z3() -> Tensor:
    return tensor([0.5 + 1.0j, -1.2 + 0.3j, 0.7 - 2.0j], dtype=torch.complex128, requires_grad=True)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    ("func", "inputs"),
    [
        (lambda z: z * z, [z3()]),
        (lambda z: z.abs(), [z3()]),
        (lambda z: z.real * z.imag, [z3()]),
        (lambda z: z.conj() * z, [z3()]),
        (nbgrad.angle, [z3()]),
        (lambda z: (z.exp(), z.sum().abs()), [z3()]),
        (lambda z, x: z * x, [z3(), x3()]),
        (lambda x: nbgrad.complex(x, x * x), [x3()]),
        (nbgrad.fft.fft, [x3()]),
        (nbgrad.fft.irfft, [z3()]),
        (lambda z: nbgrad.view_as_real(z) ** 2, [z3()]),
        (lambda z: z.reshape(1, 3) @ z.reshape(3, 1), [z3()]),
        (nbgrad.exp, [z3()]),
        (lambda z: z.sin(), [z3().conj()]),
    ],
)
def test_complex_functions_that_are_right_pass(
    check: Callable[..., bool], func: Callable[..., Any], inputs: list[Any]
) -> None:
    before = [one.data.clone() for one in inputs]
    assert check(func, tuple(inputs)) is True
    assert all(torch.equal(one.data, value) for one, value in zip(inputs, before, strict=True))


def test_single_precision_of_complex_numbers_is_checked_on_copies() -> None:
    z = tensor([0.5 + 1.0j, 2.0], requires_grad=True)
    assert z.dtype is torch.complex64
    assert gradcheck(lambda z: z**3, z)
    said = failure(gradcheck, lambda z: z.to(torch.complex64) ** 3, z3())
    assert "computes in complex64, too coarse for differences: use complex128 throughout" in said


def test_a_rule_that_takes_the_wrong_one_of_two_conjugates_is_found_and_said(row: MakeRow) -> None:
    unkept = row("unkept", lambda x: x * x, x=lambda g, x: g * 2 * x)
    unkept.holomorphic = False  # now the rule itself would have to conjugate, and it does not
    said = failure(gradcheck, unkept, z3())
    assert "op unkept" in said
    assert "a conjugate is missing, or is one too many" in said
    assert "part of [0] of the output" in said or "part of [1] of the output" in said or "part of [2]" in said


def test_a_wrong_factor_of_a_complex_rule_is_found_and_said(row: MakeRow) -> None:
    halved = row("halved", lambda x: x * x, x=lambda g, x: g * x)
    assert gradcheck(lambda x: halved(x) * 0 + x, x3())
    said = failure(gradcheck, lambda z: halved(z).exp(), z3())
    assert "op halved" in said
    assert "a factor 2 is missing in every entry" in said


def test_a_second_order_that_is_wrong_for_complex_numbers_is_found(row: MakeRow) -> None:
    cut = row("cut", lambda x: x**3, x=lambda g, x: g * 3 * (x * x).detach())
    assert gradcheck(cut, z3())
    assert "gradgradcheck" in failure(gradgradcheck, cut, z3())


def test_a_function_that_loses_its_imaginary_part_is_found() -> None:
    said = failure(gradcheck, lambda z: z.real + z.data.imag, z3())
    assert "imaginary part of" in said
    assert "a part of func is not recorded" in said or "a reduction or a broadcast is missing" in said


def test_float32_is_checked_on_float64_copies() -> None:
    x = tensor([0.5, 1.5], requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):  # torch's gradcheck warns too, and fails
        assert not torch.autograd.gradcheck(torch.sin, torch.tensor([0.5], requires_grad=True), raise_exception=False)
    assert gradcheck(lambda x: (x.exp() * x).tanh(), x)
    assert gradgradcheck(lambda x, y: x.exp() * y, (x, tensor([2.0, 3.0])))
    assert x.dtype is torch.float32
    assert gradcheck(lambda x: x.exp(), tensor(torch.rand(2, 3, dtype=torch.float64).T, requires_grad=True))


def test_a_float32_input_used_through_a_variable_is_an_error() -> None:
    x = tensor([0.5, 1.5], requires_grad=True)
    with pytest.raises(ValueError, match=r"float32 input of shape \(2,\) from a variable"):
        gradcheck(lambda _: x.exp(), x)
    wide = leaf(0.5, 1.5)
    assert gradcheck(lambda _: wide.exp(), wide)
    with pytest.raises(RuntimeError) as caught:
        gradcheck(lambda y: y @ tensor([[1.0], [2.0]]), x)
    assert "float64 copies" in caught.value.__notes__[0]


def test_it_leaves_no_trace_in_an_open_graph_and_no_version_behind() -> None:
    x = leaf(1.0, 2.0)
    with nbgrad.AutogradGraph() as graph:
        y = (x * x).sum()
        assert gradcheck(cubed, x)
        assert gradgradcheck(cubed, x)
        y.backward()  # this would raise if x counted as changed in place
    assert [record.op.name for record in graph.records if record.op] == ["mul", "sum"]
    assert graph.backwards == 1


def test_it_works_inside_no_grad() -> None:
    with nbgrad.no_grad():
        assert gradcheck(cubed, x3())
        assert not nbgrad.is_grad_enabled()


def test_an_input_is_put_back_when_func_raises() -> None:
    calls = []

    def func(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return x**2

    x = x3()
    with pytest.raises(KeyboardInterrupt):
        gradcheck(func, x)
    assert x.tolist() == [0.5, 1.2, -2.0]


@pytest.mark.parametrize(
    ("func", "inputs", "words"),
    [
        (cubed, OURS.constant(1.0), "needs an input that requires grad"),
        (cubed, 3.0, "requires_grad=True"),
        (lambda x: 3.0, leaf(1.0), "must return a floating point Tensor or a tuple of them, not float"),
    ],
)
def test_nothing_to_check_is_a_value_error(func: Callable[..., Any], inputs: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gradcheck(func, inputs, raise_exception=False)


# Fails exactly where torch's fails.


def wrong_factor(factor: float) -> Callable[[Library], Callable[[Any], Any]]:
    """Makes a function whose gradient is wrong by a factor, in either library: a part of its value is detached."""
    return lambda lib: lambda x: x**3 * factor + (x**3).detach() * (1 - factor)


@pytest.mark.parametrize("factor", [1.0, 1.0009, 1.0012, 0.9, -1.0])
@pytest.mark.parametrize("rtol", [1e-3, 1e-4])
def test_it_finds_what_torchs_finds_and_no_more(factor: float, rtol: float) -> None:
    outcomes = []
    for lib, check in ((OURS, gradcheck), (TORCH, torch.autograd.gradcheck)):
        x = lib.leaf(3.0, 4.0)
        outcomes.append(check(wrong_factor(factor)(lib), x, rtol=rtol, raise_exception=False))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] == (abs(factor - 1) < rtol)


@pytest.mark.parametrize("at", [0.0, 1e-7, 1e-3])
def test_a_kink_fails_where_torchs_does(at: float) -> None:
    outcomes = [
        check(lambda x: x.relu(), lib.leaf(1.0, at), raise_exception=False)
        for lib, check in ((OURS, gradcheck), (TORCH, torch.autograd.gradcheck))
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] == (at == 1e-3)


# Each wrong rule is found, named and explained.


def test_a_rule_that_is_wrong_by_a_thousandth_is_named_with_both_values(row: MakeRow) -> None:
    cube = row("slightly_wrong", lambda x: x**3, x=lambda g, x: g * 3.003 * x * x)

    text = failure(gradcheck, lambda x, y: (cube(x.exp()) * y).sum(), (leaf(0.0, 1.0), leaf(1.0, 2.0)), rtol=1e-4)

    assert "gradcheck: output 0 with respect to input 0: the gradient is wrong" in text
    assert "worst at [1] of the input" in text
    assert "analytic 120.6" in text
    assert "numeric 120.5" in text
    assert "ratio 1.001" in text
    assert "op slightly_wrong called at" in text
    assert "test_gradcheck.py" in text
    assert "the rule for 'x' of shape (2,) gives 22.18" in text
    assert "every entry is off by the same factor 1.001" in text


def test_the_right_one_of_several_inputs_and_outputs_is_named(row: MakeRow) -> None:
    def mul(a: Any, b: Any) -> Any:
        return a * b

    product = row("half_wrong", mul, broadcasts=True, a=lambda g, b: g * b, b=lambda g, a: g * a * 1.01)
    text = failure(gradcheck, lambda a, b, i: (a.exp(), product(a, b) + i), (x3(), leaf([[1.0], [4.0]]), tensor(3)))
    assert "output 1 with respect to input 1" in text
    assert "worst at [1, 2] of the output, [1, 0] of the input" in text or "[0, 2] of the output, [0, 0]" in text
    assert "analytic -2.02" in text
    assert "numeric -2 " in text
    assert "the rule for 'b' of shape (2, 1)" in text


def test_a_flipped_sign(row: MakeRow) -> None:
    text = failure(gradcheck, row("flipped", cubed_forward, x=lambda g, x: -g * 3 * x * x), (torch.tensor([0.5, 2.0]),))
    assert "with respect to input 0 ('x')" in text
    assert "probable cause the sign is flipped" in text
    assert "ratio -1" in text


def cubed_forward(x: Any) -> Any:
    return x**3


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (2.0, "a factor 2 is too many in every entry"),
        (0.5, "a factor 2 is missing in every entry"),
        (-2.0, "the sign is flipped and a factor 2 is too many"),
        (1.01, "the same factor 1.01"),
    ],
)
def test_a_factor(row: MakeRow, factor: float, words: str) -> None:
    scaled = row("scaled", cubed_forward, x=lambda g, x: g * 3 * x * x * factor)
    assert words in failure(gradcheck, scaled, (torch.tensor([0.5, 1.2, -2.0]),))


def test_a_factor_n(row: MakeRow) -> None:
    def average(x: Any) -> Any:
        return x.mean()

    def total(x: Any) -> Any:
        return x.sum()

    undivided = row("undivided", average, x=lambda g, x_shape: g.expand(x_shape))
    assert "a division by n = 6 is missing" in failure(gradcheck, undivided, (torch.ones(2, 3),))
    divided = row("divided", total, x=lambda g, x_shape: (g / 6).expand(x_shape))
    assert "a division by n = 6 is too many" in failure(gradcheck, divided, (torch.ones(2, 3),))


def test_something_transposed(row: MakeRow) -> None:
    def swapped(x: Any) -> Any:
        return x.transpose(0, 1) * 1

    def product(a: Any, b: Any) -> Any:
        return a @ b

    square, long = torch.rand(3, 3), torch.rand(2, 3)
    unturned = row("unturned", swapped, x=lambda g: g * 1)
    assert "something is transposed" in failure(gradcheck, unturned, (square,))
    reshaped = row("reshaped", swapped, x=lambda g, x_shape: g.reshape(x_shape))
    assert "something is transposed" in failure(gradcheck, reshaped, (long,))
    operand = row("operand", product, a=lambda g, b: g @ b, b=lambda g, a: a.transpose(0, 1) @ g)
    text = failure(gradcheck, operand, (square, torch.rand(3, 3)))
    assert "something is transposed" in text
    assert "with respect to input 0 ('a')" in text


def test_a_reduction_or_broadcast_that_is_missing_or_too_many(row: MakeRow) -> None:
    def columns(x: Any) -> Any:
        return x.sum(0)

    def first_row(g: Any, x_shape: Any) -> Any:
        return torch.cat([g.unsqueeze(0), torch.zeros(x_shape[0] - 1, x_shape[1], dtype=g.dtype)])

    missing = row("not_stretched", columns, x=first_row)
    text = failure(gradcheck, missing, (torch.rand(3, 2),))
    assert "a reduction or a broadcast is missing: 4 of 12 entries are 0 and should not be" in text
    much = row("summed", cubed_forward, x=lambda g, x: g.sum() * 3 * x * x)
    text = failure(gradcheck, much, (torch.tensor([0.5, 1.2, -2.0]),))
    assert "a reduction or a broadcast is too many: 6 of 9 entries should be 0" in text


def test_a_gradient_of_the_wrong_shape_is_the_engines_error(row: MakeRow) -> None:
    def columns(x: Any) -> Any:
        return x.sum(0)

    unstretched = row("unstretched", columns, x=lambda g: g)
    with pytest.raises(RuntimeError, match=r"'unstretched' for input 'x' gave a gradient of shape \(2,\)"):
        gradcheck(unstretched, (torch.rand(3, 2),))


def test_a_rule_that_gives_nothing(row: MakeRow) -> None:
    silent = row("silent", cubed_forward, x=lambda g: None)
    text = failure(gradcheck, silent, (torch.tensor([0.5, 2.0]),))
    assert "no gradient arrives: every entry is 0" in text


def test_a_wrong_formula(row: MakeRow) -> None:
    square = row("square_for_cube", cubed_forward, x=lambda g, x: g * (2 * x + 1))
    assert "the formula is wrong: 6 of 9 entries" in failure(gradcheck, square, (torch.tensor([0.5, 2.0, 3.0]),))


def test_a_kink_says_both_slopes() -> None:
    text = failure(gradcheck, lambda x: x.relu().sum(), leaf(0.0, 1.0))
    assert "op relu called at" in text
    assert (
        "not differentiable at this point: the slope is 0 to the left and 1 to the right, and the rule gives 0" in text
    )
    near = failure(gradcheck, lambda x: x.relu().sum(), leaf(2e-7, 1.0))
    assert "the function bends within eps of this point" in near


def test_a_wrong_rule_behind_a_kink_is_the_culprit(row: MakeRow) -> None:
    wrong = row("after_the_kink", cubed_forward, x=lambda g, x: g * 3.3 * x * x)
    text = failure(gradcheck, lambda x: wrong(x.relu() + 1), leaf(0.0, 1.0))
    assert "op after_the_kink" in text
    assert "the same factor 1.1" in text


def test_a_point_outside_of_the_domain() -> None:
    text = failure(gradcheck, lambda x: x.sqrt(), leaf(0.0, 1.0))
    assert "op sqrt" in text
    assert "no finite slope here (nan)" in text


def test_a_rule_that_gives_nan(row: MakeRow) -> None:
    text = failure(gradcheck, row("nan_rule", cubed_forward, x=lambda g, x: g * 3 * x**3 / x), (torch.zeros(1),))
    assert "the rule gives nan where the function is smooth" in text


def test_a_rule_that_is_random(row: MakeRow) -> None:
    generator = torch.Generator().manual_seed(0)

    def noisy(g: Any, x: Any) -> Any:
        return g * (3 * x * x + 1e-9 * torch.rand((), generator=generator))

    random = row("noisy_rule", cubed_forward, x=noisy)
    text = failure(gradcheck, lambda x: random(x) * 2, x3())
    assert "the gradient is not the same each time" in text
    assert "first backward" in text
    assert "op noisy_rule" in text
    assert "two backwards at the same point differ" in text
    assert gradcheck(random, x3(), nondet_tol=1e-8) is True


def test_a_function_that_is_random() -> None:
    generator = torch.Generator().manual_seed(0)
    text = failure(gradcheck, lambda x: x * float(torch.rand((), generator=generator)), x3())
    assert "different values at the same point: it draws random numbers" in text


def test_a_rule_that_is_not_linear_in_the_incoming_gradient(row: MakeRow) -> None:
    bent = row("bent", cubed_forward, x=lambda g, x: g * g * 3 * x * x)
    assert torch.autograd.gradcheck(TorchBent.apply, torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True))
    text = failure(gradcheck, bent, (torch.tensor([0.5, 2.0]),))  # torch's passes the same rule
    assert "is not linear in the incoming gradient" in text
    assert "op bent" in text
    assert "the rule is not linear" in text


class TorchBent(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return g * g * 3 * x * x


@pytest.mark.parametrize(
    "func", [lambda x: x * x.detach(), lambda x: x.exp() + x.data, lambda x: x * float(x[0]), lambda x: x.detach() * 2]
)
def test_a_part_that_is_not_recorded(func: Callable[[Tensor], Tensor]) -> None:
    text = failure(gradcheck, func, x3())
    assert "op none: the rule of each op is right by itself" in text
    assert "a part of func is not recorded (.data, detach(), item(), no_grad()" in text


def test_a_part_in_float32() -> None:
    text = failure(gradcheck, lambda x: x.to(dtype=torch.float32).exp(), x3())
    assert "probable cause to at" in text
    assert "computes in float32, too coarse for differences: use float64 throughout" in text


def test_a_wrong_rule_among_ops_in_place_is_named(row: MakeRow) -> None:
    wrong = row("after_in_place", cubed_forward, x=lambda g, x: g * 3.3 * x * x)

    def func(x: Tensor) -> Tensor:
        y = x * 1
        y *= np.array([1, 2, 3], dtype=np.float32)
        y[0] = x[1]
        return wrong(y)

    text = failure(gradcheck, func, x3())
    assert "op after_in_place" in text
    assert "the same factor 1.1" in text


def test_an_op_too_large_to_check_alone_is_said() -> None:
    text = failure(gradcheck, lambda x: (x.expand(2_000_000) * x.detach()).mean(), leaf(2.0))
    assert "too large to be checked alone: expand, mul, mean" in text


# Second order.


def test_a_rule_that_cannot_be_differentiated(row: MakeRow) -> None:
    def rule(g: Any, x: Any) -> Any:
        return g * 3 * x * (x.data if isinstance(x, Tensor) else x)  # the second x is detached

    cut = row("cut_rule", cubed_forward, x=rule)
    assert gradcheck(lambda x: cut(x.exp()), x3()) is True
    text = failure(gradgradcheck, lambda x: cut(x.exp()), x3())
    assert "gradgradcheck: the gradient of input 0 with respect to input 0" in text
    assert "op cut_rule" in text
    assert "differentiating its rule by 'x'" in text
    assert "right at first order and cannot be differentiated" in text


def test_a_wrong_rule_of_a_row_that_only_backwards_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = OPS["tanh_backward"].rules["y"]._replace(function=lambda gradient, g, y: -2.01 * gradient * g * y)
    monkeypatch.setitem(OPS["tanh_backward"].rules, "y", wrong)
    monkeypatch.setattr(OPS["tanh_backward"], "_plans", {})
    assert gradcheck(lambda x: x.tanh(), x3()) is True
    text = failure(gradgradcheck, lambda x: x.tanh(), x3())
    assert "op tanh_backward" in text
    assert "the rule for 'y'" in text
    assert "the same factor 1.005" in text


def test_gradgradcheck_of_a_constant_is_an_error() -> None:
    with pytest.raises(ValueError, match="no output of func requires grad"):
        gradgradcheck(lambda x: x.detach(), x3())


# Functions of the user.


class WrongCube(nbgrad.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x**3, x * 2

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 * ctx.factor + h * 2, None


def test_a_function_of_the_user_is_checked_and_named() -> None:
    assert gradcheck(lambda x: WrongCube.apply(x.exp(), 1.0), x3())
    assert gradgradcheck(lambda x: WrongCube.apply(x.exp(), 1.0), x3())
    text = failure(gradcheck, lambda x: WrongCube.apply(x.exp(), 1.001)[0], x3(), rtol=1e-4)
    assert "op WrongCube" in text
    assert "the rule for 'x' of shape (3,)" in text


@pytest.mark.parametrize("name", ["mul", "matmul", "softmax", "sum", "getitem", "sigmoid", "linear", "log"])
def test_a_rule_of_ours_that_is_wrong_by_a_thousandth_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = OPS[name]
    sample = next(
        sample
        for sample in row.samples(Make(row.domain))
        if all(isinstance(arg, torch.Tensor) and 2 <= arg.numel() < 30 for arg in sample.args)
    )
    wanted = row.inputs[rows.differentiable(row, sample)[-1]]
    right = row.rules[wanted]

    def wrong(g: Any, *needs: Any, right: Any = right) -> Any:
        return right.function(g, *needs) * 1.001

    monkeypatch.setitem(row.rules, wanted, right._replace(function=wrong, kernel=None))
    monkeypatch.setattr(row, "_plans", {})
    args = tuple(arg.clone().requires_grad_() for arg in sample.args)
    settings = sample.settings
    call = (lambda *args: row(*args, **settings)) if settings else row
    text = failure(gradcheck, call, args, rtol=1e-4)
    assert f"op {row.name} called at" in text
    assert f"the rule for {wanted!r}" in text
    assert "the same factor 1.001" in text

"""Complex numbers: every row that torch differentiates there, ours does too, with torch's convention."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.tensor import tensor
from tests.core import calls, rows
from tests.core.programs import Library, agree, both_raise

F64 = torch.float64


def complex_samples(row: Op) -> Iterator[Sample]:
    """The row's samples with imaginary parts: in all floating point tensors, or only in the first one."""
    for number, sample in enumerate(rows.samples(row)):
        floats = [i for i in rows.differentiable(row, sample) if sample.args[i].is_floating_point()]
        for chosen in {tuple(floats), tuple(floats[:1])} if floats else ():
            draw = torch.Generator().manual_seed(number)
            args = list(sample.args)
            for i in chosen:
                args[i] = torch.complex(args[i], torch.rand(args[i].shape, generator=draw, dtype=args[i].dtype) + 0.1)
            yield Sample(tuple(args), sample.settings)


MISSING = {
    "einsum": "real and complex operands mixed",
    "pdist": "as in torch; what it is compared with is composed of ops that do it",
    "embedding_bag": "as in torch; what it is compared with is composed of ops that do it",
    "softsign": "torch composes it of ops that do it",
}
"""Rows that nbgrad refuses and torch (or the test's reference) does not, and why."""

public = pytest.mark.parametrize(
    "name",  # gradient rows are tested through the rows that use them
    [name for name, row in OPS.items() if row.differentiable and not name.endswith("_backward")],
)


@pytest.mark.sampled(8)
@public
@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # torch's, about what the sample asks for
def test_a_row_on_complex_numbers_is_torchs(name: str) -> None:
    row = OPS[name]
    for sample in rows.comparable(row, complex_samples(row)):
        try:
            rows.by_torch(row, sample, rows.seeds_for(row, sample))
        except (RuntimeError, TypeError, NotImplementedError):
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                rows.check(row, sample)
            continue
        try:
            rows.check(row, sample)
        except Exception as error:
            if name not in MISSING or not isinstance(error, RuntimeError):
                raise AssertionError(f"{name}({rows.describe(sample)}): {error}") from error


UNDEFINED = {"linalg_eigh": "phase", "linalg_svd": "phase", "normal": "a standard deviation that is drawn below 0"}
"""Rows whose complex results cannot be checked with finite differences, and why."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", [name for name, row in OPS.items() if row.differentiable and row.rules and not name.endswith("_backward")]
)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # torch's, about what the sample asks for
def test_both_orders_are_the_differences_of_values_where_torch_has_no_complex_gradient(name: str) -> None:
    row = OPS[name]
    for sample in only_ours(row):
        wanted = rows.differentiable(row, sample)

        def run(*given: Any, sample: Sample = sample, wanted: list[int] = wanted) -> Any:
            args = [tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in sample.args]
            for place, one in zip(wanted, given, strict=True):
                args[place] = one
            return rows.live(row, row(*args, **sample.settings))

        inputs = [tensor(sample.args[place], requires_grad=True) for place in wanted]
        nbgrad.gradcheck(run, inputs)
        nbgrad.gradgradcheck(run, inputs)


def only_ours(row: Op) -> Iterator[Sample]:
    """A few complex samples that the row accepts, but that torch differentiates at most once."""
    found = 0
    for sample in rows.comparable(row, complex_samples(row)):
        sizes = [arg.numel() for arg in sample.args if isinstance(arg, torch.Tensor)]
        mixed = len({sample.args[place].dtype for place in rows.differentiable(row, sample)}) > 1
        padded = sample.settings.get("padding_idx", -1) >= 0  # a padding row gets no gradient by definition
        if found == 3 or row.name in UNDEFINED or mixed or padded or not all(0 < size < 20 for size in sizes):
            continue
        try:
            row.forward(*sample.args, **sample.settings)
        except (RuntimeError, TypeError, ValueError):
            continue
        try:
            rows.by_torch(row, sample, rows.seeds_for(row, sample))
        except (RuntimeError, TypeError):
            found += 1
            yield sample


Complex = Callable[[Any, Any], Any]
"""A function of two complex tensors."""

NOT_TWICE: dict[str, Complex] = {
    "soft_margin_loss": lambda x, t: nbgrad.nn.functional.soft_margin_loss(x, t.detach(), reduction="sum"),
    "scatter_reduce prod": lambda x, y: nbgrad.scatter_reduce(x, 0, TO, y, "prod"),
    "scatter_reduce prod of one zero": lambda x, y: nbgrad.scatter_reduce(x, 0, TO, y * ZERO, "prod"),
    "scatter_reduce prod without itself": lambda x, y: nbgrad.scatter_reduce(x, 0, TO, y, "prod", include_self=False),
    "the row of l1_loss": lambda x, y: OPS["l1_loss"](x, y, reduction="mean"),
    "the row of l1_loss, complex and real": lambda x, y: OPS["l1_loss"](x.real, y, reduction="none"),
    "the row of smooth_l1_loss": lambda x, y: OPS["smooth_l1_loss"](x, y, reduction="sum", beta=0.0),
}
"""Functions that torch differentiates at most once, or does not have."""

TO, ZERO = torch.tensor([1, 1, 0]), torch.tensor([0.0, 1.0, 1.0])


@pytest.mark.parametrize("name", NOT_TWICE)
def test_both_orders_of_a_complex_function_are_the_differences_of_values(name: str) -> None:
    draw = torch.Generator().manual_seed(5)
    inputs = [tensor(torch.randn(3, generator=draw, dtype=torch.complex128), requires_grad=True) for _ in range(2)]
    inputs = [*inputs[:1], inputs[1].data] if name == "soft_margin_loss" else inputs
    nbgrad.gradcheck(NOT_TWICE[name], inputs)
    nbgrad.gradgradcheck(NOT_TWICE[name], inputs)


def test_a_third_order_of_l1_loss_of_complex_numbers_is_there() -> None:
    def slope(x: Any, t: Any) -> Any:
        (first,) = nbgrad.grad(OPS["l1_loss"](x, t, reduction="sum"), x, create_graph=True)
        return first

    draw = torch.Generator().manual_seed(6)
    x, t = [tensor(torch.randn(3, generator=draw, dtype=torch.complex128), requires_grad=True) for _ in range(2)]
    nbgrad.gradgradcheck(slope, [x, t])


def loss_of_two(lib: Any, z: Any, w: Any) -> Any:
    return (z * w).abs().sum() + (z / w).real.sum() + (z - w.conj()).imag.sum()


@pytest.mark.parametrize(
    "program",
    [
        loss_of_two,
        lambda lib, z, w: lib.view_as_real(z * w).pow(2).sum(),
        lambda lib, z, w: (z.real * w).abs().sum() + z.imag.exp().sum(),
        lambda lib, z, w: (z.exp() @ w.conj()).abs(),
        lambda lib, z, w: (z.real + 2j * w).abs().sum(),
        lambda lib, z, w: (3 - z**2).angle().sum() + w.real.sum(),
    ],
)
def test_a_real_loss_of_complex_numbers_has_torchs_gradient(program: Callable[..., Any]) -> None:
    z = torch.tensor([1 + 2j, -0.5 + 0.3j, 0.7 - 1j], dtype=torch.complex128)
    w = torch.tensor([0.3 - 1j, 2 + 1j, -1 + 0.2j], dtype=torch.complex128)
    theirs = [z.clone().requires_grad_(), w.clone().requires_grad_()]
    ours = [tensor(z.clone(), requires_grad=True), tensor(w.clone(), requires_grad=True)]
    expected, got = program(torch, *theirs), program(nbgrad, *ours)
    expected.backward()
    got.backward()
    rows.close(got.data, expected.detach(), "loss")
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        rows.close(mine.grad.data, yours.grad, "gradient")
        assert not mine.grad.data.is_conj()


def test_gradient_descent_on_a_complex_number_finds_the_minimum() -> None:
    z = tensor(3 - 4j, requires_grad=True)
    for _ in range(200):
        loss = (z - (1 + 2j)).abs() ** 2
        loss.backward()
        with nbgrad.no_grad():
            z.data.sub_(0.1 * z.grad.data)
            z.grad = None
    assert abs(z.item() - (1 + 2j)) < 1e-6


def test_a_real_leaf_of_a_complex_result_gets_a_real_gradient() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        ((x + 2j * x) * (1 - 1j)).abs().sum().backward()
        return (x.grad,)

    agree(program)


def test_backward_from_a_complex_number_needs_a_gradient() -> None:
    for make in (lambda: tensor(1 + 1j, requires_grad=True), lambda: torch.tensor(1 + 1j, requires_grad=True)):
        with pytest.raises(RuntimeError, match=r"real|complex"):
            (make() * 2).backward()
        (make() * 2).backward(torch.tensor(1 + 0j))


def test_a_complex_gradient_is_none_for_a_real_number_nor_a_real_one_for_a_complex_number() -> None:
    def program(dtype: torch.dtype, other: torch.dtype) -> Callable[[Library], tuple[Any, ...]]:
        def run(lib: Library) -> tuple[Any, ...]:
            x = lib.leaf(1.0, dtype=dtype)
            return lib.grad(x * 2, [x], lib.constant(1.0, dtype=other))

        return run

    both_raise(program(torch.float64, torch.complex128), "complex128", "float64")
    both_raise(program(torch.complex128, torch.float64), "complex128", "float64")


def test_a_function_may_have_complex_outputs() -> None:
    class Times(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * (2 + 1j)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * (2 - 1j)

    z = tensor([1 + 1j], requires_grad=True)
    Times.apply(z).abs().sum().backward()
    twin = torch.tensor([1 + 1j], requires_grad=True)
    (twin * (2 + 1j)).abs().sum().backward()
    assert z.grad is not None
    rows.close(z.grad.data, twin.grad, "gradient")


def test_an_infinite_gradient_of_an_imaginary_part_is_no_nan() -> None:
    infinite = torch.tensor([1.0, float("inf"), -2.0], dtype=torch.float64)
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    for constant in (False, True):
        assert not calls.difference(lambda z: torch.imag(z) * infinite, z, constant_seeds=constant)


# Changed in place through a view of another element type


def _set(part: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda y, lib: setattr(y, part, value(y, lib) if callable(value) else value)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "imag.mul_": lambda y, lib: y.imag.mul_(3),
    "real.mul_": lambda y, lib: y.real.mul_(3),
    "imag.add_ of the real part": lambda y, lib: y.imag.add_(y.real * 2),
    "imag.copy_": lambda y, lib: y.imag.copy_(y.real * 2),
    "imag[0] = number": lambda y, lib: y.imag.__setitem__(0, 0.5),
    "imag = number": _set("imag", 0.5),
    "real = number": _set("real", 2),
    "real = tensor": _set("real", lambda y, lib: y.imag * 2),
    "imag = broadcast": _set("imag", lambda y, lib: (y.real * 2).sum()),
    "view_as_real.mul_": lambda y, lib: lib.view_as_real(y).mul_(3),
    "view_as_real[..., 1].exp_": lambda y, lib: lib.view_as_real(y)[..., 1].exp_(),
    "view_as_complex of view_as_real": lambda y, lib: lib.view_as_complex(lib.view_as_real(y)).mul_(2j),
    "conj.mul_": lambda y, lib: y.conj().mul_(1 + 2j),
    "conj.imag.mul_": lambda y, lib: y.conj().imag.mul_(3),
    "mH.imag.sigmoid_": lambda y, lib: y.mH.imag.sigmoid_(),
    "T.real.tanh_": lambda y, lib: y.T.real.tanh_(),
    "flat imag": lambda y, lib: y.view(-1).imag[1:].mul_(y.real.sum()),
    "a part of a part": lambda y, lib: y[0].real[1:].mul_(y.imag.detach().sum()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_complex_tensor_may_be_changed_in_place_through_any_view(change: Callable[[Any, Any], Any]) -> None:
    data = torch.complex(torch.linspace(-1, 1, 6, dtype=F64), torch.linspace(0.5, 2, 6, dtype=F64)).reshape(2, 3)
    for base in (lambda x: x * (1 + 2j), lambda x: x.conj() * 2, lambda x: (x.T * 1j).transpose(0, 1)):

        def program(lib: Library, base: Any = base) -> tuple[Any, ...]:
            x = lib.leaf(data.tolist(), dtype=data.dtype)
            y = base(x)
            before = y.imag
            change(y, lib.ops)
            total = ((y * y.conj()).real * rows.weights(data)).sum() + (before * before).sum()
            (first,) = lib.grad(total, [x], create_graph=True)
            (second,) = lib.grad((first * first.conj()).real.sum(), [x])
            return y, before, first, second

        agree(program)


def test_the_real_part_of_a_real_tensor_is_assigned_as_its_own_values_and_the_imaginary_one_is_not_there() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x * 2
        y.real = x * x
        return y, *lib.grad(y.sum(), [x])

    agree(program)
    with pytest.raises(RuntimeError, match="imag"):
        nbgrad.tensor([1.0]).imag = 2.0

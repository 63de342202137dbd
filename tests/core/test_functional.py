"""jacobian, hessian and their products next to ``torch.autograd.functional``; every row to the fourth order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, Program, agree, both_raise
from tests.lacking import need


def functional(lib: Library) -> Any:
    """The module in which the library has jacobian and related functions."""
    return torch.autograd.functional if lib is TORCH else nbgrad


def same(ours: Any, theirs: Any, where: str = "result") -> None:
    """Equal tensors in the same nesting, and as differentiable."""
    if isinstance(theirs, tuple):
        assert type(ours) is tuple, where
        for i, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
            same(mine, yours, f"{where}[{i}]")
        return
    assert type(ours) is Tensor, where
    rows.close(ours.data, theirs.detach(), where)
    assert ours.requires_grad == theirs.requires_grad, f"{where}: requires_grad"


def compare(program: Callable[[Library], Any]) -> None:
    same(program(OURS), program(TORCH))


def point(lib: Library) -> Any:
    return lib.constant([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]])


def other(lib: Library) -> Any:
    return lib.constant(1.0, -2.0, 0.5)


def one_to_one(x: Any) -> Any:
    return (x * x).exp().sum(1)


def one_to_two(x: Any) -> Any:
    return x.tanh(), (x * x).sum()


def two_to_one(x: Any, y: Any) -> Any:
    return x * y + y.exp()


def two_to_two(x: Any, y: Any) -> Any:
    return (x * y).sum(1), y * y


def constant(x: Any) -> Any:
    return x.detach() * 2


def half(x: Any, y: Any) -> Any:
    return x.exp().sum(1)


def scalar(x: Any) -> Any:
    return (x**3).sum() * x.sum().exp()


def scalar_of_two(x: Any, y: Any) -> Any:
    return (x * x * y.exp()).sum()


def linear(x: Any) -> Any:
    return (2 * x).sum()


ONE_INPUT = [one_to_one, one_to_two, constant, scalar, linear]
TWO_INPUTS = [two_to_one, two_to_two, half, scalar_of_two]
every_function = pytest.mark.parametrize("func", [*ONE_INPUT, *TWO_INPUTS], ids=lambda func: func.__name__)
every_scalar = pytest.mark.parametrize("func", [scalar, linear, scalar_of_two], ids=lambda func: func.__name__)
live_or_not = pytest.mark.parametrize("create_graph", [False, True], ids=["plain", "create_graph"])
needs_or_not = pytest.mark.parametrize("needs", [False, True], ids=["constant", "requires_grad"])


def inputs(lib: Library, func: Any, *, needs: bool = False) -> Any:
    given = (point(lib),) if func in ONE_INPUT else (point(lib), other(lib))
    for part in given:
        part.requires_grad_(needs)
    return given if func in TWO_INPUTS else given[0]


@needs_or_not
@live_or_not
@every_function
def test_jacobian_is_torchs(func: Callable[..., Any], create_graph: bool, needs: bool) -> None:
    compare(lambda lib: functional(lib).jacobian(func, inputs(lib, func, needs=needs), create_graph=create_graph))


@needs_or_not
@live_or_not
@every_scalar
def test_hessian_is_torchs(func: Callable[..., Any], create_graph: bool, needs: bool) -> None:
    compare(lambda lib: functional(lib).hessian(func, inputs(lib, func, needs=needs), create_graph=create_graph))


def tangents(lib: Library, like: Any) -> Any:
    """Fixed numbers in the shape and nesting of ``like``."""
    if isinstance(like, tuple):
        return tuple(tangents(lib, part) for part in like)
    return lib.constant(torch.linspace(-1, 1, like.numel()).reshape(tuple(like.shape)).tolist())


@needs_or_not
@live_or_not
@every_function
def test_vjp_and_jvp_are_torchs(func: Callable[..., Any], create_graph: bool, needs: bool) -> None:
    def product(name: str) -> Callable[[Library], Any]:
        def program(lib: Library) -> Any:
            given = inputs(lib, func, needs=needs)
            at = given if isinstance(given, tuple) else (given,)
            v = tangents(lib, given if name == "jvp" else func(*at))
            return getattr(functional(lib), name)(func, given, v, create_graph=create_graph)

        return program

    compare(product("vjp"))
    compare(product("jvp"))


@needs_or_not
@live_or_not
@every_scalar
def test_vhp_and_hvp_are_torchs(func: Callable[..., Any], create_graph: bool, needs: bool) -> None:
    def product(name: str) -> Callable[[Library], Any]:
        def program(lib: Library) -> Any:
            given = inputs(lib, func, needs=needs)
            return getattr(functional(lib), name)(func, given, tangents(lib, given), create_graph=create_graph)

        return program

    compare(product("vhp"))
    compare(product("hvp"))


def test_the_vector_may_be_left_out_for_a_single_element() -> None:
    for name in ("vjp", "jvp", "vhp", "hvp"):
        compare(lambda lib, name=name: getattr(functional(lib), name)(lambda x: x**4, lib.constant(1.5)))


def test_jacobian_of_single_numbers_has_torchs_shapes() -> None:
    compare(lambda lib: functional(lib).jacobian(lambda x: x.exp(), lib.constant(0.5)))
    compare(lambda lib: functional(lib).jacobian(lambda x: x.sum(), lib.constant([[0.5], [1.0]])))
    compare(lambda lib: functional(lib).hessian(lambda x: (x**3).sum().reshape(1, 1), lib.constant(0.5, 2.0)))


def test_jacobian_of_nothing_is_empty() -> None:
    found = nbgrad.jacobian(lambda x: x * 2, tensor(torch.zeros(0, 3)))
    assert found.shape == (0, 3, 0, 3)


# Any order, by nesting.


def test_third_and_fourth_derivatives_by_nesting_are_torchs() -> None:
    def order(lib: Library, depth: int) -> Callable[[Any], Any]:
        def func(x: Any) -> Any:
            return (x.exp() * x[0]).sum() + (x**4).sum()

        for _ in range(depth):
            func = lambda x, inner=func: functional(lib).jacobian(inner, x, create_graph=True)  # noqa: E731
        return func

    for depth in (3, 4):
        compare(lambda lib, depth=depth: order(lib, depth)(lib.leaf(0.5, -1.0, 2.0)))


def test_hessian_inside_a_jacobian_and_a_product_inside_a_hessian() -> None:
    def third(lib: Library) -> Any:
        f = functional(lib)
        return f.jacobian(lambda y: f.hessian(scalar, y, create_graph=True), lib.constant(0.5, -1.0))

    def curved(lib: Library) -> Any:
        f, v = functional(lib), lib.constant(1.0, 2.0)
        return f.hessian(lambda y: (f.hvp(scalar, y, v, create_graph=True)[1] ** 2).sum(), lib.constant(0.5, -1.0))

    compare(third)
    compare(curved)


def test_an_answer_can_be_differentiated_by_what_the_function_captured() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        w = lib.leaf(2.0, 3.0)
        slope = functional(lib).jacobian(lambda x: x**2 * w, lib.leaf(1.0, 4.0), create_graph=True)
        slope.sum().backward()
        return slope, w.grad

    agree(program)


def test_a_tensor_that_func_captures_is_not_the_input() -> None:
    def program(lib: Library) -> Any:
        x = lib.leaf(2.0, 3.0)
        return functional(lib).jacobian(lambda y: x * y, x)

    compare(program)


def test_inputs_and_their_gradients_are_left_alone() -> None:
    x = tensor([1.0, 2.0])
    v = tensor([1.0, 0.0])
    for answer in (
        nbgrad.jacobian(lambda x: x**2, x),
        nbgrad.vjp(lambda x: x**2, x, v)[1],
        nbgrad.hvp(lambda x: (x**3).sum(), x, v)[1],
    ):
        assert not answer.requires_grad
    assert not x.requires_grad
    assert x.grad is None
    assert v.grad is None


def test_they_work_inside_no_grad() -> None:
    def program(lib: Library) -> Any:
        with lib.ops.no_grad():
            f, x = functional(lib), lib.constant(0.5, 2.0)
            return f.jacobian(lambda x: x**3, x), f.hessian(scalar, x), f.vjp(scalar, x), f.hvp(scalar, x, x)

    compare(program)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_rows_of_a_differentiable_jacobian_are_in_order(length: int) -> None:
    def program(lib: Library) -> Any:
        x = lib.leaf([float(i) for i in range(1, length + 1)])
        slope = functional(lib).jacobian(lambda x: x**3, x, create_graph=True)
        return slope, *lib.grad((slope * slope).sum(), x)

    agree(program)


# strict, and errors.


def strictly(name: str, func: Callable[..., Any], *, create_graph: bool = False) -> Program:
    def program(lib: Library) -> tuple[Any, ...]:
        given = inputs(lib, func, needs=True) if func in [*ONE_INPUT, *TWO_INPUTS] else point(lib)
        settings: dict[str, Any] = {"create_graph": create_graph, "strict": True}
        if name == "vjp":
            settings["v"] = tangents(lib, func(*given) if isinstance(given, tuple) else func(given))
        elif name in {"jvp", "vhp", "hvp"}:
            settings["v"] = tangents(lib, given)
        return (getattr(functional(lib), name)(func, given, **settings),)

    return program


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (strictly("jacobian", constant), ["output 0 of func does not require grad"]),
        (strictly("jacobian", half), ["does not depend on input 1"]),
        (strictly("jacobian", linear, create_graph=True), ["constant"]),
        (strictly("hessian", linear), ["does not depend"]),
        (strictly("vjp", constant), ["does not require grad"]),
        (strictly("vjp", half), ["does not depend on"]),
        (strictly("vjp", linear, create_graph=True), ["constant"]),
        (strictly("jvp", constant), ["does not require grad"]),
        (strictly("jvp", half), ["input 1"]),
        (strictly("vhp", linear), ["constant"]),
        (strictly("hvp", linear), ["constant"]),
    ],
)
def test_strict_raises_where_torchs_does_and_says_what_is_missing(program: Program, words: list[str]) -> None:
    both_raise(program, "strict", *words)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda lib: functional(lib).hessian(lambda x: x, point(lib)), ["hessian()", "(2, 3)", "single element"]),
        (lambda lib: functional(lib).hessian(lambda x: (x.sum(),), point(lib)), ["one tensor"]),
        (lambda lib: functional(lib).vhp(lambda x: x, point(lib), point(lib)), ["vhp()", "single element"]),
        (lambda lib: functional(lib).hvp(lambda x: (x.sum(),), point(lib), point(lib)), ["one tensor"]),
        (lambda lib: functional(lib).vjp(lambda x: x, point(lib)), ["vjp()", "left out", "(2, 3)"]),
        (lambda lib: functional(lib).jvp(lambda x: x, point(lib)), ["jvp()", "left out"]),
        (lambda lib: functional(lib).vhp(scalar, point(lib)), ["vhp()", "left out"]),
        (lambda lib: functional(lib).vjp(lambda x: x, point(lib), other(lib)), ["v[0]", "(3,)", "(2, 3)"]),
        (lambda lib: functional(lib).jvp(two_to_one, inputs(lib, two_to_one), other(lib)), ["1 tensors", "are 2"]),
        (lambda lib: functional(lib).jacobian(lambda x: x, lib.constant(1, dtype=torch.int64)), ["floating point"]),
    ],
)
def test_a_wrong_call_raises_as_torchs_does_and_says_what_to_do(
    program: Callable[[Library], Any], words: list[str]
) -> None:
    both_raise(program, *words)


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_what_is_no_tensor_is_a_type_error_as_in_torch(name: str) -> None:
    for lib in (OURS, TORCH):
        call = getattr(functional(lib), name)
        with pytest.raises(TypeError, match=name):
            call(lambda x: x, [1.0])
        with pytest.raises(TypeError, match=name):
            call(lambda x, y: x, (lib.constant(1.0), 2.0))
        with pytest.raises(TypeError, match=name):
            call(lambda x: 3.0, lib.constant(1.0))
    with pytest.raises(TypeError, match=r"its element 1 is float: make a Tensor with nbgrad.tensor"):
        nbgrad.jacobian(lambda x, y: x, (tensor(1.0), 2.0))  # type: ignore[arg-type]


# Other arguments of grad: the same as torch's.


def no_inputs(lib: Library) -> tuple[Any, ...]:
    return lib.grad(lib.leaf(1.0) * 2, [])


def one_seed_for_two(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    return lib.grad([x * 2, x * 3], x, lib.constant(1.0))


def an_output_without_history(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    return lib.grad([x * 2, lib.constant(1.0)], x)


def a_seed_of_another_shape(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    return lib.grad(x * 2, x, lib.constant(1.0, 2.0, 3.0))


@pytest.mark.parametrize("program", [no_inputs, one_seed_for_two, an_output_without_history, a_seed_of_another_shape])
def test_grad_refuses_what_torchs_does(program: Program) -> None:
    both_raise(program)


def test_unused_inputs_are_zeros_with_materialize_grads_as_in_torch() -> None:
    def program(lib: Library) -> Any:
        x, z = lib.leaf(1.0, 2.0), lib.leaf([[1.0, 2.0]])
        plain = lib.grad((x**2).sum(), [x, z], materialize_grads=True)
        return plain, lib.grad((x**2).sum(), [z, x], create_graph=True, materialize_grads=True)

    need("materialize_grads")
    compare(program)


def test_unused_inputs_are_either_zeros_or_an_error() -> None:
    for lib in (OURS, TORCH):
        x = lib.leaf(1.0)
        with pytest.raises(ValueError, match="allow_unused"):
            lib.grad(x * 2, x, allow_unused=False, materialize_grads=True)


# Every row, to the fourth order.


def small(row: Op) -> list[Sample]:
    """A few of the row's samples: the first small ones, and the last ones, which test special points."""
    ready = [sample for sample in rows.samples(row) if rows.differentiable(row, sample)]
    sizes = [sum(a.numel() for a in tensors_of(sample)) for sample in ready]
    fit = [sample for sample, size in zip(ready, sizes, strict=True) if 0 < size <= 14]
    if not fit:  # then only the smallest sample
        return [min(zip(ready, sizes, strict=True), key=lambda pair: pair[1] or torch.inf)[0]]
    if row.name.startswith(("linalg_", "cholesky_", "ormqr")):  # their third and fourth order take seconds each
        return fit[:1]
    return fit if len(fit) < 7 else [*fit[:4], *fit[-3:]]


def tensors_of(sample: Sample) -> list[torch.Tensor]:
    return [arg for arg in sample.args if isinstance(arg, torch.Tensor)]


def number(lib: Library, parts: list[Any], curve: Callable[[Any], Any]) -> Any:
    """One real number from several tensors. Each element has its own weight."""
    terms = []
    for part in parts:
        term = (curve(part) * rows.weights(lib.raw(part))).sum()
        terms.append(term.real if term.is_complex() else term)
    return sum(terms[1:], terms[0])


def derivatives(lib: Library, call: Callable[..., Any], row: Op, sample: Sample) -> list[torch.Tensor]:
    """The first to fourth derivatives of one number, which depends on the outputs in a nonlinear way.

    For torch they stop where its own kernels can no longer be differentiated.
    """
    wanted = rows.differentiable(row, sample)
    make = tensor if lib is OURS else torch.Tensor.clone
    args = [make(a.clone()) if isinstance(a, torch.Tensor) else a for a in sample.args]
    leaves = [args[i].requires_grad_() for i in wanted]
    outputs = [out for out in rows.live(row, call(*args, **sample.settings)) if out.requires_grad]
    value = number(lib, outputs, lambda out: (out * out + 1).sqrt())
    found: list[torch.Tensor] = []
    for _ in range(ORDERS.get(row.name, (4,))[0]):
        if not value.requires_grad:  # the last gradient was a constant, so the rest are zeros
            found += [torch.zeros_like(lib.raw(leaf)) for leaf in leaves]
            continue
        try:
            slopes = lib.grad(value, leaves, create_graph=True, materialize_grads=True)
        except RuntimeError as error:
            if lib is OURS or not any(words in str(error) for words in ("not implemented", "not differentiable")):
                raise
            break
        found += [lib.raw(slope) for slope in slopes]
        value = number(lib, list(slopes), lambda slope: slope)
    return found


ORDERS = {
    "batch_norm": (2, "torch's second order takes the saved mean for a constant, so that its third is wrong"),
    "batch_norm_backward": (1, "torch's second order takes the saved mean for a constant, so that its third is wrong"),
    "gelu": (2, "torch's is nan at the far ends from the third order on, with the tanh approximation: ours is 0"),
    "layer_norm": (2, "torch's second order takes the saved mean for a constant, so that its third is wrong"),
    "layer_norm_backward": (1, "torch's second order takes the saved mean for a constant, so that its third is wrong"),
    "soft_margin_loss_backward": (1, "torch's is nan in its second order where its exponential overflows"),
}
"""The highest order to which nbgrad's and torch's derivatives of a row are right, and the reason."""


@pytest.mark.sampled(16)
@pytest.mark.parametrize("row", [row for row in OPS.values() if row.differentiable], ids=lambda row: row.name)
def test_derivatives_to_the_fourth_order_equal_torchs(row: Op) -> None:
    for sample in rows.comparable(row, small(row)):
        run = rows.of(row, sample)
        ours = derivatives(OURS, row, run, sample)
        theirs = derivatives(TORCH, rows.reference(row), run, sample)
        assert len(theirs) >= len(rows.differentiable(row, sample)), "torch has no gradient"
        for order, (mine, yours) in enumerate(zip(ours, theirs, strict=False)):
            rows.close(mine, yours, f"{row.name}({rows.describe(sample)}), derivative {order}")


def test_a_rule_that_is_wrong_only_at_third_order_fails() -> None:
    """Checks the test above with a rule whose second-order part is wrongly a constant."""

    def quartic(lib: Library) -> Callable[[Any], Any]:
        return lambda x: x**4 if lib is TORCH else x * x * x * x

    row = OPS["exp"]
    sample = Sample.of(torch.tensor([0.5, 1.5], dtype=torch.float64))
    right = derivatives(TORCH, quartic(TORCH), row, sample)
    for ours, theirs in zip(derivatives(OURS, quartic(OURS), row, sample), right, strict=True):
        rows.close(ours, theirs, "quartic")
    cut = derivatives(OURS, lambda x: x * x * (x * x).detach() * 2 - (x * x).detach() ** 2, row, sample)
    rows.close(cut[0], right[0], "first order")
    with pytest.raises(AssertionError):
        rows.close(cut[2], right[2], "third order")


def test_a_row_that_nothing_leads_to_is_zeros_among_those_that_can_be_differentiated() -> None:
    class FirstAlone(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * gradients[0] if gradients[0][0] else None

    x = nbgrad.tensor([3.0, 4.0], requires_grad=True)
    found = nbgrad.jacobian(FirstAlone.apply, x, create_graph=True)
    assert found.tolist() == [[6.0, 0.0], [0.0, 0.0]]
    found.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0]

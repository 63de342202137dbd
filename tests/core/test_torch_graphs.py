"""torch.autograd.Function and custom ops on our tensors: values, gradients of any order and errors are torch's."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn as tnn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import nbgrad
from tests.core.live_memory import Live
from tests.core.programs import OURS, TORCH, Library, Program, agree, both_raise, garbage

Function: Any = torch.autograd.Function
SEEN: list[Any] = []


class Cube(Function):
    """x ** 3, with a count of its backwards."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        assert type(x) is torch.Tensor
        ctx.save_for_backward(x)
        ctx.power = 3
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ctx.power * x**2 * g


class Affine(Function):
    """Three inputs, one of them a number, and two outputs. Records which gradients were asked for."""

    @staticmethod
    def forward(x: Any, w: Any, shift: float = 1.0) -> Any:
        return x * w, x + shift

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, shift = inputs
        ctx.save_for_backward(x, w)
        SEEN.append(("shift", shift, len(output)))

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, w = ctx.saved_tensors
        SEEN.append((ctx.needs_input_grad, g is None, h is None))
        return g * w + h, g * x if ctx.needs_input_grad[1] else None, None


class Bare(Function):
    """Gets None for an output whose gradient did not arrive."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3, "word"

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any, _: Any) -> Any:
        SEEN.append((g is None, h is None))
        return (0 if g is None else g * 2) + (0 if h is None else h * 3)


class Sorted(Function):
    """Its second output has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        values, places = x.sort()
        marks = x * 0 + 1
        ctx.mark_non_differentiable(marks)
        ctx.save_for_backward(places)
        return values, places, marks

    @staticmethod
    def backward(ctx: Any, g: Any, _places: Any, _marks: Any) -> Any:
        return torch.zeros_like(g).scatter(0, ctx.saved_tensors[0], g)


class Doubled(Function):
    """In place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g


class Same(Function):
    """Returns its input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 10


class Listed(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, numbers: Any, table: Any = None) -> Any:
        SEEN.append([type(one) is torch.Tensor for one in numbers])
        return x * numbers[0]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 5, None, None


@torch.library.custom_op("nbgrad_tests::product", mutates_args=())
def product(x: torch.Tensor, w: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return x * w * scale


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.scale = inputs[2]


def _product_backward(ctx: Any, g: Any) -> Any:
    x, w = ctx.saved_tensors
    return g * w * ctx.scale, g * x * ctx.scale, None


torch.library.register_autograd("nbgrad_tests::product", _product_backward, setup_context=_keep)


@torch.library.custom_op("nbgrad_tests::sums", mutates_args=())
def sums(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x.sum() for x in xs]


def _sums_backward(ctx: Any, gs: Any) -> Any:
    return [g.expand(shape) for g, shape in zip(gs, ctx.shapes, strict=True)]


torch.library.register_autograd(
    "nbgrad_tests::sums", _sums_backward, setup_context=lambda ctx, inputs, output: _shapes(ctx, inputs)
)


def _shapes(ctx: Any, inputs: Any) -> None:
    ctx.shapes = [x.shape for x in inputs[0]]


@torch.library.custom_op("nbgrad_tests::silent", mutates_args=())
def silent(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("nbgrad_tests::fill", mutates_args=("out",))
def fill(out: torch.Tensor, x: torch.Tensor) -> None:
    out.copy_(x)


# Programs.


def one_input(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = Cube.apply(x * 2)
    y.sum().backward()
    return y, x.grad, y.requires_grad


def third_order(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = Cube.apply(x.exp()).sum()
    (first,) = lib.grad(y, x, create_graph=True)
    (second,) = lib.grad((first * first).sum(), x, create_graph=True)
    (third,) = lib.grad(second.sin().sum(), x)
    return first, second, third


def second_order_of_the_gradient(lib: Library) -> tuple[Any, ...]:
    x, g = lib.leaf(1.0, 2.0), lib.leaf(0.5, 3.0)
    (first,) = lib.grad(Cube.apply(x), x, g, create_graph=True)
    return (first, *lib.grad((first * first).sum(), [x, g]))


def second_order_of_what_is_linear(lib: Library) -> tuple[Any, ...]:
    x, g = lib.leaf(1.0, 2.0), lib.leaf(0.5, 3.0)
    (first,) = lib.grad(Same.apply(x), x, g, create_graph=True)
    return (first, *lib.grad((first * first).sum(), [x, g], allow_unused=True))


def several(lib: Library) -> tuple[Any, ...]:
    SEEN.clear()
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    a, b = Affine.apply(x, w, 5.0)
    (a * b).sum().backward(retain_graph=True)
    a.sum().backward(retain_graph=True)
    (only,) = lib.grad(b.sum(), x, retain_graph=True)
    (also,) = lib.grad(a.sum(), w)
    return a, b, x.grad, w.grad, only, also, SEEN[:]


def by_default(lib: Library) -> tuple[Any, ...]:
    SEEN.clear()
    x, w = lib.leaf(1.0, 2.0), lib.constant(3.0, 4.0)
    a, b = Affine.apply(x, w=w)
    (a + b).sum().backward()
    return a, b, x.grad, SEEN[:]


def without_materializing(lib: Library) -> tuple[Any, ...]:
    SEEN.clear()
    x = lib.leaf(1.0, 2.0)
    a, b, word = Bare.apply(x)
    a.sum().backward(retain_graph=True)
    (a * b).sum().backward()
    return x.grad, word, SEEN[:]


def not_differentiable(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(3.0, 1.0, 2.0)
    values, places, marks = Sorted.apply(x)
    (values * values * marks).sum().backward()
    return values, places, marks, x.grad, marks.requires_grad, places.requires_grad, values.requires_grad


def in_place(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0, 3.0)
    y = x * 1
    same = Doubled.apply(y)
    z = x * 1
    view = z[1:]
    Doubled.apply(view)
    ((y * y).sum() + (z * z).sum()).backward()
    return y, z, x.grad, same is y


def in_place_without_a_gradient(lib: Library) -> tuple[Any, ...]:
    x = lib.constant(1.0, 2.0)
    y = Doubled.apply(x)
    with torch.no_grad():
        z = lib.leaf(1.0, 2.0)
        Doubled.apply(z)
    return x, y, z, y.requires_grad


def what_is_returned_as_it_came(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = Same.apply(x)
    y.sum().backward()
    return y, y is x, x.grad


def a_list_of_numbers(lib: Library) -> tuple[Any, ...]:
    SEEN.clear()
    x = lib.leaf(1.0, 2.0)
    y = Listed.apply(x, [lib.constant(5.0)], {"a": 1})
    y.sum().backward()
    return y, x.grad, SEEN[:]


def without_recording(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    with torch.no_grad():
        y = Cube.apply(x)
    return y, y.requires_grad, Cube.apply(x.detach()).requires_grad


def twice_through(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = Cube.apply(Cube.apply(x)) * Cube.apply(x)
    y.sum().backward()
    return y, x.grad


def in_a_checkpoint(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(0.5, 0.25)
    y = checkpoint(lambda t: Cube.apply(t.exp()).sin(), x, use_reentrant=False)
    (first,) = lib.grad(y.sum(), x, create_graph=True)
    return first, *lib.grad(first.sum(), x)


def hooks(lib: Library) -> tuple[Any, ...]:
    seen: list[Any] = []
    x = lib.leaf(1.0, 2.0)
    h = x * 1
    h.register_hook(lambda g: g * 2)
    y = Cube.apply(h)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    return x.grad, seen


def a_custom_op(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    y = product(x, w, scale=2.0) + torch.ops.nbgrad_tests.product(x, w) + torch.ops.nbgrad_tests.product.default(w, w)
    (first,) = lib.grad((y * y).sum(), x, create_graph=True)
    first.sum().backward()
    return y, first, x.grad, w.grad


def a_custom_op_of_a_list(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0)
    a, b = sums([x * 1, w])
    (a * b).sum().backward()
    return a, b, x.grad, w.grad


def a_custom_op_that_fills(lib: Library) -> tuple[Any, ...]:
    x, y = lib.leaf(1.0, 2.0), lib.constant(0.0, 0.0)
    with torch.no_grad():
        fill(y, x)
    z = x * y
    z.sum().backward()
    return y, z, x.grad


PROGRAMS = (
    *(one_input, third_order, second_order_of_the_gradient, second_order_of_what_is_linear, several, by_default),
    *(without_materializing, not_differentiable, in_place, in_place_without_a_gradient, what_is_returned_as_it_came),
    *(a_list_of_numbers, without_recording, twice_through, in_a_checkpoint, hooks, a_custom_op, a_custom_op_of_a_list),
    *(a_custom_op_that_fills,),
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_is_torchs(program: Program) -> None:
    agree(program)


# Errors.


def a_second_order_that_is_not_there(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (first,) = lib.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    first.sum().backward()
    return ()


def test_a_second_order_that_torch_does_not_miss_either_way() -> None:
    """torch raises only in ``backward()``, and only if the incoming gradient itself needs a gradient."""
    for factor in (1.0, nbgrad.tensor([1.0, 2.0], requires_grad=True)):
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (first,) = nbgrad.grad((Once.apply(x) * factor).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            nbgrad.grad(first.sum(), x)


def a_leaf_in_place(lib: Library) -> tuple[Any, ...]:
    return (Doubled.apply(lib.leaf(1.0, 2.0)),)


def a_saved_value_changed(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    h = x * 1
    y = Cube.apply(h)
    h.mul_(2)
    y.sum().backward()
    return ()


def a_second_backward(lib: Library) -> tuple[Any, ...]:
    y = Cube.apply(lib.leaf(1.0, 2.0)).sum()
    y.backward()
    y.backward()
    return ()


def no_gradient_registered(lib: Library) -> tuple[Any, ...]:
    silent(lib.leaf(1.0, 2.0)).sum().backward()
    return ()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (a_second_order_that_is_not_there, "once_differentiable"),
        (a_leaf_in_place, "leaf"),
        (a_saved_value_changed, "inplace"),
        (a_second_backward, "second time"),
        (no_gradient_registered, "autograd"),
    ],
)
def test_the_error_is_torchs(program: Program, words: str) -> None:
    both_raise(program, words)


def test_what_would_lose_a_gradient_is_refused() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Listed.apply\(\) got an nbgrad tensor that requires grad inside a list"):
        Listed.apply(x, [x])
    with pytest.raises(NotImplementedError, match=r"fill.* changes its arguments in place, which nbgrad cannot record"):
        fill(nbgrad.zeros(2), x)


def test_a_function_that_uses_our_parameters_on_the_way_is_refused() -> None:
    w = nbgrad.tensor([3.0, 4.0], requires_grad=True)

    class Hidden(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(RuntimeError, match=r"mul\(\) inside a torch.autograd.Function, on an nbgrad tensor"):
        Hidden.apply(nbgrad.tensor([1.0, 2.0], requires_grad=True))


# Reentrant checkpoints, which are a torch.autograd.Function.


def reentrant(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(0)
    runs: list[int] = []
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)

    def fn(h: Any, factor: float) -> Any:
        y = torch.nn.functional.dropout(h * w, 0.5).exp() * factor
        runs.append(1)
        return y

    y = checkpoint(fn, x * 0.1, 0.5, use_reentrant=True)
    noise = torch.rand(2)
    y.sum().backward()
    return y, x.grad, w.grad, noise, torch.rand(2), runs


def reentrant_without_a_gradient(lib: Library) -> tuple[Any, ...]:
    x, w = lib.constant(1.0, 2.0), lib.leaf(3.0, 4.0)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = checkpoint(lambda h: h * w, x, use_reentrant=True)
    return y, y.requires_grad


@pytest.mark.parametrize("program", [reentrant, reentrant_without_a_gradient])
def test_a_reentrant_checkpoint_is_torchs(program: Program) -> None:
    agree(program)


# In a model, a graph, and memory.


class Model(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = tnn.Linear(3, 4), tnn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.last(product(Cube.apply(self.first(x)), torch.full((4,), 2.0)))


def test_a_converted_model_is_torchs() -> None:
    theirs = Model()
    ours = nbgrad.from_torch(theirs)
    x = torch.randn(5, 3)
    expected, found = theirs(x), ours(nbgrad.tensor(x))
    torch.testing.assert_close(found.data, expected.detach())
    expected.square().sum().backward()
    found.square().sum().backward()
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)


def test_a_graph_shows_the_function_and_its_gradient() -> None:
    x, w = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        product(Cube.apply(x), w).sum().backward()
        records = [record for record in graph.records if record.op is not None]
        assert [record.op.name for record in records] == ["Cube", "product", "sum"]
        assert [record.op.inputs for record in records[:2]] == [("x",), ("x", "w")]
        assert "Cube" in graph.to_text() if hasattr(graph, "to_text") else True


def test_memory_is_that_of_torchs_graph_and_nothing_is_left() -> None:
    with garbage() as found:
        x = nbgrad.tensor(torch.ones(1000), requires_grad=True)
        with Live() as live:
            y = Same.apply(Same.apply(Same.apply(x * 1)))
            assert live.now <= 2 * 4000, "a function that saves nothing keeps nothing but its result"
            held = weakref.ref(y.grad_fn)
            y.sum().backward()
        del y
        gc.collect()
        assert held() is None
    assert not found


def test_what_torch_records_is_let_go_in_a_checkpoint() -> None:
    x = nbgrad.tensor(torch.ones(1000), requires_grad=True)
    with Live() as live:
        y = nbgrad.checkpoint(lambda t: Cube.apply(Cube.apply(Cube.apply(t * 1))), x)
        assert live.now <= 2 * 4000
        y.sum().backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore")
def test_torchs_compiler_still_knows_apply() -> None:
    def program(x: Any) -> Any:
        return Cube.apply(Same.apply(x)) * 2

    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(program, backend="eager", fullgraph=True)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 60.0))


def test_torchs_own_tensors_are_torchs() -> None:
    x = torch.ones(2, requires_grad=True)
    y = Cube.apply(x)
    assert type(y) is torch.Tensor
    assert type(y.grad_fn).__name__ == "CubeBackward"
    assert OURS is not TORCH

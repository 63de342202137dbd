"""Functions of the user's own, run as torch's are: the same class body on both."""

import gc
import weakref
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.programs import OURS, TORCH, Library, agree, both_raise, error, garbage


def base(lib: Library) -> type:
    """The class to derive from."""
    return torch.autograd.Function if lib is TORCH else nbgrad.Function


def once(lib: Library) -> Any:
    return torch.autograd.function.once_differentiable if lib is TORCH else nbgrad.once_differentiable


def cube(lib: Library) -> Any:
    class Cube(base(lib)):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    return Cube.apply


def scaled(lib: Library) -> Any:
    """Inputs: two tensors and a number. Outputs: two tensors. One output is saved."""

    class Scaled(base(lib)):
        @staticmethod
        def forward(ctx: Any, a: Any, k: float, b: Any) -> Any:
            product = (a * b * k).exp()
            ctx.save_for_backward(a, b, product)
            ctx.k = k
            return product, a + b

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            a, b, product = ctx.saved_tensors
            inner = first * product * ctx.k
            return inner * b + second, None, inner * a + second

    return Scaled.apply


def cube_set_up_apart(lib: Library) -> Any:
    class Cube(base(lib)):
        @staticmethod
        def forward(x: Any, power: int) -> Any:
            return x**power

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            x, ctx.power = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * ctx.power * y / x, None

    return Cube


@pytest.mark.parametrize("kind", ["leaves", "results", "frozen"])
def test_what_was_saved_can_be_differentiated_by(kind: str) -> None:
    """The adjoint method: the backward runs the forward again, and differentiates it by the saved parameters."""

    def program(lib: Library) -> tuple[Any, ...]:
        facts: list[bool] = []

        class Adjoint(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any, f: Any, *params: Any) -> Any:
                ctx.f = f
                ctx.save_for_backward(x, *params)
                with lib.ops.no_grad():
                    return f(x)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                x, *params = ctx.saved_tensors
                facts.extend(one.requires_grad for one in params)
                if kind == "leaves":
                    facts.extend(one is param for one, param in zip(params, used, strict=True))
                learned = [one for one in params if one.requires_grad]
                with lib.ops.enable_grad():
                    x = x.detach().requires_grad_(True)
                    found = list(lib.grad(ctx.f(x), [x, *learned], g))
                return found.pop(0), None, *(found.pop(0) if one.requires_grad else None for one in params)

        leaves = lib.leaf([2.0, 3.0], [4.0, 5.0]), lib.leaf(6.0, 7.0)
        used = [leaf * 1 for leaf in leaves] if kind == "results" else list(leaves)
        leaves[1].requires_grad_(kind != "frozen")
        x = lib.leaf(1.0, -1.0)
        (Adjoint.apply(x, lambda one: (used[0] @ one).exp() * used[1], *used) * 3).sum().backward()
        return x.grad, *(leaf.grad for leaf in leaves), *facts

    agree(program)


def test_a_saved_leaf_changed_in_place_is_still_noticed() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = cube(lib)(x)
        with lib.ops.no_grad():
            x.mul_(2)
        y.sum().backward()
        return ()

    both_raise(program, "Cube", "changed")


def test_a_saved_leaf_is_kept_no_longer_than_before() -> None:
    with garbage() as left:
        x = OURS.leaf(1.0, 2.0)
        y = cube(OURS)(x)
        y.sum().backward(retain_graph=True)
        gone = weakref.ref(x)
        del x
        assert gone() is None
        y.sum().backward()
        del y
    assert left == []


def test_a_context_that_is_set_up_apart() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(0.5, -1.0, 2.0)
        y = cube_set_up_apart(lib).apply(x, 3)
        (first,) = lib.grad(y.sum(), [x], create_graph=True)
        (second,) = lib.grad(first.sum(), [x])
        return y, first, second

    agree(program)
    with nbgrad.AutogradGraph() as graph:
        y = cube_set_up_apart(OURS).apply(OURS.leaf(1.0), 3)
        made = graph.records[-1]
    assert y.item() == 1.0
    assert (made.op.name, [(one.name, one.literal) for one in made.inputs]) == ("Cube", [("x", None), ("power", 3)])


def test_value_and_gradients_of_first_to_third_order_equal_torchs() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(0.5, -1.0, 2.0)
        y = cube(lib)(x)
        (first,) = lib.grad(y.sum(), [x], create_graph=True)
        (second,) = lib.grad(first.sum(), [x], create_graph=True)
        (third,) = lib.grad(second.sum(), [x])
        return y, first, second, third

    agree(program)


def test_several_inputs_and_outputs_equal_torchs_to_second_order() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(0.3, 0.7), lib.leaf(-0.2, 0.4)
        p, q = scaled(lib)(a, 2.0, b)
        first = lib.grad((p * q).sum(), [a, b], create_graph=True)
        second = lib.grad((first[0] * first[1]).sum(), [a, b])
        return p, q, *first, *second

    agree(program)


@pytest.mark.parametrize("used", [0, 1])
def test_an_output_that_no_gradient_reached_counts_as_zero(used: int) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(0.3, 0.7), lib.leaf(-0.2, 0.4)
        scaled(lib)(a, 2.0, b)[used].sum().backward()
        return a.grad, b.grad

    agree(program)


def test_without_materializing_it_is_none() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        seen = []

        class Twice(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.set_materialize_grads(False)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx: Any, first: Any, second: Any) -> Any:
                seen.extend([first is None, second is None])
                return second * 2

        x = lib.leaf(1.0, 2.0)
        Twice.apply(x)[1].sum().backward()
        return x.grad, *seen

    agree(program)


def test_an_output_without_a_gradient() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        class Largest(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                shifted, mask = x + 1, x * 0
                ctx.mark_non_differentiable(mask)
                return shifted, mask

            @staticmethod
            def backward(ctx: Any, g: Any, _: Any) -> Any:
                return g * 5

        x = lib.leaf(1.0, 2.0)
        shifted, mask = Largest.apply(x)
        shifted.sum().backward()
        return x.grad, mask.requires_grad, shifted.requires_grad

    agree(program)


def test_needs_input_grad_says_which_inputs_need_one() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        seen = []

        class Product(base(lib)):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                seen.extend(ctx.needs_input_grad)
                a, b = ctx.saved_tensors
                return g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None

        a, b = lib.leaf(2.0, 3.0), lib.constant(4.0, 5.0)
        Product.apply(a, b).sum().backward()
        return a.grad, *seen

    agree(program)


def test_nothing_is_recorded_inside_or_where_nothing_needs_a_gradient() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        with lib.ops.no_grad():
            off = cube(lib)(x)
        constant = cube(lib)(lib.constant(1.0))
        return off, off.requires_grad, constant.requires_grad, cube(lib)(x).is_leaf

    agree(program)


def test_it_raises_where_torch_raises() -> None:
    def twice(lib: Library) -> tuple[Any, ...]:
        y = cube(lib)(lib.leaf(1.0, 2.0)).sum()
        y.backward()
        y.backward()
        return ()

    def changed(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = cube(lib)(x)
        lib.raw(x).add_(1)
        y.sum().backward()
        return ()

    def too_few(lib: Library) -> tuple[Any, ...]:
        class Lazy(base(lib)):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                return a * b

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

        Lazy.apply(lib.leaf(1.0), lib.leaf(2.0)).sum().backward()
        return ()

    def wrong_shape(lib: Library) -> tuple[Any, ...]:
        class Wrong(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return lib.constant(1.0, 2.0, 3.0, 4.0)

        Wrong.apply(lib.leaf(1.0, 2.0, 3.0)).sum().backward()
        return ()

    both_raise(twice, "a second time", "Cube")
    both_raise(changed, "Cube", "saved_tensors[0]", "in-place")
    both_raise(too_few, "Lazy", "1 gradients for 2 inputs")
    both_raise(wrong_shape, "Wrong", "(4,)", "(3,)")


def test_once_differentiable_refuses_the_second_order() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        class Square(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once(lib)
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2 * ctx.saved_tensors[0]

        x = lib.leaf(1.0, 2.0)
        Square.apply(x).sum().backward()
        (first,) = lib.grad(Square.apply(x).sum(), [x], create_graph=True)
        first.sum().backward()
        return (x.grad,)

    both_raise(program, "once_differentiable")
    x = tensor([3.0], requires_grad=True)
    assert "once_differentiable" not in error(lambda lib: (cube(lib)(lib.leaf(1.0)),), OURS)
    assert x.grad is None


def test_an_error_in_the_users_code_leaves_the_engine_usable() -> None:
    class Broken(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise ValueError("mine")

    x = tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="mine"):
        Broken.apply(x).sum().backward()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_misuse_is_explained() -> None:
    class Raw(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x.data * 2

    class Dirty(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.mark_dirty(x)
            return x * 1

    class Stranger(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.mark_dirty(made := x * 1)
            return made

    class Saves(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.save_for_backward(3)

    class Early(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return ctx.saved_tensors

    class Empty(nbgrad.Function):
        pass

    x = tensor([1.0], requires_grad=True)
    for function, kind, words in (
        (Raw, TypeError, r"Raw.forward returned Tensor of torch: .*nbgrad.tensor\(t\)"),
        (Dirty, RuntimeError, "Dirty.forward marks an input as dirty that it does not return"),
        (Stranger, ValueError, "Stranger.forward marks a tensor as dirty that is none of its inputs"),
        (Saves, TypeError, "takes tensors, not int"),
        (Early, RuntimeError, "only there inside backward"),
        (Empty, NotImplementedError, "needs a static method forward"),
    ):
        with pytest.raises(kind, match=words):
            function.apply(x)


def test_a_saved_tensor_that_is_returned_does_not_become_the_gradient_itself() -> None:
    class Scale(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(weight)
            return (x * weight).sum()

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return ctx.saved_tensors[0], None

    x, weight = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0])
    Scale.apply(x, weight).backward()
    x.grad.data.zero_()
    assert weight.tolist() == [3.0, 4.0]


def test_a_gradient_that_was_made_in_the_forward_is_as_good_for_every_backward() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        seen: list[Any] = []

        class Loss(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.gradient = x * 2
                return (x * x).sum()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                seen.append(ctx.gradient)
                return ctx.gradient

        class Same(base(lib)):
            @staticmethod
            def forward(_ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(_ctx: Any, g: Any) -> Any:
                seen.append(g)
                return g

        x, z = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
        loss, scaled = Loss.apply(x), (Same.apply(z) * 3).sum()
        for _ in range(4):
            loss.backward(retain_graph=True)
            scaled.backward(retain_graph=True)
        return x.grad, z.grad, *seen

    agree(program)


def test_saved_inputs_that_share_memory_are_told_apart() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        class Product(base(lib)):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(x, y)
                return x * y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                x, y = ctx.saved_tensors
                return g * y, g * x

        x = lib.leaf(1.0, 2.0)
        y = x.detach().requires_grad_()
        first = lib.grad(Product.apply(x, y).sum(), [x, y], create_graph=True)
        return (*first, *lib.grad((first[0] * 3 + first[1]).sum(), [x, y]))

    agree(program)


def test_the_record_shows_it_as_one_op_with_its_own_name_and_inputs() -> None:
    with nbgrad.AutogradGraph() as graph:
        a, b = tensor([0.3], requires_grad=True), tensor([0.4], requires_grad=True)
        p, q = scaled(OURS)(a, 2.0, b)
        (p * q).sum().backward()
    function = next(record for record in graph.records if record.op is not None)
    assert function.op.name == "Scaled"
    assert [(taken.name, taken.literal) for taken in function.inputs] == [("a", None), ("k", 2.0), ("b", None)]
    assert [record.name or record.op.name for record in graph.records][:2] == ["a", "b"]


def test_it_leaves_no_garbage() -> None:
    with garbage() as left:
        a, b = tensor([0.3], requires_grad=True), tensor([0.4], requires_grad=True)
        p, q = scaled(OURS)(a, 2.0, b)
        (first,) = grad((p * q).sum(), [a], create_graph=True)
        first.sum().backward()
        dead = weakref.ref(p)
        del a, b, p, q, first
        assert dead() is None
    assert left == []


# Inputs that are changed in place.


def exp_in_place(lib: Library) -> Any:
    """Twice the exponential of the first input, in place; the second output is the sum of both inputs."""

    class Exp(base(lib)):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            total = x + y
            x.exp_().mul_(2)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x, total

        @staticmethod
        def backward(ctx: Any, g: Any, g_total: Any) -> Any:
            return g * ctx.saved_tensors[0] + g_total, g_total

    return Exp


def triple_in_place(lib: Library) -> Any:
    """Three times its input, in place."""

    class Triple(base(lib)):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    return Triple


def test_an_input_that_is_changed_in_place_is_the_result() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(0.1, 0.2), lib.leaf(0.3, 0.4)
        x = a * 2
        out, total = exp_in_place(lib).apply(x, b)
        end = x * b + total
        once = lib.grad((end * end).sum(), [a, b], create_graph=True)
        return (out is x, *once, *lib.grad(sum((one * one).sum() for one in once), [a, b]))

    agree(program)


def test_what_shares_memory_with_an_input_that_is_changed_in_place_follows() -> None:
    def view(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(0.1, 0.2), lib.leaf(0.3)
        x = a * 2
        triple_in_place(lib).apply(x[:1])
        return lib.grad((x * x * b).sum(), [a, b])

    def whole(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(0.1, 0.2), lib.leaf(0.3)
        x = a * 2
        one = x[:1]
        triple_in_place(lib).apply(x)
        return lib.grad((one * one * b).sum(), [a, b])

    def constant(lib: Library) -> tuple[Any, ...]:
        a, x = lib.leaf(0.1, 0.2), lib.constant(1.0, 2.0)
        out, _ = exp_in_place(lib).apply(x, a)
        return out is x, x.requires_grad, *lib.grad((x + a).sum(), [a])

    for program in (view, whole, constant):
        agree(program)


def test_a_function_may_change_a_constant_in_place_and_no_leaf() -> None:
    for lib in (OURS, TORCH):
        with pytest.raises(RuntimeError, match="leaf"):
            triple_in_place(lib).apply(lib.leaf(1.0, 2.0))
        x = lib.constant(1.0, 2.0)
        assert triple_in_place(lib).apply(x) is x
        assert x.tolist() == [3.0, 6.0]
        y = lib.leaf(1.0) * 1
        with lib.ops.no_grad():
            triple_in_place(lib).apply(y)
        assert y.tolist() == 3.0


def test_a_saved_view_that_is_changed_in_place_is_refused() -> None:
    x = tensor([0.1, 0.2], requires_grad=True) * 1
    with pytest.raises(NotImplementedError, match=r"Exp.forward changes a view in place and saves it"):
        exp_in_place(OURS).apply(x[:1], tensor([1.0]))


def test_a_change_in_place_by_a_function_is_drawn_once() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = tensor([1.0, 2.0], requires_grad=True) * 1
        triple_in_place(OURS).apply(x)
        x.sum().backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["mul", "Triple", "sum"]


def test_a_graph_keeps_nothing_alive_that_a_function_of_torchs_has_put_into_a_tuple() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, net: torch.nn.Module) -> torch.Tensor:
            result = x * 2
            ctx.several = [(result, net.forward)]  # the call is then kept by what it keeps
            return result

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            return gradient * 2, None

    net = torch.nn.Linear(3, 3)
    alive = weakref.ref(net)
    with nbgrad.AutogradGraph() as graph:
        Twice.apply(net(torch.ones(2, 3)), net).sum().backward()
    assert graph.findings() == []
    del net
    gc.collect()
    assert alive() is None

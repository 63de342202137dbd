"""Hooks on tensors and nodes, and gradients of tensors that an op made: as in torch."""

import weakref
from typing import Any

import pytest

from nbgrad.core.tensor.tensor import tensor
from tests.core.programs import OURS, Library, agree, both_raise, garbage


def test_a_hook_sees_the_complete_gradient_and_may_replace_it() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x * 3
        seen: list[Any] = []
        y.register_hook(lambda g: seen.append(g * 1))
        y.register_hook(lambda g: g * 10)
        y.register_hook(lambda g: seen.append(g * 1))
        (y * y + y).sum().backward()
        return x.grad, *seen

    agree(program)


def test_a_hook_on_a_leaf_runs_before_its_gradient_is_added() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        x.register_hook(lambda g: g * 2)
        for _ in range(2):
            (x * x).sum().backward()
        return (x.grad,)

    agree(program)


def test_a_removed_hook_runs_no_more() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0)
        calls: list[int] = []
        handle = x.register_hook(lambda _: calls.append(1))
        (x * 2).sum().backward()
        handle.remove()
        handle.remove()
        with x.register_hook(lambda _: calls.append(2)):
            (x * 2).sum().backward()
        (x * 2).sum().backward()
        return x.grad, calls

    agree(program)


def test_hooks_run_only_on_the_way_to_what_grad_was_asked_for() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
        seen: list[Any] = []
        for one in (w, other := w * w, used := x * w):
            one.register_hook(seen.append)
        found = lib.grad([used.sum(), other, w], [x], [None, lib.constant(1.0, 1.0), lib.constant(1.0, 1.0)])
        return *found, *seen

    agree(program)


def test_a_hook_can_be_part_of_a_second_order_gradient() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x**3
        y.register_hook(lambda g: g * g)
        (first,) = lib.grad((y * y).sum(), [x], create_graph=True)
        (second,) = lib.grad(first.sum(), [x])
        return first, second

    agree(program)


def test_retain_grad_keeps_the_gradient_of_what_an_op_made_and_accumulates() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x * 3
        before = y.retains_grad, x.retains_grad
        y.retain_grad()
        y.retain_grad()
        x.retain_grad()
        y.register_hook(lambda g: g * 5)
        loss = (y * y).sum()
        loss.backward(retain_graph=True)
        once = y.grad * 1
        loss.backward()
        return once, y.grad, x.grad, *before, y.retains_grad, x.retains_grad

    agree(program)


def test_retain_grad_of_a_view_outlives_a_change_of_its_base() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0, 3.0)
        base = x * 1
        used, unused = base[:2], base[1:]
        used.retain_grad()
        unused.retain_grad()
        before = (used * 5 + unused * 7).sum()
        base.mul_(2)
        (before + (used * used).sum() + base.sum()).backward()
        return x.grad, used.grad, unused.grad, used.retains_grad, unused.retains_grad

    agree(program)


def test_asking_for_a_gradient_that_is_not_kept_warns() -> None:
    y = tensor([1.0], requires_grad=True) * 2
    with pytest.warns(UserWarning, match=r"<mul>.*retain_grad\(\)"):
        assert y.grad is None


def test_a_hook_after_accumulation_sees_the_gradient() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        seen: list[Any] = []
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad * 1))
        (x * x).sum().backward()
        (x * x).sum().backward()
        return tuple(seen)

    agree(program)


def test_hooks_of_a_node_see_and_replace_gradients_on_both_sides() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
        y = a * b
        seen: list[Any] = []

        def after(inputs: Any, outputs: Any) -> Any:
            seen.extend(gradient * 1 for gradient in (*inputs, *outputs))
            return tuple(gradient * 2 for gradient in inputs)

        y.grad_fn.register_hook(after)
        y.grad_fn.register_prehook(lambda outputs: tuple(gradient * 10 for gradient in outputs))
        y.sum().backward()
        return a.grad, b.grad, *seen

    agree(program)


def test_a_node_hook_may_return_nothing_and_can_be_removed() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a = lib.leaf(1.0, 2.0)
        y = a * 2
        calls: list[str] = []
        first = y.grad_fn.register_hook(lambda *_: calls.append("after"))
        second = y.grad_fn.register_prehook(lambda *_: calls.append("before"))
        loss = y.sum()
        loss.backward(retain_graph=True)
        first.remove()
        second.remove()
        loss.backward()
        return a.grad, sorted(calls)

    agree(program)


def test_misuse_raises_where_torch_raises() -> None:
    def no_gradient(lib: Library) -> tuple[Any, ...]:
        lib.constant(1.0).register_hook(lambda g: g)
        return ()

    def nothing_to_retain(lib: Library) -> tuple[Any, ...]:
        lib.constant(1.0).retain_grad()
        return ()

    def no_leaf(lib: Library) -> tuple[Any, ...]:
        (lib.leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda leaf: None)
        return ()

    def wrong_shape(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        x.register_hook(lambda _: lib.constant(1.0, 2.0, 3.0))
        (x * 2).sum().backward()
        return ()

    def wrong_count(lib: Library) -> tuple[Any, ...]:
        y = lib.leaf(1.0) * 2
        y.grad_fn.register_hook(lambda inputs, outputs: (*inputs, *inputs, *inputs))
        y.sum().backward()
        return ()

    def a_value_after_the_gradient(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0)
        x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad * 2)
        (x * 2).backward()
        return ()

    both_raise(a_value_after_the_gradient, "None", "in place")
    both_raise(no_gradient, "register_hook()", "never be called")
    both_raise(nothing_to_retain, "retain_grad()")
    both_raise(no_leaf, "leaf")
    both_raise(wrong_shape, "(2,)", "(3,)")
    both_raise(wrong_count, "hook of mul", "returned")


def test_a_hook_may_not_change_the_shape_or_the_element_type() -> None:
    def changed(register: str, change: Any) -> Any:
        def program(lib: Library) -> tuple[Any, ...]:
            y = lib.leaf(1.0, 2.0) + 2
            if register == "tensor":
                y.register_hook(change)
            else:
                y.grad_fn.register_prehook(lambda gradients: (change(gradients[0]),))
            (y * 3).sum().backward()
            return ()

        return program

    both_raise(changed("tensor", lambda g: g.float()), "float32", "float64")
    both_raise(changed("tensor", lambda g: g[:1]), "(1,)", "(2,)")
    both_raise(changed("node", lambda g: g.float()), "prehook of add", "float32", "float64")
    both_raise(changed("node", lambda g: g[:1]), "prehook of add", "(1,)", "(2,)")


def test_what_a_hook_has_seen_or_made_is_not_changed_by_a_later_backward() -> None:
    def hooked(kind: str) -> Any:
        def program(lib: Library) -> tuple[Any, ...]:
            x, mine = lib.leaf(1.0, 2.0), lib.constant(5.0, 6.0)
            held: list[Any] = []
            for _ in range(3):
                inner, last = x + 1, x * 1
                if kind == "leaf":
                    x.register_hook(held.append)
                elif kind == "replaced":
                    x.register_hook(lambda _: mine)
                elif kind == "result":
                    inner.register_hook(held.append)
                elif kind == "before":
                    inner.grad_fn.register_prehook(held.extend)
                else:
                    last.grad_fn.register_hook(lambda inputs, _: held.append(inputs[0]))
                (last if kind == "after" else inner * 3).sum().backward()
            return x.grad, mine, *held

        return program

    for kind in ("leaf", "replaced", "result", "before", "after"):
        agree(hooked(kind))


def test_hooks_of_a_leaf_stay_when_it_is_frozen_and_when_its_data_are_replaced() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x, seen = lib.leaf(1.0, 2.0), []
        handle = x.register_hook(lambda g: g * 10)
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad * 1))
        (x * 2).sum().backward()
        x.requires_grad_(False)
        x.requires_grad_(True)
        (x * 3).sum().backward()
        x.grad = None
        x.data = lib.raw(lib.constant(3.0, 4.0, 5.0))
        (x * 4).sum().backward()
        handle.remove()
        (x * 5).sum().backward()
        return x.grad, *seen

    agree(program)


def test_a_hook_that_raises_leaves_every_gradient_as_it_was() -> None:
    def explode(_: Any) -> None:
        raise ValueError("mine")

    x, w = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)
    y = x * w
    y.register_hook(explode)
    with pytest.raises(ValueError, match="mine"):
        (y * w).sum().backward()
    assert (x.grad, w.grad) == (None, None)


def test_hooks_hold_no_tensor_beyond_their_origin() -> None:
    with garbage() as left:
        x = OURS.leaf(1.0, 2.0)
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
        dead = weakref.ref(y)
        del y
        assert dead() is None
        del x
    assert left == []


# Where each hook stands


def _times(seen: list[Any], factor: float) -> Any:
    def hook(g: Any) -> Any:
        seen.append(g[0] * 1 if isinstance(g, tuple) else g * 1)
        return tuple(one * factor for one in g) if isinstance(g, tuple) else g * factor

    return hook


ASKED: dict[str, Any] = {
    "grad": lambda lib, y, x: lib.grad((y * 3).sum(), [y]),
    "retain_grad": lambda lib, y, x: (y.retain_grad(), (y * 3).sum().backward(), y.grad, x.grad)[2:],
    "backward(inputs=)": lambda lib, y, x: ((y * 3).sum().backward(inputs=[y, x]), y.grad, x.grad)[1:],
    "grad with create_graph": lambda lib, y, x: lib.grad((y * y).sum(), [y], create_graph=True),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_gradient_of_a_tensor_is_the_one_after_its_hooks_and_before_those_of_its_node(asked: Any) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x * x
        seen: list[Any] = []
        y.grad_fn.register_prehook(_times(seen, 10.0))
        y.register_hook(_times(seen, 5.0))
        return *asked(lib, y, x), *seen

    agree(program)


def test_an_output_of_several_is_asked_for_before_the_hooks_of_their_node() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        a, b = lib.leaf(1.0, 2.0).unbind()
        a.grad_fn.register_prehook(lambda grads: tuple(g * 10 for g in grads))
        return lib.grad(a * 3 + b, [a, b])

    agree(program)


# A view is changed in place after it got a hook: the hook belongs to the old value, and to no part of the new one.

CHANGED: dict[str, Any] = {
    "the view, and its own backward": lambda x, y, v: (v.mul_(3), v * 2)[1],
    "the view, and the base's": lambda x, y, v: (v.mul_(3), y * 2)[1],
    "the base, and the view's": lambda x, y, v: (y.mul_(3), v * 2)[1],
    "the base, and its own": lambda x, y, v: (y.mul_(3), y * 2)[1],
    "another view": lambda x, y, v: (y[:1].mul_(3), v * 2)[1],
    "twice": lambda x, y, v: (v.mul_(3), v.mul_(x[:1]), v * 2)[2],
    "by its own values": lambda x, y, v: (v.mul_(v * 2), y * 2)[1],
    "with an output saved": lambda x, y, v: (v.exp_(), y * 2)[1],
}


@pytest.mark.parametrize("kind", ["hook", "prehook", "retain_grad", "hook and use"])
@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_a_hook_of_a_view_that_changes_is_called_as_torch_calls_it(changed: Any, kind: str) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(0.5, 2.0)
        y = x * 2
        v = y[:1]
        seen: list[Any] = []
        used = v + 1 if kind == "hook and use" else 0.0
        if kind == "retain_grad":
            v.retain_grad()
        elif kind == "prehook":
            v.grad_fn.register_prehook(_times(seen, 5.0))
        else:
            v.register_hook(_times(seen, 5.0))
        (changed(x, y, v) + used).sum().backward()
        return x.grad, len(seen), *seen, *([v.grad] if kind == "retain_grad" else [])

    agree(program)

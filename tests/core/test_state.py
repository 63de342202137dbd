"""State with a scope: recording on and off, scopes, and that everything is restored."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.engine.state import Scope, current, set_state
from nbgrad.core.tensor.tensor import tensor
from tests.core.programs import Library, agree, both_raise
from tests.core.tasks import finished


def nesting(lib: Library) -> tuple[Any, ...]:
    seen = [lib.ops.is_grad_enabled()]
    with lib.ops.no_grad():
        seen.append(lib.ops.is_grad_enabled())
        with lib.ops.enable_grad():
            seen.append(lib.ops.is_grad_enabled())
            with lib.ops.no_grad():
                seen.append(lib.ops.is_grad_enabled())
            seen.append(lib.ops.is_grad_enabled())
        seen.append(lib.ops.is_grad_enabled())
    return (*seen, lib.ops.is_grad_enabled())


def what_needs_a_gradient(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    with lib.ops.no_grad():
        off = x * 2
        made = lib.leaf(3.0)
        with lib.ops.enable_grad():
            on = x * 3
    (on * off * made).backward()
    return off.requires_grad, off.is_leaf, made.requires_grad, on.requires_grad, x.grad, made.grad


def decorator(lib: Library) -> tuple[Any, ...]:
    @lib.ops.no_grad()
    def double(x: Any, depth: int = 0) -> Any:
        return double(x, depth - 1) if depth else x * 2

    @lib.ops.enable_grad()
    def triple(x: Any) -> Any:
        return x * 3

    x = lib.leaf(1.0)
    with lib.ops.no_grad():
        inside = triple(x).requires_grad
    return double(x, 3).requires_grad, triple(x).requires_grad, inside, double.__name__, lib.ops.is_grad_enabled()


def exceptions(lib: Library) -> tuple[Any, ...]:
    @lib.ops.no_grad()
    def fails() -> None:
        raise ValueError

    for run in (fails, lambda: enter_and_fail(lib.ops.no_grad())):
        with pytest.raises(ValueError, match=r"^$"):
            run()
    return (lib.ops.is_grad_enabled(),)


def enter_and_fail(switch: Any) -> None:
    with switch:
        raise ValueError


def inside_a_backward_with_create_graph(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(2.0)
    with lib.ops.no_grad():
        y = x * x
        with lib.ops.enable_grad():
            z = x * x * x
        (first,) = lib.grad(z, x, create_graph=True)
    return y.requires_grad, first.requires_grad, lib.grad(first, x)[0]


def set_as_a_block(lib: Library) -> tuple[Any, ...]:
    seen = []
    x = lib.leaf(1.0)
    for mode in (False, True):
        with lib.ops.set_grad_enabled(mode):
            seen += [lib.ops.is_grad_enabled(), (x * 2).requires_grad]
            with lib.ops.set_grad_enabled(not mode):
                seen.append(lib.ops.is_grad_enabled())
            seen.append(lib.ops.is_grad_enabled())
        seen.append(lib.ops.is_grad_enabled())
    return tuple(seen)


def set_by_a_call(lib: Library) -> tuple[Any, ...]:
    seen = []
    with lib.ops.enable_grad():
        lib.ops.set_grad_enabled(False)
        seen.append(lib.ops.is_grad_enabled())
        with lib.ops.enable_grad():
            lib.ops.set_grad_enabled(False)
            seen.append(lib.ops.is_grad_enabled())
        seen.append(lib.ops.is_grad_enabled())
        switch = lib.ops.set_grad_enabled(True)
        seen.append(lib.ops.is_grad_enabled())
        with switch:
            seen.append(lib.ops.is_grad_enabled())
        seen.append(lib.ops.is_grad_enabled())
    return (*seen, lib.ops.is_grad_enabled())


def set_as_a_decorator(lib: Library) -> tuple[Any, ...]:
    @lib.ops.set_grad_enabled(False)
    def off() -> bool:
        return bool(lib.ops.is_grad_enabled())

    before = lib.ops.is_grad_enabled()
    with lib.ops.no_grad():

        @lib.ops.set_grad_enabled(True)
        def on() -> bool:
            return bool(lib.ops.is_grad_enabled())

        inside = lib.ops.is_grad_enabled()
    return before, off(), on(), inside, lib.ops.is_grad_enabled()


def set_and_raised(lib: Library) -> tuple[Any, ...]:
    with pytest.raises(ValueError, match=r"^$"):
        enter_and_fail(lib.ops.set_grad_enabled(False))
    return (lib.ops.is_grad_enabled(),)


def inference(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    ops = lib.ops
    seen: list[Any] = [ops.is_inference_mode_enabled()]
    with ops.inference_mode():
        y = x * 2
        seen += [ops.is_inference_mode_enabled(), ops.is_grad_enabled(), y.requires_grad, y.is_leaf]
        with ops.enable_grad():
            seen += [ops.is_grad_enabled(), (x * 2).requires_grad]
        with ops.inference_mode(False):
            seen += [ops.is_inference_mode_enabled(), ops.is_grad_enabled(), (x * 2).requires_grad]
        seen += [ops.is_inference_mode_enabled(), ops.is_grad_enabled()]
    with ops.no_grad(), ops.inference_mode(mode=False):
        seen.append(ops.is_grad_enabled())
    return (*seen, ops.is_inference_mode_enabled(), ops.is_grad_enabled(), y)


def inference_as_a_decorator(lib: Library) -> tuple[Any, ...]:
    @lib.ops.inference_mode()
    def double(x: Any) -> Any:
        return x * 2, lib.ops.is_inference_mode_enabled()

    @lib.ops.inference_mode
    def triple(x: Any) -> Any:
        return x * 3, lib.ops.is_inference_mode_enabled()

    x = lib.leaf(1.0)
    return *double(x), *triple(x), lib.ops.is_inference_mode_enabled()


def what_inference_made_is_used(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    with lib.ops.inference_mode():
        y = x * 2
        made = lib.constant(3.0, 4.0)
        y.add_(1)
    sums = x + y + made  # these ops save no tensor
    copied = x * y.clone()
    (sums + copied).sum().backward()
    derived = y * 2
    marks = [lib.raw(one).is_inference() for one in (y, made, derived)]
    return sums, copied, x.grad, marks


@pytest.mark.parametrize(
    "program",
    [
        *(nesting, what_needs_a_gradient, decorator, exceptions, inside_a_backward_with_create_graph),
        *(set_as_a_block, set_by_a_call, set_as_a_decorator, set_and_raised),
        *(inference, inference_as_a_decorator, what_inference_made_is_used),
    ],
    ids=lambda program: program.__name__,
)
def test_program_agrees_with_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def saved_for_a_backward(lib: Library) -> tuple[Any, ...]:
    with lib.ops.inference_mode():
        y = lib.constant(1.0, 2.0) * 2
    return (lib.leaf(1.0, 2.0) * y,)


def made_a_leaf(lib: Library) -> tuple[Any, ...]:
    with lib.ops.inference_mode():
        y = lib.constant(1.0, 2.0) * 2
    return (y.requires_grad_(),)


def changed_in_place(lib: Library) -> tuple[Any, ...]:
    with lib.ops.inference_mode():
        y = lib.constant(1.0, 2.0) * 2
    return (y.add_(1),)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (saved_for_a_backward, ["mul", "inference_mode", "clone()"]),
        (made_a_leaf, ["requires_grad=True", "inference_mode", "clone()"]),
        (changed_in_place, ["add_", "InferenceMode", "clone"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_is_torchs_and_says_what_to_do(program: Any, words: list[str]) -> None:
    both_raise(program, *words)


def test_inference_does_not_leak_into_another_task() -> None:
    async def infers(inside: asyncio.Event, done: asyncio.Event) -> bool:
        with nbgrad.inference_mode():
            inside.set()
            await done.wait()
            return nbgrad.is_inference_mode_enabled()

    async def trains(inside: asyncio.Event, done: asyncio.Event) -> bool:
        await inside.wait()
        x = tensor([2.0], requires_grad=True)
        (x * x).backward()
        done.set()
        return torch.is_inference_mode_enabled()

    async def main() -> list[bool]:
        inside, done = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(infers(inside, done), trains(inside, done))

    assert finished(main()) == [True, False]


def test_what_a_call_sets_outlives_a_scope_but_not_a_block_that_sets_it() -> None:
    with nbgrad.enable_grad():
        with nbgrad.scope("layer"):
            nbgrad.set_grad_enabled(False)
        assert not nbgrad.is_grad_enabled()
        assert current().scope is None
    assert nbgrad.is_grad_enabled()


def test_a_graph_restores_what_was_set_before_it() -> None:
    with nbgrad.AutogradGraph():
        nbgrad.set_grad_enabled(False)
    assert nbgrad.is_grad_enabled()


def zeroed(lib: Library) -> tuple[Any, ...]:
    seen: list[Any] = []
    layer = lib.ops.nn.Linear(2, 2)
    for set_to_none in (True, False):
        (layer(lib.ops.ones(1, 2) if lib.ops is torch else tensor([[1.0, 1.0]])) ** 2).sum().backward()
        layer.zero_grad(set_to_none=set_to_none)
        seen += [p.grad is None if set_to_none else p.grad.tolist() for p in layer.parameters()]
    return tuple(seen)


def test_zero_grad_is_torchs() -> None:
    agree(zeroed)


def test_a_switch_may_be_entered_again_while_it_is_open() -> None:
    switch = nbgrad.no_grad()
    with switch:
        with switch:
            assert not nbgrad.is_grad_enabled()
        assert not nbgrad.is_grad_enabled()
    assert nbgrad.is_grad_enabled()


def test_scopes_nest_and_are_restored() -> None:
    assert current().scope is None
    with nbgrad.scope("encoder"):
        outer = current().scope
        with nbgrad.scope("layer"):
            inner = current().scope
        assert current().scope is outer
    assert isinstance(inner, Scope)
    assert (inner.label, inner.parent) == ("layer", outer)
    assert outer is not None
    assert outer.parent is None
    with pytest.raises(KeyError), nbgrad.scope("broken"):
        raise KeyError
    assert current().scope is None


def test_each_call_of_a_decorated_function_has_a_scope_of_its_own() -> None:
    @nbgrad.scope("block")
    def block() -> Scope | None:
        return current().scope

    first, second = block(), block()
    assert first is not None
    assert second is not None
    assert (first.label, second.label) == ("block", "block")
    assert first is not second


def test_another_context_sees_nothing_of_it() -> None:
    with nbgrad.no_grad():
        assert contextvars.Context().run(nbgrad.is_grad_enabled)
        assert not contextvars.copy_context().run(nbgrad.is_grad_enabled)


def test_the_state_is_replaced_as_a_whole() -> None:
    before = current()
    set_state(before.replaced(grad_enabled=False))
    try:
        assert not (tensor(1.0, requires_grad=True) * 2).requires_grad
    finally:
        set_state(before)
    assert current() is before

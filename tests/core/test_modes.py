"""What is scoped: recording on and off, scopes, and that everything is restored."""

import contextvars
from collections.abc import Callable
from typing import Any

import pytest

import nbgrad
from nbgrad.core.modes import Scope, current, set_state
from nbgrad.core.tensor import tensor
from tests.core.programs import Library, agree


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


@pytest.mark.parametrize(
    "program",
    [nesting, what_needs_a_gradient, decorator, exceptions, inside_a_backward_with_create_graph],
    ids=lambda program: program.__name__,
)
def test_program_agrees_with_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


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
    set_state(before._replace(grad_enabled=False))
    try:
        assert not (tensor(1.0, requires_grad=True) * 2).requires_grad
    finally:
        set_state(before)
    assert current() is before

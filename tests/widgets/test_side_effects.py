"""A finding runs a ``Function`` of the user's again only where the program cannot notice it."""

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable
from torch.distributed import all_reduce

import nbgrad
from nbgrad.widgets.findings.side_effects import leaves_nothing
from tests.core import closeness

SEEN: list[Any] = []
CALLS = 0
SCALE = 2.0
KERNEL = torch.ones(3)
NUMBERS = np.ones(3)


class Counter:
    """An object of the program's."""

    calls = 0
    scale = 3.0
    kernel = torch.ones(3)

    @staticmethod
    def halved(x: Any) -> Any:
        return x / 2

    @staticmethod
    def counted(x: Any) -> Any:
        Counter.calls += 1
        return x


COUNTER = Counter()


def doubled(x: Any) -> Any:
    return x * SCALE


def counted(x: Any) -> Any:
    SEEN.append(x)
    return x


def again(x: Any, times: int = 3) -> Any:
    return again(x, times - 1) if times else x


def own_list(x: Any) -> Any:
    parts = []
    for one in x:
        parts.append(one * 2)  # noqa: PERF401
    return torch.stack(parts)


def on_ctx(ctx: Any, x: Any) -> Any:
    ctx.scale, ctx.shape = 2, x.shape
    print(x)  # nothing is printed while a finding runs it
    return x


def element(x: Any) -> Any:
    KERNEL[0] = x
    return x


def global_number(x: Any) -> Any:
    global CALLS  # noqa: PLW0603
    CALLS += 1
    return x


def on_class(x: Any) -> Any:
    Counter.calls = Counter.calls + 1
    return x


def on_module(x: Any) -> Any:
    math.tau = 3  # type: ignore[misc]  # it is Final
    return x


def in_file(x: Any) -> Any:
    with open("seen.txt", "a") as file:  # noqa: PTH123
        file.write("x")
    return x


def enclosed(kept: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        kept.append(x)
        return x

    return function


def counting() -> Callable[[Any], Any]:
    calls = 0

    def function(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    return function


def by_default(x: Any, kept: Any = SEEN) -> Any:
    kept.append(x)
    return x


def imported(x: Any) -> Any:
    import json

    json.loaded = True  # type: ignore[attr-defined]  # a new one
    return x


def in_nested(x: Any) -> Any:
    return [counted(one) for one in x]


def in_its_place(x: Any) -> Any:
    return x.mul_(2)


def later() -> Callable[[Any], Any]:
    """A function of which a name has no value yet."""

    def function(x: Any) -> Any:
        return x * scale

    found = function
    if not SEEN:
        return found
    scale = 2.0
    return found


PURE: dict[str, Callable[..., Any]] = {
    "torch": lambda x: torch.relu(torch.nn.functional.conv1d(x, KERNEL)) * math.pi + np.pi,
    "a constant": doubled,
    "a function": lambda x: doubled(doubled(x)),
    "recursion": again,
    "a list of its own": own_list,
    "its own tensor in place": lambda x: x.clone().clamp_(0, 1),
    "on ctx": on_ctx,
    "once differentiable": once_differentiable(on_ctx),
    "a constant of a class": lambda x: x * Counter.scale,
    "a tensor of a class": lambda x: x * Counter.kernel,
    "a static method": lambda x: Counter.halved(x) + 1,
    "of another file": lambda x: x * closeness.SINGLE,
    "what it gets in place": lambda x: in_its_place(x.clone()),
    "gradients": lambda x: torch.autograd.grad(x.exp().sum(), x)[0],
    "a static method in a wrapper": once_differentiable(staticmethod(on_ctx)),
    "mixed precision": torch.amp.custom_fwd(on_ctx, device_type="cuda"),
}

NOTICED: dict[str, Callable[..., Any]] = {
    "a list": counted,
    "through a function": lambda x: doubled(counted(x)),
    "once differentiable": once_differentiable(counted),
    "a global": global_number,
    "a class": on_class,
    "a module": on_module,
    "a file": in_file,
    "a list around it": enclosed([]),
    "a number around it": counting(),
    "a list by default": by_default,
    "another module": lambda x: random.random() * x,
    "numbers of numpy": lambda x: np.random.rand() * x,
    "an import": imported,
    "an object": lambda x: COUNTER.calls * x,
    "a tensor in place": lambda x: x * KERNEL.add_(x),
    "an element in place": element,
    "a list in a nested function": in_nested,
    "a tensor through a function": lambda x: in_its_place(KERNEL) * x,
    "a tensor of a class in place": lambda x: x * Counter.kernel.mul_(2),
    "a tensor as a result": lambda x: torch.add(x, x, out=KERNEL),
    "an array in place": lambda x: [NUMBERS.fill, x],
    "gradients of a tensor": lambda x: (x * KERNEL).sum().backward(),
    "a static method of a class": lambda x: Counter.counted(x) + 1,
    "a method of a class": lambda x: Counter.mro(),
    "other processes": lambda x: (torch.distributed.all_reduce(x), x),
    "other processes by name": lambda x: (all_reduce(x), x),
    "processes by a short name": lambda x: dist.get_rank() * x,
    "a switch": lambda x: [torch.set_num_threads, x],
    "the seed": lambda x: (torch.manual_seed(0), x),
    "operators of other libraries": lambda x: torch.ops.own.op(x) + 1,
    "no value yet": later(),
    "a partial function": functools.partial(counted, 1),
    "a function of another kind": Counter,
}


@pytest.mark.parametrize("name", PURE)
def test_what_a_function_makes_itself_leaves_nothing(name: str) -> None:
    assert leaves_nothing(PURE[name])


@pytest.mark.parametrize("name", NOTICED)
def test_what_the_program_could_read_is_left(name: str) -> None:
    assert not leaves_nothing(NOTICED[name])


def cube(of: Any, seen: list[Any] | None, log: Any = None) -> tuple[Any, Any]:
    """A recording of a class with a wrong backward, and its loss; ``seen`` gets each call."""

    class Cube(of.Function if of is nbgrad else torch.autograd.Function):  # type: ignore[misc]  # of either
        @staticmethod
        def forward(ctx: Any, x: Any, kept: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.kept = kept
            if kept is not None:
                kept.append(1)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            if seen is not None:
                seen.append(tuple(grad.shape))
            return grad * x, None

    x = of.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.record(view="none") as graph:
        loss = Cube.apply(x, log).sum()
        loss.backward()
    return graph, loss


@pytest.mark.parametrize("of", [torch, nbgrad], ids=lambda one: one.__name__)
def test_a_class_that_keeps_its_calls_is_not_run_again(of: Any) -> None:
    seen: list[Any] = []
    graph, loss = cube(of, seen)
    graph.findings()
    assert seen == [(2,)], loss


@pytest.mark.parametrize("of", [torch, nbgrad], ids=lambda one: one.__name__)
def test_a_wrong_backward_is_found_without_a_trace(of: Any) -> None:
    log: list[int] = []
    graph, loss = cube(of, None, log)
    assert [one.kind for one in graph.findings()] == ["custom function"]
    assert log == [1], loss


class Noted(torch.autograd.Function):
    """Writes its calls down where they begin."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        SEEN.append("apply")
        return super().apply(*args)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * grad


class Renamed(torch.autograd.Function):
    """Has its backward under torch's other name."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x**3

    @staticmethod
    def vjp(ctx: Any, grad: Any) -> Any:
        SEEN.append("vjp")
        return 2 * grad


@pytest.mark.parametrize("of", [Noted, Renamed])
def test_all_methods_that_a_run_calls_are_looked_at(of: Any) -> None:
    SEEN.clear()
    with nbgrad.record(view="none") as graph:
        loss = of.apply(torch.ones(2, requires_grad=True)).sum()
        loss.backward()
    assert "custom function" not in {one.kind for one in graph.findings()}
    assert len(SEEN) == 1, loss

"""A converted module runs on itself, even if a function that it keeps refers to the original module."""

import copy
import functools
from typing import Any

import pytest
import torch
from torch import nn as tnn

import nbgrad
from nbgrad import from_torch

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.0, -1.0]])


class Part(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = tnn.Linear(3, 3)
        self.calls = 0
        self.learns = False


class Wraps(Part):
    """It wraps its own method, as metrics do, and switches gradients on or off by a flag of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(())
        self.update = self.wrapped(self.update)

    def wrapped(self, update: Any) -> Any:
        @functools.wraps(update)
        def run(x: Any) -> Any:
            self.calls += 1
            with torch.set_grad_enabled(self.learns):
                return update(x)

        return run

    def update(self, x: Any) -> None:
        self.total = self.total + self.linear(x).square().mean()

    def forward(self, x: Any) -> Any:
        self.learns = True
        self.update(x)
        return self.total


class Default(Part):
    def __init__(self) -> None:
        super().__init__()

        def run(x: Any, part: Any = self.linear, *, other: Any = (self,)) -> Any:
            other[0].calls += 1
            return part(x)

        self.run = run

    def forward(self, x: Any) -> Any:
        return self.run(x).square()


class Recursive(Part):
    def __init__(self) -> None:
        super().__init__()

        def again(x: Any, times: int) -> Any:
            self.calls += 1
            return again(self.linear(x).tanh(), times - 1) if times else x

        self.again = again

    def forward(self, x: Any) -> Any:
        return self.again(x, 3)


class Several(Part):
    """Two functions share a variable that one of them sets, in a dict and in a partial."""

    def __init__(self) -> None:
        super().__init__()
        layer: Any = self.linear

        def use(x: Any) -> Any:
            self.calls += 1
            return layer(x) * self.calls

        def turn(_: Any = None) -> None:
            nonlocal layer
            layer = [self.linear, self.other][self.calls % 2]

        self.functions = {"use": use, "turn": [functools.partial(turn, None)]}
        self.other = tnn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        x = self.functions["use"](x)
        self.functions["turn"][0]()
        return self.functions["use"](x)


class Hooked(Part):
    """One hook is its own method, another is a function that refers to it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear.register_forward_hook(self.seen)
        self.linear.register_forward_pre_hook(lambda _, given: (given[0] * (self.calls + 1),))

    def seen(self, _module: Any, _given: Any, result: Any) -> None:
        self.kept = result
        self.calls += 1

    def forward(self, x: Any) -> Any:
        self.linear(x)
        return self.kept.square()


@pytest.mark.parametrize("kind", [Wraps, Default, Recursive, Several, Hooked])
def test_a_function_that_holds_the_module_holds_the_converted_one(kind: Any) -> None:
    first = kind()
    theirs, ours = kind(), None
    theirs.load_state_dict(first.state_dict())
    ours = from_torch(first)
    for times in (1, 2):
        mine, yours = ours(nbgrad.tensor(X)), theirs(X)
        assert torch.equal(mine.data, yours.detach())
        mine.sum().backward()
        yours.sum().backward()
        assert ours.calls == theirs.calls >= times
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one.grad.data, other.grad) if other.grad is not None else one.grad is None
        if kind is Wraps:
            break  # ``total`` belongs to the graph of the first call
    assert first.calls == 0
    assert torch.equal(first.linear.weight, theirs.linear.weight)


def test_what_holds_no_module_stays_the_same_function() -> None:
    seen: list[Any] = []

    class Plain(Part):
        def __init__(self) -> None:
            super().__init__()
            self.note = lambda x: seen.append(x.shape)
            self.twice = copy.copy

        def forward(self, x: Any) -> Any:
            self.note(x)
            return self.linear(x)

    theirs = Plain()
    ours = from_torch(theirs)
    assert ours.note is theirs.note
    assert ours.twice is copy.copy
    ours(nbgrad.tensor(X))
    assert seen == [(2, 3), (2, 3)]


def test_a_copy_is_a_function_like_the_first() -> None:
    theirs = Wraps()
    ours = from_torch(theirs)
    assert ours.update is not theirs.update
    assert ours.update.__name__ == "update"
    assert ours.update.__qualname__ == theirs.update.__qualname__
    assert ours.update.__wrapped__.__self__ is ours
    assert theirs.update.__wrapped__.__self__ is theirs

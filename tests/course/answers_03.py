"""Answers to the exercises of lesson 3, right ones in several forms and the usual wrong ones."""

import math
import random
from typing import Any

import numpy as np
import torch

import nbgrad


class Value:
    def __init__(self, data: Any, parents: Any = (), rule: Any = None) -> None:
        self.data, self.parents, self.rule, self.grad = data, parents, rule, 0.0

    def __add__(self, other: Any) -> Any:
        return type(self)(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other: Any) -> Any:
        return type(self)(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data))

    def tanh(self) -> Any:
        y = math.tanh(self.data)
        return type(self)(y, (self,), lambda g: (g * (1 - y * y),))


class Listing(Value):
    def __mul__(self, other: Any) -> Any:
        return Listing(self.data * other.data, [self, other], lambda g: [g * other.data, g * self.data])


class Extended(Value):
    """It is called Value, too, and what it inherits makes the other one."""

    def __mul__(self, other: Any) -> Any:
        return Value(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data))


Extended.__name__ = "Value"


class Swapped(Value):
    def __mul__(self, other: Any) -> Any:
        return Swapped(self.data * other.data, (self, other), lambda g: (g * self.data, g * other.data))


class Local(Value):
    def tanh(self) -> Any:
        y = math.tanh(self.data)
        return Local(y, (self,), lambda g: (1 - y * y,))


class Orphan(Value):
    def __mul__(self, other: Any) -> Any:
        return Orphan(self.data * other.data, (), lambda g: (g * other.data, g * self.data))


class Number(Value):
    def __mul__(self, other: Any) -> Any:
        return self.data * other.data


class Negative(Value):
    def tanh(self) -> Any:
        y = math.tanh(self.data)
        return Negative(y, (self,), lambda g: (-g * (1 - y * y),))


class Bare(Value):
    def tanh(self) -> Any:
        y = math.tanh(self.data)
        return Bare(y, (self,), lambda g: g * (1 - y * y))


class NoComma(Value):
    def tanh(self) -> Any:
        y = math.tanh(self.data)
        return NoComma(y, (self), lambda g: (g * (1 - y * y),))


class Endless(Value):
    def __mul__(self, other: Any) -> Any:
        return Endless(self * other, (self, other), None)


class Failing(Value):
    def tanh(self) -> Any:
        return Failing(math.tanh(self), (self,), None)


def topological(root: Any) -> list[Any]:
    order: list[Any] = []
    done = set()

    def visit(value: Any) -> None:
        if value not in done:
            done.add(value)
            for parent in value.parents:
                visit(parent)
            order.append(value)

    visit(root)
    return order


def without_recursion(root: Any) -> tuple[Any, ...]:
    order, waiting = [], [(root, False)]
    while waiting:
        value, ready = waiting.pop()
        if value in order:
            continue
        if ready:
            order.append(value)
        else:
            waiting += [(value, True), *((parent, False) for parent in value.parents)]
    return tuple(order)


def unlinks(root: Any) -> list[Any]:
    order = topological(root)
    for value in order:
        value.parents = ()
    return order


def forgets(root: Any) -> list[Any]:
    return [one for parent in root.parents for one in forgets(parent)] + [root]


def by_breadth(root: Any) -> list[Any]:
    order = [root]
    for value in order:
        order += [parent for parent in dict.fromkeys(value.parents) if parent not in order]
    return order[::-1]


def first_seen(root: Any) -> list[Any]:
    order: list[Any] = []

    def visit(value: Any) -> None:
        if value not in order:
            order.append(value)
            for parent in value.parents:
                visit(parent)

    visit(root)
    return order[::-1]


def is_right(function: Any, slope: Any, *, low: float = -2.0, count: int = 20, limit: float = 1e-3) -> bool:
    rng, h = random.Random(0), 1e-5
    for _ in range(count):
        x = rng.uniform(low, 2)
        nudged = (function(x + h) - function(x - h)) / (2 * h)
        if abs(nudged - slope(x)) > limit * (1 + abs(slope(x))):
            return False
    return True


def at_one_point(function: Any, slope: Any) -> bool:
    x = random.uniform(-2, 2)
    return abs((function(x + 1e-5) - function(x - 1e-5)) / 2e-5 - slope(x)) < 1e-3 * (1 + abs(slope(x)))


def errors(function: Any, slope: Any, draw: Any) -> list[float]:
    points = [draw(-2, 2) for _ in range(20)]
    return [(function(x + 1e-5) - function(x - 1e-5)) / 2e-5 - slope(x) for x in points]


def on_average(function: Any, slope: Any) -> bool:
    return abs(sum(errors(function, slope, random.uniform))) / 20 < 1e-3


def at_whole_numbers(function: Any, slope: Any) -> bool:
    return max(map(abs, errors(function, slope, random.randint))) < 1e-3


RIGHT: dict[str, list[Any]] = {
    "3.1": [Value, Listing],
    "3.2": [topological, without_recursion],
    "3.3": [
        is_right,
        lambda function, slope: nbgrad.tensor(is_right(function, slope)),
        lambda function, slope: np.bool_(is_right(function, slope)),
        lambda function, slope: torch.tensor(is_right(function, slope)),
    ],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "3.1": [
        (NoComma, "type", "a.tanh(): its parents are NoComma, and no tuple. A tuple of one value has a comma, (self,)"),
        (Extended, "type", "a * b: it gives a value of another class that is called Value, too"),
        (Swapped, "order", "a * b: the two gradients of its rule have changed places"),
        (Local, "factor", "a.tanh(): its rule forgets the incoming gradient"),
        (Negative, "sign", "a.tanh(): what its rule gives: the sign is wrong"),
        (Orphan, "shape", "a * b: its parents have to be the 2 inputs"),
        (Number, "type", "a * b: it gives a value of type float, where a Number is expected"),
        (Bare, "shape", "a.tanh(): its rule has to give 1 gradient, as a tuple"),
        (Failing, "raised", "a.tanh() raised TypeError"),
        (Endless, "raised", "an operator such as * calls itself again and again: inside of it, compute with the data"),
        (Value(2.0), "type", "the class is expected"),
    ],
    "3.2": [
        (lambda root: [*topological(root), "d"], "type", "a name is in the list: give the values themselves"),
        (lambda root: [None, *topological(root)], "type", "None is in the list: give the values themselves"),
        (lambda root: "a b c d", "type", "it gives a str, where a list is expected"),
        (
            lambda root: [type(root)("stranger"), *topological(root)],
            "element",
            "stranger is in the list, and root does not depend on it",
        ),
        (forgets, "element", "is in the list more than once"),
        (unlinks, "changed", "topological for a chain changes the parents of a value: the backward needs them"),
        (lambda root: topological(root)[::-1], "order", "the list is turned around"),
        (first_seen, "order", "which is its parent"),
        (lambda root: [*root.parents, root], "shape", "the answer lacks a, b"),
        (lambda root: print(), "type", "a list of values is expected"),
        (lambda root: root.children, "raised", "raised AttributeError"),
    ],
    "3.3": [
        (at_one_point, "element", "of 12 calls: a wrong slope may agree at some x. Draw 20 random points, and refuse"),
        (lambda function, slope: is_right(function, slope, low=0.1), "element", "it accepts abs(x) with 1"),
        (lambda function, slope: is_right(function, slope, limit=0.3), "rounding", "it accepts sin(x) with 1.02"),
        (lambda function, slope: is_right(function, slope, limit=1e-14), "rounding", "which is right"),
        (on_average, "element", "it accepts sin(x) with cos(x) + 0.02 * x, which is wrong: do errors of both signs"),
        (at_whole_numbers, "element", "2 * x + sin(pi * x), which is wrong except at whole numbers"),
        (lambda function, slope: True, "numbers", "it accepts x * x with x, which is wrong"),
        (lambda function, slope: 1.0, "type", "True or False is expected"),
        (lambda function: True, "raised", "raised TypeError"),
    ],
}

"""``walk_slip``: the usual wrong backwards of a student's engine of numbers whose rules are right."""

from collections import deque
from collections.abc import Callable
from typing import Any

from nbgrad.core.translation import message, translate
from nbgrad.lab.judges import is_near
from nbgrad.lab.mygrad import scalars
from nbgrad.lab.mygrad.scalars import Value

SHARED = "h = a * b + b; h * (h + a).tanh() + h * h + b * h"
"""A formula with a value that is used again and again, some ops apart."""


def shared(a: Any, b: Any) -> Any:
    """``SHARED``."""
    return _steps(a, b)[-1]


def _steps(a: Any, b: Any) -> list[Any]:
    """The values of ``SHARED``, the result as the last one."""
    product = a * b
    h = product + b
    total = h + a
    t = total.tanh()
    first, second, third = h * t, h * h, b * h
    both = first + second
    return [a, b, product, h, total, t, first, second, third, both, both + third]


def walk_slip(value_class: type, backward: Callable[[Any], Any]) -> str | None:
    """The fault of a backward, in a sentence; None if it is no usual one.

    Args:
        value_class: the student's ``Value``.
        backward: the student's.
    """

    def gradients(cls: type, walk: Callable[[Any], Any]) -> list[Any]:
        values = _steps(cls(0.5), cls(-0.8))
        walk(values[-1])
        return [one.grad for one in values]

    yours = gradients(value_class, backward)
    if not is_near(yours[-1], 1.0):
        return translate("The gradient of the result itself is not 1: a backward begins with 1 there.")
    return next((translate(text) for walk, text in _WALKS if is_near(gradients(Value, walk), yours)), None)


Hand = Callable[[Value, list[float]], None]
Order = Callable[[Value], list[Value]]

_topological: Order = scalars.topological


def _add(value: Value, given: list[float]) -> None:
    for parent, gradient in zip(value.parents, given, strict=True):
        parent.grad += gradient


def _keep_last(value: Value, given: list[float]) -> None:
    for parent, gradient in zip(value.parents, given, strict=True):
        parent.grad = gradient


def _each_once(value: Value, given: list[float]) -> None:
    for parent, gradient in zip(dict.fromkeys(value.parents), given, strict=False):
        parent.grad += gradient


def _only(place: int) -> Hand:
    def hand(value: Value, given: list[float]) -> None:
        value.parents[place].grad += given[place]

    return hand


def _walk(
    rule: Callable[[Value], Any] = lambda value: value.rule(value.grad),
    hand: Hand = _add,
    order: Order = lambda root: _topological(root)[::-1],
    begin: Callable[[Value], None] | None = None,
) -> Callable[[Value], None]:
    """A backward that calls rules, hands their gradients to parents, or goes through the values in this way."""

    def backward(root: Value) -> None:
        root.grad = 1.0
        for value in order(root):
            if begin is not None:
                begin(value)
            if value.rule is not None:
                hand(value, list(rule(value)))

    return backward


def _searched(*, deep: bool, last: bool, once: bool) -> Order:
    """The values as a search from the root meets them."""

    def order(root: Value) -> list[Value]:
        waiting, found = deque([root]), list[Value]()
        while waiting:
            value = waiting.pop() if deep else waiting.popleft()
            if not once or value not in found:
                found.append(value)
                waiting.extend(value.parents if last else value.parents[::-1])
        return found

    return order


def _recursive(root: Value) -> None:
    def visit(value: Value) -> None:
        if value.rule is not None:
            for parent, gradient in zip(value.parents, value.rule(value.grad), strict=True):
                parent.grad += gradient
                visit(parent)

    root.grad = 1.0
    visit(root)


def _begin_with_1(value: Value) -> None:
    value.grad = 1.0


_EARLY = message(
    "The order of the backward is wrong: a value hands its gradient on before all of it has arrived. Walk in the "
    "reverse of a topological order."
)
_WALKS: tuple[tuple[Callable[[Value], None], str], ...] = (
    (_walk(hand=_keep_last), message("Of several paths to a value only the last is kept: paths add, so write `+=`.")),
    (_walk(order=_topological), message("Only the inputs of the result got a gradient: the walk begins at the result, "
     "and goes to the leaves, in the reverse of a topological order.")),
    (
        _walk(order=lambda root: _topological(root)[-2::-1]),
        message("No gradient leaves the result: it hands its own on, too."),
    ),
    (_recursive, _EARLY),
    *((_walk(order=_searched(deep=deep, last=last, once=once)), _EARLY)
      for deep in (True, False) for last in (True, False) for once in (True, False)),
    (_walk(lambda value: value.rule(1.0)), message("Each rule is called with 1: it takes the gradient of its value.")),
    (_walk(lambda value: [value.grad * one for one in value.rule(value.grad)]), message("What a rule gives is "
     "multiplied by the gradient of its value once more: the rule itself multiplies by it.")),
    (_walk(lambda value: [-one for one in value.rule(value.grad)]), message("The gradients are subtracted: paths add, "
     "so write `+=`.")),
    (_walk(lambda value: value.rule(value.grad)[::-1]), message("The gradients that a rule gives go to the wrong "
     "parents: they are in the order of the parents.")),
    (_walk(lambda value: value.rule(value.data)), message("The rules are called with the data of a value: they take "
     "its gradient.")),
    (_walk(lambda value: [value.grad] * len(value.parents)), message("Each value hands its own gradient on as it is: "
     "its rule makes those of the parents from it.")),
    (_walk(begin=_begin_with_1), message("Each value begins with the gradient 1: only the result does.")),
    (_walk(hand=_each_once), message("A value that an op uses twice gets one gradient: a set or a dict of the parents "
     "has it only once.")),
    (_walk(hand=_only(0)), message("Only the first parent of an op gets its gradient.")),
    (_walk(hand=_only(-1)), message("Only the last parent of an op gets its gradient.")),
)  # fmt: skip
"""The wrong backwards, each with the sentence on it."""

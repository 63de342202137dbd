"""Replay: a listing as straight-line Python that calls torch's kernels, below autograd.

A buffer is freed at its last use. The code reads captured tensors and the settings of optimizers anew in each run.
"""

import keyword
from collections.abc import Callable
from math import isfinite
from typing import Any

import torch

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value, name_of
from nbgrad.core.symbolic.numbers import Number

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "true_divide": "/", "matmul": "@"}
"""Functions of two tensors, or a tensor and a number, that an operator calls faster."""

PROGRAM = "<program>"
"""The name of the file of the code of a program."""

Run = Callable[[list[torch.Tensor], list[torch.Tensor]], list[Any]]


class Code:
    """The Python code of a listing.

    Attributes:
        text: the code of the function ``run``.
        names: the objects that it names.
        orders: for each line of ``text`` how many steps of the trace ran before it.
    """

    def __init__(self, listing: Listing) -> None:
        self.names: dict[str, Any] = {}
        self._functions: dict[int, str] = {}
        self._numbers: dict[int, str] = {}
        self._known = {id(value) for value in listing.kept()}
        self._events = listing.events
        body, orders = self._body(listing)
        reads = [f"{name} = read_{name}()" for name in self._numbers.values()]
        lines = [
            *_unpacked("inputs", listing.inputs),
            *_unpacked("captured", listing.captured),
            *reads,
            *body,
            f"return [{', '.join(_variable(value) for value in listing.leaving())}]",
        ]
        self.orders = [*[-1] * (len(lines) - len(body)), *orders, max(orders, default=0) + 1]
        self.text = "def run(inputs, captured):\n" + "".join(f"    {line}\n" for line in lines)

    def function(self) -> Run:
        """The compiled code. The objects that it names are variables of the function around it."""
        factory = f"def make({', '.join(self.names)}):\n"
        factory += "".join(f"    {line}\n" for line in self.text.splitlines()) + "    return run\n"
        # A line of the factory stands before those of ``text``, and lines count from 1. An error asks for these two.
        space: dict[str, Any] = {"ORDERS": [-1, -1, *self.orders], "EVENTS": self._events}
        exec(compile(factory, PROGRAM, "exec"), space)  # written here, from a trace
        run: Run = space["make"](**self.names)
        return run

    def _body(self, listing: Listing) -> tuple[list[str], list[int]]:
        """The lines of the steps, and for each how many steps of the trace ran before it."""
        last: dict[int, int] = {}
        for position, step in enumerate(listing.steps):
            for value in (*step.inputs(), *step.results()):
                last[id(value)] = position
        lines, orders = list[str](), list[int]()
        for position, step in enumerate(listing.steps):
            orders.append(step.order)
            lines.append(self._line(step))
            held = {id(value): value for value in (*step.inputs(), *step.results())}
            dead = [
                _variable(value)
                for key, value in held.items()
                if last[key] == position and value.kind != "captured" and key not in self._known
            ]
            if dead:
                lines.append(f"del {', '.join(dead)}")
                orders.append(step.order + 1)
        return lines, orders

    def _line(self, step: ProgramStep) -> str:
        call = self._call(step)
        given = {id(value) for value in step.inputs()}
        if not step.results():
            return call
        return f"{self._target(step.result, given)} = {call}"

    def _target(self, result: Any, given: set[int]) -> str:
        if isinstance(result, Value):
            return "_" if id(result) in given else _variable(result)
        if isinstance(result, list | tuple):
            return f"[{', '.join(self._target(one, given) for one in result)}]"
        return "_"

    def _call(self, step: ProgramStep) -> str:
        sign = OPERATORS.get(name_of(step.function))
        if sign and len(step.args) == 2 and not step.kwargs and isinstance(step.args[0], Value):
            return f"{self._literal(step.args[0])} {sign} {self._literal(step.args[1])}"
        args = [self._literal(one) for one in step.args]
        args += [f"{key}={self._literal(one)}" for key, one in step.kwargs.items()]
        return f"{self._function(step.function)}({', '.join(args)})"

    def _function(self, function: Callable[..., Any]) -> str:
        known = self._functions.get(id(function))
        if known is None:
            plain = "".join(one if one.isalnum() else "_" for one in name_of(function))
            known = self._functions[id(function)] = f"f{len(self._functions)}_{plain}"
            self.names[known] = function
        return known

    def _literal(self, given: Any) -> str:  # noqa: PLR0911  # a case for each type
        if isinstance(given, Value):
            return _variable(given)
        if isinstance(given, Number):
            return self._number(given)
        if type(given) is list:
            return f"[{', '.join(map(self._literal, given))}]"
        if type(given) is tuple:
            return f"({''.join(self._literal(one) + ', ' for one in given)})"
        if type(given) is dict and all(isinstance(key, str) and not keyword.iskeyword(key) for key in given):
            return "{" + ", ".join(f"{key!r}: {self._literal(one)}" for key, one in given.items()) + "}"
        if isinstance(given, slice):
            return f"slice({self._literal(given.start)}, {self._literal(given.stop)}, {self._literal(given.step)})"
        plain = given is None or given is Ellipsis or type(given) in (bool, int, str)
        if plain or (type(given) is float and isfinite(given)):
            return repr(given)
        name = f"k{len(self.names)}"
        self.names[name] = given
        return name

    def _number(self, given: Number) -> str:
        name = self._numbers.get(id(given))
        if name is None:
            name = self._numbers[id(given)] = f"n{len(self._numbers)}"
            self.names[f"read_{name}"] = given.read
        return name


def _variable(value: Value) -> str:
    return f"v{value.number}"


def _unpacked(name: str, values: list[Value]) -> list[str]:
    return [f"[{', '.join(map(_variable, values))}] = {name}"] if values else []


def replay(listing: Listing) -> Run:
    """The function that runs a listing on the data of its inputs and of its captured tensors, and gives what leaves."""
    return Code(listing).function()

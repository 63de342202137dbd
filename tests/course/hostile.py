"""Answers that no exercise expects, by name: no check may raise an error on them, or take them for right.

Each of ``VALUES`` is an answer; each of ``FUNCTIONS`` is one, too, and is also given where several functions are asked
for. ``WRAPPED`` makes an answer out of a right one that is as right: it prints, or changes what it should leave alone.
"""

import asyncio
import functools
import itertools
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import nbgrad
from nbgrad import nn

ITSELF: list[Any] = []
ITSELF.append(ITSELF)


def hostile(*names: str) -> Any:
    """An object in which the methods of these names raise."""

    def fails(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("hostile")

    return type("Hostile", (), dict.fromkeys(names, fails))()


class HostileError(Exception):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Called:
    """A class given where a function is expected."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


def graph() -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph() as found:
        nbgrad.ones(2, requires_grad=True).exp().sum().backward()
    return found


NAMES = (
    *("a", "b", "c", "f", "exp", "mul", "tanh", "mul_a", "mul_b", "t", "bias", "scale", "shift", "gain", "conv"),
    *("linear", "uses", *"defghijkl"),
)


def named(value: Any) -> dict[str, Any]:
    """The same value under every name that an exercise asks for."""
    return dict.fromkeys(NAMES, value)


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1.5": lambda: -1.5,
    "an int too large for C": lambda: 10**400,
    "the largest float": lambda: sys.float_info.max,
    "NaN": lambda: math.nan,
    "infinity": lambda: math.inf,
    "complex": lambda: 1 + 2j,
    "no text": lambda: "",
    "text": lambda: "the answer",
    "long text": lambda: "x" * 10_000,
    "bytes": lambda: b"6",
    "an empty list": list,
    "an empty tuple": lambda: (),
    "an empty dict": dict,
    "an empty set": set,
    "a set of lists' tuples": lambda: {(1, 2), (3,)},
    "a list of None": lambda: [None] * 4,
    "a list of texts": lambda: ["one", "two", "three", "four"],
    "ragged lists": lambda: [[1.0], [2.0, 3.0], [], [4.0]],
    "a list in itself": lambda: ITSELF,
    "a dict of other names": lambda: {"x": 1, 2: "y", None: 3},
    "a dict of None": lambda: named(None),
    "a dict of texts": lambda: named("text"),
    "a dict of NaN": lambda: named(math.nan),
    "a dict of lists": lambda: named([[1, 2], [3]]),
    "a dict of arrays": lambda: named(np.ones((2, 3))),
    "a dict of huge numbers": lambda: named(10**400),
    "a dict of functions": lambda: named(print),
    "a dict of booleans": lambda: named(np.bool_(True)),
    "a dict of hostile objects": lambda: named(hostile("__eq__", "__float__", "__repr__", "__len__", "__str__")),
    "an empty array": lambda: np.array([]),
    "an array": lambda: np.ones((3, 4)),
    "an array of objects": lambda: np.array([None, "x", {}], dtype=object),
    "an array of texts": lambda: np.array(["a", "b"]),
    "a date of NumPy": lambda: np.datetime64("2020-01-01"),
    "NumPy's True": lambda: np.bool_(True),
    "a masked array": lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    "a tensor of torch": lambda: torch.ones(3, 4),
    "torch's True": lambda: torch.tensor(True),
    "complex of torch": lambda: torch.ones(2, dtype=torch.complex64),
    "an empty tensor": lambda: torch.empty(0, 3),
    "a sparse tensor": lambda: torch.eye(3).to_sparse(),
    "a tensor without numbers": lambda: torch.empty(3, device="meta"),
    "a nested tensor": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "a quantized tensor": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "a parameter of torch": lambda: torch.nn.Parameter(torch.ones(2)),
    "a tensor of nbgrad": lambda: nbgrad.ones(2, 3, requires_grad=True),
    "nbgrad's True": lambda: nbgrad.tensor(True),
    "a tensor with a history": lambda: nbgrad.ones(2, requires_grad=True).exp(),
    "a network": lambda: nn.Linear(2, 2),
    "a graph": graph,
    "a module of Python": lambda: math,
    "an object": object,
    "a range": lambda: range(5),
    "a generator": lambda: (one for one in range(3)),
    "an endless iterator": itertools.count,
    "Decimal": lambda: Decimal(6),
    "Fraction": lambda: Fraction(6, 7),
    "an error": lambda: ValueError("given, not raised"),
    "a built-in type": lambda: int,
    "a class of the student's": lambda: Called,
    "a subclass of Function": lambda: type("Empty", (nbgrad.Function,), {}),
    "hostile to ==": lambda: hostile("__eq__", "__ne__", "__hash__"),
    "hostile to bool": lambda: hostile("__bool__"),
    "hostile to repr": lambda: hostile("__repr__", "__str__"),
    "hostile to len": lambda: hostile("__len__", "__iter__", "__getitem__", "__contains__"),
    "hostile to attributes": lambda: hostile("__getattr__", "__float__", "__array__"),
}


def _recursion(*arguments: Any) -> Any:
    return _recursion(*arguments)


def _generator(*_: Any) -> Iterator[int]:
    yield 1


async def _later(*_: Any) -> int:
    return 1


def _coroutine(*_: Any) -> Any:
    found = _later()
    asyncio.iscoroutine(found)
    found.close()
    return found


def _ends_python(*_: Any) -> None:
    sys.exit(3)


def _raises(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error

    return function


def _one_line(*_: Any) -> None:
    while True: pass  # noqa: E701  # fmt: skip


def _catches_all(*_: Any) -> None:
    while True:
        try:  # noqa: SIM105
            time.sleep(0.001)
        except:  # noqa: E722
            pass


def _endless_numbers(*_: Any) -> Iterator[int]:
    return (number for number in itertools.count() if number < 0)


def gives(value: Any) -> Callable[..., Any]:
    """A function that gives this, whatever it gets."""
    return lambda *_: value


ENDLESS: dict[str, Callable[..., Any]] = {
    "an endless loop in one line": _one_line,
    "an endless loop that catches all errors": _catches_all,
    "an endless search": lambda *_: next(_endless_numbers()),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "no parameter": lambda: 1.0,
    "nine parameters": lambda a, b, c, d, e, f, g, h, i: 1.0,
    "a parameter by name": lambda *, x: x,
    "print": print,
    "len": len,
    "gives its first argument": lambda *arguments: arguments[0] if arguments else None,
    "gives all arguments": lambda *arguments: arguments,
    "gives text": gives("text"),
    "gives NaN": gives(math.nan),
    "gives an empty tensor": gives(torch.empty(0)),
    "gives a number": gives(0.123),
    "gives a huge int": gives(10**400),
    "gives complex": gives(1j),
    "gives lists of None": gives([None, None]),
    "gives ragged lists": gives([[1.0], [1.0, 2.0]]),
    "gives an empty dict": gives({}),
    "gives a dict of None": gives(named(None)),
    "gives three": gives((None, "x", 2)),
    "gives itself": lambda *_: gives,
    "gives a list of lists": gives([["0.weight"], {"a": 1}]),
    "gives a hostile object": gives(hostile("__eq__", "__bool__", "__repr__", "__len__", "__iter__", "__float__")),
    "gives a network": lambda *_: nn.Linear(2, 2),
    "gives a tensor of torch": gives(torch.ones(2, 3)),
    "gives a tensor without numbers": gives(torch.empty(3, device="meta")),
    "gives an array of objects": gives(np.array([None], dtype=object)),
    "a generator function": _generator,
    "an async function": _coroutine,
    "functools.partial": functools.partial(max, 3),
    "raises ValueError": _raises(ValueError("a value\nof two lines")),
    "raises an error without a text": _raises(HostileError()),
    "raises StopIteration": _raises(StopIteration),
    "raises GeneratorExit": _raises(GeneratorExit),
    "raises MemoryError": _raises(MemoryError),
    "ends Python": _ends_python,
    "calls itself": _recursion,
}


def _wrapped(before: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(right: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(right)
        def function(*arguments: Any) -> Any:
            before()
            return right(*arguments)

        return function

    return wrap


def _seeds() -> None:
    random.random()
    np.random.rand(3)
    nbgrad.rand(3)


def _settings() -> None:
    sys.setrecursionlimit(5000)
    random.seed(1)
    torch.manual_seed(1)
    np.random.seed(1)


WRAPPED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "prints": _wrapped(lambda: print("a line\n" * 3)),
    "draws random numbers": _wrapped(_seeds),
    "changes settings": _wrapped(_settings),
    "is slow": _wrapped(lambda: time.sleep(0.001)),
}

"""Small engines in the shape of well-known ones: the same classes, attributes and ways to keep a graph."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np


class MicrogradValue:
    """As micrograd's ``Value``: the parents are a set, and the rule is a closure."""

    def __init__(self, data: Any, _children: tuple[Any, ...] = (), _op: str = "", label: str = "") -> None:
        self.data, self.label = data, label
        self.grad: Any = 0
        self._backward: Any = lambda: None
        self._prev = set(_children)
        self._op = _op

    def __add__(self, other: Any) -> "MicrogradValue":
        other = other if isinstance(other, MicrogradValue) else MicrogradValue(other)
        out = MicrogradValue(self.data + other.data, (self, other), "+")

        def _backward() -> None:
            self.grad += out.grad
            other.grad += out.grad

        out._backward = _backward
        return out

    def __mul__(self, other: Any) -> "MicrogradValue":
        other = other if isinstance(other, MicrogradValue) else MicrogradValue(other)
        out = MicrogradValue(self.data * other.data, (self, other), "*")

        def _backward() -> None:
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out._backward = _backward
        return out

    def __pow__(self, other: float) -> "MicrogradValue":
        out = MicrogradValue(self.data**other, (self,), f"**{other}")

        def _backward() -> None:
            self.grad += other * self.data ** (other - 1) * out.grad

        out._backward = _backward
        return out

    def relu(self) -> "MicrogradValue":
        out = MicrogradValue(max(0, self.data), (self,), "ReLU")

        def _backward() -> None:
            self.grad += (out.data > 0) * out.grad

        out._backward = _backward
        return out

    def __neg__(self) -> "MicrogradValue":
        return self * -1

    def __sub__(self, other: Any) -> "MicrogradValue":
        return self + (-other)

    def backward(self) -> None:
        order: list[MicrogradValue] = []
        seen: set[MicrogradValue] = set()
        stack = [(self, False)]
        while stack:
            one, whole = stack.pop()
            if whole:
                order.append(one)
            elif one not in seen:
                seen.add(one)
                stack += [(one, True), *[(child, False) for child in one._prev]]
        self.grad = 1
        for one in reversed(order):
            one._backward()


# --- minitorch -------------------------------------------------------------------------------------------------------

_numbers = itertools.count(1)


@dataclass
class ScalarHistory:
    """As minitorch's."""

    last_fn: Any = None
    ctx: Any = None
    inputs: Any = ()


class Mul:
    """A function of minitorch; its instances are never made."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a * b

    @staticmethod
    def backward(d: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return d * b, d * a


class Add(Mul):
    """Another one."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a + b

    @staticmethod
    def backward(d: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return d, d


class Sum(Mul):
    """The sum over a dimension, which is an argument."""


class Scalar:
    """As minitorch's ``Scalar``: only leaves keep a derivative."""

    def __init__(self, v: float, back: Any = None, name: str | None = None) -> None:
        self.unique_id = next(_numbers)
        self.data, self.history, self.derivative = float(v), back, None
        self.name = name if name is not None else str(self.unique_id)

    def requires_grad_(self) -> "Scalar":
        self.history = ScalarHistory()
        return self

    def _apply(self, function: Any, other: Any) -> "Scalar":
        other = other if isinstance(other, Scalar) else Scalar(other)
        return Scalar(function.forward(self.data, other.data), ScalarHistory(function, object(), (self, other)))

    def __add__(self, other: Any) -> "Scalar":
        return self._apply(Add, other)

    def __mul__(self, other: Any) -> "Scalar":
        return self._apply(Mul, other)

    def backward(self, d: float = 1.0) -> None:
        history = self.history
        if history is None:
            return
        if history.last_fn is None:
            self.derivative = (self.derivative or 0.0) + d  # type: ignore[assignment]
            return
        a, b = history.inputs
        for one, part in zip((a, b), history.last_fn.backward(d, a.data, b.data), strict=True):
            one.backward(part)


class TensorData:
    """As minitorch's: a row of memory, a shape and strides."""

    def __init__(self, storage: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self._storage, self._shape, self._strides = np.asarray(storage, float), np.array(shape), np.array(strides)


class MiniTensor:
    """As minitorch's ``Tensor``, whose ``==`` is elementwise and whose numbers are in a ``TensorData``."""

    def __init__(self, v: TensorData, back: Any = None, name: str | None = None) -> None:
        self._tensor, self.history, self.grad = v, back, None
        self.unique_id = next(_numbers)
        self.name = name if name is not None else str(self.unique_id)

    def __eq__(self, other: object) -> Any:
        raise AssertionError("a reader compares objects with is")

    __hash__ = object.__hash__


# --- needle ----------------------------------------------------------------------------------------------------------


class NDArray:
    """As needle's array of its own."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = np.asarray(numbers, np.float32)

    def numpy(self) -> Any:
        return self._numbers


class MatMul:
    """An op of needle."""


class EWiseAdd:
    """Another one."""


class AddScalar:
    """An op with a number."""

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar


class Summation:
    """An op with axes."""

    def __init__(self, axes: Any = None) -> None:
        self.axes = axes


class NeedleTensor:
    """As needle's ``Tensor``: ``data`` makes a new tensor, and the numbers are computed when they are needed."""

    def __init__(self, numbers: Any, op: Any = None, inputs: Any = (), requires_grad: bool = True) -> None:
        self.op, self.inputs, self.requires_grad = op, list(inputs), requires_grad
        self.cached_data = None if numbers is None else NDArray(numbers)

    @property
    def data(self) -> Any:
        raise AssertionError("a reader takes cached_data: data makes a tensor")


# --- the first tinygrad ----------------------------------------------------------------------------------------------


class Relu:
    """A function of tinygrad: its instance keeps the parents."""

    def __init__(self, *parents: Any) -> None:
        self.parents = parents


class TinyTensor:
    """As the ``Tensor`` of the first tinygrad."""

    def __init__(self, data: Any, _ctx: Any = None) -> None:
        self.data, self.grad, self._ctx = np.asarray(data, np.float32), None, _ctx


# --- an engine with the protocol -------------------------------------------------------------------------------------


class Cell:
    """An engine of a student that has the four names as methods and properties."""

    def __init__(self, value: Any, parents: Any = (), op: Any = None, gradient: Any = None) -> None:
        self.value, self.gradient, self.op = value, gradient, op
        self._from = parents

    def parents(self) -> Any:
        return self._from


def tanh(cell: Cell) -> Cell:
    """The hyperbolic tangent of a cell."""
    return Cell(math.tanh(cell.value), (cell,), "tanh")

"""The graph of the small engine as objects in the shape of other engines: their attributes, names and settings."""

from typing import Any

import numpy as np

from tests.drawing.small_engine import Node, topological

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "relu": "ReLU"}
DUNDERS = {
    "add": "__add__",
    "sub": "__sub__",
    "mul": "__mul__",
    "div": "__truediv__",
    "pow": "__pow__",
    "neg": "__neg__",
}
NEEDLES = {
    "add": "EWiseAdd", "sub": "EWiseSub", "mul": "EWiseMul", "div": "EWiseDiv", "neg": "Negate", "pow": "PowerScalar",
    "exp": "Exp", "log": "Log", "tanh": "Tanh", "relu": "ReLU", "matmul": "MatMul", "sum": "Summation",
    "transpose": "Transpose", "reshape": "Reshape", "log_softmax": "LogSoftmax", "logsumexp": "LogSumExp",
}  # fmt: skip
MINITORCHS = {
    "neg": "Neg",
    "add": "Add",
    "mul": "Mul",
    "relu": "ReLU",
    "matmul": "MatMul",
    "log": "Log",
    "pow": "Power",
}


class Plain:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def _number(array: Any) -> Any:
    """A number of Python for an array without dimensions."""
    return None if array is None else float(array) if np.ndim(array) == 0 else array


def _turned(root: Node, make: Any) -> Any:
    made: dict[int, Any] = {}
    for node in topological(root):
        made[id(node)] = make(node, [made[id(one)] for one in node.parents])
    return made[id(root)]


def as_micrograd(root: Node) -> Any:
    """Parents in a set, so their order is lost; the exponent stands in the name of the op; there are no settings."""

    def make(node: Node, parents: list[Any]) -> Any:
        op = f"**{node.settings['exponent']}" if node.op == "pow" else SYMBOLS.get(node.op, node.op) if node.op else ""
        gradient = 0.0 if node.gradient is None else _number(node.gradient)
        return Plain(data=_number(node.value), grad=gradient, _prev=set(parents), _op=op, label=node.name or "")

    return _turned(root, make)


def as_lesson_3(root: Node) -> Any:
    """Parents and a rule, whose code stands in the method of the op."""

    def make(node: Node, parents: list[Any]) -> Any:
        rule = None
        if node.op:
            rule = lambda g: g  # noqa: E731
            rule.__qualname__ = f"Value.{DUNDERS.get(node.op, node.op)}.<locals>.<lambda>"
        gradient = 0.0 if node.gradient is None else _number(node.gradient)
        return Plain(data=_number(node.value), grad=gradient, parents=tuple(parents), rule=rule)

    return _turned(root, make)


def as_needle(root: Node) -> Any:
    """An op with settings, its inputs, and numbers of type float32."""

    def make(node: Node, parents: list[Any]) -> Any:
        op = None
        if node.op:
            told = dict(node.settings)
            if "exponent" in told:
                told["scalar"] = told.pop("exponent")
            if node.op in ("sum", "logsumexp"):
                told = {"axes": told.get("axis")}
            op = type(NEEDLES.get(node.op, node.op.title()), (Plain,), {})(**told)
        narrow = lambda one: None if one is None else np.asarray(one, np.float32)  # noqa: E731
        gradient = None if node.gradient is None else Plain(cached_data=narrow(node.gradient), op=None, inputs=[])
        return Plain(op=op, inputs=parents, cached_data=narrow(node.value), grad=gradient, requires_grad=True)

    return _turned(root, make)


def as_minitorch(root: Node) -> Any:
    """Functions without instances, and gradients of leaves only."""

    def make(node: Node, parents: list[Any]) -> Any:
        function = type(MINITORCHS.get(node.op, node.op.title()), (), {}) if node.op else None
        inputs = list(parents)
        if node.op == "pow":
            inputs.append(Plain(data=float(node.settings["exponent"]), history=None, derivative=None))
        gradient = None if node.op else _number(node.gradient)
        history = Plain(last_fn=function, ctx=None, inputs=inputs)
        return Plain(data=_number(node.value), history=history, derivative=gradient, name=node.name or "")

    return _turned(root, make)


SHAPES = (as_micrograd, as_lesson_3, as_needle, as_minitorch)

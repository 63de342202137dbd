"""The objects of other engines as parts: what each ready reader reads, and what it says of what it cannot read."""

import re
import sys
import types
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.drawing import AbstractValue, GraphCycleError, Part, UnreadableError, read, reader, reading
from nbgrad.drawing.engines import op_name
from tests.drawing.engines import (
    AddScalar,
    Cell,
    EWiseAdd,
    MatMul,
    MicrogradValue,
    MiniTensor,
    Mul,
    NeedleTensor,
    Relu,
    Scalar,
    ScalarHistory,
    Sum,
    Summation,
    TensorData,
    TinyTensor,
    tanh,
)

ROOT = Path(__file__).parents[2]


def rows(parts: list[Part]) -> list[tuple[str | None, Any, Any]]:
    return [(part.op, part.value, part.gradient) for part in parts]


def test_micrograd() -> None:
    a, b = MicrogradValue(2.0, label="a"), MicrogradValue(-3.0)
    square = a * a
    root = square + b**2
    root.backward()
    parts = read(root)
    assert rows(parts) == [
        (None, 2.0, 4.0),
        ("*", 4.0, 1),
        (None, -3.0, -6.0),
        ("**2", 9.0, 1),
        ("+", 13.0, 1),
    ]
    assert parts[1].parents == (a, a), "the set has lost one of them"
    assert parts[4].parents == (square, parts[3].source)
    assert parts[3].settings == {"exponent": 2}
    assert [part.name for part in parts] == ["a", None, None, None, None]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_closure_of_a_rule_has_the_order_that_a_set_lacks(swapped: bool) -> None:
    for _ in range(20):  # the order of a set follows the addresses of its objects
        a, b = MicrogradValue(1.0), MicrogradValue(2.0)
        one, other = (b, a) if swapped else (a, b)
        assert read(one - other)[-1].parents[0] is one
        assert read(one * other)[-1].parents == (one, other)


@pytest.mark.parametrize(("name", "exponent"), [("**2", 2), ("**-1", -1), ("**0.5", 0.5), ("^3", 3), ("pow2", 2)])
def test_an_exponent_in_a_name(name: str, exponent: float) -> None:
    assert read(MicrogradValue(1.0, (MicrogradValue(1.0),), name))[-1].settings == {"exponent": exponent}


def lesson_3() -> dict[str, Any]:
    """The engine of lesson 3, as its solutions write it."""
    source = (ROOT / "notebooks" / "source" / "03_engine.md").read_text("utf-8")
    cells = re.findall(r"```python(?: exercise [\d.]+)?\n(.*?)```", source, re.DOTALL)
    names: dict[str, Any] = {"math": __import__("math")}
    for cell in cells:
        if re.match(r"class Value|def topological|def backward", cell):
            exec(re.sub(r"^ *(\.\.\.|### (BEGIN|END) SOLUTION)\n", "", cell, flags=re.MULTILINE), names)
    return names


def test_the_engine_of_lesson_3() -> None:
    names = lesson_3()
    value = names["Value"]
    a, b = value(0.5), value(-1.0)
    root = (a * b + a).tanh()
    names["backward"](root)
    parts = read(root)
    assert [part.op for part in parts] == [None, None, "*", "+", "tanh"], "the rules are lambdas of these methods"
    assert [part.parents for part in parts[2:]] == [(a, b), (parts[2].source, a), (parts[3].source,)]
    assert [part.gradient for part in parts] == [a.grad, b.grad, root.parents[0].grad, root.parents[0].grad, 1.0]


def test_a_scalar_of_minitorch() -> None:
    x, y = Scalar(2.0).requires_grad_(), Scalar(3.0, name="y").requires_grad_()
    root = x * y + 1
    root.backward()
    parts = read(root)
    assert rows(parts) == [
        (None, 2.0, 3.0),
        (None, 3.0, 2.0),
        ("Mul", 6.0, None),
        (None, 1.0, None),
        ("Add", 7.0, None),
    ]
    assert [part.name for part in parts] == [None, "y", None, None, None], "a number is no name"
    assert parts[3].settings == {"requires_grad": False}
    assert parts[0].settings == {}


def test_a_tensor_of_minitorch() -> None:
    turned = MiniTensor(TensorData([0, 1, 2, 3, 4, 5], (3, 2), (1, 3)), ScalarHistory())
    turned.grad = MiniTensor(TensorData([7] * 6, (3, 2), (2, 1)))  # type: ignore[assignment]
    product = MiniTensor(TensorData(range(6), (3, 2), (2, 1)), ScalarHistory(Mul, None, (turned, turned)))
    root = MiniTensor(TensorData([4, 5], (1, 2), (2, 1)), ScalarHistory(Sum, None, (product, 0)))
    parts = read(root)
    assert [part.op for part in parts] == [None, "Mul", "Sum"]
    assert parts[0].value.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert parts[0].gradient.tolist() == [[7, 7]] * 3
    assert parts[1].parents[0] is parts[1].parents[1] is turned
    assert parts[2].parents == (product,)
    assert parts[2].settings == {"dim": 0}


def test_a_tensor_of_needle() -> None:
    x, w = NeedleTensor(np.ones((2, 3)), requires_grad=False), NeedleTensor(np.ones((3, 4)))
    h = NeedleTensor(np.full((2, 4), 3.0), MatMul(), (x, w))
    s = NeedleTensor(np.full((2, 4), 4.0), AddScalar(1.0), (h,))
    root = NeedleTensor(32.0, Summation(axes=(0, 1)), (s,))
    w.grad = NeedleTensor(np.full((3, 4), 2.0))  # type: ignore[attr-defined]
    parts = read(root)
    assert [part.op for part in parts] == [None, None, "MatMul", "AddScalar", "Summation"]
    assert [dict(part.settings) for part in parts] == [
        {"requires_grad": False},
        {},
        {},
        {"scalar": 1.0},
        {"axes": (0, 1)},
    ]
    assert parts[1].gradient.tolist() == [[2.0] * 4] * 3
    assert parts[2].value.dtype == np.float32


def test_a_tensor_of_needle_that_is_not_computed() -> None:
    root = NeedleTensor(None, EWiseAdd(), (NeedleTensor(1.0), NeedleTensor(2.0)))
    with pytest.raises(UnreadableError, match=r"EWiseAdd is not computed yet: call realize_cached_data\(\)"):
        read(root)


def test_a_tensor_of_the_first_tinygrad() -> None:
    x = TinyTensor([-1.0, 2.0])
    x.grad = np.array([0.0, 1.0])  # type: ignore[assignment]
    parts = read(TinyTensor([0.0, 2.0], Relu(x)))
    assert [part.op for part in parts] == [None, "Relu"]
    assert parts[0].gradient.tolist() == [0, 1]


def test_the_protocol_with_methods_and_lists() -> None:
    x = Cell(0.5)
    y = tanh(x)
    z = Cell([1.0, 2.0], [[x, y], None, 3.0], "stack", [0.1, 0.2])
    parts = read(z)
    assert [part.op for part in parts] == [None, "tanh", "stack"]
    assert parts[2].parents == (x, y, 3.0), "a None is an input that was left out, and a number stands for itself"
    assert parts[2].gradient == [0.1, 0.2]


def test_arrays_among_parents_are_constants() -> None:
    constant = np.ones(3)
    parts = read(Cell(np.ones(3), (Cell(np.ones(3)), constant), "*"))
    assert parts[1].source is constant
    assert parts[1].settings == {"requires_grad": False}


def test_several_roots_share_their_parts() -> None:
    x = Cell(1.0)
    one, other = tanh(x), tanh(x)
    assert [part.source for part in read([one, other, one])] == [x, one, other]


class Kind(Enum):
    """The ops of an engine."""

    ADD = 1


@pytest.mark.parametrize(
    ("op", "name"),
    [(None, None), ("", None), (" + ", "+"), (Mul, "Mul"), (MatMul(), "MatMul"), (Kind.ADD, "ADD"), (np.tanh, "tanh")],
)
def test_the_name_of_an_op(op: Any, name: str | None) -> None:
    assert op_name(op) == name


# --- readers of the user's -------------------------------------------------------------------------------------------


class Foreign:
    """A class without any of the names."""

    def __init__(self, number: float, *inputs: "Foreign") -> None:
        self.number, self.inputs = number, inputs


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[type, Any]:
    readers: dict[type, Any] = {}
    monkeypatch.setattr(reading, "_registered", readers)
    return readers


@pytest.mark.usefixtures("registered")
def test_a_reader_of_the_users() -> None:
    root = Foreign(3.0, Foreign(1.0), Foreign(2.0))
    with pytest.raises(UnreadableError, match=r"Foreign.*@nbgrad\.drawing\.reader\(cls\)"):
        nbgrad.draw(root)

    @reader(Foreign)
    def _(thing: Foreign) -> Part:
        return Part(thing, "plus" if thing.inputs else None, thing.inputs, thing.number)

    assert [part.value for part in read(root)] == [1.0, 2.0, 3.0]

    class Child(Foreign):
        """A subclass."""

    assert read(Child(4.0))[0].value == 4.0

    @reader(Child)
    def _(thing: Child) -> Part:
        return Part(thing, None, (), -thing.number)

    assert read(Child(4.0))[0].value == -4.0, "the reader of the subclass comes first"


@pytest.mark.usefixtures("registered")
def test_a_reader_that_returns_something_else() -> None:
    reader(Foreign)(lambda thing: thing.number)  # type: ignore[arg-type, return-value]
    with pytest.raises(UnreadableError, match=r"the reader of Foreign has to return a Part .* returned 1\.0"):
        read(Foreign(1.0))
    reader(Foreign)(lambda thing: Part(object(), None, (), 1.0))
    with pytest.raises(UnreadableError, match="whose source is the object that it got"):
        read(Foreign(1.0))


def test_a_reader_of_no_class() -> None:
    with pytest.raises(TypeError, match=r"expected a class, got 3: write @nbgrad\.drawing\.reader"):
        reader(3)  # type: ignore[arg-type]


# --- what cannot be read ---------------------------------------------------------------------------------------------


class Raising:
    """An object whose property raises."""

    def __init__(self) -> None:
        self.parents, self.op, self.gradient = (), None, None

    @property
    def value(self) -> float:
        raise ZeroDivisionError("no value")


@pytest.mark.parametrize(
    ("root", "match"),
    [
        (None, "no graph can be read from None of class NoneType. Give its class the attributes or methods parents"),
        (3, "no graph can be read from 3 of class int"),
        ("loss", "no graph can be read from 'loss' of class str"),
        ([], "an empty list"),
        ([None], "from None"),
        ({}, "of class dict"),
        (Cell, "of class type"),
        (np.ones(2), r"of class numpy\.ndarray"),
        (torch.ones(2), "a tensor that nbgrad records itself: put %%autograd"),
        (Raising(), "cannot be read: ZeroDivisionError: no value"),
        (Cell(1.0, "ab", "+"), "parents: expected a tuple of objects, got 'ab'"),
        (Cell(1.0, 7, "+"), "parents: expected a tuple of objects, got 7"),
        (Cell(1.0, (object(),), "+"), "a parent in the graph of"),
    ],
)
def test_what_cannot_be_read(root: Any, match: str) -> None:
    with pytest.raises(UnreadableError, match=match):
        read(root)


def test_a_tensor_of_nbgrads() -> None:
    with pytest.raises(UnreadableError, match="nbgrad records itself"):
        nbgrad.draw(nbgrad.tensor(1.0))


def test_a_cycle_is_an_error_that_names_the_object() -> None:
    a = MicrogradValue(1.0)
    b = a + a
    a._prev, a._op = {b}, "odd"
    a.__class__ = type("Named", (MicrogradValue,), {"__repr__": lambda self: "<a>"})
    with pytest.raises(GraphCycleError, match=r"<a> was computed from itself: <a> <- .* <- <a>\. A graph of ops"):
        read(a)
    alone = Cell(1.0, op="+")
    alone._from = (alone,)
    with pytest.raises(GraphCycleError):
        read(alone)


def test_an_engine_that_makes_new_parents_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        """Each has a new parent."""

        value, op, gradient = 1.0, "+", None

        @property
        def parents(self) -> "tuple[Endless]":
            return (Endless(),)

    monkeypatch.setattr(reading, "LIMIT", 1_000)
    with pytest.raises(UnreadableError, match="more than 1,000 ancestors"):
        read(Endless())


def test_a_deep_graph() -> None:
    root = MicrogradValue(1.0)
    for _ in range(10_000):
        root = root + 1.0
    parts = read(root)
    assert len(parts) == 20_001
    assert parts[-1].source is root


def test_nothing_of_an_unknown_object_runs() -> None:
    class Touchy:
        """Every attribute raises."""

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    assert not reading.is_known(Touchy())
    assert not reading.is_known(types.SimpleNamespace(children=[], value=1)), "as a widget has them"
    assert reading.is_known(Cell(1.0))


# --- whole programs --------------------------------------------------------------------------------------------------


def test_a_graph_of_torch_fx() -> None:
    from torch.fx.passes.shape_prop import ShapeProp

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 4)
            self.scale = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (1 - torch.relu(self.layer(x)) * self.scale).sum(dim=1)

    module = torch.fx.symbolic_trace(Net())
    with pytest.raises(UnreadableError, match=r"the node x of torch\.fx has no shape: run .*ShapeProp"):
        read(module)
    ShapeProp(module).propagate(torch.ones(2, 3))
    parts = read(module)
    assert [part.op or part.name for part in parts] == [
        "x",
        "layer.weight",
        "layer.bias",
        "Linear",
        "relu",
        "scale",
        "mul",
        "sub",
        "sum",
    ]
    assert parts[0].value == AbstractValue((2, 3), "float32")
    assert parts[3].value == AbstractValue((2, 4), "float32")
    assert [len(part.parents) for part in parts] == [0, 0, 0, 3, 1, 0, 2, 2, 1]
    assert parts[7].parents == (1, parts[6].source)
    assert parts[8].settings == {"dim": 1}
    assert [part.source for part in read(module.graph)] == [part.source for part in parts]


def test_numbers_among_the_arguments_of_torch_fx() -> None:
    from torch.fx.passes.shape_prop import ShapeProp

    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(2 / x, 0.0, 1.0)
        return torch.sum(y, 1) - y[0] + x.new_zeros(2)

    module = torch.fx.symbolic_trace(program)
    ShapeProp(module).propagate(torch.ones(2, 2))
    parts = {str(part.source): part for part in read(module)}
    assert [(part.op, len(part.parents), dict(part.settings)) for part in parts.values()] == [
        (None, 0, {}),
        ("truediv", 2, {}),
        ("clamp", 3, {}),
        ("sum", 1, {"dim": 1}),
        ("getitem", 1, {"index": 0}),
        ("sub", 2, {}),
        ("new_zeros", 1, {"arguments": (2,)}),
        ("add", 2, {}),
    ]
    assert parts["truediv"].parents[0] == 2


class FullGraphNode:
    """As the node with which HIPS autograd traces a whole graph: its parents can be read once."""

    __module__ = "autograd.misc.tracers"
    __slots__ = ("recipe", "value")

    def __init__(self, value: Any, function: Any, args: Any = (), parents: Any = ()) -> None:
        self.value = value
        self.recipe = (function, args, {}, zip([at for at, _ in parents], [one for _, one in parents], strict=True))


def container_take(arguments: Any, at: int) -> Any:
    """As autograd's, which takes an argument out of all."""
    return arguments[at]


def multiply(a: Any, b: Any) -> Any:
    """An op of autograd's numpy."""
    return a * b


def traced() -> FullGraphNode:
    start = FullGraphNode(None, lambda x: x)
    x = FullGraphNode(3.0, container_take, ((3.0,), 0), [(0, start)])
    return FullGraphNode(
        18.0, multiply, (FullGraphNode, 2.0), [(0, FullGraphNode(9.0, multiply, (3.0, 3.0), [(0, x), (1, x)]))]
    )


def test_a_graph_of_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(places: Any, value: Any, args: Any, kwargs: Any) -> Any:
        return lambda g: [g * args[1 - place] for place in places]

    core = types.ModuleType("autograd.core")
    core.primitive_vjps = {multiply: rule}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "autograd.core", core)
    root = traced()
    for _ in range(2):  # the second time as the first, although a zip can be read once
        parts = read(root)
        assert rows(parts) == [(None, 3.0, 12.0), ("multiply", 9.0, 2.0), ("multiply", 18.0, 1.0)]
        assert parts[0].name == "argument 0"
        assert parts[1].parents == (parts[0].source, parts[0].source)
        assert parts[2].parents == (parts[1].source, 2.0)


def test_a_node_of_autograd_that_keeps_nothing() -> None:
    node = type("VJPNode", (), {"__module__": "autograd.core", "__slots__": ("parents", "vjp")})
    box = type("FloatBox", (), {"__module__": "autograd.builtins", "__slots__": ("_node", "_value", "_trace")})
    base = type("Box", (box,), {"__module__": "autograd.tracer", "__slots__": ()})()
    base._node = type("Node", (node,), {"__module__": "autograd.tracer", "__slots__": ()})()
    with pytest.raises(UnreadableError, match=r"nbgrad\.draw\(autograd\.misc\.tracers\.full_graph\(f, x\)\)"):
        read(base)


def test_autograd_itself() -> None:
    anp = pytest.importorskip("autograd.numpy")
    autograd = pytest.importorskip("autograd")
    tracers = pytest.importorskip("autograd.misc.tracers")

    def f(w: Any, x: Any) -> Any:
        hidden = anp.tanh(anp.dot(x, w) + 1.0)
        return anp.sum(hidden * hidden)

    w, x = np.linspace(-1, 1, 6).reshape(3, 2), np.linspace(0, 1, 12).reshape(4, 3)
    parts = {part.name or part.op: part for part in read(tracers.full_graph(f, w, x))}
    assert list(parts) == ["argument 1", "argument 0", "dot", "add", "tanh", "multiply", "sum"]
    assert np.allclose(parts["argument 0"].gradient, autograd.grad(f, 0)(w, x), rtol=1e-12)
    assert np.allclose(parts["argument 1"].gradient, autograd.grad(f, 1)(w, x), rtol=1e-12)


def test_micrograd_itself() -> None:
    value = pytest.importorskip("micrograd.engine").Value
    a, b = value(2.0), value(-3.0)
    root = (a - b).relu() * b / a
    root.backward()
    graph = nbgrad.draw(root)
    assert [record.op.name for record in graph.records if record.op] == ["*", "+", "ReLU", "*", "**-1", "*"]
    assert {
        record.name: record.gradient.values for record in graph.records if record.name in ("a", "b") and record.gradient
    } == {
        "a": a.grad,
        "b": b.grad,
    }


def test_a_jaxpr() -> None:
    jax = pytest.importorskip("jax")
    closed = jax.make_jaxpr(lambda x, w: jax.numpy.sum(jax.numpy.tanh(x @ w) ** 2 + 1.0))(
        np.ones((4, 3)), np.ones((3, 2))
    )
    parts = read(closed)
    assert [part.op or part.name for part in parts] == [
        "a",
        "b",
        "dot_general",
        "tanh",
        "integer_pow",
        "add",
        "reduce_sum",
    ]
    assert parts[2].value == AbstractValue((4, 2), "float32")
    assert parts[4].settings["y"] == 2
    assert parts[5].parents[1] == 1.0
    assert [part.op for part in read(closed.jaxpr)] == [part.op for part in parts]


def test_the_shape_of_a_jaxpr() -> None:
    def variable(*shape: int) -> Any:
        return types.SimpleNamespace(aval=types.SimpleNamespace(shape=shape, dtype="float32"))

    class Var:
        """A variable of a jaxpr."""

        def __init__(self, *shape: int) -> None:
            self.aval = variable(*shape).aval

    x, y = Var(2, 3), Var()
    literal = types.SimpleNamespace(val=np.array(2.0, np.float32), aval=variable().aval)
    equations = [
        types.SimpleNamespace(
            primitive=types.SimpleNamespace(name="mul"), invars=[x, literal], outvars=[y], params={"out": None, "n": 1}
        )
    ]
    jaxpr = type("Jaxpr", (), {"__module__": "jax._src.core"})()
    jaxpr.constvars, jaxpr.invars, jaxpr.outvars, jaxpr.eqns = [], [x], [y, literal], equations
    parts = read(jaxpr)
    assert [(part.op, part.name, part.value, dict(part.settings)) for part in parts] == [
        (None, "a", AbstractValue((2, 3), "float32"), {}),
        ("mul", None, AbstractValue((), "float32"), {"n": 1}),
    ]
    assert parts[1].parents == (x, 2.0)

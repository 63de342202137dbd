"""The picture of another engine's graph: it is a graph of nbgrad with all that a recorded one has."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.drawing import AbstractValue, DrawnGraph, UnreadableError
from nbgrad.lab.mygrad.losses import softmax
from nbgrad.lab.mygrad.tensor import Tensor as EngineTensor
from nbgrad.widgets.describe import describe
from tests.drawing.engines import AddScalar, Cell, MicrogradValue, NeedleTensor, Summation, tanh


def boxes(graph: DrawnGraph) -> list[list[str]]:
    return [node["label"] for node in describe(graph)["nodes"]]


def by_name(graph: DrawnGraph) -> dict[str, Record]:
    return {record.name or record.kind_or_op: record for record in graph.records}


def test_the_same_program_has_the_picture_of_nbgrads_own() -> None:
    x, w, b = (MicrogradValue(one) for one in (2.0, 3.0, 0.5))
    h = (x * w + b).relu()
    loss = h + w**2
    loss.backward()
    graph = nbgrad.draw(loss)

    def of(graph: AutogradGraph, names: dict[str, str]) -> list[Any]:
        return [
            (
                one.name,
                names.get(one.kind_or_op, one.kind_or_op),
                one.value and one.value.values,
                one.gradient and one.gradient.values,
                one.root,
                [
                    (taken.source is not None, taken.gradient and taken.gradient.values)
                    for taken in one.inputs
                    if taken.source
                ],
            )
            for one in sorted(graph.records, key=lambda record: str((record.name, record.kind_or_op, record.value)))
        ]

    same = {"+": "add", "*": "mul", "ReLU": "relu", "**2": "pow"}
    theirs = of(graph, same)
    x, w, b = (nbgrad.tensor(one, dtype=nbgrad.float64, requires_grad=True) for one in (2.0, 3.0, 0.5))  # type: ignore[assignment]
    with nbgrad.AutogradGraph() as recorded:
        h = (x * w + b).relu()
        loss = h + w**2
        loss.backward()
    own = of(recorded, {})
    assert sorted(map(str, theirs)) == sorted(map(str, own))
    assert graph.backwards == recorded.backwards == 1
    assert describe(graph)["summary"] == describe(recorded)["summary"]
    assert len(describe(graph)["steps"]) == len(describe(recorded)["steps"])


def test_the_names_of_variables_attributes_and_lists() -> None:
    class Net:
        """A net of a student's."""

        def __init__(self) -> None:
            self.weights = [MicrogradValue(1.0), MicrogradValue(2.0)]
            self.bias = MicrogradValue(3.0, label="its own label")

    net, inputs = Net(), {"x": MicrogradValue(4.0)}
    hidden = net.weights[0] * inputs["x"]
    loss = hidden + net.weights[1] + net.bias
    loss.backward()
    graph = nbgrad.draw(loss)
    assert {record.name for record in graph.records} == {
        "net.weights[0]",
        "net.weights[1]",
        "inputs['x']",
        "its own label",
        "hidden",
        "loss",
        None,
    }
    assert graph.name == "loss"
    assert nbgrad.draw(loss, name="my net").name == "my net"
    unnamed = nbgrad.draw(loss * loss)
    assert unnamed.name.startswith("graph ")


def test_formulas_are_those_of_the_table() -> None:
    root = tanh(Cell(0.5))
    root.gradient = 1.0
    description = describe(nbgrad.draw(root))
    assert description["ops"]["tanh"]["formulas"][0]["latex"] == r"\tanh x"
    odd = Cell(1.0, (Cell(2.0),), "wobble")
    text = describe(nbgrad.draw(odd))["ops"]["wobble"]
    assert text["what"] == "An op of this engine, of which nbgrad knows only the name wobble."
    assert text["formulas"][0]["latex"] == ""


def test_numbers_and_settings_stand_behind_the_names_of_ops() -> None:
    x = NeedleTensor(np.ones((2, 3)))
    more = NeedleTensor(np.full((2, 3), 3.0), AddScalar(2.0), (x,))
    total = NeedleTensor(np.full(3, 6.0), Summation(axes=(0,)), (more,))
    other = Cell(4.0, (Cell(1.0), 3.0), "+")
    minus = Cell(-4.0, (other,), "-")
    about = [node["about"] for root in (total, minus) for node in describe(nbgrad.draw(root))["nodes"]]
    assert about == ["", "+ 2", "dim 0", "", " 3", ""]
    assert [record.op.name for record in nbgrad.draw(minus).records if record.op] == ["+", "neg"]


# --- gradients -------------------------------------------------------------------------------------------------------


def test_before_a_backward_there_are_no_gradients() -> None:
    loss = MicrogradValue(1.0) * MicrogradValue(2.0)
    graph = nbgrad.draw(loss)
    assert graph.backwards == 0
    assert graph.frame is None
    assert not any(record.gradient or record.root for record in graph.records)
    assert "forward only" in describe(graph)["summary"]


def test_a_leaf_without_gradient_is_a_constant_after_a_backward() -> None:
    w, x = Cell(2.0, gradient=3.0), Cell(3.0)
    graph = nbgrad.draw(Cell(6.0, (w, x), "*", 1.0))
    assert {name: one.kind for name, one in by_name(graph).items()} == {"w": "leaf", "x": "constant", "*": "op"}


def test_the_gradients_along_edges() -> None:
    x = MicrogradValue(3.0)
    y = x * x + x
    y.backward()
    edges = [(edge["input"], edge["gradient"]) for edge in describe(nbgrad.draw(y))["edges"]]
    assert edges == [("a", "(), 3"), ("b", "(), 3"), ("a", "(), 1"), ("b", "(), 1")]


def test_uses_that_do_not_add_up_have_no_gradients() -> None:
    x = MicrogradValue(3.0)
    y = x * x + x
    y.backward()
    x.grad = 6.0  # as an engine that forgets a path would have it
    graph = nbgrad.draw(y)
    assert by_name(graph)["x"].gradient is not None
    into_x = [taken for record in graph.records for taken in record.inputs if taken.source == by_name(graph)["x"].id]
    assert len(into_x) == 3
    assert all(taken.gradient is None for taken in into_x)


@pytest.mark.parametrize("op", ["+", "EWiseAdd", "my_own_sum"])
def test_broadcast_sums(op: str) -> None:
    x, b = Cell(np.ones((4, 3)), gradient=np.full((4, 3), 2.0)), Cell(np.ones(3), gradient=np.full(3, 8.0))
    y = Cell(np.full((4, 3), 2.0), (x, b), op, np.full((4, 3), 2.0))
    graph = nbgrad.draw(y)
    (undone,) = [taken.reduction for taken in by_name(graph)["y"].inputs if taken.reduction is not None]
    assert str(undone) == "(4, 3) -> (3,): sum dim 0"
    assert graph.frame is not None
    assert list(graph.frame.reductions.values()) == [undone]
    (edge,) = [edge for edge in describe(graph)["edges"] if edge["reduction"] is not None]
    assert edge["reduction"]["sums"] == (
        []
        if op == "my_own_sum"
        else ["grad[0] = 2 + 2 + 2 + 2 = 8", "grad[1] = 2 + 2 + 2 + 2 = 8", "grad[2] = 2 + 2 + 2 + 2 = 8"]
    )


@pytest.mark.parametrize(("op", "shapes"), [("matmul", [(2, 3), (3,)]), ("sum", [(2, 3)]), ("stack", [(3,), (3,)])])
def test_ops_that_broadcast_nothing(op: str, shapes: list[tuple[int, ...]]) -> None:
    result = {"matmul": (2,), "sum": (), "stack": (2, 3)}[op]
    leaves = [Cell(np.ones(shape), gradient=np.ones(shape)) for shape in shapes]
    graph = nbgrad.draw(Cell(np.ones(result), leaves, op, np.ones(result)))
    assert not any(taken.reduction for record in graph.records for taken in record.inputs)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (3, (), torch.float64),
        (True, (), torch.float64),
        (1.5, (), torch.float64),
        (math.nan, (), torch.float64),
        (2 + 1j, (), torch.complex128),
        (np.float32(1.0), (), torch.float32),
        (np.int64(1), (), torch.int64),
        (np.bool_(True), (), torch.bool),
        ([1, 2], (2,), torch.float64),
        ([[1.0, 2.0], [3.0, 4.0]], (2, 2), torch.float64),
        ((), (0,), torch.float64),
        (np.ones((2, 0)), (2, 0), torch.float64),
        (np.ones(2, ">f4"), (2,), torch.float32),
        (np.ones(4)[::-2], (2,), torch.float64),
        (np.longdouble(1.0), (), torch.float64),
        (np.array([1, 2.5], object), (2,), torch.float64),
        (torch.ones(2, dtype=torch.bfloat16), (2,), torch.bfloat16),
        ([torch.tensor(1.0), torch.tensor(2.0)], (2,), torch.float64),
        (AbstractValue((2, 3), "float16"), (2, 3), torch.float16),
    ],
)
def test_kinds_of_values(value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    (record,) = nbgrad.draw(Cell(value)).records
    assert (record.shape, record.dtype) == (shape, dtype)


def test_values_are_copied() -> None:
    numbers = np.ones(3)
    graph = nbgrad.draw(Cell(numbers))
    numbers[:] = 5.0
    (record,) = graph.records
    assert record.value is not None
    assert record.value.values == [1, 1, 1]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("3", "the value of .* is '3', a str. It has to be a number"),
        (None, "is None, a NoneType"),
        ([[1.0], [2.0, 3.0]], "is .*, a list. It has to be a number, .*inhomogeneous"),
        (np.array(["a"]), "its element type is <U1"),
        ({"a": 1}, "a dict"),
        (AbstractValue((2,), "float3"), "a AbstractValue"),
    ],
)
def test_a_value_that_is_none(value: Any, match: str) -> None:
    with pytest.raises(UnreadableError, match=match):
        nbgrad.draw(Cell(value))


def test_a_gradient_of_an_odd_type() -> None:
    with pytest.raises(UnreadableError, match=r"the gradient of .* is 'one', a str"):
        nbgrad.draw(Cell(1.0, gradient="one"))


def test_a_nan_is_found() -> None:
    x = Cell(-1.0, gradient=math.nan)
    root = Cell(math.nan, (x,), "log", 1.0)
    (found,) = nbgrad.draw(root).findings()
    assert found.kind == "nan"


def test_a_broadcast_that_was_probably_not_meant_is_found() -> None:
    prediction, target = Cell(np.ones((4, 1)), gradient=np.zeros((4, 1))), Cell(np.ones(4))
    gap = Cell(np.zeros((4, 4)), (prediction, target), "-", np.zeros((4, 4)))
    root = Cell(0.0, (gap,), "mean", 1.0)
    assert [one.kind for one in nbgrad.draw(root).findings()] == ["broadcast"]


# --- the graph -------------------------------------------------------------------------------------------------------


def trained() -> MicrogradValue:
    x, w = MicrogradValue(2.0), MicrogradValue(-3.0)
    loss = (x * w + 1.0) ** 2
    loss.backward()
    return loss


def test_it_holds_nothing_of_the_engine() -> None:
    import gc
    import weakref

    loss = trained()
    graph, held = nbgrad.draw(loss), weakref.ref(loss)
    del loss
    gc.collect()
    assert held() is None
    assert len(graph.records) == 6


def test_ids_lead_from_objects_to_records() -> None:
    loss = trained()
    graph = nbgrad.draw(loss)
    assert graph.record(graph.ids[id(loss)]).root


@pytest.mark.parametrize("suffix", [".svg", ".html", ".dot", ".json", ".txt", ".nbgrad"])
def test_files(tmp_path: Path, suffix: str) -> None:
    graph = nbgrad.draw(trained(), name="trained")
    file = tmp_path / f"graph{suffix}"
    graph.save(file)
    before = file.read_bytes()
    graph.save(file)
    assert file.read_bytes() == before
    if suffix == ".txt":
        assert file.read_text("utf-8") == f"{graph}\n"
    if suffix == ".nbgrad":
        read = nbgrad.load(file)
        assert [one.name for one in read.records] == [one.name for one in graph.records]  # type: ignore[union-attr]
        assert describe(read)["nodes"] == describe(graph)["nodes"]  # type: ignore[arg-type]


def test_print_shows_the_table() -> None:
    graph = nbgrad.draw(trained(), name="trained")
    assert str(graph).startswith("trained: 3 ops, 3 tensors, 0 broadcast reductions, all float64; backward from **2\n")
    assert repr(graph) == "<DrawnGraph 'trained': 3 ops>"


def test_graphs_of_engines_are_compared() -> None:
    one, other = trained(), trained()
    assert nbgrad.compare(nbgrad.draw(one), nbgrad.draw(other)).first is None
    x = MicrogradValue(2.0)
    changed = (x * -3.0 + 1.5) ** 2
    changed.backward()
    assert nbgrad.compare(nbgrad.draw(one), nbgrad.draw(changed)).first is not None


def test_an_argument_that_an_engine_does_not_tell_is_no_difference() -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 3))
    x = EngineTensor(numbers)
    p = softmax(x)
    loss = (p * p).sum()
    loss.backward()
    with nbgrad.AutogradGraph("torch") as graph:
        p = torch.tensor(numbers, requires_grad=True).softmax(1)
        (p * p).sum().backward()
    found = nbgrad.compare(graph, nbgrad.draw(loss))
    assert found.equal
    assert "settings" not in str(found)


def test_ten_thousand_ops() -> None:
    x = MicrogradValue(1.0)
    root = x
    for _ in range(10_000):
        root = root + 1.0
    root.backward()
    graph = nbgrad.draw(root)
    assert len(graph.records) == 20_001
    first = graph.records[0].gradient
    assert first is not None
    assert first.values == 1


def test_a_list_of_roots_and_an_empty_list() -> None:
    x = MicrogradValue(2.0)
    one, other = x * 2.0, x * 3.0
    one.backward()
    other.backward()
    graph = nbgrad.draw([one, other])
    assert graph.name == "one, other"
    assert [record.name for record in graph.records if record.root] == ["one", "other"]
    with pytest.raises(UnreadableError, match="empty list"):
        nbgrad.draw([])

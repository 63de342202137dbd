"""``AutogradGraph``: the record of a program, its view in rustworkx, and that it keeps no tensor alive."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import rustworkx
import torch

import nbgrad
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import current, set_state
from nbgrad.core.graph import graph as graph_module
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.programs import garbage
from tests.core.tasks import finished


def here() -> int:
    """The line this is called from."""
    frame = sys._getframe(1)
    assert isinstance(frame, FrameType)
    return frame.f_lineno


def layer() -> tuple[AutogradGraph, dict[str, Record]]:
    """The graph of a small network's backward, and its records by name."""
    x = tensor(torch.ones(32, 4))
    w, b = tensor(torch.ones(4, 10), requires_grad=True), tensor(torch.zeros(10), requires_grad=True)
    with AutogradGraph() as graph:
        h = x @ w
        y = h + b
        loss = y.mean()
        loss.backward()
    return graph, {record.name or "": record for record in graph.records}


# The records of a graph.


def test_records_are_the_ops_and_the_tensors_sources_first() -> None:
    graph, by_name = layer()
    assert [(r.name, r.kind, r.op.name if r.op else None) for r in graph.records] == [
        ("x", "constant", None),
        ("w", "leaf", None),
        ("h", "op", "matmul"),
        ("b", "leaf", None),
        ("y", "op", "add"),
        ("loss", "op", "mean"),
    ]
    y = by_name["y"]
    assert (y.shape, y.dtype, y.device) == ((32, 10), torch.float32, torch.device("cpu"))
    assert [(i.name, i.source) for i in y.inputs] == [("a", by_name["h"].id), ("b", by_name["b"].id)]
    assert [r.name for r in graph.records if r.root] == ["loss"]
    assert graph.backwards == 1


def test_a_record_has_its_line_and_settings() -> None:
    x = tensor([[1.0, 2.0]], requires_grad=True)
    with AutogradGraph() as graph:
        x.sum(1, True)
        y, line = x.sum(dim=1), here()
    (record,) = (r for r in graph.records if r.op)
    assert y.shape == (1,)
    assert (record.file, record.line) == (__file__, line)
    assert record.settings == {"dim": 1, "keepdim": False, "dtype": None}


def test_values_and_gradients_are_described() -> None:
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor(3.0, requires_grad=True)
    with AutogradGraph() as graph:
        y = a * b
        y.sum().backward()
    made = {record.name: record for record in graph.records}
    assert made["y"].value is not None
    assert made["y"].value.values == [3.0, 6.0]
    assert made["y"].gradient is not None
    assert made["y"].gradient.values == [1.0, 1.0]
    assert made["b"].value is not None
    assert made["b"].value.values == 3.0
    assert made["b"].gradient is not None
    assert made["b"].gradient.norm == 3.0
    assert [i.gradient.norm if i.gradient else None for i in made["y"].inputs] == [pytest.approx(18**0.5), 3.0]


def test_a_reduction_is_on_the_input_that_was_stretched() -> None:
    _, by_name = layer()
    assert [str(i.reduction) if i.reduction else None for i in by_name["y"].inputs] == [
        None,
        "(32, 10) -> (10,): sum dim 0",
    ]
    assert by_name["y"].inputs[1].reduction is not None
    assert by_name["y"].inputs[1].reduction.terms == 32
    assert not any(i.reduction for name in ("h", "loss") for i in by_name[name].inputs)


def test_numbers_stand_in_the_record_as_they_are() -> None:
    x = tensor(2.0, requires_grad=True)
    with AutogradGraph() as graph:
        y = 3 * x**2
    *_, power, product = graph.records
    assert y.item() == 12.0
    assert [(i.source, i.literal) for i in power.inputs] == [(power.inputs[0].source, None), (None, 2)]
    assert [(i.source, i.literal) for i in product.inputs] == [(None, 3), (power.id, None)]


@pytest.mark.parametrize(
    "other", [torch.ones(2), np.ones(2, dtype=np.float32), tensor([1.0, 1.0])], ids=["torch", "numpy", "ours"]
)
def test_what_needs_no_gradient_is_a_constant(other: Any) -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * other
    constant = next(record for record in graph.records if record.kind == "constant")
    assert constant.shape == (2,)
    assert graph.records[-1].inputs[1].source == constant.id
    assert y.requires_grad


def test_an_op_that_ran_before_is_outside() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    before = x.exp()
    with AutogradGraph() as graph:
        y = (before * 2).sum()
    outside = graph.records[0]
    assert (outside.name, outside.kind, outside.op.name if outside.op else None, outside.inputs) == (
        "before",
        "outside",
        "exp",
        (),
    )
    assert [record.kind for record in graph.records] == ["outside", "op", "op"]
    with AutogradGraph() as graph:
        y.backward()
    assert [record.kind for record in graph.records] == ["leaf", "op", "op", "op"]


def test_what_ran_in_no_grad_is_not_recorded() -> None:
    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph, nbgrad.no_grad():
        x * 2
    assert graph.records == []
    assert graph.frame is None
    assert graph.backwards == 0


def test_before_a_backward_it_is_what_still_exists_and_after_one_what_that_ran_through() -> None:
    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph:
        x.exp()
        kept = x.tanh()
        assert [r.op.name for r in graph.records if r.op] == ["tanh"]
        (x * 3).backward()
        assert [r.op.name for r in graph.records if r.op] == ["mul"]
        kept.backward()
        assert [r.op.name for r in graph.records if r.op] == ["tanh"]
        assert graph.backwards == 2
    assert [r.op.name for r in graph.records if r.op] == ["tanh"]


def test_a_backward_that_fails_leaves_the_record_of_what_ran() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * x
        x.data.add_(1)
        with pytest.raises(RuntimeError, match="changed it"):
            y.sum().backward()
        total = y.sum()
    assert total.requires_grad
    assert graph.backwards == 0
    assert graph.frame is None
    assert [r.name for r in graph.records] == ["x", "y", "total"]


def test_names_are_those_of_the_variables() -> None:
    def step(inner: Tensor) -> None:
        hidden = inner * 2
        hidden.sum().backward()

    first = tensor([1.0], requires_grad=True)
    first.name = "weight"
    with AutogradGraph("mine") as graph:
        step(first)
    assert graph.name == "mine"
    assert [record.name for record in graph.records] == ["weight", "hidden", None]


def test_a_leaf_whose_data_were_replaced_keeps_its_name_and_is_one_leaf() -> None:
    leaves = [tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)]
    graph = AutogradGraph()
    with graph:
        for _ in range(3):
            aside = leaves[1] * 3
            (leaves[0] * leaves[0]).sum().backward()
            for leaf in leaves:
                leaf.data = leaf.data * 0.9
        graph.close({"weight": leaves[0], "idle": leaves[1]})  # a notebook does this with the variables of its cells
    assert aside.requires_grad
    assert [record.name for record in graph.records if record.kind == "leaf"] == ["weight"]
    assert len(graph.unreached()) == 1, "once, not once per step"
    assert graph.unreached({"weight": leaves[0]}) == []


def test_a_frozen_leaf_is_drawn_as_what_it_is_now() -> None:
    x, w = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)
    with AutogradGraph() as first:
        (x * w).sum().backward()
    x.requires_grad_(False)
    with AutogradGraph() as second:
        (x * w).sum().backward()
    x.requires_grad_(True)
    with AutogradGraph() as third:
        (x * w).sum().backward()
    kinds = [{r.name: r.kind for r in graph.records if r.name in ("x", "w")} for graph in (first, second, third)]
    assert kinds == [{"x": kind, "w": "leaf"} for kind in ("leaf", "constant", "leaf")]


def test_scopes_are_recorded() -> None:
    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph, nbgrad.scope("outer"), nbgrad.scope("inner"):
        x * 2
        y = x * 2
    scope = graph.records[-1].scope
    assert y.requires_grad
    assert scope is not None
    assert scope.parent is not None
    assert (scope.label, scope.parent.label, scope.parent.parent) == ("inner", "outer", None)


def test_graphs_nest_and_the_outer_one_sees_all() -> None:
    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as outer:
        a = x * 2
        with AutogradGraph() as inner:
            b = a.exp()
        c = b.tanh()
        assert len(current().observers) == 1
    assert current().observers == ()
    assert c.requires_grad
    assert [r.op.name for r in outer.records if r.op] == ["mul", "exp", "tanh"]
    assert [(r.kind, r.op.name) for r in inner.records if r.op] == [("outside", "mul"), ("op", "exp")]


def test_the_device_of_a_graph_is_where_tensors_are_made() -> None:
    with AutogradGraph(device="meta"):
        assert tensor([1.0]).device.type == "meta"
        with AutogradGraph():
            assert tensor([1.0]).device.type == "meta"
            assert tensor([1.0], device="cpu").device.type == "cpu"
    assert tensor([1.0]).device.type == "cpu"


def test_code_beside_the_package_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(Path(graph_module.__file__).parents[2]) + "_course.py"  # starts like the path of the package
    names: dict[str, Any] = {"x": tensor([1.0], requires_grad=True), "AutogradGraph": AutogradGraph}
    exec(compile("with AutogradGraph() as graph:\n    y = x * 2\n", file, "exec"), names)
    record = names["graph"].records[-1]
    assert (record.file, record.line, record.name) == (file, 2, "y")


# Its view in rustworkx.


def test_the_view_has_a_node_per_record_and_an_edge_per_use() -> None:
    x = tensor([3.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * x
        z = y - x
        z.backward()
    rx = graph.rx
    assert isinstance(rx, rustworkx.PyDiGraph)
    assert rx.nodes() == graph.records
    edges = [(rx[a].name, rx[b].name, position) for a, b, position in rx.weighted_edge_list()]
    assert sorted(edges) == [("x", "y", 0), ("x", "y", 1), ("x", "z", 1), ("y", "z", 0)]
    assert not graph.check_cycle()


def test_a_view_may_be_changed_at_will() -> None:
    graph, _ = layer()
    graph.rx.remove_node(0)
    assert graph.rx.num_nodes() == len(graph.records) == 6


def test_a_cycle_is_found() -> None:
    graph, by_name = layer()
    graph._records = [
        record._replace(parents=(by_name["loss"].id,)) if record.name == "h" else record for record in graph.records
    ]
    assert graph.check_cycle()


def test_the_reverse_order_is_the_one_in_which_a_backward_visits() -> None:
    class Visits(Observer):
        def __init__(self) -> None:
            self.seqs: list[int] = []

        def on_gradient(self, origin: Any, *_: Any) -> None:
            self.seqs.append(origin.seq)

    visits = Visits()
    before = current()
    set_state(before.replaced(observers=(visits,)))
    try:
        b, a = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)
        with AutogradGraph() as graph:
            left, right = a.exp(), b.tanh()
            later = (a * 2).sigmoid()
            ((right * left) + later).backward()
    finally:
        set_state(before)
    order = graph.reverse_toposort()
    ops = [record.id for record in order if record.op]
    assert ops == [seq for seq in visits.seqs if seq in ops]
    place = {record.id: number for number, record in enumerate(order)}
    assert all(place[record.id] < place[taken.source] for record in order for taken in record.inputs if taken.source)


def test_ancestors_and_the_order_from_a_tensor() -> None:
    x, w = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)
    with AutogradGraph() as graph:
        h = x * w
        y = h.exp()
        side = w.tanh()
        (y + side).backward()
    assert [record.name for record in graph.ancestors(y)] == ["x", "w", "h"]
    assert [record.name for record in graph.reverse_toposort_from(y)] == ["y", "h", "w", "x"]
    assert graph.ancestors(x) == []
    with pytest.raises(KeyError, match=r"no record of this tensor of shape \(2,\)"):
        graph.ancestors(tensor([1.0, 2.0]))


def diamond() -> tuple[AutogradGraph, dict[str | None, Record], Tensor]:
    """x -> h -> (left, right) -> y, and a side branch."""
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        h = x * 2
        left, right = h.exp(), h.tanh()
        y = left * right
        side = x.sigmoid()
        (y + side).sum().backward()
    return graph, {record.name: record for record in graph.records}, y


def names(records: list[Record] | None) -> list[str | None] | None:
    return None if records is None else [record.name for record in records]


def test_questions_take_a_tensor_a_record_or_an_id() -> None:
    graph, by_name, y = diamond()
    for subject in (y, by_name["y"], by_name["y"].id):
        assert graph.record(subject) == by_name["y"]
        assert names(graph.ancestors(subject)) == ["x", "h", "left", "right"]
        assert names(graph.reverse_toposort_from(subject)) == ["y", "right", "left", "h", "x"]
        assert names(graph.path(by_name["h"], subject)) in (["h", "left", "y"], ["h", "right", "y"])
    with pytest.raises(KeyError, match="has no record of -1"):
        graph.descendants(-1)
    unused = tensor([1.0])
    with pytest.raises(KeyError, match="this tensor"):
        graph.record(unused)
    assert unused._origin is None, "asking makes no leaf"


def test_descendants_and_paths() -> None:
    graph, by_name, _ = diamond()
    assert names(graph.descendants(by_name["h"])) == ["left", "right", "y", None, None]
    assert graph.descendants(graph.records[-1]) == []
    assert names(graph.path(by_name["x"], by_name["side"])) == ["x", "side"]
    assert names(graph.path(by_name["x"], by_name["x"])) == ["x"]
    assert graph.path(by_name["side"], by_name["y"]) is None
    assert graph.path(by_name["y"], by_name["x"]) is None


def test_questions_agree_with_rustworkx() -> None:
    graph, _, _ = diamond()
    rx = graph.rx
    for index, record in enumerate(graph.records):
        assert set(graph.ancestors(record)) == {rx[above] for above in rustworkx.ancestors(rx, index)}
        assert set(graph.descendants(record)) == {rx[below] for below in rustworkx.descendants(rx, index)}
    place = {record.id: number for number, record in enumerate(graph.reverse_toposort())}
    assert all(place[rx[a].id] > place[rx[b].id] for a, b in rx.edge_list())


@pytest.mark.parametrize("closed", [True, False])
def test_a_deleted_node_is_out_of_the_graph_and_the_others_keep_their_ids(closed: bool) -> None:
    x = tensor([1.0], requires_grad=True)
    graph = AutogradGraph()
    graph.__enter__()
    h = x * 2
    y = h.exp()
    if closed:
        graph.close()
    before = {record.id for record in graph.records}
    graph.delete_node(h)
    assert {record.id for record in graph.records} == before - {h.origin.seq}
    assert (graph.rx.num_nodes(), graph.rx.num_edges()) == (2, 0)
    assert graph.record(y).inputs[0].source is None
    assert graph.record(y).sources == ()
    assert graph.path(x, y) is None
    with pytest.raises(KeyError):
        graph.delete_node(h)
    y.backward()
    assert x.grad is not None, "only the record changes"
    graph.close()
    assert h.origin.seq not in {record.id for record in graph.records}


def test_a_deleted_edge_is_cut_by_position_or_altogether() -> None:
    x = tensor([3.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * x
        y.backward()
    graph.delete_edge(x, y, 1)
    assert graph.rx.weighted_edge_list() == [(0, 1, 0)]
    assert [taken.source for taken in graph.record(y).inputs] == [x.origin.seq, None]
    with pytest.raises(KeyError, match=r"no edge from .* at input 1"):
        graph.delete_edge(x, y, 1)
    graph.delete_edge(x, y)
    assert graph.rx.num_edges() == 0
    assert len(graph.records) == 2
    with pytest.raises(KeyError, match="no edge"):
        graph.delete_edge(y, x)


def test_a_cleared_graph_starts_anew() -> None:
    x = tensor([3.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        y.backward()
        graph.delete_node(y)
        graph.clear()
        assert (graph.records, graph.backwards, graph.frame) == ([], 0, None)
        z = x.exp()
    assert names(graph.records) == ["x", "z"]
    assert z.requires_grad
    graph.clear()
    assert graph.records == []


def test_structure_is_asked_without_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise AssertionError("a question about the structure computes no statistics")

    x = tensor(torch.ones(10), requires_grad=True)
    with AutogradGraph() as graph:
        y = (x * 2).sum()
        y.backward()
        with monkeypatch.context() as patched:
            patched.setattr("nbgrad.core.graph.stats._summarise", fails)
            assert len(graph.records) == 3
            assert names(graph.path(x, y)) == ["x", None, "y"]
            assert graph.rx.num_edges() == 2
            assert repr(graph).startswith("<AutogradGraph ")
            assert [record.sources for record in graph.records][1:] == [(r.id,) for r in graph.records[:-1]]


@pytest.mark.parametrize("make", [torch.ones, lambda n: np.ones(n, dtype=np.float32)], ids=["torch", "numpy"])
def test_a_raw_constant_is_one_record_with_its_value(make: Any) -> None:
    x, constant = tensor([1.0, 2.0], requires_grad=True), make(2)
    with AutogradGraph() as graph:
        y = x * constant + constant
        y = y * make(2)
    kinds = [record for record in graph.records if record.kind == "constant"]
    assert y.requires_grad
    assert [record.value.values if record.value else None for record in kinds] == [[1.0, 1.0]] * 2


def test_the_same_memory_is_one_constant() -> None:
    x, constant = tensor([1.0, 2.0], requires_grad=True), torch.ones(4)
    with AutogradGraph() as graph:
        y = x * constant[:2] + constant[:2] * constant[2:]
    assert y.requires_grad
    assert sum(record.kind == "constant" for record in graph.records) == 2


def test_a_backward_inside_a_backward_leaves_the_outer_one_as_the_last() -> None:
    x, w = tensor([1.0], requires_grad=True), tensor([2.0], requires_grad=True)

    def inner(_: Any) -> None:
        with nbgrad.enable_grad():
            (w * 3).backward()

    with AutogradGraph() as graph:
        y = x * 2
        y.register_hook(inner)
        y.backward()
    assert graph.backwards == 2
    assert graph.frame is not None
    assert (graph.frame.number, graph.frame.roots) == (2, (y.origin.seq,))
    assert w.grad is not None


def test_records_say_what_they_are() -> None:
    graph, by_name, _ = diamond()
    assert repr(by_name["h"]) == f"<Record {by_name['h'].id}: mul 'h' (2,)>"
    assert repr(by_name["x"]) == f"<Record {by_name['x'].id}: leaf 'x' (2,)>"
    assert str(graph) == repr(graph)
    assert "\n" not in repr(graph)
    assert by_name["h"] != by_name["y"]


def test_a_record_is_of_its_moment() -> None:
    w = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = w * 3.0
        before, unread = graph.record(y), graph.record(y)
        assert (before.value.values, before.gradient, before.root) == ([3.0, 6.0], None, False)
        w.name = "first"
        y.sum().backward(retain_graph=True)
        first, late = graph.record(y), graph.record(y)
        assert (first.gradient.values, first.inputs[0].gradient.values) == ([1.0, 1.0], [3.0, 3.0])
        leaf, snapshot = graph.record(w), graph.snapshot()
        assert leaf.value.values == [1.0, 2.0]
        w.data.mul_(2.0)
        with nbgrad.no_grad():
            y.mul_(2.0)
        assert graph.record(w).value.values == [2.0, 4.0]
        assert graph.record(y).value is None, "it was changed in place"
        (y * y).sum().backward()
        graph.delete_edge(w, y)
        assert graph.record(y).sources == ()
        w.name = "weight"
        assert graph.record(w).name == "weight"
    assert (before.value.values, before.gradient, before.root) == ([3.0, 6.0], None, False)
    assert unread.gradient is None, "there was none"
    assert (first.gradient.values, first.inputs[0].gradient.values) == ([1.0, 1.0], [3.0, 3.0])
    assert first.sources == (leaf.id,)
    assert late.gradient is late.inputs[0].gradient is None, "another backward has ended: these are gone"
    assert (leaf.value.values, leaf.name) == ([1.0, 2.0], "first")
    assert [one.value.values for one in snapshot[:2]] == [[1.0, 2.0], [3.0, 6.0]]
    assert [one.gradient.values for one in snapshot] == [[3.0, 3.0], [1.0, 1.0], 1.0]
    closed = graph.record(w)
    w.name = "another"
    w.data.zero_()
    assert (closed.name, closed.value.values) == (graph.record(w).name, graph.record(w).value.values)
    assert (closed.name, closed.value.values) == ("weight", [2.0, 4.0])
    assert closed is graph.record(w), "of a closed graph there is one"
    with pytest.raises(AttributeError):
        closed.name = "mine"  # type: ignore[misc]


def test_what_is_taken_out_of_a_closed_graph_stays_in_a_record_that_was_taken() -> None:
    graph, by_name, y = diamond()
    was = by_name["y"]
    assert was.sources
    inputs = was.inputs
    graph.delete_node(was.sources[0])
    assert (was.sources, was.inputs) == (by_name["y"].sources, inputs)
    now = graph.record(y)
    assert now == was
    assert was.sources[0] not in now.sources
    assert (now.inputs[0].source, now.inputs[0].gradient) == (None, None)
    assert now.inputs[1:] == inputs[1:]


@pytest.mark.parametrize("watch", [True, False])
def test_a_snapshot_says_what_the_records_say(watch: bool) -> None:
    same = [name for name in Record._fields if name != "statistics"]

    def said(records: list[Record]) -> list[Any]:
        return [
            ([getattr(one, name) for name in same], one.value, one.gradient, one.inputs, one.since) for one in records
        ]

    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.ReLU(), nbgrad.nn.Linear(3, 1))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    with AutogradGraph(watch=watch) as graph:
        assert said(graph.snapshot()) == said(graph.records) == []
        for _ in range(2):
            loss = (net(nbgrad.ones(4, 2)) ** 2).mean()
            assert said(graph.snapshot()) == said(graph.records) != []
            loss.backward()
        optimizer.step()
        graph.delete_edge(graph.records[-1].sources[0], loss)
        records = graph.records
        assert said(graph.snapshot()) == said(records)
        assert {one.id: one.since for one in records if one.since} == graph.since != {}
    assert said(graph.snapshot()) == said(graph.records)
    assert [one[1:] for one in said(records)] == [one[1:] for one in said(graph.records)]


# How it ends.


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_closes_it_and_keeps_the_record(error: type[BaseException]) -> None:
    before = current()
    x = tensor([1.0], requires_grad=True)
    graph = AutogradGraph()

    def fail() -> None:
        with graph:
            y = x * 2
            raise error(y)

    with pytest.raises(error):
        fail()
    assert graph.closed
    assert current() is before
    assert [record.name for record in graph.records] == ["x", "y"]


def test_it_opens_once() -> None:
    graph = AutogradGraph("once")
    with graph, pytest.raises(RuntimeError, match="'once' was opened before"), graph:
        pass
    with pytest.raises(RuntimeError, match="make a new AutogradGraph"), graph:
        pass
    assert current().observers == ()


def test_closing_it_elsewhere_changes_nothing_there() -> None:
    graph = AutogradGraph()
    elsewhere = contextvars.copy_context()
    with nbgrad.no_grad():
        graph.__enter__()
        elsewhere.run(graph.close)
        assert graph.closed
        assert not nbgrad.is_grad_enabled()
    assert nbgrad.is_grad_enabled()


def test_a_closed_graph_takes_nothing_from_a_task_that_outlives_it() -> None:
    async def late(go: asyncio.Event) -> int:
        await go.wait()
        y = tensor([1.0], requires_grad=True) * 2
        y.backward()
        return len(current().observers)

    async def main() -> tuple[AutogradGraph, int]:
        go = asyncio.Event()
        with AutogradGraph() as graph:
            task = asyncio.create_task(late(go))
            await asyncio.sleep(0)
        go.set()
        return graph, await task

    graph, still_attached = finished(main())
    assert still_attached == 1, "the task has the state that it began with"
    assert (graph.records, graph.backwards) == ([], 0)
    assert not graph.listener.ops


def test_another_thread_is_not_recorded() -> None:
    def work() -> None:
        (x * 2).backward()

    x = tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert graph.records == []
    assert x.grad is not None


# The memory of a graph.


def test_it_owns_no_tensor_after_it_is_closed() -> None:
    gc.disable()
    try:
        x, w = tensor(torch.ones(2, 3)), tensor(torch.ones(3), requires_grad=True)
        with AutogradGraph() as graph:
            h = x * w
            loss = h.exp().sum()
            loss.backward()
        held = [weakref.ref(thing) for thing in (x, w, h, loss, x.data, h.data, w.grad, h.grad_fn)]
        del x, w, h, loss
        assert [ref() for ref in held] == [None] * len(held)
        assert len(graph.records) == 5
        assert graph.frame is not None
        assert graph.frame.gradients
    finally:
        gc.enable()


def test_reading_a_functions_variables_neither_keeps_nor_changes_them() -> None:
    x = tensor(torch.ones(2000), requires_grad=True)
    mine = locals()
    with AutogradGraph():
        (x * 2).sum().backward()
    assert mine["x"] is x, "a snapshot that the user took is the user's"
    assert "graph" not in mine


def test_it_keeps_no_tensor_that_the_user_drops_while_it_is_open() -> None:
    x = tensor(torch.ones(2000), requires_grad=True)
    with AutogradGraph():
        dropped = [weakref.ref((x * 2).data) for _ in range(10)]
        assert not any(ref() is not None for ref in dropped)


def test_a_graph_leaves_the_collector_nothing() -> None:
    with garbage() as found:
        w = tensor(torch.ones(3), requires_grad=True)
        with AutogradGraph() as outer, AutogradGraph() as inner:
            for _ in range(3):
                (w * w).sum().backward()
            list(outer.rx.nodes())
        outer.rx, inner.reverse_toposort()
        with pytest.raises(RuntimeError, match="must be equal"), AutogradGraph():
            (w * w).backward(torch.ones(5))
        del w, outer, inner
    assert found == []


def test_a_training_loop_keeps_the_record_bounded() -> None:
    def step(number: float) -> None:
        batch = tensor([number, 1.0])
        loss = ((batch * w).tanh() ** 2).mean()
        loss.backward()

    w = tensor([1.0, 2.0], requires_grad=True)
    sizes = []
    with AutogradGraph() as graph:
        for number in range(4000):
            step(number)
            if number % 500 == 499:
                heard = graph.listener
                sizes.append(max(map(len, (heard.ops, heard.outer, heard.notes.names, heard.notes.values))))
    assert max(sizes) <= 4096 + 16
    assert graph.backwards == 4000
    assert [record.name for record in graph.records] == ["batch", "w", None, None, None, "loss"]


def test_forward_only_keeps_the_record_bounded() -> None:
    w = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        for _ in range(6000):
            last = w * 2
        assert len(graph.listener.ops) <= 4096 + 3
    assert last.requires_grad
    assert [record.name for record in graph.records] == ["w", "last"]


def test_unwatched_it_keeps_no_value_and_no_gradient_but_the_reductions() -> None:
    a, b = tensor(torch.ones(2, 3), requires_grad=True), tensor(torch.ones(3), requires_grad=True)
    with AutogradGraph(watch=False) as graph:
        y = a * b
        y.sum().backward()
        assert not len(graph.listener.notes.values)
    record = next(record for record in graph.records if record.name == "y")
    assert record.value is None
    assert [(i.gradient, str(i.reduction)) for i in record.inputs] == [
        (None, "None"),
        (None, "(2, 3) -> (3,): sum dim 0"),
    ]
    assert all(record.gradient is None for record in graph.records if record.kind == "op")


def test_beyond_the_budget_gradients_are_norms() -> None:
    x = tensor(torch.ones(100), requires_grad=True)
    for budget, kept in ((0, False), (1 << 20, True)):
        with AutogradGraph(budget=budget) as graph:
            y = x * 2
            y.sum().backward()
        gradient = next(record.gradient for record in graph.records if record.name == "y")
        assert gradient is not None
        assert gradient.norm == pytest.approx(10.0)
        assert (gradient.values is not None) is kept


def test_what_was_changed_in_place_is_not_misreported() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    g = torch.tensor([1.0, 1.0])
    with AutogradGraph() as graph:
        y = x + 1
        y.backward(g)
        y.data.mul_(100)
        g.mul_(100)
    record = next(record for record in graph.records if record.name == "y")
    assert record.value is None
    assert record.gradient is None or record.gradient.norm == pytest.approx(2**0.5)


def test_graphs_are_counted_and_say_what_they_are() -> None:
    first, second = AutogradGraph(), AutogradGraph()
    assert int(second.name.removeprefix("graph ")) == int(first.name.removeprefix("graph ")) + 1
    graph, _ = layer()
    assert repr(graph) == f"<AutogradGraph {graph.name!r}: 3 ops, 1 backwards>"


def test_a_backward_with_create_graph_is_recorded_too() -> None:
    x = tensor([2.0], requires_grad=True)
    with AutogradGraph() as graph:
        (slope,) = nbgrad.grad(x**3, x, create_graph=True)
        slope.backward()
    assert graph.backwards == 2
    assert [record.op.name for record in graph.records if record.op] == ["pow", "mul", "mul"]
    assert x.grad is not None
    assert x.grad.item() == 12.0


def test_the_path_to_a_failed_op_is_shown_although_it_is_not_held() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph, pytest.raises(RuntimeError):
        (x * 2).exp() + tensor([1.0, 2.0, 3.0])
    assert [record.op.name for record in graph.records if record.op is not None] == ["mul", "exp"]


def test_an_op_that_failed_and_was_passed_over_leaves_nothing() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        with pytest.raises(RuntimeError):
            (x * 2).exp() + tensor([1.0, 2.0, 3.0])
        y = x.sin()
    assert [record.op.name for record in graph.records if record.op is not None] == ["sin"]
    assert y.requires_grad


def failing(y: Tensor) -> Tensor:
    """A result whose backward raises."""
    z = y * 3.0
    z.register_hook(lambda gradient: 1 / 0)
    return z.exp().sum()


@pytest.mark.parametrize("same", [True, False])
def test_a_backward_that_raised_after_others_is_what_is_shown_and_they_stay_the_history(same: bool) -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        first = (x * 3.0).exp().sum() if same else x.sum()
        first.backward()
        second = failing(x)
        with pytest.raises(ZeroDivisionError) as caught:
            second.backward()
    before, history = graph.frame, list(graph.history)
    assert [record.op.name for record in graph.records if record.op] == (["mul", "exp", "sum"] if same else ["sum"])
    failure = graph.failure(caught.value)
    assert failure is not None
    assert graph.frame is before, "to ask shows nothing"
    graph.raised(caught.value)
    assert graph.ending is not None
    assert graph.ending.failure == failure
    assert graph.frame is not before
    assert [record.op.name for record in graph.records if record.op] == ["mul", "exp", "sum"]
    arrived = {record.op.name: record.gradient is not None for record in graph.records if record.op}
    assert arrived == {"mul": False, "exp": True, "sum": True}
    assert failure.id == graph.records[1].id
    graph.raised(caught.value)
    assert graph.ending.failure == failure, "told again it says the same"
    assert list(graph.history) == history, "the backwards that ended"
    assert [frame.number for frame in history] == [1]


def test_a_backward_whose_error_was_caught_is_not_shown() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        with pytest.raises(ZeroDivisionError):
            failing(x).backward()
        y = (x * x).sum()
        y.backward()
    assert [record.op.name for record in graph.records if record.op] == ["mul", "sum"]
    assert graph.failure(KeyError("another")) is None
    assert graph.record(x).gradient is not None


# Sparse tensors.


@pytest.mark.parametrize("size", [3, 50])
def test_sparse_tensors_in_a_graph_change_nothing_and_lose_nothing(size: int) -> None:
    factor, w = tensor(torch.eye(size).to_sparse()), tensor(torch.ones(size, size), requires_grad=True)
    with AutogradGraph() as graph:
        product = factor * w
        (product.sum() + (factor @ w).sum()).backward()
        assert w.grad is not None
        assert w.grad.tolist() == (torch.eye(size) + 1).tolist()
        optimizer = nbgrad.optim.SGD([factor.detach().requires_grad_(), w], lr=0.1)
        optimizer.step()
    assert product.data.layout is torch.sparse_coo
    made = {record.op.name if record.op else record.kind: record for record in graph.records}
    assert made["constant"].value is None, "of its numbers no statistics are taken"
    assert [made[name].shape for name in ("constant", "mul", "matmul")] == [(size, size)] * 3
    assert graph.history[0].records[0].gradient is None
    assert made["mul"].inputs[1].gradient is not None
    assert made["mul"].inputs[1].gradient.norm == pytest.approx(size**0.5)


def test_a_sparse_gradient_of_a_function_arrives_dense() -> None:
    class Diagonal(nbgrad.Function):
        @staticmethod
        def forward(_ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(_ctx: Any, gradient: Any) -> Any:
            return torch.eye(3).to_sparse()

    w = tensor(torch.ones(3, 3), requires_grad=True)
    with AutogradGraph() as graph:
        for _ in range(3):
            Diagonal.apply(w).sum().backward()
    assert w.grad is not None
    assert w.grad.data.layout is torch.strided
    assert w.grad.tolist() == (3 * torch.eye(3)).tolist()
    gradient = graph.record(w).gradient
    assert gradient is not None
    assert gradient.values == torch.eye(3).tolist()
    assert [frame.parameters[0].gradient for frame in graph.history] == pytest.approx([3**0.5] * 3)


def test_a_generator_that_is_left_has_not_raised() -> None:
    graphs = []

    def steps() -> Iterator[int]:
        with AutogradGraph() as graph:
            graphs.append(graph)
            for number in range(3):
                tensor([1.0], requires_grad=True).exp().sum().backward()
                yield number

    for _ in steps():
        break
    gc.collect()
    assert graphs[0].closed
    assert graphs[0].ending is None


SEEN_BY_ALL = nbgrad.ones(2, requires_grad=True)
HIDDEN = nbgrad.ones(2, requires_grad=True)


def test_global_variables_name_tensors_inside_a_function_too() -> None:
    own = nbgrad.ones(2, requires_grad=True)

    def recorded(HIDDEN: nbgrad.Tensor, context: Any) -> set[str | None]:  # noqa: N803
        with context as graph:
            (SEEN_BY_ALL * HIDDEN * own).sum().backward()
        return {record.name for record in graph.records if record.kind == "leaf"}

    for make in (nbgrad.AutogradGraph, lambda: nbgrad.record(view="none")):
        assert recorded(nbgrad.ones(2, requires_grad=True), make()) == {"SEEN_BY_ALL", "HIDDEN", "own"}

    def stopped() -> None:
        SEEN_BY_ALL @ nbgrad.ones(3)

    with nbgrad.AutogradGraph() as graph, pytest.raises(RuntimeError, match="matmul") as caught:
        stopped()
    failure = graph.failure(caught.value)
    assert failure is not None
    assert failure.operands[0].name == "SEEN_BY_ALL"


UNENDED = """
import torch
import nbgrad

net = torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.ReLU(), torch.nn.Linear(600, 500))
x = torch.randn(400, 600)

def steps():
    with OPENED:
        while True:
            net.zero_grad()
            net(x).square().mean().backward()
            yield

unended = steps()
for _ in range(3):
    next(unended)
print("the end")
"""


UNWRITTEN = "nbgrad: late.svg was not written: its block was still open when Python ended. "


@pytest.mark.rotated(4)
@pytest.mark.parametrize(
    ("opened", "said"),
    [
        ("nbgrad.AutogradGraph()", ""),
        ("nbgrad.record(save='late.svg')", UNWRITTEN + "Close the generator that holds it\n"),
    ],
)
def test_a_graph_that_is_open_when_python_ends_does_not_abort_it(opened: str, said: str, tmp_path: Path) -> None:
    """Python would abort with "THPVariable_clear" and exit code -6, because torch can no longer measure a tensor."""
    script = tmp_path / "unended.py"
    script.write_text(UNENDED.replace("OPENED", opened))
    result = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "the end\n", said)

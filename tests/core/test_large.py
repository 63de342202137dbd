"""Graphs that are too large to be seen, and modules that are nested as deeply as Python allows."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.graph import graph as graphs, rerun
from nbgrad.core.graph.rerun import Rerun, RerunError
from nbgrad.core.graph.thinned import ends, fewer
from nbgrad.widgets import describe as describing
from nbgrad.widgets.describe import describe
from tests.work import lines

DIALECTS = pytest.mark.parametrize("dialect", [torch, nbgrad], ids=lambda one: one.__name__)

RECORDED = 0.95 if nbgrad.compiled() else 0.6
"""At least this part of the modules that can be nested without a graph can be nested in one."""


def recorded(dialect: ModuleType, steps: int, *, backward: bool) -> tuple[nbgrad.AutogradGraph, Any]:
    """The graph of a loop of two ops, in which all steps use one leaf, and its result."""
    x, w = (dialect.ones(2, requires_grad=True) for _ in range(2))
    with nbgrad.AutogradGraph("loop") as graph:
        y = x
        for _ in range(steps):
            y = (y * w).sin()
        if backward:
            y.sum().backward()
    return graph, y


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "KEPT", 40)
    monkeypatch.setattr(describing, "DRAWN", 20)
    monkeypatch.setattr(rerun, "MOST", 100)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("backward", [False, True])
@DIALECTS
def test_a_closed_graph_keeps_the_ends_of_very_many_ops(dialect: ModuleType, backward: bool) -> None:
    graph, y = recorded(dialect, 100, backward=backward)
    ops = [record for record in graph.records if record.kind == "op"]
    assert [len(ops), graph.left_out] == [40, 160 + backward]
    assert f"{200 + backward} ops" in repr(graph)
    assert [record.kind for record in graph.records[:2]] == ["leaf", "leaf"]
    known = {record.id for record in graph.records}
    assert all(source in known for record in graph.records for source in record.sources)
    (open_end,) = [one for one in ops if None in one.parents]
    assert ops.index(open_end) == 20
    assert graph.record(y)
    assert not graph.check_cycle()
    assert {one.kind for one in graph.unreached()} <= (set() if backward else {"no backward"})
    with pytest.raises(RerunError, match="can be run again"):
        Rerun(graph)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("backward", [False, True])
@DIALECTS
def test_a_picture_says_how_many_ops_it_leaves_out(dialect: ModuleType, backward: bool, tmp_path: Path) -> None:
    graph, _ = recorded(dialect, 100, backward=backward)
    described = describe(graph)
    many = 200 + backward
    note = (
        f"{many - 20} of {many} ops are not drawn, and no finding is about them: the picture has the first 10 and the "
        "last 10 ops."
    )
    assert note in described["notes"]
    assert sum(node["kind"] == "op" for node in described["nodes"]) == 20
    drawn = {node["id"] for node in described["nodes"]}
    assert all({edge["source"], edge["target"]} <= drawn for edge in described["edges"])
    for suffix in ("svg", "html", "txt", "json", "dot"):
        path = tmp_path / f"graph.{suffix}"
        graph.save(path)
        assert path.stat().st_size > 100
    assert "180 of 200" in (tmp_path / "graph.svg").read_text() or backward


def test_a_picture_of_few_ops_leaves_none_out() -> None:
    graph, _ = recorded(torch, 30, backward=False)
    assert graph.left_out == 0
    assert not any("not drawn" in note for note in describe(graph)["notes"])


@pytest.mark.usefixtures("small")
def test_the_loss_of_a_later_cell_leads_through_ops_that_a_graph_has_left_out() -> None:
    _, y = recorded(torch, 100, backward=False)
    with nbgrad.AutogradGraph("later") as later:
        y.sum().backward()
    assert [later.backwards, later.left_out] == [1, 161]


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("small")
@DIALECTS
def test_a_picture_of_more_ops_than_it_draws_takes_no_longer(dialect: ModuleType, tmp_path: Path) -> None:
    def work(steps: int) -> int:
        graph, _ = recorded(dialect, steps, backward=False)
        return lines(lambda: graph.save(tmp_path / "graph.html"))

    work(400)  # what is computed once is known from here on
    assert work(400) < 1.1 * work(100)


@pytest.mark.parametrize("most", [1, 2, 3, 9, 10, 11])
def test_the_ends_are_the_first_and_the_last(most: int) -> None:
    found = ends(list(range(10)), most)
    assert len(found) == min(most, 10)
    assert found == sorted(set(found))
    assert found[0] == 0
    assert most == 1 or found[-1] == 9


def test_fewer_records_have_the_tensors_that_they_take() -> None:
    graph, _ = recorded(nbgrad, 30, backward=True)
    records, left = fewer(graph.records, 6)
    assert left == 61 - 6
    told = [record.kind_or_op for record in records]
    assert told == ["leaf", "leaf", "mul", "sin", "mul", "mul", "sin", "sum"]


# The depth of modules.


def nested(dialect: Any, deep: int) -> Any:
    module = dialect.nn.Linear(2, 2)
    for _ in range(deep):
        module = dialect.nn.Sequential(module)
    return module


def in_a_thread(function: Callable[[], None]) -> None:
    """Run ``function`` where no frame of the tests counts; an error is raised here.

    The limit of recursion is Python's own: libraries that other tests import raise it.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
    for error in raised:
        raise error


def deepest(dialect: Any, call: Callable[[Any], object]) -> int:
    """How many modules may be nested around one, so that ``call`` of the outermost one does not raise."""
    few, many = 1, sys.getrecursionlimit()
    while many - few > 1:
        half = (few + many) // 2
        try:
            call(nested(dialect, half))
        except RecursionError:
            many = half
        else:
            few = half
    return few


@pytest.mark.rotated(4)
@DIALECTS
def test_modules_in_a_graph_may_be_nested_as_deeply_as_without(dialect: Any, tmp_path: Path) -> None:
    def run() -> None:
        x = dialect.ones(1, 2)

        def record(module: Any) -> nbgrad.AutogradGraph:
            with nbgrad.AutogradGraph() as graph:
                module(x).sum().backward()
            return graph

        limit = deepest(dialect, lambda module: module(x).sum().backward())
        deep = deepest(dialect, record)
        assert deep >= RECORDED * limit
        assert deep >= 240 or not nbgrad.compiled()
        graph = record(nested(dialect, deep - 4))
        assert graph.fault is None
        assert [record.kind_or_op for record in graph.records if record.kind == "op"] == ["linear", "sum"]
        scope, around = graph.records[-2].scope, 0
        while scope is not None:
            scope, around = scope.parent, around + 1
        assert around == deep - 3
        for suffix in ("svg", "html", "txt", "json", "dot"):
            for depth in (None, 1, deep):
                graph.save(tmp_path / f"graph.{suffix}", depth=depth)
        assert "2 ops" in describe(graph)["summary"]

    in_a_thread(run)


@DIALECTS
def test_a_program_that_is_nested_too_deeply_gets_its_error_and_keeps_its_graph(dialect: Any) -> None:
    def run() -> None:
        x, first, deep = dialect.ones(1, 2), dialect.nn.Linear(2, 2), nested(dialect, 400)
        graph = nbgrad.AutogradGraph()
        with pytest.raises(RecursionError), graph:  # noqa: PT012  # the graph has ops from before the error
            first(x).sum().backward()
            deep(x)
        assert graph.fault is None
        assert graph.backwards == 1
        assert [record.kind_or_op for record in graph.records if record.kind == "op"] == ["linear", "sum"]
        assert any("RecursionError" in note for note in describe(graph)["notes"])

    in_a_thread(run)


@DIALECTS
def test_a_program_that_catches_the_error_goes_on(dialect: Any) -> None:
    def run() -> None:
        x, first, deep = dialect.ones(1, 2), dialect.nn.Linear(2, 2), nested(dialect, 400)
        with nbgrad.AutogradGraph() as graph:
            y = first(x)
            with pytest.raises(RecursionError):
                deep(x)
            (y + first(x)).sum().backward()
        assert [record.kind_or_op for record in graph.records if record.kind == "op"] == [
            "linear",
            "linear",
            "add",
            "sum",
        ]
        assert graph.fault is None or "as deeply as Python allows" in graph.fault

    in_a_thread(run)

"""A backward shows the whole graph that it ran through, whichever graphs recorded the parts."""

import gc
from typing import Any
from weakref import ref

import pytest
import torch

import nbgrad
from nbgrad import AutogradGraph
from nbgrad.core.graph.rerun import Rerun, RerunError
from nbgrad.widgets.describe import describe

DIALECTS = pytest.mark.parametrize("lib", [torch, nbgrad], ids=["torch", "ours"])


def facts(graph: AutogradGraph) -> list[Any]:
    """The shown facts of each record: name, line, module, value, gradient and parents, by place in the list."""
    places = {record.id: at for at, record in enumerate(graph.records)}
    return [
        (
            *(record.kind, record.name, record.op and record.op.name, record.shape),
            record.place and record.place.text,
            record.scope and record.scope.path(),
            record.value and round(record.value.norm, 4),
            record.gradient and round(record.gradient.norm, 4),
            [None if one is None else places[one] for one in record.parents],
        )
        for record in graph.records
    ]


def network(lib: Any) -> Any:
    torch.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 1))


def inputs(lib: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    return lib.tensor(torch.randn(5, 3).tolist()), lib.tensor(torch.randn(5, 1).tolist())


def in_one(lib: Any) -> AutogradGraph:
    net, (x, y) = network(lib), inputs(lib)
    with AutogradGraph() as graph:
        out = net(x)
        error = out - y
        loss = (error * error).mean()
        loss.backward()
    return graph


@DIALECTS
@pytest.mark.parametrize("cuts", [(1,), (2,), (3,), (1, 3), (1, 2), (1, 2, 3)])
def test_a_step_in_several_graphs_is_shown_like_one_in_a_single_graph(lib: Any, cuts: tuple[int, ...]) -> None:
    net, (x, y) = network(lib), inputs(lib)
    graphs = [AutogradGraph() for _ in range(len(cuts) + 1)]
    part = [sum(cut <= at for cut in cuts) for at in range(4)]
    graph = graphs[0].__enter__()
    out = net(x)
    graph = _next(graph, graphs[part[1]], {"x": x, "y": y, "out": out})
    error = out - y
    graph = _next(graph, graphs[part[2]], {"x": x, "y": y, "error": error})
    loss = (error * error).mean()
    graph = _next(graph, graphs[part[3]], {"x": x, "y": y, "error": error, "loss": loss})
    loss.backward()
    graph.close({"x": x, "y": y, "out": out, "error": error, "loss": loss})
    assert facts(graph) == facts(in_one(lib))
    assert [record.earlier for record in graph.records if record.op] == [
        None if one is graph else one.name for one in (*[graphs[0]] * 3, *[graphs[part[1]]], *[graphs[part[2]]] * 2)
    ]


def _next(now: AutogradGraph, after: AutogradGraph, namespace: dict[str, Any]) -> AutogradGraph:
    if now is after:
        return now
    now.close(namespace)
    return after.__enter__()


@DIALECTS
def test_what_no_graph_recorded_is_shown_too(lib: Any) -> None:
    net, (x, y) = network(lib), inputs(lib)
    out = net(x)
    with AutogradGraph() as graph:
        loss = ((out - y) ** 2).mean()
        loss.backward()
    assert {record.kind for record in graph.records} <= {"op", "parameter", "constant"}
    assert len([record for record in graph.records if record.kind == "parameter"]) == 4
    assert all(record.gradient is not None for record in graph.records if record.kind == "parameter")
    assert [record.place is None for record in graph.records if record.op][-3:] == [False] * 3
    assert loss.requires_grad


def test_a_backward_alone_shows_ops_of_ours_that_nothing_recorded() -> None:
    x, w = nbgrad.tensor([1.0, 2.0]), nbgrad.tensor([3.0, 4.0], requires_grad=True)
    loss = ((x * w + 1) ** 2).sum()
    with AutogradGraph() as graph:
        loss.backward()
    assert [record.op.name if record.op else record.name for record in graph.records] == [
        "w",
        "mul",
        "add",
        "pow",
        "sum",
    ]
    assert [record.gradient is not None for record in graph.records] == [True] * 5
    with pytest.raises(RerunError, match="ran where nothing was recorded"):
        Rerun(graph)


@DIALECTS
def test_a_graph_around_has_the_facts_of_the_earlier_ops(lib: Any) -> None:
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph():
        h = x * 2
        with AutogradGraph() as inner:
            loss = h.exp().sum()
            loss.backward()
    assert [record.op.name if record.op else record.name for record in inner.records] == ["x", "mul", "exp", "sum"]
    assert [record.line is not None for record in inner.records] == [False, True, True, True]


@DIALECTS
def test_a_graph_that_was_reached_again_says_the_same(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph("first") as first:
        loss = (w * w).sum()
    shown = []
    for name in ("second", "third"):
        with AutogradGraph(name) as graph:
            loss.backward(retain_graph=True)
        shown.append(
            [
                (record.earlier, record.run, record.gradient and record.gradient.norm)
                for record in graph.records
                if record.op
            ]
        )
        assert not first.backwards
    assert shown[0] == shown[1]
    assert {earlier for earlier, *_ in shown[0]} == {"first"}


@DIALECTS
def test_the_other_backward_of_a_graph_is_kept_too(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph():
        first = (w * 2).sum()
        second = (w * 3).exp().sum()
        first.backward()
    with AutogradGraph() as graph:
        second.backward()
    assert [(one.op.name, one.name) for one in graph.records if one.op] == [
        ("mul", None), ("exp", None), ("sum", "second")
    ]  # fmt: skip
    assert [one.value is not None for one in graph.records] == [True] * 4


@DIALECTS
def test_an_op_on_an_earlier_tensor_is_outside_until_a_backward_reaches_it(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph():
        h = w * 2
    with AutogradGraph() as forward:
        seen = h.exp()
    assert [record.kind for record in forward.records] == ["outside", "op"]
    with AutogradGraph() as graph:
        other = h.sin()
        (w * 3).sum().backward()
    assert [record.op.name for record in graph.records if record.op] == ["mul", "sum"]
    assert seen.requires_grad
    assert other.requires_grad


@DIALECTS
def test_a_failed_backward_shows_the_earlier_ops(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph():
        h = w.exp()
        loss = (h * h).sum()
        with lib.no_grad():
            h.add_(1)
    with pytest.raises(RuntimeError), AutogradGraph() as graph:
        loss.backward()
    ops = [record.op.name for record in graph.records if record.op]
    assert ops[-2:] == ["mul", "sum"]
    assert "exp" in ops


@DIALECTS
def test_an_error_in_the_first_graph_loses_nothing(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    losses = []

    def step() -> None:
        with AutogradGraph():
            losses.append((w * w).sum())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step()
    with AutogradGraph() as graph:
        losses[0].backward()
    assert [record.op.name if record.op else record.name for record in graph.records] == ["w", "mul", "sum"]


@DIALECTS
def test_a_checkpoint_that_is_loaded_in_between_is_told(lib: Any) -> None:
    net, (x, y) = network(lib), inputs(lib)
    state = {name: value.detach().clone() for name, value in net.state_dict().items()}
    with AutogradGraph():
        loss = ((net(x) - y) ** 2).mean()
    with AutogradGraph():
        net.load_state_dict(state)
    with AutogradGraph() as graph:
        loss = ((net(x) - y) ** 2).mean()
    with AutogradGraph() as graph:
        loss.backward()
    assert len([record for record in graph.records if record.kind == "parameter"]) == 4


@DIALECTS
def test_a_closed_graph_is_kept_while_a_tensor_of_it_lives(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)

    def step() -> Any:
        with AutogradGraph():
            return (w * w).sum()

    loss = step()
    origin: Any = loss.grad_fn.metadata["nbgrad"] if lib is torch else loss._origin
    past: Any = ref(origin.past)
    assert len(past().ops) == 2
    del origin, loss
    gc.collect()
    assert past() is None


@DIALECTS
def test_many_graphs_in_a_row_keep_one(lib: Any) -> None:
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    pasts, hidden = [], w * 1
    for _ in range(20):
        with AutogradGraph():
            hidden = (hidden * w).detach()
            hidden.requires_grad_()
            loss = (hidden * w).sum()
        origin: Any = loss.grad_fn.metadata["nbgrad"] if lib is torch else loss._origin
        pasts.append(ref(origin.past))
        del origin
        with AutogradGraph() as graph:
            loss.backward()
        assert len(graph.records) == 4
    gc.collect()
    assert [past() is not None for past in pasts] == [False] * 19 + [True]


def test_a_picture_names_the_earlier_graph() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph("forward"):
        h = w * 2
        loss = (h * h).sum()
    with AutogradGraph("backward") as graph:
        loss.backward()
    described = describe(graph)
    assert described["summary"] == (
        "3 ops, 1 tensor, 0 broadcast reductions, all float32, 3 of the ops from forward; backward from loss"
    )
    label = next(node for node in described["nodes"] if node["op"] == "sum")
    assert label["label"][1] == "() · forward"
    lines = [row["text"] for row in label["details"] if row["term"] == "source"]
    assert lines[0].startswith("forward, line ")


def test_a_forward_is_shown_without_a_complaint() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        loss = (w * w).sum()
    described = describe(graph)
    assert described["notes"] == []
    assert described["summary"].endswith("; forward only")
    assert loss.requires_grad

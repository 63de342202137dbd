"""The outline of a graph: it has the whole graph, for folding, but details only for what is drawn."""

import gc
import json
import math
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from weakref import ref

import pytest
import torch

import nbgrad
from nbgrad.core.graph.stats import Stats, summarise
from nbgrad.widgets import describe as describing
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description import outline as outlines, repeats, tensor_summary
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.saved_values import saved_by
from nbgrad.widgets.folding.choose import Folding, first_folding
from nbgrad.widgets.pipeline import detailed, drawable, shaped
from nbgrad.widgets.render.text import text
from tests.widgets.test_first_look import uneven


def varied() -> nbgrad.AutogradGraph:
    """Tensors with many, few, one and no numbers, and reductions of them; also complex and half numbers, and NaN."""
    with nbgrad.AutogradGraph("varied") as graph:
        small, large = (nbgrad.tensor(torch.randn(*shape), requires_grad=True) for shape in ((4, 3), (16, 20)))
        row, column = (nbgrad.tensor(torch.randn(*shape), requires_grad=True) for shape in ((3,), (16, 1)))
        huge = nbgrad.tensor(torch.randn(40, 40), requires_grad=True)
        wave = nbgrad.tensor(torch.randn(4, dtype=torch.complex64), requires_grad=True)
        half = nbgrad.tensor(torch.tensor([0.0, 1.0]).half(), requires_grad=True)
        with nbgrad.scope("part"):
            sums = ((small + row) ** 2).sum() + (large * column).sum() + (huge * 0.5).tanh().mean()
        loss = sums + (wave * wave.conj()).abs().sum() + (half.log() * 0).sum().to(torch.float32)
        loss.backward()
    return graph


def chain(modules: int, ops: int) -> nbgrad.AutogradGraph:
    """Modules of so many ops each, no two of them alike."""
    with nbgrad.AutogradGraph("chain") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        for module in range(modules):
            with nbgrad.scope(f"module.{module}"):
                for at in range(ops):
                    x = x.sin() if uneven(at) else x.cos()
        x.sum().backward()
    return graph


GRAPHS: dict[str, Callable[[], nbgrad.AutogradGraph]] = {"varied": varied, "chain": lambda: chain(3, 30)}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_drawn_of_an_outline_is_what_is_drawn_of_all(name: str) -> None:
    graph = GRAPHS[name]()
    light, whole = outline(graph), describe(graph)
    assert light.detail() == whole
    assert Outline.of(whole).detail() == whole
    assert Outline.of(light) is light
    assert drawable(light, 20) == drawable(whole, 20)
    assert text(light.description) == text(whole)
    json.dumps(whole, allow_nan=False)


@pytest.mark.parametrize("name", GRAPHS)
def test_an_outline_that_was_put_away_says_the_same(name: str) -> None:
    graph = GRAPHS[name]()
    whole, kept = describe(graph), Outline.taken_out(outline(graph).put_away())
    assert kept.detail() == whole
    assert Outline.taken_out(kept.put_away()).detail() == whole
    assert drawable(kept, 20) == drawable(whole, 20)
    assert Outline.taken_out(Outline.of(whole).put_away()).detail() == whole, "what is written already stays so"


def test_only_what_is_drawn_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        tensor_summary, "look", lambda stats, look=tensor_summary.look: seen.append(stats) or look(stats)
    )
    light = outline(chain(4, 100))
    assert not seen
    drawn = drawable(light, 40)
    assert 0 < len(seen) <= 2 * len(drawn["nodes"]) <= 80


def test_only_the_shelves_of_what_is_drawn_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    data = outline(chain(10, 200)).put_away()
    inflated = []
    monkeypatch.setattr(
        outlines, "zlib", SimpleNamespace(decompress=lambda one: inflated.append(one) or zlib.decompress(one))
    )
    kept = Outline.taken_out(data)
    others = frozenset(scope["id"] for scope in kept.description["scopes"] if scope["kind"] == "module") - {"s4"}
    drawn = drawable(kept, 20, Folding(others, asked=frozenset({"s4"})))
    assert len(drawn["nodes"]) > 200
    together = "the outline, 200 nodes side by side, the first one and the last one; of each other module its step"
    assert len(inflated) <= 1 + 6 + 10, together
    assert len(set(inflated)) == len(inflated)


def test_the_runs_of_an_outline_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    light = outline(chain(10, 30))
    known = light.runs
    monkeypatch.setattr(repeats, "_Calls", None)  # the class that finds out whether two modules are alike
    for one in (light, Outline.taken_out(light.put_away())):
        drawable(one, 20, first_folding(one, 20).toggled(one, ["s4"], 20))
    assert light.runs is known
    with pytest.raises(TypeError):
        drawable(light.detail(), 20)


def test_the_details_of_some_nodes_are_written_alone() -> None:
    light = outline(varied())
    whole, some = light.detail(), light.detail(["n1", "n3"])
    told = [bool(node["details"]) for node in some["nodes"]]
    assert [at for at, one in enumerate(told) if one] == [1, 3]
    assert [some["nodes"][at] for at in (1, 3)] == [whole["nodes"][at] for at in (1, 3)]
    assert not some["steps"]


@pytest.mark.parametrize("away", [False, True])
def test_what_is_folded_and_copied_keeps_its_details(away: bool) -> None:
    with nbgrad.AutogradGraph("shared") as graph:
        w, x = nbgrad.tensor([1.0], requires_grad=True), nbgrad.tensor([1.0, 2.0], requires_grad=True)
        for part in range(4):
            with nbgrad.scope(f"part.{part}"):
                for _ in range(part + 2):
                    x = (x * w).sin()
        x.sum().backward()
    whole = describe(graph)
    light = outline(graph)
    if away:
        light = Outline.taken_out(light.put_away())
    for folding in (Folding(), Folding(frozenset(["s1", "s2"]))):
        for limit in (100, 8):
            drawn = detailed(shaped(light, limit, folding))
            assert drawn == detailed(shaped(Outline.of(whole), limit, folding))
            said = {node["id"]: node["details"] for node in drawn["nodes"]}
            assert all(step["title"] and step["incoming"] for step in drawn["steps"])
            assert all(given["text"] for step in drawn["steps"] for given in step["given"])
            assert all(edge["reduction"]["words"] for edge in drawn["edges"] if edge["reduction"])
            if limit == 100:
                copies = [bool(details) for node, details in said.items() if node.startswith("n1.")]
                assert len(copies) > 5
                assert copies == [True] + [False] * (len(copies) - 1)


def test_few_values_are_kept_and_of_many_what_is_seen_of_them() -> None:
    kept = Outline.taken_out(outline(varied()).put_away())
    values = {
        tuple(node["label"][:2]): kept.rests.get(node["id"]).told()["value"] for node in kept.description["nodes"]
    }
    assert isinstance(values["small", "(4, 3)"], tensor_summary.Stats)
    assert isinstance(values["large", "(16, 20)"], dict)
    assert isinstance(values["huge", "(40, 40)"], tensor_summary.Stats), "a histogram already"


@pytest.mark.parametrize(
    "data",
    [
        torch.tensor([[3.0, -4.0], [0.5, 7.0]]),
        torch.tensor([0.0, -0.0]),
        torch.tensor([-2.0, 0.0]),
        torch.tensor([math.nan, 1.0]),
        torch.tensor([math.inf, 1.0]),
        torch.tensor([3 + 4j, 1j]),
        torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
        torch.tensor([5, -7]),
        torch.tensor([True, True]),
        torch.tensor(2.5),
        torch.zeros(2, 0),
        torch.arange(40.0),
        torch.arange(2000.0),
    ],
)
def test_statistics_that_were_put_away_are_the_same(data: torch.Tensor) -> None:
    stats = summarise(data)
    assert repr(outlines._unpacked(outlines._packed(stats))) == repr(stats)  # compared as text: NaN does not equal NaN
    assert outlines._unpacked(outlines._packed(Stats((2,), 5.0))) == Stats((2,), 5.0), (
        "of which the norm alone is known"
    )


def test_an_outline_is_of_its_moment() -> None:
    with nbgrad.AutogradGraph("open") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.sum().backward()
        graph.name_variables({"x": x, "y": y})
        light, whole = outline(graph), describe(graph)
        assert x.grad is not None
        x.grad.mul_(10)
        y.detach().mul_(10)
        x.name = "renamed"
        (x * 2).sum().backward()
        graph.delete_node(x)
        assert light.detail() == whole
        assert describe(graph) != whole


def test_an_outline_holds_no_tensor_and_no_graph() -> None:
    graph = nbgrad.AutogradGraph("held")
    with graph:
        x = nbgrad.tensor(torch.ones(2000), requires_grad=True)
        y = x * 3
        y.sum().backward()
        raw = [ref(x.data), ref(y.data), ref(x.grad.data)]
        light = outline(graph)
    held = [ref(graph), *raw]
    del graph, x, y
    gc.collect()
    assert [one() for one in held] == [None] * 4
    assert light.detail()["nodes"][0]["details"]


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_waits_and_is_left_as_it_was(on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, found = varied(), []
    (gc.enable if on else gc.disable)()
    try:
        monkeypatch.setattr(describing, "saved_by", lambda facts: found.append(gc.isenabled()) or saved_by(facts))
        Outline.taken_out(outline(graph).put_away())
        assert gc.isenabled() == on
        monkeypatch.setattr(describing, "saved_by", lambda facts: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            outline(graph)
        assert gc.isenabled() == on
        assert found == [False]
    finally:
        gc.enable()


def test_what_is_put_away_takes_no_more_than_what_is_written_would() -> None:
    for graph in (chain(30, 100), varied()):
        light = outline(graph)
        assert len(light.put_away()) < 1.3 * len(zlib.compress(json.dumps(light.detail()).encode()))

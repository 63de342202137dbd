"""Findings and overlays from outside: they are told, silenced, guarded, checked and drawn as nbgrad's own are."""

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from playwright.sync_api import expect

import nbgrad
from nbgrad import extend
from nbgrad.core.engine.faults import RAISES
from nbgrad.core.graph.checkup import CHECK_NAMES
from nbgrad.core.graph.finding import Finding
from nbgrad.widgets.describe import describe
from nbgrad.widgets.findings.checks import CHECKS
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.wire_format import packed
from tools.unpacking import unpacked

TORCH = SimpleNamespace(nn=torch.nn, ones=torch.ones, optim=torch.optim)
OURS = SimpleNamespace(nn=nbgrad.nn, ones=nbgrad.ones, optim=nbgrad.optim)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard does as it does for users."""
    monkeypatch.delenv(RAISES)


def recorded(lib: Any, **options: Any) -> nbgrad.AutogradGraph:
    net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh())
    with nbgrad.AutogradGraph(**options) as graph:
        net(lib.ones(4, 2)).sum().backward()
    return graph


def narrow(graph: nbgrad.AutogradGraph) -> Iterator[Finding]:
    """Matrices with fewer than four rows."""
    for record in graph.records:
        if record.kind == "parameter" and len(record.shape) == 2 and record.shape[0] < 4:
            remedy = "Give it more units"
            yield Finding("narrow layer", f"{record.what} has {record.shape[0]} units. {remedy}", remedy, record.id)


@pytest.fixture
def rule() -> extend.FindingRule:
    return extend.finding_rule("narrow layer")(narrow)


def kinds(graph: nbgrad.AutogradGraph) -> list[str]:
    return [one.kind for one in graph.findings()]


def test_a_rule_is_told_everywhere(lib: Any, rule: extend.FindingRule, tmp_path: Path) -> None:
    graph = recorded(lib)
    (found,) = graph.findings()
    assert (found.kind, found.tensors, found.scope[-1]) == ("narrow layer", ("0.weight (3, 2)",), "0 (Linear)")
    assert found.text.endswith("has 3 units. Give it more units")
    check = graph.checkup()["narrow layer"]
    assert (check.state, check.findings, check.looked) == ("found", (found,), "6 records")
    described = describe(graph)
    assert [one["text"] for one in described["problems"]] == [found.text]
    (node,) = [one for one in described["nodes"] if one["badges"]]
    assert node["label"][0] == "weight"
    graph.save(tmp_path / "net.txt")
    assert "has 3 units" in (tmp_path / "net.txt").read_text()
    assert rule(graph)[0].text == found.text


def test_an_added_check_is_sound_where_its_rule_finds_nothing(lib: Any, rule: extend.FindingRule) -> None:
    with nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 8)(lib.ones(4, 2)).sum().backward()
    assert kinds(graph) == []
    assert "narrow layer: 5 records" in describe(graph)["checked"]
    with nbgrad.AutogradGraph() as graph:
        pass
    assert graph.checkup()["narrow layer"].state == "not judged"


def test_open_graphs_are_asked_too_and_what_a_rule_computes_is_not_recorded(lib: Any) -> None:
    @extend.finding_rule("odd")
    def odd(graph: nbgrad.AutogradGraph) -> list[Finding]:
        number = (lib.ones(2) * net.weight.detach().sum()).sum()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
        return [Finding("odd", f"{len(graph.records)} and {float(number) > -1e9}")]

    net = lib.nn.Linear(2, 2)
    with nbgrad.AutogradGraph() as graph:
        net(lib.ones(1, 2)).sum().backward()
        count = len(graph.records)
        assert [one.text for one in graph.findings()] == [f"{count} and True"] * 1
        describe(graph)
        assert len(graph.records) == count
    assert graph.backwards == 1


def test_a_rule_that_comes_later_is_asked_and_one_that_is_removed_is_not(lib: Any) -> None:
    graph = recorded(lib)
    own = graph.checkup()
    assert kinds(graph) == []
    rule = extend.finding_rule("narrow layer")(narrow)
    assert kinds(graph) == ["narrow layer"]
    assert extend.FINDING_RULES["narrow layer"] is rule
    rule.remove()
    rule.remove()
    assert kinds(graph) == []
    assert [one.name for one in graph.checkup()] == [one.name for one in own]
    assert dict(extend.FINDING_RULES) == {}


def test_a_rule_of_the_same_name_is_replaced(lib: Any, rule: extend.FindingRule) -> None:
    graph = recorded(lib)
    again = extend.finding_rule("narrow layer")(lambda _: None)
    assert kinds(graph) == []
    rule.remove()
    assert extend.FINDING_RULES["narrow layer"] is again, "the old one has no name any more"


def test_what_a_rule_found_stays_when_the_model_is_gone(lib: Any) -> None:
    alive = list[bool]()

    @extend.finding_rule("alive")
    def living(graph: nbgrad.AutogradGraph) -> Iterator[Finding]:
        alive.append(any(one.scope is not None and one.scope.module() is not None for one in graph.records))
        yield Finding("alive", "there")

    graph = recorded(lib)
    gc.collect()
    assert kinds(graph) == ["alive"]
    assert alive == [True], "it was asked once, as the graph closed"


def test_silencing(lib: Any, rule: extend.FindingRule) -> None:
    for given in ("narrow layer", "narrow-layer", ["narrow_layer", "vanishing"]):
        graph = recorded(lib, silence=given)
        assert kinds(graph) == []
        assert [one.kind for one in graph.checkup().silenced] == ["narrow layer"]
    rule.remove()
    with pytest.raises(ValueError, match="there is no kind of findings 'narrow layer'"):
        recorded(lib, silence="narrow layer")

    @extend.finding_rule("any op")
    def ops(graph: nbgrad.AutogradGraph) -> Iterator[Finding]:
        yield from [Finding("any op", one.what, None, one.id) for one in graph.records if one.op is not None]

    leaf = torch.ones(2, requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        y = leaf * 2  # nbgrad: ignore[any op]
        y.sum().backward()  # nbgrad: ignore[any opp]
    assert [one.text.partition(" ")[0] for one in graph.findings()] == ["sum"]
    assert "there is no kind of findings 'any opp'; did you mean any op?" in graph.checkup().notes[0]
    assert graph.checkup().notes[0] in describe(graph)["notes"]


def test_a_rule_that_fails_loses_nothing_else(lib: Any, rule: extend.FindingRule, guarded: None) -> None:
    @extend.finding_rule("broken")
    def broken(_: nbgrad.AutogradGraph) -> Iterator[Finding]:
        yield Finding("broken", "first")
        raise ZeroDivisionError("odd")

    graph = recorded(lib)
    narrow_one, first, failed = graph.findings()
    assert (narrow_one.kind, first.text, failed.kind) == ("narrow layer", "first", "failed rule")
    assert "the rule 'broken' that was added failed" in failed.text
    assert "ZeroDivisionError: odd, at tests/widgets/test_plugins.py:" in failed.text
    assert failed.text.endswith("Mend it, or take it away with its remove()")
    check = graph.checkup()["broken"]
    assert (check.state, check.findings, check.missing) == ("found", (first, failed), "the rule 'broken' failed")
    assert failed.text in [one["text"] for one in describe(graph)["problems"]]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (3, "the rule 'wrong' has to return findings, and returned int: 3"),
        (["a text"], "the rule 'wrong' has to make objects of nbgrad.Finding, not str"),
        ([Finding("nan", "x")], "the rule 'wrong' made a finding of the kind 'nan': make Finding('wrong', ...)"),
    ],
)
def test_a_rule_that_makes_something_else_is_told(made: Any, said: str, guarded: None) -> None:
    extend.finding_rule("wrong")(lambda _: made)
    (failed,) = recorded(TORCH).findings()
    assert f"TypeError: {said}. Mend it" in failed.text


def test_a_rule_may_ask_for_the_other_findings(lib: Any) -> None:
    asked = list[list[str]]()

    @extend.finding_rule("many findings")
    def many(graph: nbgrad.AutogradGraph) -> None:
        asked.append(kinds(graph))

    with nbgrad.AutogradGraph() as graph:
        scores = lib.nn.Linear(4, 3)(lib.ones(2, 4)).softmax(1)
        lib.nn.functional.cross_entropy(scores, torch.tensor([0, 1])).backward()
        assert kinds(graph) == ["loss input"]
    assert kinds(graph) == ["loss input"]
    assert asked == [["loss input"]] * 2


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        (narrow, TypeError, "finding_rule() takes a name first, such as 'big step', and got function"),
        ("big-step", ValueError, "the name has to be words of letters and digits with one blank between them"),
        ("", ValueError, "the name has to be words"),
        ("a, b", ValueError, "the name has to be words"),
        ("vanishing", ValueError, "nbgrad has findings or a check of this name; take another one"),
        ("layers", ValueError, "nbgrad has findings or a check of this name; take another one"),
    ],
)
def test_names_that_are_no_kinds_are_refused(name: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        extend.finding_rule(name)
    assert dict(extend.FINDING_RULES) == {}


@pytest.mark.parametrize("add", [extend.finding_rule("x"), extend.overlay("x")])
def test_what_cannot_be_called_with_one_argument_is_refused(add: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"decorates a function of a (graph|record), and got int: 3"):
        add(3)
    with pytest.raises(TypeError, match=r"decorates a function that can be called with a (graph|record) alone"):
        add(lambda: None)
    assert not extend.FINDING_RULES
    assert not extend.OVERLAYS


def test_the_names_of_checks_are_those_of_the_table() -> None:
    assert tuple(row.name for row in CHECKS) == CHECK_NAMES


def menu(graph: nbgrad.AutogradGraph) -> dict[str, Any]:
    """The overlays that were added, by label."""
    return {one["label"]: one for one in describe(graph)["overlays"] if one["key"].startswith("kind")}


def levels(graph: nbgrad.AutogradGraph, key: str = "kind0") -> dict[str, float]:
    return {node["label"][0]: node["levels"][key] for node in describe(graph)["nodes"] if key in node["levels"]}


def test_an_overlay_of_numbers(lib: Any) -> None:
    @extend.overlay("elements")
    def elements(record: extend.Record) -> Any:
        return torch.tensor(float(np.prod(record.shape))) if record.kind == "parameter" else None

    @extend.overlay("rows", log=True)
    def rows(record: extend.Record) -> Any:
        return np.float32(record.shape[0]) if record.shape else 0

    graph = recorded(lib)
    assert menu(graph)["elements"] == {"key": "kind0", "label": "elements", "low": "3", "high": "6", "classes": []}
    assert levels(graph) == {"weight": 1.0, "bias": 0.0}
    assert menu(graph)["rows (log)"]["high"] == "4"
    (weight,) = [node for node in describe(graph)["nodes"] if node["label"][0] == "weight"]
    assert {"term": "elements", "text": "6"} in weight["details"]
    assert describe(graph)["colour"] == "", "it is in the menu, and is not shown at once"
    assert extend.OVERLAYS["elements"] is elements
    elements.remove()
    elements.remove()
    assert list(menu(graph)) == ["rows (log)"]
    rows.remove()
    assert menu(graph) == {}


def test_an_overlay_of_labels_and_colours(lib: Any) -> None:
    @extend.overlay("size", colours={"large": "#e76f51"})
    def size(record: extend.Record) -> str:
        return "large" if len(record.shape) > 1 else "#2a9d8f" if record.shape else "number"

    graph = recorded(lib)
    overlay = menu(graph)["size"]
    assert dict(zip(overlay["classes"], overlay["colours"], strict=True)) == {
        "large": "#e76f51", "#2a9d8f": "#2a9d8f", "number": "",
    }  # fmt: skip
    assert unpacked(packed(lay_out(describe(graph))))["description"]["overlays"] == describe(graph)["overlays"]
    assert svg(lay_out(describe(graph))).startswith("<svg")
    size.remove()
    extend.overlay("truth")(lambda record: record.op is not None)
    assert menu(graph)["truth"]["classes"] == ["False", "True"]
    assert "colours" not in menu(graph)["truth"]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda _: [1, 2], "TypeError: the overlay 'odd' has to give a number, a text or None, and gave list for "),
        (lambda record: 1 if record.op else "x", "TypeError: it gave numbers for some records and texts for others."),
        (
            lambda record: 1 / len(record.shape),
            "ZeroDivisionError: division by zero, at tests/",
        ),
        (lambda _: -1, "ValueError: the overlay 'odd' gave -1 for "),
    ],
)
def test_an_overlay_that_fails_loses_nothing_else(function: Any, said: str, guarded: None, lib: Any) -> None:
    extend.overlay("odd", log=True)(function)
    extend.overlay("sound")(lambda _: 1)
    described = describe(graph := recorded(lib))
    (note,) = [one for one in described["notes"] if "overlay" in one]
    assert note.startswith("The overlay 'odd' failed, so the picture does not have it: " + said)
    assert list(menu(graph)) == ["sound"]
    assert all("kind0" not in node["levels"] for node in described["nodes"])


def test_in_tests_an_overlay_that_fails_is_raised() -> None:
    extend.overlay("odd")(lambda _: {}["odd"])
    with pytest.raises(KeyError):
        describe(recorded(TORCH))


@pytest.mark.parametrize(
    ("name", "colours", "error", "said"),
    [
        (3, None, TypeError, "overlay() takes a name first, such as 'depth', and got int: 3"),
        (" ", None, ValueError, "overlay() takes a name first, such as 'depth', and got an empty one"),
        ("x", {"a": "red"}, ValueError, "overlay('x'): the colour of 'a' is 'red'; write it as '#2a9d8f'"),
        ("x", {"a": 3}, ValueError, "overlay('x'): the colour of 'a' is 3; write it as '#2a9d8f'"),
    ],
)
def test_what_is_no_overlay_is_refused(name: Any, colours: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        extend.overlay(name, colours=colours)


def test_asked_for_gradients_are_not_given_away(lib: Any) -> None:
    extend.overlay("size of the gradient")(lambda record: record.gradient and record.gradient.norm)
    described = describe(recorded(lib, ask="weight"))
    assert [one["key"] for one in described["overlays"] if one["key"].startswith("kind")] == []
    assert all("kind0" not in node["levels"] for node in described["nodes"])
    hidden = [node for node in described["nodes"] if node["id"] in described["unknown"]]
    assert hidden
    assert all(row["term"] != "size of the gradient" for node in hidden for row in node["details"])


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_page_offers_an_overlay_and_paints_its_colours(opened: Any) -> None:
    extend.overlay("rank", colours={"matrix": "#e76f51"})(lambda one: "matrix" if len(one.shape) > 1 else "vector")
    tab = opened(page(whole(describe(recorded(TORCH)), folding=Folding()), "net"))
    choice = tab.get_by_test_id("nbgrad-overlay")
    assert "rank" in choice.locator("option").all_text_contents()
    choice.select_option("kind0")
    expect(tab.get_by_test_id("nbgrad-scale")).to_have_text("rankmatrixvector")
    painted = {
        box.evaluate("box => box.style.getPropertyValue('--nbg-class')")
        for box in tab.locator(".nbg-node.nbg-classed").all()
    }
    assert painted == {"color-mix(in oklab, #e76f51 55%, var(--nbg-card))", "var(--nbg-class-1)"}
    dots = tab.locator(".nbg-scale .nbg-dot").evaluate_all("all => all.map(one => getComputedStyle(one).background)")
    assert dots[0].startswith(("oklab", "color(", "rgb")), "the browser knows the colour"
    assert dots[0] != dots[1]


def test_a_notebook_has_them(shell: InteractiveShell) -> None:
    cell = """
    import torch
    from nbgrad.extend import Finding, finding_rule, overlay

    @finding_rule("few rows")
    def few(graph):
        return [Finding("few rows", one.what + " has few rows", None, one.id) for one in graph.records if one.shape]

    @overlay("dimensions")
    def dimensions(record):
        return len(record.shape)
    """
    with capture_output() as captured:
        shell.run_cell(cell).raise_error()
        shell.run_cell(cell).raise_error()  # it is run again
        shell.run_cell("%%autograd\n(torch.ones(2, requires_grad=True) ** 2).sum().backward()").raise_error()
    assert "few rows" in str(captured.outputs[0].data["text/plain"])
    graph = shell.magics_manager.registry["AutogradMagics"].last.graph
    assert kinds(graph) == ["few rows"] * 2
    assert list(menu(graph)) == ["dimensions"]

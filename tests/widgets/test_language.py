"""A picture speaks the language that NBGRAD_LANGUAGE names; names, kinds, numbers and code stay as they are."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad.core.translation import LANGUAGE
from nbgrad.symbolic import Spec
from nbgrad.widgets.describe import describe
from nbgrad.widgets.describe_program import describe_program
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.render.wire_format import sent
from tests.widgets import graphs

GERMAN = "de"

ENGLISH = re.compile(r"\b(?:the|is|are|of|and|with|which|from|where|its|no|not|to|by|it|at|for|has|than|each|every)\b")
"""Words that no German sentence has."""

CODE = re.compile(r"`[^`]*`|'[^']*'|\w*[(\[{][^ ]*[)\]}]|\w+\.\w+|\S+/\S+|löste \w+ aus: .*", re.DOTALL)
"""The parts of a text that it quotes or calls: code of the user, names of files, and messages of errors."""

LEFT = {"ops", "formulas"}
"""The parts that stay English: the docstrings of ops; and below, those of modules and the messages of errors."""


def untied() -> Description:
    """A training with several faults."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3))
    idle, optimizer = torch.nn.Linear(2, 2), torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    with nbgrad.record() as graph:
        for _ in range(4):
            loss = torch.nn.functional.cross_entropy(net(x).softmax(1), y) + 0 * idle(torch.ones(2)).sum()
            loss.backward()
            optimizer.step()
    return describe(graph)


def program() -> Description:
    """A program with its gradient."""
    return describe_program(("", nbgrad.trace(lambda x: (x * x).sum(), Spec((2,), requires_grad=True)).grad()))


GRAPHS: dict[str, Callable[[], Description]] = {
    "trained": graphs.trained,
    "recurrent": graphs.recurrent,
    "unwatched": graphs.unwatched,
    "unpaired": graphs.unpaired,
    "vanishing": graphs.vanishing,
    "stopped": graphs.stopped,
    "changed": graphs.changed,
    "shared": lambda: graphs.shared(9),
    "faults": untied,
}


@pytest.fixture(params=GRAPHS)
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Description]:
    """A graph, described in the language that is given."""

    def described(language: str) -> Description:
        torch.manual_seed(0)
        monkeypatch.setenv(LANGUAGE, language)
        return GRAPHS[request.param]()

    return described


def strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a description, each with where it stands."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in LEFT and not (key == "text" and value.get("term") in ("Block", "Fehler")):
                yield from strings(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, path)


@pytest.mark.sampled(3)
def test_a_german_picture_has_no_english_sentence(made: Callable[[str], Description]) -> None:
    described = made(GERMAN)
    left = [(path, one) for path, one in strings(described) if ENGLISH.search(CODE.sub("", one))]
    assert left == []
    drawn = text(described)
    assert not ENGLISH.search(CODE.sub("", drawn)), drawn


def shape_of(value: Any, path: str = "") -> Any:
    """A description without its texts: but for the lines of a label, which are broken where they are too long."""
    if isinstance(value, dict):
        left = {"language", "label", "numbers"}
        return {key: shape_of(one, key) for key, one in value.items() if key not in left}
    if isinstance(value, list):
        return [shape_of(one, path) for one in value]
    return value if not isinstance(value, str) or path in IDS else None


IDS = {
    "id", "kind", "scope", "node", "op", "role", "key", "source", "target", "input", "row", "parent", "past",
    "levels", "variable", "holds", "calls", "norms", "heights", "back", "edge", "colour", "mathml", "latex",
}  # fmt: skip
"""The fields that are no texts."""


@pytest.mark.sampled(3)
def test_nothing_but_texts_depends_on_the_language(made: Callable[[str], Description]) -> None:
    english, german = made("en"), made(GERMAN)
    assert shape_of(english) == shape_of(german)
    assert german["language"] == GERMAN
    assert "language" not in english
    assert "texts" not in sent(lay_out(english))["description"]
    assert sent(lay_out(german))["description"]["texts"]["Findings"] == "Befunde"
    said = {one for _, one in strings(english) if ENGLISH.search(CODE.sub("", one))}
    assert said & {one for _, one in strings(german)} <= {one for one in said if "Error" in one}


def test_a_user_may_name_a_tensor_like_a_word_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, GERMAN)

    class Gradient(nbgrad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nbgrad.nn.Linear(2, 1)

        def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
            return self.value(x)

    with nbgrad.AutogradGraph("step") as graph:
        leaf = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
        loss = Gradient()(leaf).sum()
        loss.backward()
    described = describe(graph)
    assert described["name"] == "step"
    assert {"Gradient", "value (Linear)"} <= {one["label"] for one in described["scopes"]}
    assert {"leaf", "loss = sum"} <= {node["label"][0] for node in described["nodes"]}


def test_a_program_speaks_german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, GERMAN)
    described = program()
    assert re.fullmatch(r"\d+ Schritte: .*", described["summary"])
    assert {"berechnet", "Speicher"} <= {one["term"] for node in described["nodes"] for one in node["details"]}


def test_a_saved_picture_keeps_its_language(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(LANGUAGE, GERMAN)
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("saved") as graph:
        (x * x).sum().backward()
    graph.save(str(tmp_path / "graph.nbgrad"))
    monkeypatch.setenv(LANGUAGE, "en")
    read = describe(nbgrad.load(tmp_path / "graph.nbgrad"))
    assert read["language"] == GERMAN
    assert read["summary"].startswith("2 Ops, 1 Tensor, 0 Broadcast-Summen")
    assert sent(lay_out(read))["description"]["texts"]["Steps"] == "Schritte"
    assert '<html lang="de">' in page(whole(read), "saved")
    ours = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("again") as again:
        (ours * ours).sum().backward()
    assert nbgrad.compare(nbgrad.load(tmp_path / "graph.nbgrad"), again).equal


def test_a_language_that_is_not_there_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, "en")
    described: Any = {**graphs.unpaired(), "language": "../../de"}
    assert "texts" not in sent(lay_out(described))["description"]


SAID = """() => [...document.querySelectorAll(".nbgrad, .nbgrad *")]
    .filter(one => !one.closest("math") && one.closest("dd")?.previousElementSibling?.textContent !== "Block")
    .flatMap(one => [
        ...["title", "aria-label", "placeholder", "aria-valuetext"].map(name => one.getAttribute(name) ?? ""),
        ...[...one.childNodes].filter(node => node.nodeType === 3).map(node => node.textContent)]).filter(Boolean)"""
"""The texts of a page, without formulas and without the docstrings of layers."""

PANELS = ("legend", "findings", "reductions", "steps", "history", "memory", "as-table")


@pytest.fixture
def german(opened: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    """Opens the page of a graph in German."""

    def shown(made: Callable[[], Description], size: tuple[int, int] = (1171, 760)) -> Page:
        torch.manual_seed(0)
        monkeypatch.setenv(LANGUAGE, GERMAN)
        tab: Page = opened(page(whole(made()), "ein Bild"), "light", size)
        return tab

    return shown


@pytest.mark.browser
@pytest.mark.parametrize("name", ["trained", "unpaired"])
def test_the_page_speaks_german(german: Callable[..., Page], name: str) -> None:
    tab = german(GRAPHS[name])
    assert tab.locator(".nbgrad").get_attribute("lang") == GERMAN
    assert "▶ Schritte" in tab.locator(".nbg-tools").inner_text()
    for panel in PANELS:
        tool = tab.get_by_test_id(f"nbgrad-{panel}").first
        if not tool.is_visible():
            continue
        tool.click()
        left = [one for one in tab.evaluate(SAID) if ENGLISH.search(CODE.sub("", one))]
        assert left == [], panel
        if panel != "as-table":
            tool.click()
    tab.get_by_test_id("nbgrad-as-table").click()
    docs = " ".join([f"{op['what']} {op['why']}" for op in GRAPHS[name]()["ops"].values()])
    for node in tab.get_by_test_id("nbgrad-node").all()[:6]:
        node.dispatch_event("click")
        expect(tab.get_by_test_id("nbgrad-details")).to_be_visible()
        said = [one for one in tab.evaluate(SAID) if one not in docs]
        assert [one for one in said if ENGLISH.search(CODE.sub("", one))] == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1171, 700])
def test_german_words_have_room_in_the_toolbar(german: Callable[..., Page], width: int) -> None:
    tab = german(graphs.trained, (width, 760))
    room = tab.locator(".nbg-rail").evaluate("bar => [bar.scrollWidth, bar.clientWidth, bar.offsetHeight]")
    assert room[0] <= room[1]
    assert room[2] < 40


def test_the_drawing_speaks_german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, GERMAN)
    drawn = svg(lay_out(graphs.unpaired()))
    assert "hier beginnt der Rückwärtslauf" in drawn
    said = re.findall(r">([^<>]+)<", drawn[drawn.index("</style>") :])
    assert [one for one in said if ENGLISH.search(CODE.sub("", one))] == []

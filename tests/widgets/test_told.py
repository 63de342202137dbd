"""The findings of one graph are the same list in every form: data, live page, saved page, drawing, table, notebook."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import nbgrad
from nbgrad.widgets.describe import describe
from nbgrad.widgets.describe_comparison import outline_comparison
from nbgrad.widgets.description.told import GROUPED, LISTED, told
from nbgrad.widgets.notebook_output import static_bundle
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.svg import png, svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.render.wire_format import packed
from tools.unpacking import unpacked

TORCH = SimpleNamespace(nn=torch.nn, ones=torch.ones)
OURS = SimpleNamespace(nn=nbgrad.nn, ones=nbgrad.ones)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


def ill(lib: Any, small: int = 1) -> nbgrad.AutogradGraph:
    """A graph with findings of several kinds; the gradients of ``small`` modules vanish."""
    layers = [lib.nn.Linear(2, 2) for _ in range(small + 3)]
    off = lib.nn.Linear(2, 16)
    off.bias.data.fill_(-100)
    with nbgrad.AutogradGraph("ill") as graph:
        x = lib.ones(4, 2)
        total = off(x).relu().sum()
        for at, layer in enumerate(layers):
            total = total + (layer(x) * (1e-6 if at < small else 1.0)).sum()
        scores = layers[-1](x).softmax(1)
        (total + lib.nn.functional.cross_entropy(scores, torch.zeros(4, dtype=torch.int64))).backward()
    return graph


def squeezed(words: str) -> str:
    """The words without blanks: a drawing breaks lines."""
    return re.sub(r"\s+", "", words)


def lettering(drawing: str) -> str:
    """All letters of a drawing that are drawn, and not only shown by a pointer."""
    texts = [one for one in ElementTree.fromstring(drawing).iter() if one.tag.endswith("}text")]
    return squeezed(" ".join("".join(one.itertext()) for one in texts))


def forms(graph: nbgrad.AutogradGraph, folder: Path) -> Iterator[tuple[str, str]]:
    """The text of each form of a graph, without blanks."""
    for suffix in ("svg", "html", "txt", "json", "png"):
        graph.save(folder / f"ill.{suffix}")
    drawing = (folder / "ill.svg").read_text(encoding="utf-8")
    yield "SVG", lettering(drawing)
    assert (folder / "ill.png").read_bytes() == png(drawing), "the PNG is this drawing"
    page = (folder / "ill.html").read_text(encoding="utf-8")
    still = re.search(r'<div class="nbgrad-still">(<svg.*?</svg>)', page, re.DOTALL)
    sent = re.search(r'class="nbgrad-picture">([^<]+)<', page)
    assert still is not None
    assert sent is not None
    yield "page without scripts", lettering(still[1])
    live = unpacked(base64.b64decode(sent[1]))["description"]
    yield "live page", squeezed(" ".join(one["text"] for one in (*live["problems"], *live["verdicts"])))
    yield "table", squeezed((folder / "ill.txt").read_text(encoding="utf-8"))
    data = json.loads((folder / "ill.json").read_text(encoding="utf-8"))
    yield "data", squeezed(" ".join(one["text"] for one in (*data["problems"], *data["verdicts"])))
    bundle = static_bundle(describe(graph))
    yield "saved notebook, drawing", lettering(str(bundle["image/svg+xml"]))
    yield "saved notebook, table", squeezed(str(bundle["text/plain"]))
    assert bundle["image/png"] == png(str(bundle["image/svg+xml"]))


@pytest.mark.sampled(2)
def test_every_form_has_every_finding(lib: Any, tmp_path: Path) -> None:
    graph = ill(lib)
    found = graph.findings()
    assert {"saturated", "vanishing", "zero gradient", "loss input"} <= {one.kind for one in found}
    for form, said in forms(graph, tmp_path):
        for one in found:
            assert squeezed(one.text) in said, form


@pytest.mark.sampled(2)
def test_many_modules_share_a_finding_in_every_still_form(lib: Any, tmp_path: Path) -> None:
    graph = ill(lib, small=GROUPED + 2)
    (one,) = [one for one in graph.findings() if one.kind == "vanishing"]
    assert one.text.endswith(". So do 4 other modules: layers[1] (Linear), layers[2] (Linear), layers[3] (Linear), ...")
    for form, said in forms(graph, tmp_path):
        if not form.startswith(("live", "data")):  # these have each module, with its place
            assert said.count(squeezed(one.text)) == 1, form


@pytest.mark.sampled(2)
def test_silenced_findings_are_in_no_form(lib: Any, tmp_path: Path) -> None:
    graph = ill(lib)
    texts = [squeezed(one.text) for one in graph.findings() if one.kind == "vanishing"]
    assert texts
    graph.silence, graph.survey = frozenset({"vanishing"}), None
    for form, said in forms(graph, tmp_path):
        assert form.startswith(("live", "data")) or not any(one in said for one in texts), form
        assert squeezed(graph.findings()[0].text) in said, form


def test_an_error_is_said_once_in_a_drawing(lib: Any) -> None:
    with pytest.raises(RuntimeError), nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 2)(lib.ones(4, 3))
    (one,) = graph.findings()
    drawn = lettering(svg(lay_out(describe(graph))))
    assert drawn.count(squeezed(one.text)) == 1
    assert "!Theprogramstoppedhere:" in drawn


def test_two_graphs_side_by_side_have_the_findings_of_both(lib: Any) -> None:
    left, right = ill(lib), ill(lib)
    described = outline_comparison(nbgrad.compare(left, right)).description
    said = [text for one in told(described) if not (text := one.text).startswith("first difference")]
    for one in (*left.findings(), *right.findings()):
        assert any(line.endswith(f": {one.text}") for line in said)
    assert len(said) == len(left.findings()) + len(right.findings())


def test_a_long_list_says_how_many_are_left_out(lib: Any) -> None:
    described = describe(ill(lib))
    described["problems"] = [{"kind": "warning", "text": f"finding {at}", "node": None} for at in range(LISTED + 5)]
    left = len(told(described)) - LISTED
    assert f"({left} more findings are not listed)" in text(described)
    assert f"({left}morefindingsarenotlisted)" in lettering(svg(lay_out(described)))
    assert unpacked(packed(lay_out(described)))["description"]["problems"] == described["problems"]


def test_the_marks_of_several_findings_are_numbers_that_lead_to_their_texts(lib: Any) -> None:
    described = describe(ill(lib))
    marked = [badge["text"] for node in described["nodes"] for badge in node["badges"]]
    assert len(marked) > 1
    texts = warnings_in(svg(lay_out(described)))
    for at, finding in enumerate([one.text for one in told(described) if one.text in marked], 1):
        assert texts.count(str(at)) == 2, "above the graph, and at its box"
        assert squeezed("".join(texts[texts.index(str(at)) + 1 :])).startswith(squeezed(f"Finding: {finding}"))
    for node in described["nodes"]:
        node["badges"] = [one for one in node["badges"] if one["text"] == marked[0]]
    assert "1" not in warnings_in(svg(lay_out(described))), "one needs no number"


def warnings_in(drawing: str) -> list[str]:
    """The texts of a drawing in the inks of errors and notes."""
    texts = [one for one in ElementTree.fromstring(drawing).iter() if one.tag.endswith("}text")]
    return [one.text or "" for one in texts if one.get("class") in ("nbgs-alarm", "nbgs-note")]

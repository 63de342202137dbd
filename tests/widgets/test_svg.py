"""The drawing without scripts, as SVG and as PNG."""

import json
import re
import struct
import subprocess
import sys
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest
import resvg_py

from nbgrad.widgets import pipeline
from nbgrad.widgets.description import text_metrics
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.optional_packages import PartError
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.svg import PNG_WIDTH, _graph, _legend, png, svg
from tests.widgets import graphs
from tests.widgets.networks import NETWORKS

SVG = "{http://www.w3.org/2000/svg}"


def size(image: bytes) -> tuple[int, int]:
    assert image.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def words(drawing: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", ["small", "mlp", "hostile"])
def test_it_is_one_wellformed_element_that_runs_nothing(name: str, request: pytest.FixtureRequest) -> None:
    root = ElementTree.fromstring(svg(lay_out(request.getfixturevalue(name))))
    assert root.tag == f"{SVG}svg"
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "style", "rect", "circle", "g", "path", "polygon", "text", "tspan", "title"}
    attributes = {attribute for element in root.iter() for attribute in element.attrib}
    assert "id" not in attributes, "two drawings in one page would collide"
    assert not [attribute for attribute in attributes if attribute.startswith("on") or "href" in attribute]


def test_everything_of_the_description_is_in_it(mlp: Description) -> None:
    shown = words(svg(lay_out(mlp)))
    assert {"MLP, one step", "MLP", "layers.1 (Linear)", "matmul", "loss = 2.3026"} <= set(shown)
    assert "Σ (32, 10) -> (10,): sum dim 0" in shown
    assert {"operation", "parameter", "constant", "backward starts here", "no gradient"} <= set(shown)
    assert "folded module" not in shown, "the legend names only what is there"


@pytest.mark.parametrize("name", ["ResNet-18", "GPT of 4 blocks", "LSTM layer"])
def test_nothing_in_the_legend_stands_on_something_else(name: str) -> None:
    """This also holds in a font that is wider than the measured one, such as that of the PNG."""
    picture = lay_out(NETWORKS[name]())
    rows: list[str] = []
    _legend(rows, picture, picture["layout"]["width"], 0.0)
    found = "".join(rows)
    signs = [(float(x), float(y)) for x, y in re.findall(r'<rect[^>]* x="([\d.]+)" y="([\d.]+)"', found)]
    texts = re.findall(r'<text[^>]*?\bx="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', found)
    assert len(texts) >= 6
    assert len(signs) >= 4
    for x, y, text in texts:
        end = float(x) + text_metrics.text_width(text, 11) * text_metrics.WIDER
        beside = [one for one, level in signs if one > float(x) and 0 < float(y) - level < 14]
        assert end < min(beside, default=1e9), text


def test_each_kind_has_its_own_outline(small: Description) -> None:
    kinds = ["op", "parameter", "leaf", "input", "constant", "outside", "folded"]
    outlines = set()
    for kind in kinds:
        small["nodes"][0]["kind"] = kind  # type: ignore[typeddict-item]
        box = re.search(r"<title>w [^<]*</title>((?:\s*<(?:rect|polygon)[^>]*>)+)", svg(lay_out(small)))
        assert box is not None
        outlines.add(re.sub(r' (class|x|y|width|height|fill|stroke|points)="[^"]*"', "", box[1]))
    assert len(outlines) == len(kinds), "colour is never the only difference"


def test_notes_are_in_it(stack: Any) -> None:
    assert "folded" in " ".join(words(svg(lay_out(stack(1000)))))


@pytest.mark.rotated(6)
def test_the_same_bytes_twice_and_in_two_processes(mlp: Description) -> None:
    program = (
        "import json, sys; from nbgrad.widgets.pipeline import lay_out; "
        "from nbgrad.widgets.render.svg import svg; "
        "sys.stdout.buffer.write(svg(lay_out(json.load(sys.stdin))).encode())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(mlp).encode(), capture_output=True, check=True
    )
    drawing = svg(lay_out(mlp))
    assert other.stdout.decode() == drawing == svg(lay_out(mlp))
    assert png(drawing) == png(drawing)


def test_hostile_names_are_text(hostile: Description) -> None:
    drawing = svg(lay_out(hostile))
    assert "<script" not in drawing
    assert "<img" not in drawing
    assert "<script>window.hacked = 1</script>" in words(drawing)


def test_the_png_is_drawn_at_its_size(small: Description) -> None:
    drawing = svg(lay_out(small))
    width = float(ElementTree.fromstring(drawing).attrib["width"])
    assert abs(size(png(drawing))[0] - width) <= 1


@pytest.mark.rotated(6)
def test_a_large_png_is_capped(stack: Any, tangle: Any) -> None:
    assert size(png(svg(lay_out(tangle(60)))))[0] == PNG_WIDTH
    assert size(png(svg(lay_out(stack(250), folding=Folding()))))[1] <= 4001


def test_letters_too_small_to_read_are_not_drawn(small: Description) -> None:
    drawing = svg(lay_out(small))
    without = re.sub(r"<text [^>]*>[^<]*</text>", "", drawing)
    assert png(drawing, width=100) == png(without, width=100)
    assert png(drawing) != png(without)
    some = int(size(png(drawing))[0] * 3.5 / 12)  # letters of 12 pixels and more are just large enough
    assert png(drawing, width=some + 1) != png(without, width=some + 1)


def test_the_png_holds_ink(small: Description) -> None:
    blank = re.sub(r"<text.*?</text>", "", svg(lay_out(small)))
    assert len(png(svg(lay_out(small)))) > len(png(blank)) + 500


def test_titles_are_bold_in_the_png(small: Description) -> None:
    drawing = svg(lay_out(small))
    assert ' font-weight="bold">' in drawing
    assert png(drawing) != png(drawing.replace(' font-weight="bold"', ""))


def test_a_png_without_letters_is_an_error(small: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(resvg_py.svg_to_bytes, skip_system_fonts=True))
    with pytest.raises(PartError, match=r"no font is installed here. Install one"):
        png(svg(lay_out(small)))


def lines_in(description: Description) -> int:
    """How many lines of text the boxes and edges of a picture have."""
    # 2: the gradient, and that of an earlier frame
    nodes = sum(len(node["label"]) + 2 * (node["rule"] is not None) for node in description["nodes"])
    edges = sum(1 + (edge["reduction"] is not None or edge["back"] is not None) for edge in description["edges"])
    return nodes + edges + len(description["scopes"])


@pytest.mark.parametrize("graph", [graphs.trained, graphs.unpaired, graphs.tied, graphs.vanishing])
def test_no_text_is_measured_twice(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    real = text_metrics.advance

    def advance(text: str) -> int:
        measured.append(text)
        return real(text)

    described = graph()
    monkeypatch.setattr(text_metrics, "advance", advance)
    monkeypatch.setattr(pipeline, "_with_large", lambda _, picture, *more: picture)  # it is a picture of its own
    picture = whole(described)
    assert picture["turned"] is not None
    drawn = [one["description"] for one in (picture, picture["first"]) if one is not None]
    assert 0 < len(measured) <= 3 * sum(map(lines_in, drawn)), "each once for each form of its box"

    measured.clear()
    assert len(list(_graph(picture))) > 20
    assert measured == []
    drawing = svg(picture)
    assert measured, "what is around the graph"

    narrow = dict.fromkeys(picture["layout"]["texts"], 1.0)
    other = svg({**picture, "layout": {**picture["layout"], "texts": narrow}})
    assert other != drawing, "the widths of the layout are those that are drawn"

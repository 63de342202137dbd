"""Python writes the facts that the front end shares with it: interfaces, words, sizes and colours."""

import re

import pytest

from nbgrad import reprs
from nbgrad.widgets.layout import curves
from nbgrad.widgets.render import palette
from tools import write_view

pytestmark = pytest.mark.once

STYLE = (write_view.SOURCES / "graph.css").read_text("utf-8")


@pytest.mark.parametrize("path", write_view.made(), ids=lambda path: path.name)
def test_a_file_of_the_front_end_is_what_python_says(path: write_view.Path) -> None:
    assert path.read_text("utf-8") == write_view.made()[path], "run make write, and build the bundle"


def test_every_shape_of_hint_is_written() -> None:
    assert "dims: number[];" in write_view.interfaces()
    assert "reduction: Reduction | null;" in write_view.interfaces()
    assert "edges: Record<string, number[][][]>;" in write_view.interfaces()
    assert "kind: Kind;" in write_view.interfaces()


def test_a_value_that_is_changed_on_one_side_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    constants, colours = write_view.constants(), write_view.colours()
    with monkeypatch.context() as patch:
        patch.setitem(palette.MEANING, "op", "op")
        assert write_view.constants() != constants
    with monkeypatch.context() as patch:
        patch.setattr(curves, "TIP_LENGTH", 8.0)
        assert write_view.constants() != constants
    with monkeypatch.context() as patch:
        patch.setitem(palette.EDGES, "back", ("#b8430b", palette.EDGES["back"][1]))
        assert write_view.colours() != colours
    assert (write_view.constants(), write_view.colours()) == (constants, colours)


def test_the_style_sheet_has_no_colour_of_the_palette_of_its_own() -> None:
    known = {colour for paint in palette.PAINTS.values() for colour in vars(paint).values()}
    known |= {
        colour
        for pair in (*palette.INKS.values(), *palette.EDGES.values(), *palette.NUMBERS.values())
        for colour in pair
    }
    own = re.findall(r"#[0-9a-f]{6}\b", STYLE)
    assert own, "those of overlays and of high contrast"
    assert known.isdisjoint(own)


def test_the_style_sheet_names_only_colours_that_are_written() -> None:
    used = set(re.findall(r"var\((--nbg-(?:fill|line|ink|edge)-\w+)\)", STYLE))
    written = set(re.findall(r"(--nbg-(?:fill|line|ink|edge)-\w+):", write_view.colours()))
    assert len(used) > 20
    assert used <= written


def test_the_heat_map_of_a_tensor_has_the_colours_of_the_view() -> None:
    assert {role: light for role, (light, _) in palette.NUMBERS.items()} == {
        "positive": reprs._ABOVE,
        "negative": reprs._BELOW,
    }


def variables(sources: str) -> tuple[set[str], set[str]]:
    """The style variables that are read without a default value, and those that get a value."""
    whole = re.sub(r'--nbg-([a-z-]*)\$\{[^}"]*"(\w+)" : "(\w+)"\}', r"--nbg-\1\2) var(--nbg-\1\3", sources)
    read = set(re.findall(r"var\((--nbg-[a-z-]*[a-z])\)", whole))
    return read, set(re.findall(r"(--nbg-[a-z-]*[a-z]):", whole)) | set(re.findall(r'"(--nbg-[a-z-]+)"', whole))


def test_every_style_variable_that_is_read_has_a_value() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in sorted(write_view.SOURCES.iterdir()))
    read, given = variables(sources)
    assert {"--nbg-ink-positive", "--nbg-ink-negative", "--nbg-zero"} <= read
    assert read <= given, read - given
    read, given = variables(sources.replace("--nbg-ink-${at", "--nbg-${at"))
    assert read - given == {"--nbg-positive", "--nbg-negative"}, "the tester"

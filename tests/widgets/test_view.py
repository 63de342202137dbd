"""What a notebook gets: the static bundle first, then the widget."""

import base64
from typing import Any

import pytest

from nbgrad.widgets import layout, view
from nbgrad.widgets.description import Description
from nbgrad.widgets.engine import EngineMissing
from nbgrad.widgets.layout import lay_out
from nbgrad.widgets.view import GraphView, show, static_bundle

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []

    def display(data: dict[str, Any], *, raw: bool, metadata: Any = None) -> None:
        assert raw
        outputs.append(data)

    monkeypatch.setattr(view, "display", display)
    return outputs


def test_the_static_bundle_is_three_renderings_and_no_html(small: Description) -> None:
    bundle = static_bundle(small)
    assert set(bundle) == {"image/svg+xml", "image/png", "text/plain"}
    assert isinstance(bundle["image/png"], bytes)
    assert bundle == static_bundle(small)


def test_show_displays_the_picture_then_the_widget(small: Description, displayed: list[dict[str, Any]]) -> None:
    show(small)
    static, live = displayed
    bundle = static_bundle(small)
    assert static["image/svg+xml"] == bundle["image/svg+xml"]
    assert base64.b64decode(static["image/png"]) == bundle["image/png"]
    assert WIDGET not in static
    assert set(live) == {WIDGET, "text/plain"}
    assert live["text/plain"] == ""


def test_without_graphviz_the_table_is_shown(
    small: Description, displayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(source: str, *, seconds: float) -> str:
        raise EngineMissing("Run: pip install it")

    monkeypatch.setattr(layout, "run_graphviz", missing)
    show(small)
    (only,) = displayed
    assert set(only) == {"text/plain"}
    assert "mul" in only["text/plain"]
    assert only["text/plain"].endswith("Run: pip install it")


def test_the_widget_holds_the_picture_and_no_address(small: Description) -> None:
    picture = lay_out(small)
    widget = GraphView(picture=picture)
    assert widget.picture == picture
    bundle = widget._repr_mimebundle_()
    assert bundle is not None
    assert bundle[0]["text/plain"] == ""
    assert "picture" in widget.get_state()
    assert "render" in str(widget._esm)
    assert ".nbgrad" in str(widget._css)


def test_a_missing_png_renderer_leaves_the_rest(small: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(drawing: str) -> bytes:
        raise ModuleNotFoundError("No module named 'resvg_py'")

    monkeypatch.setattr(view, "png", missing)
    assert set(static_bundle(small)) == {"image/svg+xml", "text/plain"}

"""The outputs for a notebook: the static bundle first, then the widget."""

import base64
import gc
import itertools
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import torch
from ipykernel.zmqshell import ZMQDisplayPublisher
from IPython.core.displaypub import CapturingDisplayPublisher, DisplayPublisher

import nbgrad
from nbgrad.widgets import cell_outputs, notebook_output, view
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Picture
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding
from nbgrad.widgets.layout import fitting
from nbgrad.widgets.layout.graphviz_wasm import EngineMissing
from nbgrad.widgets.notebook_output import show, static_bundle
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.wire_format import packed
from nbgrad.widgets.view import GraphView
from tests.core.interrupting import Instants, click
from tests.widgets.test_first_look import uneven
from tools.unpacking import unpacked

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []

    class Handle:
        """Replaces the output that it was returned for."""

        def __init__(self) -> None:
            self.place = len(outputs) - 1

        def update(self, data: dict[str, Any], *, raw: bool) -> None:
            assert raw
            outputs[self.place] = data

    def display(data: dict[str, Any], *, raw: bool, metadata: Any = None, display_id: Any = None) -> Handle | None:
        assert raw
        outputs.append(data)
        return Handle() if display_id else None

    monkeypatch.setattr("nbgrad.widgets.notebook_output.display", display)
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


@pytest.mark.parametrize(
    ("publisher", "at_once"),
    [(ZMQDisplayPublisher, False), (DisplayPublisher, True), (CapturingDisplayPublisher, True)],
)
def test_a_kernel_sends_the_png_after_what_its_reader_waits_for(
    small: Description,
    displayed: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    publisher: type[DisplayPublisher],
    at_once: bool,
) -> None:
    """A terminal would show the same twice, and so would ``%%capture`` when it shows what it has captured."""
    order: list[str] = []

    def flush() -> None:
        order.append("all sent" if any(WIDGET in data for data in displayed) else "too early")

    def png(drawing: str) -> bytes:
        order.append("PNG")
        return b"drawn"

    monkeypatch.setattr(notebook_output, "png", png)
    monkeypatch.setattr(notebook_output, "get_ipython", lambda: SimpleNamespace(display_pub=publisher()))
    monkeypatch.setattr(notebook_output, "sys", SimpleNamespace(stdout=SimpleNamespace(flush=flush)))
    show(small)
    assert order == (["PNG"] if at_once else ["all sent", "PNG"])
    assert [set(data) for data in displayed] == [{"image/svg+xml", "image/png", "text/plain"}, {WIDGET, "text/plain"}]


IN_A_KERNEL = """
import nbgrad

with nbgrad.record("small"):
    (nbgrad.tensor([1.0, 2.0], requires_grad=True) * 3).sum().backward()
"""


@pytest.mark.rotated(4)
def test_in_a_kernel_the_still_picture_gets_its_png_in_its_own_place(tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell(IN_A_KERNEL)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "small.ipynb")
    # In a process of its own: the client of a kernel leaves an event loop behind.
    options = ["--execute", "--to", "notebook", "--inplace", "small.ipynb"]
    subprocess.run(
        [sys.executable, "-m", "jupyter", "nbconvert", *options], cwd=tmp_path, check=True, capture_output=True
    )
    still, live, script = nbformat.read(tmp_path / "small.ipynb", as_version=4).cells[0].outputs
    assert still.data.keys() == {"image/svg+xml", "image/png", "text/plain"}
    assert base64.b64decode(still.data["image/png"]).startswith(b"\x89PNG")
    assert WIDGET in live.data
    assert script.data.keys() == {"text/html"}, "the first picture of a kernel"


def test_without_graphviz_the_table_is_shown(
    small: Description, displayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(source: str, *, seconds: float) -> str:
        raise EngineMissing("Run: pip install it")

    monkeypatch.setattr(fitting, "run_graphviz", missing)
    show(small)
    (only,) = displayed
    assert set(only) == {"text/plain"}
    assert "mul" in only["text/plain"]
    assert only["text/plain"].endswith("Run: pip install it")


def test_the_widget_holds_the_picture_and_no_address(small: Description) -> None:
    picture = lay_out(small)
    widget = GraphView(small, picture)
    assert unpacked(widget.picture) == picture
    bundle = widget._repr_mimebundle_()
    assert bundle is not None
    assert bundle[0]["text/plain"] == ""
    assert "picture" in widget.get_state()
    assert "render" in str(widget._esm)
    assert ".nbgrad" in str(widget._css)


def repeated(times: int) -> nbgrad.AutogradGraph:
    """``times`` identical blocks of eight ops, with other ops before and after them."""
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        for step in range(10):
            x = x * step if uneven(step) else x.sin()
        for _ in range(times):
            with nbgrad.scope("Layer"):
                for at in range(8):
                    x = x * 2 if uneven(at) else x.tanh()
        x.sum().backward()
    return graph


@pytest.mark.rotated(3)
def test_a_double_click_is_answered_with_another_layout() -> None:
    widget = GraphView(outline(repeated(60)))
    before = unpacked(widget.picture)["description"]
    group = next(node for node in before["nodes"] if len(node["holds"]) > 1)
    widget.request = {"toggle": group["holds"], "count": 1}
    after = unpacked(widget.picture)["description"]
    singles = [node for node in after["nodes"] if node["holds"] and node["holds"][0] in group["holds"]]
    assert [node["holds"] for node in singles] == [[scope] for scope in group["holds"]], "one by one"
    widget.request = {"toggle": singles[0]["holds"], "count": 2}
    opened = unpacked(widget.picture)["description"]
    assert singles[0]["holds"][0] in {scope["id"] for scope in opened["scopes"]}
    widget.request = {"toggle": singles[0]["holds"], "count": 3}
    assert unpacked(widget.picture)["description"]["nodes"] == after["nodes"], "folded again"
    widget.request = {"direction": "LR", "count": 4}
    assert unpacked(widget.picture)["direction"] == "LR"


@pytest.mark.rotated(3)
def test_a_view_that_was_put_away_answers_the_same() -> None:
    light = outline(repeated(60))
    live, resting, other = GraphView(light), GraphView(light), GraphView(light)
    group = next(node for node in unpacked(live.picture)["description"]["nodes"] if node["holds"])
    for count, holds in enumerate((group["holds"], group["holds"][:1], group["holds"][1:2])):
        resting.put_away()
        other.put_away()
        other.request = {"direction": "TB", "count": count}
        assert resting._outline is None, "another one was asked later"
        for one in (live, resting):
            one.request = {"toggle": holds, "count": count}
        assert resting.picture == live.picture
        assert resting._outline is not None, "at hand for the next click"
        assert other._outline is None
    assert live._outline is light, "it was never put away"
    assert unpacked(live.picture)["description"]["nodes"][-1]["details"]


def test_another_graph_in_a_view_takes_the_place_of_what_was_put_away(small: Description, mlp: Description) -> None:
    one, other = GraphView(small), GraphView(small)
    one.put_away()
    one.draw(mlp)
    one.put_away()
    other.put_away()
    one.request = {"direction": "LR"}
    assert one.picture == packed(lay_out(mlp, direction="LR", folding=first_folding(mlp, NODES)))


def test_what_a_reader_waits_for_is_sent_before_the_graph_is_put_away(
    small: Description, displayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    monkeypatch.setattr(Outline, "put_away", lambda outline: sent.append(len(displayed)) or b"")
    show(small)
    assert sent == [2]


def test_a_view_that_is_closed_is_gone(small: Description) -> None:
    one = GraphView(small)
    gone = weakref.ref(one)
    one.close()
    del one
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("closed_by", ["close", "page"])
def test_a_view_that_is_closed_keeps_nothing(small: Description, closed_by: str) -> None:
    widget = GraphView(small)
    widget.put_away()
    if closed_by == "close":
        widget.close()
    else:
        widget.comm.handle_close({})
    assert widget.comm is None
    widget.request = {"direction": "LR"}
    widget.put_away()
    assert widget._outline is widget._kept is GraphView._last is None


def test_a_view_whose_output_was_cleared_in_every_page_is_closed(
    small: Description, displayed: list[dict[str, Any]], made: list[GraphView]
) -> None:
    show(small)
    (shown,), held = made, GraphView(small)
    for content in ({"shown": "a"}, {"shown": "b"}, {"shown": "a"}, {"cleared": "a"}, {"cleared": "a"}, {}):
        for one in (shown, held):
            one._handle_custom_msg(content, [])
    assert shown.comm is not None
    for one in (shown, held):
        one._handle_custom_msg({"cleared": "b"}, [])
    assert shown.comm is shown._kept is None
    assert held.comm is not None, "who holds it may display it again"
    gone = weakref.ref(shown)
    made.clear()
    del shown, one
    gc.collect()
    assert gone() is None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[GraphView]:
    """Every view that is made."""
    made: list[GraphView] = []

    class Noted(GraphView):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(view, "GraphView", Noted)
    return made


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the running cell, the request of its run, and the session."""
    monkeypatch.setattr(cell_outputs, "_last", {})

    def run(cell: str | None, request: str, session: str = "page") -> None:
        header = {"msg_id": request, "session": session}
        asked = {"metadata": {} if cell is None else {"cellId": cell}, "header": header}
        monkeypatch.setattr(cell_outputs, "get_ipython", lambda: SimpleNamespace(get_parent=lambda: asked))

    return run


def test_a_cell_that_runs_again_lets_go_of_its_earlier_views(
    small: Description, displayed: list[dict[str, Any]], running: Any, made: list[GraphView]
) -> None:
    for cell, request in (("a", "1"), ("a", "1"), ("b", "2"), (None, "3"), (None, "4"), ("a", "5")):
        running(cell, request)
        show(small)
    assert [one.comm is not None for one in made] == [False, False, True, True, True, True]
    assert [one._kept is not None for one in made] == [False, False, True, True, True, True]
    made[2].close()  # as the page does
    running("b", "6")
    show(small)
    assert made[-1].comm is not None


def test_a_copied_notebook_on_the_same_kernel_keeps_its_views(
    small: Description, displayed: list[dict[str, Any]], running: Any, made: list[GraphView]
) -> None:
    def alive() -> list[bool]:
        return [one.comm is not None for one in made]

    for request, session in (("1", "mine"), ("2", "copy"), ("3", "mine")):
        running("a", request, session)
        show(small)
    assert alive() == [False, True, True]
    for number in range(cell_outputs.PAGES - 1):  # the page is reloaded this many times
        assert alive()[1:] == [True] * (number + 2), "the views of few pages are kept, and not of every one there was"
        running("a", f"later {number}", f"page {number}")
        show(small)
    assert alive() == [False, False, True, *[True] * (cell_outputs.PAGES - 1)]


def test_a_request_of_nothing_known_changes_nothing(small: Description) -> None:
    widget = GraphView(small)
    before = unpacked(widget.picture)
    widget.request = {"toggle": ["s99", 3], "direction": "up", "count": 1}
    assert unpacked(widget.picture) == before


def test_three_hundred_nodes_travel_in_less_than_100_kilobytes() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor(torch.randn(8, 16))
        for _ in range(59):
            with nbgrad.scope("Layer"):
                w, b = (nbgrad.tensor(torch.randn(*shape), requires_grad=True) for shape in ((16, 16), (16,)))
                x = (x @ w + b).tanh()
        x.sum().backward()
    picture = lay_out(describe(graph), folding=Folding())
    assert len(picture["description"]["nodes"]) > 290
    assert len(packed(picture)) < 100_000


def test_a_missing_png_renderer_leaves_the_rest(small: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(drawing: str) -> bytes:
        raise ModuleNotFoundError("No module named 'resvg_py'")

    monkeypatch.setattr(notebook_output, "png", missing)
    notebook_output._tell_once.cache_clear()
    with pytest.warns(UserWarning, match="No module named 'resvg_py'.* The SVG shows"):
        assert set(static_bundle(small)) == {"image/svg+xml", "text/plain"}


@pytest.mark.rotated(4)
def test_a_click_whose_answer_was_interrupted_is_answered_when_it_comes_again() -> None:
    """The interrupt may hit any instruction. The next click, or the one after it, shows what the reader asked for."""
    light = outline(repeated(12))
    scope = light.description["scopes"][-1]["id"]

    def clicked(widget: GraphView, counts: Iterator[int]) -> Picture:
        click(widget, {"toggle": [scope], "direction": "LR", "count": next(counts)})
        return unpacked(widget.picture)

    calm, counts = GraphView(light), itertools.count()
    folded, unfolded = clicked(calm, counts), clicked(calm, counts)
    assert folded["description"]["nodes"] != unfolded["description"]["nodes"]
    calm.close()
    notes = Instants(modules=["view"])
    widget = GraphView(light)
    notes.run(lambda: clicked(widget, counts))
    widget.close()
    asked = [
        at for at in notes.each() if "_answer" in notes.passed[at][0].co_qualname or "_put" in str(notes.passed[at])
    ]
    for number in asked[::4]:
        widget = GraphView(light)
        begin = unpacked(widget.picture)
        tracer = Instants(number, ["view"])
        assert tracer.run(lambda: clicked(widget, counts))  # noqa: B023  # it is called at once
        shown = unpacked(widget.picture)
        if shown == begin:
            assert clicked(widget, counts) == folded, tracer.hit
        else:
            assert shown == folded, tracer.hit
            assert unfolded in (clicked(widget, counts), clicked(widget, counts)), tracer.hit
        widget.close()


def test_a_graph_whose_drawing_was_interrupted_leaves_the_one_that_is_shown(
    small: Description, mlp: Description, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget, calm = GraphView(small), GraphView(small)

    def interrupted(*_: Any, **__: Any) -> Picture:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(view, "lay_out", interrupted)
        with pytest.raises(KeyboardInterrupt):
            widget.draw(mlp)
    for one in (widget, calm):
        one.request = {"direction": "LR"}
    assert widget.picture == calm.picture


def test_a_picture_whose_message_was_interrupted_is_sent_again(
    small: Description, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget = GraphView(small)

    sent: list[str] = []

    def send(key: str) -> None:
        if key == "picture" and not sent:
            sent.append("interrupted")
            raise KeyboardInterrupt
        sent.append(key)

    monkeypatch.setattr(widget, "send_state", send)
    with pytest.raises(KeyboardInterrupt):
        click(widget, {"direction": "LR", "count": 1})
    click(widget, {"direction": "LR", "count": 2})
    assert "picture" in sent
    assert unpacked(widget.picture)["direction"] == "LR"

"""The data that a drawing of a saved notebook holds for a reader without a kernel, and how many bytes they take."""

import base64
import re
import statistics
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from nbgrad.widgets import notebook_output, saved_script
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.apply import asked
from nbgrad.widgets.pipeline import UNFOLDABLE, lay_out, unfoldable
from nbgrad.widgets.render.html_page import saved_page_script
from nbgrad.widgets.render.svg import HELD, holding, svg
from nbgrad.widgets.render.wire_format import packed
from tests.widgets import networks
from tools.unpacking import unpacked

NETWORKS: list[Callable[[], Description]] = [
    *[partial(networks.mlp, linears) for linears in (2, 3, 5, 8, 12)],
    *[partial(networks.gpt, blocks) for blocks in (1, 2, 4, 12)],
    *(networks.cnn, networks.resnet18, networks.lstm, networks.lstm_layer, networks.encoder),
    *(networks.scan, networks.recurrent, networks.descent),
]


def saved(graph: Any) -> tuple[dict[str, str], str]:
    """The first output of a graph as a notebook saves it, and what its drawing holds."""
    outline = Outline.of(graph)
    folding, limit = asked(outline, None, None)
    picture = lay_out(outline, limit=limit, folding=folding)
    still = notebook_output._without_png(outline, picture, notebook_output._LISTED)
    output = notebook_output._saved(outline, picture, folding, still)
    found = re.search(rf'<metadata class="{HELD}">([^<]*)</metadata></svg>', output["image/svg+xml"])
    if found is None:
        assert output["image/svg+xml"] == svg(picture)
        return output, ""
    assert output["image/svg+xml"].replace(found[0], "</svg>") == svg(picture)
    return output, found[1]


@pytest.mark.rotated(8)
def test_fifty_pictures_take_less_than_5_megabytes() -> None:
    outputs = [saved(network()) for network in NETWORKS]
    assert len(outputs) == 17
    held = [len(data) for _, data in outputs]
    assert statistics.median(held) <= 60_000
    assert sum(size == 0 for size in held) <= 1, "almost every drawing can be made live"
    average = statistics.mean(sum(map(len, output.values())) for output, _ in outputs)
    scripts = ceil(50 / saved_script._EVERY) * len(saved_page_script())
    assert 50 * average + scripts < 5_000_000


def test_a_drawing_holds_what_it_folds() -> None:
    graph = networks.gpt(2)
    output, data = saved(graph)
    picture = unpacked(base64.b64decode(data))
    first = picture["first"]
    assert first is not None
    assert len(first["description"]["nodes"]) < 20
    assert len(picture["description"]["nodes"]) >= len(graph["nodes"])
    assert picture["folded"]
    assert picture["turned"] is None
    assert not any(look["levels"] for look in looks(picture)), "the maps are left out"
    assert any(look["facts"] for look in looks(picture))
    assert "nbgrad-picture" not in output["text/plain"]


def looks(picture: Any) -> list[Any]:
    nodes = picture["description"]["nodes"]
    return [node[side] for node in nodes for side in ("value", "gradient") if node[side] is not None]


def test_more_than_can_be_laid_out_at_once_stays_folded() -> None:
    outline = Outline.of(networks.gpt(12))
    folding, limit = asked(outline, None, None)
    picture = lay_out(outline, limit=limit, folding=folding)
    held = unfoldable(outline, picture, folding)
    assert len(picture["description"]["nodes"]) < len(held["description"]["nodes"]) <= UNFOLDABLE
    assert held["first"] == {**picture, "turned": None}


def test_what_is_not_folded_is_held_once() -> None:
    outline = Outline.of(networks.mlp(3))
    picture = lay_out(outline)
    held = unfoldable(outline, picture, None)
    assert held == {**picture, "turned": None, "large": held["large"]}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The outputs with the script of saved notebooks, in a kernel that has displayed nothing yet."""
    outputs: list[Any] = []
    monkeypatch.setattr(saved_script, "_since", saved_script._EVERY)
    monkeypatch.setattr(saved_script, "_cells", {})
    monkeypatch.setattr(saved_script, "display", lambda bundle, **_: outputs.append(bundle))
    return outputs


def running(monkeypatch: pytest.MonkeyPatch, cell: str, request: str) -> None:
    parent = {"metadata": {"cellId": cell}, "header": {"msg_id": request}}
    monkeypatch.setattr(saved_script, "get_ipython", type("Shell", (), {"get_parent": lambda _: parent}))


def test_one_picture_among_many_has_the_script(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(saved_script._EVERY):
        running(monkeypatch, f"cell {at}", f"request {at}")
        saved_script.displayed()
    assert [list(output) for output in shown] == [["text/html"]]
    running(monkeypatch, "cell 5", "a later one")
    saved_script.displayed()
    assert len(shown) == 2


def test_a_cell_that_runs_again_has_its_script_again(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for request in ("first", "first", "second"):
        running(monkeypatch, "a", request)
        saved_script.displayed()
        running(monkeypatch, "b", request)
        saved_script.displayed()
    assert len(shown) == 2


def test_the_script_can_be_left_out(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRAD_SCRIPT", "0")
    saved_script.displayed()
    assert shown == []
    assert saved(networks.mlp(3))[1] == ""


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [True, False])
def test_a_wide_picture_is_as_wide_as_the_page_that_nbconvert_writes_and_as_the_paper(
    browser: Browser, scripts: bool, tmp_path: Path
) -> None:
    outline = Outline.of(networks.mlp(8))
    picture = lay_out(outline, direction="LR")
    drawing = holding(svg(picture), packed(picture, 9, maps=False))
    shown = f'<img src="data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}">'
    page = tmp_path / "page.html"
    page.write_text(f'<!DOCTYPE html><div style="overflow:auto">{shown}</div>{saved_page_script()}', encoding="utf-8")
    context = browser.new_context(viewport={"width": 700, "height": 900}, java_script_enabled=scripts)
    tab = context.new_page()
    tab.goto(page.as_uri())
    seen = tab.locator(".nbgrad-saved [data-testid=nbgrad-view]" if scripts else "img")
    expect(seen).to_be_visible()
    for media in ("screen", "print"):
        tab.emulate_media(media=media)
        box = seen.bounding_box()
        assert box is not None
        assert picture["layout"]["width"] > 700 > box["x"] + box["width"]
    if scripts:  # on paper the loss, at the right end, is in sight
        last = tab.locator("[data-testid=nbgrad-node].nbg-root").bounding_box()
        assert last is not None
        assert last["x"] + last["width"] < 700
    context.close()


@pytest.mark.browser
def test_a_drawing_waits_for_the_live_view_that_the_host_loads(browser: Browser, tmp_path: Path) -> None:
    picture = lay_out(Outline.of(networks.mlp(3)))
    drawing = holding(svg(picture), packed(picture, 9, maps=False))
    image = f'<img src="data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}">'
    output = '<div class="jp-OutputArea-child">{}</div>'
    outputs = [image, '<b id="view">Loading widget...</b>', image, "Error displaying widget: model not found"]
    page = tmp_path / "page.html"
    content = "".join(map(output.format, outputs))
    page.write_text(f"<!DOCTYPE html>{content}{saved_page_script()}", encoding="utf-8")
    tab = browser.new_page()
    tab.goto(page.as_uri())
    live = tab.locator(".nbgrad-saved")
    expect(live).to_have_count(1)  # no kernel knows the second one
    tab.evaluate("view.textContent = ''")  # the host has loaded it, and its script has not
    tab.wait_for_timeout(500)
    expect(live).to_have_count(1)
    tab.evaluate("document.images[0].parentElement.style.display = 'none'")  # as the live view does
    tab.evaluate("view.textContent = 'the view'")
    tab.wait_for_timeout(500)
    expect(live).to_have_count(1)
    tab.evaluate("document.images[0].parentElement.style.display = ''")  # its kernel has ended, and the view is gone
    expect(live).to_have_count(2)
    tab.close()

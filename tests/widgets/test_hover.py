"""A box under the pointer: the card that says what it is, and its line in the cell. Lines of code in the search."""

from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad.widgets.describe import describe
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from tests.widgets import graphs
from tests.widgets.collisions import COLLISIONS
from tests.widgets.networks import NETWORKS

CELL = """() => {
    const view = document.querySelector(".nbgrad");
    const [cell, area] = [document.createElement("div"), document.createElement("div")];
    cell.className = "jp-CodeCell"; area.className = "jp-InputArea";
    area.append(...Array.from({ length: 400 }, (_, at) => {
        const line = document.createElement("div");
        line.className = "cm-line"; line.textContent = `line ${at + 1}`;
        return line;
    }));
    view.replaceWith(cell);
    cell.append(view, area);
}"""
"""The view stands in a cell of JupyterLab, here above the code of the cell."""

MARKED = "() => [...(CSS.highlights.get('nbgrad-line') ?? [])].map(String)"


def two_lines() -> Any:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("two lines") as graph:
        y = x * 2
        loss = (y.exp() + 1).sum()
        loss.backward()
    return describe(graph)


def node(tab: Page, name: str) -> Any:
    return tab.locator(f"[data-testid=nbgrad-node][aria-label^='{name}']").first


def test_each_op_has_its_line() -> None:
    lines = {one["label"][0]: one["line"] for one in two_lines()["nodes"]}
    assert lines["exp"] == lines["y = mul"] + 1
    assert lines["x"] == 0, "no op made it"


@pytest.mark.browser
def test_the_line_stands_beside_the_name_and_is_marked_in_the_cell(opened: Any) -> None:
    described = two_lines()
    line = next(one["line"] for one in described["nodes"] if one["label"][0] == "exp")
    tab = opened(page(lay_out(described), "lines"), size=(1171, 631))
    expect(node(tab, "exp").locator(".nbg-at")).to_have_text(f"line {line}")
    assert tab.evaluate(COLLISIONS) == []
    node(tab, "exp").hover()
    assert tab.evaluate(MARKED) == [], "here is no cell"
    tab.evaluate(CELL)
    node(tab, "y = mul").hover()
    assert tab.evaluate(MARKED) == [f"line {line - 1}"]
    tab.locator(".cm-line").nth(line - 1).hover()
    assert tab.evaluate(MARKED) == []
    names = tab.locator(".nbg-of-line .nbg-head").all_text_contents()
    assert sorted(names) == ["add+ 1", "exp", "loss = sum"]
    tab.locator(".cm-line").first.hover()
    expect(tab.locator(".nbg-of-line")).to_have_count(0)


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1171, 631), (790, 480), (390, 700)])
def test_a_card_says_what_is_folded_and_stays_inside(opened: Any, size: tuple[int, int]) -> None:
    tab = opened(page(lay_out(NETWORKS["encoder of 4 layers"]()), "card"), size=size)
    card, stage = tab.get_by_test_id("nbgrad-hover-card"), tab.locator(".nbg-body").bounding_box()
    tab.get_by_test_id("nbgrad-fit").click()
    for box in tab.locator(".nbg-folded").all():
        box.hover()
        expect(card).to_be_visible()
        expect(card).to_contain_text("folded module")
        expect(card).to_contain_text("Ops: ")
        expect(card).to_contain_text("parameters (")
        expect(card).to_contain_text("→ (2, 5, 8)")
        expect(card).to_contain_text("gradient norms of")
        place = card.bounding_box()
        assert place["x"] >= stage["x"]
        assert place["x"] + place["width"] <= stage["x"] + stage["width"]
        assert place["y"] >= stage["y"]
        tab.mouse.move(2, 2)
        expect(card).to_be_hidden()
    node(tab, "mean").hover()
    expect(card).to_contain_text("operation, the backward starts here")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("query", "found"),
    [("(8,)", 6), ("norm1.weight", 1), ("TransformerEncoderLayer", 8), ("layers.3", 1), ("gelu relu", 0)],
)
def test_a_search_finds_shapes_parameters_and_modules(opened: Any, query: str, found: int) -> None:
    tab = opened(page(lay_out(NETWORKS["encoder of 4 layers"]()), "search"))
    tab.get_by_test_id("nbgrad-search").fill(query)
    assert (tab.locator(".nbg-match").count() >= found) if found else tab.locator(".nbg-match").count() == 0


@pytest.mark.browser
def test_arrow_keys_go_through_the_hits_of_a_line(opened: Any) -> None:
    described = two_lines()
    line = next(one["line"] for one in described["nodes"] if one["label"][0] == "exp")
    tab = opened(page(lay_out(described), "hits"))
    tab.keyboard.press("Tab")
    tab.keyboard.press("/")
    search, title = tab.get_by_test_id("nbgrad-search"), tab.get_by_test_id("nbgrad-details").locator("h3")
    expect(search).to_be_focused()
    search.fill(f"line {line}")
    titles = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        tab.keyboard.press(key)
        titles.append(title.inner_text())
        expect(search).to_be_focused()
    first, second, third, again, back = titles
    assert len({first, second, third}) == 3
    assert (again, back) == (first, third)
    expect(tab.get_by_test_id("nbgrad-found")).to_contain_text("3 of 3 boxes")


@pytest.mark.browser
def test_a_question_mark_lists_the_keys(opened: Any) -> None:
    tab = opened(page(whole(graphs.trained(1, 1)), "keys"))
    tab.keyboard.press("Tab")
    tab.keyboard.press("?")
    keys = tab.locator(".nbg-keys")
    expect(keys).to_contain_text("go from box to box")
    expect(keys).to_contain_text("go through the hits")
    tab.keyboard.press("Escape")
    expect(keys).to_be_hidden()


@pytest.mark.parametrize("change", ["add", "mul"])
@pytest.mark.parametrize("lib", [torch, nbgrad])
def test_the_gradient_before_a_change_of_a_view_is_known_or_the_box_says_why_not(lib: Any, change: str) -> None:
    described, line = changed_einsum(lib, change)
    nodes = {one["op"]: one for one in described["nodes"]}
    edge = next(one for one in described["edges"] if one["target"] == nodes[f"{change}_"]["id"] and one["input"] == "a")
    why = [one["text"] for one in nodes["einsum"]["details"] if one["term"] == "gradient"]
    assert (nodes["einsum"]["rule"] is None) == (lib is torch)
    if lib is nbgrad:
        assert why == []
        assert str(edge["gradient"]).startswith("(3, 5), norm ")
        return
    assert why == [
        f"not known: the result is a view, and line {line} changed it in place. "
        "torch's backward passes the gradient on to the tensor below the view"
    ]
    assert edge["gradient"] == "not known: torch passes it on below a view", "some comes, so it is not 'no gradient'"
    assert f"gradient {why[0]}".replace("'", "&#x27;") in svg(lay_out(described)).replace("'", "&#x27;")


def changed_einsum(lib: Any, change: str) -> tuple[Any, int]:
    """The graph of a result of einsum that is changed in place, and the line of the change."""
    torch.manual_seed(0)
    numbers = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)
    a, w, b = (lib.tensor(one.tolist(), requires_grad=True) for one in numbers)
    with nbgrad.AutogradGraph("changed") as graph:
        y = lib.einsum("ij,jk->ik", a, w)
        getattr(y, f"{change}_")(b)
        (y * 2).sum().backward()
    return describe(graph), next(one.line for one in graph.records if one.op and one.op.name == f"{change}_") or 0


@pytest.mark.browser
def test_the_card_says_why_a_gradient_is_not_known(opened: Any) -> None:
    described, line = changed_einsum(torch, "add")
    tab = opened(page(lay_out(described), "changed"), size=(1171, 631))
    node(tab, "einsum").hover()
    expect(tab.get_by_test_id("nbgrad-hover-card")).to_contain_text(f"line {line} changed it in place")

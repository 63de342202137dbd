"""Links into an exported page, and the names of tensors in the user's code, to be copied."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.pipeline import whole
from nbgrad.widgets.render.html_page import page
from tests.widgets.test_overlays import recorded


def codes(graph: AutogradGraph) -> dict[str, str]:
    """The names of the tensors in the code, by the names and shapes of their boxes."""
    return {
        " ".join(node["label"][:2]): row["text"]
        for node in describe(graph)["nodes"]
        for row in node["details"]
        if row.get("role") == "code"
    }


def test_a_parameter_is_named_from_the_variable_that_holds_its_network() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 2)))
    x = nbgrad.tensor(torch.randn(5, 3))
    with AutogradGraph("net") as graph:
        loss = net(x).mean()
        loss.backward()
    found = codes(graph)
    assert found == {
        "x (5, 3)": "x", "weight (4, 3)": "net[0].weight", "bias (4,)": "net[0].bias",
        "weight (2, 4)": "net[1][0].weight", "bias (2,)": "net[1][0].bias", "loss = mean ()": "loss",
    }  # fmt: skip
    for shown, code in found.items():
        assert str(tuple(eval(code).shape)) in shown, "it is code"


def test_modules_of_torch_and_names_that_are_no_python() -> None:
    model = torch.nn.Sequential()
    model.add_module("an odd name", torch.nn.Linear(3, 1, bias=False))
    with AutogradGraph("torch") as graph:
        model(torch.randn(2, 3)).sum().backward()
    (code,) = codes(graph).values()
    assert code == "model.get_submodule('an odd name').weight"
    assert eval(code) is model[0].weight


class Unhashable:
    """Has parameters like a module, but cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]
    named_parameters = dict


def test_what_only_looks_like_a_module_harms_nothing() -> None:
    odd, w = Unhashable(), nbgrad.tensor([1.0], requires_grad=True)
    with AutogradGraph("odd") as graph:
        (w * 2).sum().backward()
    assert codes(graph) == {"w (1,)": "w"}
    assert odd is not None


def test_without_a_variable_the_path_in_the_network_stands() -> None:
    def run(graph: AutogradGraph, holder: Iterator[nn.Module]) -> None:
        with graph:
            next(holder)(nbgrad.ones(2, 3)).sum().backward()

    graph, nets = AutogradGraph("net"), {nn.Sequential(nn.Linear(3, 1, bias=False))}
    run(graph, iter(nets))
    assert codes(graph) == {"weight (1, 3)": "0.weight"}


def steps_and_modules() -> Description:
    net, graph, _, _ = recorded()
    described = describe(graph)
    assert net.training, "it is still there"
    return described


def node(tab: Page, name: str) -> Any:
    return tab.locator(f'[data-testid=nbgrad-node][aria-label^="{name}"]')


@pytest.fixture
def linked(opened: Any, tmp_path: Path) -> Any:
    """Opens the page of a small network with a hash behind its address."""

    def visit(behind: str) -> Page:
        tab: Page = opened(page(whole(steps_and_modules()), "net"))
        tab.goto("about:blank")
        tab.goto(f"{(tmp_path / 'page.html').as_uri()}{behind}")
        tab.get_by_test_id("nbgrad-node").first.wait_for(state="attached")
        return tab

    return visit


@pytest.mark.browser
def test_the_address_follows_what_is_chosen_folded_and_stepped_to(linked: Any) -> None:
    tab = linked("")
    assert "#" not in tab.url
    pages = tab.evaluate("history.length")
    node(tab, "tanh").click()
    chosen = node(tab, "tanh").get_attribute("data-node-id")
    assert tab.url.endswith(f"#node={chosen}")
    tab.keyboard.press("Escape")
    assert "#" not in tab.url
    tab.get_by_test_id("nbgrad-steps").click()
    tab.get_by_test_id("nbgrad-next").click()
    assert tab.url.endswith("#step=2")
    tab.keyboard.press("Escape")
    tab.locator('[data-testid=nbgrad-scope][aria-label*="rest"]').dblclick()
    assert tab.url.endswith("#folded=s2")
    assert tab.evaluate("history.length") == pages, "no click makes a page to go back to"


@pytest.mark.browser
def test_a_link_leads_to_its_node_step_and_folding(linked: Any) -> None:
    described = steps_and_modules()
    tanh = next(one["id"] for one in described["nodes"] if one["op"] == "tanh")
    tab = linked(f"#node={tanh}&step=3")
    expect(tab.locator(".nbg-chosen")).to_have_attribute("data-node-id", tanh)
    expect(tab.get_by_test_id("nbgrad-details")).to_contain_text("tanh")
    expect(tab.get_by_test_id("nbgrad-step")).to_have_value("3")
    assert tab.url.endswith(f"#node={tanh}&step=3")
    tab.evaluate("location.hash = '#node=f-s2&folded=s2'")
    expect(tab.locator(".nbg-folded.nbg-chosen")).to_have_count(1)
    expect(tab.get_by_test_id("nbgrad-player")).to_be_hidden()
    tab.evaluate(f"location.hash = '#node={tanh}&folded=s2'")
    expect(tab.locator(".nbg-chosen")).to_have_attribute("data-node-id", tanh)


@pytest.mark.browser
@pytest.mark.parametrize("behind", ["#node=n999", "#node=%3Cscript%3E&step=-1", "#node=n999&step=1e9&folded=s77,,s1"])
def test_a_link_to_what_is_not_there_says_so(linked: Any, behind: str) -> None:
    tab = linked(behind)
    expect(tab.locator(".nbg-status[role=status]")).to_contain_text("which is not in this picture")
    expect(tab.locator(".nbg-chosen")).to_have_count(0)


@pytest.mark.browser
def test_a_hash_of_another_kind_is_left_alone(linked: Any) -> None:
    tab = linked("#section-2")
    expect(tab.locator(".nbg-status[role=status]")).not_to_contain_text("link")
    assert tab.url.endswith("#section-2")


COPIED = (
    "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => void (window.copied = text)}})"
)
REFUSED = """Object.defineProperty(navigator, 'clipboard', {value: undefined});
document.execCommand = () => {
    const { value, selectionStart, selectionEnd } = document.activeElement;
    window.copied = value.slice(selectionStart, selectionEnd);
    return %s;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("clipboard", [COPIED, REFUSED % "true", REFUSED % "false"])
def test_a_name_and_a_link_are_copied(linked: Any, clipboard: str) -> None:
    tab = linked("")
    tab.evaluate(f"{clipboard}; 1")
    node(tab, "weight, (2, 4)").click()
    tab.get_by_role("button", name="Copy net.rest[1].weight").click()
    told = tab.locator(".nbg-status[role=status]")
    expect(told).to_contain_text("net.rest[1].weight")
    assert tab.evaluate("copied") == "net.rest[1].weight"
    refused = clipboard.endswith("false;\n}")
    expect(told).to_contain_text("Copy it from here" if refused else "Copied net.rest[1].weight.")
    tab.get_by_test_id("nbgrad-copy-link").click()
    expect(told).to_contain_text(tab.url if refused else "Copied the link.")
    assert tab.evaluate("copied") == tab.url
    assert "#node=" in tab.url
    assert tab.evaluate("document.activeElement.dataset.testid") == "nbgrad-copy-link", "the focus stays"


@pytest.mark.browser
def test_only_the_one_picture_of_a_page_has_links(opened: Any) -> None:
    from nbgrad.widgets.render.html_page import fragment, runtime

    picture = whole(steps_and_modules())
    tab = opened(f"<meta charset=utf-8><body>{fragment(picture)}{fragment(picture)}{runtime()}")
    expect(tab.get_by_test_id("nbgrad-copy-link")).to_have_count(0)
    node(tab, "tanh").first.click()
    assert "#" not in tab.url

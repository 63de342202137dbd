"""The ranked list: each parameter and op of a graph with its numbers, by which the table sorts them."""

import re
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

import nbgrad
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description import ranking as module
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Ranking, RankingColumn
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding
from nbgrad.widgets.pipeline import drawable, lay_out, whole
from nbgrad.widgets.render.html_page import page
from tests.lab.harness import screenshot
from tests.widgets.test_html_page import notebook
from tests.widgets.test_navigation import sent


class Part(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear2(self.linear1(x).relu())


class Model(torch.nn.Module):
    def __init__(self, parts: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Part(8) for _ in range(parts)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for one in self.layers:
            x = one(x)
        return x


def trained(engine: str = "torch", parts: int = 3, *, time: bool = True) -> TimedGraph:
    """Two steps of a model whose second part has the smallest gradients."""
    torch.manual_seed(0)
    net: Any = Model(parts)
    x: Any = torch.randn(16, 8)
    if engine == "nbgrad":
        net, x = nbgrad.from_torch(net), nbgrad.tensor(x)
    optimizer: Any = (torch if engine == "torch" else nbgrad).optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.record(view="none", time=time) as graph:
        for _ in range(2):
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
    return graph  # type: ignore[return-value]


def column(ranking: Ranking, key: str) -> RankingColumn:
    return next(one for one in ranking["columns"] if one["key"] == key)


@pytest.mark.parametrize("engine", ["torch", "nbgrad"])
def test_each_parameter_and_op_has_its_numbers_and_its_whole_name(engine: str) -> None:
    graph = trained(engine)
    described = describe(graph)
    ranking = described["ranking"]
    names = [one["name"] for one in ranking["rows"]]
    parameters = [one["name"] for one in ranking["rows"] if one["kind"] == "parameter"]
    expected = [f"layers.{at}.linear{n}.{which}" for at in range(3) for n in (1, 2) for which in ("weight", "bias")]
    assert sorted(parameters) == sorted(expected)
    assert "layers.1.linear1: linear" in names
    assert [one["key"] for one in ranking["columns"]] == [
        *("gradient", "update", "size", "time", "forward", "backward", "saved")
    ]
    records = {record.id: record for record in graph.records}
    nodes = {one["id"]: one for one in described["nodes"]}
    assert {one["node"] for one in ranking["rows"]} <= nodes.keys()
    gradients = column(ranking, "gradient")
    norms = [records[key].gradient.norm for key in _ids(graph, ranking)]
    assert [norms[at] for at in gradients["order"]] == sorted(norms, reverse=True)
    smallest = min(
        (one for one in records.values() if one.kind == "parameter"), key=lambda record: record.gradient.norm
    )
    last = next(at for at in reversed(gradients["order"]) if ranking["rows"][at]["kind"] == "parameter")
    assert names[last] == smallest.full_name
    assert gradients["cells"][last] == f"norm {smallest.gradient.norm:.4g}"
    weight = names.index("layers.0.linear1.weight")
    assert column(ranking, "size")["cells"][weight] == "128"
    assert column(ranking, "saved")["cells"][weight] == ""
    assert re.fullmatch(r"[\d.]+ .?s", column(ranking, "time")["cells"][names.index("layers.1.linear1: linear")])
    assert column(ranking, "update")["cells"][weight]
    assert weight in column(ranking, "update")["order"]


def _ids(graph: nbgrad.AutogradGraph, ranking: Ranking) -> list[int]:
    """The id of the record of each row."""
    records = [record.id for record in graph.records]
    return [records[int(one["node"].removeprefix("n"))] for one in ranking["rows"]]


def test_a_column_without_a_number_is_left_out() -> None:
    with nbgrad.record(view="none") as graph:
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
    assert [one["key"] for one in describe(graph)["ranking"]["columns"]] == ["gradient", "size"]


def test_a_norm_that_is_not_a_number_is_the_largest() -> None:
    with nbgrad.record(view="none") as graph:
        x = torch.tensor([0.0], requires_grad=True)
        w = torch.tensor([5.0], requires_grad=True)
        ((x / x) * 1.0 + w).sum().backward()
    ranking = describe(graph)["ranking"]
    gradients = column(ranking, "gradient")
    assert gradients["cells"][gradients["order"][0]] == "norm nan"


def test_gradients_that_are_asked_for_cannot_be_ranked() -> None:
    with nbgrad.record(view="none", ask="w") as graph:
        w = torch.ones(2, requires_grad=True)
        (w * 2).sum().backward()
    assert [one["key"] for one in describe(graph)["ranking"]["columns"]] == ["size"]


def test_the_ops_of_a_loop_have_the_number_of_the_iteration() -> None:
    w = torch.ones(2, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        y = w
        for _ in range(70):
            y = y * 2.0
        y.sum().backward()
    names = [one["name"] for one in describe(graph)["ranking"]["rows"]]
    assert "mul, iteration 41" in names
    assert len(set(names)) >= 70


def test_a_long_list_has_the_ends_of_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 14)
    ranking = describe(trained())["ranking"]
    assert len(ranking["rows"]) <= 14
    assert ranking["note"].startswith("Of ")
    gradients = column(ranking, "gradient")["order"]
    assert sorted(gradients) == sorted(set(gradients))
    assert max(gradients) < len(ranking["rows"])


def test_a_hostile_name_is_shortened() -> None:
    w = torch.ones(2, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        (w * 2).sum().backward()
        graph.name_variables({"w" * 500: w})
    assert all(len(one["name"]) <= 120 for one in drawable(describe(graph), NODES)["ranking"]["rows"])


# In the browser.


def table(tab: Page) -> Locator:
    return tab.get_by_test_id("nbgrad-table")


def shown(tab: Page) -> list[str]:
    """The names in the table, from the top."""
    return table(tab).locator("tbody th").all_inner_texts()


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_the_table_is_sorted_by_a_click(opened: Any) -> None:
    graph = trained()
    described = describe(graph)
    tab = opened(page(lay_out(described, folding=Folding(frozenset({"s0"}))), "ranked"))
    assert tab.locator(".nbg-folded").count() == 1
    tab.get_by_test_id("nbgrad-as-table").click()
    rows = table(tab).get_by_role("row")
    drawn = tab.get_by_test_id("nbgrad-node").count()
    ranked = len(described["ranking"]["rows"])
    assert drawn < ranked < rows.count()
    tab.get_by_test_id("nbgrad-rows").select_option(label="parameters and leaves")
    assert len(shown(tab)) == 12
    expect(table(tab).get_by_role("columnheader", name="Forward", exact=True)).to_have_count(0)  # a parameter has none
    expect(table(tab).get_by_role("columnheader", name="Backward", exact=True)).to_be_visible()
    head = tab.get_by_test_id("nbgrad-sort-gradient")
    norms = {one.full_name: one.gradient.norm for one in graph.records if one.kind == "parameter"}
    largest = sorted(norms, key=lambda name: -norms[name])
    head.click()
    assert shown(tab) == largest
    expect(table(tab).locator("[aria-sort=descending]")).to_have_text("Gradient ▼")
    screenshot(tab, "view_ranked")
    head.click()
    assert shown(tab) == largest[::-1]
    head.click()
    expect(table(tab).locator("[aria-sort=descending], [aria-sort=ascending]")).to_have_count(0)
    tab.get_by_test_id("nbgrad-rows").select_option(label="operations")
    expect(table(tab).get_by_role("columnheader", name="Forward", exact=True)).to_be_visible()
    tab.get_by_test_id("nbgrad-sort-time").click()
    assert shown(tab)[0].startswith(slowest_op(graph))
    expect(tab.get_by_test_id("nbgrad-sort-update")).to_be_hidden()  # no op has one
    tab.get_by_test_id("nbgrad-rows").select_option(label="all rows")
    for key in ("update", "size", "saved"):
        expect(tab.get_by_test_id(f"nbgrad-sort-{key}")).to_be_visible()


def slowest_op(graph: TimedGraph) -> str:
    ops = [row for row in graph.slowest() if row.op not in ("parameter", "leaf")]
    title = f"{ops[0].name} = {ops[0].op}" if ops[0].name else ops[0].op
    return ": ".join(filter(None, [ops[0].module, title]))


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_row_leads_to_its_box_in_folded_modules(opened: Any) -> None:
    """The page unfolds one module after the other on the way."""
    tab = opened(page(whole(describe(trained(parts=12))), "unfolding"))
    expect(tab.locator(".nbg-folded")).to_contain_text("Part × 11")
    tab.get_by_test_id("nbgrad-as-table").click()
    table(tab).get_by_role("button", name="layers.7.linear1.weight").click()
    expect(table(tab)).to_be_hidden()
    expect(tab.get_by_test_id("nbgrad-details").locator("h3")).to_have_text("weight")
    chosen = tab.locator(".nbg-chosen")
    expect(chosen).to_be_in_viewport()
    tab.get_by_test_id("nbgrad-return").click()  # back to where the reader was
    expect(tab.get_by_test_id("nbgrad-details")).to_be_hidden()


@pytest.mark.browser
@pytest.mark.rotated(4)
def test_a_row_leads_to_its_box_with_a_kernel(opened: Any) -> None:
    """The kernel is asked for one picture after the other, until the box is drawn."""
    outline = Outline.of(describe(trained(parts=12)))
    folding = first_folding(outline, NODES)
    tab = opened(notebook(lay_out(outline, folding=folding)))
    tab.get_by_test_id("nbgrad-as-table").click()
    table(tab).get_by_role("button", name="layers.7.linear1.weight").click()
    answered = 0
    heading = tab.get_by_test_id("nbgrad-details").locator("h3")
    while heading.count() == 0:
        asked = tab.evaluate("window.asked")
        assert answered < len(asked) < 6
        answered = len(asked)
        folding = folding.toggled(outline, asked[-1]["toggle"], NODES)
        tab.evaluate("picture => window.assign(picture)", sent(lay_out(outline, folding=folding)))
        tab.wait_for_function(f"window.asked.length > {answered} || document.querySelector('.nbg-panel h3')")
    assert answered >= 1
    expect(heading).to_have_text("weight")
    node = tab.locator(".nbg-chosen").get_attribute("data-node-id")
    row = next(one for one in outline.description["ranking"]["rows"] if one["name"] == "layers.7.linear1.weight")
    assert node == row["node"]

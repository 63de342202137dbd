"""The folding of the first picture of a graph: nothing of a small one, of a larger one enough to see it at once."""

from collections.abc import Callable
from itertools import combinations, pairwise
from math import dist
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.outline import LOOK, Outline
from nbgrad.widgets.description.schema import Description, Edge, Node
from nbgrad.widgets.description.stage import STAGE, Stage
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding, folded_below, homes, necessary
from nbgrad.widgets.folding.size import extent
from nbgrad.widgets.pipeline import WHOLE, drawable, lay_out, whole
from tests.widgets import graphs


def trained(net: Callable[[nbgrad.Tensor], nbgrad.Tensor], *shape: int, tokens: bool = False) -> Description:
    """The graph of one backward. All runs of it have the same numbers."""
    torch.manual_seed(0)
    x = nbgrad.tensor(torch.randint(0, 9, shape) if tokens else torch.randn(shape))
    with nbgrad.AutogradGraph("net") as graph:
        (net(x) ** 2).mean().backward()
        return describe(graph)


def mlp(depth: int) -> Description:
    """Linear layers of different widths, so that nothing is repeated."""
    layers = [layer for at in range(depth) for layer in (nn.Linear(40 - at, 39 - at), nn.ReLU())]
    return trained(nn.Sequential(*layers), 2, 40)


def encoder(layers: int, *, dropout: float = 0.0, embedded: bool = True, bad: int | None = None) -> Description:
    """A transformer. One weight of the layer ``bad`` is NaN."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True)
    net = nn.TransformerEncoder(layer, layers)
    if bad is not None:
        net.layers[bad].linear1.weight.data[0, 0] = float("nan")
    if not embedded:
        return trained(net, 2, 3, 8)
    return trained(nn.Sequential(nn.Embedding(9, 8), net, nn.Linear(8, 9)), 2, 3, tokens=True)


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, taken: int, made: int) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(taken, made, 3, padding=1), nn.Conv2d(made, made, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(made), nn.BatchNorm2d(made)])
        self.around = nn.Conv2d(taken, made, 1) if taken != made else nn.Identity()

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        h = self.norms[1](self.other(self.norms[0](self.one(x)).relu()))
        return (h + self.around(x)).relu()


def resnet(*blocks: int) -> Description:
    """Groups of so many blocks, each group twice as wide."""
    layers: list[nn.Module] = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    width = 4
    for group, many in enumerate(blocks):
        wide = 4 * 2**group
        layers.append(nn.Sequential(*[Residual(width if at == 0 else wide, wide) for at in range(many)]))
        width = wide
    return trained(nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * 16, 3)), 2, 1, 6, 6)


def by_hand(ops: int) -> Description:
    """A function without a module."""

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        w = nbgrad.tensor(torch.ones(3), requires_grad=True)
        for at in range(ops):
            x = x * w if uneven(at) else x.tanh()
        return x

    return trained(run, 2, 3)


def uneven(at: int) -> bool:
    """Which of two kinds of op comes here. No part of the sequence comes three times in a row, so no loop is folded."""
    return at.bit_count() % 2 == 1


def cells(steps: int, kind: Any = nn.RNNCell) -> Description:
    """A recurrent cell, unrolled."""
    cell = kind(3, 4)

    def run(xs: nbgrad.Tensor) -> nbgrad.Tensor:
        state: Any = None
        for x in xs:
            state = cell(x, state)
        return state[0] if isinstance(state, tuple) else state

    return trained(run, steps, 2, 3)


SMALL: dict[str, Callable[[], Description]] = {
    "mlp 2": lambda: mlp(2),
    "mlp 12": lambda: mlp(12),
    "vanishing": lambda: graphs.vanishing(12),  # that of a lesson
    "residual": lambda: graphs.trained(1, 4),
    "resnet": lambda: resnet(1, 1),
    "encoder": lambda: encoder(1),
    "rnn": lambda: cells(8),
    "lstm": lambda: cells(8, nn.LSTMCell),
    "by hand": lambda: by_hand(50),
}
LARGE: dict[str, Callable[[], Description]] = {
    "encoder 2": lambda: encoder(2),
    "encoder 4": lambda: encoder(4),
    "encoder 12": lambda: encoder(12),
    "encoder with dropout": lambda: encoder(4, dropout=0.1),
    "encoder alone": lambda: encoder(4, embedded=False),
    "residual": lambda: graphs.trained(1, 12),
    "resnet 2, 2, 2": lambda: resnet(2, 2, 2),
    "resnet 3, 4, 3": lambda: resnet(3, 4, 3),
}
LONG: dict[str, Callable[[], Description]] = {
    "by hand": lambda: by_hand(200),
    "by hand, longer": lambda: by_hand(290),
}


def folded(description: Description) -> list[Node]:
    return [node for node in description["nodes"] if node["kind"] == "folded"]


@pytest.mark.parametrize("name", SMALL)
def test_of_a_small_graph_only_layers_and_loops_are_folded(name: str) -> None:
    described = SMALL[name]()
    assert len(described["nodes"]) <= LOOK
    drawn = drawable(described, NODES)
    assert {node["calls"] for node in folded(drawn)} <= {"layer", "iteration"}
    assert len(drawn["notes"]) == len(described["notes"]) + bool(folded(drawn))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LARGE)
def test_the_first_picture_of_a_large_graph_can_be_read(name: str) -> None:
    described = LARGE[name]()
    assert len(described["nodes"]) > LOOK
    picture = lay_out(described)
    drawn, layout = picture["description"], picture["layout"]
    assert STAGE.fits(layout), "all of it, with letters of nine pixels"
    assert sum(node["kind"] not in ("constant", "input") for node in drawn["nodes"]) >= 8, "something to see"
    hidden = len(described["nodes"]) - len(drawn["nodes"]) + len(folded(drawn))
    (note,) = drawn["notes"]
    assert f"holding {hidden} nodes." in note


@pytest.mark.parametrize("name", LONG)
def test_a_loop_that_takes_one_branch_or_another_is_one_box(name: str) -> None:
    described = LONG[name]()
    assert LOOK < len(described["nodes"]) <= NODES
    (box,) = folded(drawable(described, NODES))
    assert box["label"][0].endswith(", 2 kinds")


def test_identical_blocks_are_one_box() -> None:
    drawn = drawable(encoder(4), NODES)
    assert [node["label"][0] for node in folded(drawn)] == ["TransformerEncoderLayer × 4"]


def test_blocks_that_would_leave_nothing_to_see_are_one_box_but_for_the_first() -> None:
    drawn = drawable(graphs.trained(1, 40), NODES)
    assert "Block × 40" in [node["label"][0] for node in folded(drawn)], "there is something before and after them"
    torch.manual_seed(0)
    drawn = drawable(trained(nn.Sequential(*[Residual(2, 2) for _ in range(12)]), 2, 2, 4, 4), NODES)
    assert [node["label"][0] for node in folded(drawn)][-1] == "Residual × 11"
    (first,) = [scope["id"] for scope in drawn["scopes"] if scope["label"] == "0 (Residual)"]
    assert any(node["scope"] == first for node in drawn["nodes"])


def test_modules_are_folded_that_are_no_repetition() -> None:
    described = trained(nn.Sequential(*[Block(40 - at) for at in range(20)]), 2, 40)
    drawn = lay_out(described, on=Stage(790, 330))["description"]
    assert [node["label"][0] for node in folded(drawn)] == [f"{at} (Block)" for at in range(20)]


class Block(nn.Module):
    """Two layers. Each block has another width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width - 1)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return self.outer(self.inner(x).tanh()).tanh()


@pytest.mark.rotated(3)
def test_a_module_of_one_op_is_open() -> None:
    drawn = drawable(mlp(30), NODES, Folding())
    linears = [node for node in drawn["nodes"] if node["op"] == "linear"]
    assert [node["about"] for node in linears] == [f"· {2 * layer} (Linear)" for layer in range(30)]
    for box in folded(drawable(mlp(30), NODES)):
        assert box["calls"] != "module", "its box would hide its parameters, and be as large"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_how_large_a_picture_will_be_is_known_before(name: str, in_one_column: None) -> None:
    described = {**SMALL, **LARGE}[name]()
    for folding in (Folding(), first_folding(described, NODES)):
        layout = lay_out(described, limit=WHOLE, direction="TB", folding=folding)["layout"]
        hidden = homes(Outline.of(described), folding)
        size = extent(Outline.of(described), hidden)
        assert 85 <= layout["height"] / size.rows <= 210, "points a row"
        assert layout["width"] / size.columns <= 360 or not folding.closed, "points a column"


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_edges_from_one_module_to_another_run_beside_each_other(direction: Any, in_one_column: None) -> None:
    picture = lay_out(cells(8, Scaled), direction=direction)
    layout, edges = picture["layout"], picture["description"]["edges"]
    steps: list[Any] = list(layout["scopes"].values())
    along, size, across = ("y", "height", "width") if direction == "TB" else ("x", "width", "height")
    assert len(steps) == 8
    assert all(one[along] + one[size] <= other[along] for one, other in pairwise(steps))
    assert (layout["width"] if direction == "TB" else layout["height"]) < 4 * steps[0][across], "no staircase"
    assert list(layout["edges"]) == [edge["id"] for edge in edges]
    assert not layout["labels"], "the boxes say the shapes"
    pairs = [pair for pair in combinations(edges, 2) if ends(pair[0]) == ends(pair[1])]
    assert len(pairs) == 8, "hx and cx of each step"
    for one, other in pairs:
        (here, *_), (there, *_) = (layout["edges"][edge["id"]][0] for edge in (one, other))
        assert 10 < dist(here, there) < 20


class Scaled(nn.Module):
    """An LSTM cell on twice its input: the module runs two ops, so it has a frame."""

    def __init__(self, taken: int, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(taken, width)

    def forward(self, x: nbgrad.Tensor, state: Any) -> Any:
        return self.cell(x * 2.0, state)


def ends(edge: Edge) -> tuple[str, str]:
    return edge["source"], edge["target"]


def test_what_is_not_too_large_is_drawn_as_it_is(flat: Any) -> None:
    rows, columns = 8, 8
    described = flat(rows * columns)
    for at, node in enumerate(described["nodes"]):
        node["scope"] = None if at < rows else "s0"
    described["scopes"] = [graphs.frame("s0", "part", folds="ops")]
    described["edges"] = [edge for at, edge in enumerate(described["edges"]) if at % rows]  # chains, side by side
    size = extent(Outline.of(described), {})
    assert size.across == [columns] * rows
    assert size.over(STAGE) <= 1 < size.over(Stage(STAGE.width / 2, STAGE.height / 2))
    assert not folded(drawable(described, NODES))


@pytest.mark.parametrize("depth", [0, 1, 9])
def test_a_depth_that_was_asked_for_wins(depth: int) -> None:
    described = encoder(4)
    drawn = drawable(described, NODES, folded_below(described, depth))
    deep = {scope["id"] for scope in described["scopes"] if len(path(described, scope["id"])) == depth + 1}
    assert {scope for node in folded(drawn) for scope in node["holds"]} <= deep
    assert (len(drawn["nodes"]) == len(described["nodes"])) == (depth == 9)


def path(description: Description, scope: str | None) -> list[str]:
    return Tree(description).path(scope)


def labels(description: Description, scope: str | None) -> list[str]:
    found = {one["id"]: one["label"] for one in description["scopes"]}
    return [found[one] for one in path(description, scope)]


def test_a_reader_can_unfold_all_of_it() -> None:
    described = encoder(4)
    folding = first_folding(described, NODES)
    while boxes := folded(drawn := drawable(described, NODES, folding)):
        folding = folding.toggled(described, boxes[0]["holds"], NODES)
    assert len(drawn["nodes"]) == len(described["nodes"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("embedded", [True, False])
def test_what_a_problem_is_about_is_seen(bad: int, embedded: bool) -> None:
    described = encoder(4, bad=bad, embedded=embedded)
    about = {problem["node"] for problem in described["problems"]}
    drawn = drawable(described, NODES)
    assert about
    marked = {node["id"] for node in drawn["nodes"] if node["badges"]}
    assert about <= {node["id"] for node in drawn["nodes"]} or marked, "a few equal layers stay folded, with a mark"
    assert len(drawn["nodes"]) <= LOOK
    assert folded(drawn)


def test_of_many_problems_as_many_are_seen_as_leave_it_small() -> None:
    described = encoder(12)
    for node in described["nodes"]:
        if node["label"][0] == "relu":
            described["problems"].append({"kind": "warning", "text": "something", "node": node["id"]})
    drawn = drawable(described, NODES)
    assert sum(node["label"][0] == "relu" for node in drawn["nodes"]) > 1
    assert len(drawn["nodes"]) <= LOOK
    assert len({problem["node"] for problem in drawn["problems"]} & {node["id"] for node in folded(drawn)}) >= 1


def test_the_op_that_raised_is_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    net = nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoder(layer, 4))
    net[1].layers[2].linear2 = nn.Linear(17, 8)
    with nbgrad.AutogradGraph("net") as graph:
        with pytest.raises(RuntimeError) as raised:
            net(nbgrad.tensor(torch.ones(2, 3, 8)))
        described = graphs.ended(graph, raised.value)
    assert len(described["nodes"]) > LOOK
    drawn = drawable(described, NODES)
    assert [node["label"] for node in drawn["nodes"] if node["kind"] == "failed"] == [["linear", "raised RuntimeError"]]
    assert folded(drawn)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_modules_around_the_op_that_raised_open_by_themselves(depth: int) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(9, 8))))
    with pytest.raises(RuntimeError), nbgrad.AutogradGraph("net") as graph:
        net(nbgrad.tensor(torch.ones(2, 8)))
    described = describe(graph)
    labels = {scope["id"]: scope["label"] for scope in described["scopes"]}
    closed = folded_below(described, depth)
    assert closed is not None
    folded_modules = sorted(labels[scope] for scope in closed.closed)
    assert folded_modules == [*(["0 (Linear)"] if depth < 2 else []), "0 (Linear)", "0 (ReLU)"]
    drawn = drawable(described, NODES, closed)
    assert [node["label"][0] for node in drawn["nodes"] if node["kind"] == "failed"] == ["linear"]


def test_an_op_that_raised_in_a_backward_opens_its_modules_too() -> None:
    with nbgrad.AutogradGraph("net") as graph:
        h = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()))(nbgrad.ones(3, 2))
        loss = (h * 2).sum()
        h.detach().add_(1)
        with pytest.raises(RuntimeError) as raised:
            loss.backward()
    described = graphs.ended(graph, raised.value)
    drawn = drawable(described, NODES, folded_below(described, 0))
    assert [node["op"] for node in drawn["nodes"] if node["badges"]] == ["sigmoid"]


def test_an_op_that_raised_after_a_large_backward_is_drawn() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("chain") as graph:
        h = x
        for _ in range(400):
            h = h * 1.5
        h.sum().backward()
        with pytest.raises(RuntimeError) as raised:
            (x * 2) @ nbgrad.ones(3)
    drawn = drawable(graphs.ended(graph, raised.value), NODES)
    assert [node["label"][0] for node in drawn["nodes"] if node["kind"] == "failed"] == ["matmul"]
    assert any(node["root"] for node in drawn["nodes"])


def test_a_page_has_all_and_folds_what_the_first_picture_does() -> None:
    described = encoder(4)
    picture = whole(described)
    assert len(picture["description"]["nodes"]) == len(described["nodes"])
    assert set(picture["folded"]) == first_folding(described, NODES).closed != set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LARGE)
def test_what_holds_one_node_is_not_folded(name: str) -> None:
    described = LARGE[name]()
    around = [scope for node in described["nodes"] for scope in path(described, node["scope"])]
    assert all(around.count(scope) > 1 for scope in first_folding(described, NODES).closed)


@pytest.mark.parametrize("ops", [500, 2000])
def test_a_page_of_a_graph_that_is_too_large_has_as_much_as_it_can(stack: Any, ops: int) -> None:
    described = stack(ops)
    shown = len(drawable(described, WHOLE, necessary(described, WHOLE))["nodes"])
    if len(described["nodes"]) <= WHOLE:
        assert shown == len(described["nodes"])
    else:
        assert WHOLE / 3 < shown <= WHOLE


def test_what_a_module_makes_on_its_way_is_inside_of_it() -> None:
    described = encoder(2, dropout=0.1, embedded=False)
    around = {node["id"]: labels(described, node["scope"]) for node in described["nodes"]}
    dropped = {node["id"] for node in described["nodes"] if node["op"] == "dropout"}
    constants = {node["id"] for node in described["nodes"] if node["kind"] == "constant"}
    masks = [edge for edge in described["edges"] if edge["target"] in dropped and edge["source"] in constants]
    assert len(masks) == 8
    for edge in masks:
        layer = next(at for at in around[edge["target"]] if at.startswith("layers."))
        assert layer in around[edge["source"]]
    given = described["nodes"][0]
    assert (given["kind"], given["scope"]) == ("constant", None), "what its first op takes may have been given to it"


# Twin layers, and a network that is one module.


class Flat(nn.Module):
    """A layer that runs ``ops`` ops itself, and a linear layer."""

    def __init__(self, ops: int) -> None:
        super().__init__()
        self.linear, self.ops = nn.Linear(8, 8), ops

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        h = self.linear(x)
        for at in range(self.ops):
            h = h * 0.9 if uneven(at) else h.tanh()
        return x + h


def twins(layers: int, ops: int, *, bad: int | None) -> Description:
    net = nn.Sequential(nn.Embedding(9, 8), nn.Sequential(*[Flat(ops) for _ in range(layers)]), nn.Linear(8, 9))
    if bad is not None:
        net[1][bad].linear.weight.data[0, 0] = float("nan")
    return trained(net, 2, 3, tokens=True)


def of_kind(description: Description, kind: str) -> list[str]:
    return [scope["id"] for scope in description["scopes"] if scope["like"] == kind]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("layers", "ops", "opened"), [(2, 12, 2), (2, 40, 2), (2, 134, 2), (3, 134, 0), (12, 20, 1)])
@pytest.mark.parametrize("bad", [0, 1])
def test_twin_layers_fold_alike_where_one_has_a_finding(layers: int, ops: int, opened: int, bad: int) -> None:
    described = twins(layers, ops, bad=bad)
    about = {problem["node"] for problem in described["problems"]}
    assert about
    folding = first_folding(described, NODES)
    open_ones = [scope for scope in of_kind(described, "Flat") if not folding.closed & {*path(described, scope)}]
    assert len(open_ones) == opened
    drawn = drawable(described, NODES, folding)
    assert len(drawn["nodes"]) <= LOOK
    ids = {node["id"] for node in drawn["nodes"]}
    assert {problem["node"] for problem in drawn["problems"]} <= ids  # the mark is on the box that is drawn
    marked = {problem["node"] for problem in drawn["problems"]} & {node["id"] for node in folded(drawn)}
    assert bool(marked) == (opened == 0)
    assert (about <= ids) == (opened > 0)


def test_equal_parts_of_twin_layers_open_alike() -> None:
    described = encoder(2, bad=1)
    folding = first_folding(described, NODES)
    inner = [
        [scope["label"] for scope in described["scopes"] if layer in path(described, scope["id"])[:-1]]
        for layer in of_kind(described, "TransformerEncoderLayer")
    ]
    shut = [
        [scope["label"] for scope in inside if scope["id"] in folding.closed]
        for layer in of_kind(described, "TransformerEncoderLayer")
        if (inside := [one for one in described["scopes"] if layer in path(described, one["id"])[:-1]])
    ]
    assert inner[0] == inner[1]
    assert shut[0] == shut[1] != []


class Branches(nn.Module):
    """A block of GoogLeNet: four branches beside each other."""

    def __init__(self, taken: int, width: int) -> None:
        super().__init__()
        sizes = (width, width + 1, width + 2, width + 3)
        self.branches = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(taken, size, 1), nn.BatchNorm2d(size), nn.ReLU()) for size in sizes]
        )
        self.made = sum(sizes)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return nbgrad.cat([branch(x) for branch in self.branches], 1)


class GoogLeNet(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        taken = 4
        for at in range(blocks):
            block = Branches(taken, 2 + at)
            setattr(self, f"inception{at}", block)
            taken = block.made
        self.fc = nn.Linear(taken, 3)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.stem(x)
        for name, block in self.named_children():
            x = block(x) if name.startswith("inception") else x
        return self.fc(x.mean((2, 3)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("blocks", [3, 9, 20])
def test_a_network_that_is_one_module_is_opened_one_level(blocks: int) -> None:
    described = trained(GoogLeNet(blocks), 2, 1, 4, 4)
    (whole_network,) = of_kind(described, "GoogLeNet")
    folding = first_folding(described, NODES)
    assert whole_network not in folding.closed
    assert len(folded(drawable(described, NODES, folding))) > 1


@pytest.mark.rotated(3)
def test_a_network_that_is_one_module_is_not_one_box() -> None:
    net = nn.Sequential(*[nn.Linear(90 - at, 89 - at) for at in range(80)])

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = net(x)
        for _ in range(5):
            x = (x * 0.9).tanh()
        return x

    described = trained(run, 2, 90)
    for limit in (LOOK, NODES):
        folding = first_folding(described, limit)
        assert not set(of_kind(described, "Sequential")) & folding.closed
        assert len(drawable(described, limit, folding)["nodes"]) <= LOOK

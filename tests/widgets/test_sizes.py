"""The first picture of common networks is seen whole, with letters that can be read; and columns lose nothing."""

import re
from functools import partial
from itertools import pairwise
from math import atan2, dist, pi, remainder
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.widgets import pipeline
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.outline import LOOK, Outline
from nbgrad.widgets.description.schema import Description, Node, Picture
from nbgrad.widgets.description.stage import LETTERS, READ, STAGE, Stage
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.folding.apply import NODES, asked
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.layout.card import LINE_SIZE
from nbgrad.widgets.layout.columns import in_columns
from nbgrad.widgets.layout.curves import APART, beside
from nbgrad.widgets.layout.parts import LABEL_SIZE, MARK_SIZE, SCOPE_SIZE, PictureParts
from nbgrad.widgets.pipeline import drawable, lay_out, whole
from nbgrad.widgets.render.svg import _graph, svg
from nbgrad.widgets.render.wire_format import OTHERS, packed, sent
from nbgrad.widgets.view import GraphView
from tests.widgets import graphs
from tests.widgets.cells import source
from tests.widgets.networks import LOOPS, NETWORKS
from tests.widgets.test_positions import assert_sound
from tools.unpacking import unpacked


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_seen_whole_with_letters_of_nine_pixels(name: str) -> None:
    picture = lay_out(NETWORKS[name]())
    layout = picture["layout"]
    scale = min(1.25, 1171 / layout["width"], 447 / layout["height"])
    smallest = min(float(size) for size in re.findall(r'font-size="([\d.]+)"', "".join(_graph(picture))))
    assert smallest == LETTERS == min(LINE_SIZE, LABEL_SIZE, MARK_SIZE, SCOPE_SIZE)
    assert smallest * scale >= 9
    assert_sound(picture)
    told = picture["description"]["nodes"]
    assert sum(node["root"] for node in told) == 1, "the loss is in sight"
    assert any(node["kind"] in ("parameter", "folded") for node in told), "and so are parameters"


@pytest.mark.parametrize("on", [STAGE, Stage(790, 333), Stage(390, 400)])
def test_the_rows_of_a_folded_box_that_is_drawn_smaller_stay_in_front(on: Stage) -> None:
    written, names = source("siamese"), dict[str, Any]()
    exec(written.before, names)
    with nbgrad.record(view="none") as graph:
        exec(written.recorded, names)
    picture = lay_out(outline(graph), on=on)
    folded = [node["id"] for node in picture["description"]["nodes"] if node["kind"] == "folded"]
    assert {node["row"] for node in picture["description"]["nodes"]} & {*folded} & picture["layout"]["shrunk"].keys()
    assert_sound(picture)


def test_the_stage_is_that_of_a_notebook_on_a_laptop() -> None:
    assert (STAGE, READ) == ((1171, 447), 9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_page_shows_the_same_first_picture_as_a_notebook(name: str) -> None:
    described = NETWORKS[name]()
    notebook, alive = lay_out(described), whole(described)
    first = alive["first"]
    if first is None:
        assert notebook["layout"] == alive["layout"], "nothing is folded"
        return
    assert {**notebook, "turned": first["turned"]} == first
    assert len(first["description"]["nodes"]) < len(alive["description"]["nodes"])
    arrived = unpacked(packed(alive))
    for one in filter(None, (arrived, arrived["first"], arrived["large"])):
        for verdict in one["description"]["verdicts"]:
            del verdict["name"]  # type: ignore[misc]  # it is not sent: it follows from the scope, if that is drawn
    assert arrived == {**sent(alive), **_with_texts(alive)}


def _with_texts(picture: Picture) -> dict[str, Any]:
    """The layouts with the widths of their texts. These widths are not sent: the page measures them again."""
    kept: dict[str, Any] = {one: picture[one] for one in ("layout", "turned")}  # type: ignore[literal-required]  # both are there
    for name in OTHERS:
        other: Picture | None = picture[name]  # type: ignore[literal-required]
        if other is not None:
            kept[name] = {**sent(other), **_with_texts(other)}
    return kept


def node(description: Description, name: str) -> Node:
    return next(one for one in description["nodes"] if one["label"][0] == name)


def test_a_parameter_is_a_row_in_its_op_with_its_gradient_and_its_reduction() -> None:
    picture = lay_out(NETWORKS["MLP of 2"]())
    drawn, layout = picture["description"], picture["layout"]
    linear, bias = node(drawn, "linear"), node(drawn, "bias")
    assert (linear["about"], bias["row"]) == ("· 0 (Linear)", linear["id"])
    assert bias["rule"] is not None
    assert "norm" in bias["rule"]
    (edge,) = [one for one in drawn["edges"] if one["source"] == bias["id"]]
    assert layout["edges"][edge["id"]] == []
    assert edge["id"] in layout["marks"]
    assert "Σ (32, 48) -&gt; (48,): sum dim 0" in svg(picture)
    assert not layout["labels"], "each box says its shape"
    assert [scope["label"] for scope in drawn["scopes"] if scope["id"] in layout["scopes"]] == ["Sequential"]
    assert len([scope for scope in drawn["scopes"] if scope["op"]]) == 3


def test_what_tells_an_op_from_others_stands_in_its_box() -> None:
    x = nbgrad.tensor(torch.rand(2, 3, 8, 8), requires_grad=True)
    w = nbgrad.tensor(torch.rand(4, 3, 3, 3), requires_grad=True)
    with nbgrad.AutogradGraph("distinct") as graph:
        y = nbgrad.nn.functional.conv2d((1 - (x * 2.5) ** 3) / 4 - 1, w, stride=2, padding=1)
        y = nbgrad.nn.functional.max_pool2d(y, 2)[:, -1]
        y = nbgrad.nn.functional.avg_pool2d(y, (2, 1), stride=1).softmax(-1)
        y.transpose(0, 1).sum(0).clamp(min=0.5).mean((0, 1), keepdim=True).sum().backward()
    told = [(one["op"], one["about"]) for one in describe(graph)["nodes"] if one["op"]]
    assert told == [
        ("mul", "× 2.5"),
        ("pow", "3"),
        ("sub", "1 − x"),
        ("div", "÷ 4"),
        ("sub", "− 1"),
        ("conv2d", "3×3 s2 p1"),
        ("max_pool2d_with_indices", "2×2"),
        ("getitem", "[:, -1]"),
        ("avg_pool2d", "2×1 s1"),
        ("softmax", "dim -1"),
        ("transpose", "0 1"),
        ("sum", "dim 0"),
        ("clamp", "min 0.5"),
        ("mean", "dims 0, 1 keepdim"),
        ("sum", ""),
    ]


def test_few_numbers_are_written_out_and_an_element_type_is_told_once() -> None:
    w = nbgrad.tensor([[1.5, -2.0, 0.25]], requires_grad=True)
    many = nbgrad.tensor(torch.arange(10.0), requires_grad=True)
    with nbgrad.AutogradGraph("few") as graph:
        index = nbgrad.tensor(torch.tensor([0, 1]))
        ((w * 2.0)[0].index_select(0, index).sum() * many).sum().backward()
    described = describe(graph)
    assert described["summary"].count("float32 unless a box says otherwise") == 1
    assert node(described, "w")["label"] == ["w", "(1, 3)", "value [[1.5, -2, 0.25]]"]
    assert node(described, "w")["rule"] == "∇ [[90, 90, 0]]"
    assert node(described, "many")["label"] == ["many", "(10,)"], "more than nine"
    assert node(described, "index")["label"] == ["index", "(2,) int64", "value [0, 1]"]


def chain(layers: int) -> Description:
    """A chain of ops without a module. In each round, a skip connection goes around three ops."""
    x = nbgrad.tensor(torch.rand(20, 20), requires_grad=True)
    with nbgrad.AutogradGraph("chain") as graph:
        y = x
        for _ in range(layers):
            y = y + (y.tanh().exp()).sin()
        y.sum().backward()
    return describe(graph)


@pytest.mark.parametrize("layers", [3, 6, 12])
def test_a_chain_that_is_too_long_is_cut_into_columns(layers: int) -> None:
    described = chain(layers)
    long, picture = lay_out(described, folding=Folding(), on=Stage(1e5, 1e5)), lay_out(described, folding=Folding())
    assert_sound(long)
    assert_sound(picture)
    assert picture["layout"]["height"] < long["layout"]["height"] / 1.4
    assert STAGE.fits(picture["layout"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [lambda: chain(6), graphs.trained, *NETWORKS.values()])
def test_edges_in_columns_lead_from_box_to_box(make: Any) -> None:
    picture = lay_out(make())
    layout = picture["layout"]
    jumping = {edge for jump in layout["jumps"] for edge in jump["edges"]}
    for edge in picture["description"]["edges"]:
        runs = layout["edges"][edge["id"]]
        if not runs:
            continue
        for at, end in ((runs[0][0], edge["source"]), (runs[-1][-1], edge["target"])):
            box = layout["nodes"][end]
            assert box["x"] - 2 <= at[0] <= box["x"] + box["width"] + 2, edge["id"]
            assert box["y"] - 2 <= at[1] <= box["y"] + box["height"] + 2, edge["id"]
        for one, other in pairwise(runs):
            assert edge["id"] in jumping or dist(one[-1], other[0]) < 60, "the mark is between"
        assert all(0 <= x <= layout["width"] and 0 <= y <= layout["height"] for run in runs for x, y in run)


def skipping() -> Description:
    """A skip connection around many ops. The ops stand in columns between its ends."""
    x = nbgrad.tensor(torch.rand(20, 16), requires_grad=True)
    with nbgrad.AutogradGraph("skipping") as graph:
        h = x.sin()
        for _ in range(4):
            h = h.exp().log()
        y = h
        for at in range(12):
            y = y.tanh() * (at + 2.0)
        for _ in range(4):
            y = y.exp().log()
        (y + h).sum().backward()
    return describe(graph)


MADE: list[Any] = [lambda: chain(6), skipping, *(partial(graphs.trained, 12, blocks) for blocks in (1, 2, 3))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [*MADE, *NETWORKS.values()])
def test_no_edge_runs_through_a_box(make: Any) -> None:
    picture = lay_out(make())
    layout = picture["layout"]
    boxes = {one["id"]: layout["nodes"][one["id"]] for one in picture["description"]["nodes"] if one["row"] is None}
    for edge in picture["description"]["edges"]:
        for run in layout["edges"][edge["id"]]:
            for x, y in points(run):
                for name, box in boxes.items():
                    inside = box["x"] < x < box["x"] + box["width"] and box["y"] < y < box["y"] + box["height"]
                    assert not inside or name in (edge["source"], edge["target"]), (edge["id"], name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", [*MADE, *NETWORKS.values(), *LOOPS.values()])
def test_edges_have_no_kinks(make: Any) -> None:
    picture = lay_out(make())
    for edge in picture["description"]["edges"]:
        runs = picture["layout"]["edges"][edge["id"]]
        for run in runs:
            for at in range(3, len(run) - 1, 3):
                before, after = (next((p for p in way if p != run[at]), None) for way in (run[at::-1], run[at:]))
                if before and after:
                    turned = atan2(after[1] - run[at][1], after[0] - run[at][0])
                    turned -= atan2(run[at][1] - before[1], run[at][0] - before[0])
                    assert abs(remainder(turned, 2 * pi)) < 0.2, (edge["id"], at, run)
            # Where two points of an edge coincide, the lines beside the edge have no step either.
            for by in (APART, -APART):
                moved = beside(run, by)
                assert all(abs(dist(a, b) - APART) < 1e-6 for a, b in zip(run, moved, strict=True)), edge["id"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_edges_turn_round_corners_between_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds for the line on the inner side of the corner, where no signs take the place of long lines."""
    monkeypatch.setattr("nbgrad.widgets.layout.fitting.with_jumps", lambda _parts, layout, *_: layout)
    layout = lay_out(NETWORKS[name]())["layout"]
    turns = 0
    for run in (run for runs in layout["edges"].values() for run in runs):
        for at in range(0, len(run) - 3, 3):
            (ax, ay), (bx, by), (cx, cy), (dx, dy) = run[at : at + 4]
            level = (ay == by and cx == dx) or (ax == bx and cy == dy)
            if level and ax != dx and ay != dy and max(abs(ax - dx), abs(ay - dy)) <= 12:
                turns += 1
                for side in (APART, -APART):
                    least = 4 if layout["width"] < 1000 else 3.5  # boxes far apart: the corners are stretched, too
                    assert sharpest(beside(run, side)[at : at + 4]) > least
    assert turns >= 4 or layout["width"] < 300


def sharpest(piece: list[list[float]]) -> float:
    """The least radius along a cubic, in pixels."""
    found = points(piece)
    radii = []
    for (ax, ay), (bx, by), (cx, cy) in zip(found, found[1:], found[2:], strict=False):
        area = abs((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)) / 2
        sides = dist((ax, ay), (bx, by)) * dist((bx, by), (cx, cy)) * dist((cx, cy), (ax, ay))
        radii.append(sides / (4 * area) if area > 1e-9 else 1e9)
    return min(radii)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_frame_ends_right_below_what_leaves_it(name: str) -> None:
    picture = lay_out(NETWORKS[name]())
    drawn, layout = picture["description"], picture["layout"]
    tree = Tree(drawn)
    scope_of = {node["id"]: node["scope"] for node in drawn["nodes"]}
    for frame, outer in layout["scopes"].items():
        foot = outer["y"] + outer["height"]
        for edge in drawn["edges"]:
            inner, then = layout["nodes"][edge["source"]], layout["nodes"][edge["target"]]
            leaves = tree.around(frame, scope_of[edge["source"]]) and not tree.around(frame, scope_of[edge["target"]])
            if leaves and then["y"] >= foot:
                assert foot - inner["y"] - inner["height"] < 30, (frame, edge["id"])


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_an_edge_goes_through_the_middle_of_its_mark(direction: Any) -> None:
    x, w = nbgrad.tensor(torch.rand(4, 3)), nbgrad.tensor(torch.rand(3), requires_grad=True)
    with nbgrad.AutogradGraph("marked") as graph:
        ((x.sin() * w) + x.cos()).sum().backward()
    picture = lay_out(describe(graph), direction=direction)
    ((edge, mark),) = picture["layout"]["marks"].items()
    into, out = picture["layout"]["edges"][edge]
    across, middle = (0, mark["x"] + mark["width"] / 2) if direction == "TB" else (1, mark["y"] + mark["height"] / 2)
    assert abs(into[-1][across] - middle) < 1
    assert abs(out[0][across] - middle) < 1


def points(run: list[list[float]]) -> list[tuple[float, float]]:
    """Points along a curve."""
    found = []
    for at in range(0, len(run) - 3, 3):
        for step in range(21):
            t = step / 20
            weights = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3]
            x, y = (sum(w * p[axis] for w, p in zip(weights, run[at : at + 4], strict=True)) for axis in (0, 1))
            found.append((x, y))
    return found


def test_what_fits_is_not_cut() -> None:
    picture = lay_out(NETWORKS["MLP of 2"]())
    parts = PictureParts.of(Outline.of(picture["description"]))
    assert in_columns(parts, picture["layout"]) is picture["layout"]


def wide() -> Description:
    """Twelve chains side by side with a common end: drawn from top to bottom, they are wider than a view."""
    with nbgrad.AutogradGraph("wide") as graph:
        starts = [nbgrad.tensor(torch.rand(20), requires_grad=True) for _ in range(12)]
        ends = [start.sin().exp() for start in starts]
        nbgrad.stack(ends).sum().backward()
    return describe(graph)


def test_the_direction_is_the_one_that_is_seen_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "NARROW", ())  # with shorter names it is seen whole from top to bottom, too
    described = wide()
    down, across, chosen = (lay_out(described, direction=one) for one in ("TB", "LR", "auto"))
    assert STAGE.scale(across["layout"]) > 1.1 * STAGE.scale(down["layout"])
    assert chosen == across
    assert lay_out(NETWORKS["MLP of 2"]())["direction"] == "TB", "it fits"
    page = whole(described)
    assert (page["direction"], page["layout"], page["turned"]) == ("LR", across["layout"], down["layout"])


def test_a_history_does_not_turn_while_it_grows() -> None:
    small, large = NETWORKS["MLP of 2"](), wide()
    for first, other in ((small, large), (large, small)):
        view = GraphView({**first, "nodes": [], "edges": [], "scopes": []})  # as before the first backward
        directions = [view.draw(one)["direction"] for one in (first, other, first)]
        assert directions == [lay_out(first)["direction"]] * 3
        view.close()


@pytest.mark.rotated(6)
def test_a_thousand_nodes_are_drawn_if_they_are_asked_for() -> None:
    with nbgrad.AutogradGraph("many") as graph:
        h = nbgrad.tensor(torch.rand(20), requires_grad=True)
        for at in range(990):
            h = h.sin() if at.bit_count() % 2 else h * 2.0  # no three ops repeat, so nothing is folded as a loop
        h.sum().backward()
    described = describe(graph)
    assert asked(described, None, None) == (None, NODES)
    folding, limit = asked(described, None, 1000)
    assert (folding, limit) == (Folding(), 1000)
    picture = lay_out(described, limit=limit, folding=folding)
    assert len(picture["description"]["nodes"]) == 992
    assert picture["description"]["notes"] == described["notes"], "nothing is left out"
    assert len(drawable(described, *asked(described, 9, None)[::-1])["nodes"]) == 3, "a depth folds each loop"
    assert len(drawable(described, NODES)["nodes"]) <= LOOK, "but not at first"
    assert asked(described, None, 40)[1] == 40


def test_of_many_boxes_each_writes_out_four_numbers_at_most() -> None:
    def rules(ops: int) -> list[str | None]:
        x, few = (nbgrad.tensor(torch.rand(size), requires_grad=True) for size in (5, 4))
        with nbgrad.AutogradGraph("many") as graph:
            y = x
            for at in range(ops):
                y = y.sin() if at.bit_count() % 2 else y * 2.0
            (y.sum() + few.sum()).backward()
        drawn = describe(graph)["nodes"]
        return [next(one["rule"] for one in drawn if one["label"][1] == shape) for shape in ("(5,)", "(4,)")]

    assert [rule and rule[:3] for rule in rules(20)] == ["∇ [", "∇ ["]
    assert [rule and rule[:3] for rule in rules(80)] == ["∇ n", "∇ ["]

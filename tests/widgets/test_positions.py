"""Positions: everything has one, nothing overlaps, and a graph that is too large is drawn smaller and says so."""

import json
import subprocess
import sys
import time
from itertools import combinations, pairwise
from typing import Any

import pytest

from nbgrad.widgets.description.copies import HUB
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Box, Description, Node, Picture
from nbgrad.widgets.description.stage import STAGE
from nbgrad.widgets.folding.apply import ASKED, NODES
from nbgrad.widgets.folding.choose import Folding, first_folding, necessary
from nbgrad.widgets.layout import fitting
from nbgrad.widgets.layout.card import BEHIND
from nbgrad.widgets.layout.dot import dot_source
from nbgrad.widgets.layout.graphviz_wasm import EngineMissing, LayoutTimeout, run_graphviz
from nbgrad.widgets.layout.parts import PictureParts, Sizes
from nbgrad.widgets.pipeline import drawable, lay_out
from tests.widgets import graphs


def apart(one: Box, other: Box) -> bool:
    return (
        one["x"] + one["width"] <= other["x"]
        or other["x"] + other["width"] <= one["x"]
        or one["y"] + one["height"] <= other["y"]
        or other["y"] + other["height"] <= one["y"]
    )


def inside(box: Box, outer: Box) -> bool:
    return (
        box["x"] >= outer["x"]
        and box["y"] >= outer["y"]
        and box["x"] + box["width"] <= outer["x"] + outer["width"]
        and box["y"] + box["height"] <= outer["y"] + outer["height"]
    )


def seen(box: Box, node: Node) -> Box:
    """The box of a node without those behind it."""
    behind = BEHIND * (node["kind"] == "folded")
    return {**box, "width": box["width"] - behind, "height": box["height"] - behind}


def assert_sound(picture: Picture) -> None:
    """Everything has a position, boxes do not overlap, and ops and scopes enclose their parts."""
    description, where = picture["description"], picture["layout"]
    marked = [edge for edge in description["edges"] if edge["reduction"]]
    jumps = {edge for jump in where["jumps"] for edge in jump["edges"]}
    whole: Box = {"x": 0, "y": 0, "width": where["width"], "height": where["height"]}
    assert list(where["nodes"]) == [node["id"] for node in description["nodes"]]
    assert set(where["edges"]) == {edge["id"] for edge in description["edges"]}
    assert set(where["marks"]) == {edge["id"] for edge in description["edges"] if edge["reduction"]}
    alone = {scope["id"] for scope in description["scopes"] if scope["op"]}
    assert set(where["scopes"]) == {scope["id"] for scope in description["scopes"]} - alone
    rows = {node["id"]: node["row"] for node in description["nodes"] if node["row"]}
    free = [box for name, box in where["nodes"].items() if name not in rows]
    boxes = [*free, *(where["marks"][edge["id"]] for edge in marked if edge["source"] not in rows)]
    assert all(inside(box, whole) for box in [*boxes, *where["scopes"].values()])
    assert all(apart(one, other) for one, other in combinations(boxes, 2))
    front = {node["id"]: seen(where["nodes"][node["id"]], node) for node in description["nodes"]}
    assert all(inside(where["nodes"][row], front[op]) for row, op in rows.items())
    assert all(apart(where["nodes"][one], where["nodes"][other]) for one, other in combinations(rows, 2))
    for edge in marked:
        if edge["source"] in rows:
            assert inside(where["marks"][edge["id"]], where["nodes"][edge["source"]])
    for node in description["nodes"]:
        if node["scope"] and node["scope"] not in alone:
            assert inside(where["nodes"][node["id"]], where["scopes"][node["scope"]])
            assert where["nodes"][node["id"]]["y"] >= where["scopes"][node["scope"]]["y"] + 18, "room for the label"
    for scope in description["scopes"]:
        if scope["parent"] and scope["id"] not in alone:
            assert inside(where["scopes"][scope["id"]], where["scopes"][scope["parent"]])
    for edge in description["edges"]:
        runs = where["edges"][edge["id"]]
        if edge["source"] in rows:
            assert runs == []
            continue
        assert len(runs) == (2 if edge["reduction"] or edge["id"] in jumps else 1)
        assert all(len(run) % 3 == 1 and len(run) >= 4 for run in runs)
        assert all(len(point) == 2 for run in runs for point in run)


@pytest.mark.parametrize("name", ["small", "mlp", "hostile"])
def test_everything_has_its_place(name: str, request: pytest.FixtureRequest) -> None:
    assert_sound(lay_out(request.getfixturevalue(name)))


def test_sources_stand_above_targets_and_marks_between(mlp: Description, in_one_column: None) -> None:
    for node in mlp["nodes"]:
        node["scope"] = None if node["kind"] == "parameter" else node["scope"]
        node["root"] = node["kind"] == "parameter"  # no row
    picture = lay_out(mlp)
    where = picture["layout"]
    for edge in picture["description"]["edges"]:
        if where["edges"][edge["id"]] == []:
            continue
        top, bottom = where["nodes"][edge["source"]]["y"], where["nodes"][edge["target"]]["y"]
        assert top < bottom
        if edge["reduction"]:
            assert top < where["marks"][edge["id"]]["y"] < bottom


def test_modules_that_follow_each_other_share_a_column(stack: Any, in_one_column: None) -> None:
    picture = lay_out(stack(60, blocks=4), folding=Folding())
    blocks = [
        picture["layout"]["scopes"][scope["id"]]
        for scope in picture["description"]["scopes"]
        if "Block" in scope["label"]
    ]
    assert len(blocks) == 4
    assert all(upper["y"] + upper["height"] <= lower["y"] for upper, lower in pairwise(blocks))
    assert max(box["x"] for box in blocks) - min(box["x"] for box in blocks) < 100


def test_steps_of_a_recurrent_cell_stand_below_each_other(in_one_column: None) -> None:
    picture = lay_out(graphs.recurrent(), direction="TB")
    where = picture["layout"]
    cells = [where["nodes"][scope["op"]] for scope in picture["description"]["scopes"] if scope["op"]]
    assert len(cells) == 8
    assert all(upper["y"] + upper["height"] <= lower["y"] for upper, lower in pairwise(cells))
    assert where["width"] < 4 * cells[0]["width"]


def test_an_earlier_gradient_has_room_where_a_later_one_stands(small: Description) -> None:
    first = small["nodes"][0]
    width, _ = Sizes.of(small).nodes[first["id"]]
    small["nodes"][0] = {**first, "norms": ["0.5", "1.234e-05"]}
    wide, _ = Sizes.of(small).nodes[first["id"]]
    assert wide > width


def test_no_name_of_a_user_reaches_graphviz(hostile: Description) -> None:
    shape = drawable(hostile, NODES)
    source = dot_source(PictureParts.of(Outline.of(shape)), "TB")
    assert "script" not in source
    assert "evil" not in source
    assert source.isascii()


@pytest.mark.rotated(6)
def test_the_same_description_gives_the_same_picture(mlp: Description) -> None:
    program = (
        "import json, sys; from nbgrad.widgets.pipeline import lay_out; "
        "print(json.dumps(lay_out(json.load(sys.stdin))), end='')"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(mlp), capture_output=True, text=True, check=True
    )
    assert other.stdout == json.dumps(lay_out(mlp)) == json.dumps(lay_out(mlp))


def test_the_description_is_left_as_it_was(stack: Any) -> None:
    description = stack(400, shared=1)
    before = json.dumps(description)
    lay_out(description, limit=50)
    assert json.dumps(description) == before


def test_an_empty_graph_has_a_picture(small: Description) -> None:
    picture = lay_out({**small, "nodes": [], "edges": [], "scopes": []})
    assert picture["layout"]["nodes"] == {}
    assert picture["layout"]["width"] > 0


def test_a_scope_that_is_not_there_is_no_scope(small: Description) -> None:
    small["nodes"][0]["scope"] = "s99"
    assert_sound(lay_out(small))


# --- too large -----------------------------------------------------------------------------------------------------


@pytest.mark.rotated(6)
def test_scopes_are_folded_deepest_first(stack: Any) -> None:
    stacked = stack(1000)
    picture = lay_out(stacked, folding=necessary(stacked, NODES))
    description = picture["description"]
    assert len(description["nodes"]) <= NODES
    folded = [node for node in description["nodes"] if node["kind"] == "folded"]
    assert folded[0]["label"] == ["layers.0.part0 (Linear)", "some ops", "(32, 64) float32"]
    assert folded[0]["rule"] == "∇ 0.2", "of the one tensor that leaves it"
    assert len(folded[0]["holds"]) == 1
    assert folded[0]["details"][-1]["text"] == "(32, 64) -> (64,): sum dim 0"
    assert len([scope for scope in description["scopes"] if "Block" in scope["label"]]) == 12
    assert description["notes"] == [f"{len(folded)} module calls are folded, holding 1,236 nodes."]
    assert_sound(picture)


def test_edges_that_cross_a_fold_are_kept_and_merged(stack: Any) -> None:
    whole = stack(400, blocks=20)
    each = frozenset(scope["id"] for scope in whole["scopes"] if "Block" in scope["label"])
    drawn = drawable(whole, 60, Folding(each, apart=each))
    ends = {node["id"] for node in drawn["nodes"]}
    assert all(edge["source"] in ends and edge["target"] in ends for edge in drawn["edges"])
    assert len({edge["id"] for edge in drawn["edges"]}) == len(drawn["edges"])
    blocks = [node["id"] for node in drawn["nodes"] if node["kind"] == "folded"]
    assert len(blocks) == 20
    pairs = [(edge["source"], edge["target"]) for edge in drawn["edges"]]
    assert all(pair in pairs for pair in pairwise(blocks))
    assert len(set(pairs)) == len(pairs)
    (merged,) = (edge for edge in drawn["edges"] if (edge["source"], edge["target"]) == (blocks[0], blocks[1]))
    assert merged["label"] == "(32, 10) float32", "one tensor, which the stream and the skip take"


def test_a_crossing_reduction_survives_the_fold(stack: Any) -> None:
    drawn = drawable(stack(400, blocks=20, shared=1), 60)
    texts = [edge["reduction"]["text"] for edge in drawn["edges"] if edge["reduction"]]
    assert texts
    assert set(texts) == {"(32, 64) -> (64,): sum dim 0"}


def test_without_scopes_the_end_of_the_record_is_kept(flat: Any) -> None:
    description = lay_out(flat(1000))["description"]
    assert [node["id"] for node in description["nodes"]] == [f"n{index}" for index in range(701, 1001)]
    assert description["notes"] == [
        "The graph is too large to draw in full: only the 300 nodes nearest to the end of the record are drawn; "
        "700 ops and 1 tensor further away are not."
    ]


def test_one_scope_around_everything_is_not_folded_into_one_box(flat: Any) -> None:
    description = flat(1000)
    description["scopes"] = [graphs.frame("s0", "Net", folds="1,000 ops")]
    for node in description["nodes"][1:]:
        node["scope"] = "s0"
    drawn = lay_out(description)["description"]
    assert len(drawn["nodes"]) == NODES
    assert {node["kind"] for node in drawn["nodes"]} == {"op"}


# --- unfolded by hand ----------------------------------------------------------------------------------------------


def unfolded(description: Description, *labels: str, limit: int = NODES) -> tuple[Description, Folding]:
    """The drawing after a double click on each of these boxes in turn."""
    folding = first_folding(description, limit)
    for label in labels:
        (scope,) = [scope["id"] for scope in description["scopes"] if scope["label"] == label]
        folding = folding.toggled(description, [scope], limit)
    return drawable(description, limit, folding), folding


def modules(*sizes: int, build: Any) -> Description:
    """Modules after a leaf. ``sizes`` are their numbers of ops."""
    description: Description = build(sum(sizes))
    homes = [f"s{module}" for module, size in enumerate(sizes) for _ in range(size)]
    description["scopes"] = [
        graphs.frame(f"s{module}", f"part.{module}", folds=f"{size} ops") for module, size in enumerate(sizes)
    ]
    for node, home in zip(description["nodes"][1:], homes, strict=True):
        node["scope"] = home
        node["label"][1] = f"{home} float64"
    return description


def test_a_module_that_is_unfolded_is_drawn_in_full(flat: Any) -> None:
    description = modules(*[290] * 30, build=flat)
    drawn, _ = unfolded(description, "part.0")
    inside = [node["id"] for node in drawn["nodes"] if node["scope"] == "s0"]
    assert inside == [f"n{position}" for position in range(1, 291)], "far from the end of the record, and all of it"
    assert len(drawn["nodes"]) == 290 + 29 + 1 > NODES
    assert not any("too large" in note for note in drawn["notes"])


def test_for_a_module_that_is_unfolded_those_far_from_it_are_folded(flat: Any) -> None:
    description = modules(*[60] * 12, build=flat)
    opened = [f"part.{module}" for module in (0, 11, 4, 3)]
    rest = {"s1", *(f"s{module}" for module in range(5, 11))}
    drawn, before = unfolded(description, *opened)
    assert before.closed == {"s2", *rest}, "there is room for four of them"
    drawn, after = unfolded(description, *opened, "part.2")
    assert after.closed == {"s11", *rest}, "the end is furthest from part.2"
    assert len(drawn["nodes"]) <= NODES
    assert {node["scope"] for node in drawn["nodes"]} == {None, "s0", "s2", "s3", "s4"}
    assert after.toggled(description, ["s11"], NODES).closed == {"s0", *rest}, "it can be unfolded again"
    assert after.toggled(description, ["s2"], NODES).asked == frozenset()


def test_of_a_module_that_is_too_large_its_end_is_drawn(flat: Any) -> None:
    description = modules(20, 1300, *[20] * 10, build=flat)
    drawn, _ = unfolded(description, "part.1")
    assert len(drawn["nodes"]) == ASKED
    assert [node["id"] for node in drawn["nodes"]] == [f"n{position}" for position in range(321, 1321)]
    assert drawn["notes"][-1] == (
        "The graph is too large to draw in full: only the 1000 nodes nearest to what was unfolded are drawn; "
        "311 ops and 1 tensor further away are not."
    )


def test_around_a_module_that_is_unfolded_the_nearest_is_drawn(flat: Any) -> None:
    description = modules(20, 980, 20, build=flat)
    for node in description["nodes"]:
        node["scope"] = node["scope"] if node["scope"] == "s1" else None  # nothing beside it can be folded
    drawn, _ = unfolded(description, "part.1")
    assert [node["id"] for node in drawn["nodes"]] == [f"n{position}" for position in range(11, 1011)], "on both sides"


def test_unfolding_what_holds_nothing_changes_nothing_else(flat: Any) -> None:
    description = modules(*[60] * 12, build=flat)
    description["scopes"].append(graphs.frame("s12", "empty", folds="0 ops"))
    first = first_folding(description, NODES).closed
    assert Folding(first | {"s12"}).toggled(description, ["s12"], NODES).closed == first


def test_a_shared_tensor_is_drawn_once_per_use(stack: Any) -> None:
    drawn = drawable(stack(100, shared=1), NODES, Folding())
    copies = [node for node in drawn["nodes"] if node["label"][0] == "tied"]
    assert len(copies) > HUB
    assert [node["id"] for node in copies] == [f"n1.{index + 1}" for index in range(len(copies))]
    assert copies[0]["details"]
    assert not copies[1]["details"], "told once, by the first copy"
    readers = {edge["source"]: edge["target"] for edge in drawn["edges"]}
    scopes = {node["id"]: node["scope"] for node in drawn["nodes"]}
    assert all(node["scope"] == scopes[readers[node["id"]]] for node in copies)
    assert_sound(lay_out(stack(100, shared=1), folding=Folding()))


def test_a_result_of_an_op_is_never_copied(flat: Any) -> None:
    description = flat(1)
    for index in range(9):
        description["nodes"].append({**description["nodes"][1], "id": f"n{index + 2}", "root": False})
        description["edges"].append(
            {**description["edges"][0], "id": f"e{index + 1}", "source": "n1", "target": f"n{index + 2}"}
        )
    assert len(drawable(description, NODES)["nodes"]) == 11


@pytest.mark.rotated(6)
def test_a_tangle_that_would_take_minutes_is_drawn_in_part(tangle: Any) -> None:
    start = time.process_time()
    picture = lay_out(tangle(1500), limit=1200)
    assert time.process_time() - start < 6
    notes = picture["description"]["notes"]
    assert notes[0] == "A layout of 1,249 nodes would be a tangle.", "with the copies of shared tensors"
    assert "nearest to the end of the record" in notes[-1]
    assert 0 < len(picture["description"]["nodes"]) < 1000
    assert_sound(picture)


def slow_above(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make graphviz time out for more than ``nodes`` nodes."""
    run = run_graphviz

    def slow(source: str, *, seconds: float) -> str:
        if source.count("width=") > nodes:
            raise LayoutTimeout("graphviz was stopped after 3 s")
        return run(source, seconds=seconds)

    monkeypatch.setattr(fitting, "run_graphviz", slow)


def test_after_a_timeout_what_was_unfolded_stays_so(flat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_above(130, monkeypatch)
    description = modules(20, 60, *[80] * 9, build=flat)
    _, folding = unfolded(description, "part.1")
    folding = Folding(
        closed=frozenset({"s0", "s8", "s9", "s10"}), asked=folding.asked
    )  # the reader has also unfolded other modules before
    drawn = lay_out(description, folding=folding)["description"]
    assert sum(node["scope"] == "s1" for node in drawn["nodes"]) == 60
    assert {"s0", "s8", "s9", "s10"} <= {scope for node in drawn["nodes"] for scope in node["holds"]}, (
        "what was folded stays so"
    )
    assert drawn["notes"][0] == "A layout of 545 nodes took too long; folded for it: part.2, part.3, part.4 and 3 more."


def test_after_a_timeout_what_is_inside_of_what_was_unfolded_is_folded_last(
    flat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_above(50, monkeypatch)
    description = modules(20, 30, 30, *[60] * 4, build=flat)
    description["scopes"].insert(0, graphs.frame("net", "Net", folds="60 ops"))
    for scope in description["scopes"][2:4]:
        scope["parent"] = "net"
    drawn = lay_out(description, folding=Folding(asked=frozenset({"net"})))["description"]
    assert len([node for node in drawn["nodes"] if node["scope"] == "s2"]) == 30
    assert [node["holds"] for node in drawn["nodes"] if node["scope"] == "net"] == [["s1"]]
    assert drawn["notes"][1].endswith("folded for it: part.1.")


def test_after_a_timeout_what_the_reader_folded_stays_folded(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_above(130, monkeypatch)
    description = stack(280)
    inner = next(scope["id"] for scope in description["scopes"] if "part1" in scope["label"])
    drawn = lay_out(description, folding=Folding(frozenset({inner})))["description"]
    assert inner not in {scope["id"] for scope in drawn["scopes"]}
    assert "folded for it: " in drawn["notes"][0]
    assert len(drawn["nodes"]) <= 120


def test_the_last_try_tells_why_it_failed(tangle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def slow(source: str, *, seconds: float) -> str:
        tried.append(source)
        raise LayoutTimeout("graphviz was stopped after 3 s")

    monkeypatch.setattr(fitting, "run_graphviz", slow)
    with pytest.raises(LayoutTimeout):
        lay_out(tangle(500))
    assert len(tried) == 4


def test_a_missing_engine_is_not_tried_again(tangle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(source: str, *, seconds: float) -> str:
        raise EngineMissing("pip install it")

    monkeypatch.setattr(fitting, "run_graphviz", missing)
    with pytest.raises(EngineMissing):
        lay_out(tangle(500))


def test_absurd_labels_are_cut(hostile: Description) -> None:
    picture = lay_out(hostile)
    assert all(len(line) <= 44 for node in picture["description"]["nodes"] for line in node["label"])
    assert STAGE.fits(picture["layout"])
    json.dumps(picture, ensure_ascii=False).encode()  # no lone surrogate is left

"""The picture of a program: boxes for its parts, and a program before and after a pass side by side."""

import re
from collections import Counter
from pathlib import Path

import pytest

import nbgrad
from nbgrad import nn
from nbgrad.symbolic import Program, Spec
from nbgrad.widgets.describe_program import describe_program, drawn
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Box
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.folding.apply import fold
from nbgrad.widgets.folding.choose import folded_below
from nbgrad.widgets.pipeline import lay_out
from tests.core.symbolic import networks


def reused(a: nbgrad.Tensor, b: nbgrad.Tensor) -> nbgrad.Tensor:
    d = (a + b) * a
    return ((a + b) + d).sum()


@pytest.fixture
def program() -> Program:
    found: Program = nbgrad.trace(reused, Spec((4, 4), requires_grad=True), Spec((4, 4))).grad()
    return found


def test_forward_and_gradient_are_boxes_and_every_edge_has_ends(program: Program) -> None:
    description = describe_program(("", program))
    assert [scope["label"] for scope in description["scopes"]] == ["forward", "gradient"]
    ids = {node["id"] for node in description["nodes"]}
    assert all({edge["source"], edge["target"]} <= ids for edge in description["edges"])
    assert description["summary"] == "11 steps: 6 in the forward, 5 in the gradient"
    labels = [node["label"] for node in description["nodes"]]
    assert ["add", "add (4, 4) float32"] in labels
    assert ["add_", "d_a (4, 4) float32", "returned"] in labels
    first = next(node for node in description["nodes"] if node["label"][0] == "add")
    told = {detail["term"]: detail["text"] for detail in first["details"]}
    assert told["computes"] == "add = add(a, b)"
    assert re.search(r"test_describe_program.py:\d+, `d = \(a \+ b\) \* a`", told["line"])
    assert told["memory"] == "64 B"


def test_modules_and_the_optimizer_are_boxes() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1)

    def step(x: nbgrad.Tensor) -> None:
        net(x).sum().backward()
        opt.step()
        opt.zero_grad()

    description = describe_program(("", nbgrad.trace(step, Spec((5, 3)))))
    labels = [scope["label"] for scope in description["scopes"]]
    modules = ["Sequential", "0 (Linear)", "1 (ReLU)"]
    assert labels == ["forward", *modules, "gradient", "Sequential", "1 (ReLU)", "0 (Linear)", "optimizer"]
    update = next(node for node in description["nodes"] if "_foreach_add_" in node["label"][0])
    assert {"term": "changes", "text": "w0_weight, w0_bias"} in update["details"]
    assert description["ops"]["linear"]["formulas"]


def test_a_row_that_a_pass_has_changed_is_drawn_step_by_step(program: Program) -> None:
    assert any(box.row is not None for box in drawn(program))
    steps = sum(len(box.steps) for box in drawn(program.optimize()))
    assert steps == len(program.optimize())


@pytest.mark.parametrize("suffix", ["svg", "txt", "json", "html", "dot"])
def test_before_and_after_side_by_side(program: Program, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"program.{suffix}"
    program.optimize().draw(path, before=program)
    written = path.read_text(encoding="utf-8")
    assert "before" in written
    assert "after" in written


@pytest.mark.sampled(2)
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("network", ["mlp", "cnn", "lstm", "embedding", "arithmetic"])
def test_each_step_of_the_gradient_stands_in_the_row_of_its_op(network: str, optimized: bool) -> None:
    function, args = getattr(networks, network)()
    program = nbgrad.trace(function, *args).grad()
    program = program.optimize() if optimized else program
    description = describe_program(("", program))
    parts = {scope["id"]: scope["label"] for scope in description["scopes"] if scope["parent"] is None}
    around = Tree(description)
    part = {node["id"]: parts[around.path(node["scope"])[0]] for node in description["nodes"] if node["scope"]}
    beside = description["beside"]
    assert set(beside) == {one for one, where in part.items() if where == "gradient"}
    assert {part[by] for by in beside.values()} == {"forward"}
    picture = lay_out(description, direction="TB")
    boxes, drawn_beside = picture["layout"]["nodes"], picture["description"]["beside"]
    several = Counter(drawn_beside.values())
    rows = {one: by for one, by in drawn_beside.items() if several[by] <= 6 and {one, by} <= boxes.keys()}
    assert len(rows) > 4
    for one, by in rows.items():
        assert middle(boxes[one]) == pytest.approx(middle(boxes[by]), abs=1)
    ends = {edge["id"]: (edge["source"], edge["target"]) for edge in picture["description"]["edges"]}
    for edge, runs in picture["layout"]["edges"].items():
        if runs:
            source, target = (boxes[one] for one in ends[edge])
            assert near(runs[0][0], source), "a line begins at what made its value"
            assert near(runs[-1][-1], target)


def middle(box: Box) -> float:
    return box["y"] + box["height"] / 2


def near(point: list[float], box: Box) -> bool:
    room = 40  # several lines with the same ends run beside each other
    inside = box["x"] - room <= point[0] <= box["x"] + box["width"] + room
    return inside and box["y"] - room <= point[1] <= box["y"] + box["height"] + room


def test_the_gradient_of_a_layer_stands_beside_it_after_passes_too() -> None:
    function, args = networks.mlp()
    program = nbgrad.trace(function, *args).grad()
    for one in (program, program.optimize()):
        description = describe_program(("", one))
        node = {node["id"]: node for node in description["nodes"]}
        beside = {node[a]["label"][1].split()[0]: node[b]["label"] for a, b in description["beside"].items()}
        ops = {node[a]["label"][0]: node[b]["label"][0] for a, b in description["beside"].items()}
        assert ops["cross_entropy_backward"] == "cross_entropy"
        assert ops["threshold_backward"].startswith("relu")
        assert ops["tanh_backward"].startswith("tanh")
        assert beside["d_w2_weight"][0] == "linear"
        assert beside["d_w0_weight"][0] == "linear"
        assert beside["d_w0_weight"] != beside["d_w2_weight"]


def test_lines_without_a_gradient_are_dashed() -> None:
    def loss(x: nbgrad.Tensor, w: nbgrad.Tensor) -> nbgrad.Tensor:
        return ((x * 2) * w).detach().exp().sum() * w.sum()

    forward = nbgrad.trace(loss, Spec((3,)), Spec((3,), requires_grad=True))
    description = describe_program(("", forward))
    assert {edge["gradient"] for edge in description["edges"]} == {""}, "there is no gradient to speak of"
    assert not description["notes"]
    description = describe_program(("", forward.grad()))
    names = {node["id"]: node["label"][0] for node in description["nodes"]}
    part = {node["id"]: node["scope"] for node in description["nodes"]}
    inside = [edge for edge in description["edges"] if part[edge["target"]] == "s0"]
    assert {(names[edge["source"]], names[edge["target"]]) for edge in inside if edge["gradient"] is None} == {
        ("x", "mul"), ("mul", "mul"), ("mul", "detach"), ("detach", "exp"), ("exp", "sum"), ("sum", "mul"),
    }  # fmt: skip
    assert description["notes"] == ["A dashed edge is a value whose gradient the program does not compute."]


def test_the_steps_are_the_rewrites() -> None:
    a, b = Spec((4, 4), requires_grad=True), Spec((4, 4))
    program = nbgrad.trace(reused, a, b).grad()
    shorter = program.optimize()
    description = describe_program(("before", program), ("after", shorter))
    assert len(description["steps"]) == len(shorter.notes) > 3
    node = {node["id"]: node for node in description["nodes"]}
    merged = next(step for step in description["steps"] if step["title"] == "common subexpression")
    told = {detail["term"]: detail["text"] for detail in merged["rewrite"]["details"]}
    assert told["before"] == "add_2 = add(a, b)"
    assert told["after"] == "add"
    assert "test_describe_program.py" in told["line"]
    assert told["saves"] == "1 step, 64 B of results"
    assert node[merged["node"]]["label"] == ["add", "add_2 (4, 4) float32"]
    assert node[merged["rewrite"]["after"]]["label"][1] == "add (4, 4) float32"
    tops = {scope["id"]: scope["label"] for scope in description["scopes"]}
    path = Tree(description).path
    assert tops[path(node[merged["node"]]["scope"])[0]] == "before"
    assert tops[path(node[merged["rewrite"]["after"]]["scope"])[0]] == "after"
    alone = describe_program(("", shorter))
    assert len(alone["steps"]) == len(shorter.notes)


def test_one_pass_at_a_time(program: Program) -> None:
    stages = program.passes()
    assert len(stages) > 1
    assert stages[-1].source() == program.optimize().source()
    assert [str(note) for note in stages[-1].notes] == [str(note) for note in program.optimize().notes]
    for before, after in zip([program, *stages], stages, strict=False):
        steps = describe_program(("before", before), ("after", after))["steps"]
        assert len(steps) == len(after.notes) - len(before.notes) > 0


def test_rewrites_inside_of_folded_modules_stay_apart() -> None:
    function, args = networks.mlp()
    program = nbgrad.trace(function, *args).grad()
    outline = Outline.of(describe_program(("before", program), ("after", program.optimize())))
    folded = fold(outline, folded_below(outline, 2))
    assert any(node["kind"] == "folded" for node in folded.description["nodes"])
    steps = folded.detail()["steps"]
    assert [step["title"] for step in steps] == [note.rule for note in program.optimize().notes]
    ids = {node["id"] for node in folded.description["nodes"]}
    assert {step["node"] for step in steps} | {step["rewrite"]["after"] for step in steps} <= ids | {""}

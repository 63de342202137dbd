"""The picture of a program: boxes for its parts, and a program before and after a pass side by side."""

from pathlib import Path

import pytest

import nbgrad
from nbgrad import nn
from nbgrad.symbolic import Program, Spec
from nbgrad.widgets.describe_program import describe_program, drawn


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
    assert "test_describe_program.py:14, `d = (a + b) * a`" in told["line"]
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
    assert labels == ["forward", "Sequential", "0 (Linear)", "1 (ReLU)", "gradient", "optimizer"]
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

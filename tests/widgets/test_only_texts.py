"""A name that reads like a text of nbgrad's own changes nothing: no text decides what is drawn."""

import re
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.choose import folded_below
from nbgrad.widgets.pipeline import drawable, lay_out
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from tests.widgets.test_what_if import Recorded, small


class linear_block(nn.Module):  # noqa: N801  # the name of an iteration has the word "line"
    """Two ops."""

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return x.sin() * 2


def test_modules_named_like_iterations_keep_their_frames() -> None:
    net = nn.Sequential()
    for at in (1, 2):
        net.add_module(f"iteration {at}", linear_block())
    with nbgrad.AutogradGraph("net") as graph:
        net(nbgrad.tensor([1.0, 2.0], requires_grad=True)).sum().backward()
    picture = lay_out(describe(graph))
    labels = {scope["id"]: scope["label"] for scope in picture["description"]["scopes"]}
    names = [f"iteration {at} (linear_block)" for at in (1, 2)]
    assert [labels[one] for one in picture["layout"]["scopes"]] == ["Sequential", *names]


def blocks(*labels: str) -> Description:
    """Two ops in a block for each of these labels."""
    y = x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("blocks") as graph:
        for label in labels:
            with nbgrad.scope(label):
                y = y.sin() * x
        y.sum().backward()
    return describe(graph)


def test_a_block_named_like_a_loop_is_called_a_module() -> None:
    described = blocks("line 3 of the paper", "iteration 1 (lines 2-4)")
    drawn = svg(lay_out(described, folding=folded_below(described, 0)))
    assert "line 3 of the paper" in drawn
    assert "(folded module)" in drawn
    assert "folded loop" not in drawn


def test_a_loop_over_several_lines_is_called_one() -> None:
    y = x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph("loop") as graph:
        for _ in range(50):
            y = y.sin()
            y = y * x
        y.sum().backward()
    drawn = svg(lay_out(describe(graph)))
    assert "(folded loop)" in drawn
    assert "folded module" not in drawn


def test_blocks_that_share_a_remark_are_no_repetition() -> None:
    assert Outline.of(blocks("teacher (frozen)", "student (frozen)")).runs == []
    assert [len(run.cycles) for run in Outline.of(blocks("block", "block")).runs] == [2]


def test_a_repetition_names_its_ends_whole() -> None:
    net = nn.Sequential()
    for name in ("first (of two)", "last (of two)"):
        net.add_module(name, linear_block())
    with nbgrad.AutogradGraph("net") as graph:
        net(nbgrad.tensor([1.0, 2.0], requires_grad=True)).sum().backward()
    described = describe(graph)
    drawn = drawable(described, 60, folded_below(described, 1))
    (node,) = [node for node in drawn["nodes"] if node["kind"] == "folded"]
    assert node["label"][:2] == ["linear_block × 2", "first (of two) … last (of two)"]


class Critic(nn.Module):
    """An op in a module of the name ``value``."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(3, 1)

    def forward(self, state: nbgrad.Tensor) -> nbgrad.Tensor:
        estimate: nbgrad.Tensor = self.value(state).sum()
        return estimate


@pytest.mark.browser
def test_a_module_named_value_keeps_its_name_when_an_earlier_frame_is_shown(opened: Any) -> None:
    critic = Critic()
    optimizer = nbgrad.optim.SGD(critic.parameters(), lr=0.1)
    with nbgrad.AutogradGraph("critic") as graph:
        for _ in range(3):
            optimizer.zero_grad()
            critic(nbgrad.tensor(torch.ones(2, 3))).backward()
            optimizer.step()
    described = describe(graph)
    (node,) = [node for node in described["nodes"] if node["op"] == "linear"]
    node["label"][0] = "estimated_return = linear"  # so long that the module is named in the next line
    picture = lay_out(described)
    (node,) = [node for node in picture["description"]["nodes"] if node["op"] == "linear"]
    assert node["label"][1] == "value (Linear)"
    assert node["numbers"] == [3, 4], "its value, below the shape"
    tab = opened(page(picture, "critic"))
    box = tab.locator(f'[data-node-id="{node["id"]}"]')
    expect(box).to_contain_text(node["label"][3])
    tab.get_by_test_id("nbgrad-history").click()
    tab.keyboard.press("ArrowLeft")
    expect(box).to_contain_text("value (Linear)")
    expect(box).to_contain_text("not kept")
    expect(box).not_to_contain_text(node["label"][3])


@pytest.mark.browser
def test_a_block_named_like_a_loop_is_called_a_module_on_a_page(opened: Any) -> None:
    described = blocks("line 3 of the paper", "iteration 1 (lines 2-4)")
    tab = opened(page(lay_out(described, folding=folded_below(described, 0)), "blocks"))
    boxes = tab.locator(".nbg-folded")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        expect(box).to_have_attribute("aria-label", re.compile("folded module"))


def test_a_line_that_reads_like_a_question_hides_no_gradient() -> None:
    recorded = Recorded(small)
    leaf = recorded.node("w")
    for node in recorded.description["nodes"]:
        node["rule"] = "∇ ?"
    changes: Any = {leaf: {"0": 1.0}}
    told = recorded.ask(leaf, nudge=True, **changes)
    assert told["gradient"] is not None
    assert told["texts"][leaf][1].startswith("∇ ")
    assert told["nudge"].startswith("Central difference")

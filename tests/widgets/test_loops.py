"""Loops that call no module are folded by their lines, as repeated module calls are."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.outline import LOOPED
from nbgrad.widgets.description.schema import Description, Node
from nbgrad.widgets.description.stage import STAGE
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding, folded_below
from nbgrad.widgets.pipeline import drawable, lay_out, whole
from nbgrad.widgets.render.svg import svg
from tests.widgets.networks import LOOPS
from tests.widgets.test_first_look import folded
from tests.widgets.test_positions import assert_sound
from tests.work import lines


def recorded(run: Callable[[], nbgrad.Tensor]) -> Description:
    with nbgrad.AutogradGraph("loops") as graph:
        run().sum().backward()
        return describe(graph)


def leaf(*shape: int) -> nbgrad.Tensor:
    return nbgrad.tensor(torch.rand(*shape), requires_grad=True)


def scopes(description: Description) -> list[str]:
    return [scope["label"] for scope in description["scopes"]]


def test_a_folded_loop_is_called_one() -> None:
    w = leaf(1)

    def run() -> nbgrad.Tensor:
        y = w
        for _ in range(200):
            y = (y * 0.99).sin()
        return y

    drawn = svg(lay_out(recorded(run)))
    assert ">folded loop, bars: gradients of its parameters</text>" in drawn
    assert "(folded loop)" in drawn
    assert "folded module" not in drawn


def box(description: Description) -> Node:
    (found,) = folded(drawable(description, NODES))
    return found


def line_of(function: Any, further: int = 0) -> int:
    return int(function.__code__.co_firstlineno) + further


@pytest.mark.rotated(6)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_seen_whole_with_letters_of_ten_pixels(name: str) -> None:
    picture = lay_out(LOOPS[name]())
    layout = picture["layout"]
    assert STAGE.fits(layout)
    assert_sound(picture)
    assert any("line" in one["label"][0] and "×" in one["label"][0] for one in folded(picture["description"]))
    assert sum(one["root"] for one in picture["description"]["nodes"]) == 1, "the loss is in sight"


@pytest.mark.rotated(3)
def test_the_box_of_a_loop_says_its_line_how_often_and_its_ops() -> None:
    x, a = leaf(20), leaf(20)

    def run() -> nbgrad.Tensor:
        h = x
        for _ in range(1200):
            h = h * 0.99 + a
        return h

    described = recorded(run)
    node = box(described)
    assert node["label"] == [f"line {line_of(run, 3)} × 1,200", "mul, add", "(20,)"]
    assert node["rule"] is not None
    assert node["rule"].startswith("∇ norm 4.47"), "the gradient of its result"
    assert len(node["holds"]) == 1200
    told = {one["term"]: one["text"].split("\n") for one in node["details"]}
    assert told["Ops"] == ["mul × 1200", "add × 1200"]
    assert told["Iterations"][0].startswith("1: add (20,) ∇ norm ")
    assert told["Iterations"][10] == "and 1,180 more"
    assert told["Iterations"][-1].startswith("1,200: add (20,) ∇ norm 4.47")
    drawn = drawable(described, NODES)
    assert len(drawn["nodes"]) == 4
    assert "1,200 iterations are folded, holding 2,400 nodes" in drawn["notes"][-1]
    assert not any("too large" in note for note in drawn["notes"])
    assert f"line {line_of(run, 3)} × 1,200" in svg(lay_out(described))


def test_it_unfolds_its_first_and_last_iterations_and_these_their_ops() -> None:
    x = leaf(20)

    def run() -> nbgrad.Tensor:
        h = x
        for _ in range(100):
            h = h.sin() * 2
        return h

    described = recorded(run)
    folding = first_folding(described, NODES)
    folding = folding.toggled(described, box(described)["holds"], NODES)
    drawn = drawable(described, NODES, folding)
    line = f"line {line_of(run, 3)}"
    ends = [f"iteration {at} ({line})" for at in (1, 2, 3, 98, 99, 100)]
    assert [one["label"][0] for one in folded(drawn)] == [*ends[:3], f"{line} × 94", *ends[3:]]
    folding = folding.toggled(described, [folded(drawn)[-1]["holds"][0]], NODES)
    drawn = drawable(described, NODES, folding)
    opened = [one for one in drawn["scopes"] if one["label"] == ends[-1]]
    assert [one["folds"] for one in opened] == ["sin, mul"]
    assert [one["op"] for one in drawn["nodes"] if one["scope"] == opened[0]["id"]] == ["sin", "mul"]
    folding = folding.toggled(described, [opened[0]["id"]], NODES)
    assert ends[-1] in [one["label"][0] for one in folded(drawable(described, NODES, folding))]


def cell(h: nbgrad.Tensor, x: nbgrad.Tensor) -> nbgrad.Tensor:
    z = (h * x).sigmoid()
    return h * z + x


def test_the_tensors_that_each_iteration_alone_takes_are_in_it() -> None:
    start, weights = leaf(20), [leaf(20) for _ in range(30)]

    def run() -> nbgrad.Tensor:
        h = start
        for w in weights:
            h = cell(h, w).tanh()
        return h

    node = box(recorded(run))
    first = line_of(cell)
    assert node["label"][:2] == [f"lines {first + 1}-{first + 2}, {line_of(run, 3)} × 30", "2 mul, sigmoid, add, tanh"]
    assert ("Folded", "150 ops, 30 tensors") in [(one["term"], one["text"]) for one in node["details"]]


def test_loops_in_loops_and_a_first_iteration_that_differs() -> None:
    x, a = leaf(20), leaf(20)

    def run() -> nbgrad.Tensor:
        h = None
        for outer in range(12):
            for _ in range(5 + outer % 2):
                h = x.exp() if h is None else h * 1.1 + a
            h = h.sin()
        return h

    described = recorded(run)
    begin = line_of(run)
    outer = f"(lines {begin + 4}-{begin + 5})"
    path = {scope["id"]: scope for scope in described["scopes"]}
    inner = [one for one in path.values() if one["label"].endswith(f"(line {begin + 4})")]
    assert [one["label"] for one in path.values() if one["label"].endswith(outer)] == [
        f"iteration {at} {outer}" for at in range(1, 13)
    ]
    assert {path[one["parent"] or ""]["label"].partition(" (")[0] for one in inner} == {
        f"iteration {at}" for at in range(1, 13)
    }
    assert box(described)["label"][0] == f"lines {begin + 4}-{begin + 5} × 12"


def test_an_iteration_begins_where_the_loop_does() -> None:
    x, a = leaf(20), leaf(20)

    def run() -> nbgrad.Tensor:
        h = nbgrad.tensor(torch.rand(20))
        for _ in range(40):
            h = h.sin()
            h = h * 2
            h = h + a * x
        return h

    described = recorded(run)
    assert described["scopes"][0]["folds"] == "sin, 2 mul, add", "the first of them took no tensor with a gradient"
    assert box(described)["label"][0].endswith("× 39")


def test_what_is_seen_at_once_has_no_frames_of_iterations() -> None:
    x = leaf(20)

    def run(times: int) -> nbgrad.Tensor:
        h = x
        for _ in range(times):
            h = h.sin() * 2
        return h

    assert not scopes(recorded(lambda: run(LOOPED // 2 - 2)))
    many = recorded(lambda: run(LOOPED // 2))
    assert len(scopes(many)) == LOOPED // 2
    assert not drawable(many, NODES, Folding())["scopes"]
    assert drawable(many, NODES, Folding(asked=frozenset({"s0"})))["scopes"], "they can be folded again"


def test_no_loop_is_seen_in_code_that_runs_once_or_twice() -> None:
    x = leaf(20)

    def once() -> nbgrad.Tensor:
        h = x.sin() * 2
        for _ in range(2):
            h = h.sin() * 2 + h.cos() * h.exp() + h.tanh()
        return h

    described = recorded(lambda: once() + sum(once().sin().sin().sin().sin().sin() for _ in range(2)))
    assert not any(label.startswith("iteration") for label in scopes(described))


def test_a_module_around_a_loop_stays_around_it() -> None:
    class Net(nbgrad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nbgrad.nn.Parameter(torch.rand(20))

        def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
            for _ in range(50):
                x = (x * self.weight).tanh()
            return x

    net = Net()
    described = recorded(lambda: net(leaf(20)))
    path = {scope["id"]: scope for scope in described["scopes"]}
    assert [scope["label"] for scope in described["scopes"] if scope["parent"] is None] == ["Net"]
    assert {path[one["parent"]]["label"] for one in path.values() if one["parent"]} == {"Net"}
    assert path["s0"]["folds"] == "100 ops, 1 parameter (20)"
    assert box(described)["label"][1] == "mul, tanh"


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_depth_is_one_of_modules_and_loops_are_folded(depth: int) -> None:
    described = LOOPS["RNN by hand, 100 steps"]()
    assert len(folded(drawable(described, NODES, folded_below(described, depth)))) == 1


def test_a_page_without_a_kernel_has_one_box_for_a_loop() -> None:
    picture = whole(LOOPS["RNN by hand, 100 steps"]())
    assert [one["label"][0].partition(" × ")[2] for one in folded(picture["description"])] == ["100"]
    assert_sound(picture)


def test_the_work_grows_with_the_ops() -> None:
    x = leaf(20)

    def graph(times: int) -> nbgrad.AutogradGraph:
        with nbgrad.AutogradGraph("long") as graph:
            h = x
            for at in range(times):
                h = h.sin() * 2
                for _ in range(2 + at % 3):
                    h = h.exp()
            h.sum().backward()
        return graph

    short, long = graph(40), graph(160)
    assert lines(lambda: outline(long).runs) < 4 * lines(lambda: outline(short).runs) * 1.2


class linear_block(nbgrad.nn.Linear):  # noqa: N801  # a name that begins as the text about an iteration ends
    """A module that is no iteration."""


@pytest.mark.parametrize("size", [2, 12])
def test_a_module_whose_name_is_that_of_an_iteration_is_drawn_as_any_other(size: int) -> None:
    drawn = []
    for word in ("iteration", "block"):
        blocks = OrderedDict((f"{word} {number}", linear_block(2, 2)) for number in range(1, size + 1))
        description = recorded(partial(nbgrad.nn.Sequential(blocks), nbgrad.ones(1, 2)))
        assert [label for label in scopes(description) if label.startswith(word)] == [
            f"{name} (linear_block)" for name in blocks
        ]
        assert not Tree(description).iterations
        drawn.append((first_folding(description, NODES), first_folding(description, 3)))
    assert drawn[0] == drawn[1]

"""Function calls between layers belong to a repetition: one box shows all rounds of a loop in a forward."""

from collections.abc import Callable
from typing import Any

import pytest

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.repeats import LONGEST, _Calls
from nbgrad.widgets.description.stage import STAGE
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import first_folding
from nbgrad.widgets.pipeline import drawable, lay_out
from tests.widgets.test_first_look import trained
from tests.widgets.test_repeats import WIDE, box
from tests.work import lines


class Functional(nn.Module):
    """Layers in a list, and functions between them."""

    def __init__(self, step: Callable[[Any, nbgrad.Tensor], nbgrad.Tensor], many: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, WIDE), nn.Linear(WIDE, 3)
        self.layers = nn.ModuleList([nn.Linear(WIDE, WIDE) for _ in range(many)])
        self.step = step

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = self.step(layer, x)
        return self.last(x)


@pytest.mark.parametrize(
    ("step", "label"),
    [
        (lambda layer, x: functional.relu(layer(x)), "Linear, relu × 30"),
        (lambda layer, x: layer(functional.relu(x)), "relu, Linear × 30"),
        (lambda layer, x: x + layer(x), "Linear, add × 30"),
        (lambda layer, x: x + 0.1 * functional.gelu(layer(x)), "Linear, gelu, mul, add × 30"),
        (lambda layer, x: layer(layer(x).sin() * x), "Linear, sin, mul, Linear × 30"),
    ],
)
def test_functions_between_layers_are_part_of_what_repeats(step: Any, label: str) -> None:
    described = trained(Functional(step, 30), 2, 5)
    picture = lay_out(described)
    folds = box(picture["description"])
    many = label.count(",") + 1
    assert folds["label"][0] == label
    assert {row["term"]: row["text"] for row in folds["details"]}["Folded"].startswith(f"{30 * many} ops")
    assert STAGE.fits(picture["layout"])
    opened = first_folding(described, NODES).toggled(described, folds["holds"], NODES)
    unfolded = drawable(described, NODES, opened)["nodes"]
    functions = [part for part in label.partition(" ×")[0].split(", ") if part[0].islower()]
    between = [node for node in unfolded if node["op"] in functions]
    assert len(between) == 30 * len(functions)


def test_another_function_ends_what_repeats() -> None:
    step = iter(range(20))
    described = trained(Functional(lambda layer, x: layer(x).tanh() if next(step) == 8 else layer(x).relu(), 20), 2, 5)
    assert [(len(run.cycles), [part.kind for part in run.parts]) for run in Outline.of(described).runs] == [
        (8, ["Linear", "relu"]),
        (11, ["Linear", "relu"]),
    ]


def test_functions_alone_are_no_run() -> None:
    described = trained(lambda x: nn.Linear(5, WIDE)(x).relu().relu().relu().relu(), 2, 5)
    assert Outline.of(described).runs == []


class Skipping(nn.Module):
    """Layers with skip connections: the second half of them also read results of the first half."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(many)])

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        made: list[nbgrad.Tensor] = []
        for at, layer in enumerate(self.layers):
            x = layer(x)
            if 2 * at >= len(self.layers):
                x = x + made[at - len(self.layers) // 2].tanh()
            made.append(x)
        return x


@pytest.mark.rotated(3)
def test_what_takes_something_of_long_ago_takes_no_longer_to_find() -> None:
    short, long = (trained(Skipping(many), 2, 2) for many in (50, 200))
    assert lines(lambda: Outline.of(long).runs) < 4 * lines(lambda: Outline.of(short).runs) * 2
    assert Outline.of(short).runs
    assert Outline.of(long).runs


def test_a_long_chain_of_functions_is_not_looked_through() -> None:
    def chain(x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = nn.Linear(5, WIDE)(x)
        for _ in range(LONGEST + 4):  # fewer than make a loop
            x = x * 1.01
        return nn.Linear(WIDE, 3)(x)

    described = trained(chain, 2, 5)
    calls = _Calls(Tree(described))
    assert [len(row) for row in calls.rows([scope["id"] for scope in described["scopes"]])] == [LONGEST, 3]

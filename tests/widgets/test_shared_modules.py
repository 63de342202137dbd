"""A module that is called several times is titled with its name and the number of the call."""

from types import ModuleType
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.widgets.describe import describe
from nbgrad.widgets.pipeline import lay_out


@pytest.fixture(params=["own", "torch"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    """The package whose modules and tensors a program uses."""
    return nbgrad if request.param == "own" else torch


def titles(graph: Any) -> list[str]:
    """The titles of all frames, in the order of the calls."""
    return [scope["label"] for scope in describe(graph)["scopes"]]


def test_a_model_that_is_called_twice_is_titled_by_its_variable(library: ModuleType) -> None:
    encoder = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.ReLU())
    with nbgrad.record() as graph:
        (encoder(library.ones(2, 3)) - encoder(library.zeros(2, 3))).sum().backward()
    outer = [one for one in titles(graph) if "Sequential" in one]
    assert outer == ["encoder, call 1 of 2 (Sequential)", "encoder, call 2 of 2 (Sequential)"]
    assert titles(graph).count("0 (Linear)") == 2, "a layer is called as often as the network around it"


def test_a_part_of_a_model_is_titled_by_its_path(library: ModuleType) -> None:
    class Siamese(library.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = library.nn.Linear(3, 4)
            self.act = library.nn.ReLU()

        def forward(self, one: Any, other: Any) -> Any:
            return self.act(self.encoder(one)) - self.act(self.encoder(other))

    net = Siamese()
    with nbgrad.record() as graph:
        net(library.ones(2, 3), library.zeros(2, 3)).sum().backward()
    assert titles(graph)[0] == "Siamese"
    assert [one for one in titles(graph) if "Linear" in one] == [
        "encoder, call 1 of 2 (Linear)",
        "encoder, call 2 of 2 (Linear)",
    ]
    assert titles(graph).count("act (ReLU)") == 2, "a module without parameters shares nothing"


def test_calls_are_counted_anew_in_each_call_of_the_model(library: ModuleType) -> None:
    class Twice(library.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = library.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.inner(self.inner(x))

    net = Twice()
    with nbgrad.record() as graph:
        (net(library.ones(2, 3)) * net(library.zeros(2, 3))).sum().backward()
    assert titles(graph) == [
        "net, call 1 of 2 (Twice)",
        "inner, call 1 of 2 (Linear)",
        "inner, call 2 of 2 (Linear)",
        "net, call 2 of 2 (Twice)",
        "inner, call 1 of 2 (Linear)",
        "inner, call 2 of 2 (Linear)",
    ]


def test_a_module_that_two_others_call_has_its_name_in_both(library: ModuleType) -> None:
    class Branch(library.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, shared: Any) -> None:
            super().__init__()
            self.shared = shared

        def forward(self, x: Any) -> Any:
            return self.shared(x)

    shared = library.nn.Linear(3, 3)
    left, right = Branch(shared), Branch(shared)
    with nbgrad.record() as graph:
        (left(library.ones(2, 3)) * right(library.zeros(2, 3))).sum().backward()
    assert [one for one in titles(graph) if "Linear" in one] == [
        "shared, call 1 of 2 (Linear)",
        "shared, call 2 of 2 (Linear)",
    ]


def test_a_frozen_module_is_titled_too(library: ModuleType) -> None:
    teacher, head = library.nn.Linear(3, 4).requires_grad_(False), library.nn.Linear(4, 1)
    one, other = library.ones(2, 3, requires_grad=True), library.zeros(2, 3, requires_grad=True)
    with nbgrad.record() as graph:
        head(teacher(one) - teacher(other)).sum().backward()
    assert [one for one in titles(graph) if one.startswith("teacher")] == [
        "teacher, call 1 of 2 (Linear)",
        "teacher, call 2 of 2 (Linear)",
    ]


def test_calls_that_are_folded_to_one_box_say_the_name_and_how_many(library: ModuleType) -> None:
    cell = library.nn.GRUCell(3, 4)
    with nbgrad.record() as graph:
        h = library.zeros(2, 4)
        for _ in range(30):
            h = cell(library.ones(2, 3), h)
        h.sum().backward()
    # The first call takes a tensor that no call made, and the last one has a variable.
    labels = [node["label"] for node in lay_out(describe(graph))["description"]["nodes"] if node["kind"] == "folded"]
    assert ["GRUCell × 28", "cell, 28 calls"] in [label[:2] for label in labels]


def test_a_parameter_of_two_modules_has_its_whole_name(library: ModuleType) -> None:
    class Tied(library.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = library.nn.Embedding(5, 3)
            self.out = library.nn.Linear(3, 5, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            return self.out(self.embed(x))

    net = Tied()
    with nbgrad.record() as graph:
        net(library.tensor([0, 2])).sum().backward()
    assert [node["label"][0] for node in describe(graph)["nodes"] if node["kind"] == "parameter"] == ["embed.weight"]

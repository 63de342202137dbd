"""The answer of ``nbgrad compare``: the text, the exit status and the picture."""

from pathlib import Path
from typing import Any

import pytest
import torch

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.run.compare import DIFFERENT, EQUAL, report


def step(name: str, slope: float) -> AutogradGraph:
    """One backward through a leaky ReLU."""
    w = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    with AutogradGraph(name) as graph:
        torch.nn.functional.leaky_relu(w.sin(), slope).sum().backward()
    return graph


class Read:
    """A graph as a file has it: a name and records."""

    def __init__(self, graph: AutogradGraph) -> None:
        self.name = graph.name
        self.records: list[Record] = graph.records


@pytest.mark.parametrize("form", [lambda graph: graph, Read])
def test_the_status_says_whether_they_differ(form: Any) -> None:
    same = report(form(step("a", 0.01)), form(step("b", 0.01)))
    assert same == ("a | b: all 3 ops agree", EQUAL)
    other = report(form(step("a", 0.01)), form(step("b", 0.2)), ("old", "new"))
    assert other.status == DIFFERENT
    assert other.text.splitlines()[0].startswith("old | new: 1 of 3 results agree")
    assert other.text.splitlines()[1] == "first difference: leaky_relu, negative_slope 0.01 | 0.2"


def test_a_tolerance_and_a_picture(tmp_path: Path) -> None:
    left, right = step("a", 0.01), step("b", 0.0101)
    assert report(left, right, rtol=1e-2).status == EQUAL
    found = report(left, right, rtol=1e-5, save=tmp_path / "both.svg")
    assert found.status == DIFFERENT
    assert "≠ first difference" in (tmp_path / "both.svg").read_text()


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="takes two graphs"):
        report(step("a", 0.1), "step.json")  # type: ignore[arg-type]

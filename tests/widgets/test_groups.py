"""Four or more findings of one kind with the same remedy are one finding, with its places, the worst first."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import extend
from nbgrad.core.graph.finding import Finding
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.told import GROUPED
from nbgrad.widgets.findings.groups import grouped_by_remedy

TORCH = SimpleNamespace(nn=torch.nn, tensor=torch.tensor)
OURS = SimpleNamespace(nn=nbgrad.nn, tensor=nbgrad.tensor)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


def normalized(lib: Any, rows: Sequence[int], **options: Any) -> nbgrad.AutogradGraph:
    """A batch norm for each number of rows, beside each other."""
    net = lib.nn.ModuleList([lib.nn.BatchNorm1d(6) for _ in rows])
    with nbgrad.AutogradGraph(**options) as graph:
        torch.manual_seed(0)
        losses = [
            (norm(lib.tensor(torch.randn(many, 6).tolist())) * lib.tensor(torch.randn(6).tolist())).sum()
            for norm, many in zip(net, rows, strict=True)
        ]
        sum(losses).backward()
    return graph


def test_twelve_batch_norms_of_two_values_are_one_finding(lib: Any) -> None:
    graph = normalized(lib, [2] * 12)
    (found,) = [one for one in graph.findings() if one.kind == "layer setting"]
    assert len(found.group) == 12
    assert found.remedy == "Use a larger batch, or GroupNorm or LayerNorm"
    assert "over 2 values a channel" in found.text
    assert " The same holds at 11 more places: " in found.text
    assert found.text.endswith(" and 3 others")
    assert (found.id, found.place, found.scope) == (found.group[0].id, found.group[0].place, found.group[0].scope)
    assert len({one.id for one in found.group}) == len({one.scope for one in found.group}) == 12
    assert all(one.place is not None and one.remedy == found.remedy and not one.group for one in found.group)


def test_the_worst_is_told_first(lib: Any) -> None:
    (found,) = [one for one in normalized(lib, [3, 3, 2, 3]).findings() if one.kind == "layer setting"]
    assert ["over 2 values" in one.text for one in found.group] == [True, False, False, False]
    assert "over 2 values" in found.text
    assert found.scope == found.group[0].scope
    assert [one.degree for one in found.group] == [-2, -3, -3, -3]


def test_three_are_told_each(lib: Any) -> None:
    found = [one for one in normalized(lib, [2] * GROUPED).findings() if one.kind == "layer setting"]
    assert [one.group for one in found] == [()] * GROUPED


def test_eight_attentions_of_one_token_are_one_finding(lib: Any) -> None:
    heads = lib.nn.ModuleList([lib.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(8)])
    with nbgrad.AutogradGraph() as graph:
        y = lib.tensor(torch.randn(4, 1, 8).tolist())
        for head in heads:
            y = y + head(y, y, y)[0]
        (y**2).mean().backward()
    (found,) = [one for one in graph.findings() if one.kind == "output range"]
    assert len(found.group) == 8
    assert "The same holds at 7 more places: " in found.text


def test_a_picture_tells_it_once_and_has_a_badge_at_each_place(lib: Any, tmp_path: Path) -> None:
    graph = normalized(lib, [2] * 12)
    (found,) = [one for one in graph.findings() if one.kind == "layer setting"]
    described = describe(graph)
    (problem,) = [one for one in described["problems"] if "a channel" in one["text"]]
    assert problem["text"] == found.text
    badges = [badge["text"] for node in described["nodes"] for badge in node["badges"] if "a channel" in badge["text"]]
    assert sorted(badges) == sorted([found.text, *[one.text for one in found.group[1:]]])
    check = graph.checkup()["layers"]
    assert check.findings == (found,)
    graph.save(tmp_path / "net.txt")
    assert (tmp_path / "net.txt").read_text().count("that is noise") == 1


def test_places_are_silenced_one_by_one(lib: Any) -> None:
    net = lib.nn.ModuleList([lib.nn.BatchNorm1d(6) for _ in range(5)])
    x, weights = lib.tensor(torch.randn(2, 6).tolist()), lib.tensor(torch.randn(6).tolist())
    with nbgrad.AutogradGraph() as graph:
        loss = sum((norm(x) * weights).sum() for norm in net[1:])
        loss = loss + (net[0](x) * weights).sum()  # nbgrad: ignore[layer setting]
        loss.backward()
    (found,) = [one for one in graph.findings() if one.kind == "layer setting"]
    assert len(found.group) == 4
    assert [one.kind for one in graph.checkup().silenced] == ["layer setting"]
    graph = normalized(lib, [2] * 12, silence="layer setting")
    assert len(graph.checkup()["layers"].silenced) == 12


def test_findings_of_a_users_rule_are_grouped_too(lib: Any) -> None:
    @extend.finding_rule("parameter")
    def parameters(graph: nbgrad.AutogradGraph) -> list[Finding]:
        known = [one for one in graph.records if one.kind == "parameter"]
        return [
            Finding("parameter", f"{one.name}. Look", "Look", one.id, degree=float(at)) for at, one in enumerate(known)
        ]

    (found,) = [one for one in normalized(lib, [8] * 3).findings() if one.kind == "parameter"]
    assert [one.degree for one in found.group] == [5, 4, 3, 2, 1, 0]
    assert found.tensors[0] == found.group[0].tensors[0]


def test_places_are_named_by_their_tensors_their_modules_or_their_lines(lib: Any) -> None:
    norm = lib.nn.BatchNorm1d(6)
    x = lib.tensor(torch.randn(2, 6).tolist())
    with nbgrad.AutogradGraph() as graph:
        a, b, c, d = norm(x), norm(x * 2), norm(x * 3), norm(x * 4)
        (a * b * c * d).sum().backward()
    (found,) = [one for one in graph.findings() if one.kind == "layer setting"]
    assert found.text.endswith("The same holds at 3 more places: b (2, 6), c (2, 6), d (2, 6)")
    with nbgrad.AutogradGraph() as graph:
        x, loss = lib.tensor(torch.randn(20, 6).tolist()), 0.0
        for weight in [lib.tensor(torch.randn(6).tolist(), requires_grad=True) for _ in range(4)]:
            loss = loss + lib.nn.functional.batch_norm(x[:2] * weight, None, None, None, None, True).square().sum()
        loss.backward()
    (found,) = [one for one in graph.findings() if one.kind == "layer setting"]
    assert found.text.count("at line ") + found.text.count("test_groups.py:") == 2, "all are at one line"


def test_what_has_no_remedy_or_another_one_is_not_grouped() -> None:
    told = [Finding("nan", f"NaN {at}") for at in range(5)]
    other = [Finding("target", f"{at}. Do {at}", f"Do {at}") for at in range(5)]
    assert grouped_by_remedy([*told, *other]) == [*told, *other]
    alike = [Finding("target", f"{at} is odd. Mend it.", "Mend it.") for at in range(4)]
    assert [one.text for one in grouped_by_remedy(alike)] == ["0 is odd. Mend it. The same holds at 3 more places"]

"""A rule for findings that fails loses nothing but what it would still have found, and is named."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.choices import KINDS
from nbgrad.core.engine.faults import RAISES
from nbgrad.core.graph.finding import Finding
from nbgrad.widgets.describe import describe
from nbgrad.widgets.findings import checks, collect, examination, layers, rules
from nbgrad.widgets.findings.examination import Examination

TORCH = SimpleNamespace(nn=torch.nn, optim=torch.optim, ones=torch.ones, leaf=torch.ones)
OURS = SimpleNamespace(nn=nbgrad.nn, optim=nbgrad.optim, ones=nbgrad.ones)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard does as it does for users."""
    monkeypatch.delenv(RAISES)


def run(lib: Any) -> None:
    """A loop with faults of many kinds."""
    layers = [lib.nn.Linear(2, 2) for _ in range(4)]
    off = lib.nn.Linear(2, 16)
    off.bias.data.fill_(-100)
    optimizer = lib.optim.SGD([one for layer in layers[1:] for one in layer.parameters()], lr=1e-9)
    for _ in range(3):
        x = lib.ones(4, 2)
        total = off(x).relu().sum()
        for at, layer in enumerate(layers):
            total = total + (layer(x) * (1e-6 if at < 1 else 1.0)).sum()
        total = total + lib.nn.functional.dropout(layers[-1](x), 0.95).sum()
        scores = layers[-1](x).softmax(1)
        (total + lib.nn.functional.cross_entropy(scores, torch.zeros(4, dtype=torch.int64))).backward()
        optimizer.step()


@pytest.fixture(params=["open", "closed"])
def graph(lib: Any, request: pytest.FixtureRequest) -> Iterator[nbgrad.AutogradGraph]:
    """A graph with findings of several kinds; closed, or still open."""
    torch.manual_seed(0)
    with nbgrad.AutogradGraph() as made:
        run(lib)
        if request.param == "open":
            yield made
    if request.param == "closed":
        yield made


def searched(graph: nbgrad.AutogradGraph) -> list[Finding]:
    """The findings, searched anew."""
    graph.survey = None
    return graph.findings()


def breaks(_: Examination) -> Iterator[Finding]:
    raise ZeroDivisionError("an odd shape")
    yield


def with_rule(monkeypatch: pytest.MonkeyPatch, at: int, find: Any) -> rules.RuleRow:
    """Replace what the rule at a position does."""
    row = rules.RULES[at]
    monkeypatch.setattr(rules, "RULES", (*rules.RULES[:at], row._replace(find=find), *rules.RULES[at + 1 :]))
    return row


def by_rule(graph: nbgrad.AutogradGraph, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Finding]]:
    """The findings of each rule in a graph."""
    made: defaultdict[str, list[Finding]] = defaultdict(list)

    def noted(row: rules.RuleRow) -> rules.RuleRow:
        def find(case: Examination) -> Iterable[Finding]:
            made[row.name] = list(row.find(case))
            return made[row.name]

        return row._replace(find=find)

    with monkeypatch.context() as patch:
        patch.setattr(rules, "RULES", tuple(map(noted, rules.RULES)))
        searched(graph)
    return made


@pytest.mark.rotated(4)
def test_each_rule_may_fail_and_all_other_findings_stay(
    graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact, made = searched(graph), by_rule(graph, monkeypatch)
    assert len({one.kind for one in intact}) > 4
    for at in range(len(rules.RULES)):
        with monkeypatch.context() as patch:
            row = with_rule(patch, at, breaks)
            graph.survey = None
            checkup = graph.checkup()
            found = checkup.findings
            (failed,) = checkup["rules"].findings
            assert f"the rule {row.name!r} of nbgrad failed" in failed.text
            assert "ZeroDivisionError: an odd shape, at nbgrad/widgets/findings/" in failed.text
            assert failed.remedy == "please report it"
            gone = {one.text for one in intact if one not in found}
            assert gone <= {one.text for one in made[row.name]}
            assert at % 10 or failed.text in [one["text"] for one in describe(graph)["problems"]]
            for check in checkup:
                if set(check.kinds) & set(row.kinds):
                    assert check.state != "sound"
                    assert f"the rule {row.name!r} failed" in check.missing
    assert searched(graph) == intact


def test_what_a_rule_had_found_before_it_failed_stays(lib: Any, guarded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_: Examination) -> Iterator[Finding]:
        yield Finding("sign", "first")
        raise ValueError

    with_rule(monkeypatch, 3, half)
    with nbgrad.AutogradGraph() as graph:
        lib.optim.SGD([kept := lib.nn.Linear(1, 1).weight], 0.1)
        for _ in range(3):
            (lib.ones(1, 1) * kept).sum().backward()
    found = graph.findings()
    assert "first" in [one.text for one in found]
    assert any("(ValueError" in one.text or "ValueError, at" in one.text for one in found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fact", ["_judged", "waiting", "suspicions", "frames_of", "verdicts", "ended"])
def test_shared_facts_may_fail(
    graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    def no_fact(*_: Any, **__: Any) -> Any:
        raise KeyError("an odd module")

    if fact == "ended":
        graph.raised(RuntimeError("stop"))
    monkeypatch.setattr(collect, fact, no_fact)
    found = searched(graph)
    (failed,) = [one for one in found if one.kind == "failed rule"]
    assert "KeyError: 'an odd module'" in failed.text
    assert {"loss input", "saturated"} <= {one.kind for one in found}
    assert failed.text in [one["text"] for one in describe(graph)["problems"]]


def no_words(_: Examination) -> tuple[str, str]:
    raise ZeroDivisionError


@pytest.mark.sampled(2)
def test_each_check_may_fail(graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    searched(graph)
    intact = graph.checkup().findings
    for at, row in enumerate(checks.CHECKS):
        with monkeypatch.context() as patch:
            broken = row._replace(looks=no_words)
            patch.setattr(checks, "CHECKS", (*checks.CHECKS[:at], broken, *checks.CHECKS[at + 1 :]))
            graph.survey = None
            checkup = graph.checkup()
            check, found = checkup[row.name], checkup.findings
            assert [one for one in found if one.kind != "failed rule"] == intact
            assert check.looked == ""
            assert f"the rule 'check {row.name}' failed" in check.missing


def test_rules_that_fail_at_one_line_share_a_sentence(
    graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def takes_of(_: Any) -> None:
        raise TypeError("no loss")

    monkeypatch.setattr(examination, "takes_of", takes_of)
    (failed,) = [one for one in searched(graph) if one.kind == "failed rule"]
    assert "rules 'the last activation', 'targets', " in failed.text
    assert failed.text.count("TypeError: no loss") == 1


def test_the_line_is_that_of_our_file(
    graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def share(*_: Any) -> float:
        raise IndexError("odd")

    monkeypatch.setattr(layers, "_share", share)
    (failed,) = [one for one in searched(graph) if one.kind == "failed rule"]
    assert "at nbgrad/widgets/findings/layers.py:" in failed.text
    assert "`p, known = _share(record)`" in failed.text
    assert str(Path.cwd()) not in failed.text


def test_a_failed_rule_can_be_silenced(
    graph: nbgrad.AutogradGraph, guarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_rule(monkeypatch, 0, breaks)
    graph.silence = frozenset({"failed rule"})
    assert "failed rule" not in [one.kind for one in searched(graph)]
    assert [one.kind for one in graph.checkup()["rules"].silenced] == ["failed rule"]


def test_the_notebook_goes_on(
    shell: InteractiveShell, guarded: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_rule(monkeypatch, 5, breaks)
    with capture_output() as captured:
        shell.run_cell(
            "%%autograd\nimport torch\n(torch.ones(2, requires_grad=True) ** 2).sum().backward()"
        ).raise_error()
    assert "ZeroDivisionError" in str(captured.outputs[0].data["text/plain"])
    file = tmp_path / "x.json"
    with nbgrad.record(view="none", save=file):
        (torch.ones(2, requires_grad=True) ** 2).sum().backward()
    assert "an odd shape" in json.loads(file.read_text())["problems"][0]["text"]


def test_in_tests_a_rule_that_fails_is_raised(graph: nbgrad.AutogradGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    with_rule(monkeypatch, 0, breaks)
    with pytest.raises(ZeroDivisionError):
        searched(graph)


def test_the_table_names_each_rule_once_and_known_kinds_alone() -> None:
    names = [row.name for row in rules.RULES]
    assert len(set(names)) == len(names)
    made = set[str]()
    for row in rules.RULES:
        assert set(row.kinds) <= set(KINDS)
        assert set(row.explained) <= set(row.kinds)
        assert {kind for by in row.explained.values() for kind in by} <= set(KINDS)
        made |= set(row.kinds)
    assert set(KINDS) - made == {"failed", "inplace", "failed rule"}


def test_a_rule_makes_the_kinds_of_its_row_alone(graph: nbgrad.AutogradGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, found in by_rule(graph, monkeypatch).items():
        (row,) = [one for one in rules.RULES if one.name == name]
        assert {one.kind for one in found} <= set(row.kinds)

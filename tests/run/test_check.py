"""``nbgrad check``: only findings, in the forms that people and code reviews read, and an exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from nbgrad.core.engine.place import Place
from nbgrad.core.graph.finding import Finding
from nbgrad.run.formats import FORMATS
from tests.run.commands import nbgrad, training

pytestmark = pytest.mark.once

RULES: dict[str, set[str]] = {
    "log": {"version", "runs"},
    "run": {"tool"},
    "driver": {"name"},
    "rule": {"id"},
    "result": {"message"},
    "message": {"text"},
    "region": {"startLine"},
}
"""The properties that SARIF 2.1.0 requires of each object that nbgrad writes; of a region, that a line is one."""


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net work").mkdir()
    file, other = tmp_path / "net work" / "train.py", tmp_path.parent / "other.py"
    file.write_text("import torch\nloss = w.log()\n", "utf-8")
    twins = tuple(Finding("frozen", f"{name} is frozen", place=Place.at(str(file), 1)) for name in "ab")
    return [
        Finding("nan", "a NaN: begins, at 100 %\nof log", place=Place.at(str(file), 2), tensors=("w (3,)",)),
        Finding("frozen", "two are frozen", group=twins),
        Finding("no activation", "no line"),
        Finding("my kind", "é", "é", place=Place.at(str(other), 7)),
    ]


def test_text_is_a_line_for_each_finding_as_compilers_write_it(findings: list[Finding]) -> None:
    assert FORMATS["text"](findings).splitlines() == [
        "net work/train.py:2: error: a NaN: begins, at 100 % of log [nan]",
        "warning: two are frozen [frozen]",
        "warning: no line [no activation]",
        f"{Path.cwd().parent / 'other.py'}:7: warning: é [my kind]",
    ]
    assert FORMATS["text"]([]) == ""


def test_commands_of_a_workflow_are_escaped(findings: list[Finding]) -> None:
    assert FORMATS["github"](findings).splitlines() == [
        "::error file=net work/train.py,line=2,title=nbgrad%3A nan::a NaN: begins, at 100 %25%0Aof log",
        "::warning file=net work/train.py,line=1,title=nbgrad%3A frozen::a is frozen",
        "::warning file=net work/train.py,line=1,title=nbgrad%3A frozen::b is frozen",
        "::warning title=nbgrad%3A no activation::no line",
        f"::warning file={(Path.cwd().parent / 'other.py').as_posix()},line=7,title=nbgrad%3A my kind::é",
    ]


def test_json_has_every_fact(findings: list[Finding]) -> None:
    first, *_, last = json.loads(FORMATS["json"](findings))
    assert first == {
        "kind": "nan",
        "severity": "error",
        "text": "a NaN: begins, at 100 %\nof log",
        "remedy": None,
        "file": "net work/train.py",
        "line": 2,
        "tensors": ["w (3,)"],
        "scope": [],
    }
    assert last["remedy"] == "é"
    assert json.loads(FORMATS["json"]([])) == []


def test_sarif_has_what_the_standard_requires(findings: list[Finding]) -> None:
    log = json.loads(FORMATS["sarif"](findings))
    (run,) = log["runs"]
    driver: dict[str, Any] = run["tool"]["driver"]
    located = [place["physicalLocation"] for one in run["results"] for place in one.get("locations", [])]
    regions, places = [one["region"] for one in located], [one["artifactLocation"] for one in located]
    for name, ones in {
        "log": [log],
        "run": [run],
        "driver": [driver],
        "rule": driver["rules"],
        "result": run["results"],
        "message": [one["message"] for one in run["results"]],
        "region": regions,
    }.items():
        assert [one for one in ones if not RULES[name] <= one.keys()] == [], name
    assert log["version"] == "2.1.0"
    assert len({one["id"] for one in driver["rules"]}) == len(driver["rules"]), "ids are unique"
    assert [driver["rules"][one["ruleIndex"]]["id"] for one in run["results"]] == [
        one["ruleId"] for one in run["results"]
    ]
    assert [one["level"] for one in run["results"]] == ["error", *["warning"] * 4]
    places = [
        one["locations"][0]["physicalLocation"]["artifactLocation"] for one in run["results"] if "locations" in one
    ]
    assert places[0] == {"uri": "net%20work/train.py", "uriBaseId": "SRCROOT"}
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"].endswith("/"), "the standard wants a slash at the end"
    assert places[-1] == {"uri": (Path.cwd().parent / "other.py").as_uri()}
    assert regions[0] == {"startLine": 2, "snippet": {"text": "loss = w.log()"}}
    assert json.loads(FORMATS["sarif"]([]))["runs"][0]["results"] == []


@pytest.mark.rotated(3)
def test_findings_are_alone_on_stdout_and_decide_the_status(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training("nn.Identity()", "import os; os.system('echo from a child')"))
    result = nbgrad("check", "--format", "json", "train.py", "2", cwd=tmp_path)
    assert result.returncode == 1
    (found,) = json.loads(result.stdout)
    assert (found["kind"], found["file"], found["line"]) == ("no activation", "train.py", 12)
    assert result.stderr.splitlines() == ["from a child", "from a child", "the loss is True"]


@pytest.mark.rotated(4)
def test_the_least_severity_can_be_chosen_and_findings_go_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training("nn.Identity()"))
    words = ("check", "--fail-on", "error", "--output", "found.sarif", "--format", "sarif", "train.py")
    result = nbgrad(*words, cwd=tmp_path)
    assert result.returncode == 0, "a warning is no error"
    assert result.stdout == ""
    assert len(json.loads((tmp_path / "found.sarif").read_text("utf-8"))["runs"][0]["results"]) == 1


@pytest.mark.rotated(4)
def test_an_error_of_the_program_is_a_finding_and_its_status_is_kept(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(after="raise SystemExit(3) if step else KeyError('gone')"))
    result = nbgrad("check", "train.py", cwd=tmp_path)
    assert result.returncode == 1
    assert "KeyError: 'gone'" in result.stderr
    assert result.stdout.startswith("train.py:25: error: The program raised KeyError: 'gone' (train.py:25, ")


@pytest.mark.rotated(3)
def test_a_program_that_trains_nothing_was_not_checked(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('plain')")
    result = nbgrad("check", "plain.py", cwd=tmp_path)
    assert result.returncode == 2, "nothing was checked, so nothing is sound"
    assert result.stdout == ""
    assert result.stderr.splitlines()[1].startswith("nbgrad: plain.py: nothing was recorded")

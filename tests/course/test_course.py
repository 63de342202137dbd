"""``nbgrad lab`` copies the lessons and opens JupyterLab on the first one."""

import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbgrad.core.translation import LANGUAGE
from nbgrad.lab import course
from nbgrad.run.command import main

ROOT = Path(__file__).parents[2]


def test_the_lessons_are_copied_and_one_that_was_worked_in_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my" / "lessons"
    assert main(["lab", str(folder), "--no-open"]) == 0
    lessons = sorted(path.name for path in ROOT.glob("notebooks/*.ipynb"))
    assert sorted(path.name for path in folder.iterdir()) == lessons
    assert capsys.readouterr().out == f"{len(lessons)} lessons are in {folder}\n"
    first, second = lessons[:2]
    (folder / first).write_text("mine")
    (folder / second).unlink()
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert (folder / first).read_text() == "mine"
    assert (folder / second).read_bytes() == (ROOT / "notebooks" / second).read_bytes()


def test_jupyterlab_opens_on_the_first_lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    kernels: list[list[str]] = []

    def run(command: list[str], **settings: Any) -> Any:
        started.append((command, settings["cwd"]))
        [spec] = Path(settings["env"]["JUPYTER_PATH"].split(os.pathsep)[0]).glob("kernels/*/kernel.json")
        kernels.append(json.loads(spec.read_text())["argv"])
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(course.subprocess, "run", run)
    assert main(["lab", str(tmp_path)]) == 3
    first = min(ROOT.glob("notebooks/*.ipynb")).name
    lab = [sys.executable, "-P", "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{first}"]
    assert started == [(lab, tmp_path)]
    assert kernels[0][1:4] == ["-P", "-m", "ipykernel_launcher"]


PLANTED = ("jupyterlab", "jupyter", "random", "nbgrad", "sitecustomize", "pathlib", "ipykernel_launcher", "ipykernel")


def test_no_file_beside_the_lessons_stops_a_kernel(tmp_path: Path) -> None:
    course.write_kernel(tmp_path / "jupyter")
    lessons = tmp_path / "lessons"
    lessons.mkdir()
    for name in PLANTED:
        (lessons / f"{name}.py").write_text(f"raise SystemExit('a planted {name} ran')")
    (lessons / "helper.py").write_text("NUMBER = 7")
    spec = json.loads((tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json").read_text())
    command = [sys.executable, *spec["argv"][1:-2], "--version"]
    done = subprocess.run(command, cwd=lessons, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "planted" not in done.stdout + done.stderr
    lab = [sys.executable, "-P", "-m", "jupyterlab", "--version"]
    done = subprocess.run(lab, cwd=lessons, capture_output=True, text=True, check=False)
    assert (done.returncode, "planted" in done.stdout + done.stderr) == (0, False), done.stderr


def test_no_lesson_has_the_name_of_a_module() -> None:
    assert not [one.stem for one in ROOT.glob("notebooks/*.ipynb") if one.stem.isidentifier()]


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["lab", str(tmp_path / "file"), "--no-open"]) == 1
    assert "nbgrad lab: " in capsys.readouterr().err
    monkeypatch.setattr(course, "find_spec", lambda name: None if name == "jupyterlab" else util.find_spec(name))
    assert main(["lab", str(tmp_path)]) == 1
    assert 'JupyterLab is not installed: pip install "nbgrad[lab]"' in capsys.readouterr().err
    monkeypatch.setattr(course, "_HERE", tmp_path / "nowhere" / "nbgrad" / "lab")
    assert main(["lab", str(tmp_path), "--no-open"]) == 1
    assert "this installation of nbgrad has no lessons" in capsys.readouterr().err


def test_an_installed_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "nbgrad" / "lab" / "notebooks"
    inside.mkdir(parents=True)
    (inside / "01.ipynb").write_text("{}")
    monkeypatch.setattr(course, "_HERE", inside.parent)
    assert course.copy(tmp_path / "lessons") == [tmp_path / "lessons" / "01.ipynb"]


def test_the_lessons_in_german(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(LANGUAGE, raising=False)
    assert main(["lab", "--no-open", "--language", "de"]) == 0
    lesson = json.loads((tmp_path / "nbgrad-lessons-de" / "01_slope.ipynb").read_text("utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in lesson["cells"])
    assert "### Aufgabe 1.1: Vier Gradienten von Hand" in text
    assert "%env NBGRAD_LANGUAGE=de\n" in text
    assert "# deine Antwort" in text
    assert LANGUAGE not in os.environ
    monkeypatch.setenv(LANGUAGE, "de")
    (tmp_path / "nbgrad-lessons-de" / "01_slope.ipynb").write_text("mine", "utf-8")
    assert main(["lab", "--no-open"]) == 0
    assert (tmp_path / "nbgrad-lessons-de" / "01_slope.ipynb").read_text("utf-8") == "mine"
    assert main(["lab", "--no-open", "--language", "tlh"]) == 1
    assert "nbgrad lab: language 'tlh': the lessons are there in en, de" in capsys.readouterr().err
    assert not (tmp_path / "nbgrad-lessons-tlh").exists()


@pytest.mark.rotated(3)
def test_the_command_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nbgrad", "lab", str(tmp_path), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert any(tmp_path.glob("*.ipynb"))

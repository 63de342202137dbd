"""``tools/start.py`` on a computer without a network. The kit here has packages that only report their calls."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.kit import main
from tools.start import Progress, check_owned, size_of, unpacked_size

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]

TELLS = "import sys; print('ran', {name!r}, *sys.argv[1:])\n"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit with two lessons and one wheel, which has all modules that start.py runs."""
    folder = tmp_path / "kit"
    (folder / "wheels").mkdir(parents=True)
    (folder / "notebooks").mkdir()
    for lesson in ("01_tour", "02_more"):
        (folder / "notebooks" / f"{lesson}.ipynb").write_text("as it was")
    (folder / "kinds.txt").write_text("Linux x86_64, Python 3.11\n")
    (folder / "start.py").write_bytes((ROOT / "tools" / "start.py").read_bytes())
    made = "nbgrad-1.0.dist-info"
    with ZipFile(folder / "wheels" / "nbgrad-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("nbgrad/__main__.py", TELLS.format(name="nbgrad"))
        for name in ("jupyter", "jupyterlab"):
            wheel.writestr(f"{name}.py", TELLS.format(name=name))
        wheel.writestr(f"{made}/METADATA", "Metadata-Version: 2.1\nName: nbgrad\nVersion: 1.0\nProvides-Extra: lab\n")
        wheel.writestr(
            f"{made}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{made}/RECORD", "")
    return folder


def start(kit: Path, *arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(kit / "start.py"), "--folder", str(kit.parent / "home"), *arguments]
    # Python must see the wheel's modules, not those of the tested source tree.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=own, cwd=cwd)


@pytest.mark.rotated(6)
def test_a_kit_is_installed_once_and_keeps_what_a_student_wrote(kit: Path) -> None:
    first = start(kit, "--no-lab")
    assert first.returncode == 0, first.stderr
    assert "once" in first.stdout
    assert "ran nbgrad doctor" in first.stdout.replace("'", "")
    home = kit.parent / "home" / "notebooks"
    assert sorted(lesson.name for lesson in home.iterdir()) == ["01_tour.ipynb", "02_more.ipynb"]

    (home / "01_tour.ipynb").write_text("what a student wrote")
    (home / "02_more.ipynb").unlink()
    again = start(kit, "--ServerApp.port=1234")
    assert again.returncode == 0, again.stderr
    assert "once" not in again.stdout
    assert "/lab/tree/01_tour.ipynb --ServerApp.port=1234" in again.stdout
    assert (home / "01_tour.ipynb").read_text() == "what a student wrote"
    assert (home / "02_more.ipynb").read_text() == "as it was"


PLANTED = ("jupyter", "jupyterlab", "random", "nbgrad", "sitecustomize", "pip", "ipykernel_launcher", "pathlib", "json")


def plant(folder: Path) -> None:
    """Put files into a folder that say that they ran."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"raise SystemExit('a planted {name} ran')\n")


@pytest.mark.rotated(6)
def test_no_file_in_a_folder_takes_the_place_of_a_module(kit: Path) -> None:
    home = kit.parent / "home"
    for folder in (home, home / "notebooks"):
        plant(folder)
    with ZipFile(kit / "wheels" / "nbgrad-1.0-py3-none-any.whl", "a") as wheel:
        spec = {"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
        wheel.writestr("nbgrad-1.0.data/data/share/jupyter/kernels/python3/kernel.json", json.dumps(spec))
    for arguments in (["--no-lab"], []):
        done = start(kit, *arguments, cwd=home)
        assert done.returncode == 0, done.stderr
        assert "planted" not in done.stdout + done.stderr
    assert "ran jupyterlab --LabApp.default_url=/lab/tree/01_tour.ipynb" in done.stdout
    [spec_file] = (home / ".venv").glob("share/jupyter/kernels/python3/kernel.json")
    assert json.loads(spec_file.read_text())["argv"][:4] == ["python", "-P", "-m", "ipykernel_launcher"]


def test_an_environment_that_others_could_have_written_is_not_run(kit: Path) -> None:
    ran = kit.parent / "home" / ".venv"
    (ran / "bin").mkdir(parents=True)
    (ran / "complete").touch()
    (ran / "bin" / "python").write_text("#!/bin/sh\necho a planted python ran\n")
    (ran / "bin" / "python").chmod(0o755)
    for path in (ran.parent, ran, ran / "bin"):
        path.chmod(0o757)
        refused = start(kit, "--no-lab")
        assert refused.returncode != 0
        assert "planted" not in refused.stdout
        assert f"others could have written what lies in {path}" in refused.stderr
        path.chmod(0o755)


@pytest.mark.rotated(4)
def test_a_kit_for_other_computers_says_so(kit: Path) -> None:
    [wheel] = (kit / "wheels").iterdir()
    wheel.rename(wheel.with_name("nbgrad-1.0-cp26-cp26-any.whl"))
    refused = start(kit, "--no-lab")
    assert refused.returncode != 0
    assert "does not fit" in refused.stderr
    assert "Linux x86_64, Python 3.11" in refused.stderr
    assert "Traceback" not in refused.stderr

    assert not (kit.parent / "home" / ".venv" / "complete").exists()  # so the next start tries again


@pytest.mark.rotated(6)
def test_a_room_shares_one_installation_that_does_not_change(kit: Path) -> None:
    (kit / "docs").mkdir()
    (kit / "docs" / "index.html").write_text("the documents")
    room = kit.parent / "room"
    shared = start(kit, "--share", str(room))
    assert shared.returncode == 0, shared.stderr
    assert f"Each user runs: python3 {room / 'start.py'}" in shared.stdout
    assert not (kit.parent / "home").exists()
    assert (room / "docs" / "index.html").read_text() == "the documents"
    own = [room, *room.rglob("*")]
    assert [one for one in own if not one.is_symlink() and one.stat().st_mode & 0o222] == []
    assert [one for one in own if not one.is_symlink() and not one.stat().st_mode & 0o044] == []

    user = start(room, "--no-lab")
    assert user.returncode == 0, user.stderr
    assert "once" not in user.stdout
    assert "ran nbgrad doctor" in user.stdout.replace("'", "")
    home = kit.parent / "home"
    assert sorted(one.name for one in home.iterdir()) == ["notebooks"]  # no packages
    assert all(lesson.stat().st_mode & 0o200 for lesson in (home / "notebooks").iterdir())

    again = start(kit, "--share", str(room))
    assert again.returncode != 0
    assert "is shared already: to install it anew, remove it first" in again.stderr
    for one in own:  # so that it can be removed
        if one.is_dir() and not one.is_symlink():
            one.chmod(0o755)


def test_a_folder_that_exists_is_shared_only_if_no_other_user_can_change_it(kit: Path, tmp_path: Path) -> None:
    room, elsewhere = tmp_path / "room", tmp_path / "elsewhere"
    elsewhere.mkdir()
    room.mkdir(mode=0o755)
    (room / "docs").symlink_to(elsewhere)
    refused = start(kit, "--share", str(room))
    assert f"--share: {room / 'docs'} is a link" in refused.stderr
    (room / "docs").unlink()
    room.chmod(0o777)
    refused = start(kit, "--share", str(room))
    assert f"--share: others may write to {room}. Forbid it first: chmod go-w {room}" in refused.stderr
    room.chmod(0o755)
    (room / "notebooks").mkdir()
    (room / "notebooks").chmod(0o757)
    refused = start(kit, "--share", str(room))
    assert f"--share: others may write to {room / 'notebooks'}" in refused.stderr
    (room / "notebooks").rmdir()
    tmp_path.chmod(0o777)
    refused = start(kit, "--share", str(room))
    assert f"--share: others may exchange what lies in {tmp_path}" in refused.stderr
    tmp_path.chmod(0o700)
    assert not list(room.iterdir())
    assert not list(elsewhere.iterdir())


def test_a_folder_of_another_user_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(SystemExit, match="belongs to another user"):
        check_owned(tmp_path)


def test_a_kit_is_not_installed_over_itself(kit: Path) -> None:
    refused = start(kit, "--share", str(kit))
    assert "name another folder than that of the kit" in refused.stderr


def test_progress_says_each_tenth_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(tmp_path, 1000, poll=0.001)
    with progress:
        for at in range(1, 6):
            (tmp_path / f"{at}").write_bytes(bytes(100))
            while progress.said < at:
                time.sleep(0.001)
        (tmp_path / "6").write_bytes(bytes(5000))
        while progress.said < 10:
            time.sleep(0.001)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["10", "20", "30", "40", "50", "100"]


def test_the_size_of_a_wheel_is_that_of_its_files(kit: Path) -> None:
    [wheel] = (kit / "wheels").iterdir()
    with ZipFile(wheel) as archive:
        archive.extractall(kit / "out")
    assert unpacked_size(wheel) == size_of(kit / "out") > 0


def test_a_kit_without_built_documents_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no index\.html: make site builds the documents"):
        main([str(tmp_path / "kit"), "--docs", str(tmp_path)])
    assert not (tmp_path / "kit").exists()


def test_a_kit_has_no_solutions_unless_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    (docs / "lessons").mkdir(parents=True)
    (docs / "index.html").write_text("the documents")
    lesson = docs / "lessons" / "01_slope.html"
    lesson.write_text("<span>### BEGIN SOLUTION</span>")
    made: list[tuple[Path | None, str | None]] = []
    monkeypatch.setattr("tools.kit.make", lambda target, docs, language: made.append((docs, language)))
    arguments = [str(tmp_path / "kit"), "--docs", str(docs)]
    with pytest.raises(SystemExit, match=r"has the solutions of the lessons: build it without them, .* --open"):
        main(arguments)
    lesson.write_text("<p>the lesson</p>")
    questions = docs / "course.html"
    questions.write_text("<p><strong>Solutions.</strong></p>")
    with pytest.raises(SystemExit, match="has the solutions of the lessons"):
        main(arguments)
    assert not made
    main([*arguments, "--solutions"])
    questions.write_text("<p>the questions</p>")
    main([*arguments, "--language", "de"])
    assert made == [(docs, None), (docs, "de")]

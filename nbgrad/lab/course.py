"""``nbgrad lab``: copy the lessons into a folder, and open JupyterLab on the first one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbgrad.core.files import replace_file
from nbgrad.core.translation import SOURCE
from nbgrad.lab.localization import in_language, said_in

_HERE = Path(__file__).resolve().parent


def source() -> Path:
    """The folder of the lessons: beside the package in a clone, inside of it where it is installed.

    Raises:
        FileNotFoundError: this installation has none.
    """
    for folder in (_HERE / "notebooks", _HERE.parents[1] / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    raise FileNotFoundError(
        "this installation of nbgrad has no lessons: install it from a wheel, or clone the repository, which has them "
        "in the folder notebooks"
    )


def copy(folder: Path, language: str = SOURCE) -> list[Path]:
    """Write the lessons in a language into ``folder``, which is made if it is not there.

    A notebook that exists already stays as it is: a student may have worked in it. The solutions are not copied.

    Returns:
        The lessons in the folder, the first one first.

    Raises:
        FileNotFoundError: this installation has no lessons.
        OSError: the folder cannot be made, or written to.
        ValueError: the lessons are not translated into this language.
    """
    said_in(language)
    lessons = sorted(source().glob("*.ipynb"))
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in lessons:
        if not (folder / lesson.name).exists():
            writes = partial(shutil.copyfile, lesson) if language == SOURCE else partial(_translate, lesson, language)
            replace_file(folder / lesson.name, writes)
    return [folder / lesson.name for lesson in lessons]


def _translate(lesson: Path, language: str, target: Path) -> None:
    made = in_language(json.loads(lesson.read_text("utf-8")), language)
    target.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


def run(folder: str | Path, *, opens: bool = True, language: str = SOURCE) -> int:
    """Do what the command ``nbgrad lab`` does.

    Args:
        folder: where the lessons are copied to.
        opens: whether JupyterLab is started there; it runs until it is stopped.
        language: of the lessons, such as "de".

    Returns:
        0, or the exit status of JupyterLab; 1 where that is not installed, or the lessons cannot be copied.
    """
    place = Path(folder).expanduser().resolve()
    try:
        lessons = copy(place, language)
    except (OSError, ValueError) as error:
        return _failed(f"nbgrad lab: {error}")
    print(f"{len(lessons)} lessons are in {place}")  # noqa: T201  # this is the command's output
    if not opens:
        return 0
    if find_spec("jupyterlab") is None:
        return _failed('nbgrad lab: JupyterLab is not installed: pip install "nbgrad[lab]"')
    # With -P, no file in the folder takes the place of a module that the server or a kernel needs to start.
    command = [sys.executable, "-P", "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{lessons[0].name}"]
    with tempfile.TemporaryDirectory() as specs:
        write_kernel(Path(specs))
        paths = os.pathsep.join(filter(None, (specs, os.environ.get("JUPYTER_PATH"))))
        return subprocess.run(command, cwd=place, env=os.environ | {"JUPYTER_PATH": paths}, check=False).returncode


def write_kernel(folder: Path) -> None:
    """Write the specification of the usual kernel, for Jupyter to find below ``folder``.

    The one that is there starts a kernel with the notebook's folder on Python's path: a file ``pathlib.py`` there would
    stop it. Once a kernel runs, it imports from that folder, too.
    """
    jupyter_path = import_module("jupyter_core.paths").jupyter_path  # a part of JupyterLab, which is optional

    there = [path for one in jupyter_path("kernels") if (path := Path(one, "python3", "kernel.json")).is_file()]
    usual = {"display_name": "Python 3", "language": "python"}
    spec: dict[str, Any] = json.loads(there[0].read_text("utf-8")) if there else usual
    argv = spec.setdefault("argv", ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    if argv[1:2] == ["-m"]:
        argv.insert(1, "-P")
    place = folder / "kernels" / "python3"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec), "utf-8")


def _failed(text: str) -> int:
    print(text, file=sys.stderr)  # noqa: T201
    return 1

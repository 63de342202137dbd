"""Install nbgrad from the folder that this file is in, without a network, and open the lessons.

    python3 start.py                  (on Windows: py start.py)
    python3 start.py --folder D:/lab  somewhere else than in the home folder
    python3 start.py --no-lab         install only

The first time takes a minute or two; after that it opens JupyterLab at once. A notebook that is there already is kept:
to have a lesson as it was, remove or rename it, and start again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

KIT = Path(__file__).resolve().parent
OLDEST = (3, 11)


def install(folder: Path) -> Path:
    """Make the environment in ``folder`` if it is not complete, and return its Python.

    Raises:
        SystemExit: the kit has no packages for this computer.
    """
    home = folder / ".venv"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = home / "complete"
    if done.exists():
        return python
    print(f"installing nbgrad into {folder}, once: this takes a minute or two", flush=True)
    venv.create(home, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    if subprocess.run([*pip, "--find-links", str(KIT / "wheels"), "nbgrad[lab]"], check=False).returncode:
        kinds = (KIT / "kinds.txt").read_text("utf-8").strip().replace("\n", "; ")
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SystemExit(
            f"This kit does not fit Python {version} on {sys.platform}: it was made for {kinds}. Use one of these, or "
            "add what this one needs: run tools/kit.py of nbgrad on such a computer, with a network, into this folder."
        )
    # JupyterLab asks in its first minute whether it may fetch news, which there is no network for.
    news = "@jupyterlab/apputils-extension:announcements"
    subprocess.run([str(python), "-m", "jupyter", "labextension", "disable", news], cwd=folder, check=True)
    done.touch()
    return python


def copy_lessons(folder: Path) -> Path:
    """Put the lessons into ``folder``, next to what was changed there, and return where they are."""
    lessons = folder / "notebooks"
    lessons.mkdir(exist_ok=True)
    for lesson in sorted((KIT / "notebooks").glob("*.ipynb")):
        if not (lessons / lesson.name).exists():
            shutil.copy(lesson, lessons)
    return lessons


def main(arguments: list[str]) -> None:
    """Install, look whether all is well, and open JupyterLab on the first lesson."""
    if sys.version_info < OLDEST:
        raise SystemExit(f"nbgrad needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and this is {sys.version.split()[0]}.")
    parser = argparse.ArgumentParser(description="Install nbgrad without a network, and open the lessons.")
    parser.add_argument("--folder", type=Path, default=Path.home() / "nbgrad", help="where; default: %(default)s")
    parser.add_argument("--no-lab", action="store_true", help="install only")
    chosen, for_lab = parser.parse_known_args(arguments)
    folder = chosen.folder.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = install(folder)
    lessons = copy_lessons(folder)
    if chosen.no_lab:
        raise SystemExit(subprocess.run([str(python), "-m", "nbgrad", "doctor"], cwd=folder, check=False).returncode)
    first = min(lessons.glob("*.ipynb"))
    lab = [str(python), "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{first.name}", *for_lab]
    raise SystemExit(subprocess.run(lab, cwd=lessons, check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])

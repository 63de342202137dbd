"""Install nbgrad from the folder that this file is in, without a network, and open the lessons.

    python3 start.py                       (on Windows: py start.py)
    python3 start.py --folder D:/lab       somewhere else than in the home folder
    python3 start.py --no-lab              install only
    python3 start.py --share /srv/nbgrad   install for all users of a room, who may read it and not change it

The first time takes a minute or two; after that it opens JupyterLab at once. A notebook that is there already is kept:
to have a lesson as it was, remove or rename it, and start again.

A shared installation has a start.py of its own. Each user runs that one: it installs nothing, and copies the lessons
into the user's home folder.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import venv
from pathlib import Path
from zipfile import ZipFile

KIT = Path(__file__).resolve().parent
OLDEST = (3, 11)
SHARED = ("notebooks", "pages", "docs", "start.py", "kinds.txt", "README.txt")
"""The files of the kit that a shared installation copies. Not the packages: they are already installed."""


def python_of(folder: Path) -> Path:
    """The Python of the environment in ``folder``."""
    return folder / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def is_complete(folder: Path) -> bool:
    """Whether the environment in ``folder`` exists and is complete."""
    return (folder / ".venv" / "complete").exists()


def install(folder: Path) -> Path:
    """Make the environment in ``folder`` if it is not complete, and return its Python.

    Raises:
        SystemExit: the kit has no packages for this computer.
    """
    python = python_of(folder)
    if is_complete(folder):
        check_own_environment(folder)
        return python
    print(f"installing nbgrad into {folder}, once: this takes a minute or two", flush=True)
    home = folder / ".venv"
    os.umask(os.umask(0o022) | 0o022)  # what is run later is to be this user's alone
    venv.create(home, with_pip=True, clear=True)
    pip = [str(python), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    with Progress(home, sum(map(unpacked_size, (KIT / "wheels").glob("*.whl")))):
        wrong = subprocess.run([*pip, "--find-links", str(KIT / "wheels"), "nbgrad[lab]"], check=False).returncode
    if wrong:
        kinds = (KIT / "kinds.txt").read_text("utf-8").strip().replace("\n", "; ")
        version = sys.version.split()[0]
        raise SystemExit(
            f"This kit does not fit Python {version} on {sys.platform}: it was made for {kinds}. Use one of these, or "
            "add what this one needs: run tools/kit.py of nbgrad on such a computer, with a network, into this folder."
        )
    # JupyterLab asks in its first minute whether it may fetch news, which there is no network for.
    news = "@jupyterlab/apputils-extension:announcements"
    subprocess.run([str(python), "-P", "-m", "jupyter", "labextension", "disable", news], cwd=home, check=True)
    for spec in home.glob("share/jupyter/kernels/*/kernel.json"):
        start_safely(spec)
    (home / "complete").touch()
    return python


def start_safely(spec: Path) -> None:
    """Let the kernels of a specification start without the folder of their notebook on Python's path.

    There a file may have the name of a module that they need to start. Once they run, they import from the folder, too.
    """
    told = json.loads(spec.read_text("utf-8"))
    if told["argv"][1:2] == ["-m"]:
        told["argv"].insert(1, "-P")
        spec.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def unpacked_size(wheel: Path) -> int:
    """How many bytes the files in a wheel have."""
    with ZipFile(wheel) as archive:
        return sum(one.file_size for one in archive.infolist())


class Progress:
    """Prints how much of a folder is there while it is filled: a line for each tenth.

    Args:
        folder: what is filled.
        whole: how many bytes are to come.
        poll: the seconds between two looks at the folder.

    Attributes:
        said: how many tenths it has said.
    """

    def __init__(self, folder: Path, whole: int, poll: float = 1.0) -> None:
        self.said = 0
        self._folder, self._whole, self._poll = folder, whole, poll
        self._before = size_of(folder)
        self._done = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._watching.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._done.wait(self._poll):
            tenths = min(10 * (size_of(self._folder) - self._before) // max(self._whole, 1), 10)
            if tenths > self.said:
                print(f"  {10 * tenths} % of {self._whole >> 20} MiB", flush=True)
                self.said = tenths


def size_of(folder: Path) -> int:
    """How many bytes the files of a folder have. A file that disappears during the count is left out."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += Path(place, name).lstat().st_size
            except OSError:
                continue
    return size


def share(folder: Path) -> None:
    """Install into ``folder`` for all users of a room: they may read it, but not change it.

    Raises:
        SystemExit: the folder is that of the kit, or is shared already; or the kit does not fit this computer.
    """
    if folder == KIT:
        raise SystemExit("--share: name another folder than that of the kit")
    if is_complete(folder):
        raise SystemExit(f"{folder} is shared already: to install it anew, remove it first")
    if not folder.exists():
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    check_owned(folder)
    python = install(folder)
    print("compiling, so that no user has to", flush=True)
    compiled = [str(python), "-P", "-m", "compileall", "-qq", "-j", "0", "-x", "/tests/", str(folder / ".venv")]
    subprocess.run(compiled, check=False)  # a template that is not valid Python fails; it is never imported
    for name in SHARED:
        if (KIT / name).is_dir():
            shutil.copytree(KIT / name, folder / name, dirs_exist_ok=True)
        elif (KIT / name).exists():
            shutil.copy(KIT / name, folder)
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            protect(Path(place, name))
    protect(folder)
    print(f"{folder} is shared. Each user runs: python3 {folder / 'start.py'}", flush=True)


def check_owned(folder: Path) -> None:
    """Look whether all of a folder belongs to the user who shares it: others could change what they own.

    Raises:
        SystemExit: it does not, others may write to it, or it has links, through which files elsewhere would change.
    """
    if os.name == "nt":
        return  # Windows keeps owners and rights in another way
    for above in folder.parents:
        found = above.lstat()
        if found.st_uid not in (0, os.getuid()) or (others_write(found) and not found.st_mode & stat.S_ISVTX):
            raise SystemExit(f"--share: others may exchange what lies in {above}. Name a folder elsewhere")
    for path in (folder, *folder.rglob("*")):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise SystemExit(f"--share: {path} is a link. Name a new folder, or an empty one")
        if found.st_uid != os.getuid():
            raise SystemExit(f"--share: {path} belongs to another user. Name a new folder, or one of your own")
        if others_write(found):
            raise SystemExit(f"--share: others may write to {path}. Forbid it first: chmod go-w {path}")


def check_own_environment(folder: Path) -> None:
    """Look whether the environment in a folder is this user's, or the administrator's: its programs are run.

    Raises:
        SystemExit: it is not, or others may write to it.
    """
    if os.name == "nt":
        return  # as above
    home = folder / ".venv"
    for path in (folder, home, home / "bin", home / "complete"):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, os.getuid()) or others_write(found):
            raise SystemExit(
                f"others could have written what lies in {path}. Name another one with --folder. Or, if only you have "
                f"written there: chmod -R go-w {folder}"
            )


def others_write(found: os.stat_result) -> bool:
    """Whether other users may write to a file or a folder. A group that is the user's own has no other members."""
    if not found.st_mode & stat.S_IWGRP:
        return bool(found.st_mode & stat.S_IWOTH)
    import grp
    import pwd

    try:
        own = grp.getgrgid(found.st_gid).gr_name == pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        own = False
    return bool(found.st_mode & stat.S_IWOTH) or not own


def protect(path: Path) -> None:
    """Let everybody read a file or a folder, and forbid writing. Its owner can allow writing again."""
    if not path.is_symlink():
        mode = path.stat().st_mode
        runs = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
        path.chmod(0o555 if runs else 0o444)


def copy_lessons(folder: Path) -> Path:
    """Put the lessons into ``folder`` and return their folder. A notebook that is already there stays as it is."""
    lessons = folder / "notebooks"
    lessons.mkdir(exist_ok=True)
    for lesson in sorted((KIT / "notebooks").glob("*.ipynb")):
        if not (lessons / lesson.name).exists():
            shutil.copyfile(lesson, lessons / lesson.name)  # without its mode: in a shared installation it is read-only
    return lessons


def main(arguments: list[str]) -> None:
    """Install, look whether all is well, and open JupyterLab on the first lesson."""
    if sys.version_info < OLDEST:
        raise SystemExit(f"nbgrad needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and this is {sys.version.split()[0]}.")
    parser = argparse.ArgumentParser(description="Install nbgrad without a network, and open the lessons.")
    parser.add_argument("--folder", type=Path, default=Path.home() / "nbgrad", help="where; default: %(default)s")
    parser.add_argument("--no-lab", action="store_true", help="install only")
    parser.add_argument("--share", type=Path, metavar="FOLDER", help="install there for all users of a room")
    chosen, for_lab = parser.parse_known_args(arguments)
    if chosen.share is not None:
        share(chosen.share.expanduser().resolve())
        return
    folder = chosen.folder.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = python_of(KIT) if is_complete(KIT) else install(folder)
    # With -P, no file in the folder takes the place of a module that these programs import.
    lessons = copy_lessons(folder)
    if chosen.no_lab:
        raise SystemExit(
            subprocess.run([str(python), "-P", "-m", "nbgrad", "doctor"], cwd=folder, check=False).returncode
        )
    first = min(lessons.glob("*.ipynb"))
    lab = [str(python), "-P", "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{first.name}", *for_lab]
    raise SystemExit(subprocess.run(lab, cwd=lessons, check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])

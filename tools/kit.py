"""Put all that computers without a network need into one folder, to carry there on a stick.

    python -m tools.kit build/kit                     the packages, and the lessons as notebooks and as pages
    python -m tools.kit build/kit --docs build/site   and the documents, as ``python -m tools.site --open`` built them
    python -m tools.kit build/kit --language de       the lessons in German; the documents are English

A kit goes to students, so documents with the solutions of the lessons are refused, unless ``--solutions`` is given.

It needs a network and nbgrad's environment. Run it on a computer with the same system and Python version as those that
use the kit: which packages there are depends on both. For several kinds of computers, run it on one computer of each
kind, with the same folder as the target.
"""

import argparse
import platform
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from nbgrad.core.files import replace_file
from tools import course, pages

ROOT = Path(__file__).resolve().parents[1]

README = """\
nbgrad for a computer without a network: everything that is installed is in this folder.

    python3 start.py        (on Windows: py start.py)

installs nbgrad and JupyterLab into the folder nbgrad in your home folder, once, and opens the lessons there.

    python3 start.py --share /srv/nbgrad

installs them once for all users of a computer, or of a room with a shared drive. Users cannot change that folder. Each
user runs the start.py in it, which copies the lessons alone.

It needs nothing but Python, of a version and system that this kit was made for:

{kinds}

In the folder pages are the lessons as pages, to look at in any browser with nothing installed: begin with
pages/index.html. Their graphs are alive. {docs}
"""


def make(target: Path, docs: Path | None = None, language: str | None = None) -> None:
    """Write the kit into the folder ``target``, or add what this kind of computer needs to what is there.

    Args:
        target: the folder.
        docs: the documents as a site; None for a kit without them.
        language: of the lessons, such as "de"; None for the original.

    Raises:
        ValueError: the lessons are not translated into this language.
        subprocess.CalledProcessError: a package cannot be built or fetched, which pip has said.
    """
    edition, wheels = course.ready(language), target / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]  # pip prints what it downloads
    for old in wheels.glob(f"nbgrad-*{tag()}*.whl"):
        old.unlink()
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    # A source package would have to be built where the kit is used, which takes more packages, or a compiler.
    fetched = ["--only-binary=:all:", "-c", str(ROOT / "constraints.txt"), "--find-links", str(wheels)]
    subprocess.run([*pip, "download", *fetched, "--dest", str(wheels), "nbgrad[lab]"], check=True)
    replace_file(target / "start.py", partial(shutil.copyfile, ROOT / "tools" / "start.py"))
    (target / "notebooks").mkdir(exist_ok=True)
    for lesson in sorted(edition.student.glob("*.ipynb")):
        replace_file(target / "notebooks" / lesson.name, partial(shutil.copyfile, lesson))
    pages.write_all(target / "pages", edition=edition)
    if docs is not None:
        shutil.copytree(docs, target / "docs", dirs_exist_ok=True)
    kinds = target / "kinds.txt"
    known = sorted({kind(), *(kinds.read_text("utf-8").splitlines() if kinds.exists() else ())})
    said = "The documents are in the folder docs: docs/index.html." if (target / "docs").exists() else ""
    readme = README.format(kinds="\n".join(f"    {one}" for one in known), docs=said)
    replace_file(kinds, lambda file: file.write_text("\n".join(known) + "\n", "utf-8"))
    replace_file(target / "README.txt", lambda file: file.write_text(readme, "utf-8"))


def has_solutions(docs: Path) -> bool:
    """Whether a site shows the solutions of the lessons, or those of the written questions."""
    return any(
        mark in page.read_text("utf-8")
        for place, mark in (("lessons/*.html", "BEGIN SOLUTION"), ("course.html", "<strong>Solutions.</strong>"))
        for page in docs.glob(place)
    )


def kind() -> str:
    """The kind of this computer, as far as packages differ by it: system, processor and version of Python.

    The Python version is a minimum: some packages need a late patch release, and pip chose those that fit this one.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{platform.system()} {platform.machine()}, Python {version} from {platform.python_version()} on"


def tag() -> str:
    """The tags in the name of a wheel, for the Python that it was built for."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def main(arguments: list[str]) -> None:
    """Make the kit and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.kit", description="Write the kit.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, help="the folder of the site, to be in the kit")
    parser.add_argument("--language", help="of the lessons, such as de")
    parser.add_argument("--solutions", action="store_true", help="the site may have the solutions of the lessons")
    given = parser.parse_args(arguments)
    if given.docs is not None and not (given.docs / "index.html").exists():
        raise SystemExit(f"{given.docs} has no index.html: make site builds the documents")
    if given.docs is not None and not given.solutions and has_solutions(given.docs):
        raise SystemExit(
            f"{given.docs} has the solutions of the lessons: build it without them, with python -m tools.site "
            f"{given.docs} --open, or put them into the kit with --solutions"
        )
    given.folder.mkdir(parents=True, exist_ok=True)
    print(f"fetching what {kind()} needs (torch is large: this takes minutes)", flush=True)
    make(given.folder, given.docs, given.language)
    size = sum(file.stat().st_size for file in given.folder.rglob("*") if file.is_file())
    print(f"{given.folder.resolve()}: {size >> 20} MiB. Copy it, and run start.py in it.")


if __name__ == "__main__":
    main(sys.argv[1:])

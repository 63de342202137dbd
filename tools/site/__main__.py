"""Build the site, build/site: pages that any browser opens from the disk, without a network.

    python -m tools.site             all of it; the lessons run, so that their graphs are alive
    python -m tools.site --saved     the lessons with their saved pictures: a minute less for each lesson
    python -m tools.site --open      the lessons and the written questions without their solutions

Every warning of Sphinx is an error, and so is a link that leads nowhere or anything that a page would load from a
network. A lesson that has not changed since the last time does not run again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.models.table import programs
from tools import write_ops, write_parity
from tools.site import checks, lessons, reference
from tools.site.contents import Section, sections
from tools.site.pages import ROOT, Site

BUILD = ROOT / "build"
HERE = Path(__file__).resolve().parent
TABLES: dict[str, Callable[[], str]] = {
    "docs/ops.md": write_ops.tables,
    "docs/parity.md": write_parity.tables,
    "docs/models.md": programs,
}
"""The documents that end with long tables in the site, and the functions that return these tables."""


def stage(folder: Path, *, runs: bool, solved: bool = True) -> None:
    """Write the sources of the site, as Sphinx reads them."""
    site = Site(folder)
    documents = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md"), ROOT / "CONTRIBUTING.md"]
    for document in [*sorted(documents), ROOT / "CHANGELOG.md"]:
        name = document.relative_to(ROOT).as_posix()
        site.add(name, f"\n{TABLES[name]()}" if name in TABLES else "", solved=solved)
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    shutil.copytree(HERE / "static", folder / "_static")
    for lesson in lessons.lessons(solved=solved):
        lessons.add(site, lesson, runs=runs, kept=BUILD / "lessons")
    reference.add(site)
    _add_sections(site, sections(solved=solved))
    site.add_sources()


def _add_sections(site: Site, listed: dict[str, Section]) -> None:
    """Write the first page of the site, and a page for each section with several pages."""
    first = (HERE / "index.md").read_text("utf-8")
    named = []
    for name, section in listed.items():
        pages = list(_pages(site.folder, section))
        if len(section.pages) == 1 and "*" not in section.pages[0]:
            named.append(f"{section.title} <{pages[0]}>")
            continue
        text = f"# {section.title}\n\n{section.text}\n\n{_tree([f'/{page}' for page in pages])}"
        site.write(f"{name}/index.md", site.converted(text, f"docs/{name}/index.md", f"{name}/index.md"))
        named.append(f"{name}/index")
    decisions = sorted(f"/decisions/{file.stem}" for file in (site.folder / "decisions").glob("*.md"))
    hidden = _tree([one for one in decisions if not one.endswith("README")], ":hidden:")
    with (site.folder / "decisions" / "README.md").open("a", encoding="utf-8") as file:
        file.write(f"\n{hidden}")
    text = first.replace("{sections}", _tree(named, ":maxdepth: 1"))
    site.write("index.md", site.converted(text, "tools/site/index.md", "index.md"))


def _pages(folder: Path, section: Section) -> list[str]:
    return [
        name
        for pattern in section.pages
        for name in (
            sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.glob(pattern))
            if "*" in pattern
            else [pattern]
        )
    ]


def _tree(pages: list[str], *options: str) -> str:
    return "\n".join(["```{toctree}", ":titlesonly:", *options, "", *pages, "```", ""])


def build(target: Path, *, runs: bool, solved: bool = True) -> list[str]:
    """Build the site in the folder ``target``, and return what is wrong with it.

    Raises:
        subprocess.CalledProcessError: Sphinx gave a warning or failed. Its own message says why.
    """
    staged = BUILD / "site-sources"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    staged.mkdir(parents=True)
    stage(staged, runs=runs, solved=solved)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(HERE)]
    # With a compiled core, Sphinx could not see the signatures.
    environment = {**os.environ, "NBGRAD_COMPILED": "0", "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, str(staged), str(target)], check=True, cwd=ROOT, env=environment)
    return checks.faults(target)


def main(arguments: list[str]) -> None:
    """Build the site, and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Build the site.")
    parser.add_argument("target", nargs="?", type=Path, default=BUILD / "site", help="the folder; default: build/site")
    parser.add_argument("--saved", action="store_true", help="show the saved pictures of the lessons, and run none")
    parser.add_argument(
        "--open", action="store_true", help="the lessons and the written questions without their solutions"
    )
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    wrong = build(given.target.resolve(), runs=not given.saved, solved=not given.open)
    if wrong:
        raise SystemExit("\n".join(wrong))
    pages = sum(1 for _ in given.target.rglob("*.html"))
    print(f"{pages} pages in {time.perf_counter() - start:.0f} s. Open in any browser:")
    print(given.target.resolve() / "index.html")


if __name__ == "__main__":
    main(sys.argv[1:])

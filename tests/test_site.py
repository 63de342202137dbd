"""The site: every page is in the navigation, its links lead somewhere, and nothing in it comes from a network."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
import pytest

import nbgrad
from tools.site import __main__, checks, lessons, pages, reference
from tools.site.contents import SECTIONS

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PAGES = {path.stem for path in ROOT.glob("docs/*.md")}


def test_every_document_is_in_one_section() -> None:
    named = [name for section in SECTIONS.values() for name in section.pages if "/" not in name]
    assert sorted(named) == sorted({*PAGES, "changelog", "contributing"})


@pytest.mark.timeout(600)
@pytest.mark.more("sphinx")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", "--saved", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = (tmp_path / "site" / "index.html").read_text("utf-8")
    for section in SECTIONS.values():
        assert section.title in first
    assert first.count('class="nbgrad-picture"') == 1, "the picture of the first page is alive"
    assert "nbgrad-views.js" in first
    api = (tmp_path / "site" / "api" / "nbgrad.html").read_text("utf-8")
    assert re.search(r'id="nbgrad\.[\w.]*record"', api)
    assert "<math" in (tmp_path / "site" / "ops.html").read_text("utf-8")
    index = (tmp_path / "site" / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex("), "a script, which a page from the disk may load"


def test_the_reference_names_public_things_that_are_described() -> None:
    for _, parts in reference.PAGES.values():
        for part in parts:
            module = import_module(part.module)
            names = reference.names_of(part)
            assert names
            for name in names:
                assert not name.startswith("_")
                value = getattr(module, name)
                assert not callable(value) or (value.__doc__ or "").strip(), f"{part.module}.{name}"


def test_the_reference_has_every_public_name_of_the_package() -> None:
    listed = {name for part in reference.PAGES["nbgrad"][1] for name in part.names}
    others = {"suggesting"}  # modules use it to answer for missing names
    assert set(reference.public(nbgrad)) - listed <= others
    assert listed <= set(vars(nbgrad))


HELPERS = ("slip", "spoiled", "began_at_leaf", "idle_step", "left_out", "nothing_ran", "rate", "unstepped")


def test_what_findings_ask_of_a_graph_is_not_public() -> None:
    assert not set(HELPERS) & set(dir(nbgrad.AutogradGraph))


def site(tmp_path: Path) -> pages.Site:
    return pages.Site(tmp_path)


@pytest.mark.parametrize(
    ("name", "link", "becomes"),
    [
        ("docs/graph.md", "[x](behaviour.md#ownership)", "[x](behaviour.md#ownership)"),
        ("docs/teaching.md", "[x](../notebooks/01_slope.ipynb)", "[x](lessons/01_slope.ipynb)"),
        ("CONTRIBUTING.md", "[x](docs/design.md#layers)", "[x](design.md#layers)"),
        ("docs/decisions/nests.md", "[x](../performance.md)", "[x](../performance.md)"),
        ("docs/decisions/README.md", "[x](../../CONTRIBUTING.md)", "[x](../contributing.md)"),
        ("notebooks/solutions/01_slope.ipynb", "[x](02_backward.ipynb)", "[x](02_backward.ipynb)"),
        ("docs/ops.md", "$`a + b`$", "{math}`a + b`"),
        ("docs/ops.md", "[x](#here) and [y](https://example.com/a.md)", "[x](#here) and [y](https://example.com/a.md)"),
        ("docs/graph.md", "```text\n[x](gone.md)\n```", "```text\n[x](gone.md)\n```"),
    ],
)
def test_links_lead_to_the_pages(name: str, link: str, becomes: str, tmp_path: Path) -> None:
    assert site(tmp_path).converted(link, name, pages.place(name)) == becomes


def test_every_link_of_a_staged_page_leads_to_a_staged_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "with_pictures", lambda text, name: text)  # they take longer than all else
    __main__.stage(tmp_path, runs=False)
    lost = []
    for page in tmp_path.rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        links = [one for one in re.findall(r"\]\(([^)\s#]+)", text) if not re.match(r"[a-z]+:", one)]
        lost += [f"{page.relative_to(tmp_path)}: {one}" for one in links if not (page.parent / one).exists()]
    assert not lost
    for name, line in {"ops": "| `mul` `mul_` |", "parity": "| `Linear` | yes |", "models": "| accelerate |"}.items():
        assert f"\n{line}" in (tmp_path / f"{name}.md").read_text("utf-8"), "the site adds the tables"
    trees = "".join(page.read_text("utf-8") for page in tmp_path.glob("**/index.md"))
    names = {page.stem for page in tmp_path.glob("*.md")} - {"index"}
    assert not [name for name in names if f"/{name}\n" not in trees and f"<{name}>" not in trees]


def test_a_site_for_students_has_no_solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "with_pictures", lambda text, name: text)
    __main__.stage(tmp_path, runs=False, solved=False)
    made = sorted((tmp_path / "lessons").glob("*.ipynb"))
    assert [one.name for one in made] == [one.name for one in lessons.lessons()]
    assert not [one.name for one in made if "SOLUTION" in one.read_text("utf-8")]
    assert "with their solutions" not in (tmp_path / "lessons" / "index.md").read_text("utf-8")
    bank = (tmp_path / "course.md").read_text("utf-8")
    assert "Give the three gradients." in bank
    assert "### Lesson 16" in bank
    assert not [one for one in ("**Solutions.**", "(2.1³ − 1.9³)", "-4 -4 3") if one in bank]
    for one in made:
        for cell in nbformat.read(one, as_version=4).cells:
            links = re.findall(r"\]\(([^)\s#]+)", cell.source) if cell.cell_type == "markdown" else []
            assert not [link for link in links if ":" not in link and not (one.parent / link).exists()]


def test_a_source_that_a_page_names_gets_a_page(tmp_path: Path) -> None:
    made = site(tmp_path)
    name = "nbgrad/core/ops/aliases.py"
    assert made.converted(f"[x](../{name})", "docs/ops.md", "ops.md") == f"[x](source/{name}.md)"
    made.add_sources()
    assert (ROOT / name).read_text("utf-8") in (tmp_path / "source" / f"{name}.md").read_text("utf-8")


def test_a_block_with_magics_says_so() -> None:
    magic, plain = "```python\n%load_ext nbgrad\n```\n", "```python\nx = 7 % 3\n```\n"
    assert pages.with_lexers(magic + plain) == magic.replace("python", "ipython3") + plain


PICTURE = """
```python
import nbgrad
with nbgrad.record(view="none") as graph:
    nbgrad.ones(2, requires_grad=True).sum().backward()
```

<!-- picture: graph -->
"""


def test_a_page_shows_the_graph_that_its_blocks_made() -> None:
    shown = pages.with_pictures(PICTURE, "docs/page.md")
    assert shown.count('class="nbgrad-picture"') == 1
    assert "<!-- picture" not in shown
    with pytest.raises(ValueError, match=r"docs/page\.md: <!-- picture: other --> names no graph"):
        pages.with_pictures(PICTURE.replace("picture: graph", "picture: other"), "docs/page.md")


def test_a_lesson_keeps_its_pictures_and_no_widget_that_needs_a_kernel(tmp_path: Path) -> None:
    lesson = lessons.lessons()[1]
    lessons.add(site(tmp_path), lesson, runs=False, kept=tmp_path)
    made = nbformat.read(tmp_path / "lessons" / lesson.name, as_version=4)
    data: list[Any] = [output.get("data", {}) for cell in made.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in one for one in data)
    assert "widget-view" not in json.dumps(data)


GOOD = '<html><body><a href="other.html#there">x</a><img src="a.png"></body></html>'


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        (GOOD, []),
        (GOOD.replace("other.html#there", "gone.html"), ["page.html: the link gone.html leads to no file"]),
        (GOOD.replace("#there", "#gone"), ["page.html: the link other.html#gone leads to no place in its page"]),
        (GOOD.replace("a.png", "https://a.b/c.png"), ["page.html: loads https://a.b/c.png from a network"]),
        (GOOD.replace("other.html#there", "https://a.b/"), []),  # nothing is loaded until it is clicked
    ],
)
def test_faults_of_pages_are_found(page: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page, "utf-8")
    (tmp_path / "other.html").write_text('<p id="there">', "utf-8")
    (tmp_path / "a.png").touch()
    assert checks.faults(tmp_path) == wrong


def test_a_style_that_loads_from_a_network_is_found(tmp_path: Path) -> None:
    (tmp_path / "site.css").write_text('@import "https://a.b/c.css"; p { background: url(a.png) }', "utf-8")
    assert checks.faults(tmp_path) == ["site.css: loads https://a.b/c.css from a network"]

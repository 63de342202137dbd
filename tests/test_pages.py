"""The lessons as pages of one file each, which tools/pages.py writes."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser, expect

from tools import course, pages
from tools.site import checks

pytestmark = pytest.mark.once

ASKED = """import nbgrad
with nbgrad.record("asked", ask="w"):
    w = nbgrad.tensor(3.0, requires_grad=True)
    (w * w).backward()"""

HINT = "<details><summary>Hint 1</summary>\n\nLook at the *rule* of `mul`.\n\n</details>"


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A folder of two lessons."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    head = "# 1. One & only\n\nNext: [two](02_two.ipynb)"
    first = [new_markdown_cell(head), new_code_cell(ASKED), new_markdown_cell(HINT)]
    second = [new_markdown_cell("# 2. Two\n\nBefore: [one](01_one.ipynb#heading), [a file](notes.ipynb.txt)")]
    nbformat.write(new_notebook(cells=first, metadata=course.METADATA), folder / "01_one.ipynb")
    nbformat.write(new_notebook(cells=second, metadata=course.METADATA), folder / "02_two.ipynb")
    return folder


@pytest.mark.rotated(3)
def test_each_lesson_is_a_page_and_one_leads_to_them(
    lessons: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    written = pages.write_all(tmp_path / "out", edition=course.Edition(student=lessons), kept=kept)
    assert [page.name for page in written] == ["01_one.html", "02_two.html"]
    assert "page 1 of 2: 01_one.html" in capsys.readouterr().out
    first, second = (page.read_text("utf-8") for page in written)
    assert len(re.findall(r'<script[^>]* class="nbgrad-picture"', first)) == 1
    assert 'href="02_two.html"' in first
    assert 'href="01_one.html#heading"' in second
    assert "nbgrad-picture" not in second
    index = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert '<a href="01_one.html">1. One &amp; only</a>' in index
    assert checks.faults(tmp_path / "out") == [
        "02_two.html: the link 01_one.html#heading leads to no place in its page",
        "02_two.html: the link notes.ipynb.txt leads to no file",
    ]
    monkeypatch.setattr(pages.demo, "run", lambda *_: pytest.fail("nothing has changed"))
    pages.write_all(tmp_path / "out", ("01",), course.Edition(student=lessons), kept=kept)


def test_a_name_that_no_lesson_has_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no lesson begins with 99: 00_tour, 01_slope"):
        pages.main([str(tmp_path), "99"])
    assert not list(tmp_path.iterdir())


def test_every_link_of_a_lesson_leads_to_a_page() -> None:
    names = {one.stem for one in course.lessons()}
    for folder in (course.STUDENT, course.SOLUTIONS):
        for lesson in folder.glob("*.ipynb"):
            texts = [cell.source for cell in nbformat.read(lesson, as_version=4).cells if cell.cell_type == "markdown"]
            linked = [found[1].removeprefix("](") for text in texts for found in pages._LINK.finditer(text)]
            assert len(linked) == sum(text.count(".ipynb") for text in texts), lesson
            assert set(linked) <= names, lesson


@pytest.mark.parametrize("lesson", sorted(course.STUDENT.glob("*.ipynb")), ids=lambda one: one.stem)
def test_an_output_that_answers_a_question_is_closed(lesson: Path) -> None:
    notebook = nbformat.read(lesson, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [new_output("stream", text="1")]
    pages.close_answers(notebook)
    asked: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            check = cell.metadata.get("nbgrader", {}).get("grade_id", "").startswith("check")
            assert bool(cell.metadata.get("closed")) >= bool(asked or check), cell.source
        for found in re.finditer(r"\*\*(Predict \d)|Answer to (prediction \d)", cell.source):
            asked ^= {(found[1] or found[2]).lower().replace("predict ", "prediction ")}
    assert not asked
    after = [cell for cell in notebook.cells if "## Summary" in cell.source or "%load_ext" in cell.source]
    assert not any(cell.metadata.get("closed") for cell in after)


@pytest.mark.browser
def test_a_closed_output_opens_and_is_printed(tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    texts = ["# 1. One", "**Predict 1.** How much?", "<details><summary>Answer to prediction 1</summary>9</details>"]
    cells = [new_markdown_cell(texts[0]), new_code_cell("print('before')"), new_markdown_cell(texts[1])]
    cells += [new_code_cell("print('nine')"), new_code_cell(ASKED), new_markdown_cell(texts[2])]
    cells += [new_code_cell("print('after')")]
    nbformat.write(new_notebook(cells=cells, metadata=course.METADATA), folder / "01_one.ipynb")
    pages.write_all(tmp_path / "out", edition=course.Edition(student=folder), kept=tmp_path / "kept")
    page = browser.new_page()
    page.goto((tmp_path / "out" / "01_one.html").as_uri())
    shown = {text: page.locator("pre", has_text=re.compile(f"^{text}\\s*$")) for text in ("before", "nine", "after")}
    expect(shown["before"]).to_be_visible()
    expect(shown["after"]).to_be_visible()
    expect(shown["nine"]).to_be_hidden()
    opened = "document.querySelectorAll('details.nbgrad-closed[open]').length"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.opened = {opened}; }})")
    page.pdf()
    assert (page.evaluate("window.opened"), page.evaluate(opened)) == (2, 0)
    page.get_by_text("Show what it prints").click()
    expect(shown["nine"]).to_be_visible()
    node = page.locator("[data-testid=nbgrad-node][aria-label^='w,']")
    expect(node).to_be_hidden()
    page.get_by_text("Show the picture").click()
    expect(node).to_be_visible()
    page.close()


@pytest.mark.browser
def test_hints_are_folded_and_an_answer_is_judged(lessons: Path, tmp_path: Path, browser: Browser) -> None:
    pages.write_all(tmp_path / "out", edition=course.Edition(student=lessons), kept=tmp_path / "kept")
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "out" / "01_one.html").as_uri())
    expect(page.get_by_text("Hint 1")).to_be_visible()
    expect(page.get_by_text("Look at the")).to_be_hidden()
    page.get_by_text("Hint 1").click()
    expect(page.get_by_text("Look at the")).to_be_visible()
    page.locator("[data-testid=nbgrad-node][aria-label^='w,']").click()
    page.get_by_test_id("nbgrad-answer").fill("6")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_test_id("nbgrad-answered")).to_have_text("✓ right")
    context.close()

"""The decks of slides of the lessons, which tools/slides.py writes."""

import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tools import course, slides
from tools.check_tools import chromium

pytestmark = pytest.mark.once

SOURCE = """# 1. A lesson

**You will be able to**

- add.

```python
import nbgrad
```

## A sum

A sum hands its gradient on as it is, and to each of its inputs alike, since all of them count once (as in `a + b`).
It adds nothing of its own. This sentence is for the notes. So is this one.

**Predict 1.** What is the gradient of `w`, when the loss is `w * w`?

```python
with nbgrad.record("asked"):
    w = nbgrad.tensor(3.0, requires_grad=True)
    (w * w).backward()
print(w.grad.item())
```

```python proof
assert w.grad == 6
```

<details><summary>Answer to prediction 1</summary>

6, the sum of two paths.

</details>

{exercise 1.2}

```python exercise 1.2
def slope(function, x):
    ...
    ### BEGIN SOLUTION
    return (function(x + 1e-4) - function(x - 1e-4)) / 2e-4
    ### END SOLUTION
```

```python check 1.2
lab.check("1.2", slope)
```
"""

SMALL = """() => {
  const found = [];
  for (const part of document.querySelectorAll("body > section")) {
    part.classList.add("shown");
    const walk = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const one = walk.currentNode.parentElement;
      if (walk.currentNode.data.trim() && !one.closest(".drawing") && parseFloat(getComputedStyle(one).fontSize) < 26.6)
        found.push(walk.currentNode.data);
    }
    const body = part.querySelector(".body");
    const over = [body.scrollHeight - body.clientHeight, body.scrollWidth - body.clientWidth];
    if (Math.max(...over) > 1) found.push(`${over} pixels too many: ${part.innerText}`);
    part.classList.remove("shown");
  }
  return found;
}"""


TITLES = [
    *("1. A lesson", "A sum", "Predict 1", "A sum", "Predict 1: what comes out", "Predict 1: what comes out"),
    *("Answer to prediction 1", "Exercise 1.2: A slope by nudging", "Licence"),
]


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a deck, with its PDF."""
    folder = tmp_path_factory.mktemp("slides")
    notebook = course.build(SOURCE, solved=True)
    for cell in notebook.cells:
        cell.source = cell.source.replace("lab.", "from nbgrad import lab; lab.")
    nbformat.write(notebook, folder / "01_one.ipynb")
    target = folder / "out" / "01_one.html"
    assert slides.write(folder / "01_one.ipynb", target, folder / "kept") == len(TITLES)
    return target


@pytest.mark.rotated(3)
def test_a_question_its_cell_its_output_and_its_answer_are_slides(deck: Path) -> None:
    html = deck.read_text("utf-8")
    parts = re.findall(r"<section>(.*?)</section>", html, re.DOTALL)
    assert [re.search(r"<h[12]>(.*?)</h[12]>", one)[1] for one in parts] == TITLES  # type: ignore[index]
    bodies, notes = zip(*(one.partition('<aside class="notes">')[::2] for one in parts), strict=True)
    assert "It adds" in bodies[1]
    assert "for the notes" in notes[1]
    assert "import nbgrad" in re.sub("<[^>]*>", "", notes[0])
    assert "Move <code>x</code>" in notes[7]
    assert "1e-4" in re.sub("<[^>]*>", "", notes[7])
    for hidden in ("for the notes", "1e-4", "Move <code>x</code>", "lab.check", "w.grad == 6", "import nbgrad"):
        assert hidden not in "".join(bodies), hidden


def test_the_pdf_has_a_page_for_each_slide(deck: Path) -> None:
    assert chromium(), "no Chromium here: tools/check_tools.py says how to install it"
    pages = deck.with_suffix(".pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) == len(TITLES)
    assert re.search(rb"/MediaBox\s*\[0 0 960(\.\d+)? 540", pages), "1280 x 720 pixels are 960 x 540 points"


@pytest.mark.browser
def test_keys_change_the_slide_and_all_letters_are_large(deck: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(deck.as_uri())
    shown, foot = page.locator("section.shown"), page.locator("body > footer")
    expect(shown.locator("h1")).to_have_text("1. A lesson")
    for key, place in {"ArrowRight": 2, "End": 9, "ArrowLeft": 8, "Home": 1, "PageDown": 2, "PageUp": 1}.items():
        page.keyboard.press(key)
        expect(foot).to_have_text(f"{place} / 9")
    page.goto(f"{deck.as_uri()}#5")
    expect(foot).to_have_text("5 / 9")
    page.keyboard.press("ArrowRight")
    node = page.locator("section.shown [data-testid=nbgrad-node]").first
    if not node.count():
        page.keyboard.press("ArrowLeft")
    expect(node).to_be_visible()
    node.click()
    page.keyboard.press("PageUp")
    page.goto(f"{deck.as_uri()}#8")
    notes = page.locator("section.shown .notes")
    expect(notes).to_be_hidden()
    page.keyboard.press("n")
    expect(notes).to_be_visible()
    assert page.evaluate(SMALL) == []
    assert errors == []
    page.close()


def test_a_long_cell_is_cut_at_an_empty_line() -> None:
    cell = "\n".join([*["a = 1"] * 10, "", *["b = 1"] * 10])
    assert slides.parts(cell) == ["\n".join(["a = 1"] * 10), "\n".join(["b = 1"] * 10)]
    for part in slides.parts("\n".join(["x" * 150] * 20)):
        assert slides.high(part) <= slides.LINES


def test_a_long_table_is_cut_and_each_piece_has_its_head() -> None:
    rows = [f"| {number} |" for number in range(10)]
    assert slides.pieces("\n".join(["| a |", "|---|", *rows])) == [
        "\n".join(["| a |", "|---|", *rows[:7]]),
        "\n".join(["| a |", "|---|", *rows[7:]]),
    ]
    assert slides.pieces("- a\n" * 9) == ["- a\n" * 9]


def test_a_sentence_ends_where_its_marks_are_closed() -> None:
    start = "The rule of `a. B` is **short. And** it has (as it says. Here) "
    start += "more than two lines of a slide, which is quite enough for one point of it."
    assert slides.shortened(f"{start} The rest is for the notes.") == start
    assert slides.shortened("- a list. Whole.\n- It stays. Yes.") == "- a list. Whole.\n- It stays. Yes."
    assert slides.blocks("# A\ntext\n\n<details>\n\nfolded\n\n</details>\n\nmore") == [
        *("# A", "text", "<details>\n\nfolded\n\n</details>", "more")
    ]


def test_a_name_that_no_lesson_has_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no lesson begins with 99: 00_tour, 01_slope"):
        slides.main([str(tmp_path), "99"])

"""Write every lesson as a deck of slides: one HTML file that needs nothing else, and the same as PDF.

    python -m tools.slides build/slides         the decks of all lessons
    python -m tools.slides build/slides 01 04   these, by the beginning of their names
    python -m tools.slides build/folien --language de   in German

A deck is made from a lesson that ran. A heading begins a slide, and a slide has the first sentences of each paragraph
below it: the speaker notes have the whole text, the hints and the solutions. A prediction, its cell, its output and its
answer are slides of their own, in this order. The pictures of the HTML are alive. → and ← change the slide, N shows the
notes. Chromium writes the PDF, where it is installed.
"""

import argparse
import re
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from nbgrad.core.files import replace_file
from nbgrad.core.translation import SOURCE as ENGLISH
from nbgrad.lab import localization
from nbgrad.widgets.render.html_page import runtime
from tools import course, demo, pages
from tools.check_tools import chromium

LINES, CODE_WIDTH, TEXT_WIDTH = 14, 70, 64
"""How many lines a slide has room for, and how many letters a line of code and one of text have."""

_ANSI = re.compile(r"\x1b\[[\d;]*m")
_END = re.compile(r"[.?!]\)?(?=\s+[\"„(*`\[A-ZÄÖÜ$]|\s*$)")
_FORMATTER = HtmlFormatter(nowrap=True)

# A font size of 26.67 pixels at 1280 x 720 is 20 points. All lengths follow it.
STYLE = """
:root { color-scheme: light; font-size: min(2.0834vw, 3.7038vh); }
body { margin: 0; font: 1rem/1.35 system-ui, sans-serif; color: #1a1a2e; background: #fff; overflow: hidden; }
body > section { display: none; box-sizing: border-box; width: 100vw; height: 100vh; padding: 1.2rem 2rem 1rem;
  flex-direction: column; }
body > section.shown { display: flex; }
h1 { font-size: 1.7rem; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; line-height: 1.2; margin: 0 0 .6rem; color: #1d4ed8; }
.body { flex: 1; min-height: 0; }
.body > p, .body li { margin: 0 0 .5rem; }
.question { font-size: 1.3rem; }
pre, code, kbd { font: 1rem/1.25 ui-monospace, "DejaVu Sans Mono", monospace; }
code { background: #eef; border-radius: .2em; padding: 0 .15em; }
pre { margin: 0 0 .5rem; padding: .4rem .6rem; background: #f5f5f7; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.output { background: none; border-left: .2rem solid #1d4ed8; }
table { border-collapse: collapse; } td, th { padding: .1rem .6rem; border-bottom: 1px solid #999; text-align: left; }
img, .drawing svg { max-width: 100%; max-height: 21.5rem; }
.drawing > div:has(> .nbgrad) { zoom: 1.5; }
.drawing .nbgrad { --nbg-room: calc(21.5rem / 1.5 - 85px); }
.notes { display: none; }
.noted .shown .notes { display: block; position: fixed; inset: auto 0 0; max-height: 45vh; overflow: auto;
  padding: .6rem 2rem; background: #fffbe6; border-top: 2px solid #d97706; }
body > footer { position: fixed; right: 1rem; bottom: .2rem; color: #666; }
@page { size: 1280px 720px; margin: 0; }
@media print {
  :root { font-size: 26.667px; } body { overflow: visible; print-color-adjust: exact; }
  body > section { display: flex; width: 1280px; height: 720px; break-after: page; overflow: hidden; }
  body > section:last-of-type { break-after: auto; } body > footer, .noted .shown .notes { display: none; }
  .drawing > div:has(> .nbgrad) { display: none; }
  .drawing > div:has(> .nbgrad) + .nbgrad-still { display: block; }
}
"""

SCRIPT = """
const slides = [...document.querySelectorAll("body > section")], foot = document.querySelector("body > footer");
let at = 0;
function show(next) {
  at = Math.max(0, Math.min(slides.length - 1, next));
  slides.forEach((one, place) => one.classList.toggle("shown", place === at));
  foot.textContent = `${at + 1} / ${slides.length}`;
  history.replaceState(null, "", `#${at + 1}`);
}
const steps = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1, Home: -1e9, End: 1e9 };
addEventListener("keydown", (event) => {
  const own = !event.key.startsWith("Page") && event.target.closest?.("input, select, textarea, button, .nbgrad");
  if (own || event.ctrlKey || event.altKey || event.metaKey) return; // a picture has keys of its own
  if (event.key.toLowerCase() === "n") document.body.classList.toggle("noted");
  else if (event.key in steps) show(at + steps[event.key]);
  else return;
  event.preventDefault();
});
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1));
show((Number(location.hash.slice(1)) || 1) - 1);
"""

LICENCE, OUTCOME = "Licence", "{question}: what comes out"
MESSAGES = (LICENCE, OUTCOME)
"""The titles that this module adds."""

_DECK = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data:; font-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{slides}
<footer></footer>
<script>{script}</script>
{runtime}
</body>
</html>
"""


class Slide(NamedTuple):
    """A slide.

    Attributes:
        title: its heading, as Markdown.
        body: its content, as HTML.
        notes: those of the speaker, as HTML.
        room: how many lines it has room for besides its content.
    """

    title: str
    body: str
    notes: str = ""
    room: int = 0

    def html(self) -> str:
        """The element of the slide."""
        level = "h1" if 'class="goals"' in self.body else "h2"
        head = demo.markdown_to_html(f"{'#' * int(level[1])} {self.title}")
        head = re.sub(r"<a [^>]*>.*?</a>", "", re.sub(rf'<{level} id="[^"]*"', f"<{level}", head))
        notes = f'\n<aside class="notes">{self.notes}</aside>' if self.notes else ""
        return f'<section>\n{head}\n<div class="body">{self.body}</div>{notes}\n</section>'


class Deck:
    """The slides of a lesson that ran.

    Args:
        notebook: the lesson with its solutions, outputs and live pictures.
        edition: its language.
    """

    def __init__(self, notebook: NotebookNode, edition: course.Edition = course.Edition()) -> None:  # noqa: B008
        self._edition = edition
        answer, asked = edition.pattern(pages.ANSWER), edition.pattern(pages.PREDICT)
        self._answer = re.compile(rf"<details><summary>(?P<title>{answer})</summary>(?P<text>.*)</details>", re.DOTALL)
        self._question = re.compile(rf"(?:.*?)\*\*({asked})\.\*\*\s*(.*)", re.DOTALL)
        self._exercise = edition.said(localization.EXERCISE).partition("{")[0]
        self.slides: list[Slide] = []
        self.title = ""
        self._section = ""
        self._points: list[str] = []
        self._notes: list[str] = []
        self._asked = ""
        for cell in notebook.cells:
            if cell.source == edition.said(localization.LICENCE):
                self._flush()
                self.slides.append(Slide(edition.said(LICENCE), demo.markdown_to_html(cell.source)))
            elif cell.cell_type == "markdown":
                for block in blocks(cell.source):
                    self._text(block)
            elif "proof" not in cell.metadata.get("tags", []):
                self._cell(cell)
        self._flush()

    def html(self) -> str:
        """The deck as a page."""
        slides = "\n".join(one.html() for one in self.slides)
        return _DECK.format(
            language=self._edition.language,
            title=escape(self.title),
            style=STYLE + _FORMATTER.get_style_defs("pre"),
            slides=slides,
            script=SCRIPT,
            runtime=runtime() if 'class="nbgrad-picture"' in slides else "",
        )

    def _text(self, block: str) -> None:
        heading, answer = re.match(r"#+ (.+)", block), self._answer.match(block)
        if heading:
            self._flush()
            self._section = heading[1]
            self.title = self.title or heading[1]
        elif answer:
            self._flush()
            self._asked = ""
            points = [shortened(one) for one in blocks(answer["text"])]
            self._add(answer["title"], "\n\n".join(points), answer["text"], alone=True)
        elif block.startswith("<details"):
            self._notes.append(block)
        elif asked := self._question.match(block):
            self._flush()
            self._asked = asked[1]
            question = demo.markdown_to_html(asked[2])
            kind = "question" if len(asked[2]) < 350 else "body"
            self.slides.append(Slide(asked[1], f'<div class="{kind}">{question}</div>', demo.markdown_to_html(block)))
        else:
            for piece in pieces(block):
                self._point(piece)

    def _point(self, block: str) -> None:
        task = self._section.startswith(self._exercise) and not self._points
        point = block if task or block[:2] in ("- ", "$$", "| ") else shortened(block)
        if self._points and lines("\n\n".join([*self._points, point])) > LINES - 2:
            self._flush()
        self._points.append(point)
        self._notes.append(block)

    def _flush(self) -> None:
        """End the slide of the points so far."""
        if self._points:
            self._add(self._section, "\n\n".join(self._points), "\n\n".join(self._notes))
        elif self._notes and self.slides:
            last = self.slides.pop()
            self.slides.append(last._replace(notes=last.notes + demo.markdown_to_html("\n\n".join(self._notes))))
        self._points, self._notes = [], []

    def _add(self, title: str, text: str, notes: str, *, alone: bool = False) -> None:
        body = demo.markdown_to_html(text)
        if not self.slides:
            body = f'<div class="goals">{body}</div>'
        notes = demo.markdown_to_html(notes.replace("<details>", "<details open>"))
        alone = alone or title.startswith(self._exercise) or not self.slides
        self.slides.append(Slide(title, body, notes, 0 if alone else LINES - lines(text)))

    def _cell(self, cell: NotebookNode) -> None:
        graded = cell.metadata.get("nbgrader")
        if graded or self._section == self.title:  # the solution of an exercise, and the imports, are for the speaker
            if not graded or graded.solution:
                self._notes.append(f"```python\n{cell.source}\n```")
            return
        self._flush()
        for part in parts(cell.source):
            self._put(self._section, f"<pre>{colored(part)}</pre>", high(part))
        for output in cell.outputs:
            self._output(output)

    def _output(self, output: NotebookNode) -> None:
        data = output.get("data", {})
        title = self._edition.said(OUTCOME).format(question=self._asked) if self._asked else self._section
        if "text/html" in data:
            self.slides.append(Slide(title, f'<div class="drawing">{data["text/html"]}</div>'))
        elif "image/png" in data:
            self.slides.append(Slide(title, f'<img alt="" src="data:image/png;base64,{data["image/png"]}">'))
        elif "image/svg+xml" in data:
            self.slides.append(Slide(title, f'<div class="drawing">{data["image/svg+xml"]}</div>'))
        elif text := _ANSI.sub("", _printed(output)).strip("\n"):
            for part in parts(text):
                self._put(title, f'<pre class="output">{escape(part)}</pre>', high(part))

    def _put(self, title: str, body: str, height: int) -> None:
        """Add code or an output to the last slide, or on a new one if it has no room or another title."""
        last = self.slides[-1]
        if last.title == title and last.room > height:
            self.slides[-1] = last._replace(body=last.body + body, room=last.room - height - 1)
        else:
            self.slides.append(Slide(title, body, "", LINES - height))


def _printed(output: NotebookNode) -> str:
    """The text of an output; of an error, its last line."""
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def blocks(text: str) -> list[str]:
    """The paragraphs, lists and headings of a text; what is folded is one block."""
    found, depth = [""], 0
    for line in text.strip().split("\n"):
        if not line.strip() and not depth:
            found.append("")
        elif line.startswith("#") and not depth:
            found += [line, ""]
        else:
            found[-1] += f"{line}\n"
        depth += line.count("<details") - line.count("</details")
    return [one.strip() for one in found if one.strip()]


def pieces(block: str) -> list[str]:
    """A block; a table with more rows than a slide has room for is cut, and each piece has its head."""
    head, rows = block.split("\n")[:2], block.split("\n")[2:]
    if not block.startswith("|") or len(rows) <= LINES // 2:
        return [block]
    return ["\n".join([*head, *rows[at : at + LINES // 2]]) for at in range(0, len(rows), LINES // 2)]


def shortened(text: str) -> str:
    """The first sentences of a paragraph, two lines or more of a slide. A list and a formula stay whole."""
    if text.startswith(("- ", "|", "$$", "<")):
        return text
    for found in _END.finditer(text):
        start = text[: found.end()]
        whole = not any(start.count(mark) % 2 for mark in "`*$") and start.count("(") == start.count(")")
        if whole and len(start) > TEXT_WIDTH * 2:
            return start
    return text


def lines(text: str) -> int:
    """How many lines of a slide a text takes, about."""
    return sum(1 + len(line) // TEXT_WIDTH for line in text.split("\n") if line)


def high(text: str) -> int:
    """How many lines of a slide some code or an output takes."""
    return sum(max(1, len(textwrap.wrap(line, CODE_WIDTH))) for line in text.split("\n"))


def parts(text: str) -> list[str]:
    """A cell or an output in parts that a slide has room for, cut at empty lines where there are some."""
    found: list[str] = []
    part: list[str] = []
    room = LINES
    for line in text.split("\n"):
        if high(line) > room and part:
            cut = max((at for at, one in enumerate(part) if not one.strip()), default=0)
            head, part = (part[:cut], part[cut + 1 :]) if cut > LINES // 2 else (part, [])
            found.append("\n".join(head))
            room = LINES - high("\n".join(part))
        part.append(line)
        room -= high(line)
    return [one.strip("\n") for one in [*found, "\n".join(part)] if one.strip()]


def colored(code: str) -> str:
    """Code as HTML, with the colours of a notebook."""
    return str(highlight(code, get_lexer_by_name("ipython3"), _FORMATTER)).rstrip("\n")


def write(
    lesson: Path,
    target: Path,
    kept: Path = pages.KEPT,
    edition: course.Edition = course.Edition(),  # noqa: B008
) -> int:
    """Write the deck of a lesson, and return how many slides it has.

    Args:
        lesson: the notebook with the solutions.
        target: the HTML file. The PDF stands beside it, if there is a Chromium.
        kept: the folder of lessons that ran before.
        edition: the language of the lesson.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed that is not meant to.
        ValueError: the deck would load something from a network.
        subprocess.CalledProcessError: Chromium could not write the PDF.
    """
    deck = Deck(pages.ran(lesson, kept), edition)
    html = deck.html()
    if remote := demo.remote_references(html):
        raise ValueError(f"{target.name} would load from a network: {remote}")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, lambda file: file.write_text(html, "utf-8"))
    if browser := chromium():
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-pdf-header-footer"]
        pdf = f"--print-to-pdf={target.with_suffix('.pdf').resolve()}"
        subprocess.run([browser, *flags, pdf, target.resolve().as_uri()], check=True, capture_output=True)
    return len(deck.slides)


def main(arguments: list[str]) -> None:
    """Write the decks, and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m tools.slides", description="Write the lessons as slides.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[""], help="how the names of the lessons begin; default: all")
    parser.add_argument("--language", help="of the lessons, such as de")
    given = parser.parse_args(arguments)
    edition = course.ready(given.language)
    kept = pages.KEPT if edition.language == ENGLISH else pages.KEPT / edition.language
    chosen = [one for one in course.lessons() if one.name.startswith(tuple(given.names))]
    if not chosen:
        known = ", ".join(one.stem for one in course.lessons())
        raise SystemExit(f"no lesson begins with {' or '.join(given.names)}: {known}")
    for source in chosen:
        target = given.folder / f"{source.stem}.html"
        count = write(edition.solutions / f"{source.stem}.ipynb", target, kept, edition)
        print(f"{target}: {count} slides", flush=True)
    if not chromium():
        print("no Chromium here, so there are no PDF files: the HTML files can be printed from any browser")


if __name__ == "__main__":
    main(sys.argv[1:])

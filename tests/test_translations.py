"""Translations: the catalogues follow their sources, marks and code survive, and what is not translated is English."""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from string import Formatter

import nbformat
import pytest
from babel.messages.catalog import Message
from nbformat.v4 import new_markdown_cell, new_notebook, new_output

from nbgrad import lab
from nbgrad.core.translation import LANGUAGE, PAGE, languages, page_texts, translate, translate_count
from nbgrad.lab import lesson_text, localization
from nbgrad.lab.code_marks import marked
from nbgrad.lab.exercise import every
from tests.course.handed_in import Written, written
from tools import cells, course, pages, product_text, slides, translate as tool

pytestmark = pytest.mark.once

PLACES = [(language, kind) for language in tool.languages() for kind in tool.KINDS]
SOURCES = course.lessons()
WRITTEN = [one for lesson in range(1, 17) for one in written(lesson) if not one.right]
GERMAN = "de"

SOURCE = """# 3. A title
A paragraph that
goes on with `code`.

- one point,
  which goes on,
- and $x^2$.

| word | meaning |
|---|---|

~~~text
x  4  3
b     3   missing in front
~~~

{exercise 3.1}

<details><summary>Answer</summary>

**Yes.** See [this](../01_slope.ipynb).

</details>

```python exercise 3.1
%%autograd
text = "# no comment"  # a comment
### BEGIN SOLUTION
x = 1
### END SOLUTION
```
"""


def messages(language: str, kind: tool.Kind) -> list[Message]:
    return [one for one in tool.read(kind.path(language), language) if one.id]


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, GERMAN)


# The catalogues.


@pytest.mark.parametrize(("language", "kind"), PLACES, ids=[f"{one}-{kind.name}" for one, kind in PLACES])
def test_a_catalogue_is_in_step_with_its_sources(language: str, kind: tool.Kind) -> None:
    path = kind.path(language)
    known = {one.id for one in messages(language, kind)}
    assert known == set(kind.template()), "make translations"
    stand = {path: tool.written(tool.merged(tool.read(path, language), kind.template()))}
    stand[kind.compiled(language)] = tool.compiled(tool.read(path, language))
    if kind.page:
        stand[path.with_name(PAGE)] = tool.of_page(tool.read(path, language))
    old = [file.name for file, made in stand.items() if file.read_bytes() != made]  # pytest would show whole files
    assert not old, "make translations"


def test_every_text_of_the_pictures_has_a_translation() -> None:
    pictures = {one for path in (course.ROOT / "nbgrad").rglob("*.py") for one in product_text.marked(path)}
    kind = tool.KINDS[1]
    for language in tool.languages():
        lacking = [one.id for one in tool.missing(tool.read(kind.path(language), language))]
        pages = {one for one, files in kind.template().items() if any(file.endswith(".ts") for file in files)}
        assert [one for one in lacking if one in pictures | pages] == []
        assert page_texts(language).keys() == pages


def test_a_call_gives_the_values_that_its_text_names() -> None:
    for path in (course.ROOT / "nbgrad").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "translate"):
                continue
            given = {one.arg for one in call.keywords}
            if given and isinstance(call.args[0], ast.Constant):
                text = str(call.args[0].value)
                named = {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name}
                assert named == given, f"{path.name}:{call.lineno}"


def marks(text: str) -> Counter[str]:
    """The marks that a translation has to keep: code, mathematics, tags, the targets of links, and how much is bold."""
    code = re.findall(r"`[^`]+`", text)
    rest = re.sub(r"`[^`]+`", "", text)
    forms = (r"\$[^$]+\$", r"</?\w+[^>]*>", r"\]\([^)]*\)", r"\*\*", r"^\||\|$| \| ")
    return Counter([*code, *(one for form in forms for one in re.findall(form, rest))])


def holes(*texts: str) -> set[str]:
    parts = [part for text in texts for part in Formatter().parse(text)]
    return {f"{name}!{conversion}:{spec}" for _, name, spec, conversion in parts if name is not None}


ENGLISH_ONLY = {"plural!None:", "word!None:", "they!None:", "it!None:"}
"""Values that are an ending, a verb or a pronoun, which another language may not need."""


@pytest.mark.parametrize(("language", "kind"), PLACES, ids=[f"{one}-{kind.name}" for one, kind in PLACES])
def test_a_translation_keeps_marks_and_values(language: str, kind: tool.Kind) -> None:
    for one in messages(language, kind):
        if not one.string or one.fuzzy:
            continue
        if kind.name == "lessons":
            assert marks(one.string) == marks(one.id), one.id
        elif "python-brace-format" in one.flags and not _is_code(one.id):
            made, wanted = holes(*tool.texts(one.string)), holes(*tool.texts(one.id))
            assert made <= wanted <= made | ENGLISH_ONLY, one.id
        for text, said in zip(tool.texts(one.id), tool.texts(one.string), strict=True):
            for side in (str.lstrip, str.rstrip):
                assert (side(text) == text) == (side(said) == said), one.id


def _is_code(message: product_text.Message) -> bool:
    """Whether the braces of a text are code, such as those of a dict: such a text gets no values."""
    parts = Formatter().parse(tool.texts(message)[0])
    return any(not name.isidentifier() for _, name, _, _ in parts if name)


def test_a_change_of_the_source_makes_a_translation_fuzzy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    template = {"The gradient of a sum is handed on.": {"a.md"}, "Nudge it.": {"a.md"}}
    catalogue = tool.merged(tool.read(tmp_path / "none.po", GERMAN), template)
    catalogue["The gradient of a sum is handed on."].string = "weitergegeben"
    catalogue["Nudge it."].string = "stupse"
    again = {"The gradient of a sum is handed on as it is.": {"a.md"}, "Nudge it.": {"a.md"}, "New.": {"a.md"}}
    path = tmp_path / "de.po"
    path.write_bytes(tool.written(catalogue))
    path.write_bytes(tool.written(tool.merged(tool.read(path, GERMAN), again)))
    assert tool.written(tool.merged(tool.read(path, GERMAN), again)) == path.read_bytes(), "once more changes nothing"
    found = tool.read(path, GERMAN)
    changed = found["The gradient of a sum is handed on as it is."]
    assert (changed.string, changed.fuzzy) == ("weitergegeben", True)
    assert [one.id for one in tool.missing(found)] == ["The gradient of a sum is handed on as it is.", "New."]
    assert b"weitergegeben" not in tool.compiled(found)
    file = tmp_path / GERMAN / "LC_MESSAGES" / "lessons.mo"
    file.parent.mkdir(parents=True)
    file.write_bytes(tool.compiled(found))
    monkeypatch.setattr(localization, "FOLDER", tmp_path)
    said = localization.said_in(GERMAN)
    assert [said(one) for one in again] == ["The gradient of a sum is handed on as it is.", "stupse", "New."]


def test_the_report_counts_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = tool.Kind(
        "lessons",
        lambda: {"Nudge it.": {"a.md"}, "New.": {"a.md"}},
        *(lambda _: tmp_path / "de.po", lambda _: tmp_path / "de.mo"),
    )
    monkeypatch.setattr(tool, "KINDS", (kind,))
    assert tool.update(GERMAN) == "de, lessons: 0 of 2 messages translated\n     2 missing in a.md"
    tool.main(["--open", GERMAN])
    assert capsys.readouterr().out == "lessons, a.md:\n  Nudge it.\n\nlessons, a.md:\n  New.\n\n"
    with pytest.raises(SystemExit, match="there are no catalogues of 'fr'"):
        tool.main(["--open", "fr"])


# The text of a lesson.


def test_the_messages_of_a_lesson() -> None:
    assert lesson_text.messages(SOURCE) == [
        "A title", "A paragraph that goes on with `code`.", "one point, which goes on,", "and $x^2$.",
        "| word | meaning |", "b     3   missing in front", "Answer", "**Yes.** See [this](../01_slope.ipynb).",
        "a comment",
    ]  # fmt: skip


def test_only_the_messages_change() -> None:
    found = lesson_text.translated(SOURCE, str.upper)
    assert "# 3. A TITLE\nA PARAGRAPH THAT GOES ON WITH `CODE`.\n\n- ONE POINT, WHICH GOES ON,\n- AND $X^2$.\n" in found
    assert 'text = "# no comment"  # A COMMENT\n### BEGIN SOLUTION\nx = 1\n' in found
    assert "\n{exercise 3.1}\n\n<details><summary>ANSWER</summary>\n" in found
    rewrapped = SOURCE.replace("that\ngoes", "that goes").replace("point,\n  which", "point, which")
    assert lesson_text.messages(rewrapped) == lesson_text.messages(SOURCE)


def without_comments(code: str) -> list[tuple[int, str]]:
    lines = "\n".join("" if line.startswith(("%", "{")) else line for line in code.split("\n"))
    tokens = tokenize.generate_tokens(io.StringIO(lines).readline)
    left_out = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)
    return [(one.type, one.string) for one in tokens if one.type not in left_out]


@pytest.mark.parametrize("source", SOURCES, ids=[one.stem for one in SOURCES])
@pytest.mark.parametrize("language", tool.languages())
def test_a_lesson_in_another_language_has_the_same_code(
    source: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = source.read_text("utf-8")
    original = course.build(text, solved=True)
    monkeypatch.setenv(LANGUAGE, language)
    made = course.edition(language).notebook(text, solved=True)
    nbformat.validate(made)
    assert [cell.cell_type for cell in made.cells] == [cell.cell_type for cell in original.cells]
    pairs = [(one, other) for one, other in zip(original.cells, made.cells, strict=True) if one.cell_type == "code"]
    assert pairs[0][1].source.startswith(f"%env {LANGUAGE}={language}\n")
    for one, other in pairs:
        assert without_comments(other.source) == without_comments(one.source)
        assert other.metadata == one.metadata


def test_a_lesson_says_how_much_of_it_is_not_translated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    catalogue = tool.merged(tool.read(tmp_path / "none.po", GERMAN), {"A title": {"a"}, localization.PARTLY: {"a"}})
    catalogue["A title"].string = "Ein Titel"
    file = tmp_path / GERMAN / "LC_MESSAGES" / "lessons.mo"
    file.parent.mkdir(parents=True)
    file.write_bytes(tool.compiled(catalogue))
    monkeypatch.setattr(localization, "FOLDER", tmp_path)
    made = localization.in_language(course.build(SOURCE, solved=True), GERMAN)
    first = "# 3. Ein Titel\n\n*8 of 9 paragraphs of this lesson are not translated yet.*\n"
    assert made.cells[0].source.startswith(first)
    with pytest.raises(ValueError, match="language 'fr': the lessons are there in en, de"):
        localization.said_in("fr")


@pytest.mark.usefixtures("german")
def test_the_code_in_a_task_is_marked_as_in_english() -> None:
    for number, one in every().items():
        for text in (one.original, *one.hints):
            if translate(text) == text:
                continue
            said = one.text if text == one.original else translate(text)
            original, made = (
                set(re.findall(r"`([^`]+)`", one)) for one in (marked(text), localization.with_marks(text, said))
            )
            # A word that is a name in English may be none in a translation, as "gradient".
            needed = {name for name in original if len(name) == 1 or not name.isalpha()}
            assert needed <= made <= original, (number, said)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("source", SOURCES, ids=[one.stem for one in SOURCES])
def test_pages_and_slides_find_the_questions_of_a_lesson_in_german(source: Path) -> None:
    text, german = source.read_text("utf-8"), course.edition(GERMAN)
    closed, titles = [], []
    for edition in (course.Edition(), german):
        student, solved = (edition.notebook(text, solved=one) for one in (False, True))
        for cell in student.cells:
            if cell.cell_type == "code":
                cell.outputs = [new_output("stream", text="a number")]
        pages.close_answers(student, edition)
        closed.append([cell.metadata.get("closed") for cell in student.cells])
        titles.append([slide.title for slide in slides.Deck(solved, edition).slides])
    assert [german.said(one) if one else one for one in closed[0]] == closed[1]
    for english in (pages.PREDICT, pages.ANSWER, slides.LICENCE):
        words = [said(english).partition("{")[0] for said in (str, german.said)]
        counts = [sum(title.startswith(word) for title in found) for word, found in zip(words, titles, strict=True)]
        assert counts[0] == counts[1], words
    assert counts == [1, 1]


def test_the_index_of_the_pages_is_german(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_markdown_cell("# 1. Eine Lektion")], metadata=course.METADATA)
    nbformat.write(notebook, tmp_path / "01_one.ipynb")
    german = course.Edition(GERMAN, tmp_path, tmp_path / "solutions", localization.said_in(GERMAN))
    pages.write_all(tmp_path / "out", edition=german, kept=tmp_path / "kept")
    index = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert '<html lang="de">' in index
    assert "<h1>Die Lektionen</h1>" in index
    assert [one.parent.name for one in tmp_path.glob("kept/**/*.ipynb")] == [GERMAN]


def test_a_draft_keeps_the_outputs_of_the_same_code(tmp_path: Path) -> None:
    source, into = tmp_path / "01_one.md", course.Edition(student=tmp_path / "a", solutions=tmp_path / "b")
    source.write_text("# 1. One\n\n```python\n1 + 1\n```\n", "utf-8")
    target = into.solutions / "01_one.ipynb"
    course.write(source, "draft", into)
    notebook = nbformat.read(target, as_version=4)
    notebook.cells[1].outputs = [new_output("stream", text="2")]
    nbformat.write(notebook, target)
    source.write_text("# 1. Two\n\n```python\n1 + 1\n```\n", "utf-8")
    course.write(source, "draft", into)
    kept = nbformat.read(target, as_version=4)
    assert (kept.cells[0].source, kept.cells[1].outputs[0].text) == ("# 1. Two", "2")
    source.write_text("# 1. Two\n\n```python\n1 + 2\n```\n", "utf-8")
    course.write(source, "draft", into)
    assert nbformat.read(target, as_version=4).cells[1].outputs == []


@pytest.mark.usefixtures("german")
@pytest.mark.rotated(2)
@pytest.mark.parametrize("name", ["01_slope", "03_engine"])
def test_a_lesson_runs_in_german(name: str, tmp_path: Path) -> None:
    text = (course.SOURCE / f"{name}.md").read_text("utf-8")
    notebook = course.edition(GERMAN).notebook(text, solved=True)
    cells.run(notebook, tmp_path, timeout=120, keeps_widgets=False)
    said = [output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type != "stream"]
    shown = " ".join(str(one.get("data", {}).get("text/plain", "")) for one in said)
    assert f"{int(name[:2])}.1 ✓ richtig" in shown


# The texts of the product.


@pytest.mark.usefixtures("german")
def test_a_check_speaks_german() -> None:
    assert repr(lab.check("1.1", {"a": 6, "b": -4, "c": -2, "f": 4})) == "1.1 ✓ richtig"
    wrong = lab.check("1.1", {"a": -6, "b": 4, "c": 2, "f": -4})
    assert (wrong.kind, wrong.reason) == ("sign", "das Vorzeichen jedes Elements ist falsch")
    assert repr(wrong).startswith("1.1 ✗ noch nicht: das Vorzeichen jedes Elements ist falsch. Ein Tipp: nbgrad.lab.")
    assert "der Gradient von f: das ist L selbst" in lab.check("1.1", {"a": 6, "b": -4, "c": -2, "f": -8}).reason
    assert (
        lab.hint("1.2", 1)
        == "Tipp 1 von 3 zu 1.2: Bewege x um eine kleine Zahl h, und sieh, wie stark sich der Wert ändert."
    )
    assert lab.task("1.2").startswith("1.2 Eine Steigung durch Stupsen: Schreibe slope(function, x)")
    with pytest.raises(lab.WrongAnswer, match=r"1\.1: das Vorzeichen"):
        lab.require("1.1", {"a": -6, "b": 4, "c": 2, "f": -4})


RAISED = "löste"
"""A reason with this word goes on with the message of an error, which is English."""


@pytest.mark.usefixtures("german")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("answer", WRITTEN, ids=[one.place for one in WRITTEN])
def test_no_reason_is_half_english(answer: Written) -> None:
    reason = lab.check(answer.number, answer.value()).reason
    said = re.sub("'[^']*'", "", reason)  # the student's own words stay
    assert RAISED in said or not re.search(r"\b(?:the|is|are|of|and|with|which|from|where)\b", said), reason


@pytest.mark.usefixtures("german")
def test_values_are_translated_and_names_are_not() -> None:
    said = "{what} {count} is wrong, all others are right"
    assert translate(said, what=translate("row"), count=3).startswith("Zeile 3")
    assert translate("the gradient of {name} is missing", name="weight") == "der Gradient von weight fehlt"
    # A user may call a tensor like a word of the catalogue.
    assert translate("loss") == "Loss"
    assert translate("the gradient of {name} is missing", name="loss") == "der Gradient von loss fehlt"
    assert translate("no catalogue has this {name}", name="x") == "no catalogue has this x"
    assert translate_count(1, "{count:,} layer", "{count:,} layers") == "1 Schicht"
    assert translate_count(1200, "{count:,} layer", "{count:,} layers") == "1,200 Schichten"
    assert translate("") == ""


def test_without_a_language_texts_are_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LANGUAGE, raising=False)
    assert repr(lab.check("1.1", {"a": 6, "b": -4, "c": -2, "f": 4})) == "1.1 ✓ right"
    assert languages() == ["en", *tool.languages()]


def test_an_unknown_language_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LANGUAGE, "tlh")
    with pytest.warns(UserWarning, match="NBGRAD_LANGUAGE='tlh': there is no such language, only en, de"):
        assert translate("the sign is wrong") == "the sign is wrong"


def test_the_messages_of_a_module() -> None:
    code = '''
def judged(answer):
    """No message."""
    if answer is None:
        raise ValueError("the answer is nothing at all")
    if not answer:
        raise Refused(Deviation("not finite", "it has no numbers"))
    return translate("{a} is {b}", a=translate("large" if answer else "small"), b=translate("a {kind}", kind="loss"))
'''
    assert list(product_text.messages(ast.parse(code))) == [
        "it has no numbers", "{a} is {b}", "large", "small", "a {kind}",
    ]  # fmt: skip


def test_single_words_are_words_of_the_checks() -> None:
    paths = [path for pattern in product_text.CHECKS for path in course.ROOT.glob(pattern)]
    code = "".join(path.read_text("utf-8") for path in paths)
    assert [word for word in product_text.WORDS if f'"{word}"' not in code] == []

"""The lessons in another language: the texts of a notebook are replaced, and its code stays.

The catalogue is ``nbgrad/locale/LANGUAGE/LC_MESSAGES/lessons.mo``. The texts of the exercises are those of the checks.
"""

import gettext
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from nbgrad.core.translation import FOLDER, LANGUAGE, SOURCE, translate
from nbgrad.lab.code_marks import marked, marked_like
from nbgrad.lab.exercise import STUDENT, find
from nbgrad.lab.lesson_text import Said, translated, translated_code

LESSONS = "lessons"
"""The name of the catalogue, in gettext's sense its domain."""

LICENCE = (
    "*This lesson is part of nbgrad, © the nbgrad developers, under the MIT licence. You may use, change and hand on "
    "its text and its code, also in a course of your own, if this line stays.*"
)
UNANSWERED, HINT, EXERCISE = "your answer", "Hint {step}", "Exercise {number}: {title}"
PARTLY = "{open} of {count} paragraphs of this lesson are not translated yet."
MESSAGES = (LICENCE, UNANSWERED, HINT, EXERCISE, PARTLY)
"""The texts of a notebook that its source does not have."""

_EXERCISE = re.compile(r"^### Exercise (?P<number>[\d.]+): ", re.MULTILINE)
_LINK = re.compile(r"\]\((?=\d\d_\w+\.ipynb)")


def languages() -> list[str]:
    """The languages of the lessons: English, and those with a catalogue."""
    return [SOURCE, *sorted(path.parents[1].name for path in FOLDER.glob(f"*/LC_MESSAGES/{LESSONS}.mo"))]


def said_in(language: str) -> Said:
    """The function that translates a message of a lesson. Where there is no translation, it returns the message.

    Raises:
        ValueError: there is no catalogue of this language.
    """
    if language not in languages():
        raise ValueError(f"language {language!r}: the lessons are there in {', '.join(languages())}")
    return str if language == SOURCE else gettext.translation(LESSONS, FOLDER, [language]).gettext


def in_language(notebook: Mapping[str, Any], language: str) -> Any:
    """A lesson in another language, as a new notebook; the original stays as it is.

    A line below its title says how many of its paragraphs are not translated, if any. The first cell of code sets the
    language of the checks and the pictures.

    Args:
        notebook: in nbformat's form, as read from its file.
        language: such as "de".

    Raises:
        ValueError: there is no catalogue of this language.
    """
    said, made, same = said_in(language), deepcopy(notebook), list[bool]()

    def noted(message: str) -> str:
        same.append(said(message) == message)
        return said(message)

    for cell in made["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            cell["source"] = _code(source, said, noted)
        else:
            cell["source"] = said(source) if source == LICENCE else _text(source, noted, language)
    if any(same):
        title, end, rest = made["cells"][0]["source"].partition("\n")
        title += f"\n\n*{said(PARTLY).format(open=sum(same), count=len(same))}*"
        made["cells"][0]["source"] = title + end + rest
    first = next(cell for cell in made["cells"] if cell["cell_type"] == "code")
    first["source"] = f"%env {LANGUAGE}={language}\n{first['source']}"
    return made


def _code(source: str, said: Said, noted: Said) -> str:
    """A cell with its comments translated. A file of the student's engine is the same in all languages."""
    if source.startswith("%%writefile"):
        return re.sub(rf"# {UNANSWERED}$", f"# {said(UNANSWERED)}", source, flags=re.MULTILINE)
    return translated_code(source, lambda text: (said if text == UNANSWERED else noted)(text))


def _text(source: str, noted: Said, language: str) -> str:
    """A cell of text. Its exercises are made anew, from ``nbgrad.lab``."""
    parts, end = list[str](), 0
    for found in _EXERCISE.finditer(source):
        original = exercise_text(found["number"])
        if source.startswith(original, found.start()):
            parts.append(_paragraphs(source[end : found.start()], noted))
            parts.append(exercise_text(found["number"], language))
            end = found.start() + len(original)
    return "".join([*parts, _paragraphs(source[end:], noted)])


def _paragraphs(text: str, noted: Said) -> str:
    """A text with links as its source has them, which lies one folder below the notebook."""
    return translated(_LINK.sub("](../", text), noted).replace("](../", "](")


@contextmanager
def _speaking(language: str) -> Iterator[None]:
    """A context in which the checks speak a language, with the numbers of the lessons."""
    kept = {name: os.environ.pop(name, None) for name in (LANGUAGE, STUDENT)}
    os.environ[LANGUAGE] = language
    try:
        yield
    finally:
        del os.environ[LANGUAGE]
        os.environ.update({name: value for name, value in kept.items() if value is not None})


def exercise_text(number: str, language: str = SOURCE) -> str:
    """The title of an exercise, its task and its hints, with their code marked. Each hint is folded in the last one.

    Raises:
        KeyError: there is no exercise of this number.
    """
    exercise, said, hints = find(number), said_in(language), ""
    with _speaking(language):
        for step, hint in reversed(list(enumerate(exercise.hints, 1))):
            inner = f"\n\n{hints}" if hints else ""
            text, summary = with_marks(hint, translate(hint)), said(HINT).format(step=step)
            hints = f"<details><summary>{summary}</summary>\n\n{text}{inner}\n\n</details>"
        title = said(EXERCISE).format(number=number, title=translate(exercise.title))
        return f"### {title}\n\n{with_marks(exercise.original, exercise.text)}\n\n{hints}"


def with_marks(original: str, text: str) -> str:
    """A sentence of ``nbgrad.lab`` as Markdown, with its code marked: what is code is seen in the English original."""
    return marked(text, _escaped) if text == original else marked_like(original, text, _escaped)


def _escaped(text: str) -> str:
    """A sentence of ``nbgrad.lab`` as Markdown. Its stars, underscores and brackets are escaped."""
    return re.sub(r"([*_\[\]<>#`$])", r"\\\1", text)

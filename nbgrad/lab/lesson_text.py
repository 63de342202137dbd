"""The messages of a lesson: what a translator translates, in the order of the source.

A message is a paragraph, a point of a list, a heading, a row of a table, the title of a folded answer, a line of a
drawing, or a comment in a block of code. The lines of a paragraph are joined, so that a new line break in the source
changes no message. Code itself stays as it is, also the texts that it prints: what a student asks about it can then be
compared with the original.
"""

import io
import re
import tokenize
from collections.abc import Callable

Said = Callable[[str], str]
"""A function that translates a message."""

FENCE = re.compile(r"^```python(?P<words>[^\n`]*)\n(?P<code>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
"""A block of code of a lesson."""

_LEAD = re.compile(r"\s*(?:(?:[-*]|\d+\.|#{1,6})\s+)*")
_SUMMARY = re.compile(r"(?P<lead><details><summary>)(?P<message>.+)(?P<rest></summary>)")
_DRAWING = "~~~"
"""A line that begins or ends a drawing made of letters, whose lines stay as long as they are."""
_APART = re.compile(r"\{exercise [\d.]+\}|\+\+\+|</?\w+>")
_COMMENT = re.compile(r"# (?!fmt:|noqa|type:).*[^\W\d_]{2}")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def translated(source: str, said: Said) -> str:
    """The source of a lesson with each message replaced by what ``said`` returns of it."""
    parts, end = [], 0
    for found in FENCE.finditer(source):
        parts += [_of_text(source[end : found.start()], said), f"```python{found['words']}\n"]
        parts += [translated_code(found["code"], said), "```\n"]
        end = found.end()
    return "".join([*parts, _of_text(source[end:], said)])


def messages(source: str) -> list[str]:
    """The messages of a lesson, each once for every place in which it stands."""
    found: list[str] = []

    def noted(message: str) -> str:
        found.append(message)
        return message

    translated(source, noted)
    return found


def _of_text(text: str, said: Said) -> str:
    lines: list[str] = []
    lead, paragraph, drawn = "", list[str](), False

    def end() -> None:
        if paragraph:
            message = " ".join(paragraph)
            lines.append(lead + (said(message) if _LETTERS.search(message) else message))
            paragraph.clear()

    for line in text.split("\n"):
        begin = _LEAD.match(line)
        assert begin is not None  # it matches the empty text, too
        summary = _SUMMARY.fullmatch(line)
        if summary is not None:
            end()
            lines.append(f"{summary['lead']}{said(summary['message'])}{summary['rest']}")
        elif line.startswith(_DRAWING):
            end()
            drawn = not drawn
            lines.append(line)
        elif drawn:
            lines.append(said(line) if _LETTERS.search(line) else line)
        elif not line.strip() or _APART.fullmatch(line.strip()):
            end()
            lines.append(line)
        else:
            if begin[0].strip() or line.startswith("|") or not paragraph:
                end()
                lead = begin[0]
            paragraph.append(line[begin.end() :].rstrip())
            if "#" in lead:
                end()
    end()
    return "\n".join(lines)


def translated_code(code: str, said: Said) -> str:
    """A block of code with each comment replaced by what ``said`` returns of it. Magics and marks of graders stay.

    Raises:
        ValueError: it is no Python.
    """
    lines = code.split("\n")
    plain = ["" if line.startswith(("%", "!", "{")) else line for line in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(plain)).readline))
    except (tokenize.TokenError, IndentationError) as error:
        raise ValueError(f"a block of code cannot be read, so its comments are not found ({error}):\n{code}") from error
    for token in tokens:
        if token.type == tokenize.COMMENT and _COMMENT.match(token.string):
            row, column = token.start
            lines[row - 1] = f"{lines[row - 1][:column]}# {said(token.string[2:].rstrip())}"
    return "\n".join(lines)

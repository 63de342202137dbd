"""Text that is safe to draw, and how wide it will be.

The boxes are sized here, before any font is known: the drawings ask for a Helvetica-like system font, and the widths
below are Helvetica's with a margin for its wider relatives.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Any

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
"""The font of every drawing. Not the host's: the boxes are measured for this one."""

_MARGIN = 1.06
_BOLD = 1.07
WIDER = 1.12
"""Where DejaVu Sans is the only font of the list, a line is this many times as long as measured here."""

ADJUST = "ch-width .556"
"""The ``font-size-adjust`` with which a browser draws any font as wide as Helvetica."""

# Advance widths in thousandths of the font size, from Adobe's published font metrics for Helvetica.
_WIDTHS = {
    191: "'",
    222: "ijl",
    260: "|",
    278: " !,./:;I[\\]ft",
    333: "()-`r",
    334: "{}",
    355: '"',
    389: "*",
    469: "^",
    500: "Jckszvxy",
    556: "#$0123456789?L_abdeghnopqu",
    584: "+<=>~",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1015: "@",
}
_ADVANCE = {character: width for width, characters in _WIDTHS.items() for character in characters}

_REPLACED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
    # These reorder or hide their neighbours: a name could use them to look like another one.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
"""A control character, half of a surrogate pair, what is no character, or a direction override."""


def clean(text: str, *, lines: bool = False) -> str:
    """Replace what XML forbids and what would not stay in its place.

    Args:
        text: any string, hostile ones included.
        lines: keep line breaks (details are preformatted; labels have one line each).

    Returns:
        The text with each control character, lone surrogate and direction override replaced by a middle dot, and tabs
        (and line breaks unless ``lines``) by a space.
    """
    return _REPLACED.sub(lambda found: _replaced(found[0], lines), text)


def _replaced(character: str, lines: bool) -> str:
    if character == "\n":
        return "\n" if lines else " "
    return " " if character in "\t\r\u2028\u2029" else "·"


def cleaned(value: Any) -> Any:
    """A description or a part of it with every text clean, lines and lengths as they are."""
    if isinstance(value, str):
        return clean(value, lines=True)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(one) for key, one in value.items()}
    return [cleaned(one) for one in value] if isinstance(value, list | tuple) else value


def clip(text: str, length: int, *, lines: bool = False) -> str:
    """Clean a text and cut it to ``length`` characters, the last of them an ellipsis if any are missing."""
    # Cut before cleaning: a name of a million characters costs no more than a short one.
    text = clean(text[: length + 1], lines=lines)
    return text if len(text) <= length else text[: length - 1] + "…"


def clip_middle(text: str, length: int) -> str:
    """Clean a text and cut it to ``length`` characters in its middle: names differ at both ends."""
    if len(text) <= length:
        return clean(text)
    end = (length - 1) // 2
    return f"{clean(text[: length - 1 - end])}…{clean(text[-end:])}"


NABLA = "∇ "
"""The sign at the start of the line of a gradient. The SVG draws it as a shape, because many fonts lack it."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line in pixels, rather too much than too little."""
    return _pixels(advance(text), size, bold)


def gradient_width(text: str, size: float, *, bold: bool = False) -> tuple[float, float]:
    """The width of a line, and the width without the sign ``NABLA`` if the line begins with it."""
    whole = advance(text)
    return _pixels(whole, size, bold), _pixels(whole - (_SIGN if text.startswith(NABLA) else 0), size, bold)


def _pixels(thousandths: int, size: float, bold: bool) -> float:
    return thousandths / 1000 * size * _MARGIN * (_BOLD if bold else 1.0)


@lru_cache(1000)  # a picture has few shapes and few ops, and asks for each again and again
def advance(text: str) -> int:
    """How wide one line is, in thousandths of its font size."""
    return sum(_advance(character) for character in text)


def _advance(character: str) -> int:
    known = _ADVANCE.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character) or character == "\u200d":
        return 0
    if unicodedata.east_asian_width(character) in "WF":
        return 1150 if unicodedata.category(character) == "So" else 1000
    return 1000 if character in "…—→←↦Σ" else 720


def wrap(text: str, size: float, width: float) -> list[str]:
    """Break a sentence into lines no wider than ``width`` pixels in any font; a word that is too long is cut."""
    width /= WIDER
    rows: list[str] = []
    for word in text.split():
        if rows and text_width(f"{rows[-1]} {word}", size) <= width:
            rows[-1] += f" {word}"
            continue
        while text_width(word, size) > width and len(word) > 1:
            keep = max(1, int(len(word) * width / text_width(word, size)))
            rows.append(word[:keep])
            word = word[keep:]
        rows.append(word)
    return rows


_SIGN = advance(NABLA)

"""The sentences of ``nbgrad.lab`` as a notebook shows them: their code is shown as code."""

from html import escape

from nbgrad.lab.code_marks import marked
from nbgrad.options import Options

LETTERS = "20pt"
"""The letters on a projector."""

COLOURS = {"right": "#177d3d", "wrong": "#c1121f", "": "#7b8794"}
"""The colour of the line beside a sentence, by what it says of an answer."""


class Sentences(str):
    """A task or a hint: a string, which a notebook shows with its code as code."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return box(self)


def on_projector() -> bool:
    """Whether the user has set that pictures have the letters of a projector: then sentences have them too."""
    return Options().projector


def box(text: str, kind: str = "") -> str:
    """Sentences as HTML, beside a line of a colour.

    Args:
        text: plain text, or text with code between backticks.
        kind: a key of ``COLOURS``.
    """
    size = f"font-size:{LETTERS};" if on_projector() else ""
    parts = (text if "`" in text else marked(text)).split("`")
    words = "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))
    look = f"{size}line-height:1.4;padding:2px 12px;border-left:5px solid {COLOURS[kind]}"
    return f'<div class="nbgrad-sentences" style="{look}">{words}</div>'

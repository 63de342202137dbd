"""Write what the front end and the Python side of the view both know, from the Python side.

These are the interfaces of a description (``description.ts``), the words of the legend and the sizes of the edges
(``constants.ts``), and the colours (``colours.css``).

Run it with all that is made from the code: python tools/write.py. Build the bundle
afterwards: npm --prefix nbgrad/widgets run build
"""

import json
import sys
import types
from pathlib import Path
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, also where nbgrad is not installed

from nbgrad.widgets.description import schema, short_names, stage, tensor_summary  # noqa: E402
from nbgrad.widgets.layout import card, curves  # noqa: E402
from nbgrad.widgets.render import palette  # noqa: E402

SOURCES = ROOT / "nbgrad" / "widgets" / "src"

PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


NAMED = ("Kind", "ScopeKind", "Opens", "Form")
"""The literals that have a name in TypeScript too."""


def made() -> dict[Path, str]:
    """Every generated file with its new text."""
    return {
        SOURCES / "description.ts": interfaces(),
        SOURCES / "constants.ts": constants(),
        SOURCES / "colours.css": colours(),
    }


def _written(*paths: str) -> str:
    return f"Written by tools/write_view.py from {' and '.join(paths)}: run make write."


def typescript(hint: Any) -> str:
    """The TypeScript of a Python type.

    Raises:
        TypeError: there is none.
    """
    if hint in PLAIN:
        return PLAIN[hint]
    if is_typeddict(hint):
        return str(hint.__name__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        named = {getattr(schema, name): name for name in NAMED}
        return named[hint] if hint in named else " | ".join(f'"{value}"' for value in arguments)
    if origin is list:
        inner = typescript(arguments[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<string, {typescript(arguments[1])}>"
    if origin in (Union, types.UnionType):
        return " | ".join(typescript(argument) for argument in arguments)
    raise TypeError(f"no TypeScript for {hint}")


def interfaces() -> str:
    """The TypedDicts of a description, as interfaces of TypeScript."""
    lines = [f"// {_written('nbgrad/widgets/description/schema.py')}"]
    for name in NAMED:
        values = " | ".join(f'"{value}"' for value in get_args(getattr(schema, name)))
        lines += ["", f"export type {name} = {values};"]
    for name, thing in vars(schema).items():
        if is_typeddict(thing) and thing.__module__ == schema.__name__:
            hints = get_type_hints(thing, include_extras=True)
            sent = {field: hint for field, hint in hints.items() if schema.PYTHON_ONLY not in get_args(hint)}
            fields = [f"  {_field(field, hint)};" for field, hint in sent.items()]
            lines += ["", f"export interface {name} {{", *fields, "}"]
    return "\n".join(lines) + "\n"


def _field(name: str, hint: Any) -> str:
    if get_origin(hint) is NotRequired:
        return f"{name}?: {typescript(get_args(hint)[0])}"
    return f"{name}: {typescript(hint)}"


def constants() -> str:
    """The words of the legend, and the sizes of what is drawn."""
    lines = [f"// {_written('palette.py, curves.py, card.py', 'tensor_summary.py in nbgrad/widgets')}", ""]
    lines += ['import type { Kind } from "./description";', ""]
    lines += [
        "/** The meaning of each kind of node, in the order of the legend. */",
        *_record("MEANING", palette.MEANING, "Kind"),
    ]
    lines += ["", "/** The meaning of a folded box for a loop, and the meaning if there are loops and modules. */"]
    lines += _record("FOLDED", palette.FOLDED)
    bars = json.dumps(palette.BARS)
    lines += ["", "/** The addition to the legend if a folded box has a small chart. */"]
    lines += [f"export const BARS = {bars};"]
    lines += ["", "/** The meanings of the other signs of the legend. */", *_record("SIGNS", palette.SIGNS)]
    sizes = {
        "APART": (curves.APART, "Half the distance between the two lines of an edge."),
        "TIP_LENGTH": (curves.TIP_LENGTH, "How long an arrow head is."),
        "TIP_SIDE": (curves.TIP_SIDE, "How wide an arrow head is on each side of its line."),
        "BEHIND": (card.BEHIND, "How many pixels are seen of the boxes behind a folded one."),
        "BAR": (card.BAR, "How wide a bar of a small chart is, with the gap behind it."),
        "BAR_HEIGHT": (card.BAR_HEIGHT, "How high the highest bar is."),
        "TOGETHER": (
            card.TOGETHER,
            "The gradient is beside the last line if the two together have at most this many letters.",
        ),
        "SHORT": (short_names.SHORT, "How many letters a line of a short box has at most."),
        "NAME": (short_names.NAME, "How many letters a box has at most that is only a name."),
        "NARROW": (card.NARROW, "A text of fewer letters than this is left out rather than cut."),
        "HIGH": (card.HEAD_HEIGHT + card.LINE_HEIGHT + 2 * card.PAD_Y, "How high a short box is."),
        "LEGIBLE": (
            stage.READ / stage.LETTERS,
            "The scale at which the smallest letters of a picture can just be read.",
        ),
        "LARGEST": (stage.LARGEST, "A small picture is not seen larger than by this factor."),
        "LETTERS": (stage.LETTERS, "How high the smallest letters of a picture are."),
        "PROJECTOR": (stage.PROJECTOR, "How many times as large as elsewhere a picture is on a projector."),
        "WIDE": (tensor_summary.WIDE, "A list of numbers is broken after so many letters."),
    }
    for name, (size, words) in sizes.items():
        lines += ["", f"/** {words} */", f"export const {name} = {size:g};"]
    return "\n".join(lines) + "\n"


def _record(name: str, texts: Any, keys: str = "") -> list[str]:
    rows = [f"  {key}: {json.dumps(text, ensure_ascii=False)}," for key, text in texts.items()]
    return [f"export const {name}{f': Record<{keys}, string>' if keys else ''} = {{", *rows, "};"]


def colours() -> str:
    """The colours of every role, each for a light and for a dark page, as variables of the view."""
    lines = [f"/* {_written('nbgrad/widgets/render/palette.py')} */", ".nbgrad {"]
    for role, paint in palette.PAINTS.items():
        lines += [f"  --nbg-fill-{role}: light-dark({paint.fill}, {paint.dark_fill});"]
        lines += [f"  --nbg-line-{role}: light-dark({paint.stroke}, {paint.dark_stroke});"]
    for role, (light, dark) in (palette.INKS | palette.NUMBERS).items():
        lines.append(f"  --nbg-ink-{role}: light-dark({light}, {dark});")
    for role, (light, dark) in palette.LEVELS.items():
        lines.append(f"  --nbg-{role}: light-dark({light}, {dark});")
    for role, (light, dark) in palette.EDGES.items():
        lines.append(f"  --nbg-edge-{role}: light-dark({light}, {dark});")
    return "\n".join([*lines, "}", ""])

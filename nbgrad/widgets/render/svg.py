"""Picture -> SVG, and SVG -> PNG: the drawing for places where no script runs.

Colours are presentation attributes, for renderers that know no style sheet; a media query turns them dark. There is no
id, script or link in it, so any number of these can stand in one page, and a drawing depends on the picture alone.
"""

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from nbgrad.core.stages import stage
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import lines_of
from nbgrad.widgets.description.schema import Box, Description, Edge, Form, Jump, Layout, Node, Picture, Scope
from nbgrad.widgets.description.short_names import SHORT
from nbgrad.widgets.description.stage import PROJECTOR
from nbgrad.widgets.description.text_metrics import ADJUST, FONT, NABLA, WIDER, clip, gradient_width, text_width, wrap
from nbgrad.widgets.description.told import LISTED, told, unlisted
from nbgrad.widgets.layout.card import (
    BAR,
    BEHIND,
    HEAD_HEIGHT,
    HEAD_SIZE,
    LINE_HEIGHT,
    LINE_SIZE,
    LOW,
    PAD_X,
    PAD_Y,
    ROW_HEIGHT,
    TIGHT_Y,
    Card,
    bar_height,
)
from nbgrad.widgets.layout.curves import APART, Run, beside, closed, path, short as _n, sides, tip, tip_points
from nbgrad.widgets.layout.jumps import SIGN_SIZE
from nbgrad.widgets.layout.parts import LABEL_HEIGHT, LABEL_SIZE, MARK_SIZE, SCOPE_SIZE, label_lines, mark_text
from nbgrad.widgets.optional_packages import PartError, loading, needs
from nbgrad.widgets.render.palette import BARS, EDGES, FOLDED, HOTTEST, INKS, MEANING, PAINTS, SIGNS, heat
from nbgrad.widgets.render.png import smaller

PNG_WIDTH = 1000
_PNG_HEIGHT = 4000  # rendering time grows with the area
_LEGIBLE = 3.5  # pixels

_SIGN, _SIGN_GAP = 0.66, 0.3
"""The width of the sign of a gradient, and the gap between it and the number, in font sizes."""

_STROKE = 1.2
"""How wide lines are where nothing else is said."""

_PALE = 0.25
"""The opacity of parts that a film has not reached yet."""

_STEPS = 10
"""The number of steps of the scale of an overlay."""

_MARGIN, _TITLE, _ROW, _MIN_WIDTH = 16.0, 15.0, 16.0, 460.0


_LOOKS = {
    "faint": ' stroke-dasharray="4 3"',
    "back": ' stroke-dasharray="1 2.6" stroke-linecap="round"',
    "wrong": ' stroke-dasharray="5 3" stroke-width="2"',
}
"""How the lines of edges are drawn that are no plain line."""

LEGEND: dict[str, str] = {**MEANING, **SIGNS}
"""The meanings of the signs, in the order of the legend."""


class Moment(NamedTuple):
    """How far a training step has come in an image of a film.

    Attributes:
        said, more: what happens: two lines, the second may be empty.
        computed: the nodes whose values are there; all others are pale.
        reached: the nodes whose gradients are there.
        back: the edges along which a gradient has come back.
        current: the nodes at which it happens.
        forward: whether it is the forward, which knows nothing of gradients.
    """

    said: str
    more: str
    computed: frozenset[str]
    reached: frozenset[str]
    back: frozenset[str]
    current: frozenset[str]
    forward: bool = False


@stage("render")
def svg(picture: Picture, moment: Moment | None = None) -> str:
    """Draw a picture as one standalone SVG element; the same picture gives the same bytes.

    Args:
        picture: what to draw.
        moment: draw the graph as it is at that moment; two lines about it replace the summary and the notes.
    """
    description, layout = picture["description"], picture["layout"]
    inner = max(layout["width"], _MIN_WIDTH - 2 * _MARGIN)
    width = inner + 2 * _MARGIN
    rows: list[str] = []
    y = _header(rows, picture, inner, moment)
    left = _MARGIN + (inner - layout["width"]) / 2
    rows.append(f'<g transform="translate({_n(left)} {_n(y)})">')
    rows += _graph(picture, moment)
    rows.append("</g>")
    y = _legend(rows, picture, inner, y + layout["height"] + 8)
    label = quoteattr(f"{description['name']}: {description['summary']}")
    by = PROJECTOR if picture["projected"] else 1.0
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nbgrad-static" role="img" aria-label={label} '
        f'width="{_n(by * width)}" height="{_n(by * y)}" viewBox="0 0 {_n(width)} {_n(y)}" '
        f'style="max-width:100%;height:auto" font-family="{FONT}" fill="none" stroke-width="{_n(_STROKE)}">'
    )
    card = _rect({"x": 0.5, "y": 0.5, "width": width - 1, "height": y - 1}, 8, "card")
    style = f"{_STYLE}{_dark_style(coloured=bool(description['colour']))}"
    return "\n".join([head, f"<style>{style}</style>", card, *rows, "</svg>", ""])


def holding(drawing: str, data: bytes) -> str:
    """A drawing that holds its picture, as ``packed`` writes it: where a script runs, it makes the drawing live."""
    start, end = drawing.rsplit("</svg>", 1)
    return f'{start}<metadata class="{HELD}">{base64.b64encode(data).decode()}</metadata></svg>{end}'


HELD = "nbgrad-picture"
"""The class by which the script knows what a drawing holds; a page has a script element of that class."""


@stage("render")
def png(drawing: str, *, width: int = PNG_WIDTH) -> bytes:
    """Render an SVG as ``rendered`` does, to a PNG of fewer bytes."""
    return smaller(rendered(drawing, width=width))


def rendered(drawing: str, *, width: int = PNG_WIDTH) -> bytes:
    """Render an SVG of :func:`svg` to PNG bytes, at most ``width`` pixels wide, and smaller if it is very high.

    Letters that would be too small to read are left out: to draw them takes longer than all the rest.

    Raises:
        ModuleNotFoundError: ``resvg_py`` is not installed.
        PartError: it fails, or finds no font.
    """
    shown_width, shown_height = _size(drawing)
    zoom = min(1.0, width / shown_width, _PNG_HEIGHT / shown_height)
    sizes = sorted(set(re.findall(r'font-size="(\d+(?:\.\d+)?)"', drawing)))
    small = [f'text[font-size="{size}"]' for size in sizes if float(size) * zoom < _LEGIBLE]
    style = f"{','.join(small)}{{display:none}}" if small else None
    with needs("resvg-py", "a PNG of a graph", "resvg-py", "save it as .svg"):
        with loading:
            import resvg_py
        if not _writes(resvg_py.svg_to_bytes):
            raise PartError(
                "a PNG of a graph would have no letters, for no font is installed here. Install one, as with "
                "apt-get install fonts-dejavu-core   (or save it as .svg)"
            )
        return resvg_py.svg_to_bytes(
            svg_string=drawing, width=max(1, int(shown_width * zoom + 1e-6)), dpi=96, style_sheet=style
        )


@cache
def _writes(render: Callable[..., bytes]) -> bool:
    """Whether there is a font: without one, letters are left out and nothing is said."""
    empty, letter = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" font-family="{FONT}">{text}</svg>'
        for text in ("", '<text y="9" font-size="9">M</text>')
    )
    return render(svg_string=empty) != render(svg_string=letter)


def _size(drawing: str) -> tuple[float, float]:
    box = drawing.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    return float(box[0]), float(box[1])


# --- around the graph ----------------------------------------------------------------------------------------------


def _header(rows: list[str], picture: Picture, width: float, moment: Moment | None) -> float:
    description = picture["description"]
    y = _MARGIN + _TITLE
    for line in wrap(description["name"], _TITLE * 1.05, width):
        rows.append(_text(line, (_MARGIN, y), _TITLE, "ink", bold=True))
        y += _TITLE + 4
    if moment is not None:
        for line, role in ((moment.said, "ink"), (moment.more, "rule")):
            shown = [*wrap(line, 12, width - 12), "", ""]
            rows.append(_text(shown[0] + (" …" if shown[1] else ""), (_MARGIN, y), 12, role))
            y += _ROW
        return y - 4
    memory = description["memory"]
    about = description["summary"] if memory is None else f"{description['summary']}; {memory['text']}"
    for line in wrap(about, 12, width):
        rows.append(_text(line, (_MARGIN, y), 12, "muted"))
        y += _ROW
    if description["outcome"]:
        rows.append(_outcome(description, y))
        y += _ROW
    marks = marks_of(description)
    indent = 12.0 + 8 * any(len(mark) > 1 for mark in marks.values())
    for text, role, finding in _sentences(description):
        for index, line in enumerate(row for part in text.split("\n") for row in wrap(part, 12, width - 4 - indent)):
            if index == 0:
                rows.append(_text(marks.get(finding, "!"), (_MARGIN + 2, y), 12, role, bold=True))
            rows.append(_text(line, (_MARGIN + indent, y), 12, role))
            y += _ROW
    return y - 4


def _outcome(description: Description, y: float) -> str:
    """That nothing is wrong: a pointer that rests on it is told what was looked at. Many fonts have no ✓."""
    said, sound = description["outcome"].removeprefix("✓ "), description["outcome"].startswith("✓")
    title, role = _title("\n".join(description["checked"])), "sound" if sound else "muted"
    tick = f"M{_n(_MARGIN + 1)} {_n(y - 4)}l3 3.5 5 -8"
    sign = f'<path class="nbgs-sound-sign" d="{tick}" stroke="{INKS["sound"][0]}" stroke-width="1.8"/>'
    return f"<g>{title}{sign * sound}{_text(said, (_MARGIN + 13 * sound, y), 12, role)}</g>"


_ERRORS = ("nan", "failed", "inplace")
"""The kinds of findings that are drawn as errors."""


def _sentences(description: Description) -> Iterator[tuple[str, str, str]]:
    """The error that ended the cell, the findings and the notes: each with the name of its ink, and its finding."""
    notes, found = description["notes"], told(description)
    error = "".join(notes[:1]) if description["stopped"] else ""
    if error:
        yield error, "alarm", next((one.text for one in found if one.text in error), "")
    for one in found[:LISTED]:
        if one.text not in error:  # the error has said it
            yield translate("Finding: {text}", text=one.text), "alarm" if one.kind in _ERRORS else "note", one.text
    yield from [(line, "note", "") for line in unlisted(found)]
    yield from [(note, "note", "") for note in notes[bool(error) :]]


def marks_of(description: Description) -> dict[str, str]:
    """The mark of each finding that is told above the graph and stands at a box: no pointer tells which is which.

    A single one has the mark of all other sentences, "!"; several are numbered.
    """
    at_boxes = {badge["text"] for node in description["nodes"] for badge in node["badges"]}
    marked = [finding for _, _, finding in _sentences(description) if finding in at_boxes]
    return {finding: str(at) if len(marked) > 1 else "!" for at, finding in enumerate(marked, 1)}


def _legend(rows: list[str], picture: Picture, width: float, y: float) -> float:
    edges = picture["description"]["edges"]
    present: set[str] = {node["kind"] for node in picture["description"]["nodes"]}
    present |= {"root"} if any(node["root"] for node in picture["description"]["nodes"]) else set()
    present |= {"mark"} if picture["layout"]["marks"] else set()
    present |= {"jump"} if picture["layout"]["jumps"] else set()
    for edge in [one for one in edges if picture["layout"]["edges"][one["id"]]]:
        present |= {"faint" if edge["gradient"] is None else "value"}
        present |= {"wrong" if edge["spoiled"] else "back"} if edge["gradient"] else set()
    x = _MARGIN
    y += 10
    if (told := list(_scale(picture, x, y))) != []:
        rows += told
        y += 20
    loops = {loops_over(node) for node in picture["description"]["nodes"] if node["kind"] == "folded"}
    for key, meaning in LEGEND.items():
        if key not in present:
            continue
        if key == "folded":
            meaning = translate(FOLDED["both" if False in loops else "loop"] if True in loops else meaning)
            meaning += (
                translate(BARS) if any(node["bars"] is not None for node in picture["description"]["nodes"]) else ""
            )
        else:
            meaning = translate(meaning)
        step = 34 + text_width(meaning, 11) * WIDER + 10
        if x > _MARGIN and x + step - 10 > _MARGIN + width:
            x, y = _MARGIN, y + 20
        rows += _sample(key, x, y)
        rows.append(_text(meaning, (x + 34, y + 4), 11, "muted"))
        x += step
    return y + 10 + _MARGIN


def _scale(picture: Picture, x: float, y: float) -> Iterator[str]:
    """The scale of the colours, if the boxes are coloured by an overlay."""
    for one in picture["description"]["overlays"]:
        if one["key"] == picture["description"]["colour"]:
            yield _text(one["label"], (x, y + 4), 11, "ink")
            x += text_width(one["label"], 11) * WIDER + 10
            yield _text(one["low"], (x, y + 4), 11, "muted")
            x += text_width(one["low"], 11) * WIDER + 6
            for at in range(_STEPS + 1):
                box: Box = {"x": x + 9 * at, "y": y - 5, "width": 9, "height": 10}
                yield _heated(_rect(box, 0, "op", 0), at / _STEPS, outlined=False)
            yield _text(one["high"], (x + 9 * (_STEPS + 1) + 6, y + 4), 11, "muted")


def _heated(shape: str, level: float, *, outlined: bool = True) -> str:
    """A shape in the colour of a level, as the front end paints it: the higher the level, the wider its outline."""
    step = round(level * _STEPS)
    coloured = _filled(shape, f"nbgs-heat{step}", heat(HOTTEST * step / _STEPS, dark=False))
    if not outlined:
        return coloured
    return re.sub(r' stroke-width="[^"]*"', "", coloured).replace("/>", f' stroke-width="{_n(1 + 5 * level)}"/>')


def _filled(shape: str, role: str, colour: str) -> str:
    """A shape in another colour; on a dark page it has that of ``role``."""
    return re.sub(
        r' fill="[^"]*"', f' fill="{colour}"', re.sub(r'class="([^"]*)"', rf'class="\1 {role}"', shape, count=1)
    )


def _spoiled(shape: str) -> str:
    """A shape with the outline of a box whose numbers are not finite."""
    outlined = re.sub(r' stroke="[^"]*"', f' stroke="{EDGES["wrong"][0]}"', shape)
    return re.sub(r'class="([^"]*)"', r'class="\1 nbgs-wrong"', outlined, count=1)


def _bare(text: str) -> str:
    """A text, or a sign, as dark or as light as possible: its background may have a strong colour."""
    dark = re.sub(rf'(fill|stroke)="({"|".join(ink for ink, _ in INKS.values())})"', r'\1="#000000"', text)
    return re.sub(r'class="nbgs-\w+?(-sign)?"', r'class="nbgs-bare\1"', dark)


def loops_over(node: Node) -> bool:
    """Whether a folded node stands for iterations of a loop."""
    return node["calls"] == "iteration"


def _sample(key: str, x: float, y: float) -> list[str]:
    if key in EDGES:
        line = [[x, y], [x + 8, y], [x + 16, y], [x + 26, y]]
        runs = [line if key not in ("back", "wrong") else line[::-1]]
        return [_line(runs, key), _tips(key, _tip(runs))]
    box: Box = {"x": x, "y": y - 7, "width": 26, "height": 14}
    if key == "mark":
        return [_rect(box, 7, "mark"), _text("Σ", (x + 13, y + 4), 10, "ink", anchor="middle")]
    if key == "jump":
        return [_rect(box, 7, "jump"), _text("a", (x + 13, y + 4), 11, "ink", anchor="middle")]
    if key == "root":
        return [_rect(box, 4, "root", 2.5), _marker(x + 13, y)]
    return _shape(key, box)


# --- the graph -----------------------------------------------------------------------------------------------------


def _graph(picture: Picture, moment: Moment | None = None) -> Iterator[str]:
    description, layout = picture["description"], picture["layout"]
    if moment is not None:
        yield from _graph_then(picture, moment)
        return
    hidden = _hidden(picture)
    framed = [scope for scope in description["scopes"] if scope["id"] in layout["scopes"]]
    for scope in framed:
        yield _rect(layout["scopes"][scope["id"]], 8, "scope")
    yield from _edges(description, layout)
    for scope in framed:
        yield from _scope_label(scope, layout["scopes"][scope["id"]], layout["texts"][scope["id"]])
    marks = marks_of(description)
    for node in _shown(picture):
        yield from _node(node, layout, description["colour"], marks)
    for edge in description["edges"]:
        if edge["reduction"] is not None and edge["source"] not in hidden:
            yield f"<g>{_title(edge_title(edge))}"
            yield from _mark(edge, layout)
            yield "</g>"
    for jump in layout["jumps"]:
        yield f"<g>{_jump(jump)}</g>"


def _edges(description: Description, layout: Layout) -> Iterator[str]:
    """The lines with their labels, and then all arrow heads of a colour as one shape."""
    tips: defaultdict[str, list[str]] = defaultdict(list)
    for edge in [one for one in description["edges"] if layout["edges"][one["id"]]]:
        yield f"<g>{_title(edge_title(edge))}"
        for role, runs in _lines(edge, layout):
            yield _line(runs, role)
            tips[role].append(_tip(runs))
        if edge["id"] in layout["labels"]:
            yield from _labels(edge, layout["labels"][edge["id"]], layout["texts"])
        yield "</g>"
    yield from [_tips(role, "".join(shapes)) for role, shapes in tips.items()]


def _jump(jump: Jump) -> str:
    """The sign at one end of a line that is not drawn: its letters, and what stands at the other end."""
    at = (_middle(jump["box"]), jump["box"]["y"] + 11.5)
    letters = _text(jump["letters"], at, SIGN_SIZE, "ink", anchor="middle", bold=True).removesuffix("</text>")
    name = f'<tspan dx="4" font-weight="normal">{escape(jump["text"])}</tspan>' if jump["text"] else ""
    return f"{_rect(jump['box'], 7, 'jump', 1)}{letters}{name}</text>"


def _graph_then(picture: Picture, moment: Moment) -> Iterator[str]:
    """The graph at a moment of the step: later parts are pale, or not drawn."""
    description, layout = picture["description"], picture["layout"]
    for scope in [scope for scope in description["scopes"] if scope["id"] in layout["scopes"]]:
        yield _rect(layout["scopes"][scope["id"]], 8, "scope")
        yield from _scope_label(scope, layout["scopes"][scope["id"]], layout["texts"][scope["id"]])
    for edge in [one for one in description["edges"] if layout["edges"][one["id"]]]:
        came = edge["id"] in moment.back
        taken = edge["target"] in moment.computed
        lines = _lines(edge, layout) if came or edge["gradient"] is None else _lines(edge, layout)[:1]
        arrows = [_line(runs, role) + _tips(role, _tip(runs)) for role, runs in lines]
        yield f'<g opacity="{1 if taken else _PALE}">{"".join(arrows)}</g>'
    targets = {edge["id"]: edge["target"] for edge in description["edges"]}
    for jump in layout["jumps"]:
        taken = any(targets[edge] in moment.computed for edge in jump["edges"])
        yield f'<g opacity="{1 if taken else _PALE}">{_jump(jump)}</g>'
    hidden = _hidden(picture)
    for node in _shown(picture):
        known = node["id"] in moment.reached
        rule = node["rule"]
        if rule is not None and not known:  # padded to the length of the gradient, so that it stands at the same place
            rule = None if moment.forward else f"{NABLA}?".ljust(len(rule))
        then: Node = {**node, "rule": rule, "bars": node["bars"] if known else None, "badges": []}
        box = layout["nodes"][node["id"]]
        yield f'<g opacity="{1 if node["id"] in moment.computed else _PALE}">'
        yield from _node(then, layout, "", {})
        if node["id"] in moment.current:
            colour = EDGES["value" if moment.forward else "back"][0]
            x, y, width, height = map(_n, (box["x"] - 3, box["y"] - 3, box["width"] + 6, box["height"] + 6))
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" stroke="{colour}" '
            yield 'stroke-width="3"/>'
        yield "</g>"
    for edge in description["edges"]:
        if edge["reduction"] is not None and edge["id"] in moment.back and edge["source"] not in hidden:
            yield from _mark(edge, layout)


def _mark(edge: Edge, layout: Layout) -> Iterator[str]:
    """The sum with which the engine undid a broadcast."""
    box = layout["marks"][edge["id"]]
    yield _rect(box, box["height"] / 2, "mark")
    text = mark_text(edge, layout["forms"].get(edge["id"], "card"))
    yield _text(text, (_middle(box), box["y"] + 12.5), MARK_SIZE, "ink", anchor="middle")


def edge_title(edge: Edge) -> str:
    """Say in one line what went along an edge, both ways."""
    came = edge["gradient"] and translate("; gradient {edge}", edge=edge["gradient"])
    gradient = f"; {edge['mismatch']}" if edge["mismatch"] else translate("; no gradient") if came is None else came
    reduction = "" if edge["reduction"] is None else translate("; summed {edge}", edge=edge["reduction"]["text"])
    return f"{edge['input'] or translate('inputs')}: {edge['label']}{gradient}{reduction}"


def _scope_label(scope: Scope, box: Box, wide: float) -> Iterator[str]:
    # On a patch of its own, over the edges, which may come in through the label.
    width = min(wide + 8, box["width"] - 8)
    patch: Box = {"x": box["x"] + 6, "y": box["y"] + 4, "width": width, "height": 16}
    yield _rect(patch, 3, "scope", 0)
    yield _text(scope["label"], (box["x"] + 10, box["y"] + 16), SCOPE_SIZE, "muted", bold=True)


def _hidden(picture: Picture) -> set[str]:
    """The rows of the boxes that are no cards: they are not drawn."""
    return {node["id"] for node in picture["description"]["nodes"] if node["row"] in picture["layout"]["forms"]}


def _shown(picture: Picture) -> list[Node]:
    """The nodes that are drawn: boxes, and then the rows, which lie over the box that they are in."""
    hidden = _hidden(picture)
    nodes = [node for node in picture["description"]["nodes"] if node["id"] not in hidden]
    return sorted(nodes, key=lambda one: one["row"] is not None)


def _node(node: Node, layout: Layout, colour: str, marks: dict[str, str]) -> Iterator[str]:
    """A node in the form of its box.

    Args:
        node: what to draw.
        layout: where, and in which form.
        colour: the key of the overlay.
        marks: of the findings.
    """
    kind, box, rule = node["kind"], layout["nodes"][node["id"]], layout["texts"].get(node["id"])
    form = layout["forms"].get(node["id"], "card")
    bars = "" if node["bars"] is None else translate("; bars: {node}", node=node["bars"]["text"])
    why = [translate("; gradient {edge}", edge=one["text"]) for one in node["details"] if one.get("role") == "unknown"]
    meaning = translate(FOLDED["loop"] if loops_over(node) else LEGEND[kind])
    title = f"{lines_of(node)[0]} ({meaning}){bars}{''.join(why)}"
    yield f"<g>{_title(title)}"
    if kind == "folded":
        box = {**box, "width": box["width"] - BEHIND, "height": box["height"] - BEHIND}
    if node["root"]:
        shapes = [_rect(box, 4, "root", 2.5)]
    else:
        dashed = ' stroke-dasharray="5 3"' if kind == "constant" else ""
        shapes = [_rect(box, 4, kind, 1, dashed)] if node["row"] is not None else _shape(kind, box)
    level = node["levels"].get(colour)
    if level is not None:  # a second outline inside would be hidden
        shapes = [_heated(one, level) for one in (shapes[:1] if kind == "parameter" else shapes)]
    elif not colour and node["spoiled"]:
        shapes = [_spoiled(one) for one in shapes]
    elif colour:
        shapes = [_filled(one, "nbgs-plain", PAINTS["card"].fill) for one in shapes]
    yield from shapes
    if node["root"]:
        yield _marker(box["x"] + 15, box["y"] + (14 if form not in LOW else 14 - PAD_Y + TIGHT_Y))
    card = _card(node, box, rule, form)
    yield from card if level is None else map(_bare, card)
    for position, badge in enumerate(node["badges"][:3]):
        x = box["x"] + box["width"] - 4 - 17 * position
        yield f'{_title(badge["text"])}<circle class="nbgs-failed" cx="{_n(x)}" cy="{_n(box["y"])}" r="8" '
        yield f'fill="{PAINTS["failed"].fill}" stroke="{PAINTS["failed"].stroke}"/>'
        mark = marks.get(badge["text"], "!")
        yield _text(mark, (x, box["y"] + 4), 11 if len(mark) == 1 else 9, "alarm", anchor="middle", bold=True)
    yield "</g>"


def _card(node: Node, box: Box, rule: float | None, form: Form) -> Iterator[str]:
    """The texts of a node: from the left side on, the gradient at the right side.

    The line of the gradient is ``rule`` pixels wide after its sign.
    """
    card, row = Card.of(node, form), node["row"] is not None
    round_ends = node["kind"] in ("leaf", "input") and not row
    left, right = box["x"] + PAD_X + 4 * round_ends, box["x"] + box["width"] - PAD_X - 4 * round_ends
    y = box["y"] + (12 if row else (TIGHT_Y if form in LOW else PAD_Y) + HEAD_SIZE)
    tail = (
        f'<tspan dx="6" class="nbgs-muted" fill="{INKS["muted"][0]}" font-size="{_n(LINE_SIZE)}" '
        f'font-weight="normal">{escape(card.tail)}</tspan>'
        if card.tail
        else ""
    )
    bold = node["kind"] in ("op", "folded", "failed")
    head = _text(card.head, (left + 16 * node["root"], y), LINE_SIZE if row else HEAD_SIZE, "ink", bold=bold)
    yield head.removesuffix("</text>") + f"{tail}</text>"
    if node["bars"] is not None and form not in LOW:
        yield _bars(node["bars"]["heights"], right, y + card.charted * (HEAD_HEIGHT - 1))
    y += (ROW_HEIGHT if row else HEAD_HEIGHT) - 1
    numbers = node["label"][slice(*(node["numbers"] or [0, 0]))] if "value" in node["spoiled"] else []
    for line in card.lines:
        spoiled = any(line in (one, clip(one, SHORT)) for one in numbers)
        yield _text(line, (left, y), LINE_SIZE, "alarm" if spoiled else "muted")
        y += LINE_HEIGHT
    if card.rule:
        first, *rest = card.rule
        y -= (LINE_HEIGHT if card.lines else ROW_HEIGHT - 1) * card.beside
        # Beside the last line it ends at the right side, in the widest of the fonts.
        x = right - (_SIGN + _SIGN_GAP) * LINE_SIZE - (rule or 0.0) * WIDER if card.beside else left
        ink = "alarm" if "gradient" in node["spoiled"] else "rule"
        yield _gradient(first, (x, y), LINE_SIZE, ink, None, bold=True)
        for line in rest:
            y += LINE_HEIGHT
            yield _text(line, (left, y), LINE_SIZE, ink, bold=True)


def _bars(heights: str, right: float, foot: float) -> str:
    """The bars of a small chart, which stand at ``foot`` and end at ``right``."""
    left = right - BAR * len(heights)
    d = "".join(
        f"M{_n(left + BAR * at)} {_n(foot)}h{_n(BAR - 1)}v{_n(-high)}h{_n(1 - BAR)}z"
        for at, letter in enumerate(heights)
        if letter != "-" and (high := bar_height(letter))
    )
    return f'<path class="nbgs-rule" d="{d}" fill="{INKS["rule"][0]}"/>'


def _shape(kind: str, box: Box) -> list[str]:
    """Each kind has its outline: colour alone would leave some readers out."""
    if kind == "parameter":
        inner: Box = {
            "x": box["x"] + 3, "y": box["y"] + 3, "width": box["width"] - 6, "height": box["height"] - 6,
        }  # fmt: skip
        return [_rect(box, 8, kind), _rect(inner, 5, kind, 0.8)]
    if kind == "folded":
        boxes: list[Box] = [{**box, "x": box["x"] + by, "y": box["y"] + by} for by in (BEHIND, BEHIND / 2, 0)]
        return [_rect(one, 4, kind) for one in boxes]
    if kind in ("leaf", "outside"):
        dots = ' stroke-dasharray="1.5 3" stroke-linecap="round"' if kind == "outside" else ""
        return [_rect(box, min(26, box["height"] / 2) if kind == "leaf" else 8, kind, 1.4, dots)]
    if kind == "input":
        return [_octagon(box)]
    if kind == "constant":
        return [_rect(box, 8, kind, 1.2, ' stroke-dasharray="5 3"')]
    return [_rect(box, 5, "failed" if kind == "failed" else "op")]


def _octagon(box: Box) -> str:
    x, y, right, bottom = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
    cut = min(9.0, box["height"] / 3)
    corners = [
        *((x + cut, y), (right - cut, y), (right, y + cut), (right, bottom - cut)),
        *((right - cut, bottom), (x + cut, bottom), (x, bottom - cut), (x, y + cut)),
    ]
    points = " ".join(f"{_n(a)},{_n(b)}" for a, b in corners)
    paint = PAINTS["input"]
    look = f'fill="{paint.fill}" stroke="{paint.stroke}"'
    return f'<polygon class="nbgs-input" points="{points}" {look}/>'


def _lines(edge: Edge, layout: Layout) -> list[tuple[str, list[Run]]]:
    """The line of the value and, beside it in the other direction, that of the gradient: with their roles."""
    runs, mark = layout["edges"][edge["id"]], layout["marks"].get(edge["id"])
    if edge["gradient"] is None:
        return [("faint", runs)]
    stops = [layout["nodes"].get(edge["source"]), *[mark] * (len(runs) - 1), layout["nodes"].get(edge["target"])]
    ended = [(run, sides(run, ends)) for run, ends in zip(runs, pairwise(stops), strict=True)]
    if not edge["gradient"]:
        return [("value", [beside(run, 0, ends) for run, ends in ended])]
    forward = [beside(run, APART, ends) for run, ends in ended]
    back = [beside(run, -APART, ends)[::-1] for run, ends in reversed(ended)]
    return [
        ("value", forward),
        ("wrong" if edge["spoiled"] or edge["mismatch"] else "back", back),
    ]


def _line(runs: list[Run], role: str) -> str:
    d = "".join(map(path, runs))
    return f'<path class="nbgs-{role}" d="{d}" stroke="{EDGES[role][0]}"{_LOOKS.get(role, "")}/>'


def _tip(runs: list[Run]) -> str:
    """The arrow head at the end of a line, as a part of a path."""
    return closed(tip_points(*tip(runs[-1])))


def _tips(role: str, shapes: str) -> str:
    return f'<path class="nbgs-{role}-tip" d="{shapes}" fill="{EDGES[role][0]}"/>'


def _labels(edge: Edge, box: Box, texts: dict[str, float]) -> Iterator[str]:
    lines = label_lines(edge) if edge["reduction"] is None else [edge["label"]]
    for index, line in enumerate(lines):
        role = "muted" if index == 0 else "rule" if edge["mismatch"] is None else "alarm"
        at = (_middle(box), box["y"] + 10 + LABEL_HEIGHT * index)
        yield _label(line, at, role, texts.get(edge["id"]) if index else None)


# --- one element ---------------------------------------------------------------------------------------------------


def _middle(box: Box) -> float:
    return box["x"] + box["width"] / 2


def _width(stroke: float) -> str:
    return "" if stroke == _STROKE else f' stroke-width="{_n(stroke)}"'


def _rect(box: Box, radius: float, role: str, stroke: float = _STROKE, more: str = "") -> str:
    paint = PAINTS[role]
    return (
        f'<rect class="nbgs-{role}" x="{_n(box["x"])}" y="{_n(box["y"])}" width="{_n(box["width"])}" '
        f'height="{_n(box["height"])}" rx="{_n(radius)}" fill="{paint.fill}" stroke="{paint.stroke}"'
        f"{_width(stroke)}{more}/>"
    )


def _marker(x: float, y: float) -> str:
    """An arrow that points up, where the backward sets out: a triangle alone would look like a warning."""
    corners = ((0, -6), (5, 0), (2, 0), (2, 5), (-2, 5), (-2, 0), (-5, 0))
    points = " ".join(f"{_n(x + right)},{_n(y + down)}" for right, down in corners)
    return f'<polygon class="nbgs-root-sign" points="{points}" fill="{PAINTS["root"].stroke}"/>'


def _label(text: str, at: tuple[float, float], role: str, wide: float | None) -> str:
    """The text of an edge, twice: the outline of the first hides the edges that cross it."""
    if wide is None:
        words, halo = (_text(text, at, LABEL_SIZE, ink, anchor="middle") for ink in (role, "halo"))
    else:
        words, halo = (_gradient(text, at, LABEL_SIZE, ink, wide) for ink in (role, "halo"))
    outline = f'stroke="{INKS["halo"][0]}" stroke-width="3" stroke-linejoin="round"'
    return halo.replace("<text ", f"<text {outline} ") + words


def _text(text: str, at: tuple[float, float], size: float, role: str, *, anchor: str = "", bold: bool = False) -> str:
    if text.startswith(NABLA):  # a name that the user chose
        wide = gradient_width(text, size, bold=bold)[1] if anchor == "middle" else None
        return _gradient(text, at, size, role, wide, bold=bold)
    colour = INKS[role][0]
    weight = ' font-weight="bold"' if bold else ""
    place = f' text-anchor="{anchor}"' if anchor else ""
    return (
        f'<text class="nbgs-{role}" x="{_n(at[0])}" y="{_n(at[1])}" font-size="{_n(size)}" fill="{colour}"'
        f"{weight}{place}>{escape(text)}</text>"
    )


def _gradient(
    text: str,
    at: tuple[float, float],
    size: float,
    role: str,
    wide: float | None,
    *,
    bold: bool = False,
) -> str:
    """A text that begins with the sign of a gradient. The sign is drawn as a shape, because many fonts lack it.

    Args:
        text: the line, with the sign.
        at: its middle, or its beginning.
        size: of the font.
        role: of its ink.
        wide: how wide the line is after the sign, where ``at`` is its middle; None where it is its beginning.
        bold: whether the font is.
    """
    sign, gap = _SIGN * size, _SIGN_GAP * size
    x, y = at
    if wide is not None:
        x -= (sign + gap + wide) / 2
    top = y - 0.66 * size
    corners = closed([[x, top], [x + sign, top], [x + sign / 2, y]])
    look = f'stroke="{INKS[role][0]}" stroke-width="{(0.14 if bold else 0.1) * size:.1f}"'
    shape = f'<path class="nbgs-{role}-sign" d="{corners}" {look}/>'
    return shape + _text(text.removeprefix(NABLA), (x + sign + gap, y), size, role, bold=bold)


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _dark_style(*, coloured: bool) -> str:
    rules = [f".nbgs-{role}{{fill:{p.dark_fill};stroke:{p.dark_stroke}}}" for role, p in PAINTS.items()]
    rules += [f".nbgs-{role}{{fill:{dark}}}.nbgs-{role}-sign{{stroke:{dark}}}" for role, (_, dark) in INKS.items()]
    rules += [f".nbgs-{role}{{stroke:{dark}}}.nbgs-{role}-tip{{fill:{dark}}}" for role, (_, dark) in EDGES.items()]
    rules += [f".nbgs-halo{{stroke:{INKS['halo'][1]}}}"]
    rules += [f".nbgs-root-sign{{fill:{PAINTS['root'].dark_stroke}}}"]
    if coloured:
        rules += [
            f".nbgs-bare{{fill:#fff}}.nbgs-bare-sign{{stroke:#fff}}.nbgs-plain{{fill:{PAINTS['card'].dark_fill}}}"
        ]
        rules += [f".nbgs-heat{at}{{fill:{heat(HOTTEST * at / _STEPS, dark=True)}}}" for at in range(_STEPS + 1)]
    return f"@media (prefers-color-scheme:dark){{{''.join(rules)}}}"


_STYLE = (
    f".nbgrad-static text{{font-size-adjust:{ADJUST}}}"
    "@media print{.nbgrad-static:not(:root){max-width:100%!important;max-height:95vh;break-inside:avoid}}"
)
"""Letters as wide as they were measured, and the whole on one page of paper."""

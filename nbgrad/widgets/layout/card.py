"""The lines of a box and of the rows in it, and how large they make it.

``src/draw.ts`` breaks lines in the same way, by their letters: it knows no font. A test in a browser compares both.
"""

from typing import NamedTuple, Self

from nbgrad.widgets.description.schema import Form, Node
from nbgrad.widgets.description.short_names import NAME, SHORT
from nbgrad.widgets.description.tensor_summary import broken
from nbgrad.widgets.description.text_metrics import NABLA, WIDER, clip, clip_middle, gradient_width, text_width

HEAD_SIZE, LINE_SIZE = 13.0, 11.0
HEAD_HEIGHT, LINE_HEIGHT, ROW_HEIGHT, MARK_HEIGHT = 17.0, 14.0, 15.0, 17.0
PAD_X, PAD_Y, INSET = 10.0, 5.0, 5.0
TIGHT_Y = 2.0
"""The room above and below a line that stands alone in its box."""

LOW: tuple[Form, ...] = ("line", "name")
"""The forms of a box with one line."""

BEHIND = 5.0
"""How much of the boxes behind a folded box is seen, in pixels. It is part of the box: else it would hide arrows."""

TOGETHER = 36
"""The last line of a box and its gradient stand beside each other if they have no more letters than this."""

NARROW = 5
"""A text of fewer letters than this is left out rather than cut."""

_GAP = 10.0

BAR, BAR_HEIGHT = 3.0, 10.0
"""How wide a bar of a small chart is with the gap behind it, and how high the highest one."""


class Card(NamedTuple):
    """The texts of a box or of a row.

    Attributes:
        head: the first line: a name.
        tail: after it, paler: what tells an op from others; the shape of a row.
        lines: below it.
        rule: the lines of the gradient.
        beside: whether the gradient is one line that stands at the right end of the last line.
        charted: the line at whose right end the bars stand; 0 is the first line.
    """

    head: str
    tail: str
    lines: list[str]
    rule: list[str]
    beside: bool
    charted: int

    @classmethod
    def of(cls, node: Node, form: Form = "card") -> Self:
        """The texts of a node of a description that is drawn, in this form of its box."""
        head, *lines = node["label"]
        if form != "card":
            most = SHORT if form == "short" else NAME
            name = node["cuts"][form != "short"] if node["cuts"] else clip_middle(head, most)
            room = 0 if form in LOW and node["cuts"] else most - len(head)
            tail, line = _room(node["about"], room), told(node)
            rule = [] if node["rule"] is None else [clip(node["rule"], max(8, TOGETHER - len(line)))]
            if form == "short":
                return cls(name, tail, [line] * bool(line), rule, bool(rule and line), 0)
            if form == "line":
                return cls(name, " ".join(filter(None, [tail, line])), [], rule, bool(rule), 0)
            return cls(name, tail, [], [], False, 0)
        row = node["row"] is not None
        tail = node["about"]
        if row:
            first = node["numbers"][0] - 1 if node["numbers"] else len(lines)
            tail, lines = " ".join(filter(None, [tail, *lines[:first]])), lines[first:]
        rule = [] if node["rule"] is None else broken(node["rule"])
        last = lines[-1] if lines else f"{head} {tail}" if row else None
        beside = len(rule) == 1 and last is not None and len(last) + len(rule[0]) <= TOGETHER
        return cls(head, tail, lines, rule, beside, int(len(lines) > beside))

    @property
    def below(self) -> int:
        """How many lines stand below the first one."""
        return len(self.lines) + (0 if self.beside else len(self.rule))


def told(node: Node) -> str:
    """The one line of a short box: the shape, or the number where there is no shape; empty if there is neither."""
    label, numbers = node["label"], node["numbers"]
    at = max(1, (numbers[0] if numbers else len(label)) - 1)
    return clip(label[at], SHORT) if at < len(label) else ""


def _room(text: str, letters: int) -> str:
    """As much of a text as there is room for, first without what is in brackets at its end; nothing for few letters.

    The path of a module, after "·", keeps both ends, and settings keep the first ones.
    """
    if len(text) >= letters:
        text = text.partition(" (")[0]
    if letters <= NARROW:
        return ""
    return clip_middle(text, letters - 1) if text.startswith("·") else clip(text, letters - 1)


class Measured(NamedTuple):
    """How large a card is without its rows.

    Attributes:
        width, height: in pixels.
        rule: how wide the first line of its gradient is after its sign.
    """

    width: float
    height: float
    rule: float


def measured(node: Node, form: Form = "card") -> Measured:
    """The size of what stands in the box of ``node`` in this form, without the rows."""
    card, row = Card.of(node, form), node["row"] is not None
    bold = node["kind"] in ("op", "folded", "failed")
    head = text_width(card.head, LINE_SIZE if row else HEAD_SIZE, bold=bold)
    if card.tail:
        head += 6 + text_width(card.tail, LINE_SIZE)
    if node["root"]:
        head += 16  # its marker
    widths = [head, *(text_width(line, LINE_SIZE) for line in card.lines)]
    if node["bars"] is not None and form not in LOW:
        widths[card.charted] += _GAP + BAR * len(node["bars"]["heights"])
    after = 0.0
    if card.rule:
        whole, after = gradient_width(card.rule[0], LINE_SIZE, bold=True)
        earlier = max(node["norms"], key=len, default="")  # the gradient of an earlier frame is shown in the same box
        if earlier:
            whole = max(whole, text_width(f"{NABLA}norm {earlier}", LINE_SIZE, bold=True))
        rest = [text_width(line, LINE_SIZE, bold=True) for line in card.rule[1:]]
        if card.beside:
            widths[-1] += _GAP + whole
        else:
            widths += [whole, *rest]
    widest = max(widths)
    pad = 2 * PAD_X + (8 if node["kind"] in ("leaf", "input") and not row else 0)  # round ends, and cut corners
    width = max(56.0 if form == "card" else 34.0, round(max(widest + pad, widest * WIDER + pad - PAD_X + 4)))
    if row:
        return Measured(width, ROW_HEIGHT + LINE_HEIGHT * card.below + 2, after)
    return Measured(width, HEAD_HEIGHT + LINE_HEIGHT * card.below + 2 * (TIGHT_Y if form in LOW else PAD_Y), after)


def bar_height(letter: str) -> float:
    """How high the bar of a letter is: the smallest one can be seen."""
    return round(1 + (BAR_HEIGHT - 1) * (ord(letter) - ord("A")) / 25, 1)

"""The colours of a drawing and the words of its legend: the SVG and the front end both take them from here.

``tools/write_view.py`` writes them for the front end: after a change run ``make write`` and build the bundle.
"""

from dataclasses import dataclass

from nbgrad.core.translation import message


@dataclass(frozen=True)
class Paint:
    """The colours of one role, on a light and on a dark page (Okabe and Ito's hues, which all eyes tell apart)."""

    fill: str
    stroke: str
    dark_fill: str
    dark_stroke: str


PAINTS = {
    "card": Paint("#ffffff", "#e2e8f0", "#14181f", "#2c3440"),
    "op": Paint("#ffffff", "#64748b", "#222a35", "#8a99ad"),
    "parameter": Paint("#e8f2fb", "#0072b2", "#12304a", "#56b4e9"),
    "leaf": Paint("#e6f6f1", "#00805e", "#10362c", "#33c29b"),
    "input": Paint("#fbf8e6", "#7d6c00", "#33301a", "#d6c24a"),
    "constant": Paint("#f8fafc", "#7b8794", "#1b222b", "#93a1b3"),
    "outside": Paint("#fbf1f7", "#a8578b", "#33202c", "#d99ac2"),
    "folded": Paint("#eef0fb", "#5b5fc7", "#23254a", "#9ea2f2"),
    "failed": Paint("#fdecec", "#c1121f", "#451a1d", "#ff6b6b"),
    "root": Paint("#eef1f6", "#1e293b", "#2b3442", "#e6ebf2"),
    "jump": Paint("#e2e8f0", "#475569", "#323c4a", "#a9b6c6"),
    "mark": Paint("#fff3d6", "#b97700", "#43320c", "#f0b840"),
    "scope": Paint("#f5f7fa", "#cbd5e1", "#1a2029", "#3a4554"),
}
"""The boxes: the page that all stands on, every kind of node, a start of a backward, a jump, a mark, a module call."""

INKS = {
    "ink": ("#1e293b", "#e6ebf2"),
    "muted": ("#526174", "#a3b1c2"),
    "note": ("#8a4b00", "#f0b840"),
    "rule": ("#b8430a", "#ff9d5c"),
    "alarm": ("#c1121f", "#ff6b6b"),
    "sound": ("#177d3d", "#5cd68a"),
    "halo": ("#f5f7fa", "#1a2029"),
}
"""The text, on a light and on a dark page."""

EDGES = {
    "value": ("#475569", "#a9b6c6"),
    "faint": ("#7b8a9c", "#64748b"),
    "back": ("#b8430a", "#ff9d5c"),
    "wrong": ("#c1121f", "#ff6b6b"),
}
"""The edges, on a light and on a dark page."""

NUMBERS = {
    "positive": ("#d55e00", "#ff9d5c"),
    "negative": ("#0072b2", "#56b4e9"),
}
"""The numbers of a heat map, on a light and on a dark page; ``nbgrad/reprs.py`` has those of the light one."""

LEVELS = {
    "cold": ("#eef4fb", "#1d2733"),
    "hot": ("#0a5a96", "#5fc0ff"),
}
"""The ends of the scale of an overlay, on a light and on a dark page; HOTTEST is the place of the
hottest box on this scale, from 0 to 1."""

HOTTEST = 0.55


def heat(part: float, *, dark: bool) -> str:
    """The colour at the place ``part`` of the scale of an overlay, from 0 to 1, as ``#rrggbb``."""
    cold, hot = (bytes.fromhex(LEVELS[end][dark][1:]) for end in ("cold", "hot"))
    return "#" + bytes([round(a + (b - a) * part) for a, b in zip(cold, hot, strict=True)]).hex()


MEANING = {
    "op": message("operation"),
    "parameter": message("parameter"),
    "leaf": message("leaf: needs a gradient"),
    "input": message("input"),
    "constant": message("constant"),
    "outside": message("made before this graph"),
    "folded": message("folded module"),
    "failed": message("raised an error"),
}
"""The meaning of each kind of node, in the order of the legend."""

FOLDED = {
    "loop": message("folded loop"),
    "both": message("folded module or loop"),
}
"""The meaning of a folded box for iterations of a loop, and the words if there are both kinds."""

BARS = message(", bars: gradients of its parameters")
"""The addition to the legend if a folded box has a small chart."""

SIGNS = {
    "root": message("backward starts here"),
    "mark": message("broadcast undone: summed"),
    "value": message("value, forward"),
    "back": message("∇ gradient, backward"),
    "wrong": message("∇ NaN or infinity"),
    "faint": message("no gradient"),
    "jump": message("goes on at the same letter"),
}
"""The meanings of the other signs, in their order at the end of the legend."""

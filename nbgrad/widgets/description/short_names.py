"""The names of boxes that have no room for a whole name: cut in the middle, and no two of them are alike."""

from collections.abc import Iterable

from nbgrad.widgets.description.schema import Node
from nbgrad.widgets.description.text_metrics import clip_middle

SHORT, NAME = 24, 16
"""How many letters a line has at most where a box is short, and where it is only a name."""

NARROW = (NAME, 12, 9, 6)
"""The same for names where nothing else can be read, in the order in which they are tried."""

_OP = 8
"""With fewer letters for its op, a variable stands alone."""


def named(nodes: list[Node], most: int = NAME) -> list[Node]:
    """The nodes with their short names, of at most SHORT and of at most ``most`` letters.

    A class in brackets is left out first. A name that would be that of another box keeps so many letters more that it
    differs. A box that is only a name says nothing else if its name is cut, or if ``most`` leaves no room for it.
    """
    wide = {node["id"] for node in nodes if node["row"] is None and len(_whole(node, most)) > most}
    if not wide:
        return nodes
    names = {node["label"][0]: node["variable"] for node in nodes if node["row"] is None}
    short, name = (_distinct(names, letters) for letters in (SHORT, most))
    return [
        {**node, "cuts": [short[head], name[head]]} if node["id"] in wide and (head := node["label"][0]) else node
        for node in nodes
    ]


def _whole(node: Node, most: int) -> str:
    """The text of a box that is only a name. With room for NAME letters, its tail is cut elsewhere."""
    return " ".join(filter(None, [node["label"][0], node["about"] if most < NAME else ""]))


def _distinct(names: dict[str, str], letters: int) -> dict[str, str]:
    """A short name for each of these names, whose variables are given."""
    found: dict[str, str] = {}
    waiting: Iterable[str] = names
    while waiting := list(waiting):
        found |= {name: _cut(name, names[name], letters) for name in waiting}
        same: dict[str, list[str]] = {}
        for name, cut in found.items():
            same.setdefault(cut, []).append(name)
        waiting = [name for group in same.values() if len(group) > 1 for name in group if found[name] != name]
        letters += 1
    return found


def without_class(name: str) -> str:
    """The name without the class of its module: ``encoder, call 2 of 2 (Sequential)``."""
    return name.rpartition(" (")[0] or name if name.endswith(")") else name


def _cut(name: str, variable: str, letters: int) -> str:
    if len(name) <= letters:
        return name
    op = name.removeprefix(f"{variable} = ") if variable else name
    left = letters - (len(name) - len(op))
    if op == name:
        return clip_middle(without_class(name), letters)
    return name[: len(name) - len(op)] + clip_middle(op, left) if left >= _OP else clip_middle(variable, letters)

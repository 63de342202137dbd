"""The format of numbers, shapes and counts, the same in every rendering."""

from collections.abc import Iterable

from nbgrad.core.translation import translate, translate_count
from nbgrad.widgets.description.schema import Node


def duration(seconds: float) -> str:
    """A time as people say it: "12.3 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def number(value: complex) -> str:
    """A number as every rendering writes it: four significant digits, the same on every machine."""
    return f"{value:z.4g}"  # z: a negative zero is a zero


def shape_text(shape: Iterable[int]) -> str:
    """A shape as Python writes it: (32, 10), (3,), ()."""
    return str(tuple(shape))


def counted(many: int, what: str) -> str:
    """A number of things: 1 op, 2 ops, 1,200 ops, 2 losses. The noun is a message, as a text of ``translate`` is."""
    return translate_count(many, *plural(what))


def plural(what: str) -> tuple[str, str]:
    """The texts for one and for several things, with a place for their number."""
    return f"{{count:,}} {what}", f"{{count:,}} {what}{'es' if what.endswith('s') else 's'}"


def listed(words: list[str]) -> str:
    """Words as a list in a sentence: one, two and three."""
    return translate(" and ").join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


def lines_of(node: Node) -> list[str]:
    """The lines of a node as text. In the first line ``about`` follows the name."""
    head, *lines = node["label"]
    return [f"{head} {node['about']}" if node["about"] else head, *lines]


def scalar(value: object) -> str:
    """A Python number."""
    return number(value) if isinstance(value, float | complex) else str(value)

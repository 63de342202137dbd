"""The sections of the site, and the pages of each."""

from typing import NamedTuple


class Section(NamedTuple):
    """A part of the navigation.

    Attributes:
        title: what stands in the navigation.
        text: the one sentence below it.
        pages: the names of its pages, in order. A section of one page has no page of its own.
    """

    title: str
    text: str
    pages: tuple[str, ...]


SECTIONS: dict[str, Section] = {
    "start": Section("Five-minute start", "", ("start",)),
    "lessons": Section(
        "Lessons",
        "A tour of ten minutes, fifteen lessons of 45 to 75 minutes, and four capstones. These pages are the lessons "
        "with their solutions; `make lab` or `nbgrad lab` opens the copies without them.",
        ("lessons/*",),
    ),
    "questions": Section("Troubleshooting by question", "", ("debugging", "doctor", "memory")),
    "how_to": Section(
        "How-to",
        "One task a page.",
        (
            "magics", "run", "torch", "graph", "drawing", "compare", "training", "trainers", "testing", "functions",
            "interop", "distributed", "teaching", "course", "hub", "models",
        ),
    ),
    "concepts": Section(
        "Concepts",
        "How the engine, the graph and programs work.",
        ("design", "behaviour", "higher_order", "symbolic"),
    ),
    "api": Section(
        "API reference",
        "The public names, with their arguments and types. A name that is not here may change in any version. The "
        "functions on tensors are in [the op table](../ops.md).",
        ("api/*",),
    ),
    "op_table": Section("Op table", "Every op, with its formula and its gradient.", ("ops",)),
    "parity": Section("Parity with torch", "", ("parity",)),
    "performance": Section("Performance", "", ("performance",)),
    "decisions": Section("Decisions", "", ("decisions/README",)),
    "changelog": Section("Changelog", "", ("changelog",)),
    "contributing": Section("Contributing", "", ("contributing",)),
}  # fmt: skip
"""The sections of the navigation, in order, by the names of their pages."""


def sections(*, solved: bool) -> dict[str, Section]:
    """The sections of a site whose lessons have their solutions, or have none."""
    text = "A tour of ten minutes, fifteen lessons of 45 to 75 minutes, and four capstones. `nbgrad lab` opens them."
    return SECTIONS if solved else SECTIONS | {"lessons": SECTIONS["lessons"]._replace(text=text)}

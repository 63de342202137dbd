"""Clean every string and limit its length: the one boundary that a hostile name has to pass.

It has two parts: the input of graphviz is cleaned first, and the details are written while graphviz works.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad.widgets.description.schema import Description, Node, Scope
from nbgrad.widgets.description.text_metrics import clean, clip, clip_middle

LINE = 44
"""How many letters a line in a box has at most."""

_LINES, _MARK, _SCOPE, _TERM, _NAME, _TEXT, _WORDS, _SHORT = 8, 72, 56, 80, 120, 20_000, 600, 200


def _mathml(text: str) -> str:
    """A formula is whole, or it is left out."""
    return "" if len(text) > _TEXT else clean(text, lines=True)


_block: Callable[[str], str] = partial(clip, length=_TEXT, lines=True)

_FORMULA = {"of": _TERM, "latex": _TEXT, "mathml": _mathml}
_OP = {"what": 2000, "why": 2000, "formulas": _FORMULA, "symbols": _FORMULA}
_REDUCTION = {"text": _MARK, "expansion": _MARK, "warning": _WORDS}
_DETAILS = {"term": _TERM, "text": _block}

_BOXES = {
    "name": 120,
    "summary": 500,
    "notes": partial(clip, length=_WORDS, lines=True),
    "nodes": {
        "about": partial(clip_middle, length=LINE),
        "variable": partial(clip_middle, length=LINE),
        "op": _TERM,
        "badges": {"text": _WORDS},
    },
    "losses": {"name": partial(clip_middle, length=LINE), "text": LINE},
    "edges": {
        "input": _TERM,
        "label": _TERM,
        "back": _TERM,
        "gradient": _SHORT,
        "mismatch": _SHORT,
        "reduction": _REDUCTION,
    },
    "scopes": {"name": _WORDS, "like": _WORDS, "label": partial(clip_middle, length=_SCOPE), "folds": _TERM},
    "overlays": {"label": _TERM, "classes": _TERM},
    "verdicts": {"name": _WORDS, "text": _WORDS},
    "problems": {"text": _WORDS},
    "memory": {"text": _WORDS, "ops": _TERM},
    "outcome": _WORDS,
    "checked": _WORDS,
    "hidden": {
        "reductions": {"ends": _TERM, "text": _MARK, "warning": _WORDS},
        "nodes": {"label": _WORDS, "words": _TERM},
    },
    "ranking": {"rows": {"name": partial(clip_middle, length=_NAME)}},
    "history": {
        "frames": {"title": _TERM, "loss": _TERM},
        "charts": {"curves": {"label": _TERM}},
        "differences": {"lines": _SHORT},
    },
}
"""The limits of the texts that are drawn: of each text by the names of the fields in which it is.

A limit is a length, or a function that returns the limited text. In a list it is the limit of each element.
"""

_LATER = {
    "nodes": {"details": _DETAILS},
    "edges": {"reduction": {"words": _WORDS, "sums": _SHORT}},
    "steps": {
        "title": _SHORT,
        "incoming": _SHORT,
        "given": {"text": _SHORT, "came": _SHORT},
        "rewrite": {"details": _DETAILS},
    },
}
"""The limits of the details."""


def _limited(value: Any, limit: Any) -> Any:
    """``value`` with its texts clean and no longer than ``limit`` allows; other values and fields as they are."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_limited(one, limit) for one in value]
    if isinstance(limit, dict):
        return {**value, **{field: _limited(value[field], one) for field, one in limit.items() if field in value}}
    return clip(value, limit) if isinstance(limit, int) else limit(value)


def clipped(description: Description) -> Description:
    """The description with clean strings of limited length, except those of its details.

    Strings of boxes and edges become one line.

    Give the result, when its details are written, to ``with_clipped_details``.
    """
    scopes = {scope["id"] for scope in description["scopes"]}
    whole: Description = {
        **description,
        "nodes": [_node(node, scopes) for node in description["nodes"]],
        "scopes": list(map(_scope, description["scopes"])),
        "ops": {clip(name, _TERM): _limited(op, _OP) for name, op in description["ops"].items()},
        "formulas": {clip(latex, _TEXT): _mathml(mathml) for latex, mathml in description["formulas"].items()},
    }
    made: Description = _limited(whole, _BOXES)
    return made


def with_clipped_details(description: Description) -> Description:
    """The same with the strings of the details clean too: what a click on a node or on a mark shows, and the steps."""
    made: Description = _limited(description, _LATER)
    return made


def _scope(scope: Scope) -> Scope:
    """A scope whose label will be shortened tells all of it elsewhere."""
    return {**scope, "full": clip(scope["label"], _WORDS)} if len(scope["label"]) > _SCOPE else scope


def _node(node: Node, scopes: set[str]) -> Node:
    label = [clip_middle(line, LINE) if at == 0 else clip(line, LINE) for at, line in enumerate(node["label"][:_LINES])]
    named = " ".join([*node["label"][:1], node["about"]]) if node["about"] else "".join(node["label"][:1])
    shortened = len(node["about"]) > LINE or any(len(line) > LINE for line in node["label"][:1])
    return {
        **node,
        "full": clip(named, _WORDS) if shortened else node["full"],
        "scope": node["scope"] if node["scope"] in scopes else None,
        "label": label or [node["id"]],
        "numbers": [min(line, len(label)) for line in node["numbers"]],
    }

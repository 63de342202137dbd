"""The encoding of a picture for the front end, in few bytes; ``src/unpack.ts`` decodes it.

It is deflated JSON. Records and boxes are sent as columns, so that equal values stand together. A look that a node and
a reduction share is sent once. Each number of a curve, and of the norms of a node, is sent as its difference to the
number before.
"""

import json
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from operator import sub
from typing import Any, get_args, get_type_hints

from nbgrad.core.translation import SOURCE, page_texts
from nbgrad.widgets.description.schema import (
    PYTHON_ONLY,
    Description,
    Layout,
    MemoryTimeline,
    Picture,
    Scope,
    Verdict,
)


def sent(picture: Picture) -> Picture:
    """The picture without the widths of its texts and the fields that only Python reads, with the texts of its page."""
    layout, turned = ({**one, "texts": {}} if one else None for one in (picture["layout"], picture["turned"]))
    description: Any = _public(picture["description"], Description)
    description["scopes"] = [_public(scope, Scope) for scope in description["scopes"]]
    if (memory := description["memory"]) is not None:
        description["memory"] = _public(memory, MemoryTimeline)
    if texts := page_texts(description.get("language", SOURCE)):
        description["texts"] = texts
    description["verdicts"] = [_public(one, Verdict) for one in description["verdicts"]]
    others = {part: picture[part] and sent(picture[part]) for part in OTHERS}  # type: ignore[literal-required]
    return {**picture, "description": description, "layout": layout, "turned": turned, **others}  # type: ignore[typeddict-item]  # the layout is there


OTHERS = ("first", "large")
"""The pictures that travel with the whole one."""


def _public(record: Any, kind: type) -> dict[str, Any]:
    """The fields of a record that the front end reads."""
    return {key: one for key, one in record.items() if key not in _python_only(kind)}


@cache
def _python_only(kind: type) -> frozenset[str]:
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(field for field, hint in hints.items() if PYTHON_ONLY in get_args(hint))


def packed(picture: Picture, level: int = 6, *, maps: bool = True) -> bytes:
    """The bytes that the front end unpacks: what ``sent`` leaves of a picture.

    Args:
        picture: the picture.
        level: how hard to deflate it, from 0 to 9. With 9 it is some percent smaller, and takes three times as long.
        maps: whether the heat maps and histograms of small tensors are in it. They are half of the bytes.
    """
    picture = sent(picture)
    looks = _Looks(maps=maps)
    travels = _travelling(picture, looks)
    others = {part: other for part in OTHERS if (other := picture[part])}  # type: ignore[literal-required]
    travels |= {part: _without_shared(_travelling(other, looks), travels) for part, other in others.items()}
    for one in [travels, *(travels[part] for part in others)]:
        one["description"] |= {part: _columns(one["description"][part]) for part in _PARTS}
    travels["looks"] = _columns(looks.all)
    return zlib.compress(json.dumps(travels, separators=(",", ":"), allow_nan=False).encode(), level)


_PARTS = ("nodes", "edges")
"""The parts of a description that are sent as columns."""

_SHARED = (*_PARTS, "scopes", "steps", "verdicts")
"""The lists with many entries that another picture shares with the whole one."""


def _travelling(picture: Picture, looks: "_Looks") -> Any:
    """A picture in which a look is replaced by its place in the list of looks, and numbers are short."""
    description = picture["description"]
    nodes = [looks.taken(node) | {"norms": list(_differences(node["norms"]))} for node in description["nodes"]]
    edges = [edge | {"reduction": looks.taken(edge["reduction"])} for edge in description["edges"]]
    hidden = _with_norms(description["hidden"], lambda norms: list(_differences(norms)))
    return {
        **picture,
        "description": {**description, "nodes": nodes, "edges": edges, "hidden": hidden},
        "layout": _flat(picture["layout"]),
        "turned": _flat(picture["turned"]),
    }


def _without_shared(other: Any, whole: Any) -> Any:
    """A picture without the parts that the whole one has too; instead, their places in the whole one."""
    mine, all = other["description"], whole["description"]
    left = {key: one for key, one in mine.items() if key in _SHARED or one != all[key]}
    shared: dict[str, list[int | None]] = {}
    for part in _SHARED:
        places = {_known_by(one): at for at, one in enumerate(all[part])}
        found = [places.get(_known_by(one)) for one in mine[part]]
        shared[part] = [
            at if at is not None and all[part][at] == one else None for at, one in zip(found, mine[part], strict=True)
        ]
        left[part] = [one for at, one in zip(shared[part], mine[part], strict=True) if at is None]
    return {**other, "description": left, "shared": shared}


def _known_by(one: Any) -> str:
    """The id of ``one``, or all of it as text if it has no id."""
    return str(one["id"]) if "id" in one else json.dumps(one)


def _columns(records: list[Any]) -> dict[str, list[Any]]:
    return {key: [record[key] for record in records] for key in records[0]} if records else {}


_LOOKS = ("value", "gradient", "incoming", "reduced")
"""The fields of a node or a reduction that are a look."""


class _Looks:
    """Every look once, in the order in which they come; if ``maps`` is false, only their facts."""

    def __init__(self, *, maps: bool) -> None:
        self.all: list[Any] = []
        self._places: dict[object, int] = {}
        self._maps = maps

    def taken(self, thing: Any) -> Any:
        """A node or a reduction with each look replaced by its place in the list."""
        return thing and thing | {key: self._place(thing[key]) for key in _LOOKS if key in thing}

    def _place(self, look: Any) -> int | None:
        if look is None:
            return None
        if not self._maps:
            look = {**look, "columns": 0, "levels": "", "cells": [], "bars": []}
        same = tuple([tuple(it) if isinstance(it, list) else it for it in look.values()])
        place = self._places.setdefault(same, len(self.all))
        if place == len(self.all):
            self.all.append(look)
        return place


def _with_norms(hidden: Any, change: Any) -> Any:
    return hidden | {"nodes": [one | {"norms": change(one["norms"])} for one in hidden["nodes"]]}


_BOXES = ("nodes", "labels", "marks", "scopes")
"""The groups of boxes of a layout."""


def _flat(layout: Layout | None) -> Any:
    """A layout with its boxes as columns, and its curves as differences from point to point."""
    if layout is None:
        return None
    boxes: Any = {part: _columns([{"id": id, **box} for id, box in layout[part].items()]) for part in _BOXES}  # type: ignore[literal-required]
    return {**layout, **boxes, "edges": {id: list(map(_steps, runs)) for id, runs in layout["edges"].items()}}


def _steps(run: list[list[float]]) -> list[int]:
    """A run as differences from point to point, x and y in turn: in tenths of a pixel, to which a layout rounds."""
    tenths = [round(10 * at) for point in run for at in point]
    return [*tenths[:2], *map(sub, tenths[2:], tenths)]


_DECADE = 9_000
"""How many numbers of four digits there are from one power of ten to the next: 1.000, 1.001, ... 9.999."""


def _differences(norms: Iterable[str]) -> Iterator[int | str]:
    """Each norm as a distance from the one before, counted in numbers of four digits; 0, inf, nan and "" unchanged."""
    last = 0
    for norm in norms:
        text = f"{float(norm or 0):.3e}"  # "1.234e-05"
        if "1" <= text[0] <= "9":  # neither zero nor infinite
            place = int(text[6:]) * _DECADE + int(text[0] + text[2:5]) - 1_000
            yield place - last
            last = place
        else:
            yield norm

"""A picture from the bytes that the front end gets, for checks in Python: what ``src/unpack.ts`` does in a browser."""

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.schema import Picture
from nbgrad.widgets.layout.parts import Sizes
from nbgrad.widgets.render.wire_format import _BOXES, _DECADE, _LOOKS, _PARTS, _SHARED, OTHERS, _with_norms


def unpacked(data: bytes) -> Picture:
    """The picture in bytes that ``packed`` made; its texts are measured again."""
    picture: Any = json.loads(zlib.decompress(data))
    looks = _records(picture.pop("looks"))
    others = {part: other for part in OTHERS if (other := picture[part])}
    for one in (picture, *others.values()):
        one["description"] |= {part: _records(one["description"][part]) for part in _PARTS}
    for name, other in others.items():
        shared = other.pop("shared")
        for part in _SHARED:
            own, whole = iter(other["description"][part]), picture["description"][part]
            other["description"][part] = [next(own) if at is None else whole[at] for at in shared[part]]
        other["description"] = picture["description"] | other["description"]
        picture[name] = _arrived(other, looks)
    return _arrived(picture, looks)


def _arrived(travels: Any, looks: list[dict[str, Any]]) -> Picture:
    """The picture from the result of ``_travelling``, and the widths of its texts."""
    description: Any = travels["description"]
    nodes = [_given(node, looks) | {"norms": list(_norms(node["norms"]))} for node in description["nodes"]]
    edges = [edge | {"reduction": _given(edge["reduction"], looks)} for edge in description["edges"]]
    hidden = _with_norms(description["hidden"], lambda norms: list(_norms(norms)))
    labels = {scope["id"]: scope["full"] or scope["label"] for scope in description["scopes"]}
    verdicts = [{"name": labels.get(one["scope"], ""), **one} for one in description["verdicts"]]
    description = {**description, "nodes": nodes, "edges": edges, "hidden": hidden, "verdicts": verdicts}
    picture = {**travels, "description": description}
    sizes = Sizes.of(description)
    for layout in ("layout", "turned"):
        if picture[layout]:
            texts = sizes.formed(description, picture[layout]["forms"], {}).texts
            picture[layout] = _raised(picture[layout]) | {"texts": texts}
    return picture  # type: ignore[return-value]  # it was one when it was packed


def _records(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _given(thing: Any, looks: list[dict[str, Any]]) -> Any:
    """A node or a reduction with its looks again."""
    return thing and thing | {key: None if thing[key] is None else looks[thing[key]] for key in _LOOKS if key in thing}


def _raised(layout: Any) -> Any:
    """The layout from the result of ``_flat``."""
    boxes = {part: {box.pop("id"): box for box in _records(layout[part])} for part in _BOXES}
    return layout | boxes | {"edges": {key: list(map(_run, runs)) for key, runs in layout["edges"].items()}}


def _run(steps: list[int]) -> list[list[float]]:
    run, x, y = [], 0, 0
    for right, down in zip(steps[::2], steps[1::2], strict=True):
        x, y = x + right, y + down
        run.append([x / 10, y / 10])
    return run


def _norms(differences: Iterable[int | str]) -> Iterator[str]:
    place = 0
    for one in differences:
        if isinstance(one, str):
            yield one
        else:
            place += one
            yield _norm(place)


def _norm(place: int) -> str:
    exponent, digits = divmod(place, _DECADE)
    return number(float(f"{digits + 1_000}e{exponent - 3}"))

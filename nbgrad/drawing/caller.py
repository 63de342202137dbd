"""``draw``: the picture of an object, with the names that the code of the caller has for it and its ancestors."""

from collections.abc import Iterable, Mapping
from typing import Any

from nbgrad.core.engine.call_site import user_frame, variables_of
from nbgrad.core.engine.user_names import in_order, loops_of
from nbgrad.core.no_gc import uncollected
from nbgrad.drawing.against import EngineVerdict, verdict_of
from nbgrad.drawing.graph import DrawnGraph
from nbgrad.drawing.part import Part
from nbgrad.drawing.reading import read_roots

_DEPTH = 7
"""How many steps lead from a variable to an object: ``model.layers[0].neurons[1].w[2]`` has six."""


@uncollected
def draw(root: object, name: str | None = None, *, against: bool = False) -> DrawnGraph:
    """As ``nbgrad.draw``."""
    parts, roots = read_roots(root)
    names = _users_names(parts)
    verdict = verdict_of(parts, names) if against else None
    return DrawnGraph.of(parts, roots, names, name or title_of(roots, names), verdict)


def verdict(root: object) -> EngineVerdict:
    """Compare the numbers of an engine with those that nbgrad's own ops and rules give. No picture is made.

    Each op is computed from the engine's own values of its inputs, and each gradient from the engine's own gradients of
    the objects that use it. So the first number that differs is where the fault is, and later ones may be consequences.

    Args:
        root: the object whose graph is compared, such as a loss; or a list of several.

    Returns:
        An ``EngineVerdict``: it is true if no number differs, ``print`` shows it, and ``first`` is the first number
        that differs, with the probable cause.

    Raises:
        UnreadableError, GraphCycleError: as ``nbgrad.draw``.
    """
    parts, _ = read_roots(root)
    return verdict_of(parts, _users_names(parts))


def _users_names(parts: list[Part]) -> dict[int, str]:
    frame = user_frame()
    return names_of(parts, {**frame.f_globals, **variables_of(frame)}, loops_of(frame))


def names_of(parts: list[Part], namespace: Mapping[str, Any], loops: Iterable[str]) -> dict[int, str]:
    """The names of the objects of a graph, by the ``id`` of each: variables, attributes, and parts of lists.

    Args:
        parts: of the graph.
        namespace: the variables.
        loops: the names of the variables of loops.
    """
    types = tuple({type(part.source) for part in parts})
    wanted = {id(part.source) for part in parts}
    names: dict[int, str] = {}
    for name, one in in_order(namespace, loops, _DEPTH, types=types).items():
        if id(one) in wanted:
            names.setdefault(id(one), name)
    return names


def title_of(roots: list[object], names: Mapping[int, str]) -> str | None:
    """The title of a picture: the names of its roots; None if one has none."""
    found = [names.get(id(one)) for one in roots]
    return ", ".join([one for one in found if one is not None]) if all(found) else None

"""Scopes as paths, and runs of module calls that are the same."""

from collections import defaultdict
from functools import cached_property

from nbgrad.widgets.description import Description, Scope


def scope_path(scopes: dict[str, Scope], scope: str | None) -> list[str]:
    """Return the ids of a scope and its ancestors, outermost first."""
    path: list[str] = []
    while scope is not None and scope in scopes and scope not in path:
        path.append(scope)
        scope = scopes[scope]["parent"]
    return path[::-1]


def runs(description: Description) -> list[list[str]]:
    """Runs of at least two identical module calls that follow each other, the outermost ones; an outline knows them."""
    known: list[list[str]] | None = description.get("runs")  # type: ignore[assignment]  # an outline's
    if known is not None:
        return known
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    inside: defaultdict[str, list[int]] = defaultdict(list)
    for position, node in enumerate(description["nodes"]):
        for home in scope_path(scopes, node["scope"]):
            inside[home].append(position)
    alike = _Alike(description, inside)
    found: list[list[str]] = []
    covered: set[str] = set()
    last: dict[str | None, str] = {}
    for id, scope in scopes.items():
        before, parent = last.get(scope["parent"]), scope["parent"]
        last[parent] = id
        if parent in covered:
            covered.add(id)
        elif before is not None and alike(before, id) and _adjoin(description, inside, before, id):
            if not found or found[-1][-1] != before:
                found.append([before])
            found[-1].append(id)
            covered.update((before, id))
    return found


class _Alike:
    """Says whether two module calls are the same: the same ops on the same shapes, wired in the same way."""

    def __init__(self, description: Description, inside: dict[str, list[int]]) -> None:
        self._description = description
        self._inside = inside
        self._labels = {scope["id"]: scope["label"].rpartition("(")[2] for scope in description["scopes"]}
        self._signatures: dict[str, object] = {}

    def __call__(self, one: str, other: str) -> bool:
        lengths = [len(self._inside.get(scope, ())) for scope in (one, other)]
        return (
            self._labels[one] == self._labels[other]
            and lengths[0] == lengths[1]
            and self._signature(one) == self._signature(other)
        )

    def _signature(self, scope: str) -> object:
        if scope not in self._signatures:
            nodes, members = self._description["nodes"], self._inside.get(scope, [])
            place = {position: count for count, position in enumerate(members)}
            self._signatures[scope] = [
                (node["kind"], node["op"], node["label"][1:2], self._wires(node["id"], place))
                for node in [nodes[at] for at in members]
            ]
        return self._signatures[scope]

    def _wires(self, node: str, place: dict[int, int]) -> list[tuple[str, int]]:
        return [(name, place.get(source, -1)) for name, source in self._taken[node]]

    @cached_property
    def _taken(self) -> defaultdict[str, list[tuple[str, int]]]:
        """For each node the names of its inputs and the positions of what it took."""
        positions = {node["id"]: position for position, node in enumerate(self._description["nodes"])}
        taken: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for edge in self._description["edges"]:
            taken[edge["target"]].append((edge["input"], positions[edge["source"]]))
        return taken


def _adjoin(description: Description, inside: dict[str, list[int]], before: str, after: str) -> bool:
    """Whether no op runs between two module calls: what they are part of together has no way out and in again."""
    if not inside[before] or not inside[after]:
        return False
    between = description["nodes"][inside[before][-1] + 1 : inside[after][0]]
    return not any(node["kind"] == "op" for node in between)

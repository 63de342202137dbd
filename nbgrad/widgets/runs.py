"""Scopes as paths, and runs of module calls that are the same, one by one or in a cycle."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from operator import eq

from nbgrad.widgets.description import Description, Scope

LONGEST = 12
"""Cycles of so many calls are looked for: longer ones would have to be counted by name."""

Run = list[list[str]]
"""The repetitions, at least two, and of each the calls in it: one, or all of a cycle."""


def scope_path(scopes: dict[str, Scope], scope: str | None) -> list[str]:
    """Return the ids of a scope and its ancestors, outermost first."""
    path: list[str] = []
    while scope is not None and scope in scopes and scope not in path:
        path.append(scope)
        scope = scopes[scope]["parent"]
    return path[::-1]


def kind(scope: Scope) -> str:
    """The class of the module that was called."""
    return scope["label"].rpartition("(")[2].removesuffix(")")


def runs(description: Description) -> list[Run]:
    """Runs of identical module calls that follow each other, or of identical cycles of them; an outline knows them.

    These are the outermost ones: what is inside a call of a run is in no other.
    """
    known: list[Run] | None = description.get("runs")  # type: ignore[assignment]  # an outline's
    if known is not None:
        return known
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    inside: defaultdict[str, list[int]] = defaultdict(list)
    for position, node in enumerate(description["nodes"]):
        for home in scope_path(scopes, node["scope"]):
            inside[home].append(position)
    alike = _Alike(description, inside)
    siblings: defaultdict[str | None, list[str]] = defaultdict(list)  # outer ones first
    for id, scope in scopes.items():
        siblings[scope["parent"]].append(id)
    found: list[Run] = []
    covered: set[str | None] = set()
    for parent, calls in siblings.items():
        if parent in covered:
            covered.update(calls)
            continue
        for row in _rows(description, inside, calls):
            for begin, period, times in _repeated(alike.numbers(row), alike.kinds(row)):
                end = begin + period * times
                found.append([row[at : at + period] for at in range(begin, end, period)])
                covered.update(row[begin:end])
    return found


def _rows(description: Description, inside: dict[str, list[int]], calls: list[str]) -> Iterator[list[str]]:
    """The calls that follow each other without an op between them, where there are several."""
    row = calls[:1]
    for before, after in pairwise(calls):
        if not _adjoin(description, inside, before, after):
            yield from [row] * (len(row) > 1)
            row = []
        row.append(after)
    yield from [row] * (len(row) > 1)


def _repeated(numbers: list[int], kinds: list[str]) -> Iterator[tuple[int, int, int]]:
    """Where something repeats: its first place, the length of a cycle, and how often it comes.

    Of what begins at one place it is what reaches farthest, in the shortest cycles. A cycle begins where one of the
    same kinds did before: of Linear(5, 8), ReLU, Linear(8, 8), ReLU, Linear(8, 8), ReLU it is Linear, ReLU and not
    ReLU, Linear that comes twice.
    """
    periods = [period for period in range(1, min(LONGEST, len(numbers) // 2) + 1) if _comes_twice(numbers, period)]
    same = {period: _same(numbers, period) for period in periods}
    begun = {period: _begun(kinds, period) for period in periods}
    at = 0 if periods else len(numbers)
    while at < len(numbers):
        reach = {period: (same[period][at] // period + 1) * period for period in periods if same[period][at] >= period}
        if not reach:
            at += 1
            continue
        period = max(reach, key=lambda one: (reach[one], -one))
        later = (begun[period][at] - at) % period
        at += later if later <= same[period][at] % period else 0
        yield at, period, reach[period] // period
        at += reach[period]


def _comes_twice(items: list[int], period: int) -> bool:
    """Whether any cycle of so many items follows itself; most do not, so it is asked first."""
    return b"\1" * period in bytes(map(eq, items, items[period:]))


def _same(items: list[int], period: int) -> list[int]:
    """For each place how many items from there on are the same as those a period later."""
    many = [0] * len(items)
    for at in range(len(items) - period - 1, -1, -1):
        many[at] = many[at + 1] + 1 if items[at] == items[at + period] else 0
    return many


def _begun(items: list[str], period: int) -> list[int]:
    """For each place the first one from which on all up to it are the same as those a period later."""
    first = list(range(len(items)))
    for at in range(1, len(items) - period + 1):
        if items[at - 1] == items[at - 1 + period]:
            first[at] = first[at - 1]
    return first


class _Alike:
    """Says which module calls are the same: the same ops on the same shapes, wired in the same way."""

    def __init__(self, description: Description, inside: dict[str, list[int]]) -> None:
        self._description = description
        self._inside = inside
        self._kinds = {scope["id"]: kind(scope) for scope in description["scopes"]}

    def kinds(self, calls: list[str]) -> list[str]:
        return [self._kinds[call] for call in calls]

    def numbers(self, calls: list[str]) -> list[int]:
        """For each call a number, the same for those that are the same."""
        looks = [(self._kinds[call], len(self._inside[call])) for call in calls]
        many = Counter(looks)
        places: dict[object, int] = {}
        return [
            places.setdefault((look, self._signature(call) if many[look] > 1 else call), len(places))
            for call, look in zip(calls, looks, strict=True)
        ]

    def _signature(self, call: str) -> object:
        nodes, members = self._description["nodes"], self._inside[call]
        place = {position: count for count, position in enumerate(members)}
        return tuple(
            [
                (node["kind"], node["op"], *node["label"][1:2], *self._wires(node["id"], place))
                for node in [nodes[at] for at in members]
            ]
        )

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

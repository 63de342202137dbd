"""The tree of a picture: the scopes of a description, and the nodes in them.

Describing, folding, placing and drawing ask it, so that none of them walks outwards from each node.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from nbgrad.widgets.description.schema import GROUPS, Description, Node, Scope, ScopeKind


def iterates(scope: Scope) -> bool:
    """Whether it is an iteration of a loop: its contents may differ from those of the others."""
    return scope["kind"] == "iteration"


class Tree:
    """The scopes of ``description``, by their ids. A scope whose parent is missing is an outermost one.

    ``Outline.tree`` is that of an outline: it is built once.

    Attributes:
        description: all of it.
        scopes: each scope, outer before inner.
        parents: the scope around each scope.
        depths: the number of scopes around each scope, itself included.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.scopes = {scope["id"]: scope for scope in description["scopes"]}
        given = {id: scope["parent"] for id, scope in self.scopes.items()}
        self.parents = {id: parent if parent in given else None for id, parent in given.items()}
        self.depths: dict[str, int] = {}
        self._begin: dict[str, int] = {}
        self._end: dict[str, int] = {}
        self._inner: defaultdict[str | None, list[str]] = defaultdict(list)
        for id, parent in self.parents.items():
            self._inner[parent].append(id)
        self._number(self._inner[None])
        # No graph makes scopes that are around each other. Such scopes are not reached from an outermost one.
        for id in [one for one in given if one not in self._begin]:
            if id not in self._begin:
                self.parents[id] = None
                self._number([id])

    def _number(self, outermost: list[str]) -> None:
        """Number these and their contents: the contents of a scope have the numbers from its first to its last."""
        waiting = [(id, False) for id in reversed(outermost)]
        while waiting:
            id, left = waiting.pop()
            if left:
                self._end[id] = len(self._begin)
            elif id not in self._begin:
                self._begin[id] = len(self._begin)
                parent = self.parents[id]
                self.depths[id] = 1 if parent is None else self.depths[parent] + 1
                waiting.append((id, True))
                waiting += [(one, False) for one in reversed(self._inner[id])]

    def __contains__(self, scope: object) -> bool:
        return scope in self.parents

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Each node, by its id."""
        return {node["id"]: node for node in self.description["nodes"]}

    @cached_property
    def own(self) -> Counter[str | None]:
        """How many nodes are in each scope, and in none inside it."""
        return Counter([node["scope"] for node in self.description["nodes"]])

    @cached_property
    def sizes(self) -> Counter[str]:
        """How many nodes are in each scope, those in the scopes in it included."""
        return self.sums(self.own)

    @cached_property
    def ops(self) -> Counter[str]:
        """How many ops ran in each scope."""
        ran = [node["scope"] for node in self.description["nodes"] if node["kind"] in ("op", "failed")]
        return self.sums(Counter(ran))

    @cached_property
    def iterations(self) -> frozenset[str]:
        """The scopes that are iterations of loops."""
        return frozenset(id for id, scope in self.scopes.items() if iterates(scope))

    @cached_property
    def groups(self) -> frozenset[str]:
        """The scopes that only folding needs."""
        return frozenset(id for id, scope in self.scopes.items() if scope["kind"] in GROUPS)

    @cached_property
    def layers(self) -> frozenset[str]:
        """The scopes that are layers: maps with their activation."""
        return self._of_kind("layer")

    @cached_property
    def sections(self) -> frozenset[str]:
        """The scopes that are sections of a long record."""
        return self._of_kind("section")

    @cached_property
    def derivatives(self) -> frozenset[str]:
        """The scopes that are derivatives."""
        return self._of_kind("derivative")

    def _of_kind(self, kind: ScopeKind) -> frozenset[str]:
        return frozenset(id for id in self.groups if self.scopes[id]["kind"] == kind)

    @cached_property
    def calls(self) -> dict[str, int]:
        """The other scopes, each with the number of such scopes around it, itself included."""
        found: dict[str, int] = {}
        for scope in reversed(self.inner_first()):
            if scope not in self.groups:
                around = next((one for one in self.outwards(self.parents[scope]) if one in found), None)
                found[scope] = 1 if around is None else found[around] + 1
        return found

    def outwards(self, scope: str | None) -> Iterator[str]:
        """A scope and those around it, innermost first; none where it is not there."""
        while scope is not None and scope in self.parents:
            yield scope
            scope = self.parents[scope]

    def path(self, scope: str | None) -> list[str]:
        """The same, outermost first."""
        return [*self.outwards(scope)][::-1]

    def around(self, scope: str | None, inner: str | None) -> bool:
        """Whether ``scope`` is ``inner`` or around it; None is around all scopes."""
        if scope is None:
            return True
        if inner not in self._begin or scope not in self._begin:
            return False
        return self._begin[scope] <= self._begin[inner] < self._end[scope]

    def common(self, one: str | None, other: str | None) -> str | None:
        """The innermost scope around both; None where there is none."""
        return next((scope for scope in self.outwards(one) if self.around(scope, other)), None)

    def sums(self, own: Mapping[str | None, int]) -> Counter[str]:
        """For each scope, the sum of the numbers that ``own`` gives for it and for the scopes in it."""
        found = Counter({scope: many for scope, many in own.items() if scope is not None and scope in self.parents})
        for scope in self.inner_first():
            parent = self.parents[scope]
            if parent is not None and found[scope]:
                found[parent] += found[scope]
        return found

    def inner_first(self) -> list[str]:
        """All scopes, each before those around it."""
        return sorted(self._begin, key=self._begin.__getitem__, reverse=True)

    def inside(self, scope: str) -> Iterator[str]:
        """A scope and those in it."""
        waiting = [scope]
        while waiting:
            yield (one := waiting.pop())
            waiting += self._inner[one]

    def widen(self, spans: dict[str, tuple[int, int]]) -> None:
        """Let the span of each scope, the first and the last position in it, contain those of the scopes in it."""
        for scope in self.inner_first():
            parent = self.parents[scope]
            if parent is not None and scope in spans:
                (begin, end), (first, last) = spans.get(parent, spans[scope]), spans[scope]
                spans[parent] = min(begin, first), max(end, last)

    def inner(self, scope: str) -> list[str]:
        """The scopes directly in a scope, in the order in which they began."""
        return self._inner[scope]

    def siblings(self, calls: list[str]) -> "Siblings":
        """Scopes beside each other, in the order in which they began."""
        return Siblings([(self._begin[one], self._end[one], one) for one in calls], self._begin)


class Siblings:
    """Scopes beside each other; it finds the one that contains a given scope."""

    def __init__(self, spans: list[tuple[int, int, str]], begin: Mapping[str, int]) -> None:
        self._spans, self._begin = sorted(spans), begin
        self._firsts = [first for first, *_ in self._spans]

    def around(self, scope: str | None) -> str | None:
        """The sibling that contains ``scope`` or is ``scope``; None if there is none."""
        at = None if scope is None else self._begin.get(scope)
        if at is None:
            return None
        place = bisect_right(self._firsts, at) - 1
        return self._spans[place][2] if place >= 0 and at < self._spans[place][1] else None

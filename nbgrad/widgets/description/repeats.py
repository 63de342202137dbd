"""Runs of equal module calls, one by one or in a cycle, with the ops between them."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from itertools import zip_longest
from operator import eq
from typing import NamedTuple

from nbgrad.widgets.description.schema import Node, Scope
from nbgrad.widgets.description.tree import Tree, iterates

LONGEST = 24
"""Cycles of at most this many calls and ops are looked for: a box has no room for the names of more."""


class RepeatedCall(NamedTuple):
    """A call of a module, by the name of its class, or an op between such calls, by its own."""

    kind: str
    called: bool


class Run(NamedTuple):
    """Module calls that repeat.

    Attributes:
        cycles: the repetitions, at least two, and of each the calls in it: one, or several that take turns.
        beside: for each repetition its nodes that are in none of its calls. These are the ops between the calls, and
            tensors that only this repetition takes, such as a step of a series or a mask. Such a tensor counts only if
            each other repetition takes one like it.
        parts: what a repetition is made of, in order.
        parallel: whether no call takes what another repetition made: the calls are beside each other, as experts are.
    """

    cycles: list[list[str]]
    beside: list[list[str]]
    parts: list[RepeatedCall]
    parallel: bool = False

    @property
    def repeated(self) -> Iterator[tuple[list[str], list[str]]]:
        """The calls of each repetition, and the ops beside them."""
        return zip(self.cycles, self.beside, strict=True)


def runs(tree: Tree) -> list[Run]:
    """Runs of identical module calls that follow each other, or of identical cycles of them; an outline keeps them.

    These are the outermost runs: no call inside a call of a run is in another run.
    """
    tree = _ungrouped(tree)
    scopes, calls = tree.scopes, _Calls(tree)
    siblings: defaultdict[str | None, list[str]] = defaultdict(list)  # outer ones first
    for id, scope in scopes.items():
        siblings[scope["parent"]].append(id)
    found: list[Run] = []
    covered: set[str | None] = set()
    for parent, inner in siblings.items():
        if parent in covered:
            covered.update(inner)
            continue
        for row in calls.rows(inner):
            parts = [RepeatedCall(calls.kind(one), one in scopes) for one in row]
            for begin, period, times in _repeated(calls.numbers(row), parts):
                end = begin + period * times
                cycles = [row[at : at + period] for at in range(begin, end, period)]
                called = [[one for one in cycle if one in scopes] for cycle in cycles]
                if called[0]:
                    fed = calls.fed(cycles, parent)
                    between = [[one for one in cycle if one not in scopes] for cycle in cycles]
                    beside = [ops + nodes for ops, nodes in zip(between, fed, strict=True)]
                    parallel = calls.parallel(called, beside)
                    found.append(Run(called, beside, parts[begin : begin + period], parallel))
                    covered.update(row[begin:end])
    return found


def _ungrouped(tree: Tree) -> Tree:
    """The same tree without the scopes that only folding needs."""
    if not tree.groups:
        return tree
    around = {id: next((one for one in tree.outwards(id) if one in tree.calls), None) for id in tree.scopes}
    nodes: list[Node] = [{**one, "scope": around.get(one["scope"] or "")} for one in tree.description["nodes"]]
    scopes: list[Scope] = [
        {**one, "parent": around.get(one["parent"] or "")} for id, one in tree.scopes.items() if id in tree.calls
    ]
    return Tree({**tree.description, "nodes": nodes, "scopes": scopes})


def alike(tree: Tree) -> Callable[[str], list[str]]:
    """A function that finds the module calls like a given one: of the same class, with equal contents, connected alike.

    The answer includes the given call. Answers are cached.
    """

    @cache
    def calls() -> _Calls:
        return _Calls(tree)

    @cache
    def find(call: str) -> list[str]:
        known = calls()
        looks = known.kind(call), tree.sizes[call]
        sized = [one for one in tree.scopes if one == call or (known.kind(one), tree.sizes[one]) == looks]
        if len(sized) < 2:
            return sized
        wanted = known.inside(call)
        return [one for one in sized if one == call or known.inside(one) == wanted]

    return find


def _repeated(numbers: list[int], kinds: list[RepeatedCall]) -> Iterator[tuple[int, int, int]]:
    """Where something repeats: its first place, the length of a cycle, and how often it comes.

    If several repetitions begin at one place, the longest one counts, in the shortest cycles. Calls of the same kinds,
    but of other shapes, may come before: a cycle begins with the same kind as they do. In Linear(5, 8), ReLU,
    Linear(8, 8), ReLU, Linear(8, 8), ReLU the cycle is Linear, ReLU and not ReLU, Linear.
    """
    periods = [period for period in range(1, min(LONGEST, len(numbers) // 2) + 1) if _comes_twice(numbers, period)]
    same = {period: same_ahead(numbers, period) for period in periods}
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
    """Whether any cycle of ``period`` items is repeated at once. Mostly none is, and this check is fast."""
    return b"\1" * period in bytes(map(eq, items, items[period:]))


def same_ahead(items: list[int], period: int) -> list[int]:
    """For each place: how many items, from there on, equal the item one period later."""
    many = [0] * len(items)
    for at in range(len(items) - period - 1, -1, -1):
        many[at] = many[at + 1] + 1 if items[at] == items[at + period] else 0
    return many


def _begun(items: list[RepeatedCall], period: int) -> list[int]:
    """For each place: the first place from which all items up to this one equal the item one period later."""
    first = list(range(len(items)))
    for at in range(1, len(items) - period + 1):
        if items[at - 1] == items[at - 1 + period]:
            first[at] = first[at - 1]
    return first


class _Row:
    """A row of calls that follow each other, and of the ops between them that take their results, while it is built.

    No path leaves a row and enters it again. So a row ends at an op that takes an older result and not one of the last
    call. The row is then cut after that older result, and the next row begins with the call after it.
    """

    def __init__(
        self, taken: Mapping[int, list[tuple[str, int]]], made_in: Callable[[int], str | None], done: list[list[str]]
    ) -> None:
        self._taken, self._made_in, self._done = taken, made_in, done
        self._items: list[str] = []  # of all rows
        self._begin = 0  # of this one
        self._calls: list[int] = []  # the items that are calls
        self._place: dict[str | int | None, int] = {}  # by call, or by the position of an op: its place among the items

    @property
    def room(self) -> int:
        """How many more ops may follow the last call: with more, no cycle could contain them."""
        return LONGEST - len(self._items) + self._calls[-1]

    def call(self, id: str) -> None:
        """A call runs."""
        self._calls.append(len(self._items))
        self._append(id, id)

    def op(self, id: str, at: int) -> None:
        """An op runs. It is part of the row if it takes a result of the row."""
        made = [source if (call := self._made_in(source)) is None else call for _, source in self._taken[at]]
        latest = max([self._place.get(one, -1) for one in made], default=-1)
        if latest < self._begin:
            return
        if latest >= self._calls[-1]:
            self._append(id, at)
        else:
            self._end_after(latest)

    def end(self) -> None:
        """No more comes: the row is complete."""
        self._end_after(len(self._items) - 1)

    def _append(self, id: str, key: str | int) -> None:
        self._place[key] = len(self._items)
        self._items.append(id)

    def _end_after(self, last: int) -> None:
        """End the row after item ``last``. The next row begins with the next call; ops before that are in no row."""
        self._done.append(self._items[self._begin : last + 1])
        at = bisect_right(self._calls, last)
        self._begin = self._calls[at] if at < len(self._calls) else len(self._items)


class _Calls:
    """The facts about module calls and the ops between them: their contents, their order, and which are equal."""

    def __init__(self, tree: Tree) -> None:
        self._nodes, self._edges = tree.description["nodes"], tree.description["edges"]
        self._scopes, self._tree = tree.scopes, tree
        self._places: dict[object, int] = {}
        self._own: defaultdict[str | None, list[int]] = defaultdict(list)  # nodes in a scope but in none inside it
        self._at: dict[str, int] = {}
        for position, node in enumerate(self._nodes):
            self._at[node["id"]] = position
            self._own[node["scope"]].append(position)
        self._first = {scope: own[0] for scope, own in self._own.items() if scope in tree}
        self._last = {scope: own[-1] for scope, own in self._own.items() if scope in tree}
        for scope in tree.inner_first():
            parent = tree.parents[scope]
            if parent is not None and scope in self._first:
                self._first[parent] = min(self._first.get(parent, self._first[scope]), self._first[scope])
                self._last[parent] = max(self._last.get(parent, self._last[scope]), self._last[scope])

    def _inside(self, one: str) -> list[int]:
        """The positions of the ops in a call, in order; for an op its own position."""
        if one not in self._scopes:
            return [self._at[one]]
        return sorted(at for scope in self._tree.inside(one) for at in self._own.get(scope, ()))

    def rows(self, calls: list[str]) -> list[list[str]]:
        """Calls that follow each other, and the ops between and after them that take what these make."""
        calls = [call for call in calls if self._tree.sizes[call]]
        if len(calls) < 2:
            return []  # nothing follows itself
        done: list[list[str]] = []
        siblings = self._tree.siblings(calls)
        row = _Row(self._taken, lambda at: siblings.around(self._nodes[at]["scope"]), done)
        for call, after in zip_longest(calls, calls[1:]):
            row.call(call)
            end = len(self._nodes) if after is None else self._first[after]
            for at in range(self._last[call] + 1, end):
                node = self._nodes[at]
                if node["kind"] != "op":
                    continue
                if node["scope"] != self._scopes[call]["parent"] or not row.room:  # an op elsewhere may take anything
                    row.end()
                    break
                row.op(node["id"], at)
        row.end()
        return [row for row in done if len(row) > 1]

    def kind(self, one: str) -> str:
        """The class of the module that was called, or the name of an op."""
        return self._scopes[one]["like"] if one in self._scopes else self._nodes[self._at[one]]["op"] or ""

    def numbers(self, row: list[str]) -> list[int]:
        """A number for each call or op, equal for those of the same ops and shapes, connected in the same way."""
        looks = [self._outside(one) for one in row]
        many = Counter(looks)
        places: dict[object, int] = {}
        return [
            places.setdefault((look, self._signature(one) if many[look] > 1 else one), len(places))
            if look is not None
            else places.setdefault(self.kind(one), len(places))
            for one, look in zip(row, looks, strict=True)
        ]

    def _outside(self, one: str) -> object:
        """The facts that equal calls or ops share, without their contents; None for an iteration: kind() is enough."""
        if one in self._scopes:
            return None if iterates(self._scopes[one]) else (True, self.kind(one), self._tree.sizes[one])
        return False, self.kind(one), 1

    def inside(self, call: str) -> object:
        """The nodes of a call, and the modules that it calls."""
        scopes = [self._scopes[scope] for scope in self._tree.inside(call) if scope != call]
        called = [(scope["name"], scope["like"]) for scope in scopes]
        return called, self._signature(call)

    def _signature(self, call: str) -> object:
        members = self._inside(call)
        place = {position: count for count, position in enumerate(members)}
        return tuple(
            [(self._look(at), *[(name, place.get(source, -1)) for name, source in self._taken[at]]) for at in members]
        )

    def _look(self, at: int) -> object:
        """The facts that equal calls share in a node: without the shape of a result, as experts take other rows."""
        node = self._nodes[at]
        return node["kind"], node["op"], *(() if node["kind"] == "op" else node["label"][1:2])

    def parallel(self, cycles: list[list[str]], beside: list[list[str]]) -> bool:
        """Whether no call takes a result of another cycle, of its calls or of what is ``beside`` them."""
        cycle_of: dict[int, int] = {}
        inside: list[tuple[int, int]] = []
        for number, (calls, nodes) in enumerate(zip(cycles, beside, strict=True)):
            members = [(at, number) for call in calls for at in self._inside(call)]
            inside += members
            cycle_of.update(members)
            cycle_of.update((self._at[node], number) for node in nodes)
        return all(
            cycle_of.get(source, number) == number for at, number in inside for _, source in self._taken.get(at, ())
        )

    def fed(self, cycles: list[list[str]], inner: str | None) -> list[list[str]]:
        """For each cycle the nodes in or around ``inner`` that only it takes, if every other cycle takes such nodes."""
        ends = [cycle[-1] for cycle in cycles]
        since = [-1, *(self._last[one] if one in self._scopes else self._at[one] for one in ends)]
        found: list[dict[int, int]] = []
        every: set[int] | None = None
        for cycle, after in zip(cycles[::-1], since[-2::-1], strict=True):  # much may be before the first cycle
            found.append(self._fed_alone(cycle, after, inner, every))
            every = set(found[-1].values())
        return [[self._nodes[at]["id"] for at, place in own.items() if place in (every or ())] for own in found[::-1]]

    def _fed_alone(self, cycle: list[str], since: int, inner: str | None, among: set[int] | None) -> dict[int, int]:
        """The constants without a name, and the ops after ``since``, that only the cycle reads; each with a number.

        The number stands for the readers of the node, and is the same in each cycle. Only numbers in ``among`` count.
        """
        members = [at for call in cycle for at in self._inside(call)]
        places = {at: -place for place, at in enumerate(members)}
        waiting = [-source for at in members for _, source in self._taken[at] if source not in places]
        heapify(waiting)  # a node is looked at after all nodes that read it
        own: dict[int, int] = {}
        while waiting:
            at = -heappop(waiting)
            node = self._nodes[at]
            loose = node["kind"] == "constant" or (node["kind"] == "op" and at > since)
            if at in places or not loose or not self._tree.around(node["scope"], inner):
                continue
            if any(reader not in places for reader in self._readers[at]):  # read outside of the cycle, too
                continue
            reads = [
                (places[one], name)
                for one in dict.fromkeys(self._readers[at])
                for name, source in self._taken[one]
                if source == at
            ]
            place = self._places.setdefault((self._look(at), *reads), len(self._places) + 1)
            if among is None or place in among:
                own[at] = places[at] = place
                for _, source in self._taken[at]:
                    heappush(waiting, -source)
        return own

    @cached_property
    def _taken(self) -> defaultdict[int, list[tuple[str, int]]]:
        """For each position the names of the inputs of that node and the positions of what it took."""
        positions = {node["id"]: position for position, node in enumerate(self._nodes)}
        taken: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for edge in self._edges:
            taken[positions[edge["target"]]].append((edge["input"], positions[edge["source"]]))
        return taken

    @cached_property
    def _readers(self) -> defaultdict[int, list[int]]:
        """For each position: the positions of the nodes that took this node."""
        readers: defaultdict[int, list[int]] = defaultdict(list)
        for at, taken in self._taken.items():
            for _, source in taken:
                readers[source].append(at)
        return readers

"""Sections: the parts of a long record that has neither modules nor loops to fold.

A picture of thousands of ops that stand beside each other is no picture. So what a scope runs is cut into sections, and
long sections into shorter ones. A section is a row of the record. A record is a topological order, so no path leaves a
section and enters it again. The cuts are where few results are handed on, and where another function of the user
begins. They depend on the record alone.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import accumulate, pairwise
from math import ceil, floor, log
from typing import NamedTuple

from nbgrad.core.engine.place import Place
from nbgrad.core.translation import translate
from nbgrad.widgets.description.grouping import Group, grouped
from nbgrad.widgets.description.outline import LOOK
from nbgrad.widgets.description.repeats import Run
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.text_metrics import clip
from nbgrad.widgets.description.tree import Tree

MOST = 24
"""A scope with more boxes than this is cut into sections."""

_PARTS = 16
"""Into at most this many sections at once."""

_ASIDE = 0.4
"""A cut may be this much of the length of a section away from where it would make sections of equal lengths."""

_NEVER = 1 << 30

_CALLED = 3
"""A cut where another function of the user begins is as good as one that hands on so many results fewer."""

_NAMES = 60
"""The names of the ops in a section are cut off after this many letters."""

_FUNCTIONS = 2
"""A section names at most this many functions of the user."""


class _Item(NamedTuple):
    """A box that a scope has if all inside it is folded: an op, a call, or a run of calls.

    Attributes:
        scopes: the calls.
        nodes: the op; or what is beside the calls of a run.
        ops: the positions of the first and of the last op inside.
    """

    scopes: list[str]
    nodes: list[str]
    ops: tuple[int, int]


def sectioned(
    description: Description, runs: list[Run], places: Mapping[str, Place | None], *, told: bool
) -> Description:
    """The description with a scope for each section of what is long in it.

    Args:
        description: of a whole graph.
        runs: its runs of equal calls: a run stays whole.
        places: the user's line of each op, by its node.
        told: whether the boxes of scopes say how many bytes they keep.
    """
    if len(description["nodes"]) <= LOOK:
        return description
    tree = Tree(description)
    long = {scope: items for scope, items in _items(tree, runs).items() if len(items) > MOST}
    if not long:
        return description
    handed = _handed_on(tree, long)
    texts = _SectionTexts(tree, places)
    groups = [
        group
        for scope, items in long.items()
        for group in _SectionCuts(scope, items, _costs(handed[scope], items, texts), texts).groups()
    ]
    return grouped(description, groups, told=told)


def _items(tree: Tree, runs: list[Run]) -> dict[str | None, list[_Item]]:
    """The items of each scope, in the order of their first ops. A root is none: it is seen with its value.

    A number such as a loss begins the backward; a reader looks for it first.
    """
    nodes = tree.description["nodes"]
    spans = _spans(tree)
    position = {node["id"]: at for at, node in enumerate(nodes)}
    found: defaultdict[str | None, list[_Item]] = defaultdict(list)
    in_run: set[str] = set()
    for run in runs:
        calls = [call for calls in run.cycles for call in calls]
        beside = [id for ids in run.beside for id in ids]
        in_run.update(calls, beside)
        ops = [spans[call] for call in calls if call in spans]
        ops += [(position[id],) * 2 for id in beside if nodes[position[id]]["kind"] == "op"]
        if ops:
            whole = min(first for first, _ in ops), max(last for _, last in ops)
            found[tree.parents[calls[0]]].append(_Item(calls, beside, whole))
    for scope, parent in tree.parents.items():
        if scope in spans and scope not in in_run:
            found[parent].append(_Item([scope], [], spans[scope]))
    for at, node in enumerate(nodes):
        if node["kind"] in ("op", "failed") and node["id"] not in in_run and not node["root"]:
            found[node["scope"] if node["scope"] in tree else None].append(_Item([], [node["id"]], (at, at)))
    return {scope: sorted(items, key=lambda item: item.ops) for scope, items in found.items()}


def _spans(tree: Tree) -> dict[str, tuple[int, int]]:
    """The positions of the first and of the last op in each scope."""
    spans: dict[str, tuple[int, int]] = {}
    for at, node in enumerate(tree.description["nodes"]):
        scope = node["scope"]
        if node["kind"] in ("op", "failed") and scope in tree and scope is not None:
            spans[scope] = (spans[scope][0] if scope in spans else at), at
    tree.widen(spans)
    return spans


def _handed_on(tree: Tree, long: Mapping[str | None, list[_Item]]) -> dict[str | None, list[int]]:
    """For each scope, and each place before one of its items: how many results are handed on across it."""
    item = {
        scope: {one: at for at, item in enumerate(items) for one in (*item.scopes, *item.nodes)}
        for scope, items in long.items()
    }
    last: dict[tuple[str, str | None], tuple[int, int]] = {}  # by result and scope: the items that make and read it
    known: dict[tuple[str | None, str | None], tuple[str | None, str | None, str | None]] = {}
    for edge in tree.description["edges"]:
        source, target = tree.nodes[edge["source"]], tree.nodes[edge["target"]]
        if source["kind"] not in ("op", "failed"):
            continue
        common, *under = _parted(tree, source["scope"], target["scope"], known)
        places = item.get(common)
        if places is None:
            continue
        ends = [places.get(one or node["id"]) for one, node in zip(under, (source, target), strict=True)]
        if ends[0] is not None and ends[1] is not None:
            _, before = last.get((source["id"], common), (0, ends[0]))
            last[source["id"], common] = ends[0], max(before, ends[1])
    change = {scope: [0] * (len(items) + 1) for scope, items in long.items()}
    for (_, common), (begin, end) in last.items():
        if end > begin:
            change[common][begin + 1] += 1
            change[common][end + 1 if end < len(long[common]) else end] -= 1
    return {scope: list(accumulate(changes)) for scope, changes in change.items()}


def _parted(
    tree: Tree,
    one: str | None,
    other: str | None,
    known: dict[tuple[str | None, str | None], tuple[str | None, str | None, str | None]],
) -> tuple[str | None, str | None, str | None]:
    """The innermost scope around two scopes, and the parts of it that these are in; None where they are that scope."""
    if (one, other) not in known:
        common, parts = tree.common(one, other), list[str | None]()
        for scope in (one, other):
            inner = None
            for around in tree.outwards(scope):
                if around == common:
                    break
                inner = around
            parts.append(inner)
        known[one, other] = common, parts[0], parts[1]
    return known[one, other]


def _costs(handed: list[int], items: list[_Item], texts: "_SectionTexts") -> list[int]:
    """How bad a cut before each item is. It is _NEVER within a run: what is between its calls may lead back into it."""
    costs, end = [0], 0
    for at, (before, after) in enumerate(pairwise(items), 1):
        end = max(end, before.ops[1])
        cost = handed[at] + _CALLED * (texts.code(before.ops[1]) == texts.code(after.ops[0]))
        costs.append(_NEVER if end > after.ops[0] else cost)
    return costs


class _SectionCuts:
    """Cuts the items of one scope into sections.

    Args:
        scope: which one.
        items: in it.
        costs: how bad a cut before each of them is.
        texts: those of sections.
    """

    def __init__(self, scope: str | None, items: list[_Item], costs: list[int], texts: "_SectionTexts") -> None:
        self._scope, self._items, self._costs, self._texts = scope, items, costs, texts
        self._straight = texts.straight([at for item in items for at in item.ops])

    def groups(self) -> list[Group]:
        """The sections, outer before inner."""
        found: list[Group] = []
        waiting: list[tuple[int, int, Group | str | None]] = [(0, len(self._items), self._scope)]
        while waiting:
            begin, end, around = waiting.pop()
            if len(cuts := self._cuts(begin, end)) == 2:
                continue
            for first, last in pairwise(cuts):
                if last - first > 1:
                    found.append(self._section(self._items[first:last], around))
                    if last - first > MOST:
                        waiting.append((first, last, found[-1]))
        return found

    def _cuts(self, begin: int, end: int) -> list[int]:
        """Where the sections of the items from ``begin`` to ``end`` begin, and where the last one ends."""
        many = end - begin
        levels = max(2, ceil(round(log(many, _PARTS), 9)))
        parts = ceil(round(many ** (1 / levels), 9))
        length = many / parts
        cuts = [begin]
        for part in range(1, parts):
            ideal = begin + part * length
            near = range(ceil(ideal - _ASIDE * length), floor(ideal + _ASIDE * length) + 1)
            cuts.append(min(near, key=lambda at: (self._costs[at], abs(at - ideal))))
        return [*(cut for cut in cuts if self._costs[cut] < _NEVER or cut == begin), end]

    def _section(self, items: list[_Item], around: Group | str | None) -> Group:
        label, folds = self._texts.of(items, straight=self._straight)
        scopes = [one for item in items for one in item.scopes]
        nodes = [one for item in items for one in item.nodes]
        return Group("section", label, folds, around, scopes, nodes)


class _SectionTexts:
    """The texts of sections."""

    def __init__(self, tree: Tree, places: Mapping[str, Place | None]) -> None:
        self._tree, self._nodes = tree, tree.description["nodes"]
        self._places = [places.get(node["id"]) for node in self._nodes]
        self._numbers = list(accumulate([node["kind"] in ("op", "failed") for node in self._nodes]))

    def code(self, at: int) -> int | None:
        """The function, or the file, that ran the op at this position."""
        place = self._places[at]
        return None if place is None else place.instruction[0]

    def straight(self, positions: list[int]) -> bool:
        """Whether the ops at these positions ran line after line, in each function of the user."""
        last: dict[int, int] = {}
        for place in [self._places[at] for at in positions]:
            if place is None or place.line < last.get(place.instruction[0], 0):
                return False
            last[place.instruction[0]] = place.line
        return True

    def of(self, items: list[_Item], *, straight: bool) -> tuple[str, str]:
        """The label of a section of these items, and the line under it when it is folded."""
        first, last = items[0].ops[0], max(item.ops[1] for item in items)
        ops = [at for at in range(first, last + 1) if self._nodes[at]["kind"] in ("op", "failed")]
        names = Counter([self._nodes[at]["op"] or self._nodes[at]["label"][0] for at in ops])
        body = clip(", ".join(name if many == 1 else f"{many} {name}" for name, many in names.most_common()), _NAMES)
        calls = [item.scopes for item in items if item.scopes]
        if 2 * len(calls) > len(items):
            return f"{self._name(calls[0][0], 0)} … {self._name(calls[-1][-1], -1)}", body
        where = [place for at in ops if (place := self._places[at]) is not None]
        functions = list(dict.fromkeys([place.function for place in where if place.function]))
        lines = sorted({place.line for place in where})
        if straight and len({place.file for place in where}) == 1:
            span = translate(
                "lines {lines:,}-{lines2:,}" if len(lines) > 1 else "line {lines:,}", lines=lines[0], lines2=lines[-1]
            )
        else:
            span = translate("ops {numbers:,}-{numbers2:,}", numbers=self._numbers[first], numbers2=self._numbers[last])
        named = functions if 0 < len(functions) <= _FUNCTIONS else []
        return ", ".join([*named, span]), body

    def _name(self, call: str, end: int) -> str:
        """The name of a call; of a layer that of its first or its last module."""
        inner = self._tree.inner(call) if call in self._tree.layers else []
        return self._tree.scopes[inner[end] if inner else call]["name"]

"""Which records of two graphs belong together: by their numbers first, then by the flow of data, then by their names.

Equal numbers of the same shape are the strongest evidence: up to the first difference, they find the same tensors under
other names, in another order, and inside or outside of a fused op. After it the numbers differ; there the ops are
matched that take matched inputs, and then the ops that give the inputs of matched ops.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.distance import KnownNumbers, limit_of, near, value_of
from nbgrad.core.graph.names import path_in
from nbgrad.core.graph.record import Record

_NEAR = 16
"""Of a tensor that many ops use, so many are looked at: those at about the same place of the run."""

_AHEAD = 48
"""So many ops that are only on one side are passed, to find an op behind them."""

_SOON, _CROSSED = 8, 1.5
"""A search passes ops without a counterpart. The score falls by the second number for each that has the name of one of
the next ops on the left, as many as the first number says: it is probably that op."""

_FEW = 8
"""Of more tensors with the same numbers on one side than on the other, none is matched for its numbers alone."""

_FRONTS = 4
"""An op without a counterpart is represented by the counterparts of its inputs, and of those before them: so many."""

_TRAINS, _RUNNING, _PLACES = ("training", "use_input_stats"), ("running_mean", "running_var"), (3, 4)
"""The settings of a normalization that takes the batch's own statistics; the buffers that it changes then, and their
positions where torch's op tells no names."""

_ENOUGH = 5.0
"""Two ops belong together with this score: the same op, and at least an input or the shape speaks for it."""


class Side:
    """One of the graphs as the search reads it. A place is the position of a record in the order of the run.

    Attributes:
        records: of the graph, sources first.
        sources: by place, the places of the inputs; -1 for a number, and where nothing is known.
        users: by place, the places of the ops that take it.
        numbers: by place, what is known of the values.
        limits: by place, how far a value may be off: the coarsest type among it and what it was computed from.
    """

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        at = {record.id: place for place, record in enumerate(records)}
        self.sources = [tuple([-1 if one is None else at.get(one, -1) for one in record.parents]) for record in records]
        self.users: list[list[int]] = [[] for _ in records]
        self.numbers: list[KnownNumbers] = [value_of(record) for record in records]
        for record in records:
            trains = any(record.settings.get(name) for name in _TRAINS)
            for position, one in enumerate(record.inputs) if trains else ():  # the op has changed it, and not read it
                if (one.name in _RUNNING or position in _PLACES) and one.source in at:
                    buffer = records[at[one.source]]
                    self.numbers[at[one.source]] = KnownNumbers(buffer.shape, buffer.dtype, None)
        self.limits: list[float] = []
        for place, own in enumerate(self.sources):
            for source in dict.fromkeys(own):
                if source >= 0:
                    self.users[source].append(place)
            known = [self.limits[source] for source in own if 0 <= source < place]
            self.limits.append(max([limit_of(records[place].dtype), *known]))

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """By place, the path of the module that the op ran in."""
        known: dict[Any, tuple[str, ...]] = {}
        for record in self.records:
            if record.scope not in known:
                known[record.scope] = tuple([path_in(one) or one.label for one in outwards(record.scope)])
        return [known[record.scope] for record in self.records]

    def name(self, place: int) -> str | None:
        """The name of the op; None for a tensor that no op made."""
        op = self.records[place].op
        return None if op is None else op.name.rstrip("_")

    def is_op(self, place: int) -> bool:
        """Whether an op made it in the graph."""
        return self.records[place].kind == "op"

    @cached_property
    def root(self) -> int | None:
        """The place where the last backward began, or else that of the last result."""
        roots = [place for place, record in enumerate(self.records) if record.root]
        ends = roots or [place for place, users in enumerate(self.users) if not users and self.is_op(place)]
        return ends[-1] if ends else None


class Counterparts:
    """The places of both graphs that belong together.

    Attributes:
        left, right: the graphs.
        of_left, of_right: by place, the place of the counterpart; -1 where there is none.
    """

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right
        self.of_left = [-1] * len(left.records)
        self.of_right = [-1] * len(right.records)
        self._by_numbers()
        self._by_names()
        self._forwards()
        self._nearly_equal()
        self._backwards()
        self._forwards()
        self._leaves()

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The places of the records that belong together, in the order of the left graph."""
        return ((left, right) for left, right in enumerate(self.of_left) if right >= 0)

    def _near(self, left: int, right: int) -> bool:
        """Whether the numbers of two places are known, and agree."""
        mine, theirs = self.left.numbers[left], self.right.numbers[right]
        if mine.shape != theirs.shape or theirs.array is None:
            return False
        return near(mine, theirs, max(self.left.limits[left], self.right.limits[right])) is not None

    def _match(self, left: int, right: int) -> None:
        self.of_left[left], self.of_right[right] = right, left

    def part(self, left: int) -> None:
        """Take a left place and its counterpart apart."""
        self.of_right[self.of_left[left]] = -1
        self.of_left[left] = -1

    def _free(self, left: int, right: int) -> bool:
        return self.of_left[left] < 0 and self.of_right[right] < 0

    # By numbers and names.

    def _by_numbers(self) -> None:
        """Match the tensors with exactly the same numbers, if these tell them from all others."""
        groups: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, graph in enumerate((self.left, self.right)):
            for place, numbers in enumerate(graph.numbers):
                if numbers.telling:
                    groups[numbers.key][side].append(place)
        for mine, theirs in groups.values():
            if mine and theirs:
                self._equal(mine, theirs)

    def _equal(self, mine: list[int], theirs: list[int]) -> None:
        """Match tensors with the same numbers: a view and its base have them too."""
        if max(len(mine), len(theirs)) <= _FEW:
            names = [[self._kind(side, at) for at in own] for side, own in ((self.left, mine), (self.right, theirs))]
            for block in SequenceMatcher(None, names[0], names[1], autojunk=False).get_matching_blocks():
                for at in range(block.size):
                    self._match(mine[block.a + at], theirs[block.b + at])
        one = self.left.numbers[mine[0]].head
        left = [place for place in mine if self.of_left[place] < 0]
        right = [place for place in theirs if self.of_right[place] < 0]
        if one.size > 1 and len(left) == len(right):  # one number may be the same by chance
            for pair in zip(left, right, strict=True):
                self._match(*pair)
        elif one.size > 1 and left and right and max(len(left), len(right)) <= _FEW:
            self._match(left[-1], right[-1])

    def _kind(self, side: Side, place: int) -> str:
        record = side.records[place]
        return side.name(place) or f"tensor {record.full_name or record.kind}"

    def _by_names(self) -> None:
        """Match the parameters and inputs of one name whose numbers differ, those of one shape first."""
        counts = [Counter(record.full_name for record in side.records) for side in (self.left, self.right)]
        for shaped in (True, False):
            known: dict[Any, list[int]] = defaultdict(list)
            for place in self._named(self.right, self.of_right):
                record = self.right.records[place]
                known[record.full_name, record.shape if shaped else None].append(place)
            for place in self._named(self.left, self.of_left):
                record = self.left.records[place]
                found = known.get((record.full_name, record.shape if shaped else None), [])
                alone = shaped or all(count[record.full_name] == 1 for count in counts)  # not each Linear.weight
                if len(found) == 1 and alone:
                    self._match(place, found.pop())

    def _named(self, side: Side, known: list[int]) -> list[int]:
        """The places of the tensors with a name that no op made and that have no counterpart yet."""
        return [
            at for at, record in enumerate(side.records) if known[at] < 0 and record.full_name and not side.is_op(at)
        ]

    def _nearly_equal(self) -> None:
        """Match the results that are equal up to rounding, if they have several numbers."""
        lengths: dict[Any, list[tuple[float, int]]] = defaultdict(list)
        for place, numbers in enumerate(self.right.numbers):
            if self.of_right[place] < 0 and numbers.telling and numbers.head.size > 1:
                lengths[numbers.shape].append((numbers.length, place))
        for own in lengths.values():
            own.sort()
        coarsest = max(self.right.limits, default=0.0)
        for place, numbers in enumerate(self.left.numbers):
            if self.of_left[place] >= 0 or not numbers.telling or numbers.head.size == 1:
                continue
            known = lengths.get(numbers.shape, [])
            room = 2 * max(coarsest, self.left.limits[place]) * numbers.length
            first = bisect_left(known, (numbers.length - room, -1))
            last = bisect_right(known, (numbers.length + room, len(self.of_right)))
            self._nearest(place, [at for _, at in known[first:last] if self.of_right[at] < 0])

    def _nearest(self, left: int, candidates: list[int]) -> None:
        """Match a place with that of ``candidates`` whose numbers agree: the same op, and the same inputs, first."""
        if len(candidates) > _NEAR:
            candidates = sorted(candidates, key=lambda at: abs(self._shift(left, at)))[:_NEAR]
        found, own = [], self.left.numbers[left]
        for at in candidates:
            other = self.right.numbers[at]
            if self.left.is_op(left) == self.right.is_op(at):
                apart = near(own, other, max(self.left.limits[left], self.right.limits[at]))
                if apart is not None:
                    sources = self.right.sources[at]
                    known = sum(self.of_left[one] in sources for one in self._inputs(left) if self.of_left[one] >= 0)
                    found.append((self.left.name(left) != self.right.name(at), -known, abs(self._shift(left, at)), at))
        if found:
            self._match(left, min(found)[-1])

    def _shift(self, left: int, right: int) -> float:
        """How much later in its run the right one comes, as a number of ops of the right run."""
        return right - left * len(self.of_right) / max(1, len(self.of_left))

    # By the flow of data.

    def _forwards(self) -> None:
        """Match each op with the same op that takes the counterparts of its inputs."""
        fronts: list[list[int]] = []
        waiting: dict[Any, list[int]] = defaultdict(list)
        for place in range(len(self.of_right) - 1, -1, -1):
            if self.right.is_op(place) and self.of_right[place] < 0:
                for shape in (self.right.records[place].shape, None):
                    waiting[self.right.name(place), shape].append(place)
        for place in range(len(self.of_left)):
            if self.left.is_op(place) and self.of_left[place] < 0:
                self._forward(place, [at for one in self._inputs(place) for at in fronts[one]], waiting)
            fronts.append(self._front(place, fronts))

    def _inputs(self, place: int) -> list[int]:
        return [source for source in dict.fromkeys(self.left.sources[place]) if source >= 0]

    def _front(self, place: int, fronts: list[list[int]]) -> list[int]:
        """The right places that stand for a left one: its counterpart, or those of its inputs."""
        if self.of_left[place] >= 0:
            return [self.of_left[place]]
        found = dict.fromkeys(at for source in self._inputs(place) for at in fronts[source])
        return list(found)[:_FRONTS]

    def _forward(self, left: int, before: list[int], waiting: dict[Any, list[int]]) -> None:
        """Match one left op."""
        found: dict[int, float] = {}
        later = self._later(left) if before else set()
        for start in dict.fromkeys(before):
            self._search(left, start, later, found)
        if found:
            best = max(found, key=lambda at: (found[at], -abs(self._shift(left, at))))
            if found[best] >= _ENOUGH:
                self._match(left, best)
            return
        for shape in () if before else (self.left.records[left].shape, None):
            own = waiting[self.left.name(left), shape]
            while own and self.of_right[own[-1]] >= 0:
                own.pop()
            if own:
                self._match(left, own.pop())
                return

    def _search(self, left: int, start: int, later: set[str | None], found: dict[int, float]) -> None:
        """Score the right ops behind ``start``: those that take it, and those behind ops that are only there."""
        name, steps = self.left.name(left), 0
        ahead, seen = [start], {start}
        while ahead and steps < _AHEAD:
            place = ahead.pop(0)
            for at in self._users(left, self.right.users[place]):
                steps += 1
                if at in seen or self.of_right[at] >= 0:
                    continue
                seen.add(at)
                if self.right.name(at) == name:
                    found[at] = self._score(left, at) - self._passed(at, later)
                else:
                    ahead.append(at)

    def _passed(self, right: int, later: set[str | None]) -> float:
        """The cost of passing the ops without counterparts from which a right op is computed."""
        found, waiting = set[int](), [right]
        while waiting and len(found) < _AHEAD:
            own = self.right.sources[waiting.pop()]
            new = [at for at in own if at >= 0 and self.of_right[at] < 0 and self.right.is_op(at) and at not in found]
            found.update(new)
            waiting += new
        return sum(_CROSSED if self.right.name(at) in later else 0.25 for at in found)

    def _later(self, left: int) -> set[str | None]:
        """The names of the next ops without counterparts that are computed from a left one."""
        found, ahead = list[int](), [left]
        while ahead and len(found) < _SOON:
            new = [at for at in self.left.users[ahead.pop(0)] if self.of_left[at] < 0 and at not in found]
            found += new
            ahead += new
        return {self.left.name(at) for at in found[:_SOON]}

    def _users(self, left: int, users: list[int]) -> list[int]:
        """The ``users`` of a tensor at about the place of the run where ``left`` is."""
        if len(users) <= _NEAR:
            return users
        middle = bisect_left(users, left * len(self.of_right) / max(1, len(self.of_left)))
        free = [at for at in users[max(0, middle - 8 * _NEAR) : middle + 8 * _NEAR] if self.of_right[at] < 0]
        return free[: 2 * _NEAR]

    def _score(self, left: int, right: int) -> float:
        """How much speaks for two places with the same op."""
        one, other = self.left.records[left], self.right.records[right]
        score = 4.0
        if one.shape == other.shape:
            score += 2.0
        mine, theirs = self.left.sources[left], self.right.sources[right]
        if mine:
            score += 3.0 * sum(source >= 0 and self.of_left[source] in theirs for source in mine) / len(mine)
            placed = zip(mine, theirs, strict=False)
            score += 0.5 * sum(a >= 0 and self.of_left[a] == b for a, b in placed) / len(mine)
            known = [self.of_left[at] for at in mine if at >= 0 and not self.left.is_op(at)]
            score -= 1.5 * sum(at >= 0 and at not in theirs for at in known)  # it takes the parameters of another layer
        if one.settings == other.settings:
            score += 0.5
        if self.left.paths[left] == self.right.paths[right]:
            score += 1.0
        if one.name is not None and one.name == other.name:
            score += 0.5
        if self.left.numbers[left].telling and self._near(left, right):
            score += 4.0
        return score

    def _backwards(self) -> None:
        """Match the ops that give the inputs of matched ops: one op may stand for the last of several."""
        left, right = self.left.root, self.right.root
        if left is not None and right is not None and self._free(left, right) and self._alike(left, right):
            self._match(left, right)
        for left in range(len(self.of_left) - 1, -1, -1):
            right = self.of_left[left]
            if right >= 0:
                self._before(left, right)

    def _alike(self, left: int, right: int) -> bool:
        one, other = self.left.records[left], self.right.records[right]
        return one.shape == other.shape and self.left.is_op(left) == self.right.is_op(right)

    def _before(self, left: int, right: int) -> None:
        """Match the ops that give the inputs of two matched ops."""
        mine, theirs = self.left.sources[left], self.right.sources[right]
        if self.left.name(left) == self.right.name(right):
            for a, b in zip(mine, theirs, strict=False):
                if a >= 0 and b >= 0 and self._free(a, b) and self.left.is_op(a) and self._alike(a, b):
                    self._match(a, b)
        lone = [
            [at for at in dict.fromkeys(own) if at >= 0 and side.is_op(at) and known[at] < 0]
            for own, side, known in ((mine, self.left, self.of_left), (theirs, self.right, self.of_right))
        ]
        if len(lone[0]) == len(lone[1]) == 1:
            a, b = lone[0][0], lone[1][0]
            if self._alike(a, b) and self._rest_matches(mine, theirs, a, b):
                self._match(a, b)

    def _rest_matches(self, mine: tuple[int, ...], theirs: tuple[int, ...], left: int, right: int) -> bool:
        """Whether all other inputs are counterparts of one another, or tensors that no op made."""
        rest = [at for at in mine if at >= 0 and at != left and self.left.is_op(at)]
        return all(self.of_left[at] in theirs for at in rest) and right not in [self.of_left[at] for at in rest]

    def _leaves(self) -> None:
        """Match the tensors that no op made, and that matched ops take at the same position."""
        for left, right in list(self.pairs()):
            if self.left.name(left) is None or self.left.name(left) != self.right.name(right):
                continue
            for a, b in zip(self.left.sources[left], self.right.sources[right], strict=False):
                if a >= 0 and b >= 0 and self._free(a, b) and not self.left.is_op(a) and not self.right.is_op(b):
                    self._match(a, b)

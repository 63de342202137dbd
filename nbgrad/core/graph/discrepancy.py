"""``Discrepancy``: an op whose inputs agree and whose result does not, and what is different about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from math import isnan
from typing import Any

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.counterparts import Counterparts, Side
from nbgrad.core.graph.distance import Distance, distance, gradient_of, noise_of
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Described, Input, Record
from nbgrad.core.translation import message, translate

_ADDS = frozenset({"add", "sub", "sum", "mean", "linear", "matmul"})
"""Ops that add numbers, which may cancel: what is left then is rounding."""

_STEP, _DRIFT = 16, 100
"""An op may make the distance of its inputs larger by the first factor, as long as they are not farther apart than the
second factor times what rounding explains: in a deep network rounding grows."""

RESULT = message("its result")
"""In the place of the name of an input: the gradient of the result itself differs."""

_REGION = 256
"""At most so many ops that are only on one side are named together."""


@dataclass(frozen=True)
class Discrepancy:
    """A place where two runs part: everything before it agrees.

    Attributes:
        kind: "op", an op with another result or gradient; "tensor", a parameter, an input or a constant with other
            numbers; "extra", ops that are only on one side.
        left, right: the records; None on the side that has none.
        settings: by name, what is set differently: the left value and the right one.
        distance: how far the results, or the gradients, are apart; None where shapes or presence differ.
        gradient: the name of the input whose gradient differs; None for a difference of the forward.
        parts: the ops of the left and of the right that stand for it, if it is not one op on both sides, and the ops
            that are only on one side.
        user: of a tensor, and of an op whose line is not known, the first op that takes it on the left.
        note: one more sentence; may be empty.
    """

    kind: str
    left: Record | None
    right: Record | None
    settings: dict[str, tuple[Any, Any]]
    distance: Distance | None
    gradient: str | None = None
    parts: tuple[tuple[Record, ...], tuple[Record, ...]] = ((), ())
    user: Record | None = None
    note: str = ""


_NOT_GIVEN = "not given"


def settings_apart(left: Record, right: Record, rank: int = 0) -> dict[str, tuple[Any, Any]]:
    """The arguments of the same op that differ, by name.

    Args:
        left: the op on one side.
        right: the op on the other side.
        rank: how many dimensions the first input has; 0 if that is not known. A dimension that is counted from the end
            is the same as one that is counted from the front.
    """
    found: dict[str, tuple[Any, Any]] = {}
    if left.op is None or right.op is None or left.op.name.rstrip("_") != right.op.name.rstrip("_"):
        return found
    names = dict.fromkeys((*left.settings, *right.settings))
    for name in names:
        a, b = (_filled(record, name) for record in (left, right))
        told = not any(value is Parameter.empty for value in (a, b))  # another engine may not say an argument
        if told and not _same(name, a, b, rank):
            found[name] = (a, b)
    for one, other in zip(left.inputs, right.inputs, strict=False):
        if one.source is None and other.source is None and not _same(one.name, one.literal, other.literal, 0):
            found[one.name] = (one.literal, other.literal)
        elif (one.source is None) != (other.source is None) and None in (_given(one), _given(other)):
            found[one.name] = (_given(one) or _NOT_GIVEN, _given(other) or _NOT_GIVEN)
    return found


def _numbers_for_tensors(left: Record, right: Record) -> dict[str, tuple[Any, Any]]:
    """The inputs that are a number on one side and a tensor on the other one, by name.

    They are no settings that differ: the number may be that of the tensor.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for pair in zip(left.inputs, right.inputs, strict=False):
        if len({one.source is None for one in pair}) == 2:
            mine, theirs = (translate("a tensor") if one.source is not None else one.literal for one in pair)
            found[pair[0].name] = mine, theirs
    return found


def _filled(record: Record, name: str) -> Any:
    known = record.op.defaults if record.op is not None else {}
    return record.settings.get(name, known.get(name, _NOT_GIVEN))


def _given(one: Input) -> str | None:
    """The word for an input that is there; None for one that was left out."""
    if one.source is not None:
        return "given"
    return None if one.literal is None else repr(one.literal)


def _same(name: str, left: Any, right: Any, rank: int) -> bool:
    """Whether two values of a setting mean the same: 2 and (2, 2), or the last dimension from either end."""
    if isinstance(left, Described) and isinstance(right, Described):
        return left == right
    if left is right or left == right or (_is_nan(left) and _is_nan(right)):
        return True
    if _NOT_GIVEN in (left, right):  # torch's functions without a row have no known defaults: most are off
        return not (left if right == _NOT_GIVEN else right)
    if name.startswith("dim") and _dims(left, rank) == _dims(right, rank) is not None:
        return True
    several = [one for one in (left, right) if isinstance(one, tuple | list)]
    if len(several) == 1:
        lone = right if several[0] is left else left
        return bool(several[0]) and all(one == lone for one in several[0])
    return len(several) == 2 and list(left) == list(right)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _dims(value: Any, rank: int) -> tuple[int, ...] | None:
    """Dimensions counted from the first one of ``rank``."""
    found = value if isinstance(value, tuple | list) else (value,)
    if not rank or not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
        return None
    return tuple(sorted(one % rank for one in found))


class DiscrepancySearch:
    """The search for the places where the runs part. It goes through the pairs in the order of the left run.

    Args:
        found: the records that belong together.
        limit: the relative distance up to which results agree, in the place of those of the element types.
    """

    def __init__(self, found: Counterparts, limit: float | None) -> None:
        self.found = found
        self.left, self.right = found.left, found.right
        self._limit = limit
        self.values: dict[tuple[int, int], Distance | None] = {}
        self.agreeing: dict[tuple[int, int], bool] = {}

    def settings(self, left: int, right: int) -> dict[str, tuple[Any, Any]]:
        """The arguments of the same op that differ, by name."""
        sources = [side.sources[at] for side, at in ((self.left, left), (self.right, right))]
        first = next((at for at in sources[0] if at >= 0), None)
        rank = 0 if first is None else len(self.left.records[first].shape)
        return settings_apart(self.left.records[left], self.right.records[right], rank)

    # Values.

    def limit(self, left: int, right: int) -> float:
        """How far two values may be apart."""
        return self._limit if self._limit is not None else max(self.left.limits[left], self.right.limits[right])

    def value(self, left: int, right: int) -> Distance | None:
        """How far two values are apart; None where that is not known."""
        if (left, right) not in self.values:
            noise = max(_noise(self.left, left), _noise(self.right, right)) if self._limit is None else 0.0
            numbers = self.left.numbers[left], self.right.numbers[right]
            self.values[left, right] = distance(*numbers, self.limit(left, right), noise)
        return self.values[left, right]

    def agree(self, left: int, right: int) -> bool:
        """Whether two values agree. Where they are not known, they do if the same op made them of the same inputs."""
        if (left, right) not in self.agreeing:
            self.agreeing[left, right] = self._agree(left, right)
        return self.agreeing[left, right]

    def _agree(self, left: int, right: int) -> bool:
        one, other = self.left.records[left], self.right.records[right]
        if one.shape != other.shape:
            return False
        apart = self.value(left, right)
        if apart is None:
            return self._made_alike(left, right)
        if self._limit is None and apart.agrees and apart.relative > 0 and self._exactly_alike(left, right):
            return not self.settings(left, right)
        return apart.agrees or self._grown(left, right, apart)

    def _grown(self, left: int, right: int, apart: Distance) -> bool:
        """Whether a distance is that of the inputs, which agree, and which the same op has made a little larger."""
        if self._limit is not None or apart.relative > _DRIFT * self.limit(left, right):
            return False
        if self.left.name(left) != self.right.name(right) or self.left.name(left) is None:
            return False
        pairs = [pair for pair in self.inputs(left, right) if -1 not in pair]
        before = max([one.relative for pair in pairs if (one := self.value(*pair)) is not None], default=0.0)
        alike = apart.relative <= _STEP * before and all(self.agree(*pair) for pair in pairs)
        return alike and not self.settings(left, right)

    def _made_alike(self, left: int, right: int) -> bool:
        """Whether the same op made both of the same inputs: for values of which nothing is known."""
        if self.found.of_left[left] != right:
            return False
        if self.left.name(left) != self.right.name(right):
            return False
        pairs = [pair for pair in self.inputs(left, right) if -1 not in pair]
        return all(self.agree(*pair) for pair in pairs) and not self.settings(left, right)

    def _exactly_alike(self, left: int, right: int) -> bool:
        """Whether the same op took exactly the same inputs."""
        if self.left.name(left) is None or self.left.name(left) != self.right.name(right):
            return False
        pairs = [pair for pair in self.inputs(left, right) if -1 not in pair]
        known = [self.value(*pair) for pair in pairs]
        return bool(pairs) and all(one is not None and one.relative == 0 for one in known)

    def inputs(self, left: int, right: int) -> list[tuple[int, int]]:
        """The inputs at the same positions of the same op; in the other order, if only then they agree."""
        mine, theirs = self.left.sources[left], self.right.sources[right]
        return [(mine[at], theirs[place]) for at, place in enumerate(self._order(left, right))]

    def _order(self, left: int, right: int) -> list[int]:
        """The position of the right input that belongs to each left one: two outputs of one op are one source."""
        mine, theirs = self.left.sources[left], self.right.sources[right]
        if len(mine) == len(theirs) == 2 and self.left.name(left) in ("add", "mul"):
            crossed = [(mine[0], theirs[1]), (mine[1], theirs[0])]
            if self._together(crossed) > self._together(list(zip(mine, theirs, strict=True))):
                return [1, 0]
        return list(range(min(len(mine), len(theirs))))

    def _together(self, pairs: list[tuple[int, int]]) -> int:
        """How many of the pairs are counterparts."""
        return sum(a >= 0 and b >= 0 and self.found.of_left[a] == b for a, b in pairs)

    # The forward.

    def heal(self) -> None:
        """Part the pairs that differ although every result that is computed from them agrees again.

        They are steps on different ways to the same numbers, such as a scale before and after a product.
        """
        for pair in self.found.pairs():
            self.agree(*pair)  # in the order of the run: where results are not known, it depends on those before them
        alone = self._only_setting()
        spoiled = [False] * len(self.left.records)
        for left in range(len(self.left.records) - 1, -1, -1):
            right, users = self.found.of_left[left], self.left.users[left]
            behind = left == self.left.root or any(spoiled[user] for user in users)
            if right < 0:
                spoiled[left] = behind
            elif self.agree(left, right):
                apart = self.value(left, right)  # the rounding of a sum that cancels hides any difference before it
                spoiled[left] = apart is not None and apart.relative > _DRIFT * self.limit(left, right)
            else:
                used = [self.found.of_right[at] for at in self.right.users[right] if self.found.of_right[at] >= 0]
                spoiled[left] = behind or not users or any(spoiled[at] for at in used)
                if not spoiled[left] and self.left.is_op(left) and not self._set_apart(left, right, alone):
                    self.found.part(left)

    def _only_setting(self) -> bool:
        """Whether all ops have counterparts, and only one of them has other arguments: nothing can make up for it."""
        for side, known in ((self.left, self.found.of_left), (self.right, self.found.of_right)):
            if any(other < 0 and side.is_op(at) for at, other in enumerate(known)):
                return False
        pairs = ((left, right) for left, right in self.found.pairs() if self.left.is_op(left))
        return sum(self.left.name(a) != self.right.name(b) or bool(self.settings(a, b)) for a, b in pairs) == 1

    def _set_apart(self, left: int, right: int, alone: bool) -> bool:
        """Whether the same op computes something else of the same inputs: then it does not matter what comes later.

        A number among the inputs may be made up for by another one, unless it is ``alone``.
        """
        if self.left.name(left) != self.right.name(right):
            return False
        one = self.left.records[left]
        numbers = set() if alone else {known.name for known in one.inputs if known.source is None}
        pairs = [pair for pair in self.inputs(left, right) if -1 not in pair]
        return bool(self.settings(left, right).keys() - numbers) and all(self.agree(*pair) for pair in pairs)

    def forward(self) -> Iterator[Discrepancy]:
        """The places where values part, in the order of the left run."""
        seen: set[tuple[str, int, int]] = set()
        for left, right in [*self.found.pairs(), *self._ends()]:
            if self.left.is_op(left) and (self._ended(left, right) or not self.agree(left, right)):
                for one, key in self._origins(left, right):
                    if key not in seen:
                        seen.add(key)
                        yield one
        if not seen:
            yield from self._first_apart()

    def _first_apart(self) -> Iterator[Discrepancy]:
        """Where runs part whose ops stand in another order: ops on one side before what differs, or what differs."""
        pair = next((pair for pair in self.found.pairs() if self.left.is_op(pair[0]) and not self.agree(*pair)), None)
        if pair is None:
            return
        mine, theirs = self.lacking()
        if mine or theirs:
            yield self._extra(*pair, (tuple(mine), tuple(theirs)))
            return
        taken = [known for known in self.inputs(*pair) if -1 not in known and self.found.of_left[known[0]] != known[1]]
        yield self._exchanged(*pair, taken)

    def _extra(self, left: int, right: int, parts: tuple[tuple[Record, ...], tuple[Record, ...]]) -> Discrepancy:
        """Results that differ because there are ops on one side only."""
        one = self.left.records[left]
        first = (parts[0][0] if parts[0] else None, parts[1][0] if parts[1] else None)
        user = None if one in parts[0] else one  # the last op of a run has none behind it
        return Discrepancy("extra", *first, {}, self.value(left, right), parts=parts, user=user)

    def _exchanged(self, left: int, right: int, taken: list[tuple[int, int]]) -> Discrepancy:
        """Results that differ because the same op takes other tensors."""
        one, other = self.left.records[left], self.right.records[right]
        named = {self._input_name(left, a): self._pair_called(a, b) for a, b in taken}
        note = translate("it takes another tensor")
        return Discrepancy("op", one, other, named, self.value(left, right), note=note)

    def _ended(self, left: int, right: int) -> bool:
        return self.found.of_left[left] != right

    def _ends(self) -> list[tuple[int, int]]:
        """The ends of both runs, if they are no counterparts."""
        left, right = self.left.root, self.right.root
        if left is None or right is None or self.found.of_left[left] == right or self.agree(left, right):
            return []
        return [(left, right)]

    def _origins(self, left: int, right: int) -> Iterator[tuple[Discrepancy, tuple[str, int, int]]]:
        """The reasons why two results differ; none if an earlier op is the reason."""
        if self._ended(left, right):
            yield from self._region(left, right, [(left, right)])
            return
        if self.left.name(left) != self.right.name(right):
            yield from self._region(left, right, None)
            return
        wrong = [pair for pair in self.inputs(left, right) if -1 not in pair and not self.agree(*pair)]
        if not wrong:
            yield self._op(left, right), ("op", left, right)
            return
        for pair in wrong:
            if not self.left.is_op(pair[0]) and not self.right.is_op(pair[1]):
                yield self._tensor(*pair, left), ("tensor", *pair)
            elif self.found.of_left[pair[0]] != pair[1]:
                yield from self._region(left, right, [pair])

    def _op(self, left: int, right: int) -> Discrepancy:
        """The same op with another result; or ops before it, if their results are not known."""
        one, other = self.left.records[left], self.right.records[right]
        settings, apart = self.settings(left, right), self.value(left, right)
        unseen = [] if settings else self._unseen(left, right)
        if unseen:
            parts = [[side.records[at[place]] for at in unseen] for place, side in enumerate((self.left, self.right))]
            both = (*parts[0], one), (*parts[1], other)
            note = translate("the results between are not known")
            return Discrepancy("op", both[0][0], both[1][0], {}, apart, parts=both, user=one, note=note)
        named = settings or _numbers_for_tensors(one, other)
        note = "" if named or apart is None else _drawn(one) or self._since(left, right)
        return Discrepancy("op", one, other, named, apart, note=note)

    def _since(self, left: int, right: int) -> str:
        """A sentence on where the numbers were last equal bit for bit, if rounding before this op has grown."""
        before = [self.value(*pair) for pair in self.inputs(left, right) if -1 not in pair]
        if not any(one is not None and one.relative > 0 for one in before):
            return ""
        for a, b in self.found.pairs():
            known = self.value(a, b)
            if known is not None and known.relative > 0 and self.left.is_op(a):
                return translate("its inputs are not equal bit for bit since {run}", run=self.left.records[a].run)
        return ""

    def _unseen(self, left: int, right: int) -> list[tuple[int, int]]:
        """The ops before two results whose own results are not known, in the order of the run."""
        found, waiting = set[tuple[int, int]](), [(left, right)]
        while waiting and len(found) < _REGION:
            for pair in self.inputs(*waiting.pop()):
                if -1 not in pair and pair not in found and self.left.is_op(pair[0]) and self.value(*pair) is None:
                    found.add(pair)
                    waiting.append(pair)
        return sorted(found)

    def _tensor(self, left: int, right: int, user: int) -> Discrepancy:
        one, other = self.left.records[left], self.right.records[right]
        shapes = {} if one.shape == other.shape else {"shape": (one.shape, other.shape)}
        note = self._turned(left, right)
        apart = self.value(left, right)
        return Discrepancy("tensor", one, other, shapes, apart, user=self.left.records[user], note=note)

    def _turned(self, left: int, right: int) -> str:
        """A sentence if one is the other one transposed, or if it is that of another place of the run."""
        a, b = self.left.numbers[left], self.right.numbers[right]
        known = len(a.shape) == 2 and a.shape == b.shape[::-1] and a.whole and b.whole
        turned = known and (a.array.reshape(a.shape) == b.array.reshape(b.shape).T).all()
        return translate("one is the other one transposed") if turned else ""

    def _region(
        self, left: int, right: int, wrong: list[tuple[int, int]] | None
    ) -> Iterator[tuple[Discrepancy, tuple[str, int, int]]]:
        """The ops between two results that differ and the results before them that have counterparts.

        ``wrong`` are the pairs of inputs that are looked at; None for all of them, if two different ops are compared.
        """
        starts = ([left], [right]) if wrong is None else ([a for a, _ in wrong], [b for _, b in wrong])
        mine = self._between(self.left, self.found.of_left, starts[0], wrong is None)
        theirs = self._between(self.right, self.found.of_right, starts[1], wrong is None)
        edges = [(at, self.found.of_left[at]) for at in mine[1]] + [(self.found.of_right[at], at) for at in theirs[1]]
        if any(not self.agree(*edge) for edge in edges):
            tensors = [edge for edge in edges if not self.agree(*edge) and not self.left.is_op(edge[0])]
            for edge in dict.fromkeys(tensors):
                yield self._tensor(*edge, left), ("tensor", *edge)
            return
        parts = self._parts(mine[0], theirs[0])
        if wrong is None:
            both = self.left.records[left], self.right.records[right]
            yield Discrepancy("op", *both, {}, self.value(left, right), parts=parts), ("op", left, right)
        elif mine[0] or theirs[0]:
            yield self._extra(left, right, parts), ("extra", min(mine[0], default=-1), min(theirs[0], default=-1))
        else:
            yield self._exchanged(left, right, wrong), ("op", left, right)

    def _parts(self, left: list[int], right: list[int]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        """The records at these places of both sides."""
        return tuple([self.left.records[at] for at in left]), tuple([self.right.records[at] for at in right])

    def _between(self, side: Side, known: list[int], starts: list[int], own: bool) -> tuple[list[int], list[int]]:
        """The ops without counterparts behind the last matched results, and these results."""
        inside, edges, waiting = list[int](), list[int](), list[int]()
        for start in starts:
            waiting += [at for at in side.sources[start] if at >= 0] if own else [start]
        seen = set(waiting)
        while waiting and len(inside) < _REGION:
            at = waiting.pop()
            if known[at] >= 0:
                edges.append(at)
            elif side.is_op(at):
                inside.append(at)
                new = [one for one in side.sources[at] if one >= 0 and one not in seen]
                seen.update(new)
                waiting += new
        return sorted([*inside, *(starts if own else ())]), sorted(edges)

    def _input_name(self, left: int, source: int) -> str:
        position = self.left.sources[left].index(source)
        return self.left.records[left].inputs[position].name

    def _called(self, side: Side, place: int) -> str:
        record = side.records[place]
        return record.full_name or record.run

    def _pair_called(self, left: int, right: int) -> tuple[str, str]:
        """The names of two tensors that take the same place, with numbers if the names are equal."""
        mine, theirs = self._called(self.left, left), self._called(self.right, right)
        return (
            (mine, theirs) if mine != theirs else (self._numbered(self.left, left), self._numbered(self.right, right))
        )

    def _numbered(self, side: Side, place: int) -> str:
        """The name of a tensor, with its number among those of this name: two ops of one line have one name."""
        record, called = side.records[place], self._called(side, place)
        alike = [at for at in range(len(side.records)) if self._called(side, at) == called]
        what = translate(
            "{what} ({number} of {count})",
            what=record.full_name or record.kind_or_op,
            number=alike.index(place) + 1,
            count=len(alike),
        )
        if record.full_name or record.place is None:
            return what
        return translate("{what} at {where}", what=what, where=place_text(record.place, record.earlier or ""))

    def lacking(self) -> tuple[list[Record], list[Record]]:
        """The ops of each side without a counterpart before results that differ: not those inside of an equal op."""
        sides = (self.left, self.found.of_left), (self.right, self.found.of_right)
        return tuple([side.records[at] for at in self._lacking(side, known)] for side, known in sides)  # type: ignore[return-value]  # two

    def _lacking(self, side: Side, known: list[int]) -> list[int]:
        found, wrong = list[int](), [False] * len(known)
        for at in range(len(known) - 1, -1, -1):
            if known[at] >= 0:
                wrong[at] = not self.agree(*((at, known[at]) if side is self.left else (known[at], at)))
            elif side.is_op(at):
                users = side.users[at]
                wrong[at] = not users or any(wrong[user] for user in users)
                if wrong[at]:
                    found.append(at)
        return found[::-1]

    # The backward.

    def backward(self) -> Iterator[Discrepancy]:
        """The places where gradients part although values and arriving gradients agree, in backward order."""
        for left, right in sorted(self.found.pairs(), reverse=True):
            if self.left.is_op(left) and self._judged(left, right):
                yield from self._given(left, right)
            yield from self._around(left, right)

    def _judged(self, left: int, right: int) -> bool:
        """Whether an op got the same gradient on both sides, and computed with the same values."""
        return self.found.of_left[left] == right and self._arrives(left, right) and self._same_values(left, right)

    def _arrives(self, left: int, right: int) -> bool:
        one, other = self.left.records[left], self.right.records[right]
        if one.gradient is None or other.gradient is None:
            return False
        apart = self.gradient(left, right)
        return apart is not None and apart.relative <= self._room  # rounding noise would explain what it passes on

    def _same_values(self, left: int, right: int) -> bool:
        pairs = [pair for pair in self.inputs(left, right) if -1 not in pair]
        return self.agree(left, right) and all(self.agree(*pair) for pair in pairs)

    def gradient(self, left: int, right: int) -> Distance | None:
        """How far the gradients of two results are apart; None where that is not known."""
        one, other = self.left.records[left], self.right.records[right]
        if one.gradient is None or other.gradient is None or one.several != other.several:
            return None
        noise = max(
            [_arriving(side, at) for side, own in ((self.left, left), (self.right, right)) for at in side.users[own]],
            default=0.0,
        )
        return distance(
            gradient_of(one.gradient, one.dtype), gradient_of(other.gradient, other.dtype), self._room, noise
        )

    @cached_property
    def _room(self) -> float:
        """How far gradients may be apart: a backward uses all values of the run."""
        if self._limit is not None:
            return self._limit
        ends = [(side.root, side.limits) for side in (self.left, self.right)]
        return max([limits[root] for root, limits in ends if root is not None], default=0.0)

    def _given(self, left: int, right: int) -> Iterator[Discrepancy]:
        """The inputs of the same op that got different gradients from it."""
        one, other = self.left.records[left], self.right.records[right]
        if self.left.name(left) != self.right.name(right):
            return
        pairs = self.inputs(left, right)
        for position, place in enumerate(self._order(left, right)):
            if position >= len(one.inputs) or place >= len(other.inputs) or -1 in pairs[position]:
                continue
            mine, theirs = one.inputs[position], other.inputs[place]
            if (mine.gradient is None) != (theirs.gradient is None):
                side = "left" if theirs.gradient is None else "right"
                lacking = (self.right, pairs[position][1]) if side == "left" else (self.left, pairs[position][0])
                if self._is_changed(*lacking):
                    continue
                note = translate("only the {side} one passes a gradient to {name}", side=side, name=mine.name)
                yield self._wrong(left, right, None, mine.name, note)
            elif mine.gradient is not None and theirs.gradient is not None:
                apart = self._passed(left, right, mine, theirs)
                if apart is not None and not apart.agrees:
                    yield self._wrong(left, right, apart, mine.name)

    def _is_changed(self, side: Side, place: int) -> bool:
        """Whether the gradient that an op passed to a leaf is not known, because clipping has changed it in place."""
        return not side.is_op(place) and side.records[place].gradient is not None

    def _wrong(self, left: int, right: int, apart: Distance | None, name: str, note: str = "") -> Discrepancy:
        """The same op with another gradient of the input ``name``."""
        one, other = self.left.records[left], self.right.records[right]
        users = self.left.users[left]
        user = self.left.records[users[0]] if users and one.place is None else None
        return Discrepancy("op", one, other, self.settings(left, right), apart, name, user=user, note=note)

    def _passed(self, left: int, right: int, mine: Input, theirs: Input) -> Distance | None:
        one, other = self.left.records[left], self.right.records[right]
        if mine.gradient is None or theirs.gradient is None:
            return None
        noise = max(_arriving(self.left, left), _arriving(self.right, right)) if self._limit is None else 0.0
        return distance(
            gradient_of(mine.gradient, one.dtype), gradient_of(theirs.gradient, other.dtype), self._room, noise
        )

    def _around(self, left: int, right: int) -> Iterator[Discrepancy]:
        """A result whose gradient differs although those behind it agree, with different ops in between."""
        apart = self.gradient(left, right)
        if apart is None or apart.agrees or not self.agree(left, right):
            return
        mine = self._behind(self.left, self.found.of_left, left)
        theirs = self._behind(self.right, self.found.of_right, right)
        if mine is None or theirs is None:
            return
        if (left, right) == (self.left.root, self.right.root) and not (mine[1] or theirs[1]):
            note = translate("the backward begins with another gradient")
            yield Discrepancy("op", self.left.records[left], self.right.records[right], {}, apart, RESULT, note=note)
            return
        if not (mine[0] or theirs[0] or self._changed(mine[1])):
            alone = sorted(theirs[1]) != sorted(self.found.of_left[user] for user in mine[1])
            if alone and not self.right.is_op(right):
                note = translate("other ops take it: it is shared on one side, or another tensor is in its place")
                both = self.left.records[left], self.right.records[right]
                yield Discrepancy("op", *both, {}, apart, RESULT, note=note)
            elif not alone and mine[1] and all(self._passes_alike(user, left) for user in mine[1]):
                both = self.left.records[left], self.right.records[right]
                yield Discrepancy(
                    "op", *both, {}, apart, RESULT, note=translate("those that are added agree: a hook changes it")
                )
            return
        edges = {(at, self.found.of_left[at]) for at in mine[1]} | {(self.found.of_right[at], at) for at in theirs[1]}
        if edges and all(self._arrives(*edge) and self.agree(*edge) for edge in edges):
            last = max(edges)
            parts = self._parts(mine[0], theirs[0])
            name = self.left.records[left].full_name or self.left.records[left].run
            yield Discrepancy("op", self.left.records[last[0]], self.right.records[last[1]], {}, apart, name, parts)

    def _passes_alike(self, user: int, source: int) -> bool:
        """Whether a left op passes on to ``source`` the same gradient as its counterpart does."""
        other = self.found.of_left[user]
        if not self._judged(user, other):
            return False
        mine, theirs = self.left.records[user].inputs, self.right.records[other].inputs
        passed = [
            self._passed(user, other, one, another)
            for one, another, at in zip(mine, theirs, self.left.sources[user], strict=False)
            if at == source
        ]
        return all(one is not None and one.agrees and one.basis == "all numbers" for one in passed)

    def _changed(self, places: list[int]) -> bool:
        """Whether another op stands at one of these left places on the right."""
        return any(self.left.name(at) != self.right.name(self.found.of_left[at]) for at in places)

    def _behind(self, side: Side, known: list[int], place: int) -> tuple[list[int], list[int]] | None:
        """The ops without counterparts that use a result, and the matched ones behind them; None if there are many."""
        inside, edges, waiting, seen = list[int](), list[int](), list(side.users[place]), set(side.users[place])
        while waiting:
            at = waiting.pop()
            if known[at] >= 0:
                edges.append(at)
                continue
            inside.append(at)
            if len(inside) > _REGION:
                return None
            new = [one for one in side.users[at] if one not in seen]
            seen.update(new)
            waiting += new
        return sorted(inside), sorted(edges)


def _drawn(record: Record) -> str:
    """A sentence if an op draws random numbers."""
    random = getattr(record.op, "random", False) or "dropout" in record.kind_or_op
    return translate("it draws random numbers: seed both runs alike") if random else ""


def _noise(side: Side, place: int) -> float:
    """How far a sum of numbers that cancel may be off, as a norm."""
    if side.name(place) not in _ADDS:
        return 0.0
    numbers = side.numbers[place]
    if numbers.array is None or not numbers.array.size:
        return 0.0
    found = 0.0
    for source in side.sources[place]:
        known = side.numbers[source] if source >= 0 else None
        if known is not None and known.array is not None and known.array.size:
            root = known.length / known.array.size**0.5
            found = max(found, noise_of(side.records[place].dtype) * root * numbers.array.size**0.5)
    return found


def _arriving(side: Side, place: int) -> float:
    """How far a gradient may be off that an op computes of the one that it got."""
    record = side.records[place]
    return 0.0 if record.gradient is None else noise_of(record.dtype) * record.gradient.norm


def types_apart(found: Counterparts) -> Iterator[tuple[int, int]]:
    """The places at which the precision of both runs parts: before them it is the same."""
    left, right = found.left, found.right
    for a, b in found.pairs():
        if _types(left, a) != _types(right, b):
            inputs = [(one, found.of_left[one]) for one in left.sources[a] if one >= 0 and found.of_left[one] >= 0]
            if all(_types(left, one) == _types(right, other) for one, other in inputs):
                yield a, b


def _types(side: Side, place: int) -> tuple[str, float]:
    return dtype_name(side.records[place].dtype), side.limits[place]

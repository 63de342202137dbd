"""The iterations of loops that call no module: each becomes a scope, so that they are folded as module calls are.

An instruction of the user's code that runs once more began another iteration, or another call of a function. So the ops
that a scope runs are read as a row of instructions. A part of this row that repeats at least three times is a loop. A
part with loops in it may repeat again.

A loop whose iterations take different branches does not repeat itself. It is known by its jumps back in the code, and
by the small number of kinds of its iterations.
"""

from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.repeats import same_ahead
from nbgrad.widgets.description.text_metrics import clip

LEAST = 3
"""A loop has at least this many iterations."""

_LEAST_OPS = 8
"""A loop of fewer ops is not worth a box."""

_CALLED = 4
"""The least number of iterations if one instruction ran all ops: three calls of a function are no loop."""

_BODY = 60
"""The names of the ops of an iteration are cut off after this many letters."""


_CLEAR = 12
"""If no more steps than this are left beside regular loops, there is no need to look for others."""

_BRANCHING = 2 * LEAST
"""The least number of iterations that take different branches: each of two kinds comes three times."""

_KINDS = 12
"""The largest number of kinds of iterations of a loop; each kind comes three times on average, or more often."""


class Iteration(Scope):
    """An iteration of a loop.

    Attributes:
        number: of the iteration, from 1.
        lines: those of the loop, "lines 4-6".
        body: the names of its ops.
        variant: the branch that it took: equal iterations have equal numbers, from 0.
    """

    __slots__ = ("body", "lines", "number", "variant")

    def __init__(self, number: int, lines: str, body: str, variant: int, parent: Scope | None) -> None:
        super().__init__(translate("iteration {number:,} ({lines})", number=number, lines=lines), parent)
        self.number = number
        self.lines = lines
        self.body = body
        self.variant = variant


class _Step(NamedTuple):
    """An op; or a loop, whose iterations are ``inside``.

    Attributes:
        token: a value that is equal for the same step of equal iterations.
        ops: the positions of the records in it.
        place: the user's line of the first one.
        inside: the iterations of a loop, each as its steps; none for an op.
    """

    token: object
    ops: list[int]
    place: Place | None
    inside: list[list["_Step"]]


def iterations(records: list[Record], homes: dict[int, Scope]) -> dict[int, Scope]:
    """The innermost iteration that each record is in, by its id; without those that are in none.

    A tensor that no op made is in an iteration if only that one takes it and each other iteration takes one alike.

    Args:
        records: all of a graph, in order.
        homes: by id, the scopes of the records that are drawn in a scope other than their own.
    """
    found = _Found(records, homes)
    for scope, steps in _rows(records).items():
        found.add(_looped(steps), scope)
    return found.iterations


def _rows(records: list[Record]) -> dict[Scope | None, list[_Step]]:
    """The ops that each scope ran itself, in order; a module call in between is one step."""
    rows: defaultdict[Scope | None, list[_Step]] = defaultdict(list)
    last: Scope | None = None
    for at, record in enumerate(records):
        if record.op is None:
            continue
        scope, place = record.scope, record.place
        if scope is not last:  # a scope around it called it
            for one in outwards(scope):
                if one is last:
                    break
                rows[one.parent].append(_Step(one, [], None, []))
            last = scope
        token = (record.op.name, at if place is None else place.instruction)
        rows[scope].append(_Step(token, [at], place, []))
    return {scope: steps for scope, steps in rows.items() if len(steps) >= _LEAST_OPS}


def _looped(steps: list[_Step]) -> list[_Step]:
    """The same steps with loops in the place of what repeats."""
    regular = _regular(steps)
    if len(regular) <= _CLEAR:
        return regular
    found = min(_branching(steps), _branching(regular), key=len)
    return _regular(found) if 2 * len(found) <= len(regular) else regular


def _branching(steps: list[_Step]) -> list[_Step]:
    """The same steps with loops in the place of iterations that take different branches."""
    found: list[_Step] = []
    for _, some in groupby(steps, key=lambda step: step.place is not None):
        row = list(some)
        found += _branching_loop(row) or row
    return found


def _branching_loop(row: list[_Step]) -> list[_Step]:
    """A row of ops as what comes before a loop, the loop, and what comes after it; empty if there is no such loop."""
    places = [step.place for step in row if step.place is not None]
    if not _BRANCHING <= len(row) == len(places):
        return []
    codes, cuts = _cuts(places)
    tokens = _numbers(row)
    found: list[_Step] = []
    for at in [cuts, *codes]:
        if len(at) < _BRANCHING:
            continue
        begin, end = _trimmed(tokens, at)
        ends = [begin, *(one for one in at if begin < one < end), end]
        spans = list(pairwise(ends))
        kinds = {tuple(tokens[first:last]) for first, last in spans}
        if len(spans) < _BRANCHING or len(kinds) > min(_KINDS, len(spans) / LEAST):
            continue
        if not found or len(spans) < len(_only_loop(found).inside):
            found = [*row[:begin], _loop([row[first:last] for first, last in spans]), *row[end:]]
    return found


def _only_loop(steps: list[_Step]) -> _Step:
    return next(step for step in steps if step.inside)


def _cuts(row: list[Place]) -> tuple[list[list[int]], list[int]]:
    """Where iterations may begin: for each code, where it jumps back; and where any code does, or another one runs."""
    last: dict[int, Place] = {}
    jumps: defaultdict[int, list[int]] = defaultdict(list)
    cuts: list[int] = []
    before: int | None = None
    for at, place in enumerate(row):
        code = place.instruction[0]
        back = code not in last or not last[code].leads_to(place)
        if back:
            jumps[code].append(at)
        if back or code != before:
            cuts.append(at)
        last[code], before = place, code
    return list(jumps.values()), cuts


def _trimmed(tokens: list[int], cuts: list[int]) -> tuple[int, int]:
    """The part of a row that is in the loop: the steps at both ends are not if no other iteration has the like."""
    first, last = slice(cuts[0], cuts[1]), slice(cuts[-1], len(tokens))
    inner = {*tokens[first.stop : last.start]}
    begin, end = first.start, last.stop
    while begin < first.stop and tokens[begin] not in inner:
        begin += 1
    while end > last.start and tokens[end - 1] not in inner:
        end -= 1
    return begin, end


def _regular(steps: list[_Step]) -> list[_Step]:
    """The same steps with loops in the place of what repeats, the innermost ones first."""
    period = 1
    while period:
        period = 0
        tokens = _numbers(steps)
        for length in _periods(tokens):
            if together := _joined(steps, tokens, length):
                steps, period = together, length
                break
    return steps


def _numbers(steps: list[_Step]) -> list[int]:
    places: dict[object, int] = {}
    return [places.setdefault(step.token, len(places)) for step in steps]


def _periods(tokens: list[int]) -> list[int]:
    """The distances between a token and its next occurrence that are frequent enough for a loop; the shortest first."""
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for at, token in enumerate(tokens):
        if token in last:
            distances[at - last[token]] += 1
        last[token] = at
    return sorted(length for length, many in distances.items() if many >= (LEAST - 1) * length)


def _joined(steps: list[_Step], tokens: list[int], length: int) -> list[_Step]:
    """The steps, where each loop with iterations of ``length`` steps is one step; empty if there is no such loop."""
    joined: list[_Step] = []
    done = at = 0
    ahead = same_ahead(tokens, length)
    while at < len(tokens):
        if ahead[at] < length * (LEAST - 1):
            at += 1
            continue
        end = at + ahead[at] + length
        begin = at + _turn(steps[at : at + length])
        times = (end - begin) // length
        loop = [steps[place : place + length] for place in range(begin, begin + times * length, length)]
        if times >= LEAST and _worth(loop):
            joined += [*steps[done:begin], _loop(loop)]
            done = begin + times * length
        at = end
    return [*joined, *steps[done:]] if joined else []


def _worth(loop: list[list[_Step]]) -> bool:
    """Whether the loop is worth a box. It is not if a step of it is a module call or an op without a known line."""
    first = loop[0]
    if any(step.place is None for step in first) or sum(len(step.ops) for steps in loop for step in steps) < _LEAST_OPS:
        return False
    called = len({step.place.instruction for step in first if step.place is not None})
    return len(first) == 1 or called > 1 or len(loop) >= _CALLED


def _turn(steps: list[_Step]) -> int:
    """The position of the step with which an iteration begins: the one after the longest jump back in the code.

    It is the first step if there is any jump back to it, because that one ran first.
    """
    before: dict[int, int] = {}
    backs = [0] * len(steps)
    for _ in range(2):  # the last steps are before the first ones
        for at, step in enumerate(steps):
            code, offset = (0, 0) if step.place is None else step.place.instruction
            backs[at] = before.get(code, offset) - offset
            before[code] = offset
    return 0 if backs[0] > 0 else max(range(len(steps)), key=lambda at: (backs[at], -at))


def _loop(iterations: list[list[_Step]]) -> _Step:
    first = iterations[0]
    ops = [op for steps in iterations for step in steps for op in step.ops]
    return _Step(("loop", *[step.token for step in first]), ops, first[0].place, iterations)


class _Found:
    """Makes the scopes of iterations, and finds what else is in them."""

    def __init__(self, records: list[Record], homes: dict[int, Scope]) -> None:
        self.iterations: dict[int, Scope] = {}
        self._records, self._homes = records, homes
        self._position = {record.id: at for at, record in enumerate(records)}
        self._readers: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, record in enumerate(records):
            for input, source in enumerate(record.parents):
                if source in self._position and records[self._position[source]].op is None:
                    self._readers[self._position[source]].append((at, input))

    def add(self, steps: list[_Step], scope: Scope | None) -> None:
        """Make scopes of the loops among ``steps``, which ran in ``scope``."""
        for loop in steps:
            if not loop.inside:
                continue
            kinds: dict[object, list[_Step]] = {}
            tokens = [tuple([step.token for step in inside]) for inside in loop.inside]
            for token, inside in zip(tokens, loop.inside, strict=True):
                kinds.setdefault(token, inside)
            lines = self._lines([step for inside in kinds.values() for step in inside])
            bodies = {token: (self._body(inside), at) for at, (token, inside) in enumerate(kinds.items())}
            made = [Iteration(at, lines, *bodies[token], scope) for at, token in enumerate(tokens, 1)]
            home: dict[int, tuple[Scope, int]] = {}
            for iteration, inside in zip(made, loop.inside, strict=True):
                own = [op for step in inside for op in step.ops]
                home.update((op, (iteration, place)) for place, op in enumerate(own))
                self.add(inside, iteration)
                for op in own:
                    self.iterations.setdefault(self._records[op].id, iteration)
            self._take_in(home, scope, len(made) if len(kinds) == 1 else LEAST)

    def _take_in(self, home: dict[int, tuple[Scope, int]], scope: Scope | None, many: int) -> None:
        """Put a tensor into the iteration that alone takes it, if every iteration takes such a tensor.

        Args:
            home: of each op the iteration, and its place there.
            scope: that is around the loop.
            many: how many iterations take such a tensor, at least.
        """
        around = {None, *outwards(scope)}
        roles: defaultdict[object, list[tuple[int, Scope]]] = defaultdict(list)
        for source, readers in self._readers.items():
            record = self._records[source]
            if record.id in self.iterations or self._homes.get(record.id, record.scope) not in around:
                continue
            inside = {home[op][0] if op in home else None for op, _ in readers}
            if len(inside) == 1 and (iteration := inside.pop()) is not None:
                role = (record.kind, record.shape, *[(home[op][1], input) for op, input in readers])
                roles[role].append((record.id, iteration))
        for sources in roles.values():
            if len({iteration for _, iteration in sources}) >= many:
                self.iterations.update(sources)

    def _body(self, steps: list[_Step]) -> str:
        """The names of the ops: how often each of them comes."""
        names = Counter([self._records[op].kind_or_op for step in steps for op in step.ops])
        return clip(", ".join(name if many == 1 else f"{many} {name}" for name, many in names.items()), _BODY)

    def _lines(self, steps: list[_Step]) -> str:
        """The lines of the code, as ``line 5`` or ``lines 2-4, 10``."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for op in [op for step in steps for op in step.ops]:
            if (place := self._records[op].place) is not None:
                code, line = (place.file, place.instruction[0]), place.line
                first, last = spans.get(code, (line, line))
                spans[code] = min(first, line), max(last, line)
        texts = dict.fromkeys(str(a) if a == b else f"{a}-{b}" for a, b in sorted(spans.values()))
        return translate(
            "line{plural} {names}",
            plural="" if len(texts) == 1 and "-" not in min(texts) else "s",
            names=", ".join(texts),
        )

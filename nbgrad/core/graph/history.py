"""The history of a graph: for each backward the loss and the gradient norms, through the training of a network.

A frame holds numbers, no tensor. In a long loop frames become rarer: every doubling of its length has the same number
of frames. Most happens at the beginning of a loop, and a backward without a frame costs nothing. Norms are taken in one
batch.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import count, takewhile
from sys import maxsize
from typing import NamedTuple, TypeVar, overload

import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.facts import Notes, Outer, Passed, Ran
from nbgrad.core.graph.last_backward import FrameRecorder
from nbgrad.core.graph.names import qualified
from nbgrad.core.graph.optimizers import Update
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.stats import norms, read
from nbgrad.core.translation import translate

WEIGHTS = 4
"""The weights are measured in about one of this number of frames, because they change slowly."""

STEPS = 2
"""The step is measured after each of the first ``AT_FIRST`` backwards, and later only after about one of this many
frames: to measure it takes longer than the rest of a frame."""

AT_FIRST = 8


class HistoryRecord(NamedTuple):
    """An op or a tensor as one backward found it.

    Attributes:
        kind: as ``Record.kind``: "op", "parameter", "leaf", "constant" or "outside".
        op: the name of the op; None for a tensor that no op made.
        name: the parameter's, the tensor's own or the variable's.
        shape: of the tensor that it made or is.
        scopes: the labels of the module calls around it, outermost first.
        gradient: the norm of its gradient; None if the backward did not reach it, or the norm was not kept.
        weight: the norm of a parameter's values when the backward had ended; one of four frames has it. In the last
            frame it is the norm of the present values, which a step may have changed since.
        update: the norm of the change by the first optimizer step that ended after that backward, in units of the norm
            of the values before it; None where no step came, where the values were zero, and where copies of them
            do not fit into the budget. It is measured after the first 8 backwards, then in one of two to four frames.
            If an optimizer holds more than 8 MiB of parameters, it is measured after the first backward, the 9th, the
            17th and so on, as far as these are frames. For LBFGS it is the change by a whole ``step``, for each
            backward in it.
    """

    kind: str
    op: str | None
    name: str | None
    shape: tuple[int, ...]
    scopes: tuple[str, ...]
    gradient: float | None
    weight: float | None
    update: float | None

    @property
    def ratio(self) -> float | None:
        """The norm of the gradient over that of the weight.

        Plain SGD makes an ``update`` of this ratio times the learning rate.
        """
        return self.gradient / self.weight if self.gradient is not None and self.weight else None

    def __str__(self) -> str:
        if self.kind == "parameter" and self.name is not None and self.scopes:
            return f"{qualified(self.name, self.scopes)} {self.shape}"
        title = " = ".join(filter(None, (self.name, self.op))) or self.kind
        return f"{title} {self.shape}" + (
            translate(" in {names}", names=" > ".join(self.scopes)) if self.scopes else ""
        )


@dataclass(frozen=True, slots=True)
class HistoryFrame:
    """One backward, in numbers; ``frame.diff(later)`` compares two.

    Attributes:
        number: the number of this backward in its graph, from 1.
        loss: the value that it started from, if that is one number and the graph watches.
        roots: the positions in ``records`` of the tensors from which it started.
        records: the ops and tensors that it reached, in the order of ``AutogradGraph.records``.
    """

    number: int
    loss: float | None
    roots: tuple[int, ...]
    records: tuple[HistoryRecord, ...]

    @property
    def parameters(self) -> tuple[HistoryRecord, ...]:
        """The tensors that are learned: the parameters, or the leaves where no module is used."""
        found = tuple(record for record in self.records if record.kind == "parameter")
        return found or tuple(record for record in self.records if record.kind == "leaf")

    def diff(self, later: "HistoryFrame") -> "Diff":
        """The differences of ``later`` from this frame: structure, shapes and norms."""
        return diff(self, later)

    def __str__(self) -> str:
        loss = "" if self.loss is None else translate(", loss {loss:.4g}", loss=self.loss)
        return translate("backward {number}{loss}", number=self.number, loss=loss)


T = TypeVar("T")


class FixedSequence(Sequence[T]):
    """A sequence that never changes, as a base of those that tell more than their items."""

    def __init__(self, items: Sequence[T] = ()) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)


class History(FixedSequence[HistoryFrame]):
    """The frames of a graph, oldest first; the first and the last backward are always among them."""

    def __repr__(self) -> str:
        if not self._items:
            return "<History: no backward>"
        return f"<History: {len(self)} of {self[-1].number} backwards>"


Look = tuple[str, str | None, int | None, tuple[int, ...], tuple[str, ...], int]
"""The facts of a record by which two whole frames are compared: kind, op, id of a parameter, shape, scopes, and
Python's ``id()`` of the model, which has a title only when the graph is closed."""


class _Numbers:
    """Numbers, some of which are not known, in nine bytes each: a loop keeps those of dozens of backwards."""

    __slots__ = ("_known", "_numbers")

    def __init__(self, numbers: Iterable[float | None]) -> None:
        given = list(numbers)
        self._known = bytes([one is not None for one in given])
        self._numbers = array("d", [0.0 if one is None else one for one in given] if any(self._known) else ())

    def __getitem__(self, at: int) -> float | None:
        return self._numbers[at] if self._known[at] else None

    def __iter__(self) -> Iterator[float | None]:
        return (self[at] for at in range(len(self._known)))


class _StoredFrame(NamedTuple):
    """A frame as it is kept: all frames of a loop share one tuple of looks, one of names and one of ids of the leaves.

    ``looks`` has a ``Look`` for each record. ``learned`` has an id for each leaf and None for everything else.
    ``ratios`` has the updates of some leaves by a step.
    """

    number: int
    loss: float | None
    roots: tuple[int, ...]
    looks: tuple[Look, ...]
    names: tuple[str | None, ...]
    learned: tuple[int | None, ...]
    gradients: _Numbers
    weights: _Numbers
    ratios: dict[int, float]

    def reached(self, id: int) -> bool:
        """Whether it gave a gradient to the leaf ``id``."""
        return id in self.learned and self.gradients[self.learned.index(id)] is not None

    def frame(self, last: "_StoredFrame", titles: dict[int, str]) -> HistoryFrame:
        """The frame as others see it. If it looks like ``last``, it takes the newer names of that one."""
        names = last.names if self.looks == last.looks else self.names
        updates = [None if id is None else self.ratios.get(id) for id in self.learned]
        parts = zip(self.looks, names, self.gradients, self.weights, updates, strict=True)
        records = tuple(
            HistoryRecord(kind, op, name, tuple(shape), _titled(scopes, titles.get(model)), *numbers)
            for (kind, op, _, shape, scopes, model), name, *numbers in parts
        )
        return HistoryFrame(self.number, self.loss, self.roots, records)


class HistoryRecorder:
    """Collects the frames of a graph while it runs.

    The first ``limit / 2`` backwards are frames, then ``limit / 12`` of every doubling, or at least one or two. Where
    there is no room left, every second frame of the older half is dropped: that is where they are dense.

    Args:
        limit: how many frames there are at most; 0 for none.

    Attributes:
        skipped: how many backwards were not recorded: they count neither for the dense beginning nor for a stride.

    Raises:
        ValueError: there is no room for a first and a last one.
    """

    def __init__(self, limit: int) -> None:
        if limit < 0 or limit == 1:
            raise ValueError(
                f"history={limit}: it must be 0, or at least 2, because the first and the last frame are always kept"
            )
        self.limit = limit
        self.skipped = 0
        self._kept: list[_StoredFrame] = []

    def wants(self, number: int) -> bool:
        """Whether the ``number``-th backward becomes a frame."""
        return self.limit > 0 and (number - self.skipped - 1) % self._stride(number) == 0

    def ask_again(self, number: int) -> int:
        """The first backward after the ``number``-th that may become a frame: none in between does."""
        return next(filter(self.wants, count(number + 1))) if self.limit else maxsize

    def measures_step(self, number: int) -> bool:
        """Whether the step after the ``number``-th backward, which becomes a frame, is measured."""
        return number - self.skipped <= AT_FIRST or self._is_one_of(STEPS, number)

    def _stride(self, number: int) -> int:
        """The number of backwards, around the ``number``-th, of which one is a frame."""
        turn = number - self.skipped
        return 1 if 2 * turn <= self.limit else 1 << (turn // max(2, self.limit // 12)).bit_length() - 1

    def add(
        self,
        number: int,
        recorder: FrameRecorder,
        passed: list[Passed],
        notes: Notes,
    ) -> None:
        """Make the ``number``-th backward a frame: it has just ended.

        Args:
            number: from 1.
            recorder: the recorder of this backward; its gradients still exist.
            passed: the ops and tensors that it reached.
            notes: where the names are, and the loss, if it is kept.
        """
        looks, learned, ids = _looks(passed), _learned(passed), [id for id, _, _ in passed]
        if self._kept and self._kept[-1].looks == looks:
            looks, names = self._kept[-1].looks, self._kept[-1].names
        else:
            names = tuple([notes.name_of(id, fact) if isinstance(fact, Outer) else None for id, fact, _ in passed])
        if self._kept and self._kept[-1].learned == learned:
            learned = self._kept[-1].learned
        wanted, loss = recorder.norms(), notes.values.raw(recorder.roots[0]) if len(recorder.roots) == 1 else None
        if self._is_one_of(WEIGHTS, number):
            wanted |= norms({-id: data for id, fact, _ in passed if (data := _weight(fact)) is not None})
        if loss is not None and loss.ndim == 0 and loss.is_floating_point():
            wanted[0] = loss
        find = read(wanted).get
        numbers = _Numbers(map(find, ids)), _Numbers([find(-id) for id in ids])
        self._kept.append(
            _StoredFrame(number, find(0), _positions(recorder.roots, ids), looks, names, learned, *numbers, {})
        )
        if len(self._kept) >= self.limit:  # a place stays free for the last backward, which may be no frame
            del self._kept[1 : max(2, self.limit // 2) : 2]

    def _is_one_of(self, many: int, number: int) -> bool:
        """Whether the ``number``-th backward is picked, if one frame of every ``many`` is picked."""
        return (number - self.skipped - 1) % (many * self._stride(number)) == 0

    def learned_until(self, id: int) -> int | None:
        """The last backward that may have given the leaf ``id`` a gradient, if all before it did, and none after it.

        None if that is not known, as for a leaf that had none at first, or gets one only sometimes.
        """
        reached = [kept.reached(id) for kept in self._kept]
        if not any(reached) or all(reached) or sorted(reached, reverse=True) != reached:
            return None
        return self._kept[reached.index(False)].number - 1

    def reached_often(self, id: int, times: int) -> bool:
        """Whether at least so many frames gave the leaf ``id`` a gradient."""
        return sum(kept.reached(id) for kept in self._kept) >= times

    def step_ended(self, update: Update, since: int) -> None:
        """A step was measured for the frames that waited for it, from the ``since``-th backward on."""
        for at in range(len(self._kept) - 1, -1, -1):
            if self._kept[at].number < since:
                break
            self._kept[at] = self._kept[at]._replace(ratios=update.ratios)

    def frames(self, number: int, roots: tuple[int, ...], records: list[Record], titles: dict[int, str]) -> History:
        """All frames.

        Args:
            number: that of the last backward.
            roots: the ids of the tensors from which it started.
            records: the records that it reached, with their statistics.
            titles: of the models, by Python's ``id()`` of each, where there are several.
        """
        if not self.limit or not number:
            return History()
        last = _settled(number, roots, records)
        earlier = self._kept.copy()  # another thread may run the next backward
        if earlier and earlier[-1].number == number and earlier[-1].looks == last.looks:
            last = earlier[-1]._replace(names=last.names, weights=last.weights)
        earlier = [kept for kept in earlier if kept.number < number]
        return History([kept.frame(last, titles) for kept in (*earlier, last)])


def _settled(number: int, roots: tuple[int, ...], records: list[Record]) -> _StoredFrame:
    """The last backward, made from the statistics that its graph keeps."""
    looks = _looks([(record.id, record, record.scope) for record in records])
    positions = _positions(roots, [record.id for record in records])
    loss = records[positions[0]].value if len(positions) == 1 else None
    return _StoredFrame(
        number,
        loss.values if loss is not None and isinstance(loss.values, float) else None,
        positions,
        looks,
        tuple([record.name for record in records]),
        (None,) * len(records),
        _Numbers(None if (stats := record.gradient) is None else stats.norm for record in records),
        _Numbers(
            stats.norm if record.kind == "parameter" and (stats := record.value) is not None else None
            for record in records
        ),
        {},
    )


def _looks(passed: "list[Passed] | list[tuple[int, Record, Scope | None]]") -> tuple[Look, ...]:
    paths: dict[Scope | None, tuple[tuple[str, ...], int]] = {None: ((), 0)}
    found: list[Look] = []
    known: dict[Look, Look] = {}  # equal looks are one object: in a long chain all are equal
    for id, fact, scope in passed:
        path = paths.get(scope)
        if path is None:
            new = list(takewhile(lambda one: one not in paths, outwards(scope)))
            path = paths[new[-1].parent]
            for one in reversed(new):
                path = paths[one] = _within(one, *path)
        if isinstance(fact, Ran):
            look: Look = ("op", fact.op.name, None, fact.shape, *path)
        else:
            op = None if fact.op is None else fact.op.name
            look = (fact.kind, op, id if fact.kind == "parameter" else None, fact.shape, *path)
        found.append(known.setdefault(look, look))
    return tuple(found)


def _within(scope: Scope, path: tuple[str, ...], model: int) -> tuple[tuple[str, ...], int]:
    """The labels of ``scope`` and of those around it, which are ``path``; and the model of the outermost call.

    A model has the label that it had while the graph was open, because frames from then are compared with the last.
    """
    if model or not isinstance(scope, ModuleScope):
        return (*path, scope.label), model
    module = scope.module()
    learns = module is not None and any(True for _ in module.parameters())
    return (*path, scope.kind.name), id(module) if learns else -1


def _plain(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """The labels ``scopes``, in which a model has the name of its class: the same layer of two models is compared."""
    if not scopes:
        return ()
    _, bracket, kind = scopes[0].partition(" (")
    return (kind.removesuffix(")"), *scopes[1:]) if bracket else scopes


def _titled(scopes: tuple[str, ...], title: str | None) -> tuple[str, ...]:
    """The labels ``scopes``, in which the model has its ``title``, if it has one."""
    if title is None:
        return scopes
    plain = title.partition(" (")[2].removesuffix(")")
    if plain not in scopes:
        return scopes
    at = scopes.index(plain)
    return (*scopes[:at], title, *scopes[at + 1 :])


def _learned(passed: list[Passed]) -> tuple[int | None, ...]:
    """The ids of the leaves, which an optimizer may change."""
    return tuple(
        [None if isinstance(fact, Ran) or fact.kind not in ("parameter", "leaf") else id for id, fact, _ in passed]
    )


def _weight(fact: "Ran | Outer") -> torch.Tensor | None:
    """The values of a parameter that still exists."""
    if isinstance(fact, Ran) or fact.kind != "parameter" or fact.thing is None:
        return None
    tensor = fact.thing()
    return None if tensor is None else tensor.data


def _positions(roots: tuple[int, ...], ids: list[int]) -> tuple[int, ...]:
    return tuple([position for position, id in enumerate(ids) if id in roots])


# Two frames compared.


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences of the frame ``after`` from ``before``.

    Attributes:
        before, after: the frames.
        removed, added: the records that only one of them has.
        reshaped: pairs of records that differ in shape alone.
        same: pairs of records that are the same, whose norms can be compared, in record order.
    """

    before: HistoryFrame
    after: HistoryFrame
    removed: tuple[HistoryRecord, ...]
    added: tuple[HistoryRecord, ...]
    reshaped: tuple[tuple[HistoryRecord, HistoryRecord], ...]
    same: tuple[tuple[HistoryRecord, HistoryRecord], ...]

    def __str__(self) -> str:
        lines = [f"{self.before} -> {self.after}"]
        lines += [f"  only before: {record}" for record in self.removed]
        lines += [f"  only after: {record}" for record in self.added]
        lines += [f"  {was} -> {now.shape}" for was, now in self.reshaped]
        if len(lines) == 1:
            lines.append(f"  the same {len(self.same)} records of the same shapes")
        learned = ("parameter",) if any(was.kind == "parameter" for was, _ in self.same) else ("leaf",)
        for was, now in self.same:
            if was.kind in learned and was.gradient is not None and now.gradient is not None:
                factor = f", times {now.gradient / was.gradient:.3g}" if was.gradient else ""
                lines.append(f"  |grad| of {now}: {was.gradient:.4g} -> {now.gradient:.4g}{factor}")
        return "\n".join(lines)


def diff(before: HistoryFrame, after: HistoryFrame) -> Diff:
    """Compare two frames of one graph, or of two: records are matched by kind, op, parameter and module."""
    old, new = before.records, after.records
    removed, added, pairs = list[HistoryRecord](), list[HistoryRecord](), list[tuple[HistoryRecord, HistoryRecord]]()
    for what, start, end, there, until in _changes(old, new):
        if what == "equal":
            pairs += zip(old[start:end], new[there:until], strict=True)
        else:
            removed += old[start:end]
            added += new[there:until]
    reshaped = tuple(pair for pair in pairs if pair[0].shape != pair[1].shape)
    same = tuple(pair for pair in pairs if pair[0].shape == pair[1].shape)
    return Diff(before, after, tuple(removed), tuple(added), reshaped, same)


def _changes(
    old: tuple[HistoryRecord, ...], new: tuple[HistoryRecord, ...]
) -> Iterator[tuple[str, int, int, int, int]]:
    """The longest common runs of records, and the records between; shapes and names of variables are not compared.

    A common beginning and end is not searched: a search takes time in proportion to the product of both lengths.
    """
    before, after = (
        [
            (record.kind, record.op, record.name if record.kind == "parameter" else None, _plain(record.scopes))
            for record in each
        ]
        for each in (old, new)
    )
    begin = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    rest = zip(reversed(before[begin:]), reversed(after[begin:]), strict=False)
    end = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
    yield "equal", 0, begin, 0, begin
    middle = before[begin : len(before) - end], after[begin : len(after) - end]
    for what, *places in SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        start, stop, there, until = (begin + place for place in places)
        yield what, start, stop, there, until
    yield "equal", len(before) - end, len(before), len(after) - end, len(after)

"""Tensors to which a backward gave no gradient, and the place where the path from the loss to each one breaks."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite, prod
from typing import Any, NamedTuple, Self
from weakref import ref

import torch

from nbgrad.core import ops
from nbgrad.core.engine.backward_errors import name_of
from nbgrad.core.engine.node import OpInfo, raw_of, record_id
from nbgrad.core.engine.observer import Cut
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.engine.torch_origins import TENSORS, kind_of, known_id, origin_of
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.engine.walk import reached
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.cut_paths import OTHERS, ByHand, Uses
from nbgrad.core.graph.facts import Outer, Ran
from nbgrad.core.graph.history import HistoryRecorder
from nbgrad.core.graph.names import ModuleNames
from nbgrad.core.graph.optimizers import LOOP, Holders
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.stats import norms, read
from nbgrad.core.graph.training import TrainingRecorder, params_of
from nbgrad.core.ops import torch_signatures
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.translation import translate


@dataclass(frozen=True, slots=True)
class Unreached:
    """A leaf or parameter that the last backward did not reach.

    Attributes:
        name: the parameter's name in the model, or the name of the variable; None if it has none.
        shape: its size in each dimension.
        kind: "frozen" (requires_grad is False), "unused", "no_grad", "draw", "detached", "no gradient" (it went through
            an op that has none), "elsewhere" (the results of its ops do not lead to the loss), "copied" (only its
            numbers are read), "derivative" (the loss has a derivative of them that does not depend on it, as on the
            last bias under a penalty on gradients), "not asked" (the user named other tensors, as in
            ``grad(loss, w)``) or "no backward".
        reason: the same in words, with the op and the line where the path breaks.
        place: that line, if there is one.
        id: the id of its record, if it has one.
        moved: whether it learns nevertheless: its values changed after a backward, for example by the optimizer of
            another loss. It is False again if three conditions hold: all backwards gave it a gradient until its path
            was cut; since then more backwards have run than before; and an optimizer that holds it still makes steps.
        stepped: whether an optimizer that holds it has made a step.
        others: whether another optimizer holds parameters that the last backward reached.
        behind: the id of the record of a constant that was computed after that place, if one was used.
        asked: whether the last backward was to give it a gradient: False if the user named other tensors only.
        named: whether an earlier backward was to give a gradient to it alone: it is no parameter then.
        earlier: whether an earlier backward gave it a gradient, as far as the history has it.
    """

    name: str | None
    shape: tuple[int, ...]
    kind: str
    reason: str
    place: Place | None = None
    id: int | None = None
    moved: bool = False
    stepped: bool = False
    others: bool = False
    behind: int | None = None
    asked: bool = True
    named: bool = False
    earlier: bool = False

    @property
    def what(self) -> str:
        """Its name and shape."""
        return f"{self.name or translate('a tensor')} {self.shape}"

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"

    __repr__ = __str__


_LONG = 20
"""Gradients of fewer backwards may be added up on purpose, before a step."""

_ITERATIONS = 5
"""A loop that detaches its state in so many iterations of one backward learns nothing over time."""

_NAMED = 3
"""The number of parameters that a message names."""

CUT = ("no_grad", "checkpoint", "detached", "no gradient", "function")
"""The kinds of leaves whose path is cut on its way. A leaf of the kind "elsewhere" may lead to another loss."""

Break = tuple[str, str, Place | None]
"""A kind of ``Unreached``, its reason and its place."""


class PathOp(NamedTuple):
    """An op of the record, as far as paths need it: its name, the ids of what its inputs came from, where it ran."""

    name: str
    sources: tuple[int, ...]
    place: Place | None
    scope: Scope | None

    @property
    def what(self) -> str:
        """The function that the user called, which may have run several ops.

        It is the op itself for an operator such as ``+``, and inside a module of nbgrad's.
        """
        scope, called = self.scope, None if self.place is None else self.place.called
        block = isinstance(scope, ModuleScope) and scope.kind.ours
        known = called is not None and any(hasattr(one, called) for one in (ops, torch_signatures, Tensor))
        return called if called is not None and known and not block else self.name


class Unstepped(NamedTuple):
    """An optimizer that has taken no step.

    Attributes:
        name: of its class.
        cleared: how often its ``zero_grad()`` was called since its last ``step()``, if there was one.
        waiting: its parameters that the last backward reached: the id of the record, and its name and shape.
    """

    name: str
    cleared: int
    waiting: list[tuple[int, str]]


class Paths:
    """The paths of the tensors of a graph. It holds no tensor, so a closed graph may keep it.

    Args:
        ops: the ops of the record, by id.
        tensors: the leaves and constants of the record, weakly, by id.
        uses: the uses that are not in the records.
        changed: by the address of the memory of each tensor that was changed in place, how many backwards had ended
            by its last change.
        backwards: how many ran.
        history: the frames of these backwards.
        training: the calls around these backwards.
        latest: the ops with larger ids ran since the last backward but one.
    """

    @classmethod
    def of(
        cls,
        ops: "dict[int, Ran]",
        outer: "dict[int, Outer]",
        constants: dict[Any, tuple[ref[Any], int]],
        uses: Uses,
        changed: dict[int, int],
        backwards: int,
        history: HistoryRecorder,
        training: TrainingRecorder,
        latest: int,
    ) -> Self:
        """The paths of a graph: its ops, the tensors that no op in it made, and its constants by their memory."""
        tensors = {id: one.thing for id, one in outer.items()}
        tensors.update({id: raw for raw, id in constants.values() if isinstance(raw(), torch.Tensor)})
        return cls(ops, tensors, uses, changed, backwards, history, training, latest)

    def __init__(
        self,
        ops: "dict[int, Ran]",
        tensors: "dict[int, ref[Any] | None]",
        uses: Uses,
        changed: dict[int, int],
        backwards: int,
        history: HistoryRecorder,
        training: TrainingRecorder,
        latest: int,
    ) -> None:
        self._ops = ops
        self._reached = set(uses.reached)
        self._asked = uses.asked
        self._named = uses.named.copy()
        self._derived = uses.derived.copy()
        self.derivations = list(uses.derivations)
        self._cuts = uses.cuts()
        self._reads = uses.reads()
        self._refused = uses.refused
        self._used_in = uses.scopes()
        self._behind = uses.behind.copy()
        self._frozen = list(uses.frozen.copy().values())
        self._by_hand = uses.by_hand()
        self._changed = changed
        self._idle_step = uses.idle
        self._backwards = backwards
        self._history = history
        self.training = training
        self._latest = latest
        self._ends: dict[
            int, tuple[int, int]
        ] = {}  # by id: the last op computed from it; the last op, or it itself, whose numbers were read
        self._leaves = {**{id: ref for id, ref in tensors.items() if ref is not None}, **uses.leaves()}
        self._constants = {
            memory_of(raw_of(tensor)): id
            for id, held in self._leaves.items()
            if (tensor := held()) is not None and not tensor.requires_grad
        }

    # These are made when they are first read: for a million ops they take seconds.

    @cached_property
    def _facts(self) -> dict[int, PathOp]:
        return {
            id: PathOp(ran.op.name, tuple([s for s in ran.sources if type(s) is int]), ran.place, ran.scope)
            for id, ran in self._ops.items()
        }

    @cached_property
    def _consumers(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for id, fact in self._facts.items():
            for source in fact.sources:
                found.setdefault(source, []).append(id)
        return found

    @property
    def ops(self) -> "dict[int, Ran]":
        """The ops of the record, by id."""
        return self._ops

    @property
    def empty(self) -> bool:
        """Whether nothing ran on a tensor that needs a gradient."""
        return not self._ops and not self._cuts

    @property
    def begun(self) -> bool:
        """Whether a backward has run, or was refused. Before that, each leaf is without a gradient for this reason."""
        return self._backwards > 0 or bool(self._refused)

    @property
    def reached(self) -> set[int]:
        """The ids of the records to which the last backward gave a gradient."""
        return self._reached

    def unreached(self, named: Iterable[tuple[str | None, Tensor]] | None) -> list[Unreached]:
        """Those of ``named``, or of the leaves in the record, that the last backward did not reach."""
        if named is None:
            found = [tensor for _, held in sorted(self._leaves.items()) if (tensor := held()) is not None]
            distinct = {id(one): one for one in found}.values()
            named = [(None, tensor) for tensor in distinct if tensor.requires_grad]
            named += self._unused({id(one) for one in distinct})
        # A leaf whose data were replaced since has another origin now.
        given = {id(held()) for seq, held in self._leaves.items() if seq in self._reached}
        holders, names = self.holders(), ModuleNames()
        return [
            self._missing(name, tensor, holders, names)
            for name, tensor in named
            if not (tensor.requires_grad and (_id(tensor) in self._reached or id(tensor) in given))
        ]

    def _unused(self, used: Container[int]) -> list[tuple[str | None, Tensor]]:
        """Unused layers: no op here used these parameters, but the last backward reached others of the same optimizer.

        Only parameters of a module that was called here count. An optimizer may hold those of another module too, which
        learns elsewhere.
        """
        waiting = [one for one in self.holders().beside() if one.requires_grad and id(one) not in used]
        if not waiting:
            return []
        names = ModuleNames()
        scopes = dict.fromkeys([*(fact.scope for fact in self._facts.values()), *self._used_in.values()])
        called = dict.fromkeys(names.outermost(scope) for scope in scopes)
        found: list[tuple[str | None, Tensor]] = []
        for tensor in waiting:
            name = next(filter(None, [names.inside(one, tensor) for one in called]), None)
            if name is not None or kind_of(tensor) == "leaf":
                found.append((name, tensor))
        return found

    def spoiled(self, shown: Container[int]) -> list[str]:
        """The frozen parameters, and buffers of theirs, that ops without history used and that hold a NaN or an Inf.

        Those ``shown`` are left out, and so is a tensor of zeros and Inf: it is a mask.
        """
        used = [(one, cut, scope) for held, cut, scope in self._frozen if (one := held()) is not None]
        sizes = read(norms({at: one.data for at, (one, *_) in enumerate(used)}))
        found, names = [], ModuleNames()
        for at, (one, cut, scope) in enumerate(used):
            if isfinite(sizes.get(at, 0.0)) or known_id(one) in shown:
                continue
            bad = "NaN" if nonfinite.holds("nan", one.data) else "Inf" if nonfinite.unmeant(one.data) else None
            if bad is not None:
                name = names.find(one, scope) or one.name or translate("a parameter")
                which = translate("frozen" if kind_of(one) == "parameter" else "a buffer")
                found.append(
                    translate(
                        "{bad} is in {name} {shape}, which is {which}: {what} at {place} uses it",
                        bad=bad,
                        name=name,
                        shape=tuple(one.shape),
                        which=which,
                        what=cut.what,
                        place=place_text(cut.place),
                    )
                )
        return found

    def restless(self) -> list[tuple[str, Place]]:
        """The frozen batch norms outside of the records that are in train mode, with the line that calls each first.

        One whose weights the program changes after each backward is no frozen one: it is an average of another network.
        torch's counter of changes says so, but only in a loop.
        """
        found: dict[int, tuple[str, Place]] = {}
        for held, cut, scope in self._frozen:
            module, weight = scope.module() if isinstance(scope, ModuleScope) else None, held()
            if weight is None or kind_of(weight) != "parameter":
                continue  # a buffer
            if self._backwards < LOOP or raw_of(weight)._version >= self._backwards:
                continue
            changes = cut.what == "batch_norm" and getattr(module, "running_mean", None) is not None
            if changes and getattr(module, "training", False):
                name = cut.name.partition(" and ")[0].rpartition(".")[0]
                found.setdefault(id(module), (name or type(module).__name__, cut.place))
        return list(found.values())

    def frozen(self) -> list[tuple[str, int]]:
        """The frozen parameters that an optimizer holds beside others that learn, with how many it holds in all."""
        names, found = ModuleNames(), list[tuple[str, int]]()
        scopes = dict.fromkeys([*(fact.scope for fact in self._facts.values()), *self._used_in.values()])
        models = list(dict.fromkeys(model for scope in scopes if (model := names.outermost(scope)) is not None))
        for log in self.training.logs.values():
            optimizer = log.known()
            params = [] if optimizer is None or not log.steps else params_of(optimizer)
            for one in params:
                if not one.requires_grad and one.numel() > 1:  # a single number is a setting of a layer
                    name = next(filter(None, [names.inside(model, one) for model in models]), None)
                    if name is not None:
                        found.append((f"{name} {tuple(one.shape)}", len(params)))
        return found

    def unused(self) -> list[tuple[int, str, Place]]:
        """The numbers that each round of a loop computes for its backward, and that nothing uses or reads.

        Each with its id, its op and its line. The last recorded step ends before what the program does after it, so
        earlier rounds tell whether it reads the number there, and the code says whether it may in some rounds. A number
        that only repeats what the loss says is left out: it is no term of it.
        """
        if self._backwards < LOOP or len(self.training.ends) < self._backwards:
            return []
        used = {*self._reached, *self._reads, *self._cuts, *self._consumers}
        begin, end = self._last_began, self.training.ends[self._backwards - 1]
        loose = [
            id
            for id, ran in self._ops.items()
            if begin < id <= end and prod(ran.shape) == 1 and ran.dtype.is_floating_point and id not in used
        ]
        places = [(id, self._facts[id].what, place) for id in loose if (place := self._facts[id].place) is not None]
        if not places:
            return []
        alike = self._alike({place.instruction for *_, place in places})
        # The last of several results of one instruction leads to the loss: it has taken the name of the others.
        again = {place.instruction for id in self._reached if id > begin and (place := self._place(id)) is not None}
        return [
            one
            for one in places
            if len(before := alike[one[0]]) > 0 and not any(id in used or self._lives(id) for id in before)
            if not self._repeats_loss(one[0]) and (one[2].instruction in again or not one[2].may_be_read())
        ]

    def _place(self, id: int) -> Place | None:
        return self._facts[id].place if id in self._facts else None

    def _lives(self, id: int) -> bool:
        return self._ops[id].thing() is not None

    def _alike(self, instructions: Container[tuple[int, int]]) -> dict[int, list[int]]:
        """For each op of the last round that these ``instructions`` ran, the same ones of earlier rounds.

        These are those of the same instruction, and at the same place among all that it ran in its round: a function
        of the user's may compute several terms. Where a round ran it more or less often, all of them are.
        """
        rounds: defaultdict[int, defaultdict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for id, fact in self._facts.items():
            if fact.place is not None and fact.place.instruction in instructions:
                rounds[bisect_left(self.training.ends, id)][fact.place.instruction].append(id)
        last, found = rounds.pop(self._backwards - 1), dict[int, list[int]]()
        for instruction, ids in last.items():
            before = [one[instruction] for one in rounds.values()]
            for at, id in enumerate(ids):
                same = [[ran[at]] if len(ran) == len(ids) else ran for ran in before]
                found[id] = [one for several in same for one in several]
        return found

    def _repeats_loss(self, id: int) -> bool:
        """Whether a number is a copy of one that leads to the loss, or computed from the loss alone."""
        while len(sources := set(self._facts[id].sources)) == 1:
            moves = traits_of(self._ops[id].op).moves
            (id,) = sources
            if id in self._totals or (moves and id in self._reached):
                return True
            if id not in self._facts:
                break
        return False

    @cached_property
    def _totals(self) -> set[int]:
        """The numbers from which the last backward began, and those that alone led to one of these."""
        since = self._last_began
        waiting = [id for id in self._reached if id > since and id in self._facts]
        waiting = [id for id in waiting if self._reached.isdisjoint(self._consumers.get(id, ()))]
        found = set[int]()
        while waiting:
            id = waiting.pop()
            if prod(self._ops[id].shape) == 1:
                found.add(id)
                leading = self._reached.intersection(self._facts[id].sources)
                waiting += [one for one in leading if len(leading) == 1 and one in self._facts]
        return found

    @property
    def _last_began(self) -> int:
        """The ops with larger ids ran since the last backward but one, as far as the ends of backwards are kept."""
        ends = self.training.ends
        return 0 if len(ends) < 2 else ends[min(self._backwards, len(ends)) - 2]

    def rebound(self) -> list[tuple[int, str, Cut]]:
        """The leaves of a loop that a line computes new values of, and never changes: it binds a name to a new tensor.

        Each with its name and shape, and the use in that line.
        """
        learning, names = self._learning(), ModuleNames()
        found = []
        for id, cuts in self._cuts.items() if self._backwards >= LOOP else ():
            line = next((cut for cut in cuts if cut.kind == "no_grad" and _updates(cut.place.text)), None)
            if line is not None and id in learning and memory_of(raw_of(learning[id])) not in self._changed:
                found.append((id, self._told(learning[id], names), line))
        return found

    def severed(self) -> list[tuple[int, int, Cut]]:
        """The states of a recurrence that are cut off before each next one, in the last backward.

        Each with the id of its last op, how many there are, and the cut. Cutting them once in many iterations, or
        between two backwards, is truncation, and is meant.
        """
        begin = self._last_began
        places: dict[tuple[int, int], list[tuple[int, Cut]]] = {}
        for id, cuts in self._cuts.items():
            for cut in cuts if id > begin and id in self._ops else ():
                if cut.kind == "detached" and not cut.inside:
                    places.setdefault(cut.place.instruction, []).append((id, cut))
        found = []
        for several in places.values():
            if len(several) >= _ITERATIONS:
                several.sort(key=lambda one: one[0])
                uses = [user for id in self._behind_place(several[0][1].place) for user in self._consumers.get(id, ())]
                following = [any(first < user <= then for user in uses) for (first, _), (then, _) in pairwise(several)]
                made = {
                    None if place is None else place.instruction
                    for place in [self._facts[id].place for id, _ in several]
                }
                if all(following) and len(made) == 1 and not self._reached.isdisjoint(uses):
                    found.append((several[-1][0], len(several), several[-1][1]))
        return found

    def living(self) -> dict[int, int]:
        """For each earlier backward, but for the last two, how many of its ops still live, by its number."""
        ends, found = self.training.ends, dict[int, int]()
        for id, ran in self._ops.items():
            number = bisect_left(ends, id) + 1
            if number in self.training.derived:
                continue
            if number <= self._backwards - 2 and number <= len(ends) and ran.thing() is not None:
                found[number] = found.get(number, 0) + 1
        return found

    def unheld(self) -> list[tuple[int, str]]:
        """The parameters that the last backward reached, which no optimizer holds and nothing has changed, by id."""
        holders, names = self.holders(), ModuleNames()
        return [
            (seq, self._told(tensor, names))
            for seq, tensor in self._learning().items()
            if (kind_of(tensor) == "parameter" or self._is_lasting(seq))
            and not holders.hold(tensor)
            and memory_of(raw_of(tensor)) not in self._changed
        ]

    def idle_step(self) -> tuple[str, str] | None:
        """The message about the last step that changed nothing, if nothing that the last backward reached moved since.

        With the remedy, which is a part of it.

        The step may have run before the last backward: too early for any gradient.
        """
        number, text = self._idle_step
        known = [self._changed.get(memory_of(raw_of(tensor)), 0) for tensor in self._learning().values()]
        if text is None or max(known, default=0) >= number or 2 * number < self._backwards:
            return None
        what, remedy = text
        names = ModuleNames()
        told = [self._told(tensor, names) for tensor in self._learning().values()]
        others = f" ({', '.join(told[:_NAMED])}{', ...' if len(told) > _NAMED else ''})"
        return f"{what.replace(OTHERS, OTHERS + others)}{remedy}", remedy

    def unstepped(self) -> list[Unstepped]:
        """Optimizers that clear gradients in a loop without a step, with parameters that the last backward reached."""
        learning, names = self._learning(), ModuleNames()
        found = [
            Unstepped(one.name, one.cleared, [(seq, self._told(learning[seq], names)) for seq in waiting])
            for one, waiting in (self.holders().forgotten() if self._backwards >= LOOP else ())
        ]
        return sorted(found, key=lambda one: one.waiting)

    def untouched(self) -> list[Unstepped]:
        """Optimizers that were never called although a loop of backwards reached their parameters."""
        if self._backwards < _LONG or self.training.logs:
            return []
        learning, names = self._learning(), ModuleNames()
        return [
            Unstepped(name, 0, [(seq, self._told(learning[seq], names)) for seq in waiting])
            for name, waiting in self.holders().untouched()
        ]

    def holders(self) -> Holders:
        """The optimizers that exist now, with the leaves that the last backward reached."""
        return Holders(list(self.training.logs.values()), self._learning(), self._changed)

    def _learning(self) -> dict[int, Any]:
        """The leaves that the last backward reached, that still exist and learn, by id."""
        held = {seq: self._leaves[seq]() for seq in sorted(self._reached) if seq in self._leaves}
        return {seq: one for seq, one in held.items() if isinstance(one, TENSORS) and one.requires_grad}

    def _told(self, tensor: Tensor, names: ModuleNames) -> str:
        return f"{self._called(tensor, names) or translate('a parameter')} {tuple(tensor.shape)}"

    def _called(self, tensor: Tensor, names: ModuleNames) -> str | None:
        return names.find(tensor, self._scope(tensor)) or name_of(origin_of(tensor))

    def _missing(self, name: str | None, tensor: Tensor, holders: Holders, names: ModuleNames) -> Unreached:
        kind, reason, place = self._why(tensor)
        if kind == "unused" and _id(tensor) in self._cuts and not holders.hold(tensor):
            kind, reason = (
                "copied",
                translate("no op uses it but those that read its numbers, as for an average of weights"),
            )
        moved, stepped = memory_of(raw_of(tensor)) in self._changed, holders.stepped(tensor)
        return Unreached(
            name or self._called(tensor, names),
            tuple(tensor.shape),
            kind,
            reason,
            place,
            _id(tensor),
            moved=moved and not (kind in CUT and self._lost(tensor, stepped)),
            stepped=stepped > 0,
            others=holders.others(tensor),
            behind=None if place is None else max(self._behind_place(place), default=None),  # the last, as in a loop
            asked=self._asked is None or _id(tensor) in self._asked,
            named=_id(tensor) in self._named - (self._asked or set())
            and (kind_of(tensor) != "parameter" or not holders.hold(tensor)),
            earlier=self._history.reached_often(_id(tensor), 1),
        )

    def _lost(self, tensor: Tensor, stepped: int) -> bool:
        """Whether ``tensor`` learned in each of the first few backwards, and then in none, while steps went on.

        Since then more backwards have run than before.
        """
        until = self._history.learned_until(_id(tensor))
        return until is not None and LOOP <= until < stepped and self._backwards > 2 * until

    def behind(self, id: int) -> tuple[Cut, ...]:
        """The ends of the paths from which the constant with this id was computed."""
        return self._behind.get(id, ())

    def learns_beside(self, cut: Cut) -> bool:
        """Whether the last backward reached a tensor whose path ends at ``cut``, along another path."""
        ends = [id for id, cuts in self._cuts.items() if any(cut.place.same(one.place) for one in cuts)]
        return not self._reached.isdisjoint(ends)

    def by_hand(self) -> dict[int, ByHand]:
        """The changes by the program itself, by the ids of the leaves."""
        return self._by_hand

    def _behind_place(self, place: Place) -> list[int]:
        """The constants that were computed behind a path that ends at ``place``."""
        return [id for id, cuts in self._behind.items() if any(cut.place.same(place) for cut in cuts)]

    def _scope(self, tensor: Tensor) -> Scope | None:
        """Where the tensor was used first."""
        id = _id(tensor)
        return self._facts[self._consumers[id][0]].scope if id in self._consumers else self._used_in.get(id)

    def _why(self, tensor: Tensor) -> Break:
        """Where the path to ``tensor`` breaks, looking from it towards the loss."""
        if not tensor.requires_grad:
            return "frozen", translate("its requires_grad is False"), None
        if not self.begun:
            return "no backward", translate("no backward has run in this graph"), None
        seq = _id(tensor)
        led = self._nearest(seq, self._led_on, lambda _: False)
        if led is not None and is_function(self._ops[led.seq].op):
            fact = self._facts[led.seq]
            where = "" if fact.place is None else translate(" at {place}", place=place_text(fact.place))
            return (
                "function",
                translate("the backward() of {what}{where} returns no gradient for it", what=fact.what, where=where),
                fact.place,
            )
        near = self._nearest(seq, self._cut_off, self._end)
        if near is not None and (cut := self._end(near.seq)) is not None:
            return cut.kind, self._through(near.seq, cut), cut.place
        return self._dead_end(tensor, seq)

    def _is_lasting(self, seq: int) -> bool:
        """Whether a leaf that is no parameter seems to be one: it gets a gradient again and again, and is no input."""
        if seq in self._named or not self._history.reached_often(seq, LOOP):
            return False
        users = [self._ops[one] for one in self._consumers.get(seq, ())]
        return not any(traits_of(ran.op).units is not None and ran.sources[:1] == (seq,) for ran in users)

    @cached_property
    def _cut_off(self) -> "dict[int, _Near]":
        """For each op, the nearest result that is cut off: its own, or one computed from it."""
        return self._all_nearest(self._end)

    @cached_property
    def _led_on(self) -> "dict[int, _Near]":
        """For each op, the nearest result that the last backward reached: its own, or one computed from it."""
        return self._all_nearest(self._reached.__contains__)

    def _all_nearest(self, ends: Callable[[int], object]) -> "dict[int, _Near]":
        found: dict[int, _Near] = {}
        for seq in sorted(self._facts, reverse=True):  # ops that use it have larger numbers
            if (near := self._nearest(seq, found, ends)) is not None:
                found[seq] = near
        return found

    def _nearest(self, seq: int, known: "dict[int, _Near]", ends: Callable[[int], object]) -> "_Near | None":
        """The end nearest to ``seq``, from those ``known`` for its consumers; of equally near ones the first."""
        if ends(seq):
            return _Near(0, seq)
        found = [near for one in self._consumers.get(seq, ()) if (near := known.get(one)) is not None]
        near = min(found, key=_steps, default=None)
        return None if near is None else _Near(near.steps + 1, near.seq)

    def _end(self, seq: int) -> Cut | None:
        """The cut of the result of ``seq``: of several, the first after which something was computed for the loss."""
        found = [] if seq in self._reached else self._cuts.get(seq, [])
        # A use by a function of nbgrad's is no end if that function also computed a result from the same tensor.
        found = [cut for cut in found if not (cut.inside and self._used_lately(seq))]
        if seq in self._leaves and not self._consumers.get(seq):  # a copy of a parameter, as for an average, is no use
            found = [cut for cut in found if cut.kind != "detached" or self._leads_on(cut)]
        return next((cut for cut in found if self._leads_on(cut)), found[0] if found else None)

    def _used_lately(self, seq: int) -> bool:
        return any(id > self._latest for id in self._consumers.get(seq, ()))

    def _leads_on(self, cut: Cut) -> bool:
        """Whether a constant that was computed behind ``cut`` leads to the loss."""
        users = [user for id in self._behind_place(cut.place) for user in self._consumers.get(id, ())]
        return not self._reached.isdisjoint(users)

    def _dead_end(self, tensor: Tensor, start: int) -> Break:
        """Where the path breaks if nothing computed from the tensor is cut off; ``start`` is the id of the tensor."""
        if not self._consumers.get(start):
            same = self._constants.get(memory_of(raw_of(tensor)), 0)
            constant = self._facts.get(self._consumers.get(same, [0])[0])
            if constant is not None:
                reason = translate(
                    "{what} at {place} uses its memory, but as a constant: made with .data?",
                    what=constant.what,
                    place=place_text(constant.place),
                )
                return "detached", reason, constant.place
            return "unused", translate("no op in this graph uses it"), None
        near = self._nearest(start, self._led_on, lambda _: False)
        if near is not None and self._asked is not None and start not in self._asked:
            return "not asked", translate("the last backward was to give gradients to other tensors alone"), None
        if near is not None:
            fact = self._facts[near.seq]
            reason = translate(
                "{what} at {place} leads to the loss, but gives this input no gradient",
                what=fact.what,
                place=place_text(fact.place),
            )
            return "no gradient", reason, fact.place
        end, read = self._farthest(start)
        last = self._facts[end]
        if end in self._derived and self._reaches_beside(end):
            reason = translate(
                "the loss has a derivative of {what} at {place}, which does not depend on it",
                what=last.what,
                place=place_text(last.place),
            )
            return "derivative", reason, last.place
        numbers = (
            "" if read is None else translate(": {read} at {read2} reads only its numbers", read=read[0], read2=read[1])
        )
        return (
            "elsewhere",
            translate(
                "it ends at {what} at {place}, which does not lead to the loss{numbers}",
                what=last.what,
                place=place_text(last.place),
                numbers=numbers,
            ),
            last.place,
        )

    def _reaches_beside(self, root: int) -> bool:
        """Whether the last backward reached a leaf from which ``root`` was computed: through its derivative."""

        def sources(id: int) -> list[int]:
            ran = self._ops.get(id)
            return [] if ran is None else [one for one in ran.sources if type(one) is int]

        return any(one in self._leaves and one in self._reached for one in reached(sources(root), sources))

    def _farthest(self, start: int) -> tuple[int, tuple[str, Place] | None]:
        """The last op computed from ``start``, and the last reading of the numbers of a result computed from it."""
        waiting = [start]
        while waiting:
            seq = waiting[-1]
            consumers = self._consumers.get(seq, ())
            unknown = [] if seq in self._ends else [one for one in consumers if one not in self._ends]
            waiting += unknown
            if not unknown:
                ends = [self._ends[one] for one in consumers]
                last, read = max((seq, *(end for end, _ in ends))), seq if seq in self._reads else 0
                self._ends[seq] = last, max((read, *(late for _, late in ends)))
                waiting.pop()
        last, read = self._ends[start]
        return last, self._reads.get(read)

    def _through(self, seq: int, cut: Cut) -> str:
        """The text about the ``cut`` of the result of ``seq``.

        If the op ``seq`` and the cut are on one line, it does not name the op: one call may have made both.
        """
        fact = self._facts.get(seq)
        return (
            str(cut)
            if fact is None or (fact.place is not None and fact.place.same(cut.place))
            else translate("the result of {what} is {cut}", what=fact.what, cut=cut)
        )


def _id(tensor: Any) -> int:
    """The id of the record of ``tensor``; 0 for a constant of torch's, which has no origin."""
    origin = origin_of(tensor)
    return 0 if origin is None else record_id(origin)


def _updates(line: str) -> bool:
    """Whether a line may be an update by hand: it reads a gradient. The lines of ``exec`` are not known."""
    return not line or ".grad" in line


class _Near(NamedTuple):
    """An op, and how many steps lead to it."""

    steps: int
    seq: int


def _steps(near: _Near) -> int:
    return near.steps


def named_tensors(of: Any) -> list[tuple[str | None, Tensor]]:
    """The tensors of a module with their names, of a dict, of pairs of name and tensor, or of tensors alone."""
    if isinstance(of, TENSORS):
        return [(of.name, of)]
    if hasattr(of, "named_parameters"):
        return list(of.named_parameters())
    pairs = of.items() if isinstance(of, dict) else of
    return [(one.name, one) if isinstance(one, TENSORS) else tuple(one) for one in pairs]


def is_function(op: OpInfo) -> bool:
    """Whether an op is a ``Function`` of the user's, of torch's or nbgrad's: its name is that of a class."""
    return op.name[:1].isupper() and op.listed is None

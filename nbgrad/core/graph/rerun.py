"""``Rerun``: a recorded graph that is run again, with other numbers in its leaves and inputs.

The rows of the table that were recorded run once more, in their order, and a backward of the same roots follows. So the
recorded path is kept: the branch of an ``if``, a number that ``item()`` read, an index, and a detached tensor stay as
they were recorded. A change in place is run as the op that makes a new tensor. No tensor of the user's is changed, no
``.grad`` is written, no hook runs. Random rows draw new numbers, which are the same in each run.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from math import isclose
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import torch

from nbgrad.core.backend.autocast import switched_off
from nbgrad.core.backend.randomness import Random, cuda_devices, drawing_from
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.backward import gradients
from nbgrad.core.engine.node import Node, OpInfo, Origin, Output, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current
from nbgrad.core.engine.walk import node_of
from nbgrad.core.graph.record import Described, Record
from nbgrad.core.graph.saved_graph import AnyGraph, SavedGraph
from nbgrad.core.graph.stats import Stats, norms, read
from nbgrad.core.tensor.tensor import Tensor

MOST = 2_000
"""A graph of more records than this is not run again."""

KEPT = 1 << 20
"""So many bytes of the tensors of a graph are copied, and stay when other code lets go of the tensors."""

_CLOSE = 1e-4
"""Norms whose relative difference is below this count as equal: sums may be taken in another order."""

_ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AttributeError, ArithmeticError)


class RerunError(RuntimeError):
    """A recorded graph cannot be run again, or not with these numbers; the message says why and what to do."""


class RerunSource(NamedTuple):
    """A tensor that no op in the graph made.

    Attributes:
        id: of its record.
        kind: as that of a record.
        what: its name in messages.
        tensor: a weak reference to it, if there was one.
        kept: its recorded numbers, if they are few.
        shape, dtype, device: of it.
        norm: of its values in the picture, if that is known.
        changed: what has changed it since the last backward, where that is known.
    """

    id: int
    kind: str
    what: str
    tensor: "ref[Any] | None"
    kept: "Stats | torch.Tensor | None"
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    norm: float | None
    changed: str | None


class Call(NamedTuple):
    """An op that ran.

    Attributes:
        id: of its record.
        op: the row.
        settings: those of the node if they are known, else as the record has them, with a ``Described`` in the place of
            a tensor.
        takes: for each input the id of the record that it came from, or None.
        literals: for each input the number that stood there, or None.
        results: of each input from an op with several results, which of them it is, if that is known.
        node: a weak reference to its node, which knows the same.
        what: its name in messages.
        shape: of its result.
        value, gradient: the norms of both in the record, if they are known.
    """

    id: int
    op: OpInfo
    settings: dict[str, Any]
    takes: tuple[int | None, ...]
    literals: tuple[Any, ...]
    results: tuple[int | None, ...]
    node: "ref[Node] | None"
    what: str
    shape: tuple[int, ...]
    value: float | None
    gradient: float | None


class RerunOutcome(NamedTuple):
    """The numbers of one run, by the ids of records.

    Attributes:
        values: of every record; of an op with several results those of the first.
        gradients: the gradient of each record that got one in the recorded backward; of an op with several results a
            list.
        contributions: by the id of an op and the position of an input, the gradient that the rule of this input gave
            it, reduced to the shape of the input.
        root: the start of the backward as one number, see ``Rerun.root``; None if no backward was recorded.
    """

    values: dict[int, torch.Tensor]
    gradients: dict[int, "torch.Tensor | list[torch.Tensor]"]
    contributions: dict[tuple[int, int], torch.Tensor]
    root: float | None


class Nudge(NamedTuple):
    """The gradient of one number beside the finite difference ``(L(x + step) - L(x - step)) / (2 step)``."""

    step: float
    difference: float
    gradient: float


class Rerun:
    """A graph that can be run again, on its recorded numbers.

    It has the numbers of small tensors, which the records have too, and copies of others up to ``KEPT`` bytes. Of the
    rest it holds nothing: they are read when it runs, if they are still alive.

    Attributes:
        sources: the tensors that no op made, by the ids of their records.
        calls: the ops, in their order.
        order: the ids of all records of the picture, in their order.
        roots: the gradients that the backward began with, by the ids of records.
        plain: the ops whose inputs are found by their ids alone.
    """

    def __init__(self, graph: AnyGraph) -> None:
        """Take the data for a run from ``graph``, open or closed.

        Raises:
            RerunError: the graph cannot be run again.
        """
        if isinstance(graph, SavedGraph):
            raise RerunError(f"it was read from {graph.file}, and a file has no tensors: run the program again")
        records = graph.records
        if (many := len(records) + graph.left_out) > MOST:
            raise RerunError(f"this graph has {many:,} boxes, and only a graph of at most {MOST:,} can be run again")
        notes = graph.listener.notes
        if notes.deleted or notes.cut:
            raise RerunError("boxes or edges were removed from this graph")
        if any(record.id in notes.remade for record in records):
            raise RerunError(
                "some ops of this graph ran where nothing was recorded, so their constants are unknown: record that "
                "code, too"
            )
        things = notes.things if graph.closed else graph.listener.things(graph.listener.passed())
        self.order = [record.id for record in graph.drawn]
        self.sources: dict[int, RerunSource] = {}
        self.calls: list[Call] = []
        self.roots: dict[int, Stats | None] = {}
        copies = _Copies()
        for record in records:
            thing = things.get(record.id)
            if record.kind == "op":
                self.calls.append(_call(record, thing, copies))
            else:
                self.sources[record.id] = _source(record, record.leaf or thing, copies)
            if record.root:
                self.roots[record.id] = record.gradient
        several = {call.id for call in self.calls if call.op.several}
        known = set(self.order)
        self.plain = {call.id for call in self.calls if _is_plain(call, known - several)}
        self._several = several
        self._reached = {record.id for record in records if record.gradient is not None}
        self._random = any(isinstance(call.op, Op) and call.op.random for call in self.calls)

    def __repr__(self) -> str:
        return f"<Rerun: {len(self.calls)} ops, {len(self.sources)} leaves and inputs>"

    def numbers(self, id: int) -> torch.Tensor:
        """The recorded numbers of a leaf or an input; of one too large to be kept, those of now. Never change them.

        Raises:
            RerunError: they are gone, or the record is that of an op.
        """
        source = self.sources.get(id)
        if source is None:
            raise RerunError("only the numbers of a leaf or an input can be changed: an op makes its own")
        kept = source.kept
        if isinstance(kept, torch.Tensor):
            return kept
        if kept is not None and (array := kept.array) is not None:
            return torch.from_numpy(array.copy()).to(source.device, source.dtype)
        held = None if source.tensor is None else source.tensor()
        if held is not None:
            data = torch.from_numpy(held) if isinstance(held, np.ndarray) else raw_of(held).detach()
            if (tuple(data.shape), data.dtype) != (source.shape, source.dtype):
                raise RerunError(f"{source.what} has another shape or dtype now than in this picture")
            return data
        raise RerunError(
            f"{source.what} of shape {source.shape} no longer exists. Assign it to a variable in the cell, and run the "
            "cell again"
        )

    def run(self, changes: Mapping[int, torch.Tensor], asked: Collection[int] = ()) -> RerunOutcome:
        """Run all ops again, and the backward if there was one.

        Args:
            changes: by the ids of leaves and inputs their numbers in this run.
            asked: the leaves and inputs whose gradients are wanted though the recorded backward brought them none.

        Raises:
            RerunError: an op cannot be run again, a tensor is gone, or the op raised with these numbers.
        """
        return _Run(self, changes, asked).outcome()

    def among(self, tensors: Mapping[int, Tensor]) -> RerunOutcome:
        """Run all ops again inside of a function that is traced, on its ``tensors`` by the ids of the sources.

        The trace writes the ops down as a program; ``root`` is None, for there are no numbers.
        """
        return _Run(self, {}, (), traced=tensors).outcome()

    def learns(self, id: int) -> bool:
        """Whether a leaf needs a gradient."""
        source = self.sources[id]
        real = source.dtype.is_floating_point or source.dtype.is_complex
        return bool(self.roots) and real and source.kind in ("parameter", "leaf", "outside")

    def root(self, changes: Mapping[int, torch.Tensor]) -> float:
        """The start of the backward as one number: the sum of the roots times their initial gradients.

        Raises:
            RerunError: as ``run``; or no backward ran.
        """
        if not self.roots:
            raise RerunError("no backward ran here: there is no loss")
        return _Run(self, changes, (), backward=False).root()

    def nudge(self, id: int, place: int, changes: Mapping[int, torch.Tensor]) -> Nudge:
        """Compare the gradient of one number with a finite difference.

        Args:
            id: of a leaf or an input.
            place: which of its numbers, row by row.
            changes: those of the run.

        Raises:
            RerunError: as ``root``; or the numbers are whole or complex; or no gradient goes there.
        """
        data = changes[id] if id in changes else self.numbers(id)
        if not data.is_floating_point():
            kind = "complex" if data.dtype.is_complex else "whole"
            raise RerunError(f"a central difference needs real numbers, and these are {kind}")
        if not self.roots:
            raise RerunError("no backward ran here: there is no gradient to compare with")
        found = self.run(changes, asked=(id,)).gradients.get(id)
        if not isinstance(found, torch.Tensor):
            raise RerunError("no path leads from this number to the tensor at which the backward began")
        at = data.reshape(-1)[place].item()
        step = torch.finfo(data.dtype).eps ** (1 / 3) * max(1.0, abs(at))
        sides = []
        for number in (at + step, at - step):
            moved = data.clone(memory_format=torch.contiguous_format)
            moved.view(-1)[place] = number
            sides.append((moved.view(-1)[place].item(), self.root({**changes, id: moved})))
        (above, high), (below, low) = sides
        return Nudge(step, (high - low) / (above - below), found.reshape(-1)[place].item())

    def differences(self) -> list[str]:
        """Sentences about how a run without a change differs from the recorded run; empty if both give the same.

        Raises:
            RerunError: as ``run``.
        """
        found = self._changed_leaves()
        if self._random:
            names = dict.fromkeys(call.op.name for call in self.calls if isinstance(call.op, Op) and call.op.random)
            found.append(
                f"{', '.join(names)} draws random numbers again: the same ones in each run, but not the recorded ones."
            )
        if found:
            return found
        outcome = self.run({})
        for what, known, made in (
            ("value", {call.id: call.value for call in self.calls}, outcome.values),
            ("gradient", {call.id: call.gradient for call in self.calls}, outcome.gradients),
        ):
            lengths = norms_of(made)
            for call in self.calls:
                was, now = known[call.id], lengths.get(call.id)
                if was is not None and now is not None and not isclose(was, now, rel_tol=_CLOSE, abs_tol=1e-12):
                    return [f"The {what} of {call.what} differs from the recorded one: norm {now:.4g}, not {was:.4g}."]
        return found

    def _changed_leaves(self) -> list[str]:
        """The tensors that were changed after the backward that the picture shows."""
        by: dict[str, list[str]] = {}
        lengths = norms_of({id: self.numbers(id) for id, one in self.sources.items() if one.norm is not None})
        for id, source in self.sources.items():
            if source.changed is not None:
                by.setdefault(f"after {source.changed}", []).append(source.what)
            elif id in lengths and not isclose(lengths[id], source.norm or 0.0, rel_tol=1e-6, abs_tol=1e-12):
                by.setdefault("now", []).append(source.what)
        return [f"It runs on the numbers that {_listed(names)} {_have(names)} {when}." for when, names in by.items()]

    def __len__(self) -> int:
        return len(self.calls)


def norms_of(made: "Mapping[int, torch.Tensor | list[torch.Tensor]]") -> dict[int, float]:
    """The norms of tensors by the same keys; the tensors of a list have one norm together."""
    flat = {
        (id, at): one if one.is_floating_point() or one.is_complex() else one.double()
        for id, some in made.items()
        for at, one in enumerate(some if isinstance(some, list) else [some])
    }
    found: dict[int, float] = {}
    keys = list(flat)
    for place, norm in read(norms({place: flat[key] for place, key in enumerate(keys)})).items():
        id, _ = keys[place]
        found[id] = norm if id not in found else (found[id] ** 2 + norm**2) ** 0.5
    return found


def _listed(names: list[str]) -> str:
    shown = names[:3] + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


class _Copies:
    """Copies of tensors, until they have ``KEPT`` bytes together."""

    def __init__(self) -> None:
        self._left = KEPT

    def of(self, tensor: Any) -> torch.Tensor | None:
        """A copy of a tensor that is no result; None if there is no room for it."""
        data = torch.from_numpy(tensor) if isinstance(tensor, np.ndarray) else raw_of(tensor).detach()
        if data.nbytes > self._left:
            return None
        self._left -= data.nbytes
        return data.clone()

    def settings(self, settings: dict[str, Any]) -> dict[str, Any] | None:
        """Settings with copies of their tensors; None if there is no room for one of them."""
        try:
            return {name: self._copied(value) for name, value in settings.items()}
        except _NoRoomError:
            return None

    def _copied(self, value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(self._copied, value))
        if not isinstance(value, torch.Tensor | Tensor | np.ndarray):
            return value
        if (copy := self.of(value)) is None:
            raise _NoRoomError
        return Tensor(copy) if isinstance(value, Tensor) else copy.numpy() if isinstance(value, np.ndarray) else copy


class _NoRoomError(Exception):
    """A copy would be too large."""


def _source(record: Record, tensor: "ref[Any] | None", copies: _Copies) -> RerunSource:
    changed = None if record.since is None else record.since.what
    norm = None if record.value is None else record.value.norm
    held = None if tensor is None else tensor()
    small = record.value is not None and record.value.array is not None
    kept = record.value if small or held is None else copies.of(held)
    name = record.name or f"the {'result of ' + record.op.name if record.op is not None else record.kind}"
    return RerunSource(
        record.id, record.kind, name, tensor, kept, record.shape, record.dtype, record.device, norm, changed
    )


def _call(record: Record, node: "ref[Node] | None", copies: _Copies) -> Call:
    assert record.op is not None
    known, settings = None if node is None else node(), record.settings
    if known is not None:
        settings = {} if known.settings is record.op.defaults else (copies.settings(known.settings) or settings)
    edges = () if known is None else known.edges
    return Call(
        record.id,
        record.op,
        settings,
        record.parents,
        tuple([one.literal for one in record.inputs]),
        tuple([one.index if isinstance(one, Output) else None for one in edges]),
        node,
        f"{record.op.name} at {record.place}" if record.place is not None else record.op.name,
        record.shape,
        None if record.value is None else record.value.norm,
        None if record.gradient is None else record.gradient.norm,
    )


def _is_plain(call: Call, single: set[int]) -> bool:
    inputs = zip(call.takes, call.literals, strict=True)
    return all(not _described(literal) if id is None else id in single for id, literal in inputs)


class _Contributions(Observer):
    """Keeps the results of the rules, by the number of the node and the position of the input."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], torch.Tensor] = {}

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Any) -> None:  # noqa: ARG002
        self.found[node.seq, position] = reduced


class _Run:
    """One run."""

    def __init__(
        self,
        rerun: Rerun,
        changes: Mapping[int, torch.Tensor],
        asked: Collection[int],
        *,
        backward: bool = True,
        traced: Mapping[int, Tensor] | None = None,
    ) -> None:
        self._rerun = rerun
        self._changes = changes
        self._asked = asked
        self._backward = backward and bool(rerun.roots)
        self._traced = traced
        self._made: dict[int, Any] = {}  # by the id of a record its tensor, or those of an op with several
        self._contributions = _Contributions()

    def outcome(self) -> RerunOutcome:
        """Run it, and give all numbers."""
        self._forward()
        found = self._gradients() if self._backward else {}
        numbers = {
            made_by.seq: id
            for id, made in self._made.items()
            for one in (made[:1] if type(made) is tuple else (made,))
            if id not in self._rerun.sources and (made_by := node_of(one._origin)) is not None
        }
        values = {id: (made[0] if type(made) is tuple else made)._data for id, made in self._made.items()}
        contributions = {
            (numbers[seq], position): raw_of(one)
            for (seq, position), one in self._contributions.found.items()
            if seq in numbers
        }
        root = self._total() if self._rerun.roots and self._traced is None else None
        return RerunOutcome(values, found, contributions, root)

    def root(self) -> float:
        """Run it forward, and give the roots of the backward."""
        self._forward()
        return self._total()

    def _total(self) -> float:
        total = 0.0
        for id in self._rerun.roots:
            value = self._one(id)
            terms = value._data * self._seed(id, value)
            total += (terms.real if terms.is_complex() else terms).sum(dtype=torch.float64).item()
        return total

    def _forward(self) -> None:
        rerun = self._rerun
        if self._traced is not None:
            self._made.update(self._traced)
            self._calls()
            return
        for id in rerun.sources:
            self._made[id] = self._start(id)
        if rerun._random:
            held = [one._data for one in self._made.values()]
            drawing_from(_first_draw(held), self._calls)
        else:
            self._calls()

    def _start(self, id: int) -> Tensor:
        data = self._changes[id] if id in self._changes else self._rerun.numbers(id)
        asked = id in self._asked and (data.is_floating_point() or data.is_complex())
        return Tensor(data, requires_grad=self._backward and (asked or self._rerun.learns(id)))

    def _context(self, *, grad_enabled: bool, observers: tuple[Observer, ...] = ()) -> AbstractContextManager[Any]:
        if self._traced is None:
            return _alone(grad_enabled=grad_enabled, observers=observers)
        return Switch(grad_enabled=grad_enabled, observers=(*current().observers, *observers))

    def _calls(self) -> None:
        with self._context(grad_enabled=self._backward):
            for call in self._rerun.calls:
                self._made[call.id] = self._call(call)

    def _call(self, call: Call) -> Any:
        op = call.op
        if not isinstance(op, Op):
            raise RerunError(f"{call.what} is no row of the op table, so it cannot be run again")
        args = self._args(call)
        settings = self._settings(call)
        try:
            made = op.run(args, settings)
        except _ERRORS as error:
            raise RerunError(f"{call.what} does not run with these numbers: {error}") from error
        if args and made is args[0]:  # an op in place that changes nothing, as conj_physical_ of real numbers
            made = OPS["clone"].run((made,), {})
        if op.many:
            made = tuple(made)
        elif op.several:
            made = tuple([made[at] for at in op.live])
        elif not op.simple:
            made = made[op.live[0]] if op.returns is not None else made
        first = made[0] if type(made) is tuple else made
        if first._data.shape != call.shape:
            raise RerunError(
                f"{call.what} gives a tensor of shape {tuple(first.shape)} with these numbers, and the recorded path "
                f"goes on with one of shape {call.shape}"
            )
        return made

    def _args(self, call: Call) -> tuple[Any, ...]:
        """The inputs of an op; those that it changes in place are copies."""
        known, takes, op = self._made, call.takes, call.op
        if call.id in self._rerun.plain:
            args = tuple([call.literals[at] if id is None else known[id] for at, id in enumerate(takes)])
        else:
            args = tuple([self._input(call, at) for at in range(len(takes))])
        changed = op.mutates if isinstance(op, Op) else ()
        for at, name in enumerate(op.inputs) if changed else ():
            if name in changed and at < len(args) and isinstance(args[at], Tensor):
                args = (*args[:at], Tensor(args[at]._data.clone()), *args[at + 1 :])
        return args

    @staticmethod
    def _settings(call: Call) -> dict[str, Any]:
        """The settings of the op; those of the node if they were too large to be kept.

        Where the node was gone when the graph was taken, they have a tuple in place of a list. Used as an index, the
        tuple may select other elements than the list did. Then the result has another shape.
        """
        if any(map(_described, call.settings.values())):
            node = None if call.node is None else call.node()
            if node is not None:
                return node.settings
            raise RerunError(
                f"a tensor that {call.what} was called with, such as an index, no longer exists. Keep the loss in a "
                "variable, and run the cell again"
            )
        return call.settings

    def _input(self, call: Call, position: int) -> Any:
        id = call.takes[position]
        if id is None:
            literal = call.literals[position]
            if _described(literal):
                raise RerunError(f"an input of {call.what} is no tensor that the graph knows")
            return literal
        if id not in self._made:
            raise RerunError(f"an input of {call.what} was not recorded")
        made = self._made[id]
        if type(made) is not tuple:
            return made
        if (result := call.results[position] if call.results else None) is None:
            raise RerunError(
                f"{call.what} takes one of several results, and it is no longer known which. Keep the loss in a "
                "variable, and run the cell again"
            )
        return made[result]

    def _one(self, id: int) -> Tensor:
        made: Any = self._made[id]
        if type(made) is tuple:
            raise RerunError("the backward began at one of several results of an op, and it is not known at which")
        return made  # type: ignore[no-any-return]  # it is a tensor

    def _seed(self, id: int, value: Tensor) -> torch.Tensor:
        """The initial gradient of a root."""
        known = self._rerun.roots[id]
        if known is not None and (array := known.array) is not None:
            return torch.from_numpy(np.array(array)).to(value._data)
        if known is None and value._data.numel() == 1:
            return torch.ones_like(value._data)
        raise RerunError(
            f"the backward began with a gradient of shape {tuple(value.shape)}, which was not kept: call backward() on "
            "a single number, such as a loss"
        )

    def _gradients(self) -> dict[int, Any]:
        roots: list[tuple[Origin, Any]] = []
        for id in self._rerun.roots:
            value = self._one(id)
            if value._needs_grad:
                roots.append((value.origin, self._seed(id, value)))
        if not roots:
            return {}
        reached = {*self._rerun._reached, *self._asked}
        wanted = {
            id: [one.origin for one in (made if type(made) is tuple else (made,)) if one._needs_grad]
            for id, made in self._made.items()
            if id in reached
        }
        origins = [origin for some in wanted.values() for origin in some]
        try:
            with self._context(grad_enabled=False, observers=(self._contributions,)):
                found = gradients(roots, origins, retain_graph=False, create_graph=False)
        except _ERRORS as error:
            raise RerunError(f"the backward does not run with these numbers: {error}") from error
        gradient: dict[int, Any] = {}
        for id, some in wanted.items():
            arrived = [raw_of(found[one]) for one in some if one in found]
            if arrived:
                gradient[id] = arrived if id in self._rerun._several else arrived[0]
        return gradient


def _described(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_described, value))
    return isinstance(value, Described)


def _first_draw(held: list[torch.Tensor]) -> Random:
    """The state that every run draws from: that of new generators."""
    devices = cuda_devices(held)
    numbers = torch.Generator().manual_seed(0).get_state()
    return numbers, {one: torch.Generator(one).manual_seed(0).get_state() for one in devices}


class _alone(AbstractContextManager[None]):  # noqa: N801  # used as a function
    """A context in which no graph, scope or mode of the user's has a part."""

    def __init__(self, *, grad_enabled: bool, observers: tuple[Observer, ...] = ()) -> None:
        self._switch = Switch(
            observers=observers, grad_enabled=grad_enabled, inference=False, tracer=None, walking=None, scope=None,
            computed=None, device=None,
        )  # fmt: skip
        self._autocast = switched_off()

    def __enter__(self) -> None:
        self._switch.__enter__()
        self._autocast.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._autocast.__exit__(*raised)
        finally:
            self._switch.__exit__(*raised)


def rerun_of(graph: AnyGraph) -> "Rerun | RerunError":
    """The graph as one that can be run again, or the error that says why it cannot."""
    try:
        return Rerun(graph)
    except RerunError as error:
        return error

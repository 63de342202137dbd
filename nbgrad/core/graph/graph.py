"""``AutogradGraph``: the graph of the ops that run inside a context.

It keeps facts of each op, and makes a ``Record`` of them on request. It owns no tensor that the user dropped, except
small values and the gradients of the last backward, both within a budget. It is copied into rustworkx on request.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from sys import is_finalizing
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch

from nbgrad.choices import COST, FRAMES
from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine import pacing
from nbgrad.core.engine.call_site import tensors_in_sight, user_frame
from nbgrad.core.engine.kept import kept_below
from nbgrad.core.engine.place import running_cell
from nbgrad.core.engine.state import State, current, live, set_state
from nbgrad.core.engine.tensor_data import check_device, words_of
from nbgrad.core.engine.user_names import in_order, is_module, loops_in
from nbgrad.core.graph.answers import Answer, Questions, names_of
from nbgrad.core.graph.changes import Since, since
from nbgrad.core.graph.checkup import Checkup
from nbgrad.core.graph.compilation import Compilation, expanded
from nbgrad.core.graph.custom_overlay import CustomOverlay
from nbgrad.core.graph.facts import Notes, Outer, Passed
from nbgrad.core.graph.failure import Ending
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.guarded_listener import GuardedListener
from nbgrad.core.graph.history import History
from nbgrad.core.graph.kept_storages import KeptStorages
from nbgrad.core.graph.last_backward import Frame, FrameRecorder
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.memory import MemoryUse
from nbgrad.core.graph.names import called, title_models
from nbgrad.core.graph.optimizers import Update
from nbgrad.core.graph.pace import Pace
from nbgrad.core.graph.queries import Queries
from nbgrad.core.graph.rank_recorder import RankRecorder, check_group
from nbgrad.core.graph.ranks import Ranks
from nbgrad.core.graph.record import Failure, Record, number_of
from nbgrad.core.graph.renderer import Drawable, registered_renderer
from nbgrad.core.graph.rest import Rest
from nbgrad.core.graph.silence import silenced_kinds
from nbgrad.core.graph.stats import Stats, summarise_all
from nbgrad.core.graph.thinned import KEPT, whole
from nbgrad.core.graph.unreached import Paths, Unreached, named_tensors
from nbgrad.core.no_gc import uncollected
from nbgrad.core.recorder.compiler import CompilerWatch
from nbgrad.core.recorder.kept import kept_below as kept_by_torch
from nbgrad.core.recorder.switches import follow, follows, unfollow, unfollow_to
from nbgrad.core.suggestions import nearest

_next_number = count(1).__next__


_SURVEYED = 20_000
"""A graph with more records is searched for findings only when somebody asks: it takes seconds."""


class AutogradGraph(Queries, Drawable):
    """A context that records the ops that run inside it, and the gradients of each backward.

    Example:
        >>> with AutogradGraph() as graph:
        ...     loss = ((x @ w + b) ** 2).mean()
        ...     loss.backward()
        >>> graph.frame.reductions

    Args:
        name: the title of the picture; default: graph 1, graph 2, ...
        device: the device of new tensors and parameters inside it; default: torch's default device.
        watch: keep gradients and small values of intermediate tensors to show them. Without it the graph holds no
            tensor at all.
        budget: how many bytes of gradients of the last backward it keeps; of all other gradients it keeps the norms.
            It also keeps the newest two megabytes of values of at most 1,024 elements.
        history: the largest number of backwards whose gradient norms it keeps; 0 for none.
        ask: the names of the tensors whose gradients the reader has to give, as "w, b" or a list; True for all. The
            picture hides each gradient until it is answered right.
        ranks: compare the gradients of the processes of a group, which ``DistributedDataParallel`` averages. Every
            process has to open such a graph.
        silence: the kinds of findings that are left out, as "vanishing, frozen" or a list; ``checkup`` counts them.
        every: record the first two steps of a training loop, and then one of so many. None: the first steps, and then
            as many as ``cost`` allows. The last step is recorded too, where the loop says which one it is.
        cost: the share of the time of a loop that recording may add, if ``every`` is None.
        inside_compiled: keep the ops that ``torch.compile`` traces, and its graph breaks and recompilations.

    Raises:
        RuntimeError: ``device`` is a CUDA device, and there is none; there is no process group for ``ranks``; or the
            graph is opened twice.
        ValueError: ``history`` is negative or 1, which leaves no room for a first and a last backward; or ``ask``
            holds no names; or ``silence`` has something that is no kind of findings.

    Attributes:
        ending: the error that ended the block or the cell, if there was one.
        survey: the findings, since it was closed; None if they were not searched, or if an edge was cut later.
        left_out: how many ops have no record, because the graph was too large when it was closed.
        silence: the kinds of findings that are left out.
        questions: the tensors of ``ask``; ``answers`` and ``answer`` are about them.
        overlays: the numbers that ``overlay`` added, by name.
        modules: the names of the variables that held modules.
        rank_recorder: keeps what this process measures for ``ranks``; None where ranks are not compared.
        pace: decides which steps of a loop are recorded, and has the losses of all.
        compiler: gets what torch's compiler does; None without ``inside_compiled``.
        listener: the observer that the engine notifies. It is a separate object of a compiled class, because calls of
            its methods have to be fast. A class written in Python may override the methods of the graph itself. From
            CPython 3.12 on, a call of a method that may be overridden takes as long as the work of a short method.
    """

    _listens: type[GuardedListener] = GuardedListener

    def __init__(
        self,
        name: str | None = None,
        *,
        device: torch.device | str | None = None,
        watch: bool = True,
        budget: int = 256 << 20,
        history: int = FRAMES,
        ask: "str | Iterable[str] | bool | None" = None,
        ranks: bool = False,
        silence: "str | Iterable[str] | None" = None,
        every: int | None = 1,
        cost: float = COST,
        inside_compiled: bool = False,
    ) -> None:
        check_group(ranks)
        self.silence = silenced_kinds(silence)
        self.questions = Questions(names_of(ask))
        self.name = name or f"graph {_next_number()}"
        self.listener = self._listens(self.name, watch=watch, budget=budget, history=history)
        self.device = None if device is None else check_device(device)
        self._paths: Paths | None = None
        self._before: State | None = None
        self._rest = Rest(self.listener, (self.listener,))
        self.pace = Pace(self._rest, every, cost)
        self._follows = 0  # the number of the thread in which torch is followed; 0 for none
        self._followed = 0  # how many graphs followed torch there before
        self.rank_recorder = RankRecorder(self.name) if ranks else None
        self.compiler = CompilerWatch(self.listener.on_fault) if inside_compiled else None
        self._forget()

    def _forget(self) -> None:
        self._records: list[Record] = []
        self._failed: list[Record] = []  # the nodes that the failed backward reached, once the graph is closed
        self.left_out = 0
        self.survey: Any = None
        self._kept: KeptStorages | None = None
        self._optimizer_bytes = 0
        self._ended: History | None = None  # the complete backwards, once a failed one is shown
        self.ending: Ending | None = None
        self._complete: FrameRecorder | Frame | None = None  # the last complete backward, while a failed one is shown
        self.overlays: dict[str, CustomOverlay] = {}
        self.modules: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._titles: dict[int, str] = {}  # of the models, by Python's ``id()`` of each, if there are several

    # The context.

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError(f"{self.name!r} was opened before: make a new AutogradGraph for each with block")
        self.listener.cell = running_cell()
        self._before = state = live()
        followed = follows()
        # One assignment for both cases: Cython never infers the type of a variable that is extended, as in a = (*a, b).
        ours = (self.listener,) if self.rank_recorder is None else (self.listener, self.rank_recorder)
        try:
            set_state(
                state.replaced(observers=(*state.observers, *ours), device=self.device or state.device, outer=state)
            )
            self._follow(followed)
            self._rest.begin(followed if self._follows else None)
            pacing.add(self.pace)
            if self.compiler is not None:
                self.compiler.begin()
            if self.rank_recorder is not None:
                self.rank_recorder.begin()
        except BaseException:
            set_state(state)
            pacing.remove(self.pace)
            self._unwatch()
            self._follows = 0
            unfollow_to(followed)
            raise
        return self

    def _follow(self, followed: int) -> None:
        """Record torch in this thread, where that works; ``followed``: how many graphs did so before."""
        self._followed = followed
        try:
            self._follows = follow()
        except Exception as fault:  # only nbgrad's own ops are recorded
            self._fail(fault, "torch's ops")
            unfollow_to(followed)

    def _fail(self, fault: Exception, doing: str) -> None:
        """Remember an error of nbgrad's own, which must not reach the program, for the picture."""
        self.listener.on_fault(fault, doing)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.leave()
            self.close(self.in_sight(), error)
        except BaseException:  # an interrupt may have hit the end
            self.leave()
            unfollow_to(self._followed)
            if not self.closed:
                self.listener.closed = True
                self.clear()
            raise

    def leave(self) -> None:
        """Stop recording; the recorded graph stays as it is until ``close``."""
        # A notebook may close a cell's graph in another context than the cell's, where it is not active.
        state = current()
        if self._before is not None and (self.listener in state.observers or self._rest.is_here(state)):
            set_state(self._before)
        pacing.remove(self.pace)
        self.pace.take_over()
        self._unwatch()
        if self._rest.end():
            self._follows = 0
        if self._follows:
            try:
                unfollow(self._follows)
            except Exception as fault:
                self._fail(fault, "the end of the graph")
                unfollow_to(self._followed)
            self._follows = 0

    def _unwatch(self) -> None:
        """Watch torch's compiler and its modules that average no more."""
        if self.compiler is not None:
            self.compiler.end()
        if self.rank_recorder is not None:
            self.rank_recorder.end()

    def __del__(self) -> None:
        """Stop recording, if nothing can close the graph any more."""
        if getattr(self, "_before", None) is not None and not (self.closed or is_finalizing()):
            self.listener.closed = True
            self.leave()
            live()

    def in_sight(self) -> dict[str, Any]:
        """The variables with tensors and modules, of the user's code that runs."""
        try:
            return tensors_in_sight(user_frame(), modules=True)
        except Exception as fault:
            self._fail(fault, "the names of variables")
            return {}

    def close(self, namespace: dict[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Stop recording, name tensors after the variables in ``namespace``, and free every tensor.

        The picture then says that ``error`` ended the graph, if there was one.
        """
        if self.closed:
            return
        self.leave()
        self.listener.closed = True
        if is_finalizing():  # nothing can read the graph any more: measuring would abort Python
            self.clear()
            return
        try:
            if self.rank_recorder is not None:
                self.rank_recorder.publish()
        except Exception as fault:
            self._fail(fault, "the figures of this process")
        try:
            self._settle(namespace or {})
            if error is not None and not isinstance(error, GeneratorExit):  # a generator was closed: no error
                self.raised(error)
            if self.check_cycle():
                raise RuntimeError("the graph has a cycle")
            self._survey()
        except Exception as fault:
            first = self.listener.fault
            self.clear()  # incomplete, and every tensor has to be freed
            self.listener.fault = first
            self._fail(fault, "the graph at its end")
            if error is not None and not isinstance(error, GeneratorExit):
                with suppress(Exception):
                    self.ending = Ending.of(error, None, self.listener.cell is not None)
        except BaseException:
            self.clear()  # after an interrupt the facts are incomplete and useless, but every tensor has to be freed
            raise
        finally:
            self.listener.release()

    @muted
    @uncollected
    def _survey(self) -> None:
        """Look for findings while the models and the optimizers still exist: a function may have made them."""
        self.listener.training.settle()
        if getattr(self.listener, "fault", None) is None and len(self._records) <= _SURVEYED:
            with suppress(Exception):  # whoever asks for the findings gets the error, when they are searched again
                self.survey = registered_renderer().survey(self)

    @muted
    @uncollected
    def _settle(self, namespace: dict[str, Any]) -> None:
        """Turn the recorded facts into facts that hold no tensor."""
        self.name_variables(dict(namespace))  # a copy: threads may go on
        self._titles = title_models([ran.scope for ran in self.listener.there()[0].values()], self.modules)
        notes, frame = self._notes, self.frame
        passed, self.left_out = self.listener.passed_ends(None, KEPT)
        failure, failed = self.listener.failure, list[Passed]()
        if failure is not None and failure.frame is not None:
            failed = self.listener.passed_ends(failure.frame.roots, KEPT)[0] if self.backwards else passed
        numbers = self._numbers([*passed, *failed], frame)
        self._records = self._taken(passed, frame, *numbers)
        self._failed = self._taken(failed, None if failure is None else failure.frame, *numbers)
        self._settle_memory(namespace)
        notes.settled = {record.id: record.statistics for record in (*self._failed, *self._records)}
        notes.frame = frame
        self.listener.leave_past(numbers[0])
        self._paths = self._make_paths()
        notes.things = self.listener.things([*passed, *failed])
        self.listener.let_go()

    def _settle_memory(self, namespace: dict[str, Any]) -> None:
        """Note what the ops keep for the backward, and what the optimizers hold. An error leaves the rest as it is."""
        try:
            self._optimizer_bytes = self.listener.training.state_bytes()
            if self.backwards:
                self._kept = self.listener.kept.of(self.recorded, self._records)
            else:
                self._kept = self._read_kept(namespace, [one.id for one in self._records if one.kind == "op"])
        except Exception as fault:
            self._fail(fault, "what a backward needs")

    def _taken(
        self, passed: list[Passed], frame: Frame | None, values: dict[int, Stats], changed: dict[int, Since]
    ) -> list[Record]:
        """The records of the closed graph: with their names, and without inputs from ops that are left out."""
        records = called(self._notes.taken(passed, frame, values, changed))
        return whole(records) if self.left_out else records

    def clear(self) -> None:
        """Remove all records; an open graph continues to record."""
        self.listener.forget()
        if self.rank_recorder is not None:
            self.rank_recorder.forget()
        if self.compiler is not None:
            self.compiler.forget()
        self._forget()

    def name_variables(self, namespace: dict[str, Any]) -> None:
        """Name the tensors and modules after the variables in ``namespace`` that hold them."""
        named = in_order(namespace, loops_in(namespace), modules=True)
        self.listener.name_variables(named)
        for name, value in named.items():
            if is_module(value):
                with suppress(TypeError):  # an object without a hash is no module that was called
                    self.modules.setdefault(value, name)

    # The questions of others.

    @property
    def closed(self) -> bool:
        """Whether it has stopped recording."""
        return self.listener.closed

    @property
    def fault(self) -> str | None:
        """The first error of nbgrad's own while it recorded, as a sentence; None if there was none.

        Such an error does not reach the program. A part of the graph is missing then.
        """
        return None if self.listener.fault is None else str(self.listener.fault)

    @property
    def watch(self) -> bool:
        """Whether it keeps gradients and small values."""
        return self.listener.watch

    @property
    def _notes(self) -> Notes:
        return self.listener.notes

    @property
    def frame(self) -> Frame | None:
        """The last backward that ran inside the graph, as data; None before the first."""
        frame = self._notes.frame
        return frame.frame() if isinstance(frame, FrameRecorder) else frame

    @property
    def history(self) -> History:
        """The losses and gradient norms of the backwards inside the graph: of all, or of some in a long loop.

        Without ``watch`` a frame has only the norms of the leaves' gradients, and no loss.
        """
        if self._ended is not None:
            return self._ended
        frame = self._notes.frame
        number = 0 if frame is None else frame.number
        return self.listener.history.frames(number, self._notes.roots, self.records, self._titles)

    @property
    def update(self) -> Update | None:
        """How far the last measured update of an optimizer moved each parameter; None before the first."""
        return self.listener.updates.last

    @property
    def memory(self) -> MemoryUse:
        """The bytes that the ops of the last backward kept for it, by storage; before a backward, what they keep now.

        Raises:
            RuntimeError: it is not known, because no backward with the same ops was read.
        """
        found = self.known_memory()
        if found is None:
            raise RuntimeError(
                f"{self.name!r} does not know what its ops kept for the last backward: the backward has other ops than "
                "those that were read, or no op is left"
            )
        return found

    def known_memory(self, records: list[Record] | None = None) -> MemoryUse | None:
        """The same; None if it is not known. The caller may have the ``records`` of the graph already."""
        shown = self.records if records is None else records
        kept = self._kept_storages(shown)
        return None if kept is None else MemoryUse(shown, kept, self._state_bytes(), self._forward_seconds())

    @property
    def compilation(self) -> Compilation:
        """The work of torch's compiler while the graph recorded: compiled graphs, graph breaks, recompilations.

        Raises:
            RuntimeError: the graph was made without ``inside_compiled``.
        """
        if self.compiler is None:
            raise RuntimeError(
                f"{self.name!r} did not watch torch's compiler: record it with inside_compiled=True (--inside-compiled)"
            )
        return Compilation.of(self.compiler, self.records)

    def inside(self, id: int) -> list[Record]:
        """The records of the ops that torch's compiler traced in the compiled op ``id``, in their order.

        They have no values and no gradients: the compiled program may compute other steps.

        Raises:
            KeyError: ``id`` is not that of an op of ``compilation.graphs``.
            RuntimeError: as ``compilation``.
        """
        return self.compilation.inside(id, self.drawn)

    @property
    def drawn(self) -> list[Record]:
        """The records of its picture: with ``inside_compiled`` those of the ops in compiled graphs, too."""
        return self.records if self.compiler is None else expanded(self.records)

    def _state_bytes(self) -> int:
        return self._optimizer_bytes if self.closed else self.listener.training.state_bytes()

    def _forward_seconds(self) -> dict[int, float]:
        """By id of the record of an op, how long its forward took; empty without a clock."""
        return {}

    def _kept_storages(self, records: list[Record]) -> KeptStorages | None:
        """The storages that the ops of the last backward kept; None if that is not known."""
        if self.closed:
            return self._kept
        if self.backwards:
            return self.listener.kept.of(self.recorded, records)
        return self._read_kept(self.in_sight(), [record.id for record in records if record.kind == "op"])

    @muted
    def _read_kept(self, namespace: dict[str, Any], ops: list[int]) -> KeptStorages | None:
        """Read what the nodes of these ``ops`` keep, which no backward has reached, where a variable leads there."""
        made = [one.grad_fn for one in namespace.values() if isinstance(one, torch.Tensor) and one.grad_fn is not None]
        nodes = [ran.thing() for id in ops if (ran := self.listener.ops.get(id)) is not None]
        own = [node for node in nodes if node is not None and node.plan is not None]
        reading = kept_by_torch(made, kept_below(own))
        return self.listener.facts_of_kept(reading, 0, ops) if reading.ops else None

    @property
    def since(self) -> dict[int, Since]:
        """The leaves that have changed since the last backward, for example by an optimizer step, by id."""
        if self.closed:
            return {record.id: told for record in self._records if (told := record.since) is not None}
        frame = self._notes.frame
        return self._changed(self.listener.passed(), frame)

    @property
    def backwards(self) -> int:
        """How many backwards ran inside the graph, recorded or not."""
        self.pace.take_over()
        return self.listener.number

    @property
    def recorded(self) -> int:
        """How many of them were recorded: see ``every`` and ``cost``."""
        return self.listener.backwards

    @property
    def losses(self) -> list[BackwardLoss]:
        """The losses of all backwards that the program has called, also of those that were not recorded."""
        return self.pace.losses.losses()

    @property
    def records(self) -> list[Record]:
        """Every op and tensor of the graph in record order, which is a topological order: sources first.

        After a backward, these are the ops and tensors that it reached. Before the first backward, these are all ops
        whose results still exist. A record never changes; an open graph makes new records at each access. Of more than
        100,000 ops a closed graph has the first and the last ones, and ``left_out`` says how many are missing.
        """
        return list(self._records) if self.closed else self._open_records()

    @uncollected
    def snapshot(self) -> list[Record]:
        """The ``records`` with all their statistics, which are computed together: in an open graph as they are now.

        If you read only some of the statistics, or none, ``records`` is faster.
        """
        if self.closed:
            return list(self._records)
        frame, passed = self.frame, self.listener.passed()
        return called(self._notes.taken(passed, frame, *self._numbers(passed, frame)))

    @uncollected
    def _open_records(self) -> list[Record]:
        return called(self._notes.records(self.listener.passed()))

    def _numbers(self, passed: list[Passed], frame: Frame | None) -> tuple[dict[int, Stats], dict[int, Since]]:
        """The statistics of the values that are shown, and the changes of the leaves since the backward ``frame``."""
        notes = self._notes
        kept = {id: data for id, fact, _ in passed if (data := notes.kept_value(id, fact)) is not None}
        known = {id: notes.known[id] for id, *_ in passed if id in notes.known} if notes.known else {}
        return {**known, **summarise_all(kept)}, self._changed(passed, frame)

    def _changed(self, passed: list[Passed], frame: FrameRecorder | Frame | None) -> dict[int, Since]:
        """The leaves that have changed since the backward ``frame``."""
        leaves = [
            (id, fact.thing, None if frame is None else frame.gradient_of(id))
            for id, fact, _ in passed
            if isinstance(fact, Outer)
        ]
        later = frame is not None and frame.number < self.backwards
        return since(leaves, self.listener.changes, later)

    def _take_out(self, ids: set[int], edges: set[tuple[int, int]]) -> None:
        notes = self._notes
        notes.deleted |= ids
        notes.cut |= edges
        self.survey = None
        if self.closed:
            shows_failure = self._records is self._failed
            self._failed = _left(self._failed, ids, edges)
            self._records = self._failed if shows_failure else _left(self._records, ids, edges)

    def failure(self, error: BaseException) -> Failure | None:
        """The place where ``error`` was raised, if it was the last error of an op or a backward in this graph."""
        found = self.listener.failure
        return found._replace(message=words_of(error)) if found is not None and found.seq == number_of(error) else None

    def raised(self, error: BaseException) -> None:
        """Note that ``error`` ended the recorded code, and where.

        If a backward raised it, the graph from then on shows that backward up to the error, in place of the last
        complete one. The history only has complete backwards.
        """
        found, fault = self.failure(error), self.listener.fault
        self.survey = None
        if fault is not None and fault.too_deep and isinstance(error, RecursionError):
            self.listener.fault = None  # the program reached the limit of recursion, too: no part of it is missing
        ending = Ending.of(error, found, self.listener.cell is not None)
        if found is None or found.frame is None:
            self.ending = ending
            return
        if self._failed and self._records is not self._failed:
            if self._ended is None:
                self._ended = self.history
            self._records = self._failed
        self._complete = self._notes.frame
        self.ending = ending  # last: from here on ``recovered`` restores ``_complete``
        self._notes.frame = found.frame

    def recovered(self) -> None:
        """Continue after ``raised``: the graph, which is still open, shows the last complete backward again."""
        if self.ending is not None and self.ending.failure is not None and self.ending.failure.frame is not None:
            self._notes.frame = self._complete
        self.ending = self._complete = None

    # The questions to the reader.

    @property
    def answers(self) -> dict[str, Answer | None]:
        """The last answer for each tensor of ``ask``, by name; None if there is no answer yet.

        For a grade cell: ``assert all(graph.answers.values()), graph.answers``.
        """
        return self.questions.answers(self.records)

    def answer(self, name: str, value: Any) -> Answer:
        """Say whether ``value`` is the gradient of the tensor ``name`` in the last backward, or how it is wrong.

        The next picture of the graph shows the gradients that were answered right. ``name`` may be any tensor with a
        gradient.

        Args:
            name: the name of the tensor.
            value: the gradient: a tensor of nbgrad's or torch's, an array, a number or a list.

        Returns:
            An ``Answer``, which is true if it is right. On the last line of a cell it is displayed.

        Raises:
            KeyError: no tensor of this name got a gradient, or several did; or the gradient has too many numbers.
        """
        return self.questions.answer(self.records, name, value)

    def ranks(self) -> Ranks:
        """A comparison of the processes in the last backward that averaged gradients over them.

        Every process has to open a graph with ``ranks=True``. The first call waits until all processes have closed
        their graphs or have called this method, at most ten seconds.

        Raises:
            RuntimeError: the graph was opened without ``ranks=True``, no backward in it averaged gradients over
                processes, or a process has sent no figures.
        """
        if self.rank_recorder is None:
            raise RuntimeError(
                f"{self.name!r} does not compare ranks: open it in every process with nbgrad.record(ranks=True), or "
                "%%autograd --ranks"
            )
        if not self.closed:
            self.rank_recorder.publish()
        return self.rank_recorder.ranks()

    def findings(self) -> list[Finding]:
        """Everything that is wrong in the graph, or probably not intended: the findings of its picture, as data.

        Returns:
            Errors first, the gradients of modules last. Each has its kind, its text, its remedy, the id of its record,
            and the names of its tensors and modules. The list is empty if there are no findings.
        """
        return registered_renderer().findings(self)

    def checkup(self) -> Checkup:
        """Return the checks of the graph: on how much each looked, and what it found. ``print`` shows a line for each.

        Returns:
            The checks. Each has its name, the kinds of its findings, what it looked at, why it could not judge all,
            and its findings, also those that are silenced.
        """
        return registered_renderer().checkup(self)

    def unreached(self, module: Any = None) -> list[Unreached]:
        """The leaves that got no gradient in the last backward, and for each where the path from the loss to it ends.

        Args:
            module: check its parameters, used or not. It may also be a dict, pairs of name and tensor, or tensors.
                Default: the leaves that ops in this graph used.
        """
        return self._known_paths().unreached(None if module is None else named_tensors(module))

    def unheld(self) -> list[tuple[int, str]]:
        """The parameters that got a gradient in the last backward, but that no optimizer holds and no code changed.

        Returns:
            For each the id of its record, and its name in the model with its shape.
        """
        return self._known_paths().unheld()

    def _known_paths(self) -> Paths:
        return self._paths if self._paths is not None else self._make_paths()

    def _make_paths(self) -> Paths:
        heard, changed = self.listener, self.listener.changes.memories()
        return Paths.of(
            *heard.there()[:3], heard.uses, changed, heard.backwards, heard.history, heard.training, heard.before_last
        )

    # The display.

    def overlay(self, name: str, values: Mapping[Any, Any] | None, *, log: bool = False) -> None:
        """Add numbers of your own, by which pictures of the graph can colour its boxes.

        A picture opens with the overlay that was added last. A folded box has the largest of the numbers inside it.

        Args:
            name: its name in the menu of the picture; an overlay of the same name is replaced.
            values: a dict with a number for each key. A key is a tensor, parameter, module, record or id of a record;
                or a name: a parameter's "weight" or "layers.0.weight", a module's path "layers.0", a variable of the
                cell. A name sets all records of this name, and a module sets all records in its calls that no other
                key sets. None removes the overlay.
            log: whether the scale is logarithmic.

        Raises:
            KeyError: the graph has no record for a key; the message names the key.
            TypeError: ``values`` is not a dict, a key is of another type, or a value is not a number.
            ValueError: the dict is empty; a value has several elements, or is below zero on a logarithmic scale.
        """
        if values is None:
            if name not in self.overlays:
                raise KeyError(f"{self.name!r} has no overlay {name!r}{nearest(str(name), self.overlays)}")
            del self.overlays[name]
            return
        made = CustomOverlay.of(self.name, self.records, name, values, log)
        self.overlays.pop(name, None)  # the newest is the last one
        self.overlays[name] = made

    def __repr__(self) -> str:
        ops = sum(record.kind == "op" for record in self.records)
        return f"<AutogradGraph {self.name!r}: {ops + self.left_out} ops, {self.backwards} backwards>"


def _left(records: list[Record], ids: set[int], edges: set[tuple[int, int]]) -> list[Record]:
    """The ``records`` without those with these ``ids``, and without these ``edges``."""
    return [record.without(ids, edges) for record in records if record.id not in ids]


class RecordingBlock:
    """A ``with`` block that records in ``graph``, with its first and its last steps.

    It is in this file because the file is compiled. Ctrl-C may hit the first instruction of a Python function: then
    ``__exit__`` would do nothing, and the graph would stay open.
    """

    graph: AutogradGraph

    def __enter__(self) -> AutogradGraph:
        before = current()
        try:
            self.graph.__enter__()
            self._begin()
        except BaseException:
            set_state(before)
            self.graph.leave()
            raise
        return self.graph

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.graph.leave()
        self._end(error)

    def _begin(self) -> None:
        """Switch on the other modes of the block; when the graph closes, it restores the state from before."""

    def _end(self, error: BaseException | None) -> None:
        """Close the graph, since ``error`` ended the block or for another reason."""
        raise NotImplementedError

"""The record of what ran inside a context.

A graph keeps light facts, one ``Record`` per op, and owns no tensor that the user dropped, but for small values and the
gradients of the last backward, both within a budget. It is poured into rustworkx in bulk when somebody asks.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self
from weakref import ref

import numpy as np
import torch

from nbgrad.core.advice import Changes
from nbgrad.core.broadcast import Reduction
from nbgrad.core.caller import Place, in_a_function, tensor_variables, user_frame, user_place
from nbgrad.core.frame import SMALL, Frame, FrameRecorder
from nbgrad.core.history import FRAMES, History, HistoryRecorder, Passed
from nbgrad.core.modes import Observer, State, current, set_state
from nbgrad.core.node import Leaf, Node, Origin, Output, next_seq, record_id
from nbgrad.core.queries import Queries
from nbgrad.core.record import NOTHING, Failure, Literal, Notes, Operand, Ran, Record, described
from nbgrad.core.row import Op
from nbgrad.core.tensor import Tensor, check_device
from nbgrad.core.unreached import Paths, Unreached, Uses, named_tensors
from nbgrad.core.update import Update

_next_number = count(1).__next__


class AutogradGraph(Observer, Queries):
    """A context that records the ops that run inside it and what each backward does to them.

    Example:
        >>> with AutogradGraph() as graph:
        ...     loss = ((x @ w + b) ** 2).mean()
        ...     loss.backward()
        >>> graph.frame.reductions

    Args:
        name: what the picture calls it; default: graph 1, graph 2, ...
        device: where ``nbgrad.tensor`` and parameters are made inside it; default: torch's default device.
        watch: keep gradients and small values of intermediate tensors to show them. Without it the graph holds no
            tensor at all.
        budget: how many bytes of gradients of the last backward it may keep; beyond it only their norms are kept. Of
            values of at most 1,024 elements it keeps the newest two megabytes.
        history: of how many backwards it keeps the norms of the gradients, at most; 0 for none.

    Raises:
        RuntimeError: a CUDA device is asked for where there is none; or the graph is opened twice.
        ValueError: ``history`` is negative or 1, which leaves no room for a first and a last backward.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        device: torch.device | str | None = None,
        watch: bool = True,
        budget: int = 256 << 20,
        history: int = FRAMES,
    ) -> None:
        self.name = name or f"graph {_next_number()}"
        self.device = None if device is None else check_device(device)
        self.watch = watch
        self.closed = False
        self._budget = budget
        self._frames = history
        self._uses = Uses()
        self._changes = Changes()
        self._paths: Paths | None = None
        self._before: State | None = None
        self._forget()

    def _forget(self) -> None:
        self._notes = Notes()
        self._ops: dict[int, Ran] = {}  # a record is made of it when somebody asks
        self._outer: dict[int, Record] = {}  # leaves, constants, and ops that ran before
        self._constants: dict[Any, tuple[ref[Any], int]] = {}
        self._limit = 256
        self._running: FrameRecorder | None = None
        self._backwards = 0
        self._failure: Failure | None = None
        self._history = HistoryRecorder(self._frames, self._budget if self.watch else 0)
        self._records: list[Record] = []

    # The context.

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError(f"{self.name!r} was opened before: make a new AutogradGraph for each block")
        self._before = state = current()
        set_state(state.replaced(observers=(*state.observers, self), device=self.device or state.device))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(tensor_variables(user_frame()))

    def close(self, namespace: dict[str, Any] | None = None) -> None:
        """Stop recording, name tensors after the variables in ``namespace``, and let go of every tensor."""
        if self.closed:
            return
        self.closed = True
        # A notebook may close a cell's graph in another context than the cell's, where it is not active.
        if self._before is not None and self in current().observers:
            set_state(self._before)
        self.name_variables(namespace or {})
        notes = self._notes
        self._records = self._shown()
        notes.settled = {record.id: record.value for record in self._records}
        notes.frame = self.frame
        notes.values.keep(())
        self._paths = self._make_paths()
        self._ops, self._outer, self._constants, self._running = {}, {}, {}, None
        if self.check_cycle():
            raise RuntimeError(f"{self.name!r} has a cycle: this is a defect of nbgrad, please report it")

    def name_variables(self, namespace: dict[str, Any]) -> None:
        """Remember the variables in ``namespace`` as the names of the tensors they hold."""
        self._notes.name(namespace, self._outer)

    def clear(self) -> None:
        """Forget everything recorded so far; an open graph goes on recording."""
        self._forget()

    # What the engine tells it.

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """Keep the facts of an op, and its value if it is small."""
        if self.closed:
            return  # a task that began inside the graph outlives it
        state = current()
        if self._running is not None and not state.walking:
            self._running = None  # a backward that raised
        op, settings, ops, sources = node.op, node.settings, self._ops, []
        for arg in args:
            if isinstance(arg, Tensor):
                origin = arg._origin or arg.origin
                id = origin.node.seq if type(origin) is Output else origin.seq
                if id not in ops and id not in self._outer:
                    self._meet(id, origin, arg)
                sources.append(id)
            else:
                sources.append(self._other(arg))
        if settings is not op.defaults:
            settings = {name: described(value) for name, value in settings.items()}
        frame = user_frame()
        node.place = place = Place(frame.f_code, frame.f_lasti)
        ops[node.seq] = Ran(node, settings, tuple(sources), state.scope, place)
        if self.watch:
            self._notes.values.add(node.seq, out)
        if len(ops) > self._limit:
            self._sweep()

    def _other(self, arg: Any) -> Any:
        """The id of the record of an input that is none of our tensors, or what it is."""
        if isinstance(arg, torch.Tensor | np.ndarray):
            return self._constant(arg)
        return NOTHING if arg is None else Literal(described(arg))

    def _meet(self, id: int, origin: Origin, tensor: Tensor) -> None:
        """Make the record of a tensor that no op in the graph made."""
        facts = (tuple(origin.shape), origin.dtype, origin.device, self._notes)
        if isinstance(origin, Leaf):
            self._outer[id] = Record(id, origin.kind, *facts, thing=ref(tensor), name=origin.name)
        else:
            self._outer[id] = Record(id, "outside", *facts, origin.op)

    def _constant(self, data: "torch.Tensor | np.ndarray[Any, Any]") -> int:
        """The id of the record of a raw tensor or array: one for all uses of the same memory."""
        shape, dtype, device = tuple(data.shape), data.dtype, torch.device("cpu")
        if isinstance(data, torch.Tensor):
            device = data.device
            address = data.data_ptr() if data.layout is torch.strided else 0
            key = (address, shape, data.stride(), dtype) if address else id(data)
        else:
            dtype = torch.from_numpy(np.empty(0, dtype)).dtype
            key = (data.__array_interface__["data"][0], shape, data.strides, dtype)
        known, found = self._constants.get(key, (None, 0))
        if known is None or known() is None or found not in self._outer:
            found = next_seq()
            self._constants[key] = (ref(data), found)
            self._outer[found] = Record(found, "constant", shape, dtype, device, self._notes)
            small = torch.tensor(data) if isinstance(data, np.ndarray) and data.size <= SMALL else data
            if self.watch and isinstance(small, torch.Tensor) and not small.is_inference():
                self._notes.values.add(found, small)
        return found

    def _sweep(self) -> None:
        """Drop the facts of ops whose results are gone and that the last backward did not reach."""
        notes, shown = self._notes, self._reached(self._notes.roots)
        self._ops = {id: ran for id, ran in self._ops.items() if id in shown or ran.thing() is not None}
        used = {source for ran in self._ops.values() for source in ran.sources}
        self._outer = {id: record for id, record in self._outer.items() if id in used}
        self._constants = {key: value for key, value in self._constants.items() if value[1] in self._outer}
        kept = self._ops.keys() | self._outer.keys()
        notes.values.keep(kept)
        notes.names = {id: name for id, name in notes.names.items() if id in kept}
        notes.deleted &= kept
        notes.cut = {key for key in notes.cut if key[0] in kept}
        self._limit = 2 * len(self._ops) + 256

    def on_result(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],  # noqa: ARG002
        results: tuple[Any, ...],  # noqa: ARG002
        node: Node | None,
    ) -> None:
        """Remember where a path ends because an op was not recorded."""
        if node is None and not self.closed:
            state = current()
            if not state.walking:
                self._uses.unrecorded(op, args, enabled=state.grad_enabled)

    def on_error(self, op: Op, args: tuple[Any, ...], error: Exception) -> None:
        """Remember where the user's code stopped, if this is the end of it."""
        operands = tuple(map(Operand.of, op.inputs, args))
        self._failure = Failure(op.name, str(error), None, operands, current().scope, user_place(), seq=next_seq())

    def on_backward_error(self, origin: Origin, error: Exception) -> None:
        """What the backward did until then is shown, and where it stopped."""
        if self._running is not None:
            op = getattr(origin, "op", None)
            facts = (op.name if op else "leaf", str(error), record_id(origin), (), None, user_place())
            self._failure = Failure(*facts, self._running.frame())

    def on_detach(self, tensor: Tensor, detached: Tensor) -> None:  # noqa: ARG002
        """Remember that a path ends."""
        if not self.closed:
            self._uses.detached(tensor)

    def on_change(self, changed: Sequence[torch.Tensor], what: str) -> None:
        """Remember who changed data in place, for the message of a backward that needs them as they were."""
        if not self.closed:
            self._changes.note(changed, what, user_place())

    def on_step_begin(self, params: Sequence[Tensor]) -> None:
        """Remember where the parameters were, if the step after the last backward is to be measured."""
        self._history.step_begins(params)

    def on_step_end(self) -> None:
        """Measure how far it went."""
        self._history.step_ended()

    def change_of(self, data: torch.Tensor) -> str | None:
        """Who brought ``data`` to their version."""
        return self._changes.find(data)

    def backward_label(self) -> str | None:
        """The number of the backward that starts now."""
        return None if self.closed else f"backward {self._backwards + 1} of {self.name!r}"

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """Start a frame, and learn the names of a function's local variables while they exist."""
        if self.closed:
            return
        if isinstance(self._notes.frame, FrameRecorder):
            self._notes.frame.give_way()
        started = tuple(dict.fromkeys(record_id(origin) for origin, _ in roots))
        self._running = FrameRecorder(started, self._budget, self._running)
        frame = user_frame()
        if in_a_function(frame):
            self.name_variables(tensor_variables(frame))

    def on_gradient(self, origin: Origin, gradient: Any) -> None:
        """Keep the gradient of a tensor."""
        if self._running is None:
            return
        id = record_id(origin)
        self._running.arrived.add(id)
        if self.watch:
            self._running.gradient(id, gradient)

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:
        """Keep what a rule gave its input, and the reduction that undid a broadcast."""
        if self._running is None:
            return
        if reduction is not None:
            self._running.reductions[node.seq, position] = reduction
            if self.watch:
                self._running.stretched((node.seq, position), gradient)
        if self.watch:
            self._running.contribution((node.seq, position), reduced)

    def on_accumulate(self, leaf: Leaf, gradient: Any) -> None:
        """Remember which gradients the user can change, until the backward ends."""
        if self._running is not None:
            self._running.leaf(leaf.seq, gradient)

    def on_backward_end(self) -> None:
        """The frame is complete and becomes the last one."""
        if self._running is None:
            return
        self._uses.reached = self._running.arrived
        self._backwards += 1
        ended, before = self._running, self._notes.frame
        self._notes.frame, self._running, ended.outer = ended, ended.outer, None
        if self._history.backward_ended(self._backwards):
            self._history.add(self._backwards, ended, self._passed(), self._notes.values)
        ended.end(self._backwards, before, watch=self.watch)

    # What others ask it.

    @property
    def frame(self) -> Frame | None:
        """The last backward that ran inside the graph, as data; None before the first."""
        frame = self._notes.frame
        return frame.frame() if isinstance(frame, FrameRecorder) else frame

    @property
    def history(self) -> History:
        """The backwards that ran inside the graph, in numbers: every one, or a bounded sample of a long loop.

        Without ``watch`` a frame has the norms of the leaves' gradients alone, and no loss.
        """
        return self._history.frames(self._backwards, self._notes.roots, self.records)

    @property
    def update(self) -> Update | None:
        """How far the last step of an optimizer that was measured moved each parameter; None before the first."""
        return self._history.update

    @property
    def backwards(self) -> int:
        """How many backwards ran inside the graph."""
        return self._backwards

    @property
    def records(self) -> list[Record]:
        """Every op and tensor of the graph in record order, which is a topological order: sources first.

        After a backward: what it ran through. Before one: everything whose result still exists.
        """
        deleted = self._notes.deleted
        records = self._records if self.closed else self._shown()
        return [record for record in records if record.id not in deleted] if deleted else list(records)

    def unreached(self, module: Any = None) -> list[Unreached]:
        """The leaves that the last backward gave no gradient, and for each where the path from the loss to it breaks.

        Args:
            module: look at its parameters, used or not; also a dict, pairs of name and tensor, or tensors. Default: the
                leaves that ops in this graph used.
        """
        paths = self._paths if self._paths is not None else self._make_paths()
        return paths.unreached(None if module is None else named_tensors(module))

    def _make_paths(self) -> Paths:
        return Paths.of(self._ops, self._outer, self._constants, self._uses, self._backwards)

    def __repr__(self) -> str:
        ops = sum(record.kind == "op" for record in self.records)
        return f"<AutogradGraph {self.name!r}: {ops} ops, {self._backwards} backwards>"

    # From facts to what is shown.

    def _reached(self, roots: Iterable[int]) -> set[int]:
        """The ops that made ``roots`` and everything they were computed from."""
        waiting = [root for root in roots if root in self._ops]
        found, ops = set(waiting), self._ops
        while waiting:
            ran = ops.get(waiting.pop())
            for source in ran.sources if ran is not None else ():
                if source in ops and source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def _shown(self) -> list[Record]:
        """What the last backward ran through, or what exists if there was none; a tensor before its first use."""
        return [
            fact.record(id, self._notes) if isinstance(fact, Ran) else fact.placed(scope)
            for id, fact, scope in self._passed()
        ]

    def _passed(self) -> list[Passed]:
        """The facts of what is shown, each with its id and the scope that it is shown in."""
        ops, outer = self._ops, self._outer
        if self._backwards:
            shown = [(id, ops[id]) for id in sorted(self._reached(self._notes.roots))]
        else:
            failed = self._failure is not None and self._failure.seq > next(reversed(ops), 0)  # nothing ran after it
            needed = self._reached(self._failure.ids if self._failure and failed else ())
            shown = [(id, ran) for id, ran in ops.items() if id in needed or ran.thing() is not None]
        seen: set[int] = set()
        passed: list[Passed] = []
        for id, ran in shown:
            for source in ran.sources:
                if source in outer and source not in seen:
                    seen.add(source)
                    taken = outer[source]
                    passed.append((source, taken, ran.scope if taken.kind == "parameter" else taken.scope))
            passed.append((id, ran, ran.scope))
        return passed

"""The listener of an open graph: it gets the engine's notifications and keeps their facts.

It is the cost of watching, so it is compiled. ``AutogradGraph`` answers the questions.
"""

from collections.abc import Sequence
from sys import maxsize
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor as RawTensor

from nbgrad.core.dispatch.arguments import all_unchanging
from nbgrad.core.engine.broadcast import Reduction, reduction as summed
from nbgrad.core.engine.call_site import in_a_function, local_names, names_in_frames, own_place, user_frame, user_place
from nbgrad.core.engine.ended import note as note_ended
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Origin, Output, TensorBase, next_seq, raw_of, record_id
from nbgrad.core.engine.observer import Cut, Observer
from nbgrad.core.engine.place import Place, running_cell
from nbgrad.core.engine.scope import outermost_module
from nbgrad.core.engine.state import Scope, current, outwards, recording
from nbgrad.core.engine.tensor_data import without_numbers, words_of
from nbgrad.core.engine.torch_origins import known_id, shape_of
from nbgrad.core.engine.torch_reads import numbers_of
from nbgrad.core.graph.changes import Changes
from nbgrad.core.graph.cut_paths import Uses
from nbgrad.core.graph.facts import NOTHING, Literal, Notes, Outer, Passed, Ran, facts_of, grown, reached_from
from nbgrad.core.graph.first_bad import FirstBad, Replay, in_backward, spoiled
from nbgrad.core.graph.history import HistoryRecorder
from nbgrad.core.graph.last_backward import FrameRecorder
from nbgrad.core.graph.optimizers import UpdateRecorder
from nbgrad.core.graph.past import Legacy, leaf_facts, led_to, node_of, remade
from nbgrad.core.graph.record import Failure, Operand, described, number_of
from nbgrad.core.graph.stats import Stats, countable, few, held_by, nbytes_of, summarise_all
from nbgrad.core.graph.thinned import ends
from nbgrad.core.graph.training import TrainingRecorder
from nbgrad.core.tensor.broadcast_check import has_given_axis
from nbgrad.core.tensor.tensor import Tensor

_RAW = (torch.Tensor, np.ndarray)

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The classes of torch's tensors whose values are kept. To read those of another class may take long, as for a tensor
that is spread over processes."""

_CPU = torch.device("cpu")

_SWEPT = 64
"""In a long program the facts that are not needed any more are dropped, each time after at least this many ops. The
garbage collector runs after every 700 new objects that stay. In a loop fewer stay, so it has no work."""

_FRESH = 2048
"""Ops that ran since the last backward but one are kept, even if their results are gone: a message names the op at
which a path ends. They are dropped once the graph has this many ops plus four times those of the last backward. There
must be a limit, because some programs have no backward."""

_HELD = 4
"""The leaves and models of this many different losses are kept alive: a GAN has two."""

_NAMED = 4
"""The number of unrecorded ops that a message names."""


class Listener(Observer):
    """Keeps light facts of every op and of the last backward.

    Args:
        name: its name in messages.
        watch: keep gradients and small values of intermediate tensors too.
        budget: how many bytes of gradients of the last backward may be kept.
        history: the largest number of backwards whose gradient norms are kept.

    Attributes:
        backwards: how many backwards were recorded. All that is kept of a loop counts these alone: its recorded steps
            are whole, so they are as a loop of their own. ``unrecorded`` is the number of the others.
        closed: whether it listens no more: a task that began inside the graph may outlive it.
        first_bad: where the first NaN or Inf of the program began; None if no loss was bad, or if it is not known.
        before_last: the id of the newest op at the end of the last backward but one.
        cell: the notebook cell that opened it, as in ``In [3]``; None if that is unknown.
    """

    def __init__(self, name: str, *, watch: bool, budget: int, history: int) -> None:
        self.name = name
        self.cell: str | None = None
        self.watch = watch
        self.closed = False
        self._budget = budget
        self._frames = history
        self.changes = Changes()
        self.forget()

    def forget(self) -> None:
        """Begin with nothing."""
        self.notes = Notes(self.changes)
        self.uses = Uses()
        self.ops: dict[int, Ran] = {}  # a record is made of it on request
        self.outer: dict[int, Outer] = {}  # leaves, constants, and ops that ran before
        self.constants: dict[Any, tuple[ref[Any], int]] = {}
        self._met: dict[int, tuple[ref[Any], int, torch.Size, int]] = {}  # constants by Python's ``id()`` of the tensor
        self.unread: dict[str, None] = {}  # the kinds of tensors whose values are not kept
        self.left_out: dict[str, bool] = {}  # torch's first ops that were not recorded, and if gradients were on
        self._limit = 256  # a short program keeps every op, even if its result is gone
        # The last op so far, the last op when the last backward ended, and the last op when the one before it ended.
        self._latest = self._at_last = self.before_last = 0
        self.running: FrameRecorder | None = None
        self.backwards = self.unrecorded = 0
        self.failure: Failure | None = None
        self.updates = UpdateRecorder(self._budget if self.watch else 0)
        self.training = TrainingRecorder()
        self._held: dict[int, Any] = {}  # the leaves of the last backward, by id, and the models that ran
        self.before: dict[int, ref[Node]] = {}  # ops that ran before and whose results were used here
        self.first_bad: FirstBad | None = None
        self._bad_loss = False
        self.history = HistoryRecorder(self._frames)
        self._ask = self.history.ask_again(0)

    def follows_torch(self) -> bool:
        """It keeps facts, which torch's ops have too."""
        return True

    def follows_gradients(self) -> bool:
        """It needs the gradients only if it keeps them."""
        return self.watch

    def checks_gradients(self) -> bool:
        """It keeps gradients, and raises no error about them."""
        return False

    # Ops.

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """Keep the facts of an op, and its value if it is small."""
        if self.closed:
            return
        state, ops, outer = current(), self.ops, self.outer
        if self.running is not None and not state.walking:
            self.running = None  # a backward that raised
        sources: list[Any] = []
        for arg in args:
            if isinstance(arg, TensorBase):
                tensor = arg
                origin: Any = tensor._origin or tensor.origin
                id = record_id(origin)
                if id not in (outer if isinstance(origin, Leaf) else ops) and id not in outer:
                    self._meet(id, origin, arg)
                sources.append(id)
            else:
                sources.append(NOTHING if arg is None else self._other(arg))
        scope = state.scope
        node.place = scope.place if scope is not None and scope.place is not None else user_place()
        self._keep(node, sources, _CPU if out.is_cpu else out.device, scope)  # .device makes a new object
        if self.watch:
            self.notes.keep_value(node.seq, out, shape := out.shape if node.outputs else node.shape)
            if type(out) not in _PLAIN and few(shape) and without_numbers(out):
                self.unread[type(out).__name__] = None

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:
        """Keep the facts of an op of torch's, and its value if it is small."""
        if self.closed:
            return
        if self.left_out:
            self.left_out = {}
        ops, outer, edges = self.ops, self.outer, node.edges
        sources: list[Any] = []
        for position in range(len(edges)):
            origin: Any = edges[position]
            if origin is None:
                arg = args[position]
                sources.append(NOTHING if arg is None else self._other(arg))
                continue
            id = record_id(origin)
            if id not in ops and id not in outer:
                self._meet_torch(id, origin)
            sources.append(id)
        state = current()
        scope = state.scope
        if out is None:
            self._keep(node, sources, node.device or _CPU, scope)
            self._keep_value(node, None)
            return
        node.place = user_place()
        made: Any = out  # the same object: compiled code knows the type of this name, so it needs no look-up
        memory: Any = None
        if self.watch:
            memory = _numbers(node, out)
        # Kept values have their numbers in the memory of the CPU.
        self._keep(node, sources, _CPU if memory is not None or made.is_cpu else made.device, scope)
        if memory is not None:
            self.notes.values.copy(node.seq, memory, node.shape, node.dtype)
        elif self.watch:
            self._keep_value(node, out)

    def _keep_value(self, node: Node, out: torch.Tensor | None) -> None:
        """Keep the value of an op of torch's if it is small; or note that values of its kind are not kept."""
        if out is None and self.unrecorded:  # it may have run between recorded steps
            self.notes.remade.add(node.seq)
        nested = -1 in node.shape or (out is not None and out.is_nested)
        if nested or (out is not None and type(out) not in _PLAIN):
            self.unread["nested tensors" if nested else type(out).__name__] = None
        elif out is not None:
            self.notes.keep_value(node.seq, out.detach() if few(node.shape) else out, node.shape)

    def on_torch_left_out(self, name: str, records: bool) -> None:
        """Remember the first ones, for the message about a graph in which nothing else ran."""
        if not self.ops and len(self.left_out) < _NAMED:
            self.left_out.setdefault(name, records)

    def on_torch_inputs(self, node: Node) -> None:
        """Also show the leaves that were used inside the op, such as the weights in a checkpoint."""
        ran = self.ops.get(node.seq)
        if ran is None or self.closed:
            return
        more = [origin for origin in node.edges[len(ran.sources) :] if origin is not None]
        for origin in more:
            if record_id(origin) not in self.outer:
                self._meet_torch(record_id(origin), origin)
        self.ops[node.seq] = grown(ran, node, tuple([record_id(origin) for origin in more]))

    def _keep(self, node: Node, sources: list[Any], device: torch.device, scope: Scope | None) -> None:
        op, settings = node.op, node.settings
        if settings is not op.defaults and not all_unchanging(settings):
            settings = {name: described(value) for name, value in settings.items()}
        self._latest = node.seq
        self.ops[node.seq] = facts_of(node, device, settings, tuple(sources), scope)
        if len(self.ops) > self._limit:
            self._sweep()

    def _other(self, arg: Any) -> Any:
        """The id of the record of an input that is a raw tensor or an array; a ``Literal`` for any other input."""
        return self._constant(arg) if isinstance(arg, _RAW) else Literal(described(arg))

    def _meet(self, id: int, origin: Origin, tensor: TensorBase) -> None:
        """Keep the facts of a tensor that no op in the graph made."""
        facts = (tuple(origin.shape), origin.dtype, raw_of(tensor).device)
        if isinstance(origin, Leaf):
            kind = tensor.kind  # a leaf may be frozen by now
            self.uses.constant(id, raw_of(tensor))
            self.outer[id] = Outer(kind, *facts, thing=ref(tensor), name=origin.name)
            if kind == "constant":
                self.outer[id].given_axis = has_given_axis(raw_of(tensor))
            if kind == "constant" and self.watch:
                self.notes.keep_constant(id, raw_of(tensor))  # now: one without a name is gone soon
        else:
            self.outer[id] = Outer("outside", *facts, origin.op)
            self.notes.things[id] = ref(tensor)
            self._came_before(id, origin)

    def _meet_torch(self, id: int, origin: Origin) -> None:
        """Keep the facts of a tensor of torch's that no op in the graph made."""
        facts = (tuple(origin.shape), origin.dtype, origin.device or _CPU)
        if isinstance(origin, Leaf):
            self.outer[id] = Outer(origin.kind, *facts, thing=origin.ref, name=origin.name)
        else:
            self.outer[id] = Outer("outside", *facts, origin.op)
            self._came_before(id, origin)

    def _came_before(self, id: int, origin: Origin) -> None:
        made = node_of(origin)
        if made is not None:
            self.before[id] = ref(made)

    def _constant(self, data: "torch.Tensor | np.ndarray[Any, Any]") -> int:
        """The id of the record of a raw tensor or array: one for all uses of the same memory."""
        # Most constants are used by many ops, such as a batch: one at the same address is known already.
        met = self._met.get(id(data))
        if met is not None and met[0]() is data:  # a tensor
            raw: Any = data  # the same object: compiled code knows the type of this name, so it needs no look-up
            if met[1] == data.data_ptr() and met[2] == raw.shape and met[3] in self.outer:
                return met[3]
        dtype, device = data.dtype, _CPU
        if isinstance(data, torch.Tensor):
            device, shape = data.device, tuple(shape_of(data))
            there = countable(data)
            address = data.data_ptr() if there else 0
            key = (address, shape, data.stride(), dtype) if address else id(data)
        else:
            shape = tuple(data.shape)
            dtype = torch.from_numpy(np.empty(0, dtype)).dtype
            there = True
            key = (data.__array_interface__["data"][0], shape, data.strides, dtype)
        known, found = self.constants.get(key, (None, 0))
        if known is None or known() is None or found not in self.outer:
            found = next_seq()
            self.constants[key] = (ref(data), found)
            self.outer[found] = Outer("constant", shape, dtype, device, given_axis=has_given_axis(data))
            if isinstance(data, torch.Tensor):
                self.uses.constant(found, data)
                if type(key) is tuple:
                    self._met[id(data)] = (self.constants[key][0], key[0], data.shape, found)
            if self.watch and there:
                if not isinstance(data, np.ndarray):
                    self.notes.keep_constant(found, data)
                elif few(shape):
                    self.notes.keep_constant(found, torch.tensor(data))
        return found

    def _sweep(self) -> None:
        """Drop the facts of ops whose results are gone, but for fresh ones and those that the last backward reached."""
        notes, known = self.notes, self.ops.copy()  # other threads may ask, and record
        shown = reached_from(notes.roots, known)
        fresh = self.before_last if len(known) < _FRESH + 4 * len(shown) else maxsize
        ops: dict[int, Ran] = {}
        for id, ran in known.items():
            if id > fresh or id in shown or ran.thing() is not None:
                ops[id] = ran  # noqa: PERF403  # compiled code knows the class of ran in a loop
        self.ops = ops
        if len(self.outer) > _SWEPT:  # a loop uses the same few in every step
            used: set[Any] = set()
            for ran in ops.values():
                used.update(ran.sources)
            self.outer = {id: one for id, one in self.outer.copy().items() if id in used}
        self.constants = {key: value for key, value in self.constants.copy().items() if value[1] in self.outer}
        self._met = {key: met for key, met in self._met.copy().items() if met[3] in self.outer}
        self.uses.behind = {id: cuts for id, cuts in self.uses.behind.copy().items() if id in self.outer}
        kept = self.ops.keys() | self.outer.keys()
        notes.keep(kept)
        notes.things = {id: thing for id, thing in notes.things.copy().items() if id in kept}
        notes.earlier = {id: title for id, title in notes.earlier.copy().items() if id in kept}
        notes.known = {id: value for id, value in notes.known.copy().items() if id in kept}
        notes.remade = notes.remade & kept
        self.before = {id: made for id, made in self.before.copy().items() if id in self.outer}
        notes.names = {id: name for id, name in notes.names.copy().items() if id in kept}
        notes.deleted = notes.deleted & kept
        notes.cut = {key for key in notes.cut.copy() if key[0] in kept}
        self._limit = 3 * len(self.ops) + _SWEPT

    def on_result(
        self,
        op: OpInfo,
        args: tuple[Any, ...],
        settings: dict[str, Any],  # noqa: ARG002
        results: tuple[Any, ...],
        node: Node | None,
    ) -> None:
        """Remember where a path ends because an op was not recorded, or one of its results has no gradient."""
        if (node is None or len(results) > 1) and not self.closed:
            state = current()
            if state.walking:
                return
            if node is None:
                if _uses_another(args, results):
                    self.uses.unrecorded(op, args, results, enabled=recording(state))
            elif op.shown > 1:
                self.uses.beside(op, results)

    def on_error(self, op: OpInfo, args: tuple[Any, ...], error: Exception) -> None:
        """Remember where the user's code stopped, if this error ends it."""
        names, scope = names_in_frames(), current().scope
        operands = tuple([self._operand(one, arg, names, scope) for one, arg in zip(op.inputs, args, strict=False)])
        made = getattr(error, "id", None)  # an AnomalyError knows the record that it is about: the op has run
        facts = (op.name, words_of(error), made, operands, scope, user_place())
        self.failure = Failure(*facts, seq=number_of(error, new=True))

    def _operand(self, input: str, arg: Any, names: "list[tuple[str, Any]]", scope: Scope | None) -> Operand:
        """The facts of an argument of an op that raised, under the name that it has in a picture."""
        known = known_id(arg) if isinstance(arg, (RawTensor, TensorBase)) else None
        met = self._met.get(id(arg))
        if met is not None and met[0]() is arg:
            known = met[3]
        name = None if known is None or known not in self.outer else self.notes.name_of(known, self.outer[known])
        if name is None and known is not None:
            name = self.notes.names.get(known)
        attributes = (around.attribute(arg) for around in outwards(scope))
        name = name or next(filter(None, attributes), None) or next((one for one, value in names if value is arg), None)
        return Operand.of(input, arg, known, name)

    def on_backward_error(self, origin: Origin, error: Exception) -> None:
        """Show the backward up to the error, and where it stopped."""
        failed = self.running
        if failed is not None:
            op = getattr(origin, "op", None)
            facts = (op.name if op else "leaf", words_of(error), record_id(origin), (), None, user_place())
            self.failure = Failure(*facts, failed.frame(), number_of(error, new=True))
            self.running = failed.outer

    def on_detach(self, tensor: Tensor, detached: Tensor, what: str) -> None:
        """Remember that a path ends."""
        if not self.closed:
            self.uses.detached(tensor, detached, what)

    def on_read(self, tensor: Tensor, what: str) -> None:
        """Remember that the user read numbers of a computed tensor: the path of a gradient may end there."""
        if not self.closed:
            self.uses.read(tensor, what)

    def on_idle_step(self, params: Sequence[Tensor], what: str) -> None:
        """Remember that a step of an optimizer came after the last backward and found no gradient."""
        if not self.closed and self.backwards:
            self.uses.idle_step(params, what, self.backwards)

    def on_optimizer_call(self, optimizer: Any, kind: Any, by: torch.Tensor | None = None) -> None:
        """Remember what the program does around its backwards."""
        if not self.closed:
            self.training.optimizer_called(optimizer, kind, self.backwards, own_place(), by)

    def on_clip(self, grads: list[torch.Tensor], bound: float, changes: int = 1) -> None:
        """Remember that gradients were clipped."""
        if not self.closed:
            self.training.clipped(grads, bound, changes, self.backwards, own_place())

    def on_change(self, changed: Sequence[torch.Tensor], what: str) -> None:
        """Remember the op that changed data in place, for the message of a backward that needs the old numbers."""
        if not self.closed:
            self.changes.note(changed, what, user_place())

    def on_step_begin(self, params: Sequence[Tensor], evaluates: bool = False) -> None:
        """Keep a copy of the parameters, if a backward that is a frame waits for the step."""
        self.training.evaluates = evaluates or self.training.evaluates
        self.updates.begin(params, evaluates)
        running = self.running if self.watch else None
        if running is not None:  # a hook of a parameter steps inside of the backward
            for param in params:
                running.see(known_id(param), param)

    def on_step_end(self, params: Sequence[Tensor], what: str) -> None:
        """Remember the step as a change, and measure its size, if a frame waits for that."""
        if self.closed:
            return
        self.changes.note(params, what, user_place())
        if (update := self.updates.end()) is not None:
            self.history.step_ended(update, self.updates.waiting[0])

    def change_of(self, data: torch.Tensor, seq: int) -> str | None:
        """The change of ``data`` since the op ``seq`` ran."""
        return self.changes.find(data, seq)

    def has_recorded(self) -> bool:
        """Whether an op on a tensor that needs a gradient has run."""
        return bool(self.ops)

    def change_at(self, data: torch.Tensor, seq: int) -> "tuple[str, Place] | None":
        """The change of ``data`` since the op ``seq`` ran, and its line."""
        return self.changes.at(data, seq)

    def constants_of(self, seq: int) -> list[Any]:
        """The data of the inputs of the op ``seq`` that need no gradient, as far as they exist."""
        ran = self.ops.get(seq)
        sources = set() if ran is None else {one for one in ran.sources if type(one) is int}
        held = [known() for known, id in self.constants.copy().values() if id in sources]
        return [data for data in held if isinstance(data, torch.Tensor)]

    def change_by_op(self, seq: int, after: int) -> "tuple[str, Place] | None":
        """The first op ``after`` another that changed the result of the op ``seq`` in place, and its line."""
        for id, ran in sorted(self.ops.copy().items()):
            name = ran.op.name
            changes = name.endswith("_") or name == "setitem"
            place: Any = ran.place
            if id > after and changes and place is not None and ran.sources and ran.sources[0] == seq:
                return name, place
        return None

    def use_of(self, seq: int, among: frozenset[int]) -> "Place | None":
        """The line of the first op ``among`` these that used the result of the op ``seq``."""
        known = sorted(self.ops.copy().items())
        return next((ran.place for id, ran in known if id in among and seq in ran.sources), None)

    def steps_since(self, seq: int) -> "list[tuple[str, Place, set[int]]]":
        """The steps of optimizers since the op ``seq``."""
        return self.changes.steps(seq)

    def change_since_backward(self, data: torch.Tensor) -> str | None:
        """The change of ``data`` since the last backward."""
        found = self.changes.since_backward(data)
        return None if found is None else f"{found[0]} at {found[1]}"

    def path_ends(self, data: torch.Tensor) -> tuple[Cut, ...]:
        """Where the paths end along which ``data`` were computed. The user asked for a backward from ``data``."""
        if self.closed:
            return ()
        self.uses.refused = True
        return self.uses.ends(data)

    def backward_begun(self) -> tuple[int, str] | None:
        """The number of the backward that begins now, and the name of the graph."""
        return None if self.closed else (self.number + 1, self.name)

    @property
    def number(self) -> int:
        """How many backwards have ended, recorded or not: the number of the last one."""
        return self.backwards + self.unrecorded

    def rested(self, many: int) -> None:
        """So ``many`` backwards have ended that were not recorded."""
        self.unrecorded += many
        self.history.skipped = self.updates.skipped = self.unrecorded

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """Start a frame, and learn the names of a function's local variables while they exist."""
        if self.closed:
            return
        before = self.notes.frame if isinstance(self.notes.frame, FrameRecorder) else None
        ids = [record_id(origin) for origin, _ in roots]
        started = tuple(ids if len(ids) == 1 else dict.fromkeys(ids))
        self._bad_loss = False
        if self.watch and self.first_bad is None and len(started) == 1 and not self.notes.values.is_finite(started[0]):
            self._search(started, before)
        self.running = FrameRecorder(started, self._budget, self.running, before)
        self._take_over([origin for origin, _ in roots], started)
        frame = user_frame()
        if in_a_function(frame):
            self.name_variables(local_names(frame))

    def _search(self, started: tuple[int, ...], before: "FrameRecorder | None") -> None:
        """The loss is not finite: find out whether the last step has spoiled the parameters, or ask for the forward."""
        ids = reached_from(started, self.ops)
        used = {one for id in ids for one in self.ops[id].sources if type(one) is int}
        what = spoiled(self.outer, used)
        if what is None:
            self._bad_loss = True
        elif before is not None:  # if backwards passed since then that were not recorded, it is not known in which
            here = before.number == self.number
            unseen = FirstBad(self.number, "unrecorded", what)
            self.first_bad = in_backward(self.number, before, self.ops, what) if here else unseen
        else:
            self.first_bad = FirstBad(1, "start", what)

    def began_badly(self) -> bool:
        """Whether the forward of the backward that has just begun made the first number that is not finite."""
        return self._bad_loss

    def on_bad_loss(self, saved: Any) -> None:
        """Run the forward once more, to find the op that made it."""
        self._bad_loss = False
        if self.closed or self.running is None:
            return
        frame = user_frame()
        self.name_variables({**frame.f_globals, **(local_names(frame) if in_a_function(frame) else {})})
        ops = self.ops
        run = {id: ops[id] for id in sorted(reached_from(self.running.roots, ops))}
        held = {id: data for known, id in self.constants.copy().values() if (data := known()) is not None}
        values = self.notes.values
        replay = Replay(run, self.outer, held, values.raw, saved, self.notes.names)
        self.first_bad = replay.first(self.number + 1)

    def on_backward_inputs(self, origins: list[Origin], create_graph: bool) -> None:
        """Remember which tensors were to get a gradient: for all others nothing is missing."""
        if self.running is not None:
            self.running.asked = {record_id(origin) for origin in origins}
            if create_graph:
                self.uses.derive(self.running.roots, self.running.asked, self.ops)
                self.training.derive(self.backwards + 1)
            if len(self.uses.named) < _FRESH:
                self.uses.named |= self.running.asked

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:
        """Keep the gradient of a tensor. Until the backward ends, also note those of leaves: a user can change them."""
        running = self.running
        if running is None:
            return
        id = record_id(origin)
        running.arrived.append(id)
        if isinstance(origin, Leaf):
            running.leaf(id, gradient)
        if not self.watch:
            return
        if lone and not isinstance(origin, Output):
            running.lone(id)
            return
        size = held_by(raw_of(gradient), nbytes_of(origin.shape, origin.dtype))  # a hook may give a view of more memory
        if isinstance(origin, Output):
            running.result(id, origin.seq, gradient, size)
        else:
            running.gradient(id, gradient, size, isinstance(origin, Leaf))

    def on_torch_passed(self, node: Node, reductions: list[tuple[int, Any]]) -> None:
        """Remember that the node was reached, and the reductions that undid its broadcasts."""
        running = self.running
        if running is None:
            return
        running.arrived.append(node.seq)
        for position, reduction in reductions:
            running.reductions[node.seq, position] = reduction
        if not node.shape and node.op.broadcasts and not reductions:
            for position, undone in enumerate(self._sums_inside(node)):
                if undone is not None:
                    running.reductions[node.seq, position] = undone

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:
        """Keep the gradient that a rule gave its input, and the reduction that undid a broadcast."""
        running = self.running
        if running is None:
            return
        if reduction is None and not node.shape and position in node.op.broadcasts:
            found = self._sums_inside(node)
            reduction = found[position] if position < len(found) else None
        if reduction is not None:
            running.reductions[node.seq, position] = reduction
            if self.watch and reduced is not gradient and few(reduction.source):  # a fused rule gives the sum alone
                running.stretched(node.seq, position, gradient, nbytes_of(reduction.source, node.dtype))
        if self.watch:
            origin: Any = node.edges[position]
            receiver = 0 if isinstance(origin, Output) else origin.seq  # several outputs share one id
            size = nbytes_of(origin.shape, origin.dtype)
            # A gradient that is smaller than the result of the op may be a window into the gradient of that result, as
            # for cat. What later rules make of a window may be one too.
            may_be = reduction is None and (
                node.outputs
                or (
                    origin.shape is not node.shape
                    and origin.shape != node.shape
                    and size < nbytes_of(node.shape, node.dtype)
                )
            )
            if running.windows or may_be:
                shown, size = size, held_by(raw_of(reduced), size)
                running.windows = running.windows or size > shown
            running.contribution(node.seq, position, reduced, size, receiver, isinstance(origin, Leaf))

    def _sums_inside(self, node: Node) -> list[Reduction | None]:
        """For each input, the sum that undid its broadcast inside of an op whose result is one number.

        Such an op is a loss of torch's. Its result does not tell to which shape it stretched an input, but the shapes
        of all inputs do.
        """
        ran = self.ops.get(node.seq)
        if ran is None:
            return []
        given = [source for at, source in enumerate(ran.sources) if at in node.op.broadcasts and type(source) is int]
        known = [self.ops.get(source) or self.outer.get(source) for source in given]
        shapes = [one.shape for one in known if one is not None]
        try:
            full = tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
        except RuntimeError:  # the shape of a nested tensor is not known
            return []
        return [
            summed(full, tuple(edge.shape))
            if edge is not None and at in node.op.broadcasts and tuple(edge.shape) != full
            else None
            for at, edge in enumerate(node.edges)
        ]

    def on_backward_end(self) -> None:
        """The frame is complete and becomes the last one."""
        if self.running is None:
            return
        ended, before, turn = self.running, self.notes.frame, self.backwards + 1
        number = turn + self.unrecorded
        if self.before:
            self._take_over([], ended.roots)  # a checkpoint has run more ops inside of the backward
        if self.watch:
            for seq, fact in [(seq, self.outer[seq]) for seq in ended.leaves() if seq in self.outer]:
                ended.see(seq, _alive(fact))
            self.changes.seen = ended.seen
            self._hold(ended)
        ended.number = number
        # An interrupt may come after any of these lines, so the backward is shown before it is counted.
        self.notes.frame, self.running, ended.outer = ended, ended.outer, None
        self.uses.reached, self.uses.asked = ended.arrived, ended.asked
        self.before_last, self._at_last = self._at_last, self._latest
        self.backwards = self.changes.backwards = turn
        note_ended(number, self.name, user_place(), ended.arrived)
        frame = turn >= self._ask and self.history.wants(number)
        self.training.backward_ended(self._latest)
        self.updates.backward_ended(number, frame and self.history.measures_step(number))
        if frame:
            self.history.add(number, ended, self.passed(), self.notes)
        if turn >= self._ask:
            self._ask = self.history.ask_again(number) - self.unrecorded
        ended.end(number, before, self.watch)

    def _hold(self, ended: FrameRecorder) -> None:
        """Keep alive, while the graph is open, what the findings ask about: the leaves, their models and optimizers.

        A function may have made them, and drop them when it returns.
        """
        ids = ended.leaves()
        key = min(ids, default=0)  # an input that needs a gradient has a larger id than the parameters
        if key in self._held or not ids:
            return
        facts = [fact for seq in ids if (fact := self.outer.get(seq)) is not None]
        leaves = [one for fact in facts if (one := _alive(fact)) is not None]
        while len(self._held) >= _HELD:
            del self._held[next(iter(self._held))]
        models: list[Any] = []
        if sum([raw_of(one).nbytes for one in leaves if not raw_of(one).is_sparse]) <= self._budget:
            scopes = dict.fromkeys([scope for _, _, scope in self.passed(ended.roots)])
            models = [module for scope in scopes if (module := outermost_module(scope)) is not None]
        else:
            leaves = []
        self._held[key] = leaves, models
        self.training.hold({id(one) for some, _ in self._held.values() for one in some})

    # The facts of earlier graphs.

    def title(self) -> str:
        """The name of the graph in a later picture: its cell, or its own name outside of a notebook."""
        return self.cell or running_cell() or self.name

    def _take_over(self, roots: list[Origin], started: tuple[int, ...]) -> None:
        """Take over the facts of the ops that ran before this graph and lead to ``roots``, whoever recorded them."""
        wanted = [made for one in roots if record_id(one) not in self.ops and (made := node_of(one)) is not None]
        waiting = self.before
        if waiting:
            ops = self.ops
            used: set[Any] = set()
            for id in reached_from(started, ops):
                used.update(ops[id].sources)
            wanted += [made for id in used & waiting.keys() if (made := waiting[id]()) is not None]
        if wanted:
            self._adopt(led_to(wanted, self.ops))

    def _adopt(self, nodes: list[Node]) -> None:
        """Take over the facts of these ops, which are in the order in which they ran."""
        open_ones = [one for one in current().observers if isinstance(one, Listener) and one is not self]
        around = [Legacy(one.title(), *one.there()[:2], one.notes.names, one.things([]), {}) for one in open_ones]
        ops: dict[int, Ran] = {}
        outer: dict[int, Outer] = {}
        title = self.title()
        for node in nodes:
            id, past = node.seq, getattr(node, "past", None)
            past = past or next((one for one in around if id in one.ops), None)
            if past is None or id not in past.ops:
                ops[id] = remade(node, self._device_of(node, ops))
                self.notes.remade.add(id)
                self._outer_leaves(node, outer)
                continue
            ops[id] = past.ops[id]
            self._learn(past, id)
            if past.title != title:
                self.notes.earlier[id] = past.title
            for source in ops[id].sources:
                if type(source) is int and source in past.outer and source not in self.outer:
                    outer[source] = past.outer[source]
                    self._learn(past, source)
            self._outer_leaves(node, outer)  # those that the op was found to have later
        self.outer.update(outer)
        self.ops.update(ops)
        self.outer = {id: one for id, one in self.outer.copy().items() if id not in ops}
        self.before = {id: made for id, made in self.before.copy().items() if id not in ops}

    def _learn(self, past: Legacy, id: int) -> None:
        """Take over what ``past`` tells of the record ``id`` besides its facts."""
        notes = self.notes
        if (name := past.names.get(id)) is not None:
            notes.names.setdefault(id, name)
        if (thing := past.things.get(id)) is not None:
            notes.things.setdefault(id, thing)
        if (value := past.values.get(id)) is not None:
            notes.known[id] = value

    def _outer_leaves(self, node: Node, outer: dict[int, Outer]) -> None:
        for edge in node.edges:
            if isinstance(edge, Leaf) and edge.seq not in self.outer and edge.seq not in outer:
                outer[edge.seq] = leaf_facts(edge)

    def _device_of(self, node: Node, ops: dict[int, Ran]) -> torch.device | None:
        """The device of an input of ``node``."""
        for edge in node.edges:
            if isinstance(edge, Leaf):
                return edge.device
            made = None if edge is None else ops.get(record_id(edge)) or self.ops.get(record_id(edge))
            if made is not None:
                return made.device
        return None

    def leave_past(self, values: dict[int, Stats]) -> None:
        """Leave the facts of ops whose results live to their nodes, for a backward in a later graph.

        Args:
            values: the statistics of values that are known, by id; those of the other ops are computed.
        """
        known, outer, constants, _ = self.there()
        ops = {id: ran for id, ran in known.items() if ran.thing() is not None}
        if not ops:
            return
        used: set[Any] = set()
        for ran in ops.values():
            used.update(ran.sources)
        outer = {id: one for id, one in outer.items() if id in used}
        ids, notes = ops.keys() | outer.keys(), self.notes
        kept = {
            id: data
            for facts in (ops, outer)
            for id, one in facts.items()
            if id not in values and (data := notes.kept_value(id, one)) is not None
        }
        raw = {id: data for data, id in constants.values() if id in ids}
        things = {**{id: one for id, one in notes.things.copy().items() if id in ids}, **raw}
        told = {**values, **summarise_all(kept)}
        names = {id: name for id, name in notes.names.copy().items() if id in ids}
        Legacy(self.title(), ops, outer, names, things, {id: one for id, one in told.items() if id in ids}).leave()

    # The kept facts.

    def let_go(self) -> None:
        """Drop all facts, and every tensor: the graph has taken what it shows."""
        self.notes.keep(())
        self.updates.drop()  # a step may have been interrupted
        self.ops, self.outer, self.constants, self._met, self.before, self.running = {}, {}, {}, {}, {}, None

    def release(self) -> None:
        """Keep no leaf, model or optimizer alive any more: the findings are known."""
        self._held = {}
        self.training.let_go()

    def name_variables(self, namespace: dict[str, Any]) -> None:
        """Remember the variables in ``namespace`` as the names of the tensors they hold."""
        self.notes.name(namespace, self.outer)
        held = {id(data): number for known, number in self.constants.copy().values() if (data := known()) is not None}
        for name, value in namespace.items() if held else ():
            if id(value) in held and isinstance(value, torch.Tensor) and not name.startswith("_"):
                self.notes.names.setdefault(held[id(value)], name)

    def there(self) -> "tuple[dict[int, Ran], dict[int, Outer], dict[Any, tuple[ref[Any], int]], tuple[int, ...]]":
        """Copies of ``ops``, ``outer`` and ``constants``, and the roots: they fit together though a thread records on.

        A copy of a dict is one step of the interpreter. ``outer`` is copied twice, before ``ops`` and after it, because
        another thread may add or drop facts in between. It drops only facts that no op needs. If a backward has ended
        in between, everything is copied again.
        """
        while True:
            frame, outer, ops = self.notes.frame, self.outer.copy(), self.ops.copy()
            if frame is self.notes.frame:
                roots = () if frame is None else frame.roots
                return ops, {**outer, **self.outer}, self.constants.copy(), roots

    def passed(self, roots: tuple[int, ...] | None = None) -> list[Passed]:
        """The facts of the shown ops and tensors, or of those that led to ``roots``, each with its id and its scope.

        Before any backward these are all ops whose results still exist; if none exists, the ops that led to the number
        that was read last.
        """
        return self.passed_ends(roots)[0]

    def passed_ends(self, roots: tuple[int, ...] | None = None, most: int | None = None) -> tuple[list[Passed], int]:
        """The same, but of more than ``most`` ops only the first and the last ones; and how many are left out."""
        ops, outer, constants, last = self.there()
        if self.backwards:
            shown = [(id, ops[id]) for id in sorted(reached_from(last if roots is None else roots, ops))]
        else:
            failed = self.failure is not None and self.failure.seq > self._latest  # nothing ran after it
            needed = reached_from(self.failure.ids if self.failure and failed else (), ops)
            shown = [(id, ran) for id, ran in ops.items() if id in needed or ran.thing() is not None]
            if not shown and (last_read := max(self.uses.reads(), default=0)):  # a loss made by item() has no tensor
                needed = reached_from((last_read,), ops)
                shown = [(id, ran) for id, ran in ops.items() if id in needed]
        all_of_them = len(shown)
        if most is not None:
            shown = ends(shown, most)
        raw = {id: data for data, id in constants.values()}
        seen: set[int] = set()
        passed: list[Passed] = []
        for id, ran in shown:
            for source in ran.sources:
                if source in outer and source not in seen and source not in ops:
                    seen.add(source)
                    taken = outer[source]
                    thing = taken.thing or raw.get(source) or self.notes.things.get(source)
                    value = None if thing is None else thing()
                    passed.append((source, taken, self._home(source, taken, value, ran.scope)))
            passed.append((id, ran, ran.scope))
        return passed, all_of_them - len(shown)

    def things(self, passed: list[Passed]) -> "dict[int, ref[Any]]":
        """The weak references of ``Notes.things`` for the shown ops and tensors."""
        raw = {id: data for data, id in self.constants.copy().values()}
        found = {id: fact.thing if isinstance(fact, Ran) else raw.get(id) for id, fact, _ in passed}
        return {**self.notes.things, **{id: thing for id, thing in found.items() if thing is not None}}

    def _home(self, id: int, taken: Outer, value: Any, scope: Scope | None) -> Scope | None:
        """The scope in which a tensor is drawn. ``scope`` is the first that has used it.

        A parameter is drawn in ``scope``, a buffer in its module.
        """
        if taken.kind == "parameter":
            return scope
        for around in () if value is None else outwards(scope):
            if (name := around.attribute(value)) is not None:
                self.notes.names[id] = name
                return around
        return None


def _alive(fact: Outer) -> Any:
    """The tensor of a leaf, if it still exists."""
    return None if fact.thing is None else fact.thing()


def _uses_another(args: tuple[Any, ...], results: tuple[Any, ...]) -> bool:
    """Whether a tensor among ``args`` is not the first result, which an op in place was given: BatchNorms count so."""
    if not results:
        return True
    for arg in args:  # noqa: SIM110  # compiled, a generator costs more than the loop
        if arg is not results[0] and (isinstance(arg, RawTensor) or isinstance(arg, TensorBase)):  # noqa: SIM101
            return True
    return False


def _numbers(node: Node, out: Any) -> Any:
    """The numbers of ``out``, if they are few. Those of a tapped node were read before, together with its shape."""
    return node.saved if node.tapped else numbers_of(out)

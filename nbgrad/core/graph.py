"""The record of what ran inside a context, and its view as a rustworkx graph.

A graph keeps light facts, one tuple per op, and owns no tensor that the user dropped. It pours them into a
``rustworkx.PyDiGraph`` in bulk when somebody asks.
"""

from itertools import count
from types import TracebackType
from typing import Any, Self
from weakref import ref

import numpy as np
import rustworkx
import torch

from nbgrad.core.broadcast import Reduction
from nbgrad.core.caller import in_a_function, tensor_variables, user_frame
from nbgrad.core.frame import SMALL, Frame, FrameRecorder, Stats, summarise
from nbgrad.core.modes import Observer, Scope, State, current, set_state
from nbgrad.core.node import Leaf, Node, Origin
from nbgrad.core.record import Input, Record
from nbgrad.core.tensor import Tensor, check_device

_next_number = count(1).__next__


class AutogradGraph(Observer):
    """A context that records the ops that run inside it and what each backward does to them.

    Example:
        >>> with AutogradGraph() as graph:
        ...     loss = ((x @ w + b) ** 2).mean()
        ...     loss.backward()
        >>> graph.frame.reductions

    Args:
        name: what the picture calls it; default: graph 1, graph 2, ...
        device: where ``nbgrad.tensor`` and parameters are made inside it; default: torch's default device.
        watch: keep gradients and small values of intermediate tensors to show them.
        budget: how many bytes of gradients it may keep; beyond it only their norms are kept.

    Raises:
        RuntimeError: a CUDA device is asked for where there is none; or the graph is opened twice.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        device: torch.device | str | None = None,
        watch: bool = True,
        budget: int = 256 << 20,
    ) -> None:
        self.name = name or f"graph {_next_number()}"
        self.device = None if device is None else check_device(device)
        self.watch = watch
        self._budget = budget
        self._facts: dict[int, tuple[Any, ...]] = {}
        self._outside: dict[int, tuple[Any, ...]] = {}
        self._names: dict[int, str] = {}
        self._values: dict[int, tuple[torch.Tensor, int]] = {}
        self._limit = 4096
        self._running: FrameRecorder | None = None
        self._last: FrameRecorder | None = None
        self._backwards = 0
        self._roots: tuple[int, ...] = ()
        self._frame: Frame | None = None
        self._before: State | None = None
        self._records: list[Record] = []
        self.closed = False

    # The context.

    def __enter__(self) -> Self:
        if self._before is not None:
            raise RuntimeError(f"{self.name!r} was opened before: make a new AutogradGraph for each block")
        self._before = state = current()
        set_state(state._replace(observers=(*state.observers, self), device=self.device or state.device))
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
        if self._last is not None:
            self._frame, self._last = self._last.frame(), None
        self._running = None
        self._records = self._make_records()
        self._values.clear()
        self._facts.clear()
        if self.check_cycle():
            raise RuntimeError(f"{self.name!r} has a cycle: this is a defect of nbgrad, please report it")

    def name_variables(self, namespace: dict[str, Any]) -> None:
        """Remember the variables in ``namespace`` as the names of the tensors they hold."""
        for name, value in list(namespace.items()):
            if isinstance(value, Tensor) and not name.startswith("_") and value._origin is not None:
                self._names.setdefault(value._origin.seq, name)

    # What the engine tells it.

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """Keep the facts of an op, and its value if it is small."""
        if self.closed:
            return  # a task that began inside the graph outlives it
        sources = tuple([self._source(arg) for arg in args])
        frame = user_frame()
        self._facts[node.seq] = (
            *(ref(node), node.op, node.settings, sources, node.shape, node.dtype, node.device),
            *(current().scope, frame.f_code.co_filename, frame.f_lineno),
        )
        if self.watch and out.numel() <= SMALL:
            self._values[node.seq] = (out, out._version)
        if len(self._facts) > self._limit:
            self._sweep()

    def _source(self, arg: Any) -> Any:
        """How the facts refer to an input: the number of the op that made it, its leaf, or a number itself."""
        if isinstance(arg, np.ndarray):
            arg = torch.from_numpy(arg)
        if isinstance(arg, torch.Tensor):
            arg = Tensor(arg)
        if not isinstance(arg, Tensor):
            return arg
        origin = arg.origin
        if isinstance(origin, Leaf):
            return origin
        if origin.seq not in self._facts:
            self._outside[origin.seq] = (origin.op, origin.shape, origin.dtype, origin.device)
        return _Made(origin.seq)

    def _sweep(self) -> None:
        """Drop the facts of ops whose results are gone and that the last backward did not reach."""
        shown = self._shown_ids() if self._backwards else set()
        self._facts = {seq: fact for seq, fact in self._facts.items() if fact[0]() is not None or seq in shown}
        self._values = {seq: value for seq, value in self._values.items() if seq in self._facts}
        kept = {
            getattr(source, "seq", source) for fact in self._facts.values() for source in fact[3]
        } | self._facts.keys()
        self._names = {seq: name for seq, name in self._names.items() if seq in kept}
        self._outside = {seq: fact for seq, fact in self._outside.items() if seq in kept}
        self._limit = 2 * len(self._facts) + 4096

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        """Start a frame, and learn the names of a function's local variables while they exist."""
        if self.closed:
            return
        self._running = FrameRecorder(self._backwards + 1, tuple(origin.seq for origin, _ in roots), self._budget)
        frame = user_frame()
        if in_a_function(frame):
            self.name_variables(tensor_variables(frame))

    def on_gradient(self, origin: Origin, gradient: Any) -> None:
        """Keep the gradient of a tensor."""
        if self._running is not None and self.watch:
            self._running.gradient(origin.seq, gradient)

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Reduction | None) -> None:  # noqa: ARG002
        """Keep what a rule gave its input, and the reduction that undid a broadcast."""
        if self._running is None:
            return
        if reduction is not None:
            self._running.reductions[node.seq, position] = reduction
        if self.watch:
            self._running.contribution((node.seq, position), reduced)

    def on_accumulate(self, leaf: Leaf, gradient: Any) -> None:
        """Remember which gradients the user can change."""
        if self._running is not None and self.watch:
            self._running.leaf(leaf.seq, gradient)

    def on_backward_end(self) -> None:
        """The frame is complete and becomes the last one."""
        if self._running is None:
            return
        self._running.end()
        self._last, self._running = self._running, None
        self._backwards, self._roots = self._last.number, self._last.roots

    # What others ask it.

    @property
    def frame(self) -> Frame | None:
        """The last backward that ran inside the graph, as data; None before the first."""
        return self._last.frame() if self._last is not None else self._frame

    @property
    def backwards(self) -> int:
        """How many backwards ran inside the graph."""
        return self._backwards

    @property
    def records(self) -> list[Record]:
        """Every op and tensor of the graph in record order, which is a topological order: sources first.

        After a backward: what it ran through. Before one: everything whose result still exists.
        """
        return self._records if self.closed else self._make_records()

    @property
    def rx(self) -> "rustworkx.PyDiGraph[Record, int]":
        """The graph poured into rustworkx: a ``Record`` per node, the position of the input on each edge.

        ``x * x`` makes two parallel edges. Each call pours a new one, so it may be changed at will.
        """
        poured: rustworkx.PyDiGraph[Record, int] = rustworkx.PyDiGraph(multigraph=True)
        records = self.records
        index = dict(zip((record.id for record in records), poured.add_nodes_from(records), strict=True))
        poured.add_edges_from(
            [
                (index[taken.source], index[record.id], position)
                for record in records
                for position, taken in enumerate(record.inputs)
                if taken.source is not None
            ]
        )
        return poured

    def check_cycle(self) -> bool:
        """Whether the graph has a cycle, which no program can record."""
        return not rustworkx.is_directed_acyclic_graph(self.rx)

    def reverse_toposort(self) -> list[Record]:
        """Every record, results before what they were computed from: the order in which a backward visits the ops."""
        return list(reversed(self.records))

    def reverse_toposort_from(self, tensor: Tensor) -> list[Record]:
        """Like ``reverse_toposort``, but only what ``tensor`` was computed from, itself included."""
        within = {record.id for record in self.ancestors(tensor)} | {tensor.origin.seq}
        return [record for record in self.reverse_toposort() if record.id in within]

    def ancestors(self, tensor: Tensor) -> list[Record]:
        """Everything that ``tensor`` was computed from, in record order.

        Raises:
            KeyError: the graph has no record of the tensor.
        """
        poured = self.rx
        for index in poured.node_indices():
            if poured[index].id == tensor.origin.seq:
                return [poured[above] for above in sorted(rustworkx.ancestors(poured, index))]
        raise KeyError(f"{self.name!r} has no record of this tensor of shape {tuple(tensor.shape)}")

    def __repr__(self) -> str:
        ops = sum(record.op is not None for record in self.records)
        return f"<AutogradGraph {self.name!r}: {ops} ops, {self._backwards} backwards>"

    # From facts to records.

    def _shown_ids(self) -> set[int]:
        """The ops that the last backward started from and everything they were computed from; all if there was none."""
        if self._backwards == 0:
            return {seq for seq, fact in self._facts.items() if fact[0]() is not None}
        waiting = list(self._roots)
        found = set(waiting)
        while waiting:
            fact = self._facts.get(waiting.pop())
            for source in fact[3] if fact is not None else ():
                if isinstance(source, _Made) and source not in found:
                    found.add(int(source))
                    waiting.append(int(source))
        return found

    def _make_records(self) -> list[Record]:
        shown = self._shown_ids()
        frame = self.frame
        gradients = frame.gradients if frame is not None else {}
        roots = frame.roots if frame is not None else ()
        made: dict[int, Record] = {}
        for seq in sorted(shown):
            fact = self._facts.get(seq)
            if fact is None:
                continue
            _, op, settings, sources, shape, dtype, device, scope, file, line = fact
            for source in sources:
                if isinstance(source, Leaf) and source.seq not in made:
                    made[source.seq] = self._leaf_record(source, scope, gradients, source.seq in roots)
                elif isinstance(source, _Made) and source not in self._facts and source in self._outside:
                    made.setdefault(int(source), self._outside_record(int(source), gradients))
            made[seq] = Record(
                id=seq,
                kind="op",
                shape=tuple(shape),
                dtype=dtype,
                device=device,
                name=self._names.get(seq),
                op=op,
                settings=settings,
                inputs=tuple(self._input(seq, i, op.inputs[i], source, frame) for i, source in enumerate(sources)),
                scope=scope,
                file=file,
                line=line,
                root=seq in roots,
                value=self._value(seq),
                gradient=gradients.get(seq),
            )
        return list(made.values())

    def _input(self, seq: int, position: int, name: str, source: Any, frame: Frame | None) -> Input:
        key = (seq, position)
        gradient = frame.contributions.get(key) if frame is not None else None
        reduction = frame.reductions.get(key) if frame is not None else None
        if isinstance(source, Leaf):
            return Input(name, source.seq, None, gradient, reduction)
        return (
            Input(name, int(source), None, gradient, reduction)
            if isinstance(source, _Made)
            else Input(name, None, source)
        )

    def _leaf_record(self, leaf: Leaf, scope: Scope | None, gradients: dict[int, Stats], root: bool) -> Record:
        tensor = leaf.ref()
        return Record(
            id=leaf.seq,
            kind=leaf.kind,
            shape=tuple(leaf.shape),
            dtype=leaf.dtype,
            device=leaf.device,
            name=(tensor.name if tensor is not None else leaf.name) or self._names.get(leaf.seq),
            scope=scope if leaf.kind == "parameter" else None,
            root=root,
            value=None if tensor is None else summarise(tensor.data),
            gradient=gradients.get(leaf.seq),
        )

    def _outside_record(self, seq: int, gradients: dict[int, Stats]) -> Record:
        op, shape, dtype, device = self._outside[seq]
        return Record(
            id=seq,
            kind="outside",
            shape=tuple(shape),
            dtype=dtype,
            device=device,
            name=self._names.get(seq),
            op=op,
            gradient=gradients.get(seq),
        )

    def _value(self, seq: int) -> Stats | None:
        data, version = self._values.get(seq, (None, 0))
        return summarise(data) if data is not None and data._version == version else None


class _Made(int):
    """The number of the op that made an input, told apart from a number that is an input."""

"""The backward walk: from the roots to the leaves, in the reverse of the order in which the ops ran.

The walk knows nodes, rules and gradients, not tensors: in a plain backward the gradients are raw torch tensors, with
``create_graph`` they are ``Tensor`` objects and the rules record themselves. It never recurses, so depth is no limit.
The ``.grad`` of leaves is written after the last rule has run: a rule that raises leaves every ``.grad`` as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeAlias

import torch

from nbgrad.core.backend.autocast import switched_off
from nbgrad.core.backend.below_autograd import below_autograd, outside
from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine import backward_errors
from nbgrad.core.engine.broadcast import Reduction, reduction, sum_to
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.ended import note_retained
from nbgrad.core.engine.kept import kept_below
from nbgrad.core.engine.node import (
    REDUCERS,
    Deferred,
    Freed,
    Hooks,
    Leaf,
    Node,
    Origin,
    Output,
    Reducer,
    Table,
    TensorBase,
    in_a_hurry,
    raw_of,
    run_accumulated,
    run_after,
    run_before,
)
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current, restoring
from nbgrad.core.engine.tensor_data import memory_of

Roots = list[tuple[Origin, Any]]

Inputs: TypeAlias = TensorBase | Sequence[TensorBase]
"""The tensors in which a backward accumulates, if the caller named them."""


@restoring
def backward(roots: Roots, inputs: "Inputs | None", *, retain_graph: bool, create_graph: bool) -> None:
    """Add the gradient from the seeds to the ``.grad`` of every leaf below ``roots``, or of ``inputs`` alone."""
    # A gradient that the user holds must not become a ``.grad``.
    taken = {unheard(memory_of, seed if isinstance(seed, torch.Tensor) else seed.data) for _, seed in roots}
    wanted = None if inputs is None else _retaining([inputs] if isinstance(inputs, TensorBase) else list(inputs))
    walk = Walk(wanted, retain_graph=retain_graph, create_graph=create_graph)
    reducers: list[Reducer] = []
    walk.reducers = reducers
    walk.hurried = bool(REDUCERS) and in_a_hurry()
    with Switch(grad_enabled=create_graph, walking=walk), switched_off():
        try:
            unheard(walk.run, roots)
            for reducer in reducers:
                reducer.wait()
            taken |= walk.shown
            for leaf, gradient in walk.leaves:
                tensor = leaf.ref()
                if tensor is not None and tensor._needs_grad:
                    unheard(_accumulate, leaf, tensor, gradient, taken, create_graph)
                    if leaf.hooks is not None:  # hooks of the user's: their ops are recorded
                        run_accumulated(leaf.hooks.accumulated, tensor)
            for reducer in reducers:
                reducer.end()
        except BaseException as error:
            for reducer in reducers:
                reducer.abandon(error)
            raise
    for observer in walk.observers:
        unheard(observer.on_backward_end)
    note_retained(retain_graph)


def _accumulate(leaf: Leaf, tensor: Any, gradient: Any, taken: set[int], create_graph: bool) -> None:
    """Write the ``.grad`` of a leaf: its reducer writes it, or the gradient is added unchanged."""
    if leaf.shape != (now := tensor._data.shape):
        raise backward_errors.replaced(leaf.shape, now)
    reducer, number = (None if leaf.hooks is None else leaf.hooks.reducer) or (None, 0)
    if reducer is None or not reducer.put(number, tensor):
        tensor.accumulate(gradient, taken, create_graph=create_graph)


@restoring
def gradients(roots: Roots, wanted: list[Origin], *, retain_graph: bool, create_graph: bool) -> dict[Origin, Any]:
    """The gradient of each of ``wanted``, by origin. An origin that no path reaches is missing."""
    walk = Walk(set(wanted), retain_graph=retain_graph, create_graph=create_graph)
    with Switch(grad_enabled=create_graph, walking=walk), switched_off():
        unheard(walk.run, roots)
    for observer in walk.observers:
        unheard(observer.on_backward_end)
    note_retained(retain_graph)
    return walk.found


def _retaining(inputs: list[Any]) -> set[Origin]:
    """The origins of ``inputs``. Each keeps its gradient in ``.grad``, also one that an op made, as in torch."""
    if not inputs:
        raise RuntimeError(
            "backward() got no inputs: name the tensors to accumulate in, or leave it out for all leaves"
        )
    for position, tensor in enumerate(inputs):
        if not tensor.requires_grad:
            raise RuntimeError(f"backward(): inputs[{position}] needs no gradient: call requires_grad_() on it first")
    for tensor in inputs:
        tensor.retain_grad()
    return {tensor.origin for tensor in inputs}


def reachable(roots: Iterable[Origin]) -> list[Origin]:
    """Every origin below ``roots``, themselves included, in record order: parents before children."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        for parent in parents(stack.pop()):
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=_seq)


def _saved_below(roots: list[Origin]) -> Callable[[int], list[tuple[str, torch.Tensor]]]:
    """A function that gives the tensors that a node below ``roots`` has saved, by its number, each with its name."""
    nodes = {one.seq: one for one in reachable(roots) if isinstance(one, Node) and isinstance(one.saved, tuple)}

    def saved(seq: int) -> list[tuple[str, torch.Tensor]]:
        node = nodes.get(seq)
        pairs = [] if node is None else zip(node.plan.saved_names, node.saved, strict=False)  # type: ignore[arg-type]
        return [(name, raw_of(value).detach()) for name, value in pairs if isinstance(raw_of(value), torch.Tensor)]

    return saved


def parents(origin: Origin) -> list[Origin]:
    """The origins that receive a gradient from ``origin``."""
    if isinstance(origin, Node):
        return [parent for parent in origin.edges if parent is not None]
    return [origin.node] if isinstance(origin, Output) else []


def last_uses(roots: list[Origin], useful: set[Origin] | None) -> dict[Origin, list[Leaf]]:
    """By node, the leaves with a reducer whose oldest user is this node: the walk visits it after all other users.

    Args:
        roots: where the walk begins.
        useful: the origins that it visits; None: all below the roots.
    """
    first: dict[Leaf, Origin] = {}
    stack, seen = list(roots), set(roots)
    while stack:
        origin = stack.pop()
        if isinstance(origin, Leaf) and origin.hooks is not None and origin.hooks.reducer is not None:
            first.setdefault(origin, origin)
        for parent in parents(origin):
            if useful is not None and parent not in useful:
                continue
            if isinstance(parent, Leaf):
                if parent.hooks is not None and parent.hooks.reducer is not None:
                    known = first.get(parent)
                    if known is None or origin.seq < known.seq:
                        first[parent] = origin
            elif parent not in seen:
                seen.add(parent)
                stack.append(parent)
    found: dict[Origin, list[Leaf]] = {}
    for leaf, user in first.items():
        found.setdefault(user, []).append(leaf)
    return found


_torch_detects = torch.is_anomaly_enabled


class Walk:
    """One run of a backward.

    Attributes:
        wanted: the origins whose gradients are asked for; None to collect those of the leaves.
        found: the gradients of ``wanted``, after the run.
        leaves: the leaves and their gradients, after the run.
        roots: the origins where it begins, while it runs.
        shown: the addresses of gradients that the user's own code has seen or made, and may still hold.
        reducers: the reducers that have taken a gradient; None in a walk that writes no ``.grad``, and asks no reducer.
        hurried: whether leaves with a reducer are visited as soon as their gradients are complete. Other leaves are
            older than all nodes, so they are visited last.
        last_uses: if the walk is ``hurried``: by node, the leaves whose gradients are complete when its rules have run.
    """

    __slots__ = (
        *("create_graph", "found", "freed", "hurried", "last_uses", "leaves", "next", "observers", "pending"),
        "__weakref__",
        *("reducers", "retain_graph", "roots", "seeded", "shown", "summed", "useful", "waiting", "wanted"),
    )

    def __init__(self, wanted: set[Origin] | None, *, retain_graph: bool, create_graph: bool) -> None:
        self.wanted = wanted
        self.found: dict[Origin, Any] = {}
        self.leaves: list[tuple[Leaf, Any]] = []
        self.pending: dict[Origin, Any] = {}
        # The origins that have a gradient are in a heap, the latest first; ``next`` may be one later than all of these.
        self.waiting: list[tuple[int, Origin]] = []
        self.next: Origin | None = None
        self.summed: set[Origin] = set()  # origins whose gradient is a sum that the walk has made
        self.seeded: set[Origin] = set()  # origins where the walk begins
        self.shown: set[int] = set()
        self.useful: set[Origin] | None = None
        self.observers: tuple[Observer, ...] = current().observers
        self.freed = Freed(user_place(), self._counted())
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.roots: Roots = []
        self.reducers: list[Reducer] | None = None
        self.hurried = False
        self.last_uses: dict[Origin, list[Leaf]] = {}

    def run(self, roots: Roots) -> None:
        """Visit each origin that a gradient reaches once, the latest first, so after everything that uses it."""
        if _torch_detects():
            raise backward_errors.torch_detects()
        self.roots = roots
        for observer in self.observers:
            observer.on_backward_begin(roots)
            if self.wanted is not None:
                observer.on_backward_inputs(list(self.wanted), self.create_graph)
            if observer.began_badly():
                observer.on_bad_loss(_saved_below([origin for origin, _ in roots]))
            if observer.wants_kept():
                observer.on_kept(partial(kept_below, [origin for origin, _ in roots]))
        if self.wanted is not None:
            self.useful = _leading_to(self.wanted, reachable([origin for origin, _ in roots]))
        below_autograd(self._go, roots)

    def _go(self, roots: Roots) -> None:
        """Visit all origins, from the roots on."""
        pending = self.pending
        for origin, seed in roots:
            if self.useful is None or origin in self.useful:
                self.seeded.add(origin)
                self._add(origin, seed)
        origin = roots[0][0]
        try:
            if self.hurried:
                self._hurry()
            while pending:
                origin = self._latest()
                self._visit(origin, pending.pop(origin))
        except Exception as error:
            backward_errors.explain_failure(error, [root for root, _ in roots])
            for observer in self.observers:
                observer.on_backward_error(origin, error)
            raise
        finally:
            self.roots = []  # a state that a hook has copied may outlive the walk, and holds it

    def _hurry(self) -> None:
        """Visit all origins, and each leaf with a reducer right after the node that uses it first."""
        self.last_uses = last_uses([origin for origin, _ in self.roots], self.useful)
        pending = self.pending
        while pending:
            origin = self._latest()
            if origin not in pending:
                continue  # a leaf that has been visited before its turn
            self._visit(origin, pending.pop(origin))
            for leaf in self.last_uses.get(origin, ()):
                if leaf in pending:
                    self._visit(leaf, pending.pop(leaf))

    def _counted(self) -> tuple[int, str] | None:
        """The number that a graph gives this backward, and the name of the graph."""
        for observer in self.observers:
            known = observer.backward_begun()
            if known is not None:
                return known
        return None

    def _latest(self) -> Origin:
        """Take the latest origin that has a gradient: the next one to visit."""
        latest = self.next
        if latest is None:
            found: Origin = heappop(self.waiting)[1]
            return found
        self.next = None
        return latest

    def _wait(self, origin: Origin) -> None:
        """Add ``origin`` to the origins to visit. In a chain a single origin waits, and never enters the heap."""
        latest = self.next
        if latest is None:
            waiting = self.waiting
            if not waiting or -origin.seq < waiting[0][0]:
                self.next = origin
                return
        elif latest.seq < origin.seq:
            self.next, origin = origin, latest
        heappush(self.waiting, (-origin.seq, origin))

    def _add(self, origin: Origin, gradient: Any) -> None:
        """Add to the gradient that ``origin`` has received so far."""
        held = self.pending.get(origin)
        if held is None:
            self.pending[origin] = gradient
            self._wait(origin)
        elif self.create_graph or origin not in self.summed:
            self.pending[origin] = held + gradient
            self.summed.add(origin)
        else:
            held.add_(gradient)  # the walk made this sum, so nothing else holds its memory

    def _visit(self, origin: Origin, gradient: Any) -> None:
        """Handle the complete gradient of ``origin``: keep it, pass it on, or run the rules."""
        if origin.hooks is not None:
            gradient = outside(self._hooked, origin, origin.hooks, gradient)
        if self.observers and not isinstance(gradient, list):
            lone = origin.hooks is None and origin not in self.summed and origin not in self.seeded
            for observer in self.observers:
                observer.on_gradient(origin, gradient, lone)
        if self.wanted is not None and origin in self.wanted:
            self.found[origin] = gradient
        if isinstance(origin, Node):
            if self.useful is None or _leads_to(self.useful, origin):
                if origin.hooks is not None and origin.hooks.before:
                    gradient = self._prepared(origin, origin.hooks.before, gradient)
                self._run_rules(origin, gradient)
                if origin.plan.keeps_values and not self.retain_graph:
                    origin.saved = self.freed
        elif isinstance(origin, Leaf):
            self.leaves.append((origin, gradient))
        else:
            self._collect(origin, gradient)

    def _collect(self, output: Output, gradient: Any) -> None:
        """Put the gradient of one output into its slot of the node."""
        node = output.node
        slots = self.pending.get(node)
        if slots is None:
            slots = self.pending[node] = [None] * node.outputs
            self._wait(node)
        held = slots[output.index]
        slots[output.index] = gradient if held is None else held + gradient

    def _run_rules(self, node: Node, gradient: Any) -> None:
        """Run the rule of each input that needs a gradient, and add its result to the parent's gradient."""
        saved: Any = node.saved if isinstance(node.saved, tuple) else _again(node, node.saved)
        for slot, version in enumerate(node.versions):
            if version is not None and saved[slot]._version != version:
                raise backward_errors.changed(node, slot, saved[slot])
        plan = node.plan
        values = plan.unpack(node, saved, gradient) if self.create_graph else saved
        useful, edges = self.useful, node.edges
        given = self._jointly(node, gradient, values) if plan.joined else []
        after = node.hooks.after if node.hooks is not None else None
        for position, rule, needs in plan.rules:
            if useful is not None and edges[position] not in useful:
                continue
            if rule is None:
                result = gradient
            elif len(needs) == 1:  # faster than ``*[value]`` with a list of one value
                result = rule(gradient, values[needs[0]])
            else:
                result = rule(gradient, *[values[slot] for slot in needs])
            if after:
                given.append((position, result))
            elif result is not None:
                self._hand_on(node, position, gradient, result)
        if after or given:
            self._hand_all(node, gradient, given, after)

    def _hand_all(self, node: Node, gradient: Any, given: list[tuple[int, Any]], after: Table | None) -> None:
        """Pass the ``given`` gradients to the inputs of ``node``, after the hooks that take all of them."""
        if after:
            given = outside(run_after, node, after, gradient, given, self.create_graph)
            self._show(gradient, *[result for _, result in given])
        for position, result in given:
            self._hand_on(node, position, gradient, result)

    def _hand_on(self, node: Node, position: int, gradient: Any, result: Any) -> None:
        """Pass the result of a rule to an input of ``node``, in the shape, element type and device of the input."""
        parent: Any = node.edges[position]
        plan = node.plan
        if self.create_graph:
            result = plan.lift(result)
        # A rule that passes its gradient on as it is keeps shape and element type, so they need no check.
        same, shape = result is gradient, parent.shape
        full, undone, given = result, None, node.shape if same else result.shape
        if given != shape:
            if self.observers or position not in plan.broadcasts:
                undone = _undone(node, position, given, shape)
            try:
                result = sum_to(result, given, shape)
            except RuntimeError:
                _undone(node, position, given, shape)  # says which rule is wrong
                raise
        if (node.dtype if same else result.dtype) is not parent.dtype:
            if result.is_complex() and not parent.dtype.is_complex:
                result = result.real  # a real input takes the real part of a complex gradient
            result = result.to(parent.dtype)
        if not shape and result.device != parent.device:  # a number mixes with tensors of any device
            result = result.to(device=parent.device)
        if undone is None and self.observers and position in plan.sums:
            undone = plan.sums[position](node.shape, shape)
        for observer in self.observers:
            observer.on_rule(node, position, full, result, undone)
        self._add(parent, result)

    def _jointly(self, node: Node, gradient: Any, values: Any) -> list[tuple[int, Any]]:
        """Run the joint rule of ``node``; return the gradients by position, without those that are None."""
        needed = tuple([edge is not None and (self.useful is None or edge in self.useful) for edge in node.edges])
        foreign = node.plan.foreign
        if foreign and not self.create_graph:
            # The user's own code may differentiate with respect to saved tensors.
            values = node.plan.unpack(node, values, gradient)
        results = list(enumerate(node.plan.joint(gradient, needed, *values)))
        if foreign:
            self._show(gradient, *[result for _, result in results])
        return [(position, result) for position, result in results if needed[position] and result is not None]

    def _hooked(self, origin: Origin, hooks: Hooks, gradient: Any) -> Any:
        """Run the hooks of a tensor on its ``gradient``. Return it, and keep it if the tensor retains its gradient."""
        given = gradient
        for hook in list(hooks.gradient.values()):
            gradient = hook(gradient)
        if hooks.gradient:
            self._show(given, gradient)
        tensor = hooks.retained() if hooks.retained is not None else None
        if tensor is not None and not isinstance(origin, Leaf):
            tensor.accumulate(gradient, None, create_graph=self.create_graph)
        if hooks.reducer is not None and self.reducers is not None:
            reducer, number = hooks.reducer
            if reducer not in self.reducers:
                self.reducers.append(reducer)
            reducer.take(number, gradient, self)
        return gradient

    def _prepared(self, node: Node, before: Table, gradient: Any) -> Any:
        """Run the prehooks of a node. Their result goes to the rules alone, and is not the tensor's gradient."""
        prepared = outside(run_before, node, before, gradient, self.create_graph)
        self._show(gradient, prepared)
        return prepared

    def _show(self, *gradients: Any) -> None:
        """Note gradients that the user's code may hold: none may become a ``.grad``, which later backwards change."""
        for one in gradients:
            if isinstance(one, list):
                self._show(*one)
            elif one is not None:
                self.shown.add(memory_of(one.data))


def _again(node: Node, saved: Freed | Deferred) -> Any:
    """Compute the saved values of ``node`` again, if it is in a checkpoint; raise if a backward has freed them."""
    if isinstance(saved, Freed):
        raise backward_errors.freed(node, saved)
    return outside(saved.restore, node)


def _leading_to(wanted: set[Origin], order: list[Origin]) -> set[Origin]:
    """The ``wanted`` origins, and those in ``order``, parents first, from which a path leads down to one of them."""
    useful = set(wanted)
    for origin in order:
        if _leads_to(useful, origin):
            useful.add(origin)
    return useful


def _leads_to(useful: set[Origin], origin: Origin) -> bool:
    """Whether ``origin`` passes a gradient to one of ``useful``."""
    return any(parent in useful for parent in parents(origin))


def _seq(origin: Origin) -> int:
    return origin.seq


def _undone(node: Node, position: int, got: tuple[int, ...], want: tuple[int, ...]) -> Reduction:
    """The reduction of a rule's result to the shape of its input; an error if the op does not broadcast this input."""
    undone = reduction(got, want) if position in node.plan.broadcasts else None
    if undone is None:
        raise RuntimeError(
            f"the rule of op {node.op.name!r} for input {node.op.inputs[position]!r} gave a gradient of shape "
            f"{tuple(got)}, but the input has shape {tuple(want)}. Return a gradient of the input's shape, or declare "
            "broadcasts=True if the op broadcasts this input."
        )
    return undone

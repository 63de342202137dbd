"""The backward walk: from the roots to the leaves, in the reverse of the order in which the ops ran.

The walk knows nodes, rules and gradients, not tensors: in a plain backward the gradients are raw torch tensors, with
``create_graph`` they are ``Tensor`` objects and the rules record themselves. It never recurses, so depth is no limit.
The ``.grad`` of leaves is written after the last rule has run: a rule that raises leaves every ``.grad`` as it was.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nbgrad.core import advice
from nbgrad.core.autocast import switched_off
from nbgrad.core.broadcast import Reduction, reduction, sum_to
from nbgrad.core.caller import user_place
from nbgrad.core.hooks import Hooks, run_after, run_before
from nbgrad.core.modes import Observer, Switch, current, restoring
from nbgrad.core.node import Deferred, Freed, Leaf, Node, Origin, Output

Roots = list[tuple[Origin, Any]]


@restoring
def backward(roots: Roots, *, retain_graph: bool, create_graph: bool) -> None:
    """Add to the ``.grad`` of every leaf below ``roots`` the gradient that the seeds give it."""
    taken = {_memory(seed) for _, seed in roots}
    walk = Walk(None, retain_graph=retain_graph, create_graph=create_graph)
    with Switch(grad_enabled=create_graph, walking=True), switched_off():
        walk.run(roots)
        for leaf, gradient in walk.leaves:
            for observer in walk.observers:
                observer.on_accumulate(leaf, gradient)
            tensor = leaf.ref()
            if tensor is not None and tensor.requires_grad:
                memory = _memory(gradient)
                tensor.accumulate(gradient, alone=memory not in taken, create_graph=create_graph)
                taken.add(memory)
                for hook in list(leaf.hooks.accumulated.values()) if leaf.hooks is not None else ():
                    hook(tensor)
    for observer in walk.observers:
        observer.on_backward_end()


@restoring
def gradients(roots: Roots, wanted: list[Origin], *, retain_graph: bool, create_graph: bool) -> dict[Origin, Any]:
    """The gradient that the seeds give each of ``wanted``; what no path reaches is missing from the answer."""
    walk = Walk(set(wanted), retain_graph=retain_graph, create_graph=create_graph)
    with Switch(grad_enabled=create_graph, walking=True), switched_off():
        walk.run(roots)
    for observer in walk.observers:
        observer.on_backward_end()
    return walk.found


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


def parents(origin: Origin) -> list[Origin]:
    """The origins that a gradient of ``origin`` goes on to."""
    if isinstance(origin, Node):
        return [parent for parent in origin.edges if parent is not None]
    return [origin.node] if isinstance(origin, Output) else []


class Walk:
    """One backward on its way down.

    Attributes:
        wanted: the origins whose gradients are asked for; None to collect those of the leaves.
        found: the gradients of ``wanted``, after the run.
        leaves: the leaves and their gradients, after the run.
    """

    __slots__ = ("create_graph", "found", "freed", "leaves", "observers", "pending", "retain_graph", "useful", "wanted")

    def __init__(self, wanted: set[Origin] | None, *, retain_graph: bool, create_graph: bool) -> None:
        self.wanted = wanted
        self.found: dict[Origin, Any] = {}
        self.leaves: list[tuple[Leaf, Any]] = []
        self.pending: dict[Origin, Any] = {}
        self.useful: set[Origin] | None = None
        self.observers: tuple[Observer, ...] = current().observers
        labels = [observer.backward_label() for observer in self.observers]
        self.freed = Freed(user_place(), next(filter(None, labels), None))
        self.retain_graph = retain_graph
        self.create_graph = create_graph

    def run(self, roots: Roots) -> None:
        """Visit every origin below ``roots`` once, after everything that uses it."""
        for observer in self.observers:
            observer.on_backward_begin(roots)
        pending = self.pending
        for origin, seed in roots:
            pending[origin] = seed if origin not in pending else pending[origin] + seed
        order = reachable(pending)
        if self.wanted is not None:
            self.useful = _leading_to(self.wanted, order)
        while order:
            origin = order.pop()
            gradient = pending.pop(origin, None)
            if gradient is not None:
                self._visit(origin, gradient)

    def _visit(self, origin: Origin, gradient: Any) -> None:
        """The gradient of ``origin`` is complete: keep it, hand it on, or run the rules."""
        if origin.hooks is not None:
            gradient = self._hooked(origin, origin.hooks, gradient)
        if self.observers and not isinstance(gradient, list):
            for observer in self.observers:
                observer.on_gradient(origin, gradient)
        if self.wanted is not None and origin in self.wanted:
            self.found[origin] = gradient
        if isinstance(origin, Leaf):
            self.leaves.append((origin, gradient))
        elif isinstance(origin, Output):
            slots = self.pending.setdefault(origin.node, [None] * origin.node.outputs)
            held = slots[origin.index]
            slots[origin.index] = gradient if held is None else held + gradient
        elif self.useful is None or any(parent in self.useful for parent in parents(origin)):
            self._run_rules(origin, gradient)
            if origin.plan.keeps_values and not self.retain_graph:
                origin.saved = self.freed

    def _run_rules(self, node: Node, gradient: Any) -> None:
        """Run the rule of each input that needs a gradient, and add what it gives to what the parent has so far."""
        saved = node.saved
        if not isinstance(saved, tuple):
            saved = _again(node, saved)
        advice.check_versions(node, saved)
        plan, pending = node.plan, self.pending
        values = plan.unpack(node) if self.create_graph else saved
        given = self._given(node, gradient, values)
        if node.hooks is not None and node.hooks.after:
            given = run_after(node, node.hooks.after, gradient, list(given), create_graph=self.create_graph)
        for position, result in given:
            parent: Any = node.edges[position]
            if self.create_graph:
                result = plan.lift(result)
            full, undone = result, None
            if result.shape != parent.shape:
                undone = _undone(node, position, result.shape, parent.shape)
                result = sum_to(result, parent.shape)
            if result.dtype is not parent.dtype:
                result = result.to(parent.dtype)
            if not parent.shape and result.device != parent.device:  # a number mixes with tensors of any device
                result = result.to(device=parent.device)
            for observer in self.observers:
                observer.on_rule(node, position, full, result, undone)
            held = pending.get(parent)
            pending[parent] = result if held is None else held + result

    def _given(self, node: Node, gradient: Any, values: Any) -> Iterator[tuple[int, Any]]:
        """What the rules of ``node`` give its inputs, by position; an input without a gradient is left out."""
        useful, edges = self.useful, node.edges
        if node.plan.joint is not None:
            needed = tuple(edge is not None and (useful is None or edge in useful) for edge in edges)
            for position, result in enumerate(node.plan.joint(gradient, needed, *values)):
                if needed[position] and result is not None:
                    yield position, result
            return
        for position, rule, needs in node.plan.rules:
            if useful is None or edges[position] in useful:
                result = rule(gradient, *[values[slot] for slot in needs])
                if result is not None:
                    yield position, result

    def _hooked(self, origin: Origin, hooks: Hooks, gradient: Any) -> Any:
        """``gradient`` after the hooks of its tensor and those before a node; it is kept where that was asked for."""
        for hook in list(hooks.gradient.values()):
            gradient = hook(gradient)
        if hooks.before and isinstance(origin, Node):
            gradient = run_before(origin, hooks.before, gradient, create_graph=self.create_graph)
        tensor = hooks.retained() if hooks.retained is not None else None
        if tensor is not None and not isinstance(origin, Leaf):
            tensor.accumulate(gradient, alone=False, create_graph=self.create_graph)
        return gradient


def _again(node: Node, saved: Freed | Deferred) -> Any:
    """What ``node`` had saved and let go to have it computed again; an error if a backward has freed it."""
    if isinstance(saved, Freed):
        raise advice.freed(node, saved)
    return saved.restore(node)


def _leading_to(wanted: set[Origin], order: list[Origin]) -> set[Origin]:
    """The origins among ``order``, parents first, from which a path goes down to one of ``wanted``, those included."""
    useful = set(wanted)
    for origin in order:
        if any(parent in useful for parent in parents(origin)):
            useful.add(origin)
    return useful


def _seq(origin: Origin) -> int:
    return origin.seq


def _memory(gradient: Any) -> int:
    """The address of the memory behind a gradient: two with the same one must not both become a ``.grad``."""
    raw = getattr(gradient, "data", gradient)
    return int(raw.untyped_storage().data_ptr())


def _undone(node: Node, position: int, got: tuple[int, ...], want: tuple[int, ...]) -> Reduction:
    """The reduction that brings what a rule gave to the shape of its input; an error if the op broadcasts no input."""
    undone = reduction(got, want) if position in node.plan.broadcasts else None
    if undone is None:
        raise RuntimeError(
            f"the rule of op {node.op.name!r} for input {node.op.inputs[position]!r} gave a gradient of shape "
            f"{tuple(got)}, but the input has shape {tuple(want)}. Return a gradient of the input's shape, or declare "
            "broadcasts=True if the op broadcasts this input."
        )
    return undone

"""The backward walk: from the roots to the leaves, in the reverse of the order in which the ops ran.

The walk knows nodes, rules and gradients, not tensors: in a plain backward the gradients are raw torch tensors, with
``create_graph`` they are ``Tensor`` objects and the rules record themselves. It never recurses, so depth is no limit.
The ``.grad`` of leaves is written after the last rule has run: a rule that raises leaves every ``.grad`` as it was.
"""

from collections.abc import Iterable
from typing import Any

from nbgrad.core.broadcast import Reduction, reduction, sum_to
from nbgrad.core.modes import Observer, Switch, current
from nbgrad.core.node import FREED, Freed, Leaf, Node, Origin

Roots = list[tuple[Origin, Any]]


def backward(roots: Roots, *, retain_graph: bool, create_graph: bool) -> None:
    """Add to the ``.grad`` of every leaf below ``roots`` the gradient that the seeds give it."""
    leaves: list[tuple[Leaf, Any]] = []
    taken = {_memory(seed) for _, seed in roots}
    observers = current().observers
    with Switch(grad_enabled=create_graph):
        _walk(roots, None, leaves, retain_graph=retain_graph, create_graph=create_graph)
        for leaf, gradient in leaves:
            for observer in observers:
                observer.on_accumulate(leaf, gradient)
            tensor = leaf.ref()
            if tensor is not None and tensor.requires_grad:
                memory = _memory(gradient)
                tensor.accumulate(gradient, alone=memory not in taken, create_graph=create_graph)
                taken.add(memory)
    for observer in observers:
        observer.on_backward_end()


def gradients(roots: Roots, wanted: list[Origin], *, retain_graph: bool, create_graph: bool) -> dict[Origin, Any]:
    """The gradient that the seeds give each of ``wanted``; what no path reaches is missing from the answer."""
    found: dict[Origin, Any] = {}
    with Switch(grad_enabled=create_graph):
        _walk(roots, (set(wanted), found), [], retain_graph=retain_graph, create_graph=create_graph)
    for observer in current().observers:
        observer.on_backward_end()
    return found


def reachable(roots: Iterable[Origin]) -> list[Origin]:
    """Every origin below ``roots``, themselves included, in record order: parents before children."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        for parent in _parents(stack.pop()):
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=_seq)


def _walk(
    roots: Roots,
    capture: tuple[set[Origin], dict[Origin, Any]] | None,
    leaves: list[tuple[Leaf, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
) -> None:
    observers = current().observers
    for observer in observers:
        observer.on_backward_begin(roots)
    pending: dict[Origin, Any] = {}
    for origin, seed in roots:
        pending[origin] = seed if origin not in pending else pending[origin] + seed
    order = reachable(pending)
    useful = None if capture is None else _leading_to(capture[0], order)
    del roots
    while order:
        origin = order.pop()
        gradient = pending.pop(origin, None)
        if gradient is None:
            continue
        for observer in observers:
            observer.on_gradient(origin, gradient)
        if capture is not None and origin in capture[0]:
            capture[1][origin] = gradient
        if isinstance(origin, Leaf):
            leaves.append((origin, gradient))
        elif useful is None or any(parent in useful for parent in _parents(origin)):
            _run_rules(origin, gradient, pending, useful, observers, create_graph=create_graph)
            if origin.plan.keeps_values and not retain_graph:
                origin.saved = FREED


def _run_rules(
    node: Node,
    gradient: Any,
    pending: dict[Origin, Any],
    useful: set[Origin] | None,
    observers: tuple[Observer, ...],
    *,
    create_graph: bool,
) -> None:
    """Run the rule of each input that needs a gradient, and add what it gives to what the parent has so far."""
    saved = node.saved
    if isinstance(saved, Freed):
        raise RuntimeError(_FREED.format(op=node.op.name))
    _check_versions(node, saved)
    plan = node.plan
    values = plan.unpack(node) if create_graph else saved
    for position, rule, needs in plan.rules:
        parent = node.edges[position]
        if parent is None or (useful is not None and parent not in useful):
            continue
        result = rule(gradient, *[values[slot] for slot in needs])
        if result is None:
            continue
        if create_graph:
            result = plan.lift(result)
        full, undone = result, None
        if result.shape != parent.shape:
            undone = _undone(node, position, result.shape, parent.shape)
            result = sum_to(result, parent.shape)
        if result.dtype is not parent.dtype:
            result = result.to(parent.dtype)
        for observer in observers:
            observer.on_rule(node, position, full, result, undone)
        held = pending.get(parent)
        pending[parent] = result if held is None else held + result


def _parents(origin: Origin) -> list[Origin]:
    return [parent for parent in origin.edges if parent is not None] if isinstance(origin, Node) else []


def _leading_to(wanted: set[Origin], order: list[Origin]) -> set[Origin]:
    """The origins among ``order``, parents first, from which a path goes down to one of ``wanted``, those included."""
    useful = set(wanted)
    for origin in order:
        if any(parent in useful for parent in _parents(origin)):
            useful.add(origin)
    return useful


def _seq(origin: Origin) -> int:
    return origin.seq


def _memory(gradient: Any) -> int:
    """The address of the memory behind a gradient: two with the same one must not both become a ``.grad``."""
    raw = getattr(gradient, "data", gradient)
    return int(raw.untyped_storage().data_ptr())


_FREED = (
    "backward through {op} a second time: its saved values were freed by the backward before. "
    "Call backward(retain_graph=True) the first time to keep them, or compute the result anew."
)


def _check_versions(node: Node, saved: tuple[Any, ...]) -> None:
    """An error if a saved value was changed in place since: the gradient would be wrong."""
    for slot, version in node.versions:
        value, name = saved[slot], node.plan.saved_names[slot]
        if value._version != version:
            raise RuntimeError(
                f"the gradient of {node.op.name} needs {name!r} of shape {tuple(value.shape)} as it was (version "
                f"{version}), but an in-place operation has changed it since (version {value._version}). Change a "
                "clone instead, or call backward() before the change."
            )


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

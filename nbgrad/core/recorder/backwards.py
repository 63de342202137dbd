"""A backward of torch's, while a graph is open: hooks on its nodes tell the observers what passes.

The walk from the roots hooks every node once and takes the hooks off again. So what a node was given, and what it gave
to each input, is seen, also where no call of torch made the node.
"""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.engine.broadcast import reduction, sum_to
from nbgrad.core.engine.node import Leaf, Node, Origin
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import State
from nbgrad.core.engine.torch_origins import KEY, leaf_of, node_of, origin_of
from nbgrad.core.recorder.nodes import ACCUMULATES, adopt, origin_in

RawTensor = torch.Tensor


class Target:
    """Where a gradient goes that a node gives one of its inputs.

    Attributes:
        node, position: the op that the node belongs to, and which of its inputs it is; no node where it is none.
        origin: what the gradient arrives at.
        lone: whether nothing else leads there.
        parts: how many nodes of the op give a part of it, which are summed; 1 as a rule.
        waits: whether the gradient is not to be held until it has arrived: that of a leaf may become its ``.grad``
            without a copy, if nobody else holds it.
    """

    __slots__ = ("lone", "node", "origin", "part", "parts", "position", "waits")

    node: Node | None
    origin: Any
    position: int
    lone: bool
    parts: int
    waits: bool
    part: Any


class Passing:
    """The hook of one node: called with the gradients of its inputs and of its outputs."""

    __slots__ = ("outputs", "targets", "walk")

    walk: "Walk"
    outputs: Any
    targets: list[Any]

    def __call__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        walk = self.walk
        if walk.ended:
            return
        own = self.outputs
        if own is not None:
            if type(own) is dict:
                for number, output in own.items():
                    if number < len(outputs) and outputs[number] is not None:
                        walk.arrived(output, outputs[number])
            elif outputs[0] is not None:
                walk.arrived(own, outputs[0])
        target: Target
        for at, target in enumerate(self.targets):
            if target is not None and inputs[at] is not None:
                walk.given(target, inputs[at])


class Walk:
    """One backward of torch's.

    Args:
        state: whose observers are told.
        accumulates: whether leaves get a ``.grad``.
        records: whether the gradients have a history of their own.
    """

    __slots__ = ("accumulates", "counts", "ended", "handles", "observers", "records", "waiting")

    observers: tuple[Observer, ...]

    def __init__(self, state: State, accumulates: bool, records: bool) -> None:
        self.observers = state.observers
        self.accumulates = accumulates
        self.records = records
        self.ended = False
        self.handles: list[Any] = []
        self.counts: dict[Any, int] = {}
        self.waiting: dict[Any, tuple[Target, Any]] = {}  # what a lone target is to get, by its origin

    def begin(self, roots: list[Any]) -> None:
        """Hook every node that leads to ``roots``, nodes of torch's."""
        hooks: list[tuple[Any, Passing]] = []
        seen: set[Any] = set()
        stack: list[tuple[Any, Any, Any]] = [(root, None, None) for root in roots]
        counts = self.counts
        left: list[Any]
        while stack:
            made, owner, left = stack.pop()
            if made in seen:
                continue
            seen.add(made)
            hook = Passing.__new__(Passing)
            hook.walk = self
            hook.targets = targets = []
            if isinstance(made, ACCUMULATES):
                hook.outputs = leaf_of(made.variable)
                hooks.append((made, hook))
                continue
            known = made.metadata.get(KEY)
            hook.outputs = known
            if known is not None:
                owner = known if type(known) is Node else next(iter(known.values())).node
                left = list(owner.edges)
            for after, number in made.next_functions:
                if after is None:
                    targets.append(None)
                    continue
                origin: Any = None
                if isinstance(after, ACCUMULATES):
                    origin = leaf_of(after.variable)
                else:
                    below = after.metadata.get(KEY)
                    origin = below.get(number) if type(below) is dict else below
                    if below is None:
                        stack.append((after, owner, left))
                        targets.append(None)
                        continue
                if after not in seen:
                    stack.append((after, None, None))
                if origin is None:
                    targets.append(None)
                    continue
                counts[origin] = counts.get(origin, 0) + 1
                target = Target.__new__(Target)
                target.node, target.origin, target.position, target.parts = owner, origin, -1, 1
                target.part, target.lone, target.waits = None, False, False
                for position, edge in enumerate(left):
                    if edge is origin:
                        target.position = position
                        left[position] = None
                        break
                targets.append(target)
            hooks.append((made, hook))
        handles = self.handles
        target: Target
        for made, hook in hooks:
            for target in hook.targets:
                if target is not None and target.position >= 0 and counts[target.origin] == 1:
                    target.lone = True
                    target.waits = (
                        self.accumulates
                        and isinstance(target.origin, Leaf)
                        and not getattr(target.origin.ref(), "_backward_hooks", None)
                    )
            handles.append(made.register_hook(hook))

    def arrived(self, origin: Any, gradient: Any) -> None:
        """The gradient of what ``origin`` made is complete."""
        if self.records and gradient.requires_grad:
            gradient = gradient.detach()
        lone = False
        known = self.waiting.pop(origin, None)
        if known is not None:
            target: Target = known[0]
            given = known[1]
            if given is None or given is gradient or given.shape != origin.shape or given.dtype is not gradient.dtype:
                self.told(target, gradient if given is None else given, gradient)
                lone = True
            else:  # a hook has changed it
                self.told(target, given, given)
        observer: Observer
        for observer in self.observers:
            observer.on_gradient(origin, gradient, lone)

    def given(self, target: Target, gradient: Any) -> None:
        """A node gave one of its inputs ``gradient``, before a broadcast is undone."""
        if target.position < 0:
            return
        if self.records and gradient.requires_grad:
            gradient = gradient.detach()
        if target.lone:
            held = None if target.waits and gradient.shape == target.origin.shape else gradient
            self.waiting[target.origin] = (target, held)
            return
        self.told(target, gradient, _reduced(gradient, target.origin.shape))

    def told(self, target: Target, gradient: Any, reduced: Any) -> None:
        """Tell the observers what a rule gave; where the op itself stretched the input, that too is a reduction."""
        node: Node = target.node
        op: OpInfo = node.op
        position, shape = target.position, reduced.shape
        undone = None
        if gradient.shape != shape:
            undone = reduction(tuple(gradient.shape), tuple(shape))
        elif position in op.broadcasts:
            if node.shape != shape:  # torch's rule has summed
                undone = reduction(tuple(node.shape), tuple(shape))
        elif op.sums and op.inputs[position] in op.sums:
            undone = op.sums[op.inputs[position]](tuple(node.shape), tuple(shape))
        observer: Observer
        for observer in self.observers:
            observer.on_rule(node, target.position, gradient, reduced, undone)

    def captured(self, tensor: Any, gradient: Any) -> None:
        """``gradient`` is what the caller gets for ``tensor``, at which torch ended its walk."""
        origin = origin_of(tensor)
        if (gradient is not None and origin is not None and origin in self.waiting) or self.counts.get(origin):
            self.arrived(origin, gradient)

    def end(self) -> None:
        """Take the hooks off."""
        self.ended = True
        for one in self.handles:
            one.remove()
        self.handles = []
        for target, given in list(self.waiting.values()):
            if given is not None:
                self.told(target, given, _reduced(given, target.origin.shape))
        self.waiting = {}


def _reduced(gradient: Any, shape: Any) -> Any:
    return gradient if gradient.shape == shape else sum_to(gradient, gradient.shape, shape)


def recorded(run: Callable[..., Any], state: State, roots: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``run(roots, *args, **kwargs)`` gives, torch's backward, while the observers of ``state`` are told of it.

    Args:
        run: torch's ``_engine_run_backward``.
        state: the current one.
        roots: tensors, or gradient edges.
        args: the gradients of the roots, whether to retain the graph, whether to make a graph, the inputs.
        kwargs: ``accumulate_grad``, whether leaves get a ``.grad``.
    """
    seeds, _, records, inputs = args[:4]
    accumulates = bool(kwargs.get("accumulate_grad", False))
    nodes: list[Any] = []
    begun: list[tuple[Origin, Any]] = []
    for root, seed in zip(roots, seeds, strict=False):
        made, number = _edge(root)
        nodes.append(made)
        if isinstance(made, ACCUMULATES):
            origin: Any = leaf_of(made.variable)
        elif isinstance(root, RawTensor):
            origin = origin_in(root, state)
        else:
            if KEY not in made.metadata:
                adopt(made, state)
            origin = node_of(made, number)
        if origin is not None:
            begun.append((origin, seed))
    walk = Walk(state, accumulates, bool(records))
    observer: Observer
    for observer in state.observers:
        observer.on_backward_begin(begun)
    for origin, _ in begun:
        walk.counts[origin] = 1
    try:
        walk.begin(nodes)
        result = run(roots, *args, **kwargs)
        if inputs:
            gradients = result if not accumulates else ()
            for tensor, gradient in zip(inputs, gradients, strict=False):
                if isinstance(tensor, RawTensor):
                    walk.captured(tensor, gradient)
    except Exception as error:
        walk.end()
        for observer in state.observers:
            observer.on_backward_error(begun[0][0], error)
        raise
    finally:
        walk.end()
    for observer in state.observers:
        observer.on_backward_end()
    return result


def _edge(root: Any) -> tuple[Any, int]:
    if not isinstance(root, RawTensor):
        return root[0], root[1]
    if root.grad_fn is None:
        edge = torch.autograd.graph.get_gradient_edge(root)
        return edge.node, edge.output_nr
    return root.grad_fn, root.output_nr

"""A backward of torch's, while a graph is open: hooks on its nodes notify the observers of the gradients.

The walk from the roots meets every node and hooks it; in the end the hooks are removed. So the observers get the
gradients that arrived at a node, and those that the node gave to each input. This also holds for a node that was made
by no call that nbgrad has seen. A backward whose nodes are known before it runs needs few hooks: ``Foreseen``.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import _HookMixin
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.function_mode import is_heard, mute, traced, unmute
from nbgrad.core.engine.broadcast import reduction, sum_to
from nbgrad.core.engine.clock import CLOCKS
from nbgrad.core.engine.ended import note_retained
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Leaf, Node, Origin, Vertex, next_seq
from nbgrad.core.engine.observer import Observer, torch_followers
from nbgrad.core.engine.state import State
from nbgrad.core.engine.torch_origins import KEY, kind_of, known_origin, leaf_of, node_of, origin_of, owner_of
from nbgrad.core.recorder.foreseen import TAPS, Foreseen, NodeHook, Share, position_in, sum_of
from nbgrad.core.recorder.functions import unlisted
from nbgrad.core.recorder.node_clock import NodeClock
from nbgrad.core.recorder.nodes import ACCUMULATES, adopt, named, origin_in
from nbgrad.core.recorder.refusals import explain_failure, refused, saved_by

RawTensor = torch.Tensor
_processes: Any = torch.distributed.is_initialized if torch.distributed.is_available() else bool
"""Whether others may change a gradient before it is a ``.grad``, as torch's DistributedDataParallel does."""


class Target:
    """The target of a gradient that a node gives to one of its inputs.

    Attributes:
        at: which input of the node it is.
        node, position: the op that the node belongs to, and which of its inputs it is.
        origin: the origin at which the gradient arrives.
        lone: whether nothing else leads there.
        waits: whether nothing here may hold the gradient before it has arrived. So it is for a leaf: torch makes the
            gradient its ``.grad`` without a copy if nothing else holds it.
        giver: the hook of the node.
        receiver: the hook of the node that gets the gradient; None for a node with several outputs.
        share: the whole gradient of which this one is a part, if several edges of the op lead to the same input;
            otherwise None.
        after: the next target of the node.
    """

    __slots__ = ("after", "at", "giver", "lone", "node", "origin", "position", "receiver", "share", "waits")

    at: int
    node: Node
    origin: Any
    position: int
    lone: bool
    waits: bool
    giver: "Passing"
    receiver: "Passing | None"
    share: Share | None
    after: "Target | None"


class Passing(NodeHook):
    """The hook of one node: called with the gradients of its inputs and of its outputs.

    Attributes:
        walk: the backward that it is a hook of; None once that has ended.
        made: the node.
        outputs: the origins of the outputs of the node; None if the node is only a part of an op.
        target: the first of the targets.
        owner, left: for a part of an op: that op, and its edges that have no target yet.
        count: how many edges lead to the node; one more where the backward begins.
        source: the target that leads here, if it is the only one.
        given: the gradient from ``source``, until it has arrived.
    """

    __slots__ = ("count", "given", "left", "made", "outputs", "owner", "source", "target", "walk")

    walk: "TorchBackward | None"
    made: Any
    outputs: Any
    target: Target | None
    owner: Any
    left: list[Any]
    count: int
    source: Target | None
    given: Any

    def __call__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        walk = self.walk
        if walk is None:
            return
        guard = mute(is_heard())
        try:
            self._passed(walk, inputs, outputs)
        except Exception as error:
            if not walk.lost(error):
                raise
        finally:
            unmute(guard)

    def _passed(self, walk: "TorchBackward", inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """Take what arrived at the node, and what the node gave to its inputs."""
        own = self.outputs
        if own is not None:
            if type(own) is dict:
                for number, output in own.items():
                    if number < len(outputs) and outputs[number] is not None:
                        walk.arrived(output, outputs[number], None)
            elif outputs[0] is not None:
                walk.arrived(own, outputs[0], self)
        target = self.target
        while target is not None:
            gradient = inputs[target.at]
            if gradient is not None:
                walk.given(target, gradient)
            elif target.share is not None:
                walk.part(target, target.share, None)
            target = target.after


def register(hooks: Any, hook: Any) -> tuple[Any, Any]:
    """Torch's ``_register_hook``, faster for hooks of ours: it makes no handle, which takes torch half of the time."""
    if not isinstance(hook, NodeHook):
        return torchs_register(hooks, hook)  # type: ignore[no-any-return]
    table: Any = OrderedDict() if hooks is None else hooks  # torch makes weak references to it, as to no dict
    ours: NodeHook = hook
    ours.table = table
    table[hook] = hook
    return table, hook


torchs_register: Any = _HookMixin._register_hook


class Quiet:
    """The time since which no hook was registered that could change a gradient.

    Torch does not say which tensors have hooks, but it counts all that are registered.

    Attributes:
        handles: how many there were.
        seq: all ops with a larger number have none.
    """

    __slots__ = ("handles", "seq")

    def __init__(self) -> None:
        self.handles = -1
        self.seq = 0

    def since(self) -> int:
        """The number of the last op that may have a hook."""
        handles = RemovableHandle.next_id
        if handles != self.handles:
            self.seq = next_seq()  # first: another thread may ask
            self.handles = handles
        return self.seq


QUIET = Quiet()


class TorchBackward:
    """One backward of torch's.

    Args:
        state: the state whose observers are notified.
        accumulates: whether leaves get a ``.grad``.
        records: whether the gradients have a history of their own.

    Attributes:
        counts: how many targets lead to each output of a node with several outputs.
        waiting: by such an output, the lone target that leads there, and its gradient.
        leaves: the gradients of leaves that arrived.
        left: by op with several outputs, its edges that have no target yet: each output may have a node of its own.
        inside: the gradients of leaves from backwards inside of this one.
        roots: the tensors from which it starts, each with its origin.
        late: whether the nodes got their hooks while it ran, so that some may have run without one.
        shares: the gradients that come in parts, each with one of the targets.
    """

    __slots__ = (
        *("accumulates", "counts", "hooks", "inside", "late", "leaves", "left", "observers", "records", "roots"),
        *("shares", "waiting"),
    )

    observers: tuple[Observer, ...]

    def __init__(self, state: State, accumulates: bool, records: bool) -> None:
        self.observers = torch_followers(state.observers)
        self.accumulates = accumulates
        self.records = records
        self.hooks: list[Any] = []
        self.counts: dict[Any, int] = {}
        self.waiting: dict[Any, tuple[Target, Any]] = {}
        self.leaves: dict[Any, Any] = {}
        self.left: dict[Node, list[Any]] = {}
        self.inside: dict[Any, Any] = {}
        self.late = False
        self.shares: list[tuple[Share, Target]] = []
        self.roots: list[tuple[Any, Any]] = []

    def lost(self, error: Exception) -> bool:
        """Whether the backward may go on after ``error``, an error of ours, which a graph remembers."""
        return taken(self.observers, error, "a gradient")

    def foreseen(self, begun: list[tuple[Any, Any]]) -> Foreseen | None:
        """The backward as it is known before it runs, if the observers need no more than that."""
        if not self.accumulates or self.records or _processes():
            return None
        observer: Observer
        follows = False
        for observer in self.observers:
            if observer.checks_gradients():
                return None
            follows = follows or observer.follows_gradients()
        found = Foreseen(self, self.observers, follows, QUIET.since())
        return found if found.reaches([origin for origin, _ in begun]) else None

    def take_over(self) -> None:
        """The user registered a hook in a backward that was foreseen: hook every node that has not run yet."""
        self.begin([(_edge(root)[0], origin) for root, origin in self.roots])
        self.late = True

    def begin(self, roots: list[tuple[Any, Any]]) -> None:
        """Hook every node that leads to ``roots``: the nodes of torch's, each with the origin of ours."""
        met: dict[Any, Any] = {}  # the hooks, by node
        hook: Passing
        for made, origin in roots:
            hook = met.get(made) or self._meet(made, met)
            hook.count = 1
            if type(hook.outputs) is dict:
                self.counts[origin] = 1
        at = 0
        while at < len(self.hooks):  # ``_aim`` appends the hooks of new nodes
            hook = self.hooks[at]
            at += 1
            if type(hook.made) is not ACCUMULATES:
                self._aim(hook, met)
        for hook in self.hooks:
            self._settle(hook)
            hook.made.register_hook(hook)

    def _meet(self, made: Any, met: dict[Any, Any]) -> Passing:
        """The hook of the node ``made``, which is seen for the first time."""
        hook = Passing.__new__(Passing)
        hook.walk, hook.made, hook.target, hook.table, hook.source, hook.given = self, made, None, None, None, None
        hook.count, hook.owner = 0, None
        if type(made) is ACCUMULATES:
            hook.outputs = leaf_of(made.variable)
        else:
            node = made  # the same object: compiled code knows the type of this name, so it needs no look-up
            metadata = node.metadata
            hook.outputs = metadata.get(KEY)
        met[made] = hook
        self.hooks.append(hook)
        return hook

    def _aim(self, hook: Passing, met: dict[Any, Any]) -> None:
        """Find the targets of the node of ``hook``; new nodes get their hooks."""
        known, counts, at = hook.outputs, self.counts, -1
        owner: Node
        left: list[Any]
        receiver: Passing
        if known is None:
            owner, left = hook.owner, hook.left
        else:
            owner = owner_of(known)
            left = owner.edges[:] if type(known) is Node else self.left.setdefault(owner, owner.edges[:])
        made = hook.made
        for after, number in made.next_functions:
            at += 1
            if after is None:
                continue
            receiver = met.get(after) or self._meet(after, met)
            origin = receiver.outputs
            if origin is None:
                # A node that belongs to two ops gives no op a target: nothing says which op gave which part.
                receiver.left = left if receiver.owner is None or receiver.owner is owner else []
                receiver.owner = owner
                continue
            several = type(origin) is dict
            if several:
                origin = origin.get(number)
                if origin is None:
                    continue
                counts[origin] = counts.get(origin, 0) + 1
            else:
                receiver.count += 1
            position, share = position_in(left, origin), None
            if position < 0:
                first = self._target(owner, origin)
                if first is None:
                    continue
                position, share = first.position, self._share(first)
            target = Target.__new__(Target)
            target.at, target.node, target.origin, target.position = at, owner, origin, position
            target.lone = target.waits = False
            target.receiver = None if several else receiver
            target.share, target.giver, target.after = share, hook, hook.target
            hook.target = target

    def _target(self, owner: Node, origin: Any) -> Target | None:
        """The target with the largest position that ``owner`` gives a gradient at ``origin``; None for none."""
        hook: Passing
        found: Target | None = None
        for hook in self.hooks:
            target = hook.target
            while target is not None:
                if target.node is owner and target.origin is origin:
                    found = target if found is None or target.position > found.position else found
                target = target.after
        return found

    def _share(self, first: Target) -> Share:
        """Note one more part of the gradient of ``first``: the op gives this input a gradient in several places."""
        share = first.share
        if share is None:
            share = first.share = Share.__new__(Share)
            share.node, share.position, share.origin = first.node, first.position, first.origin
            share.missing, share.total = 1, None
            self.shares.append((share, first))
        share.missing += 1
        return share

    def _settle(self, hook: Passing) -> None:
        """Find out which targets of ``hook`` are lone: by now it is known how many edges lead to each."""
        receiver: Passing
        target = hook.target
        while target is not None:
            if target.receiver is None:
                target.lone = self.counts[target.origin] == 1
            else:
                receiver = target.receiver
                if receiver.count == 1:
                    target.lone = True
                    receiver.source = target
                    origin = target.origin
                    target.waits = self.accumulates and isinstance(origin, Leaf) and not _hooked(origin)
            target = target.after

    def arrived(self, origin: Any, gradient: Any, hook: Passing | None) -> None:
        """The gradient of the tensor of ``origin`` is complete.

        Args:
            origin: that of the tensor.
            gradient: the gradient.
            hook: the ``Passing`` of the node, if the node has one output.
        """
        if self.records and gradient.requires_grad:
            gradient = gradient.detach()
        lone, target, given = False, None, None
        if hook is None:
            known = self.waiting.pop(origin, None)
            if known is not None:
                target, given = known[0], known[1]
        elif hook.source is not None:
            target, given = hook.source, hook.given
            hook.given = None
            if given is None and not target.waits and self.late:
                target = None  # its giver ran without a hook, and one of the user's may have changed the gradient
        if target is not None:
            if given is None or given is gradient or given.shape != origin.shape or given.dtype is not gradient.dtype:
                self.told(target, gradient if given is None else given, gradient)
                lone = True
            else:  # a hook has changed it
                self.told(target, given, given)
        if type(origin) is Leaf:
            self.leaves[origin] = gradient
        observer: Observer
        for observer in self.observers:
            observer.on_gradient(origin, gradient, lone)

    def brought(self, node: Node, leaf: Leaf, gradient: Any) -> None:
        """A backward that the rule of ``node`` runs, as that of a checkpoint does, gave ``leaf`` a ``gradient``."""
        if gradient.requires_grad:
            gradient = gradient.detach()
        known = self.inside.get(leaf)
        self.inside[leaf] = gradient if known is None else known + gradient
        position = next((at for at, edge in enumerate(node.edges) if edge is leaf), len(node.edges))
        if position == len(node.edges):
            node.edges.append(leaf)
            node.op = unlisted(node.op.name, len(node.edges), node.op.several)
            for observer in self.observers:
                observer.on_torch_inputs(node)
        for observer in self.observers:
            observer.on_rule(node, position, gradient, gradient, None)

    def given(self, target: Target, gradient: Any) -> None:
        """A node gave one of its inputs ``gradient``, before a broadcast is undone."""
        if self.records and gradient.requires_grad:
            gradient = gradient.detach()
        origin: Vertex = target.origin
        receiver: Passing
        if target.share is not None:
            self.part(target, target.share, gradient)
        elif not target.lone:
            self.told(target, gradient, _reduced(gradient, origin.shape))
        elif target.receiver is None:
            self.waiting[origin] = (target, gradient)
        else:
            receiver = target.receiver
            receiver.given = None if target.waits and gradient.shape == origin.shape else gradient

    def part(self, target: Target, share: Share, gradient: Any) -> None:
        """A node gave its part of a gradient, or None. With the last part the gradient is whole."""
        self._whole(share.added(gradient), target)

    def _end_shares(self) -> None:
        """Notify the observers of gradients with a part that no node gave: there torch has no gradient.

        If the nodes got their hooks late, nbgrad may have missed a part.
        """
        shares, self.shares = self.shares, []
        for share, first in [] if self.late else shares:
            self._whole(share.taken(), first)

    def _whole(self, total: Any, target: Target) -> None:
        """Notify the observers of ``total``, the sum of the parts of a gradient; None if it is not known yet."""
        if total is not None:
            self.told(target, total, _reduced(total, target.origin.shape))

    def told(self, target: Target, gradient: Any, reduced: Any) -> None:
        """Notify the observers of the result of a rule; if the op itself stretched the input, with a reduction."""
        node: Node = target.node
        position = target.position
        origin: Vertex = target.origin
        shape = origin.shape
        if gradient is not reduced and gradient.shape != reduced.shape:
            undone = reduction(tuple(gradient.shape), tuple(shape))
        else:  # torch's rule may have summed
            undone = sum_of(node, position, shape)
        observer: Observer
        for observer in self.observers:
            observer.on_rule(node, position, gradient, reduced, undone)

    def captured(self, inputs: tuple[Any, ...], gradients: tuple[Any, ...]) -> None:
        """``gradients`` are the results for the tensors ``inputs``, at which torch ended its walk."""
        hooks = {hook.outputs: hook for hook in self.hooks if isinstance(hook.outputs, Node | Leaf)}
        for tensor, gradient in zip(inputs, gradients, strict=False):
            origin = origin_of(tensor) if isinstance(tensor, RawTensor) and gradient is not None else None
            if origin in hooks:
                self.arrived(origin, gradient, hooks[origin])
            elif origin in self.counts:
                self.arrived(origin, gradient, None)

    def end(self) -> None:
        """Take the hooks off."""
        hook: Passing
        for hook in self.hooks:
            if hook.given is not None and hook.source is not None:
                self.waiting[hook.outputs] = (hook.source, hook.given)
        for hook in self.hooks:
            hook.walk = None
            hook.take_off()
            hook.given = hook.made = None
            hook.target = hook.source = None  # hooks and targets are in cycles
        self.hooks, self.left = [], {}
        self._end_shares()
        for target, given in list(self.waiting.values()):
            if given is not None:
                self.told(target, given, _reduced(given, target.origin.shape))
        self.waiting = {}
        for leaf, gradient in self.inside.items():
            outside = self.leaves.get(leaf)
            for observer in self.observers:
                observer.on_gradient(leaf, gradient if outside is None else gradient + outside, False)
        self.inside, self.leaves = {}, {}

    def abandon(self) -> None:
        """Take the hooks off, and tell nothing more."""
        hook: Passing
        for hook in self.hooks:
            hook.walk = None
            hook.take_off()
        self.hooks = []


def _hooked(leaf: Leaf) -> bool:
    """Whether the user has a hook on ``leaf``, which may change the gradient that arrives."""
    return bool(getattr(leaf.ref(), "_backward_hooks", None))


def _reduced(gradient: Any, shape: Any) -> Any:
    made = gradient  # the same object: compiled code knows the type of this name, so it needs no look-up
    if made.is_nested or made.shape == shape:  # of a nested one no broadcast is known
        return gradient
    return sum_to(gradient, gradient.shape, shape)


class Inside:
    """The hook of a leaf in a backward that runs inside of another one."""

    __slots__ = ("leaf", "node", "walk")

    def __init__(self, walk: TorchBackward, node: Node, leaf: Leaf) -> None:
        self.walk, self.node, self.leaf = walk, node, leaf

    def __call__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:  # noqa: ARG002  # torch gives both
        if outputs[0] is not None:
            guard = mute(is_heard())
            try:
                self.walk.brought(self.node, self.leaf, outputs[0])
            except Exception as error:
                if not self.walk.lost(error):
                    raise
            finally:
                unmute(guard)


def recorded_inside(run: Callable[..., Any], walk: TorchBackward, roots: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A backward that a rule runs in the middle of ``walk``: its gradients of leaves belong to ``walk``."""
    handles: list[Any] = []
    try:
        if kwargs.get("accumulate_grad"):
            _hook_leaves(walk, roots, handles)
    except Exception as error:
        if not walk.lost(error):
            raise
    try:
        return run(roots, *args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()


def _hook_leaves(walk: TorchBackward, roots: Any, handles: list[Any]) -> None:
    """Put hooks on the leaves that a backward inside of ``walk`` reaches from ``roots``; add their ``handles``."""
    made: Any = torch._C._current_autograd_node()
    known = None if made is None else made.metadata.get(KEY)
    if known is None:
        return
    node = owner_of(known)
    seen: set[Any] = set()
    stack = [_edge(root)[0] for root in roots]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            if type(one) is ACCUMULATES and (known_origin(one.variable) or kind_of(one.variable) == "parameter"):
                handles.append(one.register_hook(Inside(walk, node, leaf_of(one.variable))))
            stack += [after for after, _ in one.next_functions if after is not None]


def recorded(
    walk: TorchBackward, run: Callable[..., Any], state: State, roots: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """The result of ``run(roots, *args, **kwargs)``, torch's backward, with the observers notified.

    Args:
        walk: the walk that watches it.
        run: torch's ``_engine_run_backward``.
        state: the current one.
        roots: tensors, or gradient edges.
        args: the gradients of the roots, whether to retain the graph, whether to make a graph, the inputs.
        kwargs: ``accumulate_grad``, whether leaves get a ``.grad``.
    """
    if traced():
        return run(roots, *args, **kwargs)
    for root in roots:
        if isinstance(root, RawTensor) and not root.requires_grad:
            return refused(root, run, roots, args, kwargs)
    begun = _tried(walk, _begun, walk, state, roots, args)
    if begun is None:
        return run(roots, *args, **kwargs)
    observer: Observer
    if CLOCKS:
        run = _clocked(walk, run)
    try:
        foreseen = None if args[3] else _tried(walk, _foreseen, walk, begun)
        if foreseen is None:
            result = _hooked_run(walk, begun, run, roots, args, kwargs)
        else:
            walk.roots = [(root, origin) for root, (origin, _) in zip(roots, begun, strict=False)]
            result = _foreseen_run(walk, foreseen, run, roots, args, kwargs)
    except Exception as error:
        _tried(walk, _explain, roots, begun, error)
        for observer in walk.observers:
            observer.on_backward_error(begun[0][0], error)
        raise
    for observer in walk.observers:
        observer.on_backward_end()
    note_retained(bool(args[1]))
    return result


def _clocked(walk: TorchBackward, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run``, torch's backward, with hooks on its nodes that tell the clocks among the observers how long they run."""
    observers: tuple[Any, ...] = walk.observers
    clocks: list[Any] = [one for one in observers if one in CLOCKS]

    def timed(roots: Any, *args: Any, **kwargs: Any) -> Any:
        clock = NodeClock(clocks)
        try:
            _tried(walk, clock.begin, list(dict.fromkeys(_edge(root)[0] for root in roots)))
            return run(roots, *args, **kwargs)
        finally:
            clock.end()

    return timed if clocks else run


def _tried(walk: TorchBackward, run: Callable[..., Any], *args: Any) -> Any:
    """``run(*args)``, a part of ours; None after an error that lets the backward go on without that part."""
    try:
        return run(*args)
    except Exception as error:
        if not walk.lost(error):
            raise
        return None


def _explain(roots: Any, begun: list[tuple[Origin, Any]], error: Exception) -> None:
    """Say with ``error`` where the op ran that raised it, and what to write instead."""
    explain_failure(error, [_edge(root)[0] for root in roots], [origin for origin, _ in begun])


def _begun(walk: TorchBackward, state: State, roots: Any, args: Any) -> Any:
    """Notify the observers that the backward begins: its roots."""
    observer: Observer
    begun: list[tuple[Origin, Any]] = [(_root(root, state), seed) for root, seed in zip(roots, args[0], strict=False)]
    for observer in walk.observers:
        observer.on_backward_begin(begun)
        if args[3]:
            observer.on_backward_inputs(named(args[3]), bool(args[2]))
        if observer.began_badly():
            observer.on_bad_loss(saved_by([_edge(root)[0] for root in roots]))
    return begun


def _foreseen(walk: TorchBackward, begun: list[tuple[Origin, Any]]) -> Foreseen | None:
    """The backward as it is known before it runs. After an error of ours it runs with hooks."""
    return walk.foreseen(begun)


def _foreseen_run(
    walk: TorchBackward, foreseen: Foreseen, run: Callable[..., Any], roots: Any, args: Any, kwargs: Any
) -> Any:
    """The result of ``run``, without hooks of ours as long as the user registers none."""
    try:
        _tried(walk, _listen, foreseen)
        return run(roots, *args, **kwargs)
    finally:
        try:
            foreseen.end()
            if foreseen.shaken or walk.inside:
                walk.end()
        except Exception as error:
            TAPS.pop(foreseen, None)
            walk.abandon()
            if not walk.lost(error):
                raise


def _listen(foreseen: Foreseen) -> None:
    """Let torch tell ``foreseen`` what arrives at the nodes."""
    foreseen.begin()


def _hooked_run(
    walk: TorchBackward, begun: list[tuple[Origin, Any]], run: Callable[..., Any], roots: Any, args: Any, kwargs: Any
) -> Any:
    """The result of ``run``, with a hook on every node while it runs."""
    try:
        _tried(walk, _begin, walk, begun, roots)
        result = run(roots, *args, **kwargs)
        if args[3] and not walk.accumulates:
            _tried(walk, _capture, walk, args[3], result)
    finally:
        try:
            walk.end()
        except Exception as error:
            walk.abandon()
            if not walk.lost(error):
                raise
    return result


def _begin(walk: TorchBackward, begun: list[tuple[Origin, Any]], roots: Any) -> None:
    """Hook the nodes. After an error of ours some have no hook, and their gradients are missing."""
    walk.begin([(_edge(root)[0], origin) for root, (origin, _) in zip(roots, begun, strict=False)])


def _capture(walk: TorchBackward, inputs: Any, result: Any) -> None:
    """Notify the observers of the gradients that the caller gets."""
    walk.captured(inputs, result)


def _root(root: Any, state: State) -> Any:
    """The origin of a tensor, or a gradient edge, that a backward starts from."""
    made, number = _edge(root)
    if type(made) is ACCUMULATES:
        return leaf_of(made.variable)
    if isinstance(root, RawTensor):
        return origin_in(root, state)
    if KEY not in made.metadata:
        adopt(made, state)
    return node_of(made, number)


def _edge(root: Any) -> tuple[Any, int]:
    if not isinstance(root, RawTensor):
        return root[0], root[1]
    if root.grad_fn is None:
        edge = torch.autograd.graph.get_gradient_edge(root)
        return edge.node, edge.output_nr
    return root.grad_fn, root.output_nr

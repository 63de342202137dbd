"""A backward of torch's that needs few hooks: nbgrad's nodes say before it runs which nodes it will reach.

A node of torch's is tapped when it is made. Then torch calls us with each gradient that arrives there. If a single op
leads to the node, the gradient is the one that this op returned. If several ops lead to it, we need the gradient that
each of them gives. If an op passes its own gradient on unchanged, its tap is enough. Any other op gets a hook when its
own gradient arrives. An op with several outputs always gets a hook, because its tap sees only the gradient of the first
output. The gradient of a leaf is its ``.grad``, which is read when the backward has ended.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.function_mode import is_heard, mute, unmute
from nbgrad.core.engine.broadcast import reduction
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Output, Vertex
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.torch_origins import KEY, leaf_of, owner_of
from nbgrad.core.recorder.functions import Unlisted
from nbgrad.core.recorder.nodes import ACCUMULATES, edge_end

_IDENTITIES = {"AddBackward0": 2, "SubBackward0": 1}
"""Torch's nodes that pass their gradient on unchanged, and the number of inputs, from the first, that get it."""

_KINDS: dict[type, int] = {}
"""The number in ``_IDENTITIES`` for each class of nodes that was met; 0 for a class that is not there."""

_CAST = "ToCopyBackward0"
"""Torch's node of a cast. Autocast keeps that of a weight, which then belongs to several ops: what they give to it is
what they give to the weight."""

_HANDING_ON = frozenset(one.removesuffix("Backward0").lower() + end for one in _IDENTITIES for end in ("", "_"))
"""The rows of those nodes."""

_current: Any = torch._C._current_autograd_node
_task: Any = torch._C._current_graph_task_id

TAPS: dict[Any, Any] = {}
"""The backwards that run now. Torch calls each of them when a gradient arrives at a tapped node. All nodes share it."""

_TAP: list[Any] = []
"""A tensor whose hooks are ``TAPS``, made when the first node is tapped: torch takes a node's hooks from a tensor."""


def tap(made: Any, node: Node) -> None:
    """Make torch call ``TAPS`` with each gradient that arrives at ``made``, torch's node for ``node``.

    A tap takes a third of the instructions of a hook. It cannot be removed, and is there for all backwards.
    """
    if not _TAP:
        holder = torch.zeros((), requires_grad=True)
        holder._backward_hooks = TAPS  # torch wants an OrderedDict, and needs a dict
        _TAP.append(holder)
    made._register_hook_dict(_TAP[0])
    op: OpInfo = node.op
    node.tapped = 1 + (_handed_on(made, node) if op.name in _HANDING_ON else 0)


def _handed_on(made: Any, node: Node) -> int:
    """The number of inputs, counted from the first, to which ``made`` passes its gradient on unchanged."""
    kind = type(made)
    count = _KINDS.get(kind)
    if count is None:
        count = _KINDS[kind] = _IDENTITIES.get(kind.__name__, 0)
    op: OpInfo = node.op
    return 0 if node.settings is not op.defaults and node.settings.get("alpha", 1) != 1 else count


def _hands_on(node: Node, position: int, origin: Any) -> bool:
    """Whether the tapped ``node`` passes its gradient unchanged to the input at ``position``, with that ``origin``."""
    reached: Vertex = origin
    same = reached.shape is node.shape or reached.shape == node.shape
    return position < node.tapped - 1 and same and reached.dtype is node.dtype


class Share:
    """The gradient that an op gives to a tensor that gets several.

    Attributes:
        node, position: the op, and the position of the tensor among its inputs.
        origin: that of the tensor.
        missing: how many nodes of torch's graph that belong to the op have not given their part yet.
        total: the sum of the parts that were given.
    """

    __slots__ = ("missing", "node", "origin", "position", "total")

    node: Node
    position: int
    origin: Any
    missing: int
    total: Any

    def added(self, gradient: Any) -> Any:
        """Add one more part, or None where torch has no gradient. The sum, if this is the last part; otherwise None."""
        if gradient is not None:
            self.total = gradient if self.total is None else self.total + gradient
        self.missing -= 1
        return None if self.missing else self.taken()

    def taken(self) -> Any:
        """The sum of the parts that were given and not taken yet; None for none."""
        total, self.total = self.total, None
        return total


class NodeHook:
    """A hook of ours on one of torch's nodes.

    Attributes:
        table: torch's table of the hooks of the node, which this hook is in.
    """

    __slots__ = ("table",)

    table: Any

    def take_off(self) -> None:
        """Take it off the node."""
        if self.table is not None:
            self.table.pop(self, None)
        self.table = None


class Giving(NodeHook):
    """The hook of a node that gives a gradient, or a part of one, to a tensor that gets several.

    The node of an op with several outputs always has this hook, even if ``shares`` is empty.

    Attributes:
        backward: the backward that it is a hook of; None once that has ended.
        shares: for each such gradient its position among those that the node gives, and the ``Share``.
        outputs: the outputs of the op by number, if it has several; otherwise None.
        made: the node, if it is not that of the result of the op; otherwise None.
    """

    __slots__ = ("backward", "made", "outputs", "shares")

    backward: "Foreseen | None"
    shares: list[tuple[int, Share]]
    outputs: dict[int, Output] | None
    made: Any

    def __call__(self, given: tuple[Any, ...], arrived: tuple[Any, ...]) -> None:
        backward = self.backward
        if backward is None or backward.task != _task():
            return
        guard = mute(is_heard())
        try:
            if self.outputs is not None:
                backward.brought(self.outputs, arrived)
            if not backward.shaken:
                backward.gave(self.shares, given)
        except Exception as error:
            if not taken(backward.observers, error, "a gradient"):
                raise
        finally:
            unmute(guard)


_NOTHING, _HANDED_ON, _HOOKED = 0, 1, 2  # compiled to numbers of C's


class Passage:
    """An op, one of several outputs of an op, or a leaf that a backward will reach.

    Attributes:
        origin: the node of the op, the output, or the leaf.
        giver, position: the first op whose rule gives it a gradient, and its position among the inputs of that op.
        count: the number of rules that give it a gradient; one more for a tensor at which the backward begins.
        passed: whether the backward has reached it.
        shares: how we see the gradients that the op gives to tensors with several: ``_HANDED_ON``, they equal the op's
            own gradient; ``_HOOKED``, a hook sees them; ``_NOTHING``, there are none.
        tensor: the tensor of a leaf; None for an op.
    """

    __slots__ = ("count", "giver", "origin", "passed", "position", "shares", "tensor")

    count: int
    giver: Node | None
    origin: Any
    passed: bool
    position: int
    shares: int
    tensor: Any


class Foreseen:
    """A backward of torch's whose nodes are known before it runs.

    All its ops give each of their inputs a gradient: they belong to rows of the op table, or torch's graph shows it.
    No leaf has a ``.grad`` before it. If the observers need the gradients themselves, two more conditions hold: every
    node is tapped, and no hook of the user's may change a gradient.

    Args:
        walk: the backward with hooks that takes over, if a hook of the user's comes while it runs.
        observers: the observers that are notified.
        follows: whether they need the gradients of the results of ops.
        quiet: all ops with a larger number have no hook of the user's.

    Attributes:
        shaken: whether a hook of the user's has come.
        task: torch's number of this backward, from the first tap on. Another backward may run inside of it, or in
            another thread, on the same nodes.
    """

    __slots__ = (
        *("follows", "handles", "hooks", "inner", "observers", "quiet", "shaken", "shared", "stops", "task", "waiting"),
        "walk",
    )

    observers: tuple[Observer, ...]

    def __init__(self, walk: Any, observers: tuple[Observer, ...], follows: bool, quiet: int) -> None:
        self.walk = walk
        self.observers = observers
        self.follows = follows
        self.quiet = quiet
        self.handles = RemovableHandle.next_id
        self.stops: dict[Any, Passage] = {}
        self.waiting: list[Passage] = []
        self.hooks: list[Giving] = []
        self.inner: dict[Any, Node] = {}
        self.shared = self.shaken = False
        self.task = -1

    def reaches(self, roots: list[Any]) -> bool:
        """Follow the graph from ``roots``. Return False if the backward needs hooks."""
        stop: Passage
        origin: Any
        for origin in roots:
            self._lead_to(origin, None, 0)
        waiting, at = self.waiting, 0
        while at < len(waiting):
            stop = waiting[at]
            at += 1
            origin = stop.origin
            if type(origin) is Leaf:
                if not self._ends_at(stop, origin):
                    return False
            elif type(origin) is Node and not self._goes_on_from(origin):
                return False
        if self.follows and self.shared:
            self._find_shares()
        return True

    def _lead_to(self, origin: Any, giver: Node | None, position: int) -> None:
        """A rule of ``giver``, or the caller, gives ``origin`` a gradient."""
        stop: Passage | None = self.stops.get(origin)
        if stop is not None:
            stop.count += 1
            self.shared = True
            return
        if type(origin) is Output and origin.node not in self.stops:
            self._lead_to(origin.node, None, 0)
        stop = Passage.__new__(Passage)
        stop.origin, stop.giver, stop.position, stop.count, stop.tensor = origin, giver, position, 1, None
        stop.passed, stop.shares = False, _NOTHING
        self.stops[origin] = stop
        self.waiting.append(stop)

    def _goes_on_from(self, node: Node) -> bool:
        """Add the inputs of ``node``. Return False if its rule may do more than give each of them a gradient."""
        op: OpInfo = node.op
        if type(op) is Unlisted and not node.direct:
            return False
        if self.follows and (not node.tapped or node.seq <= self.quiet):
            return False
        if node.settings is not op.defaults:
            for value in node.settings.values():
                if isinstance(value, Tensor) and value.requires_grad:
                    return False  # a setting gets a gradient, which the row does not know
        edges = node.edges
        for position in range(len(edges)):
            origin = edges[position]
            if origin is not None:
                self._lead_to(origin, node, position)
        return True

    def _ends_at(self, stop: Passage, leaf: Leaf) -> bool:
        """Whether the ``.grad`` of ``leaf`` will be the gradient of this backward alone."""
        tensor = leaf.ref()
        if tensor is None or tensor.grad is not None or tensor._post_accumulate_grad_hooks:
            return False
        stop.tensor = tensor
        return not self.follows or not tensor._backward_hooks

    def _find_shares(self) -> None:
        """Decide for each op how we will see the gradients that it gives to tensors with several."""
        stop: Passage
        target: Passage
        for stop in self.waiting:
            if type(stop.origin) is Node:
                node: Node = stop.origin
                edges = node.edges
                for position in range(len(edges)):
                    origin = edges[position]
                    if origin is None:
                        continue
                    target = self.stops[origin]
                    if target.count > 1:
                        if not _hands_on(node, position, origin):
                            stop.shares = _HOOKED
                        elif stop.shares == _NOTHING:
                            stop.shares = _HANDED_ON

    def begin(self) -> None:
        """The backward is about to run."""
        if self.follows:
            TAPS[self] = self

    def __call__(self, gradient: Any) -> None:
        """Take the gradient that arrives at a tapped node; torch calls this."""
        guard = mute(is_heard())
        try:
            self._told(gradient)
        except Exception as error:
            if not taken(self.observers, error, "a gradient"):
                raise
        finally:
            unmute(guard)

    def _told(self, gradient: Any) -> None:
        """Do the same, with the types of C that a method which torch calls cannot have."""
        made = _current()
        metadata = made.metadata
        known = metadata.get(KEY)
        several = type(known) is dict
        stop: Passage | None = self.stops.get(owner_of(known) if several else known)
        task = _task()
        if self.task != task:
            if self.task >= 0 or stop is None or stop.giver is not None:
                return
            self.task = task  # the first node that runs is one of those where the backward begins
        if several:
            self._reached(made, known, stop)
            return
        if stop is not None and (stop.passed or gradient is None):
            stop = None
        if RemovableHandle.next_id == self.handles:
            if stop is not None:
                if stop.shares == _HOOKED:
                    self._hook(made, stop.origin, None)
                self._arrived(stop, gradient)
            return
        if stop is not None and stop.giver is not None and stop.count == 1:  # a new hook on it runs after this
            self._given(stop.giver, stop.position, stop.origin, gradient)
        self._shake()

    def _reached(self, made: Any, outputs: dict[int, Output], stop: Passage | None) -> None:
        """The node ``made`` of an op with several outputs will run now: a hook sees the gradients that arrived."""
        if stop is not None and not stop.passed:
            stop.passed = True
            self._hook(made, stop.origin, outputs)
        if RemovableHandle.next_id != self.handles:
            self._shake()

    def brought(self, outputs: dict[int, Output], gradients: tuple[Any, ...]) -> None:
        """The ``gradients`` of the ``outputs`` of an op have arrived.

        If a hook of the user's has come in the meantime, another hook of ours reports them, but not who gave them.
        """
        stop: Passage | None
        for number, output in outputs.items():
            stop = self.stops.get(output)
            if stop is None or number >= len(gradients) or gradients[number] is None:
                continue
            if not self.shaken:
                self._arrived(stop, gradients[number])
            elif stop.giver is not None and stop.count == 1:
                self._given(stop.giver, stop.position, output, gradients[number])

    def _hook(self, made: Any, node: Node, outputs: dict[int, Output] | None) -> None:
        """Put hooks on the nodes of the op ``node`` that give gradients to tensors with several: ``made`` will run now.

        If an op is several of torch's nodes, the others follow ``made``. A node that belongs to two ops gets no hook:
        nothing says which op gave which part of its gradient.
        """
        left: list[Any] = node.edges[:]
        parts: dict[Any, Share] = {}
        inner, at = [made], 0
        while at < len(inner):
            one = inner[at]
            at += 1
            shares = self._shares(one, node, left, parts, inner)
            if one is not made and self.inner.setdefault(one, node) is not node:
                self._unhook(one)
                continue
            if shares or (outputs is not None and one is made):
                hook = Giving.__new__(Giving)
                hook.backward, hook.shares, hook.table = self, shares, None
                hook.outputs = outputs if one is made else None
                hook.made = one if one is not made else None
                self.hooks.append(hook)
                one.register_hook(hook)

    def _unhook(self, one: Any) -> None:
        """Forget the shares of ``one``, a node that turned out to belong to two ops."""
        hook: Giving
        for hook in self.hooks:
            if hook.made is one:
                hook.shares = []

    def _shares(
        self, one: Any, node: Node, left: list[Any], parts: dict[Any, Share], inner: list[Any]
    ) -> list[tuple[int, Share]]:
        """The gradients that ``one``, a node of torch's graph for the op ``node``, gives to tensors with several.

        Args:
            one: the node.
            node: the op.
            left: the edges of the op that have no share yet.
            parts: the shares of the op, by origin.
            inner: the nodes of the op; new ones are appended.
        """
        shares: list[tuple[int, Share]] = []
        target: Passage | None
        share: Share | None
        place = -1
        for after, number in one.next_functions:
            place += 1
            if after is None:
                continue
            origin = edge_end(after, number)
            if origin is None and type(after).__name__ == _CAST:
                before, _ = after.next_functions[0]
                origin = leaf_of(before.variable) if type(before) is ACCUMULATES else None
            if origin is None and after not in inner:
                inner.append(after)
            target = self.stops.get(origin)
            if target is not None and target.count > 1:
                share = _share(node, left, origin, parts)
                if share is not None:
                    shares.append((place, share))
        return shares

    def gave(self, shares: list[tuple[int, Share]], given: tuple[Any, ...]) -> None:
        """A node gave these gradients to its inputs, among them ``shares``."""
        share: Share
        for place, share in shares:
            gradient = given[place]
            if gradient is not None and gradient.is_complex() and not share.origin.dtype.is_complex:
                gradient = gradient.real  # as the cast of a real tensor to complex numbers does
            total = share.added(gradient)
            if total is not None:
                self._given(share.node, share.position, share.origin, total)

    def _shake(self) -> None:
        """The user registered a hook while the backward runs: from now on every node needs one of ours."""
        TAPS.pop(self, None)
        self._tell_leaves()  # the leaves that the backward has reached
        self.shaken = True
        self.walk.take_over()

    def _arrived(self, stop: Passage, gradient: Any) -> None:
        """Notify the observers: the gradient of ``stop`` has arrived."""
        stop.passed = True
        observer: Observer
        origin: Any = stop.origin
        lone = stop.giver is not None and stop.count == 1
        if lone:
            self._given(stop.giver, stop.position, origin, gradient)
        for observer in self.observers:
            observer.on_gradient(origin, gradient, lone)
        if stop.shares == _HANDED_ON:
            node: Node = stop.origin
            target: Passage
            edges = node.edges
            for position in range(len(edges)):
                if edges[position] is not None:
                    target = self.stops[edges[position]]
                    if target.count > 1:
                        self._given(node, position, edges[position], gradient)

    def _given(self, node: Any, position: int, origin: Any, gradient: Any) -> None:
        """Notify the observers: the rule of ``node`` gave the input at ``position``, with that origin, its gradient."""
        observer: Observer
        undone = sum_of(node, position, origin.shape)
        for observer in self.observers:
            observer.on_rule(node, position, gradient, gradient, undone)

    def end(self) -> None:
        """Notify the observers of all that the backward has reached, when it has ended or raised."""
        TAPS.pop(self, None)
        hook: Giving
        for hook in self.hooks:
            hook.backward, hook.shares, hook.outputs, hook.made = None, [], None, None
            hook.take_off()
        self.hooks, self.inner = [], {}
        if self.shaken:
            return
        if not self.follows:
            self._tell_nodes()
        self._tell_leaves()

    def _tell_nodes(self) -> None:
        stop: Passage
        observer: Observer
        for stop in self.waiting:
            if type(stop.origin) is Node:
                node: Node = stop.origin
                found = _sums_of(node)
                for observer in self.observers:
                    observer.on_torch_passed(node, found)

    def _tell_leaves(self) -> None:
        stop: Passage
        observer: Observer
        for stop in self.waiting:
            tensor = stop.tensor
            gradient = None if tensor is None or stop.passed else tensor.grad
            if gradient is None:
                continue
            if self.follows:
                self._arrived(stop, gradient)
                continue
            for observer in self.observers:
                observer.on_gradient(stop.origin, gradient, False)


def _share(node: Node, left: list[Any], origin: Any, parts: dict[Any, Share]) -> Share | None:
    """Count one more part of the gradient that ``node`` gives at ``origin``.

    If the origin is still among ``left``, the part begins a new share.
    """
    position = position_in(left, origin)
    if position < 0:
        share = parts.get(origin)
        if share is not None:
            share.missing += 1
        return share
    share = parts[origin] = Share.__new__(Share)
    share.node, share.position, share.origin, share.missing, share.total = node, position, origin, 1, None
    return share


def position_in(left: list[Any], origin: Any) -> int:
    """Take the first ``origin`` out of ``left``, and return its position; -1 if it is not there."""
    for position in range(len(left)):
        if left[position] is origin:
            left[position] = None
            return position
    return -1


def _sums_of(node: Node) -> list[tuple[int, Any]]:
    """For each input of ``node`` that was stretched, its position and the sum that undoes it."""
    found: list[tuple[int, Any]] = []
    op: OpInfo = node.op
    if op.broadcasts or op.sums:
        for position in range(len(node.edges)):
            origin = node.edges[position]
            if origin is not None:
                undone = sum_of(node, position, origin.shape)
                if undone is not None:
                    found.append((position, undone))
    return found


def sum_of(node: Node, position: int, shape: Any) -> Any:
    """The sum that gives an input of that ``shape`` its gradient, where the op itself stretches it; None for none."""
    op: OpInfo = node.op
    if node.shape is shape and not op.sums:  # most often, and the quickest look
        return None
    if position in op.broadcasts:
        same = node.shape is shape or node.shape == shape
        return None if same else reduction(tuple(node.shape), tuple(shape))
    if op.sums and op.inputs[position] in op.sums:
        made: Callable[..., Any] = op.sums[op.inputs[position]]
        return made(tuple(node.shape), tuple(shape))
    return None

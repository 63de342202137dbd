"""Checkpoints save memory and cost time: a backward computes again what a part of a graph had saved.

Inside ``checkpoint(fn, ...)`` ops are recorded as anywhere. The graph has all its nodes and edges, also those to
parameters that ``fn`` uses without taking them as arguments. The values that the nodes saved are released at once. The
first of these nodes that a backward reaches runs ``fn`` again, and gives each node the values that its twin in the
second run saved.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from nbgrad.core.backend.autocast import Settings
from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state
from nbgrad.core.engine.node import Deferred, Node, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current, recording, restoring
from nbgrad.core.functional.saved_tensors import unpacking
from nbgrad.core.tensor.tensor import Tensor

R = TypeVar("R")


@restoring
def checkpoint(
    fn: Callable[..., R],
    *args: Any,
    preserve_rng_state: bool = True,
    use_reentrant: bool | None = None,  # noqa: ARG001
    **kwargs: Any,
) -> R:
    """Run ``fn(*args, **kwargs)`` without keeping what its ops save; a backward runs it a second time to have it.

    Of a chain of n equal blocks, each in a checkpoint of its own, the inputs of the blocks stay in memory and, while
    the backward is in it, the inside of one block. Gradients are those without it, also of parameters that ``fn`` uses.

    ``fn`` must do the same both times: whatever it reads besides its arguments must not change before the backward. It
    may be nested, return any number of tensors, and be differentiated to any order.

    Args:
        fn: what to run: a function or a module.
        args: its arguments, tensors or not.
        preserve_rng_state: draw the same random numbers the second time, as dropout needs; False saves the time.
        use_reentrant: torch's question which of its two ways it is to take; there is one here, which has the gradients
            of both and the limits of neither.
        kwargs: its named arguments.

    Raises:
        RuntimeError: in the backward: an argument was changed in place since, or ``fn`` did not record the same ops.
    """
    state = current()
    if not recording(state) or any(isinstance(observer, _Forgets) for observer in state.observers):
        return fn(*args, **kwargs)  # nothing is recorded, or a checkpoint around this one forgets it all
    segment = Segment(fn, args, kwargs, preserve_rng_state)
    with Switch(observers=(*unpacking(state.observers), _Forgets(segment))):  # what is let go need not be packed
        return fn(*args, **kwargs)


class Segment:
    """One call of ``fn``: everything that it takes to run it again, and what its ops saved once it has run again."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve_rng_state: bool
    ) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.count = 0
        self._state = current().replaced(walking=None)  # apart: the scope changes when the call of the module ends
        self._autocast = Settings()
        self._versions = [(tensor, tensor._version) for tensor in _tensors([args, kwargs])]
        devices = cuda_devices(tensor for tensor, _ in self._versions)
        self._random = random_state(devices) if preserve_rng_state else None
        self._again: list[tuple[Any, Any]] | None = None

    def saved(self, node: Node, index: int) -> Any:
        """What the twin of ``node``, the op number ``index`` of the segment, saved; given away, not kept."""
        if self._again is None or self._again[index : index + 1] == [_GIVEN]:
            self._again = self._run()
        twins = self._again[index : index + 1]
        if not twins or twins[0][0] is not node.op:
            twin = twins[0][0].name if twins else "nothing"
            raise RuntimeError(
                f"checkpoint: {_name(self.fn)} recorded {node.op.name} as op {index + 1} in the forward, but {twin} "
                "when the backward ran it again. It must do the same both times: it may not depend on anything that "
                "has changed since (a counter, a training flag, random numbers that torch does not draw)."
            )
        saved = self._again[index][1]
        self._again[index] = _GIVEN
        return saved

    def _run(self) -> list[tuple[Any, Any]]:
        """Run ``fn`` as the forward did, unseen by graphs and hooks; the ops it records and what they saved."""
        for tensor, version in self._versions:
            if tensor._version != version:
                raise RuntimeError(
                    f"checkpoint: an argument of {_name(self.fn)}, of shape {tuple(tensor.shape)}, was changed in "
                    f"place after the forward (version {version}, now {tensor._version}), so the backward cannot run "
                    "it again. Change a clone instead, or call backward() before the change."
                )
        if self._random is None:
            return self._recorded()
        recorded: list[tuple[Any, Any]] = drawing_from(self._random, self._recorded)
        return recorded

    @restoring
    def _recorded(self) -> list[tuple[Any, Any]]:
        collects = _Collects()
        state = self._state.replaced(observers=(collects,))
        with Switch(**state.fields()):
            try:
                self._autocast.restored(self._call)
            except Exception as error:
                error.add_note(
                    f"raised when a backward ran {_name(self.fn)} again, which is inside nbgrad.checkpoint; its "
                    "forward had run without an error"
                )
                raise
        return [(node.op, _taken_from(node)) for node in collects.nodes]

    def _call(self) -> None:
        self.fn(*self.args, **self.kwargs)


class _Later(Deferred):
    """Stands in ``Node.saved`` for what the op number ``index`` of a segment has let go."""

    __slots__ = ("_index", "_segment")

    def __init__(self, segment: Segment, index: int) -> None:
        self._segment = segment
        self._index = index

    def restore(self, node: Node) -> Any:
        """Run the segment again if need be, and put back what the node had saved."""
        saved = self._segment.saved(node, self._index)
        if isinstance(saved, Deferred):
            saved = saved.restore(node)
            node.versions = [None] * len(saved)  # what was unpacked has versions of its own
        node.saved = saved
        return saved


class _HandedOver(Deferred):
    """Stands in ``Node.saved`` of a second run, whose values went to the nodes of the first."""

    __slots__ = ()

    def restore(self, node: Node) -> Any:
        """A tensor that the second run left somewhere has no gradient of its own."""
        raise RuntimeError(
            f"backward through {node.op.name} of the second run of a checkpoint, which only serves the backward that "
            "started it: use what the checkpoint returned, not what its function has put elsewhere"
        )


def _taken_from(node: Node) -> Any:
    """What ``node`` has saved; it no longer holds it, as tensors that lead to the node may live on."""
    saved, node.saved = node.saved, _HandedOver()
    return saved


class _Forgets(Observer):
    """Watches the forward of a segment: lets go what each op has saved."""

    __slots__ = ("_segment",)

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def on_record(self, node: Node, _args: tuple[Any, ...], _out: torch.Tensor) -> None:
        if node.plan.keeps_values:
            node.saved = _Later(self._segment, self._segment.count)
            self._segment.count += 1


class _Collects(Observer):
    """Watches the second run of a segment: keeps the nodes, in the order of the first run."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def on_record(self, node: Node, _args: tuple[Any, ...], _out: torch.Tensor) -> None:
        if node.plan.keeps_values:
            self.nodes.append(node)


_GIVEN = (None, None)


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", type(fn).__name__)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The raw tensors in ``values`` and in the lists, tuples and dicts there."""
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor | torch.Tensor):
            yield raw_of(value)
        elif isinstance(value, list | tuple):
            stack += value
        elif isinstance(value, dict):
            stack += value.values()

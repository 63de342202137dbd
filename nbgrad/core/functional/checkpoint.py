"""Checkpoints save memory and cost time: a backward computes again what a part of a graph had saved.

Inside ``checkpoint(fn, ...)`` ops are recorded as anywhere. The graph has all its nodes and edges, also those to
parameters that ``fn`` uses without taking them as arguments. The values that the nodes saved are released at once. The
first of these nodes that a backward reaches runs ``fn`` again, and gives each node the values that its twin in the
second run saved.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch

from nbgrad.core.backend.autocast import Settings
from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state
from nbgrad.core.engine.node import Deferred, Node, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current, recording, restoring
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.functional.saved_tensors import unpacking
from nbgrad.core.tensor.tensor import Tensor

R = TypeVar("R")


Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]
"""Makes the context of the first run and that of the second."""


def _no_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), nullcontext()


@restoring
def checkpoint(
    fn: Callable[..., R],
    *args: Any,
    preserve_rng_state: bool = True,
    use_reentrant: bool | None = None,  # noqa: ARG001
    context_fn: Contexts = _no_contexts,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> R:
    """Run ``fn(*args, **kwargs)`` without keeping the values that its ops save; a backward runs it again to get them.

    In a chain of n equal blocks, each in a checkpoint of its own, only the inputs of the blocks stay in memory, and
    during the backward the inside of one block. All gradients are the same as without a checkpoint, also those of
    parameters that ``fn`` uses.

    ``fn`` must do the same both times: the variables that it reads besides its arguments must not change before the
    backward. Checkpoints may be nested, return any number of tensors, and be differentiated to any order.

    Args:
        fn: the function or module to run.
        args: its arguments, tensors or not.
        preserve_rng_state: draw the same random numbers the second time, as dropout needs; False saves the time.
        use_reentrant: has no effect. It chooses between two kinds of checkpoint in torch; nbgrad has one kind, which
            has the gradients of both and the limits of neither.
        context_fn: returns two contexts: one for the first run of ``fn``, and one for the second run.
        determinism_check: "default" compares the ops of both runs, and the shapes and element types of their results;
            "none" only compares the ops.
        debug: must be False. With True torch writes logs of both runs; nbgrad's errors name the ops of both runs
            without them.
        early_stop: end the second run after the last op that saves something.
        kwargs: its named arguments.

    Raises:
        RuntimeError: in the backward: an argument was changed in place since, or ``fn`` did not record the same ops.
        ValueError: ``determinism_check`` has another value.
        NotImplementedError: ``debug`` is True.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check is 'default' or 'none', not {determinism_check!r}")
    if debug:
        raise NotImplementedError(
            "checkpoint: debug=True is not supported, because the errors of nbgrad name the ops of both runs: leave "
            "it out"
        )
    if not recording(current()):
        return fn(*args, **kwargs)
    first, second = context_fn()
    segment = Segment(partial(fn, *args, **kwargs), [args, kwargs], name_of(fn), preserve_rng_state, second)
    segment.compares, segment.stops = determinism_check == "default", early_stop
    with segment.forgetting(), first:
        return fn(*args, **kwargs)


class Segment:
    """One call of a function. It holds all that a second run needs and, after that run, the values that its ops saved.

    Args:
        run: the call.
        given: its arguments: their tensors must not change, and random numbers are drawn on their devices.
        name: of the function.
        preserve_rng_state: whether the second run draws the same random numbers.
        context: what the second run is inside.

    Attributes:
        count: how many ops have saved something so far.
        compares: whether the second run must make tensors of the same shapes and element types.
        stops: whether the second run ends after its last op that saves something.
        called: the name of the function that makes the checkpoint, for errors.
        error: makes the error for a second run that differs from the first.
    """

    def __init__(
        self,
        run: Callable[[], Any],
        given: Any,
        name: str,
        preserve_rng_state: bool,
        context: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.name = name
        self.count = 0
        self.compares = self.stops = True
        self.called = "nbgrad.checkpoint"
        self._function = run
        self.error: Callable[[str], Exception] = RuntimeError
        self._context: AbstractContextManager[Any] = context or nullcontext()
        self._state = current().replaced(walking=None)  # a copy: the scope changes when the module's call ends
        self._autocast = Settings()
        self._versions = [(tensor, tensor._version) for tensor in _tensors(given)]
        devices = cuda_devices(tensor for tensor, _ in self._versions)
        self._random = random_state(devices) if preserve_rng_state else None
        self._again: list[_Twin | None] | None = None  # None for a twin whose values were given away
        self._ran_to = 0

    def forgetting(self) -> Switch:
        """A switch for the first run: ops recorded inside it drop the values that they save.

        Inside another checkpoint it does nothing: that one lets go of it all.
        """
        observers = current().observers
        if any(isinstance(observer, _Forgets) for observer in observers):
            return Switch()
        return Switch(observers=(*unpacking(observers), _Forgets(self)))  # dropped values need not be packed

    @property
    def given(self) -> list[torch.Tensor]:
        """The data of the tensors among the arguments."""
        return [tensor for tensor, _ in self._versions]

    def saved(self, node: Node, index: int) -> Any:
        """Hand over the values that the second run saved for ``node``, the op number ``index`` of the segment."""
        short = index >= self._ran_to  # too few ops ran again: a backward ran before the first run was complete
        if short or self._again is None or self._again[index : index + 1] == [None]:
            self._ran_to = self.count
            self._again = self._run()
        twin = self._again[index] if index < len(self._again) else None
        found = "nothing" if twin is None else twin.told(node, compares=self.compares)
        if twin is None or found:
            raise self.error(
                f"checkpoint: {self.name} recorded {node.op.name} as op {index + 1} in the forward, but {found} "
                "when the backward ran it again. It must do the same both times: it may not depend on anything that "
                "has changed since (a counter, a training flag, random numbers that torch does not draw)."
            )
        self._again[index] = None
        return twin.saved

    def _run(self) -> "list[_Twin | None]":
        """Run ``fn`` as the forward did, unseen by graphs and hooks. Return the recorded ops, with what they saved."""
        for tensor, version in self._versions:
            if tensor._version != version:
                raise RuntimeError(
                    f"checkpoint: an argument of {self.name}, of shape {tuple(tensor.shape)}, was changed in "
                    f"place after the forward (version {version}, now {tensor._version}), so the backward cannot run "
                    "it again. Change a clone instead, or call backward() before the change."
                )
        if self._random is None:
            return self._recorded()
        recorded: list[_Twin | None] = drawing_from(self._random, self._recorded)
        return recorded

    def _recorded(self) -> "list[_Twin | None]":
        collects = _Collects(self.count if self.stops else 0)
        try:
            self._collected(collects)
        except _Enough:
            pass
        except Exception as error:
            error.add_note(
                f"raised when a backward ran {self.name} a second time, inside {self.called}; the first time it raised "
                "no error"
            )
            raise
        return [_Twin(node) for node in collects.nodes]

    @restoring
    def _collected(self, collects: "_Collects") -> None:
        state = self._state.replaced(observers=(collects,))
        with Switch(**state.fields()):
            self._autocast.restored(self._call)

    def _call(self) -> None:
        with self._context:
            self._function()


def name_of(fn: Callable[..., Any]) -> str:
    """The name of a function in messages; for another callable object it is the name of its class."""
    return str(getattr(fn, "__qualname__", type(fn).__name__))


class _Twin:
    """An op of a second run, and what it saved."""

    __slots__ = ("dtype", "op", "saved", "shape")

    def __init__(self, node: Node) -> None:
        self.op, self.shape, self.dtype = node.op, node.shape, node.dtype
        self.saved = _taken_from(node)

    def told(self, node: Node, *, compares: bool) -> str:
        """The text that says in what the op differs from that of the first run, ``node``; empty if it does not."""
        if self.op is not node.op:
            return self.op.name
        if compares and (self.shape, self.dtype) != (node.shape, node.dtype):
            made = f"{tuple(self.shape)} of {dtype_name(self.dtype)}"
            return f"one of shape {made} in place of {tuple(node.shape)} of {dtype_name(node.dtype)}"
        return ""


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
            node.versions = [None] * len(saved)  # unpacked values have versions of their own
        node.saved = saved
        return saved

    def held(self) -> list[tuple[str, Any]]:
        """The arguments of the function, for the second run."""
        return [("checkpoint", self._segment.given)]


class _HandedOver(Deferred):
    """Stands in ``Node.saved`` of a second run, whose values went to the nodes of the first."""

    __slots__ = ()

    def restore(self, node: Node) -> Any:
        """A tensor that the second run left somewhere has no gradient of its own."""
        raise RuntimeError(
            f"backward through {node.op.name} of the second run of a checkpoint. That run is only for the backward "
            "that started it: use the result of the checkpoint, not a tensor that its function has stored elsewhere"
        )


def _taken_from(node: Node) -> Any:
    """Take the saved values out of ``node``: tensors that lead to the node may live on, and would hold them."""
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


class _Enough(Exception):  # it is no error
    """Ends a second run: its last op that saves something has run."""


class _Collects(Observer):
    """Watches the second run of a segment: keeps the nodes, in the order of the first run.

    Args:
        count: after how many nodes the run ends; 0: it runs to its end.
    """

    __slots__ = ("count", "nodes")

    def __init__(self, count: int) -> None:
        self.count = count
        self.nodes: list[Node] = []

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        if node.plan.keeps_values:
            self.nodes.append(node)
            if len(self.nodes) == self.count:
                observers = current().observers
                for inner in observers[observers.index(self) + 1 :]:  # hooks that pack, and checkpoints inside
                    inner.on_record(node, args, out)
                raise _Enough


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

"""The backwards of torch's own ``DistributedDataParallel``, measured for the graphs that compare the ranks.

Torch's reducer takes a gradient when it has been added to ``.grad``. A hook of ours on the parameter runs just before
that. So it sees what this process sends, and no communication hook is needed: one would replace the user's.
"""

from collections.abc import Callable
from threading import RLock
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch._compile import _disable_dynamo
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import record_id
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import current
from nbgrad.core.engine.torch_origins import leaf_of
from nbgrad.core.graph.rank_part import GroupStore, RankPart, measured_part, norm_of, store_of
from nbgrad.core.recorder.patches import Patch
from nbgrad.core.recorder.tracebacks import traceless

DOING = "the gradients of the ranks"
"""The name of this work in the message about an error of ours."""


class Reduced(NamedTuple):
    """One module in one backward of this process.

    Attributes:
        store: of its process group.
        part: the measurements.
        ids: the ids of the parameters' records.
    """

    store: GroupStore
    part: RankPart
    ids: list[int]


class TorchReduction:
    """One backward of one module, from its begin to the average. It measures nothing if no gradient arrives.

    Args:
        net: torch's ``DistributedDataParallel``.
        observers: those of the thread that calls the backward. Torch may run hooks in another one.
    """

    def __init__(self, net: Any, observers: tuple[Observer, ...]) -> None:
        self.net = net
        self._observers = observers
        self._buckets = _buckets(net.reducer)
        self._norms: dict[Any, torch.Tensor] = {}
        self._ready: dict[Any, float] = {}
        self._handles: list[tuple[Any, bool, Any]] = []

    def begin(self) -> None:
        """Hook the parameters, until ``remove``."""
        for one in self._parameters():
            alone = one._post_accumulate_grad_hooks is None
            self._handles.append((one, alone, one.register_post_accumulate_grad_hook(self._arrived)))

    def _parameters(self) -> list[Any]:
        """In the order in which their gradients travel."""
        return [one for _, parameters in self._buckets for one in parameters]

    @property
    def measured(self) -> bool:
        """Whether a gradient has arrived."""
        return bool(self._ready)

    def _arrived(self, parameter: torch.Tensor) -> None:
        """The gradient is complete, and torch's reducer is about to take it."""
        try:
            self._measure(parameter)
        except Exception as error:
            if not taken(self._observers, error, DOING):
                raise

    @muted
    @torch.no_grad()
    def _measure(self, parameter: torch.Tensor) -> None:
        if not self._ready:  # a parameter that this backward does not reach sends what its .grad holds, or zeros
            held = [one for one in self._parameters() if one.grad is not None and one is not parameter]
            self._norms = {one: norm_of(one.grad) for one in held}
        if parameter.grad is not None:  # a hook of the user's may have used it up
            self._norms[parameter] = norm_of(parameter.grad)
        self._ready[parameter] = perf_counter()

    def remove(self) -> None:
        """Take the hooks off."""
        for parameter, alone, handle in self._handles:
            handle.remove()
            if alone and not parameter._post_accumulate_grad_hooks:
                parameter._post_accumulate_grad_hooks = None  # as before the first hook
        self._handles = []

    @muted
    @torch.no_grad()
    def end(self) -> Reduced:
        """The measurements; the averages have arrived."""
        now = perf_counter()
        parameters = self._parameters()
        names = {one: name for name, one in self.net.module.named_parameters()}
        nothing = torch.zeros((), dtype=torch.float64)
        part = measured_part(
            [(names[one], one) for one in parameters],
            [(size, len(held)) for size, held in self._buckets],
            [self._norms.get(one, nothing) for one in parameters],
            [one.grad for one in parameters],
            self._journeys(now),
        )
        return Reduced(store_of(self.net.process_group), part, [record_id(leaf_of(one)) for one in parameters])

    def _journeys(self, now: float) -> list[float]:
        """The seconds from the sending of each bucket to the end of the backward, which all ranks reach together.

        A bucket is sent when all its gradients and those of the buckets before it are complete.
        """
        found, sent = list[float](), min(self._ready.values())
        for _, bucket in self._buckets:
            sent = max([sent, *[self._ready[one] for one in bucket if one in self._ready]])
            found.append(now - sent)
        return found


class _Unallocated(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """A mode in which new tensors take no memory: torch tells its buckets only with zeros of their size."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{**(kwargs or {}), "device": "meta"})


def _buckets(reducer: Any) -> list[tuple[int, list[Any]]]:
    """The bytes and the parameters of each bucket, in the order in which torch's reducer sends them."""
    with _Unallocated():  # type: ignore[no-untyped-call]
        buckets = reducer._get_zeros_like_grad_buckets()
    return [(one.buffer().nbytes, list(one.parameters())) for one in buckets]


class HeldPatch:
    """A function of torch's that is replaced while something holds the place of ours. A subclass makes the patch."""

    def __init__(self) -> None:
        self._lock = RLock()  # threads may begin and end at the same time
        self._holders: tuple[Any, ...] = ()
        self._patch: Patch | None = None

    def _patched(self) -> Patch | None:
        """The patch; None while the program has not imported what it replaces."""
        raise NotImplementedError

    def begin(self, holder: Any) -> None:
        """Replace the function, until ``end``."""
        with self._lock:
            self._patch = self._patch or self._patched()
            if self._patch is not None:
                self._holders = (*self._holders, holder)
                self._patch.install()

    def end(self, holder: Any) -> None:
        """Put torch's own back, unless something else holds the place."""
        with self._lock:
            self._holders = tuple([one for one in self._holders if one is not holder])
            if self._patch is not None and not self._holders:
                self._patch.put_back()


class ForwardWatch(HeldPatch):
    """Calls ``expect(net)`` of the observers that hold it, with each ``net`` of torch's that will average.

    These are the modules whose forward has run in the thread of the observer, outside of ``no_sync()``.
    """

    def _patched(self) -> Patch:
        return Patch(DistributedDataParallel, "_pre_forward", self._made)

    def _made(self, run: Callable[..., Any]) -> Any:
        """Our function for ``run``, with which torch's forward begins."""

        def _pre_forward(net: Any, *inputs: Any, **kwargs: Any) -> Any:
            if self._holders and torch.is_grad_enabled() and net.require_backward_grad_sync:
                for one in current().observers:
                    if one in self._holders:
                        expecting: Any = one
                        expecting.expect(net)
            return run(net, *inputs, **kwargs)

        # The compiler skips the frames of torch's class, and would trace this one.
        return traceless(_disable_dynamo(_pre_forward, recursive=False), run)


FORWARDS = ForwardWatch()

"""The averaging of gradients over processes, in buckets, while the backward that computes them still runs."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import torch

from nbgrad.core.engine.backward import Walk
from nbgrad.core.engine.node import Reducer
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parallel.buckets import Bucket, filled_buckets
from nbgrad.nn.parallel.peers import Peers
from nbgrad.nn.parallel.rank_measurement import RankMeasurement
from nbgrad.nn.parameter import Parameter

SHOWN = 5
"""How many parameters a message names."""


class BucketReducer(Reducer):
    """Averages the gradients of a module's parameters over the processes of a group.

    A gradient is copied to its bucket when it arrives. A complete bucket begins its journey at once, and buckets begin
    in one order in all processes. When the last rule has run, the backward waits for the buckets that have not arrived.

    Attributes:
        armed: whether the next backward averages, whatever else is set: a forward outside of ``no_sync`` has run.
        follows: whether the last forward ran outside of ``no_sync``.
        hook: the communication hook and its state; None for the average of what arrives.
        active: how many processes the sum is divided by.
        ended: why nothing can be averaged any more; None where it can.
    """

    __slots__ = (
        *("_absent", "_arrived", "_as_view", "_begun", "_buckets", "_caps", "_measurement"),
        *("_complete", "_delayed"),
        *(
            "_finds_unused",
            "_flags",
            "_known_absent",
            "_next",
            "_order",
            "_owner",
            "_places",
            "_rebuilds",
            "_scale",
            "_static",
        ),
        *("_syncing", "_used", "_walk", "active", "armed", "ended", "follows", "hook", "names", "parameters", "peers"),
    )

    def __init__(
        self,
        owner: Any,
        named: Sequence[tuple[str, Parameter]],
        peers: Peers,
        *,
        caps: Sequence[int],
        finds_unused: bool,
        static: bool,
        as_view: bool,
        delayed: bool,
    ) -> None:
        super().__init__()
        self._owner = ref(owner)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.peers = peers
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self.armed, self.follows = False, True
        self.active = peers.size
        self.ended: str | None = None
        self._caps = tuple(caps)
        self._finds_unused, self._static, self._as_view, self._delayed = finds_unused, static, as_view, delayed
        self._known_absent: frozenset[int] | None = None
        self._used = [False] * len(named)  # since the last average
        self._flags: list[int] = []  # for each parameter, how many processes have used it
        self._order: list[int] = []
        self._rebuilds: bool | None = None if not finds_unused or static else False
        self._fill(range(len(named) - 1, -1, -1))
        self._forget()
        for number, parameter in enumerate(self.parameters):
            parameter._hooks().reducer = (self, number)

    def _fill(self, order: Sequence[int]) -> None:
        self._buckets = filled_buckets(order, self.parameters, self._caps)
        self._places: dict[int, tuple[Bucket, torch.Tensor]] = {}
        for bucket in self._buckets:
            self._place(bucket)

    def _place(self, bucket: Bucket) -> None:
        self._places.update({one: (bucket, view) for one, view in zip(bucket.numbers, bucket.views, strict=True)})

    def _renew(self) -> None:
        """Give new memory to each bucket with a gradient that is held elsewhere, unless gradients are bucket views."""
        if not self._as_view:
            for bucket in self._buckets:
                if bucket.renew():
                    self._place(bucket)

    def _forget(self) -> None:
        """Be ready for another backward."""
        self._walk: Any = None
        self._syncing = self._begun = self._complete = False
        self._arrived: set[int] = set()
        self._absent: set[int] = set()
        self._next = 0
        self._scale = 1.0
        self._measurement: RankMeasurement | None = None
        for bucket in self._buckets:
            bucket.work = None

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets, in the order in which they travel."""
        return self._buckets

    @property
    def owned_elsewhere(self) -> bool:
        """Whether there still is a module that this belongs to, and that can go on."""
        return self._owner() is not None and self.ended is None

    def detach(self) -> None:
        """Average no more: another takes the parameters."""
        for parameter in self.parameters:
            hooks = parameter.origin.hooks
            if hooks is not None and hooks.reducer is not None and hooks.reducer[0] is self:
                hooks.reducer = None

    # One backward: what the engine calls.

    def hurries(self) -> bool:
        """Whether it helps to see gradients during a backward: to send buckets early, or find unused parameters."""
        several = len(self._buckets) > 1 and not self._delayed
        return self._averages() and (several or self._finds_unused or (self._static and self._known_absent is None))

    def take(self, number: int, gradient: torch.Tensor, walk: Walk) -> None:
        """Copy the gradient of a parameter to its bucket, and send the buckets that are complete."""
        if walk is not self._walk:
            self._begin(walk)
        self._used[number] = True
        if not self._syncing:
            return
        bucket, view = self._places[number]
        if number in self._absent:
            raise RuntimeError(
                self._told(f"static_graph=True, but a gradient arrived for {self._named([number])}, {_CHANGED}")
            )
        if gradient.shape != view.shape or gradient.dtype is not view.dtype:
            raise RuntimeError(
                self._told(
                    f"the gradient of {self._named([number])} has shape {tuple(gradient.shape)} and dtype "
                    f"{dtype_name(gradient.dtype)}, but the parameter had {tuple(view.shape)} and "
                    f"{dtype_name(view.dtype)} when the module was wrapped: change the module before it is wrapped"
                )
            )
        if number in self._arrived:
            raise RuntimeError(self._told(f"a gradient arrived twice for {self._named([number])}, after it was sent"))
        self._put_in(number, view, gradient)
        self._arrived.add(number)
        if self._rebuilds is None:
            self._order.append(number)
        bucket.missing -= 1
        if not bucket.missing:
            self._send()

    def wait(self) -> None:
        """Send the remaining buckets, and wait for all averages."""
        if not self._syncing:
            return
        self._check_complete()
        self._send(ended=True)
        used = self._send_used()
        for bucket in self._buckets:
            doing = f"averaging gradients, bucket {bucket.index()} of {len(self._buckets)}"
            if self.hook is None:
                self.peers.wait(bucket.work, doing)
            else:
                bucket.flat.copy_(self._returned(self.peers.wait_future(bucket.work, doing)))
        self._read_used(used)
        self._complete = True

    def put(self, number: int, tensor: Tensor) -> bool:
        """Write the average of a parameter that this process has used to its ``.grad``."""
        if not self._syncing:
            return False
        self._write(number, tensor)
        return True

    def end(self) -> None:
        """Write the averages of parameters that other processes have used alone."""
        if not self._syncing:
            self._forget()
            return
        for number in [one for one in self._absent if self._flags[one]]:
            self._write(number, self.parameters[number])
        if self._measurement is not None:
            self._measurement.end(self.peers.group, self._buckets, self.names)
        if self._rebuilds is None:
            self._rebuilds = True
        self._used = [False] * len(self._used)
        self.armed = False
        self._forget()

    def abandon(self, error: BaseException) -> None:
        """Tell the other processes, which wait for gradients that will not come."""
        if self._begun and not self._complete:
            self.ended = f"an earlier backward ended with {type(error).__name__}: {error}"
            if not getattr(error, "lost", False):
                self.peers.tell(error)
        self._forget()

    # The steps.

    def _begin(self, walk: Walk) -> None:
        """Find out whether this backward averages, and which gradients it will not bring."""
        if self._walk is not None:
            raise NotImplementedError(
                self._told(
                    "a backward inside of a backward reached the parameters: compute gradients there with "
                    "nbgrad.autograd.grad(), and write checkpoints with nbgrad.checkpoint()"
                )
            )
        self._walk = walk
        self._syncing = self._averages()
        if not self._syncing:
            return
        self.check_ended()
        if walk.create_graph:
            self._syncing = False
            raise NotImplementedError(
                self._told(
                    "backward(create_graph=True) cannot differentiate the average over processes: call it inside "
                    "no_sync(), or differentiate net.module with nbgrad.autograd.grad() and average the result"
                )
            )
        self._begun = True
        self._scale = 1.0 if self.hook is not None else 1.0 / self.active
        self._measurement = RankMeasurement.of(walk.observers)
        self._renew()
        for bucket in self._buckets:
            bucket.missing = len(bucket.numbers)
        self._order = []
        if self._static and self._known_absent is not None:
            self._leave_out(self._known_absent)
        elif self._finds_unused or self._static:
            self._leave_out(self._unreached(walk))

    def _averages(self) -> bool:
        """Whether a backward that begins now averages."""
        owner = self._owner()
        # A forward still counts if its wrapper is gone by now, as in DistributedDataParallel(net)(x).
        return self.armed or (owner is not None and self.follows and bool(owner.require_backward_grad_sync))

    def check_ended(self) -> None:
        """Raise where an earlier backward has failed."""
        if self.ended is not None:
            raise RuntimeError(
                self._told(
                    f"{self.ended}. The processes may have averaged different numbers of gradients since: make a new "
                    "DistributedDataParallel, from a checkpoint if a process has ended"
                )
            )

    def _unreached(self, walk: Walk) -> set[int]:
        """The parameters that no path leads to in this backward."""
        reached = {leaf for leaves in walk.last_uses.values() for leaf in leaves}
        return {number for number, one in enumerate(self.parameters) if one.origin not in reached}

    def _leave_out(self, numbers: "set[int] | frozenset[int]") -> None:
        """Send what ``.grad`` holds, or zeros, for parameters that this backward does not reach."""
        for number in sorted(numbers):
            bucket, view = self._places[number]
            self._put_in(number, view, None)
            self._absent.add(number)
            bucket.missing -= 1
        self._send()

    def _put_in(self, number: int, view: torch.Tensor, gradient: torch.Tensor | None) -> None:
        """Write the contribution of this process to ``view``: the ``.grad`` so far plus ``gradient``."""
        self._add_up(number, view, gradient)
        if self._measurement is not None:
            self._measurement.put(number, view, self._scale)

    def _add_up(self, number: int, view: torch.Tensor, gradient: torch.Tensor | None) -> None:
        held = self.parameters[number]._grad
        if held is None:
            if gradient is None:
                view.zero_()
            elif self._scale == 1.0:
                view.copy_(gradient)
            else:
                torch.mul(gradient, self._scale, out=view)
            return
        data = held._data
        if gradient is not None:
            torch.add(data, gradient, out=view)
        elif data.data_ptr() != view.data_ptr():
            view.copy_(data)
        if self._scale != 1.0:
            view.mul_(self._scale)

    def _send(self, *, ended: bool = False) -> None:
        """Begin the journey of each bucket that is complete and whose turn it is; if delayed, when all rules ran."""
        if self._delayed and not ended:
            return
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self.send(self._buckets[self._next])
            self._next += 1

    def send(self, bucket: Bucket) -> None:
        """Begin the journey of ``bucket``: its part in the average is in its memory."""
        if self._measurement is not None:
            self._measurement.leaves(bucket)
        self._begin_journey(bucket)
        if self._measurement is not None:
            self._measurement.travels(bucket)

    def _begin_journey(self, bucket: Bucket) -> None:
        if self.hook is None:
            bucket.work = self.peers.all_reduce(bucket.flat)
            return
        state, hook = self.hook
        bucket.work = hook(state, bucket)
        if not isinstance(bucket.work, torch._C.Future):
            raise TypeError(
                f"a communication hook returns a torch.futures.Future of the bucket's average, not "
                f"{type(bucket.work).__name__}"
            )

    def _returned(self, value: Any) -> torch.Tensor:
        """The tensor in what the future of a hook holds."""
        found: torch.Tensor = value[0] if isinstance(value, list | tuple) else value
        return found

    def _check_complete(self) -> None:
        """Leave out the expected gradients that did not come, or raise an error if all have to come."""
        missing = {number for number in self._places if number not in self._arrived and number not in self._absent}
        if not missing:
            if self._static and self._known_absent is None:
                self._known_absent = frozenset(self._absent)
            return
        if self._static and self._known_absent is not None:
            raise RuntimeError(
                self._told(f"static_graph=True, but no gradient arrived for {self._named(sorted(missing))}, {_CHANGED}")
            )
        if not self._finds_unused and not self._static:
            raise RuntimeError(
                self._told(
                    f"no gradient arrived for {self._named(sorted(missing))}, on which the loss does not depend. Pass "
                    "find_unused_parameters=True, use every output of the module in the loss, or call the backward "
                    "inside no_sync() if more backwards follow"
                )
            )
        self._leave_out(missing)
        if self._static:
            self._known_absent = frozenset(self._absent)

    def _send_used(self) -> tuple[torch.Tensor, Any] | None:
        """Begin to find out which parameters any process has used; None where it is known."""
        if not (self._finds_unused or self._static) or (self._static and self._flags):
            return None
        device = self._buckets[0].flat.device
        flags = torch.tensor([int(one) for one in self._used], dtype=torch.int32, device=device)
        return flags, self.peers.all_reduce(flags)

    def _read_used(self, sent: tuple[torch.Tensor, Any] | None) -> None:
        """Wait for what ``_send_used`` began, and keep it."""
        if sent is not None:
            flags, work = sent
            self.peers.wait(work, _COMPARING)
            self._flags = flags.tolist()

    def _write(self, number: int, tensor: Tensor) -> None:
        """Make the average the ``.grad`` of ``tensor``.

        A new ``.grad`` is a part of the bucket, which saves a copy. The bucket gets new memory before the next average
        is written, if that ``.grad`` is still held then.
        """
        view, held = self._places[number][1], tensor._grad
        if self._as_view:
            if held is None or held._data is not view:
                tensor._grad = Tensor(view)
        elif held is None:
            tensor._grad = Tensor(view.detach())  # a tensor of its own, which counts as a use of the memory
        elif held._needs_grad:
            tensor._grad = Tensor(view.clone())
        else:
            held._data.copy_(view)

    # Between backwards.

    def rebuild(self) -> None:
        """Once, after the first average: fill the buckets again, in the order in which gradients arrived at rank 0."""
        if not self._rebuilds:
            return
        self._rebuilds = False
        if len(self._buckets) == 1:
            return
        now = [number for bucket in self._buckets for number in bucket.numbers]
        arrived = set(self._order)
        order = [*self._order, *[number for number in now if number not in arrived]]
        told = torch.tensor(order, device=self._buckets[0].flat.device)
        self.peers.broadcast([told], 0, "comparing the order of gradients")
        self._order = []
        if (agreed := told.tolist()) != now:
            self._fill(agreed)

    def shadow(self) -> None:
        """Take part in one backward of the other processes, with zeros, when this one has no inputs any more."""
        self._renew()
        for bucket in self._buckets:
            bucket.flat.zero_()
            self.send(bucket)
        self._used = [False] * len(self._used)
        used = self._send_used()
        for bucket in self._buckets:
            doing = "taking part in the backward of others"
            if self.hook is None:
                self.peers.wait(bucket.work, doing)
            else:
                self.peers.wait_future(bucket.work, doing)
            bucket.work = None
        self._read_used(used)
        if self._rebuilds is None:
            self._rebuilds = True

    # Messages.

    def _told(self, text: str) -> str:
        return f"DistributedDataParallel, rank {self.peers.rank}: {text}"

    def _named(self, numbers: Sequence[int]) -> str:
        """The parameters of these numbers by name."""
        names = ", ".join(repr(self.names[number]) for number in numbers[:SHOWN])
        more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
        return f"parameter{'s' if len(numbers) > 1 else ''} {names}{more}"


_COMPARING = "comparing which parameters were used"
_CHANGED = "unlike in the first backward: pass find_unused_parameters=True instead where the graph changes"

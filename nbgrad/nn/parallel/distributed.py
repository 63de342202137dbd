"""DistributedDataParallel: one copy of a module in each process, and the average of their gradients."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Signature, signature
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.utils._pytree import tree_map

from nbgrad.core.engine.state import current, is_grad_enabled, tell_changed
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parallel.buckets import MEBIBYTE, Bucket
from nbgrad.nn.parallel.peers import peers_of, renewed_peers
from nbgrad.nn.parallel.reducer import BucketReducer
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.nn.sync_batch_norm import SyncBatchNorm

NOT_HERE = {
    "delay_all_reduce_named_params": "leave it out: every gradient is averaged when its bucket is complete",
    "param_to_hook_all_reduce": "leave it out: every gradient is averaged when its bucket is complete",
    "mixed_precision": "use nbgrad.autocast() and nbgrad.amp.GradScaler",
    "device_mesh": "pass process_group=device_mesh.get_group()",
    "skip_all_reduce_unused_params": "leave it out: parameters that no process has used keep their .grad",
    "batched_grad_copy": "leave it out: it is for GPUs, and changes no number",
}
"""Arguments of torch's that are not here, and what to do instead."""


class DistributedDataParallel(Module, Joinable):
    """A module that is trained in several processes, each on its own part of the batch.

    Every process of a ``torch.distributed`` group wraps its copy of the module. They begin with the parameters and
    buffers of rank 0, and each backward leaves the average of the processes' gradients in ``.grad``. Gradients travel
    in buckets while the backward still computes others, and ``backward()`` returns when all have arrived. So parameters
    stay equal in all processes to the last bit. If losses are means and all parts of the batch have one size, training
    is that of one process with the whole batch.

    Args:
        module: the module to train; it stays there as ``net.module``.
        device_ids: the one GPU that the module is on, to which inputs are moved; None for a CPU.
        output_device: as torch has it: the same GPU.
        dim: as torch has it; a process has one device, so inputs are not split.
        broadcast_buffers: whether each forward begins with the buffers of rank 0; default: yes.
        init_sync: whether the processes compare their modules, and take the values of rank 0, when they wrap them.
        process_group: the group; default: that of ``torch.distributed.init_process_group``.
        bucket_cap_mb: how many MiB a bucket may have; default: 25, and 1 for the first.
        find_unused_parameters: whether a backward may leave parameters out, which may differ between processes. It
            costs a walk over the graph and one more message.
        check_reduction: torch has deprecated it; it does nothing.
        gradient_as_bucket_view: whether each ``.grad`` always is the same part of the memory of its bucket. A variable
            that still holds an earlier ``.grad`` then changes with it. If False, a ``.grad`` is a part of the bucket
            too, but the bucket gets new memory if the ``.grad`` is still held when the next average is written.
        static_graph: whether all backwards reach the same parameters as the first. Unused ones are then searched only
            once.
        delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh: not supported.
        skip_all_reduce_unused_params, batched_grad_copy: not supported.
        bucket_cap_mb_list: how many MiB the first bucket may have, the second, and so on; the last is for the rest.
        forward_sync_buffers: the newer name of ``broadcast_buffers``; with False buffers are still equal at the start.

    Raises:
        RuntimeError: there is no process group, the module has no parameter that needs a gradient, it is wrapped
            already, or the modules of the processes differ; when called: a process has ended.
        ValueError: parameters are on several devices, or ``device_ids`` does not name theirs.
        NotImplementedError: an argument of torch's is not supported; the message says what to do.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | torch.device] | None = None,
        output_device: int | torch.device | None = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        given = locals()
        Module.__init__(self)
        Joinable.__init__(self)
        for name, instead in NOT_HERE.items():
            if given[name] not in (None, False):
                raise NotImplementedError(f"DistributedDataParallel has no {name}: {instead}")
        if check_reduction:
            warnings.warn("check_reduction of DistributedDataParallel does nothing: leave it out", FutureWarning, 2)
        check_module(module)
        self.process_group = _group(process_group)
        self.module = module
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = self._named()
        self.device = _device(named)
        self.device_ids = _device_ids(self.device, device_ids, output_device)
        self.output_device = self.device_ids[0] if self.device_ids else None
        self.dim = dim
        kept = forward_sync_buffers if forward_sync_buffers is not None else broadcast_buffers
        self.forward_sync_buffers = kept is None or bool(kept)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._caps = _caps(bucket_cap_mb, bucket_cap_mb_list)
        self._divides_by_all = True
        self._peers = renewed_peers(self.process_group, self.device)
        if init_sync:
            self._check_same(self._named(every=True))
            buffers = self._buffers_of() if self.forward_sync_buffers or forward_sync_buffers is not None else []
            self._take_from(0, [one for _, one in self._named(every=True)], buffers)
        self._reducer = self._made_reducer()

    # The parameters and buffers.

    def _named(self, *, every: bool = False) -> list[tuple[str, Parameter]]:
        """The parameters by name that are not ignored: those that need a gradient, or ``every`` one."""
        named = self.module.named_parameters()
        found = [(name, one) for name, one in named if name not in self.parameters_to_ignore]
        return found if every else [(name, one) for name, one in found if one.requires_grad]

    def _buffers_of(self) -> list[Tensor]:
        return [one for name, one in self.module.named_buffers() if name not in self.parameters_to_ignore]

    @property
    def broadcast_buffers(self) -> bool:
        """Whether each forward begins with the buffers of rank 0."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Sequence[str]
    ) -> None:
        """Leave parameters and buffers of these names alone, in each process; call it before the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)

    def _made_reducer(self) -> BucketReducer:
        unused = self.find_unused_parameters
        synchronized = any(isinstance(one, SyncBatchNorm) for one in self.module.modules())
        return BucketReducer(
            self,
            self._named(),
            self._peers,
            caps=self._caps,
            finds_unused=unused and not self.static_graph,
            static=self.static_graph,
            as_view=self.gradient_as_bucket_view,
            # Processes that use other parameters would send buckets and statistics in other orders.
            delayed=synchronized and (unused or self.static_graph),
        )

    def _take_from(self, source: int, parameters: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
        """Give parameters and buffers the values that they have in the process ``source``."""
        self._peers.broadcast([one._data.detach() for one in parameters], source, "taking the parameters of another")
        tell_changed([one._data for one in parameters], "DistributedDataParallel")
        self._take_buffers(source, buffers)

    def _take_buffers(self, source: int, buffers: Sequence[Tensor]) -> None:
        # .data of a torch tensor has its own version counter, so a graph that saved a buffer stays valid, as in torch.
        self._peers.broadcast([one._data.data for one in buffers], source, "taking the buffers of another")

    def _check_same(self, named: Sequence[tuple[str, Parameter]]) -> None:
        """Raise unless the parameters of all processes have the same names, shapes and element types."""
        mine = [(name, tuple(one.shape), dtype_name(one.dtype), one.requires_grad) for name, one in named]
        digest = int.from_bytes(hashlib.sha256(repr(mine).encode()).digest()[:7], "big")
        both = torch.tensor([digest, -digest], device=self.device)
        self._peers.wait(self._peers.all_reduce(both, dist.ReduceOp.MAX), "comparing the modules of all ranks")
        if both[0] == -both[1]:
            return
        every: list[Any] = [None] * self._peers.size
        dist.all_gather_object(every, mine, group=self.process_group)
        for rank, theirs in enumerate(every):
            if theirs != every[0]:
                raise RuntimeError(
                    "DistributedDataParallel: the modules of the processes differ: "
                    f"{_difference(rank, theirs, every[0])}. Make the same module in each process before it is wrapped"
                )

    # The call.

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The output of the module for this process's part of the batch."""
        recorded = is_grad_enabled()
        self._before(recorded)
        if self.device_ids:
            inputs, kwargs = tree_map(self._moved, (inputs, kwargs))
        output = self.module(*inputs, **kwargs)
        if recorded:
            self._reducer.follows = self.require_backward_grad_sync
            self._reducer.armed = self._reducer.armed or self.require_backward_grad_sync
        self.require_forward_param_sync = recorded and self.require_backward_grad_sync
        return output

    def _before(self, recorded: bool) -> None:
        """Run the steps before a forward that all processes take together."""
        if current().tracer is not None:
            raise NotImplementedError(
                "a program cannot hold the messages of DistributedDataParallel: trace net.module, and average its "
                "gradients"
            )
        reducer = self._reducer
        reducer.check_ended()
        work = Join.notify_join_context(self)
        if work is not None and not self._divides_by_all:
            self._peers.wait(work, "counting the processes that have inputs")
            reducer.active = int(work.get_future().value()[0].item())
        elif not self._join_config.enable:
            reducer.active = self._peers.size
        if recorded:
            reducer.rebuild()
        if self._syncs_buffers():
            source = self._common_rank(True) if self._join_config.enable else 0
            self._take_buffers(source, self._buffers_of())
        if self._join_config.enable:
            self._agree_on_averaging(self.require_backward_grad_sync)

    def _syncs_buffers(self) -> bool:
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self._buffers_of())

    def _moved(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, Tensor | torch.Tensor) else value

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside it nothing is averaged: ``.grad`` adds up what this process computes.

        The first backward whose forward ran outside of it averages all that has added up. Run the forward inside, too.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # Communication hooks.

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], Any]) -> None:
        """Let ``hook(state, bucket)`` average each bucket of gradients.

        Without a hook they are summed, and divided by the number of processes.

        Args:
            state: the first argument of the hook. The hooks of torch take the process group, or None for the default
                group.
            hook: gets a bucket with the methods of ``torch.distributed.GradBucket``, whose gradients are torch tensors,
                and returns a ``torch.futures.Future`` of the average, of shape (elements,). The hooks of
                ``torch.distributed.algorithms.ddp_comm_hooks.default_hooks`` work, such as ``fp16_compress_hook`` and
                ``bf16_compress_hook``.

        Raises:
            TypeError: ``hook`` cannot be called.
            ValueError: its annotations differ from torch's.
            RuntimeError: there is a hook already, or an average is under way.
        """
        if not callable(hook):
            raise TypeError(f"a communication hook must be callable, got {kind_of(hook)}")
        given = signature(hook)
        bucket = given.parameters.get("bucket")
        buckets = (Signature.empty, vars(dist)["GradBucket"], "dist.GradBucket", Bucket)
        if bucket is not None and bucket.annotation not in buckets:
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        futures = (Signature.empty, torch.futures.Future[torch.Tensor], "torch.futures.Future[torch.Tensor]")
        if given.return_annotation not in futures:
            raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")
        if self._reducer.hook is not None:
            raise RuntimeError("register_comm_hook() was called already, and a module has one communication hook")
        self._reducer.hook = (state, hook)

    # Uneven inputs.

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context for a loop over batches whose number differs between processes.

        A process that has no more batches sends zeros to the averages of the others. At the end all processes get the
        parameters of the process that ended last. It does not work with ``SyncBatchNorm``, nor with a forward that
        sends messages itself: pass ``throw_on_early_termination`` for such models.

        Args:
            divide_by_initial_world_size: whether sums are divided by the number of all processes, not by the number of
                those that have a batch.
            enable: False for a context that does nothing, where inputs are known to be even.
            throw_on_early_termination: raise in all processes when the first has no more batches.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook that runs when a process has no more batches, for ``torch.distributed.algorithms.Join``."""
        self._divides_by_all = bool(kwargs.get("divide_by_initial_world_size", True))
        return _Joined(self)

    @property
    def join_device(self) -> torch.device:
        """The device of the module."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The process group."""
        return self.process_group

    def _common_rank(self, candidate: bool) -> int:
        """The largest rank among the candidates; all processes get the same answer."""
        told = torch.tensor([self._peers.rank if candidate else -1], device=self.device)
        self._peers.wait(self._peers.all_reduce(told, dist.ReduceOp.MAX), "choosing the rank that others follow")
        return int(told.item())

    def _agree_on_averaging(self, wanted: bool) -> bool:
        """Whether any process averages in the next backward."""
        told = torch.tensor([float(wanted)], device=self.device)
        self._peers.wait(self._peers.all_reduce(told), "telling whether gradients will be averaged")
        return bool(told.item())

    def _shadow(self) -> None:
        """Take part in one step of the processes that still have batches."""
        self._reducer.rebuild()
        if self._syncs_buffers():
            self._take_buffers(self._common_rank(False), self._buffers_of())
        self.require_forward_param_sync = self._agree_on_averaging(False)
        if self.require_forward_param_sync:
            self._reducer.shadow()

    def _finish_join(self, is_last_joiner: bool) -> None:
        source = self._common_rank(is_last_joiner)
        self._take_from(source, [one for _, one in self._named(every=True)], self._buffers_of())

    # Copies.

    def __getstate__(self) -> dict[str, Any]:
        """The state for a copy or a pickle, without the connections of this process."""
        return {name: value for name, value in vars(self).items() if name not in _OF_THE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy, in the default process group."""
        super().__setstate__(state)
        self.__dict__["process_group"] = _group(None)
        self.__dict__["_peers"] = peers_of(self.process_group, self.device)
        self.__dict__["require_backward_grad_sync"] = self.__dict__["require_forward_param_sync"] = True
        self.__dict__["_reducer"] = self._made_reducer()

    def _set_static_graph(self) -> None:
        """Do as if ``static_graph=True`` had been passed; call it before the first forward."""
        if not self.static_graph:
            self.static_graph = True
            hook = self._reducer.hook
            self._reducer = self._made_reducer()
            self._reducer.hook = hook


_OF_THE_PROCESS = ("process_group", "_peers", "_reducer")


class _Joined(JoinHook):
    """The part that a process without batches takes in the steps of the others."""

    def __init__(self, net: DistributedDataParallel) -> None:
        super().__init__()
        self._net = net

    def main_hook(self) -> None:
        self._net._shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._net._finish_join(is_last_joiner)


# Checks of the arguments.


def check_module(module: Any) -> None:
    """Raise for what cannot be wrapped."""
    if not isinstance(module, Module):
        if isinstance(module, torch.nn.Module):
            raise TypeError(
                "nbgrad.nn.parallel.DistributedDataParallel takes a module of nbgrad's, got "
                f"{torch.typename(module)}: wrap nbgrad.from_torch(net), or use "
                "torch.nn.parallel.DistributedDataParallel"
            )
        raise TypeError(f"DistributedDataParallel takes an nbgrad.nn.Module, got {kind_of(module)}")
    for name, part in module.named_modules():
        if isinstance(part, DistributedDataParallel):
            where = f"its part {name!r} is" if name else "it is"
            raise RuntimeError(
                f"DistributedDataParallel: this {type(module).__name__} cannot be wrapped, {where} a "
                "DistributedDataParallel already: use that one, or delete it and wrap net.module"
            )
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            raise RuntimeError(
                f"DistributedDataParallel: parameter {name!r} has no shape yet: call the module once on an input first"
            )
        hooks = parameter.origin.hooks if parameter.requires_grad else None
        if hooks is None or hooks.reducer is None:
            continue
        other: Any = hooks.reducer[0]
        if other.owned_elsewhere:
            raise RuntimeError(
                f"DistributedDataParallel: parameter {name!r} belongs to another DistributedDataParallel, which would "
                "average its gradient too: use that one, or delete it first"
            )
        other.detach()


def _group(given: Any) -> Any:
    if not dist.is_available():
        raise RuntimeError("this torch was built without torch.distributed, which DistributedDataParallel needs")
    if not dist.is_initialized():
        raise RuntimeError(
            "DistributedDataParallel needs a process group: call torch.distributed.init_process_group('gloo') first, "
            "'nccl' for GPUs, in a program that torchrun has started; or pass rank=, world_size= and init_method="
        )
    group = given if given is not None else dist.group.WORLD
    if dist.get_rank(group) < 0:
        raise RuntimeError(
            "DistributedDataParallel: this process is not in process_group: wrap the module in those only"
        )
    return group


def _device(named: Sequence[tuple[str, Parameter]]) -> torch.device:
    if not named:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient: "
            "use the module itself"
        )
    places: dict[torch.device, str] = {}
    for name, one in named:
        places.setdefault(one.device, name)
    if len(places) > 1:
        listed = ", ".join(f"{name!r} on {device}" for device, name in places.items())
        raise ValueError(
            f"DistributedDataParallel: the parameters are on several devices, {listed}: move the module to one, with "
            "net.to(device), one device for each process"
        )
    return next(iter(places))


def _device_ids(device: torch.device, given: Any, output_device: Any) -> list[torch.device] | None:
    """The device that inputs are moved to, in a list; None where they are not."""
    if not given and output_device is None:
        return None
    if device.type == "cpu":
        raise ValueError(
            f"DistributedDataParallel: device_ids and output_device are for GPUs, got {given} and {output_device}, but "
            "the module is on a CPU: leave them out, or move the module first"
        )
    if given and len(given) > 1:
        raise ValueError("device_ids can only be None or contain a single element: one device for each process")
    for one in [*(given or ()), *([] if output_device is None else [output_device])]:
        named = torch.device(device.type, one) if isinstance(one, int) else torch.device(one)
        if named != device:
            raise ValueError(f"DistributedDataParallel: the module is on {device}, but device_ids says {named}")
    return [device] if given else None


def _caps(given: float | None, several: Sequence[float] | None) -> tuple[int, ...]:
    """How many bytes the first bucket may have, the second, and so on."""
    if several:
        return tuple(int(one * MEBIBYTE) for one in several)
    return (MEBIBYTE, 25 * MEBIBYTE) if given is None else (int(given * MEBIBYTE),)


def _difference(rank: int, theirs: Sequence[Any], first: Sequence[Any]) -> str:
    """A text on the first parameter in which rank ``rank`` differs from rank 0."""
    for here, there in zip(theirs, first, strict=False):
        if here != there:
            return f"rank {rank} has {_described(here)}, and rank 0 {_described(there)}"
    longer, least = (theirs, first) if len(theirs) > len(first) else (first, theirs)
    who = rank if longer is theirs else 0
    return (
        f"rank {rank} has {len(theirs)} parameters, and rank 0 {len(first)}; only rank {who} has "
        f"{_described(longer[len(least)])}"
    )


def _described(one: tuple[str, tuple[int, ...], str, bool]) -> str:
    name, shape, dtype, needs = one
    return f"parameter {name!r} of shape {shape} and dtype {dtype}{'' if needs else ', frozen,'}"

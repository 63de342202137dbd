"""The backwards of modules that torch's ``fully_shard`` has divided, measured for the graphs that compare the ranks.

Each process has the whole gradient of a parameter for a moment: its own backward has computed it, and FSDP is about to
reduce it, so that a share of the average stays in each process. One function of torch's gets these gradients. Ours
takes its place while a backward runs, reads them and calls it.
"""

import hashlib
import sys
from collections.abc import Callable
from inspect import signature
from math import sqrt
from typing import Any

import torch

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import record_id
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.torch_origins import leaf_of
from nbgrad.core.graph.rank_part import RankPart, norm_of, numbers_of, store_of
from nbgrad.core.graph.torch_reduction import DOING, HeldPatch, Reduced
from nbgrad.core.recorder.patches import Patch

_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param_group"

_ROUNDINGS = 16
"""Sums of numbers that are reduced in another order may be apart by so many roundings."""


class ShardedReduction:
    """One backward of this process, from its begin to its end. It measures nothing if FSDP reduces nothing.

    Args:
        observers: those of the thread that calls the backward. Torch may reduce in another one.
    """

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._sent: list[_Sent] = []

    def reduce(self, run: Callable[..., Any], call: dict[str, Any]) -> Any:
        """Measure the gradients of a group of parameters, and have them reduced by ``run``."""
        sent: _Sent | None = None
        try:
            if call.get("all_reduce_group") is None and call["reduce_scatter_group"].size() > 1:
                sent = _Sent(call)
        except Exception as error:
            if not taken(self._observers, error, DOING):
                raise
        if sent is not None:
            self._sent.append(sent)
        return run(**call)

    @muted
    @torch.no_grad()
    def end(self) -> list[Reduced]:
        """The measurements of the groups of processes; the shares of the averages have arrived."""
        groups: dict[int, list[_Sent]] = {}
        for one in self._sent:
            groups.setdefault(id(one.group), []).append(one)
        return [_reduced(found) for found in groups.values()]


class _Sent:
    """The parameters of a module, whose gradients travel together: a bucket.

    Args:
        call: the arguments of torch's function.
    """

    @muted
    @torch.no_grad()
    def __init__(self, call: dict[str, Any]) -> None:
        gradients: list[torch.Tensor] = call["unsharded_grads"]
        self.parameters: list[Any] = list(call["fsdp_params"])
        self.group: Any = call["reduce_scatter_group"]
        self.number: int = self.group._get_sequence_number_for_group()
        dtype = call.get("reduce_dtype") or gradients[0].dtype
        self.precision = torch.finfo(dtype).eps
        self.bytes = sum(one.numel() for one in gradients) * dtype.itemsize
        self.scale = (call.get("gradient_divide_factor") or self.group.size()) / self.group.size()
        self.norms = [norm_of(one) for one in gradients]
        self.sums = [one.sum() for one in gradients]
        self.elements = [one.numel() for one in gradients]
        self.held = [
            None if (one := _local(each.sharded_param.grad)) is None else one.clone() for each in self.parameters
        ]

    def shares(self) -> list[torch.Tensor]:
        """For each parameter, the share of the average that this backward has brought."""
        found = list[torch.Tensor]()
        for one, held in zip(self.parameters, self.held, strict=True):
            local = _local(one.sharded_param.grad)
            share = torch.zeros(1) if local is None else local if held is None else local - held
            found.append(share * self.scale)
        return found


def _local(gradient: Any) -> torch.Tensor | None:
    """The part of a gradient that is in this process."""
    return None if gradient is None else gradient._local_tensor


def _reduced(sent: list[_Sent]) -> Reduced:
    """The measurements of one group of processes."""
    parameters = [one for each in sent for one in each.parameters]
    shares = [share for each in sent for share in each.shares()]
    norms, sums, own = (
        numbers_of(found)
        for found in (
            [norm for each in sent for norm in each.norms],
            [total for each in sent for total in each.sums],
            [share.sum() for share in shares],
        )
    )
    precision = max(one.precision for one in sent)
    elements = [many for each in sent for many in each.elements]
    doubts = [_ROUNDINGS * precision * sqrt(many) * norm for many, norm in zip(elements, norms, strict=True)]
    named = [_local(one.sharded_param) for one in parameters]
    part = RankPart(
        names=[str(one._param_fqn) for one in parameters],
        buckets=[(one.bytes, len(one.parameters)) for one in sent],
        norms=norms,
        averages=numbers_of([norm_of(one) for one in shares]),
        digest=hashlib.sha256(repr([one.number for one in sent]).encode()).hexdigest()[:32],
        values=numbers_of([norm_of(one) for one in named if one is not None]),
        sums=[0] * len(parameters),
        journeys=None,  # ranks wait for each other also where parameters are gathered
        precision=precision,
        shares=[list(each) for each in zip(sums, own, doubts, strict=True)],
    )
    ids = [record_id(leaf_of(one.unsharded_param)) for one in parameters]
    return Reduced(store_of(sent[0].group), part, ids)


class ReduceWatch(HeldPatch):
    """Has the gradients that FSDP reduces measured by the reductions that hold it, while backwards run."""

    def _patched(self) -> Patch | None:
        module = sys.modules.get(_MODULE)
        return None if module is None else Patch(module, "foreach_reduce", self._made)

    def _made(self, run: Callable[..., Any]) -> Any:
        """Our function for ``run``, which reduces the gradients of one module."""
        arguments = signature(run)

        def foreach_reduce(*args: Any, **kwargs: Any) -> Any:
            if len(self._holders) != 1:  # of two backwards at once, torch does not say whose gradients these are
                return run(*args, **kwargs)
            return self._holders[0].reduce(run, arguments.bind(*args, **kwargs).arguments)

        return foreach_reduce


REDUCES = ReduceWatch()

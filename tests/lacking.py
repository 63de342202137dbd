"""What torch had not yet, or had wrong, in versions that nbgrad works with: there a case has no reference.

Each is asked of torch itself, and of nothing else: with the newest torch nothing is lacking.
"""

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.utils import prune


def _gradient(function: Callable[..., Any], *data: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [one.clone().requires_grad_() for one in data]
    return torch.autograd.grad(function(*leaves), leaves, create_graph=True)


def _differentiable(function: Callable[..., Any], *data: torch.Tensor) -> bool:
    return bool(_gradient(function, *data))


def _sampled_twice(dims: int) -> bool:
    def slopes(*leaves: torch.Tensor) -> Any:
        found = functional.grid_sample(*leaves, align_corners=False).square().sum()
        return sum(one.sum() for one in torch.autograd.grad(found, leaves, create_graph=True))

    return _differentiable(slopes, torch.rand(1, 1, *(2,) * dims), torch.zeros(1, *(1,) * dims, dims))


def _unused_need_no_gradient() -> bool:
    x, unused = (torch.ones(1, requires_grad=True) for _ in range(2))
    return not torch.autograd.grad(x.square().sum(), [unused, x], materialize_grads=True)[0].requires_grad


def _meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def _flash_meta() -> bool:
    one = torch.empty(1, 1, 2, 4, device="meta", dtype=torch.float64)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(one, one, one)[1].dtype is torch.float64


def _raises(kind: type[Exception], run: Callable[[], Any]) -> bool:
    try:
        run()
    except kind:
        return True
    return False


class _NoLists(torch.Tensor):
    """A tensor that takes no list for an index."""

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, list):
            raise TypeError
        super().__setitem__(index, value)


LACKING: dict[str, tuple[str, Callable[[], Any]]] = {
    "trace": (
        "torch's gradient of the trace of a matrix with more rows than columns is wrong",
        lambda: torch.equal(_gradient(torch.trace, torch.ones(4, 2))[0], torch.eye(4, 2)),
    ),
    "atan2": (
        "torch's gradient of atan2 is NaN at the origin",
        lambda: not any(one.isnan().any() for one in _gradient(torch.atan2, torch.zeros(()), torch.zeros(()))),
    ),
    "linalg_det": (
        "torch has no gradient of the determinant of a matrix without elements",
        lambda: _differentiable(torch.linalg.det, torch.ones(0, 0)),
    ),
    "aminmax": ("torch has no gradient of aminmax", lambda: _differentiable(lambda x: x.aminmax().min, torch.ones(2))),
    "linalg_lstsq": (
        "torch has no gradient of the residuals of lstsq",
        lambda: torch.linalg.lstsq(torch.eye(3, 2).requires_grad_(), torch.ones(3, 1)).residuals.requires_grad,
    ),
    "grid_sampler": ("torch has no second-order gradient of grid_sample", lambda: all(map(_sampled_twice, (2, 3)))),
    "mixed": (
        "torch multiplies real by complex numbers where there are none, and only there",
        lambda: _raises(RuntimeError, lambda: torch.mv(torch.zeros(0, 3, dtype=torch.complex64), torch.zeros(3))),
    ),
    "var on meta": (
        "torch takes no correction below 0 on the meta device",
        lambda: torch.var(_meta(0, 3), None, correction=-1).is_meta,
    ),
    "bucketize on meta": (
        "torch has no bucketize of one number on the meta device",
        lambda: torch.bucketize(0.5, _meta(3)).is_meta,
    ),
    "flash_attention on meta": ("torch has another dtype for it on the meta device than elsewhere", _flash_meta),
    "indices from the end": (
        "torch's take_along_dim takes no numbers below 0",
        lambda: torch.ones(2, 2).take_along_dim(torch.tensor([[-1]]), 1).numel(),
    ),
    "sum(tensor)": (
        "torch takes a tensor for dim of sum, and sums all",
        lambda: torch.ones(2, 2).sum(torch.tensor(1)).ndim,
    ),
    "roll(tensor)": (
        "torch takes no tensor for the shifts of roll",
        lambda: torch.roll(torch.ones(2, 2), torch.tensor(1), 0).numel(),
    ),
    "lp_pool of inf": (
        "torch's lp_pool takes inf for an ordinary norm",
        lambda: functional.lp_pool1d(torch.tensor([[1.0, 2.0]]), float("inf"), 2).item() == 2,
    ),
    "ldexp_": (
        "torch has no gradient of ldexp in place",
        lambda: _differentiable(lambda x: (x * 1).ldexp_(torch.tensor(2)), torch.tensor(1.0)),
    ),
    "align_to_window": (
        "torch.stft has no align_to_window",
        lambda: "align_to_window" in signature(torch.stft).parameters,
    ),
    "linear_cross_entropy": (
        "torch has no linear_cross_entropy",
        lambda: hasattr(functional, "linear_cross_entropy"),
    ),
    "autograd.backward": (
        "torch.autograd.backward asks no tensor how it is done: nbgrad.autograd.backward does it",
        lambda: "has_torch_function" in torch.autograd.backward.__code__.co_names,
    ),
    "grad of nothing": (
        "torch has another kind of error for no inputs",
        lambda: _raises(RuntimeError, lambda: torch.autograd.grad(torch.ones((), requires_grad=True), [])),
    ),
    "error without a kernel": (
        "torch has no error of its own for an element type without a kernel",
        lambda: _raises(NotImplementedError, lambda: torch.ones(2, dtype=torch.int64).softmax(0)),
    ),
    "ln_structured": (
        "torch's ln_structured gives the parts of an index as a list, which is an error of ours",
        lambda: prune.LnStructured(1, 2).compute_mask(torch.ones(2, 2).as_subclass(_NoLists), torch.ones(2, 2)).ndim,
    ),
    "materialize_grads": ("torch's zeros for an input that is not used need a gradient", _unused_need_no_gradient),
}
"""What a torch may lack, and whether this one has it: what is false, or raises, says that it has not."""


@cache
def lacks(what: str) -> str:
    """Why there is nothing to compare with; empty where there is."""
    reason, has = LACKING[what]
    try:
        there = bool(has())
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        there = False
    return "" if there else f"{reason} ({torch.__version__})"


def needing(what: str) -> pytest.MarkDecorator:
    """The mark of a case that is left out where torch lacks that."""
    return pytest.mark.skipif(bool(lacks(what)), reason=lacks(what))


def need(what: str) -> None:
    """Leave the test out where torch lacks that."""
    if reason := lacks(what):
        pytest.skip(reason)

"""Parts that supported torch versions lack or have wrong. A test case then has no reference to compare with.

Each answer comes only from torch itself.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from inspect import getsource, signature
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.utils import prune

# The functions return a reason, or an empty text if torch has everything.


def absent(module: ModuleType, name: str, settings: Iterable[str] = ()) -> str:
    """Why this torch lacks ``name`` or one of its arguments ``settings``; empty if it has all of them."""
    if not hasattr(module, name):
        return f"torch {torch.__version__} has no {module.__name__}.{name}"
    known = signature(getattr(module, name)).parameters if settings else {}
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return ""
    missing = [f"{setting}=" for setting in settings if setting not in known]
    return f"{module.__name__}.{name} of torch {torch.__version__} takes no {', '.join(missing)}" if missing else ""


def unsaid(kind: type, message: str) -> str:
    """Why torch's class cannot raise an error with this message; empty if the message is in its source."""
    known = message in getsource(kind)
    return "" if known else f"{kind.__name__} of torch {torch.__version__} has no error that says {message!r}"


def _unless(reason: str, has: Callable[[], Any]) -> Callable[[], str]:
    """A function that returns ``reason`` if ``has`` is false or raises, because torch then lacks something."""

    def ask() -> str:
        try:
            there = bool(has())
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
            there = False
        return "" if there else f"{reason} ({torch.__version__})"

    return ask


def case(*values: Any, reason: str, called: str | None = None) -> Any:
    """A test case. It is skipped for ``reason`` if torch has nothing to compare with; ``reason`` is empty if it has."""
    return pytest.param(*values, id=called, marks=[pytest.mark.skip(reason=reason)] if reason else [])


# Ops.


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


def _with_a_device(make: Callable[[], torch.Tensor]) -> bool:
    with torch.device("cpu"):
        return make().is_cpu


def _quiet(old: Callable[..., Any], *args: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):  # the warning says that the name is old
        return old(*args)


class _NoLists(torch.Tensor):
    """A tensor that refuses a list as an index."""

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, list):
            raise TypeError
        super().__setitem__(index, value)


LACKING: dict[str, Callable[[], str]] = {
    "trace": _unless(
        "torch's gradient of the trace of a matrix with more rows than columns is wrong",
        lambda: torch.equal(_gradient(torch.trace, torch.ones(4, 2))[0], torch.eye(4, 2)),
    ),
    "atan2": _unless(
        "torch's gradient of atan2 is NaN at the origin",
        lambda: not any(one.isnan().any() for one in _gradient(torch.atan2, torch.zeros(()), torch.zeros(()))),
    ),
    "linalg_det": _unless(
        "torch has no gradient of the determinant of a matrix without elements",
        lambda: _differentiable(torch.linalg.det, torch.ones(0, 0)),
    ),
    "aminmax": _unless(
        "torch has no gradient of aminmax", lambda: _differentiable(lambda x: x.aminmax().min, torch.ones(2))
    ),
    "qr": _unless("torch has taken torch.qr away", lambda: _quiet(torch.qr, torch.eye(2))),
    "cholesky": _unless("torch has taken torch.cholesky away", lambda: _quiet(torch.cholesky, torch.eye(2)).numel()),
    "linalg_lstsq": _unless(
        "torch has no gradient of the residuals of lstsq",
        lambda: torch.linalg.lstsq(torch.eye(3, 2).requires_grad_(), torch.ones(3, 1)).residuals.requires_grad,
    ),
    "grid_sampler": _unless(
        "torch has no second-order gradient of grid_sample", lambda: all(map(_sampled_twice, (2, 3)))
    ),
    "mixed": _unless(
        "torch multiplies real by complex numbers where there are none, and only there",
        lambda: _raises(RuntimeError, lambda: torch.mv(torch.zeros(0, 3, dtype=torch.complex64), torch.zeros(3))),
    ),
    "var on meta": _unless(
        "torch takes no correction below 0 on the meta device",
        lambda: torch.var(_meta(0, 3), None, correction=-1).is_meta,
    ),
    "bucketize on meta": _unless(
        "torch has no bucketize of one number on the meta device",
        lambda: torch.bucketize(0.5, _meta(3)).is_meta,
    ),
    "flash_attention on meta": _unless("torch has another dtype for it on the meta device than elsewhere", _flash_meta),
    "indices from the end": _unless(
        "torch's take_along_dim takes no numbers below 0",
        lambda: torch.ones(2, 2).take_along_dim(torch.tensor([[-1]]), 1).numel(),
    ),
    "sum(tensor)": _unless(
        "torch takes a tensor for dim of sum, and sums all",
        lambda: torch.ones(2, 2).sum(torch.tensor(1)).ndim,
    ),
    "roll(tensor)": _unless(
        "torch takes no tensor for the shifts of roll",
        lambda: torch.roll(torch.ones(2, 2), torch.tensor(1), 0).numel(),
    ),
    "lp_pool of inf": _unless(
        "torch's lp_pool takes inf for an ordinary norm",
        lambda: functional.lp_pool1d(torch.tensor([[1.0, 2.0]]), float("inf"), 2).item() == 2,
    ),
    "ldexp_": _unless(
        "torch has no gradient of ldexp in place",
        lambda: _differentiable(lambda x: (x * 1).ldexp_(torch.tensor(2)), torch.tensor(1.0)),
    ),
    "align_to_window": partial(absent, torch, "stft", ["align_to_window"]),
    "linear_cross_entropy": partial(absent, functional, "linear_cross_entropy"),
    "autograd.backward": _unless(
        "torch.autograd.backward asks no tensor how it is done: nbgrad.autograd.backward does it",
        lambda: "has_torch_function" in torch.autograd.backward.__code__.co_names,
    ),
    "grad of nothing": _unless(
        "torch has another kind of error for no inputs",
        lambda: _raises(RuntimeError, lambda: torch.autograd.grad(torch.ones((), requires_grad=True), [])),
    ),
    "error without a kernel": _unless(
        "torch has no error of its own for an element type without a kernel",
        lambda: _raises(NotImplementedError, lambda: torch.ones(2, dtype=torch.int64).softmax(0)),
    ),
    "ln_structured": _unless(
        "torch's ln_structured gives the parts of an index as a list, which is an error of ours",
        lambda: prune.LnStructured(1, 2).compute_mask(torch.ones(2, 2).as_subclass(_NoLists), torch.ones(2, 2)).ndim,
    ),
    "fill": _unless(
        "torch.fill does not take the device that torch gives it where one is set",
        lambda: _with_a_device(lambda: torch.fill(torch.ones(2), 1.0)),
    ),
    "vander": _unless(
        "torch.vander does not take the device that torch gives it where one is set",
        lambda: _with_a_device(lambda: torch.vander(torch.ones(2))),
    ),
    "materialize_grads": _unless(
        "torch's zeros for an input that is not used need a gradient", _unused_need_no_gradient
    ),
}
"""The things that a torch may lack. Each has a function that says why this torch lacks it."""


@cache
def lacks(what: str) -> str:
    """Why there is nothing to compare with; empty if there is something."""
    return LACKING[what]()


def need(what: str) -> None:
    """Skip the test if torch lacks ``what``."""
    if reason := lacks(what):
        pytest.skip(reason)


# Classes.

LATER = {
    "Adam": "decoupled_weight_decay",
    "GroupNorm": "bias",
    "LBFGS": "maximize",
    **{
        f"{lazy}{kind}Norm{rank}d": "bias"
        for lazy in ("", "Lazy")
        for kind in ("Batch", "Instance")
        for rank in (1, 2, 3)
    },
}
"""Arguments that classes got after torch 2.6."""

_NORMS: dict[str, tuple[int, ...]] = {
    "LayerNorm": (2,),
    "GroupNorm": (1, 2),
    **{f"{kind}Norm{rank}d": (2,) for kind in ("Batch", "Instance") for rank in (1, 2, 3)},
}


class _Missing(Exception):
    """This torch has no such class, or its class has no such argument."""


class _Asked:
    """One of torch's modules. It raises ``_Missing`` for a class or an argument that this torch lacks."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if reason := absent(self._module, name):
            raise _Missing(reason)
        found = getattr(self._module, name)

        def make(*args: Any, **settings: Any) -> Any:
            if reason := absent(self._module, name, settings):
                raise _Missing(reason)
            return found(*args, **settings)

        return make if isinstance(found, type) else found


def rows(table: Mapping[str, Any]) -> list[Any]:
    """The names of ``table`` as test cases. A row's ``make`` builds a block of either library; a test builds both."""
    return [case(name, reason=_missing(one.make)) for name, one in table.items()]


def _missing(make: Callable[[Any], Any]) -> str:
    try:
        make(_Asked(torch.nn))
    except _Missing as missing:
        return str(missing)
    return ""


def parameters(kind: Any, torchs: Any) -> list[tuple[Any, ...]]:
    """Names, kinds and defaults of the parameters of ``kind``, without the one of ``LATER`` that ``torchs`` lacks."""
    known = signature(torchs).parameters
    found = []
    for one in signature(kind).parameters.values():
        if one.name in known or one.name != LATER.get(torchs.__name__):
            default = one.default.__name__ if callable(one.default) else one.default
            found.append((one.name, one.kind, default))
    return found


_SILENT = [kind for kind, args in _NORMS.items() if "bias=" not in repr(getattr(torch.nn, kind)(*args))]


def printed(block: Any) -> str:
    """The repr of one of our blocks. If this torch does not print the bias of its norms, ours is removed too."""
    kinds = "|".join(_SILENT)
    return re.sub(rf"\b((?:Lazy)?(?:{kinds})\(.*?), bias=(?:True|False)", r"\1", repr(block)) if kinds else repr(block)

"""numpy's functions on our tensors run our ops, and its arrays share their memory with ours.

``np.exp(t)`` is ``nbgrad.exp(t)``, as ``torch.exp(t)`` is. numpy computes a function without a row if no gradient gets
lost. Otherwise the function raises an error.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch

from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.interop.torch_functions import known
from nbgrad.core.structure import exchanged, of_kind
from nbgrad.core.tensor.tensor import Tensor

SAME = {
    "conjugate": "conj",
    "degrees": "rad2deg",
    "equal": "eq",
    "fabs": "abs",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "vecdot": "linalg_vecdot",
}
"""numpy's names of ufuncs for what torch calls otherwise."""

TENSORS_ONLY = {
    *("arctan2", "fmax", "fmin", "gcd", "heaviside", "hypot", "lcm", "ldexp", "logaddexp", "logaddexp2"),
    *("logical_and", "logical_or", "logical_xor", "maximum", "minimum"),
}
"""numpy's ufuncs whose counterparts in torch take no Python number."""

ABOUT_NUMPY = {np.ndim, np.result_type, np.shape, np.size}
"""numpy's functions that need no values."""

REDUCTIONS: dict[Any, str] = {
    np.all: "all",
    np.amax: "amax",
    np.amin: "amin",
    np.any: "any",
    np.argmax: "argmax",
    np.argmin: "argmin",
    np.count_nonzero: "count_nonzero",
    np.max: "amax",
    np.mean: "mean",
    np.min: "amin",
    np.nanmean: "nanmean",
    np.nansum: "nansum",
    np.prod: "prod",
    np.std: "std",
    np.sum: "sum",
    np.var: "var",
}
"""numpy's reductions that are rows."""

UFUNC_REDUCTIONS = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "amax",
    "minimum": "amin",
    "multiply": "prod",
}


def from_numpy(array: "np.ndarray[Any, Any]") -> Tensor:
    """A tensor that shares the memory of a numpy array; ``nbgrad.tensor(array)`` copies it.

    Raises:
        TypeError: torch has no element type for the array's.
    """
    return Tensor(torch.from_numpy(array))


def _array_ufunc(
    _self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] | None = None, **settings: Any
) -> Any:
    """A ufunc of numpy was called with one of our tensors: run our op of that name."""
    name = ufunc.__name__
    ours = known(SAME.get(name, name))  # torch.equal is another function
    if out is None and ours is not None:
        if method == "__call__" and not settings and _takes(ours, ufunc.nin):
            return ours(*_operands(inputs, numbers=name not in TENSORS_ONLY))
        if method == "reduce" and name in UFUNC_REDUCTIONS and settings.keys() <= {"axis", "keepdims"}:
            return _reduced(UFUNC_REDUCTIONS[name], inputs[0], **{"axis": 0, **settings})
    called = f"numpy.{name}" + ("" if method == "__call__" else f".{method}")
    if out is not None and any(isinstance(one, Tensor) for one in out):
        raise TypeError(f"{called}(out=...) cannot write into an nbgrad tensor: use the result, or change t.data")
    if out is not None:
        called += " with out="
    elif settings and ours is not None:
        called += f" with {', '.join(settings)}"
    return _by_numpy(called, getattr(ufunc, method), inputs, {**settings, **({} if out is None else {"out": out})})


def _operands(inputs: tuple[Any, ...], *, numbers: bool) -> list[Any]:
    """The operands of a ufunc as ours take them.

    Without ``numbers`` a Python number becomes a tensor, of the element type that an op on both would give.
    """
    beside = next(one.data for one in inputs if isinstance(one, Tensor))
    operands = [
        torch.from_numpy(one) if isinstance(one, np.ndarray) else one.item() if isinstance(one, np.generic) else one
        for one in inputs
    ]
    if numbers:
        return operands
    return [
        torch.tensor(one, dtype=torch.result_type(beside, one), device=beside.device)
        if isinstance(one, bool | int | float | complex)
        else one
        for one in operands
    ]


def _takes(ours: Callable[..., Any], count: int) -> bool:
    """Whether a row or function takes this many tensors and needs no more."""
    if isinstance(ours, Op):
        return ours.arity == count
    parameters = list(signature(ours).parameters.values())
    return len(parameters) >= count and all(one.default is not Parameter.empty for one in parameters[count:])


def _array_function(
    _self: Tensor, function: Callable[..., Any], _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A function of numpy that is no ufunc was called with one of our tensors: run our row if it is a reduction."""
    name = REDUCTIONS.get(function)
    if name is not None and not args[2:]:
        settings = dict(zip(("a", "axis"), args, strict=False)) | kwargs
        if name in OPS and "correction" in OPS[name].defaults:
            settings["correction"] = settings.pop("ddof", 0)
        if settings.keys() <= {"a", "axis", "keepdims", "correction"}:
            return _reduced(name, settings.pop("a"), **settings)
    if function in ABOUT_NUMPY:
        return function(*_arrays(args, detached=True), **_arrays(kwargs, detached=True))
    return _by_numpy(f"{function.__module__}.{function.__name__}", function, args, kwargs)


def _reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False, **settings: Any) -> Any:
    row = known(name)
    assert row is not None
    if axis is not None:
        settings["dim"] = axis
    return row(x, **settings, **({"keepdim": True} if keepdims else {}))


def _by_numpy(called: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Numpy's own answer, as numpy's arrays, where no tensor needs a gradient.

    Raises:
        TypeError: a tensor needs a gradient, which numpy would lose.
    """
    if any(one.requires_grad for one in of_kind(Tensor, [args, kwargs])):
        raise TypeError(
            f"{called} has no counterpart in nbgrad, and would lose the gradient: use nbgrad's ops, or "
            "t.detach().numpy() for the values alone"
        )
    return function(*_arrays(args), **_arrays(kwargs))


def _arrays(values: Any, *, detached: bool = False) -> Any:
    """``values`` with arrays of numpy in place of our tensors."""
    return exchanged(Tensor, lambda tensor: (tensor.detach() if detached else tensor).numpy(), values)


Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]  # here: it calls rows, which tensor.py does not know
Tensor.__array_function__ = _array_function  # type: ignore[attr-defined]  # the same

"""Other libraries' functions on our tensors: torch's and numpy's names run our ops, DLPack and numpy share memory.

``torch.exp(t)`` and ``np.exp(t)`` are ``nbgrad.exp(t)``: recorded, with a gradient. The function is looked up in the op
table by its name, so a new row is known here without a line. What has no row is an error: no gradient gets lost.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch.overrides import resolve_name
from torch.utils.data._utils.collate import default_collate_fn_map  # where torch says to add types
from torch.utils.dlpack import from_dlpack as from_capsule

from nbgrad.core import ops
from nbgrad.core.base import raw_of
from nbgrad.core.binding import NO_OUT, TORCHS
from nbgrad.core.grad import backward, grad
from nbgrad.core.methods import TensorMethods
from nbgrad.core.modes import is_grad_enabled
from nbgrad.core.op import OPS
from nbgrad.core.ops import calling
from nbgrad.core.ops.packing import pack_padded, pad_packed, pad_sequence
from nbgrad.core.row import Op
from nbgrad.core.tensor import Tensor, tensor

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

HIDDEN: dict[str, Callable[..., Any]] = {
    "_pack_padded_sequence": pack_padded,
    "_pad_packed_sequence": pad_packed,
    "pad_sequence": pad_sequence,
}
"""What torch.nn.utils.rnn calls; torch itself shows nobody these names."""

INPUTS = {"input": 0, "self": 0, "other": 1}
"""The positions of inputs that torch names so, whatever a function of ours calls them."""

SETTINGS = {"axis": "dim", "keepdims": "keepdim"}
"""numpy's names of settings, which torch takes too."""

_CHANGES = {"__setitem__", *(f"__i{name[2:]}" for name in dir(torch.Tensor) if hasattr(torch.Tensor, f"__i{name[2:]}"))}
"""torch's methods that change a tensor in place, as ``__iadd__`` does, besides those that end in an underscore."""

ABOUT = {
    *("allclose", "can_cast", "equal", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference"),
    *("_is_all_true", "_is_any_true", "is_neg", "is_nonzero", "is_same_size", "is_signed", "numel", "result_type"),
    *("binomial", "multinomial", "poisson"),
}
"""torch's functions that ask something of the data or draw by them: no gradient."""

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


def from_dlpack(external: Any) -> Tensor:
    """A tensor that shares the memory of an array of another library, through DLPack.

    Args:
        external: anything with ``__dlpack__``: an array of numpy, cupy or jax, a torch tensor.
    """
    return Tensor(from_capsule(external))


def from_numpy(array: "np.ndarray[Any, Any]") -> Tensor:
    """A tensor that shares the memory of a numpy array; ``nbgrad.tensor(array)`` copies it.

    Raises:
        TypeError: torch has no element type for the array's.
    """
    return Tensor(torch.from_numpy(array))


# torch


def _torch_function(
    _kind: type[Tensor],
    function: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Torch was called with one of our tensors: run our op of that name."""
    if not all(issubclass(kind, Tensor | torch.Tensor) for kind in types):
        return NotImplemented
    settings = dict(kwargs or {})
    name = getattr(function, "__name__", "")
    changes = name in _CHANGES or (name.endswith("_") and not name.endswith("__"))
    if changes and args and isinstance(args[0], torch.Tensor):
        return _changed(function, args, settings)
    ours = _ours(function, name)
    if ours is not None:
        if settings.pop("out", None) is not None:
            raise NotImplementedError(NO_OUT.format(called=_called(function)))
        if getattr(function, "__objclass__", None) is not None and isinstance(args[0], torch.Tensor):
            args = (_constant(args[0]), *args[1:])
        return ours(*args, **_translated(function, ours, settings))
    if name in ABOUT:
        result = function(*_each(args, raw_of), **_each(settings, raw_of))
        return tensor(result, requires_grad=result.requires_grad) if isinstance(result, torch.Tensor) else result
    raise NotImplementedError(
        f"nbgrad has no op {_called(function)!r} yet: use t.data for the values without gradients"
    )


def _changed(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A torch tensor changed in place by values of ours that have no gradient: ``p.data -= rate * p.grad``."""

    def value(tensor: Tensor) -> torch.Tensor:
        if tensor.requires_grad and is_grad_enabled():
            raise TypeError(
                f"{_called(function)} on a torch tensor would take in values of an nbgrad tensor and lose their "
                "gradient: pass t.data for the values alone, or make the torch tensor one of ours with nbgrad.tensor()"
            )
        return tensor.data

    return function(*_each(args, value), **_each(settings, value))


def _ours(function: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    """What runs instead of torch's ``function``: our method for a method, else the function or row of that name."""
    if "Tensor" in getattr(function, "__qualname__", ""):
        return getattr(Tensor, name) if hasattr(TensorMethods, name) else None
    if function in (torch.autograd.grad, torch.autograd.backward):
        return grad if function is torch.autograd.grad else backward
    public = str(resolve_name(function) or "")
    place, _, short = public.rpartition(".")
    if place == "torch.nn.functional" and short in vars(calling):  # those that take inplace= or weights
        return _callable(getattr(calling, short))
    found = _known(name)
    if found is None and place in {"torch.nn.functional", "torch.special"}:  # some call themselves otherwise
        found = _known(short)
    return found or _callable(getattr(Tensor, name, None))


def _known(name: str) -> Callable[..., Any] | None:
    """The function or row that goes by a name of torch's."""
    return _callable(getattr(ops, name, None)) or OPS.get(name) or HIDDEN.get(name)


def _callable(found: Any) -> Callable[..., Any] | None:
    """What was found, if it can be called: a module may have the name of a row."""
    return found if callable(found) else None


def _translated(function: Callable[..., Any], ours: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Named arguments under our names, without those that say what is so anyway.

    Raises:
        NotImplementedError: an argument that our op does not know.
    """
    if isinstance(ours, Op):
        known = (*ours.inputs, *([ours.listed] if ours.listed else []), *ours.defaults)
    else:
        known = tuple(signature(ours).parameters)
    torchs = {theirs: name for name in known[::-1] for theirs in TORCHS.get(name, ())}
    translated = {}
    for name, value in settings.items():
        ours_name = SETTINGS.get(name, name)
        if ours_name not in known:
            ours_name = torchs.get(name, name)
        if ours_name not in known and INPUTS.get(name, len(known)) < len(known):
            ours_name = known[INPUTS[name]]
        if ours_name in known:
            translated[ours_name] = value
        elif value is not None and not _is_default(function, name, value):
            raise NotImplementedError(
                f"{_called(function)} on an nbgrad tensor takes no {name}={value!r}: nbgrad's op has {', '.join(known)}"
            )
    return translated


def _is_default(function: Callable[..., Any], name: str, value: Any) -> bool:
    """Whether ``value`` is what torch's function takes for ``name`` where nothing is passed."""
    try:
        parameter = signature(function).parameters[name]
    except (KeyError, ValueError):  # written in C: it has no signature
        return False
    return parameter.default is not Parameter.empty and bool(parameter.default == value)


def _called(function: Callable[..., Any]) -> str:
    """Torch's name of a function, as ``torch.nn.functional.gelu``."""
    return str(resolve_name(function) or getattr(function, "__qualname__", function))


def _constant(value: torch.Tensor) -> Tensor:
    if value.requires_grad:
        raise RuntimeError(
            "a torch tensor that requires grad in torch's own autograd, into which nbgrad does not differentiate, was "
            "mixed with an nbgrad tensor: wrap it with nbgrad.tensor(t, requires_grad=True), or pass t.detach()"
        )
    return Tensor(value)


# numpy


def _array_ufunc(
    _self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] | None = None, **settings: Any
) -> Any:
    """A ufunc of numpy was called with one of our tensors: run our op of that name."""
    name = ufunc.__name__
    ours = _known(SAME.get(name, name))  # torch.equal is another function
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

    Without ``numbers`` a Python number is a tensor, of the element type that it has beside our tensor.
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
    """Another function of numpy was called with one of our tensors: its reductions are rows."""
    name = REDUCTIONS.get(function)
    if name is not None and not args[2:]:
        settings = dict(zip(("a", "axis"), args, strict=False)) | kwargs
        if name in {"std", "var"}:
            settings["correction"] = settings.pop("ddof", 0)
        if settings.keys() <= {"a", "axis", "keepdims", "correction"}:
            return _reduced(name, settings.pop("a"), **settings)
    if function in ABOUT_NUMPY:
        return function(*_arrays(args, detached=True), **_arrays(kwargs, detached=True))
    return _by_numpy(f"{function.__module__}.{function.__name__}", function, args, kwargs)


def _reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False, **settings: Any) -> Any:
    row = _known(name)
    assert row is not None
    if axis is not None:
        settings["dim"] = axis
    return row(x, **settings, **({"keepdim": True} if keepdims else {}))


def _by_numpy(called: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Numpy's own answer, as numpy's arrays, where no tensor needs a gradient.

    Raises:
        TypeError: a tensor needs a gradient, which numpy would lose.
    """
    if any(one.requires_grad for one in _flat([args, kwargs]) if isinstance(one, Tensor)):
        raise TypeError(
            f"{called} has no counterpart in nbgrad, and would lose the gradient: use nbgrad's ops, or "
            "t.detach().numpy() for the values alone"
        )
    return function(*_arrays(args), **_arrays(kwargs))


def _flat(values: Any) -> list[Any]:
    """What is in ``values``, and in the lists, tuples and dicts there."""
    if isinstance(values, dict):
        values = list(values.values())
    return [one for value in values for one in _flat(value)] if isinstance(values, list | tuple) else [values]


def _arrays(values: Any, *, detached: bool = False) -> Any:
    """``values`` with arrays of numpy in place of our tensors."""
    return _each(values, lambda tensor: (tensor.detach() if detached else tensor).numpy())


def _each(values: Any, change: Callable[[Tensor], Any]) -> Any:
    """``values`` with what ``change`` makes of each of our tensors in its place, also in lists, tuples and dicts."""
    if isinstance(values, Tensor):
        return change(values)
    if isinstance(values, dict):
        return {key: _each(value, change) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_each(value, change) for value in values)
    return values


# torch's DataLoader


def _batch(tensors: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:  # noqa: ARG001  # torch passes its table
    """What a ``DataLoader`` makes of the tensors of a batch, as of torch's own."""
    return ops.stack(tensors)


default_collate_fn_map[Tensor] = _batch


# DLPack


def _dlpack(self: Tensor, **settings: Any) -> Any:
    """The memory as a DLPack capsule.

    Raises:
        BufferError: the tensor needs a gradient, which another library would lose.
    """
    if self.requires_grad:
        raise BufferError("a tensor that needs a gradient would lose it in another library: export t.detach()")
    return self.data.__dlpack__(**settings)


def _dlpack_device(self: Tensor) -> tuple[Any, int]:
    """The kind of device and its number, in DLPack's numbers."""
    return self.data.__dlpack_device__()


for _name, _method in {
    "__torch_function__": classmethod(_torch_function),
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
}.items():
    setattr(Tensor, _name, _method)

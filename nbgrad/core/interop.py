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
from torch.utils.dlpack import from_dlpack as from_capsule

from nbgrad.core import ops
from nbgrad.core.methods import Conversions, TensorMethods
from nbgrad.core.op import OPS, Op
from nbgrad.core.tensor import Tensor, tensor

SAME = {
    "absolute": "abs",
    "divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "special_expit": "sigmoid",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "subtract": "sub",
    "true_divide": "div",
}
"""Other names, of torch and numpy, for what the table calls like this."""

INPUTS = {"input": 0, "self": 0, "other": 1, "exponent": 1}
"""The positions of inputs that torch names so, whatever the row calls them."""

SETTINGS = {"axis": "dim", "keepdims": "keepdim"}
"""numpy's names of settings, which torch takes too."""

ABOUT = {
    *("allclose", "can_cast", "equal", "is_complex", "is_floating_point", "is_nonzero", "is_same_size", "is_signed"),
    *("isclose", "isfinite", "isinf", "isnan", "numel", "result_type"),
    *("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like"),
}
"""torch's functions that ask something of the data or make new data of their shape: they have no gradient."""

ABOUT_NUMPY = {np.ndim, np.result_type, np.shape, np.size}
"""numpy's functions that need no values."""

REDUCTIONS: dict[Any, str] = {np.sum: "sum", np.mean: "mean", np.max: "amax", np.amax: "amax"}
"""numpy's reductions that are rows."""

UFUNC_REDUCTIONS = {"add": "sum", "maximum": "amax"}


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
    changes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    if changes and args and isinstance(args[0], torch.Tensor):
        raise TypeError(
            f"{_called(function)} on a torch tensor would take in values of an nbgrad tensor and lose their gradient: "
            "pass t.data for the values alone, or make the torch tensor one of ours with nbgrad.tensor()"
        )
    ours = _ours(function, name)
    if ours is not None:
        if getattr(function, "__objclass__", None) is not None and isinstance(args[0], torch.Tensor):
            args = (_constant(args[0]), *args[1:])
        return ours(*args, **_translated(function, ours, settings))
    if name in ABOUT:
        result = function(*map(_raw, args), **{key: _raw(value) for key, value in settings.items()})
        return tensor(result, requires_grad=result.requires_grad) if isinstance(result, torch.Tensor) else result
    raise NotImplementedError(
        f"nbgrad has no op {_called(function)!r} yet: use t.data for the values without gradients"
    )


def _ours(function: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    """What runs instead of torch's ``function``: our method for a method, else the function or row of that name."""
    name = SAME.get(name, name)
    if "Tensor" in getattr(function, "__qualname__", ""):
        known = name in vars(TensorMethods) or name in vars(Conversions)
        return getattr(Tensor, name) if known else None
    found = getattr(ops, name, OPS.get(name))
    return found if callable(found) else None


def _translated(function: Callable[..., Any], ours: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Named arguments under our names, without those that say what is so anyway.

    Raises:
        NotImplementedError: an argument that our op does not know.
    """
    known = ours.inputs + tuple(ours.defaults) if isinstance(ours, Op) else tuple(signature(ours).parameters)
    translated = {}
    for name, value in settings.items():
        ours_name = SETTINGS.get(name, name)
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
    if name == "alpha":
        return bool(value == 1)
    try:
        parameter = signature(function).parameters[name]
    except (KeyError, ValueError):  # written in C: it has no signature
        return False
    return parameter.default is not Parameter.empty and bool(parameter.default == value)


def _called(function: Callable[..., Any]) -> str:
    """Torch's name of a function, as ``torch.nn.functional.gelu``."""
    return str(resolve_name(function) or getattr(function, "__qualname__", function))


def _raw(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else value


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
    name = "eq" if ufunc is np.equal else SAME.get(ufunc.__name__, ufunc.__name__)  # torch.equal is another function
    row = OPS.get(name)
    if out is None and row is not None:
        if method == "__call__" and not settings and row.arity == ufunc.nin:
            return row(*inputs)
        if method == "reduce" and name in UFUNC_REDUCTIONS and settings.keys() <= {"axis", "keepdims"}:
            return _reduced(UFUNC_REDUCTIONS[name], inputs[0], **{"axis": 0, **settings})
    called = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if out is not None and any(isinstance(one, Tensor) for one in out):
        raise TypeError(f"{called}(out=...) cannot write into an nbgrad tensor: use the result, or change t.data")
    if out is not None:
        called += " with out="
    elif settings and row is not None:
        called += f" with {', '.join(settings)}"
    return _by_numpy(called, getattr(ufunc, method), inputs, {**settings, **({} if out is None else {"out": out})})


def _array_function(
    _self: Tensor, function: Callable[..., Any], _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Another function of numpy was called with one of our tensors: its reductions are rows."""
    if function in REDUCTIONS and not args[1:] and kwargs.keys() <= {"axis", "keepdims"}:
        return _reduced(REDUCTIONS[function], args[0], **kwargs)
    if function in ABOUT_NUMPY:
        return function(*_arrays(args, detached=True), **_arrays(kwargs, detached=True))
    return _by_numpy(f"{function.__module__}.{function.__name__}", function, args, kwargs)


def _reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return OPS[name](x, dim=() if axis is None else axis, keepdim=keepdims)


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
    """``values`` with arrays of numpy in place of our tensors, also in lists, tuples and dicts."""
    if isinstance(values, Tensor):
        return (values.detach() if detached else values).numpy()
    if isinstance(values, dict):
        return {key: _arrays(value, detached=detached) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_arrays(value, detached=detached) for value in values)
    return values


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

"""torch's functions on our tensors run our ops; DLPack and torch's DataLoader take them.

``torch.exp(t)`` is ``nbgrad.exp(t)``: recorded, with a gradient. The function is looked up in the op table by its name,
so a new row needs no line here. A function without a row raises an error, so no gradient gets lost.
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import resolve_name
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map  # where torch says to add types
from torch.utils.dlpack import from_dlpack as from_capsule

from nbgrad.core import ops
from nbgrad.core.dispatch.arguments import NO_OUT, NUMPYS, other_names
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current, is_grad_enabled, no_grad, tell_changed
from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.functional.grad import backward, grad
from nbgrad.core.interop.aten_functions import check_kernel
from nbgrad.core.interop.filling import fill
from nbgrad.core.interop.torch_graphs import run_custom_op
from nbgrad.core.ops import torch_signatures
from nbgrad.core.ops.create.random import sample_dirichlet, standard_gamma
from nbgrad.core.ops.linalg.grouped import grouped_mm
from nbgrad.core.ops.linalg.weight_norm import norm_except_dim, weight_norm
from nbgrad.core.ops.neural.rnn import pack_padded, pad_packed, pad_sequence
from nbgrad.core.structure import exchanged, of_kind
from nbgrad.core.tensor.filled import counterparts, entered, fillings
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor, tensor

HIDDEN: dict[str, Callable[..., Any]] = {
    "_grouped_mm": grouped_mm,
    "_pack_padded_sequence": pack_padded,
    "_pad_packed_sequence": pad_packed,
    "_sample_dirichlet": sample_dirichlet,
    "_sparse_addmm": ops.addmm,
    "_sparse_mm": ops.mm,
    "_standard_gamma": standard_gamma,
    "_weight_norm": weight_norm,
    "grouped_mm": grouped_mm,
    "norm_except_dim": norm_except_dim,
    "pad_sequence": pad_sequence,
}
"""Functions that torch.nn.utils, torch.distributions, torch.sparse and models call. torch documents few of them."""

INPUTS = {"input": 0, "self": 0, "other": 1}
INPUTS |= {numpys: place for name, place in list(INPUTS.items()) for numpys in NUMPYS.get(name, ())}
"""The positions of inputs by their names in torch or numpy. A function of ours may have other names for them."""

_CHANGES = {"__setitem__", *(f"__i{name[2:]}" for name in dir(torch.Tensor) if hasattr(torch.Tensor, f"__i{name[2:]}"))}
"""torch's methods that change a tensor in place, as ``__iadd__`` does, besides those that end in an underscore."""

ABOUT = {
    *("allclose", "can_cast", "equal", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference"),
    *(
        "_is_all_true",
        "_is_any_true",
        "_parse_to",
        "is_neg",
        "is_nonzero",
        "is_same_size",
        "is_signed",
        "numel",
        "result_type",
    ),
    *("binomial", "multinomial", "poisson"),
}
"""torch's functions that answer a question about the data, or draw random numbers from them: no gradient."""


def from_dlpack(external: Any) -> Tensor:
    """A tensor that shares the memory of an array of another library, through DLPack.

    Args:
        external: anything with ``__dlpack__``: an array of numpy, cupy or jax, a torch tensor.
    """
    return Tensor(from_capsule(external))


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
    if fillings.any:
        args, settings = counterparts(args), counterparts(settings)
    name = getattr(function, "__name__", "")
    changes = name in _CHANGES or (name.endswith("_") and not name.endswith("__"))
    if changes and args and isinstance(args[0], torch.Tensor):
        return _changed(function, args, settings)
    if getattr(function, "__module__", None) == "torch.nn.init":
        return _filled(function, settings)
    if isinstance(function, OpOverload | OpOverloadPacket) and str(function).partition(".")[0] not in _TORCHS_OWN:
        overload = function if isinstance(function, OpOverload) else _overload(function)
        return run_custom_op(overload, args, settings)
    ours = _ours(function, name)
    return (
        _without_op(function, args, settings, changes=changes) if ours is None else _run(function, ours, args, settings)
    )


def _without_op(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any], *, changes: bool) -> Any:
    """Run a function of torch's that nbgrad has no op for, on the data, if no gradient can get lost.

    Raises:
        NotImplementedError: one can.
    """
    name = getattr(function, "__name__", "")
    if name in ABOUT:
        result = function(*exchanged(Tensor, raw_of, args), **exchanged(Tensor, raw_of, settings))
        return tensor(result, requires_grad=result.requires_grad) if isinstance(result, torch.Tensor) else result
    if changes or settings.get("out") is not None or _needs_gradient(args, settings):
        raise NotImplementedError(
            f"nbgrad has no op {_called(function)!r} yet: use t.data for the values without gradients"
        )
    return _constants(function, args, settings)


def _needs_gradient(args: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Whether the result may need a gradient, or a program is traced, which would not have the function."""
    if current().tracer is not None:
        return True
    given = [*of_kind(Tensor, [args, settings]), *of_kind(torch.Tensor, [args, settings])]
    return is_grad_enabled() and any(one.requires_grad for one in given)


def _constants(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The results of a function of torch's that nbgrad has no op for, on tensors that need no gradient.

    Raises:
        NotImplementedError: a result shares the memory of an argument: a change of one would have to reach the other.
    """
    raw, named = exchanged(Tensor, raw_of, args), exchanged(Tensor, raw_of, settings)
    held = {one.untyped_storage().data_ptr() for one in of_kind(torch.Tensor, [raw, named])} - {0}
    with no_grad():
        result = function(*raw, **named)
    for one in of_kind(torch.Tensor, result):
        if one.layout is not torch.strided or one.untyped_storage().data_ptr() in held:
            raise NotImplementedError(
                f"nbgrad has no op {_called(function)!r} yet, whose result is a view or no dense tensor: use t.data "
                "for the values without gradients"
            )
    return _as_ours(result)


_TORCHS_OWN = {"aten", "prim", "prims", "aten_", "_refs", "higher_order", "inductor"}
"""The namespaces of torch's own ops, which run by the names of their functions."""


def _overload(packet: OpOverloadPacket) -> OpOverload:
    """The one op of a name.

    Raises:
        NotImplementedError: there are several.
    """
    names: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    if len(names) > 1:
        written = ", ".join(f"{packet}.{name}" for name in names)
        raise NotImplementedError(f"{packet} on an nbgrad tensor stands for several ops: call one of {written}")
    overload: OpOverload = getattr(packet, names[0])
    return overload


def _changed(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A torch tensor changed in place by values of ours, as in ``out[0] = y`` or ``p.data -= rate * p.grad``.

    If one of them needs a gradient, the torch tensor becomes one that stands for a tensor of ours.
    """
    target: torch.Tensor = args[0]
    given = of_kind(Tensor, [args, settings])
    if not is_grad_enabled() or not any(one.requires_grad for one in given) or not differentiable(target.dtype):
        return function(*exchanged(Tensor, raw_of, args), **exchanged(Tensor, raw_of, settings))
    name = function.__name__
    change = getattr(Tensor, name, None)
    if change is None or target.requires_grad:
        raise TypeError(
            f"{_called(function)} on a torch tensor would get values of an nbgrad tensor and lose their gradient: pass "
            "t.data to write only the values, or convert the torch tensor with nbgrad.tensor()"
        )
    change(fill(target), *args[1:], **settings)
    return target


def _run(
    function: Callable[..., Any], ours: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Run our op in place of torch's ``function``."""
    if settings.get("out") is not None:
        return _written(function, args, settings)
    settings.pop("out", None)
    if getattr(function, "__objclass__", None) is not None and isinstance(args[0], torch.Tensor):
        args = (_constant(args[0]), *args[1:])
    result = ours(*args, **_translated(function, ours, settings))
    return result if function.__name__ in HIDDEN else _as_ours(result)


def _as_ours(result: Any) -> Any:
    """``result`` with ours for each torch tensor, such as a part of a ``meshgrid`` that comes from torch's alone."""
    if type(result) is torch.Tensor and not result.requires_grad:
        return Tensor(result)
    if not isinstance(result, tuple | list) or not any(type(one) is torch.Tensor for one in result):
        return result
    mapped = map(_as_ours, result)
    return type(result)(*mapped) if hasattr(result, "_fields") else type(result)(mapped)


def _written(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A function with ``out=`` where no gradient is asked for, as under ``no_grad``: ``out`` is written and returned.

    Raises:
        NotImplementedError: a gradient is asked for.
    """
    if is_grad_enabled() and any(one.requires_grad for one in of_kind(Tensor, [args, settings])):
        raise NotImplementedError(NO_OUT.format(called=_called(function)))
    function(*exchanged(Tensor, raw_of, args), **exchanged(Tensor, raw_of, settings))
    out = settings["out"]
    tell_changed(
        [raw_of(one) for one in (out if isinstance(out, list | tuple) else (out,))], f"{_called(function)}(out=)"
    )
    return out


def _filled(function: Callable[..., Any], settings: dict[str, Any]) -> Tensor:
    """One of our tensors that torch's initialisation fills in place: recorded nowhere, as it works on the data."""
    target: Tensor = settings["tensor"]
    function(**exchanged(Tensor, raw_of, settings))
    tell_changed([target.data], f"init.{function.__name__}()")
    return target


def _ours(function: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    """The function to run instead of torch's ``function``: our method for a method, else our function of that name."""
    if "Tensor" in getattr(function, "__qualname__", ""):
        return getattr(Tensor, name) if hasattr(TensorMethods, name) else None
    if function in (torch.autograd.grad, torch.autograd.backward):
        return grad if function is torch.autograd.grad else backward
    check_kernel(function, name)
    public = str(resolve_name(function) or "")
    place, _, short = public.rpartition(".")
    if place == "torch.nn.functional" and short in vars(torch_signatures):  # those that take inplace= or weights
        return _callable(getattr(torch_signatures, short))
    found = known(name)
    if found is None and place in {"torch.nn.functional", "torch.special"}:  # some call themselves otherwise
        found = known(short)
    return found or _callable(getattr(Tensor, name, None))


def known(name: str) -> Callable[..., Any] | None:
    """The function or row that goes by a name of torch's."""
    return _callable(getattr(ops, name, None)) or OPS.get(name) or HIDDEN.get(name)


def _callable(found: Any) -> Callable[..., Any] | None:
    """The object that was found, if it can be called: a module may have the name of a row."""
    return found if callable(found) else None


def _translated(function: Callable[..., Any], ours: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Named arguments under our names, without those that only state our default.

    Raises:
        NotImplementedError: an argument that our op does not know.
    """
    if isinstance(ours, Op):
        known = (*ours.inputs, *([ours.listed] if ours.listed else []), *ours.defaults)
    else:
        known = tuple(signature(ours).parameters)
    names = ours.other_names() if isinstance(ours, Op) else other_names(known)
    translated = {}
    for name, value in settings.items():
        ours_name = names.get(name, name)
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
    return entered(value) if value.requires_grad else Tensor(value)


# torch's DataLoader


def _batch(tensors: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """The batch that a ``DataLoader`` makes of tensors, as it does of torch's own.

    Raises:
        RuntimeError: in a worker's process, a tensor needs a gradient: its history cannot leave the process.
    """
    if get_worker_info() is None:
        return ops.stack(tensors)
    if is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise RuntimeError(
            "an item of a DataLoader with num_workers > 0 needs a gradient, which cannot leave the worker's process: "
            "return t.detach() from the dataset, or write num_workers=0"
        )
    return Tensor(collate_tensor_fn([raw_of(one) for one in tensors], collate_fn_map=collate_fn_map))


default_collate_fn_map[Tensor] = _batch


# DLPack


def _dlpack(self: Tensor, **settings: Any) -> Any:
    """The memory as a DLPack capsule.

    Raises:
        BufferError: the tensor needs a gradient, which another library would lose.
    """
    if self.requires_grad:
        raise BufferError(
            "an nbgrad tensor that needs a gradient would lose it in another library, and in torch.as_tensor(t) or "
            "torch.tensor(t): take t itself, or export t.detach()"
        )
    return self.data.__dlpack__(**settings)


def _dlpack_device(self: Tensor) -> tuple[Any, int]:
    """The kind of device and its number, in DLPack's numbers."""
    return self.data.__dlpack_device__()


for _name, _method in {
    "__torch_function__": classmethod(_torch_function),
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
}.items():
    setattr(Tensor, _name, _method)

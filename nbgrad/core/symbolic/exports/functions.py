"""The functions that a file may name: those of torch that compute tensors from tensors, and nothing else.

A name in a file is looked up, never evaluated. ``torch.load``, ``torch.from_file`` and methods such as ``Tensor.numpy``
are no functions of a program: a file that names them is refused.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import torch

from nbgrad.core.dispatch.opaque import OPAQUE
from nbgrad.core.dispatch.table import OPS

_REFUSED = frozenset(
    (
        *("from_file", "set_data", "set_", "backward", "_backward", "requires_grad_", "retain_grad", "record_stream"),
        *("item", "_local_scalar_dense", "data_ptr", "const_data_ptr", "pin_memory", "_pin_memory", "_version"),
    )
)
"""Operators of aten that open files, change the state of torch or of an autograd graph, or look at numbers."""

_OPERATORS = frozenset(
    (
        *("add", "sub", "mul", "matmul", "truediv", "div", "floordiv", "mod", "pow", "and", "or", "xor", "lshift"),
        *("rshift", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem", "setitem"),
    )
)
_DUNDERS = frozenset(f"__{prefix}{name}__" for name in _OPERATORS for prefix in ("", "i", "r"))
_CASTS = frozenset(
    (
        *("bool", "byte", "char", "short", "int", "long", "half", "bfloat16", "float", "double", "cfloat", "cdouble"),
        *("type", "unique", "new_tensor"),
    )
)
_PROPERTIES = frozenset(("real", "imag", "T", "mT", "H", "mH", "data"))
_NAMESPACES = ("aten", "mkldnn", "mkl", "prims")
_MODULES = ("torch._C._nn", "torch._C._linalg", "torch._C._special", "torch._C._fft")
_METHODS = (MethodDescriptorType, WrapperDescriptorType, FunctionType)


def _is_operator(name: str) -> bool:
    return name not in _REFUSED and hasattr(torch.ops.aten, name)


def _named() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions by name, without those of ``torch.ops``."""
    yield from ((f"nbgrad.ops.{name}", row) for name, row in OPS.items())
    yield from ((name, function) for name, function in OPAQUE.items() if name.startswith("nbgrad.core."))
    yield from _of_torch()
    yield from _of_modules()
    for name in dir(torch.Tensor):
        found = getattr(torch.Tensor, name)
        fits = name in _DUNDERS or name in _CASTS or (not name.startswith("__") and _is_operator(name))
        if fits and isinstance(found, _METHODS):
            yield f"torch.Tensor.{name}", found


def _of_torch() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(torch._C._VariableFunctions):
        found = getattr(torch, name, None)
        if isinstance(found, BuiltinFunctionType) and _is_operator(name):
            yield f"torch.{name}", found
    yield from ((f"torch.{name}", getattr(torch, name)) for name in torch.functional.__all__)


def _of_modules() -> Iterator[tuple[str, Callable[..., Any]]]:
    for space in (torch.nn.functional, torch.linalg, torch.special, torch.fft):
        for name, found in vars(space).items():
            own = isinstance(found, FunctionType) and found.__module__ == space.__name__ and not name.startswith("_")
            if own or (isinstance(found, BuiltinFunctionType) and found.__module__ in (*_MODULES, "torch")):
                yield f"{space.__name__}.{name}", found
    for path in _MODULES:
        space = getattr(torch._C, path.rpartition(".")[2])
        for name, found in vars(space).items():
            if isinstance(found, BuiltinFunctionType):
                yield f"{path}.{name}", found


@lru_cache(1)
def _tables() -> tuple[dict[str, Callable[..., Any]], dict[int, str]]:
    by_name: dict[str, Callable[..., Any]] = {}
    names: dict[int, str] = {}
    for name, found in _named():
        by_name.setdefault(name, found)
        names.setdefault(id(found), name)  # builtins of modules live as long as these
    return by_name, names


def path_of(function: Callable[..., Any]) -> str | None:
    """The dotted name by which ``function_at`` finds a function; None if it has none."""
    if isinstance(function, torch._ops.OpOverload):
        path = f"torch.ops.{function.namespace}.{function._schema.name.partition('::')[2]}.{function._overloadname}"
    elif isinstance(function, torch._ops.OpOverloadPacket):
        path = f"torch.ops.{function._qualified_op_name.replace('::', '.')}"
    elif isinstance(function, MethodWrapperType):
        path = f"torch.Tensor.{getattr(function.__self__, '__name__', '')}.{function.__name__}"
    else:
        return _tables()[1].get(id(function)) or _path_of_row(function)
    try:
        found = function_at(path)
    except LookupError:
        return None
    return path if found == function else None


def _path_of_row(function: Any) -> str | None:
    name = getattr(function, "name", None)
    return f"nbgrad.ops.{name}" if name is not None and OPS.get(name) is function else None


def function_at(path: str) -> Callable[..., Any]:
    """The function with a dotted name.

    Raises:
        LookupError: there is none, or a program may not call it.
    """
    found = _tables()[0].get(path)
    if found is not None:
        return found
    made = _property(path) or _operator(path)
    if made is None:
        row = OPS.get(path.removeprefix("nbgrad.ops.")) if path.startswith("nbgrad.ops.") else None
        if row is None:
            raise LookupError(f"{path} is no function that a program may call")
        return row
    return made


def _property(path: str) -> Callable[..., Any] | None:
    space, _, accessor = path.rpartition(".")
    parent, _, name = space.rpartition(".")
    if parent != "torch.Tensor" or name not in _PROPERTIES or accessor not in ("__get__", "__set__"):
        return None
    if accessor == "__set__" and name not in ("real", "imag"):
        return None
    made: Callable[..., Any] = getattr(getattr(torch.Tensor, name), accessor)
    return made


def _operator(path: str) -> Callable[..., Any] | None:
    parts = path.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) not in (4, 5) or not all(part.isidentifier() for part in parts):
        return None
    space, name = parts[2:4]
    if space not in _NAMESPACES or name in _REFUSED or name.startswith("__"):
        return None
    packet = getattr(getattr(torch.ops, space), name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    if len(parts) == 4:
        return packet
    return getattr(packet, parts[4]) if parts[4] in packet.overloads() else None

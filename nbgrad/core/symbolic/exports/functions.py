"""The functions that a file may name: those of ``named.py``, which is a list, and the rows of the op table.

A name in a file is looked up, never evaluated. What the list does not have is refused, also where torch has it:
``torch.load`` and ``Tensor.numpy`` as well as ``aten.set_grad_enabled``, which would change the state of torch.
"""

import importlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import MethodWrapperType
from typing import Any

import torch

from nbgrad.core.dispatch.opaque import OPAQUE
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.symbolic.exports.named import KERNELS, NAMED

_PROPERTIES = frozenset(("real", "imag", "T", "mT", "H", "mH", "data"))


def _named() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions by name, without those of ``torch.ops``."""
    yield from ((f"nbgrad.ops.{name}", row) for name, row in OPS.items())
    yield from ((name, function) for name, function in OPAQUE.items() if name.startswith("nbgrad.core."))
    for path, names in NAMED.items():
        space = _space(path)
        for name in names:
            found = getattr(space, name, None)
            if callable(found):  # another version of torch may not have it
                yield f"{path}.{name}", found


def _space(path: str) -> Any:
    """The module, or the class, with a dotted name."""
    if path == "torch.Tensor":
        return torch.Tensor
    if path.startswith("torch._C."):
        return getattr(torch._C, path.rpartition(".")[2])
    return importlib.import_module(path)


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
    """A kernel of ``torch.ops``, with or without the name of an overload, that ``KERNELS`` lists."""
    space, _, name = path.removeprefix("torch.ops.").partition(".")
    name, _, overload = name.partition(".")
    if not path.startswith("torch.ops.") or name not in KERNELS.get(space, ()):
        return None
    packet = getattr(getattr(torch.ops, space), name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    known: list[str] = packet.overloads()  # type: ignore[no-untyped-call]  # torch's has no types
    if overload not in known and not path.endswith(f".{space}.{name}"):
        return None
    # Some names also stand for operators of lists and texts, which the interpreter of TorchScript uses.
    taken = [overload] if overload else known
    if not all(_is_of_tensors(getattr(packet, one)._schema) for one in taken):
        return None
    return getattr(packet, overload) if overload else packet


def _is_of_tensors(schema: Any) -> bool:
    """Whether an operator makes tensors from tensors."""
    given, made = ([str(one.type) for one in part] for part in (schema.arguments, schema.returns))
    return all(any("Tensor" in kind for kind in part) for part in (given, made))

"""Whether a call of a function leaves nothing behind but its results: only then may a finding run it again.

The bytecode says it. A function may use its arguments and what it makes, torch and other modules of mathematics,
constants, tensors that it does not change, and functions that leave nothing behind either. What is not known to be
harmless is not: a list or an object of the user's, another module, a global or a file that it writes, a collective.
"""

import dis
from collections.abc import Container, Iterator
from inspect import getattr_static
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.call_site import NOT_THE_USERS
from nbgrad.core.symbolic.surroundings import codes_in
from nbgrad.core.tensor.tensor import Tensor

_MODULES = frozenset({"builtins", "cmath", "functools", "itertools", "math", "nbgrad", "numpy", "operator", "torch"})
_EXCEPT = ("torch.distributed", "torch.multiprocessing", "torch.hub", "torch.ops", "torch.utils.tensorboard")
"""Modules of torch's that wait for other processes, write files or run code that is not torch's."""

_OUTSIDE = frozenset({
    "__import__", "breakpoint", "delattr", "distributed", "eval", "exec", "globals", "hub", "input", "load",
    "manual_seed", "multiprocessing", "open", "ops", "random", "save", "savetxt", "savez", "seed", "setattr", "tofile",
    "use_deterministic_algorithms", "vars",
})  # fmt: skip
"""Names of these modules that reach what is outside: files, processes, switches, the numbers drawn by numpy."""

_HERE = ("set_materialize_grads", "set_grad_enabled")
"""Those that begin with "set_" and switch nothing that outlasts the run."""

_CHANGING = frozenset({
    "at", "backward", "copyto", "fill", "itemset", "partition", "put", "putmask", "resize", "sort",
})  # fmt: skip
"""Names that change a tensor or an array, apart from those that end with "_" and the argument ``out``."""

_NAMING = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "IMPORT_FROM")
_VALUES = (
    torch.Tensor, Tensor, np.ndarray, np.generic,
    int, float, complex, str, bytes, type(None), type(...), slice, range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
"""Constants, and tensors: a function may use those from outside that no function changes."""

_TENSORS = _VALUES[:3]


def leaves_nothing(function: Any) -> bool:
    """Whether a call of ``function``, a function in Python, changes nothing that the program could read later."""
    reached, waiting = set[FunctionType](), [function]
    tensors = changes = False
    while waiting:
        one = waiting.pop()
        one = one.__func__ if isinstance(one, staticmethod) else one
        if not isinstance(one, FunctionType):
            return False
        if one in reached:
            continue
        reached.add(one)
        if _reaches_out(one):
            return False
        changes = changes or _changes(one)
        for value in _used(one):
            if isinstance(value, FunctionType | staticmethod):
                waiting.append(value)
            elif not _is_harmless(value):
                return False
            else:
                tensors = tensors or _holds_tensor(value)
    return not (tensors and changes)


def _codes(function: FunctionType) -> Iterator[CodeType]:
    """The code of a function, and of those in it; none of a function of torch's or ours, which only uses its inputs."""
    return iter(()) if function.__code__.co_filename.startswith(NOT_THE_USERS) else codes_in(function.__code__)


def _instructions(function: FunctionType) -> Iterator[tuple[dis.Instruction, dis.Instruction]]:
    """The instructions of a function, and of those in it, each after the one before it."""
    for code in _codes(function):
        yield from pairwise(one for one in dis.get_instructions(code) if one.opname not in ("EXTENDED_ARG", "NOP"))


def _reaches_out(function: FunctionType) -> bool:
    """Whether a function changes what is outside of it, or may, by an instruction of its own."""
    if (function.__module__ or "").startswith(_EXCEPT):
        return True
    outer = function.__code__.co_freevars
    return any(_does_outside(one, before, outer) for before, one in _instructions(function))


def _does_outside(one: dis.Instruction, before: dis.Instruction, outer: Container[str]) -> bool:
    if one.opname == "STORE_ATTR":  # of ctx, or of what the function has made
        return "LOAD_FAST" not in before.opname
    if one.opname == "IMPORT_NAME":
        return not _is_of_mathematics(one.argval)
    if one.opname in _NAMING:
        return one.argval in _OUTSIDE or (one.argval.startswith("set_") and one.argval not in _HERE)
    return one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (one.opname == "STORE_DEREF" and one.argval in outer)


def _changes(function: FunctionType) -> bool:
    """Whether a function may change a tensor in place."""
    named = [one for code in _codes(function) for one in code.co_consts if isinstance(one, tuple)]
    return any("out" in one for one in named) or any(
        (one.opname in _NAMING and (one.argval in _CHANGING or one.argval.rstrip("_") + "_" == one.argval))
        or one.opname == "STORE_SUBSCR"
        or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))
        for _, one in _instructions(function)
    )


def _used(function: FunctionType) -> Iterator[Any]:
    """The values from outside that a function uses. Of a class or a module of the user's it is the attribute."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the name has no value yet
            yield cell
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    value, begun = None, False
    for _, one in _instructions(function):
        if begun and one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = _attribute(value, one.argval)
            continue
        if begun:
            yield value
        begun = one.opname == "LOAD_GLOBAL" and one.argval in function.__globals__
        value = function.__globals__[one.argval] if begun else None


def _attribute(owner: Any, name: str) -> Any:
    """The attribute of a class or a module of the user's that no code computes; otherwise the owner."""
    if not isinstance(owner, type | ModuleType) or _is_known(owner):
        return owner
    return getattr_static(owner, name, owner)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, _TENSORS) or (isinstance(value, tuple) and any(_holds_tensor(one) for one in value))


def _is_harmless(value: Any) -> bool:
    """Whether a function may use ``value`` from outside, as long as it changes no tensor."""
    if isinstance(value, tuple | frozenset):
        return all(_is_harmless(one) for one in value)
    return isinstance(value, _VALUES) or _is_known(value)


def _is_known(value: Any) -> bool:
    """Whether ``value`` is a module of mathematics, or a class or a function in C of one."""
    if isinstance(value, ModuleType):
        return _is_of_mathematics(value.__name__)
    return isinstance(value, type | BuiltinFunctionType) and _is_of_mathematics(value.__module__ or "builtins")


def _is_of_mathematics(module: str) -> bool:
    return module.partition(".")[0] in _MODULES and not module.startswith(_EXCEPT)

"""Whether a call of a function leaves nothing behind but its results: only then may a finding run it again.

The bytecode says it. A function may use its arguments and what it makes, torch and other modules of mathematics,
constants, tensors that it does not change, and functions that leave nothing behind either. What is not known to be
harmless is not: a list, an object or a class of the user's, another module, a global or a file that it writes.
"""

import dis
import os
import sys
from collections.abc import Container, Iterator
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from nbgrad.core.tensor.tensor import Tensor

_MODULES = frozenset({"builtins", "cmath", "functools", "itertools", "math", "nbgrad", "numpy", "operator", "torch"})
_NAMING = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "IMPORT_FROM")
_OUTSIDE = frozenset({
    "__import__", "breakpoint", "delattr", "eval", "exec", "globals", "input", "load", "open", "random", "save",
    "savetxt", "savez", "seed", "setattr", "tofile", "vars",
})  # fmt: skip
"""Names of functions of these modules that reach what is outside: files, variables, the numbers drawn by numpy."""

_CONSTANTS = (
    int, float, complex, str, bytes, type(None), type(...), slice, range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip
_TENSORS = (torch.Tensor, Tensor, np.ndarray, np.generic)


def leaves_nothing(function: Any, known: frozenset[Any] = frozenset()) -> bool:
    """Whether a call of ``function`` changes nothing that another line of the program could read.

    Args:
        function: a function in Python.
        known: functions that are being asked about: they may call each other.
    """
    if not isinstance(function, FunctionType):
        return False
    if function in known:
        return True
    known |= {function}
    outer = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    used, changes = set[str](), False
    if not _is_of_torch(function.__code__.co_filename):
        for code in _codes(function.__code__):
            if any(_reaches_out(one, before, outer) for before, one in pairwise(_instructions(code))):
                return False
            used |= {one.argval for one in _instructions(code) if one.opname == "LOAD_GLOBAL"}
            changes |= any(_changes(one) for one in _instructions(code))
    values = [
        *(function.__globals__[name] for name in used if name in function.__globals__),
        *(cell.cell_contents for cell in outer.values()),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    ]
    return all(_is_harmless(one, known, changes=changes) for one in values)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    return (one for one in dis.get_instructions(code) if one.opname not in ("EXTENDED_ARG", "NOP"))


def _reaches_out(one: dis.Instruction, before: dis.Instruction, outer: Container[str]) -> bool:
    """Whether an instruction changes what is outside of the function, or may."""
    if one.opname == "STORE_ATTR":  # of ctx, or of what the function has made
        return "LOAD_FAST" not in before.opname
    if one.opname == "IMPORT_NAME":
        return not _is_of_mathematics(one.argval)
    if one.opname in _NAMING:
        return one.argval in _OUTSIDE or one.argval.startswith("set_default")
    return one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (one.opname == "STORE_DEREF" and one.argval in outer)


def _changes(one: dis.Instruction) -> bool:
    """Whether an instruction may change a tensor in place."""
    in_place = one.opname in _NAMING and one.argval.endswith("_") and not one.argval.endswith("__")
    return in_place or one.opname == "STORE_SUBSCR" or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))


def is_constant(value: Any) -> bool:
    """Whether nothing can change ``value``."""
    if isinstance(value, tuple | frozenset):
        return all(is_constant(one) for one in value)
    return isinstance(value, _CONSTANTS)


def _is_harmless(value: Any, known: frozenset[Any], *, changes: bool) -> bool:
    """Whether a function may use ``value`` from outside; ``changes`` says that it changes some tensor in place."""
    if is_constant(value):
        return True
    if isinstance(value, _TENSORS):
        return not changes
    if isinstance(value, tuple | frozenset):
        return all(_is_harmless(one, known, changes=changes) for one in value)
    if isinstance(value, FunctionType):
        return leaves_nothing(value, known)
    if isinstance(value, ModuleType):
        return _is_of_mathematics(value.__name__)
    return isinstance(value, type | BuiltinFunctionType) and _is_of_mathematics(value.__module__ or "builtins")


def _is_of_mathematics(module: str) -> bool:
    return module.partition(".")[0] in _MODULES


def _is_of_torch(file: str) -> bool:
    """Whether code of this file is torch's or ours: such a function only uses what it is given."""
    return any(file.startswith(path + os.sep) for name in ("torch", "nbgrad") for path in sys.modules[name].__path__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)

"""The names of the values of a program: those of arguments, parameters, ops and gradients."""

import dis
import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import unwrap
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.node import TensorBase
from nbgrad.core.symbolic.ir import Listing, name_of

_TAKEN = frozenset(("torch", "F", "aten", "ops", "nbgrad", "slice", "complex", *keyword.kwlist))
"""What the source of a program names beside its values."""


def name_values(
    program: Listing,
    modules: Iterable[Any],
    variables: dict[int, str],
    states: dict[int, tuple[Any, str]],
) -> None:
    """Give every value a name that is a Python identifier, and is used once.

    Args:
        program: whose values get names.
        modules: whose parameters and buffers have names.
        variables: the names of other tensors, by their ids.
        states: for the tensors in the states of optimizers the parameter and the key, by their ids.
    """
    names = Names()
    for value in program.inputs:
        value.name = names.fresh(value.name or "input")
    paths = {**variables, **_parameter_paths(modules)}

    def told(tensor: Any, data: Any) -> str | None:
        return paths.get(id(tensor)) or getattr(tensor, "name", None) or paths.get(id(data))

    for value in program.captured:
        known = told(value.owner, value.data)
        if known is None and (state := states.get(id(value.data))) is not None:
            known = f"{state[1]}_{told(state[0], state[0]._data) or 'parameter'}"
        value.name = names.fresh(known or "constant")
    for step in program.steps:
        for position, value in enumerate(step.results()):
            row = step.row
            if value.gradient_of is not None:
                base = f"d_{value.gradient_of.name or value.gradient_of.number}"
            elif row is not None and any(value is one for one in row.results):
                place = next(place for place, one in enumerate(row.results) if one is value)
                part = row.op.results[place] if place and place < len(row.op.results) else ""
                base = f"{row.op.name}_{part}" if part else row.op.name
            else:
                base = name_of(step.function) + (f"_{position}" if position else "")
            value.name = names.fresh(base)


class Names:
    """Names that are used once."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Let a name be used."""
        self._used[name] = 1

    def fresh(self, wanted: str) -> str:
        """``wanted`` as an identifier, with a number from the second use on."""
        base = re.sub(r"\W", "_", wanted).strip("_") or "value"
        if base[0].isdigit():
            base = f"v{base}"
        if base in _TAKEN:
            base += "_"
        name = base
        while name in self._used:
            self._used[base] = self._used.get(base, 1) + 1
            name = f"{base}_{self._used[base]}"
        self._used[name] = 1
        return name


class FreeVariable(NamedTuple):
    """A variable from around a function.

    Attributes:
        name: its name.
        read: gives its value anew.
        value: its value when it was looked up.
    """

    name: str
    read: Callable[[], Any]
    value: Any


def variables_around(function: Any) -> list[FreeVariable]:
    """The variables that a function uses from around it, and those of the functions and modules that it calls."""
    found: dict[tuple[int, str], FreeVariable] = {}
    waiting, seen = _functions_of(function), set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or one.__module__.partition(".")[0] in ("torch", "nbgrad"):
            continue
        seen.add(id(one))
        for key, name, read in _reads(one):
            try:
                variable = FreeVariable(name, read, read())
            except (KeyError, ValueError):  # a function of Python itself, or a cell that is empty yet
                continue
            if found.setdefault(key, variable) is variable:
                waiting += _functions_of(variable.value)
    return list(found.values())


def variables_of(variables: Iterable[FreeVariable]) -> dict[int, str]:
    """The names of the tensors among variables, by the ids of the tensors."""
    found: dict[int, str] = {}
    for one in variables:
        if isinstance(one.value, TensorBase | torch.Tensor):
            found.setdefault(id(one.value), one.name)
    return found


def _functions_of(given: Any) -> list[FunctionType]:
    """The functions that a call of something runs, as far as they are written in Python."""
    if isinstance(given, torch.nn.Module) or hasattr(type(given), "named_parameters"):
        made = [getattr(type(module), "forward", None) for module in given.modules()]
    else:
        made = [unwrap(given)] if callable(given) and not isinstance(given, type) else []
    plain = (one.__func__ if isinstance(one, MethodType) else one for one in made)
    return [one for one in plain if isinstance(one, FunctionType)]


def _reads(function: FunctionType) -> Iterator[tuple[tuple[int, str], str, Callable[[], Any]]]:
    """What a function reads from around it: a key of the variable, its name, and what reads it."""
    code, space = function.__code__, function.__globals__
    codes = [code]
    while codes:
        one = codes.pop()
        codes += (inner for inner in one.co_consts if isinstance(inner, CodeType))
        for step in dis.get_instructions(one):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield (id(space), step.argval), step.argval, partial(space.__getitem__, step.argval)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield (id(cell), name), name, partial(getattr, cell, "cell_contents")


def _parameter_paths(modules: Iterable[Any]) -> dict[int, str]:
    """For the parameters and buffers of modules the path, by the id of the tensor."""
    paths: dict[int, str] = {}
    for module in modules:
        for path, one in (*module.named_parameters(), *module.named_buffers()):
            name = path.replace(".", "_")
            name = f"w{name}" if name[0].isdigit() else name
            paths.setdefault(id(one), name)
            paths.setdefault(id(one._data), name)  # some buffers are used as torch's tensors
    return paths

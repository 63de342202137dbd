"""The functions that nbgrad exports: those of the op table that torch has too. They are found by name, not listed.

They are found at run time. tools/write.py writes them into stub files, for type checkers and editors.
"""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from inspect import isbuiltin, isfunction
from pkgutil import walk_packages
from sys import modules
from types import ModuleType
from typing import Any

import torch

from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.table import ALIASES, Op
from nbgrad.core.dispatch.torch_parser import as_parsed
from nbgrad.core.no_gc import uncollected

_FUNCTIONS = (torch, torch.nn.functional)
"""Where torch keeps functions under the names of their rows."""

PLACES: dict[str, Any] = {"fft": torch.fft, "linalg": torch.linalg, "special": torch.special}
"""Where torch keeps a function whose row carries the place in its name, as linalg_det."""


@uncollected
def found(package: str, path: Iterable[str], without: str, decided: dict[str, Any]) -> dict[str, Any]:
    """The functions of all modules of a package, ``without`` one of them.

    These are the rows, their in-place twins, and the functions that choose a row or are composed of rows, if torch has
    a function of that name. A function takes precedence over a row of the same name, and ``decided`` over all.

    Raises:
        ImportError: two modules have different functions of one name of torch's.
    """
    rows: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    for info in walk_packages(path, f"{package}."):
        if info.ispkg or info.name == f"{package}.{without}":
            continue
        for name, value in vars(import_module(info.name)).items():
            if isinstance(value, Op):
                for known, row in {value.name: value, **_twins(value.name, value), **_twins(name, value)}.items():
                    rows.setdefault(known, row)
            if name.startswith("_") or not torch_has(name):
                continue
            if isinstance(value, Op | InPlace):
                rows[name] = value
            elif isfunction(value) and value.__module__.startswith(package):
                first = functions.setdefault(name, value)
                if first is not value and name not in decided:
                    raise ImportError(f"{name} is a function in {value.__module__} and another in {first.__module__}")
    made = rows | _all_parsed(functions | decided)
    ALIASES.update({name: row for name, row in made.items() if isinstance(row, Op) and row.name != name})
    return made


def _all_parsed(functions: dict[str, Any]) -> dict[str, Any]:
    """The functions with torch's parsing of arguments; a function with two names is wrapped once."""
    parsed: dict[Any, Any] = {}
    for name, function in functions.items():
        if function not in parsed:
            parsed[function] = _parsed(name, function) if isfunction(function) else function
    return {name: parsed[function] for name, function in functions.items()}


def _parsed(name: str, function: Any) -> Any:
    """``function``, with arguments parsed as for torch's function of that name if that is not written in Python."""
    place, _, rest = name.partition("_")
    theirs = [getattr(one, name, None) for one in _FUNCTIONS] + [getattr(PLACES.get(place), rest, None)]
    numpys = any(map(isbuiltin, theirs))
    out = numpys or any("out" in parameter_names(one) for one in theirs if isfunction(one))
    parsed = as_parsed(function, numpys=numpys, out=out)
    there = vars(modules[function.__module__])  # pickle looks for it in its module
    there.update({known: parsed for known, value in there.items() if value is function})
    if there.get(parsed.__qualname__) is not parsed:  # it is made by another function
        parsed.__name__ = parsed.__qualname__ = name
        there.setdefault(name, parsed)
    return parsed


def _twins(name: str, row: Op) -> dict[str, InPlace]:
    """The in-place twin of a row under its name in torch, if torch has it as a function."""
    twin = row._in_place
    if not isinstance(twin, InPlace) or not any(callable(getattr(one, f"{name}_", None)) for one in _FUNCTIONS):
        return {}
    return {f"{name}_": twin}


@cache  # the modules of the table have most of their names in common
def torch_has(name: str) -> bool:
    """Whether torch has a function or a method of this name in the table."""
    place, _, rest = name.partition("_")
    places = (*_FUNCTIONS, torch.Tensor)
    return any(callable(getattr(one, name, None)) for one in places) or callable(getattr(PLACES.get(place), rest, None))


def namespace(torchs: ModuleType, ops: ModuleType, *prefixes: str) -> dict[str, Any]:
    """The functions of ``ops`` that a module of torch's has, by the names there.

    Args:
        torchs: torch's module, such as ``torch.linalg``.
        ops: the package of the op table.
        prefixes: the prefixes of the names in the table, such as ``linalg_``; the first that fits counts.
    """
    names: dict[str, Any] = {}
    for name in sorted(vars(torchs)):
        if not name.startswith("_") and not name.endswith("_backward") and callable(getattr(torchs, name)):
            for prefix in prefixes or ("",):
                value = getattr(ops, f"{prefix}{name}", None)
                if isinstance(value, Op | InPlace) or (isfunction(value) and value.__module__.startswith(ops.__name__)):
                    names.setdefault(name, value)
    return names

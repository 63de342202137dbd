"""The user's names of tensors: variables, attributes such as ``self.loss``, and the parts of lists and dicts.

Names are looked up where a picture or a message needs them, never for each op.
"""

import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from nbgrad.core.engine.torch_origins import TENSORS

_PLAIN: Any = (str, bytes, bool, int, float, complex, type(None), type, ModuleType, FunctionType, MethodType)

_NOT_THE_USERS = ("torch", "nbgrad", "numpy", "IPython", "ipykernel", "matplotlib", "pandas", "builtins")
"""The packages whose objects, other than modules, are not searched: an optimizer holds the parameters of others."""

_MOST = 100
"""A list, a dict or an object with more parts is data, and its parts have no names."""

_LOOKED_AT = 3_000
"""At most this many objects are searched."""

_DEPTH = 3
"""How many steps lead from a variable to a tensor: ``model.layers[2].weight`` has three."""


def in_order(
    namespace: Mapping[str, Any],
    loops: Iterable[str] = (),
    depth: int = _DEPTH,
    modules: bool = False,
    types: Any = TENSORS,
) -> dict[str, Any]:
    """The tensors that ``namespace`` holds, by name, the best name of each first.

    A variable is better than an attribute, and an attribute than a part of a list. The variables of loops that have
    ended come last: they hold what the last round left there.

    Args:
        namespace: the variables.
        loops: the names of the variables of loops.
        depth: how many steps lead from a variable to a tensor at most.
        modules: whether the modules are wanted too.
        types: the classes whose objects are wanted; default: tensors.
    """
    passing = set(loops)
    variables = {name: value for name, value in list(namespace.items()) if not name.startswith("_")}
    lasting = {name: value for name, value in variables.items() if name not in passing}
    left = {name: value for name, value in variables.items() if name in passing}
    held = sorted(_held(lasting, depth, types).items(), key=lambda one: ("." not in one[0], one[0].count("[")))
    found = lasting | dict(held) | left | _held(left, depth, types)
    return {name: one for name, one in found.items() if isinstance(one, types) or (modules and is_module(one))}


def is_module(value: Any) -> bool:
    """Whether ``value`` is a module, of nbgrad's or torch's."""
    return not isinstance(value, type) and hasattr(type(value), "named_parameters")


def _held(namespace: Mapping[str, Any], depth: int, types: Any) -> dict[str, Any]:
    """The tensors and modules that the values of ``namespace`` hold, by the code that reads them, nearest first."""
    found: dict[str, Any] = {}
    seen = set[int]()
    waiting = [(name, value) for name, value in namespace.items() if not isinstance(value, (*types, *_PLAIN))]
    for _ in range(depth):
        inside: list[tuple[str, Any]] = []
        for name, value in waiting:
            if id(value) in seen or len(seen) >= _LOOKED_AT:
                continue
            seen.add(id(value))
            if depth > 1 and is_module(value):
                found |= {f"{name}.{path}": one for path, one in value.named_parameters()}
            for path, one in parts_of(name, value):
                if isinstance(one, types):
                    found[path] = one
                elif not isinstance(one, _PLAIN):
                    inside.append((path, one))
                    if is_module(one):
                        found[path] = one
        waiting = inside
    return found


def parts_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of ``value``, which ``name`` reads, each with the code that reads it. No code of the user's runs."""
    kind = type(value)
    if kind is list or kind is tuple:
        parts = [(f"{name}[{at}]", one) for at, one in enumerate(value[: _MOST + 1])]
    elif kind is dict:
        keys = [key for key in list(value)[: _MOST + 1] if type(key) is str]
        parts = [(f"{name}[{key!r}]", value[key]) for key in keys]
    elif is_module(value) or str(kind.__module__).partition(".")[0] not in _NOT_THE_USERS:
        parts = [(f"{name}.{key}", one) for key, one in _attributes(value) if not key.startswith("_")]
    else:
        return
    if len(parts) <= _MOST:
        yield from parts


def _attributes(value: Any) -> list[tuple[str, Any]]:
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # its class has slots
        return []
    return [(key, one) for key, one in own.items() if type(key) is str] if type(own) is dict else []


# The variables of loops.


def loops_of(frame: FrameType) -> frozenset[str]:
    """The variables of the code of ``frame`` that a ``for`` loop has set last, by name.

    In a notebook these are the loops of all its cells, which share their variables.
    """
    cells = frame.f_globals.get("In")
    if not frame.f_code.co_flags & CO_OPTIMIZED and isinstance(cells, list):
        return loops_in(frame.f_globals)
    return _loops_of_code(frame.f_code)


def loops_in(namespace: Mapping[str, Any]) -> frozenset[str]:
    """The variables that the cells of a notebook have set last in a ``for`` loop; ``namespace`` is the notebook's."""
    cells = namespace.get("In")
    return _loops("\n".join([one for one in cells if isinstance(one, str)])) if isinstance(cells, list) else frozenset()


@lru_cache(maxsize=64)
def _loops_of_code(code: CodeType) -> frozenset[str]:
    lines = linecache.getlines(code.co_filename)
    if code.co_name == "<module>":
        return _loops("".join(lines))
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return _loops("".join(lines[code.co_firstlineno - 1 : last]))


@lru_cache(maxsize=16)
def _loops(text: str) -> frozenset[str]:
    found: dict[str, bool] = {}
    for one in _BINDING.finditer(text):
        for name in re.findall(r"[^\W\d]\w*", one["loop"] or one["set"]):
            found[name] = one["loop"] is not None
    return frozenset([name for name, loop in found.items() if loop])


_BINDING = re.compile(
    r"^[ \t]*(?:(?:async[ \t]+)?for[ \t]+(?P<loop>[\w, \t()*]+?)[ \t]+in\b|(?P<set>[\w, \t()*]+?)[ \t]*=(?!=))",
    re.MULTILINE,
)
"""A line that begins a loop, or that assigns to variables."""

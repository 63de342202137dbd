"""How the user's code names the tensors of a graph: ``net[0].weight``, to be copied from a box."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record


def codes(graph: AutogradGraph, records: list[Record]) -> dict[int, str]:
    """The code that names the tensor of each record, by record.

    The code for a tensor of a module begins with the variable that holds the outermost module that was called. If no
    such variable is known, the code is the path in that module, as in ``state_dict()``. Any other tensor has the name
    of its variable.
    """
    kept = dict(_kept(graph, records))
    found: dict[int, str] = {}
    for record in records:
        tensor = None if record.leaf is None else record.leaf()
        code = None if tensor is None else kept.get(id(tensor))
        if code is None and (record.scope is None or record.kind == "op") and (record.name or "").isidentifier():
            code = record.name
        if code is not None:
            found[record.id] = code
    return found


def _kept(graph: AutogradGraph, records: list[Record]) -> Iterator[tuple[int, str]]:
    """The ids of all tensors of the modules that were called, and the code of each."""
    names, done = dict(graph.modules), set[int]()
    for scope in dict.fromkeys(record.scope for record in records):
        outer = [one.module() for one in outwards(scope) if isinstance(one, ModuleScope)]
        module: Any = outer[-1] if outer else None
        if module is None or id(module) in done:
            continue
        done.add(id(module))
        name = names.get(module)
        for path, tensor in chain(module.named_parameters(), module.named_buffers()):
            yield id(tensor), path if name is None else f"{name}{_steps(module, path)}"


def _steps(module: Any, path: str) -> str:
    """The way from a module to a tensor of it, as code. A number becomes an index if the module can be indexed."""
    code = ""
    for part in path.split("."):
        if part.isdigit() and hasattr(type(module), "__getitem__"):
            code += f"[{part}]"
        else:
            code += f".{part}" if part.isidentifier() else f".get_submodule({part!r})"
        module = getattr(module, part, None)
    return code

"""The names of parameters and models: one rule for pictures, findings, tables, the history and errors.

A box inside the frame of a module says ``weight``. Where no frame is around, a parameter has its whole path in the
model, ``layer1.0.conv1.weight``. If a graph has several models, the path begins with the variable of the model,
``G.0.weight``, and the frame of the model has that variable in its title.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from nbgrad.core.engine.scope import ModuleScope, path_below, retitle
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.record import Record


class ModuleNames:
    """The names of tensors in their modules, looked up once for all questions. It holds the modules meanwhile."""

    def __init__(self) -> None:
        self._outermost: dict[Scope | None, ModuleScope | None] = {None: None}
        self._inside: dict[Any, dict[int, str]] = {}

    def find(self, tensor: Any, scope: Scope | None) -> str | None:
        """Its name in the module that the user called: below that there are many tensors of the name ``weight``."""
        outermost = self.outermost(scope)
        if outermost is None:
            return None
        if (name := self.inside(outermost, tensor)) is not None:
            return name
        for above in reversed(list(outwards(scope))):
            if isinstance(above, ModuleScope) and (name := self.inside(above, tensor)) is not None:
                return name
        return None

    def outermost(self, scope: Scope | None) -> ModuleScope | None:
        """The outermost call of a module around ``scope``, which may be ``scope`` itself."""
        new = list(takewhile(lambda one: one not in self._outermost, outwards(scope)))
        for one in reversed(new):
            known = self._outermost[one.parent]
            self._outermost[one] = one if known is None and isinstance(one, ModuleScope) else known
        return self._outermost[scope]

    def inside(self, scope: ModuleScope | None, tensor: Any) -> str | None:
        """Its name in the module of ``scope``; None if that has no such tensor."""
        module = None if scope is None else scope.module()
        if scope is None or module is None:
            return None
        if module not in self._inside:
            named = (*module.named_parameters(), *module.named_buffers())
            self._inside[module] = {id(one): name for name, one in named}
        name = self._inside[module].get(id(tensor))
        if name is None:
            return None
        path = path_in(scope)
        return f"{path or scope.label}.{name}" if "." not in name or (path and scope is self.outermost(scope)) else name


def path_in(scope: Scope) -> str:
    """The path of the module in the module that calls it, or the title of a model; empty for any other scope."""
    return scope.label.rpartition(f" ({scope.kind.name})")[0] if isinstance(scope, ModuleScope) else ""


def called(records: list[Record]) -> list[Record]:
    """The ``records``, in which the tensors of modules have their whole names."""
    names = ModuleNames()
    return [
        record._replace(full=_full(record, names))
        if record.op is None and record.scope is not None and record.name
        else record
        for record in records
    ]


def _full(record: Record, names: ModuleNames) -> str:
    tensor = None if record.leaf is None else record.leaf()
    found = None if tensor is None else names.find(tensor, record.scope)
    known = () if record.scope is None else record.scope.path()
    return found or qualified(str(record.name), known)


def qualified(name: str, scopes: tuple[str, ...]) -> str:
    """The whole name of a tensor that is called ``name`` in the innermost of these frames, which it is known by alone.

    Args:
        name: in the module.
        scopes: the titles of the frames, outermost first, such as ``layers.0 (Block)``.
    """
    paths = [path for path, bracket, _ in (one.partition(" (") for one in scopes) if bracket]
    return ".".join([*paths, name] if paths else [*scopes[-1:], name])


def title_models(scopes: Iterable[Scope | None], variables: Mapping[Any, str]) -> dict[int, str]:
    """Give the frames of several models the names of the variables that hold them; return these titles by model.

    A graph with one model keeps the name of its class. Modules without parameters, such as a loss, are no models.

    Args:
        scopes: of all ops.
        variables: the variables that hold modules.
    """
    names = ModuleNames()
    outermost = {one for scope in dict.fromkeys(scopes) if (one := names.outermost(scope)) is not None}
    models: dict[int, Any] = {}
    for scope in outermost:
        module = scope.module()
        if module is not None and any(True for _ in module.parameters()):
            models[id(module)] = module
    if len(models) < 2:
        return {}
    titles = {id: f"{name} ({type(one).__name__})" for id, one in models.items() if (name := _variable(one, variables))}
    for scope in outermost:
        if (title := titles.get(id(scope.module()))) is not None:
            retitle(scope, title)
    return titles


def _variable(model: Any, variables: Mapping[Any, str]) -> str | None:
    """The code that reads ``model``: a variable, or the path below one."""
    if (name := variables.get(model)) is not None:
        return name
    paths = ((name, path_below(one, model)) for one, name in list(variables.items()))
    return next((f"{name}.{path}" for name, path in paths if path), None)

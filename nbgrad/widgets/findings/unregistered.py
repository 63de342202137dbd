"""Modules and parameters that were used from a plain list or dict, where their module does not see them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.engine.torch_origins import known_id
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.optimizers import optimized
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.widgets.findings.located import located

_INSIDE = 10_000
"""At most this many elements of a container are checked: it may hold all words of a language."""

_DEPTH = 3
"""Lists in lists are searched to this depth."""

_CONTAINERS = (list, tuple, dict)

_REGISTERED = ("_roles", "_modules", "_parameters", "_buffers")
"""The attributes in which a module keeps what it knows."""

_MODULES = (Module, torch.nn.Module)
_PARAMETERS = (Parameter, torch.nn.Parameter)


class Found(NamedTuple):
    """Where something stands: the module, its attribute, the kind of container and how to get at it from there."""

    module: Any
    attribute: str
    container: type[Any]
    way: str


def plain(records: list[Record]) -> Iterator[tuple[Finding, set[int]]]:
    """The findings, one for each container, at its first box, and the ids of its parameters."""
    learning = optimized()
    told: dict[tuple[int, str], list[tuple[Record, Found, Any]]] = {}
    contents = _Contents()
    for record, one, scope, inner in _used(records, contents):
        # Few modules have plain containers. To look whether one knows another takes long, if it has thousands.
        places = (where for module in _around(scope, inner) for held, where in contents.of(module) if held is one)
        if (found := next(places, None)) is None or any(_knows(module, one) for module in _around(scope, inner)):
            continue
        if any(id(parameter) not in learning and parameter.requires_grad for parameter in _learned(one)):
            told.setdefault((id(found.module), found.attribute), []).append((record, found, one))
    for group in told.values():
        (record, found, one), *others = group
        what, kind = ("parameter", "Parameter") if isinstance(one, _PARAMETERS) else (type(one).__name__, "Module")
        proper = translate("nn.{kind}{more}", kind=kind, more="Dict" if issubclass(found.container, dict) else "List")
        ids = {known for _, _, one in group for each in _learned(one) if (known := known_id(each)) is not None}
        name, more = (
            type(found.module).__name__,
            translate(" and of {count:,} more", count=len(others)) if others else "",
        )
        remedy = translate("Make it an {proper}", proper=proper)
        text = translate(
            "{name}.{attribute} is a plain {name2}, so {name}.parameters() knows nothing of the "
            "{what} in {attribute}{way}{more}: an optimizer with these parameters does not train "
            "them, and state_dict() does not contain them. {remedy}",
            name=name,
            attribute=found.attribute,
            name2=found.container.__name__,
            what=what,
            way=found.way,
            more=more,
            remedy=remedy,
        )
        yield located(record, "unregistered", text, remedy), ids


def _learned(one: Any) -> list[Any]:
    return [one] if isinstance(one, _PARAMETERS) else list(one.parameters())


def _used(records: list[Record], contents: "_Contents") -> Iterator[tuple[Record, Any, Scope, int]]:
    """Each module that was called and each parameter that was used, with its first record and its scope.

    The last number says how many of the innermost modules of the scope to skip: a module is not around itself.
    """
    scopes: dict[Scope, Record] = {}
    for record in records:
        for scope in outwards(record.scope):
            if scope in scopes:
                break
            scopes[scope] = record
    parameters = {record.id: record for record in records if record.kind == "parameter"}
    seen: set[int] = set()
    for scope, first in scopes.items():
        module = next(_around(scope), None)
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield first, module, scope, 1
        for one, _ in contents.of(module):
            used = parameters.get(known_id(one) or 0) if isinstance(one, _PARAMETERS) else None
            if used is not None:
                yield used, one, scope, 0


def _around(scope: Scope, but: int = 0) -> Iterator[Any]:
    """The modules that were called in ``scope``, innermost first, without the first ``but`` ones.

    Nothing if the module of the scope no longer exists.
    """
    if not isinstance(scope, ModuleScope) or scope.module() is None:
        return iter(())
    found = (above.module() for above in outwards(scope) if isinstance(above, ModuleScope))
    return islice((module for module in found if isinstance(module, _MODULES)), but, None)


def _knows(module: Any, one: Any) -> bool:
    """Whether ``one`` is among the modules, or the parameters, of ``module``."""
    if isinstance(one, _PARAMETERS):
        return any(known is one for known in module.parameters())
    return any(known is one for known in module.modules())


class _Contents:
    """The contents of the plain containers of modules, each of which is looked through once."""

    def __init__(self) -> None:
        self._known: dict[
            int, tuple[Any, list[tuple[Any, Found]]]
        ] = {}  # with the module, so that its id stays its own

    def of(self, module: Any) -> list[tuple[Any, Found]]:
        """The modules and parameters in the plain containers of ``module``."""
        known = self._known.get(id(module))
        if known is None:
            known = self._known[id(module)] = (module, list(_contents(module)))
        return known[1]


def _contents(module: Any) -> Iterator[tuple[Any, Found]]:
    """The modules and parameters in the plain containers of ``module``."""
    for name, value in list(vars(module).items()):
        if isinstance(value, _CONTAINERS) and name not in _REGISTERED:
            for one, way in _elements(value, _DEPTH):
                yield one, Found(module, name, type(value), way)


def _elements(container: Any, depth: int) -> Iterator[tuple[Any, str]]:
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    for key, one in islice(pairs, _INSIDE):
        if isinstance(one, _MODULES + _PARAMETERS):
            yield one, f"[{key!r}]"
        elif depth > 1 and isinstance(one, _CONTAINERS):
            for inner, way in _elements(one, depth - 1):
                yield inner, f"[{key!r}]{way}"

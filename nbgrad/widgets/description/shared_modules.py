"""Shared modules and parameters: the variable of a module that is called several times, and which call it is."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from weakref import ref

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, outwards
from nbgrad.core.graph.names import path_in
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.loops import Iteration


class SharedCall(NamedTuple):
    """One of several calls of a module.

    Attributes:
        name: of the module: its path, or the variable that holds it; empty if neither is known.
        number: of this call, from 1.
        calls: how many there are.
        kind: the name of the class.
    """

    name: str
    number: int
    calls: int
    kind: str

    @property
    def title(self) -> str:
        """The title of its frame. The class comes last: it is left out first where there is little room."""
        which = translate(
            "{name}, call {number:,} of {calls:,}", name=self.name or self.kind, number=self.number, calls=self.calls
        )
        return f"{which} ({self.kind})" if self.name else which


def shared_calls(
    scopes: Iterable[Scope], weighted: set[Scope], variables: Mapping[Any, str]
) -> dict[Scope, SharedCall]:
    """The calls of modules that are called several times, in the order of the calls.

    Inside a call that is itself repeated, and inside an iteration of a loop, calls are counted anew: in a step of a
    training they say nothing about the other steps, and in a shared network each layer is called as often as it.

    Args:
        scopes: all of them, outer before inner.
        weighted: the calls in which a parameter was read. A module without parameters, such as a ReLU, shares nothing.
        variables: the variables that hold modules.
    """
    calls = [one for one in scopes if isinstance(one, ModuleScope) and isinstance(one.module, ref)]
    # A reference stands for its module, even if that is gone: all calls of a module have the same one.
    total = Counter([id(one.module) for one in calls])
    known = {id(one.module) for one in calls if total[id(one.module)] > 1 and (one in weighted or _learns(one))}
    homes: dict[Scope | None, Scope | None] = {None: None}
    groups: defaultdict[tuple[Scope | None, int], list[ModuleScope]] = defaultdict(list)
    for one in scopes:
        around = one.parent
        again = isinstance(around, Iteration) or (isinstance(around, ModuleScope) and total[id(around.module)] > 1)
        homes[one] = around if again else homes[around]
        if isinstance(one, ModuleScope) and id(one.module) in known:
            groups[homes[one], id(one.module)].append(one)
    found: dict[Scope, SharedCall] = {}
    for several in groups.values():
        if len(several) > 1:
            name = next(filter(None, map(path_in, several)), "") or _variable(several[0], variables)
            found |= {one: SharedCall(name, at, len(several), one.kind.name) for at, one in enumerate(several, 1)}
    return found


def _learns(call: ModuleScope) -> bool:
    """Whether the module has parameters, also frozen ones."""
    module = call.module()
    return module is not None and any(True for _ in module.parameters())


def _variable(call: ModuleScope, variables: Mapping[Any, str]) -> str:
    module = call.module()
    return "" if module is None else variables.get(module, "")


def tied_parameters(records: list[Record]) -> set[int]:
    """The ids of the parameters that ops of several modules read. Their name in one module would not tell them."""
    owners: defaultdict[int, set[int]] = defaultdict(set)
    parameters = {record.id for record in records if record.kind == "parameter"}
    for record in records if parameters else ():
        read = [one.source for one in record.inputs if one.source in parameters]
        if read:
            module = next((one for one in outwards(record.scope) if isinstance(one, ModuleScope)), None)
            for source in read:
                owners[source].add(0 if module is None else id(module.module))
    return {id for id, modules in owners.items() if len(modules) > 1}

"""A program as a graph of ``torch.fx``."""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from nbgrad.core.engine.node import raw_of
from nbgrad.core.structure import mapped
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.source import one_line

_OPERATORS: dict[str, Any] = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}

_METHODS = {id(method): name for kind in torch.Tensor.__mro__ for name, method in vars(kind).items()}
"""The names of the methods of tensors, by their identity: ``__pow__`` has the name ``pow`` itself."""


class LiveSetting(torch.nn.Module):
    """A setting of an optimizer, read anew in each run of the graph."""

    def __init__(self, number: Number) -> None:
        super().__init__()
        self._read = number.read

    def forward(self) -> float:
        """The number as it is now."""
        return float(self._read())


def to_fx(listing: Listing, takes_captured: bool = False) -> fx.GraphModule:
    """A program as a graph: see ``Program.to_fx``.

    Args:
        listing: the program.
        takes_captured: whether captured tensors are further inputs, after the others, and not buffers.
    """
    root, graph = torch.nn.Module(), fx.Graph()
    taken = [*listing.inputs, *listing.captured] if takes_captured else listing.inputs
    nodes: dict[int, Any] = {id(value): graph.placeholder(value.name) for value in taken}
    for number, value in enumerate([] if takes_captured else listing.captured):
        root.register_buffer(f"captured_{number}", value.data if value.owner is None else raw_of(value.owner))
        nodes[id(value)] = graph.get_attr(f"captured_{number}")
    _emit(listing.steps, root, graph, nodes)
    graph.output([nodes[id(value)] for value in listing.leaving()])
    graph.lint()
    words = "".join(sign if sign.isalnum() else " " for sign in listing.name).split()
    return fx.GraphModule(root, graph, "".join(map(str.capitalize, words)) or "Program")


def _emit(steps: list[ProgramStep], root: torch.nn.Module, graph: fx.Graph, nodes: dict[int, Any]) -> None:
    """Append steps to a graph. ``nodes`` has the node of each value, by the id of the value."""
    settings: dict[int, Any] = {}

    def stand(one: Any) -> Any:
        if isinstance(one, Value):
            return nodes[id(one)]
        if not isinstance(one, Number):
            return one
        if id(one) not in settings:
            name = f"setting_{sum(1 for _ in root.children())}"
            root.add_module(name, LiveSetting(one))
            settings[id(one)] = graph.call_module(name)
        return settings[id(one)]

    for step in steps:
        made = _call(graph, step.function, mapped(stand, step.args), mapped(stand, step.kwargs))
        made.meta["phase"] = step.phase
        if step.place is not None:
            made.meta["stack_trace"] = f'File "{one_line(step.place.file)}", line {step.place.line}'
        known = {id(value) for value in step.inputs()}
        for path, value in _paths(step.result):
            if id(value) in known:
                continue
            node = made
            for place in path:
                node = graph.call_function(operator.getitem, (node, place))
            nodes[id(value)] = node


def _call(graph: fx.Graph, function: Any, args: Any, kwargs: Any) -> fx.Node:
    name = getattr(function, "__name__", "")
    if name == "__get__":  # of a property, as ``Tensor.T``
        return graph.call_function(getattr, (args[0], _attribute(function)))
    if name == "__set__":
        return graph.call_function(setattr, (args[0], _attribute(function), args[1]))
    if name in _OPERATORS:
        return graph.call_function(_OPERATORS[name], args, kwargs)
    if (method := _METHODS.get(id(function))) is not None:
        return graph.call_method(method, args, kwargs)
    return graph.call_function(function, args, kwargs)


def _attribute(accessor: Any) -> str:
    name: str = accessor.__self__.__name__
    return name


def _paths(result: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Value]]:
    if isinstance(result, Value):
        yield path, result
    elif isinstance(result, list | tuple) and not isinstance(result, torch.Size):
        for place, one in enumerate(result):
            yield from _paths(one, (*path, place))

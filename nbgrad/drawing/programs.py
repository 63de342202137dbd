"""Whole programs: a ``jaxpr``, a graph of ``torch.fx``, a graph that HIPS autograd has traced. None is imported."""

import sys
from collections.abc import Iterator
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.dispatch.table import OPS
from nbgrad.drawing.calls import named
from nbgrad.drawing.engines import ARRAYS, flat, is_plain, op_name
from nbgrad.drawing.part import NUMBERS, AbstractValue, Part, UnreadableError


class ForeignProgram(NamedTuple):
    """A program, read: its parts, parents first, and the objects that are its results."""

    parts: list[Part]
    results: list[object]


def program_of(root: object) -> ForeignProgram | None:
    """The parts of a whole program; None if ``root`` is none.

    Raises:
        UnreadableError: it is a program that lacks what a picture needs. The message says how to get it.
    """
    for is_one, read in _PROGRAMS:
        if is_one(root):
            return read(root)
    return None


def _is_of(thing: object, module: str, *names: str) -> bool:
    """Whether the class of an object, or one of its bases, has one of these names and is of this package."""
    return any(cls.__name__ in names and str(cls.__module__).partition(".")[0] == module for cls in type(thing).__mro__)


# --- jax -------------------------------------------------------------------------------------------------------------


def _is_jaxpr(root: object) -> bool:
    return _is_of(root, "jax", "ClosedJaxpr", "Jaxpr")


def _jaxpr(root: Any) -> ForeignProgram:
    inner = getattr(root, "jaxpr", root)
    held = dict(zip(inner.constvars, getattr(root, "consts", ()), strict=False))
    parts: dict[object, Part] = {}
    for letter, variable in zip(_letters(), [*inner.constvars, *inner.invars], strict=False):
        value = np.asarray(held[variable]) if variable in held else _aval(variable)
        parts[variable] = Part(variable, None, (), value, name=letter)
    for equation in inner.eqns:
        parents = tuple(np.asarray(one.val)[()] if hasattr(one, "val") else one for one in equation.invars)
        name = equation.primitive.name
        told = MappingProxyType({key: one for key, one in equation.params.items() if is_plain(one)})
        for made in equation.outvars:
            if type(made).__name__ != "DropVar":
                parts[made] = Part(made, name, parents, _aval(made), settings=told)
    return ForeignProgram(list(parts.values()), [one for one in inner.outvars if not hasattr(one, "val")])


def _aval(variable: Any) -> AbstractValue:
    return AbstractValue(tuple(variable.aval.shape), str(variable.aval.dtype))


def _letters() -> Iterator[str]:
    """The names of variables as jax prints them: a, b, ..., z, aa, ab."""
    for number in count(1):
        text = ""
        while number:
            number, place = divmod(number - 1, 26)
            text = chr(ord("a") + place) + text
        yield text


# --- torch.fx --------------------------------------------------------------------------------------------------------


def _is_fx(root: object) -> bool:
    return _is_of(root, "torch", "GraphModule") or type(root).__module__ == "torch.fx.graph"


def _fx(root: Any) -> ForeignProgram:
    graph = root if type(root).__module__ == "torch.fx.graph" else root.graph
    module = root if graph is not root else getattr(graph, "owning_module", None)
    parts: dict[object, Part] = {}
    results: list[object] = []
    for node in graph.nodes:
        if node.op == "output":
            results = list(node.all_input_nodes)
            continue
        for parameter in _parameters(node, module):
            parts.setdefault(parameter.source, parameter)
        parts[node] = _fx_part(node, module)
    return ForeignProgram(list(parts.values()), results)


def _parameters(node: Any, module: Any) -> list[Part]:
    """The parameters of the module that a node calls."""
    if node.op != "call_module" or module is None:
        return []
    own = module.get_submodule(node.target).named_parameters(recurse=False)
    return [Part(one, None, (), one.detach(), one.grad, f"{node.target}.{name}") for name, one in own]


def _fx_part(node: Any, module: Any) -> Part:
    if node.op == "placeholder":
        return Part(node, None, (), _form_of(node), name=str(node.target))
    if node.op == "get_attr":
        held = module
        for step in str(node.target).split("."):
            held = getattr(held, step)
        return Part(node, None, (), held.detach(), held.grad if held.is_leaf else None, str(node.target))
    called: Any = node.target
    if node.op == "call_module" and module is not None:
        called = type(module.get_submodule(node.target))
    name = op_name(called)
    operands, settings = _told_apart(name, [one for one in flat(node.args) if _is_input(one)])
    told = {key: one for key, one in node.kwargs.items() if is_plain(one)} | settings
    more = [one for one in node.kwargs.values() if type(one).__module__ == "torch.fx.node"]
    weights = [one.source for one in _parameters(node, module)]
    return Part(node, name, (*operands, *more, *weights), _form_of(node), settings=MappingProxyType(told))


def _is_input(one: object) -> bool:
    """Whether an argument of a node of ``torch.fx`` is a node or a number."""
    return type(one).__module__ == "torch.fx.node" or isinstance(one, NUMBERS)


def _told_apart(name: str | None, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The operands and the settings in the arguments of a call: numbers are operands if the op takes so many."""
    numbers = [one for one in inputs if isinstance(one, NUMBERS)]
    known = None if name is None else named(name)
    row = None if known is None else OPS.get(known.row)
    if not numbers or (row is not None and row.arity == len(inputs)):
        return inputs, {}
    names = () if row is None else (*sorted(row.required), *row.defaults)
    key = names[0] if names and len(numbers) == 1 else "arguments"
    return [one for one in inputs if not isinstance(one, NUMBERS)], {
        key: numbers[0] if key != "arguments" else tuple(numbers)
    }


def _form_of(node: Any) -> AbstractValue:
    """The shape and the type of the result of a node, as a pass has noted them.

    Raises:
        UnreadableError: no pass has.
    """
    for key in ("tensor_meta", "val", "example_value"):
        known = node.meta.get(key)
        if isinstance(known, list | tuple) and not hasattr(known, "shape"):
            known = next((one for one in known if hasattr(one, "shape")), None)
        if hasattr(known, "shape"):
            return AbstractValue(tuple(map(int, known.shape)), str(known.dtype).removeprefix("torch."))
        if isinstance(known, int | float):
            return AbstractValue((), "float64" if isinstance(known, float) else "int64")
    raise UnreadableError(
        f"the node {node.name} of torch.fx has no shape: run "
        "torch.fx.passes.shape_prop.ShapeProp(module).propagate(*inputs) first, which notes the shapes"
    )


# --- HIPS autograd ---------------------------------------------------------------------------------------------------


def _is_autograd(root: object) -> bool:
    return type(root).__module__.partition(".")[0] == "autograd" and (
        _is_of(root, "autograd", "Box", "Node") or hasattr(root, "recipe")
    )


def _autograd(root: Any) -> ForeignProgram:
    end = getattr(root, "_node", root)
    if not hasattr(end, "recipe"):
        raise UnreadableError(
            f"a {type(end).__name__} of autograd keeps neither values nor names of ops: draw the graph of a function, "
            "nbgrad.draw(autograd.misc.tracers.full_graph(f, x))"
        )
    order = _autograd_order(end)
    gradients = _autograd_gradients(order)
    parts: dict[int, Part] = {}
    for node in order:
        function, args, kwargs, above = node.recipe
        if not above:  # the tuple of all arguments, which the function never sees
            continue
        if all(not one.recipe[3] for _, one in above) and function.__name__ == "container_take":
            parts[id(node)] = Part(node, None, (), node.value, gradients.get(id(node)), f"argument {args[1]}")
            continue
        taken = dict(above)
        operands = [taken.get(at, one) for at, one in enumerate(args)]
        inputs = [one for one in operands if any(one is above for above in taken.values()) or _is_operand(one)]
        kept, settings = _told_apart(function.__name__, inputs)
        told = MappingProxyType({key: one for key, one in kwargs.items() if is_plain(one)} | settings)
        gradient = gradients.get(id(node))
        parts[id(node)] = Part(node, function.__name__, tuple(kept), node.value, gradient, settings=told)
    return ForeignProgram(list(parts.values()), [end])


def _is_operand(one: object) -> bool:
    return isinstance(one, (*NUMBERS, *ARRAYS)) and not isinstance(one, bool)


def _autograd_order(end: Any) -> list[Any]:
    """The nodes, parents first. ``recipe`` has its parents in a ``zip``, which can be read once: a list replaces it."""
    order: dict[int, Any] = {}
    stack = [(end, False)]
    while stack:
        node, whole = stack.pop()
        if id(node) in order:
            continue
        if not isinstance(node.recipe[3], list):
            node.recipe = (*node.recipe[:3], list(node.recipe[3]))
        if whole:
            order[id(node)] = node
        else:
            stack += [(node, True), *[(one, False) for _, one in reversed(node.recipe[3])]]
    return list(order.values())


def _autograd_gradients(order: list[Any]) -> dict[int, Any]:
    """The gradients of the last node, if it is one number: autograd's own rules compute them, as its ``grad`` does."""
    rules = getattr(sys.modules.get("autograd.core"), "primitive_vjps", {})
    end = order[-1]
    if prod(np.shape(end.value)) != 1 or not end.recipe[3]:
        return {}
    found: dict[int, Any] = {id(end): np.ones_like(end.value)}
    for node in reversed(order):
        function, args, kwargs, above = node.recipe
        if id(node) not in found or not above or function not in rules or function.__name__ == "container_take":
            continue
        given = rules[function]([at for at, _ in above], node.value, args, kwargs)(found[id(node)])
        for (_, parent), one in zip(above, given, strict=True):
            found[id(parent)] = found[id(parent)] + one if id(parent) in found else one
    return found


_PROGRAMS = ((_is_jaxpr, _jaxpr), (_is_fx, _fx), (_is_autograd, _autograd))

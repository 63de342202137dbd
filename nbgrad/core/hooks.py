"""Hooks: functions of the user's that see, and may replace, a gradient on its way."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from torch.utils.hooks import RemovableHandle

from nbgrad.core.base import TensorBase
from nbgrad.core.broadcast import sum_to
from nbgrad.core.contents import told
from nbgrad.core.spelling import kind_of

if TYPE_CHECKING:
    from nbgrad.core.node import Node

Table = OrderedDict[int, Callable[..., Any]]


class Hooks:
    """The hooks of one origin; made when the first is registered, so that an origin without hooks costs nothing.

    Attributes:
        gradient: run on the gradient of a tensor when it is complete; each may replace it.
        before: run on the gradients of a node's outputs before its rules.
        after: run on the gradients that the rules of a node gave, and those of its outputs.
        accumulated: run on a leaf after its ``.grad`` has been written.
        retained: the tensor that asked to keep this gradient as its ``.grad``, weakly.
    """

    __slots__ = ("accumulated", "after", "before", "gradient", "retained")

    def __init__(self, retained: Any = None) -> None:
        self.gradient: Table = OrderedDict()
        self.before: Table = OrderedDict()
        self.after: Table = OrderedDict()
        self.accumulated: Table = OrderedDict()
        self.retained: ref[Any] | None = None if retained is None else ref(retained)


def add(table: Table, hook: Callable[..., Any]) -> RemovableHandle:
    """Put ``hook`` in ``table``; its handle takes it out again with ``remove()`` or at the end of a ``with`` block."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def run_before(node: "Node", table: Table, gradient: Any, create_graph: bool) -> Any:
    """The gradients of a node's outputs after its prehooks."""
    several = isinstance(gradient, list)
    given = gradient if several else [gradient]
    for hook in list(table.values()):
        given = _replaced(node, "prehook", hook(_lifted(node, given)), given, create_graph=create_graph)
    return given if several else given[0]


def run_after(
    node: "Node", table: Table, gradient: Any, given: list[tuple[int, Any]], create_graph: bool
) -> list[tuple[int, Any]]:
    """The gradients of a node's inputs, by position, after its hooks."""
    outputs = _lifted(node, gradient if isinstance(gradient, list) else [gradient])
    found = dict(given)
    before = results = [_summed(found.get(position), edge) for position, edge in enumerate(node.edges)]
    for hook in list(table.values()):
        results = _replaced(node, "hook", hook(_lifted(node, results), outputs), results, create_graph=create_graph)
    if results is before:
        return given  # the engine sums them, which the view shows
    return [(position, one) for position, one in enumerate(results) if one is not None and node.edges[position]]


def _summed(given: Any, edge: Any) -> Any:
    """What a rule gave for an input, summed over what the op broadcast: a hook sees the shape of the input."""
    if given is None or edge is None or given.shape == edge.shape:
        return given
    return sum_to(given, given.shape, edge.shape)


def run_accumulated(table: Table, tensor: Any) -> None:
    """Tell the hooks of a leaf that its ``.grad`` has been written."""
    for hook in list(table.values()):
        if hook(tensor) is not None:
            raise RuntimeError(
                "a hook of register_post_accumulate_grad_hook() returned a value: it has to return None, and may "
                "change tensor.grad in place"
            )


def check_alike(kind: str, returned: Any, gradient: Any) -> None:
    """An error unless a hook has ``returned`` a tensor that ``gradient`` can be replaced with.

    Raises:
        RuntimeError: it is of another shape or element type, or no tensor.
    """
    got = told("a tensor", returned._data) if isinstance(returned, TensorBase) else kind_of(returned)
    if got != (wanted := told("a tensor", gradient.data)):
        raise RuntimeError(f"{kind} must return None or {wanted}, not {got}")


def _lifted(node: "Node", gradients: list[Any]) -> tuple[Any, ...]:
    return tuple(None if one is None else node.plan.lift(one) for one in gradients)


def _replaced(node: "Node", kind: str, returned: Any, given: list[Any], *, create_graph: bool) -> list[Any]:
    """What a hook returned in place of ``given``, raw unless the backward records itself; ``given`` if it was None."""
    if returned is None:
        return given
    new = list(returned) if isinstance(returned, list | tuple) else [returned]
    if len(new) != len(given):
        raise RuntimeError(
            f"a {kind} of {node.op.name} returned {len(new)} gradients, but it was given {len(given)}: "
            "return a tuple with one for each, or None to leave them as they are"
        )
    for one, gradient in zip(new, given, strict=True) if kind == "prehook" else ():
        if one is not None and gradient is not None:
            check_alike(f"a prehook of {node.op.name}", one, gradient)
    return [one if one is None or create_graph else one.data for one in new]

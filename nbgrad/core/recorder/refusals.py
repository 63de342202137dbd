"""Errors that torch's own backward raises, explained: which op it came to, where that ran, and what to write instead.

Torch names neither. Its nodes tell which of them has lost what it saved: to read it raises the same error again. All of
this runs only when a backward has failed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from nbgrad.core.engine import changed_values, ended, second_backward
from nbgrad.core.engine.backward_errors import path_explanation
from nbgrad.core.engine.explanation import Explanation, explain
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Node, Origin, Output
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import current
from nbgrad.core.engine.torch_origins import KEY, owner_of
from nbgrad.core.engine.walk import nodes_before
from nbgrad.core.recorder.kept import names_in

_TWICE = "backward through the graph a second time"
_CHANGED = "has been modified by an inplace operation"
_SHAPE = re.compile(r"\[torch\.\w+ \[([\d, ]*)\]\]")
_INVALID = re.compile(r"Function (\w+) returned an? (?:invalid gradient|incorrect number of gradients)")

_MOST = 100_000
"""The largest number of torch's nodes that are looked at."""


def explain_failure(error: Exception, roots: list[Any], origins: list[Origin]) -> None:
    """Add an explanation to ``error``, if this is a known error of torch's backward.

    Args:
        error: the error.
        roots: torch's nodes from which the backward began.
        origins: those of ours.
    """
    said = str(error)
    found: Explanation | None = None
    if _TWICE in said:
        found = _twice(roots, origins)
    elif _CHANGED in said:
        found = _changed(said, roots, origins)
    else:
        found = _own_rule(error, said, roots)
    if found is not None:
        explain(error, found)


def _walked(roots: list[Any]) -> list[tuple[Any, Node]]:
    """Torch's nodes below ``roots``, in the order in which a backward runs them, each with the op it belongs to."""
    found, waiting = dict[Any, Node](), list[tuple[Any, Node | None]]([(root, None) for root in roots])
    while waiting and len(found) < _MOST:
        made, owner = waiting.pop()
        known = made.metadata.get(KEY)
        if known is not None:
            owner = owner_of(known)
        if owner is None or made in found:
            continue
        found[made] = owner
        waiting += [(after, owner) for after in nodes_before(made)]
    return sorted(found.items(), key=lambda one: -one[0]._sequence_nr())


def _complaint(made: Any) -> str | None:
    """The error that torch raises when the values that a node has saved are read; None if they are there."""
    for name in _saved_names(made):
        try:
            getattr(made, name)
        except RuntimeError as error:
            return str(error)
        except Exception:  # a value that cannot be shown in Python
            continue
    return None


def saved_by(roots: list[Any]) -> Callable[[int], list[tuple[str, Tensor]]]:
    """A function that gives the tensors that an op below ``roots`` has saved, by its number, each with torch's name."""
    nodes: defaultdict[int, list[Any]] = defaultdict(list)
    for made, owner in _walked(roots):
        nodes[owner.seq].append(made)

    def saved(seq: int) -> list[tuple[str, Tensor]]:
        found = list[tuple[str, Tensor]]()
        for made in nodes.get(seq, ()):
            for name in _saved_names(made):
                with suppress(Exception):  # a value that cannot be shown in Python
                    value = getattr(made, name)
                    found += [(name, value.detach())] if isinstance(value, Tensor) else []
        return found

    return saved


def _saved_names(made: Any) -> Iterator[str]:
    if isinstance(made, BackwardCFunction):
        yield "saved_tensors"
    yield from names_in(made.__class__, "_saved_")


def _twice(roots: list[Any], origins: list[Origin]) -> Explanation | None:
    """Nodes that this backward itself has run have lost their values, too: an earlier one must have reached it."""
    lost = [node for made, node in _walked(roots) if _TWICE in (_complaint(made) or "")]
    node = next((one for one in lost if ended.freeing(one.seq) is not None), None)
    if node is None:
        node = next((one for one in lost if getattr(one, "place", None) is None), None)
    if node is None:
        return None
    by = ended.freeing(node.seq)
    return second_backward.cause(node, by, second_backward.explained(origins, by))


def _changed(said: str, roots: list[Any], origins: list[Origin]) -> Explanation | None:
    wanted = said.partition(" Hint:")[0]
    for made, node in _walked(roots):
        complaint = _complaint(made)
        if complaint is not None and complaint.partition(" Hint:")[0] == wanted:
            sizes = _SHAPE.search(said)
            shape = None if sizes is None else tuple([int(one) for one in sizes[1].split(",") if one.strip()])
            return changed_values.explained(node, origins, shape)
    return None


def _own_rule(error: Exception, said: str, roots: list[Any]) -> Explanation | None:
    """The line of the forward, where the ``backward`` of a user's ``Function`` raised or gave something wrong."""
    made, walked = _running(error.__traceback__), _walked(roots)
    if made is None and (invalid := _INVALID.search(said)) is not None:
        made = next((one for one, _ in walked if type(one).__name__ == invalid[1]), None)
    owner = next((node for one, node in walked if one is made), None)
    if made is None or owner is None:
        return None
    ran = _forward_line(owner, walked)
    code = getattr(getattr(getattr(made, "_forward_cls", None), "backward", None), "__code__", None)
    place = None if code is None else Place(code, 0)
    text = f"this is the backward of {owner.op.name}{ran}."
    if "invalid gradient" in said:
        remedy = "return a gradient of the shape of each input, in the order of the inputs"
        return Explanation(f"{text} Its backward() must {remedy}.", remedy, place)
    if "number of gradients" in said:
        remedy = "return one gradient for each argument of forward(), and None for those that need none"
        return Explanation(f"{text} Its backward() must {remedy}.", remedy, place)
    return Explanation(text, None, place)


def _forward_line(node: Node, walked: list[tuple[Any, Node]]) -> str:
    """The line where ``node`` ran, in words; the line of an op that used its result where that is not known."""
    if (place := getattr(node, "place", None)) is not None:
        return f", whose forward ran at {place}"
    for _, user in walked:
        owners = [edge.node if isinstance(edge, Output) else edge for edge in user.edges]
        if node in owners and (place := getattr(user, "place", None)) is not None:
            return f", whose result {user.op.name} uses at {place}"
    return ""


def _running(trace: TracebackType | None) -> Any:
    """The node of the innermost ``backward`` of a user's ``Function`` that the error went through."""
    found = None
    while trace is not None:
        first = trace.tb_frame.f_code.co_varnames[:1]
        held = trace.tb_frame.f_locals.get(first[0]) if first else None
        if isinstance(held, BackwardCFunction):
            found = held
        trace = trace.tb_next
    return found


def refused(root: Any, run: Callable[..., Any], roots: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Torch's own error of a backward from ``root``, which needs no gradient; a note says where the path ends."""
    found = None
    try:
        found = path_explanation(root)
    except Exception as error:
        if not taken(current().observers, error, "a backward"):
            raise
    try:
        return run(roots, *args, **kwargs)
    except RuntimeError as error:
        if found is not None:
            explain(error, found)
        raise

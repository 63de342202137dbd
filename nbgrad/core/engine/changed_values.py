"""Why values that an op had saved were changed before its backward, and what to write instead."""

from typing import Any, NamedTuple

from nbgrad.core.engine import ended, second_backward
from nbgrad.core.engine.call_site import variable_name
from nbgrad.core.engine.explanation import Explanation
from nbgrad.core.engine.node import Leaf, Node, Origin, Output, raw_of, record_id
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.source_text import out_of_place
from nbgrad.core.engine.state import current
from nbgrad.core.engine.torch_origins import known_origin


class _Change(NamedTuple):
    """A change in place of a tensor that an op had saved.

    Attributes:
        role: what the tensor was to the op.
        name: the user's name of it, if there is one.
        shape: of the tensor.
        what, place: the change.
    """

    role: str
    name: str | None
    shape: tuple[int, ...]
    what: str
    place: Place


def explained(
    node: Node, roots: list[Origin], shape: tuple[int, ...] | None = None, *, told: bool = False
) -> Explanation:
    """The cause and the remedy of a backward from ``roots`` that needs what ``node`` had saved before it was changed.

    Args:
        node: the op.
        roots: where the backward begins.
        shape: of the changed tensor, if it is known.
        told: whether the message of the error names both lines already.
    """
    place: Place | None = getattr(node, "place", None)
    where = "which ran before this graph began" if place is None else str(place)
    found = _changes(node)
    sizes = None if shape is None else sorted(shape)  # what was saved may be a transposed view
    found.sort(key=lambda one: sizes is not None and sorted(one.shape) != sizes)
    needs = f"the gradient of {node.op.name} ({where}) needs"
    if not found:
        remedy = "y = y.clone()"
        text = f"{needs} a tensor as it was when {node.op.name} saved it, but it was changed in place since, where "
        text = "" if told else f"{text}nbgrad did not see it. "
        return Explanation(f"{text}Change a copy instead: {remedy}", remedy, place)
    change = found[0]
    saved = f"{change.role}{f' {change.name}' if change.name else ''} {change.shape}"
    text = (
        f"{needs} {saved} as it was when {node.op.name} saved it, but {change.what} at {change.place} has changed it "
    )
    text = "" if told else f"{text}in place since. "
    if change.what.endswith(".step()"):
        return _stepped(text, node, roots, change)
    remedy = (
        out_of_place(change.place.file, change.place.line)
        or f"{_written(change.name)} = {_written(change.name)}.clone()"
    )
    how = (
        "Make a copy before that line, and change the copy"
        if remedy.endswith(".clone()")
        else "Make a new tensor there"
    )
    return Explanation(f"{text}{how}: {remedy}", remedy, change.place)


def _written(name: str | None) -> str:
    return name if name and name.isidentifier() else "y"


def _changes(node: Node) -> list[_Change]:
    """The changes since ``node`` ran of its results and its inputs, as far as graphs have seen them."""
    found = list[_Change]()
    for observer in current().observers:
        by_op = observer.change_by_op(node.seq, node.seq)
        if by_op is not None:
            found.append(_Change("its result", _name(node), tuple(node.shape), *by_op))
        for edge in node.edges:
            if isinstance(edge, Leaf):
                tensor = edge.ref()
                noted = None if tensor is None else observer.change_at(raw_of(tensor), node.seq)
            else:
                noted = None if edge is None else observer.change_by_op(record_id(edge), node.seq)
            if edge is not None and noted is not None:
                role = f"the {edge.kind}" if isinstance(edge, Leaf) else "its input"
                found.append(_Change(role, _name(edge), tuple(edge.shape), *noted))
        for data in observer.constants_of(node.seq):
            noted = observer.change_at(data, node.seq)
            if noted is not None:
                name = variable_name(lambda one, data=data: raw_of(one) is data)  # type: ignore[misc]
                found.append(_Change("the constant", name, tuple(data.shape), *noted))
    return found


def _name(origin: Origin) -> str | None:
    own = origin.name if isinstance(origin, Leaf) else None
    return variable_name(lambda tensor: known_origin(tensor) is origin) or own


def _stepped(text: str, node: Node, roots: list[Origin], change: _Change) -> Explanation:
    """A step came between the forward and the backward."""
    before = ended.first_to_reach(node.seq)
    meeting = None if before is None else second_backward.Meeting.of(roots, before)
    if meeting is not None and meeting.again and (reason := second_backward.explained(roots, before)) is not None:
        return Explanation(f"{text}{reason.text}", reason.remedy, reason.place)
    made: Any = None
    if meeting is not None and meeting.uses:
        used = meeting.uses[0][1]
        made = used.node if isinstance(used, Output) else used
    elif roots:
        made = roots[0].node if isinstance(roots[0], Output) else roots[0]
    place: Place | None = getattr(made, "place", None)
    if place is None or not place.text:
        remedy = "loss.backward()"
        return Explanation(f"{text}Call the backward before the step: {remedy}", remedy, change.place)
    what = _name(made) if made is not None else None
    return Explanation(
        f"{text}Call this backward before the step; or compute {what or 'the loss'} anew after the step, by this line: "
        f"{place.text}",
        place.text,
        place,
    )

"""Why a backward came to values that an earlier one has freed, and what to write instead.

Two backwards have met in the same part of the graph. Which remedy fits depends on how the later one came there: a state
that a loop carries on, a sum over the rounds of a loop, a tensor or a loss from before the loop, or two losses.
"""

import ast
from typing import NamedTuple

from nbgrad.core.engine.call_site import user_place, variable, variable_name
from nbgrad.core.engine.ended import Ended
from nbgrad.core.engine.explanation import Explanation
from nbgrad.core.engine.node import Leaf, Node, Origin, Output, raw_of
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.source_text import assigned_and_read, assignments, call_with, sources, target_of
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.engine.torch_origins import known_origin
from nbgrad.core.engine.walk import node_of, reached

_SUMS = ("add", "add_", "stack", "cat", "sub", "sub_")
"""The ops that add up the losses of a loop."""


class Meeting(NamedTuple):
    """The part of the graph of a backward that an earlier one has not reached, and where it comes to the rest.

    Attributes:
        roots: the origins from which the backward starts.
        by: the earlier backward; None if no graph has recorded it.
        anew: the ops that the earlier one has not reached.
        uses: each of these ops that uses a result which the earlier one reached, with the origin of that result.
    """

    roots: list[Origin]
    by: Ended | None
    anew: list[Node]
    uses: list[tuple[Node, Node | Output]]

    @classmethod
    def of(cls, roots: list[Origin], by: Ended | None) -> "Meeting":
        """Walk from ``roots`` to all that ``by`` has reached. Without ``by``, ops whose line is unknown are older."""
        met, waiting = set[int](), [made for root in roots if (made := node_of(root)) is not None]
        anew, uses = list[Node](), list[tuple[Node, Node | Output]]()
        while waiting:
            node = waiting.pop()
            if node.seq in met or _was_reached(node, by):
                continue
            met.add(node.seq)
            anew.append(node)
            for edge in node.edges:
                made = node_of(edge)
                if made is None or edge is None or isinstance(edge, Leaf):
                    continue
                if _was_reached(made, by):
                    uses.append((node, edge))
                else:
                    waiting.append(made)
        return cls(roots, by, sorted(anew, key=lambda one: -one.seq), uses)

    @property
    def here(self) -> Place:
        """The line of the backward that fails."""
        return user_place()

    @property
    def again(self) -> bool:
        """Whether the same line called the earlier backward, in an earlier round of a loop."""
        return self.by is not None and self.by.place.same(self.here)


def _was_reached(node: Node, by: Ended | None) -> bool:
    return getattr(node, "place", None) is None if by is None else node.seq in by.ids


def explained(roots: list[Origin], by: Ended | None) -> Explanation | None:
    """The cause and the remedy of a backward from ``roots`` that came to what the backward ``by`` has reached."""
    meeting = Meeting.of(roots, by)
    if not meeting.uses:
        return _of_the_same(meeting)
    for case in (_added_up, _carried, _before_the_loop, _two_networks, _two_losses):
        if (found := case(meeting)) is not None:
            return found
    return None


# One loss, twice.


def _of_the_same(meeting: Meeting) -> Explanation | None:
    """The root itself was a part of the earlier backward."""
    root = next((made for one in meeting.roots if (made := node_of(one)) is not None), None)
    if root is None:
        return None
    place: Place | None = getattr(root, "place", None)
    loss, at = _name(root) or "the loss", "" if place is None else f", at {place}"
    code = "" if place is None else place.text
    if not code:
        place, code = _statement_of(loss)
    if meeting.by is None:
        text = f"{loss} was computed, and its graph was freed, before this graph began"
        return _told(f"{text}. Compute it again before the backward", code or f"{_called(loss)} = ...", place)
    if meeting.again:
        when = at or ", before this graph began"
        text = f"{loss} was computed only once{when}, but this line runs backward() on it in each round"
        remedy = code or f"{_called(loss)} = ..."
        return _told(f"{text}. Move its forward into the loop, before the backward", remedy, place)
    text = f"{loss} was computed once{at}, and backward() is called on it, or on a part of it, twice"
    remedy = f"{_called(loss)}.backward(retain_graph=True)"
    return _told(
        f"{text}. Compute it anew before the second backward, or keep its graph in the first call", remedy, place
    )


# A loop that adds up its losses.


def _added_up(meeting: Meeting) -> Explanation | None:
    """``total += loss``, and then a backward from the total in each round."""
    if not meeting.again:
        return None
    for user, used in meeting.uses:
        if user.op.name.partition("[")[0] not in _SUMS or tuple(used.shape) not in ((), (1,)):
            continue
        others = [one for one in user.edges if one is not None and not _in(one, meeting)]
        loss = next((name for one in others if (name := _name(one))), None) or "loss"
        total = _name(user) or _name(meeting.roots[0]) or "the sum"
        text = f"{total} holds the graphs of the earlier rounds, too: the losses are added up at {user.place}"
        remedy = f"{_called(loss)}.backward()"
        more = f"and add up numbers, as in {_called(total, 'total')} += {_called(loss)}.item()"
        told = f"{text}, and this line runs backward() through all of them in each round. Call {remedy} instead, {more}"
        return _told(f"{told}; or call backward() on the sum once, after the loop", remedy, user.place, inside=True)
    return None


def _in(origin: Origin, meeting: Meeting) -> bool:
    """Whether the earlier backward has reached ``origin``."""
    made = node_of(origin)
    return made is not None and _was_reached(made, meeting.by)


# A state that a loop carries from one round to the next.


def _carried(meeting: Meeting) -> Explanation | None:
    """A result of an earlier round is used in this one, and this one has made its successor on the same line."""
    if not meeting.again and meeting.by is not None:
        return None
    names, place = dict[str, None](), None
    for user, used in meeting.uses:
        name = _successor(used, meeting)
        if name is not None:
            place = place or user.place
            names[name] = None
    if place is None:
        return None
    known = [name for name in names if name] or assigned_and_read(place.file, place.line)
    what = " and ".join(known) if known else "a state"
    kept = "carries" if len(known) < 2 else "carry"
    since = "the earlier rounds" if meeting.again else "an earlier step"
    return _told(
        f"{what} {kept} the graph of {since} into this one, used at {place}. retain_graph=True would only hide this: "
        "each backward would walk through all rounds. Cut the state off at the start of each round",
        detaching(known),
        place,
    )


def _successor(used: Node | Output, meeting: Meeting) -> str | None:
    """The name of the variable that holds the successor of ``used``; "" if it has none; None without a successor."""
    made, index = (used.node, used.index) if isinstance(used, Output) else (used, 0)
    place: Place | None = getattr(made, "place", None)
    if place is None:
        return _replaced_by(used, meeting)
    twins = {
        one.seq: one
        for one in meeting.anew
        if one.op.name == made.op.name and (line := getattr(one, "place", None)) is not None and line.same(place)
    }
    if not twins:
        return None

    def is_twin(tensor: object) -> bool:
        origin = known_origin(tensor)
        node = node_of(origin)
        return node is not None and node.seq in twins and (origin.index if isinstance(origin, Output) else 0) == index

    return variable_name(is_twin) or ""


def _replaced_by(used: Node | Output, meeting: Meeting) -> str | None:
    """The variable that a line both reads and sets, if that line uses ``used``, of which no graph knows the line."""
    for user, one in meeting.uses:
        if one is used and user.place is not None:
            both = assigned_and_read(user.place.file, user.place.line)
            if both:
                return both[0]
    return None


def detaching(names: list[str]) -> str:
    """The code that cuts the states ``names`` off."""
    if not names:
        return "state = state.detach()"
    whole = names[0].partition("[")[0]
    if any("[" in name for name in names) or isinstance(variable(whole), tuple | list):
        return f"{whole} = tuple(one.detach() for one in {whole})"
    return f"{', '.join(names)} = {', '.join([f'{name}.detach()' for name in names])}"


# A tensor from before the loop.


def _before_the_loop(meeting: Meeting) -> Explanation | None:
    """A result that was computed once is used in each round."""
    if not meeting.again and meeting.by is not None:
        return None
    user, used = meeting.uses[0]
    made = node_of(used)
    place: Place | None = getattr(made, "place", None)
    name = _name(used)
    called = name or f"the result of {used.op.name}"
    detached, known = detaching([name or "features"]), made is not None and place is not None
    code = place.text if place is not None else ""
    if not code and name:
        place, code = _statement_of(name)
    when = f"only once, at {place}," if known else "before this graph began,"
    freed = "" if meeting.by is not None else ", and a backward that was not recorded has freed its graph"
    return _told(
        f"{called} was computed {when} and is used again at {user.place}{freed}. Compute it anew in each round, before "
        f"it is used; or, if nothing is to learn from it, write {detached} after it",
        code or detached,
        place or user.place,
        inside=not code,
    )


def _statement_of(name: str) -> tuple[Place | None, str]:
    """The line that gave the variable ``name`` its value in an earlier cell, and its code."""
    here = user_place()
    for file in sources(here.file):
        for one in reversed([*assignments(file, name)]):
            if isinstance(target_of(one), ast.Name | ast.Tuple) and (file != here.file or one.lineno <= here.line):
                return Place.at(file, one.lineno), ast.unparse(one)
    return None, ""


# Two losses of one step.


def _two_networks(meeting: Meeting) -> Explanation | None:
    """An optimizer's step came between the two backwards: each trains a network of its own, as in a GAN."""
    by = meeting.by
    steps = [one for observer in current().observers for one in observer.steps_since(by.seq if by else 0)]
    if by is None or not steps:
        return None
    user, used = meeting.uses[0]
    stepped = frozenset[int]().union(*[memories for _, _, memories in steps])
    above = {memory_of(raw_of(leaf)) for leaf in leaves(used)}
    name = _name(used)
    called = name or f"the result of {used.op.name}"
    step, at = steps[0][0], steps[0][1]
    made = getattr(node_of(used), "place", None)
    where = "" if made is None else f", computed at {made},"
    if stepped & above:  # the first loss trained the network that has made it
        found = call_with(user.place, name, user.place.line) if name and user.place is not None else None
        place, code = found or (user.place, f"{_called(name, 'fake')}.detach()")
        return _told(
            f"{called}{where} is a part of both losses. The first backward trained the network that made it ({step} at "
            f"{at}), and the second loss is that of another network: give it the numbers alone, at {place}",
            code,
            place,
        )
    found = call_with(by.place, name, by.place.line) if name else None
    first = None if found is not None or (made := node_of(used)) is None else _first_use(made.seq, by)
    place, code = found or (first or user.place, f"{_called(name, 'fake')}.detach()")
    return _told(
        f"{called}{where} is a part of both losses. The first backward trained another network ({step} at {at}), and "
        f"it went through {called} back into the network that made it. Give that loss the numbers alone, at {place}",
        code,
        place,
    )


def _first_use(seq: int, by: Ended) -> Place | None:
    """The line of the op that used the result of the op ``seq`` in the backward ``by``."""
    for observer in current().observers:
        if (place := observer.use_of(seq, by.ids)) is not None:
            return place
    return None


def leaves(origin: Origin) -> list[object]:
    """The tensors from which the tensor of ``origin`` was computed, as far as they exist."""

    def before(one: Origin) -> list[Origin]:
        made = node_of(one)
        return [] if made is None else [edge for edge in made.edges if edge is not None]

    found = reached([origin], before)
    return [tensor for one in found if isinstance(one, Leaf) and (tensor := one.ref()) is not None]


def _two_losses(meeting: Meeting) -> Explanation | None:
    user, used = meeting.uses[0]
    by = meeting.by
    if by is None:
        return None
    place: Place | None = getattr(node_of(used), "place", None)
    called = _name(used) or f"the result of {used.op.name}"
    second = _name(meeting.roots[0])
    first = _receiver(by.place)
    remedy = (
        f"({first} + {second}).backward()" if first and second and first != second else "(loss1 + loss2).backward()"
    )
    return _told(
        f"{called}{'' if place is None else f', computed at {place},'} is a part of both losses; this backward comes "
        f"to it at {user.place}. Call one backward on the sum of the losses, in place of both; or pass "
        f"retain_graph=True to the first one, at {by.place}",
        remedy,
        by.place,
    )


def _receiver(place: Place) -> str | None:
    """The variable on which the line of a backward calls it."""
    try:
        tree = ast.parse(place.text)
    except (SyntaxError, ValueError):
        return None
    for part in ast.walk(tree):
        if isinstance(part, ast.Attribute) and part.attr == "backward":
            return ast.unparse(part.value)
    return None


# Words.


def _told(text: str, remedy: str, place: Place | None, *, inside: bool = False) -> Explanation:
    """The explanation; ``inside``: the text has the remedy in it already."""
    return Explanation(f"{text}." if inside else f"{text}: {remedy}", remedy, place)


def _name(origin: Origin | None) -> str | None:
    """The user's variable of the tensor that came from ``origin``."""
    return None if origin is None else variable_name(lambda tensor: known_origin(tensor) is origin)


def _called(name: str | None, otherwise: str = "loss") -> str:
    """``name`` as code; ``otherwise`` if it is no code."""
    return otherwise if name is None or " " in name else name


def cause(node: Node, by: Ended | None, reason: Explanation | None) -> Explanation:
    """The whole explanation of a backward that needs what ``node`` had saved.

    Args:
        node: the op.
        by: the backward that freed it; None if no graph has recorded that.
        reason: the answer of ``explained``.
    """
    place: Place | None = getattr(node, "place", None)
    where = "which ran before this graph began" if place is None else str(place)
    freed = "an earlier backward, which was not recorded" if by is None else str(by)
    text = f"this backward comes to {node.op.name} ({where}), whose saved values were freed by {freed}."
    if reason is None:
        return Explanation(f"{text} {ANEW}", ANEW, place)
    return Explanation(f"{text} {reason.text}", reason.remedy, reason.place or place)


ANEW = "Either keep them there with retain_graph=True, or compute the result anew before this backward."
"""The remedy where nothing more is known."""

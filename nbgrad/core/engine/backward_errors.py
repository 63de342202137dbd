"""The messages of a backward's errors. They look for names, lines and causes only when something is wrong."""

from typing import Any

import torch

from nbgrad.core.engine import changed_values, ended, second_backward
from nbgrad.core.engine.call_site import user_place, variable_name
from nbgrad.core.engine.explanation import Explanation, explain
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import Freed, Leaf, Node, Origin, Output, raw_of
from nbgrad.core.engine.observer import Cut
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.source_cuts import SourceCut, cut_before, without_cuts
from nbgrad.core.engine.source_text import change_in_place
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import differentiable, dtype_name
from nbgrad.core.engine.torch_origins import known_origin


def name_of(origin: Origin | None) -> str | None:
    """The user's name of the tensor that came from ``origin``: its own name or a variable's, if there is one."""
    if isinstance(origin, Leaf):
        tensor = origin.ref()
        if tensor is not None and tensor.name:
            return str(tensor.name)
    return variable_name(lambda tensor: known_origin(tensor) is origin) if origin is not None else None


def name_of_data(data: Any) -> str | None:
    """The user's name of the tensor that holds ``data``."""
    return variable_name(lambda tensor: raw_of(tensor) is data)


def place_of(node: Node | Output) -> Place | None:
    """The line that ran the op; None if no observer was there."""
    return getattr(node.node if isinstance(node, Output) else node, "place", None)


def path_ends(data: torch.Tensor) -> str:
    """The sentence about the ends of the paths along which ``data`` were computed; empty if they are unknown."""
    cuts = [cut for observer in current().observers for cut in observer.path_ends(data)]
    if not cuts:
        return ""
    ends, remedies = dict.fromkeys(cut.end for cut in cuts), dict.fromkeys(map(_remedy, cuts))
    return f"the path to the tensors from which it was computed ends at {', and at '.join(ends)}. {' '.join(remedies)}"


def _remedy(cut: Cut) -> str:
    """The remedy at the end of a path; an update of a parameter must change it in place, inside ``no_grad()``."""
    step = change_in_place(cut.place.file, cut.place.line) if cut.kind == "no_grad" else None
    if step is None:
        return cut.remedy
    return f"That line makes a new tensor, which needs no gradient. Change the old one, also inside no_grad(): {step}"


def without_gradient(data: torch.Tensor) -> RuntimeError:
    """The error of a backward from a tensor with ``data`` that needs no gradient."""
    text = "backward() on a tensor that needs no gradient: "
    if ends := path_ends(data):
        text += ends
    else:
        text += (
            "nothing it was computed from has requires_grad=True, or it was cut off on the way, by no_grad(), "
            "detach(), .data, item(), numpy(), a gradient without create_graph=True or an op that has no gradient, "
            "such as argmax, a comparison or long(). "
            "Make the inputs with nbgrad.tensor(..., requires_grad=True)."
        )
        if not differentiable(data.dtype):
            text += f" It is of type {dtype_name(data.dtype)}, which has no gradients."
        if not current().observers:
            text += (
                " Inside nbgrad.AutogradGraph() or a %%autograd cell this message names the op that cut it off, and "
                "its line."
            )
    if not torch.is_grad_enabled():
        text += " Here torch.no_grad() or torch.set_grad_enabled(False) switches gradients off, so nothing is recorded."
    elif not current().grad_enabled:
        text += " Here no_grad() or set_grad_enabled(False) switches gradients off, so nothing is recorded."
    error = RuntimeError(text)
    if current().observers:
        explain(error, path_explanation(data, told=bool(ends)))
    return error


def path_explanation(data: torch.Tensor, *, told: bool = False) -> Explanation:
    """Why no backward can begin at ``data``, which need no gradient, and what to write instead.

    Args:
        data: the numbers from which the backward was to start.
        told: whether the message of the error names the ends of the paths already.
    """
    cuts = [cut for observer in current().observers for cut in observer.path_ends(data)]
    if cuts:
        ends = dict.fromkeys(cut.end for cut in cuts)
        first, text = cuts[0], f"the path to the tensors from which it was computed ends at {', and at '.join(ends)}. "
        code = without_cuts(first.place.file, first.place.line) if first.kind == "detached" else None
        remedies = [f"Write {code} instead."] if code else list(dict.fromkeys(map(_remedy, cuts)))
        return Explanation(f"{'' if told else text}{' '.join(remedies)}", code or remedies[0], first.place)
    here = user_place()
    if not torch.is_grad_enabled() or not current().grad_enabled:
        remedy = "run the forward and the backward outside of no_grad() and set_grad_enabled(False)"
        return Explanation(f"gradients are switched off here: {remedy}.", remedy, here)
    learned = any(observer.has_recorded() for observer in current().observers)
    found = cut_before(here, doubtful=learned)
    return _uncut(found) if found is not None else _constant(here)


def _uncut(found: SourceCut) -> Explanation:
    """The explanation of a loss without history; ``found``: the call in the source that cut it off."""
    code = found.code
    text = f"it has no history: {found.what} at {found.place}, has cut it from what it was computed from."
    if code is None:
        remedy = f"leave out {found.what}"
        return Explanation(f"{text} Keep the tensor itself: {remedy}.", remedy, found.place)
    how = "Put the tensors themselves into the list, without item(), and write" if ".stack(" in code else "Write"
    return Explanation(f"{text} {how}: {code}", code, found.place)


def _constant(here: Place) -> Explanation:
    """The explanation of a backward from a tensor that was computed from constants alone."""
    remedy = "w.requires_grad_()"
    text = (
        "none of the tensors from which it was computed has requires_grad=True. Make those that are to learn so before"
    )
    return Explanation(f"{text} the forward, as in {remedy}, or make them with requires_grad=True.", remedy, here)


def torch_detects() -> RuntimeError:
    """The error of a backward inside torch's own search for NaN, which would find none."""
    return RuntimeError(
        "torch.autograd.detect_anomaly() and set_detect_anomaly(True) do not see nbgrad's ops: write 'with "
        "nbgrad.detect_anomaly():'"
    )


def replaced(expected: tuple[int, ...], now: tuple[int, ...]) -> RuntimeError:
    """The error of a backward that comes to a leaf with data of another shape than its forward used."""
    return RuntimeError(
        f"the data of a leaf were replaced between forward and backward: the gradient has shape {tuple(expected)}, the "
        f"leaf now {tuple(now)}. Replace them before the forward."
    )


def freed(node: Node, saved: Freed) -> RuntimeError:
    """The error of a second backward through ``node``, whose saved values the first one has freed."""
    plan = node.plan
    values = {*node.op.inputs, *node.op.results}
    tensors = [name for name, version in zip(plan.saved_names, node.versions, strict=True) if version is not None]
    # For x * 2 only the 2 was saved: it is freed all the same, as in torch.
    quoted = [repr(name) for name in sorted(tensors or plan.saved_names) if name in values or "[" in name]
    names = " and ".join([", ".join(quoted[:-1]), *quoted[-1:]] if len(quoted) > 1 else quoted)
    by = f"by the backward at {saved.place}"
    if saved.counted is not None:
        number, graph = saved.counted
        by = f"by backward {number} of {graph!r} ({saved.place})"
    error = RuntimeError(
        f"backward through {node.op.name}{_made_at(node)} a second time: its saved {names} {_were(names)} freed {by}. "
        f"{_LOOP if saved.place.same(user_place()) else _ANEW}"
    )
    error.__dict__[_ABOUT] = "freed", node
    return error


_ANEW = "Either keep them there with retain_graph=True, or compute the result anew before this backward."

_LOOP = (
    "The same line ran that backward in an earlier round of a loop. If the loop carries a tensor from one round to "
    "the next, such as the state of an RNN, detach() it in each round. If the tensor was computed before the loop, "
    "compute it inside, or pass retain_graph=True."
)


def changed(node: Node, slot: int, value: Any) -> RuntimeError:
    """The error of a saved ``value`` that was changed in place since ``node`` saved it in ``slot``."""
    name, version = node.plan.saved_names[slot], node.versions[slot]
    op, place, variable = node.op.name, place_of(node), name_of_data(value)
    facts = [_role(node, name, named=variable is not None), _made_by(node, name), f"of shape {tuple(value.shape)}"]
    where = f" at {place}" if place is not None else ""
    called = variable if variable and variable.isidentifier() else "y"
    known, who = ", ".join(filter(None, facts)), _who(value, node.seq)
    remedy = (
        "Call this backward() before the step, or run its forward after it."
        if ".step() at " in who
        else f"Change a clone, as in {called} = {called}.clone(), call backward() before the change, or write the "
        "change as a new tensor."
    )
    error = RuntimeError(
        f"the gradient of {op}{where} needs {variable or name!r} ({known}) as it was when {op} saved it, but {who} "
        f"(its version is now {value._version}, and was {version} when it was saved). "
        f"{remedy}{'' if place is not None else _WATCH.format(op=op)}"
    )
    error.__dict__[_ABOUT] = "changed", node
    return error


_ABOUT = "_nbgrad_about"


def explain_failure(error: Exception, roots: list[Origin]) -> None:
    """Add to ``error``, which a backward from ``roots`` raised, what to write instead, if a graph knows it."""
    what, node = error.__dict__.pop(_ABOUT, (None, None))
    observers = current().observers
    if node is None or not observers:
        return
    try:
        _explain(error, what, node, roots)
    except Exception as own:
        if not taken(observers, own, "the error of a backward"):
            raise


def _explain(error: Exception, what: str, node: Node, roots: list[Origin]) -> None:
    if what == "changed":
        explain(error, changed_values.explained(node, roots, told=True))
        return
    reason = second_backward.explained(roots, ended.freeing(node.seq))
    if reason is not None:
        explain(error, reason)


def _role(node: Node, name: str, *, named: bool) -> str:
    role = "its input" if name in node.op.inputs else "its output" if name == "out" else "what it saved"
    return f"{role} {name!r}" if named else role


def _made_by(node: Node, name: str) -> str:
    """The op that made an input; empty for a leaf and for everything else."""
    origin = node.edges[node.op.inputs.index(name)] if name in node.op.inputs else None
    return f"a result of {origin.op.name}" if isinstance(origin, Node | Output) else ""


def _who(value: Any, seq: int) -> str:
    observers = current().observers
    for observer in observers:
        if by := observer.change_of(value, seq):
            return f"{by} has changed it in-place since"
    unseen = "an in-place operation has changed it since"
    return f"{unseen}, outside of nbgrad, for example through .data or a view of it" if observers else unseen


_WATCH = (
    " Run the forward and the change inside nbgrad.AutogradGraph() or nbgrad.detect_anomaly(): then this message "
    "names the line of {op} and the line of the change."
)


def _made_at(node: Node) -> str:
    place = place_of(node)
    return f" ({place})" if place is not None else ""


def _were(names: str) -> str:
    return "were" if " and " in names else "was"

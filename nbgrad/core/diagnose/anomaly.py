"""detect_anomaly: the first op that makes a NaN or an Inf, in the forward or the backward, and why.

It observes the engine and costs nothing while it is off. An op is to blame if its result holds a NaN or an Inf and its
inputs do not. The other ops only pass it on.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.engine.backward_errors import name_of, place_of
from nbgrad.core.engine.call_site import user_place, variable_name
from nbgrad.core.engine.faults import Refusal
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Origin, Output, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Setting, State, Switch, current
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.torch_origins import TENSORS, kind_of, known_origin, origin_of
from nbgrad.core.functional.saved_tensors import values_of
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.changes import Changes
from nbgrad.core.graph.stats import Stats, nbytes_of
from nbgrad.core.recorder.functions import Unlisted
from nbgrad.core.tensor.call_errors import announced
from nbgrad.core.tensor.tensor import Tensor


class AnomalyError(Refusal, RuntimeError):
    """An op made a NaN or an Inf. The message names the op, its line, the numbers and the cause.

    Attributes:
        op: the name of the op; None if the bad number was there before any op ran.
        phase: "forward" or "backward".
        kind: "nan" or "inf".
        index: of the first bad element.
        place: the line of the op; None where it is not known.
        cause: why, in words.
        id: the number of the op's record in a graph; None if it was not recorded.
    """

    def __init__(
        self,
        lines: list[str],
        cause: str,
        *,
        phase: str,
        kind: str,
        index: tuple[int, ...],
        place: Place | None,
        op: str | None = None,
        id: int | None = None,
    ) -> None:
        super().__init__("\n  ".join([*lines, f"cause: {cause}"]))
        self.op = op
        self.phase = phase
        self.kind = kind
        self.index = index
        self.place = place
        self.cause = cause
        self.id = id


class detect_anomaly(Switch):  # noqa: N801  # torch's name
    """A context in which the first op that makes a NaN or an Inf raises an error, in the forward and in the backward.

    Ops that are not recorded are checked as well. Ops of plain torch are checked while a graph is open. An Inf in a
    constant or a number is allowed, as in a mask of -inf. A NaN there is not allowed: the message names the input that
    holds it. Works as ``with detect_anomaly():`` and ``@detect_anomaly()``. It is for debugging: every result is read
    once more, and the CPU waits for the GPU each time.

    Args:
        check_nan: False only notes the lines of ops, which other messages then name.

    Raises:
        AnomalyError: a RuntimeError, as torch raises. Every ``.grad`` of an nbgrad tensor is then as it was before the
            backward. The ``.grad`` of a torch tensor may have changed.
    """

    __slots__ = ("_check",)

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__()
        self._check = check_nan

    def _again(self) -> "detect_anomaly":
        return detect_anomaly(self._check)

    def _changed(self, before: State) -> State:
        return before.replaced(observers=(*before.observers, _AnomalyObserver(self._check)), outer=before)


class set_detect_anomaly(Setting):  # noqa: N801  # torch's name
    """Turn ``detect_anomaly`` on from this call to ``set_detect_anomaly(False)``; as a ``with`` block, only inside it.

    Inside another ``with`` block of nbgrad it holds until that block ends. It holds only in its own thread or task.

    Args:
        mode: whether it is on.
        check_nan: False only notes the lines of ops, which other messages then name.
    """

    __slots__ = ()

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        others = tuple(observer for observer in current().observers if not isinstance(observer, _AnomalyObserver))
        super().__init__(observers=(*others, _AnomalyObserver(check_nan)) if mode else others)


def detects_anomalies() -> bool:
    """Whether ``detect_anomaly`` is on in this thread."""
    observers = current().observers
    return bool(observers) and any(isinstance(one, _AnomalyObserver) for one in observers)


class _AnomalyObserver(Observer):
    """Checks every result and gradient. It remembers the line of each op, and the gradients that came into each."""

    __slots__ = ("_before", "_changes", "_check", "_first", "_incoming", "_last", "_passed", "_roots")

    def __init__(self, check: bool) -> None:
        self._check = check
        self._first = 0
        self._before: torch.Tensor | Stats | None = None  # what an op that runs now is about to overwrite
        self._changes = Changes()
        self._forget()

    def _forget(self) -> None:
        """Start anew, also after a backward that raised."""
        self._incoming: dict[Node, dict[int, Any]] = {}
        self._last: Node | None = None
        self._passed = False
        self._roots: set[Origin] = set()

    def on_change(self, changed: Sequence[torch.Tensor], what: str) -> None:
        self._changes.note(changed, what, user_place())

    def change_of(self, data: torch.Tensor, seq: int) -> str | None:
        return self._changes.find(data, seq)

    # The forward.

    def on_call(self, op: OpInfo, args: tuple[Any, ...]) -> None:  # noqa: ARG002  # every observer is told
        self._before = None  # an earlier op may have raised

    def on_overwrite(self, data: torch.Tensor) -> None:
        self._before = _kept(data) if self._check else None

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:  # noqa: ARG002  # every observer is told
        node.place = user_place()
        self._first = self._first or node.seq

    def follows_torch(self) -> bool:
        return True

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:
        self._first = self._first or node.seq
        if self._check and out is not None and not nonfinite.finite(out):
            self._forward(node.op, args, node.settings, 0, out, node)
        self._before = None

    def on_result(
        self, op: OpInfo, args: tuple[Any, ...], settings: dict[str, Any], results: tuple[Any, ...], node: Node | None
    ) -> None:
        # The ops of a rule, in a recorded backward, are not checked here: ``on_rule`` checks the rule's result.
        checked = results[: len(op.results[: op.shown])] if self._check and not current().walking else ()
        for position, out in enumerate(checked):
            if not nonfinite.finite(out):
                self._forward(op, args, {**op.defaults, **settings}, position, out, node)
        self._before = None

    def _forward(
        self,
        op: OpInfo,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        position: int,
        out: torch.Tensor,
        node: Node | None,
    ) -> None:
        """Raise unless ``op`` has only passed on what it was given."""
        kind = "nan" if nonfinite.holds("nan", out) else "inf"
        values = [raw_of(arg) for arg in args]
        if self._before is not None:
            values[0] = self._before
        for arg, value, input in zip(args, values, op.inputs, strict=False):
            if nonfinite.holds(kind, value) and (kind == "nan" or self._suspect(arg)):
                raise announced(self._given(op, kind, arg, value, input), op, args)
        if nonfinite.passed_on(kind, values, settings):
            return
        index = nonfinite.first(kind, out)
        given = [
            nonfinite.OpInput(input, _name(arg) or input, value)
            for arg, value, input in zip(args, values, op.inputs, strict=False)
        ]
        found: list[nonfinite.BadOperand] = []
        known: str | None
        if isinstance(self._before, Stats):
            known = f"not known: no copy was kept of what {op.name} overwrote, which is larger than {_KEPT:,} bytes"
        elif isinstance(op, Unlisted):
            known = f"not known: nbgrad has no op {op.name}, and cannot run it again"
        else:
            run = nonfinite.again(op, settings, position)
            found = nonfinite.operands(run, op.stretched, given, kind, out)
            known = nonfinite.cause(op, kind, found, values, settings, out.dtype)
        place, id = user_place(), None if node is None else node.seq
        lines = [f"{op.name} made {kind} in the forward: {place}", _bad(op.results[position], kind, out)]
        lines.append(f"operands: {_listed(found, given)}")
        cause = known or f"{op.name} of these values is not finite"
        facts: dict[str, Any] = {"index": index, "place": place, "op": op.name, "id": id}
        raise announced(AnomalyError(lines, cause, phase="forward", kind=kind, **facts), op, args)

    def _suspect(self, arg: Any) -> bool:
        """Whether an Inf in ``arg`` is probably wrong.

        An Inf is probably wrong in a parameter that is no mask, in a leaf that requires grad, and in a result that was
        made before the context began.
        """
        if not isinstance(arg, TENSORS):
            return False
        if not arg.requires_grad:
            return kind_of(arg) == "parameter" and nonfinite.unmeant(raw_of(arg))
        origin = origin_of(arg)
        return origin is None or isinstance(origin, Leaf) or not self._first or origin.seq < self._first

    def _given(self, op: OpInfo, kind: str, arg: Any, value: Any, input: str) -> AnomalyError:
        """The error that names an input which was bad before any op ran."""
        name = _name(arg) or input
        index = nonfinite.first(kind, value) if isinstance(value, torch.Tensor) else ()
        bad = _bad(name, kind, value) if isinstance(value, torch.Tensor) else nonfinite.summary(name, value)
        origin = known_origin(arg) if isinstance(arg, TENSORS) else None
        made = f"the result of an earlier {origin.op.name}" if isinstance(origin, Node | Output) else "an input"
        place = user_place()
        cause = "it was made before detect_anomaly() began, or was written in place"
        lines = [f"{name!r}, {made}, holds {kind} before {op.name} runs: {place}", bad]
        return AnomalyError(lines, cause, phase="forward", kind=kind, index=index, place=place)

    # The backward.

    def on_backward_begin(self, roots: list[tuple[Origin, Any]]) -> None:
        self._forget()
        self._roots = {origin for origin, _ in roots}

    def on_backward_end(self) -> None:
        self._forget()

    def on_gradient(self, origin: Origin, gradient: Any, lone: bool) -> None:  # noqa: ARG002  # every observer is told
        self._incoming.pop(self._last, None)  # type: ignore[arg-type]  # None is no key: nothing is there to pop
        if isinstance(origin, Output):
            self._incoming.setdefault(origin.node, {})[origin.index] = raw_of(gradient)
        elif isinstance(origin, Node):
            self._incoming[origin] = {0: raw_of(gradient)}
        if self._check and not self._passed and not nonfinite.finite(raw_of(gradient)):
            self._sum(origin, raw_of(gradient))

    def _sum(self, origin: Origin, gradient: torch.Tensor) -> None:
        """Raise for a gradient that no rule made bad: it was given, changed by a hook, or is a sum that overflowed."""
        kind = "nan" if nonfinite.holds("nan", gradient) else "inf"
        if origin in self._roots:
            cause = "backward() was given it to start from"
        elif _torchs(origin) or (origin.hooks is not None and (origin.hooks.gradient or origin.hooks.before)):
            cause = "a hook returned it, or the sum of the gradients of its uses overflowed"
        else:
            cause = f"overflow in the sum of the gradients of its uses, in {dtype_name(gradient.dtype)}"
        index = nonfinite.first(kind, gradient)
        made = f"the result of {origin.op.name}" if isinstance(origin, Node | Output) else "a leaf"
        name = name_of(origin)
        what = f"{name!r}, {made}," if name else made
        place = None if isinstance(origin, Leaf) else place_of(origin)
        lines = [f"the gradient of {what} holds {kind}{_ran(origin)}", _bad("grad", kind, gradient)]
        raise AnomalyError(lines, cause, phase="backward", kind=kind, index=index, place=place)

    def on_rule(self, node: Node, position: int, gradient: Any, reduced: Any, reduction: Any) -> None:
        self._last = node
        full, end = raw_of(gradient), raw_of(reduced)
        if not self._check or nonfinite.finite(end):
            return
        saved = values_of(node)
        sources = [*self._incoming.get(node, {}).values(), *saved]
        sound = nonfinite.finite(full)
        bad = end if sound else full
        kind = "nan" if nonfinite.holds("nan", bad) else "inf"
        if any(nonfinite.holds(kind, source) for source in sources):
            self._passed = True  # the rule only passes it on, as an op in the forward passes on the -inf of a mask
            return
        index = nonfinite.first(kind, bad)
        name, input = name_of(node.edges[position]), node.op.inputs[min(position, node.op.arity - 1)]
        whose = f"{input!r} ({name})" if name and name != input else repr(input)
        lines = [f"the backward of {node.op.name} made {kind}, as the gradient of its input {whose}{_ran(node)}"]
        lines.append(_bad("grad", kind, bad))
        if sound:
            summed = f"in the sum that undoes the broadcast {reduction}" if reduction is not None else "when converted"
            cause = f"overflow {summed}, in {dtype_name(end.dtype)}"
        else:
            details, cause = self._explained(node, position, kind, full)
            lines += details
        facts: dict[str, Any] = {"op": node.op.name, "place": place_of(node), "id": node.seq}
        raise AnomalyError(lines, cause, phase="backward", kind=kind, index=index, **facts)

    def _explained(self, node: Node, position: int, kind: str, full: torch.Tensor) -> tuple[list[str], str]:
        """The incoming gradient, the saved values, and the local derivative, which the rule gives for gradient 1."""
        incoming = self._incoming.get(node, {})
        if _torchs(node):  # its rule and what it saved are torch's
            came_in = [nonfinite.summary(_INCOMING, gradient) for gradient in incoming.values()]
            return came_in, nonfinite.backward_cause(node.op, None, None, full.dtype)
        values = values_of(node)
        saved = [
            nonfinite.OpInput(name, name, value) for name, value in zip(node.plan.saved_names, values, strict=True)
        ]
        came, rule, found = None, None, list[nonfinite.BadOperand]()
        if len(incoming) == 1 and node.outputs == 0:
            came, rule = nonfinite.OpInput(_INCOMING, _INCOMING, incoming[0]), _rule(node, position)
            stretched = node.op.stretched | ({_INCOMING} if incoming[0].numel() == 1 else set())
            found = nonfinite.operands(rule, stretched, [came, *saved], kind, full)
        here = next((operand.value for operand in found if operand.name == _INCOMING), None)
        details = []
        if came is not None:
            told = nonfinite.summary(*came[1:]) if here is None else f"{_INCOMING}: {nonfinite.shown(here)}"
            details.append(told)
        if tensors := [one for one in saved if isinstance(one.value, torch.Tensor)]:
            names = {one.name for one in tensors}
            named = [operand for operand in found if operand.name in names]
            details.append(f"saved by the forward: {_listed(named, tensors)}")
        slope = None if here is None or rule is None else _slope(rule, node, full, nonfinite.first(kind, full))
        if slope is not None:
            details.append(f"local derivative: {nonfinite.shown(slope)}")
        return details, nonfinite.backward_cause(node.op, here, slope, full.dtype)


_INCOMING = "incoming gradient"


def _rule(node: Node, position: int) -> Callable[[list[Any]], Any]:
    """A function that computes the gradient of input ``position`` from any incoming gradient and any saved values."""
    needed = tuple([edge is not None for edge in node.edges])

    def run(values: list[Any]) -> Any:
        gradient, *saved = values
        for at, rule, needs in node.plan.rules:
            if at == position:
                return gradient if rule is None else raw_of(rule(gradient, *[saved[slot] for slot in needs]))
        return raw_of(node.plan.joint(gradient, needed, *saved)[position])

    return run


def _slope(rule: Callable[[list[Any]], Any], node: Node, full: torch.Tensor, index: tuple[int, ...]) -> float | None:
    """The result of the rule at ``index`` for an incoming gradient of 1 there; None if it cannot be computed."""
    if full.shape != node.shape and node.shape.numel() != 1:
        return None  # an element of the input has many paths to the output, and each has a derivative of its own
    shape, none = tuple(full.shape), torch.zeros((), dtype=node.dtype, device=full.device)
    saved = zip(node.plan.saved_names, values_of(node), strict=True)
    given = [nonfinite.OpInput(name, name, value) for name, value in saved]
    given.insert(0, nonfinite.OpInput(_INCOMING, _INCOMING, none.expand(node.shape)))
    spots = nonfinite.spots_of(node.op.stretched | {_INCOMING}, given, index, shape)
    around = nonfinite.window([value for *_, value in given], spots, index, shape)
    if around is None:
        return None
    (unit, *values), (spot, *_), index = around
    unit = unit.clone(memory_format=torch.contiguous_format)
    unit[... if spot is None else spot] = 1
    return float(rule([unit, *values])[index].item())


def _name(arg: Any) -> str | None:
    """The tensor's own name, or a variable's."""
    if not isinstance(arg, TENSORS):
        return None
    origin = known_origin(arg)
    own = arg.name if isinstance(arg, Tensor) else origin.name if isinstance(origin, Leaf) else None
    return own or variable_name(lambda tensor: tensor is arg)


def _torchs(origin: Origin) -> bool:
    """Whether torch's autograd made it, whose hooks are not known here."""
    if isinstance(origin, Leaf):
        return isinstance(origin.ref(), torch.Tensor)
    return (origin.node if isinstance(origin, Output) else origin).plan is None


def _ran(origin: Origin) -> str:
    """Where the op ran, or how to get to know it."""
    if isinstance(origin, Leaf):
        return ""
    place = place_of(origin)
    return f"; it ran at {place}" if place else "; its line is not known: run the forward inside detect_anomaly() too"


_KEPT = 1 << 26
"""The largest tensor, in bytes, of which a copy is kept while an op overwrites it."""


def _kept(data: torch.Tensor) -> "torch.Tensor | Stats":
    """A copy of ``data`` for messages; of a large tensor only how many of its numbers are not finite."""
    if nbytes_of(data.shape, data.dtype) <= _KEPT:
        return data.clone()
    shape = tuple(data.shape)
    if nonfinite.finite(data):
        return Stats(shape, math.nan)
    return Stats(shape, math.nan, nan=nonfinite.count("nan", data), inf=nonfinite.count("inf", data))


def _bad(name: str, kind: str, value: torch.Tensor) -> str:
    """The first bad element; in a tensor of several elements also how many are bad."""
    index = nonfinite.first(kind, value)
    more = f" ({nonfinite.count(kind, value)} of {value.numel()} are {kind})" if value.numel() > 1 else ""
    return f"first bad element: {nonfinite.spot(name, index)} = {value[index].item()}{more}"


def _listed(found: list[nonfinite.BadOperand], given: list[nonfinite.OpInput]) -> str:
    """The numbers that met at the bad element; else the operands as wholes."""
    if found:
        return ", ".join(map(str, found))
    return "; ".join(nonfinite.summary(one.name, one.value) for one in given if one.value is not None)

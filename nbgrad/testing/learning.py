"""``assert_all_learn`` and ``assert_frozen``: what a training step changes, and what it must leave as it is."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.training import params_of
from nbgrad.core.suggestions import nearest
from nbgrad.testing.parameters import Named, described, named_parameters, numbers, preserved, same
from nbgrad.testing.soundness import finding_line


def assert_all_learn(
    model: Any,
    step: Callable[[], Any],
    *,
    frozen: str | Iterable[str] = (),
    steps: int = 1,
    msg: str | None = None,
) -> None:
    """Raise if a parameter of ``model`` does not learn in a training step.

    A parameter learns if it gets a gradient that is finite and not all 0, and if its numbers change. The step is really
    taken: parameters, buffers and the state of the optimizer are afterwards as the step leaves them. Every ``.grad``,
    the training modes and the random number generators are as before. It needs the memory of the parameters once more.

    Args:
        model: a module of nbgrad's or of torch's; or a dict of names and tensors, or tensors.
        step: a function without arguments that runs one step of the training: forward, backward and optimizer.
        frozen: the names of parameters that are not to learn, such as ["encoder.*"]: these must not change.
        steps: how often ``step`` is called. A parameter has to learn in one of the steps: the first factor of a LoRA
            adapter learns from the second step on, because the other factor begins at 0.
        msg: the message of the error, instead of the explanation.

    Raises:
        AssertionError: a parameter does not learn; the message names it, and says why, as far as that is known.
        TypeError: ``model`` is no module and has no tensors.
        ValueError: it has no parameters, ``frozen`` has a name that none of them has, or ``steps`` is below 1.
    """
    asks = "assert_all_learn"
    parameters = named_parameters(asks, model)
    still = _matching(asks, parameters, frozen)
    watched = [Watched(name, tensor) for name, tensor in parameters.items()]
    graph = _run(asks, model, step, steps, watched)
    after = named_parameters(asks, model)
    wrong = [one for one in watched if one.name not in still and not one.learned(after)]
    moved = [one for one in watched if one.name in still and one.changed(after)]
    if not wrong and not moved:
        return
    reasons = {one.name: _why_not(one, graph) for one in wrong}
    reasons |= {one.name: f"changed, but is to be frozen: {_why_moved(one, graph)}" for one in moved}
    many = f"{len(wrong)} of {len(watched) - len(still)} parameters do not learn"
    head = " and ".join([*([many] if wrong else []), *([f"{len(moved)} frozen ones change"] if moved else [])])
    raise AssertionError(msg or _text(f"{asks}: {head} in {_counted(steps)}", watched, reasons, graph))


def assert_frozen(
    model: Any,
    step: Callable[[], Any],
    *,
    steps: int = 1,
    msg: str | None = None,
) -> None:
    """Raise if a training step changes a parameter, or a buffer such as the mean of a batch norm.

    The step is really taken. Every ``.grad``, the training modes and the random number generators are as before. It
    needs the memory of the parameters once more.

    Args:
        model: the part that is to stay as it is: a module of nbgrad's or of torch's; or a dict of names and tensors,
            or tensors.
        step: a function without arguments that runs one step of the training: forward, backward and optimizer.
        steps: how often ``step`` is called.
        msg: the message of the error, instead of the explanation.

    Raises:
        AssertionError: something changed; the message names it, and says why, as far as that is known.
        TypeError: ``model`` is no module and has no tensors.
        ValueError: it has no parameters, or ``steps`` is below 1.
    """
    asks = "assert_frozen"
    parameters = named_parameters(asks, model)
    buffers = dict(model.named_buffers()) if hasattr(model, "named_buffers") else {}
    watched = [Watched(name, tensor) for name, tensor in {**parameters, **buffers}.items()]
    graph = _run(asks, model, step, steps, watched)
    after = named_parameters(asks, model)
    after |= dict(model.named_buffers()) if hasattr(model, "named_buffers") else {}
    moved = [one for one in watched if one.changed(after)]
    if not moved:
        return
    reasons = {
        one.name: _why_moved(one, graph) if one.name in parameters else _why_buffer(one.name, model) for one in moved
    }
    head = f"{asks}: {len(moved)} of {len(watched)} tensors change in {_counted(steps)}"
    raise AssertionError(msg or _text(head, watched, reasons, graph))


class Watched:
    """A parameter or buffer, before and after a step.

    Attributes:
        name: of it, in its model.
        tensor: itself, of nbgrad's or of torch's.
        before: its numbers before the step.
        gradients: how many gradients it got.
        nonzero: whether one of them had a number that is not 0.
        finite: whether all numbers of all of them were finite.
        largest: the largest size of their numbers.
    """

    def __init__(self, name: str, tensor: Any) -> None:
        self.name = name
        self.tensor = tensor
        self.before = numbers(tensor)
        self.gradients = 0
        self.nonzero, self.finite = False, True
        self.largest = 0.0

    def listen(self) -> Any:
        """Look at each gradient, until the returned handle is removed; None if it needs no gradient."""
        return self.tensor.register_hook(self._look) if self.tensor.requires_grad else None

    def _look(self, gradient: Any) -> None:
        raw = raw_of(gradient).detach()
        raw = raw.coalesce().values() if raw.is_sparse else raw
        self.gradients += 1
        if raw.numel():
            size = float(raw.abs().max())
            self.finite = self.finite and bool(torch.isfinite(raw).all())
            self.nonzero = self.nonzero or size != 0  # NaN is not 0
            self.largest = max(self.largest, size)

    def changed(self, after: Named) -> bool:
        """Whether its numbers changed; ``after``: the tensors that have the names now."""
        return not same(after.get(self.name, self.tensor), self.before)

    def learned(self, after: Named) -> bool:
        """Whether it got a good gradient and changed; a parameter without an element has nothing to learn."""
        good = self.gradients > 0 and self.nonzero and self.finite
        return not self.before.numel() or (good and self.changed(after))


def _run(asks: str, model: Any, step: Callable[[], Any], steps: int, watched: list[Watched]) -> AutogradGraph:
    """The graph of so many steps, during which the parameters are watched."""
    if steps < 1:
        raise ValueError(f"{asks}: steps={steps}: it has to be 1 or more")
    with preserved([model], [one.tensor for one in watched]):
        handles = [handle for one in watched if (handle := one.listen()) is not None]
        try:
            with AutogradGraph() as graph:
                for _ in range(steps):
                    step()
        finally:
            for handle in handles:
                handle.remove()
    return graph


def _matching(asks: str, parameters: Named, patterns: str | Iterable[str]) -> set[str]:
    """The names that match ``patterns``, each of which has to match one."""
    found = set[str]()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        some = {name for name in parameters if fnmatchcase(name, pattern)}
        if not some:
            raise ValueError(f"{asks}: frozen={pattern!r}: no parameter has such a name{nearest(pattern, parameters)}")
        found |= some
    return found


def _why_not(one: Watched, graph: AutogradGraph) -> str:
    """Why a parameter does not learn."""
    if not one.tensor.requires_grad:
        return "is frozen: requires_grad is False"
    if not one.gradients:
        if not graph.backwards:
            return "got no gradient: step() ran no backward"
        missing = [found.reason for found in graph.unreached({one.name: one.tensor})]
        return f"got no gradient: {missing[0]}" if missing else "got no gradient"
    if not one.finite:
        return "got a gradient with NaN or Inf"
    if not one.nonzero:
        return "got a gradient that is 0 everywhere"
    return f"got a gradient, but did not change: {_why_still(one, graph)}"


_BIAS = "A bias before a normalization has no effect: make the layer with bias=False"


def _why_still(one: Watched, graph: AutogradGraph) -> str:
    """Why a parameter did not change, although it got a gradient."""
    training = graph.listener.training
    logs = [log for log in training.logs.values() if log.steps]
    if not logs:
        return "no optimizer.step() was called"
    for log in logs:
        optimizer = log.known()
        for group in [] if optimizer is None else optimizer.param_groups:
            if any(tensor is one.tensor for tensor in group["params"]):
                rate = group.get("lr")
                if rate is not None and float(rate) == 0:
                    return f"the learning rate of its group in {log.name} is 0"
                if not any(call.found for call in training.recent if call.kind == "step" and call.optimizer is log):
                    return f"its gradient was not there, or not there any more, when {log.name} stepped"
                hint = f". {_BIAS}" if one.name.endswith("bias") else ""
                return f"the update by {log.name} is lost in rounding: lr={rate}, {dtype_name(one.before.dtype)}{hint}"
    return f"{' and '.join(dict.fromkeys(log.name for log in logs))} stepped, and no optimizer that stepped holds it"


def _why_moved(one: Watched, graph: AutogradGraph) -> str:
    """Why a parameter changed that was to stay."""
    for log in graph.listener.training.logs.values():
        optimizer = log.known()
        if optimizer is None or not log.steps or not any(tensor is one.tensor for tensor in params_of(optimizer)):
            continue
        if one.nonzero:
            return f"{log.name} holds it, and it got a gradient: call requires_grad_(False), or leave it out there"
        group = next(group for group in optimizer.param_groups if any(one.tensor is each for each in group["params"]))
        if group.get("weight_decay"):
            return f"{log.name} holds it, and its weight decay is {group['weight_decay']}: leave it out there"
        return f"{log.name} holds it, and moves it by its momentum: leave it out there"
    return "no optimizer that stepped holds it, so step() changes it by itself"


def _why_buffer(name: str, model: Any) -> str:
    """Why a buffer changed."""
    path = name.rpartition(".")[0]
    part = model.get_submodule(path)
    kind = type(part).__name__
    return f"a buffer of {path or 'the module'} ({kind})" + (
        ", which is in train mode: call eval() on it" if part.training else ", which is in eval mode"
    )


def _text(head: str, watched: list[Watched], reasons: dict[str, str], graph: AutogradGraph) -> str:
    """The headline; the tensors by reason, with a remedy; and the findings of the step that say more."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for one in watched:
        if one.name in reasons:
            by_reason[reasons[one.name]].append(described(one.name, one.tensor))
    findings = graph.findings()
    lines = []
    for reason, names in by_reason.items():
        remedy = next((one.remedy for one in findings if one.remedy and _says(one, names)), None)
        lines.append(f"  {_listed(names)}: {reason}{f'. {remedy[0].upper()}{remedy[1:]}' if remedy else ''}")
    named = [name for names in by_reason.values() for name in names]
    more = [finding_line(one) for one in findings if not _says(one, named)]
    return "\n".join([head, *lines, *(["findings of the step:", *more] if more else [])])


_SAID = ("unreached", "custom function", "checkpoint", "no optimizer", "no change", "frozen")
"""The kinds of findings that say the same as the reason why a parameter does not learn."""


def _says(one: Finding, names: list[str]) -> bool:
    """Whether a finding is about no other tensors than ``names``, and says no more than the reason of these."""
    inside = [any(_ends(tensor, name) or _ends(name, tensor) for name in names) for tensor in one.tensors]
    return one.kind in _SAID and bool(inside) and all(inside)


def _ends(name: str, part: str) -> bool:
    """Whether ``part`` is the end of a name in a larger model."""
    return f".{name}".endswith(f".{part}")


_NAMED = 6
"""A line of a message names at most so many tensors."""


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join([*names[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _counted(steps: int) -> str:
    return "one step" if steps == 1 else f"{steps} steps"

"""The plan of an op: the values that a node saves, and the rules that a backward runs on them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.backend.below_autograd import foreign, is_own
from nbgrad.core.engine.node import Node, OpInfo, Origin, Output, Rule, Steps, identity
from nbgrad.core.tensor.tensor import Tensor


class Plan(Steps):
    """The values to save and the rules to run, if one set of inputs of an op needs gradients.

    Attributes:
        results: how many results of the op can be saved.
        usual: the saved values of a run with default settings, if they do not depend on the run; None if ``save`` must
            look at it.
        unversioned: a None for each value in ``usual``: ``Node.versions`` has it for values that are no tensors.
        slots: where in inputs, results, settings and facts, one after the other, each saved value is found.
        paths: for the slot of each saved value that stands for the path to an input, the position of that input.
    """

    __slots__ = ("facts", "paths", "results", "settings", "slots", "unversioned", "usual")

    @property
    def looks(self) -> bool:
        """Whether ``save`` does more than save, so that it must be called at every run of the op."""
        return False

    def __init__(self, op: OpInfo, positions: list[int], conjugated: bool = False) -> None:
        chosen = [(position, op.rules[op.inputs[position]]) for position in positions]
        distinct = {id(rule): rule for _, rule in chosen}.values()  # a list of many tensors has one rule for all
        names = list(
            dict.fromkeys(name for rule in distinct for need in rule.needs for name in op.expanded(need, positions))
        )
        slots = _places(names)
        self.saved_names = tuple(names)
        self.rules = tuple(
            (position, _seen(rule, op, conjugated), tuple(slots[name] for name in rule.needs))
            for position, rule in chosen
            if not rule.joint
        )
        self.joined = False
        self.broadcasts = op.broadcasts
        inputs, values = _places(op.inputs), _places([*op.inputs, *op.results])
        self.sums = {inputs[name]: told for name, told in op.sums.items()}
        self.results = len(op.results)
        self.keeps_values = any(name in values for name in names)  # a backward frees these, as torch does
        self.settings = tuple(name for name in names if name in op.defaults)
        facts = [name for name in names if name not in values and name not in op.defaults]
        self.facts = tuple((inputs[name.rpartition("_")[0]], name.rpartition("_")[2]) for name in facts)
        self.paths = {
            slots[name]: position
            for name, (position, what) in zip(facts, self.facts, strict=True)
            if what == "path"  # a path saves nothing: no torch tensor has this attribute
        }
        pool = _places([*op.inputs, *op.results, *self.settings, *facts])
        self.slots = tuple(pool[name] for name in names)
        plain = len(self.settings) == len(names) and not self.looks
        self.usual = tuple(op.defaults[name] for name in names) if plain else None
        self.unversioned: list[int | None] = [None] * len(names)

    def save(self, values: list[Any], results: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
        """The values that the rules of this plan name, from one run of the op."""
        if self.settings or self.facts:
            facts = [getattr(values[position], what, None) for position, what in self.facts]
            results = (*results[: self.results], *[settings[name] for name in self.settings], *facts)
        arity = len(values)
        return tuple([values[slot] if slot < arity else results[slot - arity] for slot in self.slots])

    def unpack(self, node: Node, saved: tuple[Any, ...], gradient: Any) -> list[Any]:
        """The ``saved`` values of ``node`` as tensors with their history, for a backward that is itself recorded.

        ``gradient`` is the gradient of the node, or the list of the gradients of its outputs.
        """
        op = node.op
        arity, computed = len(op.inputs), len(op.inputs) + len(op.results)
        values: list[Any] = []
        for slot, value in zip(self.slots, saved, strict=True):
            if slot >= computed or not isinstance(value, torch.Tensor):
                values.append(value)
                continue
            origin: Any = node.edges[slot] if slot < arity else None
            if slot >= arity and slot - arity in op.live:
                changed = getattr(node, "changed", None)
                origin = node if changed is None else changed.origin(node, value)
                if node.outputs:
                    origin = Output(node, op.live.index(slot - arity), value)
            values.append(Tensor(value, requires_grad=origin is not None, origin=origin))
        for slot, position in self.paths.items():
            values[slot] = path_to(node.edges[position], gradient)
        return values

    def lift(self, value: Any) -> Tensor:
        """A rule's result as a ``Tensor``: a raw torch tensor is a constant."""
        return value if isinstance(value, Tensor) else Tensor(value)


class JointPlan(Plan):
    """The plan of an op whose inputs share one rule: it gives all gradients in one call."""

    __slots__ = ("_groups", "_rule")

    def __init__(self, op: OpInfo, positions: list[int], conjugated: bool = False) -> None:
        super().__init__(op, positions, conjugated)
        self.joined = True
        rule = op.rules[op.inputs[positions[0]]]
        self._rule: Any = _seen(rule, op, conjugated)
        slots = _places(self.saved_names)
        # A list of tensors is handed to the rule as one tuple, everything else by itself.
        self._groups = tuple(
            tuple(slots[one] for one in op.expanded(name, positions)) if op.is_list(name) else slots[name]
            for name in rule.needs
        )

    def joint(self, gradient: Any, needed: tuple[bool, ...], *saved: Any) -> Any:
        """The gradients of all inputs, by position."""
        given = [
            saved[group] if isinstance(group, int) else tuple([saved[slot] for slot in group]) for group in self._groups
        ]
        return self._rule(gradient, needed, *given)


def _places(names: Sequence[str]) -> dict[str, int]:
    """The first position of each name."""
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        found.setdefault(name, place)
    return found


def path_to(origin: "Origin | None", gradient: Any) -> Tensor | None:
    """A tensor of the shape of ``origin`` that leads to it; its one number is never read. None for a constant."""
    if origin is None:
        return None
    device = next(one.device for one in (gradient if isinstance(gradient, list) else [gradient]) if one is not None)
    data = torch.zeros((), dtype=origin.dtype, device=device).expand(origin.shape)
    return Tensor(data, requires_grad=True, origin=origin)


def _seen(rule: Rule, op: OpInfo, conjugated: bool) -> Callable[..., Any] | None:
    """The function of ``rule`` as the walk calls it: with one gradient, or with a list of the gradients of all outputs.

    None stands for the rule that returns the gradient as it is, and need not be called.
    """
    if rule.kernel is not None and not conjugated:
        return None if rule.kernel is identity else rule.kernel if is_own(rule.function) else foreign(rule.kernel)
    function = foreign(rule.function)
    if rule.outputs is not None:
        function = _picking(function, tuple(op.live.index(output) for output in rule.outputs))
    return _conjugating(function) if conjugated else function


def _picking(function: Callable[..., Any], slots: tuple[int, ...]) -> Callable[..., Any]:
    """Wrap ``function``, which takes the gradients of some outputs, so that it takes the list of all."""

    def picked(gradients: list[Any], *rest: Any) -> Any:
        return function(*[gradients[slot] for slot in slots], *rest)

    return picked


def _conjugating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn ``function``, the rule of a real function, into the rule of the holomorphic function of the same formula.

    With w = f(z) the gradient of z is that of w times the conjugate of f'(z) (torch's convention). A rule multiplies
    by f'(z): conjugating what goes in and what comes out conjugates f'(z) alone.
    """

    def conjugated(gradient: Any, *rest: Any) -> Any:
        return conjugate(function(conjugate(gradient), *rest))

    return conjugated


def conjugate(gradient: Any) -> Any:
    """The complex conjugate of a tensor, or of each tensor in a list; a real tensor and None stay as they are."""
    if isinstance(gradient, list | tuple):
        return [conjugate(one) for one in gradient]
    return gradient.conj() if gradient is not None and gradient.is_complex() else gradient

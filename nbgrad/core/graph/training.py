"""The calls of a training loop around its backwards: those of optimizers, of schedulers and of clipping.

The facts are the same for nbgrad's optimizers and torch's. They are numbers, so they stay when an optimizer is gone.
"""

from collections import deque
from collections.abc import Container
from itertools import chain
from typing import Any, Literal, NamedTuple
from weakref import ref

import torch

from nbgrad.core.engine.kept import storages_of, tensors_in
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.torch_origins import known_id

CallKind = Literal["zero_grad", "step", "unscale", "clip", "schedule"]

_CALLS = 256
"""The calls that are kept: the first ones. A loop repeats what it does in its first rounds."""

_LOOKED = 8
"""So many steps are looked at for frozen parameters."""

_OPTIMIZERS = 64
"""If there are more optimizers than that, those that are gone are forgotten."""

_RECENT = 64
"""So many of the last calls are kept."""

_RESTS = 1e-3
"""A rate below this part of the highest one moves nothing any more."""

WAITING = 2
"""After this many calls of ``zero_grad`` without a step, the versions of the parameters are remembered."""


class LoopCall(NamedTuple):
    """A call of the program's.

    Attributes:
        kind: "zero_grad" and "step" of an optimizer, "unscale" of a scaler, "clip" of gradients, or the "schedule" of a
            rate.
        optimizer: the log of the optimizer that it is about; None where it is about no known one.
        backwards: how many backwards had ended.
        place: the user's line.
        number: for "clip" the bound; for "unscale" the factor, if gradients were clipped since the backward.
        found: for "step" and "clip", whether any of the parameters had a gradient; for "schedule", whether the
            optimizer had stepped.
    """

    kind: CallKind
    optimizer: "OptimizerLog | None"
    backwards: int
    place: Place
    found: bool
    number: float | None = None


class Rates:
    """The learning rate of a group through a loop.

    Attributes:
        first, last, lowest, highest: the rate at the steps; None before the first step, and if it is no number.
        decay: the weight decay.
        momentum: the momentum, or the first of Adam's betas; 0 without one.
        memory: the second of Adam's betas; 0 without one.
        maximize: whether it maximises the loss.
        resting: at how many steps the rate was 0, or less than a thousandth of the highest one before.
    """

    __slots__ = ("decay", "first", "highest", "last", "lowest", "maximize", "memory", "momentum", "resting")

    def __init__(self) -> None:
        self.maximize = False
        self.resting = 0
        self.first: float | None = None
        self.last: float | None = None
        self.lowest: float | None = None
        self.highest: float | None = None
        self.decay = self.momentum = self.memory = 0.0

    def note(self, group: dict[str, Any]) -> None:
        """A step begins with the settings of ``group``."""
        rate = _number(group.get("lr"))
        self.decay = _number(group.get("weight_decay")) or 0.0
        betas = group.get("betas")
        self.momentum = _number(betas[0] if isinstance(betas, tuple | list) and betas else group.get("momentum")) or 0.0
        self.memory = _number(betas[1] if isinstance(betas, tuple | list) and len(betas) > 1 else None) or 0.0
        if rate is None:
            return
        if self.first is None or self.lowest is None or self.highest is None:
            self.first = self.lowest = self.highest = rate
        self.maximize = bool(group.get("maximize"))
        self.resting += rate <= _RESTS * self.highest
        self.last, self.lowest, self.highest = rate, min(rate, self.lowest), max(rate, self.highest)


class Uncleared:
    """A ``.grad`` that is looked at before each change of what it is the gradient of.

    torch counts the changes of a tensor. If there were only those that are known, as by a backward, then nothing has
    cleared it.

    Attributes:
        same: how often it was the tensor of the time before: then it may hold its numbers.
        added_up: how often it still held the gradients of the time before.
    """

    __slots__ = ("_grad", "_version", "added_up", "same")

    def __init__(self) -> None:
        self.added_up = self.same = self._version = 0
        self._grad: ref[torch.Tensor] | None = None

    def look(self, grad: Any, changes: int) -> None:
        """It is ``grad`` now, and this number of changes of it is known; 0 if no backward came since."""
        raw = None if grad is None else raw_of(grad)
        if raw is None or raw.is_inference():
            self._grad = None
            return
        version = raw._version
        if changes and self.is_among([raw]):
            self.same += 1
            self.added_up += version - self._version == changes
        self._grad, self._version = ref(raw), version

    def is_among(self, grads: list[torch.Tensor]) -> bool:
        """Whether one of ``grads`` is the tensor of the last look."""
        known = None if self._grad is None else self._grad()
        return known is not None and any(one is known for one in grads)


class OptimizerLog:
    """The calls of an optimizer while a graph was open.

    Attributes:
        name: its class.
        known: a weak reference to it.
        groups: the rates of each of its groups.
        scheduled: whether a scheduler has set its rate.
        steps: how many steps it took.
        last_step: how many backwards had ended at its last step; 0 for none.
        cleared: how often its gradients were cleared since its last step.
        moves_frozen: whether one of the first steps moved a parameter that was frozen after the first step.
        grad: the ``.grad`` of one of its parameters, at the first steps.
        held: the parameters by group, as ids of records, as far as they were used in the graph; since it was
            ``settled``.
    """

    def __init__(self, optimizer: Any) -> None:
        self.name = type(optimizer).__name__
        self.known = ref(optimizer)
        self.groups: list[Rates] = []
        self.scheduled = False
        self.steps = self.last_step = self.cleared = 0
        self.held: list[list[int]] = []
        self.moves_frozen = False
        self.grad = Uncleared()
        self._looked = self._rescaled = 0
        self._trained: set[int] = set()
        self._versions: list[int] | None = None
        self._begun: list[int] = []

    def clear(self, optimizer: Any) -> None:
        """Its ``zero_grad`` was called."""
        self.cleared += 1
        if self.cleared == WAITING:
            self._versions = _versions(optimizer)

    def step(self, optimizer: Any, backwards: int) -> None:
        """Its ``step`` begins."""
        if self.steps < _LOOKED:
            params = params_of(optimizer)
            if not self.steps:
                self._begun = _versions(optimizer)
                self._trained = {id(one) for one in params if one.requires_grad}
            for one in params:
                if not one.requires_grad and one.grad is not None and id(one) in self._trained:
                    self.moves_frozen = True
            self._look_at_grad(params, backwards)
        self.steps += 1
        self.last_step = backwards
        self.cleared = 0
        while len(self.groups) < len(optimizer.param_groups):
            self.groups.append(Rates())
        for rates, group in zip(self.groups, optimizer.param_groups, strict=False):
            rates.note(group)
        self.scheduled = self.scheduled or "initial_lr" in optimizer.param_groups[0]

    def _look_at_grad(self, params: list[Any], backwards: int) -> None:
        """Look whether a ``.grad`` was cleared since the last step.

        Each backward adds to a ``.grad`` once, and clipping multiplies it; that a scaler does so is not counted.
        """
        passed, self._looked = backwards - self._looked, backwards
        grad = next((one.grad for one in params if one.grad is not None), None)
        self.grad.look(grad, passed + self._rescaled if passed else 0)
        self._rescaled = 0

    def rescale(self, grads: list[torch.Tensor], changes: int) -> None:
        """The numbers of ``grads`` were changed in place, each by this number of ``changes``."""
        if self.grad.is_among(grads):
            self._rescaled += changes

    def waits(self) -> bool:
        """Whether gradients are cleared in a loop without a step, and no parameter has changed meanwhile."""
        optimizer = self.known()
        return (
            self.cleared > WAITING
            and optimizer is not None
            and self._versions is not None
            and self._versions == _versions(optimizer)
        )

    def moved(self) -> set[int]:
        """The parameters that have changed since its first step here, by Python's ``id()``, recorded or not."""
        optimizer = self.known()
        held = [] if optimizer is None else zip(params_of(optimizer), self._begun, strict=False)
        return {id(param) for param, version in held if raw_of(param)._version != version}

    def settle(self) -> None:
        """Remember the parameters by the ids of their records, if it still exists."""
        optimizer = self.known()
        if optimizer is not None:
            groups = [[known_id(one) for one in group["params"]] for group in optimizer.param_groups]
            self.held = [[id for id in group if id is not None] for group in groups]

    @property
    def ids(self) -> set[int]:
        """The ids of all its parameters."""
        return set(chain.from_iterable(self.held))


class TrainingRecorder:
    """Keeps the calls around the backwards of a graph, and the optimizers that take part.

    Attributes:
        calls: the first calls.
        recent: the last calls.
        logs: of the optimizers, by Python's ``id()``.
        evaluates: whether a step runs backwards itself, as that of LBFGS does.
        ends: for each of the first backwards, the id of the newest op at its end.
        derived: the numbers of those whose gradients can be differentiated, so that their graphs are kept on purpose.
        cut: the numbers of the last recorded ones after which the graph rested: the calls after the step are not known.
    """

    def __init__(self) -> None:
        self.calls: list[LoopCall] = []
        self.recent: deque[LoopCall] = deque(maxlen=_RECENT)
        self.logs: dict[int, OptimizerLog] = {}
        self.ends: list[int] = []
        self.derived: set[int] = set()
        self.cut: deque[int] = deque(maxlen=_RECENT)
        self.evaluates = False
        self._alive: dict[int, Any] = {}

    def backward_ended(self, latest: int) -> None:
        """A backward has ended; ``latest``: the id of the newest op."""
        if len(self.ends) < _CALLS:
            self.ends.append(latest)

    def derive(self, number: int) -> None:
        """The gradients of a backward, by its number, can be differentiated."""
        if number <= _CALLS:
            self.derived.add(number)

    def optimizer_called(
        self, optimizer: Any, kind: CallKind, backwards: int, place: Place, by: torch.Tensor | None
    ) -> None:
        """A call about an optimizer: it steps, clears, or has its gradients multiplied ``by``; or it gets a rate."""
        log = self._log(optimizer)
        found, number = True, None
        if kind == "step":
            log.step(optimizer, backwards)
            found = any(one.grad is not None for one in params_of(optimizer))
        elif kind == "zero_grad":
            log.clear(optimizer)
        elif kind == "unscale":
            log.cleared = 0  # a step follows, or the scaler leaves it out on purpose
            last = self.calls[-1] if self.calls else None
            if by is not None and last is not None and last.kind == "clip" and last.backwards == backwards:
                number = 1 / float(by)
        else:
            found = log.steps > 0 or bool(getattr(optimizer, "_opt_called", False))  # torch's schedulers set it
        self._note(LoopCall(kind, log, backwards, place, found, number))

    def clipped(self, grads: list[torch.Tensor], bound: float, changes: int, backwards: int, place: Place) -> None:
        """The ``grads`` were clipped to a ``bound``, by this number of ``changes`` in place of each."""
        for log in self.logs.values():
            log.rescale(grads, changes)
        self._note(LoopCall("clip", None, backwards, place, bool(grads), bound))

    def _note(self, call: LoopCall) -> None:
        if len(self.calls) < _CALLS:
            self.calls.append(call)
        self.recent.append(call)

    def _log(self, optimizer: Any) -> OptimizerLog:
        log = self.logs.get(id(optimizer))
        if log is None or log.known() is not optimizer:
            if len(self.logs) >= _OPTIMIZERS:
                self.logs = {key: one for key, one in self.logs.items() if one.known() is not None}
            log = self.logs[id(optimizer)] = OptimizerLog(optimizer)
            self._alive[id(optimizer)] = optimizer
        return log

    def hold(self, reached: Container[int]) -> None:
        """Keep the optimizers alive, while the graph is open, that hold a tensor ``reached``, by Python's ``id()``."""
        held = [one for log in self.logs.values() if (one := log.known()) is not None]
        self._alive = {id(one): one for one in held if any(id(param) in reached for param in params_of(one))}

    def state_bytes(self) -> int:
        """The bytes of what the optimizers hold besides the parameters, such as momenta."""
        held = [one.state for log in self.logs.values() if (one := log.known()) is not None]
        tensors = [tensor for state in held for tensor in tensors_in(list(state.values()))]
        return sum({storage: size for one in tensors for storage, size in storages_of(raw_of(one))}.values())

    def settle(self) -> None:
        """Remember what the optimizers hold."""
        for log in self.logs.values():
            log.settle()

    def let_go(self) -> None:
        """Keep no optimizer alive."""
        self._alive = {}


def params_of(optimizer: Any) -> list[Any]:
    """Every parameter that ``optimizer`` changes, in the order of its groups."""
    return [param for group in optimizer.param_groups for param in group["params"]]


def _versions(optimizer: Any) -> list[int]:
    return [raw_of(param)._version for param in params_of(optimizer)]


def _number(value: Any) -> float | None:
    """A setting as a number; None for a tensor on a GPU, which would have to be waited for."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.is_cpu and value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None

"""The optimizers that hold the parameters of a backward, their steps, and how far a step moved each parameter."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.node import raw_of, record_id
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.engine.torch_origins import origin_of
from nbgrad.core.graph.stats import SAMPLE, data_of, norms, read, sample
from nbgrad.core.graph.training import OptimizerLog, params_of
from nbgrad.core.recorder.switches import OPTIMIZERS
from nbgrad.core.tensor.tensor import Tensor

LOOP = 3
"""Code that runs this many rounds is a loop. A lesson may run fewer, to show the same gradient once more."""


LARGE = 8 << 20
"""If the copies of an optimizer's parameters take more bytes than that, its step is measured less often: the copies and
three norms take longer than the rest of a frame. With small batches they take almost as long as the step."""

RARELY = 8
"""For large optimizers, only the steps after the 1st, 9th, 17th backward and so on are measured."""


class Update(NamedTuple):
    """The changes by the optimizers after a backward.

    Attributes:
        number: of the backward, from 1.
        ratios: by id of a parameter's record, the norm of the change in units of the norm of the values before it;
            parameters that were all zero, as biases may be at first, have none. Of a large parameter, it is the one of
            a sample of ``SAMPLE`` numbers.
    """

    number: int
    ratios: dict[int, float]


class UpdateRecorder:
    """Measures optimizer steps for some frames. Each of these frames waits for the first step that ends after it.

    It copies the parameters for the time of such a step, or a sample of each large one, if all of a group fit into a
    budget. Every step and backward calls it, so it is compiled. If no frame waits, a call only reads an attribute.

    Args:
        budget: how many bytes it may copy.

    Attributes:
        last: the last update that was measured; None if there was none.
        skipped: how many backwards were not recorded.
        waiting: the numbers of the backwards that wait for a step. They stay here after it until another backward
            ends.
    """

    def __init__(self, budget: int) -> None:
        self.last: Update | None = None
        self.waiting: list[int] = []
        self.skipped = 0
        self._budget = budget
        self._seen: set[int] = set()  # parameters measured for ``waiting``: of several groups or optimizers
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the data that change, and a copy

    def backward_ended(self, number: int, waits: bool) -> None:
        """The ``number``-th backward has ended. ``waits``: whether it is a frame, which waits for a step.

        If no step came since the backwards before it, they go on waiting: gradients are accumulated. A step may run
        backwards itself, as that of LBFGS does. If such a step is measured, every backward inside it waits.
        """
        if self._seen:
            self._turn()
        if waits or self._before:
            self.waiting.append(number)

    def _turn(self) -> None:
        """Those that waited have had their step."""
        self.waiting, self._seen = [], set()

    def begin(self, params: Sequence[Tensor], evaluates: bool) -> None:
        """An optimizer is about to change ``params``; in a step that ``evaluates``, backwards are still to come."""
        if self._before:
            self.drop()
        if evaluates and self._seen:
            self._turn()
        if self.waiting or evaluates:
            self._copy(params, evaluates)

    def _copy(self, params: Sequence[Tensor], evaluates: bool) -> None:
        """Copy those of ``params`` that were not measured yet, if all of them together fit into the budget.

        If they are large, they are copied only for some steps (``RARELY``), or if the step ``evaluates``.
        """
        origins = [origin_of(param) for param in params]
        pairs = zip(origins, params, strict=True)
        unseen = {record_id(origin): param for origin, param in pairs if origin is not None}
        known = {id: data_of(param) for id, param in unseen.items() if id not in self._seen}
        found = {id: data for id, data in known.items() if data is not None}
        size = sum(min(data.numel(), SAMPLE) * data.itemsize for data in found.values())
        picked = size <= LARGE or evaluates or any((number - self.skipped) % RARELY == 1 for number in self.waiting)
        if picked and size <= self._budget:
            self._before = {id: (data, _copied(data)) for id, data in found.items()}
        else:  # the backwards that wait get no measurement of these
            self._seen |= found.keys()

    def drop(self) -> None:
        """Let go of the copies."""
        self._before = {}

    def end(self) -> Update | None:
        """The optimizer has changed them: measure the update, if a frame waits for it."""
        if not self._before:
            return None
        before = {key: copy for key, (_, copy) in self._before.items()}
        after = [data for data, _ in self._before.values()]
        self.drop()
        if not self.waiting:
            return None
        weights = norms(before)
        whole = [one for one in zip(before.values(), after, strict=True) if one[1].numel() <= SAMPLE]
        if whole:
            torch._foreach_sub_([copy for copy, _ in whole], [data for _, data in whole])
        for copy, data in zip(before.values(), after, strict=True):
            if data.numel() > SAMPLE:  # one by one: each takes the memory of the sample before
                copy.sub_(sample(data))
        found = read({**norms(before), **{-id: norm for id, norm in weights.items()}})
        moved = {id: found[id] / found[-id] for id in weights if found[-id]}
        number, known = self.waiting[-1], self.last
        self.last = Update(number, {**(known.ratios if known is not None and known.number == number else {}), **moved})
        self._seen |= before.keys()
        return self.last


def _copied(data: torch.Tensor) -> torch.Tensor:
    """A copy of the numbers of a parameter that are compared: of all, or of a sample of many."""
    return data.clone() if data.numel() <= SAMPLE else sample(data)


class Holders:
    """The optimizers that exist now, of nbgrad's and torch's.

    Args:
        logs: of those that the graph has seen.
        learning: the leaves that the last backward reached, by id.
        changed: by the address of the memory of each tensor that was changed in place, how many backwards had ended
            by its last change.
    """

    def __init__(
        self,
        logs: Sequence[OptimizerLog],
        learning: Mapping[int, Tensor],
        changed: dict[int, int],
    ) -> None:
        self._logs = logs
        self._learning = learning
        self._reached = {id(one) for one in learning.values()}
        self._held = [(one, {id(param): param for param in params_of(one)}) for one in _known()]
        self._at_work = [params for _, params in self._held if not self._reached.isdisjoint(params)]
        self._changed = changed
        self._stepped = [
            ({id(param) for param in params_of(one)}, log.last_step) for log in logs if (one := log.known()) is not None
        ]

    def hold(self, tensor: Tensor) -> bool:
        """Whether one of them holds ``tensor``."""
        return any(id(tensor) in params for _, params in self._held) or id(tensor) in self._unknown

    @cached_property
    def _unknown(self) -> set[int]:
        """Python's ``id()`` of each parameter of an optimizer of torch's that was not called yet."""
        find_optimizers()
        return optimized()

    def stepped(self, tensor: Tensor) -> int:
        """After how many backwards one of those that hold ``tensor`` stepped last; 0 for never."""
        return max([step for params, step in self._stepped if id(tensor) in params], default=0)

    def others(self, tensor: Tensor) -> bool:
        """Whether an optimizer that does not hold ``tensor`` holds parameters that the last backward reached."""
        return any(id(tensor) not in params for params in self._at_work)

    def beside(self) -> list[Tensor]:
        """The parameters that the last backward did not reach, of optimizers that hold some that it did reach.

        One that a step has moved is left out: it was reached in a step that was not recorded.
        """
        known = self._reached.union(*[log.moved() for log in self._logs])
        held = {key: param for params in self._at_work for key, param in params.items() if key not in known}
        return list(held.values())

    def forgotten(self) -> Iterator[tuple[OptimizerLog, list[int]]]:
        """Optimizers that clear gradients in a loop and have taken no step.

        Each comes with the ids of its parameters that the last backward reached. Nothing else has changed a parameter
        of these optimizers either, observed or not.
        """
        for log in self._logs:
            optimizer = log.known()
            if optimizer is None or not log.waits():
                continue
            params = params_of(optimizer)
            if any(memory_of(raw_of(param)) in self._changed for param in params):
                continue
            held = {id(param) for param in params}
            waiting = [seq for seq, tensor in self._learning.items() if id(tensor) in held]
            if waiting:
                yield log, waiting

    def untouched(self) -> Iterator[tuple[str, list[int]]]:
        """The optimizers that were not called in the graph, by class, with those of their parameters that were reached.

        Only those that no other one holds, and whose ``.grad`` has grown beyond the last gradient, count.
        """
        called = {id(one) for log in self._logs if (one := log.known()) is not None}
        self._unknown  # noqa: B018  # it finds those of torch's
        for one in _known():
            held = {id(param) for param in params_of(one)}
            waiting = [seq for seq, tensor in self._learning.items() if id(tensor) in held]
            changed = any(memory_of(raw_of(param)) in self._changed for param in params_of(one))
            if id(one) not in called and waiting and not changed:
                yield type(one).__name__, waiting

    def rate(self) -> tuple[str, float] | None:
        """The largest learning rate of the parameters that the last backward reached, and the class of its optimizer.

        None if one is not known, or if a schedule has changed one: its earlier values are not known.
        """
        groups: list[tuple[str, dict[str, Any]]] = [
            (type(one).__name__, group) for one, _ in self._held for group in one.param_groups
        ]
        holding = [(name, group) for name, group in groups if not self._reached.isdisjoint(map(id, group["params"]))]
        rates: list[tuple[str, Any]] = [(name, group.get("lr")) for name, group in holding]
        if not all(isinstance(rate, int | float | torch.Tensor) for _, rate in rates):
            return None  # the rate of the user's own optimizer may have another name, or none yet
        if not rates or any(group["lr"] != group.get("initial_lr", group["lr"]) for _, group in holding):
            return None
        return max([(name, float(rate)) for name, rate in rates], key=lambda one: one[1])


def _known() -> list[torch.optim.Optimizer]:
    """The known optimizers that are alive. Other threads may make some meanwhile, so the list is taken in one step."""
    return [one for known in OPTIMIZERS.valuerefs() if (one := known()) is not None]


def find_optimizers() -> None:
    """Know also those optimizers of torch's that were not called yet."""
    OPTIMIZERS.update({id(one): one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)})


def optimized() -> set[int]:
    """Python's ``id()`` of each parameter that some known optimizer holds."""
    return {id(param) for optimizer in _known() for param in params_of(optimizer)}

"""Fusion: steps that loop nests can compute become one step, where that is faster than torch's own kernels.

A group is a run of such steps. Other steps that stand between them are moved before the group, as far as what they read
and write allows. A view of a value that a group makes stays a step of its own, so that values that
shared memory still share it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.lowering import VIEWS, Lowering, known, name_in_place
from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.nest.interpreter import Run as NestRun
from nbgrad.core.symbolic.nest.ir import Kernel, KernelError
from nbgrad.core.symbolic.passes.functional import undo_in_place, work_in_place
from nbgrad.core.symbolic.replay import Run, replay

Build = Callable[[Kernel], NestRun]

CALL = 1.2e-6
"""The seconds that a call of a small kernel of torch takes in a program."""

NEST_CALL = 0.6e-6
"""The seconds that a call of a nest takes, without its outputs."""

OUTPUT = 0.8e-6
"""The seconds that torch takes to allocate an output."""

GRAIN = 32768
"""The number of elements for which torch gives a pointwise kernel one more thread."""

PRICES = {
    **dict.fromkeys(("exp", "softmax", "_softmax", "log_softmax", "_log_softmax"), (1.0, 1.1)),
    "_log_softmax_backward_data": (1.0, 1.1),
    **dict.fromkeys(("sigmoid", "silu"), (1.0, 2.1)),
    **dict.fromkeys(("log", "log1p", "expm1"), (1.4, 2.4)),
    "tanh": (4.1, 3.1),
    "erf": (1.7, 4.2),
    **dict.fromkeys(("sin", "cos"), (1.5, 2.6)),
    "gelu": (1.0, 4.7),
    "gelu tanh": (3.7, 4.2),
    "gelu_backward": (0.8, 5.9),
    "gelu_backward tanh": (4.1, 6.0),
    "native_layer_norm": (0.15, 0.55),
    "native_layer_norm_backward": (0.5, 1.3),
}
"""The nanoseconds that an element takes in a kernel of torch, and in a step of a nest."""

CHEAP = (0.15, 0.1)
"""The same for every other function."""

_SOFTMAX = ("softmax", "_softmax", "_softmax_backward_data")
ROWS = {
    **dict.fromkeys((*_SOFTMAX, "log_softmax", "_log_softmax", "_log_softmax_backward_data"), (0.0, 40.0)),
    "native_layer_norm": (70.0, 95.0),
    "native_layer_norm_backward": (15.0, 75.0),
}
"""The nanoseconds that a row takes in addition to its elements, in torch and in a nest: for functions of rows."""

LONGEST = 4000
"""At most this many steps become one nest: the time to arrange them grows with their number."""


def interpreted(listing: Listing) -> Run:
    """The backend "fused": what loop nests compute runs in their interpreter.

    A nest reads memory itself, so strides have to be those of the trace. Those of inputs and captured tensors are
    looked at in each run, those of what torch's kernels make in the first.

    Raises:
        KernelError: the core is not compiled, so that there is no interpreter.
    """
    interpreter.needed()
    changed = fused(listing, interpreter.build)
    nests = [step for step in changed.steps if isinstance(step.function, FusedCall)]
    if not nests:
        return replay(listing)
    read = {id(value) for step in nests for value in step.inputs()}
    inputs = [place for place, value in enumerate(changed.inputs) if id(value) in read]
    captured = [place for place, value in enumerate(changed.captured) if id(value) in read]
    places = [place for place, value in enumerate(listing.captured) if any(value is one for one in changed.captured)]
    first = replay(changed)
    run = replay(changed.with_steps([_bare(step) for step in changed.steps]))
    checked = False

    def checking(given: list[torch.Tensor], held: list[torch.Tensor]) -> list[Any]:
        nonlocal checked
        if len(places) < len(held):
            held = [held[place] for place in places]
        for place in inputs:
            if not given[place].is_contiguous():
                given = [one.contiguous() for one in given]
        for place in captured:
            if not held[place].is_contiguous():
                raise ValueError(f"{changed.captured[place].name} is no longer contiguous: compile the function again")
        if checked:
            return run(given, held)
        made = first(given, held)
        checked = True
        return made

    return checking


@dataclass(eq=False)
class FusedCall:
    """A kernel as the function of a step: it looks at its inputs before it runs."""

    kernel: Kernel
    run: NestRun
    __name__ = "nest"

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The outputs of the kernel."""
        self.kernel.check(inputs)
        return self.run(*inputs)


def _bare(step: ProgramStep) -> ProgramStep:
    """A step that runs its kernel without a look at the inputs."""
    return replace(step, function=step.function.run) if isinstance(step.function, FusedCall) else step


def fused(listing: Listing, build: Build) -> Listing:
    """A listing with a step for each group that is faster as a nest."""
    functional = undo_in_place(listing).listing
    changed = functional.with_steps(_Fusion(functional, build).steps()).check()
    return work_in_place(changed).listing.check()


class _Part:
    """A step, with the values that it reads and makes: they are asked for often."""

    __slots__ = ("inputs", "results", "step", "view")

    def __init__(self, step: ProgramStep) -> None:
        self.step = step
        self.inputs = tuple({id(one): one for one in step.inputs()}.values())
        self.results = step.results()
        self.view = step.name in VIEWS


@dataclass(eq=False)
class _Group:
    """Steps that wait to become one."""

    parts: list[_Part] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    """The identities of the values that they make."""
    memory: set[int] = field(default_factory=set)
    """The storages that they read or make."""

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        self.made.update(id(one) for one in part.results)
        self.memory.update(one.storage for one in part.inputs)
        self.memory.update(one.storage for one in part.results)


@dataclass(frozen=True)
class _FusedGroup:
    """How a group becomes a nest: the parts in it, what it reads and gives, and the steps that stay behind it."""

    nest: list[_Part]
    inputs: list[Value]
    outputs: list[Value]
    again: list[_Part]


class _Fusion:
    def __init__(self, listing: Listing, build: Build) -> None:
        self.listing, self.build = listing, build
        self.parts = [_Part(step) for step in listing.steps]
        values = {id(value): value for part in self.parts for value in part.results}
        values |= {id(value): value for value in (*listing.inputs, *listing.captured)}
        self.sharing = Counter(value.storage for value in values.values())
        self.written = {value.storage for step in listing.steps for value in step.writes}
        self.last: dict[int, int] = {}
        for position, part in enumerate(self.parts):
            for value in part.inputs:
                self.last[id(value)] = position
        for value in listing.leaving():
            self.last[id(value)] = len(self.parts)
        self.threads = torch.get_num_threads()

    def steps(self) -> list[ProgramStep]:
        """All steps, in an order in which they can run."""
        done: list[ProgramStep] = []
        group = _Group()
        for position, part in enumerate(self.parts):
            full = len(group.parts) >= LONGEST
            if not full and self._fits(part, group):
                group.add(part)
                continue
            touched = {one.storage for one in part.step.writes} & group.memory
            touched |= {one.storage for one in part.step.writes if part.step.phase == "update"}  # after all else
            if full or touched or any(id(one) in group.made for one in part.inputs):
                done += self._closed(group, position)
                group = _Group()
                if self._fits(part, group):
                    group.add(part)
                    continue
            done.append(part.step)
        return done + self._closed(group, len(self.parts))

    def _fits(self, part: _Part, group: _Group) -> bool:
        """Whether a step can be part of a nest."""
        step = part.step
        if step.random or not known(step) or not self._readable(part, group):
            return False
        for value in step.writes:  # only memory that the group has made, and that no other step reads
            if id(value) not in group.made or self.sharing[value.storage] > 1:
                return False
        if part.view and any(one.storage in self.written for one in part.inputs):
            return False
        try:
            Lowering(part.inputs).append(step)
        except KernelError:
            return False
        return True

    @staticmethod
    def _readable(part: _Part, group: _Group) -> bool:
        """Whether a nest can read and make the values of a step."""
        for one in part.inputs:
            if id(one) not in group.made and (one.dtype == torch.bool or not _plain(one)):
                return False
        return all(map(_small if part.view else _plain, part.results))

    def _closed(self, group: _Group, end: int) -> list[ProgramStep]:
        """The steps that stand for a group, whose successors begin at ``end``."""
        plan = self._plan(group, end)
        if plan is None or not self._faster(plan):
            return [part.step for part in group.parts]
        low = Lowering(plan.inputs)
        for part in plan.nest:
            low.append(part.step)
        kernel = low.builder.kernel([low.number(value) for value in plan.outputs])
        function = FusedCall(kernel, self.build(kernel))
        made = ProgramStep(function, tuple(plan.inputs), {}, list(plan.outputs), phase=plan.nest[-1].step.phase)
        made.order = plan.nest[-1].step.order
        return [made, *(part.step for part in plan.again)]

    def _plan(self, group: _Group, end: int) -> _FusedGroup | None:
        """How a group becomes a nest; None if it cannot."""
        wanted = {key for key in group.made if self.last.get(key, -1) >= end}
        changed = {id(value) for part in group.parts for value in part.step.writes}
        again: list[_Part] = []
        for part in reversed(group.parts):
            stays = part.view or any(one.dtype == torch.bool for one in part.results)
            if stays and any(id(one) in wanted for one in part.results):
                if any(id(one) in changed for one in part.inputs):
                    return None
                again.append(part)
                wanted.difference_update(id(one) for one in part.results)
                wanted.update(id(one) for one in part.inputs if id(one) in group.made)
        nest = _needed(group.parts, wanted)
        inputs = {id(one): one for part in nest for one in part.inputs if id(one) not in group.made}
        outputs = {id(one): one for part in nest for one in part.results if id(one) in wanted}
        if not outputs or not inputs:
            return None
        return _FusedGroup(nest, list(inputs.values()), list(outputs.values()), again[::-1])

    def _faster(self, plan: _FusedGroup) -> bool:
        """Whether a nest is faster than torch: the shapes say so, never a trial, so each run gives the same numbers."""
        if sum(not part.view for part in plan.nest) < 2:
            return False
        torchs, ours = 0.0, NEST_CALL + OUTPUT * len(plan.outputs) + 0.5 * CALL * len(plan.again)
        for part in plan.nest:
            if part.view:
                torchs += CALL / 2
                continue
            elements = max(one.numel for one in (*part.inputs, *part.results))
            theirs, own = _price(part, elements)
            torchs += CALL + elements * theirs * 1e-9 / max(1, min(self.threads, elements // GRAIN))
            ours += elements * own * 1e-9
        return ours < 0.9 * torchs


def _needed(parts: list[_Part], wanted: set[int]) -> list[_Part]:
    """The parts that the wanted values depend on. One that changes a value in place reads it too."""
    asked, kept = set(wanted), []
    for part in reversed(parts):
        if any(id(one) in asked for one in (*part.results, *part.step.writes)):
            kept.append(part)
            asked.update(id(one) for one in part.inputs)
    return kept[::-1]


def _price(part: _Part, elements: int) -> tuple[float, float]:
    """The nanoseconds that each of so many elements takes in torch and in a nest."""
    name = name_in_place(part.step)
    kind = f"{name} tanh" if part.step.kwargs.get("approximate") == "tanh" else name
    theirs, own = PRICES.get(kind, CHEAP)
    if name not in ROWS:
        return theirs, own
    rows = _rows(part.results[0]) / elements
    return theirs + ROWS[name][0] * rows, own + ROWS[name][1] * rows


def _small(value: Value) -> bool:
    """Whether a value has a type that nests compute with: on the processor, float32 or the result of a comparison."""
    return value.device.type == "cpu" and value.dtype in (torch.float32, torch.bool) and value.numel > 0


def _plain(value: Value) -> bool:
    """Whether a nest can read or make the memory of a value: that type, and the elements lie in order."""
    if not _small(value) or value.stride is None:
        return False
    step = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def _rows(value: Value) -> int:
    """How many rows a value has."""
    return value.numel // value.shape[-1] if value.shape else 1

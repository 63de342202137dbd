"""Changes in place, made and unmade: passes work on values that keep their numbers, and kernels run faster in place."""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.nest.ir import COMPARISONS
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import ELEMENTWISE, ROUNDED, canonical, form_of, is_elementwise
from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed, Replacement, note, storages

_IN_PLACE: dict[str, Callable[..., Any]] = {
    name: getattr(torch.Tensor, f"{name}_")
    for name in sorted(ELEMENTWISE.difference(COMPARISONS))
    if hasattr(torch.Tensor, f"{name}_") and name != "pow"
} | {"threshold_backward": torch.ops.aten.threshold_backward}
"""The method in place of each elementwise function that has one."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{name}_": function for name in _IN_PLACE for function in [getattr(torch, name, None)] if function is not None
}
"""The function that each in-place method computes."""

_MORE: dict[str, Callable[..., Any]] = {"addcmul": torch.Tensor.addcmul_}
"""Methods in place of functions with settings."""


def undo_in_place(listing: L) -> Passed[L]:
    """Give the result of a change in place to a new value, so that the other passes can work with it.

    It does so for memory that the program has made itself, up to the first view of it. ``work_in_place`` does the
    contrary, last. No digit changes.
    """
    if not any(step.writes for step in listing.steps):
        return Passed(listing, [])
    external = listing.external() | storages(event.value for event in listing.events if isinstance(event.value, Value))
    whole: dict[int, Value] = {}
    viewed: set[int] = set()
    editor, stands = Editor(listing), Replacement()
    steps, notes = list[ProgramStep](), list[Note]()
    for given in listing.steps:
        for value in given.results():
            if value.storage in whole:
                viewed.add(value.storage)
            else:
                whole[value.storage] = value
        step = stands.step(given)
        target = _changed(given)
        function = _FUNCTIONS.get(given.name)
        if (
            function is None
            or target is None
            or (given.kwargs and given.name[:-1] not in ROUNDED)  # nothing would make it a change in place again
            or whole.get(target.storage) is not target
            or target.storage in external | viewed
            or editor.forms.of(function, step.args, step.kwargs) != form_of(target)
        ):
            steps.append(step)
            continue
        made = ProgramStep(
            function,
            step.args,
            step.kwargs,
            editor.value(form_of(target), target),
            (),
            False,
            step.phase,
            None,
            step.place,
            step.scope,
            order=step.order,
        )
        stands.add(target, made.result)
        steps.append(made)
        notes.append(note("value in place of a change", given, [made], 0))
    return Passed.of(listing, steps, notes, stands)


def _changed(step: ProgramStep) -> Value | None:
    """The value that a method in place changes, if it is the only one and has the type of the other arguments."""
    target = step.result
    if not isinstance(target, Value) or len(step.writes) != 1 or step.writes[0] is not target:
        return None
    same = step.args[0] is target and all(value.dtype is target.dtype for value in step.inputs())
    return target if same else None


def work_in_place(listing: L) -> Passed[L]:
    """Write the result of an elementwise step into the memory of an operand that nothing reads any more.

    That memory is the program's own, as large as the result, and no view of it is alive. This saves an allocation, and
    the memory is in the cache. No digit changes.
    """
    memory = _Lifetimes(listing)
    stands = Replacement()
    steps, notes = list[ProgramStep](), list[Note]()
    for position, given in enumerate(listing.steps):
        step = stands.step(given)
        operand = _free_operand(step, position, memory)
        if operand is None:
            steps.append(step)
            continue
        made = _in_place(step, operand)
        stands.add(step.result, operand)
        memory.move(step.result, operand)
        steps.append(made)
        notes.append(note("in place", given, [made], 0))
    return Passed.of(listing, steps, notes, stands)


class _Lifetimes:
    """When memory is used last."""

    def __init__(self, listing: Listing) -> None:
        self._external = listing.external()
        self._kept = storages(listing.kept())
        self._last: dict[int, int] = {}
        self._whole: dict[int, Value] = {}
        self._phases: dict[int, str] = {}
        for position, step in enumerate(listing.steps):
            read = storages(step.inputs())
            for value in step.results():
                if value.storage not in read:
                    self._whole.setdefault(value.storage, value)
                    self._phases.setdefault(value.storage, step.phase)
                self._last[value.storage] = position
            for value in (*step.inputs(), *step.writes):
                self._last[value.storage] = position

    def ends(self, value: Value, position: int, phase: str) -> bool:
        """Whether nothing uses the memory after a step, and the value is all of it.

        Memory of the forward is not written in the backward, which may run twice.
        """
        storage = value.storage
        if self._phases.get(storage) != phase:
            return False
        if storage in self._external or storage in self._kept or self._last[storage] != position:
            return False
        return self._whole.get(storage) is value

    def move(self, result: Value, operand: Value) -> None:
        """Let the memory of an operand stand for that of a result."""
        self._last[operand.storage] = self._last[result.storage]
        if result.storage in self._kept:
            self._kept.add(operand.storage)


def _free_operand(step: ProgramStep, position: int, memory: _Lifetimes) -> Value | None:
    """The operand whose memory can take the result."""
    name = canonical(step)
    if not (name in _IN_PLACE and is_elementwise(step, ELEMENTWISE)) and name not in _MORE:
        return None
    places = (0, 1) if traits_of(OPS.get(name)).commutes and len(step.args) == 2 else (0,)
    for place in places:
        operand = step.args[place]
        if not isinstance(operand, Value) or form_of(operand) != form_of(step.result):
            continue
        alone = all(one is operand or one.storage != operand.storage for one in step.inputs())
        if alone and operand.device == step.result.device and memory.ends(operand, position, step.phase):
            return operand
    return None


def _in_place(step: ProgramStep, operand: Value) -> ProgramStep:
    """A step that writes its result into an operand."""
    name = canonical(step)
    args, kwargs = step.args, dict(step.kwargs)
    if name == "threshold_backward":
        function: Callable[..., Any] = torch.ops.aten.threshold_backward.grad_input
        kwargs["grad_input"] = operand
    else:
        function = _MORE[name] if name in _MORE else _IN_PLACE[name]
        if args[0] is not operand:
            args = (operand, args[0])
    about = step.phase, None, step.place, step.scope
    return ProgramStep(function, args, kwargs, operand, (operand,), False, *about, order=step.order)

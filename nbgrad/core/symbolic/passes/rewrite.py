"""Shared parts of the passes: the note about a rewrite, and checks of the memory that a step reads and writes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch

from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number

L = TypeVar("L", bound=Listing)


@dataclass(frozen=True, eq=False)
class Note:
    """One rewrite. Its texts are written when they are asked for: a long program has thousands of notes.

    Attributes:
        rule: its name.
        nodes: how many steps fewer there are.
        nbytes: how many bytes of results fewer there are.
    """

    rule: str
    nodes: int
    nbytes: int
    _step: ProgramStep = field(repr=False)
    _after: tuple[ProgramStep | Value, ...] = field(repr=False)

    @property
    def before(self) -> str:
        """The step before, as text."""
        return str(self._step)

    @property
    def after(self) -> str:
        """The steps after, or the values that stand for the results; empty if there are none."""
        return ("; " if any(isinstance(one, ProgramStep) for one in self._after) else ", ").join(map(str, self._after))

    @property
    def place(self) -> str:
        """The user's line."""
        return str(self._step.place or "")

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the values that the replaced step made or changed."""
        return tuple(_names(self._step))

    @property
    def stands(self) -> tuple[str, ...]:
        """The names of the values that replace them: results of the steps after, or other values."""
        return tuple(name for one in self._after for name in _names(one))

    def __str__(self) -> str:
        return f"{self.rule}: {self.before} -> {self.after or 'nothing'}  ({self.place})"


@dataclass(frozen=True)
class Passed(Generic[L]):
    """The result of a pass: the listing after it, and a note for each rewrite."""

    listing: L
    notes: list[Note]

    @classmethod
    def of(
        cls,
        listing: L,
        steps: list[ProgramStep],
        notes: list[Note],
        change: Callable[[Any], Any] | None = None,
        constants: Iterable[Value] = (),
    ) -> "Passed[L]":
        """``listing`` itself if there are no ``notes``; else with these ``steps``, and new ``constants`` that they use.

        ``change`` maps each value to the one that now stands for it.
        """
        if not notes:
            return cls(listing, [])
        found = listing.with_steps(steps, change)
        used = {id(value) for step in steps for value in step.inputs()}
        found.captured = [*found.captured, *(one for one in constants if id(one) in used)]
        return cls(found, notes)


def note(rule: str, step: ProgramStep, after: Sequence[ProgramStep | Value], nodes: int = 1) -> Note:
    """The note of a rewrite of ``step``.

    Args:
        rule: its name.
        step: the step before.
        after: the steps after, or the values that stand for its results.
        nodes: how many steps fewer there are.
    """
    return Note(rule, nodes, sum(value.nbytes for value in step.results()), step, tuple(after))


def _names(given: ProgramStep | Value) -> list[str]:
    """The names of what a step makes or changes; that of a value."""
    values = [given] if isinstance(given, Value) else given.results() or given.writes
    return [repr(value) for value in values]


class Memory:
    """Which memory a listing writes, and how often before each step.

    A step that reads memory computes the same as another only if nothing has written that memory in between.
    """

    def __init__(self, listing: Listing) -> None:
        self._epochs: dict[int, int] = {}
        self.written = {value.storage for step in listing.steps for value in step.writes}

    def pass_step(self, step: ProgramStep) -> None:
        """Go past ``step``."""
        for storage in {value.storage for value in step.writes}:
            self._epochs[storage] = self._epochs.get(storage, 0) + 1

    def epoch(self, value: Value) -> int:
        """How often the memory of ``value`` was written so far."""
        return self._epochs.get(value.storage, 0)


class Replacement:
    """Which value stands for which, and which memory for which.

    A view of a value that another one stands for becomes a view of the other one.
    """

    def __init__(self) -> None:
        self._of: dict[int, Value] = {}
        self._memory: dict[int, int] = {}

    def add(self, value: Value, other: Value) -> None:
        """Let ``other`` stand for ``value``."""
        self._of[id(value)] = other
        if value.storage != other.storage:
            self._memory[value.storage] = other.storage

    def step(self, given: ProgramStep) -> ProgramStep:
        """A step with the values that stand for its arguments."""
        of = self._of
        if not of:
            return given
        for one in given.inputs():
            if id(one) in of:
                break
        else:
            return given
        if self._memory:
            for value in given.results():
                if value.storage in self._memory and id(value) not in self._of:
                    self._of[id(value)] = replace(value, storage=self._memory[value.storage])
        return given.replaced(self)

    def __call__(self, given: Any) -> Any:
        while isinstance(given, Value) and id(given) in self._of:
            given = self._of[id(given)]
        return given


_PLAIN = (bool, int, str, type(None), torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)


def key_of(given: Any, of_value: Callable[[Value], Any]) -> Any:  # noqa: PLR0911  # a case for each type
    """An argument as a hashable key.

    Raises:
        TypeError: it cannot be compared.
    """
    if isinstance(given, Value):
        return of_value(given)
    if isinstance(given, Number):
        return ("number", given.text)
    if isinstance(given, list | tuple) and not isinstance(given, torch.Size):
        return (type(given).__name__, *(key_of(one, of_value) for one in given))
    if isinstance(given, dict):
        return ("dict", *((name, key_of(one, of_value)) for name, one in given.items()))
    if isinstance(given, slice):
        return ("slice", *(key_of(one, of_value) for one in leaves(given)))
    if isinstance(given, float):
        return ("float", repr(given))
    if isinstance(given, _PLAIN):
        return (type(given).__name__, given)
    if given is Ellipsis:
        return "..."
    raise TypeError(type(given))


def storages(values: Iterable[Value]) -> set[int]:
    """The memory of several values."""
    return {value.storage for value in values}

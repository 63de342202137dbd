"""Runs a kernel with the interpreter of loop nests, which is compiled when nbgrad is installed."""

import struct
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import torch

from nbgrad.core.compilation import why_not
from nbgrad.core.symbolic.nest.ir import Kernel, KernelError
from nbgrad.core.symbolic.nest.schedule import Instruction, Nest, RegisterKind, Schedule, schedule

Run = Callable[..., list[torch.Tensor]]
"""Takes a tensor for each input, and gives the outputs. It checks nothing: ``Kernel.check`` does."""


def available() -> bool:
    """Whether the interpreter was compiled."""
    return reason() is None


def reason() -> str | None:
    """Why there is no interpreter; None where there is one."""
    if (why := why_not()) is not None:
        return why
    return None if hasattr(_machine(), "Program") else "the compiler that nbgrad was built with has no vectors"


def needed() -> None:
    """Raise KernelError where the interpreter was not compiled."""
    if (why := reason()) is not None:
        raise KernelError(
            f"the interpreter of loop nests is not there ({why}): run `make compile`, or install nbgrad where there "
            "is a C compiler; or choose another backend, 'replay' or 'inductor'"
        )


def build(kernel: Kernel) -> Run:
    """Make a kernel ready to run.

    Raises:
        KernelError: where the interpreter was not compiled.
    """
    needed()
    plan = schedule(kernel)
    constants = struct.pack(f"{len(plan.constants)}f", *map(_as_float32, plan.constants))
    run: Run = _machine().Program(_words(plan), constants, _templates(plan))
    return run


def _templates(plan: Schedule) -> tuple[torch.Tensor, ...]:
    """A tensor like each output, for torch to make more of: that is the cheapest way to allocate one."""
    return tuple(torch.empty(shape, dtype=torch.float32, device="cpu") for shape in plan.outputs)


def _machine() -> ModuleType:
    return import_module("nbgrad.core.symbolic.nest.machine")


def _as_float32(number: float) -> float:
    """A constant as float32: one that is too large is infinite, as torch has it."""
    return float(torch.tensor(number, dtype=torch.float32, device="cpu"))


def _words(plan: Schedule) -> bytes:
    """The program as the numbers that the machine reads."""
    head = [plan.inputs, len(plan.outputs), len(plan.nests), plan.scratch, plan.doubles, plan.partial, 0, plan.work]
    tables: list[int] = []
    begin = len(head) + 1
    nests = [word for nest in plan.nests for word in _Writer(nest, tables, begin).words()]
    words = [*head, begin + len(tables), *tables, *nests]
    return struct.pack(f"{len(words)}q", *words)


class _Writer:
    """Writes one nest. The tables of all nests lie before the first of them."""

    def __init__(self, nest: Nest, tables: list[int], begin: int) -> None:
        self.nest, self.tables, self.begin = nest, tables, begin
        moves = [bool(one.place.row_step or one.place.column_step) for one in nest.registers]
        order = sorted(range(len(moves)), key=lambda number: not moves[number])
        self.moving = sum(moves)
        self.order = [nest.registers[number] for number in order]
        self.position = {number: place for place, number in enumerate(order)}

    def words(self) -> list[int]:
        nest = self.nest
        head = [nest.rows, nest.columns, nest.block_rows, nest.block_columns]
        head += [len(nest.registers), self.moving, len(nest.steps), len(nest.accumulators)]
        for one in self.order:
            head += [one.place.base, one.place.offset, one.place.row_step, one.place.column_step]
        for total in nest.accumulators:
            table = self._table(total.rows) if total.rows is not None else 0
            head += [total.place, total.count, total.columns, table, total.largest, total.partial]
            head += [total.result.base, total.result.offset, 0, 0]
        codes = {name: number for number, name in enumerate(_machine().operations)}
        for step in nest.steps:
            head += self._step(step, codes)
        return head

    def _step(self, step: Instruction, codes: dict[str, int]) -> list[int]:
        registers = self.nest.registers
        read = [self.position[one] for one in step.arguments]
        kinds = [registers[one].kind for one in step.arguments]
        by_row = step.to is not None and registers[step.to].kind is RegisterKind.ROW
        table = step.accumulator if step.to is None else 0
        if step.strides is not None:
            table = self._table(step.strides.rows)
            self._table(step.strides.columns)
        padding = [0] * (3 - len(read))
        inner = {RegisterKind.ROW} if by_row else {RegisterKind.COLUMN, RegisterKind.FULL}
        steps = {RegisterKind.FULL: 2, RegisterKind.ROW: 1}
        spread = not by_row and not {RegisterKind.ROW, RegisterKind.COLUMN}.isdisjoint(kinds)
        return [
            codes[step.name],
            0 if step.to is None else self.position[step.to],
            *read,
            *padding,
            table,
            by_row,
            spread,
            *(kind in inner for kind in kinds),
            *padding,
            *(steps.get(kind, 0) for kind in kinds),
            *padding,
        ]

    def _table(self, dims: tuple[tuple[int, int], ...]) -> int:
        at = self.begin + len(self.tables)
        self.tables += [len(dims), *(number for dim in dims for number in dim)]
        return at

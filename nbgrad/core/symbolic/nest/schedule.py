"""Arranges a kernel in loop nests: the steps computed together, block by block, and the place of every number.

A nest has one iteration space, cut into rows and columns. Its steps run one after the other over a block of rows and
columns that fits the first cache, then over the next block. A value has one number for each element of the
block (*full*), one per *row*, one per *column*, or a single one (*scalar*). A reduction over the columns of a row
gives one number per row, which later steps of the same nest can use: softmax and the norms are one nest. The result
of any other reduction is there after the nest.

Sums are taken in float32 in sixteen partial sums of up to ``PIECE`` numbers, and above that in float64. The order of
additions is part of the schedule, so that every engine gives the same bits.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from nbgrad.core.symbolic.nest.ir import FULL, POINTWISE, Kernel, Shape

PIECE = 512
"""At most this many numbers are added up in float32."""

LONGEST_ROW = 4096
"""A row of more numbers is not reduced and used again in one nest: the block would not fit the cache."""

CACHE = 6144
"""The most numbers that the values of a block have together: three quarters of a first cache of 32 KiB."""

SMALLEST, LARGEST = 512, 1024
"""The limits of a block: below, the steps cost more than the arithmetic; above, nothing is gained."""


OFTEN = 3
"""If at least this many steps use a value with one number per row or per column, it is spread over the block."""


class RegisterKind(IntEnum):
    """How many numbers a register holds for a block."""

    SCALAR = 0
    ROW = 1
    COLUMN = 2
    FULL = 3


@dataclass(frozen=True)
class Address:
    """Where a register is: a number of an input, an output or the scratch memory, and how it moves with the block.

    Attributes:
        base: the number of the memory: the inputs come first, then the outputs, then the scratch memory.
        offset: in numbers, of the first row and column.
        row_step: how far it moves from one row to the next.
        column_step: how far it moves from one column to the next.
    """

    base: int
    offset: int
    row_step: int = 0
    column_step: int = 0


@dataclass(frozen=True)
class Register:
    """A memory that a step reads or writes.

    Attributes:
        kind: how many numbers it has for a block.
        place: where they are.
        kept: whether the memory outlives the nest: an input, an output, what a later nest reads.
    """

    kind: RegisterKind
    place: Address
    kept: bool


@dataclass(frozen=True)
class Strides:
    """Where in memory a row, and a column, of an iteration space is: size and stride of each dimension."""

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One instruction over a block.

    Attributes:
        name: a pointwise operation, ``gather``, ``row_sum``, ``row_max``, ``accumulate_sum`` or ``accumulate_max``.
        to: the register that is written; None for an accumulation.
        arguments: the registers that are read.
        strides: where a gather reads.
        accumulator: which one an accumulation adds to.
    """

    name: str
    to: int | None
    arguments: tuple[int, ...]
    strides: Strides | None = None
    accumulator: int = -1


@dataclass(frozen=True)
class Accumulator:
    """The float64 numbers in which a reduction is taken over all blocks.

    Attributes:
        place: the first of them in the scratch memory for doubles.
        count: how many.
        columns: whether each column has its own.
        rows: where a row's numbers are; None where all rows share theirs.
        largest: whether the largest number is taken, not the sum.
        partial: where the columns of a block are added up in float32, in the memory for that; -1 for nowhere.
        result: where the numbers go after the nest.
    """

    place: int
    count: int
    columns: bool
    rows: tuple[tuple[int, int], ...] | None
    largest: bool
    result: Address
    partial: int = -1


@dataclass(frozen=True)
class Nest:
    """One loop nest; see the module."""

    rows: int
    columns: int
    block_rows: int
    block_columns: int
    registers: tuple[Register, ...]
    steps: tuple[Instruction, ...]
    accumulators: tuple[Accumulator, ...]


@dataclass(frozen=True)
class Schedule:
    """The loop nests of a kernel, in order, and the memory they need.

    Attributes:
        inputs: how many.
        outputs: the shape of each.
        nests: in the order in which they run.
        scratch: how many float32 numbers of scratch memory.
        doubles: how many float64 numbers.
        partial: how many float32 numbers hold the columns of a block while its rows are added up.
        constants: float32 numbers, which lie at the beginning of the scratch memory.
    """

    inputs: int
    outputs: tuple[Shape, ...]
    nests: tuple[Nest, ...]
    scratch: int
    doubles: int
    partial: int
    constants: tuple[float, ...]

    @property
    def work(self) -> int:
        """How many numbers all steps compute together."""
        return sum(nest.rows * nest.columns * len(nest.steps) for nest in self.nests)


@dataclass(frozen=True)
class _View:
    """A value as a step uses it: whose memory it is, and the shape of it before and after broadcasting."""

    root: int
    natural: Shape
    shape: Shape


@dataclass(eq=False)
class _Task:
    """An operation with its views resolved."""

    name: str
    arguments: list["_View | float"]
    space: Shape
    root: int
    dims: tuple[int, ...] = ()

    def views(self) -> Iterator[_View]:
        """The arguments that are no constants."""
        return (one for one in self.arguments if isinstance(one, _View))


@dataclass(eq=False)
class _OpenNest:
    """A nest while it is filled."""

    shape: Shape
    sizes: tuple[int, ...]
    cuts: set[int]
    tasks: list[_Task] = field(default_factory=list)
    full: set[int] = field(default_factory=set)
    by_row: dict[int, int] = field(default_factory=dict)
    """The values with one number a row that were made here, each with the dimension behind which the columns begin."""
    used: bool = False
    """Whether a step uses the result of a reduction in the same nest: then blocks have whole rows."""

    def mask(self, natural: Shape) -> tuple[int, ...]:
        """The dimensions of this nest along which a value varies."""
        found = []
        number = 0
        for distance in range(len(self.shape), 0, -1):
            if self.shape[-distance] > 1:
                if distance <= len(natural) and natural[-distance] > 1:
                    found.append(number)
                number += 1
        return tuple(found)


def schedule(kernel: Kernel) -> Schedule:
    """Arrange a kernel in loop nests."""
    return _Scheduler(kernel).result()


def _stripped(shape: Shape) -> Shape:
    """A shape without its leading ones."""
    for number, size in enumerate(shape):
        if size != 1:
            return shape[number:]
    return ()


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def _strides(shape: Shape, mask: tuple[int, ...]) -> dict[int, int]:
    """The stride of each dimension of ``mask``, in contiguous memory that has only these dimensions."""
    strides, step = {}, 1
    for dim in reversed(mask):
        strides[dim] = step
        step *= shape[dim]
    return strides


class _Scheduler:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.inputs = len(kernel.inputs)
        self.tasks: list[_Task] = []
        self.plans: list[_OpenNest] = []
        self.nest_of: dict[int, int] = {}
        self.roots = self.inputs
        self.outputs = self._resolve()
        for task in self._needed():
            self._place(task)
        self.constants: dict[str, int] = {}
        self.values: list[float] = []
        self.doubles = self.partial = 0
        self.where: dict[int, tuple[int, int]] = {number: (number, 0) for number in range(self.inputs)}
        self.begin = self.scratch = self._memory()

    def result(self) -> Schedule:
        nests = tuple(_NestWriter(self, number, plan).nest() for number, plan in enumerate(self.plans))
        shapes = tuple(self.kernel.shape(one) for one in self.kernel.outputs)
        values = tuple(self.values)
        return Schedule(self.inputs, shapes, nests, self.scratch, self.doubles, self.partial, values)

    # ------------------------------------------------------------------------------------------------ views

    def _resolve(self) -> list[int]:
        """Make tasks of the operations; return the root of each output."""
        views = [_View(number, shape, shape) for number, shape in enumerate(self.kernel.inputs)]
        for one in self.kernel.operations:
            arguments = [views[a] if type(a) is int else float(a) for a in one.arguments]
            if one.name == FULL:
                views.append(self._task("copy", arguments, (), one.shape))
                continue
            if one.name in POINTWISE:
                natural = _broadcast([a.natural for a in arguments if isinstance(a, _View)])
                views.append(self._task(one.name, arguments, natural, one.shape))
                continue
            (view,) = arguments
            assert isinstance(view, _View)
            if one.name == "expand":
                views.append(_View(view.root, view.natural, one.shape))
                continue
            aligned = (1,) * (len(view.shape) - len(view.natural)) + view.natural
            if one.name == "reshape":
                if aligned != view.shape:
                    view = self._task("copy", [view], view.shape, view.shape)
                views.append(_View(view.root, one.shape, one.shape))
                continue
            space = tuple(view.shape[dim] if dim in one.dims else size for dim, size in enumerate(aligned))
            if space != aligned:
                view = self._task("copy", [view], space, space)
            kept = tuple(1 if dim in one.dims else size for dim, size in enumerate(space))
            if kept == space:
                views.append(_View(view.root, kept, one.shape))
                continue
            root = self._new(one.name, [_View(view.root, space, space)], space, one.dims)
            views.append(_View(root, kept, one.shape))
        return self._own([views[one] for one in self.kernel.outputs])

    def _own(self, outputs: list[_View]) -> list[int]:
        """A root of its own for each output."""
        taken: list[int] = []
        for view in outputs:
            if view.root < self.inputs or view.root in taken or math.prod(view.natural) != math.prod(view.shape):
                view = self._task("copy", [view], view.shape, view.shape)
            taken.append(view.root)
        return taken

    def _task(self, name: str, arguments: Sequence[_View | float], natural: Shape, shape: Shape) -> _View:
        return _View(self._new(name, arguments, natural), natural, shape)

    def _new(self, name: str, arguments: Sequence[_View | float], space: Shape, dims: tuple[int, ...] = ()) -> int:
        self.tasks.append(_Task(name, list(arguments), space, self.roots, dims))
        self.roots += 1
        return self.roots - 1

    def _needed(self) -> list[_Task]:
        """The tasks that some output depends on, in order."""
        wanted, kept = set(self.outputs), []
        for task in reversed(self.tasks):
            if task.root in wanted:
                kept.append(task)
                wanted.update(view.root for view in task.views())
        return kept[::-1]

    # ------------------------------------------------------------------------------------------------ nests

    def _place(self, task: _Task) -> None:
        """Put a task into the first nest that it fits, or into a new one."""
        first = max((self.nest_of.get(view.root, 0) for view in task.views()), default=0)
        key = _stripped(task.space)
        for number in range(first, len(self.plans)):
            plan = self.plans[number]
            if plan.shape == key:
                if self._fits(task, number, plan):
                    return self._put(task, number, plan)
            elif task.name in POINTWISE and self._fits_rows(task, number, plan):
                return self._put_by_row(task, number, plan)
        sizes = tuple(size for size in key if size > 1)
        plan = _OpenNest(key, sizes, set(range(len(sizes) + 1)))
        self.plans.append(plan)
        return self._put(task, len(self.plans) - 1, plan)

    def _here(self, task: _Task, number: int) -> list[_View]:
        """The arguments that the same nest makes."""
        return [view for view in task.views() if self.nest_of.get(view.root, -1) == number]

    def _fits(self, task: _Task, number: int, plan: _OpenNest) -> bool:
        cuts = self._cuts(task, plan)
        everywhere = tuple(range(len(plan.sizes)))
        for view in self._here(task, number):
            mask = plan.mask(view.natural)
            if view.root in plan.full:
                if mask != everywhere:
                    return False
            elif view.root in plan.by_row and mask == tuple(range(plan.by_row[view.root])):
                cuts &= {plan.by_row[view.root]}
            else:
                return False
        return bool(cuts)

    def _cuts(self, task: _Task, plan: _OpenNest) -> set[int]:
        """Behind which dimensions the columns may begin, once this task is in the nest."""
        if task.name in POINTWISE:
            return set(plan.cuts)
        reduced = self._reduced(task, plan)
        end = len(plan.sizes)
        return {cut for cut in plan.cuts if len(reduced.intersection(range(cut, end))) in {0, end - cut}}

    @staticmethod
    def _reduced(task: _Task, plan: _OpenNest) -> set[int]:
        """The dimensions of the nest that a reduction reduces."""
        left = tuple(1 if dim in task.dims else size for dim, size in enumerate(task.space))
        return set(range(len(plan.sizes))).difference(plan.mask(left))

    def _put(self, task: _Task, number: int, plan: _OpenNest) -> None:
        plan.cuts = self._cuts(task, plan)
        for view in self._here(task, number):
            if view.root in plan.by_row:
                plan.cuts &= {plan.by_row[view.root]}
                plan.used = True
        if task.name in POINTWISE:
            plan.full.add(task.root)
        else:
            reduced, end = self._reduced(task, plan), len(plan.sizes)
            cut = end - len(reduced)
            if reduced == set(range(cut, end)) and cut in plan.cuts and math.prod(plan.sizes[cut:]) <= LONGEST_ROW:
                plan.by_row[task.root] = cut
        plan.tasks.append(task)
        self.nest_of[task.root] = number

    def _fits_rows(self, task: _Task, number: int, plan: _OpenNest) -> bool:
        here = self._here(task, number)
        cuts = {plan.by_row.get(view.root, -1) for view in here}
        if len(cuts) != 1 or not cuts <= plan.cuts:
            return False
        (cut,) = cuts
        key, rows = _stripped(task.space), tuple(range(cut))
        fits = len(key) <= len(plan.shape) and all(
            a in {1, b} for a, b in zip(key[::-1], plan.shape[::-1], strict=False)
        )
        return fits and plan.mask(key) == rows and all(plan.mask(view.natural) == rows for view in here)

    def _put_by_row(self, task: _Task, number: int, plan: _OpenNest) -> None:
        cut = plan.by_row[self._here(task, number)[0].root]
        plan.cuts &= {cut}
        plan.used = True
        plan.by_row[task.root] = cut
        plan.tasks.append(task)
        self.nest_of[task.root] = number

    # ------------------------------------------------------------------------------------------------ memory

    def _memory(self) -> int:
        """Give a place to the constants and to what one nest leaves for another; return how much that is."""
        for one in (one for plan in self.plans for task in plan.tasks for one in task.arguments):
            if not isinstance(one, _View) and one.hex() not in self.constants:
                self.constants[one.hex()] = len(self.values)
                self.values.append(one)
        for number, root in enumerate(self.outputs):
            self.where[root] = (self.inputs + number, 0)
        return self._between(_rounded(len(self.values)))

    def _between(self, at: int) -> int:
        """Give a place behind ``at`` to what one nest leaves for another. It is free after its last reader."""
        used = (
            (view, number) for number, plan in enumerate(self.plans) for task in plan.tasks for view in task.views()
        )
        last = {view.root: number for view, number in used if self.nest_of.get(view.root, number) != number}
        free: dict[int, list[int]] = {}
        ending: dict[int, list[tuple[int, int]]] = {}
        for number, plan in enumerate(self.plans):
            for task in plan.tasks:
                if task.root in last and task.root not in self.where:
                    size = _rounded(self._size(task))
                    spot = free[size].pop() if free.get(size) else at
                    at += size if spot == at else 0
                    self.where[task.root] = (self.inputs + len(self.outputs), spot)
                    ending.setdefault(last[task.root], []).append((size, spot))
            for size, spot in ending.get(number, ()):
                free.setdefault(size, []).append(spot)
        return at

    @staticmethod
    def _size(task: _Task) -> int:
        return math.prod(size for dim, size in enumerate(task.space) if dim not in task.dims)


def _merged(along: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in fewer dimensions, where neighbours lie side by side."""
    merged: list[tuple[int, int]] = []
    for size, stride in along:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def _rounded(count: int) -> int:
    """``count`` rounded up, so that the next numbers begin on a new line of the cache."""
    return -(-count // 16) * 16


@dataclass(eq=False)
class _Slot:
    """Scratch memory of a block: one number for each of its elements, or for each of its rows."""

    kind: RegisterKind
    number: int


class _NestWriter:
    """Gives every value of one nest a register."""

    def __init__(self, scheduler: _Scheduler, number: int, plan: _OpenNest) -> None:
        self.scheduler, self.number, self.plan = scheduler, number, plan
        self.scratch_base = scheduler.inputs + len(scheduler.outputs)
        self.cut = self._cut()
        self.rows = math.prod(plan.sizes[: self.cut])
        self.columns = math.prod(plan.sizes[self.cut :])
        inner = set(range(self.cut, len(plan.sizes)))
        by_rows = any(scheduler._reduced(task, plan) == inner for task in plan.tasks if task.name not in POINTWISE)
        self.whole = plan.used or (by_rows and self.cut > 0 and self.columns <= LONGEST_ROW)
        self.last = {view.root: k for k, task in enumerate(plan.tasks) for view in task.views()}
        self.uses = Counter(view.root for task in plan.tasks if task.root in plan.full for view in task.views())
        self.registers: list[tuple[RegisterKind, Address | _Slot, bool]] = []
        self.known: dict[object, int] = {}
        self.keys: dict[int, list[object]] = {}
        self.free: dict[RegisterKind, list[int]] = {RegisterKind.FULL: [], RegisterKind.ROW: []}
        self.slots: dict[RegisterKind, int] = {RegisterKind.FULL: 0, RegisterKind.ROW: 0}
        self.steps: list[Instruction] = []
        self.accumulators: list[Accumulator] = []

    def nest(self) -> Nest:
        for number, task in enumerate(self.plan.tasks):
            self._write(task, number)
            for view in set(task.views()):
                self._release(view.root, number)
        block_rows, block_columns = self._block()
        full, by_row = _rounded(block_rows * block_columns), _rounded(block_rows)
        slots = self.slots[RegisterKind.FULL] * full + self.slots[RegisterKind.ROW] * by_row
        self.scheduler.scratch = max(self.scheduler.scratch, self.scheduler.begin + slots)
        return Nest(
            self.rows,
            self.columns,
            block_rows,
            block_columns,
            tuple(self._settled(*one, full, by_row) for one in self.registers),
            tuple(self.steps),
            tuple(self.accumulators),
        )

    def _cut(self) -> int:
        """Behind which dimension the columns begin: where most values need not be gathered."""

        def cost(cut: int) -> tuple[int, int]:
            price = {
                "gather": 20,
                "rows": 3,
                RegisterKind.ROW: 1,
                RegisterKind.COLUMN: 1,
                RegisterKind.FULL: 0,
                RegisterKind.SCALAR: 0,
            }
            return sum(price[self._class(mask, cut)] for mask in masks), cut

        outside = {
            (view.root, self.plan.mask(view.natural))
            for task in self.plan.tasks
            for view in task.views()
            if self.scheduler.nest_of.get(view.root, -1) != self.number
        }
        masks = [mask for _, mask in outside]
        return min(self.plan.cuts, key=cost)

    def _class(self, mask: tuple[int, ...], cut: int) -> RegisterKind | str:
        end = len(self.plan.sizes)
        if mask == tuple(range(end)):
            return RegisterKind.FULL if end else RegisterKind.SCALAR
        if not mask:
            return RegisterKind.SCALAR
        if mask == tuple(range(cut)):
            return RegisterKind.ROW
        if mask == tuple(range(cut, end)):
            return RegisterKind.COLUMN
        return "rows" if mask[-1] < cut else "gather"

    # ------------------------------------------------------------------------------------------------ registers

    def _add(self, key: object, kind: RegisterKind, place: Address | _Slot, *, kept: bool) -> int:
        self.registers.append((kind, place, kept))
        self.known[key] = len(self.registers) - 1
        if isinstance(key, tuple):
            self.keys.setdefault(key[0], []).append(key)
        return len(self.registers) - 1

    def _place_of(self, kind: RegisterKind, base: int, offset: int) -> Address:
        row = {RegisterKind.FULL: self.columns, RegisterKind.ROW: 1}.get(kind, 0)
        return Address(base, offset, row, 1 if kind in {RegisterKind.FULL, RegisterKind.COLUMN} else 0)

    def _slot(self, key: object, kind: RegisterKind) -> int:
        if self.free[kind]:
            number = self.free[kind].pop()
        else:
            number = self.slots[kind]
            self.slots[kind] += 1
        return self._add(key, kind, _Slot(kind, number), kept=False)

    def _release(self, root: int, number: int) -> None:
        """After the last step that uses a value, another may take its slot."""
        if self.last.get(root) == number:
            for key in self.keys.pop(root, ()):
                kind, place, _ = self.registers[self.known.pop(key)]
                if isinstance(place, _Slot):
                    self.free[kind].append(place.number)

    def _read(self, one: "_View | float", *, by_row: bool) -> int:
        """The register of an argument, for a step that computes one number a row or one for each element."""
        if not isinstance(one, _View):
            key: object = one.hex()
            if key in self.known:
                return self.known[key]
            place = Address(self.scratch_base, self.scheduler.constants[one.hex()])
            return self._add(key, RegisterKind.SCALAR, place, kept=True)
        if self.scheduler.nest_of.get(one.root, -1) == self.number:
            return self.known[one.root, "made"]
        mask = self.plan.mask(one.natural)
        if (one.root, mask, by_row) in self.known:
            return self.known[one.root, mask, by_row]
        base, offset = self.scheduler.where[one.root]
        kind = self._class(mask, self.cut)
        if (
            kind in {RegisterKind.ROW, RegisterKind.COLUMN}
            and not by_row
            and self.rows > 1
            and self.uses.get(one.root, 0) >= OFTEN
        ):
            kind = "gather"
        if isinstance(kind, RegisterKind):
            return self._add((one.root, mask, by_row), kind, self._place_of(kind, base, offset), kept=True)
        source = self._add((one.root, mask, by_row, "memory"), RegisterKind.SCALAR, Address(base, offset), kept=True)
        strides = _strides(self.plan.sizes, mask)
        sizes = self.plan.sizes
        along = [(sizes[dim], strides.get(dim, 0)) for dim in range(len(sizes))]
        columns = along[self.cut :] if any(dim >= self.cut for dim in mask) else []
        to = self._slot((one.root, mask, by_row), RegisterKind.FULL if kind == "gather" else RegisterKind.ROW)
        self.steps.append(
            Instruction("gather", to, (source,), Strides(tuple(along[: self.cut]), tuple(_merged(columns))))
        )
        return to

    def _made(self, root: int, kind: RegisterKind) -> int:
        """The register of a result."""
        if root in self.scheduler.where:
            base, offset = self.scheduler.where[root]
            return self._add((root, "made"), kind, self._place_of(kind, base, offset), kept=True)
        return self._slot((root, "made"), kind)

    def _write(self, task: _Task, number: int) -> None:
        kind = RegisterKind.ROW if task.name in POINTWISE and task.root in self.plan.by_row else RegisterKind.FULL
        arguments = tuple(self._read(one, by_row=kind is RegisterKind.ROW) for one in task.arguments)
        if task.name not in POINTWISE:
            self._reduce(task, arguments[0])
            return
        if kind is RegisterKind.FULL and task.root not in self.scheduler.where:
            self._give_back(task, number)
        self.steps.append(Instruction(task.name, self._made(task.root, kind), arguments))

    def _give_back(self, task: _Task, number: int) -> None:
        """A result may take the slot of an argument that is used for the last time: a step reads before it writes."""
        for view in set(task.views()):
            if self.plan.mask(view.natural) == tuple(range(len(self.plan.sizes))):
                self._release(view.root, number)

    def _reduce(self, task: _Task, argument: int) -> None:
        ends = self.scheduler._reduced(task, self.plan)
        end = len(self.plan.sizes)
        if self.whole and ends == set(range(self.cut, end)) and (self.plan.used or self.cut):
            self.steps.append(Instruction(f"row_{task.name}", self._made(task.root, RegisterKind.ROW), (argument,)))
            return
        keeps_columns = not ends.intersection(range(self.cut, end)) and self.cut < end
        left = tuple(dim for dim in range(end) if dim not in ends)
        strides = _strides(self.plan.sizes, left)
        rows = [(self.plan.sizes[dim], strides.get(dim, 0)) for dim in range(self.cut)]
        shared = all(stride == 0 for _, stride in rows)
        count = math.prod(self.plan.sizes[dim] for dim in left)
        base, offset = self.scheduler.where[task.root]
        self.accumulators.append(
            Accumulator(
                self._doubles(count),
                count,
                keeps_columns,
                None if shared else tuple(rows),
                task.name == "max",
                Address(base, offset),
                self._partial() if keeps_columns and shared else -1,
            )
        )
        self.steps.append(
            Instruction(f"accumulate_{task.name}", None, (argument,), accumulator=len(self.accumulators) - 1)
        )

    def _doubles(self, count: int) -> int:
        """The accumulators of a nest lie side by side; those of the next nest take their place."""
        at = sum(_rounded(one.count) for one in self.accumulators)
        self.scheduler.doubles = max(self.scheduler.doubles, at + _rounded(count))
        return at

    def _partial(self) -> int:
        at = _rounded(self.columns) * sum(one.partial >= 0 for one in self.accumulators)
        self.scheduler.partial = max(self.scheduler.partial, at + _rounded(self.columns))
        return at

    # ------------------------------------------------------------------------------------------------ blocks

    def _block(self) -> tuple[int, int]:
        """How many rows and columns fit the cache together."""
        memory = {
            (place.base, place.offset)
            for kind, place, _ in self.registers
            if kind is RegisterKind.FULL and isinstance(place, Address)
        }
        values = self.slots[RegisterKind.FULL] + len(memory)
        elements = min(max(CACHE // max(values, 1), SMALLEST), LARGEST)
        if self.whole or self.columns <= 2 * elements:
            return min(max(elements // self.columns, 1), self.rows), self.columns
        return 1, PIECE  # as many as are added up at a time: then the blocks make no difference to a sum

    def _settled(self, kind: RegisterKind, place: Address | _Slot, kept: bool, full: int, by_row: int) -> Register:
        """A register whose place in the scratch memory is known."""
        if isinstance(place, Address):
            return Register(kind, place, kept)
        at = self.scheduler.begin + place.number * full
        if kind is RegisterKind.ROW:
            at = self.scheduler.begin + self.slots[RegisterKind.FULL] * full + place.number * by_row
        return Register(kind, Address(self.scratch_base, at), kept)

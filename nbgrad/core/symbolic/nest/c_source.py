"""Writes a schedule as C: the same numbers to the bit as the interpreter's, with the values of a row in registers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nbgrad.core.symbolic.nest.schedule import PIECE, TALLEST, Accumulator, Instruction, Nest, RegisterKind, Schedule

HEADER = Path(__file__).with_name("vector_math.h")

_OPENING = """\
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define WIDTH 16
#elif defined(__AVX2__)
#define WIDTH 8
#define MASKED
#else
#define WIDTH 4
#endif
#define VECTOR(name) v_##name
"""

_HELPERS = """\
static inline double larger(double a, double b) { return a > b || a != a ? a : b; }
"""


def c_source(schedule: Schedule) -> str:
    """The text of one C file, whose function ``run(bases, doubles, partial)`` computes the outputs.

    ``bases`` points at the inputs, the outputs and the scratch memory, which begins with the constants.
    """
    parts = [_OPENING, HEADER.read_text(encoding="utf-8"), _HELPERS]
    for number, nest in enumerate(schedule.nests):
        parts.append(_NestText(nest, number).text())
    calls = "\n".join(f"  nest_{number}(bases, doubles, partial);" for number in range(len(schedule.nests)))
    parts.append(f"void run(float **bases, double *doubles, float *partial) {{\n{calls}\n}}\n")
    return "\n".join(parts)


@dataclass(eq=False)
class _Phase:
    """One inner loop: the steps before it, which run once a row, and the steps in it, which may also act after it."""

    before: list[Instruction] = field(default_factory=list)
    steps: list[Instruction] = field(default_factory=list)


class _NestText:
    def __init__(self, nest: Nest, number: int) -> None:
        self.nest, self.number = nest, number
        self.registers = nest.registers
        self.phases = self._phases()
        self.made_in: dict[int, int] = {}
        for order, phase in enumerate(self.phases):
            for step in phase.steps:
                if step.to is not None and self.registers[step.to].kind is RegisterKind.FULL:
                    self.made_in[step.to] = order
        self.stored = self._stored()
        self.used = {one for step in nest.steps for one in step.arguments}

    def _phases(self) -> list[_Phase]:
        """An inner loop ends before a step of one number a row, and before one that reads what the loop adds up."""
        phases, pending = [_Phase()], set[int]()
        for step in self.nest.steps:
            by_row = step.to is not None and self.registers[step.to].kind is RegisterKind.ROW
            reduces = step.name.startswith("row_")
            if by_row and not reduces:
                if phases[-1].steps:
                    phases.append(_Phase())
                    pending = set()
                phases[-1].before.append(step)
                continue
            if pending.intersection(step.arguments):
                phases.append(_Phase())
                pending = set()
            phases[-1].steps.append(step)
            if reduces and step.to is not None:
                pending.add(step.to)
        return phases

    def _stored(self) -> set[int]:
        """The registers of a block that a later loop over the same row reads: they go through memory."""
        return {
            one
            for order, phase in enumerate(self.phases)
            for step in phase.steps
            for one in step.arguments
            if self.made_in.get(one, order) != order
        }

    # ------------------------------------------------------------------------------------------------ text

    def text(self) -> str:
        nest = self.nest
        lines = [f"static void nest_{self.number}(float **bases, double *doubles, float *partial) {{"]
        lines += ["  (void)doubles; (void)partial;", *self._places(), *self._zeros()]
        lines.append(f"  for (long first = 0; first < {nest.rows}; first += {nest.block_rows}) {{")
        lines.append(
            f"  const long last = first + {nest.block_rows} < {nest.rows} ? first + {nest.block_rows} : {nest.rows};"
        )
        lines.append("  for (long r = first; r < last; r++) {")
        lines.append(f"    const int fresh = (r - first) % {TALLEST} == 0; (void)fresh;")
        lines += self._row_values()
        for order, phase in enumerate(self.phases):
            lines += [self._row_step(step) for step in phase.before]
            lines += self._loop(order, phase)
        lines += [*self._flushed(), "  }", "  }", *self._results(), "}"]
        return "\n".join(lines) + "\n"

    def _places(self) -> Iterator[str]:
        written = {step.to for step in self.nest.steps}
        for number, one in enumerate(self.registers):
            if one.kept or number in self.stored:
                const = "" if number in written else "const "
                yield f"  {const}float *const m{number} = bases[{one.place.base}] + {one.place.offset};"
            if one.kind is RegisterKind.SCALAR and one.kept and number in self.used and not self._gathered(number):
                yield f"  const v_floats x{number} = v_spread(*m{number});"

    def _gathered(self, number: int) -> bool:
        """Whether a register is the memory that gathers read."""
        return any(step.name == "gather" and number in step.arguments for step in self.nest.steps)

    def _zeros(self) -> Iterator[str]:
        for number, one in enumerate(self.nest.accumulators):
            start = "-(double)INFINITY" if one.largest else "0.0"
            yield f"  double *const d{number} = doubles + {one.place};"
            yield f"  for (long k = 0; k < {one.count}; k++) d{number}[k] = {start};"
            if self._by_block(one):
                yield f"  float *const p{number} = partial + {one.partial};"

    def _by_block(self, one: Accumulator) -> bool:
        """Whether the rows of a block are added up in float32 first."""
        return one.partial >= 0 and not one.largest and self.nest.block_rows > 1

    def _flushed(self) -> Iterator[str]:
        due = f"(r - first) % {TALLEST} == {TALLEST - 1} || r + 1 == last"
        for number, one in enumerate(self.nest.accumulators):
            if self._by_block(one):
                yield f"  if ({due}) for (long k = 0; k < {one.count}; k++) d{number}[k] += (double)p{number}[k];"

    def _results(self) -> Iterator[str]:
        for number, one in enumerate(self.nest.accumulators):
            to = f"(bases[{one.result.base}] + {one.result.offset})[k]"
            yield f"  for (long k = 0; k < {one.count}; k++) {to} = (float)d{number}[k];"

    def _row_values(self) -> Iterator[str]:
        """The values with one number a row that come from memory."""
        written = {step.to for step in self.nest.steps}
        for number, one in enumerate(self.registers):
            if one.kind is RegisterKind.ROW and one.kept and number not in written:
                yield f"    const float x{number} = m{number}[r];"
        for step in self.nest.steps:
            if step.strides is not None and step.to is not None:
                place = " + ".join(["0", *self._offset("r", step.strides.rows)])
                yield f"    const float *const g{step.to} = m{step.arguments[0]} + ({place});"
                if self.registers[step.to].kind is RegisterKind.ROW:
                    yield f"    const float x{step.to} = *g{step.to};"

    @staticmethod
    def _offset(index: str, dims: tuple[tuple[int, int], ...]) -> list[str]:
        below, terms = 1, []
        for size, stride in reversed(dims):
            if stride:
                terms.append(f"{index} / {below} % {size} * {stride}")
            below *= size
        return terms

    def _row_step(self, step: Instruction) -> str:
        """A pointwise step of one number a row; a gather was written at the beginning of the row."""
        if step.name == "gather" or step.to is None:
            return ""
        read = ", ".join(f"v_spread(x{one})" if self._single(one) else f"x{one}" for one in step.arguments)
        keep = f" m{step.to}[r] = x{step.to};" if self.registers[step.to].kept else ""
        return f"    const float x{step.to} = v_{step.name}({read})[0];{keep}"

    def _single(self, number: int) -> bool:
        """Whether a register is a C float: it has one number a row."""
        return self.registers[number].kind is RegisterKind.ROW

    # ------------------------------------------------------------------------------------------------ the inner loop

    def _loop(self, order: int, phase: _Phase) -> list[str]:
        if not phase.steps:
            return []
        columns, piece = self.nest.columns, PIECE
        sums = [step for step in phase.steps if self._adds_up(step)]
        lines = [f"    double t{self._total(step)} = 0;" for step in sums if not self._is_max(step)]
        tops = [f"    v_sixteen s{self._total(step)};" for step in sums]
        for step in sums:
            start = "-INFINITY" if self._is_max(step) else "0.0f"
            tops.append(f"    for (int g = 0; g < 16 / WIDTH; g++) s{self._total(step)}.part[g] = v_spread({start});")
            if self._is_max(step) and step.to is not None:
                lines.append(f"    double w{step.to} = -(double)INFINITY;")
        if sums and columns > piece:
            lines.append(f"    for (long start = 0; start < {columns}; start += {piece}) {{")
            lines.append(f"    const long end = start + {piece} < {columns} ? start + {piece} : {columns};")
        else:
            lines.append(f"    {{ const long start = 0, end = {columns};")
        lines += [*tops, "    long j = start;"]
        body = [line for step in phase.steps for line in self._body(order, step, "WIDTH")]
        tail = [line for step in phase.steps for line in self._body(order, step, "n")]
        lines.append("    for (; j + 16 <= end; j += 16)")
        lines.append('    _Pragma("GCC unroll 4") for (int g = 0; g < 16 / WIDTH; g++) {')
        lines += ["      const long k = j + g * WIDTH; (void)k;", *body, "    }"]
        if columns % 16:
            lines.append("    for (int g = 0; j < end; j += WIDTH, g++) {")
            lines += ["      const long k = j, n = end - j < WIDTH ? end - j : WIDTH; (void)k;", *tail, "    }"]
        lines += [line for step in sums for line in self._piece_done(step)]
        lines.append("    }")
        lines += [line for step in sums for line in self._row_done(step)]
        return lines

    def _adds_up(self, step: Instruction) -> bool:
        """Whether a step makes one number of the columns of a row."""
        if step.name.startswith("row_"):
            return True
        return step.name.startswith("accumulate_") and not self.nest.accumulators[step.accumulator].columns

    @staticmethod
    def _is_max(step: Instruction) -> bool:
        return step.name.endswith("_max")

    @staticmethod
    def _total(step: Instruction) -> str:
        return f"{step.to}" if step.to is not None else f"a{step.accumulator}"

    def _piece_done(self, step: Instruction) -> Iterator[str]:
        total = self._total(step)
        one = None if step.to is not None else self.nest.accumulators[step.accumulator]
        if self._is_max(step):
            target = self._row_target(one, step.accumulator) if one else f"w{total}"
            yield f"    {target} = larger({target}, (double)v_largest_of(s{total}));"
        elif one and self.nest.block_columns < self.nest.columns:
            yield f"    {self._row_target(one, step.accumulator)} += (double)v_sum_of(s{total});"
        else:
            yield f"    t{total} += (double)v_sum_of(s{total});"

    def _row_done(self, step: Instruction) -> Iterator[str]:
        total = self._total(step)
        if step.to is not None:
            value = f"w{total}" if self._is_max(step) else f"t{total}"
            keep = f" m{total}[r] = x{total};" if self.registers[step.to].kept else ""
            yield f"    const float x{total} = (float){value};{keep}"
        elif not self._is_max(step) and self.nest.block_columns == self.nest.columns:
            one = self.nest.accumulators[step.accumulator]
            yield f"    {self._row_target(one, step.accumulator)} += t{total};"
        else:
            yield f"    (void)t{total};" if not self._is_max(step) else ""

    def _row_target(self, one: Accumulator, number: int) -> str:
        place = " + ".join(["0", *self._offset("r", one.rows or ())])
        return f"d{number}[{place}]"

    def _body(self, order: int, step: Instruction, n: str) -> Iterator[str]:
        """The C of one step; ``n`` is how many numbers of a vector there are."""
        part = n != "WIDTH"
        if step.name == "gather":
            yield from self._gather(step, part=part)
            return
        read = [self._value(order, one, part=part) for one in step.arguments]
        if self._adds_up(step):
            total = self._total(step)
            if not self._is_max(step):
                yield f"      s{total}.part[g] += {f'v_first({read[0]}, n)' if part else read[0]};"
            elif part:
                yield f"      {{ const v_floats y = {read[0]}; for (long i = 0; i < n; i++)"
                yield f"        s{total}.part[0] = v_maximum(s{total}.part[0], v_spread(y[i])); }}"
            else:
                yield f"      s{total}.part[g] = v_maximum(s{total}.part[g], {read[0]});"
        elif step.to is None:
            yield from self._by_column(step, read[0], n)
        else:
            yield f"      const v_floats x{step.to} = v_{step.name}({', '.join(read)});"
            yield from self._kept(step.to, part=part)

    def _kept(self, to: int, *, part: bool) -> Iterator[str]:
        """Store a result that is read later."""
        if self.registers[to].kept:
            address = f"m{to} + r * {self.nest.columns} + k"
        elif to in self.stored:
            address = f"m{to} + k"
        else:
            return
        yield f"      v_store_part({address}, x{to}, n);" if part else f"      v_store({address}, x{to});"

    def _value(self, order: int, number: int, *, part: bool) -> str:
        """The C of an argument: a vector."""
        one = self.registers[number]
        if one.kind is RegisterKind.SCALAR:
            return f"x{number}"
        if one.kind is RegisterKind.ROW:
            return f"v_spread(x{number})"
        if one.kind is RegisterKind.FULL and self.made_in.get(number) == order:
            return f"x{number}"
        if one.kind is RegisterKind.COLUMN:
            address = f"m{number} + k"
        elif one.kept:
            address = f"m{number} + r * {self.nest.columns} + k"
        else:
            address = f"m{number} + k"
        return f"v_load_part({address}, n)" if part else f"v_load({address})"

    def _gather(self, step: Instruction, *, part: bool) -> Iterator[str]:
        assert step.to is not None
        assert step.strides is not None
        to, columns = step.to, step.strides.columns
        if not columns:
            yield f"      const v_floats x{to} = v_spread(*g{to});"
        elif len(columns) == 1 and columns[0][1] == 1:
            yield f"      const v_floats x{to} = " + (f"v_load_part(g{to} + k, n);" if part else f"v_load(g{to} + k);")
        else:
            place = " + ".join(self._offset("(k + i)", columns))
            yield f"      v_floats x{to} = {{0}};"
            yield f"      for (long i = 0; i < {'n' if part else 'WIDTH'}; i++) x{to}[i] = g{to}[{place}];"
        yield from self._kept(to, part=part)

    def _by_column(self, step: Instruction, value: str, n: str) -> Iterator[str]:
        """Add a row to what each column has."""
        one, number = self.nest.accumulators[step.accumulator], step.accumulator
        if self._by_block(one):  # whole vectors: a compiler would take the numbers of one apart
            load, store, end = (
                ("v_load", "v_store", ")") if n == "WIDTH" else ("v_load_part", "v_store_part", f", {n})")
            )
            here = f"p{number} + k"
            yield f"      {store}({here}, fresh ? {value} : {load}({here}{end} + {value}{end};"
            return
        place = " + ".join(["k + i", *self._offset("r", one.rows or ())])
        here = f"d{number}[{place}]"
        add = f"{here} = larger({here}, (double)y[i]);" if one.largest else f"{here} += (double)y[i];"
        yield f"      {{ const v_floats y = {value}; for (long i = 0; i < {n}; i++) {add} }}"

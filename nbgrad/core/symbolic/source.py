"""The source of a program: plain Python that computes the same, to be read, edited and run with a debugger."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.expressions import Expressions, NoText, plain
from nbgrad.core.symbolic.ir import Listing, ProgramStep, RowCall, Value
from nbgrad.core.symbolic.lines import Level, ProgramLine, handed, lines_of
from nbgrad.core.symbolic.naming import Names

_SMALL = 4
"""Constants of at most this many elements are written into the source."""

LEVELS = ("ops", "torch")


class Statement(NamedTuple):
    """A line of Python: the target, the call, and a comment."""

    target: str
    call: str
    comment: str

    def __str__(self) -> str:
        text = f"{self.target} = {self.call}" if self.target else self.call
        return f"{text}  # {one_line(self.comment)}" if self.comment else text


class Source:
    """The Python source of a listing.

    Attributes:
        text: the source.
        lines: the lines of the listing.
        returned: what the function returns, as text.
        arguments: what the function takes beside the inputs, by name: captured tensors, and objects without a text.
    """

    def __init__(self, listing: Listing, level: Level) -> None:
        if level not in LEVELS:
            raise ValueError(f"source(level={level!r}): there are the levels {' and '.join(map(repr, LEVELS))}")
        self._names = Names()
        self._text = Expressions(self._names)
        self._listing = listing
        self._needed = {id(one) for step in listing.steps for one in (*step.inputs(), *step.writes)}
        self._needed |= {id(one) for one in listing.leaving()}
        self.lines = lines_of(listing, level)
        for row in (line.row for line in self.lines if line.row is not None):
            self._needed |= {id(one) for one in leaves((row.args, row.settings))}
        self._function = self._names.fresh(listing.name)
        inputs = [self._text.name(value) for value in listing.inputs]
        captured = self._captured()
        for step in listing.steps:  # first: so each value keeps its own name, also where a line needs a new one
            for value in step.results():
                self._text.name(value)
        self.returned = self._text.literal(listing.outputs)
        body = [*self._body(), *self._gradients(), f"    return {self.returned}"]
        self.arguments: dict[str, Any] = {name: _data(value) for name, value in captured} | self._text.objects
        head = self._head(list(zip(inputs, listing.inputs, strict=True)), captured)
        self.text = "\n".join([*self._preamble(level), *head, *body]) + "\n"

    def _captured(self) -> list[tuple[str, Value]]:
        """The captured tensors that are arguments. A small constant is written where it is used."""
        shared: dict[int, int] = {}
        for value in (*self._listing.inputs, *self._listing.captured):
            shared[value.storage] = shared.get(value.storage, 0) + 1
        written = {value.storage for step in self._listing.steps for value in step.writes}
        found = []
        for value in self._listing.captured:
            fixed = value.owner is None and value.storage not in written and shared[value.storage] == 1
            text = _constant(value) if fixed else None
            if text is None:
                found.append((self._text.name(value), value))
            else:
                self._text.write_inline(value, text)
        return found

    def _preamble(self, level: Level) -> list[str]:
        statements = sorted(self._text.imports - {"aten = torch.ops.aten"}, key=_order)
        text = [
            f'"""{self._function}: a program of nbgrad, at the level of {level}.',
            "",
            "It takes torch tensors: the inputs in order, then by name the tensors that it uses from outside.",
            '"""',
            "",
            *[one for one in statements if "nbgrad" not in one],
            *([""] if any("nbgrad" in one for one in statements) else []),
            *[one for one in statements if "nbgrad" in one],
        ]
        if "aten = torch.ops.aten" in self._text.imports:
            text += ["", "aten = torch.ops.aten"]
        return [*text, "", ""]

    def _head(self, inputs: Sequence[tuple[str, Value]], captured: Sequence[tuple[str, Value]]) -> list[str]:
        settings = [
            f"    {name}={plain(value)},  # {one_line(text)}" for name, (text, value) in self._text.settings.items()
        ]
        objects = [f"    {name},  # {one_line(type(one).__name__)}" for name, one in self._text.objects.items()]
        named = [*(f"    {name},  # {kind(value)}" for name, value in captured), *objects, *settings]
        given = [f"    {name},  # {kind(value)}" for name, value in inputs]
        return [f"def {self._function}(", *given, *(["    *,", *named] if named else []), "):"]

    def _body(self) -> list[str]:
        roots = roots_of(self.lines)
        text: list[str] = []
        phase, place = "", ""
        scope: tuple[str, ...] = ()
        for line in self.lines:
            if line.phase != phase:
                phase, scope = line.phase, ()
                text += [""] * bool(text) + [f"    # {'-' * 20} {phase}"]
            here = str(line.first.place or "")
            if here and here != place:
                text.append(f"    # {one_line(here)}")
                place = here
            if line.scope != scope:
                scope = line.scope
                if scope:
                    text.append(f"    # {titled(scope, roots)}")
            text += [f"    {one}" for one in self.statements(line)]
        return text

    def statements(self, line: ProgramLine) -> list[Statement]:
        """The code of a line: one call of a row, or the steps."""
        if line.row is not None:
            try:
                return [self._row(line, line.row)]
            except NoText:
                pass
        return [self._step(step) for step in line.steps]

    def _row(self, line: ProgramLine, row: RowCall) -> Statement:
        op, results = row.op, handed(row, line.hidden)
        single = not op.many and (len(op.results) == 1 if line.hidden else op.shown == 1)
        given = {id(one) for one in leaves((row.args, row.settings))}
        target = self._target(results[0] if single else tuple(results), given)
        call = self._text.of_row(line.steps[0], row.args) if len(line.steps) == 1 else None
        if call is None:
            args = list(row.args)
            while not line.hidden and args and args[-1] is None and len(args) > len(op.inputs) - op.optional:
                args.pop()
            settings = {key: one for key, one in row.settings.items() if not _same(one, op.defaults.get(key, _Absent))}
            call = self._text.row(op.name, args, settings, line.hidden)
        return Statement(target, call, self._notes(line.results(), line.random))

    def _step(self, step: ProgramStep) -> Statement:
        call = self._text.step(step)
        made = step.results()
        target = self._target(step.result, {id(value) for value in step.inputs()}) if made else ""
        return Statement(target, call, self._notes(made, step.random))

    def _target(self, result: Any, given: set[int]) -> str:
        if isinstance(result, Value):
            return "_" if id(result) in given or id(result) not in self._needed else self._text.name(result)
        if isinstance(result, list | tuple):
            parts = [self._target(one, given) for one in result]
            if set(parts) <= {"_"}:
                return "_"
            return f"{', '.join(f'({one})' if ', ' in one else one for one in parts)}{',' if len(parts) == 1 else ''}"
        return "_"

    def _notes(self, made: list[Value], random: bool) -> str:
        return ", ".join([*(kind(value) for value in made if id(value) in self._needed), *["random"] * random])

    def _gradients(self) -> list[str]:
        names = {id(value.owner): value for value in self._listing.captured if value.owner is not None}
        text = []
        for owner, value in self._listing.gradients:
            if id(owner) in names:
                grad = None if value is None else value
                text.append(f"    {self._text.name(names[id(owner)])}.grad = {self._text.literal(grad)}")
        return ["", *text] if text else []


class _Absent:
    """Stands for a setting that is missing."""


def kind(value: Value) -> str:
    """The shape of a value, and its type if it is not that of most."""
    usual = value.dtype is torch.get_default_dtype()
    return f"{list(value.shape)}" + ("" if usual else f" {str(value.dtype).removeprefix('torch.')}")


def roots_of(lines: Iterable[ProgramLine]) -> set[str]:
    """The outermost modules of lines."""
    return {line.scope[0] for line in lines if line.scope}


def titled(scope: Iterable[str], roots: set[str]) -> str:
    """The labels of modules as a title, without the model where there is only one."""
    labels = list(scope)
    return one_line(" / ".join(labels[1:] if len(roots) == 1 and len(labels) > 1 else labels))


def _data(value: Value) -> torch.Tensor | None:
    return value.data if value.owner is None else value.owner._data


def _constant(value: Value) -> str | None:
    """The expression that makes a small constant tensor; None for another tensor."""
    data = value.data
    if data is None or data.layout is not torch.strided or data.numel() > _SMALL or data.device.type != "cpu":
        return None
    if not data.is_contiguous() or data.is_conj() or data.is_neg() or data.is_quantized:
        return None
    numbers = data.tolist()
    parts = [plain(one) for one in leaves(numbers)]
    if None in parts or any(size == 0 for size in data.shape):
        return None
    return f"torch.tensor({_nested(numbers)}, dtype={data.dtype})"


def _nested(numbers: Any) -> str:
    return f"[{', '.join(map(_nested, numbers))}]" if isinstance(numbers, list) else str(plain(numbers))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and not isinstance(one, Value | torch.Tensor) and bool(one == other)


def one_line(text: str) -> str:
    """A text that stays inside its comment, whatever it holds: a label or a path may be any string.

    Each character that ends a line somewhere, or that no file can hold, becomes a space or is written as an escape.
    """
    line = re.sub(r"\s+", " ", text)
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)


def _order(statement: str) -> tuple[bool, str]:
    return "nbgrad" in statement, statement

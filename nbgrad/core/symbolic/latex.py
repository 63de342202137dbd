r"""The formulas of a program in LaTeX, with its own names: ``\bar{w}_{0} &= \bar{h}^{\top}\,x``."""

import re
from collections.abc import Iterator
from math import isinf, isnan
from typing import Any

from nbgrad.core.dispatch.formula import formula_with, latex_name, substituted
from nbgrad.core.symbolic.expressions import name_of_setting
from nbgrad.core.symbolic.ir import Listing, ProgramStep, RowCall, Value, name_of
from nbgrad.core.symbolic.lines import ProgramLine, handed, lines_of
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.passes.forms import one_name

_SIGNS = {"add": "{} + {}", "sub": "{} - {}", "mul": r"{} \odot {}", "div": r"\frac{{{}}}{{{}}}", "matmul": r"{} \, {}"}
_SIGNS |= {"neg": "-{}"}

_LETTER = re.compile(r"(?P<letter>[a-zA-Z])(?P<number>\d*)(?P<rest>(?:_[^_]+)*)")
_COUNTED = re.compile(r"(?P<word>.+?)_(?P<number>\d+)")
_SHOWN = 4
"""How many members of a list are written."""


class Formulas:
    """The formulas of a listing: one for each line, and for a gradient the rule of the op that it belongs to.

    Attributes:
        text: an ``aligned`` environment.
    """

    def __init__(self, listing: Listing) -> None:
        self._lines = lines_of(listing, "ops", called=False)
        self._gradient_of = {
            id(value.gradient_of): value
            for line in self._lines
            for value in line.results()
            if value.gradient_of is not None
        }
        self._made = {id(value): place for place, line in enumerate(self._lines) for value in line.results()}
        self._readers: dict[int, list[tuple[RowCall, str]]] = {}
        for line in self._lines:
            if line.row is not None and line.phase == "forward":
                for name, value in _inputs(line.row):
                    if isinstance(value, Value):
                        self._readers.setdefault(id(value), []).append((line.row, name))
        early = [step for step in listing.steps if step.phase != "update"]
        known = {value.storage for step in early if step.phase == "forward" for value in step.results()}
        self._changed = {value.storage for step in early for value in step.writes} & (known | listing.external())
        hidden = self._intermediate(listing)
        rows: list[str] = []
        phase = ""
        for place, line in enumerate(self._lines):
            if place in hidden:
                continue
            if line.phase != phase:
                phase = line.phase
                rows.append(rf"&\text{{{phase}}}")
            rows += self._of_line(line)
        self.text = "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _intermediate(self, listing: Listing) -> set[int]:
        """The lines of the backward that stand only inside of the formula of a gradient."""
        backward = {value.storage for line in self._lines if line.phase == "backward" for value in line.results()}
        needed = {id(value): value for value in listing.leaving() if not self._rule(value)}
        hidden = set()
        for place in range(len(self._lines) - 1, -1, -1):
            line = self._lines[place]
            made = line.results()
            written = {value.storage for step in line.steps for value in step.writes}
            inner = line.phase == "backward" and all(value.gradient_of is None for value in made)
            inner = inner and written <= backward - {value.storage for value in needed.values()}
            inner = inner and not (written and any(_adds(one, written) for step in line.steps for one in step.inputs()))
            if inner and not any(id(value) in needed for value in made):
                hidden.add(place)
            elif not any(self._rule(value) for value in made):
                needed |= {id(one): one for step in line.steps for one in step.inputs() if not self._rule(one)}
        return hidden

    def _rule(self, value: Value) -> str | None:
        """The formula of a gradient by the rules of the ops that read the value; None if one of them has none."""
        of = value.gradient_of
        if of is None or of.storage in self._changed or of.gradient is not value:
            return None  # a second gradient of the same value is a sum: other lines have its terms
        terms = []
        for row, name in self._readers.get(id(of), ()):
            if not row.op.differentiable:
                continue
            if any(one.storage in self._changed for one in _named(row)):
                return None  # a name in its formula stands for other numbers by now
            outer = [self._gradient(one) for one in handed(row, False)]
            places = [self._made[id(one)] for one in outer if one is not None]
            if not places or max(places) > self._made[id(value)]:
                return None  # the op adds nothing to this gradient, but its formula would add a term
            base = name.partition("[")[0]
            if name not in row.op.rules and base not in row.op.rules:
                return None
            term = self._formula(row, rule=name if name in row.op.rules else base, gradients=outer)
            result = handed(row, False)[0]
            stretched = result.shape if base in row.op.stretched and isinstance(result, Value) else of.shape
            terms.append(_summed(term, stretched, of.shape))
        if not terms:
            return None
        first, *others = terms
        return " + ".join([first, *(f"({one})" if one.startswith("-") else one for one in others)])

    def _gradient(self, value: Any) -> Value | None:
        """The gradient of a value, if a line makes it."""
        if not isinstance(value, Value):
            return None
        own = value.gradient
        return own if own is not None and id(own) in self._made else self._gradient_of.get(id(value))

    def _formula(self, row: RowCall, rule: str | None = None, gradients: list[Value | None] | None = None) -> str:
        op = row.op
        names: dict[str, str | None] = {}
        for name, value in _inputs(row):
            if value is None or isinstance(value, Value):
                names[name] = None if value is None else latex_of(value)
            elif (number := _number(value)) is not None:
                names[name] = number
        for name, value in (op.defaults | row.settings).items():
            number = latex_of(value) if isinstance(value, Value) else _number(value)
            if number is not None:
                names[name] = number
        shown = op.results[: op.shown] or tuple(f"out[{place}]" for place in range(len(row.results)))
        for name, value in zip(shown, row.results, strict=False):
            if isinstance(value, Value):
                names[name] = latex_of(value)
        for name, value in zip(shown, gradients or (), strict=False):
            if value is not None:
                names[f"g_{name}"] = latex_of(value)
        return formula_with(op, names, rule=rule)

    def _of_line(self, line: ProgramLine) -> list[str]:
        made = line.results()
        ruled = [(value, self._rule(value)) for value in made]
        if made and all(rule is not None for _, rule in ruled):
            return [f"{latex_of(value)} {_equals(str(rule))}" for value, rule in ruled]
        if line.row is None:
            return [self._of_step(line.first)]
        left = ", ".join(map(latex_of, made[: max(line.row.op.shown, 1)] if not line.row.op.many else made[:_SHOWN]))
        return [f"{left} {_equals(self._formula(line.row))}"]

    def _of_step(self, step: ProgramStep) -> str:
        name, args = name_of(step.function), [*step.args, *step.kwargs.values()]
        made = step.results()
        texts = [_argument(one) for one in args]
        sign = _SIGNS.get(one_name(name))
        if sign is not None and sign.count("{}") == len(args) and made:
            right = sign.format(*texts)
        elif name == "transpose" and step.args[1:] in ((0, 1), (-2, -1), (-1, -2), (1, 0)) and made:
            right = f"{{{texts[0]}}}^{{\\top}}"
        else:
            plain = name.strip("_").replace("_", r"\_")
            right = rf"\operatorname{{{plain}}}({', '.join(one for one in texts if one)})"
        left = ", ".join(map(latex_of, made[:_SHOWN] or step.writes[:_SHOWN]))
        if len(made or step.writes) > _SHOWN:
            left += r", \ldots"
        return f"{left} &= {right}" if made else rf"{left} &\leftarrow {right}" if left else f"&{right}"


def _summed(term: str, stretched: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The sum of a gradient over the dimensions in which its input was stretched. The formula of a rule has none."""
    lead = len(stretched) - len(shape)
    dims = [at for at, size in enumerate(stretched) if at < lead or (shape[at - lead] == 1 and size != 1)]
    if not dims:
        return term
    return substituted(rf"\sum_{{\text{{dim {', '.join(map(str, dims))}}}}} x", {"x": term})


def _adds(value: Value, written: set[int]) -> bool:
    """Whether a step adds another gradient, ``value``, to what is ``written``, as the second of two backwards does."""
    return value.gradient_of is not None and value.storage not in written


def _named(row: RowCall) -> Iterator[Value]:
    """The values that the formulas of a row may name, without those that the row itself changes."""
    for name, value in (*_inputs(row), *row.settings.items(), *(("", one) for one in row.results)):
        if isinstance(value, Value) and name not in row.op.mutates:
            yield value


def _inputs(row: RowCall) -> list[tuple[str, Any]]:
    return list(zip(row.op.inputs, row.args, strict=False))


def _equals(right: str) -> str:
    """The right side of a line. A formula that is an equation itself follows a colon."""
    outside = re.sub(r"\\text\s*\{[^}]*\}|_\{[^}]*\}", "", right)
    return rf"&:\; {right}" if "=" in outside else f"&= {right}"


def latex_of(value: Value) -> str:
    r"""The name of a value: ``w_{0, \mathrm{weight}}``, ``\mathrm{linear}_{2}``, and a bar over it for a gradient."""
    name = value.name or f"t_{value.number}"
    of = value.gradient_of
    if of is not None:
        inner = latex_of(of)
        bar = rf"\bar{{{inner}}}" if len(inner) == 1 else rf"\overline{{{inner}}}"
        again = re.fullmatch(r"_(\d+)", name.removeprefix(f"d_{of.name}"))
        return f"{bar}^{{({again[1]})}}" if again else bar
    if found := _LETTER.fullmatch(name):
        index = [found["number"]] * bool(found["number"])
        index += [part if part.isdigit() else latex_name(part) for part in found["rest"].split("_") if part]
        return f"{found['letter']}_{{{', '.join(index)}}}" if index else found["letter"]
    if found := _COUNTED.fullmatch(name):
        word = found["word"].replace("_", r"\_")
        return rf"\mathrm{{{word}}}_{{{found['number']}}}"
    word = name.replace("_", r"\_")
    return rf"\mathrm{{{word}}}"


def _number(given: Any) -> str | None:
    """A number in LaTeX; None if ``given`` is no number."""
    if isinstance(given, Number):
        text = given.text
        for setting in sorted(given.settings, key=len, reverse=True):
            text = text.replace(setting, latex_name(name_of_setting(setting)))
        return text.replace(" ** ", "^").replace("*", r"\cdot")
    if type(given) is float and isinf(given):
        return r"\infty" if given > 0 else r"-\infty"
    return repr(given) if type(given) in (int, float) and not isnan(given) else None


def _argument(given: Any) -> str:
    """An argument of a call of torch; empty if it has no text."""
    if isinstance(given, Value):
        return latex_of(given)
    if isinstance(given, list | tuple):
        parts = [text for one in list(given)[: _SHOWN + 1] if (text := _argument(one))]
        shown = parts[:_SHOWN] + [r"\ldots"] * (len(parts) > _SHOWN)
        return f"[{', '.join(shown)}]"
    return _number(given) or ""

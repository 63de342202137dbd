"""``verdict_of``: the first value or gradient of somebody else's engine that differs from nbgrad's, and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from nbgrad.core.engine.state import Switch
from nbgrad.core.translation import translate, translate_count
from nbgrad.drawing.calls import Numbers
from nbgrad.drawing.causes import gradient_cause
from nbgrad.drawing.engine_run import NO_NAMES, EngineRun
from nbgrad.drawing.part import Part
from nbgrad.drawing.value_causes import value_cause


@dataclass(frozen=True)
class EngineDifference:
    """A number of an engine that differs from nbgrad's.

    Attributes:
        part: the part whose number it is.
        position: its position among the parts, parents first.
        box: words for it, such as "`w`" or "`*`, part 5 of 9".
        kind: "value", for the same inputs; or "gradient", for the same gradients of the parts that use it.
        got: the engine's number, float64.
        want: nbgrad's number, float64.
        cause: what is probably missing in the engine; None if no usual fault gives this number, or several do.
        at: of an array, the index of the first element that differs.
    """

    part: Part
    position: int
    box: str
    kind: Literal["value", "gradient"]
    got: torch.Tensor
    want: torch.Tensor
    cause: str | None
    at: tuple[int, ...] = ()

    def __str__(self) -> str:
        for_what = (
            translate("for the same inputs") if self.kind == "value" else translate("for the same gradients after it")
        )
        got, want = _told(self.got, self.want, self.at)
        head = translate(
            "The {kind} of {box} is {got}; nbgrad has {want}, {for_what}.",
            kind=translate(self.kind),
            box=self.box,
            got=got,
            want=want,
            for_what=for_what,
        )
        return f"{head} {self.cause}" if self.cause else head


@dataclass(frozen=True)
class EngineVerdict:
    """The answer of nbgrad about the numbers of an engine.

    Attributes:
        ok: whether no number differs. What could not be checked is in ``unchecked``.
        first: the first number that differs, in the order in which an engine works: values from the leaves to the
            result, and then gradients from the result to the leaves. None if none differs.
        others: how many other numbers differ that are computed from right ones: further faults, or the same again.
        consequences: how many more numbers are wrong only because they are computed from wrong ones.
        checked_values, checked_gradients: how many numbers were compared.
        unknown: the names of the ops that were taken as they are.
        has_gradients: whether there were gradients to compare: a backward has run.
        unchecked: what could not be compared, in sentences; empty if everything was.
    """

    ok: bool
    first: EngineDifference | None
    others: int
    consequences: int
    checked_values: int
    checked_gradients: int
    unknown: tuple[str, ...]
    has_gradients: bool
    unchecked: tuple[str, ...]

    @property
    def text(self) -> str:
        """The verdict in a few plain sentences."""
        return " ".join([self.head, *self.unchecked])

    @property
    def compared(self) -> str:
        """How many numbers were compared."""
        return translate(
            "{count} and {count2}",
            count=translate_count(self.checked_values, "{count} value", "{count} values"),
            count2=translate_count(self.checked_gradients, "{count} gradient", "{count} gradients"),
        )

    @property
    def head(self) -> str:
        """The same without what could not be compared."""
        if self.first is None:
            if not self.checked_values and not self.checked_gradients:
                return translate("No number was compared.")
            return translate("All compared numbers are right: {compared}.", compared=self.compared)
        more = []
        if self.others:
            more.append(
                translate_count(
                    self.others, "{count} other number differs as well.", "{count} other numbers differ as well."
                )
            )
        if self.consequences:
            more.append(
                translate_count(
                    self.consequences,
                    "{count} more number is wrong because of that.",
                    "{count} more numbers are wrong because of that.",
                )
            )
        return " ".join([str(self.first), *more])

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text


def verdict_of(parts: Sequence[Part], names: Mapping[int, str] = NO_NAMES) -> EngineVerdict:
    """Compare the numbers of an engine with those that nbgrad's own ops and rules give.

    Args:
        parts: the objects of the engine, parents first, as ``read`` returns them.
        names: the user's names of objects, by their ``id``. The engine's own names are better.
    """
    with Switch(
        observers=(), grad_enabled=True, inference=False, tracer=None, walking=None, scope=None, computed=None,
        device=None,
    ):  # fmt: skip
        return _verdict(EngineRun(parts, names))


def _verdict(run: EngineRun) -> EngineVerdict:
    first, others = _first(run)
    unknown = tuple(dict.fromkeys([str(run.parts[at].op) for at in run.unchecked]))
    values, gradients = _checked(run)
    return EngineVerdict(
        ok=first is None,
        first=first,
        others=others,
        consequences=0 if first is None else _consequences(run, first),
        checked_values=values,
        checked_gradients=gradients,
        unknown=unknown,
        has_gradients=run.has_gradients,
        unchecked=_unchecked(run),
    )


def _first(run: EngineRun) -> tuple[EngineDifference | None, int]:
    """The first difference, and the number of others that are no consequences."""
    gradients = run.wrong_gradients if run.has_gradients else {}
    if run.wrong_values:
        at, want = next(iter(run.wrong_values.items()))
        got = run.values[at]
        assert got is not None
        return _difference(run, at, "value", got, want, value_cause(run, at)), len(run.wrong_values) - 1
    if gradients:
        at, want = next(iter(gradients.items()))
        got = run.stored(at)
        assert got is not None
        return _difference(run, at, "gradient", got, want, gradient_cause(run, at)), len(gradients) - 1
    return None, 0


def _difference(
    run: EngineRun, at: int, kind: Literal["value", "gradient"], got: Numbers, want: Numbers, cause: str | None
) -> EngineDifference:
    return EngineDifference(run.parts[at], at, box_words(run, at), kind, got, want, cause, _place(run, got, want))


def _place(run: EngineRun, got: Numbers, want: Numbers) -> tuple[int, ...]:
    """The index of the first element that differs."""
    if got.shape != want.shape or not got.ndim:
        return ()
    for index in torch.cartesian_prod(*[torch.arange(size) for size in got.shape]).reshape(-1, got.ndim).tolist():
        if not run.close(got[tuple(index)], want[tuple(index)], [want]):
            return tuple(index)
    return ()


def _told(got: Numbers, want: Numbers, at: tuple[int, ...]) -> tuple[str, str]:
    """Both numbers in words: of arrays the first element that differs, or the shapes."""
    single = got.numel() == want.numel() == 1
    if not single and got.shape != want.shape:
        theirs = translate("of shape {shape}", shape=tuple(got.shape))
        return theirs, translate("shape {shape}", shape=tuple(want.shape))
    yours, right = _digits(float(got if single else got[at]), float(want if single else want[at]))
    return (yours if single else translate("{number} at {at}", number=yours, at=list(at))), right


def _digits(got: float, want: float) -> tuple[str, str]:
    """Both numbers with six digits, or with as many more as show that they differ."""
    for digits in range(6, 17):
        if f"{got:.{digits}g}" != f"{want:.{digits}g}":
            break
    return f"{got:.{digits}g}", f"{want:.{digits}g}"


def box_words(run: EngineRun, at: int) -> str:
    """Words for a part: its name, or its op and its position."""
    part = run.parts[at]
    place = translate("part {at} of {count}", at=at + 1, count=len(run.parts))
    name = part.name or run.names.get(id(part.source))
    if name:
        return f"`{name}`" if part.op is None else f"`{name}` (`{part.op}`)"
    return f"`{part.op}`, {place}," if part.op is not None else translate("the leaf that is {place}", place=place)


def _checked(run: EngineRun) -> tuple[int, int]:
    """How many values and gradients were compared."""
    values = sum(bool(calls) for calls in run.calls)
    if not run.has_gradients:
        return values, 0
    pairs = [(run.right[at], run.stored(at)) for at in range(len(run.parts)) if at not in run.roots_set]
    return values, sum(want is not None and got is not None for want, got in pairs)


def _unchecked(run: EngineRun) -> tuple[str, ...]:
    """Sentences on what was not compared."""
    said = []
    reasons = Counter((run.parts[at].op, why) for at, why in run.unchecked.items())
    for (op, why), count in reasons.items():
        times = "" if count == 1 else translate(" ({count} times)", count=count)
        said.append(
            translate("`{op}`{times} is taken as it is, with its gradients: {why}.", op=op, times=times, why=why)
        )
    notes = Counter((run.parts[at].op, note) for at, note in run.all_notes().items())
    for (op, note), count in notes.items():
        times = "" if count == 1 else translate(" ({count} times)", count=count)
        said.append(translate("Of `{op}`{times}, {note}.", op=op, times=times, note=note))
    if not run.has_gradients:
        said.append(translate("There are no gradients yet, so only values were compared: run the backward first."))
        return tuple(said)
    if run.hides:
        said.append(translate("The engine keeps the gradients of leaves only, so the others were not compared."))
    if run.unreached:
        named = ", ".join(box_words(run, at).rstrip(",") for at in run.unreached[:3])
        more = translate(" and {count} more", count=len(run.unreached) - 3) if len(run.unreached) > 3 else ""
        said.append(
            translate(
                "There is no gradient at {named}{more}: right for a constant, and wrong for what is learned.",
                named=named,
                more=more,
            )
        )
    said += _seed_notes(run)
    return tuple(said)


def _seed_notes(run: EngineRun) -> list[str]:
    for at in run.roots:
        given, value = run.stored(at), run.values[at]
        if given is not None and value is not None and value.numel() > 1 and not bool((given == 1).all()):
            return [translate("The gradient of the result is taken as it is: it is an array, so any may be meant.")]
    return []


def _consequences(run: EngineRun, first: EngineDifference) -> int:
    """How many numbers differ from those that nbgrad computes from the leaves alone, and are no faults themselves."""
    values, gradients = run.truth()
    if first.kind == "value":
        return sum(
            at not in run.wrong_values and want is not None and (got := run.values[at]) is not None
            and not run.close(got, want)
            for at, want in enumerate(values) if run.calls[at]
        )  # fmt: skip
    return sum(
        at not in run.wrong_gradients and want is not None and (got := run.stored(at)) is not None
        and not run.close(got, want)
        for at, want in enumerate(gradients)
    )  # fmt: skip

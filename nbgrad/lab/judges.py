"""Judges of answers: of numbers, of named values, of a function, of a graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.tensor.comparison import ATOL, RTOL, Deviation, NoNumbers, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.running import Refused, attempt, by_hand


@dataclass(frozen=True)
class NumbersJudge:
    """Judges numbers in any form.

    Attributes:
        right: computes the right numbers; it is called when an answer is checked.
        rtol: the allowed difference between an answer and the right numbers, relative to the right numbers.
    """

    right: Callable[[], Any]
    rtol: float = RTOL

    def __call__(self, answer: Any) -> Deviation | None:
        return difference(answer, self.right(), rtol=self.rtol)


@dataclass(frozen=True)
class ValuesJudge:
    """Judges several values with names: a dict, or a graph's gradients.

    A list is refused, even if its numbers are right: later cells of the notebook read the values by their names.

    Attributes:
        right: computes the right values, by name; it is called when an answer is checked.
        what: the word for one of the values in messages, as "gradient".
        rtol: the allowed relative difference of each; 0 for values that are counted.
    """

    right: Callable[[], Mapping[str, Any]]
    what: str = "value"
    rtol: float = RTOL

    def __call__(self, answer: Any) -> Deviation | None:
        right = self.right()
        names = list(right)
        given = named(answer, names, self.what)
        if isinstance(given, Deviation):
            return given
        wrong = {name: found for name in names if (found := self._of(given[name], right[name]))}
        if not wrong:
            return None
        whole = self._whole(given, right) if len(wrong) > 1 else None
        if whole is not None and (whole.kind == "order" or len(wrong) == len(names)):
            return whole
        name, found = next(iter(wrong.items()))
        more = (
            "" if len(wrong) == 1 else translate(" ({count} of {total} are wrong)", count=len(wrong), total=len(names))
        )
        return Deviation(
            found.kind,
            "the {what} of {name}: {found}{more}",
            what=translate(self.what),
            name=name,
            found=found,
            more=translate(more),
        )

    def _of(self, given: Any, right: Any) -> Deviation | None:
        found = difference(given, right, rtol=self.rtol)
        if found is not None and found.kind == "rounding" and not self.rtol:
            return Deviation("numbers", "it is close, and it has to be exact")
        return found

    def _whole(self, given: Mapping[str, Any], right: Mapping[str, Any]) -> Deviation | None:
        """The fault that all values share: the sign, a factor, their order. None if they share none."""
        values = [number_of(given[name]) for name in right]
        if None in values:
            return None
        found = difference(values, [number_of(one) for one in right.values()], rtol=self.rtol)
        return found if found is not None and found.kind in ("sign", "factor", "order", "zero", "offset") else None


def named(answer: Any, names: Sequence[str], what: str) -> "dict[str, Any] | Deviation":
    """The values of an answer, by name; or a ``Deviation`` if the answer does not have the expected form."""
    listed = ", ".join(names)
    if isinstance(answer, AutogradGraph) and what == "gradient":
        found = {record.name: record.gradient for record in answer.records if record.gradient is not None}
        lacking = [name for name in names if name not in found]
        if lacking:
            return Deviation(
                "type", "the graph has no gradient of {names}: it needs a backward from L", names=", ".join(lacking)
            )
        return {name: found[name].values for name in names}
    if isinstance(answer, Mapping):
        return _lacking(answer, names) or {name: answer[name] for name in names}
    return Deviation(
        "type", "a dict with the names {listed} is expected: the cells below read it by these names", listed=listed
    )


def in_order(answer: Any, names: Sequence[str], expected: str) -> "list[Any] | Deviation":
    """The values of a dict in the order of ``names``, or a list as it is; else a ``Deviation`` that says why not."""
    if isinstance(answer, Mapping):
        return _lacking(answer, names) or [answer[name] for name in names]
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return list(answer)
    return Deviation("type", expected)


def _lacking(answer: Mapping[str, Any], names: Sequence[str]) -> Deviation | None:
    missing = [name for name in names if name not in answer]
    return (
        Deviation(
            "type",
            "the answer lacks {missing}: the names are {names}",
            missing=", ".join(missing),
            names=", ".join(names),
        )
        if missing
        else None
    )


@dataclass(frozen=True)
class Case:
    """One call of a function that is judged.

    Attributes:
        arguments: what it is called with.
        right: what it has to give.
        said: how a message names the call.
    """

    arguments: tuple[Any, ...]
    right: Any
    said: str


@dataclass(frozen=True)
class FunctionJudge:
    """Judges a function by what it gives for some arguments.

    Attributes:
        cases: makes the calls to judge; it is called when an answer is checked.
        form: how the function is written, as "unbroadcast(gradient, shape)".
        explain: says more of a wrong result, where it can: it gets the function's result and the case.
        call: calls the function: ``attempt``, or ``by_hand`` where the task forbids a backward.
        keeps: whether the function may not change its arguments, as a rule of an engine may not.
    """

    cases: Callable[[], Sequence[Case]]
    form: str
    explain: Callable[[Any, Case], Deviation | None] = lambda _, __: None
    rtol: float = RTOL
    call: Callable[..., Any] = attempt
    keeps: bool = False

    def __call__(self, answer: Any) -> Deviation | None:
        needs_function(answer, self.form)
        for case in self.cases():
            arguments = [fresh(one) for one in case.arguments]
            got = self.call(case.said, answer, *arguments)
            if got is None:
                return Deviation(
                    "type", "{said} gives None: the function has to end with return", said=translate(case.said)
                )
            if self.keeps and (changed := _of_arguments(case.said, arguments, case.arguments)) is not None:
                return changed
            if (found := self.of(case, got)) is not None:
                return found
        return None

    def of(self, case: Case, got: Any) -> Deviation | None:
        """How the result of one call is wrong; None if it is right."""
        found = difference(got, case.right, rtol=self.rtol, atol=ATOL)
        if found is None:
            return None
        if found.kind != "type" and not self._only_the_shape(found, got, case):
            found = self.explain(got, case) or computed(found)
        value = number_of(got) if found.kind not in ("type", "dtype", "shape") else None
        gave = (
            ""
            if value is None
            else translate(" gives {value:.4g}", value=value)
            if truth_of(got) is None
            else translate(" gives {truth}", truth=bool(value))
        )
        return Deviation(found.kind, "{said}{gave}: {found}", said=translate(case.said), gave=gave, found=found)

    def _only_the_shape(self, found: Deviation, got: Any, case: Case) -> bool:
        """Whether the numbers are right, and nothing but their shape is wrong: then there is no more to say of them."""
        if found.kind != "shape":
            return False
        given, right = numbers_of(got), numbers_of(case.right)
        return given.numel() == right.numel() and difference(given.reshape(right.shape), right, rtol=self.rtol) is None


def _of_arguments(said: str, arguments: Sequence[Any], before: Sequence[Any]) -> Deviation | None:
    """The deviation of a call that has changed its arguments. It is told first: the result may be wrong by it."""
    if not any(difference(one, other, rtol=0, atol=0) for one, other in zip(arguments, before, strict=True)):
        return None
    return Deviation("changed", "{said} changes the numbers of its arguments: compute new ones", said=translate(said))


def needs_function(answer: Any, form: str) -> None:
    """Refuse an answer that is no function.

    Args:
        answer: of the student.
        form: how the function is written, as "cut(t)".

    Raises:
        Refused: it cannot be called.
    """
    if not callable(answer):
        text = translate("a function is expected, {form}: give it without parentheses behind its name", form=form)
        raise Refused(Deviation("type", text))


def fresh(argument: Any) -> Any:
    """A copy of an argument for the student's function, which may change it in place."""
    if isinstance(argument, Tensor):
        return tensor(argument.data.clone(), requires_grad=argument.requires_grad)
    return list(map(fresh, argument)) if isinstance(argument, list) else argument


def computed(found: Deviation) -> Deviation:
    """The explanation of numbers that a function has computed: such numbers have all digits."""
    if found.kind != "rounding":
        return found
    text = "it is nearly right, but off by up to 2 %: is there a small number that is left out, or in another place?"
    return Deviation("rounding", text)


@dataclass(frozen=True)
class GradientsJudge:
    """Judges a function that gives several gradients by their names, in a dict.

    Attributes:
        case: makes the arguments, and the right gradients in the order in which they are judged; it is called when an
            answer is checked.
        form: how the function is written, as "by_hand(g, x, weight)".
        explain: says more about a wrong gradient, if it can. Its arguments are the name of this gradient, all gradients
            that the function returned, all right gradients, and the arguments of the function.
    """

    case: Callable[[], tuple[tuple[Tensor, ...], dict[str, Any]]]
    form: str
    explain: Callable[[str, Mapping[str, Any], Mapping[str, Any], tuple[Tensor, ...]], Deviation | None]

    def __call__(self, answer: Any) -> Deviation | None:
        needs_function(answer, self.form)
        arguments, right = self.case()
        own = [fresh(one) for one in arguments]
        given = by_hand(self.form, answer, *own)
        if not isinstance(given, Mapping):
            return Deviation(
                "type", "{form} has to give a dict with the names {names}", form=self.form, names=", ".join(right)
            )
        if given and all(one is ... for one in given.values()):
            return Deviation("unanswered", "write the gradients where the ... are")
        if (changed := _of_arguments(self.form, own, arguments)) is not None:
            return changed
        for name in right:
            if name not in given or given[name] is ...:
                return Deviation("type", "the gradient of {name} is missing", name=name)
            if (found := difference(given[name], right[name])) is not None:
                told = None if found.kind == "type" else self.explain(name, given, right, arguments)
                told = told or computed(found)
                return Deviation(told.kind, "the gradient of {name}: {told}", name=name, told=told)
        return None


def is_near(got: Any, other: Any) -> bool:
    """Whether an answer holds these numbers, in the same shape."""
    return difference(got, other) is None


def slip(got: Any, slips: Iterable[tuple[Any, str, str]]) -> Deviation | None:
    """The explanation of an answer that is one of the usual wrong ones; None for any other.

    Args:
        got: the answer.
        slips: the numbers of each wrong answer, the kind of the fault, and the sentence.
    """
    return next((Deviation(kind, text) for wrong, kind, text in slips if is_near(got, wrong)), None)


def slope_of(value: Tensor, x: Tensor) -> Tensor:
    """The gradient of ``value`` with respect to ``x``, with a history, so that it can be differentiated again.

    Raises:
        ValueError: ``value`` does not depend on ``x``.
    """
    (found,) = grad(value, [x], create_graph=True, allow_unused=True)
    if found is None:
        raise ValueError("the value does not depend on x")
    return found


def number_of(got: Any) -> float | None:
    """The number that an answer is; None where it is no single real number."""
    try:
        found = numbers_of(got)
    except NoNumbers:
        return None
    return float(found) if found.numel() == 1 and not found.is_complex() else None


def truth_of(got: Any) -> bool | None:
    """The True or False that an answer is, one of Python's, NumPy's, torch's or nbgrad's; None where it is neither."""
    try:
        found = numbers_of(got)
    except NoNumbers:
        return None
    return bool(found) if found.numel() == 1 and found.dtype is torch.bool else None

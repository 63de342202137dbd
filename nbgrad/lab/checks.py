"""``check``, ``hint`` and the rest of what a student and a grade cell call."""

from collections.abc import Mapping
from dataclasses import dataclass
from dis import get_instructions
from types import CodeType, FunctionType
from typing import Any

from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, every, find
from nbgrad.lab.running import Endless, Refused, patience, raised, undisturbed, unjudged
from nbgrad.lab.sentences import Sentences, box, on_projector

_given: dict[str, int] = {}
"""How many hints were given, by the number of the exercise."""


class WrongAnswer(AssertionError):
    """An answer that ``require`` refused; the message says how it is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of checking an answer. It is true if the answer is right.

    Attributes:
        number: of the exercise.
        right: whether the answer is right.
        kind: how it is wrong, in a word: "shape", "sign", "factor", ...; "unanswered" where the ``...`` of the exercise
            is still there; empty where it is right.
        reason: the same in a sentence, without the right answer.
    """

    number: str
    right: bool
    kind: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        if self.right:
            return translate("{number} ✓ right", number=self.number)
        if self.kind == "unanswered":
            return translate(
                "{number} … not answered yet: {sentence}", number=self.number, sentence=_sentence(self.reason)
            )
        more = (
            "" if _given.get(self.number, 0) >= len(find(self.number).hints) else f' nbgrad.lab.hint("{self.number}")'
        )
        return translate(
            "{number} ✗ not yet: {sentence}{hint}",
            number=self.number,
            sentence=_sentence(self.reason),
            hint=translate(" A hint:{more}", more=more) if more else "",
        )

    def _repr_html_(self) -> str | None:
        """A box with large letters on a projector. Elsewhere the text is shown, as in the saved lessons."""
        kind = "right" if self.right else "" if self.kind == "unanswered" else "wrong"
        return box(repr(self), kind) if on_projector() else None


def _sentence(reason: str) -> str:
    """The reason, with a period added if no punctuation mark is at its end."""
    return reason if reason.endswith((".", "?", "!")) else f"{reason}."


def check(number: str | float, answer: Any) -> Outcome:
    """Say whether ``answer`` is right, or how it is wrong.

    Args:
        number: of the exercise, as "4.2".
        answer: in any form that the task allows: a tensor of nbgrad's or torch's, an array, a list, a number, a
            function, a graph.

    Returns:
        An ``Outcome``, which is true if the answer is right. A notebook displays it if the call is the last line of a
        cell.

    Raises:
        KeyError: there is no such exercise.
    """
    exercise = find(number)
    wrong = _judged(exercise, answer)
    if wrong is None:
        return Outcome(exercise.number, right=True)
    return Outcome(exercise.number, right=False, kind=wrong.kind, reason=str(wrong))


def _judged(exercise: Exercise, answer: Any) -> Deviation | None:
    """How an answer is wrong, whatever it is and does; None where it is right."""
    try:
        with undisturbed(), patience():
            reason = unanswered(answer)
            return Deviation("unanswered", reason) if reason else exercise.judge(answer)
    except Refused as error:
        return error.deviation
    except Endless as error:
        return raised(translate("the answer"), error)
    except (Exception, SystemExit, GeneratorExit) as error:
        return unjudged(error)


def unanswered(answer: Any) -> str:
    """A sentence that says which ``...`` of an exercise must still be replaced. It is empty if none must be.

    Args:
        answer: any answer. These are not answered yet: ``...`` itself, a list, tuple or dict that contains ``...``, a
            function that does nothing, and a class with such a function.
    """
    parts = answer.values() if isinstance(answer, Mapping) else answer if isinstance(answer, list | tuple) else ()
    if answer is ... or any(part is ... for part in parts):
        left = [str(name) for name, part in answer.items() if part is ...] if isinstance(answer, Mapping) else []
        which = translate(" for {names}", names=", ".join(left)) if 0 < len(left) < len(parts) else ""
        return translate("write your answer{which} in the place of the ...", which=which)
    if isinstance(answer, type):
        empty = [name for name, one in vars(answer).items() if _is_empty(getattr(one, "__func__", one))]
        return (
            translate("{name}.{empty} is empty: write it in the place of the ...", name=answer.__name__, empty=empty[0])
            if empty
            else ""
        )
    if any(_is_empty(part) for part in (answer, *parts)):
        name = next(part.__name__ for part in (answer, *parts) if _is_empty(part))
        return translate("the function {name} is empty: write it in the place of the ...", name=name)
    return ""


def _is_empty(one: Any) -> bool:
    """Whether this is a function that does nothing: its body is ``...``, ``pass`` or a docstring."""
    if not isinstance(one, FunctionType):
        return False
    code = one.__code__
    return not code.co_names and {step.opname for step in get_instructions(code)} <= _NOTHING and _gives_none(code)


_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}


def _gives_none(code: CodeType) -> bool:
    return all(step.argval is None for step in get_instructions(code) if step.opname in ("LOAD_CONST", "RETURN_CONST"))


def require(number: str | float, answer: Any) -> None:
    """Raise if ``answer`` is wrong: for the cell that grades a hand-in.

    Raises:
        WrongAnswer: the answer is wrong; the message says how, without the right numbers.
        KeyError: there is no such exercise.
    """
    outcome = check(number, answer)
    if not outcome:
        raise WrongAnswer(f"{outcome.number}: {outcome.reason}")


def task(number: str | float) -> str:
    """The text of an exercise: its number, its title and its task.

    Raises:
        KeyError: there is no such exercise.
    """
    exercise = find(number)
    return Sentences(f"{exercise.number} {translate(exercise.title)}: {exercise.text}")


def hint(number: str | float, step: int | None = None) -> str:
    """The next hint to an exercise: each call goes a step further, and none says the answer.

    Args:
        number: of the exercise, as "4.2".
        step: show the hint with this number, from 1, instead of the next one.

    Raises:
        KeyError: there is no such exercise.
        ValueError: ``step`` is not between 1 and the number of hints.
    """
    exercise = find(number)
    hints = exercise.hints
    if not hints:
        return translate("{number} has no hints", number=exercise.number)
    if step is None:
        step = _given.get(exercise.number, 0) + 1
        if step > len(hints):
            return translate(
                "{number} has no further hint. Ask for an earlier one: hint({number!r}, 1)", number=exercise.number
            )
    elif not 1 <= step <= len(hints):
        raise ValueError(f"step={step}: {exercise.number} has the hints 1 to {len(hints)}")
    _given[exercise.number] = max(step, _given.get(exercise.number, 0))
    return Sentences(
        translate(
            "Hint {step} of {count} to {number}: {hint}",
            step=step,
            count=len(hints),
            number=exercise.number,
            hint=translate(hints[step - 1]),
        )
    )


def exercises() -> dict[str, str]:
    """The exercises that there are: their titles, by number."""
    return {number: translate(one.title) for number, one in every().items()}

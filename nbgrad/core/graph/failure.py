"""The facts of an error that ended a recorded block. A picture needs them when the error itself is gone."""

from traceback import walk_tb
from typing import NamedTuple, Self

from nbgrad.core.engine.explanation import Explanation, explain, explanation_of
from nbgrad.core.engine.place import Place, in_cell
from nbgrad.core.engine.tensor_data import words_of
from nbgrad.core.graph.advice import advise
from nbgrad.core.graph.record import Failure
from nbgrad.core.graph.shape_advice import shape_advice
from nbgrad.core.graph.torch_advice import raised_in, torch_advice
from nbgrad.core.translation import translate


class Ending(NamedTuple):
    """The facts of an error. It does not hold the error, whose traceback would keep every variable alive.

    Attributes:
        kind, message: of the error.
        interrupted: whether the user stopped it.
        place: the user's line that raised it; None where the traceback has none.
        failure: where it was raised, if an op or a backward of the graph did.
        advice: the remedy, if the mistake is a common one in the user's own code.
        explanation: why a backward failed, if that is known.
        cell: whether a notebook cell was recorded, and not a program.
    """

    kind: str
    message: str
    interrupted: bool
    place: Place | None
    failure: Failure | None
    advice: str | None = None
    explanation: Explanation | None = None
    cell: bool = True

    @property
    def recorded(self) -> str:
        """The code that it ended, as the subject of a sentence."""
        return translate("The cell") if self.cell else translate("The program")

    @classmethod
    def of(cls, error: BaseException, failure: Failure | None, cell: bool) -> Self:
        """The message of ``error``; a graph that opened before a ``cell`` ran finds it in the traceback."""
        interrupted, (_, place) = isinstance(error, KeyboardInterrupt), raised_in(error) or (None, None)
        cell = cell or any(in_cell(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__))
        told = None if failure is not None else advise(error)
        if (
            explanation_of(error) is None
            and (advised := shape_advice(error, failure) or torch_advice(error)) is not None
        ):
            explain(error, advised)
        why = explanation_of(error)
        return cls(type(error).__name__, words_of(error), interrupted, place, failure, told, why, cell)

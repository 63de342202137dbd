"""Exercises of the course: check an answer, ask for a hint, copy the lessons.

Each lesson has a module with its exercises, as ``lesson_04``; ``exercise`` finds them, ``judges`` looks at answers,
``engine`` keeps the student's own engine ready, and ``course`` copies the notebooks into a folder. Nothing below this
package imports it.

The right answers are worked out when an answer is checked, by the same engine that the course is about; no list of them
is in the package. So a student does not see them by accident, but can compute them.
"""

from nbgrad.lab.checks import (
    Outcome as Outcome,
    WrongAnswer as WrongAnswer,
    check as check,
    exercises as exercises,
    hint as hint,
    require as require,
    task as task,
)
from nbgrad.lab.engine import CaughtUp as CaughtUp, catch_up as catch_up
from nbgrad.lab.exercise import Exercise as Exercise, OwnNumbers as OwnNumbers, add as add, student as student
from nbgrad.lab.judges import NumbersJudge as NumbersJudge, ValuesJudge as ValuesJudge

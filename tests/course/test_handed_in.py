"""Twenty wrong and ten right answers to each exercise, half of them by somebody who had not seen its check."""

import pytest

from nbgrad import lab
from nbgrad.lab.exercise import of_lesson
from tests.course.handed_in import Written, written
from tests.course.test_lab import RIGHT, WRONG

ANSWERS = [one for lesson in range(1, 17) for one in written(lesson)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("answer", ANSWERS, ids=[one.place for one in ANSWERS])
def test_an_answer_gets_its_verdict(answer: Written) -> None:
    outcome = lab.check(answer.number, answer.value())
    assert outcome.right is answer.right, outcome
    assert answer.says in outcome.reason
    assert "Either:" not in outcome.reason, "a cause is named only if it is the one"


def test_each_exercise_has_enough_answers() -> None:
    for number in [one for lesson in range(1, 17) for one in of_lesson(lesson)]:
        own = [one.right for one in ANSWERS if one.number == number]
        assert own.count(True) + len(RIGHT[number]) >= 10, number
        assert own.count(False) + len(WRONG[number]) >= 20, number

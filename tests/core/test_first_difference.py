"""The first op that differs: pairs of programs with one planted difference, and pairs that are equal in meaning."""

import pytest

from tests.core import planted, planted_unseen


@pytest.mark.parametrize("name", planted.PAIRS)
def test_the_planted_difference_is_the_first(name: str) -> None:
    planted.check(planted.PAIRS[name])


@pytest.mark.parametrize("name", planted_unseen.PAIRS)
def test_the_planted_difference_of_an_unseen_pair_is_the_first(name: str) -> None:
    planted.check(planted_unseen.PAIRS[name])

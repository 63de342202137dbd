"""The first op that differs: pairs of programs with one planted difference, and pairs that are equal in meaning."""

import pytest

from tests.core.planted import PAIRS, check


@pytest.mark.parametrize("name", PAIRS)
def test_the_planted_difference_is_the_first(name: str) -> None:
    check(PAIRS[name])

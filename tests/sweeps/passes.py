"""Passes: a random program after ``optimize()`` computes what it computed before."""

from random import Random

from tests.core.symbolic.random_programs import check_passes

CASES = 10


def check(random: Random) -> None:
    """Optimize a random program, and compare it with the program without passes."""
    check_passes(random)

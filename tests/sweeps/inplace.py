"""Programs of views, changes in place and new tensors: values, gradients and errors are torch's."""

from random import Random

from tests.core import rows
from tests.core.programs import OURS, TORCH, plain
from tests.core.random_programs import outcome

CASES = 100


def check(random: Random) -> None:
    """Run one program on both, and compare what its tensors and the gradients of its leaves are."""
    seed, steps, twice = random.randrange(10**9), random.randint(4, 30), random.random() < 0.5
    ours, theirs = outcome(OURS, seed, steps, twice=twice), outcome(TORCH, seed, steps, twice=twice)
    text = "\n".join(theirs[0])
    assert ours[:2] == theirs[:2], text
    for mine, yours in zip(ours[2], theirs[2], strict=True):
        assert (mine is None) == (yours is None), text
        if yours is not None:
            rows.close(plain(mine), plain(yours), text)

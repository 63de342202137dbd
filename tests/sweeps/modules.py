"""Trees of modules, and what programs do with them: values, gradients, keys, calls of hooks and errors are torch's."""

from random import Random

from tests.nn.random_modules import OURS, THEIRS, Run, difference

CASES = 60


def check(random: Random) -> None:
    """Do the same things to a random tree of each."""
    seed, steps = random.randrange(10**9), random.randint(3, 14)
    ours, theirs = Run(OURS, seed).run(steps), Run(THEIRS, seed).run(steps)
    for number, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        steps_so_far = ", ".join(step for step, *_ in theirs[: number + 1])
        found = difference(mine, yours)
        assert not found, f"after {steps_so_far}: {found}"

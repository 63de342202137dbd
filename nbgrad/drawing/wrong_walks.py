"""``walk_causes``: backwards with right rules in a wrong order, which may give the gradients of an engine."""

from collections.abc import Callable, Iterator

from nbgrad.core.translation import message, translate
from nbgrad.drawing.calls import Numbers
from nbgrad.drawing.cause import Cause
from nbgrad.drawing.engine_run import EngineRun

_LARGEST = 400
"""Up to so many parts, wrong orders are tried: each is a backward of the whole graph."""

_MOST = 20_000
"""A wrong walk that takes more steps is not followed further."""


class _Walk:
    """A backward with right rules and a wrong order."""

    def __init__(self, run: EngineRun) -> None:
        self.run = run
        self.gradients: dict[int, Numbers] = {}
        self.overwrites = False
        self.steps = 0
        for at in run.roots:
            seed = run.seed(at)
            if seed is not None:
                self.gradients[at] = seed

    def hand_on(self, at: int) -> list[int]:
        """Add the gradients of the inputs of a part, from what it has now; return the inputs."""
        shares = self.shares(at)
        for parent, share in shares:
            self.add(parent, share)
        return list(dict.fromkeys(parent for parent, _ in shares))

    def shares(self, at: int) -> list[tuple[int, Numbers]]:
        """The gradients that a part hands to its inputs, from what it has now.

        Raises:
            OverflowError: the walk is too long.
        """
        self.steps += 1
        if self.steps > _MOST:
            raise OverflowError
        step = self.run.step(at, self.gradients.get(at))
        return [] if step is None or step.right is None else list(zip(self.run.parents(at), step.right, strict=True))

    def add(self, at: int, share: Numbers) -> None:
        """Add a gradient to that of a part."""
        held = self.gradients.get(at)
        self.gradients[at] = share if held is None or self.overwrites else held + share


def _from_last(walk: _Walk) -> None:
    """As ``_recursive``, the last input first."""
    _recursive(walk, last_first=True)


def _recursive(walk: _Walk, *, last_first: bool = False) -> None:
    """Each arrival hands on at once all that has arrived so far, before the next input is reached."""

    def shares(at: int) -> Iterator[tuple[int, Numbers]]:
        found = walk.shares(at)
        return iter(found[::-1] if last_first else found)

    stack = [shares(at) for at in walk.run.roots]
    while stack:
        for parent, share in stack[-1]:
            walk.add(parent, share)
            stack.append(shares(parent))
            break
        else:
            stack.pop()


def _stacked(walk: _Walk) -> None:
    """Each arrival hands on all that has arrived so far, to all inputs."""
    stack = list(walk.run.roots)
    while stack:
        stack += reversed(walk.hand_on(stack.pop()))


def _queued(walk: _Walk) -> None:
    queue = list(walk.run.roots)
    while queue:
        queue += walk.hand_on(queue.pop(0))


def _once(*, deep: bool, last_first: bool) -> Callable[[_Walk], None]:
    """Each part hands on once, when it is first reached: a search in depth or in breadth."""

    def walked(walk: _Walk) -> None:
        waiting, done = list(walk.run.roots), set()
        while waiting:
            at = waiting.pop() if deep else waiting.pop(0)
            if at in done:
                continue
            done.add(at)
            parents = walk.hand_on(at)
            waiting += parents if last_first else parents[::-1]

    return walked


def _forward(walk: _Walk) -> None:
    for at in range(len(walk.run.parts)):
        walk.hand_on(at)


def _overwriting(walk: _Walk) -> None:
    """The last gradient that arrives replaces the others."""
    walk.overwrites = True
    for at in reversed(range(len(walk.run.parts))):
        walk.hand_on(at)


def _again(times: int) -> Callable[[_Walk], None]:
    """The same graph, several times without a reset of the gradients inside."""

    def walked(walk: _Walk) -> None:
        seeds = dict(walk.gradients)
        for _ in range(times):
            walk.gradients |= seeds
            for at in reversed(range(len(walk.run.parts))):
                walk.hand_on(at)

    return walked


_EARLY = message(
    "The order of the backward is wrong: a part hands its gradient on before all of it has arrived. Walk the parts in "
    "the reverse of a topological order."
)
_AGAIN = message("This one hands on again, and all of it, whenever a part of it arrives.")
_FORWARD = message(
    "Only the inputs of the result got a gradient: the walk has to go on from the result to the leaves, in the reverse "
    "of a topological order."
)
_PATH = message("Of several paths to a part only the last is kept: paths add, so write `+=` and not `=`.")
_TIMES = message(
    "The backward ran {times} times over the same graph, and the gradients of the time before were still there: set "
    "all gradients to 0 before each."
)
_WALKS: tuple[tuple[str, tuple[str, ...], dict[str, int], int, Callable[[_Walk], None]], ...] = (
    *[("recursive", (_EARLY, _AGAIN), {}, 2, order) for order in (_recursive, _from_last, _stacked, _queued)],
    *[
        ("early", (_EARLY,), {}, 2, _once(deep=deep, last_first=last))
        for deep in (True, False)
        for last in (True, False)
    ],
    ("forward", (_FORWARD,), {}, 1, _forward),
    ("path", (_PATH,), {}, 1, _overwriting),
    *[("again", (_TIMES,), {"times": times}, 2, _again(times)) for times in (2, 3)],
)
"""The wrong walks: key, sentences with their values, rank, and the walk."""


def walk_causes(run: EngineRun) -> Iterator[Cause]:
    """The wrong orders that give all gradients of the engine."""
    known = {at: run.stored(at) for at in range(len(run.parts))}
    if run.blocked or len(run.parts) > _LARGEST:
        return
    for key, texts, values, rank, order in _WALKS:
        walk = _Walk(run)
        try:
            order(walk)
        except OverflowError:
            continue
        if all(_same(run, got, walk.gradients.get(at)) for at, got in known.items()):
            text = " ".join([translate(one, **values) for one in texts])
            yield Cause(key, text, rank, len(run.wrong_gradients))


def _same(run: EngineRun, got: Numbers | None, made: Numbers | None) -> bool:
    if got is None:
        return True
    return not bool(got.any()) if made is None else run.close(got, made)

"""Random programs with hooks on tensors and nodes, retained gradients and chosen inputs: all calls are as in torch."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, plain

CASES = 300

MADE: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "add": lambda x, y: x + y,
    "tanh": lambda x, y: x.tanh(),
    "square": lambda x, y: x * x,
    "sum": lambda x, y: x.sum() + y,
    "view": lambda x, y: x.reshape(-1),
    "part": lambda x, y: x[..., :1] + y * 0,
    "slice": lambda x, y: x[..., :2],
    "half": lambda x, y: x.split(2, -1)[0] * y.sum(),
    "greatest": lambda x, y: x.max(-1).values.unsqueeze(-1) * y,
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda x, y: x.mul_(3),
    "add_": lambda x, y: x.add_(y.sum()),
    "tanh_": lambda x, y: x.tanh_(),
}


def check(random: Random) -> None:
    """Run one program on both, and compare what the hooks saw and what came of it."""
    seed = random.randrange(10**9)
    ours, theirs = _outcome(OURS, seed), _outcome(TORCH, seed)
    text = "\n".join(theirs[0])
    assert ours[0] == theirs[0], f"{text}\n---\n" + "\n".join(ours[0])
    raised = theirs[0][-1] == "raises"  # before that, independent rules ran in any order, and so did their hooks
    assert raised or ours[1].keys() == theirs[1].keys(), f"{text}\n{ours[1]}\n{theirs[1]}"
    for name in ["gradients"] if raised else theirs[1]:
        for mine, yours in zip(ours[1][name], theirs[1][name], strict=True):
            assert (mine is None) == (yours is None), f"{name} of {text}"
            if yours is not None:
                rows.close(plain(mine), plain(yours), f"{name} of {text}")


class Run:
    """A program in one library: its tensors, a log of its steps, and the calls that each hook saw.

    Attributes:
        noted: whether a node has hooks or a tensor was changed. Then torch also runs the nodes of ``inputs=``.
    """

    def __init__(self, library: Library, seed: int) -> None:
        self.library = library
        self.random = Random(seed)
        first, second = library.leaf(0.5, -0.3, 0.8), library.leaf([0.2, 0.9, -0.4])
        whole = first * second
        self.live = [first, second, whole, whole[..., 1:]]
        self.log: list[str] = []
        self.seen: dict[str, list[Any]] = {}
        self.handles: list[Any] = []
        self.noted = self.changed = False

    def hook(self, name: str, factor: float | None, *, several: bool = False) -> Callable[..., Any]:
        """A hook that records its arguments, and returns them times the factor."""

        def called(given: Any, *_: Any) -> Any:
            self.seen.setdefault(name, []).extend(given if several else [given])
            if factor is None:
                return None
            return tuple(None if one is None else one * factor for one in given) if several else given * factor

        return called

    def step(self, name: str) -> None:
        """One thing, drawn at random."""
        random, live = self.random, self.live
        at, other = random.randrange(len(live)), random.randrange(len(live))
        factor = random.choice([None, 2.0, -0.5])
        kind = random.choice(["made", "made", "made", "change", "hook", "hook", "prehook", "after", "retain", "remove"])
        what = random.choice(list(MADE if kind == "made" else CHANGES))
        x, y = live[at], live[other]
        node = x.grad_fn  # read now: else torch crashes if a view whose base was changed gets a hook
        self.log.append(f"{name}: {kind} {what} of {at}, {other} times {factor}")
        self.noted |= kind in {"prehook", "after", "change"}
        self.changed |= kind == "change"
        try:
            if kind == "made":
                live.append(MADE[what](x, y))
            elif kind == "change":
                CHANGES[what](x, y)
            elif kind == "retain":
                x.retain_grad()
            elif kind == "remove" and self.handles:
                self.handles.pop(random.randrange(len(self.handles))).remove()
            else:
                self.register(kind, name, factor, x, node)
        except (RuntimeError, IndexError):
            self.log[-1] += " raises"

    def register(self, kind: str, name: str, factor: float | None, x: Any, node: Any) -> None:
        """Hang a hook on a tensor or on its node."""
        if kind == "hook":
            self.handles.append(x.register_hook(self.hook(name, factor)))
        elif node is not None and kind == "prehook":
            self.handles.append(node.register_prehook(self.hook(name, factor, several=True)))
        elif node is not None and kind == "after" and not self.changed:  # a change's node has other inputs in torch
            self.handles.append(node.register_hook(self.hook(name, None, several=True)))


def _outcome(library: Library, seed: int) -> tuple[list[str], dict[str, list[Any]]]:
    """The log of the program, the calls that each hook saw, and the gradients."""
    run = Run(library, seed)
    for number in range(run.random.randint(3, 14)):
        run.step(f"step {number}")
    total: Any = 0.0
    for number, one in enumerate(run.live):
        total = total + (one * (0.5 + number % 3)).sum()
    free = run.live[:2] if run.noted else run.live
    return run.log, {"gradients": _asked(library, run.random, run.live, free, total, run.log), **run.seen}


def _asked(library: Library, random: Random, live: list[Any], free: list[Any], total: Any, log: list[str]) -> list[Any]:
    """The gradients at the end of the program: of leaves, of chosen tensors, or of second order."""
    way = random.choice(["backward", "backward", "inputs", "grad", "create_graph"])
    chosen = live[:2] if way != "inputs" else random.sample(free, 2)
    log.append(way)
    found: list[Any] = []
    try:
        if way == "grad":
            found = list(library.grad(total, random.sample(live[2:], 1), allow_unused=True))
        elif way == "create_graph":
            found = list(library.grad(total, chosen, create_graph=True, allow_unused=True))
            again: Any = sum((one * one).sum() for one in found if one is not None)
            again.backward()
        else:
            total.backward(inputs=chosen if way == "inputs" else None)
    except RuntimeError:
        log.append("raises")
    for one in live:
        found.append(one.grad if one.is_leaf or one.retains_grad else None)
    return found

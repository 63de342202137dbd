"""Programs of views, changes in place and new tensors: traced and optimized, they give the direct run's bits."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.core.engine.tensor_data import overlaps
from nbgrad.core.structure import mapped
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import trace
from nbgrad.nn import functional
from tests.core.random_programs import CHANGES, NEW, TURNING, UNSURE, VIEWS, total

CASES = 40
RAISES = " raises"
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, AttributeError)
ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "max": lambda x, y: x.max(),
    "max along": lambda x, y: x.max(-1).values,
    "prod": lambda x, y: x.prod(),
    "cumprod": lambda x, y: x.cumprod(0),
    "cumsum": lambda x, y: x.cumsum(-1),
    "softmax": lambda x, y: x.softmax(-1),
    "matmul": lambda x, y: x @ y,
    "norm": lambda x, y: x.norm(),
    "sort": lambda x, y: x.sort(-1).values,
    "where": lambda x, y: nbgrad.where(x > 0.3, x, y),
    "cat": lambda x, y: nbgrad.cat([x, y, x]),
    "relu": lambda x, y: x.relu(),
    "twice": lambda x, y: (x * y) + (x * y),
    "backward inside": lambda x, y: nbgrad.grad((x * x).sum(), x, create_graph=True)[0],
    "split": lambda x, y: x.split(1)[0],
    "unbind": lambda x, y: x.unbind(0)[-1],
    "constant": lambda x, y: nbgrad.tensor([1.0, 2.0], dtype=torch.float64),
    "solve": lambda x, y: nbgrad.linalg.solve(x @ x.mT + nbgrad.eye(2, dtype=torch.float64), y),
}
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "dropout": lambda x, y: functional.dropout(x, 0.4),
    "rand_like": lambda x, y: nbgrad.rand_like(x) * y,
    "bernoulli": lambda x, y: nbgrad.bernoulli(x.detach().sigmoid()) + y,
    "normal_": lambda x, y: (x * 2).detach().normal_(),
}
STEPS: dict[str, dict[str, Callable[..., Any]]] = {
    "view": VIEWS,
    "new": NEW,
    "change": CHANGES,
    "row": ROWS,
    "draw": DRAWS,
}


@dataclass(frozen=True)
class Choice:
    """One step of a program.

    Attributes:
        kind, name: what it does.
        at: the tensors that it uses, each as a fraction of the list of all tensors.
        silent: whether it is hidden from autograd.
        again: the earlier step that is repeated instead, as a fraction of the list of steps; None for none.
        kept: whether the program returns its result.
    """

    kind: str
    name: str
    at: tuple[float, float]
    silent: bool
    again: float | None
    kept: bool


def chosen(random: Random) -> list[Choice]:
    """The steps of a program."""
    choices: list[Choice] = []
    for _ in range(random.randint(3, 25)):
        kind = random.choice(list(STEPS))
        name = random.choice(list(STEPS[kind]))
        silent = kind == "change" and random.random() < 0.15
        again = random.random() if random.random() < 0.4 else None
        at = random.random(), random.random()
        choices.append(Choice(kind, name, at, silent, again, random.random() < 0.6))
    return choices


def run(live: list[Any], choices: list[Choice], log: list[str]) -> list[Any]:
    """The tensors that are returned. ``log`` gets a line for each step, which says whether it raised."""
    with_complex = any(one.is_complex() for one in live)
    live = [*live, *(one * 1 for one in live)]
    kept, done = list(live), list[tuple[Choice, list[Any]]]()
    for choice in choices:
        log.append("")
        given = [live[int(part * len(live))] for part in choice.at]
        if choice.again is not None and done:
            choice, given = done[int(choice.again * len(done))]
        kind, name, (one, other) = choice.kind, choice.name, given
        if kind in {"view", "change"} and overlaps(one._data) and (name in UNSURE or kind == "change"):
            continue
        if name in TURNING and (choice.silent or with_complex):
            continue
        places = ", ".join(str(next(at for at, known in enumerate(live) if known is part)) for part in given)
        log[-1] = f"{len(live)}: {kind} {name} of {places}{' silent' * choice.silent}{' kept' * choice.kept}"
        try:
            with nbgrad.set_grad_enabled(not choice.silent):
                made = STEPS[kind][name](one) if kind == "view" else STEPS[kind][name](one, other)
        except TraceError:
            raise
        except ERRORS:
            log[-1] += RAISES
            continue
        done.append((choice, given))
        if kind != "change":
            live.append(made)
            kept += [made] * choice.kept
    return kept


def differentiated(choices: list[Choice], order: int, log: list[str]) -> Callable[..., Any]:
    """The function that gives the tensors of a program and the gradients of its leaves."""

    def function(*leaves: Any) -> Any:
        log.clear()
        live = run(list(leaves), choices, log)
        values = [one.detach().clone() for one in live]
        wrt = [one for one in leaves if one.requires_grad]
        end = total(live)
        try:
            found = nbgrad.grad(end, wrt, allow_unused=True, create_graph=order > 1)
            if order > 1:
                again = total([one * one for one in found if one is not None])
                found += nbgrad.grad(again, wrt, allow_unused=True) if getattr(again, "requires_grad", False) else ()
        except TraceError:
            raise
        except ERRORS:
            return values, None
        return values, found

    return function


def leaves(random: Random) -> list[Any]:
    """The inputs of a program."""
    seed = torch.Generator().manual_seed(random.randrange(10**6))
    made = [torch.rand(2, 3, generator=seed, dtype=torch.float64), torch.rand(3, generator=seed, dtype=torch.float64)]
    made.append(torch.rand(2, 2, generator=seed, dtype=torch.float64))
    if random.random() < 0.3:
        made.append(torch.complex(made[0], made[0].flip(0)))
    if random.random() < 0.3:
        made.append((made[2] > 0.5).double())
    return [nbgrad.tensor(one, requires_grad=random.random() < 0.8) for one in made]


def check(random: Random) -> None:
    """Compare the results and the changed tensors of a traced and optimized program with those of the function."""
    choices, given, order = chosen(random), leaves(random), random.choice([1, 1, 2])

    def fresh() -> list[Any]:
        return [nbgrad.tensor(one.data.clone(), requires_grad=one.requires_grad) for one in given]

    log: list[str] = [RAISES]
    while any(line.endswith(RAISES) for line in log):  # drop these: a trace has no values, and may miss the error
        torch.manual_seed(1)
        mine = fresh()
        expected = (differentiated(choices, order, log)(*mine), mine)
        choices = [one for one, line in zip(choices, log, strict=True) if not line.endswith(RAISES)]
    if expected[0][1] is None:
        return
    traced: list[str] = []
    try:
        program = trace(differentiated(choices, order, traced), *fresh())
    except TraceError:
        return
    text = "\n".join([f"order {order}", *log])
    assert traced == log, "\n".join([text, "traced:", *traced])
    for kind in (program, program.optimize()):
        mine = fresh()
        torch.manual_seed(1)
        compare((kind(*mine), mine), expected, f"{text}\n{kind}")


def compare(found: Any, expected: Any, text: str) -> None:
    """Both have the same structure, and their tensors have the same bits."""
    left: list[Any] = []
    right: list[Any] = []
    mapped(left.append, found)
    mapped(right.append, expected)
    assert len(left) == len(right), text
    for position, (one, other) in enumerate(zip(left, right, strict=True)):
        assert (one is None) == (other is None), f"{position}\n{text}"
        if one is not None:
            assert one.dtype == other.dtype, f"{position}\n{text}"
            assert one.shape == other.shape, f"{position}\n{text}"
            same = torch.equal(torch.nan_to_num(one.data), torch.nan_to_num(other.data))
            assert same, f"{position}: {one.data} {other.data}\n{text}"

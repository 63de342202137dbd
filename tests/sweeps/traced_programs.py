"""Programs of views, changes in place and new tensors: traced and optimized they give the bits of the direct run."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.core.engine.tensor_data import overlaps
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import trace
from nbgrad.core.symbolic.structure import mapped
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
    "dropout": lambda x, y: functional.dropout(x, 0.4),
    "rand_like": lambda x, y: nbgrad.rand_like(x) * y,
    "normal_": lambda x, y: (x * 2).detach().normal_(),
    "twice": lambda x, y: (x * y) + (x * y),
    "backward inside": lambda x, y: nbgrad.grad((x * x).sum(), x, create_graph=True)[0],
    "split": lambda x, y: x.split(1)[0],
    "unbind": lambda x, y: x.unbind(0)[-1],
    "constant": lambda x, y: nbgrad.tensor([1.0, 2.0], dtype=torch.float64),
    "solve": lambda x, y: nbgrad.linalg.solve(x @ x.mT + nbgrad.eye(2, dtype=torch.float64), y),
}


Choice = tuple[str, str, float, float, bool]


def chosen(random: Random) -> list[Choice]:
    """What a program does: for each step the kind, the name, which tensors, and whether it is hidden from autograd."""
    choices = []
    for _ in range(random.randint(3, 25)):
        kind, table = random.choice([("view", VIEWS), ("new", NEW), ("change", CHANGES), ("row", ROWS)])
        name = random.choice(list(table))
        choices.append((kind, name, random.random(), random.random(), kind == "change" and random.random() < 0.15))
    return choices


def run(live: list[Any], choices: list[Choice], log: list[str]) -> list[Any]:
    """The tensors after all steps. ``log`` gets a line for each step, which says whether it raised."""
    with_complex = any(one.is_complex() for one in live)
    live = [*live, *(one * 1 for one in live)]
    for kind, name, first, second, silent in choices:
        log.append("")
        one, other = live[int(first * len(live))], live[int(second * len(live))]
        if kind not in {"new", "row"} and overlaps(one._data) and (name in UNSURE or kind == "change"):
            continue
        if name in TURNING and (silent or with_complex):
            continue
        log[-1] = f"{kind} {name} of {int(first * len(live))}, {int(second * len(live))}{' silent' * silent}"
        try:
            if kind == "view":
                live.append(VIEWS[name](one))
            elif kind == "change" and silent:
                with nbgrad.no_grad():
                    CHANGES[name](one, other)
            elif kind == "change":
                CHANGES[name](one, other)
            else:
                live.append((NEW if kind == "new" else ROWS)[name](one, other))
        except TraceError:
            raise
        except ERRORS:
            log[-1] += RAISES
    return live


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
    """Compare what a program gives, traced and optimized, with what the function gives, and what both leave behind."""
    choices, given, order = chosen(random), leaves(random), random.choice([1, 1, 2])

    def fresh() -> list[Any]:
        return [nbgrad.tensor(one.data.clone(), requires_grad=one.requires_grad) for one in given]

    log: list[str] = [RAISES]
    while any(line.endswith(RAISES) for line in log):  # such a step may raise in the run of the program alone
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
    """Both are the same structure of tensors with the same bits."""
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

"""Random programs that mix views, in-place ops and new tensors: the same for the same seed, on torch and on ours."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

from tests.core.programs import Library

VIEWS: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: x[0],
    "tail": lambda x: x[1:],
    "column": lambda x: x[..., -1],
    "stride": lambda x: x[::2],
    "new": lambda x: x[None],
    "all": lambda x: x[...],
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(tuple(reversed(range(len(x.shape))))),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(),
    "reshape": lambda x: x.reshape(-1),
    "expand": lambda x: x.expand((2, *x.shape)),
    "same": lambda x: x.expand(tuple(x.shape)),
}
NEW: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1),
    "tanh": lambda x, y: x.tanh(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "clone": lambda x, y: x.clone(),
    "scale": lambda x, y: x * 0.5,
    "pick": lambda x, y: x[[0, -1]],
    "detach": lambda x, y: x.detach(),
    "sum": lambda x, y: x.sum(0),
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "sub_": lambda x, y: x.sub_(y),
    "mul_": lambda x, y: x.mul_(y),
    "div_": lambda x, y: x.div_(2),
    "pow_": lambda x, y: x.pow_(2),
    "neg_": lambda x, y: x.neg_(),
    "tanh_": lambda x, y: x.tanh_(),
    "sigmoid_": lambda x, y: x.sigmoid_(),
    "relu_": lambda x, y: x.relu_(),
    "exp_": lambda x, y: x.tanh_().exp_(),
    "log_": lambda x, y: x.sigmoid_().log_(),
    "sqrt_": lambda x, y: x.sigmoid_().sqrt_(),
    "fill_": lambda x, y: x.fill_(0.7),
    "zero_": lambda x, y: x.zero_(),
    "copy_": lambda x, y: x.copy_(y),
    "iadd": lambda x, y: x.__iadd__(y),
    "imul": lambda x, y: x.__imul__(0.5),
    "first = y": lambda x, y: x.__setitem__(0, y),
    "tail = number": lambda x, y: x.__setitem__(slice(1, None), 0.3),
    "all = y": lambda x, y: x.__setitem__(Ellipsis, y),
    "picked = y": lambda x, y: x.__setitem__([0, -1], y),
    "first += y": lambda x, y: x.__setitem__(0, x[0].__iadd__(y)),
    "mask = number": lambda x, y: x.__setitem__(x > 0.4, 0.1),
}

STRETCHED = {"picked = y", "mask = number", "fill_", "zero_", "first = y", "tail = number", "all = y", "first += y"}


def start(lib: Library) -> list[Any]:
    """Two leaves, two results and a constant."""
    drawn = torch.rand(2, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    w, b = lib.leaf(drawn[0]), lib.leaf(drawn[1][0])
    return [w, b, w * 1, b * 2, lib.constant(drawn[1])]


def run(lib: Library, seed: int, steps: int) -> tuple[list[Any], list[str]]:
    """The tensors that the program of ``seed`` makes, and what it did."""
    random = Random(seed)
    live, log = start(lib), []
    for _ in range(steps):
        kind, table = random.choice([("view", VIEWS), ("view", VIEWS), ("new", NEW), ("change", CHANGES)])
        name = random.choice(list(table))
        at, other = random.randrange(2 if random.random() < 0.1 else 0, len(live)), random.randrange(len(live))
        if name in STRETCHED and 0 in lib.raw(live[at]).stride():
            continue  # torch writes into stretched memory here, or warns that it will not any more; its backward breaks
        assert live[at].grad_fn is None or live[at].requires_grad  # torch's views know their leaf only if asked before
        silent = kind == "change" and random.random() < 0.1
        log.append(f"{kind} {name} of {at}{f', {other}' * (kind != 'view')}{' (no_grad)' * silent}")
        try:
            if kind == "view":
                live.append(VIEWS[name](live[at]))
            elif kind == "new":
                live.append(NEW[name](live[at], live[other]))
            elif silent:
                with lib.ops.no_grad():
                    CHANGES[name](live[at], live[other])
            else:
                CHANGES[name](live[at], live[other])
        except (RuntimeError, IndexError, TypeError):
            log[-1] += " raises"
    return live, log


def total(live: list[Any]) -> Any:
    """One number that depends on every tensor."""
    result = 0.0
    for number, one in enumerate(live):
        result = result + (one * (0.1 + number % 7)).sum()
    return result


def outcome(lib: Library, seed: int, steps: int, *, twice: bool) -> tuple[list[str], list[Any], list[Any]]:
    """What the program did, what is asked of its tensors, and their values and the gradients of the leaves.

    Args:
        lib: torch or nbgrad.
        seed: which program.
        steps: how long it is.
        twice: differentiate the gradients again, instead of accumulating them.
    """
    live, log = run(lib, seed, steps)
    facts = [(tuple(one.shape), one.requires_grad, one.is_leaf) for one in live]
    values = [one.detach().clone() for one in live]
    leaves = live[:2]
    try:
        end = total(live)
        if not twice:
            end.backward()
            return log, facts, [*values, *(leaf.grad for leaf in leaves)]
        once = lib.grad(end, leaves, create_graph=True, allow_unused=True)
        again = total([one * one for one in once if one is not None])
        seconds = [one * 0.0 for one in leaves]
        if getattr(again, "requires_grad", False):
            found = lib.grad(again, leaves, allow_unused=True)
            seconds = [zero if one is None else one for one, zero in zip(found, seconds, strict=True)]
    except RuntimeError:
        return [*log, "the backward raises"], facts, values
    return log, facts, [*values, *once, *seconds]

"""Random programs that mix views, in-place ops and new tensors: the same for the same seed, on torch and on ours."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import overlaps
from tests.core.programs import Library

VIEWS: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: x[0],
    "tail": lambda x: x[1:],
    "column": lambda x: x[..., -1],
    "stride": lambda x: x[::2],
    "new": lambda x: x[None],
    "all": lambda x: x[...],
    "position": lambda x: x[torch.tensor(1)],
    "transpose": lambda x: x.transpose(0, -1),
    "T": lambda x: x.t(),
    "mT": lambda x: x.mT if x.ndim else x[...],  # on a scalar torch allows all three, but warns
    "mH": lambda x: x.mH if x.ndim else x[...],
    "adjoint": lambda x: x.adjoint() if x.ndim else x[...],
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.movedim(0, -1),
    "permute": lambda x: x.permute(tuple(reversed(range(len(x.shape))))),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(),
    "squeeze one": lambda x: x.squeeze(0),
    "reshape": lambda x: x.reshape(-1),
    "view": lambda x: x.view(-1),
    "view of two": lambda x: x.view(-1, 2),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(-1, (-1, 1)),
    "reshape_as": lambda x: x.reshape_as(x.transpose(0, -1)),
    "narrow": lambda x: x.narrow(-1, 1, 1),
    "select": lambda x: x.select(-1, 1),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(-1, 2, 1),
    "unfold apart": lambda x: x.unfold(-1, 1, 1),
    "as_strided": lambda x: x.as_strided(tuple(x.shape), x.stride()),
    "as_strided backwards": lambda x: x.as_strided(tuple(x.shape)[::-1], x.stride()[::-1], x.storage_offset()),
    "expand": lambda x: x.expand((2, *x.shape)),
    "same": lambda x: x.expand(tuple(x.shape)),
    "broadcast_to": lambda x: x.broadcast_to(tuple(x.shape)),
    "conj": lambda x: x.conj(),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "view_as_real": torch.view_as_real,
    "view_as_complex": torch.view_as_complex,
    "resolve_conj": lambda x: x.resolve_conj(),
    "resolve_neg": lambda x: x.resolve_neg(),
    "conj and imag": lambda x: x.conj().imag,
    "contiguous": lambda x: x.contiguous(),
    "einsum": lambda x: torch.einsum("...i->i...", x),
    "atleast_2d": torch.atleast_2d,
    "no dropout": lambda x: torch.nn.functional.dropout(x, 0.5, training=False),
    "to": lambda x: x.to(x.dtype),
    "positive": lambda x: +x,
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
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
    "product with i": lambda x, y: x * (0.5 + 1j),
    "sum with i": lambda x, y: x + 1j * y,
    "abs": lambda x, y: x.abs(),
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
    "real = y": lambda x, y: setattr(x, "real", y.real),
    "imag = number": lambda x, y: setattr(x, "imag", 0.4),
    "imag.mul_": lambda x, y: x.imag.mul_(3),
    "real.add_": lambda x, y: x.real.add_(y.real),
    "turn": lambda x, y: x.mul_(1j),
    "view_as_real.mul_": lambda x, y: torch.view_as_real(x).mul_(0.5),
    "conj.mul_": lambda x, y: x.conj().mul_(1 + 2j if x.is_complex() else 2),
    "conj_physical_": lambda x, y: x.conj_physical_(),
    "transpose_": lambda x, y: x.transpose_(0, -1),
    "unsqueeze_": lambda x, y: x.unsqueeze_(0),
    "squeeze_": lambda x, y: x.squeeze_(0),
}

UNSURE = {"picked = y", "mask = number", "fill_", "zero_", "first = y", "tail = number", "all = y", "first += y"}
UNSURE |= {"real = y", "imag = number", "copy_", "as_strided", "as_strided backwards", "conj_physical_"}
TURNING = {"transpose_", "unsqueeze_", "squeeze_"}
"""Changes of shape after which torch's backward fails: on the base of a complex view, or inside no_grad()."""


def start(lib: Library, *, with_complex: bool) -> list[Any]:
    """The first tensors of a program: three leaves, some results and a constant."""
    drawn = torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    w, b = lib.leaf(drawn[0]), lib.leaf(drawn[1][0])
    if not with_complex:
        v = lib.leaf(drawn[2])
        return [w, b, v, w * 1, b * 2, lib.constant(drawn[1])]
    values = [[complex(x, y) for x, y in zip(*rows, strict=True)] for rows in zip(drawn[1], drawn[2], strict=True)]
    z = lib.leaf(values, dtype=torch.complex128)
    turned = lib.leaf(values[0], dtype=torch.complex128) * 1j
    return [w, b, z, w * 1, b * 2, z * 1, z.conj() * w, turned, lib.constant(drawn[1])]


def run(lib: Library, seed: int, steps: int) -> tuple[list[Any], list[str]]:
    """The tensors that the program with this ``seed`` makes, and a log of its steps."""
    random = Random(seed)
    with_complex = random.random() < 0.6
    live, log = start(lib, with_complex=with_complex), []
    for _ in range(steps):
        kind, table = random.choice([("view", VIEWS), ("view", VIEWS), ("new", NEW), ("change", CHANGES)])
        name = random.choice(list(table))
        at, other = random.randrange(3 if random.random() < 0.9 else 0, len(live)), random.randrange(len(live))
        raw = lib.raw(live[at])
        if overlaps(raw) and (name in UNSURE or (kind == "change" and 0 not in raw.stride())):
            continue  # torch writes into stretched memory here, or warns that it soon will not; its backward fails
        mixed = kind == "change" and live[at].is_complex() != live[other].is_complex()
        if mixed and (name in {"first = y", "all = y"} or not live[at].is_complex()):
            continue  # torch's backward may raise, and a warning says that the imaginary part is lost
        assert live[at].grad_fn is None or live[at].requires_grad  # torch's views find their leaf only if asked early
        silent = kind == "change" and random.random() < 0.1
        if name in TURNING and (silent or any(one.is_complex() for one in live)):
            continue
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
        except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):
            log[-1] += " raises"
    return live, log


def total(live: list[Any]) -> Any:
    """One number that depends on every tensor."""
    result = 0.0
    for number, one in enumerate(live):
        turned = (one * (0.3 - 0.7j)).real if one.is_complex() else one
        result = result + (turned * (0.1 + number % 7)).sum()
    return result


def outcome(lib: Library, seed: int, steps: int, *, twice: bool) -> tuple[list[str], list[Any], list[Any]]:
    """The steps of the program, the attributes of its tensors, their values, and the gradients of the leaves.

    Args:
        lib: torch or nbgrad.
        seed: which program.
        steps: how long it is.
        twice: differentiate the gradients again, instead of accumulating them.
    """
    live, log = run(lib, seed, steps)
    facts = [(tuple(one.shape), one.dtype, one.requires_grad, one.is_leaf, lib.raw(one).is_conj()) for one in live]
    values = [one.detach().clone() for one in live]
    leaves = live[:3]
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

"""Answers to the exercises of lesson 11, right ones in several forms and the usual wrong ones."""

from typing import Any

import torch

import nbgrad


def decay(w: float, h0: float, steps: int) -> Any:
    return w**steps, steps * w ** (steps - 1) * h0


def by_engine(w: float, h0: float, steps: int) -> Any:
    w, h0 = (nbgrad.tensor(one, dtype=nbgrad.float64, requires_grad=True) for one in (w, h0))
    h = h0
    for _ in range(steps):
        h = w * h
    return list(nbgrad.grad(h, [h0, w]))


def last(w: Any, h: Any, steps: int) -> Any:
    for _ in range(steps):
        h = w * h
    return h


def by_transform(w: float, h0: float, steps: int) -> Any:
    both = [torch.tensor(one, dtype=torch.float64) for one in (h0, w)]
    return torch.func.grad(lambda h, w: last(w, h, steps), (0, 1))(*both)


def by_forward_mode(w: float, h0: float, steps: int) -> Any:
    both = [torch.tensor(one, dtype=torch.float64) for one in (h0, w)]
    return torch.func.jacfwd(lambda h, w: last(w, h, steps), (0, 1))(*both)


def with_gradients(library: Any, w: float, h0: float, steps: int) -> Any:
    with library.enable_grad():
        both = [library.tensor(one, dtype=library.float64, requires_grad=True) for one in (h0, w)]
        last(both[1], both[0], steps).backward()
    return [one.grad for one in both]


def truncated(cell: Any, h: Any, inputs: Any, every: int, *, shift: int = 0, last: bool = False) -> Any:
    for step, x in enumerate(inputs):
        if step and (step + shift) % every == 0:
            h = h.detach()
        h = cell(x, h)
    return h.detach() if last else h


def clip(gradients: Any, limit: float, *, power: float = 1.0, always: bool = False) -> Any:
    norm = sum((one**2).sum().item() for one in gradients) ** 0.5 or 1.0
    factor = limit / norm**power
    return [one * (factor if always else min(1.0, factor)) for one in gradients]


def norm(gradients: Any) -> Any:
    return sum((one**2).sum() for one in gradients) ** 0.5


def each(gradients: Any, limit: float) -> Any:
    return [clip([one], limit)[0] for one in gradients]


def added(gradients: Any, limit: float) -> Any:
    return [one * min(1.0, limit / sum(one.norm().item() for one in gradients)) for one in gradients]


RIGHT: dict[str, list[Any]] = {
    "11.1": [decay, lambda w, h0, steps: nbgrad.tensor(decay(w, h0, steps), dtype=nbgrad.float64)],
    "11.2": [truncated],
    "11.3": [
        clip,
        lambda gradients, limit: [one.numpy() for one in clip(gradients, limit)],
        lambda gradients, limit: clip([torch.from_numpy(one.numpy()) for one in gradients], limit),
    ],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "11.1": [
        (by_engine, "type", "calls backward or grad: work the gradients out by hand"),
        (by_transform, "type", "calls backward or grad"),
        (by_forward_mode, "type", "calls backward or grad"),
        (lambda *three: with_gradients(nbgrad, *three), "type", "calls backward or grad"),
        (lambda *three: with_gradients(torch, *three), "type", "calls backward or grad"),
        (lambda w, h0, steps: decay(w, h0, steps)[::-1], "order", "first the gradient of h0"),
        (lambda w, h0, steps: (w**steps, steps * w**steps * h0), "factor", "the exponent falls by one"),
        (lambda w, h0, steps: (w**steps, 7.0), "element", "with respect to h0 is right, that with respect to w is not"),
        (lambda w, h0, steps: (7.0, decay(w, h0, steps)[1]), "element", "with respect to w is right"),
        (lambda w, h0, steps: (w ^ steps, 1), "raised", "A power is written with **"),
        (lambda w, h0, steps: (w**steps, w ** (steps - 1) * h0), "factor", "that of w is the share of one step"),
        (lambda w, h0, steps: (w * steps, decay(w, h0, steps)[1]), "numbers", "that of h0 adds the steps"),
        (lambda w, h0, steps: (w**steps, steps * w ** (steps - 1)), "factor", "the gradient of w lacks the factor h0"),
        (lambda w, h0, steps: w**steps, "row", "it has shape ()"),
        (lambda w, h0: w, "raised", "raised TypeError"),
    ],
    "11.2": [
        (lambda cell, h, inputs, every: truncated(cell, h, inputs, 100), "offset", "nothing is detached"),
        (lambda cell, h, inputs, every: truncated(cell, h, inputs, 1), "element", "through the last step only"),
        (
            lambda cell, h, inputs, every: truncated(cell, h, inputs, every, shift=1),
            "shifted",
            "before the steps 2, 5",
        ),
        (
            lambda cell, h, inputs, every: truncated(cell, h.detach(), inputs, every),
            "shifted",
            "h is cut before step 0, too",
        ),
        (
            lambda cell, h, inputs, every: truncated(cell, h, inputs, every, shift=2),
            "shifted",
            "before the steps 1, 4, 7",
        ),
        (lambda cell, h, inputs, every: truncated(cell, h, inputs, every, last=True), "zero", "has no history"),
        (lambda cell, h, inputs, every: truncated(cell, h, inputs[:-1], every), "factor", "the last h"),
        (lambda cell, h, inputs, every: cell(h), "raised", "raised TypeError"),
    ],
    "11.3": [
        (lambda gradients, limit: [one.clamp(-limit, limit) for one in gradients], "numbers", "cut off by itself"),
        (each, "row", "each tensor is clipped by its own norm"),
        (lambda gradients, limit: clip(gradients, limit, always=True), "factor", "short gradients become longer"),
        (lambda gradients, limit: clip(gradients, limit, power=2), "factor", "by the square of the norm"),
        (added, "factor", "the norms of the tensors are added"),
        (lambda gradients, limit: [one / max(norm(gradients), 1) for one in gradients], "factor", "the norm becomes 1"),
        (lambda gradients, limit: [one * norm(gradients) / limit for one in gradients], "factor", "is upside down"),
        (
            lambda gradients, limit: [
                one * min(1.0, limit / max(float(other.abs().max()) for other in gradients)) for one in gradients
            ],
            "factor",
            "that is the largest number",
        ),
        (lambda gradients, limit: gradients, "factor", "nothing is clipped"),
        (lambda gradients, limit: clip(gradients, limit)[0], "row", "this is only row 0"),
        (
            lambda gradients, limit: [one * min(1.0, limit / norm(gradients).item()) for one in gradients],
            "raised",
            "clip of gradients of norm 0 (which is below the limit) raised ZeroDivisionError",
        ),
        (
            lambda gradients, limit: [one / (n := norm(gradients)) * min(limit, n.item()) for one in gradients],
            "not finite",
            "a norm of 0 divides nothing: it is below the limit, and the gradients stay",
        ),
    ],
}

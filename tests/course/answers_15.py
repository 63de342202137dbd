"""Answers to the exercises of lesson 15, right ones in several forms and the usual wrong ones."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch

import nbgrad


def combined(gradients: Any, sizes: Any) -> Any:
    return sum(one * size for one, size in zip(gradients, sizes, strict=True)) / sum(sizes)


def hooked(change: Callable[[Any, Any, int], None], *, only: str = "") -> Callable[..., None]:
    """A hook changes the gradient of each parameter whose name ends with ``only``."""

    def attach(net: Any, all_reduce: Any, size: int) -> None:
        for name, one in net.named_parameters():
            if name.endswith(only):
                one.register_post_accumulate_grad_hook(lambda parameter: change(parameter, all_reduce, size))

    return attach


def attach(net: Any, all_reduce: Any, size: int) -> None:
    def average(parameter: Any) -> None:
        all_reduce(parameter.grad.data)
        parameter.grad.data /= size

    for one in net.parameters():
        one.register_post_accumulate_grad_hook(average)


def divided_before(parameter: Any, all_reduce: Any, size: int) -> None:
    parameter.grad.data /= size
    all_reduce(parameter.grad)


def with_a_gradient_hook(net: Any, all_reduce: Any, size: int) -> None:
    def average(gradient: Any) -> Any:
        total = gradient.data.clone()
        all_reduce(total)
        return nbgrad.tensor(total / size)

    for one in net.parameters():
        one.register_hook(average)


def returns_nothing(net: Any, all_reduce: Any, size: int) -> None:
    def average(gradient: Any) -> Any:
        total = gradient.data.clone()
        all_reduce(total)
        return gradient

    for one in net.parameters():
        one.register_hook(average)


def once(net: Any, all_reduce: Any, size: int) -> None:
    def averaging(parameter: Any) -> None:
        def average(parameter: Any) -> None:
            divided_before(parameter, all_reduce, size)
            handle.remove()

        handle = parameter.register_post_accumulate_grad_hook(average)

    for one in net.parameters():
        averaging(one)


def uneven(net: Any, all_reduce: Any, size: int) -> None:
    """The first process sends something, and no other process does."""
    if next(TURN) % size == 0:
        next(iter(net.parameters())).register_post_accumulate_grad_hook(lambda one: all_reduce(one.grad.data))


TURN = count()


def of_weights(parameter: Any, all_reduce: Any, size: int) -> None:
    all_reduce(parameter.data)
    parameter.data /= size


def in_a_copy(parameter: Any, all_reduce: Any, size: int) -> None:
    all_reduce(parameter.grad.data.clone())


def half(parameter: Any, all_reduce: Any, size: int) -> None:
    all_reduce(parameter.grad.data)
    parameter.grad.data /= 2


def twice(parameter: Any, all_reduce: Any, size: int) -> None:
    divided_before(parameter, all_reduce, size)
    parameter.grad.data /= size


def accumulate(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        for part in parts[:-1]:
            (loss_of(net, part) / len(parts)).backward()
    (loss_of(net, parts[-1]) / len(parts)).backward()


def one_by_one(net: Any, loss_of: Any, parts: Any) -> None:
    for place, part in enumerate(parts, 1):
        if place < len(parts):
            with net.no_sync():
                (loss_of(net, part) / len(parts)).backward()
        else:
            (loss_of(net, part) / len(parts)).backward()


def every_time(net: Any, loss_of: Any, parts: Any) -> None:
    for part in parts:
        (loss_of(net, part) / len(parts)).backward()


def never(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        every_time(net, loss_of, parts)


def first_alone(net: Any, loss_of: Any, parts: Any) -> None:
    accumulate(net, loss_of, parts[1:])
    with net.no_sync():
        (loss_of(net, parts[0]) / len(parts)).backward()


def forward_outside(net: Any, loss_of: Any, parts: Any) -> None:
    for part in parts[:-1]:
        loss = loss_of(net, part)
        with net.no_sync():
            loss.backward()
    loss_of(net, parts[-1]).backward()


def undivided(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        for part in parts[:-1]:
            loss_of(net, part).backward()
    loss_of(net, parts[-1]).backward()


def cleared(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        for part in parts[:-1]:
            (loss_of(net, part) / len(parts)).backward()
    net.zero_grad()
    (loss_of(net, parts[-1]) / len(parts)).backward()


def cleared_each(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        for part in parts[:-1]:
            net.zero_grad()
            (loss_of(net, part) / len(parts)).backward()
    (loss_of(net, parts[-1]) / len(parts)).backward()


def last_undivided(net: Any, loss_of: Any, parts: Any) -> None:
    with net.no_sync():
        for part in parts[:-1]:
            (loss_of(net, part) / len(parts)).backward()
    loss_of(net, parts[-1]).backward()


def all_at_once(net: Any, loss_of: Any, parts: Any) -> None:
    (sum(loss_of(net, part) for part in parts) / len(parts)).backward()


def in_one_batch(net: Any, loss_of: Any, parts: Any) -> None:
    loss_of(net, nbgrad.cat(parts)).backward()


RIGHT: dict[str, list[Any]] = {
    "15.1": [
        combined,
        lambda gradients, sizes: sum(
            (size / sum(sizes)) * one.data for one, size in zip(gradients, sizes, strict=True)
        ),
        lambda gradients, sizes: torch.einsum(
            "i,ijk->jk",
            torch.tensor(sizes, dtype=torch.float64) / sum(sizes),
            torch.stack([one.data for one in gradients]),
        ),
    ],
    "15.2": [attach, hooked(divided_before), with_a_gradient_hook],
    "15.3": [accumulate, one_by_one],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "15.1": [
        (lambda gradients, sizes: combined(gradients, sizes) * sum(sizes) / max(sizes), "factor", "a constant factor"),
        (lambda gradients, _: sum(gradients) / len(gradients), "numbers", "that is the mean of the gradients"),
        (lambda gradients, _: sum(gradients), "factor", "that is the sum: each part is a mean already"),
        (lambda gradients, sizes: combined(gradients, sizes) * sum(sizes), "factor", "by the number of all rows"),
        (
            lambda gradients, sizes: combined(gradients, sizes) * sum(sizes) / len(sizes),
            "factor",
            "it is divided by the number of parts",
        ),
        (lambda gradients, sizes: combined(gradients, [1 / one for one in sizes]), "numbers", "turned around"),
        (lambda gradients, sizes: combined(gradients, sizes[::-1]), "order", "in another order"),
        (lambda gradients, sizes: -combined(gradients, sizes), "sign", "the sign of every element"),
        (lambda gradients, sizes: gradients / sizes, "raised", "raised TypeError"),
    ],
    "15.2": [
        (hooked(lambda one, all_reduce, _: all_reduce(one.grad.data)), "factor", "it is the sum over all processes"),
        (hooked(lambda *_: None), "numbers", "nothing was sent: a hook has to call all_reduce"),
        (hooked(of_weights), "numbers", "it is still the gradient of one process"),
        (hooked(in_a_copy), "numbers", "it is still the gradient of one process"),
        (returns_nothing, "numbers", "it is still the gradient of one process"),
        (
            hooked(divided_before, only="weight"),
            "numbers",
            "the gradient of 0.bias: it is still the gradient of one process",
        ),
        (hooked(half), "factor", "it is divided by 2: there may be more processes"),
        (hooked(twice), "factor", "it is divided twice"),
        (once, "numbers", "in the second backward: it is still the gradient of one process"),
        (uneven, "order", "all have to send the same tensors equally often"),
        (hooked(lambda one, all_reduce, _: all_reduce(one.grad, "mean")), "raised", "or its hook, raised TypeError"),
        (hooked(lambda one, all_reduce, _: all_reduce(one.name)), "raised", "all_reduce takes a tensor"),
        (lambda net, all_reduce, size: all_reduce(net.missing), "raised", "raised AttributeError"),
        (3, "type", "a function is expected, attach(net, all_reduce, size)"),
    ],
    "15.3": [
        (every_time, "numbers", "the gradients travel 4 times"),
        (never, "zero", "the gradients never travel"),
        (first_alone, "order", "the gradients travel before all parts are there"),
        (forward_outside, "numbers", "the gradients travel 4 times: forward and backward of all parts but the last"),
        (undivided, "factor", "the loss of each has to be divided by their number"),
        (cleared, "numbers", "only those of the last parts are there"),
        (cleared_each, "numbers", "only those of the last parts are there"),
        (last_undivided, "factor", "the loss of the last part is not divided"),
        (in_one_batch, "numbers", "the number of backwards was 1"),
        (all_at_once, "order", "the backward of each part belongs before the next forward"),
        (lambda net, loss_of, parts: loss_of(net, part), "raised", "raised NameError"),  # noqa: F821
        (nbgrad, "type", "a function is expected, accumulate(net, loss_of, parts)"),
    ],
}

"""Answers to the exercises of lesson 5, right ones in several forms and the usual wrong ones."""

from typing import Any

import numpy as np
import torch

import nbgrad
from nbgrad import nn


def accumulate(
    model: Any, images: Any, labels: Any, chunks: int, *, divides: float | None = None, clears: bool = False
) -> None:
    for part, wanted in zip(images.chunk(chunks), labels.chunk(chunks), strict=True):
        if clears:
            model.zero_grad()
        (nn.functional.cross_entropy(model(part), wanted) / (divides or chunks)).backward()


def summed(model: Any, images: Any, labels: Any, chunks: int) -> None:
    for part, wanted in zip(images.chunk(chunks), labels.chunk(chunks), strict=True):
        (nn.functional.cross_entropy(model(part), wanted, reduction="sum") / len(images)).backward()


def stepped(model: Any, images: Any, labels: Any, chunks: int) -> None:
    accumulate(model, images, labels, chunks)
    nbgrad.optim.SGD(model.parameters(), lr=0.1).step()


def steps(lines: str) -> Any:
    """A training step. ``lines`` gives the order of its lines."""

    def train_step(model: Any, optimizer: Any, images: Any, labels: Any) -> Any:
        loss = None
        for line in lines:
            if line == "f":
                loss = nn.functional.cross_entropy(model(images), labels)
            elif line == "b":
                loss.backward()
            elif line == "z":
                optimizer.zero_grad()
            else:
                optimizer.step()
        return loss

    return train_step


def backward_first(model: Any, optimizer: Any, images: Any, labels: Any) -> Any:
    loss.backward()  # noqa: F821
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.step()
    return loss


def once_at_the_end(model: Any, images: Any, labels: Any, chunks: int) -> None:
    for part, wanted in zip(images.chunk(chunks), labels.chunk(chunks), strict=True):
        loss = nn.functional.cross_entropy(model(part), wanted) / chunks
    loss.backward()


PLACES = [9.7, 9.1, 8.2, 7.0]

RIGHT: dict[str, list[Any]] = {
    "5.1": [PLACES, tuple(PLACES), np.array(PLACES), torch.tensor(PLACES), nbgrad.tensor(PLACES)],
    "5.2": [accumulate, summed, lambda model, images, labels, chunks: accumulate(model, images, labels, 2 * chunks)],
    "5.3": [steps("zfbs"), steps("fzbs"), steps("fbsz"), lambda *four: steps("zfbs")(*four).item()],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "5.1": [
        ([9.7, 9.4, 9.1, 8.8], "numbers", "these are the values with zero_grad"),
        ([10.3, 10.9, 11.8, 13.0], "sign", "w goes along the gradient"),
        ([10, 9.7, 9.1, 8.2], "shifted", "the list begins with the value before the first step"),
        ([0.3, 0.9, 1.8, 3.0], "offset", "these are the distances from the beginning"),
        ([0.3, 0.6, 0.9, 1.2], "offset", "these are the lengths of the steps"),
        ([3, 6, 9, 12], "offset", "that is what is in w.grad after each backward"),
        ([9.7, 9.1, 7.9, 5.5], "numbers", "the gradient is doubled in each step"),
        ([7, 1, -8, -20], "factor", "the learning rate is missing"),
        ([7, 4, 1, -2], "factor", "and without zero_grad that grows"),
        ([9.7, 9.1, 8.2], "shape", "the last element is missing"),
        ([9.7, 9.1, 8.2, 7.3], "element", "the element at [3] is wrong"),
    ],
    "5.2": [
        (lambda m, x, y, chunks: accumulate(m, x, y, chunks, divides=1), "factor", "4 times too large"),
        (
            lambda m, x, y, chunks: accumulate(m, x, y, chunks, clears=True),
            "row",
            "only the gradient of the last chunk",
        ),
        (lambda m, x, y, chunks: accumulate(m, x, y, chunks, divides=4), "numbers", "does a number stand in the place"),
        (once_at_the_end, "row", "each chunk needs a backward of its own, inside of the loop"),
        (lambda m, x, y, chunks: accumulate(m, x, y, chunks, divides=16), "factor", "4 times too small"),
        (lambda m, x, y, chunks: accumulate(m, x, y, chunks, divides=24), "factor", "the number of all images"),
        (lambda m, x, y, chunks: accumulate(m, x, y, chunks, divides=6), "factor", "the images of a chunk"),
        (lambda m, x, y, size: accumulate(m, x, y, len(x) // size, divides=size), "shape", "6 chunks of 4 images"),
        (lambda m, x, y, chunks: accumulate(m, x[:16], y[:16], chunks), "shape", "16 of the 24 images"),
        (stepped, "offset", "the parameters have moved"),
        (lambda m, x, y, chunks: accumulate(m, x, y, 1), "shape", "the model got 24 of the 24 images at once"),
        (lambda m, x, y, chunks: nn.functional.cross_entropy(m(x[:6]), y[:6]), "zero", "have no gradient afterwards"),
        (lambda m, x, y: m(x), "raised", "raised TypeError"),
        (3, "type", "a function is expected"),
    ],
    "5.3": [
        (steps("fbs"), "factor", "the gradients of earlier steps are still there"),
        (steps("fbzs"), "zero", "the parameters do not move"),
        (steps("fzb"), "zero", "the parameters do not move"),
        (steps("sfzb"), "shifted", "step comes before backward"),
        (steps("zfbss"), "factor", "it steps twice with one gradient"),
        (lambda *four: print(steps("zfbs")(*four)), "type", "it has to return the loss"),
        (steps("zfbsf"), "shifted", "it is the loss after the step"),
        (steps("zbfs"), "raised", "raised AttributeError"),
        (backward_first, "raised", "'loss' where it is not associated with a value. A line uses this name before"),
    ],
}

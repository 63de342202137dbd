"""The exercises of lesson 5: the five lines that train a network."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import is_near, needs_function
from nbgrad.lab.running import attempt
from nbgrad.nn.functional import cross_entropy
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.module import Module
from nbgrad.optim import SGD

# 5.1: without zero_grad.

STEPS = 4
_LINE = OwnNumbers(
    "5.1", {"start": (10.0, 6.0, 8.0, 12.0, 20.0), "slope": (3.0, 2.0, 4.0, 5.0, -2.0), "rate": (0.1, 0.05, 0.2)}
)
"""A parameter, the slope of its loss, which is the same everywhere, and the rate."""


def _walk(*, clears: bool) -> list[float]:
    line = _LINE()
    w = tensor(line["start"], dtype=torch.float64, requires_grad=True)
    optimizer = SGD([w], lr=line["rate"])
    places = []
    for _ in range(STEPS):
        if clears:
            optimizer.zero_grad()
        (w * line["slope"]).backward()
        optimizer.step()
        places.append(float(numbers_of(w)))
    return places


def _walks(answer: Any) -> Deviation | None:
    right = _walk(clears=False)
    found = difference(answer, right)
    if found is None:
        return None
    if isinstance(answer, list) and len(answer) == STEPS and len({id(one) for one in answer}) == 1:
        return Deviation("numbers", "the list holds the same w four times: append its number, w.item()")
    start, slope, rate = _LINE().values()

    def gone(steps: list[float]) -> list[float]:
        """The values of w after steps of these lengths."""
        return [start - one for one in accumulate(steps)]

    for wrong, kind, text in (
        (_walk(clears=True), "numbers", "these are the values with zero_grad: without it each step uses the sum of all "
         "gradients so far"),
        ([2 * start - one for one in right], "sign", "w goes along the gradient: a step goes against it"),
        ([start, *right[:-1]], "shifted", "the list begins with the value before the first step: give those after "
            "each"),
        ([start - one for one in right], "offset", "these are the distances from the beginning: give the values of w"),
        ([before - after for before, after in zip([start, *right], right, strict=False)], "offset",
         "these are the lengths of the steps: give the values of w after them"),
        ([slope * step for step in range(1, STEPS + 1)], "offset",
         "that is what is in w.grad after each backward: give the values of w after each step"),
        (gone([rate * slope * 2**step for step in range(STEPS)]), "numbers",
         "the gradient is doubled in each step: it is the same slope that is added to w.grad each time"),
        (gone([slope * step for step in range(1, STEPS + 1)]), "factor",
         "the learning rate is missing: a step is lr times what is in w.grad"),
        (gone([rate * step for step in range(1, STEPS + 1)]), "factor",
         "the slope of the loss is missing: w.grad is not 1"),
        ([start * (1 - rate * slope) ** step for step in range(1, STEPS + 1)], "numbers",
         "the value of the loss is taken for its slope: nudge w, and see how much the loss changes"),
        (gone([slope] * STEPS), "factor",
         "the learning rate is missing: a step is lr times what is in w.grad, and without zero_grad that grows"),
    ):  # fmt: skip
        if is_near(answer, wrong):
            return Deviation(kind, text)
    return found


# 5.2 and 5.3 look at what a function does to a small network.


def _network() -> Module:
    generator = torch.Generator().manual_seed(5)
    net = Linear(6, 3)
    for one in net.parameters():
        one.data.copy_(torch.randn(tuple(one.shape), generator=generator))
    return net


def _data(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(55)
    return tensor(torch.randn((count, 6), generator=generator)), tensor(torch.randint(3, (count,), generator=generator))


# 5.2: accumulate on purpose.

_COUNT, _CHUNKS, _OTHERS = 24, 4, 12


def _gradients_of(loss: Callable[[Module, Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> torch.Tensor:
    net = _network()
    loss(net, images, labels).backward()
    return _flat(net)


def _flat(net: Module) -> torch.Tensor:
    parts = [torch.zeros(tuple(one.shape)) if one.grad is None else numbers_of(one.grad) for one in net.parameters()]
    return torch.cat([one.flatten() for one in parts])


class _Watched(Module):
    """A network that notes how many images it was given at once, and whether it still kept others then.

    Attributes:
        seen: how many images each call got.
        kept: the most chunks that waited for their backward at one time.
    """

    def __init__(self, net: Module) -> None:
        super().__init__()
        self.net = net
        self.seen: list[int] = []
        self.kept = 0
        self._waiting: set[int] = set()

    def forward(self, images: Tensor) -> Any:
        call = len(self.seen)
        self.seen.append(len(images) if images.ndim > 1 else 1)
        scores = self.net(images)
        if scores.requires_grad:
            self._waiting.add(call)
            self.kept = max(self.kept, len(self._waiting))
            scores.register_hook(lambda _: self._waiting.discard(call))
        return scores


def _accumulates(answer: Any) -> Deviation | None:
    needs_function(answer, "accumulate(model, images, labels, chunks)")
    images, labels = _data(_COUNT)
    net = _network()
    watched = _Watched(net)
    said = f"accumulate(model, images, labels, {_CHUNKS})"
    attempt(said, answer, watched, images, labels, _CHUNKS)
    if not watched.seen:
        return Deviation("zero", "{said} never calls the model", said=said)
    if (found := _of_size(watched.seen, _CHUNKS)) is not None:
        return found
    if any(difference(one, old) for one, old in zip(net.parameters(), _network().parameters(), strict=True)):
        return Deviation("offset", "the parameters have moved: accumulate leaves gradients in .grad, and makes no step")
    found = _of_gradient(_flat(net), images, labels)
    if found is None:
        return _of_memory(answer, watched)
    return found if found.kind == "zero" else _of_chunks(watched.seen) or found


def _of_size(seen: list[int], chunks: int) -> Deviation | None:
    """Whether a chunk is too large: ``seen`` has how many images the model got at once."""
    size = _COUNT // chunks
    if max(seen) <= size:
        return None
    text = "the model got {most} of the {total} images at once: cut them into {chunks} chunks of {size}"
    return Deviation("shape", text, most=max(seen), total=_COUNT, chunks=chunks, size=size)


def _of_memory(answer: Any, watched: _Watched) -> Deviation | None:
    """Whether a right gradient was computed with more than one chunk in memory, or ``chunks`` was not looked at."""
    if watched.kept == len(watched.seen) > 1:
        text = "the gradient is right, but all chunks are in memory until the end: call backward for each of them"
        return Deviation("element", text)
    net = _network()
    other, said = _Watched(net), f"accumulate(model, images, labels, {_OTHERS})"
    images, labels = _data(_COUNT)
    attempt(said, answer, other, images, labels, _OTHERS)
    if (found := _of_size(other.seen, _OTHERS)) is not None:
        return found
    mean = _gradients_of(lambda model, x, y: cross_entropy(model(x), y), images, labels)
    if difference(_flat(net), mean) is None:
        return None
    text = (
        "for {chunks} chunks the gradient is right, for {others} it is not: does a number stand in the place of chunks?"
    )
    return Deviation("numbers", text, chunks=_CHUNKS, others=_OTHERS)


def _of_chunks(seen: list[int]) -> Deviation | None:
    """Whether a wrong gradient comes from the wrong images: ``seen`` has how many the model got each time."""
    if sum(seen) < _COUNT:
        text = "do the chunks have all of them, and is there no return inside of the loop?"
        return Deviation(
            "shape",
            "the model got {count} of the {total} images: {reason}",
            count=sum(seen),
            total=_COUNT,
            reason=translate(text),
        )
    if set(seen) == {_CHUNKS}:
        return Deviation(
            "shape",
            "the model got {count} chunks of {chunks} images: chunks is the number of chunks, and not how many "
            "images each has",
            count=len(seen),
            chunks=_CHUNKS,
        )
    return None


def _of_gradient(got: torch.Tensor, images: Tensor, labels: Tensor) -> Deviation | None:
    size = _COUNT // _CHUNKS
    mean = _gradients_of(lambda model, x, y: cross_entropy(model(x), y), images, labels)
    last = _gradients_of(lambda model, x, y: cross_entropy(model(x), y), images[-size:], labels[-size:])
    if not got.any():
        return Deviation(
            "zero", "the parameters have no gradient afterwards: is there a backward, and no zero_grad after it?"
        )
    if difference(got, mean) is None:
        return None
    if difference(got, last) is None or difference(got, last / _CHUNKS) is None:
        text = (
            "only the gradient of the last chunk is there: each chunk needs a backward of its own, inside of the loop, "
            "and nothing may clear .grad between two of them"
        )
        return Deviation("row", text)
    if difference(got, mean * _CHUNKS) is None:
        return Deviation(
            "factor",
            "the gradient is {chunks} times too large: each chunk's loss is a mean over "
            "its own "
            "images, and their sum is not the mean over all",
            chunks=_CHUNKS,
        )
    if difference(got, mean * _COUNT) is None:
        return Deviation("factor", "the gradient is that of a sum over all images: the loss has to be a mean over them")
    for count, what in ((_COUNT, "all images"), (size, "the images of a chunk")):
        if difference(got, mean * _CHUNKS / count) is None:
            text = translate(
                "each loss is divided by the number of {what}: it is a mean already, so divide by the number of chunks",
                what=translate(what),
            )
            return Deviation("factor", text)
    if difference(got, mean / _CHUNKS) is None:
        return Deviation("factor", "the gradient is {chunks} times too small: it is divided twice", chunks=_CHUNKS)
    found = difference(got, mean)
    return None if found is None else Deviation(found.kind, "the gradient: {found}", found=found)


# 5.3: repair a loop.


_RATE = 0.4  # another one than the lesson's: a function that makes an optimizer of its own is seen


def _trained(lines: str, steps: int = 3) -> torch.Tensor:
    """The parameters after some steps of a loop: z is zero_grad, f the forward and the loss, b backward, s step."""
    net = _network()
    optimizer = SGD(net.parameters(), lr=_RATE)
    images, labels = _data(_COUNT)
    loss = None
    for _ in range(steps):
        for line in lines:
            if line == "z":
                optimizer.zero_grad()
            elif line == "f":
                loss = cross_entropy(net(images), labels)
            elif line == "b" and loss is not None:
                loss.backward()
            elif line == "s":
                optimizer.step()
    return torch.cat([numbers_of(one).flatten() for one in net.parameters()])


_WRONG = (
    (
        "",
        "zero",
        "the parameters do not move: step has to come after backward, and zero_grad not in between. "
        "(A name without parentheses behind it calls nothing, and no line after return runs)",
    ),
    (
        "fbs",
        "factor",
        "the gradients of earlier steps are still there: clear them once in each step, with "
        "optimizer.zero_grad() and its parentheses",
    ),
    ("sfzb", "shifted", "step comes before backward: it uses the gradient of the step before"),
    ("fbszs", "factor", "there is one step too many"),
    ("zfbss", "factor", "it steps twice with one gradient"),
)


def _repaired(answer: Any) -> Deviation | None:
    said = "train_step(model, optimizer, images, labels)"
    needs_function(answer, said)
    net = _network()
    optimizer = SGD(net.parameters(), lr=_RATE)
    images, labels = _data(_COUNT)
    losses = []
    for _ in range(3):
        before = _loss(net, images, labels)
        losses.append(attempt(said, answer, net, optimizer, images, labels))
        if losses[-1] is None:
            return Deviation("type", "{said} gives None: it has to return the loss", said=said)
        if (found := difference(losses[-1], before)) is not None and len(losses) == 1:
            after = difference(losses[-1], _loss(net, images, labels)) is None
            text = translate("it is the loss after the step: return the loss that backward was called on")
            said = "the loss that it returns is not the cross entropy of the batch"
            return Deviation(
                "shifted" if after else found.kind,
                "{said}: {reason}",
                said=translate(said),
                reason=text if after else found,
            )
    got = torch.cat([numbers_of(one).flatten() for one in net.parameters()])
    if difference(got, _trained("zfbs")) is None:
        return None
    for lines, kind, text in _WRONG:
        if difference(got, _trained(lines)) is None:
            return Deviation(kind, text)
    return Deviation(
        "numbers", "after three steps the parameters are not those of the loop forward, loss, zero_grad, backward, step"
    )


def _loss(net: Module, images: Tensor, labels: Tensor) -> float:
    return float(numbers_of(cross_entropy(net(images), labels)))


EXERCISES = (
    Exercise(
        "5.1",
        "A loop without zero_grad",
        "A parameter w begins at {start:g}; its loss is {slope:g} * w, and SGD has lr={rate:g}. Somebody forgot "
        f"zero_grad. Give the values of w after each of the first {STEPS} steps: a list.",
        _walks,
        (
            "The slope is the same everywhere. Which number is in w.grad after the second backward?",
            "Each step moves w by lr times w.grad, and w.grad grows from step to step.",
            "The steps are 1, 2, 3, 4 times as long as the first one.",
        ),
        _LINE,
    ),
    Exercise(
        "5.2",
        "Accumulate on purpose",
        "A batch does not fit into memory. Write accumulate(model, images, labels, chunks): after the call, the "
        ".grad of the parameters has the gradient of the mean cross entropy over all images. But only one chunk may be "
        "in memory at a time: chunks is the number of equal chunks.",
        _accumulates,
        (
            "What adds up the gradients of several backwards, without any further line?",
            "Each chunk: forward, loss, backward. No zero_grad between two chunks.",
            "The mean over all images is the mean of the chunks' means: divide each loss by the number of chunks.",
        ),
    ),
    Exercise(
        "5.3",
        "Repair a shuffled loop",
        "Write train_step(model, optimizer, images, labels): one step of training with the cross entropy, which "
        "returns "
        "the loss. Its lines got shuffled: optimizer.step(); loss = nn.functional.cross_entropy(scores, labels); "
        "optimizer.zero_grad(); scores = model(images); loss.backward(); return loss.",
        _repaired,
        (
            "Which line needs which result? backward needs the loss, and the loss needs the scores.",
            "step moves the parameters by lr times .grad. Which line has to fill .grad before it?",
            "zero_grad comes anywhere before backward, but not between backward and step.",
        ),
    ),
)

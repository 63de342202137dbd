"""The exercises of lesson 10: convolution."""

from collections.abc import Mapping
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.comparison import Deviation, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, GradientsJudge, ValuesJudge, is_near, number_of, slip
from nbgrad.nn.convolution import Conv2d
from nbgrad.nn.functional import conv2d
from nbgrad.nn.linear import Linear

NAMES = ("bias", "weight", "x")


# 10.2: three gradients.


def _convolution() -> tuple[tuple[Tensor, ...], dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(10)
    shapes = ((2, 3, 6, 6), (4, 3, 3, 3), (4,))
    x, weight, bias = (
        tensor(torch.randn(shape, generator=generator, dtype=torch.float64), requires_grad=True) for shape in shapes
    )
    y = conv2d(x, weight, bias)
    g = tensor(torch.randn(tuple(y.shape), generator=generator, dtype=torch.float64))
    found = grad(y, [bias, weight, x], g)
    right = {name: numbers_of(one) for name, one in zip(NAMES, found, strict=True)}
    return (g, x.detach(), weight.detach()), right


def _about_share(
    name: str, given: Mapping[str, Any], _: Mapping[str, Any], arguments: tuple[Tensor, ...]
) -> Deviation | None:
    g, x, weight = (one.data for one in arguments)
    functional = torch.nn.functional
    flipped = weight.transpose(0, 1)
    wrongs = {
        "bias": ((g.sum((0, 2, 3)) / len(g), "factor", "it is a mean over the images: all of them add up"),
                 (g.mean((0, 2, 3)), "factor", "it is a mean over images and places: all of them add up")),
        "weight": ((_of_weight(g[:1], x[:1]), "row", "that is the share of the first image alone: sum over the images"),
                   (_of_weight(g, x) / len(g), "factor", "it is a mean over the images: all of them add up")),
        "x": ((functional.conv2d(g, flipped, padding=2), "numbers", "the kernel has to be turned by half a circle"),
              (functional.fold(weight.reshape(4, 27).T @ g.reshape(2, 4, 16), (6, 6), 3) / 9, "factor",
               "it is a mean over the patches: a pixel gets the sum of all places where it was used")),
    }[name]  # fmt: skip
    return next((Deviation(kind, text) for wrong, kind, text in wrongs if is_near(given[name], wrong)), None)


def _of_weight(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    columns = torch.nn.functional.unfold(x, 3)
    return (g.reshape(len(g), 4, 16) @ columns.transpose(1, 2)).sum(0).reshape(4, 3, 3, 3)


# 10.3: sharing.


_LAYER = OwnNumbers("10.3", {"kernels": (16, 4, 6, 12, 20, 24), "size": (8, 6, 7, 9, 10)})


def _counts() -> dict[str, Any]:
    kernels, size = _LAYER().values()
    layer = Conv2d(1, kernels, 3, padding=1)
    out = layer(tensor(torch.zeros(1, 1, size, size)))
    full = Linear(size * size, out.numel())
    count = [sum(one.numel() for one in module.parameters()) for module in (layer, full)]
    return {"conv": count[0], "linear": count[1], "uses": out.shape[2] * out.shape[3]}


def _counted(answer: Any) -> Deviation | None:
    if isinstance(answer, Mapping):
        kernels, size = _LAYER().values()
        pixels = size * size
        right, slips = _counts(), {
            "conv": ((9 * kernels, "the bias of each kernel is missing"),
                     (9 * kernels + 1,
                      translate("each of the {kernels} kernels has a bias of its own", kernels=kernels)),
                     (10, translate("that is one kernel, and there are {kernels}", kernels=kernels))),
            "linear": ((pixels * kernels * pixels, "the bias of each output is missing"),
                       ((pixels + 1) * kernels,
                        translate("that is a layer with {kernels} outputs: the convolution has as many numbers at each "
                                  "place", kernels=kernels))),
            "uses": (((size - 2) ** 2, "that is without padding: with padding=1 the kernel lies on every pixel"),
                     (9, "that is the number of weights in a kernel: count the places that it lies on")),
        }  # fmt: skip
        for name, listed in slips.items():
            for wrong, text in listed:
                if name in answer and number_of(answer[name]) == wrong != right[name]:
                    return Deviation(
                        "offset" if name != "uses" else "numbers",
                        "the number of {name}: {reason}",
                        name=name,
                        reason=translate(text),
                    )
    return ValuesJudge(_counts, "number", rtol=0)(answer)


# 10.1: move the digits.


def _moves() -> list[Case]:
    generator = torch.Generator().manual_seed(103)
    images = tensor(torch.rand((2, 1, 8, 8), generator=generator, dtype=torch.float64) + 0.1)
    cases = []
    for right, down in ((1, 0), (0, 2), (2, 1), (-1, 0), (0, -3), (0, 0)):
        said = f"moved(images, {right}, {down})"
        cases.append(Case((images, right, down), _shifted(images.data, right, down), said))
    return cases


def _shifted(images: torch.Tensor, right: int, down: int) -> torch.Tensor:
    rolled = images.roll((down, right), (2, 3)).clone()
    for amount, dim in ((down, 2), (right, 3)):
        if amount > 0:
            rolled.narrow(dim, 0, amount).zero_()
        elif amount < 0:
            rolled.narrow(dim, images.shape[dim] + amount, -amount).zero_()
    return rolled


def _about_move(got: Any, case: Case) -> Deviation | None:
    images, right, down = case.arguments
    data = images.data
    slips = (
        (data, "zero", "nothing has moved"),
        (data.roll((down, right), (2, 3)), "row", "what leaves on one side comes in on the other: set it to 0 there"),
        (_shifted(data, -right, -down), "sign", "it moves in the opposite direction"),
        (
            _shifted(data, down, right),
            "transposed",
            "right and down have changed places: the last dimension is the width",
        ),
        (_shifted(data, right, 0), "element", "it does not move down"),
        (_shifted(data, 0, down), "element", "it does not move to the right"),
    )
    return slip(got, slips) or _about_edge(got, case)


def _about_edge(got: Any, case: Case) -> Deviation | None:
    """Whether nothing is wrong but the pixels that come in from outside."""
    images, right, down = case.arguments
    inside = _shifted(torch.ones_like(images.data), right, down)
    given = numbers_of(got)
    if given.shape != inside.shape or not is_near(given * inside, case.right):
        return None
    return Deviation(
        "row", "the pixels that come in from outside have to be 0: they keep what was there, or another number"
    )


EXERCISES = (
    Exercise(
        "10.2",
        "Three gradients",
        "y = conv2d(x, weight, bias), with x of shape (2, 3, 6, 6), weight of shape (4, 3, 3, 3) and no padding. Write "
        "by_hand(g, x, weight), which gives a dict with the gradients of bias, weight and x, without a backward. g is "
        "the gradient of y, of shape (2, 4, 4, 4).",
        GradientsJudge(_convolution, "by_hand(g, x, weight)", _about_share),
        (
            "The bias is stretched over images, height and width. Sum over these dimensions.",
            "As a product, Y = W @ X with X = unfold(x, kernel_size=3) of shape (2, 27, 16). Reshape g to (2, 4, 16): "
            "the gradient of W is g @ X.transpose(1, 2), summed over the images.",
            "The gradient of X is W.T @ g, and fold(..., output_size=(6, 6), kernel_size=3) adds its columns back to "
            "where they were cut out.",
        ),
    ),
    Exercise(
        "10.3",
        "Count the sharing",
        "Conv2d(1, {kernels}, 3, padding=1) turns an image of {size} * {size} into {kernels} * {size} * {size} "
        "numbers. Give as a dict: conv, how many parameters it has; linear, how many parameters a Linear layer from "
        "{size} * {size} numbers to {kernels} * {size} * {size} numbers has; uses, on how many places of one image "
        "each weight of a kernel is used. Biases count.",
        _counted,
        (
            "A kernel has 3 * 3 weights for its one input channel, and a bias.",
            "A Linear layer has a weight for each pair of an input and an output, and a bias for each output.",
            "With padding=1 the kernel is laid on each pixel of the image.",
        ),
        _LAYER,
    ),
    Exercise(
        "10.1",
        "Move the digits",
        "Write moved(images, right, down): it moves images of shape (N, 1, 8, 8) by this number of pixels to the "
        "right and down. Negative numbers move to the left and up. Pixels that come in from outside are 0.",
        FunctionJudge(_moves, "moved(images, right, down)", _about_move),
        (
            (
                "torch.roll moves pixels that leave the image to the other side. What do you have to do with these "
                "pixels?"
            ),
            "nn.functional.pad(images, (left, right, top, bottom)) adds zeros, and a negative number cuts pixels off.",
            "Moving to the right by k: add k columns on the left, and cut k off on the right.",
        ),
    ),
)

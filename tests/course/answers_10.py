"""Answers to the exercises of lesson 10, right ones in several forms and the usual wrong ones."""

from typing import Any

from nbgrad import nn

F = nn.functional


def by_hand(g: Any, x: Any, weight: Any, /, **changes: Any) -> dict[str, Any]:
    columns = F.unfold(x, kernel_size=3)
    flat = g.reshape(2, 4, 16)
    found = {
        "bias": g.sum((0, 2, 3)),
        "weight": (flat @ columns.transpose(1, 2)).sum(0).reshape(4, 3, 3, 3),
        "x": F.fold(weight.reshape(4, 27).T @ flat, output_size=(6, 6), kernel_size=3),
    }
    return found | {name: change(found) for name, change in changes.items()}


def altered(**changes: Any) -> Any:
    return lambda *arguments: by_hand(*arguments, **changes)


def transposed(g: Any, x: Any, weight: Any) -> dict[str, Any]:
    return by_hand(g, x, weight) | {"x": F.conv_transpose2d(g, weight).numpy()}


def unturned(g: Any, x: Any, weight: Any) -> dict[str, Any]:
    return by_hand(g, x, weight) | {"x": F.conv2d(g, weight.transpose(0, 1), padding=2)}


def moved(images: Any, right: int, down: int) -> Any:
    return F.pad(images, (right, -right, down, -down))


def kept(images: Any, right: int, down: int) -> Any:
    found = images.clone()
    found[:, :, down:, right:] = images[:, :, : 8 - down, : 8 - right]
    return found


RIGHT: dict[str, list[Any]] = {
    "10.2": [by_hand, transposed],
    "10.3": [
        {"conv": 160, "linear": 66560, "uses": 64},
        {"conv": 160, "linear": 66560.0, "uses": 64},
    ],
    "10.1": [moved, lambda images, right, down: moved(images, right, down).numpy()],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "10.2": [
        (altered(bias=lambda d: d["bias"] / 2), "factor", "the gradient of bias: it is a mean over the images"),
        (altered(bias=lambda d: d["bias"] / 32), "factor", "a mean over images and places"),
        (
            altered(weight=lambda d: d["weight"].reshape(4, 27)),
            "shape",
            "the gradient of weight: the numbers are right",
        ),
        (altered(weight=lambda d: -d["weight"]), "sign", "the gradient of weight: the sign"),
        (unturned, "numbers", "the kernel has to be turned by half a circle"),
        (altered(x=lambda d: ...), "type", "the gradient of x is missing"),
        (lambda g, x, weight: g.sum(0), "type", "has to give a dict"),
        (lambda g, x: {}, "raised", "raised TypeError"),
    ],
    "10.3": [
        ({"conv": 160, "linear": 66500, "uses": 64}, "numbers", "linear: it is close, and it has to be exact"),
        (
            {"conv": 144, "linear": 66560, "uses": 64},
            "offset",
            "the number of conv: the bias of each kernel is missing",
        ),
        ({"conv": 160, "linear": 1040, "uses": 64}, "offset", "that is a layer with 16 outputs"),
        ({"conv": 160, "linear": 66560, "uses": 36}, "numbers", "that is without padding"),
        ({"conv": 160, "linear": 66560}, "type", "the answer lacks uses"),
        ({"conv": 160, "linear": 64, "uses": 66560}, "order", "another order"),
        ([160, 66560, 64], "type", "a dict with the names conv, linear, uses is expected"),
    ],
    "10.1": [
        (kept, "row", "that come in from outside have to be 0"),
        (lambda images, right, down: images.roll((down, right), (2, 3)), "row", "comes in on the other"),
        (lambda images, right, down: moved(images, -right, -down), "sign", "it moves in the opposite direction"),
        (lambda images, right, down: moved(images, down, right), "transposed", "right and down have changed places"),
        (lambda images, right, down: moved(images, right, 0), "zero", "moved(images, 0, 2): nothing has moved"),
        (lambda images, right, down: F.pad(images, (right, 0, down, 0)), "shape", "it has shape"),
        (lambda images, right, down: images, "zero", "nothing has moved"),
    ],
}

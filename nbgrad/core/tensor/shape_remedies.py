"""Remedies for operands whose shapes do not fit; they follow torch's own words."""

import re
from collections.abc import Iterator
from itertools import combinations
from math import prod

import torch

from nbgrad.core.engine.node import OpInfo

Shape = tuple[int, ...]
Named = tuple[str, torch.Tensor]
"""An operand with the name that the message gives it."""

_UNLIKE = re.compile(r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
_SIZES = re.compile(r"shape '\[(.*)\]' is invalid for input of size (\d+)")
_JOINED = re.compile(r"Sizes of tensors must match except in dimension (\d+)")


def shape_remedy(op: OpInfo, said: str, operands: list[Named]) -> str:
    """The sentences that follow what torch ``said`` of the shapes of ``operands``; empty for any other message.

    Args:
        op: the op.
        said: torch's message.
        operands: the tensors that it was given, in order.
    """
    products = op.module == "linalg.matmul" and (op.arity == len(operands) or op.name == "linear")
    if products and len(operands) > 1 and re.search("size|shape|at least 1D", said):
        return _product(op.name, operands[0], operands[1])
    if _UNLIKE.search(said) is not None and len(operands) > 1:
        unlike = [(a, b) for a, b in combinations(operands, 2) if not _together(tuple(a[1].shape), tuple(b[1].shape))]
        return _elementwise(op.name, *unlike[-1], alone=len(operands) == 2) if unlike else ""
    if (found := _SIZES.search(said)) is not None:
        return _sizes(found[1], int(found[2]))
    if (found := _JOINED.search(said)) is not None:
        return _joined(int(found[1]), [tuple(one.shape) for _, one in operands])
    return ""


# Element by element.


def _elementwise(op: str, a: Named, b: Named, *, alone: bool) -> str:
    shape, other = tuple(a[1].shape), tuple(b[1].shape)
    if len(shape) == len(other) == 1:
        pairs = f". To compute with every pair of their elements write {a[0]}.unsqueeze(1), of shape {(*shape, 1)}"
        return f". {_rule(shape, other)}{pairs if alone and not op.endswith('_') else ''}"
    found = list(_fitting(b, shape))
    if op.endswith("_"):  # the result has to have the shape of the first
        found = [(text, fits) for text, fits in found if torch.broadcast_shapes(shape, fits) == shape]  # type: ignore[no-untyped-call]
    else:
        found += list(_fitting(a, other))
    written = " or ".join(f"{text}, of shape {fits}" for text, fits in found[:2])
    return f". {_rule(shape, other)}{f'. Write {written}' if found else ''}"


def _rule(shape: Shape, other: Shape) -> str:
    """Why two shapes do not go together."""
    pairs = list(zip(reversed(shape), reversed(other), strict=False))
    at = next(at for at, (m, n) in enumerate(pairs) if m != n and 1 not in (m, n))
    return (
        "Shapes are compared from the last dimension on, and two sizes fit if they are equal or one is 1: here "
        f"{pairs[at][0]} and {pairs[at][1]} meet in dimension {-1 - at}"
    )


def _fitting(one: Named, wanted: Shape) -> Iterator[tuple[str, Shape]]:
    """The ways to write ``one`` so that it fits ``wanted``, each with its shape then."""
    name, shape = one[0], tuple(one[1].shape)
    if len(shape) < len(wanted):
        for dim in range(len(shape), -1, -1):
            fits = (*shape[:dim], 1, *shape[dim:])
            if _together(fits, wanted):
                yield f"{name}.unsqueeze({dim})", fits
    turned = shape[::-1]
    if len(shape) == 2 and _together(turned, wanted) and not _pairs(turned, wanted):
        yield f"{name}.T", turned
    if len(shape) < len(wanted) and prod(shape) == prod(wanted) and prod(shape) > 0:
        yield f"{name}.reshape({', '.join(map(str, wanted))})", wanted


def _pairs(shape: Shape, other: Shape) -> bool:
    """Whether both are stretched, as a column and a row are: a table of all pairs is hardly ever meant."""
    return torch.broadcast_shapes(shape, other) not in (shape, other)  # type: ignore[no-untyped-call]


def _together(shape: Shape, other: Shape) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(shape), reversed(other), strict=False))


# Products.


def _product(op: str, a: Named, b: Named) -> str:
    shape, other = tuple(a[1].shape), tuple(b[1].shape)
    if op == "linear":
        return _linear(a, b)
    if not shape or not other:
        return f". A tensor without dimensions is a factor: write {a[0]} * {b[0]}"
    inner = _inner(shape, other)
    ways = [f"{text} gives shape {made}" for text, made in _products(a, b)]
    if shape == other and len(shape) > 1:
        ways.append(f"{a[0]} * {b[0]} multiplies element by element")
    return f". {inner}: {', or '.join(ways)}" if ways else f". {inner}"


def _inner(shape: Shape, other: Shape) -> str:
    size = other[0] if len(other) == 1 else other[-2]
    if shape[-1] == size:
        return f"The dimensions before the last two, {shape[:-2]} and {other[:-2]}, do not fit"
    place = "size" if len(other) == 1 else "number of rows"
    columns = "size" if len(shape) == 1 else "number of columns"
    return f"The {columns} of the first, {shape[-1]}, has to be the {place} of the second, {size}"


def _products(a: Named, b: Named) -> Iterator[tuple[str, Shape]]:
    """The products that exist if one of the two is transposed, or if their order is changed, each with its shape."""
    (x, first), (y, second) = a, b
    ways = [(f"{x} @ {y}{_turn(second)}", first, second.mT)] if second.ndim > 1 else []
    ways += [(f"{x}{_turn(first)} @ {y}", first.mT, second)] if first.ndim > 1 else []
    for text, left, right in (*ways, (f"{y} @ {x}", second, first)):
        if (made := _shape_of(left, right)) is not None:
            yield text, made


def _turn(matrix: torch.Tensor) -> str:
    return ".T" if matrix.ndim == 2 else ".mT"


def _shape_of(a: torch.Tensor, b: torch.Tensor) -> Shape | None:
    """The shape of a product, without computing it; None if there is none."""
    try:
        return tuple(torch.matmul(a.to("meta"), b.to("meta")).shape)
    except RuntimeError:
        return None


def _linear(input: Named, weight: Named) -> str:
    shape, other = tuple(input[1].shape), tuple(weight[1].shape)
    text = (
        f". linear takes a weight of shape (out_features, in_features), and in_features, {other[-1]}, has to be the "
        f"last size of the input, {shape[-1] if shape else 'which has none'}"
    )
    return f"{text}: write {weight[0]}.T" if len(other) == 2 and shape and other[0] == shape[-1] else text


# Shapes that are asked for.


def _sizes(asked: str, count: int) -> str:
    sizes = [int(size) for size in asked.split(",") if size.strip()]
    if -1 in sizes:
        known = prod(size for size in sizes if size != -1)
        return f". {count} elements are not divisible by {known}, the product of the other sizes"
    return f". The tensor has {count} elements, and this shape {prod(sizes)}: a size of -1 is computed from the others"


def _joined(dim: int, shapes: list[Shape]) -> str:
    """The dimension along which tensors of these shapes can be joined."""
    if len({len(shape) for shape in shapes}) > 1:
        return ""
    others = [at for at in range(len(shapes[0])) if len({(*one[:at], *one[at + 1 :]) for one in shapes}) == 1]
    return f". They fit along another dimension: write dim={others[0]}" if others and others[0] != dim else ""

"""Random kernels, and what torch makes of them one operation after the other."""

import math
from contextlib import suppress
from random import Random

import torch

from nbgrad.core.symbolic.nest.ir import (
    COMPARISONS,
    FULL,
    REDUCTIONS,
    VIEWS,
    Builder,
    Kernel,
    Operation,
    Shape,
    broadcast,
)

EXACT = ("add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "sign", "square", "reciprocal", "relu", "copy")
"""Operations that round at most once, so every bit equals torch's. (So does our ``sqrt``, but torch's not always.)"""

SIZES = (1, 1, 2, 3, 5, 8, 16, 17, 33, 64)
LIMIT = 9.0


def evaluated(kernel: Kernel, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """All values of a kernel, computed by torch."""
    values = list(inputs)
    for one in kernel.operations:
        values.append(applied(one, [values[a] if type(a) is int else a for a in one.arguments]))
    return values


def applied(operation: Operation, arguments: list[torch.Tensor | float]) -> torch.Tensor:
    """One operation, computed by torch."""
    name = operation.name
    if name == FULL:
        return torch.full(operation.shape, arguments[0])
    dtype = next(one.dtype for one in arguments if isinstance(one, torch.Tensor))
    given = [one if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=dtype) for one in arguments]
    if name == "where":
        given[0] = given[0] != 0
    if name in REDUCTIONS:
        reduce = torch.sum if name == "sum" else torch.amax
        return reduce(given[0], operation.dims, keepdim=True) if operation.dims else given[0].clone()
    if name in VIEWS:
        return getattr(given[0], name)(operation.shape)
    return getattr(torch, "clone" if name == "copy" else name)(*given).to(dtype)


def shapes(random: Random) -> tuple[Shape, list[Shape]]:
    """A shape, and some that broadcast to it."""
    space = tuple(random.choice(SIZES) for _ in range(random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
    if space and random.random() < 0.15:
        space = (*space[:-1][-1:], random.choice((1000, 1025, 4097, 5000)))
    while math.prod(space) > 60_000:
        space = space[1:]
    inputs = []
    for _ in range(random.randint(1, 4)):
        shape = tuple(1 if random.random() < 0.4 else size for size in space)
        inputs.append(shape[random.randint(0, len(shape)) :] if random.random() < 0.3 else shape)
    return space, inputs


def random_kernel(random: Random, *, whole: bool, length: int = 30) -> tuple[Kernel, list[torch.Tensor]]:
    """A random kernel and its inputs.

    With ``whole`` all numbers are small integers. So every sum is exact, and the order of additions does not matter.
    """
    space, inputs = shapes(random)
    builder = Builder()
    values = [builder.input(shape) for shape in inputs]
    truths: list[int] = []
    for _ in range(random.randint(1, length)):
        with suppress(Unbroadcast):
            values.append(_made(random, builder, space, values, truths, whole=whole))
    outputs = random.sample(values, k=random.randint(1, min(len(values), 5)))
    if random.random() < 0.1:
        outputs.append(random.choice(outputs))
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    kernel = builder.kernel(outputs)
    if whole:
        drawn = [torch.randint(-4, 5, shape, generator=generator).float() for shape in inputs]
    else:
        drawn = [torch.randn(shape, generator=generator) for shape in inputs]
    return kernel, drawn


class Unbroadcast(Exception):
    """The values that were drawn do not broadcast."""


def _made(random: Random, builder: Builder, space: Shape, values: list[int], truths: list[int], *, whole: bool) -> int:
    """Make one more value from an existing one, and sometimes from a second one."""
    kind = random.random()
    value = random.choice(values)
    if kind < 0.03:
        return builder.full(random.choice((space, ())), random.choice((-1.0, 0.5)))
    if kind < 0.2:
        dims = [dim for dim in range(len(builder.shape(value))) if random.random() < 0.6]
        reduced = (builder.sum if random.random() < 0.7 else builder.max)(value, dims)
        return _bounded(builder, reduced) if whole else reduced
    if kind < 0.34:
        return _view(random, builder, space, value)
    if kind < 0.5:
        return _chosen(random, builder, values, truths)
    if kind < 0.7:
        names = ("neg", "abs", "sign", "relu", "copy")
        if not whole:
            names += ("exp", "tanh", "sigmoid", "erf", "sin", "cos", "log1p", "sqrt", "reciprocal", "square")
        return builder.apply(random.choice(names), value)
    names = ("add", "sub", "maximum", "minimum") if whole else ("add", "sub", "mul", "div", "maximum", "minimum")
    pair = [value, _other(random, values)]
    random.shuffle(pair)
    made = _applied(builder, random.choice(names), *pair)
    return _bounded(builder, made) if whole else made


def _bounded(builder: Builder, value: int) -> int:
    return builder.apply("minimum", builder.apply("maximum", value, -LIMIT), LIMIT)


def _view(random: Random, builder: Builder, space: Shape, value: int) -> int:
    shape = builder.shape(value)
    if random.random() < 0.5:
        if broadcast((shape, space)) != space:
            raise Unbroadcast
        return builder.expand(value, space)
    return builder.reshape(value, random.choice(([math.prod(shape)], [1, *shape], [s for s in shape if s > 1])))


def _chosen(random: Random, builder: Builder, values: list[int], truths: list[int]) -> int:
    """A comparison whose result is used as torch uses bools."""
    if not truths or random.random() < 0.4:
        truths.append(_applied(builder, random.choice(COMPARISONS), random.choice(values), _other(random, values)))
    truth, value = random.choice(truths), random.choice(values)
    if random.random() < 0.3:
        return _applied(builder, "mul", truth, value)
    return _applied(builder, "where", truth, value, random.choice(values) if random.random() < 0.5 else 2.0)


def _applied(builder: Builder, name: str, *arguments: int | float) -> int:
    if broadcast([builder.shape(one) for one in arguments if type(one) is int]) is None:
        raise Unbroadcast
    return builder.apply(name, *arguments)


def _other(random: Random, values: list[int]) -> int | float:
    return random.choice((-1.0, 0.5, 3.0)) if random.random() < 0.2 else random.choice(values)


def ulps(found: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The difference between float32 numbers and float64 numbers, in units of the last float32 digit."""
    rounded = right.float()
    size = torch.nextafter(rounded.abs(), torch.tensor(math.inf)).double() - rounded.abs().double()
    off = (found.double() - right).abs() / torch.where(size.isfinite(), size, 2.0**104)
    same = (found == rounded) | (found.isnan() & rounded.isnan())
    return torch.where(same, torch.where(off.isfinite(), off, 0.0), torch.where(off.isfinite(), off, math.inf))

"""Random kernels, and what torch makes of them one operation after the other."""

import math
from random import Random

import torch

from nbgrad.core.symbolic.nest import c_library, interpreter
from nbgrad.core.symbolic.nest.interpreter import Run
from nbgrad.core.symbolic.nest.ir import COMPARISONS, REDUCTIONS, Builder, Kernel, KernelError, Operation, Shape

EXACT = ("add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "sign", "square", "reciprocal", "relu", "copy")
"""Operations that are rounded once, if at all: every bit is torch's. (So is ``sqrt``, but not all of torch's.)"""

SIZES = (1, 1, 2, 3, 5, 8, 16, 17, 33, 64)
LIMIT = 9.0


def engines() -> list[str]:
    """The engines that there are here."""
    return [name for name, one in (("interpreter", interpreter), ("c", c_library)) if one.available()]


def build(engine: str, kernel: Kernel) -> Run:
    """A kernel, ready to run."""
    return {"interpreter": interpreter, "c": c_library}[engine].build(kernel)


def evaluated(kernel: Kernel, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Every value of a kernel, by torch."""
    values = list(inputs)
    for one in kernel.operations:
        values.append(applied(one, [values[a] if type(a) is int else a for a in one.arguments]))
    return values


def applied(operation: Operation, arguments: list[torch.Tensor | float]) -> torch.Tensor:
    """One operation, by torch."""
    first = arguments[0]
    dtype = next(one.dtype for one in arguments if isinstance(one, torch.Tensor))
    given = [one if isinstance(one, torch.Tensor) else torch.tensor(one, dtype=dtype) for one in arguments]
    name = operation.name
    if name == "copy":
        return given[0].clone()
    if name in COMPARISONS:
        return getattr(torch, name)(*given).to(dtype)
    if name == "where":
        return torch.where(given[0] != 0, *given[1:])
    if name in REDUCTIONS:
        assert isinstance(first, torch.Tensor)
        if not operation.dims:
            return first.clone()
        return first.sum(operation.dims, keepdim=True) if name == "sum" else first.amax(operation.dims, keepdim=True)
    if name in {"reshape", "expand"}:
        return getattr(given[0], name)(operation.shape)
    return getattr(torch, name)(*given)


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


def random_kernel(random: Random, *, whole: bool, length: int = 14) -> tuple[Kernel, list[torch.Tensor]]:
    """A kernel and its inputs.

    With ``whole`` all numbers are small whole ones, so that every sum is exact and the order of additions matters not.
    """
    space, inputs = shapes(random)
    builder = Builder()
    values = [builder.input(shape) for shape in inputs]
    truths: list[int] = []
    for _ in range(random.randint(1, length)):
        try:
            _append(random, builder, space, values, truths, whole=whole)
        except KernelError as error:
            assert "do not broadcast" in str(error) or "does not broadcast" in str(error), error
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


def _append(
    random: Random, builder: Builder, space: Shape, values: list[int], truths: list[int], *, whole: bool
) -> None:
    kind = random.random()
    value = random.choice(values)
    if kind < 0.2:
        rank = len(builder.shape(value))
        dims = [dim for dim in range(rank) if random.random() < 0.6]
        made = (builder.sum if random.random() < 0.7 else builder.max)(value, dims)
        if whole:
            made = builder.apply("minimum", builder.apply("maximum", made, -LIMIT), LIMIT)
    elif kind < 0.27:
        made = builder.expand(value, space)
    elif kind < 0.34:
        shape = builder.shape(value)
        made = builder.reshape(value, random.choice(([math.prod(shape)], [1, *shape], [s for s in shape if s > 1])))
    elif kind < 0.45:
        truths.append(builder.apply(random.choice(COMPARISONS), value, _other(random, values)))
        return
    elif kind < 0.55 and truths:
        other = random.choice(values)
        made = builder.apply("where", random.choice(truths), value, other if random.random() < 0.5 else 2.0)
    elif kind < 0.6 and truths:
        made = builder.apply("mul", random.choice(truths), value)
    elif kind < 0.75:
        names = ("neg", "abs", "sign", "relu", "copy")
        if not whole:
            names += ("exp", "tanh", "sigmoid", "erf", "sin", "cos", "log1p", "sqrt", "reciprocal", "square")
        made = builder.apply(random.choice(names), value)
    else:
        names = ("add", "sub", "maximum", "minimum") if whole else ("add", "sub", "mul", "div", "maximum", "minimum")
        pair = [value, _other(random, values)]
        random.shuffle(pair)
        made = builder.apply(random.choice(names), *pair)
        if whole:
            made = builder.apply("minimum", builder.apply("maximum", made, -LIMIT), LIMIT)
    values.append(made)


def _other(random: Random, values: list[int]) -> int | float:
    return random.choice((-1.0, 0.5, 3.0)) if random.random() < 0.2 else random.choice(values)


def ulps(found: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """By how many units in the last place float32 numbers differ from float64 ones; infinite where only one is finite."""
    rounded = right.float()
    size = torch.nextafter(rounded.abs(), torch.tensor(math.inf)).double() - rounded.abs().double()
    off = (found.double() - right).abs() / torch.where(size.isfinite(), size, 2.0**104)
    same = (found == rounded) | (found.isnan() & rounded.isnan())
    return torch.where(same, torch.where(off.isfinite(), off, 0.0), torch.where(off.isfinite(), off, math.inf))

"""Random kernels of loop nests: the interpreter gives the same as torch, which runs one operation after the other."""

from random import Random

import torch

from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.nest.ir import COMPARISONS, VIEWS, Kernel, Operation
from nbgrad.core.symbolic.nest.schedule import PIECE
from tests.core.symbolic.nests import EXACT, applied, evaluated, random_kernel, ulps

CASES = 250

ADDED = PIECE / 16 + 4 + 1
"""The largest number of float32 numbers that are added one after the other."""


def check(random: Random) -> None:
    """Compare one kernel, of whole numbers or of others."""
    whole = random.random() < 0.6
    kernel, inputs = random_kernel(random, whole=whole)
    if not whole:
        kernel = everything(kernel)
    found = interpreter.build(kernel)(*inputs)
    if not whole:
        compare(kernel, inputs, found)
        return
    values = evaluated(kernel, inputs)
    for number, one in zip(kernel.outputs, found, strict=True):
        assert one.shape == values[number].shape, kernel
        assert torch.equal(one, values[number]), (number, kernel)


def everything(kernel: Kernel) -> Kernel:
    """The same kernel with every value as an output, except comparisons and views of them."""
    count = len(kernel.inputs)
    truths: set[int] = set()
    for number, one in enumerate(kernel.operations, count):
        views = one.name in {"copy", *VIEWS}
        if one.name in COMPARISONS or (views and one.arguments[0] in truths):
            truths.add(number)
    wanted = [number for number in range(count, count + len(kernel.operations)) if number not in truths]
    return Kernel(kernel.inputs, kernel.operations, tuple(wanted) or kernel.outputs)


def identical(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors have the same bits, any NaN being the same as any other."""
    return torch.equal(one.nan_to_num(12.5), two.nan_to_num(12.5)) and torch.equal(one.isnan(), two.isnan())


def compare(kernel: Kernel, inputs: list[torch.Tensor], found: list[torch.Tensor]) -> None:
    """Hold each operation to what torch makes of the same arguments."""
    known = dict(enumerate(inputs)) | dict(zip(kernel.outputs, found, strict=True))
    for number, one in enumerate(kernel.operations, len(kernel.inputs)):
        arguments = [known[a] if type(a) is int else a for a in one.arguments]
        if number not in known:  # a comparison
            known[number] = applied(one, arguments)
            continue
        assert known[number].shape == one.shape
        held(one, arguments, known[number])


def held(one: Operation, arguments: list[torch.Tensor | float], found: torch.Tensor) -> None:
    """Check one operation: equal to the bit, within 2 ulp, or for a sum within the error bound of its additions."""
    exact = applied(one, arguments)
    if one.name in EXACT or one.name in {"where", "max", "full", *VIEWS}:
        assert identical(found, exact), one
        return
    wide = [a.double() if isinstance(a, torch.Tensor) else a for a in arguments]
    right = applied(one, wide)
    if one.name == "sum":
        (x,) = wide
        assert isinstance(x, torch.Tensor)
        bound = ADDED * 2.0**-24 * x.abs().sum(one.dims, keepdim=True) if one.dims else torch.zeros(())
        near = ((found.double() - right).abs() <= bound) | ~right.float().isfinite() | (right.abs() > 3e38)
        assert bool(near.all()), (one, (found - right).abs().max())
        return
    assert float(ulps(found, right).max()) <= 2, one

"""A kernel: pointwise operations and reductions of float32 tensors, to be computed in one call.

A kernel describes the computation, and no loops: `schedule` arranges it in loop nests, which `interpreter` runs.
Values are numbered: first the inputs, then the result of each operation. Shapes broadcast as torch's do. Every input is
contiguous, and no shape has a size of 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

UNARY = (
    "copy", "neg", "abs", "sign", "square", "reciprocal", "sqrt", "rsqrt", "relu",
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos",
)  # fmt: skip
"""Functions of one value, as torch names them; ``copy`` is the value itself."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
"""They give 1 or 0. Only ``where`` and ``mul`` take that, and it is no output: torch's comparisons give bools."""

BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", *COMPARISONS)

POINTWISE = {
    **dict.fromkeys(UNARY, 1),
    **dict.fromkeys(BINARY, 2),
    "where": 3,
}
"""How many arguments each pointwise operation takes."""

REDUCTIONS = ("sum", "max")
"""They keep the dimensions that they reduce, with size 1. A NaN makes the largest number NaN, as in torch."""

VIEWS = ("reshape", "expand")

FULL = "full"
"""A constant of some shape."""

Shape = tuple[int, ...]


class KernelError(ValueError):
    """Something that no kernel can compute: the message says what to do instead."""


@dataclass(frozen=True)
class Operation:
    """One operation of a kernel.

    Attributes:
        name: a key of ``POINTWISE``, one of ``REDUCTIONS`` and ``VIEWS``, or ``FULL``.
        arguments: an ``int`` is the number of an earlier value, a ``float`` is a constant.
        shape: of the result.
        dims: the dimensions that a reduction reduces, from 0 up.
    """

    name: str
    arguments: tuple[int | float, ...]
    shape: Shape
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """The computation of one call.

    Attributes:
        inputs: the shape of each input, all contiguous float32 tensors on the processor.
        operations: in an order in which they can be computed.
        outputs: the numbers of the values that a call returns, each in memory of its own.
    """

    inputs: tuple[Shape, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int, ...]

    def shape(self, value: int) -> Shape:
        """The shape of a value."""
        count = len(self.inputs)
        return self.inputs[value] if value < count else self.operations[value - count].shape

    def check(self, tensors: Sequence[torch.Tensor]) -> None:
        """Raise KernelError unless a call with these inputs reads the memory that it should."""
        if len(tensors) != len(self.inputs):
            raise KernelError(f"this kernel takes {len(self.inputs)} tensors, not {len(tensors)}")
        for number, (tensor, shape) in enumerate(zip(tensors, self.inputs, strict=True)):
            found = None
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or tensor.layout != torch.strided:
                found = f"a {tensor.layout} tensor of {tensor.dtype} on {tensor.device}"
            elif tuple(tensor.shape) != shape:
                found = f"shape {tuple(tensor.shape)}"
            elif not tensor.is_contiguous() or tensor.is_neg():
                found = f"strides {tensor.stride()}: pass x.contiguous()"
            if found:
                raise KernelError(f"input {number} of a kernel: expected a contiguous float32 {shape}, got {found}")


class Builder:
    """Makes a kernel, one operation after another; each method returns the number of its result.

    Args:
        dtype: of every value. Only torch.float32 is supported.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        if dtype != torch.float32:
            raise KernelError(f"a kernel computes in float32, not in {dtype}: leave these steps to torch")
        self._inputs: list[Shape] = []
        self._operations: list[Operation] = []
        self._truths: set[int] = set()

    def input(self, shape: Sequence[int], *, truth: bool = False) -> int:
        """Declare the next input; with ``truth`` it has 1 or 0 for each element, as the result of a comparison."""
        if self._operations:
            raise KernelError("the inputs of a kernel are declared before its operations")
        self._inputs.append(_shape(shape))
        number = len(self._inputs) - 1
        if truth:
            self._truths.add(number)
        return number

    def is_truth(self, value: int) -> bool:
        """Whether a value is the result of a comparison."""
        return value in self._truths

    def apply(self, name: str, *arguments: int | float) -> int:
        """Apply a pointwise operation to values (``int``) and constants (``float``), of which one is a value."""
        wanted = POINTWISE.get(name)
        if wanted is None:
            raise KernelError(f"{name!r} is no pointwise operation of a kernel: there are {', '.join(POINTWISE)}")
        if len(arguments) != wanted:
            raise KernelError(f"{name} takes {wanted} arguments, not {len(arguments)}")
        shapes = [self._shape_of(one, name) for one in arguments]
        if not any(type(one) is int for one in arguments):
            raise KernelError(f"{name} of constants alone: compute it beforehand")
        for number, one in enumerate(arguments):
            allowed = name in {"mul", "copy"} or (name == "where" and number == 0)
            if type(one) is int and one in self._truths and not allowed:
                raise KernelError(f"{name} of the result of a comparison: only where and mul take one")
        shape = broadcast(shapes)
        if shape is None:
            raise KernelError(f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast")
        truth = name in COMPARISONS or (name == "copy" and arguments[0] in self._truths)
        return self._append(Operation(name, arguments, shape), truth=truth)

    def full(self, shape: Sequence[int], number: float) -> int:
        """Make a constant."""
        return self._append(Operation(FULL, (float(number),), _shape(shape)))

    def sum(self, value: int, dims: Sequence[int] | None = None) -> int:
        """Add up over dimensions, by default all; they stay with size 1."""
        return self._reduce("sum", value, dims)

    def max(self, value: int, dims: Sequence[int] | None = None) -> int:
        """Take the largest number over dimensions, by default all; they stay with size 1."""
        return self._reduce("max", value, dims)

    def reshape(self, value: int, shape: Sequence[int]) -> int:
        """Give the same numbers in the same order another shape. No size may be left out."""
        before, after = self._shape_of(value, "reshape"), _shape(shape)
        if math.prod(before) != math.prod(after):
            raise KernelError(f"reshape: {before} has {math.prod(before)} numbers, {after} has {math.prod(after)}")
        return self._append(Operation("reshape", (value,), after), truth=value in self._truths)

    def expand(self, value: int, shape: Sequence[int]) -> int:
        """Broadcast to a shape."""
        before, after = self._shape_of(value, "expand"), _shape(shape)
        aligned = (1,) * (len(after) - len(before)) + before
        if len(before) > len(after) or any(one not in {1, two} for one, two in zip(aligned, after, strict=True)):
            raise KernelError(f"expand: {before} does not broadcast to {after}")
        return self._append(Operation("expand", (value,), after), truth=value in self._truths)

    def shape(self, value: int) -> Shape:
        """The shape of a value."""
        return self._shape_of(value, "shape")

    def kernel(self, outputs: Sequence[int]) -> Kernel:
        """Finish: a call returns these values."""
        for one in outputs:
            self._shape_of(one, "an output")
            if one in self._truths:
                raise KernelError("the result of a comparison is no output of a kernel: torch's would be bools")
        if not outputs:
            raise KernelError("a kernel without outputs computes nothing")
        return Kernel(tuple(self._inputs), tuple(self._operations), tuple(outputs))

    def _append(self, operation: Operation, *, truth: bool = False) -> int:
        self._operations.append(operation)
        number = len(self._inputs) + len(self._operations) - 1
        if truth:
            self._truths.add(number)
        return number

    def _reduce(self, name: str, value: int, dims: Sequence[int] | None) -> int:
        shape = self._shape_of(value, name)
        if value in self._truths:
            raise KernelError(f"{name} of the result of a comparison: multiply it by 1.0 first")
        rank = len(shape)
        chosen = sorted(range(rank) if dims is None else {dim + rank if dim < 0 else dim for dim in dims})
        if any(not 0 <= dim < rank for dim in chosen):
            raise KernelError(f"{name}: dimensions {tuple(dims or ())} of a tensor of shape {shape}")
        kept = tuple(1 if dim in chosen else size for dim, size in enumerate(shape))
        return self._append(Operation(name, (value,), kept, tuple(chosen)))

    def _shape_of(self, value: int | float, asked: str) -> Shape:
        if type(value) is float:
            return ()
        count = len(self._inputs)
        if type(value) is not int or not 0 <= value < count + len(self._operations):
            raise KernelError(f"{asked}: {value!r} is neither the number of a value nor a float")
        return self._inputs[value] if value < count else self._operations[value - count].shape


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape to which all of them broadcast; None where they do not."""
    longest = max(shapes, key=len)
    if all(shape in {(), longest} for shape in shapes):
        return longest
    sizes = list(longest)
    for shape in shapes:
        for place in range(-len(shape), 0):
            if shape[place] != 1:
                if sizes[place] not in {1, shape[place]}:
                    return None
                sizes[place] = shape[place]
    return tuple(sizes)


def _shape(sizes: Sequence[int]) -> Shape:
    shape = tuple(int(size) for size in sizes)
    if any(size < 1 for size in shape):
        raise KernelError(f"shape {shape}: a kernel computes at least one number. Leave empty tensors to torch")
    return shape

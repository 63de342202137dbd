"""Conversion: the same numbers with another element type, or on another device."""

from typing import Any

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.shape.views import clone, contiguous
from nbgrad.core.tensor.methods import Conversions
from nbgrad.core.tensor.tensor import Tensor


def _moves(make: Make):
    yield from (Sample.of(make(*shape), dtype=torch.float64) for shape in SHAPES)
    yield Sample.of(make(2, 3), device=torch.device("cpu"))
    yield Sample.of(make(2, 3), dtype=torch.float64, non_blocking=True)


@op(formula=r"x", samples=_moves, reference=torch.Tensor.to, view=True, traits=Traits(moves=True))
def to(x, *, device=None, dtype=None, non_blocking=False):
    """The tensor on another device or with another element type; the gradient goes back to the device of x.

    A part of a model may so run in another precision or on another device, in one graph.

    ``non_blocking`` lets a copy to another device run while Python goes on, where the memory allows it.

    Shapes: output as x.
    """
    return x.to(device=device, dtype=dtype, non_blocking=non_blocking)


@to.rule("x", r"\bar{y} \text{ on the device of } x")
def _(g, x_device):
    return g.to(device=x_device)


def _move(
    self,
    *args,
    device=None,
    dtype=None,
    non_blocking=False,
    copy=False,
    memory_format=torch.preserve_format,
    other=None,
):
    """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes, unless ``copy``.

    Raises:
        RuntimeError: a CUDA device where there is none.
    """
    if args and isinstance(args[0], bool):
        args = (torch.bool, *args[1:])  # as in torch: a bool in first place is the element type bool
    switches = [arg for arg in args if isinstance(arg, bool)]
    non_blocking = switches[0] if switches else non_blocking
    copy = switches[1] if len(switches) > 1 else copy
    for arg in (*args, *(() if other is None else (other,))):
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, Tensor | torch.Tensor):
            device, dtype = arg.device, arg.dtype
        elif arg is not None and not isinstance(arg, bool):
            device = arg
    place = None if device is None else _exact(check_device(device))
    if place not in (None, self.device) or dtype not in (None, self.dtype):
        moved = to(self, device=place, dtype=dtype, non_blocking=non_blocking)
    else:
        moved = clone(self, memory_format=memory_format) if copy else self
    return moved if memory_format in (None, torch.preserve_format) else contiguous(moved, memory_format=memory_format)


def _exact(device):
    """``cuda`` without a number is the current one, as torch has it."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


install("to", _move)


def _conversion(name: str, dtype: torch.dtype):
    def convert(self, memory_format=torch.preserve_format):
        return _move(self, dtype=dtype, memory_format=memory_format)

    convert.__name__ = name
    convert.__doc__ = f"The values as {dtype}; the tensor itself if that is its element type."
    return convert


for _name, _dtype in {
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
    "byte": torch.uint8,
    "cdouble": torch.complex128,
    "cfloat": torch.complex64,
    "chalf": torch.complex32,
    "char": torch.int8,
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "int": torch.int32,
    "long": torch.int64,
    "short": torch.int16,
}.items():
    setattr(Conversions, _name, _conversion(_name, _dtype))


def _cpu(self, memory_format=torch.preserve_format):
    """The tensor in main memory; the tensor itself if it is there."""
    return _move(self, device="cpu", memory_format=memory_format)


def _cuda(self, device: Any = None, non_blocking=False, memory_format=torch.preserve_format):
    """The tensor on a GPU, the current one unless told otherwise; the tensor itself if it is there."""
    place = "cuda" if device is None else torch.device("cuda", device) if isinstance(device, int) else device
    return _move(self, device=place, non_blocking=non_blocking, memory_format=memory_format)


def _type_as(self, other: Any):
    """The values with the element type of ``other``, and on its device."""
    return _move(self, other)


install("cpu", _cpu)
install("cuda", _cuda)
install("type_as", _type_as)

"""Conversion: the same numbers with another element type, or on another device."""

from typing import Any

import torch

from nbgrad.core.methods import Conversions
from nbgrad.core.op import install, op
from nbgrad.core.samples import SHAPES, Make, Sample
from nbgrad.core.tensor import Tensor, check_device


def _moves(make: Make):
    yield from (Sample.of(make(*shape), dtype=torch.float64) for shape in SHAPES)
    yield Sample.of(make(2, 3), device=torch.device("cpu"))


@op(formula=r"x", samples=_moves, reference=torch.Tensor.to, view=True)
def to(x, *, device=None, dtype=None):
    """The tensor on another device or with another element type; the gradient comes back to where x is, as it is.

    A part of a model may so run in another precision or on another device, in one graph.

    Shapes: output as x.
    """
    return x.to(device=device, dtype=dtype)


@to.rule("x", r"\bar{y} \text{ on the device of } x")
def _(g, x_device):
    return g.to(device=x_device)


def _move(self, *args, device=None, dtype=None):
    """``x.to(device)``, ``x.to(dtype)``, both, or ``x.to(other)``; x itself where nothing changes.

    Raises:
        RuntimeError: a CUDA device where there is none.
    """
    for arg in args:
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, Tensor | torch.Tensor):
            device, dtype = arg.device, arg.dtype
        else:
            device = arg
    place = None if device is None else _exact(check_device(device))
    if place in (None, self.device) and dtype in (None, self.dtype):
        return self
    return to(self, device=place, dtype=dtype)


def _exact(device):
    """``cuda`` without a number is the current one, as torch has it."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


install("to", _move)


def _conversion(name: str, dtype: torch.dtype):
    def convert(self):
        return _move(self, dtype=dtype)

    convert.__name__ = name
    convert.__doc__ = f"The values as {dtype}; the tensor itself if that is its element type."
    return convert


for _name, _dtype in {
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "int": torch.int32,
    "long": torch.int64,
}.items():
    setattr(Conversions, _name, _conversion(_name, _dtype))


def _cpu(self):
    """The tensor in main memory; the tensor itself if it is there."""
    return _move(self, device="cpu")


def _cuda(self, device: Any = None):
    """The tensor on a GPU, the current one unless told otherwise; the tensor itself if it is there."""
    return _move(
        self, device="cuda" if device is None else torch.device("cuda", device) if isinstance(device, int) else device
    )


def _type_as(self, other: Any):
    """The values with the element type of ``other``, and on its device."""
    return _move(self, other)


install("cpu", _cpu)
install("cuda", _cuda)
install("type_as", _type_as)

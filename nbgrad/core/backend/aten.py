"""torch's kernels under their own names. For most, such as the gradients of its fused ops, torch has no function."""

from collections.abc import Callable
from typing import Any

import torch

_NARROWER = {"index_put", "index_put_"}
"""Torch's functions of these names take no None for a dimension that is not indexed; the kernels do."""


class Kernels:
    """``torch.ops.aten`` without the layers of Python around a kernel: 0.5 us a call, a third of a small op.

    An attribute is the default overload of the kernel of that name. A kernel with several overloads is called through
    ``torch.ops.aten`` itself, which looks at the arguments. If torch has a function of that name, with the same
    arguments by position, the attribute is that function: it reads its arguments in half the time.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        own = None if name in _NARROWER else getattr(torch._C._nn, name, None) or getattr(torch, name, None)
        kernel: Callable[..., Any] | None = own
        if kernel is None:
            overload = getattr(torch.ops.aten, name).default
            kernel = getattr(overload, "_op", overload)  # what an OpOverload hands its arguments to
        setattr(self, name, kernel)
        return kernel


aten = Kernels()

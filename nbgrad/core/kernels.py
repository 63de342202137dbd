"""torch's kernels that have no function of their own in torch: the gradients of its fused ops."""

from collections.abc import Callable
from typing import Any

import torch


class Kernels:
    """``torch.ops.aten`` without the layers of Python around a kernel: 0.5 us a call, a third of a small op.

    An attribute is the default overload of the kernel of that name; one with several overloads is called through
    ``torch.ops.aten`` itself, which looks at the arguments.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        overload = getattr(torch.ops.aten, name).default
        kernel: Callable[..., Any] = getattr(overload, "_op", overload)  # what an OpOverload hands its arguments to
        setattr(self, name, kernel)
        return kernel


aten = Kernels()

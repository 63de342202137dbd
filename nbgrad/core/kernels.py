"""torch's kernels that have no function of their own in torch: the gradients of its fused ops."""

from collections.abc import Callable
from typing import Any

import torch

_BOUND = torch._C._VariableFunctions, torch._C._nn
"""Where torch keeps what it has bound to Python itself."""


class Kernels:
    """``torch.ops.aten`` without the layers of Python around a kernel: 0.5 us a call, a third of a small op.

    An attribute is the default overload of the kernel of that name; one with several overloads is called through
    ``torch.ops.aten`` itself, which looks at the arguments. What torch has a binding for is called by that, which is
    faster again: everything else goes through a stack of boxed values.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        bound = next((home for home in _BOUND if hasattr(home, name)), None)
        overload = getattr(torch.ops.aten, name).default
        # An OpOverload hands its arguments to _op.
        kernel: Callable[..., Any] = getattr(bound, name) if bound else getattr(overload, "_op", overload)
        setattr(self, name, kernel)
        return kernel


aten = Kernels()

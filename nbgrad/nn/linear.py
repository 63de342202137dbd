"""Blocks that map features to features: Linear, and the two that only pass or reshape."""

from math import sqrt
from typing import Any

import torch

from nbgrad.core.ops import linear, reshape
from nbgrad.core.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.module import Module
from nbgrad.nn.parameter import Parameter, uninitialized


class Identity(Module):
    """Returns its input: holds a place in a model."""

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """The fully connected layer ``x @ weight.T + bias``: every output is a weighted sum of all inputs.

    Weight and bias start uniform in ``±1 / sqrt(in_features)``, the same numbers as torch's from the same seed.

    Shapes: input (..., in_features), output (..., out_features); weight (out_features, in_features),
    bias (out_features,).

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether it learns a bias.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the input's last dimension is not ``in_features``.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = uninitialized(out_features, in_features, device=device, dtype=dtype)
        self.register_parameter("bias", uninitialized(out_features, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Any:
        try:
            return linear(input, self.weight, self.bias)
        except RuntimeError:
            if input.shape[-1:] == self.weight.shape[-1:]:
                raise
            raise RuntimeError(
                f"Linear(in_features={self.in_features}, out_features={self.out_features}): "
                f"expected last dimension {self.in_features}, got {tuple(input.shape)}"
            ) from None

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Joins the dimensions from ``start_dim`` to ``end_dim`` into one: a batch of images becomes a batch of rows.

    Shapes: (N, d1, ..., dk) gives (N, d1 * ... * dk) with the default arguments.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Any:
        # torch works out the shape, and says what is wrong with dimensions that do not exist.
        return reshape(input, input.data.flatten(self.start_dim, self.end_dim).shape)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"

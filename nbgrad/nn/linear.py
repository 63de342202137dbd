"""Blocks that map features to features: Linear and Bilinear, and those that only pass or reshape."""

from math import sqrt
from typing import Any

import torch

from nbgrad.core.ops import bilinear, flatten, linear, unflatten
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.function_block import Block, of_shape
from nbgrad.nn.module.lazy import Lazy
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, uninitialized


class Identity(Module):
    """Returns its input, as a placeholder in a model. It takes any arguments, and ignores them."""

    __formula__ = "x"

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        super().__init__()

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

    __formula__ = r"x W^\top + b"

    bias: Parameter | None

    @adopting(torch.nn.Linear)
    def __init__(self, in_features: int, out_features: int, bias: bool, **place: Any) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = uninitialized(out_features, in_features, **place)
        self.register_parameter("bias", uninitialized(out_features, **place) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Any:
        return linear(input, self.weight, self.bias)

    def _misfit(self, input: Tensor) -> str | None:
        return wrong_last(input, self.in_features)

    extra_repr = showing(torch.nn.Linear)


class LazyLinear(Lazy, Linear, becomes=Linear):
    """A ``Linear`` that takes ``in_features`` from its first input; its other arguments are the same."""

    def _learn(self, input: Tensor) -> dict[str, tuple[int, ...]]:
        self.in_features = input.shape[-1]
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each output k: every output weighs all products of two inputs' features.

    Shapes: inputs (..., in1_features) and (..., in2_features), output (..., out_features); weight (out_features,
    in1_features, in2_features), bias (out_features,).

    Args:
        in1_features: size of the first input's last dimension.
        in2_features: size of the second input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether it learns a bias.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: ``in1_features`` is not positive.
        RuntimeError: when called, if the last dimension of an input has the wrong size.
    """

    __formula__ = r"x_1^\top W x_2 + b"

    bias: Parameter | None

    @adopting(torch.nn.Bilinear)
    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool, **place: Any) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = uninitialized(out_features, in1_features, in2_features, **place)
        self.register_parameter("bias", uninitialized(out_features, **place) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ``±1 / sqrt(in1_features)``."""
        bound = 1 / sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Any:
        return bilinear(input1, input2, self.weight, self.bias)

    def _misfit(self, input: Tensor) -> str | None:
        return wrong_last(input, self.in1_features)

    extra_repr = showing(torch.nn.Bilinear)


class Flatten(Block, function=flatten, torchs=torch.nn.Flatten):
    """Joins the dimensions from ``start_dim`` to ``end_dim`` into one: a batch of images becomes a batch of rows.

    Shapes: (N, d1, ..., dk) gives (N, d1 * ... * dk) with the default arguments.
    """

    __formula__ = r"x \text{ in another shape}"


class Unflatten(Block, function=unflatten, torchs=torch.nn.Unflatten):
    """Splits the dimension ``dim`` into several, of ``unflattened_size``: undoes ``Flatten``.

    Shapes: (..., d, ...) gives (..., *unflattened_size, ...).

    Args:
        dim: which dimension.
        unflattened_size: the sizes; -1 for one that follows from the others.

    Raises:
        TypeError: the sizes are no tuple or list of integers.
    """

    __formula__ = r"x \text{ in another shape}"

    def _adjust(self, given: dict[str, Any]) -> None:
        sizes = given["unflattened_size"]
        if not isinstance(sizes, tuple | list):
            raise TypeError(f"unflattened_size must be a tuple or list, but found type {type(sizes).__name__}")
        for position, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} "
                    f"at pos {position}"
                )

    def forward(self, input: Tensor) -> Any:
        return unflatten(input, self.dim, self.unflattened_size)


def wrong_last(input: Tensor, size: int) -> str | None:
    """The message about the last dimension of an input, if it is not ``size``."""
    if input.shape[-1:] == (size,):
        return None
    if input.ndim == 0:
        return f"expected last dimension {size}, got an input without dimensions"
    return f"expected last dimension {size}, got {input.shape[-1]}, {of_shape(input)}"

"""Activations as blocks: the nonlinear functions between layers."""

from typing import Any

from nbgrad.core.ops import log_softmax, relu, sigmoid, softmax, tanh
from nbgrad.core.tensor import Tensor
from nbgrad.nn.module import Module


class ReLU(Module):
    """The rectified linear unit: x where it is positive, 0 elsewhere (Nair and Hinton 2010).

    Shapes: output as input.

    Args:
        inplace: accepted so that torch's lines run; the values are the same, and the input is never overwritten.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Any:
        return relu(input)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """Hyperbolic tangent: squeezes any number into (-1, 1).

    Shapes: output as input.
    """

    def forward(self, input: Tensor) -> Any:
        return tanh(input)


class Sigmoid(Module):
    """The logistic function: squeezes any number into (0, 1).

    Shapes: output as input.
    """

    def forward(self, input: Tensor) -> Any:
        return sigmoid(input)


class Softmax(Module):
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1.

    Shapes: output as input.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Any:
        return softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """Logarithm of softmax along ``dim``, computed without overflow.

    Shapes: output as input.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Any:
        return log_softmax(input, dim=self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"

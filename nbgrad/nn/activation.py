"""Activations as blocks: the nonlinear functions between layers.

Shapes: output as input, unless the docstring says otherwise.
"""

import warnings
from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.core.ops import torch_signatures
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.function_block import Block, of_shape
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import uninitialized


class ReLU(Block, function=torch_signatures.relu, torchs=torch.nn.ReLU):
    """The rectified linear unit: x where it is positive, 0 elsewhere (Nair and Hinton 2010).

    Args:
        inplace: overwrite the input; here as in all activations.
    """


class ReLU6(Block, function=torch_signatures.relu6, torchs=torch.nn.ReLU6):
    """ReLU cut off at 6, so that few bits hold it (Howard et al. 2017)."""


class LeakyReLU(Block, function=torch_signatures.leaky_relu, torchs=torch.nn.LeakyReLU):
    """ReLU with a slope for negative numbers, so that no unit dies (Maas et al. 2013)."""


class RReLU(Block, function=torch_signatures.rrelu, torchs=torch.nn.RReLU):
    """LeakyReLU whose slope is drawn for each number in training, and is the mean in evaluation (Xu et al. 2015)."""


class ELU(Block, function=torch_signatures.elu, torchs=torch.nn.ELU):
    """The exponential linear unit: x where it is positive, alpha (exp(x) - 1) elsewhere (Clevert et al. 2015)."""


class CELU(Block, function=torch_signatures.celu, torchs=torch.nn.CELU):
    """ELU with a derivative that has no jump: alpha (exp(x / alpha) - 1) for negative x (Barron 2017)."""


class SELU(Block, function=torch_signatures.selu, torchs=torch.nn.SELU):
    """ELU scaled so that values keep mean 0 and variance 1 from layer to layer (Klambauer et al. 2017)."""


class SiLU(Block, function=torch_signatures.silu, torchs=torch.nn.SiLU):
    """The sigmoid linear unit, also called swish: x times its sigmoid (Hendrycks and Gimpel 2016)."""


class Mish(Block, function=torch_signatures.mish, torchs=torch.nn.Mish):
    """x times the tanh of its softplus (Misra 2019)."""


class Hardsigmoid(Block, function=torch_signatures.hardsigmoid, torchs=torch.nn.Hardsigmoid):
    """The sigmoid as three straight lines: 0 below -3, 1 above 3 (Courbariaux et al. 2015)."""


class Hardswish(Block, function=torch_signatures.hardswish, torchs=torch.nn.Hardswish):
    """x times its hard sigmoid (Howard et al. 2019)."""


class Hardtanh(Block, function=torch_signatures.hardtanh, torchs=torch.nn.Hardtanh):
    """x, cut off at ``min_val`` and ``max_val``.

    Args:
        min_val: the smallest value.
        max_val: the largest value.
        inplace: overwrite the input.
        min_value: an old name of ``min_val``.
        max_value: an old name of ``max_val``.

    Raises:
        AssertionError: the range is empty.
    """

    def _adjust(self, given: dict[str, Any]) -> None:
        for old, name in (("min_value", "min_val"), ("max_value", "max_val")):
            if given[old] is not None:
                warnings.warn(f"keyword argument {old} is deprecated: write {name}", FutureWarning, stacklevel=4)
                given[name] = given[old]
        if given["max_val"] <= given["min_val"]:
            raise AssertionError("max_val must be larger than min_val")


class Threshold(Block, function=torch_signatures.threshold, torchs=torch.nn.Threshold):
    """x where it is above ``threshold``, ``value`` elsewhere."""


class Tanh(Block, function=ops.tanh):
    """Hyperbolic tangent: squeezes any number into (-1, 1)."""


class Sigmoid(Block, function=ops.sigmoid):
    """The logistic function: squeezes any number into (0, 1)."""


class LogSigmoid(Block, function=ops.logsigmoid):
    """Logarithm of the sigmoid, computed without overflow."""


class Softsign(Block, function=ops.softsign):
    """x / (1 + |x|): squeezes any number into (-1, 1), slower than tanh (Turian et al. 2009)."""


class Tanhshrink(Block, function=ops.tanhshrink):
    """x minus its tanh."""

    __formula__ = r"x - \tanh x"


class Softplus(Block, function=ops.softplus, torchs=torch.nn.Softplus):
    """A smooth ReLU: log(1 + exp(beta x)) / beta, and x itself where beta x is above ``threshold``."""


class Hardshrink(Block, function=ops.hardshrink, torchs=torch.nn.Hardshrink):
    """x where its size is above ``lambd``, 0 elsewhere."""


class Softshrink(Block, function=ops.softshrink, torchs=torch.nn.Softshrink):
    """x moved towards 0 by ``lambd``; 0 if its size is below ``lambd``."""


class GELU(Block, function=ops.gelu, torchs=torch.nn.GELU):
    """x times the probability that a standard normal number is below x (Hendrycks and Gimpel 2016).

    Args:
        approximate: "none", or "tanh" for the formula of GPT-2.
    """


class GLU(Block, function=ops.glu, torchs=torch.nn.GLU):
    """The gated linear unit: one half of the input times the sigmoid of the other (Dauphin et al. 2016).

    Shapes: output as input, but half as long in ``dim``.
    """


class _AlongDim(Block):
    """Base of the activations along a dimension; if none is given, torch's old choice, with its warning."""

    dim: int | None

    def forward(self, input: Tensor) -> Any:
        dim = self.dim
        if dim is None:
            warnings.warn(
                f"Implicit dimension choice for {type(self).__name__.lower()} has been deprecated. "
                "Change the call to include dim=X as an argument.",
                stacklevel=3,
            )
            dim = 0 if input.ndim in {0, 1, 3} else 1
        return self._function(input, dim=dim)


class Softmax(_AlongDim, function=ops.softmax, torchs=torch.nn.Softmax):
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1."""


class Softmin(_AlongDim, function=ops.softmin, torchs=torch.nn.Softmin):
    """Softmax of the negative scores: the smallest score gets the largest probability."""

    __formula__ = r"\frac{e^{-x_i}}{\sum_j e^{-x_j}}"


class LogSoftmax(_AlongDim, function=ops.log_softmax, torchs=torch.nn.LogSoftmax):
    """Logarithm of softmax along ``dim``, computed without overflow."""


class Softmax2d(Block, function=ops.softmax, dims=(3, 4)):
    """Softmax over the channels at each place of an image.

    Shapes: input and output (N, C, H, W) or (C, H, W).
    """

    def forward(self, input: Tensor) -> Any:
        if input.ndim not in self._dims:
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return self._function(input, dim=-3)


class PReLU(Module):
    """LeakyReLU that learns its slope, one for all channels or one for each (He et al. 2015).

    Shapes: output as input; weight (num_parameters,), for the channels in the input's second dimension.

    Args:
        num_parameters: 1, or the number of channels.
        init: the slope that it starts with.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
    """

    __formula__ = r"x \text{ where } x > 0 \text{, else } a x"

    @adopting(torch.nn.PReLU)
    def __init__(self, num_parameters: int, init: float, **place: Any) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = uninitialized(num_parameters, **place)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start again with the slope ``init``."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Any:
        return ops.prelu(input, self.weight)

    def _misfit(self, input: Tensor) -> str | None:
        channels = input.shape[1] if input.ndim > 1 else 1
        if self.num_parameters in {1, channels}:
            return None
        return f"expected {self.num_parameters} channels, got {channels}, {of_shape(input)}"

    extra_repr = showing(torch.nn.PReLU)

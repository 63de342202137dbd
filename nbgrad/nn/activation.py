"""Activations as blocks: the nonlinear functions between layers.

Shapes: output as input, unless the docstring says otherwise.
"""

import warnings
from dataclasses import InitVar
from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.core.ops import torch_signatures
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.function_block import Block, of_shape, settings
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import uninitialized


@settings("{in_place}")
class ReLU(Block, function=torch_signatures.relu):
    """The rectified linear unit: x where it is positive, 0 elsewhere (Nair and Hinton 2010).

    Args:
        inplace: overwrite the input; here as in all activations.
    """

    inplace: bool = False


@settings("{in_place}")
class ReLU6(Block, function=torch_signatures.relu6):
    """ReLU cut off at 6, so that few bits hold it (Howard et al. 2017)."""

    inplace: bool = False


@settings("negative_slope={negative_slope}, {in_place}")
class LeakyReLU(Block, function=torch_signatures.leaky_relu):
    """ReLU with a slope for negative numbers, so that no unit dies (Maas et al. 2013)."""

    negative_slope: float = 1e-2
    inplace: bool = False


@settings("lower={lower}, upper={upper}, {in_place}")
class RReLU(Block, function=torch_signatures.rrelu):
    """LeakyReLU whose slope is drawn for each number in training, and is the mean in evaluation (Xu et al. 2015)."""

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


@settings("alpha={alpha}, {in_place}")
class ELU(Block, function=torch_signatures.elu):
    """The exponential linear unit: x where it is positive, alpha (exp(x) - 1) elsewhere (Clevert et al. 2015)."""

    alpha: float = 1.0
    inplace: bool = False


@settings("alpha={alpha}, {in_place}")
class CELU(Block, function=torch_signatures.celu):
    """ELU with a derivative that has no jump: alpha (exp(x / alpha) - 1) for negative x (Barron 2017)."""

    alpha: float = 1.0
    inplace: bool = False


@settings("{in_place}")
class SELU(Block, function=torch_signatures.selu):
    """ELU scaled so that values keep mean 0 and variance 1 from layer to layer (Klambauer et al. 2017)."""

    inplace: bool = False


@settings("{in_place}")
class SiLU(Block, function=torch_signatures.silu):
    """The sigmoid linear unit, also called swish: x times its sigmoid (Hendrycks and Gimpel 2016)."""

    inplace: bool = False


@settings("{in_place}")
class Mish(Block, function=torch_signatures.mish):
    """x times the tanh of its softplus (Misra 2019)."""

    inplace: bool = False


@settings()
class Hardsigmoid(Block, function=torch_signatures.hardsigmoid):
    """The sigmoid as three straight lines: 0 below -3, 1 above 3 (Courbariaux et al. 2015)."""

    inplace: bool = False


@settings()
class Hardswish(Block, function=torch_signatures.hardswish):
    """x times its hard sigmoid (Howard et al. 2019)."""

    inplace: bool = False


@settings("min_val={min_val}, max_val={max_val}, {in_place}")
class Hardtanh(Block, function=torch_signatures.hardtanh):
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

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: InitVar[float | None] = None
    max_value: InitVar[float | None] = None

    def __post_init__(self, min_value: float | None, max_value: float | None) -> None:
        for old, name, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(f"keyword argument {old} is deprecated: write {name}", FutureWarning, stacklevel=4)
                setattr(self, name, value)
        if self.max_val <= self.min_val:
            raise AssertionError("max_val must be larger than min_val")


@settings("threshold={threshold}, value={value}, {in_place}")
class Threshold(Block, function=torch_signatures.threshold):
    """x where it is above ``threshold``, ``value`` elsewhere."""

    threshold: float
    value: float
    inplace: bool = False


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


@settings("beta={beta}, threshold={threshold}")
class Softplus(Block, function=ops.softplus):
    """A smooth ReLU: log(1 + exp(beta x)) / beta, and x itself where beta x is above ``threshold``."""

    beta: float = 1.0
    threshold: float = 20.0


@settings("{lambd}")
class Hardshrink(Block, function=ops.hardshrink):
    """x where its size is above ``lambd``, 0 elsewhere."""

    lambd: float = 0.5


@settings("{lambd}")
class Softshrink(Block, function=ops.softshrink):
    """x moved towards 0 by ``lambd``; 0 if its size is below ``lambd``."""

    lambd: float = 0.5


@settings("approximate={approximate!r}")
class GELU(Block, function=ops.gelu):
    """x times the probability that a standard normal number is below x (Hendrycks and Gimpel 2016).

    Args:
        approximate: "none", or "tanh" for the formula of GPT-2.
    """

    approximate: str = "none"


@settings("dim={dim}")
class GLU(Block, function=ops.glu):
    """The gated linear unit: one half of the input times the sigmoid of the other (Dauphin et al. 2016).

    Shapes: output as input, but half as long in ``dim``.
    """

    dim: int = -1


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


@settings("dim={dim}")
class Softmax(_AlongDim, function=ops.softmax):
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1."""

    dim: int | None = None


@settings("dim={dim}")
class Softmin(_AlongDim, function=ops.softmin):
    """Softmax of the negative scores: the smallest score gets the largest probability."""

    __formula__ = r"\frac{e^{-x_i}}{\sum_j e^{-x_j}}"

    dim: int | None = None


@settings("dim={dim}")
class LogSoftmax(_AlongDim, function=ops.log_softmax):
    """Logarithm of softmax along ``dim``, computed without overflow."""

    dim: int | None = None


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

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = uninitialized(num_parameters, device=device, dtype=dtype)
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

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"

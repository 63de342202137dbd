"""The exponential linear units: positive numbers stay, negative ones bend to a limit."""

from typing import Any

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.choosing import where
from nbgrad.core.samples import alike, at, varied

_nn: Any = torch._C._nn
_torch: Any = torch  # its functions that change their input return it

_ALPHA = 1.6732632423543772848170429916717
_SCALE = 1.0507009873554804934193349852946


@op(
    formula=r"x \text{ where } x > 0 \text{, else } \alpha (e^{x} - 1)",
    samples=varied(at(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}, {"alpha": -2.0}),
    inplace=_nn.elu_,
)
def elu(input, *, alpha=1.0):
    """The exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``.

    Negative outputs bring the mean of a layer near 0, which speeds up learning (Clevert et al. 2015,
    https://arxiv.org/abs/1511.07289).

    Shapes: output as input.
    """
    return _nn.elu(input, alpha)


@elu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } \alpha e^{x} \bar{y}")
def _(g, input, alpha):
    return elu_backward(g, input, alpha=alpha)


@op(
    formula=r"\alpha (e^{x / \alpha} - 1) \text{ where } x \leq 0 \text{, else } x",
    samples=varied(at(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}),
    inplace=_torch.celu_,
)
def celu(input, *, alpha=1.0):
    """An elu whose slope is 1 on both sides of 0 whatever ``alpha`` is.

    So the gradient has no jump at 0 (Barron 2017, https://arxiv.org/abs/1704.07483).

    Shapes: output as input. Raises RuntimeError where alpha is 0.
    """
    return torch.celu(input, alpha)


@celu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } e^{x / \alpha} \bar{y}")
def _(g, input, alpha):
    return elu_backward(g, input, alpha=alpha, input_scale=1 / alpha)


@op(
    formula=r"\lambda x \text{ where } x > 0 \text{, else } \lambda \alpha (e^{x} - 1)",
    samples=at(-30.0, -1.0, 0.0, 1.0),
    inplace=_torch.selu_,
)
def selu(input):
    """The scaled elu whose two constants keep mean 0 and variance 1 from layer to layer.

    Self-normalizing networks need no other normalization (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input.
    """
    return torch.selu(input)


@selu.rule("input", r"\lambda \bar{y} \text{ where } x > 0 \text{, else } \lambda \alpha e^{x} \bar{y}")
def _(g, input):
    return elu_backward(g, input, alpha=_ALPHA, scale=_SCALE)


@op(
    formula=r"s g \text{ where } x > 0 \text{, else } s \alpha k e^{k x} g",
    samples=varied(
        alike(-30.0, -1.0, 0.0, 1.0), {"alpha": 0.5}, {"alpha": _ALPHA, "scale": _SCALE}, {"alpha": 2, "input_scale": 3}
    ),
    reference=lambda g, x, alpha=1.0, scale=1.0, input_scale=1.0: aten.elu_backward(
        g, alpha, scale, input_scale, False, x
    ),
)
def elu_backward(g, x, *, alpha=1.0, scale=1.0, input_scale=1.0):
    """The gradient of elu, celu and selu, from their input: k is ``input_scale``.

    Shapes: g and x alike, output as g.
    """
    return aten.elu_backward(g, alpha, scale, input_scale, False, x)


@elu_backward.rule("g", r"s \bar{y} \text{ where } x > 0 \text{, else } s \alpha k e^{k x} \bar{y}")
def _(g, x, alpha, scale, input_scale):
    return elu_backward(g, x, alpha=alpha, scale=scale, input_scale=input_scale)


@elu_backward.rule("x", r"s \alpha k^2 e^{k x} \bar{y} \odot g \text{ where } x < 0 \text{, else } 0")
def _(gradient, g, x, alpha, scale, input_scale):
    curved = elu_backward(gradient * g, x, alpha=alpha, scale=scale, input_scale=input_scale) * input_scale
    return where(x < 0, curved, 0.0)


elu_ = elu.in_place
celu_ = celu.in_place
selu_ = selu.in_place

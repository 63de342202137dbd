"""Activations made of straight pieces: cheap relatives of tanh, sigmoid and silu, and shrinkage."""

from typing import Any

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.samples import alike, at, varied

_nn: Any = torch._C._nn


@op(
    formula=r"\min(\max(x, a), b)",
    samples=varied(at(-2.0, -1.0, 0.0, 1.0, 2.0), {"min_val": -0.5, "max_val": 2.0}),
    inplace=_nn.hardtanh_,
)
def hardtanh(input, *, min_val=-1.0, max_val=1.0):
    """Cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces.

    On and beyond the bounds its gradient is 0, as torch has it.

    Shapes: output as input. Raises ValueError where min_val exceeds max_val.
    """
    if min_val > max_val:
        raise ValueError(f"min_val is to be at most max_val, not {min_val} and {max_val}")
    return _nn.hardtanh(input, min_val, max_val)


@hardtanh.rule("input", r"\bar{y} \text{ where } a < x < b \text{, else } 0")
def _(g, input, min_val, max_val):
    return hardtanh_backward(g, input, min_val=min_val, max_val=max_val)


@op(
    formula=r"g \text{ where } a < x < b \text{, else } 0",
    flat=("x",),
    samples=varied(alike(-2.0, -1.0, 0.0, 1.0, 2.0), {"min_val": -0.5, "max_val": 2.0}),
    reference=lambda g, x, min_val=-1.0, max_val=1.0: aten.hardtanh_backward(g, x, min_val, max_val),
)
def hardtanh_backward(g, x, *, min_val=-1.0, max_val=1.0):
    """The gradient of hardtanh and relu6: g strictly between the bounds, 0 elsewhere.

    Shapes: g and x alike, output as g.
    """
    return aten.hardtanh_backward(g, x, min_val, max_val)


@hardtanh_backward.rule("g", r"\bar{y} \text{ where } a < x < b \text{, else } 0")
def _(g, x, min_val, max_val):
    return hardtanh_backward(g, x, min_val=min_val, max_val=max_val)


@op(formula=r"\min(\max(x, 0), 6)", samples=at(-1.0, 0.0, 3.0, 6.0, 7.0), inplace=_nn.relu6_)
def relu6(input):
    """A relu that stops at 6.

    MobileNet uses it, since small numbers keep their precision in few bits (Howard et al. 2017,
    https://arxiv.org/abs/1704.04861).

    Shapes: output as input.
    """
    return _nn.relu6(input)


@relu6.rule("input", r"\bar{y} \text{ where } 0 < x < 6 \text{, else } 0")
def _(g, input):
    return hardtanh_backward(g, input, min_val=0.0, max_val=6.0)


@op(
    formula=r"\min(\max(\tfrac{x}{6} + \tfrac12, 0), 1)",
    samples=at(-4.0, -3.0, 0.0, 3.0, 4.0),
    reference=lambda x: _nn.hardtanh(x, -3, 3) / 6 + 0.5,  # torch's own has no second-order gradient
    inplace=_nn.hardsigmoid_,
)
def hardsigmoid(input):
    """The logistic function made of straight pieces: 0 below -3, 1 above 3.

    The gates of MobileNetV3 are such (Howard et al. 2019, https://arxiv.org/abs/1905.02244): no exponential to compute.

    Shapes: output as input.
    """
    return _nn.hardsigmoid(input)


@hardsigmoid.rule("input", r"\tfrac16 \bar{y} \text{ where } -3 < x < 3 \text{, else } 0")
def _(g, input):
    return hardsigmoid_backward(g, input)


@op(
    formula=r"\tfrac16 g \text{ where } -3 < x < 3 \text{, else } 0",
    flat=("x",),
    samples=alike(-4.0, -3.0, 0.0, 3.0, 4.0),
    reference=lambda g, x: aten.hardtanh_backward(g, x, -3, 3) / 6,  # torch's own cannot be differentiated
)
def hardsigmoid_backward(g, x):
    """The gradient of hardsigmoid, from its input.

    Shapes: g and x alike, output as g.
    """
    if g.dtype is torch.float64:  # torch's kernel multiplies by a sixth of seven digits
        return aten.hardtanh_backward(g, x, -3, 3).div_(6)
    return aten.hardsigmoid_backward(g, x)


@hardsigmoid_backward.rule("g", r"\tfrac16 \bar{y} \text{ where } -3 < x < 3 \text{, else } 0")
def _(g, x):
    return hardsigmoid_backward(g, x)


@op(
    formula=r"\tfrac{x}{6} \min(\max(x + 3, 0), 6)",
    samples=at(-4.0, -3.0, 0.0, 3.0, 4.0),
    inplace=_nn.hardswish_,
)
def hardswish(input):
    """The input times its hardsigmoid: silu without an exponential.

    The activation of MobileNetV3 (Howard et al. 2019, https://arxiv.org/abs/1905.02244).

    Shapes: output as input.
    """
    return _nn.hardswish(input)


@hardswish.rule(
    "input", r"\bar{y} \text{ where } x \geq 3, \; (\tfrac{x}{3} + \tfrac12) \bar{y} \text{ where } |x| < 3"
)
def _(g, input):
    return hardswish_backward(g, input)


@op(
    formula=r"g \text{ where } x \geq 3, \; (\tfrac{x}{3} + \tfrac12) g \text{ where } |x| < 3 \text{, else } 0",
    samples=alike(-4.0, -3.0, 0.0, 3.0, 4.0),
    reference=aten.hardswish_backward,
)
def hardswish_backward(g, x):
    """The gradient of hardswish, from its input.

    Shapes: g and x alike, output as g.
    """
    return aten.hardswish_backward(g, x)


@hardswish_backward.rule(
    "g", r"\bar{y} \text{ where } x \geq 3, \; (\tfrac{x}{3} + \tfrac12) \bar{y} \text{ where } |x| < 3"
)
def _(g, x):
    return hardswish_backward(g, x)


@hardswish_backward.rule("x", r"\tfrac13 \bar{y} \odot g \text{ where } |x| < 3 \text{, else } 0")
def _(gradient, g, x):
    return hardsigmoid_backward(2 * gradient * g, x)


@op(
    formula=r"x \text{ where } |x| > \lambda \text{, else } 0",
    samples=varied(at(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
)
def hardshrink(input, *, lambd=0.5):
    """The input where it is more than ``lambd`` away from 0, 0 elsewhere.

    Hard thresholding keeps the large coefficients of a sparse code as they are.

    Shapes: output as input.
    """
    return torch.hardshrink(input, lambd)


@hardshrink.rule("input", r"\bar{y} \text{ where } |x| > \lambda \text{, else } 0")
def _(g, input, lambd):
    return shrink_backward(g, input, lambd=lambd)


@op(
    formula=r"x - \lambda \operatorname{sgn} x \text{ where } |x| > \lambda \text{, else } 0",
    samples=varied(at(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
)
def softshrink(input, *, lambd=0.5):
    """The input moved towards 0 by ``lambd``, 0 where it is nearer.

    One step of the search for a sparse code (ISTA) ends with it; it is the proximal map of the absolute value.

    Shapes: output as input. Raises RuntimeError where lambd is negative.
    """
    return _nn.softshrink(input, lambd)


@softshrink.rule("input", r"\bar{y} \text{ where } |x| > \lambda \text{, else } 0")
def _(g, input, lambd):
    return shrink_backward(g, input, lambd=lambd)


@op(
    formula=r"g \text{ where } |x| > \lambda \text{, else } 0",
    flat=("x",),
    samples=varied(alike(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
    reference=lambda g, x, lambd=0.5: aten.hardshrink_backward(g, x, lambd),
)
def shrink_backward(g, x, *, lambd=0.5):
    """The gradient of hardshrink and of softshrink: g where x is more than ``lambd`` away from 0, 0 elsewhere.

    Shapes: g and x alike, output as g.
    """
    return aten.hardshrink_backward(g, x, lambd)


@shrink_backward.rule("g", r"\bar{y} \text{ where } |x| > \lambda \text{, else } 0")
def _(g, x, lambd):
    return shrink_backward(g, x, lambd=lambd)


hardtanh_ = hardtanh.in_place

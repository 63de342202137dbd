"""Relu, and other activations that are linear in pieces."""

from math import inf
from typing import Any

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, alike, at, unary, varied
from nbgrad.core.engine.broadcast import for_channels, reduction
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.shape.views import reshape, sum_to_size

_nn: Any = torch._C._nn
_torch: Any = torch  # its in-place functions return their input


@op(
    formula=r"\max(x, 0)",
    kernel=torch.relu,
    samples=at(-1.0, 0.0, 1.0),
    inplace=True,
    traits=Traits(flat=True, interval=(0.0, inf)),
)
def relu(input):
    """The rectified linear unit: x where it is positive, 0 elsewhere.

    The usual activation of deep networks (Nair and Hinton 2010): where it is open the gradient passes undamped, so it
    does not vanish with depth; where it is shut the unit learns nothing. At 0 its gradient is 0, as torch has it.

    Shapes: output as input.
    """


@relu.rule("input", r"\bar{y} \text{ where } y > 0 \text{, else } 0")
def _(g, out):
    return threshold_backward(g, out)


def _thresholds(make: Make):
    """Every shape, and exactly at the threshold."""
    yield from (Sample.of(*sample.args, threshold=0.1, value=-3.0) for sample in unary(make))
    yield Sample.of(torch.tensor([-1.0, 0.5, 1.0], dtype=torch.float64), threshold=0.5, value=2.0)


@op(
    formula=r"x \text{ where } x > t \text{, else } v",
    inplace=_torch.threshold_,
    samples=_thresholds,
    traits=Traits(flat=True),
)
def threshold(input, *, threshold, value):
    """The input where it exceeds ``threshold``, ``value`` elsewhere.

    With 0 for both numbers it is relu.

    Shapes: output as input.
    """
    return torch.threshold(input, threshold, value)


@threshold.rule("input", r"\bar{y} \text{ where } x > t \text{, else } 0")
def _(g, input, threshold):
    return threshold_backward(g, input, threshold=threshold)


@op(
    formula=r"g \text{ where } x > t \text{, else } 0",
    flat=("x",),
    samples=varied(alike(-1.0, 0.0, 1.0), {"threshold": -1.0}),
)
def threshold_backward(g, x, *, threshold=0):
    """The gradient of relu and of threshold: g where x exceeds ``threshold``, 0 elsewhere.

    Shapes: g and x alike, output as g.
    """
    return aten.threshold_backward(g, x, threshold)


@threshold_backward.rule("g", r"\bar{y} \text{ where } x > t \text{, else } 0")
def _(g, x, threshold):
    return threshold_backward(g, x, threshold=threshold)


@op(
    formula=r"x \text{ where } x > 0 \text{, else } \alpha x",
    kernel=_nn.leaky_relu,
    samples=varied(at(-1.0, 0.0, 1.0), {"negative_slope": 0.3}, {"negative_slope": -0.5}),
    inplace=_nn.leaky_relu_,
)
def leaky_relu(input, *, negative_slope=0.01):
    """The input where it is positive, ``negative_slope`` times it elsewhere.

    A relu that never shuts entirely, so no unit dies (Maas et al. 2013); usual in the discriminators of GANs.

    Shapes: output as input.
    """


@leaky_relu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } \alpha \bar{y}")
def _(g, input, negative_slope):
    return leaky_relu_backward(g, input, negative_slope=negative_slope)


@op(
    formula=r"g \text{ where } x > 0 \text{, else } \alpha g",
    flat=("x",),
    samples=varied(alike(-1.0, 0.0, 1.0), {"negative_slope": 0.3}, {"negative_slope": -0.5}),
)
def leaky_relu_backward(g, x, *, negative_slope=0.01):
    """The gradient of leaky_relu, from its input.

    Shapes: g and x alike, output as g.
    """
    return aten.leaky_relu_backward(g, x, negative_slope, False)


@leaky_relu_backward.rule("g", r"\bar{y} \text{ where } x > 0 \text{, else } \alpha \bar{y}")
def _(g, x, negative_slope):
    return leaky_relu_backward(g, x, negative_slope=negative_slope)


def _slopes(make: Make):
    """One slope for all, also as a single number, and one slope per channel."""
    for sample in unary(make):
        yield Sample.of(*sample.args, make(1))
    yield Sample.of(make(2, 3), make())
    yield Sample.of(make(2, 3), make(3))
    yield Sample.of(make(2, 3, 2), make(3))
    yield Sample.of(make(2, 3, 1, 2), make(3))
    yield Sample.of(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), make(1))


def _over_slopes(output, weight):
    """The sums for the slope of each channel, or for the one slope of all."""
    if weight not in ((), (1,)):
        return for_channels(output, weight)
    return reduction(output, weight) if output != weight else None


@op(
    formula=r"x \text{ where } x > 0 \text{, else } w x",
    kernel=torch.prelu,
    sums={"weight": _over_slopes},
    samples=_slopes,
)
def prelu(input, weight):
    """The input where it is positive, ``weight`` times it elsewhere, where the weight is learned.

    One slope for all, or one per channel (He et al. 2015, https://arxiv.org/abs/1502.01852).

    Shapes: input any; weight (), (1,) or (C,) with C the size of the second dimension of input; output as input.
    Raises RuntimeError where the weight is neither.
    """


@prelu.joint_rule(
    input=r"\bar{y} \text{ where } x > 0 \text{, else } w \bar{y}",
    weight=r"\sum x \bar{y} \text{ where } x \leq 0",
)
def _(g, needed, input, weight):
    shape = [1] * len(input.shape)
    if len(shape) > 1:
        shape[1] = -1  # the channels; weight has one number or one for each
    aligned = reshape(weight, shape=tuple(shape))
    for_input, for_weight = prelu_backward(g, input, aligned)
    if needed[1]:
        for_weight = reshape(sum_to_size(for_weight, size=tuple(aligned.shape)), shape=tuple(weight.shape))
    return for_input, for_weight


def _slopes_and_gradients(make: Make):
    for sample in unary(make):
        (x,) = sample.args
        yield Sample.of(make(*x.shape), x, make(*[1] * x.ndim))
    yield Sample.of(make(2, 3, 2), make(2, 3, 2), make(1, 3, 1))
    yield Sample.of(make(3), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), make(1))


@op(
    formula=r"g \text{ where } x > 0 \text{, else } w g; \quad 0 \text{ where } x > 0 \text{, else } x g",
    symbols={"weight": "w", "g_input": r"\bar{y}_1", "g_weight": r"\bar{y}_2"},
    outputs=("input", "weight"),
    broadcasts=("weight",),
    samples=_slopes_and_gradients,
)
def prelu_backward(g, x, weight):
    """The gradients of prelu for its input and, before they are added up, for its slopes.

    Shapes: g and x alike, weight broadcasts to them; both outputs as g.
    """
    return aten._prelu_kernel_backward(g, x, weight)


@prelu_backward.joint_rule(
    g=r"\bar{y}_1 \text{ where } x > 0 \text{, else } w \bar{y}_1 + x \bar{y}_2",
    x=r"0 \text{ where } x > 0 \text{, else } g \bar{y}_2",
    weight=r"0 \text{ where } x > 0 \text{, else } g \bar{y}_1",
)
def _(g_input, g_weight, needed, g, x, weight):
    positive = x >= 0  # at 0 itself torch's second order takes the other side than its first
    left = None if g_input is None else g_input * weight
    if g_weight is not None:
        left = g_weight * x if left is None else left + g_weight * x
    none = g.new_zeros(tuple(g.shape))  # for an output that was not used: zeros and not nothing, as in torch
    return (
        where(positive, 0.0 if g_input is None else g_input, left),
        none if g_weight is None else where(positive, 0.0, g_weight * g),
        none if g_input is None else where(positive, 0.0, g_input * g),
    )


# Training draws slopes. With equal bounds there is one slope, so tests can compare. Other tests are for the draw.
_FIXED = {"lower": 0.25, "upper": 0.25, "training": True}


@op(
    random=True,
    formula=r"x \text{ where } x > 0 \text{, else } a x",
    aux=("noise",),
    samples=varied(at(-1.0, 0.0, 1.0), {"lower": 0.2, "upper": 0.4}, _FIXED),
)
def rrelu(input, *, lower=1 / 8, upper=1 / 3, training=False):
    """A leaky relu whose slope is drawn for each element between ``lower`` and ``upper``; in evaluation, their mean.

    The noise regularizes (Xu et al. 2015, https://arxiv.org/abs/1505.00853).

    Shapes: output as input. Raises RuntimeError where lower exceeds upper.
    """
    noise = torch.empty_like(input)  # the kernel writes the slopes into it
    return aten.rrelu_with_noise(input, noise, lower, upper, training), noise


@rrelu.rule("input", r"\bar{y} \text{ where } x > 0 \text{, else } a \bar{y}")
def _(g, input, noise, lower, upper, training):
    return rrelu_with_noise_backward(g, input, noise, lower=lower, upper=upper, training=training)


def _drawn(make: Make):
    for sample in alike(-1.0, 0.0, 1.0)(make):
        g, x = sample.args
        for training in (False, True):
            yield Sample.of(g, x, torch.where(x > 0, 1.0, 0.25 + 0 * x), lower=0.2, upper=0.4, training=training)
    yield Sample.of(g, x, torch.ones_like(x), lower=0.5, upper=0.9, training=False)


@op(
    formula=r"g \text{ where } x > 0 \text{, else } a g",
    symbols={"noise": "a"},
    no_gradient=("noise",),
    flat=("x",),
    samples=_drawn,
    reference=lambda g, x, noise, **settings: aten.rrelu_with_noise_backward(
        g, x, noise, **settings, self_is_result=False
    ),
)
def rrelu_with_noise_backward(g, x, noise, *, lower, upper, training):
    """The gradient of rrelu, from its input and the slopes that were drawn.

    Shapes: g, x and noise alike, output as g.
    """
    return aten.rrelu_with_noise_backward(g, x, noise, lower, upper, training, False)


@rrelu_with_noise_backward.rule("g", r"\bar{y} \text{ where } x > 0 \text{, else } a \bar{y}")
def _(g, x, noise, lower, upper, training):
    return rrelu_with_noise_backward(g, x, noise, lower=lower, upper=upper, training=training)


def rrelu_(input, lower=1 / 8, upper=1 / 3, training=False):
    """In place: rrelu, which is a product with the slopes drawn, and a leaky relu where none are drawn."""
    if not training:
        return leaky_relu.in_place(input, negative_slope=(lower + upper) / 2)
    raw = raw_of(input)
    noise = torch.empty_like(raw)
    aten.rrelu_with_noise(raw, noise, lower, upper, training)
    return input.mul_(noise)


threshold_ = threshold.in_place
leaky_relu_ = leaky_relu.in_place
relu_ = relu.in_place
_threshold = threshold  # the __name__ of torch's function


@op(
    formula=r"\min(\max(x, a), b)",
    symbols={"min_val": "a", "max_val": "b"},
    samples=varied(at(-2.0, -1.0, 0.0, 1.0, 2.0), {"min_val": -1.5, "max_val": 2.0}),
    inplace=_nn.hardtanh_,
    traits=Traits(flat=True),
)
def hardtanh(input, *, min_val=-1.0, max_val=1.0):
    """Cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces.

    On and beyond the bounds its gradient is 0, as torch has it.

    Shapes: output as input. Raises ValueError where min_val exceeds max_val.
    """
    if min_val > max_val:
        raise ValueError(f"min_val must be at most max_val, not {min_val} and {max_val}")
    return _nn.hardtanh(input, min_val, max_val)


@hardtanh.rule("input", r"\bar{y} \text{ where } a < x < b \text{, else } 0")
def _(g, input, min_val, max_val):
    return hardtanh_backward(g, input, min_val=min_val, max_val=max_val)


@op(
    formula=r"g \text{ where } a < x < b \text{, else } 0",
    symbols={"min_val": "a", "max_val": "b"},
    flat=("x",),
    samples=varied(alike(-2.0, -1.0, 0.0, 1.0, 2.0), {"min_val": -1.5, "max_val": 2.0}),
)
def hardtanh_backward(g, x, *, min_val=-1.0, max_val=1.0):
    """The gradient of hardtanh and relu6: g strictly between the bounds, 0 elsewhere.

    Shapes: g and x alike, output as g.
    """
    return aten.hardtanh_backward(g, x, min_val, max_val)


@hardtanh_backward.rule("g", r"\bar{y} \text{ where } a < x < b \text{, else } 0")
def _(g, x, min_val, max_val):
    return hardtanh_backward(g, x, min_val=min_val, max_val=max_val)


@op(
    formula=r"\min(\max(x, 0), 6)",
    kernel=_nn.relu6,
    samples=at(-1.0, 0.0, 3.0, 6.0, 7.0),
    inplace=_nn.relu6_,
    traits=Traits(flat=True, interval=(0.0, 6.0)),
)
def relu6(input):
    """A relu that stops at 6.

    MobileNet uses it, since small numbers keep their precision in few bits (Howard et al. 2017,
    https://arxiv.org/abs/1704.04861).

    Shapes: output as input.
    """


@relu6.rule("input", r"\bar{y} \text{ where } 0 < x < 6 \text{, else } 0")
def _(g, input):
    return hardtanh_backward(g, input, min_val=0.0, max_val=6.0)


@op(
    formula=r"\min(\max(\tfrac{x}{6} + \tfrac12, 0), 1)",
    kernel=_nn.hardsigmoid,
    samples=at(-4.0, -3.0, 0.0, 3.0, 4.0),
    reference=lambda x: _nn.hardtanh(x, -3, 3) / 6 + 0.5,  # torch's own has no second-order gradient
    inplace=_nn.hardsigmoid_,
    traits=Traits(flat=True, interval=(0.0, 1.0)),
)
def hardsigmoid(input):
    """The logistic function made of straight pieces: 0 below -3, 1 above 3.

    MobileNetV3 uses it in its gates (Howard et al. 2019, https://arxiv.org/abs/1905.02244): it needs no exponential.

    Shapes: output as input.
    """


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
    if g.dtype is torch.float64:  # torch's kernel multiplies by 1/6 rounded to seven digits
        return aten.hardtanh_backward(g, x, -3, 3).div_(6)
    return aten.hardsigmoid_backward(g, x)


@hardsigmoid_backward.rule("g", r"\tfrac16 \bar{y} \text{ where } -3 < x < 3 \text{, else } 0")
def _(g, x):
    return hardsigmoid_backward(g, x)


@op(
    formula=r"\tfrac{x}{6} \min(\max(x + 3, 0), 6)",
    kernel=_nn.hardswish,
    samples=at(-4.0, -3.0, 0.0, 3.0, 4.0),
    inplace=_nn.hardswish_,
    traits=Traits(flat=True),
)
def hardswish(input):
    """The input times its hardsigmoid: silu without an exponential.

    The activation of MobileNetV3 (Howard et al. 2019, https://arxiv.org/abs/1905.02244).

    Shapes: output as input.
    """


@hardswish.rule(
    "input", r"\bar{y} \text{ where } x \geq 3, \; (\tfrac{x}{3} + \tfrac12) \bar{y} \text{ where } |x| < 3"
)
def _(g, input):
    return hardswish_backward(g, input)


@op(
    formula=r"g \text{ where } x \geq 3, \; (\tfrac{x}{3} + \tfrac12) g \text{ where } |x| < 3 \text{, else } 0",
    samples=alike(-4.0, -3.0, 0.0, 3.0, 4.0),
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
    kernel=torch.hardshrink,
    samples=varied(at(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
    traits=Traits(flat=True),
)
def hardshrink(input, *, lambd=0.5):
    """The input where it is more than ``lambd`` away from 0, 0 elsewhere.

    Hard thresholding keeps the large coefficients of a sparse code as they are.

    Shapes: output as input.
    """


@hardshrink.rule("input", r"\bar{y} \text{ where } |x| > \lambda \text{, else } 0")
def _(g, input, lambd):
    return shrink_backward(g, input, lambd=lambd)


@op(
    formula=r"x - \lambda \operatorname{sgn} x \text{ where } |x| > \lambda \text{, else } 0",
    kernel=_nn.softshrink,
    samples=varied(at(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
    traits=Traits(flat=True),
)
def softshrink(input, *, lambd=0.5):
    """The input moved towards 0 by ``lambd``, 0 where it is nearer.

    One step of the search for a sparse code (ISTA) ends with it; it is the proximal map of the absolute value.

    Shapes: output as input. Raises RuntimeError where lambd is negative.
    """


@softshrink.rule("input", r"\bar{y} \text{ where } |x| > \lambda \text{, else } 0")
def _(g, input, lambd):
    return shrink_backward(g, input, lambd=lambd)


@op(
    formula=r"g \text{ where } |x| > \lambda \text{, else } 0",
    flat=("x",),
    samples=varied(alike(-1.0, -0.5, 0.0, 0.5, 1.0), {"lambd": 1.5}),
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

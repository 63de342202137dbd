"""Losses of regression: one number that says how far a prediction is from its target."""

import math

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.backend.autocast import any_enabled
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, varied
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.arithmetic import sub
from nbgrad.core.ops.elementwise.rounding import across, sgn
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.tensor.broadcast_check import unpaired, warn_unpaired

_nn = torch.nn.functional

REDUCTIONS = ("mean", "sum", "none")


def code(reduction):
    """The number that torch's kernels take for a reduction.

    Raises:
        ValueError: there is no such reduction.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
    return {"none": 0, "mean": 1, "sum": 2}[reduction]


def reduced(loss, reduction):
    """The mean or the sum of a loss, or the loss itself."""
    code(reduction)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def for_g(backward, gradient, *inputs, reduction, **settings):
    """The gradient with respect to g of ``backward``, a row that computes the gradient of a loss and is linear in g."""
    if reduction == "none":
        return backward(gradient, *inputs, reduction=reduction, **settings)
    one = torch.ones((), dtype=gradient.dtype, device=gradient.device)
    return (gradient * backward(one, *inputs, reduction=reduction, **settings)).sum()


def divided(g, reduction, shape):
    """The gradient of each element of a loss of ``shape``, from g, the gradient of its reduction."""
    return g / math.prod(shape) if reduction == "mean" and math.prod(shape) else g


def errors(make: Make):
    """Predictions and targets of one shape, every reduction; and one that holds ties."""
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2)):
        yield from (Sample.of(make(*shape), make(*shape), reduction=reduction) for reduction in REDUCTIONS)
    yield Sample.of(make(0, 3), make(0, 3), reduction="sum")
    yield Sample.of(
        torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    )


def with_gradients(samples, *changes):
    """Samples as ``varied`` makes them, each with a gradient of the output in front of its arguments."""

    def more(make: Make):
        for args, settings in varied(samples, *changes)(make):
            alone = settings.get("reduction", "mean") != "none"
            yield Sample.of(make(*() if alone else args[0].shape), *args, **{"reduction": "mean", **settings})

    return more


def warned(name, input, target):
    """A warning where (N, 1) meets (N,): torch stretches both here without a word."""
    if unpaired(input, target):
        warn_unpaired(name, *(raw_of(one) for one in (input, target)))


def in_full(*tensors):
    """Under autocast, half precision becomes float32: torch does this for loss functions, but not for their kernels."""
    if not any_enabled() or not torch.is_autocast_enabled(tensors[0].device.type):
        return tensors
    short = (torch.float16, torch.bfloat16)
    return [one.float() if one is not None and one.dtype in short else one for one in tensors]


def _paired(name, input, target):
    """Input and target in one shape, with a warning where that stretches one of them."""
    if input.shape != target.shape:
        warn_unpaired(name, input, target)
        input, target = torch.broadcast_tensors(input, target)
    return input, target


def _alike(g, input, target):
    """Input and target for a backward kernel, in one shape; truth values, which cannot be subtracted, as numbers."""
    input, target = (one.to(g.dtype) if one.dtype is torch.bool else one for one in (input, target))
    return torch.broadcast_tensors(input, target) if input.shape != target.shape else (input, target)


# The square.


@op(formula=r"\frac{1}{n} \sum_i (x_i - t_i)^2", broadcasts=True, samples=errors, traits=Traits(takes="values"))
def mse_loss(input, target, *, reduction="mean"):
    """Mean squared error between a prediction and its target.

    The loss of regression: its gradient is twice the error, so large errors pull hardest.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """
    input, target = _paired("mse_loss", input, target)
    return _nn.mse_loss(input, target, reduction=reduction)


@mse_loss.rule("input", r"\bar{y} \, \frac{2}{n} (x - t)")
def _(g, input, target, reduction):
    return mse_loss_backward(g, input, target, reduction=reduction)


@mse_loss.rule("target", r"-\bar{y} \, \frac{2}{n} (x - t)")
def _(g, input, target, reduction):
    return mse_loss_backward(g, target, input, reduction=reduction)


@op(
    formula=r"g \, \frac{2}{n} (x - t)",
    broadcasts=("input", "target"),
    samples=with_gradients(errors),
    reference=lambda g, x, t, reduction: aten.mse_loss_backward(g, x, t, code(reduction)),
)
def mse_loss_backward(g, input, target, *, reduction):
    """The gradient of mse_loss for its input; with input and target exchanged, the gradient for its target.

    Shapes: input and target broadcast to the output, g () or as the output with ``reduction="none"``.
    """
    input, target = _alike(g, input, target)
    return aten.mse_loss_backward(g, input, target, code(reduction))


@mse_loss_backward.rule("g", r"\frac{2}{n} \sum \bar{y} \odot (x - t)")
def _(gradient, input, target, reduction):
    return for_g(mse_loss_backward, gradient, input, target, reduction=reduction)


@mse_loss_backward.rule("input", r"\frac{2}{n} \bar{y} \, g")
def _(gradient, g, reduction):
    return gradient * divided(2 * g, reduction, gradient.shape)


@mse_loss_backward.rule("target", r"-\frac{2}{n} \bar{y} \, g")
def _(gradient, g, reduction):
    return gradient * divided(-2 * g, reduction, gradient.shape)


# The absolute value.


def _complex_errors(make: Make):
    """Errors of real numbers, of complex numbers, and of complex and real numbers together."""
    yield from errors(make)
    for reduction in REDUCTIONS:
        yield Sample.of(make.complex(2, 3), make.complex(2, 3), reduction=reduction)
    yield Sample.of(make.complex(2, 3), make(2, 3))
    yield Sample.of(make(3), make.complex(3), reduction="none")


@op(
    formula=r"\frac{1}{n} \sum_i |x_i - t_i|",
    broadcasts=True,
    holomorphic=False,
    aux=("difference",),
    samples=_complex_errors,
    traits=Traits(takes="values"),
)
def l1_loss(input, target, *, reduction="mean"):
    """Mean absolute error between a prediction and its target.

    Every error pulls with the same force however large it is, so outliers do not dominate; the best prediction is a
    median. Where the error is 0 so is the gradient.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """
    input, target = in_full(*_paired("l1_loss", input, target))
    difference = input - target
    return reduced(difference.abs(), reduction), difference


@l1_loss.rule("input", r"\bar{y} \, \frac{1}{n} \operatorname{sgn}(x - t)")
def _(g, input_path, target_path, difference, reduction):
    return l1_loss_backward(g, sub.known(difference, input_path, target_path), reduction=reduction)


@l1_loss.rule("target", r"-\bar{y} \, \frac{1}{n} \operatorname{sgn}(x - t)")
def _(g, input_path, target_path, difference, reduction):
    return l1_loss_backward(-g, sub.known(difference, input_path, target_path), reduction=reduction)


def _differences(make: Make):
    for (input, target), settings in _complex_errors(make):
        difference, settings = input - target, {"reduction": "mean", **settings}
        yield Sample.of(make(*difference.shape if settings["reduction"] == "none" else ()), difference, **settings)


def _l1_gradient(g, difference, reduction):
    return divided(g, reduction, difference.shape) * torch.sgn(difference)


@op(
    formula=r"g \, \frac{1}{n} \operatorname{sgn}(d)",
    symbols={"difference": "d"},
    holomorphic=False,
    samples=_differences,
)
def l1_loss_backward(g, difference, *, reduction):
    """The gradient of l1_loss for its input; with -g in place of g, the gradient for its target.

    Shapes: g real, () or as the difference with ``reduction="none"``; output as the difference.
    """
    return _l1_gradient(g, difference, reduction)


@l1_loss_backward.rule("g", r"\frac{1}{n} \sum \operatorname{Re}(\bar{y} \odot \overline{\operatorname{sgn}(d)})")
def _(gradient, difference, reduction):
    if difference.is_complex():
        found = (gradient * sgn(difference).conj()).real
        return found if reduction == "none" else divided(found.sum(), reduction, difference.shape)
    return for_g(l1_loss_backward, gradient, difference, reduction=reduction)


@l1_loss_backward.rule(
    "difference",
    r"0 \text{; for complex numbers the part of } \frac{\bar{y} \, g}{n |d|} \text{ perpendicular to } d",
)
def _(gradient, g, difference, reduction):
    if not difference.is_complex():
        return torch.zeros_like(raw_of(difference))
    return across(gradient * divided(g, reduction, difference.shape), difference, sgn(difference))


# Between the two.


@op(
    formula=r"\frac{1}{n} \sum_i \frac{(x_i - t_i)^2}{2 \beta} \text{ where } |x_i - t_i| < \beta \text{, else } "
    r"|x_i - t_i| - \frac{\beta}{2}",
    broadcasts=True,
    samples=varied(errors, {"beta": 0.5}, {"beta": 0.0}, {"beta": 2.0, "reduction": "none"}),
    traits=Traits(takes="values"),
)
def smooth_l1_loss(input, target, *, reduction="mean", beta=1.0):
    """Squared error for errors below ``beta``, absolute error beyond it.

    Detectors fit their boxes with it (Girshick 2015, https://arxiv.org/abs/1504.08083): an outlier pulls no harder than
    1, and near 0 the gradient vanishes smoothly.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """
    input, target = _paired("smooth_l1_loss", input, target)
    return _nn.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


@smooth_l1_loss.rule("input", r"\bar{y} \, \frac{1}{n} \min(\max(\frac{x - t}{\beta}, -1), 1)")
def _(g, input, target, reduction, beta):
    return _smooth_l1_gradient(g, input, target, reduction, beta)


@smooth_l1_loss.rule("target", r"-\bar{y} \, \frac{1}{n} \min(\max(\frac{x - t}{\beta}, -1), 1)")
def _(g, input, target, reduction, beta):
    return _smooth_l1_gradient(g, target, input, reduction, beta)


def _smooth_l1_gradient(g, input, target, reduction, beta):
    if beta == 0:
        return l1_loss_backward(g, input - target, reduction=reduction)
    return smooth_l1_loss_backward(g, input, target, reduction=reduction, beta=beta)


@op(
    formula=r"g \, \frac{1}{n} \min(\max(\frac{x - t}{\beta}, -1), 1)",
    broadcasts=("input", "target"),
    samples=with_gradients(errors, {"beta": 0.5}),
    reference=lambda g, x, t, reduction, beta=1.0: aten.smooth_l1_loss_backward(g, x, t, code(reduction), beta),
)
def smooth_l1_loss_backward(g, input, target, *, reduction, beta=1.0):
    """The gradient of smooth_l1_loss for its input; with input and target exchanged, the gradient for its target.

    Shapes: input and target broadcast to the output, g () or as the output with ``reduction="none"``.
    """
    input, target = _alike(g, input, target)
    return aten.smooth_l1_loss_backward(g, input, target, code(reduction), beta)


@smooth_l1_loss_backward.rule("g", r"\frac{1}{n} \sum \bar{y} \odot \min(\max(\frac{x - t}{\beta}, -1), 1)")
def _(gradient, input, target, reduction, beta):
    return for_g(smooth_l1_loss_backward, gradient, input, target, reduction=reduction, beta=beta)


def _curved(gradient, g, input, target, reduction, width):
    """The second-order gradient of a loss whose gradient is the error up to ``width``, and constant beyond it."""
    error = input - target
    return where(error * error < width * width, gradient * divided(g, reduction, gradient.shape), 0.0)


@smooth_l1_loss_backward.rule("input", r"\frac{1}{n \beta} \bar{y} \, g \text{ where } |x - t| < \beta")
def _(gradient, g, input, target, reduction, beta):
    return _curved(gradient, g / beta, input, target, reduction, beta)


@smooth_l1_loss_backward.rule("target", r"-\frac{1}{n \beta} \bar{y} \, g \text{ where } |x - t| < \beta")
def _(gradient, g, input, target, reduction, beta):
    return _curved(gradient, g / -beta, input, target, reduction, beta)


@op(
    formula=r"\frac{1}{n} \sum_i \frac{(x_i - t_i)^2}{2} \text{ where } |x_i - t_i| \leq \delta \text{, else } "
    r"\delta (|x_i - t_i| - \frac{\delta}{2})",
    broadcasts=True,
    samples=varied(errors, {"delta": 0.5}, {"delta": 2.0, "reduction": "none"}),
    traits=Traits(takes="values"),
)
def huber_loss(input, target, *, reduction="mean", delta=1.0):
    """Half the squared error for errors up to ``delta``; beyond that, linear with the slope ``delta``.

    The robust loss of statistics (Huber 1964); DQN learns with it (Mnih et al. 2015). It is smooth_l1_loss times delta.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """
    input, target = _paired("huber_loss", input, target)
    return _nn.huber_loss(input, target, reduction=reduction, delta=delta)


@huber_loss.rule("input", r"\bar{y} \, \frac{1}{n} \min(\max(x - t, -\delta), \delta)")
def _(g, input, target, reduction, delta):
    return huber_loss_backward(g, input, target, reduction=reduction, delta=delta)


@huber_loss.rule("target", r"-\bar{y} \, \frac{1}{n} \min(\max(x - t, -\delta), \delta)")
def _(g, input, target, reduction, delta):
    return huber_loss_backward(g, target, input, reduction=reduction, delta=delta)


@op(
    formula=r"g \, \frac{1}{n} \min(\max(x - t, -\delta), \delta)",
    broadcasts=("input", "target"),
    samples=with_gradients(errors, {"delta": 0.5}),
    reference=lambda g, x, t, reduction, delta=1.0: aten.huber_loss_backward(g, x, t, code(reduction), delta),
)
def huber_loss_backward(g, input, target, *, reduction, delta=1.0):
    """The gradient of huber_loss for its input; with input and target exchanged, the gradient for its target.

    Shapes: input and target broadcast to the output, g () or as the output with ``reduction="none"``.
    """
    input, target = _alike(g, input, target)
    return aten.huber_loss_backward(g, input, target, code(reduction), delta)


@huber_loss_backward.rule("g", r"\frac{1}{n} \sum \bar{y} \odot \min(\max(x - t, -\delta), \delta)")
def _(gradient, input, target, reduction, delta):
    return for_g(huber_loss_backward, gradient, input, target, reduction=reduction, delta=delta)


@huber_loss_backward.rule("input", r"\frac{1}{n} \bar{y} \, g \text{ where } |x - t| < \delta")
def _(gradient, g, input, target, reduction, delta):
    return _curved(gradient, g, input, target, reduction, delta)


@huber_loss_backward.rule("target", r"-\frac{1}{n} \bar{y} \, g \text{ where } |x - t| < \delta")
def _(gradient, g, input, target, reduction, delta):
    return _curved(gradient, -g, input, target, reduction, delta)

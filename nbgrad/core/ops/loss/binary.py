"""Losses for two classes: binary cross entropy of probabilities and of scores, and the logistic loss of signs."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Domain, Make, Sample
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.powers import log
from nbgrad.core.ops.elementwise.select import clamp_min
from nbgrad.core.ops.loss.regression import REDUCTIONS, code, divided, for_g, with_gradients
from nbgrad.core.ops.neural.activations import logsigmoid, sigmoid, sigmoid_backward

_nn = torch.nn.functional
_SHARES = Domain(0.1, 0.9)
_SHAPES = ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (0, 3))


def _answers(make: Make):
    """Predictions and shares of every shape, with each reduction, some with weights of the elements."""
    for shape in _SHAPES:
        yield Sample.of(make(*shape), make(*shape, domain=_SHARES), reduction="none")
    for reduction in REDUCTIONS:
        yield Sample.of(make(2, 3), make(2, 3, domain=_SHARES), reduction=reduction)
        yield Sample.of(make(2, 3), make(2, 3, domain=_SHARES), make(3, domain=_SHARES), reduction=reduction)


@op(
    formula=r"-\frac{1}{n} \sum_i w_i (t_i \ln x_i + (1 - t_i) \ln(1 - x_i))",
    kernel=_nn.binary_cross_entropy,
    domain=_SHARES,
    samples=_answers,
    traits=Traits(takes="probabilities"),
)
def binary_cross_entropy(input, target, weight=None, *, reduction="mean"):
    """How badly probabilities predict a yes or no: minus the log of the probability of the true answer.

    Scores before their sigmoid are better given to binary_cross_entropy_with_logits, which loses no precision. The
    logarithms count as at least -100.

    Shapes: input and target alike, between 0 and 1; weight broadcasts to them. Output (), or as input with
    ``reduction="none"``. Raises ValueError where input and target differ in shape.
    """


@binary_cross_entropy.rule("input", r"\bar{y} \, \frac{w}{n} \odot \frac{x - t}{x (1 - x)}")
def _(g, input, target, weight, reduction):
    return binary_cross_entropy_backward(g, input, target, weight, reduction=reduction)


@binary_cross_entropy.rule("target", r"\bar{y} \, \frac{w}{n} \odot (\ln(1 - x) - \ln x)")
def _(g, input, weight, reduction):
    slope = (log(1 - input) - log(input)) * divided(g, reduction, input.shape)
    return slope if weight is None else slope * weight


def _binary_gradient(g, input, target, weight, reduction):
    weight = None if weight is None else weight.expand(input.shape)
    return aten.binary_cross_entropy_backward(g, input, target, weight, code(reduction))


def _answers_and_gradients(make: Make):
    for args, settings in with_gradients(_answers)(make):
        yield Sample((*args, None)[:4], settings)


@op(
    formula=r"g \, \frac{w}{n} \odot \frac{x - t}{x (1 - x)}",
    domain=_SHARES,
    no_gradient=("weight",),
    samples=_answers_and_gradients,
)
def binary_cross_entropy_backward(g, input, target, weight, *, reduction):
    """The gradient of binary_cross_entropy for its input.

    Shapes: input and target alike, weight broadcasts to them, g () or as input with ``reduction="none"``; output as
    input.
    """
    return _binary_gradient(g, input, target, weight, reduction)


@binary_cross_entropy_backward.rule("g", r"\frac{1}{n} \sum \bar{y} \odot w \odot \frac{x - t}{x (1 - x)}")
def _(gradient, input, target, weight, reduction):
    return for_g(binary_cross_entropy_backward, gradient, input, target, weight, reduction=reduction)


@binary_cross_entropy_backward.rule(
    "input", r"\bar{y} \odot g \, \frac{w}{n} \odot \frac{x^2 - 2 x t + t}{x^2 (1 - x)^2}"
)
def _(gradient, g, input, target, weight, reduction):
    spread = _spread(input)
    curved = (input * input - 2 * (input * target) + target) / (spread * spread)
    curved = gradient * divided(g, reduction, input.shape) * curved
    return curved if weight is None else curved * weight


@binary_cross_entropy_backward.rule("target", r"-\bar{y} \odot g \, \frac{w}{n} \odot \frac{1}{x (1 - x)}")
def _(gradient, g, input, weight, reduction):
    slope = gradient * divided(-g, reduction, input.shape) / _spread(input)
    return slope if weight is None else slope * weight


def _spread(input):
    """The variance of a yes or no of that probability; at 0 and 1 the least that the kernel divides by."""
    return clamp_min(input * (1 - input), 1e-12)


def _scores(make: Make):
    """As for probabilities, with any numbers as scores, and with weights of the positive answers."""
    yield from _answers(make)
    yield Sample.of(make(2, 3), make(2, 3, domain=_SHARES), make(3, domain=_SHARES), make(1, domain=_SHARES))
    for reduction in REDUCTIONS:
        args = make(2, 3), make(2, 3, domain=_SHARES), None, make(3, domain=_SHARES)
        yield Sample.of(*args, reduction=reduction)
    yield Sample.of(torch.tensor([-800.0, 0.0, 800.0], dtype=torch.float64), make(3, domain=_SHARES))


@op(
    formula=r"-\frac{1}{n} \sum_i w_i (p_i t_i \ln \sigma(x_i) + (1 - t_i) \ln(1 - \sigma(x_i)))",
    symbols={"pos_weight": "p"},
    samples=_scores,
    reference=lambda x, target, weight=None, pos_weight=None, reduction="mean": _nn.binary_cross_entropy_with_logits(
        x, target, weight, pos_weight=pos_weight, reduction=reduction
    ),
    traits=Traits(takes="scores"),
)
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, *, reduction="mean"):
    """How badly scores predict a yes or no: binary cross entropy of their sigmoid, without overflow.

    The loss where each label is a question of its own: several labels at once, or real against generated. Its gradient
    is the probability minus the truth. ``pos_weight`` says how much more a yes counts, where there are few.

    Shapes: input and target alike; weight and pos_weight broadcast to them. Output (), or as input with
    ``reduction="none"``. Raises ValueError where input and target differ in shape.
    """
    return _nn.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=reduction)


@binary_cross_entropy_with_logits.rule("input", r"\bar{y} \, \frac{w}{n} \odot ((1 - t + p t) \odot \sigma(x) - p t)")
def _(g, input, target, weight, pos_weight, reduction):
    if pos_weight is None:
        slope = sigmoid(input) - target
    else:
        right = pos_weight * target
        slope = (right + 1 - target) * sigmoid(input) - right
    slope = slope * divided(g, reduction, input.shape)
    return slope if weight is None else slope * weight


@binary_cross_entropy_with_logits.rule("target", r"\bar{y} \, \frac{w}{n} \odot (\ln(1 - \sigma(x)) - p \ln \sigma(x))")
def _(g, input, weight, pos_weight, reduction):
    slope = -input if pos_weight is None else logsigmoid(-input) - pos_weight * logsigmoid(input)
    slope = slope * divided(g, reduction, input.shape)
    return slope if weight is None else slope * weight


def _signs(make: Make):
    """Scores and signs of every shape, with each reduction, and scores far away."""
    for shape in _SHAPES:
        yield Sample.of(make(*shape), make.integers(2, *shape).double() * 2 - 1, reduction="none")
    for reduction in ("mean", "sum"):
        yield Sample.of(make(2, 3), make.integers(2, 2, 3).double() * 2 - 1, reduction=reduction)
    yield Sample.of(torch.tensor([-300.0, 0.0, 300.0], dtype=torch.float64), torch.ones(3, dtype=torch.float64))


@op(formula=r"\frac{1}{n} \sum_i \ln(1 + e^{-t_i x_i})", kernel=_nn.soft_margin_loss, samples=_signs)
def soft_margin_loss(input, target, *, reduction="mean"):
    """The logistic loss of scores against signs: binary cross entropy where the answers are -1 and 1.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """


@soft_margin_loss.rule("input", r"-\bar{y} \, \frac{1}{n} t \odot \sigma(-t \odot x)")
def _(g, input, target, reduction):
    return soft_margin_loss_backward(g, input, target, reduction=reduction)


@op(formula=r"-g \, \frac{1}{n} t \odot \sigma(-t \odot x)", no_gradient=("target",), samples=with_gradients(_signs))
def soft_margin_loss_backward(g, input, target, *, reduction):
    """The gradient of soft_margin_loss for its input.

    Shapes: input and target alike, g () or as input with ``reduction="none"``; output as input.
    """
    return aten.soft_margin_loss_backward(g, input, target, code(reduction))


@soft_margin_loss_backward.rule("g", r"-\frac{1}{n} \sum \bar{y} \odot t \odot \sigma(-t \odot x)")
def _(gradient, input, target, reduction):
    return for_g(soft_margin_loss_backward, gradient, input, target, reduction=reduction)


@soft_margin_loss_backward.rule(
    "input", r"\bar{y} \odot g \, \frac{1}{n} t^2 \odot \sigma(t x) \odot (1 - \sigma(t x))"
)
def _(gradient, g, input, target, reduction):
    scaled = gradient * divided(g, reduction, input.shape) * (target * target)
    return sigmoid_backward(scaled, conjugate(sigmoid(target * input)))  # it conjugates its y, as torch's kernel does

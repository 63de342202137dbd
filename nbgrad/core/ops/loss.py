"""Losses: one number that says how wrong a prediction is."""

from math import prod

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.activation import log_softmax, softmax
from nbgrad.core.ops.indexing import gather_backward
from nbgrad.core.samples import Make, Sample
from nbgrad.core.strict import unpaired, warn_one_class, warn_unpaired

_REDUCTIONS = ("mean", "sum", "none")


def _errors(make: Make):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2)):
        yield from (Sample.of(make(*shape), make(*shape), reduction=reduction) for reduction in _REDUCTIONS)
    yield Sample.of(make(2, 3), make(2, 3))
    yield Sample.of(make(0, 3), make(0, 3), reduction="sum")


@op(formula=r"\frac{1}{n} \sum_i (x_i - t_i)^2", broadcasts=True, samples=_errors)
def mse_loss(input, target, *, reduction="mean"):
    """Mean squared error between a prediction and its target.

    The loss of regression: its gradient is twice the error, so large errors pull hardest.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``. Warns where they broadcast.
    """
    if input.shape != target.shape:
        warn_unpaired("mse_loss", input, target)
        input, target = torch.broadcast_tensors(input, target)
    return torch.nn.functional.mse_loss(input, target, reduction=reduction)


def _error_gradient(g, input, target, reduction):
    error = input.to(dtype=g.dtype) - target.to(dtype=g.dtype)  # of two types, or bool, which has no difference
    scale = 2 / prod(error.shape) if reduction == "mean" and prod(error.shape) else 2
    return g * (error * scale)


@mse_loss.rule("input", r"\bar{y} \, \frac{2}{n} (x - t)")
def _(g, input, target, reduction):
    return _error_gradient(g, input, target, reduction)


@mse_loss.rule("target", r"-\bar{y} \, \frac{2}{n} (x - t)")
def _(g, input, target, reduction):
    return -_error_gradient(g, input, target, reduction)


def _classifications(make: Make):
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
    for shape in ((3,), (3, 2), (3, 2, 1), (3, 2, 1, 2)):
        for reduction in _REDUCTIONS:
            scores = make(shape[0], 4, *shape[1:])
            numbers = make.integers(4, *shape)
            shares = torch.softmax(make(shape[0], 4, *shape[1:]), 1)
            yield Sample.of(scores, numbers, reduction=reduction)
            yield Sample.of(scores, numbers, weight, reduction=reduction, label_smoothing=0.1)
            yield Sample.of(
                scores, numbers.clone().index_fill_(0, torch.tensor([0]), -100), weight, reduction=reduction
            )
            yield Sample.of(scores, numbers, weight, reduction=reduction, ignore_index=int(numbers.flatten()[0]))
            yield Sample.of(scores, shares, reduction=reduction)
            yield Sample.of(scores, shares, weight, reduction=reduction, label_smoothing=0.1)
    yield Sample.of(make(4), torch.tensor(2))
    yield Sample.of(make(4), torch.tensor(-100), reduction="sum")
    yield Sample.of(make(4), torch.softmax(make(4), 0), label_smoothing=0.2)
    yield Sample.of(make(0, 4), make.integers(4, 0), reduction="sum")


@op(formula=r"-\frac{1}{n} \sum_i \ln \operatorname{softmax}(x_i)_{t_i}", samples=_classifications)
def cross_entropy(input, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """How badly scores predict classes: minus the log of the probability that softmax gives the right one.

    The loss of classification and of language models. Its gradient is as simple as can be: the probabilities minus the
    truth.

    Shapes: input (C,), (N, C) or (N, C, d1, ...) scores; target class numbers of that shape without C, or probabilities
    of that shape; weight (C,). Output (), or as the class numbers with ``reduction="none"``. Raises IndexError for a
    class number out of range. Warns where there is one class, whose loss is always 0.
    """
    if unpaired(input, target):
        warn_one_class("cross_entropy", input, target)
    return torch.nn.functional.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


@cross_entropy.rule("input", r"\bar{y} \, \frac{1}{n} (\operatorname{softmax}(x) - t)")
def _(g, input, target, weight, ignore_index, reduction, label_smoothing):
    dim = min(1, len(input.shape) - 1)
    truth = _truth(input, target, weight, ignore_index, label_smoothing, dim)
    share = _share(g, target, weight, ignore_index, reduction, dim)
    return (softmax(input, dim=dim) * truth.sum(dim, True) - truth) * share


@cross_entropy.rule("target", r"-\bar{y} \, \frac{1}{n} \ln \operatorname{softmax}(x)")
def _(g, input, target, weight, ignore_index, reduction, label_smoothing):
    dim = min(1, len(input.shape) - 1)
    share = _share(g, target, weight, ignore_index, reduction, dim)
    surprise = -log_softmax(input, dim=dim) * (1 - label_smoothing)
    return (surprise if weight is None else surprise * _per_class(weight, surprise, dim)) * share


def _truth(input, target, weight, ignore_index, label_smoothing, dim):
    """The probability that the target gives each class, times the class's weight: a row of zeros where ignored."""
    classes = input.shape[dim]
    if target.dtype.is_floating_point:
        truth = target
    else:
        kept = (target != ignore_index).unsqueeze(dim)
        truth = gather_backward(kept.to(dtype=input.dtype), target.unsqueeze(dim) * kept, dim=dim, shape=input.shape)
    if label_smoothing:
        smooth = label_smoothing / classes
        truth = truth * (1 - label_smoothing) + (smooth if target.dtype.is_floating_point else smooth * kept)
    return truth if weight is None else truth * _per_class(weight, truth, dim)


def _share(g, target, weight, ignore_index, reduction, dim):
    """What each row's loss contributes to the output, times g, with room for the classes at ``dim``."""
    if reduction == "none":
        return g.unsqueeze(dim)
    if reduction == "sum":
        return g
    if target.dtype.is_floating_point:
        return g / (prod(target.shape) // target.shape[dim])
    kept = target != ignore_index
    if weight is None:
        return g / kept.sum()
    return g / (weight[target * kept] * kept).sum()


def _per_class(weight, like, dim):
    """The class weights, shaped to stand at ``dim`` of a tensor of the rank of ``like``."""
    return weight.reshape([-1 if d == dim else 1 for d in range(len(like.shape))])

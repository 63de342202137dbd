"""Losses of classification: how improbable the right class is under the scores or probabilities of a network."""

from math import prod

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, points
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.loss.regression import REDUCTIONS, code, in_full
from nbgrad.core.ops.neural.softmax import log_softmax, log_softmax_backward
from nbgrad.core.ops.shape.views import unsqueeze
from nbgrad.core.tensor.broadcast_check import unpaired, warn_one_class

_WEIGHT = 0.5, 1.0, 2.0, 1.5


def _class_numbers(make: Make):
    """Scores and class numbers of every rank and reduction, some ignored, with and without weights."""
    for shape in ((3,), (3, 2), (3, 2, 1), (3, 2, 1, 2)):
        for reduction in REDUCTIONS:
            scores, numbers = make(shape[0], 4, *shape[1:]), make.integers(4, *shape)
            some = numbers.clone().index_fill_(0, torch.tensor([0]), -100)
            yield Sample.of(scores, numbers, reduction=reduction)
            yield Sample.of(scores, some, points(*_WEIGHT), reduction=reduction)
            yield Sample.of(
                scores, numbers, points(*_WEIGHT), reduction=reduction, ignore_index=int(numbers.flatten()[0])
            )
    yield Sample.of(make(2, 4, 1, 2, 1, 2), make.integers(4, 2, 1, 2, 1, 2), reduction="none")
    yield Sample.of(make(4), torch.tensor(2))
    yield Sample.of(make(4), torch.tensor(-100), reduction="sum")
    yield Sample.of(make(0, 4), make.integers(4, 0), reduction="sum")


@op(
    formula=r"-\frac{1}{n} \sum_i w_{t_i} x_{i t_i}",
    aux=("total_weight",),
    no_gradient=("target",),
    samples=_class_numbers,
    ranks=range(1, 6),
    traits=Traits(takes="log-probabilities"),
)
def nll_loss(input, target, weight=None, *, ignore_index=-100, reduction="mean"):
    """Minus the log probability of the right class, where ``input`` holds log probabilities.

    After log_softmax it is cross entropy. The mean is weighted by the weights of the targets' classes; targets of
    ``ignore_index`` count nothing.

    Shapes: input (C,), (N, C) or (N, C, d1, ...); target class numbers of that shape without C; weight (C,). Output (),
    or as the target with ``reduction="none"``. Raises IndexError for a class number out of range.
    """
    input, target, weight = in_full(input, target, weight)
    return _nll(input, target, weight, ignore_index, reduction)


@nll_loss.rule("input", r"-\bar{y} \, \frac{1}{n} w_{t_i} \text{ at } t_i \text{, } 0 \text{ elsewhere}")
def _(g, input, target, weight, total_weight, ignore_index, reduction):
    return nll_loss_backward(g, input, target, weight, total_weight, ignore_index=ignore_index, reduction=reduction)


def _nll(input, target, weight, ignore_index, reduction):
    """The loss and the sum of the weights that count. torch's kernels take inputs of 1, 2 or 4 dimensions."""
    if input.ndim < 3:
        return aten.nll_loss_forward(input, target, weight, code(reduction), ignore_index)
    if input.ndim == 4:
        return aten.nll_loss2d_forward(input, target, weight, code(reduction), ignore_index)
    if target.shape != (wanted := (input.shape[0], *input.shape[2:])):
        raise ValueError(f"target must have shape {tuple(wanted)}, not {tuple(target.shape)}")
    out, total = aten.nll_loss2d_forward(*_flat(input, target), weight, code(reduction), ignore_index)
    return (out.reshape(target.shape) if reduction == "none" else out), total


def _flat(input, target):
    """Scores (N, C, d1, ...) as (N, C, 1, d), and targets (N, d1, ...) as (N, 1, d)."""
    places = prod(target.shape[1:])
    return input.reshape(*input.shape[:2], 1, places), target.reshape(len(target), 1, places)


def _kept(forward, samples, **defaults):
    """Samples of the gradient of a loss, made from those of the loss.

    Each gets a gradient of the output, and the results that the forward keeps. With the reduction "none" the sum of
    the weights is None.
    """

    def more(make: Make):
        for args, settings in samples(make):
            settings = {"ignore_index": -100, "reduction": "mean", **defaults, **settings}
            input, target, weight = (*args, None)[:3]
            out, *others, total = forward(input, target, weight, **settings)
            total = None if settings["reduction"] == "none" else total
            yield Sample.of(make(*out.shape), input, target, weight, *others, total, **settings)

    return more


def _nll_gradient(g, input, target, weight, total_weight, ignore_index, reduction):
    total = g.new_empty(()) if total_weight is None else total_weight
    # Under autocast the forward ran in another element type than that of its inputs: g has it.
    if input.dtype is not g.dtype:
        input, weight, total = (one if one is None else one.to(g.dtype) for one in (input, weight, total))
    settings = weight, code(reduction), ignore_index, total
    if input.ndim < 3:
        return aten.nll_loss_backward(g, input, target, *settings)
    if input.ndim == 4:
        return aten.nll_loss2d_backward(g, input, target, *settings)
    rows, numbers = _flat(input, target)
    return aten.nll_loss2d_backward(
        g.reshape(numbers.shape) if reduction == "none" else g, rows, numbers, *settings
    ).reshape(input.shape)


@op(
    formula=r"-g \, \frac{1}{n} w_{t_i} \text{ at } t_i \text{, } 0 \text{ elsewhere}",
    no_gradient=("target", "weight", "total_weight"),
    flat=("input",),
    samples=_kept(_nll, _class_numbers),
)
def nll_loss_backward(g, input, target, weight, total_weight, *, ignore_index, reduction):
    """The gradient of nll_loss; it does not depend on the values of the input.

    Shapes: g () or as the target with ``reduction="none"``, where total_weight is not read and may be None; else
    total_weight (); the others as in nll_loss; output as input.
    """
    return _nll_gradient(g, input, target, weight, total_weight, ignore_index, reduction)


@nll_loss_backward.rule("g", r"-\frac{1}{n} \sum_i w_{t_i} \bar{y}_{i t_i}")
def _(gradient, target, weight, ignore_index, reduction):
    return nll_loss(gradient, target, weight, ignore_index=ignore_index, reduction=reduction)


# Cross entropy.


def _classifications(make: Make):
    """Class numbers as for nll_loss, and probabilities; smoothed and not."""
    for number, (args, settings) in enumerate(_class_numbers(make)):
        yield Sample(args, {**settings, "label_smoothing": 0.1} if number % 3 == 1 else settings)
    for shape in ((3,), (3, 2, 1)):
        for reduction in REDUCTIONS:
            scores, shares = make(shape[0], 4, *shape[1:]), torch.softmax(make(shape[0], 4, *shape[1:]), 1)
            yield Sample.of(scores, shares, reduction=reduction)
            yield Sample.of(scores, shares, points(*_WEIGHT), reduction=reduction, label_smoothing=0.1)
    yield Sample.of(make(4), torch.softmax(make(4), 0), label_smoothing=0.2)
    yield Sample.of(make(3, 4), make.integers(4, 3), label_smoothing=0.2)


@op(
    formula=r"-\frac{1}{n} \sum_i \ln \operatorname{softmax}(x_i)_{t_i}",
    aux=("log_probabilities", "total_weight"),
    samples=_classifications,
    ranks=range(1, 6),
    traits=Traits(takes="scores"),
)
def cross_entropy(input, target, weight=None, *, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """How badly scores predict classes: minus the log of the probability that softmax gives the right one.

    The loss of classification and of language models. Its gradient is as simple as can be: the probabilities minus the
    truth. ``label_smoothing`` spreads a part of the target over all classes (Szegedy et al. 2015,
    https://arxiv.org/abs/1512.00567).

    Shapes: input (C,), (N, C) or (N, C, d1, ...) scores; target class numbers of that shape without C, or probabilities
    of that shape; weight (C,). Output (), or as the class numbers with ``reduction="none"``. Raises IndexError for a
    class number out of range. Warns where there is one class, whose loss is always 0.
    """
    if unpaired(input, target):
        warn_one_class("cross_entropy", input, target)
    input, target, weight = in_full(input, target, weight)
    dim = min(1, input.ndim - 1)
    logs = torch.log_softmax(input, dim)
    loss, total = _of_logs(logs, target, weight, ignore_index, reduction, label_smoothing, dim)
    return loss, logs, total


def _of_logs(logs, target, weight, ignore_index, reduction, label_smoothing, dim):
    """The loss of log probabilities and the sum of the weights that count."""
    if target.dtype.is_floating_point:
        return _of_probabilities(logs, target, weight, reduction, label_smoothing, dim), logs.new_empty(())
    loss, total = _nll(logs, target, weight, ignore_index, reduction)
    if label_smoothing:
        smooth = -(logs if weight is None else logs * _per_class(weight, logs, dim)).sum(dim)
        smooth = smooth.masked_fill_(target == ignore_index, 0)
        smooth = smooth if reduction == "none" else smooth.sum() / total if reduction == "mean" else smooth.sum()
        loss = (1 - label_smoothing) * loss + smooth * (label_smoothing / logs.shape[dim])
    return loss, total


def _of_probabilities(logs, target, weight, reduction, label_smoothing, dim):
    if target.shape != logs.shape:
        raise RuntimeError(f"probabilities must have the shape of the scores, {tuple(logs.shape)}")
    code(reduction)
    loss = -(logs * _truth(target, weight, label_smoothing, dim))
    if reduction == "none":
        return loss.sum(dim)
    return loss.sum() / (target.numel() / target.shape[dim]) if reduction == "mean" else loss.sum()


def cross_entropy_by_steps(input, target, weight, *, reduction, label_smoothing):
    """Cross entropy of probabilities as a few recorded ops: so the weights of the classes have a gradient too."""
    dim = min(1, len(input.shape) - 1)
    return _of_probabilities(log_softmax(input, dim=dim), target, weight, reduction, label_smoothing, dim)


@cross_entropy.rule("input", r"\bar{y} \, \frac{1}{n} (\operatorname{softmax}(x) - t)")
def _(g, input_path, target, weight, log_probabilities, total_weight, ignore_index, reduction, label_smoothing):
    return cross_entropy_backward(
        *(g, _known_logs(log_probabilities, input_path), target, weight, total_weight),
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@cross_entropy.rule("target", r"-\bar{y} \, \frac{1}{n} \ln \operatorname{softmax}(x)")
def _(g, input_path, target_shape, weight, log_probabilities, reduction, label_smoothing):
    dim = min(1, len(target_shape) - 1)
    surprise = -_known_logs(log_probabilities, input_path) * (1 - label_smoothing)
    return _weighted(surprise, weight, dim) * _share(g, target_shape, reduction, dim)


def _known_logs(logs, path):
    """The log probabilities that a forward has kept; if ``path`` leads to the scores, with the history from them."""
    return logs if path is None else log_softmax.known(logs, path, dim=min(1, len(logs.shape) - 1))


def _by_torch(g, log_probabilities, target, weight, total_weight, *, ignore_index, reduction, label_smoothing):
    """The gradient of cross_entropy by torch's autograd, which differentiates it further."""
    logs = log_probabilities if log_probabilities.requires_grad else log_probabilities.clone().requires_grad_()
    dim = min(1, logs.ndim - 1)
    loss, _ = _of_logs(logs, target, weight, ignore_index, reduction, label_smoothing, dim)
    (for_logs,) = torch.autograd.grad(loss, logs, g, create_graph=True)
    return torch._log_softmax_backward_data(for_logs, logs, dim, logs.dtype)


def _kept_by_cross_entropy(make: Make):
    for (g, _, target, weight, logs, total), settings in _kept(
        cross_entropy.forward, _classifications, label_smoothing=0.0
    )(make):
        yield Sample.of(g, logs, target, weight, total, **settings)


@op(
    formula=r"g \, \frac{1}{n} (e^{l} - t)",
    symbols={"log_probabilities": "l"},
    no_gradient=("weight", "total_weight"),
    samples=_kept_by_cross_entropy,
    reference=_by_torch,
)
def cross_entropy_backward(
    g, log_probabilities, target, weight, total_weight, *, ignore_index, reduction, label_smoothing
):
    """The gradient of cross_entropy for the scores, from what its forward keeps.

    Shapes: g () or as the class numbers with ``reduction="none"``, where total_weight is not read and may be None; else
    total_weight (); log_probabilities as the scores; the others as in cross_entropy; output as log_probabilities.
    """
    dim = min(1, log_probabilities.ndim - 1)
    for_logs = _for_logs(
        g, log_probabilities, target, weight, total_weight, ignore_index, reduction, label_smoothing, dim
    )
    if for_logs.dtype is not log_probabilities.dtype:  # it may have the dtype of the target
        for_logs = for_logs.to(log_probabilities.dtype)
    return log_softmax_backward(for_logs, log_probabilities, dim=dim)


@cross_entropy_backward.rule("g", r"\frac{1}{n} \sum \bar{y} \odot (e^{l} - t)")
def _(gradient, g_shape, log_probabilities, target, weight, total_weight, ignore_index, reduction, label_smoothing):
    logs = log_probabilities
    dim = min(1, len(logs.shape) - 1)
    one = torch.ones(g_shape, dtype=gradient.dtype, device=gradient.device)
    for_logs = _for_logs(one, logs, target, weight, total_weight, ignore_index, reduction, label_smoothing, dim)
    product = _centred(gradient, logs, dim) * for_logs
    return product.sum(dim) if reduction == "none" else product.sum()


@cross_entropy_backward.rule("log_probabilities", r"\frac{1}{n} e^{l} \odot \bar{y} \, g")
def _(gradient, g, log_probabilities, target, weight, total_weight, ignore_index, reduction, label_smoothing):
    logs = log_probabilities
    dim = min(1, len(logs.shape) - 1)
    for_logs = _for_logs(g, logs, target, weight, total_weight, ignore_index, reduction, label_smoothing, dim)
    return -for_logs.sum(dim, True) * (logs.exp() * gradient)


@cross_entropy_backward.rule("target", r"-\frac{1}{n} (\bar{y} - \sum_j \bar{y}_j e^{l_j}) g")
def _(gradient, g, log_probabilities, target_shape, weight, reduction, label_smoothing):
    dim = min(1, len(target_shape) - 1)
    share = _share(g, target_shape, reduction, dim) * (label_smoothing - 1)
    return _weighted(_centred(gradient, log_probabilities, dim) * share, weight, dim)


def _for_logs(g, like, target, weight, total_weight, ignore_index, reduction, label_smoothing, dim):
    """The gradient of cross entropy for the log probabilities, which have the shape of ``like``."""
    if target.dtype.is_floating_point:
        return -_truth(target, weight, label_smoothing, dim) * _share(g, target.shape, reduction, dim)
    settings = {"ignore_index": ignore_index, "reduction": reduction}
    if not label_smoothing:
        return nll_loss_backward(g, like, target, weight, total_weight, **settings)
    right = nll_loss_backward(g * (1 - label_smoothing), like, target, weight, total_weight, **settings)
    even = g * (label_smoothing / like.shape[dim])
    even = even / total_weight if reduction == "mean" else unsqueeze(even, dim=dim) if reduction == "none" else even
    # where(), and no product with the mask: if all targets are ignored, ``even`` is infinite, and inf * 0 is NaN.
    return right - _weighted(where(unsqueeze(target != ignore_index, dim=dim), even, 0.0), weight, dim)


def _truth(target, weight, label_smoothing, dim):
    """The probabilities of a target, smoothed, times the weights of the classes."""
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / target.shape[dim]
    return _weighted(target, weight, dim)


def _share(g, shape, reduction, dim):
    """The gradient of the loss of each row of probabilities, from g; it broadcasts over the classes at ``dim``."""
    if reduction == "none":
        return unsqueeze(g, dim=dim)
    return g / (prod(shape) / shape[dim]) if reduction == "mean" else g


def _centred(gradient, logs, dim):
    """The gradient minus its mean over the classes, weighted by the probabilities whose logarithms are ``logs``."""
    return gradient - (gradient * logs.exp()).sum(dim, True)


def _weighted(value, weight, dim):
    return value if weight is None else value * _per_class(weight, value, dim)


def _per_class(weight, like, dim):
    """The class weights, shaped to stand at ``dim`` of a tensor of the rank of ``like``."""
    return weight.reshape([-1 if d == dim else 1 for d in range(len(like.shape))])

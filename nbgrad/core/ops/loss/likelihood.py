"""Losses that are likelihoods: how improbable the target is under the predicted distribution. CTC is among them."""

import math
import warnings

import torch

from nbgrad.core.dispatch.function import Function, once_differentiable
from nbgrad.core.dispatch.opaque import check_of_numbers, opaque
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops.elementwise.powers import exp, log, xlogy
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.linalg.matmul import linear
from nbgrad.core.ops.loss.classification import cross_entropy
from nbgrad.core.ops.loss.regression import code, reduced, warned
from nbgrad.core.ops.neural.activations import logsigmoid
from nbgrad.core.ops.shape.views import clone, squeeze, unsqueeze
from nbgrad.core.tensor.broadcast_check import warn_here
from nbgrad.core.tensor.tensor import Tensor


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """Cross entropy of the scores that a linear layer gives: the last layer of a language model and its loss.

    torch's ``options`` say how to take the batch in pieces, which saves memory; here it is taken whole, with a warning.

    Shapes: input (N, I) or (I,), linear_weight (C, I) or (C, d1, ..., I), linear_bias as linear_weight without I,
    target and output as in cross_entropy. Raises RuntimeError where they do not fit, or ``ignore_index`` is given
    beside probabilities.
    """
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.shape[-1] != linear_weight.shape[-1]:
        shapes = f"{tuple(input.shape)} and {tuple(linear_weight.shape)}"
        raise RuntimeError(f"linear_cross_entropy takes an input (N, I) or (I,) and weights (C, ..., I), not {shapes}")
    sizes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != sizes:
        raise RuntimeError(f"linear_cross_entropy: linear_bias must have the shape {sizes}, not {linear_bias.shape}")
    if len(sizes) > 1 and input.ndim == 1:
        raise RuntimeError("linear_cross_entropy: weights of several dimensions need a batch of inputs")
    shape = (*input.shape[:-1], *sizes)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("linear_cross_entropy: ignore_index is for class numbers, the target holds probabilities")
    if options is not None:
        warnings.warn("linear_cross_entropy takes the batch whole: options to save memory are not used", stacklevel=2)
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = linear(input, linear_weight.reshape((math.prod(sizes), input.shape[-1])), bias).reshape(shape)
    settings = {"reduction": reduction, "label_smoothing": label_smoothing}
    return cross_entropy(
        scores, target, weight, ignore_index=-100 if ignore_index is None else ignore_index, **settings
    )


@as_one(torch.nn.functional.kl_div)
def kl_div(input, target, reduction="mean", log_target=False):
    """Kullback-Leibler divergence: how far predicted log probabilities are from the probabilities of the target.

    Distillation (Hinton et al. 2015, https://arxiv.org/abs/1503.02531) and variational inference minimize it.
    ``input`` holds logarithms; so does ``target`` with ``log_target``.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``. ``reduction="batchmean"``
    divides by the size of the batch, as the definition has it; "mean" divides by the number of elements and warns.
    """
    warned("kl_div", input, target)
    if reduction == "mean":
        warn_here("kl_div: reduction='mean' divides by the number of elements; the definition is 'batchmean'")
    loss = exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction != "batchmean":
        return reduced(loss, reduction)
    return loss.sum() / input.shape[0] if len(input.shape) else loss.sum()


@as_one(torch.nn.functional.poisson_nll_loss)
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """Minus the log-likelihood of counts under Poisson distributions with the predicted rates.

    The loss of counting: photons, clicks, spikes. ``input`` holds logarithms of rates with ``log_input``. ``full`` adds
    Stirling's approximation of what does not depend on the input; ``eps`` keeps the logarithm of a rate finite.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """
    warned("poisson_nll_loss", input, target)
    code(reduction)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        many = where(target > 1, target, 1.0)  # the approximation is for targets above 1
        stirling = many * log(many) - many + 0.5 * log(2 * math.pi * many)
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log-likelihood of targets under normal distributions with the predicted means and variances.

    A network that predicts its own uncertainty learns with it (Nix and Weigend 1994). Variances count as at least
    ``eps``, with the gradient as if they were not changed; ``full`` adds the constant.

    Shapes: input and target broadcast; var a number, as input, as input without its last dimension, or with size 1 in
    one dimension. Output (), or the broadcast shape with ``reduction="none"``. Raises ValueError for another shape of
    var and for a negative variance.
    """
    warned("gaussian_nll_loss", input, target)
    code(reduction)
    raw = raw_of(input)
    if isinstance(var, float):
        var = torch.full_like(raw, var)
    _check_variances(raw_of(var))
    var = clone(_variances(var, tuple(input.shape)))
    (var.data if isinstance(var, Tensor) else var.detach()).clamp_(min=eps)
    error = input - target
    loss = 0.5 * (log(var) + error * error / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@check_of_numbers
def _check_variances(var):
    if (var < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative entries")


def _variances(var, shape):
    """The variances so that they broadcast to the means of ``shape``."""
    if tuple(var.shape) == shape:
        return var
    if tuple(var.shape) == shape[:-1]:
        return unsqueeze(var, dim=-1)
    others = [size for size, other in zip(var.shape, shape, strict=False) if size != other]
    if len(var.shape) == len(shape) and sum(others) == 1:
        return var
    raise ValueError(f"gaussian_nll_loss: var of shape {tuple(var.shape)} does not fit input of shape {shape}")


def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """Binary cross entropy of scores, averaged over classes: for inputs that may have several labels at once.

    Shapes: input and target (C,) or (N, C), target of zeros and ones; weight broadcasts to them. Output (), or (N,)
    with ``reduction="none"``.
    """
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


_aten = torch.ops.aten


def _like_ctc(logs, targets, input_lengths, target_lengths, *settings):  # it takes the arguments of _ctc
    longest = max(target_lengths, default=0)
    return logs.new_empty(logs.shape[1]), logs.new_empty((logs.shape[1], logs.shape[0], 2 * longest + 1))


@opaque(_like_ctc)
def _ctc(logs, targets, input_lengths, target_lengths, *settings):
    """The losses, and the log-likelihood of each beginning of a target at each step. Lengths are Python's numbers."""
    return _aten._ctc_loss(logs, targets, input_lengths, target_lengths, *settings)


class CTCLoss(Function):
    """Minus the log-likelihood of each sequence of labels; the likelihood is a sum over all ways to spread it in time.

    It is a function and no row of the table, because torch's kernel has no second-order gradient.
    """

    @staticmethod
    def forward(ctx, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        ctx.rest = input_lengths, target_lengths
        ctx.settings = blank, zero_infinity
        losses, alpha = _ctc(log_probs.data, targets.data, *ctx.rest, *ctx.settings)
        losses = Tensor(losses)
        ctx.save_for_backward(log_probs, targets, losses, Tensor(alpha))
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        log_probs, targets, losses, alpha = (tensor.data for tensor in ctx.saved_tensors)
        gradient = _aten._ctc_loss_backward(g.data, log_probs, targets, *ctx.rest, losses, alpha, *ctx.settings)
        return Tensor(gradient), None, None, None, None, None


@as_one(torch.nn.functional.ctc_loss)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Minus the log-likelihood of label sequences, over all ways to spread them in time (Graves et al. 2006).

    Speech and handwriting are transcribed with it. Between labels the network may say ``blank``. The mean is over the
    losses divided by their target lengths. ``zero_infinity`` makes 0 of the infinite loss, and of its gradient, where a
    target does not fit into its input. It can be differentiated once, as torch's.

    Shapes: log_probs (T, C) or (T, N, C); targets (N, S) or all in one row; lengths () or (N,), tensors or tuples.
    Output (), or (N,) with ``reduction="none"``. Raises RuntimeError where the lengths do not fit.
    """
    code(reduction)
    many = len(log_probs.shape) == 3
    logs = log_probs if many else unsqueeze(log_probs, dim=1)
    lengths, wanted = _numbers(input_lengths), _numbers(target_lengths)
    if not isinstance(log_probs, Tensor):
        return torch.nn.functional.ctc_loss(
            log_probs, raw_of(targets), raw_of(input_lengths), raw_of(target_lengths), blank, reduction, zero_infinity
        )
    targets = targets if isinstance(targets, Tensor) else Tensor(targets)
    losses = CTCLoss.apply(logs, targets, lengths, wanted, blank, zero_infinity)
    if zero_infinity:
        losses = where(losses == float("inf"), 0.0, losses)
    if reduction == "mean":
        counts = torch.tensor(wanted, dtype=losses.dtype, device=losses.device).clamp_(min=1)
        return (losses / counts).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if many else squeeze(losses, dim=0)


def _numbers(lengths):
    """Lengths as Python's numbers, which torch's kernel takes."""
    if isinstance(lengths, Tensor | torch.Tensor):
        return [int(number) for number in lengths.reshape(-1).tolist()]
    return [int(number) for number in lengths] if isinstance(lengths, list | tuple) else [int(lengths)]

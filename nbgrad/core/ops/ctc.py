"""Connectionist temporal classification: the loss of a sequence of labels whose places in time nobody knows."""

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.function import Function, once_differentiable
from nbgrad.core.ops.casting import as_one
from nbgrad.core.ops.choosing import where
from nbgrad.core.ops.loss import code
from nbgrad.core.ops.shape import squeeze, unsqueeze
from nbgrad.core.tensor import Tensor

_aten = torch.ops.aten


class CTCLoss(Function):
    """Minus the log-likelihood of each sequence of labels, summed over all its places in time.

    A function and no row of the table: torch's kernel has no second-order gradient, and so has this none.
    """

    @staticmethod
    def forward(ctx, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        ctx.rest = input_lengths, target_lengths
        ctx.settings = blank, zero_infinity
        losses, alpha = _aten._ctc_loss(log_probs.data, targets.data, *ctx.rest, *ctx.settings)
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

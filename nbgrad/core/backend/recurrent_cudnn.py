"""cuDNN's kernels of a recurrent layer over a whole sequence: one call instead of ten calls for each step."""

from typing import Any

import torch
from torch._subclasses import FakeTensor

from nbgrad.core.backend.aten import aten
from nbgrad.core.backend.autocast import without_autocast

RNN_RELU, RNN_TANH, LSTM, GRU = range(4)
"""cuDNN's numbers of the kinds of layers."""

Weights = tuple[torch.Tensor | None, ...]
"""w_ih, w_hh, b_ih, b_hh and, of an LSTM with a projection, w_hr; None for what the layer does not have."""


def runs_on_cudnn(input: torch.Tensor, others: Weights, *, before_casts: bool = False) -> bool:
    """Whether torch would give a layer with that ``input`` to cuDNN.

    A traced program runs a loop over time: a trace has fake tensors, and torch cannot run cuDNN's gradient on them. A
    layer whose inputs autocast has not cast yet also runs the loop: that run shows which inputs autocast casts.

    Args:
        input: of the layer.
        others: its weights and states, None for missing ones.
        before_casts: whether autocast, where it is on, will still give all of them its element type.
    """
    if input.device.type != "cuda" or isinstance(input, FakeTensor) or not torch.cudnn_is_acceptable(input):
        return False
    casts = torch.is_autocast_enabled("cuda")
    if casts and not before_casts and input.dtype not in (torch.get_autocast_dtype("cuda"), torch.float64):
        return False
    any_type = casts and before_casts
    return all(one is None or (one.device == input.device and (any_type or one.dtype is input.dtype)) for one in others)


def layer_by_cudnn(
    kind: int, input: torch.Tensor, hx: torch.Tensor, cx: torch.Tensor | None, weights: Weights, reverse: bool
) -> tuple[torch.Tensor, ...]:
    """Run the layer. Shapes: input (T, N, I), hx (N, H or P), cx (N, H).

    Returns:
        The outputs (T, N, H or P), the last state, the last cell (without elements if the layer has none), and what
        the gradient needs: cuDNN's reserve, in bytes, and the weights in one tensor.
    """
    given = _filled(weights)
    hidden, projected = _sizes(weights, cx, hx)
    # The next call turns the tensors in the list into views of its result, so none of them may be the caller's own.
    settings = (kind, hidden, projected, 1, False, False)
    flat = torch._cudnn_rnn_flatten_weight(given, len(given), input.shape[2], *settings)
    made = without_autocast(  # which would cast to float16, also where it is set to bfloat16
        *(aten._cudnn_rnn, _ordered(input, reverse), given, len(given), flat, hx.contiguous().unsqueeze(0)),
        *(None if cx is None else cx.contiguous().unsqueeze(0), kind, hidden, projected, 1, False, 0.0, True, False),
        *((), None),
    )
    out, h, c, reserve, _ = made
    return _ordered(out, reverse), h.reshape_as(hx), c if cx is None else c.reshape_as(cx), reserve, flat


def gradients_by_cudnn(
    kind: int,
    arrived: tuple[torch.Tensor | None, ...],
    needed: Any,
    input: torch.Tensor,
    states: tuple[torch.Tensor, torch.Tensor | None],
    weights: Weights,
    out: torch.Tensor,
    kept: tuple[torch.Tensor, torch.Tensor],
    reverse: bool,
) -> tuple[torch.Tensor | None, ...]:
    """Compute the gradients of the layer.

    Args:
        kind: as of ``layer_by_cudnn``.
        arrived: the gradients of the outputs, of the last state and of the last cell; None for those without one.
        needed: whether input, state, cell and weights need a gradient.
        input: (T, N, I).
        states: hx and cx.
        weights: as of ``layer_by_cudnn``.
        out: the outputs.
        kept: the reserve and the weights in one tensor.
        reverse: whether the layer began with the last step.

    Returns:
        Those of input, hx and cx, then one for each of the ``weights``.
    """
    hx, cx = states
    given = _filled(weights)
    hidden, projected = _sizes(weights, cx, hx)
    g_out, g_h, g_c = arrived
    mask = [True, True, cx is not None, bool(needed)]
    of_input, of_hx, of_cx, of_weights = aten._cudnn_rnn_backward(
        *(_ordered(input, reverse), given, len(given), kept[1], hx.contiguous().unsqueeze(0)),
        *(None if cx is None else cx.contiguous().unsqueeze(0), _ordered(out, reverse)),
        *(None if g_out is None else _ordered(g_out, reverse), _level(g_h), _level(g_c)),
        *(kind, hidden, projected, 1, False, 0.0, True, False, (), None),
        kept[0].clone(),  # the kernel writes to it, and a second backward reads it again
        mask,
    )
    found = iter(of_weights) if mask[3] else None
    biased = _biased(weights)
    each: list[torch.Tensor | None] = []
    for at, weight in enumerate(weights):
        stands = weight is not None or (at in {2, 3} and biased)
        gradient = next(found) if found is not None and stands else None
        each.append(None if weight is None or gradient is None else gradient.reshape_as(weight))
    of_input = _ordered(of_input, reverse)
    return of_input, of_hx.reshape_as(hx), None if cx is None else of_cx.reshape_as(cx), *each


def _biased(weights: Weights) -> bool:
    return weights[2] is not None or weights[3] is not None


def _filled(weights: Weights) -> list[torch.Tensor]:
    """The weights that cuDNN takes: two biases or none, so a missing one is zero. No tensor is the caller's own."""
    matrices = [one.detach() for one in weights[:2] if one is not None]
    like = matrices[0]
    biases = [like.new_zeros(len(like)) if one is None else one.detach() for one in weights[2:4]]
    projection = [one.detach() for one in weights[4:] if one is not None]
    return [*matrices, *(biases if _biased(weights) else ()), *projection]


def _sizes(weights: Weights, cx: torch.Tensor | None, hx: torch.Tensor) -> tuple[int, int]:
    """How many numbers a state has, and how many after the projection; 0 without a projection."""
    projected = len(weights) > 4 and weights[4] is not None
    return (hx if cx is None else cx).shape[1], hx.shape[1] if projected else 0


def _ordered(steps: torch.Tensor, reverse: bool) -> torch.Tensor:
    """The ``steps`` in the order in which the layer goes through them, in consecutive memory."""
    return steps.flip(0) if reverse else steps.contiguous()


def _level(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """The ``gradient`` with one more dimension, the first, which counts layers."""
    return None if gradient is None else gradient.contiguous().unsqueeze(0)

"""Recurrent networks under torch's names: stacked layers in one or both directions, and padded or packed sequences."""

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any

import torch

from nbgrad.core.backend.recurrent_cudnn import runs_on_cudnn
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.index.getitem import index_select
from nbgrad.core.ops.index.scatter import index_copy
from nbgrad.core.ops.neural.dropout import dropout as dropped
from nbgrad.core.ops.neural.recurrent import (
    gru_layer,
    gru_step,
    lstm_layer,
    lstm_step,
    rnn_relu_layer,
    rnn_relu_step,
    rnn_tanh_layer,
    rnn_tanh_step,
)
from nbgrad.core.ops.shape.joining import cat, stack
from nbgrad.core.ops.shape.padding import constant_pad_nd
from nbgrad.core.ops.shape.splitting import split
from nbgrad.core.tensor.tensor import Tensor


def _stacked(name, layer, states):
    """The function of torch of that name, made of layers; ``states`` says how many a layer has."""

    def run(
        input,
        hx,
        params,
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=False,
        bidirectional=False,
        batch_first=False,
    ):
        if _are_sizes(hx):  # torch's other way to call it: data, batch_sizes, hx, params and so on
            settings = (has_biases, num_layers, dropout, train, bidirectional)
            return packed(input, hx, params, *settings, batch_first)
        first = (hx,) if states == 1 else tuple(hx)
        batched = input.ndim == 3
        if not batched:
            input, first = input.unsqueeze(1), tuple(state.unsqueeze(1) for state in first)
        elif batch_first:
            input = input.transpose(0, 1)
        kind = (name, partial(_one, layer), params, has_biases, bidirectional)
        x, last = _levels(*kind, input, first, num_layers, dropout if train else 0)
        if not batched:
            x, last = x.squeeze(1), [state.squeeze(1) for state in last]
        elif batch_first:
            x = x.transpose(0, 1)
        return (x, *last)

    def packed(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
        first = (hx,) if states == 1 else tuple(hx)
        runs = [(size, len(list(steps))) for size, steps in groupby(batch_sizes.tolist())]
        kind = (name, partial(_over_runs, layer, runs), params, has_biases, bidirectional)
        x, last = _levels(*kind, data, first, num_layers, dropout if train else 0)
        return (x, *last)

    run.__name__ = name
    run.__doc__ = f"""A recurrent network over a sequence, layer on layer, in one direction or both: see {layer.name}.

    Args:
        input: (T, N, I), (N, T, I) with ``batch_first``, or (T, I).
        hx: the first states, (layers * directions, N, H); of lstm a pair of them.
        params: the weights of each layer and direction: w_ih, w_hh, with ``has_biases`` b_ih, b_hh, and of lstm the
            weight of a projection.

    Returns the last layer's output at every step and the last states. Between layers numbers are dropped with
    probability ``dropout``. Packed sequences take another form, as in torch: ``{name}(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)``.
    """
    return run


def _are_sizes(given):
    """Whether ``given`` are the batch sizes of packed sequences and not states, which are never whole numbers."""
    return isinstance(given, Tensor | torch.Tensor) and given.dtype is torch.int64


def _levels(name, over, params, has_biases, bidirectional, x, first, num_layers, dropout):
    """Layer on layer, each made by ``over(x, states, weights, reverse)``: the outputs, and each last state stacked."""
    directions = 2 if bidirectional else 1
    each = _per_layer(name, params, has_biases, num_layers * directions)
    ends = []
    for level in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = level * directions + direction
            weights = params[at * each : (at + 1) * each]
            out, *end = over(x, [state[at] for state in first], weights, bool(direction))
            outputs.append(out)
            ends.append(end)
        x = cat(outputs, dim=-1) if bidirectional else outputs[0]
        if dropout and level < num_layers - 1:
            x = dropped(x, dropout)
    return x, [stack(list(states)) for states in zip(*ends, strict=True)]


def _per_layer(name, params, has_biases, count):
    """How many weights each of ``count`` layers has."""
    each, rest = divmod(len(params), count)
    if rest or each != 2 + 2 * has_biases + (each % 2):
        raise ValueError(f"{name} got {len(params)} weights, which do not fit {count} layers")
    return each


def _one(layer, x, first, weights, reverse):
    """One layer in one direction."""
    if layer is lstm_layer and len(weights) in (3, 5):  # a projection without or with biases
        biases = weights[2:4] if len(weights) == 5 else (None, None)
        weights = (*weights[:2], *biases, weights[-1])
    if runs_on_cudnn(raw_of(x), tuple([raw_of(weight) for weight in weights]), before_casts=True):
        return layer(x, *first, *weights, reverse=reverse, cudnn=True)
    return layer(x, *first, *weights, reverse=reverse)


def _over_runs(layer, runs, data, first, weights, reverse):
    """One layer in one direction over packed sequences, in runs of steps with the same number of sequences.

    ``runs`` has the number of sequences and the number of steps of each run. Forwards, sequences end at the end of a
    run and keep their last state. In reverse, they begin there, with their given first state.
    """
    parts = split(data, split_size_or_sections=tuple(size * steps for size, steps in runs))
    inputs = [part.reshape(steps, size, -1) for part, (size, steps) in zip(parts, runs, strict=True)]
    states = [state[: runs[-1][0]] for state in first] if reverse else first
    outputs = [None] * len(runs)
    ended: list[Any] = []
    for at in reversed(range(len(runs))) if reverse else range(len(runs)):
        size, here = runs[at][0], len(states[0])
        if size < here:
            ended.insert(0, [state[size:] for state in states])
            states = [state[:size] for state in states]
        elif size > here:
            states = [cat([state, given[here:size]]) for state, given in zip(states, first, strict=True)]
        out, *states = _one(layer, inputs[at], states, weights, reverse)
        outputs[at] = out.reshape(runs[at][0] * runs[at][1], -1)
    last = [cat(list(kept)) for kept in zip(states, *ended, strict=True)] if ended else states
    return cat(outputs), *last


rnn_tanh = _stacked("rnn_tanh", rnn_tanh_layer, 1)
rnn_relu = _stacked("rnn_relu", rnn_relu_layer, 1)
gru = _stacked("gru", gru_layer, 1)
lstm = _stacked("lstm", lstm_layer, 2)


def _cell(name, row, states):
    """The function of torch of one step."""

    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        first = (hx,) if states == 1 else tuple(hx)
        if input.ndim == 2:
            return row(input, *first, w_ih, w_hh, b_ih, b_hh)
        last = row(input.unsqueeze(0), *(state.unsqueeze(0) for state in first), w_ih, w_hh, b_ih, b_hh)
        return last.squeeze(0) if states == 1 else tuple(state.squeeze(0) for state in last)

    step.__name__ = name
    step.__doc__ = f"""One step of a recurrent network: see {row.name}.

    Shapes: input (N, I) or (I,), states (N, H) or (H,), weights as for a layer; output as the states.
    """
    return step


rnn_tanh_cell = _cell("rnn_tanh_cell", rnn_tanh_step, 1)
rnn_relu_cell = _cell("rnn_relu_cell", rnn_relu_step, 1)
gru_cell = _cell("gru_cell", gru_step, 1)
lstm_cell = _cell("lstm_cell", lstm_step, 2)


def pack_padded(input: Any, lengths: Any, batch_first: bool = False) -> tuple[Any, torch.Tensor]:
    """The elements of padded sequences, step after step, and how many sequences have one at each step.

    Shapes: input (T, N, ...), or (N, T, ...) with ``batch_first``; lengths (N,), the longest first, on the CPU.

    Raises:
        RuntimeError: the lengths are not sorted, a length is not positive, or their number is not the batch size.
    """
    sizes = raw_of(lengths)
    padded = input.transpose(0, 1) if batch_first else input
    steps, batch = padded.shape[:2]
    _check_lengths(sizes, batch, steps)
    running = torch.arange(int(sizes[0])).unsqueeze(1) < sizes  # (T, N): who still has an element at each step
    places = running.flatten().nonzero().squeeze(1).to(padded.device)
    return index_select(padded.reshape(steps * batch, *padded.shape[2:]), 0, places), running.sum(1)


def _check_lengths(sizes: torch.Tensor, batch: int, steps: int) -> None:
    if sizes.ndim != 1 or len(sizes) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {sizes.numel()} (batch_size={batch})"
        )
    if not len(sizes):
        raise RuntimeError("Cannot pack empty tensors.")
    if (sizes[1:] > sizes[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True: "
            "pass enforce_sorted=False to have the sequences sorted"
        )
    if sizes[-1] <= 0:
        raise RuntimeError(f"Length of all samples has to be greater than 0, but found {sizes[-1]}")
    if sizes[0] > steps:
        raise RuntimeError(f"Expected no length above the {steps} steps of the input, but got {sizes[0]}")


def pad_packed(
    data: Any, batch_sizes: torch.Tensor, batch_first: bool = False, padding_value: float = 0.0, total_length: int = 0
) -> tuple[Any, torch.Tensor]:
    """Packed sequences as a padded batch of ``total_length`` steps or as many as the longest has, and their lengths."""
    longest, batch = len(batch_sizes), int(batch_sizes[0])
    steps = max(longest, total_length)
    running = torch.arange(batch) < batch_sizes.unsqueeze(1)
    places = running.flatten().nonzero().squeeze(1).to(data.device)
    rest = data.shape[1:]
    empty = torch.full((steps * batch, *rest), padding_value, dtype=data.dtype, device=data.device)
    padded = index_copy(empty, 0, places, data).reshape(steps, batch, *rest)
    return (padded.transpose(0, 1) if batch_first else padded), running.sum(0)


def pad_sequence(
    sequences: Iterable[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences of different lengths as one tensor, with ``padding_value`` after the end of the shorter ones.

    Shapes: sequences (L_i, ...); output (T, N, ...), or (N, T, ...) with ``batch_first``, where T is the largest L_i.

    Raises:
        ValueError: ``padding_side`` is neither "right" nor "left".
    """
    if padding_side not in {"right", "left"}:
        raise ValueError(f"Expected padding_side to be one of left or right, but got {padding_side}")
    several = list(sequences)
    longest = max(len(one) for one in several)
    padded = [_padded(one, longest - len(one), padding_value, padding_side) for one in several]
    return stack(padded, dim=0 if batch_first else 1)


def _padded(sequence: Any, missing: int, value: float, side: str) -> Any:
    ends = (0, missing) if side == "right" else (missing, 0)
    return constant_pad_nd(sequence, pad=(*(0, 0) * (sequence.ndim - 1), *ends), value=value) if missing else sequence

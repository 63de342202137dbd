"""Sequences of different lengths in one batch, padded or packed: what ``nn.utils.rnn`` is made of."""

from collections.abc import Iterable
from typing import Any

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.ops.joining import stack
from nbgrad.core.ops.padding import constant_pad_nd
from nbgrad.core.ops.picking import index_select
from nbgrad.core.ops.scatter import index_copy


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

"""Sequences of different lengths in one batch: padded to the longest, or packed so that no step is computed in vain."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops import index_select
from nbgrad.core.ops.neural.rnn import pack_padded, pad_packed, pad_sequence


class _Packed(NamedTuple):
    data: Any
    batch_sizes: torch.Tensor
    sorted_indices: torch.Tensor | None
    unsorted_indices: torch.Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, step after step without padding; ``pack_padded_sequence`` makes one.

    The sequences are sorted, the longest first, so that those that are still running at a step are the first ones.

    Attributes:
        data: the elements of all sequences at step 0, then those at step 1, ...: (sum of lengths, ...).
        batch_sizes: how many sequences have an element at each step; on the CPU.
        sorted_indices: where the sequences, sorted, stood in the batch; None if they were sorted.
        unsorted_indices: the inverse of ``sorted_indices``.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> Self:
        sizes, order, back = (raw_of(one) for one in (batch_sizes, sorted_indices, unsorted_indices))
        if sizes is None or sizes.device.type != "cpu":
            raise ValueError("batch_sizes should be a tensor of integers on the CPU")
        return super().__new__(cls, data, sizes, order, invert_permutation(order) if back is None else back)

    def to(self, *args: Any, **kwargs: Any) -> "PackedSequence":
        """The same sequences with ``data.to(...)``; the indices go to the same device."""
        data = self.data.to(*args, **kwargs)
        order, back = (None if one is None else one.to(data.device) for one in self[2:])
        return PackedSequence(data, self.batch_sizes, order, back)

    def double(self) -> "PackedSequence":
        """The same sequences in float64."""
        return self.to(dtype=torch.float64)

    def float(self) -> "PackedSequence":
        """The same sequences in float32."""
        return self.to(dtype=torch.float32)

    def half(self) -> "PackedSequence":
        """The same sequences in float16."""
        return self.to(dtype=torch.float16)

    def cpu(self) -> "PackedSequence":
        """The same sequences on the CPU."""
        return self.to(device="cpu")

    def cuda(self) -> "PackedSequence":
        """The same sequences on the current CUDA device."""
        return self.to(device="cuda")

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return bool(self.data.device.type == "cuda")


def invert_permutation(permutation: Any) -> torch.Tensor | None:
    """The permutation that undoes ``permutation``: (0, 1, 2) again when one follows the other."""
    order = raw_of(permutation)
    return None if order is None else order.argsort()


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a batch of padded sequences.

    Shapes: input (T, N, ...), or (N, T, ...) with ``batch_first``; lengths (N,).

    Args:
        input: the padded sequences.
        lengths: how long each one is: a list, or a tensor on the CPU.
        batch_first: whether the first dimension of ``input`` counts sequences.
        enforce_sorted: raise unless the longest comes first; False sorts.

    Raises:
        RuntimeError: the lengths are not sorted, a length is not positive, or their number is not the batch size.
    """
    sizes = torch.as_tensor(raw_of(lengths), dtype=torch.int64)
    order = None
    if not enforce_sorted:
        sizes, order = sizes.sort(descending=True)
        order = order.to(input.device)
        input = index_select(input, 0 if batch_first else 1, order)
    data, running = pack_padded(input, sizes, batch_first)
    return PackedSequence(data, running, order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, torch.Tensor]:
    """The padded batch and the lengths that ``pack_padded_sequence`` was given.

    Args:
        sequence: the packed sequences.
        batch_first: whether the first dimension of the result counts sequences.
        padding_value: what fills the places after the end of a sequence.
        total_length: how many steps the result has; default: as many as the longest sequence.

    Raises:
        ValueError: ``total_length`` is less than the longest sequence.
    """
    data, sizes, _, back = sequence
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    padded, lengths = pad_packed(data, sizes, batch_first, padding_value, total_length or 0)
    if back is not None:
        padded, lengths = index_select(padded, 0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences in a padded batch, each with its own length."""
    several = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [one[:length] for one, length in zip(several, raw_of(lengths).tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths, (L_i, ...) each, the longest first unless ``enforce_sorted`` is False."""
    lengths = torch.tensor([len(one) for one in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences in a packed batch, in the order in which they were given."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def in_order(states: Any, permutation: torch.Tensor | None) -> Any:
    """States (layers, N, H) of a recurrent network with the batch in another order."""
    return states if permutation is None else index_select(states, 1, permutation)

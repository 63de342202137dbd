"""Embeddings: a learned vector for each word, symbol or category."""

from typing import Any

import torch

from nbgrad.core import ops
from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Device, DType, Parameter, uninitialized


def _pretrained(torchs: Any) -> Any:
    """The ``from_pretrained`` of torch's class. It calls the constructor, whose arguments have the same names here."""
    return classmethod(torchs.from_pretrained.__func__)


class _EmbeddingTable(Module):
    """A table of vectors, and how its rows are looked up."""

    def _set(
        self,
        *,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        _weight: Any,
        device: Device,
        dtype: DType,
    ) -> None:
        """Take the settings, and ``_weight`` as the table, or draw one."""
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            self.weight = uninitialized(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(raw_of(_weight))

    def reset_parameters(self) -> None:
        """Draw new vectors, normal with variance 1; that of the padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx].fill_(0)


class Embedding(_EmbeddingTable):
    """A table that gives each number from 0 to ``num_embeddings`` - 1 a learned vector (Bengio et al. 2003).

    Shapes: input (...) integers, output (..., embedding_dim); weight (num_embeddings, embedding_dim).

    Args:
        num_embeddings: how many vectors there are.
        embedding_dim: how long they are.
        padding_idx: a number whose vector is 0 and is not learned.
        max_norm: a vector that is longer is shortened to this length, in the table itself, when it is looked up.
        norm_type: which norm that length is.
        scale_grad_by_freq: divide gradients by how often the number stands in the input.
        sparse: accepted, but True raises NotImplementedError when called: nbgrad has no sparse gradients.
        _weight: the vectors, instead of random ones.
        _freeze: do not learn them.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        AssertionError: ``padding_idx`` is out of range, or ``_weight`` has another shape.
        IndexError: when called, on a number out of range.
    """

    __formula__ = "W_x"

    @adopting(torch.nn.Embedding)
    def __init__(self, _freeze: bool, **given: Any) -> None:
        self._set(**given)
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor | torch.Tensor) -> Any:
        return ops.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    extra_repr = showing(torch.nn.Embedding)

    from_pretrained = _pretrained(torch.nn.Embedding)


class EmbeddingBag(_EmbeddingTable):
    """Sums, means or maxima of bags of vectors, without making the vectors one by one.

    Shapes: input (B, L) integers, B bags of L; or (n,) with offsets (B,), where each bag begins; output
    (B, embedding_dim); weight (num_embeddings, embedding_dim).

    Args:
        num_embeddings: how many vectors there are.
        embedding_dim: how long they are.
        max_norm: a vector that is longer is shortened to this length, in the table itself, when it is looked up.
        norm_type: which norm that length is.
        scale_grad_by_freq: divide gradients by how often the number stands in the input.
        mode: "mean", "sum" or "max".
        sparse: accepted, but True raises NotImplementedError when called: nbgrad has no sparse gradients.
        _weight: the vectors, instead of random ones.
        include_last_offset: whether ``offsets`` ends with the end of the last bag.
        padding_idx: a number that does not count.
        device: where they live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        AssertionError: ``padding_idx`` is out of range, or ``_weight`` has another shape.
        ValueError: when called, if the mode is unknown, or the offsets do not match the input.
    """

    __formula__ = r"\sum_{i \in \text{bag}} W_{x_i}"

    @adopting(torch.nn.EmbeddingBag)
    def __init__(self, mode: str, include_last_offset: bool, **given: Any) -> None:
        self._set(**given)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: Tensor | torch.Tensor,
        offsets: Tensor | torch.Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Any:
        return ops.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    extra_repr = showing(torch.nn.EmbeddingBag)

    from_pretrained = _pretrained(torch.nn.EmbeddingBag)

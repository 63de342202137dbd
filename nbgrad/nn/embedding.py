"""Embeddings: a learned vector for each word, symbol or category."""

from typing import Any, Self

import torch

from nbgrad.core import ops
from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Device, DType, Parameter, uninitialized


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
            self.weight = Parameter(_weight)

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

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor | torch.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding made of given vectors, such as learned ones. It shares their memory.

        Args:
            embeddings: the vectors, of shape (num_embeddings, embedding_dim).
            freeze: do not learn them further.
            padding_idx: as for the constructor.
            max_norm: as for the constructor.
            norm_type: as for the constructor.
            scale_grad_by_freq: as for the constructor.
            sparse: as for the constructor.

        Raises:
            AssertionError: ``embeddings`` does not have two dimensions.
        """
        return cls(
            *_sizes(embeddings),
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=raw_of(embeddings),
            _freeze=freeze,
        )


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

    def extra_repr(self) -> str:
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        if self.max_norm is not None:
            shown.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            shown.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            shown.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        shown.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            shown.append(f"padding_idx={self.padding_idx}")
        return ", ".join(shown)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor | torch.Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """An ``EmbeddingBag`` made of given vectors, such as learned ones. It shares their memory.

        Args:
            embeddings: the vectors, of shape (num_embeddings, embedding_dim).
            freeze: do not learn them further.
            max_norm: as for the constructor.
            norm_type: as for the constructor.
            scale_grad_by_freq: as for the constructor.
            mode: as for the constructor.
            sparse: as for the constructor.
            include_last_offset: as for the constructor.
            padding_idx: as for the constructor.

        Raises:
            AssertionError: ``embeddings`` does not have two dimensions.
        """
        made = cls(
            *_sizes(embeddings),
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=raw_of(embeddings),
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made


def _sizes(embeddings: Tensor | torch.Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    return embeddings.shape[0], embeddings.shape[1]

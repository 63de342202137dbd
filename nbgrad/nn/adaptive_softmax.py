"""Losses that hold the last layer of a model for very many classes."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.adopted import adopting
from nbgrad.nn.containers import ModuleList, Sequential
from nbgrad.nn.function_block import of_shape
from nbgrad.nn.linear import Linear, wrong_last
from nbgrad.nn.module.module import Module


class ASMoutput(NamedTuple):
    """The result of ``AdaptiveLogSoftmaxWithLoss``: each example's log-probability, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Cross entropy over very many classes, of which the rare ones get smaller layers (Grave et al. 2017).

    Classes are numbered from the most frequent one. Those below the first cutoff are in the head, with one entry for
    each cluster of the others.

    Shapes: input (N, in_features) or (in_features,), target (N,) or (); output (N,) or (), loss ().

    Args:
        in_features: size of the input's last dimension.
        n_classes: how many classes there are.
        cutoffs: where the clusters begin.
        div_value: by how much the size of the layers shrinks from cluster to cluster.
        head_bias: whether the head learns a bias.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: the cutoffs do not increase between 1 and ``n_classes`` - 1.
        RuntimeError: when called, if the shapes do not match, or a target is out of range.
    """

    __formula__ = r"-\frac{1}{n} \sum_i \ln p(c_i) \, p(t_i | c_i)"

    @adopting(torch.nn.AdaptiveLogSoftmaxWithLoss)
    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float, head_bias: bool, **place: Any
    ) -> None:
        super().__init__()
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // (div_value ** (number + 1)))
            sizes = ((in_features, hidden), (hidden, high - low))
            self.tail.append(Sequential(*[Linear(*size, bias=False, **place) for size in sizes]))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection:
                layer.reset_parameters()

    def forward(self, input: Tensor, target: Tensor | torch.Tensor) -> ASMoutput:
        classes = target.data
        _check_shapes(input, classes)
        if classes.ndim == 0:
            output, loss = self(ops.unsqueeze(input, 0), classes[None])
            return ASMoutput(ops.squeeze(output, 0), loss)
        if classes.numel() and not (classes.min() >= 0 and classes.max() < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{classes.min().item()}, {classes.max().item()}] were found. "
            )
        in_head = classes.clone()
        rare = torch.bucketize(classes, torch.tensor(self.cutoffs[:-1], device=classes.device), right=True)
        in_head[rare > 0] = self.shortlist_size + rare[rare > 0] - 1
        head = ops.log_softmax(self.head(input), dim=1)
        output = ops.squeeze(ops.gather(head, 1, in_head[:, None]), 1)
        for number in range(self.n_clusters):
            rows = (rare == number + 1).nonzero()[:, 0]
            if len(rows):
                inside = classes[rows] - self.cutoffs[number]
                cluster = ops.log_softmax(self.tail[number](ops.index_select(input, 0, rows)), dim=1)
                output = ops.index_add(output, 0, rows, ops.squeeze(ops.gather(cluster, 1, inside[:, None]), 1))
        return ASMoutput(output, -output.mean())

    def log_prob(self, input: Tensor) -> Any:
        """The log-probabilities of all classes.

        Shapes: input (N, in_features), output (N, n_classes).
        """
        head = ops.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number in range(self.n_clusters):
            place = self.shortlist_size + number
            parts.append(ops.log_softmax(self.tail[number](input), dim=1) + head[:, place : place + 1])
        return ops.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Any:
        """The most probable class of each example.

        Shapes: input (N, in_features), output (N,).
        """
        best = self.head(input).data.argmax(dim=1)
        rows = (best >= self.shortlist_size).nonzero()[:, 0]
        if len(rows):
            best[rows] = self.log_prob(ops.index_select(input, 0, rows)).data.argmax(dim=1)
        return tensor(best)

    def _misfit(self, input: Tensor) -> str | None:
        return wrong_last(input, self.in_features) if input.ndim in {1, 2} else None


def _check_cutoffs(cutoffs: Sequence[int], n_classes: int) -> None:
    if not len(cutoffs):
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    increasing = all(low < high for low, high in pairwise([0, *cutoffs, n_classes]))
    if not increasing or any(int(cutoff) != cutoff for cutoff in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            "is between 1 and n_classes-1"
        )


def _check_shapes(input: Tensor, target: torch.Tensor) -> None:
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found {of_shape(input)}"
        )
    if target.ndim == 1 and len(input) != len(target):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")


class LinearCrossEntropyLoss(Module):
    """A ``Linear`` to the scores of all classes, and their ``CrossEntropyLoss``.

    Shapes: input (N, in_features) or (in_features,); target class numbers (N, *out_features), or probabilities (N,
    num_classes, *out_features), both without N if the input has none; output (), or as class numbers with
    ``reduction="none"``.

    Args:
        in_features: size of the input's last dimension.
        num_classes: how many classes there are.
        out_features: the shape of the class numbers of one example; default: one number.
        bias: whether it learns a bias.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
        reduction: "mean", "sum" or "none".
        weight: how much each class counts, of shape (num_classes,).
        ignore_index: a class number that counts nothing.
        label_smoothing: how much of the target's probability is spread over all classes.
        options: must be None. In torch it says how the loss is computed in pieces, to save memory; nbgrad does not do
            this.

    Raises:
        RuntimeError: ``weight`` has another shape, or ``label_smoothing`` is not between 0 and 1.
        NotImplementedError: ``options`` are given.
    """

    __formula__ = r"-\frac{1}{n} \sum_i \ln \operatorname{softmax}(x_i W^\top + b)_{t_i}"

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | torch.Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: None = None,
    ) -> None:
        super().__init__()
        if options is not None:
            raise NotImplementedError("LinearCrossEntropyLoss: options is not supported, nbgrad computes in one piece")
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = out_features
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        size = prod(out_features, start=num_classes)
        self.linear = Linear(in_features, size, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor | torch.Tensor) -> Any:
        scores = self.linear(input)
        return ops.cross_entropy(
            ops.reshape(scores, (*scores.shape[:-1], self.num_classes, *self.out_features)),
            target,
            self.weight,
            ignore_index=-100 if self.ignore_index is None else self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )

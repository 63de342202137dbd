"""Losses with a margin: nothing to learn where the right answer leads the others by enough."""

import torch

from nbgrad.core.ops.casting import as_one
from nbgrad.core.ops.choosing import clamp_min, minimum, where
from nbgrad.core.ops.distance import cosine_of, pairwise_distance
from nbgrad.core.ops.loss import code, reduced, warned


@as_one(torch.nn.functional.hinge_embedding_loss)
def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """The input itself where the target is 1, how far it falls short of ``margin`` where the target is -1.

    With a distance as input it brings pairs that belong together near and keeps others apart.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """
    warned("hinge_embedding_loss", input, target)
    apart = where(target != 1, clamp_min(margin - input, 0), 0.0)
    return reduced(apart + where(target != -1, input, 0.0), reduction)


@as_one(torch.nn.functional.margin_ranking_loss)
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """How far input1 falls short of leading input2 by ``margin``, where the target is 1; the reverse where it is -1.

    Shapes: inputs and target of one rank, broadcast; output (), or that shape with ``reduction="none"``. Raises
    RuntimeError where the ranks differ.
    """
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        shapes = ", ".join(str(tuple(one.shape)) for one in (input1, input2, target))
        raise RuntimeError(f"margin_ranking_loss: inputs and target are to have one rank, not shapes {shapes}")
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@as_one(torch.nn.functional.cosine_embedding_loss)
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """One minus the cosine of two vectors where the target is 1, what exceeds ``margin`` of it where it is -1.

    Embeddings of sentences and faces are compared by angle.

    Shapes: inputs (D,) with target (), or (N, D) with (N,); output (), or as target with ``reduction="none"``. Raises
    RuntimeError for others.
    """
    if len(target.shape) > 1 or len(input1.shape) != len(target.shape) + 1 or len(input2.shape) != len(input1.shape):
        shapes = ", ".join(str(tuple(one.shape)) for one in (input1, input2, target))
        raise RuntimeError(f"cosine_embedding_loss: one target per vector is needed, not shapes {shapes}")
    cosine = cosine_of(input1, input2)
    alike = where(target == 1, 1 - cosine, 0.0)
    return reduced(alike + where(target == -1, clamp_min(cosine - margin, 0), 0.0), reduction)


@as_one(torch.nn.functional.triplet_margin_loss)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"):
    """How far a negative example falls short of being ``margin`` farther from an anchor than a positive one.

    Face recognition learns its embedding so (Schroff et al. 2015, https://arxiv.org/abs/1503.03832). With ``swap`` the
    negative's distance from the positive counts where it is smaller.

    Shapes: all (D,) or (N, D), broadcast; output (), or (N,) with ``reduction="none"``. Raises ValueError for a margin
    that is not positive.
    """

    def distance(a, b):
        return pairwise_distance(a, b, p, eps)

    return triplet_margin_with_distance_loss(
        *(anchor, positive, negative), distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """Triplet loss with any distance: ``distance_function`` takes two batches; default: pairwise_distance.

    Shapes: all (N, ...) of one rank; output (), or what the distance gives with ``reduction="none"``. Raises ValueError
    for a margin that is not positive, RuntimeError where the ranks differ.
    """
    code(reduction)
    if margin <= 0:
        raise ValueError(f"margin is to be positive, not {margin}")
    if not len(anchor.shape) == len(positive.shape) == len(negative.shape):
        raise RuntimeError("anchor, positive and negative are to have one rank")
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(margin + near - far, 0), reduction)

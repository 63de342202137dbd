"""Losses with a margin: they are zero where the right answer exceeds the others by at least the margin."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops.elementwise.select import clamp_min, minimum, where
from nbgrad.core.ops.index.getitem import gather_along, gather_backward
from nbgrad.core.ops.loss.regression import REDUCTIONS, code, divided, reduced, warned, with_gradients
from nbgrad.core.ops.neural.distance import cosine_of, pairwise_distance
from nbgrad.core.ops.shape.views import expand, unsqueeze


@as_one(torch.nn.functional.hinge_embedding_loss)
def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """The input itself where the target is 1, max(0, margin - input) where the target is -1.

    With a distance as input it brings pairs that belong together near and keeps others apart.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """
    warned("hinge_embedding_loss", input, target)
    apart = where(target != 1, clamp_min(margin - input, 0), 0.0)
    return reduced(apart + where(target != -1, input, 0.0), reduction)


@as_one(torch.nn.functional.margin_ranking_loss)
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """max(0, margin - target * (input1 - input2)): input1 should be larger where target is 1, smaller where -1.

    Shapes: inputs and target of one rank, broadcast; output (), or that shape with ``reduction="none"``. Raises
    RuntimeError where the ranks differ.
    """
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        shapes = ", ".join(str(tuple(one.shape)) for one in (input1, input2, target))
        raise RuntimeError(f"margin_ranking_loss: inputs and target must have the same rank, not shapes {shapes}")
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@as_one(torch.nn.functional.cosine_embedding_loss)
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 minus the cosine of two vectors where the target is 1, max(0, cosine - margin) where the target is -1.

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
    """max(0, margin + distance of anchor and positive example - distance of anchor and negative example).

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
        raise ValueError(f"margin must be positive, not {margin}")
    if not len(anchor.shape) == len(positive.shape) == len(negative.shape):
        raise RuntimeError("anchor, positive and negative must have the same rank")
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(margin + near - far, 0), reduction)


_nn = torch.nn.functional


# One class against the others.


def _right_classes(make: Make):
    """Scores of one or several examples, with each reduction, power, and weights; and a tie with the margin."""
    weight = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
    for p in (1, 2):
        for reduction in REDUCTIONS:
            yield Sample.of(make(3, 4), make.integers(4, 3), p=p, reduction=reduction)
            yield Sample.of(make(3, 4), make.integers(4, 3), weight, p=p, margin=0.5, reduction=reduction)
        yield Sample.of(make(4), torch.tensor(2), p=p)
    yield Sample.of(torch.tensor([[2.0, 1.0, 3.0]], dtype=torch.float64), torch.tensor([0]))
    yield Sample.of(make(0, 4), make.integers(4, 0), reduction="sum")


def _multi_margin(input, target, weight=None, p=1, margin=1.0, reduction="mean"):
    """multi_margin_loss in small steps, which torch can differentiate twice, unlike its kernel."""
    _nn.multi_margin_loss(input, target, p, margin, weight)  # raises for weights that need a gradient
    scores, numbers = input.reshape(-1, input.shape[-1]), target.reshape(-1, 1)
    short = torch.relu(margin - scores.gather(1, numbers) + scores) ** p
    short = short if weight is None else short * weight[numbers]
    loss = short.scatter(1, numbers, 0.0).sum(1) / input.shape[-1]
    return reduced(loss if target.ndim else loss.squeeze(0), reduction)


@op(
    formula=r"\frac{1}{n} \sum_i \frac{1}{C} \sum_{j \neq t_i} \max(0, m - x_{i t_i} + x_{ij})^p",
    no_gradient=("target",),
    samples=_right_classes,
    ranks=(1, 2),
    reference=_multi_margin,
)
def multi_margin_loss(input, target, weight=None, *, p=1, margin=1.0, reduction="mean"):
    """How far the score of the right class is below the score of each other class plus ``margin``.

    The loss of support vector machines with several classes (Crammer and Singer 2001).

    Shapes: input (C,) or (N, C), target class numbers () or (N,), weight (C,); output (), or as target with
    ``reduction="none"``. Raises ValueError for another p than 1 and 2.
    """
    if not input.numel():  # torch's kernel would return uninitialized memory
        return reduced(input.sum(-1), reduction)
    return _nn.multi_margin_loss(input, target, p, margin, weight, reduction=reduction)


@multi_margin_loss.rule(
    "input",
    r"\bar{y} \frac{p}{n C} (d_j^{p - 1} \text{ at } j \neq t, \; -\sum_j d_j^{p - 1} \text{ at } t), \; "
    r"d_j = \max(0, m - x_t + x_j)",
)
def _(g, input, target, weight, p, margin, reduction):
    return multi_margin_loss_backward(g, input, target, weight, p=p, margin=margin, reduction=reduction)


def _right_classes_and_gradients(make: Make):
    for args, settings in _right_classes(make):
        settings = {"p": 1, "margin": 1.0, "reduction": "mean", **settings}
        input, target, weight = (*args, None)[:3]
        g = make(*() if settings["reduction"] != "none" else target.shape)
        yield Sample.of(g, input, target, weight, **settings)


def _multi_margin_by_torch(g, input, target, weight, **settings):
    """The gradient of multi_margin_loss in small steps."""
    x = input if input.requires_grad else input.clone().requires_grad_()
    return torch.autograd.grad(_multi_margin(x, target, weight, **settings), x, g, create_graph=True)[0]


@op(
    formula=r"g \frac{p}{n C} (d_j^{p - 1} \text{ at } j \neq t, \; -\sum_j d_j^{p - 1} \text{ at } t), \; "
    r"d_j = \max(0, m - x_t + x_j)",
    no_gradient=("target", "weight"),
    samples=_right_classes_and_gradients,
    ranks=(0, 1),
    reference=_multi_margin_by_torch,
)
def multi_margin_loss_backward(g, input, target, weight, *, p, margin, reduction):
    """The gradient of multi_margin_loss for its input; d is by how much the right class falls short.

    Shapes: g () or as target with ``reduction="none"``, the others as in multi_margin_loss; output as input.
    """
    if input.is_meta:
        return torch.empty_like(input)  # torch's kernel takes no meta tensors
    return aten.multi_margin_loss_backward(g, input, target, p, margin, weight, code(reduction))


@multi_margin_loss_backward.rule("g", r"\frac{p}{n C} \sum_j d_j^{p - 1} (\bar{y}_j - \bar{y}_t)")
def _(gradient, g_shape, input, target, weight, p, margin, reduction):
    one = torch.ones(g_shape, dtype=gradient.dtype, device=gradient.device)
    settings = {"p": p, "margin": margin, "reduction": reduction}
    product = gradient * multi_margin_loss_backward(one, input, target, weight, **settings)
    # On a GPU g_shape is (0,) if there is no row.
    return product.sum().expand(g_shape) if reduction != "none" else product.sum(-1)


@multi_margin_loss_backward.rule(
    "input", r"g \frac{p (p - 1)}{n C} (\bar{y}_j - \bar{y}_t \text{ where } d_j > 0 \text{; minus their sum at } t)"
)
def _(gradient, g, input, target, weight, p, margin, reduction):
    if p == 1:  # straight pieces
        return torch.zeros(tuple(input.shape), dtype=gradient.dtype, device=gradient.device)
    numbers = unsqueeze(target, dim=-1)
    leads = margin - gather_along(input, numbers, dim=-1) + input > 0
    share = divided(g, reduction, target.shape) * (2 / input.shape[-1])
    if reduction == "none":
        share = unsqueeze(share, dim=-1)
    if weight is not None:
        share = share * gather_along(expand(weight, size=tuple(input.shape)), numbers, dim=-1)
    change = where(leads, gradient - gather_along(gradient, numbers, dim=-1), 0.0) * share
    return change - gather_backward(change.sum(-1, True), numbers, dim=-1, shape=tuple(input.shape))


# Several classes against the others.


def _several_classes(make: Make):
    """Scores and lists of right classes, each ended by -1, with each reduction."""
    lists = torch.tensor([[2, 0, -1, 1], [1, -1, 0, 0], [-1, 3, 1, 0]])
    yield from (Sample.of(make(3, 4), lists, reduction=reduction) for reduction in REDUCTIONS)
    yield Sample.of(make(4), lists[0])
    yield Sample.of(torch.tensor([1.0, 0.0, 3.0, 2.0], dtype=torch.float64), lists[1], reduction="sum")
    yield Sample.of(make(0, 4), make.integers(4, 0, 4), reduction="sum")


def _multilabel_margin(input, target, reduction="mean"):
    """multilabel_margin_loss in small steps, which torch can differentiate twice, unlike its kernel."""
    scores, lists = input.reshape(-1, input.shape[-1]), target.reshape(-1, input.shape[-1])
    right = torch.zeros_like(scores, dtype=torch.bool)
    for row, numbers in zip(right, lists.tolist(), strict=True):
        row[numbers[: numbers.index(-1)]] = True
    short = torch.relu(1 - scores[:, :, None] + scores[:, None, :])
    loss = (short * (right[:, :, None] & ~right[:, None, :])).sum((1, 2)) / input.shape[-1]
    return reduced(loss if input.ndim > 1 else loss.squeeze(0), reduction)


@op(
    formula=r"\frac{1}{n} \sum_i \frac{1}{C} \sum_{j \in t_i} \sum_{k \notin t_i} \max(0, 1 - x_{ij} + x_{ik})",
    aux=("is_target",),
    no_gradient=("target",),
    samples=_several_classes,
    ranks=(1, 2),
    reference=_multilabel_margin,
    policy=torch.nn.functional.multilabel_margin_loss,
)
def multilabel_margin_loss(input, target, *, reduction="mean"):
    """The sum of max(0, 1 - (right - wrong)) over all pairs of a right and a wrong class, divided by C.

    Shapes: input (C,) or (N, C), target alike: the numbers of the right classes, ended by -1. Output (), or (N,) with
    ``reduction="none"``.
    """
    loss, is_target = aten.multilabel_margin_loss_forward(input, target, code(reduction))
    if not input.numel():  # torch's kernel returns uninitialized memory
        loss = reduced(input.sum(-1), reduction)
    return loss, is_target


@multilabel_margin_loss.rule(
    "input",
    r"\bar{y} \, \frac{1}{n C} (\sum_{j \in t_i} [1 - x_{ij} + x_{ik} > 0] \text{ at } k \notin t_i, \; "
    r"-\sum_{k \notin t_i} [1 - x_{ij} + x_{ik} > 0] \text{ at } j \in t_i)",
)
def _(g, input, target, is_target, reduction):
    return multilabel_margin_loss_backward(g, input, target, is_target, reduction=reduction)


def _several_classes_and_gradients(make: Make):
    for (g, input, target), settings in with_gradients(_several_classes)(make):
        if settings["reduction"] == "none":
            g = g[:, 0]
        kept = aten.multilabel_margin_loss_forward(input, target, code(settings["reduction"]))[1]
        yield Sample.of(g, input, target, kept, **settings)


def _multilabel_margin_by_torch(g, input, target, is_target, reduction):
    """The gradient of multilabel_margin_loss in small steps."""
    x = input.clone().requires_grad_()
    return torch.autograd.grad(_multilabel_margin(x, target, reduction), x, g, create_graph=True)[0]


@op(
    formula=r"g \, \frac{1}{n C} (\sum_{j \in t_i} [1 - x_{ij} + x_{ik} > 0] \text{ at } k \notin t_i, \; "
    r"-\sum_{k \notin t_i} [1 - x_{ij} + x_{ik} > 0] \text{ at } j \in t_i)",
    no_gradient=("target", "is_target"),
    flat=("input",),
    samples=_several_classes_and_gradients,
    ranks=(0, 1),
    reference=_multilabel_margin_by_torch,
)
def multilabel_margin_loss_backward(g, input, target, is_target, *, reduction):
    """The gradient of multilabel_margin_loss for its input. It is constant in pieces, so only g gets a gradient of it.

    Shapes: g () or (N,) with ``reduction="none"``, is_target as input, the others as in multilabel_margin_loss; output
    as input.
    """
    if input.is_meta:
        return torch.empty_like(input)  # torch's kernel takes no meta tensors
    return aten.multilabel_margin_loss_backward(g, input, target, code(reduction), is_target)


@multilabel_margin_loss_backward.rule("g", r"\frac{1}{n C} \sum \bar{y} \odot (\text{as for } g = 1)")
def _(gradient, g_shape, input, target, is_target, reduction):
    one = torch.ones(g_shape, dtype=gradient.dtype, device=gradient.device)
    product = gradient * multilabel_margin_loss_backward(one, input, target, is_target, reduction=reduction)
    # On a GPU g_shape is (0,) if there is no row.
    return product.sum().expand(g_shape) if reduction != "none" else product.sum(-1)

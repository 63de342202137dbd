"""The blocks as functions, under the names that ``torch.nn.functional`` gives them.

Written by tools/write_functions.py from the op table: change that instead.
"""

import torch

from nbgrad.core.ops import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    affine_grid as affine_grid,
    alpha_dropout as alpha_dropout,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    batch_norm as batch_norm,
    bilinear as bilinear,
    celu_ as celu_,
    channel_shuffle as channel_shuffle,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    cosine_similarity as cosine_similarity,
    ctc_loss as ctc_loss,
    dropout as dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    elu_ as elu_,
    embedding as embedding,
    embedding_bag as embedding_bag,
    feature_alpha_dropout as feature_alpha_dropout,
    fold as fold,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
    gaussian_nll_loss as gaussian_nll_loss,
    gelu as gelu,
    glu as glu,
    grid_sample as grid_sample,
    group_norm as group_norm,
    grouped_mm as grouped_mm,
    gumbel_softmax as gumbel_softmax,
    hardshrink as hardshrink,
    hardtanh_ as hardtanh_,
    instance_norm as instance_norm,
    interpolate as interpolate,
    layer_norm as layer_norm,
    leaky_relu_ as leaky_relu_,
    linear as linear,
    linear_cross_entropy as linear_cross_entropy,
    local_response_norm as local_response_norm,
    logsigmoid as logsigmoid,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
    multi_head_attention_forward as multi_head_attention_forward,
    normalize as normalize,
    one_hot as one_hot,
    pad as pad,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    prelu as prelu,
    relu_ as relu_,
    rms_norm as rms_norm,
    rrelu_ as rrelu_,
    scaled_dot_product_attention as scaled_dot_product_attention,
    selu_ as selu_,
    sigmoid as sigmoid,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    tanh as tanh,
    tanhshrink as tanhshrink,
    threshold_ as threshold_,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
    unfold as unfold,
    upsample as upsample,
)
from nbgrad.core.tensor.methods import Array, Number
from nbgrad.core.tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
]

def binary_cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """How badly probabilities predict a yes or no: minus the log of the probability of the true answer.

    Scores before their sigmoid are better given to binary_cross_entropy_with_logits, which loses no precision. The
    logarithms count as at least -100.

    Shapes: input and target alike, between 0 and 1; weight broadcasts to them. Output (), or as input with
    ``reduction="none"``. Raises ValueError where input and target differ in shape.
    """

def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """The row of that name in torch's order of arguments, the weight of the positive answers last."""

def celu(input: Array, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """An elu whose slope is 1 on both sides of 0 whatever ``alpha`` is.

    So the gradient has no jump at 0 (Barron 2017, https://arxiv.org/abs/1704.07483).

    Shapes: output as input. Raises RuntimeError where alpha is 0.
    """

def cosine_embedding_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0.0,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """1 minus the cosine of two vectors where the target is 1, max(0, cosine - margin) where the target is -1.

    Embeddings of sentences and faces are compared by angle.

    Shapes: inputs (D,) with target (), or (N, D) with (N,); output (), or as target with ``reduction="none"``. Raises
    RuntimeError for others.
    """

def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Cross entropy: see the row. If the target holds probabilities, class weights that need a gradient get one.

    Raises NotImplementedError where weights need a gradient and the target is class numbers, as torch does.
    """

def elu(input: Array, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """The exponential linear unit: x where it is positive, elsewhere it bends smoothly to ``-alpha``.

    Negative outputs bring the mean of a layer near 0, which speeds up learning (Clevert et al. 2015,
    https://arxiv.org/abs/1511.07289).

    Shapes: output as input.
    """

def hardsigmoid(input: Array, inplace: bool = False) -> Tensor:
    """The logistic function made of straight pieces: 0 below -3, 1 above 3.

    MobileNetV3 uses it in its gates (Howard et al. 2019, https://arxiv.org/abs/1905.02244): it needs no exponential.

    Shapes: output as input.
    """

def hardswish(input: Array, inplace: bool = False) -> Tensor:
    """The input times its hardsigmoid: silu without an exponential.

    The activation of MobileNetV3 (Howard et al. 2019, https://arxiv.org/abs/1905.02244).

    Shapes: output as input.
    """

def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Cuts the input off below ``min_val`` and above ``max_val``: tanh made of straight pieces.

    On and beyond the bounds its gradient is 0, as torch has it.

    Shapes: output as input. Raises ValueError where min_val exceeds max_val.
    """

def hinge_embedding_loss(
    input: Array,
    target: Array,
    margin: float = 1.0,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """The input itself where the target is 1, max(0, margin - input) where the target is -1.

    With a distance as input it brings pairs that belong together near and keeps others apart.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """

def huber_loss(
    input: Array, target: Array, reduction: str = "mean", delta: float = 1.0, weight: Array | None = None
) -> Tensor:
    """Half the squared error up to ``delta``, linear beyond it; ``weight`` says how much each element counts.

    The weighted mean divides by the number of elements here, as torch has it, not by the sum of the weights.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """

def kl_div(
    input: Array,
    target: Array,
    reduction: str = "mean",
    log_target: bool = False,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Kullback-Leibler divergence: how far predicted log probabilities are from the probabilities of the target.

    Distillation (Hinton et al. 2015, https://arxiv.org/abs/1503.02531) and variational inference minimize it.
    ``input`` holds logarithms; so does ``target`` with ``log_target``.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``. ``reduction="batchmean"``
    divides by the size of the batch, as the definition has it; "mean" divides by the number of elements and warns.
    """

def l1_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    weight: Array | None = None,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Mean absolute error between a prediction and its target; ``weight`` says how much each element counts.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """

def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The input where it is positive, ``negative_slope`` times it elsewhere.

    A relu that never shuts entirely, so no unit dies (Maas et al. 2013); usual in the discriminators of GANs.

    Shapes: output as input.
    """

def log_softmax(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """Logarithm of softmax along ``dim``, computed without overflow.

    Cross entropy is built on it.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def margin_ranking_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0.0,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): input1 should be larger where target is 1, smaller where -1.

    Shapes: inputs and target of one rank, broadcast; output (), or that shape with ``reduction="none"``. Raises
    RuntimeError where the ranks differ.
    """

def mish(input: Array, inplace: bool = False) -> Tensor:
    """The input times tanh of its softplus, elementwise: a smooth relative of relu with a dip below 0.

    The activation of YOLOv4 (Misra 2019, https://arxiv.org/abs/1908.08681).

    Shapes: output as input.
    """

def mse_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    weight: Array | None = None,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Mean squared error between a prediction and its target; ``weight`` says how much each element counts.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """

def multi_margin_loss(
    input: Array,
    target: Array,
    p: float = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """The row of that name in torch's order of arguments, the weights of the classes after the settings."""

def multilabel_margin_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """The sum of max(0, 1 - (right - wrong)) over all pairs of a right and a wrong class, divided by C.

    Shapes: input (C,) or (N, C), target alike: the numbers of the right classes, ended by -1. Output (), or (N,) with
    ``reduction="none"``.
    """

def multilabel_soft_margin_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Binary cross entropy of scores, averaged over classes: for inputs that may have several labels at once.

    Shapes: input and target (C,) or (N, C), target of zeros and ones; weight broadcasts to them. Output (), or (N,)
    with ``reduction="none"``.
    """

def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Minus the log probability of the right class, where ``input`` holds log probabilities.

    After log_softmax it is cross entropy. The mean is weighted by the weights of the targets' classes; targets of
    ``ignore_index`` count nothing.

    Shapes: input (C,), (N, C) or (N, C, d1, ...); target class numbers of that shape without C; weight (C,). Output (),
    or as the target with ``reduction="none"``. Raises IndexError for a class number out of range.
    """

def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    eps: float | None = 1e-08,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Minus the log-likelihood of counts under Poisson distributions with the predicted rates.

    The loss of counting: photons, clicks, spikes. ``input`` holds logarithms of rates with ``log_input``. ``full`` adds
    Stirling's approximation of what does not depend on the input; ``eps`` keeps the logarithm of a rate finite.

    Shapes: input and target broadcast; output (), or that shape with ``reduction="none"``.
    """

def relu(input: Array, inplace: bool = False) -> Tensor:
    """The rectified linear unit: x where it is positive, 0 elsewhere.

    The usual activation of deep networks (Nair and Hinton 2010): where it is open the gradient passes undamped, so it
    does not vanish with depth; where it is shut the unit learns nothing. At 0 its gradient is 0, as torch has it.

    Shapes: output as input.
    """

def relu6(input: Array, inplace: bool = False) -> Tensor:
    """A relu that stops at 6.

    MobileNet uses it, since small numbers keep their precision in few bits (Howard et al. 2017,
    https://arxiv.org/abs/1704.04861).

    Shapes: output as input.
    """

def rrelu(
    input: Array, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False
) -> Tensor:
    """A leaky relu whose slope is drawn for each element between ``lower`` and ``upper``; in evaluation, their mean."""

def selu(input: Array, inplace: bool = False) -> Tensor:
    """The scaled elu whose two constants keep mean 0 and variance 1 from layer to layer.

    Self-normalizing networks need no other normalization (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input.
    """

def silu(input: Array, inplace: bool = False) -> Tensor:
    """The input times its logistic function, elementwise: nearly 0 left, nearly x right, with a dip below 0 between.

    Also called swish; the activation of EfficientNet and, as gate of SwiGLU, of current language models (Ramachandran
    et al. 2017, https://arxiv.org/abs/1710.05941).

    Shapes: output as input.
    """

def smooth_l1_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    beta: Number = 1.0,
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """Squared error for errors below ``beta``, absolute error beyond it; with a ``beta`` of 0 it is l1_loss.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """

def soft_margin_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """The logistic loss of scores against signs: binary cross entropy where the answers are -1 and 1.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """

def softmax(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """Turns scores along ``dim`` into probabilities: positive numbers that add up to 1.

    Attention weighs its values with it, classifiers make class probabilities with it. With ``dtype`` it computes in
    that element type, so that scores of half precision lose nothing on the way.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def softmin(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """Turns costs along ``dim`` into probabilities: softmax of minus the input, so that the smallest weighs most.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """

def threshold(input: Array, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The input where it exceeds ``threshold``, ``value`` elsewhere.

    With 0 for both numbers it is relu.

    Shapes: output as input.
    """

def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float | None = 1e-06,
    swap: bool = False,
    reduction: str = "mean",
    *,
    size_average: bool | None = None,
    reduce: bool | None = None,
) -> Tensor:
    """max(0, margin + distance of anchor and positive example - distance of anchor and negative example).

    Face recognition learns its embedding so (Schroff et al. 2015, https://arxiv.org/abs/1503.03832). With ``swap`` the
    negative's distance from the positive counts where it is smaller.

    Shapes: all (D,) or (N, D), broadcast; output (), or (N,) with ``reduction="none"``. Raises ValueError for a margin
    that is not positive.
    """

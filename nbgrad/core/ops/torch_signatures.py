"""Functions of torch.nn.functional that are called in another way than a row: ``inplace=True``, weights, old names.

The old names are those of arguments that torch still takes, with a warning.
"""

import warnings
from inspect import Parameter, Signature, isfunction, signature

import torch
from torch.nn._reduction import legacy_get_string
from torch.nn.functional import _get_softmax_dim  # type: ignore[attr-defined]  # its choice, and its words

from nbgrad.core import ops
from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.dispatch.op import named
from nbgrad.core.ops.elementwise import arithmetic
from nbgrad.core.ops.loss import binary, classification, margin as margins, regression
from nbgrad.core.ops.loss.regression import code
from nbgrad.core.ops.neural import activations, rectifiers
from nbgrad.core.tensor.tensor import Tensor


def _with_inplace(row):
    """The row with torch's last argument, ``inplace``, which says whether to overwrite the input and return it."""

    def function(input, *settings, inplace=False, **named):
        if len(settings) > len(row.defaults):
            settings, inplace = settings[:-1], settings[-1]
        return row.in_place(input, *settings, **named) if inplace else row(input, *settings, **named)

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = row.doc
    parameters = [*signature(row).parameters.values()]
    parameters = [one.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for one in parameters]
    last = Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False)
    function.__signature__ = Signature([*parameters, last])  # type: ignore[attr-defined]
    return function


celu = _with_inplace(activations.celu)
elu = _with_inplace(activations.elu)
hardsigmoid = _with_inplace(rectifiers.hardsigmoid)
hardswish = _with_inplace(rectifiers.hardswish)
hardtanh = _with_inplace(rectifiers.hardtanh)
leaky_relu = _with_inplace(rectifiers.leaky_relu)
mish = _with_inplace(activations.mish)
relu = _with_inplace(rectifiers.relu)
relu6 = _with_inplace(rectifiers.relu6)
selu = _with_inplace(activations.selu)
silu = _with_inplace(activations.silu)
threshold = _with_inplace(rectifiers.threshold)


def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """A leaky relu whose slope is drawn for each element between ``lower`` and ``upper``; in evaluation, their mean."""
    return (
        rectifiers.rrelu_(input, lower, upper, training) if inplace else rectifiers.rrelu(input, lower, upper, training)
    )


def mse_loss(input, target, reduction="mean", weight=None):
    """Mean squared error between a prediction and its target; ``weight`` says how much each element counts.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """
    if weight is None:
        return regression.mse_loss(input, target, reduction=reduction)
    return _weighted((input - target) ** 2, input, weight, reduction)


def l1_loss(input, target, reduction="mean", weight=None):
    """Mean absolute error between a prediction and its target; ``weight`` says how much each element counts.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """
    if weight is not None:
        return _weighted(arithmetic.abs(input - target), input, weight, reduction)
    return regression.l1_loss(input, target, reduction=reduction)


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """Squared error for errors below ``beta``, absolute error beyond it; with a ``beta`` of 0 it is l1_loss.

    Shapes: input and target alike; output (), or as input with ``reduction="none"``.
    """
    if beta == 0:
        return l1_loss(input, target, reduction)
    return regression.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared error up to ``delta``, linear beyond it; ``weight`` says how much each element counts.

    The weighted mean divides by the number of elements here, as torch has it, not by the sum of the weights.

    Shapes: input and target alike, weight as input; output (), or as input with ``reduction="none"``.
    """
    if weight is None:
        return regression.huber_loss(input, target, reduction=reduction, delta=delta)
    losses = regression.huber_loss(input, target, reduction="none", delta=delta)
    weighted = _weighted(losses, input, weight, "none")
    return weighted.mean() if reduction == "mean" else _weighted(losses, input, weight, reduction)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross entropy: see the row. If the target holds probabilities, class weights that need a gradient get one.

    Raises NotImplementedError where weights need a gradient and the target is class numbers, as torch does.
    """
    settings = {"reduction": reduction, "label_smoothing": label_smoothing}
    if isinstance(weight, Tensor) and weight.requires_grad and target.is_floating_point():
        return classification.cross_entropy_by_steps(input, target, weight, **settings)
    return classification.cross_entropy(input, target, weight, ignore_index=ignore_index, **settings)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
    """The row of that name in torch's order of arguments, the weights of the classes after the settings."""
    return margins.multi_margin_loss(input, target, weight, p=p, margin=margin, reduction=reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """The row of that name in torch's order of arguments, the weight of the positive answers last."""
    return binary.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction=reduction)


def _weighted(losses, input, weight, reduction):
    """The sum of weighted losses, or their mean in which each counts as much as its weight."""
    if weight.shape != input.shape:
        raise ValueError(f"weight must have the shape of the input, {tuple(input.shape)}, not {tuple(weight.shape)}")
    code(reduction)
    weighted = losses * weight
    if reduction == "none":
        return weighted
    return weighted.sum() / weight.sum() if reduction == "mean" else weighted.sum()


def _choosing(function, name):
    """The function with an optional ``dim``: without it, torch chooses one by the number of dimensions, and warns."""

    def chosen(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None:
            dim = _get_softmax_dim(name, input.ndim, _stacklevel + 1)
        return function(input, dim=dim, dtype=dtype)

    return named(chosen, name, signature(chosen), function.__doc__)


softmax = _choosing(ops.softmax, "softmax")
log_softmax = _choosing(ops.log_softmax, "log_softmax")
softmin = _choosing(ops.softmin, "softmin")


def _of_before(function, name):
    """The loss with torch's old names of a reduction: ``size_average=False`` for a sum, ``reduce=False`` for "none"."""

    def taking(*args, size_average=None, reduce=None, **settings):
        if size_average is not None or reduce is not None:
            settings["reduction"] = now = legacy_get_string(size_average, reduce, emit_warning=False)
            text = f"size_average and reduce args will be deprecated, please use reduction={now!r} instead."
            warnings.warn(text, stacklevel=2)
        return function(*args, **settings)

    shown = [one.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for one in signature(function).parameters.values()]
    old = [Parameter(word, Parameter.KEYWORD_ONLY, default=None) for word in ("size_average", "reduce")]
    return named(taking, name, Signature([*shown, *old]), function.__doc__)


for _name, _torchs in vars(torch.nn.functional).items():
    if isfunction(_torchs) and "size_average" in parameter_names(_torchs):
        globals()[_name] = _of_before(globals().get(_name) or getattr(ops, _name), _name)

"""Dropout: random elements of a layer are set to zero during training."""

import math
import operator

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.tensor.broadcast_check import warn_here


def _noises(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), 2.0 * make.integers(2, *shape))
    yield Sample.of(make(2, 3, 2), 2.0 * make.integers(2, 2, 3, 1))


@op(
    name="dropout",
    formula=r"x \odot m",
    symbols={"noise": "m"},
    broadcasts=("input",),
    no_gradient=("noise",),
    method=False,
    samples=_noises,
    reference=lambda x, noise: x * noise,
    inplace=lambda x, noise: x.mul_(noise),
)
def dropout_row(input, noise):
    """The input times noise drawn before, which is 0 where a number is dropped and makes up for it elsewhere.

    Without knowing which units will be there, a layer learns to rely on none (Srivastava et al. 2014). A dropped number
    gets no gradient.

    Shapes: noise broadcasts to input, output as input.
    """
    return input * noise


@dropout_row.rule("input", r"\bar{y} \odot m", kernel=operator.mul)
def _(g, noise):
    return g * noise


_ALPHA = 1.7580993408473766
"""Minus the value that selu approaches far below 0."""


def _drop(name, input, p, training, inplace, *, features=0, alpha=False):
    """The shared part of all dropouts: draw noise as torch does, so that one seed gives one mask, and multiply by it.

    ``features`` is how many of the first dimensions have noise of their own; 0 if all have.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability p must be between 0 and 1, not {p}")
    if not training or p == 0 or not input.numel():
        return input
    raw = raw_of(input)
    if raw.ndim < features:
        raise RuntimeError(f"{name} needs an input of shape (N, C, ...), not {tuple(raw.shape)}")
    noise = _noise(raw, p, features, alpha)
    if not alpha:
        return (dropout_row.in_place if inplace else dropout_row)(input, noise)
    if p == 1:
        return (dropout_row.in_place if inplace else dropout_row)(input, torch.zeros_like(raw))
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))  # keeps mean 0 and variance 1
    shift = (noise - 1).mul_(_ALPHA * scale).add_(_ALPHA * scale * p)
    dropped = (dropout_row.in_place if inplace else dropout_row)(input, noise.mul_(scale))
    return dropped.add_(shift) if inplace else dropped + shift


def _noise(raw, p, features, alpha):
    if features:
        noise = raw.new_empty((*raw.shape[:features], *(1 for _ in raw.shape[features:])))
    elif raw.is_cuda and p < 1 and not alpha:  # drawn by the kernel that torch itself uses there
        return torch.native_dropout(raw, p, True)[1].to(raw.dtype).div_(1 - p)
    else:
        noise = torch.empty_like(raw)
    if p == 1:
        return noise.zero_()
    noise.bernoulli_(1 - p)
    return noise if alpha else noise.div_(1 - p)


def dropout(input, p=0.5, training=True, inplace=False, train=None):
    """Switches each number off with probability ``p`` and makes the others larger by 1 / (1 - p): see the row dropout.

    The same seed drops the same numbers as in torch. Outside training it returns its input.

    Shapes: output as input. Raises ValueError for a ``p`` that is no probability.
    """
    return _drop("dropout", input, p, training if train is None else train, inplace)


def alpha_dropout(input, p=0.5, training=False, inplace=False, train=None):
    """Dropout for selu: a dropped number gets the value that selu has far below 0, and mean and variance are kept.

    It belongs to self-normalizing networks (Klambauer et al. 2017, https://arxiv.org/abs/1706.02515).

    Shapes: output as input. Raises ValueError for a ``p`` that is no probability.
    """
    return _drop("alpha_dropout", input, p, training if train is None else train, inplace, alpha=True)


def feature_dropout(input, p=0.5, train=True):
    """Switches whole channels off: neighbours in a channel are alike, so dropping single numbers has little effect.

    Shapes: input (N, C, ...), output as input. Raises ValueError for a ``p`` that is no probability.
    """
    return _drop("feature_dropout", input, p, train, False, features=2)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False, train=None):
    """alpha_dropout of whole channels.

    Shapes: input (N, C, ...), output as input. Raises ValueError for a ``p`` that is no probability.
    """
    chosen = training if train is None else train
    return _drop("feature_alpha_dropout", input, p, chosen, inplace, features=2, alpha=True)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Switches whole channels of sequences off: see feature_dropout.

    Shapes: input (N, C, L) or (C, L), output as input.
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d needs an input of 2 or 3 dimensions, not {tuple(input.shape)}")
    return _drop("dropout1d", input, p, training, inplace, features=input.ndim - 1)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Switches whole channels of images off: see feature_dropout.

    Shapes: input (N, C, H, W), output as input. Any other of two dimensions or more is (N, C, ...) too, with torch's
    warning. Raises RuntimeError for fewer.
    """
    if input.ndim < 2:
        raise RuntimeError(f"dropout2d needs an input of 3 or 4 dimensions, not {tuple(input.shape)}")
    if input.ndim == 3:
        warn_here(f"dropout2d takes {tuple(input.shape)} for (N, C, L), not for an image: dropout1d is for that")
    elif input.ndim != 4:
        _warned("dropout2d", "dropout", input)
    return _drop("dropout2d", input, p, training, inplace, features=2)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Switches whole channels of volumes off: see feature_dropout.

    Shapes: input (N, C, D, H, W) or (C, D, H, W), output as input. Any other is (C, ...) too, with torch's warning.
    """
    if input.ndim not in (4, 5):
        _warned("dropout3d", "dropout", input)
    return _drop("dropout3d", input, p, training, inplace, features=2 if input.ndim == 5 else 1)


def _warned(name, instead, input):
    warn_here(f"{name} got an input of shape {tuple(input.shape)}, which will be an error in torch: write {instead}")

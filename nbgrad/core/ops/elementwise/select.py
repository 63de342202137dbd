"""Selection, elementwise: a condition or a comparison chooses each number of the output from the inputs."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import Make, Sample, binary, pairs, points
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits

_EITHER = Traits(commutes=True)


def _choices(make: Make):
    """Every pair of shapes that broadcasts, with a condition of either shape."""
    for args, _ in binary(make):
        for shape in {getattr(arg, "shape", ()) for arg in args}:
            yield Sample.of(make(*shape) > 0, *args)


@op(
    formula=r"a \text{ where } c \text{, else } b",
    symbols={"condition": "c"},
    kernel=torch.where,
    broadcasts=True,
    no_gradient=("condition",),
    method=False,
    samples=_choices,
)
def where(condition, a, b):
    """Elements of a where the condition holds, of b elsewhere, broadcasting.

    The gradient goes to the side that was chosen, and the other side gets 0.

    Shapes: condition, a and b broadcast to the output. Raises RuntimeError where they do not.
    """


@where.rule("a", r"\bar{y} \text{ where } c \text{, else } 0")
def _(g, condition):
    return where(condition, g, 0.0)


@where.rule("b", r"0 \text{ where } c \text{, else } \bar{y}")
def _(g, condition):
    return where(condition, 0.0, g)


def either(condition, when, otherwise, *inputs):
    """``when(*inputs)`` if the condition holds, else ``otherwise(*inputs)``: for rules without numbers, as in a trace.

    Both are computed. Where one of them does not count, its inputs are replaced by ones, so that no NaN of it or of its
    gradient gets into the result. But a gradient of 0 flows back to every input; further back, 0 times inf makes NaN.
    """
    chosen = when(*(where(condition, one, 1.0) for one in inputs))
    other = otherwise(*(where(condition, 1.0, one) for one in inputs))
    return where(condition, chosen, other)


def _where(self, condition, other):
    """Elements of this tensor where the condition holds, of ``other`` elsewhere, in the order of torch's method."""
    return where(condition, self, other)


install("where", _where)


@cache
def _halved() -> bool:
    """Whether this torch halves the gradient of fmax, fmin and clamp at a tie, and gives none if the bound is a number.

    torch does so from 2.14 on; before, the input got all of it. To find out, this function has torch compute one such
    gradient, and keeps the answer. It does so in a new thread: autograd is on there, but off where a rule runs, and no
    mode changes tensors there.
    """

    def ask() -> bool:
        at_bound: Any = torch.zeros((), device="cpu", requires_grad=True).clamp_min(0)
        return not at_bound.grad_fn(torch.ones((), device="cpu")).item()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(ask).result()


def _of_larger(g, one, other):
    """The gradient of ``one`` in the larger of the two: half at a tie, and all of it where either is NaN."""
    return where(one == other, g / 2, where(one < other, 0.0, g))


def _of_smaller(g, one, other):
    """The gradient of ``one`` in the smaller of the two: half at a tie, and all of it where either is NaN."""
    return where(one == other, g / 2, where(one > other, 0.0, g))


def _edges(make: Make):
    """Every pair of shapes that broadcasts, a tie, and NaN."""
    yield from pairs(make)
    nan = float("nan")
    yield Sample.of(points(1.0, 2.0, 3.0, nan, 1.0, nan), points(1.0, 3.0, 2.0, 1.0, nan, nan))


@op(formula=r"\max(a, b)", kernel=torch.maximum, broadcasts=True, samples=_edges, traits=_EITHER)
def maximum(a, b):
    """The larger of a and b, elementwise, broadcasting; NaN where either is NaN.

    At a tie each side gets half of the gradient, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """


@maximum.rule("a", r"\bar{y} \text{ where } a > b \text{, half at a tie, else } 0")
def _(g, a, b):
    return _of_larger(g, a, b)


@maximum.rule("b", r"\bar{y} \text{ where } b > a \text{, half at a tie, else } 0")
def _(g, a, b):
    return _of_larger(g, b, a)


@op(formula=r"\min(a, b)", kernel=torch.minimum, broadcasts=True, samples=_edges, traits=_EITHER)
def minimum(input, other):
    """The smaller of two, elementwise, broadcasting; NaN where either is NaN.

    The clipped objective of PPO (Schulman et al. 2017, https://arxiv.org/abs/1707.06347) is a minimum. At a tie each
    side gets half of the gradient, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@minimum.rule("input", r"\bar{y} \text{ where } a < b \text{, half at a tie, else } 0")
def _(g, input, other):
    return _of_smaller(g, input, other)


@minimum.rule("other", r"\bar{y} \text{ where } b < a \text{, half at a tie, else } 0")
def _(g, input, other):
    return _of_smaller(g, other, input)


@op(formula=r"\max(a, b)", kernel=torch.fmax, broadcasts=True, samples=_edges, traits=_EITHER)
def fmax(input, other):
    """The larger of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a maximum over data with gaps. At a tie the gradient goes to the input, and from torch 2.14
    on half of it to each, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@fmax.rule("input", r"\bar{y} \text{ where } a > b \text{ or } b \text{ is NaN, at a tie as in torch, else } 0")
def _(g, input, other):
    return _of_larger(g, input, other) if _halved() else where((input >= other) | other.isnan(), g, 0.0)


@fmax.rule("other", r"\bar{y} \text{ where } b > a \text{ or } a \text{ is NaN, at a tie as in torch, else } 0")
def _(g, input, other):
    return _of_larger(g, other, input) if _halved() else where((input >= other) | other.isnan(), 0.0, g)


@op(formula=r"\min(a, b)", kernel=torch.fmin, broadcasts=True, samples=_edges, traits=_EITHER)
def fmin(input, other):
    """The smaller of two, elementwise, broadcasting; where one is NaN, the other one.

    It takes a minimum over data with gaps. At a tie the gradient goes to the input, and from torch 2.14
    on half of it to each, as torch has it.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@fmin.rule("input", r"\bar{y} \text{ where } a < b \text{ or } b \text{ is NaN, at a tie as in torch, else } 0")
def _(g, input, other):
    return _of_smaller(g, input, other) if _halved() else where((input <= other) | other.isnan(), g, 0.0)


@fmin.rule("other", r"\bar{y} \text{ where } b < a \text{ or } a \text{ is NaN, at a tie as in torch, else } 0")
def _(g, input, other):
    return _of_smaller(g, other, input) if _halved() else where((input <= other) | other.isnan(), 0.0, g)


def _bounds(make: Make):
    """No bound, one or two, as numbers and as tensors; elements exactly at a bound; and min above max."""
    for x, bound in (sample.args for sample in pairs(make)):
        yield Sample.of(x, bound - 1, bound)
    x = points(-2.0, -1.0, 0.0, 1.0, 2.0)
    for low, high in ((-1, 1), (-1.0, None), (None, 1.0), (1.0, -1.0)):
        yield Sample.of(x, low, high)
        yield Sample.of(
            x, *[None if bound is None else torch.full((5,), float(bound)).double() for bound in (low, high)]
        )


@op(formula=r"\min(\max(x, l), h)", kernel=torch.clamp, broadcasts=True, inplace=True, samples=_bounds)
def clamp(input, min=None, max=None):
    """Each element moved up to ``min`` and down to ``max``, numbers or tensors; one may be None.

    Losses that may not run away are clamped, and so are the log variances of a variational autoencoder. Between the
    bounds the gradient goes to the input, beyond them to the bound; where min exceeds max, all of it to max. Exactly at
    a bound it goes to the input, as in torch. From torch 2.14 on the input gets half of it if the bound is a tensor,
    and nothing if the bound is a number.

    Shapes: input, min and max broadcast to the output. Raises RuntimeError without bounds, TypeError for a number and
    a tensor.
    """


def _of_raised(g, input, min):
    if not _halved():
        return where(input >= min, g, 0.0)
    return _of_larger(g, input, min) if _is_tensor(min) else where(input > min, g, 0.0)


def _of_lowered(g, input, max):
    if not _halved():
        return where(input <= max, g, 0.0)
    return _of_smaller(g, input, max) if _is_tensor(max) else where(input < max, g, 0.0)


def _of_low(g, input, min):
    return _of_larger(g, min, input) if _halved() else where(input < min, g, 0.0)


def _of_high(g, input, max):
    return _of_smaller(g, max, input) if _halved() else where(input > max, g, 0.0)


def _is_tensor(bound):
    return isinstance(raw_of(bound), torch.Tensor)


@clamp.rule("input", r"\bar{y} \text{ where } l < x < h \text{, at a bound as in torch, else } 0")
def _(g, input, min, max):
    if max is None:
        return _of_raised(g, input, min)
    if min is None:
        return _of_lowered(g, input, max)
    if not _halved():
        return where((input >= min) & (input <= max), g, 0.0)
    if not _is_tensor(min):
        return where((input > min) & (input < max), g, 0.0)
    tie = (min < max) & ((input == min) | (input == max))
    return where(tie, g / 2, where((input < min) | (input > max), 0.0, g))


@clamp.rule("min", r"\bar{y} \text{ where } x < l < h \text{, at a bound as in torch, else } 0")
def _(g, input, min, max):
    if max is None:
        return _of_low(g, input, min)
    if not _halved():
        return where((min < max) & (input < min), g, 0.0)
    return where((input < min) & (min <= max), g, where((input == min) & (min < max), g / 2, 0.0))


@clamp.rule("max", r"\bar{y} \text{ where } x > h \text{ or } h < l \text{, at a bound as in torch, else } 0")
def _(g, input, min, max):
    if min is None:
        return _of_high(g, input, max)
    if not _halved():
        return where((input > max) | (max < min), g, 0.0)
    all_of_it = ((input > max) & (min <= max)) | (max < min)
    return where(all_of_it, g, where((input == max) & (min < max), g / 2, 0.0))


def _one_bound(make: Make):
    yield from pairs(make)
    yield Sample.of(points(-1.0, 0.0, 1.0), 0)
    yield Sample.of(points(-1.0, 0.0, 1.0), points(0.0, 0.0, 0.0))


@op(formula=r"\max(x, l)", kernel=torch.clamp_min, broadcasts=True, inplace=True, samples=_one_bound, traits=_EITHER)
def clamp_min(input, min):
    """Each element moved up to ``min``, a number or a tensor that broadcasts.

    It keeps a norm away from 0 before a division by it. At the bound the gradient goes to the input, as in torch. From
    torch 2.14 on the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and min broadcast to the output. Raises RuntimeError where they do not.
    """


@clamp_min.rule("input", r"\bar{y} \text{ where } x > l \text{, at a tie as in torch, else } 0")
def _(g, input, min):
    return _of_raised(g, input, min)


@clamp_min.rule("min", r"\bar{y} \text{ where } x < l \text{, at a tie as in torch, else } 0")
def _(g, input, min):
    return _of_low(g, input, min)


@op(formula=r"\min(x, h)", kernel=torch.clamp_max, broadcasts=True, inplace=True, samples=_one_bound, traits=_EITHER)
def clamp_max(input, max):
    """Each element moved down to ``max``, a number or a tensor that broadcasts.

    Importance weights are cut off with it. At the bound the gradient goes to the input, as in torch. From torch 2.14 on
    the input gets half of it if the bound is a tensor, and nothing if the bound is a number.

    Shapes: input and max broadcast to the output. Raises RuntimeError where they do not.
    """


@clamp_max.rule("input", r"\bar{y} \text{ where } x < h \text{, at a tie as in torch, else } 0")
def _(g, input, max):
    return _of_lowered(g, input, max)


@clamp_max.rule("max", r"\bar{y} \text{ where } x > h \text{, at a tie as in torch, else } 0")
def _(g, input, max):
    return _of_high(g, input, max)


def _masks(make: Make):
    for x, like in (sample.args for sample in pairs(make)):
        yield Sample.of(x, make(*like.shape) > 0, make())
    yield Sample.of(make(2, 3), make(2, 3) > 0, -float("inf"))
    yield Sample.of(make(2, 3), make(3) > 0, 2)


@op(
    formula=r"v \text{ where } m \text{, else } x",
    kernel=torch.masked_fill,
    broadcasts=True,
    no_gradient=("mask",),
    inplace=True,
    samples=_masks,
)
def masked_fill(input, mask, value):
    """The input with the value, a number or a tensor of one, wherever the mask holds, broadcasting.

    Attention fills the scores of hidden positions with -inf before its softmax (Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762). Replaced elements get the gradient 0.

    Shapes: input and mask broadcast to the output. Raises RuntimeError where they do not, or for a value with
    dimensions.
    """


@masked_fill.rule("input", r"0 \text{ where } m \text{, else } \bar{y}")
def _(g, mask):
    return masked_fill(g, mask, 0)


@masked_fill.rule("value", r"\sum \bar{y} \text{ where } m")
def _(g, mask):
    return where(mask, g, 0.0)

"""Arithmetic, elementwise: sums, products, quotients and ops made of these. They broadcast."""

import operator
from math import fabs, inf, isinf

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.plan import Plan
from nbgrad.core.dispatch.samples import NONZERO, Make, Sample, at, binary, pairs, points, unary
from nbgrad.core.engine.node import identity
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.rounding import flat
from nbgrad.core.tensor.broadcast_check import meant, unpaired, warn_unpaired

_SUM = Traits(commutes=True, neutral=-0.0, sign="+")
_LESS = Traits(neutral=0.0, sign="−")
_SIZE = Traits(interval=(0.0, inf))


def _scaled(x, factor):
    """``x`` times a number, which costs nothing where it is 1."""
    return x if factor == 1 else x * factor


def _sums(make: Make):
    yield from binary(make)
    yield Sample.of(make(2, 3), make(3), alpha=2)
    yield Sample.of(2.0, make(2, 3), alpha=-0.5)


@op(formula=r"a + b", kernel=torch.add, broadcasts=True, operator="add", inplace=True, samples=_sums, traits=_SUM)
def add(a, b, *, alpha=1):
    """Sum of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first.

    It passes its gradient on unchanged to both sides, which is why skip connections (He et al. 2015,
    https://arxiv.org/abs/1512.03385) let gradients reach early layers. Adding a bias is this op: the bias is stretched
    over the batch, so its gradient is summed over the batch.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """


@add.rule("a", r"\bar{y}", kernel=identity)
def _(g):
    return g


@add.rule("b", r"\bar{y}")
def _(g, alpha):
    return _scaled(g, alpha)


add.undefined.append((lambda a, b: a == -b and isinf(a), "inf - inf"))


@op(formula=r"a - b", kernel=torch.sub, broadcasts=True, operator="sub", inplace=True, samples=_sums, traits=_LESS)
def sub(a, b, *, alpha=1):
    """Difference of two tensors, elementwise, broadcasting; b is multiplied by ``alpha`` first.

    The error of a prediction is one: prediction minus target.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """


@sub.rule("a", r"\bar{y}", kernel=identity)
def _(g):
    return g


@sub.rule("b", r"-\bar{y}")
def _(g, alpha):
    return -g if alpha == 1 else g * -alpha


sub.undefined.append((lambda a, b: a == b and isinf(a), "inf - inf"))


class _Error(Plan):
    """A difference from a constant may be the error of a prediction, which must have the target's shape."""

    __slots__ = ()

    @property
    def looks(self):
        """True if one side is a constant."""
        return len(self.rules) == 1

    def save(self, values, results, settings):
        out = results[0]
        square = out.ndim == 2 and out.size(0) == out.size(1)
        if square and unpaired(*values) and not meant(values[0], values[1], 1 - self.rules[0][0]):
            warn_unpaired("sub", *values)
        return super().save(values, results, settings)


sub.plan = _Error


def rsub(input, other, *, alpha=1):
    """The difference the other way round, ``other - alpha * input``; it is recorded as sub."""
    return sub(other, input, alpha=alpha)


@op(
    formula=r"a \odot b",
    kernel=torch.mul,
    broadcasts=True,
    operator="mul",
    inplace=True,
    samples=binary,
    traits=Traits(multiplies=True, commutes=True, neutral=1.0, sign="×"),
)
def mul(a, b):
    """Product of two tensors, elementwise, broadcasting.

    Each side's gradient is scaled by the other side: a gate that is nearly 0 lets nearly no gradient through. Masks,
    gates of an LSTM and attention weights are products.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """


@mul.rule("a", r"\bar{y} \odot b", kernel=operator.mul)
def _(g, b):
    return g * b


@mul.rule("b", r"\bar{y} \odot a", kernel=operator.mul)
def _(g, a):
    return g * a


mul.undefined.append((lambda a, b: {fabs(a), fabs(b)} == {0, inf}, "0 * inf"))


def _quotients(make: Make):
    yield from binary(make)
    for mode in ("floor", "trunc"):
        yield Sample.of(make(2, 3), make(3), rounding_mode=mode)
        yield Sample.of(2.0, make(2, 3), rounding_mode=mode)


@op(
    formula=r"\frac{a}{b}",
    kernel=torch.div,
    broadcasts=True,
    operator="truediv",
    inplace=True,
    domain=NONZERO,
    samples=_quotients,
    traits=Traits(neutral=1.0, sign="÷"),
)
def div(a, b, *, rounding_mode=None):
    """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers.

    Normalization divides by a standard deviation, a mean by a count. The gradient of b grows as b goes to 0. With
    ``rounding_mode`` "floor" or "trunc" the quotient is rounded, and the gradients are 0.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not, or for another mode.
    """


@div.rule("a", r"\frac{\bar{y}}{b}")
def _(g, b, rounding_mode):
    return g / b if rounding_mode is None else flat(g)


@div.rule("b", r"-\bar{y} \odot \frac{a}{b^2}")
def _(g, a, b, rounding_mode):
    return -g * (a / b / b) if rounding_mode is None else flat(g)


@op(
    formula=r"\left\lfloor \frac{a}{b} \right\rfloor",
    kernel=torch.floor_divide,
    broadcasts=True,
    differentiable=False,
    operator="floordiv",
    inplace=True,
    domain=NONZERO,
    samples=binary,
)
def floor_divide(input, other):
    """Quotient rounded down, elementwise, broadcasting; integers stay integers. It has no gradient.

    It turns a flat index into a row number. Use ``div(rounding_mode="floor")`` for a result with the gradient 0.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for an integer by 0.
    """


def _remainders(make: Make):
    yield from pairs(make)
    yield Sample.of(make(2, 3), 1.5)
    yield Sample.of(make(2, 3), -1.5)
    yield Sample.of(points(-3.0, 0.0, 3.0, 3.5), points(1.5, 1.5, -1.5, -2.0))


@op(
    formula=r"a - b \left\lfloor \frac{a}{b} \right\rfloor",
    kernel=torch.remainder,
    broadcasts=True,
    operator="mod",
    inplace=True,
    domain=NONZERO,
    samples=_remainders,
)
def remainder(input, other):
    """The remainder of a division rounded down, with the sign of the divisor, as Python's ``%``; broadcasting.

    It wraps angles and positions around; its jumps have no gradient.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@remainder.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@remainder.rule("other", r"-\bar{y} \odot \left\lfloor \frac{a}{b} \right\rfloor")
def _(g, input, other):
    return -g * div(input, other, rounding_mode="floor")


@op(
    formula=r"a - b \operatorname{trunc}\left(\frac{a}{b}\right)",
    kernel=torch.fmod,
    broadcasts=True,
    inplace=True,
    domain=NONZERO,
    samples=_remainders,
)
def fmod(input, other):
    """The remainder of a division rounded towards 0, with the sign of the dividend, as C's ``fmod``; broadcasting.

    It is the remainder that C libraries and many file formats mean.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """


@fmod.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@fmod.rule("other", r"-\bar{y} \odot \operatorname{trunc}\left(\frac{a}{b}\right)")
def _(g, input, other):
    return -g * div(input, other, rounding_mode="trunc")


for _row in (div, remainder, fmod):
    _row.undefined += [(lambda a, b: a == 0 and b == 0, "0 / 0"), (lambda _, b: b == 0, "division by 0")]
div.undefined.append((lambda a, b: isinf(a) and isinf(b), "inf / inf"))
div.slope = "division by 0"


@op(formula=r"-x", kernel=torch.neg, operator="neg", inplace=True, samples=unary)
def neg(x):
    """The tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """


@neg.rule("x", r"-\bar{y}", kernel=operator.neg)
def _(g):
    return -g


def _sizes(make: Make):
    yield from at(-1.0, -0.0, 0.0, 1.0)(make)
    yield Sample.of(make.complex(2, 3))


@op(formula=r"|x|", kernel=torch.abs, operator="abs", inplace=True, holomorphic=False, samples=_sizes, traits=_SIZE)
def abs(input):
    """Absolute value, elementwise.

    L1 losses and L1 regularization (the lasso, Tibshirani 1996) add it up: their pull does not weaken near 0, so
    weights become exactly 0. At 0 the gradient is 0, as torch has it.

    Shapes: output as input.
    """


@abs.rule("input", r"\bar{y} \odot \operatorname{sign}(x)")
def _(g, input):
    return g * input.sgn()


@op(formula=r"\frac{1}{x}", kernel=torch.reciprocal, inplace=True, domain=NONZERO, samples=unary)
def reciprocal(input):
    """One over each element; infinite at 0.

    Multiplying by it once is cheaper than dividing many times.

    Shapes: output as input.
    """


@reciprocal.rule("input", r"-\bar{y} \odot y^2")
def _(g, out):
    return -g * (out * out)


reciprocal.undefined.append((lambda x: x == 0, "division by 0"))


def positive(input):
    """The tensor itself, as ``+x``.

    Raises:
        RuntimeError: a bool tensor, as torch has it.
    """
    if input.dtype is torch.bool:
        raise RuntimeError("positive(input of dtype bool): + is not defined for bool tensors")
    return input


install("positive", positive)
install("__pos__", positive)


def _blends(make: Make):
    for sample in pairs(make):
        a, b = sample.args
        yield Sample.of(a, b, make(*b.shape))
        yield Sample.of(a, b, 0.3)
    yield Sample.of(points(1.0, 1.0), points(3.0, 3.0), points(0.0, 1.0))


@op(
    formula=r"x + w \odot (e - x)",
    symbols={"end": "e"},
    kernel=torch.lerp,
    broadcasts=True,
    inplace=True,
    samples=_blends,
)
def lerp(input, end, weight):
    """Linear interpolation, elementwise, broadcasting: the input at weight 0, the end at weight 1.

    Moving averages of weights and mixup (Zhang et al. 2017, https://arxiv.org/abs/1710.09412) are blends like this.

    Shapes: input, end and weight (or a number) broadcast to the output. Raises RuntimeError where they do not.
    """


@lerp.rule("input", r"\bar{y} \odot (1 - w)")
def _(g, weight):
    return g * (1 - weight)


@lerp.rule("end", r"\bar{y} \odot w", kernel=operator.mul)
def _(g, weight):
    return g * weight


@lerp.rule("weight", r"\bar{y} \odot (e - x)")
def _(g, input, end):
    return g * (end - input)


def _triples(make: Make):
    for a, b in (sample.args for sample in pairs(make)):
        yield Sample.of(a, b, make(*b.shape))
    yield Sample.of(make(3), make(2, 1), make(2, 3), value=-0.5)
    yield Sample.of(make(), make(3), make(3), value=2)


@op(
    formula=r"x + v \, s \odot t",
    symbols={"tensor1": "s", "tensor2": "t"},
    kernel=torch.addcmul,
    broadcasts=True,
    inplace=True,
    samples=_triples,
)
def addcmul(input, tensor1, tensor2, *, value=1):
    """A product times ``value``, added to the input, elementwise, in one kernel, broadcasting.

    Optimizers add up squared gradients with it.

    Shapes: input, tensor1 and tensor2 broadcast to the output. Raises RuntimeError where they do not.
    """


@addcmul.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@addcmul.rule("tensor1", r"\bar{y} \odot v \, t")
def _(g, tensor2, value):
    return g * _scaled(tensor2, value)


@addcmul.rule("tensor2", r"\bar{y} \odot v \, s")
def _(g, tensor1, value):
    return g * _scaled(tensor1, value)


@op(
    formula=r"x + v \, \frac{s}{t}",
    symbols={"tensor1": "s", "tensor2": "t"},
    kernel=torch.addcdiv,
    broadcasts=True,
    inplace=True,
    domain=NONZERO,
    samples=_triples,
)
def addcdiv(input, tensor1, tensor2, *, value=1):
    """A quotient times ``value``, added to the input, elementwise, in one kernel, broadcasting.

    It computes the step of Adam (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980): mean over root of mean square.

    Shapes: input, tensor1 and tensor2 broadcast to the output. Raises RuntimeError where they do not.
    """


@addcdiv.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@addcdiv.rule("tensor1", r"\bar{y} \odot \frac{v}{t}")
def _(g, tensor2, value):
    return g * (value / tensor2)


@addcdiv.rule("tensor2", r"-\bar{y} \odot v \, \frac{s}{t^2}")
def _(g, tensor1, tensor2, value):
    return -g * (_scaled(tensor1, value) / (tensor2 * tensor2))

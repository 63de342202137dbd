"""Elementwise arithmetic: each number of the output comes from one number of each input, broadcast."""

import math
import operator

import torch

from nbgrad.core.op import Plan, install, op
from nbgrad.core.samples import NONZERO, POSITIVE, Make, Sample, binary, unary
from nbgrad.core.strict import unpaired, warn_unpaired


@op(formula=r"a + b", broadcasts=True, operator="add", inplace=True, samples=binary)
def add(a, b):
    """Sum of two tensors, elementwise, broadcasting.

    It passes its gradient on unchanged to both sides, which is why skip connections (He et al. 2015,
    https://arxiv.org/abs/1512.03385) let gradients reach early layers. Adding a bias is this op: the bias is stretched
    over the batch, so its gradient is summed over the batch.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.add(a, b)


@add.rule("a", r"\bar{y}")
def _(g):
    return g


@add.rule("b", r"\bar{y}")
def _(g):
    return g


@op(formula=r"a - b", broadcasts=True, operator="sub", inplace=True, samples=binary)
def sub(a, b):
    """Difference of two tensors, elementwise, broadcasting.

    The error of a prediction is one: prediction minus target.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.sub(a, b)


@sub.rule("a", r"\bar{y}")
def _(g):
    return g


@sub.rule("b", r"-\bar{y}")
def _(g):
    return -g


class _Error(Plan):
    """A difference from a constant may be the error of a prediction, which is to be of the target's shape."""

    __slots__ = ()

    def save(self, values, results, settings):
        out = results[0]
        if out.ndim == 2 and out.size(0) == out.size(1) and len(self.rules) == 1 and unpaired(*values):
            warn_unpaired("sub", *values)
        return super().save(values, results, settings) if self.slots else ()  # a difference saves nothing


sub.plan = _Error


@op(formula=r"a \odot b", broadcasts=True, operator="mul", inplace=True, samples=binary)
def mul(a, b):
    """Product of two tensors, elementwise, broadcasting.

    Each side's gradient is scaled by the other side: a gate that is nearly 0 lets nearly no gradient through. Masks,
    gates of an LSTM and attention weights are products.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.mul(a, b)


@mul.rule("a", r"\bar{y} \odot b")
def _(g, b):
    return g * b


@mul.rule("b", r"\bar{y} \odot a")
def _(g, a):
    return g * a


@op(formula=r"\frac{a}{b}", broadcasts=True, operator="truediv", inplace=True, domain=NONZERO, samples=binary)
def div(a, b):
    """True quotient of two tensors, elementwise, broadcasting; integers give floating point numbers.

    Normalization divides by a standard deviation, a mean by a count. The gradient of b grows as b goes to 0.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.div(a, b)


@div.rule("a", r"\frac{\bar{y}}{b}")
def _(g, b):
    return g / b


@div.rule("b", r"-\bar{y} \odot \frac{a}{b^2}")
def _(g, a, b):
    return -g * (a / b / b)


@op(formula=r"-x", operator="neg", inplace=True, samples=unary)
def neg(x):
    """The tensor with its sign changed.

    A likelihood to be made large becomes, with a minus sign, a loss to be made small.

    Shapes: output as x.
    """
    return torch.neg(x)


@neg.rule("x", r"-\bar{y}")
def _(g):
    return -g


def _powers(make: Make):
    """Positive bases with any exponent, and the edges 0 and negative bases with whole exponents."""
    yield from binary(make)
    edges = torch.tensor([-1.5, 0.0, 2.0], dtype=torch.float64)
    for exponent in (0, 1, 2, 3, 2.0):
        yield Sample.of(edges, exponent)
    yield Sample.of(torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64), 2.5)
    yield Sample.of(0.0, torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64))
    yield Sample.of(edges, torch.tensor([2.0, 1.0, 3.0], dtype=torch.float64))


@op(formula=r"a^{b}", broadcasts=True, operator="pow", inplace=True, domain=POSITIVE, samples=_powers)
def pow(a, b):
    """The power a to the b, elementwise, broadcasting.

    Squares are the commonest: errors, norms, variances. Where b is 0 the gradient of a is 0, as torch has it.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return torch.pow(a, b)


@pow.rule("a", r"\bar{y} \odot b \odot a^{b - 1}")
def _(g, a, b):
    if isinstance(b, int | float):
        return g * (b * a ** (b - 1)) if b != 0 else torch.zeros(g.shape, dtype=g.dtype, device=g.device)
    return where(b == 0, 0.0, g * (b * a ** (b - 1)))


@pow.rule("b", r"\bar{y} \odot y \odot \ln a")
def _(g, out, a, b):
    # 0 to a power of at least 0 does not depend on b, though the logarithm of 0 is infinite: masked as torch does.
    if isinstance(a, int | float):
        slope = out * (math.log(a) if a > 0 else -math.inf if a == 0 else math.nan)
        return g * (where(b >= 0, 0.0, slope) if a == 0 else slope)
    slope = out * log(a.to(dtype=out.dtype))
    return g * where(a == 0, where(b >= 0, 0.0, slope), slope)


@op(formula=r"e^{x}", inplace=True, samples=unary)
def exp(x):
    """The exponential function, elementwise.

    Softmax turns scores into positive numbers with it. It is its own derivative, so large values have large gradients.

    Shapes: output as x.
    """
    return torch.exp(x)


@exp.rule("x", r"\bar{y} \odot y")
def _(g, out):
    return g * out


@op(formula=r"\ln x", inplace=True, domain=POSITIVE, samples=unary)
def log(x):
    """Natural logarithm, elementwise; NaN for negative x, -inf at 0.

    Losses take the logarithm of a probability: a confident mistake costs much, and its gradient is large.

    Shapes: output as x.
    """
    return torch.log(x)


@log.rule("x", r"\frac{\bar{y}}{x}")
def _(g, x):
    return g / x


@op(formula=r"\sqrt{x}", inplace=True, domain=POSITIVE, samples=unary)
def sqrt(x):
    """Square root, elementwise; NaN for negative x.

    Standard deviations and norms end with it. Its gradient is infinite at 0.

    Shapes: output as x.
    """
    return torch.sqrt(x)


@sqrt.rule("x", r"\frac{\bar{y}}{2 y}")
def _(g, out):
    return g / (2 * out)


def _choices(make: Make):
    """Every pair of shapes that broadcasts, with a condition of either shape."""
    for args, _ in binary(make):
        for shape in {getattr(arg, "shape", ()) for arg in args}:
            yield Sample.of(make(*shape) > 0, *args)


@op(
    formula=r"\text{a where condition, else b}",
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
    return torch.where(condition, a, b)


@where.rule("a", r"\bar{y} \text{ where condition, else } 0")
def _(g, condition):
    return where(condition, g, 0.0)


@where.rule("b", r"0 \text{ where condition, else } \bar{y}")
def _(g, condition):
    return where(condition, 0.0, g)


def _where(self, condition, other):
    """Elements of this tensor where the condition holds, of ``other`` elsewhere, in the order of torch's method."""
    return where(condition, self, other)


install("where", _where)


def _comparisons(make: Make):
    """Every pair of shapes that broadcasts, and ties."""
    yield from binary(make)
    yield Sample.of(make.integers(3, 4, 5), make.integers(3, 5))


def _comparison(name, sign, symbol):
    """The row of one comparison: they differ in nothing but the kernel and the symbol."""
    kernel = getattr(torch, name)

    def compare(a, b):
        return kernel(a, b) if isinstance(a, torch.Tensor) else kernel(torch.as_tensor(a, device=b.device), b)

    compare.__name__ = name
    compare.__doc__ = f"""Whether a {sign} b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    return op(
        formula=f"a {symbol} b",
        broadcasts=True,
        differentiable=False,
        operator=name,
        samples=_comparisons,
        reference=getattr(operator, name),
    )(compare)


eq = _comparison("eq", "==", "=")
ne = _comparison("ne", "!=", r"\neq")
lt = _comparison("lt", "<", "<")
le = _comparison("le", "<=", r"\leq")
gt = _comparison("gt", ">", ">")
ge = _comparison("ge", ">=", r"\geq")

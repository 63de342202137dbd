"""Linear algebra: products of vectors and matrices."""

from math import prod

import torch

from nbgrad.core.op import op
from nbgrad.core.samples import Make, Sample


def _products(make: Make):
    for a, b in (
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((2, 1, 5, 2, 3), (1, 3, 1, 3, 4)),
        ((0, 3), (3, 4)),
        ((2, 0), (0, 4)),
        ((2, 0, 3), (3, 4)),
    ):
        yield Sample.of(make(*a), make(*b))


@op(formula=r"a\,b", broadcasts=True, operator="matmul", samples=_products)
def matmul(a, b):
    """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column.

    Nearly all the arithmetic of a network is in its matrix products. Each factor's gradient is the output's gradient
    times the other factor, transposed.

    Shapes: (..., n, k) and (..., k, m) give (..., n, m); (k,) drops the dimension it lacks. Raises RuntimeError where
    the inner sizes differ.
    """
    return torch.matmul(a, b)


@matmul.rule("a", r"\bar{y}\,b^{\top}")
def _(g, a_shape, b):
    if len(b.shape) == 1:
        return g.unsqueeze(-1) * b
    if len(a_shape) == 1:
        return (g.unsqueeze(-2) @ b.transpose(-2, -1)).squeeze(-2)
    return g @ b.transpose(-2, -1)


@matmul.rule("b", r"a^{\top}\,\bar{y}")
def _(g, a, b_shape):
    if len(a.shape) == 1:
        return g * a if len(b_shape) == 1 else a.unsqueeze(-1) * g.unsqueeze(-2)
    if len(b_shape) == 1:
        return (a.transpose(-2, -1) @ g.unsqueeze(-1)).squeeze(-1)
    return a.transpose(-2, -1) @ g


def _layers(make: Make):
    for shape in ((3,), (2, 3), (5, 2, 3), (2, 2, 1, 3), (1, 2, 2, 1, 3), (0, 3)):
        yield Sample.of(make(*shape), make(4, 3))
        yield Sample.of(make(*shape), make(4, 3), make(4))
    yield Sample.of(make(2, 0), make(4, 0), make(4))


@op(formula=r"x\,W^{\top} + b", broadcasts=("bias",), samples=_layers)
def linear(input, weight, bias=None):
    """The fully connected layer: every output is a weighted sum of all inputs, plus a bias.

    The bias is stretched over the batch, so its gradient is summed over the batch.

    Shapes: input (..., in), weight (out, in), bias (out,) give (..., out). Raises RuntimeError where ``in`` differs.
    """
    return torch.nn.functional.linear(input, weight, bias)


@linear.rule("input", r"\bar{y}\,W")
def _(g, weight):
    return g @ weight


@linear.rule("weight", r"\bar{y}^{\top}\,x")
def _(g, input):
    return _rows(g).transpose(0, 1) @ _rows(input)


@linear.rule("bias", r"\bar{y}")
def _(g):
    return g


def _rows(x):
    """All dimensions but the last one as one: a batch of any rank as a matrix."""
    return x if len(x.shape) == 2 else x.reshape((prod(x.shape[:-1]), x.shape[-1]))

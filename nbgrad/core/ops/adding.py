"""Products of matrices and vectors that are added to something in the same kernel; and the bilinear layer."""

import torch

from nbgrad.core import products
from nbgrad.core.op import op
from nbgrad.core.ops.einsum import einsum
from nbgrad.core.samples import Make, Sample


def _with(make: Make, input, first, second):
    yield Sample.of(make(*input), make(*first), make(*second))
    yield Sample.of(make(*input), make(*first), make(*second), beta=0.5, alpha=-2)


def _scaled(g, factor):
    return g if factor == 1 else g * factor


def _matrices(make: Make):
    yield from _with(make, (2, 4), (2, 3), (3, 4))
    yield from _with(make, (4,), (2, 3), (3, 4))
    yield from _with(make, (), (2, 3), (3, 4))
    yield Sample.of(make(2, 1), make(2, 3), make(3, 4))
    yield Sample.of(make(0, 4), make(0, 3), make(3, 4))
    yield Sample.of(make(2, 4), make(2, 0), make(0, 4), beta=2)


@op(formula=r"\beta x + \alpha A\,B", broadcasts=("input",), inplace=True, samples=_matrices)
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """The product of two matrices, added to the input, each with a factor.

    A linear layer with a bias is one, in one kernel.

    Shapes: (n, k) and (k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """
    return products.addmm(input, mat1, mat2, beta, alpha)


@addmm.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addmm.rule("mat1", r"\alpha \bar{y}\,B^{\top}")
def _(g, mat2, alpha):
    return _scaled(products.product(g, mat2.transpose(0, 1)), alpha)


@addmm.rule("mat2", r"\alpha A^{\top}\,\bar{y}")
def _(g, mat1, alpha):
    return _scaled(products.product(mat1.transpose(0, 1), g), alpha)


def _batches(make: Make):
    yield from _with(make, (2, 2, 3), (2, 2, 2), (2, 2, 3))
    yield from _with(make, (5, 2, 4), (5, 2, 3), (5, 3, 4))
    yield from _with(make, (4,), (5, 2, 3), (5, 3, 4))
    yield Sample.of(make(), make(5, 2, 3), make(5, 3, 4))
    yield Sample.of(make(2, 1), make(5, 2, 3), make(5, 3, 4))
    yield Sample.of(make(0, 2, 4), make(0, 2, 3), make(0, 3, 4))
    yield Sample.of(make(5, 2, 4), make(5, 2, 0), make(5, 0, 4), beta=2)


@op(formula=r"\beta x_i + \alpha A_i\,B_i", broadcasts=("input",), inplace=True, samples=_batches)
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """The products of two batches of matrices, pair by pair, added to the input, each with a factor.

    Attention scores with a bias for the distance are one (Press et al. 2022, https://arxiv.org/abs/2108.12409).

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (b, n, m). Raises RuntimeError where they do not fit.
    """
    return torch.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)


@baddbmm.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@baddbmm.rule("batch1", r"\alpha \bar{y}_i\,B_i^{\top}")
def _(g, batch2, alpha):
    return _scaled(g @ batch2.transpose(1, 2), alpha)


@baddbmm.rule("batch2", r"\alpha A_i^{\top}\,\bar{y}_i")
def _(g, batch1, alpha):
    return _scaled(batch1.transpose(1, 2) @ g, alpha)


def _summed_batches(make: Make):
    for sample in _batches(make):
        input = sample.args[0]
        if input.ndim == 3:
            input = make(*input.shape[1:])
        yield Sample((input, *sample.args[1:]), sample.settings)


@op(formula=r"\beta x + \alpha \sum_i A_i\,B_i", broadcasts=("input",), inplace=True, samples=_summed_batches)
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """The sum of the products of two batches of matrices, added to the input, each with a factor.

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """
    return torch.addbmm(input, batch1, batch2, beta=beta, alpha=alpha)


@addbmm.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addbmm.rule("batch1", r"\alpha \bar{y}\,B_i^{\top}")
def _(g, batch2, alpha):
    return _scaled(g @ batch2.transpose(1, 2), alpha)


@addbmm.rule("batch2", r"\alpha A_i^{\top}\,\bar{y}")
def _(g, batch1, alpha):
    return _scaled(batch1.transpose(1, 2) @ g, alpha)


def _vectors(make: Make):
    yield from _with(make, (2,), (2, 3), (3,))
    yield from _with(make, (), (2, 3), (3,))
    yield Sample.of(make(1), make(2, 3), make(3))
    yield Sample.of(make(0), make(0, 3), make(3))
    yield Sample.of(make(2), make(2, 0), make(0), beta=2)


@op(formula=r"\beta x + \alpha A\,v", broadcasts=("input",), inplace=True, samples=_vectors)
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """The product of a matrix and a vector, added to the input, each with a factor.

    Shapes: (n, k) and (k,), input broadcasts to (n,). Raises RuntimeError where they do not fit.
    """
    return torch.addmv(input, mat, vec, beta=beta, alpha=alpha)


@addmv.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addmv.rule("mat", r"\alpha \bar{y}\,v^{\top}")
def _(g, vec, alpha):
    return g.unsqueeze(-1) * _scaled(vec, alpha)


@addmv.rule("vec", r"\alpha A^{\top}\,\bar{y}")
def _(g, mat, alpha):
    return _scaled(mat.transpose(0, 1) @ g, alpha)


def _outer(make: Make):
    yield from _with(make, (2, 3), (2,), (3,))
    yield from _with(make, (3,), (2,), (3,))
    yield Sample.of(make(), make(2), make(3))
    yield Sample.of(make(0, 3), make(0), make(3))


@op(formula=r"\beta x + \alpha u\,v^{\top}", broadcasts=("input",), inplace=True, samples=_outer)
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """The outer product of two vectors, added to the input, each with a factor.

    Updates of rank one are what quasi-Newton methods make.

    Shapes: (n,) and (m,), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """
    return torch.addr(input, vec1, vec2, beta=beta, alpha=alpha)


@addr.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addr.rule("vec1", r"\alpha \bar{y}\,v")
def _(g, vec2, alpha):
    return _scaled(g @ vec2, alpha)


@addr.rule("vec2", r"\alpha \bar{y}^{\top}\,u")
def _(g, vec1, alpha):
    return _scaled(g.transpose(0, 1) @ vec1, alpha)


def _layers(make: Make):
    for shape in ((), (2,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (0,)):
        yield Sample.of(make(*shape, 2), make(*shape, 3), make(3, 2, 3), make(3))
    yield Sample.of(make(2, 2), make(2, 3), make(3, 2, 3))


@op(formula=r"x_1^{\top} W_k\,x_2 + b", broadcasts=("bias",), samples=_layers)
def bilinear(input1, input2, weight, bias=None):
    """The bilinear layer: every output is a weighted sum of all products of an element of each input, plus a bias.

    Shapes: (..., n), (..., m), weight (out, n, m), bias (out,) give (..., out). Raises RuntimeError where they do not
    fit.
    """
    return torch.nn.functional.bilinear(input1, input2, weight, bias)


@bilinear.rule("input1", r"\sum_k \bar{y}_k W_k\,x_2")
def _(g, input2, weight):
    return einsum("...o,oij,...j->...i", g, weight, input2)


@bilinear.rule("input2", r"\sum_k \bar{y}_k W_k^{\top} x_1")
def _(g, input1, weight):
    return einsum("...o,oij,...i->...j", g, weight, input1)


@bilinear.rule("weight", r"\bar{y}_k\,x_1 x_2^{\top}")
def _(g, input1, input2):
    return einsum("...o,...i,...j->oij", g, input1, input2)


@bilinear.rule("bias", r"\bar{y}")
def _(g):
    return g

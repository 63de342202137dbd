"""Products of vectors and matrices, also with a sum in the same kernel; the linear and the bilinear layer."""

import operator
from math import prod

import torch

from nbgrad.core.backend import gemm
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.broadcast import reduction
from nbgrad.core.engine.node import identity
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops.linalg.einsum import einsum
from nbgrad.core.ops.shape.views import unsqueeze


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


def _over_batch(output, b):
    """The reduction if one matrix ``b`` is used for a whole batch. The rule of ``b`` sums within its product."""
    return reduction((*output[:-2], *b), b) if len(b) == 2 and len(output) > 2 else None


@op(
    formula=r"a\,b",
    broadcasts=True,
    sums={"b": _over_batch},
    operator="matmul",
    samples=_products,
    ranks=range(1, 6),
    traits=Traits(multiplies=True, units=-1),
)
def matmul(a, b):
    """Matrix product of the last two dimensions, those before them broadcasting; a vector is one row or column.

    Nearly all the arithmetic of a network is in its matrix products. Each factor's gradient is the output's gradient
    times the other factor, transposed.

    Shapes: (..., n, k) and (..., k, m) give (..., n, m); for a vector (k,) the output has no n or no m. Raises
    RuntimeError where the inner sizes differ.
    """
    if not _scattered(a, b):
        return gemm.matmul(a, b)
    return gemm.mm(_rows(a), b).reshape(*a.shape[:-1], b.shape[-1])


@matmul.rule("a", r"\bar{y}\,b^{\top}")
def _(g, a_shape, b):
    if len(b.shape) == 1:
        return g.unsqueeze(-1) * b
    if len(a_shape) == 1:
        return (g.unsqueeze(-2) @ b.transpose(-2, -1)).squeeze(-2)
    return matmul(g, b.transpose(-2, -1))


@matmul.rule("b", r"a^{\top}\,\bar{y}")
def _(g, a, b_shape):
    if len(a.shape) == 1:
        return g * a if len(b_shape) == 1 else a.unsqueeze(-1) * g.unsqueeze(-2)
    if len(b_shape) == 1:
        return (a.transpose(-2, -1) @ g.unsqueeze(-1)).squeeze(-1)
    if len(b_shape) == 2:  # one product over the whole batch, instead of one for each and their sum
        return gemm.product(_rows(a).transpose(0, 1), _rows(g))
    return a.transpose(-2, -1) @ g


def _two_matrices(make: Make):
    for n, k, m in ((2, 3, 4), (1, 1, 1), (0, 3, 4), (2, 0, 4)):
        yield Sample.of(make(n, k), make(k, m))
    yield Sample.of(make(3, 2).T, make(4, 3).T)


@op(formula=r"A\,B", samples=_two_matrices, ranks=(2,))
def mm(input, mat2):
    """Product of two matrices.

    Shapes: (n, k) and (k, m) give (n, m). Raises RuntimeError for anything but matrices that fit.
    """
    return gemm.mm(input, mat2)


@mm.rule("input", r"\bar{y}\,B^{\top}")
def _(g, mat2):
    return gemm.product(g, mat2.transpose(0, 1))


@mm.rule("mat2", r"A^{\top}\,\bar{y}")
def _(g, input):
    return gemm.product(input.transpose(0, 1), g)


def _two_batches(make: Make):
    for b, n, k, m in ((5, 2, 3, 4), (1, 1, 1, 1), (0, 2, 3, 4), (5, 2, 0, 4)):
        yield Sample.of(make(b, n, k), make(b, k, m))


@op(formula=r"A_i\,B_i", kernel=torch.bmm, samples=_two_batches, ranks=(3,), traits=Traits(multiplies=True))
def bmm(input, mat2):
    """Products of two batches of matrices, pair by pair.

    Shapes: (b, n, k) and (b, k, m) give (b, n, m). Raises RuntimeError for anything but batches that fit.
    """


@bmm.rule("input", r"\bar{y}_i\,B_i^{\top}")
def _(g, mat2):
    return g @ mat2.transpose(1, 2)


@bmm.rule("mat2", r"A_i^{\top}\,\bar{y}_i")
def _(g, input):
    return input.transpose(1, 2) @ g


def _matrix_and_vector(make: Make):
    for n, k in ((2, 3), (1, 1), (0, 3), (2, 0)):
        yield Sample.of(make(n, k), make(k))


@op(formula=r"A\,v", kernel=torch.mv, samples=_matrix_and_vector, ranks=(2,))
def mv(input, vec):
    """Product of a matrix and a vector.

    Shapes: (n, k) and (k,) give (n,). Raises RuntimeError for anything else.
    """


@mv.rule("input", r"\bar{y}\,v^{\top}")
def _(g, vec):
    return g.unsqueeze(-1) * vec


@mv.rule("vec", r"A^{\top}\,\bar{y}")
def _(g, input):
    return input.transpose(0, 1) @ g


def _two_vectors(make: Make):
    yield from (Sample.of(make(n), make(n)) for n in (3, 1, 0))


@op(formula=r"\sum_i a_i b_i", symbols={"tensor": "b"}, kernel=torch.dot, samples=_two_vectors, ranks=(1,))
def dot(input, tensor):
    """Product of two vectors: the sum of the products of their elements.

    Shapes: both (n,), output a single number. Raises RuntimeError for anything else.
    """


@dot.rule("input", r"\bar{y}\,b", kernel=operator.mul)
def _(g, tensor):
    return g * tensor


@dot.rule("tensor", r"\bar{y}\,a", kernel=operator.mul)
def _(g, input):
    return g * input


def _vectors_of_either_kind(make: Make):
    yield from _two_vectors(make)
    for n in (3, 0):
        yield Sample.of(*[make.complex(n) for _ in range(2)])


@op(
    formula=r"\sum_i \overline{a_i} b_i",
    kernel=torch.vdot,
    samples=_vectors_of_either_kind,
    ranks=(1,),
    holomorphic=False,
)
def vdot(input, other):
    """Product of two vectors, the first of them conjugated, so that the product of a vector with itself is real.

    Shapes: both (n,), output a single number. Raises RuntimeError for anything else.
    """


@vdot.rule("input", r"\overline{\bar{y}}\,b")
def _(g, other):
    return conjugate(g) * other


@vdot.rule("other", r"\bar{y}\,a", kernel=operator.mul)
def _(g, input):
    return g * input


def outer(input, vec2):
    """The products of each element of one vector with each of the other, as a matrix."""
    if len(input.shape) != 1 or len(vec2.shape) != 1:
        raise RuntimeError(
            f"outer() takes two vectors, not tensors of {len(input.shape)} and {len(vec2.shape)} dimensions"
        )
    return input.unsqueeze(-1) * vec2


ger = outer


def inner(input, other):
    """Sums of products over the last dimension of both."""
    if not input.shape or not other.shape:
        return input * other
    return tensordot(input, other, dims=([-1], [-1]))


def tensordot(a, b, dims=2):
    """Sums of products over some dimensions of each tensor: the last ``dims`` of a, or pairs given by two lists.

    Raises:
        RuntimeError: the sizes of a pair differ and neither is 1.
    """
    rank_a, rank_b = len(a.shape), len(b.shape)
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(rank_a, rank_b):
            raise RuntimeError(f"tensordot() takes 0 to {min(rank_a, rank_b)} dimensions here, not {dims}")
        dims = (range(rank_a - dims, rank_a), range(dims))
    over_a, over_b = (
        [d % max(rank, 1) for d in ([one] if isinstance(one, int) else one)]
        for one, rank in zip(dims, (rank_a, rank_b), strict=True)
    )
    for one, other in zip(over_a, over_b, strict=True):
        if a.shape[one] == 1 != b.shape[other]:
            b = b.sum(other, keepdim=True)
        elif b.shape[other] == 1 != a.shape[one]:
            a = a.sum(one, keepdim=True)
        elif a.shape[one] != b.shape[other]:
            raise RuntimeError(
                f"tensordot(): sizes {a.shape[one]} and {b.shape[other]} of contracted dimensions differ"
            )
    left = [d for d in range(rank_a) if d not in over_a]
    right = [d for d in range(rank_b) if d not in over_b]
    shape = tuple(a.shape[d] for d in left), tuple(b.shape[d] for d in right)
    inside = prod(a.shape[d] for d in over_a)
    rows = a.permute((*left, *over_a)).reshape((prod(shape[0]), inside))
    columns = b.permute((*over_b, *right)).reshape((inside, prod(shape[1])))
    return mm(rows, columns).reshape((*shape[0], *shape[1]))


def kron(input, other):
    """The Kronecker product: each element of the input times the whole of the other tensor, in its place."""
    rank = max(len(input.shape), len(other.shape))
    first, second = ((1,) * (rank - len(one.shape)) + tuple(one.shape) for one in (input, other))
    left = input.reshape(tuple(size for one in first for size in (one, 1)))
    right = other.reshape(tuple(size for one in second for size in (1, one)))
    return (left * right).reshape(tuple(a * b for a, b in zip(first, second, strict=True)))


@as_one(torch.linalg.vecdot)
def vecdot(x, y, dim=-1):
    """Products of vectors along ``dim``, those of x conjugated, the other dimensions broadcasting."""
    return (conjugate(x) * y).sum(dim)


def multi_dot(tensors):
    """The product of several matrices in the order that takes the fewest multiplications.

    The first and the last one may be vectors.

    Raises:
        RuntimeError: there are fewer than two, or they do not fit.
    """
    factors = list(tensors)
    if len(factors) < 2:
        raise RuntimeError(f"multi_dot() takes at least 2 tensors, not {len(factors)}")
    row, column = len(factors[0].shape) == 1, len(factors[-1].shape) == 1
    if row:
        factors[0] = factors[0].unsqueeze(0)
    if column:
        factors[-1] = factors[-1].unsqueeze(-1)
    if any(len(factor.shape) != 2 for factor in factors):
        raise RuntimeError("multi_dot() takes matrices, and vectors as the first and the last factor")
    sizes = (factors[0].shape[0], *[factor.shape[1] for factor in factors])
    product = _multiplied(factors, cheapest(sizes), 0, len(factors) - 1)
    kept = ([] if row else [sizes[0]]) + ([] if column else [sizes[-1]])
    return product.reshape(tuple(kept)) if row or column else product


def _multiplied(factors, cuts, first, last):
    if first == last:
        return factors[first]
    cut = cuts[first, last]
    return mm(_multiplied(factors, cuts, first, cut), _multiplied(factors, cuts, cut + 1, last))


def cheapest(sizes):
    """Where to cut each run of a chain of matrices: matrix i is sizes[i] x sizes[i + 1]."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            options = {
                cut: cost[first, cut] + cost[cut + 1, last] + sizes[first] * sizes[cut + 1] * sizes[last + 1]
                for cut in range(first, last)
            }
            cuts[first, last] = min(options, key=options.__getitem__)
            cost[first, last] = options[cuts[first, last]]
    return cuts


def chain_matmul(*matrices):
    """The product of several matrices in the order that takes the fewest multiplications."""
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(matrices)


def _layers(make: Make):
    for shape in ((3,), (2, 3), (5, 2, 3), (2, 2, 1, 3), (1, 2, 2, 1, 3), (0, 3)):
        yield Sample.of(make(*shape), make(4, 3))
        yield Sample.of(make(*shape), make(4, 3), make(4))
    yield Sample.of(make(2, 0), make(4, 0), make(4))


@op(
    formula=r"x\,W^{\top} + b",
    broadcasts=("bias",),
    samples=_layers,
    ranks=range(1, 6),
    traits=Traits(multiplies=True, units=-1),
)
def linear(input, weight, bias=None):
    """The fully connected layer: every output is a weighted sum of all inputs, plus a bias.

    The bias is stretched over the batch, so its gradient is summed over the batch.

    Shapes: input (..., in), weight (out, in), bias (out,) give (..., out). Raises RuntimeError where ``in`` differs.
    """
    if not _scattered(input, weight):
        return gemm.linear(input, weight, bias)
    rows = gemm.linear(_rows(input), weight, bias)
    return rows.reshape(*input.shape[:-1], len(weight))


@linear.rule("input", r"\bar{y}\,W")
def _(g, weight):
    if weight.ndim == 1:  # one output, without a dimension of its own
        return unsqueeze(g, dim=-1) * weight
    return matmul(g, weight)


@linear.rule("weight", r"\bar{y}^{\top}\,x")
def _(g, input):
    if g.ndim < input.ndim:
        shares = unsqueeze(g, dim=-1) * input
        return shares.sum(tuple(range(g.ndim))) if g.ndim else shares
    return gemm.product(_rows(g).transpose(0, 1), _rows(input))


@linear.rule("bias", r"\bar{y}", kernel=identity)
def _(g):
    return g


def _scattered(batch, matrix):
    """Whether torch would multiply each matrix of ``batch`` separately, because its rows do not lie in order.

    torch does so where its own autograd does not record. In a transformer, an eighth of the time goes into such
    products.
    """
    tensors = isinstance(batch, torch.Tensor) and isinstance(matrix, torch.Tensor)
    return tensors and matrix.ndim == 2 and batch.ndim > 2 and not batch.is_contiguous()


def _rows(x):
    """A batch of any rank as a matrix: all dimensions but the last are joined."""
    return x if len(x.shape) == 2 else x.reshape(prod(x.shape[:-1]), x.shape[-1])


linalg_matmul = matmul
linalg_vecdot = vecdot
linalg_multi_dot = multi_dot

for _name, _function in {"ger": outer, "inner": inner, "kron": kron, "outer": outer}.items():
    install(_name, _function)


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


@op(
    formula=r"\beta x + \alpha A\,B",
    broadcasts=("input",),
    inplace=True,
    samples=_matrices,
    ranks=(0, 1, 2),
    traits=Traits(multiplies=True, units=-1),
)
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """The product of two matrices, added to the input, each with a factor.

    It computes a linear layer with a bias in one kernel.

    Shapes: (n, k) and (k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """
    return gemm.addmm(input, mat1, mat2, beta, alpha)


@addmm.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addmm.rule("mat1", r"\alpha \bar{y}\,B^{\top}")
def _(g, mat2, alpha):
    return _scaled(gemm.product(g, mat2.transpose(0, 1)), alpha)


@addmm.rule("mat2", r"\alpha A^{\top}\,\bar{y}")
def _(g, mat1, alpha):
    return _scaled(gemm.product(mat1.transpose(0, 1), g), alpha)


def _batches(make: Make):
    yield from _with(make, (2, 2, 3), (2, 2, 2), (2, 2, 3))
    yield from _with(make, (5, 2, 4), (5, 2, 3), (5, 3, 4))
    yield from _with(make, (4,), (5, 2, 3), (5, 3, 4))
    yield Sample.of(make(), make(5, 2, 3), make(5, 3, 4))
    yield Sample.of(make(2, 1), make(5, 2, 3), make(5, 3, 4))
    yield Sample.of(make(0, 2, 4), make(0, 2, 3), make(0, 3, 4))
    yield Sample.of(make(5, 2, 4), make(5, 2, 0), make(5, 0, 4), beta=2)


@op(
    formula=r"\beta x_i + \alpha A_i\,B_i",
    kernel=torch.baddbmm,
    broadcasts=("input",),
    inplace=True,
    samples=_batches,
    ranks=(0, 1, 2, 3),
)
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """The products of two batches of matrices, pair by pair, added to the input, each with a factor.

    It computes attention scores with a bias for the distance (Press et al. 2022, https://arxiv.org/abs/2108.12409).

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (b, n, m). Raises RuntimeError where they do not fit.
    """


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


@op(
    formula=r"\beta x + \alpha \sum_i A_i\,B_i",
    kernel=torch.addbmm,
    broadcasts=("input",),
    inplace=True,
    samples=_summed_batches,
    ranks=(0, 1, 2),
)
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """The sum of the products of two batches of matrices, added to the input, each with a factor.

    Shapes: (b, n, k) and (b, k, m), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """


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


@op(
    formula=r"\beta x + \alpha A\,v",
    kernel=torch.addmv,
    broadcasts=("input",),
    inplace=True,
    samples=_vectors,
    ranks=(0, 1),
)
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """The product of a matrix and a vector, added to the input, each with a factor.

    Shapes: (n, k) and (k,), input broadcasts to (n,). Raises RuntimeError where they do not fit.
    """


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


@op(
    formula=r"\beta x + \alpha u\,v^{\top}",
    symbols={"vec1": "u", "vec2": "v"},
    kernel=torch.addr,
    broadcasts=("input",),
    inplace=True,
    samples=_outer,
    ranks=(0, 1, 2),
)
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """The outer product of two vectors, added to the input, each with a factor.

    Quasi-Newton methods make such updates of rank one.

    Shapes: (n,) and (m,), input broadcasts to (n, m). Raises RuntimeError where they do not fit.
    """


@addr.rule("input", r"\beta \bar{y}")
def _(g, beta):
    return _scaled(g, beta)


@addr.rule("vec1", r"\alpha \bar{y}\,v")
def _(g, vec2, alpha):
    return _scaled(g @ vec2, alpha)


@addr.rule("vec2", r"\alpha \bar{y}^{\top}\,u")
def _(g, vec1, alpha):
    return _scaled(g.transpose(0, 1) @ vec1, alpha)


def _bilinear_layers(make: Make):
    for shape in ((), (2,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (0,)):
        yield Sample.of(make(*shape, 2), make(*shape, 3), make(3, 2, 3), make(3))
    yield Sample.of(make(2, 2), make(2, 3), make(3, 2, 3))


@op(
    formula=r"x_1^{\top} W_k\,x_2 + b",
    symbols={"input1": "x_1", "input2": "x_2"},
    kernel=torch.nn.functional.bilinear,
    broadcasts=("bias",),
    samples=_bilinear_layers,
    ranks=range(1, 6),
)
def bilinear(input1, input2, weight, bias=None):
    """The bilinear layer: every output is a weighted sum of all products of an element of each input, plus a bias.

    Shapes: (..., n), (..., m), weight (out, n, m), bias (out,) give (..., out). Raises RuntimeError where they do not
    fit.
    """


@bilinear.rule("input1", r"\sum_k \bar{y}_k W_k\,x_2")
def _(g, input2, weight):
    return einsum("...o,oij,...j->...i", g, weight, input2)


@bilinear.rule("input2", r"\sum_k \bar{y}_k W_k^{\top} x_1")
def _(g, input1, weight):
    return einsum("...o,oij,...i->...j", g, weight, input1)


@bilinear.rule("weight", r"\bar{y}_k\,x_1 x_2^{\top}")
def _(g, input1, input2):
    return einsum("...o,...i,...j->oij", g, input1, input2)


@bilinear.rule("bias", r"\bar{y}", kernel=identity)
def _(g):
    return g

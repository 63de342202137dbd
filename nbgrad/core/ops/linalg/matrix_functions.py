"""Powers, norms and determinants of matrices, systems of tensors, and statistics made of products."""

import math

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import has_numbers, opaque, recorded
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.ops.elementwise.complex import complex, conj, imag, real, real_part
from nbgrad.core.ops.elementwise.select import either, where
from nbgrad.core.ops.linalg.decompositions import linalg_svd, linalg_svdvals
from nbgrad.core.ops.linalg.diagonals import diag_embed
from nbgrad.core.ops.linalg.solve import (
    BATCHES,
    linalg_inv,
    linalg_solve,
    linalg_solve_ex,
    square,
    transposed,
)
from nbgrad.core.ops.reduce.norms import linalg_vector_norm
from nbgrad.core.ops.shape.joining import cat


def _square(make: Make):
    yield from (Sample.of(make(*batch, 3, 3)) for batch in BATCHES)
    yield Sample.of(make.complex(2, 2))
    yield Sample.of(make(1, 1))
    yield Sample.of(make(0, 0))


@op(formula=r"e^A", kernel=torch.linalg.matrix_exp, samples=_square, ranks=range(2, 6))
def linalg_matrix_exp(A):
    """The exponential of square matrices.

    For a skew-symmetric matrix it is a rotation, which makes orthogonal weights (Lezcano-Casado and Martinez-Rubio
    2019, https://arxiv.org/abs/1901.08428). Its derivative is a block of the exponential of a larger matrix (Mathias
    1996).

    Shapes: (..., n, n) gives the same. Raises RuntimeError where the matrices are not square.
    """


@linalg_matrix_exp.rule(
    "A", r"\text{the upper right block of } \exp \begin{pmatrix} A^{\top} & \bar{y} \\ 0 & A^{\top} \end{pmatrix}"
)
def _(g, A):
    turned, size = transposed(A), A.shape[-1]
    zeros = torch.zeros(tuple(A.shape), dtype=A.dtype, device=A.device)
    blocks = cat([cat([turned, g], dim=-1), cat([zeros, turned], dim=-1)], dim=-2)
    return linalg_matrix_exp(blocks)[..., :size, size:]


def linalg_matrix_power(A, n):
    """Square matrices multiplied with themselves n times; for a negative n their inverses."""
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"linalg_matrix_power takes square matrices, not matrices of {rows} x {columns}")
    if n == 0:
        return torch.eye(rows, dtype=A.dtype, device=A.device).expand(tuple(A.shape)) + 0 * A
    if n < 0:
        A, n = linalg_inv(A), -n
    result, power = None, A
    while n:
        if n % 2:
            result = power if result is None else result @ power
        n //= 2
        power = power @ power if n else power
    return result.clone() if result is A else result


def linalg_tensorinv(A, ind=2):
    """The inverse of a tensor as a map from its last dimensions to its first ``ind`` ones."""
    if ind <= 0:
        raise RuntimeError(f"linalg_tensorinv takes an ind greater than 0, not {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(f"linalg_tensorinv: the sizes {first} and {last} do not have the same product")
    return linalg_inv(A.reshape((math.prod(first), math.prod(last)))).reshape((*last, *first))


def linalg_tensorsolve(A, B, dims=None):
    """The X whose product with A, summed over all dimensions of X, is B."""
    if dims is not None:
        rank = len(A.shape)
        moved = [dim % rank for dim in dims]
        A = A.permute([d for d in range(rank) if d not in moved] + moved)
    shape = tuple(A.shape[len(B.shape) :])
    if math.prod(shape) != math.prod(tuple(B.shape)):
        raise RuntimeError(f"linalg_tensorsolve: the sizes {shape} and {tuple(B.shape)} do not have the same product")
    size = math.prod(shape)
    return linalg_solve(A.reshape((size, size)), B.reshape(-1)).reshape(shape)


# Norms.


def linalg_matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """A norm of matrices.

    Args:
        A: matrices.
        ord: "fro" for the root of the sum of squares, "nuc" for the sum of the singular values, 2 and -2 for the
            largest and the smallest of them, 1 and -1 for the largest and the smallest sum of the absolute values of a
            column, inf and -inf for those of a row.
        dim: the two dimensions of the matrices.
        keepdim: whether they stay, as 1.
        dtype: the element type to compute with.
    """
    rank = len(A.shape)
    if rank < 2:
        raise RuntimeError(f"linalg_matrix_norm takes matrices, not a tensor of {rank} dimensions")
    rows, columns = (d % rank for d in dim)
    if rows == columns:
        raise RuntimeError("linalg_matrix_norm takes two different dimensions")
    if dtype is not None:
        if torch.promote_types(A.dtype, dtype) is not dtype:
            raise RuntimeError(f"linalg_matrix_norm: {A.dtype} does not convert to {dtype} without losing digits")
        A = A.to(dtype=dtype)
    if ord == "fro":
        return linalg_vector_norm(A, ord=2, dim=(rows, columns), keepdim=keepdim)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        others = [d for d in range(rank) if d not in (rows, columns)]
        values = linalg_svdvals(A.permute([*others, rows, columns]))
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        return (
            result.reshape(tuple(1 if d in (rows, columns) else A.shape[d] for d in range(rank))) if keepdim else result
        )
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg_matrix_norm takes 'fro', 'nuc', 1, 2, inf and their negatives, not {ord!r}")
    summed, chosen = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = linalg_vector_norm(A, ord=1, dim=summed, keepdim=True)
    result = sums.amax(chosen, True) if ord > 0 else sums.amin(chosen, True)
    if keepdim:
        return result
    return result.squeeze((rows, columns))


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of order p of all elements as one vector, or along ``dim``; "fro" is the order 2.

    "nuc" is the sum of the singular values of matrices.

    Raises NotImplementedError for ``out``, and RuntimeError for another word than these two.
    """
    if out is not None:
        raise NotImplementedError("norm() on an nbgrad tensor takes no out=: use the result")
    if p == "nuc":
        if dim is None and len(input.shape) != 2:
            raise RuntimeError(
                f"norm(p='nuc') without dim takes a matrix, not {len(input.shape)} dimensions: give two dimensions"
            )
        return linalg_matrix_norm(input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm() takes a number, 'fro' or 'nuc' for p, not {p!r}")
    ord = 2 if p in ("fro", None) else p
    return linalg_vector_norm(input, ord=ord, dim=dim, keepdim=keepdim, dtype=dtype)


install("norm", norm)


def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A norm of vectors or matrices.

    It is of matrices if ``ord`` is given and ``dim`` names two dimensions, or A has two and ``dim`` is left out.
    """
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if ord is None:
        return linalg_vector_norm(A, ord=2, dim=dims, keepdim=keepdim, dtype=dtype)
    if dims is None and len(A.shape) not in (1, 2):
        raise RuntimeError(f"linalg_norm takes a vector or a matrix without dim, not {len(A.shape)} dimensions")
    if (len(A.shape) if dims is None else len(dims)) == 2:
        return linalg_matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg_norm: ord={ord!r} is a norm of matrices")
    return linalg_vector_norm(A, ord=ord, dim=dims, keepdim=keepdim, dtype=dtype)


def linalg_cond(A, p=None):
    """The condition number of matrices: how much a system that they make can enlarge an error."""
    if p is None or p in (2, -2):
        values = linalg_svdvals(A)
        return values[..., 0] / values[..., -1] if p != -2 else values[..., -1] / values[..., 0]
    return linalg_matrix_norm(A, p) * linalg_matrix_norm(linalg_inv(A), p)


# Products of vectors of three.


def _threes(make: Make):
    for shape in ((3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 3), (0, 3)):
        yield Sample.of(make(*shape), make(*shape))
    yield Sample.of(make(3, 2), make(3, 2), dim=0)
    yield Sample.of(make(2, 1, 3), make(1, 4, 3))


@op(formula=r"a \times b", kernel=torch.linalg.cross, samples=_threes, ranks=range(1, 6), broadcasts=True)
def linalg_cross(input, other, *, dim=-1):
    """The vector product of vectors of three elements along ``dim``: at right angles to both.

    Normals of surfaces are made with it.

    Shapes: input and other broadcast, ``dim`` of size 3. Raises RuntimeError where it is not.
    """


@linalg_cross.rule("input", r"b \times \bar{y}")
def _(g, other, dim):
    return linalg_cross(other, g, dim=dim)


@linalg_cross.rule("other", r"\bar{y} \times a")
def _(g, input, dim):
    return linalg_cross(g, input, dim=dim)


def cross(input, other, dim=None):
    """The vector product along ``dim``, or along the first dimension of size 3."""
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("cross() finds no dimension of size 3 in its input")
    return linalg_cross(input, other, dim=dim)


# Statistics.


def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariances of variables, whose observations are the columns.

    Args:
        input: variables x observations, or the observations of one.
        correction: the number subtracted from the number of observations.
        fweights: how often each observation occurs.
        aweights: how much each one counts.
    """
    if len(input.shape) > 2:
        raise RuntimeError(f"cov() takes at most two dimensions, not {len(input.shape)}")
    x = input if len(input.shape) == 2 else input.reshape((1, -1))
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is not None and not weights.shape:
        weights = weights.reshape(1)
    if weights is None:
        total, average = x.shape[1], x.sum(1, True) / x.shape[1]
        norm = total - correction
    else:
        total = weights.sum()
        average = (x * weights).sum(1, True) / total
        if correction == 0:
            norm = total
        elif aweights is None:
            norm = total - correction
        else:
            norm = total - correction * (weights * aweights).sum() / total
    x = x - average
    turned = (x if weights is None else x * weights).transpose(0, 1)
    norm = max(norm, 0) if isinstance(norm, int | float) else norm.clamp_min(0)
    result = (x @ (conjugate(turned))) / norm
    return result.squeeze()


def corrcoef(input):
    """The correlations of variables, whose observations are the columns."""
    c = cov(input)
    if not c.shape:
        return c / c
    spread = c.diagonal()
    spread = real_part(spread).sqrt()
    c = c / spread.unsqueeze(-1) / spread
    return complex(real(c).clamp(-1, 1), imag(c).clamp(-1, 1)) if c.is_complex() else c.clamp(-1, 1)


matrix_exp = linalg_matrix_exp
matrix_power = linalg_matrix_power

install("corrcoef", corrcoef)
install("cov", cov)
install("cross", cross)
install("matrix_exp", matrix_exp)
install("matrix_power", matrix_power)


_linalg = torch.linalg


def _determined(make: Make):
    yield from square(make)
    yield Sample.of(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))


@op(formula=r"\det A", kernel=_linalg.det, samples=_determined, ranks=range(2, 6))
def linalg_det(A):
    """The determinant of square matrices: the factor by which they change volumes.

    Its gradient is the matrix of cofactors: where the matrix is invertible, the determinant times the
    transposed inverse.

    Shapes: (..., n, n) gives (...). Raises RuntimeError where the matrices are not square.
    """


@linalg_det.rule("A", r"\bar{y} \det(A)\,A^{-\top}")
def _(g, A, out):
    return (_slope_of_det if recorded(g, A, out) else _raw_slope_of_det)(g, A, out)


def _slope_of_det(g, A, out):
    if not A.shape[-1] or A.is_meta:
        return _by_inverse(g, A, out)
    singular = (out.data.abs() < 100 * torch.finfo(A.dtype).eps).any()
    if not has_numbers(A.data):
        return either(singular, _by_cofactors, _by_inverse, g, A, out)
    return (_by_cofactors if bool(singular) else _by_inverse)(g, A, out)


@opaque(lambda g, A, out: torch.empty_like(A))  # noqa: ARG005
def _raw_slope_of_det(g, A, out):
    return _slope_of_det(g, A, out)


def _by_inverse(g, A, out):
    return _scaled_inverse(g * out, A)


def _by_cofactors(g, A, out):  # it takes the arguments of _by_inverse
    return _cofactors(A, exactly=recorded(g, A)) * g.unsqueeze(-1).unsqueeze(-1)


def _scaled_inverse(factor, A):
    """A number for each matrix times its transposed inverse."""
    diagonal = factor.unsqueeze(-1).expand(tuple(A.shape[:-1]))
    return linalg_solve_ex(transposed(A), diag_embed(diagonal))[0]  # of a singular matrix inf and NaN, as in torch


_FEW = 8
"""Up to this size the cofactors of a singular matrix are computed one by one where they are differentiated again."""


def _cofactors(A, exactly):
    """The matrix of cofactors, of singular matrices too (N. Higham, "What is the adjugate of a matrix?", 2020)."""
    n = A.shape[-1]
    if exactly and n <= _FEW:  # the singular vectors of equal singular values have no derivative
        return _signs(A, n) * _minors(A, n)
    u, s, vh = linalg_svd(A)
    one = torch.eye(n, dtype=torch.bool, device=A.device)
    others = where(one, 1.0, s.unsqueeze(-2)).prod(-1)
    turn = linalg_det(u) * linalg_det(vh)
    # The rule is written as for a real function: the engine conjugates the matrix that is returned here.
    return conjugate((u * (conjugate(turn).unsqueeze(-1) * others).unsqueeze(-2)) @ vh)


def _signs(A, n):
    signs = torch.ones(n, n, dtype=A.dtype, device=A.device)
    signs[::2, 1::2] = -1
    signs[1::2, ::2] = -1
    return signs


def _minors(A, n):
    """The determinant without row i and column j, for each i and j."""
    if n == 1:
        return torch.ones(tuple(A.shape), dtype=A.dtype, device=A.device)
    others = torch.tensor([[k for k in range(n) if k != i] for i in range(n)], device=A.device)
    return linalg_det(A[..., others[:, None, :, None], others[None, :, None, :]])


@op(
    formula=r"\operatorname{sgn}(\det A), \ln |\det A|",
    symbols={"g_logabsdet": r"\bar{y}"},
    samples=square,
    ranks=range(2, 6),
    outputs=("sign", "logabsdet"),
    holomorphic=False,
)
def linalg_slogdet(A):
    """The sign of the determinant of square matrices, and the logarithm of its size, which does not overflow.

    A normalizing flow adds up these logarithms (Kingma and Dhariwal 2018, https://arxiv.org/abs/1807.03039).

    Shapes: (..., n, n) gives (...) twice. Raises RuntimeError where the matrices are not square.
    """
    return tuple(_linalg.slogdet(A))


@linalg_slogdet.rule("A", r"\bar{y}\,A^{-\top}")
def _(g_sign, g_logabsdet, A, sign):
    if not A.is_complex():
        if g_logabsdet is None:
            return torch.zeros(tuple(A.shape), dtype=A.dtype, device=A.device)
        return _scaled_inverse(g_logabsdet, A)
    if g_sign is None:
        return _scaled_inverse(g_logabsdet.to(dtype=A.dtype), conj(A))
    along = -imag(conj(g_sign) * sign)
    return _scaled_inverse(along * 1j if g_logabsdet is None else complex(g_logabsdet, along), conj(A))


def logdet(input):
    """The logarithm of the determinant of square matrices; NaN where it is negative."""
    sign, size = linalg_slogdet(input)
    return sign.log() + size if input.is_complex() else where(sign == -1, float("nan"), size)


det = linalg_det
slogdet = linalg_slogdet

install("det", linalg_det)
install("logdet", logdet)
install("slogdet", linalg_slogdet)

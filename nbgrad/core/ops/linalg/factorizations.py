"""Triangular factors of matrices: Cholesky and LU, and systems that are solved with them.

The rules differentiate A = L L^T and A = P L U with the constraint that the factors stay triangular (I. Murray,
"Differentiation of the Cholesky decomposition", 2016, https://arxiv.org/abs/1602.07527).
"""

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.ops.linalg.diagonals import tril, triu
from nbgrad.core.ops.linalg.solve import (
    BATCHES,
    adjoint,
    linalg_solve_triangular,
    regular,
    transposed,
)
from nbgrad.core.ops.shape.joining import cat
from nbgrad.core.tensor.tensor import Tensor

_linalg = torch.linalg


# Cholesky.


def _positive(make: Make, *shape):
    A = make(*shape)
    return A @ A.mT + torch.eye(shape[-1], dtype=torch.float64)


def _definite(make: Make):
    yield from (Sample.of(_positive(make, *batch, 3, 3)) for batch in BATCHES)
    yield Sample.of(_positive(make, 2, 2), upper=True)
    A = make.complex(2, 2)
    yield Sample.of(A @ A.mH + torch.eye(2))
    yield Sample.of(A @ A.mH + torch.eye(2), upper=True)
    yield Sample.of(make(0, 0))


def _of_cholesky(g, factor, upper):
    if upper:
        g, factor = adjoint(g), adjoint(factor)
    inside = tril(adjoint(factor) @ g)
    inside = (inside + adjoint(tril(inside, diagonal=-1))) / 2
    half = linalg_solve_triangular(factor, inside, upper=False, left=False)
    return linalg_solve_triangular(adjoint(factor), half, upper=True)


@op(
    formula=r"L \text{ of } A = L\,L^{\top}",
    symbols={"out": "L"},
    kernel=_linalg.cholesky,
    samples=_definite,
    ranks=range(2, 6),
    holomorphic=False,
)
def linalg_cholesky(A, *, upper=False):
    """The triangular factor of symmetric or Hermitian positive definite matrices.

    Gaussian processes sample with it, and take their determinants from its diagonal.

    Shapes: (..., n, n) gives the same. Raises LinAlgError where a matrix is not positive definite.
    """


@linalg_cholesky.rule("A", r"L^{-\top}\,\operatorname{sym}(L^{\top} \bar{L})\,L^{-1}")
def _(g, out, upper):
    return _of_cholesky(g, out, upper)


def _checked_definite(make: Make):
    yield from _definite(make)
    yield Sample.of(_positive(make, 3, 3), check_errors=True)


@op(
    formula=r"L \text{ of } A = L\,L^{\top}",
    samples=_checked_definite,
    ranks=range(2, 6),
    outputs=("L", "info"),
    holomorphic=False,
)
def linalg_cholesky_ex(A, *, upper=False, check_errors=False):
    """The triangular factor of positive definite matrices, and a number that is 0 where the factor exists.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for another matrix, but only with ``check_errors``.
    """
    return tuple(_linalg.cholesky_ex(A, upper=upper, check_errors=check_errors))


@linalg_cholesky_ex.rule("A", r"L^{-\top}\,\operatorname{sym}(L^{\top} \bar{y})\,L^{-1}")
def _(g, L, upper):
    return _of_cholesky(g, L, upper)


def cholesky(input, upper=False):
    """The triangular factor of positive definite matrices."""
    return linalg_cholesky(input, upper=upper)


def _triangles(make: Make):
    for batch in BATCHES:
        yield Sample.of(_linalg.cholesky(_positive(make, *batch, 3, 3)))
    yield Sample.of(_linalg.cholesky(_positive(make, 2, 2)).mT, upper=True)
    A = make.complex(2, 2)
    yield Sample.of(_linalg.cholesky(A @ A.mH + torch.eye(2)))
    yield Sample.of(make(0, 0))


@op(
    formula=r"(L\,L^{\top})^{-1}",
    symbols={"input": "L"},
    kernel=torch.cholesky_inverse,
    samples=_triangles,
    ranks=range(2, 6),
    holomorphic=False,
)
def cholesky_inverse(input, *, upper=False):
    """The inverse of the matrix that has this Cholesky factor.

    Shapes: (..., n, n) gives the same. Raises RuntimeError where the matrices are not square.
    """


@cholesky_inverse.rule("input", r"-y\,(\bar{y} + \bar{y}^{\top})\,y\,L")
def _(g, input, out, upper):
    common = out @ (g + adjoint(g)) @ out
    return -(input @ common) if upper else -(common @ input)


def _systems(make: Make):
    for sample in _triangles(make):
        L = sample.args[0]
        B = make(*L.shape[:-1], 2)
        yield Sample.of(B.to(L.dtype), L, **sample.settings)
    yield Sample.of(make(4, 3, 2), _linalg.cholesky(_positive(make, 2, 1, 3, 3)))


@op(
    formula=r"(L\,L^{\top})^{-1} B",
    kernel=torch.cholesky_solve,
    samples=_systems,
    ranks=range(2, 6),
    broadcasts=True,
    holomorphic=False,
)
def cholesky_solve(B, L, *, upper=False):
    """The solution of a system whose matrix has this Cholesky factor.

    Shapes: B (..., n, k), L (..., n, n), the batches broadcasting. Raises RuntimeError where they do not fit.
    """


@cholesky_solve.joint_rule(B=r"(L\,L^{\top})^{-1}\,\bar{y}", L=r"-(\bar{B} y^{\top} + y \bar{B}^{\top})\,L")
def _(g, needed, L, out, upper):
    solved = cholesky_solve(g, L, upper=upper)
    to_factor = None
    if needed[1]:
        common = solved @ adjoint(out)
        common = common + adjoint(common)
        to_factor = -(L @ common) if upper else -(common @ L)
    return solved if needed[0] else None, to_factor


# LU.


def _square_and_not(make: Make):
    for batch in BATCHES:
        yield Sample.of(regular(make, *batch, 3, 3))
    yield Sample.of(make(2, 4))
    yield Sample.of(make(2, 3, 2))
    yield Sample.of(make.complex(2, 3))
    yield Sample.of(make(0, 2))


def _checked_factors(make: Make):
    yield from _square_and_not(make)
    yield Sample.of(regular(make, 3, 3), check_errors=True)


_ALWAYS_PIVOTS = {"pivot": "torch's kernel for a CPU always pivots"}

_FORMULA = (
    r"P\,L^{-\top} \left(\operatorname{tril}(L^{\top} \bar{L}) "
    r"+ \operatorname{triu}(\bar{U} U^{\top})\right) U^{-\top}"
)


def _of_factors(g_lower, g_upper, permutation, lower, upper):
    """The gradient of P L U from those of L and U; the factors of a matrix that is not square are rectangles."""
    k = lower.shape[-1]
    square_lower, square_upper = lower[..., :k, :], upper[..., :k]
    tall, wide = lower.shape[-2] > k, upper.shape[-1] > k
    below = above = None
    if g_lower is not None:
        below = adjoint(square_lower) @ g_lower[..., :k, :]
    if g_upper is not None and wide:
        crossed = g_upper[..., k:] @ adjoint(upper[..., k:])
        below = -crossed if below is None else below - crossed
    if g_upper is not None:
        above = g_upper[..., :k] @ adjoint(square_upper)
    if g_lower is not None and tall:
        crossed = adjoint(lower[..., k:, :]) @ g_lower[..., k:, :]
        above = -crossed if above is None else above - crossed
    halves = ([] if below is None else [tril(below, diagonal=-1)]) + ([] if above is None else [triu(above)])
    inside = halves[0] if len(halves) == 1 else halves[0] + halves[1]
    half = linalg_solve_triangular(adjoint(square_upper), inside, upper=False, left=False)
    result = linalg_solve_triangular(adjoint(square_lower), half, upper=True, unitriangular=True)
    if wide:
        rest = result[..., :0] if g_upper is None else g_upper[..., k:]
        if g_upper is None:
            rest = torch.zeros((*result.shape[:-1], upper.shape[-1] - k), dtype=result.dtype, device=result.device)
        else:
            rest = linalg_solve_triangular(adjoint(square_lower), rest, upper=True, unitriangular=True)
        result = cat([result, rest], dim=-1)
    if tall:
        if g_lower is None:
            size = (*result.shape[:-2], lower.shape[-2] - k, result.shape[-1])
            rest = torch.zeros(size, dtype=result.dtype, device=result.device)
        else:
            rest = linalg_solve_triangular(adjoint(square_upper), g_lower[..., k:, :], upper=False, left=False)
        result = cat([result, rest], dim=-2)
    return permutation @ result


@op(
    formula=r"P, L, U \text{ of } A = P\,L\,U",
    samples=_square_and_not,
    ranks=range(2, 6),
    outputs=("P", "L", "U"),
    holomorphic=False,
    unvaried=_ALWAYS_PIVOTS,
)
def linalg_lu(A, *, pivot=True):
    """The permutation and the two triangular factors of matrices.

    Shapes: (..., n, m) gives (..., n, n), (..., n, k) and (..., k, m) for k = min(n, m). Raises RuntimeError for fewer
    than two dimensions.
    """
    return tuple(_linalg.lu(A, pivot=pivot))


@linalg_lu.rule(
    "A",
    _FORMULA,
)
def _(g_L, g_U, P, L, U, pivot):
    if not pivot:
        raise NotImplementedError("the gradient of linalg_lu is not supported with pivot=False: leave pivot out")
    return _of_factors(g_L, g_U, P, L, U)


@op(
    formula=r"L + U - I \text{ of } A = P\,L\,U",
    samples=_square_and_not,
    ranks=range(2, 6),
    outputs=("LU", "pivots"),
    holomorphic=False,
    unvaried=_ALWAYS_PIVOTS,
)
def linalg_lu_factor(A, *, pivot=True):
    """The two triangular factors of matrices in one matrix, and which rows were swapped.

    Shapes: (..., n, m) gives the same and (..., k) for k = min(n, m). Raises LinAlgError for a singular matrix.
    """
    return tuple(_linalg.lu_factor(A, pivot=pivot))


@op(
    formula=r"L + U - I \text{ of } A = P\,L\,U",
    samples=_checked_factors,
    ranks=range(2, 6),
    outputs=("LU", "pivots", "info"),
    holomorphic=False,
    unvaried=_ALWAYS_PIVOTS,
)
def linalg_lu_factor_ex(A, *, pivot=True, check_errors=False):
    """The two triangular factors in one matrix, which rows were swapped, and a number: 0 where the factors exist.

    Shapes: (..., n, m) gives the same and (..., k) for k = min(n, m). Raises LinAlgError for a singular matrix, but
    only with ``check_errors``.
    """
    return tuple(_linalg.lu_factor_ex(A, pivot=pivot, check_errors=check_errors))


def _of_packed(g, LU, pivots, pivot):
    if not pivot:
        raise NotImplementedError("the gradient of linalg_lu_factor is not supported with pivot=False: leave pivot out")
    k = min(LU.shape[-2:])
    return _of_factors(g[..., :k], g[..., :k, :], *lu_unpack(LU, pivots))


for _row in (linalg_lu_factor, linalg_lu_factor_ex):
    _row.rule(
        "A",
        _FORMULA,
    )(_of_packed)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """The permutation and the triangular factors from what ``lu_factor`` gives."""
    data, pivots = (getattr(one, "data", one) for one in (LU_data, LU_pivots))
    permutation, lower, upper = torch.lu_unpack(data, pivots, unpack_data=unpack_data, unpack_pivots=unpack_pivots)
    if isinstance(LU_data, Tensor):
        permutation = Tensor(permutation)  # type: ignore[assignment]
    if not unpack_data:
        return permutation, lower, upper
    k = min(LU_data.shape[-2:])
    one = torch.eye(LU_data.shape[-2], k, dtype=data.dtype, device=data.device)
    return permutation, tril(LU_data[..., :k], diagonal=-1) + one, triu(LU_data[..., :k, :])


def _factored(make: Make):
    for batch in BATCHES:
        LU, pivots = _linalg.lu_factor(regular(make, *batch, 3, 3))
        yield Sample.of(LU, pivots, make(*batch, 3, 2))
    for left in (True, False):
        for flipped in (True, False):
            yield Sample.of(LU[0, 0], pivots[0, 0], make(3, 3), left=left, adjoint=flipped)
            A = torch.complex(regular(make, 2, 2), make(2, 2))
            B = make.complex(2, 2)
            yield Sample.of(*_linalg.lu_factor(A), B, left=left, adjoint=flipped)
    yield Sample.of(LU, pivots, make(4, 1, 1, 3, 2))
    yield Sample.of(*_linalg.lu_factor(make(0, 0)), make(0, 2))


@op(
    formula=r"(P\,L\,U)^{-1} B",
    symbols={"LU": r"L\,U", "pivots": "P"},
    kernel=_linalg.lu_solve,
    samples=_factored,
    ranks=range(2, 6),
    broadcasts=("LU", "B"),
    no_gradient=("pivots",),
    holomorphic=False,
)
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """The solution of a system whose matrix, or its adjoint, has these triangular factors.

    Shapes: LU (..., n, n), pivots (..., n), B (..., n, k), the batches broadcasting. Raises RuntimeError where they do
    not fit.
    """


@linalg_lu_solve.rule("B", r"(P\,L\,U)^{-\top}\,\bar{y}")
def _(g, LU, pivots, left, adjoint):
    return linalg_lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)


@linalg_lu_solve.rule("LU", r"\text{the gradient of } P\,L\,U \text{, passed on to } L \text{ and } U")
def _(g, LU, pivots, out, left, adjoint):
    # The matrix of the system is A = P L U. First comes its gradient, and then from it those of the factors L and U.
    solved = linalg_lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)
    to_matrix = -(solved @ _adjoint(out)) if left else -(_adjoint(out) @ solved)
    if adjoint:
        to_matrix = _adjoint(to_matrix)
    permutation, lower, upper = lu_unpack(LU, pivots)
    turned = transposed(permutation) @ to_matrix
    return tril(turned @ _adjoint(upper), diagonal=-1) + triu(_adjoint(lower) @ turned)


_adjoint = adjoint


def lu_solve(input, LU_data, LU_pivots):
    """The solution of a system whose matrix has these triangular factors."""
    return linalg_lu_solve(LU_data, LU_pivots, input)


def lu(A, pivot=True, get_infos=False):
    """The two triangular factors of matrices in one matrix, and which rows were swapped."""
    made = linalg_lu_factor_ex(A, pivot=pivot)
    return tuple(made) if get_infos else tuple(made[:2])


for _function in (cholesky, cholesky_inverse, cholesky_solve, lu, lu_solve):
    install(_function.__name__ if not hasattr(_function, "name") else _function.name, _function)

"""Linear systems, inverses, pseudoinverses and least squares.

The rules are those of matrix calculus as M. Giles collects them ("Collected matrix derivative results for forward and
reverse mode algorithmic differentiation", 2008): from A X = B follows dX = A^-1 (dB - dA X), and so the gradient of B
solves the transposed system. For pseudoinverses: G. Golub and V. Pereyra,
"The differentiation of pseudo-inverses", 1973.
"""

from collections import namedtuple

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import has_numbers, opaque, recorded
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops.linalg.diagonals import tril, triu

_linalg = torch.linalg


def transposed(x):
    """The last two dimensions swapped."""
    return x.transpose(-2, -1)


def adjoint(x):
    """The last two dimensions swapped, and conjugated."""
    return conjugate(x.transpose(-2, -1))


def regular(make: Make, *shape):
    """Square matrices that are far from singular."""
    n = shape[-1]
    return make(*shape) / 2 + 3 * torch.eye(n, dtype=torch.float64).flip(-1)


def complex_regular(make: Make, *shape):
    """The same with complex elements."""
    return torch.complex(regular(make, *shape), make(*shape))


BATCHES = ((), (2,), (2, 1), (1, 2, 2))


def square(make: Make):
    """Square matrices, and batches of them; complex ones too."""
    yield from (Sample.of(regular(make, *batch, 3, 3)) for batch in BATCHES)
    yield Sample.of(complex_regular(make, 2, 2, 2))
    yield Sample.of(regular(make, 1, 1))
    yield Sample.of(make(0, 0))
    yield Sample.of(make(0, 2, 2))


# Inverses.


def _checked(make: Make):
    yield from square(make)
    yield Sample.of(regular(make, 3, 3), check_errors=True)


@op(formula=r"A^{-1}", samples=_checked, ranks=range(2, 6), outputs=("inverse", "info"))
def linalg_inv_ex(A, *, check_errors=False):
    """The inverse of square matrices, and a number that is 0 where the inverse exists.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix, but only with ``check_errors``.
    """
    return tuple(_linalg.inv_ex(A, check_errors=check_errors))


@op(formula=r"A^{-1}", kernel=_linalg.inv, samples=square, ranks=range(2, 6))
def linalg_inv(A):
    """The inverse of square matrices.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix.
    """


@linalg_inv.rule("A", r"-A^{-\top}\,\bar{y}\,A^{-\top}")
def _(g, out):
    turned = transposed(out)
    return -(turned @ (g @ turned))


@linalg_inv_ex.rule("A", r"-A^{-\top}\,\bar{y}\,A^{-\top}")
def _(g, inverse):
    turned = transposed(inverse)
    return -(turned @ (g @ turned))


# Systems.


def is_vector(a_shape, b_shape):
    """Whether the right side of a system is one vector for each matrix, and no matrix: torch's rule."""
    return len(b_shape) == 1 or (len(a_shape) - 1 == len(b_shape) and tuple(b_shape) == tuple(a_shape[:-1]))


def _systems(make: Make):
    for batch in BATCHES:
        yield Sample.of(regular(make, *batch, 3, 3), make(*batch, 3, 2))
    yield Sample.of(regular(make, 3, 3), make(3))
    yield Sample.of(regular(make, 2, 3, 3), make(2, 3))
    yield Sample.of(regular(make, 2, 1, 3, 3), make(4, 3, 2))
    yield Sample.of(regular(make, 3, 3), make(2, 2, 3), left=False)
    yield Sample.of(complex_regular(make, 2, 2), make.complex(2, 1))
    yield Sample.of(make(0, 0), make(0, 2))
    yield Sample.of(regular(make, 2, 2), make(2, 0))


def _solved(A, B, left, check_errors):
    """The solution and a check of it, with the factors of A, with which the rule solves again."""
    if not is_vector(A.shape, B.shape) and len(B.shape) < 2:
        return (*_linalg.solve_ex(A, B, left=left), None, None)  # raises
    factors, pivots, info = _linalg.lu_factor_ex(A, check_errors=check_errors)
    if not is_vector(A.shape, B.shape):
        return _linalg.lu_solve(factors, pivots, B, left=left), info, factors, pivots
    if not left:
        _linalg.solve(A, B, left=left)  # raises
    return _linalg.lu_solve(factors, pivots, B.unsqueeze(-1)).squeeze(-1), info, factors, pivots


def _checked_systems(make: Make):
    yield from _systems(make)
    yield Sample.of(regular(make, 3, 3), make(3, 2), check_errors=True)


@op(
    formula=r"A^{-1} B",
    samples=_checked_systems,
    ranks=range(2, 6),
    broadcasts=True,
    outputs=("result", "info"),
    aux=("factors", "pivots"),
)
def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    """The solution X of A X = B, or of X A = B, and a number that is 0 where a solution exists.

    Shapes: A (..., n, n), B (..., n, k) or (..., n). Raises LinAlgError for a singular matrix, but only with
    ``check_errors``.
    """
    return _solved(A, B, left, check_errors)


def _of_any_matrix(A, B, left):
    result, _, factors, pivots = _solved(A, B, left, False)
    return result, factors, pivots


@opaque(_of_any_matrix)
def _solution(A, B, left):
    """The solution and the factors of A. Raises LinAlgError where a matrix is singular."""
    result, info, factors, pivots = _solved(A, B, left, False)
    if not info.is_meta and bool((info != 0).any()):
        _linalg.solve(A, B, left=left)  # raises and says which matrix it is
    return result, factors, pivots


@op(
    formula=r"A^{-1} B",
    samples=_systems,
    ranks=range(2, 6),
    broadcasts=True,
    aux=("factors", "pivots"),
    policy=_linalg.solve,
)
def linalg_solve(A, B, *, left=True):
    """The solution X of A X = B, or of X A = B without ``left``.

    Newton's method solves such a system in each step, and a Gaussian process solves one for its prediction.

    Shapes: A (..., n, n), B (..., n, k) or (..., n), the batches broadcasting. Raises LinAlgError for a singular A.
    """
    return _solution(A, B, left)


@linalg_solve.joint_rule(A=r"-A^{-\top}\,\bar{y}\,x^{\top}", B=r"A^{-\top}\,\bar{y}")
def _(g, needed, A, B_shape, out, factors, pivots, left):
    return _of_system(g, needed, A, B_shape, out, factors, pivots, left)


@linalg_solve_ex.joint_rule(A=r"-A^{-\top}\,\bar{y}\,x^{\top}", B=r"A^{-\top}\,\bar{y}")
def _(g, needed, A, B_shape, result, factors, pivots, left):
    return _of_system(g, needed, A, B_shape, result, factors, pivots, left)


def _of_system(g, needed, A, B_shape, out, factors, pivots, left):
    vector = is_vector(A.shape, B_shape)
    if vector:
        g, out = g.unsqueeze(-1), out.unsqueeze(-1)
    if recorded(g, A, out):
        solved = linalg_solve(transposed(A), g, left=left)
    else:  # the factors solve the adjoint system too
        solved = conjugate(_linalg.lu_solve(factors, pivots, conjugate(g), left=left, adjoint=True))
    to_a = None
    if needed[0]:
        to_a = -(solved @ transposed(out)) if left else -(transposed(out) @ solved)
    return to_a, (solved.squeeze(-1) if vector else solved) if needed[1] else None


def _triangular(make: Make):
    for batch in BATCHES:
        yield Sample.of(regular(make, *batch, 3, 3).flip(-1).triu(), make(*batch, 3, 2), upper=True)
    A = regular(make, 3, 3).flip(-1)
    yield Sample.of(A.tril(), make(3, 2), upper=False)
    yield Sample.of(A, make(3, 2), upper=False, unitriangular=True)
    yield Sample.of(A, make(2, 2, 3), upper=True, left=False)
    yield Sample.of(torch.complex(A, make(3, 3)), make.complex(3, 1), upper=True)
    yield Sample.of(make(0, 0), make(0, 2), upper=True)


@op(formula=r"A^{-1} B", samples=_triangular, ranks=range(2, 6), broadcasts=True)
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """The solution X of A X = B, or of X A = B without ``left``, for a triangular A, whose other half is not read.

    Whitening with the Cholesky factor of a covariance solves such a system.

    Shapes: A (..., n, n), B (..., n, k), the batches broadcasting. Raises RuntimeError where they do not fit.
    """
    return _linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


@linalg_solve_triangular.joint_rule(
    A=r"-A^{-\top}\,\bar{y}\,x^{\top} \text{ in the triangle of } A", B=r"A^{-\top}\,\bar{y}"
)
def _(g, needed, A, out, upper, left, unitriangular):
    solved = linalg_solve_triangular(transposed(A), g, upper=not upper, left=left, unitriangular=unitriangular)
    to_a = None
    if needed[0]:
        to_a = -(solved @ transposed(out)) if left else -(transposed(out) @ solved)
        to_a = triu(to_a, diagonal=int(unitriangular)) if upper else tril(to_a, diagonal=-int(unitriangular))
    return to_a, solved if needed[1] else None


triangular_solution = namedtuple("triangular_solution", ("solution", "cloned_coefficient"))


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """The solution of a triangular system, and a copy of its matrix, as torch's older function returns them."""
    matrix, upper_now = (transposed(A), not upper) if transpose else (A, upper)
    solution = linalg_solve_triangular(matrix, input, upper=upper_now, unitriangular=unitriangular)
    return triangular_solution(solution, A.expand(*solution.shape[:-2], *A.shape[-2:]).clone())


install("triangular_solve", triangular_solve)
inverse = linalg_inv
install("inverse", linalg_inv)


def _tall_and_wide(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 2))
    yield Sample.of(make(2, 4))
    yield Sample.of(make(3, 3), rtol=1e-3)
    yield Sample.of(make.complex(3, 2), atol=1e-9)
    yield Sample.of(make.complex(2, 3))
    yield Sample.of(make(0, 2))


def _rank_two(make: Make):
    """Symmetric matrices with eigenvalues of 2, 1 and 0.001. The settings decide which of them count as 0."""
    Q = _linalg.qr(make(3, 3)).Q
    return Q @ torch.tensor([2.0, 1.0, 1e-3], dtype=torch.float64).diag() @ Q.mT


def _pseudoinverses(make: Make):
    yield from _tall_and_wide(make)
    yield Sample.of(make(3, 2), rcond=1e-3)
    yield Sample.of(_rank_two(make), hermitian=True)


@op(formula=r"A^{+}", samples=_pseudoinverses, ranks=range(2, 6), holomorphic=False)
def linalg_pinv(A, *, rcond=None, hermitian=False, atol=None, rtol=None):
    """The pseudoinverse of matrices: it inverts them except on the vectors that they map to 0.

    Its gradient is defined while the rank stays the same. Singular values count as 0 up to ``atol``, or up to ``rtol``
    (also called ``rcond``) times the largest one. ``hermitian`` says that the matrices are Hermitian.

    Shapes: (..., n, m) gives (..., m, n). Raises RuntimeError for fewer than two dimensions.
    """
    if rcond is not None:
        return _linalg.pinv(A, raw_of(rcond), hermitian)
    return _linalg.pinv(A, atol=raw_of(atol), rtol=raw_of(rtol), hermitian=hermitian)


@linalg_pinv.rule(
    "A",
    r"-y^{\top} \bar{y}\,y^{\top} + y^{\top} y\,\bar{y}^{\top} (I - A\,y) "
    r"+ (I - y\,A)\,\bar{y}^{\top} y\,y^{\top}",
)
def _(g, A, out):
    return of_pinv(g, A, out)


def of_pinv(g, A, inverse):
    """The gradient of a matrix from that of its pseudoinverse, multiplied in the order that is cheap for its shape."""
    turned, gradient = adjoint(inverse), adjoint(g)
    if A.shape[-2] <= A.shape[-1]:
        inside = gradient @ inverse
        beside = inside @ turned
        return (
            -adjoint(inverse @ inside) + beside - (A @ inverse) @ beside
            + (turned @ inverse) @ (gradient - inside @ A)
        )  # fmt: skip
    inside = inverse @ gradient
    beside = turned @ inside
    return -adjoint(inside @ inverse) + (gradient - A @ inside) @ inverse @ turned + beside - (beside @ inverse) @ A


@as_one(torch.pinverse)
def pinverse(input, rcond=1e-15):
    """The pseudoinverse of matrices: the inverse on what they do not send to 0."""
    return linalg_pinv(input, rcond=rcond)


def _fits(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 2), make(*batch, 4, 3))
    yield Sample.of(make(2, 4), make(2, 3))
    yield Sample.of(make(3, 2), make(3, 1), driver="gelsd")
    yield Sample.of(make(3, 2), make(3, 1), rcond=1e-9, driver="gelsy")
    yield Sample.of(make.complex(3, 2), make.complex(3, 2))
    yield Sample.of(make(3, 0), make(3, 2))


@op(
    formula=r"\arg\min_X \|A X - B\|",
    samples=_fits,
    ranks=range(2, 6),
    outputs=("solution", "residuals", "rank", "singular_values"),
    broadcasts=True,
    holomorphic=False,
)
def linalg_lstsq(A, B, *, rcond=None, driver=None):
    """The X for which A X comes closest to B, and how far off it is: linear regression.

    Shapes: A (..., n, m), B (..., n, k) or (..., n) give (..., m, k). Raises RuntimeError where they do not fit.
    """
    if has_numbers(A):
        return tuple(_linalg.lstsq(A, B, rcond, driver=driver))
    return _like_a_fit(A, B, rcond, driver) if A.is_meta else _full_rank_fit(A, B, rcond, driver)


def _like_a_fit(A, B, rcond, driver):  # it takes the arguments of _full_rank_fit
    """Results without numbers, of the shapes for matrices of full rank: torch has no kernel for such tensors."""
    driver = driver or ("gels" if A.is_cuda else "gelsy")  # torch's defaults
    vector = is_vector(A.shape, B.shape)
    (rows, columns), width = A.shape[-2:], () if vector else B.shape[-1:]
    batch = torch.broadcast_shapes(A.shape[:-2], B.shape[: -1 if vector else -2])
    real = A.real if A.is_complex() else A
    return (
        A.new_empty((*batch, columns, *width)),
        real.new_empty((*batch, *width) if rows > columns and driver != "gelsy" else 0),
        A.new_empty(A.shape[:-2] if driver != "gels" else 0, dtype=torch.int64),
        real.new_empty((*A.shape[:-2], min(rows, columns)) if driver in ("gelsd", "gelss") else 0),
    )


@opaque(_like_a_fit)
def _full_rank_fit(A, B, rcond, driver):
    """The fit in a traced program: residuals have the shape for full rank. Raises RuntimeError if torch gives none."""
    found = tuple(_linalg.lstsq(A, B, rcond, driver=driver))
    if found[1].shape != _like_a_fit(A, B, rcond, driver)[1].shape:
        raise RuntimeError(
            "linalg_lstsq: a matrix has not full rank, so that torch gives no residuals, and the program was traced "
            "with them: run the function without a trace, or take linalg.pinv(A) @ B"
        )
    return found


@linalg_lstsq.joint_rule(A=r"\text{the gradient of } A \text{ in } A^{+}\,B", B=r"(A^{+})^{\top}\,\bar{y}")
def _(g_solution, g_residuals, needed, A, B, solution):
    if is_vector(A.shape, B.shape):
        to_a, to_b = _of_fit(
            None if g_solution is None else g_solution.unsqueeze(-1),
            None if g_residuals is None else g_residuals.reshape((*B.shape[:-1], 1)),
            needed, A, B.unsqueeze(-1), solution.unsqueeze(-1),
        )  # fmt: skip
        return to_a, None if to_b is None else to_b.squeeze(-1)
    return _of_fit(g_solution, g_residuals, needed, A, B, solution)


def _of_fit(g_solution, g_residuals, needed, A, B, solution):
    to_a = to_b = None
    if g_solution is not None:
        inverse = linalg_pinv(A)
        to_a = of_pinv(g_solution @ adjoint(B), A, inverse) if needed[0] else None
        to_b = adjoint(inverse) @ g_solution if needed[1] else None
    if g_residuals is not None and g_residuals.numel():
        off = 2 * g_residuals.unsqueeze(-2) * (A @ solution - B)
        if needed[0]:
            to_a = off @ adjoint(solution) if to_a is None else to_a + off @ adjoint(solution)
        if needed[1]:
            to_b = -off if to_b is None else to_b - off
    return to_a, to_b


def _ranked(make: Make):
    for sample in _tall_and_wide(make):
        if not sample.settings:
            yield sample
    yield Sample.of(torch.ones(3, 3, dtype=torch.float64))
    yield Sample.of(torch.eye(3, dtype=torch.float64), atol=2.0)
    yield Sample.of(torch.ones(3, 3, dtype=torch.float64), hermitian=True)
    yield Sample.of(_rank_two(make), tol=0.01)
    yield Sample.of(_rank_two(make), rtol=0.7)


@op(formula=r"\operatorname{rank} A", samples=_ranked, ranks=range(2, 6), differentiable=False)
def linalg_matrix_rank(A, *, tol=None, hermitian=False, atol=None, rtol=None):
    """How many singular values of matrices are not 0; the limits are those of ``linalg_pinv``.

    Shapes: (..., n, m) gives (...), whole numbers. Raises RuntimeError for fewer than two dimensions.
    """
    if tol is not None:
        return _linalg.matrix_rank(A, raw_of(tol), hermitian)
    return _linalg.matrix_rank(A, atol=raw_of(atol), rtol=raw_of(rtol), hermitian=hermitian)


install("pinverse", pinverse)

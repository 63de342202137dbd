"""Linear systems and inverses.

The rules are those of matrix calculus as M. Giles collects them ("Collected matrix derivative results for forward and
reverse mode algorithmic differentiation", 2008): from A X = B follows dX = A^-1 (dB - dA X), and so the gradient of B
solves the transposed system.
"""

from collections import namedtuple

import torch

from nbgrad.core.op import install, op
from nbgrad.core.ops.diagonals import tril, triu
from nbgrad.core.plan import conjugate
from nbgrad.core.samples import Make, Sample
from nbgrad.core.tensor import Tensor

_linalg = torch.linalg


def recorded(*values):
    """Whether a rule's own steps are recorded, so that they must not use what was only saved for speed."""
    return any(isinstance(value, Tensor) for value in values)


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


@op(formula=r"A^{-1}", samples=square, outputs=("inverse", "info"), reference=_linalg.inv_ex)
def linalg_inv_ex(A, *, check_errors=False):
    """The inverse of square matrices, and a number that is 0 where there is one.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix with ``check_errors`` alone.
    """
    return tuple(_linalg.inv_ex(A, check_errors=check_errors))


@op(formula=r"A^{-1}", samples=square, reference=_linalg.inv)
def linalg_inv(A):
    """The inverse of square matrices.

    Solving a system is faster and more exact than multiplying with an inverse.

    Shapes: (..., n, n) gives the same. Raises LinAlgError for a singular matrix.
    """
    return _linalg.inv(A)


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
    yield Sample.of(complex_regular(make, 2, 2), torch.complex(make(2, 1), make(2, 1)))
    yield Sample.of(make(0, 0), make(0, 2))
    yield Sample.of(regular(make, 2, 2), make(2, 0))


def _solved(A, B, left, check_errors):
    """The solution and what is known of it, with the factors of A, which the rule solves with again."""
    if not is_vector(A.shape, B.shape) and len(B.shape) < 2:
        return (*_linalg.solve_ex(A, B, left=left), None, None)  # raises
    factors, pivots, info = _linalg.lu_factor_ex(A, check_errors=check_errors)
    if not is_vector(A.shape, B.shape):
        return _linalg.lu_solve(factors, pivots, B, left=left), info, factors, pivots
    if not left:
        _linalg.solve(A, B, left=left)  # raises
    return _linalg.lu_solve(factors, pivots, B.unsqueeze(-1)).squeeze(-1), info, factors, pivots


@op(
    formula=r"A^{-1} B",
    samples=_systems,
    broadcasts=True,
    outputs=("result", "info"),
    aux=("factors", "pivots"),
    reference=_linalg.solve_ex,
)
def linalg_solve_ex(A, B, *, left=True, check_errors=False):
    """The solution X of A X = B, or of X A = B, and a number that is 0 where there is one.

    Shapes: A (..., n, n), B (..., n, k) or (..., n). Raises LinAlgError for a singular matrix with ``check_errors``
    alone.
    """
    return _solved(A, B, left, check_errors)


@op(
    formula=r"A^{-1} B",
    samples=_systems,
    broadcasts=True,
    aux=("factors", "pivots"),
    reference=_linalg.solve,
)
def linalg_solve(A, B, *, left=True):
    """The solution X of A X = B, or of X A = B without ``left``.

    Newton's method solves one in each step, and so does a Gaussian process for its prediction.

    Shapes: A (..., n, n), B (..., n, k) or (..., n), the batches broadcasting. Raises LinAlgError for a singular A.
    """
    result, info, factors, pivots = _solved(A, B, left, False)
    if not info.is_meta and bool((info != 0).any()):
        _linalg.solve(A, B, left=left)  # raises and says which matrix it is
    return result, factors, pivots


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
    yield Sample.of(torch.complex(A, make(3, 3)), torch.complex(make(3, 1), make(3, 1)), upper=True)
    yield Sample.of(make(0, 0), make(0, 2), upper=True)


@op(
    formula=r"A^{-1} B",
    samples=_triangular,
    broadcasts=True,
    reference=_linalg.solve_triangular,
)
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """The solution X of A X = B, or of X A = B without ``left``, for a triangular A, whose other half is not read.

    Whitening with the Cholesky factor of a covariance is one.

    Shapes: A (..., n, n), B (..., n, k), the batches broadcasting. Raises RuntimeError where they do not fit.
    """
    return _linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


@linalg_solve_triangular.joint_rule(A=r"-A^{-\top}\,\bar{y}\,x^{\top} \text{, its half}", B=r"A^{-\top}\,\bar{y}")
def _(g, needed, A, out, upper, left, unitriangular):
    solved = linalg_solve_triangular(transposed(A), g, upper=not upper, left=left, unitriangular=unitriangular)
    to_a = None
    if needed[0]:
        to_a = -(solved @ transposed(out)) if left else -(transposed(out) @ solved)
        to_a = triu(to_a, diagonal=int(unitriangular)) if upper else tril(to_a, diagonal=-int(unitriangular))
    return to_a, solved if needed[1] else None


triangular_solution = namedtuple("triangular_solution", ("solution", "cloned_coefficient"))


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """The solution of a triangular system, and a copy of its matrix, as torch had it first."""
    matrix, upper_now = (transposed(A), not upper) if transpose else (A, upper)
    solution = linalg_solve_triangular(matrix, input, upper=upper_now, unitriangular=unitriangular)
    return triangular_solution(solution, A.clone())


install("triangular_solve", triangular_solve)
inverse = linalg_inv
install("inverse", linalg_inv)

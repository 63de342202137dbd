"""Pseudoinverses and least squares (G. Golub and V. Pereyra, "The differentiation of pseudo-inverses", 1973)."""

import torch

from nbgrad.core.base import raw_of
from nbgrad.core.op import install, op
from nbgrad.core.ops.casting import as_one
from nbgrad.core.ops.solving import BATCHES, adjoint, is_vector
from nbgrad.core.samples import Make, Sample

_linalg = torch.linalg


def _tall_and_wide(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 2))
    yield Sample.of(make(2, 4))
    yield Sample.of(make(3, 3), rtol=1e-3)
    yield Sample.of(torch.complex(make(3, 2), make(3, 2)), atol=1e-9)
    yield Sample.of(torch.complex(make(2, 3), make(2, 3)))
    yield Sample.of(make(0, 2))


@op(formula=r"A^{+}", samples=_tall_and_wide, holomorphic=False, reference=_linalg.pinv)
def linalg_pinv(A, *, rcond=None, hermitian=False, atol=None, rtol=None):
    """The pseudoinverse of matrices: the inverse on what they do not send to 0.

    Its gradient is defined while the rank stays the same. Singular values up to ``atol``, or up to the share ``rtol``
    of the largest one, which is also called ``rcond``, count as 0; ``hermitian`` says that the matrices are.

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
    yield Sample.of(torch.complex(make(3, 2), make(3, 2)), torch.complex(make(3, 2), make(3, 2)))
    yield Sample.of(make(3, 0), make(3, 2))


@op(
    formula=r"\arg\min_X \|A X - B\|",
    samples=_fits,
    outputs=("solution", "residuals", "rank", "singular_values"),
    broadcasts=True,
    holomorphic=False,
    reference=_linalg.lstsq,
)
def linalg_lstsq(A, B, *, rcond=None, driver=None):
    """The X for which A X comes closest to B, and how far off it is: linear regression.

    Shapes: A (..., n, m), B (..., n, k) or (..., n) give (..., m, k). Raises RuntimeError where they do not fit.
    """
    return _like_a_fit(A, B, driver) if A.is_meta else tuple(_linalg.lstsq(A, B, rcond, driver=driver))


def _like_a_fit(A, B, driver):
    """Tensors of the right shapes, for which torch has no kernel: those of matrices of full rank."""
    vector = is_vector(A.shape, B.shape)
    (rows, columns), width = A.shape[-2:], () if vector else B.shape[-1:]
    batch = torch.broadcast_shapes(A.shape[:-2], B.shape[: -1 if vector else -2])
    real = A.real if A.is_complex() else A
    return (
        A.new_empty((*batch, columns, *width)),
        real.new_empty((*batch, *width) if rows > columns and driver not in (None, "gelsy") else 0),
        A.new_empty(A.shape[:-2] if driver != "gels" else 0, dtype=torch.int64),
        real.new_empty((*A.shape[:-2], min(rows, columns)) if driver in ("gelsd", "gelss") else 0),
    )


@linalg_lstsq.joint_rule(A=r"\text{that of } A^{+}\,B", B=r"(A^{+})^{\top}\,\bar{y}")
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


@op(
    formula=r"\operatorname{rank} A",
    samples=_ranked,
    differentiable=False,
    reference=torch.linalg.matrix_rank,
)
def linalg_matrix_rank(A, *, tol=None, hermitian=False, atol=None, rtol=None):
    """How many singular values of matrices are not 0; which count as 0 is said as for ``linalg_pinv``.

    Shapes: (..., n, m) gives (...), whole numbers. Raises RuntimeError for fewer than two dimensions.
    """
    if tol is not None:
        return _linalg.matrix_rank(A, raw_of(tol), hermitian)
    return _linalg.matrix_rank(A, atol=raw_of(atol), rtol=raw_of(rtol), hermitian=hermitian)


install("pinverse", pinverse)

"""Decompositions by orthogonal matrices: eigenvalues, singular values, QR, and Householder reflections.

The rules follow from differentiating A = U S V^T and its like, with the constraint that U and V stay orthogonal, as in
M. Giles ("Collected matrix derivative results", 2008) and J. Townsend ("Differentiating the singular value
decomposition", 2016); for complex matrices Z. Wan and S. Zhang (https://arxiv.org/abs/1909.02659). Where two
eigenvalues or singular values are equal, or singular values are 0, the vectors have no derivative.
"""

from collections import namedtuple

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import check_of_numbers
from nbgrad.core.dispatch.plan import conjugate
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.elementwise.complex import conj, imag, real_part
from nbgrad.core.ops.linalg.diagonals import diag_embed, diagonal, tril
from nbgrad.core.ops.linalg.solve import (
    BATCHES,
    adjoint,
    linalg_solve,
    linalg_solve_triangular,
)
from nbgrad.core.ops.shape.joining import cat
from nbgrad.core.tensor.tensor import Tensor

_linalg = torch.linalg


def diagonals(x):
    """The diagonals of matrices."""
    return diagonal(x, dim1=-2, dim2=-1)


@check_of_numbers
def _check_phase(drift, name, vectors):
    """An error where the loss depends on the phase of complex vectors, which is left to chance."""
    size = drift.abs()
    if size.numel() and not torch.allclose(size, torch.zeros_like(size), atol=1e-2):
        raise RuntimeError(
            f"{name}: the {vectors} of complex matrices are determined up to a factor exp(i phi), on which the loss "
            "depends: its gradient is not defined"
        )


def _inverse_gaps(values):
    """1 / (v_j - v_i), and 0 on the diagonal."""
    n = values.shape[-1]
    one = torch.eye(n, dtype=values.dtype, device=values.device)
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    return (1 - one) / (gaps + one)


# Symmetric matrices.


def _symmetric(make: Make):
    for batch in BATCHES:
        A = make(*batch, 3, 3)
        yield Sample.of(A + A.mT + 6 * torch.diag(torch.arange(3.0).double()))
    yield Sample.of(make(2, 2), UPLO="U")
    yield Sample.of(make(1, 1))
    yield Sample.of(make(0, 0))


@op(
    formula=r"\lambda, V \text{ of } A = V \operatorname{diag}(\lambda) V^{\top}",
    symbols={"eigenvalues": r"\lambda", "eigenvectors": "V"},
    samples=_symmetric,
    ranks=range(2, 6),
    outputs=("eigenvalues", "eigenvectors"),
    holomorphic=False,
)
def linalg_eigh(A, *, UPLO="L"):
    """The eigenvalues of symmetric or Hermitian matrices, from the smallest on, and their eigenvectors as columns.

    Principal components are eigenvectors of a covariance.

    Shapes: (..., n, n) gives (..., n) and (..., n, n). Raises LinAlgError where it does not converge.
    """
    return tuple(_linalg.eigh(A, UPLO=UPLO))


@linalg_eigh.rule(
    "A",
    r"V \left(\operatorname{diag}(\bar{\lambda}) "
    r"+ \frac{\operatorname{skew}(V^{\top} \bar{V})}{\lambda_j - \lambda_i}\right) V^{\top}",
)
def _(g_eigenvalues, g_eigenvectors, eigenvalues, eigenvectors):
    turned = adjoint(eigenvectors)
    if g_eigenvectors is None:
        return (eigenvectors * g_eigenvalues.unsqueeze(-2)) @ turned
    inside = turned @ g_eigenvectors
    if inside.is_complex():
        _check_phase(raw_of(imag(diagonals(inside))), "linalg_eigh", "eigenvectors")
    inside = _skew(inside) / 2 * _inverse_gaps(eigenvalues)
    if g_eigenvalues is not None:
        inside = inside + diag_embed(g_eigenvalues)
    return eigenvectors @ inside @ turned


def linalg_eigvalsh(A, UPLO="L"):
    """The eigenvalues of symmetric or Hermitian matrices, from the smallest on."""
    if getattr(A, "requires_grad", False):
        return linalg_eigh(A, UPLO=UPLO).eigenvalues
    return _alone(_linalg.eigvalsh, A, UPLO=UPLO)


def _alone(function, A, **settings):
    """Torch's ``function`` of A, where no gradient is needed."""
    return Tensor(function(A.data, **settings)) if isinstance(A, Tensor) else function(A, **settings)


# Any square matrices.


def _any_square(make: Make):
    for batch in BATCHES:
        A = make(*batch, 3, 3) / 5 + torch.diag(torch.arange(3.0).double())
        yield Sample.of(A, any_phase=True)
    yield Sample.of(torch.tensor([[0.0, 1.0], [-1.0, 0.5]], dtype=torch.float64), any_phase=True)
    yield Sample.of(make.complex(2, 2), any_phase=True)
    yield Sample.of(make(0, 0))


def _with_any_phase(A, any_phase=False):
    """Torch's function, without the part of the gradient that would change the phases of the eigenvectors."""
    values, vectors = _linalg.eig(A)
    if vectors.requires_grad and any_phase:
        vectors.register_hook(lambda g: g - 1j * vectors * diagonals(vectors.mH @ g).imag.unsqueeze(-2))
    return values, vectors


@op(
    formula=r"\lambda, V \text{ of } A = V \operatorname{diag}(\lambda) V^{-1}",
    symbols={"eigenvalues": r"\lambda", "eigenvectors": "V"},
    samples=_any_square,
    ranks=range(2, 6),
    outputs=("eigenvalues", "eigenvectors"),
    holomorphic=False,
    reference=_with_any_phase,
)
def linalg_eig(A, *, any_phase=False):
    """The eigenvalues of square matrices, complex numbers, and their eigenvectors of length 1 as columns.

    The stability of a recurrent network is in the eigenvalues of its step. A loss must not depend on the phases of the
    eigenvectors, which are arbitrary: if it does, its backward raises. With ``any_phase`` the phases count as constant.

    Shapes: (..., n, n) gives (..., n) and (..., n, n). Raises LinAlgError where it does not converge.
    """
    return tuple(_linalg.eig(A))


@linalg_eig.rule(
    "A",
    r"V^{-\top} \left(\operatorname{diag}(\bar{\lambda}) "
    r"+ \frac{V^{\top} \bar{V} - V^{\top} V \operatorname{diag}(V^{\top} \bar{V})}{\lambda_j - \lambda_i}\right) "
    r"V^{\top}",
)
def _(g_eigenvalues, g_eigenvectors, eigenvalues, eigenvectors, any_phase):
    turned = adjoint(eigenvectors)
    if g_eigenvectors is None:
        return linalg_solve(turned, g_eigenvalues.unsqueeze(-1) * turned)
    inside = turned @ g_eigenvectors
    along = diagonals(inside)
    if not any_phase:
        _check_phase(raw_of(imag(along)), "linalg_eig", "eigenvectors")
    inside = inside - (turned @ eigenvectors) * along.unsqueeze(-2)
    inside = inside * conj(_inverse_gaps(eigenvalues))
    if g_eigenvalues is not None:
        inside = inside + diag_embed(g_eigenvalues)
    return linalg_solve(turned, inside @ turned)


def linalg_eigvals(A):
    """The eigenvalues of square matrices, complex numbers."""
    if getattr(A, "requires_grad", False):
        return linalg_eig(A).eigenvalues
    return _alone(_linalg.eigvals, A)


# Singular values.


def _matrices(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 3, 2), full_matrices=False)
    yield Sample.of(make(2, 4), full_matrices=False)
    yield Sample.of(make(3, 3))
    yield Sample.of(make(0, 2), full_matrices=False)


@op(
    formula=r"U, s, V_h \text{ of } A = U \operatorname{diag}(s) V_h",
    symbols={"S": "s", "Vh": "V_h"},
    samples=_matrices,
    ranks=range(2, 6),
    outputs=("U", "S", "Vh"),
    holomorphic=False,
    unvaried={"driver": "torch's kernel for a CPU takes no driver"},
)
def linalg_svd(A, *, full_matrices=True, driver=None):
    """The singular values of matrices, from the largest on, and their singular vectors.

    The largest ones make the best approximation of low rank. Adapters of large models build on that approximation.

    Shapes: (..., n, m) gives (..., n, k), (..., k) and (..., k, m) for k = min(n, m) without ``full_matrices``. Raises
    LinAlgError where it does not converge.
    """
    return tuple(_linalg.svd(A, full_matrices=full_matrices, driver=driver))


@linalg_svd.rule(
    "A",
    r"U \left(\operatorname{diag}(\bar{s}) + \frac{\operatorname{skew}(U^{\top} \bar{U}) \operatorname{diag}(s) "
    r"+ \operatorname{diag}(s) \operatorname{skew}(V_h \bar{V_h}^{\top})}{s_j^2 - s_i^2}\right) V_h + \ldots",
)
def _(g_U, g_S, g_Vh, U, S, Vh):
    count, rows, columns = S.shape[-1], U.shape[-2], Vh.shape[-1]
    if g_U is None and g_Vh is None:
        U, Vh = U[..., :count], Vh[..., :count, :]
        return U @ (g_S.unsqueeze(-1) * Vh) if rows >= columns else (U * g_S.unsqueeze(-2)) @ Vh
    g_U = None if g_U is None else _without_the_rest(g_U, g_U[..., count:], g_U[..., :count])
    g_Vh = None if g_Vh is None else _without_the_rest(g_Vh, g_Vh[..., count:, :], g_Vh[..., :count, :])
    U, Vh = U[..., :count], Vh[..., :count, :]
    inside = _between_singular_vectors(g_U, g_Vh, U, S, Vh)
    if g_S is not None:
        inside = inside + diag_embed(g_S)
    if g_U is not None and rows > count:  # the part of the gradient outside of the space of U
        across = g_U / S.unsqueeze(-2)
        return (U @ inside + across - U @ (adjoint(U) @ across)) @ Vh
    if g_Vh is not None and columns > count:
        across = g_Vh / S.unsqueeze(-1)
        return U @ (inside @ Vh + across - (across @ adjoint(Vh)) @ Vh)
    return U @ inside @ Vh


def _without_the_rest(g, rest, part):
    """The gradient of the vectors that belong to a singular value. Raise an error if the loss depends on the others."""
    if not rest.shape[-1] or not rest.shape[-2]:
        return g
    _check_rest(raw_of(rest))
    return part


@check_of_numbers
def _check_rest(rest):
    if bool((rest.abs() > 0).any()):
        raise RuntimeError(
            "linalg_svd: with full_matrices=True the additional singular vectors of a matrix that is not square are an "
            "arbitrary basis of the remaining space, but the loss depends on them: take full_matrices=False"
        )


def _between_singular_vectors(g_U, g_Vh, U, S, Vh):
    """The part of the gradient that turns singular vectors into each other."""
    left = None if g_U is None else _skew(adjoint(U) @ g_U)
    right = None if g_Vh is None else _skew(Vh @ adjoint(g_Vh))
    turning = 0
    if left is not None:
        turning = left * S.unsqueeze(-2)
    if right is not None:
        turning = turning + S.unsqueeze(-1) * right
    inside = turning * _inverse_gaps(S * S)
    drift = sum(part for part in (left, right) if part is not None)
    if drift.is_complex():
        _check_phase(raw_of(imag(diagonals(drift))), "linalg_svd", "singular vectors")
        if left is not None:
            inside = inside + diag_embed(diagonals(left) / (2 * S))
    return inside


def _skew(x):
    return x - adjoint(x)


def linalg_svdvals(A, driver=None):
    """The singular values of matrices, from the largest on."""
    if getattr(A, "requires_grad", False):
        return linalg_svd(A, full_matrices=False, driver=driver).S
    return _alone(_linalg.svdvals, A, driver=driver)


_Svd = namedtuple("_Svd", ("U", "S", "V"))


def svd(input, some=True, compute_uv=True):
    """The singular values and vectors of matrices, as torch's older svd: all vectors are columns."""
    if compute_uv:
        u, s, vh = linalg_svd(input, full_matrices=not some)
        return _Svd(u, s, adjoint(vh))
    rows, columns = input.shape[-2:]
    none = [
        torch.zeros((*input.shape[:-2], size, size), dtype=input.dtype, device=input.device) for size in (rows, columns)
    ]
    return _Svd(none[0], linalg_svdvals(input), none[1])


# QR.


def _tall_and_wide(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 3, 2))
    yield Sample.of(make(2, 4))
    yield Sample.of(make(3, 3), mode="complete")
    yield Sample.of(make.complex(3, 2))
    yield Sample.of(make.complex(2, 3))
    yield Sample.of(make(0, 2))


@op(
    formula=r"Q, R \text{ of } A = Q R",
    samples=_tall_and_wide,
    ranks=range(2, 6),
    outputs=("Q", "R"),
    holomorphic=False,
)
def linalg_qr(A, *, mode="reduced"):
    """The QR decomposition A = Q R: Q has orthonormal columns, and R is triangular.

    Least squares are solved with it, and random orthogonal weights are the Q of random numbers (Saxe et al. 2014,
    https://arxiv.org/abs/1312.6120).

    Shapes: (..., n, m) gives (..., n, k) and (..., k, m) for k = min(n, m) in the mode "reduced"; Q is square in the
    mode "complete" and empty in the mode "r". Raises RuntimeError for another mode.
    """
    return tuple(_linalg.qr(A, mode))


@linalg_qr.rule("A", r"\left(\bar{Q} + Q \operatorname{sym}(R \bar{R}^{\top} - \bar{Q}^{\top} Q)\right) R^{-\top}")
def _(g_Q, g_R, Q, R, mode):
    rows, columns = Q.shape[-2] if mode != "r" else R.shape[-2], R.shape[-1]
    if mode == "r":
        raise RuntimeError("linalg_qr: the mode 'r' computes no Q, which the gradient needs: take 'reduced'")
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "linalg_qr: in the mode 'complete' the additional columns of Q are an arbitrary basis of the remaining "
            "space: the gradient is not defined, take 'reduced'"
        )
    if rows >= columns:
        return _of_tall(g_Q, g_R, Q, R)
    # The first columns of a wide matrix make Q, and the others follow: A = Q (R1 | R2).
    if g_R is None:
        to_others = None
    else:
        to_others = Q @ g_R[..., rows:]
        crossed = Q @ R[..., rows:] @ adjoint(g_R[..., rows:])
        g_Q = crossed if g_Q is None else g_Q + crossed
        g_R = g_R[..., :rows]
    first = _of_tall(g_Q, g_R, Q, R[..., :rows])
    if to_others is None:
        shape = (*first.shape[:-1], columns - rows)
        to_others = torch.zeros(shape, dtype=first.dtype, device=first.device)
    return cat([first, to_others], dim=-1)


def _of_tall(g_Q, g_R, Q, R):
    inside = 0
    if g_R is not None:
        inside = R @ adjoint(g_R)
    if g_Q is not None:
        inside = inside - adjoint(g_Q) @ Q
    turned = Q @ _mirrored(inside)
    return linalg_solve_triangular(adjoint(R), turned if g_Q is None else turned + g_Q, upper=False, left=False)


def _mirrored(x):
    """The Hermitian matrix with the lower triangle of x."""
    lower = tril(x, diagonal=-1)
    return lower + adjoint(lower) + diag_embed(real_part(diagonals(x)))


def qr(input, some=True):
    """The QR decomposition of the input: Q has orthonormal columns, and R is triangular."""
    return linalg_qr(input, mode="reduced" if some else "complete")


for _function in (qr, svd):
    install(_function.__name__, _function)


def _basis(A, q, niter):
    """Orthonormal columns that span nearly what the largest singular vectors span."""
    columns = torch.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = linalg_qr(A @ columns).Q
    for _ in range(niter):
        Q = linalg_qr(A @ linalg_qr(adjoint(A) @ Q).Q).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """The q largest singular values of matrices and their singular vectors, approximated without the others.

    Large weights are compressed so, and recommendations found (Halko et al. 2011, https://arxiv.org/abs/0909.4061). It
    draws random numbers; each of ``niter`` rounds comes closer.

    M is subtracted from A.

    Shapes: A and M (..., m, n); U (..., m, q), S (..., q) and V (..., n, q).
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    A = A if M is None else A - M
    rows, columns = A.shape[-2:]
    tall = adjoint(A) if rows < columns else A
    Q = _basis(tall, q, niter)
    U, S, Vh = linalg_svd(adjoint(Q) @ tall, full_matrices=False)
    U, V = Q @ U, adjoint(Vh)
    return _Svd(V, S, U) if rows < columns else _Svd(U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """The q principal components of observations, which are rows: their svd_lowrank.

    With ``center`` the mean of the observations is subtracted first.

    Shapes: A (..., m, n); U (..., m, q), S (..., q) and V (..., n, q). Raises ValueError for more components than rows
    or columns.
    """
    most = min(A.shape[-2:])
    q = min(6, most) if q is None else q
    if not 0 <= q <= most:
        raise ValueError(f"pca_lowrank: q must be between 0 and {most}, not {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must be 0 or more, not {niter}")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


def _reflections(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 3), make(*batch, 2))
    yield Sample.of(make(3, 3), make(3))
    yield Sample.of(make.complex(3, 2), make.complex(2))
    yield Sample.of(make(0, 3, 2), make(0, 2))


def _product(A, tau):
    """Torch's function, plus 0 times its inputs: without reflections, torch's gradients are None."""
    return torch.linalg.householder_product(A, tau) + 0 * (A.sum() + tau.sum())


@op(
    formula=r"\prod_i (I - \tau_i v_i v_i^{\top})",
    symbols={"A": "v"},
    kernel=torch.linalg.householder_product,
    samples=_reflections,
    ranks=range(2, 6),
    holomorphic=False,
    reference=_product,
)
def linalg_householder_product(A, tau):
    """The first columns of a product of Householder reflections, whose vectors are below the diagonal of A.

    Orthogonal weights can be made of such (Mhammedi et al. 2017, https://arxiv.org/abs/1612.00188).

    Shapes: A (..., n, m) with n >= m, tau (..., k) with k <= m give (..., n, m). Raises RuntimeError where they do not
    fit.
    """


@linalg_householder_product.joint_rule(
    A=r"-\tau_i (K_i + K_i^{\top}) v_i",
    tau=r"-v_i^{\top} K_i v_i \text{ with } K_i = \overline{I - \tau_i v_i v_i^{\top}}",
)
def _(g, needed, A, tau):
    return _of_reflections(g, A, tau, A.shape[-1])


def _of_reflections(g, A, tau, columns):
    """The gradients of the vectors and of tau, from the gradient of the first ``columns`` columns of the product."""
    rows, count = A.shape[-2], tau.shape[-1]
    unit = torch.eye(rows, A.shape[-1], dtype=A.dtype, device=A.device)
    vectors = tril(A, diagonal=-1) + unit
    v = [vectors[..., i : i + 1] for i in range(count)]
    t = [tau[..., i : i + 1].unsqueeze(-1) for i in range(count)]
    rights, right = [], torch.eye(rows, columns, dtype=A.dtype, device=A.device)
    for i in reversed(range(count)):  # what comes after each reflection
        rights.append(right)
        right = right - t[i] * (v[i] @ (adjoint(v[i]) @ right))
    to_vectors, to_tau = [], []
    for i, right in enumerate(reversed(rights)):
        ahead, behind = adjoint(v[i]) @ g, adjoint(right) @ v[i]
        to_vectors.append(-(conjugate(t[i]) * (g @ behind) + t[i] * (right @ adjoint(ahead))))
        to_tau.append(-(ahead @ behind).squeeze(-1))
        g = g - conjugate(t[i]) * (v[i] @ ahead)  # now the gradient of the product of the later reflections
    beside = torch.zeros((*A.shape[:-1], A.shape[-1] - count), dtype=A.dtype, device=A.device)
    to_a = tril(cat([*to_vectors, beside], dim=-1), diagonal=-1)
    return to_a, cat(to_tau, dim=-1) if to_tau else torch.zeros(tuple(tau.shape), dtype=tau.dtype, device=tau.device)


def _applied(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 2), make(*batch, 2), make(*batch, 4, 3))
    for left in (True, False):
        for transpose in (True, False):
            yield Sample.of(make(3, 2), make(2), make(3, 3), left=left, transpose=transpose)
    yield Sample.of(make.complex(3, 2), make.complex(2), make.complex(3, 2), transpose=True)
    yield Sample.of(make(3, 2), make(2), make(3, 0))


@op(
    formula=r"\prod_i (I - \tau_i v_i v_i^{\top})\,B",
    symbols={"input": "v", "other": "B"},
    kernel=torch.ormqr,
    samples=_applied,
    ranks=range(2, 6),
    holomorphic=False,
)
def ormqr(input, tau, other, *, left=True, transpose=False):
    """A matrix times a product of Householder reflections, or its adjoint, without making the product.

    Shapes: input (..., n, k), tau (..., k), other (..., n, m) with ``left``, (..., m, n) without. Raises RuntimeError
    where they do not fit.
    """


@ormqr.joint_rule(
    input=r"\text{the gradient of } v \text{ in } Q = \prod_i (I - \tau_i v_i v_i^{\top})",
    tau=r"\text{the gradient of } \tau \text{ in } Q",
    other=r"Q^{\top}\,\bar{y}",
)
def _(g, needed, input, tau, other, left, transpose):
    to_input = to_tau = None
    if needed[0] or needed[1]:
        product = g @ adjoint(other) if left else adjoint(other) @ g
        product = adjoint(product) if transpose else product
        to_input, to_tau = _of_reflections(product, input, tau, input.shape[-2])
    return to_input, to_tau, ormqr(input, tau, g, left=left, transpose=not transpose) if needed[2] else None


def orgqr(input, tau):
    """The first columns of a product of Householder reflections."""
    return linalg_householder_product(input, tau)


install("orgqr", orgqr)

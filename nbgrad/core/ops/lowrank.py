"""Singular values and principal components of low rank, found by multiplying with random vectors."""

from collections import namedtuple

import torch

from nbgrad.core.ops.decomposition import linalg_qr, linalg_svd
from nbgrad.core.ops.dimensions import adjoint

_Svd = namedtuple("_Svd", ("U", "S", "V"))


def _basis(A, q, niter):
    """Orthonormal columns that span nearly what the largest singular vectors span."""
    columns = torch.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = linalg_qr(A @ columns).Q
    for _ in range(niter):
        Q = linalg_qr(A @ linalg_qr(adjoint(A) @ Q).Q).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """The q largest singular values of matrices and their singular vectors, nearly, without all the others.

    Large weights are compressed so, and recommendations found (Halko et al. 2011, https://arxiv.org/abs/0909.4061). It
    draws random numbers; each of ``niter`` rounds comes closer.

    Shapes: A (..., m, n), and M, which is taken from it, alike; U (..., m, q), S (..., q) and V (..., n, q).
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
    """The q principal components of observations, which are rows: svd_lowrank of them, less their mean if ``center``.

    Shapes: A (..., m, n); U (..., m, q), S (..., q) and V (..., n, q). Raises ValueError for more components than rows
    or columns.
    """
    most = min(A.shape[-2:])
    q = min(6, most) if q is None else q
    if not 0 <= q <= most:
        raise ValueError(f"pca_lowrank: q is to be between 0 and {most}, not {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter is to be 0 or more, not {niter}")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)

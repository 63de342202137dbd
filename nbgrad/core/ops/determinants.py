"""Determinants, and what is made of them."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.ops.choosing import where
from nbgrad.core.ops.complex import complex, conj, imag
from nbgrad.core.ops.decomposition import linalg_svd
from nbgrad.core.ops.diagonals import diag_embed
from nbgrad.core.ops.solving import linalg_solve_ex, recorded, square, transposed
from nbgrad.core.plan import conjugate
from nbgrad.core.samples import Make, Sample
from nbgrad.core.tensor import Tensor

_linalg = torch.linalg


def _determined(make: Make):
    yield from square(make)
    yield Sample.of(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))


@op(formula=r"\det A", samples=_determined, reference=_linalg.det)
def linalg_det(A):
    """The determinant of square matrices: the factor by which they change volumes.

    Its gradient is the transposed matrix of cofactors: where the matrix is invertible, the determinant times the
    transposed inverse.

    Shapes: (..., n, n) gives (...). Raises RuntimeError where the matrices are not square.
    """
    return _linalg.det(A)


@linalg_det.rule("A", r"\bar{y} \det(A)\,A^{-\top}")
def _(g, A, out):
    size = out.data.abs() if isinstance(out, Tensor) else out.abs()
    singular = size < 100 * torch.finfo(A.dtype).eps
    if not A.shape[-1] or singular.is_meta or not bool(singular.any()):
        return _scaled_inverse(g * out, A)
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
    # The rule is that of a real function: its result is conjugated outside.
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
    samples=square,
    outputs=("sign", "logabsdet"),
    holomorphic=False,
    reference=_linalg.slogdet,
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

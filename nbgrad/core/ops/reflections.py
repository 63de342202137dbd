"""Products of Householder reflections I - tau v v^T, as QR algorithms make them."""

import torch

from nbgrad.core.op import install, op
from nbgrad.core.ops.diagonals import tril
from nbgrad.core.ops.joining import cat
from nbgrad.core.ops.solving import BATCHES, adjoint
from nbgrad.core.plan import conjugate
from nbgrad.core.samples import Make, Sample


def _reflections(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 3), make(*batch, 2))
    yield Sample.of(make(3, 3), make(3))
    yield Sample.of(torch.complex(make(3, 2), make(3, 2)), torch.complex(make(2), make(2)))
    yield Sample.of(make(0, 3, 2), make(0, 2))


def _product(A, tau):
    """Torch's function, which forgets its inputs where there are no reflections."""
    return torch.linalg.householder_product(A, tau) + 0 * (A.sum() + tau.sum())


@op(
    formula=r"\prod_i (I - \tau_i v_i v_i^{\top})",
    samples=_reflections,
    holomorphic=False,
    reference=_product,
)
def linalg_householder_product(A, tau):
    """The first columns of a product of Householder reflections, whose vectors are below the diagonal of A.

    Orthogonal weights can be made of such (Mhammedi et al. 2017, https://arxiv.org/abs/1612.00188).

    Shapes: A (..., n, m) with n >= m, tau (..., k) with k <= m give (..., n, m). Raises RuntimeError where they do not
    fit.
    """
    return torch.linalg.householder_product(A, tau)


@linalg_householder_product.joint_rule(
    A=r"-\tau_i (K_i + K_i^{\top}) v_i",
    tau=r"-v_i^{\top} K_i v_i \text{ with } K_i = \overline{I - \tau_i v_i v_i^{\top}}",
)
def _(g, needed, A, tau):
    return _of_reflections(g, A, tau, A.shape[-1])


def _of_reflections(g, A, tau, columns):
    """The gradients of the vectors and of tau from that of so many columns of the product."""
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
        g = g - conjugate(t[i]) * (v[i] @ ahead)  # what came before it is undone
    beside = torch.zeros((*A.shape[:-1], A.shape[-1] - count), dtype=A.dtype, device=A.device)
    to_a = tril(cat([*to_vectors, beside], dim=-1), diagonal=-1)
    return to_a, cat(to_tau, dim=-1) if to_tau else torch.zeros(tuple(tau.shape), dtype=tau.dtype, device=tau.device)


def _applied(make: Make):
    for batch in BATCHES:
        yield Sample.of(make(*batch, 4, 2), make(*batch, 2), make(*batch, 4, 3))
    for left in (True, False):
        for transpose in (True, False):
            yield Sample.of(make(3, 2), make(2), make(3, 3), left=left, transpose=transpose)
    yield Sample.of(
        torch.complex(make(3, 2), make(3, 2)),
        torch.complex(make(2), make(2)),
        torch.complex(make(3, 2), make(3, 2)),
        transpose=True,
    )
    yield Sample.of(make(3, 2), make(2), make(3, 0))


@op(formula=r"\prod_i (I - \tau_i v_i v_i^{\top})\,B", samples=_applied, holomorphic=False)
def ormqr(input, tau, other, *, left=True, transpose=False):
    """A matrix times a product of Householder reflections, or its adjoint, without making the product.

    Shapes: input (..., n, k), tau (..., k), other (..., n, m) with ``left``, (..., m, n) without. Raises RuntimeError
    where they do not fit.
    """
    return torch.ormqr(input, tau, other, left, transpose)


@ormqr.joint_rule(input=r"\text{that of the product}", tau=r"\text{that of the product}", other=r"Q^{\top}\,\bar{y}")
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

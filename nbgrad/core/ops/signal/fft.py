"""Discrete Fourier transforms: of complex numbers, of real ones into half of the frequencies, and back."""

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.complex import real
from nbgrad.core.ops.padding import pad
from nbgrad.core.samples import Make, Sample

_KINDS = {"none": 0, "root": 1, "count": 2}
"""What a transform is divided by, as torch's kernels number it: nothing, the root of the number of places, or it."""


def _complex(make: Make, *shape):
    return torch.complex(make(*shape), make(*shape))


def _transforms(make: Make):
    for shape, dim in (
        ((3,), (0,)),
        ((2, 3), (1,)),
        ((2, 1, 4), (0, 2)),
        ((2, 2, 1, 3), (1, 3)),
        ((1, 2, 2, 1, 3), (1, 2, 4)),
    ):
        for forward in (True, False):
            yield Sample.of(_complex(make, *shape), dim=dim, divisor="none", forward=forward)
    for divisor in ("root", "count"):
        yield Sample.of(_complex(make, 2, 3), dim=(1,), divisor=divisor, forward=True)
    yield Sample.of(_complex(make, 0, 3), dim=(1,), divisor="none", forward=True)


def _c2c(x, *, dim, divisor="none", forward=True):
    """The kernel of torch, which fails where there are no elements."""
    return torch._fft_c2c(x, dim, _KINDS[divisor], forward) if x.numel() else x.clone()


def _r2c(x, *, dim, divisor="none", onesided=True):
    if x.numel():
        return torch._fft_r2c(x, dim, _KINDS[divisor], onesided)
    return torch.complex(x, x).narrow(dim[-1], 0, x.shape[dim[-1]] // 2 + 1 if onesided else x.shape[dim[-1]])


def _c2r(x, *, dim, last_dim_size, divisor="none"):
    if x.numel():
        return torch._fft_c2r(x, dim, _KINDS[divisor], last_dim_size)
    shape = list(x.shape)
    shape[dim[-1]] = last_dim_size
    return x.real.sum() + torch.zeros(shape, dtype=x.real.dtype, device=x.device)


@op(
    formula=r"\hat{x}_k = \sum_n x_n e^{\mp 2 \pi i k n / N}",
    holomorphic=False,
    samples=_transforms,
    reference=_c2c,
)
def fft_c2c(input, *, dim, divisor="none", forward=True):
    """The Fourier transform along ``dim``, or its inverse: how much of each frequency a signal has.

    A convolution is a product of frequencies, so long ones are computed so. Its matrix is unitary up to a factor, and
    the gradient is the transform back.

    Shapes: output as input. ``divisor`` says what it is divided by: "none", the "root" of the "count" of places.
    """
    return _c2c(input, dim=dim, divisor=divisor, forward=forward)


@fft_c2c.rule("input", r"\sum_k \bar{y}_k e^{\pm 2 \pi i k n / N}")
def _(g, dim, divisor, forward):
    return fft_c2c(g, dim=dim, divisor=divisor, forward=not forward)


def _real_transforms(make: Make):
    for shape, dim in (
        ((3,), (0,)),
        ((2, 4), (1,)),
        ((2, 1, 4), (0, 2)),
        ((2, 2, 1, 3), (1, 3)),
        ((1, 2, 2, 1, 3), (2, 4, 1)),
    ):
        for onesided in (True, False):
            yield Sample.of(make(*shape), dim=dim, divisor="none", onesided=onesided)
    for divisor in ("root", "count"):
        yield Sample.of(make(2, 3), dim=(1,), divisor=divisor)
    yield Sample.of(make(0, 3), dim=(1,))


@op(
    formula=r"\hat{x}_k = \sum_n x_n e^{-2 \pi i k n / N}",
    holomorphic=False,
    samples=_real_transforms,
    reference=_r2c,
)
def fft_r2c(input, *, dim, divisor="none", onesided=True):
    """The Fourier transform of real numbers along ``dim``; with ``onesided`` the half of it that says everything.

    The frequencies above the middle are the conjugates of those below, along the last of ``dim``.

    Shapes: output as input, with n // 2 + 1 in place of n along the last of ``dim`` if ``onesided``.
    """
    return _r2c(input, dim=dim, divisor=divisor, onesided=onesided)


@fft_r2c.rule("input", r"\operatorname{Re} \sum_k \bar{y}_k e^{2 \pi i k n / N}")
def _(g, input_shape, dim, divisor, onesided):
    rank, last = len(input_shape), dim[-1] % len(input_shape)
    missing = input_shape[last] - g.shape[last]
    if onesided and missing:  # what was left out of the output has the gradient 0
        g = pad(g, (0, 0) * (rank - 1 - last) + (0, missing))
    return real(fft_c2c(g, dim=dim, divisor=divisor, forward=False))


def _back(make: Make):
    for shape, dim, size in (((3,), (0,), 4), ((2, 3), (1,), 5), ((2, 1, 3), (0, 2), 4), ((2, 2, 1, 2), (1, 3), 3)):
        yield Sample.of(_complex(make, *shape), dim=dim, last_dim_size=size)
    yield Sample.of(_complex(make, 1, 2, 2, 1, 2), dim=(2, 4, 1), last_dim_size=2)
    for divisor in ("root", "count"):
        yield Sample.of(_complex(make, 2, 3), dim=(1,), divisor=divisor, last_dim_size=4)
    yield Sample.of(_complex(make, 0, 3), dim=(1,), last_dim_size=4)


@op(
    formula=r"x_n = \sum_k \hat{x}_k e^{2 \pi i k n / N}",
    holomorphic=False,
    samples=_back,
    reference=_c2r,
)
def fft_c2r(input, *, dim, last_dim_size, divisor="none"):
    """The real signal of ``last_dim_size`` places that has the half of frequencies given: fft_r2c undone.

    Each frequency between the first and the middle stands for two, so its gradient counts twice.

    Shapes: output as input, with ``last_dim_size`` along the last of ``dim``.
    """
    return _c2r(input, dim=dim, divisor=divisor, last_dim_size=last_dim_size)


@fft_c2r.rule("input", r"(1, 2, \ldots) \odot \sum_n \bar{y}_n e^{-2 \pi i k n / N}")
def _(g, input_shape, dim, divisor, last_dim_size):
    spectrum = fft_r2c(g, dim=dim, divisor=divisor)
    last = dim[-1] % len(input_shape)
    counts = torch.ones(input_shape[last], dtype=g.dtype, device=g.device)
    counts[1 : 1 + last_dim_size - len(counts)] = 2
    return spectrum * counts.reshape([-1 if d == last else 1 for d in range(len(input_shape))])

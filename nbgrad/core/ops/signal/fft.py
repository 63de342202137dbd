"""Discrete Fourier transforms of complex, real and symmetric signals, in one or more dimensions."""

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.ops.elementwise.complex import conj, real
from nbgrad.core.ops.shape.padding import pad
from nbgrad.core.ops.shape.repeating import roll
from nbgrad.core.ops.shape.splitting import narrow

_KINDS = {"none": 0, "root": 1, "count": 2}
"""The divisor of a transform, as torch's kernels number it: 1, the root of the number of places, or that number."""


def _transforms(make: Make):
    for shape, dim in (
        ((3,), (0,)),
        ((2, 3), (1,)),
        ((2, 1, 4), (0, 2)),
        ((2, 2, 1, 3), (1, 3)),
        ((1, 2, 2, 1, 3), (1, 2, 4)),
    ):
        for forward in (True, False):
            yield Sample.of(make.complex(*shape), dim=dim, divisor="none", forward=forward)
    for divisor in ("root", "count"):
        yield Sample.of(make.complex(2, 3), dim=(1,), divisor=divisor, forward=True)
    yield Sample.of(make.complex(0, 3), dim=(1,), divisor="none", forward=True)


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


@op(formula=r"y_k = \sum_n x_n e^{\mp 2 \pi i k n / N}", holomorphic=False, samples=_transforms, ranks=range(1, 6))
def fft_c2c(input, *, dim, divisor="none", forward=True):
    """The Fourier transform along ``dim``, or its inverse: how much of each frequency a signal has.

    A convolution is a product in frequencies: long convolutions are computed with it. The matrix of the transform is
    unitary up to a factor, so the gradient is the transform back.

    Shapes: output as input. ``divisor`` says what it is divided by: "none", "count" (the number of places) or "root"
    (its square root).
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


@op(formula=r"y_k = \sum_n x_n e^{-2 \pi i k n / N}", holomorphic=False, samples=_real_transforms, ranks=range(1, 6))
def fft_r2c(input, *, dim, divisor="none", onesided=True):
    """The Fourier transform of real numbers along ``dim``; with ``onesided`` the half of it that says everything.

    The frequencies above the middle are the conjugates of those below, along the last of ``dim``.

    Shapes: output as input, with n // 2 + 1 in place of n along the last of ``dim`` if ``onesided``.
    """
    return _r2c(input, dim=dim, divisor=divisor, onesided=onesided)


@fft_r2c.rule("input", r"\operatorname{Re} \sum_k \bar{y}_k e^{2 \pi i k n / N}")
def _(g, input_shape, dim, divisor):
    rank, last = len(input_shape), dim[-1] % len(input_shape)
    missing = input_shape[last] - g.shape[last]
    if missing:  # the part left out of the output has the gradient 0
        g = pad(g, (0, 0) * (rank - 1 - last) + (0, missing))
    return real(fft_c2c(g, dim=dim, divisor=divisor, forward=False))


def _back(make: Make):
    for shape, dim, size in (((3,), (0,), 4), ((2, 3), (1,), 5), ((2, 1, 3), (0, 2), 4), ((2, 2, 1, 2), (1, 3), 3)):
        yield Sample.of(make.complex(*shape), dim=dim, last_dim_size=size)
    yield Sample.of(make.complex(1, 2, 2, 1, 2), dim=(2, 4, 1), last_dim_size=2)
    for divisor in ("root", "count"):
        yield Sample.of(make.complex(2, 3), dim=(1,), divisor=divisor, last_dim_size=4)
    yield Sample.of(make.complex(0, 3), dim=(1,), last_dim_size=4)


@op(
    formula=r"y_n = \sum_k x_k e^{2 \pi i k n / N}",
    holomorphic=False,
    samples=_back,
    ranks=range(1, 6),
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


_DIVISORS = {
    (None, True): "none",
    ("backward", True): "none",
    ("ortho", True): "root",
    ("forward", True): "count",
    (None, False): "count",
    ("backward", False): "count",
    ("ortho", False): "root",
    ("forward", False): "none",
}


def _divisor(norm, forward):
    if (norm, forward) not in _DIVISORS:
        raise RuntimeError(f"a Fourier transform knows no norm {norm!r}, only 'forward', 'backward' and 'ortho'")
    return _DIVISORS[norm, forward]


def _sized(input, dims, sizes):
    """The input cut to these sizes along these dimensions, or with zeros added after it; None keeps a size."""
    for dim, size in zip(dims, sizes, strict=True):
        had = input.shape[dim]
        if size is None or size == had:
            continue
        if size < 1:
            raise RuntimeError(f"a Fourier transform needs at least one place, not {size}")
        after = (0, 0) * (input.ndim - 1 - dim) + (0, size - had)
        input = narrow(input, dim=dim, start=0, length=size) if size < had else pad(input, after)
    return input


def _dims(input, s, dim):
    """The dimensions as non-negative numbers, and the wanted size of each, or None."""
    s, dim = ((one,) if isinstance(one, int) else one for one in (s, dim))
    if dim is None:
        dim = range(input.ndim) if s is None else range(input.ndim - len(s), input.ndim)
    dims = tuple(d % input.ndim for d in dim)
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"a Fourier transform along {tuple(dim)} takes a dimension twice")
    sizes = (None,) * len(dims) if s is None else tuple(None if size == -1 else size for size in s)
    if len(sizes) != len(dims):
        raise RuntimeError(f"a Fourier transform got {len(sizes)} sizes for {len(dims)} dimensions")
    return dims, sizes


def _as_float(input):
    return input if input.is_floating_point() or input.is_complex() else input.to(dtype=torch.get_default_dtype())


def _as_complex(input):
    input = _as_float(input)
    return input if input.is_complex() else input.to(dtype=_COMPLEX[input.dtype])


_COMPLEX = {
    torch.float16: torch.complex32,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


def _real(input, name):
    if input.is_complex():
        raise RuntimeError(f"{name} takes real numbers, not {input.dtype}")
    return _as_float(input)


def _refuse(out, name):
    if out is not None:
        raise NotImplementedError(f"{name}: out= would overwrite a tensor that a rule may need")


# Whole spectra.


def _whole(input, s, dim, norm, forward):
    dims, sizes = _dims(input, s, dim)
    x, divisor = _sized(_as_float(input), dims, sizes), _divisor(norm, forward)
    if not dims:
        return _as_complex(x)
    if x.is_complex() or len(dims) > 1:
        return fft_c2c(_as_complex(x), dim=dims, divisor=divisor, forward=forward)
    spectrum = fft_r2c(x, dim=dims, divisor=divisor, onesided=False)
    return spectrum if forward else conj(spectrum)


# Half spectra: made from real signals, and turned back into real signals.


def _half(input, s, dim, norm, forward, name):
    dims, sizes = _dims(_real(input, name), s, dim)
    x, divisor = _sized(_as_float(input), dims, sizes), _divisor(norm, forward)
    if forward:
        return fft_r2c(x, dim=dims, divisor=divisor)
    if len(dims) == 1:
        return conj(fft_r2c(x, dim=dims, divisor=divisor))
    last = conj(fft_r2c(x, dim=dims[-1:], divisor=divisor))
    return fft_c2c(last, dim=dims[:-1], divisor=divisor, forward=False)


def _from_half(input, s, dim, norm, forward):
    dims, sizes = _dims(input, s, dim)
    last = sizes[-1] if sizes[-1] is not None else 2 * (input.shape[dims[-1]] - 1)
    if last < 1:
        raise RuntimeError(f"a Fourier transform needs at least one place, not {last}")
    x = _sized(_as_complex(input), dims, (*sizes[:-1], last // 2 + 1))
    x = conj(x) if forward else x
    return fft_c2r(x, dim=dims, divisor=_divisor(norm, forward), last_dim_size=last)


# torch's functions.


def _named(name, doc, run, kind):
    """The transform in torch's three forms: along one dimension, along two, along many."""

    def one(input, n=None, dim=-1, norm=None, out=None):
        _refuse(out, name)
        return run(input, None if n is None else (n,), (dim,), norm)

    def two(input, s=None, dim=(-2, -1), norm=None, out=None):
        _refuse(out, f"{name}2")
        return run(input, s, dim, norm)

    def many(input, s=None, dim=None, norm=None, out=None):
        _refuse(out, f"{name}n")
        return run(input, s, dim, norm)

    for made, end, along in ((one, "", "one dimension"), (two, "2", "two dimensions"), (many, "n", "some dimensions")):
        made.__name__ = f"fft_{name}{end}"
        made.__doc__ = f"""{doc}, along {along}.

    The signal is first cut or filled up with zeros to ``{"s" if end else "n"}`` places. ``norm`` says which way is
    divided by their number: "backward" (the default), "forward", or "ortho" for the root of it both ways.

    Shapes: {kind}. Raises NotImplementedError for ``out``.
    """
    return one, two, many


fft_fft, fft_fft2, fft_fftn = _named(
    "fft",
    "How much of each frequency a signal has",
    lambda x, s, dim, norm: _whole(x, s, dim, norm, True),
    "output complex, with the sizes asked for",
)
fft_ifft, fft_ifft2, fft_ifftn = _named(
    "ifft",
    "The signal that has these frequencies",
    lambda x, s, dim, norm: _whole(x, s, dim, norm, False),
    "output complex, with the sizes asked for",
)
fft_rfft, fft_rfft2, fft_rfftn = _named(
    "rfft",
    "How much of each frequency a real signal has, those above the middle left out",
    lambda x, s, dim, norm: _half(x, s, dim, norm, True, "rfft"),
    "input real, output complex with n // 2 + 1 along the last dimension",
)
fft_irfft, fft_irfft2, fft_irfftn = _named(
    "irfft",
    "The real signal that has this half of frequencies",
    lambda x, s, dim, norm: _from_half(x, s, dim, norm, False),
    "output real, with 2 (m - 1) along the last dimension if no size is given",
)
fft_hfft, fft_hfft2, fft_hfftn = _named(
    "hfft",
    "The frequencies, which are real, of a signal given by half of it",
    lambda x, s, dim, norm: _from_half(x, s, dim, norm, True),
    "output real, with 2 (m - 1) along the last dimension if no size is given",
)
fft_ihfft, fft_ihfft2, fft_ihfftn = _named(
    "ihfft",
    "Half of the signal that has these real frequencies",
    lambda x, s, dim, norm: _half(x, s, dim, norm, False, "ihfft"),
    "input real, output complex with n // 2 + 1 along the last dimension",
)


def fft_fftshift(input, dim=None):
    """The frequency 0 moved from the beginning to the middle, along all dimensions or ``dim``.

    Shapes: output as input.
    """
    return _rolled(input, dim, lambda size: size // 2)


def fft_ifftshift(input, dim=None):
    """The frequency 0 moved from the middle back to the beginning: fftshift undone.

    Shapes: output as input.
    """
    return _rolled(input, dim, lambda size: (size + 1) // 2)


def _rolled(input, dim, shift):
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return roll(input, shifts=tuple(shift(input.shape[d]) for d in dims), dims=dims)

"""The short-time Fourier transform, which transforms each window of a signal, and its inverse."""

import torch

from nbgrad.core.dispatch.op import install
from nbgrad.core.dispatch.opaque import check_of_numbers
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.elementwise.complex import view_as_real
from nbgrad.core.ops.shape.padding import pad
from nbgrad.core.ops.shape.strided import unfold, unfold_backward
from nbgrad.core.ops.signal.fft import fft_c2c, fft_c2r, fft_r2c


def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transform of the frames of a signal: a spectrogram is its size.

    Networks for speech take spectrograms as input, and the loss of a vocoder compares them.

    Args:
        input: signals (T,) or (N, T).
        n_fft: how long a frame is.
        hop_length: the distance between the starts of two frames; default: a quarter of ``n_fft``.
        win_length: how long the window is; default: ``n_fft``.
        window: the numbers that each frame is multiplied by; default: ones.
        center: whether the position of a frame is its middle, not its start. Then the signal is padded at both ends, by
            ``pad_mode``.
        pad_mode: as ``pad`` takes it.
        normalized: whether the transform is divided by the root of ``n_fft``.
        onesided: whether only the first half of the frequencies is returned, which determines the other half; default:
            True for real signals.
        return_complex: whether the result is complex; if not, real and imaginary part are the last dimension.
        align_to_window: without ``center``, whether the windows start at multiples of ``hop_length``, instead of the
            frames.

    Returns (..., frequencies, frames). Raises RuntimeError where sizes do not fit, or ``return_complex`` is missing for
    a real signal.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft takes align_to_window only with center=False")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft takes signals of one or two dimensions, not {input.ndim}")
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if align_to_window and length < n_fft:
        missing = n_fft - length
        input = pad(input, (missing // 2, missing - missing // 2))
    wide = input.is_complex() or (window is not None and window.is_complex())
    if not wide and return_complex is None:
        raise RuntimeError("stft of a real signal needs return_complex: True, or False for both parts as numbers")
    if center:
        around = (n_fft // 2, n_fft // 2)
        # Only tensors of more dimensions can be padded with their own elements.
        extended = input.reshape((1,) * (3 - input.ndim) + tuple(input.shape))
        input = pad(extended, around, pad_mode).reshape((*input.shape[:-1], -1))
    _check("stft", n_fft, hop, length, window)
    if not 0 < n_fft <= input.shape[-1]:
        raise RuntimeError(f"stft: n_fft must be between 1 and the signal's {input.shape[-1]} places, not {n_fft}")
    frames = unfold(input, dimension=-1, size=n_fft, step=hop)
    if window is not None or length < n_fft:
        frames = frames * _window(window, n_fft, length, input)
    divisor = "root" if normalized else "none"
    if wide:
        if onesided:
            raise RuntimeError("stft of complex numbers needs all frequencies: leave onesided out")
        spectrum = fft_c2c(_complex(frames), dim=(frames.ndim - 1,), divisor=divisor, forward=True)
    else:
        spectrum = fft_r2c(frames, dim=(frames.ndim - 1,), divisor=divisor, onesided=onesided is not False)
    spectrum = spectrum.transpose(-1, -2)
    return spectrum if return_complex is not False else view_as_real(spectrum)


def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal whose frames have the given Fourier transforms; where frames overlap, the best fit to all of them.

    Griffin and Lim 1984 showed that this is the signal with the nearest spectrogram. Arguments are those of ``stft``;
    ``length`` is the length of the signal, and ``return_complex`` says that it is complex.

    Shapes: (..., frequencies, frames) gives (T,) or (N, T). Raises RuntimeError where sizes do not fit, or windows
    leave a place with nothing.
    """
    if not input.is_complex():
        raise RuntimeError("istft takes complex numbers: view_as_complex() makes them of pairs")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"istft takes two or three dimensions, not {input.ndim}")
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    _check("istft", n_fft, hop, width, window)
    half = n_fft // 2 + 1
    onesided = input.shape[-2] != n_fft if onesided is None else onesided
    if input.shape[-2] != (half if onesided else n_fft):
        raise RuntimeError(f"istft: {input.shape[-2]} frequencies do not belong to n_fft={n_fft}, onesided={onesided}")
    if onesided and return_complex:
        raise RuntimeError("istft: half of the frequencies, onesided=True, make no complex signal")
    spectrum, divisor = input.transpose(-1, -2), "root" if normalized else "count"
    last = (spectrum.ndim - 1,)
    if return_complex:
        frames = fft_c2c(spectrum, dim=last, divisor=divisor, forward=False)
    else:
        if window is not None and window.is_complex():
            raise RuntimeError("istft: a complex window makes a complex signal: pass return_complex=True")
        frames = fft_c2r(spectrum[..., :half], dim=last, divisor=divisor, last_dim_size=n_fft)
    window = _window(window, n_fft, width, frames)
    total = n_fft + hop * (input.shape[-1] - 1)
    signal = _overlapped(frames * window, total, n_fft, hop)
    weight = _overlapped((window * window).expand(frames.shape), total, n_fft, hop)
    begin = n_fft // 2 if center else 0
    end = total - begin if length is None else begin + length
    signal, weight = signal[..., begin:end], weight[..., begin:end]
    _check_overlap(raw_of(weight))
    signal = signal / weight
    return pad(signal, (0, end - total)) if end > total else signal


@check_of_numbers
def _check_overlap(weight):
    if not bool((weight.abs() > 1e-11).all()):
        raise RuntimeError("istft: windows overlap to nearly 0 somewhere: take another window, or center=True")


def _check(name, n_fft, hop, length, window):
    if hop < 1:
        raise RuntimeError(f"{name}: hop_length must be 1 or more, not {hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: win_length must be between 1 and n_fft={n_fft}, not {length}")
    if window is not None and tuple(window.shape) != (length,):
        raise RuntimeError(f"{name}: the window must have the shape ({length},), not {tuple(window.shape)}")


def _window(window, n_fft, length, like):
    """The window in the middle of a frame, zeros around it."""
    if window is None:
        window = torch.ones(length, dtype=like.real.dtype if like.is_complex() else like.dtype, device=like.device)
    left = (n_fft - length) // 2
    return pad(window, (left, n_fft - length - left)) if length < n_fft else window


def _overlapped(frames, total, n_fft, hop):
    """Frames added up where they lie in a signal."""
    return unfold_backward(
        frames, input_sizes=(*frames.shape[:-2], total), dimension=frames.ndim - 2, size=n_fft, step=hop
    )


def _complex(x):
    return x if x.is_complex() else x + 0j


install("stft", stft)
install("istft", istft)

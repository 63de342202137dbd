"""New tensors, made by torch's own functions: leaves, which no gradient of anything else reaches."""

from contextlib import nullcontext
from inspect import Parameter, Signature
from typing import Any

import torch

from nbgrad.core.binding import NO_OUT
from nbgrad.core.modes import current
from nbgrad.core.op import install
from nbgrad.core.tensor import Tensor, check_device, numbers

_MADE = {
    "arange": ("*ends", "The numbers from ``start`` (0) up to ``end``, without it, ``step`` (1) apart"),
    "bartlett_window": ("window_length, periodic=True", "Bartlett's window: weights that rise and fall in straight lines"),
    "blackman_window": ("window_length, periodic=True", "Blackman's window: weights that are the sum of three cosines"),
    "empty": ("*size", "A tensor of a shape with whatever is in its memory"),
    "empty_permuted": ("size, physical_layout", "A tensor of a shape laid out in that order of dimensions, unfilled"),
    "empty_strided": ("size, stride", "A tensor of a shape with the strides given and whatever is in its memory"),
    "eye": ("n, m=None", "A matrix with ones on its diagonal and zeros elsewhere"),
    "fft_fftfreq": ("n, d=1.0", "The frequencies that the results of fft stand for"),
    "fft_rfftfreq": ("n, d=1.0", "The frequencies that the results of rfft stand for"),
    "full": ("size, fill_value", "A tensor of a shape filled with one value"),
    "hamming_window": ("window_length, periodic=True, alpha=0.54, beta=0.46", "Hamming's window: a raised cosine"),
    "hann_window": ("window_length, periodic=True", "Hann's window: weights that rise and fall as a cosine"),
    "kaiser_window": ("window_length, periodic=True, beta=12.0", "Kaiser's window, the narrower the larger ``beta`` is"),
    "linspace": ("start, end, steps", "``steps`` numbers from ``start`` to ``end``, both among them, equally far apart"),
    "logspace": ("start, end, steps, base=10.0", "Powers of ``base`` whose exponents are equally far apart"),
    "ones": ("*size", "A tensor of ones of a shape"),
    "rand": ("*size", "Random numbers, uniform from 0 up to 1, without it"),
    "randint": ("*limits_and_size", "Random integers from ``low`` (0) up to ``high``, without it"),
    "randn": ("*size", "Normal random numbers, of mean 0 and variance 1"),
    "randperm": ("n", "The integers from 0 up to ``n``, without it, in random order"),
    "scalar_tensor": ("s", "A tensor of rank 0 of one number"),
    "tril_indices": ("row, col, offset=0", "The rows and columns of the elements on and below a diagonal"),
    "triu_indices": ("row, col, offset=0", "The rows and columns of the elements on and above a diagonal"),
    "zeros": ("*size", "A tensor of zeros of a shape"),
}
"""torch's functions that make a tensor of numbers: what they take, and what they give."""

_LIKE = {
    "empty_like": ("", "A tensor with whatever is in its memory"),
    "full_like": ("fill_value", "A tensor filled with one value"),
    "ones_like": ("", "A tensor of ones"),
    "rand_like": ("", "Random numbers, uniform from 0 up to 1, without it"),
    "randint_like": ("*limits", "Random integers from ``low`` (0) up to ``high``, without it"),
    "randn_like": ("", "Normal random numbers, of mean 0 and variance 1"),
    "zeros_like": ("", "A tensor of zeros"),
}
"""Those that make one of the shape of another."""

_NEW = {
    "new_empty": "A tensor of a shape with whatever is in its memory",
    "new_full": "A tensor of a shape filled with one value",
    "new_ones": "A tensor of ones of a shape",
    "new_tensor": "A tensor of the numbers given, copied",
    "new_zeros": "A tensor of zeros of a shape",
}
"""Methods of a tensor that make another one of its element type."""

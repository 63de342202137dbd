"""Fourier transforms under the names that ``torch.fft`` gives them."""

import torch

from nbgrad.core import ops
from nbgrad.core.dispatch.exports import namespace

globals().update(_functions := namespace(torch.fft, ops, "fft_"))
__all__ = list(_functions)

"""The functions that torch itself has, as ``torch.exp``: ``nbgrad`` has them all under the same names."""

import torch

from nbgrad.core import ops
from nbgrad.core.dispatch.exports import namespace

globals().update(_functions := namespace(torch, ops))
__all__ = list(_functions)

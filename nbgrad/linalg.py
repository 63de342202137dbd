"""Linear algebra under the names that ``torch.linalg`` gives it."""

import torch

from nbgrad.core import ops
from nbgrad.core.dispatch.exports import namespace

globals().update(_functions := namespace(torch.linalg, ops, "linalg_"))
__all__ = list(_functions)

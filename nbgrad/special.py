"""Special functions under the names that ``torch.special`` gives them."""

import torch

from nbgrad.core import ops
from nbgrad.core.dispatch.exports import namespace

globals().update(_functions := namespace(torch.special, ops, "special_", ""))
__all__ = list(_functions)

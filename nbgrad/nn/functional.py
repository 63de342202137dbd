"""The blocks as functions, under the names that ``torch.nn.functional`` gives them."""

import torch

from nbgrad.core import ops
from nbgrad.core.naming import namespace
from nbgrad.core.ops import calling

globals().update(_functions := namespace(torch.nn.functional, ops) | namespace(torch.nn.functional, calling))
__all__ = list(_functions)

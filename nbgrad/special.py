"""Special functions under the names that ``torch.special`` gives them."""

from typing import TYPE_CHECKING

import torch

from nbgrad.core import ops
from nbgrad.core.dispatch.exports import namespace
from nbgrad.core.suggestions import suggesting

globals().update(_functions := namespace(torch.special, ops, "special_", ""))
__all__ = list(_functions)

if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())

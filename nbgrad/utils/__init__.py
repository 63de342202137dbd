"""What ``torch.utils`` has that must be nbgrad's own, under the names there; the rest of torch's works as it is."""

from typing import TYPE_CHECKING

import torch

from nbgrad.core.suggestions import suggesting
from nbgrad.utils import checkpoint as checkpoint

if not TYPE_CHECKING:  # a type checker would take every name for one that is here
    __getattr__ = suggesting(globals(), torch.utils)

"""The parts of ``torch.utils`` that nbgrad replaces, under torch's names. All other parts work as they are."""

from typing import TYPE_CHECKING

import torch

from nbgrad.core.suggestions import suggesting
from nbgrad.utils import checkpoint as checkpoint

if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker
    __getattr__ = suggesting(globals(), torch.utils)

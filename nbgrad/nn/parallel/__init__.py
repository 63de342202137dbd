"""Training in several processes, under the names of ``torch.nn.parallel``."""

from typing import TYPE_CHECKING

from nbgrad.core.suggestions import suggesting
from nbgrad.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())

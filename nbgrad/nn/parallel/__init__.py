"""Training in several processes, under the names of ``torch.nn.parallel``."""

from typing import TYPE_CHECKING

from nbgrad.core.suggestions import suggesting
from nbgrad.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

if not TYPE_CHECKING:  # a type checker would take every name for one that is here
    __getattr__ = suggesting(globals())

"""Where torch keeps its modules: ``module`` has the hooks of all of them, and the blocks are in ``nbgrad.nn``."""

from nbgrad.nn.modules import module as module
from nbgrad.nn.modules.module import Module as Module

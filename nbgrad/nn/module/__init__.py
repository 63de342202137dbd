"""``Module`` and the helpers that it calls, which do not import it. They import ``nn.parameter`` and the core."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

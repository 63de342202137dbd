"""``Module``, in files by topic. It imports ``nn.parameter`` and the core."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

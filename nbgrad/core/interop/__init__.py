"""torch's functions and numpy's arrays on our tensors. It imports ``graph``, ``functional`` and below."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

"""``Tensor``, its methods and its views. It imports ``engine`` and below."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

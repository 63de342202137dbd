"""Matrix products, decompositions and functions of matrices. It imports ``dispatch`` and below, and other ops."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

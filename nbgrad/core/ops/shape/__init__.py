"""Ops that move elements and compute nothing. It imports ``dispatch`` and below, and other ops."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

"""Gradients as functions: grad, jacobian, their products and checkpoint. It imports ``ops`` and below."""

from nbgrad.core.moved import formerly

__getattr__ = formerly(__name__)

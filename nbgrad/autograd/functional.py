"""Derivatives of functions, under the names of ``torch.autograd.functional``."""

from nbgrad.core.functional.jacobian import hessian, jacobian
from nbgrad.core.functional.products import hvp, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

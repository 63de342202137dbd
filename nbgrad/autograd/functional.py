"""Derivatives of functions, under the names of ``torch.autograd.functional``."""

from nbgrad.core.functional import hvp, jvp, vhp, vjp
from nbgrad.core.jacobian import hessian, jacobian

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

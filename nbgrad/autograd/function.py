"""Ops with a gradient written by hand, under the names of ``torch.autograd.function``."""

from nbgrad.core.dispatch.function import Context as FunctionCtx, Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

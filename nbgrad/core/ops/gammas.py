"""Numbers drawn from gamma and Dirichlet distributions, which move with what their distribution is made of.

Their gradient keeps the probability that a number is smaller: dy/dα = -(∂F(y; α)/∂α) / p(y; α), the implicit
reparametrization (Figurnov et al. 2018, https://arxiv.org/abs/1805.08498). What torch.distributions draws with.
"""

from sys import _getframe
from types import FrameType

import torch

from nbgrad.core.foreign import in_function
from nbgrad.core.function import Function, once_differentiable
from nbgrad.core.modes import current, enable_grad, no_grad
from nbgrad.core.tensor import Tensor


def _drawn(kernel, ctx, concentration, generator):
    """What ``kernel`` draws, saved with the concentrations for the backward."""
    drawn = Tensor(kernel(concentration.data, generator=generator))
    ctx.save_for_backward(concentration, drawn)
    return drawn


class StandardGamma(Function):
    """Draws from gamma distributions of rate 1."""

    @staticmethod
    def forward(ctx, concentration, generator):
        return _drawn(torch._standard_gamma, ctx, concentration, generator)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        concentration, drawn = ctx.saved_tensors
        return g * torch._standard_gamma_grad(concentration.data, drawn.data), None


class SampleDirichlet(Function):
    """Draws from Dirichlet distributions: positive numbers that add up to 1 along the last dimension."""

    @staticmethod
    def forward(ctx, concentration, generator):
        return _drawn(torch._sample_dirichlet, ctx, concentration, generator)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        concentration, drawn = (one.data for one in ctx.saved_tensors)
        total = concentration.sum(-1, True).expand_as(concentration)
        slopes = torch._dirichlet_grad(drawn, concentration, total)
        return slopes * (g - (drawn * g).sum(-1, True)), None


def standard_gamma(input, generator=None):
    """Numbers of the gamma distributions of rate 1 with these concentrations."""
    return StandardGamma.apply(input, generator)


def sample_dirichlet(input, generator=None):
    """Numbers of the Dirichlet distributions with the concentrations along the last dimension."""
    if not in_function():
        return SampleDirichlet.apply(input, generator)
    # torch's distribution draws in the forward of its own Function, where nothing is recorded: this is, for rsample().
    switched = no_grad() if _constant() else enable_grad()
    return switched(SampleDirichlet.apply)(input, generator)


def _constant():
    """Whether sample() of one of torch's distributions asks, or nothing is recorded anyway."""
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "sample" and frame.f_globals.get("__name__", "").startswith("torch.distributions"):
            return True
        frame = frame.f_back
    return not current().grad_enabled

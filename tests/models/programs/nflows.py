"""nflows."""

import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.nn.nets import ResidualNet
from nflows.transforms import (
    ActNorm,
    CompositeTransform,
    LULinear,
    MaskedAffineAutoregressiveTransform,
    PiecewiseRationalQuadraticCouplingTransform,
    RandomPermutation,
)

from tests.models.package import Package, Step

package = Package("nflows")


def density(*parts: torch.nn.Module) -> Step:
    """A density of four numbers."""
    x = torch.randn(5, 4)
    return Flow(CompositeTransform(list(parts)), StandardNormal([4])), lambda net: -net.log_prob(x).mean()


@package.step
def autoregressive() -> Step:
    return density(MaskedAffineAutoregressiveTransform(4, 8, num_blocks=1), RandomPermutation(4), ActNorm(4))


@package.step
def coupling() -> Step:
    return density(
        LULinear(4),
        PiecewiseRationalQuadraticCouplingTransform(
            torch.tensor([1, -1, 1, -1]),
            lambda before, after: ResidualNet(before, after, 8, num_blocks=1),
            num_bins=4,
            tails="linear",
        ),
    )

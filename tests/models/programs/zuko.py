"""zuko."""

import torch
import zuko

from tests.models.package import Package, Step

package = Package("zuko")


def density(flow: torch.nn.Module) -> Step:
    """A density of three numbers, given two others."""
    x, given = torch.randn(5, 3), torch.randn(5, 2)
    return flow, lambda net: -net(given).log_prob(x).mean()


@package.step
def spline_flow() -> Step:
    return density(zuko.flows.NSF(3, 2, transforms=2, bins=4, hidden_features=(8,)))


@package.step
def masked_flow() -> Step:
    return density(zuko.flows.MAF(3, 2, transforms=2, hidden_features=(8,)))


@package.step
def continuous_flow() -> Step:
    return density(zuko.flows.CNF(3, 2, hidden_features=(8,)))


@package.step
def mixture() -> Step:
    return density(zuko.mixtures.GMM(3, 2, components=2, hidden_features=(8,)))

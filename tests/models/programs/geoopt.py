"""geoopt."""

import geoopt
import torch
from torch import nn

from tests.models.package import Package, Step

package = Package("geoopt")


class Points(nn.Module):
    """Points in a hyperbolic ball, and a direction on a sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.ball = geoopt.PoincareBall()
        self.points = geoopt.ManifoldParameter(self.ball.expmap0(torch.randn(4, 2) / 3), manifold=self.ball)
        self.way = geoopt.ManifoldParameter(nn.functional.normalize(torch.randn(3), dim=0), manifold=geoopt.Sphere())

    def forward(self) -> torch.Tensor:
        return self.ball.dist(self.points[:2], self.points[2:]).square().sum() + self.way[0].exp()


@package.step
def hyperbolic() -> Step:
    return Points(), lambda net: net()


@package.training
def riemannian_adam() -> nn.Module:
    net = Points()
    optimizer = geoopt.optim.RiemannianAdam(net.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        net().backward()
        optimizer.step()
    return net

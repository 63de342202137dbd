"""torchsde."""

import torch
import torchsde
from torch import nn

from tests.models.package import Package, Step

package = Package("torchsde")


class Equation(nn.Module):
    """A stochastic differential equation with diagonal noise."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self) -> None:
        super().__init__()
        self.drift, self.spread = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.drift(y) + t

    def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.spread(y))


class Stratonovich(Equation):
    """The same in Stratonovich's sense."""

    sde_type = "stratonovich"


def _way() -> torchsde.BrownianInterval:
    return torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=1)


@package.step
def euler() -> Step:
    y, t = torch.randn(4, 3), torch.linspace(0.0, 1.0, 3)
    return Equation(), lambda net: torchsde.sdeint(net, y, t, bm=_way(), dt=0.1, method="euler").square().mean()


@package.step
def milstein() -> Step:
    y, t = torch.randn(4, 3), torch.linspace(0.0, 1.0, 3)
    return Equation(), lambda net: torchsde.sdeint(net, y, t, bm=_way(), dt=0.1, method="milstein").square().mean()


@package.step
def adjoint() -> Step:
    y, t = torch.randn(4, 3), torch.linspace(0.0, 1.0, 2)

    def loss(net: nn.Module) -> torch.Tensor:
        return torchsde.sdeint_adjoint(net, y, t, bm=_way(), dt=0.1, method="midpoint")[-1].square().mean()

    return Stratonovich(), loss

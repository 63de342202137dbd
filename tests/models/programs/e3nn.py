"""e3nn."""

import torch
from e3nn import nn as equivariant, o3
from torch import nn

from tests.models.package import Package, Step

package = Package("e3nn")


@package.step
def linear() -> Step:
    x = torch.randn(4, 7)
    return o3.Linear("4x0e + 1x1o", "2x0e + 2x1o"), lambda net: net(x).square().mean()


@package.step
def tensor_product() -> Step:
    net = o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o")
    x, y = torch.randn(3, 5), torch.randn(3, 4)
    return net, lambda net: net(x, y).square().mean()


@package.step
def gate() -> Step:
    net = equivariant.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
    before = o3.Linear("4x0e + 1x1o", net.irreps_in)
    x = torch.randn(4, 7)
    return nn.Sequential(before, net), lambda net: net(x).square().mean()


class Convolution(nn.Module):
    """A convolution over the neighbours in space."""

    def __init__(self) -> None:
        super().__init__()
        self.product = o3.FullyConnectedTensorProduct("2x0e", "1x0e + 1x1o", "2x0e + 1x1o", shared_weights=False)
        self.radial = equivariant.FullyConnectedNet([4, 8, self.product.weight_numel], torch.nn.functional.silu)

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        way = place[:, None] - place[None] + torch.eye(len(place))[..., None] * 0.5
        sphere = o3.spherical_harmonics("1x0e + 1x1o", way, True, normalization="component")
        length = way.norm(dim=-1, keepdim=True)
        weights = self.radial(torch.cat([length, length**2, length.sin(), length.cos()], -1))
        return self.product(x[None].expand(len(x), -1, -1), sphere, weights).mean(1)


@package.step
def convolution() -> Step:
    x, place = torch.randn(4, 2), torch.randn(4, 3)
    return Convolution(), lambda net: net(x, place).square().mean()

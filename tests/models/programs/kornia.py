"""kornia."""

from typing import Any

import kornia
import torch
from torch import nn

from tests.models.package import Package, Step

package = Package("kornia")


class Warp(nn.Module):
    """A homography that moves one picture onto another."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(3)[None] + 0.01 * torch.randn(1, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kornia.geometry.transform.warp_perspective(x, self.matrix, (16, 16))


@package.step
def homography() -> Step:
    x, y = torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16)
    return Warp(), lambda net: nn.functional.mse_loss(net(x), y)


class Filters(nn.Module):
    """Filters of a picture that a network made."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.net, self.function = nn.Conv2d(3, 3, 3, padding=1), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.net(x).sigmoid())


def filtered(function: Any) -> Step:
    """The loss of a network whose picture ``function`` filters."""
    x = torch.rand(1, 3, 12, 12)
    return Filters(function), lambda net: net(x).square().mean()


@package.step
def blur() -> Step:
    return filtered(lambda x: kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)))


@package.step
def edges() -> Step:
    return filtered(kornia.filters.sobel)


@package.step
def colours() -> Step:
    return filtered(kornia.color.rgb_to_lab)


@package.step
def hue() -> Step:
    return filtered(kornia.color.rgb_to_hsv)


@package.step
def structural_loss() -> Step:
    y = torch.rand(1, 3, 12, 12)
    return filtered(lambda x: kornia.losses.ssim_loss(x, y, 5))


class Rotation(nn.Module):
    """A rotation of points."""

    def __init__(self) -> None:
        super().__init__()
        self.axis = nn.Parameter(torch.tensor([[0.1, 0.2, 0.3]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        matrix = kornia.geometry.conversions.axis_angle_to_rotation_matrix(self.axis)
        turned = x @ matrix.transpose(1, 2)
        return kornia.geometry.conversions.convert_points_to_homogeneous(turned)


@package.step
def rotation() -> Step:
    x = torch.randn(1, 5, 3)
    return Rotation(), lambda net: (net(x)[..., :3] - x.flip(1)).square().mean()

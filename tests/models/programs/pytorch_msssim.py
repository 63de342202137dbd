"""pytorch-msssim."""

import torch
from pytorch_msssim import SSIM, ms_ssim
from torch import nn

from tests.models.package import Package, Step

package = Package("pytorch-msssim")


@package.step
def structure() -> Step:
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Sigmoid())
    x, loss = torch.rand(1, 1, 16, 16), SSIM(data_range=1.0, channel=1, win_size=5)
    return net, lambda net: 1 - loss(net(x), x)


@package.step
def structure_at_scales() -> Step:
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Sigmoid())
    x = torch.rand(1, 1, 64, 64)
    # Alike pictures: between others a contrast below 0 is clipped to 0, where the slope of a power is infinite.
    return net, lambda net: 1 - ms_ssim((x + net(x)) / 2, x, data_range=1.0, win_size=3)

"""lion-pytorch."""

import torch
from lion_pytorch import Lion
from torch import nn

from tests.models.package import Package

package = Package("lion-pytorch")


@package.training
def steps() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))
    optimizer, x = Lion(net.parameters(), 0.001, weight_decay=0.1), torch.randn(6, 4)
    for _ in range(3):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return net

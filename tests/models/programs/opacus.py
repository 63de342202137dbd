"""opacus."""

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.layers import DPLSTM, DPMultiheadAttention
from torch import nn

from tests.models.package import Package, Step

package = Package("opacus")


@package.training
def privacy() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    data = torch.utils.data.TensorDataset(torch.randn(12, 1, 8, 8), torch.arange(12) % 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=net,
        optimizer=optimizer,
        data_loader=torch.utils.data.DataLoader(data, 4),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


@package.step
def gradient_of_each_sample() -> Step:
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    net = GradSampleModule(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)))
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def lstm() -> Step:
    x = torch.randn(2, 5, 3)
    return DPLSTM(3, 4, batch_first=True), lambda net: net(x)[0].square().mean()


@package.step
def attention() -> Step:
    x = torch.randn(5, 2, 8)
    return DPMultiheadAttention(8, 2), lambda net: net(x, x, x)[0].square().mean()

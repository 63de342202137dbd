"""torchmetrics."""

import torch
from torch import nn
from torchmetrics.audio import ScaleInvariantSignalNoiseRatio
from torchmetrics.functional import pairwise_cosine_similarity
from torchmetrics.image import StructuralSimilarityIndexMeasure, TotalVariation
from torchmetrics.regression import MeanSquaredError, R2Score

from tests.models.package import Package, Step

package = Package("torchmetrics")


class Measured(nn.Module):
    """A network and the metric that is its loss."""

    def __init__(self, net: nn.Module, metric: nn.Module) -> None:
        super().__init__()
        self.net, self.metric = net, metric

    def forward(self, x: torch.Tensor, *target: torch.Tensor) -> torch.Tensor:
        return self.metric(self.net(x), *target)


@package.step
def structural_similarity() -> Step:
    x, y = torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16)
    net = Measured(nn.Conv2d(1, 1, 3, padding=1), StructuralSimilarityIndexMeasure(data_range=1.0, kernel_size=5))
    return net, lambda net: 1 - net(x, y)


@package.step
def total_variation() -> Step:
    x = torch.rand(1, 1, 8, 8)
    return Measured(nn.Conv2d(1, 1, 3, padding=1), TotalVariation()), lambda net: net(x)


@package.step
def signal_to_noise() -> Step:
    x, y = torch.randn(2, 1, 20), torch.randn(2, 1, 20)
    return Measured(nn.Conv1d(1, 1, 3, padding=1), ScaleInvariantSignalNoiseRatio()), lambda net: -net(x, y)


@package.step
def squared_error() -> Step:
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    return Measured(nn.Linear(3, 1), MeanSquaredError()), lambda net: net(x, y)


@package.step
def determination() -> Step:
    x, y = torch.randn(6, 3), torch.randn(6)
    net = Measured(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), R2Score())
    return net, lambda net: 1 - net(x, y)


@package.step
def cosine() -> Step:
    x = torch.randn(6, 3)
    return nn.Linear(3, 4), lambda net: pairwise_cosine_similarity(net(x)).square().mean()

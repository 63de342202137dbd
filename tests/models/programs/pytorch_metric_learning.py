"""pytorch-metric-learning."""

from typing import Any

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

from tests.models.package import Package, Step

package = Package("pytorch-metric-learning")


class Learner(nn.Module):
    """An embedding, its loss, and the miner that chooses pairs."""

    def __init__(self, loss: nn.Module, miner: Any = None) -> None:
        super().__init__()
        self.net, self.loss, self.miner = nn.Linear(4, 3), loss, miner

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        places = self.net(x)
        return self.loss(places, y, None if self.miner is None else self.miner(places, y))


def learned(net: nn.Module) -> Step:
    """The loss of eight examples of three classes."""
    x, y = torch.randn(8, 4), torch.arange(8) % 3
    return net, lambda net: net(x, y)


@package.step
def triplets() -> Step:
    return learned(Learner(losses.TripletMarginLoss(), miners.MultiSimilarityMiner()))


@package.step
def arcs() -> Step:
    return learned(Learner(losses.ArcFaceLoss(3, 3)))


@package.step
def contrast() -> Step:
    return learned(Learner(losses.NTXentLoss()))


@package.step
def proxies() -> Step:
    return learned(Learner(losses.ProxyAnchorLoss(3, 3)))

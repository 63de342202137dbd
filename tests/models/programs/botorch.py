"""botorch."""

from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
from botorch.models import SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import nn

from tests.models.package import Package, Step

package = Package("botorch")


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Six points and their values."""
    x = torch.rand(6, 2, dtype=torch.float64)
    return x, (6 * x).sin().sum(1, keepdim=True)


@package.step
def process() -> Step:
    x, y = data()

    def loss(net: Any) -> torch.Tensor:
        net.train()
        return -ExactMarginalLogLikelihood(net.likelihood, net)(net(*net.train_inputs), net.train_targets)

    return SingleTaskGP(x, y), loss


@package.step
def fidelities() -> Step:
    x, y = data()

    def loss(net: Any) -> torch.Tensor:
        net.train()
        return -ExactMarginalLogLikelihood(net.likelihood, net)(net(*net.train_inputs), net.train_targets)

    return SingleTaskMultiFidelityGP(x, y, data_fidelities=[1]), loss


class Candidates(nn.Module):
    """Points to try next."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.rand(2, 2, dtype=torch.float64))


@package.step
def improvement() -> Step:
    x, y = data()
    model = SingleTaskGP(x, y).eval()
    return Candidates(), lambda net: -LogExpectedImprovement(model, y.max())(net.points.unsqueeze(1)).sum()


@package.step
def improvement_of_samples() -> Step:
    x, y = data()
    model = SingleTaskGP(x, y).eval()
    sampler = SobolQMCNormalSampler(torch.Size([8]), seed=0)
    return Candidates(), lambda net: -qExpectedImprovement(model, y.max(), sampler)(net.points).sum()

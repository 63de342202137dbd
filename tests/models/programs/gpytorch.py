"""gpytorch."""

from typing import Any

import gpytorch
import torch
from torch import nn

from tests.models.package import Package, Step

package = Package("gpytorch")


class Process(gpytorch.models.ExactGP):
    """A Gaussian process with that kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, kernel: Any) -> None:
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean, self.kernel = gpytorch.means.ConstantMean(), kernel

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def exact(kernel: Any) -> Step:
    """A process that is fitted to six points."""
    x = torch.linspace(0, 1, 6).unsqueeze(1)
    y = torch.sin(6 * x[:, 0])

    def loss(net: Any) -> torch.Tensor:
        net.train()
        return -gpytorch.mlls.ExactMarginalLogLikelihood(net.likelihood, net)(net(x), y)

    return Process(x, y, kernel), loss


@package.step
def rbf() -> Step:
    return exact(gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()))


@package.step
def matern() -> Step:
    return exact(gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5)))


@package.step
def sum_of_kernels() -> Step:
    kernels = gpytorch.kernels
    return exact(kernels.LinearKernel() + kernels.ScaleKernel(kernels.PeriodicKernel()) * kernels.RQKernel())


class Deep(nn.Module):
    """A kernel on what a network makes of the points."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
        self.kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kernel(self.net(x)).to_dense()


@package.step
def deep_kernel() -> Step:
    x = torch.linspace(0, 1, 6).unsqueeze(1)
    return Deep(), lambda net: net(x).square().sum()


class Variational(gpytorch.models.ApproximateGP):
    """A process with three inducing points."""

    def __init__(self) -> None:
        points = torch.linspace(0, 1, 3).unsqueeze(1)
        spread = gpytorch.variational.CholeskyVariationalDistribution(3)
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, spread))
        self.mean, self.kernel = (
            gpytorch.means.ConstantMean(),
            gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()),
        )
        self.likelihood = gpytorch.likelihoods.BernoulliLikelihood()

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


@package.step
def variational() -> Step:
    x = torch.linspace(0, 1, 6).unsqueeze(1)
    y = (x[:, 0] > 0.5).float()
    return Variational(), lambda net: -gpytorch.mlls.VariationalELBO(net.likelihood, net, 6)(net(x), y)

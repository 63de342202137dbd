"""pyro-ppl."""

from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions.transforms import affine_autoregressive, conditional_spline
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn

from tests.models.package import Package, Step

package = Package("pyro-ppl")


class Regression(PyroModule):
    """A line with a prior on its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.line = PyroModule[nn.Linear](2, 1)
        self.line.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))
        self.spread = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        mean = self.line(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Normal(mean, self.spread.exp()), obs=y)
        return mean


class Inference(nn.Module):
    """A model and its guide."""

    def __init__(self, model: Any, guide: Any) -> None:
        super().__init__()
        self.model, self.guide = model, guide


@package.step
def regression() -> Step:
    pyro.clear_param_store()
    x, y = torch.randn(5, 2), torch.randn(5)
    net = Inference(model := Regression(), AutoDiagonalNormal(model))
    net.guide(x, y)  # it makes its parameters at its first call
    return net, lambda net: Trace_ELBO().differentiable_loss(net.model, net.guide, x, y)


class Encoder(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards, self.outwards = nn.Linear(6, 4), nn.Linear(2, 6)

    def model(self, x: torch.Tensor) -> None:
        pyro.module("outwards", self.outwards)
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", dist.Normal(torch.zeros(len(x), 2), 1.0).to_event(1))
            pyro.sample("x", dist.Bernoulli(logits=self.outwards(z)).to_event(1), obs=x)

    def guide(self, x: torch.Tensor) -> None:
        pyro.module("inwards", self.inwards)
        with pyro.plate("data", len(x)):
            mean, spread = self.inwards(x).chunk(2, -1)
            pyro.sample("z", dist.Normal(mean, spread.exp()).to_event(1))


@package.step
def autoencoder() -> Step:
    pyro.clear_param_store()
    x = torch.randint(0, 2, (4, 6)).float()
    return Encoder(), lambda net: Trace_ELBO().differentiable_loss(net.model, net.guide, x)


@package.step
def autoregressive_flow() -> Step:
    x = torch.randn(5, 3)
    flow = affine_autoregressive(3, [8])

    def loss(net: Any) -> torch.Tensor:
        return -dist.TransformedDistribution(dist.Normal(torch.zeros(3), 1.0).to_event(1), [net]).log_prob(x).mean()

    return flow, loss


@package.step
def spline_flow() -> Step:
    x, given = torch.randn(5, 2) / 3, torch.randn(5, 3)
    flow = conditional_spline(2, 3, hidden_dims=[8], count_bins=4)

    def loss(net: Any) -> torch.Tensor:
        base = dist.Normal(torch.zeros(2), 1.0).to_event(1)
        return -dist.ConditionalTransformedDistribution(base, [net]).condition(given).log_prob(x).mean()

    return flow, loss


@package.training
def inference() -> nn.Module:
    pyro.clear_param_store()
    x, y = torch.randn(5, 2), torch.randn(5)
    model = Regression()
    guide = AutoMultivariateNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    for _ in range(3):
        svi.step(x, y)
    net = Inference(model, guide)
    pyro.clear_param_store()  # it would keep the parameters
    return net

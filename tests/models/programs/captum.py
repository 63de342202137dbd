"""captum."""

from typing import Any

import torch
from captum.attr import DeepLift, GradientShap, IntegratedGradients, LayerGradCam, Saliency
from torch import nn

from tests.models.package import Package, Step

package = Package("captum")


def net() -> nn.Module:
    """A small network of pictures."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 3)
    )


def explained(method: Any, **more: Any) -> Step:
    """The loss of the network on inputs that are weighted by their attributions."""
    x = torch.randn(2, 1, 8, 8)

    def loss(net: Any) -> torch.Tensor:
        found = method(net).attribute(x.requires_grad_(), target=1, **more)
        return net(x * found.detach()).square().mean() + found.square().mean()

    return net(), loss


@package.step
def saliency() -> Step:
    return explained(Saliency)


@package.step
def integrated_gradients() -> Step:
    return explained(IntegratedGradients, n_steps=5)


@package.step
def deep_lift() -> Step:
    return explained(DeepLift)


@package.step
def gradient_shap() -> Step:
    return explained(GradientShap, baselines=torch.zeros(2, 1, 8, 8), n_samples=3)


@package.step
def grad_cam() -> Step:
    x = torch.randn(2, 1, 8, 8)

    def loss(net: Any) -> torch.Tensor:
        found = LayerGradCam(net, net[0]).attribute(x, target=1)
        return net(x).square().mean() + found.detach().mean()

    return net(), loss

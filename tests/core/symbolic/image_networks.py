"""Random networks of images: convolutions with what stands between them."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad import nn


class Network(nn.Module):
    """A chain of layers and a linear layer at its end. Some layers have a skip connection."""

    def __init__(self, layers: list[Any], besides: set[int], image: Any) -> None:
        super().__init__()
        self.layers, self.besides = nn.ModuleList(layers), besides
        self.last = nn.Linear(self.images(image).flatten(1).shape[1], 4)

    def images(self, x: Any) -> Any:
        """The output of the chain."""
        for place, layer in enumerate(self.layers):
            made = layer(x)
            x = made + x if place in self.besides and made.shape == x.shape else made
        return x

    def forward(self, x: Any) -> Any:
        return self.last(self.images(x).flatten(1))


def drawn(random: Random) -> tuple[Network, torch.Tensor, bool]:
    """A network, images for it, and whether the images require a gradient."""
    torch.manual_seed(random.randrange(2**31))
    channels, size = random.choice((1, 3, 4, 8)), random.choice((5, 8, 12))
    x = torch.randn(random.choice((2, 3, 5)), channels, size, size)
    layers: list[Any] = []
    besides: set[int] = set()
    for _ in range(random.randint(1, 5)):
        wide = random.choice((4, 8, 16))
        kernel = random.choice((1, 3))
        layers.append(
            nn.Conv2d(
                channels, wide, kernel, stride=random.choice((1, 1, 2)), padding=kernel // 2, bias=random.random() < 0.7
            )
        )
        channels = wide
        layers += [_between(random, channels) for _ in range(random.randint(0, 3))]
        if random.random() < 0.3:
            besides.add(len(layers) - 1)
    return Network(layers, besides, nbgrad.tensor(x)), x, random.random() < 0.3


def _between(random: Random, channels: int) -> Any:
    choices: list[Callable[[], Any]] = [
        nn.ReLU,
        nn.ReLU,
        nn.Tanh,
        nn.Sigmoid,
        nn.GELU,
        lambda: nn.LeakyReLU(0.1),
        lambda: nn.BatchNorm2d(channels),
        lambda: nn.BatchNorm2d(channels),
        lambda: nn.MaxPool2d(3, 1, 1),
        lambda: nn.MaxPool2d(2, 1, 1),
        lambda: nn.AvgPool2d(3, 1, 1),
        lambda: nn.GroupNorm(2, channels),
        lambda: nn.Dropout(0.5),
    ]
    return random.choice(choices)()


def step_of(network: Network, images_too: bool) -> Callable[[Any], Any]:
    """A training step that keeps its gradients. It returns the loss and the images at the end of the chain."""
    optimizer = nbgrad.optim.SGD(network.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        images = network.images(x)
        loss = network.last(images.flatten(1)).square().mean()
        loss.backward()
        optimizer.step()
        return (loss, images.detach()) if images_too else loss

    return step

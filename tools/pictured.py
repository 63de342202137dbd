"""The graphs that the documentation shows: as pictures in docs/images, and alive in the site."""

from collections.abc import Callable

import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description


class Block(nn.Module):
    """Two layers and a skip connection around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        """Add the input to the output of the two layers."""
        through: nbgrad.Tensor = self.back(self.wide(x).tanh())
        return x + through


def first() -> Description:
    """The first graph of the tour."""
    a = nbgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    b = nbgrad.tensor([[2.0, 0.5, 1.0], [1.0, 3.0, 2.0]])
    c = nbgrad.tensor([0.1, 0.2, 0.3], requires_grad=True)
    with AutogradGraph("a * b + c") as graph:
        y = a * b + c
        loss = y.sum()
        loss.backward()
    return describe(graph)


class TorchBlock(torch.nn.Module):
    """The block of a residual network, as people write it for torch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two convolutions and a skip connection around them."""
        through = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(through)) + x)


class TorchNet(torch.nn.Module):
    """A small residual network of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(*[TorchBlock(8) for _ in range(3)])
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores of ten classes."""
        scores: torch.Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return scores


def own_model() -> Description:
    """A step of a network in plain torch, recorded as it is."""
    torch.manual_seed(0)
    net = TorchNet()
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    with AutogradGraph("a residual network of torch") as graph:
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
    return describe(graph)


def trained(steps: int, blocks: int, *, adam: bool = False) -> Description:
    """A residual network after ``steps`` steps. The second half of the steps has a tenth of the learning rate."""
    nbgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), *[Block(8) for _ in range(blocks)], nn.Linear(8, 3))
    points = torch.randn(256, 4)
    targets = (points @ torch.randn(4, 3)).argmax(1)
    optimizer = nbgrad.optim.Adam(net.parameters(), lr=0.01) if adam else nbgrad.optim.SGD(net.parameters(), lr=0.3)
    schedule = nbgrad.optim.lr_scheduler.StepLR(optimizer, max(1, steps // 2))
    with AutogradGraph("a residual network") as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            batch = torch.randint(0, 256, (16,))
            x, target = nbgrad.tensor(points[batch]), nbgrad.tensor(targets[batch])
            loss = functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            schedule.step()
    return describe(graph)


PICTURED: dict[str, Callable[[], Description]] = {
    "first_graph": first,
    "own_model": own_model,
    "steps": lambda: trained(1, 1),
    "history": lambda: trained(12, 3),
    "updates": lambda: trained(400, 1, adam=True),
}
"""The function that makes the graph of each picture of docs/images, by its name."""

"""Real graphs that the drawings are tested with, each with something to see."""

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description, Scope


def texts(graph: nbgrad.AutogradGraph) -> list[str]:
    """The texts of the findings in the picture of a graph."""
    return [problem["text"] for problem in describe(graph)["problems"]]


class Block(nn.Module):
    """A residual block with a fan-out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return x + self.back(self.wide(x).tanh())


def trained(steps: int = 12, blocks: int = 3) -> Description:
    """A few steps of training of a residual network that reads points."""
    net = nn.Sequential(nn.Linear(4, 8), *[Block(8) for _ in range(blocks)], nn.Linear(8, 3))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.3)
    points, targets = torch.randn(16, 4), torch.randint(0, 3, (16,))
    with nbgrad.AutogradGraph("a residual network") as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            x, target = nbgrad.tensor(points), nbgrad.tensor(targets)
            loss = functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
    return describe(graph)


class Tied(nn.Module):
    """One weight, which is read so often that it is drawn beside each of its readers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        for _ in range(7):
            x = (x * self.weight).tanh()
        return x


def tied(steps: int = 3) -> Description:
    """A few steps of training of a ``Tied`` module."""
    net = Tied()
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.3)
    with nbgrad.AutogradGraph("tied") as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = net(nbgrad.tensor(torch.arange(4.0))).square().mean()
            loss.backward()
            optimizer.step()
    return describe(graph)


def recurrent(steps: int = 8) -> Description:
    """A recurrent cell that is called for each input in turn. Each input is made just before its call."""
    cell = nn.RNNCell(3, 4)
    with nbgrad.AutogradGraph("recurrent") as graph:
        state = nbgrad.tensor(torch.zeros(2, 4))
        for _ in range(steps):
            state = cell(nbgrad.tensor(torch.ones(2, 3)), state)
        state.sum().backward()
    return describe(graph)


def unwatched() -> Description:
    """A backward of which no gradient was kept, with one input that needs none."""
    with nbgrad.AutogradGraph("unwatched", watch=False) as graph:
        a, b = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor([3.0, 4.0])
        (a * b).sum().backward()
    return describe(graph)


def descent() -> Description:
    """Three backwards of a loss that reads one number. The gradient of this number is always the same."""
    w = nbgrad.tensor(2.0, requires_grad=True)
    with nbgrad.AutogradGraph("descent") as graph:
        for _ in range(3):
            w.grad = None
            loss = w * 3
            loss.backward()
            w.data -= 0.1 * w.grad.data
    return describe(graph)


def shared(uses: int) -> Description:
    """A number that ``uses`` ops read, each with another gradient."""
    x = nbgrad.tensor(2.0, requires_grad=True)
    with nbgrad.AutogradGraph("shared") as graph:
        y = x * 1
        for factor in range(2, uses + 1):
            y = y + x * factor
        y.backward()
    return describe(graph)


class Wordy(nn.Module):
    """A module whose parts have long names."""

    def __init__(self) -> None:
        super().__init__()
        self.the_first_of_all_convolutions_of_this_network = nn.Conv2d(12, 4, 3)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return self.the_first_of_all_convolutions_of_this_network(x)


def wordy() -> Description:
    """Long names, long shapes and long numbers."""
    x = nbgrad.tensor(torch.randn(16, 12, 14, 14), requires_grad=True)
    bias_of_every_channel = nbgrad.tensor(torch.randn(1, 12, 1, 1), requires_grad=True)
    with nbgrad.AutogradGraph("wordy") as graph:
        scaled_by_a_number_that_makes_it_small = (x + bias_of_every_channel) * 1.2345e-30
        Wordy()(scaled_by_a_number_that_makes_it_small).sum().backward()
    return describe(graph)


def large() -> Description:
    """A parameter whose numbers are too many for a picture."""
    with nbgrad.AutogradGraph("large") as graph:
        w = nbgrad.tensor(torch.randn(40, 40), requires_grad=True)
        (w * 2).sum().backward()
    return describe(graph)


def unpaired() -> Description:
    """Predictions of shape (N, 1) against targets of shape (N,)."""
    with nbgrad.AutogradGraph("unpaired") as graph:
        predicted = nbgrad.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
        target = nbgrad.tensor([1.0, 2.0, 4.0])
        with pytest.warns(UserWarning, match="every element of one meets every element"):
            loss = ((predicted - target) ** 2).mean()
        loss.backward()
        return describe(graph)


def vanishing(blocks: int = 6) -> Description:
    """A chain of sigmoids, whose first blocks hardly learn."""
    net = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()) for _ in range(blocks)])
    for name, weight in net.named_parameters():
        if name.endswith("weight"):
            nn.init.constant_(weight, 0.01)
    with nbgrad.AutogradGraph("vanishing") as graph:
        net(nbgrad.tensor(torch.ones(2, 3))).sum().backward()
    return describe(graph)


def broken() -> Description:
    """A NaN with its cause, and a parameter that nothing reaches."""
    with nbgrad.AutogradGraph("broken") as graph:
        x = nbgrad.tensor([1.0, -1.0], requires_grad=True)
        unused = nbgrad.tensor([1.0], requires_grad=True)
        aside = unused * 3
        loss = (x.log() * 2).sum()
        loss.backward()
        assert aside.requires_grad
        return describe(graph)


def ended(graph: nbgrad.AutogradGraph, error: BaseException) -> Description:
    """The description of a graph that an error ended."""
    graph.raised(error)
    return describe(graph)


def stopped() -> Description:
    """A product of shapes that do not fit, after what had run until then."""
    with nbgrad.AutogradGraph("stopped") as graph:
        x = nbgrad.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
        w = nbgrad.tensor([[1.0], [2.0]], requires_grad=True)
        h = x.tanh()
        try:
            h @ w
        except RuntimeError as error:
            return ended(graph, error)
    raise AssertionError("the shapes must not fit")


def changed() -> Description:
    """A backward that stops where a value was changed in place."""
    with nbgrad.AutogradGraph("changed") as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        z = y * y
        y.add_(1.0)
        try:
            z.sum().backward()
        except RuntimeError as error:
            return ended(graph, error)
    raise AssertionError("the change must be noticed")


def frame(name: str, label: str, parent: str | None = None, folds: str = "", like: str | None = None) -> Scope:
    """A scope with the id ``name``; ``like`` says what it shares with others like it, if that is not the label."""
    return Scope(
        id=name,
        kind="part",
        name=label,
        like=like or label,
        label=label,
        full="",
        parent=parent,
        folds=folds,
        op=None,
        bytes=0,
        variant=0,
    )

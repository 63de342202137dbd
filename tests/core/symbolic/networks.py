"""Small networks and training steps, each as a function with its arguments, for tests of programs."""

from collections.abc import Callable
from typing import Any

import torch

import nbgrad
from nbgrad import nn

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _data(*shape: int) -> nbgrad.Tensor:
    return nbgrad.tensor(torch.randn(*shape))


def _classes(*shape: int, below: int = 3) -> nbgrad.Tensor:
    return nbgrad.tensor(torch.randint(0, below, shape))


def _loss(net: nn.Module, of: Callable[[Any], Any] = lambda found: found) -> Callable[[Any, Any], Any]:
    def loss(x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(of(net(x)), y)

    return loss


def mlp() -> Case:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    return _loss(net), (_data(5, 4), _classes(5))


def cnn() -> Case:
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3)),
        *(nn.Flatten(), nn.Linear(4 * 3 * 3, 3)),
    )
    return _loss(net), (_data(5, 1, 8, 8), _classes(5))


def lstm() -> Case:
    net = nn.LSTM(4, 3, num_layers=2, batch_first=True)
    return _loss(net, lambda found: found[0][:, -1]), (_data(5, 6, 4), _classes(5))


def transformer() -> Case:
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return _loss(net, lambda found: found.mean(1)), (_data(3, 5, 8), _classes(3, below=8))


def embedding() -> Case:
    net = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7))
    return _loss(net, lambda found: found.flatten(0, 1)), (_classes(3, 5, below=7), _classes(15, below=7))


def arithmetic() -> Case:
    w, scale = nbgrad.tensor(torch.randn(4, 4), requires_grad=True), torch.tensor(0.5)

    def loss(x: Any) -> Any:
        h = 2 - x @ w
        h = (h[:, 1:] * scale + h[..., None, :3].squeeze(1)) ** 2 / 3
        h[0] = 1.0
        parts = {"sum": h.sum(), "parts": [h.T, -h]}
        return parts["sum"], parts

    return loss, (_data(5, 4),)


def _stepped(case: Case, optimizer: Callable[[Any], Any]) -> Case:
    loss, args = case
    net = next(cell.cell_contents for cell in loss.__closure__ or () if isinstance(cell.cell_contents, nn.Module))
    stepper = optimizer(net.parameters())

    def step(x: Any, y: Any) -> Any:
        stepper.zero_grad()
        found = loss(x, y)
        found.backward()
        stepper.step()
        return found

    step(*args)  # the optimizer makes its state
    return step, args


def sgd() -> Case:
    return _stepped(mlp(), lambda params: nbgrad.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01))


def adam() -> Case:
    return _stepped(cnn(), lambda params: nbgrad.optim.Adam(params, lr=0.01))


LOSSES = (mlp, cnn, lstm, transformer, embedding, arithmetic)
STEPS = (sgd, adam)

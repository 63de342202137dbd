"""A whole training step of networks that are more than a chain of layers, in torch's words, which are nbgrad's too."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import nbgrad
from benchmarks.case import Case
from benchmarks.timing import Contender

RATE = 0.01
WORDS = "the network is written with torch's layers, which it does not have"
PEERS = ("autograd", "mygrad", "micrograd", "tinygrad", "jax", "jax.jit")


class Step:
    """A step of gradient descent; the model has the same weights whatever library it is of."""

    def __init__(self, library: Any, model: Any, loss: Callable[[Any], Any]) -> None:
        random = torch.Generator().manual_seed(0)
        for held in model.state_dict().values():
            torch.from_numpy(held.numpy()).uniform_(-0.1, 0.1, generator=random)
        self._model = model
        self._loss = loss
        self._optimizer = library.optim.SGD(model.parameters(), lr=RATE)

    def zero_grad(self) -> None:
        """Drop the gradients of the last step."""
        self._optimizer.zero_grad()

    def forward(self) -> Any:
        """The loss, and all that its backward needs."""
        return self._loss(self._model)

    def __call__(self) -> Any:
        self.zero_grad()
        loss = self.forward()
        loss.backward()
        self._optimizer.step()
        return loss


def cnn(library: Any) -> Step:
    """Two convolutions, 1-16-32 channels on 28 x 28 pixels, and a linear layer, on a batch of 32."""
    nn = library.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )
    torch.manual_seed(0)
    x, target = library.tensor(torch.randn(32, 1, 28, 28).numpy()), library.tensor(torch.randint(0, 10, (32,)).numpy())
    return Step(library, model, lambda model: nn.functional.cross_entropy(model(x), target))


def transformer(library: Any) -> Step:
    """Two encoder layers of 128 features and 4 heads on 8 sequences of 64."""
    nn = library.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    torch.manual_seed(0)
    x = library.tensor(torch.randn(8, 64, 128).numpy())
    return Step(library, model, lambda model: model(x).square().mean())


def lstm(library: Any) -> Step:
    """Two layers of 128 units over 100 steps of 16 sequences."""
    nn = library.nn
    model = nn.LSTM(128, 128, 2)
    torch.manual_seed(0)
    x = library.tensor(torch.randn(100, 16, 128).numpy())
    return Step(library, model, lambda model: model(x)[0].square().mean())


NETWORKS = {
    "cnn": (cnn, "CNN 1-16-32 on 28 x 28, batch 32: zero_grad, forward, cross entropy, backward, SGD step"),
    "transformer": (transformer, "2-layer transformer encoder, d 128, sequence 64, batch 8: a whole step"),
    "lstm": (lstm, "LSTM 2 x 128, 100 steps, batch 16: a whole step"),
}


def stepping(make: Callable[[Any], Step], library: Any) -> Contender:
    """A contender that takes a step each time."""
    step = make(library)
    return Contender(lambda _: step())


for name, (make, title) in NETWORKS.items():
    case = Case(name, title, tolerance=1e-3)
    case.contenders |= {"torch": partial(stepping, make, torch), "nbgrad": partial(stepping, make, nbgrad)}
    case.absent |= dict.fromkeys(PEERS, WORDS)

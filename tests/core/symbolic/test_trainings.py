"""Whole trainings on real data, compiled and without: MLP, CNN, LSTM and a small GPT have the same losses."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.nest import interpreter

TEXT = torch.tensor(list(b"the gradient of a sum is the sum of the gradients, and a path is a product. " * 40)) % 64
STEPS, BATCH = 40, 32

Net = Callable[[], nn.Module]


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images of digits and their labels. The import takes two seconds."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32) / 16, torch.tensor(found.target)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 4 * 4, 10)),
    )


class Reader(nn.Module):
    """An LSTM that reads an image row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


class GPT(nn.Module):
    """A small transformer that predicts the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, 32), nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 64)
        self.register_buffer("mask", torch.full((16, 16), -torch.inf).triu(1))
        self.register_buffer("at", torch.arange(16))

    def forward(self, x: Any) -> Any:
        found = self.blocks(self.tokens(x) + self.places(self.at), mask=self.mask)
        return self.head(found).flatten(0, 1)


def batch(kind: Net, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.randint(0, 1500, (BATCH,), generator=torch.Generator().manual_seed(number))
    if kind is GPT:
        x = torch.stack([TEXT[one : one + 17] for one in at.tolist()])
        return x[:, :-1], x[:, 1:].flatten()
    images, labels = digits()
    return images[at], labels[at]


def losses(make: Net, optimizer: str, how: dict[str, Any] | None) -> list[float]:
    """The losses of a training with a schedule; ``how`` has the settings of compile()."""
    torch.manual_seed(0)
    net = make()
    opt = getattr(nbgrad.optim, optimizer)(
        net.parameters(), lr=0.1 if optimizer == "SGD" else 0.01, **({"momentum": 0.9} if optimizer == "SGD" else {})
    )
    schedule = nbgrad.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    run = step if how is None else nbgrad.compile(step, **how)
    torch.manual_seed(1)
    found = []
    for number in range(STEPS):
        x, y = map(nbgrad.tensor, batch(make, number))
        found.append(float(run(x, y)))
        schedule.step()
    return found


@pytest.mark.rotated(6)
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("make", [mlp, cnn, Reader, GPT], ids=["MLP", "CNN", "LSTM", "GPT"])
def test_a_compiled_training_has_the_same_losses(make: Net, optimizer: str) -> None:
    expected = losses(make, optimizer, None)
    assert min(expected[-5:]) < 0.99 * expected[0], "it learns"
    # Adam's fused kernel adds in another order than the one that runs without a program.
    most = 0.0 if optimizer == "SGD" else 1e-4
    assert losses(make, optimizer, {"backend": "replay"}) == pytest.approx(expected, rel=most, abs=0)
    if interpreter.available():
        found = losses(make, optimizer, {"backend": "fused", "level": "reassociate"})
        assert found == pytest.approx(expected, rel=2e-3)

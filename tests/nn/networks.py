"""Networks as users write them, the same lines for torch and for nbgrad: with data, loss, optimizer and schedule."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice, pairwise
from math import log
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import nbgrad

Pair = tuple[torch.Tensor, torch.Tensor]


def cross_entropy(functional: Any, out: Any, target: Any) -> Any:
    return functional.cross_entropy(out.flatten(0, -2), target.flatten())


def squares(functional: Any, out: Any, target: Any) -> Any:
    return functional.mse_loss(out, target)


@dataclass(frozen=True)
class Task:
    """A training: its data, its network and its settings.

    Attributes:
        make: the network, of torch's or nbgrad's ``nn``; its first values come from torch's seed.
        data: inputs and targets to learn from, and to judge by.
        steps: how many steps are made.
        optimizer: makes it from the library's ``optim`` and the parameters.
        rate: the largest learning rate of the schedule.
        batch: how many examples a step sees.
        loss: gets the library's functions, the output and the target.
    """

    make: Callable[[Any], Any]
    data: Callable[[], tuple[Pair, Pair]]
    steps: int
    optimizer: Callable[[Any, Any], Any]
    rate: float
    batch: int = 32
    loss: Callable[[Any, Any, Any], Any] = cross_entropy

    def batches(self) -> Iterator[Pair]:
        """The same batches in the same order, whoever asks."""
        order = torch.Generator().manual_seed(1)
        train, _ = self.data()
        loader = DataLoader(TensorDataset(*train), self.batch, shuffle=True, drop_last=True, generator=order)
        return (tuple(pair) for epoch in cycle([loader]) for pair in epoch)


class Training:
    """A network of ``lib``, torch or nbgrad, while it learns a task."""

    def __init__(self, lib: Any, task: Task) -> None:
        self.lib, self.task = lib, task
        torch.manual_seed(0)
        self.model = task.make(lib.nn)
        self.optimizer = task.optimizer(lib.optim, self.model.parameters())
        self.schedule = lib.optim.lr_scheduler.OneCycleLR(self.optimizer, task.rate, total_steps=task.steps)

    def losses(self, steps: int) -> list[float]:
        """The losses of the first steps."""
        torch.manual_seed(1)  # for dropout
        return [self.step(*pair) for pair in islice(self.task.batches(), steps)]

    def step(self, x: Any, target: Any) -> float:
        self.optimizer.zero_grad()
        loss = self.task.loss(self.lib.nn.functional, self.model(self.own(x)), self.own(target))
        loss.backward()
        self.lib.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss.item()

    def own(self, batch: torch.Tensor) -> Any:
        return nbgrad.tensor(batch) if self.lib is nbgrad else batch

    def judged(self) -> tuple[float, Any]:
        """The loss on the held-out data, and the output for these data as a torch tensor."""
        _, (x, target) = self.task.data()
        self.model.eval()
        with self.lib.no_grad():
            out = self.model(self.own(x))
            loss = self.task.loss(self.lib.nn.functional, out, self.own(target))
        return loss.item(), out.data


def adamw(optim: Any, parameters: Any) -> Any:
    return optim.AdamW(parameters, weight_decay=0.01)


def nesterov(optim: Any, parameters: Any) -> Any:
    return optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)


# Digits: 1,797 images of 8 x 8 grey values, a quarter of them held out.


@cache
def digits() -> tuple[Pair, Pair]:
    from sklearn.datasets import load_digits  # takes two seconds

    found = load_digits()
    images = torch.tensor(found.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(found.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    held, train = order[: len(order) // 4], order[len(order) // 4 :]
    return (images[train], labels[train]), (images[held], labels[held])


@cache
def noisy_digits() -> tuple[Pair, Pair]:
    """Images with noise, and what they were."""
    noise = torch.Generator().manual_seed(2)

    def dimmed(images: torch.Tensor) -> Pair:
        return images + 0.3 * torch.randn(images.shape, generator=noise), images

    (train, _), (held, _) = digits()
    return dimmed(train.flatten(1)), dimmed(held.flatten(1))


def mlp(nn: Any) -> Any:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def normed(nn: Any, channels: int, out: int) -> Any:
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


def cnn(nn: Any) -> Any:
    body = [normed(nn, 1, 16), normed(nn, 16, 32), nn.MaxPool2d(2), nn.Dropout(0.2)]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(512, 10))


class Residual(torch.nn.Module):
    """``nbgrad.nn.Residual`` in torch."""

    def __init__(self, body: Any, shortcut: Any = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or torch.nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.shortcut(x) + self.body(x)


def weighed(nn: Any, channels: int, between: int) -> Any:
    class SqueezeExcitation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.excite = nn.Sequential(
                nn.Linear(channels, between), nn.ReLU(), nn.Linear(between, channels), nn.Sigmoid()
            )

        def forward(self, x: Any) -> Any:
            return x * self.excite(x.mean((2, 3)))[:, :, None, None]

    return SqueezeExcitation()


def dense(nn: Any, count: int, channels: int, growth: int) -> Any:
    def layer(channels: int) -> Any:
        return nn.Sequential(
            OrderedDict([
                ("norm1", nn.BatchNorm2d(channels)), ("relu1", nn.ReLU()),
                ("conv1", nn.Conv2d(channels, 4 * growth, 1, bias=False)),
                ("norm2", nn.BatchNorm2d(4 * growth)), ("relu2", nn.ReLU()),
                ("conv2", nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)),
            ])
        )  # fmt: skip

    class DenseBlock(nn.ModuleDict):
        def forward(self, x: Any) -> Any:
            features = [x]
            for one in self.values():
                features.append(one(torch.cat(features, 1)))
            return torch.cat(features, 1)

    return DenseBlock({f"denselayer{at + 1}": layer(channels + at * growth) for at in range(count)})


def resnet(nn: Any) -> Any:
    """Residual block, squeeze-and-excitation, dense block, transition."""
    skip = (nn.Residual if nn is nbgrad.nn else Residual)(nn.Sequential(normed(nn, 16, 16), normed(nn, 16, 16)))
    between = [nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 24, 1, bias=False), nn.AvgPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)]
    return nn.Sequential(normed(nn, 1, 16), skip, weighed(nn, 16, 4), dense(nn, 2, 16, 8), *between, *head)


def autoencoder(nn: Any) -> Any:
    sizes = (64, 64, 24, 64, 64)
    layers = [block for a, b in pairwise(sizes) for block in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1], nn.Sigmoid())


# Text: nbgrad's own pages, character by character.

LENGTH = 48
PAGES = Path(__file__).parents[2] / "docs"


@cache
def text() -> tuple[str, list[str]]:
    """The pages that people wrote, and the characters in them."""
    pages = [page.read_text("utf-8") for page in sorted(PAGES.glob("*.md"))]
    joined = "".join(page for page in pages if "Written by tools/write.py" not in page)
    return joined, sorted(set(joined))


@cache
def pieces() -> tuple[Pair, Pair]:
    """Pieces of the text, each with the characters that follow. The last of every ten in a row is held out."""
    joined, characters = text()
    numbers = {character: number for number, character in enumerate(characters)}
    every = torch.tensor([numbers[character] for character in joined]).unfold(0, LENGTH + 1, LENGTH // 4)
    # Neighbouring pieces share characters. So the pieces next to a held-out piece are not used at all.
    place = torch.arange(len(every)) % 40
    train, held = every[place < 32], every[place == 36]
    return (train[:, :-1], train[:, 1:]), (held[:, :-1], held[:, 1:])


def loss_by_pairs() -> float:
    """The loss of guessing each held-out character from the one before it, with pairs counted in the training text."""
    (x, y), (held, following) = pieces()
    count = len(text()[1])
    pairs, singles = (
        Counter(zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)),
        Counter(x.flatten().tolist()),
    )
    guessed = zip(held.flatten().tolist(), following.flatten().tolist(), strict=True)
    logs = [log((pairs[a, b] + 0.1) / (singles[a] + 0.1 * count)) for a, b in guessed]
    return -sum(logs) / len(logs)


def reader(nn: Any) -> Any:
    class Reader(nn.Module):
        """A character LSTM."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(text()[1]), 32)
            self.lstm = nn.LSTM(32, 128, batch_first=True)
            self.head = nn.Linear(128, len(text()[1]))

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embedding(x))[0])

    return Reader()


def gpt(nn: Any) -> Any:
    class GPT(nn.Module):
        """Embeddings of characters and of places, and blocks with the norm first."""

        def __init__(self, features: int = 64) -> None:
            super().__init__()
            self.token = nn.Embedding(len(text()[1]), features)
            self.place = nn.Embedding(LENGTH, features)
            settings = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
            layer = nn.TransformerEncoderLayer(features, 4, 2 * features, **settings)
            self.blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(features), enable_nested_tensor=False)
            self.head = nn.Linear(features, len(text()[1]))

        def forward(self, x: Any) -> Any:
            x = self.token(x) + self.place.weight
            mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
            return self.head(self.blocks(x, mask=mask, is_causal=True))

    return GPT()


TASKS = {
    "mlp": Task(mlp, digits, 840, adamw, 4e-3),
    "cnn": Task(cnn, digits, 336, adamw, 6e-3),
    "resnet": Task(resnet, digits, 336, nesterov, 0.2),
    "autoencoder": Task(autoencoder, noisy_digits, 840, adamw, 8e-3, loss=squares),
    "lstm": Task(reader, pieces, 300, adamw, 1e-2),
    "gpt": Task(gpt, pieces, 400, adamw, 1e-2, batch=16),
}

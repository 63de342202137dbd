"""Training as it should be has no findings, wherever a cell ends."""

from collections.abc import Callable, Iterator
from itertools import islice

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe

Loop = Iterator[str]
"""A loop of training, which says where it is: after a forward, a backward or a step."""


def mlp(steps: int = 2) -> Loop:
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    x = nbgrad.randn(64, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), x.sum(1, keepdim=True))
        yield "forward"
        loss.backward()
        yield "backward"
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield "step"
    net.eval()
    with nbgrad.no_grad():
        assert functional.mse_loss(net(x), x.sum(1, keepdim=True)) >= 0
    yield "evaluated"


class Convolutions(nn.Module):
    """With batch norm, a shortcut and a layer that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Conv2d(1, 8, 3, padding=1).requires_grad_(False)
        self.first, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.pool, self.read = nn.MaxPool2d(2), nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.frozen(x)
        x = self.pool(functional.relu(self.norm(self.first(x)) + x))
        return self.read(x.flatten(1))


def cnn(steps: int = 2) -> Loop:
    """Gradients are accumulated over two batches before a step; the accuracy is looked at."""
    net = Convolutions()
    learned = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = optim.SGD(learned, lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            x, target = nbgrad.randn(8, 1, 8, 8), torch.randint(0, 10, (8,))
            scores = net(x)
            loss = functional.cross_entropy(scores, target) / 2
            loss.backward()
            assert (scores.argmax(1) == target).float().mean() >= 0
            yield "accumulated"
        optimizer.step()
        yield "step"


class Reader(nn.Module):
    """A language model with a causal mask, and with a head that shares the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(20, 16), nn.Parameter(torch.zeros(6, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> nbgrad.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.encoder(self.embedding(tokens) + self.places, mask=mask, is_causal=True))


def transformer(steps: int = 2) -> Loop:
    """Two groups of parameters with settings of their own, and a schedule."""
    net = Reader()
    matrices = [one for one in net.parameters() if one.ndim > 1]
    others = [one for one in net.parameters() if one.ndim <= 1]
    optimizer = optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}], lr=1e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(steps):
        tokens = torch.randint(0, 20, (4, 7))
        loss = functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        yield "forward"
        loss.backward()
        yield "backward"
        optimizer.step()
        schedule.step()
        yield "step"


def lstm(steps: int = 2) -> Loop:
    """Truncated backpropagation through time: the state is kept, but detached from its history."""
    net, read = nn.LSTM(3, 8, num_layers=2, batch_first=True), nn.Linear(8, 1)
    optimizer = optim.RMSprop([*net.parameters(), *read.parameters()], lr=1e-3)
    state = None
    for _ in range(steps):
        x = nbgrad.randn(4, 5, 3)
        out, (h, c) = net(x, state)
        state = (h.detach(), c.detach())
        loss = functional.smooth_l1_loss(read(out), x.sum(-1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        yield "backward"
        optimizer.step()
        yield "step"


def gan(steps: int = 2) -> Loop:
    """Two networks, each with its own optimizer. The loss of one also gives the other gradients that are not used."""
    maker = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    making = optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.9))
    judging = optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for _ in range(steps):
        real, noise = nbgrad.randn(32, 2) + 2, nbgrad.randn(32, 2)
        judging.zero_grad()
        fake = maker(noise)
        loss = functional.softplus(-judge(real)).mean() + functional.softplus(judge(fake.detach())).mean()
        loss.backward()
        yield "the judge's backward"
        judging.step()
        yield "the judge's step"
        making.zero_grad()
        loss = functional.softplus(-judge(maker(noise))).mean()
        loss.backward()
        yield "the maker's backward"
        making.step()
        yield "the maker's step"


def wrong(graph: nbgrad.AutogradGraph) -> list[str]:
    return [problem["text"] for problem in describe(graph)["problems"]]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("loop", [mlp, cnn, transformer, lstm, gan], ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_training_has_no_findings_wherever_a_cell_ends(loop: Callable[[], Loop], seed: int) -> None:
    nbgrad.manual_seed(seed)
    with nbgrad.AutogradGraph() as graph:
        for number, where in enumerate(loop()):
            assert wrong(graph) == [], (number, where)
    assert wrong(graph) == []
    for end in range(number):
        with nbgrad.AutogradGraph() as graph:
            *_, where = islice(loop(), end + 1)
        assert wrong(graph) == [], (end, where)

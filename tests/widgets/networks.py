"""Networks as people train them, whose pictures are measured: one step of each."""

from collections.abc import Callable
from itertools import pairwise

import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description


def _step(name: str, loss: Callable[[], nbgrad.Tensor]) -> Description:
    with nbgrad.AutogradGraph(name) as graph:
        loss().backward()
        return describe(graph)


def mlp(linears: int) -> Description:
    """So many linear layers with ReLUs between them, and a cross-entropy."""
    nbgrad.manual_seed(0)
    widths = [64, *[48] * (linears - 1), 10]
    layers = [it for a, b in pairwise(widths) for it in (nn.Linear(a, b), nn.ReLU())][:-1]
    net = nn.Sequential(*layers)
    x, target = nbgrad.tensor(torch.randn(32, 64)), nbgrad.tensor(torch.randint(0, 10, (32,)))
    return _step(f"MLP of {linears}", lambda: functional.cross_entropy(net(x), target))


def cnn() -> Description:
    """The convolutional network of lesson 10."""
    nbgrad.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    images, labels = nbgrad.tensor(torch.randn(100, 1, 8, 8)), nbgrad.tensor(torch.randint(0, 10, (100,)))
    batch = list(range(32))
    return _step("a step of the CNN", lambda: functional.cross_entropy(net(images[batch]), labels[batch]))


class BasicBlock(nn.Module):
    """Two convolutions and a way around them, as in torchvision's ResNet-18."""

    def __init__(self, taken: int, made: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(taken, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made)
        self.conv2, self.bn2 = nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made)
        self.downsample = (
            nn.Sequential(nn.Conv2d(taken, made, 1, stride, bias=False), nn.BatchNorm2d(made)) if stride > 1 else None
        )

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        h = functional.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return functional.relu(h + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's ResNet-18, an eighth as wide."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.maxpool = (
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.MaxPool2d(3, 2, 1),
        )
        widths = [8, 8, 16, 32, 64]
        for at in range(1, 5):
            stride = 1 if at == 1 else 2
            blocks = [BasicBlock(widths[at - 1], widths[at], stride), BasicBlock(widths[at], widths[at], 1)]
            setattr(self, f"layer{at}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, 10)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18() -> Description:
    """One step of a ResNet-18."""
    nbgrad.manual_seed(0)
    net = ResNet18()
    images, labels = nbgrad.tensor(torch.randn(4, 3, 32, 32)), nbgrad.tensor(torch.randint(0, 10, (4,)))
    return _step("ResNet-18", lambda: functional.cross_entropy(net(images), labels))


class GPTBlock(nn.Module):
    """Attention and an MLP, each with its norm and a way around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def attend(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        n, t, c = x.shape
        q, k, v = (y.reshape(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        x = x + self.attend(self.ln1(x))
        return x + self.down(functional.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    """Token and position embeddings, blocks, a norm and a head."""

    def __init__(self, blocks: int, width: int = 16) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(30, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList([GPTBlock(width, 2) for _ in range(blocks)])
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 30, bias=False)

    def forward(self, tokens: nbgrad.Tensor) -> nbgrad.Tensor:
        x = self.tok(tokens) + self.pos(nbgrad.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def gpt(blocks: int) -> Description:
    """One step of a GPT."""
    nbgrad.manual_seed(0)
    net = GPT(blocks)
    tokens, targets = nbgrad.tensor(torch.randint(0, 30, (2, 8))), nbgrad.tensor(torch.randint(0, 30, (16,)))
    return _step(f"GPT of {blocks}", lambda: functional.cross_entropy(net(tokens).reshape(16, 30), targets))


class Series(nn.Module):
    """An LSTM cell along a series, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTMCell(3, 8), nn.Linear(8, 1)

    def forward(self, series: nbgrad.Tensor) -> nbgrad.Tensor:
        h, c = nbgrad.tensor(torch.zeros(4, 8)), nbgrad.tensor(torch.zeros(4, 8))
        for x in series.unbind(0):
            h, c = self.cell(x, (h, c))
        return self.out(h)


def lstm() -> Description:
    """One step of an LSTM over a series of 12."""
    nbgrad.manual_seed(0)
    net = Series()
    series, target = nbgrad.tensor(torch.randn(12, 4, 3)), nbgrad.tensor(torch.randn(4, 1))
    return _step("LSTM", lambda: functional.mse_loss(net(series), target))


def lstm_layer() -> Description:
    """One step of the fused LSTM layer."""
    nbgrad.manual_seed(0)
    layer, out = nn.LSTM(3, 8), nn.Linear(8, 1)
    series, target = nbgrad.tensor(torch.randn(12, 4, 3)), nbgrad.tensor(torch.randn(4, 1))
    return _step("LSTM layer", lambda: functional.mse_loss(out(layer(series)[0][-1]), target))


def encoder() -> Description:
    """One step of a Transformer's encoder, so narrow that a bias has eight numbers."""
    nbgrad.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 4)
    words = nbgrad.tensor(torch.randn(2, 5, 8))

    def loss() -> nbgrad.Tensor:
        return net(words).square().mean()

    return _step("encoder", loss)


NETWORKS: dict[str, Callable[[], Description]] = {
    "MLP of 2": lambda: mlp(2),
    "MLP of 3": lambda: mlp(3),
    "MLP of 5": lambda: mlp(5),
    "CNN of lesson 10": cnn,
    "ResNet-18": resnet18,
    "GPT of 4 blocks": lambda: gpt(4),
    "GPT of 12 blocks": lambda: gpt(12),
    "LSTM cell, 12 steps": lstm,
    "LSTM layer": lstm_layer,
    "encoder of 4 layers": encoder,
}


def scan() -> Description:
    """2,500 multiplications and additions, one after the other."""
    nbgrad.manual_seed(0)
    x, decay, more = (nbgrad.tensor(torch.rand(64), requires_grad=True) for _ in range(3))

    def loss() -> nbgrad.Tensor:
        h = x
        for _ in range(2500):
            h = h * decay + more
        return h.sum()

    return _step("scan", loss)


def recurrent() -> Description:
    """A recurrent network without modules, along a series of 100."""
    nbgrad.manual_seed(0)
    shapes = [(3, 8), (8, 8), (8,), (8, 1)]
    into, again, bias, out = (nbgrad.tensor(torch.randn(shape) * 0.3, requires_grad=True) for shape in shapes)
    series, target = nbgrad.tensor(torch.randn(100, 4, 3)), nbgrad.tensor(torch.randn(4, 1))

    def loss() -> nbgrad.Tensor:
        h = nbgrad.tensor(torch.zeros(4, 8))
        for at in range(100):
            h = (series[at] @ into + h @ again + bias).tanh()
        return ((h @ out - target) ** 2).mean()

    return _step("RNN by hand", loss)


def descent() -> Description:
    """30 steps of gradient descent, with the gradient of the loss after them."""
    nbgrad.manual_seed(0)
    x, y = nbgrad.tensor(torch.randn(20, 3)), nbgrad.tensor(torch.randn(20, 1))
    start = nbgrad.tensor(torch.zeros(3, 1), requires_grad=True)
    rate = nbgrad.tensor(torch.tensor(0.1), requires_grad=True)

    def loss() -> nbgrad.Tensor:
        w = start
        for _ in range(30):
            error = ((x @ w - y) ** 2).mean()
            (gradient,) = nbgrad.autograd.grad(error, [w], create_graph=True)
            w = w - rate * gradient
        return ((x @ w - y) ** 2).mean()

    return _step("30 steps of descent", loss)


LOOPS: dict[str, Callable[[], Description]] = {
    "RNN by hand, 100 steps": recurrent,
    "gradient descent, 30 steps": descent,
    "scan of 2,500 steps": scan,
}

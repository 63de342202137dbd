"""Networks and their training, in one process with the whole batch or in several with a part each."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn.parallel import DistributedDataParallel

STEPS = 50
DTYPE = torch.float64


class Attention(nn.Module):
    """A block of a small GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        n, length, width = x.shape
        parts = self.qkv(self.before(x)).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.after(x))


class GPT(nn.Module):
    """A small GPT, whose embedding is also its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.Sequential(Attention(8, 2), Attention(8, 2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(nbgrad.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def mlp() -> tuple[nn.Module, Callable[..., Any], Any, Any]:
    """A network, its loss and a whole batch."""
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
    return net, nn.functional.mse_loss, torch.randn(16, 5, dtype=DTYPE), torch.randn(16, 3, dtype=DTYPE)


def cnn() -> tuple[nn.Module, Callable[..., Any], Any, Any]:
    """A network with batch normalization."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 3),
    )  # fmt: skip
    return net, nn.functional.cross_entropy, torch.randn(16, 1, 8, 8, dtype=DTYPE), torch.randint(0, 3, (16,))


def gpt() -> tuple[nn.Module, Callable[..., Any], Any, Any]:
    """A network with one parameter under two names."""
    tokens = torch.randint(0, 11, (16, 7))
    loss = lambda out, y: nn.functional.cross_entropy(out.reshape(-1, 11), y.reshape(-1))  # noqa: E731
    return GPT(), loss, tokens[:, :-1], tokens[:, 1:]


NETWORKS = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


def parts(size: int, uneven: bool) -> list[slice]:
    """The rows that each of ``size`` processes has, of a batch of 16."""
    ends = [round(16 * (rank + 1) / size) for rank in range(size)]
    if uneven:
        ends = [max(1, end - 2) for end in ends[:-1]] + [16]
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def made(name: str, seed: int = 0) -> tuple[nn.Module, Callable[..., Any], Any, Any]:
    """The network of this name with its loss and its batch; the batch is the same for every seed."""
    torch.manual_seed(7)
    _, loss, x, y = NETWORKS[name]()
    torch.manual_seed(seed)
    net = NETWORKS[name]()[0].double()
    return net, loss, nbgrad.tensor(x), nbgrad.tensor(y)


def state(net: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a network without a wrapper."""
    return {name: one.clone() for name, one in net.state_dict().items()}


def alone(name: str) -> dict[str, torch.Tensor]:
    """The result of one process that trains with the whole batch."""
    net, loss, x, y = made(name)
    optimizer = nbgrad.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
    return state(net)


def together(rank: int, name: str, settings: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The result of a process with its part of the batch. Settings that begin with _ are not for the wrapper."""
    given = {key: value for key, value in settings.items() if not key.startswith("_")}
    size = torch.distributed.get_world_size()
    net, loss, x, y = made(name, seed=rank)  # all processes start from the values of rank 0
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    wrapped = DistributedDataParallel(net, **given)
    optimizer = nbgrad.optim.Adam(wrapped.parameters(), lr=0.01)
    part = parts(size, settings.get("_uneven", False))[rank]
    pieces = settings.get("_pieces", 1)  # only the last piece averages; the others only accumulate
    for _ in range(STEPS):
        optimizer.zero_grad()
        share = (part.stop - part.start) * size / 16 / pieces  # the loss is a mean over the part
        for piece in range(pieces):
            rows = slice(part.start + piece * (part.stop - part.start) // pieces,
                         part.start + (piece + 1) * (part.stop - part.start) // pieces)  # fmt: skip
            with wrapped.no_sync() if piece < pieces - 1 else nullcontext():
                (loss(wrapped(x[rows]), y[rows]) * share).backward()
        optimizer.step()
    return state(net)

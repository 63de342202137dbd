"""A transformer of 1.5 billion parameters, recorded without memory: the time and the memory of this process.

``python -m benchmarks.large fake`` runs one training step in ``FakeTensorMode``, ``... meta`` on the meta device. Each
prints a line for each stage, and then the memory that the training would need.
"""

import argparse
import sys
import time
from collections.abc import Callable
from math import prod
from typing import Any

import psutil
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional

import nbgrad
from nbgrad.core.graph.memory import byte_text


class Attention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> Any:
        batch, length, size = x.shape
        parts: Any = self.qkv(x).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(batch, length, size))


class Block(nn.Module):
    """A layer: attention, and a perceptron."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.attention(self.before_attention(x))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """A language model with the sizes of GPT-2 XL.

    Shapes: (batch, length) words to (batch, length, words) scores.
    """

    def __init__(self, layers: int = 48, size: int = 1600, heads: int = 25, words: int = 50257, length: int = 1024):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, size), nn.Embedding(length, size)
        self.blocks = nn.Sequential(*[Block(size, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)
        self.scores = nn.Linear(size, words, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> Any:
        places = torch.arange(x.shape[1], device=x.device)
        return self.scores(self.norm(self.blocks(self.words(x) + self.positions(places))))


MODES: dict[str, Callable[[], Any]] = {"fake": FakeTensorMode, "meta": lambda: torch.device("meta")}
"""How the tensors get shapes and no memory."""


def recorded(mode: str, batch: int, length: int = 1024, **sizes: int) -> nbgrad.AutogradGraph:
    """The graph of one training step: forward, loss, backward and a step of AdamW."""
    with MODES[mode]():
        net = Transformer(length=length, **sizes)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
        x, target = torch.zeros(2, batch, length, dtype=torch.int64).unbind()
        with nbgrad.record(view="none") as graph:
            loss: Any = functional.cross_entropy(net(x).flatten(0, 1), target.flatten())
            loss.backward()
            optimizer.step()
    return graph


def main(args: list[str]) -> None:
    """Run one mode, and print its stages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--batch", type=int, default=2)
    given = parser.parse_args(args)
    began, process = time.perf_counter(), psutil.Process()

    def say(what: str) -> None:
        memory = process.memory_info().rss / (1 << 20)
        print(f"{what:42} {time.perf_counter() - began:5.1f} s {memory:6.0f} MiB", flush=True)

    say("start")
    graph = recorded(given.mode, given.batch)
    say(f"one step of training, {len(graph.records):,} records")
    memory = graph.memory
    checkpoints = memory.checkpointing()
    say(f"memory over {len(memory.timeline):,} moments, operations")
    graph.save(f"build/large-{given.mode}.svg")
    say("drawing")
    numbers = sum(prod(one.shape) for one in graph.records if one.kind == "parameter")
    print(f"{numbers:,} parameters; {checkpoints[0].flops or 0:,} operations in a forward of the model")
    print(f"{byte_text(memory.total)} are kept for the backward")
    print(memory.timeline)


if __name__ == "__main__":
    main(sys.argv[1:])

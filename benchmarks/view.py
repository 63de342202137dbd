"""How long a reader waits for the picture: from the end of a cell until all data of the live picture have been sent."""

from collections.abc import Callable
from functools import partial
from random import Random
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

import nbgrad
from benchmarks.timing import Spread
from nbgrad import nn
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.no_gc import uncollected
from nbgrad.nn import functional
from nbgrad.widgets import notebook_output, view
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import first_folding
from nbgrad.widgets.tensor_lookup import Holdings
from tools.unpacking import unpacked

TITLE = "from the end of a cell to its picture"


class Sent(NamedTuple):
    """The times and sizes of showing one graph.

    Attributes:
        ops: how many it has.
        seconds: the seconds of each round to close the graph, outline it, fold it, lay it out, and send both pictures.
        busy: the seconds until the kernel is free again. It then has also sent the PNG and put the graph away.
        payload: bytes of the live picture, deflated as it is sent.
        output: bytes of everything that the notebook keeps.
        kept: bytes that the kernel keeps to lay the picture out again.
        unfold: the seconds until a module that the reader unfolds is sent. Empty if nothing is folded.
        later: the same after other views were used, so that the view has to load its graph again.
        unfolded: how many nodes are drawn after the unfolding.
    """

    ops: int
    seconds: list[float]
    busy: list[float]
    payload: int
    output: int
    kept: int
    unfold: list[float]
    later: list[float]
    unfolded: int


Pictures = dict[str, Sent]


class Attention(nn.Module):
    """Causal self-attention, op by op."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self._heads = heads
        angles = torch.outer(torch.arange(length), torch.logspace(0, -4, width // heads))
        self._cos, self._sin = nbgrad.tensor(angles.cos()), nbgrad.tensor(angles.sin())
        self._mask = nbgrad.tensor(torch.full((length, length), -1e9).triu(1))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        """``x`` of shape (batch, length, width)."""
        batch, length, width = x.shape

        def split(y: nbgrad.Tensor) -> nbgrad.Tensor:
            return y.reshape(batch, length, self._heads, width // self._heads).transpose(1, 2)

        q, k, v = self._turned(split(self.query(x))), self._turned(split(self.key(x))), split(self.value(x))
        scores = q @ k.transpose(2, 3) / (width // self._heads) ** 0.5 + self._mask
        powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        mixed = powers / powers.sum(dim=-1, keepdim=True) @ v
        out: nbgrad.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out

    def _turned(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        """With its position, as an angle."""
        half = x.shape[-1] // 2
        return x * self._cos + nbgrad.cat([-x[..., half:], x[..., :half]], dim=-1) * self._sin


class Block(nn.Module):
    """A block of GPT, whose GELU and norms are written out."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.first, self.second = (nn.ParameterList([torch.ones(width), torch.zeros(width)]) for _ in range(2))
        self.attention = Attention(width, heads, length)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self._dropped = nbgrad.tensor(torch.ones(width))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        """``x`` of shape (batch, length, width)."""
        x = x + self.attention(_norm(x, *self.first)) * self._dropped
        h = self.wide(_norm(x, *self.second))
        gelu = h * 0.5 * ((h + h * h * h * 0.044715) * 0.7978845608).tanh() + h * 0.5
        out: nbgrad.Tensor = x + self.back(gelu) * self._dropped
        return out


def _norm(x: nbgrad.Tensor, weight: nbgrad.Tensor, bias: nbgrad.Tensor) -> nbgrad.Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / ((centred * centred).mean(dim=-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def gpt(blocks: int = 12) -> Any:
    """A small GPT: width 64, 4 heads, 2 sequences of 32."""
    model = nn.Sequential(nn.Embedding(100, 64), *[Block(64, 4, 32) for _ in range(blocks)], nn.Linear(64, 100))
    tokens = nbgrad.tensor(torch.randint(0, 100, (2, 32)))
    loss = functional.cross_entropy(model(tokens).reshape(-1, 100), tokens.reshape(-1))
    loss.backward()
    return model, tokens, loss


def rnn(steps: int = 200) -> Any:
    """A recurrent network, unrolled, whose steps are no modules: nothing can be folded."""
    w, u, b = (nbgrad.tensor(torch.randn(*shape) / 8, requires_grad=True) for shape in ((16, 32), (32, 32), (32,)))
    x = nbgrad.tensor(torch.randn(steps, 8, 16))
    h = nbgrad.tensor(torch.zeros(8, 32))
    for step in range(steps):
        h = (x[step] @ w + h @ u + b).tanh()
    loss = (h * h).mean()
    loss.backward()
    return w, u, b, x, loss


def large(modules: int = 33, ops: int = 300) -> Any:
    """Modules of so many ops each, no two of them alike."""
    h = nbgrad.tensor(torch.rand(8, 8), requires_grad=True)
    for module in range(modules):
        with nbgrad.scope(f"module.{module}"):
            for op in range(ops):
                h = h.sin() if (op + module) % 3 else h + 0.1 * module
    loss = h.sum()
    loss.backward()
    return h, loss


def branching(ops: int) -> Any:
    """A loop that takes one of four branches; each op reads results that may be far away."""
    choose = Random(0)
    made = [nbgrad.tensor(torch.rand(2), requires_grad=True) for _ in range(3)]
    for _ in range(ops):
        a, b, branch = choose.choice(made), choose.choice(made), choose.randrange(4)
        if branch == 0:
            y = a + b
        elif branch == 1:
            y = a * b
        elif branch == 2:
            y = a.sin()
        else:
            y = b.tanh()
        made.append(y)
    loss = nbgrad.stack(made).sum()
    loss.backward()
    return made, loss


def straight(ops: int) -> Any:
    """A function whose lines run once each: there is neither a module nor a loop in it."""
    choose, lines = Random(0), ["def straight(stack, x0, x1):"]
    for at in range(2, ops + 2):
        near, far = choose.randrange(max(0, at - 20), at), choose.randrange(at)
        lines.append(f"    x{at} = " + choose.choice([f"x{near} + x{far}", f"x{near} * x{far}", f"x{near}.sin()"]))
    lines.append(f"    return stack([{', '.join(f'x{at}' for at in range(2, ops + 2))}]).sum()")
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), "straight.py", "exec"), made)
    leaves = [nbgrad.tensor(torch.rand(2), requires_grad=True) for _ in range(2)]
    loss = made["straight"](nbgrad.stack, *leaves)
    loss.backward()
    return leaves, loss


GRAPHS: dict[str, tuple[Callable[[], Any], str]] = {
    "gpt": (gpt, "a GPT of 12 blocks"),
    "rnn": (rnn, "an RNN of 200 steps, unrolled"),
    "large": (large, "10,000 ops in 33 modules"),
    "branching": (partial(branching, 4_000), "a loop that branches, 4,000 times"),
    "branching more": (partial(branching, 20_000), "the same, 20,000 times"),
    "straight": (partial(straight, 4_000), "4,000 lines without modules and loops"),
    "straight more": (partial(straight, 20_000), "the same, 20,000 lines"),
}


class Kept(view.GraphView):
    """A live view that this module can reach: ``show`` keeps no reference to it."""

    last: "Kept"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Kept.last = self

    @property
    def size(self) -> int:
        """The number of bytes of the graph that the view keeps."""
        assert self._kept is not None
        return len(self._kept)

    def forget(self) -> None:
        """Drop the outline, as the view does when another view is used."""
        self._outline = None


class Page:
    """The page that gets the outputs of the kernel.

    Attributes:
        outputs: what is there.
        at: when the last output came. An update of an output does not count.
    """

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.at = 0.0

    def display(self, data: dict[str, Any], **_: Any) -> "Page":
        """One more output."""
        self.outputs.append(data)
        self.at = perf_counter()
        return self

    def update(self, data: dict[str, Any], **_: Any) -> None:
        """Take the still picture again, this time with its PNG."""
        assert "image/png" in data
        self.outputs[0] = data


@uncollected
def _ended(graph: AutogradGraph, variables: Any) -> Outline:
    """Close and show a graph, as the end of a cell does; return its outline."""
    graph.close({"variables": variables})
    described = outline(graph)
    notebook_output.show(described, holdings=Holdings(graph))
    return described


def sent(run: Callable[[], Any], rounds: int = 5) -> Sent:
    """``rounds`` times: run a cell, show its graph as a notebook does, and unfold the first folded module."""
    seconds, busy, drawn, payload, kept, ops = [], [], 0, 0, 0, 0
    unfold, later = list[float](), list[float]()
    page = Page()
    for _ in range(rounds):
        page.outputs.clear()
        with (
            patch.object(notebook_output, "display", page.display),
            patch.object(notebook_output, "get_ipython", lambda: SimpleNamespace(display_pub=page)),
            patch.object(view, "GraphView", Kept),
        ):
            graph = AutogradGraph("cell")
            graph.__enter__()
            variables = run()  # the variables of a cell stay alive
            begin = perf_counter()
            described = _ended(graph, variables)
            busy.append(perf_counter() - begin)
            seconds.append(page.at - begin)
        ops = sum(record.kind == "op" for record in graph.records)
        first_folded = next(iter(sorted(first_folding(described, NODES).closed)), None)
        widget = Kept.last
        payload, kept = len(widget.picture), widget.size
        if first_folded is not None:
            for taken in (unfold, later):
                begin = perf_counter()
                widget.request = {"toggle": [first_folded], "count": 1}
                taken.append(perf_counter() - begin)
                drawn = len(unpacked(widget.picture)["description"]["nodes"])
                widget.request = {"toggle": [first_folded], "count": 2}  # fold it again
                widget.forget()
        widget.close()
        del variables
    output = sum(len(text) for data in page.outputs for text in data.values() if isinstance(text, str)) + payload
    return Sent(ops, seconds, busy, payload, output, kept, unfold, later, drawn)


def all_sent(rounds: int) -> Pictures:
    """The measurements of every graph. A small graph before them starts graphviz."""
    sent(partial(large, 1, 3), 1)
    return {name: sent(run, rounds) for name, (run, _) in GRAPHS.items()}


def markdown(found: Pictures) -> str:
    """A table of them."""
    lines = [
        f"## {TITLE[0].upper()}{TITLE[1:]}",
        "",
        "| | ops | until the live picture is sent | until the kernel is free | live picture | kept in the notebook "
        "| kept by the kernel | a module unfolded | in a view that others were used after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        sizes = [f"{size / 1000:.1f} KB" for size in (one.payload, one.output, one.kept)]
        unfold = f"{Spread.of(one.unfold).middle:.2f} s, {one.unfolded} nodes" if one.unfold else ""
        later = f"{Spread.of(one.later).middle:.2f} s" if one.later else ""
        times = f"**{Spread.of(one.seconds).middle:.2f} s** | {Spread.of(one.busy).middle:.2f} s"
        lines.append(f"| {GRAPHS[name][1]} | {one.ops:,} | {times} | {' | '.join(sizes)} | {unfold} | {later} |")
    return "\n".join(lines)

"""A whole training step of networks that are more than a chain of layers, in torch's words, which are nbgrad's too."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

import nbgrad
from benchmarks.case import PEERS, Case
from benchmarks.timing import Contender

RATE = 0.01
WORDS = "the network is written with torch's layers, which it does not have"


def drawn(library: Any, *shape: int) -> Any:
    """Normal random numbers, the same ones on every device."""
    return library.tensor(torch.randn(*shape, generator=torch.Generator().manual_seed(0), device="cpu").numpy())


def classes(library: Any, number: int, *shape: int) -> Any:
    """Classes out of so many, the same ones on every device."""
    random = torch.Generator().manual_seed(0)
    return library.tensor(torch.randint(0, number, shape, generator=random, device="cpu").numpy())


class Step:
    """A step of gradient descent. The model has the same weights in both libraries and on every device.

    Args:
        library: torch or nbgrad.
        model: a module of this library.
        loss: takes the model.
        optimizer: takes the parameters; default: plain SGD.
    """

    def __init__(
        self, library: Any, model: Any, loss: Callable[[Any], Any], optimizer: Callable[[Any], Any] | None = None
    ) -> None:
        random = torch.Generator().manual_seed(0)
        for held in model.state_dict().values():
            numbers = torch.empty(held.shape, device="cpu").uniform_(-0.1, 0.1, generator=random)
            (held if isinstance(held, torch.Tensor) else held.data).copy_(numbers)
        self.model = model
        self.loss = loss
        self._optimizer = (optimizer or partial(library.optim.SGD, lr=RATE))(model.parameters())

    def zero_grad(self) -> None:
        """Drop the gradients of the last step."""
        self._optimizer.zero_grad()

    def forward(self) -> Any:
        """The loss, and all that its backward needs."""
        return self.loss(self.model)

    def __call__(self) -> Any:
        self.zero_grad()
        loss = self.forward()
        loss.backward()
        self._optimizer.step()
        return loss

    def cleared_after(self) -> Any:
        """A step that drops its gradients at the end. A program of this step need not return them."""
        loss = self.forward()
        loss.backward()
        self._optimizer.step()
        self.zero_grad()
        return loss


def cnn(library: Any) -> Step:
    """Two convolutions, 1-16-32 channels on 28 x 28 pixels, and a linear layer, on a batch of 32."""
    nn = library.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )
    x, target = drawn(library, 32, 1, 28, 28), classes(library, 10, 32)
    return Step(library, model, lambda model: nn.functional.cross_entropy(model(x), target))


def transformer(library: Any) -> Step:
    """Two encoder layers of 128 features and 4 heads on 8 sequences of 64."""
    nn = library.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = drawn(library, 8, 64, 128)
    return Step(library, model, lambda model: model(x).square().mean())


def lstm(library: Any) -> Step:
    """Two layers of 128 units over 100 steps of 16 sequences."""
    nn = library.nn
    model = nn.LSTM(128, 128, 2)
    x = drawn(library, 100, 16, 128)
    return Step(library, model, lambda model: model(x)[0].square().mean())


class Size(NamedTuple):
    """How large a GPT is, and what it learns in a step: ``batch`` sequences of ``context`` tokens."""

    layers: int
    heads: int
    width: int
    words: int
    batch: int
    context: int


GPT2_SMALL = Size(layers=12, heads=12, width=768, words=50257, batch=8, context=1024)


def gpt2(library: Any, size: Size = GPT2_SMALL) -> Step:
    """GPT-2 without dropout, with AdamW. Autocast runs the matrix products in bfloat16."""
    nn, functional = library.nn, library.nn.functional
    Module: Any = nn.Module  # noqa: N806  # a class
    width, heads = size.width, size.heads

    class Block(Module):  # type: ignore[misc]  # whichever library's
        """Causal attention and two linear layers, each with a skip connection."""

        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, steps, _ = x.shape
            parts = self.attention(self.ln_1(x)).split(width, dim=2)
            q, k, v = [part.view(batch, steps, heads, width // heads).transpose(1, 2) for part in parts]
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(found.transpose(1, 2).reshape(batch, steps, width))
            return x + self.narrow(functional.gelu(self.wide(self.ln_2(x)), approximate="tanh"))

    class GPT(Module):  # type: ignore[misc]  # whichever library's
        """Embeddings of tokens and positions, the blocks, and a last layer that shares the token embedding."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(size.words, width), nn.Embedding(size.context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(size.layers)])
            self.ln = nn.LayerNorm(width)

        def forward(self, tokens: Any, places: Any) -> Any:
            x = self.ln(self.blocks(self.words(tokens) + self.places(places)))
            return functional.linear(x, self.words.weight)

    tokens = classes(library, size.words, size.batch, size.context + 1)
    places = library.tensor(list(range(size.context)))

    def loss(model: Any) -> Any:
        with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
            scores = model(tokens[:, :-1], places)
            return functional.cross_entropy(scores.reshape(-1, size.words), tokens[:, 1:].reshape(-1))

    return Step(library, GPT(), loss, partial(library.optim.AdamW, lr=1e-4))


NETWORKS = {
    "cnn": (cnn, "CNN 1-16-32 on 28 x 28, batch 32: zero_grad, forward, cross entropy, backward, SGD step"),
    "transformer": (transformer, "2-layer transformer encoder, d 128, sequence 64, batch 8: a whole step"),
    "lstm": (lstm, "LSTM 2 x 128, 100 steps, batch 16: a whole step"),
    "gpt2": (gpt2, "GPT-2 small, batch 8 x 1024, products in bfloat16: a whole step with AdamW"),
}
LARGE = ("gpt2",)


def stepping(make: Callable[[Any], Step], library: Any) -> Contender:
    """A contender that takes a step each time."""
    step = make(library)
    return Contender(lambda _: step())


for name, (make, title) in NETWORKS.items():
    case = Case(name, title, tolerance=1e-3, large=name in LARGE)
    case.contenders |= {"torch": partial(stepping, make, torch), "nbgrad": partial(stepping, make, nbgrad)}
    case.absent |= dict.fromkeys(PEERS, WORDS)

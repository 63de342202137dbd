"""Random torch models, converted: they have torch's numbers and gradients, or raise. They never give other results.

A model consists of torch's blocks and of classes with a random feature: methods that Python calls, questions about
classes, buffers, ties, attributes that the forward changes, hooks. Some forwards ask for torch's tensors, which the
first call must find. The model is trained for some steps with the torch optimizer of the original.
"""

import copy
import pickle
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import nn as tnn

import nbgrad
import nbgrad.testing
from nbgrad import nn

CASES = 40
WIDTH = 4


class Part(tnn.Module):
    """The base of all parts: it has a linear layer."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.layer = tnn.Linear(WIDTH, WIDTH)
        self.factor = random.uniform(0.5, 1.5)

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.factor


class OwnCall(Part):
    def __call__(self, x: Any) -> Any:
        return super().__call__(x + 1) - 1


class OwnAttributes(Part):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value + 0.5 if name == "shift" else value)

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return found * 2 if name == "scale" else found

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.shift = 0.0
        self.scale = tnn.Parameter(torch.rand(WIDTH))

    def forward(self, x: Any) -> Any:
        self.shift = self.shift * 0.5
        return self.layer(x) * self.scale + self.shift


class OwnItems(tnn.ModuleList):
    def __init__(self, random: Random) -> None:
        super().__init__([tnn.Linear(WIDTH, WIDTH), tnn.Tanh(), Part(random)])

    def __iter__(self) -> Any:
        return reversed([*super().__iter__()])

    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(-1 - at)

    def __contains__(self, name: object) -> bool:
        return name == "last"

    def forward(self, x: Any) -> Any:
        for layer in self:
            x = layer(x)
        return self[0](x) if "last" in self else x


class Classes(Part):
    """Asks for the classes of its parts, and their order."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        kinds = [tnn.LayerNorm(WIDTH), tnn.BatchNorm1d(WIDTH), tnn.ReLU(), tnn.Linear(WIDTH, WIDTH), tnn.Dropout(0.3)]
        self.parts = tnn.ModuleList(random.sample(kinds, 3))

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            if isinstance(part, tnn.LayerNorm | tnn.BatchNorm1d):
                x = part(x) * 2
            elif isinstance(part, tnn.Linear):
                x = part(x) - part.weight.sum()
            elif type(part).__name__ == "Dropout":
                x = part(x) + torch.rand_like(x) * 0.1
            else:
                x = x + part(x)
        return x


class State(Part):
    """Buffers and attributes that each call changes."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.register_buffer("mean", torch.zeros(WIDTH), persistent=random.random() < 0.5)
        self.calls: dict[str, list[int]] = {"count": [0]}

    def forward(self, x: Any) -> Any:
        self.calls["count"][0] += 1
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        return self.layer(x - self.mean) / self.calls["count"][0]


class Derived(tnn.Linear):
    def __init__(self, _random: Random) -> None:
        super().__init__(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return super().forward(x).sin()


class Recurrent(tnn.GRU):
    def __init__(self, random: Random) -> None:
        super().__init__(WIDTH, WIDTH, random.choice([1, 2]), batch_first=True)

    def forward(self, x: Any) -> Any:
        return super().forward(x[:, None])[0][:, 0]


class Asks(Part):
    """Takes another branch for tensors that are not torch's."""

    def forward(self, x: Any) -> Any:
        x = super().forward(x)
        return (x * x[0]).sin() if type(x) is torch.Tensor else x  # no normalization removes this difference


KINDS: list[Any] = [Part, OwnCall, OwnAttributes, OwnItems, Classes, State, Derived, Recurrent]


def check(random: Random) -> None:
    """Make one model. Train it with torch, and train its conversion with torch's optimizer of the original."""
    torch.manual_seed(random.randrange(10**6))
    kinds = [random.choice(KINDS) for _ in range(random.randint(1, 4))]
    asks = random.random() < 0.2
    if asks:
        kinds.insert(random.randrange(len(kinds) + 1), Asks)
    theirs = _model(random, [kind(random) for kind in kinds])
    original = copy.deepcopy(theirs)
    ours = nbgrad.from_torch(original)
    own = random.choice(["", "", "deepcopy", "pickle"])
    if any(one._forward_hooks for one in theirs.modules()):
        own = ""  # these hooks contain a function that cannot be pickled
    if own:
        ours = copy.deepcopy(ours) if own == "deepcopy" else pickle.loads(pickle.dumps(ours))
    told = f"{[kind.__name__ for kind in kinds]}, {own}"
    assert [type(one).__name__ for one in ours.modules()] == [type(one).__name__ for one in theirs.modules()], told
    assert all(isinstance(one, nn.Module) for one in ours.modules())
    if asks:
        x = torch.randn(3, WIDTH, dtype=torch.float64)
        found = _raised(lambda: ours(nbgrad.tensor(x)), RuntimeError)
        assert "does not do what torch's own forward does" in found, f"{told}: {found}"
        unchecked = nbgrad.from_torch(copy.deepcopy(theirs), check=False)
        found = _raised(lambda: nbgrad.testing.assert_gradients_close(unchecked, theirs, x), AssertionError)
        assert "if type(x) is torch.Tensor" in found, f"{told}: {found}"
        return
    if own:
        mine: Any = nbgrad.optim.SGD(ours.parameters(), lr=0.05, momentum=0.5)
    else:
        mine = torch.optim.SGD(original.parameters(), lr=0.05, momentum=0.5)
    _train_both(theirs, ours, mine, told)


def _raised(run: Callable[[], Any], error: type[Exception]) -> str:
    """The text of the error that ``run`` raises; empty where it raises none."""
    try:
        run()
    except error as raised:
        return str(raised)
    return ""


def _model(random: Random, parts: list[Any]) -> Any:
    """The parts in a row. One may occur twice, and one may have a hook."""
    if random.random() < 0.3:
        parts.append(random.choice(parts))
    if random.random() < 0.3:
        random.choice(parts).register_forward_hook(lambda _module, _args, out: out * 0.5)
    return tnn.Sequential(*parts).double().train(random.random() < 0.8)


def _train_both(theirs: Any, ours: Any, mine: Any, told: str) -> None:
    """Take some steps with both models, ours with the optimizer ``mine``. Losses, parameters and buffers stay equal."""
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    yours = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.5)
    for step in range(3):
        losses = []
        for net, optimizer, given in ((theirs, yours, x), (ours, mine, nbgrad.tensor(x))):
            torch.manual_seed(step)
            optimizer.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loss = (net(given) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) <= 1e-9 * abs(losses[0]), f"{told}, step {step}: {losses}"
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value, rtol=1e-9, atol=1e-12, msg=f"{told}: {key}")

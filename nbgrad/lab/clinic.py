"""The patients of lesson 13: twelve small trainings, each with one fault, recorded so that they can be examined.

The fault is not written down anywhere: the findings of a patient's graph say what it is.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import permutations
from typing import Any
from warnings import catch_warnings

import torch

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.ops import cat
from nbgrad.core.tensor.comparison import numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import OwnNumbers
from nbgrad.nn.activation import ReLU, Sigmoid, Tanh
from nbgrad.nn.containers import Sequential
from nbgrad.nn.functional import cross_entropy
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.module import Module
from nbgrad.nn.normalization import BatchNorm1d
from nbgrad.optim import SGD

Trained = tuple[list[Any], Any]
"""The loss of each step; and the network and the optimizer, which have to stay alive for the findings."""

Training = Callable[[Tensor, Tensor], Trained]
"""Takes points and their classes, and trains."""


@dataclass(frozen=True)
class Patient:
    """A training that was recorded. In a notebook it shows its symptoms, and not its findings.

    Attributes:
        name: a letter.
        training: the letter that this patient has in the lesson.
        graph: the recorded graph; ``graph.findings()`` is the diagnosis.
        losses: the loss of each step.
        alive: the network and the optimizer, which the findings look at.
    """

    name: str
    training: str
    graph: AutogradGraph
    losses: list[float]
    alive: Any

    @property
    def source(self) -> str:
        """The code of the training."""
        return inspect.getsource(_TRAININGS[self.training]).replace(f"def _{self.training}(", f"def _{self.name}(", 1)

    @cached_property
    def findings(self) -> set[str]:
        """The kinds of its findings."""
        return {one.kind for one in self.graph.findings()}

    def __repr__(self) -> str:
        shown = " ".join(f"{self.losses[at]:.3g}" for at in range(0, len(self.losses), max(1, len(self.losses) // 5)))
        lines = [
            translate(
                "patient {name}: {count} steps, loss {shown} ... {last:.3g}",
                name=self.name,
                count=len(self.losses),
                shown=shown,
                last=self.losses[-1],
            )
        ]
        frames = list(self.graph.history)
        for at, row in enumerate(frames[-1].parameters if frames else ()):
            gradient = (
                "no gradient" if row.gradient is None else translate("gradient {gradient:.1e}", gradient=row.gradient)
            )
            # The history has the updates of only some steps. The last of these is shown.
            updates = [one.parameters[at].update for one in frames if len(one.parameters) > at]
            known = [update for update in updates if update is not None]
            update = translate("update {update:.1e} of its size", update=known[-1]) if known else "no update"
            lines.append(f"  {row.name} {tuple(row.shape)}: {gradient}, {update}")
        return "\n".join(lines)


def names() -> list[str]:
    """The letters of the patients."""
    return list(_TRAININGS)


LETTERS = OwnNumbers("13.1", {look: tuple(permutations(look)) for look in ("abdijk", "gh", "cf", "l", "e")})
"""Which patient has which letter: by the letters of the lesson, those of the student.

They change only among patients whose losses look alike: they fall, end with NaN, or stay. So the text of the lesson is
true for each student. It tells the diagnosis of l and shows the picture of e, so these two have one letter for all.
"""


def admit(name: str) -> Patient:
    """Run the training of a patient, and record it; the next call gives the same one.

    Each student has letters of their own (``nbgrad.lab.student``); without a name they are those of the lesson.

    Raises:
        KeyError: there is no such patient.
    """
    if name not in _TRAININGS:
        raise KeyError(f"there is no patient {name!r}, only {', '.join(_TRAININGS)}")
    training = next(
        of_lesson
        for look, letters in LETTERS().items()
        for of_lesson, letter in zip(look, letters, strict=True)
        if letter == name
    )
    return _recorded(name, training)


@cache
def _recorded(name: str, training: str) -> Patient:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # no training may depend on how a processor rounds
    try:
        return _record(name, training)
    finally:
        torch.set_default_dtype(before)


def _record(name: str, training: str) -> Patient:
    generator = torch.Generator().manual_seed(13)
    points = torch.randn((64, 4), generator=generator)
    classes = (points[:, 0] * points[:, 1] > 0).long()
    with torch.random.fork_rng(devices=[]), catch_warnings(action="ignore"):
        torch.manual_seed(0)
        with AutogradGraph(f"patient {name}") as graph:
            losses, alive = _TRAININGS[training](tensor(points), tensor(classes))
    return Patient(name, training, graph, [float(numbers_of(one)) for one in losses], alive)


def _fit(optimizer: Any, loss_of: Callable[[], Any], steps: int = 20) -> Trained:
    """A correct training loop. ``loss_of`` computes the loss anew in each step."""
    losses = []
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, (optimizer, loss_of)


def _a(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), Tanh(), Linear(16, 2))
    optimizer = SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        loss = cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, (net, optimizer)


def _b(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), Tanh(), Linear(16, 2))
    return _fit(SGD(net[2].parameters(), lr=0.5), lambda: cross_entropy(net(x), y))


def _c(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), ReLU(), Linear(16, 2))
    net[0].bias.data.fill_(-100)
    return _fit(SGD(net.parameters(), lr=0.5), lambda: cross_entropy(net(x), y))


def _d(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), Tanh(), Linear(16, 2))
    return _fit(SGD(net.parameters(), lr=0.5), lambda: cross_entropy(net(x).softmax(1), y))


def _e(x: Tensor, y: Tensor) -> Trained:
    first, last = Linear(4, 16), Linear(16, 2)
    optimizer = SGD([*first.parameters(), *last.parameters()], lr=0.5)
    return _fit(optimizer, lambda: cross_entropy(last(first(x).tanh().detach()), y))


def _f(x: Tensor, y: Tensor) -> Trained:
    layers: list[Module] = [Linear(4, 16)]
    for _ in range(12):
        layers += [Sigmoid(), Linear(16, 16)]
    net = Sequential(*layers, Sigmoid(), Linear(16, 2))
    return _fit(SGD(net.parameters(), lr=0.02), lambda: cross_entropy(net(x), y))


def _g(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), ReLU(), Linear(16, 2))

    def loss() -> Any:
        return ((net(x)[:, 0] - 5 * x[:, 1] - y) ** 2).mean()

    return _fit(SGD(net.parameters(), lr=0.7), loss)


def _h(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), ReLU(), Linear(16, 2))

    def loss() -> Any:
        size = (net(x) - net(x)).square().sum(1).sqrt()
        return cross_entropy(net(x), y) + size.mean()

    return _fit(SGD(net.parameters(), lr=0.5), loss, steps=3)


def _i(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), Tanh(), Linear(16, 1))

    def loss() -> Any:
        return ((net(x) - y * 1.0) ** 2).mean()

    return _fit(SGD(net.parameters(), lr=0.1), loss)


class _Branches(Module):
    def __init__(self) -> None:
        super().__init__()
        self.branches = [Linear(4, 8), Linear(4, 8)]
        self.last = Linear(16, 2)

    def forward(self, x: Tensor) -> Any:
        return self.last(cat([branch(x).tanh() for branch in self.branches], 1))


def _j(x: Tensor, y: Tensor) -> Trained:
    net = _Branches()
    return _fit(SGD(net.parameters(), lr=0.5), lambda: cross_entropy(net(x), y))


def _k(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), BatchNorm1d(16), Tanh(), Linear(16, 2))
    net.eval()
    return _fit(SGD(net.parameters(), lr=0.5), lambda: cross_entropy(net(x), y))


def _l(x: Tensor, y: Tensor) -> Trained:
    net = Sequential(Linear(4, 16), Tanh(), Linear(16, 2))
    optimizer = SGD(net.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        loss = cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.detach())
    return losses, (net, optimizer)


_TRAININGS: dict[str, Training] = {one.__name__[1:]: one for one in (_a, _b, _c, _d, _e, _f, _g, _h, _i, _j, _k, _l)}

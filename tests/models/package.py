"""One of other people's packages, and the programs that run with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Loss = Callable[[Any], Any]
Step = tuple[torch.nn.Module, Loss]
"""A model and the function that computes its loss. The function gets the model, or the recorded or converted model."""


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: the name of its function.
        run: for a step it returns the ``Step``; for a training it trains and returns the model.
        trains: whether it is a whole training loop of the package. Then nothing of it can be converted.
    """

    name: str
    run: Callable[[], Any]
    trains: bool


@dataclass
class Package:
    """The programs of one package. The package's module in ``tests.models.programs`` makes this object and fills it.

    Attributes:
        distribution: the name of the package in pip.
        programs: in the order in which they were added.
    """

    distribution: str
    programs: list[Program] = field(default_factory=list)

    def step(self, function: Callable[[], Step]) -> Callable[[], Step]:
        """Add a function that makes a model and its loss."""
        self.programs.append(Program(function.__name__, function, trains=False))
        return function

    def training(self, function: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
        """Add a function that trains a model and returns it."""
        self.programs.append(Program(function.__name__, function, trains=True))
        return function

"""A package of other people's, and the programs that are run of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Loss = Callable[[Any], Any]
Step = tuple[torch.nn.Module, Loss]
"""A model, and the function that computes a loss with it: it is called with the model, or with what that became."""


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: that of its function.
        run: of a step, gives the ``Step``; of a training, trains and gives the model.
        trains: whether it is a whole training loop of the package. Then nothing of it can be converted.
    """

    name: str
    run: Callable[[], Any]
    trains: bool


@dataclass
class Package:
    """The programs of one package: its module in ``tests.models.programs`` makes one and adds its functions to it.

    Attributes:
        distribution: the name that pip knows it by.
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

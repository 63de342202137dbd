"""A case: one program, written for each library, whose numbers must agree."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import nbgrad
from benchmarks.timing import Contender, beginning, in_turns, limit

CASES: "list[Case]" = []

PEERS = ("autograd", "mygrad", "micrograd", "tinygrad", "jax", "jax.jit")
"""The libraries that are measured beside torch, on the processor."""


@dataclass
class Case:
    """One program and who runs it.

    Attributes:
        name: a short one, for the command line.
        title: what is done, in words.
        ops: the time is divided by this number, to give the time of one op or of one ``per``. 1 gives that of all.
        per: the unit that the time is given for.
        reference: the contender that the others are compared with.
        contenders: by name, the function that makes each contender.
        absent: by name, the libraries that cannot run the case, and why.
        tolerance: by how much numbers in float32 may differ.
        first: seconds that a contender's first call may take. For a compiler this call includes the compilation.
        large: whether it is for a GPU alone: a step takes minutes on a processor.
    """

    name: str
    title: str
    ops: int = 1
    per: str = ""
    reference: str = "torch"
    contenders: dict[str, Callable[[], Contender]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    tolerance: float = 1e-4
    first: int = 60
    large: bool = False

    def __post_init__(self) -> None:
        CASES.append(self)

    def contender(self, name: str) -> Callable[[Callable[[], Contender]], Callable[[], Contender]]:
        """Decorate the function that makes the contender of that name."""

        def decorate(make: Callable[[], Contender]) -> Callable[[], Contender]:
            self.contenders[name] = make
            return make

        return decorate

    def ready(self, turn: int = 0, device: str = "cpu") -> tuple[dict[str, Contender], dict[str, str]]:
        """Return the contenders that can run here, after one call of each, and for every other one the reason.

        They are made one after the other, and each ``turn`` begins with another one. The one that is made first has the
        first place in memory, which alone can be worth a tenth of a kernel's time.
        """
        made: dict[str, Contender] = {}
        absent = dict(self.absent)
        if device != "cpu":
            absent |= dict.fromkeys([name for name in self.contenders if name in PEERS], "runs on the processor")
        for name in beginning(turn, [name for name in self.contenders if name not in absent]):
            try:
                with limit(self.first):
                    contender = self.made(name, device)
                    numbers(contender.once())
            except Exception as error:
                absent[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            else:
                made[name] = contender
        return made, absent

    def made(self, name: str, device: str) -> Contender:
        """The contender of that name, all its tensors on ``device``."""
        with torch.device(device):
            return self.contenders[name]()

    def times(
        self, rounds: int, least: float = 0.02, turn: int = 0, device: str = "cpu"
    ) -> tuple[dict[str, list[float]], dict[str, str]]:
        """The seconds per op of each round, and for each contender that cannot run the reason."""
        made, absent = self.ready(turn, device)
        times = in_turns(made, rounds=rounds, least=least)
        return {name: [seconds / self.ops for seconds in taken] for name, taken in times.items()}, absent


def numbers(result: Any) -> list[np.ndarray[Any, Any]]:
    """The result of a call, turned into numpy arrays, whatever library made it."""
    if isinstance(result, list | tuple):
        return [array for one in result for array in numbers(one)]
    if isinstance(result, torch.Tensor | nbgrad.Tensor):
        result = result.cpu()
    return [result.detach().numpy() if hasattr(result, "numpy") else np.asarray(result)]

"""The values that the options of a graph can have, as far as they are known without the engine.

It imports nothing of nbgrad and no torch: the command reads its options before the program begins.
"""

import os
from collections.abc import Iterable
from typing import Literal, get_args

FRAMES = 36
"""The default for the number of frames that a graph keeps."""

COST = 0.05
"""The share of the time of a loop that recording may add."""

ALL = "all"
"""The value of ``ask`` for the gradients of all tensors that have a name."""

Severity = Literal["error", "warning"]
"""The severity of a finding, as ``Finding.severity`` explains it."""

ErrorKind = Literal[
    "failed",
    "inplace",
    "nan",
    "unreached",
    "custom function",
    "checkpoint",
    "zero gradient",
    "divergence",
    "accumulated gradients",
    "no optimizer",
    "no step",
    "idle step",
    "no change",
    "early call",
    "loss input",
    "sign",
    "wrong dimension",
    "unregistered",
    "through numpy",
    "wrong number",
]
"""The kinds of findings that are errors."""

WarningKind = Literal[
    "vanishing",
    "exploding",
    "saturated",
    "output range",
    "target",
    "no activation",
    "layer setting",
    "initialization",
    "attention",
    "input scale",
    "data",
    "small steps",
    "large steps",
    "no progress",
    "regularization",
    "accumulation",
    "kept graphs",
    "frozen but changing",
    "frozen",
    "eval mode",
    "broadcast",
    "failed rule",
]
"""The kinds of findings that are warnings."""

FindingKind = Literal[ErrorKind, WarningKind]
"""The kinds of findings, as ``Finding`` explains them."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)

UNSILENCED: tuple[FindingKind, ...] = ("failed", "inplace")
"""The kinds that cannot be silenced: an error has ended the program."""


def kinds_in(given: "str | Iterable[str] | None") -> list[str]:
    """The kinds that ``given`` names, which need not exist: "vanishing, no-activation" or a list.

    Raises:
        ValueError: it is neither.
    """
    names = given.split(",") if isinstance(given, str) else () if given is None else given
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"silence={given!r}: it has to be kinds of findings, such as 'vanishing, no activation'")
    return [" ".join(name.replace("-", " ").replace("_", " ").split()) for name in names]


def is_launched() -> bool:
    """Whether torchrun or the like has started this process as one of several, which make a group later."""
    return {"RANK", "WORLD_SIZE"} <= os.environ.keys()

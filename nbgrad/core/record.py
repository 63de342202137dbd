"""What a graph tells about one op or one tensor: typed data, no tensor in it."""

from dataclasses import dataclass, field
from typing import Any

import torch

from nbgrad.core.broadcast import Reduction
from nbgrad.core.frame import Stats
from nbgrad.core.modes import Scope
from nbgrad.core.op import Op


@dataclass(frozen=True, slots=True)
class Input:
    """One input of an op: where its tensor came from, or the number that stood there."""

    name: str
    source: int | None
    literal: Any = None
    gradient: Stats | None = None
    reduction: Reduction | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A node of the record: an op with the tensor it made, or a tensor that no op in the graph made.

    ``kind`` is "op", "parameter", "leaf" (needs a gradient), "constant" or "outside" (an op that ran before the graph
    was opened). ``file`` and ``line`` are the user's line that ran it.
    """

    id: int
    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    name: str | None = None
    op: Op | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    scope: Scope | None = None
    file: str | None = None
    line: int | None = None
    root: bool = False
    value: Stats | None = None
    gradient: Stats | None = None

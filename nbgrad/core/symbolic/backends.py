"""The backends of ``compile``: what makes a listing run."""

from collections.abc import Callable

from nbgrad.core.symbolic.fusion import compiled, interpreted
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.replay import Run, replay

Backend = Callable[[Listing], Run]

BACKENDS: dict[str, Backend] = {"auto": replay, "replay": replay, "fused": interpreted, "c": compiled}
"""By name."""

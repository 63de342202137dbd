"""The backends of ``compile``: what makes a listing run."""

from collections.abc import Callable

import torch

from nbgrad.core.symbolic.fusion import compiled, interpreted
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.replay import Run, replay

Backend = Callable[[Listing], Run]


def inductor(listing: Listing) -> Run:
    """Torch's compiler, without Dynamo. It takes seconds, and a C++ compiler."""
    from nbgrad.core.symbolic.inductor import inductor as backend

    return backend(listing)


def cudagraph(listing: Listing) -> Run:
    """Refused: a program is not replayed as a CUDA graph yet.

    Raises:
        RuntimeError: always; it says what else to take.
    """
    reason = "nbgrad has no CUDA graphs yet" if torch.cuda.is_available() else "there is no CUDA device"
    raise RuntimeError(f"backend 'cudagraph' cannot run {listing.name}: {reason}. Take backend='replay' or 'inductor'")


BACKENDS: dict[str, Backend] = {
    "auto": replay,
    "replay": replay,
    "fused": interpreted,
    "c": compiled,
    "inductor": inductor,
    "cudagraph": cudagraph,
}
"""By name."""

"""The backends of ``compile``: what makes a listing run."""

from collections.abc import Callable

from nbgrad.core.symbolic.cuda_graph import cudagraph
from nbgrad.core.symbolic.fusion import interpreted
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.replay import Run, replay

Backend = Callable[[Listing], Run]


def inductor(listing: Listing) -> Run:
    """Torch's compiler, without Dynamo. It takes seconds, and a C++ compiler."""
    from nbgrad.core.symbolic.inductor import inductor as backend

    return backend(listing)


BACKENDS: dict[str, Backend] = {
    "auto": replay,
    "replay": replay,
    "fused": interpreted,
    "inductor": inductor,
    "cudagraph": cudagraph,
}
"""By name."""

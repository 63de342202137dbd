"""How much memory a call takes on its way, by torch's allocator and by Python's."""

import tracemalloc
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from nbgrad.core.backend.allocator import keep_freed

keep_freed()  # otherwise the first recorded op would allocate a block, perhaps while something is counted


def torch_blocks(run: Callable[[], object], *, least: int) -> list[int]:
    """The sizes in bytes of the blocks, of at least ``least`` bytes, that torch's allocator gives during ``run``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    assert seen.profiler is not None
    assert seen.profiler.kineto_results is not None
    events = seen.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]" and event.nbytes() >= least]


def python_peak(run: Callable[[], object]) -> int:
    """The peak in bytes of the Python and numpy objects that ``run`` makes."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

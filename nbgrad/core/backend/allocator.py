"""Memory that a step frees is there for the next one.

Each step of a training loop asks for the memory that the step before has freed. GNU's C library gives what is free at
the end of its heap back to the system as soon as it is more than twice the largest block that was ever freed, and the
system then hands it out again page by page, each cleared: a step of an LSTM can take 4,000 such page faults, and half
its time. What the library has freed once it takes for the size of what comes again (``man mallopt``, M_MMAP_THRESHOLD,
"dynamic"), so it is shown a block of the largest size that counts.
"""

from functools import cache

import torch

LARGEST = 32 << 20
"""The bytes of the largest block that GNU's C library learns from: DEFAULT_MMAP_THRESHOLD_MAX, a header included."""


@cache
def keep_freed() -> None:
    """Have freed memory kept for what comes next: up to 64 MiB at the end of the heap, and what is between used blocks.

    It holds for all of the process, and the first call does it, when the first kind of op is recorded. The block is
    never written to, so it takes no memory. Where MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ is set, or another
    allocator is in use, nothing changes.
    """
    # No tensor: inside of a FakeTensorMode that would have no memory.
    torch.UntypedStorage(LARGEST - (64 << 10))  # type: ignore[no-untyped-call]

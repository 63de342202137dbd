"""Make GNU's C library keep the memory that a training step frees, for the next step.

Each step of a training loop asks for the memory that the previous step freed. GNU's C library returns the free memory
at the end of its heap to the system once it is more than twice the largest block that was ever freed. The system then
hands it out again page by page, and clears each page. A step of an LSTM can have 4,000 such page faults, which take
half of its time. The library expects blocks as large as those that it has freed (``man mallopt``, M_MMAP_THRESHOLD,
"dynamic"). So this module makes and frees one block of the largest size that counts.
"""

from functools import cache

import torch

LARGEST = 32 << 20
"""The bytes of the largest block that GNU's C library learns from: DEFAULT_MMAP_THRESHOLD_MAX, a header included."""


@cache
def keep_freed() -> None:
    """Let the allocator keep freed memory: up to 64 MiB at the end of the heap, and all between used blocks.

    The effect is for the whole process. Only the first call does anything: it comes when the first op is recorded. The
    block is never written to, so it takes no memory. Where MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ is set, or
    another allocator is in use, nothing changes.
    """
    # A storage, not a tensor: inside of a FakeTensorMode a tensor would have no memory.
    torch.UntypedStorage(LARGEST - (64 << 10))  # type: ignore[no-untyped-call]

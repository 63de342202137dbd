"""A case that does not end well: what stands for ``opdb.check`` where the tests ask what becomes of the others."""

import os
import time
from typing import Any

from tests.core.result import Result


def nothing() -> None:
    """A process of ``unruly`` has nothing to prepare."""


def unruly(case: str, *_: Any) -> Result:
    """In a process of its own: dies, hangs, raises, or is well."""
    if case == "dies":
        # In the midst of its work, as a case would: where a process dies within milliseconds of being given one, a busy
        # pool sees the death before the messages, and takes it for that of the case before, or of all.
        time.sleep(1)
        os._exit(3)
    if case == "hangs":
        time.sleep(60)
    if case == "raises":
        raise LookupError("no samples")
    return Result(case, {"value": (1, 1)}, (1, 1))

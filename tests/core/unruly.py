"""Cases that end badly. They stand in for ``opdb.check``, to test what becomes of the other cases."""

import os
import time
from typing import Any

from tests.core.result import Result


def nothing() -> None:
    """A process of ``unruly`` has nothing to prepare."""


def unruly(case: str, *_: Any) -> Result:
    """A case in its own process: it dies, hangs, raises, or returns."""
    if case == "dies":
        # It dies in the middle of its work, as a real case would. If a process dies within milliseconds of getting a
        # case, a busy pool sees the death before the messages. It then blames the case before, or all cases.
        time.sleep(1)
        os._exit(3)
    if case == "hangs":
        time.sleep(60)
    if case == "raises":
        raise LookupError("no samples")
    return Result(case, {"value": (1, 1)}, (1, 1))

"""Coroutines in tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def finished(main: Coroutine[Any, Any, T]) -> T:
    """What ``main`` returns, run in a thread of its own: in that of the tests Playwright may keep a loop running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, main).result()

"""Coroutines in tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def finished(main: Coroutine[Any, Any, T]) -> T:
    """The result of ``main``, run in its own thread: in the tests' thread Playwright may already run an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, main).result()

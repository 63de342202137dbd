"""Functions that run without the garbage collector restore its state, even if several run at a time."""

import gc
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from nbgrad.core import no_gc
from nbgrad.core.no_gc import uncollected


@pytest.mark.parametrize("on", [True, False])
def test_a_function_inside_another_leaves_it_off(on: bool) -> None:
    found: list[bool] = []

    @uncollected
    def inner() -> None:
        found.append(gc.isenabled())

    @uncollected
    def outer() -> None:
        inner()
        found.append(gc.isenabled())

    (gc.enable if on else gc.disable)()
    try:
        outer()
        assert gc.isenabled() == on
    finally:
        gc.enable()
    assert found == [False, False]


@pytest.mark.parametrize("first", [0, 1])
def test_functions_in_two_threads_leave_it_on(first: int) -> None:
    begun, ends = (Event(), Event()), (Event(), Event())

    @uncollected
    def work(number: int) -> None:
        begun[number].set()
        ends[number].wait()

    threads = [Thread(target=work, args=(number,)) for number in (0, 1)]
    for number, thread in enumerate(threads):
        thread.start()
        begun[number].wait()
    for number in (first, 1 - first):
        ends[number].set()
        threads[number].join()
    assert gc.isenabled()


def test_one_that_ends_while_another_begins_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread runs right after the check, and switches the collector on for good."""

    def asked() -> bool:
        gc.enable()
        return False

    monkeypatch.setattr(no_gc, "gc", SimpleNamespace(isenabled=asked, enable=gc.enable, disable=gc.disable))
    gc.disable()
    try:
        uncollected(int)()
        assert gc.isenabled()
    finally:
        gc.enable()

"""How long each stage takes until a picture is there: ``%%autograd --stages`` prints it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

STAGES = ("close", "describe", "fold", "place", "render", "send")
"""The stages in their order. Each is timed without the stages inside it."""

_timed: ContextVar[dict[str, float] | None] = ContextVar("nbgrad.stages", default=None)


@contextmanager
def timed(seconds: dict[str, float] | None) -> Iterator[None]:
    """Add the seconds of each stage of a block to this dictionary. With None nothing is measured."""
    token = _timed.set(seconds)
    try:
        yield
    finally:
        _timed.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A block, or a function that this decorates, is this stage."""
    if (seconds := _timed.get()) is None:
        yield
        return
    begin, before = perf_counter(), sum(seconds.values())
    try:
        yield
    finally:
        inside = sum(seconds.values()) - before
        seconds[name] = seconds.get(name, 0.0) + perf_counter() - begin - inside


def told(seconds: dict[str, float]) -> str:
    """The line about the stages that were measured."""
    each = ", ".join(f"{name} {1e3 * seconds[name]:.1f} ms" for name in STAGES if name in seconds)
    return f"stages: {each}; together {1e3 * sum(seconds.values()):.1f} ms"

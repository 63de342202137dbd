"""Totals of a graph, in few letters for the line of its title: parameters, time and bytes."""

from math import prod

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.memory import MemoryUse
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import duration
from nbgrad.widgets.description.living_bytes import least_of, short_bytes, worth_a_word
from nbgrad.widgets.description.overlays import is_whole, times_of

_EXACT = 100_000
"""Of more numbers than this only the first digits are written."""


def totals(graph: AutogradGraph, records: list[Record], memory: MemoryUse | None) -> str:
    """The numbers in the parameters, the bytes kept for the backward and the time of all ops, as far as known."""
    learned = [prod(record.shape) for record in records if record.kind == "parameter"]
    parts = [translate("{short_count} parameters", short_count=short_count(sum(learned)))] if learned else []
    if times := times_of(graph):
        took = duration(sum(one.seconds for one in times.values()))
        parts.append(took if is_whole(records) else translate("{took} on the CPU", took=took))
    if memory is not None and worth_a_word(memory):
        parts.append(
            translate(
                "{least_of}{short_bytes} kept for the backward",
                least_of=least_of(memory.whole),
                short_bytes=short_bytes(memory.total),
            )
        )
    return ", ".join(parts)


def short_count(many: int) -> str:
    """A number of things in few letters: 1,204 or 124 M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if many >= max(size, _EXACT):
            return f"{many / size:.3g} {unit}"
    return f"{many:,}"

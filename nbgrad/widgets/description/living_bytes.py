"""The bytes that live in a step, as plain data: what a backward needs, by node, and the timeline of a picture."""

from math import log10

from nbgrad.core.graph.memory import PARTS, MemoryUse, Timeline, byte_text
from nbgrad.core.translation import translate
from nbgrad.widgets.description.schema import KeptBytes, MemoryTimeline

_WORTH, _LARGE = 1 << 14, 1 << 10
"""If a backward needs fewer bytes than the first, or no storage as large as the second, a picture is silent about the
whole: a lesson with ten numbers is read for other things, also if it has a long loop."""

_COLUMNS = 80
"""The forward and the backward have at most this many columns each."""


def worth_a_word(memory: MemoryUse | None) -> bool:
    """Whether a picture says how much memory the whole needs."""
    return memory is not None and memory.total >= _WORTH and any(one.size >= _LARGE for one in memory.storages)


def kept_bytes(memory: MemoryUse | None, ids: dict[int, str]) -> KeptBytes:
    """The storages that the nodes keep, as far as they are known; ``ids`` has the id of the node of each record."""
    if memory is None:
        return KeptBytes(sizes=[], nodes={}, hidden=[])
    nodes = {ids[id]: sorted(set(memory.numbers_of(id))) for id in memory.values if id in ids}
    hidden = [ids[id] for id in sorted(memory.kept.hidden) if id in ids]
    return KeptBytes(sizes=[one.size for one in memory.storages], nodes=nodes, hidden=hidden)


def least_of(whole: bool) -> str:
    """The words before a number of bytes that may not be the ``whole``: torch does not show what some ops keep."""
    return "" if whole else translate("at least ")


def short_bytes(size: int) -> str:
    """A number of bytes in few letters, for a line of a box: 2.4 MiB, 144 KiB."""
    digits, unit = byte_text(size).split()
    number = float(digits)
    return f"{number:.1f} {unit}" if number < 10 and unit != "B" else f"{number:.0f} {unit}"


def bytes_level(size: int, sizes: list[int]) -> float:
    """The level of ``size`` on the logarithmic scale from the smallest to the largest of ``sizes``, at most 1."""
    known = [one for one in sizes if one]
    low, high = log10(min(known)), log10(max(known))
    return round(min((log10(size) - low) / (high - low), 1.0), 2) if high > low else 1.0


def timeline(memory: MemoryUse | None, ids: dict[int, str], *, drawn: bool) -> tuple[MemoryTimeline | None, list[str]]:
    """The timeline of a picture, if it is worth a word, and the nodes of its columns; only text, unless ``drawn``."""
    if memory is None or not worth_a_word(memory):
        return None, []
    least = least_of(memory.whole)
    text = translate("{least}{byte_text} kept for the backward", least=least, byte_text=byte_text(memory.total))
    if memory.allocated is not None:
        text += translate(", and {byte_text} allocated on the GPU as it began", byte_text=byte_text(memory.allocated))
    moments = memory.timeline if drawn else Timeline()
    forward = Timeline([one for one in moments if not one.backward]).thinned(_COLUMNS)
    shown = [*forward, *Timeline([one for one in moments if one.backward]).thinned(_COLUMNS)]
    if (peak := moments.peak) is not None:
        when = translate("the backward of {op}", op=peak.op) if peak.backward else peak.op
        text += translate(
            "; {least}{byte_text} live at once, at {when}",
            least=least or translate("at most "),
            byte_text=byte_text(peak.total),
            when=when,
        )
    made = MemoryTimeline(
        text=text,
        line=moments.line,
        parts=[translate(part) for part in PARTS],
        ops=[one.op for one in shown],
        sizes=[[getattr(one, part) for one in shown] for part in PARTS],
        forward=len(forward),
        peak=max(range(len(shown)), key=lambda at: shown[at].total, default=0),
    )
    return made, [ids.get(one.id, "") for one in shown]

"""Overlays, which colour and size the nodes."""

from collections import defaultdict
from collections.abc import Callable
from math import isfinite, log10, prod

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.memory import byte_text
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.slowest import Times
from nbgrad.core.graph.stats import SAMPLE
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.code import codes
from nbgrad.widgets.description.format import duration, number
from nbgrad.widgets.description.rank_overlays import buckets_of, rank_details, spreads_of
from nbgrad.widgets.description.saved_values import Saved
from nbgrad.widgets.description.schema import Detail, Overlay

Levels = defaultdict[int, dict[str, float]]

OWN = "own"
"""The keys of the overlays of users and of comparisons begin with this."""


def overlays(graph: AutogradGraph, records: list[Record], saved: dict[int, Saved]) -> tuple[list[Overlay], Levels]:
    """The overlays of a graph, the user's last, and the levels of each record, by id."""
    levels: Levels = defaultdict(dict)
    norms = {record.id: record.gradient.norm for record in records if record.gradient is not None}
    ratios = {
        record.id: norms[record.id] / record.value.norm
        for record in records
        if record.kind in ("parameter", "leaf")
        and record.id in norms
        and record.value is not None
        and record.value.norm
    }
    step, known = graph.update, {record.id for record in records}
    updates = {} if step is None else {id: ratio for id, ratio in step.ratios.items() if id in known}
    missing = "" if updates else translate("; no step was measured")
    seconds = {id: one.seconds for id, one in times_of(graph).items()}
    sizes = {id: float(kept.size) for id, kept in saved.items() if kept.size}
    found = [
        scaled("gradient", translate("gradient norm (log)"), norms, number, levels),
        scaled("ratio", translate("gradient to weight{missing} (log)", missing=missing), ratios, number, levels),
        scaled("update", translate("update to weight{after} (log)", after=_after(graph)), updates, number, levels),
        scaled(
            "saved", translate("bytes kept for the backward (log)"), sizes, lambda size: byte_text(int(size)), levels
        ),
        scaled(
            "time", translate("{clock}, forward and backward (log)", clock=clock(records)), seconds, duration, levels
        ),
        scaled("spread", translate("spread of gradients over ranks (log)"), spreads_of(graph), number, levels),
        classes("bucket", translate("bucket"), buckets_of(graph), levels),
        classes("dtype", "dtype", {record.id: dtype_name(record.dtype) for record in records}, levels),
        classes("device", translate("device"), {record.id: str(record.device) for record in records}, levels),
    ]
    for at, own in enumerate(graph.overlays.values()):
        numbers = {id: value for id, value in own.numbers.items() if id in known}
        scale = scaled if own.log else linear
        found.append(scale(f"{OWN}{at}", own.name + " (log)" * own.log, numbers, number, levels))
    return [overlay for overlay in found if overlay is not None], levels


PARTS = {"forward": message("forward"), "backward": message("backward")}
"""The words for the parts of a time, by the field of ``Times``."""


def measured(graph: AutogradGraph, records: list[Record]) -> list[list[Detail]]:
    """The other measurements of each record, and its name in the code, for the inspector."""
    ratios = {} if graph.update is None else graph.update.ratios
    times = times_of(graph)
    whole = sum([one.seconds for one in times.values()]) or 1.0
    ranks = rank_details(graph)
    own, code = graph.overlays.values(), codes(graph, records)
    found: list[list[Detail]] = []
    for record in records:
        found.append(
            [Detail(term=one.name, text=number(one.numbers[record.id])) for one in own if record.id in one.numbers]
        )
        if (name := code.get(record.id)) is not None:
            found[-1].append(Detail(term=translate("in your code"), text=name, role="code"))
        if record.id in ranks:
            found[-1].append(ranks[record.id])
        if (ratio := ratios.get(record.id)) is not None:
            size = prod(record.shape)
            part = translate(", of {SAMPLE:,} of {size:,} numbers", SAMPLE=SAMPLE, size=size) if size > SAMPLE else ""
            text = translate(
                "changed it by {ratio} of its norm{after}{part}", ratio=number(ratio), after=_after(graph), part=part
            )
            found[-1].append(Detail(term=translate("step"), text=text, role="gradient"))
        if (took := times.get(record.id)) is not None:
            parts = [
                f"{translate(PARTS[part])} {duration(seconds)}"
                for part, seconds in took._asdict().items()
                if seconds is not None
            ]
            text = translate("{names}; {seconds:.1%} of all", names=", ".join(parts), seconds=took.seconds / whole)
            found[-1].append(Detail(term=clock([record]), text=text))
    return found


def clock(records: list[Record]) -> str:
    """The name of the measured time. Of a device with a queue of its own that is not CUDA, the CPU's part is known."""
    return translate("time") if is_whole(records) else translate("time on the CPU")


def is_whole(records: list[Record]) -> bool:
    """Whether the measured times have the part of the device, too."""
    return all(record.device.type in ("cpu", "cuda") for record in records)


def times_of(graph: AutogradGraph) -> dict[int, Times]:
    """The times of each record, if they were measured."""
    return graph.times if isinstance(graph, TimedGraph) else {}


def _after(graph: AutogradGraph) -> str:
    """After which backward the step was measured, if that was not the last one."""
    step = graph.update
    last = graph.frame
    return (
        ""
        if step is None or (last is not None and step.number == last.number)
        else translate(" after backward {number}", number=step.number)
    )


def scaled(
    key: str, label: str, values: dict[int, float], text: Callable[[float], str], levels: Levels
) -> Overlay | None:
    """A logarithmic scale from the smallest to the largest of ``values``; zeros stand at its low end."""
    sound = [value for value in values.values() if isfinite(value) and value > 0]
    if not sound:
        return None
    low, high = log10(min(sound)), log10(max(sound))
    for id, value in values.items():
        if not isfinite(value):
            levels[id][key] = 1.0
        else:
            level = 0.0 if value <= 0 else (log10(value) - low) / (high - low) if high > low else 0.5
            levels[id][key] = round(level, 2)
    return Overlay(key=key, label=label, low=text(min(sound)), high=text(max(sound)), classes=[])


def linear(
    key: str, label: str, values: dict[int, float], text: Callable[[float], str], levels: Levels
) -> Overlay | None:
    """An even scale from the smallest to the largest of ``values``."""
    sound = [value for value in values.values() if isfinite(value)]
    if not sound:
        return None
    low, high = min(sound), max(sound)
    for id, value in values.items():
        # Halves: the distance of two finite numbers may be infinite.
        level = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        levels[id][key] = round(level, 2) if isfinite(value) else 1.0
    return Overlay(key=key, label=label, low=text(low), high=text(high), classes=[])


def classes(key: str, label: str, values: dict[int, str], levels: Levels) -> Overlay | None:
    """A legend of all ``values``, in the order in which they come."""
    names = list(dict.fromkeys(values.values()))
    places = {name: float(place) for place, name in enumerate(names)}
    for id, value in values.items():
        levels[id][key] = places[value]
    return Overlay(key=key, label=label, low="", high="", classes=names) if names else None

"""The ranks of a process group in the view: two overlays, lines for the inspector, and notes."""

from math import isfinite

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.memory import byte_text
from nbgrad.core.graph.ranks import RankedBucket, RankedParameter, Ranks, numbers_text
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import counted, duration, number
from nbgrad.widgets.description.schema import Detail

MANY = 8
"""All buckets after this many share one name: an overlay can show only a few classes."""

_NOTABLE = 0.01
"""Ranks that wait less than so many seconds for another are not worth a sentence."""


def compared(graph: AutogradGraph) -> Ranks | None:
    """The ranks of ``graph``; None where it compares none, is still open, or a process has told nothing."""
    recorder = graph.rank_recorder
    if recorder is None or not graph.closed:
        return None
    try:
        return recorder.ranks()
    except RuntimeError:
        return None  # ``rank_notes`` has the reason


def buckets_of(graph: AutogradGraph) -> dict[int, str]:
    """By the id of the record of each parameter, the bucket that its gradient travels in."""
    ranks = compared(graph)
    if ranks is None or graph.rank_recorder is None:
        return {}
    return {id: _named(ranks.buckets[one.bucket]) for id, one in graph.rank_recorder.places}


def spreads_of(graph: AutogradGraph) -> dict[int, float]:
    """By the id of the record of each parameter, the spread of its gradient over the ranks."""
    if compared(graph) is None or graph.rank_recorder is None:
        return {}
    return {id: one.spread for id, one in graph.rank_recorder.places}


def rank_details(graph: AutogradGraph) -> dict[int, Detail]:
    """By the id of the record of each parameter, the line of the inspector."""
    ranks = compared(graph)
    if ranks is None or graph.rank_recorder is None:
        return {}
    return {
        id: Detail(
            term="ranks",
            text=f"{_parameter_text(one)}; {_bucket_text(ranks.buckets[one.bucket], ranks)}",
            role="gradient",
        )
        for id, one in graph.rank_recorder.places
    }


def rank_notes(graph: AutogradGraph) -> list[str]:
    """The text above the picture: which rank is drawn, or why ranks are not compared."""
    if graph.rank_recorder is None or not graph.closed:
        return []
    try:
        ranks = graph.rank_recorder.ranks()
    except RuntimeError as error:
        return [f"{error}."]
    sent = sum(bucket.bytes for bucket in ranks.buckets)
    text = translate(
        "Rank {rank} of {size}. It sent {byte_text} in {buckets}.",
        rank=ranks.rank,
        size=ranks.size,
        byte_text=byte_text(sent),
        buckets=counted(len(ranks.buckets), "bucket"),
    )
    if ranks.widest.spread:
        text += translate(
            " Before averaging, the gradients of the ranks had the norms {numbers_text}. Those of "
            "{name} differ most, with a spread of {spread}.",
            numbers_text=numbers_text(ranks.norms),
            name=ranks.widest.name,
            spread=_spread(ranks.widest),
        )
    else:
        text += translate(" Before averaging, the gradients were equal in all ranks.")
    slow = max(ranks.buckets, key=lambda one: max(one.waits or (0.0,)))
    if slow.waits is not None and max(slow.waits) >= _NOTABLE:
        text += translate(
            " In bucket {number}, the others waited for rank {last} up to {duration}.",
            number=slow.number,
            last=slow.last,
            duration=duration(max(slow.waits)),
        )
    return [text, *[f"{one[0].upper()}{one[1:]}{'' if one.endswith('?') else '.'}" for one in ranks.faults()]]


def _named(bucket: RankedBucket) -> str:
    if bucket.number >= MANY:
        return translate("bucket {MANY} and later", MANY=MANY)
    return translate("bucket {number}, {byte_text}", number=bucket.number, byte_text=byte_text(bucket.bytes))


def _spread(one: RankedParameter) -> str:
    if isfinite(one.spread):
        return number(one.spread)
    return translate(
        "infinity, as they {more}",
        more=translate("cancel out") if all(map(isfinite, one.norms)) else translate("are not all finite"),
    )


def _parameter_text(one: RankedParameter) -> str:
    if not one.spread:
        return translate("equal gradients, of norm {average}", average=number(one.average))
    return translate(
        "norms {numbers_text}, average {average}, spread {spread}",
        numbers_text=numbers_text(one.norms),
        average=number(one.average),
        spread=_spread(one),
    )


def _bucket_text(bucket: RankedBucket, ranks: Ranks) -> str:
    text = translate(
        "bucket {number} of {count}, {byte_text}",
        number=bucket.number,
        count=len(ranks.buckets),
        byte_text=byte_text(bucket.bytes),
    )
    if bucket.last is None or not bucket.waits:
        return text
    return translate(
        "{text}, waited for rank {last} up to {duration}",
        text=text,
        last=bucket.last,
        duration=duration(max(bucket.waits)),
    )

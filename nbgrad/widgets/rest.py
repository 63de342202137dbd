"""What is written of those nodes and edges alone that are drawn: details, heat maps, the first sums of a reduction.

To write them of everything takes ten times as long as all that folding asks of an outline.
"""

import copyreg
import pickle
import zlib
from operator import attrgetter
from typing import Any

from nbgrad.core.frame import Stats
from nbgrad.widgets.collecting import uncollected
from nbgrad.widgets.description import Description

_fields = attrgetter(*Stats.__slots__)
copyreg.pickle(Stats, lambda stats: (Stats, _fields(stats)))  # five times as fast as a frozen dataclass does it


def written(outline: Description) -> Description:
    """The description with all that its nodes and edges say; what says it already stays as it is."""
    return _with_rests(outline, _written)


@uncollected()
def put_away(outline: Description) -> bytes:
    """An outline in a few bytes, which hold no tensor and nothing of its graph.

    Each rest is pickled by itself: who takes the outline out again reads those alone of what is drawn.
    """
    return zlib.compress(pickle.dumps(_with_rests(outline, _small), pickle.HIGHEST_PROTOCOL), 6)


@uncollected()
def taken_out(data: bytes) -> Description:
    """The outline in such bytes."""
    outline: Description = pickle.loads(zlib.decompress(data))
    return outline


def _written(thing: Any) -> Any:
    thing = thing.copy()
    rest = thing.pop("rest")
    return thing | (pickle.loads(rest) if isinstance(rest, bytes) else rest).written()


def _small(thing: Any) -> Any:
    return {**thing, "rest": pickle.dumps(thing["rest"].small(), pickle.HIGHEST_PROTOCOL)}


def _with_rests(outline: Description, change: Any) -> Description:
    """With another node in the place of every one that has a rest, and another reduction."""
    nodes = [change(node) if "rest" in node else node for node in outline["nodes"]]
    edges = [
        {**edge, "reduction": change(edge["reduction"])} if edge["reduction"] and "rest" in edge["reduction"] else edge
        for edge in outline["edges"]
    ]
    return {**outline, "nodes": nodes, "edges": edges}  # type: ignore[typeddict-item]

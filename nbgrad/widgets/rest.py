"""What is written of those nodes and edges alone that are drawn: details, heat maps, the first sums of a reduction.

To write them of everything takes ten times as long as all that folding asks of an outline.
"""

import copyreg
import pickle
import zlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from nbgrad.core.collecting import uncollected
from nbgrad.core.stats import Stats
from nbgrad.widgets.description import Description

_TOGETHER = 64
"""So many rests are inflated together: the nodes of one module stand side by side, and others stay as they are."""

_fields = attrgetter(*Stats.__slots__)
copyreg.pickle(Stats, lambda stats: (Stats, _fields(stats)))  # five times as fast as a frozen dataclass does it


def written(outline: Description) -> Description:
    """The description with all that its nodes and edges say; what says it already stays as it is."""
    shelves: Any = outline.get("shelves")

    def told(thing: Any) -> Any:
        thing = thing.copy()
        rest = thing.pop("rest")
        return thing | (rest if shelves is None else shelves[rest]).written()

    whole: Any = _with_rests(outline, told)
    for beside in ("shelves", "runs"):
        whole.pop(beside, None)
    return whole  # type: ignore[no-any-return]  # with its rests written it is a description


@uncollected()
def put_away(outline: Description) -> bytes:
    """An outline in a few bytes, which hold no tensor and nothing of its graph.

    The rests lie beside it, each pickled by itself: who takes the outline out again reads those alone of what is drawn.
    """
    rests: list[bytes] = []

    def laid(thing: Any) -> Any:
        rests.append(_pickled(thing["rest"].small()))
        return {**thing, "rest": len(rests) - 1}

    bare = _with_rests(outline, laid)
    shelves = [rests[at : at + _TOGETHER] for at in range(0, len(rests), _TOGETHER)]
    return _pickled([zlib.compress(_pickled(part), 6) for part in (bare, *shelves)])


@uncollected()
def taken_out(data: bytes) -> Description:
    """The outline in such bytes."""
    bare, *shelves = pickle.loads(data)
    outline: Any = pickle.loads(zlib.decompress(bare))
    outline["shelves"] = _Shelves(shelves)
    return outline  # type: ignore[no-any-return]  # it was one when it was put away


class _Shelves:
    """The rests of an outline that was put away, by their numbers."""

    def __init__(self, deflated: list[bytes]) -> None:
        self._deflated = deflated
        self._open: tuple[int, list[bytes]] = (-1, [])

    def __getitem__(self, number: int) -> Any:
        shelf, place = divmod(number, _TOGETHER)
        if self._open[0] != shelf:
            self._open = shelf, pickle.loads(zlib.decompress(self._deflated[shelf]))
        return pickle.loads(self._open[1][place])


def _pickled(thing: object) -> bytes:
    return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)


def _with_rests(outline: Description, change: Callable[[Any], Any]) -> Description:
    """With another node in the place of every one that has a rest, and another reduction."""
    nodes = [change(node) if "rest" in node else node for node in outline["nodes"]]
    edges = [
        {**edge, "reduction": change(edge["reduction"])} if edge["reduction"] and "rest" in edge["reduction"] else edge
        for edge in outline["edges"]
    ]
    return {**outline, "nodes": nodes, "edges": edges}  # type: ignore[typeddict-item]  # a change may give anything

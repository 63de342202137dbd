"""The parts of a description that only drawn nodes, edges and steps need: details, heat maps, sums, contributions.

Writing them for everything takes ten times as long as all that folding needs of an outline.
"""

import pickle
import zlib
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from nbgrad.core.graph.no_gc import uncollected
from nbgrad.core.graph.stats import Stats
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.tensor_summary import seen, smaller
from nbgrad.widgets.description.walk import ran, steps

_TOGETHER = 64
"""So many rests are inflated together: the nodes of one module stand side by side, and others stay as they are."""

_fields = attrgetter(*Stats.__slots__)


def written(outline: Description) -> Description:
    """The description with all that its nodes, edges and steps say; what says it already stays as it is."""
    deflated: Any = outline.get("shelves")
    shelves = None if deflated is None else _Shelves(deflated)

    known: dict[int, Any] = {}

    def rest(thing: Any) -> Any:
        rest = thing.pop("rest")
        return rest if shelves is None else shelves[rest]

    def told(thing: Any) -> Any:
        thing = thing.copy()
        return thing | {key: seen(said) for key, said in rest(thing).told().items()}

    def step_of(thing: Any) -> Any:
        place = id(thing["rest"])  # which a step shares with all that its op handed on
        said = rest(thing)
        if place not in known:
            known[place] = said.step()
        return known[place]

    def handed_on(given: Any) -> Any:
        given = given.copy()
        return given | step_of(given)["given"][given.pop("of")]

    def stepped(step: Any) -> Any:
        if "rest" not in step:
            return step
        step = step.copy()
        says = step_of(step)
        given = [handed_on(one) for one in step["given"]]
        return step | {"title": step["title"] or says["title"], "incoming": says["incoming"], "given": given}

    whole: Any = {**_with_rests(outline, told), "steps": [stepped(step) for step in steps(outline)]}
    for beside in ("shelves", "runs"):
        whole.pop(beside, None)
    return whole  # type: ignore[no-any-return]  # with its rests written it is a description


@uncollected
def put_away(outline: Description) -> bytes:
    """An outline in a few bytes, which hold no tensor and nothing of its graph.

    The rests lie beside it, so that who takes the outline out again reads those alone of what is drawn.
    """
    rests: list[dict[str, Any]] = []

    def laid(thing: Any) -> Any:
        rest = thing["rest"]
        rests.append({key: _packed(said) for key, said in rest.told().items()})
        if "rule" in thing and ran(thing):
            rests[-1]["step"] = rest.step()
        return {**thing, "rest": len(rests) - 1}

    bare = _with_rests(outline, laid)
    shelves = [rests[at : at + _TOGETHER] for at in range(0, len(rests), _TOGETHER)]
    return _pickled([zlib.compress(_pickled(part), 6) for part in (bare, *shelves)])


@uncollected
def taken_out(data: bytes) -> Description:
    """The outline in such bytes."""
    bare, *shelves = pickle.loads(data)
    outline: Any = pickle.loads(zlib.decompress(bare))
    outline["shelves"] = shelves
    return outline  # type: ignore[no-any-return]  # it was one when it was put away


class _Shelves:
    """The rests of an outline that was put away, by their numbers; those that lie together are inflated once."""

    def __init__(self, deflated: list[bytes]) -> None:
        self._deflated = deflated
        self._open: dict[int, list[dict[str, Any]]] = {}

    def __getitem__(self, number: int) -> "_StoredRest":
        shelf, place = divmod(number, _TOGETHER)
        if shelf not in self._open:
            self._open[shelf] = pickle.loads(zlib.decompress(self._deflated[shelf]))
        return _StoredRest(self._open[shelf][place])


class _StoredRest:
    """A rest that was put away."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    def told(self) -> dict[str, Any]:
        """What the node or the reduction says."""
        return {key: _unpacked(said) for key, said in self._said.items() if key != "step"}

    def step(self) -> dict[str, Any]:
        """What the step of the node says."""
        step: dict[str, Any] = self._said["step"]
        return step


def _pickled(thing: object) -> bytes:
    return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)


def _packed(said: Any) -> Any:
    """Statistics as the tuple of their fields, or as what is seen of them where that is less.

    The lowest and the highest number are left out where the numbers tell them; of two zeros nobody knows which it was.
    """
    said = smaller(said)
    if not isinstance(said, Stats):
        return said
    known = said.raw is not None and not (said.nan or said.inf or said.magnitudes) and said.low and said.high
    return _fields(replace(said, low=None, high=None) if known else said)


def _unpacked(said: Any) -> Any:
    if not isinstance(said, tuple):
        return said
    stats = Stats(*said)
    if stats.mean is None or stats.low is not None:
        return stats
    array = stats.array
    assert array is not None
    return replace(stats, low=float(array.min()), high=float(array.max()))


def _with_rests(outline: Description, change: Callable[[Any], Any]) -> Description:
    """With another node in the place of every one that has a rest, and another reduction."""
    nodes = [change(node) if "rest" in node else node for node in outline["nodes"]]
    edges = [
        {**edge, "reduction": change(edge["reduction"])} if edge["reduction"] and "rest" in edge["reduction"] else edge
        for edge in outline["edges"]
    ]
    return {**outline, "nodes": nodes, "edges": edges}  # type: ignore[typeddict-item]  # a change may give anything

"""The backwards that a graph remembers, as what can be scrubbed through, drawn as curves and compared."""

from typing import NamedTuple

import numpy as np

from nbgrad.core.graph import AutogradGraph
from nbgrad.core.history import HistoryFrame, HistoryRecord
from nbgrad.widgets.description import Curve, Difference, Frame, History
from nbgrad.widgets.facts import Fact
from nbgrad.widgets.wording import number

CURVES = 40
"""How many parameters have a curve: the first ones."""

_COMPARED = 8
"""Structures further apart than this are not compared: a loop that changes its graph in every step has many."""

_WRITTEN = 12_000
"""With more norms than this in all frames, those of parameters and leaves alone are written out."""

NONE: History = {"frames": [], "curves": [], "low": "", "high": "", "differences": []}


class Past(NamedTuple):
    """The history of a graph, and for each record the norms in all frames, as text and as levels."""

    history: History
    norms: dict[int, list[str]]
    levels: dict[int, str]


def past(graph: AutogradGraph, facts: list[Fact], ids: dict[int, str]) -> Past:
    """What the frames of ``graph`` say of ``facts``, which are those of the last one."""
    frames = list(graph.history) if graph.backwards > 1 else []
    if len(frames) < 2 or len(frames[-1].records) != len(facts):
        return Past(NONE, {}, {})
    structures = _structures(frames)
    table = np.array([_row(frame, frames[-1], structures[at] == structures[-1]) for at, frame in enumerate(frames)])
    scale = _Scale(table)
    learned = [at for at, fact in enumerate(facts) if fact.kind in ("parameter", "leaf")]
    written = range(len(facts)) if table.size <= _WRITTEN else learned
    history = History(
        frames=[
            Frame(title=str(frame), structure=structure) for frame, structure in zip(frames, structures, strict=True)
        ],
        curves=[
            _curve(facts[at], ids[facts[at].id], table[:, at].tolist(), scale.heights(at)) for at in learned[:CURVES]
        ],
        low=number(scale.low),
        high=number(scale.high),
        differences=_differences(frames, structures),
    )
    norms = {facts[at].id: ["" if np.isnan(norm) else number(norm) for norm in table[:, at].tolist()] for at in written}
    letters = scale.letters()
    return Past(history, norms, {fact.id: letters[at] for at, fact in enumerate(facts)})


def _structures(frames: list[HistoryFrame]) -> list[int]:
    """For each frame which structure it has, counted from 0 in the order in which they first came."""
    known: dict[object, int] = {}
    return [
        known.setdefault(tuple((one.kind, one.op, one.shape, one.scopes) for one in frame.records), len(known))
        for frame in frames
    ]


def _row(frame: HistoryFrame, last: HistoryFrame, alike: bool) -> list[float]:
    """The norms of one frame at the positions of the last one; NaN where there is none."""
    if alike:
        return [_norm(record) for record in frame.records]
    position = {id(record): at for at, record in enumerate(last.records)}
    row = [float("nan")] * len(last.records)
    for was, now in frame.diff(last).same:
        row[position[id(now)]] = _norm(was)
    return row


def _norm(record: HistoryRecord) -> float:
    return float("nan") if record.gradient is None else record.gradient


class _Scale:
    """One logarithmic scale for all norms in all frames."""

    def __init__(self, table: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> None:
        sound = table[np.isfinite(table) & (table > 0)]
        self.low, self.high = (float(sound.min()), float(sound.max())) if sound.size else (1.0, 1.0)
        width = np.log10(self.high / self.low) or 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = (np.log10(table) - np.log10(self.low)) / width
        heights = np.where(table == 0, 0.0, np.where(np.isinf(table), 1.0, heights))
        self._heights = heights

    def heights(self, at: int) -> list[float | None]:
        """Of one column, from 0 to 1; None where there is no norm."""
        return [None if np.isnan(height) else round(height, 3) for height in self._heights[:, at].tolist()]

    def letters(self) -> list[str]:
        """For each column a character for each frame."""
        steps = np.where(np.isnan(self._heights), 0, np.rint(np.nan_to_num(self._heights) * 25) + ord("A"))
        bytes_ = np.where(steps == 0, ord("-"), steps).astype(np.uint8)
        return [bytes(column).decode() for column in bytes_.T]


def _curve(fact: Fact, node: str, norms: list[float], heights: list[float | None]) -> Curve:
    scopes = f"{fact.scope.label}: " if fact.scope is not None else ""
    known = [norm for norm in norms if np.isfinite(norm)]
    text = "no gradient"
    if known:
        first, last = known[0], known[-1]
        text = f"{number(first)} to {number(last)}"
        if first and last and first != last:
            factor, word = (first / last, "smaller") if last < first else (last / first, "larger")
            text += f", {number(factor)} times {word}"
    return Curve(node=node, label=f"{scopes}{fact.name or fact.kind}", heights=heights, text=text)


def _differences(frames: list[HistoryFrame], structures: list[int]) -> list[Difference]:
    """In words, for each two structures, the ops and tensors that only one has."""
    example = dict(zip(structures, frames, strict=True))
    found = []
    for before, was_frame in example.items():
        for after, now_frame in example.items():
            if 0 < abs(before - after) <= _COMPARED:
                diff = was_frame.diff(now_frame)
                lines = [f"only before: {record}" for record in diff.removed]
                lines += [f"only after: {record}" for record in diff.added]
                lines += [f"{was} became {now.shape}" for was, now in diff.reshaped]
                found.append(Difference(before=before, after=after, lines=lines[:200]))
    return found

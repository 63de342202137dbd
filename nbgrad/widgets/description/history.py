"""The history of a graph as plain data: backwards that a picture scrubs through, draws as curves and compares."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame, HistoryRecord
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.schema import Chart, Curve, Difference, Frame, History, Overlay

CURVES = 40
"""At most this many parameters have a curve. If there are more, some are chosen, from small gradients to large ones."""

_COMPARED = 8
"""Structures further apart than this are not compared: a loop that changes its graph in every step has many."""

_WRITTEN = 12_000
"""With more norms than this in all frames, those of parameters and leaves alone are written out."""

GUIDE = 1e-3
"""How far a step usually moves a parameter, relative to its size, if training goes well."""

_UPDATES = message(
    "How much the optimizer step after each backward changed a parameter, relative to its size: ‖update‖ / ‖weight‖"
)

_GUIDED = message(
    " The guide line is at {guide}, a common value: training far above it is often unstable, and far below it slow."
)

POINTS = 256
"""At most this many losses are drawn."""

NONE: History = {"frames": [], "loss": None, "charts": [], "differences": []}

Losses = Mapping[str, Sequence[tuple[int, float | None]]]
"""By the names that tell them apart, losses with the numbers of their backwards."""

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
"""A truth value for each frame."""

Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
"""Numbers by frame and by record of the last frame; NaN where there is no number."""


class Past(NamedTuple):
    """The history of a graph; for each record its norms in all frames, as text and as levels; the overlay of these."""

    history: History
    norms: dict[int, list[str]]
    levels: dict[int, str]
    overlays: list[Overlay]


def frames_of(graph: AutogradGraph, records: list[Record]) -> list[HistoryFrame]:
    """The frames of ``graph`` where there are several, and ``records`` are those of the last one; else none."""
    frames = list(graph.history) if graph.backwards > 1 else []
    if len(frames) < 2 or [(one.kind, one.op, one.shape) for one in frames[-1].records] != list(map(_look, records)):
        return []  # records were taken out, or a backward through other ops failed
    return frames


def past(frames: list[HistoryFrame], records: list[Record], ids: dict[int, str], losses: Losses) -> Past:
    """The numbers of ``frames`` for ``records``, the records of the last frame.

    ``losses`` are those to draw.
    """
    if not frames:
        return Past(NONE, {}, {}, [])
    structures = _structures(frames)
    rows = [_row(frame, frames[-1], structures[at] == structures[-1]) for at, frame in enumerate(frames)]
    learned = [at for at, record in enumerate(records) if record.kind in ("parameter", "leaf")]
    gradients = _table(rows, lambda record: record.gradient)
    other = np.array([one != structures[-1] for one in structures])
    drawn = _spread(learned, gradients)
    updates = _table([[row[at] for at in drawn] for row in rows], lambda record: record.update)
    inner = [at for at, record in enumerate(records) if not record.root]  # a root's gradient is 1 in any case
    scale = _Scale(gradients[:, inner])
    written = range(len(records)) if gradients.size <= _WRITTEN else learned
    labels = [(ids[records[at].id], _whose(records[at])) for at in drawn]
    some = (
        ""
        if len(drawn) == len(learned)
        else translate(
            " Drawn are {count} of {count2}, from small ones to large.", count=len(drawn), count2=len(learned)
        )
    )
    about = translate("The norm of the gradient of each parameter")
    charts = [_chart(translate("gradient norm"), about, _Scale(gradients[:, drawn], between=other), labels, some)]
    if np.isfinite(updates).any():
        empty = np.array([np.isnan(row).all() for row in updates])
        charts.append(
            _chart(
                translate("update / weight"), translate(_UPDATES), _Scale(updates, GUIDE, between=empty), labels, some
            )
        )
    names = {which: name for name, some in losses.items() for which, _ in some}
    history = History(
        frames=[
            _frame(frame, structure, names.get(frame.number, "loss") if len(losses) > 1 else None)
            for frame, structure in zip(frames, structures, strict=True)
        ],
        loss=_loss(frames, losses, [ids[record.id] for record in records if record.root]),
        charts=charts,
        differences=_differences(frames, structures),
    )
    norms = {records[at].id: ["" if np.isnan(norm) else number(norm) for norm in gradients[:, at]] for at in written}
    letters = scale.letters()
    low, high = number(scale.low), number(scale.high)
    overlay = Overlay(key="history", label=translate("history: gradient norm (log)"), low=low, high=high, classes=[])
    return Past(history, norms, {records[at].id: letters[place] for place, at in enumerate(inner)}, [overlay])


def _frame(frame: HistoryFrame, structure: int, loss: str | None) -> Frame:
    made = Frame(number=frame.number, title=str(frame), value=_value(frame), structure=structure)
    return made if loss is None else {**made, "loss": loss}


def root_name(record: Record) -> str:
    """The name of the number from which a backward started: its variable, or its op."""
    return record.name or (record.op.name if record.op is not None else record.kind)


def _loss(frames: list[HistoryFrame], losses: Losses, roots: list[str]) -> Chart | None:
    """A curve for each name of a loss: on a logarithmic scale where they are all above zero and far apart."""
    numbers = sorted({which for some in losses.values() for which, _ in some})
    table = np.full((len(numbers), len(losses)), np.nan)
    for column, some in enumerate(losses.values()):
        own = {which: np.nan if value is None or not np.isfinite(value) else value for which, value in some}
        # Where only another loss has a number, the curve goes straight on.
        between = np.interp(numbers, list(own), list(own.values()), np.nan, np.nan).tolist()
        table[:, column] = [own.get(which, passed) for which, passed in zip(numbers, between, strict=True)]
    there = table[np.isfinite(table)]
    if there.size < 2 or len(roots) != 1:
        return None
    low, high = float(there.min()), float(there.max())
    far = 0 < 10 * low < high
    # The difference of two halves is finite, even if that of the two numbers is not.
    scaled, (first, last) = (np.log10(table), np.log10([low, high])) if far else (table / 2, (low / 2, high / 2))
    heights = np.where(np.isnan(scaled), np.nan, 0.5) if first == last else (scaled - first) / (last - first)
    last = frames[-1].number
    curves = [
        Curve(
            node=roots[0] if some[-1][0] == last else "",
            label=name,
            heights=[None if np.isnan(one) else round(100 * one) for one in heights[:, column].tolist()],
            text=_course([np.nan if value is None else value for _, value in some]),
        )
        for column, (name, some) in enumerate(losses.items())
    ]
    text = translate(
        "The number that each backward started from: from {low} to {high}{more}.",
        low=number(low),
        high=number(high),
        more=" (log)" if far else "",
    )
    return Chart(
        title=translate("loss"),
        text=text,
        low=number(low),
        high=number(high),
        guide=None,
        numbers=[] if numbers == [frame.number for frame in frames] else numbers,
        curves=curves,
    )


def _spread(learned: list[int], gradients: Table) -> list[int]:
    """Which of the ``learned`` are drawn: all of them if they are few.

    Of many, those with the smallest and the largest gradients are drawn, and some between.
    """
    if len(learned) <= CURVES:
        return learned
    ordered = np.argsort(np.nan_to_num(gradients[-1, learned]), kind="stable")
    places = np.linspace(0, len(learned) - 1, CURVES).round().astype(int)
    return [learned[at] for at in sorted(ordered[places].tolist())]


def _value(frame: HistoryFrame) -> str:
    return "" if frame.loss is None else translate("value {loss}", loss=number(frame.loss))


def _look(record: Record) -> tuple[str, str | None, tuple[int, ...]]:
    return record.kind, None if record.op is None else record.op.name, record.shape


def _structures(frames: list[HistoryFrame]) -> list[int]:
    """For each frame which structure it has, counted from 0 in the order in which they first came."""
    known: dict[object, int] = {}
    return [
        known.setdefault(tuple((one.kind, one.op, one.shape, one.scopes) for one in frame.records), len(known))
        for frame in frames
    ]


def _row(frame: HistoryFrame, last: HistoryFrame, alike: bool) -> list[HistoryRecord | None]:
    """The records of ``frame``, at the positions that they have in ``last``; None where it has no such record."""
    if alike:
        return list(frame.records)
    position = {id(record): at for at, record in enumerate(last.records)}
    row: list[HistoryRecord | None] = [None] * len(last.records)
    for was, now in frame.diff(last).same:
        row[position[id(now)]] = was
    return row


def _table(rows: list[list[HistoryRecord | None]], what: Callable[[HistoryRecord], float | None]) -> Table:
    numbers = [[None if record is None else what(record) for record in row] for row in rows]
    return np.array(numbers, dtype=np.float64)  # None becomes NaN


class _Scale:
    """One logarithmic scale for all numbers in all frames, and for a guide if there is one.

    The curves go straight through those of the frames ``between`` in which they have no number: another loss began
    these, or nothing was measured.
    """

    def __init__(self, table: Table, guide: float | None = None, between: "Flags | None" = None) -> None:
        self.table, self.guide = table, guide
        sound = [*table[np.isfinite(table) & (table > 0)], *([] if guide is None else [guide / 2, guide * 2])]
        self.low, self.high = (float(min(sound)), float(max(sound))) if sound else (1.0, 1.0)
        self._heights = self.at(table)
        if between is None or not between.any():
            return
        for column in self._heights.T:
            known, gaps = np.flatnonzero(~between | ~np.isnan(column)), np.flatnonzero(between & np.isnan(column))
            if known.size:
                column[gaps] = np.interp(gaps, known, column[known], np.nan, np.nan)

    def at(self, numbers: "np.ndarray[Any, np.dtype[np.float64]]") -> "np.ndarray[Any, np.dtype[np.float64]]":
        """How high they stand, from 0 to 1, in the middle if all are one number; NaN where there is none."""
        known = np.where(np.isfinite(numbers) & (numbers > 0), numbers, np.nan)  # the others have no logarithm
        if self.low == self.high:
            heights = np.where(np.isnan(known), np.nan, 0.5)
        else:
            heights = (np.log10(known) - np.log10(self.low)) / np.log10(self.high / self.low)
        return np.where(numbers == 0, 0.0, np.where(np.isinf(numbers), 1.0, heights))

    def __str__(self) -> str:
        """From where to where it goes."""
        known = self.table[np.isfinite(self.table)]
        if not known.size:
            return translate("none of which is a number")
        if known.min() == known.max():
            return translate("always {float}", float=number(float(known.max())))
        low = min(self.low, float(known.min()))  # a zero stands where the smallest other number does
        return translate("from {low} to {high} (log)", low=number(low), high=number(self.high))

    def heights(self, at: int) -> list[int | None]:
        """The heights of one column, in percent; None where there is no number."""
        return [None if np.isnan(height) else round(100 * height) for height in self._heights[:, at].tolist()]

    def letters(self) -> list[str]:
        """For each column a character for each frame."""
        steps = np.where(np.isnan(self._heights), 0, np.rint(np.nan_to_num(self._heights) * 25) + ord("A"))
        bytes_ = np.where(steps == 0, ord("-"), steps).astype(np.uint8)
        return [bytes(column).decode() for column in bytes_.T]


def _chart(title: str, about: str, scale: _Scale, labels: list[tuple[str, str]], some: str) -> Chart:
    """A curve for each column of the scale's numbers, which are those of the nodes with these labels.

    ``some`` is the sentence that says how many are drawn, if there are more.
    """
    guided = "" if scale.guide is None else translate(_GUIDED, guide=number(GUIDE))
    return Chart(
        title=title,
        text=f"{about}, {scale}.{some}{guided}",
        low=number(scale.low),
        high=number(scale.high),
        guide=None if scale.guide is None else round(100 * float(scale.at(np.array(scale.guide)))),
        numbers=[],
        curves=[
            Curve(node=node, label=label, heights=scale.heights(at), text=_course(scale.table[:, at].tolist()))
            for at, (node, label) in enumerate(labels)
        ],
    )


def _whose(record: Record) -> str:
    """Its name, with the whole path: the layers of all blocks are called alike."""
    return record.full_name or record.kind


def _course(numbers: list[float]) -> str:
    """How they went, in words."""
    known = [one for one in numbers if np.isfinite(one)]
    if not known:
        return translate("none")
    first, last = known[0], known[-1]
    text = translate("{first} to {last}", first=number(first), last=number(last))
    if first and last and number(first) != number(last):
        factor, word = (first / last, translate("smaller")) if last < first else (last / first, translate("larger"))
        text += translate(", {factor} times {word}", factor=number(factor), word=word)
    return text


def _differences(frames: list[HistoryFrame], structures: list[int]) -> list[Difference]:
    """In words, for each two structures, the ops and tensors that only one has."""
    example = dict(zip(structures, frames, strict=True))
    found = []
    for before, was_frame in example.items():
        for after, now_frame in example.items():
            if 0 < abs(before - after) <= _COMPARED:
                diff = was_frame.diff(now_frame)
                lines = [translate("only before: {record}", record=record) for record in diff.removed]
                lines += [translate("only after: {record}", record=record) for record in diff.added]
                lines += [translate("{was} became {shape}", was=was, shape=now.shape) for was, now in diff.reshaped]
                found.append(Difference(before=before, after=after, lines=lines[:200]))
    return found

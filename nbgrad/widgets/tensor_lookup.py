"""All numbers of a tensor that is too large to be sent with the picture, looked up when the reader asks for them."""

from math import prod
from typing import Any, Literal, NamedTuple
from weakref import ref

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.rerun import Rerun, RerunError, rerun_of
from nbgrad.core.graph.saved_graph import AnyGraph, SavedGraph
from nbgrad.core.graph.stats import SMALL, Stats, summarise
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted, number, shape_text
from nbgrad.widgets.description.ids import node_id
from nbgrad.widgets.description.schema import Numbers
from nbgrad.widgets.description.tensor_summary import look

SIDE = 128
"""The map has at most this many cells on each side; of a larger tensor a cell is the mean of a block."""

MOST = 1 << 26
"""Tensors with more elements than this are not read."""

_TOGETHER = MOST // SIDE
"""At most this many numbers are looked up at a time: a block has no more."""

_ROWS, _COLUMNS = 8, 6

What = Literal["value", "gradient"]


_LET_GO: dict[What, str] = {
    "value": message("Only statistics were kept: the graph does not hold on to large results."),
    "gradient": message("Only statistics were kept: gradients of results are freed when the graph closes."),
}


class _Known(NamedTuple):
    """The facts about a tensor after its graph has closed: the tensor, if other code holds it, and its statistics."""

    tensor: "ref[Any] | None"
    value: Stats | None
    gradient: Stats | None


class Holdings:
    """Where the numbers of the large tensors of a graph are, by the ids of their nodes.

    It holds no tensor. In an open graph it finds the tensors that the graph keeps within its budget; in a closed graph
    it finds parameters and other leaves whose numbers are still those of the picture.

    Args:
        graph: the graph, in the state that is being described.
    """

    def __init__(self, graph: AutogradGraph) -> None:
        self._graph = graph if graph.closed else None
        self._rerun: Rerun | RerunError = RerunError(
            translate("the graph still records: wait for the end of its block or cell")
        )
        self._asks = ref(graph) if graph.closed and graph.questions.left(graph.records) else None
        large = {
            node_id(at): record for at, record in enumerate(graph.drawn) if torch.Size(record.shape).numel() > SMALL
        }
        self._notes = graph.listener.notes
        self._open: dict[str, Record] = {} if graph.closed else large
        self._known = {
            node: _Known(record.leaf, record.value, record.gradient) for node, record in large.items() if graph.closed
        }

    @property
    def rerun(self) -> Rerun | RerunError:
        """The graph as one that can be run again, or why it cannot be."""
        self.settle()
        return self._rerun

    @property
    def asks(self) -> AutogradGraph | None:
        """The graph, if its reader is asked for gradients and it still exists."""
        return None if self._asks is None else self._asks()

    def settle(self) -> None:
        """Take what a run of the graph needs, and release the graph. Call it while the user does not wait."""
        if self._graph is not None:
            self._rerun, self._graph = rerun_of(self._graph), None

    def numbers(self, node: str, what: What) -> Numbers:
        """The numbers of ``node``: a map and its first rows, or a sentence that says why there are none."""
        try:
            data = self._find(node, what)
            if data.numel() > MOST:
                raise LookupError(f"{data.numel():,} elements are too many to be read for a picture.")
        except LookupError as error:
            return Numbers(node=node, of=what, said=str(error.args[0]), look=None, rows=[])
        return shown(node, what, data)

    def _find(self, node: str, what: What) -> torch.Tensor:
        """The tensor itself.

        Raises:
            LookupError: it is gone, or other numbers stand there now.
        """
        if (record := self._open.get(node)) is not None:
            return self._now(record, what)
        known = self._known.get(node)
        if known is None:
            raise LookupError(translate("The graph has no tensor here."))
        if known.tensor is None:
            raise LookupError(translate(_LET_GO[what]))
        tensor = known.tensor()
        if tensor is None:
            raise LookupError(translate("The tensor does not exist any more."))
        data, was = (tensor.data, known.value) if what == "value" else (_grad(tensor), known.gradient)
        if data is None or was is None or not _same(data, was):
            raise LookupError(f"The {what} has changed since this picture was made: only its statistics were kept.")
        return data

    def _now(self, record: Record, what: What) -> torch.Tensor:
        """The numbers of a record whose graph is open, as they are now."""
        if what == "gradient":
            if (gradient := self._notes.kept_gradient(record.id)) is not None:
                return gradient
            raise LookupError(
                "The gradient was changed since, or did not fit into the budget: only statistics were kept."
            )
        tensor = None if record.leaf is None else record.leaf()
        if tensor is None:
            raise LookupError(translate(_LET_GO[what]))
        data: torch.Tensor = tensor.data
        return data


class SavedHoldings(Holdings):
    """Where the numbers of a graph are that was read from a file: nowhere."""

    def __init__(self, graph: SavedGraph) -> None:
        self._rerun, self._graph, self._asks = rerun_of(graph), None, None

    def numbers(self, node: str, what: What) -> Numbers:
        """A sentence that says why there are none."""
        said = translate("Only statistics were kept: a graph in a file has no numbers of larger tensors.")
        return Numbers(node=node, of=what, said=said, look=None, rows=[])


def holdings_of(graph: AnyGraph) -> Holdings:
    """Where the numbers of the large tensors of ``graph`` are."""
    return SavedHoldings(graph) if isinstance(graph, SavedGraph) else Holdings(graph)


def _grad(tensor: Any) -> torch.Tensor | None:
    return None if tensor.grad is None else tensor.grad.data


def _same(data: torch.Tensor, was: Stats) -> bool:
    """Whether ``data`` are the numbers of which these are the statistics."""
    if tuple(data.shape) != was.shape or data.is_meta:
        return False
    now = summarise(data)
    if was.low is None:  # only the norm was kept: the gradient was changed in place
        return now.norm == was.norm
    return repr(now) == repr(was)  # NaN is not equal to itself


def shown(node: str, what: What, data: torch.Tensor) -> Numbers:
    """A map of ``data``, and their first rows as text; no copy of all of them is made."""
    table = _NumberTable(data.detach())
    cells = table.map().numpy()
    found = look(Stats(cells.shape, 0.0, raw=cells.tobytes(), dtype=cells.dtype.str))
    found = {**look(summarise(data, exact=True)), "columns": found["columns"], "levels": found["levels"]}
    high, wide = table.rows / cells.shape[0], table.columns / cells.shape[1]
    block = (
        translate("each cell is the mean of {high} x {wide} numbers", high=number(high), wide=number(wide))
        if high * wide > 1
        else translate("one cell for each number")
    )
    magnitudes = translate(", their magnitudes") if data.dtype.is_complex else ""
    said = f"{shape_text(data.shape)} {dtype_name(data.dtype)}{magnitudes}: {block}"
    return Numbers(node=node, of=what, said=said, look=found, rows=_first(data.detach()))


class _NumberTable:
    """A tensor as the table that ``tensor_summary.tiled`` makes of it, of which parts are looked up.

    Attributes:
        rows, columns: how many there are.
    """

    def __init__(self, data: torch.Tensor) -> None:
        self._data = data[None] if data.ndim == 1 else data
        *lead, self._high, self._wide = self._data.shape
        self._lead, beside = lead[:-1], (lead or [1])[-1]
        self.rows, self.columns = prod(self._lead) * self._high, beside * self._wide

    def map(self) -> torch.Tensor:
        """The means of blocks of it, as ``adaptive_avg_pool2d`` cuts them: ``SIDE`` of them at most on each side."""
        high, wide = min(self.rows, SIDE), min(self.columns, SIDE)
        columns = _cuts(self.columns, wide)
        made = torch.empty(high, wide)
        for at, (top, bottom) in enumerate(_cuts(self.rows, high)):
            if (bottom - top) * self.columns <= _TOGETHER:
                band = self._part(slice(top, bottom), slice(0, self.columns))
                made[at] = adaptive_avg_pool2d(band[None], (1, wide))[0, 0]
            else:
                for place, (left, right) in enumerate(columns):
                    made[at, place] = self._part(slice(top, bottom), slice(left, right)).mean()
        return made

    def _part(self, rows: slice, columns: slice) -> torch.Tensor:
        """Some of its numbers, in float32."""
        if self._data.ndim == 2:
            part = self._data[rows, columns]
        else:
            down, across = (torch.arange(one.start, one.stop, device=self._data.device) for one in (rows, columns))
            lead = np.unravel_index((down // self._high).cpu().numpy(), self._lead) if self._lead else ()
            first = [torch.from_numpy(one).to(down.device)[:, None] for one in lead]
            inner = (across[None] // self._wide, (down % self._high)[:, None], across[None] % self._wide)
            part = self._data[(*first, *inner)]
        return (part.abs() if part.dtype.is_complex else part).cpu().float()


def _cuts(size: int, parts: int) -> list[tuple[int, int]]:
    """Where ``adaptive_avg_pool2d`` cuts ``size`` numbers into ``parts``, which may share the ones at their ends."""
    return [(at * size // parts, -(-(at + 1) * size // parts)) for at in range(parts)]


def _first(data: torch.Tensor) -> list[str]:
    """The first numbers of the first rows, and how many there are."""
    last, rows = data.shape[-1], prod(data.shape[:-1])
    places = np.unravel_index(np.arange(min(rows, _ROWS)), data.shape[:-1]) if data.ndim > 1 else ()
    part = data[..., :_COLUMNS][tuple(torch.from_numpy(one).to(data.device) for one in places)]
    numbers = (part.abs() if part.dtype.is_complex else part).cpu().reshape(-1, part.shape[-1])
    lines = [" ".join(f"{one:>10.4g}" for one in row) for row in numbers.tolist()]
    more = last - _COLUMNS
    lines = [translate("{line}  … {more:,} more", line=line, more=more) if more > 0 else line for line in lines]
    left = rows - _ROWS
    return [*lines, translate("… {rows} more", rows=counted(left, "row"))] if left > 0 else lines

"""An estimate, without graphviz, of how large a folded picture will be: how many boxes, in which rows."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import accumulate
from math import inf
from typing import NamedTuple

from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Edge, Node
from nbgrad.widgets.description.stage import LETTERS, READ, Stage

ROW, COLUMN = 62.0, 150.0
"""How much room a short box takes with the space around it, from top to bottom and from left to right, in pixels."""

ALONG, ACROSS = 190.0, 55.0
"""The same where the picture runs from left to right."""

_MOST = 6  # columns that stand beside each other


class Extent(NamedTuple):
    """How large a picture will be.

    Attributes:
        told: how many boxes, and parameters in them, say what the graph does: all but constants and inputs.
        rows: how many boxes and marks stand below each other, from top to bottom.
        columns: how many stand beside each other in the widest row.
        across: how many stand beside each other in each row that is not empty.
    """

    told: int
    rows: int
    columns: int

    across: list[int]

    def over(self, on: Stage) -> float:
        """How many times larger it is than what is seen at once on a stage; at most 1 if it fits.

        A picture that is too high is cut into columns, or it runs from left to right.
        """
        width, height = on.width * LETTERS / READ, on.height * LETTERS / READ
        sideways = max(self.rows * ALONG / width, self.columns * ACROSS / height)
        cut = inf
        for many in range(1, _MOST + 1):
            rows = -(-len(self.across) // many) or 1
            wide = sum(max(self.across[at : at + rows]) for at in range(0, len(self.across), rows))
            cut = min(cut, max(rows * ROW / height, wide * COLUMN / width))
        return min(sideways, cut)


def extent(graph: Outline, homes: Mapping[str, str]) -> Extent:
    """The size of the picture. ``homes`` says for each hidden scope or node whose box is drawn in its place.

    A tensor that only one op takes stands in the box of the op. Any other tensor stands in the row above its reader. In
    an open module this row is below the inputs of the module, so it counts as one more. The mark of a reduction takes a
    row too. A line takes a place in each row that it passes.
    """
    description, rows_of = graph.description, graph.rows
    hidden = [homes.get(node["scope"] or "", homes.get(node["id"], "")) for node in description["nodes"]]
    inside = Counter(hidden)
    inside[""] = 0
    drawn: dict[str, str] = {}
    tensors: dict[str, Node] = {}
    for node, home in zip(description["nodes"], hidden, strict=True):
        drawn[node["id"]] = f"in {home}" if inside[home] > 1 else node["id"]
        if inside[home] <= 1 and node["kind"] not in ("op", "failed") and node["id"] not in rows_of:
            tensors[node["id"]] = node
    drawn.update({row: drawn[op] for row, op in rows_of.items()})
    boxes = {*drawn.values()}
    told = boxes.difference(id for id, node in tensors.items() if node["kind"] in ("constant", "input"))
    parameters = [
        node for node in description["nodes"] if node["id"] in rows_of and node["kind"] in ("parameter", "leaf")
    ]
    inner = sum(drawn[node["id"]] in (node["id"], rows_of[node["id"]]) for node in parameters)
    rows = _Rows(description["edges"], drawn, tensors)
    begin: Counter[int] = Counter([rows.of(box) for box in boxes.difference(tensors)])
    end = Counter(begin)
    for source, target in rows.lines:
        begin[rows.of(target) - 1 if source in tensors else rows.of(source) + 1] += 1
        end[rows.of(target) - 1] += 1
    last = max(begin, default=0)
    counts = accumulate(begin[row] - end[row - 1] for row in range(last + 1))
    across = [many for many in counts if many]
    return Extent(len(told) + inner, last, max(across, default=0), across)


class _Rows:
    """In which row each box stands.

    Args:
        edges: those into a node come before those from it.
        drawn: the box of each node.
        tensors: the boxes of tensors.

    Attributes:
        lines: from which box to which one there is a line.
    """

    def __init__(self, edges: list[Edge], drawn: dict[str, str], tensors: dict[str, Node]) -> None:
        self.lines: set[tuple[str, str]] = set()
        self._below: defaultdict[str, int] = defaultdict(int)  # the row of the last op that it takes
        self._more: defaultdict[str, set[str]] = defaultdict(set)  # what stands in rows between that op and the box
        for edge in edges:
            source, target = drawn[edge["source"]], drawn[edge["target"]]
            if source == target:
                continue
            self.lines.add((source, target))
            if source not in tensors:
                self._below[target] = max(self._below[target], self._soonest(source))
            elif tensors[source]["scope"] is not None:
                self._more[target].add("tensor")
            else:
                continue  # no row more: there is room beside the other inputs of the op
            if edge["reduction"] is not None:
                self._more[target].add("mark")
        self._above: dict[str, int] = {}  # the row of its first reader
        for source, target in self.lines:
            row = self._soonest(target)
            self._above[source] = min(self._above.get(source, row), row)

    def _soonest(self, box: str) -> int:
        return self._below[box] + 1 + len(self._more[box])

    def of(self, box: str) -> int:
        """The row of a box that is no tensor; a box without an op above it stands just above the box that uses it."""
        row = self._soonest(box)
        return row if self._below[box] else max(row, self._above.get(box, row) - 1)

"""The question to graphviz: sizes and structure in the DOT language, with ids of our own and no text of a user's.

A reduction's mark is a small node between the two ends of its edge, so that graphviz makes room for it.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from nbgrad.widgets.description.ids import cluster_name, half_names, mark_name
from nbgrad.widgets.description.schema import Description, Edge, Form
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.layout.graphviz_wasm import language
from nbgrad.widgets.layout.parts import ASIDE, LABEL_SIZE, Direction, PictureParts, Sizes, label_lines
from nbgrad.widgets.layout.tangle import HARD, passed

_COURIER = 0.6  # the one font whose width every graphviz agrees on: it makes room for a label that is drawn elsewhere
_SPACE: dict[Form, dict[Direction, tuple[str, str]]] = {
    "card": {"TB": ("0.25", "0.34"), "LR": ("0.25", "0.45")},
    "short": {"TB": ("0.17", "0.22"), "LR": ("0.17", "0.34")},
    "line": {"TB": ("0.13", "0.16"), "LR": ("0.13", "0.28")},
    "name": {"TB": ("0.13", "0.16"), "LR": ("0.13", "0.28")},
}
"""The space between boxes beside each other and between rows of boxes, in inches, if there are boxes of this form."""
_LABELLED = 400
"""With more edges than this there is no room made for their labels: graphviz would need a second more for it."""


def dot_source(parts: PictureParts, direction: Direction) -> str:
    """Write the parts of a drawable description in the DOT language."""
    description, tree, rows, sizes = parts.placed, parts.tree, parts.rows, parts.sizes
    graphviz = language()
    homes: defaultdict[str | None, Any] = defaultdict(graphviz.Digraph)
    space = dict(zip(("nodesep", "ranksep"), _SPACE[sizes.tightest][direction], strict=True))
    fewer = {"nslimit": "1", "mclimit": "0.3"} if passed(description) > HARD else {}
    top = homes[None] = graphviz.Digraph(
        graph_attr={"rankdir": direction, **space, **fewer, "fontname": "Courier", "fontsize": "12"},
        node_attr={"shape": "box", "fixedsize": "true", "label": ""},
        edge_attr={"arrowhead": "none", "fontname": "Courier", "fontsize": f"{LABEL_SIZE:g}"},
    )
    for scope in description["scopes"]:
        # Letters of a known width, as many as the label will need; the label itself is drawn by the renderers.
        letters = int(sizes.texts[scope["id"]] / (12 * _COURIER)) + 2
        attributes = {"label": "x" * letters, "labeljust": "l", "labelloc": "t", "margin": "9"}
        homes[scope["id"]] = graphviz.Digraph(name=cluster_name(scope["id"]), graph_attr=attributes)
    scope_of: dict[str, str | None] = {}
    for node in description["nodes"]:
        scope_of[node["id"]] = node["scope"]
        _add_box(homes[node["scope"]], node["id"], *sizes.nodes[node["id"]])
    if rows.together:
        top.attr(newrank="true")  # else nodes of different clusters could not stand beside each other
    for ids in rows.together:
        with top.subgraph(graph_attr={"rank": "same"}) as row:
            for id in ids:
                row.node(id)
    labelled = len(description["edges"]) <= _LABELLED
    bundles = {bundle[0]["id"]: bundle for bundle in parts.bundles}
    for edge in description["edges"]:
        if (bundle := bundles.get(edge["id"])) is not None:
            told = [one for one in bundle if one["id"] in sizes.labels]
            level = rows.level(edge)  # a label there would stand in a row of its own
            room = {"label": _letters(told, direction, sizes)} if labelled and told and not level else {}
            ends = [edge["source"], edge["target"]]
            top.edge(*(reversed(ends) if rows.upwards(edge) else ends), id=edge["id"], **room)
        if edge["reduction"] is None:
            continue
        mark, (into, out) = mark_name(edge["id"]), half_names(edge["id"])
        common = tree.common(scope_of[edge["source"]], scope_of[edge["target"]])
        _add_box(homes[common], mark, *sizes.marks[edge["id"]])
        # Both halves meet in the middle of the mark, so that the edge has no step there.
        enters, leaves = ("", "") if rows.together else (":n", ":s") if direction == "TB" else (":w", ":e")
        top.edge(edge["source"], mark + enters, id=into)
        top.edge(mark + leaves, edge["target"], id=out)
    for before, after in _stacking(description, scope_of, tree):
        top.edge(before, after, style="invis")
    return nested(top, homes, tree)


def nested(top: Any, homes: Mapping[str | None, Any], tree: Tree) -> str:
    """The text of ``top`` with the scopes in it that have a home.

    ``subgraph`` would copy each line once for each scope around it.
    """
    inner: defaultdict[str | None, list[str]] = defaultdict(list)
    for scope, parent in tree.parents.items():
        if scope in homes:
            inner[parent].append(scope)
    *lines, end = top
    waiting: list[tuple[str, str]] = [("", end), *((scope, "") for scope in inner[None])]
    while waiting:
        scope, end = waiting.pop()
        if end:
            lines.append(end)
            continue
        *begin, end = homes[scope].__iter__(subgraph=True)
        lines += begin
        waiting += [("", end), *((one, "") for one in inner[scope])]  # the last one first
    return "".join(lines)


def _letters(edges: list[Edge], direction: Direction, sizes: Sizes) -> str:
    """Letters that take as much room as the labels of edges that run beside each other."""
    widths, lines = [sizes.labels[edge["id"]] + 10 for edge in edges], [len(label_lines(edge)) for edge in edges]
    more = len(edges) > 1  # the two outer lines need more room at the sides
    width, high = (sum(widths) + more * ASIDE, max(lines)) if direction == "TB" else (max(widths), sum(lines) + more)
    return "\\n".join(["x" * (int(width / (LABEL_SIZE * _COURIER)) + 1)] * high)


def _stacking(description: Description, scope_of: dict[str, str | None], tree: Tree) -> list[tuple[str, str]]:
    """Say which boxes must stand below which, so that modules that follow each other stand below each other.

    Graphviz puts a weight one row above its op, that is beside the end of the module before, and the two modules'
    boxes then can't share a column: a deep net would become a staircase. So the first tensor used inside a module goes
    below what the module had taken from outside before that use. Both come before the use in the record, hence no
    cycle.
    """
    position = {node["id"]: index for index, node in enumerate(description["nodes"])}
    made = {edge["target"] for edge in description["edges"]}
    used: defaultdict[str | None, list[str]] = defaultdict(list)  # by scope: the inputs used there
    first_use: dict[str, int] = {}
    for edge in description["edges"]:
        source, target = edge["source"], edge["target"]
        first_use[source] = min(first_use.get(source, position[target]), position[target])
        used[scope_of[target]].append(source)
    taken = {scope: _ScopeInputs() for scope in tree.parents}
    outermost: defaultdict[str, list[_Input]] = defaultdict(list)  # by scope: what no scope around it takes
    path: list[str] = []
    for scope in reversed(tree.inner_first()):
        while path and path[-1] != tree.parents[scope]:
            path.pop()
        path.append(scope)
        for source in used[scope]:
            outside = _around(scope_of[source], path, tree)
            if outside < len(path):
                input = _Input(source in made, position[source], source)
                taken[scope].add(input)
                outermost[path[outside]].append(input)
    marked = {edge["source"] for edge in description["edges"] if edge["reduction"] is not None}
    # The tensor with a mark on its edge stands highest among the tensors of an op.
    weights = [
        node["id"]
        for node in sorted(description["nodes"], key=lambda one: (first_use.get(one["id"], 0), one["id"] not in marked))
        if node["id"] not in made and node["id"] in first_use
    ]
    for weight in weights:
        if (inputs := taken.get(scope_of[weight] or "")) is not None:
            inputs.ask(weight, first_use[weight])
    last = _answered(taken, outermost, tree)
    # One pair for each module says enough. More pairs would pull lines across each other, and one pair for each
    # enclosing scope would make graphviz a hundred times slower.
    pairs: dict[tuple[str, str | None], str] = {}
    for weight in weights:
        if weight in last:
            pairs.setdefault((last[weight], scope_of[weight]), weight)
    return [(before, after) for (before, _), after in pairs.items()]


def _around(home: str | None, path: list[str], tree: Tree) -> int:
    """How many of the scopes in ``path``, outermost first, are around ``home``."""
    return bisect_left(path, True, key=lambda scope: not tree.around(scope, home))


def _answered(taken: dict[str, "_ScopeInputs"], outermost: Mapping[str, list["_Input"]], tree: Tree) -> dict[str, str]:
    """The answers for tensors that asked scopes; ``outermost``: by scope, its inputs that no scope around it takes."""
    last: dict[str, str] = {}
    for scope in tree.inner_first():
        inputs, parent = taken.pop(scope), tree.parents[scope]
        last.update(inputs.answers())
        inputs.remove(outermost.get(scope, []))
        if parent is not None:
            taken[parent] = taken[parent].joined(inputs)
    return last


class _Input(NamedTuple):
    """An input that a scope takes from outside: whether an op made it, its position in the record, and its node."""

    made: bool
    position: int
    source: str


class _ScopeInputs:
    """The inputs of a scope from outside, and the tensors in it that ask for its last input before their first use.

    A scope hands both on to the one around it. So the work grows with the edges, however deep the scopes are nested.
    """

    def __init__(self) -> None:
        self._found: tuple[list[_Input], list[_Input]] = ([], [])  # what no op made, and results of ops
        self._asked: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return sum(map(len, self._found)) + len(self._asked)

    def add(self, input: _Input) -> None:
        """The scope takes ``input``."""
        insort(self._found[input.made], input)

    def ask(self, tensor: str, first_use: int) -> None:
        """``tensor``, which is first used at position ``first_use``, asks for the last input before that."""
        insort(self._asked, (first_use, tensor))

    def answers(self) -> Iterator[tuple[str, str]]:
        """Each tensor that asked and has an answer: the last result before its use, or the last of what no op made."""
        first = min([found[0].position for found in self._found if found], default=None)
        while first is not None and self._asked and first < self._asked[-1][0]:
            use, tensor = self._asked.pop()
            for made, found in reversed([*enumerate(self._found)]):
                if at := bisect_left(found, _Input(bool(made), use, "")):
                    yield tensor, found[at - 1].source
                    break

    def remove(self, inputs: list[_Input]) -> None:
        """Remove ``inputs``: for the scope around, they do not come from outside."""
        for input in inputs:
            found = self._found[input.made]
            del found[bisect_left(found, input)]

    def joined(self, other: "_ScopeInputs") -> "_ScopeInputs":
        """The two combined: the smaller one is added to the larger one, so that inputs are moved only a few times."""
        large, small = (self, other) if len(self) >= len(other) else (other, self)
        for input in chain(*small._found):
            large.add(input)
        for first_use, tensor in small._asked:
            large.ask(tensor, first_use)
        return large


def _add_box(graph: Any, name: str, width: float, height: float) -> None:
    graph.node(name, width=f"{width / 72:.4f}", height=f"{height / 72:.4f}")  # one pixel is one point

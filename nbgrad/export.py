"""A graph as a file: picture, page, or data, by the suffix of its name."""

import json
from collections import defaultdict
from os import PathLike
from pathlib import Path
from typing import Any

from nbgrad.core.files import replace_file
from nbgrad.core.graph.saved_graph import AnyGraph
from nbgrad.options import GRAPH, Direction, check_file, suffix_of
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.format import lines_of
from nbgrad.widgets.description.ids import cluster_name
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.text_metrics import clean, cleaned
from nbgrad.widgets.folding.apply import asked
from nbgrad.widgets.graph_file import write_graph
from nbgrad.widgets.layout.dot import nested
from nbgrad.widgets.layout.graphviz_wasm import language
from nbgrad.widgets.layout.parts import mark_text
from nbgrad.widgets.optional_packages import PartError, loading, needs, reason
from nbgrad.widgets.pipeline import lay_out, whole
from nbgrad.widgets.render.film import film
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import png, svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.render.what_if_page import what_if_program
from nbgrad.widgets.what_if import root_name

_PDF = '#set page(width: auto, height: auto, margin: 0pt)\n#set document(date: none)\n#image("graph.svg")\n'
_STYLES = defaultdict(
    lambda: {"shape": "box"},
    {
        "root": {"shape": "box", "style": "bold"},
        "parameter": {"shape": "box", "peripheries": "2"},
        "leaf": {"shape": "ellipse"},
        "constant": {"shape": "box", "style": "rounded,dashed"},
        "outside": {"shape": "box", "style": "dashed"},
    },
)
"""How kinds of nodes differ in graphviz's language, as in the picture."""


def save(
    graph: AnyGraph,
    path: str | PathLike[str],
    *,
    depth: int | None = None,
    nodes: int | None = None,
    direction: Direction = "auto",
    what_if: bool = False,
) -> None:
    """Write ``graph`` to a file, as ``AutogradGraph.save`` says.

    Raises:
        PartError: a part that draws the graph fails. If the graph cannot be laid out, this is an EngineError.
    """
    check_file(path)
    drawn, program = outline(graph), None
    if what_if:
        if suffix_of(path) != ".html":
            raise ValueError(f"what_if=True is for a page: give a file that ends in .html, not {str(path)!r}")
        program = what_if_program(graph, root_name(drawn.description), drawn.description.get("sums", {}))
    if suffix_of(path) == GRAPH:
        keep(graph, drawn, path)
    else:
        write(drawn, path, depth=depth, nodes=nodes, direction=direction, program=program)


def keep(graph: AnyGraph, drawn: Outline, path: str | PathLike[str]) -> None:
    """Write ``graph``, whose outline is ``drawn``, to a file that ``nbgrad.load`` reads.

    Raises:
        ValueError: the graph still asks its reader for gradients, or is too large.
        OSError: the file cannot be written; an existing file stays as it was.
    """
    write_graph(graph, drawn, Path(path).expanduser())


UNSAVED = (OSError, ModuleNotFoundError, PartError)
"""The errors of ``save`` for a known kind of file that it cannot write."""


def unsaved(error: Exception) -> str:
    """An error of ``save`` as a sentence without its full stop."""
    if isinstance(error, OSError):
        return str(error) if error.filename is None else f"{str(error.filename)!r} was not written: {error.strerror}"
    return reason(error)


def write(
    graph: Description | Outline,
    path: str | PathLike[str],
    *,
    depth: int | None = None,
    nodes: int | None = None,
    direction: Direction = "auto",
    program: str | None = None,
) -> None:
    """Write a description or an outline, as ``save`` does. A page also gets ``program``, which runs the graph again."""
    outline = Outline.of(graph)
    check_file(path)
    suffix = suffix_of(path)
    if suffix == GRAPH:
        raise ValueError(f"{str(path)!r}: a {GRAPH} file has one recorded graph: save each by itself")
    if suffix == ".txt":
        made: str | bytes = text(outline) + "\n"
    elif suffix == ".json":
        made = json.dumps(cleaned(outline.detail()), indent=1, ensure_ascii=False) + "\n"
    elif suffix == ".dot":
        made = _dot(outline, "LR" if direction == "LR" else "TB")
    elif suffix == ".html":
        alive = whole(outline, direction=direction, folding=asked(outline, depth, nodes)[0])
        made = page(alive, alive["description"]["name"], program)
    else:
        folding, limit = asked(outline, depth, nodes)
        picture = lay_out(outline, direction=direction, folding=folding, limit=limit)
        made = film(picture) if suffix == ".gif" else _drawing(svg(picture), suffix)
    data = made.encode() if isinstance(made, str) else made
    replace_file(Path(path).expanduser(), lambda file: file.write_bytes(data))


def _drawing(drawing: str, suffix: str) -> str | bytes:
    """An SVG as it is, or turned into another kind of picture."""
    if suffix == ".png":
        return png(drawing)
    return _pdf(drawing) if suffix == ".pdf" else drawing


def _pdf(drawing: str) -> bytes:
    """The same drawing as a page of its size, text as text."""
    with needs("typst", "a PDF of a graph", '"nbgrad[pdf]"', "save it as .svg"):
        with loading:
            import typst
        return typst.compile({"main": _PDF.encode(), "graph.svg": drawing.encode()}, format="pdf", timestamp=0)  # type: ignore[call-overload, no-any-return]  # its stub knows no dict


def _dot(outline: Outline, direction: str) -> str:
    """In graphviz's own language, to be changed and drawn with other tools: every node, module calls as clusters."""
    graphviz, description = language(), outline.description
    label = {"label": graphviz.escape(clean(description["name"])), "labelloc": "t"}
    top = graphviz.Digraph(graph_attr={"rankdir": direction, **label})
    homes: dict[str | None, Any] = {None: top}
    for scope in description["scopes"]:
        attributes = {"label": graphviz.escape(clean(scope["label"]))}
        homes[scope["id"]] = graphviz.Digraph(name=cluster_name(scope["id"]), graph_attr=attributes)
    for node in description["nodes"]:
        style = _STYLES["root" if node["root"] else node["kind"]]
        homes[node["scope"]].node(node["id"], graphviz.escape("\n".join(map(clean, lines_of(node)))), **style)
    for edge in description["edges"]:
        undone = [mark_text(edge)] if edge["reduction"] is not None else []
        top.edge(edge["source"], edge["target"], graphviz.escape("\n".join(map(clean, [edge["label"], *undone]))))
    return nested(top, homes, outline.tree)

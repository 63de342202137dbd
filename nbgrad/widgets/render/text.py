"""Description -> a table of plain text, for a terminal, a diff and a screen reader."""

import unicodedata
from collections import defaultdict

from nbgrad.core.graph.checkup import NOT_JUDGED
from nbgrad.core.stages import stage
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import lines_of
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description, Edge, Kind, Node, Ranking
from nbgrad.widgets.description.text_metrics import clip
from nbgrad.widgets.description.told import LISTED, told, unlisted

ROWS = 200
"""How many nodes are listed: the last ones, where the backward starts."""

_COLUMN = 48

_MOST = 5
"""How many ops and tensors the list of the slowest has."""

HEADER = (message("node"), message("kind"), message("label"), message("scope"), message("takes"))
"""The heads of the columns of a table."""

KINDS: dict[Kind, str] = {
    "op": message("op"),
    "parameter": message("parameter"),
    "leaf": message("leaf"),
    "input": message("input"),
    "constant": message("constant"),
    "outside": message("outside"),
    "folded": message("folded"),
    "failed": message("failed"),
}
"""The words for the kinds of nodes in a table."""


@stage("render")
def text(graph: Description | Outline, *, rows: int = ROWS) -> str:
    """Write the graph as a table.

    Args:
        graph: all of it, or a drawn part of it.
        rows: how many nodes, and how many reductions, are listed at most; the last ones are.

    Returns:
        Lines without trailing blanks: the summary, the notes, the findings, one row for each node with its inputs and
        its marks in the picture, the slowest if there was a clock, the gradients, and the broadcast reductions.
    """
    outline = Outline.of(graph)
    description, tree = outline.description, outline.tree
    nodes = description["nodes"]
    lines = [f"{clip(description['name'], 120)}: {clip(description['summary'], 500)}"]
    if (memory := description["memory"]) is not None:
        lines.append(translate("Memory: {memory}", memory=clip(memory["text"], 500)))
        lines += (
            [translate("Memory: {memory} (forward, then backward)", memory=memory["line"])] if memory["line"] else []
        )
    lines += [translate("Note: {note}", note=clip(note, 500)) for note in description["notes"]]
    lines += _findings(description)
    taken: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in description["edges"]:
        taken[edge["target"]].append(edge)
    marked = any(node["badges"] for node in nodes[-rows:])
    table = [[*map(translate, HEADER), translate("finding") if marked else ""]]
    for node in nodes[-rows:]:
        path = " > ".join(clip(tree.scopes[scope]["label"], _COLUMN) for scope in tree.path(node["scope"]))
        takes = ", ".join(_take(edge) for edge in taken[node["id"]])
        cells = [node["id"], _kind(node), _label(node), clip(path, 2 * _COLUMN), clip(takes, 4 * _COLUMN)]
        table.append([*cells, "; ".join(f"! {clip(badge['text'], _COLUMN)}" for badge in node["badges"][:3])])
    lines += ["", *_align(table)]
    if len(nodes) > rows:
        lines.append(translate("({count:,} earlier nodes are not listed)", count=len(nodes) - rows))
    lines += _slowest(description["ranking"])
    gradients = [(edge, edge["gradient"]) for edge in description["edges"] if edge["gradient"]]
    lines += _section(translate("Gradients"), gradients, _COLUMN, rows)
    reduced = [(edge, edge["reduction"]["text"]) for edge in description["edges"] if edge["reduction"] is not None]
    lines += _section(translate("Broadcast reductions"), reduced, 72, rows)
    return "\n".join(line.rstrip() for line in lines)


def _findings(description: Description) -> list[str]:
    """The findings, each with its node, and the modules whose gradients vanish or explode."""
    found = told(description)
    said = [one.text + (f" ({one.node})" if one.node else "") for one in found[:LISTED]]
    if description["outcome"]:
        judged = [
            line.partition(":")[0] for line in description["checked"] if not line.startswith(translate(NOT_JUDGED))
        ]
        return [clip(f"{description['outcome']}: {', '.join(judged)}", 500)]
    return [translate("Finding: {text}", text=clip(text, 500)) for text in said] + unlisted(found)


def _slowest(ranking: Ranking) -> list[str]:
    """The ops and tensors that took most of the time, if it was measured."""
    columns = [one for one in ranking["columns"] if one["key"] in ("time", "forward", "backward")]
    if not columns:
        return []
    order = columns[0]["order"]
    table = [["", "", *(column["title"] for column in columns)]]
    for at in order[:_MOST]:
        row = ranking["rows"][at]
        table.append([row["node"], clip(row["name"], _COLUMN), *(column["cells"][at] or "-" for column in columns)])
    rest = len(order) - _MOST
    more = [translate("({count:,} with less are not listed)", count=rest)] if rest > 0 else []
    return ["", f"{translate('Slowest first')}:", *(f"  {line}" for line in _align(table)), *more]


def _section(title: str, said: list[tuple[Edge, str]], width: int, rows: int) -> list[str]:
    if not said:
        return []
    table = [[_ends(edge), clip(words, width)] for edge, words in said[-rows:]]
    rest = [translate("({count:,} earlier ones are not listed)", count=len(said) - rows)] if len(said) > rows else []
    return ["", f"{title}:", *(f"  {line}" for line in _align(table)), *rest]


def _kind(node: Node) -> str:
    return (
        translate("{node}, root", node=translate(KINDS[node["kind"]]))
        if node["root"]
        else translate(KINDS[node["kind"]])
    )


def _label(node: Node) -> str:
    return clip("  ".join([*lines_of(node), *([node["rule"]] if node["rule"] else [])]), 2 * _COLUMN)


def _take(edge: Edge) -> str:
    return f"{clip(edge['input'], _COLUMN)}={edge['source']}" if edge["input"] else edge["source"]


def _ends(edge: Edge) -> str:
    return f"{edge['source']} -> {edge['target']}" + (f".{clip(edge['input'], _COLUMN)}" if edge["input"] else "")


def _align(table: list[list[str]]) -> list[str]:
    widths = [max(_columns(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell + " " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=True))
        for row in table
    ]


def _columns(cell: str) -> int:
    """Count the columns that a terminal needs for a cell."""
    if cell.isascii():
        return len(cell)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in cell
    )

"""A graph in a file that ``nbgrad.load`` reads: what it answers, and the outline of its picture.

Details, heat maps, sums and steps are not in the file: they are written from the records, as those of a living graph.
Formulas are typeset again, so a file holds no markup.
"""

import re
from collections import Counter
from importlib.metadata import version
from math import isnan
from os import PathLike
from typing import Any, TypedDict

from nbgrad.core.archive import Archive, ArchiveError
from nbgrad.core.files import replace_file
from nbgrad.core.graph.compilation import Compilation
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.saved_facts import DEPTH, SavedFacts, read, written
from nbgrad.core.graph.saved_graph import AnyGraph, SavedGraph
from nbgrad.core.no_gc import uncollected
from nbgrad.core.typed_json import JsonForm, MismatchError
from nbgrad.widgets.describe import typeset
from nbgrad.widgets.description.broadcast_sums import ReductionRest, reduction_rest
from nbgrad.widgets.description.details import NodeRest
from nbgrad.widgets.description.ids import edge_id, node_id
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.overlays import times_of
from nbgrad.widgets.description.saved_values import saved_by
from nbgrad.widgets.description.schema import Description, Detail, Edge, Formula, plain_description
from nbgrad.widgets.description.text_metrics import clean
from nbgrad.widgets.description.walk import StepContext

KIND, FORMAT = "graph of nbgrad", 2
"""The words at the beginning of a document, and the number of its form. A change of any class whose fields are written
changes the form: ``tests/run/test_files.py`` compares them."""


class GraphFileError(ValueError):
    """A file is no graph that nbgrad has written, is damaged, or was written by a newer nbgrad. It names the file."""


class PictureRow(TypedDict):
    """The picture of a graph in a file.

    Attributes:
        description: without what is written from the records.
        measured: by node, the rows of the details that tell what was measured.
    """

    description: Description
    measured: dict[str, list[Detail]]


_FORM = JsonForm()


@uncollected
def write_graph(graph: AnyGraph, drawn: Outline, path: str | PathLike[str]) -> None:
    """Write a graph and the outline of its picture to a file, which takes the place of an older one when it is whole.

    Raises:
        ValueError: the graph still asks its reader for gradients, or is too large.
        OSError: the file cannot be written; an existing file stays as it was.
    """
    if asked := [name for name, answer in graph.answers.items() if not answer]:
        raise ValueError(f"{graph.name!r} still asks for the gradients of {', '.join(asked)}; a file would tell them")
    facts, columns = written(_facts(graph, drawn))
    document = {"kind": KIND, "format": FORMAT, "nbgrad": version("nbgrad"), **facts, "picture": _picture(drawn)}
    try:
        data = Archive(document, columns).packed()
    except ArchiveError as error:
        raise ValueError(f"{str(path)!r} was not written: {error}") from None
    replace_file(path, lambda file: file.write_bytes(data))


def _facts(graph: AnyGraph, drawn: Outline) -> SavedFacts:
    """The facts of a graph, with the records that are drawn."""
    if isinstance(graph, SavedGraph):
        return graph.facts
    records, own = _records(drawn), {record.id: record for record in graph.records}
    compilation = None if graph.compiler is None else Compilation.of(graph.compiler, list(own.values()))
    inner = frozenset[int]() if compilation is None else compilation.inner()
    ops = sum(record.kind == "op" for record in graph.records) + graph.left_out
    memory, checkup = graph.known_memory(records), graph.checkup()
    return SavedFacts(
        name=str(graph.name),
        records=records,
        compiled=[own[one.id] for one in records if one.id in own and _drawn_as(one) != _drawn_as(own[one.id])],
        compilation=compilation,
        left_out=ops - sum(record.kind == "op" and record.id not in inner for record in records),
        backwards=graph.backwards,
        recorded=graph.recorded,
        watch=graph.watch,
        fault=graph.fault,
        frame=graph.frame,
        ending=graph.ending,
        history=graph.history,
        losses=graph.losses,
        update=graph.update,
        findings=graph.findings(),
        checks=checkup.checks,
        notes=checkup.notes,
        kept=None if memory is None else memory.kept,
        optimizer=0 if memory is None else memory.optimizer,
        times=times_of(graph),
    )


def _drawn_as(record: Record) -> tuple[Any, ...]:
    """The parts of a record that are drawn in another way if it is in a compiled graph."""
    return record.name, record.full, record.scope, record.parents


def _records(drawn: Outline) -> list[Record]:
    rests = [drawn.rests.get(node["id"]) for node in drawn.description["nodes"]]
    return [rest.record for rest in rests if isinstance(rest, NodeRest)]


def _picture(drawn: Outline) -> Any:
    ops = {
        name: {**op, "formulas": list(map(_plain, op["formulas"])), "symbols": list(map(_plain, op["symbols"]))}
        for name, op in drawn.description["ops"].items()
    }
    description = {**drawn.description, "ops": ops, "formulas": dict.fromkeys(drawn.description["formulas"], "")}
    rests = {node["id"]: drawn.rests.get(node["id"]) for node in drawn.description["nodes"]}
    measured = {id: rest.measured for id, rest in rests.items() if isinstance(rest, NodeRest) and rest.measured}
    return _FORM.written({"description": description, "measured": measured}, PictureRow)


def _plain(formula: Formula) -> Formula:
    return {**formula, "mathml": ""}


@uncollected
def read_graph(path: str | PathLike[str]) -> SavedGraph:
    """Read a graph that ``write_graph`` wrote. No code of the file runs: it has none.

    Raises:
        GraphFileError: it is none, is damaged, or is of a newer nbgrad.
        OSError: the file cannot be read.
    """
    try:
        document, arrays = Archive.unpacked(path)
        picture = _own(document)
        facts = read({"facts": document["facts"], "tables": document["tables"]}, arrays)
        row: PictureRow = _FORM.read(picture, PictureRow)
        _check(row, facts.records)
    except ArchiveError as error:
        raise GraphFileError(f"{str(path)!r} cannot be read: {error}") from None
    except (MismatchError, RecursionError) as error:
        raise GraphFileError(f"{str(path)!r} cannot be read: it is damaged: {error}") from None
    return SavedGraph(facts, lambda graph: _outline(graph, row), str(path))


def _own(document: Any) -> Any:
    """The picture in a document, if it is of a form that this nbgrad can read."""
    if type(document) is not dict or document.get("kind") != KIND:
        raise ArchiveError("it is no graph that nbgrad has written")
    form, writer = document.get("format"), document.get("nbgrad")
    if type(form) is int and form > FORMAT:
        raise ArchiveError(
            f"nbgrad {str(writer)[:40]} has written it in form {form}, and this is nbgrad {version('nbgrad')}, which "
            f"reads form {FORMAT}: install a newer nbgrad"
        )
    if type(form) is int and 0 < form < FORMAT:
        raise ArchiveError(
            f"nbgrad {str(writer)[:40]} has written it in form {form}, and this is nbgrad {version('nbgrad')}, which "
            f"reads form {FORMAT}: write it again"
        )
    if (
        type(form) is not int
        or form != FORMAT
        or document.keys() != {"kind", "format", "nbgrad", "facts", "tables", "picture"}
    ):
        raise MismatchError(f"a document of form {FORMAT}")
    return document["picture"]


def _outline(graph: SavedGraph, row: PictureRow) -> Outline:
    """The outline, whose unwritten texts are written from the records of the graph."""
    description, records = row["description"], graph.drawn
    ids = {record.id: node_id(at) for at, record in enumerate(records)}
    saved = saved_by(graph.known_memory())
    edges, sums = _edges(records, description["edges"])
    walk = StepContext(records, ids, edges)
    rests: dict[str, NodeRest | ReductionRest] = {
        ids[record.id]: NodeRest(record, saved.get(record.id), row["measured"].get(ids[record.id], []), walk)
        for record in records
    }
    ops = {
        name: {**op, "formulas": list(map(_typeset, op["formulas"])), "symbols": list(map(_typeset, op["symbols"]))}
        for name, op in description["ops"].items()
    }
    formulas = {latex: mathml for latex in description["formulas"] if (mathml := _typeset_text(latex))}
    return Outline({**description, "ops": ops, "formulas": formulas}, rests | sums)  # type: ignore[typeddict-item]  # each op has all of its fields


_LATEX = 4_000
"""A formula with more letters stays as it is."""


def _typeset_text(latex: str) -> str:
    return typeset(latex)[0] if len(latex) <= _LATEX else ""


def _typeset(formula: Formula) -> Formula:
    return {**formula, "mathml": _typeset_text(formula["latex"])}


def _edges(records: list[Record], drawn: list[Edge]) -> tuple[list[Edge], dict[str, NodeRest | ReductionRest]]:
    """The edges between records, which stand first, and the unwritten texts of their reductions."""
    made = {record.id: record for record in records}
    taken = [(record, one) for record in records for one in record.inputs if one.source in made]
    edges, rests = drawn[: len(taken)], dict[str, NodeRest | ReductionRest]()
    for edge, (record, one) in zip(edges, taken, strict=True):
        if one.reduction is not None:
            rests[edge["id"]] = reduction_rest(one.reduction, one, made[one.source or 0], record)
    return edges, rests


# --- what a picture may refer to -------------------------------------------------------------------------------------

_ID = re.compile(r"[a-z][\w.-]{0,40}", re.ASCII)
_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|")


def _check(row: PictureRow, records: list[Record]) -> None:
    """Raise a MismatchError if a part of the picture refers to one that is not there, or the records are others."""
    known = row["description"]
    nodes = {node["id"]: at for at, node in enumerate(known["nodes"])}
    scopes = {scope["id"]: at for at, scope in enumerate(known["scopes"])}
    edges = [edge["id"] for edge in known["edges"]]
    for what, ids in (("nodes", list(nodes)), ("scopes", list(scopes)), ("edges", edges)):
        many = len(known[what])  # type: ignore[literal-required]  # these are three of its lists
        _need(len(set(ids)) == many and all(map(_ID.fullmatch, ids)), f"a list of {what} with ids of their own")
    _need([*nodes][: len(records)] == list(map(node_id, range(len(records)))), "a picture of all records")
    depths: dict[str | None, int] = {None: 0}
    for scope in known["scopes"]:
        _need(scope["parent"] in depths, "scopes inside earlier scopes")
        depths[scope["id"]] = depths[scope["parent"]] + 1
    _need(max(depths.values()) <= DEPTH, "scopes around which fewer others are")
    for node in known["nodes"]:
        _need(bool(node["label"]) and all(map(_is_number, node["norms"])), "nodes with a label and with numbers")
        drawn = node["row"], node["calls"], node["bars"], node["value"], node["gradient"]
        _need(drawn == (None,) * 5 and not node["holds"], "nodes of which nothing is drawn yet")
        _need(node["rule"] is None or clean(node["rule"]) == node["rule"], "nodes whose gradients are numbers")
        _need(node["scope"] is None or node["scope"] in scopes, "nodes in scopes of the picture")
        _need(node["op"] is None or node["kind"] == "failed" or node["op"] in known["ops"], "nodes of known ops")
    for at, edge in enumerate(known["edges"]):
        _need(edge["source"] in nodes and edge["target"] in nodes, "edges between nodes of the picture")
        _need(edge["id"] == edge_id(at), "edges in their order")
    _check_edges(known, nodes, records)
    _check_rest(known, nodes, scopes)


def _check_edges(known: Description, nodes: dict[str, int], records: list[Record]) -> None:
    """Check that the first edges are those between the records: those of an op that raised follow."""
    ids = {record.id: node_id(at) for at, record in enumerate(records)}
    wanted = [
        (ids[one.source], ids[record.id], one.reduction is None)
        for record in records
        for one in record.inputs
        if one.source in ids
    ]
    found = [(edge["source"], edge["target"], edge["reduction"] is None) for edge in known["edges"]]
    _need(found[: len(wanted)] == wanted, "edges between the records")
    _need(all(nodes[target] >= len(records) for _, target, _ in found[len(wanted) :]), "edges between the records")


def _check_rest(known: Description, nodes: dict[str, int], scopes: dict[str, int]) -> None:
    """Check the references to nodes and scopes, and that nothing is there that only a drawn picture has."""
    plain = plain_description(2, "", "")
    for field in ("version", "steps", "copies", "twins", "hidden"):
        _need(known[field] == plain[field], f"a picture without {field} of its own")
    _need(not known.keys() & {"questions", "unknown", "beside"}, "a picture without questions")
    ranking, kept = known["ranking"], known.get("kept")
    charts = [known["history"]["loss"], *known["history"]["charts"]]
    _need(
        {"", *nodes}  # a curve of losses, and a column of an op that is not drawn, belong to no node
        >= {
            *[row["node"] for row in ranking["rows"]],
            *[one["node"] for one in known["problems"] if one["node"] is not None],
            *[curve["node"] for chart in charts if chart is not None for curve in chart["curves"]],
            *(() if kept is None else kept["nodes"]),
            *known["living"],
        },
        "lists of nodes of the picture",
    )
    _need(
        scopes.keys()
        >= {
            *[row["scope"] for row in ranking["rows"] if row["scope"] is not None],
            *[one["scope"] for one in known["verdicts"] if one["scope"] is not None],
            *[one for pair in ranking["parents"].items() for one in pair],
        },
        "lists of scopes of the picture",
    )
    places = range(len(ranking["rows"]))
    for column in ranking["columns"]:
        _need(len(column["cells"]) == len(places) and {*column["order"]} <= {*places}, "a ranking of all its rows")
    stored = () if kept is None else kept["sizes"]
    for numbers in () if kept is None else kept["nodes"].values():
        _need(all(0 <= number < len(stored) for number in numbers), "nodes that keep storages of the list")
    _check_overlays(known)


def _check_overlays(known: Description) -> None:
    keys = Counter([overlay["key"] for overlay in known["overlays"]])
    _need(not keys or max(keys.values()) == 1, "overlays with keys of their own")
    classes = {overlay["key"]: len(overlay["classes"]) for overlay in known["overlays"]}
    for overlay in known["overlays"]:
        colours = overlay.get("colours", [])
        _need(all(map(_COLOUR.fullmatch, colours)), "overlays with colours such as #2a9d8f")
        _need(len(colours) in (0, len(overlay["classes"])), "overlays with a colour for each class")
    for node in known["nodes"]:
        for key, level in node["levels"].items():
            many = classes.get(key, 0)
            _need(0 <= level < many and level == int(level) if many else 0 <= level <= 1, "levels of overlays")
    _need(known["colour"] in {"", *keys}, "a colour of the overlays")


def _is_number(text: str) -> bool:
    """Whether it is the text of a norm; empty where there is none."""
    try:
        return not text or float(text) >= 0 or isnan(float(text))
    except ValueError:
        return False


def _need(holds: bool, expected: str) -> None:
    """Raise a MismatchError if it does not hold."""
    if not holds:
        raise MismatchError(expected, "the picture")

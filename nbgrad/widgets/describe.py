"""From a recorded graph to the plain description that every rendering draws."""

import linecache
from functools import cache

from latex2mathml import exceptions
from latex2mathml.converter import convert

from nbgrad.core.contents import dtype_name
from nbgrad.core.graph import AutogradGraph
from nbgrad.core.modes import Scope as CoreScope
from nbgrad.core.record import Input, Record
from nbgrad.core.row import Op
from nbgrad.nn.scopes import ModuleScope
from nbgrad.widgets.description import Badge, Description, Detail, Edge, Formula, Kind, Node, OpText, Problem, Scope
from nbgrad.widgets.failure import with_failure
from nbgrad.widgets.frames import past
from nbgrad.widgets.looks import look
from nbgrad.widgets.overlays import Levels, measured, overlays, verdicts
from nbgrad.widgets.problems import problems
from nbgrad.widgets.reductions import is_loss, reduction, suspicion
from nbgrad.widgets.saving import Saved
from nbgrad.widgets.steps import steps
from nbgrad.widgets.wording import counted, number, scalar, shape_text

_KINDS = {
    "parameter": "parameter, which training changes",
    "leaf": "tensor that needs a gradient",
    "input": "input: data, which need no gradient",
    "constant": "constant: it needs no gradient",
    "outside": "computed before this graph was opened",
}


def describe(graph: AutogradGraph, error: BaseException | None = None) -> Description:
    """The description of what ``graph`` recorded: after a backward, of what it ran through.

    Args:
        graph: open or closed.
        error: what ended the cell, if something did: where it was raised is drawn too.
    """
    failure = None if error is None else graph.failure(error)
    records = graph.records
    ids = {record.id: f"n{number}" for number, record in enumerate(records)}
    made = {record.id: record for record in records}
    scopes = _Scopes()
    inputs = {record.id: record.inputs for record in records}
    saved = {record.id: Saved(record, inputs[record.id], made) for record in records if record.kind == "op"}
    shown, levels = overlays(graph, records, saved)
    taken = [
        (record, position, one)
        for record in records
        for position, one in enumerate(inputs[record.id])
        if one.source is not None and one.source in made
    ]
    edges = {
        (record.id, position): _edge(f"e{count}", record, inputs[record.id], position, made, ids)
        for count, (record, position, one) in enumerate(taken)
    }
    wrong = problems(graph, records, inputs, ids, list(edges.values()))
    nodes = [_node(record, inputs[record.id], ids, scopes, saved, levels) for record in records]
    for node, more in zip(nodes, measured(graph, records), strict=True):
        node["details"] += more
    _add_badges(nodes, wrong)
    history = past(graph, records, ids)
    for record, node in zip(records, nodes, strict=True):
        node["norms"], node["past"] = history.norms.get(record.id, []), history.levels.get(record.id, "")
    described = Description(
        version=2,
        name=graph.name,
        summary=_summary(graph, records, list(edges.values())),
        notes=_notes(graph, records),
        nodes=nodes,
        edges=list(edges.values()),
        scopes=scopes.described(records),
        ops={record.op.name: op_text(record.op) for record in records if record.op is not None},
        formulas=scopes.formulas(),
        steps=steps(records, inputs, ids, edges),
        overlays=shown,
        verdicts=verdicts(records, scopes.id),
        problems=wrong,
        history=history.history,
    )
    return described if failure is None else with_failure(described, failure, ids, scopes.id, type(error).__name__)


class _Scopes:
    """Gives each module call an id, outer before inner, when one of its ops is first met."""

    def __init__(self) -> None:
        self._ids: dict[CoreScope, str] = {}

    def id(self, scope: CoreScope | None) -> str | None:
        if scope is None:
            return None
        if scope not in self._ids:
            self.id(scope.parent)
            self._ids[scope] = f"s{len(self._ids)}"
        return self._ids[scope]

    def described(self, records: list[Record]) -> list[Scope]:
        """Every scope that was met, with what is in it."""
        ops, parameters, elements = (dict.fromkeys(self._ids, 0) for _ in range(3))
        for record in records:
            scope = record.scope
            while scope is not None:
                ops[scope] += record.kind == "op"
                parameters[scope] += record.kind == "parameter"
                elements[scope] += _elements(record) if record.kind == "parameter" else 0
                scope = scope.parent
        return [
            Scope(
                id=id,
                label=scope.label,
                parent=self.id(scope.parent),
                folds=_folds(ops[scope], parameters[scope], elements[scope]),
            )
            for scope, id in self._ids.items()
        ]

    def formulas(self) -> dict[str, str]:
        """The MathML of every module's formula, by its LaTeX."""
        texts = {scope.kind.__formula__: "" for scope in self._ids if isinstance(scope, ModuleScope)}
        return {latex: mathml for latex in texts if (mathml := _typeset(latex))}


_NO_LATEX: tuple[type[Exception], ...] = tuple(
    one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Exception)
)
"""What the converter raises: these have no base of their own."""


@cache
def _typeset(latex: str) -> str:
    """MathML; "" where the class of a user has something else than LaTeX there, which then stands as it is."""
    if not latex:
        return ""
    try:
        return convert(latex)
    except _NO_LATEX:
        return ""


def _elements(record: Record) -> int:
    count = 1
    for size in record.shape:
        count *= size
    return count


def _folds(ops: int, parameters: int, elements: int) -> str:
    weights = f", {counted(parameters, 'parameter')} ({elements:,})" if parameters else ""
    return f"{counted(ops, 'op')}{weights}"


def _node(
    record: Record,
    inputs: tuple[Input, ...],
    ids: dict[int, str],
    scopes: _Scopes,
    saved: dict[int, Saved],
    levels: Levels,
) -> Node:
    return Node(
        id=ids[record.id],
        kind=_kind(record),
        root=record.root,
        label=_label(record),
        rule=None if record.gradient is None else f"∇ {number(record.gradient.norm)}",
        scope=scopes.id(record.scope),
        op=record.op.name if record.op is not None else None,
        details=list(_details(record, inputs, saved.get(record.id))),
        value=None if record.value is None else look(record.value),
        gradient=None if record.gradient is None else look(record.gradient),
        badges=[],
        levels=levels.get(record.id, {}),
        holds=[],
        norms=[],
        past="",
    )


def _kind(record: Record) -> Kind:
    if record.kind == "constant" and record.name:
        return "input"
    return record.kind  # type: ignore[return-value]  # the record's kinds are the description's


def _label(record: Record) -> list[str]:
    title = record.name or record.kind
    if record.op is not None:
        title = f"{record.name} = {record.op.name}" if record.name else record.op.name
    lines = [title, f"{shape_text(record.shape)} {dtype_name(record.dtype)}"]
    if record.shape == () and record.value is not None and record.value.values is not None:
        lines.append(f"value {scalar(record.value.values)}")
    return lines


def _details(record: Record, inputs: tuple[Input, ...], saved: Saved | None) -> list[Detail]:
    """What a click on the node shows, row by row; rows without a text are left out."""
    rows: list[tuple[str, str | None]] = [
        ("name", record.name),
        ("what", "a loss" if record.root and is_loss(record) else _KINDS.get(_kind(record))),
        ("block", _block(record.scope)),
        ("shape", shape_text(record.shape)),
        ("dtype", f"{dtype_name(record.dtype)}, on {record.device}"),
        *((name, str(setting)) for name, setting in record.settings.items() if setting is not None),
        *((taken.name, f"the number {taken.literal}") for taken in inputs if taken.literal is not None),
        ("source", _source_line(record)),
        ("saved for the backward", None if saved is None else str(saved)),
    ]
    return [Detail(term=term, text=text) for term, text in rows if text]


def _block(scope: CoreScope | None) -> str | None:
    """What the module is in whose call the op ran."""
    return f"{scope.label}: {scope.about}" if isinstance(scope, ModuleScope) and scope.about else None


def _edge(
    id: str, record: Record, inputs: tuple[Input, ...], position: int, made: dict[int, Record], ids: dict[int, str]
) -> Edge:
    taken = inputs[position]
    assert taken.source is not None
    source = made[taken.source]
    undone, came = taken.reduction, taken.gradient
    # An op with several results has one record: of which of them this is, the gradient alone tells.
    several = source.op is not None and source.op.several
    shape = came.shape if came is not None and several else tuple(source.shape)
    shapes = [tuple(made[one.source].shape) for one in inputs if one.source in made]
    return Edge(
        id=id,
        source=ids[taken.source],
        target=ids[record.id],
        input=taken.name,
        label=f"{shape_text(shape)} {dtype_name(source.dtype)}",
        back=None if came is None else shape_text(came.shape),
        gradient=None if came is None else f"{shape_text(came.shape)}, norm {number(came.norm)}",
        mismatch=None
        if came is None or came.shape == shape
        else f"gradient of shape {shape_text(came.shape)} for a value of shape {shape_text(shape)}",
        reduction=None if undone is None else reduction(undone, taken, suspicion(record, shapes, taken)),
    )


def _add_badges(nodes: list[Node], wrong: list[Problem]) -> None:
    by_id = {node["id"]: node for node in nodes}
    for problem in wrong:
        if problem["node"] is not None and problem["node"] in by_id:
            by_id[problem["node"]]["badges"].append(Badge(kind=problem["kind"], text=problem["text"]))


def _summary(graph: AutogradGraph, records: list[Record], edges: list[Edge]) -> str:
    ops = sum(record.kind == "op" for record in records)
    reductions = sum(edge["reduction"] is not None for edge in edges)
    parts = [counted(ops, "op"), counted(len(records) - ops, "tensor"), counted(reductions, "broadcast reduction")]
    roots = [
        record.name or (record.op.name if record.op is not None else record.kind) for record in records if record.root
    ]
    last = f", the last of {graph.backwards:,}" if graph.backwards > 1 else ""
    return ", ".join(parts) + (f"; backward from {', '.join(roots)}{last}" if roots else "")


def _notes(graph: AutogradGraph, records: list[Record]) -> list[str]:
    if not records:
        return [
            "Nothing was recorded: no tensor here needs a gradient. "
            "Make one with nbgrad.tensor(..., requires_grad=True)."
        ]
    if graph.backwards == 0 and not any(record.gradient is not None for record in records):
        return ["No backward ran here: call .backward() on a scalar to see gradients."]
    return []


@cache
def op_text(op: Op) -> OpText:
    """What the table says of an op: the first two paragraphs of its docstring, and its formulas."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in op.doc.split("\n\n")]
    why = paragraphs[1] if len(paragraphs) > 2 else ""
    rules = [_formula(name, rule.formula) for name, rule in op.rules.items()]
    return OpText(what=paragraphs[0], why=why, formulas=[_formula("", op.formula), *rules])


def _formula(of: str, latex: str) -> Formula:
    return Formula(of=of, latex=latex, mathml=convert(latex))


def _source_line(record: Record) -> str | None:
    if record.file is None or record.line is None:
        return None
    text = linecache.getline(record.file, record.line).strip()
    return f"line {record.line}: {text}" if text else None

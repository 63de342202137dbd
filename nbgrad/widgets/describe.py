"""``describe``: from a recorded graph to the plain description that every rendering draws."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from itertools import takewhile
from math import isnan
from operator import itemgetter
from typing import Any

import torch

from nbgrad.core.dispatch.formula import symbols
from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope as CoreScope, outwards
from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.memory import MemoryUse
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.saved_graph import AnyGraph, SavedGraph
from nbgrad.core.graph.slowest import Times
from nbgrad.core.graph.stats import SMALL, Stats
from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import translate
from nbgrad.widgets.description.broadcast_sums import ReductionRest, Suspicion, reduction, reduction_rest
from nbgrad.widgets.description.changed_views import PASSED, changed_views
from nbgrad.widgets.description.compiled import CompiledParts
from nbgrad.widgets.description.concealed import concealed
from nbgrad.widgets.description.derivatives import derived
from nbgrad.widgets.description.details import NodeRest
from nbgrad.widgets.description.distinction import distinction
from nbgrad.widgets.description.failure import badge_of, ending_text, with_failure
from nbgrad.widgets.description.format import counted, duration, shape_text
from nbgrad.widgets.description.history import POINTS, Losses, past, root_name
from nbgrad.widgets.description.ids import edge_id, node_id, scope_id
from nbgrad.widgets.description.layers import layer_parts, layered
from nbgrad.widgets.description.living_bytes import kept_bytes, least_of, short_bytes, timeline, worth_a_word
from nbgrad.widgets.description.loops import Iteration, iterations
from nbgrad.widgets.description.outline import LOOK, LOOPED, Outline, Rests
from nbgrad.widgets.description.overlay_kinds import AddedOverlays
from nbgrad.widgets.description.overlays import OWN, measured, overlays, times_of
from nbgrad.widgets.description.questions import question
from nbgrad.widgets.description.rank_overlays import rank_notes
from nbgrad.widgets.description.ranking import ranking
from nbgrad.widgets.description.repeats import runs
from nbgrad.widgets.description.saved_values import saved_by
from nbgrad.widgets.description.schema import (
    Badge,
    Description,
    Edge,
    Formula,
    LossText,
    Node,
    OpText,
    Problem,
    Scope,
    ScopeKind,
    Spoiled,
    Verdict,
    kind_of,
    plain_description,
    plain_node,
)
from nbgrad.widgets.description.sections import sectioned
from nbgrad.widgets.description.shared_modules import shared_calls, tied_parameters
from nbgrad.widgets.description.summed_losses import summed_losses
from nbgrad.widgets.description.tensor_summary import FEW, WRITTEN_IN_BOX, amount, broken, in_box
from nbgrad.widgets.description.text_metrics import clip
from nbgrad.widgets.description.totals import totals
from nbgrad.widgets.description.tree import Tree
from nbgrad.widgets.description.walk import StepContext
from nbgrad.widgets.findings.collect import Survey
from nbgrad.widgets.findings.outcome import outcome
from nbgrad.widgets.optional_packages import loading

_ROLES = frozenset(
    (
        "target",
        "index",
        "indices",
        "mask",
        "attn_mask",
        "condition",
        "weight",
        "pos_weight",
        "offsets",
        "grid",
        "hx",
        "cx",
    )
)
"""The names of arguments that say what a constant without a name is."""

DRAWN = 40_000
"""Of more ops than this the first and the last ones are drawn: a page of a million ops takes minutes."""


def describe(graph: AnyGraph) -> Description:
    """The description of what ``graph``, open or closed, recorded.

    After a backward it has only the ops and tensors that the backward ran through. If an error ended the graph, the
    op that raised is drawn too.
    """
    return outline(graph).detail()


def outline(graph: AnyGraph) -> Outline:
    """The outline of ``graph``. Its ``detail`` writes the details, looks, sums and steps, which it still lacks.

    It holds the numbers as they are now, and neither a tensor nor the graph. A graph that was read from a file has it.
    """
    known: Outline = graph.outline if isinstance(graph, SavedGraph) else _outline(graph)
    return known


@uncollected
def _outline(graph: AutogradGraph) -> Outline:
    survey = Survey.of(graph, DRAWN)
    ending, compiled, frames = graph.ending, CompiledParts(graph, survey.records), survey.frames
    records = compiled.records
    ids = {record.id: node_id(at) for at, record in enumerate(records)}
    scopes, inside = _Scopes(), _made_inside(records)
    if len(records) > LOOPED:
        inside |= iterations(records, inside)
    memory = graph.known_memory(None if survey.left_out else records)
    saved = saved_by(memory)
    shown, levels = overlays(graph, records, saved)
    added, usual = AddedOverlays.of(records), _usual_dtype(records)
    edges, sums = _edges(records, ids, _unkept(graph, records) | compiled.unknown, survey.stretched, usual)
    shapes, walk = {record.id: record.shape for record in records}, StepContext(records, ids, edges)
    failure = None if ending is None else ending.failure
    # The error that ended the graph comes first. If an op raised it, ``with_failure`` puts it first, further below.
    said = survey.problems if failure is not None or survey.ended is None else [survey.ended, *survey.problems]
    wrong = _problems(said, ids)
    history = past(frames, survey.records, ids, _losses(graph, frames))
    most, file = WRITTEN_IN_BOX if len(records) <= LOOK else FEW, _file(records)
    nodes, rests = list[Node](), dict[str, NodeRest | ReductionRest]()
    titled, (terms, parts) = _titles(records, usual), summed_losses(records, ids)
    for record, more in zip(records, measured(graph, records), strict=True):
        id = ids[record.id]
        title, value = titled(record), _value(record, most, parts.get(id, []))
        node: Node = {
            **plain_node(id, kind_of(record.kind, record.name), [*title, *value], []),
            "root": record.root,
            "numbers": [len(title), len(title) + len(value)] if value else [],
            "about": distinction(record, shapes),
            "badges": compiled.badges.get(record.id, []),
            "spoiled": _spoiled(record),
            "rule": None if record.gradient is None else _gradient(record, record.gradient, most),
            "scope": scopes.id(inside.get(record.id, record.scope)),
            "op": record.op.name if record.op is not None else None,
            "variable": "" if record.op is None else _variable(record),
            "levels": levels.get(record.id, {}) | added.levels.get(record.id, {}),
            "norms": history.norms.get(record.id, []),
            "past": history.levels.get(record.id, ""),
            "bytes": saved[record.id].size if record.id in saved else 0,
            "line": (record.line or 0) if record.file == file and record.op is not None else 0,
        }
        rows = [*compiled.rows.get(record.id, ()), *added.details.get(record.id, ()), *more]
        rests[id] = NodeRest(record, saved.get(record.id), rows, walk)
        nodes.append(node)
    _add_badges(nodes, [*wrong, *_problems([other for one in said for other in one.group[1:]], ids)])
    raised = failure.scope if failure is not None and failure.id is None else None
    scopes.id(raised)
    living, columns = timeline(memory, ids, drawn=len(records) <= DRAWN)
    described: Description = {
        **plain_description(2, str(graph.name), ""),
        "notes": [
            *_notes(graph, records),
            *_left_out(survey),
            *rank_notes(graph),
            *compiled.notes,
            *survey.waits.notes,
            *survey.mistakes,
            *survey.outside.mistakes,
            *added.notes,
        ],
        "stopped": ending is not None and not ending.interrupted,
        "nodes": nodes,
        "edges": edges,
        "scopes": scopes.described(records, inside, raised, memory, times_of(graph), graph.modules),
        "ops": {record.op.name: op_text(record.op) for record in records if record.op is not None},
        "formulas": scopes.formulas(),
        "overlays": [*shown, *added.overlays, *history.overlays],
        "colour": next((one["key"] for one in reversed(shown) if one["key"].startswith(OWN)), ""),
        "verdicts": _verdicts(survey, scopes, nodes),
        "problems": wrong,
        "outcome": outcome(graph, survey),
        "checked": survey.checkup.lines,
        "history": history.history,
        "memory": living,
        "living": columns,
        "kept": kept_bytes(memory, ids),
        "ranking": ranking(graph, records, ids, lambda record: inside.get(record.id, record.scope), scopes.id, saved),
    }
    if ending is not None and failure is not None and survey.ended is not None:
        described = with_failure(described, ending, failure, survey.ended, ids, scopes.id)
    hidden = {ids[id] for id in graph.questions.hidden(records)}
    described |= {
        "summary": _summary(graph, records, described, usual, hidden),
        "totals": totals(graph, records, memory),
        "losses": _started_from(records, ids),
        "sums": terms,
    }
    whole = _grouped(graph, described, records, ids, rests | sums, memory)
    if missing := graph.questions.unknown(records) if graph.backwards else []:
        whole = whole.noted(
            translate(
                "Nothing called {names} got a gradient of at most {SMALL:,} numbers, so the reader "
                "cannot be asked for it.",
                names=translate(" or ").join(missing),
                SMALL=SMALL,
            )
        )
    if not hidden:
        return whole
    asked = [one for record in graph.questions.left(records) if (one := question(ids[record.id], record)) is not None]
    return concealed(whole, hidden, asked, _asked(graph, records))


def _grouped(
    graph: AutogradGraph,
    described: Description,
    records: list[Record],
    ids: dict[int, str],
    rests: Rests,
    memory: MemoryUse | None,
) -> Outline:
    """The outline of a description, with the scopes that only folding needs."""
    told = worth_a_word(memory)
    evidence = Evidence(graph)
    described = derived(described, records, ids, evidence.derivations(), evidence.names(), told=told)
    equal = runs(Tree(described))
    sizes = {ids[record.id]: _elements(record) for record in records if record.kind == "parameter"}
    described = layered(described, equal, layer_parts(records, ids), sizes, told=told)
    places = {ids[record.id]: record.place for record in records}
    return Outline(sectioned(described, equal, places, told=told), rests, runs=equal)


def _file(records: list[Record]) -> str | None:
    """The file, such as a cell, that called most of the ops outside of all modules; if there are none, most of all."""
    ops = [record for record in records if record.op is not None and record.earlier is None]
    files = Counter(one.file for one in [one for one in ops if one.scope is None] or ops)
    return files.most_common(1)[0][0] if files else None


def _asked(graph: AutogradGraph, records: list[Record]) -> str:
    """Which gradients the reader is still asked for, and how to answer."""
    left = [name for name, answer in graph.questions.answers(records).items() if not answer]
    return translate(
        "Asked for: the gradients of {names}. Click a box to answer, or use graph.answer({left!r}, ...).",
        names=", ".join(left),
        left=left[0],
    )


def _made_inside(records: list[Record]) -> dict[int, CoreScope]:
    """The call in which a constant without a name is drawn, if the call made it, such as the mask of a dropout.

    It is the innermost call around all readers of the constant. A call counts only if an op ran in it before the first
    reader: otherwise the constant may have been passed to the call.
    """
    loose = {
        record.id for record in records if record.kind == "constant" and record.name is None and record.scope is None
    }
    around: dict[CoreScope | None, list[CoreScope]] = {}
    begun: set[CoreScope] = set()
    homes: dict[int, list[CoreScope]] = {}
    for record in records if loose else ():
        if record.scope not in around:
            around[record.scope] = list(outwards(record.scope))
        for source in [taken.source for taken in record.inputs if taken.source in loose]:
            homes[source] = [one for one in around[record.scope] if one in homes.get(source, begun)]
        if record.op is not None:
            begun.update(around[record.scope])
    return {id: known[0] for id, known in homes.items() if known}


class _Scopes:
    """Gives each module call an id, outer before inner, when one of its ops is first met."""

    def __init__(self) -> None:
        self._ids: dict[CoreScope, str] = {}

    def id(self, scope: CoreScope | None) -> str | None:
        if scope is None:
            return None
        new = list(takewhile(lambda one: one not in self._ids, outwards(scope)))
        for one in reversed(new):
            self._ids[one] = scope_id(len(self._ids))
        return self._ids[scope]

    def described(
        self,
        records: list[Record],
        inside: dict[int, CoreScope],
        raised: CoreScope | None,
        memory: MemoryUse | None,
        times: Mapping[int, Times],
        variables: Mapping[Any, str],
    ) -> list[Scope]:
        """Every scope that was met, with its contents. ``raised`` also contains the op that raised: it has no record.

        A record that is drawn ``inside`` an iteration, and not in its own scope, is counted in the iteration.
        """
        ops, parameters, elements = (dict.fromkeys(self._ids, 0) for _ in range(3))
        seconds = dict.fromkeys(self._ids, 0.0)
        if raised is not None:
            ops[raised] += 1
        for record in records:
            if (scope := _home(record, inside)) is not None:
                ops[scope] += record.kind == "op"
                parameters[scope] += record.kind == "parameter"
                elements[scope] += _elements(record) if record.kind == "parameter" else 0
                seconds[scope] += times[record.id].seconds if record.id in times else 0.0
        for scope in reversed(self._ids):  # inner before outer
            if (around := scope.parent) is not None:
                for counts in (ops, parameters, elements):
                    counts[around] += counts[scope]
                seconds[around] += seconds[scope]
        described: list[Scope] = []
        kept = {} if memory is None else self._kept(records, inside, memory)
        hiding = set[CoreScope]() if memory is None else _hiding(records, inside, memory)
        told = worth_a_word(memory)
        calls = shared_calls(self._ids, {scope for scope, many in parameters.items() if many}, variables)
        for scope, id in self._ids.items():
            kind, name, like = _called(scope)
            inner = ops[scope], parameters[scope], elements[scope]
            folds = scope.body if isinstance(scope, Iteration) else _folds(*inner)
            size = kept.get(scope, 0)
            if size and told:
                folds += f", {least_of(scope not in hiding)}{short_bytes(size)}"
            if seconds[scope] and not isinstance(scope, Iteration):  # those of a loop are compared by this text
                folds += f", {duration(seconds[scope])}"
            call = calls.get(scope)
            described.append(
                Scope(
                    id=id,
                    kind=kind,
                    name=name if call is None else call.name or name,
                    like=like,
                    label=scope.label if call is None else call.title,
                    full="",
                    parent=self.id(scope.parent),
                    folds=folds,
                    op=None,
                    bytes=size,
                    variant=scope.variant if isinstance(scope, Iteration) else 0,
                )
            )
        return described

    def _kept(self, records: list[Record], inside: dict[int, CoreScope], memory: MemoryUse) -> dict[CoreScope, int]:
        """The bytes that the ops in each scope keep together: a storage of several ops counts once."""
        homes: dict[int, dict[CoreScope, None]] = {}
        for record in records:
            scope = _home(record, inside)
            if scope is not None:
                for number in memory.numbers_of(record.id):
                    homes.setdefault(number, {})[scope] = None
        sizes = dict.fromkeys(self._ids, 0)
        for number, (first, *others) in homes.items():
            size = memory.storages[number].size
            sizes[first] += size
            met = set(outwards(first)) if others else set()
            for scope in others:  # where it meets another keeper on its way outwards, the storage would count twice
                sizes[scope] += size
                for one in outwards(scope):
                    if one in met:
                        sizes[one] -= size
                        break
                    met.add(one)
        for scope in reversed(self._ids):  # inner before outer
            if scope.parent is not None:
                sizes[scope.parent] += sizes[scope]
        return sizes

    def formulas(self) -> dict[str, str]:
        """The MathML of every module's formula, by its LaTeX."""
        texts = [scope.kind.formula for scope in self._ids if isinstance(scope, ModuleScope)]
        return {latex: mathml for latex in dict.fromkeys(texts) if (mathml := typeset(latex)[0])}


def _home(record: Record, inside: dict[int, CoreScope]) -> CoreScope | None:
    """The scope in which a record is counted."""
    home = inside.get(record.id)
    return home if isinstance(home, Iteration) else record.scope


def _hiding(records: list[Record], inside: dict[int, CoreScope], memory: MemoryUse) -> set[CoreScope]:
    """The scopes with an op of which torch does not show all that it keeps."""
    hidden = [record for record in records if record.id in memory.kept.hidden]
    return {scope for record in hidden for scope in outwards(_home(record, inside))}


@cache
def typeset(latex: str) -> tuple[str, str]:
    """The MathML of a formula, and an empty text; or an empty text, and why a formula stands as it was written.

    The class or the op of a user may have something else than LaTeX there.
    """
    if not latex:
        return "", ""
    try:
        with loading:
            from latex2mathml.converter import convert
    except Exception as error:
        lacks = "is not installed" if isinstance(error, ModuleNotFoundError) else f"fails here: {error}"
        return "", f"Formulas are shown as LaTeX, because latex2mathml {lacks}. Run: pip install latex2mathml"
    try:
        return convert(latex), ""
    except Exception as error:  # its errors have no base of their own
        return "", f"The formula is shown as LaTeX, because it cannot be typeset: {type(error).__name__}."


def _called(scope: CoreScope) -> tuple[ScopeKind, str, str]:
    """The kind of a scope, its name, and what it shares with scopes like it."""
    if isinstance(scope, Iteration):
        return "iteration", f"{scope.number:,}", scope.lines
    if isinstance(scope, ModuleScope):
        return "module", scope.label.removesuffix(f" ({scope.kind.name})"), scope.kind.name
    return "part", scope.label, scope.label


def _elements(record: Record) -> int:
    count = 1
    for size in record.shape:
        count *= size
    return count


def _folds(ops: int, parameters: int, elements: int) -> str:
    weights = f", {counted(parameters, 'parameter')} ({elements:,})" if parameters else ""
    return f"{counted(ops, 'op')}{weights}"


def _usual_dtype(records: list[Record]) -> torch.dtype | None:
    """The element type of most ops, or of most tensors if there is no op. It is written once, in the header."""
    kinds = Counter([record.dtype for record in records if record.op is not None] or [one.dtype for one in records])
    return kinds.most_common(1)[0][0] if kinds else None


def _roles(records: list[Record]) -> dict[int, str]:
    """The arguments that constants without a name are given to, by their ids, where these say what a constant is."""
    nameless = {record.id for record in records if record.kind == "constant" and not record.name}
    found: dict[int, str] = {}
    for record in records if nameless else ():
        for taken in record.inputs:
            # To an op of a module it is the input; any other ``input`` may be a number of a formula.
            told = taken.name in _ROLES or (taken.name == "input" and isinstance(record.scope, ModuleScope))
            if told and taken.source in nameless:
                found.setdefault(taken.source, taken.name)
    return found


def _titles(records: list[Record], usual: torch.dtype | None) -> Callable[[Record], list[str]]:
    """A function that gives the first two lines of the box of a record."""
    roles, tied = _roles(records), tied_parameters(records)

    def titled(record: Record) -> list[str]:
        title = (record.full if record.id in tied else record.name) or roles.get(record.id) or translate(record.kind)
        if record.op is not None:
            title = f"{_variable(record)} = {record.op.name}" if record.name else record.op.name
        cell = "" if record.earlier is None else f" · {clip(record.earlier, _TITLE)}"
        return [title, f"{_kind_text(record.shape, record.dtype, usual)}{cell}"]

    return titled


def _variable(record: Record) -> str:
    """The user's name of the result of an op, or of its first result; empty if there is none."""
    return f"{record.name}, …" if record.name and record.several else record.name or ""


def _value(record: Record, most: int, parts: list[str]) -> list[str]:
    """The lines of a box with its value: up to ``most`` numbers are written out. A sum has the lines of its parts."""
    value = record.value
    if value is None or value.array is None or not 0 < value.array.size <= most:
        return []
    after = (
        "" if record.since is None or record.since.what is None else translate(" after {what}", what=record.since.what)
    )
    return [*broken(translate("value {in_box}{after}", in_box=in_box(value), after=after)), *parts]


def _spoiled(record: Record) -> list[Spoiled]:
    """Which numbers are not to be used any more. A mask has infinite values, and so has the score of a masked place."""
    value, gradient = record.value, record.gradient
    found: list[Spoiled] = ["value"] if value is not None and (value.nan or isnan(value.norm)) else []
    return [*found, "gradient"] if gradient is not None and _broken(gradient) else found


def _broken(gradient: Stats) -> bool:
    """Whether a gradient has a NaN or an Inf. Of some only the norm is known, which may be infinite without them."""
    return bool(gradient.nan or gradient.inf or isnan(gradient.norm))


def _gradient(record: Record, gradient: Stats, most: int) -> str:
    """The line of the gradient: up to ``most`` numbers, or the norm. A ``.grad`` that differs is added."""
    held = None if record.since is None else record.since.grad or record.since.later
    whose = translate(" of all results") if record.several else ""
    values = gradient.array
    few = held is None and values is not None and 1 < values.size <= most and values.dtype.kind in "fiubc"
    told = in_box(gradient) if few else amount(gradient)  # two lists would be too long for a line
    return f"∇ {told}{whose}" + ("" if held is None else translate(", .grad {held}", held=amount(held)))


@cache
def _kind_text(shape: tuple[int, ...], dtype: torch.dtype, usual: torch.dtype | None) -> str:
    """The shape, and the element type if it is not the one that the header tells."""
    return shape_text(shape) if dtype is usual else f"{shape_text(shape)} {dtype_name(dtype)}"


def _unkept(graph: AutogradGraph, records: list[Record]) -> set[int]:
    """The nodes that the last backward reached, if the graph kept no gradients because ``watch`` was off."""
    reached = set() if graph.watch or not graph.backwards else {record.id for record in records if record.root}
    for record in reversed(records):
        if record.id in reached:
            reached.update(one.source for one in record.inputs if one.source is not None)
    return reached


def _edges(
    records: list[Record],
    ids: dict[int, str],
    unkept: set[int],
    stretched: dict[tuple[int, int], Suspicion],
    usual: torch.dtype | None,
) -> tuple[list[Edge], dict[str, ReductionRest]]:
    """The edges, in the order of the ops and of their inputs; and the unwritten texts of the reductions, by edge id."""
    made, views = {record.id: record for record in records}, changed_views(records)
    edges, rests = list[Edge](), dict[str, ReductionRest]()
    for record in records:
        for at, taken in enumerate(record.inputs):
            if (source := made.get(taken.source or 0)) is None:
                continue
            undone, came = taken.reduction, taken.gradient
            # An op with several results has one record. Only the shape of the gradient tells which result this is.
            shape = came.shape if came is not None and source.several else source.shape
            back = None if came is None else shape_text(came.shape)
            warning = None if (one := stretched.get((record.id, at))) is None else one.text
            told = translate("not kept") if record.id in unkept and source.kind != "constant" else None
            if came is not None:
                told = f"{back}, {amount(came, FEW)}"
            elif views.get(source.id) is record:
                told = translate(PASSED)
            edge: Edge = {
                "id": edge_id(len(edges)),
                "source": ids[source.id],
                "target": ids[record.id],
                "input": taken.name,
                "label": _kind_text(shape, source.dtype, usual),
                "back": back,
                "gradient": told,
                "spoiled": 1 if came is not None and _broken(came) else 0,
                "mismatch": None
                if came is None or came.shape == shape
                else translate(
                    "gradient of shape {back} for a value of shape {shape}", back=back, shape=shape_text(shape)
                ),
                "reduction": None if undone is None else reduction(undone, warning),
            }
            if undone is not None:
                rests[edge["id"]] = reduction_rest(undone, taken, source, record)
            edges.append(edge)
    return edges, rests


def _problems(findings: list[Finding], ids: dict[int, str]) -> list[Problem]:
    """The findings as they are drawn."""
    return [Problem(kind=badge_of(one.kind), text=one.text, node=ids.get(one.id or 0)) for one in findings]


def _add_badges(nodes: list[Node], wrong: list[Problem]) -> None:
    by_id = {node["id"]: node for node in nodes}
    for problem in wrong:
        if problem["node"] is not None and problem["node"] in by_id:
            by_id[problem["node"]]["badges"].append(Badge(kind=problem["kind"], text=problem["text"]))


def _verdicts(survey: Survey, scopes: "_Scopes", nodes: list[Node]) -> list[Verdict]:
    """The verdicts on modules; the first op of a module whose gradients are not sound gets a badge."""
    ops: dict[str | None, Node] = {}
    for node in nodes:
        if node["kind"] == "op":
            ops.setdefault(node["scope"], node)
    found = [
        Verdict(kind=one.kind, scope=scopes.id(one.scope), name=one.scope.path()[-1], text=one.text)
        for one in survey.verdicts
    ]
    for verdict in found:
        if verdict["kind"] != "sound" and verdict["scope"] in ops:
            ops[verdict["scope"]]["badges"].append(Badge(kind="warning", text=verdict["text"]))
    return found


def _summary(
    graph: AutogradGraph, records: list[Record], described: Description, usual: torch.dtype | None, hidden: set[str]
) -> str:
    """How many ops, tensors and reductions are drawn, and where the last backward began. An op that raised counts.

    The reductions of the nodes that are ``hidden`` would give away what the reader is asked for.
    """
    ops = sum(node["kind"] in ("op", "failed") for node in described["nodes"])
    reductions = sum(edge["reduction"] is not None and edge["source"] not in hidden for edge in described["edges"])
    tensors = len(described["nodes"]) - ops
    parts = [counted(ops, "op"), counted(tensors, "tensor"), counted(reductions, "broadcast reduction")]
    if usual is not None:
        alone = all(record.dtype is usual for record in records)
        parts.append(
            translate("all {usual}" if alone else "{usual} unless a box says otherwise", usual=dtype_name(usual))
        )
    roots = [root_name(record) for record in records if record.root]
    parts += [
        translate("{count:,} of the ops from {cell}", count=count, cell=cell)
        for cell, count in _earlier(records).items()
    ]
    if roots:
        return translate(
            "{names}; backward {number}from {names2}{of_all}",
            names=", ".join(parts),
            number=_number(graph),
            names2=", ".join(roots),
            of_all=_of_all(graph),
        )
    forward = records and graph.ending is None and not graph.backwards
    return ", ".join(parts) + (translate("; forward only") if forward else "")


def _started_from(records: list[Record], ids: Mapping[int, str]) -> list[LossText]:
    """The numbers from which the last backward started, where they are known."""
    known = [one for one in records if one.root and one.value is not None and one.value.array is not None]
    return [
        LossText(node=ids[one.id], name=root_name(one), text=in_box(one.value))
        for one in known
        if one.value is not None and one.value.array is not None and one.value.array.size == 1
    ]


def _losses(graph: AutogradGraph, frames: list[HistoryFrame]) -> Losses:
    """The losses to draw, by the names that their lines have for them: those of the frames, or all of these lines."""
    known, paced = {one.number: one for one in graph.losses}, graph.recorded < graph.backwards
    lines: dict[object, list[HistoryFrame]] = {}
    for frame in frames:
        place = known[frame.number].place if frame.number in known else None
        lines.setdefault(place and place.instruction, []).append(frame)
    found: dict[str, list[tuple[int, float | None]]] = {}
    for some in lines.values():
        first = known.get(some[0].number)
        name = "loss" if first is None or len(lines) == 1 else _loss_name(first.place)
        all_of_them = graph.pace.losses.along(some[-1].number, POINTS) if paced else []
        shown = [one[:2] for one in all_of_them] or [(frame.number, frame.loss) for frame in some]
        found[name] = sorted([*found.get(name, []), *shown], key=itemgetter(0))
    return found


def _loss_name(place: Place) -> str:
    """The name of the loss in the line of a backward: ``d_loss`` in ``d_loss.backward()``."""
    found = re.search(r"(\w+)\.backward\(", place.text)
    return found[1] if found is not None else translate("line {line:,}", line=place.line)


def _number(graph: AutogradGraph) -> str:
    """The number of the backward that is drawn, where it is not the last one: later ones were not recorded.

    How many were recorded depends on the speed of the machine, so it is not told here: saved outputs stay equal.
    """
    frame = graph.frame
    return "" if frame is None or frame.number == graph.backwards else f"{frame.number:,} "


def _of_all(graph: AutogradGraph) -> str:
    """How many backwards there were."""
    if _number(graph):
        return translate(", the last recorded of {backwards:,}", backwards=graph.backwards)
    return translate(", the last of {backwards:,}", backwards=graph.backwards) if graph.backwards > 1 else ""


def _earlier(records: list[Record]) -> dict[str, int]:
    """By each earlier cell or graph, how many of the ops it recorded."""
    return Counter([record.earlier for record in records if record.earlier is not None])


_TITLE = 16
"""At most this many letters of the name of an earlier graph are in a box."""


def _notes(graph: AutogradGraph, records: list[Record]) -> list[str]:
    """The sentences below the picture: what is missing in it, and why."""
    notes = [] if graph.fault is None else [f"{graph.fault}."]
    unseen = sum(record.id in Evidence(graph).unseen() for record in records)
    if unseen and graph.recorded < graph.backwards:
        notes.append(
            translate(
                "{ops} of this backward ran between recorded steps, so their values and constant inputs "
                "are not known: --every 1 records each step.",
                ops=counted(unseen, "op"),
            )
        )
    if unread := Evidence(graph).unread():
        kinds = translate(" and ").join(unread)
        notes.append(
            translate(
                "The ops on {kinds} are shown without values: nbgrad reads the values of plain tensors only.",
                kinds=kinds,
            )
        )
    if without := Evidence(graph).without_numbers:
        kept = (
            translate("; what ops keep is what torch's kernels for these tensors keep")
            if graph.known_memory(records)
            else ""
        )
        notes.append(
            translate(
                "{without} have no numbers, so values, gradients and losses are not known. Shapes are exact{kept}.",
                without=f"{without[0].upper()}{without[1:]}",
                kept=kept,
            )
        )
        if times_of(graph):
            notes.append(translate("Times of such ops are those of torch's checks of shapes: no kernel ran."))
    return [*_state(graph, records), *notes]


def _left_out(survey: Survey) -> list[str]:
    """The sentence about the ops that the picture leaves out, if there are any."""
    if not survey.left_out:
        return []
    shown = sum(record.kind == "op" for record in survey.records)
    return [
        translate(
            "{left_out:,} of {left_out2:,} ops are not drawn, and no finding is about them: the picture "
            "has the first {shown:,} and the last {shown2:,} ops.",
            left_out=survey.left_out,
            left_out2=survey.left_out + shown,
            shown=shown - shown // 2,
            shown2=shown // 2,
        )
    ]


def _state(graph: AutogradGraph, records: list[Record]) -> list[str]:
    """How far the graph came, where that is not the end of a backward."""
    frame, kind = graph.frame, translate("recorded" if graph.recorded < graph.backwards else "complete")
    shown = translate(
        "The gradients are those of backward {number:,}, the last {kind} one.",
        number=0 if frame is None else frame.number,
        kind=kind,
    )
    if not records:
        shown = _empty(graph)
    elif graph.ending is None:
        return []
    elif graph.backwards == 0 and not any(record.gradient is not None for record in records):
        shown = translate("No backward was complete, so no gradient is shown.")
    return [shown] if graph.ending is None else [f"{ending_text(graph.ending)} {shown}"]


def _empty(graph: AutogradGraph) -> str:
    """Why there is nothing to show."""
    if graph.backwards and Evidence(graph).began_at_leaf():
        return translate(
            "The backward began at a leaf, so no other tensor got a gradient. The leaf was made from "
            "numbers, as in tensor(loss.item(), requires_grad=True), or by requires_grad_(). Call "
            "backward() on the result of the ops."
        )
    if graph.backwards:
        return translate("A backward ran here, but no op of it is left in this graph.")
    if left_out := Evidence(graph).left_out():
        return _not_recorded(left_out)
    if not Evidence(graph).nothing_ran():
        return translate(
            "Ops ran here on tensors that need a gradient, but there is nothing to show: no backward "
            "reached them, and they ran inside no_grad() or their results no longer exist."
        )
    return translate(
        "Nothing was recorded: no op ran here on a tensor that needs a gradient. Make one with "
        "requires_grad=True: nbgrad.tensor(..., requires_grad=True), or torch's own. "
        "nbgrad.draw(root) draws what an engine of your own has computed."
    )


def _not_recorded(ops: dict[str, bool]) -> str:
    """The torch ops that ran instead."""
    shown = list(ops)[:_NAMED]
    more = translate(" and others") if len(ops) > _NAMED else ""
    ran = translate("Nothing was recorded: {names}{more} of torch ran here", names=", ".join(shown), more=more)
    if not any(ops.values()):
        return translate(
            "{ran}, but with gradients off, as inside torch.no_grad(). Run them outside of it to see them.", ran=ran
        )
    return translate(
        "{ran}, but on no tensor that needs a gradient. Make one with requires_grad=True, or call a module here.",
        ran=ran,
    )


_NAMED = 3
"""At most this many of the ops that were not recorded are named."""


@cache
def op_text(op: Op) -> OpText:
    """The facts of the table about an op: the first two paragraphs of its docstring, and its formulas."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in op.doc.split("\n\n")]
    why = [paragraphs[1]] if len(paragraphs) > 2 else []
    formulas = [("", op.formula), *[(name, rule.formula) for name, rule in op.rules.items()]]
    shown = [_formula(of, str(latex or "")) for of, latex in formulas]  # the op of a user may have anything there
    why += dict.fromkeys([said for one in shown if (said := typeset(one["latex"])[1])])
    return OpText(what=paragraphs[0], why=" ".join(why), formulas=shown, symbols=_symbols(op))


def _symbols(op: Op) -> list[Formula]:
    """The symbols of the inputs of an op, and of the gradient of its result, in its formulas."""
    if not all(isinstance(latex, str) for latex in (op.formula, *(rule.formula for rule in op.rules.values()))):
        return []  # the op of a user may have anything there
    found = symbols(op)
    own = {**{name: name for name in op.inputs}, "g_out": ""}
    return [_formula(of, found[name]) for name, of in own.items() if name in found]


def _formula(of: str, latex: str) -> Formula:
    return Formula(of=of, latex=latex, mathml=typeset(latex)[0])

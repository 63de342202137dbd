"""Draw less when not everything can be drawn: an outline -> an outline of at most so many nodes.

Each step runs only if it is needed, so that a picture is seen at once. Runs of identical blocks become one node,
``Block × 12``, and so do those of identical cycles, ``Linear, relu × 12``. Module scopes are folded into one node each,
deepest level first. If more are left than may be drawn, the nodes nearest to the start of the backward, or to the
modules that the reader unfolded, are kept.
"""

from collections import Counter, defaultdict
from itertools import groupby

from nbgrad.core.graph.memory import byte_text
from nbgrad.core.stages import stage
from nbgrad.core.translation import translate, translate_count
from nbgrad.widgets.description.format import counted, lines_of, listed, plural
from nbgrad.widgets.description.ids import folded_id
from nbgrad.widgets.description.living_bytes import bytes_level, least_of
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.repeats import Run
from nbgrad.widgets.description.sanitize import LINE
from nbgrad.widgets.description.schema import (
    Chart,
    Description,
    Detail,
    Edge,
    Given,
    History,
    KeptBytes,
    Node,
    Reduction,
    Scope,
    Spoiled,
    Step,
    plain_node,
)
from nbgrad.widgets.description.stage import STAGE, Stage
from nbgrad.widgets.description.text_metrics import clip
from nbgrad.widgets.description.tree import Tree, iterates
from nbgrad.widgets.description.walk import Stop
from nbgrad.widgets.folding.bars import bars_of
from nbgrad.widgets.folding.choose import Folding, first_folding, folded_below, homes, necessary
from nbgrad.widgets.folding.folded import hidden_by
from nbgrad.widgets.folding.prune import keep_nearest

NODES = 300
"""The largest number of drawn nodes if no reader has chosen the folded modules."""

ASKED = 1000
"""The same if a reader has chosen the folded modules, or has unfolded one: a page still draws this many fast."""

_NOUNS = {
    "iteration": plural("iteration"),
    "section": plural("section"),
    "layer": plural("layer"),
    "derivative": plural("derivative"),
}
"""The words for the kinds of folded scopes, other than calls of modules and parts that the user named."""

_GRADIENTS = 8
"""A step lists at most this many gradients along one edge; of more it tells their number."""

_ENDS = 10
"""The details list this many iterations from the beginning and this many from the end."""


@stage("fold")
def asked(graph: Description | Outline, depth: int | None, nodes: int | None) -> tuple[Folding | None, int]:
    """The modules that a reader chose to fold, and how many nodes may be drawn then.

    Args:
        graph: all of it.
        depth: modules that are nested deeper are folded; None to fold only as many as necessary.
        nodes: how many may be drawn, and so how much has to be folded; None for as many as a first look needs.
    """
    if depth is not None:
        return folded_below(graph, depth), ASKED if nodes is None else nodes
    return (None, NODES) if nodes is None else (necessary(graph, nodes), nodes)


def chosen(
    graph: Outline, limit: int, folding: Folding | None = None, asked: int = ASKED, on: Stage = STAGE
) -> Outline:
    """Return the outline of what will be drawn: folded, and only the nearest part of it if that is still too large.

    For a module that the reader unfolded ``asked`` nodes may be drawn.
    """
    folding = first_folding(graph, limit, on) if folding is None else folding
    drawn = fold(graph, folding)
    most = max(limit, asked) if folding.asked else limit
    if len(drawn.description["nodes"]) > most:
        drawn = keep_nearest(drawn, most, folding.asked)
    return drawn


def fold(graph: Outline, folding: Folding) -> Outline:
    """Draw each closed scope as one node, and those of a run as one unless they stand apart.

    Where nothing is folded, and nothing was unfolded, there are no frames around the iterations of loops. There is one
    around a group only if a reader unfolded it.
    """
    unseen = graph.tree.groups - folding.framed
    if not folding.closed:
        unseen |= frozenset() if folding.asked else graph.tree.iterations
        return graph.changed(_without(graph.tree, graph.description, unseen), graph.stops())
    description, scopes = graph.description, graph.tree.scopes
    hidden = homes(graph, folding)
    members: defaultdict[str, list[Node]] = defaultdict(list)
    for node in description["nodes"]:
        if home := hidden.get(node["scope"] or "", hidden.get(node["id"])):
            members[home].append(node)
    # One node folded into one node would only hide it.
    members = defaultdict(list, {home: inside for home, inside in members.items() if len(inside) > 1})
    drawn_in = {scope: home for scope, home in hidden.items() if home in members}
    where = {node["id"]: folded_id(home) for home, inside in members.items() for node in inside}
    held: defaultdict[str, list[Scope]] = defaultdict(list)
    for id, scope in scopes.items():
        if id in hidden and scope["parent"] not in hidden:
            held[hidden[id]].append(scope)
    cycles = {calls[0]: run for run in graph.runs for calls in run.cycles}
    nodes = _stand_ins(description, members, where, held, cycles)
    merged, renamed = _merged(description["edges"], where)
    note = _fold_note([scope for home in members for scope in held[home]], len(where))
    drawn: Description = {
        **description,
        "living": [where.get(node, node) for node in description["living"]],
        "hidden": hidden_by(graph.tree, where, {edge["id"] for edge in merged}, unseen),
        "beside": {where.get(one, one): where.get(by, by) for one, by in description.get("beside", {}).items()},
        "notes": [*description["notes"], note],
        "nodes": nodes,
        "edges": merged,
        "problems": [{**one, "node": where.get(one["node"] or "", one["node"])} for one in description["problems"]],
        "history": _history(description["history"], where),
        "verdicts": [
            {**one, "scope": drawn_in.get(one["scope"] or "", one["scope"])} for one in description["verdicts"]
        ],
    }
    return graph.changed(_without(graph.tree, drawn, unseen), _walk(graph, where, renamed, nodes))


def _without(tree: Tree, description: Description, unseen: frozenset[str]) -> Description:
    """The description without the scopes ``unseen``: what is in them is in the scopes around them."""
    if not unseen:
        return description

    def around(scope: str | None) -> str | None:
        return next((one for one in tree.outwards(scope) if one not in unseen), None)

    return {
        **description,
        "nodes": [{**node, "scope": around(node["scope"])} for node in description["nodes"]],
        "scopes": [
            {**scope, "parent": around(scope["parent"])} for scope in description["scopes"] if scope["id"] not in unseen
        ],
    }


def _history(history: History, where: dict[str, str]) -> History:
    """The history with curves that lead to the drawn nodes, in which their parameters are."""

    def led(chart: Chart) -> Chart:
        curves = [{**curve, "node": where.get(curve["node"], curve["node"])} for curve in chart["curves"]]
        return {**chart, "curves": curves}  # type: ignore[typeddict-item]  # they are curves

    loss = history["loss"]
    return {**history, "loss": loss and led(loss), "charts": list(map(led, history["charts"]))}


def _stand_ins(
    description: Description,
    members: dict[str, list[Node]],
    where: dict[str, str],
    held: dict[str, list[Scope]],
    cycles: dict[str, Run],
) -> list[Node]:
    """The nodes that stay, and the folded ones, each at the place of its last op, so after all its inputs."""
    inner: defaultdict[str, list[Reduction]] = defaultdict(list)
    leaving: defaultdict[str, set[str]] = defaultdict(set)
    for edge in description["edges"]:
        source = where.get(edge["source"])
        if source is None:
            continue
        if source != where.get(edge["target"]):
            leaving[source].add(edge["source"])
        elif edge["reduction"] is not None:
            inner[source].append(edge["reduction"])
    last = {inside[-1]["id"]: home for home, inside in members.items()}
    sizes = [node["bytes"] for node in description["nodes"]]
    classed = {overlay["key"] for overlay in description["overlays"] if overlay["classes"]}
    nodes: list[Node] = []
    for node in description["nodes"]:
        if node["id"] not in where:
            nodes.append(node)
        elif (home := last.get(node["id"])) is not None:
            id = folded_id(home)
            levels = _levels(members[home], classed)
            folded = _folded_node(held[home], members[home], inner[id], cycles.get(home), levels)
            folded = _with_bytes(folded, members[home], description.get("kept"), sizes)
            nodes.append(_with_result(folded, members[home], leaving[id]))
    return nodes


def _with_result(node: Node, inside: list[Node], leaving: set[str]) -> Node:
    """A folded node with the shape and the gradient of its result, where all that leaves it is one tensor.

    Args:
        node: the box that is drawn for the nodes ``inside``.
        inside: those nodes.
        leaving: the ids of the nodes inside that a node outside reads.
    """
    if node["kind"] != "folded" or len(leaving) != 1:
        return node
    (result,) = (one for one in inside if one["id"] in leaving)
    spoiled: list[Spoiled] = [*node["spoiled"], *(one for one in result["spoiled"] if one == "gradient")]
    return {**node, "label": [*node["label"], *result["label"][1:2]], "rule": result["rule"], "spoiled": spoiled}


def _with_bytes(node: Node, inside: list[Node], kept: KeptBytes | None, sizes: list[int]) -> Node:
    """A folded node with the bytes that the nodes ``inside`` keep together: a storage of several counts once.

    ``sizes`` are those of all nodes, between which lies the scale of the colours.
    """
    if kept is None:
        return node
    size = sum([kept["sizes"][at] for at in {at for one in inside for at in kept["nodes"].get(one["id"], ())}])
    if not size:
        return node
    whole = {one["id"] for one in inside}.isdisjoint(kept["hidden"])
    details: list[Detail] = [
        *node["details"],
        _part(translate("Kept for the backward"), f"{least_of(whole)}{byte_text(size)}"),
    ]
    levels = {**node["levels"], "saved": bytes_level(size, sizes)} if "saved" in node["levels"] else node["levels"]
    return {**node, "bytes": size, "details": details, "levels": levels}


def _part(term: str, text: str) -> Detail:
    """A row of the details that says what is in a folded node."""
    return Detail(term=term, text=text, role="parts")


def _levels(inside: list[Node], classed: set[str]) -> dict[str, float]:
    """The largest level in each overlay; for overlays with classes, the class if the nodes agree on one."""
    found: defaultdict[str, set[float]] = defaultdict(set)
    for node in inside:
        for key, level in node["levels"].items():
            found[key].add(level)
    return {key: max(levels) for key, levels in found.items() if key not in classed or len(levels) == 1}


def _fold_note(scopes: list[Scope], hidden: int) -> str:
    many = Counter([_NOUNS.get(scope["kind"], plural("module call")) for scope in scopes])
    what = listed([translate_count(count, *noun) for noun, count in many.items()])
    return translate(
        "{what} {are} folded, holding {nodes}.",
        what=what,
        are=translate("is" if len(scopes) == 1 else "are"),
        nodes=counted(hidden, "node"),
    )


def _folded_node(
    scopes: list[Scope], inside: list[Node], reductions: list[Reduction], run: Run | None, levels: dict[str, float]
) -> Node:
    """The box of one call; or of several calls of a ``run``, with the ops between them."""
    ops = [node for node in inside if node["kind"] == "op"]
    counts = Counter(node["op"] or node["label"][0] for node in ops)
    details: list[Detail] = [
        _part(translate("Folded"), f"{counted(len(ops), 'op')}, {counted(len(inside) - len(ops), 'tensor')}"),
        _part(translate("Ops"), "\n".join(f"{name} × {count}" for name, count in counts.most_common(40))),
    ]
    if own := [one for one in inside if one["kind"] == "parameter" and one["rule"] is not None]:
        rows = [f"{one['label'][0]} {' '.join(one['label'][1:2])} {one['rule']}" for one in own]
        more = [translate("and {count:,} more", count=len(rows) - 2 * _ENDS)] if len(rows) > 2 * _ENDS + 1 else []
        told = "\n".join([*rows[:_ENDS], *more, *rows[-_ENDS:]] if more else rows)
        details.append({"term": translate("Gradients of parameters"), "text": told})
    if reductions:
        texts = Counter(reduction["text"] for reduction in reductions)
        rows = [f"{text}" + (f"  × {count}" if count > 1 else "") for text, count in texts.most_common(40)]
        details.append({"term": translate("Broadcast reductions inside"), "text": "\n".join(rows)})
    label = [scopes[0]["label"], scopes[0]["folds"]]
    if run is not None and len(scopes) > 1:
        ends = [scopes[0]["name"], scopes[-1]["name"]]
        kinds, calls = [part.kind for part in run.parts], len(run.cycles[0])
        loop = calls == 1 and iterates(scopes[0])
        branches = {scope["variant"]: scope["folds"] for scope in scopes} if loop else {}
        many = f" × {len(scopes) // calls:,}" + (
            translate(", {count} kinds", count=len(branches)) if len(branches) > 1 else ""
        )
        label = [_names(kinds, LINE - len(many)) + many]
        if loop:
            label.append(" | ".join(dict.fromkeys(scope["folds"] for scope in scopes)))
        elif ends != kinds * 2:  # calls of one module without a name
            names = " … ".join(dict.fromkeys(ends))
            label.append(
                translate("{names}, {calls:,} calls", names=names, calls=len(scopes))
                if {one["name"] for one in scopes} == {ends[0]}
                else names
            )
        folds = iter(scopes)
        each = [(part.kind, next(folds)["folds"] if part.called else counted(1, "op")) for part in run.parts]
        text = "\n".join(map(": ".join, each)) if len(each) > 1 else each[0][1]
        if len(branches) > 1:
            times = Counter([scope["variant"] for scope in scopes])
            text = "\n".join([f"{branches[one]} × {count:,}" for one, count in times.most_common()])
        details.insert(0, _part(translate("Each of them"), text))
        if loop:
            details.insert(1, _part(translate("Iterations"), _iterations(scopes, inside)))
    spoiled = any(node["spoiled"] for node in inside)
    if spoiled:
        label[1:2] = [", ".join([*label[1:2], translate("NaN or Inf inside")])]
    past = "".join(map(max, zip(*(node["past"] for node in inside if node["past"]), strict=True)))
    return {
        **plain_node(folded_id(scopes[0]["id"]), "folded", label, details),
        "root": any(node["root"] for node in inside),
        "scope": scopes[0]["parent"],
        "badges": [badge for node in inside for badge in node["badges"]],
        "spoiled": ["inside"] if spoiled else [],
        "levels": levels,
        "holds": [scope["id"] for scope in scopes],
        "calls": scopes[0]["kind"],
        "past": past,
        "bars": bars_of(scopes, inside, past),
    }


def _iterations(scopes: list[Scope], inside: list[Node]) -> str:
    """The text about the first and the last iterations: a line for each, with its last op and the gradient of that."""
    last: dict[str | None, Node] = {node["scope"]: node for node in inside if node["kind"] == "op"}
    lines = [
        " ".join([f"{scope['name']}:", *lines_of(node), node["rule"] or ""])
        for scope in scopes
        if (node := last.get(scope["id"])) is not None
    ]
    left = len(lines) - 2 * _ENDS
    return "\n".join(
        [*lines[:_ENDS], translate("and {left:,} more", left=left), *lines[-_ENDS:]] if left > 1 else lines
    )


def _names(kinds: list[str], room: int) -> str:
    """As many of these names as there is room for, at least one; and how many more there are."""
    for many in range(len(kinds), 0, -1):
        more = translate(" and {count} more", count=len(kinds) - many) if many < len(kinds) else ""
        names = ", ".join(kinds[:many])
        if len(names) + len(more) <= room:
            return names + more
    return clip(names, room - len(more)) + more


def _merged(edges: list[Edge], where: dict[str, str]) -> tuple[list[Edge], dict[str, str]]:
    """Redirect edges to folded nodes; those with the same ends and the same reduction become one.

    Returns:
        The edges; and for each old edge that is still drawn the id of the new edge that contains it.
    """
    merged: dict[tuple[str, str, str], list[Edge]] = {}
    origins: dict[str, str] = {edge["id"]: edge["source"] for edge in edges}
    for edge in edges:
        source, target = where.get(edge["source"], edge["source"]), where.get(edge["target"], edge["target"])
        if source == target:
            continue
        touched = source != edge["source"] or target != edge["target"]
        reduction = edge["reduction"]["text"] if edge["reduction"] else ""
        key = (source, target, reduction if touched else edge["id"])
        merged.setdefault(key, []).append({**edge, "source": source, "target": target})
    renamed = {edge["id"]: group[0]["id"] for group in merged.values() for edge in group}
    return [_merged_edge(group, len({origins[edge["id"]] for edge in group})) for group in merged.values()], renamed


def _merged_edge(group: list[Edge], tensors: int) -> Edge:
    """One edge in place of several, which carry this number of ``tensors``."""
    first = group[0]
    if len(group) == 1:
        return first
    gradients = [edge for edge in group if edge["gradient"]]
    none = "" if any(edge["gradient"] is not None for edge in group) else None
    several = translate("{count} gradients", count=len(gradients))
    back = gradients[0]["back"] if tensors == 1 and gradients else several
    alone = gradients[0] if len(gradients) == 1 else None
    return {
        **first,
        "input": "",
        "label": first["label"]
        if tensors == 1
        else translate("{first} and {tensors} more", first=first["label"], tensors=tensors - 1),
        "back": None if not gradients else alone["back"] if alone else back,
        "gradient": none if not gradients else alone["gradient"] if alone else several,
        "spoiled": 1 if any(edge["spoiled"] for edge in group) else 0,
    }


def _led(step: Step, where: dict[str, str]) -> Step:
    """A rewrite that leads to the nodes that are drawn."""
    rewrite = step["rewrite"]
    after = where.get(rewrite["after"], rewrite["after"])
    return {**step, "node": where.get(step["node"], step["node"]), "rewrite": {**rewrite, "after": after}}


def _walk(graph: Outline, where: dict[str, str], renamed: dict[str, str], drawn: list[Node]) -> list[Stop]:
    """The walk through the drawn graph: consecutive steps inside one folded node are one step.

    A rewrite of a program is a step of its own, also inside of a folded node.
    """
    if any("rewrite" in stop.step for stop in graph.walk or ()):
        return [Stop(_led(stop.step, where), stop.node, []) for stop in graph.stops()]
    stopped = graph.stopped()
    stops = [(at, list(inside)) for at, inside in groupby(stopped, key=lambda node: where.get(node, node))]
    passing = [edge for edge in graph.description["edges"] if edge["id"] in renamed]
    told = {inside[0] for _, inside in stops}.union(edge["target"] for edge in passing)
    some = [node for node in graph.description["nodes"] if node["id"] in told]
    stop_of = {stop.step["node"]: stop for stop in graph.stops(some, passing)}
    labels = {node["id"]: node["label"][0] for node in drawn}
    walk: list[Stop] = []
    ran = 0
    for at, inside in stops:
        passed: defaultdict[str, list[tuple[Given, tuple[str, str]]]] = defaultdict(list)
        for stop in [stop_of[node] for node in inside if node in stop_of]:
            for one, origin in zip(stop.step["given"], stop.given, strict=True):
                if (edge := renamed.get(one["edge"])) is not None:
                    passed[edge].append(({**one, "edge": edge}, origin))
        given, origins = list[Given](), list[tuple[str, str]]()
        for edge, ones in passed.items():
            if len(ones) > _GRADIENTS:
                many = counted(len(ones), "gradient")
                ones = [(Given(edge=edge, text=many, came=many, reduction=None, sum=None), ("", ""))]
            given += [one for one, _ in ones]
            origins += [origin for _, origin in ones]
        first = stop_of[inside[0]]
        title = (
            translate("{rules} inside {labels}", rules=counted(len(inside), "rule"), labels=labels[at])
            if inside[0] in where
            else first.step["title"]
        )
        rules = [ran + 1, ran + len(inside), len(stopped)]
        ran += len(inside)
        walk.append(
            Stop({**first.step, "node": at, "rules": rules, "title": title, "given": given}, first.node, origins)
        )
    return walk

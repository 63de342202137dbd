"""What is drawn when not everything can be: Description -> a Description of at most so many nodes.

Three steps, each only if it is needed. Module scopes are folded into one node each, deepest level first. If that is not
enough, or would leave nothing worth seeing, the nodes nearest to where the backward started are kept. Last, a tensor
with many readers is drawn once beside each of them: one box with a hundred arrows tells a reader nothing, and
graphviz needs minutes for it.
"""

from collections import Counter, defaultdict

from nbgrad.widgets.description import Description, Detail, Edge, Formula, Node, Reduction, Scope
from nbgrad.widgets.lettering import clean, clip

HUB = 3
"""A tensor with more readers than this is drawn once per use."""

_FEW = 10  # a picture with fewer nodes than this after folding says less than a part of the whole graph
_LINE, _LINES, _MARK, _SCOPE, _TERM, _TEXT = 44, 5, 72, 56, 80, 20_000


def drawable(description: Description, limit: int) -> Description:
    """Return the description as it will be drawn.

    Args:
        description: the whole graph; it is not changed.
        limit: how many nodes may be drawn, not counting the copies of shared tensors.

    Returns:
        A description whose strings are clean and of bounded length, with its folded nodes, its copies ("n3.1",
        "n3.2", ... for the uses of "n3") and a note for whatever is left out.
    """
    drawn = _clipped(description)
    if len(drawn["nodes"]) > limit:
        drawn = _fold_scopes(drawn, limit)
    if len(drawn["nodes"]) > limit:
        drawn = _keep_nearest(drawn, limit)
    return _without_empty_scopes(_split_hubs(drawn))


def scope_path(scopes: dict[str, Scope], scope: str | None) -> list[str]:
    """Return the ids of a scope and its ancestors, outermost first."""
    path: list[str] = []
    while scope is not None and scope in scopes and scope not in path:
        path.append(scope)
        scope = scopes[scope]["parent"]
    return path[::-1]


def counted(number: int, noun: str) -> str:
    """Return "1 op", "2 ops", "1,200 ops"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- every string clean and of bounded length ----------------------------------------------------------------------


def _clipped(description: Description) -> Description:
    scopes = {scope["id"] for scope in description["scopes"]}
    return {
        "version": description["version"],
        "name": clip(description["name"], 120),
        "summary": clip(description["summary"], 500),
        "notes": [clip(note, 500) for note in description["notes"]],
        "nodes": [_clipped_node(node, scopes) for node in description["nodes"]],
        "edges": [_clipped_edge(edge) for edge in description["edges"]],
        "scopes": [{**scope, "label": clip(scope["label"], _SCOPE)} for scope in description["scopes"]],
    }


def _clipped_node(node: Node, scopes: set[str]) -> Node:
    label = [clip(line, _LINE) for line in node["label"][:_LINES]]
    details: list[Detail] = [
        {"term": clip(row["term"], _TERM), "text": clip(row["text"], _TEXT, lines=True)} for row in node["details"]
    ]
    formulas: list[Formula] = [
        {
            "of": clip(formula["of"], _TERM),
            "latex": clip(formula["latex"], _TEXT),
            "mathml": "" if len(formula["mathml"]) > _TEXT else clean(formula["mathml"], lines=True),
        }
        for formula in node["formulas"]
    ]
    scope = node["scope"] if node["scope"] in scopes else None
    return {**node, "scope": scope, "label": label or [node["id"]], "details": details, "formulas": formulas}


def _clipped_edge(edge: Edge) -> Edge:
    reduction = edge["reduction"]
    return {
        **edge,
        "input": clip(edge["input"], _TERM),
        "label": clip(edge["label"], _TERM),
        "gradient": None if edge["gradient"] is None else clip(edge["gradient"], 200),
        "reduction": None if reduction is None else {**reduction, "text": clip(reduction["text"], _MARK)},
    }


# --- folding -------------------------------------------------------------------------------------------------------


def _fold_scopes(description: Description, limit: int) -> Description:
    """Fold whole levels of scopes, so that equal modules look equal, until the graph is small enough."""
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    paths = {scope: scope_path(scopes, scope) for scope in scopes}
    folded = description
    for depth in range(max(map(len, paths.values()), default=0), 0, -1):
        homes = {scope: path[depth - 1] for scope, path in paths.items() if len(path) >= depth}
        candidate = _fold(description, homes, scopes)
        if len(candidate["nodes"]) < _FEW:
            break
        folded = candidate
        if len(folded["nodes"]) <= limit:
            break
    return folded


def _fold(description: Description, homes: dict[str, str], scopes: dict[str, Scope]) -> Description:
    """Draw each scope named in ``homes`` as part of the folded node of its home."""
    members: defaultdict[str, list[Node]] = defaultdict(list)
    for node in description["nodes"]:
        if node["scope"] in homes:
            members[homes[node["scope"]]].append(node)
    # One node folded into one node would only hide it.
    members = defaultdict(list, {home: inside for home, inside in members.items() if len(inside) > 1})
    where = {node["id"]: _folded_id(home) for home, inside in members.items() for node in inside}
    inner: defaultdict[str, list[Reduction]] = defaultdict(list)
    for edge in description["edges"]:
        home = where.get(edge["source"])
        if home is not None and home == where.get(edge["target"]) and edge["reduction"] is not None:
            inner[home].append(edge["reduction"])
    nodes: list[Node] = []
    for node in description["nodes"]:
        if node["id"] not in where:
            nodes.append(node)
            continue
        home = homes[node["scope"] or ""]
        if node is members[home][-1]:  # it stands where its last op stood, after all that it takes
            nodes.append(_folded_node(scopes[home], members[home], inner[_folded_id(home)]))
    return {
        **description,
        "notes": [*description["notes"], _fold_note(len(members), len(where))],
        "nodes": nodes,
        "edges": _merged(description["edges"], where),
    }


def _folded_id(scope: str) -> str:
    return f"f-{scope}"


def _fold_note(modules: int, hidden: int) -> str:
    return (
        f"The graph is too large to draw in full: {counted(modules, 'module call')} "
        f"{'is' if modules == 1 else 'are'} drawn as one folded node each, holding {counted(hidden, 'node')}."
    )


def _folded_node(scope: Scope, inside: list[Node], reductions: list[Reduction]) -> Node:
    ops = [node for node in inside if node["kind"] in ("op", "folded")]
    tensors = len(inside) - len(ops)
    content = counted(len(ops), "op") + (f", {counted(tensors, 'tensor')}" if tensors else "")
    counts = Counter(node["label"][0] for node in ops)
    details: list[Detail] = [
        {"term": "Folded", "text": content},
        {"term": "Ops", "text": "\n".join(f"{name} × {count}" for name, count in counts.most_common(40))},
    ]
    if reductions:
        texts = Counter(reduction["text"] for reduction in reductions)
        rows = [f"{text}" + (f"  × {count}" if count > 1 else "") for text, count in texts.most_common(40)]
        details.append({"term": "Broadcast reductions inside", "text": "\n".join(rows)})
    return {
        "id": _folded_id(scope["id"]),
        "kind": "folded",
        "root": any(node["root"] for node in inside),
        "label": [scope["label"], content],
        "scope": scope["parent"],
        "details": details,
        "formulas": [],
    }


def _merged(edges: list[Edge], where: dict[str, str]) -> list[Edge]:
    """Redirect edges to folded nodes; those with the same ends and the same reduction become one."""
    merged: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in edges:
        source, target = where.get(edge["source"], edge["source"]), where.get(edge["target"], edge["target"])
        if source == target:
            continue
        touched = source != edge["source"] or target != edge["target"]
        reduction = edge["reduction"]["text"] if edge["reduction"] else ""
        key = (source, target, reduction if touched else edge["id"])
        merged.setdefault(key, []).append({**edge, "source": source, "target": target})
    return [_merged_edge(group) for group in merged.values()]


def _merged_edge(group: list[Edge]) -> Edge:
    first = group[0]
    if len(group) == 1:
        return first
    gradients = [edge["gradient"] for edge in group if edge["gradient"] is not None]
    return {
        **first,
        "input": "",
        "label": f"{first['label']} and {len(group) - 1} more",
        "gradient": None if not gradients else gradients[0] if len(gradients) == 1 else f"{len(gradients)} gradients",
    }


# --- keeping a part ------------------------------------------------------------------------------------------------


def _keep_nearest(description: Description, limit: int) -> Description:
    """Keep the nodes nearest to the roots, counted in edges; of equally near ones the later."""
    nodes, edges = description["nodes"], description["edges"]
    position = {node["id"]: index for index, node in enumerate(nodes)}
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        sources[edge["target"]].append(edge["source"])
    front = [node["id"] for node in nodes if node["root"]] or [nodes[-1]["id"]]
    kept = set(front[:limit])
    while front and len(kept) < limit:
        reached = {source for target in front for source in sources[target]} - kept
        front = sorted(reached, key=position.__getitem__, reverse=True)[: limit - len(kept)]
        kept.update(front)
    for node in reversed(nodes):  # a record may hold more than what led to its root
        if len(kept) >= limit:
            break
        kept.add(node["id"])
    lost = Counter("op" if node["kind"] in ("op", "folded") else "tensor" for node in nodes if node["id"] not in kept)
    parts = [counted(lost[noun], noun) for noun in ("op", "tensor") if lost[noun]]
    note = (
        f"The graph is too large to draw in full: only the {limit} nodes nearest to the end of the record are drawn; "
        f"{' and '.join(parts)} further away are not."
    )
    return {
        **description,
        "notes": [*description["notes"], note],
        "nodes": [node for node in nodes if node["id"] in kept],
        "edges": [edge for edge in edges if edge["source"] in kept and edge["target"] in kept],
    }


# --- shared tensors ------------------------------------------------------------------------------------------------


def _split_hubs(description: Description) -> Description:
    """Draw a tensor with many readers once per use. The first copy carries the details for all of them."""
    scope_of = {node["id"]: node["scope"] for node in description["nodes"]}
    uses = Counter(edge["source"] for edge in description["edges"])
    hubs = {node["id"] for node in description["nodes"] if _splits(node, uses[node["id"]])}
    copies: defaultdict[str, list[Node]] = defaultdict(list)
    by_id = {node["id"]: node for node in description["nodes"]}
    edges: list[Edge] = []
    for edge in description["edges"]:
        source = edge["source"]
        if source in hubs:
            number = len(copies[source]) + 1
            node: Node = {**by_id[source], "id": f"{source}.{number}", "scope": scope_of[edge["target"]]}
            if number > 1:
                node = {**node, "details": [], "formulas": []}
            copies[source].append(node)
            edge = {**edge, "source": node["id"]}
        edges.append(edge)
    nodes = [copy for node in description["nodes"] for copy in copies.get(node["id"], [node])]
    return {**description, "nodes": nodes, "edges": edges}


def _splits(node: Node, uses: int) -> bool:
    return node["kind"] not in ("op", "folded") and not node["root"] and uses > HUB


def _without_empty_scopes(description: Description) -> Description:
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    used = {scope for node in description["nodes"] for scope in scope_path(scopes, node["scope"])}
    return {**description, "scopes": [scope for scope in description["scopes"] if scope["id"] in used]}

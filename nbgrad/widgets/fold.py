"""What is drawn when not everything can be: Description -> a Description of at most so many nodes.

Steps, each only if it is needed. Runs of identical blocks become one node, ``Block × 12``. Module scopes are folded
into one node each, deepest level first. If that is not enough, or would leave nothing worth seeing, the nodes nearest
to where the backward started are kept. Last, a tensor with many readers is drawn once beside each of them: one box with
a hundred arrows tells a reader nothing, and graphviz needs minutes for it.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

from nbgrad.widgets.clipping import clipped
from nbgrad.widgets.description import Description, Detail, Edge, Given, Node, Reduction, Scope, Step
from nbgrad.widgets.keep import keep_nearest, lighter, split_hubs, without_empty_scopes
from nbgrad.widgets.rest import written
from nbgrad.widgets.wording import counted

_FEW = 10  # a picture with fewer nodes than this after folding says less than a part of the whole graph


@dataclass(frozen=True)
class Folding:
    """What a reader has folded and unfolded.

    Attributes:
        closed: ids of scopes that are drawn as one node.
        apart: ids of closed scopes that stand alone, though they are like their neighbours.
    """

    closed: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def toggled(self, description: Description, holds: list[str]) -> "Folding":
        """After a double click on what stands for the scopes ``holds``: an open scope, a closed one, or several."""
        known = {scope["id"] for scope in description["scopes"]}
        given = [scope for scope in holds if scope in known]
        if len(given) > 1:
            return replace(self, apart=self.apart | set(given))
        opened = self.closed.intersection(given)
        if not opened:
            return replace(self, closed=self.closed | set(given))
        # What is inside a scope that opens is folded itself, or a large one would be too much at once.
        inside = {scope["id"] for scope in description["scopes"] if scope["parent"] in opened}
        large = Counter(node["scope"] for node in description["nodes"])
        return replace(self, closed=self.closed - opened | {scope for scope in inside if large[scope] > _FEW})


def drawable(description: Description, limit: int, folding: Folding | None = None) -> Description:
    """Return the description as it will be drawn.

    Args:
        description: the whole graph, or its outline; it is not changed.
        limit: how many nodes may be drawn, not counting the copies of shared tensors.
        folding: which scopes are folded; None to fold as many as ``limit`` makes necessary.

    Returns:
        A description whose strings are clean and of bounded length, with its folded nodes, its copies ("n3.1",
        "n3.2", ... for the uses of "n3") and a note for whatever is left out.
    """
    same = runs(description) if folding is not None or len(description["nodes"]) > limit else []
    drawn = fold(description, first_folding(description, limit, same) if folding is None else folding, same)
    if len(drawn["nodes"]) > limit:
        drawn = keep_nearest(drawn, limit)
    return lighter(without_empty_scopes(split_hubs(clipped(written(drawn)))))


def first_folding(description: Description, limit: int, same: list[list[str]] | None = None) -> Folding:
    """The scopes to fold for at most ``limit`` nodes: whole runs and levels, so that equal modules look equal."""
    if len(description["nodes"]) <= limit:
        return Folding()
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    same = runs(description) if same is None else same
    sizes = Counter(node["scope"] for node in description["nodes"])

    def count(folding: Folding) -> int:
        """How many nodes are left."""
        inside: Counter[str] = Counter()
        for scope, home in _homes(scopes, folding, same).items():
            inside[home] += sizes[scope]
        return len(description["nodes"]) - sum(hidden - 1 for hidden in inside.values() if hidden)

    repeated = Folding(closed=frozenset(scope for run in same for scope in run))
    if _FEW <= count(repeated) <= limit:
        return repeated
    depths = {scope: len(scope_path(scopes, scope)) for scope in scopes}
    found = Folding()
    for depth in range(max(depths.values(), default=0), 0, -1):
        closed = frozenset(scope for scope in scopes if depths[scope] == depth)
        level = Folding(closed)
        if count(level) < _FEW:  # all blocks in one say nothing: one by one they may
            level = Folding(closed, apart=closed)
        if count(level) < _FEW:
            break
        found = level
        if count(level) <= limit:
            break
    return found


def folded_below(description: Description, depth: int | None) -> Folding | None:
    """The modules that are nested deeper than ``depth`` folded; None where it is None: as many as necessary."""
    if depth is None:
        return None
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    return Folding(closed=frozenset(scope for scope in scopes if len(scope_path(scopes, scope)) == depth + 1))


def scope_path(scopes: dict[str, Scope], scope: str | None) -> list[str]:
    """Return the ids of a scope and its ancestors, outermost first."""
    path: list[str] = []
    while scope is not None and scope in scopes and scope not in path:
        path.append(scope)
        scope = scopes[scope]["parent"]
    return path[::-1]


# --- identical blocks ----------------------------------------------------------------------------------------------


def runs(description: Description) -> list[list[str]]:
    """Runs of at least two identical module calls that follow each other, the outermost ones."""
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    inside: defaultdict[str, list[int]] = defaultdict(list)
    for position, node in enumerate(description["nodes"]):
        for home in scope_path(scopes, node["scope"]):
            inside[home].append(position)
    alike = _Alike(description, inside)
    found: list[list[str]] = []
    covered: set[str] = set()
    last: dict[str | None, str] = {}
    for id, scope in scopes.items():
        before, parent = last.get(scope["parent"]), scope["parent"]
        last[parent] = id
        if parent in covered:
            covered.add(id)
        elif before is not None and alike(before, id) and _adjoin(description, inside, before, id):
            if not found or found[-1][-1] != before:
                found.append([before])
            found[-1].append(id)
            covered.update((before, id))
    return found


class _Alike:
    """Says whether two module calls are the same: the same ops on the same shapes, wired in the same way."""

    def __init__(self, description: Description, inside: dict[str, list[int]]) -> None:
        self._description = description
        self._inside = inside
        self._labels = {scope["id"]: scope["label"].rpartition("(")[2] for scope in description["scopes"]}
        self._signatures: dict[str, object] = {}

    def __call__(self, one: str, other: str) -> bool:
        lengths = [len(self._inside.get(scope, ())) for scope in (one, other)]
        return (
            self._labels[one] == self._labels[other]
            and lengths[0] == lengths[1]
            and self._signature(one) == self._signature(other)
        )

    def _signature(self, scope: str) -> object:
        if scope not in self._signatures:
            nodes, members = self._description["nodes"], self._inside.get(scope, [])
            place = {position: count for count, position in enumerate(members)}
            self._signatures[scope] = [
                (node["kind"], node["op"], node["label"][1:2], self._wires(node["id"], place))
                for node in [nodes[at] for at in members]
            ]
        return self._signatures[scope]

    def _wires(self, node: str, place: dict[int, int]) -> list[tuple[str, int]]:
        return [(name, place.get(source, -1)) for name, source in self._taken[node]]

    @cached_property
    def _taken(self) -> defaultdict[str, list[tuple[str, int]]]:
        """For each node the names of its inputs and the positions of what it took."""
        positions = {node["id"]: position for position, node in enumerate(self._description["nodes"])}
        taken: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for edge in self._description["edges"]:
            taken[edge["target"]].append((edge["input"], positions[edge["source"]]))
        return taken


def _adjoin(description: Description, inside: dict[str, list[int]], before: str, after: str) -> bool:
    """Whether no op runs between two module calls: what they are part of together has no way out and in again."""
    if not inside[before] or not inside[after]:
        return False
    between = description["nodes"][inside[before][-1] + 1 : inside[after][0]]
    return not any(node["kind"] == "op" for node in between)


# --- folding -------------------------------------------------------------------------------------------------------


def fold(description: Description, folding: Folding, same: list[list[str]] | None = None) -> Description:
    """Draw each closed scope as one node, and those of a run, which ``same`` lists, as one unless they stand apart."""
    if not folding.closed:
        return description
    scopes = {scope["id"]: scope for scope in description["scopes"]}
    homes = _homes(scopes, folding, runs(description) if same is None else same)
    members: defaultdict[str, list[Node]] = defaultdict(list)
    for node in description["nodes"]:
        if node["scope"] in homes:
            members[homes[node["scope"]]].append(node)
    # One node folded into one node would only hide it.
    members = defaultdict(list, {home: inside for home, inside in members.items() if len(inside) > 1})
    where = {node["id"]: _folded_id(home) for home, inside in members.items() for node in inside}
    held: defaultdict[str, list[Scope]] = defaultdict(list)
    for scope, home in homes.items():
        if scopes[scope]["parent"] not in homes:
            held[home].append(scopes[scope])
    nodes = _stand_ins(description, members, where, held)
    merged, renamed = _merged(description["edges"], where)
    note = _fold_note(sum(len(held[home]) for home in members), len(where))
    return {
        **description,
        "notes": [*description["notes"], note],
        "nodes": nodes,
        "edges": merged,
        "steps": _steps(description["steps"], where, renamed, {node["id"]: node for node in nodes}),
        "problems": [{**one, "node": where.get(one["node"] or "", one["node"])} for one in description["problems"]],
    }


def _homes(scopes: dict[str, Scope], folding: Folding, same: list[list[str]]) -> dict[str, str]:
    """For each scope that is hidden the one whose node stands for it: of its outermost closed one, or of its run."""
    outermost: dict[str, str] = {}
    for scope in scopes:
        closed = [one for one in scope_path(scopes, scope) if one in folding.closed]
        if closed:
            outermost[scope] = closed[0]
    drawn = {scope: scope for scope in outermost.values()}
    for run in same:
        first = None
        for scope in run:
            if scope not in drawn or scope in folding.apart:
                first = None
            else:
                first = first or scope
                drawn[scope] = first
    return {scope: drawn[home] for scope, home in outermost.items()}


def _stand_ins(
    description: Description, members: dict[str, list[Node]], where: dict[str, str], held: dict[str, list[Scope]]
) -> list[Node]:
    """The nodes that stay, and the folded ones, each where its last op stood: after all that it takes."""
    inner: defaultdict[str, list[Reduction]] = defaultdict(list)
    for edge in description["edges"]:
        home = where.get(edge["source"])
        if home is not None and home == where.get(edge["target"]) and edge["reduction"] is not None:
            inner[home].append(edge["reduction"])
    homes = {_folded_id(home): home for home in members}
    nodes: list[Node] = []
    for node in description["nodes"]:
        folded = where.get(node["id"])
        if folded is None:
            nodes.append(node)
        elif node is members[homes[folded]][-1]:
            nodes.append(_folded_node(held[homes[folded]], members[homes[folded]], inner[folded]))
    return nodes


def _folded_id(scope: str) -> str:
    return f"f-{scope}"


def _fold_note(modules: int, hidden: int) -> str:
    return (
        f"{counted(modules, 'module call')} {'is' if modules == 1 else 'are'} folded, holding "
        f"{counted(hidden, 'node')}: double-click one, or press Enter twice on it, to unfold it."
    )


def _folded_node(scopes: list[Scope], inside: list[Node], reductions: list[Reduction]) -> Node:
    ops = [node for node in inside if node["kind"] == "op"]
    counts = Counter(node["op"] or node["label"][0] for node in ops)
    details: list[Detail] = [
        {"term": "Folded", "text": f"{counted(len(ops), 'op')}, {counted(len(inside) - len(ops), 'tensor')}"},
        {"term": "Ops", "text": "\n".join(f"{name} × {count}" for name, count in counts.most_common(40))},
    ]
    if reductions:
        texts = Counter(reduction["text"] for reduction in reductions)
        rows = [f"{text}" + (f"  × {count}" if count > 1 else "") for text, count in texts.most_common(40)]
        details.append({"term": "Broadcast reductions inside", "text": "\n".join(rows)})
    label = [scopes[0]["label"], scopes[0]["folds"]]
    if len(scopes) > 1:
        first, last = scopes[0]["label"], scopes[-1]["label"]
        kind = first.rpartition("(")[2].removesuffix(")")
        label = [f"{kind} × {len(scopes)}", f"{first.partition(' (')[0]} … {last.partition(' (')[0]}"]
        details.insert(0, {"term": "Each of them", "text": scopes[0]["folds"]})
    levels = [node["levels"] for node in inside]
    return {
        "id": _folded_id(scopes[0]["id"]),
        "kind": "folded",
        "root": any(node["root"] for node in inside),
        "label": label,
        "rule": None,
        "scope": scopes[0]["parent"],
        "op": None,
        "details": details,
        "value": None,
        "gradient": None,
        "badges": [badge for node in inside for badge in node["badges"]],
        "levels": {key: max(level.get(key, 0.0) for level in levels) for key in ("gradient", "saved")},
        "holds": [scope["id"] for scope in scopes],
        "norms": [],
        "past": "".join(map(max, zip(*(node["past"] for node in inside if node["past"]), strict=True))),
    }


def _merged(edges: list[Edge], where: dict[str, str]) -> tuple[list[Edge], dict[str, str]]:
    """Redirect edges to folded nodes; those with the same ends and the same reduction become one.

    Returns:
        The edges, and for each edge that is still drawn the id of the one that it is part of.
    """
    merged: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in edges:
        source, target = where.get(edge["source"], edge["source"]), where.get(edge["target"], edge["target"])
        if source == target:
            continue
        touched = source != edge["source"] or target != edge["target"]
        reduction = edge["reduction"]["text"] if edge["reduction"] else ""
        key = (source, target, reduction if touched else edge["id"])
        merged.setdefault(key, []).append({**edge, "source": source, "target": target})
    renamed = {edge["id"]: group[0]["id"] for group in merged.values() for edge in group}
    return [_merged_edge(group) for group in merged.values()], renamed


def _merged_edge(group: list[Edge]) -> Edge:
    first = group[0]
    if len(group) == 1:
        return first
    gradients = [edge for edge in group if edge["gradient"] is not None]
    several = f"{len(gradients)} gradients"
    alone = gradients[0] if len(gradients) == 1 else None
    return {
        **first,
        "input": "",
        "label": f"{first['label']} and {len(group) - 1} more",
        "back": None if not gradients else alone["back"] if alone else several,
        "gradient": None if not gradients else alone["gradient"] if alone else several,
    }


def _steps(steps: list[Step], where: dict[str, str], renamed: dict[str, str], nodes: dict[str, Node]) -> list[Step]:
    """The walk through what is drawn: what happens inside a folded node without a pause is one step."""
    walk: list[Step] = []
    count = 0
    for step in steps:
        folded = where.get(step["node"])
        given: list[Given] = [{**one, "edge": renamed[one["edge"]]} for one in step["given"] if one["edge"] in renamed]
        if folded is None:
            walk.append({**step, "given": given})
        elif walk and walk[-1]["node"] == folded:
            count += 1
            walk[-1] = {
                **walk[-1],
                "title": f"{counted(count, 'rule')} inside {nodes[folded]['label'][0]}",
                "given": [*walk[-1]["given"], *given],
            }
        else:
            count = 1
            title = f"{counted(count, 'rule')} inside {nodes[folded]['label'][0]}"
            walk.append({**step, "node": folded, "title": title, "given": given})
    return walk

"""Scopes for ops that belong together although no call of the user holds them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nbgrad.widgets.description.ids import scope_id
from nbgrad.widgets.description.living_bytes import least_of, short_bytes
from nbgrad.widgets.description.schema import Description, Node, Ranked, Ranking, Scope, ScopeKind, plain_scope
from nbgrad.widgets.description.tree import Tree

_OWN = ("parameter", "constant")
"""Tensors of these kinds are in the group that alone takes them. Others say what goes in, and stay outside of it."""

_INPUTS = 12
"""More leaves and inputs than this beside each other say nothing: each of them goes into the group that alone takes
it."""


@dataclass(eq=False, slots=True)
class Group:
    """A new scope.

    Attributes:
        kind: of the scope.
        label: its name.
        folds: the line under the label when it is folded.
        like: what equal ones share; the label if it is empty.
        parent: the group or the scope around it.
        scopes, nodes: all that is in it, and was in the scope around it: also what inner groups take from it.
    """

    kind: ScopeKind
    label: str
    folds: str
    parent: "Group | str | None"
    scopes: Sequence[str]
    nodes: Sequence[str]
    like: str = ""
    id: str = field(default="", init=False)


def grouped(description: Description, groups: list[Group], *, told: bool) -> Description:
    """The description with a scope for each of these groups, which come outer before inner.

    A tensor that only the ops of one group take goes into this group.

    Args:
        description: of a whole graph.
        groups: the groups to make.
        told: whether the boxes of scopes say how many bytes they keep.
    """
    if not groups:
        return description
    made: dict[str, Scope] = {scope["id"]: scope for scope in description["scopes"]}
    homes = {node["id"]: node["scope"] for node in description["nodes"]}
    for at, group in enumerate(groups, len(made)):
        group.id = scope_id(at)
        parent = group.parent.id if isinstance(group.parent, Group) else group.parent
        scope = plain_scope(group.id, group.label, parent, group.folds)
        made[group.id] = {**scope, "kind": group.kind, "like": group.like or group.label}
        for one in group.scopes:
            made[one] = {**made[one], "parent": group.id}
        homes.update(dict.fromkeys(group.nodes, group.id))
    ids = {group.id for group in groups}
    nodes: list[Node] = [{**node, "scope": homes[node["id"]]} for node in description["nodes"]]
    regrouped: Description = {**description, "nodes": nodes, "scopes": list(made.values())}
    regrouped["nodes"] = nodes = _with_tensors(Tree(regrouped), ids)
    regrouped["scopes"] = _in_order(Tree(regrouped))
    regrouped["scopes"] = _with_bytes(Tree(regrouped), ids, told=told)
    return {**regrouped, "ranking": _ranking(regrouped)}


def _with_tensors(tree: Tree, ids: set[str]) -> list[Node]:
    """The nodes, where a tensor that only one of the groups ``ids`` takes is in this group."""
    description, nodes = tree.description, tree.nodes
    readers: defaultdict[str, list[str | None]] = defaultdict(list)
    for edge in description["edges"]:
        if nodes[edge["source"]]["kind"] not in ("op", "failed"):
            readers[edge["source"]].append(nodes[edge["target"]]["scope"])
    loose = Counter([node["scope"] for node in description["nodes"] if node["kind"] in ("leaf", "input", "outside")])
    found: list[Node] = []
    for node in description["nodes"]:
        takers = readers.get(node["id"])
        if takers and (node["kind"] in _OWN or loose[node["scope"]] > _INPUTS):
            common = takers[0]
            for other in takers[1:]:
                common = tree.common(common, other)
            home = next((one for one in tree.outwards(common) if one in ids or one == node["scope"]), None)
            if home in ids and tree.around(node["scope"], home):
                node = {**node, "scope": home}
        found.append(node)
    return found


def _in_order(tree: Tree) -> list[Scope]:
    """The scopes, outer before inner, and those beside each other in the order in which they began."""
    first: dict[str, int] = {}
    for at, node in enumerate(tree.description["nodes"]):
        for one in tree.outwards(node["scope"]):
            if one in first:
                break
            first[one] = at
    last = len(tree.description["nodes"])
    return [tree.scopes[one] for one in sorted(tree.scopes, key=lambda one: (first.get(one, last), tree.depths[one]))]


def _with_bytes(tree: Tree, ids: set[str], *, told: bool) -> list[Scope]:
    """The scopes, where the groups ``ids`` know the bytes that the ops in them keep together."""
    kept = tree.description.get("kept")
    if kept is None or not kept["sizes"]:
        return tree.description["scopes"]
    storages: defaultdict[str, set[int]] = defaultdict(set)
    for node in tree.description["nodes"]:
        places = kept["nodes"].get(node["id"])
        for one in tree.outwards(node["scope"]) if places else ():
            if one in ids:
                storages[one].update(places or ())
    hiding = {one for id in kept["hidden"] if id in tree.nodes for one in tree.outwards(tree.nodes[id]["scope"])}
    found: list[Scope] = []
    for scope in tree.description["scopes"]:
        size = sum([kept["sizes"][at] for at in storages.get(scope["id"], ())])
        least = least_of(scope["id"] not in hiding)
        folds = f"{scope['folds']}, {least}{short_bytes(size)}" if size and told else scope["folds"]
        found.append({**scope, "bytes": size, "folds": folds} if scope["id"] in ids else scope)
    return found


def _ranking(description: Description) -> Ranking:
    """The ranking, whose rows are in the new scopes."""
    ranking, tree = description["ranking"], Tree(description)
    rows: list[Ranked] = [{**row, "scope": tree.nodes[row["node"]]["scope"]} for row in ranking["rows"]]
    parents: dict[str, str] = {}
    for row in rows:
        for one in tree.outwards(row["scope"]):
            outer = tree.parents[one]
            if outer is None or one in parents:
                break
            parents[one] = outer
    return {**ranking, "rows": rows, "parents": parents}

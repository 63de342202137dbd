"""The choice of module calls and iterations to fold: so many that a picture is seen at once, or a reader's choice."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf

from nbgrad.widgets.description.outline import LOOK, Outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.stage import STAGE, Stage
from nbgrad.widgets.description.tree import Tree, iterates
from nbgrad.widgets.folding.size import extent

_OPEN = 2  # at most this many repetitions of a run are left open, so that there is something to see
_FEW = 8  # a folded picture with fewer telling boxes than this says too little: a part of the whole graph says more
_FEW_TIGHT = 5  # the same on a tight stage
_FEWEST = 3  # the same number if a loop is folded, whose box names the ops that it repeats
_LARGE = 10  # when a module is unfolded, modules in it with more nodes than this stay folded
_NESTED = 64  # boxes in more boxes than this are never left open: they cannot be seen at once
_TWINS = 3  # up to this many equal modules are opened together; if there are more, one may be opened alone
_SEVERAL = 40  # more iterations than this are not drawn beside each other where their box is unfolded
_ENDS = 3  # then the first three and the last three are drawn
_RAISED = ("failed", "inplace")  # the kinds of problems of ops that raised
_TRIED = 4  # foldings at most, if none is seen whole with letters that can be read
_GAIN = 0.8  # a folding has to make the picture smaller by at least this factor


@dataclass(frozen=True)
class Folding:
    """The modules that a reader has folded and unfolded.

    Attributes:
        closed: ids of scopes that are drawn as one node.
        apart: ids of closed scopes that stand alone, though they are like their neighbours.
        asked: ids of the scopes that the reader unfolded last, together.
        framed: ids of the groups that a reader unfolded. A frame is drawn around them, so they can be folded again.
    """

    closed: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    framed: frozenset[str] = frozenset()

    def toggled(self, graph: Description | Outline, holds: list[str], limit: int) -> "Folding":
        """The folding after a double click on the box of the scopes ``holds``: an open scope, a closed one, or several.

        Scopes far from the unfolded ones are folded, until no more than ``limit`` nodes are drawn. If a loop has more
        than a few dozen iterations, only the first and the last ones are unfolded.
        """
        graph = Outline.of(graph)
        known = graph.tree.scopes
        ordered = [scope for scope in holds if scope in known]
        if len(ordered) > _SEVERAL and iterates(known[ordered[0]]):
            ordered = [*ordered[:_ENDS], *ordered[-_ENDS:]]
        given = frozenset(ordered)
        if len(given) > 1:
            alone = replace(self, apart=self.apart | given, asked=given)
            # A call of one op is one box, folded or unfolded.
            ops = graph.tree.ops
            open_alone = replace(alone, closed=alone.closed - {one for one in given if ops[one] == 1})
            fits = _counting(graph)(homes(graph, open_alone)) <= limit
            return _with_room(graph, open_alone if fits else alone, limit)
        opened = self.closed & given
        if not opened:
            return replace(self, closed=self.closed | given, asked=self.asked - given)
        # The scopes inside a scope that opens are folded, because a large one would be too much at once.
        inside = {scope for scope, parent in graph.tree.parents.items() if parent in opened}
        tree, large = graph.tree, {scope for scope in inside if graph.tree.own[scope] > _LARGE}
        groups = tree.sections | (tree.layers if tree.layers & self.closed else frozenset[str]())
        within = {one for scope in opened for one in tree.inside(scope)} - opened
        closed = self.closed - opened | large | (groups & within)
        framed = self.framed | (opened & tree.groups)
        return _with_room(graph, replace(self, closed=closed, asked=opened, framed=framed), limit)

    def with_loops(self, graph: Outline, other: "Folding") -> "Folding":
        """This folding; it also closes the loop iterations that ``other`` closes. A page would fold each one alone.

        The groups that ``other`` closes have frames, so that a page can fold them.
        """
        tree = graph.tree
        framed = tree.groups.intersection(_all_around(tree, other.closed)) | other.framed
        return replace(self, closed=self.closed | (tree.iterations & other.closed), framed=framed)

    def coarser(self, graph: Outline, limit: int) -> "Folding":
        """A coarser folding for at most ``limit`` nodes. Scopes asked for stay open; those in them are folded last."""
        if self.asked:
            return _with_room(graph, self, limit, inside=True)
        first = first_folding(graph, limit)
        return replace(self, closed=self.closed | first.closed, apart=self.apart | first.apart)


def first_folding(graph: Description | Outline, limit: int, on: Stage = STAGE) -> Folding:
    """The scopes to fold at first: if there are more than LOOK boxes, enough to see the whole picture at once.

    Runs are folded first. Then the deepest level of the other modules is folded, then the next level, so that equal
    modules look equal. If no folding is enough, the one that comes nearest is taken. Modules with a problem stay open.
    More than ``limit`` nodes are left only if no folding leaves fewer. What is settled is folded in any case.
    """
    graph = Outline.of(graph)
    description = graph.description
    copies = sum(uses - 1 for uses in graph.hubs.values())
    if len(description["nodes"]) + copies <= LOOK and len(description["nodes"]) <= limit:
        return Folding(_beside(graph) | graph.settled)
    if (limit, on) not in graph.chosen:
        found = _first(graph, limit, on)
        graph.chosen[limit, on] = replace(found, closed=found.closed | graph.settled)
    chosen: Folding = graph.chosen[limit, on]
    return chosen


def _first(graph: Outline, limit: int, on: Stage) -> Folding:
    """The first folding of what is more than a few boxes."""
    whole, seen = _only_module(graph), list[Folding]()
    sized: list[tuple[Folding, float, bool]] = []
    for folding, nodes, over in _sized(graph, limit, on):
        sized.append((folding, over, nodes <= limit))
        if over <= 1 and whole not in folding.closed:
            # Of those that are seen at once, the first one in which the first problem is seen, too.
            seen.append(_showing(graph, folding, limit))
            if _tells(graph, seen[-1]):
                return seen[-1]
    if seen:
        return seen[0]
    opened = [one for one in sized if whole not in one[0].closed]
    found, least = Folding(), inf
    for folding, over, _ in opened if any(fits for _, _, fits in opened) else sized:
        if over < least * _GAIN:
            found, least = folding, over
    return _showing(graph, found, limit)


def _beside(graph: Outline) -> frozenset[str]:
    """The derivatives, and many equal calls that are beside each other, such as experts: their insides are alike."""
    return graph.tree.derivatives.union(
        call
        for run in graph.runs
        if run.parallel and len(run.cycles) > _TWINS
        for calls in run.cycles
        for call in calls
        if graph.tree.ops[call] > 1
    )


def _tells(graph: Outline, folding: Folding) -> bool:
    """Whether the first problem stands in no closed module, or in one of a few equal ones, which stay alike."""
    about = next((one["node"] for one in graph.description["problems"] if one["node"]), None)
    scope = next((node["scope"] for node in graph.description["nodes"] if node["id"] == about), None)
    shut = next((one for one in graph.tree.path(scope) if one in folding.closed), None)
    return shut is None or shut in graph.tree.sections or len(graph.alike(shut)) <= _TWINS


def foldings(graph: Outline, limit: int, on: Stage) -> Iterator[Folding]:
    """The folding of a first look, and then a few coarser ones, each of which leaves clearly fewer nodes."""
    first = first_folding(graph, limit, on)
    yield first
    count, whole, tried = _counting(graph), _only_module(graph), 1
    left, gain = count(homes(graph, first)), 0.99 if on.tight else _GAIN
    sized = [(nodes, folding) for folding, nodes, _ in _sized(graph, limit, on) if whole not in folding.closed]
    for nodes, folding in sorted(sized, key=lambda one: -one[0]):
        if nodes <= left * gain and tried < _TRIED:
            found = _showing(graph, folding, limit)
            found = replace(found, closed=found.closed | graph.settled)
            nodes = count(homes(graph, found))
            if nodes <= left * gain:
                left, tried = nodes, tried + 1
                yield found


def _only_module(graph: Outline) -> str | None:
    """The module that all others are in, if there is one: its box alone would say nothing."""
    outermost = [id for id, depth in graph.tree.calls.items() if depth == 1 and id not in graph.tree.iterations]
    return outermost[0] if len(outermost) == 1 else None


def necessary(graph: Description | Outline, limit: int) -> Folding:
    """The scopes to fold so that as many nodes as possible are left, but not more than ``limit``."""
    graph = Outline.of(graph)
    if len(graph.description["nodes"]) <= limit:
        return Folding()
    sizes = [(nodes, folding) for folding, nodes, _ in _sized(graph, limit, STAGE)]
    return max(sizes, key=lambda one: (one[0] <= limit, one[0] if one[0] <= limit else -one[0]))[1]


def _sized(graph: Outline, limit: int, on: Stage) -> Iterator[tuple[Folding, int, float]]:
    """The empty folding, and each folding that leaves something worth seeing.

    With each come the number of nodes that it leaves and the factor by which its picture is too large. If there are
    more than ``limit`` nodes, the factor is their number.
    """
    count, small = _counting(graph), graph.tree.iterations | graph.tree.sections
    few = _FEW_TIGHT if on.tight else _FEW
    for folding in _foldings(graph):
        hidden = homes(graph, folding)
        nodes = count(hidden)
        if nodes > limit:
            yield folding, nodes, float(nodes)
            continue
        size = extent(graph, hidden)
        if size.told >= (_FEWEST if small & folding.closed else few) or not folding.closed:
            yield folding, nodes, size.over(on)


def _foldings(graph: Outline) -> Iterator[Folding]:
    """The foldings to try, in order.

    First all of a run is one box, then all but its first repetition, then all but its first two. Layers come after
    calls, which say more. Sections come last: the shortest ones first.
    """
    tree = graph.tree
    # A call of one op is a box as it is, and says more than a folded one.
    depths = {scope: depth for scope, depth in tree.calls.items() if tree.sizes[scope] > 1 and tree.ops[scope] > 1}
    holding = {next((one for one in tree.outwards(tree.parents[id]) if one in tree.calls), None) for id in tree.calls}
    beside = _beside(graph)
    yield Folding()
    if beside:
        yield Folding(beside)
    repeated = [
        frozenset(scope for run in graph.runs for calls in run.cycles[first:] for scope in calls)
        for first in range(_OPEN + 1)
    ]
    for kept in dict.fromkeys([*repeated, frozenset[str]()]):
        if kept:
            yield Folding(kept | tree.derivatives)
        for depth in range(min(max(depths.values(), default=0), _NESTED), 0, -1):
            level = kept.union(scope for scope, at in depths.items() if at == depth)
            small = level.union(scope for scope, at in depths.items() if at < depth and scope not in holding)
            for closed in dict.fromkeys((level, small)):
                yield Folding(closed | tree.derivatives, apart=frozenset() if kept else closed)
    if tree.layers:
        yield from (Folding(kept | tree.layers) for kept in dict.fromkeys([beside, repeated[0] | tree.derivatives]))
    yield from _sections(tree, depths, repeated[0] | tree.layers | tree.derivatives)


def _sections(tree: Tree, depths: dict[str, int], kept: frozenset[str]) -> Iterator[Folding]:
    """The foldings of sections, with each level of calls in them; the deepest level first.

    Args:
        tree: all scopes.
        depths: of the calls that can be folded.
        kept: the calls of runs, and the layers.
    """
    lengths: defaultdict[int, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for scope in tree.sections:
        call = next((one for one in tree.outwards(scope) if one in tree.calls), None)
        depth = 0 if call is None else tree.calls[call]
        outer = 0 if call is None else tree.depths[call]
        lengths[depth][tree.depths[scope] - outer].append(scope)
    for depth in sorted(lengths, reverse=True)[-_NESTED:]:
        inner = kept.union(scope for scope, at in depths.items() if at == depth + 1)
        for length in sorted(lengths[depth], reverse=True):
            yield Folding(inner.union(lengths[depth][length]))


def _showing(graph: Outline, folding: Folding, limit: int) -> Folding:
    """The folding with the modules of problems open, and their twins, so that equal layers look equal.

    If that is too much to be seen at once, they stay folded, with the mark of the problem. One of many twins opens
    alone, because the box of the others says how many they are. The module of the first problem opens even if that is
    too much, if it raised or has no twin.
    """
    tree, left, room = graph.tree, _counting(graph), limit
    home = {node["id"]: node["scope"] for node in graph.description["nodes"]}
    home.update((node, calls[0]) for run in graph.runs for calls, nodes in run.repeated for node in nodes)

    def count(folding: Folding) -> int:
        return left(homes(graph, folding))

    for problem in graph.description["problems"]:
        around = tree.path(home.get(problem["node"] or ""))
        shut = next((depth for depth, scope in enumerate(around) if scope in folding.closed), None)
        if shut is None or (around[shut] in tree.sections and problem["kind"] not in _RAISED):
            continue  # the sections of a section are many boxes, and its box has the mark of the problem
        alike = [one for one in graph.alike(around[shut]) if one in folding.closed]
        alone = _opened(folding, tree, [around[shut:]])
        if len(alike) > 1:
            together = _opened(folding, tree, [_same_place(tree, around[shut:], one) for one in alike])
            if count(together) <= min(room, LOOK):
                alone = together
            elif problem["kind"] not in _RAISED and (len(alike) <= _TWINS or count(alone) > LOOK):
                continue
        if count(alone) > room:
            break
        folding, room = alone, min(limit, LOOK)
    return folding


def _opened(folding: Folding, tree: Tree, paths: list[list[str]]) -> Folding:
    """The folding with the scopes of these paths open, each leading from a closed scope inwards, and others closed."""
    opening = {scope for path in paths for scope in path}
    beside = {scope for scope, parent in tree.parents.items() if parent in opening}
    framed = folding.framed.union(opening & tree.groups)
    return replace(folding, closed=folding.closed.union(beside) - opening, framed=framed)


def _same_place(tree: Tree, path: list[str], twin: str) -> list[str]:
    """The path in ``twin`` that corresponds to ``path``, which begins with the other twin."""
    inside = dict(zip(tree.inside(path[0]), tree.inside(twin), strict=True))
    return [inside[scope] for scope in path]


def _counting(graph: Outline) -> Callable[[dict[str, str]], int]:
    """Says how many nodes are left if ``homes`` says whose box is drawn for each scope or node."""
    sizes = graph.tree.own + Counter(node for run in graph.runs for nodes in run.beside for node in nodes)

    def left(hidden: dict[str, str]) -> int:
        inside: Counter[str] = Counter()
        for scope, home in hidden.items():
            inside[home] += sizes[scope]
        return len(graph.description["nodes"]) - sum(many - 1 for many in inside.values() if many)

    return left


def _with_room(graph: Outline, folding: Folding, limit: int, *, inside: bool = False) -> Folding:
    """The folding with enough more scopes closed, far from those asked for; with ``inside``, also inside of these."""
    count = _counting(graph)
    far = _farthest_first(graph, folding)
    if inside:
        far += [id for id, one in graph.tree.scopes.items() if one["parent"] in folding.asked - folding.closed]

    def closing(many: int) -> Folding:
        return replace(folding, closed=folding.closed.union(far[:many]))

    enough = bisect_left(range(len(far)), True, key=lambda many: count(homes(graph, closing(many))) <= limit)
    return closing(enough)


def _farthest_first(graph: Outline, folding: Folding) -> list[str]:
    """The scopes beside those asked for, or beside scopes around them. Those that ran farthest away come first."""
    tree = graph.tree
    around = _all_around(tree, folding.asked)
    spans = _spans(tree)
    asked = [spans[scope] for scope in folding.asked if scope in spans]
    if not asked:
        return []
    first, last = min(begin for begin, _ in asked), max(end for _, end in asked)
    enclosing: set[str | None] = {None, *(around - folding.asked)}
    beside = [scope for scope in spans if scope not in around and tree.parents[scope] in enclosing]
    return sorted(beside, key=lambda scope: min(spans[scope][1] - first, last - spans[scope][0]))


def _all_around(tree: Tree, scopes: Iterable[str | None]) -> set[str]:
    """These scopes and all scopes around them."""
    found: set[str] = set()
    for scope in scopes:
        for one in tree.outwards(scope):
            if one in found:
                break
            found.add(one)
    return found


def _spans(tree: Tree) -> dict[str, tuple[int, int]]:
    """The positions of the first and the last node in each scope that has any, in the order of the first ones."""
    own: dict[str | None, tuple[int, int]] = {}
    for position, node in enumerate(tree.description["nodes"]):
        scope = node["scope"]
        own[scope] = own[scope][0] if scope in own else position, position
    spans = {scope: span for scope, span in own.items() if scope is not None and scope in tree}
    tree.widen(spans)
    return {scope: spans[scope] for scope in tree.parents if scope in spans}


def folded_below(graph: Description | Outline, depth: int | None) -> Folding | None:
    """The folding of all modules nested deeper than ``depth``; None if ``depth`` is None, for as many as necessary.

    The scopes around the op that raised stay open, and the other scopes in them are folded. Iterations of loops are
    folded in any case.
    """
    if depth is None:
        return None
    graph = Outline.of(graph)
    description, tree = graph.description, graph.tree
    raised = {one["node"] for one in description["problems"] if one["kind"] in _RAISED}
    around = _all_around(tree, [node["scope"] for node in description["nodes"] if node["id"] in raised])
    deeper = tree.iterations.union(scope for scope, around_it in tree.calls.items() if around_it > depth) - around
    closed = {scope for scope in deeper if deeper.isdisjoint(tree.outwards(tree.parents[scope]))}
    return Folding(closed=frozenset(closed))


def homes(graph: Outline, folding: Folding) -> dict[str, str]:
    """For each hidden scope the scope whose node is drawn for it: the outermost closed one, or the first of the run.

    The same for each node that is beside the calls of a run.
    """
    outermost: dict[str, str] = {}
    for scope, one in graph.tree.scopes.items():  # outer before inner
        around = outermost.get(one["parent"] or "")
        if around is not None or scope in folding.closed:
            outermost[scope] = around or scope
    drawn = {scope: scope for scope in outermost.values()}
    together = drawn.keys() - folding.apart
    beside: dict[str, str] = {}
    for run in graph.runs:
        for closed, some in groupby(run.repeated, key=lambda one: together.issuperset(one[0])):
            cycles = list(some)
            if closed and len(cycles) > 1:
                first = cycles[0][0][0]
                drawn.update((call, first) for calls, _ in cycles for call in calls)
                beside.update((node, first) for _, nodes in cycles for node in nodes)
    return {scope: drawn[home] for scope, home in outermost.items()} | beside

"""The texts about what torch's compiler did: the ops that it traced, its graph breaks, and why it compiled again."""

from nbgrad.core.graph.compilation import Compilation, expanded
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.recorder.compiler import Recompilation
from nbgrad.core.recorder.traced_graph import GraphBreak
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted
from nbgrad.widgets.description.schema import Badge, Detail

_UNKNOWN = message(
    "not recorded, nor its gradient: the compiler traced this op, and the compiled program may compute it together "
    "with others. The value and the gradient of CompiledFunction are those of its result"
)
_EARLIER = message(
    "The ops in {many} are not known: torch.compile traced {it} before this graph was opened. Open the graph before "
    "the first call of the compiled function, or call torch.compiler.reset() before it."
)


def summary(known: Compilation) -> str:
    """How much was traced, in one line; empty if nothing was."""
    if not (known.traced or known.graphs or known.earlier):
        return ""
    ops = sum(len(one.ops) for one in known.graphs)
    breaks, again = sum(known.breaks.values()), sum(known.recompilations.values())
    graphs = translate("{graphs} traced", graphs=counted(known.traced, "graph"))
    shown = translate(
        "{ops} in the {graphs} of the last step",
        ops=counted(ops, "op"),
        graphs=counted(len(known.graphs), "compiled graph"),
    )
    return translate(
        "torch.compile: {graphs}, {breaks}, {recompilations}; {shown}",
        graphs=graphs,
        breaks=counted(breaks, "graph break"),
        recompilations=counted(again, "recompilation"),
        shown=shown,
    )


def break_text(one: GraphBreak, count: int = 1) -> str:
    """A graph break in a sentence."""
    at = "" if one.place is None else translate(" at {place}", place=place_text(one.place))
    return translate("Graph break{at}: {reason}{times}.", at=at, reason=one.reason, times=times(count))


def recompilation_text(one: Recompilation, count: int) -> str:
    """A recompilation in a sentence."""
    function = f"{one.function}, " if one.function else ""
    return translate(
        "Compiled again: {function}{place}: {reason}{times}.",
        function=function,
        place=place_text(one.place),
        reason=one.reason,
        times=times(count),
    )


def times(count: int) -> str:
    """How often something has happened, after it; empty for once."""
    return translate(" ({count:,} times)", count=count) if count > 1 else ""


def notes(known: Compilation) -> list[str]:
    """The sentences below the picture."""
    found = [break_text(*one) for one in known.breaks.items()]
    found += [recompilation_text(*one) for one in known.recompilations.items()]
    return [*found, *earlier(known)]


def earlier(known: Compilation) -> list[str]:
    """The sentence about compiled functions whose ops are not known, if there are any."""
    many = counted(len(known.earlier), "compiled function")
    it = "it" if len(known.earlier) == 1 else "them"
    return [translate(_EARLIER, many=many, it=it)] if known.earlier else []


class CompiledParts:
    """The parts of a picture that torch's compiler gives reason for.

    Attributes:
        records: those that are drawn: with the ops in the compiled graphs, if the graph watched the compiler.
        rows: by id of a record: rows of its details.
        badges: by id of a record: what a reader must see there.
        notes: the sentences below the picture.
        unknown: the ids of the ops whose inputs get gradients that are not known.
    """

    def __init__(self, graph: AutogradGraph, records: list[Record]) -> None:
        self.records = records
        self.rows: dict[int, list[Detail]] = {}
        self.badges: dict[int, list[Badge]] = {}
        self.notes: list[str] = []
        self.unknown: set[int] = set()
        if graph.compiler is not None:
            self._add(Compilation.of(graph.compiler, records))

    def _add(self, known: Compilation) -> None:
        self.records = expanded(self.records)
        self.notes = notes(known)
        for one in known.graphs:
            self.unknown.update([*one.ops, one.id])
            self.rows |= {id: [Detail(term=translate("value"), text=translate(_UNKNOWN))] for id in one.ops}
            many = counted(len(one.ops), "op")
            self.rows[one.id] = [
                Detail(
                    term=translate("compiled by"),
                    text=translate("{backend}, as a graph of {many}", backend=one.backend, many=many),
                )
            ]
            if one.ended is not None:
                self.badges[one.id] = [Badge(kind="warning", text=break_text(one.ended))]

"""The report at the end of a run, as text: what ran, the losses, the totals and the findings with their lines."""

import threading
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from nbgrad.core.graph.compilation import Compilation
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.core.translation import translate
from nbgrad.run.formats import before, told_findings, where
from nbgrad.run.threads import OtherThread
from nbgrad.widgets.description.compiled import earlier, summary, times
from nbgrad.widgets.description.format import counted, duration, number
from nbgrad.widgets.description.rank_overlays import rank_notes
from nbgrad.widgets.description.totals import totals

_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN = "_.,-=+*#"
"""The levels of a line of losses, also for a terminal without the blocks."""

_WIDTH = 32
_ROWS = 5
"""How many rows of the slowest ops are shown."""

_LINES = 4
"""The losses of so many lines of a program are shown, those with the most losses first."""


def report(
    graph: AutogradGraph,
    name: str,
    seconds: float,
    *,
    goes_on: bool = False,
    thread: OtherThread | None = None,
    others: Sequence[OtherThread] = (),
) -> list[str]:
    """The lines of the report about ``graph``, which is closed.

    Args:
        graph: the recorded run.
        name: of the program.
        seconds: how long it ran.
        goes_on: whether the program runs on, without being recorded.
        thread: the recorded thread, with what it had run before; None if it is the main thread.
        others: the threads that have trained without being recorded.
    """
    head = translate(
        "nbgrad: {name}, {ran} in {duration}{end}",
        name=name,
        ran=_ran(graph),
        duration=duration(seconds),
        end=_end(graph, goes_on),
    )
    if not graph.records and graph.ending is None:
        return [head, f"  {nothing(others)}"]
    lines = [head, *_losses(graph.losses)]
    if thread is not None:
        told = translate(
            "The thread {name} is recorded. Before it was noticed, it ran {backwards}",
            name=thread.name,
            backwards=counted(thread.backwards, "backward"),
        )
        lines.append(f"  {told}")
    if others:
        lines.append(f"  {_elsewhere(others)}")
    records = graph.records
    if told := totals(graph, records, graph.known_memory(records)):
        lines.append(f"  {told}")
    if isinstance(graph, TimedGraph):
        lines += [f"  {line}" for line in graph.slowest().table(_ROWS)]
    lines += [f"  {line}" for line in rank_notes(graph)]
    if graph.compiler is not None:
        lines += [f"  {line}" for line in _compiled(graph.compilation)]
    if graph.fault is not None:
        lines.append(translate("  a part of the graph is missing: {fault}", fault=graph.fault))
    checkup = graph.checkup()
    lines.append(f"  {checkup.summary}")
    return [*lines, *[f"  {line}" for line in told_findings(graph.findings())]]


def nothing(others: Sequence[OtherThread]) -> str:
    """The sentence about a run without a graph, without its full stop; ``others``: see ``report``."""
    if others:
        return translate("nothing was recorded in the main thread. {elsewhere}", elsewhere=_elsewhere(others))
    running = [one.name for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    if running:
        return translate(
            "nothing was recorded: the main thread has ended, and the thread {name} still runs. If it trains, wait for "
            "it at the end of the program, with the method join() of the thread",
            name=running[0],
        )
    return translate(
        "nothing was recorded: in this process, no op ran on a tensor that needs a gradient, and what runs under "
        "torch.func is not recorded. If the program starts other processes, start each of them with nbgrad run, as in "
        "torchrun -m nbgrad run train.py"
    )


def _elsewhere(others: Sequence[OtherThread]) -> str:
    """The sentence about threads whose training is missing."""
    first = others[0]
    told = translate(
        "The thread {name} ran {backwards}, at {where}",
        name=first.name,
        backwards=counted(first.backwards, "backward"),
        where=where(first.place),
    )
    if len(others) > 1:
        told += translate(
            ", and {threads} ran {total:,}",
            threads=counted(len(others) - 1, "other thread"),
            total=sum(one.backwards for one in others[1:]),
        )
    return translate(
        "{told}. They are not recorded: nbgrad run records the first thread that trains, and notices one beside the "
        "main thread at the end of its first step. To record this training, write "
        "`with nbgrad.record(save='thread.html'):` around it, in its thread",
        told=told,
    )


def _ran(graph: AutogradGraph) -> str:
    """How many steps ran, and how many were recorded."""
    steps, many = graph.pace.steps, graph.backwards
    ran = counted(steps, "step") if steps else ""
    backwards = translate(
        "{backwards}, {all} recorded",
        backwards=counted(many, "backward"),
        all=translate("all") if graph.recorded == many else f"{graph.recorded:,}",
    )
    return f"{ran} ({backwards})" if ran and many else backwards if many else translate("no backward")


def _end(graph: AutogradGraph, goes_on: bool) -> str:
    """How it ended, if it did not simply come to its end."""
    ending = graph.ending
    if ending is None:
        return translate("; it is recorded no longer, and goes on") if goes_on else ""
    at = "" if ending.place is None else translate(" at {where}", where=where(ending.place))
    return translate(", stopped{at}" if ending.interrupted else ", ended by {kind}{at}", at=at, kind=ending.kind)


def _compiled(known: Compilation) -> list[str]:
    """The lines about torch's compiler: how much it traced, and a line for each graph break and each recompilation."""
    found = [
        translate(
            "{before}graph break: {reason}{times}", before=before(one.place), reason=one.reason, times=times(many)
        )
        for one, many in known.breaks.items()
    ]
    for one, many in known.recompilations.items():
        function = f" {one.function}" if one.function else ""
        found.append(
            translate(
                "{before}compiled{function} again: {reason}{times}",
                before=before(one.place),
                function=function,
                reason=one.reason,
                times=times(many),
            )
        )
    return [line for line in (summary(known), *found, *earlier(known)) if line]


def _losses(losses: list[BackwardLoss]) -> list[str]:
    """A line for the losses of each line of the program that called a backward."""
    lines: dict[tuple[int, int], list[BackwardLoss]] = {}
    for one in losses:
        if one.value is not None:
            lines.setdefault(one.place.instruction, []).append(one)
    longest = sorted(lines.values(), key=len, reverse=True)[:_LINES]
    return [
        translate("  loss {course}  {where}", course=_course(found), where=where(found[0].place)) for found in longest
    ]


def _course(losses: list[BackwardLoss]) -> str:
    """The first and the last loss, with the course between them."""
    values = [one.value for one in losses if one.value is not None]
    if len(values) == 1:
        return number(values[0])
    return f"{number(values[0])} {sparkline(values)} {number(values[-1])}"


def sparkline(values: list[float], width: int = _WIDTH) -> str:
    """The course of ``values`` in at most ``width`` letters: of each part its mean; ``x`` where one is not finite."""
    parts = min(len(values), width)
    bounds = [len(values) * at // parts for at in range(parts + 1)]
    means = [_mean(values[begin:end]) for begin, end in pairwise(bounds)]
    finite = [one for one in means if isfinite(one)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    top = len(_LEVELS) - 1
    return "".join(
        "x" if not isfinite(one) else _LEVELS[round((one - low) / (high - low) * top) if high > low else 0]
        for one in means
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def plain(text: str) -> str:
    """``text`` with the levels of a line of losses as signs that every terminal has."""
    return text.translate(str.maketrans(_LEVELS, _PLAIN))

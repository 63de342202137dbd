"""While an open graph records in one thread, another thread asks it questions: every public question gets an answer."""

import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from typing import Any

import pytest

import nbgrad
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.render.text import text

SECONDS = 0.25
"""For how many seconds each question is asked again and again."""

Question = Callable[[Any], Any]


def first(graph: Any) -> Any:
    """A record that is always there."""
    return next(record for record in graph.records if record.kind == "parameter")


def refused(question: Callable[[], Any]) -> bool:
    """Whether a graph without ``inside_compiled`` refuses a question about compiled functions."""
    with pytest.raises(RuntimeError, match="inside_compiled"):
        question()
    return True


QUESTIONS: dict[str, Question] = {
    "answer": lambda graph: bool(graph.answer("weight", graph.w)),
    "answers": lambda graph: graph.answers,
    "ancestors": lambda graph: graph.ancestors(graph.records[-1]),
    "backwards": lambda graph: graph.backwards,
    "began_at_leaf": lambda graph: Evidence(graph).began_at_leaf(),
    "budget": lambda graph: graph.listener,
    "check_cycle": lambda graph: graph.check_cycle(),
    "closed": lambda graph: graph.closed,
    "compilation": lambda graph: refused(lambda: graph.compilation),
    "compiler": lambda graph: graph.compiler,
    "drawn": lambda graph: graph.drawn,
    "inside": lambda graph: refused(lambda: graph.inside(first(graph).id)),
    "descendants": lambda graph: graph.descendants(first(graph)),
    "failure": lambda graph: graph.failure(ValueError()),
    "frame": lambda graph: graph.frame,
    "history": lambda graph: (graph.history, repr(graph.history), list(graph.history)),
    "idle_step": lambda graph: Evidence(graph).idle_step(),
    "name_variables": lambda graph: graph.name_variables({"net": 1, "w": graph.w}),
    "losses": lambda graph: graph.losses,
    "pace": lambda graph: graph.pace.rests,
    "recorded": lambda graph: graph.recorded,
    "unseen": lambda graph: Evidence(graph).unseen(),
    "known_memory": lambda graph: str(graph.known_memory()),
    "memory": lambda graph: graph.memory.total,
    "left_out": lambda graph: Evidence(graph).left_out(),
    "modules": lambda graph: dict(graph.modules),
    "nothing_ran": lambda graph: Evidence(graph).nothing_ran(),
    "overlay": lambda graph: graph.overlay("own", {first(graph): 1.0}),
    "overlays": lambda graph: graph.overlays,
    "path": lambda graph: graph.path(first(graph), graph.records[-1]),
    "questions": lambda graph: graph.questions.unknown(graph.records),
    "rate": lambda graph: Evidence(graph).rate(),
    "record": lambda graph: graph.record(graph.w),
    "records": lambda graph: [(one, one.name, one.inputs, one.value, one.gradient) for one in graph.records],
    "reverse_toposort": lambda graph: graph.reverse_toposort(),
    "reverse_toposort_from": lambda graph: graph.reverse_toposort_from(graph.records[-1]),
    "rx": lambda graph: graph.rx,
    "since": lambda graph: graph.since,
    "living": lambda graph: Evidence(graph).living(),
    "frozen": lambda graph: (Evidence(graph).frozen(), Evidence(graph).restless(), Evidence(graph).untouched()),
    "snapshot": lambda graph: [(one, one.inputs, one.value, one.gradient, one.since) for one in graph.snapshot()],
    "spoiled": lambda graph: Evidence(graph).spoiled(),
    "times": lambda graph: graph.times,
    "slowest": lambda graph: [repr(graph.slowest(by)) for by in ("call", "op", "module", "line")],
    "unheld": lambda graph: graph.unheld(),
    "findings": lambda graph: [(one.kind, one.text, one.id) for one in graph.findings()],
    "checkup": lambda graph: str(graph.checkup()),
    "unreached": lambda graph: (graph.unreached(), graph.unreached(graph.net)),
    "unstepped": lambda graph: Evidence(graph).unstepped(),
    "update": lambda graph: graph.update,
    "watch": lambda graph: graph.watch,
    "delete_edge": lambda graph: graph.delete_edge(first(graph).id, next(iter(graph.descendants(first(graph))))),
    "delete_node": lambda graph: (records := graph.records) and graph.delete_node(records[-1]),
    "repr": repr,
    "describe": describe,
    "text": lambda graph: text(describe(graph)),
}

NO_QUESTIONS = {
    *("clear", "close", "leave", "listener", "name", "device", "ending", "raised", "recovered", "save"),
    *("diff", "fault", "in_sight", "survey", "silence"),
    *("rank_recorder", "ranks"),
}
"""Methods that change the graph or wait for other processes, and plain attributes: they are no questions."""


def loop(stop: threading.Event, net: Any, frozen: Any) -> None:
    """Training steps that use everything a graph remembers, until ``stop`` is set."""
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=1e-3)
    while not stop.is_set():
        optimizer.zero_grad()
        x = nbgrad.randn(4, 3)
        hidden = net[0](x)
        for _ in range(20):
            hidden = hidden + nbgrad.ones(1) * 0.1
        with nbgrad.no_grad():
            (frozen * hidden).sum().item()
        hidden.detach().relu_()
        (net[1](hidden) ** 2).mean().backward()
        optimizer.step()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_answered_while_the_graph_records_elsewhere(name: str) -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 3), nbgrad.nn.Linear(3, 1))
    frozen = nbgrad.nn.Parameter(nbgrad.ones(3), requires_grad=False)
    stop, errors = threading.Event(), []
    graph: Any = TimedGraph()
    graph.net, graph.w = net, net[0].weight

    def record() -> None:
        try:
            loop(stop, net, frozen)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with graph:
            thread = threading.Thread(target=copy_context().run, args=(record,))
            thread.start()
            while not graph.backwards and thread.is_alive():
                pass
            end, asked = monotonic() + SECONDS, 0
            while monotonic() < end or asked < 3:
                try:
                    QUESTIONS[name](graph)
                except (KeyError, StopIteration):  # the record or its edge is gone, or several have this name
                    assert name in {
                        "ancestors",
                        "answer",
                        "delete_edge",
                        "delete_node",
                        "path",
                        "reverse_toposort_from",
                    }
                asked += 1
            stop.set()
            thread.join()
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    assert not errors, errors


def test_every_public_question_is_asked() -> None:
    public = {name for name in dir(TimedGraph) if not name.startswith("_")}
    public |= {name for name in vars(AutogradGraph()) if not name.startswith("_")}
    assert public - NO_QUESTIONS <= set(QUESTIONS), public - NO_QUESTIONS - set(QUESTIONS)

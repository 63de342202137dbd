"""The cost of a question grows in proportion to the graph: twice as much of anything takes about twice as long.

Time is counted in lines of nbgrad's that run. So neither the processor nor its load matters. Each case is made in three
sizes. If the cost is linear, its second increase is twice the first; if it is quadratic, four times.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.export import save
from nbgrad.reprs import module_html
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.layout.dot import dot_source
from nbgrad.widgets.layout.parts import PictureParts
from nbgrad.widgets.pipeline import shaped
from nbgrad.widgets.render.text import text
from tests.work import lines

SIZE = 40
MOST = 2.7


def leaf(*shape: int) -> nbgrad.Tensor:
    return nbgrad.tensor(torch.ones(shape), requires_grad=True)


# Programs with many of one thing.


def ops(many: int) -> object:
    y = leaf(2)
    for _ in range(many):
        y = y * 1.001
    y.sum().backward()
    return y


def leaves(many: int) -> object:
    held = [leaf(2) for _ in range(many)]
    y = held[0]
    for one in held:
        y = y + one
    y.sum().backward()
    return held


def uses_of_one_tensor(many: int) -> object:
    y, total = leaf(2) * 1.0, leaf(2)
    for _ in range(many):
        total = total + y
    total.sum().backward()
    return total


def results_of_one_op(many: int) -> object:
    rows = leaf(many, 2).unbind(0)
    total = leaf(2)
    for row in rows:
        total = total + row
    total.sum().backward()
    return rows


def backwards(many: int) -> object:
    x = leaf(2)
    for _ in range(many):
        (x * 2).sum().backward()
    return x


def steps(many: int) -> object:
    weight = nn.Parameter(torch.ones(2))
    optimizer = nbgrad.optim.SGD([weight], lr=0.1)
    for _ in range(many):
        (weight * 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return weight


def scopes_in_scopes(many: int) -> object:
    y = leaf(2)
    with ExitStack() as stack:
        for at in range(many):
            stack.enter_context(nbgrad.scope(f"s{at}"))
            y = y * 1.001
        y.sum().backward()
    return y


def scopes_around_one_op(many: int) -> object:
    y = leaf(2)
    with ExitStack() as stack:
        for at in range(many):
            stack.enter_context(nbgrad.scope(f"s{at}"))
        (y * 2).sum().backward()
    return y


def uses_deep_in_scopes(many: int) -> object:
    y = leaf(2) * 1.0
    with ExitStack() as stack:
        for at in range(many):
            stack.enter_context(nbgrad.scope(f"s{at}"))
        total = uses_of_one_tensor_and_leaves(y, many)
        total.sum().backward()
    return total


def leaves_deep_in_scopes(many: int) -> object:
    y, products = leaf(2) * 1.0, list[nbgrad.Tensor]()
    with ExitStack() as stack:
        for at in range(many):
            stack.enter_context(nbgrad.scope(f"s{at}"))
        products = [leaf(2) * leaf(2) for _ in range(many)]  # made before the scopes use y, which is from outside
        total = sum(products, y)
        total.sum().backward()
    return total


def uses_of_one_tensor_and_leaves(y: nbgrad.Tensor, many: int) -> nbgrad.Tensor:
    total = leaf(2) * 1.0
    for _ in range(many):
        total = total * leaf(2) + y
    return total


def scopes_beside_each_other(many: int) -> object:
    y = leaf(2)
    for at in range(many):
        with nbgrad.scope(f"s{at}"):
            y = y * leaf(2) + 1
    y.sum().backward()
    return y


def layers(many: int) -> object:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(many)])
    net(torch.ones(1, 2)).sum().backward()
    return net


def unreached_leaves(many: int) -> object:
    held = [leaf(2) for _ in range(many)]
    for one in held:
        (one * 2).detach()
    ops(2)
    return held


def unreached_parameters(many: int) -> object:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(many)])
    net(torch.ones(1, 2)).detach()
    ops(2)
    return net


def frozen_parameters(many: int) -> object:
    held = [nn.Parameter(torch.ones(2), requires_grad=False) for _ in range(many)]
    for one in held:
        one * 2
    ops(2)
    return held


def results_without_a_backward(many: int) -> object:
    held = [leaf(2)]
    for _ in range(many):
        held.append(held[-1] * 1.001)
    return held


def changes_in_place(many: int) -> object:
    y = leaf(2) * 1.0
    for _ in range(many):
        y.mul_(1.001)
    y.sum().backward()
    return y


def hooks(many: int) -> object:
    y = leaf(2) * 1.0
    for _ in range(many):
        y.register_hook(lambda _: None)
    y.sum().backward()
    return y


def constants(many: int) -> object:
    held = [torch.ones(2) for _ in range(many)]
    y = leaf(2)
    for one in held:
        y = y * one
    y.sum().backward()
    return held


def reductions(many: int) -> object:
    x, y = leaf(1), leaf(3)
    for _ in range(many):
        y = y + x * 2
    y.sum().backward()
    return y


def letters_of_names(many: int) -> object:
    x = leaf(2)
    x.name = "x" * 50 * many
    (x * 2).sum().backward()
    return x


MUCH = [
    ops,
    leaves,
    uses_of_one_tensor,
    results_of_one_op,
    backwards,
    steps,
    scopes_in_scopes,
    scopes_around_one_op,
    uses_deep_in_scopes,
    leaves_deep_in_scopes,
    scopes_beside_each_other,
    layers,
    unreached_leaves,
    unreached_parameters,
    frozen_parameters,
    results_without_a_backward,
    changes_in_place,
    hooks,
    constants,
    reductions,
    letters_of_names,
]


def asked(shape: Description) -> str:
    """The dot source of a description, which graphviz gets."""
    return dot_source(PictureParts.of(Outline.of(shape)), "TB")


def questions(folder: Path) -> dict[str, Callable[[AutogradGraph], object]]:
    """The questions that a graph is asked. The first folding is separate: it tries one folding for each level."""
    found: dict[str, Callable[[AutogradGraph], object]] = {
        "outline": outline,
        "describe": describe,
        "text": lambda graph: text(outline(graph).description),
        "layout": lambda graph: asked(shaped(outline(graph), 10**6, Folding()).description),
        "history": lambda graph: [str(frame) for frame in graph.history],
        "diff": lambda graph: [str(graph.history[0].diff(frame)) for frame in graph.history[-1:]],
        "records": lambda graph: [(one.value, one.gradient, one.inputs, one.name) for one in graph.records],
        "unreached": lambda graph: graph.unreached(),
        "unheld": lambda graph: graph.unheld(),
        "evidence": lambda graph: (
            *(Evidence(graph).spoiled(), Evidence(graph).unstepped()),
            *(Evidence(graph).idle_step(), Evidence(graph).rate()),
        ),
        "rustworkx": lambda graph: (graph.rx, graph.check_cycle(), graph.reverse_toposort()),
        "repr": lambda graph: (repr(graph), repr(graph.records)),
    }
    for suffix in ("json", "dot"):
        found[suffix] = lambda graph, suffix=suffix: save(graph, folder / f"graph.{suffix}")
    return found


DEEP = (scopes_in_scopes, uses_deep_in_scopes, leaves_deep_in_scopes)
"""Programs in which plain Python counts a line of the core for each scope around each op."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("much", MUCH, ids=lambda much: much.__name__)
def test_twice_as_much_takes_twice_as_long(much: Callable[[int], object], tmp_path: Path) -> None:
    if much in DEEP and not nbgrad.compiled():
        pytest.skip("the core goes from scope to scope in Python")
    counts: dict[str, list[int]] = {}
    for size in (SIZE, 2 * SIZE, 4 * SIZE):
        graph, held = AutogradGraph(history=8), list[object]()
        graph.__enter__()
        counts.setdefault("record", []).append(lines(lambda size=size, held=held: held.append(much(size))))
        for name in ("records", "unreached", "unheld", "outline"):
            ask = questions(tmp_path)[name]
            counts.setdefault(f"{name}, open", []).append(lines(lambda ask=ask, graph=graph: ask(graph)))
        counts.setdefault("close", []).append(lines(lambda graph=graph: graph.__exit__(None, None, None)))
        if size == SIZE:
            for ask in questions(tmp_path).values():
                ask(graph)  # results that are computed only once do not count
        for name, ask in questions(tmp_path).items():
            counts.setdefault(name, []).append(lines(lambda ask=ask, graph=graph: ask(graph)))
    if nbgrad.compiled():  # no lines of compiled code can be counted
        del counts["record"], counts["close"]
    grown = {name: (large - middle) / max(middle - small, 500) for name, (small, middle, large) in counts.items()}
    assert {name: round(by, 1) for name, by in grown.items() if by > MOST} == {}


class Nested(nn.Module):
    """A module in a module."""

    def __init__(self, inner: nn.Module | None) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.inner = inner

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        return y if self.inner is None else self.inner(y)


def nested(many: int) -> Nested:
    net = Nested(None)
    for _ in range(many - 1):
        net = Nested(net)
    return net


def flat(many: int) -> nn.Module:
    return nn.Sequential(*[nn.Linear(2, 2) for _ in range(many)])


@pytest.mark.parametrize("make", [nested, flat])
def test_twice_as_many_modules_take_twice_as_long(make: Callable[[int], nn.Module]) -> None:
    asked: dict[str, Callable[[nn.Module], object]] = {
        "html": module_html,
        "parameters": lambda net: list(net.named_parameters()),
        "count": lambda net: net.parameter_count(),
        "eval": lambda net: net.eval(),
        "apply": lambda net: net.apply(lambda _: None),
        "to": lambda net: net.double(),
        "state": lambda net: net.state_dict(),
        "freeze": lambda net: net.requires_grad_(False),
    }
    nets = [make(size) for size in (SIZE, 2 * SIZE, 4 * SIZE)]
    for name, ask in asked.items():
        small, middle, large = [lines(lambda ask=ask, net=net: ask(net)) for net in nets]
        assert large - middle < MOST * max(middle - small, 500), name


def test_modules_nested_deeper_than_python_calls_are_shown() -> None:
    net = nested(5000)
    html = module_html(net)
    assert "more inside, nested deeper than 128 levels" in html
    assert html.count("<details") < 300
    assert "30,000 parameters" in html
    net.eval()
    assert not any(module.training for module in net.modules())
    order: list[nn.Module] = []
    assert net.apply(order.append) is net
    assert order[-1] is net
    assert len(order) == 10_000


def test_scopes_nested_deeper_than_python_calls_are_drawn(tmp_path: Path) -> None:
    with AutogradGraph() as graph:
        scopes_around_one_op(3000)
    described = shaped(outline(graph), NODES).description
    assert len(outline(graph).description["scopes"]) == 3000
    assert described["nodes"]
    save(graph, tmp_path / "graph.txt")


@pytest.mark.rotated(6)
def test_a_page_of_a_tall_network_takes_twice_as_long_for_twice_as_much(tmp_path: Path) -> None:
    counts = []
    for many in (300, 600, 1200):
        with AutogradGraph() as graph:
            nn.Sequential(*[nn.Tanh() for _ in range(many)])(leaf(3)).sum().backward()
        counts.append(lines(lambda graph=graph: save(graph, tmp_path / "tall.html")))
    small, middle, large = counts
    assert large < MOST * middle < MOST**2 * small

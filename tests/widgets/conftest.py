"""Hand-made descriptions, and a generator of large ones: the drawings are tested without an engine."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from nbgrad.widgets.description.schema import (
    Description,
    Edge,
    Formula,
    Given,
    Kind,
    Look,
    Node,
    OpText,
    Reduction,
    Scope,
    Step,
)
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.layout import fitting
from tests.widgets import graphs

Build = Callable[..., Description]


class Sketch:
    """Builds a description node by node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.scopes: list[Scope] = []
        self.ops: dict[str, OpText] = {}

    def scope(self, label: str, parent: str | None = None) -> str:
        self.scopes.append(graphs.frame(f"s{len(self.scopes)}", label, parent, "some ops"))
        return self.scopes[-1]["id"]

    def node(self, kind: Kind, *label: str, scope: str | None = None, root: bool = False) -> str:
        node: Node = {
            "id": f"n{len(self.nodes)}",
            "kind": kind,
            "root": root,
            "label": list(label),
            "numbers": next(([at, len(label)] for at, line in enumerate(label) if line.startswith("value ")), []),
            "full": "",
            "cuts": [],
            "about": "",
            "row": None,
            "rule": None if kind in ("constant", "input") else "∇ 0.2",
            "scope": scope,
            "op": None,
            "variable": "",
            "details": [{"term": "source", "text": "line 3:\n  y = f(x)"}],
            "value": LOOK,
            "gradient": None if kind in ("constant", "input") else LOOK,
            "badges": [],
            "spoiled": [],
            "levels": {"gradient": 0.5, "dtype": 0.0},
            "holds": [],
            "calls": None,
            "norms": [],
            "past": "",
            "bars": None,
            "bytes": 0,
            "line": 0,
        }
        self.nodes.append(node)
        return node["id"]

    def op(self, *label: str, takes: dict[str, str], scope: str | None = None, root: bool = False) -> str:
        node = self.node("op", *label, scope=scope, root=root)
        self.nodes[-1]["op"] = label[0]
        self.ops[label[0]] = {
            "what": f"What {label[0]} does.",
            "why": "",
            "formulas": [
                {"of": "", "latex": r"a \odot b", "mathml": MATHML},
                {"of": "a", "latex": r"\bar{y} \odot b", "mathml": MATHML},
            ],
            "symbols": [{"of": "a", "latex": "a", "mathml": ""}],
        }
        for name, source in takes.items():
            self.edge(source, node, name)
        return node

    def edge(self, source: str, target: str, name: str, *, reduction: str | None = None) -> None:
        self.edges.append(
            {
                "id": f"e{len(self.edges)}",
                "source": source,
                "target": target,
                "input": name,
                "label": "(32, 10) float32",
                "back": "(32, 10)",
                "gradient": "(32, 10), norm 0.25",
                "mismatch": None,
                "spoiled": 0,
                "reduction": None if reduction is None else undone(reduction),
            }
        )

    def done(self, *notes: str) -> Description:
        into: defaultdict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            into[edge["target"]].append(edge)
        ops = sum(node["kind"] == "op" for node in self.nodes)
        return {
            "version": 2,
            "name": self.name,
            "summary": f"{ops} ops, {len(self.nodes) - ops} tensors; backward from loss",
            "totals": "",
            "losses": [],
            "notes": list(notes),
            "stopped": False,
            "nodes": self.nodes,
            "edges": self.edges,
            "scopes": self.scopes,
            "ops": self.ops,
            "formulas": {},
            "steps": [step(node, into[node["id"]]) for node in reversed(self.nodes) if node["kind"] == "op"],
            "overlays": [
                {"key": "gradient", "label": "gradient norm", "low": "0.1", "high": "10", "classes": []},
                {"key": "dtype", "label": "dtype", "low": "", "high": "", "classes": ["float32"]},
            ],
            "colour": "",
            "copies": {},
            "twins": {},
            "verdicts": [],
            "outcome": "",
            "checked": [],
            "problems": [],
            "history": {"frames": [], "loss": None, "charts": [], "differences": []},
            "hidden": {"reductions": [], "nodes": []},
            "memory": None,
            "living": [],
            "ranking": {"columns": [], "rows": [], "parents": {}, "note": ""},
        }


def step(node: Node, edges: list[Edge]) -> Step:
    """A step of the backward: for each edge into the node, the gradient that the edge gets."""
    given: list[Given] = [
        {"edge": edge["id"], "text": f"to {edge['input']}", "came": "", "reduction": None, "sum": None}
        for edge in edges
        if edge["gradient"] is not None
    ]
    return {
        "node": node["id"],
        "rules": [],
        "title": f"the rule of {node['label'][0]}",
        "incoming": "norm 0.2",
        "given": given,
    }


def undone(text: str, terms: int = 32) -> Reduction:
    """A reduction of dim 0."""
    expansion = " → ".join(text.partition(":")[0].split(" -> ")[::-1])
    return {
        "text": text, "expansion": expansion, "dims": [0], "terms": terms,
        "words": f"the sum over dim 0 adds {terms} numbers", "sums": ["grad[0] = 1 + 1 = 2"], "incoming": LOOK,
        "reduced": LOOK, "warning": None,
    }  # fmt: skip


LOOK: Look = {
    "facts": "mean 0.01, norm 0.2", "columns": 2, "levels": "AMYn", "cells": ["-1", "0", "1", "nan"],
    "bars": [100, 50, 0, 4], "low": "-1", "high": "1", "sample": "",
}  # fmt: skip

MATHML = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mrow><mi>a</mi><mo>⊙</mo><mi>b</mi></mrow></math>'


def small_description() -> Description:
    """y = w * x + b, squared: a node of each kind that a first graph has."""
    sketch = Sketch("first steps")
    w = sketch.node("leaf", "w", "() float32")
    x = sketch.node("constant", "x", "(32,) float32")
    product = sketch.op("mul", "(32,) float32", takes={"a": w, "b": x})
    sketch.edges[0]["reduction"] = undone("(32,) -> (): sum dim 0")
    sketch.edges[1]["gradient"] = sketch.edges[1]["back"] = None
    sketch.op("sum", "() float32", "loss = 1.25", takes={"a": product}, root=True)
    return sketch.done()


def mlp_description() -> Description:
    """Two linear layers in nested scopes, with the reductions of their biases."""
    sketch = Sketch("MLP, one step")
    net = sketch.scope("MLP")
    x = sketch.node("constant", "x", "(32, 4) float32")
    hidden = x
    for index, (wide, deep) in enumerate([(4, 16), (16, 10)]):
        layer = sketch.scope(f"layers.{index} (Linear)", net)
        weight = sketch.node("parameter", f"layers.{index}.weight", f"({deep}, {wide}) float32", scope=layer)
        bias = sketch.node("parameter", f"layers.{index}.bias", f"({deep},) float32", scope=layer)
        turned = sketch.op("t", f"({wide}, {deep}) float32", takes={"a": weight}, scope=layer)
        product = sketch.op("matmul", f"(32, {deep}) float32", takes={"a": hidden, "b": turned}, scope=layer)
        if index == 0:
            sketch.edges[-2]["gradient"] = sketch.edges[-2]["back"] = None
        hidden = sketch.op("add", f"(32, {deep}) float32", takes={"a": product}, scope=layer)
        sketch.edge(bias, hidden, "b", reduction=f"(32, {deep}) -> ({deep},): sum dim 0")
        if index == 0:
            hidden = sketch.op("relu", f"(32, {deep}) float32", takes={"a": hidden}, scope=net)
    target = sketch.node("constant", "target", "(32,) int64")
    sketch.op("cross_entropy", "() float32", "loss = 2.3026", takes={"input": hidden, "target": target}, root=True)
    sketch.edges[-1]["gradient"] = sketch.edges[-1]["back"] = None
    return sketch.done()


def stack_description(ops: int, *, blocks: int = 12, shared: int = 0) -> Description:
    """A residual stack of about ``ops`` ops in nested scopes. One parameter has ``shared`` additional readers."""
    sketch = Sketch(f"stack of {ops}")
    net = sketch.scope("Net")
    hidden = sketch.node("constant", "x", "(32, 64) float32")
    tied = sketch.node("parameter", "tied", "(64,) float32")
    numbers = count()
    for block in range(blocks):
        outer = sketch.scope(f"layers.{block} (Block)", net)
        skip = hidden
        inner = None
        for step in range(max(1, ops // blocks - 1)):
            if step % 4 == 0:
                inner = sketch.scope(f"layers.{block}.part{step // 4} (Linear)", outer)
                weight = sketch.node("parameter", f"w{next(numbers)}", "(64, 64) float32", scope=inner)
                hidden = sketch.op("matmul", "(32, 64) float32", takes={"a": hidden, "b": weight}, scope=inner)
            else:
                hidden = sketch.op(
                    ["relu", "mul", "add"][step % 3], "(32, 64) float32", takes={"a": hidden}, scope=inner
                )
                if step % 4 == 1:
                    sketch.edge(tied if shared else weight, hidden, "b", reduction="(32, 64) -> (64,): sum dim 0")
        hidden = sketch.op("add", "(32, 64) float32", takes={"a": hidden, "b": skip}, scope=outer)
    sketch.op("mean", "() float32", takes={"a": hidden}, root=True)
    return sketch.done()


def flat_description(ops: int) -> Description:
    """A chain without scopes."""
    sketch = Sketch(f"chain of {ops}")
    value = sketch.node("leaf", "w", "() float64")
    for index in range(ops):
        value = sketch.op("sin", "() float64", takes={"a": value}, root=index == ops - 1)
    return sketch.done()


def tangle_description(ops: int) -> Description:
    """Every op reads three ops that are far away: graphviz needs minutes for this graph."""
    sketch = Sketch(f"tangle of {ops}")
    made = [sketch.node("leaf", f"w{index}") for index in range(4)]
    for index in range(ops):
        picks = {name: made[(index * step + 7) % len(made)] for name, step in (("a", 31), ("b", 57), ("c", 101))}
        made.append(sketch.op("addcmul", "(8, 8) float32", takes=picks, root=index == ops - 1))
    return sketch.done()


HOSTILE = [
    "<script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked=1'>",
    "line\nbreak\r\nand\ttab",
    "\u202eright-to-left override",
    "שלום עולם",
    "a" * 10_000,
    "]]></script><!-- \x00 \x1b[31m \ud800",
    "}; digraph { evil",
    "\\N \\G {a|b} &lt; &#0;",
    "漢字かな交じり 🙂",
]


def hostile_description() -> Description:
    """Names with HTML, control characters and other hostile text, in every place that takes a name."""
    sketch = Sketch(HOSTILE[0])
    scope = sketch.scope(HOSTILE[1])
    previous = sketch.node("leaf", "start")
    for index, name in enumerate(HOSTILE):
        scope = sketch.scope(name, scope if index % 3 else None)
        previous = sketch.op(name, name, takes={name: previous}, scope=scope)
        sketch.nodes[-1]["details"] = [{"term": name, "text": name}]
        sketch.nodes[-1]["badges"] = [{"kind": "warning", "text": name}]
        formulas: list[Formula] = [{"of": name, "latex": name, "mathml": name}]
        sketch.ops[name] = {"what": name, "why": name, "formulas": formulas, "symbols": formulas}
        sketch.edges[-1]["label"] = sketch.edges[-1]["gradient"] = sketch.edges[-1]["back"] = name
        sketch.edges[-1]["reduction"] = {**undone(name), "words": name, "sums": [name], "warning": name}
    description = sketch.done(*HOSTILE)
    description["summary"] = HOSTILE[0]
    return description


@pytest.fixture
def small() -> Description:
    return small_description()


@pytest.fixture
def mlp() -> Description:
    return mlp_description()


@pytest.fixture
def hostile() -> Description:
    return hostile_description()


@pytest.fixture
def stack() -> Build:
    return stack_description


@pytest.fixture
def flat() -> Build:
    return flat_description


@pytest.fixture
def tangle() -> Build:
    return tangle_description


@pytest.fixture
def in_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every picture fits its stage as it is: all boxes are cards, and none stands in a second column."""
    monkeypatch.setattr(Stage, "fits", lambda _self, _layout: True)
    monkeypatch.setattr(Stage, "covered", lambda _self, _layout: 1.0)
    monkeypatch.setattr(fitting, "spread", lambda _parts, layout, _on: layout)


# --- a page in a browser -------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Opens the text of a page from the disk. The browser must send no request and raise no error."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(5000)
    requests: list[str] = []
    errors: list[str] = []

    def refuse(route: Any) -> None:
        if route.request.url.startswith(("file://", "data:", "blob:")):
            route.continue_()
        else:
            requests.append(route.request.url)
            route.abort()

    context.route("**/*", refuse)

    def open_page(content: str, scheme: Any = None, size: tuple[int, int] | None = None) -> Page:
        file = tmp_path / "page.html"
        file.write_text(content, encoding="utf-8")
        tab = context.new_page()
        tab.emulate_media(color_scheme=scheme)
        if size is not None:
            tab.set_viewport_size({"width": size[0], "height": size[1]})
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(file.as_uri())
        tab.get_by_test_id("nbgrad-node").first.wait_for(state="attached", timeout=30_000)  # a test times what it asks
        return tab

    yield open_page
    context.close()
    assert requests == []
    assert errors == []

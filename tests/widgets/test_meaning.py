"""Layers, loops that branch, and sections of a long record: parts that belong together are folded together."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional

import nbgrad
import nbgrad.nn
from nbgrad.widgets import pipeline
from nbgrad.widgets.describe import outline
from nbgrad.widgets.description.outline import LOOK, Outline
from nbgrad.widgets.description.schema import Description, Node
from nbgrad.widgets.description.stage import Stage
from nbgrad.widgets.folding.apply import ASKED, NODES
from nbgrad.widgets.folding.choose import Folding, first_folding, folded_below
from nbgrad.widgets.layout import fitting
from nbgrad.widgets.layout.graphviz_wasm import run_graphviz
from nbgrad.widgets.pipeline import drawable, lay_out
from tests.widgets.test_positions import assert_sound

BOTH = pytest.mark.parametrize("dialect", [torch, nbgrad], ids=["torch", "own"])


def recorded(run: Callable[[], Any]) -> Outline:
    with nbgrad.AutogradGraph("meaning") as graph:
        run().sum().backward()
        return outline(graph)


def leaf(dialect: Any, *shape: int) -> Any:
    numbers = torch.linspace(0.1, 0.9, torch.Size(shape).numel()).reshape(shape)
    return dialect.tensor(numbers.tolist(), requires_grad=True)


def folded(description: Description) -> list[Node]:
    return [node for node in description["nodes"] if node["kind"] == "folded"]


def labels(description: Description) -> list[str]:
    return [node["label"][0] for node in folded(description)]


def reached(graph: Outline, op: str) -> Description:
    """The picture in which the box of an op is seen, after the double clicks that lead to it from the first picture."""
    folding = first_folding(graph, NODES)
    around = graph.tree.path(graph.tree.nodes[op]["scope"])
    for _ in range(len(around) + 8):
        drawn = drawable(graph, ASKED, folding)
        if any(node["id"] == op for node in drawn["nodes"]):
            return drawn
        (box,) = [node for node in folded(drawn) if not set(around).isdisjoint(node["holds"])]
        folding = folding.toggled(graph, box["holds"], ASKED)
    raise AssertionError(f"{op} is not reached")


# Layers.


def convolutional(dialect: Any) -> Callable[[], Any]:
    nn: Any = dialect.nn

    class Net(nn.Module):  # type: ignore[misc]  # of either dialect
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
            self.norm, self.gelu = nn.BatchNorm2d(8), nn.GELU()
            self.fc1, self.fc2, self.fc3 = nn.Linear(32, 16), nn.Linear(16, 8), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            functional = nn.functional
            x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
            x = functional.max_pool2d(self.gelu(self.norm(self.conv2(x))), 2).flatten(1)
            x = functional.relu(self.fc1(x))
            y = self.fc2(x)
            return self.fc3(functional.relu(y)) + y.sum()  # its result is also used without the activation

    torch.manual_seed(0)
    net = Net()
    return lambda: net(dialect.tensor(torch.rand(2, 1, 8, 8).tolist()))


@BOTH
def test_a_map_and_its_activation_are_one_box(dialect: Any) -> None:
    graph = recorded(convolutional(dialect))
    picture = lay_out(graph, folding=Folding(graph.tree.layers))
    drawn = picture["description"]
    assert_sound(picture)
    assert labels(drawn) == ["Conv2d, relu", "Conv2d, BatchNorm2d, GELU", "Linear, relu"]
    assert [node["label"][1] for node in folded(drawn)] == [
        "conv1: 2 parameters (40)",
        "conv2 … gelu: 4 parameters (312)",
        "fc1: 2 parameters (528)",
    ]
    assert sum(node["op"] == "linear" for node in drawn["nodes"]) == 2, "fc2, whose result is read twice, and fc3"
    assert folded(drawn)[0]["label"][2] == "(2, 4, 8, 8)"
    assert folded(drawn)[0]["rule"] is not None


@BOTH
def test_a_layer_is_unfolded_and_folded_again(dialect: Any) -> None:
    graph = recorded(convolutional(dialect))
    first = Folding(graph.tree.layers)
    (layer,) = folded(drawable(graph, NODES, first))[2]["holds"]
    open_one = first.toggled(graph, [layer], NODES)
    drawn = drawable(graph, NODES, open_one)
    assert labels(drawn) == ["Conv2d, relu", "Conv2d, BatchNorm2d, GELU"]
    (frame,) = [scope for scope in drawn["scopes"] if scope["id"] == layer]
    assert frame["kind"] == "layer"
    inside = [node["op"] for node in drawn["nodes"] if layer in _path(drawn, node["scope"]) and node["op"]]
    assert inside == ["linear", "relu"]
    again = drawable(graph, NODES, open_one.toggled(graph, [layer], NODES))
    assert labels(again) == labels(drawable(graph, NODES, first))


@BOTH
def test_the_path_of_what_is_folded_names_no_layer_without_a_frame(dialect: Any) -> None:
    graph = recorded(convolutional(dialect))
    outermost = folded_below(graph, 0)
    assert outermost is not None
    hidden = drawable(graph, NODES, outermost)["hidden"]["nodes"]
    assert any(one["label"].endswith("Net › conv1 (Conv2d) › weight") for one in hidden)
    (layer, *_) = graph.tree.layers
    shown = drawable(graph, NODES, replace(outermost, framed=graph.tree.layers))["hidden"]["nodes"]
    assert any(f"Net › {graph.tree.scopes[layer]['label']} › " in one["label"] for one in shown)
    assert len(hidden) == len(shown)


def _path(description: Description, scope: str | None) -> list[str]:
    parents = {one["id"]: one["parent"] for one in description["scopes"]}
    found: list[str] = []
    while scope is not None:
        found.append(scope)
        scope = parents[scope]
    return found


@BOTH
def test_a_few_layers_that_are_seen_at_once_are_drawn_op_by_op(dialect: Any) -> None:
    nn: Any = dialect.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    drawn = drawable(recorded(lambda: net(dialect.tensor([[0.1, 0.2, 0.3]]))), NODES)
    assert not folded(drawn)
    assert {scope["kind"] for scope in drawn["scopes"]} <= {"module"}


@BOTH
def test_layers_are_folded_where_all_ops_are_too_many_to_be_seen(dialect: Any) -> None:
    nn: Any = dialect.nn
    modules = [one for at in range(14) for one in (nn.Conv1d(3 + at, 4 + at, 3), nn.BatchNorm1d(4 + at), nn.ReLU())]
    net = nn.Sequential(*modules)
    graph = recorded(lambda: net(leaf(dialect, 2, 3, 40)))
    picture = lay_out(graph, on=Stage(790.0, 300.0))
    assert labels(picture["description"]) == ["Conv1d, BatchNorm1d, ReLU"] * 14


# Loops that branch.


def branching(dialect: Any, steps: int) -> Callable[[], Any]:
    x, chance = leaf(dialect, 3), random.Random(0)

    def run() -> Any:
        h = x
        for _ in range(steps):
            kind = chance.randrange(4)
            if kind == 0:
                h = h.sin() * 0.9
            elif kind == 1:
                h = h.tanh()
            elif kind == 2:
                h = h + x
            else:
                h = (h * x).cos()
        return h

    return run


@BOTH
def test_a_loop_whose_iterations_branch_is_one_box(dialect: Any) -> None:
    graph = recorded(branching(dialect, 60))
    line = branching.__code__.co_firstlineno
    picture = lay_out(graph)
    assert_sound(picture)
    (box,) = folded(picture["description"])
    assert box["label"][0] == f"lines {line + 8}-{line + 14} × 60, 4 kinds"
    details = {row["term"]: row["text"] for row in box["details"]}
    each = [row.rpartition(" × ") for row in details["Each of them"].splitlines()]
    assert {names for names, *_ in each} == {"sin, mul", "tanh", "add", "mul, cos"}
    assert sum(int(many) for *_, many in each) == 60


@BOTH
def test_each_iteration_of_a_loop_that_branches_is_reached(dialect: Any) -> None:
    graph = recorded(branching(dialect, 30))
    ops = [node["id"] for node in graph.description["nodes"] if node["kind"] == "op"]
    for op in ops[::7]:
        assert_nothing_is_left_out(reached(graph, op))


def assert_nothing_is_left_out(drawn: Description) -> None:
    assert not any("too large" in note or "tangle" in note or "too long" in note for note in drawn["notes"])


def test_functions_that_take_turns_are_a_loop_that_branches() -> None:
    chance = random.Random(0)
    kinds: list[Callable[[Any], Any]] = [lambda x: x.sin() * 2, lambda x: x.tanh(), lambda x: x * x]

    def run() -> Any:
        h = leaf(nbgrad, 3)
        for _ in range(50):
            h = chance.choice(kinds)(h)
        return h

    (box,) = folded(drawable(recorded(run), NODES))
    assert box["label"][0].endswith(" × 50, 3 kinds")


# Sections.


def straight(dialect: Any, ops: int, seed: int = 0) -> Callable[[], Any]:
    """A long function, whose lines run once each. Each reads what two lines before it made, some of them far away."""
    chance, source = random.Random(seed), ["def long(dialect, x0, x1):"]
    for at in range(2, ops + 2):
        near, far = chance.randrange(max(0, at - 9), at), chance.randrange(at)
        source.append(
            f"    x{at} = " + chance.choice([f"x{near} + x{far}", f"x{near} * x{far}", f"x{near}.sin() * 0.9"])
        )
    source.append(f"    return dialect.stack([{', '.join(f'x{at}' for at in range(2, ops + 2))}])")
    made: dict[str, Any] = {}
    exec(compile("\n".join(source), "long.py", "exec"), made)
    return lambda: made["long"](dialect, leaf(dialect, 2), leaf(dialect, 2))


@pytest.mark.rotated(6)
@BOTH
@pytest.mark.parametrize("ops", [60, 400, 3000])
def test_a_long_record_without_calls_and_loops_has_few_sections(dialect: Any, ops: int) -> None:
    picture = lay_out(recorded(straight(dialect, ops)))
    drawn = picture["description"]
    assert_sound(picture)
    assert_nothing_is_left_out(drawn)
    assert 3 <= len(folded(drawn)) <= 16
    assert len(drawn["nodes"]) <= 40
    assert all(node["label"][0].startswith("long, lines ") for node in folded(drawn)[:-1]), "the last one has the loss"
    assert {node["calls"] for node in folded(drawn)} == {"section"}


@pytest.mark.rotated(6)
def test_each_op_of_a_long_record_is_reached() -> None:
    graph = recorded(straight(nbgrad, 1500))
    ops = [node["id"] for node in graph.description["nodes"] if node["kind"] == "op"]
    first = drawable(graph, NODES)["nodes"]
    assert [node["id"] for node in first if node["root"]] == [ops[-1]], "the loss is seen with its value at first"
    for op in [*ops[:-1:500], ops[-2]]:
        drawn = reached(graph, op)
        assert_nothing_is_left_out(drawn)
        assert len(drawn["nodes"]) <= 120
        scope = next(node["scope"] for node in drawn["nodes"] if node["id"] == op)
        assert scope in {one["id"] for one in drawn["scopes"]}, "a frame shows what was unfolded"


def test_a_section_ends_where_another_function_begins() -> None:
    def encode(x: Any) -> Any:
        for_now = x.sin().cos().tan().exp().log().abs().sqrt().sin().cos().sin()
        return for_now.tan().exp().log().abs().sqrt().sin().cos().tan().exp().log()

    def decode(x: Any) -> Any:
        for_now = x.cos().sin().exp().tan().log().abs().sqrt().sin().cos().sin()
        return for_now.exp().tan().log().abs().sqrt().cos().sin().tan().exp().log().sin().cos().tanh()

    def judge(x: Any) -> Any:
        for_now = (x * 0.3).tanh().cos().sin().exp().tan().log().abs().sqrt().sin()
        return for_now.tanh().exp().cos().log().abs().sqrt().sin().cos().tan().exp().log().sin()

    drawn = drawable(recorded(lambda: judge(decode(encode(leaf(nbgrad, 2))))), NODES)
    functions = [node["label"][0].partition(", line")[0] for node in folded(drawn)]
    assert [*dict.fromkeys(functions)] == ["encode", "decode", "judge"], "the loss is in none"


def test_a_section_names_the_calls_in_it() -> None:
    net = nbgrad.nn.Sequential(*[nbgrad.nn.Linear(40 - at, 39 - at) for at in range(32)])
    graph = recorded(lambda: net(nbgrad.ones(2, 40)))
    sections = [scope["label"] for scope in graph.description["scopes"] if scope["kind"] == "section"]
    assert sections[0].startswith("0 … ")
    assert sections[-1].endswith(" … 31")


def test_a_tensor_that_one_section_takes_is_in_it_and_an_input_stays_outside() -> None:
    def run() -> Any:
        x = leaf(nbgrad, 2)
        ws = [nbgrad.nn.Parameter(torch.rand(2)) for _ in range(80)]
        h, chance = x, random.Random(0)
        for w in ws:
            h = (h * w).sin() if chance.random() < 0.5 else h + w * h + h.tan() * h.cos()
        return h

    graph = recorded(run)
    described = graph.description
    kinds = {scope["id"]: scope["kind"] for scope in described["scopes"]}
    assert all(node["scope"] is not None for node in described["nodes"] if node["kind"] == "parameter")
    assert [node["scope"] for node in described["nodes"] if node["kind"] == "leaf"] == [None]
    assert kinds
    rows = described["ranking"]["rows"]
    assert all(row["scope"] == graph.tree.nodes[row["node"]]["scope"] for row in rows)
    assert {one: graph.tree.parents[one] for one in described["ranking"]["parents"]} == described["ranking"]["parents"]


# The same picture on each machine.


def tangled(ops: int) -> Outline:
    chance = random.Random(1)

    def run() -> Any:
        made = [leaf(nbgrad, 2), leaf(nbgrad, 2)]
        for _ in range(ops):
            made.append(chance.choice(made) * chance.choice(made[-20:]))
        return nbgrad.stack(made)

    return recorded(run)


@pytest.mark.rotated(3)
def test_two_runs_and_another_limit_of_time_give_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lay_out(recorded(straight(nbgrad, 700)))
    monkeypatch.setattr(pipeline, "SECONDS", 5.0)
    second = lay_out(recorded(straight(nbgrad, 700)))
    assert first["description"]["nodes"] == second["description"]["nodes"]
    assert first["layout"] == second["layout"]


@pytest.mark.rotated(3)
def test_graphviz_is_not_asked_for_a_tangle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(source: str, *, seconds: float) -> str:
        asked.append(source.count("->"))
        return run_graphviz(source, seconds=seconds)

    monkeypatch.setattr(fitting, "run_graphviz", counted)
    graph = tangled(900)
    picture = lay_out(graph, limit=2000, folding=Folding())
    (note, *_) = picture["description"]["notes"]
    assert note.startswith("A layout of ")
    assert "would be a tangle" in note
    assert asked, "a coarser one is drawn"
    assert max(asked) < 1500
    assert len(graph.description["nodes"]) > LOOK


@pytest.mark.rotated(3)
def test_a_step_tells_the_number_of_very_many_gradients() -> None:
    drawn = drawable(tangled(900), NODES)
    assert max(len(step["given"]) for step in drawn["steps"]) <= 8 * len(drawn["edges"])
    assert any(one["text"].endswith(" gradients") for step in drawn["steps"] for one in step["given"])


# Derivatives.


def physical(dialect: Any) -> Callable[[], Any]:
    """The loss of a network that is to solve Burgers' equation."""
    nn: Any = dialect.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    grad: Any = torch.autograd.grad if dialect is torch else nbgrad.autograd.grad

    def run() -> Any:
        x, t = leaf(dialect, 5, 1), leaf(dialect, 5, 1)
        u = net(dialect.cat([x, t], 1))
        (u_x,) = grad(u.sum(), x, create_graph=True)
        (u_t,) = grad(u.sum(), t, create_graph=True)
        (u_xx,) = grad(u_x.sum(), x, create_graph=True)
        return (u_t + u * u_x - 0.01 * u_xx) ** 2

    return run


@BOTH
def test_the_derivatives_of_a_loss_are_boxes_with_the_names_of_the_user(dialect: Any) -> None:
    picture = lay_out(recorded(physical(dialect)))
    drawn = picture["description"]
    assert_sound(picture)
    assert [node["calls"] for node in folded(drawn)] == ["derivative"] * 3
    own = ["∂u/∂x", "∂u/∂t", "∂u_x/∂x"]
    # Torch tells no line for the ops of a backward: the two first derivatives are told apart by their results.
    assert labels(drawn) == (own if dialect is nbgrad else ["u_x = derivative of u", "derivative of u", "∂u_x/∂x"])
    assert any("derivatives are folded" in note for note in drawn["notes"])


@BOTH
def test_a_derivative_is_unfolded(dialect: Any) -> None:
    graph = recorded(physical(dialect))
    ran = [node["id"] for node in graph.description["nodes"] if node["op"] == "tanh_backward"]
    for op in ran:
        assert_nothing_is_left_out(reached(graph, op))


# Experts, and the parameters of a layer of many.


@BOTH
@pytest.mark.parametrize("ragged", [False, True])
def test_experts_of_one_shape_are_one_box(dialect: Any, ragged: bool) -> None:
    nn: Any = dialect.nn

    class Expert(nn.Module):  # type: ignore[misc]  # of either dialect
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return self.down(self.up(x).relu())

    torch.manual_seed(0)
    experts = nn.ModuleList([Expert() for _ in range(5)])
    x = leaf(dialect, 15, 4)

    def run() -> Any:
        ends = [0, 1, 3, 6, 10, 15] if ragged else [0, 3, 6, 9, 12, 15]
        return dialect.cat([expert(x[a:b].sin()) for expert, a, b in zip(experts, ends, ends[1:], strict=False)])

    graph = recorded(run)
    (run_of,) = graph.runs
    assert run_of.parallel
    drawn = drawable(graph, NODES)
    (box,) = folded(drawn)
    assert "Expert" in box["label"][0]
    assert box["label"][0].endswith(" × 5")
    opened = drawable(graph, NODES, first_folding(graph, NODES).toggled(graph, box["holds"], NODES))
    assert len(folded(opened)) == 5, "each for itself"


def test_all_parameters_of_a_recurrent_layer_are_rows_of_its_box() -> None:
    torch.manual_seed(0)
    net = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    drawn = drawable(recorded(lambda: net(torch.rand(5, 2, 3))[0]), NODES)
    parameters = [node for node in drawn["nodes"] if node["kind"] == "parameter"]
    (lstm,) = [node["id"] for node in drawn["nodes"] if node["op"] == "lstm"]
    assert len(parameters) == 16
    assert {node["row"] for node in parameters} == {lstm}


def test_the_parameters_of_a_recurrent_layer_of_ours_are_rows_of_the_boxes_of_its_layers() -> None:
    net = nbgrad.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    drawn = drawable(recorded(lambda: net(nbgrad.tensor(torch.rand(5, 2, 3)))[0]), NODES)
    parameters = [node for node in drawn["nodes"] if node["kind"] == "parameter"]
    assert len(parameters) == 16
    assert all(node["row"] is not None for node in parameters)


def test_a_loss_of_derivatives_alone_names_them() -> None:
    """The heat equation: neither u nor u_x is an ancestor of the loss."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
    x, t = (torch.rand(64, 1, requires_grad=True) for _ in range(2))
    with nbgrad.record(view="none") as graph:
        u = net(torch.cat([x, t], 1))
        (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (u_x,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        loss = ((u_t - 0.1 * u_xx) ** 2).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's method has no types
    tree = outline(graph).tree
    assert {tree.scopes[one]["label"] for one in tree.derivatives} == {
        "u_x = derivative of u",
        "u_t = derivative of u",
        "∂u_x/∂x",
    }

"""A backward in the description: its steps in their real order, its findings, its past."""

import json
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.history import CURVES
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.tensor_summary import tiled
from nbgrad.widgets.description.walk import StepContext
from nbgrad.widgets.folding.apply import fold
from nbgrad.widgets.folding.choose import Folding
from nbgrad.widgets.pipeline import drawable
from tests.widgets import graphs


class Order(Observer):
    """Remembers which rules ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []

    def on_rule(self, node: Any, position: int, gradient: Any, reduced: Any, reduction: Any) -> None:
        self.ran.append((node.seq, position))


def test_the_steps_are_the_rules_in_the_order_in_which_they_ran() -> None:
    order = Order()
    with nbgrad.AutogradGraph() as graph, Switch(observers=(*current().observers, order)):
        a, b = (nbgrad.tensor(torch.randn(3, 3), requires_grad=True) for _ in range(2))
        late = a @ b
        early = (b * 2).tanh()
        q, r = late.split([1, 2])
        loss = (early + late * early).sum() + q.sum() * r.exp().mean() + torch.linalg.norm(late)
        loss.backward()
    described = describe(graph)
    ids = {record.id: node["id"] for record, node in zip(graph.records, described["nodes"], strict=True)}
    edges = {edge["id"]: edge for edge in described["edges"]}
    told = [(step["node"], edges[given["edge"]]["input"]) for step in described["steps"] for given in step["given"]]
    assert told == [(ids[seq], graph.record(seq).inputs[position].name) for seq, position in order.ran]
    assert [step["rules"] for step in described["steps"]] == [
        [count, count, len(described["steps"])] for count in range(1, len(described["steps"]) + 1)
    ]


def test_paths_that_meet_are_counted_and_summed() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([3.0], requires_grad=True)
        (x * x + x).sum().backward()
    meetings = [given["sum"] for step in describe(graph)["steps"] for given in step["given"] if given["sum"]]
    assert meetings == [
        "path 1 of 3 that meet here: kept until the others arrive",
        "path 2 of 3 that meet here: kept until the others arrive",
        "path 3 of 3: all have arrived and are added; the sum is 7",
    ]


def test_results_of_one_op_are_not_added_and_none_goes_by_the_name_of_another() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        p, q = x.split(2)
        graph.name_variables({"x": x, "p": p, "q": q})
        (p * 10 + q * 100).sum().backward()
    described = describe(graph)
    given = [(given["text"], given["sum"]) for step in described["steps"] for given in step["given"]]
    assert given[-3:-1] == [
        ("to a (a result of split): (2,), [100, 100]", "use 1 of 2 of its results: kept until the others arrive"),
        ("to a (a result of split): (2,), [10, 10]", "use 2 of 2 of its results: all have arrived"),
    ]
    assert described["steps"][-1]["incoming"] == "of its results, by their uses: (2,), [10, 10]; (2,), [100, 100]"
    split = described["nodes"][1]
    assert (split["label"][0], split["rule"]) == ("p, … = split", "∇ norm 142.1 of all results")
    (told,) = [row["text"] for row in split["details"] if row["term"] == "results"]
    assert told.startswith("several tensors in one box: name, shape and value are those of the first")


def messages_of(graph: nbgrad.AutogradGraph) -> tuple[list[str], list[str]]:
    """The texts of the steps about what they hand on, and the rows about the gradient in the details of the nodes."""
    described = describe(graph)
    given = [given["sum"] or given["text"] for step in described["steps"] for given in step["given"]]
    return given, [row["text"] for node in described["nodes"] for row in node["details"] if row["term"] == "gradient"]


def test_a_gradient_that_a_hook_made_is_not_called_the_sum() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda gradient: -gradient)
        h = x * 3
        h.register_hook(lambda gradient: gradient * 10)
        (h * h).sum().backward()
    given, nodes = messages_of(graph)
    assert given[2] == "path 2 of 2: all have arrived and are added; a hook made [60, 120] of it"
    assert given[3] == "to a (x): (2,), [180, 360]; a hook made [-180, -360] of it"
    assert [text.rpartition(": ")[2] for text in nodes] == [
        "a hook made [-180, -360] of it",
        "a hook made [60, 120] of it",
    ]


def test_a_gradient_says_what_else_was_added_to_those_that_came_along_the_edges() -> None:
    with nbgrad.AutogradGraph() as graph:
        h = nbgrad.tensor([1.0, 2.0], requires_grad=True).sum()
        nbgrad.autograd.backward([h, h * h])
    assert messages_of(graph)[0][1].endswith(
        "all have arrived and are added; together with the gradient with which the backward began here, it is 7"
    )
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    before = x * 2
    with nbgrad.AutogradGraph() as graph:
        (before + x).sum().backward()
    assert [text.partition(": ")[0] for text in messages_of(graph)[0]][-2:] == [
        "path 1 of 2 that meet here",
        "path 2 of 2",
    ]
    assert messages_of(graph)[0][-1].startswith("path 2 of 2: all have arrived and are added")
    assert "hook" not in messages_of(graph)[0][-1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
@pytest.mark.parametrize("shape", [(3,), (40, 50)])
def test_rounding_is_no_hook(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.randn(*shape, dtype=dtype, requires_grad=True)
        x.register_hook(lambda gradient: None)
        y = x * x.sin() - x
        (y * y + x * y + x).abs().mean().backward()
    assert messages_of(graph)[1] == []


def test_small_gradients_are_written_in_their_rows() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        b = nbgrad.tensor([0.5, 1.0, -1.0], requires_grad=True)
        (x * b).pow(2).sum().backward()
    steps = describe(graph)["steps"]
    assert steps[2]["incoming"] == "(2, 3), [[1, 4, -6], [4, 10, -12]]"
    assert [given["text"] for given in steps[2]["given"]] == [
        "to a (x): (2, 3), [[0.5, 4, 6], [2, 10, 12]]",
        "to b: (3,), [17, 58, -90]",
    ]


def test_a_step_is_told_once_however_many_get_something(monkeypatch: pytest.MonkeyPatch) -> None:
    with nbgrad.AutogradGraph() as graph:
        parts = [nbgrad.tensor([float(at)], requires_grad=True) for at in range(5)]
        nbgrad.cat(parts).sum().backward()
    told, of_fact = [], StepContext.told
    monkeypatch.setattr(StepContext, "told", lambda walk, fact: told.append(fact.id) or of_fact(walk, fact))
    steps = describe(graph)["steps"]
    assert [len(step["given"]) for step in steps] == [1, 5]
    assert len(told) == 2


def test_an_input_is_named_once_where_the_tensor_has_the_same_name() -> None:
    with nbgrad.AutogradGraph() as graph:
        nn.Linear(2, 1)(nbgrad.tensor([[1.0, 2.0]])).sum().backward()
    given = [one["text"].partition(":")[0] for step in describe(graph)["steps"] for one in step["given"]]
    assert given == ["to x (the result of linear)", "to weight", "to bias"]


def test_folding_keeps_the_walk() -> None:
    whole = graphs.trained(1, 3)
    blocks = [scope["id"] for scope in whole["scopes"] if "Block" in scope["label"]]
    drawn = fold(Outline.of(whole), Folding(frozenset(blocks), frozenset(blocks))).detail()
    walk = [step["node"] for step in drawn["steps"]]
    assert walk.count(f"f-{blocks[0]}") == 1
    assert walk[2:5] == [f"f-{scope}" for scope in reversed(blocks)]
    titles = [step["title"] for step in drawn["steps"]]
    assert titles[2] == "4 rules inside 3 (Block)"
    shown = {edge["id"] for edge in drawn["edges"]}
    assert all(given["edge"] in shown for step in drawn["steps"] for given in step["given"])


def test_identical_blocks_are_a_run_and_different_ones_are_not() -> None:
    whole = graphs.trained(1, 3)
    labels = {scope["id"]: scope["label"] for scope in whole["scopes"]}
    (run,) = Outline.of(whole).runs
    assert [[labels[scope] for scope in calls] for calls in run.cycles] == [["1 (Block)"], ["2 (Block)"], ["3 (Block)"]]
    merged = fold(Outline.of(whole), Folding(frozenset(scope for calls in run.cycles for scope in calls))).detail()
    (group,) = [node for node in merged["nodes"] if node["kind"] == "folded"]
    assert group["label"] == ["Block × 3", "1 … 3", "(16, 8)"]
    assert next(row["text"] for row in group["details"] if row["term"] == "Each of them") == "4 ops, 4 parameters (280)"


def test_a_broadcast_that_is_probably_not_meant_has_a_warning() -> None:
    described = graphs.unpaired()
    (reduction,) = [edge["reduction"] for edge in described["edges"] if edge["reduction"]]
    assert reduction["warning"] is not None
    assert reduction["warning"].startswith("(3, 1) against (3,) makes (3, 3)")
    assert [problem["kind"] for problem in described["problems"]] == ["warning"]
    with nbgrad.AutogradGraph() as graph:
        (nbgrad.tensor(torch.ones(3, 3)) + nbgrad.tensor(torch.ones(3), requires_grad=True)).sum().backward()
    assert describe(graph)["problems"] == [], "a bias is meant"


def test_a_loss_that_stretches_is_warned_of() -> None:
    with nbgrad.AutogradGraph() as graph:
        predicted = nbgrad.tensor(torch.ones(1, 3), requires_grad=True)
        with pytest.warns(UserWarning, match="broadcast"):
            nn.functional.mse_loss(predicted, nbgrad.tensor(torch.ones(4, 3))).backward()
    (reduction,) = [edge["reduction"] for edge in describe(graph)["edges"] if edge["reduction"]]
    assert reduction["warning"] is not None
    assert "compares each of its numbers with 4 targets" in reduction["warning"]


def test_what_a_loss_makes_of_two_shapes_is_not_its_own() -> None:
    with nbgrad.AutogradGraph() as graph, pytest.warns(UserWarning, match="broadcast"):
        nn.functional.mse_loss(nbgrad.ones(3, 1, requires_grad=True), nbgrad.ones(3)).backward()
    (problem,) = describe(graph)["problems"]
    assert problem["text"].startswith("(3, 1) against (3,) makes (3, 3): ")


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", [torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss])
def test_a_loss_of_torchs_that_broadcasts_inside_is_warned_of(loss: Any, reduction: str, watch: bool) -> None:
    predicted, target = torch.ones(3, 1, requires_grad=True), torch.zeros(3)
    with nbgrad.AutogradGraph(watch=watch) as graph, pytest.warns(UserWarning, match="broadcast"):
        loss(reduction=reduction)(predicted, target).backward()
    described = describe(graph)
    (undone,) = [edge["reduction"] for edge in described["edges"] if edge["reduction"]]
    assert undone["dims"] == [1]
    assert undone["terms"] == 3
    assert undone["warning"] is not None
    (problem,) = described["problems"]
    assert problem["text"].startswith("(3, 1) against (3,) makes (3, 3): ")


@pytest.mark.parametrize("loss", [torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss])
def test_a_loss_of_torchs_on_equal_shapes_stretches_nothing(loss: Any) -> None:
    with nbgrad.AutogradGraph() as graph:
        loss()(torch.ones(3, 1, requires_grad=True), torch.zeros(3, 1)).backward()
    described = describe(graph)
    assert not [edge for edge in described["edges"] if edge["reduction"]]
    assert described["problems"] == []


@pytest.mark.parametrize("make", [torch.ones, nbgrad.ones])
@pytest.mark.parametrize(
    "axis",
    [
        *(lambda x: x[:, None], lambda x: x.unsqueeze(1), lambda x: x.view(-1, 1), lambda x: x.reshape(3, 1)),
        lambda x: x.expand(2, 3).sum(0).view(3, 1).mean(1, keepdim=True),
    ],
    ids=["None", "unsqueeze", "view", "reshape", "keepdim"],
)
def test_an_axis_that_the_user_gave_is_meant(make: Any, axis: Callable[[Any], Any]) -> None:
    with nbgrad.AutogradGraph() as graph:
        a, b = make(3, requires_grad=True), make(3, requires_grad=True)
        (axis(a * 2) + b * 3).sum().backward()
    assert describe(graph)["problems"] == []


@pytest.mark.parametrize("make", [torch.arange, nbgrad.arange])
@pytest.mark.parametrize("axis", [lambda x: x[:, None], lambda x: x.unsqueeze(1), lambda x: x.view(3, 1)])
@pytest.mark.filterwarnings("error")
def test_an_axis_that_the_expression_gives_to_a_constant_is_meant(make: Any, axis: Callable[[Any], Any]) -> None:
    c = make(3.0)
    with nbgrad.AutogradGraph() as graph:
        x = make(3.0).requires_grad_()
        ((x - axis(c)).sum() + (axis(x) - c).sum()).backward()
    assert describe(graph)["problems"] == []


@pytest.mark.parametrize("make", [torch.arange, nbgrad.arange])
@pytest.mark.filterwarnings("ignore:.*every element of one meets:UserWarning")
def test_a_column_of_targets_may_have_got_its_axis_long_before(make: Any) -> None:
    targets = make(3.0)[:, None]
    with nbgrad.AutogradGraph() as graph:
        x = make(3.0).requires_grad_()
        (x - targets).sum().backward()
        graph.name_variables({"targets": targets, "x": x})
    (problem,) = describe(graph)["problems"]
    assert problem["text"].startswith("(3,) against (3, 1) makes (3, 3): ")


def test_our_warning_of_a_broadcast_knows_a_column_of_targets() -> None:
    x = nbgrad.arange(3.0).requires_grad_()
    targets = nbgrad.arange(3.0)[:, None]
    with pytest.warns(UserWarning, match="sub compares x of shape \\(3,\\) with targets of shape \\(3, 1\\)"):
        x - targets


class Opaque:
    """An object that torch's functions take, and that is no tensor."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*(one.data if isinstance(one, Opaque) else one for one in args), **(kwargs or {}))


def test_a_weight_does_not_meet_its_bias() -> None:
    layer = torch.nn.Linear(1, 4)
    with nbgrad.AutogradGraph() as graph:
        torch.nn.functional.linear(Opaque(torch.ones(4, 1)), layer.weight, layer.bias).sum().backward()
    described = describe(graph)
    assert described["problems"] == []
    assert [edge["reduction"]["warning"] for edge in described["edges"] if edge["reduction"]] == [None]


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_the_frame_has_the_sum_that_a_loss_of_torchs_makes_inside(loss: str, scale: int, watch: bool) -> None:
    predicted, target = torch.ones(3, 1, requires_grad=True), torch.zeros(3, requires_grad=True)
    with nbgrad.AutogradGraph(watch=watch) as graph:
        (getattr(torch.nn.functional, loss)(predicted * 1, target) * scale).backward()
    record = next(one for one in graph.records if one.op and one.op.name == loss)
    undone = [taken.reduction for taken in record.inputs]
    assert [one and (one.source, one.target, one.dims, one.terms) for one in undone] == [
        ((3, 3), (3, 1), (1,), 3),
        ((3, 3), (3,), (0,), 3),
    ]
    assert [graph.frame.reductions[record.id, at] for at in (0, 1)] == undone
    edges = [edge["reduction"] for edge in describe(graph)["edges"] if edge["reduction"]]
    assert [edge["terms"] for edge in edges] == [3, 3]
    assert all(edge["warning"] for edge in edges)


def test_vanishing_and_exploding_modules_are_told_in_words() -> None:
    layers = [nn.Linear(2, 2) for _ in range(5)]
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor(torch.ones(1, 2))
        sum((layer(x) * scale).sum() for layer, scale in zip(layers, (1e-6, 1, 1, 1, 1e6), strict=True)).backward()
    kinds = [verdict["kind"] for verdict in describe(graph)["verdicts"]]
    assert kinds == ["vanishing", "sound", "sound", "sound", "vanishing"]
    first, *_, last = [verdict["text"] for verdict in describe(graph)["verdicts"]]
    assert first.endswith("1e+06 times smaller than in the last modules, where the backward begins")
    assert last.endswith("1e+06 times larger than in the modules before it: it shrinks on the way from here to them")


@pytest.mark.parametrize(("scale", "kind", "size"), [(1e-6, "vanishing", "smaller"), (1e6, "exploding", "larger")])
def test_one_of_the_last_modules_is_compared_with_the_others(scale: float, kind: str, size: str) -> None:
    layers = [nn.Linear(2, 2) for _ in range(4)]
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor(torch.ones(1, 2))
        sum((layer(x) * by).sum() for layer, by in zip(layers, (1, 1, scale, 1), strict=True)).backward()
    odd = describe(graph)["verdicts"][2]
    assert odd["kind"] == kind
    assert odd["text"].endswith(f"1e+06 times {size} than in the other last modules, where the backward begins")


def test_a_sum_of_inf_and_minus_inf_is_written_and_warns_of_nothing() -> None:
    bias = nbgrad.tensor([1.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (torch.tensor([[torch.inf], [-torch.inf]]) * (bias + torch.ones(2, 1))).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        described = describe(graph)
    (sums,) = [edge["reduction"]["sums"] for edge in described["edges"] if edge["reduction"]]
    assert sums == ["grad[0] = inf + (-inf) = nan"]


@pytest.mark.parametrize("aside", [False, True])
def test_a_last_module_is_not_to_blame_for_gradients_that_explode_before_it(aside: bool) -> None:
    """The last module is next to the loss, where gradients are sound. A module beside their way is still a finding."""
    first, middle, last = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    with nbgrad.AutogradGraph() as graph:
        hidden = middle(first(nbgrad.ones(4, 2)))
        if aside:
            (last(hidden).sum() * 1e-6 + hidden.sum()).backward()
        else:
            last(hidden + (hidden - hidden.detach()) * 1e6).sum().backward()
    kind, text = [(verdict["kind"], verdict["text"]) for verdict in describe(graph)["verdicts"]][-1]
    assert kind == ("vanishing" if aside else "exploding")
    grows = "modules before it: it grows on the way from here to them"
    than = "other last modules, where the backward begins" if aside else grows
    assert text.endswith(f" times smaller than in the {than}")


def test_the_gradient_that_a_last_norm_lets_through_does_not_explode_there() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    with nbgrad.AutogradGraph() as graph:
        encoder(nbgrad.randn(2, 3, 8)).square().mean().backward()  # a norm makes this loss constant
    last = describe(graph)["verdicts"][-1]
    assert (last["kind"], "norm2" in last["text"]) == ("vanishing", True)
    assert last["text"].endswith("larger than in the modules before it: it shrinks on the way from here to them")


class Gated(nn.Module):
    """The normalization after the gate undoes it. So the gradient of the gate is almost 0, and nothing is wrong."""

    def __init__(self, gate: float = 1.0) -> None:
        super().__init__()
        self.norm, self.linear, self.gate = nn.LayerNorm(8), nn.Linear(8, 8), nn.Parameter(gate)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return nn.functional.gelu(self.linear(self.norm(x))) * self.gate


def judged(*gates: float) -> dict[str, str]:
    """The verdict on each module of a network of blocks with these gates, in a loop."""
    torch.manual_seed(0)
    net = nn.Sequential(*map(Gated, gates), nn.Linear(8, 1))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            net(nbgrad.randn(32, 8)).square().mean().backward()
    return {one["text"].partition(":")[0].partition(" > ")[2]: one["kind"] for one in describe(graph)["verdicts"]}


def test_a_parameter_that_hardly_matters_does_not_make_its_module_one_where_gradients_vanish() -> None:
    assert set(judged(*[1.0] * 8).values()) == {"sound"}


def test_where_a_gate_lets_next_to_nothing_through_the_gradients_before_it_vanish() -> None:
    found = judged(*[1.0] * 4, 1e-6, *[1.0] * 3)
    ahead = [kind for name, kind in found.items() if name[0] in "0123" and ">" in name]
    assert set(ahead) == {"vanishing"}, found
    assert {kind for name, kind in found.items() if name[0] in "567"} == {"sound"}, found


@pytest.mark.parametrize(("factor", "kind"), [(0.2, "vanishing"), (5.0, "exploding")])
def test_modules_are_compared_with_those_where_the_backward_begins(factor: float, kind: str) -> None:
    layers = [nn.Linear(2, 2) for _ in range(12)]
    x, last = nbgrad.tensor(torch.ones(1, 2)), len(layers) - 1
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            sum((layer(x) * factor ** (last - number)).sum() for number, layer in enumerate(layers)).backward()
    kinds = [verdict["kind"] for verdict in describe(graph)["verdicts"]]
    assert kinds == [kind] * 6 + ["sound"] * 6, "where most of a network gets none, what does is not what is wrong"


def test_a_verdict_says_which_of_the_blocks_it_is_of() -> None:
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()) for _ in range(8)))
    with nbgrad.AutogradGraph() as graph:
        blocks(nbgrad.tensor(torch.ones(1, 2))).sum().backward()
    described = describe(graph)
    said = [verdict["text"].partition(":")[0] for verdict in described["verdicts"]]
    assert said == [f"Sequential > {index} (Sequential) > 0 (Linear)" for index in range(8)]
    assert [verdict["scope"] for verdict in described["verdicts"]] == [
        node["scope"] for node in described["nodes"] if node["op"] == "linear"
    ]


def test_the_past_is_that_of_the_history() -> None:
    described = graphs.trained(12)
    past = described["history"]
    assert [frame["structure"] for frame in past["frames"]] == [0] * 12
    parameters = [node for node in described["nodes"] if node["kind"] == "parameter"]
    gradients, updates = past["charts"]
    for chart in (gradients, updates):
        assert [curve["node"] for curve in chart["curves"]] == [node["id"] for node in parameters]
    for node, curve in zip(parameters, gradients["curves"], strict=True):
        norm = float(node["norms"][-1])
        numbers = [float(one) for one in re.findall(r"-?[\d.]+(?:e-?\d+)?", node["rule"])]
        drawn = numbers[0] if "norm" in node["rule"] else sum(one * one for one in numbers) ** 0.5
        assert drawn == pytest.approx(norm, rel=5e-3), "the last frame is what is drawn"
        assert curve["text"].startswith(f"{node['norms'][0]} to {node['norms'][-1]}")
        assert len(curve["heights"]) == len(node["past"]) == 12
    assert gradients["guide"] is None
    assert graphs.trained(1)["history"]["frames"] == [], "there is nothing to compare"


def test_what_the_steps_changed_is_a_chart_with_a_guide() -> None:
    w, b = (nbgrad.tensor([value], dtype=torch.float64, requires_grad=True) for value in (1.0, 0.0))
    optimizer = nbgrad.optim.SGD([w, b], lr=1.0)
    factors = (0.1, 0.1, 1e-5, 0.1)
    with nbgrad.AutogradGraph() as graph:
        for factor in factors:
            optimizer.zero_grad()
            ((w * w.detach() + b * b.detach()) * factor).sum().backward()
            optimizer.step()
    _, chart = describe(graph)["history"]["charts"]
    assert chart["title"] == "update / weight"
    assert "from 1e-05 to 0.1 (log). The guide line is at 0.001" in chart["text"]
    assert chart["guide"] == 50, "in the middle of the scale"
    moved, still = chart["curves"]
    assert moved["heights"] == [100, 100, 0, 100]
    assert moved["text"] == "0.1 to 0.1"
    assert (still["heights"], still["text"]) == ([None] * 4, "none"), "what is zero has no size"


def test_the_curves_of_steps_go_straight_through_the_frames_without_a_measured_step() -> None:
    w = nbgrad.tensor([1.0], dtype=torch.float64, requires_grad=True)
    optimizer = nbgrad.optim.SGD([w], lr=1.0)
    with nbgrad.AutogradGraph() as graph:
        for number in range(1, 13):
            optimizer.zero_grad()
            (w * w.detach() * (0.1 if number < 11 else 1e-5)).sum().backward()
            optimizer.step()
    assert [frame.number for frame in graph.history if frame.parameters[0].update is None] == [10, 12]
    (curve,) = describe(graph)["history"]["charts"][1]["curves"]
    assert curve["heights"] == [*[100] * 9, 50, 0, None]


def test_without_a_step_there_is_no_chart_of_updates() -> None:
    w = nbgrad.tensor([1.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            (w * w).sum().backward()
    assert [chart["title"] for chart in describe(graph)["history"]["charts"]] == ["gradient norm"]


def test_frames_of_another_structure_say_what_differs() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        for step in range(3):
            (x.tanh() if step == 1 else x * 2).sum().backward()
    past = describe(graph)["history"]
    assert [frame["structure"] for frame in past["frames"]] == [0, 1, 0]
    lines = {(one["before"], one["after"]): one["lines"] for one in past["differences"]}
    assert lines[0, 1] == ["only before: mul (2,)", "only after: tanh (2,)"]
    assert lines[1, 0] == ["only before: tanh (2,)", "only after: mul (2,)"]


def test_an_op_that_raised_is_drawn_with_what_it_was_given() -> None:
    described = graphs.stopped()
    failed = described["nodes"][-1]
    assert failed["kind"] == "failed"
    assert failed["label"] == ["matmul", "raised RuntimeError"]
    taken = [edge["label"] for edge in described["edges"] if edge["target"] == failed["id"]]
    assert taken == ["(1, 3) float32", "(2, 1) float32"]
    assert described["notes"][0].startswith("The program stopped here: matmul raised RuntimeError")
    assert drawable(described, 300)["nodes"][-1]["badges"][0]["kind"] == "failed"


def test_an_op_that_raised_is_drawn_in_its_module() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(7, 1), nn.Tanh()))
    with nbgrad.AutogradGraph() as graph, pytest.raises(RuntimeError) as raised:
        net(nbgrad.ones(5, 4))
    described = graphs.ended(graph, raised.value)
    scopes = {scope["id"]: scope for scope in described["scopes"]}
    failed = described["nodes"][-1]
    *_, inner, around = (scopes[node["scope"]] for node in described["nodes"] if node["scope"] is not None)
    assert failed["kind"] == "failed"
    assert [inner["label"], around["label"], around["folds"]] == ["0 (Linear)", "0 (Linear)", "1 op"]
    assert scopes[around["parent"] or ""]["label"] == "2 (Sequential)"


def test_what_only_the_op_that_raised_was_given_is_what_it_is_and_has_the_users_name() -> None:
    weight, mine = nbgrad.nn.Parameter(torch.ones(2, 1)), nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
    data, before = nbgrad.tensor([[3.0, 4.0]]), nbgrad.tensor([[1.0, 2.0]], requires_grad=True) * 2
    found = []
    for given in (weight, mine, data, before, torch.ones(1, 2)):
        with nbgrad.AutogradGraph() as graph, pytest.raises(RuntimeError) as raised:
            nbgrad.cat([given, nbgrad.ones(3, 3)], dim=0)
        drawn = graphs.ended(graph, raised.value)["nodes"]
        assert drawn[-1]["kind"] == "failed"
        found.append((drawn[0]["kind"], drawn[0]["label"][0]))
    names = [("parameter", "weight"), ("leaf", "mine"), ("input", "data"), ("outside", "before")]
    assert found == [*names, ("input", "given")]


def test_a_backward_that_raised_is_drawn_as_far_as_it_came() -> None:
    described = graphs.changed()
    (problem,) = described["problems"]
    assert problem["kind"] == "inplace"
    assert "add_" in problem["text"]
    rules = {node["label"][0]: node["rule"] for node in described["nodes"]}
    assert rules["sum"] == "∇ 1"
    assert rules["x"] is None
    stopped = "The program stopped here. The gradients that had arrived are shown; no .grad changed. "
    assert described["notes"][0].startswith(f"{stopped}The backward of mul raised")


def test_a_backward_that_raised_after_others_is_drawn_where_it_raised() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            (x.tanh() * 2).sum().backward()
        y = x.tanh()
        y.register_hook(lambda gradient: 1 / 0)
        loss = (y * 2).sum()
        with pytest.raises(ZeroDivisionError) as caught:
            loss.backward()
    described = graphs.ended(graph, caught.value)
    (at,) = [node for node in described["nodes"] if node["badges"]]
    assert (at["op"], at["badges"][0]["kind"], at["rule"]) == ("tanh", "failed", None)
    assert {node["op"]: node["rule"] for node in described["nodes"]}["mul"] == "∇ [1, 1]"
    assert [frame["title"] for frame in described["history"]["frames"]] == [
        f"backward {at}, loss 3.451" for at in (1, 2, 3)
    ]


def test_the_history_of_a_graph_is_not_that_of_other_ops_that_failed() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            x.tanh().sum().backward()
        y = x.sin()
        y.register_hook(lambda gradient: 1 / 0)
        loss = y.sum()
        with pytest.raises(ZeroDivisionError) as caught:
            loss.backward()
    described = graphs.ended(graph, caught.value)
    assert [node["op"] for node in described["nodes"]] == [None, "sin", "sum"]
    assert described["history"]["frames"] == []


@pytest.mark.parametrize(
    ("backwards", "said"), [(0, "No backward was complete, so no"), (2, "are those of backward 2")]
)
def test_an_interrupt_is_said_to_be_one(backwards: int, said: str) -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(backwards):
            x.tanh().sum().backward()
        y = x.sin()
    assert y.requires_grad
    (note,) = graphs.ended(graph, KeyboardInterrupt())["notes"]
    assert note.startswith("The program was interrupted")
    assert said in note
    assert "forward only" not in note


def test_an_error_of_something_else_adds_a_note_and_a_finding_alone() -> None:
    with nbgrad.AutogradGraph() as graph:
        nbgrad.tensor([1.0], requires_grad=True).sum().backward()
    before = describe(graph)
    after = graphs.ended(graph, KeyError("elsewhere"))
    said = "The program raised KeyError: 'elsewhere'."
    notes = [f"{said} The gradients are those of backward 1, the last complete one."]
    problems = [{"kind": "failed", "text": said, "node": None}]
    assert before["checked"][0].startswith("errors: ")
    checked = before["checked"][1:]
    assert after == {**before, "stopped": True, "notes": notes, "problems": problems, "checked": checked, "outcome": ""}


class Mute(Exception):
    """An error that can't say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_that_has_no_words_or_too_many_is_told_in_a_line() -> None:
    with nbgrad.AutogradGraph() as graph:
        nbgrad.tensor([1.0], requires_grad=True).sum().backward()
    (mute,) = graphs.ended(graph, Mute())["notes"]
    assert mute.startswith("The program raised Mute. The gradients")
    (note,) = graphs.ended(graph, ValueError(f"\nfirst {'x' * 1000}\nsecond"))["notes"]
    assert note.startswith("The program raised ValueError: first xxx")
    assert len(note) < 400
    assert "second" not in note
    try:
        json.loads("{")
    except ValueError as error:
        (note,) = graphs.ended(graph, error)["notes"]
    assert re.search(r"\(char 1\) \(tests.widgets.test_walk\.py:\d+, `json.loads", note), "and not a line of json's"


def test_the_maps_of_a_convolution_lie_side_by_side() -> None:
    import numpy as np

    weight = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    assert tiled(weight).tolist() == [
        [0, 1, 4, 5, 8, 9],
        [2, 3, 6, 7, 10, 11],
        [12, 13, 16, 17, 20, 21],
        [14, 15, 18, 19, 22, 23],
    ]
    assert tiled(np.arange(3)).shape == (1, 3)
    assert tiled(np.arange(24).reshape(2, 3, 4)).shape == (3, 8)


def test_a_curve_leads_to_the_folded_box_that_its_parameter_is_in() -> None:
    drawn = drawable(graphs.trained(2, 40), 100)
    curves = [curve["node"] for chart in drawn["history"]["charts"] for curve in chart["curves"]]
    assert set(curves) <= {node["id"] for node in drawn["nodes"]}


def test_a_curve_says_in_which_of_the_blocks_its_parameter_is() -> None:
    net = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2, bias=False)) for _ in range(2)])
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            net(nbgrad.ones(1, 2)).sum().backward()
    (chart,) = describe(graph)["history"]["charts"]
    assert [curve["label"] for curve in chart["curves"]] == ["0.0.weight", "1.0.weight"]


def test_of_many_parameters_the_smallest_gradient_has_a_curve_wherever_it_is() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(30)])
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            outs = [layer(nbgrad.ones(1, 2)) * (1e-9 if at == 27 else 1 + at) for at, layer in enumerate(net)]
            sum(out.sum() for out in outs).backward()
    (chart,) = describe(graph)["history"]["charts"]
    assert len(chart["curves"]) == CURVES
    assert "net.27.bias" in [curve["label"] for curve in chart["curves"] if curve["heights"] == [0, 0]]
    assert chart["text"].startswith("The norm of the gradient of each parameter, from 1.414e-09 to ")
    assert chart["text"].endswith(f" Drawn are {CURVES} of 60, from small ones to large.")


def test_a_chart_is_of_its_own_curves_and_one_that_stays_is_drawn_in_the_middle() -> None:
    (chart,) = graphs.descent()["history"]["charts"]
    assert chart["text"] == "The norm of the gradient of each parameter, always 3.", "the loss has no curve here"
    assert [curve["heights"] for curve in chart["curves"]] == [[50, 50, 50]]


def test_a_sum_of_which_the_norm_alone_is_kept_is_not_said_to_be_of_a_hook() -> None:
    with nbgrad.AutogradGraph(budget=0) as graph:
        h = nbgrad.tensor(torch.randn(1000, 1000), requires_grad=True)
        for _ in range(4):
            h = h * 1.01 + h * 0.5
        (h.sum() + h.mean()).backward()
    assert messages_of(graph)[1] == []

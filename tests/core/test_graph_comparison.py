"""Two graphs compared: which parts match, which are in one graph only, and how far their numbers differ."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.comparison import Comparison
from nbgrad.core.graph.custom_overlay import names_of
from nbgrad.core.graph.graph import AutogradGraph
from tests.core.planted import compared, data, w

compare: Any = nbgrad.compare  # the tests know that what they look up is there


def run(name: str, *layers: nn.Module, change: Callable[[Any], None] | None = None) -> AutogradGraph:
    """One backward through the layers. Their parameters are the same in each run."""
    torch.manual_seed(0)
    net = nn.Sequential(*layers)
    for parameter in net.parameters():
        parameter.data = torch.linspace(-1, 1, parameter.numel(), dtype=parameter.dtype).reshape(parameter.shape)
    if change is not None:
        change(net)
    x = nbgrad.tensor(torch.randn(5, 3))
    with AutogradGraph(name) as graph:
        loss = net(x).square().mean()
        loss.backward()
    return graph


def whats(pairs: list[Any]) -> list[tuple[str, str]]:
    return [(pair.left.what, pair.right.what) for pair in pairs]


def test_equal_graphs_differ_in_nothing() -> None:
    left, right = (run("net", nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2))
    found = compare(left, right)
    assert found.names == ("net, left", "net, right")
    assert len(found.pairs) == len(left.records) == len(right.records)
    assert found.alone == ([], [])
    assert found.equal
    assert found.first is found.first_gradient is None
    assert all(pair.left.what == pair.right.what for pair in found.pairs)
    assert {pair.value.relative for pair in found.pairs} == {0.0}
    assert repr(found) == str(found) == "net, left | net, right: all 5 ops agree"


def test_another_activation_stands_where_the_first_one_did() -> None:
    left, right = (
        run("s", nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2)),
        run("r", nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
    )
    found = compare(left, right)
    assert found.alone == ([], [])
    (other,) = [pair for pair in found.pairs if pair.other]
    assert (other.left.op.name, other.right.op.name, other.other) == ("sigmoid", "relu", "sigmoid against relu")
    assert other.words.startswith("sigmoid against relu, value by ")
    assert (found.first.left, found.first.right) == (other.left, other.right)
    assert "first difference: sigmoid in 1 | relu in 1\n" in str(found)
    assert "1 of 5 results agree" in found.summary


def test_what_is_on_one_side_alone_is_named() -> None:
    left = run("plain", nn.Linear(3, 4), nn.Linear(4, 2))
    right = run("deeper", nn.Linear(3, 4), nn.Linear(4, 2), nn.Tanh())
    found = compare(left, right)
    assert [one.what for one in found.alone[1]] == ["tanh"]
    assert found.alone[0] == []
    assert (found.first.kind, found.first.left, found.first.right) == ("extra", None, found.alone[1][0])
    assert "first difference: tanh in 2 only in deeper, before pow" in str(found)
    assert found.summary.endswith("0 and 1 have no counterpart")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_how_far_numbers_are_apart_is_a_part_of_the_norm(dtype: torch.dtype) -> None:
    def recorded(scale: float) -> AutogradGraph:
        w = nbgrad.tensor(torch.tensor([3.0, 4.0], dtype=dtype) * scale, requires_grad=True)
        with AutogradGraph("w") as graph:
            (w * 2).abs().sum().backward()
        return graph

    (pair,) = [one for one in compare(recorded(1.0), recorded(1.1)).pairs if one.left.kind == "leaf"]
    assert pair.value.relative == pytest.approx(1 - 1 / 1.1, rel=1e-5)
    assert pair.value.cosine == pytest.approx(1.0)
    assert pair.value.basis == "all numbers"
    assert "value by 9.09%" in pair.words


def test_numbers_that_differ_by_rounding_do_not_differ() -> None:
    def nudged(net: Any) -> None:
        net[0].weight.data.mul_(1 + 1e-7)

    layers = nn.Linear(3, 4), nn.Tanh()
    found = compare(run("a", *layers), run("b", nn.Linear(3, 4), nn.Tanh(), change=nudged))
    (weight,) = [pair for pair in found.pairs if pair.left.name == "weight"]
    assert 0 < weight.value.relative < 1e-6
    assert 0.5 <= weight.value.ulps <= 2
    assert found.equal
    assert compare(found.left, found.right, rtol=1e-8).first.left.name == "weight"


def test_torch_and_nbgrad_belong_together() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    ours = nbgrad.from_torch(net)
    data = torch.randn(5, 3)
    with AutogradGraph("torch") as left:
        net(data).pow(2).sum().backward()
    with AutogradGraph("nbgrad") as right:
        ours(nbgrad.tensor(data)).pow(2).sum().backward()
    found = compare(left, right)
    assert [pair.left.kind_or_op for pair in found.pairs] == [pair.right.kind_or_op for pair in found.pairs]
    assert {"linear", "tanh", "parameter"} <= {pair.left.kind_or_op for pair in found.pairs}
    assert not any(pair.differs for pair in found.pairs if pair.left.op is not None)


def test_of_large_tensors_a_sample_and_the_norms_are_compared() -> None:
    def recorded(scale: float, kept: int = 4096) -> AutogradGraph:
        w = nbgrad.tensor(torch.linspace(1, 2, 4096).reshape(64, 64), requires_grad=True)
        w.data[0, 1] *= scale
        with AutogradGraph("w") as graph:
            (w.exp()[:kept] * scale).tanh().sum().backward()
        return graph

    found = compare(recorded(1), recorded(2))
    leaf, exp, mul = (
        next(one for one in found.pairs if one.left.kind_or_op == name) for name in ("leaf", "exp", "mul")
    )
    assert leaf.value.basis == "norms", "the number that differs is in no sample, but the norm tells it"
    assert not leaf.value.agrees
    assert (exp.value.basis, exp.value.relative) == ("a sample", 0.0)
    assert mul.value.basis == "a sample"
    assert mul.value.relative == pytest.approx(0.5)
    assert found.first.left == mul.left


def test_nan_equals_nan_and_differs_from_a_number() -> None:
    def recorded(value: float) -> AutogradGraph:
        w = nbgrad.tensor([1.0, value], requires_grad=True)
        with AutogradGraph("w") as graph:
            w.sum().backward()
        return graph

    nan = float("nan")
    same, other = (compare(recorded(nan), recorded(one)) for one in (nan, 2.0))
    assert not any(pair.differs for pair in same.pairs)
    (pair,) = [one for one in other.pairs if one.left.kind == "leaf"]
    assert pair.words == "value by NaN or Inf on one side"


def test_a_missing_gradient_and_another_shape_are_said() -> None:
    def recorded(size: int, backward: bool) -> AutogradGraph:
        w = nbgrad.tensor(torch.ones(size), requires_grad=True)
        with AutogradGraph("w") as graph:
            loss = (w * 2).sum()
            if backward:
                loss.backward()
        return graph

    found = compare(recorded(2, True), recorded(3, False))
    assert "shape (2,) against (3,), a gradient on the left side alone" in [pair.words for pair in found.pairs]
    assert found.first.settings == {"shape": ((2,), (3,))}


def test_a_loop_of_another_length_and_a_long_one() -> None:
    def recorded(times: int) -> AutogradGraph:
        x = nbgrad.tensor([1.0], requires_grad=True)
        with AutogradGraph(f"{times} times") as graph:
            y = x
            for _ in range(times):
                y = (y * 1.01) + 0.1
            y.sum().backward()
        return graph

    found = compare(recorded(3), recorded(5))
    assert [one.what for one in found.alone[1]].count("mul") == 2
    long = compare(recorded(1500), recorded(1501))
    assert len(long.pairs) >= 3000


@pytest.mark.parametrize("rtol", [-1.0, 1, "1e-3", float("nan")])
def test_a_tolerance_is_a_part_of_a_norm(rtol: Any) -> None:
    graph = run("net", nn.Linear(3, 2))
    with pytest.raises(ValueError, match="takes a relative distance"):
        compare(graph, graph, rtol=rtol)


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", "b", "c"), ("a", ""), ("a", 1)])
def test_names_are_two(names: Any) -> None:
    left, right = (run("net", nn.Linear(3, 2)) for _ in range(2))
    with pytest.raises(ValueError, match="takes two names"):
        compare(left, right, names)
    assert compare(left, right, ("before", "after")).names == ("before", "after")


def test_what_is_no_graph_and_what_is_asked_for_is_refused() -> None:
    graph = run("net", nn.Linear(3, 2))
    for other in ([1], "step.json", {"version": 2}):
        with pytest.raises(TypeError, match=r"takes two graphs.*record\(ranks=True\)"):
            compare(graph, other)
    w = nbgrad.tensor([1.0], requires_grad=True)
    with AutogradGraph("asked", ask="w") as asked:
        (w * 2).sum().backward()
    with pytest.raises(ValueError, match=re.escape("'asked' still asks for the gradients of w")):
        Comparison(graph, asked)


def test_blocks_of_the_users_are_told_apart_by_their_whole_label() -> None:
    def branches(*names: str) -> AutogradGraph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        with AutogradGraph() as graph, nbgrad.scope("net"):
            parts = []
            for name in names:
                with nbgrad.scope(f"branch ({name})"):
                    parts.append((x * len(name)).exp())
            (parts[0] + parts[1]).sum().backward()
        return graph

    found = compare(branches("left", "right"), branches("right", "left"))
    inside = [pair for pair in found.pairs if pair.left.op is not None and pair.left.op.name == "exp"]
    assert [pair.value.relative for pair in inside] == [0.0, 0.0]


def test_a_name_of_a_module_may_have_a_bracket() -> None:
    net = nn.Sequential()
    net.add_module("block (a)", nn.Linear(2, 2))
    with AutogradGraph() as graph:
        net(nbgrad.ones(1, 2)).sum().backward()
    assert "block (a).weight" in {one for record in graph.records for one in names_of(record)}


def mixed(name: str, dtype: torch.dtype, cast: bool = False) -> AutogradGraph:
    """Two layers in an element type, or with a cast to bfloat16 between them."""
    w, v = (torch.linspace(-1, 1, 16).sin().reshape(4, 4).to(dtype).requires_grad_() for _ in range(2))
    x = torch.linspace(0, 1, 8).reshape(2, 4).to(dtype)
    with AutogradGraph(name) as graph:
        h = (x @ w).tanh()
        if cast:
            h = h.bfloat16().float()
        (h @ v).sum().backward()
    return graph


def test_the_coarser_type_decides_and_the_place_where_types_part_is_named() -> None:
    found = compare(mixed("exact", torch.float32), mixed("short", torch.bfloat16))
    assert found.equal
    assert found.types[0][0].kind_or_op in ("constant", "leaf")
    assert "types part at" in str(found)
    assert "float32 | bfloat16" in str(found)


def test_a_cast_between_two_ops_is_found_with_a_tolerance() -> None:
    plain, rounded = mixed("plain", torch.float32), mixed("rounded", torch.float32, cast=True)
    found = compare(plain, rounded)
    assert found.equal, "bfloat16 explains the difference"
    assert [(a.kind_or_op, b.kind_or_op) for a, b in found.types] == [("matmul", "matmul")]
    strict = compare(plain, rounded, rtol=1e-5)
    assert strict.first.kind == "extra"
    assert [record.op.name for record in strict.first.parts[1]] == ["bfloat16", "float"]


def test_rounding_that_grows_is_no_difference_and_a_wrong_scale_is() -> None:
    def recorded(scale: float, nudge: float) -> AutogradGraph:
        h = (torch.linspace(-1, 1, 16).reshape(4, 4) * (1 + nudge)).requires_grad_()
        with AutogradGraph("deep") as graph:
            y = h
            for at in range(12):
                y = (y * 3 if at != 6 else y * (3 * scale)).sin()
            y.square().sum().backward()
        return graph

    assert compare(recorded(1, 0), recorded(1, 3e-7)).first is None
    first = compare(recorded(1, 0), recorded(1.01, 3e-7)).first
    assert (first.left.kind_or_op, first.settings) == ("mul", {"b": (3, 3 * 1.01)})


def test_a_large_graph_is_compared_by_its_values() -> None:
    def recorded(odd: int) -> AutogradGraph:
        w = torch.linspace(-1, 1, 160).reshape(10, 16).requires_grad_()
        with AutogradGraph("long") as graph:
            h = w
            for at in range(1500):
                h = (h * (3 if at != odd else 3.1)).sin()
                h = h + w
            h.sum().backward()
        return graph

    left, right = recorded(-1), recorded(300)
    found = compare(left, right)
    assert len(found.pairs) == len(left.records) > 4000
    assert found.first.settings == {"b": (3, 3.1)}
    assert left.records.index(found.first.left) == 1 + 3 * 300
    assert found.first.distance.basis == "a sample", "its values had no room any more: the first numbers stayed"
    assert "without known values" not in str(found)


def test_functions_of_torch_without_a_row_have_their_settings() -> None:
    x = torch.randn(2, 4, requires_grad=True)
    with AutogradGraph() as graph:
        torch.nn.functional.dropout(x, 0.25).sum().backward()
    (dropout,) = [record for record in graph.records if record.kind_or_op == "dropout"]
    assert dropout.settings == {"p": 0.25, "training": True, "inplace": False}


def test_a_module_in_which_nothing_differs_is_folded_and_the_first_op_is_marked() -> None:
    from nbgrad.widgets.describe_comparison import outline_comparison
    from nbgrad.widgets.folding.choose import first_folding

    def recorded(slope: float) -> AutogradGraph:
        torch.manual_seed(0)
        parts = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LeakyReLU(one)) for one in (0.1, slope, 0.1)]
        with AutogradGraph(f"slope {slope}") as graph:
            torch.nn.Sequential(*parts)(torch.linspace(-1, 1, 6).reshape(2, 3)).sum().backward()
        return graph

    outline = outline_comparison(compare(recorded(0.1), recorded(0.3)))
    labels = {scope["id"]: scope["label"] for scope in outline.description["scopes"]}
    assert sorted(labels[one] for one in outline.settled) == ["0 (Sequential)", "0 (Sequential)"]
    assert outline.settled <= first_folding(outline, 1000).closed
    marked = [node["op"] for node in outline.description["nodes"] if "≠ first difference" in node["label"]]
    assert marked == ["leaky_relu", "leaky_relu"]
    assert outline.description["problems"][0]["text"].endswith("negative_slope 0.1 | 0.3")


def test_two_ops_of_one_line_that_are_swapped_are_told_apart() -> None:
    def gated(port: bool) -> Any:
        gate, up = [data(5, 6) @ w(6, 8, seed=seed) for seed in (3, 4)]
        if port:
            gate, up = up, gate
        return torch.nn.functional.silu(gate) * up

    head = str(compared(gated)).splitlines()[1]
    mine, theirs = head.split(" | ")
    assert mine.startswith("first difference: silu, input matmul (1 of 2) at ")
    assert theirs.startswith("matmul (2 of 2) at ")


def test_an_op_that_is_only_at_the_end_of_one_run_is_before_no_other() -> None:
    def divergence(port: bool) -> Any:
        scores, target = w(4, 6).log_softmax(-1), data(4, 6).softmax(-1)
        return torch.nn.functional.kl_div(scores, target, reduction="sum" if port else "batchmean")

    assert str(compared(divergence)).splitlines()[1] == "first difference: div (loss) only in reference"


def one_step(device: str, eps: float = 1e-5, slope: float = 0.01, added: float = 0.0) -> AutogradGraph:
    """A step of a network in plain torch whose results have more numbers than a graph keeps."""
    torch.manual_seed(0)
    net: Any = torch.nn.Sequential(
        torch.nn.Linear(96, 96),
        torch.nn.LayerNorm(96, eps=eps),
        torch.nn.LeakyReLU(slope),
        torch.nn.Linear(96, 96),
    )
    x = torch.randn(64, 96)
    with torch.no_grad():
        net[3].weight[0, 0] += added
    net, x = net.to(device), x.to(device)
    with AutogradGraph(device) as graph:
        net(x).square().mean().backward()
    return graph


DIFFERENCES = {"layer_norm": {"eps": 1e-2}, "leaky_relu": {"slope": 0.2}}


@pytest.mark.parametrize("op", DIFFERENCES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_without_samples_the_first_difference_is_known_by_its_settings(
    op: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large result on a GPU no number is kept. On the CPU the same is made so."""
    left, same = one_step("cpu"), one_step("cpu")
    monkeypatch.setattr("nbgrad.core.graph.facts.sample_of", lambda _: None)
    right, other = one_step(device), one_step(device, **DIFFERENCES[op])
    assert "judged by inputs and settings" in str(compare(left, right))
    for known in (left, same):
        assert compare(known, right).first is None
        first = compare(known, other).first
        assert (first.left.op.name, first.right.op.name) == (op, op)
        assert first.settings


def test_another_weight_without_samples_is_found_by_its_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    left = one_step("cpu")
    monkeypatch.setattr("nbgrad.core.graph.facts.sample_of", lambda _: None)
    found = compare(left, one_step("cpu", added=3.0))
    assert (found.first.kind, found.first.right.shape) == ("tensor", (96, 96))
    assert found.first.distance.basis == "norms"


def trained(
    lib: Any, steps: Callable[[Any, Any, Any], None], width: int, eps: float, added: float, every: int = 1
) -> AutogradGraph:
    """Training in a graph, so its parameters are others at the end. ``lib`` is torch or nbgrad."""
    torch.manual_seed(0)
    net = lib.nn.Sequential(lib.nn.Linear(width, width), lib.nn.LayerNorm(width, eps=eps), lib.nn.Linear(width, width))
    weight = net[2].weight if lib is torch else net[2].weight.data
    with torch.no_grad():
        weight[0, 0] += added
    x = lib.randn(5, width)
    with AutogradGraph("step", every=every) as graph:
        steps(lib, net, lambda: net(x).square().mean())
    return graph


def by_optimizer(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
    optimizer = lib.optim.SGD(net.parameters(), lr=0.5)
    loss().backward()
    optimizer.step()


def by_many(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
    optimizer = lib.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def by_hand(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
    loss().backward()
    with lib.no_grad():
        for one in net.parameters():
            one -= 0.5 * one.grad


def by_data(_: Any, net: Any, loss: Callable[[], Any]) -> None:
    loss().backward()
    for one in net.parameters():
        one.data -= 0.5 * one.grad


def by_new_data(_: Any, net: Any, loss: Callable[[], Any]) -> None:
    loss().backward()
    for one in net.parameters():
        one.data = one.data - 0.5 * one.grad


def by_numpy(_: Any, net: Any, loss: Callable[[], Any]) -> None:
    loss().backward()
    for one in net.parameters():
        one.detach().numpy()[...] -= 0.5 * one.grad.numpy()


def by_lbfgs(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
    optimizer = lib.optim.LBFGS(net.parameters(), max_iter=1)

    def closure() -> Any:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        return found

    optimizer.step(closure)


def by_hooks(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
    """Each parameter has an optimizer of its own, whose step is a part of the backward."""
    for one in net.parameters():
        own = lib.optim.SGD([one], lr=0.5)
        one.register_post_accumulate_grad_hook(lambda _, own=own: own.step())
    loss().backward()


STEPS = [
    *((lib, steps) for lib in (torch, nbgrad) for steps in (by_optimizer, by_hand, by_data, by_lbfgs, by_hooks)),
    *((torch, steps) for steps in (by_new_data, by_numpy)),
]
"""How a program may change its parameters."""
LIBRARIES = pytest.mark.parametrize("lib", [torch, nbgrad], ids=["torch", "nbgrad"])


@pytest.mark.parametrize("width", [6, 96], ids=["small", "large"])
@pytest.mark.parametrize(("lib", "steps"), STEPS)
def test_a_step_after_the_backward_hides_no_difference(lib: Any, width: int, steps: Any, tmp_path: Path) -> None:
    """The parameters are compared as the backward has seen them: after the step all of them differ."""
    graphs = [trained(lib, steps, width, eps, 0.0) for eps in (1e-5, 1e-5, 1e-2)]
    for at, graph in enumerate(graphs):
        graph.save(tmp_path / f"{at}.nbgrad")
    for same, _, other in (graphs, [nbgrad.load(tmp_path / f"{at}.nbgrad") for at in range(3)]):
        first = compare(same, other).first
        assert (first.kind, first.left.op.name, first.settings) == ("op", "layer_norm", {"eps": (1e-5, 1e-2)})
    assert compare(*graphs[:2]).equal


@LIBRARIES
@pytest.mark.parametrize("width", [6, 96], ids=["small", "large"])
def test_another_weight_is_found_although_a_step_changed_both(lib: Any, width: int) -> None:
    graphs = [trained(lib, by_optimizer, width, 1e-5, added) for added in (0.0, 2.0)]
    first = compare(*graphs).first
    assert (first.kind, first.left.kind, first.left.shape) == ("tensor", "parameter", (width, width))
    assert first.user.op.name == "linear"


@LIBRARIES
@pytest.mark.parametrize("hand", [False, True], ids=["optimizer", "hand"])
def test_steps_that_were_not_recorded_hide_no_difference(lib: Any, hand: bool) -> None:
    """The parameters are compared as the last backward that was recorded has seen them."""

    def steps(lib: Any, net: Any, loss: Callable[[], Any]) -> None:
        optimizer = lib.optim.SGD(net.parameters(), lr=0.0)
        rates = iter([0.0] * 12 + [0.5] * 6)
        while (rate := next(rates, None)) is not None:  # no line says how many there are
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            loss().backward()
            if not hand:
                optimizer.step()
            for one in net.parameters() if hand and rate else ():
                with torch.no_grad():
                    weight = one if lib is torch else one.data
                    weight -= rate * torch.ones(())

    known, same, other = [trained(lib, steps, 96, eps, 0.0, every=10) for eps in (1e-5, 1e-5, 1e-2)]
    assert known.frame.number <= 12 < known.backwards
    assert {one.what for one in known.since.values()} == {"later steps" if hand else "SGD.step()"}
    assert compare(known, same).equal
    assert compare(known, other).first.settings == {"eps": (1e-5, 1e-2)}


@LIBRARIES
def test_after_several_steps_the_parameters_of_the_last_backward_are_compared(lib: Any) -> None:
    same = [trained(lib, by_many, 6, 1e-5, 0.0) for _ in range(2)]
    assert compare(*same).equal
    first = compare(same[0], trained(lib, by_many, 6, 1e-2, 0.0)).first
    assert first.kind == "tensor", "the first steps have parted them"
    text = str(compare(same[0], trained(lib, by_many, 6, 1e-2, 0.0)))
    assert "the last of 3 and of 3 backwards are compared: if steps have parted the parameters" in text
    assert "backwards are compared" not in str(compare(*[trained(lib, by_hand, 6, 1e-5, at) for at in (0.0, 2.0)]))

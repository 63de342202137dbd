"""Two graphs compared: which parts match, which are in one graph only, and how far their numbers differ."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.graph.comparison import Comparison
from nbgrad.core.graph.custom_overlay import names_of
from nbgrad.core.graph.graph import AutogradGraph

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

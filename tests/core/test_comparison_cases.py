"""``compare`` on pairs of programs with one difference each: the first op, in both ways."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import nbgrad
from nbgrad import AutogradGraph, compare


def recorded(program: Callable[[], Any]) -> AutogradGraph:
    torch.manual_seed(0)
    with AutogradGraph("step") as graph:
        program()
    return graph


def attention() -> None:
    q, k, v = nn.Linear(8, 24)(torch.randn(4, 5, 8)).view(4, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    functional.scaled_dot_product_attention(q, k, v).square().mean().backward()


def shared() -> None:
    t = nn.Linear(6, 8)(torch.randn(2, 6, 6))
    functional.scaled_dot_product_attention(t, t, t).square().sum().backward()


def lstm() -> None:
    _, (h, c) = nn.LSTM(6, 5)(torch.randn(4, 2, 6))
    (h * c).sum().backward()


def unbound() -> None:
    a, b = nn.Linear(6, 8)(torch.randn(12, 6)).view(12, 2, 4).unbind(1)
    (a * b).sum().backward()


def unbound_with_ours() -> None:
    a, b = (nbgrad.tensor(torch.randn(4, 2), requires_grad=True) * 2).unbind(1)
    (a * b).sum().backward()


@pytest.mark.parametrize("program", [attention, shared, lstm, unbound, unbound_with_ours])
def test_a_graph_is_equal_to_itself_where_an_op_takes_one_source_twice(program: Callable[[], None]) -> None:
    graph = recorded(program)
    assert compare(graph, graph).equal
    assert compare(graph, recorded(program)).equal


def block(missing: str, at: int) -> Callable[[], None]:
    def run() -> None:
        layers = [(nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)) for _ in range(4)]
        h = torch.randn(4, 8)
        for number, (norm, first, second) in enumerate(layers):
            left_out = missing if number == at else ""
            t = h if left_out == "layer_norm" else norm(h)
            t = first(t) if left_out == "gelu" else functional.gelu(first(t))
            t = second(t)
            h = t if left_out == "add" else h + t
        h.square().mean().backward()

    return run


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("missing", ["add", "layer_norm", "gelu"])
def test_a_missing_op_of_a_residual_net_is_found_from_both_sides(missing: str, at: int) -> None:
    whole, without = recorded(block("", at)), recorded(block(missing, at))
    for left, right, side in ((whole, without, 0), (without, whole, 1)):
        first = compare(left, right).first
        assert first.kind == "extra"
        assert [record.op.name for record in first.parts[side]] == [missing]
        assert not first.parts[1 - side]


def ordered(post: bool, blocks: int) -> Callable[[], None]:
    def run() -> None:
        begin, layers = nn.Linear(6, 8), [(nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(blocks)]
        h = begin(torch.randn(12, 6))
        for norm, linear in layers:
            h = norm(h + linear(h)) if post else h + linear(norm(h))
        nn.Linear(8, 3)(h).square().sum().backward()

    return run


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_another_order_of_ops_has_a_first_difference(blocks: int) -> None:
    for left, right in ((False, True), (True, False)):
        first = compare(recorded(ordered(left, blocks)), recorded(ordered(right, blocks))).first
        assert first is not None
        ops = [record for some in first.parts for record in some] or [first.left]
        assert {record.op.name for record in ops} & {"layer_norm", "linear", "add"}


@pytest.mark.parametrize("make", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_the_statistics_that_a_norm_changes_are_no_inputs(make: Any) -> None:
    def net(training: bool, momentum: float = 0.1) -> Callable[[], None]:
        def run() -> None:
            norm = make(8, momentum=momentum, track_running_stats=True, affine=True)
            x = torch.randn(12, 6) if make is nn.BatchNorm1d else torch.randn(3, 4, 6)
            h = nn.Linear(6, 8)(x)
            norm.train(training)(h if h.dim() == 2 else h.transpose(1, 2)).square().sum().backward()

        return run

    first = compare(recorded(net(True)), recorded(net(False))).first
    assert set(first.settings) & {"training", "use_input_stats"}
    assert compare(recorded(net(True)), recorded(net(True, 0.5))).equal


def tied(tied: bool, clips: bool) -> Callable[[], None]:
    def run() -> None:
        table, head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        head.weight = table.weight if tied else nn.Parameter(table.weight.detach().clone())
        words = torch.arange(10)
        functional.cross_entropy(head(table(words).tanh()), (words + 1) % 11).backward()
        if clips:
            nn.utils.clip_grad_norm_([table.weight, head.weight], 0.1)

    return run


@pytest.mark.parametrize("clips", [False, True], ids=["", "clipped"])
def test_tied_weights_are_no_hook(clips: bool) -> None:
    found = compare(recorded(tied(True, clips)), recorded(tied(False, clips)))
    assert (found.first, found.first_gradient.left.kind) == (None, "parameter")
    assert "shared on one side" in str(found)
    assert "hook" not in str(found)


def test_another_gradient_at_the_root_is_named() -> None:
    def net(factor: float) -> Callable[[], None]:
        linear = nn.Linear(6, 8)
        return lambda: linear(torch.ones(3, 6)).square().mean().backward(torch.tensor(factor))

    torch.manual_seed(0)
    one = recorded(net(1.0))
    torch.manual_seed(0)
    found = compare(one, recorded(net(2.0)))
    assert "begins with another gradient" in str(found)
    assert found.first_gradient.left.root


def test_a_mask_of_infinities_on_both_sides_hides_no_distance() -> None:
    def net(scale: float) -> Callable[[], None]:
        def run() -> None:
            q = nn.Linear(8, 8)(torch.randn(5, 8))
            scores = (q @ q.T * scale).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
            (scores.softmax(-1) @ q).square().mean().backward()

        return run

    found = compare(recorded(net(1.0)), recorded(net(0.5)))
    (filled,) = [pair for pair in found.pairs if pair.left.op is not None and pair.left.op.name == "masked_fill"]
    assert filled.value.relative == pytest.approx(0.5)
    assert found.first.left.op.name == "mul"


def test_a_layer_that_is_used_twice_is_no_other_parameter() -> None:
    def net(twice: bool) -> Callable[[], None]:
        def run() -> None:
            first, second, last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
            h = second(first(torch.randn(5, 6)).tanh()).tanh()
            h = second(h).tanh() if twice else h
            last(h).square().sum().backward()

        return run

    for left in (True, False):
        first = compare(recorded(net(left)), recorded(net(not left))).first
        assert first.kind == "extra"
        assert {record.op.name for some in first.parts for record in some} == {"linear", "tanh"}


def test_other_ops_whose_difference_rounding_swallows_are_named() -> None:
    def net(activation: Any) -> Callable[[], None]:
        def run() -> None:
            net = nn.Sequential(nn.Linear(6, 8), activation(), nn.Linear(8, 3)).bfloat16()
            functional.cross_entropy(net(torch.randn(12, 6).bfloat16()).float(), torch.arange(12) % 3).backward()

        return run

    found = compare(recorded(net(nn.GELU)), recorded(net(nn.SiLU)))
    assert "gelu in" in str(found)
    assert "silu in" in str(found)


def test_numbers_that_were_rounded_on_the_way_are_told_so() -> None:
    def net(cast: bool) -> Callable[[], None]:
        def run() -> None:
            h = nn.Linear(6, 6)(torch.randn(12, 6))
            (h.bfloat16().float() if cast else h).square().sum().backward()

        return run

    text = str(compare(recorded(net(False)), recorded(net(True))))
    assert "types part at square" in text
    assert "float32, but rounded to a shorter type before it on one side" in text


def empty() -> Iterator[AutogradGraph]:
    for name in ("left", "right"):
        with AutogradGraph(name) as graph:
            pass
        yield graph


def test_graphs_without_ops_are_not_equal_but_refused() -> None:
    with pytest.raises(ValueError, match="nothing was recorded in 'left'"):
        compare(*empty())


@pytest.mark.parametrize("ours", [False, True], ids=["torch", "ours"])
@pytest.mark.parametrize(("given", "words"), [(0, "b a tensor | 0"), (3.0, "b a tensor | 3.0"), (2.0, None)])
def test_a_number_in_the_place_of_a_tensor_is_named(ours: bool, given: float, words: str | None) -> None:
    make: Callable[[Any], Any] = nbgrad.tensor if ours else (lambda data: data)

    def net(other: Any) -> Callable[[], None]:
        def run() -> None:
            (make(torch.randn(5, 3)).requires_grad_() + other).square().sum().backward()

        return run

    found = compare(recorded(net(make(torch.full((3,), 2.0)))), recorded(net(given)))
    assert found.equal is (words is None)
    assert words is None or f"first difference: add, {words}" in str(found)

"""When the bytes of a graph live, which ops keep them, and what a checkpoint would save."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import nbgrad
from nbgrad.core.graph.flops import flops_of
from nbgrad.core.graph.memory import MemoryUse


def allocated(run: Callable[[], Any]) -> int:
    """The most bytes that torch had allocated at once, of those that it allocated while ``run`` ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    events = [one for one in profiled.profiler.kineto_results.events() if one.name() == "[memory]"]  # type: ignore[union-attr]
    living = peak = 0
    for one in sorted(events, key=lambda one: one.start_ns()):
        living += one.nbytes()
        peak = max(peak, living)
    return peak


def perceptron() -> tuple[nn.Module, torch.Tensor]:
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    return net, torch.randn(128, 64)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    return net, torch.randn(4, 32, 32)


def used(net: nn.Module, x: torch.Tensor) -> MemoryUse:
    with nbgrad.record(view="none") as graph:
        net(x).pow(2).mean().backward()
    net.zero_grad()
    return graph.memory


@pytest.mark.parametrize("make", [perceptron, transformer], ids=lambda make: make.__name__)
def test_the_peak_is_the_one_that_torch_measures(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> None:
    net, x = make()
    net(x).pow(2).mean().backward()  # what is made once is there
    net.zero_grad()
    measured = allocated(lambda: net(x).pow(2).mean().backward())
    net.zero_grad()
    memory = used(net, x)
    given = sum(one.size for one in memory.storages if one.maker is None)  # it existed before
    changing = [one.gradients + one.activations + one.others - given for one in memory.timeline]
    assert 0.95 * measured <= max(changing) <= 1.01 * measured  # what a kernel needs inside is not computed


def test_the_moments_say_what_lives() -> None:
    net = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=False))
    memory = used(net, torch.randn(3, 4))
    timeline = memory.timeline
    assert [(one.op, one.backward) for one in timeline] == [
        *((name, False) for name in ("linear", "tanh", "linear", "pow", "mean")),
        *((name, True) for name in ("mean", "pow", "linear", "tanh", "linear")),
    ]
    assert {one.parameters for one in timeline} == {(4 * 8 + 8 * 2) * 4}
    assert [one.activations for one in timeline] == [0, 96, 120, 120, 120, 120, 120, 96, 96, 0]
    # The batch, and the results that no op keeps: of linear until tanh has run, of pow until mean has, and the loss.
    assert [one.others for one in timeline] == [48 + 96, 48 + 96, 48, 48 + 24, 48 + 24 + 4, *[48] * 5]
    assert timeline[-1].gradients == (4 * 8 + 8 * 2) * 4 + 96
    assert memory.peak == max(one.total for one in timeline)
    assert memory.timeline.peak is not None
    assert memory.timeline.peak.total == memory.peak


def test_a_gradient_that_is_added_up_is_held_from_the_start() -> None:
    net, x = nn.Linear(4, 8, bias=False), torch.randn(3, 4)
    with nbgrad.record(view="none") as graph:
        net(x).sum().backward()
        net(x).sum().backward()
    assert graph.memory.timeline[0].gradients == 4 * 8 * 4


def test_what_an_optimizer_holds_is_counted() -> None:
    net, x = nn.Linear(4, 8, bias=False), torch.randn(3, 4)
    optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)
    with nbgrad.record(view="none") as graph:
        for _ in range(2):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
    assert {one.optimizer for one in graph.memory.timeline} == {4 * 8 * 4}


def test_the_ranking_adds_up_to_the_total() -> None:
    net, x = transformer()
    memory = used(net, x)
    ranked = memory.ranked()
    assert sum(one.size for one in ranked) == memory.total
    assert [one.size for one in ranked] == sorted([one.size for one in ranked], reverse=True)
    first = ranked[0]
    assert first.op == "scaled_dot_product_attention"
    assert first.module.endswith("self_attn (MultiheadAttention)")
    assert first.line is not None
    assert "net(x).pow(2).mean().backward()" in first.line
    assert str(ranked).splitlines()[0].split() == ["bytes", "share", "op", "module", "line"]


class Blocks(nn.Module):
    """Blocks, some of them checkpointed."""

    def __init__(self, *blocks: nn.Module, inside: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for at, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if at in self.inside else block(x)
        return x


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_checkpoint_saves_what_was_computed(at: int) -> None:
    blocks = [
        nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8), nn.ReLU()),
        nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)),
        nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 8)),
    ]
    x = torch.randn(16, 8)
    plain = used(Blocks(*blocks), x)
    saved = {one.module: one.saves for one in plain.checkpointing()}
    after = used(Blocks(*blocks, inside=frozenset({at})), x)
    assert saved[f"Blocks > blocks.{at} (Sequential)"] == plain.total - after.total > 0


def test_a_checkpoint_repeats_a_part_of_the_forward() -> None:
    net = Blocks(nn.Sequential(nn.Linear(8, 32), nn.Tanh()), nn.Sequential(nn.Linear(32, 8), nn.Tanh()))
    found = used(net, torch.randn(16, 8)).checkpointing()
    assert [(one.module, one.flops) for one in found] == [
        ("Blocks", 4 * 16 * 8 * 32),
        # The result of the first block stays, since the second one takes it.
    ]
    assert found[0].flops_share == 1.0
    assert found[0].seconds is None
    assert str(found).splitlines()[0].split() == ["saves", "share", "repeats", "FLOPs", "module"]


@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("dialect", "packed"),
    [(torch.nn, False), (torch.nn, True), (nbgrad.nn, False)],
    ids=["torch", "torch, packed", "ours"],
)
def test_the_operations_of_a_recurrent_layer(dialect: Any, kind: str, settings: dict[str, Any], packed: bool) -> None:
    """Each vector of the input meets each matrix once."""
    net, x = getattr(dialect, kind)(8, 16, batch_first=True, **settings), torch.randn(4, 5, 8)
    given: Any = x if dialect is torch.nn else nbgrad.tensor(x)
    vectors = 20
    if packed:
        given, vectors = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2, 1]), batch_first=True), 11
    with nbgrad.record(view="none") as graph:
        result = net(given)[0]
        (result.data if packed else result).sum().backward()
    numbers = sum(weight.numel() for weight in net.parameters() if weight.ndim == 2)
    assert sum(flops or 0 for flops in flops_of(list(graph.records)).values()) == 2 * vectors * numbers


def test_with_a_clock_the_repeated_time_is_known() -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(8, 32), nbgrad.nn.Tanh(), nbgrad.nn.Linear(32, 8))
    x = nbgrad.randn(16, 8)
    with nbgrad.record(view="none", time=True) as graph:
        (net(x) ** 2).mean().backward()
    (found,) = [one for one in graph.memory.checkpointing() if one.module == "Sequential"]
    assert found.seconds is not None
    assert found.seconds > 0
    assert found.seconds_share is not None
    assert 0 < found.seconds_share < 1


def test_it_prints_a_line_with_its_peak() -> None:
    net, x = perceptron()
    timeline = used(net, x).timeline
    line, words = str(timeline).splitlines()
    assert len(line) == len(timeline) == 14
    assert "█" in line
    assert words.startswith("7 ops forward, 7 backward; peak ")
    assert "parameters 33" in words
    assert len(used(*transformer()).timeline.line) == 48


def test_a_graph_without_ops_has_no_memory() -> None:
    with nbgrad.record(view="none") as graph:
        pass
    with pytest.raises(RuntimeError, match="does not know what its ops kept"):
        graph.memory  # noqa: B018

"""Graphs of tensors on the meta device and of ``FakeTensorMode``: as those of real tensors, without their numbers."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import nbgrad
from nbgrad.core.engine.tensor_data import without_numbers
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.flops import flops_of
from nbgrad.core.graph.graph import AutogradGraph

Around = Callable[[], AbstractContextManager[Any]]


def meta() -> AbstractContextManager[Any]:
    return torch.device("meta")


WITHOUT = [meta, FakeTensorMode]
DIALECTS = [torch, nbgrad]


def decoder(of: Any, *, kernel: bool = False) -> Any:
    """A small transformer of four layers, whose attention is single ops or one ``kernel``."""
    nn = of.nn

    class Block(nn.Module):  # type: ignore[misc]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def attend(self, q: Any, k: Any, v: Any) -> Any:
            if kernel:
                return nn.functional.scaled_dot_product_attention(q, k, v, None, 0.0, True)
            return ((q @ k.transpose(-1, -2)) / 8**0.5).softmax(-1) @ v

        def forward(self, x: Any) -> Any:
            batch, time, size = x.shape
            parts = self.qkv(self.first(x)).view(batch, time, 3, 2, 8).permute(2, 0, 3, 1, 4)
            found = self.attend(parts[0], parts[1], parts[2]).transpose(1, 2).reshape(batch, time, size)
            x = x + self.out(found)
            return x + self.mlp(self.second(x))

    class Decoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 16)
            self.blocks = nn.ModuleList([Block() for _ in range(4)])
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x: Any) -> Any:
            x = self.words(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x).flatten(0, 1)

    words, targets = of.randint(0, 20, (2, 6)), of.randint(0, 20, (12,))
    return Decoder(), words, lambda found: nn.functional.cross_entropy(found, targets)


def fused(of: Any) -> Any:
    return decoder(of, kernel=True)


def convolution(of: Any) -> Any:
    nn = of.nn
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1), nn.Flatten()),
        nn.Linear(8 * 7 * 7, 10),
    )
    targets = of.randint(0, 5, (4,))
    return net, of.randn(4, 3, 16, 16), lambda found: nn.functional.cross_entropy(found, targets)


def recurrence(of: Any) -> Any:
    """A loop that changes its state in place."""
    cell = of.nn.Linear(8, 8)

    def run(x: Any) -> Any:
        for _ in range(3):
            x = (cell(x) + x).tanh()
            x = x - x.mean(-1, keepdim=True)
            x[:, 0] = 0
            x.mul_(2.0)
        return x.softmax(-1)

    run.parameters = cell.parameters  # type: ignore[attr-defined]
    return run, of.randn(4, 8), lambda found: (found * found).sum()


def recorded(of: Any, make: Callable[[Any], Any], around: Around, **options: Any) -> AutogradGraph:
    """The graph of two steps of a training inside of ``around``."""
    torch.manual_seed(0)
    with around():
        net, x, loss_of = make(of)
        optimizer = of.optim.AdamW(net.parameters(), lr=1e-3)
        with nbgrad.record(view="none", every=1, **options) as graph:
            for _ in range(2):
                optimizer.zero_grad()
                loss_of(net(x)).backward()
                optimizer.step()
    assert graph.fault is None
    return graph


def structure(graph: AutogradGraph) -> list[Any]:
    """The ops with their shapes, types, settings, lines, edges and operations."""
    places = {record.id: at for at, record in enumerate(graph.records)}
    flops = flops_of(graph.records)
    return [
        (
            *(
                record.kind,
                record.kind_or_op,
                record.full_name,
                record.shape,
                record.dtype,
                record.root,
                str(record.place),
            ),
            *(str(record.settings), [places[one] for one in record.sources], flops.get(record.id)),
        )
        for record in graph.records
    ]


def memory(graph: AutogradGraph) -> dict[str, Any]:
    """The values that ops keep, when they live, and how much checkpoints would save."""
    places, used = {record.id: at for at, record in enumerate(graph.records)}, graph.memory
    storages = [
        (one.size, places.get(one.maker or 0), [places[keeper] for keeper in one.keepers]) for one in used.storages
    ]
    timeline = [one._replace(id=places[one.id]) for one in used.timeline]
    return {
        "storages": storages,
        "timeline": timeline,
        "totals": (used.total, used.peak, used.optimizer, used.whole),
        "checkpoints": list(used.checkpointing()),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("around", WITHOUT, ids=lambda one: one.__name__)
@pytest.mark.parametrize("make", [decoder, convolution, recurrence], ids=lambda one: one.__name__)
@pytest.mark.parametrize("of", DIALECTS, ids=lambda one: one.__name__)
def test_the_graph_is_that_of_real_tensors(of: Any, make: Callable[[Any], Any], around: Around) -> None:
    real, without = recorded(of, make, nullcontext), recorded(of, make, around)
    assert structure(without) == structure(real)
    assert memory(without) == memory(real)
    assert None not in flops_of(without.records).values()
    assert [one.value for one in without.losses] == [None, None]
    assert all(one.value is None and one.gradient is None for one in without.records)
    assert without.findings() == real.findings() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("of", DIALECTS, ids=lambda one: one.__name__)
def test_in_fake_tensor_mode_the_attention_is_the_kernel_of_the_processor(of: Any) -> None:
    real, fake = recorded(of, fused, nullcontext), recorded(of, fused, FakeTensorMode)
    assert structure(fake) == structure(real)
    assert memory(fake) == memory(real)


def test_on_meta_torch_keeps_the_weights_of_the_attention() -> None:
    real, without = recorded(torch, fused, nullcontext), recorded(torch, fused, meta)
    assert structure(without) == structure(real)
    rest = [[one._replace(id=0, activations=0, others=0) for one in graph.memory.timeline] for graph in (real, without)]
    assert rest[0] == rest[1]
    assert without.memory.total > real.memory.total


@pytest.mark.parametrize("around", WITHOUT, ids=lambda one: one.__name__)
@pytest.mark.parametrize("of", DIALECTS, ids=lambda one: one.__name__)
def test_the_checkup_and_the_picture_say_that_there_are_no_numbers(of: Any, around: Around, tmp_path: Any) -> None:
    graph = recorded(of, convolution, around)
    what = "tensors on the meta device" if around is meta else "tensors of FakeTensorMode"
    said = {one.name: one.missing for one in graph.checkup() if f"{what} have no numbers" in one.missing}
    assert list(said) == [
        *("finite numbers", "sizes of gradients", "activations", "steps", "progress of the loss"),
        *("losses and targets", "input data"),
    ]
    assert graph.checkup()["finite numbers"].state == graph.checkup()["progress of the loss"].state == "not judged"
    assert graph.checkup()["paths of gradients"].looked == "6 parameters got a gradient"
    saved = tmp_path / "graph.nbgrad"
    graph.save(saved)
    for one in (graph, nbgrad.load(saved)):
        one.save(tmp_path / "graph.txt")
        text = (tmp_path / "graph.txt").read_text(encoding="utf-8")
        assert text.count("have no numbers") == 1
        assert f"Note: {what[0].upper()}{what[1:]} have no numbers, so values, gradients and losses" in text
        one.save(tmp_path / "graph.svg")


@pytest.mark.parametrize("around", WITHOUT, ids=lambda one: one.__name__)
@pytest.mark.parametrize("of", DIALECTS, ids=lambda one: one.__name__)
def test_an_anomaly_is_not_looked_for_where_there_are_no_numbers(of: Any, around: Around) -> None:
    assert recorded(of, convolution, around, anomaly=True).findings() == []


@pytest.mark.parametrize("around", WITHOUT, ids=lambda one: one.__name__)
def test_times_are_not_those_of_kernels(around: Around, tmp_path: Any) -> None:
    recorded(torch, convolution, around, time=True).save(tmp_path / "graph.txt")
    assert "no kernel ran" in (tmp_path / "graph.txt").read_text(encoding="utf-8")


def test_real_tensors_keep_their_numbers_beside_those_without() -> None:
    real, x = torch.nn.Linear(300, 4), torch.randn(5, 300)
    with torch.device("meta"):
        other, y = torch.nn.Linear(300, 4), torch.randn(5, 300)
        with nbgrad.record(view="none", every=1) as graph:
            other(y).sum().backward()
            real(x).sum().backward()
    assert [one.value is None for one in graph.losses] == [True, False]
    weight = graph.record(real.weight)
    assert weight.gradient is not None
    assert weight.value is not None
    assert weight.gradient.norm == pytest.approx(real.weight.grad.norm().item())  # type: ignore[union-attr]
    assert weight.value.norm == pytest.approx(real.weight.norm().item())


def test_real_tensors_in_fake_tensor_mode() -> None:
    real, x = torch.nn.Linear(300, 4), torch.randn(5, 300)
    with FakeTensorMode(allow_non_fake_inputs=True):
        last = torch.nn.Linear(4, 1)
        with nbgrad.record(view="none") as graph:
            last(real(x)).sum().backward()
    assert graph.fault is None
    assert [one.kind_or_op for one in graph.records if one.kind == "op"] == ["linear", "linear", "sum"]
    assert "tensors of FakeTensorMode have no numbers" in graph.checkup()["finite numbers"].missing


@pytest.mark.parametrize("of", DIALECTS, ids=lambda one: one.__name__)
def test_the_timeline_needs_no_watching(of: Any) -> None:
    watched = recorded(of, decoder, nullcontext).memory.timeline
    unwatched = recorded(of, decoder, nullcontext, watch=False).memory.timeline
    assert [one[2:] for one in unwatched] == [one[2:] for one in watched]


@pytest.mark.filterwarnings("error")
def test_no_warning_of_torch_about_fake_memory() -> None:
    with FakeTensorMode():
        net = nbgrad.nn.Linear(3, 4)
        with nbgrad.record(view="none") as graph:
            net(nbgrad.randn(2, 3)).sum().backward()
    assert len(graph.records) == 5


def test_a_tensor_whose_memory_was_freed_is_not_read() -> None:
    w = torch.ones(3, 4)
    w.untyped_storage().resize_(0)  # as FSDP does with gathered parameters; to read it ends the process
    assert without_numbers(w)
    assert not without_numbers(torch.ones(0, 4))
    assert nonfinite.finite(w)
    assert not nonfinite.holds("nan", w)

"""No question to a graph makes a temporary tensor as large as a large tensor: torch's own allocator counts.

The pieces are small here, so that the large tensors need not be very large.
"""

import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import nbgrad
from nbgrad.core.backend import chunks
from nbgrad.core.graph import nonfinite, stats
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.stats import norms
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.export import save
from nbgrad.widgets import tensor_lookup
from nbgrad.widgets.describe import describe
from nbgrad.widgets.render.text import text
from nbgrad.widgets.tensor_lookup import Holdings
from tests.allocations import python_peak, torch_blocks
from tests.core.whole import check_finite, check_statistics

SIDE = 1024
COUNT = SIDE * SIDE
LEAST = COUNT // 2
"""Blocks of at least this many bytes count as large: half a mask, which has one byte for each number."""

PIECE = 1 << 14


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((chunks, "PIECE"), (nonfinite, "PIECE"), (stats, "_AT_ONCE"), (stats, "SAMPLE"), (stats, "BINNED")):
        monkeypatch.setattr(module, name, PIECE)
    monkeypatch.setattr(tensor_lookup, "_TOGETHER", PIECE)
    save_every_kind(small_graph())  # what is imported at the first use is not counted


def small_graph() -> AutogradGraph:
    w = nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
    with AutogradGraph() as graph:
        (w * w).sum().backward()
    return graph


def save_every_kind(graph: AutogradGraph) -> None:
    text(describe(graph))
    repr(graph.history)


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128]

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda data: data,
    "transposed": lambda data: data.t(),
    "every second": lambda data: torch.stack([data, data], 2)[:, :, 1],
    "expanded": lambda data: data[:1].expand(SIDE, SIDE),
    "4 dimensions": lambda data: data.reshape(8, 128, 8, 128).permute(2, 0, 3, 1),
    "conjugate": lambda data: data.conj(),
    "negative": lambda data: torch.complex(data, data).conj().imag if data.dtype is torch.float32 else -data,
}


def large(dtype: torch.dtype, layout: str, what: str) -> torch.Tensor:
    data = torch.arange(COUNT).remainder(97).reshape(SIDE, SIDE).to(dtype) / 16
    if what == "mixed":
        data[300, 5:9] = torch.tensor([math.nan, math.inf, -math.inf, math.nan]).to(dtype)
    return LAYOUTS[layout](data)


def nothing_large(run: Callable[[], object]) -> None:
    assert torch_blocks(run, least=LEAST) == []


@pytest.mark.parametrize("number", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_exact_norm_of_a_few_numbers_takes_little_memory(dtype: torch.dtype, number: float) -> None:
    data = torch.full((5, 4), number, dtype=dtype)
    assert torch_blocks(lambda: norms({1: data}), least=1 << 12) == []


KINDS = [*[(dtype, "contiguous") for dtype in DTYPES], *[(torch.float32, layout) for layout in LAYOUTS]]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", ["finite", "mixed"])
@pytest.mark.parametrize(("dtype", "layout"), KINDS, ids=str)
def test_statistics_and_checks_are_worked_out_in_pieces(dtype: torch.dtype, layout: str, what: str) -> None:
    data = large(dtype, layout, what)
    nothing_large(lambda: every_question(data))


def every_question(data: torch.Tensor) -> None:
    """All questions about the numbers of a tensor."""
    stats.summarise(data)
    if data.dtype.is_floating_point or data.dtype.is_complex:
        stats.norms({0: data})
    nonfinite.finite(data)
    nonfinite.summary("x", data)
    for kind in ("nan", "inf"):
        nonfinite.holds(kind, data)
        nonfinite.count(kind, data)
    nonfinite.unmeant(data)
    tensor_lookup.shown("n0", "value", data)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "4 dimensions"])
def test_numpy_makes_no_copy_either(layout: str) -> None:
    data = large(torch.bfloat16, layout, "mixed")
    assert python_peak(lambda: every_question(data)) < COUNT


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", ["finite", "mixed"])
@pytest.mark.parametrize(("dtype", "layout"), KINDS, ids=str)
def test_they_are_those_of_the_whole(dtype: torch.dtype, layout: str, what: str) -> None:
    data = large(dtype, layout, what)
    check_statistics(data)
    check_finite(data)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool], ids=str)
def test_so_are_those_of_whole_numbers(dtype: torch.dtype) -> None:
    data = torch.arange(COUNT).remainder(97).reshape(SIDE, SIDE).to(dtype)
    nothing_large(lambda: every_question(data))
    found = stats.summarise(data)
    assert (found.low, found.high, found.nan, found.inf) == (float(data.min()), float(data.max()), 0, 0)
    assert found.mean == pytest.approx(float(data.double().mean()), rel=1e-12)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7])
def test_pieces_have_each_element_once_and_in_order(size: int) -> None:
    data = torch.arange(size)
    assert torch.cat([data[:0], *chunks.pieces(data)]).equal(data)
    for shape in ((-1, 1), (1, -1), (1, 1, -1)):
        assert torch.cat([data[:0], *[one.reshape(-1) for one in chunks.pieces(data.reshape(shape))]]).equal(data)
    for wide in (data.expand(3, size), data.reshape(-1, 1).expand(size, 3), torch.arange(6 * size).reshape(3, 2, -1)):
        for turned in (wide, wide.transpose(0, -1)):
            found = list(chunks.pieces(turned))
            assert all(0 < one.numel() <= PIECE for one in found)
            assert len(found) <= 4 * turned.numel() / PIECE + 1
            assert torch.cat([data[:0], *[one.reshape(-1) for one in found]]).equal(turned.reshape(-1))


# A graph, with each of its options.

GRAPHS: dict[str, Callable[[], AutogradGraph]] = {
    "unwatched": lambda: AutogradGraph(watch=False, budget=1 << 14),
    "no budget": lambda: AutogradGraph(budget=0),
    "timed": lambda: TimedGraph(budget=0),
    "watched": AutogradGraph,
    "no history": lambda: AutogradGraph(history=0, budget=0),
}


def multiplied(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    (w * factor).sum().backward()


def twice(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    for _ in range(2):
        (w * factor + w).sum().backward()


def several_results(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    first, second = (w * factor).chunk(2)
    (first * second).sum().backward()


def used_frozen(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    frozen = nbgrad.nn.Parameter(factor.data, requires_grad=False)
    (frozen + 1).sum()
    (w * 2).sum().backward()


def changed_in_place(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    (w * factor).sum().backward()
    w.data.mul_(2)
    w.grad.data.mul_(0.5)


def stepped(w: nbgrad.Tensor, factor: nbgrad.Tensor) -> None:
    optimizer = nbgrad.optim.SGD([w], lr=0.1)
    (w * factor).sum().backward()
    optimizer.step()


PROGRAMS = [multiplied, twice, several_results, used_frozen, changed_in_place, stepped]


def inputs(dtype: torch.dtype, what: str) -> tuple[nbgrad.Tensor, nbgrad.Tensor]:
    w = nbgrad.tensor(large(dtype, "contiguous", what), requires_grad=True)
    return w, nbgrad.tensor(large(dtype, "contiguous", what).flip(0))


CASES = [
    *[(program, "no budget", torch.bfloat16, "mixed") for program in PROGRAMS],
    *[(twice, graph, torch.float32, "finite") for graph in GRAPHS],
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("program", "graph", "dtype", "what"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_a_graph_makes_no_large_tensor(
    program: Callable[..., None], graph: str, dtype: torch.dtype, what: str, tmp_path: Path
) -> None:
    w, factor = inputs(dtype, what)
    bare = torch_blocks(lambda: program(w, factor), least=LEAST)
    w, factor = inputs(dtype, what)
    recorded, end = GRAPHS[graph](), ExitStack()
    end.enter_context(recorded)
    within = torch_blocks(lambda: program(w, factor), least=LEAST)
    assert len(within) == len(bare)
    nothing_large(lambda: ask(recorded, tmp_path))
    assert torch_blocks(end.close, least=LEAST) == []
    nothing_large(lambda: ask(recorded, tmp_path))


def ask(graph: AutogradGraph, folder: Path) -> None:
    """All questions to a graph."""
    described = describe(graph)
    text(described)
    for suffix in ("txt", "json"):
        save(graph, folder / f"graph.{suffix}")
    repr(graph)
    repr(graph.records)
    for record in graph.records:
        repr((record.value, record.gradient, record.inputs, record.name))
    repr((list(graph.history), graph.since, graph.update, graph.frame))
    facts = Evidence(graph)
    repr((graph.unreached(), graph.unheld(), facts.spoiled(), facts.idle_step(), facts.unstepped(), facts.rate()))
    holdings = Holdings(graph)
    for at in range(len(graph.records)):
        holdings.numbers(f"n{at}", "value")
        holdings.numbers(f"n{at}", "gradient")


def log_of(w: nbgrad.Tensor) -> None:
    w.log()


def squared(w: nbgrad.Tensor) -> None:
    w.square()


def rooted(w: nbgrad.Tensor) -> None:
    w.abs().sqrt().sum().backward()


def summed(w: nbgrad.Tensor) -> None:
    w.exp().sum()


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "4 dimensions"])
@pytest.mark.parametrize(
    ("program", "value", "said"),
    [
        (log_of, -1.0, "log of a negative number: w[{at}] = -1.0"),
        (squared, 1e25, "overflow: pow(1e+25, 2)"),
        (rooted, 0.0, "the slope of the square root is infinite at 0"),
        (summed, 100.0, "overflow: exp(100.0)"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_detect_anomaly_looks_at_what_is_around_a_bad_number(
    program: Callable[..., None], value: float, said: str, layout: str
) -> None:
    data = LAYOUTS[layout](torch.ones(SIDE, SIDE))
    at = tuple(size * 3 // 4 for size in data.shape)
    data[at] = value
    w = nbgrad.tensor(data, requires_grad=True)
    w.name = "w"
    assert w.data.stride() == data.stride()
    bare = torch_blocks(lambda: program(w), least=LEAST)
    w.grad = None
    messages: list[str] = []

    def run() -> None:
        with nbgrad.detect_anomaly(), pytest.raises(nbgrad.AnomalyError) as caught:
            program(w)
        messages.append(str(caught.value))

    assert len(torch_blocks(run, least=LEAST)) <= len(bare)
    assert said.format(at=", ".join(map(str, at))) in messages[0]
    assert nonfinite.spot("", at) in messages[0]


def test_a_value_in_bfloat16_with_a_nan_takes_a_few_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = torch.ones(1 << 24, dtype=torch.bfloat16)
    data[77] = math.nan
    assert max(torch_blocks(lambda: stats.summarise(data), least=1)) <= 8 * chunks.PIECE
    assert max(torch_blocks(lambda: stats.norms({0: data}), least=1)) <= 8 * chunks.PIECE


CLOSING = """
import sys
import torch
import nbgrad


def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


def step(count, *, record, watch):
    w = torch.nn.Parameter(torch.ones(count, dtype=getattr(torch, sys.argv[1])))
    w.data[5] = float(sys.argv[2])
    before = peak()
    if record:
        with nbgrad.AutogradGraph(budget=1 << 20, watch=watch) as graph:
            w.sum().backward()
        [(one.value, one.gradient, one.inputs, one.since) for one in graph.records]
        str(graph)
        graph.findings()
    else:
        w.sum().backward()
    return peak() - before


count = (128 << 20) // getattr(torch, sys.argv[1]).itemsize
for how in ("plain", "watched", "unwatched"):
    step(10, record=how != "plain", watch=how == "watched")
for how in ("plain", "watched", "unwatched"):
    print(step(count, record=how != "plain", watch=how == "watched"))
"""


@pytest.mark.rotated(6)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not say how much memory was used")
@pytest.mark.parametrize(("dtype", "number"), [("float32", "nan"), ("bfloat16", "1"), ("bfloat16", "nan")])
def test_a_process_grows_by_no_more_than_pieces_when_a_graph_closes(dtype: str, number: str) -> None:
    """The blocks of each piece are small, but the memory between them may be lost to the process."""
    command = [sys.executable, "-c", CLOSING, dtype, number]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plain, watched, unwatched = map(int, done.stdout.split())
    assert plain >= 120, "the gradient of 128 MiB"
    assert watched <= 32, "so much more than the plain step needed"
    assert unwatched <= 32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("more", [0, 17])
def test_a_norm_in_pieces_is_that_of_the_whole(dtype: torch.dtype, more: int) -> None:
    torch.manual_seed(0)
    data = torch.randn(3 * PIECE + more, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)
    whole = torch.linalg.vector_norm(data, dtype=torch.promote_types(dtype, torch.float64)).item()
    for wide in (stats._own_precision(dtype), torch.float64):
        part = 1e-12 if wide is torch.float64 and dtype is not torch.complex64 else 1e-6  # magnitudes are rounded
        assert stats._norm(data, wide).item() == pytest.approx(whole, rel=part, abs=0)

"""The ops inside of functions that ``torch.compile`` has compiled, with ``inside_compiled``."""

import gc
import json
import subprocess
import sys
import threading
import weakref
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo import convert_frame
from torch._dynamo.output_graph import OutputGraph
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import nbgrad
from nbgrad.core.compilation import compiled
from nbgrad.core.engine.state import current
from nbgrad.core.graph.compilation import CompiledGraph, expanded
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.rerun import Rerun, RerunError
from nbgrad.run.report import report
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.describe_comparison import outline_comparison
from nbgrad.widgets.folding.apply import asked, fold
from nbgrad.widgets.tensor_lookup import Holdings

HOOKS: list[tuple[Any, str]] = [(OutputGraph, "call_user_compiler"), (convert_frame, "_compile")]

pytestmark = pytest.mark.filterwarnings(
    "ignore:Dynamo does not know how to trace the builtin"
)  # of the frames of a core that is not compiled


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """The compiler forgets what other tests compiled; and a graph leaves its functions as they were."""
    before = [vars(owner)[name] for owner, name in HOOKS]
    torch._dynamo.reset()
    yield
    assert [vars(owner)[name] for owner, name in HOOKS] == before
    assert current().observers == ()
    torch._dynamo.reset()


class Net(nn.Module):
    """Two layers, the second of which runs twice, and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result for a batch of 3 numbers."""
        hidden = torch.relu(self.first(x))
        inner = self.blocks[0](hidden)
        return self.blocks[1](self.blocks[1](inner)) + hidden  # type: ignore[no-any-return]


class Broken(nn.Module):
    """A module whose forward the compiler cannot trace as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result for a batch of 3 numbers."""
        hidden = self.first(x).tanh()
        torch._dynamo.graph_break()
        return self.last(hidden)  # type: ignore[no-any-return]


def ops(graph: Any) -> list[str]:
    """The ops of the graph."""
    return [record.op.name for record in graph.records if record.op is not None]


def inside(graph: Any, at: int = 0) -> list[Record]:
    """The ops in one of the compiled graphs."""
    return list(graph.inside(graph.compilation.graphs[at].id))


def sources(records: list[Record]) -> list[list[int | None]]:
    """For each input, which of the ``records`` it is."""
    places: dict[int | None, int] = {record.id: at for at, record in enumerate(records)}
    return [[places.get(one.source) for one in record.inputs] for record in records]


def names(records: list[Record]) -> list[str]:
    return [record.kind_or_op for record in records]


def path(record: Record) -> tuple[str, ...]:
    return () if record.scope is None else record.scope.path()


def recorded(run: Callable[..., Any], *args: Any, **options: Any) -> AutogradGraph:
    """The graph of one step."""
    with nbgrad.record(view="none", inside_compiled=True, **options) as graph:
        run(*args).sum().backward()
    assert graph.fault is None
    return graph


# --- what is inside --------------------------------------------------------------------------------------------------


def compiled_in_place(net: nn.Module, backend: str) -> nn.Module:
    """The module, which compiles itself."""
    net.compile(backend=backend)
    return net


def of_a_function(net: nn.Module, backend: str) -> Callable[..., Any]:
    """A function that calls the module."""

    @torch.compile(backend=backend)
    def run(x: torch.Tensor) -> Any:
        return net(x)

    return run


def nested(net: nn.Module, backend: str) -> Callable[..., Any]:
    """A compiled function that calls a compiled module."""
    return of_a_function(torch.compile(net, backend=backend), backend)  # type: ignore[arg-type]


WAYS: dict[str, Callable[[nn.Module, str], Any]] = {
    "torch.compile of a module": lambda net, backend: torch.compile(net, backend=backend),
    "the compile of a module": compiled_in_place,
    "a decorated function": of_a_function,
    "fullgraph": lambda net, backend: torch.compile(net, backend=backend, fullgraph=True),
    "dynamic": lambda net, backend: torch.compile(net, backend=backend, dynamic=True),
    "one compiled function in another": nested,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", WAYS)
def test_the_ops_of_a_compiled_model_are_those_that_the_compiler_traced(way: str, backend: str) -> None:
    torch.manual_seed(0)
    net = Net()
    graph = recorded(WAYS[way](net, backend), torch.randn(5, 3))
    assert ops(graph) == ["CompiledFunction", "sum"]
    (found_one,) = graph.compilation.graphs
    assert (found_one.backend, found_one.ended, graph.compilation.traced) == (backend, None, 1)
    found = inside(graph)
    assert names(found) == ["linear", "relu", "linear", "tanh", "linear", "linear", "add"]
    assert {record.shape for record in found} == {(5, 4)}
    assert {record.dtype for record in found} == {torch.float32}
    own = path(found[1])
    assert own[-1] in {f"compiled by {backend}", "Net", "_orig_mod (Net)"}
    assert [path(record) for record in found] == [
        (*own, *inner)
        for inner in (
            *(("first (Linear)",), (), ("blocks.0 (Sequential)", "0 (Linear)"), ("blocks.0 (Sequential)", "1 (Tanh)")),
            *(("blocks.1 (Linear)",), ("blocks.1 (Linear)",), ()),
        )
    ]
    assert found[4].scope is not found[5].scope  # two calls
    lines = [record.place.text if record.place is not None else "" for record in found]
    assert lines[0] == lines[1] == "hidden = torch.relu(self.first(x))"
    assert lines[-1].startswith("return self.blocks[1]")
    assert {record.file for record in found} == {__file__}


def test_the_inputs_inside_lead_from_the_parameters_to_the_result() -> None:
    net = Net()
    graph = recorded(torch.compile(net, backend="aot_eager"), torch.randn(5, 3))
    drawn = expanded(graph.records)
    by_id = {record.id: record for record in drawn}
    places = {record.id: place for place, record in enumerate(drawn)}
    assert len(by_id) == len(drawn)
    assert all(places[source] < places[record.id] for record in drawn for source in record.sources)
    first, _, inner, *_, added = inside(graph)
    weight, bias = (by_id[source] for source in first.sources[1:])
    assert (weight.kind, weight.name, weight.full_name) == ("parameter", "weight", "_orig_mod.first.weight")
    assert bias.name == "bias"
    assert path(weight) == path(first)
    assert [one.name for one in inner.inputs] == ["input", "weight", "bias"]
    whole = by_id[graph.compilation.graphs[0].id]
    assert whole.sources == (added.id,)
    assert [record.name for record in graph.records if record.kind == "parameter"][:1] == ["first.weight"]


def test_only_what_was_measured_has_numbers() -> None:
    net = Net()
    graph = recorded(torch.compile(net, backend="aot_eager"), torch.randn(5, 3))
    found = inside(graph)
    assert all(record.value is None and record.gradient is None for record in found)
    weight, hidden = found[0].inputs[1].gradient, found[2].inputs[0].gradient
    assert net.first.weight.grad is not None
    assert weight is not None
    assert weight.norm == pytest.approx(net.first.weight.grad.norm().item())
    assert hidden is None
    shared = found[4].inputs[1]  # of two uses only the sum of the gradients is known
    assert shared.gradient is None
    whole = next(record for record in graph.records if record.id == graph.compilation.graphs[0].id)
    assert whole.value is not None
    assert whole.gradient is not None
    described = describe(graph)
    linear = next(node for node in described["nodes"] if node["op"] == "linear")
    (row,) = [row["text"] for row in linear["details"] if row["term"] == "value"]
    assert row.startswith("not recorded")
    ids = {node["id"]: node for node in described["nodes"]}
    edges = [edge for edge in described["edges"] if ids[edge["target"]]["op"] == "tanh"]
    assert [edge["gradient"] for edge in edges] == ["not kept"]


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Ops whose calls Dynamo writes in another way than the program: operators, slices, chunks, changes in place."""
    first, second = (2 - x @ w).chunk(2, 1)
    mixed = first / second**2 + torch.cat([first, second], dim=1)[:, :2]
    mixed = mixed * 3
    mixed += first
    return mixed.clamp_(max=100.0).view(-1).softmax(dim=0)


def test_ops_have_the_rows_and_the_settings_of_the_table() -> None:
    x, w = torch.rand(5, 3), torch.rand(3, 4, requires_grad=True)
    graph = recorded(torch.compile(scaled, backend="aot_eager"), x, w)
    with nbgrad.record(view="none") as plain:
        loss: Any = scaled(x, w).sum()
        loss.backward()
    found, wanted = inside(graph), [record for record in plain.records if record.op is not None][:-1]
    assert names(found) == names(wanted)
    assert [record.shape for record in found] == [record.shape for record in wanted]
    assert [{**record.settings} for record in found] == [{**record.settings} for record in wanted]
    assert [[one.name for one in record.inputs] for record in found] == [
        [one.name for one in record.inputs] for record in wanted
    ]
    assert sources(found) == sources(wanted)
    assert [record.place and record.place.line for record in found] == [
        record.place and record.place.line for record in wanted
    ]


def test_several_results_and_buffers() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = net(x)
        return y.sin(), y.cos()

    run = torch.compile(both, backend="aot_eager")
    with nbgrad.record(view="none", inside_compiled=True) as graph:
        one, other = run(torch.randn(4, 1, 8, 8))
        loss: Any = (one * other).sum()
        loss.backward()
    assert ops(graph) == ["CompiledFunction", "mul", "sum"]
    found = inside(graph)
    assert names(found) == ["conv2d", "add_", "batch_norm", "flatten", "sin", "cos"]
    drawn = {record.id: record for record in expanded(graph.records)}
    whole = drawn[graph.compilation.graphs[0].id]
    assert [one.name for one in whole.inputs] == ["result 1", "result 2"]
    assert [drawn[source].kind_or_op for source in whole.sources] == ["sin", "cos"]
    mean = next(drawn[one.source] for one in found[2].inputs if one.name == "running_mean" and one.source is not None)
    assert (mean.name, mean.full_name, path(mean)[-1]) == ("running_mean", "1.running_mean", "1 (BatchNorm2d)")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_lengths_are_those_of_the_call_that_is_shown(backend: str) -> None:
    run = torch.compile(lambda x, w: (x @ w).reshape(-1, 2).t()[:, : x.shape[0]], backend=backend, dynamic=True)
    w = torch.randn(3, 4, requires_grad=True)
    for many in (5, 7):
        graph = recorded(run, torch.randn(many, 3), w)
        assert [record.shape for record in inside(graph)] == [(many, 4), (2 * many, 2), (2, 2 * many), (2, many)]
        assert graph.compilation.traced == (many == 5)  # to look at lengths fixed none of them


def test_a_checkpoint_and_an_unknown_length_are_drawn_too() -> None:
    from torch.utils.checkpoint import checkpoint

    w = torch.randn(3, 3, requires_grad=True)
    run = torch.compile(lambda x: checkpoint(lambda y: (y @ w).tanh(), x, use_reentrant=False), backend="aot_eager")
    graph = recorded(run, torch.randn(2, 3))
    assert names(inside(graph))[0] in {"tag_activation_checkpoint", "checkpoint"}
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        chosen = torch.compile(lambda x: (x * w)[x > 0].exp(), backend="eager", fullgraph=True)
        graph = recorded(chosen, torch.randn(3, 3))
    assert inside(graph)[-1].shape == (-1,)
    assert describe(graph)["nodes"]


# --- the compiled program stays what it is ---------------------------------------------------------------------------


def trained(backend: str, steps: int, option: bool | None, **options: Any) -> tuple[list[torch.Tensor], Any]:
    """The parameters after a training of a compiled model; with ``option`` None outside of any graph."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 3))
    run = torch.compile(net, backend=backend)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss: Any = F.cross_entropy(run(torch.randn(6, 1, 8, 8)), torch.arange(6) % 3)
            loss.backward()
            optimizer.step()

    graph = None
    if option is None:
        train()
    else:
        with nbgrad.record(view="none", inside_compiled=option, **options) as graph:
            train()
        assert graph.fault is None
    return [one.detach().clone() for one in [*net.parameters(), *net.buffers()]], graph


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_numbers_are_those_of_the_compiled_program(backend: str) -> None:
    """Also from step to step: the recorder computes nothing that the program would not."""
    plain, _ = trained(backend, 4, None)
    without, _ = trained(backend, 4, False)
    found, graph = trained(backend, 4, True)
    assert all(map(torch.equal, plain, found))
    assert all(map(torch.equal, without, found))
    assert names(inside(graph)) == ["conv2d", "add_", "batch_norm", "gelu", "flatten", "linear"]


@pytest.mark.rotated(4)
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # of the import of the backend
def test_the_numbers_of_inductor_stay_the_same() -> None:
    plain, _ = trained("inductor", 3, None)
    found, graph = trained("inductor", 3, True)
    assert all(map(torch.equal, plain, found))
    assert graph.compilation.graphs[0].backend == "inductor"
    assert names(inside(graph)) == ["conv2d", "add_", "batch_norm", "gelu", "flatten", "linear"]
    assert [record.gradient is not None for record in graph.records if record.kind == "parameter"] == [True] * 6


def test_nothing_is_compiled_more_often_than_without() -> None:
    counts = []
    for option in (None, False, True):
        torch._dynamo.utils.counters.clear()
        trained("aot_eager", 3, option)
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert counts == [1, 1, 1]


def test_without_the_option_the_compiler_is_left_alone() -> None:
    own = [vars(owner)[name] for owner, name in HOOKS]
    with nbgrad.record(view="none") as graph:
        assert [vars(owner)[name] for owner, name in HOOKS] == own
        torch.compile(Net(), backend="aot_eager")(torch.randn(5, 3)).sum().backward()
    assert ops(graph) == ["CompiledFunction", "sum"]
    with pytest.raises(RuntimeError, match="did not watch torch's compiler: record it with inside_compiled=True"):
        _ = graph.compilation
    (node,) = [node for node in describe(graph)["nodes"] if node["op"] == "CompiledFunction"]
    assert "--inside-compiled" in describe(graph)["ops"][node["op"] or ""]["what"]  # what its card says


def test_a_compiled_function_keeps_nothing_alive() -> None:
    net, x = Net(), torch.randn(5, 3, requires_grad=True)
    run = torch.compile(net, backend="eager")
    graph = recorded(run, x)
    known = weakref.ref(x)
    del x
    gc.collect()
    assert known() is None
    assert names(inside(graph))[0] == "linear"


def test_a_program_that_was_compiled_in_a_graph_runs_after_it_and_in_others() -> None:
    net, x = Net(), torch.randn(5, 3)
    run = torch.compile(net, backend="aot_eager")
    first = recorded(run, x)
    assert torch.equal(run(x), net(x))
    with nbgrad.record(view="none") as plain:
        run(x).sum().backward()
    assert ops(plain) == ["CompiledFunction", "sum"]
    assert [node["op"] for node in describe(plain)["nodes"] if node["op"]] == ["CompiledFunction", "sum"]
    later = recorded(run, x)
    assert names(inside(later)) == names(inside(first))
    assert later.compilation.traced == 0


def test_without_gradients_it_runs_as_it_is() -> None:
    net, x = Net(), torch.randn(5, 3)
    run = torch.compile(net, backend="aot_eager")
    with nbgrad.record(view="none", inside_compiled=True) as graph, torch.no_grad():
        y = run(x)
    assert torch.equal(y, net(x))
    assert ops(graph) == []
    assert (graph.compilation.traced, graph.compilation.graphs) == (1, ())


def test_an_error_of_nbgrads_own_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("nbgrad.core.recorder.compiler.traced", fail)
    net, x = Net(), torch.randn(5, 3)
    with nbgrad.record(view="none", inside_compiled=True) as graph:
        y = torch.compile(net, backend="aot_eager")(x)
        y.sum().backward()
    assert torch.equal(y, net(x))
    assert graph.fault is not None
    assert "torch's compiler" in graph.fault
    assert ops(graph) == ["CompiledFunction", "sum"]


# --- breaks, recompilations, and what is not known -------------------------------------------------------------------


def test_a_graph_break_is_shown_at_the_op_that_it_ends() -> None:
    graph = recorded(torch.compile(Broken(), backend="aot_eager"), torch.randn(5, 3))
    assert ops(graph) == ["CompiledFunction", "CompiledFunction", "sum"]
    first, last = graph.compilation.graphs
    assert first.ended is not None
    assert last.ended is None
    assert [names(inside(graph, at)) for at in (0, 1)] == [["linear", "tanh"], ["linear"]]
    ((found, count),) = graph.compilation.breaks.items()
    assert (found, count) == (first.ended, 1)
    assert found.place is not None
    assert (found.place.text, found.place.function) == ("torch._dynamo.graph_break()", "forward")
    assert "graph_break" in found.reason
    assert "\n" not in found.reason
    described = describe(graph)
    badges = {node["op"]: [one["text"] for one in node["badges"]] for node in described["nodes"] if node["badges"]}
    assert list(badges) == ["CompiledFunction"]
    assert badges["CompiledFunction"][0] in described["notes"]
    assert "torch._dynamo.graph_break()" in badges["CompiledFunction"][0]


def test_a_function_that_is_not_compiled_at_all_has_its_reason() -> None:
    def loop(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x @ w
            torch._dynamo.graph_break()
        return x

    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    graph = recorded(torch.compile(loop, backend="aot_eager"), x, w)
    assert graph.compilation.breaks
    lines = {one.place.text for one in graph.compilation.breaks if one.place is not None}
    assert lines == {"torch._dynamo.graph_break()"}


def test_a_break_of_fullgraph_is_the_users_error() -> None:
    run = torch.compile(Broken(), backend="aot_eager", fullgraph=True)
    with (
        nbgrad.record(view="none", inside_compiled=True) as graph,
        pytest.raises(torch._dynamo.exc.Unsupported) as raised,
    ):
        run(torch.randn(5, 3))
    if compiled():
        trace, files = raised.value.__traceback__, []
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        assert not any("nbgrad/core" in file for file in files)
    assert [one.place and one.place.text for one in graph.compilation.breaks] == ["torch._dynamo.graph_break()"]


def test_recompilations_are_counted_with_their_reason() -> None:
    @torch.compile(backend="aot_eager", dynamic=False)
    def scale(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    w = torch.randn(3, 2, requires_grad=True)
    with nbgrad.record(view="none", inside_compiled=True) as graph:
        for many in (4, 4, 5, 6):
            loss: Any = scale(torch.randn(many, 3), w).sum()
            loss.backward()
    found = graph.compilation.recompilations
    assert [one.function for one in found] == ["scale", "scale"]
    assert {(one.place.file, one.place.function) for one in found} == {(__file__, "scale")}
    assert all("expected" in one.reason and "size mismatch" in one.reason for one in found)
    assert sum(found.values()) == 2
    assert graph.compilation.traced == 3
    assert sum(note.startswith("Compiled again: scale, ") for note in describe(graph)["notes"]) == 2


def test_a_region_that_was_compiled_earlier_says_so() -> None:
    run, x = torch.compile(Net(), backend="aot_eager"), torch.randn(5, 3)
    run(x).sum().backward()
    graph = recorded(run, x)
    assert ops(graph) == ["CompiledFunction", "sum"]
    known = graph.compilation
    assert (known.traced, known.graphs, len(known.earlier)) == (0, (), 1)
    with pytest.raises(KeyError, match="is not the id of a compiled op whose ops are known"):
        graph.inside(known.earlier[0])
    (note,) = [note for note in describe(graph)["notes"] if "before this graph was opened" in note]
    assert "torch.compiler.reset()" in note
    torch.compiler.reset()
    assert names(inside(recorded(run, x)))[0] == "linear"


def test_the_compiler_is_watched_while_a_loop_is_not_recorded() -> None:
    """Also a step between recorded ones may compile."""
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    run: Any = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with nbgrad.record(view="none", inside_compiled=True, every=5) as graph:
        for step in range(20):
            optimizer.zero_grad()
            run(torch.randn(5 if step == 3 else 4, 3)).sum().backward()
            optimizer.step()
    assert graph.recorded < graph.backwards == 20
    assert sum(graph.compilation.recompilations.values()) == 1
    assert names(inside(graph)) == ["linear"]


def test_another_thread_is_not_watched() -> None:
    run = torch.compile(lambda x: x.sin(), backend="aot_eager")
    with nbgrad.record(view="none", inside_compiled=True) as graph:
        thread = threading.Thread(target=lambda: run(torch.ones(2, requires_grad=True)))
        thread.start()
        thread.join()
    assert graph.compilation.traced == 0


def test_a_graph_that_is_dropped_unclosed_watches_no_longer() -> None:
    own = [vars(owner)[name] for owner, name in HOOKS]
    graph = AutogradGraph(inside_compiled=True)
    graph.__enter__()
    assert [vars(owner)[name] for owner, name in HOOKS] != own
    del graph
    gc.collect()
    assert [vars(owner)[name] for owner, name in HOOKS] == own


# --- files, the report, and both dialects ----------------------------------------------------------------------------


def test_a_file_has_the_ops_inside(tmp_path: Path) -> None:
    graph = recorded(torch.compile(Broken(), backend="aot_eager"), torch.randn(5, 3))
    graph.save(tmp_path / "step.nbgrad")
    found: Any = nbgrad.load(tmp_path / "step.nbgrad")
    assert describe(found) == describe(graph)
    assert [record.id for record in found.records] == [record.id for record in graph.records]
    assert [record.sources for record in found.records] == [record.sources for record in graph.records]
    assert [record.name for record in found.records] == [record.name for record in graph.records]
    assert found.frame == graph.frame
    assert found.compilation.graphs[0].ops == graph.compilation.graphs[0].ops
    assert [one.reason for one in found.compilation.breaks] == [one.reason for one in graph.compilation.breaks]
    assert [names(inside(found, at)) for at in (0, 1)] == [["linear", "tanh"], ["linear"]]
    assert found.left_out == 0
    found.save(tmp_path / "again.nbgrad")
    again: Any = nbgrad.load(tmp_path / "again.nbgrad")
    assert describe(again) == describe(graph)
    plain = recorded(Broken(), torch.randn(5, 3))
    plain.save(tmp_path / "plain.nbgrad")
    unused: Any = nbgrad.load(tmp_path / "plain.nbgrad")
    assert unused.compilation.graphs == ()
    with nbgrad.record(view="none") as other:
        loss: Any = Broken()(torch.randn(5, 3)).sum()
        loss.backward()
    other.save(tmp_path / "other.nbgrad")
    unwatched: Any = nbgrad.load(tmp_path / "other.nbgrad")
    with pytest.raises(RuntimeError, match=r"other.nbgrad: .* did not watch torch's compiler"):
        _ = unwatched.compilation


@pytest.mark.parametrize(
    ("field", "value"), [("ops", [10**6, 10**6 + 1]), ("id", 10**6), ("ops", [1, 1]), ("ops", "none")]
)
def test_a_file_whose_compiled_graph_has_other_ops_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    graph, file = recorded(torch.compile(Net(), backend="eager"), torch.randn(5, 3)), tmp_path / "step.nbgrad"
    graph.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["graph.json"])
    (one,) = document["facts"]["compilation"]["graphs"]
    one[CompiledGraph._fields.index(field)] = value
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (members | {"graph.json": json.dumps(document).encode()}).items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="it is damaged: "):
        nbgrad.load(file)


def sine(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The sines of a product."""
    return (x @ w).sin()


def test_two_compiled_runs_are_compared_by_what_ran() -> None:
    graphs = []
    for scale in (1.0, 2.0):
        torch.manual_seed(0)
        torch._dynamo.reset()
        x, w = torch.rand(5, 3), torch.randn(3, 4)
        w = (w * scale).requires_grad_()
        graphs.append(recorded(torch.compile(sine, backend="aot_eager"), x, w))
    found = nbgrad.compare(graphs[0], graphs[1])
    assert {pair.left.kind_or_op for pair in found.pairs} == {"leaf", "constant", "CompiledFunction", "sum"}
    drawn = outline_comparison(found).description
    (marked,) = {node["op"] for node in drawn["nodes"] if node["op"] and any("≠" in line for line in node["label"])} - {
        "sum"
    }
    assert marked == "CompiledFunction"


def test_the_numbers_of_a_large_tensor_are_found_at_its_own_node() -> None:
    w = torch.randn(40, 40, requires_grad=True)
    graph = recorded(torch.compile(sine, backend="aot_eager"), torch.randn(40, 40), w)
    holdings, nodes = Holdings(graph), describe(graph)["nodes"]
    told = {node["op"] or node["kind"]: holdings.numbers(node["id"], "value")["said"] for node in nodes}
    assert told["leaf"].startswith("(40, 40) float32")
    assert "Only statistics" in told["sin"]
    assert Rerun(graph).order == [record.id for record in graph.drawn]
    with pytest.raises(RerunError):
        Rerun(graph).run({})


def test_the_picture_folds_a_compiled_graph_as_a_module() -> None:
    graph = recorded(torch.compile(Net(), backend="aot_eager"), torch.randn(5, 3))
    known = outline(graph)
    scopes = {scope["label"]: scope for scope in known.description["scopes"]}
    assert scopes["compiled by aot_eager"]["folds"].startswith("8 ops, 6 parameters")
    folded, _ = asked(known, 1, None)
    assert folded is not None
    boxes = [node for node in fold(known, folded).description["nodes"] if node["kind"] == "folded"]
    assert [box["label"][0] for box in boxes] == ["compiled by aot_eager"]


def test_the_report_of_a_run_says_what_the_compiler_did() -> None:
    graph = recorded(torch.compile(Broken(), backend="aot_eager"), torch.randn(5, 3))
    lines = report(graph, "train.py", 1.0)
    (told,) = [line for line in lines if "torch.compile" in line]
    counts, _, ops_told = told.strip().partition("; ")
    assert counts == "torch.compile: 2 graphs traced, 1 graph break, 0 recompilations"
    assert ops_told == "3 ops in the 2 compiled graphs of the last step"
    (said,) = [line for line in lines if ": graph break: " in line]
    line = Broken.forward.__code__.co_firstlineno + 3
    assert f"test_inside_compiled.py:{line}: graph break: " in said
    plain = report(recorded(Broken(), torch.randn(5, 3)), "train.py", 1.0)
    assert not any("torch.compile" in line for line in plain)


def test_nbgrads_own_tensors_in_a_compiled_function_are_as_without_the_option() -> None:
    """Torch's compiler does not see their ops: they run in Python, and are recorded as those of torch are."""

    def results(option: bool) -> Any:
        torch._dynamo.reset()
        w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        run = torch.compile(lambda x: (x * 2).sin(), backend="aot_eager")
        try:
            with nbgrad.record(view="none", inside_compiled=option) as graph:
                run(w).sum().backward()
        except Exception as error:
            return type(error), str(error)
        return w.grad.tolist() if w.grad is not None else None, ops(graph), graph.fault

    assert results(True) == results(False)


LATE = """
import torch
import nbgrad
assert "torch._dynamo" not in __import__("sys").modules
w = torch.ones(2, requires_grad=True)
with nbgrad.record(view="none", inside_compiled=True) as graph:
    run = torch.compile(lambda x: (x * w).sin(), backend="eager")
    run(torch.ones(2)).sum().backward()
print([record.op.name for record in graph.inside(graph.compilation.graphs[0].id)])
"""


@pytest.mark.rotated(3)
def test_the_compiler_may_be_imported_inside_of_the_graph() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "['mul', 'sin']\n"), done.stderr

"""Graphs that are saved and read again: nothing is lost, and nothing in a file can do harm."""

import hashlib
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core import archive
from nbgrad.core.archive import Archive
from nbgrad.core.graph import saved_facts, saved_settings
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.memory import MemoryUse
from nbgrad.core.graph.record import Described, Operand, Record
from nbgrad.core.graph.rerun import RerunError
from nbgrad.core.graph.saved_graph import SavedGraph
from nbgrad.core.graph.saved_op import OpRow, SavedOp
from nbgrad.core.graph.saved_settings import SavedText
from nbgrad.core.graph.stats import Stats
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.core.typed_json import JsonForm, MismatchError
from nbgrad.run.files import SavedRun, load
from nbgrad.widgets.describe import describe, outline
from nbgrad.widgets.graph_file import FORMAT, GraphFileError, PictureRow
from nbgrad.widgets.tensor_lookup import SavedHoldings, holdings_of
from nbgrad.widgets.view import GraphView
from tests.run.programs import PROGRAMS, of_cell, of_network
from tests.widgets import cells, networks

SAVED = tuple(suffix for suffix in (".svg", ".html", ".txt", ".json", ".dot", ".png", ".nbgrad"))


def again(graph: Any, folder: Path) -> SavedGraph:
    """The graph, saved and read."""
    graph.save(folder / "graph.nbgrad")
    found = load(folder / "graph.nbgrad")
    assert isinstance(found, SavedGraph)
    return found


@pytest.fixture
def graph() -> AutogradGraph:
    """Three steps of a network with a clock: it has times, a history, a broadcast and what optimizers do."""
    torch.manual_seed(0)
    nbgrad.manual_seed(0)
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 4), nbgrad.nn.ReLU(), nbgrad.nn.Linear(4, 2))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.record("net", view="none", time=True) as found:
        for _ in range(3):
            optimizer.zero_grad()
            (net(nbgrad.tensor(torch.randn(5, 3)))[:, :1] ** 2).mean().backward()
            optimizer.step()
    return found


# --- nothing is lost -------------------------------------------------------------------------------------------------


def same(stats: Stats | None) -> Any:
    """Statistics in a form in which NaN equals NaN."""
    return None if stats is None else (repr(stats), stats.raw, stats.dtype)


def saved(setting: Any) -> Any:
    """A setting as it is in a graph of a file."""
    return saved_settings.read(saved_settings.written(setting))


def told(record: Record) -> list[Any]:
    """All facts of a record that a file keeps."""
    scope = None if record.scope is None else record.scope.path()
    settings = {name: repr(saved(one)) for name, one in record.settings.items()}
    inputs = [
        (one.name, one.source, repr(saved(one.literal)), same(one.gradient), one.reduction, same(one.unreduced))
        for one in record.inputs
    ]
    since = record.since and [same(one) if isinstance(one, Stats) else one for one in record.since]
    plain = ("id", "kind", "name", "shape", "dtype", "device", "parents", "root", "alive", "earlier", "given_axis")
    return [
        *[getattr(record, name) for name in (*plain, "full", "full_name", "several", "what", "run", "line")],
        *(settings, scope, None if record.place is None else str(record.place), inputs, since),
        *(record.op and OpRow.of(record.op)._replace(listed=False), same(record.value), same(record.gradient)),
        None if record.sample is None else record.sample.tobytes(),
    ]


def facts_of(graph: Any) -> dict[str, Any]:
    """All that a graph answers, in a form that can be compared."""
    memory: MemoryUse | None = graph.known_memory(graph.records) if isinstance(graph, AutogradGraph) else None
    memory = graph.known_memory() if isinstance(graph, SavedGraph) else memory
    frame, update = graph.frame, graph.update
    return {
        "records": list(map(told, graph.records)),
        "snapshot": list(map(told, graph.snapshot())),
        "numbers": [getattr(graph, name) for name in ("name", "backwards", "recorded", "left_out", "watch", "fault")],
        "history": [repr(one) for one in graph.history],
        "losses": [(one.number, repr(one.value), str(one.place)) for one in graph.losses],
        "update": update and (update.number, repr(update.ratios)),
        "frame": frame and (frame.number, frame.roots),
        "findings": list(map(told_finding, graph.findings())),
        "checkup": repr(graph.checkup()),
        "ending": told_ending(graph.ending),
        "since": sorted(graph.since),
        "memory": memory and (memory.total, memory.peak, str(memory.ranked()), str(memory.timeline), memory.optimizer),
        "path": [record.id for record in graph.path(graph.records[0], graph.records[-1]) or ()] if graph.records else 0,
    }


def told_finding(found: Any) -> Any:
    plain = ("kind", "text", "remedy", "id", "tensors", "scope", "degree", "severity")
    return [*[getattr(found, name) for name in plain], str(found.place), list(map(told_finding, found.group))]


def told_ending(ending: Any) -> Any:
    if ending is None:
        return None
    failure, why = ending.failure, ending.explanation
    return (
        *(ending.kind, ending.message, ending.interrupted, str(ending.place), ending.advice),
        why and (why.text, why.remedy, str(why.place)),
        failure and (failure.op, failure.message, failure.id, failure.operands, str(failure.place), failure.ids),
        failure and failure.frame and (failure.frame.number, sorted(failure.frame.gradients)),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_of_a_file_answers_as_the_one_that_was_saved(name: str, tmp_path: Path) -> None:
    made = PROGRAMS[name]()
    found = again(made, tmp_path)
    wanted, answers = facts_of(made), facts_of(found)
    for what, answer in answers.items():
        assert answer == wanted[what], what
    assert all(record.leaf is None for record in found.records)
    if any(record.kind == "op" for record in made.records):
        assert nbgrad.compare(made, found, names=("living", "read")).equal
    if isinstance(made, TimedGraph):
        assert found.times == made.times
        assert [repr(found.slowest(by)) for by in ("call", "op", "module", "line")] == [  # type: ignore[arg-type]
            repr(made.slowest(by))
            for by in ("call", "op", "module", "line")  # type: ignore[arg-type]
        ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_picture_of_a_file_is_that_of_the_living_graph(name: str, tmp_path: Path) -> None:
    made = PROGRAMS[name]()
    check_picture(made, again(made, tmp_path))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [*networks.NETWORKS, *networks.LOOPS])
def test_networks_look_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_network(name, monkeypatch)
    check_picture(made, again(made, tmp_path))


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore")  # some cells have a fault, of which torch warns
@pytest.mark.parametrize("name", cells.CELLS)
def test_cells_look_the_same(name: str, tmp_path: Path) -> None:
    made, _variables = of_cell(name)
    check_picture(made, again(made, tmp_path))


def check_picture(made: AutogradGraph, found: SavedGraph) -> None:
    """The descriptions are equal, in each field; and the runs that folding asks for."""
    before, after = describe(made), describe(found)
    assert before.keys() == after.keys()
    for field, value in before.items():
        assert repr(after[field]) == repr(value), field  # type: ignore[literal-required]
    assert outline(found).runs == outline(made).runs


@pytest.mark.parametrize("suffix", SAVED)
def test_a_graph_of_a_file_is_written_as_the_living_one(suffix: str, graph: AutogradGraph, tmp_path: Path) -> None:
    found = again(graph, tmp_path)
    for name, one in (("before", graph), ("after", found)):
        one.save(tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"after{suffix}").read_bytes() == (tmp_path / f"before{suffix}").read_bytes()


def test_what_is_shared_stays_shared(tmp_path: Path) -> None:
    made = PROGRAMS["training with a clock"]()
    found = again(made, tmp_path)
    for parts in (statistics, lambda record: [record.scope], lambda record: [record.op]):
        assert numbered(found, parts) == numbered(made, parts)
    assert len(set(numbered(made, statistics))) < len(numbered(made, statistics)), "some are shared"
    assert len({id(record.graph) for record in found.records}) == 1


def statistics(record: Record) -> list[Any]:
    return [record.value, record.gradient, *[part for one in record.inputs for part in (one.gradient, one.unreduced)]]


def numbered(graph: Any, parts: Callable[[Record], list[Any]]) -> list[int]:
    """A number for each of these parts of the records: two parts have one number if they are one object."""
    seen: dict[int, int] = {}
    return [seen.setdefault(id(part), len(seen)) for record in graph.records for part in parts(record)]


def test_ops_of_the_table_are_their_rows_again_and_others_cannot_run(tmp_path: Path) -> None:
    made = PROGRAMS["settings of our ops"]()
    ops = {record.op.name: record.op for record in again(made, tmp_path).records if record.op is not None}
    known = {record.op.name: record.op for record in made.records if record.op is not None}
    assert [name for name, op in ops.items() if op is not known[name]] == ["Twice"]
    assert isinstance(ops["Twice"], SavedOp)
    with pytest.raises(NotImplementedError, match="Twice was read from a file, which holds no code"):
        ops["Twice"](1.0)


def test_a_row_that_has_changed_is_not_taken_for_the_one_that_ran(graph: AutogradGraph, tmp_path: Path) -> None:
    again(graph, tmp_path)
    found = Archive.unpacked(tmp_path / "graph.nbgrad")
    for op in found.document["tables"]["ops"]:
        op[3] = "another formula"
    read = load(packed(found, tmp_path))
    assert isinstance(read, SavedGraph)
    assert {type(record.op) for record in read.records if record.op is not None} == {SavedOp}


SETTINGS = [
    *(None, True, 0, -7, 2**62, -(2**80), 1.5, -0.0, float("inf"), "text", "", ..., 1 + 2j, complex("nan")),
    *((), (1, (2.0, None), ...), slice(None), slice(1, (2, 3), -1), torch.float32, torch.strided, torch.channels_last),
    *(torch.device("cuda:1"), Described((2, 3), "bfloat16")),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_a_setting_is_the_same_again(setting: Any) -> None:
    told = json.loads(json.dumps(saved_settings.written(setting), allow_nan=False))
    found = saved_settings.read(told)
    assert type(found) is type(setting)
    assert repr(found) == repr(setting)


def test_a_setting_of_another_class_is_its_text() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    for setting, text in ((print, str(print)), ({1: 2}, "{1: 2}"), (b"x", "b'x'"), (Broken(), "<Broken>")):
        found = saved_settings.read(saved_settings.written(setting))
        assert (type(found), str(found), repr(found)) == (SavedText, text, text)
        assert found == setting
        assert found != text


def test_a_graph_of_more_ops_than_are_drawn_has_those_that_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.widgets.describe.DRAWN", 20)
    with nbgrad.record("long", view="none") as made:
        x = nbgrad.tensor([1.0], requires_grad=True)
        y = x
        for _ in range(50):
            y = y * 1.5
        y.sum().backward()
    found = again(made, tmp_path)
    assert (sum(record.kind == "op" for record in found.records), found.left_out) == (20, 31)
    assert "51 ops" in repr(found)
    check_picture(made, found)


@pytest.mark.rotated(2)
def test_lines_are_known_without_their_file(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import nbgrad, sys\n"
        "with nbgrad.record('script', view='none', save=sys.argv[1]) as graph:\n"
        "    w = nbgrad.tensor([1.0], requires_grad=True)\n"
        "    loss = (w * 2).sum()\n"
        "    loss.backward()\n"
    )
    run(str(program), str(tmp_path / "graph.nbgrad"), cwd=tmp_path)
    program.unlink()
    found = load(tmp_path / "graph.nbgrad")
    assert isinstance(found, SavedGraph)
    places = [record.place for record in found.records if record.op is not None]
    assert [place and (place.file, place.line, place.text) for place in places] == [
        ("program.py", 4, "loss = (w * 2).sum()")
    ] * 2
    assert "line 4: loss = (w * 2).sum()" in str(describe(found)["nodes"])
    assert found.losses[0].place.lines == ["loss.backward()"]


def test_a_failed_graph_is_saved_as_it_is_displayed(tmp_path: Path) -> None:
    file = tmp_path / "failed.nbgrad"
    with pytest.raises(RuntimeError), nbgrad.record("failed", view="none", save=file):
        nbgrad.tensor([[1.0, 2.0]], requires_grad=True) @ nbgrad.tensor([[1.0, 2.0]])
    found = load(file)
    assert isinstance(found, SavedGraph)
    assert found.ending is not None
    assert found.ending.failure is not None
    assert found.ending.failure.op == "matmul"
    assert found.findings()[0].kind == "failed"
    assert [node["kind"] for node in describe(found)["nodes"]].count("failed") == 1


def test_the_present_state_of_an_open_graph_is_saved(tmp_path: Path) -> None:
    with nbgrad.AutogradGraph("open") as made:
        w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
        found = again(made, tmp_path)
        (w * 3).sum().backward()
    assert (found.backwards, made.backwards) == (1, 2)
    assert [record.gradient.values for record in found.records if record.name == "w" and record.gradient] == [
        [2.0, 4.0]
    ]


def test_two_graphs_of_files_are_compared(graph: AutogradGraph, tmp_path: Path) -> None:
    found = again(graph, tmp_path)
    for pair in ((graph, found), (found, graph), (found, found)):
        comparison = nbgrad.compare(*pair, names=("before", "after"))
        assert comparison.equal, str(comparison)
        assert len(comparison.pairs) == len(graph.records)
        comparison.save(tmp_path / "both.svg")
        assert b"before" in (tmp_path / "both.svg").read_bytes()


def test_it_is_what_the_package_safetensors_writes(graph: AutogradGraph, tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    again(graph, tmp_path)
    ours = Archive.unpacked(tmp_path / "graph.nbgrad").arrays
    with zipfile.ZipFile(tmp_path / "graph.nbgrad") as opened:
        theirs = package.load(opened.read("numbers.safetensors"))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(theirs[name], array) for name, array in ours.items())


def test_a_cell_saves_its_graph_and_a_later_one_draws_it(shell: InteractiveShell, tmp_path: Path) -> None:
    product = "import nbgrad\na = nbgrad.tensor([1.0, 2.0], requires_grad=True)\nloss = (a * a).sum()\nloss.backward()"
    with capture_output():
        shell.run_cell(f"%%autograd --name square --save {tmp_path}/cell.nbgrad\n{product}", store_history=True)  # type: ignore[no-untyped-call]
        shell.run_cell(f"%autograd save {tmp_path}/line.nbgrad", store_history=True)  # type: ignore[no-untyped-call]
    assert (tmp_path / "line.nbgrad").read_bytes() == (tmp_path / "cell.nbgrad").read_bytes()
    with capture_output() as shown:
        shell.run_cell(f"nbgrad.load('{tmp_path}/cell.nbgrad')", store_history=True)  # type: ignore[no-untyped-call]
    drawn, live = shown.outputs
    assert drawn.data["text/plain"].startswith("square: 2 ops, 1 tensor")
    assert "image/svg+xml" in drawn.data
    assert "application/vnd.jupyter.widget-view+json" in live.data
    found = load(tmp_path / "cell.nbgrad")
    assert isinstance(found, SavedGraph)
    assert [record.place and record.place.text for record in found.records if record.op] == ["loss = (a * a).sum()"] * 2
    assert found._mime_()[0] == "text/html"


# --- it says what it lacks -------------------------------------------------------------------------------------------


def test_a_file_is_not_run_again_and_has_no_large_numbers(tmp_path: Path) -> None:
    found = again(PROGRAMS["large tensors"](), tmp_path)
    with pytest.raises(RerunError, match=r"graph.nbgrad, and a file has no tensors: run the program again"):
        found.save(tmp_path / "what_if.html", what_if=True)
    holdings = holdings_of(found)
    assert isinstance(holdings, SavedHoldings)
    assert isinstance(holdings.rerun, RerunError)
    (node,) = [node["id"] for node in describe(found)["nodes"] if node["label"][0] == "w"]
    for what in ("value", "gradient"):
        assert holdings.numbers(node, what)["said"] == (  # type: ignore[arg-type]
            "Only statistics were kept: a graph in a file has no numbers of larger tensors."
        )


def test_its_live_view_folds_and_says_that_it_cannot_run(graph: AutogradGraph, tmp_path: Path) -> None:
    found = again(graph, tmp_path)
    sent: list[Any] = []
    view = GraphView(outline(found), holdings=holdings_of(found))
    view.send = sent.append  # type: ignore[method-assign]
    view.put_away()
    view._suppose({"node": "n0", "page": "p", "changes": {}, "place": 0, "nudge": False, "number": None})
    assert "a file has no tensors" in sent[-1]["supposed"]["said"]


@pytest.mark.parametrize("name", ["overlay", "answer", "unreached", "ranks", "unheld", "clear", "close"])
def test_what_needs_tensors_says_so(name: str, graph: AutogradGraph, tmp_path: Path) -> None:
    found = again(graph, tmp_path)
    with pytest.raises(AttributeError, match=rf"graph.nbgrad has .* neither tensors nor modules, which {name} needs"):
        getattr(found, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        found.nonsense  # noqa: B018


def test_it_does_not_change(graph: AutogradGraph, tmp_path: Path) -> None:
    found = again(graph, tmp_path)
    with pytest.raises(TypeError, match="a graph in a file does not change"):
        found.delete_node(found.records[0])
    found.records.clear()
    assert len(found.records) == len(graph.records)


def test_a_graph_without_a_clock_or_without_storages_says_so(tmp_path: Path) -> None:
    found = again(PROGRAMS["nothing"](), tmp_path)
    with pytest.raises(RuntimeError, match=r"has no times: record it with time=True, or --time"):
        found.slowest()
    with pytest.raises(RuntimeError, match="did not know what its ops kept"):
        _ = found.memory


def test_a_graph_that_asks_is_not_saved(tmp_path: Path) -> None:
    with nbgrad.record("lesson", view="none", ask="w") as made:
        w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
    file = tmp_path / "graph.nbgrad"
    file.write_text("before")
    with pytest.raises(ValueError, match="still asks for the gradients of w; a file would tell them"):
        made.save(file)
    assert file.read_text() == "before"
    made.answer("w", [2.0, 4.0])
    assert len(again(made, tmp_path).records) == 3


def test_a_comparison_is_no_such_file(graph: AutogradGraph, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a .nbgrad file has one recorded graph: save each by itself"):
        nbgrad.compare(graph, graph).save(tmp_path / "both.nbgrad")


# --- a folder is a run -----------------------------------------------------------------------------------------------


def test_a_folder_is_a_run_with_its_history(tmp_path: Path) -> None:
    w = nbgrad.tensor([3.0], requires_grad=True)
    for step in (1, 2, 10):
        with nbgrad.record(f"step {step}", view="none", save=tmp_path / f"step{step}.nbgrad"):
            for _ in range(2):
                w.grad = None
                (w * w).sum().backward()
                with nbgrad.no_grad():
                    w -= 0.1 * w.grad
    (tmp_path / "notes.txt").write_text("not a graph")
    found = nbgrad.load(str(tmp_path))
    assert isinstance(found, SavedRun)
    assert [one.name for one in found] == ["step 1", "step 2", "step 10"]
    assert [frame.number for frame in found.history] == [1, 2, 3, 4, 5, 6]
    losses = [frame.loss for frame in found.history]
    assert losses == sorted(losses, reverse=True)  # type: ignore[type-var]
    assert [(one.number, one.value) for one in found.losses] == list(enumerate(losses, 1))
    assert (len(found), found[-1].name, [one.name for one in found[:2]]) == (3, "step 10", ["step 1", "step 2"])
    assert repr(found) == f"<SavedRun {str(tmp_path)!r}: 3 graphs, <History: 6 of 6 backwards>>"
    assert len(found.history[0].diff(found.history[-1]).same) == len(found[0].records)


def test_graphs_that_go_on_are_not_counted_twice(tmp_path: Path) -> None:
    with nbgrad.AutogradGraph("long") as made:
        w = nbgrad.tensor([3.0], requires_grad=True)
        for step in range(1, 7):
            (w * step).sum().backward()
            if step % 2 == 0:
                made.save(tmp_path / f"{step}.nbgrad")
    found = load(tmp_path)
    assert [frame.number for frame in found.history] == [1, 2, 3, 4, 5, 6]
    assert [one.value for one in found.losses] == [3.0 * step for step in range(1, 7)]


def test_a_folder_without_a_graph_and_a_missing_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file that ends in .nbgrad in this folder"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"missing.nbgrad"):
        load(tmp_path / "missing.nbgrad")
    (tmp_path / "bad.nbgrad").write_bytes(b"")
    with pytest.raises(GraphFileError, match=r"bad.nbgrad' cannot be read"):
        load(tmp_path)


# --- a hostile file --------------------------------------------------------------------------------------------------


def packed(found: Archive, folder: Path) -> Path:
    """The archive as a file, also if it is larger than may be read again."""
    members = {
        "graph.json": json.dumps(found.document).encode(),
        "numbers.safetensors": archive._safetensors(found.arrays),
    }
    return zipped(members, folder)


def zipped(members: dict[str, bytes], folder: Path, **options: Any) -> Path:
    file = folder / "hostile.nbgrad"
    with zipfile.ZipFile(file, "w", options.pop("compression", zipfile.ZIP_DEFLATED), **options) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return file


@pytest.fixture
def members(graph: AutogradGraph, tmp_path: Path) -> dict[str, bytes]:
    """The two members of a sound file."""
    again(graph, tmp_path)
    with zipfile.ZipFile(tmp_path / "graph.nbgrad") as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def refused(file: Path) -> str:
    """The one sentence with which a file is refused. It names the file."""
    with pytest.raises(GraphFileError) as caught:
        load(file)
    text = str(caught.value)
    assert text.startswith(f"{str(file)!r} cannot be read: ")
    assert "\n" not in text
    assert len(text) < 400 + len(str(file))
    assert isinstance(caught.value, ValueError)
    return text


def test_other_kinds_of_files_are_refused(tmp_path: Path, graph: AutogradGraph) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "torch.nbgrad")
    (tmp_path / "pickle.nbgrad").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "empty.nbgrad").write_bytes(b"")
    (tmp_path / "text.nbgrad").write_text("hello\n" * 100)
    (tmp_path / "noise.nbgrad").write_bytes(random.Random(0).randbytes(5000))
    graph.save(tmp_path / "picture.png")
    (tmp_path / "picture.png").rename(tmp_path / "png.nbgrad")
    for name in ("torch", "pickle", "empty", "text", "noise", "png"):
        text = refused(tmp_path / f"{name}.nbgrad")
        assert "of another kind" in text if name == "torch" else "no graph that nbgrad has written" in text
    graph.save(tmp_path / "picture.json")
    assert "is only a picture. Save the graph as picture.nbgrad" in refused(tmp_path / "picture.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nbgrad")
    assert "no ordinary file" in refused(tmp_path / "pipe.nbgrad")


def test_a_newer_form_says_so(members: dict[str, bytes], tmp_path: Path) -> None:
    document = json.loads(members["graph.json"]) | {"format": FORMAT + 1, "nbgrad": "9.1", "more": []}
    file = zipped({**members, "graph.json": json.dumps(document).encode()}, tmp_path)
    assert f"nbgrad 9.1 has written it in form {FORMAT + 1}, and this is nbgrad" in refused(file)
    assert refused(file).endswith(f"which reads form {FORMAT}: install a newer nbgrad")


def test_an_older_form_says_so(members: dict[str, bytes], tmp_path: Path) -> None:
    document = json.loads(members["graph.json"]) | {"format": FORMAT - 1}
    file = zipped({**members, "graph.json": json.dumps(document).encode()}, tmp_path)
    assert refused(file).endswith(f"which reads form {FORMAT}: write it again")


@pytest.mark.parametrize("form", [0, -1, True, "1", 1.0, None, [1]])
def test_a_form_that_never_was_is_refused(form: Any, members: dict[str, bytes], tmp_path: Path) -> None:
    document = json.loads(members["graph.json"]) | {"format": form}
    refused(zipped({**members, "graph.json": json.dumps(document).encode()}, tmp_path))


def test_paths_in_an_archive_are_refused_and_nothing_is_written(members: dict[str, bytes], tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("../evil.txt", str(tmp_path / "evil.txt"), "graph.json/../evil.txt", "nested/graph.json"):
        assert "another kind" in refused(zipped({**members, name: b"evil"}, inner))
    with zipfile.ZipFile(tmp_path / "two.nbgrad", "w") as opened:
        for name, data in members.items():
            opened.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate name"):
            opened.writestr("graph.json", members["graph.json"])
    assert "another kind" in refused(tmp_path / "two.nbgrad")
    assert not (tmp_path / "evil.txt").exists()
    assert {one.name for one in inner.iterdir()} == {"hostile.nbgrad"}


def test_bombs_are_refused_before_they_take_memory(members: dict[str, bytes], tmp_path: Path) -> None:
    spaces = zipped({**members, "graph.json": members["graph.json"] + b" " * (40 << 20)}, tmp_path)
    assert "bytes when it is unpacked" in refused(spaces)
    assert spaces.stat().st_size < 1 << 20
    lists = b"[" + b"[]," * (1 << 23) + b"[]]"
    stored = zipped({**members, "graph.json": lists}, tmp_path, compression=zipfile.ZIP_STORED)
    assert "more than 16,777,216 values" in refused(stored)
    numbers = members["numbers.safetensors"]
    large = json.dumps({"x": {"dtype": "F64", "shape": [1 << 40], "data_offsets": [0, 1 << 43]}}).encode()
    huge = len(large).to_bytes(8, "little") + large
    for data in (huge, b"\xff" * 8 + numbers, numbers[:40], b"", numbers[:8] + b"[" * 100_000):
        assert "numbers.safetensors cannot be read" in refused(
            zipped({**members, "numbers.safetensors": data}, tmp_path)
        )


@pytest.mark.parametrize(
    "text",
    [b"[" * 200_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b"[1, NaN]", b"\xff\xfe", b"", b"1" * 10_000, b"{} {}"],
    ids=["lists", "objects", "NaN", "bytes", "empty", "digits", "two"],
)
def test_json_that_cannot_be_read_is_refused(text: bytes, members: dict[str, bytes], tmp_path: Path) -> None:
    refused(zipped({**members, "graph.json": text}, tmp_path))


def test_deep_data_of_the_right_kind_are_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    text = members["graph.json"].decode()
    deep = '{"tuple":[' * 3000 + "1" + "]}" * 3000
    assert '"settings":' not in text  # a record is a list
    document = json.loads(text)
    row = next(one for one in document["facts"]["records"] if one[7])
    row[7] = dict.fromkeys(row[7], "DEEP")
    file = zipped({**members, "graph.json": json.dumps(document).replace('"DEEP"', deep).encode()}, tmp_path)
    refused(file)


@pytest.mark.parametrize("where", ["tables", "picture"])
def test_scopes_that_are_nested_too_deep_or_in_a_circle_are_refused(
    where: str, graph: AutogradGraph, tmp_path: Path
) -> None:
    again(graph, tmp_path)
    sound = Archive.unpacked(tmp_path / "graph.nbgrad")
    if where == "tables":
        scopes, deep = (
            sound.document["tables"]["scopes"],
            [["deep", at - 1 if at else None, None] for at in range(2001)],
        )
        circle = [["one", 1, None], ["other", 0, None]]
    else:
        scopes = sound.document["picture"]["description"]["scopes"]
        deep = [scopes[0] | {"id": f"s{at}", "parent": f"s{at - 1}" if at else None} for at in range(2001)]
        circle = [scopes[0] | {"parent": "s1"}, scopes[1] | {"parent": "s0"}]
    for hostile in (deep, circle):
        scopes[:] = hostile
        assert "scope" in refused(packed(sound, tmp_path))


def test_an_archive_with_a_password_or_another_compression_is_refused(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert "another kind" in refused(zipped(members, tmp_path, compression=compression))
    data = bytearray(zipped(members, tmp_path).read_bytes())
    for begin, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(begin) + flag] |= 1
    (tmp_path / "secret.nbgrad").write_bytes(data)
    refused(tmp_path / "secret.nbgrad")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_refused_or_sound(seed: int, graph: AutogradGraph, tmp_path: Path) -> None:
    """Truncated files, flipped bits, other bytes: the checksums of the archive find what they change."""
    again(graph, tmp_path)
    sound, draw = (tmp_path / "graph.nbgrad").read_bytes(), random.Random(seed)
    wanted, file = facts_of(load(tmp_path / "graph.nbgrad")), tmp_path / "damaged.nbgrad"
    for _ in range(40):
        data = bytearray(sound)
        at = draw.randrange(len(data))
        damage = draw.randrange(4)
        if damage == 0:
            del data[at:]
        elif damage == 1:
            data[at] ^= 1 << draw.randrange(8)
        elif damage == 2:
            data[at : at + draw.randrange(50)] = draw.randbytes(draw.randrange(50))
        else:  # the directory of the archive, where sizes and places are
            data[len(data) - draw.randrange(1, 200)] = draw.choice([0, 255, draw.randrange(256)])
        file.write_bytes(data)
        found = loaded(file)
        if found is not None:  # such as a byte of a date
            assert facts_of(found) == wanted


def loaded(file: Path) -> SavedGraph | None:
    """The graph in a file; None if the file is refused, in one sentence."""
    with suppress(GraphFileError):
        found = load(file)
        assert isinstance(found, SavedGraph)
        return found
    refused(file)
    return None


JUNK = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        10**30,
        -(10**18),
        1.5,
        1e308,
        "",
        "x",
        "nan",
        "n3",
        "s0",
        "<script>",
        "\ud800",
        "a" * 5000,
    ),
    *([], {}, [[]], {"a": 1}, [1, 2, 3], [None] * 50),
)
"""Values that do not belong where they are put."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(20))
def test_a_file_with_other_data_is_refused_or_can_be_drawn(seed: int, graph: AutogradGraph, tmp_path: Path) -> None:
    """A property: whatever stands in the document, a graph that is read can be asked and drawn."""
    graph.overlay("own", {graph.records[0]: 1.0})
    again(graph, tmp_path)
    sound, draw, read = Archive.unpacked(tmp_path / "graph.nbgrad"), random.Random(seed), 0
    paths = [path for path in paths_in(sound.document) if path]
    for _ in range(30):
        document = json.loads(json.dumps(sound.document))
        *way, last = draw.choice(paths)
        inner = document
        for step in way:
            inner = inner[step]
        what = draw.random()
        if what < 0.8:
            inner[last] = draw.choice(JUNK)
        elif what < 0.9 and isinstance(inner, list):
            inner.insert(last, inner[last])
        else:
            del inner[last]
        found = loaded(packed(sound._replace(document=document), tmp_path))
        if found is None:
            continue
        read += 1
        facts_of(found)
        if found.known_memory() is not None:
            found.memory.checkpointing()
        str(nbgrad.compare(found, graph, names=("read", "living")))
        for suffix in (".txt", ".svg", ".json"):
            found.save(tmp_path / f"drawn{suffix}")
        assert b"<script" not in (tmp_path / "drawn.svg").read_bytes()
    assert read > 0


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(16))
def test_a_file_with_other_numbers_is_refused_or_can_be_drawn(seed: int, tmp_path: Path) -> None:
    """The same for the columns of numbers: other values, lengths, element types and shapes."""
    names = ("training with a clock", "large tensors", "element types", "many findings")
    made = PROGRAMS[names[seed % len(names)]]()
    again(made, tmp_path)
    sound, draw = Archive.unpacked(tmp_path / "graph.nbgrad"), random.Random(seed)
    for _ in range(25):
        name, what = draw.choice(sorted(sound.arrays)), draw.randrange(5)
        column = np.array(sound.arrays[name])
        if what == 0 and column.size:
            numbers = (0, -1, float("nan"), float("inf"), 1e308) if column.dtype.kind == "f" else (0, 1, 7, 64, 255)
            column[draw.randrange(column.size)] = draw.choice(numbers)
        elif what == 1:
            column = column[:-1]
        elif what == 2:
            column = np.concatenate([column, column[:1]])
        elif what == 3:
            with np.errstate(all="ignore"):
                column = column.astype(draw.choice(["<f8", "<f4", "<i8", "<i4", "|u1"]))
        else:
            column = column.reshape(-1, 1)
        found = loaded(packed(sound._replace(arrays={**sound.arrays, name: column}), tmp_path))
        if found is not None:
            facts_of(found)
            str(nbgrad.compare(found, made, names=("read", "living")))
            for suffix in (".txt", ".svg"):
                found.save(tmp_path / f"drawn{suffix}")


def paths_in(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to each value in a document."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *[way for step, one in inner for way in paths_in(one, (*path, step))]]


def run(*arguments: str, cwd: Path) -> str:
    """The output of a process of Python with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(Path(nbgrad.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rotated(4)
def test_reading_runs_no_code_and_needs_no_other_package(graph: AutogradGraph, tmp_path: Path) -> None:
    """No code is compiled or run, no class is looked up for a pickle, no process begins and no file is written."""
    again(graph, tmp_path)
    program = """
        import sys
        sys.modules["safetensors"] = None
        import nbgrad
        from nbgrad.run import files
        from nbgrad.widgets import describe
        seen = []
        told = ("exec", "compile", "pickle", "subprocess", "os.", "shutil", "socket", "ctypes.dlopen", "marshal")
        def hook(event, args):
            if event.startswith(told) or (event == "open" and set(str(args[1])) & set("wax+")):
                seen.append((event, str(args)[:80]))
        nbgrad.load("graph.nbgrad")
        sys.addaudithook(hook)
        found = nbgrad.load("graph.nbgrad")
        print(seen, len(found.records), found.history, len(found.findings()))
    """
    output = run("-c", textwrap.dedent(program), cwd=tmp_path)
    assert output == f"[] {len(graph.records)} {graph.history!r} {len(graph.findings())}\n"


def test_fields_that_an_older_file_lacks_have_their_defaults() -> None:
    whole = Operand("input", 3, "leaf", "x", "(4, 3) float32", (4, 3))
    row = JsonForm().written(whole, Operand)
    assert JsonForm().read(row, Operand) == whole
    assert JsonForm().read(row[:-1], Operand) == whole._replace(shape=None)
    for wrong in (row[:-2], [*row, 1]):
        with pytest.raises(MismatchError):
            JsonForm().read(wrong, Operand)


def test_the_form_has_another_number_when_other_fields_are_written() -> None:
    """Whoever changes a class whose fields are written decides whether older files can still be read."""
    seen: dict[str, Any] = {}
    for kind in (saved_facts.SavedFacts, saved_facts._RecordRow, saved_facts._HistoryRow, PictureRow, OpRow):
        collect(kind, seen)
    for kind in (saved_facts._KindRow, saved_facts._ScopeRow, saved_facts._PlaceRow, saved_facts._FrameRow):
        collect(kind, seen)
    collect(saved_facts._Look, seen)
    assert {"Description", "Finding", "KeptStorages", "Failure", "_Look", "Ranking"} <= seen.keys()
    seen |= {kind.__name__: list(fields) for kind, fields in ((Stats, Stats.__slots__), (Record, Record._fields))}
    text = json.dumps({**seen, "settings": sorted(saved_settings._READERS)}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert (FORMAT, digest) == (2, "2f3743654be8ee6a"), (
        "the fields of a file have changed: older files must still be read, or FORMAT is another number"
    )


def collect(hint: Any, seen: dict[str, Any]) -> None:
    """The fields of all classes that are reached from a type hint, by the name of the class."""
    for inner in getattr(hint, "__args__", ()):
        collect(inner, seen)
    if not inspect.isclass(hint) or hint.__name__ in seen or not hint.__module__.startswith("nbgrad"):
        return
    if is_typeddict(hint) or is_dataclass(hint) or hasattr(hint, "_fields"):
        own = get_type_hints(hint)
        seen[hint.__name__] = {name: str(one) for name, one in own.items()}
        for one in own.values():
            collect(one, seen)

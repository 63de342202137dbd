"""Every case of the benchmarks runs, and its contenders compute the same numbers: only then is a ratio fair."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from benchmarks import (
    __main__ as command,
    case as cases,
    cells as one_step,
    chains,
    imports,
    kernels,
    large,
    memory,
    mlp,
    networks,
    programs,
    timing,
    view,
    watching,
    what_if,
)
from benchmarks.case import Case, numbers
from benchmarks.report import Report, overview
from benchmarks.timing import Contender, Spread, in_turns, limit, ratios

pytestmark = pytest.mark.once

NOT_HERE = ("ModuleNotFoundError", "RuntimeError: no usable devices")
"""Allowed reasons for an absent contender: a peer is not installed (the tests need none), or tinygrad has no clang."""

NETWORKS = [case for case in cases.CASES if case.name in networks.NETWORKS and not case.large]
CASES = [chains.SMALL, chains.BROADCAST, chains.BIAS, chains.ROWS, chains.DEEP, mlp.MLP, *NETWORKS]


def check(case: Case) -> set[str]:
    """The contenders that run here agree in three successive calls. Returns their names."""
    made, absent = case.ready()
    unexpected = {
        name: reason
        for name, reason in absent.items()
        if name not in case.absent and not reason.startswith((*NOT_HERE, "RecursionError"))
    }
    assert not unexpected
    wanted = [numbers(made[case.reference].once()) for _ in range(3)]
    for name, contender in made.items():
        if name != case.reference:
            got = [numbers(contender.once()) for _ in range(3)]
            for mine, theirs in zip(got, wanted, strict=True):
                for one, other in zip(mine, theirs, strict=True):
                    np.testing.assert_allclose(one.ravel(), other.ravel(), rtol=case.tolerance, atol=1e-6, err_msg=name)
    return set(made)


@pytest.mark.filterwarnings("ignore")  # warnings of the peers do not matter here
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contenders_compute_the_same_numbers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "LENGTH", 2000)
    assert check(case) >= {"torch", "nbgrad"}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("library", [torch, nbgrad])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_everything_is_on_the_device_that_is_asked_for(
    case: Case, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tensor stays on the processor: it could not be used with those on the other device."""
    monkeypatch.setattr(chains, "LENGTH", 200)
    made = case.made(library.__name__, "meta")
    found = made.once()
    assert {one.device.type for one in (found if isinstance(found, list) else [found])} == {"meta"}


@pytest.mark.rotated(4)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
@pytest.mark.parametrize("name", [*programs.SMALL, "program-mlp"])
def test_a_program_computes_what_the_others_compute(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [one for one in cases.CASES if one.name == name]
    slow = ("torch.compile", "jax.jit", "nbgrad inductor", "nbgrad c", "nbgrad c, reassociate")  # they start a compiler
    monkeypatch.setattr(case, "contenders", {key: one for key, one in case.contenders.items() if key not in slow})
    assert {"torch", "nbgrad", "nbgrad replay"} <= check(case)


def test_a_gpt_is_the_same_in_both_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    size = networks.Size(layers=2, heads=2, width=16, words=50, batch=2, context=8)
    theirs, ours = networks.gpt2(torch, size), networks.gpt2(nbgrad, size)
    losses = [(float(theirs().detach()), float(ours())) for _ in range(5)]
    assert [mine for _, mine in losses] == pytest.approx([one for one, _ in losses], rel=1e-4)
    assert losses[0][0] > losses[-1][0]
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # there is none for that device
    with torch.device("meta"):
        assert networks.gpt2(nbgrad, size)().is_meta
    monkeypatch.setattr(memory, "NETWORKS", {"gpt2": (networks.gpt2, "")})
    assert memory.peaks() == {}, "only on a GPU"


def test_a_gpt_of_full_size_has_as_many_parameters_as_gpt_2_small() -> None:
    with torch.device("meta"):
        held = networks.gpt2(nbgrad).model.parameters()
    assert sum(one.numel() for one in held) == 124_439_808


@pytest.mark.rotated(4)
@pytest.mark.parametrize("make", [partial(one_step.encoder, 1, 2), partial(one_step.residual, 2, 32)])
def test_a_recorded_cell_takes_the_same_step(make: Callable[[], one_step.Program]) -> None:
    plain, recorded = (one_step.contender(make, recorded=recorded) for recorded in (False, True))
    losses = [(float(plain.once()), float(recorded.once())) for _ in range(3)]
    assert [one for one, _ in losses] == [one for _, one in losses]
    assert len(set(losses)) == 3
    found = one_step.peak(make())
    assert found.plain < found.recorded < 2 * found.plain
    table = one_step.markdown({"cell-resnet": one_step.CellPeak(2 << 20, 3 << 20)})
    assert table.endswith("| cell-resnet | 2 MiB | 3 MiB | **1.50** |")


def test_kernels_are_counted() -> None:
    x = torch.ones(1000)
    found = kernels.profile(Contender(lambda y: (y + x).softmax(0), lambda: x * 2), "cpu")
    assert found.kernels == 2, "the sum, and softmax with all that it calls; what is prepared does not count"
    assert 0 < found.busy < 1
    assert 0 < found.returned <= found.ended < 1
    both = kernels.profiles([chains.DEEP, watching.FACTS, mlp.MLP])
    assert both.keys() == {"mlp"}
    assert 10 < both["mlp"]["nbgrad"].kernels < both["mlp"]["torch"].kernels
    assert "| mlp | nbgrad | " in kernels.markdown(both)


@pytest.mark.cuda
def test_the_table_of_a_gpu(tmp_path: Path) -> None:
    asked = ["small", "cnn", "memory", "kernels", "--device", "cuda", "--rounds", "2"]
    assert command.main([*asked, "--output", str(tmp_path)]) == 0
    facts = json.loads((tmp_path / "bench.json").read_text())
    assert facts["device"] == torch.cuda.get_device_name()
    small = facts["threads"]["1"]["small"]
    assert small["compared"].keys() == {"nbgrad"}
    assert small["absent"]["jax"] == "runs on the processor"
    assert 0.5 < facts["memory"]["cnn"]["nbgrad"]["highest"] / facts["memory"]["cnn"]["torch"]["highest"] < 1.1
    assert facts["kernels"]["small"]["nbgrad"] >= 400


def test_every_contender_of_a_case_is_named_whether_it_runs_or_not() -> None:
    everybody = {"torch", "nbgrad", "autograd", "mygrad", "jax", "jax.jit", "tinygrad", "micrograd"}
    for case in CASES:
        assert case.contenders.keys() | case.absent.keys() == everybody


@pytest.mark.parametrize(
    "make", [watching.training, lambda *, watch, steps: watching.forward(graph=bool(watch))], ids=["training", "facts"]
)
def test_a_graph_changes_no_number(make: Callable[..., Contender]) -> None:
    without, recorded, seen = (numbers(make(watch=watch, steps=3).once()) for watch in (None, False, True))
    assert all(np.isfinite(one).all() for one in without)
    for one, two, three in zip(without, recorded, seen, strict=True):
        assert (one == two).all()
        assert (one == three).all()


def test_as_many_edges_are_poured_as_rustworkx_is_given_alone() -> None:
    assert watching.pouring(nodes=100).once() == watching.bare(nodes=100).once() == 200


@pytest.mark.rotated(4)
def test_the_parts_of_a_start_are_timed() -> None:
    times = imports.times(2)
    assert imports.REFERENCE in times
    assert [len(taken) for taken in times.values()] == [2, 2, 2]
    assert all(seconds > 0 for taken in times.values() for seconds in taken)


def test_a_start_finds_what_python_has_compiled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(
        imports, "PROGRAM", "import sys; print('{\"keeps\": 1}' if not sys.dont_write_bytecode else '{}')"
    )
    assert imports.times(2) == {"keeps": [1, 1]}


@pytest.mark.parametrize("name", [case.name for case in NETWORKS])
def test_a_step_takes_no_more_memory_than_torchs(name: str) -> None:
    theirs, ours = memory.peak(torch, name), memory.peak(nbgrad, name)
    assert ours.kept is not None
    assert 0 < ours.kept < ours.highest <= theirs.highest
    assert 0 < memory.program_peak(name).highest <= theirs.highest


@pytest.mark.rotated(6)
def test_pictures_are_timed_and_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"gpt": lambda: view.gpt(2), "rnn": lambda: view.rnn(3), "large": lambda: view.large(33, 10)}
    monkeypatch.setattr(view, "GRAPHS", {name: (make, name) for name, make in small.items()})
    found = view.all_sent(2)
    for one in found.values():
        assert len(one.seconds) == 2
        assert all(0 < seconds < busy for seconds, busy in zip(one.seconds, one.busy, strict=True))
        assert 1000 < one.payload < one.output
        assert one.kept > 1000
    assert [found[name].ops for name in small] == [2 * 70 + 4, 3 * 5 + 2, 331]
    assert found["rnn"].unfold == []
    assert len(found["large"].unfold) == len(found["large"].later) == 2
    assert found["large"].unfolded > 33
    assert "| large | 331 | **" in view.markdown(found)


def test_the_answers_of_a_kernel_are_timed() -> None:
    made = what_if.graph(10)
    assert made.records[-1].value.norm is not None
    found = what_if.kernel_answers(made, turns=4)
    assert len(found) == 3
    assert all(seconds > 0 for seconds in found)


def test_memory_is_counted() -> None:
    def run() -> torch.Tensor:
        kept = torch.zeros(1000)
        torch.zeros(5000)
        return kept

    levels = memory.allocations(run)
    assert levels == [0, 4000, 24000, 4000]


# The tester is tested, and the clock.


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case that no other test sees."""
    monkeypatch.setattr(cases, "CASES", [])
    made = Case("made up", "a number", reference="right")
    made.contender("right")(lambda: Contender(lambda _: [1.0]))
    return made


def test_a_contender_with_another_number_is_caught(case: Case) -> None:
    case.contender("wrong")(lambda: Contender(lambda _: [1.001]))
    with pytest.raises(AssertionError, match="wrong"):
        check(case)


def test_a_contender_that_fails_is_named_with_its_reason(case: Case) -> None:
    def broken() -> Contender:
        raise LookupError("no such thing")

    case.contender("broken")(broken)
    times, absent = case.times(2, least=1e-6)
    assert times.keys() == {"right"}
    assert absent == {"broken": "LookupError: no such thing"}
    with pytest.raises(AssertionError, match="no such thing"):
        check(case)


def test_the_contenders_are_made_in_another_order_in_every_turn(case: Case) -> None:
    for name in "bc":
        case.contender(name)(lambda: Contender(lambda _: [1.0]))
    assert ["".join(case.ready(turn)[0]) for turn in range(4)] == ["rightbc", "bcright", "crightb", "rightbc"]


def test_the_rounds_of_several_processes_are_put_together(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    def measured(_: list[Case], threads: int, rounds: int, turn: int, device: str) -> dict[str, Any]:
        assert (threads, device) == (2, "cuda")
        times = {"right": [1.0 + turn] * rounds, "other": [10.0 + turn] * rounds}
        absent = {} if turn else {"other": "too slow this time"}
        return {"made up": {"times": {name: times[name] for name in times if name not in absent}, "absent": absent}}

    monkeypatch.setattr(command, "in_a_process", measured)
    found = command.in_processes([case], 2, 5, 2, "cuda")
    assert found == {
        "made up": {"times": {"right": [1.0, 1.0, 1.0, 2.0, 2.0]}, "absent": {"other": "too slow this time"}}
    }
    assert command.in_processes([case], 2, 1, 3, "cuda")["made up"]["times"] == {"right": [1.0]}, (
        "no process without a round"
    )


def test_contenders_take_turns_and_the_first_one_changes() -> None:
    turns: list[str] = []

    def contender(name: str) -> Contender:
        return Contender(lambda _: turns.append(name), lambda: None)

    in_turns({name: contender(name) for name in "abc"}, rounds=3, least=0.0)
    assert "".join(turns) == "abc" + "abc" + "bca" + "cab"  # the first three calls measure how long one call takes


@pytest.mark.rotated(3)
@pytest.mark.parametrize("make", [watching.training, watching.chains, watching.images])
def test_no_graph_is_open_while_another_contender_runs(
    make: Callable[..., Contender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open graph would slow the plain program down: torch calls the graph's mode in every thread that has it."""
    for name, short in (("STEPS", 2), ("CHAINS", 2), ("PASSES", 1), ("SIDE", 32)):
        monkeypatch.setattr(watching, name, short)
    torchs = torch.nn.Module.__call__
    made = make(torch, watch=True, steps=2) if make is watching.training else make(watch=True)
    seen: list[bool] = []

    def without(_: Any) -> None:
        open_here = torch._C._len_torch_function_stack() > 0 or torch.nn.Module.__call__ is not torchs
        seen.append(open_here)

    in_turns({"without": Contender(without), "recorded": made}, rounds=2, least=0.0)
    assert seen == [False] * 3


@pytest.mark.rotated(3)
@pytest.mark.skipif(not nbgrad.compiled(), reason="it is compiled as the recorder is")
@pytest.mark.parametrize("watch", [watching.LEAST, watching.LEAST_KEEPING])
def test_the_least_recorder_changes_no_number_and_is_gone_afterwards(
    watch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STEPS", 2)
    monkeypatch.setattr(watching, "CHAINS", 2)
    with watching.graph_of(watch):
        assert torch._C._len_torch_function_stack() == 1
        facts = torch._C._get_function_stack_at(0).facts
        assert torch.ones(2, requires_grad=True).exp().grad_fn is not None
        assert len(facts) == 1
    assert torch._C._len_torch_function_stack() == 0
    for make in (watching.chains, partial(watching.training, torch, steps=2)):
        assert torch.equal(make(watch=watch).once(), make(watch=None).once())


@pytest.mark.parametrize("prepare", [None, lambda: None])
def test_a_gpu_is_waited_for_within_the_time(prepare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "finished", lambda: time.sleep(0.01))
    assert Contender(lambda _: None, prepare).time(1) >= 0.01


def test_what_is_prepared_is_not_timed() -> None:
    def prepare() -> Any:
        return sum(range(300_000))

    assert Contender(lambda total: total, prepare).time(3) < Contender(lambda _: prepare()).time(3) / 10


def test_a_ratio_is_taken_within_a_round() -> None:
    slow_second_round = [2.0, 20.0, 2.0]
    assert ratios(slow_second_round, [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.0)
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(3.0, 2.0, 4.0)


def test_a_call_that_takes_too_long_is_interrupted() -> None:
    with pytest.raises(TimeoutError, match="not done in 1 s"), limit(1):
        time.sleep(10)


@pytest.mark.rotated(6)
def test_the_command_writes_tables_and_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["facts", "--rounds", "2", "--threads", "1", "--output", str(tmp_path)]) == 0
    written = (tmp_path / "bench.md").read_text()
    assert written in capsys.readouterr().out
    assert "## 1 thread" in written
    assert "| no graph |" in written
    facts = json.loads((tmp_path / "bench.json").read_text())
    compared = facts["threads"]["1"]["facts"]["compared"]
    assert compared["a graph that keeps no tensor"]["ratio"] > 0


def test_one_table_has_the_ratios_of_all_cases(case: Case) -> None:
    case.reference = "torch"
    other = Case("alone", "no library beside torch", reference="torch")
    times = {"torch": [1.0, 2.0, 1.0], "nbgrad": [0.5, 1.0, 0.6], "slow": [31.0, 62.0, 31.0], "quick": [0.1, 0.2, 0.1]}
    measured = {"made up": {"times": times}, "alone": {"times": {"torch": [1.0, 1.0]}}}
    assert overview([case, other], {1: measured, 2: measured}).splitlines() == [
        "| times torch's time | nbgrad, 1 thread | nbgrad, 2 threads | the others, 1 thread |",
        "|---|---|---|---|",
        "| `made up` | 0.50 (0.50 to 0.55) | 0.50 (0.50 to 0.55) | quick 0.1, slow 31 |",
    ]
    assert overview([other], {1: measured}) == ""
    alone = Report([], 2, {}, starting={}, peaks={}, profiles={}, pictures={})
    assert alone.markdown().startswith("# Benchmarks"), "of a picture alone there are no ratios"


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "there is no case nothing: there are" in capsys.readouterr().err


def test_plain_python_is_measured_only_on_purpose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "why_not", lambda: "graph.py changed after it was compiled. Run make compile")
    monkeypatch.delenv("NBGRAD_COMPILED", raising=False)
    with pytest.raises(SystemExit):
        command.parse(["mlp"])
    assert "plain Python: graph.py changed after it was compiled. Run make compile" in capsys.readouterr().err
    monkeypatch.setenv("NBGRAD_COMPILED", "0")
    assert command.parse(["mlp"]).tables == ["mlp"]


def test_what_is_measured_where(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    usual = command.parse([])
    assert {"start", "view", "memory", "cnn", "distributed"} <= set(usual.tables)
    assert not {"gpt2", "kernels"} & set(usual.tables)
    assert usual.threads == [1, 2]
    with pytest.raises(SystemExit):
        command.parse(["cnn", "gpt2"])
    assert "gpt2: a step takes minutes on a processor: add --device cuda" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        command.parse(["--device", "cuda"])
    assert "--device cuda: torch finds no CUDA device here" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    there = command.parse(["--device", "cuda"])
    assert {"gpt2", "kernels", "memory", "training"} <= set(there.tables)
    assert not {"start", "view", "distributed"} & set(there.tables)
    assert there.threads == [1]
    assert "gpt2" in [case.name for case in there.profiled]


@pytest.mark.parametrize("name", programs.STEPS)
def test_a_step_in_jaxs_words_is_torchs(name: str) -> None:
    pytest.importorskip("jax", reason="jax comes with the extra bench")
    make, _ = programs.STEPS[name]
    theirs, jaxs = networks.stepping(make, torch), programs.jax_networks.contender(name, make)
    losses = [float(theirs.once().detach()) for _ in range(4)]
    assert [float(jaxs.once()) for _ in range(4)] == pytest.approx(losses, rel=1e-4)
    assert losses[0] > losses[-1]


@pytest.mark.parametrize("mode", large.MODES)
def test_a_model_is_recorded_without_memory(mode: str) -> None:
    graph = large.recorded(mode, 1, length=8, layers=2, size=8, heads=2, words=11)
    assert graph.fault is None
    assert graph.backwards == 1
    assert sum(one.kind_or_op == "scaled_dot_product_attention" for one in graph.records) == 2
    # The words, the places and the last norm; of each layer two norms, the attention and the perceptron.
    numbers = 11 * 8 + 8 * 8 + 16 + 2 * (32 + (8 * 24 + 24 + 8 * 8 + 8) + (8 * 32 + 32 + 32 * 8 + 8))
    assert sum(prod(one.shape) for one in graph.records if one.kind == "parameter") == numbers

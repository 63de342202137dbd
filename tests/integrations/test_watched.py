"""``nbgrad.watched``: a plain loop is recorded, and does not notice it. And the parts that all trainers share."""

import gc
import logging
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from torch import nn

import nbgrad
from nbgrad.core.recorder.switches import follows
from nbgrad.integrations import watched
from nbgrad.integrations.abandoned import Abandonment
from nbgrad.integrations.norms import StepNorms
from nbgrad.integrations.training import RecordedTraining, TrainingPlan
from nbgrad.integrations.writers import writer_of
from tests.integrations.trainings import batches, net, sharded, train
from tests.nn.parallel.processes import values

LOG = logging.getLogger("nbgrad")


class Lines(logging.Handler):
    """The lines of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))

    def of(self, level: str) -> list[str]:
        return [text for given, text in self.lines if given == level]


@pytest.fixture
def log() -> Any:
    handler, before = Lines(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler
    LOG.removeHandler(handler)
    LOG.setLevel(before)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_watched_loop_learns_the_same_to_the_bit(accumulate: int, log: Lines) -> None:
    loop = batches()
    plain = train(net(), [loop, loop], accumulate=accumulate)
    model = net()
    recorded = train(model, [watched(loop, model), watched(loop, model)], accumulate=accumulate)
    assert all(map(torch.equal, plain, recorded))
    assert log.of("WARNING") == log.of("ERROR") == []
    assert follows() == 0


def test_each_pass_is_an_epoch_in_the_folder_and_the_folder_is_the_run(tmp_path: Path) -> None:
    model = net()
    loop = nbgrad.watched(batches(), model, save=tmp_path / "run", suffix=".nbgrad", every=1)
    train(model, [loop, loop])
    assert sorted(one.name for one in (tmp_path / "run").iterdir()) == ["epoch-0001.nbgrad", "epoch-0002.nbgrad"]
    found = nbgrad.load(tmp_path / "run")
    assert isinstance(found, nbgrad.run.files.SavedRun)
    assert [one.backwards for one in found] == [6, 6]
    assert [one.number for one in found.losses] == [*range(1, 13)]
    assert len(loop) == 6
    assert loop.graph.closed


def test_pages_of_passes_made_one_by_one_do_not_replace_each_other(tmp_path: Path) -> None:
    model = net()
    train(model, (watched(batches(2), model, save=tmp_path, suffix=".txt") for _ in range(2)))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["epoch-0001.txt", "epoch-0002.txt"]


def test_writers_get_loss_norms_and_updates_once_a_step() -> None:
    told: list[tuple[dict[str, float], int]] = []
    model = net()
    train(model, [watched(batches(4), model, every=1, writers=[lambda *given: told.append(given)])], accumulate=2)
    assert [step for _, step in told] == [2, 4]
    values, _ = told[0]
    assert set(values) == {
        "nbgrad/loss",
        *(f"nbgrad/{number}{part}" for number in ("gradient_norm", "update_ratio") for part in ("", "/0", "/2")),
    }
    assert values["nbgrad/gradient_norm"] == pytest.approx(
        math.hypot(values["nbgrad/gradient_norm/0"], values["nbgrad/gradient_norm/2"])
    )
    assert values["nbgrad/update_ratio"] == max(values["nbgrad/update_ratio/0"], values["nbgrad/update_ratio/2"]) > 0


def test_the_norms_are_those_of_the_gradients_by_parameter() -> None:
    told: list[dict[str, float]] = []
    model = net()
    loop = watched(batches(2), model, every=1, norms="parameter", writers=[lambda found, _: told.append(found)])
    expected, optimizer = [], torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loop:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        expected.append({name: one.grad.norm().item() for name, one in model.named_parameters()})  # type: ignore[union-attr]
    assert len(told) == 2
    for found, wanted in zip(told, expected, strict=True):
        assert {
            f"nbgrad/gradient_norm/{name}": pytest.approx(norm) for name, norm in wanted.items()
        }.items() <= found.items()


def test_several_optimizers_of_one_batch_are_one_step_with_the_gradients_of_both() -> None:
    told: list[tuple[dict[str, float], int]] = []
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    both = torch.nn.ModuleDict({"first": first, "second": second})
    optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (first, second)]
    for x, _ in watched(batches(3), both, every=1, writers=[lambda *given: told.append(given)]):
        for optimizer, loss in zip(optimizers, (-second(first(x)).mean(), second(x).square().mean()), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert {"nbgrad/gradient_norm/first", "nbgrad/gradient_norm/second"} <= set(told[-1][0])


@pytest.mark.parametrize("error", [None, ValueError("of the loop"), KeyboardInterrupt()])
def test_a_loop_that_is_left_is_recorded_no_longer(error: BaseException | None, tmp_path: Path) -> None:
    model = net()
    loop = watched(batches(), model, save=tmp_path, suffix=".txt")
    try:
        for x, y in loop:
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if error is not None:
                raise error
            break
    except (ValueError, KeyboardInterrupt):
        pass
    assert loop.graph.closed
    assert follows() == 0
    assert [one.name for one in tmp_path.iterdir()] == ["epoch-0001.txt"]


def test_an_error_of_the_loader_is_raised_and_shown(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from batches(1)
        raise OSError("the disk is gone")

    model = net()
    loop = watched(broken(), model)
    with pytest.raises(OSError, match="the disk is gone"):
        train(model, [loop])
    assert loop.graph.closed
    assert loop.graph.ending.kind == "OSError"


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "a list": lambda rows, _: watched(rows),
    "a list and the model": watched,
    "a generator": lambda rows, _: watched(one for one in rows),
    "a loader made for each epoch": lambda rows, _: watched(torch.utils.data.DataLoader(rows, batch_size=None)),
    "a wrapper made for each epoch": lambda rows, model: watched(rows, nn.Sequential(model)),
}
"""How a loop of epochs may watch its batches, of which it knows a list, and its model."""


@pytest.mark.parametrize("form", FORMS)
def test_a_finding_is_logged_once_with_its_severity(form: str, log: Lines) -> None:
    model, rows = net(), batches(24)
    train(model, (FORMS[form](rows, model) for _ in range(3)), rate=1e-12)
    [told] = log.of("ERROR")
    assert re.match(r"nbgrad: \S+trainings.py:\d+: error: SGD has a learning rate of 1e-12", told)
    assert told.endswith("[no change]")
    assert len(log.of("INFO")) == 3
    assert all(": 24 steps, 24 backwards, " in one for one in log.of("INFO"))

    train(net(), [watched(rows)], rate=1e-12)
    assert len(log.of("ERROR")) == 2, "another model has the fault, too"


def test_trainings_of_one_model_are_one_run_for_every_trainer(log: Lines) -> None:
    model, rows = net(), batches(24)
    for _ in range(2):
        training = RecordedTraining(TrainingPlan("here"), {"model": model}, log=LOG)
        train(model, [rows], rate=1e-12)
        training.batch_ended(24)
        training.epoch_ended(1)
        training.end()
    assert len(log.of("ERROR")) == 1


def test_a_writer_that_fails_gets_no_more_numbers(log: Lines) -> None:
    def broken(*_: Any) -> None:
        raise ConnectionError("no network")

    told: list[int] = []
    loop, model = batches(), net()
    watching = watched(loop, model, every=1, writers=[broken, lambda _, step: told.append(step)])
    assert all(map(torch.equal, train(net(), [loop]), train(model, [watching])))
    assert log.of("WARNING") == ["nbgrad: a writer gets no more numbers: ConnectionError: no network"]
    assert told == [1, 2, 3, 4, 5, 6]


def test_the_training_goes_on_if_its_recording_fails(log: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise ZeroDivisionError("of nbgrad's own")

    monkeypatch.setattr(StepNorms, "backward_ended", broken)
    loop, model = batches(), net()
    recorded = train(model, [watched(loop, model, writers=[print])])
    assert all(map(torch.equal, train(net(), [loop]), recorded))
    [told] = log.of("WARNING")
    assert told == "nbgrad: the training is recorded no longer, and goes on: ZeroDivisionError: of nbgrad's own"
    assert follows() == 0


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, log: Lines) -> None:
    model = net()
    loop = watched(batches(2), model, save=tmp_path / "run", suffix=".txt")
    (tmp_path / "run").rmdir()
    (tmp_path / "run").touch()
    train(model, [loop])
    [told] = log.of("WARNING")
    assert told.startswith("nbgrad: ")
    assert "was not written" in told


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"evry": 2}, TypeError, r"watched\(\) has no option evry, only name, .*; did you mean every\?"),
        ({"ranks": True}, TypeError, "nbgrad.record has it"),
        ({"norms": "layer"}, ValueError, "norms='layer': it has to be 'module', 'parameter' or None"),
        ({"suffix": "html"}, ValueError, r"suffix='html': it has to be one of \.svg"),
        ({"writers": [3]}, TypeError, "a int has no add_scalar, log_metrics or log"),
        ({"cost": 7}, ValueError, "cost=7"),
    ],
)
def test_a_wrong_argument_is_said_before_the_loop(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        watched(batches(), **given)


def test_a_model_is_no_loader() -> None:
    with pytest.raises(TypeError, match=r"got a Sequential: give the loader first, then the model"):
        watched(net(), batches())


def test_every_kind_of_writer_is_called_as_it_wants() -> None:
    class Told:
        def __init__(self, name: str) -> None:
            self.calls: list[Any] = []
            setattr(self, name, lambda *given, **named: self.calls.append((given, named)))

    for name, calls in (
        ("add_scalar", [(("a", 1.0, 3), {}), (("b", 2.0, 3), {})]),
        ("log_metrics", [(({"a": 1.0, "b": 2.0}, 3), {})]),
        ("log", [(({"a": 1.0, "b": 2.0},), {"step": 3})]),
    ):
        told = Told(name)
        writer_of(told)({"a": 1.0, "b": 2.0}, 3)
        assert told.calls == calls


class Run:
    """A run of Weights & Biases: a counter of rows, and the row that the next ``log`` completes."""

    def __init__(self) -> None:
        self.step, self.rows, self.row, self.axes = 0, list[Any](), dict[str, float](), dict[str, Any]()

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, values: dict[str, float], commit: bool = True) -> None:
        self.row.update(values)
        if commit:
            self.rows.append(self.row)
            self.row, self.step = {}, self.step + 1


def test_a_run_of_weights_and_biases_keeps_the_rows_of_the_program(log: Lines) -> None:
    run, tracked = Run(), Run()
    tracked_by = type("Tracker", (), {"tracker": tracked})()
    accelerator = type("Accelerator", (), {"trackers": [tracked_by], "log": None})()
    for each, one in ((run, run), (accelerator, tracked)):
        write = writer_of(each)
        for step in (1, 2):
            write({"nbgrad/loss": float(step)}, step)
            one.log({"mine": 0.5})
        assert one.axes == {"nbgrad/step": None, "nbgrad/*": "nbgrad/step"}
        assert one.rows == [{"nbgrad/step": step, "nbgrad/loss": step, "mine": 0.5} for step in (1, 2)]
        assert log.lines == []
        write({"nbgrad/loss": 3.0}, 3)
        write({"nbgrad/loss": 4.0}, 4)
        write({"nbgrad/loss": 5.0}, 5)
        (line,) = log.of("WARNING")
        assert line.endswith(
            "With writers=[lambda values, step: run.log(values)] all are kept, each in a row of its own"
        )
        log.lines.clear()
        writer_of(each)({"nbgrad/loss": 6.0}, 6)  # in the next pass
        assert log.lines == []


@pytest.mark.parametrize("names_the_model", [True, False])
def test_the_steps_of_a_model_go_on_in_its_next_pass_over_a_list(names_the_model: bool) -> None:
    told: list[int] = []
    model = net()
    known = (model,) if names_the_model else ()
    train(model, (watched(batches(2), *known, every=1, writers=[lambda _, step: told.append(step)]) for _ in range(2)))
    assert told == [1, 2, 3, 4]


def test_the_steps_of_nbgrads_own_modules_go_on() -> None:
    told: list[int] = []
    model = nbgrad.nn.Linear(2, 1)
    optimizer = nbgrad.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x in watched([[[1.0, 2.0]], [[3.0, 1.0]]], every=1, writers=[lambda _, step: told.append(step)]):
            optimizer.zero_grad()
            model(nbgrad.tensor(x)).square().sum().backward()
            optimizer.step()
    assert told == [1, 2, 3, 4]


def test_a_loop_that_an_error_has_ended_is_noticed() -> None:
    ended: list[Any] = []

    def loop() -> None:
        watch.append(Abandonment(sys._getframe(), lambda error: (ended.append(error), watch[0].stop())))
        torch.ones(2, requires_grad=True).sum().backward()
        assert ended == []
        raise ValueError("lost")

    watch: list[Abandonment] = []
    with nbgrad.AutogradGraph():
        with pytest.raises(ValueError, match="lost"):
            loop()
        torch.ones(2, requires_grad=True).sum().backward()
        assert ended == [None]
        torch.ones(2, requires_grad=True).sum().backward()
        assert ended == [None]


def test_the_cell_of_a_notebook_ends_it(shell: Any) -> None:
    ended: list[Any] = []
    watch = Abandonment(sys._getframe(), lambda error: (ended.append(error), watch.stop()))
    shell.run_cell("1 / 0")
    shell.run_cell("1 / 0")
    assert [type(one) for one in ended] == [ZeroDivisionError]


LOST = """
import sys
from nbgrad.integrations.abandoned import Abandonment
watch = Abandonment(sys._getframe(), lambda error: print(repr(error), watch.stop()))
raise ValueError("lost")
"""


@pytest.mark.rotated(3)
def test_the_end_of_the_program_ends_it() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LOST], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == "ValueError('lost') None\n", done.stderr


def test_the_graph_that_is_kept_keeps_no_model() -> None:
    model = net()
    loop = watched(batches(2), model)
    train(model, [loop])
    graph, gone = loop.graph, ref(model)
    del model, loop
    gc.collect()
    assert gone() is None
    assert graph.backwards == 2


def test_a_training_ends_once() -> None:
    training = RecordedTraining(TrainingPlan("here"), {}, log=LOG)
    assert follows() == 1
    training.end()
    training.end(ValueError("late"))
    training.batch_ended(1)
    training.epoch_ended(1)
    assert training.graph.ending is None
    assert follows() == 0


def test_a_plan_can_be_sent_to_another_process(tmp_path: Path) -> None:
    plan = TrainingPlan("here", tmp_path / "a", options={"every": 2})
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.folder == tmp_path / "a"


@pytest.mark.rotated(2)
def test_one_of_two_processes_of_fsdp_is_recorded_and_none_notices_it(tmp_path: Path) -> None:
    plain = values(sharded, 2, False, str(tmp_path))
    recorded = values(sharded, 2, True, str(tmp_path))
    assert [learned for learned, *_ in recorded] == [learned for learned, *_ in plain]
    (_, facts, told), (_, other, silent) = recorded
    assert facts == (6, None, [])
    assert (other, silent) == (None, [])
    assert [step for _, step in told] == [1, 2, 3, 4, 5, 6]
    assert {"nbgrad/loss", "nbgrad/gradient_norm/0", "nbgrad/gradient_norm/2"} <= set(told[0][0])
    assert [one.name for one in tmp_path.iterdir()] == ["epoch-0001.html"]


BARE = """
import sys
import nbgrad.integrations
assert "torch" not in sys.modules
sys.modules["lightning"] = sys.modules["transformers"] = sys.modules["pytorch_lightning"] = None
for name in ("LightningCallback", "TransformersCallback"):
    try:
        getattr(nbgrad.integrations, name)
    except ModuleNotFoundError as error:
        print(error)
try:
    nbgrad.integrations.Lightningcallback
except AttributeError as error:
    print(error)
"""


@pytest.mark.rotated(3)
def test_without_the_package_of_a_trainer_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", BARE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "nbgrad.integrations.LightningCallback needs the package lightning: pip install lightning",
        "nbgrad.integrations.TransformersCallback needs the package transformers: pip install transformers",
        "module 'nbgrad.integrations' has no attribute 'Lightningcallback'; did you mean LightningCallback?",
    ]

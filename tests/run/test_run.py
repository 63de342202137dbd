"""``nbgrad run``: a program runs as without it, is recorded, and is reported at its end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from tests.run.commands import OWN, ROOT, nbgrad, python, started, training

pytestmark = pytest.mark.once


def report_of(result: "subprocess.CompletedProcess[str]") -> list[str]:
    """The lines of the report."""
    lines = result.stderr.splitlines()
    *_, first = (at for at, line in enumerate(lines) if line.startswith("nbgrad: "))  # a note is before it
    return lines[first:]


@pytest.mark.rotated(3)
def test_a_training_is_reported_and_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training("nn.Identity()", "import os; os.chdir('/')"))
    (tmp_path / "out").mkdir()
    files = ["run.html", "out/run.svg", "out/run.txt", "out/run.json"]
    saved = [word for file in files for word in ("--save", file)]
    result = nbgrad("run", *saved, "--name", "two layers", "train.py", "5", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "the loss is True\n"
    head, loss, totals, checks, finding, *wrote = report_of(result)
    assert head.startswith("nbgrad: train.py, 5 steps (5 backwards, all recorded) in ")
    assert loss.startswith("  loss ")
    assert loss.endswith("  train.py:23")
    assert "█" in loss
    assert "▁" in loss
    assert totals == "  49 parameters"
    assert checks.startswith("  1 finding; of ")
    assert finding.startswith("  train.py:12: warning: linear at train.py:12, ")
    assert finding.endswith(" [no activation]")
    assert wrote == [f"  wrote {file}" for file in files]
    assert "<html" in (tmp_path / "run.html").read_text("utf-8")
    assert (tmp_path / "out" / "run.svg").read_text("utf-8").startswith("<svg")
    assert (tmp_path / "out" / "run.txt").read_text("utf-8").startswith("two layers: ")
    described = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert {scope["label"] for scope in described["scopes"]} == {"Net", "first (Linear)", "second (Linear)"}


@pytest.mark.rotated(6)
def test_a_program_of_nbgrads_own_tensors_is_reported(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    result = nbgrad("run", "--save", "own.txt", "own.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == python("own.py", cwd=tmp_path).stdout
    head, loss, totals, *_ = report_of(result)
    assert head.startswith("nbgrad: own.py, 5 steps (5 backwards, all recorded) in ")
    assert loss.startswith("  loss 5 █▅▃▂▁ 0.8389  own.py:7")
    assert "2 parameters" not in totals, "a leaf is no parameter"
    assert " w " in (tmp_path / "own.txt").read_text("utf-8")


@pytest.mark.rotated(6)
def test_an_error_is_pythons_own_and_the_graph_is_that_of_the_failed_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(after="net(x[:, :2]) if step == 1 else None"))
    plain = python("train.py", "9", cwd=tmp_path)
    ours = nbgrad("run", "--save", "run.txt", "train.py", "9", cwd=tmp_path)
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.startswith(plain.stderr), "the traceback of Python, then the report"
    head, *rest = report_of(ours)
    assert ", 2 steps (2 backwards, " in head
    assert head.endswith(", ended by RuntimeError at train.py:12")
    assert rest[3].startswith("  train.py:12: error: linear raised RuntimeError: mat1 and mat2 shapes cannot be mul")
    assert rest[-1] == "  wrote run.txt"
    assert "linear  raised RuntimeError" in (tmp_path / "run.txt").read_text("utf-8")


ENDS = {
    "sys.exit(7)": (7, ""),
    "sys.exit('words')": (1, "words\n"),
    "os._exit(4)": (4, ""),
    "os.kill(os.getpid(), 15)": (-15, ""),
}


@pytest.mark.rotated(6)
@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_with_its_own_status(tmp_path: Path, end: str) -> None:
    (tmp_path / "ends.py").write_text(f"import atexit, os, sys\n{OWN}\natexit.register(print, 'at exit')\n{end}\n")
    plain, ours = python("ends.py", cwd=tmp_path), nbgrad("run", "--save", "run.txt", "ends.py", cwd=tmp_path)
    status, told = ENDS[end]
    assert ours.returncode == plain.returncode == status
    assert ours.stdout == plain.stdout
    assert plain.stderr == told
    written = end.startswith("sys")
    assert (tmp_path / "run.txt").exists() == written, "nothing can run after os._exit or a signal"
    assert ("5 steps" in ours.stderr) == written
    assert told in ours.stderr


def read_until(stream: "IO[str] | None", text: str) -> str:
    """Everything up to the first line with ``text``."""
    assert stream is not None
    got = ""
    for line in stream:
        got += line
        if text in line:
            return got
    raise AssertionError(f"{text!r} did not come: {got}")


FOREVER = """
import time, torch
w = torch.ones(3, requires_grad=True)
try:
    while True:
        (w * w).sum().backward()
        print("stepped", flush=True)
        time.sleep(0.01)
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.rotated(3)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_reaches_the_program_and_the_graph_is_written(tmp_path: Path) -> None:
    (tmp_path / "forever.py").write_text(FOREVER)
    with started("run", "--save", "run.txt", "forever.py", cwd=tmp_path) as process:
        read_until(process.stdout, "stepped")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, "as Python dies of it"
    assert out.endswith("cleaned up\n")
    assert err.startswith("Traceback (most recent call last):\n  File ")
    assert "nbgrad/" not in err.partition("KeyboardInterrupt")[0]
    assert ", stopped at forever.py:" in err
    assert err.endswith("  wrote run.txt\n")
    assert (tmp_path / "run.txt").exists()


@pytest.mark.rotated(3)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    (tmp_path / "forever.py").write_text(FOREVER)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nclass Slow:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'nbgrad.widgets.render.text':\n"
        "            import time\n            print('writing', file=sys.stderr, flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    paths = f"{tmp_path}{os.pathsep}{ROOT}"
    with started("run", "--save", "run.txt", "forever.py", cwd=tmp_path, PYTHONPATH=paths) as process:
        read_until(process.stdout, "stepped")
        process.send_signal(signal.SIGINT)
        drained = threading.Thread(target=lambda: process.stdout and process.stdout.read())
        drained.start()
        read_until(process.stderr, "writing")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == -signal.SIGINT
        drained.join()
    assert not (tmp_path / "run.txt").exists()


@pytest.mark.rotated(3)
def test_the_last_of_many_quick_steps_is_exact(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training())
    head, *_ = report_of(nbgrad("run", "--steps", "333", "train.py", "1000", cwd=tmp_path))
    assert head.startswith("nbgrad: train.py, 333 steps (333 backwards, ")
    assert "all recorded" not in head


@pytest.mark.rotated(3)
def test_only_so_many_steps_are_recorded_if_that_is_asked(tmp_path: Path) -> None:
    after = "print('step', step, flush=True)"
    (tmp_path / "train.py").write_text(training(after=f"{after}; print('step', step, file=sys.stderr, flush=True)"))
    result = nbgrad("run", "--steps", "3", "--every", "2", "--save", "run.txt", "train.py", "6", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("step") == 6
    before, _, after = result.stderr.partition("nbgrad: ")
    assert before.count("step ") == 2, "the report comes when the recording ends, within the third step"
    assert after.startswith("train.py, 3 steps (3 backwards, all recorded) in ")
    assert "; it is recorded no longer, and goes on\n" in after
    assert after.count("step ") == 4
    assert "wrote run.txt" in after


@pytest.mark.rotated(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_nothing_and_a_thread_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(
        "import os, sys, threading\nif os.fork() == 0:\n    print('child')\n    raise LookupError('of the child')\n"
        "os.wait()\nprint('parent')\n"
        "import torch\n"
        "def work():\n    torch.ones(2, requires_grad=True).sum().backward()\n    print('trained')\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    result = nbgrad("run", "--save", "run.txt", "forks.py", cwd=tmp_path)
    assert result.returncode == 0
    assert sorted(result.stdout.split()) == ["child", "parent", "trained"]
    assert result.stderr.count("LookupError: of the child") == 1
    head, told, *_ = report_of(result)
    assert head.startswith("nbgrad: forks.py, no backward in ")
    assert told.startswith("  nothing was recorded in the main thread. The thread Thread-1 (work) ran 1 backward, at ")
    assert (
        "forks.py:9. They are not recorded: nbgrad run records the first thread that trains, and notices one " in told
    )
    assert "with nbgrad.record(save='thread.html'):" in told


THREADS = """
import asyncio, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

def train(steps, fails=None, adds=1, delay=0):
    import torch
    time.sleep(delay)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    x = torch.randn(16, 4)
    for step in range(steps):
        if step == fails:
            net(x[:, :3])
        loss = net(x).square().mean() / adds
        loss.backward()
        if step % adds == adds - 1:
            optimizer.step()
            optimizer.zero_grad()
        DONE.append(step)

DONE = []

def thread(*given, name="trainer", **more):
    made = threading.Thread(target=train, args=given, name=name, **more)
    made.start()
    return made

WAYS = {
    "waits": lambda: thread(30).join(),
    "adds": lambda: thread(30, None, 3).join(),
    "fails": lambda: thread(30, 7).join(),
    "pool": lambda: ThreadPoolExecutor().submit(train, 30, 7).result(),
    "copied context": lambda: (__import__("torch"), asyncio.run(asyncio.to_thread(train, 30))),
    "task": lambda: asyncio.run(asyncio.to_thread(train, 30)),
    "several": lambda: [thread(many, name=name).join() for name, many in (("A", 30), ("B", 20))],
    "main later": lambda: (thread(30).join(), train(20)),
    "main first": lambda: (train(20), thread(30).join()),
    "is left": lambda: (__import__("torch"), thread(3, None, 1, 4)),
    "goes on": lambda: (thread(10 ** 9, daemon=True), [time.sleep(0.01) for _ in iter(lambda: len(DONE) < 50, False)]),
}
WAYS[sys.argv[1]]()
"""


@pytest.mark.rotated(3)
@pytest.mark.parametrize(
    ("way", "steps", "told"),
    [
        (
            "waits",
            "29 steps (29 backwards, all ",
            "The thread trainer is recorded. Before it was noticed, it ran 1 b",
        ),
        (
            "adds",
            "10 steps (28 backwards, all ",
            "The thread trainer is recorded. Before it was noticed, it ran 2 b",
        ),
        ("several", "29 steps (29 backwards, all ", "The thread B ran 20 backwards, at threads.py:16. They are not re"),
        ("main later", "29 steps (29 backwards, all ", "The thread MainThread ran 20 backwards, at threads.py:16. "),
        ("main first", "20 steps (20 backwards, all ", "The thread trainer ran 30 backwards, at threads.py:16. "),
        ("copied context", "29 steps (29 backwards, all ", "The thread asyncio_0 is recorded. "),
        ("task", "29 steps (29 backwards, all ", "The thread asyncio_0 is recorded. "),
    ],
)
def test_the_thread_that_trains_is_recorded(tmp_path: Path, way: str, steps: str, told: str) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    result = nbgrad("run", "--every", "1", "--save", "run.nbgrad", "threads.py", way, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    head, *lines = report_of(result)
    assert head.startswith(f"nbgrad: threads.py, {steps}recorded) in ")
    assert any(line.startswith(f"  {told}") or told in line for line in lines), lines
    assert [line.rpartition(" [")[2] for line in lines if ": warning: " in line] == ["no activation]"]
    assert ": error: " not in result.stderr
    assert "Exception" not in result.stderr
    assert "  wrote run.nbgrad" in lines


@pytest.mark.rotated(3)
@pytest.mark.parametrize(("way", "status"), [("fails", 0), ("pool", 1)])
def test_an_error_in_a_thread_is_shown_with_the_failed_step(tmp_path: Path, way: str, status: int) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    result = nbgrad("run", "threads.py", way, cwd=tmp_path)
    plain = python("threads.py", way, cwd=tmp_path)
    assert result.returncode == plain.returncode == status
    assert result.stderr.startswith(plain.stderr), "the traceback of Python, then the report"
    head, *lines = report_of(result)
    assert re.match(r"nbgrad: threads\.py, 6 steps .*, ended by RuntimeError at threads\.py:14", head)
    assert any(line.startswith("  threads.py:14: error: ") and line.endswith("[failed]") for line in lines)


@pytest.mark.rotated(3)
def test_a_thread_is_recorded_for_so_many_steps_and_checked(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    head, *lines = report_of(nbgrad("run", "--steps", "5", "--save", "run.txt", "threads.py", "waits", cwd=tmp_path))
    assert head.startswith("nbgrad: threads.py, 5 steps (5 backwards")
    assert head.endswith("; it is recorded no longer, and goes on")
    assert lines[-1] == "  wrote run.txt"
    result = nbgrad("check", "threads.py", "waits", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout.startswith("threads.py:15: warning: ")


@pytest.mark.rotated(3)
def test_a_thread_that_the_program_does_not_wait_for_is_named(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    head, told, *_ = report_of(nbgrad("run", "threads.py", "is left", cwd=tmp_path))
    assert head.startswith("nbgrad: threads.py, no backward in ")
    assert told.startswith(
        "  nothing was recorded: the main thread has ended, and the thread trainer still runs. If it"
    )


@pytest.mark.rotated(3)
def test_a_thread_that_still_trains_at_the_end_leaves_after_its_step(tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    result = nbgrad("run", "--save", "run.txt", "threads.py", "goes on", cwd=tmp_path)
    head, *lines = report_of(result)
    assert re.match(r"nbgrad: threads\.py, [\d,]+ steps .*; it is recorded no longer, and goes on", head)
    assert "  wrote run.txt" in lines


LOADERS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

class Doubling(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, at): return torch.full((2,), float(at)) * torch.ones(2, requires_grad=True).detach()

if __name__ == "__main__":
    w = torch.ones(2, requires_grad=True)
    for start in ("fork", "spawn"):
        for batch in DataLoader(Doubling(), batch_size=4, num_workers=1, multiprocessing_context=start):
            (batch * w).sum().backward()
    print(w.grad)
"""


@pytest.mark.rotated(3)
def test_workers_of_a_loader_run(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADERS)
    result = nbgrad("run", "loads.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "tensor([56., 56.])\n"
    assert report_of(result)[0].startswith("nbgrad: loads.py, 4 backwards, all recorded in ")


@pytest.mark.rotated(3)
def test_a_program_without_torch_is_not_recorded_and_reads_its_stdin(tmp_path: Path) -> None:
    notebooks = "{'IPython', 'ipywidgets', 'nbgrad.widgets'} & sys.modules.keys()"
    (tmp_path / "plain.py").write_text(f"import sys\nprint(sys.stdin.read().upper(), sys.argv, {notebooks})\n")
    result = nbgrad("run", "--cost", "2%", "plain.py", "--save", "x", cwd=tmp_path, stdin="words")
    assert result.returncode == 0
    assert result.stdout == "WORDS ['plain.py', '--save', 'x'] set()\n"
    assert "nothing was recorded" in result.stderr


@pytest.mark.parametrize("suffix", [".pdf", ".png", ".gif"])
def test_a_file_whose_package_is_missing_is_refused_before_the_program_runs(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbgrad import options
    from nbgrad.run.command import main

    (tmp_path / "train.py").write_text("raise AssertionError")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(options._MADE_BY, suffix, ("no_such_module", "no-such-package", "no-such-package"))
    with pytest.raises(SystemExit) as ended:
        main(["run", "--save", f"run{suffix}", "train.py"])
    assert ended.value.code == 2
    assert f"'run{suffix}' was not written: a {suffix} file is made by the package no-such" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.py",), "nbgrad run: there is no file 'missing.py'"),
        (("--save", "no/run.html", "train.py"), "nbgrad run: 'no/run.html' was not written: there is no folder 'no'"),
        (
            ("--save", "run.xyz", "train.py"),
            "nbgrad run: 'run.xyz': a graph is not written to a file that ends in .xyz",
        ),
        (("--every", "x", "train.py"), "nbgrad run: error: every='x': it has to be a whole number, 1 or more, or none"),
        (("--every", "2", "--time", "train.py"), "nbgrad run: error: every=2: with time each step is recorded"),
        (("--evry", "2", "train.py"), "nbgrad run: error: there is no option --evry; did you mean --every?"),
        (("--steps", "0", "train.py"), "nbgrad run: error: argument --steps: '0' is no whole number, 1 or more"),
        (("--ranks", "train.py"), "nbgrad run: error: ranks=True compares the processes of a group, and there is none"),
        ((), "nbgrad run: error: name a program: a script, a folder or a zip file with a __main__.py, or -m"),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_what_cannot_be_done_is_said_before_the_program_runs(
    tmp_path: Path, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbgrad.run.command import main

    (tmp_path / "train.py").write_text("raise AssertionError")
    before, argv, path, main_module = Path.cwd(), [*sys.argv], [*sys.path], sys.modules["__main__"]
    os.chdir(tmp_path)
    try:
        with pytest.raises(SystemExit) as left:
            main(["run", *words])
    finally:
        os.chdir(before)
        sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, main_module
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(told)


@pytest.mark.rotated(3)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_at_the_end_loses_nothing_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"{OWN}\nraise SystemExit(5)")
    (tmp_path / "full.txt").symlink_to("/dev/full")
    result = nbgrad("run", "--save", "full.txt", "--save", "good.txt", "own.py", cwd=tmp_path)
    assert result.returncode == 5
    assert result.stdout.startswith("w is ")
    assert result.stderr.splitlines()[-2:] == [
        f"nbgrad: {str(tmp_path / 'full.txt')!r} was not written: No space left on device",
        "  wrote good.txt",
    ]


@pytest.mark.rotated(3)
def test_a_fault_of_the_report_leaves_the_program_its_status(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        f"{OWN}\nimport sys\nfrom nbgrad.run import report\nreport.report = lambda *_, **__: 1 / 0\nsys.exit(6)\n"
    )
    result = nbgrad("run", "own.py", cwd=tmp_path)
    assert result.returncode == 6
    assert result.stdout.startswith("w is ")
    assert result.stderr == (
        "nbgrad: ZeroDivisionError: division by zero. This is a defect of nbgrad, please report it\n"
    )


def test_a_run_of_which_nothing_was_recorded_writes_no_file(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    result = nbgrad("run", "--save", "run.nbgrad", "--save", "run.txt", "plain.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "2.0\n")
    _, nothing, *rest = report_of(result)
    assert nothing.startswith("  nothing was recorded: ")
    assert rest == ["  run.nbgrad was not written", "  run.txt was not written"]
    assert [one.name for one in tmp_path.iterdir()] == ["plain.py"]

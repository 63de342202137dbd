"""Functions of a notebook in several processes, as lesson 15 runs them."""

from typing import Any

import pytest

from nbgrad.lab import processes

pytestmark = pytest.mark.once

dist: Any = None  # the program imports it
torch: Any = None


def total():
    from pathlib import Path

    numbers = torch.tensor([1.0]) * helper(dist.get_rank())
    dist.all_reduce(numbers)
    print(numbers.item(), dist.get_world_size(), end="")
    print(" ×")
    if dist.get_rank() == 1:
        Path("left.txt").write_text("by rank 1")


def helper(rank):
    return 10**rank


def failing():
    if dist.get_rank() == 1:
        raise ValueError("the seventh row is broken")
    dist.all_reduce(torch.ones(1))


def killed():
    import signal

    if dist.get_rank() == 0:
        signal.raise_signal(signal.SIGKILL)


def waiting():
    if dist.get_rank() == 0:
        dist.recv(torch.ones(1), 1)
    dist.recv(torch.ones(1), 0)


@pytest.mark.rotated(3)
def test_what_processes_print_and_write(capsys: pytest.CaptureFixture[str]) -> None:
    done = processes.run(total, helper, size=3)
    assert capsys.readouterr().out == "".join(f"rank {rank}: 111.0 3 ×\n" for rank in range(3))
    assert done.texts == ("111.0 3 ×\n",) * 3
    assert done.files == {"left.txt": b"by rank 1"}
    assert repr(done) == "<3 processes have ended>"


@pytest.mark.rotated(3)
def test_a_process_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.5)
    with pytest.raises(RuntimeError) as raised:
        processes.run(failing)
    assert "the processes failed\n" in str(raised.value)
    assert "rank 1 ended with the exit status 1:\n    Traceback" in str(raised.value)
    assert "\n    ValueError: the seventh row is broken" in str(raised.value)


@pytest.mark.rotated(3)
def test_a_name_that_a_process_lacks_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.5)
    with pytest.raises(RuntimeError) as raised:
        processes.run(total)  # without helper
    assert "NameError: name 'helper' is not defined" in str(raised.value)
    assert "\n    a process has nothing of the notebook but the functions that it gets" in str(raised.value)
    assert "write it into the call: run(main, helper)." in str(raised.value)


@pytest.mark.rotated(3)
def test_a_process_that_is_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.5)
    with pytest.raises(RuntimeError, match="rank 0 ended with the exit status -9:"):
        processes.run(killed)


@pytest.mark.rotated(3)
def test_processes_that_wait_for_one_another_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LIMIT", 5.0)
    said = "have not ended in 5 seconds: each has to send what the others wait for\nrank 0 still ran\nrank 1 still"
    with pytest.raises(RuntimeError, match=said):
        processes.run(waiting)


def test_what_is_no_function_of_a_cell() -> None:
    with pytest.raises(TypeError, match="a function is expected that a cell of the notebook defines with def"):
        processes.run(print)
    with pytest.raises(TypeError, match="a function is expected that a cell"):
        processes.program(total, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is at least one process, got size=0"):
        processes.run(total, size=0)


def test_the_program_is_one_that_torchrun_can_start() -> None:
    text = processes.program(total, helper)
    compile(text, "program.py", "exec")
    assert text.index("def helper") < text.index("def total") < text.index("    total()")
    assert 'os.environ.get("MEETING", "env://")' in text

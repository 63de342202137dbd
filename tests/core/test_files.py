"""When a file is replaced, the old file stays until the new one is complete."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import nbgrad
from nbgrad.core import files
from nbgrad.core.files import replace_file
from nbgrad.options import SUFFIXES

OLD = b"what was there"
NEW = b"what is new"


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def write(file: Path) -> None:
    file.write_bytes(NEW)


@contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """Limit files to ``room`` bytes: the write fails in its middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def graph() -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph() as made:
        nbgrad.nn.Linear(4, 3)(nbgrad.ones(2, 4)).sum().backward()
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_graph_whose_write_fails_leaves_the_old_file(
    graph: nbgrad.AutogradGraph, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"net{suffix}"
    file.write_bytes(OLD)
    graph.save(tmp_path / f"warm{suffix}")  # the renderer writes its own cache files at its first use
    with full_disk(500), pytest.raises(OSError, match="File too large") as caught:
        graph.save(file)
    assert caught.value.filename == str(file)
    assert file.read_bytes() == OLD
    assert names(tmp_path) == [file.name, f"warm{suffix}"]
    graph.save(file)
    assert file.read_bytes() == (tmp_path / f"warm{suffix}").read_bytes()


def test_weights_whose_write_fails_leave_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "net.safetensors"
    net = nbgrad.nn.Linear(100, 100)
    nbgrad.save_safetensors(net, file)
    before = file.read_bytes()
    with full_disk(500), pytest.raises(Exception, match="too large"):
        nbgrad.save_safetensors(nbgrad.nn.Linear(100, 100), file)
    assert file.read_bytes() == before
    assert names(tmp_path) == [file.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_whatever_stops_the_write_nothing_is_left_behind(tmp_path: Path, error: type[BaseException]) -> None:
    def stopped(file: Path) -> None:
        file.write_bytes(NEW[:3])
        raise error

    (tmp_path / "old").write_bytes(OLD)
    for name in ("old", "new"):
        with pytest.raises(error):
            replace_file(tmp_path / name, stopped)
    assert (tmp_path / "old").read_bytes() == OLD
    assert names(tmp_path) == ["old"]


class Stop:
    """A tracer that interrupts at a chosen instruction of the module."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: Any, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename != files.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def in_a_thread(file: Path, stop: Stop) -> bool:
    """Whether the file was replaced. This runs in a thread: Python keeps the exception of such an interrupt there."""
    done = []

    def replace() -> None:
        sys.settrace(stop)
        try:
            replace_file(file, write)
            done.append(True)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)

    thread = Thread(target=replace)
    thread.start()
    thread.join()
    return bool(done)


@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO")  # before the with block had the file
def test_an_interrupt_at_any_instruction_leaves_one_whole_file_or_the_other(tmp_path: Path) -> None:
    file = tmp_path / "net.svg"
    at, done = 1, False
    while not done:
        file.write_bytes(OLD)
        done = in_a_thread(file, Stop(at))
        assert file.read_bytes() in (OLD, NEW)
        left = set(names(tmp_path)) - {file.name}
        assert len(left) <= 1
        for name in left:  # the interrupt came while the file was removed
            (tmp_path / name).unlink()
        at += 1
    assert file.read_bytes() == NEW
    assert at > 100


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
def test_permissions_stay_and_those_of_a_new_file_are_as_the_system_has_them(tmp_path: Path, mode: int) -> None:
    file, other, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    file.write_bytes(OLD)
    file.chmod(mode)
    replace_file(file, write)
    replace_file(other, write)
    usual.touch()
    assert file.stat().st_mode & 0o7777 == mode
    assert other.stat().st_mode == usual.stat().st_mode
    assert file.read_bytes() == other.read_bytes() == NEW


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "there"
    target.write_bytes(OLD)
    (tmp_path / "link").symlink_to("folder/there")
    (tmp_path / "dangling").symlink_to("folder/none")
    for name in ("link", "dangling"):
        replace_file(tmp_path / name, write)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_bytes() == NEW
    assert names(tmp_path / "folder") == ["none", "there"]


def test_what_is_no_ordinary_file_is_written_in_place(tmp_path: Path) -> None:
    replace_file(os.devnull, write)
    assert Path(os.devnull).is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        replace_file(pipe, write)
        assert reader.communicate(timeout=30)[0] == NEW
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["folder", "none/net.svg", "x" * 300])
def test_a_file_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as caught:  # noqa: PT011  # which one differs
        replace_file(tmp_path / name, write)
    assert caught.value.filename == str(tmp_path / name)
    assert names(tmp_path) == ["folder"]


def test_a_name_as_long_as_there_are_is_replaced_too(tmp_path: Path) -> None:
    replace_file(tmp_path / ("x" * 255), write)
    assert names(tmp_path) == ["x" * 255]


@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_file_that_the_system_does_not_replace_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The folder takes no new file, or the file itself is mounted from another file system."""
    file = tmp_path / "net.svg"
    file.write_bytes(OLD)

    def refused(*_: object) -> None:
        raise OSError(errno.EACCES if call == "open" else errno.EBUSY, "refused", "another name")

    monkeypatch.setattr(*((os, "open") if call == "open" else (Path, "replace")), refused)
    replace_file(file, write)
    assert file.read_bytes() == NEW
    with pytest.raises(OSError, match="refused") as caught:
        replace_file(tmp_path / "new", write)
    assert caught.value.filename == str(tmp_path / "new")
    assert names(tmp_path) == [file.name]


@pytest.mark.parametrize(("code", "fails"), [(errno.EINVAL, False), (errno.ENOSPC, True), (errno.EIO, True)])
def test_a_disk_that_says_late_that_it_is_full_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    def late(_: int) -> None:
        raise OSError(code, "late")

    file = tmp_path / "net.svg"
    file.write_bytes(OLD)
    monkeypatch.setattr(os, "fsync", late)
    with pytest.raises(OSError, match="late") if fails else nullcontext():
        replace_file(file, write)
    assert file.read_bytes() == (OLD if fails else NEW)
    assert names(tmp_path) == [file.name]


def test_a_file_that_may_not_be_written_is_not_replaced_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.svg"
    file.write_bytes(OLD)
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(PermissionError, match=str(file)):
        replace_file(file, write)
    assert file.read_bytes() == OLD

"""Kernels compiled by the C compiler of this computer: where they are kept, and whose files are loaded."""

import os
import stat
import threading
from pathlib import Path

import pytest
import torch

from nbgrad.core.symbolic.nest import c_library, interpreter
from nbgrad.core.symbolic.nest.c_source import c_source
from nbgrad.core.symbolic.nest.interpreter import Run
from nbgrad.core.symbolic.nest.ir import Builder, Kernel, KernelError
from nbgrad.core.symbolic.nest.schedule import schedule

needs_compiler = pytest.mark.skipif(not c_library.available(), reason="no C compiler on this machine")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nbgrad" / "nests"


def doubled(factor: float = 2.0) -> Kernel:
    """A small kernel."""
    builder = Builder()
    return builder.kernel([builder.apply("mul", builder.input((3,)), factor)])


@needs_compiler
def test_a_kernel_is_compiled_once_into_a_private_directory(folder: Path) -> None:
    assert c_library.build(doubled())(torch.ones(3))[0].tolist() == [2, 2, 2]
    (made,) = folder.iterdir()
    before = made.stat().st_mtime_ns
    assert c_library.build(doubled())(torch.ones(3))[0].tolist() == [2, 2, 2]
    assert [one.stat().st_mtime_ns for one in folder.iterdir()] == [before]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    c_library.build(doubled(3.0))  # the compiled library does not contain the constants
    assert len(list(folder.iterdir())) == 1


@needs_compiler
def test_what_somebody_else_could_have_written_is_not_loaded(folder: Path) -> None:
    c_library.build(doubled())
    (made,) = folder.iterdir()
    made.chmod(0o722)
    with pytest.raises(KernelError, match="could have been written by another user: remove it"):
        c_library.build(doubled())
    made.unlink()
    made.symlink_to(os.devnull)
    with pytest.raises(KernelError, match="could have been written by another user"):
        c_library.build(doubled())


@needs_compiler
@pytest.mark.parametrize("left", [0, 20, 100, 5000, -40])
def test_a_damaged_library_is_compiled_anew(folder: Path, left: int) -> None:
    c_library.build(doubled())
    (made,) = folder.iterdir()
    whole = made.read_bytes()
    made.unlink()  # the process has mapped the old file
    made.write_bytes(whole[:left])
    made.chmod(0o700)
    assert c_library.build(doubled())(torch.ones(3))[0].tolist() == [2, 2, 2]
    assert made.read_bytes() == whole or len(made.read_bytes()) > len(whole[:left])


@needs_compiler
@pytest.mark.parametrize("broken", ["a file where the directory would be", "no library"])
def test_what_cannot_be_kept_or_loaded_is_one_sentence(
    broken: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "no library":
        nothing = tmp_path / "nothing.so"
        nothing.write_bytes(b"nothing")
        monkeypatch.setattr(c_library, "_compiled", lambda _: nothing)
    else:
        folder.parent.write_text("")
    with pytest.raises(KernelError, match=r"cannot be kept or loaded: .*Set XDG_CACHE_HOME to a directory"):
        c_library.build(doubled())


@needs_compiler
@pytest.mark.skipif(not interpreter.available(), reason="needs the compiled core")
def test_a_thread_that_cannot_keep_a_kernel_warns_and_the_interpreter_goes_on(folder: Path) -> None:
    folder.parent.write_text("")
    runs: list[Run] = []

    def build() -> None:
        runs.append(c_library.build_behind(doubled()))
        for one in threading.enumerate():
            if one.name == "nbgrad compiles a kernel":
                one.join()

    with pytest.warns(RuntimeWarning, match="a kernel runs in the interpreter: .*cannot be kept or loaded"):
        build()
    (run,) = runs
    assert run(torch.ones(3))[0].tolist() == [2, 2, 2]


@needs_compiler
def test_a_directory_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(KernelError, match="set XDG_CACHE_HOME"):
        c_library.build(doubled())


@needs_compiler
def test_an_open_directory_is_closed(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    c_library.build(doubled())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    c_library.compiler.cache_clear()
    try:
        with pytest.raises(KernelError, match="failed:\nnot today"):
            c_library.build(doubled())
    finally:
        c_library.compiler.cache_clear()


def test_without_a_compiler_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_library, "compiler", lambda: None)
    assert not c_library.available()
    with pytest.raises(KernelError, match="install one, set CC, or choose another backend, 'fused' or 'replay'"):
        c_library.build(doubled())


@needs_compiler
def test_without_the_compiled_core_a_library_is_called_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "available", lambda: False)
    run = c_library.build(doubled())
    assert isinstance(run, c_library._LibraryCall)
    assert run(torch.ones(3))[0].tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="takes 1 tensors, not 0"):
        run()


@needs_compiler
def test_sums_over_rows_are_added_by_whole_vectors() -> None:
    builder = Builder()
    x, y = builder.input((37, 21)), builder.input((1, 21))
    sums = [builder.sum(builder.apply(name, x, y), [0]) for name in ("mul", "add")]
    kernel = builder.kernel(sums)
    text = c_source(schedule(kernel))
    assert "v_store(p0 + k, fresh ? " in text
    assert "y[i]" not in text.partition("static void nest_0")[2]
    given = [torch.randint(-9, 9, (37, 21)).float(), torch.randint(-9, 9, (1, 21)).float()]
    found = c_library.build(kernel)(*given)
    assert torch.equal(found[0], (given[0] * given[1]).sum(0, keepdim=True))
    assert torch.equal(found[1], (given[0] + given[1]).sum(0, keepdim=True))

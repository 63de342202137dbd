"""Compiles a kernel with the C compiler of this computer, once, and keeps the result in the user's cache directory."""

import ctypes
import hashlib
import os
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from threading import Thread

import torch

from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.nest.c_source import c_source
from nbgrad.core.symbolic.nest.interpreter import Run
from nbgrad.core.symbolic.nest.ir import Kernel, KernelError
from nbgrad.core.symbolic.nest.schedule import Schedule, schedule

FLAGS = ("-O2", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")
"""No fused multiply-adds: numbers are the interpreter's, to the bit."""

SECONDS = 300
"""A compiler that takes longer is given up."""


def available() -> bool:
    """Whether this computer has a C compiler that nbgrad can use."""
    return os.name == "posix" and compiler() is not None


@lru_cache(maxsize=1)
def compiler() -> tuple[str, ...] | None:
    """The command of the C compiler: what ``CC`` says, or ``cc``, ``gcc`` or ``clang``, whichever is found first."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        words = shlex.split(name)
        if words and (path := shutil.which(words[0])):
            return path, *words[1:]
    return None


def build(kernel: Kernel) -> Run:
    """Compile a kernel, or load one that was compiled before; a large one takes seconds.

    The cache directory is ``$XDG_CACHE_HOME/nbgrad``, by default ``~/.cache/nbgrad``. Only files of this user's, which
    no other user can write, are loaded.

    Raises:
        KernelError: where there is no C compiler, it fails, or the result cannot be kept or loaded.
    """
    needed()
    plan = schedule(kernel)
    library = _loaded(plan)
    if interpreter.available():
        run = interpreter.scheduled(plan)
        interpreter.replace(run, library)
        return run
    return _LibraryCall(plan, library)


def build_behind(kernel: Kernel) -> Run:
    """Run a kernel with the interpreter while a thread compiles it. From then on, run the compiled kernel.

    If the kernel cannot be compiled, kept or loaded, this is a RuntimeWarning: the interpreter goes on.

    Raises:
        KernelError: where there is no C compiler, or no interpreter.
    """
    needed()
    interpreter.needed()
    plan = schedule(kernel)
    run = interpreter.scheduled(plan)

    def compile_it() -> None:
        try:
            interpreter.replace(run, _loaded(plan))
        except KernelError as error:
            warnings.warn(f"a kernel runs in the interpreter: {error}", RuntimeWarning, stacklevel=1)

    Thread(target=compile_it, name="nbgrad compiles a kernel", daemon=True).start()
    return run


def needed() -> None:
    """Raise KernelError where there is no C compiler."""
    if not available():
        raise KernelError(
            "there is no C compiler here (cc, gcc or clang): install one, set CC, or choose another backend, 'fused' "
            "or 'replay'"
        )


def _loaded(plan: Schedule) -> ctypes.CDLL:
    """The library of a schedule. It is never unloaded.

    Raises:
        KernelError: it cannot be compiled, kept or loaded.
    """
    try:
        return ctypes.CDLL(str(_compiled(c_source(plan))))
    except OSError as error:
        raise KernelError(
            f"the compiled kernel cannot be kept or loaded: {error}. Set XDG_CACHE_HOME to a directory that you can "
            "write and from which libraries may be loaded"
        ) from error


class _LibraryCall:
    """Calls a compiled kernel where nbgrad's own compiled modules do not run."""

    __name__ = "nest"

    def __init__(self, plan: Schedule, library: ctypes.CDLL) -> None:
        self.plan, self.run = plan, library.run
        self.constants = struct.pack(f"{len(plan.constants)}f", *map(interpreter.as_float32, plan.constants))
        self.run.argtypes = [ctypes.c_void_p] * 3
        self.run.restype = None
        self.pointers = ctypes.c_void_p * (plan.inputs + len(plan.outputs) + 1)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        plan = self.plan
        if len(inputs) != plan.inputs:
            raise TypeError(f"this program takes {plan.inputs} tensors, not {len(inputs)}")
        made = [torch.empty(shape, dtype=torch.float32, device="cpu") for shape in plan.outputs]
        scratch = torch.empty(plan.scratch + 16, dtype=torch.float32, device="cpu")
        doubles = torch.empty(plan.doubles + 1, dtype=torch.float64, device="cpu")
        partial = torch.empty(plan.partial + 1, dtype=torch.float32, device="cpu")
        ctypes.memmove(scratch.data_ptr(), self.constants, len(self.constants))
        bases = self.pointers(*(one.data_ptr() for one in (*inputs, *made, scratch)))
        self.run(bases, doubles.data_ptr(), partial.data_ptr())
        return made


def _compiled(source: str) -> Path:
    """The library made from a source."""
    command = compiler()
    assert command is not None
    flags = (*FLAGS, *_native(command))
    key = hashlib.sha256("\0".join((source, *command, *flags, _version(command), sys.platform)).encode()).hexdigest()
    target = cache() / f"{key[:32]}.so"
    if _own(target) and _is_whole(target):
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        text, made = Path(folder, "nest.c"), Path(folder, "nest.so")
        text.write_text(source, encoding="utf-8")
        try:
            result = subprocess.run(
                [*command, *flags, "-o", str(made), str(text), "-lm"],
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KernelError(f"the C compiler {command[0]} failed: {error}") from error
        if result.returncode != 0:
            raise KernelError(f"the C compiler {command[0]} failed:\n{result.stderr[-2000:]}")
        if _SEALED:
            with made.open("ab") as library:
                library.write(hashlib.sha256(made.read_bytes()).digest())
        made.chmod(0o700)
        made.replace(target)  # at once: another process sees all of it or nothing
    return target


def cache() -> Path:
    """The directory of compiled kernels, which only this user can read and write; it is made where it is missing.

    Raises:
        KernelError: it belongs to another user.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(home if os.path.isabs(home) else Path("~/.cache").expanduser(), "nbgrad", "nests")  # noqa: PTH117
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise KernelError(f"{folder} does not belong to this user: set XDG_CACHE_HOME to a directory that does")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


_SEALED = sys.platform != "darwin"
"""Whether a library ends with the hash of what comes before it. Linkers ignore the end, but macOS signs the whole."""


def _is_whole(path: Path) -> bool:
    """Whether a library is as it was written. To load a damaged one is an error, or ends the process."""
    if not _SEALED:
        return True
    data = path.read_bytes()
    return hashlib.sha256(data[:-32]).digest() == data[-32:]


def _own(path: Path) -> bool:
    """Whether there is a file of this user's that no other user can write."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise KernelError(f"{path} could have been written by another user: remove it")
    return True


@lru_cache(maxsize=8)
def _native(command: tuple[str, ...]) -> tuple[str, ...]:
    """The flag that gives all vector instructions of this processor, where the compiler knows it."""
    result = subprocess.run(
        [*command, "-march=native", "-E", "-x", "c", "/dev/null"], capture_output=True, check=False, timeout=SECONDS
    )
    return ("-march=native",) if result.returncode == 0 else ()


@lru_cache(maxsize=8)
def _version(command: tuple[str, ...]) -> str:
    """The version text of the compiler, and the processor for which it compiles."""
    shown = subprocess.run(
        [*command, *_native(command), "-dM", "-E", "-x", "c", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return shown.stdout

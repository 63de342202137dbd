"""Functions of a notebook, run in several processes of one ``torch.distributed`` group: lesson 15.

A process has a memory of its own and knows nothing of the notebook. So the functions are saved as a program, which
``program`` returns as text and ``torchrun`` could start too.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from time import monotonic, sleep
from typing import Any, NamedTuple

_HEAD = """\
import os
import sys

import torch
import torch.distributed as dist

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
"""

_TAIL = """\
if __name__ == "__main__":
    dist.init_process_group("gloo", init_method=os.environ.get("MEETING", "env://"))
    {name}()
    dist.barrier()  # no process leaves while another one still receives
    sys.stdout.flush()
    os._exit(0)  # at once: threads of torch that still hold tensors can abort a Python that ends in the usual way
"""

_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
"""The name of the loopback interface, by platform: the processes need no other network."""

LIMIT = 120.0
"""Seconds after which processes that still run are ended."""

SAID = 6
"""How many of the last lines that a process wrote are in the message: its error, and where it was raised."""

GRACE = 10.0
"""After one process has failed, the others get this many seconds to end by themselves."""


class Finished(NamedTuple):
    """The results of the processes.

    Attributes:
        texts: what each process printed, rank 0 first.
        files: the content of the files that they wrote into the folder they ran in, by name.
    """

    texts: tuple[str, ...]
    files: dict[str, bytes]

    def __repr__(self) -> str:
        """A short text: the printed output is below the cell already."""
        return f"<{len(self.texts)} processes have ended>"


def program(main: Callable[[], object], *others: Callable[..., Any]) -> str:
    """The program that ``run`` starts.

    Args:
        main: what each process calls.
        others: the functions that ``main`` needs, and those that they need.

    Raises:
        TypeError: one of them is no function whose source Python knows.
    """
    parts = [_HEAD, *(_source(one) for one in (*others, main)), _TAIL.format(name=main.__name__)]
    return "\n\n".join(parts)


def _source(function: Callable[..., Any]) -> str:
    try:
        return dedent(getsource(function))
    except (OSError, TypeError):
        raise TypeError(f"{function!r}: a function is expected that a cell of the notebook defines with def") from None


def run(main: Callable[[], object], *others: Callable[..., Any], size: int = 2) -> Finished:
    """Run ``main()`` in processes of one group, and print what they print, rank by rank, when all have ended.

    Args:
        main: what each process calls; there ``torch.distributed.get_rank()`` returns the rank of the process.
        others: the functions that ``main`` needs, and those that they need.
        size: how many processes.

    Raises:
        TypeError: one of them is no function whose source Python knows.
        ValueError: ``size`` is less than 1.
        RuntimeError: a process raised an error, which the message has, or they did not end within two minutes.
    """
    if size < 1:
        raise ValueError(f"there is at least one process, got size={size}")
    text = program(main, *others)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        shared = folder / "shared"
        shared.mkdir()
        (folder / "program.py").write_text(text, "utf-8")
        outputs = [(folder / f"{rank}.out", folder / f"{rank}.err") for rank in range(size)]
        started = [_started(stack, folder, rank, size) for rank in range(size)]
        in_time = _ended(started)
        texts = [out.read_text("utf-8", "replace") for out, _ in outputs]
        _check([one.returncode for one in started], [err for _, err in outputs], in_time)
        files = {path.name: path.read_bytes() for path in sorted(shared.iterdir())}
    for rank, told in enumerate(texts):
        for line in told.splitlines():
            print(f"rank {rank}: {line}")  # noqa: T201
    return Finished(tuple(texts), files)


def _started(stack: ExitStack, folder: Path, rank: int, size: int) -> "subprocess.Popen[bytes]":
    """Start one process. It is killed when ``stack`` closes, if it still runs."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "OMP_NUM_THREADS": 1}
    environment = {**os.environ, **{name: str(value) for name, value in numbers.items()}}
    environment["MEETING"] = f"{(folder / 'meeting').as_uri()}?rank={rank}&world_size={size}"
    environment["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *(one for one in sys.path if one)])
    environment["PYTHONIOENCODING"] = "utf-8"
    if sys.platform in _LOOPBACK:
        environment["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
    out, err = (stack.enter_context((folder / f"{rank}.{kind}").open("wb")) for kind in ("out", "err"))
    command = [sys.executable, str(folder / "program.py")]
    one = subprocess.Popen(command, cwd=folder / "shared", env=environment, stdout=out, stderr=err)
    stack.callback(one.wait)
    stack.callback(one.kill)
    return one


def _ended(started: "list[subprocess.Popen[bytes]]") -> bool:
    """Wait until all processes have ended, or one has failed and the others have had ``GRACE`` seconds to end.

    Returns:
        False if none has failed and some still run after ``LIMIT`` seconds.
    """
    until = monotonic() + LIMIT
    failed = False
    while any(one.poll() is None for one in started) and monotonic() < until:
        if not failed and any(one.returncode for one in started):
            failed, until = True, min(until, monotonic() + GRACE)
        sleep(0.02)
    return failed or all(one.returncode is not None for one in started)


def _advice(said: list[str]) -> str:
    """Advice about a name that the notebook has and a new process lacks; empty for other errors."""
    found = re.search(r"^NameError: name '(\w+)' is not defined", "\n".join(said), re.MULTILINE)
    if found is None:
        return ""
    return (
        f"\n    a process has nothing of the notebook but the functions that it gets. If {found[1]} is a function of "
        f"yours, write it into the call: run(main, {found[1]}). A number, a class or an import belongs into one of "
        "these functions"
    )


def _check(codes: list[int | None], errors: list[Path], in_time: bool) -> None:
    """Raise with the error of each process that failed."""
    told = []
    for rank, (code, path) in enumerate(zip(codes, errors, strict=True)):
        if code:
            lines = path.read_text("utf-8", "replace").strip().splitlines()
            said = [line.removeprefix(f"[rank{rank}]: ") for line in lines[-SAID:]]
            lines_of_error = "".join(f"\n    {one}" for one in said)
            told.append(f"rank {rank} ended with the exit status {code}:{lines_of_error}{_advice(said)}")
        elif code is None:
            told.append(f"rank {rank} still ran")
    if told:
        late = "" if in_time else f" have not ended in {LIMIT:.0f} seconds: each has to send what the others wait for"
        raise RuntimeError("\n".join([f"the processes{late or ' failed'}", *told]))

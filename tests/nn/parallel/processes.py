"""Several processes of one gloo group, each of which runs a function; nothing waits longer than a limit."""

import multiprocessing
import os
import pickle
import socket
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import torch

# Each process is forked from a server process that has imported torch and nbgrad, and has done nothing else.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch._dynamo", "nbgrad", __name__])  # torch imports _dynamo late

LIMIT = 60
"""The number of seconds after which a process that still runs has failed."""

TIMEOUT = 20
"""Seconds that torch waits for another process."""


class Ended(NamedTuple):
    """How one process ended.

    Attributes:
        value: what its function returned.
        error: the type and the message of what it raised; None if it raised nothing, or died.
        code: its exit code.
    """

    value: Any
    error: str | None
    code: int | None


def run(function: Callable[..., Any], size: int, *args: Any, address: str | None = None) -> list[Ended]:
    """Run ``function(rank, *args)`` in ``size`` processes of one group.

    Args:
        function: a function of a module.
        size: how many processes.
        args: the other arguments of the function.
        address: where the processes meet; default: at a file.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = address or f"file://{folder}/meeting"
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(size)]
        started = [
            CONTEXT.Process(target=_main, args=(pipe[1], function, rank, size, place, args))
            for rank, pipe in enumerate(pipes)
        ]
        for one, pipe in zip(started, pipes, strict=True):
            one.start()
            pipe[1].close()
        try:
            return _ended(started, [pipe[0] for pipe in pipes])
        finally:
            for one in started:
                if one.is_alive():
                    one.kill()
                one.join()


def _ended(started: list[Any], pipes: list[Connection]) -> list[Ended]:
    until, told = monotonic() + LIMIT, dict[Connection, Any]()
    while len(told) < len(pipes):
        ready = wait([pipe for pipe in pipes if pipe not in told], max(0.0, until - monotonic()))
        if not ready:
            late = [rank for rank, pipe in enumerate(pipes) if pipe not in told]
            raise AssertionError(f"ranks {late} hang: they have not ended in {LIMIT} seconds")
        for pipe in ready:
            try:
                told[pipe] = pickle.loads(pipe.recv_bytes())
            except EOFError:
                told[pipe] = (None, None)
    for one in started:
        one.join(max(0.0, until - monotonic()))
        assert not one.is_alive(), "a process hangs at its end"
    return [Ended(*told[pipe], one.exitcode) for pipe, one in zip(pipes, started, strict=True)]


def values(function: Callable[..., Any], size: int, *args: Any) -> list[Any]:
    """The results of ``function(rank, *args)`` in each of ``size`` processes, none of which may fail."""
    ended = run(function, size, *args)
    assert [one.error for one in ended] == [None] * size
    assert [one.code for one in ended] == [0] * size
    return [one.value for one in ended]


def errors(function: Callable[..., Any], size: int, *args: Any) -> list[str]:
    """The error that ``function(rank, *args)`` raises in each of ``size`` processes."""
    ended = run(function, size, *args)
    assert all(one.error for one in ended), ended
    return [str(one.error) for one in ended]


def _main(pipe: Connection, function: Callable[..., Any], rank: int, size: int, place: str, args: Any) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    settings = {"rank": rank, "world_size": size, "timeout": timedelta(seconds=TIMEOUT)}
    try:
        torch.distributed.init_process_group("gloo", init_method=place, **settings)
        pipe.send_bytes(pickle.dumps((function(rank, *args), None)))  # not send(), which shares memory
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    except BaseException as error:  # an interrupt too
        if "DEBUG" in os.environ:
            traceback.print_exc()
        pipe.send_bytes(pickle.dumps((None, f"{type(error).__name__}: {error}")))
        pipe.close()
        os._exit(1)


def free_port() -> int:
    """A port that nothing uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


ROOT = Path(__file__).parents[3]

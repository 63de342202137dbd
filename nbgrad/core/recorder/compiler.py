"""Watch torch's compiler: the graphs that it traces, the breaks between them, and why it compiles a function again.

A graph with ``inside_compiled`` does so from its beginning to its end, also while it rests between recorded steps. The
compiled program stays what it is: the backend gets the same graph, and its result is called with the same arguments. It
is only called by a function of ours, which has the traced graph, and records the call as one op.

Everything here is private to torch: it is in one file, and has tests.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import RLock, get_ident
from types import CodeType
from typing import Any, NamedTuple

from nbgrad.core.backend.function_mode import put_back, take_off
from nbgrad.core.engine.call_site import NOT_THE_USERS, user_frame
from nbgrad.core.engine.node import next_seq
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import current
from nbgrad.core.late_import import LateImport
from nbgrad.core.recorder.calls import run_recorded
from nbgrad.core.recorder.functions import COMPILED, OP, Called
from nbgrad.core.recorder.patches import Patch
from nbgrad.core.recorder.tracebacks import traceless
from nbgrad.core.recorder.traced_graph import CompiledOp, GraphBreak, TracedGraph, place_of, traced

_FRAMES = "torch._dynamo.convert_frame"
_GRAPHS = "torch._dynamo.output_graph"
_UTILS = "torch._dynamo.utils"


class Recompilation(NamedTuple):
    """A function that was compiled again, because a guard of its compiled programs failed.

    Attributes:
        function: its name; empty for a function of torch's, such as the forward of a ``Sequential``.
        place: the first line of the function; of torch's, the user's line that called it.
        reason: the guard that failed, as the compiler writes it.
    """

    function: str
    place: Place
    reason: str


class CompilerWatch:
    """Gets what torch's compiler does in one thread.

    Args:
        failed: called with an error of nbgrad's own, which must not reach the program.

    Attributes:
        graphs: how many graphs were traced.
        breaks, recompilations: how often each has happened, in the order of their first time.
    """

    def __init__(self, failed: Callable[[Exception, str], Any]) -> None:
        self._failed = failed
        self.forget()

    def forget(self) -> None:
        """Begin with nothing."""
        self.graphs = 0
        self.breaks: Counter[GraphBreak] = Counter()
        self.recompilations: Counter[Recompilation] = Counter()

    def begin(self) -> None:
        """Watch this thread, until ``end``."""
        with _hooks.lock:
            _hooks.watches.append((get_ident(), self))
            _hooks.install()

    def end(self) -> None:
        """Watch no longer; a second time changes nothing."""
        with _hooks.lock:
            _hooks.watches[:] = [one for one in _hooks.watches if one[1] is not self]
            if not _hooks.watches:
                _hooks.restore()

    def guarded(self, do: Callable[..., None], *given: Any) -> None:
        """Call ``do``, of which the compiler must not see an error."""
        try:
            do(*given)
        except Exception as error:
            self._failed(error, "torch's compiler")

    def traced(self) -> None:
        """A graph was traced."""
        self.graphs += 1

    def compiled(self, breaks: list[GraphBreak], again: list[Recompilation]) -> None:
        """A function was compiled: with these ``breaks``, and, if it was compiled ``again``, for this reason."""
        self.breaks.update(breaks)
        self.recompilations.update(again)


class _Hooks:
    """The functions of the compiler that are replaced while a graph watches it.

    Attributes:
        watches: with the thread of each.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.watches: list[tuple[int, CompilerWatch]] = []
        self._import = LateImport(_FRAMES, lambda _: self._install())
        self._patches: list[Patch] = []

    def install(self) -> None:
        """Replace them; if the compiler is not imported yet, when it is."""
        frames = sys.modules.get(_FRAMES)
        if hasattr(frames, "_compile"):
            self._install()
        elif frames is None:
            self._import.wait()

    def _install(self) -> None:
        if not self._patches:
            graphs: Any = sys.modules[_GRAPHS]
            self._patches = [
                Patch(graphs.OutputGraph, "call_user_compiler", _keeping_graphs),
                Patch(sys.modules[_FRAMES], "_compile", _noting_breaks),
            ]
        for patch in self._patches if self.watches else ():
            patch.install()

    def restore(self) -> None:
        """Put back torch's own."""
        self._import.stop()
        for patch in self._patches:
            patch.put_back()

    def here(self) -> list[CompilerWatch]:
        """The watches of this thread."""
        thread = get_ident()
        return [watch for one, watch in self.watches if one == thread]


_hooks = _Hooks()


def _keeping_graphs(own: Any) -> Any:
    """Our function for ``OutputGraph.call_user_compiler``, which is ``own``: it hands a graph to the backend."""

    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        watches, found = _hooks.here(), list[TracedGraph]()
        for watch in watches[:1]:
            watch.guarded(lambda: found.append(_traced(self, gm)))  # first: the backend may change the graph
        compiled = own(self, gm, *args, **kwargs)
        for watch in watches if found else ():
            watch.traced()
        # A compiled program that torch stores in a package has to be one that it can write.
        return _recording(compiled, found[0]) if found and getattr(self, "package", None) is None else compiled

    return traceless(call_user_compiler, own)


def _traced(output: Any, module: Any) -> TracedGraph:
    """The facts of a graph of the compiler's ``OutputGraph``."""
    reason: Any = getattr(output, "compile_subgraph_reason", None)
    ended = _break(reason.reason, reason.user_stack) if getattr(reason, "graph_break", False) else None
    backend = output.compiler_fn
    while (inner := getattr(backend, "_torchdynamo_orig_backend", None)) is not None:
        backend = inner
    name = getattr(backend, "compiler_name", None) or getattr(backend, "__name__", type(backend).__name__)
    return traced(module, str(name), ended)


def _recording(compiled: Callable[..., Any], graph: TracedGraph) -> Any:
    """``compiled``, whose calls are recorded as one op that knows its ``graph``."""
    op: Any = CompiledOp(graph, graph.learned > 1)  # it serves as a row
    known = Called(OP, COMPILED, op)

    def run(*args: Any) -> Any:
        result = compiled(*args)
        for _ in graph.ops:
            next_seq()  # the numbers of the ops inside come right before that of the compiled one
        return result

    def run_compiled(*args: Any) -> Any:
        state = current()
        if not (graph.learned and state.observers and _hooks.here()):
            return compiled(*args)
        depth = take_off()
        try:
            return run_recorded(known, run, args, state)
        finally:
            put_back(depth)

    return traceless(run_compiled)


def _noting_breaks(own: Any) -> Any:
    """Our function for ``convert_frame._compile``, which is ``own``: it compiles one frame."""

    def _compile(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        watches = _hooks.here()
        if not watches:
            return own(code, *args, **kwargs)
        breaks, guards = _notes(code)
        before = len(breaks), len(guards)
        errors: list[Exception] = []
        try:
            return own(code, *args, **kwargs)
        except Exception as error:
            errors.append(error)
            raise
        finally:
            note = partial(_note, code, before, errors)
            for watch in watches:
                watch.guarded(note, watch)

    return traceless(_compile, own)


def _notes(code: CodeType) -> tuple[list[Any], list[Any]]:
    """The compiler's own lists of the breaks so far, and of the guards of ``code`` that failed so far."""
    utils: Any = sys.modules[_UTILS]
    return utils.graph_break_reasons, utils.guard_failures.get(code, [])


def _note(code: CodeType, before: tuple[int, int], errors: list[Exception], watch: CompilerWatch) -> None:
    """Tell ``watch`` that ``code`` was compiled, or could not be."""
    breaks, guards = _notes(code)
    found = [_break(one.reason, one.user_stack) for one in breaks[before[0] :] if not _is_inside(code, one.user_stack)]
    unsupported: Any = sys.modules["torch._dynamo.exc"].Unsupported
    for error in errors:
        if isinstance(error, unsupported):  # then Python runs all of the function
            reason: Any = error
            found.append(_break(str(getattr(reason, "msg", reason)), list(getattr(reason, "real_stack", ()))))
    again = [Recompilation(*_compiled_place(code), _guard(str(one))) for one in guards[before[1] :][:1]]
    watch.compiled(found, again)


def _is_inside(code: CodeType, stack: list[Any]) -> bool:
    """Whether a break is in a function of the user's that ``code``, a function of torch's, calls.

    The compiler then compiles the user's function by itself, and meets the break there too.
    """
    return code.co_filename.startswith(NOT_THE_USERS) and bool(stack) and not _is_torchs(stack[-1])


def _is_torchs(line: Any) -> bool:
    return str(line.filename).startswith(NOT_THE_USERS)


def _compiled_place(code: CodeType) -> tuple[str, Place]:
    """The name of a function of the user's, and its first line; for one of torch's, the user's line that called it."""
    if code.co_filename.startswith(NOT_THE_USERS):
        frame = user_frame()
        return "", place_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    place = place_of(code.co_filename, code.co_firstlineno, code.co_name)
    return place.function, place


def _break(reason: str, stack: list[Any]) -> GraphBreak:
    """A break of the compiler's; ``stack`` has the user's lines, the innermost one last."""
    lines = [line.strip() for line in reason.strip().splitlines()]
    said = lines[0].rstrip(".") if lines else "no reason is given"
    why = next((line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")), "")
    users = [one for one in stack if not _is_torchs(one)]
    place = place_of(users[-1].filename, users[-1].lineno, users[-1].name) if users else None
    return GraphBreak(f"{said}: {why}" if why else said, place)


def _guard(reason: str) -> str:
    """The failed guard, without the number of the compiled program that it belongs to, and in one line."""
    lines = [line for line in reason.splitlines() if line.strip()]
    text = lines[0] if lines else "a guard failed"
    head, sign, rest = text.partition(": ")
    return " ".join((rest if sign and "/" in head and " " not in head else text).split())

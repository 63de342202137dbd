"""The IPython side: ``%load_ext nbgrad``, the ``%%autograd`` cell magic and the ``%autograd`` line.

The cell itself is never executed by us: only its first line is replaced, by a call that opens the graph, and a
one-shot callback closes the graph when the cell has run. So tracebacks, ``await``, a trailing ``;`` and other magics
work as in any cell.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from inspect import currentframe
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from IPython.core import completer
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.display import display

from nbgrad import executions, magic_arguments
from nbgrad.core.engine.source_text import uncalled
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.interop import einops_backend, torch_contexts, torch_graphs
from nbgrad.core.no_gc import uncollected
from nbgrad.core.suggestions import nearest
from nbgrad.export import UNSAVED, save, unsaved
from nbgrad.magic_arguments import COMMANDS, MAGIC, Autograd, asks_for_help, parsed, takes_options, uncommented
from nbgrad.options import configured
from nbgrad.recording import record
from nbgrad.reprs import RICH
from nbgrad.tracebacks import retell, shorten
from nbgrad.unloaded import IMPORTED_BY_LOADING
from nbgrad.widgets import pending_clear
from nbgrad.widgets.description.text_metrics import clean
from nbgrad.widgets.optional_packages import reason


class Session:
    """One recorded cell, from its first line to the end of its run."""

    def __init__(self, magics: "AutogradMagics", shell: InteractiveShell, recording: record, line: Any) -> None:
        self.magics = magics
        self.shell = shell
        self.recording = recording
        self.line = line  # the code that asked for it; None where it is recorded because every cell is

    @property
    def graph(self) -> AutogradGraph:
        """The graph in which it records."""
        return self.recording.graph

    def is_for(self, line: CodeType | None) -> bool:
        """Whether a session that ``line`` begins replaces this one.

        It does if the line runs again, as in ``%%timeit``; or if every cell is recorded, and nothing was recorded yet.
        """
        return line is self.line or (self.line is None and not self.graph.records)

    def close(self, error: BaseException | None = None) -> None:
        """Stop recording. ``error`` is the error that ended the cell, if one did."""
        self.recording.close(self.shell.user_ns, error)

    @uncollected
    def ended(self, result: ExecutionResult | None, error: BaseException | None, *, told: bool) -> None:
        """The run of the cell is over: close the graph and show it.

        Args:
            result: what came of the cell; None where an error left it half done.
            error: what ended it, if something did.
            told: whether IPython will trigger ``post_run_cell`` with this result. If so, the graph is shown at that
                event, below the other outputs of the cell.
        """
        if self.graph.closed:
            return
        if result is not None and result.execution_count is not None:
            self.graph.listener.cell = f"In [{result.execution_count}]"  # unknown when the cell began
        try:
            self.close(error)
        except KeyboardInterrupt:
            _tell("Interrupted before the graph was complete: no graph was kept.")
            return
        except Exception as own:  # it must not hide what the cell has computed
            _tell(f"{MAGIC}: no graph was kept. {reason(own)}.")
            return
        try:
            self._take_engine(result)
            self._show(result, error, told=told)
        except Exception as own:
            _tell(f"{MAGIC}: the graph was not shown. {reason(own)}.")

    def _take_engine(self, result: ExecutionResult | None) -> None:
        """If nothing of nbgrad's or torch's ran, take the graph of another engine that the variables hold, if any."""
        if self.line is None or self.graph.records or self.graph.fault or result is None or not result.success:
            return
        from nbgrad.drawing.cell import drawn_cell
        from nbgrad.drawing.part import GraphCycleError, UnreadableError

        code = getattr(result.info, "transformed_cell", None) or ""
        try:
            drawn = drawn_cell(code, self.shell.user_ns, str(self.graph.name))
        except (UnreadableError, GraphCycleError) as unread:
            _tell(f"{MAGIC}: {unread}")
            return
        if drawn is not None:
            drawn.questions, drawn.silence, drawn.survey = self.graph.questions, self.graph.silence, None
            self.recording.graph = drawn

    def _show(self, result: ExecutionResult | None, error: BaseException | None, *, told: bool) -> None:
        """Show the closed graph now, or note to show it below the other outputs of the cell."""
        stopped = self.graph.ending is not None and self.graph.ending.failure is not None
        success = result is not None and result.success
        if self.graph.ending is not None and self.graph.ending.explanation is not None:
            self.magics.last = self  # %autograd last shows the finding, also where nothing else ran in the cell
        if isinstance(error, GeneratorExit) or not (self.graph.records or stopped or (self.line and success)):
            return
        if self._only_looks():
            return
        self.magics.last = self
        if success and result is not None:
            for one in uncalled(getattr(result.info, "transformed_cell", None) or ""):
                _tell(f"{MAGIC}: line {one.line}, {one}")
        if told and result is not None:
            self.magics.waiting.setdefault(result, []).append(self)
        else:
            self.present()

    def _forward(self) -> list[Record] | None:
        """The ops, if the cell was recorded only because every cell is, and ran no backward, and drawing is all."""
        drawn = self.recording.view == "graph" and self.recording.save is None
        if self.line is not None or not drawn or self.graph.backwards or self.graph.ending is not None:
            return None
        return [record for record in self.graph.records if record.kind == "op"]

    def _only_looks(self) -> bool:
        """Whether the cell has no ops but such as take parts of tensors, to print or to plot them."""
        ops = self._forward()
        return ops is not None and all(_takes_parts(record) for record in ops)

    def _instead(self) -> str | None:
        """The line that stands in place of a picture of a long forward; None if the picture is drawn."""
        ops = self._forward() or []
        lines = {record.place.instruction for record in ops if record.place is not None and record.scope is None}
        if len(lines) <= _LONG:
            return None
        return f"{len(ops):,} ops ran here, and no backward. %autograd last draws them."

    @uncollected
    def present(self) -> None:
        """Show the graph; if that fails, a line says why, because no code can catch the error here."""
        if (line := self._instead()) is not None:
            display({"text/plain": line}, raw=True)
            return
        try:
            problems = self.recording.present()
        except KeyboardInterrupt:
            _tell("Interrupted while the graph was drawn. %autograd last draws it.")
            return
        except Exception as own:
            problems = [reason(own)]
        for problem in problems:
            other = "%autograd save writes the graph to another file."
            with pending_clear.ours():
                self.shell.show_usage_error(UsageError(f"{MAGIC}: {problem}. {other}"))


@magics_class
class AutogradMagics(Magics):
    """The magics that ``%load_ext nbgrad`` adds."""

    last: Session | None = None  # the one whose graph was shown
    always: dict[str, Any] | None = None
    settings: Any
    undo: ExitStack

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.sessions: WeakSet[Session] = WeakSet()  # all that may be open
        self.waiting: WeakKeyDictionary[ExecutionResult, list[Session]] = WeakKeyDictionary()  # to be shown

    @takes_options
    @line_cell_magic
    def autograd(self, line: str, cell: str | None = None) -> AutogradGraph | None:
        """Record the cell in an AutogradGraph and draw the graph of its last backward under it.

        Without a cell, %autograd takes a command: status, on, off, last, save, config or help.
        """
        if cell is None:
            return self._command(line)
        assert self.shell is not None
        self.shell.run_cell("".join(_begun(line, cell.splitlines(keepends=True)))).raise_error()
        return None

    @line_magic
    def _autograd_begin(self, line: str) -> None:
        """The code that replaces the ``%%autograd`` line: open a graph until the running cell ends."""
        retell(_BEGIN, f"{MAGIC} {line}".rstrip())
        self._begin({**(self.always or {}), **parsed(self.autograd.parser, line)}, _calling_code())

    @line_magic
    def _autograd_help(self, line: str) -> None:  # noqa: ARG002
        """The code that replaces a cell that asks for help."""
        text = self.autograd.parser.format_help().removeprefix("::\n\n")  # that is for documentation
        print(text.replace("  %autograd ", f"  {MAGIC} ", 1))  # noqa: T201  # %autograd as a line takes no options

    def begin_cell(self, _info: Any) -> None:
        """A cell begins: record it if every cell is recorded."""
        if self.always is None or next(_open_sessions(), None) is not None:
            return
        try:
            self._begin(self.always, None)
        except Exception as error:  # a file or a device of the options may be gone since then
            assert self.shell is not None
            self.shell.show_usage_error(UsageError(f"%autograd on: {error}. This cell is not recorded."))

    def end_cell(self, result: ExecutionResult | None) -> None:
        """A cell has ended, and its other outputs are shown: show its graph."""
        for session in [] if result is None else self.waiting.pop(result, []):
            session.present()

    def _begin(self, options: dict[str, Any], line: Any) -> None:
        execution = executions.current()
        if execution is None:
            raise UsageError(f"{MAGIC}: no cell runs here, so nothing would end the graph. Use nbgrad.record instead.")
        replaced = [session for session in execution.recorded if session.is_for(line)]
        while replaced and replaced[0] in execution.recorded:
            execution.recorded.pop().close()
        assert self.shell is not None
        session = Session(self, self.shell, record(**options), line)
        execution.recorded.append(session)
        self.sessions.add(session)
        session.recording.__enter__()

    def end(self) -> None:
        """Close the open graph."""
        for session in list(self.sessions):
            session.close()

    @line_magic(MAGIC[1:])  # type: ignore[arg-type, unused-ignore]  # its stub knows no name
    def _misplaced(self, line: str) -> None:  # noqa: ARG002
        """The call that IPython makes of ``%%autograd`` below other lines: it raises an error."""
        raise UsageError(
            f"{MAGIC} has to be the first line of the cell: move what stands above it, comments and #| lines too, "
            "below it."
        )

    @line_magic
    def _autograd_above_engines(self, line: str) -> None:  # noqa: ARG002
        """The code that replaces a cell with ``%%px`` below ``%%autograd``: its ops would run in other processes."""
        raise UsageError(
            f"{MAGIC}: the engines run this cell, so they have to record it: put %%px on the first line and {MAGIC} on "
            "the second. Each engine needs %load_ext nbgrad too, in a cell of %%px before"
        )

    # The line %autograd.

    def _command(self, line: str) -> AutogradGraph | None:
        command, _, rest = uncommented(line).strip().partition(" ")
        command = "status" if command == "" else command
        if asks_for_help(line):
            command, rest = "help", ""
        if command not in COMMANDS:
            meant = nearest(command, COMMANDS)
            raise UsageError(f"%autograd: there is no command {command}{meant}\nThere are {', '.join(COMMANDS)}.")
        if rest and command in ("status", "off", "last"):
            raise UsageError(f"%autograd {command} takes no further arguments, but got {rest}")
        if command == "last":
            return self._shown().graph
        text = getattr(self, f"_{command}")(rest.strip())
        if text:
            print(text)  # noqa: T201
        return None

    def _status(self, _: str) -> str:
        state = f"only cells that begin with {MAGIC} are recorded"
        if self.always is not None:
            given = " ".join(f"{name}={clean(str(value))}" for name, value in self.always.items())
            state = f"every cell is recorded{f', with {given}' if given else ''}"
        if self.last is None:
            return f"{state}; no cell was recorded yet"
        graph = self.last.graph
        return f"{state}\nlast graph: {graph!r}, {graph.history!r}"

    def _on(self, line: str) -> None:
        self.always = parsed(self.autograd.parser, line)

    def _off(self, _: str) -> None:
        self.always = None

    def _shown(self) -> Session:
        """The graph that a command is about: that of the cell itself, or the last one that was shown."""
        for session in _open_sessions():
            if session.line is not None:
                return session
        if self.last is None:
            raise UsageError(f"%autograd: no cell was recorded yet. Put {MAGIC} on the first line of one.")
        return self.last

    def _save(self, path: str) -> None:
        session = self._shown()
        options = session.recording
        try:
            names = shlex.split(path)
            if len(names) != 1:
                raise ValueError("it takes one file, as in %autograd save net.svg")
            save(session.graph, names[0], **options.drawn())
        except (ValueError, *UNSAVED) as error:
            raise UsageError(f"%autograd save: {unsaved(error)}") from None

    def _config(self, line: str) -> str | None:
        given = parsed(self.autograd.parser, line)
        for name, value in given.items():
            if name not in configured:
                raise UsageError(f"%autograd config: {name} belongs to one graph, so it has no default to set")
            setattr(self.settings, name, value)
        return None if given else magic_arguments.settings()

    def _help(self, name: str) -> str:
        return magic_arguments.explained(name) if name else magic_arguments.overview()


def _open_sessions() -> Iterator[Session]:
    """The open sessions of the cells to which the running code belongs, the innermost first."""
    execution = executions.current()
    while execution is not None:
        yield from [session for session in reversed(execution.recorded) if not session.graph.closed]
        execution = execution.parent


def _calling_code() -> CodeType | None:
    """The code outside of nbgrad and IPython that called the running magic."""
    frame = currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in ("nbgrad", "IPython"):
        frame = frame.f_back
    return None if frame is None else frame.f_code


def _takes_parts(record: Record) -> bool:
    """Whether the op only takes parts of a tensor, or changes its shape."""
    module = str(getattr(getattr(record.op, "forward", None), "__module__", ""))
    parts = module.startswith(("nbgrad.core.ops.index.getitem", "nbgrad.core.ops.shape."))
    return parts or (record.op is not None and record.op.name in _TURNED)


_TURNED = ("T", "mT", "H", "mH")
"""Attributes of torch's tensors that are no rows of the table."""

_LONG = 60
"""A forward with more calls outside of modules is not drawn where every cell is recorded: nothing in it would be
folded. The same call in a loop counts once, because a loop is folded."""


def _tell(text: str) -> None:
    with pending_clear.ours():
        print(text, file=sys.stderr)  # noqa: T201


_BEGIN = "get_ipython().run_line_magic('_autograd_begin'"
_HELP = re.compile(r"%%\w+\?")  # which IPython answers itself
_ENGINES = re.compile(r"px(_\w+|\d+)?")  # ipyparallel's magic, and those of views with a suffix
_LINE = re.compile(rf"\s*{MAGIC}(?:\s(?P<options>.*))?\s*")


def rewrite(lines: list[str]) -> list[str]:
    """An input transformer: the ``%%autograd`` line becomes a call on the same line, the cell below stays as it is."""
    found = _LINE.fullmatch(lines[0]) if lines else None
    return lines if found is None else _begun(found["options"] or "", lines[1:])


def _begun(options: str, body: list[str]) -> list[str]:
    """The cell that records ``body``; it has no ``%%autograd`` line, whatever is in the options."""
    if asks_for_help(options):
        return ["get_ipython().run_line_magic('_autograd_help', '')\n"]
    begin = f"{_BEGIN}, {options.strip()!r})\n"
    if body and body[0].startswith("%%") and not _HELP.match(body[0]):
        inner, _, arguments = body[0][2:].rstrip("\n").partition(" ")
        if _ENGINES.fullmatch(inner):
            return ["get_ipython().run_line_magic('_autograd_above_engines', '')\n"]
        body = [f"get_ipython().run_cell_magic({inner!r}, {arguments!r}, {''.join(body[1:])!r})\n"]
    return [begin, *body]


# A terminal asks whether the text so far is a complete cell. It must see the magic, whose cell ends at an empty line.
# If it saw the call that replaces the magic, it would take the first line for a complete cell.
rewrite.has_side_effects = True  # type: ignore[attr-defined]


def load(shell: InteractiveShell) -> None:
    """Add the magics, their completions and settings to ``shell``; a second time changes nothing."""
    if rewrite in shell.input_transformers_cleanup:
        return
    magics = AutogradMagics(shell)
    magics.settings = Autograd.of(shell.config)
    with ExitStack() as undo:
        configurables: list[Any] = shell.configurables
        if magics in configurables:  # IPython adds all magics to its list of settings
            undo.callback(configurables.remove, magics)
        undo.callback(configured.clear)
        _register(shell, magics, undo)
        added: list[tuple[list[Any], Any]] = [
            (shell.input_transformers_cleanup, rewrite),
            (shell.configurables, magics.settings),
        ]
        if hasattr(completer, "context_matcher"):  # since IPython 8.6; an older one has no completions of ours
            from nbgrad.completions import complete

            added.append((shell.Completer.custom_matchers, complete))
        for them, one in added:
            them.append(one)
            undo.callback(them.remove, one)
        formatter = shell.display_formatter.formatters["text/html"]  # type: ignore[union-attr]
        for kind, html in RICH.items():
            _put(formatter.type_printers, kind, html, undo)
        shorten(shell, undo)
        executions.follow(shell, undo)
        pending_clear.follow(shell, undo)
        for event, callback in (("pre_run_cell", magics.begin_cell), ("post_run_cell", magics.end_cell)):
            shell.events.register(event, callback)
            undo.callback(shell.events.unregister, event, callback)
        if IMPORTED_BY_LOADING:
            _follow_torch(undo)
        undo.callback(magics.end)
        magics.undo = undo.pop_all()


def _follow_torch(undo: ExitStack) -> None:
    """Have what the import has put into torch and Python; ``undo`` takes it away, as before the import."""
    for patch in (*torch_contexts.PATCHES, *torch_graphs.PATCHES):
        patch.install()
        undo.callback(patch.put_back)
    einops_backend.follow()
    undo.callback(einops_backend.unfollow)


def _register(shell: InteractiveShell, magics: AutogradMagics, undo: ExitStack) -> None:
    """Add the magics, and note to put back what they replace."""
    known = shell.magics_manager.magics
    for kind, names in magics.magics.items():
        for name in names:
            _put(known[kind], name, None, undo)
    _put(shell.magics_manager.registry, AutogradMagics.__name__, None, undo)
    shell.register_magics(magics)


def _put(table: dict[Any, Any], key: Any, value: Any, undo: ExitStack) -> None:
    """Set ``table[key] = value``; ``undo`` restores the value before."""
    if key in table:
        undo.callback(table.__setitem__, key, table[key])
    else:
        undo.callback(table.pop, key)
    table[key] = value


def unload(shell: InteractiveShell) -> None:
    """Take away again what ``load`` added, and put back what it replaced; an open graph is closed."""
    magics = shell.magics_manager.registry.get(AutogradMagics.__name__)
    if magics is not None:
        magics.undo.close()

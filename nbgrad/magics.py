"""The IPython side: ``%load_ext nbgrad``, the ``%%autograd`` cell magic and the ``%autograd`` line.

The cell itself is never executed by us: only its first line is replaced, by a call that opens the graph, and a
one-shot callback closes the graph when the cell has run. So tracebacks, ``await``, a trailing ``;`` and other magics
work as in any cell.
"""

import shlex
import sys
from contextlib import ExitStack
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class

from nbgrad import arguments
from nbgrad.arguments import COMMANDS, MAGIC, Autograd, asks_for_help, complete, parsed, takes_options, uncommented
from nbgrad.core.collecting import uncollected
from nbgrad.core.graph import AutogradGraph
from nbgrad.core.modes import State, current, set_state, unwound
from nbgrad.core.spelling import nearest
from nbgrad.options import configured
from nbgrad.recording import record
from nbgrad.reprs import RICH
from nbgrad.saving import UNSAVED, save, unsaved
from nbgrad.tracebacks import retell, shorten


class Session:
    """One recorded cell, from its first line to the end of its run."""

    def __init__(self, magics: "AutogradMagics", shell: InteractiveShell, recording: record, *, asked: bool) -> None:
        self.magics = magics
        self.shell = shell
        self.recording = recording
        self.asked = asked  # by this cell itself; not because every cell is recorded
        self._nested = 0

    @property
    def graph(self) -> AutogradGraph:
        """What it records in."""
        return self.recording.graph

    def open(self) -> None:
        """Start recording, until the cell that runs now has run."""
        self.recording.__enter__()
        self.shell.events.register("pre_run_cell", self._cell_begins)
        self.shell.events.register("post_run_cell", self._cell_ends)

    def close(self, error: BaseException | None = None) -> None:
        """Stop recording, since ``error`` ended the cell or for another reason, and forget the callbacks."""
        self.shell.events.unregister("pre_run_cell", self._cell_begins)
        self.shell.events.unregister("post_run_cell", self._cell_ends)
        self.graph.close(self.shell.user_ns, error)

    def _cell_begins(self, _info: Any) -> None:
        """A cell that this cell runs, as ``%run`` or ``%%capture`` do: its end is not ours."""
        self._nested += 1

    @uncollected
    def _cell_ends(self, result: Any) -> None:
        if self._nested:
            self._nested -= 1
            return
        try:
            self.close(result.error_in_exec)
        except KeyboardInterrupt:
            _tell("Interrupted before the graph was complete: nothing of it was kept.")
            return
        stopped = self.graph.ending is not None and self.graph.ending.failure is not None
        if self.graph.records or stopped or (self.asked and result.success):
            self.magics.last = self
            self._present()

    def _present(self) -> None:
        """Show the graph; what keeps it from that is told in a line, because nobody can catch it here."""
        try:
            self.recording.present()
        except KeyboardInterrupt:
            _tell("Interrupted while the graph was drawn. %autograd last draws it.")
        except UNSAVED as problem:
            other = "%autograd save writes the graph to another file."
            self.shell.show_usage_error(UsageError(f"{MAGIC}: {unsaved(problem)}. {other}"))


class Unwinding:
    """Leaves what an interrupted cell has entered and nobody has left: Ctrl-C may hit the very function that leaves."""

    def __init__(self) -> None:
        self._begun: list[State] = []

    def begin(self, _info: Any = None) -> None:
        """A cell begins, perhaps inside another one."""
        self._begun.append(current())

    def end(self, result: Any = None) -> None:
        """It has ended."""
        before = self._begun.pop() if self._begun else None
        if before is not None and isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt):
            set_state(unwound(before))


@magics_class
class AutogradMagics(Magics):
    """The magics that ``%load_ext nbgrad`` adds."""

    session: Session | None = None  # of the cell that runs, or ran
    last: Session | None = None  # the one whose graph was shown
    always: dict[str, Any] | None = None
    settings: Any
    undo: ExitStack

    @takes_options
    @line_cell_magic
    def autograd(self, line: str, cell: str | None = None) -> AutogradGraph | None:
        """Record the cell in an AutogradGraph and draw the graph of its last backward under it.

        Without a cell, %autograd takes a command: status, on, off, last, save, config or help.
        """
        if cell is None:
            return self._command(line)
        assert self.shell is not None
        self.shell.run_cell(f"{MAGIC} {line}\n{cell}").raise_error()
        return None

    @line_magic
    def _autograd_begin(self, line: str) -> None:
        """What the ``%%autograd`` line becomes: open a graph until the running cell ends."""
        retell(_BEGIN, f"{MAGIC} {line}".rstrip())
        self._begin({**(self.always or {}), **parsed(self.autograd.parser, line)}, asked=True)

    @line_magic
    def _autograd_help(self, line: str) -> None:  # noqa: ARG002
        """What a cell that asks for help becomes."""
        text = self.autograd.parser.format_help().removeprefix("::\n\n")  # that is for documentation
        print(text.replace("  %autograd ", f"  {MAGIC} ", 1))  # noqa: T201  # as the line takes no options of its own

    def begin_cell(self, _info: Any) -> None:
        """A cell begins: record it if every cell is to be recorded."""
        if self.always is None or (self.session is not None and not self.session.graph.closed):
            return
        try:
            self._begin(self.always, asked=False)
        except (OSError, RuntimeError, ValueError) as error:  # what was there when it was switched on may be gone
            assert self.shell is not None
            self.shell.show_usage_error(UsageError(f"%autograd on: {error}. This cell is not recorded."))

    def _begin(self, options: dict[str, Any], *, asked: bool) -> None:
        self.end()  # %%timeit runs the line again and again; and every cell may be recorded anyway
        assert self.shell is not None
        self.session = Session(self, self.shell, record(**options), asked=asked)
        self.session.open()

    def end(self) -> None:
        """Close what is open."""
        if self.session is not None and not self.session.graph.closed:
            self.session.close()

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
            raise UsageError(f"%autograd {command} takes nothing more, but got {rest}")
        if command == "last":
            return self._shown().graph
        text = getattr(self, f"_{command}")(rest.strip())
        if text:
            print(text)  # noqa: T201
        return None

    def _status(self, _: str) -> str:
        state = f"cells are recorded that begin with {MAGIC}"
        if self.always is not None:
            given = " ".join(f"{name}={value}" for name, value in self.always.items())
            state = f"every cell is recorded{f', with {given}' if given else ''}"
        if self.last is None:
            return f"{state}; none was yet"
        graph = self.last.graph
        return f"{state}\nlast graph: {graph!r}, {graph.history!r}"

    def _on(self, line: str) -> None:
        self.always = parsed(self.autograd.parser, line)

    def _off(self, _: str) -> None:
        self.always = None

    def _shown(self) -> Session:
        """The graph that a command is about: that of the cell itself, or the last one that was shown."""
        if self.session is not None and self.session.asked and not self.session.graph.closed:
            return self.session
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
            save(session.graph, names[0], depth=options.depth, direction=options.direction)
        except (ValueError, *UNSAVED) as error:
            raise UsageError(f"%autograd save: {unsaved(error)}") from None

    def _config(self, line: str) -> str | None:
        given = parsed(self.autograd.parser, line)
        for name, value in given.items():
            if name not in configured:
                raise UsageError(f"%autograd config: {name} belongs to one graph, so it has no default to set")
            setattr(self.settings, name, value)
        return None if given else arguments.settings()

    def _help(self, name: str) -> str:
        return arguments.explained(name) if name else arguments.overview()


def _tell(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


_BEGIN = "get_ipython().run_line_magic('_autograd_begin'"


def rewrite(lines: list[str]) -> list[str]:
    """An input transformer: the ``%%autograd`` line becomes a call on the same line, the cell below stays as it is."""
    if not lines:
        return lines
    magic, _, options = lines[0].rstrip("\n").partition(" ")
    if magic.rstrip() != MAGIC or options.rstrip().endswith("?"):
        return lines
    if asks_for_help(options):
        return ["get_ipython().run_line_magic('_autograd_help', '')\n"]
    begin = f"{_BEGIN}, {options.strip()!r})\n"
    body = lines[1:]
    if body and body[0].startswith("%%"):
        inner, _, arguments = body[0][2:].rstrip("\n").partition(" ")
        body = [f"get_ipython().run_cell_magic({inner!r}, {arguments!r}, {''.join(body[1:])!r})\n"]
    return [begin, *body]


# A terminal asks whether what was typed so far is all of a cell. It must see the magic there, which goes on to an empty
# line: of the call that stands for it, it would take the first line for a whole cell.
rewrite.has_side_effects = True  # type: ignore[attr-defined]


def load(shell: InteractiveShell) -> None:
    """Add the magics, their completions and settings to ``shell``; a second time changes nothing."""
    if rewrite in shell.input_transformers_cleanup:
        return
    magics = AutogradMagics(shell)
    magics.settings = Autograd.of(shell.config)
    with ExitStack() as undo:
        undo.callback(configured.clear)
        _register(shell, magics, undo)
        added: list[tuple[list[Any], Any]] = [
            (shell.input_transformers_cleanup, rewrite),
            (shell.configurables, magics.settings),
            (shell.Completer.custom_matchers, complete),
        ]
        for them, one in added:
            them.append(one)
            undo.callback(them.remove, one)
        formatter = shell.display_formatter.formatters["text/html"]  # type: ignore[union-attr]
        for kind, html in RICH.items():
            _put(formatter.type_printers, kind, html, undo)
        shorten(shell, undo)
        unwinding = Unwinding()
        for event, callback in (("pre_run_cell", unwinding.begin), ("post_run_cell", unwinding.end)):
            shell.events.register(event, callback)
            undo.callback(shell.events.unregister, event, callback)
        shell.events.register("pre_run_cell", magics.begin_cell)
        undo.callback(shell.events.unregister, "pre_run_cell", magics.begin_cell)
        undo.callback(magics.end)
        magics.undo = undo.pop_all()


def _register(shell: InteractiveShell, magics: AutogradMagics, undo: ExitStack) -> None:
    """Add the magics, and note to put back what they replace."""
    known = shell.magics_manager.magics
    for kind, names in magics.magics.items():
        for name in names:
            _put(known[kind], name, None, undo)
    _put(shell.magics_manager.registry, AutogradMagics.__name__, None, undo)
    shell.register_magics(magics)


def _put(table: dict[Any, Any], key: Any, value: Any, undo: ExitStack) -> None:
    """``table[key] = value``, and back to what was there before."""
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

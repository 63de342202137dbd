"""The IPython side: ``%load_ext nbgrad`` and the ``%%autograd`` cell magic.

The cell itself is never executed by us: only its first line is replaced, by a call that opens the graph, and a
one-shot callback closes the graph when the cell has run. So tracebacks, ``await``, a trailing ``;`` and other magics
work as in any cell.
"""

import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from nbgrad.core.graph import AutogradGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.view import show

MAGIC = "%%autograd"
USAGE = "usage: %%autograd [--name NAME] [--no-view] [--device {cpu,cuda}]"


class Session:
    """One ``%%autograd`` cell, from its first line to the end of its run."""

    def __init__(self, shell: InteractiveShell, graph: AutogradGraph, *, view: bool) -> None:
        self.shell = shell
        self.graph = graph
        self.view = view
        self._nested = 0

    def open(self) -> None:
        """Start recording, until the cell that runs now has run."""
        self.graph.__enter__()
        self.shell.events.register("pre_run_cell", self._cell_begins)
        self.shell.events.register("post_run_cell", self._cell_ends)

    def close(self) -> None:
        """Stop recording and forget the callbacks."""
        self.shell.events.unregister("pre_run_cell", self._cell_begins)
        self.shell.events.unregister("post_run_cell", self._cell_ends)
        self.graph.close(self.shell.user_ns)

    def _cell_begins(self, _info: Any) -> None:
        """A cell that this cell runs, as ``%run`` or ``%%capture`` do: its end is not ours."""
        self._nested += 1

    def _cell_ends(self, result: Any) -> None:
        if self._nested:
            self._nested -= 1
            return
        self.close()
        if self.view and result.success:
            show(describe(self.graph))


@magics_class
class AutogradMagics(Magics):
    """The magics that ``%load_ext nbgrad`` adds."""

    session: Session | None = None

    @magic_arguments()
    @argument("--name", default=None, help="what the picture calls the graph")
    @argument("--no-view", action="store_true", help="record, but draw nothing under the cell")
    @argument("--device", choices=("cpu", "cuda"), default=None, help="where tensors and parameters are made")
    @cell_magic
    def autograd(self, line: str, cell: str) -> None:
        """Record the cell in an AutogradGraph and draw the graph of its last backward under it."""
        shell = self.shell
        assert shell is not None
        shell.run_cell(f"{MAGIC} {line}\n{cell}").raise_error()

    @line_magic
    def _autograd_begin(self, line: str) -> None:
        """What the ``%%autograd`` line becomes: open a graph until the running cell ends."""
        options = _parse(self.autograd, line)
        if self.session is not None and not self.session.graph.closed:
            self.session.close()  # %%timeit runs the line again and again
        try:
            graph = AutogradGraph(options.name, device=options.device)
        except RuntimeError as error:
            raise UsageError(f"{MAGIC}: {error}") from None
        assert self.shell is not None
        self.session = Session(self.shell, graph, view=not options.no_view)
        self.session.open()


def rewrite(lines: list[str]) -> list[str]:
    """An input transformer: the ``%%autograd`` line becomes a call on the same line, the cell below stays as it is."""
    if not lines:
        return lines
    magic, _, options = lines[0].rstrip("\n").partition(" ")
    if magic.rstrip() != MAGIC or options.rstrip().endswith("?"):
        return lines
    begin = f"get_ipython().run_line_magic('_autograd_begin', {options.strip()!r})\n"
    body = lines[1:]
    if body and body[0].startswith("%%"):
        inner, _, arguments = body[0][2:].rstrip("\n").partition(" ")
        body = [f"get_ipython().run_cell_magic({inner!r}, {arguments!r}, {''.join(body[1:])!r})\n"]
    return [begin, *body]


def load(shell: InteractiveShell) -> None:
    """Add the magics to ``shell``; a second time changes nothing."""
    if rewrite in shell.input_transformers_cleanup:
        return
    magics = AutogradMagics(shell)
    magics.replaced = {  # type: ignore[attr-defined]
        kind: {name: shell.magics_manager.magics[kind].get(name) for name in names}
        for kind, names in magics.magics.items()
    }
    shell.register_magics(magics)
    shell.input_transformers_cleanup.append(rewrite)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away again and put back what they replaced; an open graph is closed."""
    if rewrite not in shell.input_transformers_cleanup:
        return
    shell.input_transformers_cleanup.remove(rewrite)
    magics = shell.magics_manager.registry.pop(AutogradMagics.__name__)
    if magics.session is not None and not magics.session.graph.closed:
        magics.session.close()
    for kind, names in magics.replaced.items():
        for name, before in names.items():
            del shell.magics_manager.magics[kind][name]
            if before is not None:
                shell.magics_manager.magics[kind][name] = before


def _parse(magic: Any, line: str) -> Any:
    """The options on ``line``, quoted as in a shell; wrong ones raise a UsageError that shows the usage."""
    try:
        return magic.parser.parse_args(shlex.split(line))
    except (UsageError, ValueError) as error:
        raise UsageError(f"{MAGIC}: {error}\n{USAGE}") from None

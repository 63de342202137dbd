"""``nbgrad.record``: a graph around a block, with every option of ``%%autograd``."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from nbgrad.core.diagnose.anomaly import detect_anomaly
from nbgrad.core.graph.graph import AutogradGraph, RecordingBlock
from nbgrad.core.graph.timing import TimedGraph
from nbgrad.core.no_gc import uncollected
from nbgrad.core.stages import stage, timed, told
from nbgrad.core.tensor.broadcast_check import strict_broadcast, warn_here
from nbgrad.options import GRAPH, TABLE, Options, check_known, suffix_of

if TYPE_CHECKING:
    from nbgrad.widgets.description.outline import Outline

T = TypeVar("T")


def _explaining(cls: type[T]) -> type[T]:
    """``cls``, a class of options, whose error about an unknown option names those that exist."""
    make: Any = cls.__init__

    @wraps(make)  # with its signature, which editors show
    def checked(self: T, *args: Any, **options: Any) -> None:
        check_known(cls.__name__, options, [one.name for one in TABLE])
        make(self, *args, **options)

    cls.__init__ = checked  # type: ignore[method-assign, assignment]
    return cls


@_explaining
@dataclass
class record(Options, RecordingBlock):  # noqa: N801  # reads as a statement: with nbgrad.record(view="text") as graph:
    """Record the ops of a block in an ``AutogradGraph`` and show it at the end of the block, also when that raises.

    It does the same as ``%%autograd`` with a cell, and has the same options: ``%autograd help`` lists them. In a
    notebook the graph is displayed, elsewhere it is printed as text. With ``save`` a script keeps its stdout for
    itself, except with ``view="text"``: a line on stderr names the file. If the graph cannot be drawn or written after
    the block has run, there is a warning instead of an error, so that no results of the block are lost.

    Example:
        >>> with nbgrad.record("my first net", view="text", save="net.svg") as graph:
        ...     loss = ((x @ w + b) ** 2).mean()
        ...     loss.backward()

    Raises:
        TypeError: there is no such option; the message suggests a similar one.
        ValueError: the option cannot have this value.
        RuntimeError: ``device`` is a CUDA device, and there is none; there is no process group for ``ranks``; or the
            same ``record`` is entered twice.
        FileNotFoundError: the folder of the file does not exist; this is checked before the block runs.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.graph = (TimedGraph if self.time else AutogradGraph)(
            self.name,
            device=self.device,
            watch=self.watch,
            budget=self.budget << 20,
            history=self.history,
            ask=self.ask,
            ranks=self.ranks,
            silence=self.silence,
            inside_compiled=self.inside_compiled,
            **self.paced(),
        )
        self.seconds: dict[str, float] | None = {} if self.stages else None

    def _begin(self) -> None:
        # No code leaves these switches: when the graph closes, it restores the state from before, with them off.
        switches: list[AbstractContextManager[Any]] = []
        if self.anomaly:
            switches.append(detect_anomaly())
        if self.strict_broadcast:
            switches.append(strict_broadcast())
        for switch in switches:
            switch.__enter__()

    def close(self, in_sight: dict[str, Any], error: BaseException | None) -> None:
        """Close the graph, as ``AutogradGraph.close`` does."""
        with timed(self.seconds), stage("close"):
            self.graph.close(in_sight, error)

    @uncollected  # the collector waits until the reader has the picture: it would look through all of the graph
    def _end(self, error: BaseException | None) -> None:
        self.close(self.graph.in_sight(), error)
        if sys.is_finalizing():  # nothing that draws can be imported any more
            if self.save is not None:
                late = f"nbgrad: {self.save} was not written: its block was still open when Python ended"
                sys.stderr.write(f"{late}. Close the generator that holds it\n")
            return
        for problem in self.present():  # an error would hide the block's results, or its own error
            text = f"{problem}. The graph still exists: graph.save(...) writes it to another file"
            try:
                warn_here(text)
            except Exception:  # the user has made errors of warnings, or the line of the user's is not found
                sys.stderr.write(f"nbgrad: {text}\n")

    def present(self) -> list[str]:
        """Show the graph as the options say, and write its file. If ranks are compared, only rank 0 does so.

        Returns:
            One sentence for each part that failed, with the reason. If a part fails, the others still run.
        """
        if self.view == "none" and self.save is None:
            return []
        with timed(self.seconds):
            problems = self._present()
        if self.seconds is not None:
            print(told(self.seconds))  # noqa: T201
        return problems

    def _present(self) -> list[str]:
        problems: list[str] = []
        try:
            from nbgrad.export import unsaved
        except Exception as error:
            return [f"The graph cannot be drawn: {type(error).__name__}: {error}"]
        try:
            if self._left_to_rank_0():
                return []
            outline = self._outline()
            for part in (self._show, self._write):
                try:
                    part(outline)
                except Exception as error:
                    problems.append(unsaved(error))
        except Exception as error:
            problems.append(unsaved(error))
        return problems

    def _left_to_rank_0(self) -> bool:
        """Whether only rank 0 shows the graph. After an error each process shows its own: the errors may differ."""
        recorder = self.graph.rank_recorder
        return recorder is not None and not recorder.leads and self.graph.ending is None

    @stage("describe")
    def _outline(self) -> "Outline":
        from nbgrad.widgets.describe import outline

        return outline(self.graph)

    @stage("send")
    def _show(self, outline: "Outline") -> None:
        from nbgrad.widgets.pending_clear import ours

        with ours():
            self._show_outline(outline)

    def _show_outline(self, outline: "Outline") -> None:
        if self.view == "none":
            return
        if self._show_in_marimo(outline):
            return
        if not _in_notebook():
            if self.save is not None and self.view != "text":
                return  # the file has it, and stdout is the program's
            from nbgrad.widgets.render.text import text

            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # some terminals have no Σ
            print(text(outline.description).encode(encoding, "replace").decode(encoding))  # noqa: T201
            return
        from nbgrad.widgets.notebook_output import show, show_text

        if self.view == "text":
            show_text(outline.description)
            return
        from nbgrad.widgets.tensor_lookup import Holdings

        show(outline, **self.shown(), opens=self.view, holdings=Holdings(self.graph))

    def _show_in_marimo(self, outline: "Outline") -> bool:
        """Show it below a cell of marimo, and say whether one runs."""
        if not _in_marimo():
            return False
        from nbgrad.widgets import marimo_output
        from nbgrad.widgets.render.text import text

        if self.view == "text":
            marimo_output.append(marimo_output.Text(text(outline.description)))
        elif self.view != "none":
            marimo_output.append(marimo_output.Framed(outline, **self.shown(), opens=self.view))
        return True

    @stage("send")
    def _write(self, outline: "Outline") -> None:
        if self.save is not None:
            from nbgrad.export import keep, write

            if suffix_of(self.save) == GRAPH:
                keep(self.graph, outline, self.save)
            else:
                write(outline, self.save, **self.drawn())
            if self.view != "none" and not (_in_notebook() or _in_marimo()):
                sys.stderr.write(f"nbgrad: wrote {self.save}\n")


def _in_notebook() -> bool:
    """Whether IPython runs this program. A plain script has not imported IPython, and can only print."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def _in_marimo() -> bool:
    """Whether a cell of marimo runs."""
    if "marimo" not in sys.modules:
        return False
    from nbgrad.widgets import marimo_output

    return marimo_output.runs()

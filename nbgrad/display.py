"""The display of a graph in a notebook cell or a file, and its findings: imported at their first use."""

from os import PathLike
from typing import Any

from nbgrad.core.graph.checkup import Checkup
from nbgrad.core.graph.comparison import Comparison
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.renderer import register_renderer
from nbgrad.core.graph.saved_graph import AnyGraph


def _configured() -> dict[str, Any]:
    """How a picture is drawn: the options that the user has set."""
    from nbgrad.options import Options

    return Options().shown()


class GraphRenderer:
    """The renderer with which ``AutogradGraph`` shows and saves itself, with or without the extension."""

    def show(self, graph: AnyGraph) -> None:
        """Draw ``graph`` as the output of a notebook cell, with the options that the user has set."""
        from nbgrad.widgets.describe import outline
        from nbgrad.widgets.notebook_output import show
        from nbgrad.widgets.tensor_lookup import holdings_of

        show(outline(graph), **_configured(), holdings=holdings_of(graph))

    def frame(self, graph: AnyGraph) -> tuple[str, str]:
        """Return ``graph`` as the output of a cell of marimo, with the options that the user has set."""
        from nbgrad.widgets.describe import outline
        from nbgrad.widgets.marimo_output import Framed

        return Framed(outline(graph), **_configured())._mime_()

    def save(self, graph: AnyGraph, path: str | PathLike[str], **options: Any) -> None:
        """Write ``graph`` to a file, as ``nbgrad.export.save`` does."""
        from nbgrad.export import save

        save(graph, path, **options)

    def show_programs(self, *parts: tuple[str, Any]) -> None:
        """Draw programs as the output of a notebook cell, with the options that the user has set."""
        from nbgrad.widgets.describe_program import describe_program
        from nbgrad.widgets.notebook_output import show

        show(describe_program(*parts), **_configured())

    def frame_programs(self, *parts: tuple[str, Any]) -> tuple[str, str]:
        """Return programs as the output of a cell of marimo, with the options that the user has set."""
        from nbgrad.widgets.describe_program import describe_program
        from nbgrad.widgets.marimo_output import Framed

        return Framed(describe_program(*parts), **_configured())._mime_()

    def save_programs(self, path: str | PathLike[str], *parts: tuple[str, Any]) -> None:
        """Write the picture of programs, as ``nbgrad.export.write`` does."""
        from nbgrad.export import write
        from nbgrad.widgets.describe_program import describe_program

        write(describe_program(*parts), path)

    def show_comparison(self, comparison: Comparison) -> None:
        """Draw two graphs side by side as the output of a notebook cell, with the options that the user has set."""
        from nbgrad.widgets.describe_comparison import outline_comparison
        from nbgrad.widgets.notebook_output import show

        show(outline_comparison(comparison), **_configured())

    def save_comparison(self, comparison: Comparison, path: str | PathLike[str], **options: Any) -> None:
        """Write the picture of two graphs side by side, as ``nbgrad.export.write`` does."""
        from nbgrad.export import write
        from nbgrad.widgets.describe_comparison import outline_comparison

        write(outline_comparison(comparison), path, **options)

    def survey(self, graph: AutogradGraph) -> Any:
        """Search ``graph``, which has just closed, for faults and probable mistakes."""
        from nbgrad.widgets.findings.collect import Survey

        return Survey.of(graph)

    def findings(self, graph: AutogradGraph) -> list[Finding]:
        """Search ``graph`` for faults and probable mistakes."""
        from nbgrad.widgets.findings.collect import findings

        return findings(graph)

    def checkup(self, graph: AutogradGraph) -> Checkup:
        """Say what was checked in ``graph``."""
        from nbgrad.widgets.findings.collect import checkup

        return checkup(graph)


register_renderer(GraphRenderer())

"""The renderer of graphs. It is above the core, so it registers itself here when it is imported."""

from importlib import import_module
from os import PathLike
from typing import Any, Protocol

from nbgrad.core.graph.checkup import Checkup
from nbgrad.core.graph.finding import Finding


class Renderer(Protocol):
    """The methods of a renderer that a graph calls."""

    def show(self, graph: Any) -> None:
        """Display ``graph`` as the output of a notebook cell."""

    def frame(self, graph: Any) -> tuple[str, str]:
        """Return ``graph`` as the output of a cell of marimo: a mime type, and the data."""

    def frame_programs(self, *parts: tuple[str, Any]) -> tuple[str, str]:
        """Return programs as the output of a cell of marimo."""

    def save(
        self,
        graph: Any,
        path: str | PathLike[str],
        *,
        depth: int | None,
        nodes: int | None,
        direction: str,
        what_if: bool,
    ) -> None:
        """Write ``graph`` to a file."""

    def show_programs(self, *parts: tuple[str, Any]) -> None:
        """Display programs, each with the label of a box around it, as the output of a notebook cell."""

    def save_programs(self, path: str | PathLike[str], *parts: tuple[str, Any]) -> None:
        """Write the picture of programs to a file."""

    def show_comparison(self, comparison: Any) -> None:
        """Display two graphs side by side as the output of a notebook cell."""

    def save_comparison(self, comparison: Any, path: str | PathLike[str], **options: Any) -> None:
        """Write two graphs side by side to a file."""

    def survey(self, graph: Any) -> Any:
        """Return what the findings of ``graph`` are, and what its picture needs of them."""

    def findings(self, graph: Any) -> list[Finding]:
        """Return the faults of ``graph`` and its probable mistakes."""

    def checkup(self, graph: Any) -> Checkup:
        """Return what was checked in ``graph``, and what came of it."""


_registered: list[Renderer] = []


def register_renderer(renderer: Renderer) -> None:
    """Have ``renderer`` show and save graphs, and look for findings in them, from now on."""
    _registered[:] = [renderer]


def registered_renderer() -> Renderer:
    """The renderer that shows and saves graphs: that of nbgrad, unless another one was registered."""
    if not _registered:
        import_module("nbgrad.display")
    return _registered[0]

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


class Drawable:
    """A graph that the renderer draws, in a notebook and in files."""

    def save(
        self,
        path: str | PathLike[str],
        *,
        depth: int | None = None,
        nodes: int | None = None,
        direction: str = "auto",
        what_if: bool = False,
    ) -> None:
        """Write the graph to a file; the same graph gives the same bytes.

        An existing file stays until the new one is complete.

        Args:
            path: the file, whose suffix chooses the format: ``.svg`` and ``.pdf`` are vector drawings, ``.png`` a
                bitmap, ``.html`` one interactive page that needs no kernel and no network, ``.gif`` a film of the
                training step, forward and then backward, ``.dot`` graphviz's language, ``.json`` the plain description
                that all of these are drawn from, ``.txt`` a table, and ``.nbgrad`` the graph itself, which
                ``nbgrad.load`` reads.
            depth: modules that are nested deeper than this are folded; default: as many as ``nodes`` needs.
            nodes: up to this many nodes are drawn before modules are folded; default: modules are folded until the
                picture fits on a screen.
            direction: "TB", from top to bottom, "LR", from left to right, or "auto", the one with the larger letters.
            what_if: for a page: the reader can change numbers of leaves and inputs, and the page runs the graph again.
                It is for at most 300 ops, whose leaves and inputs have at most 2,000 numbers.

        Raises:
            ValueError: another suffix, or none; ``what_if`` for a file that is not a page, or for a graph that is too
                large; or ``.nbgrad`` for a graph that still asks for gradients.
            RerunError: the graph cannot be run again, for example because a constant no longer exists.
            NotImplementedError: an op has no kernel in a page; the message names the operator and the line.
            ModuleNotFoundError: the package that draws a PDF, a PNG or a film is not installed; the message says how to
                install it.
            RuntimeError: a package that draws the graph fails; the message names the package, and what to do.
            FileNotFoundError: the folder does not exist; this is checked before the graph is drawn.
            OSError: the file cannot be written; an existing file stays as it was.
        """
        registered_renderer().save(self, path, depth=depth, nodes=nodes, direction=direction, what_if=what_if)

    def _ipython_display_(self) -> None:
        """Draw the graph where it is the last expression of a notebook cell."""
        registered_renderer().show(self)

    def _mime_(self) -> tuple[str, str]:
        """Draw the graph where it is the last expression of a cell of marimo."""
        return registered_renderer().frame(self)

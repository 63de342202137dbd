"""``load``: a graph of a file, or the graphs of a folder, which are a run."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from nbgrad.core.graph.history import FixedSequence, History, HistoryFrame
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.saved_graph import SavedGraph
from nbgrad.options import GRAPH, SUFFIXES
from nbgrad.widgets.graph_file import GraphFileError, read_graph

_NUMBERS = re.compile(r"(\d+)")


def load(path: str | os.PathLike[str]) -> "SavedGraph | SavedRun":
    """Read a graph that ``graph.save("step.nbgrad")`` wrote, or all graphs of a folder. No code of a file runs.

    Args:
        path: a file, or a folder of files that end in ``.nbgrad``.

    Returns:
        A ``SavedGraph``, which is drawn, queried and compared as the graph was. Of a folder a ``SavedRun``: its graphs
        in the order of their names, in which step 10 comes after step 9, and their history.

    Raises:
        GraphFileError: a file is no such graph, is damaged, or was written by a newer nbgrad. It is a ValueError.
        FileNotFoundError: there is no such file or folder, or no graph in the folder.
        OSError: a file cannot be read.
    """
    found = Path(path).expanduser()
    if not found.is_dir():
        if (suffix := found.suffix.lower()) in SUFFIXES and suffix != GRAPH and found.exists():
            raise GraphFileError(
                f"{str(path)!r} cannot be read: a file that ends in {suffix} is only a picture. Save the graph as "
                f"{found.stem}{GRAPH}"
            )
        return read_graph(found)
    files = sorted([one for one in found.iterdir() if one.suffix.lower() == GRAPH], key=_natural)
    if not files:
        raise FileNotFoundError(f"{str(path)!r}: there is no file that ends in {GRAPH} in this folder")
    return SavedRun(str(path), [read_graph(one) for one in files])


def _natural(path: Path) -> list[str | int]:
    """The parts of a name, of which every second is a number."""
    return [int(part) if at % 2 else part for at, part in enumerate(_NUMBERS.split(path.name))]


class SavedRun(FixedSequence[SavedGraph]):
    """The graphs of a folder, in the order of their names: one program, saved several times.

    Args:
        folder: its path.
        graphs: of its files.
    """

    def __init__(self, folder: str, graphs: list[SavedGraph]) -> None:
        super().__init__(graphs)
        self.folder = folder

    @property
    def history(self) -> History:
        """The frames of all graphs, in the order of their backwards.

        Each graph counts its backwards from 1. If a graph has as many backwards as the one before it, or fewer, it was
        opened anew, and its backwards follow those before.
        """
        return History([frame for _, frame in sorted(self._frames().items())])

    def _frames(self) -> dict[int, HistoryFrame]:
        found: dict[int, HistoryFrame] = {}
        for graph, before in self._counted():
            for frame in graph.history:
                number = before + frame.number
                found[number] = HistoryFrame(number, frame.loss, frame.roots, frame.records)
        return found

    @property
    def losses(self) -> list[BackwardLoss]:
        """The losses of all backwards, numbered as those of ``history``."""
        found = {
            before + one.number: one._replace(number=before + one.number)
            for graph, before in self._counted()
            for one in graph.losses
        }
        return [loss for _, loss in sorted(found.items())]

    def _counted(self) -> Iterator[tuple[SavedGraph, int]]:
        """Each graph, and how many backwards came before its first one."""
        before = last = 0
        for graph in self:
            if graph.backwards <= last:
                before, last = before + last, 0
            yield graph, before
            last = graph.backwards

    def __repr__(self) -> str:
        return f"<SavedRun {self.folder!r}: {len(self)} graphs, {self.history!r}>"

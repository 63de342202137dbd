"""``watched``: it records a loop over batches that is written in plain Python."""

import logging
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from nbgrad.integrations.norms import Detail
from nbgrad.integrations.training import RecordedTraining, TrainingPlan

T = TypeVar("T")

_written: dict[Path, int] = {}
"""By folder, how many passes this process has written there."""


def watched(
    loader: Iterable[T],
    model: Any = None,
    *,
    save: str | PathLike[str] | None = None,
    suffix: str = ".html",
    norms: Detail | None = "module",
    writers: Any = (),
    **options: Any,
) -> "WatchedLoader[T]":
    """The batches of ``loader``, while the loop over them is recorded: each pass, from its first batch to its end.

    Findings go to the log "nbgrad" of ``logging``. The recording ends with the loop, also after a ``break`` or an
    error. In a training by several processes of ``torch.distributed``, the first one records.

    Example:
        >>> for epoch in range(3):
        ...     for x, y in nbgrad.watched(loader, model, save="pages/"):
        ...         loss = criterion(model(x), y)
        ...         ...

    Args:
        loader: anything that a loop can run over.
        model: what learns: parameters have their names in it. Without it, they have those of the picture.
        save: the folder for a file of each pass, ``epoch-0001.html`` and so on; None for none.
        suffix: of these files: ".html" for pages, ".nbgrad" for graphs, of which ``nbgrad.load(folder)`` makes the run,
            or another one of a drawing.
        norms: ``writers`` get the norm of the gradient and the ratio of the update for each "module", or each
            "parameter"; None for no numbers.
        writers: what gets these numbers: a ``SummaryWriter``, a run of Weights & Biases, an ``Accelerator``, or a
            function of values and a step, which counts the batches that the model has learned from.
        options: of ``nbgrad.record``, such as ``cost`` and ``every``.

    Returns:
        A ``WatchedLoader``: it has the length of the loader, and the graph of the last pass as ``graph``.

    Raises:
        TypeError: there is no such option, or one of the ``writers`` is none; or nothing can run over ``loader``.
        ValueError: an argument cannot have this value.
        OSError: the folder cannot be made.
    """
    plan = TrainingPlan("watched", save, suffix, norms, tuple(writers), options)
    return WatchedLoader(loader, model, plan)


class WatchedLoader(Generic[T]):
    """A loader; each pass over it is recorded.

    Args:
        loader: what it runs over.
        model: what learns, or None.
        plan: how it is recorded.

    Attributes:
        graph: of the last pass; None before the first.
    """

    def __init__(self, loader: Iterable[T], model: Any, plan: TrainingPlan) -> None:
        if hasattr(loader, "named_parameters") or not (hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")):
            raise TypeError(
                f"watched() takes batches to loop over, and got a {type(loader).__name__}: give the loader first, then "
                "the model, as in nbgrad.watched(loader, model)"
            )
        self._loader, self._plan = loader, plan
        self._models = {} if model is None else {"model": model}
        self.graph: Any = None

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # Python's own error says that it has none

    def __iter__(self) -> Iterator[T]:
        if not _leads():
            yield from self._loader
            return
        training = RecordedTraining(
            self._plan,
            self._models,
            log=logging.getLogger("nbgrad"),
            epoch=0 if self._plan.folder is None else _written.get(self._plan.folder, 0),
        )
        self.graph = training.graph
        error: BaseException | None = None
        try:
            for batch in self._loader:
                yield batch
                training.batch_ended()
        except GeneratorExit:  # the loop was left
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._plan.folder is not None:
                _written[self._plan.folder] = _written.get(self._plan.folder, 0) + 1
            training.end(error)


def _leads() -> bool:
    """Whether this is the first process, or the only one."""
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not there or torch.distributed.get_rank() == 0

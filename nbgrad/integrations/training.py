"""A training that is recorded: what the callbacks of all trainers have in common.

The trainer must not notice it. So an error of nbgrad's own ends the recording with a warning in the log, and the
training goes on.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, get_args

from nbgrad.core.engine import pacing
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.no_gc import uncollected
from nbgrad.integrations.norms import Detail, StepNorms
from nbgrad.integrations.writers import Write, writer_of
from nbgrad.options import SUFFIXES, TABLE, Options, check_known, share
from nbgrad.recording import record
from nbgrad.testing.soundness import finding_line
from nbgrad.widgets.description.format import counted

_OTHERS = ("ask", "device", "ranks", "save", "stages", "view")
"""The options of ``record`` that the recording of a training does not have."""

_FIRST_LOOK = 20
"""Findings are looked for after so many steps, after twice as many and so on, and at the end of each epoch."""

_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}


@dataclass(frozen=True)
class TrainingPlan:
    """How trainings are recorded: the arguments of a callback.

    Args:
        asks: the callback, for messages.
        save: the folder in which a file is written at the end of each epoch; None for none. It is made.
        suffix: of these files: ".html" for pages, ".nbgrad" for graphs, of which ``nbgrad.load(folder)`` makes the run,
            or another one of a drawing.
        norms: "module" or "parameter": what the writers get norms of; None for no numbers at all.
        writers: what gets the numbers, beside the loggers of the trainer: ``writer_of`` says what it may be.
        options: of ``record``: which steps are recorded, and what is kept of them.

    Raises:
        TypeError: there is no such option, or one of the ``writers`` is none.
        ValueError: an argument cannot have this value.
        OSError: the folder cannot be made.
    """

    asks: str
    save: str | PathLike[str] | None = None
    suffix: str = ".html"
    norms: Detail | None = "module"
    writers: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_known(self.asks, self.options, [one.name for one in TABLE if one.name not in _OTHERS])
        Options(**self.options)
        if self.suffix not in SUFFIXES:
            raise ValueError(f"{self.asks}: suffix={self.suffix!r}: it has to be one of {', '.join(SUFFIXES)}")
        if self.norms is not None and self.norms not in get_args(Detail):
            raise ValueError(f"{self.asks}: norms={self.norms!r}: it has to be 'module', 'parameter' or None")
        for one in self.writers:
            writer_of(one)
        if self.save is not None:
            folder = Path(self.save).expanduser().absolute()  # now: the training may change the working directory
            folder.mkdir(parents=True, exist_ok=True)
            object.__setattr__(self, "save", folder)

    @property
    def folder(self) -> Path | None:
        """The folder of the files, as an absolute path."""
        return None if self.save is None else Path(self.save)


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """``method`` of a ``RecordedTraining``: nothing once that has ended; an error of nbgrad's own only ends it."""

    @wraps(method)
    def safe(self: "RecordedTraining", *args: Any, **kwargs: Any) -> None:
        if self.over:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.fail(error)

    return safe


class TrainingRun:
    """One training, which may be recorded in parts: by passes over a loader, or by several calls of a trainer.

    Attributes:
        batches: how many have ended.
        told: the findings that were logged.
    """

    def __init__(self) -> None:
        self.batches = 0
        self.told: set[Any] = set()

    def join(self, other: "TrainingRun") -> None:
        """``other`` was a part of this one."""
        self.batches += other.batches
        self.told |= other.told


_runs: dict[int, TrainingRun] = {}
"""By the id of the record of each parameter that learned, its run. Each epoch may have its own loader and trainer.
The parameters stay the same tensors, and no other tensor ever gets the id of one."""


def _run_of(graph: AutogradGraph) -> TrainingRun | None:
    """The run of the parameters that got a gradient in ``graph``; None if none has got one so far."""
    learned = [one.id for one in graph.records if one.kind in ("parameter", "leaf") and one.gradient is not None]
    if not learned:
        return None
    found = next((_runs[id] for id in learned if id in _runs), None) or TrainingRun()
    _runs.update(dict.fromkeys(learned, found))
    return found


class RecordedTraining(pacing.Pacer):
    """A training that is recorded from now on, until ``end``.

    Args:
        plan: how.
        models: the modules that learn, by the names that they get in the picture.
        log: the log of the trainer, which gets findings.
        writers: of the trainer: they get numbers, as those of the plan do.
        epoch: how many epochs have ended before it.

    Attributes:
        graph: the recorded graph.
        over: whether it has ended.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        models: dict[str, Any],
        *,
        log: Any,
        writers: Iterable[Write] = (),
        epoch: int = 0,
    ) -> None:
        self._plan, self._models, self._log, self._epoch = plan, models, log, epoch
        self._writers = [*writers, *map(writer_of, plan.writers)]
        self._run, self._joined = TrainingRun(), False
        title = {"name": type(next(iter(models.values()))).__name__} if models else {}
        self._recording = record(view="none", **{**title, **plan.options})
        self.graph, self.over = self._recording.graph, False
        self._norms = StepNorms(self.graph, models.values()) if plan.norms and self._writers else None
        self._share = 1.0 if plan.options.get("every") else share(self._recording.cost)
        self._recorded = self._saved = 0  # backwards
        self._steps = 0
        self._look, self._next = _FIRST_LOOK, 0.0
        try:
            self._recording.__enter__()
            pacing.add(self, late=True)
        except Exception as error:
            self.fail(error)

    # While it runs.

    @_guarded
    def backward_ended(self, *_: Any) -> None:
        """Collect the norms of its gradients, if it was recorded, and if they do not take too much of the time."""
        began = perf_counter()
        if self._norms is None or self.graph.recorded == self._recorded or began < self._next:
            return
        self._recorded = self.graph.recorded
        self._norms.backward_ended()
        self._rest(began)

    @_guarded
    def step_ended(self, optimizer: Any) -> None:  # noqa: ARG002  # as of every pacer
        """Collect how far an optimizer moved the parameters."""
        if self._norms is not None:
            self._norms.step_ended()

    def _rest(self, began: float) -> None:
        """Collect nothing for so long that the time since ``began`` is only a share of all the time."""
        now = perf_counter()
        self._next = max(self._next, now) + (now - began) * (1 / self._share - 1)

    @_guarded
    def batch_ended(self, step: int | None = None) -> None:
        """Write the numbers of the batch as those of this ``step``, and log new findings now and then.

        A batch whose gradients are added to those of the next one is no step. Without a number, a step has that of its
        last batch in the run.
        """
        began, steps = perf_counter(), self.graph.pace.steps
        self._run.batches += 1
        if steps == self._steps:
            return
        self._steps = steps
        self._join()
        values = {} if self._norms is None else self._norms.taken(self._plan.norms or "module")
        if values:
            loss = self.graph.pace.losses.last()
            if loss is not None:
                values["nbgrad/loss"] = loss
            self._write(values, self._run.batches if step is None else step)
            self._rest(began)
        if steps >= self._look:
            self._look = 2 * steps
            self._tell_findings()

    def _join(self) -> None:
        """Go on with the run of what learns, once something has got a gradient."""
        if not self._joined and (found := _run_of(self.graph)) is not None:
            found.join(self._run)
            self._run, self._joined = found, True

    def _write(self, values: dict[str, float], step: int) -> None:
        """Give the numbers to all writers. One that fails gets no more."""
        for write in self._writers.copy():
            try:
                write(values, step)
            except Exception as error:
                self._writers.remove(write)
                self._log.warning("nbgrad: a writer gets no more numbers: %s: %s", type(error).__name__, error)

    @_guarded
    @uncollected
    def epoch_ended(self, number: int) -> None:
        """Log new findings, and write the file of the epoch with this ``number``, from 1."""
        self._epoch = number
        self.graph.name_variables(self._models)
        self._tell_findings()
        self._save()

    def _tell_findings(self) -> None:
        self._join()
        for one in self.graph.findings():
            if (key := _key(one)) not in self._run.told:
                self._run.told.add(key)
                self._log.log(_LEVELS[one.severity], "nbgrad: %s", finding_line(one).strip())

    def _save(self) -> None:
        """Write the file of the epoch. If that fails, the recording goes on."""
        self._saved = self.graph.backwards
        if self._plan.folder is None or not (self.graph.backwards or self.graph.ending):
            return
        path = self._plan.folder / f"epoch-{self._epoch:04}{self._plan.suffix}"
        try:
            self._plan.folder.mkdir(parents=True, exist_ok=True)
            self.graph.save(path, **self._recording.drawn())
        except Exception as error:
            from nbgrad.export import unsaved

            self._log.warning("nbgrad: %s", unsaved(error))

    # The end.

    def end(self, error: BaseException | None = None) -> None:
        """Stop recording, since ``error`` ended the training or for another reason; a second call does nothing.

        Log what was found, and write the file of an epoch that has not come to its end.
        """
        if self.over:
            return
        self._close(error)
        try:
            self._tell_end()
        except Exception as fault:
            self._log.warning("nbgrad: the end of the recording was not told: %s: %s", type(fault).__name__, fault)

    @uncollected
    def _close(self, error: BaseException | None) -> None:
        self.over = True
        pacing.remove(self)
        self._recording.close(self._models, error)
        self._models, self._norms = {}, None  # whoever keeps the graph does not keep the model

    @uncollected
    def _tell_end(self) -> None:
        self._tell_findings()
        if self.graph.ending is not None or self.graph.backwards > self._saved:
            self._epoch += 1
            self._save()
        graph = self.graph
        ran = (
            f"{counted(graph.pace.steps, 'step')}, {counted(graph.backwards, 'backward')}, {graph.recorded:,} recorded"
        )
        self._log.info("nbgrad: %s: %s. %s", graph.name, ran, graph.checkup().summary)
        if self.graph.fault is not None:
            self._log.warning("nbgrad: a part of the graph is missing: %s", self.graph.fault)

    def fail(self, fault: Exception) -> None:
        """End the recording after an error of nbgrad's own."""
        with suppress(Exception):
            self._close(None)
        self.over = True
        self._log.warning(
            "nbgrad: the training is recorded no longer, and goes on: %s: %s", type(fault).__name__, fault
        )


def _key(one: Finding) -> tuple[Any, ...]:
    """By what a finding is known again: its text has numbers, which change, and the model gets its title at the end."""
    return one.kind, one.scope[1:], one.tensors, str(one.place)


class RecordingCallback:
    """A callback that records trainings: what those of all trainers have in common. Each says what its arguments are.

    Attributes:
        graph: the graph of the last training; None before the first.
    """

    def __init__(
        self,
        save: str | PathLike[str] | None = None,
        *,
        suffix: str = ".html",
        norms: Detail | None = "module",
        writers: Any = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self._plan = TrainingPlan(type(self).__name__, save, suffix, norms, tuple(writers), options)
        self._training: RecordedTraining | None = None

    @property
    def graph(self) -> Any:
        return None if self._training is None else self._training.graph

    def __getstate__(self) -> dict[str, Any]:
        """Without the graph, which stays in this process: a trainer may send the callback to others."""
        return {**vars(self), "_training": None}

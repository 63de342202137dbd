"""``TransformersCallback``: it records the ``train`` of a trainer of transformers."""

import sys
from collections.abc import Iterator, Mapping
from math import ceil, floor
from types import FrameType
from typing import Any

from nbgrad.integrations.abandoned import Abandonment
from nbgrad.integrations.packages import wanted
from nbgrad.integrations.training import RecordedTraining, RecordingCallback

_transformers = wanted("TransformersCallback", ("transformers",), "transformers")
_Callback: Any = _transformers.TrainerCallback

_CALLERS = (__name__, "transformers.trainer_callback")
"""The modules between the loop of the trainer and a method here."""


class TransformersCallback(RecordingCallback, _Callback):
    """Record each ``train`` of a trainer: findings go to the log of transformers, and numbers to what it reports to.

    Example:
        >>> trainer = transformers.Trainer(model, arguments, callbacks=[TransformersCallback(save="pages/")], ...)
        >>> trainer.train()

    A trainer tells its callbacks nothing of an error that ends it. The recording then ends at the next backward or step
    of an optimizer, at the end of the notebook's cell, or at the end of the program. ``close`` ends it at once.
    In a training by several processes, the first one records.

    Args:
        save: the folder for a file of each epoch, ``epoch-0001.html`` and so on; None for none.
        suffix: of these files: ".html" for pages, ".nbgrad" for graphs, of which ``nbgrad.load(folder)`` makes the run,
            or another one of a drawing.
        norms: what the trainer reports to, such as TensorBoard, gets the norm of the gradient and the ratio of the
            update for each "module", or each "parameter"; None for no numbers.
        writers: what else gets these numbers: a ``SummaryWriter``, a run of Weights & Biases, or a function of values
            and a step.
        options: of ``nbgrad.record``, such as ``cost`` and ``every``.

    Attributes:
        graph: the graph of the last ``train``; None before the first.

    Raises:
        ModuleNotFoundError: transformers is not installed; this is raised when the class is imported.
        TypeError: there is no such option, or one of the ``writers`` is none.
        ValueError: an argument cannot have this value.
        OSError: the folder cannot be made.
    """

    _abandonment: Abandonment | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_abandonment": None}

    def close(self, error: BaseException | None = None) -> None:
        """Stop recording, if a ``train`` ended with an ``error``."""
        if self._abandonment is not None:
            self._abandonment.stop()
            self._abandonment = None
        if self._training is not None:
            self._training.end(error)

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any = None, **_: Any) -> None:
        """Begin to record."""
        self.close()
        if not state.is_world_process_zero:
            return
        reporters = list(_reporters())

        def write(values: Mapping[str, float], step: int) -> None:  # noqa: ARG001  # they take it from the state
            for one in reporters:
                one.on_log(args, state, control, model=model, logs=dict(values))

        self._training = RecordedTraining(
            self._plan,
            {} if model is None else {"model": model},
            log=_transformers.utils.logging.get_logger("transformers.nbgrad"),
            writers=[write] if reporters else [],
            epoch=floor(state.epoch or 0),
        )
        self._abandonment = Abandonment(_loop(), self.close)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Write the numbers of a recorded step."""
        if self._training is not None:
            self._training.batch_ended(state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Log new findings, and write the file of the epoch."""
        if self._training is not None:
            self._training.epoch_ended(ceil(round(state.epoch or 0, 6)))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Stop recording."""
        self.close()


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _loop() -> FrameType:
    """The frame of the loop that calls this callback."""
    return next(one for one in _frames() if one.f_globals.get("__name__") not in _CALLERS)


def _reporters() -> list[Any]:
    """The callbacks of the trainer that send its numbers to TensorBoard and others. No argument of a callback has them.

    They are those of the handler of callbacks, which calls this one.
    """
    for frame in _frames():
        if frame.f_globals.get("__name__") == "transformers.trainer_callback":
            found = getattr(frame.f_locals.get("self"), "callbacks", None)
            if found is not None:
                return [one for one in found if type(one).__module__.startswith("transformers.integrations.")]
    return []

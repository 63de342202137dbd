"""``LightningCallback``: it records the ``fit`` of a Lightning trainer."""

import logging
from typing import Any

from nbgrad.integrations.packages import wanted
from nbgrad.integrations.training import RecordedTraining, RecordingCallback
from nbgrad.integrations.writers import writer_of

_lightning = wanted("LightningCallback", ("lightning.pytorch", "pytorch_lightning"), "lightning")
_Callback: Any = _lightning.Callback


class LightningCallback(RecordingCallback, _Callback):
    """Record each ``fit`` of a trainer: findings go to the log of Lightning, and numbers to the loggers of the trainer.

    Example:
        >>> trainer = lightning.Trainer(callbacks=[LightningCallback(save="pages/")])
        >>> trainer.fit(module, loader)

    In a training by several processes, the first one records.

    Args:
        save: the folder for a file of each epoch, ``epoch-0001.html`` and so on; None for none.
        suffix: of these files: ".html" for pages, ".nbgrad" for graphs, of which ``nbgrad.load(folder)`` makes the run,
            or another one of a drawing.
        norms: loggers get the norm of the gradient and the ratio of the update for each "module", or each "parameter";
            None for no numbers.
        writers: what else gets these numbers: a ``SummaryWriter``, a run of Weights & Biases, or a function of values
            and a step.
        options: of ``nbgrad.record``, such as ``cost`` and ``every``.

    Attributes:
        graph: the graph of the last ``fit``; None before the first.

    Raises:
        ModuleNotFoundError: Lightning is not installed; this is raised when the class is imported.
        TypeError: there is no such option, or one of the ``writers`` is none.
        ValueError: an argument cannot have this value.
        OSError: the folder cannot be made.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record."""
        self._end()
        if trainer.is_global_zero:
            self._training = RecordedTraining(
                self._plan,
                {"model": pl_module},
                log=logging.getLogger(_lightning.__name__),
                writers=map(writer_of, trainer.loggers),
                epoch=trainer.current_epoch,
            )

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Write the numbers of a recorded batch."""
        if self._training is not None:
            self._training.batch_ended(trainer.global_step)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Log new findings, and write the file of the epoch."""
        if self._training is not None:
            self._training.epoch_ended(trainer.current_epoch + 1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Stop recording."""
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Stop recording, and show the error in the graph."""
        self._end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Stop recording, if nothing else has done so."""
        self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if self._training is not None:
            self._training.end(error)

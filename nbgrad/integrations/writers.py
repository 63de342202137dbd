"""Numbers of a training, written to whatever keeps them: TensorBoard, Weights & Biases, the loggers of a trainer."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

Write = Callable[[Mapping[str, float], int], Any]
"""Writes numbers by their names, for one step."""


def writer_of(given: Any) -> Write:
    """How to write to ``given``.

    Args:
        given: an object with ``add_scalar(name, value, step)``, as a ``SummaryWriter`` of TensorBoard has it; with
            ``log_metrics(values, step)``, as a logger of Lightning; a run of Weights & Biases; an ``Accelerator``; with
            ``log(values, step=step)``; or a function of the values and the step.

    Raises:
        TypeError: it has none of these.
    """
    if hasattr(given, "add_scalar"):
        return lambda values, step: [given.add_scalar(name, value, step) for name, value in values.items()]
    if hasattr(given, "log_metrics"):
        return lambda values, step: given.log_metrics(dict(values), step)
    if hasattr(given, "define_metric"):
        return partial(_to_run, given)
    if hasattr(given, "trackers"):
        return partial(_to_trackers, given)
    if hasattr(given, "log"):
        return lambda values, step: given.log(dict(values), step=step)
    if callable(given):
        return lambda values, step: given(dict(values), step)
    raise TypeError(
        f"writers: a {type(given).__name__} has no add_scalar, log_metrics or log, and is no function of values and a "
        "step. Give a SummaryWriter of TensorBoard, a run of Weights & Biases, an Accelerator, or a function"
    )


_STEP = "nbgrad/step"

_rows: "WeakKeyDictionary[Any, int | None]" = WeakKeyDictionary()
"""How many rows each run of Weights & Biases had when it got the last numbers; None once the warning was given."""


def _to_run(run: Any, values: Mapping[str, float], step: int) -> None:
    """Write to a run of Weights & Biases: the numbers join the row that the program logs next.

    A run has one counter of rows, which never goes back: it drops what a program logs with a smaller step. So nbgrad
    counts its steps in a number of its own, and ends no row.
    """
    if run not in _rows:
        run.define_metric(_STEP)
        run.define_metric("nbgrad/*", step_metric=_STEP)
    elif _rows[run] == run.step:
        _rows[run] = None
        logging.getLogger("nbgrad").warning(
            "nbgrad: Weights & Biases keeps the numbers of the last recorded step before each run.log of the program, "
            "which logs less often. With writers=[lambda values, step: run.log(values)] all are kept, each in a row of "
            "its own"
        )
    if _rows.get(run, 0) is not None:
        _rows[run] = run.step
    run.log({_STEP: step, **values}, commit=False)


def _to_trackers(accelerator: Any, values: Mapping[str, float], step: int) -> None:
    """Write to the trackers of an ``Accelerator``, which it may have got only now."""
    for one in accelerator.trackers:
        run = getattr(one, "tracker", None)
        if hasattr(run, "define_metric"):
            _to_run(run, values, step)
        else:
            one.log(dict(values), step=step)

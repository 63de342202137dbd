"""Numbers of a training, written to whatever keeps them: TensorBoard, Weights & Biases, the loggers of a trainer."""

from collections.abc import Callable, Mapping
from typing import Any

Write = Callable[[Mapping[str, float], int], Any]
"""Writes numbers by their names, for one step."""


def writer_of(given: Any) -> Write:
    """How to write to ``given``.

    Args:
        given: an object with ``add_scalar(name, value, step)``, as a ``SummaryWriter`` of TensorBoard has it; with
            ``log_metrics(values, step)``, as a logger of Lightning; with ``log(values, step=step)``, as a run of
            Weights & Biases or an ``Accelerator``; or a function of the values and the step.

    Raises:
        TypeError: it has none of these.
    """
    if hasattr(given, "add_scalar"):
        return lambda values, step: [given.add_scalar(name, value, step) for name, value in values.items()]
    if hasattr(given, "log_metrics"):
        return lambda values, step: given.log_metrics(dict(values), step)
    if hasattr(given, "log"):
        return lambda values, step: given.log(dict(values), step=step)
    if callable(given):
        return lambda values, step: given(dict(values), step)
    raise TypeError(
        f"writers: a {type(given).__name__} has no add_scalar, log_metrics or log, and is no function of values and a "
        "step. Give a SummaryWriter of TensorBoard, a run of Weights & Biases, an Accelerator, or a function"
    )

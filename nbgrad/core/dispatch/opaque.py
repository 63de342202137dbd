"""Functions of raw tensors that look at numbers, which a traced program calls as one step.

A rule may choose between two ways by the numbers of a tensor, or check them. A trace has no numbers. So the part that
looks at them is a function of its own: the trace is given the shapes of its results, and the program calls it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.overrides import handle_torch_function

from nbgrad.core.engine.node import TensorBase
from nbgrad.core.engine.state import current

Run = Callable[..., Any]


def opaque(like: Run) -> Callable[[Run], Run]:
    """Decorate a function of raw tensors that looks at numbers. The results must not share memory with the arguments.

    Args:
        like: takes the same arguments, and returns tensors of the shapes, strides and types of the results without a
            look at any number.
    """

    def decorate(function: Run) -> Run:
        return _in_traces(function, like, checks=False)

    return decorate


def check_of_numbers(function: Run) -> Run:
    """Decorate a function of raw tensors that returns nothing, and raises an error if their numbers are wrong.

    A program checks them in each run. There are none on the device "meta", where the function is not called.
    """

    @wraps(function)
    def checked(*args: Any, **settings: Any) -> None:
        if has_numbers(args[0]):
            function(*args, **settings)
        elif current().tracer is not None:
            step(*args, **settings)

    step = _in_traces(function, _nothing, checks=True)
    return checked


def has_numbers(data: torch.Tensor) -> bool:
    """Whether a rule may look at the numbers of ``data``: not on the device "meta", and not while a trace is made."""
    return current().tracer is None and not data.is_meta


def recorded(*values: Any) -> bool:
    """Whether the steps of a rule on ``values`` are recorded, because the rule will itself be differentiated.

    Such a rule must be made of rows. Otherwise its values are raw tensors, and it may call an opaque function.
    """
    return any(isinstance(value, TensorBase) for value in values)


def _nothing(*args: Any, **settings: Any) -> None:
    """Return nothing, as a function does that only checks."""


def _in_traces(function: Run, like: Run, checks: bool) -> Run:
    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        if current().tracer is None:
            return function(*args, **settings)
        if torch._C._is_torch_function_mode_enabled():
            return handle_torch_function(call, args, *args, **settings)  # the trace writes it down
        return like(*args, **settings)

    call.like, call.checks = like, checks  # type: ignore[attr-defined]
    return call

"""Functions that choose between several rows, with arguments as torch's argument parser reads them.

This module is not compiled, because the functions made here must show their parameters, as only Python's do.
"""

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from nbgrad.core.dispatch.arguments import NO_OUT, other_names, parameter_names, renamed
from nbgrad.core.engine.node import TensorBase


def as_parsed(function: Callable[..., Any], *, numpys: bool, out: bool) -> Callable[..., Any]:
    """Wrap ``function`` so that numbers of numpy's become Python's. A row does this by itself.

    Args:
        function: a function that chooses a row, or is composed of rows.
        numpys: whether it takes numpy's names of arguments too, as torch's parser does.
        out: whether it takes ``out=None``.
    """
    own = parameter_names(function)
    names = other_names(own) if numpys else {}
    out = out and "out" not in own

    @wraps(function)
    def called(*args: Any, **settings: Any) -> Any:
        if settings:
            if out and settings.pop("out", None) is not None:
                raise NotImplementedError(NO_OUT.format(called=function.__name__))
            settings = {name: _number(value) for name, value in renamed(settings, names).items()}
            if isinstance(settings.get("dim"), TensorBase):  # by position a tensor may be the other operand
                settings["dim"] = operator.index(settings["dim"])
        return function(*map(_number, args), **settings)

    return called


def _number(value: Any) -> Any:
    """A number of numpy's as Python's, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value

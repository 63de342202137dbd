"""The casts of autocast for functions that are several ops here and one op, with one policy, in torch."""

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch

from nbgrad.core.backend.autocast import any_enabled, cast, switched_off
from nbgrad.core.engine.state import restoring
from nbgrad.core.tensor.tensor import Tensor


class _One:
    """A call of torch's function with ``count`` arguments by position, and with tensors by these ``names``."""

    policy: Callable[..., Any] | None = None  # the policy is that of the forward

    def __init__(self, function: Callable[..., Any], count: int, names: tuple[str, ...]) -> None:
        self.function, self.count, self.names = function, count, names

    def forward(self, *values: Any, **settings: Any) -> Any:
        named = dict(zip(self.names, values[self.count :], strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the real call gives the warnings
            return self.function(*values[: self.count], **named, **settings)


def as_one(torchs: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function made of ops: autocast casts its tensors as those of ``torchs``, and nothing inside it."""
    called = cache(lambda count, names: _One(torchs, count, names))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @restoring
        def uncast(*args: Any, **settings: Any) -> Any:
            with switched_off():
                return function(*args, **settings)

        @wraps(function)
        def casting(*args: Any, **settings: Any) -> Any:
            if not any_enabled():
                return function(*args, **settings)
            names = tuple(name for name, value in settings.items() if isinstance(value, Tensor | torch.Tensor))
            given = (*args, *(settings.pop(name) for name in names))
            values = [value.data if isinstance(value, Tensor) else value for value in given]
            given = cast(called(len(args), names), given, values, settings)
            return uncast(*given[: len(args)], **dict(zip(names, given[len(args) :], strict=True)), **settings)

        return casting

    return decorate

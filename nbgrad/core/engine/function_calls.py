"""The calls of the user's ``Function`` classes, with what is needed to run one again."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from nbgrad.core.engine.node import Node

_PLAIN = (bool, int, float, str, tuple, list, type(None))
"""The kinds of settings that are kept."""

_SMALL = 1 << 16
"""Constants with more numbers are not kept."""


class FunctionCall(NamedTuple):
    """A call of a ``Function`` of the user's, of torch's kind or nbgrad's.

    Attributes:
        function: the class.
        needs: for each argument of its ``forward`` after ``ctx``, whether it needs a gradient.
        settings: the plain values that its ``forward`` has put on ``ctx``.
        constants: copies of the saved tensors that need no gradient, in their order; empty if they are not known.
    """

    function: type
    needs: tuple[bool, ...]
    settings: dict[str, Any]
    constants: tuple[torch.Tensor, ...] = ()


CALLS: WeakKeyDictionary[Node, FunctionCall] = WeakKeyDictionary()
"""The calls of torch's ``Function`` classes, by our node."""

_CONSTANTS: WeakKeyDictionary[type, tuple[torch.Tensor, ...]] = WeakKeyDictionary()


def note_call(node: Node, made: Any) -> None:
    """Keep the facts of the call ``made``, a node of torch's, for our ``node``."""
    function = getattr(type(made), "_forward_cls", None)
    needs = getattr(made, "needs_input_grad", None)
    if function is None or needs is None or function.__module__.startswith(("torch.", "nbgrad.")):
        return
    settings = {name: value for name, value in vars(made).items() if isinstance(value, _PLAIN)}
    if function not in _CONSTANTS:
        _CONSTANTS[function] = _constants(made) if not all(needs) else ()
    CALLS[node] = FunctionCall(function, tuple(needs), settings, _CONSTANTS[function])


def _constants(made: Any) -> tuple[torch.Tensor, ...]:
    """Copies of the small saved tensors that need no gradient. Hooks of the user's on saved tensors are not called."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return ()
    saved = [one for one in made.saved_tensors if isinstance(one, torch.Tensor) and not one.requires_grad]
    return tuple([one.detach().clone() for one in saved if one.numel() <= _SMALL])

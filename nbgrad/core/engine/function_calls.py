"""The calls of the user's ``Function`` classes, with what is needed to run one again."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from nbgrad.core.engine.node import Node

_PLAIN = (bool, int, float, str, type(None))
"""The kinds of settings that are kept, also in lists and tuples."""

_SMALL = 1 << 16
"""Constants with more numbers are not kept."""


class Constants(list[torch.Tensor]):
    """Copies of the tensors of one call that need no gradient: those of the first that still lives serve for all."""


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
    constants: Sequence[torch.Tensor] = ()


CALLS: WeakKeyDictionary[Node, FunctionCall] = WeakKeyDictionary()
"""The calls, by our node."""

_CONSTANTS: WeakValueDictionary[type, Constants] = WeakValueDictionary()


def note_torch_call(node: Node, made: Any) -> None:
    """Keep the facts of the call ``made``, a node of torch's, for our ``node``."""
    function = getattr(type(made), "_forward_cls", None)
    needs = getattr(made, "needs_input_grad", None)
    if function is not None and needs is not None:
        note_call(node, function, needs, vars(made), _saved_constants(made))


def note_call(
    node: Node,
    function: type,
    needs: Sequence[bool],
    context: dict[str, Any],
    saved: Iterable[torch.Tensor],
) -> None:
    """Keep the facts of a call for our ``node``.

    Args:
        node: the op.
        function: the class. Those of torch and of nbgrad are not the user's.
        needs: for each argument, whether it needs a gradient.
        context: the attributes of the context.
        saved: the saved tensors that need no gradient. They are read only at the first call of the class.
    """
    if function.__module__.startswith(("torch.", "nbgrad.")):
        return
    settings = {name: value for name, value in context.items() if _is_plain(value)}
    constants = _CONSTANTS.get(function)
    if constants is None:
        copied = [] if all(needs) else [one.detach().clone() for one in saved if one.numel() <= _SMALL]
        constants = _CONSTANTS[function] = Constants(copied)
    CALLS[node] = FunctionCall(function, tuple(needs), settings, constants)


def _is_plain(value: Any) -> bool:
    """Whether a setting holds no tensor and no function: these would keep the program alive."""
    if isinstance(value, tuple | list):
        return all(_is_plain(one) for one in value)
    return isinstance(value, _PLAIN)


def _saved_constants(made: Any) -> Iterator[torch.Tensor]:
    """The saved tensors of a node of torch's that need no gradient. Hooks of the user's on them are not called."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        yield from (one for one in made.saved_tensors if isinstance(one, torch.Tensor) and not one.requires_grad)

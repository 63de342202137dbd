"""A torch tensor that a program fills with values of ours: it stands for one of ours from then on.

``out = torch.zeros(3)`` is a tensor of torch's. After ``out[0] = y``, where ``y`` is ours and needs a gradient, torch
would know only the values. So ``out`` becomes a ``Filled``: the same object in the same memory, whose class asks a
tensor of ours, its counterpart, for all that torch's functions and methods want of it.
"""

from collections.abc import Callable
from types import GetSetDescriptorType
from typing import Any

import torch

from nbgrad.core.engine.node import TensorBase
from nbgrad.core.structure import exchanged


class Fillings:
    """Whether there has been a ``Filled``: before that there is nothing to look for.

    ``enter(tensor)`` gives what stands for a torch tensor that needs a gradient, and ``enters_whole(tensor)`` raises if
    not all of its gradient arrives there. ``core.interop`` sets them.
    """

    __slots__ = ("any", "enter", "enters_whole")

    def __init__(self) -> None:
        self.any = False
        self.enter: Callable[[torch.Tensor], Any]
        self.enters_whole: Callable[[torch.Tensor], None]


fillings = Fillings()


class Filled(torch.Tensor):
    """A torch tensor that has a counterpart, ``_nbgrad``."""

    _nbgrad: TensorBase

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, a method or an attribute of torch's on the counterparts."""
        given, settings = counterparts(args), counterparts(kwargs or {})
        name = function.__name__
        first = given[0] if given else None
        if name in ("__get__", "__set__", "__delete__") and first is not None:
            result = _attribute(function, name, given)
        elif name == "__hash__":
            return object.__hash__(args[0])
        elif name == "__repr__":  # torch's takes settings
            return repr(first)
        elif isinstance(first, TensorBase) and "Tensor" in getattr(function, "__qualname__", ""):
            result = _method(first, name)(*given[1:], **settings)
        else:
            ours: Any = _kind([*given, *settings.values()])
            result = ours.__torch_function__(function, (ours,), given, settings)
        return args[0] if result is first and isinstance(first, TensorBase) else result


def _attribute(function: Any, name: str, given: tuple[Any, ...]) -> Any:
    """Read, set or delete an attribute of the counterpart; one that it does not have is read from its data."""
    descriptor = function.__self__
    called = descriptor.__name__ if isinstance(descriptor, GetSetDescriptorType) else descriptor.fget.__name__
    first, *value = given
    if name == "__set__":
        return setattr(first, called, value[0])
    if name == "__delete__":
        return delattr(first, called)
    return getattr(first, called) if hasattr(type(first), called) else _fact(first, called)


def _method(first: TensorBase, name: str) -> Any:
    if hasattr(type(first), name):
        return getattr(first, name)
    if name.endswith("_"):
        raise NotImplementedError(f"nbgrad has no method {name!r}, and torch's would lose a gradient of the tensor")
    return lambda *args, **settings: _fact(first, name, *args, **settings)


def _fact(first: TensorBase, name: str, *args: Any, **settings: Any) -> Any:
    """An attribute of the data, or the result of a method of it. A tensor is refused: it would lack its gradient."""
    fact = getattr(first._data, name)
    fact = fact(*args, **settings) if callable(fact) else fact
    if isinstance(fact, torch.Tensor):
        raise NotImplementedError(
            f"nbgrad has no {name!r} for a torch tensor that was filled with values of an nbgrad tensor"
        )
    return fact


def _kind(values: list[Any]) -> type[TensorBase]:
    """The class of our tensors, one of which is among ``values`` or in a list there."""
    while values:
        value = values.pop()
        if isinstance(value, TensorBase):
            return type(value)
        if type(value) in (list, tuple):
            values.extend(value)
    raise TypeError("a function of torch's was called with no tensor that nbgrad knows")


def counterparts(value: Any) -> Any:
    """``value`` with the counterpart in the place of each ``Filled``, also in lists, tuples and dicts."""
    return exchanged(Filled, lambda one: one._nbgrad, value)


def entered(value: Any) -> Any:
    """``value``, in which a tensor of ours replaces each torch tensor that needs a gradient, in lists as well."""
    return exchanged(torch.Tensor, _entered, value)


def _entered(value: torch.Tensor) -> Any:
    if isinstance(value, Filled):
        return value._nbgrad
    return fillings.enter(value) if value.requires_grad else value


def entered_leaves(inputs: Any) -> Any:
    """The ``inputs`` of a backward: each leaf of torch's is replaced by the leaf of ours that stands for it.

    Raises:
        RuntimeError: one is a result of torch's, whose ``.grad`` only a backward of torch's can keep.
    """
    if inputs is None or isinstance(inputs, TensorBase):
        return inputs
    held = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    for position, one in enumerate(held):
        if isinstance(one, torch.Tensor) and not isinstance(one, Filled) and one.grad_fn is not None:
            raise RuntimeError(
                f"backward(): inputs[{position}] is a result of torch's own autograd, in whose .grad nbgrad does not "
                "accumulate: pass leaves, or ask grad() for the gradient"
            )
    return entered(held)

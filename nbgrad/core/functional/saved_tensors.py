"""Hooks of the user that pack the values an op saves for the backward: into a file, to a device, in fewer bits.

The packing is an ``Observer``, as a graph is: without one an op does no work for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import graph as theirs

from nbgrad.core.backend.below_autograd import outside
from nbgrad.core.engine.node import Deferred, Node, TensorBase
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current
from nbgrad.core.tensor.tensor import Tensor


class Packing(Observer):
    """Packs what each op saves inside one context.

    Args:
        pack: takes a tensor that an op saves; what it returns is kept in place of the tensor.
        unpack: takes what ``pack`` returned and returns the tensor, in each backward that comes to the op.
        raw: whether both take and return torch tensors instead of nbgrad's.
    """

    __slots__ = ("_pack", "_raw", "_unpack")

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any], *, raw: bool) -> None:
        self._pack, self._unpack, self._raw = pack, unpack, raw

    def on_record(self, node: Node, _args: tuple[Any, ...], _out: torch.Tensor) -> None:
        saved = node.saved
        if not node.plan.keeps_values or not isinstance(saved, tuple):  # a checkpoint has let it go already
            return
        with Switch(grad_enabled=False, observers=()):
            node.saved = _PackedValues(outside(lambda: [self._packed(value) for value in saved]), self)
        node.versions = [None] * len(saved)

    def _packed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        version = value._version
        packed = self._pack(value.detach() if self._raw else Tensor(value))
        if value._version != version:
            raise RuntimeError(
                "a pack hook of saved_tensors_hooks changed its argument in place, which other code also uses: return "
                "a new tensor, as in lambda t: t.clone()"
            )
        return _PackedValue(packed)

    def unpacked(self, value: Any) -> Any:
        """The value that an op had saved, from the packed object."""
        if not isinstance(value, _PackedValue):
            return value
        tensor = self._unpack(value.packed)
        if not isinstance(tensor, TensorBase | torch.Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        return tensor._data if isinstance(tensor, TensorBase) else tensor.detach()


class _PackedValue:
    """A value that a pack hook returned; an op may also save values that are not packed."""

    __slots__ = ("packed",)

    def __init__(self, packed: Any) -> None:
        self.packed = packed


class _PackedValues(Deferred):
    """Stands in ``Node.saved`` for the packed values."""

    __slots__ = ("_packing", "_values")

    def __init__(self, values: list[Any], packing: Packing) -> None:
        self._values, self._packing = values, packing

    def restore(self, node: Node) -> Any:  # noqa: ARG002  # it stays packed, for another backward
        """Unpack and return all values that the node had saved."""
        with Switch(observers=()):
            return tuple([self._packing.unpacked(value) for value in self._values])

    def held(self) -> list[tuple[str, Any]]:
        """The packed objects, and the values that are not packed."""
        return [("packed", one.packed if isinstance(one, _PackedValue) else one) for one in self._values]


def values_of(node: Node) -> tuple[Any, ...]:
    """The values that ``node`` had saved; called in a backward that has come to it."""
    saved: Any = node.saved.restore(node) if isinstance(node.saved, Deferred) else node.saved
    return saved if isinstance(saved, tuple) else ()


def unpacking(observers: tuple[Observer, ...]) -> tuple[Observer, ...]:
    """The ``observers`` without those that pack."""
    return tuple([one for one in observers if not isinstance(one, Packing)])


def packing(pack: Callable[[Any], Any], unpack: Callable[[Any], Any], *, raw: bool) -> Switch:
    """A switch inside which only these two functions pack and unpack."""
    return Switch(observers=(*unpacking(current().observers), Packing(pack, unpack, raw=raw)))


def _check_enabled() -> None:
    message = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    if message is not None:
        raise RuntimeError(message)


class saved_tensors_hooks:  # noqa: N801  # torch's name
    """Inside it each op keeps ``pack_hook(t)`` for its backward in place of each tensor ``t`` that it saves.

    ``unpack_hook`` gets that in the backward and returns a tensor with the shape, element type, device and values of
    ``t``. If contexts are nested, the innermost holds. Changes in place of a packed tensor are not noticed.

    Args:
        pack_hook: gets a ``Tensor`` without a history, which it may not change in place, and returns anything.
        unpack_hook: gets what ``pack_hook`` returned, once in each backward that comes to the op.

    Raises:
        RuntimeError: inside ``disable_saved_tensors_hooks``; the pack hook changes a tensor in place.
        TypeError: in the backward: the unpack hook returned no tensor.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._entered: list[Switch] = []

    def __enter__(self) -> None:
        _check_enabled()
        switch = packing(self.pack_hook, self.unpack_hook, raw=False)
        switch.__enter__()
        self._entered.append(switch)

    def __exit__(self, *raised: Any) -> None:
        self._entered.pop().__exit__(*raised)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801  # torch's name
    """Inside it the tensors that ops save lie in main memory, and go back to their device when a backward needs them.

    Args:
        pin_memory: use page-locked memory, from and to which a GPU copies while it computes.
        device_type: the kind of device whose presence decides whether memory can be locked.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        plain = theirs.save_on_cpu(pin_memory, device_type)
        super().__init__(lambda tensor: plain.pack_hook(tensor.data), plain.unpack_hook)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside it, to enter ``saved_tensors_hooks``, nbgrad's or torch's, raises a RuntimeError with that message."""
    if any(isinstance(one, Packing) for one in current().observers):
        raise RuntimeError(error_message)
    with theirs.disable_saved_tensors_hooks(error_message):
        yield

"""Parameter: a tensor that a module learns. Buffer: one that it keeps. Both may wait for their shape."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from nbgrad.core.backend.torch_guards import check_optimizer
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.tensor.torch_class import LikeTorchsParameters

DType = torch.dtype | None
Device = torch.device | str | None
"""Where parameters are made; None is the device of the active graph, else torch's default device."""


def _shared(data: Any) -> torch.Tensor:
    """The values that a parameter or buffer is made of: a tensor's own, those of numbers, or none."""
    if data is None:
        return torch.empty(0)
    return data.data if isinstance(data, Tensor) else tensor(data).data


def check_several(name: str, given: Any, wanted: str = "a list of tensors") -> None:
    """Raise a TypeError where ``name``, the parameters of a model, is the model or nothing to go through."""
    if hasattr(given, "named_parameters") or not hasattr(given, "__iter__"):  # a Sequential can be gone through too
        raise TypeError(
            f"{name} must be {wanted}, got a {kind_of(given)}: pass the parameters of a model as model.parameters()"
        )


class Parameter(LikeTorchsParameters, Tensor):
    """A tensor that a ``Module`` counts among its parameters when it is assigned to an attribute.

    Args:
        data: a ``Tensor`` or torch tensor, whose memory it shares, or numbers; default: an empty tensor.
        requires_grad: whether a backward gives it a gradient; False freezes it.

    You may set attributes of your own, as in ``p.no_decay = True``; copies and pickles keep them.

    Raises:
        RuntimeError: ``requires_grad`` with an element type that has no gradients.
    """

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        super().__init__(_shared(data))
        self.requires_grad = requires_grad

    @property
    def kind(self) -> str:
        """The kind of its box in the picture: "parameter"."""
        return "parameter"

    @property
    def __name__(self) -> str:
        """Raise: there is none. torch's optimizer asks for it when it rejects a parameter, and gets a clearer error."""
        check_optimizer()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute '__name__'")

    def replace_data(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Put ``change(data)`` in place of the data, and likewise the gradient; the parameter stays the same object."""
        changed = change(self.data)
        if changed is self.data:
            return
        self.data = changed
        if self._grad is not None:
            self._grad = Tensor(change(self._grad.data))

    __deepcopy__ = None  # type: ignore[assignment]  # it is copied as it is pickled

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles have the data, the name and the user's attributes, but as in torch no gradient."""
        return type(self), (self.data, self.requires_grad), (vars(self) or None, {"name": self.name})

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a ``Module`` keeps but does not train: it becomes a buffer when it is assigned to an attribute.

    Args:
        data: a ``Tensor`` or torch tensor, whose memory it shares, or numbers; default: an empty tensor.
        persistent: whether ``state_dict`` holds it.
    """

    __slots__ = ("persistent",)

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        super().__init__(_shared(data))
        self.persistent = persistent

    __deepcopy__ = None  # type: ignore[assignment]  # it is copied as it is pickled

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles have the data and the name."""
        return type(self), (self.data,), (None, {"name": self.name, "persistent": self.persistent})


if TYPE_CHECKING:
    _Mixed = Tensor
else:
    _Mixed = object  # else a subclass with Parameter could not become a Parameter: other memory layout


class Uninitialized(_Mixed):
    """The shared part of the parameters and buffers that a lazy module makes before it knows their shape.

    Their data are torch's own uninitialized parameter: every op on it is an error that says what to do.
    """

    __slots__ = ()

    @property
    def _made(self) -> type[Tensor]:
        """The class that it gets when it has a shape."""
        return Tensor

    def materialize(self, shape: Sequence[int], device: Device = None, dtype: torch.dtype | None = None) -> None:
        """Give it a shape, and with that arbitrary values; it is then an ordinary parameter or tensor."""
        where = self._data.device if device is None else check_device(device)
        empty = torch.empty(tuple(shape), device=where, dtype=dtype or self._data.dtype)
        self.__class__ = self._made  # both have the same layout
        self.data = empty

    @property
    def shape(self) -> torch.Size:
        """The shape, which is not known yet.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "an uninitialized parameter or buffer has no shape yet: call the lazy module once on an input, "
            "or load a state_dict, to initialize it"
        )

    def replace_data(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Take the dtype and the device that ``change`` gives."""
        changed = change(torch.empty(0, device=self._data.device, dtype=self._data.dtype))
        self._data = _waiting(self._needs_grad, changed.device, changed.dtype)

    __deepcopy__ = None  # type: ignore[assignment]  # it is copied as it is pickled

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles wait for their shape too."""
        place = self._data.device, self._data.dtype
        settings = (self.requires_grad, *place) if isinstance(self, Parameter) else (False, *place)
        return type(self), settings, (getattr(self, "__dict__", None), {"name": self.name})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape is not known yet; ``materialize`` makes it an ordinary one.

    Args:
        requires_grad: whether a backward will give it a gradient.
        device: where it will live; default: the device of the active graph, else torch's default device.
        dtype: its element type; default: torch's default.
    """

    __slots__ = ()

    def __init__(
        self,
        requires_grad: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        Tensor.__init__(self, _waiting(requires_grad, _where(device), dtype), requires_grad)

    @property
    def _made(self) -> type[Tensor]:
        return Parameter


class UninitializedBuffer(Uninitialized, Tensor):
    """A buffer whose shape is not known yet; ``materialize`` makes it an ordinary tensor.

    Args:
        requires_grad: accepted, as in torch; no optimizer learns a buffer.
        device: where it will live; default: the device of the active graph, else torch's default device.
        dtype: its element type; default: torch's default.
    """

    __slots__ = ()

    def __init__(
        self,
        requires_grad: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        Tensor.__init__(self, _waiting(False, _where(device), dtype), requires_grad)


def is_lazy(value: Any) -> bool:
    """Whether ``value`` is a parameter or buffer without a shape, ours or torch's."""
    return isinstance(value, Uninitialized) or torch.nn.parameter.is_lazy(value)


def uninitialized(*shape: int, device: Device = None, dtype: torch.dtype | None = None) -> Parameter:
    """A parameter of that shape with arbitrary values, for a block's ``reset_parameters`` to fill.

    Args:
        shape: its size in each dimension.
        device: where it lives; default: the device of the active graph, else torch's default device.
        dtype: the element type; default: torch's default.

    Raises:
        TypeError: a size is no whole number.
    """
    if any(isinstance(size, float) for size in shape):
        raise TypeError(
            f"the sizes of a parameter are whole numbers, not {shape}: a // b divides to one, a / b to a float"
        )
    return Parameter(torch.empty(shape, device=_where(device), dtype=dtype))


def filled(value: float, *shape: int, device: Device = None, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Data of that shape, full of ``value``, where ``uninitialized`` would be: for buffers."""
    return torch.full(shape, value, device=_where(device), dtype=dtype or torch.get_default_dtype())


def _where(device: Device) -> torch.device | None:
    return current().device if device is None else check_device(device)


def _waiting(
    requires_grad: bool, device: torch.device | None, dtype: torch.dtype | None
) -> torch.nn.UninitializedParameter:
    make: Any = torch.nn.UninitializedParameter  # its signature is that of Parameter in torch's types
    return make(requires_grad, device=device, dtype=dtype)  # type: ignore[no-any-return]

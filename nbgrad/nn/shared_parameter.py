"""A parameter that shares its values and its gradient with a parameter of torch's."""

from typing import Any
from weakref import ref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nbgrad.core.tensor.shared_gradient import SharedGradient
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parameter import Parameter


class SharedParameter(SharedGradient, Parameter):
    """A ``Parameter`` of a converted module. Its ``.grad`` is that of the torch parameter that it was made of.

    So torch's optimizer of the original module steps with the gradients of nbgrad's backward, and its ``zero_grad()``
    clears them. Data of the same type and device that are assigned to it are assigned to the torch parameter, too. When
    it is moved to another type or device, the sharing ends: then it is like any other parameter. Copies and pickles are
    like any other parameter from the start.

    Args:
        theirs: the torch parameter, whose memory it shares. Other code may pass any value that ``Parameter`` takes:
            then the result shares no gradient.
        requires_grad: whether a backward gives it a gradient; default: as ``theirs`` says.
    """

    __slots__ = ("_gradient", "_theirs")

    def __init__(self, theirs: Any, requires_grad: bool | None = None) -> None:
        self._theirs: torch.nn.Parameter | None = None
        self._gradient: Any = None
        if requires_grad is None and type(theirs) is torch.nn.Parameter:
            super().__init__(theirs.detach(), theirs.requires_grad)
            self._theirs = theirs
        else:
            super().__init__(theirs, requires_grad is None or requires_grad)

    def _shared_with(self) -> torch.Tensor | None:
        return self._theirs

    def _check_shared(self, theirs: torch.Tensor) -> None:
        if theirs.data_ptr() != self._data.data_ptr():
            raise RuntimeError(
                f"the torch parameter that {self.name or 'this parameter'} shares its gradient with has other data "
                "now: the torch module was moved or loaded after nbgrad.from_torch(), or code assigned to the "
                "parameter's .data. Convert it again, or convert a "
                "copy: nbgrad.from_torch(copy.deepcopy(module))"
            )

    def _replace(self, value: "torch.Tensor | Tensor") -> None:
        before = self._data
        Tensor.data.fset(self, value)  # type: ignore[attr-defined]
        if self._data is not before:
            theirs, data = self._theirs, self._data
            if theirs is not None and (data.dtype, data.device) == (before.dtype, before.device):
                theirs.data = data  # the same code in the torch module assigns to this one
                return
            gradient = self._grad
            self._theirs = self._gradient = None
            self._grad = gradient
            if theirs is not None:
                _part(self, theirs)

    data = property(Tensor.data.fget, _replace, doc=Tensor.data.__doc__)  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Parameter, *super().__reduce_ex__(protocol)[1:]


_parted: dict[int, tuple[ref[torch.Tensor], ref[SharedParameter]]] = {}
"""By the id of a torch parameter: that parameter, and the nbgrad parameter that no longer shares its data."""


def _part(ours: SharedParameter, theirs: torch.nn.Parameter) -> None:
    if not _parted:
        register_optimizer_step_pre_hook(_check_step)
    _parted[id(theirs)] = ref(theirs), ref(ours)


def _check_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    """Raise if torch's optimizer would skip a parameter: nbgrad's has the gradient, and no longer shares its data."""
    name = type(optimizer).__name__
    held: list[Any] = [one for group in optimizer.param_groups for one in group["params"]]
    for theirs in held:
        parted = _parted.get(id(theirs))
        if parted is None or theirs.grad is not None or parted[0]() is not theirs:
            continue
        ours = parted[1]()
        if ours is not None and ours._grad is not None:
            raise RuntimeError(
                f"{name}.step(): the gradient of a parameter of shape {tuple(ours.shape)} is in the module that "
                "nbgrad.from_torch() made. That parameter has other data now, because the module was moved "
                "or loaded, or because code assigned data of another type or device to it: a step of this "
                f"optimizer would not change it. Write nbgrad.optim.{name}(model.parameters()), or move the "
                "torch module before from_torch()"
            )

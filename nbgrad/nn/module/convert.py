"""What is done to all parameters and buffers of a module: other devices, other element types, frozen or not."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.registry import Tree
from nbgrad.nn.parameter import Uninitialized

if TYPE_CHECKING:
    from nbgrad.nn.module.module import Module


class Moving(Tree):
    """Changes of all parameters and buffers at once. Parameters stay the same objects, so an optimizer keeps them."""

    def apply(self, fn: "Callable[[Module], Any]") -> Self:
        """Call ``fn`` on every module below this one, then on this one; for initialisation, say."""
        waiting: list[tuple[Any, bool]] = [(self, False)]
        while waiting:
            module, last = waiting.pop()
            if last:
                fn(module)
            elif module is not self and getattr(module.apply, "__func__", None) is not Moving.apply:
                module.apply(fn)  # one of the user's
            else:
                waiting.append((module, True))
                waiting += [(child, False) for child in reversed([*module.children()])]
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of every parameter whether it gets gradients; False freezes the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or fill it with zeros in place with ``set_to_none=False``."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.data.zero_()

    @overload
    def to(
        self,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        *,
        memory_format: torch.memory_format | None = None,
    ) -> Self: ...
    @overload
    def to(self, dtype: torch.dtype, non_blocking: bool = False) -> Self: ...
    @overload
    def to(self, tensor: Tensor | torch.Tensor, non_blocking: bool = False) -> Self: ...
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, and change the element type of those with floating point numbers.

        Call it as ``module.to("cuda")``, ``module.to(torch.float64)``, with both, or with a tensor to be like.

        Args:
            args: the device, the element type, or a tensor that has both.
            kwargs: ``device``, ``dtype``, ``non_blocking``, and ``memory_format`` for parameters of rank 4 and 5.

        Raises:
            TypeError: ``dtype`` has no gradients.
            RuntimeError: a CUDA device where there is none.
        """
        args = tuple(raw_of(arg) for arg in args)
        parsed: Any = torch._C._nn._parse_to(*args, **kwargs)
        device, dtype, non_blocking, layout = parsed
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"{type(self).__name__}.to() takes a floating point or complex dtype, got {dtype}")
        place = None if device is None else check_device(device)

        def moved(data: torch.Tensor) -> torch.Tensor:
            wanted = dtype if data.is_floating_point() or data.is_complex() else None
            if layout is not None and data.ndim in {4, 5}:
                return data.to(place, wanted or data.dtype, non_blocking, memory_format=layout)
            return data.to(place, wanted or data.dtype, non_blocking)

        return self._apply(_for_both(moved))

    def type(self, dst_type: "torch.dtype | str") -> Self:
        """Give all parameters and buffers the element type ``dst_type``."""
        return self._apply(_for_both(lambda data: data.type(dst_type)))

    def float(self) -> Self:
        """Floating point parameters and buffers as ``float32``."""
        return self._as(torch.float32)

    def double(self) -> Self:
        """Floating point parameters and buffers as ``float64``."""
        return self._as(torch.float64)

    def half(self) -> Self:
        """Floating point parameters and buffers as ``float16``."""
        return self._as(torch.float16)

    def bfloat16(self) -> Self:
        """Floating point parameters and buffers as ``bfloat16``."""
        return self._as(torch.bfloat16)

    def _as(self, dtype: torch.dtype) -> Self:
        return self._apply(_for_both(lambda data: data.to(dtype) if data.is_floating_point() else data))

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes see too."""
        return self._apply(_for_both(torch.Tensor.share_memory_))

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._apply(_for_both(torch.Tensor.cpu))

    def cuda(self, device: "torch.device | str | int | None" = None) -> Self:
        """Move parameters and buffers to a CUDA device, the current one by default.

        Raises:
            RuntimeError: there is none.
        """
        place = torch.device("cuda", device) if isinstance(device, int) else device
        return self.to(check_device("cuda" if place is None else place))

    def to_empty(self, *, device: "torch.device | str | int | None", recurse: bool = True) -> Self:
        """Parameters and buffers with arbitrary values on ``device``; default: that of the active graph.

        With ``recurse=False`` only this module's own. It brings a model that was made on the device "meta" to life.
        """
        place = current().device if device is None else torch.device(device)
        return self._apply(_for_both(lambda data: torch.empty_like(data, device=place)), recurse=recurse)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace the data of all parameters and buffers by what ``fn`` gives for them.

        ``to``, ``float``, ``cuda`` and their like call it, for the modules below this one first: a subclass that holds
        tensors of its own overrides it. ``fn`` gets torch tensors here; those that ``to`` and its like pass take a
        ``Tensor``, too, and return one.
        """
        if recurse:
            for child in self.children():
                child._apply(fn)

        def change(data: torch.Tensor) -> torch.Tensor:
            changed: torch.Tensor = raw_of(fn(data))
            return changed

        for _, parameter in self._own("parameter"):
            parameter.replace_data(change)
        for name, buffer in list(self._own("buffer", "transient")):
            if isinstance(buffer, Uninitialized):
                buffer.replace_data(change)
            elif (changed := change(buffer.data)) is not buffer.data:
                self._renew(name, changed)
        return self


def _for_both(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """``change`` for torch tensors and for those of nbgrad, which a module of the user's may hold besides."""

    def changed(data: Any) -> Any:
        if not isinstance(data, Tensor):
            return change(data)
        return data if (made := change(data.data)) is data.data else Tensor(made, data.requires_grad and data.is_leaf)

    return changed

"""Mixed precision, under the names of ``torch.amp``."""

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import torch
from torch.amp import custom_bwd

from nbgrad.core.backend.autocast import autocast
from nbgrad.core.structure import exchanged
from nbgrad.core.suggestions import suggesting
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None
) -> Callable[..., Any]:
    """Decorate the forward of a ``nbgrad.Function`` for autocast; decorate its backward with ``custom_bwd``.

    Args:
        fwd: the forward, whose first argument is the context.
        device_type: the device whose autocast it is, such as ``"cuda"``.
        cast_inputs: an element type. Under autocast the floating point inputs on that device, except float64, are cast
            to this type, and the forward runs without autocast. None: the forward runs in the autocast that is on.

    Raises:
        ValueError: ``device_type`` is no text.
    """
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    noted: Callable[..., Any] = torch.amp.custom_fwd(
        fwd, device_type=device_type
    )  # it notes autocast in the context, where custom_bwd reads it
    if cast_inputs is None:
        return noted

    @wraps(fwd)
    def cast(context: Any, *args: Any, **settings: Any) -> Any:
        if not torch.is_autocast_enabled(device_type):
            return noted(context, *args, **settings)
        args, settings = _cast((args, settings), device_type, cast_inputs)
        with torch.autocast(device_type, enabled=False):
            return noted(context, *args, **settings)

    return cast


def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    """``value`` with its floating point tensors on that device cast to ``dtype``, also those in lists and dicts."""

    def cast(one: Tensor) -> Any:
        wide = one.is_floating_point() and one.device.type == device_type and one.dtype is not torch.float64
        return one.to(dtype) if wide else one

    return exchanged(Tensor, cast, value)


if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())

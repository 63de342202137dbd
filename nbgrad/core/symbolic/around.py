"""``Around``: what is in force around a traced function, and must be in force for each of its steps too."""

from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.backend.autocast import Settings, any_enabled, may_cast_in
from nbgrad.core.backend.below_autograd import is_own
from nbgrad.core.diagnose.anomaly import detects_anomalies
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.state import current
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.errors import error_at
from nbgrad.core.symbolic.kernel_settings import changed_setting, current_mode, dispatched, kernel_settings

_DEFAULT = torch._GLOBAL_DEVICE_CONTEXT


class Around:
    """The settings and modes when this is made. A run of a program has them in all its steps."""

    def __init__(self) -> None:
        self._kernels = kernel_settings()
        self._casts, self._on = Settings(), any_enabled()
        self._modes = dispatched()
        self._defaults = torch.get_default_dtype(), getattr(_DEFAULT, "device_context", None)

    def check(self, function: Callable[..., Any], *, in_row: bool) -> None:
        """Raise an error if a call of torch runs with others.

        Args:
            function: that of torch.
            in_row: whether a row of the op table calls it. A row names its kernel of attention, and casts by steps.

        Raises:
            TraceError: with the line of the call.
        """
        if _asks_for_casts():
            return
        now = kernel_settings()
        attends = not in_row and "attention" in getattr(function, "__name__", "")
        changed = None if now == self._kernels else changed_setting(self._kernels, now, attends=attends)
        if changed is not None:
            raise _inside(f"changes {changed} for a part of its steps", "Set it around the call of the function")
        if self._defaults != (torch.get_default_dtype(), getattr(_DEFAULT, "device_context", None)):
            raise _inside(
                "changes torch's default type or device for a part of its steps",
                "Give dtype= and device= to what makes tensors, or set the default around the call of the function",
            )
        if dispatched() != self._modes:
            raise _inside(
                "enters a TorchDispatchMode, which sees no kernels while they are traced",
                "Enter it around the call of the function",
            )
        if detects_anomalies():
            raise _inside(
                "turns detect_anomaly() on, which asks for the numbers of each result",
                "Turn it on around the call: the function then runs without a program",
            )
        if not in_row and self._casts_otherwise() and may_cast_in(function):
            raise _inside(
                "calls torch with another autocast than that around it, whose casts are no steps",
                "Begin autocast around the call of the function, or call nbgrad's functions in it",
            )

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``, run with the autocast around: that of the function has made its casts as steps.

        Raises:
            TraceError: it needs casts that are no steps.
        """
        if not self._casts_otherwise():
            return function(*args)
        kinds = {one.dtype for one in leaves(args) if isinstance(one, torch.Tensor) and one.is_floating_point()}
        if len(kinds) > 1 and may_cast_in(args[0]):  # tensors without numbers let kernels mix types
            raise _inside(_OWN_CASTS, _OUTSIDE)
        try:
            return self._casts.restored(function, *args)
        except RuntimeError:
            function(*args)  # an error of the user's is raised with autocast too
            raise _inside(_OWN_CASTS, _OUTSIDE) from None

    def _casts_otherwise(self) -> bool:
        if _asks_for_casts() or current().walking is not None:  # a backward chooses its own
            return False
        return any_enabled() is not self._on or (self._on and Settings().key() != self._casts.key())


_OWN_CASTS = "runs a kernel that makes casts of its own, with another autocast than that around it"
_OUTSIDE = "Begin autocast around the call of the function"


def _asks_for_casts() -> bool:
    """Whether nbgrad itself calls torch, to see which casts it makes."""
    return dispatched() > 0 and is_own(type(current_mode()))


def _inside(reason: str, remedy: str) -> Exception:
    return error_at(user_place(), f"the function {reason}, and a run of a program does not", remedy)

"""The names of ``torch.autograd``. Most of them are also names of ``nbgrad`` itself."""

import warnings
from typing import TYPE_CHECKING, Any

from nbgrad.autograd import function as function, functional as functional, graph as graph
from nbgrad.core.diagnose.anomaly import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from nbgrad.core.diagnose.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from nbgrad.core.dispatch.function import Function as Function
from nbgrad.core.engine.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from nbgrad.core.functional.grad import backward as backward, grad as grad
from nbgrad.core.suggestions import suggesting
from nbgrad.core.tensor.tensor import Tensor, tensor


class _AnyTensor(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_AnyTensor):
    """Return a tensor with the memory of ``data``, for programs from before torch 0.4. Now every tensor is a variable.

    Args:
        data: a tensor, of nbgrad or torch.
        requires_grad: whether a backward gives it a gradient.
        volatile: has no effect, and warns, as in torch.
    """

    def __new__(  # type: ignore[misc]  # as torch's does
        cls, data: Any, requires_grad: bool = False, *, volatile: bool | None = None
    ) -> Tensor:
        if volatile is not None:
            warnings.warn("volatile has no effect: write 'with nbgrad.no_grad():' instead", stacklevel=2)
        return tensor(data.data, requires_grad=requires_grad)


if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker
    __getattr__ = suggesting(globals())

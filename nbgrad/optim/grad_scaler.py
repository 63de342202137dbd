"""GradScaler: keeps gradients in half precision from vanishing, by a factor on the loss."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch

from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine.state import current, tell_changed
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.optim.optimizer import Optimizer


class GradScaler(torch.amp.GradScaler):
    """torch's ``torch.amp.GradScaler`` for nbgrad's losses and optimizers (Micikevicius et al. 2018).

    In float16 small gradients become 0. So the loss is multiplied by a large factor before the backward, gradients are
    divided by it before the step, and a step whose gradients are not finite is skipped and the factor is reduced.
    Arguments, defaults, ``state_dict`` and errors are torch's; see https://arxiv.org/abs/1710.03740.

    Args:
        device: where losses and parameters are.
        init_scale: the first factor.
        growth_factor: the number that multiplies the factor after ``growth_interval`` steps in a row without a skipped
            one.
        backoff_factor: the number that multiplies the factor after a skipped step.
        growth_interval: the number of steps after which the factor grows.
        enabled: whether anything is scaled at all.
    """

    def scale(self, outputs: Any) -> Any:
        """The loss, or losses in a list or tuple, times the factor; recorded, so that gradients are scaled too."""
        if not self.is_enabled():
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * super().scale(torch.ones((), device=outputs.device))
        if isinstance(outputs, Iterable) and not isinstance(outputs, torch.Tensor):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise TypeError(
            f"GradScaler.scale takes losses of nbgrad, got {torch.typename(outputs)}: "
            "for losses of torch there is torch.amp.GradScaler"
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with the factor and settings of another scaler, torch's own included.

        Raises:
            RuntimeError: ``state_dict`` is that of a disabled scaler, or lacks something; nothing has been loaded.
            TypeError: something in it is no number; nothing has been loaded.
        """
        if self.is_enabled() and state_dict:
            for name, own in self.state_dict().items():
                if name not in state_dict:
                    raise RuntimeError(f"the state_dict of a GradScaler has {name!r}, which this one lacks")
                if not hasattr(state_dict[name], "__float__"):
                    given = type(state_dict[name]).__name__
                    raise TypeError(f"{name!r} of a GradScaler is a number, as {own!r}, and not a {given}")
        super().load_state_dict(state_dict)

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> Any:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"GradScaler takes optimizers of nbgrad, got {torch.typename(optimizer)}")
        grads = [one.grad.data for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        bare = SimpleNamespace(param_groups=[{"params": [_holder(grad) for grad in grads]}])
        found = super()._unscale_grads_(bare, inv_scale, found_inf, allow_fp16)  # type: ignore[arg-type]
        tell_changed(grads, "GradScaler.unscale_()")
        for observer in current().observers:
            unheard(observer.on_optimizer_call, optimizer, "unscale", inv_scale)
        return found


def _holder(grad: torch.Tensor) -> torch.Tensor:
    """A tensor of torch's whose gradient is ``grad``: what torch's scaler looks for in an optimizer."""
    holder = grad.detach()
    holder.grad = grad
    return holder

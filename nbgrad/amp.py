"""Mixed precision, under the names of ``torch.amp``."""

from nbgrad.core.autocast import autocast
from nbgrad.optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]

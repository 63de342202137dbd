"""vector-quantize-pytorch."""

from typing import Any

import torch
from torch import nn
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize

from tests.models.package import Package, Step

package = Package("vector-quantize-pytorch")


class Coder(nn.Module):
    """A linear layer, a quantizer, and another linear layer."""

    def __init__(self, code: nn.Module) -> None:
        super().__init__()
        self.before, self.code, self.after = nn.Linear(6, 4), code, nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> Any:
        found, _, *losses = self.code(self.before(x))
        return self.after(found), sum(one.sum() for one in losses)


def coded(code: nn.Module) -> Step:
    """The loss of the reconstruction."""
    x = torch.randn(2, 5, 6)

    def loss(net: Any) -> torch.Tensor:
        back, extra = net(x)
        return nn.functional.mse_loss(back, x) + extra

    return Coder(code), loss


@package.step
def vectors() -> Step:
    return coded(VectorQuantize(4, 8, commitment_weight=1.0))


@package.step
def learned_codebook() -> Step:
    return coded(VectorQuantize(4, 8, learnable_codebook=True, ema_update=False, rotation_trick=True))


@package.step
def residual() -> Step:
    return coded(ResidualVQ(dim=4, codebook_size=8, num_quantizers=2))


@package.step
def finite() -> Step:
    return coded(FSQ([3, 3], dim=4))


@package.step
def without_lookup() -> Step:
    return coded(LFQ(dim=4, codebook_size=8, entropy_loss_weight=0.1))

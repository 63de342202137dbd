"""entmax."""

import torch
from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax
from torch import nn

from tests.models.package import Package, Step

package = Package("entmax")


class Attention(nn.Module):
    """Attention whose weights may be zero."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.alpha = nn.Linear(6, 18), nn.Parameter(torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = q @ k.transpose(1, 2)
        return entmax15(weights) @ v + sparsemax(weights) @ v + entmax_bisect(weights, self.alpha) @ v


@package.step
def attention() -> Step:
    x = torch.randn(2, 5, 6)
    return Attention(), lambda net: net(x).square().mean()


@package.step
def losses() -> Step:
    x, y = torch.randn(5, 4), torch.arange(5) % 3
    return nn.Linear(4, 3), lambda net: Entmax15Loss()(net(x), y) + SparsemaxLoss()(net(x), y)

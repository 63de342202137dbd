"""einops."""

import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

from tests.models.package import Package, Step

package = Package("einops")


@package.step
def mixer() -> Step:
    net = nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4),
        nn.Linear(48, 16),
        nn.LayerNorm(16),
        EinMix("b t c -> b u c", weight_shape="t u", bias_shape="u", t=16, u=8),
        nn.GELU(),
        Reduce("b u c -> b c", "mean"),
        nn.Linear(16, 5),
    )
    x, y = torch.randn(2, 3, 16, 16), torch.tensor([1, 3])
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


class Attention(nn.Module):
    """Attention whose heads are split with einops."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.token = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([repeat(self.token, "d -> b 1 d", b=x.shape[0]), x], 1)
        q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b h t d", three=3, h=self.heads)
        weights = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
        mixed = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out(rearrange(mixed, "b h t d -> b t (h d)"))


@package.step
def attention() -> Step:
    net = Attention(12, 3)
    x = torch.randn(2, 5, 12)
    return net, lambda net: reduce(net(x), "b t d -> b", "max").square().mean()

"""local-attention."""

import torch
from local_attention import LocalAttention, LocalTransformer
from torch import nn

from tests.models.package import Package, Step

package = Package("local-attention")


@package.step
def transformer() -> Step:
    net = LocalTransformer(
        num_tokens=20, dim=16, depth=2, max_seq_len=16, causal=True, local_attn_window_size=4, dim_head=8, heads=2
    )
    x = torch.randint(0, 20, (2, 8))
    return net, lambda net: net(x, return_loss=True)


class Windows(nn.Module):
    """Attention to what is near."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.attention = nn.Linear(8, 24), LocalAttention(dim=8, window_size=4, causal=True, autopad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(*self.qkv(x).chunk(3, -1))


@package.step
def windows() -> Step:
    x = torch.randn(2, 10, 8)
    return Windows(), lambda net: net(x).square().mean()

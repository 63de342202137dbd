"""x-transformers."""

import torch
from x_transformers import (
    AutoregressiveWrapper,
    ContinuousTransformerWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)

from tests.models.package import Package, Step

package = Package("x-transformers")


@package.step
def decoder() -> Step:
    net = TransformerWrapper(
        num_tokens=20, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8)
    )
    x = torch.randint(0, 20, (2, 8))
    return AutoregressiveWrapper(net), lambda net: net(x)


@package.step
def rotary() -> Step:
    layers = Decoder(
        dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True, ff_swish=True, use_rmsnorm=True
    )
    net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    x = torch.randint(0, 20, (2, 8))
    return net, lambda net: torch.nn.functional.cross_entropy(net(x).transpose(1, 2), x.roll(-1, 1))


@package.step
def alibi() -> Step:
    layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, alibi_pos_bias=True, attn_qk_norm=True)
    net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    x = torch.randint(0, 20, (2, 8))
    return net, lambda net: torch.nn.functional.cross_entropy(net(x).transpose(1, 2), x.roll(-1, 1))


@package.step
def encoder_decoder() -> Step:
    net = XTransformer(
        dim=16,
        enc_num_tokens=20,
        enc_depth=1,
        enc_heads=2,
        enc_max_seq_len=8,
        enc_attn_dim_head=8,
        dec_num_tokens=20,
        dec_depth=1,
        dec_heads=2,
        dec_max_seq_len=8,
        dec_attn_dim_head=8,
        tie_token_emb=True,
    )
    x, y = torch.randint(0, 20, (2, 6)), torch.randint(0, 20, (2, 8))
    return net, lambda net: net(x, y)


@package.step
def vision() -> Step:
    net = ViTransformerWrapper(
        image_size=16, patch_size=8, num_classes=5, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    )
    x, y = torch.randn(2, 3, 16, 16), torch.tensor([1, 3])
    return net, lambda net: torch.nn.functional.cross_entropy(net(x), y)


@package.step
def continuous() -> Step:
    net = ContinuousTransformerWrapper(
        dim_in=3, dim_out=4, max_seq_len=8, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    )
    x, mask = torch.randn(2, 8, 3), torch.arange(8) < torch.tensor([[5], [8]])
    return net, lambda net: net(x, mask=mask).square().mean()

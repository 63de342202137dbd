"""vit-pytorch."""

from typing import Any

import torch
from torch import nn
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.crossformer import CrossFormer
from vit_pytorch.cvt import CvT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.levit import LeViT
from vit_pytorch.max_vit import MaxViT
from vit_pytorch.nest import NesT

from tests.models.package import Package, Step

package = Package("vit-pytorch")
SIZES: dict[str, Any] = {
    "image_size": 16,
    "patch_size": 8,
    "num_classes": 5,
    "dim": 16,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 32,
}


def _classes(net: nn.Module, size: int = 16) -> Step:
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 3])
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def vit() -> Step:
    return _classes(ViT(**SIZES, dropout=0.1, emb_dropout=0.1))


@package.step
def simple_vit() -> Step:
    return _classes(SimpleViT(**SIZES))


@package.step
def deepvit() -> Step:
    return _classes(DeepViT(**SIZES))


@package.step
def cait() -> Step:
    return _classes(CaiT(**SIZES, cls_depth=1, layer_dropout=0.05))


@package.step
def levit() -> Step:
    sizes = {"dim": (16, 16), "depth": 1, "heads": (2, 2), "mlp_mult": 2, "dim_key": 8, "dim_value": 8, "stages": 2}
    return _classes(LeViT(image_size=64, num_classes=5, **sizes), 64)


@package.step
def compact() -> Step:
    return _classes(
        CCT(
            img_size=16,
            embedding_dim=16,
            n_conv_layers=1,
            kernel_size=3,
            stride=2,
            padding=1,
            pooling_kernel_size=3,
            pooling_stride=2,
            pooling_padding=1,
            num_layers=2,
            num_heads=2,
            mlp_ratio=2,
            num_classes=5,
            positional_embedding="learnable",
        )
    )


@package.step
def convolutional() -> Step:
    stages = {}
    for number, width in enumerate((8, 16, 16), 1):
        stages |= {f"s{number}_emb_dim": width, f"s{number}_heads": 1, f"s{number}_depth": 1, f"s{number}_mlp_mult": 2}
    return _classes(CvT(num_classes=5, **stages), 32)


@package.step
def max_vit() -> Step:
    return _classes(MaxViT(num_classes=5, dim_conv_stem=8, dim=8, dim_head=8, depth=(1, 1), window_size=2), 16)


@package.step
def nest() -> Step:
    return _classes(
        NesT(image_size=16, patch_size=2, dim=8, heads=1, num_hierarchies=2, block_repeats=(1, 1), num_classes=5)
    )


@package.step
def crossformer() -> Step:
    return _classes(
        CrossFormer(
            dim=(32, 32, 64, 64),
            depth=(1, 1, 1, 1),
            global_window_size=(2, 2, 1, 1),
            local_window_size=(2, 2, 1, 1),
            num_classes=5,
            attn_dropout=0.0,
        ),
        64,
    )

"""timm."""

from typing import Any

import timm
import torch
from torch import nn

from tests.models.package import Package, Step

package = Package("timm")


def classes(name: str, size: int = 32, **more: Any) -> Step:
    """The model of that name, small."""
    net = timm.create_model(name, pretrained=False, num_classes=5, **more)
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 3])
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


VIT: dict[str, Any] = {"img_size": 32, "patch_size": 16, "embed_dim": 16, "depth": 2, "num_heads": 2}


@package.step
def vit() -> Step:
    return classes("vit_tiny_patch16_224", **VIT)


@package.step
def deit() -> Step:
    return classes("deit3_small_patch16_224", **VIT)


@package.step
def beit() -> Step:
    return classes("beit_base_patch16_224", **VIT)


@package.step
def eva() -> Step:
    return classes("eva02_tiny_patch14_224", 28, **{**VIT, "img_size": 28, "patch_size": 14})


@package.step
def resnet() -> Step:
    return classes("resnet10t")


@package.step
def hrnet() -> Step:
    return classes("hrnet_w18_small", 64)


@package.step
def convnext() -> Step:
    return classes("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), drop_path_rate=0.1)


@package.step
def gated_mixer() -> Step:
    return classes("gmlp_s16_224", img_size=32)


@package.step
def efficientnet() -> Step:
    return classes("tf_efficientnetv2_b0", 33)


@package.step
def normalizer_free() -> Step:
    return classes("nfnet_l0", 64)


@package.step
def swin() -> Step:
    return classes(
        "swinv2_cr_tiny_224",
        64,
        img_size=64,
        embed_dim=16,
        depths=(1, 1),
        num_heads=(1, 2),
        patch_size=4,
        window_size=4,
    )


@package.step
def pool_former() -> Step:
    return classes("poolformer_s12")


@package.step
def cross_covariance() -> Step:
    return classes("xcit_nano_12_p16_224", 32, img_size=32, embed_dim=16, depth=2, num_heads=2)


@package.step
def ghostnet() -> Step:
    return classes("ghostnet_100")


@package.step
def mobilevit() -> Step:
    return classes("mobilevitv2_050", 64)

"""segmentation-models-pytorch."""

from typing import Any

import segmentation_models_pytorch as smp
import torch

from tests.models.package import Package, Step

package = Package("segmentation-models-pytorch")


def organs(kind: Any, **more: Any) -> Step:
    """A model of that kind with a small encoder."""
    net = kind(encoder_name="resnet18", encoder_weights=None, classes=2, **more)
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 2, (2, 32, 32))
    loss = smp.losses.DiceLoss("multiclass")
    return net, lambda net: loss(net(x), y)


@package.step
def unet() -> Step:
    return organs(smp.Unet, decoder_channels=(32, 32, 16, 16, 16), decoder_attention_type="scse")


@package.step
def pyramid() -> Step:
    return organs(smp.FPN, decoder_pyramid_channels=64, decoder_segmentation_channels=32)


@package.step
def linknet() -> Step:
    return organs(smp.Linknet)


@package.step
def deeplab() -> Step:
    return organs(smp.DeepLabV3Plus, decoder_channels=16)


@package.step
def attention() -> Step:
    return organs(smp.MAnet, decoder_channels=(16, 16, 8, 8, 8), decoder_pab_channels=8)

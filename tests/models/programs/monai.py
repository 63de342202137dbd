"""monai."""

from typing import Any

import torch
from monai.losses import DiceCELoss, DiceLoss, FocalLoss
from monai.networks import nets
from torch import nn

from tests.models.package import Package, Step

package = Package("monai")


def organs(net: nn.Module, criterion: Any, size: tuple[int, ...] = (16, 16)) -> Step:
    """A model that says to what organ each point belongs."""
    x, y = torch.randn(1, 1, *size), torch.randint(0, 2, (1, 1, *size))

    def loss(net: Any) -> torch.Tensor:
        found = net(x)
        return criterion(found[0] if isinstance(found, (list, tuple)) else found, y)

    return net, loss


@package.step
def unet() -> Step:
    net = nets.UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=1, dropout=0.1)
    return organs(net, DiceCELoss(to_onehot_y=True, softmax=True))


@package.step
def unet_in_space() -> Step:
    return organs(nets.UNet(3, 1, 2, (4, 8), (2,)), DiceLoss(to_onehot_y=True, softmax=True), (8, 8, 8))


@package.step
def nested_unet() -> Step:
    net = nets.BasicUNetPlusPlus(2, 1, 2, (4, 4, 8, 8, 8, 4))
    return organs(net, FocalLoss(to_onehot_y=True), (32, 32))


@package.step
def segresnet() -> Step:
    net = nets.SegResNet(2, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,))
    return organs(net, DiceLoss(to_onehot_y=True, softmax=True))


@package.step
def unetr() -> Step:
    net = nets.UNETR(1, 2, (32, 32), feature_size=4, hidden_size=16, mlp_dim=32, num_heads=2, spatial_dims=2)
    return organs(net, DiceLoss(to_onehot_y=True, softmax=True), (32, 32))


@package.step
def swin_unetr() -> Step:
    net = nets.SwinUNETR(1, 2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))
    return organs(net, DiceLoss(to_onehot_y=True, softmax=True), (64, 64))


@package.step
def attention_unet() -> Step:
    return organs(nets.AttentionUnet(2, 1, 2, (4, 8), (2,)), DiceLoss(to_onehot_y=True, softmax=True))


@package.step
def densenet() -> Step:
    net = nets.DenseNet(2, 1, 3, 8, 4, (2, 2))
    x, y = torch.randn(2, 1, 16, 16), torch.tensor([0, 2])
    return net, lambda net: nn.functional.cross_entropy(net(x), y)

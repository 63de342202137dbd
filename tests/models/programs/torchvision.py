"""torchvision."""

from typing import Any

import torch
from torch import nn
from torchvision import models

from tests.models.package import Package, Step

package = Package("torchvision")


def classes(net: nn.Module, size: int = 32) -> Step:
    """A classifier of pictures. The losses of its auxiliary heads are added, if it has some."""
    x, y = torch.randn(2, 3, size, size), torch.tensor([1, 3])

    def loss(net: Any) -> torch.Tensor:
        found = net(x)
        outs = [one for one in found if one is not None] if isinstance(found, tuple) else [found]
        return sum(nn.functional.cross_entropy(one, y) for one in outs)

    return net, loss


@package.step
def alexnet() -> Step:
    return classes(models.alexnet(num_classes=5), 64)


@package.step
def vgg() -> Step:
    return classes(models.vgg11_bn(num_classes=5), 32)


@package.step
def resnet18() -> Step:
    return classes(models.resnet18(num_classes=5))


@package.step
def resnext() -> Step:
    return classes(models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=5, groups=4, width_per_group=8))


@package.step
def densenet() -> Step:
    return classes(models.DenseNet(8, (2, 2, 2), 16, num_classes=5))


@package.step
def densenet_checkpointed() -> Step:
    return classes(models.DenseNet(8, (2, 2, 2), 16, num_classes=5, memory_efficient=True))


@package.step
def googlenet() -> Step:
    return classes(models.GoogLeNet(num_classes=5, aux_logits=True, init_weights=False), 64)


@package.step
def mobilenet() -> Step:
    return classes(models.mobilenet_v3_small(num_classes=5))


@package.step
def efficientnet() -> Step:
    return classes(models.efficientnet_b0(num_classes=5))


@package.step
def shufflenet() -> Step:
    return classes(models.shufflenet_v2_x0_5(num_classes=5))


@package.step
def squeezenet() -> Step:
    return classes(models.squeezenet1_1(num_classes=5), 64)


@package.step
def convnext() -> Step:
    stages = [
        models.convnext.CNBlockConfig(8, 16, 1),
        models.convnext.CNBlockConfig(16, None, 1),
    ]
    return classes(models.ConvNeXt(stages, num_classes=5, stochastic_depth_prob=0.1))


@package.step
def regnet() -> Step:
    return classes(models.regnet_y_400mf(num_classes=5))


@package.step
def vision_transformer() -> Step:
    return classes(models.VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=5, dropout=0.1))


@package.step
def swin() -> Step:
    return classes(models.SwinTransformer([2, 2], 8, [1, 1], [1, 2], [4, 4], num_classes=5))


@package.step
def max_vit() -> Step:
    net = models.MaxVit(
        input_size=(64, 64),
        stem_channels=8,
        partition_size=2,
        block_channels=[8, 16],
        block_layers=[1, 1],
        head_dim=8,
        stochastic_depth_prob=0.1,
        num_classes=5,
    )
    return classes(net, 64)


@package.step
def fully_convolutional() -> Step:
    net = models.segmentation.fcn_resnet50(num_classes=3, weights_backbone=None, aux_loss=True)
    x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 3, (2, 32, 32))
    return net, lambda net: sum(nn.functional.cross_entropy(one, y) for one in net(x).values())


@package.step
def retinanet() -> Step:
    backbone = models.mobilenet_v2(weights=None).features[:4]
    backbone.out_channels = 24
    sizes = models.detection.anchor_utils.AnchorGenerator(((8, 16),), ((1.0,),))
    net = models.detection.RetinaNet(backbone, 3, anchor_generator=sizes, min_size=32, max_size=32)
    images = [torch.rand(3, 32, 32), torch.rand(3, 32, 32)]
    boxes = [torch.tensor([[2.0, 3, 12, 14]]), torch.tensor([[8.0, 8, 20, 30], [1, 1, 9, 9]])]
    targets = [{"boxes": one, "labels": torch.arange(len(one)) + 1} for one in boxes]
    return net, lambda net: sum(net(images, [dict(one) for one in targets]).values())


@package.step
def video() -> Step:
    x, y = torch.randn(1, 3, 4, 32, 32), torch.tensor([2])
    return models.video.r3d_18(num_classes=5), lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def optical_flow() -> Step:
    net = models.optical_flow.raft_small(weights=None)
    x = torch.randn(1, 3, 128, 128)
    return net, lambda net: sum(one.square().mean() for one in net(x, x.roll(2, 3), num_flow_updates=2))

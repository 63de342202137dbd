"""open_clip_torch."""

from typing import Any

import open_clip
import torch
from open_clip.loss import SigLipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

from tests.models.package import Package, Step

package = Package("open_clip_torch")
WORDS: dict[str, Any] = {"context_length": 8, "vocab_size": 40, "width": 16, "heads": 2, "layers": 2}


def pairs(net: torch.nn.Module, loss: Any) -> Step:
    """A model of pictures and their words."""
    x, y = torch.randn(3, 3, 32, 32), torch.randint(1, 40, (3, 8))

    def run(net: Any) -> torch.Tensor:
        images, words, scale = net(x, y)[:3]
        return loss(images, words, scale)

    return net, run


@package.step
def transformer() -> Step:
    net = CLIP(8, CLIPVisionCfg(layers=2, width=16, head_width=8, patch_size=16, image_size=32), CLIPTextCfg(**WORDS))
    return pairs(net, open_clip.ClipLoss())


@package.step
def resnet() -> Step:
    net = CLIP(8, CLIPVisionCfg(layers=(1, 1, 1, 1), width=8, head_width=8, image_size=32), CLIPTextCfg(**WORDS))
    return pairs(net, open_clip.ClipLoss())


@package.step
def sigmoid() -> Step:
    vision = CLIPVisionCfg(layers=2, width=16, head_width=8, patch_size=16, image_size=32)
    net = CLIP(8, vision, CLIPTextCfg(**WORDS), init_logit_bias=-10.0)
    loss, x, y = SigLipLoss(), torch.randn(3, 3, 32, 32), torch.randint(1, 40, (3, 8))
    return net, lambda net: loss(*net(x, y))

"""diffusers."""

from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDPMScheduler,
    DiTTransformer2DModel,
    UNet1DModel,
    UNet2DConditionModel,
    UNet2DModel,
    VQModel,
)
from torch import nn

from tests.models.package import Package, Step

package = Package("diffusers")


def denoised(net: nn.Module, shape: tuple[int, ...], **more: Any) -> Step:
    """A model that finds the noise in something."""
    clean, noise, at = torch.randn(shape), torch.randn(shape), torch.tensor([3, 7])
    noisy = DDPMScheduler(10).add_noise(clean, noise, at)
    return net, lambda net: nn.functional.mse_loss(net(noisy, at, **more).sample, noise)


WIDTHS: dict[str, Any] = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}


@package.step
def unet() -> Step:
    net = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        **WIDTHS,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    return denoised(net, (2, 3, 8, 8))


@package.step
def unet_of_words() -> Step:
    net = UNet2DConditionModel(
        sample_size=8,
        **WIDTHS,
        attention_head_dim=8,
        cross_attention_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    return denoised(net, (2, 4, 8, 8), encoder_hidden_states=torch.randn(2, 5, 8))


@package.step
def unet_checkpointed() -> Step:
    net = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        **WIDTHS,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    net.enable_gradient_checkpointing()
    return denoised(net.train(), (2, 3, 8, 8))


@package.step
def unet_of_sound() -> Step:
    net = UNet1DModel(
        sample_size=32,
        block_out_channels=(32, 64),
        layers_per_block=1,
        extra_in_channels=64,
        down_block_types=("DownBlock1DNoSkip", "AttnDownBlock1D"),
        up_block_types=("AttnUpBlock1D", "UpBlock1DNoSkip"),
    )
    return denoised(net, (2, 2, 32))


@package.step
def transformer() -> Step:
    net = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        norm_num_groups=4,
        num_embeds_ada_norm=10,
    )
    return denoised(net, (2, 4, 8, 8), class_labels=torch.tensor([1, 2]))


@package.step
def autoencoder() -> Step:
    net = AutoencoderKL(
        **WIDTHS,
        latent_channels=2,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    x = torch.randn(1, 3, 8, 8)

    def loss(net: Any) -> torch.Tensor:
        spread = net.encode(x).latent_dist
        return nn.functional.mse_loss(net.decode(spread.sample()).sample, x) + 0.1 * spread.kl().mean()

    return net, loss


@package.step
def quantized() -> Step:
    net = VQModel(
        **WIDTHS,
        latent_channels=2,
        num_vq_embeddings=8,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    x = torch.randn(1, 3, 8, 8)

    def loss(net: Any) -> torch.Tensor:
        code, commitment, _ = net.quantize(net.encode(x).latents)
        return nn.functional.mse_loss(net.decode(code, force_not_quantize=True).sample, x) + commitment

    return net, loss

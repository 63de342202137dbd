"""denoising-diffusion-pytorch."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D

from tests.models.package import Package, Step

package = Package("denoising-diffusion-pytorch")


@package.step
def pictures() -> Step:
    net = Unet(8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2)
    x = torch.rand(2, 3, 16, 16)
    return GaussianDiffusion(net, image_size=16, timesteps=10), lambda net: net(x)


@package.step
def series() -> Step:
    net = Unet1D(8, dim_mults=(1, 2), channels=2, attn_dim_head=8, attn_heads=2)
    x = torch.rand(2, 2, 16)
    return GaussianDiffusion1D(net, seq_length=16, timesteps=10, objective="pred_v"), lambda net: net(x)

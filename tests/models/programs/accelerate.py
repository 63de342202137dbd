"""accelerate."""

import torch
from accelerate import Accelerator, cpu_offload
from accelerate.state import AcceleratorState
from torch import nn

from tests.models.package import Package, Step

package = Package("accelerate")


def net() -> nn.Module:
    """A small network."""
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))


def train(**settings: object) -> nn.Module:
    """A loop as the package wants it."""
    AcceleratorState._reset_state(reset_partial_state=True)  # the package has one precision for a process
    accelerator = Accelerator(cpu=True, **settings)
    model, data = net(), torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, 4))
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.free_memory()
    return accelerator.unwrap_model(model, keep_fp32_wrapper=False)


@package.training
def loop() -> nn.Module:
    return train()


@package.training
def accumulation() -> nn.Module:
    return train(gradient_accumulation_steps=2)


@package.training
def half_precision() -> nn.Module:
    return train(mixed_precision="bf16")


@package.step
def offload() -> Step:
    x = torch.randn(3, 4)
    return cpu_offload(net(), torch.device("cpu")), lambda net: net(x).square().mean()

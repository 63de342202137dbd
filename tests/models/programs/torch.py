"""torch's own utilities around a model."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.models.package import Package, Step

package = Package("torch")


def net() -> nn.Sequential:
    """A small network."""
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


def classes(net: nn.Module) -> Step:
    """The loss of it on random data."""
    x, y = torch.randn(6, 4), torch.arange(6) % 3
    return net, lambda net: nn.functional.cross_entropy(net(x), y)


@package.step
def compiled() -> Step:
    torch._dynamo.reset()
    return classes(torch.compile(net(), backend="aot_eager"))


@package.step
def compiled_block() -> Step:
    torch._dynamo.reset()
    made = net()
    made[0] = torch.compile(made[0], backend="aot_eager")
    return classes(made)


@package.step
def scripted() -> Step:
    made = net()
    made[2] = torch.jit.script(nn.GELU())
    return classes(made)


@package.step
def reentrant_checkpoints() -> Step:
    x, y = torch.randn(6, 4, requires_grad=True), torch.arange(6) % 3
    return net(), lambda net: nn.functional.cross_entropy(checkpoint_sequential(net, 2, x, use_reentrant=True), y)


@package.step
def nested_checkpoints() -> Step:
    x, y = torch.randn(6, 4), torch.arange(6) % 3

    def loss(net: Any) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return checkpoint(net[2], checkpoint(net[1], net[0](x), use_reentrant=False), use_reentrant=False)

        return nn.functional.cross_entropy(net[3](checkpoint(inner, x, use_reentrant=False)), y)

    return net(), loss


@package.step
def gradient_penalty() -> Step:
    x = torch.randn(6, 4)

    def loss(net: Any) -> torch.Tensor:
        given = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(given).sum(), given, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()

    return net(), loss


@package.step
def functional_call() -> Step:
    x, y = torch.randn(6, 4), torch.arange(6) % 3

    def loss(net: Any) -> torch.Tensor:
        halves = {name: one / 2 for name, one in net.named_parameters()}
        return nn.functional.cross_entropy(torch.func.functional_call(net, halves, (x,)), y)

    return net(), loss


@package.step
def per_sample() -> Step:
    x = torch.randn(6, 4)
    return net(), lambda net: torch.func.vmap(net)(x).square().mean()


@package.step
def sparse_embedding() -> Step:
    made = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
    x = torch.tensor([[1, 2, 1], [3, 3, 3]])
    return made, lambda net: net(x).square().mean()


@package.step
def complex_numbers() -> Step:
    x = torch.randn(3, 8)
    made = nn.Linear(5, 2, dtype=torch.complex64)
    return made, lambda net: net(torch.fft.rfft(x)).abs().square().mean()


@package.step
def nested_tensors() -> Step:
    x = [torch.randn(2, 4), torch.randn(3, 4)]
    return net(), lambda net: net(torch.nested.nested_tensor(x, layout=torch.jagged)).values().square().mean()


@package.step
def half_precision() -> Step:
    x, y = torch.randn(6, 4), torch.arange(6) % 3

    def loss(net: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return nn.functional.cross_entropy(net(x), y)

    return net(), loss


@package.step
def saved_on_disk() -> Step:
    x, y = torch.randn(6, 4), torch.arange(6) % 3

    def loss(net: Any) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(lambda one: one.numpy(force=True).copy(), torch.from_numpy):
            return nn.functional.cross_entropy(net[0](x).relu() @ torch.ones(8, 3), y)

    return net()[:1], loss


def trained(net: nn.Module, make: Callable[..., Any], **settings: Any) -> nn.Module:
    """Train ``net`` with that optimizer for three steps."""
    optimizer = make(net.parameters(), **settings)
    x, y = torch.randn(6, 4), torch.arange(6) % 3

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return net


@package.training
def lbfgs() -> nn.Module:
    return trained(net(), torch.optim.LBFGS, line_search_fn="strong_wolfe")


@package.training
def fused_adam() -> nn.Module:
    return trained(net(), torch.optim.AdamW, lr=0.01, fused=True)


@package.training
def averaged() -> nn.Module:
    made = net()
    averages = torch.optim.swa_utils.AveragedModel(made)
    trained(made, torch.optim.SGD, lr=0.1)
    averages.update_parameters(made)
    return made


@package.training
def scaled() -> nn.Module:
    made, scaler = net(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(made(torch.randn(6, 4)).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return made


def alone(run: Callable[[], nn.Module]) -> nn.Module:
    """Run that as the only process of a group."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group("gloo", init_method=(Path(folder) / "group").as_uri(), rank=0, world_size=1)
        try:
            return run()
        finally:
            distributed.destroy_process_group()


@package.training
def distributed_data() -> nn.Module:
    def run() -> nn.Module:
        made = net()
        trained(DistributedDataParallel(made), torch.optim.Adam, lr=0.01)
        return made

    return alone(run)


@package.training
def fully_sharded() -> nn.Module:
    def run() -> nn.Module:
        made = net()
        for part in made:
            fully_shard(part, mesh=distributed.init_device_mesh("cpu", (1,)))
        fully_shard(made, mesh=distributed.init_device_mesh("cpu", (1,)))
        trained(made, torch.optim.Adam, lr=0.01)
        full = net()
        full.load_state_dict({name: one.full_tensor().detach().clone() for name, one in made.state_dict().items()})
        full.requires_grad_(False)
        return full

    return alone(run)

"""pytorch-ignite."""

from typing import Any

import torch
from ignite.engine import Engine, Events, create_supervised_trainer
from ignite.handlers import PiecewiseLinear
from torch import nn

from tests.models.package import Package

package = Package("pytorch-ignite")


@package.training
def supervised() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    trainer = create_supervised_trainer(net, optimizer, nn.functional.mse_loss, gradient_accumulation_steps=2)
    trainer.add_event_handler(Events.ITERATION_STARTED, PiecewiseLinear(optimizer, "lr", [(0, 0.1), (8, 0.01)]))
    trainer.run([(torch.randn(4, 4), torch.randn(4, 1)) for _ in range(4)], max_epochs=2)
    return net


@package.training
def own_step() -> nn.Module:
    net = nn.GRU(3, 4, batch_first=True)
    optimizer = torch.optim.NAdam(net.parameters())

    def step(engine: Any, batch: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = net(batch)[0].square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    Engine(step).run([torch.randn(2, 5, 3) for _ in range(3)])
    return net

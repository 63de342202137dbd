"""lightning."""

from typing import Any

import lightning
import torch
from torch import nn

from tests.models.package import Package

package = Package("lightning")


class Classifier(lightning.LightningModule):
    """Digits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), 0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


class Game(lightning.LightningModule):
    """A generator and a discriminator, each with its own optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.makes, self.judges = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))

    def training_step(self, batch: Any, index: int) -> None:
        x, _ = batch
        first, second = self.optimizers()
        made = self.makes(torch.randn(len(x), 2))
        first.zero_grad()
        self.manual_backward(-self.judges(made).mean())
        first.step()
        second.zero_grad()
        self.manual_backward(self.judges(made.detach()).mean() - self.judges(x).mean())
        second.step()

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.makes.parameters(), 0.01), torch.optim.RMSprop(self.judges.parameters(), 0.01)


def train(net: lightning.LightningModule, **settings: Any) -> nn.Module:
    """Train ``net`` with the trainer of the package."""
    data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.arange(16) % 3)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )
    trainer.fit(net, torch.utils.data.DataLoader(data, 4, shuffle=True))
    net.trainer = None
    return net


@package.training
def trainer() -> nn.Module:
    return train(Classifier(), gradient_clip_val=1.0)


@package.training
def accumulation() -> nn.Module:
    return train(Classifier(), accumulate_grad_batches=2, precision="bf16-mixed")


@package.training
def adversaries() -> nn.Module:
    return train(Game())

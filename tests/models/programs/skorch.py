"""skorch."""

import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from tests.models.package import Package

package = Package("skorch")


class Classes(nn.Module):
    """Probabilities of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3), nn.Softmax(-1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@package.training
def classifier() -> nn.Module:
    x, y = torch.randn(20, 4).numpy(), np.arange(20) % 3
    return NeuralNetClassifier(Classes, max_epochs=2, lr=0.1, batch_size=8, verbose=0).fit(x, y).module_


@package.training
def regressor() -> nn.Module:
    x, y = torch.randn(20, 4).numpy(), torch.randn(20, 1).numpy()
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    learned = NeuralNetRegressor(net, max_epochs=2, optimizer=torch.optim.LBFGS, verbose=0, train_split=None)
    return learned.fit(x, y).module_

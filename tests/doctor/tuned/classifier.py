"""Faults of a classifier with linear layers."""

from tests.doctor.program import Fault, Program

PROGRAMS = (
    Program(
        "mlp classifier",
        "classifier",
        setup="""
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, :2].sum(1) > 0).long() + (x[:, 2] > 0.5).long()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        forward="""
out = model(x)
loss = criterion(out, y)
""",
        update="""
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        faults=(
            Fault(
                "relu before cross_entropy",
                "output activation",
                (("nn.Linear(32, 3))", "nn.Linear(32, 3), nn.ReLU())"),),
                where=(r"\b5\b", "ReLU"),
                source="Humbatova 2020, Wrong activation function; Stack Overflow 55776436",
            ),
        ),
    ),
)

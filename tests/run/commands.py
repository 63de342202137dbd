"""The command ``nbgrad`` as a user calls it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: this nbgrad, and no warning about sources that are newer than the compiled core."""
    known = {name: value for name, value in os.environ.items() if name not in ("NBGRAD_STRICT", "COLUMNS")}
    return {**known, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **more}


def nbgrad(*words: str, cwd: Path, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """``nbgrad`` with these ``words``; ``more``: variables of its environment."""
    return python("-m", "nbgrad", *words, cwd=cwd, stdin=stdin, **more)


def python(*words: str, cwd: Path, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """``python`` with these ``words``."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120, "env": environment(**more)}
    return subprocess.run([sys.executable, *words], cwd=cwd, input=stdin, check=False, **options)


def started(*words: str, cwd: Path, **more: str) -> "subprocess.Popen[str]":
    """``nbgrad`` with these ``words``, while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "nbgrad", *words],
        cwd=cwd,
        env=environment(**more),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


TRAINING = """
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)
    def forward(self, x):
        return self.second(ACTIVATION(self.first(x)))

def main(steps):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    for step in range(steps):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        AFTER
    print("the loss is", loss.item() < 10)

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
"""
"""A program as people write them: a class, a function ``main`` with all tensors, and a call of it."""


def training(activation: str = "torch.tanh", after: str = "pass") -> str:
    """The program, with an activation between its layers, and a statement at the end of each step."""
    return TRAINING.replace("ACTIVATION", activation).replace("AFTER", after)


OWN = """
import nbgrad

w = nbgrad.tensor([1.0, -2.0], requires_grad=True)
for step in range(5):
    loss = (w * w).sum()
    loss.backward()
    with nbgrad.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
print("w is", [round(one, 4) for one in w.tolist()])
"""
"""The same in nbgrad's own tensors, at the top level of the file."""

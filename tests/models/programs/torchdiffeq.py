"""torchdiffeq."""

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

from tests.models.package import Package, Step

package = Package("torchdiffeq")


class Field(nn.Module):
    """The right side of an ordinary differential equation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y**3) * torch.cos(t)


@package.step
def dopri5() -> Step:
    y, t = torch.randn(3, 2), torch.linspace(0.0, 1.0, 4)
    return Field(), lambda net: odeint(net, y, t)[-1].square().mean()


@package.step
def rk4() -> Step:
    y, t = torch.randn(3, 2), torch.linspace(0.0, 1.0, 6)
    return Field(), lambda net: odeint(net, y, t, method="rk4").square().mean()


@package.step
def implicit_adams() -> Step:
    y, t = torch.randn(3, 2), torch.linspace(0.0, 1.0, 6)
    return Field(), lambda net: odeint(net, y, t, method="implicit_adams").square().mean()


@package.step
def adjoint() -> Step:
    y, t = torch.randn(3, 2), torch.linspace(0.0, 1.0, 4)
    return Field(), lambda net: odeint_adjoint(net, y, t)[-1].square().mean()


class Fall(nn.Module):
    """A ball that falls from a height that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.height, self.gravity = nn.Parameter(torch.tensor([2.0])), nn.Parameter(torch.tensor([9.8]))

    def forward(self, t: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        _, speed = state
        return speed, -self.gravity


@package.step
def event() -> Step:
    def loss(net: nn.Module) -> torch.Tensor:
        state = (net.height, torch.zeros(1))
        time, _ = odeint_event(net, state, torch.tensor(0.0), event_fn=lambda t, y: y[0], method="dopri5")
        return (time - 1.0) ** 2

    return Fall(), loss

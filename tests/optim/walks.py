"""Walks: the same small model and losses under an optimizer of ours and under torch's."""

import torch

import nbgrad
from nbgrad import nn

SHAPES = ((3, 2), (4, 3), (2, 4))


def start(dtype=torch.float64, shapes=SHAPES):
    """The same data in every walk."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


class Walk:
    """Three parameters in two groups. Gradients depend on the values and the step number, the same in both libraries.

    Args:
        optimizer: the class, ours or torch's.
        settings: its settings.
        own: the settings of the second group; None for a single group.
        dtype: the element type.
        shapes: of the parameters.
        late: the parameter that has no gradient at first and now and then: its state starts later and pauses.
    """

    def __init__(self, optimizer, settings, own=None, *, dtype=torch.float64, shapes=SHAPES, late=1):
        kind = nn.Parameter if issubclass(optimizer, nbgrad.optim.Optimizer) else torch.nn.Parameter
        self.params = [kind(data) for data in start(dtype, shapes)]
        groups = [{"params": self.params[:2]}, {"params": self.params[2:], **(own or {})}]
        self.optimizer = optimizer(self.params if own is None else groups, **settings)
        self.late = late
        self.sign = -1 if settings.get("maximize") else 1

    def grads(self, number):
        self.optimizer.zero_grad()
        for position, param in enumerate(self.params):
            if position != self.late or number % 4 > 1:
                param.grad = (param.data * (1.5 + position)).sin() * 0.3 + (number % 3 - 1) * 0.1

    def step(self, number):
        self.grads(number)
        self.optimizer.step()
        return [param.data.clone() for param in self.params]

    def closure(self):
        """For optimizers that evaluate a loss several times: a curved valley of all parameters, or a hill."""
        self.optimizer.zero_grad()
        terms = [((param * param - 1) ** 2).sum() + (param * 0.5 - 1).exp().sum() for param in self.params]
        loss = (terms[0] + terms[1] * 2 + terms[2] * 3) * self.sign
        loss.backward()
        return loss

    def search(self, _):
        self.optimizer.step(self.closure)
        return [param.data.detach().clone() for param in self.params]


def both(name, settings, own=None, **given):
    """A walk of ours and one of torch's."""
    return tuple(Walk(getattr(module, name), settings, own, **given) for module in (nbgrad.optim, torch.optim))


def move(source, target):
    """The second walk continues from the state of the first."""
    for one, other in zip(source.params, target.params, strict=True):
        other.data.copy_(one.data)
    target.optimizer.load_state_dict(source.optimizer.state_dict())

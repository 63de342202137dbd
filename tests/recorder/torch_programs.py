"""Programs of plain torch, as users write them: each makes what it needs from a seed and gives its gradients."""

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Gradients = Sequence[torch.Tensor | None]
Program = Callable[[], Gradients]


def of(module: torch.nn.Module, *more: torch.Tensor) -> Gradients:
    """The gradients of the parameters of ``module``, and of ``more``."""
    return [one.grad for one in (*module.parameters(), *more)]


def arithmetic() -> Gradients:
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    y = (2 - x) * w / (1 + x**2) - x.exp() @ w.unsqueeze(1)
    y.mean().backward()
    return [x.grad, w.grad]


class Square(torch.autograd.Function):
    """A rule of the user's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return 2 * x * g


def function() -> Gradients:
    x = torch.randn(4, requires_grad=True)
    (Square.apply(x) + 1).sum().backward()
    return [x.grad]


def in_place() -> Gradients:
    x = torch.randn(3, 3, requires_grad=True)
    y = x * 2
    y[0].mul_(3)
    y[:, 1] = x[:, 0]
    y.add_(1)
    y.relu_()
    (y * y).sum().backward()
    return [x.grad]


def in_place_through_views() -> Gradients:
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    y = x * 2
    y[..., -1] += w
    y.t()[0].mul_(w)
    y.t().mul_(w)
    z = y[1]
    z.add_(1)
    ((y * y).sum() + z.exp().sum()).backward()
    return [x.grad, w.grad]


def several_results() -> Gradients:
    x = torch.randn(6, 4, requires_grad=True)
    a, b, _ = x.split(2)
    d, e = b.unbind(0)
    values, _ = a.max(1)
    (values.sum() + (d * e).sum() + x.chunk(2, 1)[1].sum() * 2).backward()
    return [x.grad]


def retained() -> Gradients:
    x = torch.randn(3, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad]


def second_order() -> Gradients:
    x = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    return [x.grad]


def grad_alone() -> Gradients:
    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    h = x * w
    return torch.autograd.grad(h.exp().sum(), [x, h])


def several_roots() -> Gradients:
    x = torch.randn(3, requires_grad=True)
    torch.autograd.backward([(x * 2).sum(), x * 3], [None, torch.ones(3)])
    return [x.grad]


def hooks() -> Gradients:
    x = torch.randn(3, requires_grad=True)
    x.register_hook(lambda g: g * 2)
    y = x * 3
    y.register_hook(lambda g: g * 5)
    y.sum().backward()
    return [x.grad]


def hooks_of_nodes() -> Gradients:
    x = torch.randn(3, requires_grad=True)
    y = x * 3
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda inputs, _: tuple(None if one is None else one * 5 for one in inputs))
    y.sum().backward()
    return [x.grad]


def convolutions() -> Gradients:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(inplace=True),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(36, 5),
    )
    functional.cross_entropy(net(torch.randn(6, 1, 8, 8)), torch.arange(6) % 5).backward()
    return of(net)


def recurrent() -> Gradients:
    net = torch.nn.LSTM(3, 4, 2, batch_first=True)
    out, (h, _) = net(torch.randn(2, 5, 3))
    (out.sum() + h.sum()).backward()
    return of(net)


def transformer() -> Gradients:
    net = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    net(torch.randn(2, 5, 8)).square().sum().backward()
    return of(net)


def half_precision() -> Gradients:
    net = torch.nn.Linear(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        y = net(torch.randn(3, 4)).relu()
    y.float().sum().backward()
    return of(net)


def _checkpointed(*, reentrant: bool) -> Gradients:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    x = torch.randn(3, 4, requires_grad=True)
    made: torch.Tensor = checkpoint(net, x, use_reentrant=reentrant)
    made.square().sum().backward()
    return of(net, x)


def reentrant_checkpoint() -> Gradients:
    return _checkpointed(reentrant=True)


def plain_checkpoint() -> Gradients:
    return _checkpointed(reentrant=False)


@cache
def _traced() -> Any:
    def f(x):  # type: ignore[no-untyped-def]  # torch reads the annotations
        return torch.tanh(x) * x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(f, torch.ones(3))  # type: ignore[no-untyped-call]


def traced() -> Gradients:
    run = _traced()
    x = torch.randn(3, requires_grad=True)
    run(run(x)).sum().backward()
    return [x.grad]


@cache
def _scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(torch.nn.GELU())  # type: ignore[no-untyped-call]


def scripted_part() -> Gradients:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), _scripted())
    net(torch.randn(2, 3)).square().sum().backward()
    return of(net)


def nested() -> Gradients:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    x = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
    net(x).values().square().mean().backward()
    return of(net)


def freed() -> Gradients:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    net(torch.randn(2, 4)).sum().backward()
    net[0].weight.untyped_storage().resize_(0)  # FSDP does this with gathered parameters
    net[1](torch.randn(2, 4)).sum().backward()
    return of(net)


def training() -> Gradients:
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return [*of(net), *[one.detach() for one in net.parameters()]]


PROGRAMS: list[Program] = [
    *(
        arithmetic,
        function,
        in_place,
        in_place_through_views,
        several_results,
        retained,
        second_order,
        grad_alone,
        several_roots,
        hooks,
    ),
    *(convolutions, recurrent, transformer, half_precision, reentrant_checkpoint, plain_checkpoint, traced, training),
    *(scripted_part, nested, freed, hooks_of_nodes),
]

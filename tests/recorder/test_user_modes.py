"""A user's own mode, and a subclass of torch's Tensor, see the same calls whether the program is recorded or not."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nbgrad
from nbgrad.core.backend.function_mode import mute

seen: list[str] = []


def name(function: Any) -> str:
    """The name of a torch function, or of the attribute that it reads."""
    own = getattr(function, "__name__", str(function))
    return f"get {function.__self__.__name__}" if own == "__get__" else own


class Logger(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(name(function))
        return function(*args, **(kwargs or {}))


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(name(function))
        return super().__torch_function__(function, types, args, kwargs or {})


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def training(kind: type[torch.Tensor]) -> None:
    """Layers, views, changes in place, accumulated gradients and hooks."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    optimizer = torch.optim.Adam(net.parameters())
    x, y = torch.randn(6, 4).as_subclass(kind), torch.randint(0, 2, (6,))
    for number in range(3):
        if number != 1:
            optimizer.zero_grad()
        h = net(x).clone()
        h.mul_(2)
        h[0] = 1
        if kind is torch.Tensor:  # torch crashes if a subclass that was changed in place gets a hook
            h.register_hook(lambda g: g * 2)
        a, b = h.split(1, 1)
        loss = torch.nn.functional.cross_entropy(h, y) + (a * b).sum()
        loss = loss + torch.nn.functional.normalize(a - 2 / b).mean() + torch.nn.functional.gumbel_softmax(h).mean()
        loss.backward()
        optimizer.step()
        loss.item()
    with torch.no_grad():
        net(x)


def derivatives(kind: type[torch.Tensor]) -> None:
    """``autograd.grad``, a second derivative, a function of the user's, and a checkpoint."""
    w = torch.randn(3).as_subclass(kind).requires_grad_()
    (slope,) = torch.autograd.grad((Cube.apply(w) + w * w).sum(), w, create_graph=True)
    slope.sum().backward()
    kept = torch.utils.checkpoint.checkpoint(lambda v: (v * v).sin(), w, use_reentrant=False)
    kept.sum().backward()
    w.detach().numpy()


def failing(kind: type[torch.Tensor]) -> None:
    """An op that raises, and a backward that raises."""
    w = torch.randn(3).as_subclass(kind).requires_grad_()
    with pytest.raises(RuntimeError):
        w @ torch.ones(4).as_subclass(kind)
    loss = (w * w).sum()
    loss.backward()
    with pytest.raises(RuntimeError):
        loss.backward()


def calls(program: Callable[[Any], None], kind: type[torch.Tensor], *around: Any) -> list[str]:
    torch.manual_seed(0)
    seen.clear()
    with ExitStack() as stack:
        for one in around:
            stack.enter_context(one)
        program(kind)
    return list(seen)


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("program", [training, derivatives, failing])
@pytest.mark.parametrize("order", ["the graph in the mode", "the mode in the graph"])
def test_a_mode_hears_the_program_alone(order: str, program: Callable[[Any], None], watch: bool) -> None:
    expected = calls(program, torch.Tensor, Logger())
    around = [Logger(), nbgrad.AutogradGraph(watch=watch)]
    if order == "the mode in the graph":
        around.reverse()
    assert expected
    assert calls(program, torch.Tensor, *around) == expected


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("program", [training, derivatives, failing])
def test_a_subclass_hears_the_program_alone(program: Callable[[Any], None], watch: bool) -> None:
    expected = calls(program, Logged)
    assert expected
    with nbgrad.AutogradGraph(watch=watch) as graph:
        assert calls(program, Logged) == expected
    assert graph.rx.num_nodes()


def test_modes_are_on_again_after_a_graph_that_an_interrupt_left_muted() -> None:
    with nbgrad.AutogradGraph():
        guard = mute()  # the interrupt comes before mute is undone
    assert guard is not None
    assert torch._C._is_torch_function_enabled()
    with torch._C.DisableTorchFunctionSubclass():
        with nbgrad.AutogradGraph():
            pass
        assert not torch._C._is_torch_function_enabled(), "the user has switched subclasses off"
    assert torch._C._is_torch_function_enabled()


def test_a_default_device_and_a_graph_go_together() -> None:
    """``torch.set_default_device`` is a mode."""
    torch.set_default_device("meta")
    try:
        with nbgrad.AutogradGraph() as graph:
            x = torch.ones(3, device="cpu", requires_grad=True)
            y = torch.zeros(2)
            (x * x).sum().backward()
        assert y.device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3
    assert graph.rx.num_nodes()

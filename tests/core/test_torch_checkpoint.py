"""torch.utils.checkpoint on our tensors: torch's gradients, memory, statistics and options."""

import gc
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn as tnn
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import nbgrad
from nbgrad.core.engine.node import Deferred
from nbgrad.core.tensor.tensor import Tensor
from tests.core.live_memory import Live
from tests.core.programs import OURS, TORCH, Library, Program, agree

WIDTH = 8
NON_REENTRANT = partial(checkpoint, use_reentrant=False)


def leaves(lib: Library) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)
    w = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64) / 3
    return lib.leaf(x.tolist()), lib.leaf(w.tolist())


def captured_and_named(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = NON_REENTRANT(lambda h, factor, *, bias: (h @ w).tanh() * factor + bias.exp(), x, 0.5, bias=w[0])
    y.sum().backward()
    return y, x.grad, w.grad


def nested(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)

    def block(h: Any) -> Any:
        return (h @ w).tanh().exp()

    y = NON_REENTRANT(lambda h: NON_REENTRANT(block, NON_REENTRANT(block, h)).sigmoid(), x * 1)
    y.sum().backward()
    return y, x.grad, w.grad


def twice_backward(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = NON_REENTRANT(lambda h: (h @ w).tanh().exp(), x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, w.grad


def second_order(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = NON_REENTRANT(lambda h: (h @ w).tanh().exp(), x).sum()
    (slope,) = lib.grad(y, x, create_graph=True)
    slope.square().sum().backward()
    return slope, x.grad, w.grad


def without_recording(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    with torch.no_grad():
        y = NON_REENTRANT(lambda h: h @ w, x)
    return y, y.requires_grad


def random_numbers(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(1)
    x, w = leaves(lib)
    y = NON_REENTRANT(lambda h: torch.nn.functional.dropout(h @ w, 0.5), x)
    noise = torch.rand(3)
    y.sum().backward()
    return y, x.grad, w.grad, noise, torch.rand(3)


def other_random_numbers(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(1)
    x, w = leaves(lib)
    fn = lambda h: torch.nn.functional.dropout(h @ w, 0.5) * h  # noqa: E731
    NON_REENTRANT(fn, x, preserve_rng_state=False, early_stop=False).sum().backward()
    return torch.rand(3), x.grad[0, 0] != 0


def contexts(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    seen: list[str] = []

    @contextmanager
    def noted(name: str) -> Any:
        seen.append(f"enter {name}")
        yield
        seen.append(f"leave {name}")

    y = NON_REENTRANT(
        lambda h: seen.append("run") or (h @ w).tanh(), x, context_fn=lambda: (noted("first"), noted("second"))
    )
    y.sum().backward()
    return seen, x.grad


def without_an_early_stop(lib: Library) -> tuple[Any, ...]:
    found = []
    for settings, outer in (({}, None), ({"early_stop": False}, None), ({}, False), ({"early_stop": False}, True)):
        x, w = leaves(lib)
        ends: list[int] = []

        def fn(h: Any, w: Any = w, ends: list[int] = ends) -> Any:
            y = (h @ w).tanh()
            ends.append(1)
            return y

        with nullcontext() if outer is None else checkpoints.set_checkpoint_early_stop(outer):
            y = NON_REENTRANT(fn, x, **settings)
        y.sum().backward()
        found.append(len(ends))
    return (found,)


def in_sequence(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    layers = [lambda h: (h @ w).tanh(), torch.exp, torch.sigmoid, lambda h: h @ w]
    y = checkpoint_sequential(layers, 2, x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, w.grad


def a_tensor_of_torchs_beside_ours(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    mask = torch.linspace(0, 1, WIDTH, dtype=torch.float64)
    y = NON_REENTRANT(lambda h, m: (h @ w * m).tanh(), x, mask)
    y.sum().backward()
    return y, x.grad, w.grad


PROGRAMS = (
    *(captured_and_named, nested, twice_backward, second_order, without_recording, random_numbers),
    *(other_random_numbers, contexts, without_an_early_stop, in_sequence, a_tensor_of_torchs_beside_ours),
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_is_torchs(program: Program) -> None:
    agree(program)


# Statistics and memory, in a converted model.


class DenseLayer(tnn.Module):
    """A layer of DenseNet with ``memory_efficient``: its norm, activation and first convolution are checkpointed."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = tnn.BatchNorm2d(channels), tnn.BatchNorm2d(growth)
        self.conv1 = tnn.Conv2d(channels, growth, 1, bias=False)
        self.conv2 = tnn.Conv2d(growth, growth, 3, padding=1, bias=False)
        self.relu = tnn.ReLU(inplace=True)
        self.settings: dict[str, Any] = {"use_reentrant": False}

    def forward(self, features: list[Any]) -> Any:
        def bottleneck(*inputs: Any) -> Any:
            return self.conv1(self.relu(self.norm1(torch.cat(inputs, 1))))

        return self.conv2(self.relu(self.norm2(checkpoint(bottleneck, *features, **self.settings))))


class Dense(tnn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.layers = tnn.ModuleList([DenseLayer(3 + 4 * index, 4) for index in range(3)])
        for layer in self.layers:
            layer.settings = settings

    def forward(self, x: Any) -> Any:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


def statistics(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    theirs = Dense(**settings).double()
    ours = nbgrad.from_torch(Dense(**settings).double())
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    a, b = x.clone().requires_grad_(), nbgrad.tensor(x, requires_grad=True)
    for _ in range(2):
        theirs(a).square().sum().backward()
        ours(b).square().sum().backward()
    assert b.grad is not None
    torch.testing.assert_close(b.grad.data, a.grad)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)
    mine_state, state = ours.state_dict(), theirs.state_dict()
    assert list(mine_state) == list(state)
    for name, value in state.items():
        torch.testing.assert_close(mine_state[name], value, msg=name)
    assert int(state["layers.0.norm1.num_batches_tracked"]) == 4, "two forwards, each run twice"


WAYS: list[dict[str, Any]] = [
    {"use_reentrant": True},
    {"use_reentrant": False},
    {"use_reentrant": False, "early_stop": False},
]


@pytest.mark.parametrize("settings", WAYS, ids=str)
def test_statistics_of_a_converted_model_are_torchs(settings: dict[str, Any]) -> None:
    statistics(settings)


BLOCKS, ROWS = 16, 256
ACTIVATION = ROWS * WIDTH * 8


def peak(run: Callable[..., Any]) -> float:
    """The peak memory of a forward and backward of a chain, in units of one activation."""
    _, w = leaves(OURS)
    x = nbgrad.tensor(torch.ones(ROWS, WIDTH, dtype=torch.float64), requires_grad=True)

    def block(h: Tensor) -> Tensor:
        return ((h @ w).tanh().exp() * 0.1).sigmoid() * h

    gc.collect()
    with Live() as live:
        h = x
        for _ in range(BLOCKS):
            h = run(block, h)
        h.sum().backward()
    return live.peak / ACTIVATION


@pytest.mark.parametrize("settings", WAYS, ids=str)
def test_memory_is_saved_as_by_nbgrads_own(settings: dict[str, Any]) -> None:
    plainly = peak(lambda block, h: block(h))
    own = peak(nbgrad.checkpoint)
    assert own < plainly / 2
    assert peak(partial(checkpoint, **settings)) <= own + 1


def kernels(policy: bool) -> tuple[int, Any]:
    """How many matrix products a program runs under a checkpoint, which keeps them or not; and the gradient."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counts(TorchDispatchMode):
        found = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Counts.found += func is torch.ops.aten.mm.default
            return func(*args, **(kwargs or {}))

    keep = partial(checkpoints.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    x, w = leaves(OURS)
    with Counts():
        settings = {"context_fn": keep} if policy else {}
        NON_REENTRANT(lambda h: ((h @ w).tanh() @ w).exp(), x, **settings).sum().backward()
    return Counts.found, x.grad


def test_a_policy_keeps_what_it_names() -> None:
    (counted, kept), (more, again) = kernels(True), kernels(False)
    assert more == counted + 2
    assert torch.equal(kept.data, again.data)


# Errors.


def changing(second: Callable[[Any], Any], lib: Library = OURS, **settings: Any) -> None:
    runs: list[int] = []

    def fn(h: Any) -> Any:
        runs.append(1)
        return h.exp() if len(runs) == 1 else second(h)

    NON_REENTRANT(fn, lib.leaf(1.0, 2.0), **settings).sum().backward()


def test_another_program_the_second_time_is_torchs_error() -> None:
    for second in (torch.sqrt, lambda h: h):
        with pytest.raises(checkpoints.CheckpointError, match=r"changing.*recorded exp as op 1 in the forward, but"):
            changing(second)


def test_other_shapes_the_second_time_are_an_error_unless_they_are_not_compared() -> None:
    for lib in (OURS, TORCH):
        with pytest.raises(checkpoints.CheckpointError, match=r"shape"):
            changing(lambda h: h[:1].exp(), lib)
    with pytest.raises(RuntimeError, match=r"shape|size") as raised:
        changing(lambda h: torch.cat([h, h]).exp(), determinism_check="none")
    assert not isinstance(raised.value, checkpoints.CheckpointError)


def test_debug_writes_torchs_logs() -> None:
    with pytest.raises(checkpoints.CheckpointError, match="Operations executed during recomputation"):
        changing(torch.sqrt, debug=True)


def test_an_argument_that_changed_in_place_is_an_error() -> None:
    h = nbgrad.tensor([1.0, 2.0], requires_grad=True) * 1
    y = NON_REENTRANT(torch.exp, h)
    h.data.add_(1)
    with pytest.raises(RuntimeError, match=r"argument of .*exp, of shape \(2,\), was changed in place"):
        y.sum().backward()


def test_an_error_in_the_second_run_says_where_it_came_from() -> None:
    def fail(_: Any) -> Any:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as caught:
        changing(fail)
    assert "inside torch.utils.checkpoint.checkpoint" in caught.value.__notes__[0]


def test_a_torch_whose_checkpoint_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrad.core.interop import torch_contexts

    monkeypatch.setattr(torch_contexts, "_captured", lambda _: {})
    with pytest.raises(NotImplementedError, match=r"exp\(\) on an nbgrad tensor.*Write nbgrad.checkpoint"):
        changing(torch.exp)
    changing(torch.exp, TORCH)


def test_an_error_in_the_first_run_leaves_all_as_it_was() -> None:
    x = nbgrad.tensor([1.0], requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        NON_REENTRANT(lambda h: h.exp() * (1 // 0), x)
    gc.collect()
    y = x.exp()
    assert not isinstance(y.grad_fn.saved, Deferred)

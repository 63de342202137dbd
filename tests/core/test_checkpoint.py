"""checkpoint: the same gradients with less memory, for every kind of graph and every kind of backward."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import nbgrad
from nbgrad import nn
from nbgrad.core.engine.node import Deferred, Freed, Node
from nbgrad.core.tensor.tensor import Tensor
from tests.core.live_memory import Live
from tests.core.programs import OURS, TORCH, Library, Program, agree, garbage, plain

WIDTH = 8


def checkpoint(lib: Library, fn: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """The library's own checkpoint."""
    if lib is OURS:
        return nbgrad.checkpoint(fn, *args, **settings)
    return torch_checkpoint(fn, *args, use_reentrant=False, **settings)


def leaves(lib: Library) -> tuple[Any, Any]:
    """A batch and a weight, the same numbers for both libraries."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)
    w = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64) / 3
    return lib.leaf(x.tolist()), lib.leaf(w.tolist())


def both_inputs_and_captured(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = checkpoint(lib, lambda h: (h @ w).tanh() * h, x)
    y.sum().backward()
    return y, x.grad, w.grad


def only_captured(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    checkpoint(lib, lambda h: (h @ w).tanh().exp(), x.detach()).sum().backward()
    return x.grad, w.grad


def a_chain_and_nested(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)

    def block(h: Any) -> Any:
        return (h @ w).tanh()

    def two(h: Any) -> Any:
        return checkpoint(lib, block, checkpoint(lib, block, h)).exp()

    def four(h: Any) -> Any:
        return checkpoint(lib, two, block(checkpoint(lib, two, h)))

    y = checkpoint(lib, four, x * 1)
    y.sum().backward()
    return y, x.grad, w.grad


def several_outputs_and_other_arguments(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)

    def fn(parts: list[Any], scale: float, *, names: dict[str, Any]) -> tuple[Any, Any, str]:
        return parts[0].exp() * scale, (parts[0] @ names["w"]).tanh(), "done"

    a, b, word = checkpoint(lib, fn, [x], 0.5, names={"w": w})
    (a.sum() + (b * b).sum()).backward()
    return a, b, word, x.grad, w.grad


def one_output_unused(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    first, _ = checkpoint(lib, lambda h: (h.exp(), (h @ w).tanh()), x)
    first.sum().backward()
    return x.grad, w.grad


def gradient_asked_for(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = checkpoint(lib, lambda h: (h @ w).tanh(), x.exp())
    return lib.grad(y.sum(), [w, x])


def second_order(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    y = checkpoint(lib, lambda h: (h @ w).tanh().exp(), x)
    (g,) = lib.grad(y.sum(), [x], create_graph=True)
    (h,) = lib.grad((g * g).sum(), [w], create_graph=True)
    return g, h, *lib.grad((h * h).sum(), [x, w])


def retained(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    loss = checkpoint(lib, lambda h: (h @ w).tanh(), x).sum()
    loss.backward(retain_graph=True)
    first = w.grad.detach().clone()
    loss.backward()
    return first, w.grad, x.grad


def a_gradient_inside(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)

    def slope(h: Any) -> Any:
        (g,) = lib.grad((h @ w).tanh().sum(), [h], create_graph=True)
        return g * h

    y = (checkpoint(lib, slope, x.exp())) if lib is OURS else slope(x.exp())  # torch's checkpoint does not support this
    y.sum().backward()
    return y, x.grad, w.grad


def branching(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    h = x.tanh()
    a = checkpoint(lib, lambda t: (t @ w).tanh(), h)
    b = checkpoint(lib, lambda t: (t @ w).exp(), h)
    (a * b + h).sum().backward()
    return x.grad, w.grad


def without_recording(lib: Library) -> tuple[Any, ...]:
    x, w = leaves(lib)
    with lib.ops.no_grad():
        y = checkpoint(lib, lambda h: (h @ w).tanh(), x)
    return y, y.requires_grad


@pytest.mark.parametrize(
    "program",
    [
        both_inputs_and_captured,
        only_captured,
        a_chain_and_nested,
        several_outputs_and_other_arguments,
        one_output_unused,
        gradient_asked_for,
        second_order,
        retained,
        a_gradient_inside,
        branching,
        without_recording,
    ],
    ids=lambda program: program.__name__,
)
def test_checkpoint_is_torchs(program: Program) -> None:
    agree(program)


@pytest.mark.parametrize("way", [True, False, None])
def test_torchs_two_ways_are_one_here(way: bool | None) -> None:
    x, w = leaves(OURS)
    nbgrad.checkpoint(lambda h: (h @ w).tanh(), x, use_reentrant=way).sum().backward()
    found = x.grad, w.grad
    x, w = leaves(OURS)
    (x @ w).tanh().sum().backward()
    for mine, yours in zip(found, (x.grad, w.grad), strict=True):
        assert torch.equal(plain(mine), plain(yours))


def test_a_second_backward_says_what_it_always_says() -> None:
    x, w = leaves(OURS)
    loss = nbgrad.checkpoint(lambda h: (h @ w).tanh(), x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match=r"backward through tanh.* a second time"):
        loss.backward()


def test_modules_with_parameters() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = nbgrad.tensor(torch.randn(5, 3))
    net(x).sum().backward()
    wanted = [parameter.grad.tolist() for parameter in net.parameters()]
    net.zero_grad()
    nbgrad.checkpoint(net, x).sum().backward()
    assert [parameter.grad.tolist() for parameter in net.parameters()] == wanted


class Doubled(nbgrad.Function):
    """An op of the user's own inside a checkpoint."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        return x * x, x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * 2 * x + h * 2


def test_functions_of_the_user() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    a, b = nbgrad.checkpoint(lambda t: Doubled.apply(t.exp()), x)
    held = [node for node in nodes_below(a, b) if isinstance(node.saved, tuple) and tensors_in(node.saved)]
    assert not held, "a Function's saved tensors stayed in memory"
    (a + b).sum().backward()
    torch.testing.assert_close(x.grad.data, 2 * (2 * x.data).exp() + 2 * x.data.exp())


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)] if isinstance(values, tuple) else []


def nodes_below(*tensors: Tensor) -> list[Node]:
    origins = nbgrad.core.engine.backward.reachable([tensor.origin for tensor in tensors])
    return [origin for origin in origins if isinstance(origin, Node)]


# Random numbers and autocast.


def dropped(h: Tensor) -> Tensor:
    return h.exp() * nbgrad.tensor((torch.rand(h.shape) > 0.5).to(torch.float64))


def test_random_numbers_are_drawn_again_and_then_go_on() -> None:
    x = nbgrad.tensor(torch.ones(100, dtype=torch.float64), requires_grad=True)
    y = nbgrad.checkpoint(dropped, x)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad.data, y.data), "the mask of the second run is another one"
    assert torch.equal(torch.get_rng_state(), before), "the backward has moved the generator"


def test_random_numbers_are_left_alone_where_that_is_asked_for() -> None:
    x = nbgrad.tensor(torch.ones(100, dtype=torch.float64), requires_grad=True)
    y = nbgrad.checkpoint(dropped, x, preserve_rng_state=False)
    y.sum().backward()
    assert not torch.equal(x.grad.data, y.data)


def test_the_second_run_is_under_the_autocast_of_the_first() -> None:
    seen = []

    def fn(h: Tensor, w: Tensor) -> Tensor:
        seen.append((h @ w).dtype)
        return (h @ w).tanh()

    def program(run: Callable[..., Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        x = nbgrad.tensor(torch.randn(4, 4), requires_grad=True)
        w = nbgrad.tensor(torch.randn(4, 4), requires_grad=True)
        with nbgrad.autocast("cpu", torch.bfloat16):
            y = run(fn, x, w)
        y.float().sum().backward()
        return [x.grad.data, w.grad.data]

    with_it, without = program(nbgrad.checkpoint), program(lambda fn, *args: fn(*args))
    assert all(torch.equal(a, b) for a, b in zip(with_it, without, strict=True))
    assert set(seen) == {torch.bfloat16}
    assert not torch.is_autocast_enabled("cpu")


# Errors.


def test_an_argument_changed_in_place_is_an_error() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1
    y = nbgrad.checkpoint(lambda t: t.exp(), h)
    h.data.add_(1)
    with pytest.raises(RuntimeError, match=r"argument of .*lambda.* shape \(2,\), was changed in place"):
        y.sum().backward()


def test_a_parameter_changed_in_place_is_an_error() -> None:
    x, w = leaves(OURS)
    y = nbgrad.checkpoint(lambda t: (t @ w).tanh(), x)
    w.data.mul_(2)
    with pytest.raises(RuntimeError, match=r"matmul.*in[ -]place|in[ -]place.*matmul"):
        y.sum().backward()


@pytest.mark.parametrize("second", ["sqrt", "nothing"])
def test_another_program_the_second_time_is_an_error_that_names_both_ops(second: str) -> None:
    runs = []

    def fn(x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) == 1:
            return x.exp()
        return x.sqrt() if second == "sqrt" else x

    y = nbgrad.checkpoint(fn, nbgrad.tensor([1.0], requires_grad=True))
    with pytest.raises(RuntimeError, match=rf"recorded exp as op 1 in the forward, but {second} when"):
        y.backward()


def test_what_the_second_run_leaves_elsewhere_has_no_gradient() -> None:
    left = []

    def fn(h: Tensor) -> Tensor:
        left.append(h.exp())
        return left[-1] * h

    x = nbgrad.tensor([1.0], requires_grad=True)
    nbgrad.checkpoint(fn, x).backward()
    with pytest.raises(RuntimeError, match=r"exp of the second run of a checkpoint.*use the result of the checkpoint"):
        left[1].backward()


def test_an_error_in_the_second_run_says_where_it_came_from_and_leaves_every_grad() -> None:
    runs = []

    def fn(h: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) > 1:
            raise ValueError("no more")
        return h.exp()

    x = nbgrad.tensor([1.0], requires_grad=True)
    y = nbgrad.checkpoint(fn, x)
    with pytest.raises(ValueError, match="no more") as caught:
        (y + x).sum().backward()
    assert "ran test_an_error_in_the_second_run" in caught.value.__notes__[0]
    assert x.grad is None
    assert nbgrad.is_grad_enabled()


# The picture and the memory.


def test_a_graph_shows_what_is_inside_once() -> None:
    x, w = leaves(OURS)
    with nbgrad.AutogradGraph() as graph:
        nbgrad.checkpoint(lambda h: (h @ w).tanh(), x).sum().backward()
        ops = [record.op.name for record in graph.records if record.op is not None]
    assert ops == ["matmul", "tanh", "sum"]


def test_nothing_is_saved_before_the_backward_and_nothing_is_left_after_it() -> None:
    with garbage() as found:
        x, w = leaves(OURS)
        y = nbgrad.checkpoint(lambda h: (h @ w).tanh().exp(), x.exp())
        nodes = nodes_below(y)
        assert [isinstance(node.saved, Deferred) for node in nodes] == [False, True, True, True]
        y.sum().backward()
        assert all(isinstance(node.saved, Freed) for node in nodes)
        del nodes, y
    assert not found


BLOCKS, ROWS = 32, 256
ACTIVATION = ROWS * WIDTH * 8
"""The bytes of a tensor that goes from one block to the next."""


def peak(run: Callable[..., Any]) -> float:
    """The peak memory of a forward and backward of the chain, in units of one activation."""
    _, w = leaves(OURS)
    x = nbgrad.tensor(torch.ones(ROWS, WIDTH, dtype=torch.float64), requires_grad=True)

    def block(h: Tensor) -> Tensor:  # its ops save the weight and four activations, one of which is its input
        return ((h @ w).tanh().exp() * 0.1).sigmoid() * h

    gc.collect()
    with Live() as live:
        h = run(block, x)
        h.sum().backward()
    return live.peak / ACTIVATION


def plainly(block: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    for _ in range(BLOCKS):
        h = block(h)
    return h


def block_by_block(block: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    for _ in range(BLOCKS):
        h = nbgrad.checkpoint(block, h)
    return h


def by_segments(block: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    def several(h: Tensor) -> Tensor:
        for _ in range(4):
            h = block(h)
        return h

    for _ in range(BLOCKS // 4):
        h = nbgrad.checkpoint(several, h)
    return h


def halving(block: Callable[[Tensor], Tensor], h: Tensor, length: int = BLOCKS) -> Tensor:
    if length == 1:
        return block(h)
    for _ in range(2):
        h = nbgrad.checkpoint(lambda t: halving(block, t, length // 2), h)
    return h


def test_peak_memory_of_a_chain_of_32_blocks_falls_as_theory_says() -> None:
    inside, spare = 4, 4  # values that a block saves, its input among them; gradients and weights in use
    assert peak(plainly) >= BLOCKS * inside
    assert peak(block_by_block) <= BLOCKS + inside + spare, "an input per block, and one block"
    assert peak(by_segments) <= BLOCKS / 4 + 4 * (inside + 1) + spare, "an input per segment, and one segment"
    assert peak(halving) <= 5 + inside + spare, "one input for each halving: the logarithm of 32"


@pytest.mark.cuda
def test_peak_memory_on_the_gpu_falls() -> None:
    def measured(run: Callable[..., Any]) -> int:
        x = nbgrad.tensor(torch.ones(1024, 1024, device="cuda"), requires_grad=True)
        w = nbgrad.tensor(torch.eye(1024, device="cuda"), requires_grad=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run(lambda h: ((h @ w).tanh().exp() * 0.1).sigmoid() * h, x).sum().backward()
        return torch.cuda.max_memory_allocated() - before

    assert measured(by_segments) < measured(block_by_block) < measured(plainly) / 2


def test_both_libraries_are_asked() -> None:
    """The programs above must run torch's checkpoint for torch: otherwise they would prove less."""
    calls = []
    checkpoint(TORCH, lambda h: calls.append(1) or h.exp(), torch.ones(1, requires_grad=True)).backward()
    assert len(calls) == 2

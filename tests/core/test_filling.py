"""Torch tensors that nbgrad's values fill in place: values and gradients are torch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn as tnn

import nbgrad
from nbgrad.core.tensor.filled import counterparts
from tests.core.programs import OURS, TORCH, Library, Program, agree, garbage, plain

KIND = torch.float64


def zeros(*shape: int) -> Any:
    return torch.zeros(*shape, dtype=KIND)


def filled_by(change: Callable[[Any, Any], Any]) -> Program:
    """A program in which ``change(out, y)`` fills a matrix with a computed one. It is then used in many ways."""

    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        out = zeros(2, 3) + 1
        returned = change(out, x * 2)
        w = torch.arange(3, dtype=KIND)
        used = out @ w, (out * out).sum(), x + out, torch.stack([out, x]).mean(0), out.T.reshape(-1), -out, 1 / out
        sum((one * one).sum() for one in used).backward()
        facts = out.requires_grad, out.shape, out.dtype, len(out), out.is_leaf, isinstance(out, torch.Tensor)
        return out, x.grad, returned is out, *used, *(facts if lib is TORCH else (*facts[:5], True))

    return program


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "out[:] = y": lambda out, y: out.__setitem__(slice(None), y),
    "out[0] = y[1]": lambda out, y: out.__setitem__(0, y[1]),
    "out[:, 1] = y[:, 0]": lambda out, y: out.__setitem__((slice(None), 1), y[:, 0]),
    "out[mask] = y[mask]": lambda out, y: out.__setitem__(torch.eye(2, 3) > 0, y[torch.eye(2, 3) > 0]),
    "out[0, 0] = 0-d": lambda out, y: out.__setitem__((0, 0), y.sum()),
    "add_": lambda out, y: out.add_(y),
    "add_ alpha": lambda out, y: out.add_(y, alpha=3),
    "+=": lambda out, y: out.__iadd__(y),
    "*=": lambda out, y: out.__imul__(y),
    "copy_": lambda out, y: out.copy_(y),
    "copy_ into a row": lambda out, y: out[0].copy_(y[1]),
    "add_ into a transposed column": lambda out, y: out.T[1:].add_(y.T[:2]),
    "index_add_": lambda out, y: out.index_add_(0, torch.tensor([1, 1]), y),
    "index_copy_": lambda out, y: out.index_copy_(1, torch.tensor([2]), y[:, :1]),
    "index_put_": lambda out, y: out.index_put_((torch.tensor([1]),), y[0], accumulate=True),
    "scatter_": lambda out, y: out.scatter_(1, torch.tensor([[0, 2], [1, 0]]), y[:, :2]),
    "scatter_add_": lambda out, y: out.scatter_add_(1, torch.tensor([[0, 2], [1, 0]]), y[:, :2]),
    "scatter_reduce_": lambda out, y: out.scatter_reduce_(1, torch.tensor([[0, 2], [1, 0]]), y[:, :2], "sum"),
    "masked_scatter_": lambda out, y: out.masked_scatter_(torch.eye(2, 3) > 0, y),
    "masked_fill_": lambda out, y: out.masked_fill_(torch.eye(2, 3) > 0, y.sum()),
    "addcmul_": lambda out, y: out.addcmul_(y, y, value=0.5),
    "fill_": lambda out, y: out.fill_(y.mean()),
    "addmm_": lambda out, y: out.addmm_(y[:, :2], y[:2]),
    "lerp_": lambda out, y: out.lerp_(y, 0.25),
    "where": lambda out, y: out.copy_(torch.where(torch.eye(2, 3) > 0, y, out)),
    "twice": lambda out, y: out.add_(y).mul_(y[0]),
    "row by row": lambda out, y: [out.__setitem__(i, y[i] * i + out[i - 1]) for i in range(2)] and None,
    "and overwritten": lambda out, y: out.add_(y)[0].zero_() is None,
}


@pytest.mark.parametrize("name", CHANGES)
def test_filled_with_what_has_a_gradient(name: str) -> None:
    program = filled_by(CHANGES[name])
    agree(lambda lib: tuple(counterparts(list(program(lib)))))


def a_view_of_the_start(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    out = zeros(4).view(2, 2)
    out[1] = x.exp()
    out.sum().backward()
    return out, x.grad


def a_loop_over_time(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf([[1.0, 2.0], [0.5, -1.0], [0.1, 0.2]]), lib.leaf([[0.1, 0.2], [0.3, 0.4]])
    states = torch.empty(4, 2, dtype=KIND)
    states[0] = 0
    for step in range(3):
        states[step + 1] = torch.tanh(states[step].clone() @ w + x[step])
    states[1:].square().sum().backward()
    return states, x.grad, w.grad


def random_numbers(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(0)
    x = lib.leaf(1.0, 2.0)
    noise, more = torch.randn(3, 2, dtype=KIND), torch.rand(2, dtype=KIND)
    noise[1] += x
    y = noise * more + torch.eye(2, dtype=KIND)[0]
    y.sum().backward()
    return noise, y, x.grad


def second_order(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    out = zeros(3)
    out[:2] = x**3
    (first,) = lib.grad((out * out).sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    return first, second


def whole_numbers(lib: Library) -> tuple[Any, ...]:
    """Integers have no gradient."""
    x = lib.leaf(1.0, 2.0)
    out = torch.zeros(2, dtype=torch.long)
    out[0] = x[1]
    return out, out.requires_grad


def without_recording(lib: Library) -> tuple[Any, ...]:
    x, out = lib.leaf(1.0, 2.0), zeros(2)
    with torch.no_grad():
        out.add_(x)
        out[0] = x[1]
    return out, out.requires_grad, type(out) is torch.Tensor


def attributes(lib: Library) -> tuple[Any, ...]:
    x, out = lib.leaf(1.0, 2.0), zeros(2)
    before = hash(out)
    out.tag = "mine"
    out += x * 1
    out.retain_grad()
    (out * 3).sum().backward()
    return (
        *(out.grad, out.detach(), out.data, out.tag, out.ndim, out.stride(), out.numel(), out.is_contiguous()),
        *(out.is_nested, out.layout, out.device, out.tolist(), out[1].item(), hash(out) == before, bool(out[0] > 0)),
        *(float(out[0].detach()), [one.item() for one in out], out in {out: 1}, out.is_complex(), out.element_size()),
    )


@pytest.mark.parametrize(
    "program",
    [a_view_of_the_start, a_loop_over_time, random_numbers, second_order, whole_numbers, without_recording, attributes],
)
def test_the_program_is_torchs(program: Program) -> None:
    agree(lambda lib: tuple(counterparts(list(program(lib)))))


def test_functions_and_blocks_of_nbgrad_take_it() -> None:
    x, out = nbgrad.tensor([[1.0, 2.0]], requires_grad=True), torch.zeros(2, 2)
    out[:1] = x * 1
    for run in (nbgrad.exp, nbgrad.nn.Linear(2, 3), nbgrad.nn.ReLU(), torch.sin, lambda t: nbgrad.add(x, t)):
        y = run(out)
        assert isinstance(y, nbgrad.Tensor)
        assert y.requires_grad
    with pytest.warns(UserWarning, match="tensor"):
        assert not nbgrad.tensor(out).requires_grad
    y = x * 1
    assert y.mul_(out[:1]).tolist() == [[1.0, 4.0]]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [[2.0, 4.0]]


# Refusals: what would lose a gradient.


def test_a_tensor_whose_memory_others_share_is_refused() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    first, second = torch.zeros(4).chunk(2)
    with pytest.raises(TypeError, match="other tensors share its memory, which would lose the gradient"):
        first.copy_(x)
    del second
    first.copy_(x)
    assert first.requires_grad
    out = torch.zeros(2)
    alias = out.detach()
    with pytest.raises(TypeError, match="other tensors share its memory"):
        out[0] = x[0]
    assert type(out) is torch.Tensor
    assert alias.tolist() == [0.0, 0.0]


def test_parameters_and_leaves_of_torchs_are_refused() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    for target in (tnn.Parameter(torch.zeros(2)), torch.zeros(2, requires_grad=True)):
        with pytest.raises(TypeError, match=r"pass t\.data to write only the values"):
            target.add_(x)
        assert target.tolist() == [0.0, 0.0]


def test_what_nbgrad_has_no_method_for_is_refused() -> None:
    x, out = nbgrad.tensor([1.0, 2.0], requires_grad=True), torch.zeros(2)
    out += x
    for wrong in (lambda: out.nextafter_(x), lambda: out.nextafter(x), lambda: torch.nextafter(out, x)):
        with pytest.raises(NotImplementedError, match="nbgrad has no"):
            wrong()
    assert out.tolist() == [1.0, 2.0]


# A model.


class Router(tnn.Module):
    """A mixture of experts that writes each expert's tokens into zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = tnn.Linear(4, 3)
        self.experts = tnn.ModuleList([tnn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
        out = torch.zeros(x.shape, dtype=KIND)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        pad = torch.zeros(1, x.shape[1], dtype=KIND)
        return {"out": out, "padded": torch.cat([pad, out])}


def test_a_converted_model_that_fills_zeros_is_torchs() -> None:
    torch.manual_seed(0)
    theirs = Router().double()
    ours = nbgrad.from_torch(theirs)
    x = torch.randn(6, 4, dtype=KIND)
    expected, found = theirs(x), ours(nbgrad.tensor(x))
    assert all(isinstance(one, nbgrad.Tensor) for one in found.values())
    for name in expected:
        torch.testing.assert_close(plain(found[name]), plain(expected[name]))
    (expected["out"] * expected["padded"][1:]).sum().backward()
    (found["out"] * found["padded"][1:]).sum().backward()
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)


class Filling(tnn.Module):
    def forward(self, x: Any) -> Any:
        out = torch.zeros(3, dtype=KIND)
        out[1:] = x * 2
        return out


@pytest.mark.parametrize("convert", [False, True])
def test_a_graph_shows_the_ops_and_records_none_of_torchs(convert: bool) -> None:
    module = nbgrad.from_torch(Filling()) if convert else Filling()
    x = nbgrad.tensor([1.0, 2.0], dtype=KIND, requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        out = module(x)
        (torch.exp(out) * out).sum().backward()
        ops = [record.op.name for record in graph.records if record.op is not None]
    assert ops == ["mul", "setitem_", "exp", "mul", "sum"]
    assert x.grad is not None
    torch.testing.assert_close(x.grad.data, 2 * torch.exp(x.data * 2) * (1 + x.data * 2))


def test_nothing_is_left() -> None:
    with garbage() as found:
        x, out = nbgrad.tensor([1.0, 2.0], requires_grad=True), torch.zeros(2)
        out[0] = x[1]
        out.sum().backward()
        del out, x
    assert not found
    assert OURS is not TORCH

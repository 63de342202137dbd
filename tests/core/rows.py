"""What the tests of the op table share: every row's samples, and the same call in torch's own autograd."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

import nbgrad.core.ops  # noqa: F401  # fills the table
from nbgrad.core.grad import grad
from nbgrad.core.op import Op
from nbgrad.core.samples import Make, Sample
from nbgrad.core.tensor import Tensor, tensor

Gradients = list[torch.Tensor]


def samples(row: Op) -> Iterator[Sample]:
    """The row's samples, the same ones each time."""
    yield from row.samples(Make(row.domain))


def on(sample: Sample, device: str) -> Sample:
    """The sample with its tensors, those in settings included, on another device."""

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(moved(part) for part in value)
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return Sample(moved(sample.args), {name: moved(value) for name, value in sample.settings.items()})


def describe(sample: Sample) -> str:
    """The call that a sample stands for, tensors by their shapes."""

    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return f"({', '.join(map(text, value))})" if isinstance(value, tuple) else repr(value)

    return ", ".join([*map(text, sample.args), *(f"{name}={text(value)}" for name, value in sample.settings.items())])


def reference(row: Op) -> Callable[..., Any]:
    """torch's own function for the row."""
    return row.reference or getattr(torch, row.name, None) or getattr(torch.nn.functional, row.name)


def differentiable(row: Op, sample: Sample) -> list[int]:
    """The positions of the sample's arguments that get a gradient."""
    return [
        position
        for position, (name, arg) in enumerate(zip(row.inputs, sample.args, strict=False))
        if isinstance(arg, torch.Tensor) and arg.is_floating_point() and name in row.rules
    ]


def by_torch(row: Op, sample: Sample, seed: torch.Tensor | None) -> tuple[Any, Gradients, Gradients]:
    """Value, gradients and second-order gradients by torch's autograd."""
    positions = differentiable(row, sample)
    args = [
        a.clone().requires_grad_(i in positions) if isinstance(a, torch.Tensor) else a
        for i, a in enumerate(sample.args)
    ]
    out = reference(row)(*args, **sample.settings)
    first = out[0] if isinstance(out, tuple) else out
    if seed is None:
        return out, [], []
    inputs = [args[position] for position in positions]
    start = seed.clone().requires_grad_()
    grads = torch.autograd.grad(first, inputs, start, create_graph=True)
    total = sum((g * weights(g)).sum() for g in grads)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        return out, list(grads), [torch.zeros_like(t) for t in (*inputs, start)]
    seconds = torch.autograd.grad(total, [*inputs, start], allow_unused=True)
    return (
        out,
        list(grads),
        [torch.zeros_like(t) if s is None else s for s, t in zip(seconds, (*inputs, start), strict=True)],
    )


def by_nbgrad(row: Op, sample: Sample, seed: torch.Tensor | None) -> tuple[Any, Gradients, Gradients]:
    """Value, gradients and second-order gradients by our engine."""
    positions = differentiable(row, sample)
    args = [
        tensor(a, requires_grad=i in positions) if isinstance(a, torch.Tensor) else a for i, a in enumerate(sample.args)
    ]
    out = row(*args, **sample.settings)
    first = out[0] if isinstance(out, tuple) else out
    if seed is None:
        return out, [], []
    inputs = [args[position] for position in positions]
    start = tensor(seed, requires_grad=True)
    plain = grad(first, inputs, start.detach(), retain_graph=True)
    grads = grad(first, inputs, start, create_graph=True)
    for once, again in zip(plain, grads, strict=True):
        torch.testing.assert_close(once.data, again.data, equal_nan=True, msg="create_graph changes the gradient")
    terms = [(g * weights(g.data)).sum() for g in grads]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    if not total.requires_grad:
        return out, [g.data for g in grads], [torch.zeros_like(t.data) for t in (*inputs, start)]
    seconds = grad(total, [*inputs, start], allow_unused=True)
    return (
        out,
        [g.data for g in grads],
        [torch.zeros_like(t.data) if s is None else s.data for s, t in zip(seconds, (*inputs, start), strict=True)],
    )


def weights(like: torch.Tensor) -> torch.Tensor:
    """Fixed random numbers of a tensor's shape, to make one number of a gradient."""
    return torch.rand(like.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(like.device)


def seed_for(row: Op, sample: Sample) -> torch.Tensor | None:
    """A random gradient to start a backward from; None where the row has no gradient."""
    if not row.differentiable or not differentiable(row, sample):
        return None
    out = row(*sample.args, **sample.settings)
    first = out[0] if isinstance(out, tuple) else out
    return torch.randn(first.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(first.device)


def raw(value: Any) -> Any:
    """The torch tensors in a result."""
    if isinstance(value, tuple):
        return tuple(raw(part) for part in value)
    return value.data if isinstance(value, Tensor) else value


def check(row: Op, sample: Sample) -> None:
    """Value, gradients and second-order gradients of one sample equal torch's."""
    seed = seed_for(row, sample)
    ours, theirs = by_nbgrad(row, sample, seed), by_torch(row, sample, seed)
    close(raw(ours[0]), theirs[0], "value")
    for name, mine, yours in (("gradient", ours[1], theirs[1]), ("second-order gradient", ours[2], theirs[2])):
        assert len(mine) == len(yours)
        for position, (m, y) in enumerate(zip(mine, yours, strict=True)):
            close(m, y, f"{name} {position}")


def close(ours: Any, theirs: Any, what: str) -> None:
    """Equal within torch's own tolerance for the dtype, shape and dtype included."""
    if isinstance(ours, tuple):
        theirs = tuple(theirs)
    torch.testing.assert_close(ours, theirs, equal_nan=True, msg=lambda text: f"{what}: {text}")

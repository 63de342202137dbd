"""Shared by the tests of the op table: every row's samples, and the same call in torch's own autograd."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch

import nbgrad.core.ops  # noqa: F401  # fills the table
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.dispatch.table import Op
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests import lacking
from tests.core.closeness import close

Gradients = list[torch.Tensor]


def samples(row: Op) -> Iterator[Sample]:
    """The row's samples, the same ones each time."""
    yield from row.samples(Make(row.domain))


def _empty(sample: Sample) -> bool:
    return any(arg.numel() == 0 for arg in sample.args if isinstance(arg, torch.Tensor))


def _mixed(sample: Sample) -> bool:
    return len({arg.is_complex() for arg in sample.args if isinstance(arg, torch.Tensor)}) > 1


def _below_0(sample: Sample) -> bool:
    return (sample.settings.get("correction") or 0) < 0


Lacking = dict[str, tuple[str, Callable[[Sample], bool]]]
"""For a row: the name in tests/lacking.py of what this torch may lack, and whether a sample needs it."""

LACKING: Lacking = {
    "trace": ("trace", lambda sample: sample.args[0].shape[0] > sample.args[0].shape[1]),
    "atan2": ("atan2", lambda sample: bool(((sample.args[0] == 0) & (sample.args[1] == 0)).any())),
    "linalg_det": ("linalg_det", _empty),
    "aminmax": ("aminmax", lambda _: True),
    "linalg_lstsq": ("linalg_lstsq", lambda _: True),
    "grid_sampler": ("grid_sampler", lambda _: True),
    "grid_sampler_backward": ("grid_sampler", lambda _: True),
    "addr": ("mixed", lambda sample: _empty(sample) and _mixed(sample)),
    "mv": ("mixed", lambda sample: _empty(sample) and _mixed(sample)),
}
LACKING_ON_META: Lacking = {
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), ("var on meta", _below_0)),
    "bucketize": ("bucketize on meta", lambda sample: not isinstance(sample.args[0], torch.Tensor)),
}


def lacks(row: Op, sample: Sample, table: Lacking = LACKING) -> str:
    """Why torch has no reference for the sample; empty if it has one."""
    what, concerns = table.get(row.name, ("", lambda _: False))
    return lacking.lacks(what) if concerns(sample) else ""


def comparable(row: Op, given: Iterable[Sample] | None = None, table: Lacking = LACKING) -> Iterator[Sample]:
    """The row's samples, or ``given``, for which torch has a reference.

    If some samples were left out, a test that reaches the end counts as skipped: all other samples agree.
    """
    left: list[str] = []
    for sample in samples(row) if given is None else given:
        reason = lacks(row, sample, table)
        if not reason:
            yield sample
        left += [reason] * bool(reason)
    if left:
        pytest.skip(f"{left[0]}: {len(left)} samples are left out")


def on(sample: Sample, device: str) -> Sample:
    """The sample with its tensors, those in settings included, on another device."""

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(moved(part) for part in value)
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return Sample(moved(sample.args), {name: moved(value) for name, value in sample.settings.items()})


def describe(sample: Sample) -> str:
    """The text of a sample's call. Tensors are shown by their shapes."""

    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return f"({', '.join(map(text, value))})" if isinstance(value, tuple) else repr(value)

    return ", ".join([*map(text, sample.args), *(f"{name}={text(value)}" for name, value in sample.settings.items())])


def reference(row: Op) -> Callable[..., Any]:
    """torch's own function for the row; the forward, where that only calls one of another name."""
    return row.reference or _of_the_same_name(row.name) or row.forward


def _of_the_same_name(name: str) -> Callable[..., Any] | None:
    family, _, short = name.partition("_")
    if family in ("linalg", "special"):
        return getattr(getattr(torch, family), short, None)
    return getattr(torch, name, None) or getattr(torch.nn.functional, name, None)


OTHER_GRADIENTS = {
    "as_strided_scatter": "torch gives its input the gradient of the places that are overwritten: its gradcheck fails",
    "copy": "it is no public function of torch's, and has other gradients",
}
"""Rows for which torch's own kernel has another gradient than the reference."""


COMPOSED = frozenset(("embedding_bag", "flash_attention", "img_to_col", "linalg_eig", "multi_margin_loss"))
"""Rows whose reference is made of several functions. It accepts other element types than the forward of the row, which
is torch's kernel. Every backward row is like this."""


def own(row: Op, sample: Sample) -> Callable[..., Any] | None:
    """torch's own function for the sample. None for an empty sample, if the row has a reference.

    The forward of the row is the last choice: a comparison with itself always passes.
    """
    named = _of_the_same_name(row.name)
    if (row.reference is None and named is not None) or row.name in OTHER_GRADIENTS:
        return reference(row)

    def run(function: Callable[..., Any], needs: tuple[int, ...] | list[int] = ()) -> tuple[Any, ...]:
        copies = [  # some functions change their arguments
            arg.clone().requires_grad_(i in needs) if isinstance(arg, torch.Tensor) else arg
            for i, arg in enumerate(sample.args)
        ]
        return parts(function(*copies, **sample.settings))

    ours = run(row)
    if not all(arg.numel() for arg in sample.args if isinstance(arg, torch.Tensor)):  # torch's kernels may crash there
        return None
    wanted = differentiable(row, sample) if row.differentiable else []
    composed = row.name in COMPOSED or row.name.endswith("_backward")
    for function in (named, None if composed else row.reference, row.forward):
        try:
            theirs = run(function, wanted) if function is not None else ()
            if (function is row.forward or equal(ours, theirs)) and (not wanted or theirs[0].requires_grad):
                return function
        except (RuntimeError, TypeError, ValueError, IndexError):  # the same name, but another meaning
            continue
    return reference(row)


def equal(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Whether two results are the same numbers."""
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def of(row: Op, sample: Sample) -> Op:
    """The row that runs the sample. For a list of tensors it is the row for a list of this length."""
    return row.of(len(sample.args) - len(row.inputs)) if row.arity < 0 else row


def differentiable(row: Op, sample: Sample) -> list[int]:
    """The positions of the sample's arguments that get a gradient."""
    return [
        position
        for position, (name, arg) in enumerate(zip(of(row, sample).inputs, sample.args, strict=False))
        if isinstance(arg, torch.Tensor)
        and (arg.is_floating_point() or arg.is_complex())
        and name in of(row, sample).rules
    ]


def parts(result: Any) -> tuple[Any, ...]:
    """The outputs of a call."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def live(row: Op, result: Any) -> list[Any]:
    """The outputs that have a gradient."""
    outputs = parts(result)
    return list(outputs) if row.many else [outputs[position] for position in row.live]


Seeds = list[torch.Tensor]
"""Random gradients to start a backward from, one for each output that has one."""


def by_torch(row: Op, sample: Sample, seeds: Seeds) -> tuple[Any, Gradients, Gradients]:
    """Value, gradients and second-order gradients by torch's autograd."""
    positions = differentiable(row, sample)
    args = [
        a.clone().requires_grad_(i in positions) if isinstance(a, torch.Tensor) else a
        for i, a in enumerate(sample.args)
    ]
    out = reference(row)(*args, **sample.settings)
    if not seeds:
        return out, [], []
    inputs = [args[position] for position in positions]
    starts = [seed.clone().requires_grad_() for seed in seeds]
    given = torch.autograd.grad(live(row, out), inputs, starts, create_graph=True, allow_unused=True)
    grads = [torch.zeros_like(t) if g is None else g for g, t in zip(given, inputs, strict=True)]
    total = sum((g * weights(g)).sum().real for g in grads)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        return out, grads, [torch.zeros_like(t) for t in (*inputs, *starts)]
    seconds = torch.autograd.grad(total, [*inputs, *starts], allow_unused=True)
    return (
        out,
        grads,
        [torch.zeros_like(t) if s is None else s for s, t in zip(seconds, (*inputs, *starts), strict=True)],
    )


def by_nbgrad(row: Op, sample: Sample, seeds: Seeds) -> tuple[Any, Gradients, Gradients]:
    """Value, gradients and second-order gradients by our engine."""
    positions = differentiable(row, sample)
    args = [
        tensor(a, requires_grad=i in positions) if isinstance(a, torch.Tensor) else a for i, a in enumerate(sample.args)
    ]
    out = row(*args, **sample.settings)
    if not seeds:
        return out, [], []
    inputs = [args[position] for position in positions]
    starts = [tensor(seed, requires_grad=True) for seed in seeds]
    detached = [start.detach() for start in starts]
    plain = grad(live(row, out), inputs, detached, retain_graph=True, allow_unused=True)
    given = grad(live(row, out), inputs, starts, create_graph=True, allow_unused=True)
    assert [one is None for one in plain] == [one is None for one in given], "create_graph changes what has a gradient"
    grads = [tensor(torch.zeros_like(t.data)) if g is None else g for g, t in zip(given, inputs, strict=True)]
    for once, again in zip(plain, grads, strict=True):
        if once is not None:
            close(once.data, again.data, "create_graph changes the gradient")
    terms = [real((g * weights(g.data)).sum()) for g in grads]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    if not total.requires_grad:
        return out, [g.data for g in grads], [torch.zeros_like(t.data) for t in (*inputs, *starts)]
    seconds = grad(total, [*inputs, *starts], allow_unused=True)
    return (
        out,
        [g.data for g in grads],
        [torch.zeros_like(t.data) if s is None else s.data for s, t in zip(seconds, (*inputs, *starts), strict=True)],
    )


def real(value: Tensor) -> Tensor:
    """The real part of a complex number, a real one as it is."""
    return value.real if value.is_complex() else value


def weights(like: torch.Tensor) -> torch.Tensor:
    """Fixed random numbers in the shape of a tensor. With them a gradient is reduced to one number."""
    return torch.rand(like.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(like.device)


def seeds_for(row: Op, sample: Sample) -> Seeds:
    """A random gradient for each output that has a gradient. Empty if the row has none."""
    if not row.differentiable or not differentiable(row, sample):
        return []
    outputs = live(row, row(*sample.args, **sample.settings))
    draw = torch.Generator().manual_seed(2)
    return [torch.randn(o.shape, generator=draw, dtype=_double(o.dtype)).to(o.device) for o in outputs]


def _double(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def raw(value: Any) -> Any:
    """The torch tensors in a result."""
    if isinstance(value, tuple | list):
        return tuple(raw(part) for part in value)
    return value.data if isinstance(value, Tensor) else value


def check(row: Op, sample: Sample) -> None:
    """Value, gradients and second-order gradients of one sample equal torch's."""
    seeds = seeds_for(row, sample)
    ours, theirs = by_nbgrad(row, sample, seeds), by_torch(row, sample, seeds)
    close(raw(ours[0]), theirs[0], "value")
    for name, mine, yours in (("gradient", ours[1], theirs[1]), ("second-order gradient", ours[2], theirs[2])):
        assert len(mine) == len(yours)
        for position, (m, y) in enumerate(zip(mine, yours, strict=True)):
            close(m, y, f"{name} {position}")

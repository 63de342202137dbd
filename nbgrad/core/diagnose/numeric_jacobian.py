"""The Jacobian of a function at one point, computed in two ways: from the rules, and from differences of values.

A complex number counts as two real ones, its parts: the Jacobian has a row and a column for each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.functional.grad import grad
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor, tensor


class Limits(NamedTuple):
    """How far an element is moved, and what may differ by how much."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float


class Probe:
    """A function of tensors that can be moved: ``run`` computes its outputs from ``leaves`` as they are now."""

    def __init__(
        self,
        run: Callable[[], Any],
        leaves: list[Tensor],
        names: list[str],
        limits: Limits,
        results: list[str] | None = None,
    ) -> None:
        self.run: Callable[[], list[Tensor]] = lambda: differentiables(run())
        self.leaves = leaves
        self.names = names
        self.limits = limits
        self.results = results or [f"output {k}" for k in range(len(self.run()))]

    def problem(self) -> "Mismatch | None":
        """The worst fault of the gradients, if there is one."""
        outputs = self.run()
        live = [k for k, out in enumerate(outputs) if out.requires_grad]
        slopes = {k: self.analytic(outputs[k]) for k in live}
        again = {k: self.analytic(outputs[k]) for k in live}
        tolerance = self.limits.nondet_tol
        if found := self._worst("nondeterministic", slopes, again, atol=tolerance, rtol=0.0):
            return found
        numeric = self.numeric()
        slopes = slopes or {k: [torch.zeros_like(block) for block in blocks] for k, blocks in numeric.items()}
        wanted = {k: numeric[k] for k in slopes}
        if found := self._worst("wrong", slopes, wanted, atol=self.limits.atol, rtol=self.limits.rtol):
            return found
        got, want = {}, {}
        for k in live:
            seed = random_like(outputs[k].data)
            got[k] = self.backward(outputs[k], seed)
            want[k] = [parts(seed).reshape(1, -1) @ part for part in slopes[k]]
        return self._worst("not linear", got, want, atol=self.limits.atol, rtol=self.limits.rtol)

    def backward(self, output: Tensor, seed: torch.Tensor) -> list[torch.Tensor]:
        """The gradient of each leaf from one gradient of ``output``, as a row."""
        found = grad(output, self.leaves, seed, retain_graph=True, allow_unused=True)
        return [
            parts(torch.zeros_like(leaf.data) if part is None else part.data).reshape(1, -1)
            for leaf, part in zip(self.leaves, found, strict=True)
        ]

    def analytic(self, output: Tensor) -> list[torch.Tensor]:
        """The Jacobian of ``output`` by each leaf, from its rules: a row for each number of the output."""
        seeds = torch.eye(count(output.data), dtype=torch.float64, device=output.device)
        rows = [self.backward(output, whole(seed, output.data)) for seed in seeds]
        empty = [seeds.new_zeros(0, count(leaf.data)) for leaf in self.leaves]
        return [torch.cat(columns) for columns in zip(*rows, strict=True)] if rows else empty

    def numeric(self) -> dict[int, list[torch.Tensor]]:
        """The Jacobian of every output by each leaf, from central differences."""
        eps = self.limits.eps
        found: dict[int, list[torch.Tensor]] = {k: [] for k in range(len(self.results))}
        for i, leaf in enumerate(self.leaves):
            columns = [
                [(a - b) / (2 * eps) for a, b in zip(self.moved(i, j, eps), self.moved(i, j, -eps), strict=True)]
                for j in range(count(leaf.data))
            ]
            for k, blocks in found.items():
                empty = torch.zeros(count(self.run()[k].data), 0, dtype=torch.float64, device=leaf.device)
                blocks.append(torch.stack([column[k] for column in columns], 1) if columns else empty)
        return found

    def moved(self, input: int, element: int, by: float) -> list[torch.Tensor]:
        """The values of the outputs with one number of one leaf moved."""
        flat = parts(self.leaves[input].data.data)  # torch's .data counts changes apart: no graph notices
        before = flat[element].item()
        try:
            flat[element] = before + by
            return [parts(out.data.detach()).to(torch.float64, copy=True) for out in self.run()]
        finally:
            flat[element] = before

    def _worst(self, kind: str, got: "Table", want: "Table", *, atol: float, rtol: float) -> "Mismatch | None":
        worst, found = 1.0, None
        for k, blocks in got.items():
            for i, (a, n) in enumerate(zip(blocks, want[k], strict=True)):
                bad = ~torch.isclose(a, n, atol=atol, rtol=rtol, equal_nan=kind == "nondeterministic")
                if not bad.any():
                    continue
                excess = torch.where(bad, ((a - n).abs() / (atol + rtol * n.abs())).nan_to_num(torch.inf), 0.0)
                place = int(excess.argmax())
                if found is None or float(excess.flatten()[place]) > worst:
                    worst = float(excess.flatten()[place])
                    found = Mismatch(self, kind, k, i, *divmod(place, a.shape[1]), a, n)
        return found


Table = dict[int, list[torch.Tensor]]


@dataclass(frozen=True)
class Mismatch:
    """Where two Jacobians of one output by one input differ most."""

    probe: Probe
    kind: str
    output: int
    input: int
    row: int
    column: int
    got: torch.Tensor
    want: torch.Tensor

    @property
    def values(self) -> tuple[float, float]:
        """The worst entry of both."""
        return float(self.got[self.row, self.column]), float(self.want[self.row, self.column])

    @property
    def complex(self) -> tuple[bool, bool]:
        """Whether the numbers of the output and of the input are parts of complex ones, real and imaginary in turn."""
        return self.probe.run()[self.output].is_complex(), self.probe.leaves[self.input].is_complex()

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.probe.names[self.input]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the output and of the input; the two parts of complex numbers are one more dimension."""
        shapes = tuple(self.probe.run()[self.output].shape), tuple(self.probe.leaves[self.input].shape)
        output, input = ((*shape, 2) if paired else shape for shape, paired in zip(shapes, self.complex, strict=True))
        return output, input


def random_like(like: torch.Tensor) -> torch.Tensor:
    """Random numbers of a tensor's shape, the same ones each time."""
    dtype = torch.complex128 if like.is_complex() else torch.float64
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(0), dtype=dtype).to(like)


def parts(data: torch.Tensor) -> torch.Tensor:
    """The real numbers that a tensor is made of, as a vector: a view of its memory if they lie there in order."""
    return (torch.view_as_real(data.resolve_conj()) if data.is_complex() else data).reshape(-1)


def whole(numbers: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor of the shape and type of ``like`` that is made of these real numbers."""
    if like.is_complex():
        numbers = torch.view_as_complex(numbers.reshape(-1, 2))
    return numbers.reshape(like.shape).to(like)


def count(data: torch.Tensor) -> int:
    """How many real numbers a tensor is made of."""
    return data.numel() * (2 if data.is_complex() else 1)


def differentiables(result: Any) -> list[Tensor]:
    """The floating point and complex tensors that a function returned."""
    given = result if isinstance(result, tuple | list) else (result,)
    found = [one for one in given if isinstance(one, Tensor) and differentiable(one.dtype)]
    if not found:
        raise ValueError(f"func must return a floating point Tensor or a tuple of them, not {kind_of(result)}")
    return found


def precise(dtype: torch.dtype) -> torch.dtype:
    """The element type that a tensor is checked in: double precision, of what can be differentiated."""
    return torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype


def gradient_of(probe: Probe, grad_outputs: Any = None) -> Probe:
    """The gradients of a probe's leaves as a function of these leaves and of what the backward starts from."""
    outputs = probe.run()
    live = [k for k, out in enumerate(outputs) if out.requires_grad]
    if not live:
        raise ValueError("gradgradcheck: no output of func requires grad, so there is no gradient to differentiate")
    given = grad_outputs if isinstance(grad_outputs, tuple | list) else [grad_outputs]
    raw = [random_like(outputs[k].data) for k in live] if grad_outputs is None else [tensor(v).data for v in given]
    seeds = [tensor(one.to(precise(one.dtype), copy=True).contiguous(), requires_grad=True) for one in raw]

    def gradients() -> tuple[Tensor | None, ...]:
        made = probe.run()
        return grad([made[k] for k in live], probe.leaves, seeds, create_graph=True, allow_unused=True)

    reached = [i for i, found in enumerate(gradients()) if found is not None]
    return Probe(
        lambda: [one for one in gradients() if one is not None],
        [*probe.leaves, *seeds],
        [*probe.names, *(f"grad_output {k}" for k in live)],
        probe.limits,
        [f"the gradient of {probe.names[i]}" for i in reached],
    )

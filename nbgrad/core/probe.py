"""A function at one point, and two ways to its Jacobian: from the rules, and from differences of values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nbgrad.core.grad import grad
from nbgrad.core.spelling import kind_of
from nbgrad.core.tensor import Tensor, tensor


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
        self.run: Callable[[], list[Tensor]] = lambda: floats(run())
        self.leaves = leaves
        self.names = names
        self.limits = limits
        self.results = results or [f"output {k}" for k in range(len(self.run()))]

    def problem(self) -> "Problem | None":
        """What is wrong with the gradients, the worst of it, if anything is."""
        outputs = self.run()
        live = [k for k, out in enumerate(outputs) if out.requires_grad]
        slopes = {k: self.analytic(outputs[k]) for k in live}
        again = {k: self.analytic(outputs[k]) for k in live}
        tolerance = self.limits.nondet_tol
        if found := self._worst("nondeterministic", slopes, again, atol=tolerance, rtol=0.0):
            return found
        numeric = self.numeric()
        slopes = slopes or {k: [torch.zeros_like(part) for part in parts] for k, parts in numeric.items()}
        wanted = {k: numeric[k] for k in slopes}
        if found := self._worst("wrong", slopes, wanted, atol=self.limits.atol, rtol=self.limits.rtol):
            return found
        got, want = {}, {}
        for k in live:
            seed = random_like(outputs[k].data)
            got[k] = self.backward(outputs[k], seed)
            want[k] = [seed.reshape(1, -1) @ part for part in slopes[k]]
        return self._worst("not linear", got, want, atol=self.limits.atol, rtol=self.limits.rtol)

    def backward(self, output: Tensor, seed: torch.Tensor) -> list[torch.Tensor]:
        """The gradient of each leaf from one gradient of ``output``, as a row."""
        found = grad(output, self.leaves, seed, retain_graph=True, allow_unused=True)
        return [
            (torch.zeros_like(leaf.data) if part is None else part.data).reshape(1, -1)
            for leaf, part in zip(self.leaves, found, strict=True)
        ]

    def analytic(self, output: Tensor) -> list[torch.Tensor]:
        """The Jacobian of ``output`` by each leaf, from its rules: a row for each element of the output."""
        rows = [self.backward(output, seed.reshape(output.shape)) for seed in torch.eye(output.numel()).to(output.data)]
        empty = [leaf.data.new_zeros(0, leaf.numel()) for leaf in self.leaves]
        return [torch.cat(parts) for parts in zip(*rows, strict=True)] if rows else empty

    def numeric(self) -> dict[int, list[torch.Tensor]]:
        """The Jacobian of every output by each leaf, from central differences."""
        eps = self.limits.eps
        found: dict[int, list[torch.Tensor]] = {k: [] for k in range(len(self.results))}
        for i, leaf in enumerate(self.leaves):
            columns = [
                [(a - b) / (2 * eps) for a, b in zip(self.moved(i, j, eps), self.moved(i, j, -eps), strict=True)]
                for j in range(leaf.numel())
            ]
            for k, parts in found.items():
                empty = leaf.data.new_zeros(self.run()[k].numel(), 0)
                parts.append(torch.stack([column[k] for column in columns], 1) if columns else empty)
        return found

    def moved(self, input: int, element: int, by: float) -> list[torch.Tensor]:
        """The values of the outputs with one element of one leaf moved."""
        flat = self.leaves[input].data.data.view(-1)  # .data of torch: its own version counter, so no graph minds
        before = flat[element].item()
        try:
            flat[element] = before + by
            return [out.data.detach().to(torch.float64, copy=True).reshape(-1) for out in self.run()]
        finally:
            flat[element] = before

    def _worst(self, kind: str, got: "Table", want: "Table", *, atol: float, rtol: float) -> "Problem | None":
        worst, found = 1.0, None
        for k, parts in got.items():
            for i, (a, n) in enumerate(zip(parts, want[k], strict=True)):
                bad = ~torch.isclose(a, n, atol=atol, rtol=rtol, equal_nan=kind == "nondeterministic")
                if not bad.any():
                    continue
                excess = torch.where(bad, ((a - n).abs() / (atol + rtol * n.abs())).nan_to_num(torch.inf), 0.0)
                place = int(excess.argmax())
                if found is None or float(excess.flatten()[place]) > worst:
                    worst = float(excess.flatten()[place])
                    found = Problem(self, kind, k, i, *divmod(place, a.shape[1]), a, n)
        return found


Table = dict[int, list[torch.Tensor]]


@dataclass(frozen=True)
class Problem:
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
    def name(self) -> str:
        """What the input is called."""
        return self.probe.names[self.input]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the output and of the input."""
        return tuple(self.probe.run()[self.output].shape), tuple(self.probe.leaves[self.input].shape)


def random_like(like: torch.Tensor) -> torch.Tensor:
    """Random numbers of a tensor's shape, the same ones each time."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(like)


def floats(result: Any) -> list[Tensor]:
    """The floating point tensors that a function returned."""
    parts = result if isinstance(result, tuple | list) else (result,)
    if any(isinstance(part, Tensor) and part.is_complex() for part in parts):
        raise NotImplementedError(
            "a check of complex outputs is not there: let func return their parts as real numbers, "
            "nbgrad.view_as_real(z)"
        )
    found = [part for part in parts if isinstance(part, Tensor) and part.dtype.is_floating_point]
    if not found:
        raise ValueError(f"func must return a floating point Tensor or a tuple of them, not {kind_of(result)}")
    return found


def gradient_of(probe: Probe, grad_outputs: Any = None) -> Probe:
    """The gradients of a probe's leaves as a function of these leaves and of what the backward starts from."""
    outputs = probe.run()
    live = [k for k, out in enumerate(outputs) if out.requires_grad]
    if not live:
        raise ValueError("gradgradcheck: no output of func requires grad, so there is no gradient to differentiate")
    given = grad_outputs if isinstance(grad_outputs, tuple | list) else [grad_outputs]
    raw = [random_like(outputs[k].data) for k in live] if grad_outputs is None else [tensor(v).data for v in given]
    seeds = [tensor(part.to(torch.float64, copy=True).contiguous(), requires_grad=True) for part in raw]

    def gradients() -> tuple[Tensor | None, ...]:
        made = probe.run()
        return grad([made[k] for k in live], probe.leaves, seeds, create_graph=True, allow_unused=True)

    reached = [i for i, found in enumerate(gradients()) if found is not None]
    return Probe(
        lambda: [part for part in gradients() if part is not None],
        [*probe.leaves, *seeds],
        [*probe.names, *(f"grad_output {k}" for k in live)],
        probe.limits,
        [f"the gradient of {probe.names[i]}" for i in reached],
    )

"""Backward from several tensors, and ``nbgrad.grad``, which returns the gradients that ``backward`` accumulates."""

from collections.abc import Sequence
from typing import Any

import torch

from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine.backward import Inputs, Roots, backward as accumulate, gradients
from nbgrad.core.engine.node import Leaf
from nbgrad.core.engine.pacing import backward_begun, backward_ended
from nbgrad.core.functional.gradient_edge import GradientEdge, held, several
from nbgrad.core.ops.shape.joining import stack
from nbgrad.core.tensor.filled import entered_leaves, fillings
from nbgrad.core.tensor.tensor import Tensor, seed


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: "Tensor | torch.Tensor | Sequence[Tensor | torch.Tensor | None] | None" = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Inputs | None = None,
) -> None:
    """Add the gradient of the sum of ``tensors`` to the ``.grad`` of every leaf they were computed from, in one walk.

    Args:
        tensors: where the backward starts, one tensor or several.
        grad_tensors: the gradient to start from at each of them, of its shape; 1 for a tensor with one element.
        retain_graph: keep what the ops saved, for another backward; default: the value of ``create_graph``.
        create_graph: record the backward itself, so that the gradients can be differentiated again.
        inputs: the tensors to accumulate in and no others, leaves or not; default: every leaf.

    Raises:
        RuntimeError: as ``Tensor.backward``.
    """
    backward_begun()
    ends = several(tensors)
    seeds = _seeds(grad_tensors, len(ends))
    roots = _roots(ends, seeds, create_graph=create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    accumulate(roots, None if inputs is None else _accumulating(inputs), retain_graph=retain, create_graph=create_graph)
    _ended(ends, accumulates=True, differentiable=create_graph)


def _ended(ends: Sequence[Any], *, accumulates: bool, differentiable: bool) -> None:
    """Notify the pacers of a backward from ``ends``."""
    backward_ended(tuple([getattr(one, "_data", None) for one in ends]), accumulates, differentiable)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: "Tensor | torch.Tensor | Sequence[Tensor | torch.Tensor | None] | None" = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
    is_grads_batched: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, returned and not accumulated.

    Args:
        outputs: the tensors to differentiate, one or several.
        inputs: the tensors with respect to which the outputs are differentiated: leaves or computed tensors.
        grad_outputs: the gradient to start from at each output, of its shape; 1 for an output with one element.
        retain_graph: keep what the ops saved, for another backward; default: the value of ``create_graph``.
        create_graph: record the backward itself, so that the gradients can be differentiated again.
        only_inputs: has to be True, as for torch: nothing is accumulated.
        allow_unused: return None for an input that no output depends on, instead of raising; default: the value of
            ``materialize_grads``.
        materialize_grads: return zeros for an input that no output depends on.
        is_grads_batched: ``grad_outputs`` and the gradients have one more dimension, the first. For each index of it,
            one backward runs.

    Returns:
        One gradient per input, of its shape.

    Raises:
        RuntimeError: there are no inputs, one is not used or needs no gradient, or a backward could not run from the
            outputs.
        ValueError: ``materialize_grads`` together with ``allow_unused=False``.
    """
    if not only_inputs:
        raise ValueError(
            "grad(): only_inputs=False is not supported, as in torch: call backward(), which accumulates in every .grad"
        )
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads=True gives zeros for unused inputs: leave allow_unused out")
    for one in held(inputs):
        if isinstance(one, torch.Tensor) and one.requires_grad:
            fillings.enters_whole(one)
    ends, wanted = several(outputs), several(inputs)
    if not wanted:
        raise RuntimeError("grad() got no inputs: name the tensors whose gradients it should return")
    seeds = _seeds(grad_outputs, len(ends))
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        settings = {"create_graph": create_graph, "allow_unused": allow_unused, "materialize_grads": materialize_grads}
        return _for_each(ends, wanted, seeds, retain_graph=retain, **settings)
    _check_inputs(wanted)
    backward_begun()
    roots = _roots(ends, seeds, create_graph=create_graph)
    origins = [tensor.origin for tensor in wanted]
    found = gradients(roots, origins, retain_graph=retain, create_graph=create_graph)
    _ended(ends, accumulates=False, differentiable=create_graph)
    results: list[Tensor | None] = []
    for position, (tensor, origin) in enumerate(zip(wanted, origins, strict=True)):
        gradient = found.get(origin)
        if gradient is None and materialize_grads:
            zeros = torch.zeros(origin.shape, dtype=origin.dtype, device=tensor.device)
            gradient = Tensor(zeros, requires_grad=create_graph)
        elif gradient is None and not allow_unused:
            raise RuntimeError(
                f"grad(): no output depends on input {position}, of shape {tuple(origin.shape)}: "
                "pass allow_unused=True to get None for it"
            )
        results.append(gradient if gradient is None or isinstance(gradient, Tensor) else Tensor(gradient))
    return tuple(results)


def _roots(ends: list[Tensor], seeds: Sequence[Any], *, create_graph: bool) -> Roots:
    """Where a backward starts: the origin of each of ``ends``, and its gradient there."""
    pairs = zip(ends, seeds, strict=True)
    return [(end.origin, unheard(seed, end, start, create_graph=create_graph)) for end, start in pairs]


def _accumulating(inputs: Any) -> list[Tensor]:
    """The tensors that a backward is to accumulate in. An edge stands for the leaf at it."""
    wanted = held(entered_leaves(inputs))
    for position, one in enumerate(wanted):
        if isinstance(one, GradientEdge):
            tensor = one.node.variable if isinstance(one.node, Leaf) else None
            if tensor is None:
                raise RuntimeError(
                    f"backward(): inputs[{position}] is the edge of {one.node}, where there is no tensor to accumulate "
                    "in: pass the tensor, or ask grad() for the gradient"
                )
            wanted[position] = tensor
    return wanted


def _check_inputs(inputs: list[Tensor]) -> None:
    for position, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"grad(): input {position} is a {torch.typename(tensor)}, for which nbgrad has no gradient: convert it "
                "with nbgrad.tensor(t, requires_grad=True) before the forward"
            )
        if not tensor.requires_grad:
            raise RuntimeError(
                f"grad(): input {position} does not require a gradient: call requires_grad_() on it first"
            )


def _for_each(
    outputs: list[Tensor], inputs: list[Tensor], seeds: Sequence[Any], *, retain_graph: bool, **settings: Any
) -> tuple[Tensor | None, ...]:
    """The gradients for each index of the first dimension of ``seeds``, stacked."""
    counts = {len(one) for one in seeds if one is not None and one.ndim}
    if len(counts) != 1 or any(one is None or one.ndim == 0 for one in seeds) or counts == {0}:
        given = [None if one is None else tuple(one.shape) for one in seeds]
        raise RuntimeError(
            "grad(): is_grads_batched=True needs grad_outputs with a first dimension that is the same for each output "
            f"and not empty, not {given}"
        )
    last = counts.pop() - 1
    rows = [
        grad(outputs, inputs, [one[index] for one in seeds], retain_graph=retain_graph or index < last, **settings)
        for index in range(last + 1)
    ]
    return tuple([None if column[0] is None else stack(*column) for column in zip(*rows, strict=True)])


def _seeds(grad_outputs: Any, outputs: int) -> "list[Tensor | torch.Tensor | None]":
    """The gradients to start from, one for each output."""
    if grad_outputs is None:
        return [None] * outputs
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor | torch.Tensor) else list(grad_outputs)
    if len(seeds) != outputs:
        raise RuntimeError(f"{outputs} outputs but {len(seeds)} gradients to start from: give one for each")
    return seeds

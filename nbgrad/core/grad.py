"""Gradients as values: ``nbgrad.grad`` returns what ``backward`` would accumulate."""

from collections.abc import Sequence

import torch

from nbgrad.core import engine
from nbgrad.core.tensor import Tensor, seed


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: "Tensor | torch.Tensor | Sequence[Tensor | torch.Tensor | None] | None" = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, returned and not accumulated.

    Args:
        outputs: what is differentiated, one tensor or several.
        inputs: with respect to what: leaves or computed tensors.
        grad_outputs: the gradient to start from at each output, of its shape; 1 for an output with one element.
        retain_graph: keep what the ops saved, for another backward; default: the value of ``create_graph``.
        create_graph: record the backward itself, so that the gradients can be differentiated again.
        allow_unused: return None for an input that no output depends on, instead of raising.

    Returns:
        One gradient per input, of its shape.

    Raises:
        RuntimeError: an input is not used, needs no gradient, or a backward could not run from the outputs.
    """
    ends = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seeds: list[Tensor | torch.Tensor | None]
    if grad_outputs is None or isinstance(grad_outputs, Tensor | torch.Tensor):
        seeds = [grad_outputs] * len(ends)
    else:
        seeds = list(grad_outputs)
    if len(seeds) != len(ends):
        raise RuntimeError(f"grad() got {len(ends)} outputs but {len(seeds)} grad_outputs: give one for each")
    for position, tensor in enumerate(wanted):
        if not tensor.requires_grad:
            raise RuntimeError(
                f"grad(): input {position} does not require a gradient: call requires_grad_() on it first"
            )
    roots = [(end.origin, seed(end, start, create_graph=create_graph)) for end, start in zip(ends, seeds, strict=True)]
    retain = create_graph if retain_graph is None else retain_graph
    origins = [tensor.origin for tensor in wanted]
    found = engine.gradients(roots, origins, retain_graph=retain, create_graph=create_graph)
    results: list[Tensor | None] = []
    for position, origin in enumerate(origins):
        gradient = found.get(origin)
        if gradient is None and not allow_unused:
            raise RuntimeError(
                f"grad(): no output depends on input {position}, of shape {tuple(origin.shape)}: "
                "pass allow_unused=True to get None for it"
            )
        results.append(gradient if gradient is None or isinstance(gradient, Tensor) else Tensor(gradient))
    return tuple(results)

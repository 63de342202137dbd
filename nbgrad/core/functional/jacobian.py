"""The Jacobian and the Hessian of a function, as ``torch.autograd.functional`` has them: a backward for each row."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from nbgrad.core.functional.products import (
    Tensors,
    as_given,
    as_tuple,
    called,
    check_depends,
    check_live,
    gradients_of,
    single,
    zeros,
)
from nbgrad.core.ops.index.getitem import getitem_backward
from nbgrad.core.tensor.tensor import Tensor, tensor


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,  # noqa: ARG001
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of every element of every output of ``func`` by every element of every input.

    It runs one backward for each element of the outputs.

    Args:
        func: takes the inputs as arguments and returns a tensor or a tuple of tensors.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        create_graph: make the answer differentiable with respect to inputs that require grad.
        strict: raise where an output does not depend on an input, instead of giving zeros.
        vectorize: has no effect. torch can run all backwards at once; here they run one by one, with the same result.
        strategy: "reverse-mode" or "forward-mode". In forward mode torch runs the function once for each input
            element; here the result comes from backwards in both modes.

    Returns:
        A tensor whose shape is the shape of the output followed by that of the input. If ``inputs`` is a tuple, a tuple
        with one such tensor for each input. If ``func`` returns a tuple, a tuple with one of these results for each
        output.

    Raises:
        AssertionError: there is no such ``strategy``.
        TypeError: ``inputs`` or the results of ``func`` are not tensors.
        RuntimeError: with ``strict``, an output does not depend on an input.
    """
    _check_strategy("strategy", strategy)
    run = called("jacobian", func, inputs, create_graph, strict)
    table = []
    for index, output in enumerate(run.outputs):
        columns: list[list[Tensor | None]] = [[] for _ in run.inputs]
        for seed in _one_hot(output):
            found = gradients_of((output,), run.inputs, (seed,), create_graph=create_graph, retain_graph=True)
            for position, (column, gradient) in enumerate(zip(columns, found, strict=True)):
                if strict:
                    check_depends(gradient, f"output {index} of func", f"input {position}", live=create_graph)
                column.append(gradient)
        table.append(
            tuple(
                _stacked(column, output, input, create_graph=create_graph)
                for column, input in zip(columns, run.inputs, strict=True)
            )
        )
    rows = tuple(as_given(row, run.many_inputs) for row in table)
    return as_given(rows, run.many_outputs)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,  # noqa: ARG001
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one number as its output, by every pair of elements of its inputs.

    Args:
        func: takes the inputs as arguments and returns a tensor with a single element.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        create_graph: make the answer differentiable with respect to inputs that require grad.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.
        vectorize: as for ``jacobian``.
        outer_jacobian_strategy: as ``strategy`` there.

    Returns:
        A tensor whose shape is the shape of the input, twice. If ``inputs`` is a tuple, a tuple of tuples of tensors:
        the shape of ``[i][j]`` is the shape of input i followed by that of input j.

    Raises:
        AssertionError: there is no such strategy.
        TypeError: ``inputs`` or the results of ``func`` are not tensors.
        RuntimeError: ``func`` does not return a single element; or, with ``strict``, a dependence is missing.
    """
    _check_strategy("outer_jacobian_strategy", outer_jacobian_strategy)
    many, _ = as_tuple(inputs, "inputs", "hessian")

    def scalar(*point: Tensor) -> Tensor:
        many_outputs, outputs = as_tuple(func(*point), "outputs of func", "hessian")
        if strict:
            check_live(outputs, "output {} of func does not require grad")
        return single(outputs, many_outputs, "hessian").reshape(())

    def slope(*point: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = jacobian(scalar, point, create_graph=True)
        if strict:
            check_live(found, "the gradient of func with respect to input {} does not depend on the inputs")
        return found

    rows = jacobian(slope, inputs, create_graph=create_graph, strict=strict)
    return as_given(rows, many)


def _check_strategy(name: str, given: str) -> None:
    if given not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'{name} must be "reverse-mode" or "forward-mode", not {given!r}')


def _one_hot(like: Tensor) -> Iterator[Tensor]:
    """For each element of a tensor, a gradient that is 1 there and 0 elsewhere."""
    for element in range(like.numel()):
        raw = torch.zeros(like.numel(), dtype=like.dtype, device=like.device)
        raw[element] = 1
        yield tensor(raw.reshape(like.shape))


def _stacked(parts: list[Tensor | None], output: Tensor, input: Tensor, *, create_graph: bool) -> Tensor:
    """The gradients of all elements of ``output`` as one tensor, with their history if it is wanted."""
    shape = (*output.shape, *input.shape)
    live = create_graph and any(part is not None and part.requires_grad for part in parts)
    if not live:
        nothing = torch.zeros_like(input.data)
        raw = [nothing if part is None else part.data for part in parts]
        return tensor(torch.stack(raw).reshape(shape) if raw else nothing.new_zeros(shape))
    stacked: Tensor = _joined([zeros(input) if part is None else part for part in parts]).reshape(shape)
    return stacked


def _joined(parts: list[Tensor]) -> Tensor:
    """Tensors of one shape, stacked along a new first dimension; by halves, so that n of them cost n log n."""
    if len(parts) == 1:
        return parts[0].reshape(1, *parts[0].shape)
    half, shape = len(parts) // 2, (len(parts), *parts[0].shape)
    first = getitem_backward(_joined(parts[:half]), index=slice(half), shape=shape)
    rest = getitem_backward(_joined(parts[half:]), index=slice(half, None), shape=shape)
    both: Tensor = first + rest
    return both

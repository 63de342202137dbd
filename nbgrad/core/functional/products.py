"""Products of vectors with Jacobians and Hessians: ``vjp``, ``jvp``, ``vhp`` and ``hvp``, named as torch names them.

Each takes a function and the point at which to differentiate it, and returns tensors. With ``create_graph`` the results
can be differentiated again, so they nest to any order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch

from nbgrad.core.engine.state import enable_grad, restoring
from nbgrad.core.functional.grad import grad
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor, tensor

Tensors: TypeAlias = Tensor | tuple[Tensor, ...]
"""One tensor or a tuple of them, as a function takes or returns them."""

_Maybe: TypeAlias = tuple[Tensor | None, ...]


class _FunctionCall(NamedTuple):
    """One call of the user's function, and whether its inputs and outputs came as tuples."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    many_inputs: bool
    many_outputs: bool


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of a vector and the Jacobian of ``func``, in one backward.

    Args:
        func: takes the inputs as arguments and returns a tensor or a tuple of tensors.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        v: the vector, shaped as the outputs of ``func``; not needed if these are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where no output depends on an input, instead of giving zeros.

    Returns:
        ``(outputs, product)``: the outputs of ``func``, and the product, shaped as ``inputs``.

    Raises:
        TypeError: ``inputs``, ``v`` or the results of ``func`` are not tensors.
        RuntimeError: ``v`` is missing or has another shape; or, with ``strict``, a dependence is missing.
    """
    run = called("vjp", func, inputs, create_graph, strict)
    vector = _vector(v, run.outputs, "vjp", "outputs", create_graph=create_graph)
    found = gradients_of(run.outputs, run.inputs, vector, create_graph=create_graph)
    product = _filled(found, run.inputs, "the output of func", strict=strict, live=strict and create_graph)
    return _answer(run, product, run.many_inputs, create_graph=create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of the Jacobian of ``func`` and a vector: the slope of ``func`` in the direction ``v``.

    It is computed by a backward through a backward. The first backward multiplies the gradient of the outputs by the
    transposed Jacobian; the derivative of its result by that gradient, multiplied by ``v``, is the product.

    Args:
        func: takes the inputs as arguments and returns a tensor or a tuple of tensors.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        v: the vector, shaped as ``inputs``; not needed if these are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where an output depends on no input, instead of giving zeros.

    Returns:
        ``(outputs, product)``: the outputs of ``func``, and the product, shaped as the outputs.

    Raises:
        TypeError: ``inputs``, ``v`` or the results of ``func`` are not tensors.
        RuntimeError: ``v`` is missing or has another shape; or, with ``strict``, a dependence is missing.
    """
    run = called("jvp", func, inputs, create_graph, strict)
    vector = _vector(v, run.inputs, "jvp", "inputs", create_graph=create_graph)
    seeds = tuple(zeros(output, requires_grad=True) for output in run.outputs)
    gradients = gradients_of(run.outputs, run.inputs, seeds, create_graph=True)
    if strict:
        for position, gradient in enumerate(gradients):
            check_depends(gradient, "the output of func", f"input {position}", live=True)
    found = gradients_of(gradients, seeds, vector, create_graph=create_graph)
    product = _filled(found, run.outputs, "the gradient of the inputs", strict=strict, live=strict and create_graph)
    return _answer(run, product, run.many_outputs, create_graph=create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of a vector and the Hessian of ``func``, without making the Hessian: two backwards.

    Args:
        func: takes the inputs as arguments and returns a tensor with a single element.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        v: the vector, shaped as ``inputs``; not needed if these are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.

    Returns:
        ``(output, product)``: the output of ``func``, and the product, shaped as ``inputs``.

    Raises:
        TypeError: ``inputs``, ``v`` or the results of ``func`` are not tensors.
        RuntimeError: ``func`` does not return a single element, ``v`` is missing or has another shape; or, with
            ``strict``, a dependence is missing.
    """
    run, slopes, vector = _slopes("vhp", func, inputs, v, create_graph, strict)
    found = gradients_of(slopes, run.inputs, vector, create_graph=create_graph)
    product = _filled(found, run.inputs, "the gradient of func", strict=strict, live=strict and create_graph)
    return _answer(run, product, run.many_inputs, create_graph=create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of the Hessian of ``func`` and a vector, without making the Hessian: three backwards.

    If the second derivatives are continuous, the Hessian is symmetric. Then ``vhp`` gives the same result in two
    backwards.

    It has the arguments, the results and the errors of ``vhp``.
    """
    run, slopes, vector = _slopes("hvp", func, inputs, v, create_graph, strict)
    seeds = tuple(zeros(input, requires_grad=True) for input in run.inputs)
    twice = gradients_of(slopes, run.inputs, seeds, create_graph=True)
    found = gradients_of(twice, seeds, vector, create_graph=create_graph)
    product = _filled(found, run.inputs, "the Hessian of func", strict=strict, live=strict and create_graph)
    return _answer(run, product, run.many_inputs, create_graph=create_graph)


# Shared parts.


@restoring
def called(name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool) -> _FunctionCall:
    """Call ``func`` on fresh tensors, so that a tensor it captured is told apart from the same one as an input."""
    many_inputs, given = as_tuple(inputs, "inputs", name)
    with enable_grad():
        point = _fresh(given, create_graph=create_graph, requires_grad=True)
        many_outputs, outputs = as_tuple(func(*point), "outputs of func", name)
    if strict:
        check_live(outputs, "output {} of func does not require grad")
    return _FunctionCall(point, outputs, many_inputs, many_outputs)


def _slopes(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[_FunctionCall, _Maybe, tuple[Tensor | None, ...]]:
    """The first part of the products with a Hessian: the call, the gradient of its one number, and the vector."""
    run = called(name, func, inputs, create_graph, strict)
    vector = _vector(v, run.inputs, name, "inputs", create_graph=create_graph)
    output = single(run.outputs, run.many_outputs, name)
    slopes = gradients_of((output,), run.inputs, (None,), create_graph=True)
    if strict:
        for position, slope in enumerate(slopes):
            check_depends(slope, "the output of func", f"input {position}", live=True)
    return run, slopes, vector


def as_tuple(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for index, part in enumerate(values):
        if not isinstance(part, Tensor):
            which = f"its element {index} is" if many else "it is"
            raise TypeError(
                f"{name}(): the {what} must be a Tensor or a tuple of Tensors, but {which} {kind_of(part)}: "
                "make a Tensor with nbgrad.tensor(...), and bind other arguments with a lambda"
            )
    return many, values


def as_given(values: tuple[Any, ...], many: bool) -> Any:
    return values if many else values[0]


def _fresh(given: tuple[Tensor, ...], *, create_graph: bool, requires_grad: bool) -> tuple[Tensor, ...]:
    """New tensors on the same memory. With ``create_graph`` a reshape keeps the history of those that have one."""
    return tuple(
        part.reshape(tuple(part.shape))
        if create_graph and part.requires_grad
        else tensor(part, requires_grad=requires_grad)
        for part in given
    )


def zeros(like: Tensor, *, requires_grad: bool = False) -> Tensor:
    return tensor(torch.zeros_like(like.data), requires_grad=requires_grad)


def gradients_of(
    outputs: _Maybe,
    inputs: tuple[Tensor, ...],
    seeds: _Maybe,
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> _Maybe:
    """``grad`` of the outputs that have a gradient; None for an input that no output depends on."""
    ends = [(out, seed) for out, seed in zip(outputs, seeds, strict=True) if out is not None and out.requires_grad]
    if not ends:
        return (None,) * len(inputs)
    return grad(
        [out for out, _ in ends],
        inputs,
        [seed for _, seed in ends],
        create_graph=create_graph,
        retain_graph=retain_graph,
        allow_unused=True,
    )


def _filled(found: _Maybe, like: tuple[Tensor, ...], what: str, *, strict: bool, live: bool) -> tuple[Tensor, ...]:
    """Zeros where nothing depends on an input, or with ``strict`` an error."""
    if strict:
        for position, gradient in enumerate(found):
            check_depends(gradient, what, f"entry {position}", live=live)
    return tuple(zeros(part) if gradient is None else gradient for gradient, part in zip(found, like, strict=True))


def _answer(run: _FunctionCall, product: tuple[Tensor, ...], many: bool, *, create_graph: bool) -> tuple[Any, Any]:
    outputs = run.outputs
    if not create_graph:
        outputs = tuple(part.detach() for part in outputs)
        product = tuple(part.detach() for part in product)
    return as_given(outputs, run.many_outputs), as_given(product, many)


def single(outputs: tuple[Tensor, ...], many: bool, name: str) -> Tensor:
    if many:
        raise RuntimeError(f"{name}(): func must return one tensor, not a tuple: return the one to differentiate")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"{name}(): func must return a single element, but returned shape {tuple(outputs[0].shape)}: reduce it "
            "first, as in y.sum()"
        )
    return outputs[0]


def _vector(v: Any, like: tuple[Tensor, ...], name: str, what: str, *, create_graph: bool) -> _Maybe:
    """``v`` checked against what it must be shaped as; None where a single element makes it 1."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            shapes = ", ".join(str(tuple(part.shape)) for part in like)
            raise RuntimeError(f"{name}(): v may only be left out for a single element; pass v shaped {shapes}")
        return (tensor(torch.ones_like(like[0].data)),)
    _, given = as_tuple(v, "v", name)
    if len(given) != len(like):
        raise RuntimeError(f"{name}(): v has {len(given)} tensors, but the {what} are {len(like)}: give one for each")
    for index, (part, other) in enumerate(zip(given, like, strict=True)):
        if part.shape != other.shape:
            raise RuntimeError(
                f"{name}(): v[{index}] has shape {tuple(part.shape)}, but must be shaped as the {what}: "
                f"{tuple(other.shape)}"
            )
    return _fresh(given, create_graph=create_graph, requires_grad=False)


def check_live(tensors: tuple[Tensor, ...], text: str) -> None:
    for index, part in enumerate(tensors):
        if not part.requires_grad:
            raise RuntimeError(f"strict: {text.format(index)}; without strict=True it counts as a constant")


def check_depends(gradient: Tensor | None, what: str, on: str, *, live: bool) -> None:
    """With ``strict``: an error for a gradient that is missing, or that is constant and must be differentiated."""
    if gradient is None:
        raise RuntimeError(f"strict: {what} does not depend on {on}; without strict=True its derivative is zeros")
    if live and not gradient.requires_grad:
        raise RuntimeError(
            f"strict: the derivative of {what} by {on} is a constant and cannot be differentiated again; without "
            "strict=True its own derivative is zeros"
        )

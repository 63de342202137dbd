"""Derivatives of functions: what ``torch.autograd.functional`` has, under its names.

Each takes a function and the point to differentiate it at, and gives tensors. With ``create_graph`` the answers can be
differentiated again, so they nest to any order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch

from nbgrad.core.grad import grad
from nbgrad.core.modes import enable_grad
from nbgrad.core.ops.indexing import getitem_backward
from nbgrad.core.tensor import Tensor, tensor

Tensors: TypeAlias = Tensor | tuple[Tensor, ...]
"""One tensor or a tuple of them, as a function takes or returns them."""

_Maybe: TypeAlias = tuple[Tensor | None, ...]


class _Run(NamedTuple):
    """One call of the user's function, and whether its inputs and outputs came as tuples."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    many_inputs: bool
    many_outputs: bool


def jacobian(func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False) -> Any:
    """The derivative of every element of every output of ``func`` by every element of every input.

    It runs one backward for each element of the outputs.

    Args:
        func: takes the inputs as arguments and returns a tensor or a tuple of tensors.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        create_graph: make the answer differentiable with respect to inputs that require grad.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Returns:
        A tensor whose shape is the output's followed by the input's. Where ``inputs`` is a tuple, a tuple with one for
        each input; where ``func`` returns a tuple, a tuple of that for each output.

    Raises:
        TypeError: ``inputs`` or what ``func`` returns are no tensors.
        RuntimeError: with ``strict``, an output does not depend on an input.
    """
    run = _run("jacobian", func, inputs, create_graph, strict)
    table = []
    for index, output in enumerate(run.outputs):
        columns: list[list[Tensor | None]] = [[] for _ in run.inputs]
        for seed in _one_hot(output):
            found = _grad((output,), run.inputs, (seed,), create_graph=create_graph, retain_graph=True)
            for position, (column, gradient) in enumerate(zip(columns, found, strict=True)):
                if strict:
                    _check_depends(gradient, f"output {index} of func", f"input {position}", live=create_graph)
                column.append(gradient)
        table.append(
            tuple(
                _stacked(column, output, input, create_graph=create_graph)
                for column, input in zip(columns, run.inputs, strict=True)
            )
        )
    rows = tuple(_as_given(row, run.many_inputs) for row in table)
    return _as_given(rows, run.many_outputs)


def hessian(func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False) -> Any:
    """The second derivatives of a function with one number as its output, by every pair of elements of its inputs.

    Args:
        func: takes the inputs as arguments and returns a tensor with a single element.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        create_graph: make the answer differentiable with respect to inputs that require grad.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.

    Returns:
        A tensor whose shape is the input's twice; where ``inputs`` is a tuple, a tuple of tuples of them, ``[i][j]`` in
        the shape of input i followed by that of input j.

    Raises:
        TypeError: ``inputs`` or what ``func`` returns are no tensors.
        RuntimeError: ``func`` does not return a single element; or, with ``strict``, a dependence is missing.
    """
    many, _ = _as_tuple(inputs, "inputs", "hessian")

    def scalar(*point: Tensor) -> Tensor:
        many_outputs, outputs = _as_tuple(func(*point), "outputs of func", "hessian")
        if strict:
            _check_live(outputs, "output {} of func does not require grad")
        return _single(outputs, many_outputs, "hessian").reshape(())

    def slope(*point: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = jacobian(scalar, point, create_graph=True)
        if strict:
            _check_live(found, "the gradient of func with respect to input {} does not depend on the inputs")
        return found

    rows = jacobian(slope, inputs, create_graph=create_graph, strict=strict)
    return _as_given(rows, many)


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
        v: the vector, shaped as the outputs of ``func``; not needed where they are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where no output depends on an input, instead of giving zeros.

    Returns:
        ``(outputs, product)``: what ``func`` returned, and the product, shaped as ``inputs``.

    Raises:
        TypeError: ``inputs``, ``v`` or what ``func`` returns are no tensors.
        RuntimeError: ``v`` is missing or has another shape; or, with ``strict``, a dependence is missing.
    """
    run = _run("vjp", func, inputs, create_graph, strict)
    vector = _vector(v, run.outputs, "vjp", "outputs", create_graph=create_graph)
    found = _grad(run.outputs, run.inputs, vector, create_graph=create_graph)
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

    It is a backward through a backward: the gradient of the inputs is linear in the gradient of the outputs, and the
    derivative of the one by the other is the transposed Jacobian.

    Args:
        func: takes the inputs as arguments and returns a tensor or a tuple of tensors.
        inputs: the point to differentiate at, a tensor or a tuple of tensors.
        v: the vector, shaped as ``inputs``; not needed where they are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where an output depends on no input, instead of giving zeros.

    Returns:
        ``(outputs, product)``: what ``func`` returned, and the product, shaped as that.

    Raises:
        TypeError: ``inputs``, ``v`` or what ``func`` returns are no tensors.
        RuntimeError: ``v`` is missing or has another shape; or, with ``strict``, a dependence is missing.
    """
    run = _run("jvp", func, inputs, create_graph, strict)
    vector = _vector(v, run.inputs, "jvp", "inputs", create_graph=create_graph)
    seeds = tuple(_zeros(output, requires_grad=True) for output in run.outputs)
    gradients = _grad(run.outputs, run.inputs, seeds, create_graph=True)
    if strict:
        for position, gradient in enumerate(gradients):
            _check_depends(gradient, "the output of func", f"input {position}", live=True)
    found = _grad(gradients, seeds, vector, create_graph=create_graph)
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
        v: the vector, shaped as ``inputs``; not needed where they are a single element.
        create_graph: make output and answer differentiable.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.

    Returns:
        ``(output, product)``: what ``func`` returned, and the product, shaped as ``inputs``.

    Raises:
        TypeError: ``inputs``, ``v`` or what ``func`` returns are no tensors.
        RuntimeError: ``func`` does not return a single element, ``v`` is missing or has another shape; or, with
            ``strict``, a dependence is missing.
    """
    run, slopes, vector = _slopes("vhp", func, inputs, v, create_graph, strict)
    found = _grad(slopes, run.inputs, vector, create_graph=create_graph)
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

    Where the second derivatives are continuous the Hessian is symmetric, and ``vhp`` gives the same for less.

    Arguments, what it returns and what it raises are those of ``vhp``.
    """
    run, slopes, vector = _slopes("hvp", func, inputs, v, create_graph, strict)
    seeds = tuple(_zeros(input, requires_grad=True) for input in run.inputs)
    twice = _grad(slopes, run.inputs, seeds, create_graph=True)
    found = _grad(twice, seeds, vector, create_graph=create_graph)
    product = _filled(found, run.inputs, "the Hessian of func", strict=strict, live=strict and create_graph)
    return _answer(run, product, run.many_inputs, create_graph=create_graph)


# What they share.


def _run(name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool) -> _Run:
    """Call ``func`` on fresh tensors, so that a tensor it captured is told apart from the same one as an input."""
    many_inputs, given = _as_tuple(inputs, "inputs", name)
    with enable_grad():
        point = _fresh(given, create_graph=create_graph, requires_grad=True)
        many_outputs, outputs = _as_tuple(func(*point), "outputs of func", name)
    if strict:
        _check_live(outputs, "output {} of func does not require grad")
    return _Run(point, outputs, many_inputs, many_outputs)


def _slopes(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[_Run, _Maybe, tuple[Tensor | None, ...]]:
    """What the products with a Hessian begin with: the call, the gradient of its one number, and the vector."""
    run = _run(name, func, inputs, create_graph, strict)
    vector = _vector(v, run.inputs, name, "inputs", create_graph=create_graph)
    output = _single(run.outputs, run.many_outputs, name)
    slopes = _grad((output,), run.inputs, (None,), create_graph=True)
    if strict:
        for position, slope in enumerate(slopes):
            _check_depends(slope, "the output of func", f"input {position}", live=True)
    return run, slopes, vector


def _as_tuple(value: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for index, part in enumerate(values):
        if not isinstance(part, Tensor):
            which = f"its element {index} is" if many else "it is"
            raise TypeError(
                f"{name}(): the {what} must be a Tensor or a tuple of Tensors, but {which} {type(part).__name__}: "
                "make a Tensor with nbgrad.tensor(...), and bind other arguments with a lambda"
            )
    return many, values


def _as_given(values: tuple[Any, ...], many: bool) -> Any:
    return values if many else values[0]


def _fresh(given: tuple[Tensor, ...], *, create_graph: bool, requires_grad: bool) -> tuple[Tensor, ...]:
    """New tensors on the same memory: with ``create_graph`` those with a history keep it, through a reshape."""
    return tuple(
        part.reshape(tuple(part.shape))
        if create_graph and part.requires_grad
        else tensor(part, requires_grad=requires_grad)
        for part in given
    )


def _zeros(like: Tensor, *, requires_grad: bool = False) -> Tensor:
    return tensor(torch.zeros_like(like.data), requires_grad=requires_grad)


def _one_hot(like: Tensor) -> Any:
    """For each element of a tensor, a gradient that is 1 there and 0 elsewhere."""
    for element in range(like.numel()):
        raw = torch.zeros(like.numel(), dtype=like.dtype, device=like.device)
        raw[element] = 1
        yield tensor(raw.reshape(like.shape))


def _grad(
    outputs: _Maybe,
    inputs: tuple[Tensor, ...],
    seeds: _Maybe,
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> _Maybe:
    """``grad`` of those outputs that have a gradient; None for what nothing depends on."""
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


def _stacked(parts: list[Tensor | None], output: Tensor, input: Tensor, *, create_graph: bool) -> Tensor:
    """The gradients of all elements of ``output`` as one tensor, with their history if it is wanted."""
    shape = (*output.shape, *input.shape)
    live = create_graph and any(part is not None and part.requires_grad for part in parts)
    if not live:
        zeros = torch.zeros_like(input.data)
        raw = [zeros if part is None else part.data for part in parts]
        return tensor(torch.stack(raw).reshape(shape) if raw else zeros.new_zeros(shape))
    stacked: Tensor = _joined([_zeros(input) if part is None else part for part in parts]).reshape(shape)
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


def _filled(found: _Maybe, like: tuple[Tensor, ...], what: str, *, strict: bool, live: bool) -> tuple[Tensor, ...]:
    """Zeros where nothing depends on an input, or with ``strict`` an error."""
    if strict:
        for position, gradient in enumerate(found):
            _check_depends(gradient, what, f"entry {position}", live=live)
    return tuple(_zeros(part) if gradient is None else gradient for gradient, part in zip(found, like, strict=True))


def _answer(run: _Run, product: tuple[Tensor, ...], many: bool, *, create_graph: bool) -> tuple[Any, Any]:
    outputs = run.outputs
    if not create_graph:
        outputs = tuple(part.detach() for part in outputs)
        product = tuple(part.detach() for part in product)
    return _as_given(outputs, run.many_outputs), _as_given(product, many)


def _single(outputs: tuple[Tensor, ...], many: bool, name: str) -> Tensor:
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
    _, given = _as_tuple(v, "v", name)
    if len(given) != len(like):
        raise RuntimeError(f"{name}(): v has {len(given)} tensors, but the {what} are {len(like)}: give one for each")
    for index, (part, other) in enumerate(zip(given, like, strict=True)):
        if part.shape != other.shape:
            raise RuntimeError(
                f"{name}(): v[{index}] has shape {tuple(part.shape)}, but must be shaped as the {what}: "
                f"{tuple(other.shape)}"
            )
    return _fresh(given, create_graph=create_graph, requires_grad=False)


def _check_live(tensors: tuple[Tensor, ...], text: str) -> None:
    for index, part in enumerate(tensors):
        if not part.requires_grad:
            raise RuntimeError(f"strict: {text.format(index)}; without strict=True it counts as a constant")


def _check_depends(gradient: Tensor | None, what: str, on: str, *, live: bool) -> None:
    """With ``strict``: an error for a gradient that is missing, or constant where it is to be differentiated again."""
    if gradient is None:
        raise RuntimeError(f"strict: {what} does not depend on {on}; without strict=True its derivative is zeros")
    if live and not gradient.requires_grad:
        raise RuntimeError(
            f"strict: the derivative of {what} by {on} is a constant and cannot be differentiated again; without "
            "strict=True its own derivative is zeros"
        )

"""One function for each library: how it differentiates a program that is written in operators and ``sum()``.

Each gets the program, ``loss(*tensors)``, and the numbers to begin with. It returns two functions, the forward and the
backward. The backward takes what the forward returns, and returns the gradients.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import Contender

Arrays = list[np.ndarray[Any, Any]]
Halves = tuple[Callable[[], Any], Callable[[Any], Any]]
Loss = Callable[..., Any]


def _like_torch(library: Any, loss: Loss, arrays: Arrays) -> Halves:
    leaves = [library.tensor(array, requires_grad=True) for array in arrays]

    def forward() -> Any:
        for leaf in leaves:
            leaf.grad = None
        return loss(*leaves)

    def backward(total: Any) -> Any:
        total.backward()
        return [leaf.grad for leaf in leaves]

    return forward, backward


def torch(loss: Loss, arrays: Arrays) -> Halves:
    """The reference."""
    import torch as library

    return _like_torch(library, loss, arrays)


def nbgrad(loss: Loss, arrays: Arrays) -> Halves:
    """This project."""
    import nbgrad as library

    return _like_torch(library, loss, arrays)


def autograd(loss: Loss, arrays: Arrays) -> Halves:
    """HIPS autograd: numpy."""
    from autograd import make_vjp

    def forward() -> Any:
        return make_vjp(loss, argnum=tuple(range(len(arrays))))(*arrays)[0]

    return forward, lambda vjp: vjp(arrays[0].dtype.type(1))


def mygrad(loss: Loss, arrays: Arrays) -> Halves:
    """MyGrad: numpy."""
    import mygrad as library

    leaves = [library.tensor(array) for array in arrays]

    def backward(total: Any) -> Any:
        total.backward()
        return [leaf.grad for leaf in leaves]

    return lambda: loss(*leaves), backward


def jax() -> Any:
    """Jax with float64: without this setting it would turn float64 into float32."""
    import jax as library

    library.config.update("jax_enable_x64", True)
    return library


def jax_eager(loss: Loss, arrays: Arrays) -> Halves:
    """Jax, op by op."""
    library = jax()
    inputs = [library.numpy.asarray(array) for array in arrays]

    def forward() -> Any:
        return library.vjp(loss, *inputs)

    def backward(both: Any) -> Any:
        total, vjp = both
        return library.block_until_ready(vjp(library.numpy.ones_like(total)))

    return forward, backward


def jax_jit(loss: Loss, arrays: Arrays) -> Halves:
    """Jax, forward and backward compiled to one program. The second half runs all of it, the first half nothing.

    The program returns the loss too. Without the loss XLA would leave out the forward wherever no gradient needs it.
    """
    library = jax()
    inputs = [library.numpy.asarray(array) for array in arrays]
    compiled = library.jit(library.value_and_grad(loss, argnums=tuple(range(len(arrays)))))
    return lambda: None, lambda _: library.block_until_ready(compiled(*inputs))[1]


def tinygrad(loss: Loss, arrays: Arrays) -> Halves:
    """Tinygrad. It is lazy, so the second half runs the forward too. On a CPU it compiles with clang."""
    from tinygrad import Device, Tensor

    leaves = [Tensor(array) for array in arrays]

    def backward(total: Any) -> Any:
        gradients = total.gradient(*leaves)
        Tensor.realize(total, *gradients)  # without the loss it would leave out what no gradient needs
        Device[Device.DEFAULT].synchronize()
        return gradients

    return lambda: loss(*leaves), backward


def micrograd(loss: Loss, arrays: Arrays) -> Halves:
    """micrograd: one Python object for each number, so ``loss`` is run for each element of the arrays."""
    from micrograd.engine import Value

    leaves = [[Value(float(number)) for number in array] for array in arrays]

    def forward() -> Any:
        for leaf in leaves:
            for value in leaf:
                value.grad = 0
        return sum((loss(*values) for values in zip(*leaves, strict=True)), Value(0.0))

    def backward(total: Any) -> Any:
        total.backward()
        return [np.array([value.grad for value in leaf]) for leaf in leaves]

    return forward, backward


ALL = {
    "torch": torch,
    "nbgrad": nbgrad,
    "autograd": autograd,
    "mygrad": mygrad,
    "jax": jax_eager,
    "jax.jit": jax_jit,
    "tinygrad": tinygrad,
}
"""All that take whole arrays."""


def whole(make: Callable[[Loss, Arrays], Halves], loss: Loss, arrays: Arrays) -> Contender:
    """A contender that times the forward and the backward."""
    forward, backward = make(loss, arrays)
    return Contender(lambda _: backward(forward()))


def backward_alone(make: Callable[[Loss, Arrays], Halves], loss: Loss, arrays: Arrays) -> Contender:
    """A contender that times only the backward: the forward runs before."""
    forward, backward = make(loss, arrays)
    return Contender(backward, forward)

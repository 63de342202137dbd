"""A whole training step of a network 784-256-128-10 on a batch of 64, one small function for each library."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import libraries
from benchmarks.case import Case
from benchmarks.chains import SCALARS
from benchmarks.timing import Contender

SIZES = (784, 256, 128, 10)
BATCH = 64
RATE = 0.01

Numbers = np.ndarray[Any, Any]


def data() -> tuple[Numbers, Numbers]:
    """A batch and its classes."""
    random = np.random.default_rng(0)
    return random.standard_normal((BATCH, SIZES[0])).astype("float32"), random.integers(0, SIZES[-1], BATCH)


def weights() -> list[Numbers]:
    """Weight (out, in) and bias of each layer."""
    random = np.random.default_rng(1)
    made = []
    for before, after in pairwise(SIZES):
        made.append((random.standard_normal((after, before)) / before**0.5).astype("float32"))
        made.append(np.zeros(after, "float32"))
    return made


MLP = Case("mlp", "MLP 784-256-128-10, batch 64: zero_grad, forward, cross entropy, backward, SGD step")


def like_torch(library: Any) -> Callable[[], Any]:
    """The step in torch's words, which are nbgrad's too."""
    import torch

    nn = library.nn
    model = nn.Sequential(
        nn.Linear(SIZES[0], SIZES[1]),
        nn.ReLU(),
        nn.Linear(SIZES[1], SIZES[2]),
        nn.ReLU(),
        nn.Linear(SIZES[2], SIZES[3]),
    )
    for parameter, numbers in zip(model.parameters(), weights(), strict=True):
        parameter.data = torch.from_numpy(numbers).to(parameter.device)
    optimizer = library.optim.SGD(model.parameters(), lr=RATE)
    x, target = map(library.tensor, data())

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


@MLP.contender("torch")
def _() -> Contender:
    import torch

    step = like_torch(torch)
    return Contender(lambda _: step())


@MLP.contender("nbgrad")
def _() -> Contender:
    import nbgrad

    step = like_torch(nbgrad)
    return Contender(lambda _: step())


def of_numpy(np: Any, parameters: Any, x: Any, target: Any) -> Any:
    """The loss in the words of numpy, which are autograd's and jax's too."""
    for layer in range(0, len(parameters), 2):
        x = np.maximum(x, 0) if layer else x
        x = x @ parameters[layer].T + parameters[layer + 1]
    x = x - np.max(x, axis=1, keepdims=True)
    picked = x[np.arange(BATCH), target]
    return np.mean(np.log(np.sum(np.exp(x), axis=1)) - picked)


@MLP.contender("autograd")
def _() -> Contender:
    import autograd.numpy
    from autograd import value_and_grad

    parameters, (x, target) = weights(), data()
    differentiated = value_and_grad(lambda given: of_numpy(autograd.numpy, given, x, target))

    def step(_: Any) -> Any:
        loss, gradients = differentiated(parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= RATE * gradient
        return loss

    return Contender(step)


@MLP.contender("mygrad")
def _() -> Contender:
    import mygrad
    from mygrad.nnet.activations import relu
    from mygrad.nnet.losses import softmax_crossentropy

    parameters, (x, target) = [mygrad.tensor(numbers) for numbers in weights()], data()

    def step(_: Any) -> Any:
        y = x
        for layer in range(0, len(parameters), 2):
            y = relu(y) if layer else y
            y = mygrad.matmul(y, parameters[layer].T) + parameters[layer + 1]
        loss = softmax_crossentropy(y, target)
        loss.backward()
        for parameter in parameters:
            parameter.data -= RATE * parameter.grad
        return loss

    return Contender(step)


def jax_step() -> tuple[Callable[..., Any], Any]:
    """The step as a function of the parameters, and the parameters."""
    jax = libraries.jax()
    x, target = map(jax.numpy.asarray, data())
    loss = jax.value_and_grad(lambda given: of_numpy(jax.numpy, given, x, target))

    def step(parameters: Any) -> Any:
        value, gradients = loss(parameters)
        return value, [parameter - RATE * gradient for parameter, gradient in zip(parameters, gradients, strict=True)]

    return step, [jax.numpy.asarray(numbers) for numbers in weights()]


def stepping(step: Callable[..., Any], parameters: Any) -> Contender:
    """Each call starts from the parameters of the call before, and waits until everything is computed."""
    jax = libraries.jax()
    held = [parameters]

    def run(_: Any) -> Any:
        loss, held[0] = jax.block_until_ready(step(held[0]))
        return loss

    return Contender(run)


@MLP.contender("jax")
def _() -> Contender:
    return stepping(*jax_step())


@MLP.contender("jax.jit")
def _() -> Contender:
    step, parameters = jax_step()
    return stepping(libraries.jax().jit(step), parameters)


@MLP.contender("tinygrad")
def _() -> Contender:
    from tinygrad import Device, Tensor
    from tinygrad.helpers import Context
    from tinygrad.nn.optim import SGD

    parameters = [Tensor(numbers) for numbers in weights()]
    x, target = (Tensor(numbers.astype(kind)) for numbers, kind in zip(data(), ("float32", "int32"), strict=True))
    optimizer = SGD(parameters, lr=RATE)

    def step(_: Any) -> Any:
        y = x
        for layer in range(0, len(parameters), 2):
            y = y.relu() if layer else y
            y = y.linear(parameters[layer].transpose(), parameters[layer + 1])
        loss = y.sparse_categorical_crossentropy(target)
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss.backward()
            Tensor.realize(loss, *optimizer.schedule_step())
        Device[Device.DEFAULT].synchronize()
        return loss

    return Contender(step)


MLP.absent["micrograd"] = SCALARS.format(BATCH * sum(a * b for a, b in pairwise(SIZES)))

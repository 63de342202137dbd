"""The networks of the programs in jax's words: a whole training step, compiled by ``jax.jit``.

The parameters are those of the network in torch's words, by the same names, and so are the data.
"""

from collections.abc import Callable
from typing import Any

from benchmarks import libraries, mlp, networks
from benchmarks.timing import Contender

HEADS = 4
EPSILON = 1e-5  # what torch's layer normalization adds to the variance


def linear(p: Any, name: str, x: Any) -> Any:
    """``x`` (..., in) times the weight (out, in), and the bias."""
    return x @ p[f"{name}weight"].T + p[f"{name}bias"]


def cross_entropy(scores: Any, target: Any) -> Any:
    """The mean loss of scores (batch, classes)."""
    import jax

    picked = jax.numpy.take_along_axis(jax.nn.log_softmax(scores), target[:, None], 1)
    return -picked.mean()


def perceptron(p: Any, x: Any, target: Any) -> Any:
    """Three linear layers."""
    import jax

    for name in ("0.", "2."):
        x = jax.nn.relu(linear(p, name, x))
    return cross_entropy(linear(p, "4.", x), target)


def cnn(p: Any, x: Any, target: Any) -> Any:
    """Two convolutions with pooling, and a linear layer."""
    import jax

    for name in ("0.", "3."):
        x = jax.lax.conv_general_dilated(x, p[f"{name}weight"], (1, 1), ((1, 1), (1, 1)))
        x = jax.nn.relu(x + p[f"{name}bias"][:, None, None])
        x = jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return cross_entropy(linear(p, "7.", x.reshape(len(x), -1)), target)


def normalized(p: Any, name: str, x: Any) -> Any:
    """Layer normalization over the last dimension."""
    import jax

    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return scaled * p[f"{name}weight"] + p[f"{name}bias"]


def transformer(p: Any, x: Any) -> Any:
    """Two encoder layers; the loss is the mean square of what they return."""
    import jax

    batch, steps, width = x.shape
    for name in ("layers.0.", "layers.1."):
        joint = x @ p[f"{name}self_attn.in_proj_weight"].T + p[f"{name}self_attn.in_proj_bias"]
        q, k, v = joint.reshape(batch, steps, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
        found = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (width // HEADS) ** 0.5) @ v
        found = found.transpose(0, 2, 1, 3).reshape(batch, steps, width)
        x = normalized(p, f"{name}norm1.", x + linear(p, f"{name}self_attn.out_proj.", found))
        hidden = jax.nn.relu(linear(p, f"{name}linear1.", x))
        x = normalized(p, f"{name}norm2.", x + linear(p, f"{name}linear2.", hidden))
    return (x**2).mean()


def lstm(p: Any, x: Any) -> Any:
    """Two recurrent layers, each a ``scan``; the loss is the mean square of what they return."""
    import jax

    for layer in range(2):
        recurrent = p[f"weight_hh_l{layer}"].T
        entered = x @ p[f"weight_ih_l{layer}"].T + p[f"bias_ih_l{layer}"] + p[f"bias_hh_l{layer}"]

        def step(state: Any, given: Any, recurrent: Any = recurrent) -> Any:
            h, c = state
            i, f, g, o = jax.numpy.split(given + h @ recurrent, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
            h = jax.nn.sigmoid(o) * jax.numpy.tanh(c)
            return (h, c), h

        zeros = jax.numpy.zeros((x.shape[1], recurrent.shape[0]), x.dtype)
        _, x = jax.lax.scan(step, (zeros, zeros), entered)
    return (x**2).mean()


def descended(rate: float) -> tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]:
    """Plain gradient descent: a function that makes its state, and one that updates the parameters and the state."""
    import jax

    return lambda _: None, lambda p, g, state: (jax.tree.map(lambda p, g: p - rate * g, p, g), state)


def adam(rate: float) -> tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]:
    """Adam, as torch writes it."""
    import jax

    def state_of(p: Any) -> Any:
        zeros = jax.tree.map(jax.numpy.zeros_like, p)
        return zeros, jax.tree.map(jax.numpy.copy, zeros), jax.numpy.zeros((), "float32")

    def update(p: Any, g: Any, state: Any) -> Any:
        m, v, count = state
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        first, second = 1 - 0.9**count, 1 - 0.999**count
        moved = jax.tree.map(lambda p, m, v: p - rate * (m / first) / ((v / second) ** 0.5 + 1e-8), p, m, v)
        return moved, (m, v, count)

    return state_of, update


def step_of(
    make: Callable[[Any], networks.Step], loss: Callable[..., Any], arrays: Callable[[], list[Any]], optimizer: Any
) -> Contender:
    """A step of the network in jax. Its parameters are those of the torch network that ``make`` makes."""
    import torch

    jax = libraries.jax()
    # Each step has its own copy: jax reuses the memory of the old parameters for the new ones.
    held = {name: jax.numpy.array(value.numpy()) for name, value in make(torch).model.state_dict().items()}
    data = [jax.numpy.asarray(array) for array in arrays()]
    state_of, update = optimizer

    def step(p: Any, state: Any) -> Any:
        total, gradients = jax.value_and_grad(loss)(p, *data)
        return (total, *update(p, gradients, state))

    compiled = jax.jit(step, donate_argnums=(0, 1))
    kept = [held, state_of(held)]

    def run() -> Any:
        total, *kept[:] = jax.block_until_ready(compiled(*kept))
        return total

    return Contender(lambda _: run())


def pictures() -> list[Any]:
    """The data of the CNN."""
    import torch

    return [networks.drawn(torch, 32, 1, 28, 28).numpy(), networks.classes(torch, 10, 32).numpy()]


def sequences(*shape: int) -> Callable[[], list[Any]]:
    """Data of that shape."""
    import torch

    return lambda: [networks.drawn(torch, *shape).numpy()]


LOSSES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "program-mlp": (perceptron, lambda: list(mlp.data())),
    "program-mlp-adam": (perceptron, lambda: list(mlp.data())),
    "program-cnn": (cnn, pictures),
    "program-transformer": (transformer, sequences(8, 64, 128)),
    "program-transformer-adam": (transformer, sequences(8, 64, 128)),
    "program-lstm": (lstm, sequences(100, 16, 128)),
}


def contender(name: str, make: Callable[[Any], networks.Step]) -> Contender:
    """The step in jax for a case of benchmarks/programs.py."""
    loss, arrays = LOSSES[name]
    optimizer = adam(mlp.RATE) if name.endswith("adam") else descended(networks.RATE)
    return step_of(make, loss, arrays, optimizer)

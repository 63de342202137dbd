"""Many small ops: what one costs beside the arithmetic."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks import libraries
from benchmarks.case import Case


def drawn(*shape: int, dtype: str = "float32", around: float = 0.0) -> np.ndarray[Any, Any]:
    """Small random numbers, the same ones each time."""
    return (np.random.default_rng(0).standard_normal(shape) * 0.01 + around).astype(dtype)


SCALARS = "one Python object for each number: this case has {:,} of them"

# 200 elementwise ops on 16 floats


def arithmetic(a: Any, b: Any) -> Any:
    """200 products, sums and differences, of tensors or of numbers."""
    y = a
    for _ in range(50):
        y = (y * a + b) * a - b
    return y


def summed_arithmetic(a: Any, b: Any) -> Any:
    """The same with one number as the result."""
    return arithmetic(a, b).sum()


SMALL = Case("small", "200 elementwise ops on 16 floats, forward and backward", ops=200, per="op")
for name, make in libraries.ALL.items():
    inputs = [drawn(16, around=1.0), drawn(16)]
    SMALL.contenders[name] = partial(libraries.whole, make, summed_arithmetic, inputs)
SMALL.contenders["micrograd"] = partial(libraries.whole, libraries.micrograd, arithmetic, inputs)

# 200 ops (64, 1) + (1, 64)


def outer_sums(a: Any, b: Any) -> Any:
    """200 sums of broadcast tensors, added up to one number."""
    total = a + b
    for _ in range(199):
        total = total + (a + b)
    return total.sum()


BROADCAST = Case(
    "broadcast", "200 times (64, 1) + (1, 64) and the sum of them, forward and backward", ops=200, per="op"
)
for name, make in libraries.ALL.items():
    BROADCAST.contenders[name] = partial(libraries.whole, make, outer_sums, [drawn(64, 1), drawn(1, 64)])
BROADCAST.absent["micrograd"] = SCALARS.format(400 * 64 * 64)

# (32, 64) + (64,), a chain of 400 in float64


def biases(x: Any, b: Any) -> Any:
    """A bias added 400 times."""
    for _ in range(400):
        x = x + b
    return x.sum()


BIAS = Case("bias", "(32, 64) + (64,), a chain of 400 in float64, forward and backward", ops=400, per="op")
for name, make in libraries.ALL.items():
    inputs = [drawn(32, 64, dtype="float64"), drawn(64, dtype="float64")]
    BIAS.contenders[name] = partial(libraries.whole, make, biases, inputs)
BIAS.absent["micrograd"] = SCALARS.format(400 * 32 * 64)

# The rows of (200, 64), one after another


def rows(x: Any, b: Any) -> Any:
    """Each row times ``b``, and the sum of all products."""
    total = b
    for row in x:
        total = total + row * b
    return total.sum()


ROWS = Case("rows", "the 200 rows of (200, 64) one after another, forward and backward", ops=200, per="row")
for name, make in libraries.ALL.items():
    ROWS.contenders[name] = partial(libraries.whole, make, rows, [drawn(200, 64), drawn(64)])
ROWS.absent["micrograd"] = SCALARS.format(200 * 64)

# A chain of 100,000 ops, backward only


LENGTH = 100_000


def deep(a: Any, b: Any) -> Any:
    """A chain of ``LENGTH`` additions."""
    for _ in range(LENGTH):
        a = a + b
    return a


DEEP = Case("deep", f"a chain of {LENGTH:,} ops on one number, the backward alone", ops=LENGTH, per="op")
for name in ("torch", "nbgrad", "autograd", "mygrad"):
    make = libraries.ALL[name]
    DEEP.contenders[name] = partial(libraries.backward_alone, make, deep, [drawn(), drawn()])
DEEP.absent |= {
    "jax": "op by op its forward alone takes a quarter of a minute, see the cases above",
    "jax.jit": "compiles forward and backward to one program: there is no backward alone",
    "tinygrad": "lazy: its backward runs the forward too",
}
DEEP.contenders["micrograd"] = partial(libraries.backward_alone, libraries.micrograd, deep, [drawn(1), drawn(1)])

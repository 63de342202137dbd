"""Traits of the real minitorch, needle and tinygrad that small engines of students do not have."""

from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.drawing import UnreadableError, read, verdict
from tests.drawing.engines import NDArray, NeedleTensor, TinyTensor


class Box:
    """A value of an engine, under the names of the protocol."""

    def __init__(self, value: Any, op: str | None = None, parents: Any = (), gradient: Any = None, **told: Any) -> None:
        self.value, self.op, self.parents, self.gradient = value, op, parents, gradient
        self.settings = told


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def computed(op: str, function: Any, *inputs: torch.Tensor, **told: Any) -> Box:
    """An op and the sum of its squares, with the gradients of torch's engine."""
    leaves = [one.clone().requires_grad_() for one in inputs]
    y = function(*leaves)
    y.retain_grad()
    y.square().sum().backward()
    parents = tuple(Box(one.detach().numpy(), gradient=one.grad.numpy()) for one in leaves)
    made = Box(y.detach().numpy(), op, parents, y.grad.numpy(), **told)
    squares = Box(y.detach().numpy() ** 2, "mul", (made, made), np.ones(tuple(y.shape)))
    return Box(np.array([float(squares.value.sum())]), "sum", (squares,), np.ones(1))


# A single number may have the shape (1,).


def test_a_sum_of_the_shape_of_a_list() -> None:
    said = verdict(computed("exp", torch.exp, numbers(2, 3)))
    assert said.ok
    assert said.checked_gradients == 3, "x, its exponential, and the squares"


def test_the_gradient_before_such_a_sum_is_compared() -> None:
    root = computed("exp", torch.exp, numbers(2, 3))
    root.parents[0].gradient = np.zeros((2, 3))
    first = verdict(root).first
    assert first is not None
    assert first.position == verdict(root).first.position == 2  # type: ignore[union-attr]


# needle: several tensors in a tuple.


class Stack:
    """An op of needle's that takes a tuple of tensors."""

    def __init__(self, axis: int) -> None:
        self.axis = axis


class Split(Stack):
    """An op of needle's that gives a tuple of tensors."""


class MakeTensorTuple:
    """The op that holds tensors together."""


class TupleGetItem:
    """The op that takes one of them."""

    def __init__(self, index: int) -> None:
        self.index = index


def needle(value: Any, op: Any = None, inputs: Any = (), gradient: Any = None) -> NeedleTensor:
    made = NeedleTensor(None if isinstance(value, tuple) else value, op, inputs)
    if isinstance(value, tuple):
        made.cached_data = value
    if gradient is not None:
        made.grad = NDArray(gradient)
    return made


def test_tensors_that_are_stacked() -> None:
    a, b = needle([1.0, 2.0], gradient=[1.0, 1.0]), needle([3.0, 4.0], gradient=[1.0, 1.0])
    both = needle((a.cached_data, b.cached_data), MakeTensorTuple(), [a, b])
    y = needle([[1.0, 3.0], [2.0, 4.0]], Stack(1), [both], np.ones((2, 2)))
    parts = read(y)
    assert [part.op for part in parts] == [None, None, "Stack"]
    assert parts[2].parents == (a, b)
    assert verdict(y).ok
    assert nbgrad.draw(y).records[2].op.name == "Stack"


def split(index: int, gradient: Any) -> NeedleTensor:
    x = needle([[1.0, 2.0], [3.0, 4.0]], gradient=gradient)
    rows = (NDArray([1.0, 2.0]), NDArray([3.0, 4.0]))
    whole = needle(rows, Split(0), [x])
    y = needle(None, TupleGetItem(index), [whole], [1.0, 1.0])
    y.cached_data = rows[index]
    return y


def test_a_tensor_that_was_split() -> None:
    y = split(1, [[0.0, 0.0], [1.0, 1.0]])
    x, part = read(y)
    assert part.op == "Split"
    assert part.parents == (x.source,)
    assert part.settings == {"axis": 0, "index": 1}
    assert verdict(y).ok
    first = verdict(split(1, [[1.0, 1.0], [0.0, 0.0]])).first
    assert first is not None
    assert first.part.source is not y


# The first tinygrad: a function keeps its arguments, and a later one deletes the graph.


class Transpose:
    """A function of tinygrad."""

    def __init__(self, *parents: Any, **told: Any) -> None:
        self.parents, self.saved_tensors = parents, [(2, 3)]
        vars(self).update(told)


def test_the_arguments_of_a_function() -> None:
    x = TinyTensor(np.ones((2, 2, 2)))
    y = TinyTensor(np.ones((2, 2, 2)), Transpose(x, order=(2, 0, 1), device=0))
    assert read(y)[1].settings == {"order": (2, 0, 1)}


class SlottedTensor:
    """As the ``Tensor`` of a later tinygrad: its backward deletes ``_ctx``."""

    __slots__ = ("_ctx", "data", "grad")

    def __init__(self, data: Any) -> None:
        self.data, self.grad, self._ctx = data, None, None


def test_a_graph_that_the_backward_has_deleted() -> None:
    x = SlottedTensor(1.0)
    assert len(read(x)) == 1
    del x._ctx
    with pytest.raises(UnreadableError, match=r"deletes it in the backward\. Draw it before the backward"):
        read(x)


# Ops with arguments.


def last_channels(x: torch.Tensor, w: torch.Tensor, **told: Any) -> torch.Tensor:
    y = torch.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), **told)
    return y.permute(0, 2, 3, 1)


def anchored(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.conv1d(torch.nn.functional.pad(x, (0, 2)), w)


CONVOLUTIONS = {
    "told": ("Conv2D", torch.conv2d, (numbers(2, 3, 5, 5), numbers(4, 3, 3, 3)), {"stride": 1}),
    "strided": (
        "Conv2D",
        lambda x, w: torch.conv2d(x, w, stride=2, groups=2),
        (numbers(1, 2, 7, 7), numbers(4, 1, 3, 3)),
        {"stride": (2, 2), "groups": 2},
    ),
    "untold": ("conv2d", lambda x, w: torch.conv2d(x, w, stride=2), (numbers(1, 2, 6, 6), numbers(2, 2, 3, 3)), {}),
    "channels last": (
        "Conv",
        lambda x, w: last_channels(x, w, padding=1),
        (numbers(1, 4, 4, 2), numbers(3, 3, 2, 3)),
        {"stride": 1, "padding": 1},
    ),
    "anchored": ("Conv1dFun", anchored, (numbers(1, 2, 6), numbers(3, 2, 3)), {}),
    "flip": ("Flip", lambda x: x.flip(0, 1), (numbers(2, 3),), {"axes": (0, 1)}),
    "slice": ("Slice", lambda x: x[1:3], (numbers(4, 3),), {"arg": [(1, 3), (0, 3)]}),
    "padding": (
        "Slice",
        lambda x: torch.nn.functional.pad(x, (1, 2)),
        (numbers(4, 3),),
        {"arg": [(0, 4), (-1, 5)]},
    ),
    "permutation": ("Permute", lambda x: x.permute(0, 3, 5, 1, 2, 4), (numbers(2, 3, 2, 2, 2, 2),), {}),
}


@pytest.mark.parametrize(("op", "function", "inputs", "told"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_ops_with_arguments(op: str, function: Any, inputs: Any, told: Any) -> None:
    said = verdict(computed(op, function, *inputs, **told))
    assert said.ok
    assert not said.unknown
    assert said.checked_gradients == len(inputs) + 2
    root = computed(op, function, *inputs, **told)
    wrong = root.parents[0].parents[0].parents[-1]
    wrong.gradient = 2 * wrong.gradient
    assert verdict(root).first.part.source is wrong  # type: ignore[union-attr]


def test_a_convolution_of_a_wrong_size_is_wrong_where_all_is_told() -> None:
    root = computed("Conv2D", lambda x, w: torch.conv2d(x, w, stride=2)[..., :2, :2], numbers(1, 2, 6, 6),
                    numbers(3, 2, 2, 2), stride=2, padding=0)  # fmt: skip
    first = verdict(root).first
    assert first is not None
    assert (first.kind, first.part.op) == ("value", "Conv2D")
    assert tuple(first.want.shape) == (1, 3, 3, 3)


def test_a_permutation_of_many_dimensions_is_not_inferred() -> None:
    said = verdict(computed("Permute", lambda x: x.permute(6, 0, 1, 2, 3, 4, 5), numbers(2, 2, 2, 2, 2, 2, 2)))
    assert said.ok
    assert said.unknown == ("Permute",)


# Rounding.


def rounded(error: float) -> Box:
    """A gradient that is 0 but for the rounding of single precision: that of a number that is subtracted from all."""
    g = np.array([[0.71, -0.42, -0.29]], np.float32)
    x, m = Box(np.ones((1, 3), np.float32), gradient=g), Box(np.ones((1, 1), np.float32))
    m.gradient = np.array([[-g.astype(np.float64).sum() + error]], np.float32)
    return Box(np.zeros((1, 3), np.float32), "sub", (x, m), g)


def test_the_rest_of_numbers_that_cancel_may_be_any() -> None:
    assert verdict(rounded(0.0)).ok
    assert verdict(rounded(6e-8)).ok
    assert not verdict(rounded(6e-5)).ok


def test_a_product_of_large_numbers_that_cancel() -> None:
    a, b = np.array([[3000.0, -3000.0]], np.float32), np.array([[2000.0], [2000.0]], np.float32)
    for value, right in ((0.25, True), (60.0, False)):
        root = Box(np.array([[value]], np.float32), "matmul", (Box(a), Box(b)))
        assert verdict(root).ok is right


# Faults that were found in their sources.


def cause(root: Box) -> str:
    first = verdict(root).first
    assert first is not None
    return first.cause or ""


def test_a_sum_that_drops_the_dimensions_of_size_1() -> None:
    root = computed("BroadcastTo", lambda x: x.expand(4, 3), numbers(1, 3), shape=(4, 3))
    (leaf,) = root.parents[0].parents[0].parents
    leaf.gradient = leaf.gradient.reshape(3)
    assert "dimensions of size 1 of the input are missing" in cause(root)


def test_a_slope_that_is_missing_for_negative_inputs() -> None:
    root = computed("LeakyReLU", lambda x: torch.nn.functional.leaky_relu(x, 0.2), numbers(3, 3), negative_slope=0.2)
    (leaf,) = root.parents[0].parents[0].parents
    leaf.gradient = leaf.gradient * (leaf.value > 0)
    assert "adds nothing where the input is negative" in cause(root)


def test_a_view_of_a_permuted_gradient() -> None:
    x, weights = numbers(2, 4), numbers(4, 2)
    view, turned = x.reshape(2, 2, 2), x.reshape(2, 2, 2).permute(1, 2, 0)
    flat = turned.reshape(4, 2)
    seed = weights.reshape(2, 2, 2).permute(2, 0, 1)  # the numbers lie in another order than their places
    leaf = Box(x.numpy(), gradient=weights.reshape(2, 4).numpy())
    first = Box(view.numpy(), "View", (leaf,), seed.numpy(), shape=(2, 2, 2))
    second = Box(turned.numpy(), "Permute", (first,), weights.reshape(2, 2, 2).numpy(), order=(1, 2, 0))
    last = Box(flat.numpy(), "View", (second,), weights.numpy(), shape=(4, 2))
    root = Box(float((flat * weights).sum()), "sum", (Box((flat * weights).numpy(), "mul", (last, weights.numpy()),
               np.ones((4, 2))),), 1.0)  # fmt: skip
    assert "as they lie in the memory" in cause(root)
    leaf.gradient = seed.reshape(2, 4).numpy()
    assert verdict(root).ok

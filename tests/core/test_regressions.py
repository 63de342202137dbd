"""Bugs of earlier sketches of this engine, with a test for each: none of them may come back.

Two more of these tests are elsewhere: test_convolution.py tests gradients of a convolution that are not needed, and
test_normalization.py tests all changes of running statistics by batch_norm.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import unary
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn import functional
from tests.core import rows


def drawn(*shape: int) -> torch.Tensor:
    """Random numbers, away from 0, the same ones each time."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64) + 0.5


def gradients(call: Callable[..., Any], *data: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The gradients of the same call with the same seed by nbgrad and by torch."""
    ours, theirs = [tensor(one, requires_grad=True) for one in data], [one.clone().requires_grad_() for one in data]
    mine, yours = call(*ours), call(*theirs)
    seed = drawn(*yours.shape)
    return [g.data for g in nbgrad.grad(mine, ours, seed)], list(torch.autograd.grad(yours, theirs, seed))


def agree(call: Callable[..., Any], *data: torch.Tensor) -> None:
    """The gradients are torch's."""
    for mine, yours in zip(*gradients(call, *data), strict=True):
        torch.testing.assert_close(mine, yours)


IN_PLACE = (
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
)


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_operator_in_place_gives_back_the_tensor_and_not_none(name: str) -> None:
    x = tensor([4, 6]) if name in {"iand", "ior", "ixor", "ilshift", "irshift"} else tensor([4.0, 6.0])
    expected = getattr(operator, name)(x.data.clone(), 2)
    assert getattr(operator, name)(x, 2) is x
    assert torch.equal(x.data, expected)


@pytest.mark.parametrize("number", [1, 2.0, torch.tensor([3.0, 4.0], dtype=torch.float64)])
def test_a_number_is_divided_by_a_tensor(number: Any) -> None:
    agree(lambda x: number / x, drawn(2))


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (2, 3, 4))],
)
def test_the_gradient_of_a_product_is_right_beyond_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    agree(torch.matmul, drawn(*a), drawn(*b))


def test_dot_of_matrices_is_an_error_and_no_wrong_gradient() -> None:
    with pytest.raises(RuntimeError, match="1D tensors"):
        nbgrad.dot(tensor(drawn(2, 3), requires_grad=True), tensor(drawn(3, 2)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_gradient_of_relu_has_the_type_of_its_input(dtype: torch.dtype) -> None:
    x = tensor([-1.0, 2.0], dtype=dtype, requires_grad=True)
    y, seen = x * 1, []
    y.register_hook(lambda g: seen.append(g.dtype))
    seed = torch.tensor([0.1, 0.1], dtype=dtype)
    nbgrad.relu(y).backward(seed)
    assert x.grad is not None
    assert seen == [x.grad.dtype] == [dtype]
    assert x.grad.data[1] == seed[1], "it went through fewer digits"


def test_batch_norm_leaves_its_input_alone_and_momentum_is_the_share_of_the_new() -> None:
    x, mean, variance = drawn(4, 2), torch.full((2,), 10.0).double(), torch.full((2,), 20.0).double()
    given = x.clone()
    functional.batch_norm(tensor(given, requires_grad=True), mean, variance, training=True, momentum=0.25)
    assert torch.equal(given, x)
    torch.testing.assert_close(mean, 0.75 * 10 + 0.25 * x.mean(0))
    torch.testing.assert_close(variance, 0.75 * 20 + 0.25 * x.var(0))


def test_conv1d_pads_the_ends_of_its_sequence_and_nothing_else() -> None:
    x, kernel = tensor(torch.ones(1, 1, 3)), tensor(torch.ones(1, 1, 3))
    assert functional.conv1d(x, kernel, padding=2).data.tolist() == [[[1.0, 2.0, 3.0, 2.0, 1.0]]]
    agree(lambda a, b: torch.nn.functional.conv1d(a, b, padding=2, stride=2), drawn(2, 3, 5), drawn(4, 3, 2))


def test_a_dense_layer_takes_one_example_without_a_batch() -> None:
    layer = nn.Linear(3, 2).double()
    x = tensor(drawn(3), requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert (y.shape, layer.weight.grad.shape, layer.bias.grad.shape) == ((2,), (2, 3), (2,))
    torch.testing.assert_close(y.data, layer(tensor(drawn(3)[None])).data[0])
    torch.testing.assert_close(x.grad.data, layer.weight.data.sum(0))
    torch.testing.assert_close(layer.weight.grad.data, drawn(3).expand(2, 3))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_gradient_of_softmax_is_right_for_each_of_many_rows(name: str, dim: int) -> None:
    agree(lambda x: getattr(x, name)(dim), drawn(4, 3, 5))


@pytest.fixture
def without_a_rule() -> Any:
    """A row that has no rule."""

    @op(formula="2 x", samples=unary)
    def doubled_without_a_rule(x: Any) -> Any:
        """Twice x. Shapes: output as x."""
        return x * 2

    yield doubled_without_a_rule
    del OPS["doubled_without_a_rule"]


def test_an_op_without_a_rule_is_an_error_where_a_gradient_is_wanted(without_a_rule: Any) -> None:
    with pytest.raises(NotImplementedError, match="'doubled_without_a_rule' has no gradient rule for 'x'"):
        without_a_rule(tensor([1.0], requires_grad=True))
    assert without_a_rule(tensor([1.0])).data.tolist() == [2.0]


def without_rules() -> Iterator[Any]:
    """Each input of a row without a rule that the row does not declare as such, and a sample that has this input."""
    for row in OPS.values():
        silent = {*row.inputs} - {*row.rules, *row.no_gradient} if row.differentiable else ()
        for sample in rows.samples(row) if silent else ():
            for position, (name, arg) in enumerate(zip(row.inputs, sample.args, strict=False)):
                if name in silent and isinstance(arg, torch.Tensor) and arg.is_floating_point():
                    silent -= {name}
                    yield pytest.param(row, sample.args, sample.settings, position, id=f"{row.name}-{name}")


@pytest.mark.parametrize(("row", "args", "settings", "position"), list(without_rules()))
def test_an_input_without_a_rule_is_an_error_where_its_gradient_is_wanted(
    row: Any, args: tuple[Any, ...], settings: dict[str, Any], position: int
) -> None:
    wanted = [tensor(one, requires_grad=i == position) if i == position else one for i, one in enumerate(args)]
    with pytest.raises(NotImplementedError, match=f"'{row.name}' has no gradient rule for '{row.inputs[position]}'"):
        row(*wanted, **settings)


def test_what_is_recorded_without_a_gradient_says_so() -> None:
    x: Tensor = tensor([1.5], requires_grad=True)
    assert not nbgrad.argmax(x).requires_grad
    with pytest.raises(RuntimeError):
        (x > 1).float().sum().backward()

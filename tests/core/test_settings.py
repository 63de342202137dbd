"""Arguments of calls other than tensors: numbers in tensors, torch's names, and torch's older names and orders."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS
from tests.core.programs import Library, agree
from tests.lacking import LACKING, need

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add(alpha=tensor)": lambda lib, x, n: lib.add(x, x, alpha=n),
    "sub_(alpha=tensor)": lambda lib, x, n: (x * 1).sub_(x, alpha=n),
    "addcmul(value=tensor)": lambda lib, x, n: x.addcmul(x, x, value=n),
    "sum(tensor)": lambda lib, x, n: x.sum(n - 1),
    "sum((0, tensor))": lambda lib, x, n: x.sum((0, n - 1)),
    "softmax(tensor)": lambda lib, x, n: x.softmax(n - 1),
    "transpose(tensor, 0)": lambda lib, x, n: x.transpose(n - 1, 0),
    "reshape(tensor, -1)": lambda lib, x, n: x.reshape(n, -1),
    "view(-1, tensor)": lambda lib, x, n: x.view(-1, n),
    "expand(tensor, 2, 2)": lambda lib, x, n: x.expand(n, 2, 2),
    "repeat(1, tensor)": lambda lib, x, n: x.repeat(1, n),
    "roll(tensor)": lambda lib, x, n: lib.roll(x, n - 1, 0),
    "split(tensor)": lambda lib, x, n: x.split(n - 1)[1],
    "cumsum(tensor)": lambda lib, x, n: x.cumsum(n - 1),
    "std(correction=tensor)": lambda lib, x, n: x.std(correction=n - 1),
    "norm(tensor)": lambda lib, x, n: x.norm(n),
    "leaky_relu(tensor)": lambda lib, x, n: lib.nn.functional.leaky_relu(-x, n),
    "elu(tensor)": lambda lib, x, n: lib.nn.functional.elu(-x, n),
    "softplus(tensor)": lambda lib, x, n: lib.nn.functional.softplus(x, n),
    "hardtanh(tensor)": lambda lib, x, n: lib.nn.functional.hardtanh(x, -n, n),
    "normalize(tensor)": lambda lib, x, n: lib.nn.functional.normalize(x, n),
    "one_hot(tensor)": lambda lib, x, n: lib.nn.functional.one_hot(lib.tensor([0, 1]), n),
    "nan_to_num(tensor)": lambda lib, x, n: x.nan_to_num(n),
    "layer_norm(eps=tensor)": lambda lib, x, n: lib.nn.functional.layer_norm(x, (2,), eps=n),
    "max(other=)": lambda lib, x, n: lib.max(x, other=x * 0.5 + 1),
    "x.min(other=)": lambda lib, x, n: x.min(other=x * 0.5 + 1),
    "expand(size=)": lambda lib, x, n: x.expand(size=(3, 2, 2)),
    "view(size=)": lambda lib, x, n: x.view(size=(4,)),
    "tile(dims=)": lambda lib, x, n: x.tile(dims=(2,)),
    "sigmoid_": lambda lib, x, n: lib.sigmoid_(x * 1),
    "clip_": lambda lib, x, n: lib.clip_(x * 1, 1, 2),
    "negative_": lambda lib, x, n: lib.negative_(x * 1),
    "new": lambda lib, x, n: x.new([1.0, 2.0]) + x.new(2, 2).zero_() + x.new(x.size()).fill_(1) + x.new().numel(),
}


@pytest.mark.parametrize("name", CALLS)
def test_settings_are_what_they_are_in_torch(name: str) -> None:
    if name in LACKING:
        need(name)

    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([0.5, 2.0], [3.0, -1.0])
        number = lib.ops.tensor(2)
        found = CALLS[name](lib.ops, x, number)
        number += 1  # the op has kept the old value of the number
        if found.requires_grad:
            found.sum().backward()
        return found, x.grad

    agree(program)


NUMPYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda lib, x, n: x.sum(n - 1),
    "sum((0, number))": lambda lib, x, n: x.sum((0, n - 1)),
    "softmax": lambda lib, x, n: x.softmax(n - 1),
    "reshape": lambda lib, x, n: x.reshape(n, -1),
    "leaky_relu": lambda lib, x, n: lib.nn.functional.leaky_relu(-x, float(n) * n),
    "conv1d": lambda lib, x, n: lib.nn.functional.conv1d(x, lib.ones(2, 2, 1).to(x.dtype), stride=n, padding=(n,)),
    "max_pool1d": lambda lib, x, n: lib.nn.functional.max_pool1d(x, n),
    "avg_pool1d": lambda lib, x, n: lib.nn.functional.avg_pool1d(x, n, stride=n - 1),
}


@pytest.mark.parametrize("name", NUMPYS)
def test_a_number_of_numpys_is_a_number(name: str) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([0.5, 2.0], [3.0, -1.0])
        found = NUMPYS[name](lib.ops, x, np.int64(2))
        found.sum().backward()
        return found, x.grad

    agree(program)


def test_a_setting_is_one_number_and_needs_no_gradient() -> None:
    x = nbgrad.ones(2, 2)
    with pytest.raises(TypeError, match=r"add\(\): alpha needs a gradient, .* pass t\.item\(\)"):
        nbgrad.add(x, x, alpha=nbgrad.tensor(2.0, requires_grad=True))
    with pytest.raises(TypeError, match=r"addmm\(\): beta is a tensor of shape \(2, 2\), not a number: its"):
        nbgrad.addmm(x, 2, x, x)
    with pytest.raises(TypeError, match=r"reshape\(\): shape is a tensor of shape \(1,\)"):
        x.reshape(nbgrad.tensor([4]))


BEFORE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add_(-rate, g)": lambda lib, x, y: (x * 1).add_(-0.1, y),
    "add(x, 2, y)": lambda lib, x, y: lib.add(x, 2, y),
    "sub(2, y)": lambda lib, x, y: x.sub(2, y),
    "addcmul_(0.5, y, y)": lambda lib, x, y: (x * 1).addcmul_(0.5, y, y),
    "addcdiv(0.5, y, y)": lambda lib, x, y: lib.addcdiv(x, 0.5, y, y),
    "softmax": lambda lib, x, y: lib.nn.functional.softmax(x),
    "log_softmax": lambda lib, x, y: lib.nn.functional.log_softmax(x),
    "softmin": lambda lib, x, y: lib.nn.functional.softmin(x),
    "mse_loss sum": lambda lib, x, y: lib.nn.functional.mse_loss(x, y, size_average=False),
    "mse_loss none": lambda lib, x, y: lib.nn.functional.mse_loss(x, y, reduce=False),
    "l1_loss mean": lambda lib, x, y: lib.nn.functional.l1_loss(x, y, size_average=True, reduce=True),
    "binary_cross_entropy": lambda lib, x, y: lib.nn.functional.binary_cross_entropy(
        x.sigmoid(), y.sigmoid(), size_average=False
    ),
    "cross_entropy": lambda lib, x, y: lib.nn.functional.cross_entropy(x, lib.tensor([0, 1]), size_average=False),
    "nll_loss": lambda lib, x, y: lib.nn.functional.nll_loss(x, lib.tensor([0, 1]), reduce=False),
    "kl_div": lambda lib, x, y: lib.nn.functional.kl_div(x, y, size_average=False),
    "triplet_margin_loss": lambda lib, x, y: lib.nn.functional.triplet_margin_loss(x, y, x * y, reduce=False),
}


@pytest.mark.filterwarnings("ignore:reduction. .mean.:UserWarning")
@pytest.mark.parametrize("name", BEFORE)
def test_what_torch_takes_with_a_warning_is_taken_with_one(name: str) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([0.5, 2.0], [3.0, -1.0])
        y = lib.constant([1.0, 0.5], [2.0, 4.0])
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = BEFORE[name](lib.ops, x, y)
        found.sum().backward()
        if lib.ops is nbgrad:  # torch gives some warnings only once in a program
            assert [str(one.filename) for one in heard][:1] == [__file__]
        return found, x.grad

    agree(program)


def test_torchs_function_of_our_tensor_takes_the_names_of_before_too() -> None:
    x, y = nbgrad.tensor([1.0, 2.0]), nbgrad.tensor([2.0, 5.0])
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert torch.nn.functional.mse_loss(x, y, size_average=False).item() == 10.0
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert torch.nn.functional.softmax(x).sum().item() == pytest.approx(1.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.defaults and not row.listed])
def test_a_setting_that_is_given_twice_is_an_error_that_names_it(name: str) -> None:
    row, setting = OPS[name], next(iter(OPS[name].defaults))
    inputs = [nbgrad.tensor(1.0)] * row.arity
    with pytest.raises(TypeError, match=f"multiple values for argument '{setting}'.*signature"):
        row(*inputs, 1, **{setting: 1})

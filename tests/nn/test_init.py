"""Initialisation draws torch's numbers, in place."""

import inspect

import pytest
import torch

import nbgrad
from nbgrad import nn

FILLS = [
    ("uniform_", {}),
    ("uniform_", {"a": -2.0, "b": 3.0}),
    ("normal_", {}),
    ("normal_", {"mean": 1.0, "std": 0.1}),
    ("constant_", {"val": 0.5}),
    ("zeros_", {}),
    ("ones_", {}),
    ("xavier_uniform_", {}),
    ("xavier_uniform_", {"gain": 5 / 3}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {}),
    ("kaiming_uniform_", {"a": 0.2, "mode": "fan_out"}),
    ("kaiming_normal_", {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize(("name", "settings"), FILLS)
@pytest.mark.parametrize("make", [nbgrad.tensor, nn.Parameter], ids=["tensor", "parameter"])
def test_same_numbers_as_torch_from_the_same_seed(name, settings, make):
    tensor = make(torch.empty(5, 4, 3))
    address = tensor.data.data_ptr()
    torch.manual_seed(1)
    returned = getattr(nn.init, name)(tensor, **settings)
    torch.manual_seed(1)
    expected = getattr(torch.nn.init, name)(torch.empty(5, 4, 3), **settings)
    assert returned is tensor
    assert tensor.data.data_ptr() == address
    assert tensor.is_leaf
    assert torch.equal(tensor.data, expected)


@pytest.mark.parametrize("name", [name for name, settings in FILLS if not settings and name not in {"zeros_", "ones_"}])
def test_same_numbers_as_torch_from_the_same_generator(name):
    ours = getattr(nn.init, name)(nn.Parameter(torch.empty(4, 3)), generator=torch.Generator().manual_seed(7))
    theirs = getattr(torch.nn.init, name)(torch.empty(4, 3), generator=torch.Generator().manual_seed(7))
    assert torch.equal(ours.data, theirs)


@pytest.mark.parametrize("nonlinearity", ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains_are_torchs(nonlinearity):
    assert nn.init.calculate_gain(nonlinearity) == torch.nn.init.calculate_gain(nonlinearity)


def test_signatures_are_torchs():
    for name, _ in FILLS:
        assert inspect.signature(getattr(nn.init, name)) == inspect.signature(getattr(torch.nn.init, name))


def test_a_vector_has_no_fan():
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        nn.init.xavier_uniform_(nn.Parameter(torch.empty(3)))

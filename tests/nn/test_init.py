"""Initialisation draws torch's numbers, in place."""

import inspect

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.optim.lr_scheduler import _LRScheduler

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
    ("trunc_normal_", {}),
    ("trunc_normal_", {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 0.7}),
    ("orthogonal_", {}),
    ("orthogonal_", {"gain": 2.0}),
    ("sparse_", {"sparsity": 0.5}),
    ("sparse_", {"sparsity": 0.3, "std": 2.0}),
    ("eye_", {}),
    ("dirac_", {}),
    ("dirac_", {"groups": 3}),
]
NAMES = sorted({name for name, _ in FILLS})
# Which elements sparse_ makes zero torch draws from the global generator, whatever is passed.
DRAWN = [name for name in NAMES if name not in {"constant_", "zeros_", "ones_", "eye_", "dirac_", "sparse_"}]
SHAPES = {"sparse_": (5, 4), "eye_": (5, 4), "dirac_": (6, 4, 3)}


def empty(name):
    return torch.empty(SHAPES.get(name, (5, 4, 3)))


@pytest.mark.parametrize(("name", "settings"), FILLS)
@pytest.mark.parametrize("make", [nbgrad.tensor, nn.Parameter], ids=["tensor", "parameter"])
def test_same_numbers_as_torch_from_the_same_seed(name, settings, make):
    tensor = make(empty(name))
    address = tensor.data.data_ptr()
    torch.manual_seed(1)
    returned = getattr(nn.init, name)(tensor, **settings)
    torch.manual_seed(1)
    expected = getattr(torch.nn.init, name)(empty(name), **settings)
    assert returned is tensor
    assert tensor.data.data_ptr() == address
    assert tensor.is_leaf
    assert torch.equal(tensor.data, expected)


@pytest.mark.parametrize("name", DRAWN)
def test_same_numbers_as_torch_from_the_same_generator(name):
    ours = getattr(nn.init, name)(nn.Parameter(empty(name)), generator=torch.Generator().manual_seed(7))
    theirs = getattr(torch.nn.init, name)(empty(name), generator=torch.Generator().manual_seed(7))
    assert torch.equal(ours.data, theirs)


@pytest.mark.parametrize(("name", "settings"), [fill for fill in FILLS if not hasattr(torch.Tensor, fill[0])])
def test_methods_fill_as_the_functions_do(name, settings):
    tensor = nbgrad.tensor(empty(name), requires_grad=True)
    torch.manual_seed(1)
    assert getattr(tensor, name)(**settings) is tensor
    torch.manual_seed(1)
    assert torch.equal(tensor.data, getattr(torch.nn.init, name)(empty(name), **settings))
    assert tensor.is_leaf


def test_every_initialiser_of_torch_is_here():
    torchs = {name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")}
    assert torchs == set(NAMES) == {name for name in vars(nn.init) if name.endswith("_") and not name.startswith("_")}


def test_one_seed_makes_one_model():
    def weights(seed):
        nbgrad.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        model.apply(lambda module: isinstance(module, nn.Linear) and module.weight.orthogonal_(gain=5 / 3))
        return model.state_dict()

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert not any(torch.equal(value, other[key]) for key, value in first.items())


@pytest.mark.parametrize("nonlinearity", ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
def test_gains_are_torchs(nonlinearity):
    assert nn.init.calculate_gain(nonlinearity) == torch.nn.init.calculate_gain(nonlinearity)


def test_signatures_are_torchs():
    for name, _ in FILLS:
        assert inspect.signature(getattr(nn.init, name)) == inspect.signature(getattr(torch.nn.init, name))


def test_a_vector_has_no_fan():
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        nn.init.xavier_uniform_(nn.Parameter(torch.empty(3)))


@pytest.mark.parametrize("name", ["uniform", "normal", "eye", "xavier_uniform", "kaiming_normal", "orthogonal"])
def test_the_old_names_still_work_and_warn(name):
    tensor = nbgrad.tensor(torch.empty(5, 4))
    torch.manual_seed(1)
    with pytest.warns(FutureWarning, match=f"{name}_"):
        assert getattr(nn.init, name)(tensor) is tensor
    torch.manual_seed(1)
    assert torch.equal(tensor.data, getattr(torch.nn.init, f"{name}_")(torch.empty(5, 4)))


def test_private_names_that_programs_use() -> None:
    ours, theirs = nn.Conv2d(2, 3, 5).weight, torch.nn.Conv2d(2, 3, 5).weight
    assert nn.init._calculate_fan_in_and_fan_out(ours) == torch.nn.init._calculate_fan_in_and_fan_out(theirs)
    for mode in ("fan_in", "fan_out"):
        assert nn.init._calculate_correct_fan(ours, mode) == torch.nn.init._calculate_correct_fan(theirs, mode)
    assert _LRScheduler is torch.optim.lr_scheduler._LRScheduler

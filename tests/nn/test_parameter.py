"""Parameters: what they are made of, how they are drawn and copied."""

import copy
import pickle

import pytest
import torch

import nbgrad
from nbgrad import nn


@pytest.mark.parametrize("data", [torch.ones(2, 3), nbgrad.tensor(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))])
def test_shares_the_memory_of_a_tensor(data):
    parameter = nn.Parameter(data)
    raw = data if type(data) is torch.Tensor else data.data
    raw[0, 0] = 5
    assert parameter.data[0, 0] == 5
    assert parameter.data.data_ptr() == raw.data_ptr()


@pytest.mark.parametrize("data", [1.5, [1.5, 2.0], [[1.0], [2.0]]])
def test_takes_numbers(data):
    parameter = nn.Parameter(data)
    torch.testing.assert_close(parameter.data, torch.tensor(data))
    assert parameter.requires_grad
    assert parameter.is_leaf


def test_a_torch_parameter_gives_its_data_without_its_history():
    theirs = torch.nn.Parameter(torch.ones(2))
    ours = nn.Parameter(theirs)
    assert not ours.data.requires_grad
    assert ours.data.data_ptr() == theirs.data_ptr()


def test_kind_is_parameter_even_when_frozen():
    assert nn.Parameter(1.0).kind == "parameter"
    assert nn.Parameter(1.0).origin.kind == "parameter"
    assert nn.Parameter(1.0, requires_grad=False).kind == "parameter"


def test_integers_have_no_gradients():
    with pytest.raises(RuntimeError, match="only floating point and complex tensors can require gradients"):
        nn.Parameter(torch.tensor([1, 2]))
    assert nn.Parameter(torch.tensor([1, 2]), requires_grad=False).dtype is torch.int64


def test_repr_is_torchs():
    assert repr(nn.Parameter(torch.ones(2))) == repr(torch.nn.Parameter(torch.ones(2)))


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["deepcopy", "pickle"]
)
def test_a_copy_has_the_data_and_a_leaf_of_its_own(duplicate):
    parameter = nn.Parameter(torch.ones(2))
    parameter.name = "weight"
    (parameter * 3).sum().backward()
    copied = duplicate(parameter)
    assert type(copied) is nn.Parameter
    assert (copied.name, copied.requires_grad, copied.grad) == ("weight", True, None)
    (copied * 5).sum().backward()
    torch.testing.assert_close(copied.grad.data, torch.full((2,), 5.0))
    torch.testing.assert_close(parameter.grad.data, torch.full((2,), 3.0))
    copied.data.zero_()
    assert parameter.data.eq(1).all()


def test_replaced_data_get_gradients_of_their_own_dtype():
    parameter = nn.Parameter(torch.ones(2))
    (parameter * 3).sum().backward()
    parameter.replace_data(torch.Tensor.double)
    assert parameter.grad.dtype is torch.float64
    (parameter * 3).sum().backward()
    torch.testing.assert_close(parameter.grad.data, torch.full((2,), 6.0, dtype=torch.float64))


def test_attributes_of_the_users_own_are_copied_and_pickled():
    for param in (nn.Parameter(torch.ones(2)), nn.UninitializedParameter()):
        param.no_decay, param.name = True, "w"
        for duplicate in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
            again = duplicate(param)
            assert (again.no_decay, again.name) == (True, "w")


def test_a_lazy_parameter_keeps_them_when_it_has_its_shape():
    layer = nn.LazyLinear(2)
    layer.weight.no_decay = True
    layer(nbgrad.ones(3, 4))
    assert type(layer.weight) is nn.Parameter
    assert layer.weight.no_decay

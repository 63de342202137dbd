"""Sequential as a list of modules."""

from collections import OrderedDict

import pytest
import torch

import nbgrad
from nbgrad import nn


def three():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def test_reads_as_a_list():
    model = three()
    assert len(model) == 3
    assert [type(module).__name__ for module in model] == ["Linear", "ReLU", "Linear"]
    assert model[0] is next(iter(model))
    assert model[-1] is model[2]


def test_a_slice_shares_the_modules_and_keeps_their_names():
    model = three()
    part = model[1:]
    assert isinstance(part, nn.Sequential)
    assert [name for name, _ in part.named_children()] == ["1", "2"]
    assert part[1] is model[2]


def test_append_and_replace():
    model = three()
    assert model.append(nn.Tanh()) is model
    assert [name for name, _ in model.named_children()] == ["0", "1", "2", "3"]
    model[-1] = last = nn.Sigmoid()
    assert (model[3], len(model)) == (last, 4)


def test_a_module_that_stands_twice_runs_twice():
    double = nn.Linear(1, 1, bias=False)
    double.weight.data.fill_(2)
    model = nn.Sequential(double, double)
    assert model(nbgrad.tensor([1.0])).item() == 4
    assert len(model) == 2
    assert len(list(model.children())) == len(list(model.parameters())) == 1


def test_names_from_an_ordered_dict():
    model = nn.Sequential(OrderedDict(hidden=nn.Linear(2, 3), act=nn.Tanh()))
    assert list(model.state_dict()) == ["hidden.weight", "hidden.bias"]
    assert model.hidden is model[0]


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_out_of_range(index):
    with pytest.raises(IndexError, match=f"index {index} is out of range: this Sequential has 3 modules"):
        three()[index]


@pytest.mark.parametrize("wrong", [nn.ReLU, torch.nn.ReLU(), "relu"])
def test_only_modules_go_in(wrong):
    words = r"(object|the class ReLU) to module '1' \(nbgrad.nn.module.module.Module or None required\)"
    with pytest.raises(TypeError, match=words):
        nn.Sequential(nn.Linear(2, 3), wrong)

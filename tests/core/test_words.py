"""Messages about values of other libraries, and the user's own attributes on tensors."""

import copy
import pickle

import numpy as np
import pytest
import torch

import nbgrad

MESSAGES = {
    "vjp": lambda x, t: nbgrad.autograd.functional.vjp(lambda x: x * 2, x, t),
    "jacobian": lambda x, t: nbgrad.autograd.functional.jacobian(lambda x: x * 2, t),
    "optimizer": lambda x, t: nbgrad.optim.SGD(t, lr=0.1),
}


@pytest.mark.parametrize("name", ["vjp", "jacobian", "optimizer"])
def test_a_tensor_of_torchs_is_called_so(name):
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        MESSAGES[name](nbgrad.ones(2), torch.ones(2))


def test_what_a_function_saves_is_called_by_its_library():
    class Saves(nbgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.data)
            return x * 2

    with pytest.raises(TypeError, match=r"takes tensors, not torch\.Tensor"):
        Saves.apply(nbgrad.ones(2, requires_grad=True))


def test_an_array_is_called_numpys():
    with pytest.raises(TypeError, match=r"not numpy\.ndarray"):
        nbgrad.ones(2, requires_grad=True).grad = np.ones(2)


def test_a_list_of_single_tensors_for_torch_says_what_to_write():
    x = nbgrad.tensor(1.5, requires_grad=True)
    with pytest.raises(TypeError, match=r"nbgrad\.stack\(tensors\)"):
        torch.tensor([x, x])


def test_a_plot_of_what_needs_a_gradient_says_what_to_write():
    """A plot copies each part of what it is given, or asks for an array."""
    y = nbgrad.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
        copy.copy(y[0])
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
        np.asarray(y)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "clone": lambda one: one.clone(),
    "detach": lambda one: one.detach(),
    "view": lambda one: one.view(2),
}


@pytest.mark.parametrize("name", COPIES)
def test_attributes_go_with_the_copies_that_torch_gives_them_to(name):
    for library in (torch, nbgrad):
        x = library.ones(2, requires_grad=True)
        x.tag = [1]
        made = COPIES[name](x)
        assert getattr(made, "tag", None) == ([1] if name in {"copy", "deepcopy", "pickle"} else None)
        if name in {"copy", "deepcopy"}:
            assert (made.tag is x.tag) == (name == "copy")


def test_a_result_takes_attributes_and_gives_them_to_nothing_that_is_made_of_it():
    y = nbgrad.ones(2, requires_grad=True) * 2
    y.tag = "hidden"
    assert y.tag == "hidden"
    assert not hasattr(y * 2, "tag")
    with pytest.raises(AttributeError):
        _ = y.other

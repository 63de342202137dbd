"""A converted model and its original share each ``.grad``: the original's torch optimizer trains both."""

import copy

import pytest
import torch
from torch import nn as tnn

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch

X = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
Y = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))


def made():
    torch.manual_seed(0)
    return tnn.Sequential(tnn.Linear(3, 5), tnn.BatchNorm1d(5), tnn.Tanh(), tnn.Linear(5, 2))


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adam, one by one": lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=False),
    "lbfgs": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=3),
}


def train(net, optimizer, data, *, clip=False, to_none=True, several=1):
    """Losses and parameters of six steps."""
    x, y = data
    losses = []
    for _ in range(6):

        def closure():
            optimizer.zero_grad(set_to_none=to_none)
            for _ in range(several):
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
            if clip:
                tnn.utils.clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], 0.1)
            return loss

        losses.append(optimizer.step(closure).item())
    return losses


@pytest.mark.parametrize("settings", [{}, {"clip": True}, {"to_none": False}, {"several": 2}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_torchs_optimizer_of_the_original_trains_the_same_model_to_the_bit(name, settings):
    theirs, original = made(), made()
    converted = from_torch(original)
    expected = train(theirs, OPTIMIZERS[name](theirs.parameters()), (X, Y), **settings)
    ours = nbgrad.tensor(X), nbgrad.tensor(Y)
    found = train(converted, OPTIMIZERS[name](original.parameters()), ours, **settings)
    assert found == expected
    assert len(set(found)) == 6
    for one, other in zip(original.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one.grad, other.grad)


def test_nbgrads_optimizer_and_the_gradient_of_torch():
    theirs, original = made(), made()
    converted = from_torch(original)
    expected = train(theirs, torch.optim.Adam(theirs.parameters(), lr=0.01), (X, Y))
    optimizer = nbgrad.optim.Adam(converted.parameters(), lr=0.01)
    found = []
    for _ in range(6):
        optimizer.zero_grad()
        assert original[0].weight.grad is None
        loss = ((converted(nbgrad.tensor(X)) - nbgrad.tensor(Y)) ** 2).mean()
        loss.backward()
        assert original[0].weight.grad is converted[0].weight.grad.data
        optimizer.step()
        found.append(float(loss))
    assert found == expected


def test_each_sees_what_the_other_writes():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    converted(nbgrad.tensor(X)).sum().backward()
    assert converted.bias.grad is converted.bias.grad
    assert torch.equal(original.bias.grad, torch.full((2,), 8.0))
    original(X).sum().backward()
    assert torch.equal(converted.bias.grad.data, torch.full((2,), 16.0))
    converted.bias.grad.data.zero_()
    assert torch.equal(original.bias.grad, torch.zeros(2))
    original.zero_grad()
    assert converted.weight.grad is None
    converted.weight.grad = torch.ones(2, 3)
    assert torch.equal(original.weight.grad, torch.ones(2, 3))
    converted.zero_grad()
    assert original.weight.grad is None


def test_a_gradient_with_a_history():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    (converted(nbgrad.tensor(X)) ** 2).sum().backward(create_graph=True)
    gradient = converted.weight.grad
    assert gradient.requires_grad
    assert original.weight.grad.requires_grad is False
    (nbgrad.grad((gradient**2).sum(), converted.weight)[0]).sum()


def test_hooks_after_the_gradient_see_it():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    seen = []
    converted.weight.register_post_accumulate_grad_hook(lambda one: seen.append((one.grad.data, original.weight.grad)))
    converted(nbgrad.tensor(X)).sum().backward()
    assert seen[0][0] is seen[0][1]


def test_copies_and_what_moves_have_gradients_of_their_own():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    other = copy.deepcopy(converted)
    other(nbgrad.tensor(X)).sum().backward()
    assert original.weight.grad is None
    converted(nbgrad.tensor(X)).sum().backward()
    converted.double()
    assert converted.weight.grad.dtype == torch.float64
    converted.zero_grad()
    assert original.weight.grad is not None
    assert original.weight.dtype == torch.float32


def test_an_original_that_has_other_data_is_an_error():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    original.double()
    with pytest.raises(
        RuntimeError, match=r"that weight shares its gradient with has other data now.*Convert it again"
    ):
        nn.functional.linear(nbgrad.tensor(X), converted.weight).sum().backward()


def test_hooks_on_a_gradient_of_torchs_are_refused():
    for register in (torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook):
        original = tnn.Linear(3, 2)
        register(original.bias, lambda one: None)
        with pytest.raises(NotImplementedError, match=r"bias of Linear has hooks of torch's engine on its gradient"):
            from_torch(tnn.Sequential(original))


def test_what_is_assigned_by_loading_belongs_to_both():
    original, loaded = tnn.Linear(3, 2), tnn.Linear(3, 2)
    converted = from_torch(original)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.1)
    converted.load_state_dict(loaded.state_dict(), assign=True)
    assert original.weight.data_ptr() == converted.weight.data.data_ptr()
    assert torch.equal(original.weight, loaded.weight)
    before = loaded.weight.detach().clone()
    converted(nbgrad.tensor(X, dtype=converted.weight.dtype)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(converted.weight.data, before - 0.1 * original.weight.grad)


def test_torchs_optimizer_of_a_model_that_was_moved_on_is_an_error():
    original = tnn.Linear(3, 2)
    converted = from_torch(original)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.1)
    converted.double()
    optimizer.step()  # there is no gradient yet, so the step can miss none
    converted(nbgrad.tensor(X, dtype=converted.weight.dtype)).sum().backward()
    with pytest.raises(RuntimeError, match=r"SGD\.step\(\): .*from_torch\(\).* has other data"):
        optimizer.step()
    optimizer.zero_grad()
    original(X).sum().backward()
    optimizer.step()


def test_a_parameter_made_of_its_class_is_one_of_its_own() -> None:
    theirs = torch.nn.Linear(2, 2)
    shared = next(nbgrad.from_torch(theirs).parameters())
    for made in (type(shared)(torch.ones(2), requires_grad=False), type(shared)(shared.data, requires_grad=True)):
        assert isinstance(made, nbgrad.nn.Parameter)
    frozen = type(shared)(torch.ones(2), requires_grad=False)
    assert not frozen.requires_grad
    learned = type(shared)(torch.ones(2), requires_grad=True)
    (learned * 3).sum().backward()
    assert learned.grad.tolist() == [3.0, 3.0]
    assert theirs.weight.grad is None

"""Clipping gradients, and parameters as one vector."""

import math

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import utils

SHAPES = ((3, 2), (), (4,), (0, 2))


def params(kind, scale=1.0, shapes=SHAPES):
    """Parameters with gradients of two element types, one without."""
    generator = torch.Generator().manual_seed(5)
    made = []
    for position, shape in enumerate(shapes):
        dtype = torch.float64 if position % 2 else torch.float32
        made.append(kind(torch.randn(shape, generator=generator, dtype=dtype)))
        made[-1].grad = torch.randn(shape, generator=generator, dtype=dtype) * scale
    made.append(kind(torch.ones(2)))
    return made


def grads(held):
    return [one.grad.data.clone() for one in held if one.grad is not None]


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf, "inf"])
@pytest.mark.parametrize("max_norm", [0.3, 100])
def test_the_norm_is_clipped_as_torchs(max_norm, norm_type, foreach):
    shapes = [shape for shape in SHAPES if 0 not in shape or norm_type not in (math.inf, "inf")]  # torch's error there
    ours, theirs = (params(kind, shapes=shapes) for kind in (nn.Parameter, torch.nn.Parameter))
    held = [one.grad.data for one in ours if one.grad is not None]
    total = utils.clip_grad_norm_(iter(ours), max_norm, norm_type, foreach=foreach)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type, foreach=foreach)
    assert isinstance(total, nbgrad.Tensor)
    torch.testing.assert_close(total.data, expected)
    torch.testing.assert_close(grads(ours), grads(theirs))
    assert all(one is other.grad.data for one, other in zip(held, ours, strict=False))


@pytest.mark.parametrize("foreach", [None, True, False])
def test_values_are_clipped_as_torchs(foreach):
    ours, theirs = params(nn.Parameter), params(torch.nn.Parameter)
    utils.clip_grad_value_(iter(ours), 0.4, foreach=foreach)
    torch.nn.utils.clip_grad_value_(theirs, 0.4, foreach=foreach)
    torch.testing.assert_close(grads(ours), grads(theirs), rtol=0, atol=0)
    assert max(one.abs().max().item() for one in grads(ours) if one.numel()) == pytest.approx(0.4)


def test_a_norm_of_all_groups_clips_one():
    ours, theirs = params(nn.Parameter), params(torch.nn.Parameter)
    total = utils.get_total_norm([one.grad for one in ours[:4]])
    torch.testing.assert_close(total.data, torch.nn.utils.get_total_norm(grads(theirs)))
    utils.clip_grads_with_norm_(ours[:2], 0.5, total)
    torch.nn.utils.clip_grads_with_norm_(theirs[:2], 0.5, total.data)
    torch.testing.assert_close(grads(ours), grads(theirs))


def test_one_parameter_and_none_with_a_gradient():
    one = params(nn.Parameter, scale=10)[0]
    assert utils.clip_grad_norm_(one, 1.0).item() > 1
    assert utils.get_total_norm(one.grad).item() == pytest.approx(1, abs=1e-5)
    assert utils.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0


def test_a_norm_that_is_not_finite():
    held = params(nn.Parameter, scale=math.inf)
    with pytest.raises(RuntimeError, match="is non-finite"):
        utils.clip_grad_norm_(held, 1.0, error_if_nonfinite=True)
    assert utils.clip_grad_norm_(held, 1.0).isfinite().item() is False


def test_torchs_parameters_are_not_ours():
    with pytest.raises(TypeError, match=r"parameters must be tensors of nbgrad, got torch\.FloatTensor"):
        utils.clip_grad_norm_([torch.ones(2)], 1.0)


@pytest.mark.parametrize("make", [lambda: nn.Linear(2, 2), lambda: nn.Sequential(nn.Linear(2, 2))])
@pytest.mark.parametrize(
    "use",
    [
        lambda model: utils.clip_grad_norm_(model, 1.0),
        lambda model: utils.clip_grad_value_(model, 1.0),
        utils.parameters_to_vector,
        lambda model: utils.vector_to_parameters(nbgrad.zeros(6), model),
    ],
)
def test_a_model_in_the_place_of_its_parameters_is_named(make, use):
    with pytest.raises(
        TypeError, match=r"got a (Linear|Sequential): pass the parameters of a model as model\.parameters"
    ):
        use(make())


def test_a_vector_of_parameters_and_back():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    vector = utils.parameters_to_vector(model.parameters())
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    theirs.load_state_dict(model.state_dict())
    assert torch.equal(vector.data, torch.nn.utils.parameters_to_vector(theirs.parameters()).detach())
    (vector**2).sum().backward()
    for param in model.parameters():
        torch.testing.assert_close(param.grad.data, 2 * param.data)
    doubled = (vector * 2).detach()
    utils.vector_to_parameters(doubled, model.parameters())
    assert torch.equal(utils.parameters_to_vector(model.parameters()).data, doubled.data)
    doubled.data.zero_()
    assert model[1].bias.data.eq(0).all()  # the memory is shared, as in torch


@pytest.mark.parametrize("shape", [(3,), (5,), (2, 2)])
def test_a_vector_that_does_not_fit(shape):
    with pytest.raises(ValueError, match=r"the parameters have 4 elements together: a vector of shape .* does not fit"):
        utils.vector_to_parameters(nbgrad.tensor(torch.zeros(shape)), [nn.Parameter(torch.zeros(2, 2))])


def test_a_list_is_no_vector():
    with pytest.raises(TypeError, match="expected a tensor, but got: list"):
        utils.vector_to_parameters([1.0], [nn.Parameter([1.0])])


class Changes(nbgrad.core.engine.observer.Observer):
    """Records the changes that it is told about."""

    def __init__(self):
        self.seen = []

    def on_change(self, changed, what):
        self.seen.append((len(changed), what))


def test_observers_are_told():
    observer, held = Changes(), params(nn.Parameter)
    with nbgrad.core.engine.state.Switch(observers=(observer,)):
        utils.clip_grad_norm_(held, 1.0)
        utils.clip_grad_value_(held, 1.0)
        nn.init.zeros_(held[0])
    assert observer.seen == [(4, "clip_grads_with_norm_()"), (4, "clip_grad_value_()"), (1, "init.zeros_()")]


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_nothing_to_clip_is_no_error_in_a_graph(clip):
    net = nn.Linear(2, 2)
    with nbgrad.AutogradGraph():
        net(nbgrad.ones(1, 2))
        clip(net.parameters(), 1.0)
    assert all(parameter.grad is None for parameter in net.parameters())

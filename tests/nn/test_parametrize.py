"""Computed parameters next to torch's: weight_norm, spectral_norm, and parametrizations of one's own."""

import copy
import pickle
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch
from nbgrad.nn.utils import parametrizations as ours_ready, parametrize as ours_parametrize
from tests.nn.alike import check, matched

theirs_ready, theirs_parametrize = torch.nn.utils.parametrizations, torch.nn.utils.parametrize

LAYERS = {
    "linear": (lambda lib: lib.Linear(4, 3), (2, 4)),
    "convolution": (lambda lib: lib.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "transposed": (lambda lib: lib.ConvTranspose2d(2, 3, 3), (2, 2, 5, 5)),
}


def ready(lib):
    return ours_ready if lib is nn else theirs_ready


def parametrize(lib):
    return ours_parametrize if lib is nn else theirs_parametrize


def twice(ours, theirs, shape):
    """Two forwards: the second one uses state that the first one left."""
    for _ in range(2):
        check(ours, theirs, torch.randn(shape, dtype=torch.float64), tolerance={"rtol": 1e-9, "atol": 1e-11})


@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("name", LAYERS)
def test_weight_norm(name, dim):
    make, shape = LAYERS[name]
    ours, theirs = matched(lambda lib: ready(lib).weight_norm(make(lib), dim=dim))
    twice(ours, theirs, shape)


@pytest.mark.parametrize("settings", [{}, {"n_power_iterations": 3}, {"dim": 1}, {"dim": -1, "eps": 1e-3}])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_spectral_norm(name, training, settings):
    make, shape = LAYERS[name]
    ours, theirs = (one.train(training) for one in matched(lambda lib: ready(lib).spectral_norm(make(lib), **settings)))
    twice(ours, theirs, shape)
    torch.testing.assert_close(ours.state_dict(), dict(theirs.state_dict()), rtol=1e-9, atol=1e-11)


def test_a_bias_is_normalized_too():
    ours, theirs = matched(lambda lib: ready(lib).spectral_norm(lib.Linear(4, 3), "bias"))
    twice(ours, theirs, (2, 4))


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (4, 3), (3, 4)])
def test_orthogonal(shape, kind, trivial):
    settings = {"orthogonal_map": kind, "use_trivialization": trivial}
    both = [lib.Linear(*shape).double() for lib in (nn, torch.nn)]
    both[0].load_state_dict(both[1].state_dict())
    made = []
    for layer, lib in zip(both, (nn, torch.nn), strict=True):
        torch.manual_seed(4)
        made.append(ready(lib).orthogonal(layer, **settings))
        torch.manual_seed(5)
        for parameter in layer.parametrizations.parameters():  # the values are moved away from the first ones
            parameter.data.add_(torch.randn(parameter.shape, dtype=torch.float64).tril(-1))
    ours, theirs = made
    assert list(ours.state_dict()) == list(theirs.state_dict())
    twice(ours, theirs, (2, shape[0]))
    weight = ours.weight.data if shape[0] <= shape[1] else ours.weight.data.mT
    torch.testing.assert_close(weight.mT @ weight, torch.eye(weight.shape[1], dtype=torch.float64))


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class TorchDoubled(torch.nn.Module):
    forward, right_inverse = Doubled.forward, Doubled.right_inverse


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class TorchSymmetric(torch.nn.Module):
    forward = Symmetric.forward


def symmetric(lib, *parts):
    layer = lib.Linear(3, 3)
    kinds = {"double": (Doubled, TorchDoubled), "symmetric": (Symmetric, TorchSymmetric)}
    for part in parts:
        parametrize(lib).register_parametrization(layer, "weight", kinds[part][lib is torch.nn]())
    return layer


@pytest.mark.parametrize("parts", [["symmetric"], ["double"], ["symmetric", "double"], ["double", "double"]])
def test_parametrizations_of_ones_own(parts):
    ours, theirs = matched(lambda lib: symmetric(lib, *parts))
    assert type(ours).__name__ == type(theirs).__name__ == "ParametrizedLinear"
    twice(ours, theirs, (2, 3))


def test_a_value_is_assigned_backwards():
    layer = symmetric(nn, "double")
    with nbgrad.no_grad():
        layer.weight = nbgrad.tensor(torch.eye(3) * 4)
    assert torch.equal(layer.weight.data, torch.eye(3) * 4)
    assert torch.equal(layer.parametrizations.weight.original.data, torch.eye(3) * 2)


def test_a_value_cannot_always_be_assigned():
    layer = symmetric(nn, "symmetric")
    with pytest.raises(RuntimeError, match="Symmetric does not implement right_inverse: no value can be assigned"):
        layer.weight = nbgrad.tensor(torch.eye(3))
    layer = ours_ready.orthogonal(nn.Linear(3, 3), use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign to the matrix exponential"):
        layer.weight = nbgrad.tensor(torch.eye(3))


@pytest.mark.parametrize("keep", [True, False])
def test_a_parametrization_is_removed(keep):
    layers = []
    for lib in (nn, torch.nn):
        torch.manual_seed(1)
        layer = symmetric(lib, "symmetric", "double")
        assert parametrize(lib).is_parametrized(layer, "weight")
        parametrize(lib).remove_parametrizations(layer, "weight", keep)
        assert not parametrize(lib).is_parametrized(layer)
        layers.append(layer)
    ours, theirs = layers
    assert type(ours) is nn.Linear
    mine, yours = ours.state_dict(), theirs.state_dict()
    assert mine.keys() == yours.keys() == {"weight", "bias"}
    assert all(torch.equal(mine[key], yours[key]) for key in yours)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_weights_of_their_own(again):
    layer = ours_ready.weight_norm(nn.Linear(4, 3))
    other = again(layer)
    assert torch.equal(other.weight.data, layer.weight.data)
    layer.parametrizations.weight.original0.data.zero_()
    assert layer.weight.data.abs().sum() == 0
    assert other.weight.data.abs().sum() > 0


def test_two_tensors_of_a_module_and_one_removed():
    layer = ours_ready.weight_norm(ours_ready.spectral_norm(nn.Linear(4, 3), "bias"))
    ours_parametrize.remove_parametrizations(layer, "bias")
    assert ours_parametrize.is_parametrized(layer, "weight")
    assert not ours_parametrize.is_parametrized(layer, "bias")
    assert [key for key, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]


def test_a_cached_weight_is_computed_once():
    layer = symmetric(nn, "symmetric")
    with ours_parametrize.cached():
        assert layer.weight is layer.weight
        with ours_parametrize.cached():
            inner = layer.weight
        assert inner is layer.weight
    assert layer.weight is not layer.weight


def test_torchs_are_converted():
    for make in (theirs_ready.weight_norm, theirs_ready.spectral_norm, theirs_ready.orthogonal):
        theirs = make(torch.nn.Linear(4, 3)).double()
        ours = from_torch(copy.deepcopy(theirs))
        assert list(ours.state_dict()) == list(theirs.state_dict())
        twice(ours, theirs, (2, 4))


class Cut(nn.Module):
    def forward(self, x):
        return x[:1]


def test_what_does_not_fit():
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=r"does not have a parameter, a buffer, .* name 'scale'"):
        ours_parametrize.register_parametrization(layer, "scale", Doubled())
    with pytest.raises(ValueError, match=r"may not change the shape of a tensor, .* from \(3, 3\) to \(1, 3\)"):
        ours_parametrize.register_parametrization(layer, "weight", Cut())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        ours_parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'scale'"):
        ours_ready.weight_norm(layer, "scale")
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        ours_ready.spectral_norm(layer, n_power_iterations=0)
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        ours_ready.orthogonal(layer, "bias")
    with pytest.raises(ValueError, match="Got: qr"):
        ours_ready.orthogonal(layer, orthogonal_map="qr")
    with pytest.raises(IndexError, match=r"range of \[-2, 1\] but got 2"):
        ours_ready.spectral_norm(layer, dim=2)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        ours_parametrize.remove_parametrizations(ours_ready.weight_norm(layer), "weight", leave_parametrized=False)
    assert ours_parametrize.register_parametrization(nn.Linear(3, 3), "weight", Cut(), unsafe=True).weight.shape == (
        1,
        3,
    )


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize("nested", [False, True])
def test_files_of_the_older_weight_norm_load(name: str, nested: bool) -> None:
    def made(lib: Any, norm: Any) -> Any:
        inner = norm(lib.Linear(3, 2), name)
        return lib.Sequential(lib.Linear(2, 3), inner) if nested else inner

    old = made(torch.nn, torch.nn.utils.weight_norm)
    results = []
    for lib, norm in (
        (nn, nn.utils.parametrizations.weight_norm),
        (torch.nn, torch.nn.utils.parametrizations.weight_norm),
    ):
        new, state = made(lib, norm), old.state_dict()
        keys = list(state)
        assert new.load_state_dict(state).missing_keys == []
        assert list(state) == keys  # the given state stays as it is
        results.append({key: value.tolist() for key, value in new.state_dict().items()})
        got = getattr(new[1] if nested else new, name)
        torch.testing.assert_close(got.data.detach(), getattr(old[1] if nested else old, name).detach())
        with pytest.raises(RuntimeError, match=f"{name}_g"):
            new.load_state_dict({key: value for key, value in state.items() if not key.endswith("_v")})
        copy.deepcopy(new).load_state_dict(state)
    assert results[0] == results[1]


@pytest.mark.filterwarnings("ignore:.*spectral_norm:FutureWarning")
def test_files_of_the_older_spectral_norm_load() -> None:
    """torch's own parametrization does not load such files."""
    torch.manual_seed(0)
    old = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 2))
    old(torch.ones(1, 3))
    new = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    new.eval(), old.eval()
    x = torch.randn(4, 3)
    torch.testing.assert_close(new(nbgrad.tensor(x)).data.detach(), old(x).detach())
    new.load_state_dict(new.state_dict())


def test_the_renaming_is_pickled_along() -> None:
    new = pickle.loads(pickle.dumps(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))))
    new.load_state_dict({"weight_g": torch.ones(2, 1), "weight_v": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert new.parametrizations.weight.original0.tolist() == [[1.0], [1.0]]


def test_what_torchs_functions_do_to_a_module_of_nbgrads_is_refused() -> None:
    theirs, ready = torch.nn.utils, nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    for call, name in (
        (lambda: theirs.parametrizations.weight_norm(nn.Linear(2, 2)), "parametrizations.weight_norm"),
        (lambda: theirs.parametrizations.spectral_norm(nn.Linear(2, 2)), "parametrizations.spectral_norm"),
        (lambda: theirs.parametrizations.orthogonal(nn.Linear(2, 2)), "parametrizations.orthogonal"),
        (
            lambda: theirs.parametrize.register_parametrization(nn.Linear(2, 2), "weight", torch.nn.ReLU()),
            "parametrize.register_parametrization",
        ),
        (lambda: theirs.parametrize.is_parametrized(ready), "parametrize.is_parametrized"),
        (lambda: theirs.parametrize.remove_parametrizations(ready, "weight"), "parametrize"),
        (lambda: theirs.parametrize.type_before_parametrizations(ready), "parametrize"),
        (lambda: theirs.parametrize.transfer_parametrizations_and_params(ready, nn.Linear(2, 2)), "parametrize"),
    ):
        with pytest.raises(TypeError, match=rf"torch\.nn\.utils\.{name}.*nbgrad\.nn\.utils\.{name}"):
            call()
    assert not theirs.parametrize.is_parametrized(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"nbgrad\.from_torch\(module\) makes one"):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", torch.nn.ReLU())


def test_torchs_own_cache_holds_for_what_nbgrad_computes() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    with torch.nn.utils.parametrize.cached():
        assert module.weight is module.weight
    assert module.weight is not module.weight

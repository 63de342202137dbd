"""torch's older ``weight_norm`` and ``spectral_norm``, in which a hook computes the weight before each forward."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.optim.lr_scheduler import _LRScheduler
from tests.nn.alike import check, matched

LAYERS = {
    "linear": (lambda lib: lib.Linear(4, 3), (2, 4), "weight"),
    "convolution": (lambda lib: lib.Conv2d(2, 3, 3), (2, 2, 5, 5), "weight"),
    "transposed": (lambda lib: lib.ConvTranspose2d(2, 3, 3), (2, 2, 5, 5), "weight"),
    "recurrent": (lambda lib: lib.RNNCell(4, 4), (2, 4), "weight_hh"),
}
deprecated = pytest.mark.filterwarnings(
    "ignore:.*weight_norm. is deprecated:FutureWarning", "ignore:nn.utils.weight_norm"
)


def twice(ours: Any, theirs: Any, shape: tuple[int, ...]) -> None:
    """Two forwards: the second one uses state that the first one left."""
    for _ in range(2):
        check(ours, theirs, torch.randn(shape, dtype=torch.float64), tolerance={"rtol": 1e-9, "atol": 1e-11})


@deprecated
@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("name", LAYERS)
def test_weight_norm(name: str, dim: Any) -> None:
    make, shape, weight = LAYERS[name]
    ours, theirs = matched(lambda lib: lib.utils.weight_norm(make(lib), weight, dim))
    twice(ours, theirs, shape)
    ours, theirs = nn.utils.remove_weight_norm(ours, weight), torch.nn.utils.remove_weight_norm(theirs, weight)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    twice(ours, theirs, shape)


@pytest.mark.parametrize("settings", [{}, {"n_power_iterations": 3}, {"dim": 1, "eps": 1e-6}])
@pytest.mark.parametrize("name", LAYERS)
def test_spectral_norm(name: str, settings: Any) -> None:
    make, shape, weight = LAYERS[name]
    ours, theirs = matched(lambda lib: lib.utils.spectral_norm(make(lib), weight, **settings))
    twice(ours, theirs, shape)
    ours.eval(), theirs.eval()
    twice(ours, theirs, shape)
    ours, theirs = nn.utils.remove_spectral_norm(ours, weight), torch.nn.utils.remove_spectral_norm(theirs, weight)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    twice(ours, theirs, shape)


def test_two_forwards_have_one_backward() -> None:
    """The discriminator of a GAN does this: it sees true pictures and false ones."""
    ours, theirs = matched(lambda lib: lib.utils.spectral_norm(lib.Linear(4, 3)))
    true, false = torch.randn(2, 2, 4, dtype=torch.float64)
    for layer, tensor in ((ours, nbgrad.tensor), (theirs, torch.clone)):
        (layer(tensor(true)) - layer(tensor(false)).square()).sum().backward()
    torch.testing.assert_close(ours.weight_orig.grad.data, theirs.weight_orig.grad)


@deprecated
def test_what_does_not_fit() -> None:
    for lib in (nn, torch.nn):
        for put, remove in (
            (lib.utils.weight_norm, lib.utils.remove_weight_norm),
            (lib.utils.spectral_norm, lib.utils.remove_spectral_norm),
        ):
            layer = put(lib.Linear(2, 2))
            with pytest.raises(RuntimeError, match=r"Cannot register two .* hooks on the same parameter weight"):
                put(layer)
            with pytest.raises(ValueError, match="_norm of 'bias' not found in Linear"):
                remove(layer, "bias")
            with pytest.raises(ValueError, match=r"has no shape yet|can't have uninitialized parameters"):
                put(lib.LazyLinear(2))
        with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
            lib.utils.spectral_norm(lib.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match=r"weight_norm\(\): Linear has no parameter 'scale'"):
        nn.utils.weight_norm(nn.Linear(2, 2), "scale")


def test_private_names_that_programs_use() -> None:
    ours, theirs = nn.Conv2d(2, 3, 5).weight, torch.nn.Conv2d(2, 3, 5).weight
    assert nn.init._calculate_fan_in_and_fan_out(ours) == torch.nn.init._calculate_fan_in_and_fan_out(theirs)
    for mode in ("fan_in", "fan_out"):
        assert nn.init._calculate_correct_fan(ours, mode) == torch.nn.init._calculate_correct_fan(theirs, mode)
    assert _LRScheduler is torch.optim.lr_scheduler._LRScheduler

"""Every block next to torch's: initial values, output, gradients, repr, state_dict keys."""

from collections import OrderedDict
from itertools import product

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional

# How a block is made, from our nn or torch's, and the shapes of the inputs it is run on.
BLOCKS = {
    "identity": (lambda lib: lib.Identity(), [(), (3,), (2, 3), (0, 3)]),
    "linear": (lambda lib: lib.Linear(4, 3), [(4,), (5, 4), (2, 5, 4), (2, 1, 2, 4), (0, 4)]),
    "linear without bias": (lambda lib: lib.Linear(4, 3, bias=False), [(4,), (5, 4), (2, 5, 4), (0, 4)]),
    "linear to one": (lambda lib: lib.Linear(4, 1), [(5, 4)]),
    "flatten": (lambda lib: lib.Flatten(), [(2, 3), (2, 3, 4), (0, 3, 4), (2, 1, 3, 2)]),
    "flatten the middle": (lambda lib: lib.Flatten(1, 2), [(2, 3, 4), (2, 3, 4, 5)]),
    "flatten from the end": (lambda lib: lib.Flatten(-2), [(2, 3), (2, 3, 4)]),
    "relu": (lambda lib: lib.ReLU(), [(), (3,), (2, 3), (0, 3)]),
    "relu in place": (lambda lib: lib.ReLU(inplace=True), [(2, 3)]),
    "tanh": (lambda lib: lib.Tanh(), [(), (3,), (2, 3)]),
    "sigmoid": (lambda lib: lib.Sigmoid(), [(), (3,), (2, 3)]),
    "softmax": (lambda lib: lib.Softmax(dim=1), [(2, 3), (2, 3, 4)]),
    "log softmax": (lambda lib: lib.LogSoftmax(dim=-1), [(3,), (2, 3)]),
    "sequential": (lambda lib: lib.Sequential(lib.Linear(4, 6), lib.Tanh(), lib.Linear(6, 3)), [(4,), (5, 4), (0, 4)]),
    "sequential by name": (
        lambda lib: lib.Sequential(OrderedDict([("hidden", lib.Linear(4, 6)), ("act", lib.Tanh())])),
        [(5, 4)],
    ),
    "nested": (
        lambda lib: lib.Sequential(lib.Flatten(), lib.Sequential(lib.Linear(4, 6), lib.ReLU()), lib.Linear(6, 2)),
        [(5, 4), (5, 2, 2)],
    ),
    "empty": (lambda lib: lib.Sequential(), [(2, 3)]),
}
RUNS = [(name, shape) for name, (_, shapes) in BLOCKS.items() for shape in shapes]


def both(name):
    """The block and torch's, made from the same seed, in float64."""
    make, _ = BLOCKS[name]
    torch.manual_seed(3)
    ours = make(nn)
    torch.manual_seed(3)
    return ours.to(torch.float64), make(torch.nn).to(torch.float64)


@pytest.mark.parametrize("name", BLOCKS)
def test_initial_values_and_keys_are_torchs(name):
    make, _ = BLOCKS[name]
    torch.manual_seed(5)
    ours = make(nn).state_dict()
    torch.manual_seed(5)
    theirs = make(torch.nn).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize(("name", "shape"), RUNS)
@pytest.mark.parametrize("contiguous", [True, False])
def test_output_and_gradients_are_torchs(name, shape, contiguous):
    ours, theirs = both(name)
    data = torch.randn(shape, dtype=torch.float64)
    if not contiguous:
        data = torch.stack([data, data], -1)[..., 0]
    x, y = nbgrad.tensor(data, requires_grad=True), data.clone().requires_grad_()
    out, expected = ours(x), theirs(y * 1)
    seed = torch.randn_like(expected)
    out.backward(seed)
    expected.backward(seed)
    torch.testing.assert_close(out.data, expected.detach())
    torch.testing.assert_close(x.grad.data, y.grad)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)


@pytest.mark.parametrize("name", BLOCKS)
def test_repr_is_torchs(name):
    make, _ = BLOCKS[name]
    assert repr(make(nn)) == repr(make(torch.nn))


CLASS_WEIGHT = torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64)
SETTINGS = [
    dict(zip(("weight", "ignore_index", "reduction", "label_smoothing"), values, strict=True))
    for values in product((None, CLASS_WEIGHT), (-100, 1), ("mean", "sum", "none"), (0.0, 0.1))
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("target", ["numbers", "probabilities"])
def test_cross_entropy_is_torchs(settings, target):
    if target == "probabilities" and settings["ignore_index"] == 1:
        settings = {**settings, "ignore_index": -100}
    scores = torch.randn(6, 4, dtype=torch.float64)
    truth = torch.arange(6) % 4 if target == "numbers" else scores.flip(0).softmax(1)
    x, y = nbgrad.tensor(scores, requires_grad=True), scores.clone().requires_grad_()
    loss, expected = nn.CrossEntropyLoss(**settings)(x, truth), torch.nn.CrossEntropyLoss(**settings)(y, truth)
    loss.backward(torch.ones_like(expected))
    expected.backward(torch.ones_like(expected))
    torch.testing.assert_close(loss.data, expected.detach())
    torch.testing.assert_close(x.grad.data, y.grad)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_is_torchs(reduction):
    data, truth = torch.randn(2, 5, 3, dtype=torch.float64)
    x, y = nbgrad.tensor(data, requires_grad=True), data.clone().requires_grad_()
    loss, expected = nn.MSELoss(reduction=reduction)(x, truth), torch.nn.MSELoss(reduction=reduction)(y, truth)
    loss.backward(torch.ones_like(expected))
    expected.backward(torch.ones_like(expected))
    torch.testing.assert_close(loss.data, expected.detach())
    torch.testing.assert_close(x.grad.data, y.grad)


def test_class_weights_are_saved_and_moved_as_torchs_are():
    ours, theirs = nn.CrossEntropyLoss(CLASS_WEIGHT), torch.nn.CrossEntropyLoss(CLASS_WEIGHT)
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight"]
    assert list(nn.CrossEntropyLoss().state_dict()) == []
    assert list(ours.parameters()) == []
    assert ours.to(torch.float32).weight.dtype is torch.float32


def test_parameters_live_where_they_are_asked_to():
    assert nn.Linear(4, 3, device="meta").weight.device.type == "meta"
    with nbgrad.AutogradGraph(device="meta"):
        layer = nn.Linear(4, 3)
        kept = nn.Linear(4, 3, device="cpu")
    assert (layer.weight.device.type, layer.bias.device.type) == ("meta", "meta")
    assert kept.weight.device.type == "cpu"
    assert nn.Linear(4, 3).weight.device.type == "cpu"
    assert nn.Linear(4, 3, dtype=torch.float64).bias.dtype is torch.float64


@pytest.mark.cuda
def test_a_model_trains_on_cuda():
    with nbgrad.AutogradGraph(device="cuda"):
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        loss = nn.CrossEntropyLoss()(model(nbgrad.tensor([[1.0] * 4] * 5)), nbgrad.tensor([0, 1, 2, 0, 1]))
        loss.backward()
    assert all(p.device.type == p.grad.device.type == "cuda" for p in model.parameters())
    assert all(p.device.type == p.grad.device.type == "cpu" for p in model.to("cpu").parameters())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(32, 63), (63,), (2, 3, 1), ()])
def test_a_wrong_shape_is_named_at_the_block(bias, shape):
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(64, 10, bias=bias)(nbgrad.tensor(torch.ones(shape)))
    assert str(caught.value) == f"Linear(in_features=64, out_features=10): expected last dimension 64, got {shape}"


def test_a_wrong_dtype_keeps_the_ops_message():
    with pytest.raises(RuntimeError, match=r"linear\(input of shape \(2, 64\) and dtype float64"):
        nn.Linear(64, 10)(nbgrad.tensor(torch.ones(2, 64, dtype=torch.float64)))


def test_flatten_of_a_dimension_that_does_not_exist():
    with pytest.raises(IndexError, match="Dimension out of range"):
        nn.Flatten()(nbgrad.tensor([1.0, 2.0]))


def test_an_unknown_reduction():
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        nn.MSELoss(reduction="most")(nbgrad.tensor([1.0]), nbgrad.tensor([2.0]))


FUNCTIONS = [name for name in vars(functional) if not name.startswith("_")]


def test_functional_has_torchs_names():
    assert FUNCTIONS
    assert [name for name in FUNCTIONS if not hasattr(torch.nn.functional, name)] == []


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
def test_functional_activations_are_torchs(name):
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(getattr(functional, name)(nbgrad.tensor(x)).data, getattr(torch.nn.functional, name)(x))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_functional_softmax_takes_dim_as_torchs_does(name):
    x, torchs = torch.randn(3, 4, dtype=torch.float64), getattr(torch.nn.functional, name)
    torch.testing.assert_close(getattr(functional, name)(nbgrad.tensor(x), 0).data, torchs(x, 0))
    torch.testing.assert_close(getattr(functional, name)(nbgrad.tensor(x), dim=1).data, torchs(x, dim=1))


def test_functional_linear_and_losses_are_torchs():
    x, w, b = (torch.randn(shape, dtype=torch.float64) for shape in ((5, 4), (3, 4), (3,)))
    out, expected = functional.linear(nbgrad.tensor(x), w, b), torch.nn.functional.linear(x, w, b)
    torch.testing.assert_close(out.data, expected)
    numbers, weight = torch.arange(5) % 3, torch.rand(3, dtype=torch.float64)
    torch.testing.assert_close(
        functional.cross_entropy(out, numbers, weight, label_smoothing=0.1).data,
        torch.nn.functional.cross_entropy(expected, numbers, weight, label_smoothing=0.1),
    )
    torch.testing.assert_close(
        functional.mse_loss(out, expected.flip(0), reduction="sum").data,
        torch.nn.functional.mse_loss(expected, expected.flip(0), reduction="sum"),
    )

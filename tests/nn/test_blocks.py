"""Every block next to torch's: initial values, output, gradients, buffers, repr, state_dict keys, errors."""

import copy
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn import functional
from tests import lacking
from tests.nn.alike import TIGHT, check, matched, raw, same
from tests.nn.block_rows import LAZY, ROWS, tensors
from tests.nn.loss_rows import LOSSES, WEIGHT

TABLE = {**ROWS, **LOSSES}
COMPARED, COMPARED_LAZY = lacking.rows(TABLE), lacking.rows(LAZY)
WARNS = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own: both libraries get the same lines


LOOSE = {**TIGHT, "equal_nan": True}  # the mean of no elements is NaN, here as in torch


def strided(value: Any) -> Any:
    """The same values, in memory that is not contiguous."""
    return torch.stack([value, value], -1)[..., 0]


def flat(values: Any) -> list[Any]:
    """The tensors in what a block returned."""
    return [one for value in values for one in flat(value)] if isinstance(values, tuple) else [values]


def run(lib: Any, block: Any, inputs: list[Any], change: Any) -> tuple[list[Any], list[Any]]:
    """The outputs, and the gradients of the inputs and of the parameters."""
    leaves: list[Any] = []
    for value in inputs:
        data = change(value.detach()) if value.requires_grad else value
        made = nbgrad.tensor(data) if lib is nn else data
        leaves.append(made.requires_grad_() if value.requires_grad else made)
    torch.manual_seed(11)
    out = flat(block(*leaves))
    torch.manual_seed(12)
    loss = sum((one * torch.randn_like(raw(one))).sum() for one in out if one.requires_grad)
    block.zero_grad()
    if not isinstance(loss, int):
        loss.backward()
    return out, [one.grad for one in [*leaves, *block.parameters()] if one.requires_grad]


def tolerance_of(block: str) -> dict[str, Any]:
    """The tolerance in float64. torch's gradient of hardsigmoid uses 1/6 in float32, so only 7 digits agree."""
    return {"rtol": 1e-7, "atol": 1e-9} if block.startswith("Hardsigmoid") else LOOSE


def compare(ours: Any, theirs: Any, inputs: list[Any], change: Any = torch.clone, tolerance: Any = LOOSE) -> None:
    out, gradients = run(nn, ours, inputs, change)
    expected, expected_gradients = run(torch.nn, theirs, inputs, change)
    assert [one.requires_grad for one in out] == [one.requires_grad for one in expected]
    same(out, expected, tolerance)
    same(gradients, expected_gradients, tolerance)
    mine, yours = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(yours)
    same(list(mine.values()), list(yours.values()), tolerance)


@pytest.mark.sampled(4)
@WARNS
@pytest.mark.parametrize("name", COMPARED)
def test_initial_values_and_keys_are_torchs(name):
    matched(TABLE[name].make)


@WARNS
@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_output_gradients_and_buffers_are_torchs(name, training):
    for given in TABLE[name].inputs:
        ours, theirs = matched(TABLE[name].make)
        inputs = tensors(given)
        for _ in range(2):  # the second call has the statistics of the first
            compare(ours.train(training), theirs.train(training), inputs, tolerance=tolerance_of(name))


@pytest.mark.sampled(8)
@WARNS
@pytest.mark.parametrize("name", COMPARED)
def test_inputs_need_not_be_contiguous(name):
    compare(*matched(TABLE[name].make), tensors(TABLE[name].inputs[-1]), change=strided, tolerance=tolerance_of(name))


@pytest.mark.sampled(8)
@WARNS
@pytest.mark.parametrize("name", COMPARED)
def test_single_precision_is_torchs(name):
    inputs = [
        value.detach().float().requires_grad_(value.requires_grad) if value.is_floating_point() else value
        for value in tensors(TABLE[name].inputs[0])
    ]
    compare(*matched(TABLE[name].make, torch.float32), inputs, tolerance={"equal_nan": True})


@pytest.mark.sampled(4)
@WARNS
@pytest.mark.parametrize("name", COMPARED)
def test_repr_is_torchs(name):
    assert lacking.printed(TABLE[name].make(nn)) == repr(TABLE[name].make(torch.nn))


@pytest.mark.sampled(8)
@WARNS
@pytest.mark.parametrize("name", COMPARED)
def test_weights_go_both_ways(name):
    ours, theirs = TABLE[name].make(nn).double(), TABLE[name].make(torch.nn).double()
    inputs = tensors(TABLE[name].inputs[0])
    assert not any(ours.load_state_dict(theirs.state_dict()))
    compare(ours.eval(), theirs.eval(), inputs, tolerance=tolerance_of(name))
    fresh = TABLE[name].make(torch.nn).double()
    assert not any(fresh.load_state_dict(ours.state_dict()))
    compare(ours.eval(), fresh.eval(), inputs, tolerance=tolerance_of(name))


@WARNS
@pytest.mark.parametrize("name", COMPARED_LAZY)
def test_lazy_blocks_become_torchs(name):
    torch.manual_seed(3)
    ours = LAZY[name].make(nn)
    torch.manual_seed(3)
    theirs = LAZY[name].make(torch.nn)
    assert lacking.printed(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for block in (ours, theirs):
        block.double()
    inputs = tensors(LAZY[name].inputs[0])
    saved, waiting = copy.deepcopy(ours), copy.deepcopy(ours)
    torch.manual_seed(4)
    ours(nbgrad.tensor(inputs[0]))
    torch.manual_seed(4)
    theirs(inputs[0])
    assert type(ours).__name__ == type(theirs).__name__
    assert lacking.printed(ours) == repr(theirs)
    compare(ours, theirs, inputs)
    waiting.load_state_dict(theirs.state_dict())
    compare(waiting.eval(), theirs.eval(), inputs)
    saved.load_state_dict(copy.deepcopy(saved).state_dict())
    assert list(saved.state_dict()) == list(ours.state_dict())


@pytest.mark.sampled(8)
@WARNS
@pytest.mark.parametrize("name", TABLE)
def test_what_a_block_computes_is_in_its_box(name):
    inputs = tensors(TABLE[name].inputs[0])
    block = TABLE[name].make(nn).double()
    with nbgrad.AutogradGraph() as graph:
        block(*[nbgrad.tensor(value, requires_grad=value.requires_grad) for value in inputs])
    ops = [record for record in graph.records if record.op is not None]
    assert all(record.scope is not None for record in ops)
    outermost = {scopes(record.scope)[0] for record in ops}
    assert outermost <= {type(block).__name__}


def scopes(scope: Any) -> list[str]:
    labels: list[str] = []
    while scope is not None:
        labels.insert(0, scope.label)
        scope = scope.parent
    return labels


@pytest.mark.parametrize("channels", [2, 3, 8])
@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_cross_map_lrn_computes_what_torchs_does_with_the_gradient_of_that(channels, size):
    ours, theirs = (lib.CrossMapLRN2d(size, 0.5, 0.6, 1.5) for lib in (nn, torch.nn))
    x = torch.randn(2, channels, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(ours(nbgrad.tensor(x)).data, theirs(x), **TIGHT)
    assert repr(ours) == repr(theirs)
    # torch's gradient is not that of its output: torch.autograd.gradcheck says so
    assert nbgrad.gradcheck(ours, (nbgrad.tensor(x, requires_grad=True),))


def test_class_weights_are_saved_and_moved_as_torchs_are():
    ours, theirs = nn.CrossEntropyLoss(WEIGHT), torch.nn.CrossEntropyLoss(WEIGHT)
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


FUNCTIONS = functional.__all__


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


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_the_numbers_of_a_padding_are_as_many_as_torch_takes(mode):
    def make(lib, padding):
        return lib.Conv2d(2, 3, 2, padding=padding, padding_mode=mode)

    ours, theirs = matched(lambda lib: make(lib, (1, 2)))
    check(ours, theirs, torch.randn(1, 2, 4, 5, dtype=torch.float64))
    if mode != "circular":  # a single number pads only the last dimension
        check(*matched(lambda lib: make(lib, (1,))), torch.randn(2, 4, 5, dtype=torch.float64))
    for lib, value in ((nn, nbgrad.tensor), (torch.nn, torch.Tensor.clone)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            make(lib, (2, 0, 0))(value(torch.randn(2, 3, 4)))
        with pytest.raises((RuntimeError, NotImplementedError)):
            make(lib, (1, 1, 1))(value(torch.randn(1, 2, 3, 4)))


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(7 / 2, 3), lambda: nn.Conv2d(1, 2, 3.0), lambda: nn.Embedding(4.0, 2)]
)
def test_a_size_that_is_no_whole_number_is_refused_with_how_to_divide(make):
    with pytest.raises(TypeError, match=r"are whole numbers, not \(.*\): a // b divides to one"):
        make()

"""An input of the wrong shape: the error names the block by its path, and says what was expected."""

from contextlib import nullcontext

import pytest
import torch

import nbgrad
from nbgrad import nn

MISFITS = {
    "Linear": (lambda n: n.Linear(4, 3), (2, 5), "expected last dimension 4, got 5"),
    "Linear, rank 0": (lambda n: n.Linear(4, 3), (), "expected last dimension 4, got an input without dimensions"),
    "Bilinear": (lambda n: n.Bilinear(4, 4, 3), (2, 5), "expected last dimension 4, got 5"),
    "Conv1d": (lambda n: n.Conv1d(3, 2, 2), (2, 4, 6), "expected 3 channels, got 4"),
    "Conv2d": (lambda n: n.Conv2d(3, 2, 2), (6, 6), "expected 3 or 4 dimensions, got 2"),
    "Conv3d": (lambda n: n.Conv3d(3, 2, 2), (2, 2, 4, 4, 4), "expected 3 channels, got 2"),
    "ConvTranspose2d": (lambda n: n.ConvTranspose2d(3, 2, 2), (2, 2, 4, 4), "expected 3 channels, got 2"),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(3), (2, 4), "expected 3 channels, got 4"),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(3), (2, 3), "expected 4 dimensions, got 2"),
    "InstanceNorm1d": (lambda n: n.InstanceNorm1d(3, affine=True), (2, 4, 5), "expected 3 channels, got 4"),
    "GroupNorm": (lambda n: n.GroupNorm(2, 4), (2, 6, 5), "expected 4 channels, got 6"),
    "LayerNorm": (lambda n: n.LayerNorm(4), (2, 6), "expected last dimension 4, got 6"),
    "LayerNorm, two": (lambda n: n.LayerNorm((2, 4)), (2, 6), "expected last dimensions (2, 4), got (2, 6)"),
    "RMSNorm": (lambda n: n.RMSNorm(4), (2, 6), "expected last dimension 4, got 6"),
    "MaxPool2d": (lambda n: n.MaxPool2d(2), (6, 6), "expected 3 or 4 dimensions, got 2"),
    "AvgPool1d": (lambda n: n.AvgPool1d(2), (6,), "expected 2 or 3 dimensions, got 1"),
    "ReflectionPad2d": (lambda n: n.ReflectionPad2d(1), (6, 6), "expected 3 or 4 dimensions, got 2"),
    "CircularPad1d": (lambda n: n.CircularPad1d(1), (6,), "expected 2 or 3 dimensions, got 1"),
    "PReLU": (lambda n: n.PReLU(3), (2, 4), "expected 3 channels, got 4"),
}


@pytest.mark.parametrize(("make", "shape", "message"), MISFITS.values(), ids=list(MISFITS))
def test_a_misfit_is_named_at_the_block(make, shape, message):
    block, theirs = make(nn), make(torch.nn)
    args = [nbgrad.tensor(torch.ones(shape))] * (2 if isinstance(block, nn.Bilinear) else 1)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        block(*args)
    end = f", in an input of shape {shape}" if shape else ""
    assert str(caught.value) == f"{type(block).__name__}({block.extra_repr()}): {message}{end}"
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        theirs(*[torch.ones(shape)] * len(args))


class Layer(nn.Module):
    def __init__(self, wrong=False):
        super().__init__()
        self.linear1 = nn.Linear(512 if wrong else 256, 256)

    def forward(self, x):
        return self.linear1(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList([Layer(), Layer(), Layer(), Layer(wrong=True)])

    def forward(self, x):
        for layer in self.encoder.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("graph", [False, True])
def test_a_misfit_in_a_model_is_named_by_its_path(graph):
    x = nbgrad.tensor(torch.ones(2, 256))
    with nbgrad.AutogradGraph() if graph else nullcontext(), pytest.raises(RuntimeError) as caught:
        Net()(x)
    assert str(caught.value) == (
        "encoder.layers.3.linear1 (Linear): expected last dimension 512, got 256, in an input of shape (2, 256)"
    )


ones = lambda *shape: nbgrad.tensor(torch.ones(shape))  # noqa: E731
DEEP = {
    "a recurrent layer": (nn.LSTM(2, 3), [ones(5, 2, 7)], "expected last dimension 2, got 7, in an input of"),
    "its rank": (nn.LSTM(2, 3), [ones(7)], "Expected input to be 2D or 3D, got 1D instead"),
    "its states": (nn.GRU(2, 3), [ones(5, 1, 2), ones(1, 1, 4)], "Expected hidden size (1, 1, 3), got [1, 1, 4]"),
    "a cell": (nn.GRUCell(2, 3), [ones(5, 7)], "expected last dimension 2, got 7, in an input of"),
    "its state": (nn.LSTMCell(2, 3), [ones(5, 2), (ones(5, 4),) * 2], "Expected hidden size (5, 3), got (5, 4)"),
    "queries": (nn.MultiheadAttention(4, 2), [ones(3, 1, 5)] * 3, "expected query with last dimension 4, got 5"),
    "keys": (nn.MultiheadAttention(4, 2), [ones(3, 1, 4), *[ones(3, 1, 5)] * 2], "expected key with last dimension 4"),
}


@pytest.mark.parametrize(("block", "args", "message"), DEEP.values(), ids=list(DEEP))
def test_a_misfit_of_blocks_that_check_themselves_is_named_by_its_path(block, args, message):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Identity(), block])

        def forward(self, *args):
            return self.parts[1](*args)

    with pytest.raises((RuntimeError, ValueError, AssertionError)) as caught:
        Holder()(*args)
    assert str(caught.value).startswith(f"parts.1 ({type(block).__name__}): {message}")


def test_a_misfit_deep_in_a_transformer_is_named_by_its_path():
    model = nn.Transformer(4, 2, 1, 2, 8)
    with pytest.raises(
        AssertionError, match=r"^layers\.0\.multihead_attn \(MultiheadAttention\): expected key .* 4, got 6"
    ):
        model.decoder(ones(3, 1, 4), ones(3, 1, 6))


def test_another_error_in_a_model_gets_a_note_with_the_path():
    model = nn.Sequential(nn.Sequential(nn.Identity(), nn.Linear(3, 3)))
    with pytest.raises(RuntimeError, match=r"^linear\(input of shape") as caught:
        model(nbgrad.tensor(torch.ones(2, 3, dtype=torch.float64)))
    assert caught.value.__notes__ == ["in 0.1 (Linear)"]


def test_the_error_of_a_block_from_elsewhere_keeps_its_message():
    outside = nn.Linear(3, 3)

    class Borrower(nn.Module):
        def forward(self, x):
            return outside(x)

    with pytest.raises(RuntimeError, match=r"^Linear\(in_features=3, .*: expected last dimension 3, got 2"):
        nn.Sequential(Borrower())(nbgrad.tensor(torch.ones(2, 2)))

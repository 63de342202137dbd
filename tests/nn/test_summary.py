"""The table of a model's parts: what it says, and that it leaves the model as it was."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch
from nbgrad.nn.summary import summary

TABLE = """\
module   class       output  parameters  FLOPs  saved
-----------------------------------------------------
(model)  Sequential  (2, 3)          67    224   96 B
0        Linear      (2, 8)          40    128   32 B
1        ReLU        (2, 8)           0      0   64 B
2        Sequential  (2, 3)          27     96    0 B
2.0      Linear      (2, 3)          27     96    0 B
-----------------------------------------------------
parameters: 67, of which 40 trainable and 27 frozen
one forward: 224 FLOPs in products and convolutions, 96 B saved for the backward"""


def perceptron():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 3)))
    model[2].requires_grad_(False)
    return model


@pytest.mark.parametrize(
    "given", [(2, 4), torch.ones(2, 4), nbgrad.tensor(torch.ones(2, 4)), {"input": torch.ones(2, 4)}]
)
def test_the_table(given):
    table = summary(perceptron(), given)
    assert str(table) == repr(table) == TABLE
    assert (table.parameters, table.trainable, table.frozen, table.flops, table.saved) == (67, 40, 27, 224, 96)


def test_inputs_may_have_any_name():
    """The functions that run the copy take its inputs by name."""

    class Cell(nn.Module):
        def forward(self, run, state):
            return run @ state

    given = {"run": nbgrad.ones(2, 3), "state": nbgrad.ones(3, 4)}
    assert summary(Cell(), given).flops == 2 * 2 * 3 * 4


def test_a_model_on_meta_costs_the_same():
    model = perceptron()
    assert str(summary(model, torch.ones(2, 4, device="meta"))) == TABLE
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())


def test_operations_are_as_torch_counts_them():
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
    with FlopCounterMode(display=False) as counter:
        theirs(torch.zeros(2, 3, 8, 8))
    assert summary(from_torch(theirs), (2, 3, 8, 8)).flops == counter.get_total_flops()


def test_operations_of_what_torch_does_not_count():
    steps, batch = 5, 2
    assert summary(nn.LSTM(4, 8, 2), (steps, batch, 4)).flops == 2 * steps * batch * 32 * (4 + 8 + 8 + 8)
    assert summary(nn.GRU(4, 8), (steps, batch, 4)).flops == 2 * steps * batch * 24 * (4 + 8)
    attention = summary(nn.MultiheadAttention(8, 2), {name: torch.ones(5, 1, 8) for name in ("query", "key", "value")})
    assert attention.flops == 2 * (4 * 5 * 8 * 8 + 2 * 5 * 5 * 8)


def test_what_is_saved_is_counted_once():
    class Squares(nn.Module):
        def forward(self, x):
            y = x * 2
            return y * y + y.exp()

    model = nn.Sequential(nn.Linear(4, 4, bias=False), Squares(), Squares())
    # Saved are the input of the linear layer, and for each square the doubled input and the exponential.
    assert summary(model, (2, 4)).saved == 2 * 4 * 4 * (1 + 2 * 2)


def test_the_model_stays_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout())
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    summary(model, torch.randn(8, 4, generator=torch.Generator()))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model._hooks is None


def test_modules_that_are_not_called_and_shared_ones():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(3, 3)])
            self.same = self.parts[0]

        def forward(self, x):
            return self.same(self.parts[0](x))

    lines = summary(Twice(), (1, 3)).lines
    assert [(line.path, line.shapes) for line in lines] == [("", [(1, 3)]), ("parts", []), ("parts.0", [(1, 3)])]
    assert [line.parameters for line in lines] == [12, 12, 12]
    assert [line.flops for line in lines] == [36, 36, 36]


def test_a_wrong_input_is_named_at_the_block():
    with pytest.raises(RuntimeError, match=r"0 \(Linear\): expected last dimension 4"):
        summary(perceptron(), (2, 5))


def test_a_lazy_model_is_counted_as_it_will_be_and_stays_lazy():
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.Linear(4, 2))
    built = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    x = nbgrad.tensor(torch.ones(5, 3))
    state = torch.get_rng_state()
    assert str(nn.summary(model, x)) == str(nn.summary(built, x))
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(model[0].weight, nn.UninitializedParameter)
    assert isinstance(model[2], nn.LazyBatchNorm1d)

"""The table of a model's parts: what it says, and that it leaves the model as it was."""

import re
import time

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


# Modules of torch's.


class Attention(torch.nn.Module):
    """A model with a product of its own, a branch, a shared layer and a layer that is not called."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(8, 3)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, words, scale):
        x = self.embedding(words)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.drop(self.norm(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x) @ scale, self.head(x.mean(1))


def saved_by_torch(model, *args):
    """The bytes that torch keeps for the backward of one forward, without parameters and buffers."""
    known = {one.untyped_storage()._cdata: one for one in (*model.parameters(), *model.buffers())}
    seen = dict(known)

    def pack(tensor):
        seen.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = model(*args)
    del result
    return sum(one.untyped_storage().nbytes() for key, one in seen.items() if key not in known)


def test_torchs_modules_have_the_same_table():
    theirs = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(8, 3, bias=True))
    )
    theirs[2].requires_grad_(False)
    for given in ((2, 4), torch.ones(2, 4), nbgrad.ones(2, 4), {"input": torch.ones(2, 4)}):
        assert str(summary(theirs, given)) == TABLE
    assert str(summary(theirs, torch.ones(2, 4, device="meta"))) == TABLE
    assert str(summary(from_torch(theirs), (2, 4))) == TABLE


def test_a_torch_model_has_the_operations_and_bytes_that_torch_counts():
    model, words, scale = Attention(), torch.arange(10).view(2, 5), torch.ones(3, 4)
    table = summary(model, (words, scale))
    with FlopCounterMode(display=False) as counter:
        model(words, scale)
    lines = {line.path: line for line in table.lines}
    products = 2 * (2 * 2 * 2 * 5 * 5 * 4)  # two in attention, which torch leaves out on a CPU
    assert table.flops == counter.get_total_flops() + products
    assert table.saved == saved_by_torch(model, words, scale)
    assert lines[""].shapes == [(2, 5, 4), (2, 3)]
    assert lines["head"].flops == 2 * (10 + 2) * 8 * 3
    assert lines[""].flops - sum(lines[path].flops for path in ("attention", "head")) == 2 * 10 * 3 * 4
    assert lines["attention"].flops >= 2 * (4 * 10 * 8 * 8)
    assert lines["unused"].shapes == []
    assert lines["unused"].parameters == 6
    assert lines["drop"].saved > 0
    assert table.parameters == sum(one.numel() for one in model.parameters())
    assert lines["attention.out_proj"].kind == "NonDynamicallyQuantizableLinear"


@pytest.mark.parametrize("on", [True, False])
def test_a_torch_model_stays_as_it_was(on):
    model = Attention().train(on)
    given = (torch.arange(10).view(2, 5), torch.ones(3, 4))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    with nbgrad.record(view="none") as graph, torch.no_grad():
        table = summary(model, given, time=True)
    assert graph.records == []
    assert table.saved > 0
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(not one._forward_hooks and not one._forward_pre_hooks for one in model.modules())


def test_a_lazy_torch_model_is_counted_as_it_will_be_and_stays_lazy():
    model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    built = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert summary(model, torch.ones(5, 3)).parameters == summary(built, torch.ones(5, 3)).parameters
    assert isinstance(model[0].weight, torch.nn.UninitializedParameter)


def test_a_weight_that_a_hook_computes_is_no_obstacle():
    with pytest.warns(FutureWarning):
        model = torch.nn.utils.weight_norm(torch.nn.Linear(4, 3))
    assert summary(model, (2, 4)).flops == 2 * 2 * 4 * 3
    parametrized = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))
    assert summary(parametrized, (2, 4)).flops == 2 * 2 * 4 * 3


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_module_counts_for_the_one_around_it():
    part = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3))
    scripted = torch.jit.script(part)
    whole, around = summary(scripted, (2, 4)), summary(torch.nn.Sequential(scripted, torch.nn.ReLU()), (2, 4))
    flops = 2 * 2 * (4 * 8 + 8 * 3)
    assert [(line.path, line.kind) for line in whole.lines] == [("", "Sequential"), ("0", "Linear"), ("1", "Linear")]
    assert whole.lines[0].shapes == around.lines[0].shapes == [(2, 3)]
    assert whole.flops == around.flops == flops
    assert whole.parameters == 4 * 8 + 8 + 8 * 3 + 3


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_sparse_gradient_and_a_compiled_wrapper_are_no_obstacles():
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2))
    words = torch.arange(4)
    assert summary(model, words).saved == saved_by_torch(model, words)
    assert str(summary(torch.compile(torch.nn.Linear(4, 3)), (2, 4))) == str(summary(torch.nn.Linear(4, 3), (2, 4)))


def test_recurrent_layers_of_torchs():
    assert summary(torch.nn.LSTM(4, 8, 2), (5, 2, 4)).flops == 2 * 5 * 2 * 32 * (4 + 8 + 8 + 8)
    assert summary(torch.nn.GRU(4, 8), (5, 2, 4)).flops == 2 * 5 * 2 * 24 * (4 + 8)


def test_a_wrong_input_of_a_torch_model_is_named_at_the_module():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.Linear(3, 2)))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        summary(model, (2, 4))
    assert caught.value.__notes__ == ["It was raised in the module 1.0 (Linear)."]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.relu, r"summary\(\) takes a module of nbgrad.nn or torch.nn, not builtin_function_or_method"),
        (torch.ones(2), r"summary\(\) takes a module of nbgrad.nn or torch.nn, not torch.Tensor"),
        (torch.nn.ReLU, r"summary\(\) takes a module, not its class: make one with ReLU\(\.\.\.\)"),
        (nn.ReLU, r"summary\(\) takes a module, not its class: make one with ReLU\(\.\.\.\)"),
    ],
)
def test_what_is_no_module_is_refused(given, message):
    with pytest.raises(TypeError, match=message):
        summary(given, (2, 4))


# Times.


class Slow(torch.nn.Module):
    def forward(self, x):
        time.sleep(0.1)
        return x


class OwnSlow(nn.Module):
    def forward(self, x):
        time.sleep(0.1)
        return x


@pytest.mark.parametrize("kind", ["torch", "nbgrad"])
def test_the_time_of_each_module(kind):
    space, slow = (torch.nn, Slow) if kind == "torch" else (nn, OwnSlow)
    model = space.Sequential(space.Linear(4, 4), space.Sequential(slow(), slow()), slow())
    table = summary(model, (2, 4), time=True)
    lines = {line.path: line for line in table.lines}
    assert 0.1 <= lines["1.0"].seconds < 0.2
    assert 0.2 <= lines["1"].seconds < 0.3
    assert lines["1"].seconds == pytest.approx(lines["1.0"].seconds + lines["1.1"].seconds, rel=0.05)
    assert 0 < lines["0"].seconds < 0.1
    assert 0.3 <= table.seconds == lines[""].seconds < 0.45
    assert str(table).splitlines()[0].split()[-2:] == ["saved", "time"]
    assert re.search(r"saved for the backward, \d[\d.]* ms$", str(table))


def test_without_a_wish_and_on_meta_there_is_no_time():
    model = torch.nn.Linear(4, 4)
    assert summary(model, (2, 4)).seconds is None
    assert summary(model, torch.ones(2, 4, device="meta"), time=True).seconds is None

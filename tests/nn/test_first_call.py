"""The first call of a converted module is compared with torch's own forward: no silent difference, nothing changed."""

import copy
import pickle
import random
import warnings
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn as tnn

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))


def x():
    return nbgrad.tensor(X.clone())


def armed(module):
    return [path for path, one in module.named_modules() if one._hooks is not None]


def numbers_drawn():
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()), torch.rand(2).tolist()


class Asks(tnn.Module):
    """Takes another branch for tensors that are not torch's."""

    def __init__(self, by=2.0):
        super().__init__()
        self.linear = tnn.Linear(3, 3)
        self.by = by

    def forward(self, x):
        x = self.linear(x)
        return x * self.by if type(x) is torch.Tensor else x


class Deep(tnn.Module):
    def __init__(self, inner):
        super().__init__()
        self.stem = tnn.Sequential(tnn.Linear(3, 3), tnn.BatchNorm1d(3), tnn.Dropout(0.5))
        self.blocks = tnn.ModuleList([tnn.Linear(3, 3), inner])
        self.calls = 0
        self.seen = []
        self.by_name = {"calls": [0]}

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape)
        self.by_name["calls"][0] += 1
        x = self.stem(x) * random.random() * np.random.rand()
        for block in self.blocks:
            x = block(x)
        return x + torch.rand_like(x)


WORDS = r"first call of {} does not do what torch's own .*: the output.* differs by up to [\d.]+, [\d.]+ of its .*"
WHY = r"compares type\(x\).*assert_gradients_close\(model, net, inputs\) names the first op that differs.*%%autograd"


def test_another_branch_is_an_error_that_says_how_to_find_it():
    ours = from_torch(Asks())
    with pytest.raises(RuntimeError, match=WORDS.format("Asks") + WHY):
        ours(x())
    ours = from_torch(Deep(Asks()))
    for _ in range(2):  # the second call raises as well
        with pytest.raises(RuntimeError, match=WORDS.format("Deep") + WHY):
            ours(x())
    assert from_torch(Asks(), check=False)(x()).shape == (4, 3)
    assert from_torch(Asks(by=1.0))(x()).shape == (4, 3)


def held(model):
    state = {key: value.clone() for key, value in model.state_dict().items()}
    return state, model.calls, list(model.seen), copy.deepcopy(model.by_name)


def same(one, other):
    assert one[1:] == other[1:]
    assert all(torch.equal(one[0][key], other[0][key]) for key in one[0])


def test_an_error_leaves_torchs_model_and_the_random_numbers_as_they_were():
    theirs = Deep(Asks())
    ours = from_torch(theirs)
    kept = theirs.calls, list(theirs.seen), copy.deepcopy(theirs.by_name)
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    drawn = numbers_drawn()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    given = x()
    with pytest.raises(RuntimeError, match="does not do"):
        ours(given)
    assert numbers_drawn() == drawn
    assert held(theirs)[1:] == kept
    assert ours.calls == 1
    assert torch.equal(given.data, X)
    assert armed(ours)


@pytest.mark.parametrize("training", [True, False])
def test_what_is_equal_runs_once_and_costs_nothing_afterwards(training):
    theirs = Deep(tnn.Tanh()).train(training)
    plain, ours = from_torch(copy.deepcopy(theirs), check=False), from_torch(copy.deepcopy(theirs))
    assert armed(ours)
    assert not armed(plain)
    for _ in range(2):
        results = []
        for net, given in ((plain, x()), (ours, x()), (theirs, X)):
            torch.manual_seed(3)
            random.seed(3)
            np.random.seed(3)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                results.append((net(given).detach(), numbers_drawn()))
        assert torch.equal(results[0][0].data, results[1][0].data)
        assert torch.equal(results[0][0].data, results[2][0])
        assert results[0][1] == results[1][1] == results[2][1]
        same(held(plain), held(ours))
        same(held(theirs), held(ours))
        assert not armed(ours)
    assert [record for record in vars(ours) if record.startswith("_h")] == []


def test_the_gradients_of_the_first_call():
    theirs = Deep(tnn.Tanh())
    ours = from_torch(copy.deepcopy(theirs))
    found = []
    for net, given in ((ours, nbgrad.tensor(X, requires_grad=True)), (theirs, X.clone().requires_grad_())):
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        (net(given) ** 2).sum().backward()
        found.append([given.grad, *(one.grad for one in net.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.data, other)


def test_a_graph_shows_the_first_call_once():
    theirs = Deep(tnn.Tanh())
    seen = []
    for check in (False, True):
        ours = from_torch(copy.deepcopy(theirs), check=check)
        with nbgrad.record(view="none") as graph:
            ours(x()).sum().backward()
        seen.append([(one.op and one.op.name, one.scope and one.scope.path(), one.place) for one in graph.records])
    assert [one[:2] for one in seen[0]] == [one[:2] for one in seen[1]]


class Kind(tnn.Module):
    """Returns the result of ``run`` on its input."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, *args, **kwargs):
        return self.run(*args, **kwargs)


@dataclass
class Result:
    logits: object
    others: tuple = ()
    note: str = ""


class Output(OrderedDict):
    def __getattr__(self, name):
        return self[name]


def is_torchs(value):
    return type(value) is torch.Tensor


STRUCTURES = {
    "tuple": lambda x: (x, x + is_torchs(x)),
    "dict": lambda x: {"a": x, "b": [x, (x + is_torchs(x),)]},
    "dataclass": lambda x: Result(x, (x, x * (1 + is_torchs(x)))),
    "ordered": lambda x: Output(a=x, b=x - 1.0 * is_torchs(x)),
    "number": lambda x: (x, 3.0 + is_torchs(x)),
    "count": lambda x: [x] * (2 + is_torchs(x)),
    "keys": lambda x: {"a": x} | ({"b": x} if is_torchs(x) else {}),
    "kind": lambda x: x if is_torchs(x) else None,
    "whole numbers": lambda x: (x > 0) if is_torchs(x) else (x < 0),
    "type": lambda x: x.double() if is_torchs(x) else x,
    "shape": lambda x: x[:2] if is_torchs(x) else x,
    "nan": lambda x: x / 0 * 0 if is_torchs(x) else x,
    "note": lambda x: Result(x, (), "torch" if is_torchs(x) else "other"),
    "named": lambda x, by: x * by if is_torchs(by["b"][0]) else x,
    "error": lambda x: x + torch.ones(7, 7) if is_torchs(x) else x,
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_differences_in_any_structure_are_found(name):
    ours = from_torch(Kind(STRUCTURES[name]))
    named = {"by": {"b": [nbgrad.tensor(2.0)]}} if name == "named" else {}
    with pytest.raises(RuntimeError, match=r"from_torch\(\): the first call of Kind does not do"):
        ours(x(), **named)


EQUAL = {
    "nested": lambda x: Result({"a": [x, (x, None)]}, (x.max(0), x.topk(2)), "same"),
    "nan": lambda x: (x - x) / (x - x),
    "infinite": lambda x: x / 0,
    "in place": lambda x: x.mul_(2).add_(1),
    "whole": lambda x: (x.argmax(), x > 0, x.long()),
    "empty": lambda x: x[:0],
    "complex": torch.fft.fft,
    "half": lambda x: x.bfloat16() @ x.bfloat16().T,
    "draws": lambda x: torch.nn.functional.dropout(x, 0.5) + torch.randn_like(x),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_is_no_difference(name):
    ours = from_torch(Kind(EQUAL[name]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours(x())
    assert not armed(ours)


def test_inputs_are_copied_for_torch():
    def run(x, cache, *, memory):
        x.add_(1)
        cache["keys"].append(x)
        memory.count += 1
        memory.last = x
        return x * len(cache["keys"]) * memory.count

    class Memory:
        count = 0
        last = None

    ours = from_torch(Kind(run))
    given, cache, memory = x(), {"keys": []}, Memory()
    out = ours(given, cache, memory=memory)
    torch.testing.assert_close(out.data, X + 1)
    torch.testing.assert_close(given.data, X + 1)
    assert len(cache["keys"]) == memory.count == 1
    assert memory.last is given


def test_what_is_random_in_a_way_of_its_own_cannot_be_compared():
    state = [0]

    def run(x):
        state[0] += 1
        return x * state[0]

    ours = from_torch(Kind(run))
    with pytest.warns(UserWarning, match=r"not be compared .*: torch's own forward returns other numbers each time"):
        ours(x())
    assert not armed(ours)
    generator = torch.Generator().manual_seed(3)
    module = Kind(lambda x: x)
    module.generator = generator

    class Draws(tnn.Module):
        def __init__(self):
            super().__init__()
            self.generator = torch.Generator().manual_seed(3)

        def forward(self, x):
            return x + torch.rand(3, generator=self.generator)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = from_torch(Draws())
        first = ours(x())
    torch.testing.assert_close(first.data, X + torch.rand(3, generator=generator))


def test_what_prints_prints_once(capsys):
    from_torch(Kind(lambda x: print("here") or x))(x())
    assert capsys.readouterr().out == "here\n"


def test_hooks_of_the_users_run_in_both():
    theirs = tnn.Sequential(tnn.Linear(3, 3), tnn.Tanh())
    theirs[0].register_forward_hook(lambda module, args, out: out * 2)
    theirs[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    ours = from_torch(copy.deepcopy(theirs))
    torch.testing.assert_close(ours(x()).data, theirs(X).detach())
    ours = from_torch(theirs)
    ours[0].register_forward_hook(lambda module, args, out: out + out.grad_fn.op.arity)  # only our nodes have ``op``
    with pytest.warns(UserWarning, match="could not be compared"):
        ours(x())


def test_parts_are_compared_by_themselves():
    ours = from_torch(Deep(Asks()))
    ours.stem(x())
    assert not any(path.startswith("stem") for path in armed(ours))
    with pytest.raises(RuntimeError, match="first call of Asks"):
        ours.blocks[1](x())
    with pytest.raises(RuntimeError, match="first call of Deep"):
        ours(x())


def test_a_model_that_changed_since_is_compared_as_it_is():
    ours = from_torch(Deep(tnn.Tanh()))
    ours.double().eval()
    ours.stem[2].p = 0.0
    ours.calls = 5
    ours.blocks[0].weight.data.mul_(2)
    ours(nbgrad.tensor(X, dtype=torch.float64))
    assert ours.calls == 6
    ours = from_torch(tnn.Sequential(Asks(), tnn.Tanh()))
    ours[1] = nn.ReLU()  # nbgrad's own block, in a place where torch has none
    with (
        pytest.warns(UserWarning, match="could not be compared .*: Sequential holds a ReLU that is nbgrad's own"),
        pytest.raises(RuntimeError, match="first call of Asks"),
    ):
        ours(x())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_compared_too(again):
    ours = again(from_torch(Asks()))
    with pytest.raises(RuntimeError, match="does not do"):
        ours(x())
    ours = again(from_torch(Deep(tnn.Tanh())))
    ours(x())
    assert not armed(again(ours))


def test_each_mode_is_compared_once():
    class Evaluates(tnn.Module):
        def forward(self, x):
            return x * 2 if not self.training and type(x) is torch.Tensor else x

    ours = from_torch(tnn.Sequential(tnn.Linear(3, 3), Evaluates()))
    ours(x())
    assert not armed(ours)
    ours.train()
    assert not armed(ours)
    ours.eval()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=WORDS.format("Sequential") + WHY):
            ours(x())
    ours.train()
    ours(x())
    fine = from_torch(Deep(tnn.Tanh()))
    for mode in (True, False, True, False):
        fine.train(mode)
        fine(x())
        assert not armed(fine)
    fine.train()
    assert not armed(fine)


def test_functional_call_compares_with_the_tensors_given():
    ours = from_torch(tnn.Linear(3, 2))
    weight = nbgrad.ones(2, 3, requires_grad=True) * 2
    out = nbgrad.func.functional_call(ours, {"weight": weight, "bias": nbgrad.zeros(2)}, x())
    torch.testing.assert_close(out.data, X @ torch.full((3, 2), 2.0))


def test_no_grad_and_modes():
    def run(x):
        return x * 2 if torch.is_grad_enabled() else x

    for records in (True, False):
        ours = from_torch(Kind(run))
        with torch.set_grad_enabled(records):
            assert torch.equal(ours(x()).data, X * (2 if records else 1))
        assert torch.is_grad_enabled()


def test_recurrent_tied_and_shared_parts():
    shared = tnn.Linear(3, 3)

    class Net(tnn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = tnn.LSTM(3, 3, 2, bidirectional=True)
            self.one, self.two = shared, shared
            self.out = tnn.Linear(3, 3)
            self.out.weight = shared.weight

        def forward(self, x):
            packed = tnn.utils.rnn.pack_padded_sequence(x[None].transpose(0, 1), torch.tensor([4]))
            out, _ = self.rnn(packed)
            return self.out(self.two(self.one(out.data[:, :3])))

    ours = from_torch(Net().eval())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours(x())
    assert not armed(ours)


def test_an_error_of_both_is_ours():
    ours = from_torch(tnn.Sequential(tnn.Linear(3, 3), tnn.Linear(5, 2)))
    with pytest.raises(RuntimeError, match=r"^1 \(Linear\)"):
        ours(x())
    assert armed(ours)


def test_an_error_of_ours_alone_says_what_to_do():
    class Refuses(Deep):
        def forward(self, x):
            x = super().forward(x)
            if type(x) is not torch.Tensor:
                raise TypeError("x must be a tensor")
            return x

    ours = from_torch(Refuses(tnn.Tanh()))
    torch.manual_seed(3)
    drawn = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(TypeError, match=r"^x must be a tensor") as caught:
        ours(x())
    assert any(
        "torch's own forward returns a result" in note and "%%autograd" in note for note in caught.value.__notes__
    )
    assert torch.equal(torch.rand(2), drawn)
    assert armed(ours)


def test_an_interrupt_leaves_the_random_numbers_as_they_were():
    def run(x):
        torch.rand(2)
        if type(x) is torch.Tensor:
            raise KeyboardInterrupt
        return x

    ours = from_torch(Kind(run))
    torch.manual_seed(3)
    drawn = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(KeyboardInterrupt):
        ours(x())
    assert torch.equal(torch.rand(2), drawn)
    assert torch.is_grad_enabled()


class CallsItself(tnn.Module):
    def __init__(self):
        super().__init__()
        self.linear = tnn.Linear(3, 3)

    def __call__(self, x):
        out = super().__call__(x)
        return out if type(x) is torch.Tensor else out + 1

    def forward(self, x):
        return self.linear(x)


def test_a_call_of_the_users_own():
    with pytest.raises(RuntimeError, match="first call of CallsItself"):
        from_torch(CallsItself())(x())
    with pytest.raises(RuntimeError, match="first call of Sequential "):
        from_torch(tnn.Sequential(CallsItself(), tnn.Tanh()))(x())


def test_an_error_is_its_own_where_a_part_is_on_the_meta_device():
    class Fails(tnn.Module):
        def __init__(self):
            super().__init__()
            self.norm = tnn.BatchNorm1d(3, device="meta")

        def forward(self, x):
            if type(x) is not torch.Tensor:
                raise KeyError("mine")
            return x

    with pytest.raises(KeyError, match="mine") as caught:
        from_torch(Fails())(x())
    assert "torch's own forward" in " ".join(caught.value.__notes__)


class Pair(tuple):
    """A tuple whose constructor takes two arguments, as in libraries that compute with such pairs."""

    __slots__ = ()

    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


def test_a_tuple_of_a_class_of_its_own_is_copied_without_its_constructor():
    class Holds(tnn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair(1, Pair([2.0], torch.ones(3)))

        def forward(self, x):
            assert type(self.pair[1]) is Pair
            return x * self.pair[0] * self.pair[1][0][0] + self.pair[1][1]

    assert torch.equal(from_torch(Holds())(x()).data, X * 2 + 1)

"""Containers as lists and dicts, and the rest of Module's own methods: the same lines on ours and on torch's."""

import copy
from collections import OrderedDict

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.lacking import printed

LISTS = {
    "append": lambda n, m: m.append(n.Tanh()),
    "insert": lambda n, m: m.insert(1, n.Tanh()),
    "insert at the end": lambda n, m: m.insert(3, n.Tanh()),
    "extend": lambda n, m: m.extend([n.Tanh(), n.ReLU()]),
    "pop": lambda n, m: m.pop(0),
    "pop the last": lambda n, m: m.pop(-1),
    "delete": lambda n, m: m.__delitem__(1),
    "delete a slice": lambda n, m: m.__delitem__(slice(0, 2)),
    "replace": lambda n, m: m.__setitem__(-1, n.Tanh()),
    "slice": lambda n, m: m[1:],
    "slice backwards": lambda n, m: m[::2],
}
SEQUENTIALS = {
    "insert negative": lambda n, m: m.insert(-1, n.Tanh()),
    "add": lambda n, m: m + n.Sequential(n.Tanh()),
    "add in place": lambda n, m: m.__iadd__(n.Sequential(n.Tanh())),
    "times": lambda n, m: m * 2,
    "times from the left": lambda n, m: 2 * m,
    "times in place": lambda n, m: m.__imul__(3),
}
MODULE_LISTS = {
    "add": lambda n, m: m + [n.Tanh()],  # noqa: RUF005
    "add in place": lambda n, m: m.__iadd__([n.Tanh()]),
    "the same in a row": lambda n, m: m.extend([n.Tanh()] * 3),
    "empty": lambda n, m: n.ModuleList(),
}


def three(n):
    return n.Linear(2, 3), n.ReLU(), n.Linear(3, 1)


def shown(result):
    return repr(result), list(result.state_dict()) if hasattr(result, "state_dict") else None


@pytest.mark.parametrize("change", [*LISTS.values(), *SEQUENTIALS.values()], ids=[*LISTS, *SEQUENTIALS])
def test_sequential_changes_as_torchs(change):
    results = []
    for lib in (nn, torch.nn):
        module = lib.Sequential(*three(lib))
        result = change(lib, module)
        results.append((shown(result), shown(module), len(module)))
    assert results[0] == results[1]


@pytest.mark.parametrize("change", [*LISTS.values(), *MODULE_LISTS.values()], ids=[*LISTS, *MODULE_LISTS])
def test_module_list_changes_as_torchs(change):
    results = []
    for lib in (nn, torch.nn):
        module = lib.ModuleList(three(lib))
        result = change(lib, module)
        results.append((shown(result), shown(module), len(module)))
    assert results[0] == results[1]


DICTS = {
    "set": lambda n, m: m.__setitem__("c", n.Tanh()),
    "replace": lambda n, m: m.__setitem__("a", n.Tanh()),
    "delete": lambda n, m: m.__delitem__("a"),
    "pop": lambda n, m: m.pop("b"),
    "clear": lambda n, m: m.clear(),
    "update": lambda n, m: m.update({"z": n.Tanh(), "b": n.ReLU()}),
    "update by pairs": lambda n, m: m.update([("z", n.Tanh()), ["b", n.ReLU()]]),
    "update by another": lambda n, m: m.update(n.ModuleDict({"z": n.Tanh()})),
    "keys": lambda n, m: list(m.keys()),
    "values": lambda n, m: [type(one).__name__ for one in m.values()],
    "items": lambda n, m: [(key, type(one).__name__) for key, one in m.items()],
    "iterate": lambda n, m: (list(m), len(m), "a" in m, "c" in m),
}


@pytest.mark.parametrize("change", DICTS.values(), ids=list(DICTS))
def test_module_dict_changes_as_torchs(change):
    results = []
    for lib in (nn, torch.nn):
        module = lib.ModuleDict({"b": lib.Linear(2, 3), "a": lib.ReLU()})
        result = change(lib, module)
        results.append((repr(result), shown(module)))
    assert results[0] == results[1]


def ones(lib, *shape):
    return nbgrad.tensor(torch.ones(shape)) if lib is nn else torch.ones(shape)


PARAMETER_LISTS = {
    "nothing": lambda n, m: None,
    "append": lambda n, m: m.append(ones(n, 5)),
    "extend": lambda n, m: m.extend([ones(n, 5), "text"]),
    "add in place": lambda n, m: m.__iadd__([ones(n)]),
    "replace": lambda n, m: m.__setitem__(-1, ones(n, 4)),
    "slice": lambda n, m: m[:2],
    "iterate": lambda n, m: [type(one).__name__ for one in m],
    "empty": lambda n, m: n.ParameterList(),
}


@pytest.mark.parametrize("change", PARAMETER_LISTS.values(), ids=list(PARAMETER_LISTS))
def test_parameter_list_changes_as_torchs(change):
    results = []
    for lib in (nn, torch.nn):
        module = lib.ParameterList([ones(lib, 2, 3), lib.Parameter(ones(lib, 2)), 5])
        result = change(lib, module)
        results.append((repr(result), shown(module), len(module), len(list(module.parameters()))))
    assert results[0] == results[1]


PARAMETER_DICTS = {
    "nothing": lambda n, m: None,
    "set": lambda n, m: m.__setitem__("c", ones(n, 5)),
    "set anything": lambda n, m: m.__setitem__("c", 5),
    "delete": lambda n, m: m.__delitem__("a"),
    "pop": lambda n, m: type(m.pop("b")).__name__,
    "popitem": lambda n, m: m.popitem()[0],
    "clear": lambda n, m: m.clear(),
    "update": lambda n, m: m.update({"z": ones(n, 1), "c": ones(n, 2)}),
    "update in order": lambda n, m: m.update(OrderedDict([("z", ones(n, 1)), ("c", ones(n, 2))])),
    "or": lambda n, m: m | n.ParameterDict({"z": ones(n, 1)}),
    "or in place": lambda n, m: m.__ior__(n.ParameterDict({"z": ones(n, 1)})),
    "copy": lambda n, m: m.copy(),
    "get": lambda n, m: (m.get("c"), m.get("c", 5)),
    "setdefault": lambda n, m: m.setdefault("c", 5),
    "fromkeys": lambda n, m: m.fromkeys(["x", "y"], 5),
    "iterate": lambda n, m: (list(m), list(reversed(m)), list(m.keys()), len(m), "a" in m),
}


@pytest.mark.parametrize("change", PARAMETER_DICTS.values(), ids=list(PARAMETER_DICTS))
def test_parameter_dict_changes_as_torchs(change):
    results = []
    for lib in (nn, torch.nn):
        module = lib.ParameterDict({"b": ones(lib, 2, 3), "a": lib.Parameter(ones(lib, 2))})
        result = change(lib, module)
        results.append((repr(result), shown(module), len(list(module.parameters()))))
    assert results[0] == results[1]


def model(n):
    class Inner(n.Module):
        def __init__(self):
            super().__init__()
            self.layers = n.ModuleList([n.Linear(2, 2), n.BatchNorm1d(2)])
            self.kept = n.Buffer(ones(n, 2))
            self.dropped = n.Buffer(ones(n, 1), persistent=False)
            self.register_buffer("count", nbgrad.tensor([1]) if n is nn else torch.tensor([1]))

    return Inner()


METHODS = {
    "get_submodule": lambda m: (printed(m.get_submodule("layers.1")), m.get_submodule("") is m),
    "get_parameter": lambda m: tuple(m.get_parameter("layers.0.weight").shape),
    "get_buffer": lambda m: tuple(m.get_buffer("layers.1.running_mean").shape),
    "set_submodule": lambda m: (m.set_submodule("layers.0", m.layers[1]), printed(m))[1],
    "buffers": lambda m: [name for name, _ in m.named_buffers()],
    "state_dict": lambda m: (list(m.state_dict()), dict(m.state_dict()._metadata)),
    "double": lambda m: [str(t.dtype) for t in m.double().state_dict().values()],
    "half": lambda m: [str(t.dtype) for t in m.half().state_dict().values()],
    "bfloat16": lambda m: [str(t.dtype) for t in m.bfloat16().state_dict().values()],
    "float": lambda m: [str(t.dtype) for t in m.double().float().state_dict().values()],
    "type": lambda m: [str(t.dtype) for t in m.type(torch.float64).state_dict().values()],
    "cpu": lambda m: [str(t.device) for t in m.cpu().state_dict().values()],
    "to a tensor": lambda m: [str(t.dtype) for t in m.to(torch.ones(1).double()).state_dict().values()],
    "to_empty": lambda m: [str(t.device) for t in m.to_empty(device="meta").state_dict().values()],
    "to complex": lambda m: [str(t.dtype) for t in m.layers[0].to(torch.complex64).state_dict().values()],
    "_modules": lambda m: (list(m._modules), list(m.layers._modules), list(m.layers[0]._parameters), list(m._buffers)),
    "dir": lambda m: ("layers" in dir(m), "0" in dir(m.layers)),
    "a buffer again": lambda m: (m.register_buffer("kept", None), list(m.state_dict()))[1],
    "copy": lambda m: list(copy.deepcopy(m).state_dict()),
}


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")  # torch's
@pytest.mark.parametrize("ask", METHODS.values(), ids=list(METHODS))
def test_methods_give_what_torchs_do(ask):
    assert ask(model(nn)) == ask(model(torch.nn))


def test_numbers_of_parameters():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    module[0].requires_grad_(False)
    assert (module.parameter_count(), module.parameter_count(only_trainable=True)) == (13, 4)


def test_a_parameter_is_a_leaf():
    module = nn.Module()
    computed = nn.Parameter([1.0]) * 2
    with pytest.raises((TypeError, ValueError), match="to parameter 'w'"):
        module.register_parameter("w", computed)


def test_uninitialized_parameters_say_what_to_do():
    lazy = nn.LazyLinear(3)
    assert repr(lazy.weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="has no shape yet"):
        _ = lazy.weight.shape
    with pytest.raises((RuntimeError, ValueError), match="ninitialized parameter"):
        lazy.weight + 1
    assert lazy.double().weight.dtype is torch.float64
    weight = lazy.weight
    assert lazy(nbgrad.tensor(torch.ones(2, 5, dtype=torch.float64))).shape == (2, 3)
    assert type(lazy) is nn.Linear
    assert lazy.weight is weight
    assert type(weight) is nn.Parameter
    with pytest.raises(RuntimeError, match="is uninitialized"):
        nn.Linear(5, 3).load_state_dict(nn.LazyLinear(3).state_dict())

"""The surroundings of a compiled function: after any change of them it gives the same result as without compile."""

import os
import random
from collections import UserDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.surroundings import Surroundings

X = torch.tensor([1.0, 3.0])
Case = tuple[Callable[[Any], Any], Callable[[], object], str]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """A case returns a function, a change of something around it, and the beginning of the reason for the new trace."""
    CASES[make.__name__] = make
    return make


def doubled(x: Any) -> Any:
    return x * 2


def tripled(x: Any) -> Any:
    return x * 3


def weight(number: float) -> Any:
    return nbgrad.tensor([number], requires_grad=True)


@case
def a_tensor() -> Case:
    w = weight(2.0)

    def change() -> None:
        nonlocal w
        w = weight(5.0)

    return lambda x: x * w, change, "w is another Tensor"


@case
def a_network() -> Case:
    net: Any = nn.Linear(2, 1)

    def change() -> None:
        nonlocal net
        net = nn.Linear(2, 1)

    return lambda x: net(x) + 1, change, "net is another Linear"


@case
def a_function() -> Case:
    act = doubled

    def change() -> None:
        nonlocal act
        act = tripled

    return lambda x: act(x) + 1, change, "act is another function"


@case
def a_number_in_a_function_that_it_calls() -> Case:
    scale = 2.0

    def scaled(x: Any) -> Any:
        return x * scale

    def change() -> None:
        nonlocal scale
        scale = 3.0

    return lambda x: scaled(x) + 1, change, "scale is 3.0, was 2.0"


@case
def a_partial() -> Case:
    act = partial(torch.mul, other=2.0)

    def change() -> None:
        act.keywords["other"] = 3.0

    return lambda x: act(x) + 1, change, "act.keywords['other'] is 3.0"


@case
def a_default() -> Case:
    config = SimpleNamespace(scale=2.0)
    return (
        lambda x, config=config: x * config.scale,
        lambda: setattr(config, "scale", 3.0),
        "the defaults of <lambda>[0]",
    )


@case
def a_default_of_a_keyword() -> Case:
    def scaled(x: Any, *, scales: list[float] = [2.0]) -> Any:  # noqa: B006  # as users do
        return x * scales[0]

    kept: Any = scaled.__kwdefaults__
    return lambda x: scaled(x) + 1, lambda: kept["scales"].__setitem__(0, 3.0), "the defaults of scaled['scales'][0] is"


@case
def an_attribute() -> Case:
    config = SimpleNamespace(scale=2.0)
    return lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0), "config.scale is 3.0, was 2.0"


@case
def an_attribute_that_is_gone() -> Case:
    config = SimpleNamespace(scale=2.0)
    return (
        lambda x: x * (config.scale if hasattr(config, "scale") else 7.0),
        lambda: delattr(config, "scale"),
        "config.scale is gone",
    )


@case
def an_attribute_by_getattr() -> Case:
    config = SimpleNamespace(scale=2.0)
    return lambda x: x * getattr(config, "scale", 1.0), lambda: setattr(config, "scale", 3.0), "config.scale is 3.0"


@case
def an_attribute_by_another_name() -> Case:
    config = SimpleNamespace(inner=SimpleNamespace(scale=2.0))

    def function(x: Any) -> Any:
        inner = config.inner
        return x * inner.scale

    return function, lambda: setattr(config.inner, "scale", 3.0), "config.inner.scale is 3.0"


@case
def an_object() -> Case:
    config = SimpleNamespace(inner=SimpleNamespace(scale=2.0))
    return (
        lambda x: x * config.inner.scale,
        lambda: setattr(config, "inner", SimpleNamespace(scale=4.0)),
        "config.inner is another SimpleNamespace",
    )


@case
def an_attribute_of_a_class() -> Case:
    class Config:
        scale = 2.0

    return lambda x: x * Config.scale, lambda: setattr(Config, "scale", 3.0), "Config.scale is 3.0"


@case
def an_attribute_of_the_class_of_an_object() -> Case:
    class Config:
        scale = 2.0

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(Config, "scale", 3.0), "Config.scale is 3.0"


@case
def slots() -> Case:
    @dataclass(slots=True)
    class Config:
        scale: float

    config = Config(2.0)
    return lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0), "config.scale is 3.0"


@case
def a_computed_attribute() -> Case:
    class Config:
        def __init__(self) -> None:
            self.held = {"scale": 2.0}

        def __getattr__(self, name: str) -> Any:
            if name == "scale":
                return self.held[name]
            raise AttributeError(name)

    config = Config()
    return lambda x: x * config.scale, lambda: config.held.update(scale=3.0), "config."


@case
def a_property() -> Case:
    class Config:
        def __init__(self) -> None:
            self.half = 1.0

        @property
        def scale(self) -> float:
            return self.half * 2

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(config, "half", 3.0), "config.half is 3.0"


@case
def what_a_method_reads() -> Case:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0

        def run(self, x: Any) -> Any:
            return self.helped(x)

        def helped(self, x: Any) -> Any:
            return x * self.scale

    model = Model()
    return model.run, lambda: setattr(model, "scale", 3.0), "Model.scale is 3.0"


@case
def a_method() -> Case:
    class Model:
        def run(self, x: Any) -> Any:
            return x * 2

    model = Model()
    return (
        lambda x: model.run(x) + 1,
        lambda: setattr(Model, "run", lambda _, x: x * 3),
        "Model.run is another function",
    )


@case
def what_an_operator_reads() -> Case:
    class Scaled:
        def __init__(self) -> None:
            self.scale = 2.0

        def __matmul__(self, x: Any) -> Any:
            return x * self.scale

        def __call__(self, x: Any) -> Any:
            return x + self.scale

    one = Scaled()
    return lambda x: one(one @ x), lambda: setattr(one, "scale", 3.0), "one.scale is 3.0"


@case
def an_entry_of_a_list() -> Case:
    scales = [1.0, 2.0]
    return lambda x: x * scales[1], lambda: scales.__setitem__(1, 3.0), "scales[1] is 3.0, was 2.0"


@case
def a_new_entry_of_a_list() -> Case:
    layers: list[Any] = [doubled]

    def function(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return function, lambda: layers.append(tripled), "layers has another number of entries"


@case
def a_tensor_in_a_list() -> Case:
    weights = [weight(2.0)]
    return lambda x: x * weights[0], lambda: weights.__setitem__(0, weight(3.0)), "weights[0] is another Tensor"


@case
def an_entry_of_a_dict() -> Case:
    scales = {"first": 2.0}
    return lambda x: x * scales["first"], lambda: scales.update(first=3.0), "scales['first'] is 3.0"


@case
def a_key_of_a_dict() -> Case:
    scales = {"first": 2.0}

    def change() -> None:
        scales["second"] = scales.pop("first")

    return lambda x: x * len(next(iter(scales))), change, "scales has other keys"


@case
def an_entry_of_a_mapping() -> Case:
    scales = UserDict(first=2.0)
    return lambda x: x * scales["first"], lambda: scales.update(first=3.0), "scales['first'] is 3.0"


@case
def a_list_in_a_named_tuple() -> Case:
    pair = namedtuple("pair", "scales")([2.0])  # a user may write it like this
    return lambda x: x * pair.scales[0], lambda: pair.scales.__setitem__(0, 3.0), "pair[0][0] is 3.0"


@case
def an_entry_of_a_set() -> Case:
    names = {"double"}

    def change() -> None:
        names.remove("double")
        names.add("triple")

    return lambda x: x * (2 if "double" in names else 3), change, "names["


@case
def an_array() -> Case:
    scale = np.array([2.0, 2.0], dtype=np.float32)
    return lambda x: x * nbgrad.tensor(scale), lambda: scale.fill(3.0), "the array scale has other numbers"


@case
def a_module_of_python() -> Case:
    config: Any = ModuleType("config")
    config.scale = 2.0
    return lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0), "config.scale is 3.0"


@case
def an_attribute_of_the_class_that_becomes_one_of_the_object() -> Case:
    class Config:
        scale = 2.0

    config = Config()
    return lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0), "config.scale is another float"


@case
def a_method_that_becomes_an_attribute_of_the_object() -> Case:
    class Model:
        def run(self, x: Any) -> Any:
            return x * 2

    model: Any = Model()
    return lambda x: model.run(x) + 1, lambda: setattr(model, "run", tripled), "model.run is another function"


@case
def an_attribute_that_was_not_there() -> Case:
    config = SimpleNamespace(other=2.0)
    return lambda x: x * getattr(config, "scale", 1.0), lambda: setattr(config, "scale", 3.0), "config.scale is another"


@case
def an_attribute_by_vars() -> Case:
    config = SimpleNamespace(inner=SimpleNamespace(scale=2.0))
    return (
        lambda x: x * vars(config.inner)["scale"],
        lambda: setattr(config.inner, "scale", 3.0),
        "config.inner.scale is 3.0",
    )


@case
def an_attribute_by_the_dict_of_an_object() -> Case:
    config = SimpleNamespace(scale=2.0)
    return lambda x: x * config.__dict__.get("scale"), lambda: setattr(config, "scale", 3.0), "config.scale is 3.0"


@case
def attributes_by_names_that_are_computed() -> Case:
    config = SimpleNamespace(first=2.0, second=1.0)

    def function(x: Any) -> Any:
        for name in sorted(vars(config)):
            x = x * vars(config)[name]
        return x

    return function, lambda: setattr(config, "second", 3.0), "vars(config)['second'] is 3.0"


@case
def a_global_variable_by_its_name() -> Case:
    space = {"SCALE": 2.0}
    function = eval("lambda x: x * globals().get('SCALE')", space)
    return function, lambda: space.update(SCALE=3.0), "SCALE is 3.0, was 2.0"


@case
def a_global_variable_that_was_not_there() -> Case:
    space: dict[str, Any] = {}
    function = eval("lambda x: x * globals().get('SCALE', 1.0)", space)
    return function, lambda: space.update(SCALE=3.0), "SCALE is another float"


@case
def a_global_variable_by_a_name_that_is_computed() -> Case:
    space = {"SCALE": 2.0}
    function = eval("lambda x: x * globals()['SC' + str('ALE')]", space)
    return function, lambda: space.update(SCALE=3.0), "globals()['SCALE'] is 3.0"


@case
def an_environment_variable(name: str = "NBGRAD_TEST_SCALE") -> Case:
    os.environ[name] = "2"
    return lambda x: x * float(os.environ[name]), lambda: os.environ.update({name: "3"}), f"os.environ['{name}'] is '3'"


@case
def an_environment_variable_that_was_not_there(name: str = "NBGRAD_TEST_OTHER") -> Case:
    os.environ.pop(name, None)
    return (
        lambda x: x * float(os.getenv(name, "1")),
        lambda: os.environ.update({name: "3"}),
        f"os.environ['{name}'] is '3'",
    )


@case
def the_defaults() -> Case:
    def scaled(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    return lambda x: scaled(x) + 1, lambda: setattr(scaled, "__defaults__", (3.0,)), "the defaults of scaled"


@case
def the_defaults_of_keywords() -> Case:
    def scaled(x: Any, *, scale: float = 2.0) -> Any:
        return x * scale

    return lambda x: scaled(x) + 1, lambda: setattr(scaled, "__kwdefaults__", {"scale": 3.0}), "the defaults of scaled"


@case
def the_sign_of_a_zero() -> Case:
    config = SimpleNamespace(scale=0.0)
    return lambda x: 1 / (x * config.scale), lambda: setattr(config, "scale", -0.0), "config.scale is -0.0, was 0.0"


@case
def the_sign_of_a_zero_in_an_array() -> Case:
    scale = np.zeros(2, dtype=np.float32)
    return lambda x: 1 / (x * nbgrad.tensor(scale)), lambda: scale.fill(-0.0), "the array scale has other numbers"


class Net(nn.Module):
    """A network with settings of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(scale=2.0)
        self.scales = [2.0]
        self.act = doubled
        self.power = 2
        self.layer = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.register_buffer("shift", nbgrad.tensor([1.0, 2.0]))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.helped(self.act(self.layer(x)) ** self.power + self.shift)

    def helped(self, x: Any) -> Any:
        return x * self.config.scale * self.scales[0]


def changed_net(change: Callable[[Any], object], reason: str) -> Callable[[], Case]:
    def make() -> Case:
        net = Net()
        return net, lambda: change(net), reason

    return make


def hooked(net: Any) -> None:
    net.layer.register_forward_hook(lambda _, __, out: out * 2)


CASES |= {
    "an object of a network": changed_net(lambda net: setattr(net.config, "scale", 3.0), "Net.config.scale is 3.0"),
    "a list of a network": changed_net(lambda net: net.scales.__setitem__(0, 3.0), "Net.scales[0] is 3.0"),
    "a function of a network": changed_net(lambda net: setattr(net, "act", tripled), "Net.act is another function"),
    "a number of a network": changed_net(lambda net: setattr(net, "power", 3), "Net.power is 3, was 2"),
    "a child": changed_net(lambda net: setattr(net, "layer", nn.Linear(2, 2)), "Net.layer is another Linear"),
    "a child by its place": changed_net(lambda net: net.layers.__setitem__(0, nn.Linear(2, 2)), "ModuleList.0 is an"),
    "one more child": changed_net(lambda net: net.layers.append(nn.Linear(2, 2)), "ModuleList.1 is another Linear"),
    "an added child": changed_net(lambda net: net.layers.add_module("9", nn.Tanh()), "ModuleList.9 is another Tanh"),
    "a parameter": changed_net(
        lambda net: setattr(net.layer, "bias", nn.Parameter(torch.ones(2))), "Linear.bias is another Parameter"
    ),
    "no parameter": changed_net(lambda net: net.layer.register_parameter("bias", None), "Linear.bias is another None"),
    "a buffer": changed_net(
        lambda net: net.register_buffer("shift", nbgrad.tensor([5.0, 5.0])), "Net.shift is another Tensor"
    ),
    "a hook": changed_net(hooked, "a hook was added"),
    "a forward": changed_net(lambda net: setattr(net, "forward", lambda x: x * 7), "Net.forward is another function"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_around_a_compiled_function_is_seen(name: str) -> None:
    function, change, reason = CASES[name]()
    compiled = nbgrad.compile(function)
    x = nbgrad.tensor(X)
    before = function(x)
    for _ in range(2):
        assert torch.equal(compiled(x).data, before.data)
    assert len(compiled.reasons) == 1
    change()
    after = function(x)
    assert before.shape != after.shape or not torch.equal(before.data, after.data), "the change changes nothing"
    for _ in range(2):
        assert torch.equal(compiled(x).data, after.data)
    assert len(compiled.reasons) == 2
    assert compiled.reasons[-1].startswith(reason), compiled.reasons


def test_hooks_that_are_taken_off_and_those_of_all_modules_are_seen() -> None:
    net = Net()
    handle = net.layer.register_forward_hook(lambda _, __, out: out * 2)
    compiled, x = nbgrad.compile(net), nbgrad.tensor(X)
    assert torch.equal(compiled(x).data, net(x).data)
    handle.remove()
    assert torch.equal(compiled(x).data, net(x).data)
    every = nn.modules.module.register_module_forward_hook(lambda _, __, out: out + 1)
    try:
        assert torch.equal(compiled(x).data, net(x).data)
    finally:
        every.remove()
    assert torch.equal(compiled(x).data, net(x).data)


def test_settings_of_a_module_of_torch_are_seen() -> None:
    net = torch.nn.Sequential(torch.nn.LeakyReLU(0.5), torch.nn.Hardtanh(-1.0, 1.0))
    compiled, x = nbgrad.compile(lambda x: net(x) * 1), nbgrad.tensor([-1.0, 3.0])
    assert compiled(x).tolist() == [-0.5, 1.0]
    net[0].negative_slope = 0.25
    net[1].max_val = 2.0
    assert compiled(x).tolist() == [-0.25, 2.0]


@pytest.mark.parametrize("make", [np.float32, np.int64, np.bool_, Fraction, Decimal, str, complex], ids=str)
def test_an_equal_value_in_another_object_makes_no_new_trace(make: Callable[[Any], Any]) -> None:
    config = SimpleNamespace(scale=None)
    compiled = nbgrad.compile(lambda x: x * len(str(config.scale)))
    for text in ("12", "12", "0"):
        config.scale = make(text != "0" if make is np.bool_ else text)
        assert torch.equal(compiled(nbgrad.tensor(X)).data, X * len(str(config.scale)))
    assert len(compiled.reasons) == 2


def test_what_the_function_does_not_read_makes_no_new_trace() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.scale, self.steps, self.losses = 2.0, 0, list[float]()

        def run(self, x: Any) -> Any:
            return (x * self.scale).sum()

    trainer = Trainer()
    compiled = nbgrad.compile(trainer.run)
    for _ in range(4):
        trainer.steps += 1
        trainer.losses.append(compiled(nbgrad.tensor(X)).item())
    assert trainer.losses == [8.0] * 4
    assert len(compiled.reasons) == 1


def test_a_function_that_is_traced_again_and_again_says_so() -> None:
    box = [0.0]
    compiled = nbgrad.compile(lambda x: x * box[0])

    def run(number: int) -> None:
        box[0] = float(number)
        assert torch.equal(compiled(nbgrad.tensor(X)).data, X * number)

    for number in range(8):
        run(number)
    with pytest.warns(UserWarning, match=r"was traced 9 times.*box\[0\] is 8.0, was 7.0"):
        run(8)
    run(9)


GENERATORS = [random.Random(0), np.random.default_rng(0), np.random.RandomState(0)]


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (random.random, "Python's random"),
        (np.random.rand, "numpy.random"),
        (GENERATORS[0].random, "a random.Random"),
        (lambda: 1 + GENERATORS[1].random(), "a generator of numpy"),
        (lambda: 1 + GENERATORS[2].rand(), "a RandomState of numpy"),
    ],
    ids=["random", "numpy", "Random", "Generator", "RandomState"],
)
def test_random_numbers_that_are_not_torchs_are_refused(draw: Callable[[], float], name: str) -> None:
    with pytest.raises(TraceError, match=f"draws random numbers of {name}"):
        nbgrad.compile(lambda x: x * draw())(nbgrad.tensor(X))


def test_too_many_objects_are_refused() -> None:
    many = [SimpleNamespace() for _ in range(10_001)]
    with pytest.raises(RuntimeError, match=r"uses many\[\d+\], and more than 10000 objects .* as arguments"):
        Surroundings(lambda: many[0])


def test_variables_of_one_name_and_value_in_two_places_are_told_apart() -> None:
    def scaled_by(scale: float) -> tuple[Callable[[Any], Any], Callable[[float], None]]:
        def change(to: float) -> None:
            nonlocal scale
            scale = to

        return lambda x: x * scale, change

    first, second = scaled_by(2.0), scaled_by(2.0)
    compiled = nbgrad.compile(lambda x: first[0](x) + second[0](x))
    assert compiled(nbgrad.tensor(X)).tolist() == [4.0, 12.0]
    second[1](3.0)
    assert compiled(nbgrad.tensor(X)).tolist() == [5.0, 15.0]


def test_a_variable_that_comes_to_hide_a_function_of_python_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = nbgrad.compile(lambda x: abs(x) * 1)
    x = nbgrad.tensor([-1.0, 2.0])
    assert compiled(x).tolist() == [1.0, 2.0]
    monkeypatch.setitem(globals(), "abs", doubled)
    assert compiled(x).tolist() == [-2.0, 4.0]
    assert compiled.reasons[-1].startswith("abs is another function")

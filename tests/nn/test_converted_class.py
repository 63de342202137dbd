"""Converted modules are instances of torch's class and of nbgrad's, and keep the methods that Python itself calls."""

import copy
import io
import pickle
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn as tnn

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch
from tests.nn.alike import check

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def both(made, *args, **settings):
    """A torch module in float64, and what ``from_torch`` makes of its copy. Both compute the same numbers."""
    theirs = made.double()
    ours = from_torch(copy.deepcopy(theirs))
    check(ours, theirs, *(args or (X,)), **settings)
    return ours, theirs


class Chooses(tnn.Module):
    """Asks for the class of its parts, as timm's HRNet does."""

    def __init__(self):
        super().__init__()
        self.norm = tnn.LayerNorm(3)
        self.rest = tnn.ModuleList([tnn.Identity(), tnn.Linear(3, 3)])

    def forward(self, x):
        for part in [self.norm, *self.rest]:
            if isinstance(part, tnn.LayerNorm):
                x = part(x) * 3
            elif isinstance(part, tnn.Linear | tnn.Conv2d):
                x = part(x).tanh()
            elif not isinstance(part, tnn.Identity):
                x = x * 0
        return x


def test_blocks_are_of_torchs_class_and_of_ours():
    ours, theirs = both(Chooses())
    assert isinstance(ours.norm, nn.LayerNorm)
    assert isinstance(ours.norm, tnn.LayerNorm)
    assert isinstance(ours, nn.Module)
    assert isinstance(ours, Chooses)
    assert [type(one).__name__ for one in ours.modules()] == [type(one).__name__ for one in theirs.modules()]
    assert repr(ours) == repr(theirs)
    assert type(from_torch(tnn.Linear(1, 1))) is type(from_torch(tnn.Linear(2, 2)))


def copied_by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def saved_and_loaded(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [copy.deepcopy, copied_by_pickle, saved_and_loaded])
@pytest.mark.parametrize(
    "made",
    [
        Chooses,
        lambda: tnn.Sequential(tnn.Linear(3, 4), tnn.BatchNorm1d(4), tnn.ReLU()),
        lambda: tnn.Sequential(tnn.GRUCell(3, 2)),
        lambda: tnn.TransformerEncoderLayer(3, 1, 4, batch_first=True).eval(),
    ],
)
def test_copies_and_pickles_are_of_both_classes_too(made, again):
    theirs = made().double()
    ours = from_torch(theirs)
    other = again(ours)
    assert type(other) is type(ours)
    assert [type(one) for one in other.modules()] == [type(one) for one in ours.modules()]
    assert list(other.state_dict()) == list(theirs.state_dict())
    assert torch.equal(other(nbgrad.tensor(X)).data, ours(nbgrad.tensor(X)).data)
    for mine, yours in zip(other.parameters(), ours.parameters(), strict=True):
        assert mine.data_ptr() != yours.data_ptr()
        assert type(mine) is nn.Parameter


def test_what_torch_has_parametrized_can_be_copied():
    theirs = tnn.utils.parametrizations.weight_norm(tnn.Linear(3, 2).double())
    ours = from_torch(theirs)
    other = copy.deepcopy(ours)
    assert isinstance(other, tnn.Linear)
    check(other, copy.deepcopy(theirs), X)
    assert other.parametrizations.weight.original0.data_ptr() != theirs.parametrizations.weight.original0.data_ptr()


def test_a_converted_block_that_is_parametrized_can_be_copied_and_pickled():
    ours = nn.utils.parametrizations.weight_norm(from_torch(tnn.Linear(3, 2).double(), check=False))
    for other in (copy.deepcopy(ours), copied_by_pickle(ours)):
        assert type(other) is type(ours)
        assert torch.equal(other(nbgrad.tensor(X)).data, ours(nbgrad.tensor(X)).data)


# The methods that Python calls. Those of the user's class and of libraries are kept, and super() finds the same ones.


class Shifted(tnn.Module):
    """A base class of a library's."""

    def __init__(self):
        super().__init__()
        self.weight = tnn.Parameter(torch.arange(1.0, 4.0))

    def __call__(self, x, shift=1.0):
        return super().__call__(x + shift) * 10

    def forward(self, x):
        return x * self.weight


class Twice(Shifted):
    def __call__(self, x):
        return super().__call__(x, shift=2.0) + super().__call__(x)


class NoSuper(Shifted):
    def __call__(self, x):
        return self.forward(x) - 1


@pytest.mark.parametrize("kind", [Shifted, Twice, NoSuper])
def test_call(kind):
    ours, _ = both(kind())
    x = nbgrad.tensor(X)
    assert not torch.equal(ours(x).data, ours.forward(x).data)
    both(tnn.Sequential(kind(), tnn.Linear(3, 2)))


def test_hooks_run_in_a_call_of_the_users():
    theirs = Shifted().double()
    theirs.register_forward_hook(lambda module, args, out: out + 1)
    check(from_torch(copy.deepcopy(theirs)), theirs, X)


class Doubling(tnn.Module):
    """Doubles what is assigned to ``gain``, finds ``weight`` in its layer, and gives the exponential of ``raw``."""

    def __init__(self):
        super().__init__()
        self.gain = 1.0
        self.linear = tnn.Linear(3, 3)
        self.raw = tnn.Parameter(torch.full((3,), -0.5))

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2 if name == "gain" else value)

    def __getattr__(self, name):
        if name == "weight":
            return super().__getattr__("linear").weight
        found = super().__getattr__(name)
        return found.exp() if name == "raw" else found

    def __delattr__(self, name):
        if name == "gain":
            self.linear.eval()
        else:
            super().__delattr__(name)

    def forward(self, x):
        self.gain = self.gain + 1
        return self.linear(x) * self.gain + self.weight.sum() + self.raw


def test_attributes():
    ours, theirs = both(Doubling())
    assert ours.gain == theirs.gain
    assert ours.gain > 2
    del ours.gain
    assert ours.gain == theirs.gain
    assert ours.linear.training is False
    with pytest.raises(AttributeError, match="'Doubling' object has no attribute 'other'"):
        _ = ours.other
    both(tnn.Sequential(Doubling(), Doubling()))
    again = copied_by_pickle(ours)
    assert torch.equal(again.raw.data, ours.raw.data)


class Forwarded(tnn.Module):
    """Forwards attributes that it lacks to the module that it holds, as wrappers do."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, x):
        return self.module(x) + self.weight[0]


def test_attributes_of_what_a_wrapper_holds():
    ours, _ = both(Forwarded(tnn.Linear(3, 3)))
    assert ours.in_features == 3
    copy.deepcopy(ours)


class Layers(tnn.Module):
    """A collection with methods of its own."""

    def __init__(self, count=3):
        super().__init__()
        self.layers = tnn.ModuleList([tnn.Linear(3, 3) for _ in range(count)])

    def __len__(self):
        return len(self.layers) - 1

    def __getitem__(self, at):
        return self.layers[-1 - at]

    def __iter__(self):
        return iter(self.layers[1:])

    def __contains__(self, name):
        return name == "last"

    def __bool__(self):
        return False

    def __eq__(self, other):
        return isinstance(other, Layers)

    __hash__ = tnn.Module.__hash__

    def __add__(self, number):
        return number + 1.0

    def __enter__(self):
        return self[0]

    def __exit__(self, *_):
        return None

    def __dir__(self):
        return ["one"]

    def __repr__(self):
        return f"{len(self)} layers in {super().__repr__()[:6]}"

    def forward(self, x):
        for layer in self:
            x = layer(x)
        with self as last:
            x = last(x)
        if "last" in self and not self:
            x = self[0](x) * len(self)
        return x * (self + 1)


def test_collections():
    ours, theirs = both(Layers())
    assert repr(ours) == repr(theirs)
    assert dir(ours) == ["one"]
    assert ours == Layers()
    both(tnn.ModuleDict({"a": Layers()})["a"])
    ours, theirs = both(tnn.Sequential(Layers(), Layers()))  # they are equal, but two different modules
    assert ours[0] is not ours[1]


class Stack(tnn.ModuleList):
    def __getitem__(self, at):
        return super().__getitem__(-1 - at)

    def forward(self, x):
        return self[0](x) * 2 + self[1](x)


class Steps(tnn.Sequential):
    def __iter__(self):
        return reversed([*super().__iter__()])


def test_parts_of_containers_are_of_both_classes():
    theirs = tnn.Sequential(tnn.Linear(3, 3), tnn.Tanh(), tnn.Linear(3, 2)).double()
    ours = from_torch(theirs)
    assert type(ours[1:]) is type(ours)
    assert torch.equal(ours[:2](nbgrad.tensor(X)).data, theirs[:2](X))
    assert isinstance(from_torch(tnn.ModuleList([tnn.Tanh(), tnn.ReLU()]))[:1], tnn.ModuleList)


def test_methods_above_torchs_containers():
    both(Stack([tnn.Linear(3, 3), tnn.Tanh()]))
    both(Steps(tnn.Linear(3, 3), tnn.Tanh(), tnn.Linear(3, 3)))


class Slots(tnn.Module):
    __slots__ = ("factor",)

    def __init__(self):
        super().__init__()
        self.factor = 3.0

    def forward(self, x):
        return x * self.factor


class Registered(tnn.Module):
    """Each subclass must give a name, which is recorded."""

    known: list[str] = []  # noqa: RUF012

    def __init_subclass__(cls, *, name):
        Registered.known.append(name)

    def forward(self, x):
        return x + 1


class One(Registered, name="one"):
    pass


class Counted(ABCMeta):
    made = 0

    def __call__(cls, *args):
        Counted.made += 1
        return super().__call__(*args)


class Meta(tnn.Module, ABC, metaclass=Counted):
    def __new__(cls, factor):
        made = super().__new__(cls)
        made.__dict__["factor"] = factor
        return made

    def __init__(self, factor):
        super().__init__()

    @abstractmethod
    def forward(self, x): ...


class Concrete(Meta):
    def forward(self, x):
        return x * self.factor


def test_how_a_class_is_made_does_not_matter():
    assert torch.equal(from_torch(Slots())(nbgrad.tensor(X)).data, X * 3.0)
    both(One())
    assert Registered.known == ["one"]
    theirs = Concrete(3.0)
    count = Counted.made
    assert torch.equal(from_torch(theirs)(nbgrad.tensor(X)).data, X * 3.0)
    assert Counted.made == count


class KeepsState(tnn.Module):
    def __init__(self):
        super().__init__()
        self.linear = tnn.Linear(3, 3)
        self.function = lambda x: x * 2

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "function"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.function = lambda x: x * 2

    def forward(self, x):
        return self.function(self.linear(x))


def test_the_users_way_to_pickle():
    ours, _ = both(KeepsState())
    again = copied_by_pickle(ours)
    assert torch.equal(again(nbgrad.tensor(X)).data, ours(nbgrad.tensor(X)).data)


class Normed(tnn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x) * 2


class Casting(tnn.Module):
    """Methods about tensors of its own, which call torch's."""

    def __init__(self):
        super().__init__()
        self.linear = tnn.Linear(3, 3)
        self.moved = []

    def to(self, *args, **kwargs):
        self.moved.append("to")
        return super().to(*args, **kwargs)

    def double(self):
        self.moved.append("double")
        return super().double()

    def train(self, mode=True):
        return super().train(False)

    def state_dict(self, *args, **kwargs):
        return {"all." + key: value for key, value in super().state_dict(*args, **kwargs).items()}

    def forward(self, x):
        return self.linear(x)


def test_methods_that_call_those_of_torchs_module():
    both(Normed(3))
    ours, theirs = both(Casting())
    assert ours.to(torch.float32) is ours
    assert ours.linear.weight.dtype == torch.float32
    assert ours.moved == ["double", "to"]
    assert ours.train().training is False
    assert list(ours.state_dict()) == list(theirs.state_dict())


class Overrides(tnn.Module):
    def _call_impl(self, x):
        return x


class Private(tnn.Module):
    def _register(self, x):
        return x

    def forward(self, x):
        return self._register(x)


class Dictionary(tnn.Module, dict):
    def forward(self, x):
        return x


def test_what_would_not_be_called_is_refused():
    with pytest.raises(NotImplementedError, match=r"Overrides overrides torch's private _call_impl\(\).*record"):
        from_torch(Overrides())
    with pytest.raises(NotImplementedError, match=r"Private has an attribute '_register', .* private name"):
        from_torch(tnn.Sequential(Private()))
    module = tnn.Linear(2, 2)
    module._roles = {}
    with pytest.raises(NotImplementedError, match=r"Linear has an attribute '_roles'"):
        from_torch(module)
    with pytest.raises(TypeError, match=r"Dictionary cannot be converted.*%%autograd"):
        from_torch(Dictionary())


class Reads(tnn.LSTM):
    def forward(self, x):
        out, (hidden, _) = super().forward(x)
        return out.sum() + hidden


class Gated(tnn.GRUCell):
    def forward(self, x):
        return super().forward(x * 2)


class Attends(tnn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)[0]


class Convolves(tnn.Conv1d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x * 2, weight, bias)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Reads(3, 2),
        lambda: Gated(3, 2),
        lambda: Attends(3, 1),
        lambda: Convolves(4, 2, 2),
    ],
    ids=["lstm", "gru", "attention", "convolution"],
)
def test_classes_derived_from_torchs_blocks(made):
    ours, _ = both(made())
    copied_by_pickle(ours)
    copy.deepcopy(ours)


def test_converted_blocks_in_a_container_of_torchs_learn_and_are_saved():
    net = tnn.Sequential(from_torch(tnn.Linear(3, 2).double()))
    net(nbgrad.tensor(X)).sum().backward()
    assert net[0].weight.grad is not None
    assert list(net.state_dict()) == ["0.weight", "0.bias"]


# Attributes of a module that are no submodules.


class Holds(tnn.Module):
    def __init__(self):
        super().__init__()
        from collections import OrderedDict, deque, namedtuple
        from functools import partial

        linear = tnn.Linear(3, 3)
        self.linear = linear
        self.ordered = OrderedDict(a=linear)
        self.queue = deque([linear], maxlen=3)
        self.named = namedtuple("Named", "layer")(linear)
        self.bound = partial(self.apply_twice, linear, scale=linear.bias)
        self.shared = self.also = [linear]
        self.shared.append(self.shared)
        self.linear.weight.mark = "mine"

    def apply_twice(self, layer, x, scale):
        return layer(layer(x)) * scale

    def forward(self, x):
        self.also[0](x)
        self.shared[0] = self.linear
        return self.bound(x) + self.ordered["a"](x) + self.queue[0](x) + self.named.layer(x) + self.also[1][0](x)


def test_modules_in_containers_become_ours():
    theirs = Holds().double()
    ours = from_torch(theirs)
    out = ours(nbgrad.tensor(X))
    torch.testing.assert_close(out.data, theirs(X).detach())
    assert ours.shared is ours.also
    assert ours.shared[1] is ours.shared
    assert ours.queue.maxlen == 3
    assert ours.linear.weight.mark == "mine"


# Modules that torch's functions have made, and torch's functions that get converted modules.


def net():
    torch.manual_seed(0)
    return tnn.Sequential(tnn.Linear(3, 3), tnn.ReLU(), tnn.Linear(3, 2)).double()


@pytest.mark.filterwarnings("ignore")
def test_what_torch_compiles_is_converted_without_that():
    expected = net()(X)
    within = tnn.Sequential(torch.compile(net()))
    in_place = net()
    in_place.compile()
    for made in (torch.compile(net()), in_place, within):
        ours = from_torch(made)
        out = ours(nbgrad.tensor(X))
        assert torch.equal(out.data, expected)
        out.sum().backward()
        copied_by_pickle(ours)
    assert list(from_torch(torch.compile(net())).state_dict()) == list(net().state_dict())
    with pytest.raises(NotImplementedError, match=r"Sequential\.compile\(\): .* compile the torch module"):
        ours.compile()


def test_graph_modules():
    theirs = torch.fx.symbolic_trace(net())
    ours = from_torch(theirs)
    check(ours, net(), X)
    check(copy.deepcopy(ours), net(), X)
    with pytest.raises(TypeError, match=r"not an ExportedProgram: pass program\.module\(\)"):
        from_torch(torch.export.export(net(), (X,)))
    with pytest.raises(NotImplementedError, match=r"graph of torch's kernels, as torch\.export makes them"):
        from_torch(torch.export.export(net(), (X,)).module())


@pytest.fixture
def one_process(tmp_path):
    """A process group of one process: torch's wrappers need one."""
    import torch.distributed as group

    group.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    group.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.filterwarnings("ignore")
def test_wrappers_of_several_devices(one_process):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    parted = net()
    fully_shard(parted[0], mesh=mesh)
    for made, name in [
        (tnn.DataParallel(net()), "DataParallel"),
        (tnn.parallel.DistributedDataParallel(net()), "DistributedDataParallel"),
        (parted, "FSDPModule"),
    ]:
        with pytest.raises(NotImplementedError, match=rf"from_torch\(\): a {name} of torch's spreads .*%%autograd"):
            from_torch(made)
    words = r"torch\..* spreads modules over .* give it the torch module, not an nbgrad"
    for ours in (from_torch(net()), nn.Linear(2, 2)):
        with pytest.raises(TypeError, match=r"for nbgrad's use nbgrad\.nn\.parallel\.DistributedDataParallel"):
            tnn.parallel.DistributedDataParallel(ours)
    with pytest.raises(TypeError, match=words):
        fully_shard(from_torch(net()), mesh=mesh)


@pytest.mark.filterwarnings("ignore")
def test_quantized_modules():
    quantized = torch.ao.quantization.quantize_dynamic(net().float(), {tnn.Linear})
    with pytest.raises(NotImplementedError, match=r"Linear is quantized.* before it is quantized"):
        from_torch(quantized)
    with pytest.raises(TypeError, match=r"quantizes modules, and accepts only torch's"):
        torch.ao.quantization.quantize_dynamic(from_torch(net()), {tnn.Linear})


class Marked(torch.Tensor):
    """A class of tensors with a meaning of its own."""


def test_parameters_that_are_more_than_their_numbers():
    module = tnn.Linear(2, 2)
    module.weight = tnn.Parameter(torch.ones(2, 2).as_subclass(Marked))
    with pytest.raises(NotImplementedError, match=r"weight of Linear is a Marked, and nbgrad takes ordinary"):
        from_torch(module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [lambda: from_torch(net()), lambda: nn.Linear(3, 2, dtype=torch.float64)])
def test_what_torch_makes_of_modules_takes_those_of_torch(made):
    ours = made()
    for give, words in [
        (lambda: torch.optim.SGD(ours.parameters(), lr=0.1), r"torch\.optim\.SGD takes .*nbgrad\.optim\.SGD\("),
        (
            lambda: torch.optim.AdamW([{"params": [*ours.parameters()]}]),
            r"nbgrad\.optim\.AdamW\(.*same gradients.*Light",
        ),
        (lambda: torch.func.functional_call(ours, {}, X), r"for nbgrad's use nbgrad\.func\.functional_call"),
        (lambda: torch.jit.script(ours), r"torch\.jit\._recursive compiles modules, and accepts only torch's"),
        (lambda: torch.jit.trace(ours, X), r"torch\.jit\..* compiles modules, and accepts only torch's"),
        (lambda: torch.export.export(ours, (X,)), r"exports modules, and accepts only torch's"),
    ]:
        if isinstance(ours, tnn.Module) or not words.startswith(("torch\\.jit", "exports")):
            with pytest.raises(TypeError, match=words):
                give()
    with pytest.raises(AttributeError, match="__name__"):
        _ = next(ours.parameters()).__name__


def test_a_table_of_torchs_classes_finds_the_converted_ones():
    class Own(tnn.Module):
        def forward(self, x):
            return x

    class Meta(type):
        pass

    class WithMeta(tnn.Linear, metaclass=Meta):
        pass

    for theirs in (tnn.ReLU(), tnn.Linear(2, 2), tnn.Sequential(), Own(), WithMeta(2, 2)):
        kind, ours = type(theirs), from_torch(theirs)
        made = type(ours)
        assert {kind: "found"}[type(ours)] == "found"
        assert {type(ours): "found"}[kind] == "found"
        assert made == kind
        assert kind == made
        assert type(ours) in [tnn.Tanh, kind]
        assert type(ours) is not kind
        assert made != tnn.Module
        assert made != getattr(nn, kind.__name__, None)
        assert type(ours) is type(from_torch(copy.deepcopy(theirs)))
        assert isinstance(ours, kind)
    assert isinstance(type(from_torch(WithMeta(2, 2))), Meta)

    class Mine(type(from_torch(tnn.ReLU()))):
        pass

    assert Mine != tnn.ReLU
    assert hash(Mine) != hash(tnn.ReLU)
    assert len({Mine, tnn.ReLU, type(from_torch(tnn.ReLU()))}) == 2


def test_an_explanation_that_looks_for_activations_by_their_class():
    """Some explanation methods replace the gradient of an activation."""

    def explained(net, x):
        rules = {tnn.ReLU: 3.0, tnn.Tanh: 0.5}
        handles = [
            module.register_forward_hook(lambda module, _, y: y * rules[type(module)])
            for module in net.modules()
            if type(module) in rules
        ]
        assert len(handles) == 2
        return net(x)

    theirs = tnn.Sequential(tnn.Linear(2, 3), tnn.ReLU(), tnn.Linear(3, 3), tnn.Tanh())
    x = torch.rand(4, 2)
    ours = from_torch(copy.deepcopy(theirs))
    ours(nbgrad.tensor(x))
    assert torch.equal(explained(ours, nbgrad.tensor(x)).data, explained(theirs, x).detach())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, in its first jvp
@pytest.mark.parametrize("transform", ["jvp", "vjp", "grad", "jacrev", "vmap"])
@pytest.mark.parametrize(
    "make",
    [lambda: torch.nn.Linear(3, 3), lambda: torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())],
    ids=["a block", "a container"],
)
def test_a_transform_of_torchs_of_a_known_block_says_what_to_use(make: Callable[[], Any], transform: str) -> None:
    model, x = nbgrad.from_torch(make()), torch.ones(3)
    runs: dict[str, Callable[[], Any]] = {
        "jvp": lambda: torch.func.jvp(model, (x,), (x,)),
        "vjp": lambda: torch.func.vjp(model, x),
        "grad": lambda: torch.func.grad(lambda one: model(one).sum())(x),
        "jacrev": lambda: torch.func.jacrev(model)(x),
        "vmap": lambda: torch.func.vmap(model)(torch.ones(2, 3)),
    }
    with pytest.raises(RuntimeError, match=r"use nbgrad\.autograd\.functional, which has jvp, vjp, jacobian"):
        runs[transform]()
    assert model(nbgrad.ones(3)).shape == (3,), "outside of the transform it runs"

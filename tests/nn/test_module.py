"""Module: registration, walking, modes, moving, saving, copying, and that nothing is kept alive."""

import copy
import gc
import io
import pickle
import weakref
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn


def make_net(lib, tensor):
    """A module with everything in it, on our nn or torch's."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.first = lib.Linear(4, 3)
            self.scale = lib.Parameter(tensor([2.0]))
            self.inner = lib.Sequential(lib.Linear(3, 3), lib.Tanh())
            self.tied = self.first
            self.register_buffer("mean", tensor([0.5, 1.5, 2.5]))
            self.register_buffer("scratch", tensor([0.0]), persistent=False)
            self.register_parameter("shift", None)
            self.weight = self.first.weight

        def forward(self, x):
            return self.inner(self.first(x)) * self.scale + self.mean

    torch.manual_seed(4)
    return Net()


def ours():
    return make_net(nn, nbgrad.tensor)


def theirs():
    return make_net(torch.nn, torch.tensor)


class Net(nn.Module):
    """At module level, so that pickle finds it."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.head = nn.Linear(3, 2)
        self.register_buffer("mean", torch.ones(2))

    def forward(self, x):
        return self.head(self.body(x)) + self.mean


# Walking.

WALKS = {
    "parameters": lambda m: [tuple(p.shape) for p in m.parameters()],
    "own parameters": lambda m: [tuple(p.shape) for p in m.parameters(recurse=False)],
    "named parameters": lambda m: [name for name, _ in m.named_parameters()],
    "named parameters, own": lambda m: [name for name, _ in m.named_parameters(recurse=False)],
    "named parameters, all": lambda m: [name for name, _ in m.named_parameters(remove_duplicate=False)],
    "named parameters, prefix": lambda m: [name for name, _ in m.named_parameters("net")],
    "named buffers": lambda m: [name for name, _ in m.named_buffers()],
    "buffers": lambda m: [tuple(b.shape) for b in m.buffers()],
    "named modules": lambda m: [(name, type(module).__name__) for name, module in m.named_modules()],
    "named modules, all": lambda m: [name for name, _ in m.named_modules(remove_duplicate=False)],
    "named modules, prefix": lambda m: [name for name, _ in m.named_modules(prefix="net")],
    "modules": lambda m: [type(module).__name__ for module in m.modules()],
    "named children": lambda m: [name for name, _ in m.named_children()],
    "children": lambda m: [type(module).__name__ for module in m.children()],
    "state_dict": lambda m: list(m.state_dict()),
    "state_dict, prefix": lambda m: list(m.state_dict(prefix="net.")),
    "repr": repr,
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=list(WALKS))
def test_walks_as_torch_does(walk):
    assert walk(ours()) == walk(theirs())


def test_apply_visits_in_torchs_order():
    visited, expected = [], []
    net = ours()
    assert net.apply(lambda module: visited.append(type(module).__name__)) is net
    theirs().apply(lambda module: expected.append(type(module).__name__))
    assert visited == expected


def test_parameters_are_named_after_their_attribute():
    net = ours()
    assert {p.name for p in net.parameters()} == {"weight", "bias", "scale"}
    assert net.mean.name == "mean"
    assert net.weight is net.first.weight


# Registration.


def test_replacing_and_deleting_attributes():
    net = ours()
    net.scale = nn.Parameter([3.0])
    assert net.scale.item() == 3
    net.scale = None
    assert "scale" not in net.state_dict()
    net.scale = nn.Parameter([4.0])
    net.tied = nn.Tanh()
    assert "tied.weight" not in net.state_dict()
    del net.weight, net.first, net.mean
    assert list(net.state_dict()) == ["scale", "inner.0.weight", "inner.0.bias"]
    assert not hasattr(net, "weight")
    net.weight = 3
    del net.weight
    with pytest.raises(AttributeError):
        del net.weight


def test_an_attribute_changes_what_it_is():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter([1.0])
    assert list(dict(module.named_parameters())) == ["x"]
    module.x = nn.Tanh()
    assert (list(module.parameters()), list(dict(module.named_children()))) == ([], ["x"])


def test_a_buffer_takes_a_new_tensor():
    net = ours()
    net.mean = torch.zeros(3)
    assert isinstance(net.mean, nbgrad.Tensor)
    assert net.mean.name == "mean"
    net.mean = net.mean + 1
    assert torch.equal(net.state_dict()["mean"], torch.ones(3))


def test_a_plain_tensor_is_no_parameter():
    module = nn.Module()
    module.x = nbgrad.tensor([1.0], requires_grad=True)
    assert list(module.parameters()) == list(module.buffers()) == []


def unready(change):
    """A module whose ``__init__`` forgets ``super().__init__()``."""

    class Forgetful(nn.Module):
        def __init__(self):
            self.size = 3
            change(self)

    return Forgetful()


BEFORE_INIT = r"before Module.__init__\(\) call: begin Forgetful.__init__ with super\(\).__init__\(\)"
ERRORS = {
    "parameter before init": (
        lambda: unready(lambda m: setattr(m, "w", nn.Parameter(1.0))),
        AttributeError,
        f"cannot assign parameter 'w' {BEFORE_INIT}",
    ),
    "module before init": (
        lambda: unready(lambda m: setattr(m, "act", nn.Tanh())),
        AttributeError,
        f"cannot assign module 'act' {BEFORE_INIT}",
    ),
    "buffer before init": (
        lambda: unready(lambda m: m.register_buffer("mean", None)),
        AttributeError,
        f"cannot assign buffer 'mean' {BEFORE_INIT}",
    ),
    "missing attribute": (lambda: nn.Linear(2, 3).wieght, AttributeError, "'Linear' object has no attribute 'wieght'"),
    "number as parameter": (
        lambda: setattr(nn.Linear(2, 3), "weight", 3),
        TypeError,
        r"cannot assign 'int' object to parameter 'weight' \(nbgrad.nn.parameter.Parameter or None required\)",
    ),
    "tensor as parameter": (
        lambda: setattr(nn.Linear(2, 3), "weight", torch.ones(3, 2)),
        TypeError,
        "cannot assign 'torch.FloatTensor' object to parameter 'weight'",
    ),
    "our tensor as parameter": (
        lambda: setattr(nn.Linear(2, 3), "weight", nbgrad.ones(3, 2)),
        TypeError,
        r"parameter 'weight' .*: nbgrad.nn.Parameter\(t\) makes one of it",
    ),
    "class as module": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU),
        TypeError,
        r"cannot assign the class ReLU to module '1' .*: write ReLU\(\)",
    ),
    "list as module": (
        lambda: nn.Sequential([nn.Linear(2, 3)]),
        TypeError,
        r"'list' object to module '0' .*: pass the modules one by one, as \*modules, or make an nn.ModuleList of them",
    ),
    "number as module": (lambda: setattr(ours(), "first", 3), TypeError, "'int' object to module 'first'"),
    "number as buffer": (lambda: setattr(ours(), "mean", 3), TypeError, "'int' object to buffer 'mean'"),
    "register a number": (lambda: nn.Module().register_parameter("w", 3), TypeError, "'int' object to parameter 'w'"),
    "dot in a name": (
        lambda: nn.Module().add_module("a.b", nn.Tanh()),
        KeyError,
        r"""module name can\\'t be empty or contain ".", got \\'a.b\\'""",
    ),
    "empty name": (lambda: nn.Module().register_buffer("", None), KeyError, "buffer name can"),
    "name of a method": (
        lambda: setattr(nn.Module(), "forward", nn.Parameter(1.0)),
        KeyError,
        "attribute 'forward' of Module already exists",
    ),
    "name in use": (lambda: ours().register_buffer("first", None), KeyError, "attribute 'first' of Net already exists"),
    "no forward": (lambda: nn.Module()(1), NotImplementedError, 'Module has no "forward"'),
    "integer dtype": (
        lambda: ours().to(torch.int64),
        TypeError,
        r"Net.to\(\) takes a floating point or complex dtype, got torch.int64",
    ),
    "state_dict is a path": (lambda: ours().load_state_dict("a.pt"), TypeError, "must be a dict of tensors, got str"),
}


@pytest.mark.parametrize(("act", "kind", "message"), ERRORS.values(), ids=list(ERRORS))
def test_errors_say_what_is_wrong(act, kind, message):
    with pytest.raises(kind, match=message):
        act()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_moving_to_cuda_where_there_is_none():
    with pytest.raises(RuntimeError, match="torch finds no CUDA device"):
        ours().to("cuda")


# Modes and gradients.


def test_train_and_eval_reach_every_module():
    net = ours()
    assert all(module.training for module in net.modules())
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.inner.train()
    assert (net.training, net.inner.training, net.inner[0].training) == (False, True, True)


def test_frozen_parameters_get_no_gradient():
    net = ours()
    assert net.inner.requires_grad_(False) is net.inner
    net(nbgrad.tensor([[1.0] * 4])).sum().backward()
    assert net.inner[0].weight.grad is None
    assert net.first.weight.grad is not None


def test_zero_grad_drops_or_fills_in_place():
    net = ours()
    x = nbgrad.tensor([[1.0] * 4])
    net(x).sum().backward()
    held = net.scale.grad.data
    net.zero_grad(set_to_none=False)
    assert held.eq(0).all()
    assert net.scale.grad.data.data_ptr() == held.data_ptr()
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is None


def test_zero_grad_cuts_a_gradient_from_its_history():
    net = nn.Linear(2, 1)
    (net(nbgrad.tensor([1.0, 2.0])) ** 2).sum().backward(create_graph=True)
    net.zero_grad(set_to_none=False)
    assert not net.weight.grad.requires_grad
    assert net.weight.grad.data.eq(0).all()


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.to(torch.float64),
        lambda m: m.to("cpu", torch.float64),
        lambda m: m.to(dtype=torch.float64, device="cpu"),
    ],
)
def test_to_changes_parameters_gradients_and_buffers_in_place(move):
    net = ours()
    net.register_buffer("count", torch.tensor(3))
    net(nbgrad.tensor([[1.0] * 4])).sum().backward()
    before = list(net.parameters())
    assert move(net) is net
    assert all(old is new for old, new in zip(before, net.parameters(), strict=True))
    assert {t.dtype for p in before for t in (p, p.grad)} == {torch.float64}
    assert (net.mean.dtype, net.mean.name, net.count.dtype) == (torch.float64, "mean", torch.int64)
    net(nbgrad.tensor([[1.0] * 4], dtype=torch.float64)).sum().backward()
    assert {p.grad.dtype for p in before} == {torch.float64}


def test_to_the_same_place_keeps_a_recorded_graph_valid():
    net = ours()
    out = net(nbgrad.tensor([[1.0] * 4])).sum()
    origin = net.scale.origin
    net.to("cpu")
    assert net.scale.origin is origin
    out.backward()
    assert net.scale.grad is not None


# Saving and loading.


def test_state_goes_to_torch_and_back():
    source, target = ours(), theirs()
    source.scale.data.fill_(7)
    target.load_state_dict(source.state_dict())
    assert target.scale.item() == 7
    target.mean.fill_(9)
    addresses = [p.data.data_ptr() for p in source.parameters()]
    keys = source.load_state_dict(target.state_dict())
    assert (keys.missing_keys, keys.unexpected_keys) == ([], [])
    assert source.mean.data.eq(9).all()
    assert [p.data.data_ptr() for p in source.parameters()] == addresses
    x = torch.randn(5, 4)
    torch.testing.assert_close(source(nbgrad.tensor(x)).data, target(x).detach())


def test_state_goes_through_a_file():
    source, target = ours(), theirs()
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    target.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(target.first.weight.detach(), source.first.weight.data)


def test_state_shares_memory_and_loads_from_our_tensors_and_torch_parameters():
    net = nn.Linear(2, 1)
    net.state_dict()["weight"].zero_()
    assert net.weight.data.eq(0).all()
    net.load_state_dict({"weight": nbgrad.tensor([[1.0, 2.0]]), "bias": torch.nn.Parameter(torch.ones(1))})
    assert net(nbgrad.tensor([1.0, 1.0])).item() == 4
    assert not net.bias.data.requires_grad


def test_all_misfits_are_listed_and_nothing_is_loaded():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = {key: value.clone() for key, value in net.state_dict().items()}
    wrong = {"0.weight": torch.ones(3, 3), "0.bias": 5, "1.weight": torch.zeros(1, 3), "extra": torch.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(wrong)
    assert str(caught.value).split("\n\t") == [
        "Error(s) in loading state_dict for Sequential:",
        "Missing key(s) in state_dict: '1.bias'",
        "Unexpected key(s) in state_dict: 'extra'",
        "size mismatch for 0.weight: got shape (3, 3), the model has (3, 2)",
        "expected a tensor for 0.bias, got int",
    ]
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_not_strict_reports_keys_but_never_takes_a_wrong_shape():
    net = nn.Linear(2, 3)
    keys = net.load_state_dict({"bias": torch.ones(3), "extra": torch.ones(1)}, strict=False)
    assert keys == (["weight"], ["extra"])
    assert net.bias.data.eq(1).all()
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        net.load_state_dict({"bias": torch.ones(4)}, strict=False)


def test_loading_between_forward_and_backward_is_noticed():
    net = nn.Linear(2, 3)
    out = net(nbgrad.tensor([1.0, 2.0], requires_grad=True)).sum()
    net.load_state_dict(nn.Linear(2, 3).state_dict())
    with pytest.raises(RuntimeError, match=r"linear needs 'net.weight'.*in-place operation"):
        out.backward()


# Copies and lifetimes.


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_a_copy_is_independent(duplicate):
    net, x = Net(), nbgrad.tensor([[1.0] * 4])
    with nbgrad.AutogradGraph():
        net(x).sum().backward()
    copied = duplicate(net)
    assert torch.equal(copied(x).data, net(x).data)
    gradient = net.head.weight.grad.data.clone()
    copied(x).sum().backward()
    assert torch.equal(net.head.weight.grad.data, gradient)
    assert torch.equal(copied.head.weight.grad.data, gradient)
    copied.mean.data.zero_()
    assert net.mean.data.eq(1).all()
    with nbgrad.AutogradGraph() as graph:
        copied(x).sum().backward()
    assert {record.scope.label for record in graph.records if record.kind == "parameter"} == {
        "0 (Linear)",
        "head (Linear)",
    }


def test_tied_parameters_stay_tied_in_a_copy():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    copied = copy.deepcopy(net)
    assert copied[1].weight is copied[0].weight
    assert len(list(copied.parameters())) == 3


@pytest.fixture
def no_collector():
    """The garbage collector is off: only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def run(net):
    net(nbgrad.tensor([[1.0] * 4])).sum().backward()


def observe(net):
    with nbgrad.AutogradGraph() as graph:
        run(net)
    return graph


@pytest.mark.parametrize("use", [run, observe])
def test_a_dropped_module_is_gone_at_once(no_collector, use):
    net = Net()
    dead = [weakref.ref(thing) for thing in (net, net.body, net.head.weight, net.mean)]
    use(net)
    copy.deepcopy(net)
    del net
    assert [ref() for ref in dead] == [None] * len(dead)


def test_a_kept_graph_keeps_no_model(no_collector):
    net = Net()
    dead = weakref.ref(net)
    graph = observe(net)
    del net
    assert dead() is None
    assert {record.scope.label for record in graph.records if record.op is not None and record.scope} >= {"Net"}


def test_a_module_that_passes_on_to_another_what_it_lacks() -> None:
    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    assert Wrapped(nn.Linear(2, 3)).in_features == 2


def test_running_statistics_that_were_switched_off_are_kept() -> None:
    def after(lib: Any) -> list[Any]:
        norm = lib.nn.BatchNorm1d(2)
        norm(lib.tensor([[1.0, 2.0], [3.0, 5.0]]))
        norm.track_running_stats = False
        norm.reset_running_stats()
        return [norm.running_mean.tolist(), norm.running_var.tolist(), norm.num_batches_tracked.item()]

    assert after(nbgrad) == after(torch)


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (lambda: torch.nn.Parameter(torch.ones(2)), r"nbgrad\.nn\.Parameter\(p\.data\)"),
        (lambda: torch.nn.Linear(2, 3), r"nbgrad\.nn\.from_torch\(module\)"),
    ],
)
def test_what_is_torchs_own_and_would_be_learned_is_an_error(make: Any, instead: str) -> None:
    net = nn.Module()
    with pytest.raises(TypeError, match=f"attribute 'inner' of Module is a torch.*: write {instead}"):
        net.inner = make()
    assert not hasattr(net, "inner")
    net.inner = make().requires_grad_(False)
    net.loss = torch.nn.MSELoss()
    assert list(net.parameters()) == []


def test_a_block_half_ported_from_torch_is_an_error() -> None:
    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

    net = nn.Module()
    with pytest.raises(TypeError, match=r"'block' of Module is a Outer.*Inner is one too.*'scale'.*Derive Inner from"):
        net.block = Outer()
    with pytest.raises(
        TypeError, match=r"'block' of Module is a Layer.*it holds 'linear'.*Derive Layer from nbgrad.nn"
    ):
        net.block = Layer()
    net.frozen = torch.nn.Linear(2, 2).requires_grad_(False)  # a feature extractor, say
    assert not hasattr(net, "block")

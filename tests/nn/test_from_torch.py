"""Models written in plain torch, run by our engine: outputs and all gradients are torch's."""

import copy
import io
import math
import pickle
import warnings
from functools import cache

import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F  # noqa: N812  # as models in torch are written

import nbgrad
from nbgrad import nn
from nbgrad.nn.from_torch import from_torch
from tests.nn.alike import TIGHT, check, each, flat, same


class Basic(tnn.Module):
    """A block of ResNet-18."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = tnn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = tnn.BatchNorm2d(out)
        self.relu = tnn.ReLU(inplace=True)
        self.conv2 = tnn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = tnn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = tnn.Sequential(tnn.Conv2d(channels, out, 1, stride, bias=False), tnn.BatchNorm2d(out))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(tnn.Module):
    """He et al. 2016, with fewer channels."""

    def __init__(self, width=4, classes=5):
        super().__init__()
        self.conv1 = tnn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = tnn.BatchNorm2d(width)
        self.relu = tnn.ReLU(inplace=True)
        self.maxpool = tnn.MaxPool2d(3, 2, 1)
        channels = width
        for level in range(4):
            out = width * 2**level
            blocks = [Basic(channels, out, 1 if level == 0 else 2), Basic(out, out, 1)]
            setattr(self, f"layer{level + 1}", tnn.Sequential(*blocks))
            channels = out
        self.avgpool = tnn.AdaptiveAvgPool2d((1, 1))
        self.fc = tnn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, tnn.Conv2d):
                tnn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class SelfAttention(tnn.Module):
    """Attention as GPT-2 writes it out."""

    def __init__(self, size, heads, context):
        super().__init__()
        self.c_attn = tnn.Linear(size, 3 * size)
        self.c_proj = tnn.Linear(size, size)
        self.heads = heads
        self.register_buffer("bias", torch.tril(torch.ones(context, context)).view(1, 1, context, context))
        self.dropout = tnn.Dropout(0.1)

    def forward(self, x):
        batch, length, size = x.size()
        q, k, v = self.c_attn(x).split(size, dim=2)
        q, k, v = (t.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v))
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        y = self.dropout(F.softmax(weights, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, size))


class Gelu(tnn.Module):
    """GPT-2's version of GELU, with tanh."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT2(tnn.Module):
    """The architecture of the small GPT-2 (Radford et al. 2019), with fewer features."""

    def __init__(self, words=17, context=8, size=12, heads=3, layers=2):
        super().__init__()
        block = lambda: tnn.ModuleDict({  # noqa: E731
            "ln_1": tnn.LayerNorm(size),
            "attn": SelfAttention(size, heads, context),
            "ln_2": tnn.LayerNorm(size),
            "mlp": tnn.Sequential(tnn.Linear(size, 4 * size), Gelu(), tnn.Linear(4 * size, size), tnn.Dropout(0.1)),
        })  # fmt: skip
        self.transformer = tnn.ModuleDict(
            {
                "wte": tnn.Embedding(words, size),
                "wpe": tnn.Embedding(context, size),
                "drop": tnn.Dropout(0.1),
                "h": tnn.ModuleList([block() for _ in range(layers)]),
                "ln_f": tnn.LayerNorm(size),
            }
        )
        self.lm_head = tnn.Linear(size, words, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, numbers, targets=None):
        positions = torch.arange(0, numbers.size(1), device=numbers.device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(numbers) + self.transformer.wpe(positions))
        for block in self.transformer.h:
            x = x + block.attn(block.ln_1(x))
            x = x + block.mlp(block.ln_2(x))
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def torchs(name, training=True):
    torch.manual_seed(5)
    layer = lambda: tnn.TransformerEncoderLayer(8, 2, 16, activation="gelu")  # noqa: E731
    models = {
        "encoder": lambda: tnn.TransformerEncoder(layer(), 2, tnn.LayerNorm(8), enable_nested_tensor=False),
        "resnet": ResNet18,
        "gpt": GPT2,
        "lstm": lambda: tnn.LSTM(8, 3, 2, bidirectional=True),
    }
    return models[name]().double().train(training)


def given(name):
    torch.manual_seed(6)
    shapes = {"encoder": (5, 2, 8), "lstm": (5, 2, 8), "resnet": (2, 3, 32, 32)}
    if name == "gpt":
        return [torch.randint(17, (2, 8)), torch.randint(17, (2, 8))]
    return [torch.randn(shapes[name], dtype=torch.float64)]


NAMES = ["encoder", "resnet", "gpt", "lstm"]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_all_gradients(name, training):
    theirs = torchs(name, training)
    ours = from_torch(copy.deepcopy(theirs))
    assert ours.training is training
    check(ours, theirs, *given(name), tolerance={"rtol": 1e-9, "atol": 1e-10})
    same(list(ours.buffers()), list(theirs.buffers()), TIGHT)


@pytest.mark.parametrize("name", NAMES)
def test_state_has_torchs_keys_and_memory(name):
    theirs = torchs(name)
    ours = from_torch(theirs)
    mine, yours = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(yours)
    assert all(mine[key].data_ptr() == yours[key].data_ptr() for key in yours)
    assert [key for key, _ in ours.named_parameters()] == [key for key, _ in theirs.named_parameters()]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_torchs_is_loaded_key_by_key(name):
    file = io.BytesIO()
    theirs = torchs(name, training=False)
    torch.save(theirs.state_dict(), file)
    file.seek(0)
    torch.manual_seed(99)
    ours = from_torch(copy.deepcopy(theirs))
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    found = ours.load_state_dict(torch.load(file, weights_only=True))
    assert found.missing_keys == found.unexpected_keys == []
    check(ours, theirs, *given(name), tolerance={"rtol": 1e-9, "atol": 1e-10})


def test_known_blocks_are_ours_and_others_are_both():
    ours = from_torch(torchs("gpt"))
    assert isinstance(ours, nn.Module)
    assert isinstance(ours, GPT2)
    assert isinstance(ours.lm_head, nn.Linear)
    assert isinstance(ours.lm_head, tnn.Linear)
    assert type(ours.lm_head).__name__ == "Linear"
    assert type(ours.lm_head) is type(ours.transformer["h"][0]["attn"].c_attn)
    assert type(ours).__name__ == "GPT2"
    assert ours.lm_head.weight is ours.transformer["wte"].weight
    assert isinstance(ours.lm_head.weight, nn.Parameter)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_weights_of_their_own(again):
    ours = from_torch(torchs("resnet", training=False))
    other = again(ours)
    x = nbgrad.tensor(given("resnet")[0])
    assert torch.equal(ours(x).data, other(x).data)
    ours.conv1.weight.data.zero_()
    assert other.conv1.weight.data.abs().sum() > 0
    assert other.training is False
    assert other.train().layer1[0].bn1.training is True


def test_what_is_shared_stays_shared():
    inner = tnn.Linear(3, 3)
    ours = from_torch(tnn.Sequential(inner, tnn.Tanh(), inner))
    assert ours[0] is ours[2]
    assert len(list(ours.parameters())) == 2


def test_frozen_parameters_and_hooks_come_along():
    theirs = tnn.Sequential(tnn.Linear(3, 3), tnn.Linear(3, 2))
    theirs[0].requires_grad_(False)
    theirs[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    theirs[1].register_forward_hook(lambda module, args, kwargs, out: out + 1, with_kwargs=True)
    ours = from_torch(theirs)
    assert [one.requires_grad for one in ours.parameters()] == [False, False, True, True]
    x = torch.randn(4, 3)
    torch.testing.assert_close(ours(nbgrad.tensor(x)).data, theirs(x).detach())


class Counting(tnn.Module):
    """Attributes that are set in the forward, a method of its own, and a list of modules that is not registered."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("mean", torch.zeros(3), persistent=False)
        self.steps = [self.double_it]
        self.extra = {"layer": tnn.Linear(3, 3)}

    def double_it(self, x):
        self.calls += 1
        return x * 2

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        assert isinstance(self, tnn.Module)
        for step in self.steps:
            x = step(x)
        return self.extra["layer"](x) - self.mean + next(self.parameters(), 0)


def test_attributes_and_methods():
    theirs = Counting()
    ours = from_torch(theirs)
    x = torch.randn(4, 3)
    torch.testing.assert_close(ours(nbgrad.tensor(x)).data, theirs(x).detach())
    torch.testing.assert_close(ours.mean.data, theirs.mean)
    assert ours.calls == 1
    assert "mean" not in ours.state_dict()


# Every torch block that nbgrad has, made and run as in torch's own tests.

MODULES = [
    name
    for name, one in vars(tnn).items()
    if isinstance(one, type) and issubclass(one, tnn.Module) and hasattr(nn, name)
]
MOST = 5
"""How many samples of a block are run. They are spread over all samples."""


@cache
def samples_of_torch():
    """Torch's own tests of blocks, by the name of the block. The import takes seven seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import warns about optional packages
        from torch.testing._internal.common_modules import module_db
    return {info.module_cls.__name__: info for info in module_db}


def samples(info):
    settings = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": True}
    found = [one for one in info.module_inputs_func(info, **settings) if one.forward_input is not None]
    return found[:: -(-len(found) // MOST)]


@pytest.mark.filterwarnings("ignore")  # torch's samples use what torch has deprecated
@pytest.mark.parametrize("name", MODULES)
def test_blocks_become_ours(name):
    ran = 0
    if (info := samples_of_torch().get(name)) is None:
        pytest.skip("torch's own tests have no samples of it")
    for sample in samples(info):
        made, given = sample.constructor_input, sample.forward_input
        theirs = info.module_cls(*made.args, **made.kwargs).double()
        theirs(*copy.deepcopy(given.args), **given.kwargs)  # a lazy one finds its shape
        ours = from_torch(copy.deepcopy(theirs))
        assert isinstance(ours, getattr(nn, type(theirs).__name__))
        assert isinstance(ours, type(theirs))
        torch.manual_seed(1)
        out = ours(*each(list(given.args), nbgrad.tensor), **each_named(given.kwargs))
        torch.manual_seed(1)
        expected = theirs(*copy.deepcopy(given.args), **given.kwargs)
        same(flat(out), flat(expected), {"rtol": 1e-9, "atol": 1e-10, "equal_nan": True})
        ran += 1
    assert ran


def each_named(settings):
    return {key: each(value, nbgrad.tensor) for key, value in settings.items()}


class Strange(tnn.Module):
    def forward(self, x):
        return torch.nextafter(x, x + 1)


def test_a_missing_op_is_named_with_its_place():
    ours = from_torch(tnn.Sequential(tnn.Linear(3, 3), Strange()))
    with pytest.raises(NotImplementedError, match=r"no op 'torch.nextafter'") as caught:
        ours(nbgrad.tensor(torch.ones(2, 3)))
    assert "in 1 (Strange)" in caught.value.__notes__
    assert any("%%autograd" in note for note in caught.value.__notes__)


def test_what_cannot_be_converted():
    with pytest.raises(TypeError, match=r"from_torch takes a torch\.nn\.Module, not"):
        from_torch(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="LazyLinear does not know its shapes yet"):
        from_torch(tnn.LazyLinear(3))
    hooked = tnn.Linear(2, 2)
    hooked.register_full_backward_hook(lambda *_: None)
    with pytest.raises(NotImplementedError, match="Linear has backward hooks"):
        from_torch(hooked)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_module_compiled_by_jit_is_refused():
    with pytest.raises(TypeError, match=r"compiled by torch\.jit"):
        from_torch(torch.jit.trace(tnn.Linear(2, 2), torch.ones(1, 2)))


def test_a_block_of_torchs_in_a_model_of_ours_is_an_error_that_says_what_to_do():
    with pytest.raises(TypeError, match=r"object to module '1' .*: nbgrad\.from_torch\(module\) makes one of it"):
        nn.Sequential(nn.Linear(2, 3), torch.nn.ReLU())
    assert isinstance(nn.Sequential(nn.Linear(2, 3), nbgrad.from_torch(torch.nn.ReLU()))[1], nn.ReLU)


class Hidden(tnn.Module):
    """Properties have the names of a child, a parameter and a buffer, as in adapters that wrap another layer."""

    def __init__(self):
        super().__init__()
        self.inner = tnn.Linear(3, 3)
        self._modules["layer"] = tnn.Linear(3, 3)
        self._modules["gate"] = tnn.Linear(3, 3)
        self._parameters["scale"] = tnn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self._buffers["shift"] = torch.ones(3)

    @property
    def layer(self):
        return self.inner

    @property
    def gate(self):
        return self._modules["gate"]

    @property
    def scale(self):
        return self._parameters["scale"].exp()

    @property
    def shift(self):
        return self._buffers["shift"] * 2

    def forward(self, x):
        return self.layer(x) * self.scale + self.gate(x) + self.shift + self._modules["layer"](x)


@pytest.mark.parametrize("part", ["itself", "copied", "pickled"])
def test_a_property_that_hides_what_is_registered_answers_as_in_torch(part):
    torch.manual_seed(0)
    theirs, x = Hidden(), torch.randn(2, 3)
    ours = from_torch(theirs)
    if part == "copied":
        ours = copy.deepcopy(ours)
    if part == "pickled":
        ours = pickle.loads(pickle.dumps(ours))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert ours.layer is ours.inner
    assert ours.gate is ours._modules["gate"]
    found = ours(nbgrad.tensor(x))
    assert torch.equal(found.data, theirs(x))
    found.sum().backward()
    grads = {name: one.grad.data for name, one in ours.named_parameters()}
    theirs.zero_grad()
    theirs(x).sum().backward()
    assert grads.keys() == {name for name, _ in theirs.named_parameters()}
    assert all(torch.equal(grads[name], one.grad) for name, one in theirs.named_parameters())


def test_another_attribute_of_the_class_that_hides_a_child_is_refused_with_advice():
    class Shadowed(tnn.Module):
        layer = None

        def __init__(self):
            super().__init__()
            self.layer = tnn.Linear(2, 2)

    assert Shadowed().layer is None, "as torch has it"
    with pytest.raises(NotImplementedError, match="the class Shadowed has an attribute 'layer', which hides"):
        from_torch(Shadowed())


class Summed(tnn.Module):
    def __init__(self):
        super().__init__()
        self.inner = tnn.Linear(3, 2)

    def forward(self, x):
        return self.inner(x).sum()


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap"])
def test_a_transform_of_torchs_names_nbgrads_own(name, check):
    ours, x = from_torch(Summed(), check=check), torch.ones(2, 3)
    calls = {"jvp": lambda: torch.func.jvp(ours, (x,), (x,)), "vjp": lambda: torch.func.vjp(ours, x)}
    run = calls.get(name, lambda: getattr(torch.func, name)(ours)(x))
    with pytest.raises(RuntimeError, match=r"a transform of torch\.func, .* use nbgrad\.autograd\.functional"):
        run()
    found = nbgrad.autograd.functional.jacobian(ours, nbgrad.tensor(x))
    assert torch.allclose(found.data, ours.inner.weight.data.sum(0).expand(2, 3))


class Clamped(tnn.Module):
    """The data of its parameters are replaced in the forward, in every way that torch has."""

    def __init__(self, replace):
        super().__init__()
        self.weight = tnn.Parameter(torch.tensor([0.2, 0.4, 0.6]))
        self.bias = tnn.Parameter(torch.tensor([0.1]))
        self.replace = replace

    def forward(self, x):
        self.replace(self)
        return ((x * self.weight).sum() + self.bias.sum() - 1) ** 2


def assigned(net):
    net.weight.data = net.weight.data.clamp(max=0.5)


def copied(net):
    net.weight.data.copy_(net.weight.data.clamp(max=0.5))


def without_grad(net):
    with torch.no_grad():
        net.weight.clamp_(max=0.5)


def from_a_vector(net):
    flat = torch.cat([one.detach().reshape(-1) for one in net.parameters()]) * 0.9
    net.weight.data = flat[:3].view_as(net.weight).data
    net.bias.data = flat[3:].view_as(net.bias).data


def averaged(net):
    for one in net.parameters():
        one.data = 0.9 * one.data + 0.01


@pytest.mark.parametrize("replace", [assigned, copied, without_grad, from_a_vector, averaged])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_data_that_a_forward_assigns_are_those_of_both_modules(replace, momentum):
    x = torch.tensor([1.0, 2.0, 3.0])
    plain, theirs = Clamped(replace), Clamped(replace)
    ours = from_torch(theirs, check=False)
    steps = [torch.optim.SGD(one.parameters(), lr=0.05, momentum=momentum) for one in (plain, theirs)]
    for _ in range(4):
        for net, given, step in ((plain, x, steps[0]), (ours, nbgrad.tensor(x), steps[1])):
            step.zero_grad()
            net(given).backward()
            step.step()
        for one, other, mine in zip(plain.parameters(), theirs.parameters(), ours.parameters(), strict=True):
            assert torch.equal(one.data, other.data)
            assert torch.equal(one.grad, other.grad)
            assert mine.data.data_ptr() == other.data_ptr()


def test_a_step_after_a_forward_has_assigned_data_of_another_type_says_so():
    def doubled(net):
        net.weight.data = net.weight.data.double()

    theirs = Clamped(doubled)
    ours = from_torch(theirs, check=False)
    ours(nbgrad.tensor([1.0, 2.0, 3.0])).backward()
    with pytest.raises(RuntimeError, match=r"code assigned data of another type or device to it"):
        torch.optim.SGD(theirs.parameters(), lr=0.1).step()

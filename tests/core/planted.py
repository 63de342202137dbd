"""Pairs of programs with one planted difference each, and pairs that are equal in meaning.

A program is a function of a flag: without it, it is the reference; with it, the port that has the difference.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

import nbgrad
from nbgrad.core.graph.comparison import Comparison
from nbgrad.core.graph.graph import AutogradGraph


class Pair(NamedTuple):
    """A pair of programs, and what the first difference has to be.

    Attributes:
        program: builds the loss; it gets whether it is the port.
        kind: of the first difference; "none" if there is none.
        op: the op or kind of tensor on the left, or of an extra op on either side.
        setting: the name of a setting, of an input or of a tensor that the answer names.
        backward: whether the first difference is one of the backward.
    """

    program: Callable[[bool], Any]
    kind: str
    op: str
    setting: str | None = None
    backward: bool = False


def recorded(program: Callable[[bool], Any], port: bool) -> AutogradGraph:
    """One forward and backward of a program."""
    torch.manual_seed(0)
    with AutogradGraph("port" if port else "reference") as graph:
        loss = program(port)
        (loss if loss.ndim == 0 else loss.square().mean()).backward()
    return graph


def compared(program: Callable[[bool], Any], **options: Any) -> Comparison:
    """The reference and the port side by side."""
    return nbgrad.compare(recorded(program, False), recorded(program, True), **options)


def check(pair: Pair) -> None:
    """Raise unless the first difference is the planted one."""
    found = compared(pair.program)
    if pair.kind == "none":
        assert found.equal, f"\n{found}"
        return
    assert not found.equal
    first = found.first_gradient if pair.backward else found.first
    assert first is not None, f"\n{found}"
    assert not (pair.backward and found.first), f"\n{found}"
    assert first.kind == pair.kind, f"\n{found}"
    ops = {record.kind_or_op for record in (first.left, *first.parts[0], *first.parts[1]) if record is not None}
    assert pair.op in ops, f"{ops}\n{found}"
    if pair.setting is not None:
        records = [record for record in (first.left, first.right) if record is not None]
        named = {*first.settings, first.gradient, *(record.full_name for record in records), first.note}
        assert pair.setting in named, f"{named}\n{found}"


PAIRS: dict[str, Pair] = {}


Program = Callable[[bool], Any]


def planted(kind: str, op: str, setting: str | None = None, *, backward: bool = False) -> Callable[[Program], Program]:
    """Add a program to the pairs."""

    def add(program: Program) -> Program:
        PAIRS[program.__name__] = Pair(program, kind, op, setting, backward)
        return program

    return add


def net(*layers: Any) -> Any:
    """Layers with weights that are the same in each run."""
    return torch.nn.Sequential(*layers)


def data(*shape: int) -> torch.Tensor:
    """Numbers that are the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def w(*shape: int, seed: int = 2) -> torch.Tensor:
    """A leaf."""
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


# Settings.


@planted("op", "layer_norm", "eps")
def eps_of_a_layer_norm(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.LayerNorm(8, eps=1e-2 if port else 1e-5), nn.GELU(), nn.Linear(8, 3), nn.Softmax(1))
    return model(data(5, 6))


@planted("op", "layer_norm", "eps")
def eps_that_is_only_slightly_larger(port: bool) -> Any:
    nn = torch.nn
    return net(nn.Linear(6, 8), nn.LayerNorm(8, eps=1.1e-5 if port else 1e-5), nn.Linear(8, 3))(data(5, 6))


@planted("tensor", "constant")
def momentum_of_a_batch_norm(port: bool) -> Any:
    norm = torch.nn.BatchNorm1d(4, momentum=0.9 if port else 0.1)
    norm(data(5, 4))
    norm.eval()
    return F.batch_norm(w(5, 4) * 2, norm.running_mean, norm.running_var)


@planted("op", "elu", "alpha")
def alpha_of_an_elu(port: bool) -> Any:
    return F.elu(w(4, 3) * 2, alpha=1.5 if port else 1.0).sin()


@planted("op", "leaky_relu", "negative_slope")
def slope_of_a_leaky_relu(port: bool) -> Any:
    return F.leaky_relu(w(4, 3) * 2, 0.2 if port else 0.01).tanh()


@planted("op", "gelu", "approximate")
def gelu_by_tanh(port: bool) -> Any:
    nn = torch.nn
    return net(nn.Linear(6, 8), nn.GELU("tanh" if port else "none"), nn.Linear(8, 3))(data(5, 6))


@planted("op", "mul")
def scale_of_scores(port: bool) -> Any:
    q, k, v = (w(2, 4, 8, seed=one) for one in (3, 4, 5))
    return ((q @ k.transpose(-2, -1)) * (8**-0.5 if not port else 8**-1)).softmax(-1) @ v


@planted("op", "softmax", "dim")
def softmax_over_another_axis(port: bool) -> Any:
    return (w(4, 4) * 3).softmax(0 if port else -1) @ w(4, 2, seed=7)


@planted("op", "sum", "dim")
def sum_over_another_axis(port: bool) -> Any:
    return (w(4, 4) * 3).exp().sum(0 if port else 1).log()


@planted("op", "mean", "dim")
def mean_over_another_axis_of_another_shape(port: bool) -> Any:
    return (w(4, 3) * 3).exp().mean(0 if port else 1).log().sum()


@planted("op", "cross_entropy", "label_smoothing")
def label_smoothing(port: bool) -> Any:
    return F.cross_entropy(w(5, 3) * 2, torch.tensor([0, 1, 2, 0, 1]), label_smoothing=0.1 if port else 0.0)


@planted("op", "mse_loss", "reduction")
def sum_in_the_place_of_mean(port: bool) -> Any:
    return F.mse_loss((w(5, 3) * 2).tanh(), data(5, 3), reduction="sum" if port else "mean")


@planted("op", "conv2d", "padding")
def padding_of_a_convolution(port: bool) -> Any:
    image = F.pad(data(1, 2, 6, 6), (0, 0, 0, 0))
    return F.conv2d(image, w(3, 2, 3, 3), padding=1 if port else 0).relu().mean()


@planted("op", "conv2d", "stride")
def stride_of_a_convolution(port: bool) -> Any:
    return F.conv2d(data(1, 2, 6, 6), w(3, 2, 3, 3), stride=2 if port else 1).relu().mean()


@planted("op", "pad", "mode")
def padding_mode(port: bool) -> Any:
    return F.conv2d(F.pad(w(1, 2, 6, 6), (1, 1, 1, 1), mode="reflect" if port else "circular"), w(3, 2, 3, 3)).relu()


@planted("op", "scaled_dot_product_attention", "is_causal")
def causal_flag(port: bool) -> Any:
    q, k, v = (w(1, 2, 5, 4, seed=one) for one in (3, 4, 5))
    return F.scaled_dot_product_attention(q, k, v, is_causal=port) * 2


@planted("op", "huber_loss", "delta")
def delta_of_a_huber_loss(port: bool) -> Any:
    return F.huber_loss(w(5, 3) * 2, data(5, 3), delta=0.5 if port else 1.0)


@planted("op", "getitem", "index")
def positions_off_by_one(port: bool) -> Any:
    h = w(6, 4).tanh()
    return h[1:6] * 2 if port else h[0:5] * 2


@planted("op", "clamp")
def clamp_at_another_bound(port: bool) -> Any:
    return (w(6, 4) * 3).clamp(-1.0, 2.0 if port else 1.0).sum()


@planted("op", "roll", "shifts")
def rolled_by_another_shift(port: bool) -> Any:
    return (w(6, 4).roll(2 if port else 1, 0) * data(6, 4)).sum()


# Missing and added ops.


@planted("extra", "relu")
def missing_activation(port: bool) -> Any:
    nn = torch.nn
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)]
    return net(*(layers[:1] + layers[2:] if port else layers))(data(5, 6))


@planted("extra", "tanh")
def added_activation_at_the_end(port: bool) -> Any:
    nn = torch.nn
    h = net(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))(data(5, 6))
    return h.tanh() if port else h


@planted("extra", "add")
def missing_residual(port: bool) -> Any:
    x, weight = w(5, 6), w(6, 6, seed=4)
    h = F.linear(x.sin(), weight)
    return (h if port else h + x.sin()).softmax(-1).log()


@planted("op", "sigmoid")
def another_activation(port: bool) -> Any:
    nn = torch.nn
    return net(nn.Linear(6, 8), nn.ReLU() if port else nn.Sigmoid(), nn.Linear(8, 3))(data(5, 6))


@planted("op", "linear", "bias")
def missing_bias(port: bool) -> Any:
    bias = w(4, seed=8)
    return F.linear(data(5, 6), w(4, 6), None if port else bias).relu()


@planted("extra", "dropout")
def dropout_on(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    model.train(port)
    return model(data(5, 6))


@planted("op", "dropout")
def another_mask_of_a_dropout(port: bool) -> Any:
    model = net(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    torch.manual_seed(int(port))
    return model(data(5, 6))


@planted("extra", "relu")
def order_of_norm_and_activation(port: bool) -> Any:
    h = F.linear(data(5, 6), w(8, 6))
    h = F.layer_norm(h.relu(), (8,)) if port else F.layer_norm(h, (8,)).relu()
    return F.linear(h, w(3, 8, seed=3))


# Tensors.


@planted("tensor", "parameter", "2.weight")
def changed_weight(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    if port:
        with torch.no_grad():
            model[2].weight[1, 1] += 0.01
    return model(data(5, 6))


@planted("tensor", "leaf", "one is the other one transposed")
def transposed_weight(port: bool) -> Any:
    weight = w(6, 6).detach()
    weight = (weight.T.contiguous() if port else weight).requires_grad_()
    return F.linear(F.linear(data(5, 6), w(6, 6, seed=4)).tanh(), weight).relu()


@planted("tensor", "constant")
def another_seed_of_the_data(port: bool) -> Any:
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(10 + port))
    return net(torch.nn.Linear(6, 8), torch.nn.Tanh())(x)


@planted("tensor", "parameter", "0.weight")
def another_seed_of_the_weights(port: bool) -> Any:
    torch.manual_seed(int(port))
    return net(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))(data(5, 6))


@planted("tensor", "constant")
def another_mask(port: bool) -> Any:
    mask = torch.ones(5, 5).tril(0 if port else 1).bool()
    return (w(5, 5) * 2).masked_fill(~mask, -1e9).softmax(-1) @ w(5, 2, seed=5)


@planted("tensor", "constant")
def another_target(port: bool) -> Any:
    target = torch.tensor([0, 1, 2, 0, 2 if port else 1])
    return F.cross_entropy((w(5, 3) * 2).tanh(), target)


# The backward.


class _Cube(torch.autograd.Function):
    wrong = False

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (2 if _Cube.wrong else 3) * x**2


@planted("op", "_Cube", backward=True)
def wrong_backward_of_a_function(port: bool) -> Any:
    _Cube.wrong = port
    h = F.linear(data(5, 6), w(4, 6)).tanh()
    return F.linear(_Cube.apply(h), w(2, 4, seed=4))  # type: ignore[no-untyped-call]


@planted("op", "mul", backward=True)
def detached_branch(port: bool) -> Any:
    h = F.linear(data(5, 6), w(4, 6)).tanh()
    gate = h.sigmoid()
    return ((gate.detach() if port else gate) * h.sin()).sum()


@planted("op", "linear", "weight", backward=True)
def frozen_weight(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    model[2].weight.requires_grad_(not port)
    return model(data(5, 6))


@planted("op", "tanh", backward=True)
def hook_on_a_gradient(port: bool) -> Any:
    h: Any = F.linear(data(5, 6), w(4, 6)).tanh()
    if port:
        h.grad_fn.register_hook(lambda given, _: tuple(one * 0.5 for one in given))
    return h.exp()


# Equal in meaning.


@planted("none", "")
def linear_against_its_parts(port: bool) -> Any:
    x, weight, bias = data(5, 6), w(4, 6), w(4, seed=3)
    h = x @ weight.T + bias if port else F.linear(x, weight, bias)
    return h.tanh()


@planted("none", "")
def attention_against_its_parts(port: bool) -> Any:
    q, k, v = (w(1, 2, 5, 4, seed=one) for one in (3, 4, 5))
    if not port:
        return F.scaled_dot_product_attention(q, k, v).tanh()
    return (((q @ k.transpose(-2, -1)) / 2).softmax(-1) @ v).tanh()


@planted("none", "")
def attention_with_another_order_of_scaling(port: bool) -> Any:
    q, k, v = (w(2, 5, 4, seed=one) for one in (3, 4, 5))
    scores = ((q * 0.5) @ k.transpose(1, 2)) if port else (q @ k.transpose(1, 2)) * 0.5
    return (scores.softmax(-1) @ v).tanh()


@planted("none", "")
def cross_entropy_against_its_parts(port: bool) -> Any:
    logits, target = w(5, 3) * 2, torch.tensor([0, 1, 2, 0, 1])
    return F.nll_loss(F.log_softmax(logits, 1), target) if port else F.cross_entropy(logits, target)


@planted("none", "")
def layer_norm_against_its_parts(port: bool) -> Any:
    h, weight, bias = F.linear(data(5, 6), w(8, 6)), w(8, seed=5), w(8, seed=6)
    if port:
        mean = h.mean(-1, keepdim=True)
        h = (h - mean) / ((h - mean).pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias
    else:
        h = F.layer_norm(h, (8,), weight, bias)
    return F.linear(h.relu(), w(2, 8, seed=7))


@planted("none", "")
def branches_in_another_order(port: bool) -> Any:
    x = w(5, 6)

    def one() -> Any:
        return (x * 2).sin().exp()

    def other() -> Any:
        return (x * 3).cos().tanh()

    if port:
        b = other()
        a = one()
    else:
        a = one()
        b = other()
    return (a + b).sum()


@planted("none", "")
def names_changed(port: bool) -> Any:
    if port:
        first, then = w(4, 6), w(2, 4, seed=3)
        return F.linear(F.linear(data(5, 6), first).relu(), then)
    w1, w2 = w(4, 6), w(2, 4, seed=3)
    return F.linear(F.linear(data(5, 6), w1).relu(), w2)


@planted("none", "")
def other_modules(port: bool) -> Any:
    nn = torch.nn
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)]
    return (net(net(layers[0], layers[1]), layers[2]) if port else net(*layers))(data(5, 6))


@planted("none", "")
def own_dialect_against_torch(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    x, target = data(5, 6), torch.tensor([0, 1, 2, 0, 1])
    if port:
        return nbgrad.nn.functional.cross_entropy(nbgrad.from_torch(model)(nbgrad.tensor(x)), nbgrad.tensor(target))
    return F.cross_entropy(model(x), target)


@planted("none", "")
def casts_and_views_inserted(port: bool) -> Any:
    h = F.linear(data(5, 6), w(4, 6))
    if port:
        h = h.double().float().view(5, 4).contiguous().reshape(5, 4)
    return h.tanh()


@planted("none", "")
def float32_against_float64(port: bool) -> Any:
    nn = torch.nn
    model, x = net(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), data(5, 6)
    return model.double()(x.double()) if port else model(x)


@planted("none", "")
def dropout_in_evaluation(port: bool) -> Any:
    nn = torch.nn
    model = net(nn.Linear(6, 8), nn.Dropout(0.5) if port else nn.Identity(), nn.Linear(8, 3)).eval()
    return model(data(5, 6))

"""More pairs of programs, which were written when the search was finished: nothing was tuned on them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

import nbgrad
from tests.core.planted import Pair, Program, data, w

PAIRS: dict[str, Pair] = {}


def planted(kind: str, op: str, setting: str | None = None, *, backward: bool = False) -> Callable[[Program], Program]:
    """Add a program to the pairs."""

    def add(program: Program) -> Program:
        PAIRS[program.__name__] = Pair(program, kind, op, setting, backward)
        return program

    return add


def block(x: Any, weights: list[Any], scale: float = 0.5, eps: float = 1e-5, causal: bool = False) -> Any:
    """A small block of a transformer."""
    wq, wk, wv, wo, w1, w2 = weights
    h = F.layer_norm(x, (8,), eps=eps)
    scores = (h @ wq) @ (h @ wk).transpose(-2, -1) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9)
    x = x + scores.softmax(-1) @ (h @ wv) @ wo
    h = F.layer_norm(x, (8,), eps=eps)
    return x + F.gelu(h @ w1) @ w2


def weights() -> list[Any]:
    """Its weights."""
    return [w(8, 8, seed=one) for one in range(20, 24)] + [w(8, 16, seed=24), w(16, 8, seed=25)]


class Block(nn.Module):
    """A residual block with a batch norm."""

    def __init__(self, momentum: float = 0.1, eps: float = 1e-5, slope: float = 0.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3, momentum=momentum, eps=eps)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x: Any) -> Any:
        """Run it."""
        return self.act(self.norm(self.conv(x))) + x


# Settings.


@planted("op", "layer_norm", "eps")
def eps_in_the_second_block_of_a_transformer(port: bool) -> Any:
    x = block(data(2, 5, 8), weights())
    return block(x, weights(), eps=1e-3 if port else 1e-5)


@planted("op", "mul")
def scale_in_the_first_block(port: bool) -> Any:
    return block(block(data(2, 5, 8), weights(), scale=0.25 if port else 0.5), weights())


@planted("extra", "masked_fill")
def causal_mask_of_a_block(port: bool) -> Any:
    return block(block(data(2, 5, 8), weights()), weights(), causal=port)


@planted("op", "batch_norm", "eps")
def eps_of_a_batch_norm(port: bool) -> Any:
    return nn.Sequential(Block(), Block(eps=1e-2 if port else 1e-5), Block())(data(2, 3, 4, 4))


@planted("op", "leaky_relu", "negative_slope")
def slope_in_a_block(port: bool) -> Any:
    return nn.Sequential(Block(), Block(slope=0.1 if port else 0.01))(data(2, 3, 4, 4))


@planted("op", "group_norm", "num_groups")
def groups_of_a_norm(port: bool) -> Any:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(1 if port else 2, 4), nn.SiLU())(data(2, 3, 6, 6))


@planted("op", "max_pool2d", "stride")
def stride_of_a_pooling(port: bool) -> Any:
    return F.max_pool2d(w(1, 2, 6, 6).tanh(), 2, stride=1 if port else 2).exp().mean()


@planted("op", "interpolate", "mode")
def mode_of_an_interpolation(port: bool) -> Any:
    return F.interpolate(w(1, 2, 4, 4).tanh(), scale_factor=2, mode="bilinear" if port else "nearest") * 2


@planted("op", "log_softmax", "dim")
def log_softmax_over_another_axis(port: bool) -> Any:
    return -(F.log_softmax(w(4, 4) * 3, 0 if port else 1) * data(4, 4).softmax(1)).sum()


@planted("op", "cross_entropy", "ignore_index")
def index_that_is_ignored(port: bool) -> Any:
    return F.cross_entropy(w(5, 3) * 2, torch.tensor([0, 1, 2, 0, 1]), ignore_index=0 if port else -100)


@planted("op", "smooth_l1_loss", "beta")
def beta_of_a_loss(port: bool) -> Any:
    return F.smooth_l1_loss(w(5, 3) * 2, data(5, 3), beta=0.1 if port else 1.0)


@planted("op", "softplus", "beta")
def beta_of_a_softplus(port: bool) -> Any:
    return F.softplus(w(5, 3) * 2, beta=2 if port else 1).sqrt()


@planted("op", "var", "correction")
def correction_of_a_variance(port: bool) -> Any:
    h = w(5, 6).tanh()
    return (h / h.var(1, correction=0 if port else 1, keepdim=True)).exp()


@planted("op", "cumsum", "dim")
def cumulated_over_another_axis(port: bool) -> Any:
    return w(4, 4).tanh().cumsum(0 if port else 1).exp()


@planted("op", "transpose")
def heads_split_in_another_order(port: bool) -> Any:
    h = F.linear(data(4, 8), w(8, 8)).view(4, 2, 4)
    return (h.transpose(0, 2) if port else h.transpose(0, 1).transpose(1, 2)).reshape(-1).sin() * data(32)


# Missing and added ops.


@planted("extra", "mul")
def missing_scale(port: bool) -> Any:
    q, k = w(4, 8), w(4, 8, seed=4)
    scores = q.tanh() @ k.t()
    return (scores if port else scores * 0.35).softmax(-1).log()


@planted("extra", "neg")
def sign_of_a_term(port: bool) -> Any:
    a, b = w(4, 3).exp(), w(4, 3, seed=4).sin()
    return (a + (-b if port else b)).sqrt().nan_to_num().sum()


@planted("extra", "dropout")
def dropout_behind_the_attention(port: bool) -> Any:
    q, k, v = (w(2, 5, 4, seed=one) for one in (3, 4, 5))
    p = (q @ k.transpose(1, 2)).softmax(-1)
    if port:
        p = F.dropout(p, 0.3)
    return (p @ v).tanh()


@planted("op", "silu")
def gate_with_another_activation(port: bool) -> Any:
    x = data(5, 6)
    gate, up = F.linear(x, w(8, 6)), F.linear(x, w(8, 6, seed=4))
    return F.linear((F.gelu(gate) if port else F.silu(gate)) * up, w(3, 8, seed=5))


@planted("op", "linear", "bias")
def bias_of_the_head(port: bool) -> Any:
    h = F.linear(data(5, 6), w(8, 6)).relu()
    bias = w(3, seed=9)
    return F.linear(h, w(3, 8, seed=5), None if port else bias)


@planted("extra", "relu")
def activation_of_the_last_layer(port: bool) -> Any:
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 3)]
    if port:
        del layers[3]
    return nn.Sequential(*layers)(data(5, 6))


@planted("op", "sub")
def order_of_operands(port: bool) -> Any:
    a, b = w(4, 3).exp(), w(4, 3, seed=4).sin()
    return (b - a if port else a - b).exp()


# Tensors.


@planted("tensor", "parameter", "layers.1.weight")
def weight_in_the_middle(port: bool) -> Any:
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])  # type: ignore[assignment]
    if port:
        with torch.no_grad():
            model.layers[1].weight *= 1.001  # type: ignore[index, operator]

    def run(x: Any) -> Any:
        for one in model.layers:  # type: ignore[union-attr]
            x = one(x).tanh()  # type: ignore[operator]
        return x

    model.forward = run
    return model(data(5, 6))


@planted("tensor", "parameter", "0.bias")
def bias_that_was_not_loaded(port: bool) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    if port:
        nn.init.zeros_(model[0].bias)
    return model(data(5, 6))


@planted("tensor", "constant")
def another_running_variance(port: bool) -> Any:
    norm = nn.BatchNorm1d(6).eval()
    if port:
        norm.running_var *= 2  # type: ignore[operator]
    return norm(F.linear(data(5, 6), w(6, 6))).relu()


@planted("tensor", "constant")
def positions_that_begin_at_one(port: bool) -> Any:
    table = w(8, 4)
    return F.embedding(torch.arange(5) + int(port), table) * data(5, 4)


@planted("tensor", "constant")
def labels_in_another_order(port: bool) -> Any:
    target = torch.tensor([2, 0, 1, 1, 0])
    return F.nll_loss(F.log_softmax(F.linear(data(5, 6), w(3, 6)), 1), target.flip(0) if port else target)


@planted("tensor", "constant")
def data_that_were_not_normalised(port: bool) -> Any:
    x = data(5, 6) * 3 + 1
    return F.linear(x if port else (x - x.mean(0)) / x.std(0), w(4, 6)).relu()


# The backward.


class _Scale(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        return g * weight, (g * x).sum(0) * _Scale.factor


@planted("op", "_Scale", backward=True)
def wrong_gradient_of_one_input(port: bool) -> Any:
    _Scale.factor = 0.2 if port else 1.0
    h = F.linear(data(5, 6), w(4, 6)).tanh()
    return F.linear(_Scale.apply(h, w(4, seed=8)), w(2, 4, seed=4))  # type: ignore[no-untyped-call]


@planted("op", "add", backward=True)
def detached_residual(port: bool) -> Any:
    x = F.linear(data(5, 6), w(6, 6)).tanh()
    h = F.linear(x, w(6, 6, seed=4)).relu()
    return (h + (x.detach() if port else x)).softmax(-1).log()


@planted("op", "linear", backward=True)
def gradient_that_is_clipped_in_a_hook(port: bool) -> Any:
    weight = w(4, 6)
    h = F.linear(data(5, 6), weight)
    if port:
        h.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
    return F.linear(h.tanh(), w(2, 4, seed=4))


# Equal in meaning.


@planted("none", "")
def two_blocks_against_one_fused_attention(port: bool) -> Any:
    q, k, v = (w(2, 5, 8, seed=one) for one in (3, 4, 5))
    if port:
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        scores = (q / 8**0.5) @ k.transpose(-2, -1)
        h = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")).softmax(-1) @ v
    return F.layer_norm(h, (8,)).tanh()


@planted("none", "")
def one_projection_against_three(port: bool) -> Any:
    x, wq, wk, wv = data(2, 5, 8), w(8, 8, seed=3), w(8, 8, seed=4), w(8, 8, seed=5)
    if port:
        q, k, v = F.linear(x, torch.cat([wq, wk, wv])).chunk(3, -1)
    else:
        q, k, v = F.linear(x, wq), F.linear(x, wk), F.linear(x, wv)
    return ((q @ k.transpose(1, 2)).softmax(-1) @ v).tanh()


@planted("none", "")
def gelu_against_its_parts(port: bool) -> Any:
    h = F.linear(data(5, 6), w(8, 6))
    h = h * 0.5 * (1 + torch.erf(h / 2**0.5)) if port else F.gelu(h)
    return F.linear(h, w(3, 8, seed=4))


@planted("none", "")
def silu_and_softmax_against_their_parts(port: bool) -> Any:
    h = F.linear(data(5, 6), w(8, 6))
    if port:
        h = h * torch.sigmoid(h)
        e = (h - h.max(-1, keepdim=True).values.detach()).exp()
        return e / e.sum(-1, keepdim=True)
    return F.silu(h).softmax(-1)


@planted("none", "")
def own_convolution_against_torch(port: bool) -> Any:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    x = data(2, 3, 6, 6)
    return nbgrad.from_torch(model)(nbgrad.tensor(x)) if port else model(x)


@planted("none", "")
def three_branches_in_another_order(port: bool) -> Any:
    x = F.linear(data(5, 6), w(6, 6))
    parts = [lambda: x.sin() * 2, lambda: x.cos() * 3, lambda: x.tanh() * 4]
    order = (2, 0, 1) if port else (0, 1, 2)
    made = {at: parts[at]() for at in order}
    return made[0] + made[1] + made[2]


@planted("none", "")
def written_as_modules_and_as_functions(port: bool) -> Any:
    a, b = nn.Linear(6, 8), nn.Linear(8, 3)
    x = data(5, 6)
    if port:
        return (torch.relu(x @ a.weight.t() + a.bias)) @ b.weight.t() + b.bias
    return nn.Sequential(a, nn.ReLU(), b)(x)


@planted("none", "")
def mean_against_sum_over_the_count(port: bool) -> Any:
    h = F.linear(data(5, 6), w(4, 6)).exp()
    return (h.sum(1) / 4 if port else h.mean(1)).log()

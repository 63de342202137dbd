"""Composite blocks next to the same networks in plain torch, with the same names and weights."""

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F  # noqa: N812  # as models in torch are written

import nbgrad
from nbgrad import nn
from tests.nn.alike import check


class Residual(tnn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        self.shortcut = shortcut or tnn.Identity()

    def forward(self, x):
        return self.shortcut(x) + self.body(x)


class Bottleneck(tnn.Module):
    def __init__(self, channels, inner, stride=1):
        super().__init__()
        self.conv1 = tnn.Conv2d(channels, inner, 1, bias=False)
        self.bn1 = tnn.BatchNorm2d(inner)
        self.conv2 = tnn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn2 = tnn.BatchNorm2d(inner)
        self.conv3 = tnn.Conv2d(inner, 4 * inner, 1, bias=False)
        self.bn3 = tnn.BatchNorm2d(4 * inner)
        if stride != 1 or channels != 4 * inner:
            self.downsample = tnn.Sequential(
                tnn.Conv2d(channels, 4 * inner, 1, stride, bias=False), tnn.BatchNorm2d(4 * inner)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(out)))))
        return F.relu(out + (self.downsample(x) if hasattr(self, "downsample") else x))


class SqueezeExcitation(tnn.Module):
    def __init__(self, channels, between):
        super().__init__()
        self.excite = tnn.Sequential(
            tnn.Linear(channels, between), tnn.ReLU(), tnn.Linear(between, channels), tnn.Sigmoid()
        )

    def forward(self, x):
        return x * self.excite(x.mean((2, 3)))[:, :, None, None]


def dense_layer(channels, growth):
    return tnn.Sequential(
        OrderedDict([
            ("norm1", tnn.BatchNorm2d(channels)), ("relu1", tnn.ReLU()),
            ("conv1", tnn.Conv2d(channels, 4 * growth, 1, bias=False)),
            ("norm2", tnn.BatchNorm2d(4 * growth)), ("relu2", tnn.ReLU()),
            ("conv2", tnn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)),
        ])
    )  # fmt: skip


class DenseBlock(tnn.ModuleDict):
    def __init__(self, count, channels, growth):
        super().__init__({f"denselayer{at + 1}": dense_layer(channels + at * growth, growth) for at in range(count)})

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


def transition(channels, out):
    blocks = [
        ("norm", tnn.BatchNorm2d(channels)), ("relu", tnn.ReLU()),
        ("conv", tnn.Conv2d(channels, out, 1, bias=False)), ("pool", tnn.AvgPool2d(2)),
    ]  # fmt: skip
    return tnn.Sequential(OrderedDict(blocks))


class PreNorm(tnn.Module):
    def __init__(self, size, heads, dropout, causal):
        super().__init__()
        self.norm1 = tnn.LayerNorm(size)
        self.attn = tnn.MultiheadAttention(size, heads, dropout, batch_first=True)
        self.norm2 = tnn.LayerNorm(size)
        self.mlp = tnn.Sequential(tnn.Linear(size, 4 * size), tnn.GELU(), tnn.Linear(4 * size, size))
        self.dropout = tnn.Dropout(dropout)
        self.causal = causal

    def forward(self, x):
        normed = self.norm1(x)
        mask = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool() if self.causal else None
        x = x + self.dropout(self.attn(normed, normed, normed, attn_mask=mask, need_weights=False)[0])
        return x + self.dropout(self.mlp(self.norm2(x)))


BLOCKS = {
    "residual": (nn.Residual(nn.Linear(4, 4)), Residual(tnn.Linear(4, 4)), (3, 4)),
    "residual with projection": (
        nn.Residual(nn.Linear(4, 3), nn.Linear(4, 3, bias=False)),
        Residual(tnn.Linear(4, 3), tnn.Linear(4, 3, bias=False)),
        (3, 4),
    ),
    "bottleneck": (nn.Bottleneck(8, 2), Bottleneck(8, 2), (2, 8, 5, 5)),
    "bottleneck with projection": (nn.Bottleneck(6, 2), Bottleneck(6, 2), (2, 6, 5, 5)),
    "bottleneck with stride": (nn.Bottleneck(8, 2, 2), Bottleneck(8, 2, 2), (2, 8, 6, 6)),
    "squeeze and excitation": (nn.SqueezeExcitation(6, 3), SqueezeExcitation(6, 2), (2, 6, 4, 4)),
    "squeeze of few channels": (nn.SqueezeExcitation(6), SqueezeExcitation(6, 1), (2, 6, 4, 4)),
    "dense block": (nn.DenseBlock(3, 4, 2), DenseBlock(3, 4, 2), (2, 4, 5, 5)),
    "transition": (nn.Transition(6, 3), transition(6, 3), (2, 6, 4, 4)),
    "mlp": (
        nn.MLP(4, [5, 6, 3], nn.Tanh, dropout=0.3),
        tnn.Sequential(
            tnn.Linear(4, 5), tnn.Tanh(), tnn.Dropout(0.3), tnn.Linear(5, 6), tnn.Tanh(), tnn.Dropout(0.3),
            tnn.Linear(6, 3),
        ),
        (3, 4),
    ),
    "mlp of one layer": (nn.MLP(4, [3], bias=False), tnn.Sequential(tnn.Linear(4, 3, bias=False)), (2, 3, 4)),
    "transformer block": (nn.PreNormBlock(6, 2, dropout=0.2), PreNorm(6, 2, 0.2, False), (2, 3, 6)),
    "causal transformer block": (nn.PreNormBlock(6, 2, causal=True), PreNorm(6, 2, 0.0, True), (3, 6)),
}  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name, training):
    ours, theirs, shape = copy.deepcopy(BLOCKS[name])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    ours, theirs = ours.double().train(training), theirs.double().train(training)
    check(ours, theirs, torch.randn(shape, dtype=torch.float64), tolerance={"rtol": 1e-9, "atol": 1e-11})


def test_an_mlp_needs_a_layer():
    with pytest.raises(ValueError, match="at least one layer"):
        nn.MLP(4, [])


def test_what_a_dense_layer_makes_is_dropped():
    block = nn.DenseBlock(1, 2, 3, drop_rate=1.0)
    assert block(nbgrad.tensor(torch.ones(1, 2, 4, 4)))[:, 2:].data.abs().sum() == 0
    assert block.eval()(nbgrad.tensor(torch.randn(1, 2, 4, 4)))[:, 2:].data.abs().sum() > 0

"""Blocks that networks are made of and that torch leaves to its users, each as its paper has it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.ops import cat
from nbgrad.nn.activation import GELU, ReLU, Sigmoid
from nbgrad.nn.attention import MultiheadAttention
from nbgrad.nn.containers import Sequential
from nbgrad.nn.convolution import Conv2d
from nbgrad.nn.dropout import Dropout
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.module import Module
from nbgrad.nn.normalization import BatchNorm2d, LayerNorm
from nbgrad.nn.pooling import AdaptiveAvgPool2d, AvgPool2d
from nbgrad.nn.transformer import Transformer


class Residual(Module):
    """Adds a block's input to its output, so that gradients can bypass it (He et al. 2015, https://arxiv.org/abs/1512.03385).

    Shapes: those of ``body``; the input, or what ``shortcut`` makes of it, is added to its output.

    Args:
        body: the block.
        shortcut: a projection of the input where shapes differ, a 1x1 convolution or a Linear; default: none.
    """

    __formula__ = "x + f(x)"

    def __init__(self, body: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, input: Any) -> Any:
        return self.body(input) + (input if self.shortcut is None else self.shortcut(input))


class Bottleneck(Module):
    """The block of deep ResNets: fewer channels, a 3x3 convolution, four times as many channels (He et al. 2015).

    Its parts are named as in torchvision. See https://arxiv.org/abs/1512.03385. Where shapes differ, a 1x1 convolution
    projects the input that is added.

    Shapes: input (N, in_channels, H, W), output (N, 4 * channels, H / stride, W / stride).

    Args:
        in_channels: the channels of the input.
        channels: those of the 3x3 convolution.
        stride: the step of the 3x3 convolution.
    """

    __formula__ = r"\max(x + f(x), 0)"

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        out = channels * self.expansion
        self.conv1 = Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = BatchNorm2d(channels)
        self.conv2 = Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = BatchNorm2d(channels)
        self.conv3 = Conv2d(channels, out, 1, bias=False)
        self.bn3 = BatchNorm2d(out)
        self.relu = ReLU()
        self.downsample = None
        if stride != 1 or in_channels != out:
            self.downsample = Sequential(Conv2d(in_channels, out, 1, stride=stride, bias=False), BatchNorm2d(out))

    def forward(self, input: Any) -> Any:
        x = self.relu(self.bn1(self.conv1(input)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        return self.relu(x + (input if self.downsample is None else self.downsample(input)))


class SqueezeExcitation(Module):
    """Scales each channel by a number made of the means of all (Hu et al. 2017, https://arxiv.org/abs/1709.01507).

    Shapes: input (N, C, H, W), output as input.

    Args:
        channels: C.
        reduction: how many times fewer features than channels there are between the two layers.
    """

    __formula__ = r"x \odot \sigma(W_2 \max(W_1 \bar{x}, 0))"

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        self.squeeze = AdaptiveAvgPool2d(1)
        between = max(1, channels // reduction)
        self.excite = Sequential(Linear(channels, between), ReLU(), Linear(between, channels), Sigmoid())

    def forward(self, input: Any) -> Any:
        batch, channels = input.shape[:2]
        means = self.squeeze(input).reshape(batch, channels)
        return input * self.excite(means).reshape(batch, channels, 1, 1)


class DenseLayer(Module):
    """One layer of a DenseBlock: from all channels so far it makes ``growth_rate`` new ones, through a bottleneck.

    Shapes: input (N, in_channels, H, W), output (N, growth_rate, H, W).

    Args:
        in_channels: the channels so far.
        growth_rate: the new ones.
        bn_size: the channels between the two convolutions, divided by ``growth_rate``.
        drop_rate: the probability that a new number is dropped in training.
    """

    __formula__ = r"W_2 \star \max(W_1 \star \max(x, 0), 0)"

    def __init__(self, in_channels: int, growth_rate: int, bn_size: int = 4, drop_rate: float = 0.0) -> None:
        super().__init__()
        self.norm1 = BatchNorm2d(in_channels)
        self.relu1 = ReLU()
        self.conv1 = Conv2d(in_channels, bn_size * growth_rate, 1, bias=False)
        self.norm2 = BatchNorm2d(bn_size * growth_rate)
        self.relu2 = ReLU()
        self.conv2 = Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.dropout = Dropout(drop_rate)

    def forward(self, input: Any) -> Any:
        x = self.conv1(self.relu1(self.norm1(input)))
        return self.dropout(self.conv2(self.relu2(self.norm2(x))))


class DenseBlock(Module):
    """Every layer gets the outputs of all layers before it (Huang et al. 2016, https://arxiv.org/abs/1608.06993).

    Its parts are named as in torchvision.

    Shapes: input (N, in_channels, H, W), output (N, in_channels + num_layers * growth_rate, H, W).

    Args:
        num_layers: how many layers there are.
        in_channels: the channels of the input.
        growth_rate: the channels that each layer adds.
        bn_size: the channels between the two convolutions of a layer, divided by ``growth_rate``.
        drop_rate: the probability that a new number of a layer is dropped in training.
    """

    __formula__ = r"[x_0, \dots, x_n], \; x_i = f_i([x_0, \dots, x_{i - 1}])"

    def __init__(
        self, num_layers: int, in_channels: int, growth_rate: int, bn_size: int = 4, drop_rate: float = 0.0
    ) -> None:
        super().__init__()
        for at in range(num_layers):
            layer = DenseLayer(in_channels + at * growth_rate, growth_rate, bn_size, drop_rate)
            self.register_module(f"denselayer{at + 1}", layer)

    def forward(self, input: Any) -> Any:
        for layer in self.children():
            input = cat([input, layer(input)], dim=1)
        return input


class Transition(Module):
    """Between two DenseBlocks: fewer channels, and half the height and width (Huang et al. 2016).

    Its parts are named as in torchvision.

    Shapes: input (N, in_channels, H, W), output (N, out_channels, H / 2, W / 2).
    """

    __formula__ = r"\operatorname{pool}(W \star \max(x, 0))"

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.norm = BatchNorm2d(in_channels)
        self.relu = ReLU()
        self.conv = Conv2d(in_channels, out_channels, 1, bias=False)
        self.pool = AvgPool2d(2, stride=2)

    def forward(self, input: Any) -> Any:
        return self.pool(self.conv(self.relu(self.norm(input))))


class MLP(Sequential):
    """A multilayer perceptron: linear layers with an activation between them (Rumelhart, Hinton and Williams 1986).

    Shapes: input (..., in_features), output (..., last of hidden_features).

    Args:
        in_features: the features of the input.
        hidden_features: the number of features after each layer; the last number is that of the output.
        activation: makes the block between two layers.
        dropout: the probability that a number is dropped in training after each activation; 0 puts no block there.
        bias: whether the layers learn biases.

    Raises:
        ValueError: ``hidden_features`` is empty.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: Sequence[int],
        activation: Callable[[], Module] = ReLU,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        if not hidden_features:
            raise ValueError("MLP needs the features of at least one layer in hidden_features")
        blocks: list[Module] = []
        for size in hidden_features[:-1]:
            blocks += [Linear(in_features, size, bias=bias), activation()]
            blocks += [Dropout(dropout)] if dropout else []
            in_features = size
        super().__init__(*blocks, Linear(in_features, hidden_features[-1], bias=bias))


class PreNormBlock(Module):
    """A layer of a transformer as GPT-2 has it: norm, attention, skip; norm, MLP, skip.

    With the norms inside the skips, gradients reach every layer undiminished, and deep stacks learn without a warm-up
    (Xiong et al. 2020, https://arxiv.org/abs/2002.04745).

    Shapes: input (N, L, E), or (L, E); output as input.

    Args:
        embed_dim: E.
        num_heads: the heads of attention.
        mlp_ratio: the features inside the MLP, divided by E.
        dropout: the probability that a number is dropped in training.
        causal: whether no position sees a later one.
    """

    __formula__ = r"x' + f(n_2(x')), \; x' = x + a(n_1(x))"

    def __init__(
        self, embed_dim: int, num_heads: int, mlp_ratio: int = 4, dropout: float = 0.0, causal: bool = False
    ) -> None:
        super().__init__()
        self.norm1 = LayerNorm(embed_dim)
        self.attn = MultiheadAttention(embed_dim, num_heads, dropout, batch_first=True)
        self.dropout1 = Dropout(dropout)
        self.norm2 = LayerNorm(embed_dim)
        self.mlp = MLP(embed_dim, [mlp_ratio * embed_dim, embed_dim], GELU)
        self.dropout2 = Dropout(dropout)
        self.causal = causal

    def forward(self, input: Any, key_padding_mask: Any = None) -> Any:
        x, mask = self.norm1(input), self._mask(input)
        settings = {"attn_mask": mask, "is_causal": self.causal, "key_padding_mask": key_padding_mask}
        x = input + self.dropout1(self.attn(x, x, x, need_weights=False, **settings)[0])
        return x + self.dropout2(self.mlp(self.norm2(x)))

    def _mask(self, input: Any) -> torch.Tensor | None:
        if not self.causal:
            return None
        return Transformer.generate_square_subsequent_mask(input.shape[-2], input.device, input.dtype)

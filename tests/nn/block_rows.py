"""The blocks as a table: how each is made, of our library or torch's, and the inputs that it is run on."""

from collections import OrderedDict
from typing import Any, NamedTuple

import torch


class Row(NamedTuple):
    """A block: ``make(lib)``, and inputs, each of which is a shape, or a tuple of shapes and tensors."""

    make: Any
    inputs: tuple[Any, ...]


def row(make: Any, *inputs: Any) -> Row:
    return Row(make, inputs)


class Both(tuple):
    """Several inputs of one call."""

    __slots__ = ()


def both(*parts: Any) -> Both:
    return Both(parts)


def tensors(given: Any) -> list[Any]:
    """The tensors of an input, the same ones each time. Some of them require a gradient.

    A shape stands for random numbers with a gradient. A function makes a tensor that gets a gradient. A tensor is used
    as it is and gets no gradient.
    """
    generator = torch.Generator().manual_seed(7)
    parts = given if isinstance(given, Both) else (given,)
    made = []
    for part in parts:
        if isinstance(part, torch.Tensor):
            made.append(part)
            continue
        data = part() if callable(part) else torch.randn(part, dtype=torch.float64, generator=generator)
        made.append(data.requires_grad_())
    return made


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) + 0.1


def numbers(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(5))


def signs(*shape: int) -> torch.Tensor:
    return numbers(2, *shape).double() * 2 - 1


ANY = [(), (3,), (2, 3), (0, 3), (2, 3, 4)]
"""Inputs for elementwise blocks."""


def in_place(make: Any) -> Any:
    """The block after another block: an in-place block must not overwrite the user's input."""
    return lambda n: n.Sequential(n.Softsign(), make(n))


LINEAR = {
    "Identity": row(lambda n: n.Identity(), *ANY),
    "Identity of anything": row(lambda n: n.Identity(54, unused=True), (2, 3)),
    "Linear": row(lambda n: n.Linear(4, 3), (4,), (5, 4), (2, 5, 4), (2, 1, 2, 4), (0, 4)),
    "Linear without bias": row(lambda n: n.Linear(4, 3, bias=False), (4,), (5, 4), (2, 5, 4), (0, 4)),
    "Linear to one": row(lambda n: n.Linear(4, 1), (5, 4)),
    "Linear of none": row(lambda n: n.Linear(2, 3, dtype=torch.float64, device="cpu"), (5, 2)),
    "Bilinear": row(lambda n: n.Bilinear(3, 4, 2), both((5, 3), (5, 4)), both((3,), (4,)), both((0, 3), (0, 4))),
    "Bilinear without bias": row(lambda n: n.Bilinear(3, 4, 2, bias=False), both((2, 5, 3), (2, 5, 4))),
    "Flatten": row(lambda n: n.Flatten(), (2, 3), (2, 3, 4), (0, 3, 4), (2, 1, 3, 2)),
    "Flatten the middle": row(lambda n: n.Flatten(1, 2), (2, 3, 4), (2, 3, 4, 5)),
    "Flatten from the end": row(lambda n: n.Flatten(-2), (2, 3), (2, 3, 4)),
    "Unflatten": row(lambda n: n.Unflatten(1, (2, 3)), (4, 6), (0, 6), (2, 6, 2)),
    "Unflatten, one size open": row(lambda n: n.Unflatten(-1, [2, -1]), (4, 6)),
}

ACTIVATIONS = {
    name: row(lambda n, name=name: getattr(n, name)(), *ANY)
    for name in (
        *("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid"),
        *("Mish", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh"),
        "Tanhshrink",
    )
} | {
    f"{name} in place": row(in_place(lambda n, name=name: getattr(n, name)(inplace=True)), (2, 3), (0, 3))
    for name in (
        *("CELU", "ELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish", "RReLU", "ReLU", "ReLU6", "SELU"),
        "SiLU",
    )
}
ACTIVATIONS |= {
    "CELU, alpha": row(lambda n: n.CELU(0.5), (4, 5)),
    "ELU, alpha": row(lambda n: n.ELU(alpha=2.0), (4, 5)),
    "GELU, tanh": row(lambda n: n.GELU(approximate="tanh"), (4, 5)),
    "GLU": row(lambda n: n.GLU(), (4,), (3, 4), (0, 4)),
    "GLU, dim": row(lambda n: n.GLU(dim=0), (4, 3)),
    "Hardshrink, lambd": row(lambda n: n.Hardshrink(1.0), (4, 5)),
    "Hardtanh, range": row(lambda n: n.Hardtanh(-0.5, 2), (4, 5)),
    "LeakyReLU, slope": row(lambda n: n.LeakyReLU(0.3), (4, 5)),
    "LogSoftmax": row(lambda n: n.LogSoftmax(dim=-1), (3,), (2, 3), (0, 3)),
    "PReLU": row(lambda n: n.PReLU(), (), (3,), (2, 3), (0, 3)),
    "PReLU, by channel": row(lambda n: n.PReLU(3, init=0.1), (2, 3), (2, 3, 4)),
    "RReLU, range": row(lambda n: n.RReLU(0.2, 0.6), (4, 5)),
    "Softmax": row(lambda n: n.Softmax(dim=1), (2, 3), (2, 3, 4), (0, 3)),
    "Softmax2d": row(lambda n: n.Softmax2d(), (3, 2, 2), (2, 3, 2, 2), (0, 3, 2, 2)),
    "Softmin": row(lambda n: n.Softmin(dim=-1), (3,), (2, 3)),
    "Softplus, settings": row(lambda n: n.Softplus(2.0, 1.0), (4, 5)),
    "Softshrink, lambd": row(lambda n: n.Softshrink(1.0), (4, 5)),
    "Threshold": row(lambda n: n.Threshold(0.1, 20), *ANY),
    "Threshold in place": row(in_place(lambda n: n.Threshold(0.1, -1.0, inplace=True)), (2, 3)),
}

CONVOLUTIONS = {
    "Conv1d": row(lambda n: n.Conv1d(4, 6, 3), (4, 9), (2, 4, 9), (0, 4, 9)),
    "Conv1d, settings": row(lambda n: n.Conv1d(4, 6, 3, 2, 1, 2, 2, False), (4, 9), (2, 4, 9)),
    "Conv1d, same": row(lambda n: n.Conv1d(4, 6, 4, padding="same", dilation=2), (2, 4, 9)),
    "Conv1d, valid": row(lambda n: n.Conv1d(4, 6, 3, padding="valid"), (2, 4, 9)),
    "Conv2d": row(lambda n: n.Conv2d(2, 3, 3), (2, 6, 7), (2, 2, 6, 7), (0, 2, 6, 7)),
    "Conv2d, settings": row(
        lambda n: n.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), (2, 2, 6, 7)
    ),
    "Conv2d of points": row(lambda n: n.Conv2d(2, 3, 1, bias=False), (2, 2, 6, 7)),
    "Conv2d, depthwise": row(lambda n: n.Conv2d(3, 6, 3, padding="same", groups=3), (2, 3, 5, 5)),
    "Conv3d": row(lambda n: n.Conv3d(2, 3, 2), (2, 3, 4, 5), (2, 2, 3, 4, 5), (0, 2, 3, 4, 5)),
    "Conv3d, settings": row(lambda n: n.Conv3d(2, 4, (1, 2, 3), (1, 2, 1), (0, 1, 1), groups=2), (2, 2, 3, 4, 5)),
    "ConvTranspose1d": row(lambda n: n.ConvTranspose1d(4, 6, 3), (4, 5), (2, 4, 5), (0, 4, 5)),
    "ConvTranspose1d, settings": row(lambda n: n.ConvTranspose1d(4, 6, 3, 3, 1, 2, 2, False, 2), (2, 4, 5)),
    "ConvTranspose2d": row(lambda n: n.ConvTranspose2d(2, 3, 3), (2, 4, 5), (2, 2, 4, 5), (0, 2, 4, 5)),
    "ConvTranspose2d, settings": row(
        lambda n: n.ConvTranspose2d(2, 4, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 0), groups=2),
        (2, 2, 4, 5),
    ),
    "ConvTranspose3d": row(lambda n: n.ConvTranspose3d(2, 3, 2, stride=2), (2, 2, 3, 2), (2, 2, 2, 3, 2)),
    "Unfold": row(lambda n: n.Unfold((2, 3)), (2, 4, 5), (2, 2, 4, 5), (0, 2, 4, 5)),
    "Unfold, settings": row(lambda n: n.Unfold(2, dilation=2, padding=1, stride=(1, 2)), (2, 2, 4, 5)),
    "Fold": row(lambda n: n.Fold((4, 5), (2, 2)), (12, 12), (2, 12, 12), (0, 12, 12)),
    "Fold, settings": row(lambda n: n.Fold(5, 2, padding=1, stride=2), (2, 8, 9)),
} | {
    f"Conv{rank}d, {mode}, {padding}": row(
        lambda n, rank=rank, mode=mode, padding=padding: getattr(n, f"Conv{rank}d")(
            2, 3, 2, padding=padding, padding_mode=mode
        ),
        (2, *(4,) * rank),
        (2, 2, *(4,) * rank),
    )
    for rank in (1, 2, 3)
    for mode in ("reflect", "replicate", "circular")
    for padding in ("same", 1)
}

_SPATIAL = {1: (8,), 2: (6, 7), 3: (4, 6, 5)}


def _of_rank(rank: int, channels: int = 3) -> list[tuple[int, ...]]:
    """An unbatched input, a batch and an empty batch with so many spatial dimensions."""
    shape = (channels, *_SPATIAL[rank])
    return [shape, (2, *shape), (0, *shape)]


def _by_rank(name: str, *args: Any, **settings: Any) -> dict[str, Row]:
    """The blocks of a family for one, two and three dimensions."""
    shown = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in settings.items())])
    return {
        f"{name}{rank}d({shown})": row(
            lambda n, rank=rank: getattr(n, f"{name}{rank}d")(*args, **settings), *_of_rank(rank)
        )
        for rank in (1, 2, 3)
    }


POOLS = {
    **_by_rank("MaxPool", 2),
    **_by_rank("MaxPool", 3, 2, 1, ceil_mode=True),
    **_by_rank("MaxPool", 2, stride=1, dilation=2, return_indices=True),
    **_by_rank("AvgPool", 2),
    **_by_rank("AvgPool", 3, 2, 1, True, False),
    **_by_rank("AvgPool", 3, stride=1, padding=1),
    **_by_rank("LPPool", 2, 2),
    **_by_rank("LPPool", 3.0, 2, stride=1, ceil_mode=True),
    **_by_rank("AdaptiveAvgPool", 3),
    **_by_rank("AdaptiveAvgPool", 1),
    **_by_rank("AdaptiveMaxPool", 2),
    **_by_rank("AdaptiveMaxPool", 3, return_indices=True),
    "AvgPool2d, divisor": row(lambda n: n.AvgPool2d((2, 3), divisor_override=5), (2, 3, 6, 7)),
    "AvgPool3d, divisor": row(lambda n: n.AvgPool3d(2, divisor_override=3), (2, 3, 4, 6, 5)),
    "MaxPool2d, pair": row(lambda n: n.MaxPool2d((2, 3), stride=(2, 1), padding=(0, 1)), (2, 3, 6, 7)),
    "AdaptiveAvgPool2d, None": row(lambda n: n.AdaptiveAvgPool2d((None, 3)), (2, 3, 6, 7)),
    "AdaptiveMaxPool2d, None": row(lambda n: n.AdaptiveMaxPool2d((2, None)), (2, 3, 6, 7)),
    "FractionalMaxPool2d": row(lambda n: n.FractionalMaxPool2d(2, output_size=(3, 4)), (3, 6, 7), (2, 3, 6, 7)),
    "FractionalMaxPool2d, ratio": row(
        lambda n: n.FractionalMaxPool2d((2, 3), output_ratio=(0.5, 0.6), return_indices=True), (2, 3, 6, 7)
    ),
    "FractionalMaxPool2d, samples": row(
        lambda n: n.FractionalMaxPool2d(2, output_size=3, _random_samples=positive(2, 3, 2) - 0.1), (2, 3, 6, 7)
    ),
    "FractionalMaxPool3d": row(lambda n: n.FractionalMaxPool3d(2, output_size=2), (3, 4, 6, 5), (2, 3, 4, 6, 5)),
    "FractionalMaxPool3d, ratio": row(lambda n: n.FractionalMaxPool3d(2, output_ratio=0.5), (2, 3, 4, 6, 5)),
    "MaxUnpool1d": row(lambda n: n.MaxUnpool1d(2), both((2, 3, 4), torch.arange(0, 8, 2).expand(2, 3, 4))),
    "MaxUnpool2d": row(
        lambda n: n.MaxUnpool2d((2, 1), stride=2), both((1, 2, 2), torch.tensor([[[0, 2], [9, 11]]]) // 2)
    ),
    "MaxUnpool3d": row(lambda n: n.MaxUnpool3d(2, 2, 0), both((1, 1, 2, 2), torch.tensor([[[[0, 2], [9, 11]]]]))),
}

PADS = {
    **_by_rank("ZeroPad", 2),
    **_by_rank("ConstantPad", 1, 3.5),
    **_by_rank("ReflectionPad", 1),
    **_by_rank("ReplicationPad", 2),
    **_by_rank("CircularPad", 1),
    "ZeroPad2d, cut off": row(lambda n: n.ZeroPad2d((1, -1, 0, 2)), (3, 4, 5)),
    "ReflectionPad2d, sides": row(lambda n: n.ReflectionPad2d((1, 0, 2, 1)), (3, 4, 5), (2, 3, 4, 5)),
    "ReplicationPad1d, sides": row(lambda n: n.ReplicationPad1d((3, 0)), (2, 3, 4)),
    "CircularPad3d, sides": row(lambda n: n.CircularPad3d((1, 0, 2, 1, 0, 1)), (2, 3, 3, 4, 5)),
    "ConstantPad1d, sides": row(lambda n: n.ConstantPad1d((3, 0), -1.0), (2, 3, 4)),
}

_SETTINGS = (
    {},
    {"affine": False},
    {"track_running_stats": False},
    {"momentum": None},
    {"eps": 0.1, "momentum": 0.5, "bias": False},
)
_BATCHES = {1: [(5, 3), (4, 3, 6)], 2: [(4, 3, 2, 5)], 3: [(2, 3, 2, 3, 2)]}
NORMS = {
    **{
        f"BatchNorm{rank}d({settings})": row(
            lambda n, rank=rank, settings=settings: getattr(n, f"BatchNorm{rank}d")(3, **settings), *_BATCHES[rank]
        )
        for rank in (1, 2, 3)
        for settings in _SETTINGS
    },
    **{
        f"InstanceNorm{rank}d({settings})": row(
            lambda n, rank=rank, settings=settings: getattr(n, f"InstanceNorm{rank}d")(3, **settings),
            *_of_rank(rank)[:2],  # torch takes no empty batch
        )
        for rank in (1, 2, 3)
        for settings in (
            {},
            {"affine": True, "track_running_stats": True},
            {"eps": 0.1, "momentum": 0.3, "track_running_stats": True},
            {"affine": True, "bias": False},
        )
    },
    "LayerNorm": row(lambda n: n.LayerNorm(4), (4,), (3, 4), (2, 3, 4), (0, 4)),
    "LayerNorm, two": row(lambda n: n.LayerNorm([3, 4], eps=0.1), (3, 4), (2, 3, 4), (0, 3, 4)),
    "LayerNorm, plain": row(lambda n: n.LayerNorm((4,), elementwise_affine=False), (3, 4)),
    "LayerNorm without bias": row(lambda n: n.LayerNorm(4, bias=False), (3, 4)),
    "RMSNorm": row(lambda n: n.RMSNorm(4), (4,), (3, 4), (2, 3, 4), (0, 4)),
    "RMSNorm, two": row(lambda n: n.RMSNorm((3, 4), eps=0.1), (2, 3, 4)),
    "RMSNorm, plain": row(lambda n: n.RMSNorm(4, elementwise_affine=False), (3, 4)),
    "GroupNorm": row(lambda n: n.GroupNorm(2, 6), (4, 6), (2, 6, 3), (2, 6, 3, 2), (0, 6, 3)),
    "GroupNorm, plain": row(lambda n: n.GroupNorm(3, 6, eps=0.1, affine=False), (2, 6, 3)),
    "GroupNorm without bias": row(lambda n: n.GroupNorm(6, 6, bias=False), (2, 6, 3)),
    "LocalResponseNorm": row(lambda n: n.LocalResponseNorm(3), (2, 5, 4), (2, 5, 4, 3)),
    "LocalResponseNorm, settings": row(lambda n: n.LocalResponseNorm(2, 0.5, 0.6, 1.5), (2, 5, 4)),
}

DROPOUTS = {
    **{
        f"{name}({settings})": row(
            lambda n, name=name, settings=settings: getattr(n, name)(**settings), (6, 5), (3, 5, 4), (0, 5)
        )
        for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout")
        for settings in ({}, {"p": 0.2}, {"p": 0.0}, {"p": 1.0})
    },
    **_by_rank("Dropout", 0.3),
    "Dropout in place": row(in_place(lambda n: n.Dropout(0.3, inplace=True)), (6, 5)),
    "Dropout2d in place": row(in_place(lambda n: n.Dropout2d(0.3, True)), (2, 6, 5, 3)),
    "AlphaDropout in place": row(in_place(lambda n: n.AlphaDropout(0.3, True)), (6, 5)),
}

ONCE = torch.tensor([[4, 1, 0], [5, 2, 3]])
WORDS = numbers(6, 4, 3)
BAG = numbers(6, 7)
OFFSETS = torch.tensor([0, 2, 2, 5])
EMBEDDINGS = {
    "Embedding": row(lambda n: n.Embedding(6, 4), WORDS, WORDS[0], WORDS[0, 0], WORDS[:0]),
    "Embedding, padding": row(lambda n: n.Embedding(6, 4, padding_idx=-2), WORDS),
    "Embedding, longest": row(lambda n: n.Embedding(6, 4, max_norm=1.0, norm_type=1.0), WORDS),
    "Embedding, frequencies": row(lambda n: n.Embedding(6, 4, scale_grad_by_freq=True), WORDS),
    "Embedding from vectors": row(lambda n: n.Embedding(6, 2, _weight=positive(6, 2)), WORDS),
    "EmbeddingBag": row(lambda n: n.EmbeddingBag(6, 4), WORDS, both(BAG, OFFSETS)),
    "EmbeddingBag, sum": row(
        lambda n: n.EmbeddingBag(6, 4, mode="sum", padding_idx=2), WORDS, both(BAG, OFFSETS, positive(7))
    ),
    "EmbeddingBag, max": row(lambda n: n.EmbeddingBag(6, 4, mode="max"), WORDS, both(BAG, OFFSETS)),
    "EmbeddingBag, last offset": row(
        lambda n: n.EmbeddingBag(6, 4, include_last_offset=True), both(BAG, torch.tensor([0, 2, 7]))
    ),
    "EmbeddingBag, longest": row(lambda n: n.EmbeddingBag(6, 4, max_norm=1.0), WORDS),
    # Each number occurs once: torch divides by wrong frequencies. tests/core/test_embedding.py tests the right ones.
    "EmbeddingBag, frequencies": row(lambda n: n.EmbeddingBag(6, 4, scale_grad_by_freq=True), ONCE),
}

IMAGES = {
    "PixelShuffle": row(lambda n: n.PixelShuffle(2), (8, 2, 3), (2, 4, 2, 3)),
    "PixelUnshuffle": row(lambda n: n.PixelUnshuffle(2), (2, 4, 6), (2, 1, 4, 2)),
    "ChannelShuffle": row(lambda n: n.ChannelShuffle(2), (2, 4, 3), (1, 6, 2, 2)),
    "Upsample, nearest": row(lambda n: n.Upsample(scale_factor=2), (2, 3, 4), (2, 3, 4, 2), (1, 2, 3, 2, 2)),
    "Upsample, size": row(lambda n: n.Upsample(size=(5, 3)), (2, 3, 4, 2)),
    "Upsample, linear": row(lambda n: n.Upsample(7, mode="linear"), (2, 3, 4)),
    "Upsample, bilinear": row(lambda n: n.Upsample(None, (1.5, 2), "bilinear", True), (2, 3, 4, 2)),
    "Upsample, bicubic": row(lambda n: n.Upsample((5, 6), mode="bicubic"), (2, 3, 4, 2)),
    "Upsample, trilinear": row(
        lambda n: n.Upsample(scale_factor=1.5, mode="trilinear", recompute_scale_factor=True), (1, 2, 3, 4, 2)
    ),
    "UpsamplingNearest2d": row(lambda n: n.UpsamplingNearest2d(scale_factor=2), (2, 3, 4, 2)),
    "UpsamplingBilinear2d": row(lambda n: n.UpsamplingBilinear2d((7, 5)), (2, 3, 4, 2)),
    "CosineSimilarity": row(lambda n: n.CosineSimilarity(), both((4, 3), (4, 3)), both((2, 3, 4), (3, 4))),
    "CosineSimilarity, dim": row(lambda n: n.CosineSimilarity(dim=-1, eps=1e-3), both((3,), (3,))),
    "PairwiseDistance": row(lambda n: n.PairwiseDistance(), both((4, 3), (4, 3)), both((3,), (3,))),
    "PairwiseDistance, settings": row(lambda n: n.PairwiseDistance(1.0, 1e-3, keepdim=True), both((4, 3), (4, 3))),
}

CONTAINERS = {
    "Sequential": row(lambda n: n.Sequential(n.Linear(4, 6), n.Tanh(), n.Linear(6, 3)), (4,), (5, 4), (0, 4)),
    "Sequential by name": row(
        lambda n: n.Sequential(OrderedDict([("hidden", n.Linear(4, 6)), ("act", n.Tanh())])), (5, 4)
    ),
    "Sequential in Sequential": row(
        lambda n: n.Sequential(n.Flatten(), n.Sequential(n.Linear(4, 6), n.ReLU()), n.Linear(6, 2)), (5, 4), (5, 2, 2)
    ),
    "Sequential, empty": row(lambda n: n.Sequential(), (2, 3)),
    "a small net": row(
        lambda n: n.Sequential(
            n.Conv2d(1, 4, 3), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(2), n.Flatten(), n.Linear(16, 2)
        ),
        (3, 1, 6, 6),
    ),
}

LAZY = {
    "LazyLinear": row(lambda n: n.LazyLinear(3), (5, 4), (4,)),
    "LazyLinear without bias": row(lambda n: n.LazyLinear(3, bias=False), (5, 4)),
    "LazyBatchNorm1d": row(lambda n: n.LazyBatchNorm1d(), (5, 3)),
    "LazyBatchNorm2d": row(lambda n: n.LazyBatchNorm2d(eps=0.1, momentum=None), (5, 3, 2, 2)),
    "LazyBatchNorm3d": row(lambda n: n.LazyBatchNorm3d(affine=False), (5, 3, 2, 2, 1)),
    "LazyInstanceNorm1d": row(lambda n: n.LazyInstanceNorm1d(), (5, 3, 4)),
    "LazyInstanceNorm2d": row(lambda n: n.LazyInstanceNorm2d(track_running_stats=False), (5, 3, 2, 2)),
    "LazyInstanceNorm3d": row(lambda n: n.LazyInstanceNorm3d(bias=False), (5, 3, 2, 2, 2)),
    "a lazy net": row(lambda n: n.Sequential(n.LazyConv1d(4, 3), n.Flatten(), n.LazyLinear(2)), (3, 2, 6)),
} | {
    f"{name}{rank}d": row(lambda n, name=name, rank=rank: getattr(n, f"{name}{rank}d")(4, 2, 2), (2, 2, *(5,) * rank))
    for name in ("LazyConv", "LazyConvTranspose")
    for rank in (1, 2, 3)
}

ROWS = {
    **LINEAR,
    **ACTIVATIONS,
    **CONVOLUTIONS,
    **POOLS,
    **PADS,
    **NORMS,
    **DROPOUTS,
    **EMBEDDINGS,
    **IMAGES,
    **CONTAINERS,
}

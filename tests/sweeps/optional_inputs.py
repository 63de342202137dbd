"""Optional tensors, given or not, and gradients for any set of inputs: up to the second order they are torch's."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import torch

from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.ops.torch_signatures import l1_loss
from tests.core import calls, rows

CASES = 250

ROWS = {
    name: row
    for name, row in OPS.items()
    if row.optional and row.differentiable and row.rules and not name.endswith("_backward")
}
"""The rows with optional tensors and gradients. Gradient rows are tested when a row is differentiated twice."""

BIASES: dict[str, tuple[int | str, int | str]] = {
    "layer_norm": (1, 2),
    "batch_norm": (3, 4),
    "nn.functional.layer_norm": (2, 3),
    "nn.functional.batch_norm": ("weight", "bias"),
    "nn.functional.instance_norm": ("weight", "bias"),
}
"""The places of weight and bias in functions whose second derivative torch computes wrongly without a weight.

torch then forgets the gradient of the bias. So the test adds the bias by itself, to have a reference.
"""


def check(random: Random) -> None:
    """Leave some optional tensors out of one call, ask for some gradients, and compare."""
    name = random.choice([*ROWS, *CALLS])
    call = random.choice(calls_of(name))
    left_out = [key for key in call.optional if random.random() < 0.5]
    needs = [key for key in call.differentiable if random.random() < 0.5]
    found = compare(name, call, left_out, needs, constant_seeds=random.random() < 0.3)
    assert not found, found


class Call:
    """One call with all of its optional tensors.

    Attributes:
        function, ours: torch's function, and nbgrad's if it is another one.
        tensors: the tensors, and other values in their places, by position or name.
        settings: everything else.
        optional: which of them may be left out.
        differentiable: which of them can need a gradient.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        ours: Callable[..., Any] | None,
        tensors: dict[int | str, Any],
        settings: dict[str, Any],
        optional: list[int | str],
        differentiable: list[int | str] | None = None,
    ) -> None:
        self.function, self.ours, self.tensors, self.settings = function, ours, tensors, settings
        self.optional = optional
        self.differentiable = differentiable or [
            key for key, one in tensors.items() if isinstance(one, torch.Tensor) and one.is_floating_point()
        ]


@cache
def calls_of(name: str) -> list[Call]:
    """The calls of a row or a function that have all of its optional tensors."""
    return list(of_row(ROWS[name]) if name in ROWS else of_function(name))


def of_row(row: Op) -> Iterator[Call]:
    """The samples of a row in which all optional tensors are there."""
    for sample in rows.samples(row):
        if len(sample.args) == len(row.inputs) and all(arg is not None for arg in sample.args[-row.optional :]):
            optional: list[int | str] = list(range(row.arity - row.optional, row.arity))
            if row.name == "batch_norm" and not sample.settings.get("training"):
                optional = [3, 4]  # in evaluation torch accepts missing running statistics only for an empty batch
            can: list[int | str] = list(rows.differentiable(row, sample))
            yield Call(rows.reference(row), row, dict(enumerate(sample.args)), sample.settings, optional, can)


def compare(
    name: str, call: Call, left_out: Sequence[int | str], needs: Sequence[int | str], *, constant_seeds: bool = False
) -> str:
    """The difference from torch, without the tensors ``left_out`` and with gradients for ``needs``."""
    given = {
        key: None
        if key in left_out
        else one.detach().clone().requires_grad_(key in needs)
        if isinstance(one, torch.Tensor)
        else one
        for key, one in call.tensors.items()
    }
    args = [one for key, one in given.items() if isinstance(key, int)]
    settings = {**call.settings, **{key: one for key, one in given.items() if isinstance(key, str)}}
    function, ours = call.function, call.ours or call.function
    weight, bias = BIASES.get(name, (None, None))
    if weight in left_out and bias not in left_out:
        function = adding(function, bias, channels="layer" not in name)
    found = calls.difference(function, *args, of=ours, constant_seeds=constant_seeds, exact=False, **settings)
    without = ", ".join(map(str, left_out)) or "nothing"
    described = rows.describe(Sample(tuple(args), settings))
    return found and f"{name} without {without}, gradients of {needs}, {constant_seeds=}: {described}: {found}"


def adding(function: Callable[..., Any], bias: Any, *, channels: bool) -> Callable[..., Any]:
    """``function`` without its bias. The bias is added to its result, along the channels or the last dimensions."""

    def added(*args: Any, **settings: Any) -> torch.Tensor:
        given: list[Any] = list(args)
        holder: Any = settings if isinstance(bias, str) else given
        shift, holder[bias] = holder[bias], None
        out: torch.Tensor = function(*given, **settings)
        return out + (shift.reshape(-1, *[1] * (out.ndim - 2)) if channels else shift)

    return added


def of_function(name: str) -> Iterator[Call]:
    """The calls of a function that is no row."""
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    draw = torch.Generator().manual_seed(0)

    def real(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    def positive(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=draw, dtype=torch.float64) + 0.5

    # torch's own l1_loss forgets the weight where it hands a call on to another library.
    ours = l1_loss if name == "nn.functional.l1_loss" else None
    for tensors, settings, optional in CALLS[name](real, positive):
        yield Call(function, ours, tensors, settings, list(optional))


Made = Iterator[tuple[dict[int | str, Any], dict[str, Any], tuple[int | str, ...]]]
Draw = Callable[..., torch.Tensor]


def _layer_norm(real: Draw, positive: Draw) -> Made:
    for shape, normal in (((3,), (3,)), ((2, 3), (3,)), ((4, 2, 3), (2, 3)), ((0, 3), (3,))):
        yield {0: real(*shape), 1: normal, 2: real(*normal), 3: real(*normal)}, {}, (2, 3)


def _rms_norm(real: Draw, positive: Draw) -> Made:
    yield {0: real(2, 3), 1: (3,), 2: real(3)}, {}, (2,)


def _group_norm(real: Draw, positive: Draw) -> Made:
    for shape in ((2, 4), (2, 4, 3), (0, 4, 3)):
        yield {0: real(*shape), 1: 2, 2: real(4), 3: real(4)}, {}, (2, 3)


def _batch_norm(real: Draw, positive: Draw) -> Made:
    for training in (True, False):
        for shape in ((4, 3), (2, 3, 4), (2, 3, 2, 2)):
            tensors = {0: real(*shape), 1: real(3), 2: positive(3), "weight": real(3), "bias": real(3)}
            yield tensors, {"training": training}, ("weight", "bias", *((1, 2) if training else ()))


def _instance_norm(real: Draw, positive: Draw) -> Made:
    for own in (True, False):
        tensors = {0: real(2, 3, 4), 1: real(3), 2: positive(3), "weight": real(3), "bias": real(3)}
        yield tensors, {"use_input_stats": own}, ("weight", "bias")


def _linear(real: Draw, positive: Draw) -> Made:
    yield {0: real(2, 3), 1: real(4, 3), 2: real(4)}, {}, (2,)
    yield {0: real(3), 1: real(4, 3), 2: real(4)}, {}, (2,)


def _attention(real: Draw, positive: Draw) -> Made:
    yield {0: real(2, 3, 4), 1: real(2, 5, 4), 2: real(2, 5, 4), "attn_mask": real(3, 5)}, {}, ("attn_mask",)


def _heads(real: Draw, positive: Draw) -> Made:
    """Attention heads: with and without a bias for keys and values, with packed and with separate weights."""
    common = {
        "query": real(3, 2, 4),
        "key": real(5, 2, 4),
        "value": real(5, 2, 4),
        "in_proj_bias": real(12),
        "bias_k": real(1, 1, 4),
        "bias_v": real(1, 1, 4),
        "out_proj_weight": real(4, 4),
        "out_proj_bias": real(4),
        "key_padding_mask": real(2, 5),
        "attn_mask": real(3, 5),
    }
    fixed = {"embed_dim_to_check": 4, "num_heads": 2, "add_zero_attn": False, "dropout_p": 0.0}
    optional = ("in_proj_bias", "bias_k", "bias_v", "out_proj_bias", "key_padding_mask", "attn_mask")
    for weights in (True, False):
        settings = {**fixed, "need_weights": weights}
        yield {**common, "in_proj_weight": real(12, 4)}, settings, optional
        apart = {f"{which}_proj_weight": real(4, 4) for which in "qkv"}
        yield {**common, **apart}, {**settings, "in_proj_weight": None, "use_separate_proj_weight": True}, optional


def _classes(real: Draw, positive: Draw) -> Made:
    for reduction in ("mean", "sum", "none"):
        target = torch.tensor([0, 2, 1, 2])
        yield {0: real(4, 3), 1: target, "weight": positive(3)}, {"reduction": reduction}, ("weight",)


def _cross_entropy(real: Draw, positive: Draw) -> Made:
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.2):
            settings = {"reduction": reduction, "label_smoothing": smoothing}
            yield {0: real(4, 3), 1: torch.tensor([0, 2, 1, 2]), "weight": positive(3)}, settings, ("weight",)
            yield {0: real(4, 3), 1: positive(4, 3), "weight": positive(3)}, settings, ("weight",)


def _logits(real: Draw, positive: Draw) -> Made:
    for reduction in ("mean", "sum", "none"):
        tensors = {0: real(4, 3), 1: positive(4, 3) - 0.5, "weight": positive(3), "pos_weight": positive(3)}
        yield tensors, {"reduction": reduction}, ("weight", "pos_weight")


def _probabilities(real: Draw, positive: Draw) -> Made:
    for reduction in ("mean", "sum", "none"):
        tensors = {0: (positive(4, 3) - 0.5) * 0.9 + 0.05, 1: positive(4, 3) - 0.5, "weight": positive(4, 3)}
        yield tensors, {"reduction": reduction}, ("weight",)


def _weighted(real: Draw, positive: Draw) -> Made:
    for reduction in ("mean", "sum", "none"):
        yield {0: real(4, 3), 1: real(4, 3), "weight": positive(4, 3)}, {"reduction": reduction}, ("weight",)


def _multilabel(real: Draw, positive: Draw) -> Made:
    labels = torch.tensor([[1.0, 0, 1], [0, 0, 1]], dtype=torch.float64)
    for reduction in ("mean", "sum", "none"):
        yield {0: real(2, 3), 1: labels, "weight": positive(3)}, {"reduction": reduction}, ("weight",)


def _bags(real: Draw, positive: Draw) -> Made:
    tensors = {0: torch.tensor([0, 2, 1, 2]), 1: real(3, 2), 2: torch.tensor([0, 1, 3]), "per_sample_weights": real(4)}
    yield tensors, {"mode": "sum"}, ("per_sample_weights",)
    matrix = {0: torch.tensor([[0, 2], [1, 2]]), 1: real(3, 2), "per_sample_weights": real(2, 2)}
    yield matrix, {"mode": "sum"}, ("per_sample_weights",)


def _convolution(rank: int, transposed: bool) -> Callable[[Draw, Draw], Made]:
    def made(real: Draw, positive: Draw) -> Made:
        size = (5, 4, 3)[:rank]
        for groups in (1, 2):
            channels = (2, 4 // groups) if transposed else (4, 2 // groups)
            tensors = {0: real(2, 2, *size), 1: real(*channels, *[2] * rank), 2: real(4)}
            yield tensors, {"groups": groups, "padding": 1}, (2,)

    return made


def _steps(gates: int, cell: bool) -> Callable[[Draw, Draw], Made]:
    def made(real: Draw, positive: Draw) -> Made:
        state = (real(2, 4), real(2, 4)) if cell else real(2, 4)
        weights = {2: real(4 * gates, 3), 3: real(4 * gates, 4), 4: real(4 * gates), 5: real(4 * gates)}
        yield {0: real(2, 3), 1: state, **weights}, {}, (4, 5)

    return made


def _covariance(real: Draw, positive: Draw) -> Made:
    weights = {"fweights": torch.tensor([1, 2, 1, 3]), "aweights": positive(4)}
    yield {0: real(3, 4), **weights}, {}, ("fweights", "aweights")


def _difference(real: Draw, positive: Draw) -> Made:
    yield {0: real(3, 4), "prepend": real(3, 1), "append": real(3, 2)}, {}, ("prepend", "append")


def _trapezoid(real: Draw, positive: Draw) -> Made:
    yield {0: real(3, 4), "x": real(3, 4)}, {}, ("x",)
    yield {0: real(3, 4), "x": real(4)}, {}, ("x",)


def _stft(real: Draw, positive: Draw) -> Made:
    for onesided in (True, False):
        settings = {"n_fft": 8, "onesided": onesided, "return_complex": True}
        yield {0: real(2, 20), "window": positive(8)}, settings, ("window",)


def _bilinear(real: Draw, positive: Draw) -> Made:
    yield {0: real(2, 3), 1: real(2, 4), 2: real(5, 3, 4), 3: real(5)}, {}, (3,)


CALLS: dict[str, Callable[[Draw, Draw], Made]] = {
    "nn.functional.layer_norm": _layer_norm,
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.group_norm": _group_norm,
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.instance_norm": _instance_norm,
    "nn.functional.linear": _linear,
    "nn.functional.bilinear": _bilinear,
    "nn.functional.scaled_dot_product_attention": _attention,
    "nn.functional.multi_head_attention_forward": _heads,
    "nn.functional.nll_loss": _classes,
    "nn.functional.multi_margin_loss": _classes,
    "nn.functional.cross_entropy": _cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": _logits,
    "nn.functional.binary_cross_entropy": _probabilities,
    "nn.functional.mse_loss": _weighted,
    "nn.functional.l1_loss": _weighted,
    "nn.functional.huber_loss": _weighted,
    "nn.functional.multilabel_soft_margin_loss": _multilabel,
    "nn.functional.embedding_bag": _bags,
    "cov": _covariance,
    "diff": _difference,
    "trapezoid": _trapezoid,
    "cumulative_trapezoid": _trapezoid,
    "stft": _stft,
    "rnn_tanh_cell": _steps(1, False),
    "rnn_relu_cell": _steps(1, False),
    "gru_cell": _steps(3, False),
    "lstm_cell": _steps(4, True),
    **{f"nn.functional.conv{rank}d": _convolution(rank, False) for rank in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{rank}d": _convolution(rank, True) for rank in (1, 2, 3)},
}

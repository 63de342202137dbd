"""Functions that torch has twice under one name: those of ``torch`` take other arguments, or give more.

``torch.batch_norm`` takes the weight where ``torch.nn.functional.batch_norm`` takes the running mean, and the losses of
``torch`` do not reduce unless they are told to, by a number. torch documents none of them.
"""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Any

from nbgrad.core import ops
from nbgrad.core.ops import torch_signatures

_REDUCTIONS = ("none", "mean", "sum")


def _ours(name: str) -> Callable[..., Any]:
    """Our function for the one of that name in ``torch.nn.functional``."""
    found: Callable[..., Any] = getattr(torch_signatures, name, None) or getattr(ops, name)
    return found


def _normalized(name: str, input: Any, weight: Any, bias: Any, mean: Any, var: Any, *settings: Any) -> Any:
    return _ours(name)(input, mean, var, weight, bias, *settings)


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """``torch.batch_norm``."""
    return _normalized(
        "batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
    )


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """``torch.instance_norm``."""
    return _normalized(
        "instance_norm", input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
    )


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """``torch.embedding``."""
    settings = {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    return _ours("embedding")(indices, weight, padding_idx=None if padding_idx < 0 else padding_idx, **settings)


def adaptive_max_pool1d(input: Any, output_size: Any) -> Any:
    """``torch.adaptive_max_pool1d``: the maxima and where they are."""
    return _ours("adaptive_max_pool1d")(input, output_size, return_indices=True)


def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """``torch.max_pool1d_with_indices``: the maxima and where they are."""
    return _ours("max_pool1d")(input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True)


def _refuse(name: str, *_args: Any, **_settings: Any) -> Any:
    raise NotImplementedError(
        f"torch.{name} on an nbgrad tensor: nbgrad has torch.nn.functional.{name}, whose arguments and results differ"
    )


def _loss(name: str, signature: Signature, *args: Any, **settings: Any) -> Any:
    given = signature.bind(*args, **settings)
    given.apply_defaults()
    reduction = given.arguments["reduction"]
    if reduction not in range(len(_REDUCTIONS)):
        raise ValueError(f"torch.{name} takes reduction=0, 1 or 2 for none, mean or sum, not {reduction!r}")
    return _ours(name)(**given.arguments | {"reduction": _REDUCTIONS[reduction]})


def _made(name: str, *parameters: str, **defaults: Any) -> Callable[..., Any]:
    """A loss with torch's parameters, in their order."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    optional = [Parameter(one, kind, default=default) for one, default in defaults.items()]
    signature = Signature([*(Parameter(one, kind) for one in parameters), *optional])
    loss = partial(_loss, name, signature)
    loss.__signature__ = signature  # type: ignore[attr-defined]
    return loss


_NONE = 0

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "adaptive_max_pool1d": adaptive_max_pool1d,
    "batch_norm": batch_norm,
    "binary_cross_entropy_with_logits": _made(
        "binary_cross_entropy_with_logits", "input", "target", weight=None, pos_weight=None, reduction=_NONE
    ),
    "cosine_embedding_loss": _made("cosine_embedding_loss", "input1", "input2", "target", margin=0.0, reduction=_NONE),
    "ctc_loss": _made(
        *("ctc_loss", "log_probs", "targets", "input_lengths", "target_lengths"),
        blank=0,
        reduction=_NONE,
        zero_infinity=False,
    ),
    "embedding": embedding,
    "embedding_bag": partial(_refuse, "embedding_bag"),
    "hinge_embedding_loss": _made("hinge_embedding_loss", "input", "target", margin=1.0, reduction=_NONE),
    "instance_norm": instance_norm,
    "kl_div": _made("kl_div", "input", "target", reduction=_NONE, log_target=False),
    "margin_ranking_loss": _made("margin_ranking_loss", "input1", "input2", "target", margin=0.0, reduction=_NONE),
    "max_pool1d_with_indices": max_pool1d_with_indices,
    "poisson_nll_loss": _made("poisson_nll_loss", "input", "target", "log_input", "full", "eps", "reduction"),
    "triplet_margin_loss": _made(
        *("triplet_margin_loss", "anchor", "positive", "negative"),
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
        reduction=_NONE,
    ),
}

KERNELS = {
    *("adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d"),
    *("max_unpool2d", "max_unpool3d", "multi_margin_loss", "nll_loss"),
}
"""Functions of ``torch._C._nn`` that take other arguments than ``torch.nn.functional``'s of that name, or give more.

torch.nn.functional calls them. A call reaches nbgrad if the input itself is torch's, and another argument ours.
"""


def check_kernel(function: Callable[..., Any], name: str) -> None:
    """Raise if ``function`` is one of these.

    Raises:
        NotImplementedError: it is; the message says what to do.
    """
    if name in KERNELS and getattr(function, "__module__", None) == "torch._C._nn":
        raise NotImplementedError(
            f"{name} got an nbgrad tensor, but an input of torch's: make the input nbgrad's with nbgrad.tensor(t)"
        )

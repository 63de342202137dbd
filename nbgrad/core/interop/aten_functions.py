"""Kernels of torch's under the name of a public function, which take other arguments than that one, or give more."""

from collections.abc import Callable
from typing import Any

import torch

NAMESAKES = {
    *("adaptive_max_pool1d", "batch_norm", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss"),
    *("embedding", "embedding_bag", "hinge_embedding_loss", "instance_norm", "kl_div", "margin_ranking_loss"),
    *("max_pool1d_with_indices", "poisson_nll_loss", "triplet_margin_loss"),
}
"""Functions of ``torch`` that ``torch.nn.functional`` has in another form. torch documents none of them.

``torch.batch_norm`` takes the weight where ``torch.nn.functional.batch_norm`` takes the running mean, and the losses of
``torch`` do not reduce unless they are told to, by a number.
"""

KERNELS = {
    *("adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d"),
    *("max_unpool2d", "max_unpool3d", "multi_margin_loss", "nll_loss"),
}
"""The same among the functions of ``torch._C._nn``.

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
    if name in NAMESAKES and function is getattr(torch, name, None):
        raise NotImplementedError(
            f"torch.{name} got an nbgrad tensor, and nbgrad has torch.nn.functional.{name}, whose arguments and "
            "results differ: call that one"
        )

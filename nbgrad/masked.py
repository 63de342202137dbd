"""Reductions and normalizations of the elements that a mask keeps, under the names of ``torch.masked``.

torch implements them in Python, with functions of its own. On nbgrad's tensors these functions run nbgrad's ops.
"""

from typing import TYPE_CHECKING

from torch.masked import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

from nbgrad.core.suggestions import suggesting

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())

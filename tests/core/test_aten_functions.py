"""Functions that torch has twice under one name. nbgrad has the public one, and refuses its namesake."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.interop.aten_functions import NAMESAKES

X, AT = torch.ones(2, 3), torch.tensor([0, 1])
STATISTICS = (X[0], X[0], True, 0.1, 1e-5, False)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "adaptive_max_pool1d": (2,),
    "batch_norm": (X[0], X[0], *STATISTICS),
    "binary_cross_entropy_with_logits": (X,),
    "cosine_embedding_loss": (X, X[0]),
    "ctc_loss": (AT, AT, AT),
    "embedding": (AT,),
    "embedding_bag": (AT, AT),
    "hinge_embedding_loss": (X,),
    "instance_norm": (X[0], X[0], *STATISTICS),
    "kl_div": (X,),
    "margin_ranking_loss": (X, X),
    "max_pool1d_with_indices": (2,),
    "poisson_nll_loss": (X, True, False, 1e-8, 0),
    "triplet_margin_loss": (X, X),
}
"""By function what it takes after the first argument."""


@pytest.mark.parametrize("name", sorted(NAMESAKES))
def test_a_namesake_of_torchs_is_refused(name: str) -> None:
    w = nbgrad.ones(2, 3, requires_grad=True)
    with pytest.raises(NotImplementedError, match=rf"nbgrad has torch\.nn\.functional\.{name}, .*: call that one"):
        getattr(torch, name)(w, *ARGUMENTS[name])


def test_a_kernel_under_the_name_of_a_function_is_not_taken_for_it() -> None:
    """``F.max_unpool2d`` checks only its input for torch's type, and calls a kernel of the same name."""
    pooled, places = torch.nn.functional.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)
    with pytest.raises(NotImplementedError, match=r"max_unpool2d got an nbgrad tensor, but an input of torch's"):
        torch.nn.functional.max_unpool2d(pooled, nbgrad.tensor(places), 2)


def test_every_namesake_of_torchs_that_takes_other_arguments_is_refused() -> None:
    """If the parameters of two namesakes differ, the function is in the list."""
    functional, alike = torch.nn.functional, {"layer_norm", "group_norm", "rrelu"}  # but for parameters without effect
    for name in dir(functional):
        twin = getattr(torch, name, None)
        packet = getattr(torch.ops.aten, name, None)
        if twin is None or twin is getattr(functional, name) or "default" not in getattr(packet, "overloads", list)():
            continue
        theirs = [one.name for one in packet.default._schema.arguments]
        if len(packet.default._schema.returns) == 1 and name not in NAMESAKES | alike:
            ours = parameter_names(nbgrad.core.interop.torch_functions._ours(twin, name))
            named = {"self": "input", "train": "training"}
            assert [named.get(one, one) for one in theirs] == ours[: len(theirs)], name
        else:
            assert name in NAMESAKES or name in alike, name

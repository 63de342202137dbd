"""Functions that torch has twice under one name. nbgrad's does the same as torch's public one, not as its namesake."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.interop.aten_functions import FUNCTIONS
from tests.core.programs import Library, agree

ROWS = [[0.5, -1.5, 1.0], [2.0, 0.25, -0.75]]
CHANCES = [[0.5, 0.25, 0.75], [0.1, 0.9, 0.3]]
SIGNS = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]], dtype=torch.float64)
LENGTHS = torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])


def normalized(name: str) -> Callable[[Library], tuple[Any, ...]]:
    """Two steps in training mode, which update the statistics, and one step in evaluation mode."""

    def program(lib: Library) -> tuple[Any, ...]:
        function = getattr(torch, name)
        x = lib.leaf([[[1.0, 2.0, 4.0], [0.5, 0.1, 3.0]], [[2.0, 0.0, 1.0], [1.0, 7.0, 1.0]]])
        w, b = lib.leaf(1.5, 0.5), lib.leaf(0.1, 0.2)
        mean, var = lib.constant(0.3, 0.4), lib.constant(2.0, 3.0)
        y = function(x, w, b, mean, var, True, 0.1, 1e-5, False)
        z = function(x, w, b, mean, var, False, 0.1, 1e-5, cudnn_enabled=False)
        (y * y * z).sum().backward()
        return y, z, x.grad, w.grad, b.grad, mean, var

    return program


def of_one(run: Callable[..., Any], *others: Any) -> Callable[[Library], tuple[Any, ...]]:
    """Results and gradients of ``run``, which takes a matrix and ``others``."""

    def program(lib: Library) -> tuple[Any, ...]:
        leaves = [lib.leaf(one) for one in (ROWS, *others)]
        results = run(*leaves)
        several = results if isinstance(results, tuple) else (results,)
        sum((one * one).sum() for one in several if one.requires_grad).backward()
        return isinstance(results, tuple), *several, *(leaf.grad for leaf in leaves)

    return program


PROGRAMS: dict[str, list[Callable[[Library], tuple[Any, ...]]]] = {
    "adaptive_max_pool1d": [of_one(lambda x: torch.adaptive_max_pool1d(x, 2))],
    "batch_norm": [normalized("batch_norm")],
    "binary_cross_entropy_with_logits": [
        of_one(lambda x, t: torch.binary_cross_entropy_with_logits(x, t.detach()), CHANCES),
        of_one(lambda x, t: torch.binary_cross_entropy_with_logits(x, t.detach(), None, t.detach(), 1), CHANCES),
        of_one(lambda x, t: torch.binary_cross_entropy_with_logits(x, t.detach(), reduction=2), CHANCES),
    ],
    "cosine_embedding_loss": [
        of_one(lambda x, y: torch.cosine_embedding_loss(x, y, SIGNS[0, :2]), CHANCES),
        of_one(lambda x, y: torch.cosine_embedding_loss(x, y, SIGNS[0, :2], 0.1, 1), CHANCES),
    ],
    "ctc_loss": [
        of_one(lambda x: torch.ctc_loss(torch.cat([x, x])[:3, None].log_softmax(-1), *LENGTHS)),
        of_one(lambda x: torch.ctc_loss(torch.cat([x, x])[:3, None].log_softmax(-1), *LENGTHS, 0, 1)),
    ],
    "embedding": [
        of_one(lambda w: torch.embedding(w, torch.tensor([1, 0, 1]))),
        of_one(lambda w: torch.embedding(w, torch.tensor([1, 0, 1]), 0)),
    ],
    "hinge_embedding_loss": [
        of_one(lambda x: torch.hinge_embedding_loss(x, SIGNS)),
        of_one(lambda x: torch.hinge_embedding_loss(x, SIGNS, 0.5, 1)),
    ],
    "instance_norm": [normalized("instance_norm")],
    "kl_div": [
        of_one(lambda x: torch.kl_div(x, SIGNS.abs() / 3)),
        of_one(lambda x: torch.kl_div(x, SIGNS / 3, 2, log_target=True)),
    ],
    "margin_ranking_loss": [
        of_one(lambda x, y: torch.margin_ranking_loss(x, y, SIGNS), CHANCES),
        of_one(lambda x, y: torch.margin_ranking_loss(x, y, SIGNS, 0.5, reduction=1), CHANCES),
    ],
    "max_pool1d_with_indices": [of_one(lambda x: torch.max_pool1d_with_indices(x, 2))],
    "poisson_nll_loss": [
        of_one(lambda x: torch.poisson_nll_loss(x, SIGNS.abs(), True, False, 1e-8, 0)),
        of_one(lambda x: torch.poisson_nll_loss(x.abs(), SIGNS.abs(), False, True, 1e-8, 1)),
    ],
    "triplet_margin_loss": [
        of_one(torch.triplet_margin_loss, CHANCES, SIGNS.tolist()),
        of_one(lambda x, y, z: torch.triplet_margin_loss(x, y, z, 2.0, 2.0, 1e-6, True, 2), CHANCES, SIGNS.tolist()),
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_function_is_torchs(name: str) -> None:
    for program in PROGRAMS[name]:
        agree(program)


def test_every_function_is_tested_or_refused() -> None:
    assert FUNCTIONS.keys() == {*PROGRAMS, "embedding_bag"}
    w = nbgrad.tensor(ROWS, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"nbgrad has torch\.nn\.functional\.embedding_bag"):
        torch.embedding_bag(w, torch.tensor([0, 1]), torch.tensor([0]))
    with pytest.raises(ValueError, match="reduction=0, 1 or 2"):
        torch.kl_div(w, SIGNS, 7)


def test_a_kernel_under_the_name_of_a_function_is_not_taken_for_it() -> None:
    """``F.max_unpool2d`` checks only its input for torch's type, and calls a kernel of the same name."""
    pooled, places = torch.nn.functional.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)
    with pytest.raises(NotImplementedError, match=r"max_unpool2d got an nbgrad tensor, but an input of torch's"):
        torch.nn.functional.max_unpool2d(pooled, nbgrad.tensor(places), 2)


def test_a_namesake_of_torchs_that_takes_other_arguments_is_known() -> None:
    """If the parameters of two namesakes differ, the function is tested above."""
    functional, alike = torch.nn.functional, {"layer_norm", "group_norm", "rrelu"}  # but for parameters without effect
    for name in dir(functional):
        twin = getattr(torch, name, None)
        packet = getattr(torch.ops.aten, name, None)
        if twin is None or twin is getattr(functional, name) or "default" not in getattr(packet, "overloads", list)():
            continue
        theirs = [one.name for one in packet.default._schema.arguments]
        if len(packet.default._schema.returns) == 1 and name not in FUNCTIONS | dict.fromkeys(alike):
            ours = parameter_names(nbgrad.core.interop.torch_functions._ours(twin, name))
            named = {"self": "input", "train": "training"}
            assert [named.get(one, one) for one in theirs] == ours[: len(theirs)], name
        else:
            assert name in FUNCTIONS or name in alike, name

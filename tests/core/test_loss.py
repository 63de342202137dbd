"""Losses beyond the tests of their rows: losses of several ops, weights, warnings, and torch's own calls."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import nbgrad
from nbgrad import nn
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn import functional
from tests.core import calls
from tests.core.rows import close

G = torch.Generator().manual_seed(3)


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=G, dtype=torch.float64) * 2 - 0.7


A, B, C = drawn(4, 3), drawn(4, 3), drawn(4, 3)
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
CLASSES = torch.tensor([0, 2, 1, 1])
COUNTS = torch.tensor([[0.0, 1.0, 2.0]] * 4, dtype=torch.float64)

CALLS: dict[str, Callable[..., Any]] = {
    "l1_loss": lambda f, a, b, r: f.l1_loss(a, b, reduction=r),
    "mse_loss": lambda f, a, b, r: f.mse_loss(a, b, reduction=r),
    "smooth_l1_loss": lambda f, a, b, r: f.smooth_l1_loss(a, b, reduction=r, beta=0.3),
    "huber_loss": lambda f, a, b, r: f.huber_loss(a, b, reduction=r, delta=0.3),
    "cross_entropy": lambda f, a, b, r: f.cross_entropy(a, CLASSES, reduction=r),
    "cross_entropy of shares": lambda f, a, b, r: f.cross_entropy(a, b.softmax(1), reduction=r, label_smoothing=0.1),
    "nll_loss": lambda f, a, b, r: f.nll_loss(a.log_softmax(1), CLASSES, reduction=r),
    "binary_cross_entropy": lambda f, a, b, r: f.binary_cross_entropy(a.sigmoid(), b.sigmoid(), reduction=r),
    "with logits": lambda f, a, b, r: f.binary_cross_entropy_with_logits(a, b, reduction=r, pos_weight=C[0].exp()),
    "kl_div": lambda f, a, b, r: f.kl_div(a, b.softmax(1), reduction=r),
    "kl_div of logarithms": lambda f, a, b, r: f.kl_div(a, b, reduction=r, log_target=True),
    "poisson_nll_loss": lambda f, a, b, r: f.poisson_nll_loss(a, b, reduction=r),
    "poisson of rates": lambda f, a, b, r: f.poisson_nll_loss(a.exp(), COUNTS, log_input=False, full=True, reduction=r),
    "gaussian_nll_loss": lambda f, a, b, r: f.gaussian_nll_loss(a, B, b * b, full=True, reduction=r),
    "gaussian of one variance": lambda f, a, b, r: f.gaussian_nll_loss(a, b, 0.5, reduction=r),
    "gaussian of small ones": lambda f, a, b, r: f.gaussian_nll_loss(a, B, (b * b)[:, 0], eps=0.1, reduction=r),
    "hinge_embedding_loss": lambda f, a, b, r: f.hinge_embedding_loss(a * b, SIGNS[:, None], 0.5, reduction=r),
    "margin_ranking_loss": lambda f, a, b, r: f.margin_ranking_loss(a[:, 0], b[:, 0], SIGNS, 0.2, reduction=r),
    "soft_margin_loss": lambda f, a, b, r: f.soft_margin_loss(a + b, SIGNS[:, None].expand(4, 3), reduction=r),
    "multi_margin_loss": lambda f, a, b, r: f.multi_margin_loss(a + b, CLASSES, p=2, reduction=r),
    "multilabel_margin_loss": lambda f, a, b, r: f.multilabel_margin_loss(
        a + b, torch.tensor([[0, -1, 0], [1, 2, -1], [-1, 0, 0], [2, -1, 1]]), reduction=r
    ),
    "multilabel_soft_margin_loss": lambda f, a, b, r: f.multilabel_soft_margin_loss(a + b, COUNTS, C, reduction=r),
    "cosine_embedding_loss": lambda f, a, b, r: f.cosine_embedding_loss(a, b, SIGNS, 0.1, reduction=r),
    "triplet_margin_loss": lambda f, a, b, r: f.triplet_margin_loss(a, b, C, swap=True, reduction=r),
    "triplet by another distance": lambda f, a, b, r: f.triplet_margin_with_distance_loss(
        a, b, C, distance_function=lambda x, y: (x - y).abs().sum(-1), reduction=r
    ),
    "cosine_similarity": lambda f, a, b, r: f.cosine_similarity(a, b, dim=0),
    "cosine of short vectors": lambda f, a, b, r: f.cosine_similarity(a, b * 1e-3, dim=1, eps=0.1),
    "pairwise_distance": lambda f, a, b, r: f.pairwise_distance(a, b, p=3.0, keepdim=True),
    "pdist": lambda f, a, b, r: f.pdist(a + b, 1.5),
}


def check(ours: Callable[[Any, Any], Any], theirs: Callable[[Any, Any], Any]) -> None:
    """Value and gradients of the same call on both sides are equal."""
    inputs = [tensor(one, requires_grad=True) for one in (A, B)]
    others = [one.clone().requires_grad_() for one in (A, B)]
    got, expected = ours(*inputs), theirs(*others)
    seed = torch.linspace(1, 2, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    close(got.data, expected.detach(), "value")
    found = nbgrad.grad(got, inputs, seed, allow_unused=True)
    wanted = torch.autograd.grad(expected, others, seed, allow_unused=True)
    for mine, yours in zip(found, wanted, strict=True):
        close(torch.zeros_like(A) if mine is None else mine.data, torch.zeros_like(A) if yours is None else yours, "")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore:.*reduction")
def test_a_loss_is_torchs(call: Callable[..., Any], reduction: str) -> None:
    check(lambda a, b: call(functional, a, b, reduction), lambda a, b: call(F, a, b, reduction))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore:.*reduction")
def test_torchs_own_function_records_our_ops(call: Callable[..., Any]) -> None:
    check(lambda a, b: call(F, a, b, "mean"), lambda a, b: call(F, a, b, "mean"))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_elements_are_weighted_as_in_torch(name: str, reduction: str) -> None:
    def call(f: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: getattr(f, name)(a, b, reduction=reduction, weight=C * C)

    check(call(functional), call(F))


def test_kl_div_by_the_batch() -> None:
    check(
        lambda a, b: functional.kl_div(a, b, reduction="batchmean", log_target=True),
        lambda a, b: F.kl_div(a, b, reduction="batchmean", log_target=True),
    )


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 0.0), ("mean", float("nan")), ("none", [])])
@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_a_margin_loss_of_no_examples_is_no_memory_left_over(name: str, reduction: str, expected: Any) -> None:
    x, none = tensor(A[:0], requires_grad=True), CLASSES[:0]
    target = none if name == "multi_margin_loss" else none.unsqueeze(1).expand(0, A.shape[1])
    for _ in range(20):  # the memory of something else
        torch.full((1,), 7.0, dtype=torch.float64)
        loss = getattr(functional, name)(x, target, reduction=reduction)
        torch.testing.assert_close(loss.data, torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    loss.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_cdist_is_torchs(p: float) -> None:
    check(lambda a, b: torch.cdist(a, b[:2], p), lambda a, b: torch.cdist(a, b[:2], p))


LOGS = torch.randn(6, 2, 4, generator=G, dtype=torch.float64)
TARGETS, INPUT_LENGTHS, TARGET_LENGTHS = (
    torch.tensor([[1, 2, 2], [3, 1, 0]]),
    torch.tensor([6, 2]),
    torch.tensor([3, 2]),
)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_loss_is_torchs(reduction: str, zero_infinity: bool) -> None:
    lengths = INPUT_LENGTHS if not zero_infinity else torch.tensor([3, 2])  # the first target does not fit: 2, 2
    x, y = tensor(LOGS, requires_grad=True), LOGS.clone().requires_grad_()
    settings: dict[str, Any] = {"reduction": reduction, "zero_infinity": zero_infinity}
    got = functional.ctc_loss(x.log_softmax(2), TARGETS, lengths, TARGET_LENGTHS, **settings)
    expected = F.ctc_loss(y.log_softmax(2), TARGETS, lengths, TARGET_LENGTHS, **settings)
    close(got.data, expected.detach(), "value")
    got.sum().backward()
    expected.sum().backward()
    assert x.grad is not None
    close(x.grad.data, y.grad, "gradient")


def test_ctc_loss_has_no_second_order_and_says_so() -> None:
    x = tensor(LOGS, requires_grad=True)
    loss = functional.ctc_loss(x.log_softmax(2), TARGETS, INPUT_LENGTHS, TARGET_LENGTHS)
    (gradient,) = nbgrad.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("name", ["l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss"])
@pytest.mark.filterwarnings("ignore:.*reduction")
def test_a_column_against_a_row_warns(name: str) -> None:
    with pytest.warns(UserWarning, match=rf"^{name} compares .* of shape \(3, 1\) with .* of shape \(3,\)"):
        getattr(functional, name)(tensor(torch.ones(3, 1)), tensor(torch.ones(3)))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: functional.mse_loss(x, B, reduction="most"), ValueError),
        (lambda x: functional.binary_cross_entropy_with_logits(x, B[:, :2]), ValueError),
        (lambda x: functional.gaussian_nll_loss(x, B, -1.0), ValueError),
        (lambda x: functional.gaussian_nll_loss(x, B, torch.ones(2)), ValueError),
        (lambda x: functional.triplet_margin_loss(x, B, C, margin=0.0), ValueError),
        (lambda x: functional.margin_ranking_loss(x, B, SIGNS), RuntimeError),
        (lambda x: functional.multi_margin_loss(x, CLASSES, p=3), ValueError),
        (lambda x: functional.nll_loss(x, CLASSES + 2), IndexError),
        (
            lambda x: functional.cross_entropy(x, CLASSES, tensor(C[0], requires_grad=True)),
            NotImplementedError,
        ),
    ],
)
def test_what_torch_refuses_is_refused(call: Callable[[Tensor], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(tensor(A, requires_grad=True))


@pytest.mark.parametrize("call", [nbgrad.kl_div, functional.kl_div, F.kl_div, nn.KLDivLoss()])
def test_kl_div_warns_of_its_mean_at_the_users_line(call: Any) -> None:
    with pytest.warns(UserWarning, match="batchmean") as caught:
        call(tensor(A), tensor(B))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("weight", [None, torch.ones(3, dtype=torch.float64)], ids=["no weights", "weights"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_ignored_targets_alone_has_a_gradient_of_0_as_torchs(
    reduction: str, smoothing: float, weight: torch.Tensor | None
) -> None:
    scores = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    settings = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
    ignored = torch.full((2,), -100)
    function = torch.nn.functional.cross_entropy
    assert not calls.difference(function, scores, ignored, constant_seeds=True, **settings)
    ours = nbgrad.tensor(scores.detach(), requires_grad=True)
    function(ours, ignored, **settings).sum().backward()
    assert ours.grad is not None
    assert torch.equal(ours.grad.data, torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_learned_weights_of_the_classes_have_a_gradient_where_the_target_is_probabilities(reduction: str) -> None:
    scores, shares, weight = (
        torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (4, 3), (3,))
    )
    for smoothing in (0.0, 0.2):
        settings = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
        assert not calls.difference(torch.nn.functional.cross_entropy, scores, shares, **settings)


def test_binary_cross_entropy_of_a_certain_and_wrong_answer_has_a_finite_curvature_as_torchs() -> None:
    certain = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    shares = torch.tensor([0.3, 0.6, 1.0, 0.0], dtype=torch.float64)
    assert not calls.difference(torch.nn.functional.binary_cross_entropy, certain, shares)

"""Losses in special cases: all targets ignored, no examples, weights of 0, every reduction. They equal torch's."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch.nn import functional

from tests.core import calls

CASES = 120

Given = tuple[list[Any], dict[str, Any]]


def check(random: Random) -> None:
    """Run one loss in one special case. Compare the value and the gradients of both orders."""
    name = random.choice(list(LOSSES))
    args, settings = LOSSES[name](Draw(random))
    if random.random() < 0.9:
        settings["reduction"] = random.choice(["mean", "sum", "none"])
    # If no target counts, the gradient is 0. For its derivative by the incoming gradient torch has NaN or None.
    constant = random.random() < 0.5 or (name == "cross_entropy" and not _counts(*args, **settings))
    found = calls.difference(getattr(functional, name), *args, constant_seeds=constant, exact=False, **settings)
    assert not found, f"{name}(*{args}, **{settings}), {constant=}: {found}"


def _counts(scores: torch.Tensor, target: torch.Tensor, *, weight: Any, ignore_index: int, **_: Any) -> bool:
    """Whether any target has a weight, and so a share in the mean."""
    if target.is_floating_point():
        return target.numel() > 0
    there = target[target != ignore_index]
    return bool(there.numel() if weight is None else weight[there].any())


class Draw:
    """Random arguments of losses."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.generator = torch.Generator().manual_seed(random.randrange(10**9))
        self.batch = random.choice([0, 1, 2, 3, 4])
        self.classes = random.choice([1, 2, 3, 5])
        self.places = random.choice([(), (), (2,), (1, 2), (0,), (2, 1, 2)])

    def needs(self, one: torch.Tensor, chance: float = 0.8) -> torch.Tensor:
        """The tensor, which most often needs a gradient."""
        return one.requires_grad_(self.random.random() < chance)

    def real(self, *shape: int, chance: float = 0.8) -> torch.Tensor:
        """Numbers on either side of 0."""
        return self.needs(torch.randn(shape, generator=self.generator, dtype=torch.float64), chance)

    def shares(self, *shape: int, chance: float = 0.5) -> torch.Tensor:
        """Numbers between 0 and 1, sometimes these two themselves."""
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return self.needs(drawn.round() if self.random.random() < 0.2 else drawn, chance)

    def weights(self, *shape: int) -> torch.Tensor | None:
        """None, or weights of which some or all are 0."""
        kind = self.random.random()
        if kind < 0.3:
            return None
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return drawn * (0.0 if kind < 0.5 else drawn > 0.5 if kind < 0.7 else 1.0)

    def numbers(self, high: int, *shape: int, ignore: int | None = None) -> torch.Tensor:
        """Class numbers, some or all of which are ``ignore``."""
        drawn = torch.randint(high, shape, generator=self.generator)
        kind = self.random.random()
        if ignore is None or kind < 0.3:
            return drawn
        some = torch.rand(shape, generator=self.generator) < self.random.random()
        return drawn.masked_fill(torch.ones_like(some) if kind < 0.6 else some, ignore)

    def signs(self, *shape: int) -> torch.Tensor:
        """Each 1 or -1."""
        return torch.randint(2, shape, generator=self.generator).double() * 2 - 1


def _classes(draw: Draw, *, smoothed: bool) -> Given:
    ignore = draw.random.choice([-100, 0, 1])
    single = draw.random.random() < 0.2
    scores = (draw.classes,) if single else (draw.batch, draw.classes, *draw.places)
    shape = () if single else (draw.batch, *draw.places)
    settings: dict[str, Any] = {"ignore_index": ignore, "weight": draw.weights(draw.classes)}
    if smoothed:
        settings["label_smoothing"] = draw.random.choice([0.0, 0.1, 1.0])
        if draw.random.random() < 0.3:
            return [draw.real(*scores), draw.shares(*scores)], settings
    return [draw.real(*scores), draw.numbers(draw.classes, *shape, ignore=ignore)], settings


def _nll(draw: Draw) -> Given:
    return _classes(draw, smoothed=False)


def _cross_entropy(draw: Draw) -> Given:
    return _classes(draw, smoothed=True)


def _pair(draw: Draw) -> Given:
    shape = (draw.batch, *draw.places)
    first, second = draw.real(*shape), draw.real(*shape, chance=0.4)
    if draw.random.random() < 0.3:  # errors of 0, at which the loss has a kink
        second = draw.needs(first.detach().clone(), 0.4)
    return [first, second], {}


def _smooth(draw: Draw) -> Given:
    return _pair(draw)[0], {"beta": draw.random.choice([0.0, 0.5, 1.0])}


def _huber(draw: Draw) -> Given:
    return _pair(draw)[0], {"delta": draw.random.choice([0.5, 1.0])}


def _probabilities(draw: Draw) -> Given:
    shape = (draw.batch, *draw.places)
    return [draw.shares(*shape, chance=0.8), draw.shares(*shape)], {"weight": draw.weights(*shape)}


def _logits(draw: Draw) -> Given:
    shape = (draw.batch, draw.classes)
    settings = {"weight": draw.weights(draw.classes), "pos_weight": draw.weights(draw.classes)}
    return [draw.real(*shape), draw.shares(*shape)], settings


def _divergence(draw: Draw) -> Given:
    logs = draw.random.random() < 0.5
    shape = (draw.batch, *draw.places)
    return [draw.real(*shape), draw.real(*shape) if logs else draw.shares(*shape)], {"log_target": logs}


def _poisson(draw: Draw) -> Given:
    shape = (draw.batch, *draw.places)
    logs = draw.random.random() < 0.5
    settings = {"log_input": logs, "full": draw.random.random() < 0.5}
    return [draw.real(*shape) if logs else draw.shares(*shape), draw.shares(*shape, chance=0.0) * 3], settings


def _gaussian(draw: Draw) -> Given:
    args = [draw.real(draw.batch, 2), draw.real(draw.batch, 2), draw.shares(draw.batch, 2)]
    return args, {"full": draw.random.random() < 0.5}


def _margin(draw: Draw) -> Given:
    settings = {"p": draw.random.choice([1, 2]), "margin": draw.random.choice([0.5, 1.0])}
    batch = max(1, draw.batch)  # without examples torch returns uninitialized memory as the loss
    return [draw.real(batch, draw.classes), draw.numbers(draw.classes, batch)], {
        **settings,
        "weight": draw.weights(draw.classes),
    }


def _labels(draw: Draw) -> Given:
    shape = (max(1, draw.batch), draw.classes)  # as for _margin
    return [draw.real(*shape), draw.numbers(draw.classes, *shape, ignore=-1)], {}


def _soft(draw: Draw) -> Given:
    shape = (draw.batch, *draw.places)
    return [draw.real(*shape), draw.signs(*shape)], {}


def _soft_labels(draw: Draw) -> Given:
    shape = (draw.batch, draw.classes)
    return [draw.real(*shape), draw.shares(*shape, chance=0.0).round()], {"weight": draw.weights(draw.classes)}


def _hinge(draw: Draw) -> Given:
    return [draw.real(draw.batch, *draw.places), draw.signs(draw.batch, *draw.places)], {}


def _ranking(draw: Draw) -> Given:
    first, second = _pair(draw)[0]
    return [first, second, draw.signs(*first.shape)], {"margin": draw.random.choice([0.0, 0.5])}


def _cosine(draw: Draw) -> Given:
    return [draw.real(draw.batch, 3), draw.real(draw.batch, 3), draw.signs(draw.batch)], {"margin": 0.1}


def _triplet(draw: Draw) -> Given:
    settings = {"p": draw.random.choice([1, 2, 3]), "swap": draw.random.random() < 0.5}
    return [draw.real(draw.batch, 3) for _ in range(3)], settings


def _ctc(draw: Draw) -> Given:
    steps, batch, classes = draw.random.randint(1, 6), max(1, draw.batch), draw.classes + 1
    lengths = torch.randint(0, 4, (batch,), generator=draw.generator)
    targets = torch.randint(1, classes, (batch, 4), generator=draw.generator)
    scores = draw.real(steps, batch, classes).log_softmax(2)
    settings = {"zero_infinity": draw.random.random() < 0.7}
    return [draw.needs(scores.detach()), targets, torch.full((batch,), steps), lengths], settings


LOSSES: dict[str, Callable[[Draw], Given]] = {
    "nll_loss": _nll,
    "cross_entropy": _cross_entropy,
    "mse_loss": _pair,
    "l1_loss": _pair,
    "smooth_l1_loss": _smooth,
    "huber_loss": _huber,
    "binary_cross_entropy": _probabilities,
    "binary_cross_entropy_with_logits": _logits,
    "kl_div": _divergence,
    "poisson_nll_loss": _poisson,
    "gaussian_nll_loss": _gaussian,
    "multi_margin_loss": _margin,
    "multilabel_margin_loss": _labels,
    "soft_margin_loss": _soft,
    "multilabel_soft_margin_loss": _soft_labels,
    "hinge_embedding_loss": _hinge,
    "margin_ranking_loss": _ranking,
    "cosine_embedding_loss": _cosine,
    "triplet_margin_loss": _triplet,
    "ctc_loss": _ctc,
}

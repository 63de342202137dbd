"""Reductions, scans and statistics beyond the tests of every row: torch's forms of a call, and composites."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops
from tests.core.both import same
from tests.lacking import need

F64 = torch.float64
X = torch.tensor([[0.5, -1.5, 2.0, 0.25], [1.0, 3.0, -0.5, -2.0], [0.75, 1.25, -1.0, 2.5]], dtype=F64)
NAN = torch.tensor([[1.0, float("nan"), 3.0], [float("nan"), 0.5, 2.0]], dtype=F64)

CALLS: dict[str, Callable[[Any], Any]] = {
    "var unbiased first": lambda x: x.var(False),
    "var dim unbiased": lambda x: x.var(0, False),
    "var dim unbiased keepdim": lambda x: x.var(1, True, True),
    "var correction": lambda x: torch.var(x, (0, 1), correction=2),
    "std unbiased by name": lambda x: torch.std(x, dim=1, unbiased=False, keepdim=True),
    "std correction": lambda x: x.std(dim=-1, correction=0),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "std_mean": lambda x: torch.std_mean(x, dim=0, correction=0, keepdim=True),
    "only the mean": lambda x: torch.var_mean(x, 1)[1],
    "only the deviation": lambda x: torch.std_mean(x, 1)[0],
    "aminmax": lambda x: x.aminmax(dim=1),
    "only the larger": lambda x: torch.aminmax(x).max,
    "max": torch.max,
    "max along": lambda x: torch.max(x, 1).values,
    "max of two": lambda x: torch.max(x, -x),
    "min": lambda x: x.min(),
    "min along": lambda x: x.min(dim=0, keepdim=True).values,
    "min of two": lambda x: x.min(-x),
    "median": torch.median,
    "median along": lambda x: x.median(-1, True).values,
    "nanmedian along": lambda x: torch.nanmedian(x, dim=1).values,
    "mode": lambda x: torch.mode(x, 0).values,
    "norm": lambda x: x.norm(),
    "norm of order 3": lambda x: x.norm(3, dim=1),
    "norm of several dims": lambda x: torch.norm(x, p=1, dim=(0, 1), keepdim=True),
    "frobenius": lambda x: torch.norm(x, "fro", dim=[0, 1]),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=0),
    "renorm": lambda x: x.renorm(2, 0, 1.5),
    "logsumexp": lambda x: torch.logsumexp(x, (0, 1), keepdim=True),
    "prod": lambda x: x.prod(1, True),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: torch.cumprod(x, dim=0),
    "cummax": lambda x: torch.cummax(x, 1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "diff": lambda x: x.diff(),
    "diff twice": lambda x: torch.diff(x, n=2, dim=0),
    "diff too often": lambda x: torch.diff(x, n=9),
    "trapezoid": lambda x: torch.trapezoid(x, dim=0),
    "trapz with a step": lambda x: torch.trapz(x, dx=0.5),
    "trapezoid of one": lambda x: torch.trapezoid(x[:, :1], dim=1),
    "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x, dx=2, dim=0),
    "quantile": lambda x: torch.quantile(x, 0.3),
    "quantile along": lambda x: x.quantile(0.6, dim=0, keepdim=True),
    "nanquantile": lambda x: x.nanquantile(0.5, 1),
    "nansum": lambda x: torch.nansum(x, 1),
    "nanmean": lambda x: torch.nanmean(x, dim=(0, 1), keepdim=True),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_is_torchs_in_value_gradient_and_second_order(call: Callable[[Any], Any]) -> None:
    if call in (CALLS["aminmax"], CALLS["only the larger"]):
        need("aminmax")
    same(call, X)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmedian", "median"])
def test_nan_is_left_out_where_torch_leaves_it_out(name: str) -> None:
    same(lambda x: getattr(x, name)(), NAN)
    if name == "nanmean":
        same(lambda x: x.nanmean(1), NAN)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("dim", [None, 0, 1, -2])
@pytest.mark.parametrize("keepdim", [False, True])
def test_quantiles_are_torchs(name: str, interpolation: str, dim: int | None, keepdim: bool) -> None:
    def call(x: Any) -> Any:
        q = torch.tensor([0.0, 0.3, 0.5, 1.0], dtype=F64)
        return getattr(torch, name)(x, q, dim, keepdim, interpolation=interpolation)

    same(call, X.reshape(3, 2, 2))
    same(call, NAN.reshape(2, 3, 1))
    same(lambda x: getattr(torch, name)(x, 0.7, dim, keepdim, interpolation=interpolation), X.reshape(3, 2, 2))


def test_a_quantile_has_a_gradient_in_q() -> None:
    same(lambda x, q: torch.quantile(x, q, dim=1), X, torch.tensor([0.2, 0.55], dtype=F64))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.quantile(1.5), "from 0 to 1"),
        (lambda x: x.quantile(0.5, interpolation="cubic"), "cubic"),
        (lambda x: x[:, :0].quantile(0.5), "no elements"),
        (lambda x: x.quantile(torch.tensor(0.5)), "dtype"),
        (lambda x: vars(ops)["trapezoid"](x, x, dx=2), "not both"),
        (lambda x: x.sum().diff(), "one-dimensional"),
        (lambda x: x.diff(n=-1), "-1"),
        (lambda x: x.norm("max"), "'max'"),
    ],
)
def test_a_wrong_call_of_a_composite_says_so(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=words):
        call(nbgrad.tensor(X))


def test_both_forms_of_a_correction_are_refused() -> None:
    x: Any = nbgrad.tensor(X)
    with pytest.raises(TypeError, match="either unbiased=True or correction=1"):
        x.var(0, unbiased=True, correction=1)


@pytest.mark.parametrize("places", ["one line", "like y", "stretched"])
def test_an_area_has_a_gradient_in_its_places(places: str) -> None:
    x = {"one line": X[0].cumsum(0), "like y": X.cumsum(1), "stretched": X[:1].cumsum(1)}[places]
    same(lambda y, x: torch.trapezoid(y, x, dim=1), X, x)
    same(lambda y, x: torch.cumulative_trapezoid(y, x, dim=1), X, x)


def test_an_area_of_nothing_is_0() -> None:
    nothing: Any = nbgrad.tensor(X)[:, :0]
    assert torch.equal(torch.trapezoid(nothing, dim=1).data, torch.zeros(3, dtype=F64))


# The gradient of a product is right where factors are 0.

FACTORS = {
    "none": [1.5, -2.0, 0.5, 3.0],
    "one": [1.5, 0.0, 0.5, 3.0],
    "two": [0.0, -2.0, 0.0, 3.0],
    "three": [0.0, -2.0, 0.0, 0.0],
    "the first": [0.0, -2.0, 0.5, 3.0],
    "the last": [1.5, -2.0, 0.5, 0.0],
}


def derivatives(call: Callable[[Any], Any], grad: Callable[..., Any], x: Any) -> list[Any]:
    """The value and the first three derivatives, each in the direction (1, 2, 3, ...)."""
    value = call(x)
    found = [value]
    for _ in range(3):
        total = (value * value * 0.5 + value).sum()
        if not total.requires_grad:
            break
        (value,) = grad(total, [x], create_graph=True)
        value = value * torch.arange(1.0, value.numel() + 1, dtype=F64)
        found.append(value)
    return found


@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("name", ["prod", "cumprod"])
def test_products_with_zeros_are_right_to_the_third_order(name: str, factors: list[float]) -> None:
    def by_hand(x: Any) -> Any:
        running = [x[0]]
        for i in range(1, 4):
            running.append(running[-1] * x[i])
        return running[-1] if name == "prod" else torch.stack(running)

    def call(x: Any) -> Any:
        return x.prod() if name == "prod" else x.cumprod(0)

    theirs = derivatives(by_hand, torch.autograd.grad, torch.tensor(factors, dtype=F64, requires_grad=True))
    ours = derivatives(call, nbgrad.grad, nbgrad.tensor(factors, dtype=F64, requires_grad=True))
    assert len(ours) == len(theirs) == 4
    for order, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(mine.data, yours.detach(), msg=f"order {order}: {mine} is not {yours}")


def test_a_product_along_a_dim_has_zeros_in_some_lines_alone() -> None:
    x = torch.tensor([FACTORS["none"], FACTORS["one"], FACTORS["two"]], dtype=F64)
    same(lambda x: x.prod(1), x)
    same(lambda x: x.cumprod(1), x)
    same(lambda x: x.reshape(3, 2, 2).prod(-2, keepdim=True), x)


# In place


@pytest.mark.parametrize(
    "call",
    [
        lambda x: (x * 1).cumsum_(0),
        lambda x: (x * 1).cumprod_(dim=1),
        lambda x: (x * 1).renorm_(2, 1, 0.5),
    ],
    ids=["cumsum_", "cumprod_", "renorm_"],
)
def test_in_place_twins_are_torchs(call: Callable[[Any], Any]) -> None:
    same(call, X)


# Ops without a gradient.


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.argmin(1),
        lambda x: torch.argmax(x, dim=0, keepdim=True),
        lambda x: (x > 0).any(),
        lambda x: torch.all(x, dim=(0, 1)),
        lambda x: torch.count_nonzero(x, dim=1),
        lambda x: torch.histc(x, bins=4, min=-1, max=1),
    ],
)
def test_what_has_no_gradient_has_torchs_value(call: Callable[[Any], Any]) -> None:
    got = call(nbgrad.tensor(X, requires_grad=True))
    assert not got.requires_grad
    assert torch.equal(got.data, call(X))


def test_bincount_counts_and_adds_weights() -> None:
    x, weights = torch.tensor([0, 2, 2, 5]), torch.tensor([0.5, 1.0, 2.0, 4.0])
    ours: Any = nbgrad.tensor(x)
    assert torch.equal(torch.bincount(ours, minlength=8).data, torch.bincount(x, minlength=8))
    assert torch.equal(ours.bincount(nbgrad.tensor(weights)).data, x.bincount(weights))


def test_composites_work_on_torch_tensors_alone() -> None:
    for name, args in {"quantile": (0.3,), "nanmean": (), "diff": (), "trapezoid": (), "norm": (1,)}.items():
        assert torch.equal(getattr(ops, name)(X, *args), getattr(torch, name)(X, *args)), name

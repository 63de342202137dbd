"""Statistics: spread, quantiles and counts."""

import math

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import check_of_numbers
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._autocast import as_one
from nbgrad.core.ops.elementwise.arithmetic import lerp
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.getitem import gather_along
from nbgrad.core.ops.reduce.reductions import count_of, kept, reductions, stretched
from nbgrad.core.ops.reduce.sorting import sort
from nbgrad.core.tensor.tensor import Tensor


def _read(dim, unbiased, correction):
    """The dimensions and the correction. In ``var(False)`` the False is ``unbiased``, a correction of 1 or 0."""
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError("unbiased is given twice: as the first argument and by name")
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"give either unbiased={unbiased} or correction={correction}, not both")
    if unbiased is not None:
        correction = int(unbiased)
    return dim, 1 if correction is None else correction


def _spreads(make: Make):
    for sample in reductions(make):
        correction = 0 if sample.args[0].numel() else -1  # torch warns if the degrees of freedom are 0
        yield Sample.of(*sample.args, correction=correction, **sample.settings)
    yield Sample.of(make(4, 5), dim=0)
    yield Sample.of(make(4, 5), dim=0, unbiased=False)
    yield Sample.of(make(4, 5), dim=0, unbiased=True, keepdim=True)
    yield Sample.of(make(4, 5), correction=2)
    yield Sample.of(make(4, 5), dim=(0, 1), correction=0.5)
    yield Sample.of(torch.ones(2, 3, dtype=torch.float64), dim=1)


def _var_slope(g, input, dim, keepdim, correction):
    """The gradient of a variance: the deviations from the mean, scaled."""
    freedom = count_of(input.shape, dim) - correction
    if not input.shape or dim is None:
        if freedom <= 0:  # a division by 0, and 0 / 0 is NaN
            return g * where(input == input.mean(), math.nan, math.inf)
        return 2 / freedom * g * (input - input.mean())
    scale = 2 / freedom if freedom else math.inf
    return scale * kept(g, input.shape, dim, keepdim) * (input - input.mean(dim, True))


@op(formula=r"\frac{1}{n - c} \sum_i (x_i - \mu)^2", holomorphic=False, samples=_spreads)
def var(input, *, dim=None, unbiased=None, keepdim=False, correction=None):
    """Variance of all elements, or over ``dim`` (a number or a tuple of numbers).

    The sum of squares is divided by their number minus ``correction``. The default is 1 (Bessel's correction), as
    with ``unbiased=True``; ``unbiased=False`` is 0. Normalization layers use 0.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    dim, correction = _read(dim, unbiased, correction)
    return torch.var(input, dim, correction=correction, keepdim=keepdim)


@var.rule("input", r"\frac{2}{n - c} \bar{y} \odot (x - \mu)")
def _(g, input, dim, unbiased, keepdim, correction):
    dim, correction = _read(dim, unbiased, correction)
    return _var_slope(g, input, dim, keepdim, correction)


@op(formula=r"\sqrt{\frac{1}{n - c} \sum_i (x_i - \mu)^2}", holomorphic=False, samples=_spreads)
def std(input, *, dim=None, unbiased=None, keepdim=False, correction=None):
    """Standard deviation of all elements, or over ``dim``: the root of the variance, with its settings.

    Where it is 0 its gradient is taken to be 0, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    dim, correction = _read(dim, unbiased, correction)
    return torch.std(input, dim, correction=correction, keepdim=keepdim)


def _of_var(g, std):
    """The gradient of a variance from that of its root."""
    return where(std == 0, 0.0, g / (std * 2))


@std.rule("input", r"\frac{\bar{y}}{(n - c) y} \odot (x - \mu)")
def _(g, input, out, dim, unbiased, keepdim, correction):
    dim, correction = _read(dim, unbiased, correction)
    return _var_slope(_of_var(g, out), input, dim, keepdim, correction)


def _with_mean(spread, g_mean, shape, dim, keepdim):
    """The gradient through the spread, plus the gradient through the mean, if there was one."""
    if g_mean is None:
        return spread
    by_mean = stretched(g_mean / (count_of(shape, dim) or 1), shape, dim, keepdim)
    return by_mean if spread is None else spread + by_mean


@op(
    formula=r"\sigma^2 = \frac{1}{n - c} \sum_i (x_i - \mu)^2, \; \mu = \frac{1}{n} \sum_i x_i",
    symbols={"var": r"\sigma^2", "mean": r"\mu"},
    outputs=("var", "mean"),
    holomorphic=False,
    samples=_spreads,
)
def var_mean(input, *, dim=None, unbiased=None, keepdim=False, correction=None):
    """Variance and mean of all elements, or over ``dim``, as ``(var, mean)``, in one pass.

    Shapes: both outputs without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    dim, correction = _read(dim, unbiased, correction)
    return torch.var_mean(input, dim, correction=correction, keepdim=keepdim)


@var_mean.rule("input", r"\frac{2}{n - c} \bar{\sigma^2} \odot (x - \mu) + \frac{\bar{\mu}}{n}")
def _(g_var, g_mean, input, dim, unbiased, keepdim, correction):
    dim, correction = _read(dim, unbiased, correction)
    spread = None if g_var is None else _var_slope(g_var, input, dim, keepdim, correction)
    return _with_mean(spread, g_mean, input.shape, dim, keepdim)


@op(
    formula=r"\sigma = \sqrt{\frac{1}{n - c} \sum_i (x_i - \mu)^2}, \; \mu = \frac{1}{n} \sum_i x_i",
    symbols={"std": r"\sigma", "mean": r"\mu"},
    outputs=("std", "mean"),
    holomorphic=False,
    samples=_spreads,
)
def std_mean(input, *, dim=None, unbiased=None, keepdim=False, correction=None):
    """Standard deviation and mean of all elements, or over ``dim``, as ``(std, mean)``, in one pass.

    Shapes: both outputs without the reduced dimensions, or with them as 1 with ``keepdim``.
    """
    dim, correction = _read(dim, unbiased, correction)
    return torch.std_mean(input, dim, correction=correction, keepdim=keepdim)


@std_mean.rule("input", r"\frac{\bar{\sigma}}{(n - c) \sigma} \odot (x - \mu) + \frac{\bar{\mu}}{n}")
def _(g_std, g_mean, input, std, dim, unbiased, keepdim, correction):
    dim, correction = _read(dim, unbiased, correction)
    spread = None if g_std is None else _var_slope(_of_var(g_std, std), input, dim, keepdim, correction)
    return _with_mean(spread, g_mean, input.shape, dim, keepdim)


# Quantiles: sorted, then one or two of the elements; composed of other rows, as torch's own are.


@as_one(torch.quantile)
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The values below which the parts q of the elements lie, over all or along ``dim``; NaN where an element is NaN.

    Quantile regression and robust scaling use them. Between two elements ``interpolation`` chooses the value: "linear",
    "lower", "higher", "midpoint" or "nearest". q is a number or a tensor of numbers from 0 to 1; several make a first
    dimension of the output.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@as_one(torch.nanquantile)
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The quantiles of the elements that are not NaN, with the settings of ``quantile``; NaN if there are none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


install("quantile", quantile)
install("nanquantile", nanquantile)


def _quantile(name, input, q, dim, keepdim, interpolation):
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}(interpolation={interpolation!r}): it must be 'linear', 'lower', 'higher', 'midpoint' or 'nearest'"
        )
    if input.numel() == 0:
        raise RuntimeError(f"{name}() of a tensor of shape {tuple(input.shape)}, which has no elements")
    if isinstance(q, int | float):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}(q): all numbers must be from 0 to 1, not {q}")
        q = torch.full((), float(q), dtype=input.dtype, device=input.device)
    else:
        _check_parts(raw_of(q), name)
    if len(q.shape) > 1 or q.dtype != input.dtype:
        raise RuntimeError(f"{name}(q): numbers of input's dtype in at most one dimension, not {tuple(q.shape)}")
    rank = len(input.shape)
    lines = input.reshape(-1) if dim is None or not rank else input.transpose(dim, -1)
    ordered = sort(lines, dim=-1).values
    values = _between(ordered, _ranks(ordered, q.reshape(-1), name == "nanquantile", interpolation), interpolation)
    if dim is not None and rank:
        values = values.unsqueeze(-2).transpose(dim % rank, -2)  # 1 where dim was, and q at the end
        values = values if keepdim else values.squeeze(dim % rank)
    elif keepdim:
        values = values.reshape((1,) * rank + (-1,))
    return values.squeeze(-1) if not q.shape else values.permute((len(values.shape) - 1, *range(len(values.shape) - 1)))


@check_of_numbers
def _check_parts(q, name):
    if not bool(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError(f"{name}(q): all numbers must be from 0 to 1")


def _ranks(ordered, q, skips_nan, interpolation):
    """How far along the sorted numbers each quantile lies, between two of them unless ``interpolation`` rounds."""
    if skips_nan:
        ranks = q * (ordered.isnan().logical_not().sum(-1, True) - 1)
        ranks = where(ranks < 0, 0.0, ranks)
    else:
        last = ordered.shape[-1] - 1
        ranks = where(ordered.isnan().any(-1, True), float(last), q * last)  # NaN is sorted to the end
    rounded = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}
    return rounded[interpolation]() if interpolation in rounded else ranks


def _between(ordered, ranks, interpolation):
    """The numbers at ``ranks``, weighed where a rank is between two."""
    places = ranks.to(dtype=torch.int64)
    below = gather_along(ordered, places, dim=-1)
    if interpolation not in ("linear", "midpoint"):
        return below
    above = gather_along(ordered, ranks.ceil().to(dtype=torch.int64), dim=-1)
    weight = 0.5 if interpolation == "midpoint" else ranks - places
    return lerp(below, above, weight)


# Counts


def _histograms(make: Make):
    for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (0,)):
        yield Sample.of(make(*shape), bins=4)
    yield Sample.of(make(20), bins=5, min=-1, max=1)


@op(
    formula=r"\text{how many } x \text{ lie in each bin}", kernel=torch.histc, differentiable=False, samples=_histograms
)
def histc(input, *, bins=100, min=0, max=0):
    """How many elements lie in each of ``bins`` equal parts of the range from ``min`` to ``max``; it has no gradient.

    If both are 0, the range is that of the elements. Elements outside the range are not counted.

    Shapes: output has ``bins`` elements.
    """


def bincount(input, weights=None, minlength=0):
    """How often each number from 0 on occurs, or the sum of its weights; it has no gradient."""
    raw = None if weights is None else getattr(weights, "data", weights)
    return _alike(input, torch.bincount(input.data, raw, minlength))


def _alike(input, result):
    return Tensor(result) if isinstance(input, Tensor) else result


install("bincount", bincount)

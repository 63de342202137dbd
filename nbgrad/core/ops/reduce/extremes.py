"""Extremes and ranks: one element of many, chosen by comparing them; ties follow torch."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.opaque import has_numbers
from nbgrad.core.dispatch.samples import Make, Sample, along_a_dim, reducing, unary
from nbgrad.core.ops.elementwise.select import maximum, minimum, where
from nbgrad.core.ops.index.getitem import gather_along
from nbgrad.core.ops.reduce.reductions import dims_of, kept, reductions


def _tied():
    return torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 0.0]], dtype=torch.float64)


# Over several dimensions: ties share the gradient.


def _with_ties(make: Make):
    """Reductions of something, and ties."""
    for sample in reducing(make):
        if sample.args[0].numel():
            yield sample
    yield Sample.of(make(2, 0, 3), dim=0)
    yield Sample.of(_tied())
    yield Sample.of(_tied(), dim=1)


def _shared_among_ties(g, x, out, dim, keepdim):
    """The gradient of an extreme over ``dim``: each of the elements that are equal to it gets the same part."""
    shape = x.shape
    ties = x == kept(out, shape, dim, keepdim)
    return kept(g, shape, dim, keepdim) * ties / ties.sum(dims_of(dim, len(shape)), True)


_SHARED = r"\frac{\bar{y}}{\text{number of ties}} \text{ where } x = y \text{, else } 0"


@op(formula=r"\max_i x_i", kernel=torch.amax, samples=_with_ties)
def amax(x, *, dim=(), keepdim=False):
    """The largest element, or the largest along ``dim`` (a number or a tuple of numbers).

    Ties share the gradient evenly, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``. Raises IndexError where a
    reduced dimension is empty.
    """


@amax.rule("x", _SHARED)
def _(g, x, out, dim, keepdim):
    return _shared_among_ties(g, x, out, dim, keepdim)


@op(formula=r"\min_i x_i", kernel=torch.amin, samples=_with_ties)
def amin(input, *, dim=(), keepdim=False):
    """The smallest element, or the smallest along ``dim`` (a number or a tuple of numbers).

    Ties share the gradient evenly, as torch has it.

    Shapes: output without the reduced dimensions, or with them as 1 with ``keepdim``. Raises IndexError where a
    reduced dimension is empty.
    """


@amin.rule("input", _SHARED)
def _(g, input, out, dim, keepdim):
    return _shared_among_ties(g, input, out, dim, keepdim)


def _pairs_of_extremes(make: Make):
    yield from (sample for sample in reductions(make) if isinstance(sample.settings.get("dim", 0), int))
    yield Sample.of(make(2, 1, 3))
    yield Sample.of(make(1, 2, 2, 1, 2), dim=4, keepdim=True)
    yield Sample.of(_tied())
    yield Sample.of(_tied(), dim=1)


@op(formula=r"(\min_i x_i, \max_i x_i)", outputs=("min", "max"), samples=_pairs_of_extremes)
def aminmax(input, *, dim=None, keepdim=False):
    """The smallest and the largest element, of all or along ``dim``, as ``(min, max)``, in one pass.

    Quantization takes its scale from them. Ties share the gradient evenly.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError or RuntimeError where
    there is no element.
    """
    return tuple(torch.aminmax(input, dim=dim, keepdim=keepdim))


@aminmax.rule("input", r"\text{each gradient shared evenly by the elements equal to its output}")
def _(g_min, g_max, input, min, max, dim, keepdim):
    lower = None if g_min is None else _shared_among_ties(g_min, input, min, dim, keepdim)
    upper = None if g_max is None else _shared_among_ties(g_max, input, max, dim, keepdim)
    return upper if lower is None else lower if upper is None else lower + upper


# Along one dimension: the element at the index that the kernel gives gets the gradient.


def not_empty_along_a_dim(make: Make):
    """Along one dimension that has elements, ties included."""
    for sample in along_a_dim(make):
        shape = sample.args[0].shape
        if not shape or shape[sample.settings["dim"]]:
            yield sample
    yield Sample.of(_tied(), dim=1)
    yield Sample.of(make(2, 3), dim=-1, keepdim=True)


def _choices(make: Make):
    for sample in not_empty_along_a_dim(make):
        x, dim = sample.args[0], sample.settings["dim"]
        size = x.shape[dim] if x.ndim else 1
        for keepdim in {sample.settings.get("keepdim", False), x.ndim > 2}:
            index = make.integers(size, *x.select(dim, 0).shape) if x.ndim else make.integers(1)
            index = index.unsqueeze(dim) if keepdim and x.ndim else index
            yield Sample.of(make(*index.shape), index, dim=dim, shape=tuple(x.shape), keepdim=keepdim)


@op(formula=r"g \text{ at } i \text{ in zeros}", no_gradient=("indices",), samples=_choices)
def value_selecting_reduction_backward(g, indices, *, dim, shape, keepdim):
    """Zeros of ``shape`` with g along ``dim`` at the numbers in indices, none of which occurs twice.

    Shapes: g and indices as the elements chosen along ``dim``, output as ``shape``.
    """
    return aten.value_selecting_reduction_backward(g, dim, indices, shape, keepdim)


@value_selecting_reduction_backward.rule("g", r"\bar{y}[\ldots, i, \ldots]")
def _(gradient, indices, dim, keepdim):
    if keepdim or not gradient.shape:
        return gather_along(gradient, indices, dim=dim)
    return gather_along(gradient, indices.unsqueeze(dim), dim=dim).squeeze(dim)


def selecting(row):
    """Give a row its rule: the row chooses elements along ``dim``, and returns their ``indices`` too."""

    def keeping(g, indices, input_shape, dim):
        return value_selecting_reduction_backward(g, indices, dim=dim, shape=input_shape, keepdim=True)

    def reduced(g, indices, input_shape, dim, keepdim):
        return value_selecting_reduction_backward(g, indices, dim=dim, shape=input_shape, keepdim=keepdim)

    formula = r"\bar{y} \text{ at the indices of the chosen elements, } 0 \text{ elsewhere}"
    row.rule("input", formula)(reduced if "keepdim" in row.defaults else keeping)
    return row


def _along(name, formula, doc):
    """The row of one choice along a dimension; torch has one name for this choice and the one among all elements."""
    kernel = getattr(torch, name)

    def choose(input, *, dim, keepdim=False):
        return tuple(kernel(input, dim, keepdim))

    choose.__name__ = f"{name}_along"
    choose.__doc__ = f"""{doc}

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError where ``dim`` is empty.
    """
    return selecting(
        op(
            formula=formula,
            outputs=("values", "indices"),
            method=False,
            samples=not_empty_along_a_dim,
            reference=lambda x, dim, keepdim=False: kernel(x, dim, keepdim),
        )(choose)
    )


max_along = _along(
    "max",
    r"\max_i x_i",
    """The largest elements along ``dim`` and their indices, as ``(values, indices)``.

    Max pooling takes such maxima. The gradient goes to the winner alone: at a tie, the one that the kernel chose.""",
)
min_along = _along(
    "min",
    r"\min_i x_i",
    """The smallest elements along ``dim`` and their indices, as ``(values, indices)``.

    The Chamfer distance of two sets of points takes such minima; the gradient goes to the winner alone.""",
)
median_along = _along(
    "median",
    r"\operatorname{median}_i x_i",
    """The medians along ``dim``, the lower of two, and their indices, as ``(values, indices)``.

    It withstands outliers, where a mean does not; the gradient goes to the median element alone.""",
)
nanmedian_along = _along(
    "nanmedian",
    r"\operatorname{median}_i x_i \text{ without NaN}",
    """The medians along ``dim`` of the elements that are not NaN, and their indices, as ``(values, indices)``.

    The gradient goes to the median element alone.""",
)


def _modes(make: Make):
    yield from not_empty_along_a_dim(make)
    yield Sample.of(make(2, 3))


@selecting
@op(formula=r"\operatorname{mode}_i x_i", outputs=("values", "indices"), samples=_modes)
def mode(input, *, dim=-1, keepdim=False):
    """The commonest elements along ``dim``, the smallest of several, and where they are, as ``(values, indices)``.

    It counts the votes of several classifiers.

    Shapes: both outputs without ``dim``, or with it as 1 with ``keepdim``. Raises IndexError where ``dim`` is empty.
    """
    return tuple(torch.mode(input, dim, keepdim))


# Extremes of all elements: elements equal to the extreme share the gradient, NaN too.


def _all_of_them(make: Make):
    yield from unary(make)
    yield Sample.of(_tied())
    yield Sample.of(torch.tensor([1.0, float("nan"), 2.0, float("nan")], dtype=torch.float64))


def _not_empty(make: Make):
    yield from (sample for sample in _all_of_them(make) if sample.args[0].numel())


def _of_all(name, formula, doc, samples=_all_of_them):
    """The row of one choice among all elements."""
    kernel = getattr(torch, name)

    def choose(input):
        return kernel(input)

    choose.__name__ = f"{name}_of_all"
    empty = ". Raises RuntimeError where there are no elements" if samples is _not_empty else ", NaN of no elements"
    choose.__doc__ = f"""{doc}

    Elements equal to it share the gradient evenly, as torch has it.

    Shapes: output is a single number{empty}.
    """
    row = op(name=name, formula=formula, method=False, samples=samples)(choose)

    @row.rule("input", _SHARED)
    def _(g, input, out):
        ties = _ties(input, out)
        return where(ties, g / ties.sum(), 0.0)

    return row


def _ties(x, y):
    """Where x is y, which may be NaN."""
    if x.device.type == "cpu" and has_numbers(x):
        return x.isnan() if bool(y.data.isnan()) else x == y
    return (x == y) | (x.isnan() & y.isnan())  # a GPU would have to be waited for, and a trace has no numbers


max_of_all = _of_all("max", r"\max_i x_i", "The largest of all elements.", _not_empty)
min_of_all = _of_all("min", r"\min_i x_i", "The smallest of all elements.", _not_empty)
median_of_all = _of_all("median", r"\operatorname{median}_i x_i", "The median of all elements, the lower of two.")
nanmedian_of_all = _of_all(
    "nanmedian", r"\operatorname{median}_i x_i \text{ without NaN}", "The median of all elements that are not NaN."
)


# torch's names, each for the forms that it has.


def max(input, dim=None, keepdim=False, *, other=None):
    """The maximum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    if isinstance(dim, int) or keepdim:
        return max_along(input, dim=dim, keepdim=keepdim)
    other = dim if other is None else other
    return max_of_all(input) if other is None else maximum(input, other)


def min(input, dim=None, keepdim=False, *, other=None):
    """The minimum in torch's three forms: of all elements, along ``dim`` with indices, or of two tensors."""
    if isinstance(dim, int) or keepdim:
        return min_along(input, dim=dim, keepdim=keepdim)
    other = dim if other is None else other
    return min_of_all(input) if other is None else minimum(input, other)


def median(input, dim=None, keepdim=False):
    """The median of all elements, or along ``dim`` with indices; of two in the middle the lower one."""
    return median_of_all(input) if dim is None else median_along(input, dim=dim, keepdim=keepdim)


def nanmedian(input, dim=None, keepdim=False):
    """The median of all elements that are not NaN, or along ``dim`` with indices."""
    return nanmedian_of_all(input) if dim is None else nanmedian_along(input, dim=dim, keepdim=keepdim)


install("max", max)
install("min", min)
install("median", median)
install("nanmedian", nanmedian)


def _arg_samples(make: Make):
    yield from (sample for sample in unary(make) if sample.args[0].numel())
    yield from not_empty_along_a_dim(make)


@op(formula=r"\arg\max_i x_i", kernel=torch.argmax, differentiable=False, samples=_arg_samples)
def argmax(x, *, dim=None, keepdim=False):
    """The index of the largest element, or of the largest along ``dim``; it has no gradient.

    The class that a classifier predicts is the argmax of its scores.

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """


@op(formula=r"\arg\min_i x_i", kernel=torch.argmin, differentiable=False, samples=_arg_samples)
def argmin(input, *, dim=None, keepdim=False):
    """The index of the smallest element, or of the smallest along ``dim``; it has no gradient.

    The code that vector quantization chooses is the argmin of the distances (van den Oord et al. 2017,
    https://arxiv.org/abs/1711.00937).

    Shapes: output without ``dim``, or with it as 1 with ``keepdim``.
    """

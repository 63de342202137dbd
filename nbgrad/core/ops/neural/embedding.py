"""Embedding: rows of a table, looked up by index, one by one or combined in bags."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.backend.below_autograd import unrecorded
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops._joint_rules import asked, spread, total
from nbgrad.core.ops.elementwise.select import where

_functional = torch.nn.functional


def _lookups(make: Make):
    for shape in SHAPES:
        yield Sample.of(make.integers(4, *shape), make(4, 2))
    numbers = torch.tensor([1, 0, 1, 3])
    yield Sample.of(numbers, make(4, 2), padding_idx=1)
    yield Sample.of(numbers, make(4, 2), padding_idx=3)
    yield Sample.of(numbers, make(4, 2), padding_idx=0, scale_grad_by_freq=True)


def _by_torch(input, weight, *, padding_idx=-1, scale_grad_by_freq=False):
    """The embedding by indexing: torch cannot differentiate its own kernel twice if input is empty."""
    if scale_grad_by_freq:
        return torch.embedding(weight, input, padding_idx, scale_grad_by_freq)
    return torch.where((input == padding_idx).unsqueeze(-1), weight.detach()[input], weight[input])


@op(
    name="embedding",
    formula=r"W_i",
    symbols={"input": "i"},
    no_gradient=("input",),
    samples=_lookups,
    reference=_by_torch,
)
def embedding_row(input, weight, *, padding_idx=-1, scale_grad_by_freq=False):
    """The rows of a weight at the numbers given: a vector for each word.

    Words become vectors that are learned with the rest (Bengio et al. 2003). A row gets the sum of the gradients of
    all places where it was looked up, or their mean with ``scale_grad_by_freq``; the row ``padding_idx`` gets none.

    Shapes: input (...) of whole numbers, weight (V, D), output (..., D). Raises IndexError for a number beyond V.
    """
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq)


@embedding_row.rule("weight", r"\bar{y} \text{ added at } i \text{ in zeros}")
def _(g, input, weight_shape, padding_idx, scale_grad_by_freq):
    settings = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    return embedding_backward(g, input, num_weights=weight_shape[0], **settings)


def _additions(make: Make):
    for sample in _lookups(make):
        numbers = sample.args[0]
        yield Sample.of(make(*numbers.shape, 2), numbers, num_weights=4, **sample.settings)
    yield Sample.of(make(2), torch.tensor(1), num_weights=2)


def _added(g, input, num_weights, padding_idx=-1, scale_grad_by_freq=False):
    if scale_grad_by_freq:
        return aten.embedding_dense_backward(g, input, num_weights, padding_idx, scale_grad_by_freq)
    kept = g * (input != padding_idx).unsqueeze(-1)
    zeros = torch.zeros(num_weights, g.shape[-1], dtype=g.dtype, device=g.device)
    return zeros.index_add(0, input.flatten(), kept.reshape(-1, g.shape[-1]))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    symbols={"input": "i"},
    no_gradient=("input",),
    samples=_additions,
    ranks=range(1, 6),
    reference=_added,
)
def embedding_backward(g, input, *, num_weights, padding_idx=-1, scale_grad_by_freq=False):
    """Zeros with the vectors of g added in the rows that the numbers in input say: the gradient of embedding.

    Shapes: g (..., D), input (...), output (num_weights, D).
    """
    if not g.numel():  # which torch's kernel does not take
        return g.new_zeros((num_weights, g.shape[-1]))
    return aten.embedding_dense_backward(g, input, num_weights, padding_idx, scale_grad_by_freq)


@embedding_backward.rule("g", r"\bar{y}_i")
def _(gradient, input, padding_idx):
    # Only the gradient of the weight is divided by the frequency, not that of g. A gradient that goes on from g to the
    # weight is divided by the rule of embedding. So the Hessian of the weight is divided once, as in torch.
    found = embedding_row(input, gradient)
    return found if padding_idx < 0 else where((input == padding_idx).unsqueeze(-1), 0.0, found)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of a weight at the numbers given, with torch's arguments: see the row embedding.

    With ``max_norm`` the rows that are looked up are first shortened to that norm, in place and without a gradient.
    Raises NotImplementedError for ``sparse=True``: gradients of nbgrad are dense.
    """
    if sparse:
        raise NotImplementedError("embedding: sparse=True would make a sparse gradient, which nbgrad does not have")
    padding_idx = _padding(padding_idx, weight)
    _shorten(input, weight, max_norm, norm_type)
    return embedding_row(input, weight, padding_idx=padding_idx, scale_grad_by_freq=scale_grad_by_freq)


def _padding(padding_idx, weight):
    """The row that gets no gradient as torch's kernels want it: -1 for none."""
    if padding_idx is None:
        return -1
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError(f"embedding: padding_idx {padding_idx} is beyond the {weight.shape[0]} rows of the weight")
    return padding_idx % weight.shape[0]


def _shorten(input, weight, max_norm, norm_type):
    if max_norm is not None:
        numbers, rows = (raw_of(one) for one in (input, weight))
        unrecorded(torch.embedding_renorm_, rows, numbers.contiguous(), max_norm, norm_type)


# Bags.

_MODES = {"sum": 0, "mean": 1, "max": 2}


_ONCE = {"scale_grad_by_freq": "its gradient has no second order, which is so in torch too"}


def _bags(make: Make):
    numbers, offsets = torch.tensor([1, 0, 1, 3, 2]), torch.tensor([0, 2, 2])
    for mode in _MODES:
        yield Sample.of(numbers, make(4, 2), offsets, mode=mode)
        yield Sample.of(numbers, make(4, 2), offsets, mode=mode, padding_idx=1)
    yield Sample.of(numbers, make(4, 2), offsets, make(5), mode="sum")
    yield Sample.of(make.integers(4, 0), make(4, 2), torch.tensor([0, 0]), mode="sum")


def _bags_by_torch(input, weight, offsets, per_sample_weights=None, **settings):
    """Bags in small steps: torch differentiates its own kernel only once."""
    mode, padding = settings.get("mode"), settings.get("padding_idx")
    ends = [*offsets.tolist()[1:], len(input)]
    bags = []
    for start, end in zip(offsets.tolist(), ends, strict=True):
        kept = input[start:end] != (-1 if padding is None else padding)
        rows = weight[input[start:end][kept]]
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[start:end][kept].unsqueeze(-1)
        if mode == "max" and len(rows):
            bags.append(rows.max(0).values)
        else:
            bags.append(rows.sum(0) / (max(len(rows), 1) if mode == "mean" else 1))
    touched = 0 if per_sample_weights is None else 0 * per_sample_weights.sum()
    return torch.stack(bags) + 0 * weight.sum() + touched


@op(
    name="embedding_bag",
    formula=r"\sum_{i \in b} s_i W_i",
    symbols={"input": "i", "offsets": "b", "per_sample_weights": "s"},
    aux=("offset2bag", "bag_size", "max_indices"),
    no_gradient=("input", "offsets"),
    samples=_bags,
    ranks=(1,),
    reference=_bags_by_torch,
    unvaried=_ONCE,
)
def embedding_bag_row(
    input,
    weight,
    offsets,
    per_sample_weights=None,
    *,
    mode="mean",
    scale_grad_by_freq=False,
    padding_idx=-1,
):
    """The sum, the mean or the maximum of the rows of a weight at the numbers of each bag.

    A text is the mean of its words (Joulin et al. 2016, https://arxiv.org/abs/1607.01759), without making a vector for
    each. ``offsets`` says where each bag begins; the numbers ``padding_idx`` count for nothing.

    Shapes: input (n,) of whole numbers, weight (V, D), offsets (B,), per_sample_weights (n,) with "sum"; output (B, D).
    """
    settings = (scale_grad_by_freq, _MODES[mode], False, per_sample_weights, False, padding_idx)
    out, offset2bag, bag_size, max_indices = torch._embedding_bag(weight, input, offsets, *settings)
    return out, offset2bag, bag_size, max_indices if mode == "max" else input.new_empty(0)


@embedding_bag_row.joint_rule(weight=r"s_i \bar{y}_b \text{ added at } i", per_sample_weights=r"\bar{y}_b \cdot W_i")
def _(
    g,
    needed,
    input,
    weight,
    offsets,
    per_sample_weights,
    offset2bag,
    bag_size,
    max_indices,
    mode,
    scale_grad_by_freq,
    padding_idx,
):
    mask = (needed[1], needed[3])
    settings = {"mode": mode, "scale_grad_by_freq": scale_grad_by_freq, "padding_idx": padding_idx}
    bags = (input, offsets, offset2bag, bag_size, max_indices)
    found = embedding_bag_backward(g, weight, *bags, per_sample_weights, mask=mask, **settings)
    of_weight, of_samples = spread(found, mask)
    return None, of_weight, None, of_samples


def _bag_gradients(make: Make):
    """Weighted sums, whose kernels ignore the indices of a maximum; means and maxima of bags that are not empty."""
    for numbers, offsets in (([1, 0, 1, 3, 2], [0, 2, 2]), ([1, 0], [0, 1])):
        input, begins = torch.tensor(numbers), torch.tensor(offsets)
        weight, weights = make(4, 2), make(len(numbers))
        bags = embedding_bag_row.forward(input, weight, begins, weights, mode="sum")[1:3]
        for padding in (-1, 1):
            for unused in (torch.zeros(3, dtype=torch.int64), input.new_empty(0)):
                args = (make(len(offsets), 2), weight, input, begins, *bags, unused, weights)
                yield Sample.of(*args, mask=(True, True), mode="sum", padding_idx=padding)
        args = (make(len(offsets), 2), weight, input, begins, *bags, input.new_empty(0), weights)
        yield Sample.of(*args, mask=(True, False), mode="sum")
        yield Sample.of(*args, mask=(False, True), mode="sum")
        if len(offsets) == 3:
            begins = torch.tensor([0, 2, 3])
        for mode in ("mean", "max"):  # where no result depends on the weight
            _, *bags = embedding_bag_row.forward(input, weight, begins, mode=mode)
            yield Sample.of(make(len(offsets), 2), weight, input, begins, *bags, mask=(True, False), mode=mode)


def _bag_gradients_by_torch(g, weight, input, offsets, *bags_and_weights, mask, mode, padding_idx=-1):
    kept = (input != padding_idx).unsqueeze(-1)
    bag = torch.searchsorted(offsets, torch.arange(len(input), device=offsets.device), right=True) - 1
    given = g[bag] * kept
    if mode == "mean":
        given = given / torch.bincount(bag)[bag].unsqueeze(-1)
    elif mode == "max":
        given = given * (weight[input] == torch.stack([weight[input[bag == one]].amax(0) for one in bag]))
    shares = given if len(bags_and_weights) < 4 else given * bags_and_weights[3].unsqueeze(-1)
    of_weight = torch.zeros_like(weight).index_add(0, input, shares)
    return asked((of_weight, (given * weight[input]).sum(-1)), mask)


@op(
    formula=r"\bar{W}, \bar{s} \text{ of } g",
    symbols={"per_sample_weights": "s"},
    many=True,
    no_gradient=("input", "offsets", "offset2bag", "bag_size", "max_indices"),
    samples=_bag_gradients,
    ranks=(2,),
    reference=_bag_gradients_by_torch,
    unvaried=_ONCE,
)
def embedding_bag_backward(
    g,
    weight,
    input,
    offsets,
    offset2bag,
    bag_size,
    max_indices,
    per_sample_weights=None,
    *,
    mask,
    mode,
    scale_grad_by_freq=False,
    padding_idx=-1,
):
    """The gradients of embedding_bag with respect to weight and per_sample_weights, those that ``mask`` asks for.

    Shapes: g (B, D), output (V, D) and (n,).
    """
    found = []
    if mask[0]:
        bags = (input, offsets, offset2bag, bag_size, max_indices)
        settings = (False, _MODES[mode], False, per_sample_weights, padding_idx)
        of_weight = aten._embedding_bag_backward(g, *bags, weight.shape[0], *settings)
        if scale_grad_by_freq:  # torch's kernel for a CPU divides by the frequencies of wrong numbers
            of_weight.div_(input.bincount(minlength=weight.shape[0]).clamp_(min=1).unsqueeze(-1))
        found.append(of_weight)
    if mask[1]:
        where_from = (input, offsets, offset2bag)
        kernel = aten._embedding_bag_per_sample_weights_backward
        found.append(kernel(g, weight, *where_from, _MODES[mode], padding_idx))
    return tuple(found)


@embedding_bag_backward.joint_rule(
    g=r"\sum_{i \in b} s_i \bar{\bar{W}}_i + \bar{\bar{s}}_i W_i",
    weight=r"\bar{\bar{s}}_i g_b \text{ added at } i",
    per_sample_weights=r"g_b \cdot \bar{\bar{W}}_i",
)
def _(
    gradients,
    needed,
    g,
    weight,
    input,
    offsets,
    offset2bag,
    bag_size,
    max_indices,
    per_sample_weights,
    mask,
    mode,
    scale_grad_by_freq,
    padding_idx,
):
    if scale_grad_by_freq and mask[0]:
        raise NotImplementedError("embedding_bag: scale_grad_by_freq has no second-order gradient, as in torch")
    of_weight, of_samples = spread(gradients, mask)
    bags = (input, offsets, offset2bag, bag_size, max_indices)
    settings = {"mode": mode, "padding_idx": padding_idx}
    to_g = to_weight = to_samples = None
    if of_weight is not None and mode == "max":
        at = max_indices.clamp(min=0)  # an empty bag has 0, on a GPU -1; its to_g is 0
        some = (bag_size > 0).unsqueeze(-1) if bag_size.ndim == 1 else bag_size > 0
        to_g = where(some, of_weight.gather(0, at), 0.0)
    elif of_weight is not None:
        to_g = embedding_bag_row(input, of_weight, offsets, per_sample_weights, **settings)
    if of_samples is not None:
        to_g = total(to_g, embedding_bag_row(input, weight, offsets, of_samples, **settings))
        (to_weight,) = embedding_bag_backward(g, weight, *bags, of_samples, mask=(True, False), **settings)
    if of_weight is not None and needed[7]:
        (to_samples,) = embedding_bag_backward(g, of_weight, *bags, per_sample_weights, mask=(False, True), **settings)
    return to_g, to_weight, None, None, None, None, None, to_samples


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum of rows for each bag, with torch's arguments: see the row embedding_bag.

    A matrix of numbers is one bag in each row, without ``offsets``. Raises NotImplementedError for ``sparse=True`` and
    for ``per_sample_weights`` in another mode than "sum", ValueError if ``offsets`` are missing for a vector of
    numbers, or given for a matrix.
    """
    if sparse:
        raise NotImplementedError("embedding_bag: sparse=True would make a sparse gradient, which nbgrad does not have")
    if mode not in _MODES:
        raise ValueError(f"embedding_bag: mode {mode!r} is none of {', '.join(_MODES)}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights need mode 'sum', not {mode!r}")
    if (offsets is None) != (input.ndim == 2):
        raise ValueError("embedding_bag takes a matrix of numbers, or a vector and offsets")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: scale_grad_by_freq does not work with mode 'max'")
    numbers = raw_of(input)
    if numbers.ndim == 2:
        step = max(numbers.shape[1], 1)
        offsets = torch.arange(0, numbers.shape[0] * step, step, dtype=numbers.dtype, device=numbers.device)
        if not numbers.shape[1]:
            offsets = torch.zeros_like(offsets)
        numbers = numbers.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape((-1,))
    elif include_last_offset:  # the end of the last bag, which is the end of the numbers
        offsets = offsets[:-1]
    padding_idx = _padding(padding_idx, weight)
    numbers = numbers.contiguous()
    _shorten(numbers, weight, max_norm, norm_type)
    settings = {"mode": mode, "padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    return embedding_bag_row(numbers, weight, offsets, per_sample_weights, **settings)


def _classes(make: Make):
    for shape in SHAPES:
        yield Sample.of(make.integers(4, *shape), num_classes=4)
    yield Sample.of(make.integers(4, 2, 3), num_classes=6)


@op(formula=r"y_j = [j = x]", kernel=_functional.one_hot, differentiable=False, samples=_classes)
def one_hot(input, *, num_classes=-1):
    """Class numbers as vectors that are 1 at the number and 0 elsewhere; it has no gradient.

    ``num_classes`` is by default one more than the largest number.

    Shapes: input (...) of whole numbers, output (..., num_classes).
    """

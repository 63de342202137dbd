"""Reading elements: with an index, at the positions in an index tensor, or where a mask is True."""

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index._indices import canonical, part
from nbgrad.core.tensor.call_errors import explained


def picks(make: Make):
    """Every kind of index."""
    x = make(3, 4, 2)
    rows, cols = torch.tensor([0, 2, 0]), torch.tensor([1, 1, 3])
    for index in (
        1,
        -1,
        slice(1, None),
        slice(None, None, 2),
        Ellipsis,
        None,
        (0, 1),
        (0, 1, 1),
        (slice(None), 2),
        (Ellipsis, 0),
        (None, 1, slice(1, 3)),
        (slice(0, 0),),
        rows,
        (rows, cols),
        (slice(None), rows),
        (rows, slice(1, 3)),
        (rows, Ellipsis, torch.tensor([0, 1, 1])),
        (0, rows),
        (rows, 1),
        (None, rows, None, cols),
        torch.tensor([[0, 1], [2, 2]]),
        torch.tensor([True, False, True]),
        (slice(None), torch.tensor([True, False, True, True])),
        torch.tensor([], dtype=torch.int64),
        x > 0,
    ):
        yield Sample.of(x, index=index)
    yield Sample.of(make(), index=())
    yield Sample.of(make(5), index=2)
    yield Sample.of(make(2, 3), index=torch.tensor(True))
    yield Sample.of(make(2, 3), index=(torch.tensor(False), 1))
    yield Sample.of(make(2, 2, 1, 3), index=(Ellipsis, torch.tensor([1, 1]), slice(None), None, -1))
    yield Sample.of(make(2, 3), index=(None, None, None, slice(1, 2)))
    yield Sample.of(make(1, 2, 2, 1, 2), index=(0, slice(None), 1))
    yield Sample.of(make(2, 0, 3), index=(1,))


@op(formula=r"x[i]", view=True, samples=picks, traits=Traits(moves=True))
def getitem(x, *, index):
    """The elements at ``index``: numbers, slices, None, Ellipsis, masks, integer tensors, and mixtures of them.

    An embedding is a lookup of rows; a mini-batch is one too. An element that is picked twice gets both gradients.

    Shapes: as numpy and torch index. Raises IndexError where ``index`` leaves the tensor.
    """
    return x[index]


@getitem.rule("x", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, x_shape, index):
    return getitem_backward(g, index=index, shape=x_shape)


def _unpicks(make: Make):
    for sample in picks(make):
        x, index = sample.args[0], sample.settings["index"]
        yield Sample.of(make(*x[index].shape), index=index, shape=tuple(x.shape))


@op(formula=r"g \text{ added at } i \text{ in zeros}", samples=_unpicks)
def getitem_backward(g, *, index, shape):
    """Zeros of ``shape`` with g added at ``index``, repeated places included.

    Shapes: g as the elements that ``index`` picks, output as ``shape``.
    """
    return _add_at(g, index, shape)


@getitem_backward.rule("g", r"\bar{y}[i]")
def _(g, index):
    return getitem(g, index=index)


def _add_at(g, index, shape):
    zeros = torch.zeros(shape, dtype=g.dtype, device=g.device)
    parts = index if isinstance(index, tuple) else (index,)
    tensors = [one for one in parts if isinstance(one, torch.Tensor)]
    # As in torch, numbers and slices come first. They give a view of the zeros. The dimensions in which the tensors
    # pick stay whole.
    room = [_room(one) for one in parts]
    view = zeros[tuple(one for some in room for one in some)]
    if not tensors:
        view.copy_(g)
        return zeros
    places = []
    for one, some in zip(parts, room, strict=True):
        places += _places(one, some, view.ndim - _used(parts))
    while places[-1] is None:  # a second Ellipsis stands for no dimensions
        places.pop()
    masks = all(one.dtype is torch.bool for one in tensors)
    torch.ops.aten.index_put_(view, places, g, not masks)  # masks pick nothing twice: faster without adding up
    return zeros


def _room(one):
    """The parts that stand for ``one`` in the first step, which applies numbers and slices.

    For a tensor they are full slices, one for each dimension in which it picks. Any other part stands for itself.
    """
    if isinstance(one, torch.Tensor):
        if one.ndim == 0 and one.dtype is torch.bool:
            return (None,)  # a single truth value picks in a new dimension of size 1
        return (slice(None),) * (one.ndim if one.dtype is torch.bool else 1)
    return (one,)


def _used(parts):
    """How many dimensions of the view the parts other than Ellipsis make."""
    return sum(0 if part is Ellipsis or isinstance(part, int) else len(_room(part)) for part in parts)


def _places(part, room, rest):
    """For each dimension of the view that ``part`` makes, the tensor that picks in it, or None."""
    if isinstance(part, torch.Tensor):
        if part.ndim == 0 and part.dtype is torch.bool:
            return [part.reshape(1).nonzero().flatten()]
        return [part] if part.dtype is not torch.bool else list(part.nonzero(as_tuple=True))
    if part is Ellipsis:
        return [None] * rest
    return [None] * (0 if isinstance(part, int) else len(room))


def _getitem(self, index):
    """``x[index]`` for every index that Python, numpy and torch accept."""
    return getitem.run((self,), {"index": indexed(getitem, (self,), index)})


def indexed(row, args, index):
    """The index in the form that rows keep. It is for the first of ``args``; an error names the row and its inputs."""
    try:
        return canonical(index)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise explained(row, error, args, [raw_of(one) for one in args]) from None


install("__getitem__", _getitem)


def _gathers(make: Make):
    yield Sample.of(make(), make.integers(1), dim=0)
    yield Sample.of(make(5), make.integers(5, 3), dim=0)
    yield Sample.of(make(3, 4), make.integers(4, 3, 2), dim=1)
    yield Sample.of(make(3, 4), make.integers(3, 2, 4), dim=0)
    yield Sample.of(make(2, 3, 4), make.integers(4, 2, 3, 1), dim=-1)
    yield Sample.of(make(2, 2, 1, 3), make.integers(2, 2, 2, 1, 3), dim=1)
    yield Sample.of(make(1, 2, 2, 1, 2), make.integers(2, 1, 2, 2, 1, 5), dim=4)
    yield Sample.of(make(3, 4), make.integers(4, 3, 0), dim=1)


@op(
    formula=r"x[\ldots, i, \ldots]",
    name="gather",
    no_gradient=("index",),
    method=False,
    samples=_gathers,
    reference=lambda x, index, dim: torch.gather(x, dim, index),
    traits=Traits(moves=True),
)
def gather_along(x, index, *, dim):
    """Along ``dim``, the elements at the numbers in ``index``.

    Cross entropy gathers the log probability of the right class of each row.

    Shapes: x and index of equal rank, output as index. Raises RuntimeError where an index is out of range.
    """
    return torch.gather(x, dim, index)


@gather_along.rule("x", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, index, x_shape, dim):
    return gather_backward(g, index, dim=dim, shape=x_shape)


def _scatters(make: Make):
    for sample in _gathers(make):
        x, index = sample.args
        yield Sample.of(make(*index.shape), index, dim=sample.settings["dim"], shape=tuple(x.shape))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("index",),
    samples=_scatters,
    reference=lambda g, index, dim, shape: torch.zeros(shape, dtype=g.dtype, device=g.device).scatter_add(
        dim, index, g
    ),
)
def gather_backward(g, index, *, dim, shape):
    """Zeros of ``shape`` with g added along ``dim`` at the numbers in ``index``.

    Shapes: g and index alike, output as ``shape``.
    """
    return torch.zeros(shape, dtype=g.dtype, device=g.device).scatter_add_(dim, index, g)


@gather_backward.rule("g", r"\bar{y}[\ldots, i, \ldots]")
def _(g, index, dim):
    return gather_along(g, index, dim=dim)


def gather(input, dim, index, *, sparse_grad=False):
    """Along ``dim``, the elements at the numbers in ``index``, in torch's order of arguments."""
    if sparse_grad:
        raise NotImplementedError("gather(sparse_grad=True): nbgrad has no sparse tensors")
    return gather_along(input, index, dim=dim)


install("gather", gather)


def take_along_dim(input, indices, dim=None):
    """Along ``dim``, the elements at the numbers in ``indices``, which broadcasts with input in all other dimensions.

    Without ``dim`` both are taken as one line of elements. It picks the elements at the indices that ``argsort`` and
    ``argmax`` return.
    """
    if dim is None:
        return gather_along(input.reshape(-1), indices.reshape(-1), dim=0)
    if len(input.shape) != len(indices.shape):
        raise RuntimeError(
            f"take_along_dim(): input of shape {tuple(input.shape)} and indices of shape {tuple(indices.shape)} "
            "must have as many dimensions"
        )
    shape = list(torch.broadcast_shapes(*(_without(x.shape, dim) for x in (input, indices))))
    place = dim % len(input.shape)
    indices = _counted(indices, input.shape[place])
    stretched = [x.expand((*shape[:place], -1, *shape[place:])) for x in (input, indices)]
    return gather_along(*stretched, dim=dim)


def _counted(indices, size):
    """The indices, all counted from the start: ``gather`` does not know those that count from the end."""
    return where(indices < 0, indices + size, indices)


def _without(shape, dim):
    return tuple(size for d, size in enumerate(shape) if d != dim % len(shape))


install("take_along_dim", take_along_dim)


def index_lines(make: Make):
    """Tensors, a dimension and indices along it."""
    for shape in ((), (5,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (1, 2, 2, 1, 2), (2, 0, 3)):
        for dim in {0, len(shape) - 1} - {-1} or {0}:
            yield make(*shape), make.integers(shape[dim] if shape else 1, 3 if shape else 1), dim
    yield make(3, 4), torch.tensor([], dtype=torch.int64), -1


def _selections(make: Make):
    for x, index, dim in index_lines(make):
        yield Sample.of(x, index, dim=dim)
    yield Sample.of(make(3, 4), torch.tensor([2, 2, 0]), dim=-2)


@op(
    formula=r"x[\ldots, i, \ldots]",
    name="index_select",
    no_gradient=("index",),
    method=False,
    samples=_selections,
    reference=lambda x, index, dim: torch.index_select(x, dim, index),
    traits=Traits(moves=True),
)
def index_select_along(input, index, *, dim):
    """The slices along ``dim`` at the numbers in index.

    An embedding looks up its vectors so. A slice that is picked twice gets both gradients.

    Shapes: index of one dimension, output as input with the length of index along ``dim``. Raises IndexError where an
    index is out of range.
    """
    return torch.index_select(input, dim, index)


@index_select_along.rule("input", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, index, input_shape, dim):
    return index_select_backward(g, index, dim=dim, shape=input_shape)


def _unselections(make: Make):
    for sample in _selections(make):
        x, index = sample.args
        dim = sample.settings["dim"]
        yield Sample.of(make(*torch.index_select(x, dim, index).shape), index, dim=dim, shape=tuple(x.shape))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("index",),
    samples=_unselections,
    reference=lambda g, index, dim, shape: torch.zeros(shape, dtype=g.dtype, device=g.device).index_add(dim, index, g),
)
def index_select_backward(g, index, *, dim, shape):
    """Zeros of ``shape`` with the slices of g added along ``dim`` at the numbers in index.

    Shapes: g as what index picks, output as ``shape``.
    """
    return torch.zeros(shape, dtype=g.dtype, device=g.device).index_add_(dim, index, g)


@index_select_backward.rule("g", r"\bar{y}[\ldots, i, \ldots]")
def _(gradient, index, dim):
    return index_select_along(gradient, index, dim=dim)


def index_select(input, dim, index):
    """The slices along ``dim`` at the numbers in ``index``, in torch's order of arguments."""
    return index_select_along(input, index, dim=dim)


install("index_select", index_select)


def _takings(make: Make):
    for shape in SHAPES:
        size = torch.Size(shape).numel()
        yield Sample.of(make(*shape), make.integers(size or 1, 2, 2 if size else 0))
    yield Sample.of(make(2, 3), torch.tensor(-1))


@op(formula=r"x_{(i)}", kernel=torch.take, no_gradient=("index",), samples=_takings)
def take(input, index):
    """The elements of the flattened input at the positions in index.

    Shapes: output as index. Raises IndexError where an index is out of range.
    """


@take.rule("input", r"\bar{y} \text{ added at } i \text{, } 0 \text{ elsewhere}")
def _(g, index, input_shape):
    return take_backward(g, index, shape=input_shape)


def _untakings(make: Make):
    for sample in _takings(make):
        x, index = sample.args
        yield Sample.of(make(*index.shape), index, shape=tuple(x.shape))
    yield Sample.of(make(2, 1, 3), make.integers(6, 2, 1, 3), shape=(6,))
    yield Sample.of(make(2, 2, 1, 3), make.integers(6, 2, 2, 1, 3), shape=(6,))
    yield Sample.of(make(1, 2, 2, 1, 2), make.integers(6, 1, 2, 2, 1, 2), shape=(6,))
    yield Sample.of(make(3), make.integers(6, 3), shape=(2, 3))


@op(
    formula=r"g \text{ added at } i \text{ in zeros}",
    no_gradient=("index",),
    samples=_untakings,
    reference=lambda g, index, shape: torch.zeros(shape, dtype=g.dtype, device=g.device).put(index, g, accumulate=True),
)
def take_backward(g, index, *, shape):
    """Zeros of ``shape`` with g added at the positions in index, which count through the flattened zeros.

    Shapes: g and index alike, output as ``shape``.
    """
    return torch.zeros(shape, dtype=g.dtype, device=g.device).put_(index, g, accumulate=True)


@take_backward.rule("g", r"\bar{y}_{(i)}")
def _(gradient, index):
    return take(gradient, index)


def masked_select(input, mask):
    """The elements where the mask holds, in one line; input and mask broadcast.

    A loss over the words that were masked out takes these alone.
    """
    mask = part(mask)
    if mask.dtype is not torch.bool:
        raise RuntimeError(f"masked_select(): the mask must have the dtype bool, not {mask.dtype}")
    shape = torch.broadcast_shapes(input.shape, mask.shape)
    whole = input if input.shape == shape else input.expand(tuple(shape))
    return getitem(whole, index=mask.expand(shape))


install("masked_select", masked_select)

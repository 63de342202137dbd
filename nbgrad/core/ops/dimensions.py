"""Dimensions in another order: transposition and its relatives."""

import torch

from nbgrad.core.op import install, install_property, op
from nbgrad.core.ops.shape import turning
from nbgrad.core.plan import conjugate
from nbgrad.core.samples import SHAPES, Make, Sample


def _swaps(make: Make):
    yield Sample.of(make(), dim0=0, dim1=-1)
    yield Sample.of(make(3), dim0=0, dim1=0)
    for shape in (shape for shape in SHAPES if len(shape) > 1):
        yield Sample.of(make(*shape), dim0=0, dim1=1)
        yield Sample.of(make(*shape), dim0=-1, dim1=0)
    yield Sample.of(make(2, 3), dim0=1, dim1=1)


@op(formula=r"x^{\top}", samples=_swaps, view=True)
def transpose(x, *, dim0, dim1):
    """Two dimensions swapped, without copying.

    Attention swaps the heads with the positions, and its keys are transposed for the product with the queries.

    Shapes: output as x with sizes ``dim0`` and ``dim1`` swapped. Raises IndexError where x lacks one of them.
    """
    return torch.transpose(x, dim0, dim1)


@transpose.rule("x", r"\bar{y}^{\top}")
def _(g, dim0, dim1):
    return g.transpose(dim0, dim1)


def _permutations(make: Make):
    yield Sample.of(make(), dims=())
    yield Sample.of(make(3), dims=(0,))
    yield Sample.of(make(2, 3), dims=(1, 0))
    yield Sample.of(make(2, 1, 3), dims=(2, 0, 1))
    yield Sample.of(make(2, 2, 1, 3), dims=(-1, 0, 2, 1))
    yield Sample.of(make(1, 2, 2, 1, 3), dims=(4, 2, 0, 1, 3))
    yield Sample.of(make(2, 0, 3), dims=(1, 2, 0))


@op(formula=r"x \text{ with its dimensions reordered}", variadic="dims", samples=_permutations, view=True)
def permute(x, *, dims):
    """The dimensions in another order, without copying.

    Images change between channels first and channels last with it.

    Shapes: output dimension i is dimension ``dims[i]`` of x. Raises RuntimeError unless ``dims`` names each one once.
    """
    return torch.permute(x, dims)


@permute.rule("x", r"\bar{y} \text{ with the order undone}")
def _(g, dims):
    back = [0] * len(dims)
    for to, source in enumerate(dims):
        back[source % len(dims)] = to
    return g.permute(back)


def t(input):
    """A matrix transposed; a vector or a single number as it is.

    Raises:
        RuntimeError: the tensor has more than two dimensions.
    """
    if len(input.shape) > 2:
        raise RuntimeError(f"t() expects a tensor with at most 2 dimensions, but it has {len(input.shape)}")
    return transpose(input, dim0=0, dim1=-1)


def _t_(self):
    """In place: a matrix transposed, without moving its elements."""
    if len(self.shape) > 2:
        raise RuntimeError(f"t_() expects a tensor with at most 2 dimensions, but it has {len(self.shape)}")
    return transpose_(self, 0, -1)


def movedim(input, source, destination):
    """Some dimensions moved to other positions; the others keep their order."""
    rank = len(input.shape)
    froms, tos = ([_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)] for dim in (source, destination))
    if len(froms) != len(tos):
        raise RuntimeError(f"movedim: {len(froms)} dimensions in source, but {len(tos)} in destination")
    if len(set(froms)) < len(froms) or len(set(tos)) < len(tos):
        raise RuntimeError(f"movedim: repeated dimension in source {source} or destination {destination}")
    if not rank:
        return permute(input, dims=())
    others = iter([d for d in range(rank) if d not in froms])
    placed = dict(zip(tos, froms, strict=True))
    return permute(input, dims=tuple(placed[d] if d in placed else next(others) for d in range(rank)))


def _dim(dim, rank):
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(f"dimension {dim} is out of range for a tensor of {rank} dimensions")
    return dim % max(rank, 1)


def adjoint(input):
    """The last two dimensions swapped, and complex numbers conjugated."""
    _check_matrix(input, "adjoint()")
    return _adjoint(input)


def _adjoint(x):
    return conjugate(_turned(x))


def _turned(x):
    """The last two dimensions swapped; a number as it is, as torch has it."""
    return transpose(x, dim0=-2, dim1=-1) if len(x.shape) else permute(x, dims=())


def _T(x):
    """All dimensions in reverse order: a matrix transposed."""
    return permute(x, dims=tuple(reversed(range(len(x.shape)))))


def mT(x):
    """The last two dimensions swapped: a batch of matrices transposed."""
    _check_matrix(x, "tensor.mT")
    return _turned(x)


def mH(x):
    """The last two dimensions swapped, and complex numbers conjugated."""
    _check_matrix(x, "tensor.mH")
    return _adjoint(x)


def _H(x):
    """A matrix transposed, and complex numbers conjugated."""
    if len(x.shape) not in (0, 2):
        raise RuntimeError(f"tensor.H is only for matrices, but the tensor has {len(x.shape)} dimensions")
    return _adjoint(x) if len(x.shape) == 2 else conjugate(x)


def _check_matrix(x, what):
    if len(x.shape) == 1:
        raise RuntimeError(f"{what} is only for matrices or batches of them, but the tensor has 1 dimension")


transpose_ = turning(transpose)
swapaxes = swapdims = transpose
moveaxis = movedim
for _name, _method in {
    "adjoint": adjoint,
    "moveaxis": movedim,
    "movedim": movedim,
    "swapaxes": transpose,
    "swapaxes_": transpose_,
    "swapdims": transpose,
    "swapdims_": transpose_,
    "t": t,
    "t_": _t_,
}.items():
    install(_name, _method)
for _name, _part in {"H": _H, "T": _T, "mH": mH, "mT": mT}.items():
    install_property(_name, _part)

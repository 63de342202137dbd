"""Diagonals and triangles of matrices."""

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.ops.shape.joining import cat


def _matrices(make: Make):
    yield from (Sample.of(make(*shape)) for shape in SHAPES if len(shape) > 1)
    for offset in (1, -1, 5):
        yield Sample.of(make(3, 4), offset=offset)
    yield Sample.of(make(2, 3, 4), offset=1, dim1=-1, dim2=0)


@op(formula=r"x_{ii}", kernel=torch.diagonal, samples=_matrices, ranks=range(2, 6), view=True)
def diagonal(input, *, offset=0, dim1=0, dim2=1):
    """The diagonal of the matrices that two dimensions make, in the same memory; ``offset`` counts upwards from it.

    Shapes: output without ``dim1`` and ``dim2``, the diagonal as the last dimension. Raises IndexError where input
    lacks them.
    """


@diagonal.rule("input", r"\bar{y} \text{ on the diagonal, } 0 \text{ elsewhere}")
def _(g, input_shape, offset, dim1, dim2):
    return diagonal_backward(g, input_sizes=tuple(input_shape), offset=offset, dim1=dim1, dim2=dim2)


def _diagonals(make: Make):
    yield Sample.of(make(2), input_sizes=(2, 3), offset=0, dim1=0, dim2=1)
    yield Sample.of(make(2), input_sizes=(2, 3), offset=1, dim1=0, dim2=1)
    for shape in ((3, 2), (4, 2, 2), (4, 3, 1, 2), (1, 2, 1, 3, 2), (0, 2)):
        yield Sample.of(make(*shape), input_sizes=(*shape[:-1], 2, 5), offset=0, dim1=-2, dim2=-1)


@op(formula=r"g \text{ on the diagonal, } 0 \text{ elsewhere}", samples=_diagonals, ranks=range(1, 6))
def diagonal_backward(g, *, input_sizes, offset, dim1, dim2):
    """The gradient of ``diagonal``: zeros with the gradient on the diagonal.

    Shapes: g as the diagonal, output as ``input_sizes``.
    """
    return aten.diagonal_backward(g, input_sizes, offset, dim1, dim2)


@diagonal_backward.rule("g", r"\text{the diagonal of } \bar{y}")
def _(g, offset, dim1, dim2):
    return g.diagonal(offset, dim1, dim2)


def _vectors(make: Make):
    yield from (Sample.of(make(*shape)) for shape in SHAPES if shape)
    for offset in (2, -1):
        yield Sample.of(make(3), offset=offset)
    yield Sample.of(make(2, 3), offset=1, dim1=0, dim2=2)
    yield Sample.of(make(2, 3), dim1=-1, dim2=-3)


@op(formula=r"\operatorname{diag}(x)", kernel=torch.diag_embed, samples=_vectors, ranks=range(1, 6))
def diag_embed(input, *, offset=0, dim1=-2, dim2=-1):
    """The last dimension as the diagonal of matrices of zeros.

    A covariance matrix without correlations has this form.

    Shapes: (..., n) gives (..., n, n), the two at ``dim1`` and ``dim2``, larger by the size of ``offset``.
    """


@diag_embed.rule("input", r"\text{the diagonal of } \bar{y}")
def _(g, offset, dim1, dim2):
    return g.diagonal(offset, dim1, dim2)


def diag(input, diagonal=0):
    """A matrix with the vector as its diagonal; of a matrix its diagonal.

    Raises:
        RuntimeError: the tensor is neither.
    """
    rank = len(input.shape)
    if rank not in (1, 2):
        raise RuntimeError(f"diag() takes a vector or a matrix, not a tensor of {rank} dimensions")
    if rank == 1:
        return diag_embed(input, offset=diagonal)
    return globals()["diagonal"](input, offset=diagonal).clone()


def _fill_diagonal_(self, fill_value, wrap=False):
    """Every element of the diagonal becomes ``fill_value``, a number, in place; the tensor itself is returned.

    With ``wrap`` the diagonal of a matrix with more rows than columns begins anew below, after an empty row.

    Raises:
        RuntimeError: fewer than two dimensions, or more than two that differ in size.
    """
    shape = tuple(self.shape)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(
            f"fill_diagonal_() on a tensor of shape {shape}: it takes a matrix, or more dimensions of one size. Take "
            "x.diagonal(dim1=-2, dim2=-1).fill_(v) for a batch of matrices"
        )
    step = shape[1] + 1 if wrap and len(shape) == 2 else max(shape[0], 1)
    for start in range(0, shape[0], step):
        line = self[start : start + step]
        while len(line.shape) > 1:
            line = diagonal(line)
        line.fill_(fill_value)
    return self


install("fill_diagonal_", _fill_diagonal_)


def diagflat(input, offset=0):
    """A matrix with all elements of the tensor, in their order, as its diagonal."""
    return diag_embed(input.reshape(-1), offset=offset)


def _triangles(make: Make):
    yield from (Sample.of(make(*shape)) for shape in SHAPES if len(shape) > 1)
    for diagonal in (1, -1, 5):
        yield Sample.of(make(3, 4), diagonal=diagonal)


@op(
    formula=r"x_{ij} \text{ where } j \leq i + k",
    symbols={"diagonal": "k"},
    kernel=torch.tril,
    samples=_triangles,
    ranks=range(2, 6),
    inplace=True,
)
def tril(input, *, diagonal=0):
    """The lower triangle of matrices: 0 above the diagonal, which ``diagonal`` moves up.

    The mask that keeps attention from looking ahead has this form.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """


@tril.rule("input", r"\bar{y}_{ij} \text{ where } j \leq i + k")
def _(g, diagonal):
    return g.tril(diagonal)


@op(
    formula=r"x_{ij} \text{ where } j \geq i + k",
    symbols={"diagonal": "k"},
    kernel=torch.triu,
    samples=_triangles,
    ranks=range(2, 6),
    inplace=True,
)
def triu(input, *, diagonal=0):
    """The upper triangle of matrices: 0 below the diagonal, which ``diagonal`` moves up.

    Shapes: output as input. Raises RuntimeError where input has fewer than two dimensions.
    """


@triu.rule("input", r"\bar{y}_{ij} \text{ where } j \geq i + k")
def _(g, diagonal):
    return g.triu(diagonal)


def _plain_matrices(make: Make):
    yield from (Sample.of(make(*shape)) for shape in ((2, 2), (2, 3), (4, 2), (0, 3), (1, 1)))


@op(formula=r"\sum_i x_{ii}", kernel=torch.trace, samples=_plain_matrices, ranks=(2,))
def trace(input):
    """The sum of the diagonal of a matrix.

    Shapes: (n, m) gives a single number. Raises RuntimeError for another number of dimensions.
    """


@trace.rule("input", r"\bar{y}\, I")
def _(g, input_shape):
    return g * torch.eye(*input_shape, dtype=g.dtype, device=g.device)


def vander(x, N=None, increasing=False):
    """The powers of the elements of a vector from N - 1 down to 0 as the columns of a matrix; up from 0 on request.

    Fitting a polynomial is solving a linear system with it.
    """
    count = x.shape[0] if N is None else N
    powers = _powers(x, count)
    return powers if increasing else powers.flip(-1)


def linalg_vander(x, *, N=None):
    """The powers of the elements from 0 to N - 1 as the rows of matrices."""
    x = x if x.shape else x.reshape(1)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("linalg_vander: N must be greater than 1")
    return _powers(x, count)


def _powers(x, count):
    ones = torch.ones((*x.shape, 1), dtype=x.dtype, device=x.device)
    if count <= 1:
        return ones[..., :count]
    powers = x.unsqueeze(-1).expand((*x.shape, count - 1)).cumprod(-1)
    return cat([ones, powers], dim=-1)


def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices."""
    return diagonal(A, offset=offset, dim1=dim1, dim2=dim2)


for _function in (diag, diagflat):
    install(_function.__name__, _function)

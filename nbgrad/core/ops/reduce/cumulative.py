"""Running sums, products and extremes along a dimension, differences of neighbours, and integrals."""

import torch

from nbgrad.core.dispatch.op import install, op
from nbgrad.core.dispatch.samples import Make, Sample, along_a_dim
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.getitem import gather_backward, getitem
from nbgrad.core.ops.shape.joining import cat


def reversed_cumsum(x, dim):
    """The running sum along ``dim`` from the end."""
    return x.flip(dim).cumsum(dim).flip(dim)


def _sums(make: Make):
    yield from along_a_dim(make)
    yield Sample.of(make.integers(4, 2, 3), dim=1)
    yield Sample.of(make(2, 3), dim=1, dtype=torch.float64)


@op(formula=r"\sum_{j \leq i} x_j", inplace=True, samples=_sums)
def cumsum(input, *, dim, dtype=None):
    """The running sum along ``dim``.

    It turns step lengths into positions, and probabilities into a distribution function. Its gradient is a running
    sum from the end.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.cumsum(input, dim, dtype=dtype)


@cumsum.rule("input", r"\sum_{j \geq i} \bar{y}_j")
def _(g, input_shape, dim):
    return reversed_cumsum(g, dim) if input_shape else g


@op(formula=r"\ln \sum_{j \leq i} e^{x_j}", samples=along_a_dim)
def logcumsumexp(input, *, dim):
    """Logarithm of the running sum of exponentials along ``dim``, without overflow.

    It sums probabilities that are given as logarithms, as in alignments of speech and text.

    Shapes: output as input. Raises IndexError where input has no dimension ``dim``.
    """
    return torch.logcumsumexp(input, dim)


@logcumsumexp.rule("input", r"e^{x_i} \sum_{j \geq i} \bar{y}_j e^{-y_j}")
def _(g, input, out, dim):
    if not input.shape:
        return g

    def added_up(log):
        return ((log - out).flip(dim).logcumsumexp(dim).flip(dim) + input).exp()

    # By logarithms, as the exponentials overflow. Real gradients are split by sign: a negative one has no logarithm.
    if g.is_complex():
        return added_up(g.log())
    size, lowest = g.abs().log(), torch.finfo(g.dtype).min
    return added_up(where(g > 0, size, lowest)) - added_up(where(g < 0, size, lowest))


def _running_extremes(make: Make):
    yield from along_a_dim(make)
    yield Sample.of(torch.tensor([1.0, 3.0, 3.0, 2.0, 4.0, 4.0], dtype=torch.float64), dim=0)
    yield Sample.of(torch.tensor([[1.0, float("nan"), 2.0]], dtype=torch.float64), dim=1)


def _running_extreme(name, formula, which):
    kernel = getattr(torch, name)

    def run(input, *, dim):
        return tuple(kernel(input, dim))

    run.__name__ = name
    run.__doc__ = f"""The {which} element so far along ``dim``, and its index, as ``(values, indices)``.

    Ties choose the latest one, as torch has it; the gradient goes to the elements chosen.

    Shapes: both outputs as input. Raises IndexError where input has no dimension ``dim``.
    """
    row = op(formula=formula, outputs=("values", "indices"), samples=_running_extremes)(run)

    @row.rule("input", r"\bar{y} \text{ added at the indices, } 0 \text{ elsewhere}")
    def _(g, indices, input_shape, dim):
        return gather_backward(g, indices, dim=dim, shape=input_shape)

    return row


cummax = _running_extreme("cummax", r"\max_{j \leq i} x_j", "largest")
cummin = _running_extreme("cummin", r"\min_{j \leq i} x_j", "smallest")


# Between neighbours: composed of other rows, as torch's own are.


def _part(x, dim, start, stop):
    """The elements from ``start`` to ``stop`` along ``dim``."""
    return getitem(x, index=(slice(None),) * (dim % len(x.shape)) + (slice(start, stop),))


def diff(input, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbours along ``dim``, taken n times; first, ``prepend`` and ``append`` are joined to input.

    Smoothness penalties are sums of squared differences.

    Raises RuntimeError where input is a single number, or n negative.
    """
    if not input.shape:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff's n must be at least 0, not {n}")
    if n == 0:
        return input.clone()  # without prepend and append, as torch does
    if prepend is not None or append is not None:
        input = cat([part for part in (prepend, input, append) if part is not None], dim=dim)
    for _ in range(min(n, input.shape[dim])):
        if input.dtype == torch.bool:
            input = _part(input, dim, 1, None) ^ _part(input, dim, None, -1)
        else:
            input = _part(input, dim, 1, None) - _part(input, dim, None, -1)
    return input


install("diff", diff)


def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """The slope along each of ``dim``, by differences of the neighbours on both sides, or on one side at the ends.

    Physics-informed losses compare the slopes of a field with the prediction of a model.

    Args:
        input: a function on a grid.
        spacing: the distance of its places: one number for all dimensions, one for each, or the coordinates of each;
            default: 1.
        dim: a dimension, several, or None for all.
        edge_order: 1 or 2: the order of the differences at the ends.

    Returns the list of slopes, each of the shape of input. Raises RuntimeError where a dimension has fewer than
    ``edge_order`` + 1 places, or ``spacing`` does not have one entry for each dimension.
    """
    rank = len(input.shape)
    dims = tuple(range(rank)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    spacing = 1 if spacing is None else spacing
    spacings = [spacing] * len(dims) if isinstance(spacing, int | float | complex) else list(spacing)
    if len(spacings) != len(dims):
        raise RuntimeError(f"gradient() takes one spacing for each of {len(dims)} dimensions, not {len(spacings)}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient() knows edge_order 1 and 2, not {edge_order}")
    return [_slope(input, d, apart, edge_order) for d, apart in zip(dims, spacings, strict=True)]


def _slope(y, dim, spacing, order):
    """The slope along one dimension. The distances around each place determine the weights there."""
    size, rank = y.shape[dim], len(y.shape)
    if size <= order:
        raise RuntimeError(f"gradient() with edge_order={order} needs {order + 1} places, dimension {dim} has {size}")

    def part(begin, end):
        return _part(y, dim, begin, end)

    def shaped(steps):
        return steps.reshape([-1 if d == dim % rank else 1 for d in range(rank)])

    if isinstance(spacing, int | float | complex):
        inside = (part(2, None) - part(None, -2)) / (2 * spacing)
        first, last = spacing, spacing
        near, far = spacing, spacing
    else:
        steps = spacing[1:] - spacing[:-1]
        left, right = shaped(steps[:-1]), shaped(steps[1:])
        inside = -right / (left * (left + right)) * part(None, -2) + (right - left) / (left * right) * part(1, -1)
        inside = inside + left / (right * (left + right)) * part(2, None)
        (first, near), (last, far) = (steps[0], steps[1]), (steps[-1], steps[-2])
    if order == 1:
        begin, end = (part(1, 2) - part(0, 1)) / first, (part(-1, None) - part(-2, -1)) / last
    else:
        begin = _edge(part(0, 1), part(1, 2), part(2, 3), first, near)
        end = -_edge(part(-1, None), part(-2, -1), part(-3, -2), last, far)
    return cat([begin, inside, end], dim=dim)


def _edge(y0, y1, y2, first, second):
    """The slope at y0 of the parabola through three places, these distances apart."""
    both = first + second
    return -(first + both) / (first * both) * y0 + both / (first * second) * y1 - first / (second * both) * y2


def _steps(y, x, dx, dim):
    """Twice the area under each step: the sum of its ends times its width."""
    heights = _part(y, dim, 1, None) + _part(y, dim, None, -1)
    if x is None:
        return heights if dx == 1 else heights * dx
    rank = len(y.shape)
    if len(x.shape) == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"there are {x.shape[0]} places x for {y.shape[dim]} values y along dim {dim}")
        x = x.reshape((-1, *(1,) * (rank - 1 - dim % rank)))
    x = x.reshape((1,) * (rank - len(x.shape)) + tuple(x.shape))
    widths = _part(x, dim % rank, 1, None) - _part(x, dim % rank, None, -1)
    return heights * widths


def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The area under y along ``dim`` by the trapezoidal rule, at the places x or ``dx`` apart.

    Losses over time or space in physics are integrals.

    Raises RuntimeError where both x and ``dx`` are given.
    """
    _not_both(x, dx)
    if y.shape[dim] == 0:
        return y.sum(dim)
    return _steps(y, x, 1 if dx is None else dx, dim).sum(dim) / 2


trapz = trapezoid


def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The area under y along ``dim`` up to each place but the first, by the trapezoidal rule.

    Raises RuntimeError where both x and ``dx`` are given.
    """
    _not_both(x, dx)
    return _steps(y, x, 1 if dx is None else dx, dim).cumsum(dim) / 2


def _not_both(x, dx):
    if x is not None and dx is not None:
        raise RuntimeError("give either the places x or their distance dx, not both")

"""Convolutions of one to three dimensions, transposed ones too, and ops that turn images into patches and back."""

from functools import lru_cache
from itertools import product
from math import prod

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.broadcast import all_but
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops._joint_rules import asked, per_dim, spread, total

_functional = torch.nn.functional

_DOC = """{what}

    {why}

    Shapes: input (N, C_in, {sizes}) or without N, weight {weight}, bias (C_out,); output
    (N, C_out, {sizes}) with other sizes. Raises RuntimeError where they do not fit."""

_WHY = {
    1: "Every position is seen by the same weights, so a feature is found wherever it stands, in sound as in text.",
    2: "Every place of an image is seen by the same weights, so a feature is found anywhere (LeCun et al. 1989).",
    3: "Videos and volumes, as of computed tomography, are seen by the same weights at every place.",
}


def _sizes(rank):
    return ", ".join("DHW"[3 - rank :]) if rank > 1 else "L"


def _convolutions(rank):
    """Batched and not, every setting, groups, an empty batch."""

    def samples(make: Make):
        shape = (4, 5, 3)[:rank]
        kernel = (2, 3, 1)[:rank]
        x, w, b = make(2, 4, *shape), make(2, 4, *kernel), make(2)
        yield Sample.of(x, w, b)
        yield Sample.of(make(4, *shape), w)
        yield Sample.of(make(4, *shape), w, b, padding=1)
        yield Sample.of(x, w, b, stride=2, padding=1, dilation=2)
        yield Sample.of(x, w, stride=(2, 1, 1)[:rank], padding=(1, 2, 0)[:rank], dilation=(1, 2, 1)[:rank])
        yield Sample.of(x, w, b, padding="same", dilation=2)  # an odd dilation of an even kernel makes torch warn
        yield Sample.of(make(4, *shape), w, padding="same", dilation=(2, 1, 2)[:rank])
        yield Sample.of(x, w, padding="valid")
        yield Sample.of(x, make(4, 2, *kernel), make(4), groups=2)
        yield Sample.of(x, make(8, 1, *kernel), groups=4, padding=1)
        yield Sample.of(make(0, 4, *shape), w, b)
        yield Sample.of(*(make.complex(*t.shape) for t in (x, w, b)), padding="same", dilation=2)

    return samples


def _transposed_convolutions(rank):
    def samples(make: Make):
        shape = (3, 2, 2)[:rank]
        kernel = (2, 3, 1)[:rank]
        x, w, b = make(2, 4, *shape), make(4, 2, *kernel), make(2)
        yield Sample.of(x, w, b)
        yield Sample.of(make(4, *shape), w)
        yield Sample.of(x, w, b, stride=2, padding=1, output_padding=1, dilation=2)
        yield Sample.of(x, w, stride=(2, 1, 2)[:rank], padding=(1, 1, 0)[:rank], output_padding=(1, 0, 1)[:rank])
        yield Sample.of(x, w, make(4), groups=2)
        yield Sample.of(make(4, *shape), w, make(4), groups=2, stride=2)
        yield Sample.of(make(0, 4, *shape), w, b)
        yield Sample.of(*(make.complex(*t.shape) for t in (x, w, b)), stride=2)

    return samples


def _over_places(rank):
    """The gradient of a bias is summed over samples and places; an input may be one sample alone."""
    return {"bias": lambda output, bias: all_but(output, bias, len(output) - rank - 1)}


def _convolution(rank):
    """The row of the convolution of ``rank`` dimensions."""
    kernel = getattr(_functional, f"conv{rank}d")

    def convolve(input, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
        return kernel(input, weight, bias, stride, padding, dilation, groups)

    convolve.__name__ = f"conv{rank}d"
    convolve.__doc__ = _DOC.format(
        what=f"A kernel slides over {rank} dimension{'s'[: rank - 1]} of the input and weighs what it sees.",
        why=_WHY[rank],
        sizes=_sizes(rank),
        weight=f"(C_out, C_in / groups, {_sizes(rank).lower()})",
    )
    row = op(
        formula=r"x \star W + b",
        sums=_over_places(rank),
        samples=_convolutions(rank),
        ranks=(rank + 1, rank + 2),
        reference=kernel,
        traits=Traits(multiplies=True, units=1),
    )(convolve)

    @row.joint_rule(input=r"\bar{y} * W", weight=r"x \star \bar{y}", bias=r"\sum \bar{y}")
    def _(g, needed, input, weight, stride, padding, dilation, groups):
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return spread(convolution_backward(g, input, weight, mask=needed, **geometry), needed)

    return row


def _transposed(rank):
    """The row of the transposed convolution of ``rank`` dimensions."""
    kernel = getattr(_functional, f"conv_transpose{rank}d")

    def spread_out(input, weight, bias=None, *, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return kernel(input, weight, bias, stride, padding, output_padding, groups, dilation)

    spread_out.__name__ = f"conv_transpose{rank}d"
    spread_out.__doc__ = _DOC.format(
        what=f"The transposed convolution: it maps the gradient of conv{rank}d's output to that of its input.",
        why="Generators and decoders make large maps of small ones: each number lays down a copy of the kernel.",
        sizes=_sizes(rank),
        weight=f"(C_in, C_out / groups, {_sizes(rank).lower()})",
    )
    samples = _transposed_convolutions(rank)
    row = op(
        formula=r"x * W + b",
        sums=_over_places(rank),
        samples=samples,
        ranks=(rank + 1, rank + 2),
        reference=kernel,
        traits=Traits(multiplies=True, units=1),
    )(spread_out)

    @row.joint_rule(input=r"\bar{y} \star W", weight=r"\bar{y} \star x", bias=r"\sum \bar{y}")
    def _(g, needed, input, weight, stride, padding, output_padding, groups, dilation):
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        geometry |= {"transposed": True, "output_padding": output_padding}
        return spread(convolution_backward(g, input, weight, mask=needed, **geometry), needed)

    return row


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed, (1, 2, 3))

_ROWS = {
    (False, 1): conv1d,
    (False, 2): conv2d,
    (False, 3): conv3d,
    (True, 1): conv_transpose1d,
    (True, 2): conv_transpose2d,
    (True, 3): conv_transpose3d,
}


def _gradients(make: Make):
    """Some calls that the rules make. Each mask asks for the gradients of input and weight, so that both are used."""
    for (transposed, _), row in _ROWS.items():
        for sample in list(row.samples(make))[1:5]:
            x, w = sample.args[:2]
            if "output_padding" in sample.settings:  # whose gradients torch cannot differentiate twice
                continue
            y = row(x, w, **sample.settings)
            yield Sample.of(make(*y.shape), x, w, mask=(True,) * 3, transposed=transposed, **sample.settings)
    yield Sample.of(make(2, 2, 3), make(2, 4, 4), make(2, 2, 2), mask=(True, True, False), groups=2)
    yield Sample.of(make(0, 2, 3), make(0, 3, 4), make(2, 3, 2), mask=(True,) * 3)


def _by_torch(g, input, weight, **settings):
    touched = 0 * (g.sum() + input.sum() + weight.sum())  # torch's gradients of an empty batch have no history
    return tuple(result + touched for result in convolution_backward.forward(g, input, weight, **settings))


@op(
    formula=r"\bar{x}, \bar{W}, \bar{b} \text{ of } g",
    many=True,
    samples=_gradients,
    ranks=range(2, 6),
    reference=_by_torch,
    unvaried={
        "output_padding": "torch cannot differentiate its kernel with output padding; conv_transpose1d to 3d vary it",
    },
)
def convolution_backward(
    g, input, weight, *, mask, stride=1, padding=0, dilation=1, groups=1, transposed=False, output_padding=0
):
    """The gradients of a convolution with respect to input, weight and bias, those that ``mask`` asks for.

    One call gives all of them: it is faster than one call for each, and the gradient of the bias needs no further pass.

    Shapes: g as the output of the convolution; the outputs as input, as weight, and (C_out,).
    """
    return _kernel(g, input, weight, mask, stride, padding, dilation, groups, transposed, output_padding)


@convolution_backward.joint_rule(
    g=r"\bar{\bar{x}} \star W + x \star \bar{\bar{W}} + \bar{\bar{b}}",
    input=r"g * \bar{\bar{W}}",
    weight=r"\bar{\bar{x}} \star g",
)
def _(
    gradients,
    needed,
    g,
    input,
    weight,
    mask,
    stride,
    padding,
    dilation,
    groups,
    transposed,
    output_padding,
):
    of_input, of_weight, of_bias = spread(gradients, mask)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    again = {**geometry, "output_padding": output_padding} if transposed else geometry
    backward = {**geometry, "transposed": transposed, "output_padding": output_padding}
    convolve = _ROWS[transposed, len(weight.shape) - 2]
    to_g = to_input = to_weight = None
    if needed[0]:
        to_g = total(
            None if of_input is None else convolve(of_input, weight, **again),
            None if of_weight is None else convolve(input, of_weight, **again),
            None if of_bias is None else of_bias.reshape((-1,) + (1,) * (len(weight.shape) - 2)).expand(g.shape),
        )
    # The gradients are linear in weight and input, so the given gradients take the places of these two.
    if needed[1] and of_weight is not None:
        (to_input,) = convolution_backward(g, input, of_weight, mask=(True, False, False), **backward)
    if needed[2] and of_input is not None:
        (to_weight,) = convolution_backward(g, of_input, weight, mask=(False, True, False), **backward)
    return to_g, to_input, to_weight


def _kernel(g, input, weight, mask, *settings):
    """The gradients for any input and padding. Torch's kernel takes only batches, and padding only as numbers."""
    if g.dtype.is_complex:
        return _complex(g, input, weight, mask, settings)
    shape = weight.shape
    batched = input.ndim == len(shape)
    if not batched:
        g, input = g.unsqueeze(0), input.unsqueeze(0)
    geometry, beyond = _geometry(shape[2:], *settings)
    if beyond:
        input = _functional.pad(input, [size for more in reversed(beyond) for size in (0, more)])
    results = aten.convolution_backward(g, input, weight, [g.shape[1]], *geometry, mask)
    if mask[0] and (beyond or not batched):
        of_input = results[0]
        for dim, more in enumerate(beyond, 2):
            of_input = of_input.narrow(dim, 0, of_input.shape[dim] - more) if more else of_input
        results = (of_input if batched else of_input.squeeze(0), *results[1:])
    return results if False not in mask else asked(results, mask)


@lru_cache(1024)  # a network has a few layers, and asks at every step
def _geometry(kernel, stride, padding, dilation, groups, transposed, output_padding):
    """The settings for torch's kernel; and for "same" with an even kernel, how much more padding the end gets."""
    rank = len(kernel)
    beyond: tuple[int, ...] = ()
    if isinstance(padding, str):
        padding, beyond = _padding(padding, per_dim(dilation, rank), kernel)
    sizes = [per_dim(value, rank) for value in (stride, padding, dilation, output_padding)]
    return (*sizes[:3], transposed, sizes[3], groups), beyond if any(beyond) else ()


def _padding(padding, dilation, kernel):
    """The padding before each dimension as numbers, and how much larger the padding after it is."""
    whole = [spacing * (size - 1) for spacing, size in zip(dilation, kernel, strict=True)]
    return (0, []) if padding == "valid" else ([size // 2 for size in whole], [size % 2 for size in whole])


def _complex(g, input, weight, mask, geometry):
    """The same for complex numbers, which no kernel takes: made of products of real and imaginary parts."""
    real, imaginary = g.real, g.imag
    found = []
    for place, factor in enumerate((weight, input, None)):
        if not mask[place]:
            continue
        only = tuple(at == place for at in range(3))
        if factor is None:
            parts = [_kernel(part, input.real, weight.real, only, *geometry)[0] for part in (real, imaginary)]
            found.append(torch.complex(*parts))
            continue
        rr, ri, ir, ii = (
            _kernel(a, *((input.real, b) if place == 0 else (b, weight.real)), only, *geometry)[0]
            for a in (real, imaginary)
            for b in (factor.real, factor.imag)
        )
        found.append(torch.complex(rr - ii, ri + ir))
    return tuple(found)


def _settings(rank):
    yield {"kernel_size": (2, 1, 2)[:rank]}
    yield {"kernel_size": (2, 2, 1)[:rank], "dilation": (1, 2, 1)[:rank], "padding": 1, "stride": (2, 1, 1)[:rank]}


def _images(make: Make):
    for rank in (1, 2, 3):
        for settings in _settings(rank):
            yield Sample.of(make(2, 2, *(4, 3, 2)[:rank]), **settings)
            yield Sample.of(make(2, *(4, 3, 2)[:rank]), **settings)
    yield Sample.of(make(0, 2, 4), kernel_size=(2,))
    yield Sample.of(make(2, 4, 3), kernel_size=2, padding=1)


def _unfold_geometry(input_rank, kernel_size, dilation, padding, stride):
    """The settings with a number for each dimension. A single kernel size means an image, as in torch's unfold."""
    rank = len(kernel_size) if isinstance(kernel_size, tuple) else 2
    if input_rank not in (rank + 1, rank + 2):
        raise RuntimeError(f"expected {rank} dimensions after (N, C) or (C,), for a kernel of {rank} dimensions")
    return rank, *(per_dim(value, rank) for value in (kernel_size, dilation, padding, stride))


def _places(sizes, kernel, dilation, padding, stride):
    """How many windows fit along each dimension."""
    return [
        (size + 2 * around - spacing * (width - 1) - 1) // step + 1
        for size, width, spacing, around, step in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]


def _windows(padded, kernel, dilation, places, stride):
    """For each place of the kernel the part of the padded image that it sees."""
    for offsets in product(*map(range, kernel)):
        begins = [offset * spacing for offset, spacing in zip(offsets, dilation, strict=True)]
        spans = zip(begins, places, stride, strict=True)
        yield padded[(..., *(slice(begin, begin + (count - 1) * step + 1, step) for begin, count, step in spans))]


def _columns(input, *, kernel_size, dilation=1, padding=0, stride=1):
    """The result of img_to_col by slices, in any number of dimensions."""
    rank, kernel, dilation, padding, stride = _unfold_geometry(input.ndim, kernel_size, dilation, padding, stride)
    places = _places(input.shape[-rank:], kernel, dilation, padding, stride)
    if min(places) < 1:
        raise RuntimeError(f"expected an image that holds a window of {tuple(kernel)}, it has {places} places for it")
    padded = _functional.pad(input, [around for around in reversed(padding) for _ in range(2)])
    seen = torch.stack(list(_windows(padded, kernel, dilation, places, stride)), dim=-rank - 1)
    return seen.reshape(*input.shape[: -rank - 1], input.shape[-rank - 1] * prod(kernel), prod(places))


@op(formula=r"\text{a column for each window of } x", samples=_images, ranks=range(2, 6), reference=_columns)
def img_to_col(input, *, kernel_size, dilation=1, padding=0, stride=1):
    """The windows that a kernel sees, each as a column: with the kernel as a row, a convolution is their product.

    Libraries used to compute convolutions so. A number in several windows gets the gradients of all of them. One
    number for ``kernel_size`` means a square, as in torch's unfold; a tuple has one for each dimension, up to three.

    Shapes: input (N, C, ...) or (C, ...), output (N, C * kernel, windows) or without N. Raises RuntimeError where no
    window fits.
    """
    rank, *geometry = _unfold_geometry(input.ndim, kernel_size, dilation, padding, stride)
    if rank == 2 and input.numel():
        return _functional.unfold(input, *geometry)
    return _columns(input, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


@img_to_col.rule("input", r"\text{columns of } \bar{y} \text{ added up in their windows}")
def _(g, input_shape, kernel_size, dilation, padding, stride):
    rank = len(kernel_size) if isinstance(kernel_size, tuple) else 2
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return col_to_img(g, output_size=tuple(input_shape[-rank:]), **settings)


def _column_samples(make: Make):
    for sample in _images(make):
        x = sample.args[0]
        columns = img_to_col(x, **sample.settings)
        kernel = sample.settings["kernel_size"]
        size = tuple(x.shape[-(len(kernel) if isinstance(kernel, tuple) else 2) :])
        yield Sample.of(make(*columns.shape), output_size=size, **sample.settings)


def _images_of(input, *, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The result of col_to_img by adding slices, in any number of dimensions."""
    rank = len(output_size)
    kernel, dilation, padding, stride = (per_dim(value, rank) for value in (kernel_size, dilation, padding, stride))
    places = _places(output_size, kernel, dilation, padding, stride)
    channels = input.shape[-2] // prod(kernel)
    if input.shape[-2] % prod(kernel) or input.shape[-1] != prod(places):
        raise RuntimeError(f"expected columns of C * {prod(kernel)} numbers for {prod(places)} windows")
    columns = input.reshape(*input.shape[:-2], channels, prod(kernel), *places)
    wide = [size + 2 * around for size, around in zip(output_size, padding, strict=True)]
    image = input.new_zeros((*input.shape[:-2], channels, *wide))
    for window, column in zip(
        _windows(image, kernel, dilation, places, stride), columns.unbind(-rank - 1), strict=True
    ):
        window += column
    return image[(..., *(slice(around, around + size) for around, size in zip(padding, output_size, strict=True)))]


@op(
    formula=r"\text{columns of } x \text{ added up in their windows}",
    samples=_column_samples,
    ranks=(2, 3),
    reference=_images_of,
)
def col_to_img(input, *, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The image in which each number is the sum of its copies in the columns: the gradient of img_to_col.

    Patches that a network made become an image with it; where windows overlap they add up.

    Shapes: input (N, C * kernel, windows) or without N, output (N, C, *output_size). Raises RuntimeError where the
    columns do not fit.
    """
    if len(output_size) == 2 and input.numel():
        geometry = (per_dim(value, 2) for value in (kernel_size, dilation, padding, stride))
        return _functional.fold(input, output_size, *geometry)
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return _images_of(input, output_size=output_size, **settings).contiguous()


@col_to_img.rule("input", r"\text{a column for each window of } \bar{y}")
def _(g, output_size, kernel_size, dilation, padding, stride):
    rank = len(output_size)
    settings = {"dilation": dilation, "padding": padding, "stride": stride}
    return img_to_col(g, kernel_size=tuple(per_dim(kernel_size, rank)), **settings)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns, with torch's arguments: see the row img_to_col."""
    return img_to_col(
        input, kernel_size=tuple(per_dim(kernel_size, 2)), dilation=dilation, padding=padding, stride=stride
    )


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns added up in the windows of an image, with torch's arguments: see the row col_to_img."""
    settings = {"dilation": dilation, "padding": padding, "stride": stride}
    kernel = tuple(per_dim(kernel_size, 2))
    return col_to_img(input, output_size=tuple(per_dim(output_size, 2)), kernel_size=kernel, **settings)

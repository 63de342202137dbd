"""Images as columns of patches and back, in one to three dimensions: what makes a convolution a product of matrices."""

from itertools import product
from math import prod

import torch

from nbgrad.core.op import op
from nbgrad.core.ops.joint import per_dim
from nbgrad.core.samples import Make, Sample

_functional = torch.nn.functional


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


def _geometry(input_rank, kernel_size, dilation, padding, stride):
    """The settings with a number for each dimension; a single one for all means what torch's unfold means: an image."""
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
    """The same by slices, in any number of dimensions."""
    rank, kernel, dilation, padding, stride = _geometry(input.ndim, kernel_size, dilation, padding, stride)
    places = _places(input.shape[-rank:], kernel, dilation, padding, stride)
    if min(places) < 1:
        raise RuntimeError(f"expected an image that holds a window of {tuple(kernel)}, it has {places} places for it")
    padded = _functional.pad(input, [around for around in reversed(padding) for _ in range(2)])
    seen = torch.stack(list(_windows(padded, kernel, dilation, places, stride)), dim=-rank - 1)
    return seen.reshape(*input.shape[: -rank - 1], input.shape[-rank - 1] * prod(kernel), prod(places))


@op(formula=r"\text{a column for each window of } x", samples=_images, reference=_columns)
def img_to_col(input, *, kernel_size, dilation=1, padding=0, stride=1):
    """The windows that a kernel sees, each as a column: with the kernel as a row, a convolution is their product.

    Libraries computed convolutions so for long. A number in several windows gets the gradients of all of them. One
    number for ``kernel_size`` means a square, as in torch's unfold; a tuple has one for each dimension, up to three.

    Shapes: input (N, C, ...) or (C, ...), output (N, C * kernel, windows) or without N. Raises RuntimeError where no
    window fits.
    """
    rank, *geometry = _geometry(input.ndim, kernel_size, dilation, padding, stride)
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
    """The same by adding slices, in any number of dimensions."""
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


@op(formula=r"\text{columns of } x \text{ added up in their windows}", samples=_column_samples, reference=_images_of)
def col_to_img(input, *, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The image whose numbers are the sums of what the columns say for them: the gradient of img_to_col.

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

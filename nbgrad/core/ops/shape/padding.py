"""Padding: a border around the last dimensions, filled with a constant or with elements of the input."""

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import SHAPES, Make, Sample
from nbgrad.core.ops.shape.joining import cat
from nbgrad.core.ops.shape.splitting import narrow


def _borders(make: Make):
    for shape in SHAPES:
        yield Sample.of(make(*shape), pad=(1, 2) * min(len(shape), 2))
    yield Sample.of(make(2, 3), pad=(1, 0, 0, 2), value=2.5)
    yield Sample.of(make(4, 5), pad=(-1, 2, 1, -1))
    yield Sample.of(make(2, 3), pad=())


@op(
    formula=r"x \text{ with a border of } v",
    samples=_borders,
    reference=aten.constant_pad_nd,
)
def constant_pad_nd(input, *, pad, value=0):
    """A border of one value around the last dimensions; a negative width cuts off.

    Sequences of a batch are brought to one length with it, and convolutions keep the size of an image.

    Shapes: ``pad`` has the widths before and after, the last dimension first. Raises RuntimeError where more would be
    cut off than there is.
    """
    return aten.constant_pad_nd(input, pad, value)


@constant_pad_nd.rule("input", r"\bar{y} \text{ without the border}")
def _(g, pad):
    return constant_pad_nd(g, pad=tuple(-width for width in pad))


# Borders made of the input: reflected at the edge, or the edge repeated.

_REFLECT = {2: aten.reflection_pad1d, 4: aten.reflection_pad2d, 6: aten.reflection_pad3d}
_REPLICATE = {2: aten.replication_pad1d, 4: aten.replication_pad2d, 6: aten.replication_pad3d}
_UNREFLECT = {
    2: aten.reflection_pad1d_backward,
    4: aten.reflection_pad2d_backward,
    6: aten.reflection_pad3d_backward,
}
_UNREPLICATE = {
    2: aten.replication_pad1d_backward,
    4: aten.replication_pad2d_backward,
    6: aten.replication_pad3d_backward,
}


def _pictures(make: Make):
    yield Sample.of(make(2, 4), padding=(1, 3))
    yield Sample.of(make(2, 3, 4), padding=(2, 0))
    yield Sample.of(make(1, 3, 4), padding=(1, 2, 2, 0))
    yield Sample.of(make(2, 1, 3, 4), padding=(1, 2, 0, 1))
    yield Sample.of(make(1, 2, 3, 2), padding=(1, 0, 2, 1, 0, 0))
    yield Sample.of(make(1, 2, 2, 3, 2), padding=(1, 1, 0, 2, 1, 0))
    yield Sample.of(make(0, 2, 3), padding=(1, 1))


def _backs(forwards):
    def samples(make: Make):
        for sample in _pictures(make):
            x, padding = sample.args[0], sample.settings["padding"]
            out = forwards[len(padding)](x, padding)
            yield Sample.of(make(*out.shape), x, padding=padding)

    return samples


@op(formula=r"x \text{ reflected at its edges}", samples=_pictures, ranks=range(2, 6))
def reflection_pad(input, *, padding):
    """A border of the elements next to the edge in reverse order, around the last one, two or three dimensions.

    Style transfer pads so, as a border of 0 shows in its pictures (Johnson et al. 2016,
    https://arxiv.org/abs/1603.08155).

    Shapes: (C, W), (C, H, W) or (C, D, H, W), or a batch of them. Raises RuntimeError for a border that is not
    smaller than its dimension.
    """
    return _REFLECT[len(padding)](input, padding)


@reflection_pad.rule("input", r"\sum \bar{y} \text{ over the copies of each element of } x")
def _(g, input, padding):
    return reflection_pad_backward(g, input, padding=padding)


@op(
    formula=r"\sum g \text{ over the copies of each element of } x",
    samples=_backs(_REFLECT),
    ranks=range(2, 6),
    flat=("input",),
)
def reflection_pad_backward(g, input, *, padding):
    """The gradient of ``reflection_pad``: each element gets the sum of the gradients of its copies.

    Shapes: g as the padded tensor, output as input.
    """
    return _UNREFLECT[len(padding)](g, input, padding)


@reflection_pad_backward.rule("g", r"\bar{y} \text{ reflected at its edges}")
def _(g, padding):
    return reflection_pad(g, padding=padding)


@op(formula=r"x \text{ with its edges repeated}", samples=_pictures, ranks=range(2, 6))
def replication_pad(input, *, padding):
    """A border of the elements at the edge, around the last one, two or three dimensions.

    Shapes: (C, W), (C, H, W) or (C, D, H, W), or a batch of them. Raises RuntimeError for any other rank.
    """
    return _REPLICATE[len(padding)](input, padding)


@replication_pad.rule("input", r"\sum \bar{y} \text{ over the copies of each element of } x")
def _(g, input, padding):
    return replication_pad_backward(g, input, padding=padding)


@op(
    formula=r"\sum g \text{ over the copies of each element of } x",
    samples=_backs(_REPLICATE),
    ranks=range(2, 6),
    flat=("input",),
)
def replication_pad_backward(g, input, *, padding):
    """The gradient of ``replication_pad``: each element gets the sum of the gradients of its copies.

    Shapes: g as the padded tensor, output as input.
    """
    return _UNREPLICATE[len(padding)](g, input, padding)


@replication_pad_backward.rule("g", r"\bar{y} \text{ with its edges repeated}")
def _(g, padding):
    return replication_pad(g, padding=padding)


def pad(input, pad, mode="constant", value=None):
    """A border around the last dimensions.

    Args:
        input: the tensor.
        pad: the widths before and after, the last dimension first; a negative one cuts off.
        mode: "constant" for one value; "reflect" for the elements next to the edge in reverse order, "replicate" for
            the edge, "circular" for the elements of the opposite side, around the last one, two or three dimensions.
        value: the value of "constant"; default: 0.

    Raises:
        ValueError: a value with another mode than "constant".
        NotImplementedError: the mode is unknown, or does not take this rank.
    """
    pad = tuple(pad)
    if len(pad) % 2 or len(pad) // 2 > len(input.shape):
        raise RuntimeError(f"pad() takes two widths for each of at most {len(input.shape)} dimensions, not {len(pad)}")
    if mode == "constant":
        return constant_pad_nd(input, pad=pad, value=0 if value is None else value)
    if value not in (None, 0):
        raise ValueError(f"pad(): the mode {mode!r} takes no value")
    rank, dims = len(input.shape), len(pad) // 2
    if mode not in _MODES or dims not in (1, 2, 3) or rank not in (dims + 1, dims + 2):
        raise NotImplementedError(
            f"pad() takes the modes constant, reflect, replicate and circular, the last three with widths for the last "
            f"1, 2 or 3 of two to five dimensions; not {mode!r} with {len(pad)} widths for {rank} dimensions"
        )
    return _MODES[mode](input, pad)


def _circular(x, pad):
    rank = len(x.shape)
    for before, after, dim in zip(pad[::2], pad[1::2], range(rank - 1, -1, -1), strict=False):
        size = x.shape[dim] + min(before, 0) + min(after, 0)
        if before > size or after > size:
            raise RuntimeError("pad(): a circular border is at most as wide as its dimension")
        if size < x.shape[dim]:
            x = narrow(x, dim=dim, start=max(-before, 0), length=size)
        before, after = max(before, 0), max(after, 0)
        if before or after:
            ends = narrow(x, dim=dim, start=size - before, length=before), narrow(x, dim=dim, start=0, length=after)
            x = cat([ends[0], x, ends[1]], dim=dim)
    return x


_MODES = {
    "circular": _circular,
    "reflect": lambda x, pad: reflection_pad(x, padding=pad),
    "replicate": lambda x, pad: replication_pad(x, padding=pad),
}

"""The gradients of normalization: fused kernels, and what their own gradients are made of."""

import math

import torch

from nbgrad.core.kernels import aten
from nbgrad.core.op import op
from nbgrad.core.ops.joint import asked, spread, total
from nbgrad.core.samples import Make, Sample

_FORMULAS = {
    "g": r"w \odot B(\bar{\bar{x}}) + \bar{\bar{w}} \odot \hat{x} + \bar{\bar{b}}",
    "input": r"B(\bar{\bar{w}} \odot g) - \frac{1}{\sigma}(\ldots)",
    "weight": r"\sum g \odot B(\bar{\bar{x}})",
}


def second_order(given, g, x, weight, dims, eps, centred=True):
    """The gradients of g, x and weight from those of the three results of a normalization's backward.

    With B(p) = (p - mean(p) - x̂ mean(p x̂)) / σ, which is the gradient of x̂ = (x - μ) / σ, these results are B(w g),
    the sum of g x̂ and the sum of g. μ and σ are computed again from x, so that what is made here can be
    differentiated once more.

    Args:
        given: the gradients of the three results, None where none arrived.
        g: the gradient that the backward was given.
        x: of the same shape; its dimensions ``dims`` were normalized.
        weight: broadcasts to x, or None.
        dims: numbers of dimensions.
        eps: what was added to the variance.
        centred: whether the mean was taken away; without it σ is the root of the mean square.
    """
    to_x, to_weight, to_bias = given
    centre = x - x.mean(dims, True) if centred else x
    scale = (centre.square().mean(dims, True) + eps).rsqrt()
    normal = centre * scale

    def through(p):
        projected = p - normal * (p * normal).mean(dims, True)
        return (projected - p.mean(dims, True) if centred else projected) * scale

    of_g = of_x = of_weight = None
    if to_x is not None:
        p = g if weight is None else g * weight
        back = through(to_x)
        shared = (to_x * p).mean(dims, True)
        if centred:
            shared = shared - to_x.mean(dims, True) * p.mean(dims, True)
        a, b = (to_x * normal).mean(dims, True), (p * normal).mean(dims, True)
        of_x = -scale * (scale * normal * (shared - a * b) + b * back + a * through(p))
        of_g = back if weight is None else back * weight
        of_weight = None if weight is None else (g * back).sum_to_size(weight.shape)
    if to_weight is not None:
        of_g = total(of_g, to_weight * normal)
        of_x = total(of_x, through(to_weight * g))
    if to_bias is not None:
        of_g = total(of_g, to_bias.expand(g.shape))
    return of_g, of_x, of_weight


def _by_torch(forward):
    """What torch's autograd makes of the same: the reference of a backward row."""

    def reference(g, input, *statistics_and_weight, mask, **settings):
        with torch.enable_grad():
            x, w, b, y = forward(g, input, *statistics_and_weight, **settings)
            wanted = asked((x, w, b), mask)
            return torch.autograd.grad(y, wanted, g, create_graph=True)

    return reference


def _biased(input, size):
    return torch.zeros(size, dtype=input.dtype, device=input.device, requires_grad=True)


def _tracked(input):
    return input if input.requires_grad else input.clone().requires_grad_()


def _by_hand(x, dims, weight, bias, eps):
    """The normalization in small steps: torch takes the saved mean for a constant where it differentiates twice."""
    centre = x - x.mean(dims, True)
    normal = centre / (centre.square().mean(dims, True) + eps).sqrt()
    return (normal if weight is None else normal * weight) + bias


# Over the last dimensions.


def _layers(make: Make):
    for shape, normal in (((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (1, 3)), ((2, 2, 1, 3), (3,)), ((0, 3), (3,))):
        x, w = make(*shape), make(*normal)
        yield _layer(make, x, w, normal, (True, True, True))
    yield _layer(make, make(1, 2, 2, 1, 2), make(2, 1, 2), (2, 1, 2), (True, True, False))
    yield _layer(make, make(2, 4), None, (4,), (True, False, False))


def _layer(make, x, w, normal, mask):
    _, mean, rstd = torch.native_layer_norm(x, normal, w, None, 1e-5)
    weight = () if w is None else (w,)
    return Sample.of(make(*x.shape), x, mean, rstd, *weight, normalized_shape=normal, eps=1e-5, mask=mask)


def _layer_again(g, input, mean, rstd, weight=None, *, normalized_shape, eps):
    x, b = _tracked(input), _biased(input, normalized_shape)
    return x, weight, b, _by_hand(x, tuple(range(-len(normalized_shape), 0)), weight, b, eps)


@op(
    formula=r"\bar{x}, \bar{w}, \bar{b} \text{ of } g",
    many=True,
    no_gradient=("mean", "rstd"),
    samples=_layers,
    reference=_by_torch(_layer_again),
)
def layer_norm_backward(g, input, mean, rstd, weight=None, *, normalized_shape, eps, mask):
    """Of the gradients of layer_norm with regard to input, weight and bias those that ``mask`` asks for.

    Shapes: g as input; the outputs as input, and twice ``normalized_shape``.
    """
    if weight is None and mask[2]:  # the kernel makes the gradient of the bias like the weight
        weight = rstd.new_ones(normalized_shape)
    results = aten.native_layer_norm_backward(g, input, normalized_shape, mean, rstd, weight, weight, mask)
    return asked(results, mask)


@layer_norm_backward.joint_rule(**_FORMULAS)
def _(gradients, needed, g, input, weight, normalized_shape, eps, mask):
    dims = tuple(range(-len(normalized_shape), 0))
    of_g, of_input, of_weight = second_order(spread(gradients, mask), g, input, weight, dims, eps)
    return of_g, of_input, None, None, of_weight


def _root_mean_squares(make: Make):
    for sample in _layers(make):
        g, x, _, _, *weight = sample.args
        normal = sample.settings["normalized_shape"]
        dims = tuple(range(-len(normal), 0))
        rstd = (x.square().mean(dims, True) + 1e-5).rsqrt()
        yield Sample.of(g, x, rstd, *weight, normalized_shape=normal, eps=1e-5, mask=sample.settings["mask"][:2])


def _rms_again(g, input, rstd, weight=None, *, normalized_shape, eps):
    x = _tracked(input)
    return x, weight, None, torch.rms_norm(x, normalized_shape, weight, eps)


@op(
    formula=r"\bar{x}, \bar{w} \text{ of } g",
    many=True,
    no_gradient=("rstd",),
    samples=_root_mean_squares,
    reference=lambda *args, mask, **settings: _by_torch(_rms_again)(*args, mask=(*mask, False), **settings),
)
def rms_norm_backward(g, input, rstd, weight=None, *, normalized_shape, eps, mask):
    """Of the gradients of rms_norm with regard to input and weight those that ``mask`` asks for.

    Shapes: g as input; the outputs as input, and ``normalized_shape``.
    """
    dims = tuple(range(-len(normalized_shape), 0))
    normal = input * rstd
    of_input = of_weight = None
    if mask[0]:
        p = g if weight is None else g * weight
        of_input = torch.addcmul(p, normal, (p * normal).mean(dims, True), value=-1).mul_(rstd)
    if mask[1]:
        of_weight = normal.mul_(g).sum_to_size(normalized_shape)
    return asked((of_input, of_weight), mask)


@rms_norm_backward.joint_rule(**_FORMULAS)
def _(gradients, needed, g, input, weight, normalized_shape, eps, mask):
    dims = tuple(range(-len(normalized_shape), 0))
    given = (*spread(gradients, mask), None)
    of_g, of_input, of_weight = second_order(given, g, input, weight, dims, eps, centred=False)
    return of_g, of_input, None, of_weight


# Over groups of channels.


def _groups(make: Make):
    for shape, groups in (((3, 2), 1), ((2, 4, 3), 2), ((2, 4, 1, 3), 4), ((1, 4, 2, 1, 2), 2), ((0, 4), 2)):
        x, w = make(*shape), make(shape[1])
        yield _group(make, x, w, groups, (True, True, True))
    yield _group(make, make(2, 4, 3), None, 2, (True, False, False))


def _group(make, x, w, groups, mask):
    n, c, places = sizes(x)
    _, mean, rstd = torch.native_group_norm(x, w, None, n, c, places, groups, 1e-5)
    weight = () if w is None else (w,)
    return Sample.of(make(*x.shape), x, mean, rstd, *weight, num_groups=groups, eps=1e-5, mask=mask)


def _group_again(g, input, mean, rstd, weight=None, *, num_groups, eps):
    x, b = _tracked(input), _biased(input, input.shape[1])
    return x, weight, b, torch.group_norm(x, num_groups, weight, b, eps)


def sizes(x):
    """How many samples, channels, and places in each: what the kernel of group_norm wants to know."""
    return x.shape[0], x.shape[1], math.prod(x.shape[2:])


@op(
    formula=r"\bar{x}, \bar{w}, \bar{b} \text{ of } g",
    many=True,
    no_gradient=("mean", "rstd"),
    samples=_groups,
    reference=_by_torch(_group_again),
)
def group_norm_backward(g, input, mean, rstd, weight=None, *, num_groups, eps, mask):
    """Of the gradients of group_norm with regard to input, weight and bias those that ``mask`` asks for.

    Shapes: g as input (N, C, ...); the outputs as input, and twice (C,).
    """
    g, input = g.contiguous(), input.contiguous()
    if weight is None and mask[2]:  # the kernel makes the gradient of the bias like the weight
        weight = input.new_ones(input.shape[1])
    results = aten.native_group_norm_backward(g, input, mean, rstd, weight, *sizes(input), num_groups, mask)
    return asked(results, mask)


@group_norm_backward.joint_rule(**_FORMULAS)
def _(gradients, needed, g, input, weight, num_groups, eps, mask):
    batch, channels = g.shape[:2]
    apart = (batch, num_groups, channels // num_groups, *g.shape[2:])
    of_channels = (*apart[1:3], *(1 for _ in g.shape[2:]))
    to_x, *to_others = spread(gradients, mask)
    given = (
        None if to_x is None else to_x.reshape(apart),
        *(None if one is None else one.reshape(of_channels) for one in to_others),
    )
    shaped_weight = None if weight is None else weight.reshape(of_channels)
    dims = tuple(range(2, len(apart)))
    results = second_order(given, g.reshape(apart), input.reshape(apart), shaped_weight, dims, eps)
    shapes = (g.shape, g.shape, (channels,))
    of_g, of_x, of_weight = (
        None if one is None else one.reshape(shape) for one, shape in zip(results, shapes, strict=True)
    )
    return of_g, of_x, None, None, of_weight


# Over the batch.


def _batches(make: Make):
    for shape in ((3, 2), (2, 3, 2), (2, 3, 1, 2), (2, 2, 2, 1, 2)):
        yield _batch(make, make(*shape), make(shape[1]), True, (True, True, True))
    yield _batch(make, make(2, 3, 2), make(3), False, (True, True, True))
    yield _batch(make, make(0, 3, 2), make(3), False, (True, True, True))
    yield _batch(make, make(2, 3, 2), None, True, (True, False, False))


def _batch(make, x, w, training, mask):
    mean, variance = make(x.shape[1]), make(x.shape[1]).abs() + 0.5
    statistics = (None, None) if training else (mean, variance)
    _, mean, invstd = aten.native_batch_norm(x, w, None, *statistics, training, 0.1, 1e-5)
    weight = () if w is None else (w,)
    settings = {"training": training, "eps": 1e-5, "mask": mask}
    return Sample.of(make(*x.shape), x, *statistics, mean, invstd, *weight, **settings)


def _batch_again(g, input, running_mean, running_var, mean, invstd, weight=None, *, training, eps):
    x, b = _tracked(input), _biased(input, input.shape[1])
    if not training:
        return x, weight, b, torch.batch_norm(x, weight, b, running_mean, running_var, False, 0.0, eps, False)
    channels = (-1,) + (1,) * (x.ndim - 2)
    wide = None if weight is None else weight.reshape(channels)
    return x, weight, b, _by_hand(x, (0, *range(2, x.ndim)), wide, b.reshape(channels), eps)


@op(
    formula=r"\bar{x}, \bar{w}, \bar{b} \text{ of } g",
    many=True,
    no_gradient=("running_mean", "running_var", "mean", "invstd"),
    samples=_batches,
    reference=_by_torch(_batch_again),
)
def batch_norm_backward(g, input, running_mean, running_var, mean, invstd, weight=None, *, training, eps, mask):
    """Of the gradients of batch_norm with regard to input, weight and bias those that ``mask`` asks for.

    Shapes: g as input (N, C, ...); the outputs as input, and twice (C,).
    """
    if not input.numel():  # the kernel divides by the number of samples
        channels = (0,) if input.ndim < 2 else input.shape[1:2]
        return asked((torch.zeros_like(input), *(g.new_zeros(channels) for _ in range(2))), mask)
    results = aten.native_batch_norm_backward(
        g, input, weight, running_mean, running_var, mean, invstd, training, eps, mask
    )
    return asked(results, mask)


@batch_norm_backward.joint_rule(**_FORMULAS)
def _(gradients, needed, g, input, running_mean, running_var, weight, training, eps, mask):
    channels = (g.shape[min(1, len(g.shape) - 1)],) + (1,) * (len(g.shape) - 2)
    given = spread(gradients, mask)
    given = (given[0], *(None if one is None else one.reshape(channels) for one in given[1:]))
    wide = None if weight is None else weight.reshape(channels)
    if training:
        dims = (0, *range(2, len(g.shape)))
        of_g, of_x, of_weight = second_order(given, g, input, wide, dims, eps)
    else:
        mean, scale = running_mean.reshape(channels), (running_var.reshape(channels) + eps).rsqrt()
        of_g, of_x, of_weight = _fixed(given, g, input, wide, mean, scale)
    return of_g, of_x, None, None, None, None, None if of_weight is None else of_weight.reshape(channels[:1])


def _fixed(given, g, x, weight, mean, scale):
    """What ``second_order`` gives, where mean and scale are constants."""
    to_x, to_weight, to_bias = given
    of_x = of_weight = None
    terms = []
    if to_x is not None:
        terms.append(to_x * scale if weight is None else to_x * scale * weight)
        of_weight = None if weight is None else (g * to_x * scale).sum_to_size(weight.shape)
    if to_weight is not None:
        terms.append(to_weight * ((x - mean) * scale))
        of_x = g * to_weight * scale
    if to_bias is not None:
        terms.append(to_bias.expand(g.shape))
    return total(*terms), of_x, of_weight

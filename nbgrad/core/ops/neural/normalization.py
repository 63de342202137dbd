"""Normalization: numbers brought to mean 0 and variance 1, over features, groups of channels or the batch.

Its gradients are fused kernels, which are rows themselves and have gradients of their own.
"""

import math

import torch

from nbgrad.core.backend.aten import aten
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.broadcast import for_channels, for_features
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops._joint_rules import asked, spread, total
from nbgrad.core.ops.neural.pooling import avg_pool2d
from nbgrad.core.ops.reduce.norms import linalg_vector_norm
from nbgrad.core.ops.shape.padding import pad

_FORMULAS = {
    "g": r"w \odot B(\bar{\bar{x}}) + \bar{\bar{w}} \odot \hat{x} + \bar{\bar{b}}",
    "input": r"B(\bar{\bar{w}} \odot g) - \frac{1}{\sigma}(\ldots)",
    "weight": r"\sum g \odot B(\bar{\bar{x}})",
}


def second_order(given, g, x, weight, dims, eps, centred=True):
    """The gradients for g, x and weight, from those of the three results of a normalization's backward.

    With B(p) = (p - mean(p) - x̂ mean(p x̂)) / σ, which is the gradient of x̂ = (x - μ) / σ, these results are B(w g),
    the sum of g x̂ and the sum of g. μ and σ are computed again from x, so that the results here can be differentiated
    once more.

    Args:
        given: the gradients of the three results, None where none arrived.
        g: the gradient that the backward was given.
        x: of the same shape; its dimensions ``dims`` were normalized.
        weight: broadcasts to x, or None.
        dims: numbers of dimensions.
        eps: the number that was added to the variance.
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
    """The gradient that torch's autograd computes: the reference of a backward row."""

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


def _layer_gradients(make: Make):
    for shape, normal in (((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (1, 3)), ((2, 2, 1, 3), (3,)), ((0, 3), (3,))):
        x, w = make(*shape), make(*normal)
        yield _layer(make, x, w, normal, (True, True, True))
    yield _layer(make, make(1, 2, 2, 1, 2), make(2, 1, 2), (2, 1, 2), (True, True, False))
    yield _layer(make, make(2, 4), None, (4,), (True, False, False))
    yield _layer(make, make(2, 3), make(3), (3,), (True, True, True), eps=0.1)


def _layer(make, x, w, normal, mask, eps=1e-5):
    _, mean, rstd = torch.native_layer_norm(x, normal, w, None, eps)
    weight = () if w is None else (w,)
    return Sample.of(make(*x.shape), x, mean, rstd, *weight, normalized_shape=normal, eps=eps, mask=mask)


def _layer_again(g, input, mean, rstd, weight=None, *, normalized_shape, eps):
    x, b = _tracked(input), _biased(input, normalized_shape)
    return x, weight, b, _by_hand(x, tuple(range(-len(normalized_shape), 0)), weight, b, eps)


@op(
    formula=r"\bar{x}, \bar{w}, \bar{b} \text{ of } g",
    many=True,
    no_gradient=("mean", "rstd"),
    samples=_layer_gradients,
    ranks=range(1, 6),
    reference=_by_torch(_layer_again),
)
def layer_norm_backward(g, input, mean, rstd, weight=None, *, normalized_shape, eps, mask):
    """The gradients of layer_norm with respect to input, weight and bias, those that ``mask`` asks for.

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


def _rms_gradients(make: Make):
    for sample in _layer_gradients(make):
        g, x, _, _, *weight = sample.args
        normal, eps, mask = (sample.settings[name] for name in ("normalized_shape", "eps", "mask"))
        dims = tuple(range(-len(normal), 0))
        rstd = (x.square().mean(dims, True) + eps).rsqrt()
        yield Sample.of(g, x, rstd, *weight, normalized_shape=normal, eps=eps, mask=mask[:2])


def _wide(x):
    """``x`` in the element type in which torch computes rms_norm: it rounds to a short one only at the end."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _rms_again(g, input, rstd, weight=None, *, normalized_shape, eps):
    x = _tracked(input)
    return x, weight, None, torch.rms_norm(x, normalized_shape, weight, eps)


@op(
    formula=r"\bar{x}, \bar{w} \text{ of } g",
    many=True,
    no_gradient=("rstd",),
    samples=_rms_gradients,
    ranks=range(1, 6),
    reference=lambda *args, mask, **settings: _by_torch(_rms_again)(*args, mask=(*mask, False), **settings),
)
def rms_norm_backward(g, input, rstd, weight=None, *, normalized_shape, eps, mask):
    """The gradients of rms_norm with respect to input and weight, those that ``mask`` asks for.

    Shapes: g as input; the outputs as input, and ``normalized_shape``.
    """
    dims = tuple(range(-len(normalized_shape), 0))
    g, normal = _wide(g), input * rstd
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


def _group_gradients(make: Make):
    for shape, groups in (((3, 2), 1), ((2, 4, 3), 2), ((2, 4, 1, 3), 4), ((1, 4, 2, 1, 2), 2), ((0, 4), 2)):
        x, w = make(*shape), make(shape[1])
        yield _group(make, x, w, groups, (True, True, True))
    yield _group(make, make(2, 4, 3), None, 2, (True, False, False))
    yield _group(make, make(2, 4, 3), make(4), 2, (True, True, True), eps=0.1)


def _group(make, x, w, groups, mask, eps=1e-5):
    n, c, places = sizes(x)
    _, mean, rstd = torch.native_group_norm(x, w, None, n, c, places, groups, eps)
    weight = () if w is None else (w,)
    return Sample.of(make(*x.shape), x, mean, rstd, *weight, num_groups=groups, eps=eps, mask=mask)


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
    samples=_group_gradients,
    ranks=range(2, 6),
    reference=_by_torch(_group_again),
)
def group_norm_backward(g, input, mean, rstd, weight=None, *, num_groups, eps, mask):
    """The gradients of group_norm with respect to input, weight and bias, those that ``mask`` asks for.

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


def _batch_gradients(make: Make):
    for shape in ((3, 2), (2, 3, 2), (2, 3, 1, 2), (2, 2, 2, 1, 2)):
        yield _batch(make, make(*shape), make(shape[1]), True, (True, True, True))
    yield _batch(make, make(2, 3, 2), make(3), False, (True, True, True))
    yield _batch(make, make(0, 3, 2), make(3), False, (True, True, True))
    yield _batch(make, make(2, 3, 2), None, True, (True, False, False))
    for training in (False, True):
        yield _batch(make, make(2, 3, 2), make(3), training, (True, True, True), eps=0.1)


def _batch(make, x, w, training, mask, eps=1e-5):
    mean, variance = make(x.shape[1]), make(x.shape[1]).abs() + 0.5
    statistics = (None, None) if training else (mean, variance)
    _, mean, invstd = aten.native_batch_norm(x, w, None, *statistics, training, 0.1, eps)
    weight = () if w is None else (w,)
    settings = {"training": training, "eps": eps, "mask": mask}
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
    samples=_batch_gradients,
    ranks=range(2, 6),
    reference=_by_torch(_batch_again),
)
def batch_norm_backward(g, input, running_mean, running_var, mean, invstd, weight=None, *, training, eps, mask):
    """The gradients of batch_norm with respect to input, weight and bias, those that ``mask`` asks for.

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
    """The result of ``second_order`` if mean and scale are constants."""
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


_functional = torch.nn.functional
_AFFINE = {"weight": r"\sum \bar{y} \odot \hat{x}", "bias": r"\sum \bar{y}"}
_CENTRED = (
    r"\frac{1}{\sigma}(p - \overline{p} - \hat{x} \odot \overline{p \odot \hat{x}}) \text{, } p = \bar{y} \odot w"
)


def _layers(make: Make):
    for shape, normal in (((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (1, 3)), ((2, 2, 1, 3), (3,)), ((0, 3), (3,))):
        yield Sample.of(make(*shape), make(*normal), make(*normal), normalized_shape=normal)
    x = make(1, 2, 2, 1, 2)
    yield Sample.of(x, normalized_shape=(2, 1, 2), eps=0.1)
    yield Sample.of(x, make(2), normalized_shape=(2,))


@op(
    name="layer_norm",
    traits=Traits(multiplies=True, units=-1),
    formula=r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot w + b",
    aux=("mean", "rstd"),
    sums={"weight": for_features, "bias": for_features},
    samples=_layers,
    ranks=range(1, 6),
    reference=lambda x, w=None, b=None, *, normalized_shape, eps=1e-5: torch.layer_norm(x, normalized_shape, w, b, eps),
)
def layer_norm_row(input, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    """Brings the last dimensions of each sample to mean 0 and variance 1, then stretches and shifts them.

    Transformers do it before or after each block, so that no layer has to follow the scale of the one before (Ba et
    al. 2016, https://arxiv.org/abs/1607.06450). Its gradient has no part along the input nor along a constant.

    Shapes: input ends in ``normalized_shape``, weight and bias have that shape; output as input. Raises RuntimeError
    where it does not.
    """
    return torch.native_layer_norm(input, normalized_shape, weight, bias, eps)


@layer_norm_row.joint_rule(input=_CENTRED, **_AFFINE)
def _(g, needed, input, mean, rstd, weight, normalized_shape, eps):
    results = layer_norm_backward(g, input, mean, rstd, weight, normalized_shape=normalized_shape, eps=eps, mask=needed)
    return spread(results, needed)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Brings the last dimensions to mean 0 and variance 1, with torch's order of arguments: see the row layer_norm."""
    return layer_norm_row(input, weight, bias, normalized_shape=tuple(normalized_shape), eps=eps)


def _root_mean_squares(make: Make):
    for sample in _layers(make):
        if len(sample.args) < 3 or sample.args[1] is not None:
            yield Sample(sample.args[:2], sample.settings)
    yield Sample.of(make(2, 3), normalized_shape=(3,), eps=None)


def _rms_by_torch(input, weight=None, *, normalized_shape, eps=None):
    return torch.rms_norm(input, normalized_shape, weight, eps)


def _rms_casts(input, weight=None, *, normalized_shape, eps=None):
    """The casts of autocast. torch itself computes in a wider type and then casts back: only its result shows them."""
    dtype = torch.rms_norm(torch.empty_like(input), normalized_shape, None, eps).dtype
    return input.to(dtype), None if weight is None else weight.to(dtype)


@op(
    name="rms_norm",
    traits=Traits(multiplies=True, units=-1),
    formula=r"\frac{x}{\sqrt{\overline{x^2} + \varepsilon}} \odot w",
    aux=("rstd",),
    sums={"weight": for_features},
    samples=_root_mean_squares,
    ranks=range(1, 6),
    reference=_rms_by_torch,
    policy=_rms_casts,
)
def rms_norm_row(input, weight=None, *, normalized_shape, eps=None):
    """Brings the last dimensions of each sample to root mean square 1, then stretches them.

    A layer_norm without the mean, which is cheaper and does as well; language models use it (Zhang and Sennrich 2019,
    https://arxiv.org/abs/1910.07467). ``eps`` defaults to ``torch.finfo(dtype).eps``.

    Shapes: input ends in ``normalized_shape``, weight has that shape; output as input. Raises RuntimeError where it
    does not.
    """
    if tuple(input.shape[-len(normalized_shape) :]) != tuple(normalized_shape):
        raise RuntimeError(f"expected an input that ends in {tuple(normalized_shape)}")
    dims = tuple(range(-len(normalized_shape), 0))
    wide = _wide(input)
    rstd = wide.square().mean(dims, True).add_(_step(wide, eps)).rsqrt_()
    normal = wide * rstd
    return (normal if weight is None else normal * weight).to(input.dtype), rstd


def _step(input, eps):
    return torch.finfo(input.dtype).eps if eps is None else eps


@rms_norm_row.joint_rule(
    input=r"\frac{1}{\sigma}(p - \hat{x} \odot \overline{p \odot \hat{x}}) \text{, } p = \bar{y} \odot w",
    weight=_AFFINE["weight"],
)
def _(g, needed, input, rstd, weight, normalized_shape, eps):
    settings = {"normalized_shape": normalized_shape, "eps": _step(rstd, eps), "mask": needed}
    return spread(rms_norm_backward(g, input, rstd, weight, **settings), needed)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Brings the last dimensions to root mean square 1, with torch's order of arguments: see the row rms_norm."""
    return rms_norm_row(input, weight, normalized_shape=tuple(normalized_shape), eps=eps)


def _groups(make: Make):
    for shape, groups in (((3, 2), 1), ((2, 4, 3), 2), ((2, 4, 1, 3), 4), ((1, 4, 2, 1, 2), 2), ((0, 4), 2)):
        yield Sample.of(make(*shape), make(shape[1]), make(shape[1]), num_groups=groups)
    yield Sample.of(make(2, 4, 3), num_groups=2, eps=0.1)


def _groups_by_torch(input, weight=None, bias=None, *, num_groups, eps=1e-5):
    return torch.group_norm(input, num_groups, weight, bias, eps)


@op(
    name="group_norm",
    traits=Traits(multiplies=True, units=1),
    formula=r"\frac{x - \mu_g}{\sqrt{\sigma_g^2 + \varepsilon}} \odot w + b",
    aux=("mean", "rstd"),
    sums={"weight": for_channels, "bias": for_channels},
    samples=_groups,
    ranks=range(2, 6),
    reference=_groups_by_torch,
    policy=_groups_by_torch,
)
def group_norm_row(input, weight=None, bias=None, *, num_groups, eps=1e-5):
    """Brings each group of channels of each sample to mean 0 and variance 1, then stretches and shifts channels.

    It does for images what batch_norm does, without depending on the batch, so small batches are no harm (Wu and He
    2018, https://arxiv.org/abs/1803.08494).

    Shapes: input (N, C, ...), weight and bias (C,), output as input. Raises RuntimeError where ``num_groups`` does not
    divide C.
    """
    if input.shape[1] % num_groups:
        raise RuntimeError(f"expected a number of channels that num_groups = {num_groups} divides")
    n, c, places = sizes(input)
    return torch.native_group_norm(input.contiguous(), weight, bias, n, c, places, num_groups, eps)


@group_norm_row.joint_rule(input=_CENTRED, **_AFFINE)
def _(g, needed, input, mean, rstd, weight, num_groups, eps):
    results = group_norm_backward(g, input, mean, rstd, weight, num_groups=num_groups, eps=eps, mask=needed)
    return spread(results, needed)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Brings groups of channels to mean 0 and variance 1, with torch's order of arguments: see the row group_norm."""
    if input.ndim < 2:
        raise RuntimeError(f"group_norm needs an input of shape (N, C, ...), not {tuple(input.shape)}")
    if len(input.shape) > 0 and input.shape[0] * input.shape[1] // num_groups * math.prod(input.shape[2:]) == 1:
        raise ValueError(f"group_norm needs more than one value in each group, not an input of {tuple(input.shape)}")
    return group_norm_row(input, weight, bias, num_groups=num_groups, eps=eps)


def _batches(make: Make):
    for shape in ((3, 2), (2, 3, 2), (2, 3, 1, 2), (2, 2, 2, 1, 2)):
        c = shape[1]
        yield Sample.of(make(*shape), make(c), make(c).abs(), make(c), make(c), training=True)
        yield Sample.of(make(*shape), make(c), make(c).abs(), make(c), make(c))
    yield Sample.of(make(0, 3), make(3), make(3).abs(), make(3), make(3))
    yield Sample.of(make(2, 3, 2), None, None, make(3), make(3), training=True, eps=0.1)
    yield Sample.of(make(2, 3, 2), make(3), make(3).abs(), training=True, momentum=0.5)


@op(
    name="batch_norm",
    traits=Traits(multiplies=True, units=1),
    formula=r"\frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} \odot w + b",
    aux=("mean", "invstd"),
    no_gradient=("running_mean", "running_var"),
    mutates=("running_mean", "running_var"),
    sums={"weight": for_channels, "bias": for_channels},
    samples=_batches,
    ranks=range(2, 6),
    reference=_functional.batch_norm,
)
def batch_norm_row(
    input, running_mean=None, running_var=None, weight=None, bias=None, *, training=False, momentum=0.1, eps=1e-5
):
    """Brings each channel to mean 0 and variance 1, by the statistics of the batch or the running ones.

    In training each sample's gradient depends on the whole batch. The running statistics, which evaluation uses, move
    towards those of the batch by ``momentum``, in place. The running variance has the divisor n - 1. This normalization
    let convolutional networks become deep (Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167).

    Shapes: input (N, C, ...), everything else (C,); output as input.
    """
    _check_channels(input, training, running_mean, running_var, weight, bias)
    if not input.numel():  # nothing to learn from: torch's kernel would move the running statistics to NaN
        return input.clone(), input.new_empty(0), input.new_empty(0)
    out, *found = torch.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    # In the type of the parameters, which the kernel of the gradient needs if the input has half precision.
    return (out, *(found if training else (one.new_empty(0) for one in found)))


def _check_channels(input, training, *of_channels):
    """Errors that torch's function has and its kernel has not, which would read memory that is not there."""
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, one in zip(("running_mean", "running_var", "weight", "bias"), of_channels, strict=True):
        if one is not None and one.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements, one for each channel, not {one.numel()}")
    if not training and (of_channels[0] is None or of_channels[1] is None):
        raise RuntimeError("running_mean and running_var must be given where training=False")


@batch_norm_row.joint_rule(input=_CENTRED, **_AFFINE)
def _(g, needed, input, running_mean, running_var, mean, invstd, weight, training, eps):
    mask = (needed[0], *needed[3:])
    results = batch_norm_backward(
        g, input, running_mean, running_var, mean, invstd, weight, training=training, eps=eps, mask=mask
    )
    to_input, to_weight, to_bias = spread(results, mask)
    return to_input, None, None, to_weight, to_bias


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5, cudnn_enabled=None
):
    """Brings each channel to mean 0 and variance 1, with torch's checks: see the row batch_norm.

    Raises ValueError where training sees one value of each channel, which has no variance, or for an eps that is not
    positive (in evaluation: negative). ``cudnn_enabled`` does not choose the kernel of torch that runs.
    """
    if training and input.ndim > 1 and math.prod(input.shape[2:], start=input.shape[0]) == 1:
        raise ValueError(
            f"batch_norm needs more than one value per channel to train, not an input of shape {tuple(input.shape)}: "
            "give it a larger batch, or call eval() on the module, which then uses the running statistics"
        )
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm needs an eps that is positive, or in evaluation at least 0, not {eps}")
    settings = {"training": training, "momentum": momentum, "eps": eps}
    return batch_norm_row(input, running_mean, running_var, weight, bias, **settings)


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
    cudnn_enabled=None,
):
    """Brings each channel of each sample to mean 0 and variance 1: batch_norm with every sample a batch of its own.

    It takes the contrast out of an image, as the transfer of styles wants it (Ulyanov et al. 2016,
    https://arxiv.org/abs/1607.08022). Running statistics move towards the mean of those of the samples, in place.

    Shapes: input (N, C, ...), everything else (C,); output as input. Raises ValueError where a channel of a sample has
    one value, which has no variance, and RuntimeError where running statistics are to be used and are missing.
    """
    batch, channels = input.shape[:2]
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"instance_norm needs more than one value in a channel, not {tuple(input.shape)}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("instance_norm needs running_mean and running_var where use_input_stats=False")
    buffers = [raw_of(one) for one in (running_mean, running_var)]
    wide = [None if one is None else one.repeat(batch) for one in buffers]
    weight, bias = (
        None if one is None else one.unsqueeze(0).expand((batch, channels)).reshape((-1,)) for one in (weight, bias)
    )
    flat = input.reshape((1, batch * channels, *input.shape[2:]))
    settings = {"training": use_input_stats, "momentum": momentum, "eps": eps}
    out = batch_norm_row(flat, *wide, weight, bias, **settings)
    for buffer, moved in zip(buffers, wide, strict=True):
        if buffer is not None and moved is not None and use_input_stats:
            buffer.copy_(moved.reshape(batch, channels).mean(0))
    return out.reshape(input.shape)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides each number by a power of the mean square of the ``size`` channels around it.

    Channels compete, as neurons inhibit their neighbours; batch_norm took its place (Krizhevsky et al. 2012).

    Shapes: input (N, C, ...), output as input. Raises ValueError for an input of fewer than three dimensions.
    """
    if input.ndim < 3:
        raise ValueError(f"local_response_norm needs an input of shape (N, C, L, ...), not {tuple(input.shape)}")
    if not input.numel():
        return input
    planes = (input.shape[0], 1, input.shape[1], math.prod(input.shape[2:]))
    squares = pad((input * input).reshape(planes), (0, 0, size // 2, (size - 1) // 2))
    around = avg_pool2d(squares, kernel_size=(size, 1), stride=1).reshape(input.shape)
    return input / (around * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along ``dim`` brought to norm 1: divided by their norm of order ``p``, or ``eps`` if that is less.

    Cosine similarities are products of such vectors, as contrastive learning compares them.

    Shapes: output as input. Raises NotImplementedError for ``out``.
    """
    if out is not None:
        raise NotImplementedError("normalize: out= would overwrite a tensor that a rule may need")
    return input / linalg_vector_norm(input, ord=p, dim=dim, keepdim=True).clamp_min(eps)

"""The translations of aten's core operators into ONNX.

Each takes the ``Model`` that it appends to and the arguments of the operator in the order of its schema, with the node
of torch.fx for each tensor. It returns the name of the result, or a tuple of names.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import fx

from nbgrad.core.symbolic.exports.core_operators import Untranslated
from nbgrad.core.symbolic.exports.onnx_model import Model

OPS: dict[str, Callable[..., Any]] = {}
"""The translations by the name of the operator."""


def _translates(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, function))
        return function

    return add


def _example(given: fx.Node) -> torch.Tensor:
    found: torch.Tensor = given.meta["val"]
    return found


def _axes(dims: Any, rank: int) -> list[int]:
    given = [dims] if isinstance(dims, int) else list(dims or range(rank))
    return [one % max(rank, 1) for one in given] if rank else []


# ------------------------------------------------------------------------------------------------ elementwise

_UNARY = {
    **{name: name.capitalize() for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: name.capitalize() for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "relu")},
    **{name: name.capitalize() for name in ("erf", "floor", "ceil", "sign", "abs", "neg", "reciprocal", "round")},
}


def _unary(kind: str) -> Callable[..., Any]:
    def translate(g: Model, x: fx.Node, *settings: Any) -> Any:
        if any(one not in (None, 0) for one in settings):  # round to decimals
            raise Untranslated("only whole numbers can be rounded to")
        whole = not g.result.dtype.is_floating_point
        if kind in ("Floor", "Ceil", "Round") and whole:
            return g.name(x)
        return g.op(kind, g.of(x, g.result.dtype))

    return translate


OPS.update({name: _unary(kind) for name, kind in _UNARY.items()})


@_translates("rsqrt")
def _rsqrt(g: Model, x: fx.Node) -> Any:
    return g.op("Reciprocal", g.op("Sqrt", g.of(x, g.result.dtype)))


@_translates("log1p")
def _log1p(g: Model, x: fx.Node) -> Any:
    """log(1 + x) without loss for small x: log(u) x / (u - 1), where u = 1 + x as rounded."""
    kind = g.result.dtype
    given, one = g.of(x, kind), g.number(1, kind)
    u = g.op("Add", given, one)
    same = g.op("Equal", u, one)
    below = g.op("Where", same, one, g.op("Sub", u, one))
    ratio = g.op("Div", g.op("Mul", g.op("Log", u), given), below)
    infinite = g.op("IsInf", given)
    return g.op("Where", g.op("Or", same, infinite), given, ratio)


@_translates("expm1")
def _expm1(g: Model, x: fx.Node) -> Any:
    return _grown(g, g.of(x, g.result.dtype), g.result.dtype)


def _grown(g: Model, given: str, kind: torch.dtype) -> str:
    """exp(x) - 1: for small x 2 t / (1 - t), where t = tanh(x / 2)."""
    one = g.number(1, kind)
    t = g.op("Tanh", g.op("Mul", given, g.number(0.5, kind)))
    small = g.op("Less", g.op("Abs", given), g.number(0.5, kind))
    near = g.op("Div", g.op("Add", t, t), g.op("Where", small, g.op("Sub", one, t), one))
    made: str = g.op("Where", small, near, g.op("Sub", g.op("Exp", given), one))
    return made


@_translates("log2")
def _log2(g: Model, x: fx.Node) -> Any:
    kind = g.result.dtype
    return g.op("Div", g.op("Log", g.of(x, kind)), g.number(0.6931471805599453, kind))


@_translates("log10")
def _log10(g: Model, x: fx.Node) -> Any:
    kind = g.result.dtype
    return g.op("Div", g.op("Log", g.of(x, kind)), g.number(2.302585092994046, kind))


@_translates("exp2")
def _exp2(g: Model, x: fx.Node) -> Any:
    kind = g.result.dtype
    return g.op("Pow", g.number(2, kind), g.of(x, kind))


@_translates("trunc")
def _trunc(g: Model, x: fx.Node) -> Any:
    given = g.of(x, g.result.dtype)
    return g.op("Mul", g.op("Sign", given), g.op("Floor", g.op("Abs", given)))


@_translates("logical_not", "bitwise_not")
def _not(g: Model, x: fx.Node) -> Any:
    if g.result.dtype is not torch.bool:
        raise Untranslated("an op on the bits of numbers has no translation")
    return g.op("Not", g.of(x, torch.bool))


@_translates("isnan")
def _isnan(g: Model, x: fx.Node) -> Any:
    return g.op("IsNaN", g.name(x))


@_translates("isinf")
def _isinf(g: Model, x: fx.Node) -> Any:
    return g.op("IsInf", g.name(x))


def _scaled(kind: str) -> Callable[..., Any]:
    def translate(g: Model, x: Any, y: Any, alpha: Any = 1) -> Any:
        dtype = g.result.dtype
        if dtype is torch.bool:
            raise Untranslated("a sum of truth values has no translation")
        other = g.of(y, dtype)
        if alpha != 1:
            other = g.op("Mul", other, g.number(alpha, dtype))
        return g.op(kind, g.of(x, dtype), other)

    return translate


OPS["add"], OPS["sub"] = _scaled("Add"), _scaled("Sub")


@_translates("rsub")
def _rsub(g: Model, x: Any, y: Any, alpha: Any = 1) -> Any:
    if alpha != 1:
        raise Untranslated("alpha has no translation here")
    return g.op("Sub", g.of(y, g.result.dtype), g.of(x, g.result.dtype))


@_translates("mul")
def _mul(g: Model, x: Any, y: Any) -> Any:
    kind = g.result.dtype
    return g.op("And" if kind is torch.bool else "Mul", g.of(x, kind), g.of(y, kind))


@_translates("div")
def _div(g: Model, x: Any, y: Any, rounding_mode: Any = None) -> Any:
    kind = g.result.dtype
    if rounding_mode is not None and not kind.is_floating_point:
        raise Untranslated("a rounded division of integers has no translation")
    made = g.op("Div", g.of(x, kind), g.of(y, kind))
    if rounding_mode == "trunc":
        return g.op("Mul", g.op("Sign", made), g.op("Floor", g.op("Abs", made)))
    return g.op("Floor", made) if rounding_mode == "floor" else made


@_translates("fmod")
def _fmod(g: Model, x: Any, y: Any) -> Any:
    kind = g.result.dtype
    return g.op("Mod", g.of(x, kind), g.of(y, kind), fmod=1)


@_translates("remainder")
def _remainder(g: Model, x: Any, y: Any) -> Any:
    kind = g.result.dtype
    left, right = g.of(x, kind), g.of(y, kind)
    if not kind.is_floating_point:
        return g.op("Mod", left, right)
    return g.op("Sub", left, g.op("Mul", g.op("Floor", g.op("Div", left, right)), right))


@_translates("pow")
def _pow(g: Model, x: Any, y: Any) -> Any:
    kind = g.result.dtype
    if not isinstance(y, fx.Node) and y == 2:
        given = g.of(x, kind)
        return g.op("Mul", given, given)
    return g.op("Pow", g.of(x, kind), g.of(y, kind))


@_translates("maximum")
def _maximum(g: Model, x: Any, y: Any) -> Any:
    return g.op("Max", g.of(x, g.result.dtype), g.of(y, g.result.dtype))


@_translates("minimum")
def _minimum(g: Model, x: Any, y: Any) -> Any:
    return g.op("Min", g.of(x, g.result.dtype), g.of(y, g.result.dtype))


def _compared(kind: str, negated: bool = False) -> Callable[..., Any]:
    def translate(g: Model, x: Any, y: Any) -> Any:
        examples = [_example(one) if isinstance(one, fx.Node) else one for one in (x, y)]
        dtype = torch.result_type(*examples)
        if dtype is torch.bool and kind != "Equal":
            dtype = torch.int64
        made = g.op(kind, g.of(x, dtype), g.of(y, dtype))
        return g.op("Not", made) if negated else made

    return translate


OPS.update(
    eq=_compared("Equal"),
    ne=_compared("Equal", negated=True),
    lt=_compared("Less"),
    le=_compared("LessOrEqual"),
    gt=_compared("Greater"),
    ge=_compared("GreaterOrEqual"),
)


def _logical(kind: str) -> Callable[..., Any]:
    def translate(g: Model, x: Any, y: Any) -> Any:
        if g.result.dtype is not torch.bool:
            raise Untranslated("an op on the bits of numbers has no translation")
        return g.op(kind, g.of(x, torch.bool), g.of(y, torch.bool))

    return translate


for _name, _kind in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    OPS[f"logical_{_name}"] = OPS[f"bitwise_{_name}"] = _logical(_kind)


@_translates("where")
def _where(g: Model, condition: fx.Node, x: Any, y: Any) -> Any:
    kind = g.result.dtype
    return g.op("Where", g.of(condition, torch.bool), g.of(x, kind), g.of(y, kind))


@_translates("clamp", "hardtanh")
def _clamp(g: Model, x: fx.Node, low: Any = None, high: Any = None) -> Any:
    kind = g.result.dtype
    made = g.of(x, kind)
    if low is not None:
        made = g.op("Max", made, g.of(low, kind))
    return made if high is None else g.op("Min", made, g.of(high, kind))


@_translates("leaky_relu")
def _leaky_relu(g: Model, x: fx.Node, slope: float = 0.01) -> Any:
    """Not ONNX's own, whose slope has the precision of float32 only."""
    kind, given = g.result.dtype, g.name(x)
    positive = g.op("Greater", given, g.number(0, kind))
    return g.op("Where", positive, given, g.op("Mul", given, g.number(slope, kind)))


@_translates("elu")
def _elu(g: Model, x: fx.Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    kind, given = g.result.dtype, g.name(x)
    positive = g.op("Greater", given, g.number(0, kind))
    below = _grown(g, g.op("Mul", g.op("Min", given, g.number(0, kind)), g.number(input_scale, kind)), kind)
    below = g.op("Mul", below, g.number(alpha * scale, kind))
    return g.op("Where", positive, g.op("Mul", given, g.number(scale, kind)), below)


@_translates("gelu")
def _gelu(g: Model, x: fx.Node, approximate: str) -> Any:
    kind, given = g.result.dtype, g.name(x)
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", given, given), given)
        inner = g.op("Add", given, g.op("Mul", cube, g.number(0.044715, kind)))
        grown = g.op("Tanh", g.op("Mul", inner, g.number(0.7978845608028654, kind)))
    else:
        grown = g.op("Erf", g.op("Mul", given, g.number(0.7071067811865476, kind)))
    half = g.op("Mul", given, g.number(0.5, kind))
    return g.op("Mul", half, g.op("Add", grown, g.number(1, kind)))


# ------------------------------------------------------------------------------------------------ reductions


def _reduced(kind: str) -> Callable[..., Any]:
    def translate(g: Model, x: fx.Node, dims: Any = None, keepdim: bool = False, *_: Any) -> Any:
        dtype, rank = g.result.dtype, _example(x).dim()
        given = g.of(x, dtype)
        if not rank:
            return g.op("Identity", given)
        return g.op(kind, given, g.shape(_axes(dims, rank)), keepdims=int(bool(keepdim)))

    return translate


OPS.update(
    mean=_reduced("ReduceMean"),
    amax=_reduced("ReduceMax"),
    amin=_reduced("ReduceMin"),
    prod=_reduced("ReduceProd"),
)


@_translates("sum")
def _sum(g: Model, x: fx.Node, dims: Any = None, keepdim: Any = False, *_: Any) -> Any:
    if isinstance(dims, torch.dtype):
        dims = None
    return _reduced("ReduceSum")(g, x, dims, keepdim)


@_translates("argmax")
def _argmax(g: Model, x: fx.Node, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        flat = g.op("Reshape", g.name(x), g.shape([-1]))
        return g.op("Reshape", g.op("ArgMax", flat, axis=0, keepdims=0), g.shape(g.result.shape))
    return g.op("ArgMax", g.name(x), axis=dim, keepdims=int(keepdim))


@_translates("max")
def _max(g: Model, x: fx.Node, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return _reduced("ReduceMax")(g, x)
    values = g.op("ReduceMax", g.name(x), g.shape([dim]), keepdims=int(keepdim))
    return values, g.op("ArgMax", g.name(x), axis=dim, keepdims=int(keepdim))


@_translates("var")
def _var(g: Model, x: fx.Node, dims: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    kind, example = g.result.dtype, _example(x)
    axes = _axes(dims, example.dim())
    mean = g.op("ReduceMean", g.name(x), g.shape(axes), keepdims=1)
    off = g.op("Sub", g.name(x), mean)
    total = g.op("ReduceSum", g.op("Mul", off, off), g.shape(axes), keepdims=int(keepdim))
    count = prod(example.shape[axis] for axis in axes) - (1 if correction is None else correction)
    return g.op("Div", total, g.number(count, kind))


@_translates("cumsum")
def _cumsum(g: Model, x: fx.Node, dim: int, dtype: Any = None) -> Any:
    del dtype
    return g.op("CumSum", g.of(x, g.result.dtype), g.number(dim, torch.int64))


@_translates("_softmax")
def _softmax(g: Model, x: fx.Node, dim: int, to_float: bool) -> Any:
    del to_float
    return g.op("Softmax", g.of(x, g.result.dtype), axis=dim)


@_translates("_log_softmax")
def _log_softmax(g: Model, x: fx.Node, dim: int, to_float: bool) -> Any:
    del to_float
    return g.op("LogSoftmax", g.of(x, g.result.dtype), axis=dim)


# ------------------------------------------------------------------------------------------------ products


@_translates("mm", "bmm", "matmul")
def _mm(g: Model, x: fx.Node, y: fx.Node) -> Any:
    return g.op("MatMul", g.name(x), g.name(y))


@_translates("mv", "dot")
def _mv(g: Model, x: fx.Node, y: fx.Node) -> Any:
    return g.op("MatMul", g.name(x), g.name(y))


@_translates("addmm", "baddbmm", "addmv")
def _addmm(g: Model, bias: fx.Node, x: fx.Node, y: fx.Node, beta: Any = 1, alpha: Any = 1) -> Any:
    kind = g.result.dtype
    made, added = g.op("MatMul", g.name(x), g.name(y)), g.name(bias)
    if alpha != 1:
        made = g.op("Mul", made, g.number(alpha, kind))
    if beta != 1:
        added = g.op("Mul", added, g.number(beta, kind))
    return g.op("Add", made, added)


@_translates("convolution")
def _convolution(
    g: Model,
    x: fx.Node,
    weight: fx.Node,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    more = () if bias is None else (g.name(bias),)
    rank = _example(x).dim() - 2
    settings: dict[str, Any] = {
        "strides": _each(stride, rank),
        "pads": _each(padding, rank) * 2,
        "dilations": _each(dilation, rank),
        "group": groups,
    }
    if transposed:
        settings["output_padding"] = _each(output_padding, rank)
    return g.op("ConvTranspose" if transposed else "Conv", g.name(x), g.name(weight), *more, **settings)


@_translates("convolution_backward")
def _convolution_backward(
    g: Model,
    grad: fx.Node,
    x: fx.Node,
    weight: fx.Node,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    """The gradients of a convolution, which are two convolutions."""
    del bias_sizes, output_padding
    if transposed or groups != 1:
        raise Untranslated("the gradient of a transposed or grouped convolution has no translation")
    given, kernel, grown = _example(x), _example(weight), _example(grad)
    rank = given.dim() - 2
    strides, pads, dilations = _each(stride, rank), _each(padding, rank), _each(dilation, rank)
    d_x = d_weight = d_bias = ""
    if mask[0]:
        lost = [
            given.shape[2 + axis]
            - (
                (grown.shape[2 + axis] - 1) * strides[axis]
                - 2 * pads[axis]
                + dilations[axis] * (kernel.shape[2 + axis] - 1)
                + 1
            )
            for axis in range(rank)
        ]
        d_x = g.op(
            "ConvTranspose",
            g.name(grad),
            g.name(weight),
            strides=strides,
            pads=pads * 2,
            dilations=dilations,
            output_padding=lost,
        )
    if mask[1]:
        turned = [1, 0, *range(2, rank + 2)]
        made = g.op(
            "Conv",
            g.op("Transpose", g.name(x), perm=turned),
            g.op("Transpose", g.name(grad), perm=turned),
            strides=dilations,
            pads=pads * 2,
            dilations=strides,
        )
        axes = list(range(2, rank + 2))
        cut = g.op("Slice", made, g.shape([0] * rank), g.shape(kernel.shape[2:]), g.shape(axes))
        d_weight = g.op("Transpose", cut, perm=turned)
    if mask[2]:
        d_bias = g.op("ReduceSum", g.name(grad), g.shape([0, *range(2, rank + 2)]), keepdims=0)
    return d_x, d_weight, d_bias


def _each(given: Any, rank: int) -> list[int]:
    listed = [given] if isinstance(given, int) else list(given)
    return listed * rank if len(listed) == 1 else listed


# ------------------------------------------------------------------------------------------------ normalization


@_translates("native_layer_norm")
def _layer_norm(g: Model, x: fx.Node, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    rank = _example(x).dim()
    axes = list(range(rank - len(shape), rank))
    made, mean, inverse = _normalized(g, g.name(x), axes, eps, _example(x).dtype)
    return _affine(g, made, weight, bias), mean, inverse


def _normalized(g: Model, x: str, axes: list[int], eps: float, kind: torch.dtype) -> tuple[str, str, str]:
    mean = g.op("ReduceMean", x, g.shape(axes), keepdims=1)
    off = g.op("Sub", x, mean)
    var = g.op("ReduceMean", g.op("Mul", off, off), g.shape(axes), keepdims=1)
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", var, g.number(eps, kind))))
    return g.op("Mul", off, inverse), mean, inverse


def _affine(g: Model, x: str, weight: Any, bias: Any, shape: Any = None) -> str:
    for kind, given in (("Mul", weight), ("Add", bias)):
        if given is not None:
            name = g.name(given)
            x = g.op(kind, x, name if shape is None else g.op("Reshape", name, g.shape(shape)))
    return x


@_translates("_native_batch_norm_legit_functional")
def _batch_norm_trained(
    g: Model, x: fx.Node, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    del training
    example, kind = _example(x), _example(x).dtype
    axes = [axis for axis in range(example.dim()) if axis != 1]
    made, own_mean, inverse = _normalized(g, g.name(x), axes, eps, kind)
    channels = [example.shape[1]]
    wide = [1, *channels, *[1] * (example.dim() - 2)]
    flat_mean, flat_inverse = (g.op("Reshape", one, g.shape(channels)) for one in (own_mean, inverse))
    one = g.op("Reciprocal", flat_inverse)
    own_var = g.op("Sub", g.op("Mul", one, one), g.number(eps, kind))
    count = example.numel() // channels[0]
    unbiased = g.op("Mul", own_var, g.number(count / max(count - 1, 1), kind))

    def moved(old: fx.Node, new: str) -> str:
        kept = g.op("Mul", g.name(old), g.number(1 - momentum, kind))
        return str(g.op("Add", kept, g.op("Mul", new, g.number(momentum, kind))))

    results = _affine(g, made, weight, bias, wide), flat_mean, flat_inverse
    return (*results, moved(mean, flat_mean), moved(var, unbiased))


@_translates("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training")
def _batch_norm(g: Model, x: fx.Node, weight: Any, bias: Any, mean: Any, var: Any, *settings: Any) -> Any:
    if len(settings) == 3 and settings[0]:
        raise Untranslated("a batch norm without running statistics has no translation")
    example = _example(x)
    wide = [1, example.shape[1], *[1] * (example.dim() - 2)]
    centred = g.op("Sub", g.name(x), g.op("Reshape", g.name(mean), g.shape(wide)))
    spread = g.op("Sqrt", g.op("Add", g.name(var), g.number(settings[-1], example.dtype)))
    made = g.op("Div", centred, g.op("Reshape", spread, g.shape(wide)))
    return _affine(g, made, weight, bias, wide), "", ""


# ------------------------------------------------------------------------------------------------ shapes


@_translates("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "_reshape_alias")
def _view(g: Model, x: fx.Node, *_: Any) -> Any:
    return g.op("Reshape", g.name(x), g.shape(g.result.shape), allowzero=1)


@_translates("permute")
def _permute(g: Model, x: fx.Node, dims: Any) -> Any:
    return g.op("Transpose", g.name(x), perm=[one % len(dims) for one in dims])


@_translates("t")
def _t(g: Model, x: fx.Node) -> Any:
    return g.op("Transpose", g.name(x), perm=[1, 0][: _example(x).dim()])


@_translates("transpose")
def _transpose(g: Model, x: fx.Node, one: int, other: int) -> Any:
    order = list(range(_example(x).dim()))
    order[one], order[other] = order[other], order[one]
    return g.op("Transpose", g.name(x), perm=order)


@_translates("expand")
def _expand(g: Model, x: fx.Node, *_: Any) -> Any:
    return g.op("Expand", g.name(x), g.shape(g.result.shape))


@_translates("clone", "alias", "detach", "contiguous", "lift_fresh_copy")
def _same(g: Model, x: fx.Node, *_: Any) -> Any:
    return g.op("Identity", g.name(x))


@_translates("_to_copy")
def _to_copy(g: Model, x: fx.Node, *_: Any) -> Any:
    return g.of(x, g.result.dtype)


@_translates("copy")
def _copy(g: Model, x: fx.Node, source: fx.Node, *_: Any) -> Any:
    del x
    return g.op("Expand", g.of(source, g.result.dtype), g.shape(g.result.shape))


@_translates("cat")
def _cat(g: Model, tensors: Any, dim: int = 0) -> Any:
    kept = [one for one in tensors if _example(one).dim() or len(tensors) == 1]
    return g.op("Concat", *(g.of(one, g.result.dtype) for one in kept), axis=dim)


@_translates("slice")
def _slice(g: Model, x: fx.Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    size = _example(x).shape[dim]
    first, last, hop = slice(start, end, step).indices(size)
    return g.op("Slice", g.name(x), g.shape([first]), g.shape([last]), g.shape([dim]), g.shape([hop]))


@_translates("select")
def _select(g: Model, x: fx.Node, dim: int, index: int) -> Any:
    return g.op("Gather", g.name(x), g.number(index, torch.int64), axis=dim)


@_translates("slice_scatter")
def _slice_scatter(
    g: Model, x: fx.Node, source: fx.Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return _placed(g, x, g.name(source), dim, range(*slice(start, end, step).indices(_example(x).shape[dim])))


@_translates("select_scatter")
def _select_scatter(g: Model, x: fx.Node, source: fx.Node, dim: int, index: int) -> Any:
    return _placed(g, x, g.op("Unsqueeze", g.name(source), g.shape([dim])), dim, [index % _example(x).shape[dim]])


def _placed(g: Model, x: fx.Node, source: str, dim: int, places: Any) -> Any:
    """``x`` with ``source`` at some places along a dimension."""
    shape = list(_example(x).shape)
    axis = dim % len(shape)
    shape[axis] = len(places)
    wide = [1] * len(shape)
    wide[axis] = len(places)
    index = torch.tensor(list(places), dtype=torch.int64).view(wide).expand(shape)
    return g.op("ScatterElements", g.name(x), g.constant(index), source, axis=axis)


@_translates("split_with_sizes", "split")
def _split(g: Model, x: fx.Node, sizes: Any, dim: int = 0) -> Any:
    given = [one.shape[dim] for one in g.result]
    del sizes
    found = g.op("Split", g.name(x), g.shape(given), outputs=len(given), axis=dim)
    return [found] if len(given) == 1 else found


@_translates("constant_pad_nd")
def _pad(g: Model, x: fx.Node, pads: Any, value: Any = 0) -> Any:
    rank = _example(x).dim()
    before, after = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        before[rank - 1 - place], after[rank - 1 - place] = pads[2 * place], pads[2 * place + 1]
    return g.op("Pad", g.name(x), g.shape(before + after), g.number(value, g.result.dtype))


@_translates("repeat")
def _repeat(g: Model, x: fx.Node, times: Any) -> Any:
    grown = [*[1] * (len(times) - _example(x).dim()), *_example(x).shape]
    return g.op("Tile", g.op("Reshape", g.name(x), g.shape(grown)), g.shape(times))


@_translates("flip")
def _flip(g: Model, x: fx.Node, dims: Any) -> Any:
    count = len(dims)
    ends = [torch.iinfo(torch.int64).min] * count
    return g.op("Slice", g.name(x), g.shape([-1] * count), g.shape(ends), g.shape(dims), g.shape([-1] * count))


def _filled(value: Callable[..., Any]) -> Callable[..., Any]:
    def translate(g: Model, *args: Any) -> Any:
        number = g.number(value(*args), g.result.dtype)
        return g.op("Expand", number, g.shape(g.result.shape)) if g.result.dim() else number

    return translate


OPS.update(
    full=_filled(lambda _, value, *__: value),
    full_like=_filled(lambda _, value, *__: value),
    scalar_tensor=_filled(lambda value, *_: value),
    **{name: _filled(lambda *_: 0) for name in ("zeros", "zeros_like", "new_zeros")},
    **{name: _filled(lambda *_: 0) for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty")},
    **{name: _filled(lambda *_: 1) for name in ("ones", "ones_like")},
)


@_translates("arange")
def _arange(g: Model, start: Any, end: Any, step: Any = 1, *_: Any) -> Any:
    return g.constant(torch.arange(start, end, step if isinstance(step, int | float) else 1, dtype=g.result.dtype))


# ------------------------------------------------------------------------------------------------ positions


@_translates("gather")
def _gather(g: Model, x: fx.Node, dim: int, index: fx.Node, *_: Any) -> Any:
    return g.op("GatherElements", g.name(x), g.name(index), axis=dim)


@_translates("scatter")
def _scatter(g: Model, x: fx.Node, dim: int, index: fx.Node, source: Any) -> Any:
    if isinstance(source, fx.Node):
        _check_reach(index, source)
        given = g.of(source, g.result.dtype)
    else:
        given = g.op("Expand", g.number(source, g.result.dtype), g.shape(_example(index).shape))
    return g.op("ScatterElements", g.name(x), g.name(index), given, axis=dim)


@_translates("scatter_add")
def _scatter_add(g: Model, x: fx.Node, dim: int, index: fx.Node, source: fx.Node) -> Any:
    _check_reach(index, source)
    return g.op("ScatterElements", g.name(x), g.name(index), g.name(source), axis=dim, reduction="add")


def _check_reach(index: fx.Node, source: fx.Node) -> None:
    if _example(index).shape != _example(source).shape:
        raise Untranslated("a scatter that takes a part of its source has no translation")


@_translates("index_select")
def _index_select(g: Model, x: fx.Node, dim: int, index: fx.Node) -> Any:
    return g.op("Gather", g.name(x), g.name(index), axis=dim)


@_translates("embedding")
def _embedding(g: Model, weight: fx.Node, index: fx.Node, *_: Any) -> Any:
    return g.op("Gather", g.name(weight), g.name(index), axis=0)


@_translates("index")
def _index(g: Model, x: fx.Node, indices: Any) -> Any:
    given = [place for place, one in enumerate(indices) if one is not None]
    if len(given) != 1 or _example(indices[given[0]]).dtype is torch.bool:
        raise Untranslated("an index of several tensors, or of a mask, has no translation")
    return g.op("Gather", g.name(x), g.name(indices[given[0]]), axis=given[0])


@_translates("index_put")
def _index_put(g: Model, x: fx.Node, indices: Any, values: fx.Node, accumulate: bool = False) -> Any:
    """Rows that are put in place, as in the gradient of an embedding."""
    if len(indices) != 1 or indices[0] is None or _example(indices[0]).dtype is torch.bool:
        raise Untranslated("an index of several tensors, or of a mask, has no translation")
    place = g.op("Unsqueeze", g.name(indices[0]), g.shape([-1]))
    shape = [*_example(indices[0]).shape, *_example(x).shape[1:]]
    given = g.op("Expand", g.of(values, g.result.dtype), g.shape(shape))
    return g.op("ScatterND", g.name(x), place, given, reduction="add" if accumulate else "none")


# ------------------------------------------------------------------------------------------------ pools


@_translates("max_pool2d_with_indices")
def _max_pool(
    g: Model, x: fx.Node, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """ONNX counts positions through the whole tensor, torch through each plane."""
    example = _example(x)
    if example.dim() != 4:
        raise Untranslated("a pool of a single example has no translation: give it a batch of one")
    sizes = _each(kernel, 2)
    values, indices = g.op(
        "MaxPool",
        g.name(x),
        outputs=2,
        kernel_shape=sizes,
        strides=_each(stride, 2) if stride else sizes,
        pads=_each(padding, 2) * 2,
        dilations=_each(dilation, 2),
        ceil_mode=int(ceil_mode),
    )
    plane = example.shape[2] * example.shape[3]
    return values, g.op("Mod", indices, g.number(plane, torch.int64))


@_translates("avg_pool2d")
def _avg_pool(
    g: Model,
    x: fx.Node,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: Any = None,
) -> Any:
    if divisor is not None or ceil_mode or _example(x).dim() != 4:
        raise Untranslated("this average pool has no translation")
    sizes = _each(kernel, 2)
    return g.op(
        "AveragePool",
        g.name(x),
        kernel_shape=sizes,
        strides=_each(stride, 2) if stride else sizes,
        pads=_each(padding, 2) * 2,
        count_include_pad=int(count_include_pad),
    )


@_translates("avg_pool2d_backward")
def _avg_pool_backward(
    g: Model,
    grad: fx.Node,
    x: fx.Node,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Any:
    """Each gradient is spread over its window: a transposed convolution of each channel by itself."""
    sizes, pads, given = _each(kernel, 2), _each(padding, 2), _example(x)
    if divisor is not None or ceil_mode or given.dim() != 4 or (any(pads) and not count_include_pad):
        raise Untranslated("the gradient of this average pool has no translation")
    strides, grown = _each(stride, 2) if stride else sizes, _example(grad)
    lost = [
        given.shape[2 + axis] - ((grown.shape[2 + axis] - 1) * strides[axis] - 2 * pads[axis] + sizes[axis])
        for axis in range(2)
    ]
    weight = torch.full((given.shape[1], 1, *sizes), 1 / prod(sizes), dtype=given.dtype)
    return g.op(
        "ConvTranspose",
        g.name(grad),
        g.constant(weight),
        strides=strides,
        pads=pads * 2,
        output_padding=lost,
        group=given.shape[1],
    )

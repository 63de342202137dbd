"""The torch functions of a program as code of a kernel: one function for each that a loop nest can compute."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from nbgrad.core.dispatch.table import row_of
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.ir import ProgramStep, Value
from nbgrad.core.symbolic.nest.ir import BINARY, UNARY, Builder, KernelError
from nbgrad.core.symbolic.numbers import Number

Rule = Callable[..., Any]

_RULES: dict[str, Rule] = {}

VIEWS = frozenset(
    (
        "expand",
        "expand_as",
        "broadcast_to",
        "reshape",
        "view",
        "view_as",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "detach",
        "alias",
    )
)
"""Functions whose result shares the memory of their argument, where it can."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def decorate(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return decorate


def name_in_place(step: ProgramStep) -> str:
    """The name of the row for a step's function, or else its own, without the underscore of one that works in place."""
    name = step.name
    name = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    row = row_of(name)
    return name if row is None else row.name


def known(step: ProgramStep) -> bool:
    """Whether there is a rule for the function of a step."""
    return name_in_place(step) in _RULES


class Lowering:
    """Appends steps to a kernel."""

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.builder = Builder()
        self.numbers: dict[int, int | float] = {}
        """By the identity of a value: its number in the kernel, or the constant that each element is."""
        for value in inputs:
            self.numbers[id(value)] = self.builder.input(value.shape, truth=value.dtype == torch.bool)

    def append(self, step: ProgramStep) -> None:
        """Append one step.

        Raises:
            KernelError: no kernel computes this.
        """
        rule = _RULES.get(name_in_place(step))
        if rule is None:
            raise KernelError(f"there is no rule for {step.name}")
        given = [self._argument(one) for one in step.args]
        settings = {key: self._argument(one) for key, one in step.kwargs.items()}
        try:
            made = rule(self, step, *given, **settings)
        except TypeError as error:  # a setting that the rule does not know
            raise KernelError(f"{step.name}: {error}") from error
        result = step.result
        results = [result] if isinstance(result, Value) else [one for one in leaves(result) if isinstance(one, Value)]
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(results):
            raise KernelError(f"{step.name} with {len(results)} results")
        for value, one in zip(results, made, strict=True):
            self.numbers[id(value)] = self._shaped(one, value)

    def number(self, value: Value) -> int:
        """The number of a value in the kernel."""
        found = self.numbers[id(value)]
        return found if type(found) is int else self.builder.full(value.shape, found)

    def kernel_value(self, one: int | float, shape: Sequence[int] = ()) -> int:
        """A value of the kernel for what may be a constant."""
        return one if type(one) is int else self.builder.full(shape, one)

    def apply(self, name: str, *arguments: int | float) -> int | float:
        """A pointwise operation."""
        if not any(type(one) is int for one in arguments):
            arguments = (self.builder.full((), arguments[0]), *arguments[1:])
        return self.builder.apply(name, *arguments)

    def _shaped(self, one: int | float, value: Value) -> int | float:
        if value.dtype not in (torch.float32, torch.bool):
            raise KernelError(f"a result of {value.dtype}")
        if type(one) is not int:
            return one
        if self.builder.is_truth(one) != (value.dtype == torch.bool):
            raise KernelError(f"a result of {value.dtype}")
        if self.builder.shape(one) == value.shape:
            return one
        if math.prod(self.builder.shape(one)) == value.numel:
            return self.builder.reshape(one, value.shape)
        return self.builder.expand(one, value.shape)

    def _argument(self, one: Any) -> Any:
        """An argument of a step: values are ``_Of``, so that no rule takes a setting for one."""
        if isinstance(one, Value):
            return _Of(self.numbers[id(one)], one)
        if isinstance(one, Number):
            raise KernelError("a number that is read anew in each run")
        if type(one) in (list, tuple) and any(isinstance(part, Value | Number) for part in leaves(one)):
            raise KernelError("a list of tensors")
        return one


class _Of:
    """A tensor among the arguments of a rule."""

    __slots__ = ("number", "value")

    def __init__(self, number: int | float, value: Value) -> None:
        self.number, self.value = number, value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


def _operand(one: Any) -> int | float:
    """A tensor or a Python number as an argument of a kernel's operation."""
    if isinstance(one, _Of):
        return one.number
    if type(one) in (int, float):
        return float(one)
    raise KernelError(f"an argument {one!r}")


def _tensor(low: Lowering, one: Any) -> int:
    if not isinstance(one, _Of):
        raise KernelError(f"{one!r} in the place of a tensor")
    return low.kernel_value(one.number, one.shape)


# ---------------------------------------------------------------------------------------------------------- pointwise

_SAME = {name: name for name in (*UNARY, *BINARY) if name != "copy"}
_SAME |= {"__rmul__": "mul", "sgn": "sign", "clone": "copy", "contiguous": "copy"}


def _same(name: str) -> Rule:
    count = 1 if name in UNARY else 2

    def rule(low: Lowering, _: ProgramStep, *args: Any) -> int | float:
        if len(args) != count:
            raise KernelError(f"{name} of {len(args)} arguments")
        return low.apply(name, *map(_operand, args))

    return rule


for _torch, _own in _SAME.items():
    _RULES[_torch] = _same(_own)


@_rule("add", "__radd__")
def _(low: Lowering, _: ProgramStep, a: Any, b: Any, *, alpha: Any = 1) -> int | float:
    return low.apply("add", _operand(a), _scaled(low, b, alpha))


@_rule("sub")
def _(low: Lowering, _: ProgramStep, a: Any, b: Any, *, alpha: Any = 1) -> int | float:
    return low.apply("sub", _operand(a), _scaled(low, b, alpha))


@_rule("rsub", "__rsub__")
def _(low: Lowering, _: ProgramStep, a: Any, b: Any, *, alpha: Any = 1) -> int | float:
    return low.apply("sub", _operand(b), _scaled(low, a, alpha))


@_rule("__rtruediv__", "__rdiv__")
def _(low: Lowering, _: ProgramStep, a: Any, b: Any) -> int | float:
    """A number divided by a tensor: torch too takes the reciprocal first."""
    return low.apply("mul", low.apply("reciprocal", _operand(a)), _operand(b))


def _scaled(low: Lowering, one: Any, alpha: Any) -> int | float:
    return _operand(one) if alpha == 1 else low.apply("mul", _operand(one), _operand(alpha))


@_rule("addcmul")
def _(low: Lowering, _: ProgramStep, x: Any, a: Any, b: Any, *, value: Any = 1) -> int | float:
    return low.apply("add", _operand(x), low.apply("mul", _scaled(low, a, value), _operand(b)))


@_rule("addcdiv")
def _(low: Lowering, _: ProgramStep, x: Any, a: Any, b: Any, *, value: Any = 1) -> int | float:
    return low.apply("add", _operand(x), low.apply("div", _scaled(low, a, value), _operand(b)))


@_rule("pow", "float_power")
def _(low: Lowering, step: ProgramStep, x: Any, exponent: Any) -> int | float:
    """Powers that torch too computes by products, roots and quotients."""
    if step.name == "float_power" or type(exponent) not in (int, float):
        raise KernelError("a power with an exponent that is no number")
    base = _operand(x)
    if exponent in (2, -2, 3):
        square = low.apply("mul", base, base)
        if exponent == 2:
            return square
        return low.apply("mul", square, base) if exponent == 3 else low.apply("reciprocal", square)
    names = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "copy"}
    if exponent not in names:
        raise KernelError(f"a power with the exponent {exponent}")
    return low.apply(names[exponent], base)


@_rule("where")
def _(low: Lowering, _: ProgramStep, condition: Any, a: Any, b: Any) -> int | float:
    if not isinstance(condition, _Of) or condition.value.dtype != torch.bool:
        raise KernelError("where() of a condition that is no bool")
    return low.apply("where", _operand(condition), _operand(a), _operand(b))


@_rule("clamp")
def _(low: Lowering, _: ProgramStep, x: Any, min: Any = None, max: Any = None) -> int | float:
    found = _operand(x)
    if min is not None:
        found = low.apply("maximum", found, _operand(min))
    return found if max is None else low.apply("minimum", found, _operand(max))


@_rule("clamp_min")
def _(low: Lowering, _: ProgramStep, x: Any, min: Any) -> int | float:
    return low.apply("maximum", _operand(x), _operand(min))


@_rule("clamp_max")
def _(low: Lowering, _: ProgramStep, x: Any, max: Any) -> int | float:
    return low.apply("minimum", _operand(x), _operand(max))


@_rule("threshold_backward")
def _(low: Lowering, _: ProgramStep, grad: Any, x: Any, threshold: Any) -> int | float:
    return low.apply("where", low.apply("le", _operand(x), _operand(threshold)), 0.0, _operand(grad))


@_rule("tanh_backward")
def _(low: Lowering, _: ProgramStep, grad: Any, y: Any) -> int | float:
    slope = low.apply("sub", 1.0, low.apply("mul", _operand(y), _operand(y)))
    return low.apply("mul", _operand(grad), slope)


@_rule("sigmoid_backward")
def _(low: Lowering, _: ProgramStep, grad: Any, y: Any) -> int | float:
    slope = low.apply("mul", low.apply("sub", 1.0, _operand(y)), _operand(y))
    return low.apply("mul", _operand(grad), slope)


@_rule("silu")
def _(low: Lowering, _: ProgramStep, x: Any, inplace: bool = False) -> int | float:
    if inplace:
        raise KernelError("silu in place")
    return low.apply("mul", _operand(x), low.apply("sigmoid", _operand(x)))


@_rule("gelu")
def _(low: Lowering, _: ProgramStep, x: Any, *, approximate: str = "none") -> int | float:
    half, inner = low.apply("mul", _operand(x), 0.5), _within(low, x, approximate)
    return low.apply("mul", half, low.apply("add", inner, 1.0))


@_rule("gelu_backward")
def _(low: Lowering, _: ProgramStep, grad: Any, x: Any, *, approximate: str = "none") -> int | float:
    """The gradient times the part below x, plus x times the slope of that part."""
    value, inner = _operand(x), _within(low, x, approximate)
    below = low.apply("mul", low.apply("add", inner, 1.0), 0.5)
    square = low.apply("mul", value, value)
    if approximate == "tanh":
        slope = low.apply("sub", 1.0, low.apply("mul", inner, inner))
        stretch = low.apply("add", low.apply("mul", square, 3 * _GELU_CUBE * _GELU_TANH), _GELU_TANH)
        slope = low.apply("mul", low.apply("mul", slope, stretch), 0.5)
    else:
        slope = low.apply("mul", low.apply("exp", low.apply("mul", square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return low.apply("mul", _operand(grad), low.apply("add", below, low.apply("mul", value, slope)))


_GELU_TANH, _GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


def _within(low: Lowering, x: Any, approximate: str) -> int | float:
    """The function of a gelu that goes from -1 to 1."""
    value = _operand(x)
    if approximate == "none":
        return low.apply("erf", low.apply("mul", value, math.sqrt(0.5)))
    if approximate != "tanh":
        raise KernelError(f"gelu with approximate={approximate!r}")
    cube = low.apply("mul", low.apply("mul", low.apply("mul", value, value), value), _GELU_CUBE)
    return low.apply("tanh", low.apply("mul", low.apply("add", value, cube), _GELU_TANH))


@_rule("ones_like")
def _(_: Lowering, step: ProgramStep, x: Any, **settings: Any) -> float:
    return _constant(step, x, settings, 1.0)


@_rule("zeros_like")
def _(_: Lowering, step: ProgramStep, x: Any, **settings: Any) -> float:
    return _constant(step, x, settings, 0.0)


def _constant(step: ProgramStep, x: Any, settings: dict[str, Any], number: float) -> float:
    if not isinstance(x, _Of) or any(
        value for key, value in settings.items() if key in ("pin_memory", "requires_grad")
    ):
        raise KernelError(f"{step.name} with settings")
    return number


# -------------------------------------------------------------------------------------------------------------- views


@_rule(*VIEWS)
def _(low: Lowering, step: ProgramStep, x: Any, *_: Any, **__: Any) -> int | float:
    """The shapes say where each element goes."""
    found = _operand(x)
    (value,) = step.results()
    if type(found) is not int:
        return found
    after = value.shape
    if step.name in ("expand", "expand_as", "broadcast_to"):
        return low.builder.expand(found, after)
    return low.builder.reshape(found, after)


# --------------------------------------------------------------------------------------------------------- reductions


def _dims(x: _Of, dim: Any) -> list[int]:
    rank = len(x.shape)
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return list(range(rank))
    return [one % rank if rank else 0 for one in (dim if isinstance(dim, list | tuple) else [dim])] if rank else []


@_rule("sum")
def _(low: Lowering, _: ProgramStep, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> int:  # noqa: ARG001  # the result says it
    if dtype not in (None, torch.float32):
        raise KernelError(f"a sum in {dtype}")
    return low.builder.sum(_tensor(low, x), _dims(x, dim))


@_rule("mean")
def _(
    low: Lowering,
    _: ProgramStep,
    x: Any,
    dim: Any = None,
    keepdim: bool = False,  # noqa: ARG001  # as above
    *,
    dtype: Any = None,
) -> int | float:
    if dtype not in (None, torch.float32):
        raise KernelError(f"a mean in {dtype}")
    dims = _dims(x, dim)
    count = math.prod(x.shape[one] for one in dims)
    return low.apply("div", low.builder.sum(_tensor(low, x), dims), float(count))


@_rule("amax")
def _(low: Lowering, _: ProgramStep, x: Any, dim: Any = (), keepdim: bool = False) -> int:  # noqa: ARG001  # as above
    return low.builder.max(_tensor(low, x), _dims(x, dim))


@_rule("sum_to_size")
def _(low: Lowering, step: ProgramStep, x: Any, *_: Any) -> int:
    (value,) = step.results()
    aligned = (1,) * (len(x.shape) - len(value.shape)) + value.shape
    dims = [dim for dim, (before, after) in enumerate(zip(x.shape, aligned, strict=True)) if before != after]
    lost = [dim for dim in range(len(x.shape) - len(value.shape)) if dim not in dims]
    return low.builder.sum(_tensor(low, x), dims + lost)


@_rule("softmax", "_softmax")
def _(low: Lowering, step: ProgramStep, x: Any, dim: Any, other: Any = None, *, dtype: Any = None) -> int | float:
    _unconverted(step, other, dtype)
    return _softmax(low, _tensor(low, x), _dims(x, dim))[0]


@_rule("log_softmax", "_log_softmax")
def _(low: Lowering, step: ProgramStep, x: Any, dim: Any, other: Any = None, *, dtype: Any = None) -> int | float:
    _unconverted(step, other, dtype)
    value, dims = _tensor(low, x), _dims(x, dim)
    shifted = low.apply("sub", value, low.builder.max(value, dims))
    total = low.builder.sum(low.kernel_value(low.apply("exp", shifted)), dims)
    return low.apply("sub", shifted, low.apply("log", total))


def _unconverted(step: ProgramStep, other: Any, dtype: Any) -> None:
    if other not in (None, False, 3, torch.float32) or dtype not in (None, torch.float32):
        raise KernelError(f"{step.name} that converts its input")


def _softmax(low: Lowering, value: int, dims: list[int]) -> tuple[int | float, int]:
    powers = low.kernel_value(low.apply("exp", low.apply("sub", value, low.builder.max(value, dims))))
    total = low.builder.sum(powers, dims)
    return low.apply("div", powers, total), total


@_rule("_softmax_backward_data")
def _(low: Lowering, _: ProgramStep, grad: Any, y: Any, dim: Any, dtype: Any) -> int | float:
    if dtype != torch.float32:
        raise KernelError(f"a gradient of softmax in {dtype}")
    both = low.kernel_value(low.apply("mul", _tensor(low, grad), _tensor(low, y)))
    return low.apply("sub", both, low.apply("mul", _operand(y), low.builder.sum(both, _dims(y, dim))))


@_rule("_log_softmax_backward_data")
def _(low: Lowering, _: ProgramStep, grad: Any, y: Any, dim: Any, dtype: Any) -> int | float:
    if dtype != torch.float32:
        raise KernelError(f"a gradient of log_softmax in {dtype}")
    total = low.builder.sum(_tensor(low, grad), _dims(y, dim))
    return low.apply("sub", _operand(grad), low.apply("mul", low.apply("exp", _operand(y)), total))


@_rule("native_layer_norm")
def _(
    low: Lowering, _: ProgramStep, x: Any, shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[int | float, int | float, int | float]:
    value, dims, count = _tensor(low, x), _last(x, shape), float(math.prod(shape))
    mean = low.apply("div", low.builder.sum(value, dims), count)
    centred = low.apply("sub", value, mean)
    square = low.kernel_value(low.apply("mul", centred, centred), x.shape)
    variance = low.apply("div", low.builder.sum(square, dims), count)
    scale = low.apply("rsqrt", low.apply("add", variance, float(eps)))
    found = low.apply("mul", centred, scale)
    if weight is not None:
        found = low.apply("mul", found, _operand(weight))
    if bias is not None:
        found = low.apply("add", found, _operand(bias))
    return found, mean, scale


@_rule("native_layer_norm_backward")
def _(
    low: Lowering,
    _: ProgramStep,
    grad: Any,
    x: Any,
    shape: Any,
    mean: Any,
    scale: Any,
    weight: Any,
    bias: Any,  # noqa: ARG001  # its gradient needs it not
    wanted: Sequence[bool],
) -> tuple[int | float, ...]:
    dims, count = _last(x, shape), float(math.prod(shape))
    rows = [dim for dim in range(len(x.shape)) if dim not in dims]
    normed = low.apply("mul", low.apply("sub", _tensor(low, x), _operand(mean)), _operand(scale))
    given = _tensor(low, grad)
    found: list[int | float] = []
    if wanted[0]:
        scaled = given if weight is None else low.kernel_value(low.apply("mul", given, _operand(weight)), x.shape)
        along = low.kernel_value(low.apply("mul", scaled, normed), x.shape)
        average = low.apply("div", low.builder.sum(scaled, dims), count)
        part = low.apply("div", low.builder.sum(along, dims), count)
        left = low.apply("sub", low.apply("sub", scaled, average), low.apply("mul", normed, part))
        found.append(low.apply("mul", left, _operand(scale)))
    if wanted[1]:
        found.append(low.builder.sum(low.kernel_value(low.apply("mul", given, normed), x.shape), rows))
    if wanted[2]:
        found.append(low.builder.sum(given, rows))
    return tuple(found)


def _last(x: _Of, shape: Sequence[int]) -> list[int]:
    """The dimensions that a layer norm works on."""
    rank = len(x.shape)
    return list(range(rank - len(shape), rank))

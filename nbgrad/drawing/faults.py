"""The usual faults of the gradient rules that people write: the gradient that each gives.

A fault is named only where its numbers are those of the engine. A row of the tables here has a key, the words that
follow "the rule", and the numbers that the wrong rule gives.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.broadcast import sum_to
from nbgrad.core.translation import message, translate
from nbgrad.drawing.calls import Numbers, OpCall, wide


@dataclass(frozen=True)
class EngineFault:
    """A fault of a forward or of a rule.

    Attributes:
        key: the same for the same fault in every box.
        text: the end of a sentence that begins with the rule, or with the op.
        rank: how simple it is. Of two faults that explain as much, the one with the smaller rank is named.
    """

    key: str
    text: str
    rank: int = 2


SIGN = EngineFault("sign", message("has the wrong sign"), 1)
OUTER = EngineFault("outer", message("gives the local derivative alone: multiply it by the gradient of the result"), 1)
LOCAL = EngineFault(
    "local", message("passes the gradient of the result on as it is: the local derivative is missing"), 1
)
EXCHANGED = EngineFault("exchanged", message("gives each input the gradient that belongs to the other one"))
ZERO = EngineFault("zero", message("adds nothing to the gradient of this input"))
UNSUMMED = EngineFault("unsummed", message("does not undo the broadcast: the gradient has to be summed over {dims}"))
AVERAGED = EngineFault("averaged", message("takes a mean over {dims}, where the broadcast is undone by a sum"))
OTHER_SUM = EngineFault("other sum", message("sums over the wrong dimensions: the broadcast is over {dims}"))
ONE_ROW = EngineFault("one row", message("keeps one row of the gradient, where it has to be summed over {dims}"))
KEPT = EngineFault("kept", message("gives the right numbers in another shape: the summed dimensions are kept"))
DROPPED = EngineFault(
    "dropped", message("gives the right numbers in another shape: dimensions of size 1 of the input are missing")
)
MEMORY = EngineFault(
    "memory",
    message("takes the numbers of the gradient as they lie in the memory, which a permutation leaves as it was"),
)
AT_RESULT = EngineFault(
    "at result", message("computes the local derivative from the result, where the input belongs"), 3
)
AT_INPUT = EngineFault("at input", message("computes the local derivative from the input, where the result belongs"), 3)
VALUE = EngineFault("value", message("multiplies by the result instead of by the local derivative"), 3)
TIMES_INPUT = EngineFault("input", message("multiplies by the input instead of by the local derivative"), 3)
INVERSE = EngineFault("inverse", message("divides by the local derivative instead of multiplying by it"), 3)
UNTRANSPOSED = EngineFault("untransposed", message("lacks a transpose, or has one too many"))
SWAPPED_PRODUCT = EngineFault("swapped product", message("multiplies its two matrices in the wrong order"))
TRANSPOSED = EngineFault("transposed", message("gives the transposed of the right gradient"))
PERMUTED = EngineFault(
    "permuted", message("permutes the gradient as the forward did: it needs the inverse permutation")
)
STRAIGHT = EngineFault("straight", message("does not bring the dimensions of the gradient back into their order"))

CONSTANT = frozenset(
    ["add", "sub", "neg", "sum", "mean", "reshape", "permute", "expand", "clone", "cat", "stack", "getitem"]
)
"""Rows whose local derivatives are constant: where one is missing, that is a wrong sign, a factor or no fault."""


@dataclass(frozen=True)
class RuleStep:
    """An op of the engine in the backward, with the engine's own numbers.

    Attributes:
        call: the call of nbgrad's op.
        values: the numbers of its tensor arguments.
        out: the engine's number for its result.
        gradient: the gradient of the result.
    """

    call: OpCall
    values: tuple[Numbers, ...]
    out: Numbers
    gradient: Numbers

    @cached_property
    def right(self) -> list[Numbers] | None:
        """The gradient that each argument gets by nbgrad's rule; None if it cannot be computed."""
        return self.call.pull(self.values, self.gradient)

    def slopes(self) -> list[Numbers] | None:
        """The gradient of each argument from a gradient of 1."""
        return self.call.pull(self.values, torch.ones_like(self.gradient))

    def faults(self, argument: int) -> dict[str, tuple[EngineFault, Numbers]]:
        """By key, each fault of the rule for this argument, and the gradient that it gives."""
        return self._faults[argument]

    def wrong(self, argument: int, key: str) -> Numbers | None:
        """The gradient of an argument with the fault of this key; None if its rule has no such fault."""
        if "_faults" in self.__dict__:
            found = self._faults[argument].get(key)
            return None if found is None else found[1]
        made = (numbers for fault, numbers in _faults_of(self, argument) if fault.key == key and numbers is not None)
        return next(made, None)

    @cached_property
    def _faults(self) -> list[dict[str, tuple[EngineFault, Numbers]]]:
        found: list[dict[str, tuple[EngineFault, Numbers]]] = []
        for argument in range(len(self.values)):
            mine: dict[str, tuple[EngineFault, Numbers]] = {}
            for fault, numbers in _faults_of(self, argument):
                if numbers is not None:
                    mine.setdefault(fault.key, (fault, numbers))
            found.append(mine)
        return found

    def bounds(self, argument: int) -> tuple[Numbers, Numbers] | None:
        """The least and the largest gradient of an argument at a kink, where every number between is right."""
        right = self.right
        if right is None or self.call.name not in _KINKED:
            return None
        made = [right[argument]]
        for shift in _shifts(self.values):
            pulled = self.call.pull(shift, self.gradient)
            if pulled is not None:
                made.append(pulled[argument])
        if self.call.name in ("amax", "amin") and (lifted := _of_every_winner(self, argument)) is not None:
            made += [lifted, torch.where(lifted != 0, 0.0, right[argument])]
        every = torch.stack(made)
        return every.amin(0), every.amax(0)


_KINKED = frozenset(
    ["relu", "abs", "leaky_relu", "maximum", "minimum", "amax", "amin", "clamp", "relu6", "hardtanh", "elu", "l1_loss"]
)
"""Rows with kinks, at which engines may choose different slopes."""


def _shifts(values: Sequence[Numbers]) -> Iterator[list[Numbers]]:
    """The arguments a little to one side of where they are, and with each tie broken in either direction."""
    for sign in (1e-7, -1e-7):
        for ramp in (False, True):
            moved = []
            for at, one in enumerate(values):
                step = torch.arange(1.0, one.numel() + 1, dtype=one.dtype).reshape(one.shape) if ramp else 1.0
                size = float(one.abs().max()) if one.numel() else 0.0
                moved.append(one + sign * max(size, 1.0) * step * (1 - 2 * (at % 2)))
            yield moved


def _of_every_winner(step: RuleStep, argument: int) -> Numbers | None:
    """The gradient of an extreme if every element that is equal to it gets the whole."""
    x, dims = step.values[argument], step.call.dims
    out, gradient = step.out, step.gradient
    if x.ndim and out.ndim != x.ndim:
        shape = tuple(1 if at in dims else size for at, size in enumerate(x.shape))
        if prod(shape) != out.numel():
            return None
        out, gradient = out.reshape(shape), gradient.reshape(shape)
    return torch.where(x == out, gradient.expand_as(x), 0.0)


def _faults_of(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """The faults of the rule for one argument."""
    if step.right is None:
        return
    right, name = step.right[argument], step.call.name
    yield SIGN, -right
    slopes = step.slopes()
    if slopes is not None:
        yield OUTER, slopes[argument]
    if name not in CONSTANT and name not in ("amax", "amin"):
        yield LOCAL, _fitted(step.gradient, right)
    for table in (_of_row, _of_pair, _of_broadcast, _of_one):
        yield from table(step, argument)
    if 1 in right.shape and right.numel() > 1:
        yield DROPPED, right.squeeze()
    yield ZERO, torch.zeros_like(right)
    yield from _factors(step, argument)


def _fitted(gradient: Numbers, like: Numbers) -> Numbers | None:
    """A gradient that is passed on: stretched, or summed down, to the shape of the input."""
    if gradient.shape == like.shape:
        return gradient
    try:
        return gradient.expand_as(like)
    except RuntimeError:
        pass
    try:
        summed: Numbers = sum_to(gradient, tuple(gradient.shape), tuple(like.shape))
    except RuntimeError:
        return None
    return summed


def _factors(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers]]:
    """A factor 2 or a number of elements too many, or missing."""
    assert step.right is not None
    right = step.right[argument]
    yield EngineFault("factor 2", translate("gives twice the right gradient: a factor 2 is too many"), 4), 2 * right
    yield EngineFault("factor 1/2", translate("gives half of the right gradient: a factor 2 is missing"), 4), right / 2
    counts = {*step.values[argument].shape, *step.out.shape, step.values[argument].numel(), step.out.numel()}
    for count in sorted(counts - {0, 1, 2}):
        many = translate(
            "gives {count} times the right gradient: a mean over {count} elements became a sum", count=count
        )
        few = translate("gives 1/{count} of the right gradient: a sum over {count} elements became a mean", count=count)
        yield EngineFault(f"times {count}", many, 4), right * count
        yield EngineFault(f"over {count}", few, 4), right / count


# Rules of a single op.


class _Elementwise(NamedTuple):
    """The numbers of an op of one input: the input, the result, and the gradient of the result."""

    x: Numbers
    y: Numbers
    g: Numbers


Rule = Callable[[_Elementwise], Numbers]

_ONE_SIDE: tuple[str, str, Rule] = (
    "one side", message("adds nothing where the input is negative"), lambda s: s.g * (s.x > 0)
)  # fmt: skip

_UNARY: dict[str, list[tuple[str, str, Rule]]] = {
    "tanh": [
        (
            "1-y",
            message("multiplies by 1 - y, where 1 - y² is right: the square is missing"),
            lambda s: s.g * (1 - s.y),
        ),
        ("y2", message("multiplies by y², where 1 - y² is right"), lambda s: s.g * s.y * s.y),
        ("1+y2", message("multiplies by 1 + y², where 1 - y² is right"), lambda s: s.g * (1 + s.y * s.y)),
        ("y(1-y)", message("is that of sigmoid, y (1 - y), where 1 - y² is right"), lambda s: s.g * s.y * (1 - s.y)),
        (
            "1-x2",
            message("uses the input where the result belongs: 1 - x² instead of 1 - y²"),
            lambda s: s.g * (1 - s.x * s.x),
        ),
    ],
    "sigmoid": [
        ("y", message("multiplies by y, where y (1 - y) is right"), lambda s: s.g * s.y),
        ("1-y", message("multiplies by 1 - y, where y (1 - y) is right"), lambda s: s.g * (1 - s.y)),
        ("1+y", message("multiplies by y (1 + y), where y (1 - y) is right"), lambda s: s.g * s.y * (1 + s.y)),
        ("1-y2", message("is that of tanh, 1 - y², where y (1 - y) is right"), lambda s: s.g * (1 - s.y * s.y)),
        ("x(1-x)", message("uses the input where the result belongs: x (1 - x)"), lambda s: s.g * s.x * (1 - s.x)),
    ],
    "exp": [
        ("x", message("multiplies by the input, where the result belongs"), lambda s: s.g * s.x),
        (
            "power",
            message("is that of a power, x exp(x - 1), where exp(x) is right"),
            lambda s: s.g * s.x * torch.exp(s.x - 1),
        ),
        ("inverse", message("divides by the result, where it has to multiply by it"), lambda s: s.g / s.y),
    ],
    "log": [
        ("x", message("multiplies by the input, where it has to divide by it"), lambda s: s.g * s.x),
        ("1/y", message("divides by the result, where the input belongs"), lambda s: s.g / s.y),
        ("1/x2", message("divides by the square of the input, where the input belongs"), lambda s: s.g / (s.x * s.x)),
        ("y", message("multiplies by the result, where it has to divide by the input"), lambda s: s.g * s.y),
    ],
    "sqrt": [
        ("1/2x", message("divides by 2 x, where 2 y is right"), lambda s: s.g / (2 * s.x)),
        ("y/2", message("multiplies by y / 2, where it has to divide by 2 y"), lambda s: s.g * s.y / 2),
        ("2y", message("multiplies by 2 y, where it has to divide by it"), lambda s: s.g * 2 * s.y),
    ],
    "reciprocal": [
        ("-1/x", message("divides by x, where x² is right: the square is missing"), lambda s: -s.g / s.x),
        ("-x2", message("multiplies by x², where it has to divide by it"), lambda s: -s.g * s.x * s.x),
        (
            "-1/y2",
            message("divides by the square of the result, where that of the input belongs"),
            lambda s: -s.g * s.x * s.x,
        ),
    ],
    "relu": [
        ("x", message("multiplies by the input, where 1 is right"), lambda s: s.g * s.x * (s.x > 0)),
        ("other side", message("lets the gradient through where the input is negative"), lambda s: s.g * (s.x < 0)),
        (
            "by gradient",
            message("asks whether the gradient is positive: it has to ask the input"),
            lambda s: s.g * (s.g > 0),
        ),
    ],
    "leaky_relu": [_ONE_SIDE],
    "elu": [_ONE_SIDE],
    "abs": [("|x|", message("multiplies by the input, where its sign is right"), lambda s: s.g * s.x)],
    "sin": [("y", message("multiplies by sin x, where cos x is right"), lambda s: s.g * s.y)],
    "cos": [("y", message("multiplies by cos x, where -sin x is right"), lambda s: s.g * s.y)],
    "softmax": [
        (
            "diagonal",
            message("lacks the paths to the other elements: y (1 - y) alone"),
            lambda s: s.g * s.y * (1 - s.y),
        ),
        ("y", message("multiplies by y alone: the sum over y ȳ has to be subtracted"), lambda s: s.g * s.y),
    ],
    "log_softmax": [
        ("no sum", message("subtracts softmax(x), and not softmax(x) times the sum of ȳ"), lambda s: s.g - s.y.exp()),
        ("product", message("multiplies softmax(x) by ȳ, and not by the sum of ȳ"), lambda s: s.g - s.y.exp() * s.g),
    ],
}
"""For ops of one input, the wrong rules: key, words, and the gradient from x, y and the gradient of y."""


def _of_row(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """The faults of the rules of single ops."""
    x, y, g = step.values[argument], step.out, step.gradient
    if x.shape == y.shape == g.shape:
        for key, text, rule in _UNARY.get(step.call.name, ()):
            yield EngineFault(key, text), rule(_Elementwise(x, y, g))
    maker = _ROWS.get(step.call.name)
    if maker is not None:
        yield from maker(step, argument)


def _power(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    n, x, g = step.call.exponent, step.values[argument], step.gradient
    if n is None or x.shape != g.shape:
        return
    yield EngineFault("n x^n", translate("does not lower the exponent: n xⁿ, where n xⁿ⁻¹ is right")), g * n * x**n
    yield EngineFault("x^(n-1)", translate("lacks the factor n of n xⁿ⁻¹")), g * x ** (n - 1)
    yield EngineFault("n x^(n-2)", translate("lowers the exponent twice")), g * n * x ** (n - 2)
    yield EngineFault("(n-1) x^(n-1)", translate("multiplies by n - 1, where n is right")), g * (n - 1) * x ** (n - 1)
    yield EngineFault("n x", translate("multiplies by n x, where n xⁿ⁻¹ is right")), g * n * x
    yield EngineFault("n", translate("multiplies by n alone, where n xⁿ⁻¹ is right")), g * n
    yield EngineFault("x^n", translate("multiplies by xⁿ, where n xⁿ⁻¹ is right")), g * x**n
    yield EngineFault("n x^(n+1)", translate("raises the exponent, where it has to lower it")), g * n * x ** (n + 1)


def _quotient(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    if len(step.values) != 2:
        return
    (a, b), g = step.values, step.gradient
    if argument == 0:
        wrong = [("b", translate("multiplies by b, where it has to divide by it"), g * b)]
    else:
        wrong = [
            ("-a/b", translate("divides by b, where b² is right: the square is missing"), -g * a / b),
            ("-1/b2", translate("lacks the factor a of -a / b²"), -g / (b * b) + 0 * a),
            ("1/b2", translate("lacks the factor -a of -a / b²"), g / (b * b) + 0 * a),
            ("1/b", translate("is that of the numerator, 1 / b"), g / b + 0 * a),
            ("a", translate("is that of a product, a"), g * a + 0 * b),
        ]
    for key, text, numbers in wrong:
        yield EngineFault(key, text), _fitted(numbers, step.values[argument])


def _product(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    x = step.values[argument]
    own = _fitted(step.gradient * x, x)
    yield EngineFault("own", translate("multiplies by the input itself, where the other input belongs")), own
    yield (
        EngineFault("result", translate("multiplies by the result, where the other input belongs")),
        _fitted(step.gradient * step.out, x),
    )
    if len(step.values) == 2:
        other = step.values[1 - argument]
        yield (
            EngineFault("plus", translate("adds the other input, where it has to multiply by it")),
            _fitted(step.gradient + other, x),
        )


def _sum(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    if len(step.values) == 2:
        a, b = step.values
        x = step.values[argument]
        other = b if argument == 0 else a
        yield (
            EngineFault("times other", translate("is that of a product: it multiplies by the other input")),
            _fitted(step.gradient * other, x),
        )


def _averages(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """A sum whose gradient is that of a mean, and the other way round."""
    assert step.right is not None
    x, right = step.values[argument], step.right[argument]
    count = prod([x.shape[dim] for dim in step.call.dims]) if x.ndim else 1
    if count < 2:
        return
    if step.call.name == "mean":
        text = translate("is that of a sum: each of the {count} elements gets 1/{count} of the gradient", count=count)
        yield EngineFault("sum", text), right * count
        yield EngineFault("twice", translate("divides by {count} twice", count=count)), right / count
        for other in sorted({*x.shape, x.numel()} - {0, 1, count}):
            text = translate("divides by {other}, where the mean is over {count} elements", other=other, count=count)
            yield EngineFault(f"n {other}", text), right * count / other
    else:
        text = translate(
            "is that of a mean: it divides by {count}, where each element gets the whole gradient", count=count
        )
        yield EngineFault("mean", text), right / count


def _extreme(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    x, dims = step.values[argument], step.call.dims
    shape = tuple(1 if at in dims else size for at, size in enumerate(x.shape))
    if prod(shape) == step.gradient.numel():
        whole = step.gradient.reshape(shape).expand_as(x)
        yield (
            EngineFault(
                "no mask", translate("gives the gradient to every element, not only to the largest or smallest")
            ),
            whole,
        )


def _matmul(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """All products of the gradient with the other matrix, in either order, with and without transposes."""
    if len(step.values) != 2 or min(one.ndim for one in (*step.values, step.gradient)) < 2:
        return
    assert step.right is not None
    other, g, right = step.values[1 - argument], step.gradient, step.right[argument]
    for one, two in ((g, other), (other, g)):
        for a, left in ((one, "straight "), (one.mT, "turned ")):
            for b, right_side in ((two, "straight "), (two.mT, "turned ")):
                straight = (one is g) == (argument == 0)
                right_one = straight and (b is not other if one is g else a is not other) and (a is g or b is g)
                if right_one or a.shape[-1] != b.shape[-2] or a.ndim != b.ndim:
                    continue
                fault = UNTRANSPOSED if straight else SWAPPED_PRODUCT
                turned = f"{left}{right_side}" if one is g else f"{right_side}{left}"
                yield replace(fault, key=f"{fault.key} {turned}"), a @ b
    yield TRANSPOSED, right.mT
    yield from _elementwise(right, other, g)


def _elementwise(right: Numbers, other: Numbers, g: Numbers) -> Iterator[tuple[EngineFault, Numbers]]:
    if right.shape == g.shape == other.shape:
        yield (
            EngineFault("elementwise", translate("multiplies elementwise, where a matrix product is right")),
            g * other,
        )


def _permutation(step: RuleStep, _: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    order = step.call.dims
    if len(order) == step.gradient.ndim:
        yield PERMUTED, step.gradient.permute(order)
        yield STRAIGHT, step.gradient


def _view(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """The gradient comes from a permutation, which changes strides alone."""
    g, shape = step.gradient, step.values[argument].shape
    if not g.is_contiguous() and g.numel() == prod(shape):
        steps = g.stride()
        whole = g.permute(sorted(range(g.ndim), key=lambda at: -steps[at]))
        if whole.is_contiguous():
            yield MEMORY, whole.reshape(shape)


_ROWS: dict[str, Callable[[RuleStep, int], Iterator[tuple[EngineFault, Numbers | None]]]] = {
    "pow": _power,
    "div": _quotient,
    "mul": _product,
    "add": _sum,
    "sub": _sum,
    "matmul": _matmul,
    "mean": _averages,
    "sum": _averages,
    "amax": _extreme,
    "amin": _extreme,
    "permute": _permutation,
    "reshape": _view,
}


def _of_pair(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """The gradients of two inputs are exchanged."""
    if len(step.values) == 2 and step.right is not None and step.call.name != "mul":
        yield EXCHANGED, _fitted(step.right[1 - argument], step.values[argument])


def _of_one(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """An elementwise op of one input: its derivative at the wrong place, or combined in the wrong way."""
    x, y, g = step.values[argument], step.out, step.gradient
    if len(step.values) != 1 or not x.shape == y.shape == g.shape or step.call.name in CONSTANT:
        return
    slopes = step.slopes()
    pulled = step.call.pull([y], g)
    yield AT_RESULT, None if pulled is None else pulled[0]
    yield AT_INPUT, _from_result(step, x)
    yield VALUE, g * y
    yield TIMES_INPUT, g * x
    yield INVERSE, None if slopes is None else g / slopes[0]


def _from_result(step: RuleStep, wrong: Numbers) -> Numbers | None:
    """The gradient that a rule of nbgrad's gives if it gets another number in the place of the result."""
    row = OPS[step.call.name]
    rule = row.rules.get(row.inputs[0])
    if rule is None or rule.needs != ("out",):
        return None
    try:
        made: Any = rule.function(step.gradient, wrong)
    except (RuntimeError, TypeError, ValueError):
        return None
    return wide(made) if isinstance(made, torch.Tensor) else None


def _of_broadcast(step: RuleStep, argument: int) -> Iterator[tuple[EngineFault, Numbers | None]]:
    """The sum that undoes a broadcast is missing, or is wrong."""
    x, whole = step.values[argument], step.out.shape
    stretched = _stretched_shape(step, argument)
    if stretched is None or stretched == tuple(x.shape):
        return
    values = list(step.values)
    values[argument] = x.expand(stretched).contiguous()
    pulled = step.call.pull(values, step.gradient)
    if pulled is None:
        return
    full = pulled[argument]
    lead = full.ndim - x.ndim
    over = [at for at in range(full.ndim) if at < lead or x.shape[at - lead] != full.shape[at]]
    named = _named_dims(over, whole)
    for fault, numbers in _broken_sums(full, x, over):
        yield EngineFault(fault.key, translate(fault.text, dims=named), fault.rank), numbers


def _named_dims(dims: Sequence[int], shape: Sequence[int]) -> str:
    sizes = translate(" and ").join(
        translate("dimension {at} ({size} elements)", at=at, size=shape[at]) for at in dims if at < len(shape)
    )
    return translate("{sizes}, the batch", sizes=sizes) if list(dims) == [0] and len(shape) > 1 else sizes


def _stretched_shape(step: RuleStep, argument: int) -> tuple[int, ...] | None:
    """The shape to which the op stretches this argument; None if it stretches none."""
    x, out = step.values[argument], step.out
    if step.call.name == "matmul":
        if x.ndim < 2 or out.ndim <= 2:
            return None
        return (*out.shape[:-2], *x.shape[-2:])
    row = OPS.get(step.call.name)
    return tuple(out.shape) if row is not None and row.broadcasts else None


def _broken_sums(full: Numbers, x: Numbers, over: list[int]) -> Iterator[tuple[EngineFault, Numbers]]:
    """Wrong ways to bring ``full`` to the shape of ``x``, where it has to be summed over the dimensions ``over``."""
    yield UNSUMMED, full
    shape = tuple(x.shape)
    kept = full.sum(over, keepdim=True)
    if tuple(kept.shape) != shape:
        yield KEPT, kept
    yield AVERAGED, full.mean(over).reshape(shape)
    for at in (0, -1):
        row = full
        for dim in over:
            row = row.narrow(dim, at % full.shape[dim], 1)
        yield ONE_ROW, row.reshape(shape)
    for count in range(1, full.ndim + 1):
        for dims in combinations(range(full.ndim), count):
            if list(dims) == over:
                continue
            for keep in (False, True):
                made = full.sum(dims, keepdim=keep)
                fault = UNSUMMED if set(dims) < set(over) else OTHER_SUM
                yield EngineFault(f"{fault.key} {dims}{keep}", fault.text, 3), made
                if made.numel() == 1 and x.numel() > 1:
                    yield EngineFault(f"{fault.key} {dims} all", fault.text, 3), made.reshape(()).expand(shape)

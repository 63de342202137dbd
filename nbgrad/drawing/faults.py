"""The usual faults of engines that people write: what each would make of a value or of a gradient.

A fault is named only where its numbers are those of the engine. A row of the tables here has a key, the words that
follow "the rule", and the numbers that the wrong rule gives.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.drawing.calls import Call, Numbers, wide


@dataclass(frozen=True)
class Fault:
    """A fault of a forward or of a rule.

    Attributes:
        key: the same for the same fault in every box.
        text: the end of a sentence that begins with the rule, or with the op.
        rank: how simple it is. Of two faults that explain as much, the one with the smaller rank is named.
    """

    key: str
    text: str
    rank: int = 2


SIGN = Fault("sign", "has the wrong sign", 1)
OUTER = Fault("outer", "gives the local derivative alone: it has to be multiplied by the gradient of the result", 1)
LOCAL = Fault("local", "passes the gradient of the result on as it is: the local derivative is missing", 1)
EXCHANGED = Fault("exchanged", "gives each input the gradient that belongs to the other one")
ZERO = Fault("zero", "adds nothing to the gradient of this input", 4)
UNSUMMED = Fault("unsummed", "does not undo the broadcast: the gradient has to be summed over {dims}")
AVERAGED = Fault("averaged", "takes a mean over {dims}, where the broadcast is undone by a sum")
OTHER_SUM = Fault("other sum", "sums over the wrong dimensions: the broadcast is over {dims}")
ONE_ROW = Fault("one row", "keeps one row of the gradient, where it has to be summed over {dims}")
KEPT = Fault("kept", "gives the right numbers in another shape: the summed dimensions are kept")
AT_RESULT = Fault("at result", "computes the local derivative from the result, where the input belongs", 3)
AT_INPUT = Fault("at input", "computes the local derivative from the input, where the result belongs", 3)
VALUE = Fault("value", "multiplies by the result instead of by the local derivative", 3)
TIMES_INPUT = Fault("input", "multiplies by the input instead of by the local derivative", 3)
INVERSE = Fault("inverse", "divides by the local derivative instead of multiplying by it", 3)
UNTRANSPOSED = Fault("untransposed", "lacks a transpose, or has one too many")
SWAPPED_PRODUCT = Fault("swapped product", "multiplies its two matrices in the wrong order")
TRANSPOSED = Fault("transposed", "gives the transposed of the right gradient")
PERMUTED = Fault("permuted", "permutes the gradient as the forward did: it needs the inverse permutation")
STRAIGHT = Fault("straight", "does not bring the dimensions of the gradient back into their order")

PLUS_MINUS = frozenset(["add", "sub", "neg", "sum", "reshape", "permute", "expand", "clone", "cat", "stack", "getitem"])
"""Rows whose local derivatives are 1, -1 and 0: a missing derivative is a wrong sign or no fault."""


@dataclass(frozen=True)
class Step:
    """An op of the engine in the backward, with the engine's own numbers.

    Attributes:
        call: the call of nbgrad's op.
        values: the numbers of its tensor arguments.
        out: the engine's number for its result.
        gradient: the gradient of the result.
    """

    call: Call
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

    def faults(self, argument: int) -> dict[str, tuple[Fault, Numbers]]:
        """By key, each fault of the rule for this argument, and the gradient that it gives."""
        return self._faults[argument]

    @cached_property
    def _faults(self) -> list[dict[str, tuple[Fault, Numbers]]]:
        found: list[dict[str, tuple[Fault, Numbers]]] = []
        for argument in range(len(self.values)):
            mine: dict[str, tuple[Fault, Numbers]] = {}
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


def _of_every_winner(step: Step, argument: int) -> Numbers | None:
    """The gradient of an extreme if every element that is equal to it gets the whole."""
    x, dims = step.values[argument], step.call.dims
    out, gradient = step.out, step.gradient
    if x.ndim and out.ndim != x.ndim:
        shape = tuple(1 if at in dims else size for at, size in enumerate(x.shape))
        if prod(shape) != out.numel():
            return None
        out, gradient = out.reshape(shape), gradient.reshape(shape)
    return torch.where(x == out, gradient.expand_as(x), 0.0)


def _faults_of(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """The faults of the rule for one argument."""
    if step.right is None:
        return
    right, name = step.right[argument], step.call.name
    yield SIGN, -right
    slopes = step.slopes()
    if slopes is not None:
        yield OUTER, slopes[argument]
    if name not in PLUS_MINUS:
        yield LOCAL, _fitted(step.gradient, right)
    for table in (_of_row, _of_pair, _of_broadcast, _of_one):
        yield from table(step, argument)
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
        return gradient.sum_to_size(*like.shape)
    except RuntimeError:
        return None


def _factors(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers]]:
    """A factor 2 or a number of elements too many, or missing."""
    assert step.right is not None
    right = step.right[argument]
    yield Fault("factor 2", "gives twice the right gradient: a factor 2 is too many", 4), 2 * right
    yield Fault("factor 1/2", "gives half of the right gradient: a factor 2 is missing", 4), right / 2
    counts = {*step.values[argument].shape, *step.out.shape, step.values[argument].numel(), step.out.numel()}
    for count in sorted(counts - {0, 1, 2}):
        many = f"gives {count} times the right gradient: a mean over {count} elements became a sum"
        few = f"gives 1/{count} of the right gradient: a sum over {count} elements became a mean"
        yield Fault(f"times {count}", many, 4), right * count
        yield Fault(f"over {count}", few, 4), right / count


# Rules of a single op.

Rule = Callable[[Numbers, Numbers, Numbers], Numbers]

_UNARY: dict[str, list[tuple[str, str, Rule]]] = {
    "tanh": [
        ("1-y", "multiplies by 1 - y, where 1 - y² is right: the square is missing", lambda x, y, g: g * (1 - y)),
        ("y2", "multiplies by y², where 1 - y² is right", lambda x, y, g: g * y * y),
        ("1+y2", "multiplies by 1 + y², where 1 - y² is right", lambda x, y, g: g * (1 + y * y)),
        ("y(1-y)", "is that of sigmoid, y (1 - y), where 1 - y² is right", lambda x, y, g: g * y * (1 - y)),
        ("1-x2", "uses the input where the result belongs: 1 - x² instead of 1 - y²", lambda x, y, g: g * (1 - x * x)),
    ],
    "sigmoid": [
        ("y", "multiplies by y, where y (1 - y) is right", lambda x, y, g: g * y),
        ("1-y", "multiplies by 1 - y, where y (1 - y) is right", lambda x, y, g: g * (1 - y)),
        ("1+y", "multiplies by y (1 + y), where y (1 - y) is right", lambda x, y, g: g * y * (1 + y)),
        ("1-y2", "is that of tanh, 1 - y², where y (1 - y) is right", lambda x, y, g: g * (1 - y * y)),
        ("x(1-x)", "uses the input where the result belongs: x (1 - x)", lambda x, y, g: g * x * (1 - x)),
    ],
    "exp": [
        ("x", "multiplies by the input, where the result belongs", lambda x, y, g: g * x),
        ("power", "is that of a power, x exp(x - 1), where exp(x) is right", lambda x, y, g: g * x * torch.exp(x - 1)),
        ("inverse", "divides by the result, where it has to multiply by it", lambda x, y, g: g / y),
    ],
    "log": [
        ("x", "multiplies by the input, where it has to divide by it", lambda x, y, g: g * x),
        ("1/y", "divides by the result, where the input belongs", lambda x, y, g: g / y),
        ("1/x2", "divides by the square of the input, where the input belongs", lambda x, y, g: g / (x * x)),
        ("y", "multiplies by the result, where it has to divide by the input", lambda x, y, g: g * y),
    ],
    "sqrt": [
        ("1/2x", "divides by 2 x, where 2 y is right", lambda x, y, g: g / (2 * x)),
        ("y/2", "multiplies by y / 2, where it has to divide by 2 y", lambda x, y, g: g * y / 2),
        ("2y", "multiplies by 2 y, where it has to divide by it", lambda x, y, g: g * 2 * y),
    ],
    "reciprocal": [
        ("-1/x", "divides by x, where x² is right: the square is missing", lambda x, y, g: -g / x),
        ("-x2", "multiplies by x², where it has to divide by it", lambda x, y, g: -g * x * x),
        ("-1/y2", "divides by the square of the result, where that of the input belongs", lambda x, y, g: -g * x * x),
    ],
    "relu": [
        ("x", "multiplies by the input, where 1 is right", lambda x, y, g: g * x * (x > 0)),
        ("other side", "lets the gradient through where the input is negative", lambda x, y, g: g * (x < 0)),
        ("by gradient", "asks whether the gradient is positive: it has to ask the input", lambda x, y, g: g * (g > 0)),
    ],
    "abs": [("|x|", "multiplies by the input, where its sign is right", lambda x, y, g: g * x)],
    "sin": [("y", "multiplies by sin x, where cos x is right", lambda x, y, g: g * y)],
    "cos": [("y", "multiplies by cos x, where -sin x is right", lambda x, y, g: g * y)],
    "softmax": [
        ("diagonal", "lacks the paths to the other elements: y (1 - y) alone", lambda x, y, g: g * y * (1 - y)),
        ("y", "multiplies by y alone: the sum over y ȳ has to be subtracted", lambda x, y, g: g * y),
    ],
    "log_softmax": [
        ("no sum", "subtracts softmax(x), and not softmax(x) times the sum of ȳ", lambda x, y, g: g - y.exp()),
        ("product", "multiplies softmax(x) by ȳ, and not by the sum of ȳ", lambda x, y, g: g - y.exp() * g),
    ],
}
"""For ops of one input, the wrong rules: key, words, and the gradient from x, y and the gradient of y."""


def _of_row(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """The faults of the rules of single ops."""
    x, y, g = step.values[argument], step.out, step.gradient
    if x.shape == y.shape == g.shape:
        for key, text, rule in _UNARY.get(step.call.name, ()):
            yield Fault(key, text), rule(x, y, g)
    maker = _ROWS.get(step.call.name)
    if maker is not None:
        yield from maker(step, argument)


def _power(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    n, x, g = step.call.exponent, step.values[argument], step.gradient
    if n is None or x.shape != g.shape:
        return
    yield Fault("n x^n", "does not lower the exponent: n xⁿ, where n xⁿ⁻¹ is right"), g * n * x**n
    yield Fault("x^(n-1)", "lacks the factor n of n xⁿ⁻¹"), g * x ** (n - 1)
    yield Fault("n x^(n-2)", "lowers the exponent twice"), g * n * x ** (n - 2)
    yield Fault("(n-1) x^(n-1)", "multiplies by n - 1, where n is right"), g * (n - 1) * x ** (n - 1)
    yield Fault("n x", "multiplies by n x, where n xⁿ⁻¹ is right"), g * n * x
    yield Fault("n", "multiplies by n alone, where n xⁿ⁻¹ is right"), g * n
    yield Fault("x^n", "multiplies by xⁿ, where n xⁿ⁻¹ is right"), g * x**n
    yield Fault("n x^(n+1)", "raises the exponent, where it has to lower it"), g * n * x ** (n + 1)


def _quotient(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    if len(step.values) != 2:
        return
    (a, b), g = step.values, step.gradient
    if argument == 0:
        wrong = [("b", "multiplies by b, where it has to divide by it", g * b)]
    else:
        wrong = [
            ("-a/b", "divides by b, where b² is right: the square is missing", -g * a / b),
            ("-1/b2", "lacks the factor a of -a / b²", -g / (b * b) + 0 * a),
            ("1/b2", "lacks the factor -a of -a / b²", g / (b * b) + 0 * a),
            ("1/b", "is that of the numerator, 1 / b", g / b + 0 * a),
            ("a", "is that of a product, a", g * a + 0 * b),
        ]
    for key, text, numbers in wrong:
        yield Fault(key, text), _fitted(numbers, step.values[argument])


def _product(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    x = step.values[argument]
    own = _fitted(step.gradient * x, x)
    yield Fault("own", "multiplies by the input itself, where the other input belongs"), own
    yield (
        Fault("result", "multiplies by the result, where the other input belongs"),
        _fitted(step.gradient * step.out, x),
    )
    if len(step.values) == 2:
        other = step.values[1 - argument]
        yield Fault("plus", "adds the other input, where it has to multiply by it"), _fitted(step.gradient + other, x)


def _sum(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    if len(step.values) == 2:
        a, b = step.values
        x = step.values[argument]
        other = b if argument == 0 else a
        yield (
            Fault("times other", "is that of a product: it multiplies by the other input"),
            _fitted(step.gradient * other, x),
        )


def _averages(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """A sum whose gradient is that of a mean, and the other way round."""
    assert step.right is not None
    x, right = step.values[argument], step.right[argument]
    count = prod([x.shape[dim] for dim in step.call.dims]) if x.ndim else 1
    if count < 2:
        return
    if step.call.name == "mean":
        text = f"is that of a sum: each of the {count} elements gets 1/{count} of the gradient"
        yield Fault("sum", text), right * count
        yield Fault("twice", f"divides by {count} twice"), right / count
        for other in sorted({*x.shape, x.numel()} - {0, 1, count}):
            text = f"divides by {other}, where the mean is over {count} elements"
            yield Fault(f"n {other}", text), right * count / other
    else:
        text = f"is that of a mean: it divides by {count}, where each element gets the whole gradient"
        yield Fault("mean", text), right / count


def _extreme(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    x, dims = step.values[argument], step.call.dims
    shape = tuple(1 if at in dims else size for at, size in enumerate(x.shape))
    if prod(shape) == step.gradient.numel():
        whole = step.gradient.reshape(shape).expand_as(x)
        yield Fault("no mask", "gives the gradient to every element, not only to the largest or smallest"), whole


def _matmul(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """All products of the gradient with the other matrix, in either order, with and without transposes."""
    if len(step.values) != 2 or min(one.ndim for one in (*step.values, step.gradient)) < 2:
        return
    assert step.right is not None
    other, g, right = step.values[1 - argument], step.gradient, step.right[argument]
    for one, two in ((g, other), (other, g)):
        for a in (one, one.mT):
            for b in (two, two.mT):
                if a.shape[-1] != b.shape[-2] or a.ndim != b.ndim:
                    continue
                straight = (one is g) == (argument == 0)
                yield (UNTRANSPOSED if straight else SWAPPED_PRODUCT), a @ b
    yield TRANSPOSED, right.mT
    if other.shape == right.shape:
        yield (
            Fault("elementwise", "multiplies elementwise, where a matrix product is right"),
            (g * other if g.shape == other.shape else None),
        )


def _permutation(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    order = step.call.dims
    if len(order) == step.gradient.ndim:
        yield PERMUTED, step.gradient.permute(order)
        yield STRAIGHT, step.gradient


_ROWS: dict[str, Callable[[Step, int], Iterator[tuple[Fault, Numbers | None]]]] = {
    **{"pow": _power, "div": _quotient, "mul": _product, "add": _sum, "sub": _sum, "matmul": _matmul},
    **{"mean": _averages, "sum": _averages, "amax": _extreme, "amin": _extreme, "permute": _permutation},
}


def _of_pair(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """The gradients of two inputs are exchanged."""
    if len(step.values) == 2 and step.right is not None:
        yield EXCHANGED, _fitted(step.right[1 - argument], step.values[argument])


def _of_one(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
    """An elementwise op of one input: its derivative at the wrong place, or combined in the wrong way."""
    x, y, g = step.values[argument], step.out, step.gradient
    if len(step.values) != 1 or not x.shape == y.shape == g.shape or step.call.name in PLUS_MINUS:
        return
    slopes = step.slopes()
    pulled = step.call.pull([y], g)
    yield AT_RESULT, None if pulled is None else pulled[0]
    yield AT_INPUT, _from_result(step, x)
    yield VALUE, g * y
    yield TIMES_INPUT, g * x
    yield INVERSE, None if slopes is None else g / slopes[0]


def _from_result(step: Step, wrong: Numbers) -> Numbers | None:
    """What a rule of nbgrad's that reads the result gives if it gets another number in its place."""
    row = OPS[step.call.name]
    rule = row.rules.get(row.inputs[0])
    if rule is None or rule.needs != ("out",):
        return None
    try:
        made: Any = rule.function(step.gradient, wrong)
    except (RuntimeError, TypeError, ValueError):
        return None
    return wide(made) if isinstance(made, torch.Tensor) else None


def _of_broadcast(step: Step, argument: int) -> Iterator[tuple[Fault, Numbers | None]]:
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
        yield Fault(fault.key, fault.text.format(dims=named), fault.rank), numbers


def _named_dims(dims: Sequence[int], shape: Sequence[int]) -> str:
    sizes = " and ".join(f"dimension {at} ({shape[at]} elements)" for at in dims if at < len(shape))
    return f"{sizes}, the batch" if list(dims) == [0] and len(shape) > 1 else sizes


def _stretched_shape(step: Step, argument: int) -> tuple[int, ...] | None:
    """The shape to which the op stretches this argument; None if it stretches none."""
    x, out = step.values[argument], step.out
    if step.call.name == "matmul":
        if x.ndim < 2 or out.ndim <= 2:
            return None
        return (*out.shape[:-2], *x.shape[-2:])
    row = OPS.get(step.call.name)
    return tuple(out.shape) if row is not None and row.broadcasts else None


def _broken_sums(full: Numbers, x: Numbers, over: list[int]) -> Iterator[tuple[Fault, Numbers]]:
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
                yield Fault(f"{fault.key} {dims}{keep}", fault.text, 3), made
                if made.numel() == 1 and x.numel() > 1:
                    yield Fault(f"{fault.key} {dims} all", fault.text, 3), made.reshape(()).expand(shape)


# Faults of the forward.

_ONE = ("neg", "exp", "log", "tanh", "sigmoid", "relu", "abs", "sqrt", "reciprocal", "sin", "cos", "exp2", "log2",
        "log10", "sign", "expm1", "log1p", "floor", "trunc", "ceil", "round", "square")  # fmt: skip
_TWO = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "floor_divide", "matmul")
_WORDS = {
    "add": "a + b", "sub": "a - b", "mul": "a × b", "div": "a / b", "pow": "a to the power of b",
    "matmul": "the matrix product", "floor_divide": "a / b without what comes after the point",
}  # fmt: skip


def wrong_values(call: Call, values: Sequence[Numbers]) -> Iterator[tuple[Fault, Numbers]]:
    """The faults of a forward, and the number that each gives."""
    right = call.run(values)
    for fault, made in _wrong_values(call, values, right):
        if made is not None and made.numel():
            yield fault, made


def _wrong_values(
    call: Call, values: Sequence[Numbers], right: Numbers | None
) -> Iterator[tuple[Fault, Numbers | None]]:
    if len(values) == 2:
        yield from _wrong_pairs(call, values)
    if len(values) == 1:
        yield from _wrong_singles(call, values[0])
    if right is not None:
        yield Fault("sign", "has the wrong sign", 1), -right
        yield (
            Fault("floor", "loses what comes after the point"),
            right.trunc() if (right != right.trunc()).any() else None,
        )
        yield Fault("transposed", "is transposed"), right.mT if right.ndim > 1 else None
        yield Fault("shape", "has the right numbers in another shape", 3), right.reshape(-1)
        yield Fault("factor 2", "is twice the right one", 4), right * 2
        yield Fault("factor 1/2", "is half of the right one", 4), right / 2
    for at, one in enumerate(values):
        yield Fault(f"input {at}", f"is that of its {_ordinal(at)}input, unchanged" if len(values) > 1 else
                    "is that of its input, unchanged", 3), one  # fmt: skip


def _ordinal(at: int) -> str:
    return ("first ", "second ", "third ")[at] if at < 3 else ""


def _run(name: str, *values: Numbers, **settings: Any) -> Numbers | None:
    """An op of nbgrad's on numbers; None if it does not take them."""
    row = OPS.get(name)
    try:
        made = values[0] ** 2 if row is None else row(*values, **settings)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    return wide(made) if isinstance(made, torch.Tensor) else None


def _wrong_pairs(call: Call, values: Sequence[Numbers]) -> Iterator[tuple[Fault, Numbers | None]]:
    a, b = values
    yield EXCHANGED_VALUE, call.run([b, a])
    for name in _TWO:
        if name != call.name:
            yield Fault(name, f"is that of {_WORDS.get(name, name)}"), _run(name, a, b)
    if call.name == "matmul" and a.ndim >= 2 and b.ndim >= 2:
        for one in (a, a.mT):
            for other in (b, b.mT):
                fault = Fault("untransposed", "is that of a product with a transpose too many, or one missing")
                yield fault, _run("matmul", one, other)
                yield Fault("swapped product", "is that of the product in the other order"), _run("matmul", other, one)


EXCHANGED_VALUE = Fault("exchanged", "is that of its two inputs in the other order", 1)


def _wrong_singles(call: Call, x: Numbers) -> Iterator[tuple[Fault, Numbers | None]]:
    for name in _ONE:
        if name != call.name:
            yield Fault(name, f"is that of {name}"), _run(name, x)
    if call.exponent is not None:
        n = call.exponent
        yield Fault("n x", "is that of x times the exponent"), x * n
        yield Fault("n^x", "is that of the exponent to the power of x"), n**x if n > 0 else None
        for other, words in ((n - 1, "one less than"), (n + 1, "one more than"), (-n, "the negative of")):
            yield Fault(f"power {words}", f"has an exponent that is {words} the right one"), x**other
    yield Fault("-x", f"is that of {call.name}(-x)"), call.run([-x])
    if call.name == "tanh":
        yield Fault("2x", "is that of tanh(2x)"), torch.tanh(2 * x)
        yield Fault("x/2", "is that of tanh(x / 2)"), torch.tanh(x / 2)
    if call.name == "relu":
        yield Fault("other side", "keeps the negative numbers, not the positive ones"), x.clamp(max=0)
    yield from _wrong_reductions(call, x)


def _wrong_reductions(call: Call, x: Numbers) -> Iterator[tuple[Fault, Numbers | None]]:
    if call.name not in ("sum", "mean", "amax", "amin", "prod", "softmax", "log_softmax", "logsumexp", "var", "std"):
        return
    if call.name in ("softmax", "log_softmax"):
        yield Fault("exp", "is not divided by its sum"), x.exp()
        for dim in range(x.ndim):
            yield Fault(f"along {dim}", f"goes along dimension {dim}"), _run(call.name, x, dim=dim)
        return
    for name in ("sum", "mean", "amax", "amin"):
        for count in range(1, x.ndim + 1):
            for dims in combinations(range(x.ndim), count):
                other = "" if dims == call.dims else f" over {_listed(dims)}"
                if name == call.name and not other:
                    continue
                for keep in (False, True):
                    fault = Fault(f"{name}{dims}", f"is that of {name}{other}", 2 if not other else 3)
                    yield fault, _run(name, x, dim=dims, keepdim=keep)


def _listed(dims: Sequence[int]) -> str:
    return f"dimension{'s' if len(dims) > 1 else ''} {', '.join(map(str, dims))}"

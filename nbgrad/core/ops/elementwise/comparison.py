"""Comparisons and logical ops, elementwise. None has a gradient."""

import operator

import torch

from nbgrad.core.dispatch.op import install, install_operator, op
from nbgrad.core.dispatch.samples import Make, Sample, at, binary, pairs, points
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.elementwise.rounding import flat
from nbgrad.core.tensor.comparison import numbers_of

_NAN, _INF = float("nan"), float("inf")


def _with_twin(row):
    """The row. Its in-place twin writes zeros and ones over a tensor: its old values get the gradient 0, as torch's."""
    twin = row.in_place.row
    twin.differentiable, twin.rules, twin.no_gradient = True, {}, row.inputs[1:]
    twin.rule(row.inputs[0], "0")(flat)
    return row


def _comparisons(make: Make):
    """Every pair of shapes that broadcasts, and ties."""
    yield from binary(make)
    yield Sample.of(make.integers(3, 4, 5), make.integers(3, 5))


def _comparison(name, sign, symbol):
    """The row of one comparison: they differ in nothing but the kernel and the symbol."""
    kernel = getattr(torch, name)

    def compare(a, b):
        return kernel(a, b) if isinstance(a, torch.Tensor) else kernel(torch.as_tensor(a, device=b.device), b)

    compare.__name__ = name
    compare.__doc__ = f"""Whether a {sign} b, elementwise, broadcasting: a bool tensor, which has no gradient.

    Masks and accuracies are made of comparisons.

    Shapes: a and b broadcast to the output. Raises RuntimeError where they do not.
    """
    row = op(
        formula=f"a {symbol} b",
        broadcasts=True,
        differentiable=False,
        inplace=True,
        samples=_comparisons,
        reference=getattr(operator, name),
    )(compare)
    install_operator(name, row)
    return _with_twin(row)


eq = _comparison("eq", "==", "=")
ne = _comparison("ne", "!=", r"\neq")
lt = _comparison("lt", "<", "<")
le = _comparison("le", "<=", r"\leq")
gt = _comparison("gt", ">", ">")
ge = _comparison("ge", ">=", r"\geq")


def _near(make: Make):
    yield from pairs(make)
    x, y = points(1.0, 1.0, _NAN, _INF, 0.0), points(1.0 + 1e-9, 1.1, _NAN, _INF, 1e-9)
    yield Sample.of(x, y)
    yield Sample.of(x, y, rtol=0.2, atol=0.1, equal_nan=True)


@op(
    formula=r"|a - b| \leq t + r |b|",
    symbols={"rtol": "r", "atol": "t"},
    kernel=torch.isclose,
    broadcasts=True,
    differentiable=False,
    samples=_near,
)
def isclose(input, other, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether two numbers differ by at most ``atol + rtol * |other|``, elementwise, broadcasting; no gradient.

    Two ways to compute the same thing agree up to rounding. NaN is close to NaN only with ``equal_nan``.

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for different dtypes.
    """


def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether every number of two tensors is close to its partner, as a Python bool; see isclose.

    Each may also be an array, a number or a list, and their types may differ: they are compared in the wider one.
    nbgrad.testing.assert_close says by how much they differ.

    Raises:
        RuntimeError: the shapes do not broadcast.
        TypeError: one of them holds no numbers.
    """
    a, b = raw_of(input), raw_of(other)
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        a, b = numbers_of(a), numbers_of(b)
    if a.dtype != b.dtype:
        wide = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(wide), b.to(wide)
    return torch.allclose(a, b, float(rtol), float(atol), equal_nan)


def equal(input, other):
    """Whether two tensors have the same shape and the same numbers, as a Python bool; NaN equals nothing."""
    return torch.equal(input.data, other.data)


install("allclose", allclose)
install("equal", equal)

_unusual = at(_NAN, _INF, -_INF, 0.0, -0.0, -1.5)


def _question(name, what, why, symbol):
    """The row of one question about each number."""
    kernel = getattr(torch, name)

    def ask(input):
        return kernel(input)

    ask.__name__ = name
    ask.__doc__ = f"""Whether each number is {what}: a bool tensor, which has no gradient.

    {why}

    Shapes: output as input.
    """
    return op(formula=symbol, differentiable=False, samples=_unusual)(ask)


isnan = _question("isnan", "NaN", "A loss that became NaN is found so.", r"x \neq x")
isinf = _question("isinf", "infinite", "Gradients that overflowed float16 are found so.", r"|x| = \infty")
isfinite = _question("isfinite", "neither infinite nor NaN", "A loss scaler skips steps by it.", r"x \text{ is finite}")
isposinf = _question("isposinf", "positive infinity", "It finds what overflowed upwards.", r"x = \infty")
isneginf = _question("isneginf", "negative infinity", "It finds what a mask has set to -inf.", r"x = -\infty")
isreal = _question("isreal", "without imaginary part", "Real numbers always are.", r"\operatorname{Im} x = 0")
signbit = _question("signbit", "negative, -0.0 included", "It tells -0.0 from 0.0.", r"x < 0 \text{ or } x = -0")


def _truths(make: Make):
    yield from pairs(make)
    yield Sample.of(points(0.0, 0.0, 1.0, 2.0), points(0.0, 1.0, 0.0, -1.0))
    yield Sample.of(make(2, 3) > 0, make(3) > 0)


def _truth(name, what, why, symbol):
    """The row of one connective; everything but 0 counts as true."""
    kernel = getattr(torch, name)

    def connect(input, other):
        return kernel(input, other)

    connect.__name__ = name
    connect.__doc__ = f"""Whether {what}, elementwise, broadcasting; all but 0 counts as true. No gradient.

    {why}

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not.
    """
    return _with_twin(op(formula=symbol, broadcasts=True, differentiable=False, inplace=True, samples=_truths)(connect))


logical_and = _truth(
    "logical_and", "both are true", "It makes one mask of a causal mask and a padding mask.", r"a \land b"
)
logical_or = _truth(
    *("logical_or", "at least one is true"),
    *("It joins the two conditions that end a sequence: an end token, and a maximum length.", r"a \lor b"),
)
logical_xor = _truth("logical_xor", "exactly one is true", "It finds where two masks differ.", r"a \oplus b")


@op(formula=r"\lnot x", kernel=torch.logical_not, differentiable=False, inplace=True, samples=at(0.0, -0.0, 1.0, _NAN))
def logical_not(input):
    """Whether each element is 0: a bool tensor, which has no gradient.

    It turns a mask of what counts into a mask of what does not.

    Shapes: output as input.
    """


_with_twin(logical_not)


def _whole(make: Make):
    """Whole numbers of every pair of shapes that broadcasts, and a number on either side."""
    for a, b in (sample.args for sample in pairs(make)):
        yield Sample.of(make.integers(8, *a.shape), make.integers(8, *b.shape))
    yield Sample.of(make.integers(8, 2, 3), 3)
    yield Sample.of(3, make.integers(8, 2, 3))


def _whole_pairs(make: Make):
    for sample in _whole(make):
        if all(isinstance(arg, torch.Tensor) for arg in sample.args):
            yield sample


def _whole_or_true(make: Make):
    yield from _whole(make)
    yield Sample.of(make(2, 3) > 0, make(3) > 0)


def _bits(name, symbol, what, why, formula, samples):
    """The row of one operation on whole numbers, most of them on their bits."""
    kernel = getattr(torch, name)

    def combine(input, other):
        return kernel(input, other)

    combine.__name__ = name
    combine.__doc__ = f"""{what}, elementwise, broadcasting; it has no gradient.

    {why}

    Shapes: input and other broadcast to the output. Raises RuntimeError where they do not, or for floating point
    numbers.
    """
    return op(
        formula=formula,
        broadcasts=True,
        differentiable=False,
        operator=symbol,
        inplace=True,
        samples=samples,
    )(combine)


bitwise_and = _bits(
    *(
        "bitwise_and",
        "and",
        "The bits that are 1 in both whole numbers",
        "For bool tensors it is the logical and: masks are joined by &.",
    ),
    *(r"a \mathbin{\&} b", _whole_or_true),
)
bitwise_or = _bits(
    *(
        "bitwise_or",
        "or",
        "The bits that are 1 in at least one of two whole numbers",
        "For bool tensors it is the logical or: masks are joined by |.",
    ),
    *(r"a \mathbin{|} b", _whole_or_true),
)
bitwise_xor = _bits(
    *(
        "bitwise_xor",
        "xor",
        "The bits that are 1 in exactly one of two whole numbers",
        "Hashes of positions are mixed with it.",
    ),
    *(r"a \oplus b", _whole_or_true),
)
bitwise_left_shift = _bits(
    *(
        "bitwise_left_shift",
        "lshift",
        "The bits of whole numbers, moved to the left",
        "Small numbers are packed into one with it.",
    ),
    *(r"a \cdot 2^{b}", _whole),
)
bitwise_right_shift = _bits(
    *(
        "bitwise_right_shift",
        "rshift",
        "The bits of whole numbers, moved to the right",
        "Packed weights are unpacked with it.",
    ),
    *(r"\lfloor a \cdot 2^{-b} \rfloor", _whole),
)


def _whole_alone(make: Make):
    yield from (Sample.of(*sample.args[:1]) for sample in _whole(make) if isinstance(sample.args[0], torch.Tensor))
    yield Sample.of(make(2, 3) > 0)


@op(
    formula=r"\lnot x",
    kernel=torch.bitwise_not,
    differentiable=False,
    operator="invert",
    inplace=True,
    samples=_whole_alone,
)
def bitwise_not(input):
    """Every bit of whole numbers turned round, elementwise; it has no gradient.

    For bool tensors it is the logical not: ``~mask``.

    Shapes: output as input. Raises RuntimeError for floating point numbers.
    """


gcd = _bits(
    *(
        "gcd",
        None,
        "The greatest common divisor of whole numbers",
        "Two strides have a common position only if it divides the distance of their starts.",
    ),
    *(r"\gcd(a, b)", _whole_pairs),
)
lcm = _bits(
    *(
        "lcm",
        None,
        "The least common multiple of whole numbers",
        "Two rhythms of different lengths meet again after it.",
    ),
    *(r"\operatorname{lcm}(a, b)", _whole_pairs),
)

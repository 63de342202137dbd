"""``calls_of``: the calls of nbgrad's ops that a part of another engine may stand for.

The op is found by the name that its engine gives to it. What the engine does not tell, such as an axis, is inferred
from the shapes and the numbers; then there may be several calls, and those are right that reproduce the number.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import combinations, permutations
from typing import Any

import torch

from nbgrad.core.dispatch.table import ALIASES, OPERATORS, OPS, Op
from nbgrad.core.engine.backward import gradients
from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.shape.joining import cat, stack
from nbgrad.core.ops.shape.padding import constant_pad_nd
from nbgrad.core.tensor.comparison import NoNumbers, numbers_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.translation import translate
from nbgrad.drawing.part import NUMBERS, Part

Numbers = torch.Tensor


@dataclass(frozen=True)
class OpCall:
    """A call of one of nbgrad's ops.

    Attributes:
        name: the name of its row in the op table.
        function: takes the numbers of the tensor arguments, float64, and returns the result.
        slots: for each tensor argument, its position among the parents of the part.
        note: what was inferred and could not be checked; empty if nothing was.
        dims: the dimensions that a reduction combines, or the order into which a permutation brings them.
        exponent: the constant exponent of a power.
    """

    name: str
    function: Callable[..., Any]
    slots: tuple[int, ...]
    note: str = ""
    dims: tuple[int, ...] = ()
    exponent: float | None = None

    def run(self, values: Sequence[Numbers]) -> Numbers | None:
        """The result for these arguments; None if they do not fit."""
        try:
            made = raw_of(self.function(*[Tensor(one) for one in values]))
        except Exception:  # the arguments are a stranger's, and each op refuses them in its own way
            return None
        return wide(made) if isinstance(made, torch.Tensor) and not made.is_complex() else None

    def pull(self, values: Sequence[Numbers], gradient: Numbers) -> list[Numbers] | None:
        """The gradient of each argument, by nbgrad's rules, from that of the result; None if they do not fit."""
        leaves = [Tensor(one, True) for one in values]
        try:
            out = self.function(*leaves)
            if not isinstance(out, Tensor):
                return None
            if gradient.numel() == 1 == out.numel():  # engines give a single number the shape () or (1,)
                gradient = gradient.reshape(tuple(out.shape))
            if tuple(out.shape) != tuple(gradient.shape):
                return None
            gradient = gradient.contiguous()  # so the strides of what a permutation gives tell its order
            if not out.requires_grad:
                return [torch.zeros_like(one) for one in values]
            origins = [one.origin for one in leaves]
            found = gradients([(out.origin, gradient)], origins, retain_graph=False, create_graph=False)
        except Exception:  # as in ``run``
            return None
        return [found.get(one, torch.zeros_like(raw)) for one, raw in zip(origins, values, strict=True)]


def wide(numbers: Numbers) -> Numbers:
    """The numbers in float64, in which nbgrad computes the right ones."""
    return numbers.detach().to(torch.float64)


def numbers(value: Any) -> Numbers | None:
    """The numbers of a value of somebody else's engine, in float64; None if they are not known, or complex."""
    try:
        found = numbers_of(value)
    except NoNumbers:
        return None
    return None if found.is_complex() else wide(found)


# The names of ops.


def _by_name(names: dict[str, str]) -> dict[str, str]:
    """By each of the names of a row, which stand in one text, the row."""
    return {name: row for row, several in names.items() for name in several.split()}


_SYMBOLS = _by_name(
    {
        "add": "+",
        "sub": "- −",
        "mul": "* × · ⊙",
        "div": "/ ÷",
        "pow": "** ^",
        "matmul": "@",
        "square": "²",
        "sum": "Σ ∑",
        "sqrt": "√",
        "lt": "<",
        "gt": ">",
        "le": "<=",
        "ge": ">=",
        "eq": "==",
        "ne": "!=",
    }
)

_NAMES = _by_name(
    {
        "add": "plus addany iadd",
        "sub": "minus difference isub",
        "mul": "times imul mult",
        "div": "itruediv",
        "reciprocal": "inv recip",
        "pow": "power integerpow ipow",
        "neg": "negate negation minusone usub",
        "sum": "summation total",
        "mean": "average avg",
        "matmul": "dotgeneral dot mm bmm mv matvec imatmul",
        "conv2d": "conv convolution",
        "expand": "broadcast broadcastto broadcastindim",
        "sigmoid": "logistic",
        "log": "ln",
        "logit": "logit",
        "leaky_relu": "lrelu leaky",
        "relu": "rectifier",
        "abs": "absolutevalue",
        "reshape": "view flatten ravel squeeze unsqueeze expanddims reshape",
        "permute": "t transpose swapaxes swapdims permute moveaxis",
        "clone": "identity copy clone contiguous",
        "getitem": "getitem index slice select subscript",
        "where": "selectn",
        "mse_loss": "mse meansquarederror",
        "nll_loss": "nll",
        "stack": "stack",
        "cross_entropy": "crossentropyloss softmaxcrossentropy softmaxloss",
        "binary_cross_entropy": "bce",
        "square": "square pow2",
        "clamp": "clip",
        "amax": "max",
        "amin": "min",
        "silu": "swish",
        "cube": "cube",
    }
)
"""Names of other engines, in small letters and without underscores, and the rows that they mean."""

_REVERSED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rtruediv": "div", "rdiv": "div", "rpow": "pow"} | {
    "rmatmul": "matmul"
}
"""Names of operators whose second argument is written first."""

_AFFIXES = re.compile(
    r"^(?:ewise|elementwise|elemwise|reduce|numpy|tensor|scalar|fast)|(?:scalar|backward|function|fun|fn|op|node|forward)$"
)

_WITH_NUMBER = re.compile(r"(\*\*|[-+*/^]|pow)\s*\(?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*\)?")


@dataclass(frozen=True)
class OpName:
    """The op that a name stands for: its row, whether the arguments are reversed, and a number within the name."""

    row: str
    reversed: bool = False
    constant: float | None = None
    by_constant: bool = False


@cache
def _rows() -> dict[str, str]:
    """The rows by all their names, in small letters and without underscores."""
    known = {name: row.name for table in (OPERATORS, ALIASES, OPS) for name, row in table.items()}
    return {name.replace("_", "").lower(): row for name, row in known.items()} | _NAMES


def rule_name(op: str) -> str:
    """The name of the op without a number in it: "**2" and "**3" have one rule."""
    found = _WITH_NUMBER.fullmatch(op.strip().lower())
    return op.strip() if found is None else found[1]


@cache
def named(op: str) -> OpName | None:
    """The op that an engine's name for it stands for; None if nbgrad does not know it."""
    text = op.strip()
    if text in _SYMBOLS:
        return OpName(_SYMBOLS[text])
    if found := _WITH_NUMBER.fullmatch(text.lower()):
        return OpName(_SYMBOLS.get(found[1], "pow"), constant=float(found[2]), by_constant=True)
    plain = text.rsplit(".", 1)[-1].replace("_", "").replace(" ", "").replace("-", "").lower().rstrip("0123456789")
    by_constant = plain.endswith("scalar")
    rows = _rows()
    for name in (text.rsplit(".", 1)[-1].replace("_", "").lower(), *_shortened(plain)):
        if name in _REVERSED:
            return OpName(_REVERSED[name], reversed=True)
        if name in rows:
            return OpName(rows[name], by_constant=by_constant)
    return None


def _shortened(name: str) -> Iterator[str]:
    """A name, and the same without one affix after the other."""
    while name:
        yield name
        shorter = _AFFIXES.sub("", name, count=1)
        if shorter == name:
            return
        name = shorter


# The calls.


@dataclass(frozen=True)
class Operands:
    """The arguments of an op of somebody else's engine.

    Attributes:
        part: the part.
        values: the numbers of each parent, float64.
        slots: the positions of the parents that are objects, not plain numbers.
        result: the number that the engine computed; None if it is not known.
        unordered: whether the engine keeps its parents in a set, so their order is lost.
    """

    part: Part
    values: tuple[Numbers, ...]
    slots: tuple[int, ...]
    result: Numbers | None
    unordered: bool
    op: OpName = field(default_factory=lambda: OpName(""))

    def setting(self, *names: str) -> Any:
        """The setting of one of these names; None if there is none."""
        return next((self.part.settings[one] for one in names if self.part.settings.get(one) is not None), None)

    def has(self, *names: str) -> bool:
        """Whether the engine tells one of these settings, be it None."""
        return any(one in self.part.settings for one in names)

    def call(self, function: Callable[..., Any], **facts: Any) -> OpCall:
        """The call of a function on all parents, in their order; plain numbers are constants."""
        slots, constants = self.slots, [Tensor(one) for one in self.values]

        def filled(*tensors: Any) -> Any:
            arguments: list[Any] = list(constants)
            for slot, tensor in zip(slots, tensors, strict=True):
                arguments[slot] = tensor
            return function(*arguments)

        return OpCall(self.op.row, filled, slots, **facts)

    def turned(self, row: Callable[..., Any]) -> "OpCall":
        """The call of a function of two arguments, the second parent first."""
        turned = replace(self, values=self.values[::-1], slots=tuple(sorted(1 - slot for slot in self.slots)))
        made = turned.call(row)
        return replace(made, slots=tuple(1 - slot for slot in made.slots))


def operands_of(part: Part, values: Sequence[Numbers], result: Numbers | None) -> Operands:
    """The arguments of a part, from the numbers of its parents."""
    slots = tuple(at for at, one in enumerate(part.parents) if not isinstance(one, NUMBERS))
    return Operands(part, tuple(values), slots, result, _unordered(part))


def _unordered(part: Part) -> bool:
    """Whether an attribute of the object is a set of its parents."""
    parents = {id(one) for one in part.parents}
    return any(
        isinstance(one, set | frozenset) and one and {id(member) for member in one} == parents
        for one in vars(part.source).values()
    ) if hasattr(part.source, "__dict__") else False  # fmt: skip


def calls_of(operands: Operands) -> list[OpCall] | None:
    """The calls that the part may stand for, the most probable first; None if nbgrad does not know its op.

    An empty list means that the op is known, and that its arguments are not.
    """
    op = None if operands.part.op is None else named(operands.part.op)
    if op is None:
        return None
    row = OPS.get(op.row)
    operands = replace(operands, op=op)
    maker = _MAKERS.get(op.row)
    if maker is not None:
        made = maker(operands)
    elif row is not None and len(row.inputs) == 2 and not row.required:
        made = _binary(operands)
    elif row is not None:
        made = _plain(operands, row)
    else:
        return None
    try:
        return list(made)
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
        return []  # the settings are none that the op takes


def _plain(operands: Operands, row: Op) -> Iterator[OpCall]:
    """A call of a row on all parents, with the settings whose names it knows."""
    settings: dict[str, Any] = {}
    for name, value in operands.part.settings.items():
        known = [one for one in (name, *_TORCHS.get(name, ())) if one in row.defaults]
        settings |= dict.fromkeys(known[:1], value)
    if not row.required - settings.keys():
        yield operands.call(lambda *tensors: row(*tensors, **settings))


_TORCHS = {
    "axis": ("dim", "dims"), "axes": ("dim", "dims"), "dim": ("dims",), "keepdims": ("keepdim",),
    "alpha": ("negative_slope",), "slope": ("negative_slope",),
}  # fmt: skip
"""Names of settings, and torch's for them."""

_CONSTANTS = ("scalar", "other", "constant", "exponent", "power", "factor", "c", "k", "n", "p", "y", "value", "b")
"""Names of settings under which engines keep the constant argument of an op."""


def _binary(operands: Operands) -> Iterator[OpCall]:
    """An op of two arguments, of which one may be a constant, or the same one twice."""
    row = OPS[operands.op.row]
    count = len(operands.values)
    if count == 2:
        facts = {"exponent": _alone(operands.values[1])} if row.name == "pow" else {}
        yield operands.turned(row) if operands.op.reversed else operands.call(row, **facts)
        if operands.unordered and not row.traits.commutes:
            yield operands.turned(row)
    elif count > 2 and row.name in ("add", "mul"):
        yield operands.call(lambda *tensors: reduce(row, tensors))
    elif count == 1 and operands.slots:
        yield from _with_constant(operands, row)


def _alone(value: Numbers) -> float | None:
    """The number, if it is one."""
    return float(value) if value.numel() == 1 else None


def _with_constant(operands: Operands, row: Op) -> Iterator[OpCall]:
    """An op of two arguments that has one parent: the other argument is a constant, or this parent again."""
    told = operands.op.constant if operands.op.constant is not None else operands.setting(*_CONSTANTS)
    constant = None if told is None else numbers(told)
    if constant is not None:
        yield _by(operands, row, constant, first=operands.op.reversed)
        return
    if not operands.op.by_constant:
        if row.name == "sub":
            yield replace(operands.call(OPS["neg"]), name="neg")
        slot = operands.slots[0]
        yield OpCall(row.name, row, (slot, slot))
        if operands.unordered:  # the set holds the parent once: it was both arguments
            return
    yield from _inferred(operands, row)


def _by(operands: Operands, row: Op, constant: Numbers, *, first: bool = False, note: str = "") -> OpCall:
    """The call with a constant as the second argument, or as the first."""
    fixed = Tensor(constant)
    single = float(constant) if constant.numel() == 1 and row.name == "pow" and not first else None
    function = (lambda x: row(fixed, x)) if first else (lambda x: row(x, fixed))
    return operands.call(function, exponent=single, note=note)


def _inferred(operands: Operands, row: Op) -> Iterator[OpCall]:
    """The calls with a constant that the engine does not tell, and that reproduces the number."""
    x, y = operands.values[0], operands.result
    if y is None or x.shape != y.shape or not x.numel():
        return
    ways: dict[str, list[tuple[Numbers, bool]]] = {
        "add": [(y - x, False)],
        "sub": [(x - y, False), (y + x, True)],
        "mul": [(y / x, False)],
        "div": [(x / y, False), (y * x, True)],
    }
    for constant, first in ways.get(row.name, []):
        finite = constant[torch.isfinite(constant)]
        if not finite.numel():
            continue
        one = finite.flatten()[0]
        same = bool(torch.isclose(finite, one, rtol=1e-5, atol=1e-9).all())
        note = (
            translate("its constant, {float:.6g}, is inferred from the number", float=float(one))
            if same
            else translate("its constant is inferred")
        )
        shown = note if x.numel() == 1 or not same else ""
        yield _by(operands, row, one if same else constant, first=first, note=shown)


_EXPONENTS = [2.0, 3.0, -1.0, 0.5, -2.0, 4.0, -0.5, 1.0, 0.0, 1.5, 5.0, 6.0, 7.0, 8.0, -3.0, 1 / 3, 10.0]
"""The exponents that are tried where the engine does not tell it."""


def _powers(operands: Operands) -> Iterator[OpCall]:
    """A power: the exponent is a parent, a setting, a part of the name, or is inferred."""
    row = OPS["pow"]
    fixed = {"square": 2.0, "cube": 3.0}.get(operands.op.row)
    operands = replace(operands, op=replace(operands.op, row="pow"))
    if fixed is not None:
        yield _by(operands, row, torch.tensor(fixed, dtype=torch.float64))
        return
    if len(operands.values) == 2 and len(operands.slots) == 1 and operands.slots[0] == 0:
        yield operands.call(row, exponent=_alone(operands.values[1]))
        return
    told = operands.op.constant is not None or numbers(operands.setting(*_CONSTANTS)) is not None
    if len(operands.values) != 1 or told:
        yield from _binary(operands)
        return
    x, y = operands.values[0], operands.result
    for exponent in _EXPONENTS:
        found = torch.pow(x, exponent)
        if y is None or (y.shape == found.shape and bool(torch.isclose(found, y, rtol=1e-4, atol=0.0).all())):
            note = (
                translate("its exponent, {exponent:.4g}, is inferred from the number", exponent=exponent)
                if x.numel() == 1
                else ""
            )
            yield _by(operands, row, torch.tensor(exponent, dtype=torch.float64), note=note)


def _axes_told(operands: Operands) -> tuple[int, ...] | None:
    """The dimensions that the engine tells as a setting or as a second argument; None if it tells none."""
    told = operands.setting("dim", "axis", "axes", "dims", "order", "permutation", "perm", "input_order")
    if told is None and len(operands.values) > 1:
        told = operands.values[1].flatten().tolist()
    if told is None:
        return None
    found = numbers(told)
    return None if found is None else tuple(int(one) for one in found.flatten().tolist())


def _first_alone(operands: Operands) -> tuple[Operands, tuple[int, ...]]:
    """The operands with the first parent alone: the others are settings."""
    return replace(operands, values=operands.values[:1]), operands.slots[:1]


def _reductions(operands: Operands) -> Iterator[OpCall]:
    """A reduction over all dimensions, over those that the engine tells, or over those that fit the shape."""
    row, x = OPS[operands.op.row], operands.values[0]
    if len(operands.values) > 1 and _is_of_two(operands):
        yield from _of_several(operands)
        return
    told = _axes_told(operands)
    given = operands.has("dim", "axis", "axes", "dims")
    ranks = range(x.ndim)
    every = [dims for count in range(x.ndim, 0, -1) for dims in combinations(ranks, count)] or [()]
    wanted = (
        [tuple(sorted(one % max(x.ndim, 1) for one in told))] if told is not None else every[:1] if given else every
    )
    keeps = operands.setting("keepdim", "keepdims")
    shape = None if operands.result is None else tuple(operands.result.shape)
    made = []
    for dims in wanted:
        for keep in (False, True) if keeps is None else (bool(keeps),):
            left = tuple(1 if at in dims else size for at, size in enumerate(x.shape) if keep or at not in dims)
            made.append((left == shape or shape is None, _reduction(operands, row, dims, keep=keep)))
    fitting = [call for fits, call in made if fits]
    yield from fitting or [made[0][1]]


def _reduction(operands: Operands, row: Op, dims: tuple[int, ...], *, keep: bool) -> OpCall:
    single, slots = row.name == "prod", operands.slots[:1]

    def reduced(x: Any, *_: Any) -> Any:
        if not x.shape:
            return row(x, dim=0) if "dim" in row.required else row(x)
        if single:
            return row(x, dim=dims[0], keepdim=keep) if len(dims) == 1 else row(x)
        if row.name in ("var", "std"):
            return row(x, dim=dims, keepdim=keep, correction=0)
        return row(x, dim=dims, keepdim=keep)

    return OpCall(row.name, reduced, slots, dims=dims)


def _is_of_two(operands: Operands) -> bool:
    """Whether the second parent is a number to combine with, and no setting."""
    if len(operands.values) > 2 or operands.result is None or operands.part.settings:
        return len(operands.values) > 2
    a, b = operands.values[:2]
    try:
        shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return shape == operands.result.shape and (operands.op.row != "sum" or a.ndim == 0 or b.shape == a.shape)


def _of_several(operands: Operands) -> Iterator[OpCall]:
    """The sum, the largest or the smallest of several arguments, elementwise."""
    rows = {"sum": "add", "amax": "maximum", "amin": "minimum", "prod": "mul"}
    if operands.op.row in rows:
        row = OPS[rows[operands.op.row]]
        yield replace(operands.call(lambda *tensors: reduce(row, tensors)), name=row.name)


def _normalized(operands: Operands) -> Iterator[OpCall]:
    """A softmax along the dimension that the engine tells, or along each."""
    row, x = OPS[operands.op.row], operands.values[0]
    told = _axes_told(operands)
    dims = [told[0] % max(x.ndim, 1)] if told else [*range(x.ndim)][::-1] or [0]
    for dim in dims:
        yield OpCall(row.name, lambda x, dim=dim: row(x, dim=dim), operands.slots[:1], dims=(dim,))


def _permutations(operands: Operands) -> Iterator[OpCall]:
    """A permutation of the dimensions, as the engine tells it, or each that fits the shape."""
    row, x = OPS["permute"], operands.values[0]
    wanted = None if operands.result is None else tuple(operands.result.shape)
    orders = _orders(operands, x.ndim)
    fitting = [one for one in orders if wanted is None or tuple(x.shape[at] for at in one) == wanted]
    for order in fitting or orders[:1]:
        yield OpCall("permute", lambda x, *_, order=order: row(x, dims=order), operands.slots[:1], dims=order)


def _orders(operands: Operands, rank: int) -> list[tuple[int, ...]]:
    """The orders of the dimensions that a permutation may mean. Two axes are most often those that change places."""
    told = _axes_told(operands)
    if told is None:
        if rank > _LARGEST_RANK:
            return []
        rest = permutations(range(rank)) if rank > 2 else ()
        return [*dict.fromkeys([_swapped(rank, -1, -2), tuple(range(rank))[::-1], *rest])]
    whole = tuple(one % rank for one in told) if rank else ()
    permutes = "perm" in (operands.part.op or "").lower()
    if len(told) == 2 and not (permutes and rank == 2):
        return [_swapped(rank, *told)]
    return [whole] if sorted(whole) == [*range(rank)] else []


_LARGEST_RANK = 6
"""A permutation of more dimensions that the engine does not tell is not inferred: there are too many."""


def _swapped(rank: int, one: int, other: int) -> tuple[int, ...]:
    order = [*range(rank)]
    if rank > 1:
        order[one], order[other] = order[other], order[one]
    return tuple(order)


def _shapes(operands: Operands) -> Iterator[OpCall]:
    """The same numbers in another shape, or stretched to it: the shape is told, or is that of the result."""
    row, x = OPS[operands.op.row], operands.values[0]
    told = operands.setting("shape", "size", "new_shape", "newshape", "new_sizes", "output_shape")
    if told is None and len(operands.values) > 1:
        told = operands.values[1].flatten().tolist()
    given = numbers(told)
    if given is not None:
        shape = tuple(int(one) for one in given.flatten().tolist())
    elif operands.result is not None:
        shape = tuple(operands.result.shape)
    else:
        return
    setting = "size" if row.name == "expand" else "shape"
    yield OpCall(row.name, lambda x: row(x, **{setting: shape}), operands.slots[:1])
    if row.name == "expand":
        places = operands.setting("broadcast_dimensions")
        if places is not None:
            inner = tuple(x.shape[places.index(at)] if at in places else 1 for at in range(len(shape)))
            yield OpCall(row.name, lambda x: row(x.reshape(inner), size=shape), operands.slots[:1])


def _items(operands: Operands) -> Iterator[OpCall]:
    index = operands.setting("index", "item", "idx", "key", "slices", "indices", "i", "arg")
    x = operands.values[0]
    if isinstance(index, list | tuple) and len(index) == x.ndim and all(_is_pair(one) for one in index):
        yield OpCall("getitem", lambda x: _cut(x, index), operands.slots[:1])
    elif index is not None:
        yield OpCall("getitem", lambda x: x[index], operands.slots[:1])


def _is_pair(one: object) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and all(isinstance(end, int) for end in one)


def _cut(x: Any, pairs: Sequence[Sequence[int]]) -> Any:
    """The elements between two places of each dimension; places outside have zeros."""
    ends = zip(reversed(pairs), reversed(x.shape), strict=True)
    return constant_pad_nd(x, pad=tuple(one for (low, high), size in ends for one in (-low, high - size)))


def _taken(operands: Operands) -> Iterator[OpCall]:
    """One of the results of a split: the index and the dimension are told."""
    index, dim = operands.setting("index"), operands.setting("dim", "axis") or 0
    if index is None:
        return
    yield OpCall("getitem", lambda x: x.select(dim, index), operands.slots[:1])
    y = operands.result
    if y is not None and y.ndim == operands.values[0].ndim:
        size = y.shape[dim]
        yield OpCall("getitem", lambda x: x.narrow(dim, index * size, size), operands.slots[:1])


def _convolutions(operands: Operands) -> Iterator[OpCall]:
    """A convolution: the stride and the padding are told or inferred, and channels come first or last.

    A padding that is inferred is equal at both ends, or is all at one end, as where the kernel is anchored there.
    """
    if len(operands.values) not in (2, 3) or operands.result is None:
        return
    x, w = operands.values[:2]
    rank = x.ndim - 2
    row = OPS.get(f"conv{rank}d")
    if row is None or w.ndim != x.ndim:
        return
    groups = operands.setting("groups") or 1
    strides, told = operands.setting("stride", "strides"), operands.setting("padding", "pad")
    shape = tuple(operands.result.shape)
    made = []
    for last in (False, True):
        spatial = slice(1, -1) if last else slice(2, None)
        kernel = w.shape[:-2] if last else w.shape[2:]
        for stride in _STRIDES if strides is None else [strides]:
            for ends in _paddings(x.shape[spatial], kernel, shape[spatial], stride, told):
                call = operands.call(_convolution(row, last=last, stride=stride, ends=ends, groups=groups))
                found = call.run([operands.values[slot] for slot in operands.slots])
                if found is not None:
                    made.append((tuple(found.shape) == shape, replace(call, name=row.name)))
    fitting = [call for fits, call in made if fits]
    if fitting or (strides is not None and told is not None):
        yield from fitting or [call for _, call in made[:1]]


_STRIDES = (1, 2, 3)
"""The strides that are tried where the engine does not tell it."""

Ends = tuple[tuple[int, int], ...]
"""The paddings before and behind each dimension."""


def _paddings(sizes: Sequence[int], kernel: Sequence[int], wanted: Sequence[int], stride: Any, told: Any) -> list[Ends]:
    """The paddings that may give the wanted sizes."""
    rank = len(sizes)
    if told is not None:
        each = [told] * rank if isinstance(told, int) else list(told)
        return [tuple((one, one) for one in each)] if len(each) == rank else []
    steps = [stride] * rank if isinstance(stride, int) else list(stride)
    found = []
    for rest in range(max(steps)):
        whole = [
            (want - 1) * step + width - size + min(rest, step - 1)
            for want, step, width, size in zip(wanted, steps, kernel, sizes, strict=True)
        ]
        if min(whole) < 0:
            continue
        if all(one % 2 == 0 for one in whole):
            found.append(tuple((one // 2, one // 2) for one in whole))
        found += [tuple((0, one) for one in whole), tuple((one, 0) for one in whole)]
    return list(dict.fromkeys(found))


def _convolution(row: Op, *, last: bool, stride: Any, ends: Ends, groups: int) -> Callable[..., Any]:
    padding = tuple(one for pair in reversed(ends) for one in pair)

    def convolved(x: Any, w: Any, *bias: Any) -> Any:
        if last:
            rank = len(x.shape)
            inner = tuple(range(rank))[1:-1]
            x = x.permute((0, rank - 1, *inner))
            w = w.permute((rank - 1, rank - 2, *range(rank - 2)))
        y = row(constant_pad_nd(x, pad=padding) if any(padding) else x, w, *bias, stride=stride, groups=groups)
        return y.permute((0, *range(2, len(y.shape)), 1)) if last else y

    return convolved


def _joined(operands: Operands) -> Iterator[OpCall]:
    """Tensors that are joined along the dimension that the engine tells, or along each that fits the shape."""
    together = stack if operands.op.row == "stack" else cat
    x = operands.values[0]
    told = operands.setting("dim", "axis")
    ranks = range(x.ndim + 1) if operands.op.row == "stack" else range(x.ndim)
    for dim in ranks if told is None else [int(told)]:
        yield operands.call(lambda *tensors, dim=dim: together(list(tensors), dim=dim), dims=(dim,))


def _leaky(operands: Operands) -> Iterator[OpCall]:
    told = operands.setting("negative_slope", "alpha", "slope")
    x, y = operands.values[0], operands.result
    slope = 0.01 if told is None else float(told)
    note = ""
    if told is None and y is not None and y.shape == x.shape and bool((x < 0).any()):
        found = (y[x < 0] / x[x < 0]).flatten()
        if bool(torch.isclose(found, found[0], rtol=1e-4).all()) and 0 < float(found[0]) < 1:
            slope = float(found[0])
            note = translate("its slope for negative numbers, {slope:.4g}, is inferred from the number", slope=slope)
    row = OPS["leaky_relu"]
    yield operands.call(lambda x: row(x, negative_slope=slope), note=note)


def _logs(operands: Operands) -> Iterator[OpCall]:
    """The logarithm. The engine of minitorch adds 1e-6 to the number, so that 0 has a logarithm."""
    yield operands.call(OPS["log"])
    yield operands.call(lambda x: OPS["log"](x + 1e-6))


def _clamped(operands: Operands) -> Iterator[OpCall]:
    low, high = operands.setting("min", "a_min", "low", "min_val"), operands.setting("max", "a_max", "high", "max_val")
    if low is not None or high is not None:
        yield operands.call(lambda x: x.clamp(low, high))
    elif len(operands.values) == 3:
        yield operands.call(OPS["clamp"])


def _losses(operands: Operands) -> Iterator[OpCall]:
    """A loss, with the reduction that the engine tells, or with each."""
    row = OPS[operands.op.row]
    told = operands.setting("reduction")
    classes = operands.op.row in ("cross_entropy", "nll_loss")
    for reduction in ("mean", "sum", "none") if told is None else (told,):

        def loss(x: Any, target: Any, *rest: Any, reduction: str = reduction) -> Any:
            if classes and target.ndim < x.ndim:
                target = Tensor(raw_of(target).long())
            return row(x, target, *rest, reduction=reduction)

        yield operands.call(loss)


def _chosen(operands: Operands) -> Iterator[OpCall]:
    if len(operands.values) == 3:
        row = OPS["where"]
        yield operands.call(lambda condition, a, b: row(raw_of(condition) != 0, a, b))


def _minus(operands: Operands) -> Iterator[OpCall]:
    yield operands.call(OPS["neg"])


_MAKERS: Mapping[str, Callable[[Operands], Iterator[OpCall]]] = {
    **dict.fromkeys(["pow", "square", "cube"], _powers),
    **dict.fromkeys(["sum", "mean", "amax", "amin", "prod", "logsumexp", "var", "std"], _reductions),
    **dict.fromkeys(["softmax", "log_softmax"], _normalized),
    **dict.fromkeys(["reshape", "expand"], _shapes),
    **dict.fromkeys(["cat", "stack"], _joined),
    **dict.fromkeys(["mse_loss", "cross_entropy", "nll_loss", "l1_loss", "binary_cross_entropy"], _losses),
    "permute": _permutations,
    **dict.fromkeys(["conv1d", "conv2d", "conv3d"], _convolutions),
    **dict.fromkeys(["split", "chunk", "unbind"], _taken),
    "getitem": _items,
    "leaky_relu": _leaky,
    "log": _logs,
    "clamp": _clamped,
    "where": _chosen,
    "neg": _minus,
}
"""The rows whose settings are told in several ways, or inferred."""

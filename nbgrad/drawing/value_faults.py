"""``wrong_values``: the usual faults of a forward, and the number that each gives."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.drawing.calls import Numbers, OpCall, wide
from nbgrad.drawing.faults import EngineFault

_ONE = ("neg", "exp", "log", "tanh", "sigmoid", "relu", "abs", "sqrt", "reciprocal", "sin", "cos", "exp2", "log2",
        "log10", "sign", "expm1", "log1p", "floor", "trunc", "ceil", "round", "square")  # fmt: skip
_TWO = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "floor_divide", "matmul")
_WORDS = {
    "add": "a + b", "sub": "a - b", "mul": "a × b", "div": "a / b", "pow": "a to the power of b",
    "matmul": "the matrix product", "floor_divide": "a / b without what comes after the point",
}  # fmt: skip


def wrong_values(call: OpCall, values: Sequence[Numbers]) -> Iterator[tuple[EngineFault, Numbers]]:
    """The faults of a forward, and the number that each gives."""
    right = call.run(values)
    for fault, made in _wrong_values(call, values, right):
        if made is not None and made.numel():
            yield fault, made


def _wrong_values(
    call: OpCall, values: Sequence[Numbers], right: Numbers | None
) -> Iterator[tuple[EngineFault, Numbers | None]]:
    if len(values) == 2:
        yield from _wrong_pairs(call, values)
    if len(values) == 1:
        yield from _wrong_singles(call, values[0])
    if right is not None:
        if call.name != "sub":
            yield EngineFault("sign", "has the wrong sign", 1), -right
        yield EngineFault("floor", "loses what comes after the point", 3), right.trunc()
        yield EngineFault("transposed", "is transposed"), right.mT if right.ndim > 1 else None
        yield EngineFault("shape", "has the right numbers in another shape", 3), right.reshape(-1)
        yield EngineFault("factor 2", "is twice the right one", 4), right * 2
        yield EngineFault("factor 1/2", "is half of the right one", 4), right / 2
    for at, one in enumerate(values):
        yield EngineFault(f"input {at}", f"is that of its {_ordinal(at)}input, unchanged" if len(values) > 1 else
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


def _wrong_pairs(call: OpCall, values: Sequence[Numbers]) -> Iterator[tuple[EngineFault, Numbers | None]]:
    a, b = values
    yield EXCHANGED_VALUE, call.run([b, a])
    for name in _TWO:
        if name != call.name:
            yield EngineFault(name, f"is that of {_WORDS.get(name, name)}"), _run(name, a, b)
    if call.name == "matmul" and a.ndim >= 2 and b.ndim >= 2:
        for one in (a, a.mT):
            for other in (b, b.mT):
                fault = EngineFault("untransposed", "is that of a product with a transpose too many, or one missing")
                yield fault, _run("matmul", one, other)
                yield (
                    EngineFault("swapped product", "is that of the product in the other order"),
                    _run("matmul", other, one),
                )


EXCHANGED_VALUE = EngineFault("exchanged", "is that of its two inputs in the other order", 1)


def _wrong_singles(call: OpCall, x: Numbers) -> Iterator[tuple[EngineFault, Numbers | None]]:
    for name in _ONE:
        if name != call.name:
            yield EngineFault(name, f"is that of {name}"), _run(name, x)
    if call.exponent is not None:
        n = call.exponent
        yield EngineFault("n x", "is that of x times the exponent"), x * n
        yield EngineFault("n^x", "is that of the exponent to the power of x"), n**x if n > 0 else None
        for other, words in ((n - 1, "one less than"), (n + 1, "one more than"), (-n, "the negative of")):
            yield EngineFault(f"power {words}", f"has an exponent that is {words} the right one"), x**other
    yield EngineFault("-x", f"is that of {call.name}(-x)"), call.run([-x])
    if call.name == "tanh":
        yield EngineFault("2x", "is that of tanh(2x)"), torch.tanh(2 * x)
        yield EngineFault("x/2", "is that of tanh(x / 2)"), torch.tanh(x / 2)
    if call.name == "relu":
        yield EngineFault("other side", "keeps the negative numbers, not the positive ones"), x.clamp(max=0)
    yield from _wrong_reductions(call, x)


def _wrong_reductions(call: OpCall, x: Numbers) -> Iterator[tuple[EngineFault, Numbers | None]]:
    if call.name not in ("sum", "mean", "amax", "amin", "prod", "softmax", "log_softmax", "logsumexp", "var", "std"):
        return
    if call.name in ("softmax", "log_softmax"):
        yield EngineFault("exp", "is not divided by its sum"), x.exp()
        for dim in range(x.ndim):
            yield EngineFault(f"along {dim}", f"goes along dimension {dim}"), _run(call.name, x, dim=dim)
        return
    for name in ("sum", "mean", "amax", "amin"):
        for count in range(1, x.ndim + 1):
            for dims in combinations(range(x.ndim), count):
                other = "" if dims == call.dims else f" over {_listed(dims)}"
                if name == call.name and not other:
                    continue
                for keep in (False, True):
                    fault = EngineFault(f"{name}{dims}", f"is that of {name}{other}", 2 if not other else 3)
                    yield fault, _run(name, x, dim=dims, keepdim=keep)


def _listed(dims: Sequence[int]) -> str:
    return f"dimension{'s' if len(dims) > 1 else ''} {', '.join(map(str, dims))}"

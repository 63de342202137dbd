"""``wrong_values``: the usual faults of a forward, and the number that each gives."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.translation import message, translate
from nbgrad.drawing.calls import Numbers, OpCall, wide
from nbgrad.drawing.faults import EngineFault

_ONE = ("neg", "exp", "log", "tanh", "sigmoid", "relu", "abs", "sqrt", "reciprocal", "sin", "cos", "exp2", "log2",
        "log10", "sign", "expm1", "log1p", "floor", "trunc", "ceil", "round", "square")  # fmt: skip
_TWO = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "floor_divide", "matmul")
_WORDS = {
    "add": "a + b", "sub": "a - b", "mul": "a × b", "div": "a / b", "pow": message("a to the power of b"),
    "matmul": message("the matrix product"), "floor_divide": message("a / b without what comes after the point"),
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
            yield EngineFault("sign", translate("has the wrong sign"), 1), -right
        yield EngineFault("floor", translate("loses what comes after the point"), 3), right.trunc()
        yield EngineFault("transposed", translate("is transposed")), right.mT if right.ndim > 1 else None
        yield EngineFault("shape", translate("has the right numbers in another shape"), 3), right.reshape(-1)
        yield EngineFault("factor 2", translate("is twice the right one"), 4), right * 2
        yield EngineFault("factor 1/2", translate("is half of the right one"), 4), right / 2
    for at, one in enumerate(values):
        which = translate(
            "is that of its {ordinal}input, unchanged" if len(values) > 1 else "is that of its input, unchanged",
            ordinal=_ordinal(at),
        )
        yield EngineFault(f"input {at}", which, 3), one


def _ordinal(at: int) -> str:
    return (translate("first "), translate("second "), translate("third "))[at] if at < 3 else ""


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
            yield (
                EngineFault(
                    name, translate("is that of {what}", what=translate(_WORDS[name]) if name in _WORDS else name)
                ),
                _run(name, a, b),
            )
    if call.name == "matmul" and a.ndim >= 2 and b.ndim >= 2:
        for one in (a, a.mT):
            for other in (b, b.mT):
                fault = EngineFault(
                    "untransposed", translate("is that of a product with a transpose too many, or one missing")
                )
                yield fault, _run("matmul", one, other)
                yield (
                    EngineFault("swapped product", translate("is that of the product in the other order")),
                    _run("matmul", other, one),
                )


EXCHANGED_VALUE = EngineFault("exchanged", message("is that of its two inputs in the other order"), 1)


def _wrong_singles(call: OpCall, x: Numbers) -> Iterator[tuple[EngineFault, Numbers | None]]:
    for name in _ONE:
        if name != call.name:
            yield EngineFault(name, translate("is that of {name}", name=name)), _run(name, x)
    if call.exponent is not None:
        n = call.exponent
        yield EngineFault("n x", translate("is that of x times the exponent")), x * n
        yield EngineFault("n^x", translate("is that of the exponent to the power of x")), n**x if n > 0 else None
        for other, words in (
            (n - 1, message("one less than")),
            (n + 1, message("one more than")),
            (-n, message("the negative of")),
        ):
            yield (
                EngineFault(
                    f"power {words}", translate("has an exponent that is {words} the right one", words=translate(words))
                ),
                x**other,
            )
    yield EngineFault("-x", translate("is that of {name}(-x)", name=call.name)), call.run([-x])
    if call.name == "tanh":
        yield EngineFault("2x", translate("is that of tanh(2x)")), torch.tanh(2 * x)
        yield EngineFault("x/2", translate("is that of tanh(x / 2)")), torch.tanh(x / 2)
    if call.name == "relu":
        yield EngineFault("other side", translate("keeps the negative numbers, not the positive ones")), x.clamp(max=0)
    yield from _wrong_reductions(call, x)


def _wrong_reductions(call: OpCall, x: Numbers) -> Iterator[tuple[EngineFault, Numbers | None]]:
    if call.name not in ("sum", "mean", "amax", "amin", "prod", "softmax", "log_softmax", "logsumexp", "var", "std"):
        return
    if call.name in ("softmax", "log_softmax"):
        yield EngineFault("exp", translate("is not divided by its sum")), x.exp()
        for dim in range(x.ndim):
            yield (
                EngineFault(f"along {dim}", translate("goes along dimension {dim}", dim=dim)),
                _run(call.name, x, dim=dim),
            )
        return
    for name in ("sum", "mean", "amax", "amin"):
        for count in range(1, x.ndim + 1):
            for dims in combinations(range(x.ndim), count):
                other = "" if dims == call.dims else translate(" over {listed}", listed=_listed(dims))
                if name == call.name and not other:
                    continue
                for keep in (False, True):
                    fault = EngineFault(
                        f"{name}{dims}",
                        translate("is that of {name}{other}", name=name, other=other),
                        2 if not other else 3,
                    )
                    yield fault, _run(name, x, dim=dims, keepdim=keep)


def _listed(dims: Sequence[int]) -> str:
    return translate("dimension{plural} {names}", plural="s" if len(dims) > 1 else "", names=", ".join(map(str, dims)))

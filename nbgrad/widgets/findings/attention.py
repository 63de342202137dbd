"""Attention that does not attend: a softmax along the wrong dimension, or of one-hot rows, and wrong masks."""

from collections.abc import Iterator
from itertools import combinations
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.examination import Examination, literal
from nbgrad.widgets.findings.located import located

_HIDDEN = -1e4
"""A number that hides a score from a softmax is at most this."""

_BLIND = 1e-3
"""If a softmax passes on less than this part of its gradient, nearly all of its rows are one-hot."""

Truths = np.ndarray[Any, np.dtype[np.bool_]]
"""An array of truth values."""


def attention(case: Examination) -> Iterator[Finding]:
    """The findings about the softmax of an attention, and about masks."""
    turned = list(_turned(case))
    yield from turned
    for record in case.records:
        name = "" if record.op is None else record.op.name
        if name == "softmax" and not turned:  # the rows of padding are equal, so its gradient is 0
            yield from _attention(case, record)
        elif name == "masked_fill":
            yield from _mask(case, record)


def _attention(case: Examination, record: Record) -> Iterator[Finding]:
    """A softmax whose result weights the rows of a matrix."""
    dim, shape = record.settings.get("dim"), record.shape
    users = case.uses.get(record.id, [])
    product = next((one for one in users if _multiplies_first(case, one, record)), None)
    if len(shape) < 2 or not isinstance(dim, int):
        return
    if product is None:
        yield from _weighted(case, record, dim % len(shape))
        return
    if dim % len(shape) != len(shape) - 1:
        if len(users) > 1 or any(one.op is not None and one.op.name == "sum" for one in users):
            return  # slot attention divides by the sum
        text = translate(
            "{run} goes along dim={dim} of {shape}, but {run2} sums over the last dimension: the "
            "weights of a query do not add up to 1.",
            run=record.run,
            dim=dim,
            shape=shape,
            run2=product.run,
        )
        yield located(record, "attention", text, translate("Use dim=-1"))
        return
    came, went = record.gradient, record.inputs[0].gradient
    if came is not None and went is not None and came.norm > 0 and went.norm < _BLIND * came.norm and shape[-1] > 2:
        text = translate(
            "nearly every row of {run} is one-hot, so almost no gradient goes back to its scores: of "
            "norm {norm} only {norm2}.",
            run=record.run,
            norm=number(came.norm),
            norm2=number(went.norm),
        )
        remedy = translate("Divide the scores by the root of their dimension, as q @ k.transpose(-2, -1) / sqrt(d)")
        yield located(record, "attention", text, remedy, degree=came.norm / went.norm if went.norm else inf)


def _weighted(case: Examination, record: Record, dim: int) -> Iterator[Finding]:
    """A softmax of a matrix, whose weights get further dimensions before they are used: by a product, or a sum."""
    summed = _summed(case, record) if len(record.shape) == 2 else None
    if summed is not None and summed[0] != dim and record.shape[summed[0]] > 1:
        text = translate(
            "{run} goes along dim={dim} of {shape}, but {run2} sums over dimension {summed} of it: "
            "the weights there do not add up to 1.",
            run=record.run,
            dim=dim,
            shape=record.shape,
            run2=summed[1].run,
            summed=summed[0],
        )
        yield located(record, "attention", text, translate("Use dim={summed}", summed=summed[0]))


def _summed(case: Examination, record: Record) -> tuple[int, Record] | None:
    """The dimension of a matrix of weights over which weighted rows are summed, and the op that sums."""
    for user in case.uses.get(record.id, ()):
        name, at = "" if user.op is None else user.op.name, user.settings.get("dim")
        if name == "mul" and user.shape == record.shape and set(user.sources) != {record.id}:
            for last in case.uses.get(user.id, ()):
                over = _one_dim(last)
                if over is not None:
                    return over % 2, last
        if name != "unsqueeze" or not isinstance(at, int):
            continue
        at %= 3
        kept = [one for one in range(3) if one != at]  # where the two dimensions of the matrix are
        for later in case.uses.get(user.id, ()):
            used = "" if later.op is None else later.op.name
            if used in ("matmul", "bmm") and later.sources[:1] == (user.id,) and at != 2:
                return kept.index(2), later
            sums = case.uses.get(later.id, ()) if used == "mul" and len(later.shape) == 3 else ()
            for last in sums:
                over = _one_dim(last)
                if over is not None and over % 3 in kept:
                    return kept.index(over % 3), last
    return None


def _one_dim(record: Record) -> int | None:
    """The dimension over which a record sums; None if it is no sum over one."""
    over = record.settings.get("dim")
    over = over[0] if isinstance(over, tuple | list) and len(over) == 1 else over
    return over if record.op is not None and record.op.name == "sum" and isinstance(over, int) else None


def _multiplies_first(case: Examination, user: Record, softmax: Record) -> bool:
    """Whether ``user`` is a product of matrices whose first one is the result of ``softmax``."""
    if user.op is None or user.op.name not in ("matmul", "bmm"):
        return False
    given = case.giver(user)
    return given is not None and given.id == softmax.id


def _mask(case: Examination, record: Record) -> Iterator[Finding]:
    """A mask that hides every score of a row."""
    mask = next((case.made.get(taken.source or 0) for taken in record.inputs if taken.name == "mask"), None)
    value = next(
        (one for taken in record.inputs if taken.name == "value" and (one := literal(taken)) is not None), None
    )
    if value is None:
        value = record.settings.get("value")
    array = None if mask is None or mask.value is None else mask.value.array
    if array is None or not isinstance(value, int | float) or value > _HIDDEN or array.ndim < 1 or not array.size:
        return
    hidden = np.asarray(array, bool).all(axis=-1)
    if not hidden.any():
        return
    what = (
        translate("every score")
        if hidden.all()
        else translate("all scores of {total} of {size} rows", total=int(hidden.sum()), size=hidden.size)
    )
    text = translate("the mask of {run} hides {what}: the softmax after it cannot choose.", run=record.run, what=what)
    remedy = translate("Leave one score in each row; masked_fill hides where the mask is True")
    yield located(record, "attention", text, remedy, degree=float(hidden.mean()))


def _turned(case: Examination) -> Iterator[Finding]:
    """A mask that hides the tokens of padded sequences, and leaves the padding."""
    batches = [(source, padding) for record in case.records for source, padding in _padded(case, record)]
    for record in case.records if batches else ():
        shown = _shown(case, record)
        for source, padding in batches:
            if shown is not None and _leaves(shown, padding):
                text = translate(
                    "the mask of {run} leaves the padding of {full_name} {shape}, and hides every token.",
                    run=record.run,
                    full_name=source.full_name or translate("the tokens"),
                    shape=source.shape,
                )
                yield located(record, "attention", text, translate("Turn it, as ~mask does"))
                return


def _padded(case: Examination, record: Record) -> Iterator[tuple[Record, Truths]]:
    """The tokens of sequences that an embedding takes, with where their padding is."""
    if (read := case.words(record)) is None:
        return
    source, tokens = read
    known = record.settings.get("padding_idx")
    for rows in (tokens, tokens.T):
        for ended in (rows, rows[:, ::-1]):
            numbers, counts = np.unique(ended[:, -1], return_counts=True)
            usual = known if known is not None else numbers[counts.argmax()]
            padding = ended == usual
            length = padding.sum(axis=1)
            at_end = padding == np.minimum.accumulate(padding[:, ::-1], axis=1)[:, ::-1]
            differ = length.min() < length.max()
            if at_end.all() and length.max() > 1 and (differ or (known is not None and length.min() > 0)):
                yield source, padding if ended is rows else padding[:, ::-1]


def _shown(case: Examination, record: Record) -> "Truths | _Count | None":
    """Which numbers a mask leaves in an op that uses one; of a larger mask, how many."""
    name = "" if record.op is None else record.op.name
    if name not in ("masked_fill", "mul", "add", "baddbmm", "scaled_dot_product_attention"):
        return None
    sources = [(taken.name, case.source(record, at)) for at, taken in enumerate(record.inputs)]
    masks = [one for called, one in sources if one is not None and (called == "mask" or one.id not in case.learned)]
    value = masks[-1].value if masks else None
    if value is None or value.low is None or value.high is None or value.mean is None or value.nan:
        return None
    array, booleans = value.array, masks[-1].dtype == torch.bool
    if name in ("masked_fill", "mul") or booleans:  # 0 and 1
        if (value.low, value.high) != (0, 1) or value.inf:
            return None
        of_ones = value.mean * prod(value.shape)
        ones = _Count(value.shape, round(of_ones)) if array is None else array == 1
        return ones if name != "masked_fill" else ~ones if isinstance(ones, np.ndarray) else ones.turned()
    if value.inf:
        return _Count(value.shape, prod(value.shape) - value.inf) if array is None else array > _HIDDEN
    return array > _HIDDEN if array is not None and value.low <= _HIDDEN else None


class _Count(NamedTuple):
    """A mask whose shape is known, and how many numbers it leaves."""

    shape: tuple[int, ...]
    left: int

    def turned(self) -> "_Count":
        """The mask that leaves what this one hides."""
        return _Count(self.shape, prod(self.shape) - self.left)


def _leaves(mask: "Truths | _Count", padding: Truths) -> bool:
    """Whether a mask leaves just the ``padding``; of one that is counted, whether it leaves as many of as many."""
    if isinstance(mask, np.ndarray):
        return _equal(mask, padding)
    times, rest = divmod(prod(mask.shape), padding.size)
    tokens = padding.size - int(padding.sum())
    fits = not rest and padding.shape[1] in mask.shape and mask.shape[0] % padding.shape[0] == 0
    square = mask.shape[-2:] == (padding.shape[1],) * 2
    return fits and not square and tokens * times != mask.left == int(padding.sum()) * times


def _equal(mask: Truths, padding: Truths) -> bool:
    """Whether a mask is ``padding``, in two of its dimensions, and does not change along the others."""
    rows, places = padding.shape
    if mask.ndim > 2 and mask.shape[0] % rows == 0:
        mask = mask.reshape(rows, -1, *mask.shape[1:])  # a row for each head
    for first, second in combinations(range(mask.ndim), 2):
        if mask.shape[first] == rows and mask.shape[second] == places:
            whole = np.moveaxis(mask, (first, second), (-2, -1)).reshape(-1, rows, places)
            if len(whole) and bool((whole == padding).all()):
                return True
    return False

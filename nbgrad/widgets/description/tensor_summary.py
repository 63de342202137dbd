"""The numbers of a tensor as a reader sees them, made of its statistics: text, a heat map, a histogram."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number, scalar
from nbgrad.widgets.description.schema import Look

WRITTEN = 64
"""Values of tensors with at most this many elements are written out."""

WRITTEN_IN_BOX = 9
"""Values and gradients of tensors with at most this many elements stand in their boxes, instead of norms."""

FEW = 4
"""With at most this many elements a gradient is written out within a line."""

WIDE = 42
"""A list of numbers is broken after this many letters."""

_LEVELS = 12
"""Steps of the heat map on each side of zero."""

_BARS = 20


Numbers = Stats | Look | None
"""A tensor in an outline: its statistics, or already what a reader sees of them."""


def seen(numbers: Numbers) -> Look | None:
    """The part of the numbers that a reader sees."""
    return look(numbers) if isinstance(numbers, Stats) else numbers


def smaller(numbers: Numbers) -> Numbers:
    """The numbers in fewer bytes: where there are many, a letter for each is enough."""
    if isinstance(numbers, Stats) and numbers.raw is not None and prod(numbers.shape) > WRITTEN:
        return look(numbers)
    return numbers


def look(stats: Stats) -> Look:
    """The numbers of a tensor as they are shown, as far as they are known."""
    values = stats.array
    if values is None or values.ndim == 0 or values.size == 0 or values.dtype.kind not in "fiubc":
        values = None
    found: Look = {
        "facts": facts(stats),
        "columns": 0,
        "levels": "",
        "cells": [],
        "bars": [],
        "low": "",
        "high": "",
        "sample": "",
    }
    if values is not None:
        table = tiled(np.abs(values) if values.dtype.kind == "c" else values.astype(np.float64))
        found["columns"] = table.shape[1]
        found["levels"] = _levels(table)
        if table.size <= WRITTEN:
            written = number if values.dtype.kind in "fc" else str
            found["cells"] = [written(value) for value in tiled(values).ravel().tolist()]
        if table.size > 8:
            found["bars"] = _percent(_counts(table))
    elif stats.counts is not None:
        found["bars"] = _percent(np.array(stats.counts))
    if found["bars"] and stats.low is not None and stats.high is not None:
        found["low"], found["high"] = number(stats.low), number(stats.high)
        if stats.magnitudes:
            found["low"] = translate("magnitude {found}", found=found["low"])
        if stats.sample is not None:
            found["sample"] = translate("{sample:,} of {prod:,}", sample=stats.sample, prod=prod(stats.shape))
    return found


def amount(stats: Stats, most: int = 1) -> str:
    """A gradient in a few words: its numbers, with their signs, if there are at most ``most``."""
    values = stats.array
    if values is None or not 0 < values.size <= most or values.dtype.kind not in "fiubc":
        return f"norm {number(stats.norm)}"
    numbers = ", ".join(map(scalar, values.ravel().tolist()))
    return numbers if values.size == 1 else f"[{numbers}]"


def numbers_text(stats: Stats) -> str:
    """All numbers of a small tensor in their rows, as Python writes lists."""
    values = stats.array
    assert values is not None
    return _nested(values.tolist(), scalar)


def in_box(stats: Stats) -> str:
    """The same for a box: more than FEW numbers have three digits each. The panel of the box shows all digits."""
    values = stats.array
    assert values is not None
    return _nested(values.tolist(), scalar if values.size <= FEW else _brief)


def _brief(value: Any) -> str:
    return f"{value:z.3g}" if isinstance(value, float | complex) else str(value)


def _nested(values: Any, written: Callable[[Any], str]) -> str:
    """A number, or lists of numbers."""
    if isinstance(values, list):
        return f"[{', '.join([_nested(one, written) for one in values])}]"
    return written(values)


def broken(text: str) -> list[str]:
    """A list of numbers in as many lines as it takes, broken after a comma."""
    lines = [""]
    for part in text.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(longer) > WIDE and lines[-1]:
            lines[-1] += ","
            longer = part
            lines.append("")
        lines[-1] = longer
    return lines


def facts(stats: Stats) -> str:
    """The statistics of a tensor, or the one number that it is."""
    if stats.shape == () and stats.raw is not None:
        return scalar(stats.values)
    parts = [f"norm {number(stats.norm)}"]
    if stats.low is not None and stats.high is not None and stats.mean is not None:
        mean, ends = f"mean {number(stats.mean)}", f"min {number(stats.low)}, max {number(stats.high)}"
        if stats.magnitudes:
            parts.append(translate("magnitudes: {mean}, {ends}", mean=mean, ends=ends))
        else:
            parts[0] += f", {mean}"
            parts.append(ends)
    parts += [f"{count} {what}" for count, what in ((stats.nan, "NaN"), (stats.inf, "Inf")) if count]
    return "\n".join(parts)


def tiled(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Any tensor as one table: the maps of a convolution side by side, rows of outputs, columns of inputs."""
    if values.ndim < 2:
        return values.reshape(1, -1)
    if values.ndim == 2:
        return values
    *lead, high, wide = values.shape
    rows = int(np.prod(lead[:-1], dtype=int))
    return values.reshape(rows, lead[-1], high, wide).transpose(0, 2, 1, 3).reshape(rows * high, lead[-1] * wide)


def _levels(table: "np.ndarray[Any, Any]") -> str:
    if np.isfinite(table).all():
        return bytes(_steps(table).ravel()).decode()
    sound = np.isfinite(table)
    steps = np.where(np.isnan(table), _NAN, np.where(sound, _steps(np.where(sound, table, 0)), _INF)).astype(np.uint8)
    return bytes(steps.ravel()).decode()


_ZERO, _NAN, _INF = ord("M"), ord("n"), ord("i")


def _steps(table: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The letters of finite numbers; a square root brings out the small ones."""
    size = np.abs(table)
    roots = np.sqrt(size) * (_LEVELS / np.sqrt(size.max() or 1.0)) + 0.5
    letters: np.ndarray[Any, Any] = (_ZERO + np.copysign(np.floor(roots), table)).astype(np.uint8)
    return letters


def _counts(table: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    sound = table.ravel() if np.isfinite(table).all() else table[np.isfinite(table)]
    if not sound.size:
        return np.zeros(0)
    low, high = sound.min(), sound.max()
    bins = ((sound - low) * (_BARS / (high - low or 1.0))).astype(int)
    return np.bincount(np.minimum(bins, _BARS - 1), minlength=_BARS)


def _percent(counts: "np.ndarray[Any, Any]") -> list[int]:
    largest = int(counts.max()) if counts.size else 0
    if not largest:
        return []
    # A bar that is not empty is at least visible.
    return [max(-(-100 * count // largest), 4) if count else 0 for count in counts.tolist()]

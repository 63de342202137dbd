"""The few words after the name of an op that tell it from others of its kind: "× 2.5", "3×3 s2 p1", "dim 0"."""

from collections.abc import Mapping
from typing import Any

import torch

from nbgrad.core.engine.tensor_data import dtype_name
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.details import setting_text
from nbgrad.widgets.description.format import scalar

_MOST = 30
"""The most letters of the text."""

_NAMED = {
    "dim": "dim",
    "correction": "correction",
    "negative_slope": "slope",
    "approximate": "",
    "diagonal": "diagonal",
    "dtype": "",
    "reduction": "",
    "groups": "g",
    "num_groups": "groups",
    "p": "p",
    "index": "",
    "dims": "",
    "dim0": "",
    "dim1": "",
    "equation": "",
    "is_causal": "causal",
    "label_smoothing": "smoothing",
    "ignore_index": "ignoring",
    "keepdim": "keepdim",
    "alpha": "alpha",
    "output_size": "to",
    "shifts": "by",
    "repeats": "×",
}
"""The settings that are written if they are not the default, in this order, and the word before each."""


def distinction(record: Record, shapes: Mapping[int, tuple[int, ...]]) -> str:
    """The text after the name of the op of ``record``; empty if nothing tells it from others.

    Args:
        record: an op.
        shapes: the shape of each record, by its id.
    """
    op = record.op
    if op is None:
        return ""
    parts = _windowed(record, shapes) or _settings(record, op.defaults)
    numbers = [(at, one) for at, one in enumerate(record.inputs) if one.literal is not None]
    for at, one in numbers:
        text = scalar(one.literal)
        if (sign := traits_of(op).sign) is None or len(record.inputs) != 2:
            parts.append(f"{one.name} {text}")
        elif at == 0:
            parts.append(f"{text} {sign} x")
        else:
            parts.append(text if op.name == "pow" else f"{sign} {text}")
    told = ""
    for part in parts:
        longer = f"{told} {part}" if told else part
        if len(longer) > _MOST:
            break
        told = longer
    return told


def _settings(record: Record, defaults: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, word in _NAMED.items():
        value = record.settings.get(name)
        if value is None or value is False or (name in defaults and _same(defaults[name], value)):
            continue
        if value is True:
            found.append(word)
            continue
        text = _text(value)
        if name == "index":
            text = f"[{text}]"
        elif name == "dim" and isinstance(value, tuple | list):
            text = ", ".join(map(str, value))
            word = "dims" if len(value) > 1 else "dim"
        found.append(f"{word} {text}" if word else text)
    return found


def _same(default: Any, value: Any) -> bool:
    try:
        return bool(default == value)
    except Exception:  # a setting may be any object, even one that compares elementwise
        return False


def _text(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    return scalar(value) if isinstance(value, float) else setting_text(value)


def _windowed(record: Record, shapes: Mapping[int, tuple[int, ...]]) -> list[str]:
    """A convolution or a pooling: the size of its window, and any unusual stride, padding or dilation."""
    assert record.op is not None
    settings, name = record.settings, record.op.name
    if "stride" not in settings or "padding" not in settings:
        return []
    if name.startswith("conv"):
        weight = next((shapes.get(one.source or 0) for one in record.inputs if one.name == "weight"), None)
        window = weight[2:] if weight is not None else ()
        stride = 1
    else:
        window = settings.get("kernel_size", ())
        stride = window  # the usual one of a pooling
    dimensions = next((int(end[0]) for end in ("1d", "2d", "3d") if end in name), 1)
    found = [_sizes(window, dimensions)] if window else []
    usual: list[tuple[str, str, Any]] = [
        ("s", "stride", stride),
        ("p", "padding", 0),
        ("d", "dilation", 1),
        ("g", "groups", 1),
    ]
    for letter, setting, default in usual:
        value = settings.get(setting)
        if value is None or value in ([], ()) or _spread(value) == _spread(default):
            continue
        found.append(f"{letter}{_sizes(value, 1)}")
    return found


def _spread(value: Any) -> Any:
    """One number for all dimensions, if it is the same."""
    if isinstance(value, tuple | list) and len(set(value)) == 1:
        return value[0]
    return tuple(value) if isinstance(value, list) else value


def _sizes(value: Any, dimensions: int) -> str:
    one = _spread(value)
    if isinstance(one, tuple):
        return "×".join(map(str, one))
    return "×".join([str(one)] * max(dimensions, 1))

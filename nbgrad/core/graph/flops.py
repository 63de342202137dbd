"""The floating point operations of recorded ops: torch counts them as it runs each op on tensors without memory."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.dispatch.table import Op
from nbgrad.core.graph.record import Described, Record
from nbgrad.core.graph.saved_op import SavedOp
from nbgrad.core.recorder.functions import arguments_of


@muted
def flops_of(records: list[Record]) -> dict[int, int | None]:
    """The operations in products and convolutions of the forward of each op, by the id of its record.

    A multiplication with its addition is two. None where they are not known: for a function of the user's, and an op
    whose settings are not recorded.
    """
    made = {record.id: record for record in records}
    known: dict[Any, int | None] = {}
    found: dict[int, int | None] = {}
    for record in records:
        if record.op is None or record.kind != "op":
            continue
        inputs = [None if source is None else made.get(source) for source in record.parents]
        shapes = tuple([None if one is None else (one.shape, one.dtype) for one in inputs])
        literals = tuple([taken.literal for taken in record.inputs])
        key = record.op, shapes, repr((literals, record.settings))
        if key not in known:
            known[key] = _counted(record, shapes, literals)
        found[record.id] = known[key]
    return found


def _counted(record: Record, shapes: tuple[Any, ...], literals: tuple[Any, ...]) -> int | None:
    """Run the op on the meta device, and count."""
    op = record.op
    if not isinstance(op, Op) and (states := _STATES.get(record.kind_or_op)) is not None:
        return _of_recurrence([facts[0] for facts in shapes if facts is not None], states)
    if isinstance(op, SavedOp):  # a file may name any function, so none is called
        return 0 if len(shapes) == 1 and _is_torchs(op.name) else None
    function: Any = op.forward if isinstance(op, Op) else _torchs(record.kind_or_op)
    if function is None:
        return None
    if not isinstance(op, Op) and len(shapes) == 1:
        return 0  # a product has two factors
    counter = flop_counter()
    try:
        args = [
            literal if facts is None else torch.empty(facts[0], dtype=facts[1], device="meta")
            for facts, literal in zip(shapes, literals, strict=True)
        ]
        settings = {name: _without_numbers(value) for name, value in record.settings.items()}
        if isinstance(op, Op):  # torch's own None stands for the default of the row
            settings = {name: op.defaults.get(name) if value is None else value for name, value in settings.items()}
        else:
            args, settings = arguments_of(record.kind_or_op, args, settings)
        with torch.no_grad(), counter:
            function(*args, **settings)
    except Exception:  # whatever its kernel says about such tensors, which may be nested ones
        return None
    return int(counter.get_total_flops())


_STATES = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}
"""Torch's recurrent functions, which take a list of weights, and how many states each has."""


def _of_recurrence(shapes: list[tuple[int, ...]], states: int) -> int | None:
    """The operations of a recurrent function of torch's: each vector of the input meets each matrix once.

    The shapes are those of the input, of the lengths of a packed one, of the states, and of the weights.
    """
    if len(shapes) < 2:
        return None
    packed = len(shapes[1]) == 1
    vectors = prod(shapes[0][:-1])
    return 2 * vectors * sum([prod(shape) for shape in shapes[1 + packed + states :] if len(shape) == 2])


def _torchs(name: str) -> Any:
    """Torch's function of this name, which has no row; None for a function of the user's."""
    bare = name.removesuffix("_")
    return next((found for home in _HOMES if (found := getattr(home, bare, None)) is not None), None)


_HOMES = (torch.nn.functional, torch, torch.Tensor)


def _is_torchs(name: str) -> bool:
    """Whether torch has a function of this name. To ask for an attribute of torch could import a module."""
    return any(name.removesuffix("_") in dir(home) for home in _HOMES)


def _without_numbers(value: Any) -> Any:
    """A setting with tensors without memory in the place of those that the record describes."""
    if isinstance(value, Described):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    if isinstance(value, tuple):
        return tuple([_without_numbers(part) for part in value])
    return value


def flop_counter() -> FlopCounterMode:
    """Torch's counter, which knows two more kernels: those of the CPU for attention and for a recurrent layer."""
    return FlopCounterMode(display=False, custom_mapping=_MORE)


def _recurrent(input: Any, w_ih: Any, w_hh: Any, *_: Any, **_settings: Any) -> int:
    return int(2 * input[0] * input[1] * (prod(w_ih) + prod(w_hh)))


def _attention(query: Any, key: Any, value: Any, *_: Any, **_settings: Any) -> int:
    count: Callable[..., Any] = sdpa_flop_count
    return int(count(query, key, value))


_MORE: dict[Any, Callable[..., int]] = {
    torch.ops.aten.mkldnn_rnn_layer: _recurrent,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
}

"""The floating point operations of recorded ops: torch counts them as it runs each op on tensors without memory."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.dispatch.table import Op
from nbgrad.core.graph.record import Described, Record


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
    function: Any = op.forward if isinstance(op, Op) else _torchs(record.kind_or_op)
    if function is None:
        return None
    if not isinstance(op, Op) and len(shapes) == 1:
        return 0  # a product has two factors
    args = [
        literal if facts is None else torch.empty(facts[0], dtype=facts[1], device="meta")
        for facts, literal in zip(shapes, literals, strict=True)
    ]
    settings = {name: _without_numbers(value) for name, value in record.settings.items()}
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            function(*args, **settings)
    except Exception:  # whatever its kernel says about such tensors
        return None
    return int(counter.get_total_flops())


def _torchs(name: str) -> Any:
    """Torch's function of this name, which has no row; None for a function of the user's."""
    bare = name.removesuffix("_")
    homes = (torch.nn.functional, torch, torch.Tensor)
    return next((found for home in homes if (found := getattr(home, bare, None)) is not None), None)


def _without_numbers(value: Any) -> Any:
    """A setting with tensors without memory in the place of those that the record describes."""
    if isinstance(value, Described):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    if isinstance(value, tuple):
        return tuple([_without_numbers(part) for part in value])
    return value

"""The storages that the nodes of torch's graph keep for its backward.

A node shows each saved value twice: ``_saved_x`` unpacks it, which may run a hook of the user's and raises if the value
was changed in place; ``_raw_saved_x`` only shows what is held. So only the latter is read.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.kept import Reading, tensors_in
from nbgrad.core.engine.node import Node, OpInfo
from nbgrad.core.engine.torch_origins import KEY, leaf_of, owner_of
from nbgrad.core.engine.walk import nodes_before, reached
from nbgrad.core.recorder.nodes import ACCUMULATES

_RAW = "_raw_saved_"

_CHANGED_VIEW = "CopySlices"
"""The class of the node of a change in place of a view. It holds the node of that change, which torch does not show."""

_WITHOUT_CLASS = "CppFunction"
"""The class of all nodes that have none of their own in Python, and so show nothing: the node of what ``torch.jit`` has
compiled, and that of a ``Function`` in C++."""


@cache
def names_in(kind: Any, start: str) -> list[str]:
    """The names with this ``start`` in a class of torch's nodes: those of the values that it saves."""
    return [name for name in dir(kind) if name.startswith(start)]


def kept_below(roots: list[Any], found: Reading | None = None) -> Reading:
    """Read what torch's nodes below ``roots``, themselves included, keep; added to what was ``found`` before."""
    found = found or Reading()
    with torch._C.DisableTorchFunction():  # the user's own modes and classes have no part in it
        _read_below(roots, found)
    return found


def keep_below(roots: list[Any], op: Node, found: Reading, given: Mapping[torch.Tensor, int]) -> None:
    """Note what the nodes of a graph keep that torch recorded for one op of nbgrad's own, as kept by this op.

    Args:
        roots: the nodes of its results.
        op: the op.
        found: the reading that the values are added to.
        given: by the leaf of that graph that stands for a tensor of nbgrad's, the number of the op that made it.
    """
    with torch._C.DisableTorchFunction():
        inside = [made for made in reached(roots, nodes_before) if type(made) is not ACCUMULATES]
        for made in inside:
            after = nodes_before(made)
            enters = bool(after) and type(after[0]) is ACCUMULATES
            found.makers[made] = given.get(after[0].variable, op.seq) if enters else op.seq
        for made in inside:
            _read(made, op, found)


def _read_below(roots: list[Any], found: Reading) -> None:
    seen = set[Any]()
    waiting: list[tuple[Any, Node | None]] = [(root, None) for root in roots]
    while waiting:
        made, owner = waiting.pop()
        if made in seen:
            continue
        seen.add(made)
        if type(made) is ACCUMULATES:
            found.own(made.variable, leaf_of(made.variable).seq)
            continue
        known = made.metadata.get(KEY)
        if known is not None:
            owner = owner_of(known)
        waiting += [(after, owner) for after in nodes_before(made)]
        if owner is not None:
            _read(made, owner, found)


def _read(made: Any, owner: Node, found: Reading) -> None:
    """Add what the node ``made``, a part of the op of ``owner``, keeps to ``found``."""
    op = owner.seq
    found.ops.add(op)
    if isinstance(made, BackwardCFunction):
        names = [f"{_RAW}tensors"]
        for name, value in vars(made).items():  # what the user's ``Function`` has put on ``ctx``
            found.keep(op, name, value, op, aside=True)
    else:
        kind = type(made)
        names = names_in(made.__class__, _RAW)
        name = kind.__name__
        if name == _WITHOUT_CLASS or (name == _CHANGED_VIEW and _needs_values(owner)):
            found.hidden.add(op)
    for raw in names:
        with suppress(RuntimeError):  # a backward has freed them
            held = getattr(made, raw)
            for one in held if isinstance(held, tuple | list) else (held,):
                if one is not None:
                    _hold(one, op, raw.removeprefix(_RAW), found)


def _needs_values(owner: Node) -> bool:
    """Whether the op may keep a tensor: the rules of add and of copy need none."""
    op: OpInfo | None = owner.op if owner.op.rules else OPS.get(owner.op.name.removesuffix("_"))
    if op is None:
        return True
    named = {name for rule in op.rules.values() for name in rule.needs}
    settings = [value for name, value in owner.settings.items() if name in named]
    return not named.isdisjoint((*op.inputs, *op.results)) or any(True for _ in tensors_in(settings))


def _hold(saved: Any, op: int, name: str, found: Reading) -> None:
    """Add the saved value ``saved``, or what a hook of the user's has put in its place."""
    hook = saved.unpack_hook
    data = saved.data
    if hook is None:
        if data is not None and not _is_number(data):
            found.keep(op, name, data, _maker(data, op, found))
        return
    found.keep(op, name, data, 0)
    for value in _checkpointed(hook):
        found.keep(op, "checkpoint", value, _maker(value, 0, found))


def _is_number(data: torch.Tensor) -> bool:
    """Whether ``data`` is a number of Python's, as the 2 in ``x * 2``: torch wraps it, and does not count it either.

    Such a number has the widest type of its kind, and yet any other tensor without dimensions decides the type.
    """
    narrow = _NARROW.get(data.dtype) if data.dim() == 0 and data.is_cpu else None
    return narrow is not None and torch.result_type(data, torch.empty((), dtype=narrow)) is narrow


_NARROW = {torch.float64: torch.float32, torch.int64: torch.int32, torch.complex128: torch.complex64}
"""For the types that torch gives to a number of Python's, a narrower type of the same kind."""


def _maker(data: torch.Tensor, op: int, found: Reading) -> int:
    """The number of the op that made ``data``; ``op``, which has saved it, if nothing else has a gradient for it."""
    base = data._base if data._is_view() else data
    made: Any = None if base is None else base.grad_fn
    if made is None:
        return op
    known = made.metadata.get(KEY)
    return found.makers.get(made) or (op if known is None else owner_of(known).seq)


def _checkpointed(hook: Any) -> Iterator[torch.Tensor]:
    """The arguments that a checkpoint of torch's keeps, if ``hook`` is the one that runs its function again."""
    if getattr(hook, "__module__", None) != "torch.utils.checkpoint":
        return
    cells = [cell.cell_contents for cell in hook.__closure__ or ()]
    cells += [inner.cell_contents for one in cells for inner in getattr(one, "__closure__", None) or ()]
    for frame in cells:
        if (saver := getattr(frame, "input_saver", None)) is not None:  # until torch 2.11
            args = saver._raw_saved_tensors
        else:
            args = getattr(frame, "saved_args", ())
        for one in args:
            data = getattr(one, "data", None)
            if isinstance(data, torch.Tensor):
                yield data

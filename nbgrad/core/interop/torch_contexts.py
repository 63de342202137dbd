"""torch's contexts for the values saved for a backward also hold for the values that nbgrad's ops save.

These are ``torch.autograd.graph.saved_tensors_hooks`` and the classes derived from it. One of these is how
``torch.utils.checkpoint.checkpoint(..., use_reentrant=False)`` drops the saved values. Inside it nbgrad's ops drop
theirs too, and nbgrad's backward runs torch's own function for the second run: it restores the random numbers,
autocast and the contexts that the call asked for.
"""

from collections.abc import Callable
from contextlib import suppress
from sys import modules
from typing import Any

import torch
from torch.autograd import graph as theirs

from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, current, recording
from nbgrad.core.functional.checkpoint import Segment, name_of
from nbgrad.core.functional.saved_tensors import packing
from nbgrad.core.recorder.patches import Patch

_CHECKPOINTS = "torch.utils.checkpoint"


def _switch(context: Any) -> Switch:
    """The switch inside which ``context``, which torch has entered, holds for nbgrad's ops."""
    if type(context).__module__ != _CHECKPOINTS:
        return packing(context.pack_hook, context.unpack_hook, raw=True)
    if type(context).__name__ != "_checkpoint_hook" or not recording(current()):
        return Switch()  # the context of the second run serves torch's tensors alone
    frame = _captured(context.pack_hook).get("frame")
    segment = None if frame is None else _segment(frame)
    return Switch(observers=(*current().observers, _Refuses())) if segment is None else segment.forgetting()


def _segment(frame: Any) -> Segment | None:
    """The first run of a checkpoint of torch's, whose facts are in ``frame``; None if they cannot be read."""
    captured, given = _captured(frame.recompute_fn), _given(frame)
    if "fn" not in captured or given is None:
        return None
    ours = [one for one in given if not isinstance(one, torch.Tensor)]  # torch looks after its own
    segment = Segment(
        lambda: frame.recompute_fn(*_arguments(frame)),
        [ours, captured.get("kwargs")],
        name_of(captured["fn"]),
        captured.get("preserve_rng_state", True),
    )
    segment.stops = frame.early_stop
    segment.compares = frame.metadata_fn(torch.empty(0)) is not None
    segment.called = "torch.utils.checkpoint.checkpoint"

    def error(text: str) -> Exception:
        made: Exception = modules[_CHECKPOINTS].CheckpointError(text)
        if frame.unpack_error_cb is not None:  # debug=True
            frame.unpack_error_cb(made)
        return made

    segment.error = error
    return segment


def _given(frame: Any) -> list[Any] | None:
    """The arguments of the first run, with something else in place of torch's tensors; None if they are not found."""
    if hasattr(frame, "saved_args"):
        return list(frame.saved_args)
    context = getattr(getattr(frame, "input_saver", None), "grad_fn", None)  # before torch 2.12
    return None if context is None else _captured(context.get_args).get("args")


def _arguments(frame: Any) -> list[Any]:
    """The arguments of the second run."""
    if hasattr(frame, "saved_args"):
        return list(frame.get_inputs())
    context = frame.input_saver.grad_fn
    return list(context.get_args(context.saved_tensors))


def _captured(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables of the functions around ``function`` that it uses, by name."""
    captured = {}
    cells: Any = getattr(function, "__closure__", None) or ()
    for name, cell in zip(function.__code__.co_freevars if cells else (), cells, strict=True):
        with suppress(ValueError):  # it has no value yet
            captured[name] = cell.cell_contents
    return captured


class _Refuses(Observer):
    """Watches a checkpoint of torch's that cannot be read, because torch has changed: no op may save in silence."""

    __slots__ = ()

    def on_record(self, node: Any, _args: tuple[Any, ...], _out: torch.Tensor) -> None:
        raise NotImplementedError(
            f"{node.op.name}() on an nbgrad tensor inside torch.utils.checkpoint.checkpoint, whose parts nbgrad does "
            f"not find in torch {torch.__version__}: no memory would be saved. Write nbgrad.checkpoint(...)"
        )


def _entering(enter: Callable[..., Any]) -> Callable[..., Any]:
    """The method that begins a context, around torch's."""

    def entered(self: Any) -> None:
        if torch.compiler.is_compiling():  # torch's compiler follows its own contexts, but not ours
            enter(self)
            return
        switch = _switch(self)
        enter(self)
        switch.__enter__()
        vars(self).setdefault("_nbgrad", []).append(switch)

    entered._nbgrad = True  # type: ignore[attr-defined]
    return entered


def _leaving(leave: Callable[..., Any]) -> Callable[..., Any]:
    """The method that ends a context, around torch's."""

    def left(self: Any, *raised: Any) -> None:
        try:
            entered_here = None if torch.compiler.is_compiling() else vars(self).get("_nbgrad")
            if entered_here:
                entered_here.pop().__exit__(*(raised or (None, None, None)))
        finally:
            leave(self, *raised)

    return left


PATCHES = (
    Patch(theirs.saved_tensors_hooks, "__enter__", _entering),
    Patch(theirs.saved_tensors_hooks, "__exit__", _leaving),
)
"""The patches that make torch's contexts hold for nbgrad's ops."""

if not hasattr(theirs.saved_tensors_hooks.__enter__, "_nbgrad"):
    for _patch in PATCHES:
        _patch.install()

"""Broadcasting that is probably a mistake: an error where the user asked for one, a warning in a loss."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.call_site import called_by_user, user_frame, variable_name
from nbgrad.core.engine.faults import Refusal
from nbgrad.core.engine.node import OpInfo, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import State, Switch, current, is_grad_enabled
from nbgrad.core.tensor.call_errors import announced
from nbgrad.core.tensor.methods import TensorMethods

Shape = tuple[int, ...]


class BroadcastError(Refusal, RuntimeError):
    """An op would stretch a tensor inside ``strict_broadcast``."""


class strict_broadcast(Switch):  # noqa: N801  # named as no_grad is
    """A context in which an op raises if it would stretch a tensor to fit another one, recorded or not.

    Numbers and 0-d tensors fit every shape. Three cases are also allowed: the bias of ``linear``, a matrix that
    multiplies a batch, and broadcasts inside nbgrad's own blocks. Works as ``with strict_broadcast():`` and
    ``@strict_broadcast()``.

    Raises:
        BroadcastError: names the op, the shapes and what to write instead.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def _again(self) -> "strict_broadcast":
        return strict_broadcast()

    def _changed(self, before: State) -> State:
        return before.replaced(observers=(*before.observers, _Strict()), outer=before)


class _Strict(Observer):
    """Looks at the shapes before an op runs, so that a huge result is never made."""

    __slots__ = ()

    def follows_torch(self) -> bool:
        """It looks at shapes, which torch's ops have too."""
        return True

    def on_call(self, op: OpInfo, args: tuple[Any, ...]) -> None:
        """Raise if ``op`` would stretch one of ``args``."""
        if len(op.broadcasts) < 2 or current().walking:
            return
        given = {position: tuple(args[position].shape) for position in sorted(op.broadcasts) if _ndim(args[position])}
        # A matrix product stretches what comes before the last two dimensions; a single matrix fits any batch.
        shapes = {p: s[:-2] if op.name == "matmul" else s for p, s in given.items() if op.name != "matmul" or s[2:]}
        if len(set(shapes.values())) < 2:
            return
        result = _broadcast(*shapes.values())
        if result is not None and called_by_user():
            stretched = {position: shape for position, shape in shapes.items() if shape != result}
            raise announced(BroadcastError(_strict_text(op, args, given, stretched, result)), op, args)


def _strict_text(
    op: OpInfo, args: tuple[Any, ...], given: dict[int, Shape], stretched: dict[int, Shape], result: Shape
) -> str:
    kind = "operand" if op.arity == 2 else "argument"
    names = {position: _called(args[position], position, kind) for position in given}
    listed = " and ".join(f"{names[position]} of shape {shape}" for position, shape in given.items())
    full = {position: (*result, *given[position][len(shape) :]) for position, shape in stretched.items()}
    remedy = " and ".join(names[p].after(f".expand({', '.join(map(str, shape))})") for p, shape in full.items())
    those = " and ".join(str(names[position]) for position in stretched)
    text = f"strict_broadcast: {op.name} of {listed} would stretch {those} to {result}. If that is meant, write"
    text = f"{text} {remedy}"
    pair = [(names[position], shape) for position, shape in given.items()][:2]
    return f"{text}; {_paired(*pair)}" if len(stretched) > 1 else f"{text}."


class _Called(NamedTuple):
    """The user's name of a tensor. A tensor without a name, such as the value of an expression, gets a description."""

    name: str | None
    words: str

    def __str__(self) -> str:
        return self.name or self.words

    def after(self, method: str) -> str:
        """The call of ``method`` on this tensor, as the user would write it."""
        return f"{self.name}{method}" if self.name else f"{method} on {self.words}"


def warn_unpaired(op: str, input: Any, target: Any) -> None:
    """Warn, once per line, that a loss compares tensors of two shapes: each prediction with several targets."""
    a, b = tuple(input.shape), tuple(target.shape)
    result = _broadcast(a, b)
    if result is None:
        return
    kind = "operand" if op == "sub" else "argument"
    first, second = _called(input, 0, kind, raw=True), _called(target, 1, kind, raw=True)
    pairs = _paired((first, a), (second, b))
    warn_here(f"{op} compares {first} of shape {a} with {second} of shape {b}, which broadcast to {result}: {pairs}")


def warn_one_class(op: str, input: Any, target: Any) -> None:
    """Warn, once per line, that a choice among one class costs nothing, whatever the scores."""
    warn_here(
        f"{op} has scores of shape {tuple(input.shape)} for targets of shape {tuple(target.shape)}: with one class the "
        "loss is always 0. Give a score for each of two classes, or use a loss that takes one number, such as mse_loss "
        "with targets of the scores' shape."
    )


def warn_copied(shape: Shape) -> None:
    """Warn, once per line, that a tensor that needs a gradient is copied without its history."""
    if is_grad_enabled() and called_by_user():
        warn_here(
            f"nbgrad.tensor() of a tensor of shape {shape} that needs a gradient copies its values, and no gradient "
            "flows through it: use the tensor itself, or t.clone() for a copy; write t.detach().clone() if that is "
            "meant, with .requires_grad_() for a leaf of its own"
        )


def warn_number() -> None:
    """Warn, once per line, that a tensor that needs a gradient becomes a number in a list."""
    warn_here(
        "a tensor that needs a gradient becomes a number in the list for nbgrad.tensor(), and no gradient flows "
        "through it: pass t.detach() if that is meant"
    )


def warn_here(text: str) -> None:
    """Warn, once for each line of the user's, at the line that runs now."""
    frame = user_frame()
    warnings.warn_explicit(
        *(text, UserWarning, frame.f_code.co_filename, frame.f_lineno),
        module=frame.f_globals.get("__name__", "__main__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def unpaired(input: Any, target: Any) -> bool:
    """Whether one shape is (N, 1) and the other (N,), so that both broadcast to (N, N)."""
    a: Shape = getattr(input, "shape", ())
    b: Shape = getattr(target, "shape", ())
    column, row = (a, b) if len(a) == 2 else (b, a)
    return len(column) == 2 and len(row) == 1 and column[1] == 1 and column[0] == row[0] > 1


def has_given_axis(data: Any) -> bool:
    """Whether ``data``, a raw tensor or array, have shape (N, 1) because the user gave an axis, as in ``x[:, None]``.

    So it is if they are a view of data with fewer dimensions.
    """
    if len(data.shape) != 2 or data.shape[1] != 1:
        return False
    base = data._base if isinstance(data, torch.Tensor) else data.base
    return getattr(base, "ndim", 2) < 2


def meant(input: Any, target: Any, constant: int) -> bool:
    """Whether the user has just given one of two raw tensors an axis: then both are meant to meet in every pair.

    A constant, the operand at position ``constant``, may have got its axis long before. So the axis counts if the
    constant has no name, as in ``x - centers[:, None]``.
    """
    for position, data in enumerate((input, target)):
        named = position == constant and _called(data, position, "operand", raw=True).name is not None
        if has_given_axis(data) and not named:
            return True
    return False


def _paired(a: tuple[_Called, Shape], b: tuple[_Called, Shape]) -> str:
    """How to make two tensors fit one to one."""
    (column, shape), (row, other) = (a, b) if len(a[1]) >= len(b[1]) else (b, a)
    if len(shape) == len(other) + 1 and shape[-1] == 1:
        return (
            "every element of one meets every element of the other. If they are to be paired one by one, give both one "
            f"shape: {column.after('.squeeze(-1)')} or {row.after('.unsqueeze(-1)')}."
        )
    return "if they are to be paired one by one, give both one shape."


def _broadcast(*shapes: Shape) -> Shape | None:
    """The shape that ``shapes`` broadcast to; None if they do not fit: the op itself then raises the error."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None


def _ndim(value: Any) -> int:
    return value.ndim if isinstance(value, TensorMethods | torch.Tensor | np.ndarray) else 0  # type: ignore[union-attr]


def _called(value: Any, position: int, kind: str, *, raw: bool = False) -> _Called:
    name = variable_name(lambda tensor: (raw_of(tensor) if raw else tensor) is value)
    own = getattr(value, "name", None) if isinstance(value, TensorMethods) else None
    return _Called(name or own, f"the {_ORDINALS[position]} {kind}")


_ORDINALS = ("first", "second", "third", "fourth", "fifth")

"""The op at which the first NaN or Inf of a program began, found when a loss is not finite.

A step with a bad gradient spoils every parameter. So when the next backward begins, or the cell ends, the numbers no
longer tell where the trouble began. At the first backward whose loss is not finite, they still do: if the parameters
are sound, the forward made it, and runs once more, op by op. If not, the step before spoiled them: the gradients of the
last backward are still there, and tell in which rule it began. A loop with finite losses pays for one comparison in
each backward.
"""

from collections.abc import Callable, Mapping
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.graph import nonfinite
from nbgrad.core.graph.facts import Literal, Outer, Ran
from nbgrad.core.graph.last_backward import FrameRecorder
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import translate

MOST = 5_000
"""A forward of more ops than this is not run again."""

Saved = Callable[[int], list[tuple[str, torch.Tensor]]]
"""A function that gives the tensors that the op with a number has saved, each with torch's name for it."""


class FirstBad(NamedTuple):
    """The beginning of a NaN or an Inf.

    Attributes:
        number: the backward in which it began, from 1.
        phase: "forward"; "backward"; "step": the gradients were finite, and the step made it; "data": an input held it;
            "start": a parameter held it before the first backward; "unrecorded": it began before this backward, in one
            that was not recorded.
        what: "NaN" or "Inf".
        op: the name of the op; None if it is not known.
        name: the name of the input of a rule, or of a tensor that held it.
        place: the line of the op.
        id: of the record of the op, or of the tensor.
        cause: the numbers that met there, in words.
    """

    number: int
    phase: str
    what: str
    op: str | None = None
    name: str | None = None
    place: Place | None = None
    id: int | None = None
    cause: str | None = None


def spoiled(outer: Mapping[int, Outer], ids: set[int]) -> str | None:
    """The bad number that a leaf among ``ids`` holds, "NaN" or "Inf"; None if all that learn are sound."""
    for id in ids:
        one = outer.get(id)
        tensor = one.thing() if one is not None and one.thing is not None and one.kind != "constant" else None
        if tensor is not None and not nonfinite.finite(raw_of(tensor).detach()):
            return _kind(raw_of(tensor).detach())
    return None


def _kind(data: torch.Tensor) -> str:
    return "NaN" if nonfinite.holds("nan", data) else "Inf"


def in_backward(number: int, frame: FrameRecorder, ops: Mapping[int, Ran], what: str) -> FirstBad:
    """The rule in which it began, in the backward of ``frame``, whose step has spoiled the parameters."""
    bad = False
    for id in sorted(set(frame.arrived), reverse=True):
        ran = ops.get(id)
        if ran is None:
            bad = bad or _bad(frame.gradient_of(id)) is not None
            continue
        if _bad(frame.gradient_of(id)) is not None:
            continue
        for position, source in enumerate(ran.sources):
            found = _bad(frame.contribution_of((id, position))) if type(source) is int else None
            if found is not None:
                name = ran.op.inputs[min(position, len(ran.op.inputs) - 1)]
                return FirstBad(number, "backward", found, ran.op.name, name, ran.place, id)
    return FirstBad(number, "backward" if bad else "step", what)


def _bad(stats: Stats | None) -> str | None:
    if stats is None:
        return None
    if stats.nan or stats.inf:
        return "NaN" if stats.nan else "Inf"
    return None if isfinite(stats.norm) else "NaN"


class Replay:
    """One more run of the forward that led to a loss, op by op, until a result is not finite.

    Args:
        ops: the ops in their order, by number.
        outer: the tensors that no op in the graph made.
        held: the constants that exist, by number.
        kept: the value that the graph keeps of an op or a constant; None if it keeps none.
        saved: what torch's nodes, or ours, have saved.
        names: the names of tensors.
    """

    def __init__(
        self,
        ops: Mapping[int, Ran],
        outer: Mapping[int, Outer],
        held: Mapping[int, Any],
        kept: Callable[[int], torch.Tensor | None],
        saved: Saved,
        names: Mapping[int, str],
    ) -> None:
        self._ops, self._outer, self._held, self._kept, self._saved, self._names = ops, outer, held, kept, saved, names
        self._made: dict[int, torch.Tensor] = {}

    def first(self, number: int) -> FirstBad | None:
        """The first op with a result that is not finite, in the forward of that backward; None if it is too long."""
        if len(self._ops) > MOST:
            return None
        for id, ran in self._ops.items():
            given = [self._input(id, ran, position) for position in range(len(ran.sources))]
            held = self._bad_input(ran, given)
            if held is not None:
                source, value = held
                name = self._names.get(source) or getattr(self._outer.get(source), "name", None)
                cause = translate(
                    "{count:,} of its {numel:,} numbers are NaN",
                    count=nonfinite.count("nan", value),
                    numel=value.numel(),
                )
                return FirstBad(number, "data", "NaN", ran.op.name, name, ran.place, source, cause)
            if (literal := _nan_among(ran, given)) is not None:
                return FirstBad(number, "data", "NaN", ran.op.name, literal, ran.place, id, translate("the number nan"))
            out = self._result(id, ran, given)
            if out is None or nonfinite.finite(out):
                continue
            what = _kind(out)
            known = [one for one in given if one is not _UNKNOWN]
            if not nonfinite.passed_on(what.lower(), known, self._settings(ran)):
                return FirstBad(
                    number, "forward", what, ran.op.name, None, ran.place, id, self._cause(ran, given, out, what)
                )
        return FirstBad(number, "forward", "NaN")

    def _bad_input(self, ran: Ran, given: list[Any]) -> tuple[int, torch.Tensor] | None:
        """An input of the op that no op made and that holds a NaN, and its number."""
        for source, value in zip(ran.sources, given, strict=True):
            outside = type(source) is int and source not in self._ops and isinstance(value, torch.Tensor)
            if outside and differentiable(value.dtype) and nonfinite.holds("nan", value):
                return source, value
        return None

    def _input(self, id: int, ran: Ran, position: int) -> Any:
        source = ran.sources[position]
        if isinstance(source, Literal):
            return source.value
        if source in self._ops:
            return self._made.get(source, _UNKNOWN)
        one = self._outer.get(source)
        thing = None if one is None or one.thing is None else one.thing()
        if thing is None:
            thing = self._held.get(source)
        if thing is not None:
            return torch.from_numpy(thing) if isinstance(thing, np.ndarray) else raw_of(thing).detach()
        if (kept := self._kept(source)) is not None:
            return kept
        shape = None if one is None else tuple(one.shape)
        saved = (data for name, data in self._saved(id) if "result" not in name and tuple(data.shape) == shape)
        return next(saved, _UNKNOWN)

    def _result(self, id: int, ran: Ran, given: list[Any]) -> torch.Tensor | None:
        """The result of an op: kept, saved, or computed again."""
        kept = self._kept(id)
        if kept is None:
            kept = next((data for name, data in self._saved(id) if name in _RESULTS), None)
        if kept is None and isinstance(ran.op, Op) and not any(one is _UNKNOWN for one in given):
            kept = self._again(ran, given)
        if kept is not None and tuple(kept.shape) == tuple(ran.shape):
            self._made[id] = kept
        return kept

    def _again(self, ran: Ran, given: list[Any]) -> torch.Tensor | None:
        op: Any = ran.op
        changed = {at for at, name in enumerate(op.inputs) if name in op.mutates}
        values = [
            one.clone() if at in changed and isinstance(one, torch.Tensor) else one for at, one in enumerate(given)
        ]
        settings = self._settings(ran)
        if "inplace" in settings:
            settings = {**settings, "inplace": False}
        try:
            made = nonfinite.again(op, settings)(values)
        except Exception:  # a kernel that refuses these values: then nothing is known of its result
            return None
        return made if isinstance(made, torch.Tensor) else None

    @staticmethod
    def _settings(ran: Ran) -> dict[str, Any]:
        node = ran.thing()
        return ran.settings if node is None else node.settings

    def _cause(self, ran: Ran, given: list[Any], out: torch.Tensor, what: str) -> str | None:
        """Which numbers met there."""
        if not isinstance(ran.op, Op) or any(one is _UNKNOWN for one in given):
            return None
        named = [
            nonfinite.OpInput(input, (self._names.get(source) if type(source) is int else None) or input, value)
            for input, source, value in zip(ran.op.inputs, ran.sources, given, strict=False)
        ]
        try:
            run = nonfinite.again(ran.op, self._settings(ran))
            found = nonfinite.operands(run, ran.op.stretched, named, what.lower(), out)
            return nonfinite.cause(ran.op, what.lower(), found, given, self._settings(ran), out.dtype)
        except Exception:  # as above
            return None


def _nan_among(ran: Ran, given: list[Any]) -> str | None:
    """The name of an argument of the op that is the number NaN; None if there is none."""
    for name, one in zip(ran.op.inputs, given, strict=False):
        if isinstance(one, float) and isnan(one):
            return name
    return None


class _NotKnown:
    """Stands for a value that is not known."""


_UNKNOWN: Any = _NotKnown()

_RESULTS = ("_saved_result", "_saved_output", "out")
